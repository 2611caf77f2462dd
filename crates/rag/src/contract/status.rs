//! What there is: the state of a home, of its parts, and of the libraries that it knows.

use std::{collections::BTreeMap, path::PathBuf};

use riddle_types::{FileState, Trouble};
use serde::{Deserialize, Serialize};

use super::{events::Rest, notice::Problem, report::nothing, request::ReadScans};

/// State of everything.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Status {
    /// The home folder.
    pub home: PathBuf,
    /// Folders that are indexed.
    pub roots: Vec<RootStatus>,
    /// Folders whose text never leaves this machine, indexed or not, whole or as a part of one above.
    pub confined: Vec<PathBuf>,
    /// Files per state.
    pub states: BTreeMap<&'static str, u64>,
    /// Files that are indexed, per kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Files that are new or have changed.
    pub lately: LatelyStatus,
    /// Files waiting in the queue.
    pub queue: u64,
    /// Chunks in the catalog.
    pub chunks: u64,
    /// How many of them can be found by meaning; `None` before there is an embedder.
    pub meaning: Option<MeaningStatus>,
    /// Pages that are pictures.
    pub pictures: PictureStatus,
    /// Bytes on disk: `catalog`, `keyword`, `vector`, and `terms` where terms are weighed.
    pub index_bytes: BTreeMap<&'static str, u64>,
    /// How fresh the index is.
    pub index: IndexFreshness,
    /// Hash over path, position and text of every chunk: two homes of the same files agree in it. Only where the
    /// catalog was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Embedder whose vectors are searched; `None` before there is one.
    pub embedder: Option<String>,
    /// Scheme, host and port of the server that embeds; `None`: this machine does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_server: Option<String>,
    /// Sparse encoder whose weights of terms are searched; `None` where there is none, or it is not installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sparse_encoder: Option<String>,
    /// Passages that wait for their weights of terms.
    #[serde(skip_serializing_if = "nothing")]
    pub unweighed: u64,
    /// Reranker used by default; `None`: the fused order is shown.
    pub reranker: Option<String>,
    /// Shared libraries that are known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<LibraryStatus>,
    /// Installed models.
    pub models: Vec<ModelStatus>,
    /// Problems found; empty is good.
    pub problems: Vec<Problem>,
    /// The ledger, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<FileStatus>>,
}

/// Lately is within so many days.
pub const LATELY_DAYS: u32 = 7;

/// Files that were first read lately, or had changed when they were read again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LatelyStatus {
    /// Within so many days.
    pub days: u32,
    /// How many.
    pub files: u64,
    /// Which, the latest first, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest: Option<Vec<ChangedFile>>,
}

/// A file that is new or has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedFile {
    /// The file.
    pub path: String,
    /// Its state.
    pub state: FileState,
    /// Format family.
    pub kind: String,
    /// When that was found, in seconds since 1970.
    pub changed: i64,
}

/// How much of the machine making vectors may take beside a person's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeaningLimits {
    /// Percent of the processor, 1 to 100.
    pub cpu: u32,
    /// They are made on battery, too.
    pub on_battery: bool,
}

/// How fresh the index is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexFreshness {
    /// When the index was last brought up to date, in seconds since 1970; `None` before the first time.
    pub as_of: Option<i64>,
    /// Files that are known to have changed and are not read yet.
    pub files_behind: u64,
}

/// A root folder in the status.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RootStatus {
    /// The folder.
    pub path: PathBuf,
    /// Whether it is there now.
    pub present: bool,
    /// When it was last walked, in seconds since 1970.
    pub last_scan: Option<i64>,
    /// Whether its text never leaves this machine.
    pub confined: bool,
    /// On a network share, whose changes nobody tells of: minutes between two looks at it while folders are followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub looked_at_every: Option<u64>,
}

/// One file of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileStatus {
    /// The file.
    pub path: String,
    /// Its state.
    pub state: FileState,
    /// Why, for states other than indexed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Format family.
    pub kind: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Chunks in the catalog.
    pub chunks: u64,
    /// What the parser skipped or guessed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A model in the status.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelStatus {
    /// Name in the store.
    pub name: String,
    /// What it is: `embedder`, `reranker`, `llm`.
    pub kind: String,
    /// Bytes on disk.
    pub bytes: u64,
    /// Whether searches use it now.
    pub active: bool,
}

/// How many passages can be found by meaning; by words all can.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct MeaningStatus {
    /// Passages that are to be found by meaning.
    pub passages: u64,
    /// Those of them that are.
    pub done: u64,
    /// Passages that words alone find: columns of numbers.
    pub words_alone: u64,
    /// Passages that words alone find because the server that embeds is not sent them: their folders never leave this
    /// machine.
    #[serde(skip_serializing_if = "nothing")]
    pub kept_here: u64,
    /// Why the others wait, if something holds them up.
    pub waiting: Option<Rest>,
    /// About how long the others take, going by the last ones; `None` when there are none, or nothing to go by.
    pub seconds_left: Option<f64>,
}

/// Pages that are pictures: of scans, pictures themselves, and those in documents, archives and mails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PictureStatus {
    /// They are read.
    pub read: u64,
    /// They wait to be read, or would if they were to be.
    pub waiting: u64,
    /// They are not to be read.
    pub off: bool,
    /// Seconds that reading those that wait may take, from what is usual on two cores.
    pub seconds_left: u64,
    /// Whether what reads them is installed.
    pub installed: bool,
}

/// Which scans and pictures are read, and what reading the others would take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanSettings {
    /// Which.
    pub which: ReadScans,
    /// How far that is.
    pub pictures: PictureStatus,
    /// Pages that are not to be read.
    pub left_out: u64,
    /// Seconds that reading those may take.
    pub left_out_seconds: u64,
}

/// What of a home somebody may read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// Files by state.
    pub states: BTreeMap<&'static str, u64>,
    /// Passages.
    pub passages: u64,
}

/// A shared library that is known here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LibraryStatus {
    /// Its name here.
    pub name: String,
    /// Where it is.
    pub address: String,
    /// When this home last wrote all of it, in seconds since 1970; `None`: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pushed_at: Option<i64>,
    /// Folders of it that this computer can reach.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<MappedFolder>,
    /// The object store that keeps its files, as this home knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub originals: Option<String>,
}

/// A folder of another computer, and where it is on this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedFolder {
    /// Its path as the library has it.
    pub there: String,
    /// Its path on this computer.
    pub here: PathBuf,
}

/// Who writes a shared library.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LibraryWriter {
    /// Names it where two machines have one name.
    pub key: String,
    /// The machine.
    pub machine: String,
    /// Whether it is this home.
    pub own: bool,
    /// Its files in the library.
    pub files: u64,
    /// Its passages in the library.
    pub passages: u64,
    /// When it last wrote all of them, in seconds since 1970; `None`: never.
    pub written_at: Option<i64>,
    /// Whether it is writing, or has broken off.
    pub unfinished: bool,
    /// The folders that its files are from, by their paths there.
    pub folders: Vec<String>,
    /// The object store that it keeps the files in, as it says; `None`: nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub originals: Option<String>,
}

/// What the server of a shared library says of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LibraryInfo {
    /// What is known here.
    #[serde(flatten)]
    pub library: LibraryStatus,
    /// Files in it.
    pub files: u64,
    /// Passages in it.
    pub passages: u64,
    /// The embedder that it was written with; `None`: nothing is there yet.
    pub embedder: Option<String>,
    /// Who writes it, by the names of their machines.
    pub writers: Vec<LibraryWriter>,
    /// The machine that wrote it last.
    pub machine: Option<String>,
    /// When that was, in seconds since 1970.
    pub written_at: Option<i64>,
    /// Whether somebody is writing it, or has broken off.
    pub unfinished: bool,
    /// Whether it says who may read what: one that an older version began does not.
    pub with_rights: bool,
    /// Why nothing is known.
    #[serde(skip)]
    pub problem: Option<Trouble>,
}
