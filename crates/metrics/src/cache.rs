//! What the system keeps of files.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

/// Asks the system to forget what it has cached of the files in `folder`, so that reading them is reading a disk again.
/// It may keep what others use or have mapped ([`cached_bytes`] says how much); `false` where systems are not asked
/// (all but Linux today).
///
/// # Errors
/// When the folder or a file in it can not be read.
pub fn forget_cached_files(folder: &Path) -> io::Result<bool> {
    for path in files(folder)? {
        forget(&File::open(path)?);
    }
    Ok(cfg!(target_os = "linux"))
}

/// Bytes of the files in `folder` that are in the system's cache, in whole pages; `None` where systems do not tell (all
/// but Linux today). Of files that are neither the user's nor writable to him Linux says that all are.
///
/// # Errors
/// When the folder or a file in it can not be read.
pub fn cached_bytes(folder: &Path) -> io::Result<Option<u64>> {
    let mut all = Some(0);
    for path in files(folder)? {
        let cached = cached(&File::open(path)?)?;
        all = all.zip(cached).map(|(all, cached)| all + cached);
    }
    Ok(all)
}

/// Through links: stores link into their caches.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let paths = std::fs::read_dir(folder)?.map(|it| it.map(|it| it.path()));
    Ok(paths.collect::<io::Result<Vec<_>>>()?.into_iter().filter(|it| it.is_file()).collect())
}

#[cfg(target_os = "linux")]
fn forget(file: &File) {
    use std::os::fd::AsRawFd as _;
    // What was just written is no copy of anything yet, and stays. Where nothing can be written nothing is new.
    let _ = file.sync_data();
    // SAFETY: the descriptor is open as long as `file` is borrowed, and the call takes numbers alone; a length of 0 is
    // the whole file. It is advice: whether it was taken does not matter.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

#[cfg(not(target_os = "linux"))]
fn forget(_file: &File) {}

#[cfg(target_os = "linux")]
fn cached(file: &File) -> io::Result<Option<u64>> {
    use std::os::fd::AsRawFd as _;
    let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    if length == 0 {
        return Ok(Some(0));
    }
    // SAFETY: the call takes numbers alone.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let page =
        usize::try_from(page).ok().filter(|it| *it > 0).ok_or_else(io::Error::last_os_error)?;
    let mut is_cached = vec![0_u8; length.div_ceil(page)];
    // SAFETY: a new mapping at a place of the system's choice, which nothing is read of; the descriptor is open.
    let mapped = unsafe {
        let (file, nowhere) = (file.as_raw_fd(), std::ptr::null_mut());
        libc::mmap(nowhere, length, libc::PROT_READ, libc::MAP_SHARED, file, 0)
    };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is `length` bytes long, and `is_cached` has a byte for each of its pages.
    let told = unsafe { libc::mincore(mapped, length, is_cached.as_mut_ptr()) };
    let told = if told == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: the mapping is this function's own, and nobody refers to it any more.
    unsafe { libc::munmap(mapped, length) };
    told?;
    let pages = is_cached.iter().filter(|it| **it & 1 == 1).count();
    Ok(Some((pages * page) as u64))
}

#[cfg(not(target_os = "linux"))]
fn cached(_file: &File) -> io::Result<Option<u64>> {
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than the system reads ahead.
    const BYTES: usize = 9_000_000;

    #[test]
    fn files_are_still_there_when_they_are_forgotten() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("weights");
        std::fs::write(&file, [7; 9000]).expect("written");
        std::fs::write(dir.path().join("empty"), []).expect("written");
        assert_eq!(forget_cached_files(dir.path()).expect("a folder"), cfg!(target_os = "linux"));
        assert_eq!(std::fs::read(&file).expect("there"), [7; 9000]);
        assert!(forget_cached_files(&file).is_err() && cached_bytes(&file).is_err());
    }

    /// A measurement that begins with an empty cache is one of the disk.
    #[test]
    #[cfg(target_os = "linux")]
    fn nothing_of_a_forgotten_file_is_in_memory_new_or_read() {
        // Where programs are built is a disk more often than where temporary files are.
        let program = std::env::current_exe().expect("a path");
        let dir = tempfile::tempdir_in(program.parent().expect("a folder")).expect("made");
        if is_memory(dir.path()) {
            eprintln!("SKIPPED: {} is memory, which forgets nothing", dir.path().display());
            return;
        }
        let file = dir.path().join("weights");
        std::fs::write(&file, vec![7; BYTES]).expect("written");
        let cached = || cached_bytes(dir.path()).expect("readable").expect("Linux tells");
        let whole = (BYTES as u64).next_multiple_of(4096);
        assert!(cached() >= whole, "just written: {}", cached());
        // Not on a disk yet, so that forgetting it has to write it first.
        forget_cached_files(dir.path()).expect("a folder");
        let left = cached();
        std::fs::read(&file).expect("there");
        assert!(cached() >= whole, "just read: {}", cached());
        forget_cached_files(dir.path()).expect("a folder");
        assert_eq!((left, cached()), (0, 0));
    }

    /// Whether the folder is on a file system that is nowhere but in memory.
    #[cfg(target_os = "linux")]
    fn is_memory(folder: &Path) -> bool {
        use std::os::fd::AsRawFd as _;
        let folder = File::open(folder).expect("opens");
        let mut found = std::mem::MaybeUninit::<libc::statfs>::zeroed();
        // SAFETY: the descriptor is open, and zeros are a value of what the call fills.
        let kind = unsafe {
            assert_eq!(libc::fstatfs(folder.as_raw_fd(), found.as_mut_ptr()), 0);
            found.assume_init().f_type
        };
        kind == libc::TMPFS_MAGIC
    }
}
