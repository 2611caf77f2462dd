//! What can go wrong between a text and a score.

use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Errors of models and tokenizers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The weights or the configuration.
    #[error(transparent)]
    Weights(#[from] riddle_weights::Error),
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
    #[error("{}: this model has no classification head with one label, so it can not score pairs: a cross-encoder is needed (BertForSequenceClassification)", dir.display())]
    NoHead {
        /// The model directory.
        dir: PathBuf,
    },
}
