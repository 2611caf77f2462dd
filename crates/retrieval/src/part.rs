//! What is committed of a file of the vector index, and whether it is that.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Bytes that have a sum together.
pub(crate) const BLOCK: usize = 4 << 20;

/// A file of the index: its beginning of that length, and the BLAKE3 hash of every [`BLOCK`] of it.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) blake3: Vec<String>,
}

impl Part {
    /// Where the file lies.
    pub(crate) fn path(&self, dir: &Path) -> Result<PathBuf> {
        // A plain name: a manifest could otherwise lead anywhere.
        if Path::new(&self.name).file_name() != Some(self.name.as_ref()) {
            return Err(rebuild(dir, "its manifest is not ours"));
        }
        Ok(dir.join(&self.name))
    }
}

pub(crate) fn rebuild(dir: &Path, why: impl ToString) -> Error {
    Error::Rebuild { dir: dir.to_path_buf(), why: why.to_string() }
}

/// A file that is not what was written.
pub(crate) fn damaged(dir: &Path, why: impl ToString) -> Error {
    Error::Damaged { dir: dir.to_path_buf(), why: why.to_string() }
}

pub(crate) fn io_error(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Io { path, source }
}

/// The hashes of a file's blocks from `first` on, of its first `bytes`. Read and not mapped: whoever maps the file
/// already would have it in memory twice, as the system counts.
pub(crate) fn sums(path: &Path, first: usize, bytes: u64) -> std::io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let mut at = first as u64 * BLOCK as u64;
    file.seek(SeekFrom::Start(at))?;
    let mut sums = Vec::new();
    let mut block = Vec::new();
    while at < bytes {
        block.resize((bytes - at).min(BLOCK as u64) as usize, 0);
        file.read_exact(&mut block)?;
        sums.push(blake3::hash(&block).to_hex().to_string());
        at += block.len() as u64;
    }
    Ok(sums)
}
