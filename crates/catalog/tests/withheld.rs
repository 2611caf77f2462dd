//! Passages that never leave this machine, held against what the marks say.

mod common;

use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
};

use common::{Disk, open, scan, words, work_all};
use proptest::prelude::*;
use riddle_catalog::{Catalog, Embeds, Error};
use riddle_types::ChunkId;

const FAR: &str = "far/2/server/0";
const FILES: [&str; 5] = ["a/one", "a/b/two", "ab/three", "c/four", "five"];
const FOLDERS: [&str; 6] = ["/", "/r", "/r/a", "/r/a/b", "/r/c", "/elsewhere"];
const WORDS: [&str; 6] = ["red", "blue", "green", "gold", "gray", "pink"];

/// The words of these chunks, with their files.
fn of(catalog: &Catalog, chunks: &[ChunkId]) -> BTreeSet<(PathBuf, String)> {
    let records = catalog.chunk_records(chunks).expect("records");
    records.into_iter().map(|it| (it.path, it.text)).collect()
}

/// What may be sent: words of which no copy stands in a marked folder.
fn naive(catalog: &Catalog, marks: &[&str]) -> BTreeSet<(PathBuf, String)> {
    let all = words(catalog);
    let is_marked = |path: &Path| marks.iter().any(|it| path.starts_with(it));
    let kept: HashSet<&str> =
        all.iter().filter(|it| is_marked(&it.0)).map(|it| it.1.as_str()).collect();
    all.iter().filter(|it| !kept.contains(it.1.as_str())).cloned().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn what_waits_to_be_sent_stands_in_no_marked_folder(
        texts in prop::collection::vec(prop::collection::btree_set(0..WORDS.len(), 0..4), FILES.len()),
        marks in prop::collection::btree_set(0..FOLDERS.len(), 0..4),
        done in 0_usize..4,
    ) {
        let (_home, catalog, root) = open();
        let text = |at: &BTreeSet<usize>| at.iter().map(|it| WORDS[*it]).collect::<Vec<_>>().join(" ");
        let disk: Disk = FILES.iter().zip(1..).zip(&texts)
            .map(|((name, inode), words)| ((*name).to_owned(), (text(words), inode)))
            .collect();
        scan(&catalog, root, &disk);
        work_all(&catalog, &disk);
        catalog.register_embedder(FAR, 2).expect("known");
        let marks: Vec<&str> = marks.into_iter().map(|it| FOLDERS[it]).collect();
        for mark in &marks {
            catalog.confine(Path::new(mark), true).expect("marked");
        }
        let all = catalog.chunks_without_vector(FAR, Embeds::Here, 99).expect("all");
        prop_assert_eq!(of(&catalog, &all).len(), words(&catalog).len());
        // Some were made before the marks.
        let made: Vec<_> = all.iter().take(done).map(|it| (*it, vec![1.0, 0.0])).collect();
        catalog.put_vectors(FAR, &made).expect("put");
        let waiting = catalog.chunks_without_vector(FAR, Embeds::Elsewhere, 99).expect("waiting");
        let made: Vec<ChunkId> = made.iter().map(|it| it.0).collect();
        let mut wanted = naive(&catalog, &marks);
        for it in of(&catalog, &made) {
            wanted.remove(&it);
        }
        prop_assert_eq!(of(&catalog, &waiting), wanted);
        let count = catalog.count_without_vector(FAR, Embeds::Elsewhere).expect("count");
        prop_assert_eq!(count, waiting.len() as u64);
        let withheld = catalog.withheld_among(&all).expect("looked up");
        let missing: Vec<ChunkId> = all.iter().copied().filter(|it| !made.contains(it)).collect();
        let counted = missing.iter().filter(|it| withheld.contains(it)).count();
        prop_assert_eq!(catalog.count_withheld(FAR).expect("count"), counted as u64);
        for chunk in &missing {
            prop_assert_eq!(withheld.contains(chunk), !waiting.contains(chunk));
        }
    }
}

#[test]
fn an_embedder_elsewhere_is_complete_without_what_it_never_gets() {
    let (_home, catalog, root) = open();
    let disk = Disk::from([
        ("open/file".to_owned(), ("alpha beta".to_owned(), 1)),
        ("kept/file".to_owned(), ("beta gamma".to_owned(), 2)),
    ]);
    scan(&catalog, root, &disk);
    work_all(&catalog, &disk);
    catalog.register_embedder(FAR, 2).expect("known");
    catalog.confine(Path::new("/r/kept"), true).expect("marked");
    let waiting = catalog.chunks_without_vector(FAR, Embeds::Elsewhere, 9).expect("waiting");
    assert_eq!(waiting.len(), 1, "beta is in both");
    catalog.put_vectors(FAR, &[(waiting[0], vec![1.0, 0.0])]).expect("put");
    let early = catalog.switch_embedder(FAR, Embeds::Here);
    assert!(matches!(early, Err(Error::Incomplete { missing: 3, .. })), "{early:?}");
    catalog.switch_embedder(FAR, Embeds::Elsewhere).expect("complete");
    // The mark is taken away: they wait.
    catalog.confine(Path::new("/r/kept"), false).expect("released");
    assert_eq!(catalog.count_without_vector(FAR, Embeds::Elsewhere).expect("count"), 3);
    assert_eq!(catalog.count_withheld(FAR).expect("count"), 0);
}
