//! Whether a home is sound: every index against the catalog, and the catalog against the disk. And a home on another
//! machine: a copy of its catalog, from which all else comes back.

use std::path::{Path, PathBuf};

use riddle_catalog::{Catalog, Embeds, HomeLock};
use riddle_retrieval::{KeywordReader, VectorReader};
use riddle_seal::{KEY_FILE, KeyFile, Place};
use riddle_types::FileState;

use super::{
    config::Config,
    embedding_server, encryption,
    indexes::{CatalogVectors, keyword_seq, vector_seq},
};
use crate::contract::{CheckReport, Error, Problem, Result};

/// Files looked up at a time.
const PAGE: usize = 1000;

/// Looks at everything and changes nothing.
///
/// # Errors
/// Without a catalog, or when it can not be read.
pub fn check(config: &Config) -> Result<CheckReport> {
    let catalog = existing(config)?;
    let mut report = CheckReport {
        passages: catalog.chunk_count()?,
        problems: catalog
            .check()?
            .into_iter()
            .map(|trouble| Problem::Catalog { trouble })
            .collect(),
        ..CheckReport::default()
    };
    indexes(config, &catalog, &mut report)?;
    disk(&catalog, &mut report)?;
    Ok(report)
}

/// The catalog, if anything was ever indexed here.
fn existing(config: &Config) -> Result<Catalog> {
    match Catalog::open_read_only(config.catalog()) {
        Err(riddle_catalog::Error::Missing { .. }) => {
            Err(Error::NothingIndexed { home: config.home.clone() })
        }
        opened => Ok(opened?),
    }
}

fn indexes(config: &Config, catalog: &Catalog, report: &mut CheckReport) -> Result<()> {
    if report.passages == 0 {
        return Ok(());
    }
    let last = catalog.last_seq()?;
    if keyword_seq(config) == Some(last) {
        let held = KeywordReader::open(config.keyword_index()).map_or(0, |it| it.len());
        if held != report.passages {
            report.problems.push(Problem::KeywordIndexDiffers { held, wanted: report.passages });
        }
    } else {
        report.problems.push(Problem::KeywordIndexBehind);
    }
    let Some(active) = catalog.active_embedder()? else { return Ok(()) };
    if vector_seq(config, &active.id) == Some(last) {
        let dir = config.vector_index(&active.id);
        // A damaged one holds nothing that could be trusted, and is made anew like one that differs.
        let held = VectorReader::verify(&dir)
            .and_then(|()| VectorReader::open(&dir, &active.id, CatalogVectors::none()))
            .map_or(0, |it| it.len() as u64);
        let embeds = embedding_server::embeds(catalog)?;
        let missing = catalog.count_without_vector(&active.id, embeds)?;
        let wanted = report.passages - catalog.count_by_words_alone()?.min(report.passages);
        let without = catalog.count_without_vector(&active.id, Embeds::Here)?;
        let wanted = wanted.saturating_sub(without);
        if held != wanted {
            report.problems.push(Problem::VectorIndexDiffers { held, wanted });
        }
        if missing > 0 {
            report.problems.push(Problem::VectorsMissing);
        }
    } else {
        report.problems.push(Problem::VectorIndexBehind);
    }
    Ok(())
}

/// Files that are indexed and are gone, or are no longer what was read. Those of a folder that can not be reached are
/// not looked at: a disk that is not here has lost nothing.
fn disk(catalog: &Catalog, report: &mut CheckReport) -> Result<()> {
    let there: Vec<PathBuf> = catalog
        .roots()?
        .into_iter()
        .filter(|it| !it.is_virtual && it.path.is_dir())
        .map(|it| it.path)
        .collect();
    let (mut gone, mut changed) = (0, 0);
    loop {
        let offset = usize::try_from(report.files).unwrap_or(usize::MAX);
        let files = catalog.files(Some(FileState::Indexed), PAGE, offset)?;
        if files.is_empty() {
            break;
        }
        report.files += files.len() as u64;
        for file in files.iter().filter(|it| there.iter().any(|root| it.path.starts_with(root))) {
            match std::fs::symlink_metadata(&file.path) {
                Ok(found) => changed += u64::from(found.len() != file.bytes),
                Err(_) => gone += 1,
            }
        }
    }
    if gone > 0 {
        report.problems.push(Problem::FilesGone { files: gone });
    }
    if changed > 0 {
        report.problems.push(Problem::FilesChanged { files: changed });
    }
    Ok(())
}

/// What [`export_home`] wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// Size of the file.
    pub bytes: u64,
    /// Where the key of an encrypted home was put: the file can not be opened without it.
    pub key: Option<PathBuf>,
}

/// Writes all that a home knows to a new file, as it is at this moment; who indexes meanwhile goes on. Search indexes
/// come back from it, models do not belong to it.
///
/// # Errors
/// When the file is there already or can not be written; without a catalog.
pub fn export_home(config: &Config, to: &Path) -> Result<Exported> {
    for it in [to, &beside(to)] {
        if it.exists() {
            let why = format!("{} is there already: choose another name", it.display());
            return Err(Error::BadRequest(why.into()));
        }
    }
    let folder = to.parent().filter(|it| !it.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|it| !it.is_dir()) {
        let why = format!("{}: no such folder: make it first, or choose another", folder.display());
        return Err(Error::BadRequest(why.into()));
    }
    // Found missing before anything is made.
    drop(existing(config)?);
    // An encrypted home stays encrypted on its way, and its key goes with it.
    let key_file = encryption::key_to_export(config)?.map(|it| it.at(&beside(to)));
    Catalog::open(config.catalog())?.copy_to(to)?;
    if let Some(it) = &key_file {
        it.write()?;
    }
    let bytes = to.metadata().map_err(|source| Error::Io { path: to.to_path_buf(), source })?.len();
    Ok(Exported { bytes, key: key_file.map(|_| beside(to)) })
}

/// Where the key of an exported file lies.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".key");
    PathBuf::from(name)
}

/// Whether a file that [`export_home`] wrote is encrypted.
///
/// # Errors
/// When its key is there and can not be read.
pub fn is_export_encrypted(file: &Path) -> Result<bool> {
    Ok(KeyFile::read(&beside(file))?.is_some())
}

/// Makes a home of a file that [`export_home`] wrote; `moved` says where folders lie here that lay elsewhere there.
/// The home must be new; with an encrypted file, which its `passphrase` opens, it is encrypted as well. Returns the
/// folders.
///
/// # Errors
/// A home that holds something, a file that is damaged or of a newer version, a folder that the file does not know, a
/// passphrase that is not its own.
pub fn import_home(
    config: &Config,
    from: &Path,
    moved: &[(PathBuf, PathBuf)],
    passphrase: Option<&str>,
) -> Result<Vec<PathBuf>> {
    let _lock = HomeLock::acquire(&config.home)?;
    let target = config.home.join("catalog.sqlite");
    if target.exists() {
        let why = format!(
            "{} holds a library already, and nothing is written over it: give another home",
            config.home.display()
        );
        return Err(Error::BadRequest(why.into()));
    }
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |source| Error::Io { path, source }
    };
    let key_file = KeyFile::read(&beside(from))?;
    let key = match (&key_file, passphrase) {
        (None, _) => None,
        (Some(file), Some(passphrase)) => Some(file.unlock(passphrase)?),
        (Some(_), None) => {
            return Err(riddle_catalog::Error::Sealed { path: from.to_path_buf() }.into());
        }
    };
    // Only what is whole gets the name.
    let unchecked = target.with_extension("import");
    let copied = std::fs::copy(from, &unchecked).map_err(io(from)).and_then(|_| {
        let catalog = Catalog::open(Place::new(&unchecked, key.clone()))?;
        if let Some(trouble) = catalog.check()?.into_iter().next() {
            return Err(Error::BadRequest(trouble));
        }
        for (there, here) in moved {
            catalog.move_root(there, here)?;
        }
        Ok(catalog.roots()?.into_iter().filter(|it| !it.is_virtual).map(|it| it.path).collect())
    });
    match copied {
        Ok(folders) => {
            if let Some(file) = &key_file {
                file.at(&config.home.join(KEY_FILE)).write()?;
            }
            config.key.set(key);
            std::fs::rename(&unchecked, &target).map_err(io(&target))?;
            Ok(folders)
        }
        Err(error) => {
            for end in ["import", "import-wal", "import-shm"] {
                // What was not there needs no removing.
                let _ = std::fs::remove_file(target.with_extension(end));
            }
            Err(error)
        }
    }
}
