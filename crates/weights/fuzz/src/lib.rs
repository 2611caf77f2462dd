//! What the targets of this folder share: bytes of the fuzzer as files of a model directory.
//!
//! A target is a file in `fuzz_targets` that hands the bytes to [`Folder::write`] and reads them back as a
//! user of `riddle_weights` would. Run one with
//! `cargo fuzz run safetensors -- -max_len=16384 -dict=safetensors.dict`, `store` and `shards` with `-max_len=32768`,
//! `gguf` and `gguf_parts` without either; a find becomes a unit test beside the reader, and its bytes a seed with a
//! name.
//!
//! `corpus/TARGET` holds the seeds that people have named, `corpus/TARGET.tar.gz` what fuzzing has added,
//! minimized: unpack it into a folder of its own and give that as the first of the corpora.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A folder in memory, where the system has such a place: a million runs a minute are nothing for a disk.
pub struct Folder(TempDir);

impl Folder {
    /// A new, empty folder that goes when the process ends.
    pub fn new() -> Folder {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let folder = tempfile::Builder::new().prefix("riddle-fuzz-").tempdir_in(parent);
        Folder(folder.expect("a folder for the fuzzer's files"))
    }

    /// Replaces the file `name`.
    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).expect("memory for the fuzzer's file");
        path
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Default for Folder {
    fn default() -> Self {
        Folder::new()
    }
}
