//! The folder with the installed models.

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    time::Duration,
};

use riddle_types::Advice;

use crate::{
    BUNDLED, Bundled, Error, FileRecord, InstalledModel, Kind, Result,
    bundled::{SOURCE, bundled, is_bundled},
    catalog, digest, files,
    manifest::Manifest,
    name::{self, MANIFEST},
};

/// Folder inside the store for what is not finished. No model's name can start with a dot.
const PARTIAL: &str = ".partial";

/// Ending of a model that is being replaced, beside what is not finished.
const OLD: &str = ".old";

/// Ending of a model that is being removed, in the same place.
const REMOVED: &str = ".removed";

/// How often and how long another process is waited for: putting 20 MB in place takes a second on a slow disk.
const ATTEMPTS: u32 = 60;
const PAUSE: Duration = Duration::from_millis(50);

/// What is wrong with a file of an installed model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It is gone.
    Missing,
    /// It has another size.
    Size {
        /// Recorded size in bytes.
        expected: u64,
        /// Size in bytes.
        found: u64,
    },
    /// It has the recorded size and other bytes.
    Checksum {
        /// Recorded SHA-256.
        expected: String,
        /// SHA-256.
        found: String,
    },
    /// It is a link or a folder.
    NotAFile,
    /// It is not what its name says.
    Content(String),
    /// It can not be read.
    Unreadable(String),
    /// It is not in the record: someone put it there.
    Unexpected,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Missing => f.write_str("is missing"),
            Fault::Size { expected, found } => {
                write!(f, "has {found} bytes instead of {expected}")
            }
            Fault::Checksum { expected, found } => {
                write!(f, "has the checksum {found} instead of {expected}")
            }
            Fault::NotAFile => f.write_str("is not a plain file"),
            Fault::Content(why) => f.write_str(why),
            Fault::Unreadable(why) => write!(f, "can not be read: {why}"),
            Fault::Unexpected => f.write_str("was not installed with the model"),
        }
    }
}

/// A file with something wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadFile {
    /// Path in the model's folder.
    pub path: String,
    /// What is wrong.
    pub fault: Fault,
}

/// What checking a model found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// The model.
    pub model: InstalledModel,
    /// Files that were read.
    pub files: usize,
    /// Every file with something wrong; none: the model is as it was installed.
    pub bad: Vec<BadFile>,
    /// What to do, when something is wrong.
    pub advice: Option<Advice>,
}

/// The folder with the installed models.
///
/// Layout: `STORE/NAME/…` with the record `riddle-model.json` in each (`ORG/NAME` is the folder
/// `ORG--NAME`), and `STORE/.partial` for downloads. A model's folder appears complete or not at all.
#[derive(Debug, Clone)]
pub struct ModelStore {
    dir: PathBuf,
}

/// Held while the store is changed; the system gives it back when the process ends in any way.
pub(crate) struct Lock {
    _file: File,
}

impl ModelStore {
    /// Opens the store in `dir`; it need not exist yet.
    ///
    /// # Errors
    /// When there is something else of that name.
    pub fn open(dir: &Path) -> Result<ModelStore> {
        // Made absolute, because paths of models are handed to threads and child processes.
        let dir = std::path::absolute(dir).map_err(Error::io(dir))?;
        if dir.exists() && !dir.is_dir() {
            let source = std::io::Error::from(std::io::ErrorKind::NotADirectory);
            return Err(Error::Io { path: dir, source });
        }
        let store = ModelStore { dir };
        // What a crash left half-way is put right by the next process that may. Only then: who just looks
        // must not stand in the way of who pulls.
        if store.leftovers().next().is_some()
            && let Err(error) = store.lock()
        {
            tracing::debug!(%error, "the model store is not put in order");
        }
        Ok(store)
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn partial(&self) -> PathBuf {
        self.dir.join(PARTIAL)
    }

    /// Takes the store for changing and finishes what a crash left half-way.
    pub(crate) fn lock(&self) -> Result<Lock> {
        let partial = self.partial();
        files::create_dir(&partial)?;
        let path = partial.join("lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(Error::io(&path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Busy { store: self.dir.clone() }),
            Err(TryLockError::Error(source)) => return Err(Error::Io { path, source }),
        }
        self.recover()?;
        Ok(Lock { _file: file })
    }

    /// Models that were being replaced or removed: paths, and folders' names with their ending.
    fn leftovers(&self) -> impl Iterator<Item = (PathBuf, String)> {
        fs::read_dir(self.partial()).into_iter().flatten().flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            (name.ends_with(OLD) || name.ends_with(REMOVED)).then(|| (entry.path(), name))
        })
    }

    /// A crash between the two renames of [`ModelStore::install`] leaves the old model aside: it goes back.
    fn recover(&self) -> Result<()> {
        for (path, name) in self.leftovers() {
            match name.strip_suffix(OLD).map(|it| self.dir.join(it)) {
                Some(place) if !place.exists() => {
                    fs::rename(&path, &place).map_err(Error::io(&place))?;
                }
                _ => files::remove_all(&path)?,
            }
        }
        Ok(())
    }

    /// [`list`](Self::list) and the bundled models whose files are not in the store yet.
    ///
    /// # Errors
    /// As there.
    pub fn list_all(&self) -> Result<Vec<InstalledModel>> {
        let mut models = self.list()?;
        let absent = BUNDLED.iter().filter(|it| !models.iter().any(|other| other.name == it.name));
        let absent: Vec<InstalledModel> =
            absent.map(|it| it.described(self.dir.join(it.name))).collect();
        models.extend(absent);
        models.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(models)
    }

    /// All models, by name. Folders that were put there by hand are listed as well.
    ///
    /// # Errors
    /// When the store's folder can not be read.
    pub fn list(&self) -> Result<Vec<InstalledModel>> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(Error::Io { path: self.dir.clone(), source }),
        };
        let mut models = Vec::new();
        for entry in entries {
            let entry = entry.map_err(Error::io(&self.dir))?;
            let is_model = entry.file_name().to_str().is_some_and(|it| !it.starts_with('.'))
                && entry.path().is_dir();
            if is_model {
                match describe(&entry.path()) {
                    Ok(model) => models.push(model),
                    Err(error) => tracing::warn!(%error, "a folder in the model store is no model"),
                }
            }
        }
        models.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(models)
    }

    /// The model of that name in the store, else the one in the folder of that path. A bundled model is put into
    /// the store first.
    pub fn find(&self, name: &str) -> Option<InstalledModel> {
        if let Some(model) = bundled(name) {
            match self.put_bundled(model) {
                Ok(model) => return Some(model),
                Err(error) => {
                    tracing::warn!(%error, name, "a bundled model can not be put in its place")
                }
            }
        }
        self.in_store(name).or_else(|| {
            let path = std::path::absolute(Path::new(name)).ok().filter(|it| it.is_dir())?;
            describe(&path)
                .map(|model| InstalledModel { name: name.to_owned(), ..model })
                .inspect_err(|error| tracing::debug!(%error, name, "not a model"))
                .ok()
        })
    }

    /// Whether a model of that name is in the store.
    pub fn has(&self, name: &str) -> bool {
        self.in_store(name).is_some()
    }

    /// The model of that name in the store.
    pub(crate) fn in_store(&self, name: &str) -> Option<InstalledModel> {
        let dir = self.dir.join(self.folder(name).ok()?);
        if !dir.is_dir() {
            return None;
        }
        describe(&dir)
            .inspect_err(|error| tracing::warn!(%error, name, "the installed model is damaged"))
            .ok()
    }

    /// Folder for a name, where a known model's repository means its short name.
    pub(crate) fn folder(&self, name: &str) -> Result<String> {
        name::folder_of(catalog::known(name).map_or(name, |it| it.name))
    }

    fn installed(&self, name: &str) -> Result<InstalledModel> {
        self.folder(name)?;
        self.in_store(name)
            .ok_or_else(|| Error::NotInstalled { name: name.to_owned(), store: self.dir.clone() })
    }

    /// Reads every file of a model and compares it with the record made when it was installed.
    ///
    /// # Errors
    /// When there is no such model, or no record of it. Damaged files are no error but the result.
    pub fn verify(&self, name: &str) -> Result<Verification> {
        let model = self.installed(name)?;
        let record = Manifest::read(&model.dir)?.ok_or_else(|| Error::Manifest {
            path: model.dir.clone(),
            why: format!("there is no {MANIFEST}, so nothing is known about its checksums"),
        })?;
        let mut bad = Vec::new();
        for file in &record.files {
            bad.extend(
                check_file(&model.dir, file)
                    .map(|fault| BadFile { path: file.path.clone(), fault }),
            );
        }
        for path in files::walk(&model.dir)? {
            // A store that was made here from what is recorded has checksums of its own.
            if path != MANIFEST
                && path != files::STORE_FILE
                && !record.files.iter().any(|it| it.path == path)
            {
                bad.push(BadFile { path, fault: Fault::Unexpected });
            }
        }
        let advice = (!bad.is_empty()).then(|| match &record.repository {
            _ if is_bundled(&model) => Advice::RestoreModel { name: record.name.clone() },
            Some(_) => Advice::PullModelAgain { name: record.name.clone() },
            None if catalog::known(&record.name).is_some_and(|it| it.kind == Kind::Reader) => {
                Advice::PullModelAgain { name: record.name.clone() }
            }
            None => Advice::ImportModelAgain { name: record.name.clone() },
        });
        Ok(Verification { model, files: record.files.len(), bad, advice })
    }

    /// Removes a model. The files of a bundled one are put there again when it is used again.
    ///
    /// # Errors
    /// When there is no such model, it is in the program alone, another process changes the store, or a file can not
    /// be removed.
    pub fn remove(&self, name: &str) -> Result<()> {
        let _lock = self.lock()?;
        let folder = self.folder(name)?;
        let dir = self.dir.join(&folder);
        if !dir.is_dir() {
            if bundled(name).is_some() {
                return Err(Error::Bundled { name: name.to_owned() });
            }
            return Err(Error::NotInstalled { name: name.to_owned(), store: self.dir.clone() });
        }
        // Out of sight in one step, so that nobody opens half a model.
        let aside = self.partial().join(format!("{folder}{REMOVED}"));
        files::remove_all(&aside)?;
        fs::rename(&dir, &aside).map_err(Error::io(&dir))?;
        files::sync_dir(&self.dir)?;
        files::remove_all(&aside)?;
        files::remove_all(&self.partial().join(folder))
    }

    /// Puts a bundled model into the store, unless exactly it is there already. A model of the same name that
    /// came from elsewhere is the user's and stays.
    ///
    /// # Errors
    /// When the disk is full or may not be written, or another process changes the store.
    pub fn put_bundled(&self, model: &Bundled) -> Result<InstalledModel> {
        let present = self.in_store(model.name);
        if let Some(present) = present
            && (present.source != SOURCE || present.revision.as_deref() == Some(model.revision))
        {
            return Ok(present);
        }
        let lock = self.lock_soon()?;
        // Somebody else may have put it there while this process waited.
        if let Some(present) = self.in_store(model.name)
            && present.revision.as_deref() == Some(model.revision)
        {
            return Ok(present);
        }
        let staged = self.partial().join(self.folder(model.name)?).join("bundled");
        files::remove_all(&staged)?;
        files::create_dir(&staged)?;
        files::check_space(&staged, model.bytes())?;
        let mut manifest = Manifest::new(model.name, model.kind, model.format, SOURCE.to_owned());
        manifest.revision = Some(model.revision.to_owned());
        manifest.license = Some(model.license.to_owned());
        for (path, content) in model.files {
            files::write_synced(&staged.join(path), content)?;
            manifest.files.push(FileRecord {
                path: (*path).to_owned(),
                size: content.len() as u64,
                sha256: digest::of_bytes(content),
            });
        }
        self.install(&lock, &staged, &manifest)
    }

    /// The lock, after a while if another process puts the same model there.
    fn lock_soon(&self) -> Result<Lock> {
        for _ in 0..ATTEMPTS {
            match self.lock() {
                Err(Error::Busy { .. }) => std::thread::sleep(PAUSE),
                other => return other,
            }
        }
        self.lock()
    }

    /// Moves a complete folder to its place, replacing what is there.
    pub(crate) fn install(
        &self,
        _lock: &Lock,
        staged: &Path,
        manifest: &Manifest,
    ) -> Result<InstalledModel> {
        let folder = self.folder(&manifest.name)?;
        manifest.write(staged)?;
        for parent in manifest.files.iter().filter_map(|it| Path::new(&it.path).parent()) {
            files::sync_dir(&staged.join(parent))?;
        }
        files::sync_dir(staged)?;
        let place = self.dir.join(&folder);
        let old = self.partial().join(format!("{folder}{OLD}"));
        if place.exists() {
            fs::rename(&place, &old).map_err(Error::io(&place))?;
        }
        fs::rename(staged, &place).map_err(Error::io(&place))?;
        files::sync_dir(&self.dir)?;
        files::remove_all(&old)?;
        files::remove_all(&self.partial().join(folder))?;
        describe(&place)
    }
}

/// What is wrong with an installed file, if anything.
fn check_file(dir: &Path, file: &FileRecord) -> Option<Fault> {
    let path = dir.join(&file.path);
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some(Fault::Missing),
        Err(error) => return Some(Fault::Unreadable(error.to_string())),
        Ok(meta) if !meta.is_file() => return Some(Fault::NotAFile),
        Ok(meta) if meta.len() != file.size => {
            return Some(Fault::Size { expected: file.size, found: meta.len() });
        }
        Ok(_) => {}
    }
    match digest::of_file(&path) {
        Ok(digests) if digests.sha256 == file.sha256 => None,
        Ok(digests) => {
            Some(Fault::Checksum { expected: file.sha256.clone(), found: digests.sha256 })
        }
        Err(error) => Some(Fault::Unreadable(error.to_string())),
    }
}

/// Describes a model's folder by its record, or by its files where it has none.
fn describe(dir: &Path) -> Result<InstalledModel> {
    let folder = dir.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    match Manifest::read(dir) {
        Ok(Some(record)) => {
            return Ok(InstalledModel {
                kind: record.kind,
                format: record.format,
                bytes: record.bytes(),
                license: record.license,
                source: record.source,
                revision: record.revision,
                pulled_at: Some(record.pulled_at),
                // A folder that was copied within the store is another model, whatever its record says.
                name: match name::folder_of(&record.name) {
                    Ok(recorded) if recorded == folder => record.name,
                    _ => shown_name(&folder),
                },
                dir: dir.to_path_buf(),
            });
        }
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "the record of a model is ignored"),
    }
    let paths: Vec<String> =
        files::walk(dir)?.into_iter().filter(|it| files::Class::of(it).is_taken()).collect();
    let (kind, format) = files::describe(dir, &folder, &paths)?;
    let bytes = paths.iter().filter_map(|it| fs::metadata(dir.join(it)).ok()).map(|it| it.len());
    Ok(InstalledModel {
        kind,
        format,
        bytes: bytes.sum(),
        license: None,
        source: "put there by hand".to_owned(),
        revision: None,
        pulled_at: None,
        name: shown_name(&folder),
        dir: dir.to_path_buf(),
    })
}

/// A folder's name as a model's name.
fn shown_name(folder: &str) -> String {
    folder.replacen("--", "/", 1)
}
