//! What kinds of files there are, and which of them changed lately.

mod common;

use std::collections::BTreeSet;

use common::{Disk, begin, open, read, scan, work_all};
use riddle_catalog::{Catalog, FileOrder, FilePage};
use riddle_types::{FileKind, FileState};

/// Names of the files that changed since then, the latest first, and how many there are.
fn changed(catalog: &Catalog, since: i64, limit: usize) -> (Vec<String>, u64) {
    let page = FilePage {
        changed_since: Some(since),
        order: FileOrder::Changed,
        descending: true,
        limit,
        ..FilePage::default()
    };
    let (files, total) = catalog.file_page(&page).expect("a page");
    assert_eq!(catalog.count_changed(since).expect("a count"), total);
    assert!(files.iter().all(|it| it.changed >= Some(since)), "{files:?}");
    let name = |it: &riddle_catalog::FileRecord| {
        it.path.file_name().expect("a name").to_string_lossy().into_owned()
    };
    (files.iter().map(name).collect(), total)
}

/// Puts all that was read so far a year back.
fn a_year_passes(home: &tempfile::TempDir) {
    let raw = rusqlite::Connection::open(home.path().join("catalog.sqlite")).expect("raw");
    let year = 365 * 24 * 3600;
    raw.execute("UPDATE files SET changed_at = changed_at - ?1", [year]).expect("written");
}

#[test]
fn what_was_read_or_has_changed_is_listed_the_latest_first() {
    let (home, catalog, root) = open();
    let file = |text: &str, inode: u64| (text.to_owned(), inode);
    let mut disk = Disk::from([
        ("a".to_owned(), file("alpha", 1)),
        ("b".to_owned(), file("beta", 2)),
        ("c".to_owned(), file("gamma", 3)),
    ]);
    assert_eq!(changed(&catalog, 0, 9), (Vec::new(), 0));
    scan(&catalog, root, &disk);
    assert_eq!(changed(&catalog, 0, 9).1, 0, "nothing is read yet");
    work_all(&catalog, &disk);
    assert_eq!(changed(&catalog, 0, 9).1, 3);
    a_year_passes(&home);
    let (files, _) = catalog.file_page(&FilePage { limit: 9, ..FilePage::default() }).expect("all");
    let lately = files[0].changed.expect("read") + 24 * 3600;
    assert_eq!(changed(&catalog, lately, 9), (Vec::new(), 0));
    // One is written anew, one is new, one is moved, and one is only read again.
    disk.insert("b".to_owned(), file("beta two", 2));
    disk.insert("d".to_owned(), file("delta", 4));
    let moved = disk.remove("c").expect("there");
    disk.insert("e".to_owned(), moved);
    scan(&catalog, root, &disk);
    work_all(&catalog, &disk);
    let again: Vec<_> = files.iter().filter(|it| it.path.ends_with("a")).map(|it| it.id).collect();
    assert_eq!(catalog.retry_files(&again).expect("queued"), 1);
    work_all(&catalog, &disk);
    let (names, total) = changed(&catalog, lately, 9);
    assert_eq!(
        (names.iter().map(String::as_str).collect(), total),
        (BTreeSet::from(["b", "d"]), 2)
    );
    // The latest come first, and a page has its limit.
    a_year_passes(&home);
    disk.insert("a".to_owned(), file("alpha two", 1));
    scan(&catalog, root, &disk);
    work_all(&catalog, &disk);
    assert_eq!(changed(&catalog, 0, 1), (vec!["a".to_owned()], 4));
    // What is gone is no longer there to be listed.
    disk.remove("a");
    scan(&catalog, root, &disk);
    assert_eq!(changed(&catalog, lately, 9), (Vec::new(), 0));
}

#[test]
fn files_that_are_indexed_are_counted_by_kind() {
    let (_home, catalog, root) = open();
    assert_eq!(catalog.counts_by_kind().expect("counts"), []);
    let names = ["a.pdf", "b.pdf", "c.eml", "d.pdf"];
    let disk: Disk = names
        .iter()
        .zip(1..)
        .map(|(it, at)| ((*it).to_owned(), (format!("word{at}"), at)))
        .collect();
    scan(&catalog, root, &disk);
    assert_eq!(catalog.counts_by_kind().expect("counts"), [], "nothing is read yet");
    let waiting = || catalog.kinds_in_state(FileState::Pending).expect("counts");
    assert_eq!(waiting().iter().map(|it| it.1).sum::<u64>(), 4);
    let (mut outcomes, _) = read(&begin(&catalog, 9), &disk);
    for (outcome, size) in outcomes.iter_mut().zip(0..) {
        outcome.kind = if size == 2 { FileKind::Mail } else { FileKind::Pdf };
    }
    // A scan without text is no file that is searched.
    outcomes[3].state = FileState::NoText;
    outcomes[3].chunks.clear();
    catalog.commit_files(&outcomes, None).expect("written");
    assert_eq!(waiting(), []);
    let counts = catalog.counts_by_kind().expect("counts");
    assert_eq!(counts, [(FileKind::Pdf, 2), (FileKind::Mail, 1)]);
}
