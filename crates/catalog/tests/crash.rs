//! kill -9 at any moment: each file is as it was or as it is, and the next run brings the rest.

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
};

use common::{Disk, begin, follow, read, scan, words, work_all};
use riddle_catalog::{Catalog, Embeds, Error, HomeLock};

/// Set for the process that is to be killed; names the home.
const VICTIM: &str = "RIDDLE_TEST_VICTIM_HOME";

/// The files of a generation: each word names it, and every second file is as in the generation before.
fn disk(generation: u64) -> Disk {
    (0..24u64)
        .map(|file| {
            let born = generation - (generation + file) % 2;
            let words: Vec<String> = (0..6).map(|word| format!("g{born}f{file}w{word}")).collect();
            (format!("f{file}"), (words.join(" "), born * 100 + file))
        })
        .collect()
}

/// Indexes generation after generation until it is killed.
fn victim(home: &Path) {
    let _lock = HomeLock::acquire(home).expect("free");
    let catalog = Catalog::open(&home.join("catalog.sqlite")).expect("open");
    let root = catalog.add_root(Path::new("/r")).expect("root").id;
    catalog.register_embedder("e", 2).expect("embedder");
    let mut out = std::io::stdout();
    for generation in (catalog.last_seq().expect("seq") + 2).. {
        let disk = disk(generation);
        catalog.retry_failed().expect("retry");
        scan(&catalog, root, &disk);
        while catalog.pending_jobs().expect("jobs") > 0 {
            let (outcomes, _) = read(&begin(&catalog, 3), &disk);
            writeln!(out, "begun").expect("parent listens");
            catalog.commit_files(&outcomes, Some("e")).expect("commit");
            writeln!(out, "committed").expect("parent listens");
        }
    }
}

#[test]
fn killed_at_any_moment_nothing_is_half() {
    if let Some(home) = std::env::var_os(VICTIM) {
        return victim(Path::new(&home));
    }
    let home = tempfile::tempdir().expect("temp dir");
    for round in 0..12 {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["killed_at_any_moment_nothing_is_half", "--exact", "--nocapture"])
            .env(VICTIM, home.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        // Odd lines end in the middle of a batch, even ones right after it.
        let told = lines.map_while(Result::ok).filter(|it| it == "begun" || it == "committed");
        assert_eq!(told.take(3 + round * 5).count(), 3 + round * 5, "the victim works");
        let held = HomeLock::acquire(home.path()).expect_err("the victim holds it");
        assert!(matches!(held, Error::Locked { pid: Some(pid), .. } if pid == child.id()));
        child.kill().expect("kill -9");
        child.wait().expect("dead");
        look_for_halves(home.path());
    }
    let _lock = HomeLock::acquire(home.path()).expect("the system gave it back");
    let catalog = Catalog::open(&home.path().join("catalog.sqlite")).expect("open");
    let root = catalog.roots().expect("roots")[0].id;
    let last = disk(1 << 40);
    scan(&catalog, root, &last);
    work_all(&catalog, &last);
    catalog.retry_failed().expect("retry");
    work_all(&catalog, &last);
    assert_eq!(words(&catalog), common::expected(&last));
    assert_eq!(catalog.check().expect("check"), []);
    let undisturbed = common::open();
    scan(&undisturbed.1, undisturbed.2, &last);
    work_all(&undisturbed.1, &last);
    assert_eq!(catalog.fingerprint().expect("hash"), undisturbed.1.fingerprint().expect("hash"));
}

fn look_for_halves(home: &Path) {
    let catalog = Catalog::open(&home.join("catalog.sqlite")).expect("reopen");
    assert_eq!(catalog.check().expect("check"), []);
    let mut generations: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    let found = words(&catalog);
    for (path, word) in &found {
        let generation = word.split('f').next().expect("prefix").to_owned();
        generations.entry(path).or_default().insert(generation);
        *counts.entry(path).or_default() += 1;
    }
    assert!(generations.values().all(|it| it.len() == 1), "{generations:?}");
    assert!(counts.values().all(|it| *it == 6), "{counts:?}");
    assert_eq!(catalog.count_without_vector("e", Embeds::Here).expect("count"), 0);
    let mut held = BTreeMap::new();
    follow(&catalog, 0, &mut held);
    assert_eq!(held.len(), found.len(), "the log tells the same as the chunks");
}
