//! A catalog that is encrypted: SQLCipher's pages (AES-256-CBC, HMAC-SHA512), by a key that needs no stretching.

use std::{
    fs::File,
    io::{ErrorKind, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

use riddle_seal::{KEY_FILE, Key, Place};
use rusqlite::Connection;
use zeroize::Zeroizing;

use crate::{Error, Result, error::refine};

/// First bytes of a database that is not encrypted.
const PLAIN: &[u8; 16] = b"SQLite format 3\0";

/// How long whoever has the catalog open is waited for: nobody closes one by chance.
const PATIENCE: Duration = Duration::from_millis(500);

/// How a catalog lies on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// There is none, or nothing is in it.
    Absent,
    /// Anybody can read it.
    Plain,
    /// Encrypted, or no database at all.
    Other,
}

/// The form of the catalog at `path`.
///
/// # Errors
/// When the file is there and can not be read.
pub fn form(path: &Path) -> Result<Form> {
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Form::Absent),
        Err(source) => return Err(io(source)),
    };
    let mut beginning = Vec::with_capacity(PLAIN.len());
    file.by_ref().take(PLAIN.len() as u64).read_to_end(&mut beginning).map_err(io)?;
    Ok(match &beginning[..] {
        [] => Form::Absent,
        it if it == PLAIN => Form::Plain,
        _ => Form::Other,
    })
}

/// Whether the catalog can be opened with what `place` has.
pub(crate) fn check(place: &Place) -> Result<()> {
    // Damaged or encrypted look alike; in a home with a key it is encrypted, and so is what is not there yet.
    let has_key = place.path().with_file_name(KEY_FILE).exists();
    if place.key.is_none() && has_key && form(place.path())? != Form::Plain {
        return Err(Error::Sealed { path: place.path.clone() });
    }
    Ok(())
}

/// Opens a connection. The first one has OpenSSL leave its memory alone when the process ends: cleaning up, it would
/// free what a thread that ends at the same moment frees, too (openssl/openssl#13500).
pub(crate) fn connect(
    open: impl FnOnce() -> rusqlite::Result<Connection>,
) -> rusqlite::Result<Connection> {
    openssl_sys::init();
    open()
}

/// Gives a new connection the key, unless the file is not encrypted: so it is until an encryption is done.
pub(crate) fn use_key(connection: &Connection, place: &Place) -> Result<()> {
    let Some(key) = &place.key else { return Ok(()) };
    if form(place.path())? == Form::Plain {
        return Ok(());
    }
    // What does not open is told once, by us.
    connection.execute_batch("PRAGMA cipher_log_level = NONE")?;
    connection.execute_batch(&Zeroizing::new(format!("PRAGMA key = {}", *literal(key))))?;
    Ok(())
}

/// The key as SQLCipher takes one that is used as it is.
fn literal(key: &Key) -> Zeroizing<String> {
    Zeroizing::new(format!("\"x'{}'\"", *key.derive("catalog", b"").to_hex()))
}

/// Where a catalog is written before it takes the place of the one that is there.
fn beside(path: &Path) -> PathBuf {
    path.with_extension("sqlite.new")
}

/// Removes what a conversion that was killed has left; nobody converts while a connection is open.
pub(crate) fn sweep(path: &Path) {
    let beside = beside(path);
    for ending in ["", "-journal", "-wal", "-shm"] {
        let mut name = beside.clone().into_os_string();
        name.push(ending);
        match std::fs::remove_file(PathBuf::from(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!("{}: {error}", beside.display());
            }
            _ => {}
        }
    }
}

/// Writes the catalog at `from` anew, encrypted by `key` or not at all, and puts that in its place: whoever is killed
/// on the way leaves one or the other, whole. `alone` runs once it is certain that nobody else has it open.
///
/// # Errors
/// [`Error::Busy`] while anybody has it open; what `alone` reports; a full disk, a damaged catalog. It stays as it was
/// then.
pub fn convert<E: From<Error>>(
    from: &Place,
    key: Option<&Key>,
    alone: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    let connection = alone_with(from)?;
    alone()?;
    Ok(replace(&connection, from.path(), key)?)
}

/// A connection to the catalog beside which there is no other.
fn alone_with(from: &Place) -> Result<Connection> {
    let path = from.path();
    check(from)?;
    let connection = connect(|| Connection::open(path)).map_err(|error| refine(path, error))?;
    connection.busy_timeout(PATIENCE)?;
    use_key(&connection, from)?;
    // Works for a connection that is alone, and leaves no second file beside the database.
    let mode: String = connection
        .query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0))
        .map_err(|error| refine(path, error))?;
    if mode != "delete" {
        return Err(Error::Busy);
    }
    // From now on nobody else opens it.
    connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT")?;
    Ok(connection)
}

fn replace(connection: &Connection, path: &Path, key: Option<&Key>) -> Result<()> {
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    sweep(path);
    let beside = beside(path);
    let attached = attach(connection, &beside, key)
        .and_then(|()| whole(&Place::new(&beside, key.cloned())))
        .and_then(|()| {
            File::open(&beside).and_then(|it| it.sync_all()).map_err(io)?;
            std::fs::rename(&beside, path).map_err(io)
        });
    if let Err(error) = attached {
        sweep(path);
        return Err(error);
    }
    // The rename itself is durable once the folder is; other systems than Unix can not open folders.
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        File::open(folder).and_then(|it| it.sync_all()).map_err(io)?;
    }
    Ok(())
}

/// Copies everything into a new database.
fn attach(connection: &Connection, to: &Path, key: Option<&Key>) -> Result<()> {
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let key = key.map_or_else(|| Zeroizing::new("''".to_owned()), literal);
    let name = to.to_string_lossy().replace('\'', "''");
    connection.execute_batch(&Zeroizing::new(format!("ATTACH '{name}' AS copy KEY {}", *key)))?;
    // Written once and synced at the end.
    connection.execute_batch("PRAGMA copy.journal_mode = OFF; PRAGMA copy.synchronous = OFF")?;
    connection.query_row("SELECT sqlcipher_export('copy')", [], |_| Ok(()))?;
    connection.execute_batch(&format!("PRAGMA copy.user_version = {version}; DETACH copy"))?;
    Ok(())
}

/// Whether a copy opens, and is sound.
fn whole(copy: &Place) -> Result<()> {
    let path = copy.path();
    let connection = connect(|| Connection::open(path)).map_err(|error| refine(path, error))?;
    use_key(&connection, copy)?;
    let said: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|error| refine(path, error))?;
    if said != "ok" {
        return Err(Error::Damaged { path: Some(path.to_path_buf()), why: said });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Catalog;

    fn nothing() -> Result<()> {
        Ok(())
    }

    fn key() -> Key {
        Key::random().expect("random")
    }

    fn made() -> (tempfile::TempDir, PathBuf) {
        let home = tempfile::tempdir().expect("folder");
        let path = home.path().join("catalog.sqlite");
        let catalog = Catalog::open(&path).expect("opens");
        catalog.add_root(Path::new("/home/of/a/secret")).expect("added");
        catalog.set_setting("llm", Some("remote")).expect("set");
        (home, path)
    }

    fn holds(path: &Path, what: &str) -> bool {
        let bytes = std::fs::read(path).expect("there");
        bytes.windows(what.len()).any(|it| it == what.as_bytes())
    }

    #[test]
    fn a_catalog_becomes_unreadable_and_readable_again() {
        let (home, path) = made();
        let key = key();
        std::fs::write(home.path().join(KEY_FILE), "").expect("a home with a key");
        let plain = Place::from(&path);
        let sealed = Place::new(&path, Some(key.clone()));
        let before = Catalog::open(&plain).expect("opens").identity().expect("has one");
        assert!(holds(&path, "secret"));
        convert(&plain, Some(&key), nothing).expect("encrypted");
        assert!(!holds(&path, "secret") && !holds(&path, "SQLite"));
        assert!(matches!(Catalog::open(&plain), Err(Error::Sealed { .. })));
        assert!(matches!(Catalog::open_read_only(&plain), Err(Error::Sealed { .. })));
        let other = Place::new(&path, Some(self::key()));
        assert!(matches!(Catalog::open(&other), Err(Error::Damaged { .. })));

        let catalog = Catalog::open(&sealed).expect("opens");
        assert_eq!(catalog.identity().expect("has one"), before);
        assert_eq!(catalog.setting("llm").expect("read").as_deref(), Some("remote"));
        catalog.add_root(Path::new("/home/of/another/riddle")).expect("added");
        // The file beside the database, which holds what is not in it yet.
        assert!(!holds(&home.path().join("catalog.sqlite-wal"), "riddle"));
        let backup = home.path().join("backup.sqlite");
        catalog.copy_to(&backup).expect("copied");
        assert!(!holds(&backup, "secret"));
        let copy = Place::new(&backup, Some(key.clone()));
        assert_eq!(Catalog::open_read_only(&copy).expect("opens").roots().expect("read").len(), 2);
        drop(catalog);

        convert(&sealed, None, nothing).expect("decrypted");
        assert!(holds(&path, "secret"));
        // The key is not used for what is not encrypted.
        for place in [&plain, &sealed] {
            assert_eq!(Catalog::open(place).expect("opens").roots().expect("read").len(), 2);
        }
    }

    #[test]
    fn a_catalog_that_somebody_has_open_stays_as_it_is() {
        let (_home, path) = made();
        let open = Catalog::open_read_only(&path).expect("opens");
        assert_eq!(open.roots().expect("read").len(), 1);
        assert!(matches!(convert(&Place::from(&path), Some(&key()), nothing), Err(Error::Busy)));
        drop(open);
        let catalog = Catalog::open(&path).expect("opens");
        assert_eq!(catalog.roots().expect("read").len(), 1);
    }

    #[test]
    fn what_a_killed_conversion_left_goes_with_the_next_opening() {
        let (_home, path) = made();
        std::fs::write(beside(&path), "half").expect("written");
        drop(Catalog::open(&path).expect("opens"));
        assert!(!beside(&path).exists());
    }

    #[test]
    fn a_new_catalog_with_a_key_is_never_plain() {
        let home = tempfile::tempdir().expect("folder");
        let path = home.path().join("catalog.sqlite");
        let place = Place::new(&path, Some(key()));
        let catalog = Catalog::open(&place).expect("made");
        catalog.add_root(Path::new("/home/of/a/secret")).expect("added");
        drop(catalog);
        assert!(!holds(&path, "SQLite") && !holds(&path, "secret"));
        assert_eq!(Catalog::open_read_only(&place).expect("opens").roots().expect("read").len(), 1);
    }

    #[test]
    fn a_damaged_catalog_without_a_key_is_damaged() {
        let (_home, path) = made();
        std::fs::write(&path, "no database, and long enough to have been one").expect("written");
        assert!(matches!(Catalog::open(&path), Err(Error::Damaged { .. })));
    }
}
