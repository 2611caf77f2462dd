//! Passages that a search has found by words and that wait for their vectors: they get them before all others.
//!
//! Whoever searches may only read the catalog, and is often another process than the one that makes vectors. So the
//! numbers of passages are handed over in a file of the home; it says nothing else.

use std::{
    fs::OpenOptions,
    io::{ErrorKind, Write as _},
    path::Path,
};

use riddle_types::ChunkId;

const FILE: &str = "wanted";

/// Most bytes of the file: a thousand passages. Where nobody makes vectors it stays as large.
const MOST: u64 = 8 << 10;

/// Says that somebody looked for these. A search goes on where that can not be written.
pub(crate) fn note(home: &Path, chunks: impl Iterator<Item = ChunkId>) {
    let bytes: Vec<u8> = chunks.flat_map(|it| it.0.to_le_bytes()).collect();
    let path = home.join(FILE);
    if bytes.is_empty() || path.metadata().is_ok_and(|it| it.len() >= MOST) {
        return;
    }
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(&bytes));
    if let Err(error) = written {
        tracing::debug!("{}: {error}", path.display());
    }
}

/// What was looked for since the last call, each once.
pub(crate) fn take(home: &Path) -> Vec<ChunkId> {
    let path = home.join(FILE);
    // Under another name first: what is written meanwhile is for the next call.
    let taken = home.join("wanted.taken");
    let read = std::fs::rename(&path, &taken).and_then(|()| std::fs::read(&taken));
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                tracing::debug!("{}: {error}", path.display());
            }
            return Vec::new();
        }
    };
    let _ = std::fs::remove_file(&taken);
    let mut chunks: Vec<ChunkId> =
        bytes.as_chunks().0.iter().map(|it| ChunkId(u64::from_le_bytes(*it))).collect();
    chunks.sort_unstable();
    chunks.dedup();
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_looked_for_is_taken_once() {
        let home = tempfile::tempdir().expect("a folder");
        assert!(take(home.path()).is_empty());
        note(home.path(), [3, 1].map(ChunkId).into_iter());
        note(home.path(), [3, u64::MAX].map(ChunkId).into_iter());
        assert_eq!(take(home.path()), [1, 3, u64::MAX].map(ChunkId));
        assert!(take(home.path()).is_empty());
        // A cut or a lying file names passages that are not there, which nobody finds in the catalog.
        std::fs::write(home.path().join(FILE), [7; 13]).expect("written");
        assert_eq!(take(home.path()).len(), 1);
    }

    #[test]
    fn it_does_not_grow_where_nobody_takes_it() {
        let home = tempfile::tempdir().expect("a folder");
        for _ in 0..1000 {
            note(home.path(), (0..100).map(ChunkId));
        }
        let size = home.path().join(FILE).metadata().expect("there").len();
        assert!(size < 2 * MOST, "{size}");
        note(Path::new("/nowhere"), [ChunkId(1)].into_iter());
    }
}
