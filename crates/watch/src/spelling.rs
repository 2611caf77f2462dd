//! How a file is called where a file system takes several names for one: most of macOS and Windows, and their disks.
//!
//! Following links does not always tell: a system may give back the letters that it was given. So the folder that
//! something lies in is asked for its names, if another spelling leads to the same file.

use std::{
    ffi::{OsStr, OsString},
    path::{Component, Path, PathBuf},
};

use riddle_types::folded;

use crate::Stamp;

/// The path as its folders name it. Where names are told apart by each letter, and where nothing is, it is the same.
pub fn spelled(path: &Path) -> PathBuf {
    spelled_by(&Disk, Path::new(""), path)
}

/// The same of a path below `root`, which stays as it is.
pub(crate) fn spelled_below(root: &Path, path: &Path) -> PathBuf {
    spelled_by(&Disk, root, path)
}

/// What is asked of a file system.
trait Names {
    /// Which file a path leads to; links are files.
    fn identity(&self, path: &Path) -> Option<(u64, u64)>;
    /// The names in a folder.
    fn list(&self, folder: &Path) -> Vec<OsString>;
}

struct Disk;

impl Names for Disk {
    fn identity(&self, path: &Path) -> Option<(u64, u64)> {
        Stamp::of(&std::fs::symlink_metadata(path).ok()?).volume_id
    }

    fn list(&self, folder: &Path) -> Vec<OsString> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|it| it.file_name()).collect()
    }
}

fn spelled_by(names: &impl Names, root: &Path, path: &Path) -> PathBuf {
    let mut real = PathBuf::new();
    for part in path.components() {
        let Component::Normal(name) = part else {
            real.push(part);
            continue;
        };
        let folder = match real.as_os_str().is_empty() {
            true => root.to_path_buf(),
            false => root.join(&real),
        };
        real.push(named(names, &folder, name));
    }
    real
}

/// What a folder calls that of which this is a name.
fn named(names: &impl Names, folder: &Path, name: &OsStr) -> OsString {
    let as_given = || name.to_owned();
    let Some(identity) = names.identity(&folder.join(name)) else { return as_given() };
    // Another spelling that leads nowhere, or to another file: letters are told apart here.
    let same = |it: &OsStr| names.identity(&folder.join(it)) == Some(identity);
    if !others(name).iter().any(|it| same(it)) {
        return as_given();
    }
    let listed = names.list(folder);
    if listed.iter().any(|it| it == name) {
        return as_given();
    }
    let key = folded(Path::new(name));
    let found = listed.into_iter().find(|it| folded(Path::new(it)) == key && same(it));
    found.unwrap_or_else(as_given)
}

/// Other spellings of a name; none of one without letters.
fn others(name: &OsStr) -> Vec<OsString> {
    use unicode_normalization::UnicodeNormalization as _;
    let Some(name) = name.to_str() else { return Vec::new() };
    let all = [
        name.to_uppercase(),
        name.to_lowercase(),
        name.nfc().collect::<String>(),
        name.nfd().collect(),
    ];
    all.into_iter().filter(|it| it != name).map(OsString::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folders by their paths, whose names are found in any spelling if it `folds`; a file's number is its place.
    struct Fake {
        folds: bool,
        paths: Vec<&'static str>,
    }

    impl Names for Fake {
        fn identity(&self, path: &Path) -> Option<(u64, u64)> {
            let is = |it: &&str| match self.folds {
                true => folded(Path::new(it)) == folded(path),
                false => Path::new(it) == path,
            };
            self.paths.iter().position(is).map(|it| (1, it as u64))
        }

        fn list(&self, folder: &Path) -> Vec<OsString> {
            let folder = self.identity(folder);
            let lies = |it: &&Path| it.parent().is_some_and(|it| self.identity(it) == folder);
            let inside = self.paths.iter().map(Path::new).filter(lies);
            inside.filter_map(|it| it.file_name().map(OsStr::to_owned)).collect()
        }
    }

    const PATHS: [&str; 6] = [
        "/",
        "/Users",
        "/Users/Ann",
        "/Users/Ann/Gru\u{308}n",
        "/Users/Ann/Gru\u{308}n/A.txt",
        "/1",
    ];

    #[test]
    fn a_path_is_spelled_as_its_folders_name_it() {
        let disk = Fake { folds: true, paths: PATHS.to_vec() };
        let spell =
            |it: &str| spelled_by(&disk, Path::new(""), Path::new(it)).display().to_string();
        for given in ["/users/ANN/gr\u{fc}n/a.TXT", "/Users/Ann/Gru\u{308}n/A.txt"] {
            assert_eq!(spell(given), "/Users/Ann/Gru\u{308}n/A.txt");
        }
        assert_eq!(spell("/users/ben/x"), "/Users/ben/x", "what is not there is as it was given");
        assert_eq!(spell("/1"), "/1");
        let below = spelled_by(&disk, Path::new("/users"), Path::new("ann/gr\u{dc}N"));
        assert_eq!(below, Path::new("Ann/Gru\u{308}n"));
    }

    #[test]
    fn where_letters_are_told_apart_nothing_is_another_file() {
        let paths = vec!["/", "/a.txt", "/A.txt"];
        let disk = Fake { folds: false, paths };
        for path in ["/a.txt", "/A.txt", "/a.TXT"] {
            assert_eq!(spelled_by(&disk, Path::new(""), Path::new(path)), Path::new(path));
        }
    }

    #[test]
    fn on_this_disk_a_path_is_what_it_was() {
        let dir = tempfile::tempdir().expect("temp dir");
        let file = dir.path().canonicalize().expect("path").join("Keel.txt");
        std::fs::write(&file, "x").expect("written");
        assert_eq!(spelled(&file), file);
        assert_eq!(spelled(Path::new("none/Of/this")), Path::new("none/Of/this"));
    }
}
