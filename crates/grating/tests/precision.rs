//! The engine on stores of every number format, which stand alone: near the published weights, and invariant to
//! how they are run (invariants 1 and 2 of docs/ARCHITECTURE.md, per format).

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use riddle_grating::{
    Arithmetic, Engine, EngineOptions, StorePrecision, TraceRecorder, convert, module_files,
};
use riddle_types::LayerEvent;
use serde::Deserialize;

const FAMILIES: [&str; 16] = [
    "tiny-bert-cross-encoder",
    "tiny-xlm-roberta-cross-encoder",
    "tiny-roberta-cross-encoder",
    "tiny-mpnet-cross-encoder",
    "tiny-modernbert-cross-encoder",
    "tiny-modernbert-cls-cross-encoder",
    "tiny-qwen3-reranker",
    "tiny-minicpm-layerwise",
    "tiny-modular-reranker",
    "tiny-qwen2-reranker",
    "tiny-zerank-reranker",
    "tiny-bert-colbert",
    "tiny-modernbert-late",
    "tiny-gte-reranker",
    "tiny-deberta-cross-encoder",
    "tiny-xlm-roberta-fused-cross-encoder",
];

/// Largest difference of a raw score from that of f32 weights: models of 32 random columns have scores of about
/// one, and no redundancy that rounding could drown in.
fn tolerance(precision: StorePrecision) -> f32 {
    match precision.as_str() {
        "f32" => 1e-5,
        "f16" => 0.01,
        "bf16" => 0.1,
        // Weights drawn at random have no outliers, so that leaving them light costs them most of a bit.
        "int8" => 0.6,
        _ => 3.0,
    }
}

/// What two ways of summing may do to a score where activations are rounded to bytes or bf16 on the way: a value
/// on the edge between two codes becomes the one or the other.
const ROUNDED: f32 = 0.02;

#[derive(Deserialize)]
struct Expected {
    max_tokens: usize,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

fn expected(dir: &Path) -> Expected {
    let json = std::fs::read(dir.join("expected.json")).expect("read");
    serde_json::from_slice(&json).expect("json")
}

fn texts(dir: &Path) -> Vec<String> {
    let mut texts: Vec<String> = expected(dir).cases.into_iter().map(|it| it.text).collect();
    texts.extend((1..8).map(|n| "the lock gate boat ".repeat(n)));
    texts
}

/// A store of the model and nothing else but what it needs.
fn alone(dir: &Path, precision: StorePrecision) -> tempfile::TempDir {
    let out = tempfile::tempdir().expect("temp dir");
    convert(dir, Some(precision), out.path(), &mut |_| ()).expect("converts");
    let modules = module_files(dir).expect("a list or none");
    let own = ["config.json", "tokenizer.json", "tokenizer_config.json", "modules.json"];
    for name in own.into_iter().chain(modules.iter().map(String::as_str)) {
        if dir.join(name).is_file() {
            let to = out.path().join(name);
            std::fs::create_dir_all(to.parent().expect("has one")).expect("folder");
            std::fs::copy(dir.join(name), to).expect("copied");
        }
    }
    assert!(!out.path().join("model.safetensors").exists());
    out
}

fn options(dir: &Path) -> EngineOptions {
    let max_tokens = Some(expected(dir).max_tokens);
    EngineOptions { threads: 2, max_tokens, share_prefix: false, ..EngineOptions::default() }
}

/// Raw scores after every layer, by candidate.
fn run(model: &Path, options: EngineOptions, texts: &[String]) -> Vec<LayerEvent> {
    let engine = Engine::open(model, options).expect("opens");
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut recorder = TraceRecorder::default();
    engine.run("Where is the boat?", &texts, texts.len(), &mut recorder).expect("runs");
    recorder.layers
}

fn worst(a: &[LayerEvent], b: &[LayerEvent]) -> f32 {
    let scores = a.iter().zip(b).flat_map(|(a, b)| a.scores.iter().zip(&b.scores));
    scores.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn a_store_alone_scores_nearly_as_the_published_weights() {
    for family in FAMILIES {
        let dir = golden(family);
        let texts = texts(&dir);
        let published = run(&dir, options(&dir), &texts);
        for precision in StorePrecision::ALL {
            let store = alone(&dir, precision);
            let layers = run(store.path(), options(&dir), &texts);
            assert_eq!(layers.len(), published.len());
            let worst = worst(&layers, &published);
            eprintln!("{family}, {}: largest difference of a score: {worst:e}", precision.as_str());
            assert!(worst <= tolerance(precision), "{family}, {}: {worst}", precision.as_str());
            // What was rounded away shows somewhere, or the format was not used; f16 or bf16 may be what is published.
            let held = ["f32", "f16", "bf16"].contains(&precision.as_str());
            assert!(worst > 0.0 || held, "{family}, {}", precision.as_str());
        }
    }
}

#[test]
fn products_of_bf16_are_near_those_of_f32() {
    for family in FAMILIES {
        let dir = golden(family);
        let texts = texts(&dir);
        let published = run(&dir, options(&dir), &texts);
        let rounded = EngineOptions { arithmetic: Arithmetic::Bf16, ..options(&dir) };
        let worst = worst(&run(&dir, rounded, &texts), &published);
        eprintln!("{family}: largest difference of a score: {worst:e}");
        assert!(worst <= 0.2, "{family}: {worst}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn scores_do_not_depend_on_how_they_are_computed(
        family in prop::sample::select(FAMILIES.to_vec()),
        precision in prop::sample::select(StorePrecision::ALL.to_vec()),
        bf16 in any::<bool>(),
        window in 1usize..8,
        micro_batch_tokens in prop::sample::select(vec![1, 7, 50, 200, 100_000]),
        threads in 1usize..3,
        embedding_rows in prop::sample::select(vec![0.0f32, 0.05, 1.0]),
        hidden_on_disk in any::<bool>(),
        share_prefix in any::<bool>(),
    ) {
        let dir = golden(family);
        let texts = texts(&dir);
        let store = alone(&dir, precision);
        let arithmetic = if bf16 { Arithmetic::Bf16 } else { Arithmetic::F32 };
        let plain = EngineOptions { arithmetic, ..options(&dir) };
        let reference = run(store.path(), plain.clone(), &texts);
        let other = EngineOptions {
            window: Some(window), micro_batch_tokens: Some(micro_batch_tokens), threads, embedding_rows,
            hidden_on_disk, share_prefix, ..plain
        };
        let layers = run(store.path(), other, &texts);
        let worst = worst(&layers, &reference);
        let rounded = bf16 || precision == StorePrecision::Int8;
        let tolerance = if rounded { ROUNDED } else { 1e-4 };
        prop_assert!(worst <= tolerance, "{} {}: {worst}", family, precision.as_str());
    }
}

#[test]
fn a_store_whose_matrix_has_another_length_is_refused_by_name() {
    let dir = golden(FAMILIES[0]);
    let store = alone(&dir, StorePrecision::Int8);
    let path = store.path().join("config.json");
    let config = std::fs::read_to_string(&path).expect("read");
    // The same matrices for another model: shapes are compared before anything is computed.
    std::fs::write(&path, config.replace("\"intermediate_size\": 64", "\"intermediate_size\": 48"))
        .expect("written");
    let error = Engine::open(store.path(), options(&dir)).expect_err("other shapes").to_string();
    assert!(error.contains("intermediate.dense.weight"), "{error}");
}
