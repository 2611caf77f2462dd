//! The home's key, as it lies in the home: sealed by a passphrase, or only named, when the system's keyring has it.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use argon2::{Algorithm, Argon2, Params, Version};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{
    Error, Key, Result,
    cipher::{open, seal},
    key::random,
};

/// Its name in a home.
pub const KEY_FILE: &str = "home.key";

/// Raised with every change of the file.
const VERSION: u32 = 1;

/// Largest file that is read.
const LARGEST: u64 = 64 << 10;

/// What trying a passphrase costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over it.
    pub passes: u32,
}

impl Default for Cost {
    /// The second recommendation of RFC 9106, section 4, on one lane: 64 MiB and three passes.
    fn default() -> Cost {
        Cost { memory_kib: 64 << 10, passes: 3 }
    }
}

/// No file may ask for more: a person would wait for minutes, or the memory would not be there.
const DEAREST: Cost = Cost { memory_kib: 1 << 20, passes: 64 };

/// What the file holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Content {
    version: u32,
    /// Names the key in a keyring.
    id: String,
    /// What only the right key makes.
    check: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    passphrase: Option<Slot>,
}

/// The key, sealed by a passphrase.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Slot {
    /// Argon2id, version 1.3, one lane.
    #[serde(flatten)]
    cost: Cost,
    salt: String,
    /// The sealed key, in hexadecimal digits.
    key: String,
}

/// The file of a home's key.
#[derive(Debug, Clone)]
pub struct KeyFile {
    path: PathBuf,
    content: Content,
}

impl KeyFile {
    /// Reads the file at `path`; `None` where there is none.
    ///
    /// # Errors
    /// [`Error::BadKeyFile`] for anything else; when it can not be read.
    pub fn read(path: &Path) -> Result<Option<KeyFile>> {
        let io = |source| Error::Io { path: path.to_path_buf(), source };
        let bad = |why: String| Error::BadKeyFile { path: path.to_path_buf(), why };
        let length = match std::fs::metadata(path) {
            Ok(it) => it.len(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(io(source)),
        };
        if length > LARGEST {
            return Err(bad("it is too large".into()));
        }
        let bytes = std::fs::read(path).map_err(io)?;
        let content: Content =
            serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
        if content.version != VERSION {
            return Err(bad("another version of the program wrote it".into()));
        }
        let plain = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_hexdigit());
        if !plain(&content.id) || !plain(&content.check) {
            return Err(bad("its names are not ours".into()));
        }
        if let Some(Slot { cost, .. }) = &content.passphrase
            && (cost.memory_kib > DEAREST.memory_kib || cost.passes > DEAREST.passes)
        {
            return Err(bad("it asks for more memory or time than a passphrase may take".into()));
        }
        Ok(Some(KeyFile { path: path.to_path_buf(), content }))
    }

    /// A file for `key`, which nobody has written yet; without a passphrase only the key itself opens the home.
    ///
    /// # Errors
    /// [`Error::EmptyPassphrase`]; when the system gives no random numbers or not the memory.
    pub fn make(path: &Path, key: &Key, passphrase: Option<&str>, cost: Cost) -> Result<KeyFile> {
        let content = Content {
            version: VERSION,
            id: hex(&random::<16>()?),
            check: check_of(key),
            passphrase: passphrase.map(|it| Slot::make(key, it, cost)).transpose()?,
        };
        Ok(KeyFile { path: path.to_path_buf(), content })
    }

    /// The same key behind another passphrase, or none.
    ///
    /// # Errors
    /// As [`make`](KeyFile::make).
    pub fn with_passphrase(
        &self,
        key: &Key,
        passphrase: Option<&str>,
        cost: Cost,
    ) -> Result<KeyFile> {
        let passphrase = passphrase.map(|it| Slot::make(key, it, cost)).transpose()?;
        let content = Content { passphrase, ..self.content.clone() };
        Ok(KeyFile { path: self.path.clone(), content })
    }

    /// The same file at another place.
    #[must_use]
    pub fn at(&self, path: &Path) -> KeyFile {
        KeyFile { path: path.to_path_buf(), content: self.content.clone() }
    }

    /// Writes it, for its owner's eyes, in the place of one that is there; it is on the disk then.
    ///
    /// # Errors
    /// When it can not be written; the one before stays.
    pub fn write(&self) -> Result<()> {
        let io = |source| Error::Io { path: self.path.clone(), source };
        let text = serde_json::to_vec_pretty(&self.content)
            .map_err(|error| io(std::io::Error::other(error)))?;
        let beside = self.path.with_extension("key.new");
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options.open(&beside).and_then(|mut file| {
            std::io::Write::write_all(&mut file, &text)?;
            file.sync_all()
        });
        written.and_then(|()| std::fs::rename(&beside, &self.path)).map_err(io)?;
        #[cfg(unix)]
        if let Some(folder) = self.path.parent() {
            // A name alone is one where the program runs: its folder is called nothing, and nothing can not be opened.
            let here = folder.as_os_str().is_empty();
            let folder = if here { Path::new(".") } else { folder };
            std::fs::File::open(folder).and_then(|it| it.sync_all()).map_err(io)?;
        }
        Ok(())
    }

    /// What the key is called in a keyring.
    pub fn id(&self) -> &str {
        &self.content.id
    }

    /// Whether a passphrase opens it.
    pub fn has_passphrase(&self) -> bool {
        self.content.passphrase.is_some()
    }

    /// The key behind this passphrase. Takes some tenths of a second and 64 MiB: so much does every guess.
    ///
    /// # Errors
    /// [`Error::WrongPassphrase`]; [`Error::NoPassphrase`]; [`Error::BadKeyFile`].
    pub fn unlock(&self, passphrase: &str) -> Result<Key> {
        let slot = self.content.passphrase.as_ref().ok_or(Error::NoPassphrase)?;
        let bad = |why: &str| Error::BadKeyFile { path: self.path.clone(), why: why.into() };
        let salt = unhex(&slot.salt).ok_or_else(|| bad("its salt is none"))?;
        let sealed = unhex(&slot.key).ok_or_else(|| bad("its key is none"))?;
        let outer = stretch(passphrase, &salt, slot.cost)?;
        let bytes =
            Zeroizing::new(open(&outer, KEY_FILE, &sealed).map_err(|_| Error::WrongPassphrase)?);
        let bytes = <[u8; 32]>::try_from(&bytes[..]).map_err(|_| bad("its key is none"))?;
        self.confirm(Key::new(bytes))
    }

    /// `key`, if it is this home's.
    ///
    /// # Errors
    /// [`Error::WrongKey`].
    pub fn confirm(&self, key: Key) -> Result<Key> {
        // Compared as hashes: how long that takes says nothing of the key.
        let same = |text: &str| blake3::hash(text.as_bytes());
        if same(&check_of(&key)) == same(&self.content.check) {
            Ok(key)
        } else {
            Err(Error::WrongKey)
        }
    }
}

impl Slot {
    fn make(key: &Key, passphrase: &str, cost: Cost) -> Result<Slot> {
        if passphrase.is_empty() {
            return Err(Error::EmptyPassphrase);
        }
        let salt = random::<16>()?;
        let outer = stretch(passphrase, &salt, cost)?;
        let sealed = seal(&outer, KEY_FILE, key.bytes())
            .map_err(|_| Error::System("the system gives no random numbers"))?;
        Ok(Slot { cost, salt: hex(&salt), key: hex(&sealed) })
    }
}

/// The key that a passphrase makes.
fn stretch(passphrase: &str, salt: &[u8], cost: Cost) -> Result<Key> {
    let bad = |_| Error::System("the cost of its passphrase is impossible");
    let params = Params::new(cost.memory_kib, cost.passes, 1, Some(32)).map_err(bad)?;
    let mut bytes = Zeroizing::new([0; 32]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(passphrase.as_bytes(), salt, &mut bytes[..])
        .map_err(bad)?;
    Ok(Key::new(*bytes))
}

fn check_of(key: &Key) -> String {
    key.derive("check", b"").to_hex()[..32].to_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: Cost = Cost { memory_kib: 64, passes: 1 };

    #[test]
    fn it_is_written_beside_a_file_that_is_named_without_its_folder() {
        let dir = tempfile::tempdir().expect("folder");
        // No other test of this crate names a file from where it runs.
        std::env::set_current_dir(dir.path()).expect("entered");
        let path = Path::new("backup.riddle.key");
        let file = KeyFile::make(path, &Key::new([7; 32]), Some("a passphrase"), CHEAP);
        file.expect("made").write().expect("written");
        assert!(KeyFile::read(path).expect("fine").is_some());
    }

    #[test]
    fn the_passphrase_opens_it_and_nothing_else() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join(KEY_FILE);
        assert!(KeyFile::read(&path).expect("fine").is_none());
        let key = Key::random().expect("random");
        KeyFile::make(&path, &key, Some("Türschlüssel 7"), CHEAP)
            .expect("made")
            .write()
            .expect("written");
        let file = KeyFile::read(&path).expect("sound").expect("there");
        assert_eq!(file.unlock("Türschlüssel 7").expect("opens").bytes(), key.bytes());
        assert!(matches!(file.unlock("Türschlüssel 8"), Err(Error::WrongPassphrase)));
        assert!(matches!(file.unlock(""), Err(Error::WrongPassphrase)));
        assert!(file.confirm(key.clone()).is_ok());
        let other = Key::random().expect("random");
        assert!(matches!(file.confirm(other), Err(Error::WrongKey)));

        file.with_passphrase(&key, Some("new"), CHEAP).expect("made").write().expect("written");
        let changed = KeyFile::read(&path).expect("sound").expect("there");
        assert_eq!(changed.id(), file.id());
        assert!(matches!(changed.unlock("Türschlüssel 7"), Err(Error::WrongPassphrase)));
        assert_eq!(changed.unlock("new").expect("opens").bytes(), key.bytes());

        let without = file.with_passphrase(&key, None, CHEAP).expect("made");
        assert!(matches!(without.unlock("new"), Err(Error::NoPassphrase)));
        let none = KeyFile::make(&path, &key, Some(""), CHEAP);
        assert!(matches!(none, Err(Error::EmptyPassphrase)));
    }

    #[test]
    #[cfg(unix)]
    fn only_its_owner_may_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join(KEY_FILE);
        let key = Key::random().expect("random");
        KeyFile::make(&path, &key, None, CHEAP).expect("made").write().expect("written");
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }

    #[test]
    fn hostile_files_are_refused_before_they_cost_anything() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join(KEY_FILE);
        let good = r#"{"version":1,"id":"aa","check":"bb","passphrase":{"memory_kib":64,"passes":1,"salt":"SALT","key":"KEY"}}"#;
        let refused = |text: &[u8]| {
            std::fs::write(&path, text).expect("written");
            match KeyFile::read(&path) {
                Err(Error::BadKeyFile { .. }) => true,
                Ok(Some(file)) => file.unlock("x").is_err(),
                _ => false,
            }
        };
        for text in [
            "",
            "null",
            "{}",
            "\u{0}",
            good,
            &good.replace("\"version\":1", "\"version\":2"),
            &good.replace("\"aa\"", "\"../../x\""),
            &good.replace("\"memory_kib\":64", "\"memory_kib\":4294967295"),
            &good.replace("\"memory_kib\":64", "\"memory_kib\":0"),
            &good.replace("\"passes\":1", "\"passes\":4000000000"),
            &good.replace("\"passes\":1", "\"passes\":0"),
            &good.replace("SALT", "0011").replace("KEY", "00"),
            &good.replace("SALT", "é1é1").replace("KEY", "ß"),
        ] {
            assert!(refused(text.as_bytes()), "{text}");
        }
        assert!(refused(&[0xff; 300]));
        assert!(refused(&vec![b' '; 1 << 20]));
    }
}
