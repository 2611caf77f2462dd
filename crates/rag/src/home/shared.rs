//! What a person does with libraries that live elsewhere: names, looks, keys.

use riddle_milvus::{About, Address, Share};
use riddle_types::{Advice, Trouble};

use super::{
    libraries::{Kept, connect, keep, kept, known, named},
    originals,
    records::Records,
};
use crate::contract::{
    Error, KeyState, Libraries, LibraryInfo, LibraryStatus, LibraryWriter, Result,
};

/// Longest name of one here.
const LONGEST_NAME: usize = 60;

/// The error of a secret store, with what can be done where there is none.
fn of_store(error: riddle_llm::Error) -> Error {
    Error::BadRequest(Trouble::with(error.to_string(), Advice::GiveLibraryKey))
}

fn writer_of(share: &Share, home: &str) -> LibraryWriter {
    LibraryWriter {
        key: share.key(),
        machine: share.machine.clone(),
        own: share.owner == home,
        files: share.files,
        passages: share.passages,
        written_at: share.pushed_at,
        unfinished: !share.complete,
        folders: share.folders.clone(),
        originals: share.originals.clone(),
    }
}

/// What a library says of itself, to the home of that identity.
fn info(library: LibraryStatus, about: Result<Option<About>>, home: &str) -> LibraryInfo {
    let mut info = LibraryInfo { library, ..LibraryInfo::default() };
    match about {
        Ok(Some(about)) => {
            info.with_rights = about.has_rules();
            info.files = about.files();
            info.passages = about.passages();
            info.writers = about.writers.iter().map(|it| writer_of(it, home)).collect();
            info.unfinished = about.writers.iter().any(|it| !it.complete);
            if let Some(newest) = about.newest() {
                info.machine = Some(newest.machine.clone());
                info.written_at = newest.pushed_at;
            }
            info.embedder = Some(about.embedder);
        }
        Ok(None) => {}
        Err(error) => info.problem = Some(Trouble::of(&error)),
    }
    info
}

impl Records {
    /// Makes a shared library known under a name, which is nobody's yet; nobody is asked.
    ///
    /// # Errors
    /// A name that is none or is taken, or an address that is none; when the catalog can not be written.
    pub fn add_library(&self, name: &str, address: &str) -> Result<LibraryStatus> {
        let bad = |why: String| {
            Error::BadRequest(format!("{name:?} is no name for a library: {why}").into())
        };
        let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(letter) {
            return Err(bad(format!("it has letters, digits, - and _, at most {LONGEST_NAME}")));
        }
        if [Libraries::HOME, Libraries::ALL].contains(&name) {
            return Err(bad("that word has a meaning of its own".to_owned()));
        }
        let address = Address::parse(address)?.to_string();
        let mut all = kept(&self.catalog)?;
        if let Some(taken) = all.iter().find(|it| it.name == name) {
            return match taken.address == address {
                true => named(&self.catalog, name),
                false => Err(bad(format!("it is that of {}", taken.address))),
            };
        }
        all.push(Kept {
            name: name.to_owned(),
            address,
            pushed_at: None,
            folders: Vec::new(),
            originals: None,
        });
        keep(&self.catalog, &all)?;
        named(&self.catalog, name)
    }

    /// Forgets a shared library; it stays where it is.
    ///
    /// # Errors
    /// [`Error::NoLibrary`]; when the catalog can not be written.
    pub fn remove_library(&self, name: &str) -> Result<()> {
        named(&self.catalog, name)?;
        let mut all = kept(&self.catalog)?;
        all.retain(|it| it.name != name);
        keep(&self.catalog, &all)
    }

    /// The shared libraries that are known, by name.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn libraries(&self) -> Result<Vec<LibraryStatus>> {
        known(&self.catalog)
    }

    /// What the servers of the shared libraries say; each is asked, one after the other.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn look_at_libraries(&self) -> Result<Vec<LibraryInfo>> {
        self.libraries()?.into_iter().map(|it| self.look_at(it)).collect()
    }

    /// What the server of one says; it is asked now.
    ///
    /// # Errors
    /// [`Error::NoLibrary`]; when the catalog can not be read.
    pub fn look_at_library(&self, name: &str) -> Result<LibraryInfo> {
        self.look_at(named(&self.catalog, name)?)
    }

    fn look_at(&self, library: LibraryStatus) -> Result<LibraryInfo> {
        let about = connect(&self.config, &library).and_then(|store| Ok(store.about()?));
        Ok(info(library, about, &self.catalog.identity()?))
    }

    /// Removes what one computer has written to a library, by the name of its machine or by its key; it may write anew
    /// whenever it likes. Returns what was removed.
    ///
    /// # Errors
    /// [`Error::NoLibrary`]; where nobody, or more than one, has that name; what the server reports.
    pub fn evict_writer(&self, name: &str, writer: &str) -> Result<LibraryWriter> {
        let library = named(&self.catalog, name)?;
        let store = connect(&self.config, &library)?;
        let about = store
            .about()?
            .ok_or_else(|| riddle_milvus::Error::Absent { address: library.address.clone() })?;
        let named: Vec<&Share> =
            about.writers.iter().filter(|it| it.machine == writer || it.key() == writer).collect();
        let [share] = named[..] else {
            let all = if named.is_empty() { about.writers.iter().collect() } else { named };
            let known: Vec<String> =
                all.iter().map(|it| format!("{} ({})", it.machine, it.key())).collect();
            let (address, writer) = (library.address.clone(), writer.to_owned());
            let known = known.join(", ");
            return Err(riddle_milvus::Error::NoWriter { address, writer, known }.into());
        };
        // First what is of no use without the library.
        originals::evict(&self.config, &library, &share.key())?;
        store.evict(&share.owner)?;
        Ok(writer_of(share, &self.catalog.identity()?))
    }

    /// Scheme, host and port of a library's server: whom its key is kept for.
    ///
    /// # Errors
    /// [`Error::NoLibrary`].
    pub fn library_origin(&self, name: &str) -> Result<String> {
        Ok(Address::parse(&named(&self.catalog, name)?.address)?.origin())
    }

    /// Keeps the key (`USER:PASSWORD`, or a token) of a library's server in the system's secret store.
    ///
    /// # Errors
    /// [`Error::NoLibrary`]; what is no key; a server that it may not be sent to; where there is no secret store.
    pub fn keep_library_key(&self, name: &str, key: &str) -> Result<()> {
        let address = Address::parse(&named(&self.catalog, name)?.address)?;
        if !address.may_carry_secrets() {
            return Err(riddle_milvus::Error::OpenSecret { server: address.origin() }.into());
        }
        riddle_llm::keep_key_of(&address.origin(), key).map_err(of_store)
    }

    /// Forgets it; `false`: none was kept.
    ///
    /// # Errors
    /// As [`keep_library_key`](Self::keep_library_key).
    pub fn forget_library_key(&self, name: &str) -> Result<bool> {
        riddle_llm::forget_key_of(&self.library_origin(name)?).map_err(of_store)
    }

    /// What is known of the key, which itself is never told.
    ///
    /// # Errors
    /// [`Error::NoLibrary`].
    pub fn library_key_state(&self, name: &str) -> Result<KeyState> {
        Ok(match riddle_llm::has_key_of(&self.library_origin(name)?) {
            Ok(true) => KeyState::Kept,
            Ok(false) => KeyState::None,
            Err(error) => {
                KeyState::Unknown(Trouble::with(error.to_string(), Advice::GiveLibraryKey))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Config;

    #[test]
    fn libraries_have_names_that_are_not_taken() {
        let home = tempfile::tempdir().expect("a folder");
        let records = Records::open(Config::new(home.path())).expect("opens");
        let address = "milvus://localhost:1/team";
        for bad in ["", "all", "home", "two words", "ü", &"x".repeat(99)] {
            assert!(records.add_library(bad, address).is_err(), "{bad:?}");
        }
        let error =
            records.add_library("team", "milvus://me:hunter2@box/team").expect_err("a password");
        assert!(!error.to_string().contains("hunter2"), "{error}");
        records.add_library("team", address).expect("known");
        records.add_library("team", address).expect("the same once more");
        let error = records.add_library("team", "milvus://localhost:2/x").expect_err("taken");
        assert!(error.to_string().contains(address), "{error}");
        records.add_library("archive", "milvuss://box.test/archive").expect("known");
        let names: Vec<String> =
            records.libraries().expect("known").into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["archive", "team"]);
        records.remove_library("team").expect("forgotten");
        assert!(matches!(records.remove_library("team"), Err(Error::NoLibrary { .. })));
    }

    #[test]
    fn a_key_is_kept_for_an_encrypted_server_alone() {
        let home = tempfile::tempdir().expect("a folder");
        let records = Records::open(Config::new(home.path())).expect("opens");
        records.add_library("far", "milvus://far.test/x").expect("known");
        let error = records.keep_library_key("far", "root:hunter2").expect_err("in clear");
        assert!(matches!(error, Error::Shared(riddle_milvus::Error::OpenSecret { .. })), "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
}
