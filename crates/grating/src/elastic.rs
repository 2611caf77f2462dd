//! A reranker with a deadline (STI): what it reads and computes is planned for each request, from shards of several
//! fidelities, and between requests it keeps a few megabytes of them.
//!
//! [`ElasticEngine`] is to a request with a deadline what [`Engine`](crate::Engine) is to one without. It opens nothing
//! of the layers: the first request reads what its plan takes. Scores of the whole model at eight bits are those of the
//! [`Engine`](crate::Engine), bit by bit.

mod learn;
mod measure;
mod pass;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use riddle_kernels::{Pool, isa};
use riddle_offload::{EmbeddingRows, PreloadBuffer, RatedDevice, ShardReader, ShardStore};
use riddle_transformer::{
    Arithmetic, AssembledLayer, ElasticEncoder, Encoded, Fidelity, OpenOptions, PairEncoder,
    ShardShape,
};
use riddle_types::{
    DeadlineEnd, DeadlineReport, LayerObserver, Ranked, RerankOutcome, RerankStats, panic_message,
};

use self::pass::{Ended, Pass};
pub use self::{
    learn::{LearnQuestion, Learned},
    measure::MachineCost,
};
use crate::{
    Error, Result, Run,
    deadline::{Asked, DeadlinePlan, Kept, NoPlan, Planner, Quality, ShardSizes},
    forward::Model,
};

/// Version of what is kept of a model and a machine; another one is measured anew.
pub const DEADLINE_PROFILE_VERSION: u32 = 1;

/// How much more than between requests is kept while they follow each other: the next one begins with what this one has
/// read, and its plan spends the time on more bits (§3.3).
const GROWTH: u64 = 4;

/// Embedding rows that stay when all else is let go: the most frequent tokens of any text, 200 KB of rows of bytes.
const ROWS_KEPT: usize = 512;

/// What is known of a model on a machine.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct DeadlineProfile {
    /// [`DEADLINE_PROFILE_VERSION`].
    pub version: u32,
    /// The model's files, as whoever keeps the profile names them.
    pub fingerprint: String,
    /// What the machine takes.
    pub machine: MachineCost,
    /// What the model's shards are worth.
    pub learned: Learned,
}

/// How an engine with deadlines runs.
#[derive(Debug, Clone)]
pub struct ElasticOptions {
    /// Threads that compute.
    pub threads: usize,
    /// Longest pair in tokens; `None`: what the model's reference implementation reads.
    pub max_tokens: Option<usize>,
    /// Share of the vocabulary whose embedding rows may be in memory, 0…1.
    pub embedding_rows: f32,
    /// Tokens that a layer computes at a time.
    pub micro_batch_tokens: usize,
    /// Bytes of shards that stay between requests.
    pub keep_bytes: u64,
    /// Reads shards past the page cache, where the system can.
    pub direct_io: bool,
    /// A device to read as fast as, for measurements.
    pub device: Option<Arc<RatedDevice>>,
    /// Whether single shards are given more bits than the others.
    pub upgrades: bool,
    /// The bits that plans choose from; `None`: all that the store has.
    pub bits: Option<Vec<u8>>,
    /// Whether a layer is read while the one before is computed; else all are read before the first.
    pub overlap: bool,
}

impl Default for ElasticOptions {
    fn default() -> Self {
        ElasticOptions {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            max_tokens: None,
            embedding_rows: 0.1,
            micro_batch_tokens: crate::plan::DEFAULT_MICRO_BATCH_TOKENS,
            keep_bytes: 0,
            direct_io: false,
            device: None,
            upgrades: true,
            bits: None,
            overlap: true,
        }
    }
}

/// A deadline of a request.
#[derive(Debug, Clone, Copy)]
pub struct Within {
    /// When the request was made.
    pub called: Instant,
    /// How long it may take from then; `None`: the whole model, however long it takes.
    pub deadline: Option<Duration>,
}

impl Within {
    /// Without a deadline.
    pub fn any_time() -> Within {
        Within { called: Instant::now(), deadline: None }
    }

    /// From now on.
    pub fn from_now(deadline: Duration) -> Within {
        Within { called: Instant::now(), deadline: Some(deadline) }
    }
}

/// A submodel that is computed whatever time it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submodel {
    /// Bits of each shard, by layer and slice: as many rows as layers, all of one width.
    pub bits: Vec<Vec<u8>>,
}

impl Submodel {
    /// All shards of so many layers and slices in one fidelity.
    pub fn uniform(layers: usize, width: usize, bits: u8) -> Submodel {
        Submodel { bits: vec![vec![bits; width]; layers] }
    }
}

/// A reranker over the shards of one cross-encoder. Requests are served one at a time.
pub struct ElasticEngine {
    name: String,
    shape: ShardShape,
    resident: AtomicU64,
    kept: AtomicU64,
    state: Mutex<State>,
    encoder: PairEncoder,
    pool: Pool,
    profile: DeadlineProfile,
    options: ElasticOptions,
}

/// What a request changes.
pub(crate) struct State {
    model: ElasticEncoder,
    sizes: Sizes,
    /// Small parts of all layers.
    small: Vec<Vec<u8>>,
    reader: ShardReader,
    rows: EmbeddingRows,
    row_capacity: usize,
    kept: PreloadBuffer,
    layer: AssembledLayer,
    /// Bytes that stay when nothing else does.
    keep_bytes: u64,
}

/// Sizes of a store's shards, as a planner asks for them.
pub(crate) struct Sizes {
    store: Arc<ShardStore>,
    bits: Vec<u8>,
}

impl ShardSizes for Sizes {
    fn layers(&self) -> usize {
        self.store.shape().layers
    }

    fn slices(&self) -> usize {
        self.store.shape().slices
    }

    fn fidelities(&self) -> &[u8] {
        &self.bits
    }

    fn bytes(&self, layer: usize, slice: usize, bits: u8) -> usize {
        shard_id(layer, slice, bits).map_or(0, |it| self.store.bytes(it))
    }
}

/// A shard of so many bits, if there can be one.
fn shard_id(layer: usize, slice: usize, bits: u8) -> Option<riddle_offload::ShardId> {
    let fidelity = Fidelity::try_from(bits).ok()?;
    Some(riddle_offload::ShardId { layer, slice, fidelity })
}

impl std::fmt::Debug for ElasticEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ElasticEngine")
            .field("name", &self.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl ElasticEngine {
    /// Opens a model directory and the store of its shards, made of weights that `profile` is of.
    ///
    /// # Errors
    /// What is missing, damaged, not supported or does not belong together.
    pub fn open(
        dir: &Path,
        shards: &Path,
        profile: DeadlineProfile,
        options: ElasticOptions,
    ) -> Result<ElasticEngine> {
        isa().map_err(|error| Error::BadOption(error.to_string()))?;
        if options.micro_batch_tokens == 0 {
            return Err(Error::BadOption("micro-batches must have at least 1 token".to_owned()));
        }
        let from = OpenOptions { arithmetic: Arithmetic::F32, ..OpenOptions::default() };
        let mut model = ElasticEncoder::open(dir, from)?;
        let store = ShardStore::open(shards, &profile.fingerprint, options.direct_io)
            .map_err(riddle_offload::Error::from)?;
        if store.shape() != model.shape() {
            return Err(Error::BadOption(format!(
                "{}: these shards are of a model of another shape",
                shards.display()
            )));
        }
        let small: Vec<Vec<u8>> = (0..store.shape().layers)
            .map(|layer| store.read_small(layer).map_err(riddle_offload::Error::from))
            .collect::<Result<_, _>>()?;
        let store = Arc::new(store);
        let sizes = model.network().sizes();
        let max_tokens = options.max_tokens.unwrap_or(sizes.default_max_tokens);
        let max_tokens = max_tokens.min(sizes.max_tokens);
        let encoder = PairEncoder::open(dir, model.network_mut(), max_tokens, None)?;
        let table = model.network().token_table().clone();
        let mut rows =
            EmbeddingRows::new(model.checkpoint().clone(), table, options.embedding_rows);
        rows.set_device(options.device.clone());
        let name = dir
            .file_name()
            .map_or_else(|| dir.display().to_string(), |it| it.to_string_lossy().into_owned());
        let state = State {
            sizes: Sizes {
                bits: chosen_bits(&store, options.bits.as_deref())?,
                store: Arc::clone(&store),
            },
            small,
            reader: ShardReader::new(store, options.device.clone())?,
            row_capacity: rows.capacity(),
            rows,
            kept: PreloadBuffer::default(),
            layer: AssembledLayer::default(),
            keep_bytes: options.keep_bytes,
            model,
        };
        Ok(ElasticEngine {
            name,
            shape: *state.sizes.store.shape(),
            resident: AtomicU64::new(state.resident_bytes()),
            kept: AtomicU64::new(0),
            state: Mutex::new(state),
            encoder,
            pool: Pool::new(options.threads)?,
            profile,
            options,
        })
    }

    /// Where what was learned is of another shape, or nothing was, puts `unlearned` in its place.
    pub fn fit_learned(&mut self, unlearned: impl Fn(&ShardShape) -> Learned) {
        let ShardShape { layers, slices, .. } = self.shape;
        let learned = &self.profile.learned;
        let fits = |table: &[usize]| table.len() == layers && table.iter().all(|it| *it == slices);
        let importance: Vec<usize> = learned.importance.iter().map(Vec::len).collect();
        let submodels: Vec<usize> = learned.quality.submodels.iter().map(Vec::len).collect();
        if !(fits(&importance) && fits(&submodels)) {
            self.profile.learned = unlearned(&self.shape);
        }
    }

    /// Name of the model.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Layers of the model.
    pub fn num_layers(&self) -> u32 {
        // Shapes are checked to be small.
        self.shape.layers as u32
    }

    /// How the model is cut.
    pub fn shape(&self) -> &ShardShape {
        &self.shape
    }

    /// What is known of it on this machine.
    pub fn profile(&self) -> &DeadlineProfile {
        &self.profile
    }

    /// Bytes of weights in memory as of the last request.
    pub fn resident_weight_bytes(&self) -> u64 {
        self.resident.load(Ordering::Relaxed)
    }

    /// Bytes of shards in memory as of the last request.
    pub fn kept_bytes(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    /// Lets everything go but `bytes` of shards, those of the lowest layers first, and some embedding rows: what a
    /// request after a pause begins with.
    pub fn shrink_to(&self, bytes: u64) {
        let mut state = self.lock();
        state.kept.shrink_to(bytes);
        state.layer = AssembledLayer::default();
        let capacity = state.row_capacity;
        state.rows.set_capacity(if bytes == 0 { 1 } else { ROWS_KEPT });
        state.rows.set_capacity(capacity);
        self.note(&state);
    }

    /// As after a pause.
    pub fn let_go(&self) {
        let keep = self.lock().keep_bytes;
        self.shrink_to(keep);
    }

    /// Changes how much stays.
    pub fn keep(&self, bytes: u64) {
        let mut state = self.lock();
        state.keep_bytes = bytes;
        state.kept.shrink_to(bytes.saturating_mul(GROWTH));
        self.note(&state);
    }

    fn note(&self, state: &State) {
        self.resident.store(state.resident_bytes(), Ordering::Relaxed);
        self.kept.store(state.kept.bytes(), Ordering::Relaxed);
    }

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
        prior: &[f32],
        top_k: usize,
        observer: &mut dyn LayerObserver,
    ) -> Result<RerankOutcome> {
        if query.trim().is_empty() {
            return Err(Error::EmptyQuery);
        }
        let finite = prior.iter().all(|it| it.is_finite());
        if !(finite && (prior.is_empty() || prior.len() == candidates.len())) {
            return Err(Error::BadOption(format!(
                "a prior of {} numbers for {} candidates: one finite number for each is needed",
                prior.len(),
                candidates.len()
            )));
        }
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
        let order = order_of(request.candidates.len(), prior);
        if !prior.is_empty() {
            observer.on_prior(prior, &[]);
        }
        let started = Instant::now();
        let pairs = self.encode(request.query, request.candidates, &order)?;
        let tokenize_ms = ms(started.elapsed());
        let mut state = self.lock();
        let forward = Instant::now();
        let preload_bytes = state.kept.bytes();
        let made = self.plan(&state, &pairs, within);
        let plan = match made {
            Ok(plan) => plan,
            Err(no) => {
                let mut outcome = self.as_given(request, &order, DeadlineEnd::NotRanked);
                if let Some(report) = &mut outcome.deadline {
                    (report.end, report.least_ms) = match no {
                        NoPlan::TooShort { least_ms } => (DeadlineEnd::TooShort, Some(least_ms)),
                        NoPlan::NothingGained => (DeadlineEnd::NothingGained, None),
                    };
                }
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
        let Ended { end, ranked, mut stats, plan, bytes_read, replanned } = ended?;
        (stats.tokenize_ms, stats.forward_ms) = (tokenize_ms, ms(forward.elapsed()));
        stats.resident_weight_bytes = stats.resident_weight_bytes.max(state.resident_bytes());
        if end == DeadlineEnd::NotRanked {
            let mut outcome = self.as_given(request, &order, end);
            outcome.stats = stats;
            return Ok(outcome);
        }
        let deadline = within.deadline.map(|target| {
            let took = within.called.elapsed();
            DeadlineReport {
                target_ms: ms(target),
                took_ms: ms(took),
                met: took <= target,
                end,
                least_ms: None,
                plan: Some(riddle_types::DeadlinePlan {
                    layers: plan.layers as u32,
                    width: plan.width as u32,
                    num_layers: self.num_layers(),
                    slices: self.shape.slices as u32,
                    candidates: plan.candidates as u32,
                    bits: plan.bits,
                    budgets_ms: first.budgets_ms,
                    predicted_ms: first.predicted_ms,
                    preload_bytes,
                    bytes_read,
                    replanned,
                }),
            }
        });
        Ok(RerankOutcome { ranked, stats, deadline })
    }

    fn encode(&self, query: &str, candidates: &[&str], order: &[usize]) -> Result<Vec<Encoded>> {
        let query = self.encoder.query(query)?;
        let encode = |&it: &usize| Ok(query.encode(candidates[it])?);
        self.pool.map(order, encode).into_iter().collect()
    }

    fn plan(
        &self,
        state: &State,
        pairs: &[Encoded],
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
                quality: 0.0,
            });
        };
        let ids = pairs.iter().flat_map(|it| it.ids.iter().copied());
        let (reads, rows) = state.rows.missing(ids);
        let row_bytes = rows * state.rows.row_bytes();
        let read = self.profile.machine.read;
        let rows_ms = reads as f64 * read.latency + read.ms(row_bytes) - read.ms(0);
        let kept = state.kept_bits();
        self.planner(state, &kept).plan(&Asked {
            lengths: &lengths,
            deadline_ms: ms(deadline),
            elapsed_ms: ms(within.called.elapsed()),
            rows_ms,
        })
    }

    pub(crate) fn planner<'a>(&'a self, state: &'a State, kept: &'a Kept) -> Planner<'a> {
        Planner {
            sizes: &state.sizes,
            importance: &self.profile.learned.importance,
            quality: &self.profile.learned.quality,
            read: self.profile.machine.read,
            compute: self.profile.machine.compute,
            kept,
            upgrades: self.options.upgrades,
            overlap: self.options.overlap,
        }
    }

    /// The candidates as they came.
    fn as_given(&self, request: &Request<'_>, order: &[usize], end: DeadlineEnd) -> RerankOutcome {
        let Within { called, deadline } = request.within;
        let mut lowest = f32::INFINITY;
        let ranked = order.iter().take(request.top_k).map(|&index| {
            let raw = request.prior.get(index).copied().unwrap_or(0.0).min(lowest);
            lowest = raw;
            Ranked { index, raw_score: raw, score: Model::activate(raw), decided_at_layer: 0 }
        });
        let ranked = ranked.collect();
        let took = called.elapsed();
        let target = deadline.unwrap_or(took);
        RerankOutcome {
            ranked,
            stats: RerankStats { num_layers: self.num_layers(), ..RerankStats::default() },
            deadline: Some(DeadlineReport {
                target_ms: ms(target),
                took_ms: ms(took),
                met: took <= target,
                end,
                least_ms: None,
                plan: None,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn resident_bytes(&self) -> u64 {
        let small: u64 = self.small.iter().map(|it| it.len() as u64).sum();
        self.kept.bytes()
            + small
            + self.layer.bytes()
            + self.rows.resident_bytes()
            + self.model.network().resident_bytes()
    }

    /// Bits of the shards in memory.
    pub(crate) fn kept_bits(&self) -> Kept {
        let ShardShape { layers, slices, .. } = *self.sizes.store.shape();
        let bits = |layer: usize, slice: usize| {
            self.kept.get(layer, slice).map(|it| u8::from(it.id.fidelity))
        };
        Kept((0..layers).map(|l| (0..slices).map(|s| bits(l, s)).collect()).collect())
    }
}

/// The bits that plans choose from.
fn chosen_bits(store: &ShardStore, wanted: Option<&[u8]>) -> Result<Vec<u8>> {
    let all = store.fidelities().iter().map(|it| u8::from(*it));
    let bits: Vec<u8> = all.filter(|it| wanted.is_none_or(|wanted| wanted.contains(it))).collect();
    if bits.is_empty() {
        return Err(Error::BadOption(format!("there are no shards of {wanted:?} bits")));
    }
    Ok(bits)
}

/// A request.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    how: Run<'a>,
    within: Within,
    query: &'a str,
    candidates: &'a [&'a str],
    prior: &'a [f32],
    top_k: usize,
}

/// The order in which candidates are read: by what is known of them before, else as they came.
fn order_of(count: usize, prior: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    if !prior.is_empty() {
        order.sort_by(|a, b| prior[*b].total_cmp(&prior[*a]));
    }
    order
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Where a model's shards and profile are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElasticFiles {
    /// The store of shards.
    pub shards: PathBuf,
    /// The profile.
    pub profile: PathBuf,
}

/// What nobody has measured of a model.
pub fn unlearned(shape: &ShardShape) -> Learned {
    Learned {
        importance: vec![vec![0.0; shape.slices]; shape.layers],
        quality: Quality::unknown(shape.layers, shape.slices),
        questions: 0,
    }
}

#[cfg(test)]
mod tests;
