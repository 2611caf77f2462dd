//! What can go wrong above the stages. What can be done about it is [`Advice`], which the tops put into words.

use std::path::{Path, PathBuf};

use riddle_types::{Advice, Advised, StageError, Trouble};

/// Result of the façade.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the façade; [`advice`](Advised::advice) is what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another program has no such model on this machine.
    #[error("{program} has no model named {name:?} on this machine")]
    NotElsewhere {
        /// The program.
        program: String,
        /// The name, as the program says it.
        name: String,
    },
    /// Nothing was indexed under this home.
    #[error("nothing is indexed in {}", home.display())]
    NothingIndexed {
        /// The home folder.
        home: PathBuf,
    },
    /// The path to index does not exist or can not be read.
    #[error("can not index {}: {why}", path.display())]
    BadRoot {
        /// The path as given.
        path: PathBuf,
        /// What is wrong with it.
        why: Trouble,
    },
    /// No such model.
    #[error("no model named {name:?} is installed")]
    NoModel {
        /// The name as given.
        name: String,
    },
    /// A path where no model is.
    #[error("{} is no model's folder, which holds config.json, tokenizer.json and weights", path.display())]
    NoModelAt {
        /// The path as given.
        path: PathBuf,
    },
    /// A server where a model on this machine is needed.
    #[error("{server} is a server, and this needs a model on this machine")]
    NotHere {
        /// Its address.
        server: String,
    },
    /// The model is there and can not be used.
    #[error("the model in {} can not be used: {source}", dir.display())]
    BadModel {
        /// Its directory.
        dir: PathBuf,
        /// Why.
        source: StageError,
    },
    /// The request makes no sense.
    #[error("{0}")]
    BadRequest(Trouble),
    /// A file or folder of the home.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The catalog.
    #[error(transparent)]
    Catalog(#[from] riddle_catalog::Error),
    /// The key of an encrypted home.
    #[error(transparent)]
    Seal(#[from] riddle_seal::Error),
    /// A search index.
    #[error(transparent)]
    Retrieval(#[from] riddle_retrieval::Error),
    /// A library that lives elsewhere.
    #[error(transparent)]
    Shared(#[from] riddle_milvus::Error),
    /// The store that keeps the files of one.
    #[error(transparent)]
    Originals(#[from] riddle_objects::Error),
    /// No shared library of that name is known.
    #[error("no shared library named {name:?} is known")]
    NoLibrary {
        /// The name as given.
        name: String,
    },
    /// The model store.
    #[error(transparent)]
    Models(#[from] riddle_models::Error),
    /// The scan or the watcher.
    #[error(transparent)]
    Watch(#[from] riddle_watch::Error),
    /// A stage behind a seam.
    #[error("{stage}: {source}")]
    Stage {
        /// Its name.
        stage: &'static str,
        /// What it reported.
        source: StageError,
    },
}

impl Error {
    /// [`NoModelAt`](Error::NoModelAt) for what is a folder or begins like a path, which names of hubs with their
    /// slashes do not; else [`NoModel`](Error::NoModel).
    pub fn no_model(name: &str) -> Error {
        let path = Path::new(name);
        if path.is_dir() || path.is_absolute() || name.starts_with('.') {
            return Error::NoModelAt { path: path.to_path_buf() };
        }
        Error::NoModel { name: name.to_owned() }
    }

    /// Whether another process holds the home: it can be tried again.
    pub fn is_locked(&self) -> bool {
        matches!(self, Error::Catalog(riddle_catalog::Error::Locked { .. }))
    }

    /// What whoever needs the catalog at `path` is told while it is locked.
    pub fn sealed(path: &Path) -> Error {
        riddle_catalog::Error::Sealed { path: path.to_path_buf() }.into()
    }

    /// Whether the home is encrypted and nobody has unlocked it.
    pub fn is_sealed(&self) -> bool {
        matches!(self, Error::Catalog(riddle_catalog::Error::Sealed { .. }))
    }

    /// A request that makes no sense because of another error.
    pub(crate) fn bad<E: Advised + std::fmt::Display>(error: E) -> Error {
        Error::BadRequest(Trouble::of(&error))
    }

    /// Wraps a seam's error with the stage's name.
    pub(crate) fn stage(stage: &'static str) -> impl Fn(StageError) -> Error {
        move |source| Error::Stage { stage, source }
    }
}

impl Advised for Error {
    fn advice(&self) -> Option<Advice> {
        match self {
            Error::NothingIndexed { .. } => Some(Advice::AddFolder),
            Error::NotElsewhere { .. } | Error::NotHere { .. } => Some(Advice::ListModels),
            Error::NoModel { name } => Some(Advice::FindModel { name: name.clone() }),
            Error::NoModelAt { .. } => Some(Advice::GiveModel),
            Error::BadRoot { why, .. } | Error::BadRequest(why) => why.advice.clone(),
            Error::BadModel { source, .. } | Error::Stage { source, .. } => source.advice(),
            Error::Catalog(error) => error.advice(),
            Error::Retrieval(error) => error.advice(),
            Error::Shared(error) => error.advice(),
            Error::Originals(error) => error.advice(),
            Error::NoLibrary { .. } => Some(Advice::AddLibrary),
            Error::Models(error) => error.advice(),
            Error::Watch(error) => error.advice(),
            Error::Io { .. } | Error::Seal(_) => None,
        }
    }
}
