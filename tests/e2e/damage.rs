//! A damaged home: `check` sees it, a search says what helps, and a repair brings back what was there.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use riddle_tests::{Riddle, notes, snapshot, tiny_model, write};
use serde_json::Value;
use tempfile::TempDir;

const QUERIES: [&str; 3] = ["zorfax", "bridge", "boat"];

/// A home with all three indexes.
fn home(files: &Path) -> Riddle {
    let riddle = Riddle::new();
    notes(files, 60);
    for (model, name) in
        [("tiny-bert-encoder", "tiny-embedder"), ("tiny-bert-sparse-encoder", "tiny-sparse")]
    {
        let from = tiny_model(model).display().to_string();
        riddle.json(&["models", "import", &from, "--name", name]);
        riddle.json(&["models", "use", name]);
    }
    riddle.index(files);
    // Something removed: then that is in files of its own.
    fs::remove_file(first(files)).expect("removed");
    riddle.run(&["index"]).ok();
    riddle
}

fn first(folder: &Path) -> PathBuf {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).expect("readable").map(|it| it.expect("an entry").path()).collect();
    paths.sort();
    let path = paths.first().expect("not empty");
    if path.is_dir() { first(path) } else { path.clone() }
}

/// Files of an index that hold something, but for those that say of what it consists.
fn parts(riddle: &Riddle, index: &str) -> Vec<PathBuf> {
    let (mut open, mut files) = (vec![riddle.home().join(index)], Vec::new());
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).expect("readable").flatten() {
            let (path, bytes) = (entry.path(), entry.metadata().expect("there").len());
            let is_part = path.extension().is_some_and(|it| it != "json" && it != "lock");
            match path.is_dir() {
                true => open.push(path),
                false if is_part && bytes > 0 => files.push(path),
                false => {}
            }
        }
    }
    files.sort();
    files
}

/// Changes a byte in the middle, or where a file is small the first: at its end stands its sum.
fn flip(file: &Path) {
    let mut bytes = fs::read(file).expect("read");
    let at = if bytes.len() > 400 { bytes.len() / 2 } else { 0 };
    bytes[at] ^= 1;
    fs::write(file, bytes).expect("written");
}

/// What `check` says is wrong.
fn told(riddle: &Riddle) -> Vec<String> {
    let outcome = riddle.run(&["check", "--json"]);
    let said: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let problems = said["problems"].as_array().expect("a list");
    assert_eq!(outcome.code, Some(i32::from(!problems.is_empty())), "{outcome:#?}");
    problems.iter().map(|it| it.as_str().expect("a sentence").to_owned()).collect()
}

/// Holds what `check` says against the beginnings of its sentences.
#[track_caller]
fn expect(riddle: &Riddle, sentences: &[&str]) {
    let told = told(riddle);
    let fits = told.iter().zip(sentences).all(|(told, it)| told.starts_with(it));
    assert!(told.len() == sentences.len() && fits, "{told:#?} instead of {sentences:#?}");
}

#[test]
fn every_damaged_file_of_an_index_is_told_and_made_anew() {
    let files = TempDir::new().expect("a temporary folder");
    let riddle = home(files.path());
    expect(&riddle, &[]);
    let before = snapshot(&riddle, &QUERIES);
    for (index, kind, least) in [
        ("keyword", "the keyword index is damaged", 6),
        ("vector", "the vector index is damaged", 2),
        ("terms", "the index of weighed terms is damaged", 6),
    ] {
        let count = parts(&riddle, index).len();
        assert!(count >= least, "{index}: {count}");
        for nth in 0..count {
            // Their names are others after each repair.
            let Some(file) = parts(&riddle, index).into_iter().nth(nth) else { continue };
            flip(&file);
            let what = file.display();
            expect(&riddle, &[kind]);
            for query in ["bridge", "\"the bridge\"", "boat -bridge"] {
                let outcome = riddle.run(&["search", query, "--no-rerank"]);
                let said = &outcome.stderr;
                assert!(
                    !said.contains("this is a bug") && !said.contains("panicked"),
                    "{what}: {said}"
                );
                if outcome.code != Some(0) {
                    assert_eq!(outcome.code, Some(1), "{what}: {outcome:#?}");
                    assert!(said.contains("damaged"), "{what}: {said}");
                    assert!(said.contains("riddle check --repair"), "{what}: {said}");
                }
            }
            let repaired = riddle.run(&["check", "--repair"]).ok();
            assert!(repaired.contains("1 problem put right"), "{what}: {repaired}");
            assert!(repaired.contains("all is well"), "{what}: {repaired}");
        }
        assert_eq!(snapshot(&riddle, &QUERIES), before);
    }
}

#[test]
fn weighed_terms_that_are_gone_are_missed_and_come_back() {
    let files = TempDir::new().expect("a temporary folder");
    let riddle = home(files.path());
    fs::remove_dir_all(riddle.home().join("terms")).expect("removed");
    expect(&riddle, &["the index of weighed terms is behind: run `riddle index`"]);
    riddle.run(&["check", "--repair"]).ok();
    assert!(!parts(&riddle, "terms").is_empty());
    expect(&riddle, &[]);
}

/// A run with something to write looks at what is there; one without reads nothing of it.
#[test]
fn nothing_is_built_upon_a_damaged_index() {
    let files = TempDir::new().expect("a temporary folder");
    let riddle = home(files.path());
    // Where nobody looks who only opens it.
    for (index, part) in [("keyword", "pos"), ("terms", "idx")] {
        let of_part = |it: &PathBuf| it.extension().is_some_and(|it| it == part);
        let file = parts(&riddle, index).into_iter().find(of_part).expect("there");
        let mut bytes = fs::read(&file).expect("read");
        bytes[0] ^= 1;
        fs::write(&file, bytes).expect("written");
    }
    riddle.run(&["index"]).ok();
    expect(&riddle, &["the keyword index is damaged", "the index of weighed terms is damaged"]);
    write(files.path(), "new.md", "# New\n\nThe dinghy lies upside down on the bank.\n");
    riddle.run(&["index"]).ok();
    expect(&riddle, &[]);
    assert_eq!(riddle.find("dinghy upside down")[0], "new.md");
}

#[test]
fn files_that_the_index_does_not_know_yet_are_counted() {
    let (riddle, files) = (Riddle::new(), TempDir::new().expect("a temporary folder"));
    for name in ["same.md", "touched.md", "longer.md", "gone.md"] {
        write(files.path(), name, format!("The winch of {name} takes ten metres of chain.\n"));
    }
    write(files.path(), ".riddleignore", "*.log\n");
    riddle.index(files.path());
    expect(&riddle, &[]);
    // Of the same size: only the time tells.
    write(files.path(), "touched.md", "The winch of touched.md takes two metres of chain.\n");
    let file = fs::File::options().write(true).open(files.path().join("touched.md"));
    let when = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.and_then(|it| it.set_modified(when)).expect("dated");
    write(
        files.path(),
        "longer.md",
        "The winch takes ten metres of chain, and the other one twelve.\n",
    );
    fs::remove_file(files.path().join("gone.md")).expect("removed");
    write(files.path(), "new.md", "The dinghy lies on the bank.\n");
    // What a rule leaves out is nothing to read.
    write(files.path(), "new.log", "started\n");
    expect(
        &riddle,
        &[
            "1 file is no longer there: run `riddle index`",
            "2 files have changed since they were read: run `riddle index`",
            "1 file waits to be read: run `riddle index`",
        ],
    );
    riddle.run(&["index"]).ok();
    expect(&riddle, &[]);
}
