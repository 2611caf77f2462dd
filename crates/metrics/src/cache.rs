//! What the system keeps of files.

use std::{fs::File, io, path::Path};

/// Asks the system to forget what it has cached of the files in `folder`, so that reading them is reading a disk again.
/// It may keep what others use; `false` where systems are not asked (all but Linux today).
///
/// # Errors
/// When the folder or a file in it can not be read.
pub fn forget_cached_files(folder: &Path) -> io::Result<bool> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        // Through links: stores link into their caches.
        if path.is_file() {
            forget(&File::open(path)?);
        }
    }
    Ok(cfg!(target_os = "linux"))
}

#[cfg(target_os = "linux")]
fn forget(file: &File) {
    use std::os::fd::AsRawFd as _;
    // SAFETY: the descriptor is open as long as `file` is borrowed, and the call takes numbers alone; a length of 0 is
    // the whole file. It is advice: whether it was taken does not matter.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

#[cfg(not(target_os = "linux"))]
fn forget(_file: &File) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_still_there_when_they_are_forgotten() {
        let dir = std::env::temp_dir().join(format!("riddle-cache-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("made");
        std::fs::write(dir.join("weights"), [7; 9000]).expect("written");
        assert_eq!(forget_cached_files(&dir).expect("a folder"), cfg!(target_os = "linux"));
        assert_eq!(std::fs::read(dir.join("weights")).expect("there"), [7; 9000]);
        std::fs::remove_dir_all(&dir).expect("removed");
        assert!(forget_cached_files(&dir).is_err());
    }
}
