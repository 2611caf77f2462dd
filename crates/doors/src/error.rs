//! What can go wrong at a door, in words that say what to do.

use std::path::PathBuf;

use riddle_types::{Advice, Advised};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error at a door.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The library has something to say.
    #[error(transparent)]
    Rag(#[from] riddle_rag::Error),
    /// No socket.
    #[error("{address} can not be listened on: {source}")]
    Bind {
        /// Host and port.
        address: String,
        /// Why.
        source: std::io::Error,
    },
    /// No socket in the file system.
    #[error("{} can not be listened at: {source}", path.display())]
    BindSocket {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Beyond this machine without having been asked twice.
    #[error("{address} can be reached from other machines")]
    BeyondThisMachine {
        /// Host and port.
        address: String,
    },
    /// A file of the home, or of a client's configuration.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Somebody serves this home already.
    #[error("this library is served already, at {url}: stop that first")]
    AlreadyServed {
        /// Where.
        url: String,
    },
    /// The request makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// More than whoever asks may see or do.
    #[error("{0}: the person decides that in Riddle")]
    NotAllowed(String),
    /// A model or passage that there is not.
    #[error("{0}")]
    NotFound(String),
    /// More than is taken at once.
    #[error("{0}")]
    TooLarge(String),
    /// Too many wait already.
    #[error("{waiting} requests are waiting already: try again in {seconds} s")]
    Busy {
        /// How many.
        waiting: usize,
        /// When it may be worth another try.
        seconds: u64,
    },
    /// Whoever asked has gone, or the program ends.
    #[error("stopped")]
    Stopped,
    /// It took longer than anybody waits.
    #[error("no answer within {seconds} s: it was stopped")]
    TooSlow {
        /// The limit.
        seconds: u64,
    },
    /// A bug: it costs this request and not the program.
    #[error("internal error: {0}: this is a bug, please report it")]
    Internal(String),
    /// A configuration file that is not changed, because it can not be understood.
    #[error("{}: {why}: nothing was changed", path.display())]
    BadConfiguration {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl Advised for Error {
    fn advice(&self) -> Option<Advice> {
        match self {
            Error::Rag(error) => error.advice(),
            Error::Bind { .. } => Some(Advice::ChoosePort),
            Error::BindSocket { .. } => Some(Advice::ChooseSocket),
            Error::BeyondThisMachine { .. } => Some(Advice::AllowOtherMachines),
            _ => None,
        }
    }
}
