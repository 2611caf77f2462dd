//! Roots that lie elsewhere now: which folder one was, and what its files were.

use std::path::{Path, PathBuf};

use riddle_types::FolderIdentity;
use rusqlite::{Transaction, params};

use crate::{
    Catalog, Error, Result, RootId,
    paths::{from_bytes, to_bytes},
    roots::{marks_moved, roots},
    scan::identity,
};

/// A file as it was when it was last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownFile {
    /// Relative to its root.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// Modification time in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Its number on its volume, where there is one.
    pub inode: Option<u64>,
}

impl Catalog {
    /// Keeps which folder a root is, as it is there now.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn identify_root(&self, root: RootId, known: &FolderIdentity) -> Result<()> {
        self.transaction(|transaction| write_identity(transaction, root, known))
    }

    /// Says that a root lies elsewhere now, and which folder it is there. Its files keep what is known of them, and the
    /// derived indexes are told of their new paths. Marks of folders hold in the new place as well as in the old one:
    /// what comes back there is no less private.
    ///
    /// # Errors
    /// [`Error::RelativeRoot`]; [`Error::NestedRoot`] with another root at, around or in the new place;
    /// [`Error::UnknownRoot`]; when the database can not be written.
    pub fn follow_root(&self, root: RootId, to: &Path, known: &FolderIdentity) -> Result<()> {
        if !to.is_absolute() {
            return Err(Error::RelativeRoot { path: to.to_path_buf() });
        }
        self.transaction(|transaction| {
            let folders = roots(transaction)?.into_iter().filter(|it| !it.is_virtual);
            let (own, others): (Vec<_>, Vec<_>) = folders.partition(|it| it.id == root);
            let Some(from) = own.into_iter().next().map(|it| it.path) else {
                return Err(Error::UnknownRoot { id: root.0 });
            };
            let nested = |it: &Path| it.starts_with(to) || to.starts_with(it);
            if let Some(other) = others.into_iter().find(|it| nested(&it.path)) {
                return Err(Error::NestedRoot { path: to.to_path_buf(), root: other.path });
            }
            transaction.execute(
                "UPDATE roots SET path = ?2 WHERE id = ?1",
                params![root.0, to_bytes(to)],
            )?;
            write_identity(transaction, root, known)?;
            for (_, here) in marks_moved(transaction, &from, to)? {
                transaction.execute(
                    "INSERT INTO confined (path) VALUES (?1) ON CONFLICT (path) DO NOTHING",
                    [to_bytes(&here)],
                )?;
            }
            // The keyword index holds the path of every chunk.
            transaction.execute(
                "INSERT INTO changes (chunk, removed)
                 SELECT chunks.id, 0 FROM chunks JOIN files ON files.id = chunks.file WHERE files.root = ?1",
                [root.0],
            )?;
            // Who tried to read a file at the old path found nothing there.
            transaction.execute(
                "UPDATE jobs SET attempts = 0 WHERE file IN (SELECT id FROM files WHERE root = ?1)",
                [root.0],
            )?;
            Ok(())
        })
    }

    /// Some files of a root, from all over it: `most` at the most.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn some_files(&self, root: RootId, most: u32) -> Result<Vec<KnownFile>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "WITH all_of_it AS (
                 SELECT *, row_number() OVER (ORDER BY id) - 1 AS at, count(*) OVER () AS count
                 FROM files WHERE root = ?1
             )
             SELECT path, size, modified_ns, inode FROM all_of_it
             WHERE at % ((count + ?2 - 1) / ?2) = 0 ORDER BY at",
        )?;
        let rows = statement.query_map(params![root.0, most.max(1)], |row| {
            Ok(KnownFile {
                path: from_bytes(row.get(0)?),
                size: row.get::<_, i64>(1)?.cast_unsigned(),
                modified_ns: row.get(2)?,
                inode: row.get::<_, Option<i64>>(3)?.map(i64::cast_unsigned),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

fn write_identity(
    transaction: &Transaction<'_>,
    root: RootId,
    known: &FolderIdentity,
) -> Result<()> {
    let (volume, inode) = identity(known.volume_id);
    let place = known.place.as_ref();
    transaction.execute(
        "UPDATE roots SET volume = ?2, inode = ?3, file_system = ?4, within = ?5 WHERE id = ?1",
        params![
            root.0,
            volume,
            inode,
            place.map(|it| it.file_system.as_str()),
            place.map(|it| to_bytes(&it.within))
        ],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use riddle_types::{
        Chunk, FileEntry, FileKind, FileState, FolderPlace, Location, ScanVerdict, VectorTurn,
    };

    use super::*;
    use crate::{FileOutcome, NewChunk};

    fn entry(name: &str, inode: u64) -> FileEntry {
        FileEntry {
            relative_path: name.into(),
            size: 10 + inode,
            modified_ns: 1000 + inode.cast_signed(),
            volume_id: Some((1, inode)),
            verdict: ScanVerdict::Read,
        }
    }

    /// A catalog with a root and `files` files, each read into one chunk.
    fn filled(path: &Path, files: u64) -> (tempfile::TempDir, Catalog, RootId) {
        let home = tempfile::tempdir().expect("temp dir");
        let catalog = Catalog::open(&home.path().join("catalog.sqlite")).expect("opens");
        let root = catalog.add_root(path).expect("added").id;
        let entries: Vec<_> = (0..files).map(|it| entry(&format!("{it}.txt"), it)).collect();
        catalog.apply_scan(root, &entries, true, &[]).expect("scanned");
        let jobs = catalog.next_jobs(99).expect("jobs");
        for job in catalog.begin_jobs(jobs).expect("begun") {
            let seen = entries.iter().find(|it| it.relative_path == job.relative_path);
            let read = NewChunk {
                chunk: Chunk {
                    ordinal: 0,
                    text: "a boat".to_owned(),
                    heading: String::new(),
                    location: Location::Whole,
                    turn: VectorTurn::Early,
                    tokens: 2,
                },
                text_hash: [7; 32],
                vector: None,
            };
            let outcome = FileOutcome {
                file: job.file,
                content_hash: None,
                kind: FileKind::Text,
                state: FileState::Indexed,
                reason: String::new(),
                title: None,
                language: None,
                warnings: Vec::new(),
                tags: Vec::new(),
                size: job.size,
                modified_ns: job.modified_ns,
                volume_id: seen.and_then(|it| it.volume_id),
                chunks: vec![read],
                pictures: Vec::new(),
            };
            catalog.commit_files(&[outcome], None).expect("written");
        }
        (home, catalog, root)
    }

    fn lies(file_system: &str, within: &str) -> FolderIdentity {
        FolderIdentity {
            volume_id: Some((3, u64::MAX)),
            place: Some(FolderPlace { file_system: file_system.into(), within: within.into() }),
        }
    }

    #[test]
    fn a_root_remembers_which_folder_it_is() {
        let (_home, catalog, root) = filled(Path::new("/old"), 0);
        let known = || catalog.roots().expect("roots")[0].identity.clone();
        assert_eq!(known(), FolderIdentity::default());
        catalog.identify_root(root, &lies("12AB-34CD", "/docs")).expect("kept");
        assert_eq!(known(), lies("12AB-34CD", "/docs"));
        catalog.identify_root(root, &FolderIdentity::default()).expect("kept");
        assert_eq!(known(), FolderIdentity::default());
    }

    #[test]
    fn what_is_known_of_a_root_goes_where_it_lies_now_and_marks_hold_in_both_places() {
        let (_home, catalog, root) = filled(Path::new("/old"), 3);
        catalog.confine(Path::new("/old/medical"), true).expect("marked");
        catalog.confine(Path::new("/older"), true).expect("marked");
        let before = catalog.last_seq().expect("a number");
        catalog.follow_root(root, Path::new("/new/place"), &lies("x", "/y")).expect("followed");
        let roots = catalog.roots().expect("roots");
        assert_eq!((roots.len(), roots[0].id), (1, root));
        assert_eq!(roots[0].path, Path::new("/new/place"));
        assert_eq!(roots[0].identity, lies("x", "/y"));
        let marks: HashSet<PathBuf> = catalog.confined().expect("marks").into_iter().collect();
        let both = ["/old/medical", "/new/place/medical", "/older"].map(PathBuf::from);
        assert_eq!(marks, HashSet::from(both));
        let told = catalog.changes_since(before, 9).expect("changes");
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told.iter().all(|it| !it.removed && it.only.is_none()));
        let place = &catalog.places().expect("places")[0];
        assert_eq!((place.path.as_path(), place.chunks), (Path::new("/new/place/0.txt"), 1));
    }

    #[test]
    fn a_root_goes_to_no_place_of_another_one() {
        let (_home, catalog, root) = filled(Path::new("/old"), 1);
        catalog.add_root(Path::new("/a/b")).expect("added");
        let to = |it: &str| catalog.follow_root(root, Path::new(it), &FolderIdentity::default());
        for taken in ["/a/b", "/a/b/c", "/a"] {
            assert!(matches!(to(taken), Err(Error::NestedRoot { .. })), "{taken}");
        }
        assert!(matches!(to("relative"), Err(Error::RelativeRoot { .. })));
        let unknown =
            catalog.follow_root(RootId(99), Path::new("/new"), &FolderIdentity::default());
        assert!(matches!(unknown, Err(Error::UnknownRoot { .. })));
        to("/a/c").expect("beside the other");
        to("/a/c/d").expect("into itself");
    }

    #[test]
    fn some_files_are_from_all_over_a_root() {
        let (_home, catalog, root) = filled(Path::new("/old"), 10);
        let names = |most| -> Vec<String> {
            let some = catalog.some_files(root, most).expect("files");
            some.iter().map(|it| it.path.display().to_string()).collect()
        };
        assert_eq!(names(3), ["0.txt", "4.txt", "8.txt"]);
        assert_eq!(names(10).len(), 10);
        assert_eq!(names(99).len(), 10);
        assert_eq!(names(0), ["0.txt"]);
        let first = catalog.some_files(root, 1).expect("files").remove(0);
        assert_eq!((first.size, first.modified_ns, first.inode), (10, 1000, Some(0)));
        assert_eq!(catalog.some_files(RootId(99), 5).expect("none"), []);
    }
}
