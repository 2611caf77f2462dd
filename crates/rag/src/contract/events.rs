//! What is told while something is done.

use std::path::Path;

use riddle_types::FileState;
use serde::Serialize;

/// Why vectors wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rest {
    /// The machine runs on its battery: none are made.
    Battery,
    /// Others want the processor: a quarter of it is taken.
    Load,
    /// The server that makes them does not.
    Server,
}

impl Rest {
    /// The name used in settings.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Rest::Battery => "battery",
            Rest::Load => "load",
            Rest::Server => "server",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Rest> {
        [Rest::Battery, Rest::Load, Rest::Server].into_iter().find(|it| it.as_str() == name)
    }
}

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
    /// Words find everything that was read; now passages get their vectors.
    Embedding {
        /// Chunks done.
        done: u64,
        /// Chunks in all.
        total: u64,
    },
    /// Every passage has its vector; now they get their weights of terms.
    Weighing {
        /// Chunks done.
        done: u64,
        /// Chunks in all.
        total: u64,
    },
    /// Everything else is done; now pages that are pictures are read, and pictures in files.
    Pictures {
        /// Pages done.
        done: u64,
        /// Pages in all.
        total: u64,
    },
    /// Vectors are made slower, or not at all.
    Resting(Rest),
    /// The search indexes follow the catalog.
    Syncing,
    /// Everything is up to date; now watching (only with `watch`).
    Watching,
}
