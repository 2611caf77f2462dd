//! What can go wrong with the catalog, and what to do about it.

use std::path::{Path, PathBuf};

use riddle_types::{Advice, Advised};

/// Result of the catalog.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of the catalog. None of them loses what was committed before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk is full.
    #[error("the disk is full: free some space and try again, nothing that was indexed is lost")]
    DiskFull,
    /// Another connection holds the database too long.
    #[error("the catalog is busy with another program's change: try again in a moment")]
    Busy,
    /// The file is not a healthy database.
    #[error("{}: the catalog is damaged ({why})", path.as_deref().unwrap_or(Path::new("catalog.sqlite")).display())]
    Damaged {
        /// The file, where the damage showed while opening it.
        path: Option<PathBuf>,
        /// What SQLite says.
        why: String,
    },
    /// The file was written by a newer version.
    #[error("{}: the catalog was written by a newer version of Riddle", path.display())]
    TooNew {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by an older version and can not be brought up to date while only reading.
    #[error("{}: the catalog was written by an older version of Riddle", path.display())]
    TooOld {
        /// The file.
        path: PathBuf,
    },
    /// The file is encrypted, and nobody gave the key.
    #[error("{}: the catalog is encrypted", path.display())]
    Sealed {
        /// The file.
        path: PathBuf,
    },
    /// There is no catalog.
    #[error("{}: no catalog here", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The home is in use.
    #[error("another process of Riddle{} is indexing {}: wait for it, or stop it", pid.map_or(String::new(), |pid| format!(" (pid {pid})")), home.display())]
    Locked {
        /// The home folder.
        home: PathBuf,
        /// The holder, if it left its number.
        pid: Option<u32>,
    },
    /// A root lies inside another.
    #[error("{} lies inside {}, which is indexed already", path.display(), root.display())]
    NestedRoot {
        /// The new folder.
        path: PathBuf,
        /// The root around it.
        root: PathBuf,
    },
    /// Roots are absolute: the program may run in another folder tomorrow.
    #[error("{}: not an absolute path", path.display())]
    RelativeRoot {
        /// The path.
        path: PathBuf,
    },
    /// The root was removed.
    #[error("folder number {id} is no longer in the library")]
    UnknownRoot {
        /// Its number.
        id: i64,
    },
    /// No such folder is indexed.
    #[error("{} is not indexed", path.display())]
    UnknownFolder {
        /// The folder.
        path: PathBuf,
    },
    /// Documents from memory can not be scanned.
    #[error("{name} holds documents from memory: there is no folder to scan")]
    VirtualRoot {
        /// Name of the collection.
        name: String,
    },
    /// The embedder was never registered, or was dropped by a switch.
    #[error("the catalog does not know the embedder {embedder}")]
    UnknownEmbedder {
        /// Its identity.
        embedder: String,
    },
    /// A vector does not have the length its embedder was registered with.
    #[error(
        "a vector of {found} numbers for {embedder}, which makes vectors of {expected}: choose the embedder again"
    )]
    WrongVector {
        /// The embedder.
        embedder: String,
        /// Its registered length.
        expected: usize,
        /// The length found.
        found: usize,
    },
    /// The switch would leave chunks without vectors.
    #[error("{missing} chunks have no vector by {embedder} yet")]
    Incomplete {
        /// The embedder to switch to.
        embedder: String,
        /// Chunks without a vector.
        missing: u64,
    },
    /// A file or folder of the home.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Anything else SQLite reports.
    #[error("the catalog: {0}")]
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        // The file beside the database that its connections share could not grow: no space for it, either.
        let no_room = error
            .sqlite_error()
            .is_some_and(|it| it.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE);
        if no_room {
            return Error::DiskFull;
        }
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => Error::DiskFull,
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
                Error::Busy
            }
            Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => {
                Error::Damaged { path: None, why: error.to_string() }
            }
            _ => Error::Sqlite(error),
        }
    }
}

/// Tells a file that is no healthy database from other trouble.
pub(crate) fn refine(path: &Path, error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => {
            Error::Damaged { path: Some(path.to_path_buf()), why: error.to_string() }
        }
        Some(rusqlite::ErrorCode::CannotOpen) => {
            Error::Io { path: path.to_path_buf(), source: std::io::Error::other(error.to_string()) }
        }
        _ => error.into(),
    }
}

impl Advised for Error {
    fn advice(&self) -> Option<Advice> {
        match self {
            Error::Damaged { .. } => Some(Advice::ReplaceCatalog),
            Error::Sealed { .. } => Some(Advice::GivePassphrase),
            Error::TooNew { .. } => Some(Advice::UpdateProgram),
            Error::TooOld { .. } => Some(Advice::UpgradeCatalog),
            Error::UnknownRoot { .. } => Some(Advice::AddFolderAgain),
            Error::UnknownFolder { .. } => Some(Advice::ListFolders),
            Error::NestedRoot { .. } | Error::UnknownEmbedder { .. } | Error::Incomplete { .. } => {
                Some(Advice::UpdateIndex)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn what_sqlite_reports_becomes_what_to_do() {
        let made = |code| Error::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        let told = |code| made(code).to_string();
        // The two forms that a full volume takes, seen on one of 400 KiB.
        assert!(told(ffi::SQLITE_FULL).contains("free some space"));
        assert!(told(ffi::SQLITE_IOERR_SHMSIZE).contains("free some space"));
        assert!(told(ffi::SQLITE_BUSY).contains("try again"));
        assert_eq!(made(ffi::SQLITE_CORRUPT).advice(), Some(Advice::ReplaceCatalog));
        assert!(!told(ffi::SQLITE_IOERR_READ).contains("free some space"));
    }
}
