//! What is told while something is done.

use std::path::Path;

use riddle_types::FileState;

/// What happens while indexing, for progress displays.
#[derive(Debug, Clone, PartialEq)]
pub enum IndexEvent<'a> {
    /// A folder is being walked.
    Scanning(&'a Path),
    /// The queue's length is known.
    Queued(u64),
    /// A file has been dealt with.
    File {
        /// Which.
        path: &'a Path,
        /// Its new state.
        state: FileState,
        /// The reason, for states other than indexed.
        reason: &'a str,
    },
    /// Chunks are being embedded for a change of the embedder.
    Reembedding {
        /// Chunks done.
        done: u64,
        /// Chunks in all.
        total: u64,
    },
    /// The search indexes follow the catalog.
    Syncing,
    /// Everything is up to date; now watching (only with `watch`).
    Watching,
}
