//! Late interaction: what is particular to models that read queries and texts apart. That they equal the reference and
//! do not depend on how they are run is in `engine.rs`, with the other families.

mod copies;

use std::path::Path;

use riddle_grating::{
    Centroids, Engine, EngineOptions, Error, ShardNumbers, SliceOrdering, write_shards,
};
use riddle_types::{RerankOutcome, SilentObserver};
use serde::Deserialize;

use crate::copies::{changed, copy_all, cut, golden};

#[derive(Deserialize)]
struct Expected {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    query: String,
    text: String,
    scores: Vec<f32>,
    /// Were the masks seen.
    attending: Vec<f32>,
}

fn options() -> EngineOptions {
    EngineOptions { threads: 2, ..EngineOptions::default() }
}

fn run(dir: &Path, options: EngineOptions, query: &str, texts: &[&str]) -> RerankOutcome {
    let engine = Engine::open(dir, options).expect("opens");
    engine.run(query, texts, texts.len(), &mut SilentObserver).expect("runs")
}

fn scores(outcome: &RerankOutcome) -> Vec<f32> {
    let mut ranked = outcome.ranked.clone();
    ranked.sort_by_key(|it| it.index);
    ranked.iter().map(|it| it.raw_score).collect()
}

/// The masks that queries are filled with see and are not seen, or are seen, as the model's files say.
#[test]
fn masks_are_seen_where_the_files_say_so() {
    let name = "tiny-bert-colbert";
    let json = std::fs::read(golden(name).join("expected.json")).expect("read");
    let expected: Expected = serde_json::from_slice(&json).expect("json");
    let (from, to) = ("\"attend_to_mask_tokens\": false", "\"attend_to_mask_tokens\": true");
    let seen = changed(name, "artifact.metadata", from, to);
    let mut differences = 0;
    for case in &expected.cases {
        for (dir, of_layers) in
            [(golden(name), &case.scores), (seen.path().to_path_buf(), &case.attending)]
        {
            let outcome = run(&dir, options(), &case.query, &[&case.text]);
            let expected = of_layers.last().expect("layers");
            let difference = (scores(&outcome)[0] - expected).abs();
            assert!(difference < 1e-3, "{:?}: differs by {difference}", case.text);
        }
        let [plain, seen] = [&case.scores, &case.attending].map(|it| it.last().expect("layers"));
        differences += usize::from((plain - seen).abs() > 1e-3);
    }
    assert!(differences > 0, "it makes no difference: nothing is shown");
}

/// Of a late interaction's score the sigmoid is (1 + m) / 2 of the mean cosine m: nothing saturates.
#[test]
fn scores_are_a_share_of_the_best_there_is() {
    let outcome =
        run(&golden("tiny-modernbert-late"), options(), "boat", &["boat", "a dock", "bread"]);
    for ranked in &outcome.ranked {
        assert!(ranked.score > 0.0 && ranked.score < 1.0, "{ranked:?}");
        let mean = 2.0 * ranked.score - 1.0;
        assert!((((1.0 + mean) / (1.0 - mean)).ln() - ranked.raw_score).abs() < 1e-3, "{ranked:?}");
    }
}

/// The query's own memory is part of the plan: what a run holds is never more than what was planned.
#[test]
fn what_is_held_is_what_was_planned() {
    let texts: Vec<String> = (0..12).map(|it| "the lock gate ".repeat(1 + it % 5)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for name in ["tiny-bert-colbert", "tiny-modernbert-colbert"] {
        for hidden_on_disk in [false, true] {
            let how = EngineOptions {
                hidden_on_disk,
                window: Some(2),
                micro_batch_tokens: Some(50),
                ..options()
            };
            let stats = run(&golden(name), how, "Where is the boat?", &texts).stats;
            let held = stats.scratch_bytes;
            assert!(held <= stats.plan.planned_bytes, "{name}: {held} of {:?}", stats.plan);
        }
    }
    let budget = EngineOptions { memory_budget: Some(1), ..options() };
    let engine = Engine::open(&golden("tiny-bert-colbert"), budget).expect("opens");
    let refused = engine.run("boat", &texts, 3, &mut SilentObserver);
    assert!(matches!(refused, Err(Error::BudgetTooSmall { .. })), "{refused:?}");
}

/// A query that a tokenizer has no word for, and a text of which nothing is compared, have scores, too.
#[test]
fn odd_texts_have_defined_scores() {
    for name in ["tiny-bert-colbert", "tiny-modernbert-colbert", "tiny-modernbert-late"] {
        let texts = ["", ".,;:!?", "\0", "[MASK] [Q] [unused0]", "\u{202e}x"];
        for query in ["?", "\0", "[MASK]", "[Q] [Q]"] {
            let outcome = run(&golden(name), options(), query, &texts);
            assert!(scores(&outcome).iter().all(|it| it.is_finite()), "{name}: {outcome:?}");
        }
    }
}

#[test]
fn damaged_folders_are_told_by_name() {
    let pylate = "tiny-modernbert-late";
    let (modules, settings) = ("modules.json", "config_sentence_transformers.json");
    for (name, file, from, to, word) in [
        (pylate, modules, "pylate.models.Dense.Dense", "pylate.models.Other", "Other"),
        (pylate, modules, "1_Dense", "../1_Dense", "../1_Dense"),
        (pylate, modules, "1_Dense", "3_Dense", "3_Dense"),
        (pylate, "1_Dense/config.json", "\"in_features\": 32", "\"in_features\": 33", "takes 33"),
        (
            pylate,
            "2_Dense/config.json",
            "\"out_features\": 10",
            "\"out_features\": 11",
            "linear.weight",
        ),
        (
            pylate,
            "2_Dense/config.json",
            "\"out_features\": 10",
            "\"out_features\": 0",
            "no numbers",
        ),
        (pylate, "1_Dense/config.json", "GELU", "system", "system"),
        (pylate, settings, "[Q] ", "[missing]", "[missing]"),
        (pylate, settings, "\"query_length\": 20", "\"query_length\": 9999", "positions"),
        (pylate, settings, "\"query_length\": 20", "\"query_length\": 2", "at least"),
        (pylate, settings, "\"document_length\": 40", "\"document_length\": 2", "at least"),
        ("tiny-bert-colbert", "artifact.metadata", "cosine", "l2", "l2"),
        ("tiny-bert-colbert", "artifact.metadata", "[unused1]", "[unused99]", "[unused99]"),
        ("tiny-bert-colbert", "config.json", "\"bert\"", "\"qwen3\"", "qwen3"),
    ] {
        let dir = changed(name, file, from, to);
        let error = Engine::open(dir.path(), options()).expect_err(word).to_string();
        assert!(error.contains(word), "{file}, {to}: {error}");
    }
    for (name, file) in [
        (pylate, "2_Dense/model.safetensors"),
        (pylate, "1_Dense/config.json"),
        (pylate, "model.safetensors"),
        ("tiny-bert-colbert", "model.safetensors"),
        ("tiny-bert-colbert", "artifact.metadata"),
    ] {
        let dir = cut(name, file);
        let error = Engine::open(dir.path(), options()).expect_err("cut").to_string();
        assert!(error.contains(file), "{file}: {error}");
    }
}

/// A checkpoint whose class promises a projection that is not there.
#[test]
fn a_projection_that_is_missing_is_told() {
    let dir = tempfile::tempdir().expect("temp dir");
    copy_all(&golden("tiny-bert-encoder"), dir.path());
    let config = dir.path().join("config.json");
    let text = std::fs::read_to_string(&config).expect("read").replace("BertModel", "HF_ColBERT");
    std::fs::write(config, text).expect("write");
    let error = Engine::open(dir.path(), options()).expect_err("no projection").to_string();
    assert!(error.contains("linear.weight"), "{error}");
}

/// A deadline's plan computes pairs: these models are refused by what they are.
#[test]
fn a_deadline_is_for_pairs() {
    let beside = tempfile::tempdir().expect("temp dir");
    let path = beside.path().join("shards");
    let dir = golden("tiny-bert-colbert");
    let (numbers, order) = (ShardNumbers::Int8, SliceOrdering::default());
    let made = write_shards(&dir, (&path, "x"), numbers, Centroids::default(), order, &mut |_| ());
    let error = made.expect_err("refused").to_string();
    assert!(error.contains("apart"), "{error}");
}
