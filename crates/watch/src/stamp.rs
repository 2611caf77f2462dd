//! What tells a file from another, and one version of it from the next, without reading it.

use std::{fs::Metadata, time::UNIX_EPOCH};

/// Size, time and identity of a file. A scan and a reader take them alike: where they differed for an
/// unchanged file, it would be read again after every scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// Size in bytes.
    pub size: u64,
    /// Modification time in nanoseconds since 1970; before that it is negative, and zero where the system
    /// does not tell.
    pub modified_ns: i64,
    /// Identity on its volume (device and inode on Unix).
    pub volume_id: Option<(u64, u64)>,
}

impl Stamp {
    /// What the metadata say.
    pub fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            size: metadata.len(),
            modified_ns: modified_ns(metadata),
            volume_id: volume_id(metadata),
        }
    }
}

fn modified_ns(metadata: &Metadata) -> i64 {
    let Ok(time) = metadata.modified() else { return 0 };
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |it| -it),
    }
}

#[cfg(unix)]
fn volume_id(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    Some((metadata.dev(), metadata.ino()))
}

/// Windows tells the file index only of an open file; renames are then a removal and a new file.
#[cfg(not(unix))]
fn volume_id(_metadata: &Metadata) -> Option<(u64, u64)> {
    None
}
