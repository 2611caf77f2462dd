//! Reconciling a scan with what is known: new, changed, moved, gone.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::{Path, PathBuf},
};

use riddle_types::{FileEntry, FileState, ScanVerdict, folded};
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use crate::{
    Catalog, Error, FileId, Result, RootId,
    catalog::now,
    changes::log_file,
    paths::{display, from_bytes, to_bytes},
};

/// What a scan changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScanDelta {
    /// Files seen for the first time.
    pub new: u64,
    /// Files whose size, time, identity or verdict differ.
    pub changed: u64,
    /// Files that are as they were.
    pub unchanged: u64,
    /// Files followed to another path.
    pub moved: u64,
    /// Files that are gone.
    pub removed: u64,
    /// Files seen, new or not, that a rule, their size or their kind keeps from being read.
    pub skipped: u64,
}

/// How the files of a root differ from what is known of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Differences {
    /// Files to be read that are new, or wait in the queue.
    pub unread: u64,
    /// Files that were seen with another size, time, identity or verdict, and do not wait in the queue.
    pub changed: u64,
    /// Files that are no longer where they were seen.
    pub gone: u64,
}

#[derive(Debug, Clone)]
struct Known {
    id: FileId,
    size: u64,
    modified_ns: i64,
    volume_id: Option<(u64, u64)>,
    /// State and reason, where they are a scan's verdict.
    verdict: Option<(FileState, String)>,
    /// Whether it waits in the queue.
    pending: bool,
}

impl Known {
    /// Whether size, time and verdict are what is recorded.
    fn looks_like(&self, entry: &FileEntry) -> bool {
        let verdict = match &entry.verdict {
            ScanVerdict::Read => self.verdict.is_none(),
            ScanVerdict::Skip(state, reason) => {
                self.verdict.as_ref().is_some_and(|it| it.0 == *state && it.1 == *reason)
            }
        };
        verdict && self.size == entry.size && self.modified_ns == entry.modified_ns
    }

    /// Whether the entry can be the same file, seen at the same path. Device numbers are given out anew
    /// when a disk is mounted, so that only another inode tells of another file.
    fn may_be(&self, entry: &FileEntry) -> bool {
        match (self.volume_id, entry.volume_id) {
            (Some((_, known)), Some((_, seen))) => known == seen,
            _ => true,
        }
    }
}

/// What is to be written; decided before the first write.
#[derive(Default)]
struct Plan<'a> {
    moved: Vec<(PathBuf, FileId, &'a FileEntry)>,
    gone: Vec<FileId>,
    changed: Vec<(FileId, &'a FileEntry)>,
    new: Vec<&'a FileEntry>,
    /// Unchanged, and on a volume that has another number now.
    renumbered: Vec<(FileId, &'a FileEntry)>,
    unchanged: u64,
    skipped: u64,
}

impl<'a> Plan<'a> {
    fn make(
        mut known: BTreeMap<PathBuf, Known>,
        entries: &'a [FileEntry],
        may_remove: &dyn Fn(&Path) -> bool,
    ) -> Plan<'a> {
        let mut plan = Plan::default();
        let mut seen: HashSet<&Path> = HashSet::with_capacity(entries.len());
        let mut open = Vec::new();
        for entry in entries.iter().filter(|it| seen.insert(&it.relative_path)) {
            plan.skipped += u64::from(entry.verdict != ScanVerdict::Read);
            match known.get(&entry.relative_path) {
                Some(old) if old.looks_like(entry) && old.may_be(entry) => {
                    plan.unchanged += 1;
                    if old.volume_id != entry.volume_id && entry.volume_id.is_some() {
                        plan.renumbered.push((old.id, entry));
                    }
                    known.remove(&entry.relative_path);
                }
                _ => open.push(entry),
            }
        }
        plan.follow_moves(&mut known, &mut open, &|path| seen.contains(path) || may_remove(path));
        let taken: HashSet<&Path> =
            plan.moved.iter().map(|it| it.2.relative_path.as_path()).collect();
        for entry in open {
            match known.remove(&entry.relative_path) {
                Some(old) => plan.changed.push((old.id, entry)),
                None => plan.new.push(entry),
            }
        }
        // What is left was not seen, or another file has taken its place.
        plan.gone = known
            .iter()
            .filter(|(path, _)| taken.contains(path.as_path()) || may_remove(path))
            .map(|(_, it)| it.id)
            .collect();
        plan
    }

    /// Takes the pairs of `known` and `open` that are one file under two paths. `left` tells which known
    /// paths the file is no longer at: a second name of the same file (a hard link) is no move.
    fn follow_moves(
        &mut self,
        known: &mut BTreeMap<PathBuf, Known>,
        open: &mut Vec<&'a FileEntry>,
        left: &dyn Fn(&Path) -> bool,
    ) {
        let mut origins: HashMap<(u64, u64), PathBuf> = HashMap::new();
        for (path, old) in known.iter().filter(|(path, _)| left(path)) {
            if let Some(identity) = old.volume_id {
                origins.entry(identity).or_insert_with(|| path.clone());
            }
        }
        // Where files have no numbers, one is followed that is only spelled otherwise.
        let mut spelled: HashMap<String, PathBuf> = HashMap::new();
        for (path, _) in known.iter().filter(|it| it.1.volume_id.is_none() && left(it.0)) {
            spelled.entry(folded(path)).or_insert_with(|| path.clone());
        }
        open.retain(|entry| {
            let origin = match entry.volume_id {
                Some(identity) => origins.get(&identity),
                None => spelled.get(&folded(&entry.relative_path)),
            };
            let Some(path) = origin.filter(|path| {
                **path != entry.relative_path
                    && known.get(*path).is_some_and(|old| old.looks_like(entry))
            }) else {
                return true;
            };
            if let Some((path, old)) = known.remove_entry(path) {
                self.moved.push((path, old.id, entry));
            }
            false
        });
    }

    fn is_empty(&self) -> bool {
        self.moved.is_empty()
            && self.gone.is_empty()
            && self.changed.is_empty()
            && self.new.is_empty()
            && self.renumbered.is_empty()
    }

    fn differences(&self, pending: &HashSet<FileId>) -> Differences {
        let left = self.gone.iter().filter(|it| pending.contains(it)).count();
        let new = self.new.iter().filter(|it| it.verdict == ScanVerdict::Read).count();
        Differences {
            unread: (new + pending.len() - left) as u64,
            changed: self.changed.iter().filter(|it| !pending.contains(&it.0)).count() as u64,
            gone: (self.gone.len() + self.moved.len()) as u64,
        }
    }

    fn write(&self, transaction: &Transaction<'_>, root: RootId) -> Result<()> {
        for id in &self.gone {
            log_file(transaction, *id, true)?;
            transaction.prepare_cached("DELETE FROM files WHERE id = ?1")?.execute([id.0])?;
        }
        self.write_moves(transaction)?;
        for (id, entry) in &self.changed {
            update_file(transaction, *id, entry)?;
        }
        for entry in &self.new {
            insert_file(transaction, root, entry)?;
        }
        for (id, entry) in &self.renumbered {
            let (volume, inode) = identity(entry.volume_id);
            transaction
                .prepare_cached("UPDATE files SET volume = ?2, inode = ?3 WHERE id = ?1")?
                .execute(params![id.0, volume, inode])?;
        }
        Ok(())
    }

    fn write_moves(&self, transaction: &Transaction<'_>) -> Result<()> {
        // Two files may have changed places: all leave before the first arrives. No path holds a NUL.
        for (_, id, _) in &self.moved {
            let aside = [&[0], id.0.to_le_bytes().as_slice()].concat();
            transaction
                .prepare_cached("UPDATE files SET path = ?2 WHERE id = ?1")?
                .execute(params![id.0, aside])?;
        }
        for (from, id, entry) in &self.moved {
            let to = &entry.relative_path;
            transaction
                .prepare_cached("UPDATE files SET path = ?2, display = ?3 WHERE id = ?1")?
                .execute(params![id.0, to_bytes(to), display(to)])?;
            // The keyword index holds the path of every chunk.
            log_file(transaction, *id, false)?;
            // A reader that holds the old path finds nothing there and must not conclude that it is gone.
            transaction
                .prepare_cached("UPDATE jobs SET attempts = 0 WHERE file = ?1")?
                .execute([id.0])?;
            // The name's ending decides how a file is read.
            if from.extension() != to.extension() && entry.verdict == ScanVerdict::Read {
                update_file(transaction, *id, entry)?;
            }
        }
        Ok(())
    }
}

impl Catalog {
    /// Brings a root's files in line with a scan, in one transaction; nothing is written when nothing
    /// changed.
    ///
    /// New and changed files are queued; until they are read, their old chunks stay. A file that vanished
    /// from one path and appeared at another with the same identity, size and time has moved: it keeps its
    /// chunks and vectors. Files that vanished are removed only if the scan was `complete`, and never below
    /// a folder in `unreadable` (relative to the root): what could not be looked at is not gone.
    ///
    /// # Errors
    /// [`Error::VirtualRoot`] for documents from memory; when the database can not be written.
    pub fn apply_scan(
        &self,
        root: RootId,
        entries: &[FileEntry],
        complete: bool,
        unreadable: &[PathBuf],
    ) -> Result<ScanDelta> {
        let everywhere = [PathBuf::new()];
        self.apply_paths(root, &everywhere, entries, complete, unreadable)
    }

    /// Like [`apply_scan`](Self::apply_scan) for the parts of a root that were looked at: `parts` are files
    /// or folders relative to it, `entries` what is there now. Files elsewhere stay as they are. A move
    /// from one part to another is followed.
    ///
    /// # Errors
    /// [`Error::VirtualRoot`] for documents from memory; when the database can not be written.
    pub fn apply_paths(
        &self,
        root: RootId,
        parts: &[PathBuf],
        entries: &[FileEntry],
        complete: bool,
        unreadable: &[PathBuf],
    ) -> Result<ScanDelta> {
        let may_remove =
            |path: &Path| complete && !unreadable.iter().any(|folder| path.starts_with(folder));
        self.transaction(|transaction| {
            refuse_virtual(transaction, root)?;
            let known = known_files(transaction, root, parts)?;
            let plan = Plan::make(known, entries, &may_remove);
            if !plan.is_empty() {
                plan.write(transaction, root)?;
                if complete {
                    transaction.execute(
                        "UPDATE roots SET last_scan = ?2 WHERE id = ?1",
                        params![root.0, now()],
                    )?;
                }
            }
            Ok(ScanDelta {
                new: plan.new.len() as u64,
                changed: plan.changed.len() as u64,
                unchanged: plan.unchanged,
                moved: plan.moved.len() as u64,
                removed: plan.gone.len() as u64,
                skipped: plan.skipped,
            })
        })
    }

    /// What [`apply_scan`](Self::apply_scan) would find. Nothing is written.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn compare_scan(
        &self,
        root: RootId,
        entries: &[FileEntry],
        complete: bool,
        unreadable: &[PathBuf],
    ) -> Result<Differences> {
        let may_remove =
            |path: &Path| complete && !unreadable.iter().any(|folder| path.starts_with(folder));
        let known = known_files(&self.connection(), root, &[PathBuf::new()])?;
        let pending = known.values().filter(|it| it.pending).map(|it| it.id).collect();
        Ok(Plan::make(known, entries, &may_remove).differences(&pending))
    }

    /// Number of the volume that the root's files were last seen on; `None` where that is not known. An
    /// empty root on another volume is a disk that is not mounted.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn volume_of(&self, root: RootId) -> Result<Option<u64>> {
        let volume: Option<i64> = self
            .connection()
            .query_row(
                "SELECT volume FROM files WHERE root = ?1 AND volume IS NOT NULL ORDER BY id DESC LIMIT 1",
                [root.0],
                |row| row.get(0),
            )
            .optional()?;
        Ok(volume.map(i64::cast_unsigned))
    }

    /// Relative paths of a root's files, for tests and diagnostics.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn paths(&self, root: RootId) -> Result<HashSet<PathBuf>> {
        let connection = self.connection();
        let mut statement = connection.prepare("SELECT path FROM files WHERE root = ?1")?;
        let rows = statement.query_map([root.0], |row| Ok(from_bytes(row.get(0)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// A scan says nothing about documents from memory: it would find none and remove them all.
fn refuse_virtual(transaction: &Transaction<'_>, root: RootId) -> Result<()> {
    let found: Option<(Vec<u8>, bool)> = transaction
        .query_row("SELECT path, virtual FROM roots WHERE id = ?1", [root.0], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    match found {
        Some((_, false)) => Ok(()),
        Some((name, true)) => {
            Err(Error::VirtualRoot { name: from_bytes(name).display().to_string() })
        }
        None => Err(Error::UnknownRoot { id: root.0 }),
    }
}

fn known_files(
    connection: &Connection,
    root: RootId,
    parts: &[PathBuf],
) -> Result<BTreeMap<PathBuf, Known>> {
    let mut statement = connection.prepare_cached(
        "SELECT path, id, size, modified_ns, volume, inode, by_scan, state, reason FROM files WHERE root = ?1",
    )?;
    let mut rows = statement.query([root.0])?;
    let mut known = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let path = from_bytes(row.get(0)?);
        if !parts.iter().any(|it| path.starts_with(it)) {
            continue;
        }
        let (volume, inode): (Option<i64>, Option<i64>) = (row.get(4)?, row.get(5)?);
        let state: String = row.get(7)?;
        let state = FileState::parse(&state);
        let verdict = match row.get(6)? {
            // A state that this version does not know equals no verdict: the file is looked at again.
            true => Some((state.unwrap_or(FileState::Pending), row.get(8)?)),
            false => None,
        };
        let file = Known {
            id: FileId(row.get(1)?),
            size: row.get::<_, i64>(2)?.cast_unsigned(),
            modified_ns: row.get(3)?,
            volume_id: volume.zip(inode).map(|it| (it.0.cast_unsigned(), it.1.cast_unsigned())),
            verdict,
            pending: state == Some(FileState::Pending),
        };
        known.insert(path, file);
    }
    Ok(known)
}

/// Volume and inode as they are kept.
pub(crate) fn identity(volume_id: Option<(u64, u64)>) -> (Option<i64>, Option<i64>) {
    // SQLite's integers are signed: the same 64 bits.
    (volume_id.map(|it| it.0.cast_signed()), volume_id.map(|it| it.1.cast_signed()))
}

fn insert_file(transaction: &Transaction<'_>, root: RootId, entry: &FileEntry) -> Result<()> {
    let (state, reason) = state_of(entry);
    let (volume, inode) = identity(entry.volume_id);
    transaction
        .prepare_cached(
            "INSERT INTO files (root, path, display, size, modified_ns, volume, inode, state, by_scan, reason)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            root.0,
            to_bytes(&entry.relative_path),
            display(&entry.relative_path),
            entry.size.cast_signed(),
            entry.modified_ns,
            volume,
            inode,
            state.as_str(),
            entry.verdict != ScanVerdict::Read,
            reason
        ])?;
    if entry.verdict == ScanVerdict::Read {
        enqueue(transaction, FileId(transaction.last_insert_rowid()))?;
    }
    Ok(())
}

fn update_file(transaction: &Transaction<'_>, id: FileId, entry: &FileEntry) -> Result<()> {
    let (state, reason) = state_of(entry);
    let (volume, inode) = identity(entry.volume_id);
    transaction
        .prepare_cached(
            "UPDATE files SET size = ?2, modified_ns = ?3, volume = ?4, inode = ?5, state = ?6, by_scan = ?7,
                              reason = ?8 WHERE id = ?1",
        )?
        .execute(params![
            id.0,
            entry.size.cast_signed(),
            entry.modified_ns,
            volume,
            inode,
            state.as_str(),
            entry.verdict != ScanVerdict::Read,
            reason
        ])?;
    if entry.verdict == ScanVerdict::Read {
        return enqueue(transaction, id);
    }
    // A file that may no longer be read must no longer answer.
    log_file(transaction, id, true)?;
    transaction.execute("DELETE FROM chunks WHERE file = ?1", [id.0])?;
    transaction.execute("DELETE FROM jobs WHERE file = ?1", [id.0])?;
    Ok(())
}

fn state_of(entry: &FileEntry) -> (FileState, &str) {
    match &entry.verdict {
        ScanVerdict::Read => (FileState::Pending, ""),
        ScanVerdict::Skip(state, reason) => (*state, reason),
    }
}

/// Queues a file. No attempt is counted against it yet: by this a commit sees that the file was queued
/// again while it was read.
fn enqueue(transaction: &Transaction<'_>, file: FileId) -> Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO jobs (file, modified_ns) SELECT id, modified_ns FROM files WHERE id = ?1
             ON CONFLICT (file) DO UPDATE SET attempts = 0, modified_ns = excluded.modified_ns",
        )?
        .execute([file.0])?;
    Ok(())
}
