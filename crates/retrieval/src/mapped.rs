//! Files of an index that are read where they lie, and not into memory.

use std::{fs::File, path::Path};

use memmap2::{Mmap, MmapOptions};

/// The beginning of a file, mapped into memory: pages are read when they are looked at, and given back when memory is
/// short.
#[derive(Debug, Default)]
pub(crate) struct Mapped(Option<Mmap>);

impl Mapped {
    /// The first `bytes` of the file at `path`; `None` when it is shorter.
    ///
    /// # Errors
    /// When the file can not be opened or mapped.
    pub(crate) fn open(path: &Path, bytes: u64) -> std::io::Result<Option<Mapped>> {
        let file = File::open(path)?;
        if file.metadata()?.len() < bytes {
            return Ok(None);
        }
        let Ok(bytes) = usize::try_from(bytes) else { return Ok(None) };
        if bytes == 0 {
            return Ok(Some(Mapped(None)));
        }
        // SAFETY: the files of an index are ours alone. What is mapped is committed, and is never written again:
        // writers append behind it, or write files of another name. Bytes that change all the same make a wrong order
        // and nothing worse, because every number that is read from them is checked before it leads anywhere.
        let map = unsafe { MmapOptions::new().len(bytes).map(&file) }?;
        Ok(Some(Mapped(Some(map))))
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}
