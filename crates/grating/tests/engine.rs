//! The engine on committed tiny models: equal to Hugging Face `transformers`, invariant to how it is run,
//! and unbreakable by bad models and requests. Invariants are numbered as in docs/ARCHITECTURE.md.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use riddle_grating::{
    ClusterPruning, Engine, EngineOptions, Error, LayerView, Mode, Pruning, PruningPolicy,
    TraceRecorder, replay,
};
use riddle_types::{Decision, LayerEvent, LayerObserver, RerankOutcome, SilentObserver};
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

/// One model of each family.
const FAMILIES: [&str; 2] = ["tiny-bert-cross-encoder", "tiny-xlm-roberta-cross-encoder"];

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

fn tiny() -> PathBuf {
    golden(FAMILIES[0])
}

fn cases_of(dir: &Path) -> Vec<Case> {
    let json = std::fs::read(dir.join("expected.json")).expect("read");
    serde_json::from_slice::<Expected>(&json).expect("json").cases
}

fn cases() -> Vec<Case> {
    cases_of(&tiny())
}

fn options() -> EngineOptions {
    EngineOptions { threads: 2, ..EngineOptions::default() }
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
    for family in FAMILIES {
        let worst = equals_transformers(&golden(family));
        eprintln!("{family}: largest difference of a score: {worst:e}");
    }
}

/// Returns the largest difference of a score.
fn equals_transformers(dir: &Path) -> f32 {
    let engine = Engine::open(dir, options()).expect("opens");
    let cases = cases_of(dir);
    let mut queries: Vec<&str> = cases.iter().map(|it| it.query.as_str()).collect();
    queries.sort_unstable();
    queries.dedup();
    let mut worst = 0.0f32;
    for query in queries {
        let of_query: Vec<&Case> = cases.iter().filter(|it| it.query == query).collect();
        let texts: Vec<&str> = of_query.iter().map(|it| it.text.as_str()).collect();
        let mut recorder = TraceRecorder::default();
        let outcome = engine.run(query, &texts, texts.len(), &mut recorder).expect("runs");
        assert_eq!(recorder.layers.len(), 4);
        for (layer, event) in recorder.layers.iter().enumerate() {
            for (score, case) in event.scores.iter().zip(&of_query) {
                let difference = (score - case.scores[layer]).abs();
                worst = worst.max(difference);
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
    worst
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
            // Some texts are equal once they are truncated, and equal scores keep the input order:
            // compare what the model read. 48 tokens are fewer than 200 characters of any of them.
            let said = |outcome: &RerankOutcome, texts: &[String]| -> Vec<String> {
                outcome.ranked.iter().map(|it| texts[it.index].chars().take(200).collect()).collect()
            };
            prop_assert_eq!(said(&outcome, &shuffled), said(&reference, &texts));
        }
    }

    /// Invariant 3, and the replay of a recorded trace: what a policy would have done is what it does.
    #[test]
    fn replaying_a_threshold_equals_running_it(
        threshold in 0f32..0.6, top_k in 1usize..25, mode in prop::sample::select(vec![Mode::Set, Mode::Order]),
        micro_batch_tokens in prop::sample::select(vec![1, 60, 100_000]),
    ) {
        let texts = candidates();
        let full = open(options());
        let (_, layers) = run(&full, &texts, top_k);
        let trace = TraceRecorder { layers }.into_trace(full.num_layers(), full.threshold());
        let replayed = replay(&trace, &ClusterPruning::new(threshold), mode, top_k).expect("a full trace");
        let engine = open(EngineOptions { mode, pruning: Pruning::Clusters { threshold }, micro_batch_tokens, ..options() });
        let (outcome, events) = run(&engine, &texts, top_k);
        prop_assert_eq!(outcome.ranked.len(), top_k.min(texts.len()));
        prop_assert_eq!(outcome.stats.layers_run, replayed.layers_run);
        prop_assert_eq!(outcome.stats.candidate_layers, replayed.candidate_layers);
        prop_assert_eq!(events.iter().map(|it| it.active.len() as u64).sum::<u64>(), replayed.candidate_layers);
        prop_assert_eq!(outcome.ranked.len(), replayed.ranked.len());
        for (a, b) in outcome.ranked.iter().zip(&replayed.ranked) {
            prop_assert_eq!((a.index, a.decided_at_layer), (b.index, b.decided_at_layer));
            prop_assert!((a.raw_score - b.raw_score).abs() < 1e-4);
        }
    }
}

/// Invariant 4: layer weights in memory never exceed window × largest layer.
#[test]
fn a_small_window_holds_less_in_memory() {
    // 4 × (32 × 32 + 32) + 2 × 32 × 64 + 64 + 32 + 4 × 32 elements.
    const LAYER_BYTES: u64 = (4 * (32 * 32 + 32) + 2 * 32 * 64 + 64 + 32 + 4 * 32) * 4;
    let texts = candidates();
    let bytes = |window: Option<usize>| {
        let engine = open(EngineOptions { window, ..options() });
        let (outcome, events) = run(&engine, &texts, 3);
        let depth = window.unwrap_or(4).min(4) as u64;
        assert!(events.iter().all(|it| it.resident_weight_bytes <= depth * LAYER_BYTES));
        assert_eq!(engine.resident_weight_bytes(), outcome.stats.resident_weight_bytes);
        outcome.stats.resident_weight_bytes
    };
    assert_eq!(bytes(None) - bytes(Some(2)), 2 * LAYER_BYTES);
    assert_eq!(bytes(Some(2)) - bytes(Some(1)), LAYER_BYTES);
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

/// A policy that gives up, as a kernel would in the middle of a layer.
struct PanickingPolicy;

impl PruningPolicy for PanickingPolicy {
    fn judge(&self, view: &LayerView<'_>) -> Vec<Decision> {
        assert!(view.scores.len() < 3, "policy gave up");
        Vec::new()
    }
}

/// Invariant 5: a panic while the model is at work costs one request, too.
#[test]
fn a_panic_between_layers_leaves_a_model_that_works() {
    let set = EngineOptions { mode: Mode::Set, window: Some(2), ..options() };
    let engine =
        Engine::with_policy(&tiny(), set, Box::new(PanickingPolicy)).expect("the tiny model opens");
    let rerank = |texts: &[&str]| engine.run("Where?", texts, 1, &mut SilentObserver);
    let before = rerank(&["here", "there"]).expect("two are few enough");
    let error = rerank(&["here", "there", "nowhere"]).expect_err("three are too many");
    assert!(matches!(error, Error::Panicked(why) if why.contains("gave up")));
    assert_eq!(rerank(&["here", "there"]).expect("works again").ranked, before.ranked);
}

/// Wants everything at once: accepts and drops by place, as `turn` and the layer say.
struct Greedy {
    turn: usize,
}

impl PruningPolicy for Greedy {
    fn judge(&self, view: &LayerView<'_>) -> Vec<Decision> {
        assert_eq!(view.active.len(), view.scores.len());
        assert_eq!(view.raw.len(), view.scores.len());
        let say =
            [Decision::Accept, Decision::Drop, Decision::Accept, Decision::Drop, Decision::Keep];
        // More decisions than candidates: the surplus belongs to nobody.
        (0..view.scores.len() + self.turn)
            .map(|it| say[(it * self.turn + view.layer as usize) % say.len()])
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Invariant 3, in a whole run: the engine returns exactly `min(top_k, n)` whatever a policy says,
    /// and counts what it computed.
    #[test]
    fn a_greedy_policy_gets_no_more_than_the_slots(
        turn in 0usize..5, top_k in 1usize..25, n in 1usize..21,
        mode in prop::sample::select(vec![Mode::Off, Mode::Set, Mode::Order]),
        micro_batch_tokens in prop::sample::select(vec![1, 64, 4096]),
    ) {
        let texts = &candidates()[..n];
        let (full, _) = run(&open(options()), texts, n);
        let greedy = EngineOptions { mode, micro_batch_tokens, ..options() };
        let engine = Engine::with_policy(&tiny(), greedy, Box::new(Greedy { turn })).expect("opens");
        let (outcome, events) = run(&engine, texts, top_k);
        prop_assert_eq!(outcome.ranked.len(), top_k.min(n));
        let mut fates: Vec<usize> =
            events.iter().flat_map(|it| it.accepted.iter().chain(&it.dropped)).copied().collect();
        fates.sort_unstable();
        prop_assert_eq!(fates, (0..n).collect::<Vec<_>>(), "everybody is decided once");
        let computed: u64 = events.iter().map(|it| it.active.len() as u64).sum();
        prop_assert_eq!(computed, outcome.stats.candidate_layers);
        // Who leaves takes nobody's hidden state along: those who reach the end score as in a full run.
        for ranked in outcome.ranked.iter().filter(|it| it.decided_at_layer == 4) {
            let same = full.ranked.iter().find(|it| it.index == ranked.index).expect("all are there");
            prop_assert!((same.raw_score - ranked.raw_score).abs() < 1e-4);
        }
        if mode == Mode::Off {
            prop_assert_eq!(&outcome.ranked[..], &full.ranked[..top_k.min(n)]);
        }
    }
}

/// Asks the engine about itself from inside a run, as a progress display does.
struct Curious<'a>(&'a Engine, u64);

impl LayerObserver for Curious<'_> {
    fn on_layer(&mut self, event: &LayerEvent) -> ControlFlow<()> {
        assert!(event.layer <= self.0.num_layers());
        self.1 = self.1.max(self.0.resident_weight_bytes());
        ControlFlow::Continue(())
    }
}

#[test]
fn an_observer_may_ask_the_engine() {
    let engine = open(options());
    let mut curious = Curious(&engine, 0);
    let outcome = engine.run("Where?", &["here", "there"], 1, &mut curious).expect("runs");
    assert_eq!(curious.1, outcome.stats.resident_weight_bytes);
}

#[test]
fn requests_from_several_threads_do_not_mix() {
    let engine = open(EngineOptions { window: Some(2), embedding_rows: 0.0, ..options() });
    let texts = candidates();
    let (alone, _) = run(&engine, &texts, 5);
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..3).map(|_| scope.spawn(|| run(&engine, &texts, 5).0)).collect();
        for other in runs {
            assert_eq!(other.join().expect("no panic").ranked, alone.ranked);
        }
    });
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
    // 100 000 characters are cut where 1 000 are.
    let cut = engine
        .run("boat", &[&long, &long[..1000], "a"], 3, &mut SilentObserver)
        .expect("truncated");
    let score = |index| cut.ranked.iter().find(|it| it.index == index).map(|it| it.raw_score);
    assert_eq!(score(0), score(1));
    assert_ne!(score(0), score(2));
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

/// A copy of the tiny model that `change` has damaged.
fn damaged(change: impl Fn(&Path)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("temp dir");
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        std::fs::copy(tiny().join(name), dir.path().join(name)).expect("copy");
    }
    change(&dir.path().join("model.safetensors"));
    dir
}

/// Splits a safetensors file into its header and the data behind it.
fn parts(path: &Path) -> (serde_json::Value, Vec<u8>) {
    let bytes = std::fs::read(path).expect("read");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
    let header = serde_json::from_slice(&bytes[8..8 + length]).expect("json");
    (header, bytes[8 + length..].to_vec())
}

fn write_parts(path: &Path, header: &serde_json::Value, data: &[u8]) {
    let header = serde_json::to_vec(header).expect("json");
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.extend(data);
    std::fs::write(path, bytes).expect("write");
}

/// Fills a tensor with one value.
fn fill(path: &Path, tensor: &str, value: f32) {
    let (header, mut data) = parts(path);
    let offset = |it: usize| header[tensor]["data_offsets"][it].as_u64().expect("offset") as usize;
    for bytes in data[offset(0)..offset(1)].chunks_exact_mut(4) {
        bytes.copy_from_slice(&value.to_le_bytes());
    }
    write_parts(path, &header, &data);
}

fn error_of(dir: &Path) -> String {
    Engine::open(dir, options())
        .and_then(|engine| engine.run("boat", &["a", "b"], 1, &mut SilentObserver))
        .expect_err("damaged")
        .to_string()
}

const WIDE: &str = "bert.encoder.layer.2.intermediate.dense.weight";

/// Invariant 6: damaged models are errors that name the file, tensor or layer.
#[test]
fn damaged_models_are_errors() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 9] = [
        ("truncated", |path| {
            let bytes = std::fs::read(path).expect("read");
            std::fs::write(path, &bytes[..bytes.len() / 2]).expect("write");
        }),
        ("model.safetensors", |path| std::fs::remove_file(path).expect("remove")),
        ("model.safetensors", |path| std::fs::write(path, b"").expect("write")),
        (WIDE, |path| {
            let (mut header, data) = parts(path);
            let info = header.as_object_mut().and_then(|it| it.remove(WIDE)).expect("there");
            header["another.name"] = info;
            write_parts(path, &header, &data);
        }),
        (WIDE, |path| {
            let (mut header, data) = parts(path);
            header[WIDE]["shape"] = serde_json::json!([32, 64]);
            write_parts(path, &header, &data);
        }),
        ("layer 3", |path| fill(path, WIDE, f32::NAN)),
        ("layer 3", |path| fill(path, WIDE, f32::NEG_INFINITY)),
        ("word_embeddings", |path| {
            fill(path, "bert.embeddings.word_embeddings.weight", f32::NAN);
        }),
        // Finite weights can still overflow: then it is the scores that are not numbers.
        ("layer 3", |path| fill(path, "bert.encoder.layer.2.output.LayerNorm.weight", f32::MAX)),
    ];
    for (word, damage) in damages {
        let error = error_of(damaged(damage).path());
        assert!(error.contains(word), "{word:?} is not in {error:?}");
    }
}

/// A file that shrinks under an open engine is an error of the request that needed it.
#[test]
fn a_model_that_shrinks_while_open_is_an_error() {
    let dir = damaged(|_| {});
    let engine =
        Engine::open(dir.path(), EngineOptions { window: Some(1), ..options() }).expect("opens");
    // A run first: what opening began to read ahead has then arrived, and a window of one reads nothing
    // ahead after it, so every read that follows happens while the file is as the test says.
    run(&engine, &candidates(), 3);
    let weights = dir.path().join("model.safetensors");
    std::fs::OpenOptions::new()
        .write(true)
        .open(&weights)
        .and_then(|file| file.set_len(2000))
        .expect("cut");
    let error = engine.run("boat", &["a", "b"], 1, &mut SilentObserver).expect_err("cut off");
    assert!(error.to_string().contains("model.safetensors"), "{error}");
    // Put back, the same engine works again.
    std::fs::copy(tiny().join("model.safetensors"), &weights).expect("copy");
    assert_eq!(run(&engine, &candidates(), 3).0.ranked.len(), 3);
}
