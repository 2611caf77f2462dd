//! A disk of the mind and what reading it gives, for the tests of the catalog.

// Each test binary uses its part of these.
#![allow(dead_code, unreachable_pub)]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use riddle_catalog::{Catalog, FileId, FileOutcome, Job, NewChunk, RootId};
use riddle_types::{Chunk, ChunkId, FileEntry, FileKind, FileState, Location, ScanVerdict};

pub fn entry(name: &str, text: &str, inode: u64) -> FileEntry {
    FileEntry {
        relative_path: name.into(),
        size: text.len() as u64,
        modified_ns: seconds(text) * 1_000_000_000,
        volume_id: Some((1, inode)),
        verdict: ScanVerdict::Read,
    }
}

/// The twin's clock: equal text, equal time.
pub fn seconds(text: &str) -> i64 {
    text.bytes().map(i64::from).sum()
}

pub fn hash(text: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    for (i, byte) in text.bytes().enumerate() {
        hash[i % 32] ^= byte.rotate_left(i as u32 / 32);
    }
    hash
}

/// Each word of the text is a chunk.
pub fn outcome(job: &Job, entry: &FileEntry, text: &str) -> FileOutcome {
    let chunks = text.split_whitespace().zip(0..).map(|(word, ordinal)| NewChunk {
        chunk: Chunk {
            ordinal,
            text: word.to_owned(),
            heading: String::new(),
            location: Location::Line { start: ordinal + 1, end: ordinal + 1 },
            turn: riddle_types::VectorTurn::Early,
            tokens: 1,
        },
        text_hash: hash(word),
        vector: Some(vec![word.len() as f32, 1.0]),
    });
    FileOutcome {
        file: job.file,
        content_hash: Some(hash(text)),
        kind: FileKind::Text,
        state: FileState::Indexed,
        reason: String::new(),
        title: None,
        language: None,
        // What begins with a sign is one, as in a note.
        tags: text.split_whitespace().filter(|it| it.starts_with('#')).map(str::to_owned).collect(),
        warnings: Vec::new(),
        size: entry.size,
        modified_ns: entry.modified_ns,
        volume_id: entry.volume_id,
        chunks: chunks.collect(),
        pictures: Vec::new(),
    }
}

pub type Disk = BTreeMap<String, (String, u64)>;

pub fn scan(catalog: &Catalog, root: RootId, disk: &Disk) -> riddle_catalog::ScanDelta {
    let entries: Vec<FileEntry> =
        disk.iter().map(|(name, (text, inode))| entry(name, text, *inode)).collect();
    catalog.apply_scan(root, &entries, true, &[]).expect("scan")
}

/// What reading `jobs` gives; files that are gone are in the second list.
pub fn read(jobs: &[Job], disk: &Disk) -> (Vec<FileOutcome>, Vec<FileId>) {
    let (mut outcomes, mut gone) = (Vec::new(), Vec::new());
    for job in jobs {
        let name = job.relative_path.to_str().expect("utf-8");
        match disk.get(name) {
            Some((text, inode)) => outcomes.push(outcome(job, &entry(name, text, *inode), text)),
            None => gone.push(job.file),
        }
    }
    (outcomes, gone)
}

pub fn begin(catalog: &Catalog, limit: usize) -> Vec<Job> {
    catalog.begin_jobs(catalog.next_jobs(limit).expect("jobs")).expect("begin")
}

/// Reads up to `limit` files of the queue.
pub fn work(catalog: &Catalog, disk: &Disk, limit: usize) {
    let (outcomes, gone) = read(&begin(catalog, limit), disk);
    catalog.register_embedder("e", 2).expect("embedder");
    catalog.commit_files(&outcomes, Some("e")).expect("commit");
    catalog.remove_files(&gone).expect("remove");
}

/// The end of a process that dies over a file: what it began stays counted.
pub fn crash(catalog: Catalog) {
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _dying = catalog;
        std::panic::resume_unwind(Box::new("a parser's panic"));
    }));
    died.expect_err("always");
}

/// Reads until the queue is empty.
pub fn work_all(catalog: &Catalog, disk: &Disk) {
    // Every file is begun at most four times before it is given up.
    for _ in 0..=4 * catalog.pending_jobs().expect("jobs") {
        work(catalog, disk, 8);
    }
    assert_eq!(catalog.pending_jobs().expect("jobs"), 0);
}

/// (path, word) of every chunk.
pub fn words(catalog: &Catalog) -> Vec<(PathBuf, String)> {
    let ids = catalog.all_chunks().expect("ids");
    let mut words: Vec<_> = catalog
        .chunk_records(&ids)
        .expect("records")
        .into_iter()
        .map(|it| (it.path, it.text))
        .collect();
    words.sort();
    words
}

pub fn expected(disk: &Disk) -> Vec<(PathBuf, String)> {
    let mut words: Vec<_> = disk
        .iter()
        .flat_map(|(name, (text, _))| {
            text.split_whitespace().map(move |word| (Path::new("/r").join(name), word.to_owned()))
        })
        .collect();
    words.sort();
    words
}

/// What a keyword index knows of a chunk.
pub fn seen(path: &Path, word: &str, modified: i64) -> String {
    format!("{} {word} {modified}", path.display())
}

/// What an index that follows the log would hold.
pub fn follow(catalog: &Catalog, from: u64, held: &mut BTreeMap<ChunkId, String>) -> u64 {
    let mut seq = from;
    for change in catalog.changes_since(from, usize::MAX >> 1).expect("log") {
        seq = change.seq;
        match catalog.chunk_records(&[change.chunk]).expect("record").pop() {
            Some(record) if !change.removed => {
                held.insert(change.chunk, seen(&record.path, &record.text, record.modified))
            }
            _ => held.remove(&change.chunk),
        };
    }
    seq
}

pub fn open() -> (tempfile::TempDir, Catalog, RootId) {
    let home = tempfile::tempdir().expect("temp dir");
    let catalog = Catalog::open(&home.path().join("catalog.sqlite")).expect("open");
    let root = catalog.add_root(Path::new("/r")).expect("root").id;
    (home, catalog, root)
}
