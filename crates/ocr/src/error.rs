//! What can go wrong with a picture or a model.

use std::path::PathBuf;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of reading pictures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// ONNX Runtime can not be loaded.
    #[error("{}: {why}", path.display())]
    Runtime {
        /// The library.
        path: PathBuf,
        /// What it said.
        why: String,
    },
    /// A model can not be loaded or does not compute what it should.
    #[error("{}: {why}", path.display())]
    Model {
        /// The model.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It is no picture, or a damaged one.
    #[error("the picture is damaged: {0}")]
    Damaged(String),
    /// A format that is not read.
    #[error("a picture in a format that is not read")]
    Format,
    /// It would take too much memory.
    #[error("the picture has {width} × {height} points, more than are read")]
    TooLarge {
        /// Points in a row.
        width: u32,
        /// Rows.
        height: u32,
    },
}
