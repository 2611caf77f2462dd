//! What both indexes over tantivy share: opening, and a commit that says how far it has followed the change log.

use std::path::{Path, PathBuf};

use riddle_seal::Place;
use tantivy::{
    Directory as _, Index, IndexReader, IndexSettings, IndexWriter, ReloadPolicy, SegmentMeta,
    TantivyError,
    directory::error::OpenReadError,
    index::SegmentComponent,
    schema::{NumericOptions, Schema},
};

use crate::{Error, Result, sealed::SealedDirectory};

/// The file of tantivy's that names all others, and holds our commits.
pub(crate) const META: &str = "meta.json";

/// Memory of a writer before it writes a segment; tantivy's smallest is 15 MB.
const WRITER_BYTES: usize = 32 << 20;

pub(crate) fn rebuild(dir: &Path, why: impl ToString) -> Error {
    Error::Rebuild { dir: dir.to_path_buf(), why: why.to_string() }
}

/// A number that can be looked up and read beside every chunk.
pub(crate) fn number() -> NumericOptions {
    NumericOptions::default().set_indexed().set_fast()
}

/// Opens the index in `dir`, which has to have that schema and a commit of that version.
pub(crate) fn open(place: &Place, schema: &Schema, version: &str) -> Result<Index> {
    let dir = place.path();
    let opened = match &place.key {
        Some(key) => SealedDirectory::open(dir, key).and_then(Index::open),
        None => Index::open_in_dir(dir),
    };
    let index = opened.map_err(|error| rebuild(dir, error))?;
    if index.schema() != *schema {
        return Err(rebuild(dir, "it is of another version"));
    }
    applied_seq(&index, dir, version)?;
    check_files(&index, dir)?;
    Ok(index)
}

/// Parts of a segment, each a file. The one of deletions is there if something was deleted.
const PARTS: [SegmentComponent; 6] = [
    SegmentComponent::Postings,
    SegmentComponent::Positions,
    SegmentComponent::Terms,
    SegmentComponent::Store,
    SegmentComponent::FastFields,
    SegmentComponent::FieldNorms,
];

/// Refuses an index that lacks a file: tantivy opens some of them when they are first searched, and without positions
/// that is when somebody puts a phrase into quotation marks.
fn check_files(index: &Index, dir: &Path) -> Result<()> {
    let mut seen = None;
    loop {
        let metas = index.load_metas().map_err(|error| rebuild(dir, error))?;
        let missing = missing_file(index, &metas.segments).map_err(|error| rebuild(dir, error))?;
        let Some(missing) = missing else { return Ok(()) };
        // Another program may have merged what was just read, and has swept it away.
        let names: Vec<_> = metas.segments.iter().map(SegmentMeta::id).collect();
        if seen.as_ref() == Some(&names) {
            return Err(rebuild(dir, format!("{} is missing", missing.display())));
        }
        seen = Some(names);
    }
}

fn missing_file(index: &Index, segments: &[SegmentMeta]) -> Result<Option<PathBuf>, OpenReadError> {
    for segment in segments {
        let deletions = segment.has_deletes().then_some(SegmentComponent::Delete);
        for part in PARTS.into_iter().chain(deletions) {
            let file = segment.relative_path(part);
            if !index.directory().exists(&file)? {
                return Ok(Some(file));
            }
        }
    }
    Ok(None)
}

/// As [`open`], making the index where there is none.
pub(crate) fn open_or_make(place: &Place, schema: &Schema, version: &str) -> Result<Index> {
    let dir = place.path();
    std::fs::create_dir_all(dir).map_err(|source| Error::Io { path: dir.to_path_buf(), source })?;
    if !dir.join(META).is_file() {
        let made = match &place.key {
            Some(key) => SealedDirectory::open(dir, key)
                .and_then(|it| Index::create(it, schema.clone(), IndexSettings::default())),
            None => Index::create_in_dir(dir, schema.clone()),
        };
        made.map_err(|error| rebuild(dir, error))?;
    }
    open(place, schema, version)
}

/// A writer that has swept up what a killed one had begun.
pub(crate) fn writer(index: &Index) -> Result<IndexWriter> {
    // One thread: indexing shares two cores with parsing and embedding.
    let writer: IndexWriter = index.writer_with_num_threads(1, WRITER_BYTES)?;
    // What a program that was killed had begun to write: the next commit would want the same names.
    writer.garbage_collect_files().wait()?;
    Ok(writer)
}

/// A reader that looks at a newer commit when it is told to.
pub(crate) fn reader(index: &Index, dir: &Path) -> Result<IndexReader> {
    index
        .reader_builder()
        .reload_policy(ReloadPolicy::Manual)
        .try_into()
        .map_err(|error: TantivyError| rebuild(dir, error))
}

/// Sequence number in the last commit; the payload is `version:seq`. The version may hold colons.
pub(crate) fn applied_seq(index: &Index, dir: &Path, version: &str) -> Result<u64> {
    let payload = index.load_metas().map_err(|error| rebuild(dir, error))?.payload;
    let Some(payload) = payload else { return Ok(0) };
    let (found, seq) =
        payload.rsplit_once(':').ok_or_else(|| rebuild(dir, "its commit is not ours"))?;
    if found != version {
        return Err(rebuild(dir, "it is of another version"));
    }
    seq.parse().map_err(|_| rebuild(dir, "its commit is not ours"))
}

/// Makes everything since the last commit visible, together with `seq`, at once.
pub(crate) fn commit(writer: &mut IndexWriter, version: &str, seq: u64) -> Result<()> {
    let mut commit = writer.prepare_commit()?;
    commit.set_payload(&format!("{version}:{seq}"));
    commit.commit()?;
    Ok(())
}
