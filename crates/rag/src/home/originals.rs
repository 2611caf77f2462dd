//! Files of a shared library for whoever does not have them: kept in an object store, fetched from there.
//!
//! Whether a library has such a store is said in each home, and by nobody else: a server that named one could send its
//! readers anywhere. A writer keeps every file that it pushes there, under the file's key and a stamp of its state; a
//! reader fetches the newest state of the file that a hit is from.

use std::{
    collections::HashSet,
    fs::{self, File},
    path::{Path, PathBuf},
    time::SystemTime,
};

use riddle_catalog::FilePlace;
use riddle_milvus::{Address, Store};
use riddle_objects::{Key, Object, Objects, Options, Place};
use riddle_types::{Advice, FileKind, Trouble};

use super::{
    config::Config,
    libraries::{connect, keep, kept, named},
    records::{Records, inside},
};
use crate::contract::{Error, KeyState, LibraryStatus, Result};

/// Most bytes of fetched files that are kept here: the newest stays whatever its size.
const KEPT_BYTES: u64 = 1 << 30;

/// A file that was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Where it is now.
    pub path: PathBuf,
    /// Whether opening it shows it: programs and scripts would run, and are never opened from elsewhere.
    pub shows: bool,
}

/// The store that keeps the files of a library; `None`: it has none here.
pub(crate) fn open(config: &Config, library: &LibraryStatus) -> Result<Option<Originals>> {
    let Some(text) = &library.originals else { return Ok(None) };
    let place = Place::parse(text)?;
    if config.is_offline() && !place.is_local() {
        let what = format!("{} is not asked: the network is switched off", place.origin());
        return Err(Error::BadRequest(Trouble { what, advice: None }));
    }
    let given = config.originals_key.as_ref().map(|it| it.reveal().to_owned());
    let key = given.or_else(|| kept_key(&place)).map(|it| Key::parse(&it)).transpose()?;
    let name = Address::parse(&library.address)?.library().to_owned();
    let objects = Objects::at(&place, key.as_ref(), Options::default())?;
    Ok(Some(Originals { objects, library: name }))
}

/// The key that the system keeps for a store. Where it can not be had the store is asked without, and says so if it
/// wants one.
fn kept_key(place: &Place) -> Option<String> {
    if !place.may_carry_secrets() {
        return None;
    }
    riddle_llm::key_of(&place.origin()).unwrap_or_else(|error| {
        tracing::debug!("the object store is asked without a key: {error}");
        None
    })
}

fn of_secret_store(error: riddle_llm::Error) -> Error {
    Error::BadRequest(Trouble::with(error.to_string(), Advice::GiveOriginalsKey))
}

/// The files of one library in its store.
#[derive(Debug)]
pub(crate) struct Originals {
    objects: Objects,
    library: String,
}

impl Originals {
    pub(crate) fn place(&self) -> String {
        self.objects.place().to_string()
    }

    fn name(&self, rest: &str) -> String {
        format!("{}/{rest}", self.library)
    }

    /// Everything that the writer with that key has there, without the library's name.
    pub(crate) fn of_writer(&self, writer: &str) -> Result<HashSet<String>> {
        let mut names = HashSet::new();
        self.list(writer, &mut |it| {
            names.insert(it.name);
        })?;
        Ok(names)
    }

    fn list(&self, prefix: &str, visit: &mut dyn FnMut(Object)) -> Result<()> {
        let start = self.name("");
        self.objects.list(&self.name(prefix), &mut |mut it| {
            if let Some(rest) = it.name.strip_prefix(&start) {
                it.name = rest.to_owned();
                visit(it);
            }
        })?;
        Ok(())
    }

    /// Keeps a file; `false`: it can not be read, or is larger than a store takes.
    pub(crate) fn put(&self, name: &str, place: &FilePlace) -> Result<bool> {
        // A link that leads out of the folder now leads to somebody else's file.
        let Ok(path) = inside(&place.root, &place.path) else { return Ok(false) };
        let Ok(mut file) = File::open(&path) else { return Ok(false) };
        match self.objects.put(&self.name(name), &mut file, place.size) {
            Ok(()) => Ok(true),
            // It can be found all the same.
            Err(riddle_objects::Error::TooLarge { .. } | riddle_objects::Error::Io(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn delete(&self, name: &str) -> Result<()> {
        Ok(self.objects.delete(&self.name(name))?)
    }

    /// Removes all that a writer has there.
    fn evict(&self, writer: &str) -> Result<()> {
        self.of_writer(writer)?.iter().try_for_each(|it| self.delete(it))
    }

    /// The newest state of a file that is there.
    fn newest(&self, key: &str) -> Result<Option<Object>> {
        let mut newest: Option<Object> = None;
        self.list(&format!("{key}/"), &mut |it| {
            let later = |than: &Object| (&it.written, &it.name) > (&than.written, &than.name);
            if newest.as_ref().is_none_or(later) {
                newest = Some(it);
            }
        })?;
        Ok(newest)
    }
}

/// The name of a file in this state: another state has another one, so that nothing is sent twice.
pub(crate) fn name_of(key: &str, place: &FilePlace) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&place.size.to_le_bytes()).update(&place.modified_ns.to_le_bytes());
    hasher.update(&place.inode.unwrap_or_default().to_le_bytes());
    format!("{key}/{}", &hasher.finalize().to_hex()[..16])
}

/// The last part of a path from elsewhere, if it is one name here.
fn file_name(path: &str) -> Option<&str> {
    let name = path.rsplit(['/', '\\']).next()?;
    let mut parts = Path::new(name).components();
    let one = matches!((parts.next(), parts.next()), (Some(std::path::Component::Normal(it)), None) if it == name);
    let safe = !name
        .chars()
        .any(|it| it.is_control() || matches!(it, ':' | '*' | '?' | '"' | '<' | '>' | '|'));
    (one && safe && name.len() <= 255).then_some(name)
}

/// Whether opening a file of that name shows it and runs nothing.
fn shows(name: &str) -> bool {
    let kind = riddle_ingest::kind_of(Path::new(name), &[]);
    !matches!(kind, FileKind::Code | FileKind::Other | FileKind::Archive)
}

impl Records {
    /// Says which object store keeps the files of a library (`https://HOST:PORT/BUCKET/PREFIX`); `None`: none does.
    /// Nobody is asked.
    ///
    /// # Errors
    /// [`Error::NoLibrary`]; what is no address of one; when the catalog can not be written.
    pub fn set_originals(&self, name: &str, place: Option<&str>) -> Result<LibraryStatus> {
        let place = place.map(Place::parse).transpose()?;
        let mut all = kept(&self.catalog)?;
        let library = all.iter_mut().find(|it| it.name == name);
        let library = library.ok_or_else(|| Error::NoLibrary { name: name.to_owned() })?;
        library.originals = place.map(|it| it.to_string());
        keep(&self.catalog, &all)?;
        named(&self.catalog, name)
    }

    /// Scheme, host and port of the store of a library's files: whom its key is kept for.
    ///
    /// # Errors
    /// [`Error::NoLibrary`]; one without a store.
    pub fn originals_origin(&self, name: &str) -> Result<String> {
        Ok(self.originals_place(name)?.origin())
    }

    fn originals_place(&self, name: &str) -> Result<Place> {
        let library = named(&self.catalog, name)?;
        let text = library.originals.ok_or_else(|| no_store(name))?;
        Ok(Place::parse(&text)?)
    }

    /// Keeps the key (`ACCESS:SECRET`) of the store of a library's files in the system's secret store.
    ///
    /// # Errors
    /// As [`originals_origin`](Self::originals_origin); what is no key; a store that is not asked with one; where there
    /// is no secret store.
    pub fn keep_originals_key(&self, name: &str, key: &str) -> Result<()> {
        let place = self.originals_place(name)?;
        Key::parse(key)?;
        if !place.may_carry_secrets() {
            return Err(riddle_objects::Error::OpenSecret { server: place.origin() }.into());
        }
        riddle_llm::keep_key_of(&place.origin(), key).map_err(of_secret_store)
    }

    /// Forgets it; `false`: none was kept.
    ///
    /// # Errors
    /// As [`keep_originals_key`](Self::keep_originals_key).
    pub fn forget_originals_key(&self, name: &str) -> Result<bool> {
        riddle_llm::forget_key_of(&self.originals_origin(name)?).map_err(of_secret_store)
    }

    /// What is known of the key, which itself is never told.
    ///
    /// # Errors
    /// As [`originals_origin`](Self::originals_origin).
    pub fn originals_key_state(&self, name: &str) -> Result<KeyState> {
        Ok(match riddle_llm::has_key_of(&self.originals_origin(name)?) {
            Ok(true) => KeyState::Kept,
            Ok(false) => KeyState::None,
            Err(error) => {
                KeyState::Unknown(Trouble::with(error.to_string(), Advice::GiveOriginalsKey))
            }
        })
    }

    /// Fetches a file of a library, by its path there, into this home. Of several computers that have that path the
    /// file is one that was kept, whichever comes first.
    ///
    /// # Errors
    /// [`Error::NoLibrary`]; a library without a store; a file that is not kept there; what library and store report.
    pub fn fetch_original(&self, name: &str, path: &str) -> Result<Fetched> {
        let library = named(&self.catalog, name)?;
        let originals = open(&self.config, &library)?.ok_or_else(|| no_store(name))?;
        let about = connect(&self.config, &library)?.about()?;
        let about = about
            .ok_or_else(|| riddle_milvus::Error::Absent { address: library.address.clone() })?;
        for writer in &about.writers {
            let key = Store::key_of(&writer.key(), path);
            if let Some(object) = originals.newest(&key)? {
                return self.fetch(&originals, &object, path);
            }
        }
        let what = format!("{} has no file {path}", originals.place());
        Err(Error::BadRequest(what.into()))
    }

    fn fetch(&self, originals: &Originals, object: &Object, path: &str) -> Result<Fetched> {
        let name = file_name(path).ok_or_else(|| {
            Error::BadRequest(
                format!("{path:?} does not end in a name that a file can have here").into(),
            )
        })?;
        let io = |path: &Path| {
            let path = path.to_path_buf();
            move |source| Error::Io { path, source }
        };
        let all = self.config.home.join("originals");
        // Made of its name, so that nothing of it is part of a path.
        let folder = all.join(&blake3::hash(object.name.as_bytes()).to_hex()[..32]);
        let file = folder.join(name);
        if !file.is_file() {
            fs::create_dir_all(&folder).map_err(io(&folder))?;
            let part = folder.join(".part");
            let mut to = File::create(&part).map_err(io(&part))?;
            let limit = object.bytes.unwrap_or(riddle_objects::LARGEST);
            let fetched = originals.objects.get(&originals.name(&object.name), &mut to, limit);
            if let Err(error) = fetched {
                let _ = fs::remove_dir_all(&folder);
                return Err(error.into());
            }
            // It is there completely or not at all.
            fs::rename(&part, &file).map_err(io(&file))?;
        }
        // When it was last wanted decides what goes first.
        if let Ok(it) = File::options().append(true).open(&file) {
            let _ = it.set_modified(SystemTime::now());
        }
        forget_old(&all, &folder, KEPT_BYTES);
        Ok(Fetched { shows: shows(name), path: file })
    }
}

fn no_store(name: &str) -> Error {
    let what = format!("{name} has no object store that keeps its files and is known here");
    Error::BadRequest(Trouble::with(what, Advice::NameOriginals))
}

/// Removes the files that were not wanted for the longest time, until all have at most `limit` bytes; never `except`.
fn forget_old(all: &Path, except: &Path, limit: u64) {
    let folders = fs::read_dir(all).into_iter().flatten().flatten().map(|it| it.path());
    let mut known: Vec<(SystemTime, u64, PathBuf)> = folders
        .filter_map(|folder| {
            let files = fs::read_dir(&folder).ok()?.flatten().filter_map(|it| it.metadata().ok());
            let (mut newest, mut bytes) = (SystemTime::UNIX_EPOCH, 0);
            for it in files {
                newest = newest.max(it.modified().unwrap_or(newest));
                bytes += it.len();
            }
            Some((newest, bytes, folder))
        })
        .collect();
    known.sort();
    let mut sum: u64 = known.iter().map(|it| it.1).sum();
    for (_, bytes, folder) in known {
        if sum <= limit {
            return;
        }
        if folder != except && fs::remove_dir_all(&folder).is_ok() {
            sum -= bytes;
        }
    }
}

/// Removes the files that a writer of a library has kept, where this home knows the store.
pub(crate) fn evict(config: &Config, library: &LibraryStatus, writer: &str) -> Result<()> {
    open(config, library)?.map_or(Ok(()), |it| it.evict(writer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_from_elsewhere_is_one_name_and_runs_nothing() {
        for (path, name) in
            [("/srv/a b.pdf", "a b.pdf"), (r"C:\Team\Plan.docx", "Plan.docx"), ("ü.md", "ü.md")]
        {
            assert_eq!(file_name(path), Some(name));
            assert!(shows(name), "{name}");
        }
        for bad in [
            "",
            "/",
            "/srv/",
            "/srv/..",
            "/srv/.",
            "a\nb",
            "x:stream",
            "/srv/a\0b",
            &"x".repeat(300),
        ] {
            assert_eq!(file_name(bad), None, "{bad:?}");
        }
        for name in
            ["run.sh", "setup.exe", "a.bat", "a.js", "a.desktop", "a.zip", "a.lnk", "noname"]
        {
            assert!(!shows(name), "{name}");
        }
    }

    #[test]
    fn what_was_not_wanted_for_long_goes_first() {
        let all = tempfile::tempdir().expect("a folder");
        let make = |name: &str, age: u64| {
            let folder = all.path().join(name);
            fs::create_dir(&folder).expect("made");
            let file = File::create(folder.join("x")).expect("made");
            file.set_len(10).expect("long");
            let then = SystemTime::now() - std::time::Duration::from_secs(age);
            file.set_modified(then).expect("old");
            folder
        };
        let (old, new, newest) = (make("a", 99), make("b", 50), make("c", 1));
        forget_old(all.path(), &newest, 20);
        assert!(!old.exists() && new.exists() && newest.exists());
        forget_old(all.path(), &newest, 5);
        assert!(!new.exists() && newest.exists());
    }

    #[test]
    fn another_state_has_another_name() {
        let place = FilePlace {
            id: riddle_catalog::FileId(1),
            root: "/srv".into(),
            path: "/srv/a".into(),
            is_virtual: false,
            kind: FileKind::Text,
            state: riddle_types::FileState::Indexed,
            size: 3,
            modified_ns: 5,
            inode: Some(7),
            chunks: 1,
        };
        let name = name_of("k", &place);
        assert!(name.starts_with("k/") && name == name_of("k", &place.clone()));
        for other in [FilePlace { size: 4, ..place.clone() }, FilePlace { modified_ns: 6, ..place }]
        {
            assert_ne!(name_of("k", &other), name);
        }
    }
}
