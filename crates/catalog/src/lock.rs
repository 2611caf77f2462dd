//! The home's lock: one process writes at a time.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    path::Path,
};

use crate::{Error, Result};

/// Held while this process may write to the home; the operating system releases it even after kill -9.
#[derive(Debug)]
pub struct HomeLock {
    _file: File,
}

impl HomeLock {
    /// Takes the lock of `home`, making the folder if needed.
    ///
    /// # Errors
    /// [`Error::Locked`] when another process holds it.
    pub fn acquire(home: &Path) -> Result<HomeLock> {
        let path = home.join("lock");
        let io = |source| Error::Io { path: path.clone(), source };
        std::fs::create_dir_all(home)
            .map_err(|source| Error::Io { path: home.to_path_buf(), source })?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // The number is a courtesy: an unreadable one is left out.
                let pid =
                    file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(Error::Locked { home: home.to_path_buf(), pid });
            }
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        file.set_len(0).and_then(|()| file.rewind()).map_err(io)?;
        write!(file, "{}", std::process::id()).map_err(io)?;
        Ok(HomeLock { _file: file })
    }

    /// Whether somebody writes to `home` just now. It takes nothing: a shared lock, given back at once.
    pub fn is_held(home: &Path) -> bool {
        File::open(home.join("lock"))
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_told_who_is_first() {
        let home = tempfile::tempdir().expect("temp dir");
        let first = HomeLock::acquire(home.path()).expect("free");
        let error = HomeLock::acquire(home.path()).expect_err("held").to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        assert!(HomeLock::is_held(home.path()));
        drop(first);
        assert!(!HomeLock::is_held(home.path()));
        assert!(!HomeLock::is_held(&home.path().join("nowhere")));
        HomeLock::acquire(home.path()).expect("free again");
    }
}
