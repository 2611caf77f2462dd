//! Interrupted at any moment: nothing is lost, nothing is there twice.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use riddle_tests::{Riddle, archive, noted, notes, skipped, snapshot, tiny_model, token, write};
use serde_json::Value;
use tempfile::TempDir;

use crate::scans;

/// Files of the library: enough that a run is mostly reading, few enough for twenty of them.
const FILES: usize = 150;

/// Kills, spread over the whole run, unless `RIDDLE_KILLS` says how many.
const KILLS: u64 = 20;

/// Kills where a run takes seconds.
pub(crate) const FEW_KILLS: u64 = 6;

pub(crate) fn kills(unless: u64) -> u64 {
    let said = std::env::var("RIDDLE_KILLS").ok();
    said.map_or(unless, |it| it.parse().expect("RIDDLE_KILLS is a number"))
}

/// What meaning is asked for.
const NEAR: &str = "Log 77: on day 200 the bridge was painted";

/// Words of single notes (see [`token`]), and a word of many.
const QUERIES: [&str; 4] = ["zorfax", "zorfafax", "zorkorepax", "bridge"];

/// Numbers that look random and are the same in every run (splitmix64).
fn random(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A share of one that looks random and is the same in every run.
pub(crate) fn share(seed: u64) -> f64 {
    (random(seed) % 1000) as f64 / 1000.0
}

/// Number of the first section's word: no note has it (see [`token`]).
pub(crate) const FIRST_SECTION: usize = 5_000;

/// A text of many sections, each a passage of its own and with a word of its own.
pub(crate) fn sections(title: &str, count: usize) -> String {
    let mut text = format!("# {title}\n\n");
    for n in 0..count {
        let (day, word) = (random(n as u64) % 365, token(FIRST_SECTION + n));
        text += &format!("## {title} {n}\n\nOn day {day} the {word} was painted.\n\n");
    }
    text
}

/// Places of the passages of one file that an index finds for a question, by the rank that it gives them. Of one file:
/// among those of the same worth, who was read first is first.
pub(crate) fn nearest(riddle: &Riddle, rank: &str, query: &str, file: &str) -> Vec<Value> {
    const ENOUGH: usize = 20;
    let response = riddle.json(&["search", query, "--no-rerank", "-k", "1000"]);
    let hits = response["hits"].as_array().expect("a list of hits");
    let of_file = |it: &&Value| it["path"].as_str().is_some_and(|it| it.ends_with(file));
    let mut ranked: Vec<(u64, Value)> = hits
        .iter()
        .filter(of_file)
        .filter_map(|it| Some((it["trace"][rank].as_u64()?, it["location"].clone())))
        .collect();
    ranked.sort_by_key(|it| it.0);
    assert!(ranked.len() >= ENOUGH, "{} have a {rank}: {response:#}", ranked.len());
    ranked.into_iter().take(ENOUGH).map(|it| it.1).collect()
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

/// An undisturbed run: how long it takes, and what is there then.
fn undisturbed(riddle: &Riddle, args: &[String], queries: &[&str]) -> (u64, Value) {
    let started = Instant::now();
    riddle.run(args).ok();
    let duration = u64::try_from(started.elapsed().as_micros()).expect("a short run").max(1);
    (duration, snapshot(riddle, queries))
}

/// Kills runs until it is enough, each home as often as it takes until all is done there; a home is then what an
/// undisturbed one is.
fn disturb(
    args: &[String],
    (duration, expected): (u64, &Value),
    enough: u64,
    queries: &[&str],
    begin: &dyn Fn() -> Riddle,
) {
    let (mut riddle, mut kills, mut rounds) = (begin(), 0, 0);
    while kills < enough {
        rounds += 1;
        assert!(rounds < 10 * enough, "the program is never caught at work");
        let delay = Duration::from_micros(random(rounds) % duration);
        if kill_after(&riddle, args, delay) {
            kills += 1;
        } else {
            // Everything is done in spite of all kills: compare, and begin again.
            assert_eq!(snapshot(&riddle, queries), *expected, "after {kills} kills");
            riddle = begin();
        }
    }
    riddle.run(args).ok();
    assert_eq!(snapshot(&riddle, queries), *expected, "after {kills} kills");
    let again: Value = riddle.json(&["index"]);
    let files = expected["files"].as_array().expect("files").len();
    assert_eq!((&again["unchanged"], &again["read"]), (&files.into(), &0.into()), "{again:#}");
}

fn check(files: &Path, embedder: Option<&PathBuf>) {
    let args = index_args(files, embedder);
    let (duration, expected) = undisturbed(&Riddle::new(), &args, &QUERIES);
    for (place, n) in [7, 77, 149].into_iter().enumerate() {
        assert_eq!(QUERIES[place], token(n));
        assert_eq!(expected["found"][place][1].as_array().map(Vec::len), Some(1), "{expected:#}");
    }
    assert_eq!(expected["files"].as_array().map(Vec::len), Some(FILES));

    disturb(&args, (duration, &expected), kills(KILLS), &QUERIES, &Riddle::new);
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

/// Containers, a table and a scan among notes, so that a kill meets parsers of all kinds, pictures that are read, and
/// vectors.
#[test]
fn kill_9_among_archives_mails_and_scans() {
    let files = TempDir::new().expect("a temporary folder");
    notes(files.path(), 30);
    let lease = "# Lease\n\nThe quay shed is let until October 2031.\n".repeat(40);
    let parts: Vec<(String, String)> =
        (0..12).map(|n| (format!("shed/part {n}.md"), format!("Part {n}.\n\n{lease}"))).collect();
    let parts: Vec<(&str, &[u8])> =
        parts.iter().map(|it| (it.0.as_str(), it.1.as_bytes())).collect();
    write(files.path(), "papers.zip", archive(&parts));
    let mails = (0..40).map(|n| {
        format!(
            "From a Mon\nFrom: Ann <ann@example.org>\nSubject: Winch {n}\n\
             Date: Mon, 2 Mar 2026 10:00:00 +0000\n\nThe winch takes {n} metres of chain.\n\n"
        )
    });
    write(files.path(), "archive.mbox", mails.collect::<String>());
    let rows = (0..500).map(|n| format!("Malthouse Row;{n};{}\n", 700 + n));
    write(
        files.path(),
        "rents.csv",
        std::iter::once("Place;Month;Rent\n".to_owned()).chain(rows).collect::<String>(),
    );
    let store = scans::readers();
    if store.is_some() {
        write(files.path(), "contract.pdf", scans::contract());
    } else {
        skipped("no scan is among the files: `riddle models pull ocr-small` fetches what reads it");
    }
    let mut args = index_args(files.path(), Some(&tiny_model("tiny-bert-encoder")));
    if store.is_some() {
        args.extend(["--scans".to_owned(), "all".to_owned()]);
    }
    let queries = ["zorfax", "bridge", "quay shed", "winch chain", "Malthouse", "deposit"];
    let begin = || store.clone().map_or_else(Riddle::new, Riddle::with_models);
    let (duration, expected) = undisturbed(&begin(), &args, &queries);
    for (found, query) in queries.iter().enumerate().take(5 + usize::from(store.is_some())) {
        let there = expected["found"][found][1].as_array().map_or(0, Vec::len);
        assert!(there > 0, "{query}: {expected:#}");
    }
    disturb(&args, (duration, &expected), kills(FEW_KILLS), &queries, &begin);
}

/// Half of the files are gone: catalog and both indexes give them up, and what was deleted is compacted away.
#[test]
fn kill_9_while_half_of_it_is_deleted() {
    let files = TempDir::new().expect("a temporary folder");
    notes(files.path(), FILES);
    let args = index_args(files.path(), Some(&tiny_model("tiny-bert-encoder")));
    let whole = Riddle::new();
    whole.run(&args).ok();
    delete_every_second(files.path());
    let begin = || {
        let riddle = Riddle::new();
        copy(whole.home(), riddle.home());
        riddle
    };
    let queries = ["zorfax", "zorfafax", "bridge", "letter"];
    let (duration, expected) = undisturbed(&begin(), &args, &queries);
    assert_eq!(expected["files"].as_array().map(Vec::len), Some(FILES / 2));
    disturb(&args, (duration, &expected), kills(KILLS), &queries, &begin);
}

/// Deletes every second note, by the order of their paths.
fn delete_every_second(folder: &Path) {
    let (mut open, mut files) = (vec![folder.to_path_buf()], Vec::new());
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).expect("readable").flatten() {
            if entry.path().is_dir() { open.push(entry.path()) } else { files.push(entry.path()) }
        }
    }
    files.sort();
    for it in files.iter().skip(1).step_by(2) {
        fs::remove_file(it).expect("removed");
    }
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("readable").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

/// A file of many sections.
const LOG: &str = "log.md";

/// Sections of the file whose vectors take longest: so many batches of them that a run is killed between two.
const SECTIONS: usize = 1500;

/// Killed while vectors are made, when some are there and others are not: words find everything all the while, and what
/// has a vector keeps it.
#[test]
fn kill_9_in_the_queue_of_vectors_loses_no_word_and_no_vector() {
    let files = TempDir::new().expect("a temporary folder");
    notes(files.path(), FILES);
    write(files.path(), LOG, sections("Log", SECTIONS));
    let args = index_args(files.path(), Some(&tiny_model("tiny-bert-encoder")));
    let whole = Riddle::new();
    let (_, expected) = undisturbed(&whole, &args, &QUERIES);
    let (near, all) = (nearest(&whole, "vector_rank", NEAR, LOG), vectors(&whole).1);
    let is_whole = |riddle: &Riddle, kills: u64| {
        assert_eq!(vectors(riddle), (all, all), "after {kills} kills");
        assert_eq!(snapshot(riddle, &QUERIES), expected, "after {kills} kills");
        assert_eq!(nearest(riddle, "vector_rank", NEAR, LOG), near, "after {kills} kills");
    };
    let (mut riddle, mut least) = (Riddle::new(), 0);
    let (mut hits, mut attempts, enough) = (0, 0, kills(FEW_KILLS));
    // Most time given to a run after its first vectors: less whenever it was done by then, else more.
    let mut patience = Duration::from_millis(200);
    while hits < enough {
        attempts += 1;
        let tries = 10 * (enough + 1);
        assert!(attempts < tries, "{hits} of {tries} runs were killed between two vectors");
        kill_among_vectors(&riddle, &args, least, patience.mul_f64(share(attempts)));
        let (now, there) = vectors(&riddle);
        assert!(now >= least, "{now} vectors, and {least} were there before");
        if now == all {
            patience /= 2;
            riddle.run(&args).ok();
            is_whole(&riddle, hits);
            (riddle, least) = (Riddle::new(), 0);
        } else if now > least {
            hits += 1;
            least = now;
            patience = patience.mul_f64(1.1);
            let status = riddle.run(&["status"]).ok();
            assert!(status.contains("% by meaning"), "{status}");
            assert_eq!(there, all, "every passage is there before the first vector is made");
            let found = riddle.find(&token(149));
            assert_eq!(found.first().map(String::as_str), Some("note-149.md"));
        }
    }
    riddle.run(&args).ok();
    is_whole(&riddle, hits);
    noted(&format!("{hits} of {attempts} runs were killed between two vectors"));
}

/// Starts a run and kills it that long after it has made vectors beyond the first `least`; one that has made them all
/// by then may be over.
fn kill_among_vectors(riddle: &Riddle, args: &[String], least: u64, delay: Duration) {
    let mut run = riddle.start(args);
    while !run.has_ended() && vectors(riddle).0 <= least {
        thread::sleep(Duration::from_millis(2));
    }
    thread::sleep(delay);
    run.kill();
    let code = run.wait().code;
    assert!(matches!(code, None | Some(0)), "killed, not failed: {code:?}");
}

/// Passages that have a vector, and all; none before there is anything.
fn vectors(riddle: &Riddle) -> (u64, u64) {
    let outcome = riddle.run(&["status", "--json"]);
    let status: Value = serde_json::from_str(&outcome.stdout).unwrap_or_default();
    let number = |it: &str| status["meaning"][it].as_u64().unwrap_or(0);
    (number("done"), number("passages"))
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
