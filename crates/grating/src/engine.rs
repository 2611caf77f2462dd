//! The engine: layers outside, micro-batches inside, decisions in between (§3.2).

mod options;
mod together;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use riddle_kernels::{Pool, isa};
use riddle_transformer::{Encoded, OpenOptions, PairEncoder};
use riddle_types::{
    LayerEvent, LayerObserver, MemoryPlan, Prior, RerankOutcome, RerankStats, Reranker, StageError,
    panic_message,
};

pub use self::{
    options::{EngineOptions, Pruning},
    together::Question,
};
use crate::{
    ClusterPruning, Error, Mode, NeverPrune, PruningPolicy, Result, dispersion,
    enforce::Contest,
    forward::{Hidden, LayerWork, Model, Sequences},
    plan::{Plan, Wishes, process_bytes},
};

/// How one request is run: what an open engine can do differently from request to request, over the same weights.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// What pruning may change.
    pub mode: Mode,
    /// Who decides; without effect in [`Mode::Off`].
    pub policy: &'a dyn PruningPolicy,
    /// As [`EngineOptions::scores_every_layer`].
    pub scores_every_layer: bool,
}

impl Run<'_> {
    /// The full forward, without scores on the way.
    pub const FULL: Run<'static> =
        Run { mode: Mode::Off, policy: &NeverPrune, scores_every_layer: false };
}

/// How a request is run, and what is known of its candidates.
#[derive(Clone, Copy)]
struct Asked<'a> {
    how: Run<'a>,
    prior: Prior<'a>,
}

/// A reranker over one cross-encoder. Requests are served one at a time: a second one waits, because two
/// at once would need twice the promised memory and be no faster. What can be asked about the engine
/// never waits for a request, so an observer may ask from inside one.
pub struct Engine {
    name: String,
    num_layers: u32,
    first_scored_layer: u32,
    /// Bytes of weights in memory as of the last layer that ran.
    resident: AtomicU64,
    model: Mutex<Model>,
    encoder: PairEncoder,
    pool: Pool,
    policy: Box<dyn PruningPolicy>,
    options: EngineOptions,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("name", &self.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens a cross-encoder directory as the hub publishes it.
    ///
    /// # Errors
    /// What is missing, damaged or not supported, and options that make no sense.
    pub fn open(dir: &Path, options: EngineOptions) -> Result<Engine> {
        let policy: Box<dyn PruningPolicy> = match options.pruning {
            Pruning::Never => Box::new(NeverPrune),
            Pruning::Clusters { threshold } => {
                if !(threshold.is_finite() && threshold >= 0.0) {
                    return Err(Error::BadOption(format!(
                        "threshold {threshold} is not a number of 0 or more"
                    )));
                }
                Box::new(ClusterPruning::new(threshold))
            }
        };
        Engine::with_policy(dir, options, policy)
    }

    /// As [`open`](Self::open), with a policy of the caller's; `options.pruning` is not looked at.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with_policy(
        dir: &Path,
        options: EngineOptions,
        policy: Box<dyn PruningPolicy>,
    ) -> Result<Engine> {
        if options.micro_batch_tokens == Some(0) || options.window == Some(0) {
            return Err(Error::BadOption(
                "window and micro-batch tokens must be at least 1".to_owned(),
            ));
        }
        if !(0.0..=1.0).contains(&options.embedding_rows) {
            return Err(Error::BadOption(format!(
                "the share of embedding rows must be between 0 and 1, not {}",
                options.embedding_rows
            )));
        }
        // A processor that is asked for what it lacks would be measured as another one.
        isa().map_err(|error| Error::BadOption(error.to_string()))?;
        let EngineOptions { direct_io, arithmetic, .. } = options;
        let from = OpenOptions { direct_io, arithmetic, ..OpenOptions::default() };
        let mut model = Model::open(dir, from, options.window, options.embedding_rows)?;
        let sizes = model.sizes();
        let max_tokens = options.max_tokens.unwrap_or(sizes.default_max_tokens);
        // The first layers are read while the tokenizer's vocabulary is built; of a budget's window, which is known
        // when a request is, the first one.
        match options.memory_budget {
            _ if !options.reads_ahead() => {}
            Some(budget) => model.prefetch_one(budget, process_bytes().unwrap_or(0))?,
            None => model.prefetch()?,
        }
        let instruction = options.instruction.as_deref();
        let encoder = model.encoder(dir, max_tokens.min(sizes.max_tokens), instruction)?;
        let name = dir
            .file_name()
            .map_or_else(|| dir.display().to_string(), |it| it.to_string_lossy().into_owned());
        Ok(Engine {
            name,
            num_layers: model.num_layers(),
            first_scored_layer: model.first_scored_layer(),
            resident: AtomicU64::new(model.resident_bytes()),
            model: Mutex::new(model),
            encoder,
            pool: Pool::new(options.threads)?,
            policy,
            options,
        })
    }

    /// Layers of the model.
    pub fn num_layers(&self) -> u32 {
        self.num_layers
    }

    /// Bytes of weights in memory: layers, embedding rows and head, as of the last layer that ran.
    pub fn resident_weight_bytes(&self) -> u64 {
        self.resident.load(Ordering::Relaxed)
    }

    /// The dispersion threshold in use, for traces.
    pub fn threshold(&self) -> Option<f32> {
        self.policy.threshold()
    }

    /// [`Reranker::rerank`] with the engine's own error type. No candidates or a `top_k` of 0 give an
    /// empty outcome; an empty candidate is a candidate like any other.
    ///
    /// # Errors
    /// An empty query, unreadable or damaged weights, a run that the observer stopped, and
    /// [`Error::Panicked`] when a kernel, policy or observer panics; after each the engine can be used
    /// again.
    pub fn run(
        &self,
        query: &str,
        candidates: &[&str],
        top_k: usize,
        observer: &mut dyn LayerObserver,
    ) -> Result<RerankOutcome> {
        self.run_with_prior(query, candidates, Prior::NONE, top_k, observer)
    }

    /// [`run`](Self::run) with a number for each candidate that is added to its raw score after every layer, so
    /// that early layers, whose own scores say little, can be pruned on. A policy that wants scores after layer 0 may
    /// drop candidates by the prior alone, before anything is computed for them.
    ///
    /// # Errors
    /// As [`run`](Self::run), and [`Error::BadOption`] for a prior that is not finite or not of the candidates'
    /// number.
    pub fn run_with_prior(
        &self,
        query: &str,
        candidates: &[&str],
        prior: Prior<'_>,
        top_k: usize,
        observer: &mut dyn LayerObserver,
    ) -> Result<RerankOutcome> {
        let how = Run {
            mode: self.options.mode,
            policy: &*self.policy,
            scores_every_layer: self.options.scores_every_layer,
        };
        self.run_as(how, query, candidates, prior, top_k, observer)
    }

    /// [`run_with_prior`](Self::run_with_prior) in another mode or by another policy than the engine was opened with.
    ///
    /// # Errors
    /// As there.
    pub fn run_as(
        &self,
        how: Run<'_>,
        query: &str,
        candidates: &[&str],
        prior: Prior<'_>,
        top_k: usize,
        observer: &mut dyn LayerObserver,
    ) -> Result<RerankOutcome> {
        if query.trim().is_empty() {
            return Err(Error::EmptyQuery);
        }
        Error::check_prior(prior, candidates.len())?;
        if candidates.is_empty() || top_k == 0 {
            let stats = RerankStats { num_layers: self.num_layers, ..RerankStats::default() };
            return Ok(RerankOutcome { stats, ..RerankOutcome::default() });
        }
        // A panic must cost this request and nothing else: all of the run's memory is inside, and the
        // window finds its way back from any state.
        let asked = Asked { how, prior };
        let run = || self.tokenize_and_forward(query, candidates, asked, top_k, observer);
        catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|panic| Err(Error::Panicked(panic_message(&*panic).to_owned())))
    }

    fn tokenize_and_forward(
        &self,
        query: &str,
        candidates: &[&str],
        asked: Asked<'_>,
        top_k: usize,
        observer: &mut dyn LayerObserver,
    ) -> Result<RerankOutcome> {
        let Asked { how, prior } = asked;
        let mut contest = Contest::new(how.mode, candidates.len(), top_k, self.num_layers);
        let dropped = contest.judge_prior(how.policy, prior.after(0), Model::activate);
        if !prior.is_empty() {
            observer.on_prior(prior, &dropped);
        }
        let started = Instant::now();
        let query = self.encoder.query(query)?;
        let encode = |&it: &usize| Ok(query.encode(candidates[it])?);
        let pairs: Vec<Encoded> =
            self.pool.map(contest.active(), encode).into_iter().collect::<Result<_>>()?;
        let mut sequences = Sequences::default();
        sequences.add(&query, pairs);
        let tokenize_ms = ms_since(started);
        let mut outcome = self.in_turn(sequences, contest, asked, observer)?;
        outcome.stats.tokenize_ms = tokenize_ms;
        Ok(outcome)
    }

    /// The forward pass, when no other request has one.
    fn in_turn(
        &self,
        sequences: Sequences,
        contest: Contest,
        asked: Asked<'_>,
        observer: &mut dyn LayerObserver,
    ) -> Result<RerankOutcome> {
        // The clock starts when it is this request's turn: waiting for another is not its forward.
        let mut model = self.lock();
        let started = Instant::now();
        let outcome = self.forward(&mut model, sequences, contest, asked, observer);
        let forward_ms = ms_since(started);
        // Wherever this request has ended, the next one begins with the first layers.
        if self.options.reads_ahead() {
            // A reader that is gone is that request's error.
            let _ = model.prefetch();
        }
        let mut outcome = outcome?;
        outcome.stats.forward_ms = forward_ms;
        Ok(outcome)
    }

    /// What is in memory during a run over these sequences.
    fn plan(
        &self,
        model: &Model,
        sequences: &Sequences,
        shared: usize,
    ) -> Result<(Plan, MemoryPlan)> {
        let demand = model.demand(sequences, shared, self.pool.threads());
        let EngineOptions { window, micro_batch_tokens, hidden_on_disk, memory_only, .. } =
            self.options;
        let wishes = Wishes { window, micro_batch_tokens, hidden_on_disk, memory_only };
        let plan = match self.options.memory_budget {
            Some(budget) => wishes.within(budget, model.held_bytes(process_bytes), &demand)?,
            None => wishes.plan(demand.num_layers),
        };
        Ok((plan, demand.report(&plan)))
    }

    fn forward(
        &self,
        model: &mut Model,
        sequences: Sequences,
        mut contest: Contest,
        asked: Asked<'_>,
        observer: &mut dyn LayerObserver,
    ) -> Result<RerankOutcome> {
        let num_layers = self.num_layers;
        let mut stats = RerankStats { num_layers, ..RerankStats::default() };
        let shares = self.options.share_prefix;
        let shared = if shares { model.shared_prefix(&sequences.candidates) } else { 0 };
        let (plan, report) = self.plan(model, &sequences, shared)?;
        stats.shared_prefix_tokens = shared as u64;
        stats.plan = report;
        let temporary = std::env::temp_dir();
        let spill_dir = self.options.spill_dir.as_deref().unwrap_or(&temporary);
        let mut hidden = model.prepare(sequences, shared, &plan, self.pool.threads(), spill_dir)?;
        stats.scratch_bytes = hidden.bytes();
        let stop = observer.stop_flag();
        let stop = stop.as_deref();
        for layer in 1..=num_layers {
            if contest.is_over() {
                break;
            }
            let event = self.one_layer(model, &mut hidden, &mut contest, asked, layer, stop)?;
            stats.layers_run = layer;
            stats.candidate_layers += event.active.len() as u64;
            stats.io_wait_ms += event.io_wait_ms;
            let resident = model.resident_bytes();
            self.resident.store(resident, Ordering::Relaxed);
            stats.resident_weight_bytes = stats.resident_weight_bytes.max(resident);
            if observer.on_layer(&event).is_break() {
                return Err(Error::Cancelled { layer });
            }
        }
        let ranked = contest.ranking(Model::activate);
        Ok(RerankOutcome { ranked, stats, deadline: None })
    }

    fn one_layer(
        &self,
        model: &mut Model,
        hidden: &mut Hidden,
        contest: &mut Contest,
        Asked { how, prior }: Asked<'_>,
        layer: u32,
        stop: Option<&AtomicBool>,
    ) -> Result<LayerEvent> {
        let started = Instant::now();
        let active = contest.active().to_vec();
        let scorable = layer >= self.first_scored_layer;
        let wanted = scorable && contest.wants_scores(how.policy, layer);
        let want_scores = wanted || (scorable && how.scores_every_layer);
        let LayerWork { bytes_read, row_bytes_read, io_wait, scores } =
            self.pool.run(|| model.layer(layer as usize - 1, hidden, want_scores, stop))?;
        let mut event = LayerEvent {
            layer,
            scores,
            bytes_read,
            row_bytes_read,
            io_wait_ms: io_wait.as_secs_f64() * 1e3,
            resident_weight_bytes: model.layer_bytes(),
            ..LayerEvent::default()
        };
        if want_scores {
            for (score, &candidate) in event.scores.iter_mut().zip(&active) {
                *score += prior.of(candidate, layer);
            }
            if event.scores.iter().any(|it| !it.is_finite()) {
                return Err(Error::NotFinite { layer });
            }
            let scores: Vec<f32> = event.scores.iter().map(|&it| Model::activate(it)).collect();
            event.dispersion = Some(dispersion(&scores));
            if wanted {
                let verdicts = contest.judge(how.policy, layer, &event.scores, &scores);
                (event.accepted, event.dropped) = (verdicts.accepted, verdicts.dropped);
            }
        }
        if contest.active().len() < active.len() && !contest.is_over() {
            // Both lists ascend, so the places of those who stay can be found in one pass.
            let mut staying = contest.active().iter().peekable();
            let places: Vec<usize> = (0..active.len())
                .filter(|&it| staying.next_if_eq(&&active[it]).is_some())
                .collect();
            hidden.retain(&places);
        }
        event.active = active;
        event.ms = ms_since(started);
        Ok(event)
    }

    fn lock(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reranker for Engine {
    fn model(&self) -> &str {
        &self.name
    }

    fn rerank_with_prior(
        &self,
        query: &str,
        candidates: &[&str],
        prior: Prior<'_>,
        top_k: usize,
        observer: &mut dyn LayerObserver,
    ) -> Result<RerankOutcome, StageError> {
        Ok(self.run_with_prior(query, candidates, prior, top_k, observer)?)
    }
}

fn ms_since(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use std::{
        ops::ControlFlow,
        time::{Duration, Instant},
    };

    use riddle_types::SilentObserver;

    use super::*;
    use crate::{
        TraceRecorder,
        forward::tests::{Reads, tiny, watch},
    };

    const TEXTS: [&str; 6] = ["the lock gate", "bread", "a boat", "the hull", "dock", "butter"];

    /// An engine over the tiny model, and the layers that it reads from now on.
    fn watched(options: EngineOptions) -> (Engine, Reads) {
        let depth = options.window.expect("a window");
        let mut engine = Engine::open(&tiny(), options).expect("the tiny model opens");
        let model = engine.model.get_mut().expect("nobody panicked");
        let reads = watch(model, depth);
        (engine, reads)
    }

    /// Whether something that another thread does comes true.
    fn eventually(is_true: impl Fn() -> bool) -> bool {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(20) {
            if is_true() {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }

    /// Whether the first layer is the last one to be read: what the reader is at is finished first.
    fn rewinds(reads: &Reads) -> bool {
        eventually(|| reads.lock().expect("no panic").ends_with(&[0]))
    }

    struct StopAfter(u32);

    impl LayerObserver for StopAfter {
        fn on_layer(&mut self, event: &LayerEvent) -> ControlFlow<()> {
            if event.layer >= self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }

    #[test]
    fn wherever_a_request_ends_the_next_one_finds_the_first_layer() {
        let pruning = Pruning::Clusters { threshold: 0.1 };
        let options = EngineOptions {
            mode: Mode::Set,
            pruning,
            window: Some(2),
            threads: 1,
            ..EngineOptions::default()
        };
        // Two win by what is known of them before: the run is over where pruning may begin.
        let prior = [30.0, 30.0, -30.0, -30.0, -30.0, -30.0];
        let (engine, reads) = watched(options.clone());
        let outcome = engine
            .run_with_prior("boat", &TEXTS, Prior::always(&prior), 2, &mut SilentObserver)
            .expect("runs");
        assert_eq!(outcome.stats.layers_run, 2);
        assert!(rewinds(&reads), "after an early end: {reads:?}");
        let (engine, reads) = watched(options);
        engine.run("boat", &TEXTS, 2, &mut StopAfter(2)).expect_err("stopped");
        assert!(rewinds(&reads), "after a stop: {reads:?}");
    }

    /// One engine serves requests in every mode: its own is only what it does unless told otherwise.
    #[test]
    fn a_request_is_run_as_it_asks_and_not_as_the_engine_was_opened() {
        let pruning = Pruning::Clusters { threshold: 0.0 };
        let pruned =
            EngineOptions { mode: Mode::Order, pruning, threads: 1, ..EngineOptions::default() };
        let plain = EngineOptions { threads: 1, ..EngineOptions::default() };
        let open = |options| Engine::open(&tiny(), options).expect("the tiny model opens");
        let (pruned, plain) = (open(pruned), open(plain));
        let clusters = ClusterPruning::new(0.0);
        let as_pruned = Run { mode: Mode::Order, policy: &clusters, scores_every_layer: true };
        let run = |engine: &Engine, how: Option<Run<'_>>| {
            let mut layers = TraceRecorder::default();
            let outcome = match how {
                Some(how) => engine.run_as(how, "boat", &TEXTS, Prior::NONE, 2, &mut layers),
                None => engine.run("boat", &TEXTS, 2, &mut layers),
            };
            let active: Vec<usize> = layers.layers.iter().map(|it| it.active.len()).collect();
            let scored = layers.layers.iter().filter(|it| !it.scores.is_empty()).count();
            (outcome.expect("runs").ranked, active, scored)
        };
        let (own, dropped, _) = run(&pruned, None);
        assert!(dropped.iter().any(|it| *it < TEXTS.len()), "nobody is dropped: {dropped:?}");
        assert_eq!(run(&plain, Some(as_pruned)), (own.clone(), dropped, run(&pruned, None).2));
        let full = run(&pruned, Some(Run::FULL));
        assert_eq!((&full.1, full.2), (&vec![TEXTS.len(); 4], 1), "the last layer alone is scored");
        assert_eq!(full.0, run(&plain, None).0);
        assert!(own.iter().all(|it| it.decided_at_layer == 4), "winners run to the end: {own:?}");
    }

    #[test]
    fn a_window_of_one_reads_nothing_ahead() {
        let options = EngineOptions { window: Some(1), threads: 1, ..EngineOptions::default() };
        let opened = Engine::open(&tiny(), options.clone()).expect("opens");
        assert_eq!(opened.lock().layer_bytes(), 0);
        let (engine, reads) = watched(options);
        engine.run("boat", &TEXTS, 2, &mut SilentObserver).expect("runs");
        // The thread ends after what it was told to read.
        drop(engine);
        assert_eq!(*reads.lock().expect("no panic"), [0, 1, 2, 3]);
    }

    #[test]
    fn with_a_budget_the_first_layer_is_read_while_the_engine_opens() {
        let open = |budget| {
            let options = EngineOptions { memory_budget: Some(budget), ..EngineOptions::default() };
            Engine::open(&tiny(), options).expect("opens")
        };
        let engine = open(1 << 40);
        let model = engine.lock();
        let one = model.layer_bytes();
        assert!(one > 0, "nothing is to be read");
        assert!(eventually(|| model.held_bytes(|| Some(one)) == 0), "nobody reads it");
        // Where not even that fits a request is refused before anything is read.
        assert_eq!(open(1).lock().layer_bytes(), 0);
    }
}
