//! The built-in encoder: a text encoder of any family, pooled, projected and normalized; what sentence-transformers
//! computes.

use std::{
    borrow::Cow,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use riddle_kernels::{Pool, l2_normalize};
use riddle_offload::{EmbeddingRows, LayerWindow};
use riddle_transformer::{
    Encoded, Modules, OpenOptions, Prefix, RaggedBatch, Scratch, ScratchSize, Span, TextEncoder,
    Tokenizer, Wanted, open_text_encoder, transformer_folder,
};
use riddle_types::{EmbedRole, Embedder, StageError, TokenCounter, panic_message};

use crate::{
    Error, Result,
    card::{self, Prefixes},
    memory::Demand,
};

/// How the encoder runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EncoderOptions {
    /// Threads that compute.
    pub threads: usize,
    /// Tokens computed at a time; bounds the scratch memory.
    pub micro_batch_tokens: usize,
    /// Layers in memory; `None`: all.
    pub window: Option<usize>,
    /// Bytes that weights and what is computed with them may take; what is planned by it comes before `window` and
    /// `micro_batch_tokens`. A text that is longer than the plan's micro-batch takes more while it is computed.
    pub memory: Option<u64>,
    /// Numbers of a vector that are kept, the first ones; `None`: as the model says, all where it says nothing.
    pub dimensions: Option<usize>,
    /// Reads the published weights even if packed ones lie beside them.
    pub published: bool,
}

impl Default for EncoderOptions {
    /// All cores, a resident model, and micro-batches at which matrix products reach full speed.
    fn default() -> Self {
        EncoderOptions {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            micro_batch_tokens: 1024,
            window: None,
            memory: None,
            dimensions: None,
            published: false,
        }
    }
}

/// Longest input when the model directory does not say: all-MiniLM-L6-v2's.
const DEFAULT_MAX_TOKENS: usize = 256;

/// Share of the vocabulary whose rows stay in memory. A person's files use far less of it than the whole
/// of the web, and the cache only grows with use.
pub(crate) const EMBEDDING_ROWS: f32 = 0.5;

/// Most tokens of a question that is computed by one thread.
pub(crate) const FEW_TOKENS: usize = 48;

/// A text encoder in process.
pub struct BuiltinEncoder {
    id: String,
    dimensions: usize,
    modules: Modules,
    prefixes: Prefixes,
    counter: Counter,
    pool: Pool,
    /// For questions: their few tokens are computed before a second thread has woken, and waiting for it on a busy
    /// machine took three times as long as they do.
    alone: Pool,
    micro_batch_tokens: usize,
    state: Mutex<State>,
}

struct State {
    encoder: Box<dyn TextEncoder>,
    window: LayerWindow,
    rows: EmbeddingRows,
}

struct Counter(Tokenizer);

impl TokenCounter for Counter {
    fn count(&self, text: &str) -> usize {
        self.0.count(text)
    }
}

impl std::fmt::Debug for BuiltinEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BuiltinEncoder").field("id", &self.id).finish_non_exhaustive()
    }
}

impl BuiltinEncoder {
    /// Opens the directory of a sentence-transformers model, or of a plain one, which is pooled by the mean as
    /// sentence-transformers does. Layers are read on first use.
    ///
    /// # Errors
    /// What is missing, damaged or not supported.
    pub fn open(dir: &Path, options: EncoderOptions) -> Result<BuiltinEncoder> {
        let folder = transformer_folder(dir)?;
        let source = OpenOptions { published: options.published, ..OpenOptions::default() };
        let encoder = open_text_encoder(&folder, source)?;
        let sizes = encoder.sizes();
        let modules = Modules::open(dir, sizes.hidden_size)?;
        let kept = card::dimensions(dir, options.dimensions, modules.outputs())?;
        let stated = card::max_tokens(dir, &folder)?;
        let max_tokens = stated.unwrap_or(DEFAULT_MAX_TOKENS).min(sizes.max_tokens);
        let layers = encoder.layers().clone();
        let (checkpoint, table) = (encoder.checkpoint().clone(), encoder.token_table().clone());
        let mut rows = EmbeddingRows::new(checkpoint, table, EMBEDDING_ROWS);
        let mut depth = options.window.unwrap_or(layers.layers().len());
        let mut micro_batch_tokens = options.micro_batch_tokens.max(1);
        // A window of one layer reads nothing: it knows how large they are.
        let mut window = LayerWindow::new(Arc::new(layers), 1)?;
        if let Some(budget) = options.memory {
            let demand = Demand {
                num_layers: sizes.num_layers,
                layer_bytes: window.layer_bytes(),
                held_bytes: encoder.resident_bytes() + modules.bytes(),
                rows: rows.capacity(),
                row_bytes: rows.row_bytes(),
                width: sizes.hidden_size,
                max_tokens,
                shape: encoder.scratch_shape(),
                threads: options.threads,
            };
            let plan = demand.within(budget)?;
            (depth, micro_batch_tokens) = (plan.window, plan.micro_batch_tokens);
            rows.set_capacity(plan.rows);
        }
        window.set_depth(depth)?;
        // The weights come in while the tokenizer's vocabulary is built.
        window.prefetch()?;
        let tokenizer = Tokenizer::open(&folder, max_tokens, sizes.vocab_size)?;
        let name = card::name(dir);
        Ok(BuiltinEncoder {
            id: identity(&name, &*encoder, &modules, kept, max_tokens),
            dimensions: kept.unwrap_or(modules.outputs()),
            modules,
            prefixes: card::prefixes(dir, &name)?,
            counter: Counter(tokenizer),
            pool: Pool::new(options.threads)?,
            alone: Pool::new(1)?,
            micro_batch_tokens,
            state: Mutex::new(State { encoder, window, rows }),
        })
    }

    /// Bytes of weights in memory now.
    pub fn resident_weight_bytes(&self) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { encoder, window, rows } = &*state;
        let body = window.resident_bytes() + rows.resident_bytes() + encoder.resident_bytes();
        body + self.modules.bytes()
    }

    /// [`Embedder::embed`] with this crate's error type.
    ///
    /// # Errors
    /// When weights can not be read or are damaged.
    pub fn encode(&self, texts: &[&str], role: EmbedRole) -> Result<Vec<Vec<f32>>> {
        let prefix = self.prefixes.of(role);
        let encoded = texts
            .iter()
            .map(|text| {
                let text = if prefix.is_empty() {
                    Cow::Borrowed(*text)
                } else {
                    Cow::Owned(format!("{prefix}{text}"))
                };
                Ok(self.counter.0.encode(&text)?)
            })
            .collect::<Result<Vec<Encoded>>>()?;
        // Similar lengths together: the last micro-batches of a long list are then full, too.
        let mut order: Vec<usize> = (0..encoded.len()).collect();
        order.sort_by_key(|&it| encoded[it].len());
        let lengths: Vec<usize> = order.iter().map(|&it| encoded[it].len()).collect();
        let mut memory = Memory::default();
        let mut vectors = vec![Vec::new(); encoded.len()];
        for batch in micro_batches(&lengths, self.micro_batch_tokens) {
            let batch = &order[batch];
            let packed = RaggedBatch::pack(batch.iter().map(|&it| &encoded[it]));
            // A kernel's panic costs this request: the window finds its way back from any state, and
            // all other memory of the run is this function's own.
            let pooled = catch_unwind(AssertUnwindSafe(|| self.forward(&packed, &mut memory)))
                .unwrap_or_else(|panic| Err(Error::Panicked(panic_message(&*panic).to_owned())))?;
            for (&text, vector) in batch.iter().zip(pooled) {
                vectors[text] = vector;
            }
        }
        Ok(vectors)
    }

    /// One micro-batch. The model is locked for no longer than that, so a question does not wait for
    /// the whole of a long list that is being indexed.
    fn forward(&self, batch: &RaggedBatch, memory: &mut Memory) -> Result<Vec<Vec<f32>>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { encoder, window, rows } = &mut *state;
        let sizes = encoder.sizes();
        let width = sizes.hidden_size;
        let pool = if batch.tokens() <= FEW_TOKENS { &self.alone } else { &self.pool };
        let (hidden, scratch) = memory.reserve(&**encoder, batch, self.pool.threads());
        rows.gather(&batch.input_ids, hidden)?;
        encoder.embed(batch, hidden);
        pool.run(|| {
            for layer in 0..sizes.num_layers {
                let view = window.advance_to(layer)?;
                let (cu_seqlens, prefix) = (&batch.cu_seqlens[..], Prefix::None);
                let span = Span { cu_seqlens, prefix, wanted: Wanted::All, unseen: 0 };
                encoder.layer(layer, view.weights, span, hidden, scratch);
            }
            encoder.finish(hidden);
            let each = batch.cu_seqlens.windows(2);
            each.map(|it| self.vector(&hidden[it[0] * width..it[1] * width])).collect()
        })
    }

    /// The vector of a text whose tokens have these states.
    fn vector(&self, states: &[f32]) -> Result<Vec<f32>> {
        let mut vector = self.modules.apply(states);
        vector.truncate(self.dimensions);
        l2_normalize(&mut vector);
        if vector.iter().all(|it| it.is_finite()) { Ok(vector) } else { Err(Error::NotFinite) }
    }
}

/// Hidden states and scratch of a list's micro-batches, made for the largest so far and used again.
#[derive(Default)]
pub(crate) struct Memory {
    hidden: Vec<f32>,
    scratch: Option<Scratch>,
    tokens: usize,
    longest: usize,
}

impl Memory {
    /// Hidden states `[tokens, width]` and scratch for `batch`.
    pub(crate) fn reserve(
        &mut self,
        encoder: &dyn TextEncoder,
        batch: &RaggedBatch,
        threads: usize,
    ) -> (&mut [f32], &mut Scratch) {
        let width = encoder.sizes().hidden_size;
        let lengths = batch.cu_seqlens.windows(2).map(|it| it[1] - it[0]);
        let (tokens, longest) = (batch.tokens(), lengths.max().unwrap_or(0));
        if tokens > self.tokens || longest > self.longest {
            (self.tokens, self.longest) = (tokens.max(self.tokens), longest.max(self.longest));
            // The old one goes first: two at once would double the peak.
            self.scratch = None;
            self.hidden.resize(self.tokens * width, 0.0);
        }
        let size = ScratchSize { tokens: self.tokens, longest: self.longest, threads };
        let shape = || Scratch::new(&encoder.scratch_shape(), size);
        let scratch = self.scratch.get_or_insert_with(shape);
        (&mut self.hidden[..tokens * width], scratch)
    }
}

/// Cuts a list of lengths, in order, into runs of at most `budget` tokens; a longer text is a run of its
/// own. Ascending lengths come in, so the runs are cut from the end: the largest first, and the memory
/// it needs is enough for all others.
pub(crate) fn micro_batches(lengths: &[usize], budget: usize) -> Vec<Range<usize>> {
    let mut batches = Vec::new();
    let (mut end, mut tokens) = (lengths.len(), 0);
    for (i, &length) in lengths.iter().enumerate().rev() {
        if i + 1 < end && tokens + length > budget {
            batches.push(i + 1..end);
            (end, tokens) = (i + 1, 0);
        }
        tokens += length;
    }
    if end > 0 {
        batches.push(0..end);
    }
    batches
}

impl Embedder for BuiltinEncoder {
    fn id(&self) -> &str {
        &self.id
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn max_tokens(&self) -> usize {
        self.counter.0.max_tokens()
    }

    fn embed(&self, texts: &[&str], role: EmbedRole) -> Result<Vec<Vec<f32>>, StageError> {
        Ok(self.encode(texts, role)?)
    }

    fn token_counter(&self) -> &dyn TokenCounter {
        &self.counter
    }

    fn resident_weight_bytes(&self) -> u64 {
        BuiltinEncoder::resident_weight_bytes(self)
    }
}

/// Name, limit, way of pooling, and a digest of what decides the vectors.
fn identity(
    name: &str,
    encoder: &dyn TextEncoder,
    modules: &Modules,
    kept: Option<usize>,
    max_tokens: usize,
) -> String {
    let poolings: Vec<&str> = modules.poolings().iter().map(|it| it.as_str()).collect();
    let mut way = poolings.join("+");
    if modules.projects() {
        let digest = blake3::hash(&modules.fingerprint()).to_hex();
        way = format!("{way}-{}", &digest[..8]);
    }
    if let Some(kept) = kept {
        way = format!("{way}-{kept}");
    }
    format!("{name}/{max_tokens}/{way}/{}", digest(encoder))
}

/// What decides a model's output, without reading the weights themselves: names and shapes of all tensors, and some
/// that every training changes.
pub(crate) fn digest(encoder: &dyn TextEncoder) -> String {
    let mut hasher = blake3::Hasher::new();
    for tensor in encoder.checkpoint().tensors() {
        hasher.update(tensor.name.as_bytes());
        hasher.update(format!("{:?}", tensor.shape).as_bytes());
        // Packed weights give other vectors, near as they are: an index holds those of one precision.
        if tensor.format().is_packed() {
            hasher.update(tensor.format().name().as_bytes());
        }
    }
    hasher.update(&encoder.fingerprint());
    hasher.finalize().to_hex()[..8].to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_text_is_in_one_batch_and_the_first_is_the_largest(
            mut lengths in prop::collection::vec(2usize..300, 0..40), budget in 1usize..900,
        ) {
            lengths.sort_unstable();
            let batches = micro_batches(&lengths, budget);
            let flat: Vec<usize> = batches.iter().rev().cloned().flatten().collect();
            prop_assert_eq!(flat, (0..lengths.len()).collect::<Vec<_>>());
            for batch in &batches {
                let tokens: usize = lengths[batch.clone()].iter().sum();
                prop_assert!(tokens <= budget || batch.len() == 1);
            }
        }
    }
}
