//! The store from outside: what is found, what is forgotten, what is left after damage.

use std::{fs, path::PathBuf};

use proptest::prelude::*;
use riddle_cache::{Key, Limit, Saved, Store};

/// Bytes of a node's payload in these tests: with its header two pages.
const PAYLOAD: usize = 4096;
const NODE: u64 = 8192;

fn root() -> Key {
    Key::root(&[b"model"])
}

/// What the engine would have computed: a function of the path.
fn payload(key: Key) -> Vec<u8> {
    let seed = format!("{key:?}");
    (0..PAYLOAD).map(|it| seed.as_bytes()[it % seed.len()] ^ (it % 251) as u8).collect()
}

/// Reads a path as an engine does: loads what is there, checks it, saves what is not. Gives how many were loaded.
fn read(store: &Store, path: &[Vec<u32>], chunks: &[u64]) -> usize {
    let mut visit = store.visit().expect("a folder");
    let tokens: Vec<&[u32]> = path.iter().map(Vec::as_slice).collect();
    let depth = visit.depth(root(), &tokens);
    let (mut key, mut loaded) = (root(), 0);
    for tokens in &tokens[..depth] {
        key = key.child(tokens);
        let mut bytes = vec![0; PAYLOAD];
        let (keys, values) = bytes.split_at_mut(PAYLOAD / 3);
        if visit.load(key, tokens, &mut [keys, values]).is_err() {
            break;
        }
        assert_eq!(bytes, payload(key), "a node holds what was saved");
        loaded += 1;
    }
    let mut parent = root();
    for (number, tokens) in tokens.iter().enumerate() {
        let key = parent.child(tokens);
        let chunk: Vec<u64> = chunks.get(number).copied().into_iter().collect();
        let bytes = payload(key);
        let parts = bytes.split_at(PAYLOAD / 5);
        let saved = visit.save((root(), "small"), parent, tokens, &chunk, 7, &[parts.0, parts.1]);
        if !matches!(saved, Ok(Saved::Written | Saved::Known)) {
            break;
        }
        parent = key;
    }
    loaded
}

fn path(of: &[u32]) -> Vec<Vec<u32>> {
    of.iter().map(|it| vec![*it, it + 1]).collect()
}

/// Files of nodes.
fn files(dir: &std::path::Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in fs::read_dir(dir).into_iter().flatten().flatten() {
        for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            if file.path().extension().is_some_and(|it| it == "kv") {
                files.push(file.path());
            }
        }
    }
    files
}

#[test]
fn what_was_read_is_found_by_another_process_and_only_along_its_path() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(&dir.path().join("kv"), Limit::exactly(1 << 20));
    assert_eq!(store.status().expect("nothing yet").nodes, 0);
    assert_eq!(read(&store, &path(&[1, 2, 3]), &[]), 0);
    assert_eq!(read(&store, &path(&[1, 2, 4]), &[]), 2);
    let other = Store::open(&dir.path().join("kv"), Limit::exactly(1 << 20));
    assert_eq!(read(&other, &path(&[1, 2, 3]), &[]), 3);
    assert_eq!(read(&other, &path(&[2, 1, 3]), &[]), 0);
    // And what it saved is seen here.
    assert_eq!(read(&store, &path(&[2, 1, 3]), &[]), 3);
    let status = store.status().expect("a folder");
    assert_eq!((status.nodes, status.bytes, status.tokens), (7, 7 * NODE, 14));
    assert_eq!(status.roots[0].label, "small");
}

#[cfg(unix)]
#[test]
fn nobody_else_may_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(&dir.path().join("kv"), Limit::exactly(1 << 20));
    read(&store, &path(&[1]), &[]);
    let mode = |path: &std::path::Path| {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    };
    assert_eq!(mode(&files(&dir.path().join("kv"))[0]), 0o600);
    assert_eq!(mode(&dir.path().join("kv")), 0o700);
}

#[test]
fn a_purge_takes_what_stands_behind_along_and_nothing_is_saved_past_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path(), Limit::exactly(1 << 20));
    read(&store, &path(&[1, 2, 3]), &[10, 20, 30]);
    read(&store, &path(&[1, 4]), &[10, 40]);
    assert_eq!(store.chunks().expect("a folder"), [10, 20, 30, 40]);
    // A prompt that began before.
    let mut late = store.visit().expect("a folder");
    let freed = store.purge(&[20, 99]).expect("it purges");
    assert_eq!((freed.nodes, freed.bytes), (2, 2 * NODE));
    assert_eq!(store.chunks().expect("a folder"), [10, 40]);
    let parent = root().child(&path(&[1])[0]);
    let saved = late.save((root(), "small"), parent, &[2, 3], &[20], 1, &[b"bytes"]);
    assert_eq!(saved.expect("no error"), Saved::Purged);
    drop(late);
    assert_eq!(files(dir.path()).len(), 2);
    assert_eq!(store.remove_model("small").expect("it removes").nodes, 2);
    assert_eq!(store.clear().expect("it clears"), riddle_cache::Freed::default());
    assert!(files(dir.path()).is_empty());
}

#[test]
fn damage_costs_time_and_a_foreign_version_is_not_believed() {
    let dir = tempfile::tempdir().expect("a directory");
    let open = || Store::open(dir.path(), Limit::exactly(1 << 20));
    read(&open(), &path(&[1]), &[]);
    let file = files(dir.path()).remove(0);
    let whole = fs::read(&file).expect("it is there");
    for length in [0, 3, 4096, whole.len() - 1] {
        fs::write(&file, &whole[..length]).expect("room");
        assert_eq!(read(&open(), &path(&[1]), &[]), 0, "{length} bytes are no node");
        assert_eq!(fs::read(&file).expect("it was made again"), whole);
    }
    // Magic, format, length of the header, a key, the tokens, the bytes.
    for place in [0, 8, 12, 20, 170, 188, whole.len() - 1] {
        let mut wrong = whole.clone();
        wrong[place] ^= 1;
        fs::write(&file, &wrong).expect("room");
        assert_eq!(read(&open(), &path(&[1]), &[]), 0, "byte {place} is wrong");
        assert_eq!(fs::read(&file).expect("it was made again"), whole);
    }
    // One that was damaged while it was known.
    let store = open();
    assert_eq!(read(&store, &path(&[1]), &[]), 1);
    fs::write(&file, &whole[..100]).expect("room");
    assert_eq!(read(&store, &path(&[1]), &[]), 0);
    // A file that is no folder where one should be, and others that are not ours.
    fs::write(dir.path().join("note.txt"), "hello").expect("room");
    assert_eq!(read(&open(), &path(&[1]), &[]), 1);
    assert!(dir.path().join("note.txt").is_file());
}

#[test]
fn what_can_not_be_written_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = dir.path().join("kv");
    fs::write(&place, "not a folder").expect("room");
    let store = Store::open(&place, Limit::exactly(1 << 20));
    let mut visit = store.visit().expect("an empty one");
    assert!(visit.save((root(), "small"), root(), &[1], &[], 1, &[b"bytes"]).is_err());
    assert_eq!(fs::read(&place).expect("it is there"), b"not a folder");
    // Nothing is kept where nothing may be.
    let off = Store::open(&dir.path().join("off"), Limit::exactly(0));
    assert_eq!(read(&off, &path(&[1]), &[]) + read(&off, &path(&[1]), &[]), 0);
    assert!(!dir.path().join("off").exists());
}

#[test]
fn what_is_used_often_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path(), Limit::exactly(6 * NODE));
    for _ in 0..5 {
        read(&store, &path(&[1, 2]), &[]);
    }
    for other in 10..40 {
        read(&store, &path(&[1, other]), &[]);
        if other % 6 == 0 {
            read(&store, &path(&[1, 2]), &[]);
        }
    }
    assert_eq!(read(&store, &path(&[1, 2]), &[]), 2, "the often used one is there");
    assert_eq!(read(&store, &path(&[1, 39]), &[]), 2, "and the newest one");
    assert_eq!(read(&store, &path(&[1, 10]), &[]), 1);
    // Counts outlive the process.
    let other = Store::open(dir.path(), Limit::exactly(6 * NODE));
    for more in 50..60 {
        read(&other, &path(&[1, more]), &[]);
    }
    assert_eq!(read(&other, &path(&[1, 2]), &[]), 2);
    // What was used often once does not stay for ever.
    for more in 100..160 {
        read(&other, &path(&[1, more]), &[]);
    }
    assert_eq!(read(&other, &path(&[1, 2]), &[]), 1);
    let freed = other.set_limit(Limit::exactly(2 * NODE)).expect("a folder");
    assert_eq!((freed.nodes, files(dir.path()).len()), (4, 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is read, purged and reopened: the limit holds after every step, no node is there without those before
    /// it, no purged chunk is left, and what is loaded is what was saved (which `read` asserts).
    #[test]
    fn the_limit_holds_and_nobody_goes_before_those_behind(
        limit in 0u64..8,
        steps in prop::collection::vec((prop::collection::vec(0u32..4, 1..5), 0u8..10), 1..40),
    ) {
        let dir = tempfile::tempdir().expect("a directory");
        let open = || Store::open(dir.path(), Limit::exactly(limit * NODE));
        let mut store = open();
        for (segments, deed) in steps {
            match deed {
                0 => store = open(),
                1 => {
                    let chunk = u64::from(segments[0]);
                    store.purge(&[chunk]).expect("it purges");
                    prop_assert!(!store.chunks().expect("a folder").contains(&chunk));
                }
                2 => {
                    // Somebody deletes a file.
                    if let Some(file) = files(dir.path()).first() {
                        fs::remove_file(file).expect("it is there");
                    }
                    store.status().expect("a folder");
                }
                _ => {
                    let chunks: Vec<u64> = segments.iter().map(|it| u64::from(*it)).collect();
                    read(&store, &path(&segments), &chunks);
                }
            }
            let there: u64 = files(dir.path()).iter().map(|it| fs::metadata(it).expect("it is there").len()).sum();
            prop_assert!(there <= limit * NODE, "{there} bytes of {}", limit * NODE);
            prop_assert_eq!(store.status().expect("a folder").bytes, there);
        }
    }
}
