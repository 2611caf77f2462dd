//! What is in the folders, and when it changes; knows no database.
//!
//! [`scan`] walks a root and says for every file whether to read it, without opening any: rules
//! (`.gitignore`, `.ignore`, `.riddleignore`, hidden files, built-in folders), size, cloud placeholders,
//! devices. [`Watcher`] turns the system's file events into hints that a root wants a new scan. Events
//! are lost when many come at once and when the system's limits are reached; the scan is the truth, the
//! watcher only says when.

mod error;
mod placeholder;
mod scan;
mod watcher;

pub use error::{Error, Result};
pub use scan::{DEFAULT_MAX_FILE_BYTES, ScanOptions, ScanReport, scan};
pub use watcher::{WatchEvent, Watcher};
