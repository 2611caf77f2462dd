//! A reranker with a deadline (STI): what it reads and computes is planned for each request, from shards of several
//! fidelities, and between requests it keeps a few megabytes of them.
//!
//! [`ElasticEngine`] is to a request with a deadline what [`Engine`](crate::Engine) is to one without. It opens nothing
//! of the layers: the first request reads what its plan takes. Scores of the whole model at eight bits are those of the
//! [`Engine`](crate::Engine), bit by bit.

mod learn;
mod measure;
mod options;
mod pass;
mod request;
mod serve;
mod state;

use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use riddle_kernels::{Pool, isa};
use riddle_offload::ShardStore;
use riddle_transformer::{
    Arithmetic, AssembledLayer, ElasticEncoder, OpenOptions, PairEncoder, ShardShape,
};

use self::state::State;
pub use self::{
    learn::{LearnQuestion, Learned},
    measure::MachineCost,
    options::ElasticOptions,
    request::Within,
};
use crate::{Error, Result, deadline::Quality};

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
        let (mut model, store, small) = open_weights(dir, shards, &profile, options.direct_io)?;
        let sizes = model.network().sizes();
        let max_tokens = options.max_tokens.unwrap_or(sizes.default_max_tokens);
        let max_tokens = max_tokens.min(sizes.max_tokens);
        let encoder = PairEncoder::open(dir, model.network_mut(), max_tokens, None)?;
        let name = dir
            .file_name()
            .map_or_else(|| dir.display().to_string(), |it| it.to_string_lossy().into_owned());
        let state = State::new(model, store, small, &options)?;
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A model, the store of its shards and the small parts of all layers, if they belong together.
fn open_weights(
    dir: &Path,
    shards: &Path,
    profile: &DeadlineProfile,
    direct_io: bool,
) -> Result<(ElasticEncoder, ShardStore, Vec<Vec<u8>>)> {
    let from = OpenOptions { arithmetic: Arithmetic::F32, ..OpenOptions::default() };
    let store = ShardStore::open(shards, &profile.fingerprint, direct_io)
        .map_err(riddle_offload::Error::from)?;
    let model = ElasticEncoder::open(dir, store.shape().numbers, from)?;
    if store.shape() != model.shape() {
        return Err(Error::BadOption(format!(
            "{}: these shards are of a model of another shape",
            shards.display()
        )));
    }
    let small = (0..store.shape().layers)
        .map(|layer| store.read_small(layer).map_err(riddle_offload::Error::from))
        .collect::<Result<_, _>>()?;
    Ok((model, store, small))
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
