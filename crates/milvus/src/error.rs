//! What can go wrong with a library that lives elsewhere.

use riddle_types::{Advice, Advised};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a shared library. No message holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What is no address of one.
    #[error("{address:?} is no address of a shared library: {why}")]
    Address {
        /// As given, without a user's name and password.
        address: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Nobody answers there.
    #[error("{server} can not be reached ({why})")]
    Unreachable {
        /// Scheme, host and port.
        server: String,
        /// What the system says.
        why: String,
    },
    /// Somebody answers who is not Milvus.
    #[error("what answers at {server} is not Milvus ({why})")]
    NotMilvus {
        /// Scheme, host and port.
        server: String,
        /// What it did instead.
        why: String,
    },
    /// It took too long.
    #[error("{server} has not answered within {seconds} s")]
    Slow {
        /// Scheme, host and port.
        server: String,
        /// The limit.
        seconds: u64,
    },
    /// The server wants a user and a password, or other ones.
    #[error("{server} does not let this user in ({why})")]
    Refused {
        /// Scheme, host and port.
        server: String,
        /// What it says.
        why: String,
    },
    /// A secret would be sent in clear over a network.
    #[error("the password for {server} is not sent: the connection is not encrypted")]
    OpenSecret {
        /// Scheme, host and port.
        server: String,
    },
    /// The server could not do what it was asked.
    #[error("{server} could not {what}: {why}")]
    Server {
        /// Scheme, host and port.
        server: String,
        /// What it was asked.
        what: &'static str,
        /// What it says.
        why: String,
    },
    /// The server answered something that is no answer to this.
    #[error("{server} has given an answer that makes no sense: {why}")]
    Answer {
        /// Scheme, host and port.
        server: String,
        /// In which way.
        why: String,
    },
    /// There is no library of that name on the server.
    #[error("there is no library at {address} yet")]
    Absent {
        /// The library.
        address: String,
    },
    /// It was written by a newer version of the program.
    #[error(
        "the library at {address} was written by a newer version (its form is {found}, this program knows {known})"
    )]
    Newer {
        /// The library.
        address: String,
        /// Its form.
        found: u32,
        /// The newest that is known.
        known: u32,
    },
    /// It was begun by an older version of the program, and can not be written as it is now.
    #[error("the library at {address} was begun by an older version, in another form")]
    Older {
        /// The library.
        address: String,
    },
    /// It does not say who may read what, and that was to be looked at.
    #[error(
        "the library at {address} does not say who may read what: an older version has written it"
    )]
    WithoutRules {
        /// The library.
        address: String,
    },
    /// Its vectors are another embedder's.
    #[error(
        "the library at {address} was written with the embedder {theirs}, and {ours} is used here"
    )]
    Embedder {
        /// The library.
        address: String,
        /// Identity of the one that it was written with.
        theirs: String,
        /// Identity of the one here; `none` where there is none.
        ours: String,
    },
    /// Other homes write it, too.
    #[error("the library at {address} is written from {writers}, too")]
    Others {
        /// The library.
        address: String,
        /// The machines of those homes.
        writers: String,
    },
    /// Nobody of that name writes it, or more than one does.
    #[error(
        "{writer:?} names none, or more than one, of the computers that write the library at {address}: {known}"
    )]
    NoWriter {
        /// The library.
        address: String,
        /// The machine, or the key, that was given.
        writer: String,
        /// Who does write it, or who has that name.
        known: String,
    },
    /// Somebody else has taken this home's place, or removed what it wrote, while it was writing.
    #[error(
        "somebody has removed what this computer writes to the library at {address}: this run has stopped"
    )]
    LeaseLost {
        /// The library.
        address: String,
    },
    /// The runtime inside could not be started.
    #[error("no thread could be started for the network: {0}")]
    Runtime(std::io::Error),
}

impl Error {
    /// Whether the library can not be had at this moment, and may be in another.
    pub fn is_passing(&self) -> bool {
        matches!(self, Error::Unreachable { .. } | Error::Slow { .. })
    }
}

impl Advised for Error {
    fn advice(&self) -> Option<Advice> {
        match self {
            Error::Address { .. } => Some(Advice::GiveLibraryAddress),
            Error::Unreachable { .. } | Error::NotMilvus { .. } | Error::Slow { .. } => {
                Some(Advice::CheckLibraryServer)
            }
            Error::Refused { .. } => Some(Advice::GiveLibraryKey),
            Error::OpenSecret { .. } => Some(Advice::EncryptLibrary),
            Error::Absent { .. } => Some(Advice::PushLibrary),
            Error::Newer { .. } => Some(Advice::UpdateProgram),
            Error::Older { .. } | Error::WithoutRules { .. } => Some(Advice::WriteLibraryAnew),
            Error::Embedder { theirs, .. } => {
                Some(Advice::UseLibraryEmbedder { embedder: theirs.clone() })
            }
            Error::Others { .. } => Some(Advice::TakeLibraryOver),
            Error::LeaseLost { .. } => Some(Advice::WaitForLibrary),
            Error::NoWriter { .. }
            | Error::Server { .. }
            | Error::Answer { .. }
            | Error::Runtime(_) => None,
        }
    }
}
