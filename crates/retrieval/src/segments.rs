//! What both indexes over tantivy share: opening, a commit that says how far it has followed the change log, and what
//! becomes of damage.
//!
//! tantivy trusts its files. It keeps a sum of each (CRC-32) and compares none by itself: what is damaged makes it fail
//! or panic anywhere, or answer wrongly. The sums are compared when somebody asks, when something has failed, and
//! before anything is written.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::{Path, PathBuf},
};

use riddle_seal::Place;
use riddle_types::panic_message;
use tantivy::{
    Directory as _, Index, IndexReader, IndexSettings, IndexWriter, ReloadPolicy, SegmentMeta,
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

/// The files of a segment.
fn files(segment: &SegmentMeta) -> impl Iterator<Item = PathBuf> {
    let deletions = segment.has_deletes().then_some(SegmentComponent::Delete);
    PARTS.into_iter().chain(deletions).map(|part| segment.relative_path(part))
}

/// What `look` finds wrong with the files of the last commit.
fn fault(
    index: &Index,
    dir: &Path,
    look: impl Fn(&Path) -> Option<String>,
) -> Result<Option<String>> {
    let mut seen = None;
    loop {
        let metas = index.load_metas().map_err(|error| rebuild(dir, error))?;
        let files: Vec<PathBuf> = metas.segments.iter().flat_map(files).collect();
        let found = files.iter().find_map(|file| look(file));
        // Another program may have merged what was just read, and has swept it away.
        if found.is_none() || seen.as_ref() == Some(&files) {
            return Ok(found);
        }
        seen = Some(files);
    }
}

/// Refuses an index that lacks a file: tantivy opens some of them when they are first searched, and without positions
/// that is when somebody puts a phrase into quotation marks.
fn check_files(index: &Index, dir: &Path) -> Result<()> {
    let missing = fault(index, dir, |file| match index.directory().exists(file) {
        Ok(true) => None,
        Ok(false) => Some(format!("{} is missing", file.display())),
        Err(error) => Some(error.to_string()),
    })?;
    missing.map_or(Ok(()), |why| Err(rebuild(dir, why)))
}

/// Reads all of the last commit, and holds each file against the sum that tantivy has put at its end.
///
/// # Errors
/// [`Error::Damaged`] for the first file that is not what was written.
pub(crate) fn verify(index: &Index, dir: &Path) -> Result<()> {
    let damaged = fault(index, dir, |file| {
        // File by file: tantivy's own look at all passes over those that its list of files does not name. An end that
        // lies about its length makes it panic.
        let compared = catch_unwind(AssertUnwindSafe(|| index.directory().validate_checksum(file)));
        let why = match compared {
            Ok(Ok(true)) => return None,
            Ok(Err(error)) => error.to_string(),
            Ok(Ok(false)) | Err(_) => "it is not what was written".to_owned(),
        };
        Some(format!("{}: {why}", file.display()))
    })?;
    let dir = dir.to_path_buf();
    damaged.map_or(Ok(()), |why| Err(Error::Damaged { dir, why }))
}

/// Does what reads the index. Where that fails, or panics, damage may be why: then that is said, and else what it was.
pub(crate) fn guarded<T>(index: &Index, dir: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => Ok(done),
        failed => {
            verify(index, dir)?;
            failed.unwrap_or_else(|panic| resume_unwind(panic))
        }
    }
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

/// A writer that has swept up what a killed one had begun. A damaged index gets none: tantivy's threads would take the
/// whole program with them when they panic, and a merge would write what is damaged once more, with a sum that fits.
pub(crate) fn writer(index: &Index, place: &Place) -> Result<IndexWriter> {
    // What is sealed does not open when it is damaged: it can neither be merged nor mistaken for what it was.
    if place.key.is_none() {
        verify(index, place.path())?;
    }
    // One thread: indexing shares two cores with parsing and embedding.
    let writer: IndexWriter = index.writer_with_num_threads(1, WRITER_BYTES)?;
    // What a program that was killed had begun to write: the next commit would want the same names.
    writer.garbage_collect_files().wait()?;
    Ok(writer)
}

/// A reader that looks at a newer commit when it is told to.
pub(crate) fn reader(index: &Index, dir: &Path) -> Result<IndexReader> {
    let builder = index.reader_builder().reload_policy(ReloadPolicy::Manual);
    let open = || -> tantivy::Result<IndexReader> { builder.try_into() };
    // Nothing was asked yet: only what lies there can make it panic.
    catch_unwind(AssertUnwindSafe(open))
        .map_err(|panic| rebuild(dir, panic_message(&*panic)))?
        .map_err(|error| rebuild(dir, error))
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

#[cfg(test)]
mod tests {
    use riddle_types::{Advice, Advised as _};
    use tantivy::schema::{STRING, TEXT};

    use super::*;

    /// Files of an index that has removed something, and the index.
    fn made(place: &Place) -> (Vec<PathBuf>, Index) {
        let mut builder = Schema::builder();
        let (id, text) = (builder.add_text_field("id", STRING), builder.add_text_field("t", TEXT));
        let index = open_or_make(place, &builder.build(), "1").expect("made");
        let mut writer = writer(&index, place).expect("a writer");
        for n in 0..40 {
            let words = format!("a boat {n} of {} people", n * n);
            let document = tantivy::doc!(id => n.to_string(), text => words);
            writer.add_document(document).expect("added");
        }
        commit(&mut writer, "1", 1).expect("committed");
        writer.delete_term(tantivy::Term::from_field_text(id, "7"));
        commit(&mut writer, "1", 2).expect("committed");
        writer.wait_merging_threads().expect("ended");
        let metas = index.load_metas().expect("readable");
        let files = metas.segments.iter().flat_map(files).collect::<Vec<_>>();
        assert_eq!(files.len(), 7, "one of every kind: {files:?}");
        (files.iter().map(|it| place.path().join(it)).collect(), index)
    }

    fn flip(file: &Path) {
        let mut bytes = std::fs::read(file).expect("read");
        bytes[0] ^= 1;
        std::fs::write(file, bytes).expect("written");
    }

    fn is_damage<T>(outcome: &Result<T>) -> bool {
        matches!(outcome, Err(Error::Damaged { .. }))
    }

    #[test]
    fn a_byte_of_any_file_is_noticed_and_nothing_is_written_upon_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let place = Place::from(dir.path());
        let (files, index) = made(&place);
        verify(&index, dir.path()).expect("whole");
        for file in files {
            flip(&file);
            let told = verify(&index, dir.path());
            assert!(is_damage(&told), "{}: {told:?}", file.display());
            assert_eq!(told.map_err(|it| it.advice()), Err(Some(Advice::RepairIndexes)));
            assert!(is_damage(&writer(&index, &place).map(drop)), "{}", file.display());
            let good = std::fs::read(&file).expect("read");
            for cut in [0, 3, 9, good.len() / 2] {
                std::fs::write(&file, &good[..cut]).expect("cut off");
                assert!(is_damage(&verify(&index, dir.path())), "{}: {cut}", file.display());
            }
            std::fs::write(&file, good).expect("written");
            flip(&file);
            verify(&index, dir.path()).expect("whole again");
        }
        drop(writer(&index, &place).expect("a writer"));
    }

    /// Also where the list of tantivy's own files is gone, by which it would know what to look at.
    #[test]
    fn no_list_says_what_is_looked_at() {
        let dir = tempfile::tempdir().expect("a folder");
        let place = Place::from(dir.path());
        let (files, index) = made(&place);
        let schema = index.schema();
        drop(index);
        std::fs::remove_file(dir.path().join(".managed.json")).expect("removed");
        flip(&files[0]);
        let index = open(&place, &schema, "1").expect("opens");
        assert!(is_damage(&verify(&index, dir.path())));
    }

    #[test]
    fn damage_is_told_as_damage_and_other_failures_as_what_they_are() {
        let dir = tempfile::tempdir().expect("a folder");
        let (files, index) = made(&Place::from(dir.path()));
        let failing = || guarded::<()>(&index, dir.path(), || Err(rebuild(dir.path(), "no")));
        let panicking = || guarded::<()>(&index, dir.path(), || panic!("on purpose"));
        assert_eq!(guarded(&index, dir.path(), || Ok(3)).expect("works"), 3);
        assert!(matches!(failing(), Err(Error::Rebuild { .. })));
        let panic = catch_unwind(AssertUnwindSafe(panicking)).expect_err("goes on");
        assert_eq!(panic_message(&*panic), "on purpose");
        flip(&files[0]);
        assert!(is_damage(&failing()));
        assert!(is_damage(&panicking()));
        assert_eq!(guarded(&index, dir.path(), || Ok(3)).expect("works"), 3);
    }
}
