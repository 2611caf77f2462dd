//! Roots that lie elsewhere now: renamed, moved, or on a disk that came back at another path.
//!
//! A root that is away is taken for a folder only if what the system tells of both says so *and* the files bear it out:
//!
//! 1. Both lie at the same place of the same disk or share (by UUID or address), and half of the files are there by
//!    name and size. Times do not count: FAT has them in the local time of whoever reads it.
//! 2. It is the same folder of the same volume by its number there, and half of the files have their name, size, time
//!    and number. A number alone says little: that of a deleted folder is given to the next one.
//! 3. It is another folder, the old one was deleted, and nine tenths of the files have their name, size and time: they
//!    were copied. A disk that is taken out deletes nothing, so a copy on another one is a folder of its own.
//!
//! In any doubt it is a folder of its own: then it is read anew, which costs time and nothing else.

use std::path::{Path, PathBuf};

use riddle_catalog::{KnownFile, Root};
use riddle_types::{FolderIdentity, Notice};
use riddle_watch::{Stamp, identify, traces};

use super::Library;
use crate::{contract::Result, home::presence::is_present};

/// Files of a root that are looked for in a folder, at most: a share of thousands is known well enough by them.
const COMPARED: u32 = 256;

/// Files that were copied at least: one or two of the same name, size and time are in many places, such as licenses.
const FEWEST_COPIED: usize = 3;

impl Library {
    /// Makes a root that is away be `folder`, if it is that one; where it lay before.
    pub(super) fn recognize(&self, folder: &Path) -> Result<Option<PathBuf>> {
        let roots = self.folders()?;
        let nested = |it: &Root| it.path.starts_with(folder) || folder.starts_with(&it.path);
        if roots.iter().any(nested) {
            return Ok(None);
        }
        let mut same = Vec::new();
        for root in roots.iter().filter(|it| !is_present(it)) {
            if self.is_same(root, folder)? {
                same.push(root);
            }
        }
        // Two that could be it are a doubt.
        let [root] = same.as_slice() else { return Ok(None) };
        self.catalog.follow_root(root.id, folder, &identify(folder))?;
        tracing::info!("{} is now {}", root.path.display(), folder.display());
        Ok(Some(root.path.clone()))
    }

    /// A root as it is there now: one that lies elsewhere is followed, and that is told.
    pub(super) fn located(&self, root: &Root, notices: &mut Vec<Notice>) -> Result<Root> {
        let mut root = root.clone();
        if !is_present(&root)
            && let Some(to) = self.traced(&root)?
        {
            let identity = identify(&to);
            self.catalog.follow_root(root.id, &to, &identity)?;
            tracing::info!("{} is now {}", root.path.display(), to.display());
            notices.push(Notice::FolderMoved { from: root.path, to: to.clone() });
            (root.path, root.identity) = (to, identity);
        }
        Ok(root)
    }

    /// Where a root that is away lies now, if that is beyond doubt.
    fn traced(&self, root: &Root) -> Result<Option<PathBuf>> {
        let mut others = self.folders()?;
        others.retain(|it| it.id != root.id);
        let mut same: Vec<PathBuf> = Vec::new();
        for path in traces(&root.path, &root.identity) {
            let Ok(path) = path.canonicalize() else { continue };
            let nested = |it: &Root| it.path.starts_with(&path) || path.starts_with(&it.path);
            if !others.iter().any(nested) && !same.contains(&path) && self.is_same(root, &path)? {
                same.push(path);
            }
        }
        Ok(if same.len() == 1 { same.pop() } else { None })
    }

    /// Whether a folder is a root that is away.
    fn is_same(&self, root: &Root, folder: &Path) -> Result<bool> {
        let known = self.catalog.some_files(root.id, COMPARED)?;
        Ok(is_same(root, folder, &identify(folder), &known))
    }

    /// Keeps which folder a root is, where that is not known already.
    pub(super) fn remember(&self, root: &Root) -> Result<()> {
        let identity = identify(&root.path);
        if identity != root.identity && identity != FolderIdentity::default() {
            self.catalog.identify_root(root.id, &identity)?;
        }
        Ok(())
    }
}

fn is_same(root: &Root, folder: &Path, now: &FolderIdentity, files: &[KnownFile]) -> bool {
    let known = &root.identity;
    let places = (known.place.as_ref(), now.place.as_ref());
    if let (Some(known), Some(now)) = places
        && known == now
    {
        let same = alike(files, folder, |file, stamp| file.size == stamp.size);
        return same > 0 && same * 2 >= files.len();
    }
    let was_deleted = was_deleted(root);
    let unchanged = |file: &KnownFile, stamp: &Stamp| {
        file.size == stamp.size && file.modified_ns == stamp.modified_ns
    };
    let same_volume = match places {
        // Volumes are numbered anew, names of file systems stay.
        (Some(known), Some(now)) => known.file_system == now.file_system,
        (None, None) => {
            was_deleted && known.volume_id.map(|it| it.0) == now.volume_id.map(|it| it.0)
        }
        _ => false,
    };
    let number = known.volume_id.map(|it| it.1);
    if same_volume && number.is_some() && number == now.volume_id.map(|it| it.1) {
        let same = alike(files, folder, |file, stamp| {
            let inode = stamp.volume_id.map(|it| it.1);
            unchanged(file, stamp) && inode.is_some() && file.inode == inode
        });
        if same > 0 && same * 2 >= files.len() {
            return true;
        }
    }
    if !was_deleted {
        return false;
    }
    let same = alike(files, folder, unchanged);
    same >= FEWEST_COPIED && same * 10 >= files.len() * 9
}

/// Whether a root that is away is gone from its volume: what held it is still there, on the same one. Not so the folder
/// of a disk that was taken out.
fn was_deleted(root: &Root) -> bool {
    let Some(above) = root.path.ancestors().skip(1).find(|it| it.is_dir()) else { return false };
    let (known, above) = (&root.identity, identify(above));
    match (&known.place, &above.place) {
        (Some(known), Some(above)) => known.file_system == above.file_system,
        (None, None) => {
            let volume = known.volume_id.map(|it| it.0);
            volume.is_some() && volume == above.volume_id.map(|it| it.0)
        }
        _ => false,
    }
}

/// How many of the files are in the folder, and alike.
fn alike(
    files: &[KnownFile],
    folder: &Path,
    is_alike: impl Fn(&KnownFile, &Stamp) -> bool,
) -> usize {
    let there = |file: &&KnownFile| {
        let found = std::fs::symlink_metadata(folder.join(&file.path));
        found.is_ok_and(|it| it.is_file() && is_alike(file, &Stamp::of(&it)))
    };
    files.iter().filter(there).count()
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs, sync::atomic::AtomicBool};

    use riddle_types::FolderPlace;

    use super::*;
    use crate::{contract::IndexReport, home::Config};

    struct Desk {
        folder: tempfile::TempDir,
        library: Library,
    }

    impl Desk {
        /// A library with one root of `files` notes, which has been scanned.
        fn with(root: &str, files: usize) -> Desk {
            let folder = tempfile::tempdir().expect("a folder");
            let home = folder.path().join("home");
            let library = Library::open(Config::new(&home)).expect("opens");
            let mut desk = Desk { folder, library };
            for it in 0..files {
                desk.write(&format!("{root}/note {it}.md"), &format!("Note {it} of the boat."));
            }
            fs::create_dir_all(desk.path(root)).expect("made");
            desk.library.add_root(&desk.path(root)).expect("added");
            desk.scan();
            desk
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().canonicalize().expect("there").join(name)
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.path(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        }

        /// A copy with the times of its files, as a backup has them.
        fn copy(&self, from: &str, to: &str) {
            fs::create_dir_all(self.path(to)).expect("made");
            for entry in fs::read_dir(self.path(from)).expect("read") {
                let entry = entry.expect("an entry");
                let copy = self.path(to).join(entry.file_name());
                fs::copy(entry.path(), &copy).expect("copied");
                let time = entry.metadata().and_then(|it| it.modified()).expect("a time");
                let file = fs::File::options().write(true).open(copy).expect("opens");
                file.set_modified(time).expect("set");
            }
        }

        fn scan(&self) -> IndexReport {
            let mut report = IndexReport::default();
            for root in self.library.folders().expect("roots") {
                let stop = AtomicBool::new(false);
                self.library.scan_root(&root, &mut |_| {}, &stop, &mut report).expect("scanned");
            }
            report
        }

        fn add(&mut self, name: &str) {
            let path = self.path(name);
            self.library.add_root(&path).expect("added");
        }

        fn roots(&self) -> Vec<PathBuf> {
            self.library.folders().expect("roots").into_iter().map(|it| it.path).collect()
        }

        fn check(&self, expected: &[&str]) {
            let expected: Vec<PathBuf> = expected.iter().map(|it| self.path(it)).collect();
            assert_eq!(self.roots(), expected);
        }
    }

    #[test]
    fn a_folder_that_was_renamed_is_found_by_a_scan_and_told() {
        let desk = Desk::with("notes", 4);
        fs::rename(desk.path("notes"), desk.path("diary")).expect("renamed");
        let report = desk.scan();
        assert_eq!((report.unchanged, report.new, report.unreachable.len()), (4, 0, 0));
        let (from, to) = (desk.path("notes"), desk.path("diary"));
        assert_eq!(report.notices, [Notice::FolderMoved { from, to }]);
        desk.check(&["diary"]);
        assert_eq!(desk.scan().notices, [], "told once");
    }

    #[test]
    fn a_folder_that_was_moved_is_known_when_it_is_added() {
        let mut desk = Desk::with("deep/notes", 4);
        fs::create_dir(desk.path("archive")).expect("made");
        fs::rename(desk.path("deep/notes"), desk.path("archive/notes")).expect("moved");
        // What held it is gone, too.
        fs::remove_dir(desk.path("deep")).expect("removed");
        assert_eq!(desk.scan().unreachable.len(), 1, "not found by itself");
        desk.add("archive/notes");
        desk.check(&["archive/notes"]);
        let (from, to) = (desk.path("deep/notes"), desk.path("archive/notes"));
        assert_eq!(desk.library.told, [Notice::FolderMoved { from, to }]);
        assert_eq!(desk.scan().unchanged, 4);
    }

    #[test]
    fn what_was_copied_and_deleted_is_known_when_it_is_added() {
        let mut desk = Desk::with("notes", 10);
        desk.copy("notes", "copy");
        fs::remove_dir_all(desk.path("notes")).expect("deleted");
        fs::remove_file(desk.path("copy/note 3.md")).expect("deleted");
        desk.add("copy");
        desk.check(&["copy"]);
    }

    #[test]
    fn a_copy_of_a_folder_that_is_there_is_a_folder_of_its_own() {
        let mut desk = Desk::with("notes", 4);
        desk.copy("notes", "copy");
        desk.add("copy");
        desk.check(&["notes", "copy"]);
    }

    #[test]
    fn a_folder_with_similar_files_is_not_taken_for_one_that_is_gone() {
        let mut desk = Desk::with("notes", 10);
        desk.copy("notes", "other");
        // The same names and texts, written at another time.
        for it in 0..2 {
            desk.write(&format!("other/note {it}.md"), &format!("Note {it} of the boat."));
        }
        fs::remove_dir_all(desk.path("notes")).expect("deleted");
        assert_eq!(desk.scan().unreachable.len(), 1);
        desk.add("other");
        desk.check(&["notes", "other"]);
        // Too few say nothing.
        let mut desk = Desk::with("notes", 2);
        desk.copy("notes", "other");
        fs::remove_dir_all(desk.path("notes")).expect("deleted");
        desk.add("other");
        desk.check(&["notes", "other"]);
    }

    #[test]
    fn a_number_that_was_given_again_is_no_folder() {
        let desk = Desk::with("notes", 4);
        fs::rename(desk.path("notes"), desk.path("new")).expect("renamed");
        // As if another folder had got the number of the one that is gone.
        for it in 0..4 {
            fs::remove_file(desk.path(&format!("new/note {it}.md"))).expect("removed");
            desk.write(&format!("new/note {it}.md"), &format!("Note {it} of the boat."));
        }
        let report = desk.scan();
        assert_eq!((report.notices.len(), report.unreachable.len()), (0, 1));
        desk.check(&["notes"]);
    }

    #[test]
    fn a_copy_of_what_is_on_a_disk_that_was_taken_out_is_a_folder_of_its_own() {
        let mut desk = Desk::with("disk/notes", 10);
        desk.copy("disk/notes", "copy");
        fs::rename(desk.path("disk"), desk.path("drawer")).expect("taken out");
        let root = desk.library.folders().expect("roots").remove(0);
        // It was on a disk that is not the one of what held its mount point.
        let place = Some(FolderPlace { file_system: "12AB-34CD".into(), within: "/notes".into() });
        let away = FolderIdentity { volume_id: Some((u64::MAX, 2)), place };
        for identity in [away.clone(), FolderIdentity { place: None, ..away.clone() }] {
            desk.library.catalog.identify_root(root.id, &identity).expect("kept");
            desk.add("copy");
            desk.check(&["disk/notes", "copy"]);
            desk.library.remove_root(&desk.path("copy")).expect("removed");
        }
        // Nor is a folder at the same path of another disk: its name tells.
        let known = desk.library.catalog.some_files(root.id, 99).expect("files");
        let root = Root { identity: away.clone(), ..root };
        let is_same = |file_system: &str, within: &str| {
            let place = FolderPlace { file_system: file_system.into(), within: within.into() };
            let now = FolderIdentity { place: Some(place), ..away.clone() };
            super::is_same(&root, &desk.path("copy"), &now, &known)
        };
        assert!(is_same("12AB-34CD", "/notes"), "the same disk, mounted elsewhere");
        assert!(!is_same("99FF-0000", "/notes"));
        assert!(!is_same("12AB-34CD", "/other"));
        let fewer: Vec<KnownFile> = (0..30)
            .map(|it| KnownFile { path: format!("gone {it}").into(), ..known[0].clone() })
            .chain(known.clone())
            .collect();
        let now = root.identity.clone();
        assert!(!super::is_same(&root, &desk.path("copy"), &now, &fewer), "few are there");
        assert!(!super::is_same(&root, &desk.path("copy"), &now, &[]), "nothing bears it out");
    }

    #[test]
    fn two_folders_that_could_be_it_are_a_doubt() {
        let mut desk = Desk::with("notes", 4);
        desk.copy("notes", "second");
        desk.add("second");
        desk.scan();
        desk.copy("notes", "third");
        for it in ["notes", "second"] {
            fs::remove_dir_all(desk.path(it)).expect("deleted");
        }
        desk.add("third");
        desk.check(&["notes", "second", "third"]);
    }

    #[test]
    fn a_folder_that_is_another_root_already_is_left_to_it() {
        let mut desk = Desk::with("notes", 4);
        desk.write("outer/a.md", "Another one.");
        fs::rename(desk.path("notes"), desk.path("outer/notes")).expect("moved");
        desk.add("outer");
        let report = desk.scan();
        assert_eq!((report.notices.len(), report.unreachable.len()), (0, 1));
        desk.check(&["notes", "outer"]);
    }
}
