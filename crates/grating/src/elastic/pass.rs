//! One request over a submodel: layers outside, micro-batches inside, the clock in between.

// Long: what a request does in each layer, and by the clock in between, is one story.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use riddle_kernels::zeros;
use riddle_offload::{LoadedLayer, Shard, ShardId};
use riddle_transformer::{
    CrossEncoder, ElasticEncoder, Encoded, Prefix, RaggedBatch, Scratch, ScratchSize, Span, Wanted,
};
use riddle_types::{DeadlineEnd, LayerEvent, LayerObserver, Ranked, RerankStats};

use super::{
    ElasticEngine, ms,
    request::Request,
    state::{Computing, State, shard_id},
};
use crate::{
    Error, Mode, NeverPrune, PruningPolicy, Result,
    deadline::{DeadlinePlan, Kept, Load},
    dispersion,
    enforce::Contest,
    forward::{Model, QueryStates},
    plan::{largest_micro_batch, micro_batches},
};

/// Fewest bits at which scores after each layer are those that pruning was learned on: the loss is a few
/// ten-thousandths.
const PRUNING_BITS: u8 = 6;

/// How a pass has ended.
pub(super) struct Ended {
    pub(super) end: DeadlineEnd,
    pub(super) ranked: Vec<Ranked>,
    pub(super) stats: RerankStats,
    pub(super) plan: DeadlinePlan,
    pub(super) bytes_read: u64,
    /// Milliseconds that reading embedding rows has taken.
    pub(super) rows_read_ms: f64,
    pub(super) computing: Computing,
    pub(super) replanned: u32,
}

/// A request on its way.
pub(super) struct Pass<'a> {
    engine: &'a ElasticEngine,
    request: &'a Request<'a>,
    /// The request's index of each candidate, in the order in which they are read.
    order: &'a [usize],
    plan: DeadlinePlan,
    hard_end: Option<Instant>,
    stats: RerankStats,
    bytes_read: u64,
    rows_read_ms: f64,
    computing: Computing,
    replanned: u32,
    /// What was in memory when the plan was made; it stays until the request is done.
    held: Vec<Vec<Option<Shard>>>,
}

/// The states of all candidates that run.
struct Hidden {
    lengths: Vec<usize>,
    /// Tokens of the query in each.
    queries: Vec<usize>,
    states: Vec<f32>,
    scratch: Scratch,
    width: usize,
}

/// The candidates that run.
struct Running<'a> {
    contest: Contest,
    policy: &'a dyn PruningPolicy,
    hidden: Hidden,
    /// Their raw scores after the last layer that was done.
    newest: Vec<f32>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        engine: &'a ElasticEngine,
        request: &'a Request<'a>,
        order: &'a [usize],
        plan: DeadlinePlan,
    ) -> Pass<'a> {
        let within = request.within;
        Pass {
            engine,
            request,
            order,
            plan,
            hard_end: within.deadline.map(|it| within.called + it),
            stats: RerankStats { num_layers: engine.num_layers(), ..RerankStats::default() },
            bytes_read: 0,
            rows_read_ms: 0.0,
            computing: Computing::default(),
            replanned: 0,
            held: Vec::new(),
        }
    }

    /// Runs it to its end, planned or not.
    pub(super) fn run(
        mut self,
        state: &mut State,
        mut pairs: Vec<Encoded>,
        observer: &mut dyn LayerObserver,
    ) -> Result<Ended> {
        pairs.truncate(self.plan.candidates);
        self.hold(state);
        let (mode, policy) = self.pruning();
        let contest = Contest::new(mode, pairs.len(), self.request.top_k, self.engine.num_layers());
        let stop = observer.stop_flag();
        let Some(hidden) = self.embed(state, &pairs)? else {
            return Ok(self.ended(DeadlineEnd::NotRanked, Vec::new()));
        };
        let mut running = Running { contest, policy, hidden, newest: Vec::new() };
        let mut done = 0;
        let mut end = DeadlineEnd::Ranked;
        let mut before = self.all_before(state)?;
        while done < self.plan.layers && !running.contest.is_over() {
            let started = Instant::now();
            let loaded = match before.pop_front() {
                Some(loaded) => loaded,
                None => state.reader.take(done)?,
            };
            let stop = stop.as_deref();
            let Some(mut event) = self.one_layer(state, done, loaded, &mut running, stop)? else {
                end = DeadlineEnd::Provisional;
                break;
            };
            done += 1;
            event.ms = ms(started.elapsed());
            if observer.on_layer(&event).is_break() {
                return Err(Error::Cancelled { layer: event.layer });
            }
            if done < self.plan.layers && !running.contest.is_over() {
                self.replan(state, done, &running.hidden.lengths);
            }
        }
        if done == 0 {
            return Ok(self.ended(DeadlineEnd::NotRanked, Vec::new()));
        }
        let Running { mut contest, newest, .. } = running;
        if !contest.is_over() {
            contest.end(done as u32, &newest);
        }
        let ranked = self.ranking(contest);
        Ok(self.ended(end, ranked))
    }

    /// Layer `layer` (from 0) over all who run, and what of them is decided by it. None where the time was up before it
    /// was done.
    fn one_layer(
        &mut self,
        state: &mut State,
        layer: usize,
        loaded: LoadedLayer,
        running: &mut Running<'_>,
        stop: Option<&AtomicBool>,
    ) -> Result<Option<LayerEvent>> {
        let (io_wait, read) = (loaded.io_wait, loaded.bytes_read);
        self.bytes_read += read;
        let load = Load::of(&running.hidden.lengths);
        let started = Instant::now();
        let computed = self.layer(state, layer, loaded, &mut running.hidden, stop)?;
        let is_last = layer + 1 == self.plan.layers;
        // Also where the time was up: it took at least this.
        self.computing.took += ms(started.elapsed());
        self.computing.thought += {
            let cost = &self.engine.profile.machine.compute;
            let width = self.plan.width;
            if is_last { cost.last_ms(load, width) } else { cost.layer_ms(load, width) }
        };
        let Some(scores) = computed else { return Ok(None) };
        let number = layer as u32 + 1;
        let active = running.contest.active().to_vec();
        running.newest = self.with_prior(&active, scores, number);
        if running.newest.iter().any(|it| !it.is_finite()) {
            return Err(Error::NotFinite { layer: number });
        }
        let activated: Vec<f32> = running.newest.iter().map(|it| Model::activate(*it)).collect();
        let mut event = LayerEvent {
            layer: number,
            active: active.iter().map(|it| self.order[*it]).collect(),
            scores: running.newest.clone(),
            dispersion: Some(dispersion(&activated)),
            bytes_read: read,
            io_wait_ms: ms(io_wait),
            resident_weight_bytes: state.kept.bytes() + state.layer.bytes(),
            ..LayerEvent::default()
        };
        self.count(&event, state);
        if !is_last && running.contest.wants_scores(running.policy, number) {
            let Running { contest, policy, newest, .. } = running;
            let verdicts = contest.judge(*policy, number, newest, &activated);
            let of = |all: Vec<usize>| all.into_iter().map(|it| self.order[it]).collect();
            (event.accepted, event.dropped) = (of(verdicts.accepted), of(verdicts.dropped));
            running.close_gaps(&active);
        }
        Ok(Some(event))
    }

    fn ended(self, end: DeadlineEnd, ranked: Vec<Ranked>) -> Ended {
        let Pass { stats, plan, bytes_read, rows_read_ms, computing, replanned, .. } = self;
        Ended { end, ranked, stats, plan, bytes_read, rows_read_ms, computing, replanned }
    }

    fn count(&mut self, event: &LayerEvent, state: &State) {
        let stats = &mut self.stats;
        stats.layers_run = event.layer;
        stats.candidate_layers += event.active.len() as u64;
        stats.io_wait_ms += event.io_wait_ms;
        stats.resident_weight_bytes = stats.resident_weight_bytes.max(state.resident_bytes());
    }

    /// Whether it is the whole model, exactly enough for what was learned of it.
    fn is_whole(&self) -> bool {
        let shape = &self.engine.shape;
        self.plan.layers == shape.layers
            && self.plan.width == shape.slices
            && self.plan.bits.iter().flatten().all(|it| *it >= PRUNING_BITS)
    }

    /// Whether early layers are asked who may leave. Their heads know the whole model's states: parts of it are read by
    /// the head that was trained with parts.
    fn judges(&self) -> bool {
        self.is_whole() && self.request.how.mode != Mode::Off
    }

    /// What may be pruned, and who decides: nothing and nobody, unless it is the whole model.
    fn pruning(&self) -> (Mode, &'a dyn PruningPolicy) {
        if self.is_whole() {
            (self.request.how.mode, self.request.how.policy)
        } else {
            (Mode::Off, &NeverPrune)
        }
    }

    /// Takes hold of what the plan finds in memory.
    fn hold(&mut self, state: &State) {
        let shape = self.engine.shape;
        let of = |layer: usize, slice: usize| state.kept.get(layer, slice).cloned();
        self.held =
            (0..shape.layers).map(|l| (0..self.plan.width).map(|s| of(l, s)).collect()).collect();
    }

    fn wanted(&self, layer: usize) -> Vec<ShardId> {
        let bits = self.plan.bits.get(layer).map_or(&[][..], Vec::as_slice);
        bits.iter().enumerate().filter_map(|(slice, bits)| shard_id(layer, slice, *bits)).collect()
    }

    /// A shard that was in memory when the request began.
    fn held(&self, id: ShardId) -> Option<&Shard> {
        let shard = self.held.get(id.layer)?.get(id.slice)?.as_ref()?;
        (shard.id == id).then_some(shard)
    }

    /// Shards of a layer that have to be read.
    fn to_read(&self, layer: usize) -> Vec<ShardId> {
        self.wanted(layer).into_iter().filter(|it| self.held(*it).is_none()).collect()
    }

    fn is_late(&self) -> bool {
        self.hard_end.is_some_and(|it| Instant::now() >= it)
    }

    /// All layers, where none is computed before all are there.
    fn all_before(&self, state: &State) -> Result<VecDeque<LoadedLayer>> {
        let layers = if self.engine.options.overlap { 0 } else { self.plan.layers };
        (0..layers).map(|it| Ok(state.reader.take(it)?)).collect()
    }

    /// Memory for all states, and the first ones. None where there was no time for that.
    fn embed(&mut self, state: &mut State, pairs: &[Encoded]) -> Result<Option<Hidden>> {
        let tokens: usize = pairs.iter().map(Encoded::len).sum();
        let lengths: Vec<usize> = pairs.iter().map(Encoded::len).collect();
        let queries = pairs.iter().map(Encoded::first_segment).collect();
        let network = state.model.network();
        let width = network.sizes().hidden_size;
        let scratch = scratch_for(self.engine, &state.model, &lengths);
        let mut states = zeros(tokens * width);
        self.stats.scratch_bytes = scratch.bytes() + size_of_val(states.as_slice()) as u64;
        let before = state.rows.stats();
        // All at once: rows of several micro-batches that are neighbors are one read.
        let ids: Vec<u32> = pairs.iter().flat_map(|it| it.ids.iter().copied()).collect();
        let complete = state.rows.gather_while(&ids, &mut states, &|| !self.is_late())?;
        let after = state.rows.stats();
        self.bytes_read += after.bytes_read - before.bytes_read;
        self.rows_read_ms = ms(after.read_time - before.read_time);
        self.stats.io_wait_ms += self.rows_read_ms;
        if !complete {
            return Ok(None);
        }
        // One queue reads: shards of layers that are far would keep the rows waiting, each of them anew. The first
        // layer comes while the rows are made states of.
        state.reader.begin((0..self.plan.layers).map(|it| self.to_read(it)).collect());
        first_states(self.engine, network, pairs, &mut states);
        Ok(Some(Hidden { lengths, queries, states, scratch, width }))
    }

    /// Puts a layer together of what was read and what was there.
    fn assemble(&self, state: &mut State, layer: usize, loaded: LoadedLayer) -> Result<()> {
        let State { small, layer: assembled, kept, keep_bytes, .. } = state;
        let shards = self.together(layer, loaded)?;
        let parts: Vec<_> = shards
            .iter()
            .map(|it| riddle_transformer::ShardBytes {
                slice: it.id.slice,
                fidelity: it.id.fidelity,
                bytes: &it.bytes,
            })
            .collect();
        let shape = &self.engine.shape;
        self.engine.pool.run(|| assembled.assemble(shape, &small[layer], &parts));
        for shard in &shards {
            kept.put(shard.clone());
        }
        kept.shrink_to(keep_bytes.saturating_mul(super::GROWTH));
        Ok(())
    }

    /// A layer over all who run: their scores, or none where the time was up.
    fn layer(
        &mut self,
        state: &mut State,
        layer: usize,
        loaded: LoadedLayer,
        hidden: &mut Hidden,
        stop: Option<&AtomicBool>,
    ) -> Result<Option<Vec<f32>>> {
        self.assemble(state, layer, loaded)?;
        let State { model, layer: assembled, .. } = state;
        let wanted = if layer + 1 == self.plan.layers { Wanted::Scored } else { Wanted::All };
        let network = model.network();
        let early = network.early(layer).filter(|_| wanted == Wanted::All && self.judges());
        let mut scores = Vec::with_capacity(hidden.lengths.len());
        let most = self.engine.options.micro_batch_tokens;
        let Hidden { lengths, queries, states, scratch, width } = hidden;
        let mut start = 0;
        for members in micro_batches(lengths, most) {
            if stop.is_some_and(|it| it.load(Ordering::Relaxed)) {
                return Err(Error::Cancelled { layer: layer as u32 });
            }
            if self.is_late() {
                return Ok(None);
            }
            let cu_seqlens = cumulative(lengths, members.clone());
            let tokens = cu_seqlens[members.len()];
            let part = &mut states[start * *width..][..tokens * *width];
            start += tokens;
            let span = Span { cu_seqlens: &cu_seqlens, prefix: Prefix::None, wanted, unseen: 0 };
            let each: Vec<usize> = (0..=members.len()).collect();
            self.engine.pool.run(|| {
                model.layer(assembled, span, part, scratch);
                match (wanted, early) {
                    // One state of each is left.
                    (Wanted::Scored, _) => network.scores(layer, &each, part, &mut scores),
                    (Wanted::All, None) => network.scores(layer, &cu_seqlens, part, &mut scores),
                    (Wanted::All, Some(early)) => {
                        QueryStates::of(&cu_seqlens, &queries[members.clone()], part, *width)
                            .scores(network, layer, early, &mut scores);
                    }
                }
            });
        }
        Ok(Some(scores))
    }

    /// What was read and what was there, by slice.
    fn together(&self, layer: usize, loaded: LoadedLayer) -> Result<Vec<Shard>> {
        let mut shards: Vec<Shard> = loaded.shards;
        shards.extend(self.wanted(layer).into_iter().filter_map(|it| self.held(it).cloned()));
        shards.sort_by_key(|it| it.id.slice);
        if shards.len() == self.plan.width {
            return Ok(shards);
        }
        Err(riddle_offload::Error::ReaderGone.into())
    }

    fn with_prior(&self, active: &[usize], mut scores: Vec<f32>, layer: u32) -> Vec<f32> {
        // Else the last layer that is read has the say, whichever it is.
        let layer = if self.judges() { layer } else { u32::MAX };
        for (score, &candidate) in scores.iter_mut().zip(active) {
            *score += self.request.prior.of(self.order[candidate], layer);
        }
        scores
    }

    /// The rest by the clock.
    fn replan(&mut self, state: &State, done: usize, lengths: &[usize]) {
        let Some(end) = self.hard_end else { return };
        let left = end.saturating_duration_since(Instant::now());
        let free = state.reader.first_free(self.plan.layers);
        let kept = self.held_bits();
        let planner = self.engine.planner(state, &kept);
        // What has been begun takes at most as long as if it had not been.
        let coming: f64 = (done..free.min(self.plan.layers))
            .map(|it| {
                let bytes: usize =
                    self.to_read(it).iter().map(|id| state.sizes.store.bytes(*id)).sum();
                if bytes > 0 { planner.read.ms(bytes) } else { 0.0 }
            })
            .sum();
        let mut plan = self.plan.clone();
        let changed = planner.rest(&mut plan, done, free, Load::of(lengths), ms(left), coming);
        if !changed {
            return;
        }
        let before = std::mem::replace(&mut self.plan, plan);
        let same = before.bits.iter().zip(&self.plan.bits).skip(free).all(|(a, b)| a == b)
            && self.plan.layers <= before.layers;
        let jobs = (free..self.plan.layers).map(|it| self.to_read(it)).collect();
        if same || state.reader.replace(free, jobs) {
            self.replanned += 1;
        } else {
            // The reader was faster: what it has begun is what it was told. Only depth may still shrink.
            let layers = self.plan.layers.min(before.layers);
            self.plan = before;
            self.plan.layers = layers;
        }
    }

    fn held_bits(&self) -> Kept {
        let bits = |it: &Option<Shard>| it.as_ref().map(|it| u8::from(it.id.fidelity));
        Kept(self.held.iter().map(|row| row.iter().map(bits).collect()).collect())
    }

    /// Those who were read by their scores, then the others as they came.
    fn ranking(&self, contest: Contest) -> Vec<Ranked> {
        let mut ranked = contest.ranking(Model::activate);
        for it in &mut ranked {
            it.index = self.order[it.index];
        }
        let mut lowest = ranked.last().map_or(f32::INFINITY, |it| it.raw_score);
        let missing = self.request.top_k.min(self.order.len()).saturating_sub(ranked.len());
        for &index in self.order[self.plan.candidates..].iter().take(missing) {
            let prior = self.request.prior.last.get(index).copied().unwrap_or(lowest);
            lowest = lowest.min(prior);
            let score = Model::activate(lowest);
            ranked.push(Ranked { index, raw_score: lowest, score, decided_at_layer: 0 });
        }
        ranked
    }
}

impl Running<'_> {
    /// Closes the gaps that those have made who ran `before` and have left.
    fn close_gaps(&mut self, before: &[usize]) {
        let after = self.contest.active();
        if before.len() == after.len() {
            return;
        }
        let Hidden { lengths: all, queries, states, width, .. } = &mut self.hidden;
        let width = *width;
        let mut staying = after.iter().peekable();
        let (mut lengths, mut scores, mut of_query) = (Vec::new(), Vec::new(), Vec::new());
        let (mut read, mut write) = (0, 0);
        for (place, candidate) in before.iter().enumerate() {
            let length = all[place];
            if staying.next_if_eq(&candidate).is_some() {
                states.copy_within(read * width..(read + length) * width, write * width);
                write += length;
                lengths.push(length);
                of_query.push(queries[place]);
                scores.push(self.newest[place]);
            }
            read += length;
        }
        states.truncate(write * width);
        (*all, *queries, self.newest) = (lengths, of_query, scores);
    }
}

/// Memory for a layer over sequences of these lengths.
pub(super) fn scratch_for(
    engine: &ElasticEngine,
    model: &ElasticEncoder,
    lengths: &[usize],
) -> Scratch {
    let size = ScratchSize {
        tokens: largest_micro_batch(lengths, engine.options.micro_batch_tokens),
        longest: lengths.iter().copied().max().unwrap_or(0),
        threads: engine.pool.threads(),
    };
    Scratch::new(&model.scratch_shape(), size)
}

/// Makes the first states of embedding rows `[tokens, hidden_size]`, in place.
pub(super) fn first_states(
    engine: &ElasticEngine,
    network: &dyn CrossEncoder,
    pairs: &[Encoded],
    mut rows: &mut [f32],
) {
    let lengths: Vec<usize> = pairs.iter().map(Encoded::len).collect();
    let width = network.sizes().hidden_size;
    for members in micro_batches(&lengths, engine.options.micro_batch_tokens) {
        let packed = RaggedBatch::pack(&pairs[members]);
        let (part, rest) = rows.split_at_mut(packed.tokens() * width);
        rows = rest;
        engine.pool.run(|| network.embed(&packed, part));
    }
}

/// Where each of these members begins in their micro-batch, and its end.
pub(super) fn cumulative(lengths: &[usize], members: Range<usize>) -> Vec<usize> {
    let mut sum = 0;
    let sums = lengths[members].iter().map(|length| {
        sum += length;
        sum
    });
    std::iter::once(0).chain(sums).collect()
}
