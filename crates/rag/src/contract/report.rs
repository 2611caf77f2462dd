//! What was done: the reports of work on a home and on the libraries that it writes.

use std::{collections::BTreeMap, path::PathBuf};

use riddle_types::Notice;
use serde::Serialize;

use super::{notice::Problem, server::RemoteStage};

/// What `index` did.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct IndexReport {
    /// Files that were new.
    pub new: u64,
    /// Files that had changed.
    pub changed: u64,
    /// Files that had not.
    pub unchanged: u64,
    /// Files followed to another path.
    pub moved: u64,
    /// Files that were gone.
    pub removed: u64,
    /// Files read in this run.
    pub read: u64,
    /// Chunks embedded in this run; unchanged text keeps its vector.
    pub embedded: u64,
    /// What the server that embeds did, where one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteStage>,
    /// Chunks whose terms were weighed in this run.
    #[serde(skip_serializing_if = "nothing")]
    pub weighed: u64,
    /// Pages that are pictures, and pictures in files, read in this run.
    pub pictures: u64,
    /// Files per state, over all folders, after the run.
    pub states: BTreeMap<&'static str, u64>,
    /// Chunks in the catalog.
    pub chunks: u64,
    /// Folders that are missing or could not be read, with the reason; nothing below them was removed.
    pub unreachable: Vec<(PathBuf, String)>,
    /// What the user should know.
    pub notices: Vec<Notice>,
    /// Seconds the run took.
    pub seconds: f64,
    /// Whether the run was stopped before it was done; the rest waits in the queue.
    pub interrupted: bool,
    /// Most memory a parser's child process used.
    pub peak_parser_rss_bytes: u64,
    /// Bytes of the embedder's weights in memory.
    pub resident_weight_bytes: u64,
}

/// What writing a shared library has done.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PushReport {
    /// Its name here.
    pub library: String,
    /// Files that were written.
    pub written: u64,
    /// Files that were there already, unchanged.
    pub unchanged: u64,
    /// Files that are gone here, and were deleted there.
    pub deleted: u64,
    /// Files that stay here, because their folders never leave this machine.
    pub held_back: u64,
    /// Files that were sent to the store that keeps them; `None`: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub originals: Option<u64>,
    /// Passages that were written.
    pub passages: u64,
    /// Whether a run before had broken off, and this one went on.
    pub resumed: bool,
    /// Whether this run was stopped before its end.
    pub interrupted: bool,
    /// Seconds that it took.
    pub seconds: f64,
}

/// What a look at a whole home found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CheckReport {
    /// Files that are indexed.
    pub files: u64,
    /// Passages in the catalog.
    pub passages: u64,
    /// What is wrong; empty is good.
    pub problems: Vec<Problem>,
}

/// Whether a number is left out, because there is nothing of its kind.
pub(super) fn nothing(count: &u64) -> bool {
    *count == 0
}
