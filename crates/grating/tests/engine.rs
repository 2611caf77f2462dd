//! The engine on committed tiny models: equal to Hugging Face `transformers`, invariant to how it is run,
//! and unbreakable by bad models and requests. Invariants are numbered as in docs/ARCHITECTURE.md.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use riddle_grating::{
    ClusterPruning, Engine, EngineOptions, Error, Mode, Pruning, Trace, TraceRecorder, replay,
};
use riddle_types::{LayerEvent, LayerObserver, RerankOutcome, SilentObserver};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    query: String,
    text: String,
    scores: Vec<f32>,
}

fn tiny() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tiny-bert-cross-encoder")
}

fn cases() -> Vec<Case> {
    let json = std::fs::read(tiny().join("expected.json")).expect("read");
    serde_json::from_slice::<Expected>(&json).expect("json").cases
}

fn options() -> EngineOptions {
    EngineOptions { threads: 2, scores_every_layer: true, ..EngineOptions::default() }
}

fn open(options: EngineOptions) -> Engine {
    Engine::open(&tiny(), options).expect("the tiny model opens")
}

/// Texts of different lengths; some equal, one empty.
fn candidates() -> Vec<String> {
    let mut texts: Vec<String> = cases().into_iter().map(|it| it.text).collect();
    texts.extend((1..14).map(|n| {
        format!("{} {}", "the lock gate ".repeat(n % 5), "boat dock bread hull".repeat(n / 3))
    }));
    texts
}

fn run(engine: &Engine, texts: &[String], top_k: usize) -> (RerankOutcome, Vec<LayerEvent>) {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut recorder = TraceRecorder::default();
    let outcome = engine.run("Where is the boat?", &texts, top_k, &mut recorder).expect("runs");
    (outcome, recorder.layers)
}

/// Invariant 2: mode off equals the reference on the same weights, after every layer.
#[test]
fn scores_equal_transformers_layer_by_layer() {
    let engine = open(options());
    let cases = cases();
    let mut queries: Vec<&str> = cases.iter().map(|it| it.query.as_str()).collect();
    queries.dedup();
    for query in queries {
        let of_query: Vec<&Case> = cases.iter().filter(|it| it.query == query).collect();
        let texts: Vec<&str> = of_query.iter().map(|it| it.text.as_str()).collect();
        let mut recorder = TraceRecorder::default();
        let outcome = engine.run(query, &texts, texts.len(), &mut recorder).expect("runs");
        assert_eq!(recorder.layers.len(), 4);
        for (layer, event) in recorder.layers.iter().enumerate() {
            for (score, case) in event.scores.iter().zip(&of_query) {
                let difference = (score - case.scores[layer]).abs();
                assert!(
                    difference < 1e-3,
                    "{:?}, layer {}: differs by {difference}",
                    case.text,
                    layer + 1
                );
            }
        }
        let mut expected: Vec<usize> = (0..texts.len()).collect();
        expected.sort_by(|&a, &b| of_query[b].scores[3].total_cmp(&of_query[a].scores[3]));
        let ranking: Vec<usize> = outcome.ranked.iter().map(|it| it.index).collect();
        assert_eq!(ranking, expected, "{query}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Invariant 1: in mode off nothing about the run changes the scores.
    #[test]
    fn scores_do_not_depend_on_how_they_are_computed(
        window in 1usize..6,
        micro_batch_tokens in prop::sample::select(vec![1, 7, 50, 200, 100_000]),
        threads in 1usize..3,
        embedding_rows in prop::sample::select(vec![0.0f32, 0.05, 1.0]),
        seed in any::<u64>(),
    ) {
        let texts = candidates();
        let (reference, _) = run(&open(options()), &texts, texts.len());
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|&it| (it as u64 + 1).wrapping_mul(seed | 1).rotate_left(17));
        let shuffled: Vec<String> = order.iter().map(|&it| texts[it].clone()).collect();
        let engine = open(EngineOptions { window: Some(window), micro_batch_tokens, threads, embedding_rows, ..options() });
        // Twice: the second request starts from a used window and cache.
        for _ in 0..2 {
            let (outcome, _) = run(&engine, &shuffled, shuffled.len());
            let mut scores = vec![f32::NAN; texts.len()];
            for ranked in &outcome.ranked {
                scores[order[ranked.index]] = ranked.raw_score;
            }
            for ranked in &reference.ranked {
                prop_assert!((scores[ranked.index] - ranked.raw_score).abs() < 1e-4);
            }
        }
    }

    /// Invariant 3, and the replay of a recorded trace: what a policy would have done is what it does.
    #[test]
    fn replaying_a_threshold_equals_running_it(
        threshold in 0f32..0.6, top_k in 1usize..12, mode in prop::sample::select(vec![Mode::Set, Mode::Order]),
    ) {
        let texts = candidates();
        let full = open(options());
        let (_, layers) = run(&full, &texts, top_k);
        let trace = Trace { num_layers: full.num_layers(), threshold: None, layers };
        let (replayed, forwards) = replay(&trace, &ClusterPruning::new(threshold), mode, top_k).expect("a full trace");
        let engine = open(EngineOptions { mode, pruning: Pruning::Clusters { threshold }, ..options() });
        let (outcome, events) = run(&engine, &texts, top_k);
        prop_assert_eq!(outcome.ranked.len(), top_k);
        prop_assert_eq!(outcome.stats.candidate_layers, forwards);
        prop_assert_eq!(events.iter().map(|it| it.active.len() as u64).sum::<u64>(), forwards);
        for (a, b) in outcome.ranked.iter().zip(&replayed) {
            prop_assert_eq!((a.index, a.decided_at_layer), (b.index, b.decided_at_layer));
            prop_assert!((a.raw_score - b.raw_score).abs() < 1e-4);
        }
    }
}

/// Invariant 4: layer weights in memory never exceed window × largest layer.
#[test]
fn a_small_window_holds_less_in_memory() {
    let texts = candidates();
    let bytes = |window| {
        let engine = open(EngineOptions { window, ..options() });
        let (outcome, events) = run(&engine, &texts, 3);
        assert!(
            events.iter().all(|it| it.resident_weight_bytes <= outcome.stats.resident_weight_bytes)
        );
        outcome.stats.resident_weight_bytes
    };
    // 4 × (32 × 32 + 32) + 2 × 32 × 64 + 64 + 32 + 4 × 32 elements.
    let layer = (4 * (32 * 32 + 32) + 2 * 32 * 64 + 64 + 32 + 4 * 32) * 4;
    assert_eq!(bytes(None) - bytes(Some(2)), 2 * layer);
    assert_eq!(bytes(Some(2)) - bytes(Some(1)), layer);
}

struct StopAfter(u32);

impl LayerObserver for StopAfter {
    fn on_layer(&mut self, event: &LayerEvent) -> ControlFlow<()> {
        if event.layer >= self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Invariant 5: a stopped run leaves an engine that works.
#[test]
fn a_run_can_be_stopped_after_any_layer() {
    let engine = open(EngineOptions { window: Some(2), ..options() });
    let texts = candidates();
    let refs: Vec<&str> = texts.iter().map(String::as_str).collect();
    for layer in 1..=4 {
        let result = engine.run("Where?", &refs, 3, &mut StopAfter(layer));
        assert!(matches!(result, Err(Error::Cancelled { layer: stopped }) if stopped == layer));
    }
    assert_eq!(run(&engine, &texts, 3).0.ranked.len(), 3);
}

struct PanicAtLayerTwo;

impl LayerObserver for PanicAtLayerTwo {
    fn on_layer(&mut self, event: &LayerEvent) -> ControlFlow<()> {
        assert!(event.layer < 2, "observer gave up");
        ControlFlow::Continue(())
    }
}

/// Invariant 5: a panic inside a run is an error, and the engine still works.
#[test]
fn a_panic_costs_the_request_and_not_the_engine() {
    let engine = open(options());
    let result = engine.run("Where?", &["here", "there"], 1, &mut PanicAtLayerTwo);
    assert!(matches!(result, Err(Error::Panicked(why)) if why.contains("gave up")));
    assert_eq!(run(&engine, &candidates(), 3).0.ranked.len(), 3);
}

/// Invariant 6: bad requests have a defined result.
#[test]
fn bad_requests_are_defined() {
    let engine = open(options());
    assert!(matches!(engine.run("  ", &["a"], 1, &mut SilentObserver), Err(Error::EmptyQuery)));
    let ranked = |texts: &[&str], k| {
        engine.run("boat", texts, k, &mut SilentObserver).expect("defined").ranked.len()
    };
    assert_eq!(ranked(&[], 5), 0);
    assert_eq!(ranked(&["a", "b"], 0), 0);
    assert_eq!(ranked(&["a", "b"], 9), 2);
    assert_eq!(ranked(&[""], 1), 1);
    let long = "lock gate ".repeat(10_000);
    assert_eq!(ranked(&[&long, "a"], 2), 2);
    let long_query =
        engine.run(&long, &[&long, "\0", "\u{202e}x"], 3, &mut SilentObserver).expect("truncated");
    assert_eq!(long_query.ranked.len(), 3);
    for bad in [
        EngineOptions { window: Some(0), ..options() },
        EngineOptions { micro_batch_tokens: 0, ..options() },
        EngineOptions { embedding_rows: 1.5, ..options() },
        EngineOptions { embedding_rows: f32::NAN, ..options() },
        EngineOptions { pruning: Pruning::Clusters { threshold: -1.0 }, ..options() },
        EngineOptions { max_tokens: Some(2), ..options() },
    ] {
        assert!(matches!(Engine::open(&tiny(), bad.clone()), Err(Error::BadOption(_))), "{bad:?}");
    }
}

fn damaged(change: impl Fn(&Path, Vec<u8>)) -> PathBuf {
    let dir = tempfile::tempdir().expect("temp dir").keep();
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        std::fs::copy(tiny().join(name), dir.join(name)).expect("copy");
    }
    let weights = dir.join("model.safetensors");
    change(&weights, std::fs::read(&weights).expect("read"));
    dir
}

/// Invariant 6: damaged models are errors that name the file, tensor or layer.
#[test]
fn damaged_models_are_errors() {
    let truncated =
        damaged(|path, bytes| std::fs::write(path, &bytes[..bytes.len() / 2]).expect("write"));
    let error = Engine::open(&truncated, options()).expect_err("truncated").to_string();
    assert!(error.contains("truncated"), "{error}");

    let poisoned = damaged(|path, mut bytes| {
        let at = bytes.len() / 2;
        // All bits set is NaN at any alignment.
        bytes[at..at + 400].fill(0xff);
        std::fs::write(path, bytes).expect("write");
    });
    let error = Engine::open(&poisoned, options())
        .and_then(|engine| engine.run("boat", &["a", "b"], 1, &mut SilentObserver))
        .expect_err("NaN")
        .to_string();
    assert!(error.contains("NaN"), "{error}");

    let vanished = damaged(|path, _| std::fs::remove_file(path).expect("remove"));
    assert!(Engine::open(&vanished, options()).is_err());
    for dir in [truncated, poisoned, vanished] {
        std::fs::remove_dir_all(dir).expect("clean up");
    }
}

/// The real model, where it is there: set mode returns what the full forward returns, for less work.
#[test]
fn the_real_model_prunes() {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/models/reranker-v0");
    if !dir.join("model.safetensors").is_file() {
        eprintln!("SKIPPED: no real cross-encoder in ../shared/models/reranker-v0");
        return;
    }
    let texts: Vec<String> = [
        "The hull of a steel boat needs blacking in a dry dock every three years.",
        "Steel boats are blacked below the waterline roughly every two to three years.",
        "Sourdough bread rises overnight in a cold kitchen.",
        "The town hall opens at nine on weekdays.",
        "A dry dock was booked for the boat in March.",
        "My favorite color is blue.",
        "Trains to the coast leave every hour.",
        "The recipe asks for two eggs and a little milk.",
    ]
    .map(str::to_owned)
    .to_vec();
    let refs: Vec<&str> = texts.iter().map(String::as_str).collect();
    let query = "How often must a steel hull be blacked?";
    let rerank = |options| {
        Engine::open(&dir, options)
            .expect("opens")
            .run(query, &refs, 2, &mut SilentObserver)
            .expect("runs")
    };
    let full = rerank(options());
    let pruned = rerank(EngineOptions {
        mode: Mode::Set,
        pruning: Pruning::Clusters { threshold: 0.5 },
        ..options()
    });
    let set = |outcome: &RerankOutcome| {
        let mut indexes: Vec<usize> = outcome.ranked.iter().map(|it| it.index).collect();
        indexes.sort_unstable();
        indexes
    };
    assert_eq!(set(&full), [0, 1]);
    assert_eq!(set(&pruned), [0, 1]);
    assert!(pruned.stats.candidate_layers < full.stats.candidate_layers);
}
