//! Language models of GGUF files: what a layer computes, with keys and values of earlier tokens in a [`KvCache`].
//!
//! As elsewhere in this crate the layers' weights come from outside, so that one loop serves models that are in
//! memory and models that are not. The experts of a mixture come one by one. The token table is read row by row, the
//! output matrix is multiplied in pieces.

mod cache;
mod convolution;
mod experts;
mod layer;
mod rope;
mod tensors;

use std::{ops::Range, path::Path, sync::Arc};

use riddle_kernels::{
    AttentionShape, PanelUse, Panels, Part, Precision, Rounding, cached_attention_scratch_len,
    instructions, layer_norm_into, panel_len, rms_norm,
};
use riddle_weights::{
    LanguageConfig, LanguageFamily,
    gguf::{GgmlFormat, Gguf, GgufTensor},
};

pub use cache::KvCache;
pub use experts::GuessScratch;
pub use tensors::{ExpertTensors, LayerTensor, TensorPart};

use self::{rope::Rope, tensors::matrix};
use crate::{Result, layer::Multiply, operation::Operation};

/// A language model without its layers.
#[derive(Debug)]
pub struct LanguageModel {
    config: LanguageConfig,
    file: Arc<Gguf>,
    table: GgufTensor,
    output: GgufTensor,
    norm: Vec<f32>,
    /// Empty where norms have none.
    norm_bias: Vec<f32>,
    /// Of the logits; empty without.
    output_bias: Vec<f32>,
    layers: Vec<Vec<LayerTensor>>,
    /// Of each layer; empty where feed-forward layers are no mixtures.
    experts: Vec<ExpertTensors>,
    rope: Rope,
    multiply: Multiply,
}

impl LanguageModel {
    /// Opens a file: checks that every tensor is there in its shape, and reads the small ones that all tokens need.
    ///
    /// # Errors
    /// What is missing, damaged, contradictory or not supported, by name.
    pub fn open(path: &Path) -> Result<LanguageModel> {
        let file = Arc::new(Gguf::open(path)?);
        let config = LanguageConfig::of(&file)?;
        let hidden = config.hidden_size;
        let finder = tensors::Finder { file: &file };
        let table = finder.tensor("token_embd.weight", &[hidden, config.vocab_size])?.clone();
        let output = match file.tensor("output.weight") {
            Some(_) => finder.tensor("output.weight", &[hidden, config.vocab_size])?.clone(),
            None => table.clone(),
        };
        let layers = (0..config.num_hidden_layers)
            .map(|layer| tensors::of_layer(&finder, &config, layer))
            .collect::<Result<Vec<_>>>()?;
        let experts = match config.experts {
            Some(_) => (0..config.num_hidden_layers)
                .map(|layer| tensors::experts_of_layer(&finder, &config, layer))
                .collect::<Result<Vec<_>>>()?,
            None => Vec::new(),
        };
        let precision = arithmetic(&layers, &experts);
        // Files of this family call it after the table that it follows in their sister models.
        let norm = match config.family {
            LanguageFamily::Lfm2 if file.tensor("output_norm.weight").is_none() => {
                "token_embd_norm.weight"
            }
            _ => "output_norm.weight",
        };
        let of_parallel = |name: &str, len: usize| {
            if config.family.is_parallel() { finder.vector(name, len) } else { Ok(Vec::new()) }
        };
        Ok(LanguageModel {
            norm_bias: of_parallel("output_norm.bias", hidden)?,
            output_bias: of_parallel("output.bias", config.vocab_size)?,
            norm: finder.vector(norm, hidden)?,
            rope: Rope::open(&finder, &config)?,
            multiply: Multiply::by_count(precision),
            table,
            output,
            layers,
            experts,
            config,
            file,
        })
    }

    /// Sizes and switches.
    pub fn config(&self) -> &LanguageConfig {
        &self.config
    }

    /// The file.
    pub fn file(&self) -> &Arc<Gguf> {
        &self.file
    }

    /// The tensors of each layer, in the order in which [`layer`](Self::layer) takes them.
    pub fn layers(&self) -> &[Vec<LayerTensor>] {
        &self.layers
    }

    /// The output matrix `[vocab_size, hidden_size]`, which may be the token table.
    pub fn output(&self) -> &GgufTensor {
        &self.output
    }

    /// Decides what depends on how many tokens are read and written together: on a prompt and its answer, and not on
    /// the room that there is for them. Keys of another decision are worth nothing.
    pub fn for_tokens(&mut self, tokens: usize) {
        self.rope.choose(tokens);
    }

    /// Everything beside the file that keys and values depend on, in words: shapes, positions, instructions.
    pub fn arithmetic(&self) -> String {
        let AttentionShape { heads, kv_heads, head_dim } = self.attention_shape();
        let (layers, precision) = (self.config.num_hidden_layers, self.multiply.precision);
        let (instructions, positions) = (instructions(), self.rope.variant());
        format!(
            "{layers} × {heads}/{kv_heads} × {head_dim}, {precision:?}, {positions}, {instructions}"
        )
    }

    /// Room for what later tokens need of `tokens` tokens. The system gives the memory when it is written to.
    pub fn kv_cache(&self, tokens: usize) -> KvCache {
        KvCache::new(&self.config, tokens)
    }

    /// Bytes of [`kv_cache`](Self::kv_cache), when it is full.
    pub fn kv_bytes(&self, tokens: usize) -> u64 {
        KvCache::bytes(&self.config, tokens)
    }

    /// Memory that layers need for up to `tokens` tokens at a time.
    pub fn scratch(&self, size: LanguageScratchSize) -> LanguageScratch {
        LanguageScratch::new(self, size)
    }

    /// Bytes of [`scratch`](Self::scratch), known before it is made.
    pub fn scratch_bytes(&self, size: LanguageScratchSize) -> u64 {
        let Lengths { wide, narrow, scores, panels, rotary, routes } = Lengths::of(self, size);
        ((wide + narrow + scores + panels + rotary + routes) * size_of::<f32>()) as u64
    }

    /// The token rows of `tokens` into `hidden` `[tokens, hidden_size]`, read from the file.
    ///
    /// # Errors
    /// When the file can not be read, or the table has no such row.
    pub fn embed(&self, tokens: &[u32], hidden: &mut [f32]) -> Result<()> {
        let _span = Operation::Embed.enter();
        let width = self.config.hidden_size;
        let mut raw = vec![0; self.table.format.row_bytes(width).unwrap_or(0)];
        let scale = self.config.embedding_scale();
        for (&token, row) in tokens.iter().zip(hidden.chunks_exact_mut(width)) {
            self.file.read_rows(&self.table, token as usize, &mut raw)?;
            tensors::widen_row(self.table.format, &raw, row);
            if scale != 1.0 {
                row.iter_mut().for_each(|it| *it *= scale);
            }
        }
        Ok(())
    }

    /// Angles for tokens at positions `first..first + tokens`, for all layers of a pass.
    ///
    /// # Panics
    /// When the scratch was made for fewer tokens: the caller's bug.
    pub fn turn(&self, first: usize, tokens: usize, scratch: &mut LanguageScratch) {
        self.rope.fill(first, tokens, &mut scratch.rotary);
    }

    /// The final norm of rows of hidden states, into `out` `[rows, hidden_size]`.
    pub fn normalize(&self, hidden: &[f32], out: &mut [f32]) {
        self.norm_rows(hidden, &self.norm, &self.norm_bias, out);
    }

    /// A norm of rows: by the root mean square, and with a bias by mean and variance.
    fn norm_rows(&self, rows: &[f32], gain: &[f32], bias: &[f32], out: &mut [f32]) {
        let epsilon = self.config.norm_eps;
        if bias.is_empty() {
            rms_norm(rows, gain, epsilon, out);
        } else {
            layer_norm_into(rows, gain, bias, epsilon, out);
        }
    }

    /// Logits of some tokens, columns `tokens` of `logits` `[rows, vocab_size]`, of up to [`MOST_AS_ONE`] normalized
    /// rows, each of which gets what it would get alone: `weights` are these rows of [`output`](Self::output), as the
    /// file has them.
    ///
    /// # Panics
    /// When slices do not have these lengths, or there are more rows: the caller's bug.
    pub fn logits(
        &self,
        normalized: &[f32],
        weights: &[u8],
        tokens: Range<usize>,
        logits: &mut [f32],
        scratch: &mut LanguageScratch,
    ) {
        let _span = Operation::Head.enter();
        let (inputs, outputs) = (self.config.hidden_size, tokens.len());
        let weight = matrix(self.output.format, weights, outputs, inputs);
        let bias = self.output_bias.get(tokens.clone());
        let parts = [Part { weight, bias, outputs, offset: tokens.start }];
        let stride = self.config.vocab_size;
        let multiply = Multiply { rounding: Rounding::AsOne, ..self.multiply };
        multiply.parts(normalized, inputs, &parts, (&mut *logits, stride), &mut scratch.panels);
        if let Some(cap) = self.config.logit_softcap {
            for row in logits.chunks_exact_mut(stride) {
                row[tokens.clone()].iter_mut().for_each(|it| *it = cap * (*it / cap).tanh());
            }
        }
    }

    pub(crate) fn attention_shape(&self) -> AttentionShape {
        AttentionShape {
            heads: self.config.num_attention_heads,
            kv_heads: self.config.num_key_value_heads,
            head_dim: self.config.head_dim,
        }
    }
}

/// Weights that were rounded to fewer bits lose nothing in bf16 that they had; others are multiplied in f32.
fn arithmetic(layers: &[Vec<LayerTensor>], experts: &[ExpertTensors]) -> Precision {
    let layers = layers.iter().flatten().map(|it| it.tensor.format);
    let experts = experts.iter().flat_map(|it| [&it.gate, &it.up, &it.down]).map(|it| it.format);
    let is_rounded = |it| !matches!(it, GgmlFormat::F32 | GgmlFormat::F16);
    if layers.chain(experts).any(is_rounded) { Precision::Bf16 } else { Precision::F32 }
}

/// What [`LanguageScratch`] is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LanguageScratchSize {
    /// Tokens of a pass.
    pub tokens: usize,
    /// Tokens of the context.
    pub context: usize,
    /// Threads that compute.
    pub threads: usize,
}

/// Memory of a layer beyond its input, allocated once.
#[derive(Debug)]
pub struct LanguageScratch {
    pub(crate) wide: Vec<f32>,
    pub(crate) narrow: Vec<f32>,
    pub(crate) scores: Vec<f32>,
    pub(crate) panels: Panels,
    pub(crate) rotary: rope::Angles,
    pub(crate) routes: experts::Routes,
}

/// Elements of each part.
struct Lengths {
    wide: usize,
    narrow: usize,
    scores: usize,
    panels: usize,
    rotary: usize,
    routes: usize,
}

impl Lengths {
    fn of(model: &LanguageModel, size: LanguageScratchSize) -> Lengths {
        let (config, shape) = (&model.config, model.attention_shape());
        let parts = if config.convolution.is_some() { convolution::PARTS } else { 1 };
        let wide = shape.qkv_width().max(config.intermediate_size).max(parts * config.hidden_size);
        let LanguageScratchSize { tokens, context, threads } = size;
        Lengths {
            wide: tokens * wide,
            narrow: tokens * config.hidden_size.max(shape.width()),
            scores: cached_attention_scratch_len(shape, tokens, context, threads),
            panels: panel_len(model.widest(), threads, PanelUse::Any),
            rotary: model.rope.len(tokens),
            routes: experts::Routes::len(model, tokens),
        }
    }
}

impl LanguageModel {
    /// Inputs of the widest product.
    fn widest(&self) -> usize {
        let config = &self.config;
        config.hidden_size.max(self.attention_shape().width()).max(config.intermediate_size)
    }
}

impl LanguageScratch {
    fn new(model: &LanguageModel, size: LanguageScratchSize) -> LanguageScratch {
        let lengths = Lengths::of(model, size);
        LanguageScratch {
            wide: vec![0.0; lengths.wide],
            narrow: vec![0.0; lengths.narrow],
            scores: vec![0.0; lengths.scores],
            panels: Panels::new(model.widest(), size.threads, PanelUse::Any),
            rotary: model.rope.angles(size.tokens),
            routes: experts::Routes::new(model, size.tokens),
        }
    }
}
