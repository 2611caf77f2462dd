//! What models do, and how their weights are stored.

use serde::{Deserialize, Serialize};

/// What a model does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Text to vector.
    Embedder,
    /// Text to weights of terms.
    SparseEncoder,
    /// Question and passage to score.
    Reranker,
    /// Text to text.
    Llm,
    /// Files to text: an engine for a format, what reads pictures, and what they run on.
    Reader,
}

/// How its weights are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// safetensors.
    Safetensors,
    /// GGUF.
    Gguf,
    /// ONNX.
    Onnx,
    /// Our own store, `model.riddle`.
    Riddle,
    /// A library that is loaded into the program.
    Library,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Kind::Embedder => "embedder",
            Kind::SparseEncoder => "sparse",
            Kind::Reranker => "reranker",
            Kind::Llm => "llm",
            Kind::Reader => "reader",
        })
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Format::Safetensors => "safetensors",
            Format::Gguf => "gguf",
            Format::Onnx => "onnx",
            Format::Riddle => "riddle",
            Format::Library => "library",
        })
    }
}
