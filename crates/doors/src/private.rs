//! Files of the home that only their owner may read: written beside and renamed, so that whoever reads meanwhile sees
//! the one or the other.

use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    path::Path,
};

use crate::error::{Error, Result};

/// A new file, or one that is emptied, for its owner alone.
fn open(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Puts this in the place of what is there.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    let mut staged = path.to_path_buf().into_os_string();
    staged.push(format!(".{}", std::process::id()));
    let _ = fs::remove_file(&staged);
    let write = || -> std::io::Result<()> {
        let mut file = open(Path::new(&staged))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&staged, path)
    };
    write().map_err(io).inspect_err(|_| drop(fs::remove_file(&staged)))
}

/// A file to append to.
pub(crate) fn append(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Held by one program at a time until it is dropped.
pub(crate) fn lock(path: &Path) -> Result<File> {
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    let file = open(path).map_err(io)?;
    file.lock().map_err(io)?;
    Ok(file)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_is_written_is_its_owners_alone_and_whole() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("x");
        for text in ["first and longer", "second"] {
            write(&path, text.as_bytes()).expect("written");
            assert_eq!(fs::read_to_string(&path).expect("there"), text);
        }
        append(&path).expect("open").write_all(b" and more").expect("appended");
        assert_eq!(fs::read_to_string(&path).expect("there"), "second and more");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(
            fs::read_dir(home.path()).expect("a folder").count(),
            1,
            "nothing stays beside it"
        );
        assert!(write(&home.path().join("no/folder"), b"x").is_err());
    }
}
