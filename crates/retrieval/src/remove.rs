//! Removing an index so that nobody takes what is left of it for a whole one.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{segments::META, store::MANIFEST};

/// Removes an index, or a folder of indexes, also one that is not there.
///
/// What says how far an index is goes first. Whoever is killed here leaves a folder that is no index, and not one that
/// seems to have followed everything and finds nothing.
///
/// # Errors
/// When a file can not be removed.
pub fn remove(dir: &Path) -> io::Result<()> {
    for mark in marks_below(dir)? {
        gone(fs::remove_file(mark))?;
    }
    gone(fs::remove_dir_all(dir))
}

/// The files below `dir` that say what an index consists of.
fn marks_below(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut marks = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            marks.extend(marks_below(&entry.path())?);
        } else if [META, MANIFEST].iter().any(|it| entry.file_name() == *it) {
            marks.push(entry.path());
        }
    }
    Ok(marks)
}

fn gone(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_below_is_found_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a folder");
        let write = |path: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(&path, "x").expect("written");
            path
        };
        let mut marks = vec![write("meta.json"), write("a/current.json"), write("a/b/meta.json")];
        write("a/codes-1.bin");
        write("x.term");
        let mut found = marks_below(dir.path()).expect("readable");
        found.sort();
        marks.sort();
        assert_eq!(found, marks);
        remove(dir.path()).expect("removed");
        assert!(!dir.path().exists());
        remove(dir.path()).expect("not there");
    }
}
