//! Whether a folder is there, which one it is, and what its file system does not tell.

use std::path::{Path, PathBuf};

use riddle_types::{FolderIdentity, FolderPlace};

use crate::Stamp;

/// Whether a root is there now. With the number of the volume that it was last seen on, an empty folder on another
/// one is the mount point of a disk that is not.
pub fn is_there(root: &Path, known_volume: Option<u64>) -> bool {
    let Ok(metadata) = std::fs::metadata(root) else { return false };
    let volume = Stamp::of(&metadata).volume_id.map(|it| it.0);
    let is_mount_point = || {
        known_volume.is_some()
            && volume != known_volume
            && std::fs::read_dir(root).is_ok_and(|mut it| it.next().is_none())
    };
    metadata.is_dir() && !is_mount_point()
}

/// Which folder it is; nothing of one that is not there. Links are to be followed before.
pub fn identify(folder: &Path) -> FolderIdentity {
    match std::fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => FolderIdentity {
            volume_id: Stamp::of(&metadata).volume_id,
            place: system::place_of(folder),
        },
        _ => FolderIdentity::default(),
    }
}

/// Where a folder may lie now that was `known` and lay at `path`: renamed in place, or on a disk or share that is
/// mounted elsewhere. Whether one of them is the same folder is for others to say.
pub fn traces(path: &Path, known: &FolderIdentity) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let (Some(parent), Some(_)) = (path.parent(), known.volume_id) {
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        // Metadata of an entry are those of a link itself.
        let same = entries.filter(|it| {
            it.metadata().is_ok_and(|it| it.is_dir() && Stamp::of(&it).volume_id == known.volume_id)
        });
        found.extend(same.map(|it| it.path()));
    }
    if let Some(place) = &known.place {
        found.extend(system::paths_to(place).into_iter().filter(|it| it.is_dir()));
    }
    found.sort();
    found.dedup();
    found.retain(|it| it != path);
    found
}

/// Whether a folder is on a network share: no event tells of what others write there. Nobody is asked who could be
/// away.
pub fn is_on_share(folder: &Path) -> bool {
    system::is_share(folder)
}

#[cfg(target_os = "linux")]
mod system {
    use super::{FolderPlace, Path, PathBuf};
    use crate::mounts::Mounts;

    pub(super) fn place_of(folder: &Path) -> Option<FolderPlace> {
        Mounts::read().place_of(folder)
    }

    pub(super) fn paths_to(place: &FolderPlace) -> Vec<PathBuf> {
        Mounts::read().paths_to(place)
    }

    pub(super) fn is_share(folder: &Path) -> bool {
        Mounts::read().is_share(folder)
    }
}

/// Other systems tell it by calls that are not in Rust's own library.
#[cfg(not(target_os = "linux"))]
mod system {
    use super::{FolderPlace, Path, PathBuf};

    pub(super) fn place_of(_folder: &Path) -> Option<FolderPlace> {
        None
    }

    pub(super) fn paths_to(_place: &FolderPlace) -> Vec<PathBuf> {
        Vec::new()
    }

    pub(super) fn is_share(_folder: &Path) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_is_there_unless_it_is_an_empty_mount_point() {
        let dir = tempfile::tempdir().expect("temp dir");
        let volume = identify(dir.path()).volume_id.map(|it| it.0);
        assert!(is_there(dir.path(), None) && is_there(dir.path(), volume));
        assert!(!is_there(&dir.path().join("gone"), None));
        if let Some(volume) = volume {
            assert!(!is_there(dir.path(), Some(volume + 1)), "empty, on another volume");
        }
        fs::write(dir.path().join("file"), "x").expect("written");
        assert!(is_there(dir.path(), volume.map(|it| it + 1)), "not empty");
        assert!(!is_there(&dir.path().join("file"), None), "no folder");
    }

    #[cfg(unix)]
    #[test]
    fn a_renamed_folder_leaves_a_trace_and_a_link_to_it_none() {
        let dir = tempfile::tempdir().expect("temp dir");
        let dir = dir.path().canonicalize().expect("path");
        let (old, new) = (dir.join("old"), dir.join("new"));
        fs::create_dir(&old).expect("folder");
        let known = identify(&old);
        assert!(known.volume_id.is_some());
        // It holds its number, so that no other folder gets it.
        fs::rename(&old, &new).expect("renamed");
        fs::create_dir(dir.join("other")).expect("folder");
        std::os::unix::fs::symlink(&new, dir.join("link")).expect("link");
        let known_by_number = FolderIdentity { place: None, ..known.clone() };
        assert_eq!(traces(&old, &known_by_number), std::slice::from_ref(&new));
        assert_eq!(identify(&new).volume_id, known.volume_id);
        assert_eq!(identify(&old), FolderIdentity::default());
        assert_eq!(traces(&old, &FolderIdentity::default()), Vec::<PathBuf>::new());
    }
}
