//! Whether a home is sound: every index against the catalog, and the catalog against the disk. And a home on another
//! machine: a copy of its catalog, from which all else comes back.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use riddle_catalog::{Catalog, Embeds, HomeLock};
use riddle_retrieval::{KeywordReader, SparseReader, VectorReader};
use riddle_seal::{KEY_FILE, KeyFile, Place};
use riddle_types::FileState;
use riddle_watch::scan;

use super::{
    config::Config,
    embedding_server, encryption,
    indexes::{CatalogVectors, keyword_seq, sparse_seq, vector_seq},
    scanning::scan_options,
};
use crate::contract::{CheckReport, Error, Problem, Result};

/// Looks at everything and changes nothing. The catalog and all files of the indexes are read; of the folders' files
/// names, sizes and times alone.
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
    disk(config, &catalog, &mut report)?;
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

/// How an index stands to the catalog.
#[derive(Debug, PartialEq, Eq)]
enum Stand {
    Same,
    Behind,
    Damaged { why: String },
    Differs { held: u64, wanted: u64 },
}

/// That of an index that was read as a whole, stands at `seq` (`None`: it can not be used) and should at `last`.
fn stand(
    verified: riddle_retrieval::Result<()>,
    (seq, last): (Option<u64>, u64),
    held: impl FnOnce() -> riddle_retrieval::Result<u64>,
    wanted: u64,
) -> Stand {
    // First: what is damaged may still seem to be anywhere.
    if let Err(riddle_retrieval::Error::Damaged { why, .. }) = verified {
        return Stand::Damaged { why };
    }
    if seq != Some(last) {
        return Stand::Behind;
    }
    match held().unwrap_or(0) {
        held if held == wanted => Stand::Same,
        held => Stand::Differs { held, wanted },
    }
}

fn indexes(config: &Config, catalog: &Catalog, report: &mut CheckReport) -> Result<()> {
    if report.passages == 0 {
        return Ok(());
    }
    let last = catalog.last_seq()?;
    report.problems.extend(keyword_index(config, last, report.passages));
    vector_index(config, catalog, last, report)?;
    report.problems.extend(term_index(config, catalog, last)?);
    Ok(())
}

fn keyword_index(config: &Config, last: u64, wanted: u64) -> Option<Problem> {
    let dir = config.keyword_index();
    let verified = KeywordReader::verify(&dir);
    let held = || KeywordReader::open(&dir).map(|it| it.len());
    match stand(verified, (keyword_seq(config), last), held, wanted) {
        Stand::Same => None,
        Stand::Behind => Some(Problem::KeywordIndexBehind),
        Stand::Damaged { why } => Some(Problem::KeywordIndexDamaged { why }),
        Stand::Differs { held, wanted } => Some(Problem::KeywordIndexDiffers { held, wanted }),
    }
}

fn vector_index(
    config: &Config,
    catalog: &Catalog,
    last: u64,
    report: &mut CheckReport,
) -> Result<()> {
    let Some(active) = catalog.active_embedder()? else { return Ok(()) };
    let dir = config.vector_index(&active.id);
    let verified = VectorReader::verify(&dir);
    let held =
        || VectorReader::open(&dir, &active.id, CatalogVectors::none()).map(|it| it.len() as u64);
    let wanted = report.passages - catalog.count_by_words_alone()?.min(report.passages);
    let wanted = wanted.saturating_sub(catalog.count_without_vector(&active.id, Embeds::Here)?);
    let problem = match stand(verified, (vector_seq(config, &active.id), last), held, wanted) {
        Stand::Same => None,
        Stand::Behind => Some(Problem::VectorIndexBehind),
        Stand::Damaged { why } => Some(Problem::VectorIndexDamaged { why }),
        Stand::Differs { held, wanted } => Some(Problem::VectorIndexDiffers { held, wanted }),
    };
    let is_behind = problem == Some(Problem::VectorIndexBehind);
    report.problems.extend(problem);
    // What is behind may be so because they are missing.
    let embeds = embedding_server::embeds(catalog)?;
    if !is_behind && catalog.count_without_vector(&active.id, embeds)? > 0 {
        report.problems.push(Problem::VectorsMissing);
    }
    Ok(())
}

fn term_index(config: &Config, catalog: &Catalog, last: u64) -> Result<Option<Problem>> {
    let Some(encoder) = catalog.term_encoder()? else { return Ok(None) };
    let dir = config.sparse_index(&encoder);
    let verified = SparseReader::verify(&dir, &encoder);
    let held = || SparseReader::open(&dir, &encoder).map(|it| it.len());
    let seq = sparse_seq(config, &encoder);
    Ok(match stand(verified, (seq, last), held, catalog.count_with_terms()?) {
        Stand::Same => None,
        Stand::Behind => Some(Problem::TermIndexBehind),
        Stand::Damaged { why } => Some(Problem::TermIndexDamaged { why }),
        Stand::Differs { held, wanted } => Some(Problem::TermIndexDiffers { held, wanted }),
    })
}

/// Files that the next run would read or forget: the folders are scanned as that run does, and no file is opened. Those
/// of a folder that can not be reached are not looked at: a disk that is not here has lost nothing.
fn disk(config: &Config, catalog: &Catalog, report: &mut CheckReport) -> Result<()> {
    report.files = catalog
        .counts_by_state()?
        .into_iter()
        .filter(|it| it.0 == FileState::Indexed)
        .map(|it| it.1)
        .sum();
    let (mut gone, mut changed, mut unread) = (0, 0, 0);
    for root in catalog.roots()?.iter().filter(|it| !it.is_virtual) {
        let mut entries = Vec::new();
        let scanned = scan(&root.path, &scan_options(config, catalog, root)?, &mut |entry| {
            entries.push(entry);
            ControlFlow::Continue(())
        });
        let Ok(scanned) = scanned else { continue };
        let unreadable: Vec<PathBuf> = scanned.unreadable.into_iter().map(|it| it.0).collect();
        let found = catalog.compare_scan(root.id, &entries, scanned.complete, &unreadable)?;
        gone += found.gone;
        changed += found.changed;
        unread += found.unread;
    }
    let found = [
        (gone, Problem::FilesGone { files: gone }),
        (changed, Problem::FilesChanged { files: changed }),
        (unread, Problem::FilesUnread { files: unread }),
    ];
    report.problems.extend(found.into_iter().filter(|it| it.0 > 0).map(|it| it.1));
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
