//! The hub that a store's models come from, where a person has chosen one: a line in a file of the store, which is
//! there before a home is, and while one is locked.

use std::{
    fs::{self, File},
    io::Read as _,
};

use crate::{Error, HubAddress, ModelStore, Result, files};

/// The file. No model's name can start with a dot.
const SOURCE: &str = ".source";

/// Longest line that is read: longer than any address.
const LONGEST: u64 = 4096;

impl ModelStore {
    /// The hub that was chosen; `None`: the usual one.
    ///
    /// # Errors
    /// When the file can not be read, or holds something else: another hub than the chosen one is not asked.
    pub fn source(&self) -> Result<Option<HubAddress>> {
        let path = self.dir().join(SOURCE);
        let mut text = Vec::new();
        match File::open(&path).and_then(|it| it.take(LONGEST).read_to_end(&mut text)) {
            Ok(_) => HubAddress::parse(&String::from_utf8_lossy(&text)).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(path)(error)),
        }
    }

    /// Chooses another hub, or the usual one again.
    ///
    /// # Errors
    /// When the file can not be written.
    pub fn set_source(&self, source: Option<&HubAddress>) -> Result<()> {
        let path = self.dir().join(SOURCE);
        let Some(source) = source else { return files::remove_all(&path) };
        files::create_dir(self.dir())?;
        // Whole or not at all: half an address is another's.
        let new = self.dir().join(format!("{SOURCE}.new"));
        files::write_synced(&new, format!("{source}\n").as_bytes())?;
        fs::rename(&new, &path).map_err(Error::io(&path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chosen_hub_is_kept_until_the_usual_one_is_wanted_again() {
        let dir = tempfile::tempdir().expect("temp dir");
        let store = ModelStore::open(&dir.path().join("models")).expect("opens");
        assert_eq!(store.source().expect("reads"), None);
        store.set_source(None).expect("nothing to do");
        for text in ["https://mirror.test/hub", "modelscope+https://mirror.test"] {
            let address = HubAddress::parse(text).expect("an address");
            store.set_source(Some(&address)).expect("keeps");
            assert_eq!(store.source().expect("reads"), Some(address));
        }
        assert_eq!(store.list().expect("lists"), []);
        store.set_source(None).expect("forgets");
        assert_eq!(store.source().expect("reads"), None);
    }

    #[test]
    fn a_damaged_choice_is_an_error_and_not_another_hub() {
        let dir = tempfile::tempdir().expect("temp dir");
        let store = ModelStore::open(dir.path()).expect("opens");
        for bytes in [&b""[..], b"\xff\xfe", b"http://open.test", &[b'a'; 100_000]] {
            fs::write(dir.path().join(SOURCE), bytes).expect("write");
            assert!(matches!(store.source(), Err(Error::HubAddress { .. })), "{bytes:?}");
        }
    }
}
