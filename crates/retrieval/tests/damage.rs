//! Damage on the disk: every file of every index, one byte at a time. It is told, and never written once more with a
//! sum that fits.

use std::{
    fs::{self, OpenOptions},
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use riddle_retrieval::{
    Error, GRAPH_FROM, IndexedChunk, KeywordReader, KeywordWriter, Result, SparseReader,
    SparseWriter, VectorReader, VectorSource, VectorWriter,
};
use riddle_types::{ChunkId, FileKind, Filter, Query, StageError, TermWeights};

/// Changes a byte where the file lies: whoever has it open sees that.
fn flip(file: &Path, at: u64) {
    let mut open = OpenOptions::new().read(true).write(true).open(file).expect("there");
    let mut byte = [0];
    open.seek(SeekFrom::Start(at)).and_then(|_| open.read_exact(&mut byte)).expect("read");
    byte[0] ^= 1;
    open.seek(SeekFrom::Start(at)).and_then(|_| open.write_all(&byte)).expect("written");
}

/// The files of an index that hold something, but for those that say of what it consists.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .expect("readable")
        .map(|it| it.expect("an entry").path())
        .filter(|it| it.extension().is_some_and(|it| it != "json" && it != "lock"))
        .filter(|it| it.metadata().is_ok_and(|it| it.len() > 0))
        .collect();
    files.sort();
    files
}

fn is_damage<T>(outcome: &Result<T>) -> bool {
    matches!(outcome, Err(Error::Damaged { .. }))
}

fn words(dir: &Path) {
    let mut writer = KeywordWriter::open(dir).expect("opens");
    let texts: Vec<String> =
        (0..60).map(|n| format!("the blue boat {n} lies at pier {n}")).collect();
    for (id, text) in (1..).zip(&texts) {
        let chunk = IndexedChunk {
            id: ChunkId(id),
            path: "/home/mira/log.md",
            kind: FileKind::Markdown,
            modified: 1_000,
            title: "",
            heading: "",
            text,
            language: None,
        };
        writer.upsert(&chunk).expect("added");
    }
    writer.commit(1).expect("committed");
    writer.remove(ChunkId(7));
    writer.commit(2).expect("committed");
    writer.close().expect("closed");
}

#[test]
fn a_damaged_index_of_words_is_told_by_whoever_meets_it() {
    let dir = tempfile::tempdir().expect("a folder");
    words(dir.path());
    KeywordReader::verify(dir.path()).expect("whole");
    let files = files(dir.path());
    assert!(files.len() >= 7, "{files:?}");
    for file in files {
        let bytes = file.metadata().expect("there").len();
        // The first byte is no part of the sum's own.
        for at in [0, if bytes > 400 { bytes / 2 } else { 0 }] {
            flip(&file, at);
            let what = format!("{} at {at}", file.display());
            assert!(is_damage(&KeywordReader::verify(dir.path())), "{what}");
            assert!(is_damage(&KeywordWriter::open(dir.path()).map(drop)), "{what}");
            for text in ["boat", "\"blue boat\"", "pier -boat"] {
                let query = Query { text: text.to_owned(), ..Query::default() };
                let found = KeywordReader::open(dir.path())
                    .and_then(|it| it.search(&query, &Filter::default(), 9));
                assert!(
                    found.is_ok() || found.is_err_and(|it| it.wants_rebuild()),
                    "{what}: {text}"
                );
            }
            flip(&file, at);
        }
    }
    KeywordReader::verify(dir.path()).expect("whole again");
}

#[test]
fn a_damaged_index_of_terms_is_told_by_whoever_meets_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut writer = SparseWriter::open(dir.path(), "e").expect("opens");
    for n in 1..60 {
        let weights = TermWeights::of([(n, 9), (3, 200), (n * 7, 31)]);
        writer.upsert(ChunkId(n.into()), &weights).expect("added");
    }
    writer.commit(1).expect("committed");
    writer.close().expect("closed");
    SparseReader::verify(dir.path(), "e").expect("whole");
    for file in files(dir.path()) {
        flip(&file, 0);
        let what = file.display();
        assert!(is_damage(&SparseReader::verify(dir.path(), "e")), "{what}");
        assert!(is_damage(&SparseWriter::open(dir.path(), "e").map(drop)), "{what}");
        let found = SparseReader::open(dir.path(), "e")
            .and_then(|it| it.search(&TermWeights::of([(3, 9)]), None, 9));
        assert!(found.is_ok() || found.is_err_and(|it| it.wants_rebuild()), "{what}");
        flip(&file, 0);
    }
    SparseReader::verify(dir.path(), "e").expect("whole again");
    assert!(!is_damage(&SparseReader::verify(dir.path(), "another")), "that is another thing");
}

/// No vectors: only the index is looked at.
struct Nothing;

impl VectorSource for Nothing {
    fn vectors(&self, _: &[ChunkId]) -> Result<Vec<(ChunkId, Vec<f32>)>, StageError> {
        Ok(Vec::new())
    }
}

const DIMENSIONS: usize = 8;

fn vector(n: usize) -> Vec<f32> {
    let angle = n as f32 * 0.37;
    let mut vector = vec![0.0; DIMENSIONS];
    vector[n % DIMENSIONS] = angle.cos();
    vector[(n + 1 + n / DIMENSIONS % 7) % DIMENSIONS] = angle.sin();
    vector
}

fn vectors(dir: &Path, count: usize) -> VectorWriter {
    let mut writer = VectorWriter::open(dir, "e", DIMENSIONS).expect("opens");
    for n in 1..=count {
        writer.insert(ChunkId(n as u64), &vector(n)).expect("added");
    }
    writer.commit(1).expect("committed");
    writer.remove(ChunkId(7));
    writer.commit(2).expect("committed");
    writer
}

#[test]
fn a_byte_of_codes_chunks_removals_and_links_is_noticed() {
    let dir = tempfile::tempdir().expect("a folder");
    drop(vectors(dir.path(), GRAPH_FROM + 10));
    VectorReader::verify(dir.path()).expect("whole");
    let files = files(dir.path());
    for name in ["codes-", "chunks-", "gone-", "links-"] {
        let file = files.iter().find(|it| it.display().to_string().contains(name)).expect(name);
        flip(file, file.metadata().expect("there").len() / 2);
        assert!(is_damage(&VectorReader::verify(dir.path())), "{name}");
        let open = VectorReader::open(dir.path(), "e", Arc::new(Nothing)).map(drop);
        assert!(is_damage(&open), "small ones are checked whenever they are opened: {name}");
        flip(file, file.metadata().expect("there").len() / 2);
    }
    VectorReader::verify(dir.path()).expect("whole again");
}

/// Damage that comes while a writer has the index open, as in one that is too large to be checked then.
#[test]
fn what_is_damaged_gets_no_new_sum() {
    for (file, removed) in
        [("codes-0.bin", 0), ("chunks-0.bin", 0), ("gone-0.bin", 1), ("codes-0.bin", 40)]
    {
        let dir = tempfile::tempdir().expect("a folder");
        let mut writer = vectors(dir.path(), 100);
        flip(&dir.path().join(file), 3);
        writer.insert(ChunkId(500), &vector(500)).expect("added");
        // Many that are removed make the index anew, of what lies there.
        (20..20 + removed).for_each(|it| writer.remove(ChunkId(it)));
        assert!(is_damage(&writer.commit(3)), "{file}, {removed} removed");
        drop(writer);
        assert!(is_damage(&VectorReader::verify(dir.path())), "{file}: it is noticed still");
    }
}

#[test]
fn links_that_are_damaged_are_not_written_once_more() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut writer = vectors(dir.path(), GRAPH_FROM);
    let links =
        files(dir.path()).into_iter().find(|it| it.display().to_string().contains("links-"));
    flip(&links.expect("a graph"), 1_000);
    // So many that the graph is extended.
    for n in GRAPH_FROM + 1..GRAPH_FROM + GRAPH_FROM / 5 {
        writer.insert(ChunkId(n as u64), &vector(n)).expect("added");
    }
    assert!(is_damage(&writer.commit(3)));
}
