//! A copy of a library's files in a home of its own: there a trace may change them.

use std::{
    fs,
    path::{Component, Path, PathBuf},
    sync::atomic::AtomicBool,
};

use riddle_rag::{Config, Library};
use serde::Deserialize;
use tempfile::TempDir;

use crate::{Error, Result};

/// What happens to a file before a question.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TraceChange {
    /// The file, from the library's folder on.
    pub file: PathBuf,
    /// What it says from then on; nothing where it is deleted.
    #[serde(default)]
    pub text: Option<String>,
}

/// A copy of a folder, and a home that has read it. Both are gone with it.
pub(super) struct Copied {
    folder: PathBuf,
    pub(super) config: Config,
    /// Dropped last: it holds the rest.
    _scratch: TempDir,
}

impl Copied {
    /// Copies `folder` and reads the copy, with the models of `config`.
    ///
    /// # Errors
    /// When it can not be copied or read.
    pub(super) fn of(config: &Config, folder: &Path, stop: &AtomicBool) -> Result<Copied> {
        let scratch = tempfile::tempdir()
            .map_err(|source| Error::Io { path: std::env::temp_dir(), source })?;
        let copy = scratch.path().join("files");
        copy_files(folder, &copy)?;
        let within =
            |it: &Option<PathBuf>, name: &str| it.clone().unwrap_or_else(|| config.home.join(name));
        let config = Config {
            models: Some(within(&config.models, "models")),
            calibrations: Some(within(&config.calibrations, "calibration")),
            elsewhere: config.elsewhere.clone(),
            parse_worker: config.parse_worker.clone(),
            threads: config.threads,
            offline: config.offline,
            max_file_bytes: config.max_file_bytes,
            shared: config.shared.clone(),
            ..Config::new(scratch.path().join("home"))
        };
        let mut library = Library::open(config.clone())?;
        library.add_root(&copy)?;
        library.update(&mut |_| {}, stop)?;
        Ok(Copied { folder: copy, config, _scratch: scratch })
    }

    /// Changes a file of the copy, and has it read.
    ///
    /// # Errors
    /// A file that lies outside, or can not be written; when the library can not be brought up to date.
    pub(super) fn change(&self, change: &TraceChange, stop: &AtomicBool) -> Result<()> {
        let path = self.folder.join(&change.file);
        let fail = |source| Error::Io { path: change.file.clone(), source };
        if !change.file.components().all(|it| matches!(it, Component::Normal(_))) {
            let why = "it leads out of the library's folder";
            return Err(fail(std::io::Error::new(std::io::ErrorKind::InvalidInput, why)));
        }
        match &change.text {
            Some(text) => {
                path.parent().map_or(Ok(()), fs::create_dir_all).map_err(fail)?;
                fs::write(&path, text).map_err(fail)?;
            }
            None if !path.is_file() => {
                let why = "the trace deletes it, and there is no such file in the copy then";
                return Err(fail(std::io::Error::new(std::io::ErrorKind::NotFound, why)));
            }
            None => fs::remove_file(&path).map_err(fail)?,
        }
        Library::open(self.config.clone())?.update(&mut |_| {}, stop)?;
        Ok(())
    }
}

/// Copies files and folders; links are left out, for they may lead anywhere.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    let fail = |path: &Path| {
        let path = path.to_path_buf();
        move |source| Error::Io { path, source }
    };
    fs::create_dir_all(to).map_err(fail(to))?;
    for entry in fs::read_dir(from).map_err(fail(from))? {
        let entry = entry.map_err(fail(from))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(fail(&path))?;
        if kind.is_dir() {
            copy_files(&path, &target)?;
        } else if kind.is_file() {
            fs::copy(&path, &target).map_err(fail(&path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As deep as it goes, and nothing that lies elsewhere.
    #[test]
    fn files_are_copied_and_links_are_not() {
        let (from, to) = (tempfile::tempdir(), tempfile::tempdir());
        let (from, to) = (from.expect("a folder"), to.expect("a folder"));
        fs::create_dir_all(from.path().join("a/b")).expect("made");
        fs::write(from.path().join("a/b/c.txt"), "deep").expect("written");
        #[cfg(unix)]
        std::os::unix::fs::symlink("/etc", from.path().join("out")).expect("linked");
        let copy = to.path().join("copy");
        copy_files(from.path(), &copy).expect("copied");
        assert_eq!(fs::read_to_string(copy.join("a/b/c.txt")).expect("there"), "deep");
        assert!(!copy.join("out").exists());
        let error = copy_files(&from.path().join("nowhere"), &copy).expect_err("not there");
        assert!(error.to_string().contains("nowhere"), "{error}");
    }

    #[test]
    fn a_change_stays_inside() {
        let library = tempfile::tempdir().expect("a folder");
        let home = tempfile::tempdir().expect("a folder");
        let stop = AtomicBool::new(false);
        let copied =
            Copied::of(&Config::new(home.path()), library.path(), &stop).expect("nothing to read");
        for file in ["../a.txt", "/etc/a.txt", "a/../../b.txt"] {
            let change = TraceChange { file: file.into(), text: Some("no".to_owned()) };
            let error = copied.change(&change, &stop).expect_err("outside").to_string();
            assert!(error.contains("leads out"), "{error}");
        }
        let inside = |text: Option<&str>| TraceChange {
            file: "deep/a.txt".into(),
            text: text.map(str::to_owned),
        };
        // Nobody parses here; what counts is that the file is there, and gone.
        let path = copied.folder.join("deep/a.txt");
        copied.change(&inside(Some("yes")), &stop).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "yes");
        copied.change(&inside(None), &stop).expect("removed");
        let again = copied.change(&inside(None), &stop).expect_err("gone").to_string();
        assert!(!path.exists() && again.contains("the trace deletes it"), "{again}");
    }
}
