//! The database: opening, roots, settings, history.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rusqlite::{
    Connection, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior, params,
};
use rusqlite_migration::{M, Migrations};

use crate::{
    Error, Result,
    paths::{from_bytes, to_bytes},
};

/// How long a statement waits for another connection before it gives up.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// One step per version, never edited once released.
const STEPS: &[M<'_>] = &[M::up(include_str!("schema.sql"))];
const MIGRATIONS: Migrations<'_> = Migrations::from_slice(STEPS);

/// The ground truth. All methods may be called from any thread; they take turns.
#[derive(Debug)]
pub struct Catalog {
    connection: Mutex<Connection>,
}

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
    /// When it was last scanned completely, in seconds since 1970.
    pub last_scan: Option<i64>,
}

/// A past search or question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Identity.
    pub id: i64,
    /// When, in seconds since 1970.
    pub at: i64,
    /// `search` or `ask`.
    pub kind: String,
    /// What was asked.
    pub query: String,
    /// The response as JSON.
    pub response: String,
}

impl Catalog {
    /// Opens the catalog at `path` for reading and writing, making or migrating it.
    ///
    /// # Errors
    /// A damaged or newer file, a full disk, a folder that can not be written.
    pub fn open(path: &Path) -> Result<Catalog> {
        let mut connection = Connection::open(path).map_err(|error| refine(path, error))?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        // WAL lets searches read while an index run writes. FULL makes every commit survive a power cut;
        // with one commit per batch of files its fsync is not what indexing waits for.
        let setup =
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;";
        connection.execute_batch(setup).map_err(|error| refine(path, error))?;
        MIGRATIONS.to_latest(&mut connection).map_err(|error| match error {
            rusqlite_migration::Error::MigrationDefinition(_) => {
                Error::TooNew { path: path.to_path_buf() }
            }
            rusqlite_migration::Error::RusqliteError { err, .. } => refine(path, err),
            other => Error::Damaged { path: path.to_path_buf(), why: other.to_string() },
        })?;
        Ok(Catalog { connection: Mutex::new(connection) })
    }

    /// Opens an existing catalog for reading; fine while another process writes.
    ///
    /// # Errors
    /// [`Error::Missing`] without a catalog; a damaged, newer or not yet migrated one.
    pub fn open_read_only(path: &Path) -> Result<Catalog> {
        if !path.is_file() {
            return Err(Error::Missing { path: path.to_path_buf() });
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_with_flags(path, flags).map_err(|error| refine(path, error))?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        let version: i64 = connection
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(|error| refine(path, error))?;
        match version.cmp(&(STEPS.len() as i64)) {
            std::cmp::Ordering::Less => Err(Error::Missing { path: path.to_path_buf() }),
            std::cmp::Ordering::Greater => Err(Error::TooNew { path: path.to_path_buf() }),
            std::cmp::Ordering::Equal => Ok(Catalog { connection: Mutex::new(connection) }),
        }
    }

    pub(crate) fn connection(&self) -> MutexGuard<'_, Connection> {
        // A panic between statements rolled its transaction back; the connection itself is sound.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` in one transaction that is written wholly or not at all.
    pub(crate) fn transaction<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut connection = self.connection();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let value = work(&transaction)?;
        transaction.commit()?;
        Ok(value)
    }

    /// Adds a folder; one that is there already is returned as it is. `path` must be absolute.
    ///
    /// # Errors
    /// [`Error::NestedRoot`] when it lies inside another root or contains one.
    pub fn add_root(&self, path: &Path) -> Result<Root> {
        self.insert_root(path, false)
    }

    /// Adds a collection of documents that come from memory.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn add_virtual_root(&self, name: &str) -> Result<Root> {
        self.insert_root(Path::new(name), true)
    }

    fn insert_root(&self, path: &Path, is_virtual: bool) -> Result<Root> {
        for root in self.roots()? {
            if root.path == path && root.is_virtual == is_virtual {
                return Ok(root);
            }
            if !is_virtual && !root.is_virtual {
                let inside = path.starts_with(&root.path);
                if inside || root.path.starts_with(path) {
                    return Err(Error::NestedRoot {
                        path: path.to_path_buf(),
                        root: root.path,
                        inside,
                    });
                }
            }
        }
        let connection = self.connection();
        connection.execute(
            "INSERT INTO roots (path, virtual) VALUES (?1, ?2)",
            params![to_bytes(path), is_virtual],
        )?;
        let id = RootId(connection.last_insert_rowid());
        Ok(Root { id, path: path.to_path_buf(), is_virtual, last_scan: None })
    }

    /// All roots, oldest first.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn roots(&self) -> Result<Vec<Root>> {
        let connection = self.connection();
        let mut statement =
            connection.prepare("SELECT id, path, virtual, last_scan FROM roots ORDER BY id")?;
        let rows = statement.query_map([], |row| {
            Ok(Root {
                id: RootId(row.get(0)?),
                path: from_bytes(row.get(1)?),
                is_virtual: row.get(2)?,
                last_scan: row.get(3)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Forgets a root, its files, chunks and vectors; the derived indexes follow by the log.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn remove_root(&self, id: RootId) -> Result<()> {
        self.transaction(|transaction| {
            transaction.execute(
                "INSERT INTO changes (chunk, removed)
                 SELECT chunks.id, 1 FROM chunks JOIN files ON files.id = chunks.file WHERE files.root = ?1",
                [id.0],
            )?;
            transaction.execute("DELETE FROM roots WHERE id = ?1", [id.0])?;
            Ok(())
        })
    }

    /// A setting, if it was ever set.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn setting(&self, key: &str) -> Result<Option<String>> {
        let connection = self.connection();
        let value =
            connection
                .query_row("SELECT value FROM settings WHERE key = ?1", [key], |row| row.get(0));
        Ok(value.optional()?)
    }

    /// Sets a setting; `None` removes it.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn set_setting(&self, key: &str, value: Option<&str>) -> Result<()> {
        let connection = self.connection();
        match value {
            Some(value) => connection.execute(
                "INSERT INTO settings (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
                [key, value],
            )?,
            None => connection.execute("DELETE FROM settings WHERE key = ?1", [key])?,
        };
        Ok(())
    }

    /// Keeps a search or question.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn add_history(&self, kind: &str, query: &str, response: &str) -> Result<()> {
        self.connection().execute(
            "INSERT INTO history (at, kind, query, response) VALUES (?1, ?2, ?3, ?4)",
            params![now(), kind, query, response],
        )?;
        Ok(())
    }

    /// The latest searches and questions, newest first.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn history(&self, limit: usize) -> Result<Vec<HistoryEntry>> {
        let connection = self.connection();
        let mut statement = connection.prepare(
            "SELECT id, at, kind, query, response FROM history ORDER BY id DESC LIMIT ?1",
        )?;
        let rows = statement.query_map([limit as i64], |row| {
            Ok(HistoryEntry {
                id: row.get(0)?,
                at: row.get(1)?,
                kind: row.get(2)?,
                query: row.get(3)?,
                response: row.get(4)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Forgets one entry of the history, or all of it.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn delete_history(&self, id: Option<i64>) -> Result<()> {
        let connection = self.connection();
        match id {
            Some(id) => connection.execute("DELETE FROM history WHERE id = ?1", [id])?,
            None => connection.execute("DELETE FROM history", [])?,
        };
        Ok(())
    }

    /// Limits the database to `pages` of SQLite's size, 4 KiB: a quota. Beyond it writes fail as on a full
    /// disk.
    ///
    /// # Errors
    /// When the database can not be reached.
    pub fn limit_pages(&self, pages: u32) -> Result<()> {
        Ok(self.connection().pragma_update(None, "max_page_count", pages)?)
    }

    /// Rows changed by this connection so far; a run without changes leaves it as it was.
    pub fn writes(&self) -> u64 {
        self.connection().total_changes()
    }
}

/// Tells a file that is no healthy database from other trouble.
fn refine(path: &Path, error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => {
            Error::Damaged { path: path.to_path_buf(), why: error.to_string() }
        }
        Some(rusqlite::ErrorCode::CannotOpen) => {
            Error::Io { path: path.to_path_buf(), source: std::io::Error::other(error.to_string()) }
        }
        _ => error.into(),
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |it| i64::try_from(it.as_secs()).unwrap_or(i64::MAX))
}
