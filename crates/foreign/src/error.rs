//! What can go wrong, in words for whoever writes the program that called.

use std::path::PathBuf;

use riddle_types::{Advice, Advised};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What the engine reports.
    #[error(transparent)]
    Engine(#[from] riddle_grating::Error),
    /// No model of that name.
    #[error("there is no model {name:?} in {}: give a model's folder, or fetch it with Riddle first", dir.display())]
    NoModel {
        /// The name as given.
        name: String,
        /// The model store.
        dir: PathBuf,
    },
    /// A folder without a model.
    #[error("{} is no model's folder, which holds config.json, tokenizer.json and weights", path.display())]
    NoModelAt {
        /// The folder as given.
        path: PathBuf,
    },
    /// An option makes no sense.
    #[error("{0}")]
    BadOption(String),
    /// A calibration that can not be used.
    #[error("{}: {why}", path.display())]
    BadCalibration {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A file.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Error {
    /// Whether nothing but the caller's arguments is wrong.
    #[must_use]
    pub fn is_bad_request(&self) -> bool {
        use riddle_grating::Error as Engine;
        matches!(
            self,
            Error::BadOption(_)
                | Error::BadCalibration { .. }
                | Error::Engine(Engine::BadOption(_) | Engine::EmptyQuery)
        )
    }

    /// Whether there is no such model.
    #[must_use]
    pub fn is_no_model(&self) -> bool {
        matches!(self, Error::NoModel { .. } | Error::NoModelAt { .. })
    }

    /// Whether the memory budget is too small for the request.
    #[must_use]
    pub fn is_out_of_budget(&self) -> bool {
        matches!(self, Error::Engine(riddle_grating::Error::BudgetTooSmall { .. }))
    }

    /// Whether the observer has stopped it.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        matches!(self, Error::Engine(riddle_grating::Error::Cancelled { .. }))
    }
}

impl Advised for Error {
    fn advice(&self) -> Option<Advice> {
        match self {
            Error::Engine(error) => error.advice(),
            _ => None,
        }
    }
}
