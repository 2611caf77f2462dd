//! Where the home is and what the process may use: one value in, nothing read from the environment.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, RwLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use riddle_ingest::WorkerCommand;
use riddle_milvus::Secret;
use riddle_models::{ModelStore, Places, web::shown};
use riddle_seal::{Key, Place};
use riddle_types::{Embedder, SparseEncoder};

use super::{looked::Looked, open_servers::OpenServers};
use crate::contract::{Error, Result, StageServer};

/// Files above this size are recorded as too large and not opened. 64 MiB holds any text that people
/// write and most PDFs; a bigger file would stall the queue for everyone behind it.
pub const DEFAULT_MAX_FILE_BYTES: u64 = 64 << 20;

/// Name of the embedder that a fresh home uses.
pub const DEFAULT_EMBEDDER: &str = "all-MiniLM-L6-v2";

/// Everything the façade needs to know about its surroundings.
#[derive(Debug, Clone)]
pub struct Config {
    /// The folder that holds all state.
    pub home: PathBuf,
    /// The model store; `None`: `models` in the home.
    pub models: Option<PathBuf>,
    /// Where other programs keep language models.
    pub elsewhere: Places,
    /// Where calibrations of rerankers are kept; `None`: `calibration` in the home.
    pub calibrations: Option<PathBuf>,
    /// Program that parses untrusted files, and its arguments.
    pub parse_worker: WorkerCommand,
    /// Threads for computation.
    pub threads: usize,
    /// Refuses every network access.
    pub offline: bool,
    /// The same, for whoever may change it while clones of this configuration are in use; what a search asks looks at
    /// it every time.
    pub switched_off: Arc<AtomicBool>,
    /// Largest file that is read, in bytes.
    pub max_file_bytes: u64,
    /// Bytes that the embedder's weights, and what it computes with them, may take; `None`: as much as it needs. Who
    /// opens the home puts its setting here.
    pub embedder_memory: Option<u64>,
    /// Opens the servers of shared libraries, before a key that the system keeps.
    pub library_key: Option<Secret>,
    /// Opens the stores of shared libraries' files, `ACCESS:SECRET`, before a key that the system keeps.
    pub originals_key: Option<Secret>,
    /// Opens the server that reranks, before a key that the system keeps.
    pub ranker_key: Option<Secret>,
    /// Opens the server that embeds, before a key that the system keeps.
    pub embedder_key: Option<Secret>,
    /// The encoders that clones of this configuration have open.
    pub shared: SharedEncoders,
    /// What opens an encrypted home, once somebody has unlocked it.
    pub key: HomeKey,
}

impl Config {
    /// Defaults over the home folder: this program parses its own files, on all cores.
    pub fn new(home: impl Into<PathBuf>) -> Config {
        // A program that can not name itself can not start its parser; the spawn then fails with the
        // name that was tried, file by file, and the scan goes on.
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("riddle"));
        Config {
            home: home.into(),
            models: None,
            elsewhere: Places::default(),
            calibrations: None,
            parse_worker: WorkerCommand {
                program,
                args: vec!["parse-worker".into()],
                secrets: Vec::new(),
            },
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            offline: false,
            switched_off: Arc::default(),
            max_file_bytes: DEFAULT_MAX_FILE_BYTES,
            embedder_memory: None,
            library_key: None,
            originals_key: None,
            ranker_key: None,
            embedder_key: None,
            shared: SharedEncoders::default(),
            key: HomeKey::default(),
        }
    }

    /// The platform's data folder for Riddle, if the environment tells where the user's home is.
    pub fn default_home() -> Option<PathBuf> {
        let var =
            |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        if cfg!(windows) {
            return Some(var("LOCALAPPDATA")?.join("Riddle"));
        }
        if cfg!(target_os = "macos") {
            return Some(var("HOME")?.join("Library/Application Support/Riddle"));
        }
        // The XDG specification says to ignore a relative XDG_DATA_HOME.
        let data = var("XDG_DATA_HOME").filter(|it| it.is_absolute());
        Some(data.or_else(|| Some(var("HOME")?.join(".local/share")))?.join("riddle"))
    }

    /// Whether no network may be used now.
    pub(crate) fn is_offline(&self) -> bool {
        self.offline || self.switched_off.load(Ordering::Acquire)
    }

    /// The model store.
    ///
    /// # Errors
    /// When its folder can not be made or read.
    pub fn model_store(&self) -> Result<ModelStore> {
        ModelStore::open(&self.models_dir()).map_err(Error::from)
    }

    /// Folder of the model store.
    pub fn models_dir(&self) -> PathBuf {
        self.models.clone().unwrap_or_else(|| self.home.join("models"))
    }

    /// Folder of the calibrations.
    pub fn calibrations_dir(&self) -> PathBuf {
        self.calibrations.clone().unwrap_or_else(|| self.home.join("calibration"))
    }

    /// Folder of what rerankers with a deadline need: shards, and what was measured.
    pub(crate) fn deadline_dir(&self) -> PathBuf {
        self.home.join("deadline")
    }

    /// A file or folder of the home, and the key that its content is sealed with.
    pub(crate) fn place(&self, name: &str) -> Place {
        Place::new(self.home.join(name), self.key.get())
    }

    pub(crate) fn catalog(&self) -> Place {
        self.place("catalog.sqlite")
    }

    pub(crate) fn keyword_index(&self) -> Place {
        self.place("keyword")
    }

    /// One folder per embedder: vectors of two models never meet.
    pub(crate) fn vector_index(&self, embedder: &str) -> Place {
        let digest = blake3::hash(embedder.as_bytes()).to_hex();
        self.place("vector").join(&digest[..16])
    }

    /// One folder per sparse encoder, as of vectors.
    pub(crate) fn sparse_index(&self, encoder: &str) -> Place {
        let digest = blake3::hash(encoder.as_bytes()).to_hex();
        self.place("terms").join(&digest[..16])
    }

    /// The directory of a model given by name or path.
    ///
    /// # Errors
    /// [`Error::NoModel`] or [`Error::NoModelAt`] when neither is there, [`Error::NotHere`] for a server; when the
    /// models' folder can not be read.
    pub fn model_dir(&self, name: &str) -> Result<PathBuf> {
        if let Some(server) = StageServer::of(name) {
            return Err(Error::NotHere { server: shown(&server.url) });
        }
        let as_path = Path::new(name);
        // A list of modules may lead to where the configuration is.
        if ["config.json", "modules.json"].iter().any(|it| as_path.join(it).is_file()) {
            return Ok(as_path.to_path_buf());
        }
        if let Some(model) = self.model_store()?.find(name) {
            return Ok(model.dir);
        }
        Err(Error::no_model(name))
    }
}

/// The key of a home, shared by the clones of a configuration; none before it is unlocked, and none in a home that is
/// not encrypted.
#[derive(Debug, Default, Clone)]
pub struct HomeKey(Arc<RwLock<Option<Key>>>);

impl HomeKey {
    pub(crate) fn get(&self) -> Option<Key> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, key: Option<Key>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = key;
    }
}

/// The encoders of a kind that are open in this process, by directory, and numbers of a vector where not all are kept.
pub(super) type Open<T> = Mutex<HashMap<(PathBuf, Option<usize>), Weak<T>>>;

/// The embedders and sparse encoders that are open in this process, and what is known of other programs' models:
/// indexing and searching use one between them, and nobody keeps one open that nobody uses.
#[derive(Clone, Default)]
pub struct SharedEncoders {
    pub(super) embedders: Arc<Open<dyn Embedder>>,
    pub(super) sparse: Arc<Open<dyn SparseEncoder>>,
    pub(super) servers: Arc<OpenServers>,
    pub(super) looked: Arc<Looked>,
}

impl std::fmt::Debug for SharedEncoders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedEncoders")
    }
}
