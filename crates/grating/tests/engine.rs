//! The engine on committed tiny models: equal to Hugging Face `transformers`, invariant to how it is run,
//! and unbreakable by bad models and requests. Invariants are numbered as in docs/ARCHITECTURE.md.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use proptest::prelude::*;
use riddle_grating::{
    BoundedError, ClusterPruning, Engine, EngineOptions, Error, LayerView, Mode, NeverPrune,
    Pruning, PruningPolicy, Question, TraceRecorder, replay,
};
use riddle_types::{
    Decision, LayerEvent, LayerObserver, Prior, Ranked, RerankOutcome, SilentObserver,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    max_tokens: usize,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    query: String,
    text: String,
    /// After each layer; none where the model has no head.
    scores: Vec<Option<f32>>,
}

/// At least one model of each family; one is in several files and of two-byte weights.
const FAMILIES: [&str; 20] = [
    "tiny-bert-cross-encoder",
    "tiny-xlm-roberta-cross-encoder",
    "tiny-roberta-cross-encoder",
    "tiny-mpnet-cross-encoder",
    "tiny-modernbert-cross-encoder",
    "tiny-modernbert-cls-cross-encoder",
    "tiny-qwen3-reranker",
    "tiny-qwen3-reranker-sharded-bf16",
    "tiny-minicpm-layerwise",
    "tiny-modular-reranker",
    "tiny-modular-mean-reranker",
    "tiny-qwen2-reranker",
    "tiny-zerank-reranker",
    "tiny-bert-colbert",
    "tiny-modernbert-colbert",
    "tiny-modernbert-late",
    "tiny-gte-reranker",
    "tiny-deberta-cross-encoder",
    "tiny-deberta-c2p-cross-encoder",
    "tiny-xlm-roberta-fused-cross-encoder",
];

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

fn tiny() -> PathBuf {
    golden(FAMILIES[0])
}

fn expected(dir: &Path) -> Expected {
    let json = std::fs::read(dir.join("expected.json")).expect("read");
    serde_json::from_slice(&json).expect("json")
}

fn cases() -> Vec<Case> {
    expected(&tiny()).cases
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

/// Requests that are computed together have the scores of each alone, in every family, whatever their sizes.
#[test]
fn requests_together_are_answered_as_each_alone() {
    let texts = candidates();
    let question = |query: &str, from: usize, to: usize, top_k: usize| Question {
        query: query.to_owned(),
        candidates: texts[from..to].to_vec(),
        top_k,
    };
    let questions = [
        question("the blue boat", 0, 5, 5),
        question("bread", 5, 5, 3),
        question("who locks the gate?", 3, 12, 2),
        question("hull", 1, 2, 0),
        question("dock", 0, 9, 99),
    ];
    for family in FAMILIES {
        let options = EngineOptions { share_prefix: false, ..options() };
        let engine = Engine::open(&golden(family), options).expect("opens");
        let together = engine.run_together(&questions, &mut SilentObserver).expect("runs");
        assert_eq!(together.len(), questions.len());
        for (question, outcome) in questions.iter().zip(together) {
            let texts: Vec<&str> = question.candidates.iter().map(String::as_str).collect();
            let alone = engine
                .run(&question.query, &texts, question.top_k, &mut SilentObserver)
                .expect("runs");
            assert_eq!(outcome.ranked, alone.ranked, "{family}: {}", question.query);
        }
    }
    let engine = open(options());
    let none = engine.run_together(&[], &mut SilentObserver).expect("nothing to do");
    assert!(none.is_empty());
    let empty = engine.run_together(&[question(" ", 0, 1, 1)], &mut SilentObserver);
    assert!(matches!(empty, Err(Error::EmptyQuery)));
    let pruned = open(EngineOptions { mode: Mode::Order, ..options() });
    let refused = pruned.run_together(&questions, &mut SilentObserver);
    assert!(matches!(refused, Err(Error::BadOption(_))));
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
    let Expected { max_tokens, cases } = expected(dir);
    let limit = EngineOptions { max_tokens: Some(max_tokens), ..options() };
    let engine = Engine::open(dir, limit).expect("opens");
    let mut queries: Vec<&str> = cases.iter().map(|it| it.query.as_str()).collect();
    queries.sort_unstable();
    queries.dedup();
    let mut worst = 0.0f32;
    for query in queries {
        let of_query: Vec<&Case> = cases.iter().filter(|it| it.query == query).collect();
        let texts: Vec<&str> = of_query.iter().map(|it| it.text.as_str()).collect();
        let mut recorder = TraceRecorder::default();
        let outcome = engine.run(query, &texts, texts.len(), &mut recorder).expect("runs");
        let layers = of_query[0].scores.len();
        assert_eq!(recorder.layers.len(), layers);
        for (layer, event) in recorder.layers.iter().enumerate() {
            let scored = of_query[0].scores[layer].is_some();
            assert_eq!(event.scores.len(), if scored { texts.len() } else { 0 });
            for (score, case) in event.scores.iter().zip(&of_query) {
                let difference = (score - case.scores[layer].expect("a score")).abs();
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
        let last = |it: usize| of_query[it].scores[layers - 1].expect("a score");
        expected.sort_by(|&a, &b| last(b).total_cmp(&last(a)));
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
        family in prop::sample::select(FAMILIES.to_vec()),
        window in 1usize..8,
        micro_batch_tokens in prop::sample::select(vec![1, 7, 50, 200, 100_000]),
        threads in 1usize..3,
        embedding_rows in prop::sample::select(vec![0.0f32, 0.05, 1.0]),
        hidden_on_disk in any::<bool>(),
        share_prefix in any::<bool>(),
        store in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let dir = golden(family);
        let max_tokens = Some(expected(&dir).max_tokens);
        let texts = candidates();
        let plain = EngineOptions { max_tokens, share_prefix: false, ..options() };
        let (reference, _) = run(&Engine::open(&dir, plain.clone()).expect("opens"), &texts, texts.len());
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|&it| (it as u64 + 1).wrapping_mul(seed | 1).rotate_left(17));
        let shuffled: Vec<String> = order.iter().map(|&it| texts[it].clone()).collect();
        let converted = store.then(|| converted(&dir));
        let from = converted.as_ref().map_or(dir.as_path(), |it| it.path());
        let engine = Engine::open(from, EngineOptions {
            window: Some(window), micro_batch_tokens: Some(micro_batch_tokens), threads, embedding_rows,
            hidden_on_disk, share_prefix, ..plain
        }).expect("opens");
        // Twice: the second request starts from a used window and cache.
        for _ in 0..2 {
            let (outcome, _) = run(&engine, &shuffled, shuffled.len());
            prop_assert_eq!(outcome.stats.plan.hidden_on_disk, hidden_on_disk);
            let mut scores = vec![f32::NAN; texts.len()];
            for ranked in &outcome.ranked {
                scores[order[ranked.index]] = ranked.raw_score;
            }
            let mut expected = vec![f32::NAN; texts.len()];
            for ranked in &reference.ranked {
                expected[ranked.index] = ranked.raw_score;
                prop_assert!((scores[ranked.index] - ranked.raw_score).abs() < 1e-4);
            }
            // Texts that the model reads alike once they are cut score alike but for rounding, and stand in
            // the order of the request: the ranking is equal where scores differ by more than that.
            let ranked: Vec<usize> = outcome.ranked.iter().map(|it| order[it.index]).collect();
            prop_assert!(ranked.windows(2).all(|it| expected[it[0]] > expected[it[1]] - 1e-4));
        }
    }

    /// Invariant 3, and the replay of a recorded trace: what a policy would have done is what it does.
    #[test]
    fn replaying_a_threshold_equals_running_it(
        threshold in 0f32..0.6, top_k in 1usize..25, mode in prop::sample::select(vec![Mode::Set, Mode::Order]),
        micro_batch_tokens in prop::sample::select(vec![1, 60, 100_000]), family in prop::sample::select(FAMILIES.to_vec()),
    ) {
        let texts = candidates();
        let dir = golden(family);
        let max_tokens = Some(expected(&dir).max_tokens);
        let full = Engine::open(&dir, EngineOptions { max_tokens, ..options() }).expect("opens");
        let (_, layers) = run(&full, &texts, top_k);
        let trace = TraceRecorder { layers, ..TraceRecorder::default() }.into_trace(full.num_layers(), full.threshold());
        let replayed = replay(&trace, &ClusterPruning::new(threshold), mode, top_k).expect("a full trace");
        let pruning = Pruning::Clusters { threshold };
        let engine = Engine::open(&dir, EngineOptions {
            mode, pruning, micro_batch_tokens: Some(micro_batch_tokens), max_tokens,
            // On disk who leaves must take nobody else along, either.
            hidden_on_disk: top_k % 2 == 0, ..options()
        }).expect("opens");
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
    // 4 × (32 × 32 + 32) + 2 × 32 × 64 + 64 + 32 + 4 × 32 elements, in whole pages.
    const LAYER_BYTES: u64 =
        ((4 * (32 * 32 + 32) + 2 * 32 * 64 + 64 + 32 + 4 * 32) * 4u64).next_multiple_of(4096);
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

/// What is read of the token table is part of what is read, and reading it is waited for.
#[test]
fn embedding_rows_are_in_the_trace() {
    // All layers in memory and hardly a row: the second request reads rows and nothing else.
    for (family, hidden_on_disk) in
        [(FAMILIES[0], false), (FAMILIES[0], true), (FAMILIES[4], false)]
    {
        let dir = golden(family);
        let engine = EngineOptions {
            embedding_rows: 0.0,
            hidden_on_disk,
            max_tokens: Some(expected(&dir).max_tokens),
            ..options()
        };
        let engine = Engine::open(&dir, engine).expect("opens");
        let texts = candidates();
        let (_, first) = run(&engine, &texts, 3);
        assert!(first[0].bytes_read > first[0].row_bytes_read, "{family}: its layer was read, too");
        let (outcome, second) = run(&engine, &texts, 3);
        let rows = second[0].row_bytes_read;
        assert!(rows > 0 && second[0].bytes_read == rows, "{family}: {rows} bytes of rows");
        assert!(second[0].io_wait_ms > 0.0);
        assert!(outcome.stats.io_wait_ms >= second[0].io_wait_ms);
        assert!(second[1..].iter().all(|it| (it.bytes_read, it.row_bytes_read) == (0, 0)));
    }
    // Rows that are there are not read again.
    let engine = open(EngineOptions { embedding_rows: 1.0, ..options() });
    let texts = candidates();
    let (_, first) = run(&engine, &texts, 3);
    let (_, second) = run(&engine, &texts, 3);
    assert!(first[0].row_bytes_read > 0);
    assert_eq!((second[0].bytes_read, second[0].row_bytes_read), (0, 0));
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

/// Somebody else sets the flag while a layer runs: here already after the layer before.
struct StopWithin(u32, Arc<AtomicBool>);

impl LayerObserver for StopWithin {
    fn on_layer(&mut self, event: &LayerEvent) -> ControlFlow<()> {
        assert!(event.layer <= self.0, "layer {} was run to its end", event.layer);
        self.1.store(event.layer == self.0, Ordering::Relaxed);
        ControlFlow::Continue(())
    }

    fn stop_flag(&self) -> Option<Arc<AtomicBool>> {
        Some(Arc::clone(&self.1))
    }
}

#[test]
fn a_run_can_be_stopped_within_a_layer() {
    for hidden_on_disk in [false, true] {
        let engine = open(EngineOptions { hidden_on_disk, ..options() });
        let texts = candidates();
        let refs: Vec<&str> = texts.iter().map(String::as_str).collect();
        for layer in 0..4 {
            let mut stop = StopWithin(layer, Arc::new(AtomicBool::new(layer == 0)));
            let result = engine.run("Where?", &refs, 3, &mut stop);
            let stopped = matches!(result, Err(Error::Cancelled { layer: at }) if at == layer);
            assert!(stopped, "{layer}: {result:?}");
        }
        assert_eq!(run(&engine, &texts, 3).0.ranked.len(), 3);
    }
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
        let greedy = EngineOptions { mode, micro_batch_tokens: Some(micro_batch_tokens), ..options() };
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
            for (a, b) in outcome.ranked.iter().zip(&full.ranked) {
                prop_assert!((a.raw_score - b.raw_score).abs() < 1e-4);
            }
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
        EngineOptions { micro_batch_tokens: Some(0), ..options() },
        EngineOptions { embedding_rows: 1.5, ..options() },
        EngineOptions { embedding_rows: f32::NAN, ..options() },
        EngineOptions { pruning: Pruning::Clusters { threshold: -1.0 }, ..options() },
    ] {
        assert!(matches!(Engine::open(&tiny(), bad.clone()), Err(Error::BadOption(_))), "{bad:?}");
    }
    for family in FAMILIES {
        let short = EngineOptions { max_tokens: Some(2), ..options() };
        let error = Engine::open(&golden(family), short).expect_err("no room").to_string();
        assert!(error.contains("at least"), "{family}: {error}");
    }
}

/// The model with a store of its weights.
/// Copies a folder's files and the modules in folders of their own.
fn copy_all(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir(&to).expect("folder");
            copy_all(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("copy");
        }
    }
}

fn converted(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("temp dir");
    copy_all(dir, copy.path());
    riddle_grating::convert(copy.path(), None, copy.path(), &mut |_| ()).expect("converts");
    copy
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

/// A prior is added to every layer's scores, pruning included, and changes nothing else.
#[test]
fn a_prior_is_added_after_every_layer() {
    let texts = candidates();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let run = |prior: Prior<'_>, options: EngineOptions| {
        let mut recorder = TraceRecorder::default();
        let engine = open(options);
        let outcome = engine
            .run_with_prior("the lock gate", &texts, prior, texts.len(), &mut recorder)
            .expect("runs");
        (outcome, recorder.into_trace(engine.num_layers(), None))
    };
    let (plain, plain_trace) = run(Prior::NONE, options());
    let prior: Vec<f32> = (0..texts.len()).map(|it| (it as f32 * 0.7).sin() * 3.0).collect();
    let (with, trace) = run(Prior::always(&prior), options());
    for (a, b) in plain_trace.layers.iter().zip(&trace.layers) {
        assert_eq!(a.scores.len(), texts.len());
        for ((a, b), added) in a.scores.iter().zip(&b.scores).zip(&prior) {
            assert!((a + added - b).abs() < 1e-5, "{a} and {added} give {b}");
        }
    }
    for ranked in &with.ranked {
        let own = plain.ranked.iter().find(|it| it.index == ranked.index).expect("ranked");
        assert!((own.raw_score + prior[ranked.index] - ranked.raw_score).abs() < 1e-5);
    }
    // Layers may have one of their own, which a trace without any has lost again.
    let earlier: Vec<Vec<f32>> =
        (0..2).map(|layer| prior.iter().map(|it| it * layer as f32 - 1.0).collect()).collect();
    let (of_layers, trace) = run(Prior { last: &prior, earlier: &earlier }, options());
    assert_eq!((&trace.earlier_priors, of_layers.ranked), (&earlier, with.ranked.clone()));
    let without = trace.without_prior();
    for (layer, (a, b)) in plain_trace.layers.iter().zip(&without.layers).enumerate() {
        for (place, (a, b)) in a.scores.iter().zip(&b.scores).enumerate() {
            let added = earlier.get(layer + 1).unwrap_or(&prior)[place];
            assert!((a - b).abs() < 1e-5, "{a} {b}");
            let seen = trace.layers[layer].scores[place];
            assert!((a + added - seen).abs() < 1e-5, "{a} and {added} give {seen}");
        }
    }
    // Where the prior alone decides, pruning ends the run at the first layer that may.
    let decisive: Vec<f32> = (0..texts.len()).map(|it| if it < 3 { 30.0 } else { -30.0 }).collect();
    let pruning = Pruning::Clusters { threshold: 0.1 };
    let engine = open(EngineOptions { mode: Mode::Set, pruning, ..options() });
    let outcome = engine
        .run_with_prior("the lock gate", &texts, Prior::always(&decisive), 3, &mut SilentObserver)
        .expect("runs");
    let mut best: Vec<usize> = outcome.ranked.iter().map(|it| it.index).collect();
    best.sort_unstable();
    assert_eq!((best, outcome.stats.layers_run), (vec![0, 1, 2], 2));
}

/// Candidates that the prior drops are not read: nothing is computed for them, and a replay says the same.
#[test]
fn a_prior_may_drop_before_the_first_layer() {
    let texts = candidates();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let prior: Vec<f32> =
        (0..texts.len()).map(|it| if it % 3 == 0 { 0.0 } else { -40.0 }).collect();
    let read: Vec<usize> = (0..texts.len()).filter(|it| it % 3 == 0).collect();
    let unread: Vec<usize> = (0..texts.len()).filter(|it| it % 3 != 0).collect();
    let run = |options: EngineOptions, policy: Box<dyn PruningPolicy>, top_k: usize| {
        let engine = Engine::with_policy(&tiny(), options, policy).expect("opens");
        let mut recorder = TraceRecorder::default();
        let outcome = engine
            .run_with_prior("the lock gate", &texts, Prior::always(&prior), top_k, &mut recorder)
            .expect("runs");
        (outcome, recorder.into_trace(engine.num_layers(), None))
    };
    let policy =
        |margins: Vec<Option<f32>>| BoundedError { prior_margin: Some(20.0), margins, factor: 1.0 };
    let (full, trace) = run(options(), Box::new(NeverPrune), 3);
    assert_eq!((&trace.prior, &trace.dropped_unread), (&prior, &vec![]));
    for mode in [Mode::Set, Mode::Order] {
        for top_k in [1, 3, read.len(), read.len() + 1] {
            let options = EngineOptions { mode, ..options() };
            for margins in [vec![], vec![None, Some(1e-3)]] {
                let (pruned, seen) = run(options.clone(), Box::new(policy(margins.clone())), top_k);
                let replayed = replay(&trace, &policy(margins), mode, top_k).expect("a full trace");
                assert_eq!(pruned.ranked.len(), top_k);
                assert_eq!(pruned.stats.candidate_layers, replayed.candidate_layers);
                let winners = |it: &[Ranked]| {
                    it.iter().map(|it| (it.index, it.decided_at_layer)).collect::<Vec<_>>()
                };
                assert_eq!(winners(&pruned.ranked), winners(&replayed.ranked), "{mode} {top_k}");
                // Nobody wins unread, whatever is left.
                assert!(pruned.ranked.iter().all(|it| it.decided_at_layer > 0));
                if top_k <= read.len() {
                    assert_eq!((&seen.dropped_unread, &seen.layers[0].active), (&unread, &read));
                } else {
                    // The last slot is for one of those below: all of them are as near to it.
                    assert_eq!(seen.layers[0].active.len(), texts.len());
                }
            }
        }
    }
    // Without a wish, and in mode off, everybody is read; the scores of those who are read are the same.
    let (off, seen) = run(options(), Box::new(policy(vec![])), 3);
    assert_eq!((off.ranked, seen.dropped_unread), (full.ranked.clone(), vec![]));
    let (order, _) =
        run(EngineOptions { mode: Mode::Order, ..options() }, Box::new(policy(vec![])), 3);
    for (a, b) in order.ranked.iter().zip(&full.ranked) {
        assert!(a.index == b.index && (a.raw_score - b.raw_score).abs() < 1e-5);
    }
}

#[test]
fn a_prior_of_another_number_or_none_at_all_is_refused() {
    let engine = open(options());
    for prior in [&[1.0][..], &[1.0, f32::NAN], &[1.0, 2.0, 3.0]] {
        let known = Prior::always(prior);
        let refused = engine.run_with_prior("the lock", &["a", "b"], known, 1, &mut SilentObserver);
        assert!(matches!(refused, Err(Error::BadOption(_))), "{prior:?}: {refused:?}");
    }
}
