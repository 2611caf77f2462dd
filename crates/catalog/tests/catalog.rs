//! The catalog against a naive twin: random edits, renames and deletions, with crashes in between.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use riddle_catalog::{Catalog, Error, FileOutcome, Job, MAX_ATTEMPTS, NewChunk, RootId};
use riddle_types::{Chunk, ChunkId, FileEntry, FileKind, FileState, Filter, Location, ScanVerdict};

fn entry(name: &str, text: &str, inode: u64) -> FileEntry {
    FileEntry {
        relative_path: name.into(),
        size: text.len() as u64,
        // The twin's clock: equal text, equal time.
        modified_ns: text.bytes().map(i64::from).sum(),
        volume_id: Some((1, inode)),
        verdict: ScanVerdict::Read,
    }
}

fn hash(text: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    for (i, byte) in text.bytes().enumerate() {
        hash[i % 32] ^= byte.rotate_left(i as u32 / 32);
    }
    hash
}

/// Each word of the text is a chunk.
fn outcome(job: &Job, entry: &FileEntry, text: &str) -> FileOutcome {
    let chunks = text.split_whitespace().zip(0..).map(|(word, ordinal)| NewChunk {
        chunk: Chunk {
            ordinal,
            text: word.to_owned(),
            heading: String::new(),
            location: Location::Line { start: ordinal + 1, end: ordinal + 1 },
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
        warnings: Vec::new(),
        size: entry.size,
        modified_ns: entry.modified_ns,
        chunks: chunks.collect(),
    }
}

type Disk = BTreeMap<String, (String, u64)>;

fn scan(catalog: &Catalog, root: RootId, disk: &Disk) -> riddle_catalog::ScanDelta {
    let entries: Vec<FileEntry> =
        disk.iter().map(|(name, (text, inode))| entry(name, text, *inode)).collect();
    catalog.apply_scan(root, &entries, true, &[]).expect("scan")
}

/// Reads up to `limit` files of the queue.
fn work(catalog: &Catalog, disk: &Disk, limit: usize) {
    let jobs = catalog.begin_jobs(catalog.next_jobs(limit).expect("jobs")).expect("begin");
    let outcomes: Vec<FileOutcome> = jobs
        .iter()
        .filter_map(|job| {
            let name =
                job.path.strip_prefix("/r").expect("below the root").to_str().expect("utf-8");
            let (text, inode) = disk.get(name)?;
            Some(outcome(job, &entry(name, text, *inode), text))
        })
        .collect();
    catalog.register_embedder("e", 2).expect("embedder");
    catalog.commit_files(&outcomes, Some("e")).expect("commit");
}

/// (path, word) of every chunk.
fn words(catalog: &Catalog) -> Vec<(PathBuf, String)> {
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

fn expected(disk: &Disk) -> Vec<(PathBuf, String)> {
    let mut words: Vec<_> = disk
        .iter()
        .flat_map(|(name, (text, _))| {
            text.split_whitespace().map(move |word| (Path::new("/r").join(name), word.to_owned()))
        })
        .collect();
    words.sort();
    words
}

/// What an index that follows the log would hold.
fn follow(catalog: &Catalog, from: u64, held: &mut BTreeMap<ChunkId, String>) -> u64 {
    let mut seq = from;
    for change in catalog.changes_since(from, usize::MAX >> 1).expect("log") {
        seq = change.seq;
        match catalog.chunk_records(&[change.chunk]).expect("record").pop() {
            Some(record) if !change.removed => {
                held.insert(change.chunk, format!("{:?}{}", record.path, record.text))
            }
            _ => held.remove(&change.chunk),
        };
    }
    seq
}

#[derive(Debug, Clone)]
enum Step {
    Write(usize, Vec<usize>),
    Delete(usize),
    Rename(usize, usize),
    Scan,
    Work(usize),
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0usize..6, prop::collection::vec(0usize..8, 0..5))
            .prop_map(|(file, words)| Step::Write(file, words)),
        (0usize..6).prop_map(Step::Delete),
        (0usize..6, 0usize..6).prop_map(|(from, to)| Step::Rename(from, to)),
        Just(Step::Scan),
        (1usize..4).prop_map(Step::Work),
        Just(Step::Crash),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn ends_up_with_what_is_on_disk_whatever_happened(steps in steps()) {
        let home = tempfile::tempdir().expect("temp dir");
        let path = home.path().join("catalog.sqlite");
        let mut catalog = Catalog::open(&path).expect("open");
        let root = catalog.add_root(Path::new("/r")).expect("root").id;
        let mut disk = Disk::new();
        let mut inode = 0;
        let (mut seq, mut held) = (0, BTreeMap::new());
        for step in steps {
            match step {
                Step::Write(file, words) => {
                    inode += 1;
                    let text: Vec<String> = words.iter().map(|it| format!("word{it}")).collect();
                    disk.insert(format!("f{file}"), (text.join(" "), inode));
                }
                Step::Delete(file) => {
                    disk.remove(&format!("f{file}"));
                }
                Step::Rename(from, to) => {
                    if let Some(file) = disk.remove(&format!("f{from}")) {
                        disk.insert(format!("f{to}"), file);
                    }
                }
                Step::Scan => {
                    scan(&catalog, root, &disk);
                }
                Step::Work(limit) => {
                    work(&catalog, &disk, limit);
                    seq = follow(&catalog, seq, &mut held);
                }
                Step::Crash => {
                    // Begun and never finished; then the process is gone.
                    catalog.begin_jobs(catalog.next_jobs(1).expect("jobs")).expect("begin");
                    drop(catalog);
                    catalog = Catalog::open(&path).expect("reopen");
                    // A person who keeps crashing the program also retries.
                    catalog.retry_failed().expect("retry");
                }
            }
        }
        for _ in 0..2 {
            catalog.retry_failed().expect("retry");
            scan(&catalog, root, &disk);
            work(&catalog, &disk, 100);
        }
        prop_assert_eq!(words(&catalog), expected(&disk));
        prop_assert_eq!(catalog.count_without_vector("e").expect("count"), 0);
        follow(&catalog, seq, &mut held);
        let mut indexed: Vec<String> = held.into_values().collect();
        indexed.sort();
        let mut wanted: Vec<String> = expected(&disk).into_iter().map(|(path, word)| format!("{path:?}{word}")).collect();
        wanted.sort();
        prop_assert_eq!(indexed, wanted, "an index that followed the log");
        prop_assert_eq!(catalog.check().expect("check").into_iter().filter(|it| !it.contains("no text")).count(), 0);
        let before = catalog.writes();
        let delta = scan(&catalog, root, &disk);
        prop_assert_eq!(delta.unchanged, disk.len() as u64);
        prop_assert_eq!(catalog.writes(), before, "nothing changed, nothing written");
    }
}

fn open() -> (tempfile::TempDir, Catalog, RootId) {
    let home = tempfile::tempdir().expect("temp dir");
    let catalog = Catalog::open(&home.path().join("catalog.sqlite")).expect("open");
    let root = catalog.add_root(Path::new("/r")).expect("root").id;
    (home, catalog, root)
}

#[test]
fn a_moved_file_keeps_its_chunks_and_vectors() {
    let (_home, catalog, root) = open();
    let mut disk = Disk::from([("old".to_owned(), ("alpha beta".to_owned(), 7))]);
    scan(&catalog, root, &disk);
    work(&catalog, &disk, 9);
    let before = catalog.all_chunks().expect("ids");
    let seq = catalog.last_seq().expect("seq");
    let file = disk.remove("old").expect("there");
    disk.insert("new".to_owned(), file);
    let delta = scan(&catalog, root, &disk);
    assert_eq!((delta.moved, delta.new, delta.removed), (1, 0, 0));
    assert_eq!(catalog.all_chunks().expect("ids"), before);
    assert_eq!(catalog.pending_jobs().expect("jobs"), 0);
    assert_eq!(catalog.chunk_records(&before).expect("records")[0].path, Path::new("/r/new"));
    assert_eq!(
        catalog.changes_since(seq, 9).expect("log").len(),
        2,
        "the keyword index learns the new path"
    );
}

#[test]
fn unchanged_chunks_keep_their_identity_when_a_file_is_edited() {
    let (_home, catalog, root) = open();
    let mut disk = Disk::from([("f".to_owned(), ("alpha beta gamma".to_owned(), 1))]);
    scan(&catalog, root, &disk);
    work(&catalog, &disk, 9);
    let before = catalog.all_chunks().expect("ids");
    disk.insert("f".to_owned(), ("intro alpha gamma".to_owned(), 2));
    scan(&catalog, root, &disk);
    assert_eq!(words(&catalog).len(), 3, "the old text answers until the new one is read");
    work(&catalog, &disk, 9);
    let after = catalog.all_chunks().expect("ids");
    assert!(
        after.contains(&before[0]) && after.contains(&before[2]) && !after.contains(&before[1])
    );
    let reused = catalog.vectors_by_text("e", &[hash("gamma"), hash("absent")]).expect("vectors");
    assert_eq!(reused, [(hash("gamma"), vec![5.0, 1.0])].into());
}

#[test]
fn what_could_not_be_looked_at_is_not_gone() {
    let (_home, catalog, root) = open();
    let disk = Disk::from([
        ("a/x".to_owned(), ("alpha".to_owned(), 1)),
        ("ab/y".to_owned(), ("beta".to_owned(), 2)),
    ]);
    scan(&catalog, root, &disk);
    work(&catalog, &disk, 9);
    let delta = catalog.apply_scan(root, &[], false, &[]).expect("incomplete");
    assert_eq!(delta.removed, 0);
    let delta = catalog.apply_scan(root, &[], true, &["a".into()]).expect("folder a is unreadable");
    assert_eq!(delta.removed, 1);
    assert_eq!(words(&catalog), [(PathBuf::from("/r/a/x"), "alpha".to_owned())]);
}

#[test]
fn a_file_that_may_no_longer_be_read_no_longer_answers() {
    let (_home, catalog, root) = open();
    let disk = Disk::from([("f".to_owned(), ("alpha".to_owned(), 1))]);
    scan(&catalog, root, &disk);
    work(&catalog, &disk, 9);
    let mut excluded = entry("f", "alpha", 1);
    excluded.verdict = ScanVerdict::Skip(FileState::Excluded, ".riddleignore".to_owned());
    catalog.apply_scan(root, &[excluded.clone()], true, &[]).expect("scan");
    assert!(words(&catalog).is_empty());
    let before = catalog.writes();
    catalog.apply_scan(root, &[excluded], true, &[]).expect("scan");
    assert_eq!(catalog.writes(), before);
    // The rule is taken back: the file is read again.
    scan(&catalog, root, &disk);
    assert_eq!(catalog.pending_jobs().expect("jobs"), 1);
}

#[test]
fn a_file_that_ends_the_process_is_given_up() {
    let (_home, catalog, root) = open();
    let disk = Disk::from([("bomb".to_owned(), ("x".to_owned(), 1))]);
    scan(&catalog, root, &disk);
    for _ in 0..MAX_ATTEMPTS {
        assert_eq!(
            catalog.begin_jobs(catalog.next_jobs(9).expect("jobs")).expect("begin").len(),
            1
        );
    }
    assert!(catalog.begin_jobs(catalog.next_jobs(9).expect("jobs")).expect("begin").is_empty());
    assert_eq!(catalog.counts_by_state().expect("counts"), [(FileState::Failed, 1)]);
    assert_eq!(catalog.retry_failed().expect("retry"), 1);
    assert_eq!(catalog.next_jobs(9).expect("jobs")[0].attempts, 0);
}

#[test]
fn filters_compare_path_components_kinds_and_times() {
    let (_home, catalog, root) = open();
    let disk = Disk::from([
        ("b/x".to_owned(), ("alpha".to_owned(), 1)),
        ("bc/y".to_owned(), ("beta".to_owned(), 2)),
    ]);
    scan(&catalog, root, &disk);
    work(&catalog, &disk, 9);
    let count = |filter: Filter| catalog.chunks_matching(&filter).expect("filter").len();
    assert_eq!(count(Filter::default()), 2);
    assert_eq!(count(Filter { folders: vec!["/r/b".to_owned()], ..Filter::default() }), 1);
    assert_eq!(count(Filter { kinds: vec![FileKind::Pdf], ..Filter::default() }), 0);
    assert_eq!(count(Filter { modified_from: Some(1), ..Filter::default() }), 0);
    assert_eq!(count(Filter { modified_until: Some(1), ..Filter::default() }), 2);
}

#[test]
fn the_embedder_switches_when_every_chunk_has_a_vector() {
    let (_home, catalog, root) = open();
    let disk = Disk::from([("f".to_owned(), ("alpha beta".to_owned(), 1))]);
    scan(&catalog, root, &disk);
    work(&catalog, &disk, 9);
    catalog.register_embedder("new", 1).expect("register");
    assert!(matches!(catalog.switch_embedder("new"), Err(Error::Incomplete { missing: 2, .. })));
    assert_eq!(catalog.active_embedder().expect("active").expect("one").id, "e");
    let missing = catalog.chunks_without_vector("new", 9).expect("missing");
    let vectors: Vec<_> = missing.iter().map(|it| (*it, vec![0.5])).collect();
    catalog.put_vectors("new", &vectors).expect("put");
    catalog.switch_embedder("new").expect("complete");
    assert_eq!(catalog.active_embedder().expect("active").expect("one").id, "new");
    assert!(catalog.vectors_of("e", &missing).expect("old").is_empty());
    let mut seen = Vec::new();
    catalog
        .for_each_vector("new", |chunk, vector| {
            seen.push((chunk, vector.to_vec()));
            Ok::<(), Error>(())
        })
        .expect("read");
    assert_eq!(seen, vectors);
}

#[test]
fn the_log_can_be_trimmed_and_tells_who_is_too_late() {
    let (_home, catalog, root) = open();
    assert!(catalog.can_follow(0).expect("empty"));
    let disk = Disk::from([("f".to_owned(), ("alpha beta".to_owned(), 1))]);
    scan(&catalog, root, &disk);
    work(&catalog, &disk, 9);
    let last = catalog.last_seq().expect("seq");
    assert!(
        catalog.can_follow(0).expect("whole log")
            && !catalog.can_follow(last + 1).expect("from the future")
    );
    catalog.trim_changes(last).expect("trim");
    assert_eq!(catalog.last_seq().expect("seq"), last);
    assert!(
        catalog.can_follow(last).expect("up to date") && !catalog.can_follow(0).expect("too late")
    );
}

#[test]
fn names_that_are_not_utf8_survive() {
    use std::os::unix::ffi::OsStrExt as _;

    let (_home, catalog, root) = open();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.txt");
    let mut odd = entry("x", "alpha", 1);
    odd.relative_path = name.into();
    catalog.apply_scan(root, &[odd], true, &[]).expect("scan");
    assert_eq!(catalog.next_jobs(9).expect("jobs")[0].path, Path::new("/r").join(name));
}

#[test]
fn nested_roots_are_refused_and_equal_ones_are_one() {
    let (_home, catalog, root) = open();
    assert_eq!(catalog.add_root(Path::new("/r")).expect("again").id, root);
    assert!(matches!(
        catalog.add_root(Path::new("/r/sub")),
        Err(Error::NestedRoot { inside: true, .. })
    ));
    assert!(matches!(
        catalog.add_root(Path::new("/")),
        Err(Error::NestedRoot { inside: false, .. })
    ));
    catalog.add_root(Path::new("/rr")).expect("a sibling");
    catalog.remove_root(root).expect("remove");
    assert_eq!(catalog.roots().expect("roots").len(), 1);
}

#[test]
fn damaged_newer_and_missing_files_are_told_apart() {
    let home = tempfile::tempdir().expect("temp dir");
    let path = home.path().join("catalog.sqlite");
    assert!(matches!(Catalog::open_read_only(&path), Err(Error::Missing { .. })));
    std::fs::write(
        &path,
        b"this is not a database, however long it may be; it is text all the way down",
    )
    .expect("write");
    assert!(matches!(Catalog::open(&path), Err(Error::Damaged { .. })));
    assert!(path.is_file(), "nothing is deleted");
    std::fs::remove_file(&path).expect("remove");
    drop(Catalog::open(&path).expect("new"));
    let connection = rusqlite::Connection::open(&path).expect("raw");
    connection.pragma_update(None, "user_version", 99).expect("from the future");
    drop(connection);
    assert!(matches!(Catalog::open(&path), Err(Error::TooNew { .. })));
    assert!(matches!(Catalog::open_read_only(&path), Err(Error::TooNew { .. })));
}

#[test]
fn a_full_disk_is_said_and_loses_nothing() {
    let (home, catalog, root) = open();
    let disk: Disk =
        (0..40).map(|it| (format!("f{it}"), (format!("word{it} ").repeat(50), it))).collect();
    scan(&catalog, root, &disk);
    drop(catalog);
    let path = home.path().join("catalog.sqlite");
    let catalog = Catalog::open(&path).expect("reopen");
    // SQLite reports a reached page limit exactly as a full disk.
    catalog.limit_pages(40).expect("limit");
    let jobs = catalog.begin_jobs(catalog.next_jobs(100).expect("jobs")).expect("begin");
    let outcomes: Vec<FileOutcome> = jobs
        .iter()
        .map(|job| outcome(job, &entry("f", "x", 1), &"some longer words here ".repeat(40)))
        .collect();
    let error = catalog.commit_files(&outcomes, None).expect_err("full");
    assert!(matches!(error, Error::DiskFull), "{error}");
    assert_eq!(catalog.pending_jobs().expect("jobs"), 40);
    catalog.limit_pages(1 << 20).expect("space again");
    catalog.commit_files(&outcomes, None).expect("now it fits");
    assert_eq!(catalog.pending_jobs().expect("jobs"), 0);
}

#[test]
fn settings_and_history_come_back() {
    let (_home, catalog, _root) = open();
    catalog.set_setting("reranker", Some("x")).expect("set");
    catalog.set_setting("reranker", Some("y")).expect("replace");
    assert_eq!(catalog.setting("reranker").expect("get").as_deref(), Some("y"));
    catalog.set_setting("reranker", None).expect("remove");
    assert_eq!(catalog.setting("reranker").expect("get"), None);
    catalog.add_history("ask", "who?", "{}").expect("add");
    assert_eq!(catalog.history(9).expect("list")[0].query, "who?");
    catalog.delete_history(None).expect("clear");
    assert!(catalog.history(9).expect("list").is_empty());
}
