//! Several files that are read as one.

use std::path::{Path, PathBuf};

/// Alignment of a store's segments, and what reading past the page cache asks of offsets, lengths and memory.
pub const PAGE: usize = 4096;

/// The files of a model as if they lay one behind the other, each from a page on: byte `b` of a file that starts at `s`
/// has the place `s + b`, and as many bytes before it in its page as in the file. So whatever reads whole pages past
/// the page cache reads one file or several in the same way, and no page belongs to two of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedFiles(Vec<JoinedFile>);

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedFile {
    /// The file.
    pub path: PathBuf,
    /// Place of its first byte, a multiple of [`PAGE`].
    pub start: u64,
}

impl JoinedFiles {
    /// Files with their lengths in bytes; none where they are longer together than any disk.
    pub fn of<'a>(files: impl IntoIterator<Item = (&'a Path, u64)>) -> Option<JoinedFiles> {
        let (mut all, mut start) = (Vec::new(), 0_u64);
        for (path, bytes) in files {
            all.push(JoinedFile { path: path.to_path_buf(), start });
            start = start.checked_add(bytes)?.checked_next_multiple_of(PAGE as u64)?;
        }
        Some(JoinedFiles(all))
    }

    /// All of them, by their places.
    pub fn files(&self) -> &[JoinedFile] {
        &self.0
    }
}

impl From<&Path> for JoinedFiles {
    /// A file alone.
    fn from(path: &Path) -> JoinedFiles {
        JoinedFiles(vec![JoinedFile { path: path.to_path_buf(), start: 0 }])
    }
}

impl From<&PathBuf> for JoinedFiles {
    /// A file alone.
    fn from(path: &PathBuf) -> JoinedFiles {
        JoinedFiles::from(path.as_path())
    }
}

impl From<&JoinedFiles> for JoinedFiles {
    fn from(files: &JoinedFiles) -> JoinedFiles {
        files.clone()
    }
}
