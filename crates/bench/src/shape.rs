//! Models that have everything of a published one but its training.

mod architecture;
mod directory;
mod language;
mod random;
mod vocabulary;

use std::str::FromStr;

pub use directory::prepare;
pub(crate) use directory::shape_of;
pub use language::prepare_language;
pub use random::NumberFormat;
pub(crate) use random::Random;
pub(crate) use vocabulary::{SYLLABLES, syllable};

use crate::Error;

/// A published reranker whose shape can be written: every tensor, the vocabulary's size and kind, the
/// configuration. The weights are random: time and memory are the model's, scores mean nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Qwen/Qwen3-Reranker-0.6B.
    Qwen3Reranker06B,
    /// Qwen/Qwen3-Reranker-4B.
    Qwen3Reranker4B,
    /// BAAI/bge-reranker-v2-m3.
    BgeRerankerV2M3,
    /// cross-encoder/ms-marco-MiniLM-L-6-v2.
    MiniLmL6,
    /// cross-encoder/ms-marco-MiniLM-L-12-v2.
    MiniLmL12,
}

impl Shape {
    /// All of them.
    pub const ALL: [Shape; 5] = [
        Shape::Qwen3Reranker06B,
        Shape::Qwen3Reranker4B,
        Shape::BgeRerankerV2M3,
        Shape::MiniLmL6,
        Shape::MiniLmL12,
    ];

    /// As it is written on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Shape::Qwen3Reranker06B => "qwen3-reranker-0.6b",
            Shape::Qwen3Reranker4B => "qwen3-reranker-4b",
            Shape::BgeRerankerV2M3 => "bge-reranker-v2-m3",
            Shape::MiniLmL6 => "minilm-l6",
            Shape::MiniLmL12 => "minilm-l12",
        }
    }

    /// The number format in which the original is published.
    pub fn published_format(self) -> NumberFormat {
        match self {
            Shape::Qwen3Reranker06B | Shape::Qwen3Reranker4B => NumberFormat::Bf16,
            Shape::BgeRerankerV2M3 | Shape::MiniLmL6 | Shape::MiniLmL12 => NumberFormat::F32,
        }
    }
}

impl FromStr for Shape {
    type Err = Error;

    fn from_str(name: &str) -> Result<Shape, Error> {
        let found = Shape::ALL.into_iter().find(|it| it.as_str() == name);
        found.ok_or_else(|| Error::Unknown { what: "shape", name: name.to_owned() })
    }
}

impl FromStr for NumberFormat {
    type Err = Error;

    fn from_str(name: &str) -> Result<NumberFormat, Error> {
        let found = NumberFormat::ALL.into_iter().find(|it| it.as_str() == name);
        found.ok_or_else(|| Error::Unknown { what: "number format", name: name.to_owned() })
    }
}
