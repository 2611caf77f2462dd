//! What can go wrong with a measurement, in words that say where and what to do.

use std::path::PathBuf;

use riddle_types::{Advice, Advised, StageError};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of a measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file can not be written or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A name that is none.
    #[error("{name:?} is not a {what}")]
    Unknown {
        /// What was expected.
        what: &'static str,
        /// What was given.
        name: String,
    },
    /// A system that is none.
    #[error("{name:?} is no system: {known}")]
    NoSystem {
        /// What was given.
        name: String,
        /// Those that are.
        known: String,
    },
    /// A folder is in the way of a shape.
    #[error("{}: not written by this version of the program", dir.display())]
    NotOurs {
        /// The folder.
        dir: PathBuf,
    },
    /// The model's directory lacks something that the measurement needs.
    #[error("{}: {why}", dir.display())]
    BadModel {
        /// The directory.
        dir: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// More is asked of the texts than they can be.
    #[error(
        "{tokens} tokens are not enough for a pair of this model: its question and marks take {taken}"
    )]
    TooFewTokens {
        /// Asked for.
        tokens: usize,
        /// Needed before the first word of a document.
        taken: usize,
    },
    /// The peers' libraries are not there.
    #[error("{}: {why}", python.display())]
    Python {
        /// The Python that was asked.
        python: PathBuf,
        /// What it said.
        why: String,
        /// What to install.
        packages: String,
    },
    /// The process that was to be measured did not answer.
    #[error("measuring {step:?}: {why}")]
    Worker {
        /// The configuration.
        step: String,
        /// What its process said, or how it ended.
        why: String,
    },
    /// The façade refused or failed.
    #[error(transparent)]
    Riddle(#[from] riddle_rag::Error),
    /// A language model can not be written or read.
    #[error(transparent)]
    Weights(#[from] riddle_weights::Error),
    /// The engine failed.
    #[error(transparent)]
    Rerank(#[from] StageError),
    /// A message between the two processes is not what it should be.
    #[error("the measuring processes do not understand each other ({0}): this is a bug")]
    Message(#[from] serde_json::Error),
    /// The pipe between the two processes broke.
    #[error("the measured process: {0}")]
    Pipe(#[source] std::io::Error),
}

impl Advised for Error {
    fn advice(&self) -> Option<Advice> {
        match self {
            Error::Riddle(error) => error.advice(),
            Error::Weights(error) => error.advice(),
            Error::Rerank(error) => error.advice(),
            _ => None,
        }
    }
}
