//! Folders of other computers that this one can reach: where a file of a shared library lies here.
//!
//! A library has the paths of the computers that wrote it, which may be of another system. A folder there is mapped to
//! one here by a person; what lies below the first is looked for below the second, and nowhere else.

use std::path::{Component, Path, PathBuf};

use riddle_types::{Advice, Trouble};

use super::{
    libraries::{keep, kept, named},
    records::{Records, inside},
    resolved,
};
use crate::contract::{Error, LibraryStatus, MappedFolder, Result};

/// Parts of a path from elsewhere. One of Windows has a drive or begins with two backslashes, and both slashes part it.
fn parts(path: &str) -> (bool, Vec<&str>) {
    let drive = matches!(path.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    let windows = drive || path.starts_with("\\\\");
    let separator = |c: char| c == '/' || (windows && c == '\\');
    (windows, path.split(separator).filter(|it| !it.is_empty()).collect())
}

/// Whether a path from elsewhere begins at a root: all in a library do.
fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || parts(path).0
}

/// Where the file is here, by the longest of the folders that it is below.
pub(crate) fn here(folders: &[MappedFolder], path: &str) -> Option<PathBuf> {
    below(folders, path).map(|it| it.1)
}

/// The same, with the folder.
fn below<'a>(folders: &'a [MappedFolder], path: &str) -> Option<(&'a Path, PathBuf)> {
    let (windows, path) = parts(path);
    let rest = |folder: &MappedFolder| {
        let (other, there) = parts(&folder.there);
        let equal = |a: &str, b: &str| if windows { a.eq_ignore_ascii_case(b) } else { a == b };
        let below = other == windows
            && there.len() < path.len()
            && there.iter().zip(&path).all(|(a, b)| equal(a, b));
        below.then_some(there.len())
    };
    let (length, folder) =
        folders.iter().filter_map(|it| Some((rest(it)?, it))).max_by_key(|it| it.0)?;
    let mut found = folder.here.clone();
    for part in &path[length..] {
        // A server could give any path: one part is one name, and leads nowhere else.
        let mut names = Path::new(part).components();
        let (Some(Component::Normal(name)), None) = (names.next(), names.next()) else {
            return None;
        };
        found.push(name);
    }
    Some((&folder.here, found))
}

impl Records {
    /// Says that a folder of a library, by its path there, is `here` on this computer; returns the library with all of
    /// its folders. One that is mapped already is mapped anew.
    ///
    /// # Errors
    /// [`Error::NoLibrary`]; a folder there that is no absolute path, or one here that can not be read; when the
    /// catalog can not be written.
    pub fn map_folder(&self, name: &str, there: &str, here: &Path) -> Result<LibraryStatus> {
        let bad = |what: String| Error::BadRequest(Trouble { what, advice: None });
        if !is_absolute(there) || there.contains('\0') {
            return Err(bad(format!(
                "{there:?} is no folder of the library: give its whole path there"
            )));
        }
        let found = resolved(here).and_then(|it| std::fs::read_dir(&it).map(|_| it));
        let here = found.map_err(|error| {
            bad(format!("{} can not be read as a folder here: {error}", here.display()))
        })?;
        self.change_folders(name, |folders| {
            folders.retain(|it| parts(&it.there) != parts(there));
            folders.push(MappedFolder { there: there.to_owned(), here });
            folders.sort_by(|a, b| a.there.cmp(&b.there));
            Ok(())
        })
    }

    /// Forgets where a folder of a library is here.
    ///
    /// # Errors
    /// [`Error::NoLibrary`]; a folder that is not mapped; when the catalog can not be written.
    pub fn unmap_folder(&self, name: &str, there: &str) -> Result<LibraryStatus> {
        self.change_folders(name, |folders| {
            let before = folders.len();
            folders.retain(|it| parts(&it.there) != parts(there));
            if folders.len() == before {
                return Err(Error::BadRequest(format!("{there:?} of {name} is not mapped").into()));
            }
            Ok(())
        })
    }

    fn change_folders(
        &self,
        name: &str,
        change: impl FnOnce(&mut Vec<MappedFolder>) -> Result<()>,
    ) -> Result<LibraryStatus> {
        let mut all = kept(&self.catalog)?;
        let library = all.iter_mut().find(|it| it.name == name);
        let library = library.ok_or_else(|| Error::NoLibrary { name: name.to_owned() })?;
        change(&mut library.folders)?;
        keep(&self.catalog, &all)?;
        named(&self.catalog, name)
    }

    /// The file of a library on this computer, links followed: it exists and lies below the folder that is mapped.
    ///
    /// # Errors
    /// [`Error::NoLibrary`]; where no folder above it is mapped, or it is not there; when a link leads out of the
    /// folder.
    pub fn path_here(&self, name: &str, path: &str) -> Result<PathBuf> {
        let library = named(&self.catalog, name)?;
        let Some((folder, file)) = below(&library.folders, path) else {
            let what = format!("the file is on another computer, which has written it to {name}");
            return Err(Error::BadRequest(Trouble::with(what, Advice::MapLibraryFolder)));
        };
        inside(folder, &file)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::home::Config;

    fn mapped(pairs: &[(&str, &str)]) -> Vec<MappedFolder> {
        let folder = |it: &(&str, &str)| MappedFolder { there: it.0.to_owned(), here: it.1.into() };
        pairs.iter().map(folder).collect()
    }

    #[test]
    fn the_longest_folder_counts_and_names_are_whole() {
        let folders = mapped(&[("/srv/team", "/mnt/team"), ("/srv/team/plans/", "/home/me/plans")]);
        let at = |path: &str| here(&folders, path).map(|it| it.display().to_string());
        assert_eq!(at("/srv/team/a/b.md").as_deref(), Some("/mnt/team/a/b.md"));
        assert_eq!(at("/srv/team/plans/x.md").as_deref(), Some("/home/me/plans/x.md"));
        for path in
            ["/srv/teams/a.md", "/srv/team", "srv", "", "/SRV/team/a.md", "C:\\srv\\team\\a"]
        {
            assert_eq!(at(path), None, "{path}");
        }
    }

    #[test]
    fn paths_of_windows_are_read_as_windows_does() {
        let folders =
            mapped(&[("C:\\Users\\Ada\\Docs", "/mnt/ada"), ("\\\\nas\\share", "/mnt/nas")]);
        let at = |path: &str| here(&folders, path).map(|it| it.display().to_string());
        assert_eq!(at("c:\\users\\ada\\docs\\Plan\\a.md").as_deref(), Some("/mnt/ada/Plan/a.md"));
        assert_eq!(at("C:/Users/Ada/Docs/a.md").as_deref(), Some("/mnt/ada/a.md"));
        assert_eq!(at("\\\\nas\\share\\a.md").as_deref(), Some("/mnt/nas/a.md"));
        assert_eq!(at("C:\\Users\\Ada\\Docs\\..\\..\\x"), None);
        assert_eq!(at("/Users/Ada/Docs/a.md"), None);
    }

    #[test]
    fn a_file_is_opened_below_its_folder_alone() {
        let home = tempfile::tempdir().expect("a folder");
        let mount = tempfile::tempdir().expect("a folder");
        let folder = mount.path().join("team");
        std::fs::create_dir(&folder).expect("made");
        std::fs::write(folder.join("a.md"), "x").expect("written");
        std::fs::write(mount.path().join("secret"), "x").expect("written");
        let records = Records::open(Config::new(home.path())).expect("opens");
        records.add_library("team", "milvus://localhost:1/team").expect("known");
        let error = records.path_here("team", "/srv/a.md").expect_err("not mapped");
        assert!(
            matches!(&error, Error::BadRequest(it) if it.advice == Some(Advice::MapLibraryFolder))
        );
        for there in ["srv", "", "C", "../x"] {
            assert!(records.map_folder("team", there, &folder).is_err(), "{there:?}");
        }
        assert!(records.map_folder("team", "/srv", &folder.join("a.md")).is_err(), "a file");
        assert!(records.map_folder("team", "/srv", &folder.join("gone")).is_err());
        assert!(records.map_folder("other", "/srv", &folder).is_err());
        records.map_folder("team", "/srv", mount.path()).expect("mapped");
        let now = records.map_folder("team", "/srv/", &folder).expect("mapped anew");
        assert_eq!(now.folders.len(), 1);
        let real = folder.canonicalize().expect("there").join("a.md");
        assert_eq!(records.path_here("team", "/srv/a.md").expect("there"), real);
        for path in ["/srv/gone.md", "/srv/../secret", "/srv/x/../../secret", "/srv", "/other/a.md"]
        {
            assert!(records.path_here("team", path).is_err(), "{path}");
        }
        #[cfg(unix)]
        {
            let link = folder.join("link");
            std::os::unix::fs::symlink(mount.path().join("secret"), &link).expect("linked");
            let error = records.path_here("team", "/srv/link").expect_err("leads out");
            assert!(error.to_string().contains("leads out"), "{error}");
        }
        assert!(records.unmap_folder("team", "/elsewhere").is_err());
        assert!(records.unmap_folder("team", "/srv").expect("unmapped").folders.is_empty());
    }

    proptest! {
        #[test]
        fn whatever_a_library_says_stays_below_the_folder(
            path in "(/srv|C:|/)?([/\\\\]|\\.\\.|[.a\u{0}ä]){0,12}",
            there in "(/srv|C:)([/\\\\][a.]{1,2}){0,2}",
        ) {
            let folders = mapped(&[(&there, "/mnt/x")]);
            if let Some(found) = here(&folders, &path) {
                prop_assert!(found.starts_with("/mnt/x") && found != Path::new("/mnt/x"));
                prop_assert!(found.components().all(|it| it != Component::ParentDir), "{found:?}");
            }
        }
    }
}
