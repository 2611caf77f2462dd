//! A request from its candidates to their order: planned by the clock, computed, told.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use riddle_offload::MissingRows;
use riddle_transformer::Encoded;
use riddle_types::{
    DeadlineEnd, LayerObserver, Prior, Ranked, RerankOutcome, RerankStats, panic_message,
};

use super::{
    ElasticEngine, GROWTH, Submodel, ms,
    pass::{Ended, Pass},
    request::{Request, Within, order_of},
    state::State,
};
use crate::{
    Error, Result, Run,
    deadline::{Asked, DeadlinePlan, Kept, NoPlan, Planner},
    forward::Model,
};

/// Of what reading embedding rows takes past the system's cache: who takes less has them in memory.
const FROM_MEMORY: f64 = 0.5;

impl ElasticEngine {
    /// Reranks within a deadline. At the deadline the order after the last layer that was done is returned, or the one
    /// in which the candidates came; [`RerankOutcome::deadline`] says which. Candidates that were not read stand behind
    /// those that were, in the order in which they came, at the score of the last.
    ///
    /// Pruning by `how` is a gain of time that no plan counts on, and only happens where the whole model is computed:
    /// thresholds are learned for its scores.
    ///
    /// # Errors
    /// As [`Engine::run_as`](crate::Engine::run_as).
    pub fn run(
        &self,
        how: Run<'_>,
        within: Within,
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
            let stats = RerankStats { num_layers: self.num_layers(), ..RerankStats::default() };
            return Ok(RerankOutcome { stats, ..RerankOutcome::default() });
        }
        let request = Request { how, within, query, candidates, prior, top_k };
        let run = || self.serve(&request, observer);
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            // What it has asked to be read is of no use to anybody.
            self.lock().reader.end();
            Err(Error::Panicked(panic_message(&*panic).to_owned()))
        })
    }

    fn serve(
        &self,
        request: &Request<'_>,
        observer: &mut dyn LayerObserver,
    ) -> Result<RerankOutcome> {
        let Request { within, prior, .. } = *request;
        let order = order_of(request.candidates.len(), prior.last);
        if !prior.is_empty() {
            observer.on_prior(prior, &[]);
        }
        let started = Instant::now();
        let pairs = self.encode(request.query, request.candidates, &order)?;
        let tokenize_ms = ms(started.elapsed());
        let mut state = self.lock();
        let forward = Instant::now();
        let preload_bytes = state.kept.bytes();
        let through = self.gap_bytes(&state);
        state.rows.read_through(through);
        let rows_ms =
            if within.deadline.is_some() { self.rows_ms(&state, &pairs) } else { Vec::new() };
        let plan = match self.plan(&state, &pairs, &rows_ms, within) {
            Ok(plan) => plan,
            Err(no) => {
                let mut outcome = self.unplanned(request, &order, no);
                outcome.stats.tokenize_ms = tokenize_ms;
                return Ok(outcome);
            }
        };
        let first = plan.clone();
        let pass = Pass::new(self, request, &order, plan);
        let ended = pass.run(&mut state, pairs, observer);
        state.reader.end();
        let grown = state.keep_bytes.saturating_mul(GROWTH);
        state.kept.shrink_to(grown);
        self.note(&state);
        let Ended { end, ranked, mut stats, plan, bytes_read, rows_read_ms, computing, replanned } =
            ended?;
        state.see_rows(rows_ms.get(plan.candidates.saturating_sub(1)).copied(), rows_read_ms);
        state.pace.see(computing);
        (stats.tokenize_ms, stats.forward_ms) = (tokenize_ms, ms(forward.elapsed()));
        stats.resident_weight_bytes = stats.resident_weight_bytes.max(state.resident_bytes());
        if end == DeadlineEnd::NotRanked {
            let mut outcome = self.as_given(request, &order, end);
            outcome.stats = stats;
            return Ok(outcome);
        }
        let told = || self.told(plan, first, (preload_bytes, bytes_read, replanned));
        let deadline = within.deadline.map(|_| within.report(end, Some(told())));
        Ok(RerankOutcome { ranked, stats, deadline })
    }

    /// What is told of the plan as it was last, and as it was first.
    fn told(
        &self,
        last: DeadlinePlan,
        first: DeadlinePlan,
        (preload_bytes, bytes_read, replanned): (u64, u64, u32),
    ) -> riddle_types::DeadlinePlan {
        riddle_types::DeadlinePlan {
            layers: last.layers as u32,
            width: last.width as u32,
            num_layers: self.num_layers(),
            slices: self.shape.slices as u32,
            candidates: last.candidates as u32,
            bits: last.bits,
            budgets_ms: first.budgets_ms,
            predicted_ms: first.predicted_ms,
            waiting_ms: last.waiting_ms,
            preload_bytes,
            bytes_read,
            replanned,
        }
    }

    pub(super) fn encode(
        &self,
        query: &str,
        candidates: &[&str],
        order: &[usize],
    ) -> Result<Vec<Encoded>> {
        let query = self.encoder.query(query)?;
        let encode = |&it: &usize| Ok(query.encode(candidates[it])?);
        self.pool.map(order, encode).into_iter().collect()
    }

    fn plan(
        &self,
        state: &State,
        pairs: &[Encoded],
        rows_ms: &[f64],
        within: Within,
    ) -> Result<DeadlinePlan, NoPlan> {
        let lengths: Vec<usize> = pairs.iter().map(Encoded::len).collect();
        let Some(deadline) = within.deadline else {
            let exact = u8::from(self.shape.numbers.exact());
            let bits = Submodel::uniform(self.shape.layers, self.shape.slices, exact).bits;
            return Ok(DeadlinePlan {
                layers: bits.len(),
                width: self.shape.slices,
                candidates: lengths.len(),
                budgets_ms: vec![f64::INFINITY; bits.len()],
                bits,
                predicted_ms: 0.0,
                waiting_ms: 0.0,
                quality: 0.0,
            });
        };
        let kept = state.kept_bits();
        self.planner(state, &kept).plan(&Asked {
            lengths: &lengths,
            deadline_ms: ms(deadline),
            elapsed_ms: ms(within.called.elapsed()),
            rows_ms,
        })
    }

    /// Bytes between two embedding rows that are read sooner than another read begins; none where the system has had
    /// them in memory lately.
    fn gap_bytes(&self, state: &State) -> usize {
        let read = self.profile.machine.read;
        if state.row_factor() < FROM_MEMORY {
            return 0;
        }
        // A float is cut to the integers that there are.
        (read.latency / read.mebibyte.max(1e-6) * f64::from(1 << 20)) as usize
    }

    /// Milliseconds of reading embedding rows for the first candidate, for the first two, and so on.
    fn rows_ms(&self, state: &State, pairs: &[Encoded]) -> Vec<f64> {
        let read = self.profile.machine.read;
        let factor = state.row_factor();
        let took = |missing: MissingRows| {
            let bytes = read.ms(missing.rows * state.rows.row_bytes()) - read.ms(0);
            factor * (missing.reads as f64 * read.latency + bytes)
        };
        let upto = state.rows.missing_by(pairs.iter().map(|it| it.ids.as_slice()));
        upto.into_iter().map(took).collect()
    }

    pub(super) fn planner<'a>(&'a self, state: &'a State, kept: &'a Kept) -> Planner<'a> {
        Planner {
            sizes: &state.sizes,
            importance: &self.profile.learned.importance,
            quality: &self.profile.learned.quality,
            read: self.profile.machine.read,
            compute: self.profile.machine.compute.times(state.pace.careful()),
            usual: self.profile.machine.compute.times(state.pace.usual()),
            kept,
            upgrades: self.options.upgrades,
            overlap: self.options.overlap,
        }
    }

    /// The candidates as they came, and why there is no plan for them.
    fn unplanned(&self, request: &Request<'_>, order: &[usize], no: NoPlan) -> RerankOutcome {
        let (end, least_ms) = match no {
            NoPlan::TooShort { least_ms } => (DeadlineEnd::TooShort, Some(least_ms)),
            NoPlan::NothingGained => (DeadlineEnd::NothingGained, None),
        };
        let mut outcome = self.as_given(request, order, end);
        if let Some(report) = &mut outcome.deadline {
            report.least_ms = least_ms;
        }
        outcome
    }

    /// The candidates as they came.
    fn as_given(&self, request: &Request<'_>, order: &[usize], end: DeadlineEnd) -> RerankOutcome {
        let mut lowest = f32::INFINITY;
        let ranked = order.iter().take(request.top_k).map(|&index| {
            let raw = request.prior.last.get(index).copied().unwrap_or(0.0).min(lowest);
            lowest = raw;
            Ranked { index, raw_score: raw, score: Model::activate(raw), decided_at_layer: 0 }
        });
        RerankOutcome {
            ranked: ranked.collect(),
            stats: RerankStats { num_layers: self.num_layers(), ..RerankStats::default() },
            deadline: Some(request.within.report(end, None)),
        }
    }
}
