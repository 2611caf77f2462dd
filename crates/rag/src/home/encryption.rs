//! A home that is encrypted at rest: catalog, indexes and stored prefixes, by a key that a passphrase or the system's
//! keyring has.
//!
//! Whether a home is encrypted is what its catalog says: the key's file is written before the catalog changes its form,
//! and goes after it has changed back. Whoever is killed on the way leaves a home that opens as it did before, or as it
//! does after. All else is derived, and is removed before the catalog becomes what it is then.

use std::path::{Path, PathBuf};

use riddle_catalog::{Catalog, Form, HomeLock, convert, form};
use riddle_llm::{forget_key_of, keep_key_of, key_of};
use riddle_seal::{Cost, KEY_FILE, Key, KeyFile};

use super::{config::Config, prefixes};
use crate::contract::{Error, Result};

/// How a home is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// Whoever can read its files can read what is in them.
    None,
    /// It is encrypted, and this process has no key yet.
    Locked {
        /// Whether there is a passphrase for it; without one the keyring alone opens it.
        by_passphrase: bool,
    },
    /// It is encrypted, and open here.
    Unlocked {
        /// As of [`Locked`](Protection::Locked).
        by_passphrase: bool,
    },
}

impl Protection {
    /// Whether what is on the disk is encrypted.
    pub fn is_encrypted(self) -> bool {
        self != Protection::None
    }
}

fn path(config: &Config) -> PathBuf {
    config.home.join(KEY_FILE)
}

/// Whether what this home writes is encrypted, open or not.
pub fn is_encrypted(config: &Config) -> bool {
    config.key.get().is_some() || protection(config).is_ok_and(Protection::is_encrypted)
}

/// How a home is protected. One that was killed while it was being encrypted is not.
///
/// # Errors
/// When the catalog or the key's file can not be read, or is none.
pub fn protection(config: &Config) -> Result<Protection> {
    let catalog = form(config.catalog().path())?;
    if catalog == Form::Plain {
        return Ok(Protection::None);
    }
    let Some(file) = KeyFile::read(&path(config))? else { return Ok(Protection::None) };
    let by_passphrase = file.has_passphrase();
    Ok(match config.key.get() {
        Some(_) => Protection::Unlocked { by_passphrase },
        None => Protection::Locked { by_passphrase },
    })
}

/// The key's file of a home that is encrypted.
fn key_file(config: &Config) -> Result<KeyFile> {
    match KeyFile::read(&path(config))? {
        Some(file) if protection(config)?.is_encrypted() => Ok(file),
        _ => Err(Error::BadRequest(format!("{} is not encrypted", config.home.display()).into())),
    }
}

/// Opens an encrypted home with its passphrase, for `config` and its clones.
///
/// # Errors
/// The wrong passphrase, or a home that has none or is not encrypted.
pub fn unlock(config: &Config, passphrase: &str) -> Result<()> {
    config.key.set(Some(key_file(config)?.unlock(passphrase)?));
    Ok(())
}

/// Opens an encrypted home with the key that the system's keyring keeps; whether it did. A keyring that is not there
/// keeps none.
///
/// # Errors
/// A key that is another home's; a home that is not encrypted.
pub fn unlock_from_keyring(config: &Config) -> Result<bool> {
    let file = key_file(config)?;
    let kept = match key_of(&name_of(&file)) {
        Ok(kept) => kept,
        Err(error) => {
            tracing::debug!(%error, "the keyring gives no key");
            None
        }
    };
    let Some(key) = kept.as_deref().and_then(Key::from_hex) else { return Ok(false) };
    config.key.set(Some(file.confirm(key)?));
    Ok(true)
}

/// Has the system's keyring keep the key of a home that is open, so that nobody is asked for the passphrase.
///
/// # Errors
/// A home that is locked or not encrypted; no keyring.
pub fn remember_key(config: &Config) -> Result<()> {
    keep(&key_file(config)?, &open_key(config)?)
}

/// Removes the key from the keyring; whether it was there.
///
/// # Errors
/// A home that no passphrase opens: nobody would open it again; no keyring.
pub fn forget_key(config: &Config) -> Result<bool> {
    let file = key_file(config)?;
    if !file.has_passphrase() {
        return Err(Error::BadRequest(
            "the key of this home is in the keyring alone: give it a passphrase first".into(),
        ));
    }
    forget_key_of(&name_of(&file)).map_err(|error| Error::BadRequest(error.to_string().into()))
}

/// The key's file that has to go with a copy of the catalog; `None`: it is not encrypted.
///
/// # Errors
/// A key that only this computer's keyring opens.
pub(crate) fn key_to_export(config: &Config) -> Result<Option<KeyFile>> {
    if !protection(config)?.is_encrypted() {
        return Ok(None);
    }
    let file = key_file(config)?;
    if !file.has_passphrase() {
        return Err(Error::BadRequest(
            "the key of this home is in this computer's keyring alone: give it a passphrase first"
                .into(),
        ));
    }
    Ok(Some(file))
}

fn open_key(config: &Config) -> Result<Key> {
    config
        .key
        .get()
        .ok_or_else(|| riddle_catalog::Error::Sealed { path: config.catalog().path }.into())
}

/// Under which name a keyring keeps it.
fn name_of(file: &KeyFile) -> String {
    format!("riddle-home://{}", file.id())
}

fn keep(file: &KeyFile, key: &Key) -> Result<()> {
    // Its own advice speaks of endpoints.
    keep_key_of(&name_of(file), &key.to_hex())
        .map_err(|error| Error::BadRequest(error.to_string().into()))
}

/// Encrypts a home, by a passphrase, a key in the system's keyring, or both; whoever opens it for writing next makes
/// its indexes anew. Nobody else may have it open. A home that holds nothing yet will hold nothing that is not
/// encrypted. Removes the files `beside` it, too: those in which its words are and that are not its own.
///
/// # Errors
/// A home that is encrypted already, or in use; neither passphrase nor keyring; a full disk.
pub fn encrypt(
    config: &Config,
    passphrase: Option<&str>,
    keyring: bool,
    beside: &[PathBuf],
) -> Result<()> {
    if passphrase.is_none() && !keyring {
        return Err(Error::BadRequest("a home is encrypted by a passphrase or a keyring".into()));
    }
    let lock = HomeLock::acquire(&config.home)?;
    if protection(config)?.is_encrypted() {
        let why = format!("{} is encrypted already", config.home.display());
        return Err(Error::BadRequest(why.into()));
    }
    let key = Key::random()?;
    let file = KeyFile::make(&path(config), &key, passphrase, Cost::default())?;
    // First: a home whose key nobody keeps is lost.
    if keyring {
        keep(&file, &key)?;
    }
    let written = file.write().map_err(Error::from).and_then(|()| {
        if form(config.catalog().path())? == Form::Absent {
            config.key.set(Some(key.clone()));
            drop(Catalog::open(config.catalog())?);
            return Ok(());
        }
        // What is derived goes first: none of it may stay as it is beside an encrypted catalog.
        convert(&config.catalog(), Some(&key), || {
            forget_derived(config)?;
            beside.iter().try_for_each(|it| removed(it, std::fs::remove_file(it)))
        })
        .map_err(in_use)?;
        config.key.set(Some(key.clone()));
        Ok(())
    });
    if let Err(error) = written {
        // Where the catalog did change its form the key is all that opens it.
        if matches!(form(config.catalog().path()), Ok(Form::Plain | Form::Absent)) {
            config.key.set(None);
            let _ = std::fs::remove_file(path(config));
            if keyring {
                let _ = forget_key_of(&name_of(&file));
            }
        }
        return Err(error);
    }
    drop(lock);
    Ok(())
}

/// Takes the encryption back; the home has to be open. Whoever opens it for writing next makes its indexes anew.
///
/// # Errors
/// A home that is locked, not encrypted, or in use; a full disk.
pub fn decrypt(config: &Config) -> Result<()> {
    let lock = HomeLock::acquire(&config.home)?;
    let file = key_file(config)?;
    open_key(config)?;
    convert(&config.catalog(), None, || forget_derived(config)).map_err(in_use)?;
    config.key.set(None);
    let at = path(config);
    std::fs::remove_file(&at).map_err(|source| Error::Io { path: at, source })?;
    // A keyring that is not there keeps nothing.
    if let Err(error) = forget_key_of(&name_of(&file)) {
        tracing::debug!(%error, "the keyring forgets no key");
    }
    drop(lock);
    Ok(())
}

/// Gives an open home another passphrase, or none where the keyring keeps its key. Nothing else is written.
///
/// # Errors
/// A home that is locked or not encrypted; without a passphrase, a keyring that does not keep the key.
pub fn change_passphrase(config: &Config, passphrase: Option<&str>) -> Result<()> {
    let file = key_file(config)?;
    let key = open_key(config)?;
    if passphrase.is_none() {
        keep(&file, &key)?;
    }
    Ok(file.with_passphrase(&key, passphrase, Cost::default())?.write()?)
}

/// Nobody waits for who has the home open.
fn in_use(error: Error) -> Error {
    match error {
        Error::Catalog(riddle_catalog::Error::Busy) => Error::BadRequest(
            "another program has this home open (the app, a server, a search): close it first"
                .into(),
        ),
        other => other,
    }
}

/// Removes what an encryption that was killed has left in a home that is not encrypted: nothing needs the key.
pub(crate) fn sweep(config: &Config) -> Result<()> {
    if form(config.catalog().path())? != Form::Plain {
        return Ok(());
    }
    let at = path(config);
    removed(&at, std::fs::remove_file(&at))
}

/// What is not there needs no removing.
fn removed(path: &Path, outcome: std::io::Result<()>) -> Result<()> {
    match outcome {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::Io { path: path.to_path_buf(), source })
        }
        _ => Ok(()),
    }
}

/// Removes all that comes back from the catalog, and what follows from its text.
fn forget_derived(config: &Config) -> Result<()> {
    prefixes::forget(config)?;
    for dir in [config.keyword_index(), config.place("vector"), config.place("terms")] {
        removed(dir.path(), riddle_retrieval::remove(dir.path()))?;
    }
    Ok(())
}
