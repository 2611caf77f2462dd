//! Who may read a file, as the system says it: owner, group, mode bits and POSIX access lists of the file, and the
//! right to pass each folder from its root down to it. Nothing is opened.
//!
//! What is not known gives no right: a file that can not be looked at, what lies behind a link, an access list that is
//! broken or of another kind (NFSv4, CIFS), whose mode bits do not say who may. So do systems other than Linux.

#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
mod acl;
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
mod names;

use std::{
    collections::HashMap,
    path::{Component, Path, PathBuf},
};

use riddle_types::{Level, Rule};

use self::names::Names;

/// Looks at the rights of files, each folder once: for one look at many files, and not to be kept.
#[derive(Debug, Default)]
pub struct Access {
    /// Who may pass a folder; `None`: nobody knows.
    folders: HashMap<PathBuf, Option<Level>>,
    names: Names,
}

/// What is asked of a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// To be read.
    Read,
    /// To be passed.
    Pass,
}

impl Asked {
    /// Its bit in the three of a class.
    fn bit(self) -> u16 {
        match self {
            Asked::Read => 0o4,
            Asked::Pass => 0o1,
        }
    }
}

impl Access {
    /// Nothing has been looked at yet.
    pub fn new() -> Access {
        Access::default()
    }

    /// Who may read `file`, which lies below `root`. The root itself has to be passed, folders above it do not count:
    /// they belong to the machine that reads, and not to what is shared.
    pub fn rule(&mut self, root: &Path, file: &Path) -> Rule {
        self.levels(root, file).map_or(Rule::Nobody, Rule::of)
    }

    fn levels(&mut self, root: &Path, file: &Path) -> Option<Vec<Level>> {
        let below = file.strip_prefix(root).ok()?;
        let parts: Vec<_> = below.components().collect();
        let (last, folders) = parts.split_last()?;
        if !parts.iter().all(|it| matches!(it, Component::Normal(_))) {
            return None;
        }
        let mut levels = vec![self.folder(root, true)?];
        let mut path = root.to_path_buf();
        for folder in folders {
            path.push(folder);
            levels.push(self.folder(&path, false)?);
        }
        path.push(last);
        levels.push(level(&path, Asked::Read, false, &mut self.names)?);
        Some(levels)
    }

    fn folder(&mut self, path: &Path, is_root: bool) -> Option<Level> {
        if let Some(known) = self.folders.get(path) {
            return known.clone();
        }
        let found = level(path, Asked::Pass, is_root, &mut self.names);
        self.folders.insert(path.to_path_buf(), found.clone());
        found
    }
}

/// Who may do what is asked; `None`: nobody knows. Only a root may be a link.
#[cfg(target_os = "linux")]
fn level(path: &Path, asked: Asked, is_root: bool, names: &mut Names) -> Option<Level> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata =
        if is_root { std::fs::metadata(path) } else { std::fs::symlink_metadata(path) }.ok()?;
    let fits = match asked {
        Asked::Read => metadata.is_file(),
        Asked::Pass => metadata.is_dir(),
    };
    if !fits || acl::is_of_another_kind(path) {
        return None;
    }
    let list = match acl::of(path).ok()? {
        Some(list) => list,
        None => acl::List::of_mode(metadata.mode()),
    };
    Some(list.level(asked.bit(), metadata.uid(), metadata.gid(), names))
}

/// Rights are not read here: nobody has any.
#[cfg(not(target_os = "linux"))]
fn level(_path: &Path, _asked: Asked, _is_root: bool, _names: &mut Names) -> Option<Level> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
