//! The folders that are indexed, and those whose text never leaves this machine.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use riddle_types::{FolderIdentity, FolderPlace};
use rusqlite::{Connection, Row, Transaction, params};

use crate::{
    Catalog, Error, Result,
    paths::{display, from_bytes, to_bytes},
};

/// What `virtual` is of a root that was removed and still holds files.
const REMOVED: i64 = 2;

/// How long what was removed is deleted in one transaction, during which nobody else writes. Chunks come to pages all
/// over the index of their hashes, which each transaction writes anew: with a tenth of a second, half a million chunks
/// wrote 31 GB.
const HOLD: Duration = Duration::from_secs(2);

/// How long others may begin to write after that: they look again every tenth of a second at the latest.
const GAP: Duration = Duration::from_millis(120);

/// Identity of a root folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RootId(pub i64);

/// A folder that is indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Identity.
    pub id: RootId,
    /// The folder, absolute; a collection's name for virtual roots.
    pub path: PathBuf,
    /// Whether its documents come from memory and no folder is scanned.
    pub is_virtual: bool,
    /// When a complete scan last found a change, in seconds since 1970: one that finds none writes nothing.
    pub last_scan: Option<i64>,
    /// Which folder it was when it was last there; nothing of one that was not looked at.
    pub identity: FolderIdentity,
}

impl Catalog {
    /// Adds a folder; one that is there already is returned as it is. Roots inside the new one become part
    /// of it: their files keep their chunks and vectors. `path` must be absolute and, so that one folder
    /// has one name, free of links.
    ///
    /// # Errors
    /// [`Error::NestedRoot`] when it lies inside another root; [`Error::RelativeRoot`]; when the database
    /// can not be written.
    pub fn add_root(&self, path: &Path) -> Result<Root> {
        if !path.is_absolute() {
            return Err(Error::RelativeRoot { path: path.to_path_buf() });
        }
        self.transaction(|transaction| {
            let roots = roots(transaction)?;
            let folders = || roots.iter().filter(|it| !it.is_virtual);
            if let Some(outer) = folders().find(|it| path.starts_with(&it.path)) {
                if outer.path == path {
                    return Ok(outer.clone());
                }
                return Err(Error::NestedRoot {
                    path: path.to_path_buf(),
                    root: outer.path.clone(),
                });
            }
            let root = insert_root(transaction, path, false)?;
            for inner in folders().filter(|it| it.path.starts_with(path)) {
                fold(transaction, inner, &root)?;
            }
            Ok(root)
        })
    }

    /// Adds a collection of documents that come from memory; one that is there already is returned.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn add_virtual_root(&self, name: &str) -> Result<Root> {
        self.transaction(|transaction| {
            let path = Path::new(name);
            let known = roots(transaction)?.into_iter().find(|it| it.is_virtual && it.path == path);
            known.map_or_else(|| insert_root(transaction, path, true), Ok)
        })
    }

    /// All roots, oldest first.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn roots(&self) -> Result<Vec<Root>> {
        roots(&self.connection())
    }

    /// Forgets a root, its files, chunks and vectors; the derived indexes follow by the log.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn remove_root(&self, id: RootId) -> Result<()> {
        self.begin_removing(id)?;
        self.finish_removing()
    }

    /// Takes a root out of what is listed, read, searched and quoted, and logs that its chunks are gone. What it holds
    /// is still on the disk then, until [`finish_removing`](Self::finish_removing) has run: whoever opens the catalog
    /// for writing next has to call that, should this process be killed in between.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn begin_removing(&self, id: RootId) -> Result<()> {
        // The same folder could have been added again since a removal that did not end.
        self.finish_removing()?;
        self.transaction(|transaction| {
            transaction.execute(
                "INSERT INTO changes (chunk, removed)
                 SELECT chunks.id, 1 FROM chunks JOIN files ON files.id = chunks.file WHERE files.root = ?1",
                [id.0],
            )?;
            // Nor is an answer given any more that read one of them: its passages take its words with them.
            transaction.execute(
                "DELETE FROM chunks
                 WHERE id IN (SELECT chunk FROM answer_passages UNION SELECT chunk FROM abstracts)
                 AND file IN (SELECT id FROM files WHERE root = ?1)",
                [id.0],
            )?;
            transaction.execute("UPDATE roots SET virtual = ?2 WHERE id = ?1", [id.0, REMOVED])?;
            Ok(())
        })
    }

    /// Deletes, and overwrites, what removed roots held. Others read and write meanwhile: it goes on in steps.
    ///
    /// # Errors
    /// When the database can not be written. What is left is deleted by the next call.
    pub fn finish_removing(&self) -> Result<()> {
        let removed =
            numbers(&self.connection(), "SELECT id FROM roots WHERE virtual = ?1", REMOVED)?;
        for root in removed {
            let files = numbers(
                &self.connection(),
                "SELECT id FROM files WHERE root = ?1 ORDER BY id",
                root,
            )?;
            let mut files = files.into_iter().peekable();
            while files.peek().is_some() {
                self.forget_for_a_while(&mut files)?;
                std::thread::sleep(GAP);
            }
            self.connection().execute("DELETE FROM roots WHERE id = ?1", [root])?;
        }
        Ok(())
    }

    /// Forgets files for as long as a step lasts.
    fn forget_for_a_while(&self, files: &mut impl Iterator<Item = i64>) -> Result<()> {
        self.transaction(|transaction| {
            // File by file: what one statement changes is kept until it ends, so that it can be undone.
            let mut forget = transaction.prepare_cached("DELETE FROM files WHERE id = ?1")?;
            let begun = Instant::now();
            while begun.elapsed() < HOLD
                && let Some(file) = files.next()
            {
                forget.execute([file])?;
            }
            Ok(())
        })
    }

    /// Says that a folder lies elsewhere now; its files keep what is known of them. So do the marks of folders below
    /// it.
    ///
    /// # Errors
    /// [`Error::UnknownFolder`]; [`Error::RelativeRoot`]; when the database can not be written.
    pub fn move_root(&self, from: &Path, to: &Path) -> Result<()> {
        if !to.is_absolute() {
            return Err(Error::RelativeRoot { path: to.to_path_buf() });
        }
        self.transaction(|transaction| {
            let moved = transaction.execute(
                "UPDATE roots SET path = ?2 WHERE path = ?1 AND virtual = 0",
                params![to_bytes(from), to_bytes(to)],
            )?;
            if moved == 0 {
                return Err(Error::UnknownFolder { path: from.to_path_buf() });
            }
            for (mark, here) in marks_moved(transaction, from, to)? {
                transaction.execute(
                    "UPDATE OR REPLACE confined SET path = ?2 WHERE path = ?1",
                    params![to_bytes(&mark), to_bytes(&here)],
                )?;
            }
            Ok(())
        })
    }

    /// Folders whose text never leaves this machine, by path: nor does what is in folders below them.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn confined(&self) -> Result<Vec<PathBuf>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached("SELECT path FROM confined ORDER BY path")?;
        let rows = statement.query_map([], |row| Ok(from_bytes(row.get(0)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Marks a folder as one whose text never leaves this machine, or takes the mark away. It need not be indexed,
    /// and the mark stays when it is no longer: whoever adds it again has not to think of it.
    ///
    /// # Errors
    /// [`Error::RelativeRoot`]; when the database can not be written.
    pub fn confine(&self, path: &Path, confined: bool) -> Result<()> {
        if !path.is_absolute() {
            return Err(Error::RelativeRoot { path: path.to_path_buf() });
        }
        let connection = self.connection();
        let sql = if confined {
            "INSERT INTO confined (path) VALUES (?1) ON CONFLICT (path) DO NOTHING"
        } else {
            "DELETE FROM confined WHERE path = ?1"
        };
        connection.execute(sql, [to_bytes(path)])?;
        Ok(())
    }
}

fn numbers(connection: &Connection, sql: &str, of: i64) -> Result<Vec<i64>> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([of], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Marks of `from` and of folders below it, with where these lie once it lies at `to`.
pub(crate) fn marks_moved(
    transaction: &Transaction<'_>,
    from: &Path,
    to: &Path,
) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut statement = transaction.prepare("SELECT path FROM confined")?;
    let marks = statement
        .query_map([], |row| Ok(from_bytes(row.get(0)?)))?
        .collect::<Result<Vec<PathBuf>, _>>()?;
    let moved = |mark: PathBuf| {
        let below = mark.strip_prefix(from).ok()?;
        let here = if below.as_os_str().is_empty() { to.to_path_buf() } else { to.join(below) };
        Some((mark, here))
    };
    Ok(marks.into_iter().filter_map(moved).collect())
}

pub(crate) fn roots(connection: &Connection) -> Result<Vec<Root>> {
    let mut statement = connection.prepare(
        "SELECT id, path, virtual, last_scan, volume, inode, file_system, within FROM roots
         WHERE virtual <> ?1 ORDER BY id",
    )?;
    let rows = statement.query_map([REMOVED], |row| {
        Ok(Root {
            id: RootId(row.get(0)?),
            path: from_bytes(row.get(1)?),
            is_virtual: row.get(2)?,
            last_scan: row.get(3)?,
            identity: identity_in(row)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// From the fifth column on.
fn identity_in(row: &Row<'_>) -> rusqlite::Result<FolderIdentity> {
    let (volume, inode): (Option<i64>, Option<i64>) = (row.get(4)?, row.get(5)?);
    let (file_system, within): (Option<String>, Option<Vec<u8>>) = (row.get(6)?, row.get(7)?);
    Ok(FolderIdentity {
        volume_id: volume.zip(inode).map(|it| (it.0.cast_unsigned(), it.1.cast_unsigned())),
        place: file_system
            .zip(within)
            .map(|(file_system, within)| FolderPlace { file_system, within: from_bytes(within) }),
    })
}

pub(crate) fn insert_root(
    transaction: &Transaction<'_>,
    path: &Path,
    is_virtual: bool,
) -> Result<Root> {
    transaction.execute(
        "INSERT INTO roots (path, virtual) VALUES (?1, ?2)",
        params![to_bytes(path), is_virtual],
    )?;
    let id = RootId(transaction.last_insert_rowid());
    let identity = FolderIdentity::default();
    Ok(Root { id, path: path.to_path_buf(), is_virtual, last_scan: None, identity })
}

/// Gives the files of `inner` to `outer`, a folder above it. Their absolute paths stay, so no index has to
/// hear of it.
fn fold(transaction: &Transaction<'_>, inner: &Root, outer: &Root) -> Result<()> {
    let below = inner.path.strip_prefix(&outer.path).unwrap_or(&inner.path);
    let mut statement = transaction.prepare("SELECT id, path FROM files WHERE root = ?1")?;
    let files = statement
        .query_map([inner.id.0], |row| Ok((row.get::<_, i64>(0)?, from_bytes(row.get(1)?))))?
        .collect::<Result<Vec<_>, _>>()?;
    for (id, path) in files {
        let path = below.join(path);
        transaction
            .prepare_cached("UPDATE files SET root = ?2, path = ?3, display = ?4 WHERE id = ?1")?
            .execute(params![id, outer.id.0, to_bytes(&path), display(&path)])?;
    }
    transaction.execute("DELETE FROM roots WHERE id = ?1", [inner.id.0])?;
    Ok(())
}
