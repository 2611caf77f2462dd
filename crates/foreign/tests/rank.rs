//! The type that other languages are given, on the model that comes with it and on a tiny one of random weights.

use std::path::PathBuf;

use riddle_rerank::{Mode, Options, Reranker};

const TEXTS: [&str; 4] = [
    "The rye loaf rests for twelve hours.",
    "The hull of the boat is painted blue.",
    "It rained in the afternoon.",
    "A mooring for the winter costs 640 euros.",
];

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

fn tiny() -> Options {
    let dir = golden("tiny-bert-cross-encoder");
    Options { model: Some(dir.to_string_lossy().into_owned()), ..Options::default() }
}

#[track_caller]
fn refused(options: &Options) -> String {
    Reranker::open(options).expect_err("refused").to_string()
}

#[test]
fn the_model_that_comes_with_it_knows_what_answers() {
    let cache = tempfile::tempdir().expect("a folder");
    let options = Options { cache_dir: Some(cache.path().to_path_buf()), ..Options::default() };
    let reranker = Reranker::open(&options).expect("opens");
    let ranking = reranker.rank("Which color has the boat?", &TEXTS, Some(2)).expect("ranks");
    assert_eq!(ranking.results.len(), 2);
    assert_eq!(ranking.results[0].index, 1, "{ranking:?}");
    let ranking = reranker.rank("What does a winter mooring cost?", &TEXTS, None).expect("ranks");
    assert_eq!((ranking.results.len(), ranking.results[0].index), (4, 3));
    // The same within a budget that the whole process keeps; and what is promised needs no calibration of one's own.
    let options = Options { memory_budget: Some(1 << 30), mode: Some(Mode::Off), ..options };
    let within = Reranker::open(&options).expect("opens");
    let twin = within.rank("What does a winter mooring cost?", &TEXTS, None).expect("ranks");
    assert_eq!(ranking.results, twin.results);
    let error = Reranker::open(&Options { memory_budget: Some(1 << 20), ..options })
        .and_then(|it| it.rank("q", &TEXTS, None))
        .expect_err("a mebibyte");
    assert!(error.is_out_of_budget(), "{error}");
}

#[test]
fn pruning_spares_work_and_keeps_what_it_promises() {
    let cache = tempfile::tempdir().expect("a folder");
    let options = Options { cache_dir: Some(cache.path().to_path_buf()), ..Options::default() };
    let texts: Vec<String> = (0..24)
        .map(|it| {
            let what = if it == 7 { "the hull of the boat is blue" } else { "nothing of a boat" };
            format!("Page {it}: {what}, said number {it}.")
        })
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let open = |options: Options| Reranker::open(&options).expect("opens");
    let full = open(Options { mode: Some(Mode::Off), ..options.clone() });
    let full = full.rank("Which color has the hull?", &texts, Some(5)).expect("ranks");
    assert_eq!(full.candidate_layers, 24 * 4);
    let set = open(Options { precision: Some(0.9), ..options.clone() });
    let set = set.rank("Which color has the hull?", &texts, Some(5)).expect("ranks");
    assert!(set.candidate_layers < full.candidate_layers, "{set:?}");
    assert_eq!((set.results.len(), set.results[0].index), (5, 7));
    // Of 1 000 results nothing was learned: that is said, and everybody is read.
    let many: Vec<&str> = texts.iter().cycle().take(60).copied().collect();
    let many = open(Options { precision: Some(0.9), ..options })
        .rank("Which color has the hull?", &many, Some(50))
        .expect("ranks");
    assert!(many.note.is_some_and(|it| it.contains("best 50")));
}

#[test]
fn scores_of_pairs_are_those_of_the_ranking_in_the_order_of_the_pairs() {
    let reranker = Reranker::open(&tiny()).expect("opens");
    let queries = ["blue boat", "rye"];
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for text in TEXTS {
        pairs.extend(queries.map(|query| (query, text)));
    }
    let scores = reranker.scores(&pairs).expect("scores");
    assert_eq!(scores.len(), 8);
    for (number, query) in queries.iter().enumerate() {
        let ranking = reranker.rank(query, &TEXTS, None).expect("ranks");
        for place in ranking.results {
            let score = scores[place.index * 2 + number];
            assert_eq!(score.index, place.index * 2 + number);
            assert_eq!((score.score, score.raw_score), (place.score, place.raw_score));
        }
    }
    // More than one forward holds.
    let many: Vec<(&str, &str)> = pairs.iter().cycle().take(600).copied().collect();
    let many = reranker.scores(&many).expect("scores");
    assert!(
        many.iter().enumerate().all(|(at, it)| it.index == at && it.score == scores[at % 8].score)
    );
    assert!(reranker.scores(&[]).expect("none").is_empty());
}

#[test]
fn what_makes_no_sense_is_told() {
    let reranker = Reranker::open(&tiny()).expect("opens");
    assert!(reranker.rank(" ", &TEXTS, None).expect_err("empty").is_bad_request());
    assert!(reranker.rank("q", &[], None).expect("none").results.is_empty());
    assert!(reranker.rank("q", &TEXTS, Some(0)).expect("none").results.is_empty());
    let nowhere = Options { model: Some("/nowhere/at/all".to_owned()), ..Options::default() };
    assert!(refused(&nowhere).contains("config.json"));
    let unknown = Options {
        model: Some("rerank-v9".to_owned()),
        models_dir: Some(golden("")),
        ..Options::default()
    };
    assert!(refused(&unknown).contains("rerank-v9"));
    let named = Options { model: Some("tiny-bert-cross-encoder".to_owned()), ..unknown };
    assert!(Reranker::open(&named).is_ok());
    for (options, word) in [
        (Options { mode: Some(Mode::Set), ..tiny() }, "no calibration"),
        (Options { precision: Some(0.9), ..tiny() }, "no calibration"),
        (Options { precision: Some(1.5), ..tiny() }, "above 0 and below 1"),
        (Options { error_probability: Some(f64::NAN), ..tiny() }, "above 0 and below 1"),
        (Options { precision: Some(0.9), error_probability: Some(0.1), ..tiny() }, "not both"),
        (Options { precision: Some(0.9), mode: Some(Mode::Off), ..tiny() }, "mode off"),
        (Options { threads: Some(0), ..tiny() }, "1 or more"),
        (Options { calibration: Some("/nowhere.json".into()), ..tiny() }, "/nowhere.json"),
    ] {
        let told = refused(&options);
        assert!(told.contains(word), "{told}");
    }
}
