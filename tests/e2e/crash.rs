//! Interrupted at any moment: nothing is lost, nothing is there twice.

use std::{
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use riddle_tests::{Riddle, notes, skipped, snapshot, tiny_model, token};
use serde_json::Value;
use tempfile::TempDir;

/// Files of the library: enough that a run is mostly reading, few enough for twenty of them.
const FILES: usize = 150;

/// Kills, spread over the whole run.
const KILLS: u64 = 20;

/// Words of single notes (see [`token`]), and a word of many.
const QUERIES: [&str; 4] = ["zorfax", "zorfafax", "zorkorepax", "bridge"];

/// Numbers that look random and are the same in every run (splitmix64).
fn random(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn index_args(files: &Path, embedder: Option<&PathBuf>) -> Vec<String> {
    let mut args = vec!["index".to_owned(), files.display().to_string()];
    if let Some(embedder) = embedder {
        args.extend(["--embedder".to_owned(), embedder.display().to_string()]);
    }
    args
}

/// Kills a run that long after its start; false when it was done before.
fn kill_after(riddle: &Riddle, args: &[String], delay: Duration) -> bool {
    let mut run = riddle.start(args);
    let started = Instant::now();
    while started.elapsed() < delay {
        if run.has_ended() {
            assert_eq!(run.wait().code, Some(0), "an undisturbed resume succeeds");
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    run.signal("KILL");
    let code = run.wait().code;
    // It may have ended between the last look and the signal.
    assert!(matches!(code, None | Some(0)), "killed, not failed: {code:?}");
    code.is_none()
}

fn check(files: &Path, embedder: Option<&PathBuf>) {
    let args = index_args(files, embedder);
    let undisturbed = Riddle::new();
    let started = Instant::now();
    undisturbed.run(&args).ok();
    let duration = u64::try_from(started.elapsed().as_micros()).expect("a short run").max(1);
    let expected = snapshot(&undisturbed, &QUERIES);
    for (place, n) in [7, 77, 149].into_iter().enumerate() {
        assert_eq!(QUERIES[place], token(n));
        assert_eq!(expected["found"][place][1].as_array().map(Vec::len), Some(1), "{expected:#}");
    }
    assert_eq!(expected["files"].as_array().map(Vec::len), Some(FILES));

    let (mut riddle, mut kills, mut rounds) = (Riddle::new(), 0, 0);
    while kills < KILLS {
        rounds += 1;
        assert!(rounds < 10 * KILLS, "the program is never caught at work");
        let delay = Duration::from_micros(random(rounds) % duration);
        if kill_after(&riddle, &args, delay) {
            kills += 1;
        } else {
            // Everything is indexed in spite of all kills: compare, and begin again.
            assert_eq!(snapshot(&riddle, &QUERIES), expected, "after {kills} kills");
            riddle = Riddle::new();
        }
    }
    riddle.run(&args).ok();
    assert_eq!(snapshot(&riddle, &QUERIES), expected, "after {kills} kills");
    let again: Value = riddle.json(&["index"]);
    assert_eq!((&again["unchanged"], &again["read"]), (&FILES.into(), &0.into()), "{again:#}");
}

#[test]
fn kill_9_at_twenty_moments_keywords_only() {
    let files = TempDir::new().expect("a temporary folder");
    notes(files.path(), FILES);
    check(files.path(), None);
}

#[test]
fn kill_9_at_twenty_moments_with_vectors() {
    let files = TempDir::new().expect("a temporary folder");
    notes(files.path(), FILES);
    check(files.path(), Some(&tiny_model("tiny-bert-encoder")));
}

/// Killed while vectors are made: words find everything all the while, and what has a vector keeps it.
#[test]
fn kill_9_in_the_queue_of_vectors_loses_no_word_and_no_vector() {
    let files = TempDir::new().expect("a temporary folder");
    notes(files.path(), FILES);
    let encoder = tiny_model("tiny-bert-encoder");
    let args = index_args(files.path(), Some(&encoder));
    let done = |riddle: &Riddle| {
        let meaning = riddle.json(&["status"])["meaning"].clone();
        (meaning["done"].as_u64().unwrap_or(0), meaning["passages"].as_u64().unwrap_or(0))
    };
    let (mut least, mut partly) = (0, 0);
    let riddle = Riddle::new();
    for round in 0..40 {
        let mut run = riddle.start(&args);
        let catalog = riddle.home().join("catalog.sqlite");
        run.until("the catalog is there", || catalog.exists());
        thread::sleep(Duration::from_millis(20 + random(round) % 400));
        run.signal("KILL");
        run.wait();
        if riddle.json(&["status"])["queue"] != 0 || riddle.json(&["status"])["chunks"] == 0 {
            continue;
        }
        let (now, all) = done(&riddle);
        assert!(now >= least && now <= all, "{now} of {all}, {least} before");
        least = now;
        if now < all {
            partly += 1;
            let status = riddle.run(&["status"]).ok();
            assert!(status.contains("% by meaning"), "{status}");
        } else {
            break;
        }
    }
    riddle.run(&args).ok();
    let (now, all) = done(&riddle);
    assert_eq!(now, all);
    assert_eq!(riddle.find(&token(149)).first().map(String::as_str), Some("note-149.md"));
    let undisturbed = Riddle::new();
    undisturbed.run(&args).ok();
    assert_eq!(snapshot(&riddle, &QUERIES), snapshot(&undisturbed, &QUERIES));
    if partly == 0 {
        skipped("no run was killed between two vectors");
    }
}

#[test]
fn ctrl_c_keeps_what_was_read_and_says_so() {
    let files = TempDir::new().expect("a temporary folder");
    notes(files.path(), 600);
    let args = index_args(files.path(), None);
    let riddle = Riddle::new();
    let mut run = riddle.start(&args);
    let catalog = riddle.home().join("catalog.sqlite");
    run.until("the catalog is there", || catalog.exists());
    run.signal("INT");
    let outcome = run.wait();
    // A fast machine may be done: then nothing was interrupted.
    if outcome.code == Some(0) {
        return skipped("the run ended before Ctrl-C reached it");
    }
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    let last = outcome.stderr.trim_end().lines().last().unwrap_or_default().to_owned();
    assert!(last.contains("interrupted") && last.contains("queue"), "{outcome:#?}");
    let resumed = riddle.json(&args);
    assert_eq!(resumed["states"]["indexed"], 600, "{resumed:#}");
    assert_eq!(riddle.find(&token(599)), ["note-599.md"]);
}
