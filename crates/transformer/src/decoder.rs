//! Decoders that score or embed: Qwen2 and Qwen3 rerankers (yes or no after the prompt), MiniCPM layerwise rerankers (a
//! head per layer), and the embedders Qwen3 and Gemma 3.

mod head;

use std::{borrow::Cow, path::Path};

use riddle_kernels::{
    Attention, AttentionShape, Finish, Gate, Mask, Pairs, Precision, Queries, Rotation, attention,
    rms_norm, rms_norm_heads, rotate,
};
use riddle_weights::{Checkpoint, DecoderConfig, DecoderFamily, LayeredCheckpoint, TensorInfo};

use self::head::Head;
use crate::{
    OpenOptions, Prefix, RaggedBatch, Result, RotaryShape, ScoredToken, Scratch, ScratchShape,
    Sizes, Span, TextEncoder, Wanted,
    last::gather,
    layer::{Cutter, Linear, Multiply, TensorNames, bytes_of, layered, read},
    operation::Operation,
    scratch::{attention_precision, panel_use},
};

/// Longest input of the Qwen3 reranker's model card.
const QWEN3_MAX_TOKENS: usize = 8192;

/// Longest query and text of mxbai-rerank's library, unless told otherwise.
const QWEN2_MAX_TOKENS: usize = 8192;

/// Longest passage of FlagEmbedding's layerwise reranker, unless told otherwise.
const MINICPM_MAX_TOKENS: usize = 512;

/// A decoder without its layers and token rows.
#[derive(Debug)]
pub struct Decoder {
    config: DecoderConfig,
    checkpoint: Checkpoint,
    table: TensorInfo,
    layers: LayeredCheckpoint,
    multiply: Multiply,
    attention_precision: Precision,
    norm: Vec<f32>,
    head: Head,
}

/// One layer's weights; the fields are Hugging Face's module names.
struct LayerWeights<'a> {
    input_norm: Cow<'a, [f32]>,
    query: Linear<'a>,
    key: Linear<'a>,
    value: Linear<'a>,
    /// Gains of queries and keys, head by head; empty without.
    head_norms: (Cow<'a, [f32]>, Cow<'a, [f32]>),
    output: Linear<'a>,
    /// Gain of what attention adds; empty without.
    post_attention_norm: Cow<'a, [f32]>,
    feed_forward_norm: Cow<'a, [f32]>,
    gate: Linear<'a>,
    up: Linear<'a>,
    down: Linear<'a>,
    /// Gain of what the feed-forward layer adds; empty without.
    post_feed_forward_norm: Cow<'a, [f32]>,
}

impl Decoder {
    /// Opens a model directory: reads configuration, headers and the small tensors, no layer.
    ///
    /// # Errors
    /// What is missing, damaged, contradictory or not supported, by name.
    pub fn open(dir: &Path, options: OpenOptions) -> Result<Decoder> {
        let config = DecoderConfig::open(dir)?;
        let checkpoint = options.checkpoint(dir)?;
        let hidden = config.hidden_size;
        // Embedders are published without what stands around them.
        let has_prefix = checkpoint.contains("model.embed_tokens.weight");
        let prefix = if has_prefix { "model." } else { "" };
        let table_name = format!("{prefix}embed_tokens.weight");
        let table = checkpoint.tensor(&table_name, &[config.vocab_size, hidden])?.clone();
        let layers = layered(
            &checkpoint,
            config.num_hidden_layers,
            &format!("{prefix}layers."),
            |_, names| layer_tensors(&config, names),
        )?;
        let norm = read(&checkpoint, &format!("{prefix}norm.weight"), &[hidden])?;
        Ok(Decoder {
            norm: gain(&config, &norm, 1.0).into_owned(),
            multiply: Multiply::by_count(options.arithmetic),
            attention_precision: attention_precision(&layers, options.arithmetic),
            table,
            layers,
            head: Head::None,
            config,
            checkpoint,
        })
    }

    fn attention_shape(&self) -> AttentionShape {
        AttentionShape {
            heads: self.config.num_attention_heads,
            kv_heads: self.config.kv_heads(),
            head_dim: self.config.head_dim(),
        }
    }

    fn mask(&self, layer: usize) -> Mask {
        match self.config.reach(layer) {
            _ if !self.config.is_bidirectional() => Mask::Causal,
            None => Mask::Full,
            Some(reach) => Mask::Window(reach),
        }
    }

    fn cut<'a>(&'a self, layer: usize, weights: &'a [u8]) -> LayerWeights<'a> {
        let config = &self.config;
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let shape = self.attention_shape();
        let (width, kv_width) = (shape.width(), shape.kv_width());
        let (normed, biased) = (config.has_head_norms(), config.has_biases());
        let is_gemma = config.family == DecoderFamily::Gemma3;
        let mut cut = Cutter::new(&self.layers.layers()[layer], weights);
        LayerWeights {
            input_norm: gain(config, cut.vector(), 1.0),
            query: cut.linear(hidden, width, biased),
            key: cut.linear(hidden, kv_width, biased),
            value: cut.linear(hidden, kv_width, biased),
            head_norms: (
                // Rotation keeps lengths, so that a factor of the queries can come before it.
                gain(config, cut.optional(normed), config.query_scale()),
                gain(config, cut.optional(normed), 1.0),
            ),
            output: cut.linear(width, hidden, false),
            post_attention_norm: gain(config, cut.optional(is_gemma), 1.0),
            feed_forward_norm: gain(config, cut.vector(), 1.0),
            gate: cut.linear(hidden, wide, false),
            up: cut.linear(hidden, wide, false),
            down: cut.linear(wide, hidden, false),
            post_feed_forward_norm: gain(config, cut.optional(is_gemma), 1.0),
        }
    }

    /// Projection, gated feed-forward layer and their residuals, of the states whose attention is in
    /// `scratch.narrow`.
    fn after_attention(
        &self,
        weights: &LayerWeights<'_>,
        hidden: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let Scratch { wide, narrow, panels, .. } = scratch;
        let (rows, epsilon) = (hidden.len() / self.config.hidden_size, self.config.rms_norm_eps);
        let add = Finish::Add(self.config.residual_scale());
        let context = &narrow[..rows * self.attention_shape().width()];
        let normed = !weights.post_attention_norm.is_empty();
        let span = Operation::Output.enter();
        if normed {
            let added = &mut wide[..hidden.len()];
            self.multiply.one(context, &weights.output, Finish::Store, added, panels);
            let normalized = &mut narrow[..hidden.len()];
            rms_norm(added, &weights.post_attention_norm, epsilon, normalized);
            add_to(hidden, normalized);
        } else {
            self.multiply.one(context, &weights.output, add, hidden, panels);
        }
        drop(span);
        let _span = Operation::FeedForward.enter();
        let normalized = &mut narrow[..hidden.len()];
        rms_norm(hidden, &weights.feed_forward_norm, epsilon, normalized);
        let gate = &mut wide[..rows * self.config.intermediate_size];
        let kind = if normed { Gate::GeluTanh } else { Gate::Silu };
        self.multiply.one(normalized, &weights.gate, Finish::Store, gate, panels);
        self.multiply.one(normalized, &weights.up, Finish::Gate(kind), gate, panels);
        if normed {
            self.multiply.one(gate, &weights.down, Finish::Store, normalized, panels);
            let added = &mut wide[..hidden.len()];
            rms_norm(normalized, &weights.post_feed_forward_norm, epsilon, added);
            add_to(hidden, added);
        } else {
            self.multiply.one(gate, &weights.down, add, hidden, panels);
        }
    }

    /// Queries, keys and values of every token, normalized and rotated, in `scratch.wide`.
    fn project(
        &self,
        layer: usize,
        weights: &LayerWeights<'_>,
        span: &Span<'_>,
        scratch: &mut Scratch,
    ) {
        let shape = self.attention_shape();
        let (width, kv_width, stride) = (shape.width(), shape.kv_width(), shape.qkv_width());
        let tokens = span.tokens();
        let normalized = &scratch.narrow[..tokens * self.config.hidden_size];
        let qkv = &mut scratch.wide[..tokens * stride];
        let parts =
            [weights.query.at(0), weights.key.at(width), weights.value.at(width + kv_width)];
        let inputs = self.config.hidden_size;
        self.multiply.parts(normalized, inputs, &parts, (qkv, stride), &mut scratch.panels);
        let (query_norm, key_norm) = &weights.head_norms;
        if !query_norm.is_empty() {
            let epsilon = self.config.rms_norm_eps;
            rms_norm_heads(qkv, stride, 0, width, query_norm, epsilon);
            rms_norm_heads(qkv, stride, width, kv_width, key_norm, epsilon);
        }
        let rotary = &scratch.rotary[usize::from(self.config.reach(layer).is_some())];
        rotate(
            qkv,
            Rotation {
                stride,
                first: 0,
                // Queries and keys lie side by side and are rotated alike.
                columns: width + kv_width,
                cu_seqlens: span.cu_seqlens,
                first_position: span.prefix_tokens(stride),
                head: 2 * rotary.half,
                half: rotary.half,
                cos: &rotary.cos,
                sin: &rotary.sin,
                pairs: Pairs::Halves,
            },
        );
    }
}

/// A norm's gain: Gemma's count from one. With a factor, where one is wanted.
fn gain<'a>(config: &DecoderConfig, stored: &'a [f32], factor: f32) -> Cow<'a, [f32]> {
    match config.family {
        DecoderFamily::Gemma3 => stored.iter().map(|it| (1.0 + it) * factor).collect(),
        _ => Cow::Borrowed(stored),
    }
}

fn add_to(values: &mut [f32], added: &[f32]) {
    for (value, added) in values.iter_mut().zip(added) {
        *value += added;
    }
}

fn layer_tensors(config: &DecoderConfig, names: &mut TensorNames<'_>) -> Result<()> {
    let (hidden, wide, dim) = (config.hidden_size, config.intermediate_size, config.head_dim());
    let (width, kv_width) = (config.num_attention_heads * dim, config.kv_heads() * dim);
    let (biased, is_gemma) = (config.has_biases(), config.family == DecoderFamily::Gemma3);
    names.add("input_layernorm.weight", &[hidden])?;
    names.linear("self_attn.q_proj", hidden, width, biased)?;
    names.linear("self_attn.k_proj", hidden, kv_width, biased)?;
    names.linear("self_attn.v_proj", hidden, kv_width, biased)?;
    if config.has_head_norms() {
        names.add("self_attn.q_norm.weight", &[dim])?;
        names.add("self_attn.k_norm.weight", &[dim])?;
    }
    names.linear("self_attn.o_proj", width, hidden, false)?;
    names.add("post_attention_layernorm.weight", &[hidden])?;
    if is_gemma {
        names.add("pre_feedforward_layernorm.weight", &[hidden])?;
    }
    names.linear("mlp.gate_proj", hidden, wide, false)?;
    names.linear("mlp.up_proj", hidden, wide, false)?;
    names.linear("mlp.down_proj", wide, hidden, false)?;
    if is_gemma { names.add("post_feedforward_layernorm.weight", &[hidden]) } else { Ok(()) }
}

impl TextEncoder for Decoder {
    fn sizes(&self) -> Sizes {
        let config = &self.config;
        let default = match config.family {
            DecoderFamily::Qwen3 => QWEN3_MAX_TOKENS,
            DecoderFamily::Qwen2 => QWEN2_MAX_TOKENS,
            DecoderFamily::MiniCpm => MINICPM_MAX_TOKENS,
            DecoderFamily::Gemma3 => config.max_position_embeddings,
        };
        Sizes {
            hidden_size: config.hidden_size,
            num_layers: config.num_hidden_layers,
            vocab_size: config.vocab_size,
            default_max_tokens: default.min(config.max_position_embeddings),
            max_tokens: config.max_position_embeddings,
            first_scored_layer: match config.family {
                DecoderFamily::MiniCpm => config.start_layer,
                _ => 1,
            },
        }
    }

    fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    fn token_table(&self) -> &TensorInfo {
        &self.table
    }

    fn layers(&self) -> &LayeredCheckpoint {
        &self.layers
    }

    fn scratch_shape(&self) -> ScratchShape {
        let (hidden, wide) = (self.config.hidden_size, self.config.intermediate_size);
        let shape = self.attention_shape();
        ScratchShape {
            wide: shape.qkv_width().max(wide).max(hidden),
            narrow: hidden.max(shape.width()),
            panel_inputs: hidden.max(shape.width()).max(wide),
            panel_use: panel_use(&self.layers),
            attention: shape,
            rotary: match self.config.family {
                DecoderFamily::Gemma3 => {
                    let thetas = [self.config.rope_theta(), self.config.local_rope_theta()];
                    thetas.map(|theta| RotaryShape::plain(shape.head_dim / 2, theta)).to_vec()
                }
                _ => vec![RotaryShape::plain(shape.head_dim / 2, self.config.rope_theta())],
            },
            relative: None,
        }
    }

    fn resident_bytes(&self) -> u64 {
        bytes_of(&[&self.norm]) + self.head.bytes()
    }

    fn fingerprint(&self) -> Vec<u8> {
        bytemuck::cast_slice(&self.norm).to_vec()
    }

    fn gathered_token(&self) -> ScoredToken {
        ScoredToken::Last
    }

    fn finish(&self, hidden: &mut [f32]) {
        let states = hidden.to_vec();
        rms_norm(&states, &self.norm, self.config.rms_norm_eps, hidden);
    }

    fn embed(&self, _batch: &RaggedBatch, hidden: &mut [f32]) {
        let scale = self.config.embedding_scale();
        if scale != 1.0 {
            hidden.iter_mut().for_each(|it| *it *= scale);
        }
    }

    fn layer(
        &self,
        layer: usize,
        weights: &[u8],
        span: Span<'_>,
        hidden: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let weights = self.cut(layer, weights);
        let shape = self.attention_shape();
        let (width, epsilon) = (self.config.hidden_size, self.config.rms_norm_eps);
        let tokens = span.tokens();
        let hidden = &mut hidden[..tokens * width];
        let qkv_span = Operation::Qkv.enter();
        rms_norm(hidden, &weights.input_norm, epsilon, &mut scratch.narrow[..tokens * width]);
        self.project(layer, &weights, &span, scratch);
        let qkv = &mut scratch.wide[..tokens * shape.qkv_width()];
        let prefix: &[f32] = match span.prefix {
            Prefix::None => &[],
            Prefix::Shared(prefix) => prefix,
            Prefix::Build(prefix) => {
                prefix.clear();
                prefix.extend_from_slice(qkv);
                &[]
            }
        };
        drop(qkv_span);
        let attention_span = Operation::Attention.enter();
        let context = &mut scratch.narrow[..tokens * shape.width()];
        let cu_seqlens = span.cu_seqlens;
        let mask = self.mask(layer);
        let rows = match span.wanted {
            Wanted::All => {
                let work = Attention {
                    prefix,
                    precision: self.attention_precision,
                    ..Attention::fused(qkv, cu_seqlens, shape, mask)
                };
                attention(work, context, &mut scratch.scores);
                tokens
            }
            Wanted::Scored => {
                let (columns, token) = ((shape.width(), shape.qkv_width()), ScoredToken::Last);
                gather(token, cu_seqlens, columns, qkv);
                let rows = gather(token, cu_seqlens, (width, width), hidden);
                let work = Attention {
                    prefix,
                    wanted: Queries::Last,
                    ..Attention::fused(qkv, cu_seqlens, shape, mask)
                };
                attention(work, context, &mut scratch.scores);
                rows
            }
        };
        drop(attention_span);
        self.after_attention(&weights, &mut hidden[..rows * width], scratch);
    }
}
