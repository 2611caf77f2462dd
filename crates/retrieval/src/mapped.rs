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

    /// Bytes that lie in a file.
    pub(crate) fn mapped_bytes(&self) -> usize {
        match self {
            Mapped::File(map) => map.len(),
            Mapped::Empty | Mapped::Opened(_) => 0,
        }
    }

    /// Lets this process's hold on the pages go. The system still has what it has read of the file, as long as it
    /// needs the memory for nothing else: whoever looks at a page again finds it there in a microsecond.
    pub(crate) fn give_back(&self) {
        #[cfg(target_os = "linux")]
        if let Mapped::File(map) = self {
            // Advice that is not taken costs memory alone.
            // SAFETY: on a file that is mapped to be read, shared with the system's cache, this advice loses nothing:
            // the same bytes come from the same file.
            let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
        }
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

/// Bytes of files that are in this process's memory now; `None` where the system does not tell.
pub(crate) fn resident_file_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|it| it.strip_prefix("RssFile:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_not_resident_and_still_there() {
        const BYTES: usize = 32 << 20;
        let dir = tempfile::tempdir().expect("a folder");
        let written: Vec<u8> = (0..BYTES).map(|it| (it / 4096) as u8).collect();
        std::fs::write(dir.path().join("codes"), &written).expect("written");
        let mapped = Mapped::open(&dir.path().into(), "codes", BYTES as u64);
        let mapped = mapped.expect("opens").expect("as long");
        assert_eq!(mapped.mapped_bytes(), BYTES);
        assert!(mapped.bytes() == written);
        let before = resident_file_bytes().expect("Linux tells");
        mapped.give_back();
        let after = resident_file_bytes().expect("Linux tells");
        // Other tests of this process map files, too, and no such ones.
        assert!(after + (BYTES as u64) / 2 < before, "{before} {after}");
        assert!(mapped.bytes() == written);
    }
}
