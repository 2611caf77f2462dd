//! Files of an index that are read where they lie, and not into memory; sealed ones are opened into memory.

use std::{fs::File, path::Path};

use memmap2::{Mmap, MmapOptions};
use riddle_seal::{Log, Place};

/// The beginning of a file: mapped into memory, so that pages are read when they are looked at, and given back when
/// memory is short; or, of a sealed file, what it says.
#[derive(Debug, Default)]
pub(crate) enum Mapped {
    /// No bytes.
    #[default]
    Empty,
    /// As they lie in the file.
    File(Mmap),
    /// Opened.
    Opened(Vec<u8>),
}

impl Mapped {
    /// The first `bytes` of the file of that name in `dir`; `None` when it is shorter.
    ///
    /// # Errors
    /// When the file can not be opened or mapped; when it is sealed, and not what was written.
    pub(crate) fn open(dir: &Place, name: &str, bytes: u64) -> std::io::Result<Option<Mapped>> {
        let path = dir.path().join(name);
        match &dir.key {
            Some(key) => Ok(Log::read(&path, key, name, bytes)?.map(Mapped::Opened)),
            None => Mapped::map(&path, bytes),
        }
    }

    fn map(path: &Path, bytes: u64) -> std::io::Result<Option<Mapped>> {
        let file = File::open(path)?;
        if file.metadata()?.len() < bytes {
            return Ok(None);
        }
        let Ok(bytes) = usize::try_from(bytes) else { return Ok(None) };
        if bytes == 0 {
            return Ok(Some(Mapped::Empty));
        }
        // SAFETY: the files of an index are ours alone. What is mapped is committed, and is never written again:
        // writers append behind it, or write files of another name. Bytes that change all the same make a wrong order
        // and nothing worse, because every number that is read from them is checked before it leads anywhere.
        let map = unsafe { MmapOptions::new().len(bytes).map(&file) }?;
        Ok(Some(Mapped::File(map)))
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Mapped::Empty => &[],
            Mapped::File(map) => map,
            Mapped::Opened(bytes) => bytes,
        }
    }
}
