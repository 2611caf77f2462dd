//! Files that are no catalog, are damaged, come from another version, or are in use.

mod common;

use std::{io::Write as _, path::Path};

use common::{Disk, expected, scan, words, work_all};
use riddle_catalog::{Catalog, Embeds, Error};
use riddle_types::{FolderIdentity, Trouble};

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

/// A catalog of some hundred pages, closed in good order.
fn filled(path: &Path) -> Disk {
    let catalog = Catalog::open(path).expect("open");
    let root = catalog.add_root(Path::new("/r")).expect("root").id;
    let disk: Disk = (0..60)
        .map(|it| (format!("f{it}"), (format!("some words of file{it} ").repeat(10), it)))
        .collect();
    scan(&catalog, root, &disk);
    work_all(&catalog, &disk);
    disk
}

/// Opens, checks and reads everything; whatever is wrong must come out as an error or a problem.
fn inspect(path: &Path) -> Result<Vec<Trouble>, Error> {
    let catalog = Catalog::open(path)?;
    let problems = catalog.check()?;
    catalog.for_each_chunk(|_| Ok::<(), Error>(()))?;
    catalog.for_each_vector("e", |_, _| Ok::<(), Error>(()))?;
    Ok(problems)
}

#[test]
fn damage_is_found_and_said_wherever_it_is() {
    let home = tempfile::tempdir().expect("temp dir");
    let path = home.path().join("catalog.sqlite");
    filled(&path);
    assert_eq!(inspect(&path).expect("healthy"), []);
    let healthy = std::fs::read(&path).expect("read");
    for cut in [100, 4096, healthy.len() / 2, healthy.len() - 4096] {
        std::fs::write(&path, &healthy[..cut]).expect("truncate");
        let found = inspect(&path);
        assert!(
            matches!(&found, Err(Error::Damaged { .. }))
                || found.as_ref().is_ok_and(|it| !it.is_empty()),
            "cut at {cut}: {found:?}"
        );
    }
    for at in (4096..healthy.len()).step_by(healthy.len() / 7) {
        let mut sick = healthy.clone();
        let end = sick.len().min(at + 4096);
        sick[at..end].fill(0xA5);
        std::fs::write(&path, &sick).expect("scribble");
        let found = inspect(&path);
        assert!(
            matches!(&found, Err(Error::Damaged { .. }))
                || found.as_ref().is_ok_and(|it| !it.is_empty()),
            "scribbled at {at}: {found:?}"
        );
    }
}

#[test]
fn a_reader_sees_what_a_writer_committed_and_can_not_write() {
    let home = tempfile::tempdir().expect("temp dir");
    let path = home.path().join("catalog.sqlite");
    let writer = Catalog::open(&path).expect("open");
    let reader = Catalog::open_read_only(&path).expect("read only");
    assert!(words(&reader).is_empty());
    let root = writer.add_root(Path::new("/r")).expect("root").id;
    let disk = Disk::from([("f".to_owned(), ("alpha beta".to_owned(), 1))]);
    scan(&writer, root, &disk);
    work_all(&writer, &disk);
    assert_eq!(words(&reader), expected(&disk));
    assert_eq!(reader.identity().expect("name"), writer.identity().expect("name"));
    reader.set_setting("key", Some("value")).expect_err("read only");
    let other = tempfile::tempdir().expect("temp dir");
    let other = Catalog::open(&other.path().join("catalog.sqlite")).expect("open");
    assert_ne!(other.identity().expect("name"), writer.identity().expect("name"));
}

#[test]
fn a_catalog_of_version_one_opens() {
    let home = tempfile::tempdir().expect("temp dir");
    let path = home.path().join("catalog.sqlite");
    let raw = rusqlite::Connection::open(&path).expect("raw");
    raw.execute_batch(include_str!("fixtures/v1.sql")).expect("fixture");
    drop(raw);
    let catalog = Catalog::open(&path).expect("open");
    assert_eq!(catalog.check().expect("check"), []);
    let disk = Disk::from([
        ("notes/plan.md".to_owned(), ("alpha beta gamma".to_owned(), 11)),
        ("todo.txt".to_owned(), ("delta".to_owned(), 12)),
    ]);
    assert_eq!(words(&catalog), expected(&disk));
    assert_eq!(catalog.count_without_vector("e", Embeds::Here).expect("count"), 0);
    assert_eq!(catalog.setting("reranker").expect("setting").as_deref(), Some("off"));
    assert_eq!(catalog.history(9).expect("history").len(), 1);
    let root = catalog.roots().expect("roots")[0].id;
    assert_eq!(scan(&catalog, root, &disk).unchanged, 2);
    // What it has read has changed when the files did.
    assert_eq!(catalog.count_changed(0).expect("count"), 2);
    assert_eq!(catalog.count_changed(1_000_000_000).expect("count"), 0);
    // What version 2 has and version 1 had not.
    assert!(catalog.confined().expect("marks").is_empty());
    catalog.confine(Path::new("/r/notes"), true).expect("marked");
    assert_eq!(catalog.confined().expect("marks"), [Path::new("/r/notes")]);
    // Nor did it know which folder a root is.
    let known = || catalog.roots().expect("roots")[0].identity.clone();
    assert_eq!(known(), FolderIdentity::default());
    let seen = FolderIdentity { volume_id: Some((1, 2)), place: None };
    catalog.identify_root(root, &seen).expect("kept");
    assert_eq!(known(), seen);
}

#[test]
fn a_catalog_of_version_one_is_not_read_before_it_is_migrated() {
    let home = tempfile::tempdir().expect("temp dir");
    let path = home.path().join("catalog.sqlite");
    let raw = rusqlite::Connection::open(&path).expect("raw");
    raw.execute_batch(include_str!("fixtures/v1.sql")).expect("fixture");
    drop(raw);
    assert!(matches!(Catalog::open_read_only(&path), Err(Error::TooOld { .. })));
    drop(Catalog::open(&path).expect("migrated"));
    assert!(Catalog::open_read_only(&path).is_ok());
    // What the vectors took before is given back.
    let raw = rusqlite::Connection::open(&path).expect("raw");
    let free: i64 = raw.query_row("PRAGMA freelist_count", [], |row| row.get(0)).expect("a number");
    assert_eq!(free, 0);
}

#[test]
fn a_folder_that_is_not_there_is_said() {
    let home = tempfile::tempdir().expect("temp dir");
    let error =
        Catalog::open(&home.path().join("no/such/folder/catalog.sqlite")).expect_err("no folder");
    assert!(matches!(error, Error::Io { .. }), "{error}");
    let mut file = std::fs::File::create(home.path().join("empty")).expect("create");
    file.write_all(b"").expect("write");
    assert!(matches!(
        Catalog::open_read_only(&home.path().join("empty")),
        Err(Error::Missing { .. })
    ));
}
