//! Reconciling a scan with what is known: new, changed, moved, gone.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
};

use riddle_types::{FileEntry, FileState, ScanVerdict};
use rusqlite::{Transaction, params};

use crate::{
    Catalog, FileId, Result, RootId,
    catalog::now,
    changes::log_file,
    paths::{from_bytes, to_bytes},
};

/// What a scan changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScanDelta {
    /// Files seen for the first time.
    pub new: u64,
    /// Files whose size, time or verdict differ.
    pub changed: u64,
    /// Files that are as they were.
    pub unchanged: u64,
    /// Files followed to another path.
    pub moved: u64,
    /// Files that are gone.
    pub removed: u64,
}

#[derive(Debug, Clone)]
struct Known {
    id: FileId,
    size: u64,
    modified_ns: i64,
    volume_id: Option<(u64, u64)>,
    state: FileState,
    reason: String,
}

impl Known {
    fn same_bytes(&self, entry: &FileEntry) -> bool {
        self.size == entry.size && self.modified_ns == entry.modified_ns
    }

    /// Whether the entry changes nothing: same bytes, and the verdict is what is recorded.
    fn unchanged(&self, entry: &FileEntry) -> bool {
        let scan_made =
            matches!(self.state, FileState::Excluded | FileState::TooLarge | FileState::CloudOnly);
        self.same_bytes(entry)
            && match &entry.verdict {
                ScanVerdict::Read => !scan_made,
                ScanVerdict::Skip(state, reason) => self.state == *state && self.reason == *reason,
            }
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
    /// When the database can not be written.
    pub fn apply_scan(
        &self,
        root: RootId,
        entries: &[FileEntry],
        complete: bool,
        unreadable: &[PathBuf],
    ) -> Result<ScanDelta> {
        let mut known = self.known_files(root)?;
        let mut delta = ScanDelta::default();
        let mut fresh = Vec::new();
        let mut changed = Vec::new();
        for entry in entries {
            match known.remove(&entry.relative_path) {
                Some(old) if old.unchanged(entry) => delta.unchanged += 1,
                Some(old) => changed.push((old, entry)),
                None => fresh.push(entry),
            }
        }
        // What is left of `known` was not seen.
        let hidden = |path: &Path| unreadable.iter().any(|folder| path.starts_with(folder));
        let mut vanished: HashMap<PathBuf, Known> =
            known.into_iter().filter(|(path, _)| complete && !hidden(path)).collect();
        let mut by_identity: HashMap<(u64, u64), PathBuf> = vanished
            .iter()
            .filter_map(|(path, known)| Some((known.volume_id?, path.clone())))
            .collect();
        let mut moved = Vec::new();
        fresh.retain(|entry| {
            let origin = entry.volume_id.and_then(|it| by_identity.get(&it)).cloned();
            let Some(old) = origin.and_then(|path| Some((vanished.get(&path)?.clone(), path)))
            else {
                return true;
            };
            if !old.0.same_bytes(entry) || entry.verdict != ScanVerdict::Read {
                return true;
            }
            vanished.remove(&old.1);
            entry.volume_id.map(|it| by_identity.remove(&it));
            moved.push((old.0.id, *entry));
            false
        });
        if changed.is_empty() && fresh.is_empty() && moved.is_empty() && vanished.is_empty() {
            return Ok(delta);
        }
        self.transaction(|transaction| {
            for (id, entry) in &moved {
                transaction.execute(
                    "UPDATE files SET path = ?2 WHERE id = ?1",
                    params![id.0, to_bytes(&entry.relative_path)],
                )?;
                // The keyword index holds the path of every chunk.
                log_file(transaction, *id, false)?;
                delta.moved += 1;
            }
            for known in vanished.values() {
                log_file(transaction, known.id, true)?;
                transaction.execute("DELETE FROM files WHERE id = ?1", [known.id.0])?;
                delta.removed += 1;
            }
            for (old, entry) in &changed {
                update_file(transaction, old, entry)?;
                delta.changed += 1;
            }
            for entry in &fresh {
                insert_file(transaction, root, entry)?;
                delta.new += 1;
            }
            if complete {
                transaction.execute(
                    "UPDATE roots SET last_scan = ?2 WHERE id = ?1",
                    params![root.0, now()],
                )?;
            }
            Ok(())
        })?;
        Ok(delta)
    }

    fn known_files(&self, root: RootId) -> Result<HashMap<PathBuf, Known>> {
        let connection = self.connection();
        let mut statement = connection
            .prepare("SELECT path, id, size, modified_ns, volume, inode, state, reason FROM files WHERE root = ?1")?;
        let rows = statement.query_map([root.0], |row| {
            let identity: (Option<i64>, Option<i64>) = (row.get(4)?, row.get(5)?);
            let state: String = row.get(6)?;
            let known = Known {
                id: FileId(row.get(1)?),
                size: row.get::<_, i64>(2)?.cast_unsigned(),
                modified_ns: row.get(3)?,
                volume_id: identity
                    .0
                    .zip(identity.1)
                    .map(|it| (it.0.cast_unsigned(), it.1.cast_unsigned())),
                // A state this version does not know is read again.
                state: FileState::parse(&state).unwrap_or(FileState::Excluded),
                reason: row.get(7)?,
            };
            Ok((from_bytes(row.get(0)?), known))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Relative paths of a root's files, for tests and diagnostics.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn paths(&self, root: RootId) -> Result<HashSet<PathBuf>> {
        Ok(self.known_files(root)?.into_keys().collect())
    }
}

fn identity(entry: &FileEntry) -> (Option<i64>, Option<i64>) {
    // SQLite's integers are signed: the same 64 bits.
    (entry.volume_id.map(|it| it.0.cast_signed()), entry.volume_id.map(|it| it.1.cast_signed()))
}

fn insert_file(transaction: &Transaction<'_>, root: RootId, entry: &FileEntry) -> Result<()> {
    let (state, reason) = state_of(entry);
    let (volume, inode) = identity(entry);
    transaction
        .prepare_cached(
            "INSERT INTO files (root, path, size, modified_ns, volume, inode, state, reason)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            root.0,
            to_bytes(&entry.relative_path),
            entry.size.cast_signed(),
            entry.modified_ns,
            volume,
            inode,
            state.as_str(),
            reason
        ])?;
    if state == FileState::Pending {
        enqueue(transaction, FileId(transaction.last_insert_rowid()))?;
    }
    Ok(())
}

fn update_file(transaction: &Transaction<'_>, old: &Known, entry: &FileEntry) -> Result<()> {
    let (state, reason) = state_of(entry);
    let (volume, inode) = identity(entry);
    transaction.execute(
        "UPDATE files SET size = ?2, modified_ns = ?3, volume = ?4, inode = ?5, state = ?6, reason = ?7 WHERE id = ?1",
        params![
            old.id.0,
            entry.size.cast_signed(),
            entry.modified_ns,
            volume,
            inode,
            state.as_str(),
            reason
        ],
    )?;
    if state == FileState::Pending {
        return enqueue(transaction, old.id);
    }
    // A file that may no longer be read must no longer answer.
    log_file(transaction, old.id, true)?;
    transaction.execute("DELETE FROM chunks WHERE file = ?1", [old.id.0])?;
    transaction.execute("DELETE FROM jobs WHERE file = ?1", [old.id.0])?;
    Ok(())
}

fn state_of(entry: &FileEntry) -> (FileState, &str) {
    match &entry.verdict {
        ScanVerdict::Read => (FileState::Pending, ""),
        ScanVerdict::Skip(state, reason) => (*state, reason),
    }
}

pub(crate) fn enqueue(transaction: &Transaction<'_>, file: FileId) -> Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO jobs (file) VALUES (?1) ON CONFLICT (file) DO UPDATE SET attempts = 0",
        )?
        .execute([file.0])?;
    Ok(())
}
