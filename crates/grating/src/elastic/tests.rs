use std::{
    ops::ControlFlow,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Instant,
};

use riddle_offload::RatedDevice;
use riddle_transformer::{Centroids, ShardNumbers, SliceOrdering, write_shards};
use riddle_types::{DeadlineEnd, LayerEvent, LayerObserver, Prior, RerankOutcome, SilentObserver};

mod numbers;

use super::*;
use crate::{ClusterPruning, Engine, EngineOptions, Mode, Run};

/// The reranker that comes with the program: the only model here that is large enough to be cut.
fn model() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../assets/models/riddle-reranker")
}

const SOURCE: &str = "the bundled reranker";

/// Its shards, made once for all tests of this process.
fn shards() -> PathBuf {
    static MADE: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = MADE.get_or_init(|| {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("model.shards");
        make_shards(&path, ShardNumbers::Int8, Centroids::Lloyd, SliceOrdering::Magnitude);
        (dir, path)
    });
    path.clone()
}

fn make_shards(path: &Path, numbers: ShardNumbers, centroids: Centroids, order: SliceOrdering) {
    write_shards(&model(), (path, SOURCE), numbers, centroids, order, &mut |_| ())
        .expect("shards of the bundled model");
}

/// A machine on which everything takes no time, so that plans take what there is.
fn fast() -> MachineCost {
    let mut machine = MachineCost::unknown();
    machine.read = crate::deadline::ReadCost { latency: 0.0, mebibyte: 0.01 };
    machine.compute = crate::deadline::ComputeCost {
        layer: 0.0,
        token: 0.0,
        token_slice: 0.000_01,
        square_slice: 0.0,
        assemble_slice: 0.0,
        embed_token: 0.0,
        last: 1.0,
    };
    machine
}

fn engine_with(machine: MachineCost, options: ElasticOptions) -> ElasticEngine {
    let encoder = ElasticEncoder::open(&model(), ShardNumbers::Int8, OpenOptions::default());
    let encoder = encoder.expect("opens");
    let profile = DeadlineProfile {
        version: DEADLINE_PROFILE_VERSION,
        fingerprint: SOURCE.to_owned(),
        machine,
        learned: unlearned(encoder.shape()),
    };
    let options = ElasticOptions { threads: 2, ..options };
    ElasticEngine::open(&model(), &shards(), profile, options).expect("the bundled model opens")
}

const QUERY: &str = "When does the ferry to the island leave?";

const TEXTS: [&str; 6] = [
    "The ferry to the island leaves the old pier at nine in the morning and again at four.",
    "Bread is baked from flour, water, salt and time.",
    "Tickets for the island are sold at the pier; the crossing takes forty minutes.",
    "The committee met on Tuesday and adjourned without a vote.",
    "A ferry is a boat that carries people and sometimes cars across water.",
    "Departures: island 09:00 and 16:00, mainland 10:00 and 17:00, not on Sundays.",
];

const LONG: Duration = Duration::from_secs(600);

fn run(engine: &ElasticEngine, within: Within, top_k: usize) -> RerankOutcome {
    engine
        .run(Run::FULL, within, QUERY, &TEXTS, Prior::NONE, top_k, &mut SilentObserver)
        .expect("runs")
}

fn places(outcome: &RerankOutcome) -> Vec<usize> {
    outcome.ranked.iter().map(|it| it.index).collect()
}

fn sorted(mut places: Vec<usize>) -> Vec<usize> {
    places.sort_unstable();
    places
}

/// Heads and neurons stand in another order, and every bit of the scores is the same.
#[test]
fn the_whole_model_at_eight_bits_is_the_model() {
    let whole = Engine::open(&model(), EngineOptions { threads: 2, ..EngineOptions::default() })
        .expect("opens");
    let expected = whole.run(QUERY, &TEXTS, 6, &mut SilentObserver).expect("runs");
    let engine = engine_with(fast(), ElasticOptions::default());
    let outcome = run(&engine, Within::any_time(), 6);
    assert_eq!(outcome.ranked, expected.ranked);
    assert_eq!(outcome.deadline, None);
    // With time for everything a plan comes to the same.
    let outcome = run(&engine, Within::from_now(LONG), 6);
    assert_eq!(outcome.ranked, expected.ranked);
    let report = outcome.deadline.expect("a deadline");
    assert!(report.met && report.end == DeadlineEnd::Ranked);
    let plan = report.plan.expect("a plan");
    assert_eq!((plan.layers, plan.width, plan.candidates), (4, 12, 6));
    assert!(plan.bits.iter().flatten().all(|it| *it == 8), "{:?}", plan.bits);
}

/// More bits are nearer to the whole model, and less than the whole width is another model.
#[test]
fn submodels_come_nearer_with_bits() {
    let engine = engine_with(fast(), ElasticOptions::default());
    let order: Vec<usize> = (0..TEXTS.len()).collect();
    let pairs = engine.encode(QUERY, &TEXTS, &order).expect("tokens");
    let scores = |bits: Submodel| {
        let mut state = engine.lock();
        learn::scores_of(&engine, &mut state, &pairs, &bits.bits).expect("runs")
    };
    let exact = scores(Submodel::uniform(4, 12, 8));
    assert_eq!(exact.len(), 4);
    let far = |bits: u8| {
        let own = scores(Submodel::uniform(4, 12, bits));
        let squares = own[3].iter().zip(&exact[3]).map(|(a, b)| f64::from(a - b).powi(2));
        squares.sum::<f64>()
    };
    let distances: Vec<f64> = [2, 4, 6].map(far).to_vec();
    assert!(distances[2] < distances[1] && distances[1] < distances[0], "{distances:?}");
    assert!(distances[2] > 0.0);
    let narrow = scores(Submodel::uniform(4, 9, 8));
    assert!(narrow[3].iter().all(|it| it.is_finite()) && narrow[3] != exact[3]);
    // Scores on the way are those of a shallower submodel at its end, but for the numbers that attention multiplies:
    // of one token of each sequence it does so in f32, of all in bf16.
    let shallow = scores(Submodel::uniform(2, 12, 8));
    let apart = shallow[1].iter().zip(&exact[1]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart < 0.3, "{apart}");
    let mixed = Submodel {
        bits: (0..4).map(|l| (0..12).map(|s| [2, 8, 3, 6, 5, 4][(l + s) % 6]).collect()).collect(),
    };
    assert!(scores(mixed)[3].iter().all(|it| it.is_finite()));
}

#[test]
fn too_little_time_gives_the_order_that_was_given() {
    let mut slow = MachineCost::unknown();
    slow.compute.token = 10.0;
    let engine = engine_with(slow, ElasticOptions::default());
    let outcome = run(&engine, Within::from_now(Duration::from_millis(100)), 4);
    assert_eq!(places(&outcome), [0, 1, 2, 3]);
    let report = outcome.deadline.expect("a deadline");
    assert_eq!((report.end, report.plan), (DeadlineEnd::TooShort, None));
    assert!(report.least_ms.is_some_and(|it| it > 100.0));
    // What is known before puts them in order where nobody is read.
    let prior = [0.0, 3.0, 1.0, 2.0, -1.0, 0.5];
    let within = Within::from_now(Duration::from_millis(100));
    let outcome = engine
        .run(Run::FULL, within, QUERY, &TEXTS, Prior::always(&prior), 6, &mut SilentObserver)
        .expect("runs");
    assert_eq!(places(&outcome), [1, 3, 2, 5, 0, 4]);
}

/// A machine that is far slower than it was measured: the plan is for all of it, the clock ends it.
#[test]
fn at_the_deadline_the_newest_order_is_returned() {
    struct Slow(Duration);
    impl LayerObserver for Slow {
        fn on_layer(&mut self, _: &LayerEvent) -> ControlFlow<()> {
            std::thread::sleep(self.0);
            ControlFlow::Continue(())
        }
    }
    let engine = engine_with(fast(), ElasticOptions::default());
    let deadline = Duration::from_millis(2500);
    let within = Within::from_now(deadline);
    let outcome = engine
        .run(
            Run::FULL,
            within,
            QUERY,
            &TEXTS,
            Prior::NONE,
            6,
            &mut Slow(Duration::from_millis(1300)),
        )
        .expect("runs");
    assert_eq!(sorted(places(&outcome)), [0, 1, 2, 3, 4, 5]);
    let report = outcome.deadline.expect("a deadline");
    assert!(outcome.stats.layers_run < 4, "{} layers", outcome.stats.layers_run);
    assert!(report.end != DeadlineEnd::Ranked || report.plan.is_some_and(|it| it.layers < 4));
    // Nothing is left behind for the next request.
    let next = run(&engine, Within::any_time(), 6);
    assert_eq!(next.stats.layers_run, 4);
}

#[test]
fn a_deadline_that_has_passed_is_told() {
    let engine = engine_with(fast(), ElasticOptions::default());
    let called = Instant::now().checked_sub(Duration::from_secs(1)).expect("a second ago");
    let within = Within { called, deadline: Some(Duration::from_millis(10)) };
    let outcome = run(&engine, within, 3);
    assert_eq!(places(&outcome), [0, 1, 2]);
    assert!(outcome.deadline.is_some_and(|it| !it.met && it.plan.is_none()));
}

#[test]
fn what_is_kept_is_not_read_again() {
    let keep_bytes = 3 << 20;
    let engine = engine_with(fast(), ElasticOptions { keep_bytes, ..ElasticOptions::default() });
    let first = run(&engine, Within::any_time(), 6);
    // Back to back all of it stays, four times as much as after a pause.
    assert!(engine.kept_bytes() > 2 * keep_bytes, "{}", engine.kept_bytes());
    let again = run(&engine, Within::from_now(LONG), 6);
    assert_eq!(again.ranked, first.ranked);
    let read = |outcome: &RerankOutcome| {
        outcome.deadline.as_ref().and_then(|it| it.plan.clone()).expect("a plan").bytes_read
    };
    assert!(read(&again) < 100_000, "{} bytes", read(&again));
    engine.let_go();
    assert!((1 << 20..=keep_bytes).contains(&engine.kept_bytes()), "{}", engine.kept_bytes());
    let later = run(&engine, Within::from_now(LONG), 6);
    assert_eq!(later.ranked, first.ranked);
    assert!(read(&later) > 3_000_000, "{} bytes", read(&later));
    engine.shrink_to(0);
    assert_eq!(engine.kept_bytes(), 0);
}

#[test]
fn few_candidates_are_read_where_there_is_time_for_few() {
    let mut machine = fast();
    machine.compute.token = 0.2;
    let engine = engine_with(machine, ElasticOptions::default());
    // Six texts of some twenty tokens through three layers at 0.2 ms a token are 90 ms.
    let outcome = run(&engine, Within::from_now(Duration::from_millis(70)), 6);
    let plan = outcome.deadline.as_ref().and_then(|it| it.plan.clone());
    let candidates = plan.map_or(0, |it| it.candidates as usize);
    assert_eq!(sorted(places(&outcome)), [0, 1, 2, 3, 4, 5]);
    if candidates > 0 {
        assert!((1..6).contains(&candidates), "{candidates}");
        let unread: Vec<usize> = places(&outcome)[candidates..].to_vec();
        assert_eq!(unread, (candidates..6).collect::<Vec<_>>(), "in the order in which they came");
        assert!(outcome.ranked.windows(2).all(|it| it[0].raw_score >= it[1].raw_score));
    }
}

#[test]
fn pruning_gives_time_back_and_only_of_the_whole_model() {
    let engine = engine_with(fast(), ElasticOptions::default());
    let clusters = ClusterPruning::new(0.0);
    let how = Run { mode: Mode::Order, policy: &clusters, scores_every_layer: false };
    let within = Within::from_now(LONG);
    // One stands far above the others after two layers; who is second is closer than processors agree upon.
    let pruned =
        engine.run(how, within, QUERY, &TEXTS, Prior::NONE, 1, &mut SilentObserver).expect("runs");
    assert_eq!(pruned.ranked.len(), 1);
    assert!(pruned.stats.candidate_layers < 24, "{}", pruned.stats.candidate_layers);
    let whole = run(&engine, Within::any_time(), 1);
    assert_eq!(places(&pruned), places(&whole));
}

#[test]
fn a_rated_device_is_as_slow_as_it_is_told() {
    // 1.77 MB a layer at 20 MB/s.
    let device = Arc::new(RatedDevice::new(Duration::from_millis(1), 2e7));
    let options = ElasticOptions { device: Some(device), ..ElasticOptions::default() };
    let engine = engine_with(fast(), options);
    let started = Instant::now();
    run(&engine, Within::any_time(), 6);
    assert!(started.elapsed() > Duration::from_millis(300), "{:?}", started.elapsed());
}

#[test]
fn a_machine_is_measured_and_shards_are_learned() {
    let engine = engine_with(MachineCost::unknown(), ElasticOptions::default());
    let machine = engine.measure().expect("measured");
    assert!(machine.read.mebibyte > 0.0 && machine.compute.assemble_slice > 0.0, "{machine:?}");
    assert_eq!(machine.threads, 2);
    let load = crate::deadline::Load::of(&[140; 20]);
    let (narrow, wide) = (machine.compute.layer_ms(load, 6), machine.compute.layer_ms(load, 12));
    assert!(narrow > 0.0 && wide > narrow, "{narrow} {wide}");
    let question = LearnQuestion {
        query: QUERY.to_owned(),
        candidates: TEXTS[..3].iter().map(|it| (*it).to_owned()).collect(),
        prior: Vec::new(),
        relevant: vec![1.0, 0.0, 0.0],
    };
    let mut steps = 0.0;
    let learned = engine
        .learn(std::slice::from_ref(&question), &mut |done| {
            assert!(done > steps);
            steps = done;
            ControlFlow::Continue(())
        })
        .expect("learned");
    assert_eq!(learned.questions, 1);
    assert!(learned.importance.iter().flatten().any(|it| *it > 0.0));
    assert_eq!(learned.quality.submodels.len(), 4);
    let stopped = engine.learn(&[question], &mut |_| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(Error::Cancelled { .. })));
}

/// An order that leaves everything where it was gives the same scores as one by magnitude.
#[test]
fn shards_in_any_order_are_the_same_model() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("model.shards");
    make_shards(&path, ShardNumbers::Int8, Centroids::EqualPopulation, SliceOrdering::Own);
    let magnitude = engine_with(fast(), ElasticOptions::default());
    let profile = magnitude.profile().clone();
    let options = ElasticOptions { threads: 1, ..ElasticOptions::default() };
    let unchanged = ElasticEngine::open(&model(), &path, profile, options).expect("opens");
    let first = run(&magnitude, Within::any_time(), 6);
    assert_eq!(run(&unchanged, Within::any_time(), 6).ranked, first.ranked);
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let engine = engine_with(fast(), ElasticOptions::default());
    let other = DeadlineProfile { fingerprint: "another".to_owned(), ..engine.profile().clone() };
    let error = ElasticEngine::open(&model(), &shards(), other, ElasticOptions::default());
    assert!(error.is_err_and(|it| it.to_string().contains("other weights")));
    let tiny = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    for (name, word) in
        [("tiny-bert-cross-encoder", "whole blocks"), ("tiny-qwen3-reranker", "family")]
    {
        let numbers = ShardNumbers::Int8;
        let error = ElasticEncoder::open(&tiny.join(name), numbers, OpenOptions::default());
        assert!(error.is_err_and(|it| it.to_string().contains(word)), "{name}");
    }
    let bad =
        engine.run(Run::FULL, Within::any_time(), " ", &TEXTS, Prior::NONE, 1, &mut SilentObserver);
    assert!(matches!(bad, Err(Error::EmptyQuery)));
    let bad = engine.run(
        Run::FULL,
        Within::any_time(),
        "a",
        &TEXTS,
        Prior::always(&[0.0]),
        1,
        &mut SilentObserver,
    );
    assert!(matches!(bad, Err(Error::BadOption(_))));
    let none =
        engine.run(Run::FULL, Within::any_time(), "a", &[], Prior::NONE, 1, &mut SilentObserver);
    assert!(none.expect("nothing to do").ranked.is_empty());
}
