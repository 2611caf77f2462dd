//! The folders that are indexed, and those whose text never leaves this machine.

use std::path::{Path, PathBuf};

use riddle_catalog::RootId;
use riddle_types::FileState;

use super::Records;
use crate::{
    contract::{Error, Result},
    home::{
        presence::{is_on_removable, is_present, looked_at_every},
        resolved,
    },
};

/// A folder that is indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderStatus {
    /// Identity.
    pub id: RootId,
    /// The folder.
    pub path: PathBuf,
    /// Whether it is there now.
    pub present: bool,
    /// Whether its text never leaves this machine.
    pub confined: bool,
    /// Files per state.
    pub counts: Vec<(FileState, u64)>,
    /// On a network share, whose changes nobody tells of: minutes between two looks at it while folders are followed.
    pub looked_at_every: Option<u64>,
    /// On a disk that comes and goes.
    pub removable: bool,
}

impl Records {
    /// The folders that are indexed, oldest first.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn folders(&self) -> Result<Vec<FolderStatus>> {
        let confined = self.catalog.confined()?;
        let roots = self.catalog.roots()?.into_iter().filter(|it| !it.is_virtual);
        roots
            .map(|root| {
                let counts = self.catalog.counts_of_root(root.id)?;
                Ok(FolderStatus {
                    id: root.id,
                    present: is_present(&root),
                    confined: confined.iter().any(|it| root.path.starts_with(it)),
                    looked_at_every: looked_at_every(&root.path),
                    removable: is_on_removable(&root.path),
                    path: root.path,
                    counts,
                })
            })
            .collect()
    }

    /// Folders whose text never leaves this machine.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn confined(&self) -> Result<Vec<PathBuf>> {
        Ok(self.catalog.confined()?)
    }

    /// Marks a folder as one whose text never leaves this machine, with all below it, or takes the mark away; returns
    /// the folder with links followed. It holds from the next question on.
    ///
    /// # Errors
    /// A folder that is not there, or that stays marked because of one above it; when the catalog can not be written.
    pub fn confine(&self, path: &Path, confined: bool) -> Result<PathBuf> {
        let bad = |why: String| Error::BadRequest(format!("{}: {why}", path.display()).into());
        // A mark can be taken from a folder that is gone; one on a wrong name would protect nothing.
        let folder = match resolved(path) {
            Ok(folder) if folder.is_dir() => folder,
            Ok(_) => return Err(bad("it is a file: give the folder it is in".to_owned())),
            Err(_) if !confined && path.is_absolute() => path.to_path_buf(),
            Err(error) => return Err(bad(format!("{error}: give a folder that is there"))),
        };
        let above = self.catalog.confined()?;
        let above = above.iter().find(|it| folder != **it && folder.starts_with(it));
        if let (false, Some(above)) = (confined, above) {
            let why = format!("it lies in {}, which is marked: release that", above.display());
            return Err(bad(why));
        }
        self.catalog.confine(&folder, confined)?;
        Ok(folder)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::home::Config;

    #[test]
    fn marks_of_folders_are_where_the_folders_are() {
        let home = tempfile::tempdir().expect("a folder");
        let files = tempfile::tempdir().expect("a folder");
        let (outer, inner) = (files.path().join("a"), files.path().join("a/b"));
        fs::create_dir_all(&inner).expect("made");
        fs::write(outer.join("file"), "x").expect("written");
        let records = Records::open(Config::new(home.path())).expect("opens");
        assert!(records.confine(&outer.join("typo"), true).is_err(), "it would protect nothing");
        assert!(records.confine(&outer.join("file"), true).is_err());
        let marked = records.confine(&outer.join("b/.."), true).expect("marked");
        assert_eq!(marked, outer.canonicalize().expect("there"));
        assert_eq!(records.confined().expect("marks"), [marked.as_path()]);
        let error = records.confine(&inner, false).expect_err("a folder above is marked");
        assert!(error.to_string().contains("release that"), "{error}");
        fs::remove_dir_all(&outer).expect("removed");
        records.confine(&marked, false).expect("released although it is gone");
        assert!(records.confined().expect("marks").is_empty());
    }
}
