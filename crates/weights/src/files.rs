//! Files of a folder that somebody else has put together.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

/// Opens a file for reading. What is none is refused before it is opened: a pipe would be waited for without end.
///
/// # Errors
/// When it can not be read, and when it is something else.
pub fn open_file(path: &Path) -> io::Result<File> {
    if fs::metadata(path)?.is_file() {
        File::open(path)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"))
    }
}

/// Whether there is something of this name, so that it has to be read. A link that leads nowhere is there: a folder
/// that has lost what it refers to is damaged, and is not a folder that never had it.
pub fn is_there(path: &Path) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    fs::symlink_metadata(path)
        .map_or_else(|error| !matches!(error.kind(), NotFound | NotADirectory), |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_are_opened_and_what_is_there_is_not_passed_over() {
        let dir = tempfile::tempdir().expect("temp dir");
        let file = dir.path().join("file");
        fs::write(&file, "text").expect("written");
        assert!(open_file(&file).is_ok() && is_there(&file));
        let absent = dir.path().join("absent");
        assert!(open_file(&absent).is_err() && !is_there(&absent));
        assert!(!is_there(&file.join("below")), "nothing is below a file");
        let error = open_file(dir.path()).expect_err("a folder").to_string();
        assert!(error.contains("not a file") && is_there(dir.path()), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn links_that_lead_nowhere_are_there() {
        let dir = tempfile::tempdir().expect("temp dir");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("nothing", &link).expect("linked");
        assert!(is_there(&link) && open_file(&link).is_err());
        fs::write(dir.path().join("nothing"), "now").expect("written");
        assert!(is_there(&link) && open_file(&link).is_ok());
    }
}
