//! The search indexes follow the catalog's log; one that can not is made anew.

use std::path::Path;

use riddle_catalog::{ActiveEmbedder, Catalog, Change, Derived};
use riddle_retrieval::{KeywordWriter, SparseWriter, VectorWriter};
use riddle_seal::Place;
use riddle_types::ChunkId;

use super::{bank, foreground::Background, share::indexed};
use crate::{
    contract::{Error, Problem, Result},
    home::{
        Config,
        indexes::{keyword_seq, sparse_seq, vector_seq},
        prefixes,
    },
    stage,
};

/// Changes applied per step: bounds the chunks in memory.
const STEP: usize = 512;

/// Brings the indexes up to date with the catalog. Nothing is opened for writing when nothing changed.
pub(crate) fn sync(config: &Config, catalog: &Catalog) -> Result<()> {
    follow_log(config, catalog, |last| sync_indexes(config, catalog, last))
}

/// The same, while `work` does in the catalog what its log says already: to delete half a million passages takes as
/// long there as in all indexes.
pub(crate) fn sync_beside(
    config: &Config,
    catalog: &Catalog,
    work: impl FnOnce() -> riddle_catalog::Result<()> + Send,
) -> Result<()> {
    follow_log(config, catalog, |last| {
        std::thread::scope(|scope| {
            let work = scope.spawn(work);
            // By a connection of its own: whoever shares one waits until a step of the work has ended.
            let indexed = Catalog::open_read_only(config.catalog())
                .map_err(Error::from)
                .and_then(|catalog| sync_indexes(config, &catalog, last));
            let worked = work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            indexed.and(worked.map_err(Error::from))
        })
    })
}

fn follow_log(
    config: &Config,
    catalog: &Catalog,
    indexes: impl FnOnce(u64) -> Result<()>,
) -> Result<()> {
    let _stage = stage::enter("sync");
    forget_other_catalog(config, catalog)?;
    let last = catalog.last_seq()?;
    // First: once the indexes have followed, nobody would look again.
    if keyword_seq(config) != Some(last) {
        prefixes::follow(config, catalog)?;
    }
    indexes(last)?;
    // Before the log is trimmed, and behind the vectors of what is new.
    bank::follow(catalog, last)?;
    catalog.trim_changes(last)?;
    Ok(())
}

fn sync_indexes(config: &Config, catalog: &Catalog, last: u64) -> Result<()> {
    let keyword = config.keyword_index();
    follow(keyword.path(), keyword_seq(config), last, || sync_keyword(config, catalog, last))?;
    if let Some(active) = catalog.active_embedder()? {
        let dir = config.vector_index(&active.id);
        // Many new vectors take minutes to be linked: questions go before.
        let background = Background::new(&config.home);
        let give_way = || background.give_way(|| false);
        let work = || sync_vector(&dir, catalog, &active, last, &give_way);
        follow(dir.path(), vector_seq(config, &active.id), last, work)?;
        remove_others(&config.home.join("vector"), dir.path());
    }
    if let Some(encoder) = catalog.term_encoder()? {
        let dir = config.sparse_index(&encoder);
        let work = || sync_sparse(&dir, catalog, &encoder, last);
        follow(dir.path(), sparse_seq(config, &encoder), last, work)?;
        remove_others(&config.home.join("terms"), dir.path());
    } else {
        remove_dir(&config.home.join("terms"))?;
    }
    Ok(())
}

/// Indexes that were made from another catalog (one that was deleted, or restored from elsewhere) count in
/// other numbers: they are made anew.
fn forget_other_catalog(config: &Config, catalog: &Catalog) -> Result<()> {
    let mark = config.home.join("indexed-catalog");
    let identity = catalog.identity()?;
    if std::fs::read_to_string(&mark).is_ok_and(|it| it == identity) {
        return Ok(());
    }
    delete(config)?;
    prefixes::forget(config)?;
    std::fs::write(&mark, identity).map_err(|source| Error::Io { path: mark, source })
}

/// Deletes the indexes; the next sync makes them anew.
pub(crate) fn delete(config: &Config) -> Result<()> {
    for dir in [config.keyword_index(), config.place("vector"), config.place("terms")] {
        remove_dir(dir.path())?;
    }
    Ok(())
}

/// Deletes those that these problems are of: damaged ones, and such as hold what they should not. What is behind only
/// follows.
pub(crate) fn delete_damaged(config: &Config, problems: &[Problem]) -> Result<()> {
    for problem in problems {
        let dir = match problem {
            Problem::KeywordIndexDamaged { .. } | Problem::KeywordIndexDiffers { .. } => {
                config.keyword_index()
            }
            Problem::VectorIndexDamaged { .. } | Problem::VectorIndexDiffers { .. } => {
                config.place("vector")
            }
            Problem::TermIndexDamaged { .. } | Problem::TermIndexDiffers { .. } => {
                config.place("terms")
            }
            _ => continue,
        };
        remove_dir(dir.path())?;
    }
    Ok(())
}

fn remove_dir(dir: &Path) -> Result<()> {
    riddle_retrieval::remove(dir).map_err(|source| Error::Io { path: dir.to_path_buf(), source })
}

/// Brings the index in `dir` from `seq`, `None` where it can not be read, to `last` by `work`: from nothing if it can
/// not be read, or says that it must be made anew.
fn follow(dir: &Path, seq: Option<u64>, last: u64, work: impl Fn() -> Result<()>) -> Result<()> {
    match seq {
        Some(at) if at == last => return Ok(()),
        Some(_) => {}
        // What somebody who was killed has left of it is in nobody's way.
        None => remove_dir(dir)?,
    }
    match work() {
        Err(Error::Retrieval(error)) if error.wants_rebuild() => {
            tracing::warn!("{error}: made anew");
            remove_dir(dir)?;
            work()
        }
        result => result,
    }
}

/// What an index is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IndexOf {
    Words,
    Vectors,
    Terms,
}

impl IndexOf {
    /// Whether a chunk is to be looked at because of this change.
    fn holds(self, change: &Change) -> bool {
        let concerns = match change.only {
            None => true,
            Some(Derived::Vector) => self == IndexOf::Vectors,
            Some(Derived::Terms) => self == IndexOf::Terms,
        };
        !change.removed && concerns
    }
}

/// The changes an index that stands at `seq` has to follow: the log's, or every chunk if the log no longer
/// reaches back that far.
fn steps(
    catalog: &Catalog,
    seq: u64,
    of: IndexOf,
    mut apply: impl FnMut(&[ChunkId], &[ChunkId]) -> Result<()>,
) -> Result<()> {
    if seq == 0 || !catalog.can_follow(seq)? {
        for ids in catalog.all_chunks()?.chunks(STEP) {
            apply(ids, &[])?;
        }
        return Ok(());
    }
    let mut from = seq;
    loop {
        let changes = catalog.changes_since(from, STEP)?;
        let Some(last) = changes.last() else { return Ok(()) };
        from = last.seq;
        let gone: Vec<ChunkId> =
            changes.iter().filter(|it| it.removed).map(|it| it.chunk).collect();
        let here: Vec<ChunkId> =
            changes.iter().filter(|it| of.holds(it)).map(|it| it.chunk).collect();
        // A chunk that came and went within one step is gone: the removal is applied last.
        apply(&here, &gone)?;
    }
}

fn sync_keyword(config: &Config, catalog: &Catalog, last: u64) -> Result<()> {
    let dir = config.keyword_index();
    let mut writer = KeywordWriter::open(&dir)?;
    let seq = writer.applied_seq()?;
    if seq != 0 && !catalog.can_follow(seq)? {
        return Err(missed(dir.path()));
    }
    steps(catalog, seq, IndexOf::Words, |here, gone| {
        for record in catalog.chunk_records(here)? {
            writer.upsert(&indexed(&record, &record.path.to_string_lossy()))?;
        }
        for chunk in gone {
            writer.remove(*chunk);
        }
        Ok(())
    })?;
    writer.commit(last)?;
    Ok(writer.close()?)
}

/// The log no longer reaches back to where an index stands.
fn missed(dir: &Path) -> Error {
    let (dir, why) = (dir.to_path_buf(), "it missed changes".to_owned());
    riddle_retrieval::Error::Rebuild { dir, why }.into()
}

fn sync_vector(
    dir: &Place,
    catalog: &Catalog,
    active: &ActiveEmbedder,
    last: u64,
    give_way: &dyn Fn(),
) -> Result<()> {
    let mut writer = VectorWriter::open(dir, &active.id, active.dimensions)?;
    let seq = writer.applied_seq();
    if seq != 0 && !catalog.can_follow(seq)? {
        return Err(missed(dir.path()));
    }
    steps(catalog, seq, IndexOf::Vectors, |here, gone| {
        for (chunk, vector) in catalog.vectors_of(&active.id, here)? {
            writer.insert(chunk, &vector)?;
        }
        for chunk in gone {
            writer.remove(*chunk);
        }
        Ok(())
    })?;
    Ok(writer.commit_giving_way(last, give_way)?)
}

fn sync_sparse(dir: &Place, catalog: &Catalog, encoder: &str, last: u64) -> Result<()> {
    let mut writer = SparseWriter::open(dir, encoder)?;
    let seq = writer.applied_seq()?;
    if seq != 0 && !catalog.can_follow(seq)? {
        return Err(missed(dir.path()));
    }
    steps(catalog, seq, IndexOf::Terms, |here, gone| {
        for (chunk, weights) in catalog.terms_of(here)? {
            writer.upsert(chunk, &weights)?;
        }
        for chunk in gone {
            writer.remove(*chunk);
        }
        Ok(())
    })?;
    writer.commit(last)?;
    Ok(writer.close()?)
}

/// What former encoders made is never searched again.
fn remove_others(folder: &Path, current: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path() != current
            && let Err(error) = riddle_retrieval::remove(&entry.path())
        {
            tracing::warn!("{}: {error}", entry.path().display());
        }
    }
}
