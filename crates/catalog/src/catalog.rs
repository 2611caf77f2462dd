//! The database: opening, settings, history.

use std::{
    collections::HashSet,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use riddle_seal::Place;
use rusqlite::{
    Connection, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior, params,
};
use rusqlite_migration::{M, Migrations};

use crate::{Error, FileId, Result, error::refine, seal};

/// How long a statement waits for another connection before it gives up.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// One step per version, never edited once released.
const STEPS: &[M<'_>] = &[
    M::up(include_str!("schema.sql")),
    M::up(include_str!("schema-2.sql")),
    M::up(include_str!("schema-3.sql")),
    M::up(include_str!("schema-answers.sql")),
    M::up(include_str!("schema-pictures.sql")),
    M::up(include_str!("schema-terms.sql")),
    M::up(include_str!("schema-vectors.sql")),
    M::up(include_str!("schema-reads.sql")),
    M::up(include_str!("schema-lately.sql")),
    M::up(include_str!("schema-roots.sql")),
    M::up(include_str!("schema-tags.sql")),
    M::up(include_str!("schema-forgetting.sql")),
];
/// The version from which on vectors take less than half of the space: what they leave is given back to the disk.
const VECTORS_IN_ROWS: i64 = 7;
/// The setting that stands while they have left space which is not given back yet: whoever is killed before that leaves
/// it to the next opening.
const GIVES_BACK: &str = "gives_space_back";
/// Version of the newest schema.
const VERSION: i64 = STEPS.len() as i64;
const MIGRATIONS: Migrations<'_> = Migrations::from_slice(STEPS);

/// The ground truth. All methods may be called from any thread; they take turns.
#[derive(Debug)]
pub struct Catalog {
    connection: Mutex<Connection>,
    /// Files begun and not finished by this process.
    begun: Mutex<HashSet<FileId>>,
}

impl Drop for Catalog {
    /// Takes back the attempts of what was begun and not finished: a run that ends in an error or on request
    /// has not died over these files. A panic may have come from one of them.
    fn drop(&mut self) {
        let begun: Vec<FileId> = self.begun().drain().collect();
        if begun.is_empty() || std::thread::panicking() {
            return;
        }
        if let Err(error) = self.return_jobs(&begun) {
            tracing::warn!("{} files stay counted as begun: {error}", begun.len());
        }
    }
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
    /// A damaged or newer file, a full disk, a folder that can not be written; [`Error::Sealed`] without the key of an
    /// encrypted one.
    pub fn open(place: impl Into<Place>) -> Result<Catalog> {
        let place = place.into();
        let path = place.path();
        seal::check(&place)?;
        let mut connection =
            seal::connect(|| Connection::open(path)).map_err(|error| refine(path, error))?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        seal::use_key(&connection, &place)?;
        // Looked at before anything is written: a newer version's file stays as it is.
        let before = version(&connection).map_err(|error| refine(path, error))?;
        if before > VERSION {
            return Err(Error::TooNew { path: path.to_path_buf() });
        }
        // WAL lets searches read while an index run writes. FULL makes every commit survive a power cut;
        // with one commit per batch of files its fsync is not what indexing waits for.
        // What is deleted is overwritten: an answer that was forgotten is in no free page.
        // Chunks are found by the hash of their text, so whoever adds or removes many comes to pages all over that
        // index: with SQLite's own 2 MB each of them was written out and read again, and removing half a million
        // chunks took two and a half times as long.
        let setup =
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;
                     PRAGMA secure_delete = ON; PRAGMA cache_size = -16384;";
        connection.execute_batch(setup).map_err(|error| refine(path, error))?;
        if (1..VECTORS_IN_ROWS).contains(&before) {
            set_setting(&connection, GIVES_BACK, Some("1"))?;
        }
        MIGRATIONS.to_latest(&mut connection).map_err(|error| match error {
            rusqlite_migration::Error::RusqliteError { err, .. } => refine(path, err),
            other => Error::Damaged { path: Some(path.to_path_buf()), why: other.to_string() },
        })?;
        // What is damaged is told when somebody needs it.
        if setting(&connection, GIVES_BACK).is_ok_and(|it| it.is_some()) {
            give_back(&connection, &place);
        }
        seal::sweep(path);
        Ok(Catalog::new(connection))
    }

    /// Opens an existing catalog for reading; fine while another process writes.
    ///
    /// # Errors
    /// [`Error::Missing`] without a catalog; a damaged, newer or not yet migrated one; [`Error::Sealed`].
    pub fn open_read_only(place: impl Into<Place>) -> Result<Catalog> {
        let place = place.into();
        let path = place.path();
        if !path.is_file() {
            return Err(Error::Missing { path: path.to_path_buf() });
        }
        seal::check(&place)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = seal::connect(|| Connection::open_with_flags(path, flags))
            .map_err(|error| refine(path, error))?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        seal::use_key(&connection, &place)?;
        match version(&connection).map_err(|error| refine(path, error))? {
            // Made by a process that was ended before it could write anything.
            0 => Err(Error::Missing { path: path.to_path_buf() }),
            it if it > VERSION => Err(Error::TooNew { path: path.to_path_buf() }),
            it if it < VERSION => Err(Error::TooOld { path: path.to_path_buf() }),
            _ => Ok(Catalog::new(connection)),
        }
    }

    /// A random name given to this catalog when it was made. A derived index that remembers another one
    /// belongs to a catalog that is gone.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn identity(&self) -> Result<String> {
        Ok(self.connection().query_row("SELECT id FROM identity", [], |row| row.get(0))?)
    }

    fn new(connection: Connection) -> Catalog {
        Catalog { connection: Mutex::new(connection), begun: Mutex::default() }
    }

    pub(crate) fn begun(&self) -> MutexGuard<'_, HashSet<FileId>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Writes a copy of all of it to a new file, as it is at this moment, while others go on writing.
    ///
    /// # Errors
    /// When the file is there already or can not be written.
    pub fn copy_to(&self, path: &Path) -> Result<()> {
        self.connection().execute("VACUUM INTO ?1", [path.to_string_lossy()])?;
        Ok(())
    }

    /// A setting, if it was ever set.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn setting(&self, key: &str) -> Result<Option<String>> {
        setting(&self.connection(), key)
    }

    /// Sets a setting; `None` removes it.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn set_setting(&self, key: &str, value: Option<&str>) -> Result<()> {
        set_setting(&self.connection(), key, value)
    }

    /// Keeps a search or question; returns its number.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn add_history(&self, kind: &str, query: &str, response: &str) -> Result<i64> {
        let connection = self.connection();
        connection.execute(
            "INSERT INTO history (at, kind, query, response) VALUES (?1, ?2, ?3, ?4)",
            params![now(), kind, query, response],
        )?;
        Ok(connection.last_insert_rowid())
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

    /// What was asked in an entry of the history; `None` when it is gone.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn history_query(&self, id: i64) -> Result<Option<String>> {
        let connection = self.connection();
        let query =
            connection.query_row("SELECT query FROM history WHERE id = ?1", [id], |row| row.get(0));
        Ok(query.optional()?)
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

/// Gives space that a migration has left back to the disk.
fn give_back(connection: &Connection, place: &Place) {
    // SQLCipher keeps in memory what SQLite writes to temporary files, so that nothing readable is on the disk.
    // Where all of it is readable, a copy of a large catalog is not held in memory.
    let vacuum = match place.key {
        Some(_) => "VACUUM",
        None => "PRAGMA temp_store = FILE; VACUUM; PRAGMA temp_store = DEFAULT;",
    };
    let given = connection.execute_batch(vacuum).map_err(Error::from);
    // Tried once: where the disk has no room for a copy the space is used by what comes.
    if let Err(error) = given.and(set_setting(connection, GIVES_BACK, None)) {
        let path = place.path().display();
        tracing::warn!("{path}: the space that became free stays in the file: {error}");
    }
}

fn setting(connection: &Connection, key: &str) -> Result<Option<String>> {
    let value =
        connection.query_row("SELECT value FROM settings WHERE key = ?1", [key], |row| row.get(0));
    Ok(value.optional()?)
}

pub(crate) fn set_setting(connection: &Connection, key: &str, value: Option<&str>) -> Result<()> {
    match value {
        Some(value) => connection.execute(
            "INSERT INTO settings (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
            [key, value],
        )?,
        None => connection.execute("DELETE FROM settings WHERE key = ?1", [key])?,
    };
    Ok(())
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |it| i64::try_from(it.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::roots::insert_root;

    fn open() -> (tempfile::TempDir, PathBuf, Catalog) {
        let home = tempfile::tempdir().expect("temp dir");
        let path = home.path().join("catalog.sqlite");
        let catalog = Catalog::open(&path).expect("open");
        (home, path, catalog)
    }

    #[test]
    fn the_migrations_are_sound() {
        MIGRATIONS.validate().expect("every step runs");
    }

    #[test]
    fn a_held_catalog_is_said_to_be_busy() {
        let (_home, path, catalog) = open();
        let other = Connection::open(&path).expect("raw");
        other.execute_batch("BEGIN IMMEDIATE").expect("held");
        // The other never lets go: how long is waited for it makes no difference.
        catalog.connection().busy_timeout(Duration::from_millis(1)).expect("impatient");
        let error = catalog.add_root(Path::new("/r")).expect_err("held");
        assert!(matches!(error, Error::Busy), "{error}");
        other.execute_batch("COMMIT").expect("free");
        catalog.add_root(Path::new("/r")).expect("free");
    }

    #[test]
    fn a_dropped_transaction_leaves_nothing() {
        let (_home, path, catalog) = open();
        let stopped: Result<()> = catalog.transaction(|transaction| {
            insert_root(transaction, Path::new("/r"), false)?;
            Err(Error::DiskFull)
        });
        stopped.expect_err("stopped on the way");
        assert!(catalog.roots().expect("roots").is_empty());
        let mut connection = catalog.connection();
        let transaction = connection.transaction().expect("begin");
        insert_root(&transaction, Path::new("/r"), false).expect("insert");
        // The process ends here, in the middle.
        drop(transaction);
        drop(connection);
        drop(catalog);
        assert!(Catalog::open(&path).expect("reopen").roots().expect("roots").is_empty());
    }

    #[test]
    fn every_commit_is_on_the_disk_before_it_returns() {
        let (_home, _path, catalog) = open();
        let connection = catalog.connection();
        let pragma = |name: &str| {
            connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0))
        };
        assert_eq!(pragma("synchronous").expect("pragma"), 2, "FULL");
        assert_eq!(pragma("foreign_keys").expect("pragma"), 1);
    }
}
