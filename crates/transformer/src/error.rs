//! What can go wrong between a text and a score.

use std::path::PathBuf;

use riddle_types::{Advice, Advised};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of models and tokenizers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The weights or the configuration.
    #[error(transparent)]
    Weights(#[from] riddle_weights::Error),
    /// A store's matrix is not laid out as the products read it.
    #[error("{}: tensor {tensor:?} takes {bytes} bytes as {format}, which is not what its shape asks for", dir.display())]
    BadLayout {
        /// The model directory.
        dir: PathBuf,
        /// The tensor.
        tensor: String,
        /// How it is stored.
        format: &'static str,
        /// Its bytes.
        bytes: u64,
    },
    /// A model can not be cut into slices of several fidelities.
    #[error("{}: this model has no shards: {why}", dir.display())]
    NotElastic {
        /// The model directory.
        dir: PathBuf,
        /// What is in the way.
        why: String,
    },
    /// The tokenizer file can not be used.
    #[error("{}: {why}", path.display())]
    BadTokenizer {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A text can not be tokenized.
    #[error("the text can not be tokenized: {0}")]
    Tokenize(String),
    /// The model has no head that scores pairs.
    #[error("{}: this model can not score pairs, a cross-encoder is needed: {why}", dir.display())]
    NoHead {
        /// The model directory.
        dir: PathBuf,
        /// What is missing.
        why: String,
    },
    /// The model has no head over its vocabulary.
    #[error("{}: this model gives terms no weights: {why}", dir.display())]
    NoTermWeights {
        /// The model directory.
        dir: PathBuf,
        /// What is missing.
        why: String,
    },
    /// What comes after the layers is not computed.
    #[error("{}: {why}", path.display())]
    Module {
        /// The file that says so.
        path: PathBuf,
        /// What is not supported.
        why: String,
    },
    /// The configuration names an architecture that is not known.
    #[error("{}: model_type {family:?} is not supported: \"bert\", \"xlm-roberta\", \"mpnet\", \"modernbert\", \"new\" (GTE), \"deberta-v2\", \"qwen2\", \"qwen3\", \"gemma3_text\" (embedders) and \"minicpm\" (layerwise rerankers) are", dir.join("config.json").display())]
    UnknownFamily {
        /// The model directory.
        dir: PathBuf,
        /// What it says.
        family: String,
    },
    /// The limit leaves no room for text.
    #[error(
        "pairs of {max_tokens} tokens hold no text beside what the model's template needs: allow at least {least}"
    )]
    NoRoom {
        /// The limit.
        max_tokens: usize,
        /// The smallest that makes sense.
        least: usize,
    },
}

impl Advised for Error {
    fn advice(&self) -> Option<Advice> {
        match self {
            Error::Weights(error) => error.advice(),
            Error::BadLayout { .. } => Some(Advice::ConvertModel),
            _ => None,
        }
    }
}
