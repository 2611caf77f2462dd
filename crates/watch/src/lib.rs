//! What is in the folders, and when it changes; knows no database.
//!
//! [`scan`] walks a root and says for every file whether to read it, without opening any: rules
//! (`.gitignore`, `.ignore`, `.riddleignore`, hidden files, built-in folders), size, cloud placeholders,
//! devices. [`scan_parts`] does the same for some files and folders. [`Watcher`] turns the system's file
//! events into hints of what to scan again. Events are lost when many come at once and when the system's
//! limits are reached; the scan is the truth, the watcher only says when.
//!
//! Where a file system takes several names for one file, [`spelled`] says which one its folder knows.
//!
//! [`identify`] says which folder one is, so that it is known again where it lies now ([`traces`]).
//!
//! What could not be looked at is said ([`ScanReport::unreadable`], [`Error::RootMissing`]), so that nobody
//! takes it for deleted.

mod error;
#[cfg(target_os = "linux")]
mod mounts;
mod passed;
mod place;
mod placeholder;
mod rules;
mod scan;
mod spelling;
mod stamp;
mod watcher;

pub use error::{Error, Result};
pub use place::{identify, is_on_share, is_there, traces};
pub use rules::Pattern;
pub use scan::{DEFAULT_MAX_FILE_BYTES, ScanOptions, ScanReport, scan, scan_parts};
pub use spelling::spelled;
pub use stamp::Stamp;
pub use watcher::{WatchEvent, Watcher};
