//! Killed while an index is compacted: segments of words or terms are merged into one, and the slots of vectors that
//! are
//! gone are left out. Nothing is lost by it, and nothing comes back.
//!
//! Compactions are short: a run is watched until the files of one are there, and killed before they are all there is.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use riddle_tests::{Riddle, noted, snapshot, tiny_model, token, write};
use serde_json::Value;
use tempfile::TempDir;

use crate::crash::{FIRST_SECTION, copy, kills, nearest, sections, share};

/// Kills of each kind unless `RIDDLE_KILLS` says how many.
const KILLS: u64 = 3;

/// Segments of words that become one (tantivy's `LogMergePolicy`).
const MERGED: usize = 8;

/// How often it is looked whether a compaction has begun.
const LOOK: Duration = Duration::from_micros(200);

/// How a home shows that it is compacted.
#[derive(Debug, Clone, Copy)]
struct Compaction {
    /// One has begun, and not yet removed what it replaces.
    is_under_way: fn(&Path) -> bool,
    /// What it has made counts.
    is_committed: fn(&Path) -> bool,
}

/// Where there are more segments than are merged, what they become is there as well.
const WORDS: Compaction = Compaction {
    is_under_way: |home| segments(&home.join("keyword")) > MERGED,
    is_committed: |home| is_one_segment(&home.join("keyword")),
};

const TERMS: Compaction = Compaction {
    is_under_way: |home| indexes(&home.join("terms")).any(|it| segments(&it) > MERGED),
    is_committed: |home| indexes(&home.join("terms")).any(|it| is_one_segment(&it)),
};

const VECTORS: Compaction = Compaction {
    // Codes of two generations.
    is_under_way: |home| {
        let codes = |it: &Path| names(it).filter(|it| it.starts_with("codes-")).count();
        indexes(&home.join("vector")).any(|it| codes(&it) > 1)
    },
    is_committed: |home| {
        indexes(&home.join("vector")).any(|it| value(&it.join("current.json"))["generation"] == 1)
    },
};

/// Folders of indexes: each encoder has its own.
fn indexes(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path())
}

/// What a file of an index says; nothing where there is none.
fn value(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap_or_default()).unwrap_or_default()
}

/// A text that is in the library all the while, one that is removed, and one that comes in the run that is killed.
const TEXTS: [&str; 3] = ["kept.md", "gone.md", "last.md"];

/// A word of one section that stays, of all that go, of all that stay, and of what comes.
const QUERIES: [&str; 4] = ["zorlobafafax", "gone", "painted", "quillfeather"];

/// Names of a folder's files.
fn names(folder: &Path) -> impl Iterator<Item = String> + use<> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|it| it.file_name().into_string().ok())
}

/// Segments of an index, whole or not.
fn segments(index: &Path) -> usize {
    let is_id = |it: &str| it.len() == 32 && it.bytes().all(|it| it.is_ascii_hexdigit());
    let ids = names(index)
        .filter_map(|it| it.split_once('.').map(|it| it.0.to_owned()))
        .filter(|it| is_id(it));
    ids.collect::<BTreeSet<_>>().len()
}

/// Whether its last commit has one segment.
fn is_one_segment(index: &Path) -> bool {
    value(&index.join("meta.json"))["segments"].as_array().is_some_and(|it| it.len() == 1)
}

/// What a home finds by words, and by the index whose rank is called so.
fn found(riddle: &Riddle, rank: Option<&str>) -> (Value, Vec<Value>) {
    let near = rank.map(|it| nearest(riddle, it, "what was painted", TEXTS[0]));
    (snapshot(riddle, &QUERIES), near.unwrap_or_default())
}

/// How long a compaction lasts when nobody disturbs it; a guess where it was over before anybody looked.
fn duration(riddle: &Riddle, compaction: Compaction) -> Duration {
    let mut run = riddle.start(&["index"]);
    let (mut begun, mut ended) = (None, None);
    while !run.has_ended() {
        if (compaction.is_under_way)(riddle.home()) {
            begun.get_or_insert_with(Instant::now);
        } else if begun.is_some() {
            ended.get_or_insert_with(Instant::now);
        }
        thread::sleep(LOOK);
    }
    run.wait().ok();
    assert!((compaction.is_committed)(riddle.home()), "nothing was compacted");
    begun.map_or(Duration::from_millis(20), |it| ended.unwrap_or_else(Instant::now) - it)
}

/// Kills a run that long after its compaction has begun; whether it was still under way then.
fn kill_in_it(riddle: &Riddle, compaction: Compaction, delay: Duration) -> bool {
    let mut run = riddle.start(&["index"]);
    while !run.has_ended() && !(compaction.is_under_way)(riddle.home()) {
        thread::sleep(LOOK);
    }
    thread::sleep(delay);
    run.kill();
    let code = run.wait().code;
    assert!(matches!(code, None | Some(0)), "killed, not failed: {code:?}");
    code.is_none() && (compaction.is_under_way)(riddle.home())
}

/// Kills runs on copies of a home that is about to be compacted; each then becomes what an undisturbed one is.
fn disturb(ready: &Riddle, compaction: Compaction, rank: Option<&str>) {
    let begin = || {
        let riddle = Riddle::new();
        copy(ready.home(), riddle.home());
        riddle
    };
    let riddle = begin();
    let mut most = duration(&riddle, compaction);
    let expected = found(&riddle, rank);
    let files = expected.0["files"].as_array().map_or(0, Vec::len);
    assert_eq!(token(FIRST_SECTION + 77), QUERIES[0]);
    for (place, count) in [1, 0, 1, 1].into_iter().enumerate() {
        let there = expected.0["found"][place][1].as_array().map(Vec::len);
        assert_eq!(there, Some(count), "{}: {:#}", QUERIES[place], expected.0);
    }
    let (mut hits, mut late, mut attempts, enough) = (0, 0, 0, kills(KILLS));
    while hits < enough {
        attempts += 1;
        let tries = 10 * (enough + 1);
        assert!(attempts < tries, "{hits} of {tries} runs were killed while they compacted");
        let riddle = begin();
        if kill_in_it(&riddle, compaction, most.mul_f64(share(attempts))) {
            hits += 1;
            late += u64::from((compaction.is_committed)(riddle.home()));
            most = most.mul_f64(1.1);
        } else {
            // Too late: how long it takes changes with what else the machine does.
            most = most.mul_f64(0.8);
        }
        riddle.run(&["index"]).ok();
        assert_eq!(found(&riddle, rank), expected, "after {hits} kills");
        let said = riddle.run(&["check"]).ok();
        assert!(said.contains("all is well"), "after {hits} kills: {said}");
        let again: Value = riddle.json(&["index"]);
        assert_eq!((&again["unchanged"], &again["read"]), (&files.into(), &0.into()), "{again:#}");
    }
    noted(&format!(
        "{hits} of {attempts} runs were killed while they compacted, {late} of them when what was \
         replaced was not removed yet"
    ));
}

/// Takes the text that goes out of the library, and brings the one that comes.
fn change(files: &Path) {
    fs::remove_file(files.join(TEXTS[1])).expect("removed");
    write(files, TEXTS[2], "# Last\n\nThe quillfeather came when all else was there.\n");
}

/// Has a home one segment less than are merged: every run that adds something adds one.
fn add_segments(ready: &Riddle, files: &Path, index: &Path) {
    for n in 0.. {
        let there = segments(index);
        assert!(there < MERGED && n < MERGED, "{there} segments after {n} runs");
        if there == MERGED - 1 {
            return;
        }
        write(files, &format!("note {n}.md"), format!("# Note {n}\n\nA few words.\n"));
        ready.run(&["index"]).ok();
    }
}

#[test]
fn kill_9_while_the_words_are_merged() {
    let files = TempDir::new().expect("a temporary folder");
    write(files.path(), TEXTS[0], sections("Kept", 2_000));
    write(files.path(), TEXTS[1], sections("Gone", 1_000));
    let ready = Riddle::new();
    ready.index(files.path());
    add_segments(&ready, files.path(), &ready.home().join("keyword"));
    change(files.path());
    disturb(&ready, WORDS, None);
}

#[test]
fn kill_9_while_the_weighed_terms_are_merged() {
    let files = TempDir::new().expect("a temporary folder");
    write(files.path(), TEXTS[0], sections("Kept", 300));
    write(files.path(), TEXTS[1], sections("Gone", 100));
    let ready = Riddle::new();
    let encoder = tiny_model("tiny-bert-sparse-encoder").display().to_string();
    ready.run(&["models", "import", &encoder, "--name", "tiny-sparse"]).ok();
    ready.run(&["models", "use", "tiny-sparse"]).ok();
    ready.index(files.path());
    let index = indexes(&ready.home().join("terms")).next().expect("terms were weighed");
    add_segments(&ready, files.path(), &index);
    change(files.path());
    disturb(&ready, TERMS, Some("sparse_rank"));
}

/// So many vectors stay that they keep a graph, which is carried over; so many go that it is worth it.
#[test]
fn kill_9_while_the_vectors_are_compacted() {
    let files = TempDir::new().expect("a temporary folder");
    write(files.path(), TEXTS[0], sections("Kept", 10_100));
    write(files.path(), TEXTS[1], sections("Gone", 4_500));
    let ready = Riddle::new();
    let encoder = tiny_model("tiny-static-embedder").display().to_string();
    ready.run(&["index", &files.path().display().to_string(), "--embedder", &encoder]).ok();
    change(files.path());
    disturb(&ready, VECTORS, Some("vector_rank"));
}
