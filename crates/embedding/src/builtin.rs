//! The built-in encoder: BERT, mean pooling, normalized; what sentence-transformers computes.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use riddle_kernels::{Pool, l2_normalize, mean_pool};
use riddle_offload::{EmbeddingRows, LayerWindow};
use riddle_transformer::{Bert, Encoded, RaggedBatch, Scratch, Tokenizer};
use riddle_types::{EmbedRole, Embedder, StageError, TokenCounter};
use riddle_weights::read_json;
use serde::Deserialize;

use crate::{Error, Result};

/// How the encoder runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EncoderOptions {
    /// Threads that compute.
    pub threads: usize,
    /// Tokens computed at a time; bounds the scratch memory.
    pub micro_batch_tokens: usize,
    /// Layers in memory; `None`: all.
    pub window: Option<usize>,
}

impl Default for EncoderOptions {
    /// All cores, a resident model, and micro-batches at which matrix products reach full speed.
    fn default() -> Self {
        EncoderOptions {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            micro_batch_tokens: 1024,
            window: None,
        }
    }
}

/// Longest input when the model directory does not say: all-MiniLM-L6-v2's.
const DEFAULT_MAX_TOKENS: usize = 256;

/// Share of the vocabulary whose rows stay in memory. A person's files use far less of it than the whole
/// of the web, and the cache only grows with use.
const EMBEDDING_ROWS: f32 = 0.5;

#[derive(Deserialize)]
struct SentenceConfig {
    max_seq_length: Option<usize>,
}

/// `1_Pooling/config.json` of sentence-transformers; only mean pooling is computed here.
#[derive(Deserialize)]
struct PoolingConfig {
    #[serde(default)]
    pooling_mode_mean_tokens: bool,
}

/// A BERT encoder in process.
pub struct BuiltinEncoder {
    id: String,
    dimensions: usize,
    counter: Counter,
    pool: Pool,
    micro_batch_tokens: usize,
    state: Mutex<State>,
}

struct State {
    bert: Bert,
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
    /// Opens a sentence-transformers or plain BERT directory. Layers are read on first use.
    ///
    /// # Errors
    /// What is missing, damaged or not supported.
    pub fn open(dir: &Path, options: EncoderOptions) -> Result<BuiltinEncoder> {
        let bert = Bert::open(dir)?;
        let config = bert.config();
        let pooling = dir.join("1_Pooling/config.json");
        if pooling.is_file() && !read_json::<PoolingConfig>(&pooling)?.pooling_mode_mean_tokens {
            let why =
                "the model pools in a way that is not supported: only mean pooling is".to_owned();
            return Err(Error::Unsupported { path: pooling, why });
        }
        let sentence = dir.join("sentence_bert_config.json");
        let stated = if sentence.is_file() {
            read_json::<SentenceConfig>(&sentence)?.max_seq_length
        } else {
            None
        };
        let max_tokens =
            stated.unwrap_or(DEFAULT_MAX_TOKENS).clamp(3, config.max_position_embeddings.max(3));
        let layers = bert.layers()?;
        let depth = options.window.unwrap_or(layers.layers().len());
        let mut window = LayerWindow::new(Arc::new(layers), depth)?;
        // The weights come in while the tokenizer's vocabulary is built.
        window.prefetch()?;
        let tokenizer = Tokenizer::open(dir, max_tokens, config.vocab_size)?;
        let rows =
            EmbeddingRows::new(bert.checkpoint().clone(), bert.token_table()?, EMBEDDING_ROWS);
        Ok(BuiltinEncoder {
            id: identity(dir, &bert, max_tokens),
            dimensions: config.hidden_size,
            counter: Counter(tokenizer),
            pool: Pool::new(options.threads)?,
            micro_batch_tokens: options.micro_batch_tokens.max(1),
            state: Mutex::new(State { bert, window, rows }),
        })
    }

    /// Bytes of weights in memory now.
    pub fn resident_weight_bytes(&self) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.window.resident_bytes() + state.rows.resident_bytes() + state.bert.resident_bytes()
    }

    /// [`Embedder::embed`] with this crate's error type.
    ///
    /// # Errors
    /// When weights can not be read or are damaged.
    pub fn encode(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let encoded = texts
            .iter()
            .map(|text| Ok(self.counter.0.encode(text)?))
            .collect::<Result<Vec<Encoded>>>()?;
        // Similar lengths together: the last micro-batches of a long list are then full, too.
        let mut order: Vec<usize> = (0..encoded.len()).collect();
        order.sort_by_key(|&it| encoded[it].len());
        let mut vectors = vec![Vec::new(); encoded.len()];
        let mut rest = order.as_slice();
        while !rest.is_empty() {
            let mut tokens = 0;
            let fits = rest.iter().take_while(|&&it| {
                tokens += encoded[it].len();
                tokens <= self.micro_batch_tokens
            });
            let (batch, later) = rest.split_at(fits.count().max(1));
            let packed = RaggedBatch::pack(batch.iter().map(|&it| &encoded[it]));
            // A kernel's panic costs this request; what it leaves behind is rebuilt by the next.
            let pooled = catch_unwind(AssertUnwindSafe(|| self.forward(&packed)))
                .unwrap_or_else(|_| Err(Error::Panicked("a kernel panicked".to_owned())))?;
            for (&text, vector) in batch.iter().zip(pooled) {
                vectors[text] = vector;
            }
            rest = later;
        }
        Ok(vectors)
    }

    fn forward(&self, batch: &RaggedBatch) -> Result<Vec<Vec<f32>>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { bert, window, rows } = &mut *state;
        let width = self.dimensions;
        let longest = batch.cu_seqlens.windows(2).map(|it| it[1] - it[0]).max().unwrap_or(0);
        let mut scratch = Scratch::new(bert.config(), batch.tokens(), longest, self.pool.threads());
        let mut hidden = vec![0.0; batch.tokens() * width];
        rows.gather(&batch.input_ids, &mut hidden)?;
        bert.embed(batch, &mut hidden);
        for layer in 0..bert.config().num_hidden_layers {
            self.pool.run(|| {
                let view = window.advance_to(layer)?;
                bert.layer(view.weights, &batch.cu_seqlens, &mut hidden, &mut scratch);
                Ok::<(), Error>(())
            })?;
        }
        batch
            .cu_seqlens
            .windows(2)
            .map(|it| {
                let mut vector = vec![0.0; width];
                mean_pool(&hidden[it[0] * width..it[1] * width], &mut vector);
                l2_normalize(&mut vector);
                if vector.iter().all(|it| it.is_finite()) {
                    Ok(vector)
                } else {
                    Err(Error::NotFinite)
                }
            })
            .collect()
    }
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

    fn embed(&self, texts: &[&str], _role: EmbedRole) -> Result<Vec<Vec<f32>>, StageError> {
        Ok(self.encode(texts)?)
    }

    fn token_counter(&self) -> &dyn TokenCounter {
        &self.counter
    }

    fn resident_weight_bytes(&self) -> u64 {
        BuiltinEncoder::resident_weight_bytes(self)
    }
}

/// Name, limit and a digest of what decides the vectors, without reading the weights themselves: names
/// and shapes of all tensors, and the position embeddings.
fn identity(dir: &Path, bert: &Bert, max_tokens: usize) -> String {
    let mut hasher = blake3::Hasher::new();
    for tensor in bert.checkpoint().tensors() {
        hasher.update(tensor.name.as_bytes());
        hasher.update(format!("{:?}", tensor.shape).as_bytes());
    }
    hasher.update(&bert.fingerprint());
    let name = dir.file_name().map_or_else(|| "model".into(), |it| it.to_string_lossy());
    format!("{name}/{max_tokens}/{}", &hasher.finalize().to_hex()[..8])
}
