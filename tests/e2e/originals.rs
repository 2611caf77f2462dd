//! Files of shared libraries in an object store: a reader opens what it never had, and nothing is kept too long.

use std::{fs, path::Path};

use riddle_tests::{
    Riddle,
    milvus::Server,
    objects::{Bucket, KEY},
    tiny_model, write,
};
use serde_json::Value;
use tempfile::TempDir;

/// A home that knows the library and its store, and has the key of the store by its environment.
fn home(server: &Server, bucket: &Bucket) -> Riddle {
    let riddle = Riddle::new().with_env(&[("RIDDLE_ORIGINALS_KEY", KEY)]);
    riddle.run(&["library", "add", "team", &server.address("team")]).ok();
    let said = riddle.run(&["library", "originals", "team", &bucket.address()]).ok();
    assert!(said.contains(&bucket.address()), "{said}");
    riddle
}

fn index(riddle: &Riddle, files: &Path) {
    let (files, model) = (files.display().to_string(), tiny_model("tiny-bert-encoder"));
    riddle.run(&["index", &files, "--embedder", &model.display().to_string()]).ok();
}

/// Files that were sent.
fn sent(riddle: &Riddle) -> u64 {
    riddle.json(&["library", "push", "team"])["originals"].as_u64().expect("a count")
}

fn fetched(riddle: &Riddle, path: &Path) -> Vec<u8> {
    let fetched = riddle.json(&["library", "fetch", "team", &path.display().to_string()]);
    let at = fetched["fetched"].as_str().expect("a path").to_owned();
    assert!(Path::new(&at).starts_with(riddle.home()), "{at}");
    assert_eq!(Path::new(&at).file_name(), path.file_name(), "{at}");
    fs::read(at).expect("fetched")
}

fn files() -> TempDir {
    let files = TempDir::new().expect("a temporary folder");
    write(files.path(), "boat.md", "# The boat\n\nThe boat is painted blue.");
    write(files.path(), "winter plan/ice.txt", "Ice closes the harbor in January.");
    write(files.path(), "private/doctor.txt", "The doctor says that the boat makes Mira dizzy.");
    files
}

#[test]
fn a_reader_opens_what_it_never_had_and_what_is_gone_is_deleted() {
    let (Some(server), Some(bucket)) = (Server::start(), Bucket::start()) else { return };
    let files = files();
    let writer = home(&server, &bucket);
    let private = files.path().join("private");
    index(&writer, files.path());
    writer.run(&["folders", "confine", &private.display().to_string()]).ok();
    assert_eq!(sent(&writer), 2);
    assert_eq!(sent(&writer), 0, "nothing is sent twice");
    let kept = bucket.contents();
    assert_eq!(kept.len(), 2, "what never leaves this machine is not there");
    assert!(!kept.iter().any(|it| String::from_utf8_lossy(it).contains("doctor")));

    let reader = home(&server, &bucket);
    let (boat, ice) = (files.path().join("boat.md"), files.path().join("winter plan/ice.txt"));
    let before = fs::read(&boat).expect("there");
    assert_eq!(fetched(&reader, &boat), before);
    assert_eq!(fetched(&reader, &ice), fs::read(&ice).expect("there"));
    let copy = reader.home().join("copy.md");
    let (there, to) = (boat.display().to_string(), copy.display().to_string());
    reader.run(&["library", "fetch", "team", &there, "--to", &to]).ok();
    assert_eq!(fs::read(&copy).expect("copied"), before);
    let hidden = private.join("doctor.txt").display().to_string();
    let line = reader.run(&["library", "fetch", "team", &hidden]).failed(1);
    assert!(line.contains("has no file"), "{line}");

    // A change is sent, and its former state goes; so does what is removed, and what is marked later.
    write(files.path(), "boat.md", "# The boat\n\nThe boat is painted red now.");
    index(&writer, files.path());
    assert_eq!(sent(&writer), 1);
    assert_eq!(fetched(&reader, &boat), fs::read(&boat).expect("there"));
    assert_eq!(bucket.contents().len(), 2);
    fs::remove_file(&boat).expect("removed");
    index(&writer, files.path());
    assert_eq!(sent(&writer), 0);
    assert_eq!(bucket.contents(), [fs::read(&ice).expect("there")]);

    // Everybody is told where the files are, and what one computer sent goes with what it wrote.
    let listed = reader.json(&["library", "list"]);
    assert_eq!(listed["libraries"][0]["writers"][0]["originals"], bucket.address(), "{listed:#}");
    let other = Riddle::new();
    other.run(&["library", "add", "team", &server.address("team")]).ok();
    let line = other.run(&["library", "list"]).ok();
    assert!(line.contains("its files are kept in") && line.contains(&bucket.address()), "{line}");
    let key = listed["libraries"][0]["writers"][0]["key"].as_str().expect("a key").to_owned();
    reader.run(&["library", "evict", "team", &key]).ok();
    assert!(bucket.contents().is_empty());
}

#[test]
fn a_store_that_refuses_or_is_gone_says_so_and_nothing_is_lost() {
    let (Some(server), Some(mut bucket)) = (Server::start(), Bucket::start()) else { return };
    let files = files();
    let ice = files.path().join("winter plan/ice.txt").display().to_string();
    let writer = home(&server, &bucket);
    index(&writer, files.path());
    assert_eq!(sent(&writer), 3);

    // Whoever has no key, or another one, gets nothing, and no message holds a key or a signed address.
    let without = Riddle::new();
    without.run(&["library", "add", "team", &server.address("team")]).ok();
    let line = without.run(&["library", "fetch", "team", &ice]).failed(1);
    assert!(
        line.contains("no object store") && line.contains("riddle library originals"),
        "{line}"
    );
    without.run(&["library", "originals", "team", &bucket.address()]).ok();
    let wrong = Riddle::new().with_env(&[("RIDDLE_ORIGINALS_KEY", "reader:wrong-secret")]);
    wrong.run(&["library", "add", "team", &server.address("team")]).ok();
    wrong.run(&["library", "originals", "team", &bucket.address()]).ok();
    for riddle in [&without, &wrong] {
        let line = riddle.run(&["library", "fetch", "team", &ice]).failed(1);
        assert!(line.contains("does not let this key in"), "{line}");
        assert!(!line.contains("wrong-secret") && !line.contains("X-Amz"), "{line}");
    }
    for bad in ["https://me:hunter2@box.test/files", "ftp://box.test/files", "https://box.test"] {
        let line = wrong.run(&["library", "originals", "team", bad]).failed(1);
        assert!(line.contains("no address of an object store"), "{line}");
        assert!(!line.contains("hunter2"), "{line}");
    }
    // Away from this machine nobody is asked while the network is switched off.
    let far = Riddle::new().with_env(&[("RIDDLE_ORIGINALS_KEY", KEY)]);
    far.run(&["library", "add", "team", &server.address("team")]).ok();
    far.run(&["library", "originals", "team", "https://box.test/files"]).ok();
    let line = far.run(&["library", "fetch", "team", &ice]).failed(1);
    assert!(line.contains("switched off"), "{line}");

    // While it is gone the push says so, and what is searched stays as it was.
    bucket.stop();
    write(files.path(), "crane.md", "# The crane\n\nThe crane lifts forty tons.");
    index(&writer, files.path());
    let line = writer.run(&["library", "push", "team"]).failed(1);
    assert!(line.contains("object store") && line.contains("can not be reached"), "{line}");
    let found = writer.json(&["search", "ice harbor", "--library", "team", "--no-rerank"]);
    assert!(found["hits"].as_array().is_some_and(|it| !it.is_empty()), "{found:#}");
    let line = writer.run(&["library", "fetch", "team", &ice]).failed(1);
    assert!(line.contains("can not be reached"), "{line}");
    // Without it the library is written all the same.
    writer.run(&["library", "originals", "team", "--forget"]).ok();
    let report: Value = writer.json(&["library", "push", "team"]);
    assert!(report["originals"].is_null() && report["written"] == 1, "{report:#}");
}

#[test]
fn more_files_than_a_page_of_a_list_has_are_kept_and_deleted() {
    let (Some(server), Some(bucket)) = (Server::start(), Bucket::start()) else { return };
    let files = TempDir::new().expect("a temporary folder");
    const MANY: usize = 1_100;
    for number in 0..MANY {
        write(files.path(), &format!("{number}.txt"), format!("Ship {number} came in."));
    }
    let writer = home(&server, &bucket);
    index(&writer, files.path());
    assert_eq!(sent(&writer), MANY as u64);
    assert_eq!(sent(&writer), 0, "all pages are looked at");
    for number in 0..MANY - 10 {
        fs::remove_file(files.path().join(format!("{number}.txt"))).expect("removed");
    }
    index(&writer, files.path());
    assert_eq!(sent(&writer), 0);
    assert_eq!(bucket.contents().len(), 10);
}
