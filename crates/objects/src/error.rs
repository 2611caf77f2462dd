//! What can go wrong with an object store.

use riddle_types::{Advice, Advised};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of an object store. No message holds a secret or a signed address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What is no address of one.
    #[error("{address:?} is no address of an object store: {why}")]
    Address {
        /// As given, without a user's name and password.
        address: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// What is no key.
    #[error("a key of an object store is ACCESS:SECRET")]
    Key,
    /// A signed request would be sent in clear over a network.
    #[error("{server} is not asked with a key: the connection is not encrypted")]
    OpenSecret {
        /// Scheme, host and port.
        server: String,
    },
    /// Nobody answers there.
    #[error("the object store {server} can not be reached ({why})")]
    Unreachable {
        /// Scheme, host and port.
        server: String,
        /// What the system says.
        why: String,
    },
    /// The store wants a key, or another one.
    #[error("the object store {server} does not let this key in ({why})")]
    Refused {
        /// Scheme, host and port.
        server: String,
        /// What it says.
        why: String,
    },
    /// There is no such object, or no such bucket.
    #[error("the object store {server} does not have it ({why})")]
    Absent {
        /// Scheme, host and port.
        server: String,
        /// What it says.
        why: String,
    },
    /// It could not do what it was asked, or answered something else.
    #[error("the object store {server} could not {what}: {why}")]
    Server {
        /// Scheme, host and port.
        server: String,
        /// What it was asked.
        what: &'static str,
        /// What it says.
        why: String,
    },
    /// The file is larger than a store takes at once, or than was agreed.
    #[error("{bytes} bytes are more than the {limit} that are kept or fetched at once")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The file here could not be read or written.
    #[error("the file here can not be read or written: {0}")]
    Io(#[from] std::io::Error),
}

impl Error {
    /// Whether it may work in a moment.
    pub fn is_passing(&self) -> bool {
        matches!(self, Error::Unreachable { .. })
    }
}

impl Advised for Error {
    fn advice(&self) -> Option<Advice> {
        match self {
            Error::Key | Error::Refused { .. } => Some(Advice::GiveOriginalsKey),
            Error::Address { .. }
            | Error::OpenSecret { .. }
            | Error::Unreachable { .. }
            | Error::Absent { .. }
            | Error::Server { .. }
            | Error::TooLarge { .. }
            | Error::Io(_) => None,
        }
    }
}
