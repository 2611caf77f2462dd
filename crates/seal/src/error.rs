//! What can go wrong with sealed files.

use std::path::PathBuf;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of sealed files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The passphrase is not the one that the key was sealed with.
    #[error("this is not the passphrase of this home: try again")]
    WrongPassphrase,
    /// The key in the system's keyring opens another home.
    #[error("the key in the keyring is not the key of this home")]
    WrongKey,
    /// The key of this home has no passphrase.
    #[error(
        "the key of this home is in the system's keyring of the computer that encrypted it, and has no passphrase"
    )]
    NoPassphrase,
    /// An empty passphrase protects nothing.
    #[error("the passphrase is empty")]
    EmptyPassphrase,
    /// The file of the key is not one.
    #[error("{}: this is not the key of a home ({why}): put a copy of it in its place", path.display())]
    BadKeyFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The system gave no random numbers, or not the memory that the passphrase asks for.
    #[error("the key can not be made: {0}")]
    System(&'static str),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}
