//! What can go wrong with an index.

use std::path::PathBuf;

use riddle_types::{Advice, Advised, StageError};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of the indexes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The index is of another version or damaged: it must be made anew from the catalog.
    #[error("the search index {} must be built again ({why})", dir.display())]
    Rebuild {
        /// Its folder.
        dir: PathBuf,
        /// Why.
        why: String,
    },
    /// A file of the index is not what was written: it must be made anew from the catalog, and who follows the log
    /// need not notice.
    #[error("the search index {} is damaged ({why})", dir.display())]
    Damaged {
        /// Its folder.
        dir: PathBuf,
        /// Which file, and in what way.
        why: String,
    },
    /// A file of the index.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// tantivy.
    #[error("the keyword index: {0}")]
    Tantivy(#[from] tantivy::TantivyError),
    /// Exact vectors could not be read.
    #[error("the vectors: {0}")]
    Source(StageError),
    /// The query's vector is of another length.
    #[error(
        "the query has a vector of {actual} numbers, the index holds vectors of {expected}: the embedder was changed"
    )]
    Dimensions {
        /// The query's.
        actual: usize,
        /// The index's.
        expected: usize,
    },
}

impl Error {
    /// Whether the index has to be made anew.
    pub fn wants_rebuild(&self) -> bool {
        matches!(self, Error::Rebuild { .. } | Error::Damaged { .. })
    }
}

impl Advised for Error {
    fn advice(&self) -> Option<Advice> {
        match self {
            Error::Rebuild { .. } | Error::Dimensions { .. } => Some(Advice::UpdateIndex),
            Error::Damaged { .. } => Some(Advice::RepairIndexes),
            Error::Source(error) => error.advice(),
            _ => None,
        }
    }
}
