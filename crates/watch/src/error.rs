//! What can go wrong while looking at folders.

use std::path::PathBuf;

use riddle_types::{Advice, Advised};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Errors of scan and watcher.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The root is not there: an unmounted disk, a renamed folder. Nothing may be concluded from it.
    #[error("{}: the folder is not there now (an unmounted disk, or renamed): what is indexed of it stays; mount it, or remove it from the library", path.display())]
    RootMissing {
        /// The root.
        path: PathBuf,
    },
    /// The root is a file.
    #[error("{}: not a folder: index the folder that holds it", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// The root can not be read.
    #[error("{}: {source}: allow reading the folder, or remove it from the library", path.display())]
    Unreadable {
        /// The root.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The system refuses to watch.
    #[error("can not watch {}: {source}", path.display())]
    Watch {
        /// The root.
        path: PathBuf,
        /// Why.
        source: notify::Error,
    },
}

impl Advised for Error {
    fn advice(&self) -> Option<Advice> {
        match self {
            Error::Watch { .. } => Some(Advice::UpdateIndexNowAndThen),
            _ => None,
        }
    }
}
