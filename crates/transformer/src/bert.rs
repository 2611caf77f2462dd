//! BERT (Devlin et al. 2019) and XLM-RoBERTa (Conneau et al. 2020): encoder layers, embeddings, and the heads that
//! read the first token.

mod early;
mod head;

use std::path::Path;

use riddle_kernels::{
    Attention, AttentionShape, Finish, HeadAttention, Mask, Part, Precision, Queries, attention,
    attention_by_head, is_best_by_head, layer_norm,
};
use riddle_weights::{BertConfig, BertFamily, Checkpoint, Format, LayeredCheckpoint, TensorInfo};

pub use self::{
    early::EarlyHead,
    head::{BertCrossEncoder, ClassificationHead},
};
use crate::{
    Prefix, RaggedBatch, Result, ScoredToken, Scratch, ScratchShape, Sizes, Span, TextEncoder,
    Wanted,
    last::gather,
    layer::{Cutter, Linear, Multiply, bytes_of, layered, read},
    operation::Operation,
    scratch::{attention_precision, panel_use},
    unseen::attention_but_for,
};

/// A BERT model without its layers and token rows: those are brought by the caller.
#[derive(Debug)]
pub struct Bert {
    config: BertConfig,
    checkpoint: Checkpoint,
    /// `bert.` or `roberta.` for models with a head, empty for bare encoders.
    prefix: &'static str,
    spelling: Spelling,
    table: TensorInfo,
    layers: LayeredCheckpoint,
    multiply: Multiply,
    attention_precision: Precision,
    /// Position embeddings as the file holds them: widened they would be the largest thing in memory that
    /// is not a layer (8 194 rows of bge-reranker-v2-m3: 34 MB).
    positions: Vec<u8>,
    position_format: Format,
    types: Vec<f32>,
    norm: Norm,
}

/// How a checkpoint names and cuts the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// As `transformers`.
    Plain,
    /// As the program of jina-reranker-v2, for flash attention: queries, keys and values are one matrix
    /// (<https://huggingface.co/jinaai/jina-reranker-v2-base-multilingual>).
    Fused,
}

#[derive(Debug)]
struct Norm {
    gain: Vec<f32>,
    bias: Vec<f32>,
}

/// One layer's weights, cut out of its buffer; the fields are Hugging Face's module names.
///
/// Heads and neurons are as many as the products have: those of a submodel are fewer than the configuration's.
pub(crate) struct LayerWeights<'a> {
    pub(crate) query: Linear<'a>,
    pub(crate) key: Linear<'a>,
    pub(crate) value: Linear<'a>,
    pub(crate) attention_output: Linear<'a>,
    pub(crate) attention_norm: (&'a [f32], &'a [f32]),
    pub(crate) intermediate: Linear<'a>,
    pub(crate) output: Linear<'a>,
    pub(crate) output_norm: (&'a [f32], &'a [f32]),
}

impl Bert {
    /// Opens a model directory: reads configuration, headers and the small tensors, no layer.
    ///
    /// # Errors
    /// What is missing, damaged, contradictory or not supported, by name.
    pub fn open(dir: &Path) -> Result<Bert> {
        Bert::with_checkpoint(dir, Checkpoint::open(dir)?)
    }

    /// As [`open`](Self::open), with weights that are open already.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with_checkpoint(dir: &Path, checkpoint: Checkpoint) -> Result<Bert> {
        let config = BertConfig::open(dir)?;
        let with_head = match config.family {
            BertFamily::Bert => "bert.",
            BertFamily::XlmRoberta => "roberta.",
        };
        let has_prefix =
            checkpoint.contains(&format!("{with_head}embeddings.word_embeddings.weight"));
        let prefix = if has_prefix { with_head } else { "" };
        let hidden = config.hidden_size;
        let read =
            |name: &str, shape: &[usize]| read(&checkpoint, &format!("{prefix}{name}"), shape);
        let is_fused = checkpoint.contains(&format!("{prefix}emb_ln.weight"));
        let (spelling, norm) = match is_fused {
            true => (Spelling::Fused, "emb_ln"),
            false => (Spelling::Plain, "embeddings.LayerNorm"),
        };
        let table_name = format!("{prefix}embeddings.word_embeddings.weight");
        let table = checkpoint.tensor(&table_name, &[config.vocab_size, hidden])?.clone();
        // A layer that is missing or misshapen is told now and not in the middle of a request.
        let layers = layers(&config, &checkpoint, prefix, spelling)?;
        let position_name = format!("{prefix}embeddings.position_embeddings.weight");
        let position_shape = [config.max_position_embeddings, hidden];
        let position_table = checkpoint.tensor(&position_name, &position_shape)?;
        let mut positions = vec![0; position_table.bytes() as usize];
        checkpoint.read_rows(position_table, 0, &mut positions)?;
        Ok(Bert {
            position_format: position_table.format(),
            positions,
            types: read(
                "embeddings.token_type_embeddings.weight",
                &[config.type_vocab_size, hidden],
            )?,
            norm: Norm {
                gain: read(&format!("{norm}.weight"), &[hidden])?,
                bias: read(&format!("{norm}.bias"), &[hidden])?,
            },
            multiply: Multiply::by_count(Precision::F32),
            attention_precision: attention_precision(&layers, Precision::F32),
            config,
            checkpoint,
            prefix,
            spelling,
            table,
            layers,
        })
    }

    /// Whether queries, keys and values of a layer are one tensor.
    pub(crate) fn is_fused(&self) -> bool {
        self.spelling == Spelling::Fused
    }

    /// The same with products of plain weights in other numbers.
    pub fn with_precision(self, precision: Precision) -> Bert {
        let attention_precision = attention_precision(&self.layers, precision);
        Bert { multiply: Multiply::by_count(precision), attention_precision, ..self }
    }

    /// The configuration.
    pub fn config(&self) -> &BertConfig {
        &self.config
    }

    /// The checkpoint.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Bytes of weights that are always in memory.
    pub fn resident_bytes(&self) -> u64 {
        let small = bytes_of(&[&self.types, &self.norm.gain, &self.norm.bias]);
        self.positions.len() as u64 + small
    }

    /// Bytes that differ between two trainings of the same architecture: the position embeddings, which
    /// every training changes and which are in memory anyway.
    pub fn fingerprint(&self) -> Vec<u8> {
        self.positions.clone()
    }

    /// The table of token embeddings `[vocab_size, hidden_size]`, on disk.
    pub fn token_table(&self) -> &TensorInfo {
        &self.table
    }

    /// The layers, to be read one by one as [`layer`](Self::layer) expects them.
    pub fn layers(&self) -> &LayeredCheckpoint {
        &self.layers
    }

    fn attention_shape(&self) -> AttentionShape {
        self.attention_of(self.config.hidden_size)
    }

    /// Heads of the usual width, of which `outputs` numbers are all.
    fn attention_of(&self, outputs: usize) -> AttentionShape {
        let head_dim = self.config.hidden_size / self.config.num_attention_heads;
        let heads = outputs / head_dim.max(1);
        AttentionShape { heads, kv_heads: heads, head_dim }
    }

    /// Memory that a layer needs.
    pub fn scratch_shape(&self) -> ScratchShape {
        let (hidden, wide) = (self.config.hidden_size, self.config.intermediate_size);
        ScratchShape {
            wide: (3 * hidden).max(wide),
            narrow: hidden,
            panel_inputs: hidden.max(wide),
            panel_use: panel_use(&self.layers),
            attention: self.attention_shape(),
            rotary: Vec::new(),
            relative: None,
        }
    }

    /// Turns token rows into the input of the first layer, in place: adds position and segment
    /// embeddings and normalizes. `hidden` `[tokens, hidden_size]` holds the rows of `batch.input_ids`.
    ///
    /// # Panics
    /// When a sequence is longer than the model's positions or a segment id out of range: the tokenizer
    /// was opened with other limits.
    pub fn embed(&self, batch: &RaggedBatch, hidden: &mut [f32]) {
        let _span = Operation::Embed.enter();
        let width = self.config.hidden_size;
        let row_bytes = self.positions.len() / self.config.max_position_embeddings.max(1);
        let mut place = vec![0.0; width];
        for sequence in batch.cu_seqlens.windows(2) {
            let mut next_position = self.config.first_position();
            for token in sequence[0]..sequence[1] {
                let (position, segment) = match self.config.family {
                    BertFamily::Bert => (next_position, usize::from(batch.token_type_ids[token])),
                    // A padding token that a text spells out stands at its own number and takes no other's
                    // place, as in the reference.
                    BertFamily::XlmRoberta
                        if batch.input_ids[token] == self.config.pad_token_id =>
                    {
                        next_position -= 1;
                        (self.config.pad_token_id as usize, 0)
                    }
                    // All is one segment, whatever the tokenizer says.
                    BertFamily::XlmRoberta => (next_position, 0),
                };
                next_position += 1;
                let row = &mut hidden[token * width..][..width];
                let raw = &self.positions[position * row_bytes..][..row_bytes];
                self.position_format.widen_row(raw, &mut place);
                let segment = &self.types[segment * width..][..width];
                for ((value, position), segment) in row.iter_mut().zip(&place).zip(segment) {
                    *value += position + segment;
                }
            }
        }
        let tokens = batch.tokens();
        layer_norm(
            &mut hidden[..tokens * width],
            &self.norm.gain,
            &self.norm.bias,
            self.config.layer_norm_eps,
        );
    }

    /// Layer `layer` (from 0) over a ragged micro-batch, in place.
    ///
    /// Shapes: `weights` as [`layers`](Self::layers) lays them out, `cu_seqlens` `[sequences + 1]` from 0,
    /// `hidden` `[tokens, hidden_size]`, of which `wanted` is needed afterwards. Runs on the current pool's
    /// threads.
    pub fn layer(
        &self,
        layer: usize,
        weights: &[u8],
        cu_seqlens: &[usize],
        wanted: Wanted,
        hidden: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let span = Span { cu_seqlens, prefix: Prefix::None, wanted, unseen: 0 };
        TextEncoder::layer(self, layer, weights, span, hidden, scratch);
    }

    /// A layer of these weights, which may have fewer heads and neurons than the model.
    pub(crate) fn layer_of(
        &self,
        weights: &LayerWeights<'_>,
        precision: Precision,
        span: &Span<'_>,
        hidden: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let width = self.config.hidden_size;
        let heads = weights.query.outputs;
        let (cu_seqlens, tokens) = (span.cu_seqlens, span.tokens());
        let hidden = &mut hidden[..tokens * width];
        let query = &weights.query;
        let (key, value) = (weights.key.at(heads), weights.value.at(2 * heads));
        let rows = match span.wanted {
            Wanted::All => {
                let parts = [query.at(0), key, value];
                self.attend((&parts, precision), span, hidden, scratch);
                tokens
            }
            Wanted::Scored => {
                let shape = self.attention_of(heads);
                let Scratch { wide, narrow, panels, scores, .. } = &mut *scratch;
                let (qkv, context) =
                    (&mut wide[..tokens * 3 * heads], &mut narrow[..tokens * heads]);
                let operation = Operation::Qkv.enter();
                self.multiply.parts(hidden, width, &[key, value], (qkv, 3 * heads), panels);
                let rows = gather(ScoredToken::First, cu_seqlens, (width, width), hidden);
                // A query of each sequence, in the first rows.
                let (chosen, out) = (&hidden[..rows * width], (&mut *qkv, 3 * heads));
                self.multiply.parts(chosen, width, &[query.at(0)], out, panels);
                drop(operation);
                let _span = Operation::Attention.enter();
                let work = Attention {
                    wanted: Queries::First,
                    ..Attention::fused(qkv, cu_seqlens, shape, Mask::Full)
                };
                attention(work, context, scores);
                rows
            }
        };
        self.after_attention(weights, &mut hidden[..rows * width], scratch);
    }

    /// Queries, keys and values of all tokens and their attention, which it leaves in `scratch.narrow`.
    fn attend(
        &self,
        (parts, precision): (&[Part<'_>; 3], Precision),
        span: &Span<'_>,
        hidden: &[f32],
        scratch: &mut Scratch,
    ) {
        let width = self.config.hidden_size;
        let heads = parts[0].outputs;
        let shape = self.attention_of(heads);
        let tokens = hidden.len() / width;
        let Scratch { wide, narrow, panels, scores, .. } = scratch;
        let qkv = &mut wide[..3 * tokens * heads];
        let context = &mut narrow[..tokens * heads];
        let by_head = is_best_by_head(shape, precision) && span.unseen == 0;
        let cu_seqlens = span.cu_seqlens;
        let finish = if by_head { Finish::Heads { dim: shape.head_dim } } else { Finish::Store };
        let operation = Operation::Qkv.enter();
        self.multiply.parts_to(hidden, width, parts, finish, (&mut *qkv, 3 * heads), panels);
        drop(operation);
        let _span = Operation::Attention.enter();
        if by_head {
            let work = HeadAttention { data: qkv, cu_seqlens, shape, bias: None };
            attention_by_head(work, context, scores);
        } else {
            let work =
                Attention { precision, ..Attention::fused(qkv, cu_seqlens, shape, Mask::Full) };
            attention_but_for(span.unseen, work, context, scores);
        }
    }

    /// Projection, feed-forward layer and their residuals, of the states whose attention is in
    /// `scratch.narrow`.
    fn after_attention(
        &self,
        weights: &LayerWeights<'_>,
        hidden: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let Scratch { wide, narrow, panels, .. } = scratch;
        let epsilon = self.config.layer_norm_eps;
        let norm = |(gain, bias)| Finish::AddLayerNorm { gain, bias, epsilon };
        let rows = hidden.len() / self.config.hidden_size;
        let context = &narrow[..rows * weights.attention_output.inputs];
        let finish = norm(weights.attention_norm);
        let span = Operation::Output.enter();
        self.multiply.one(context, &weights.attention_output, finish, hidden, panels);
        drop(span);
        let _span = Operation::FeedForward.enter();
        // Keys and values are not needed any more: the feed-forward layer takes their place.
        let active = &mut wide[..rows * weights.intermediate.outputs];
        self.multiply.one(hidden, &weights.intermediate, Finish::Gelu, active, panels);
        self.multiply.one(active, &weights.output, norm(weights.output_norm), hidden, panels);
    }
}

fn layers(
    config: &BertConfig,
    checkpoint: &Checkpoint,
    prefix: &str,
    spelling: Spelling,
) -> Result<LayeredCheckpoint> {
    let (hidden, wide) = (config.hidden_size, config.intermediate_size);
    if spelling == Spelling::Fused {
        let prefix = format!("{prefix}encoder.layers.");
        return layered(checkpoint, config.num_hidden_layers, &prefix, |_, names| {
            names.fused("mixer.Wqkv", hidden, [hidden; 3], true)?;
            names.linear("mixer.out_proj", hidden, hidden, true)?;
            names.add("norm1.weight", &[hidden])?;
            names.add("norm1.bias", &[hidden])?;
            names.linear("mlp.fc1", hidden, wide, true)?;
            names.linear("mlp.fc2", wide, hidden, true)?;
            names.add("norm2.weight", &[hidden])?;
            names.add("norm2.bias", &[hidden])
        });
    }
    let prefix = format!("{prefix}encoder.layer.");
    layered(checkpoint, config.num_hidden_layers, &prefix, |_, names| {
        names.linear("attention.self.query", hidden, hidden, true)?;
        names.linear("attention.self.key", hidden, hidden, true)?;
        names.linear("attention.self.value", hidden, hidden, true)?;
        names.linear("attention.output.dense", hidden, hidden, true)?;
        names.add("attention.output.LayerNorm.weight", &[hidden])?;
        names.add("attention.output.LayerNorm.bias", &[hidden])?;
        names.linear("intermediate.dense", hidden, wide, true)?;
        names.linear("output.dense", wide, hidden, true)?;
        names.add("output.LayerNorm.weight", &[hidden])?;
        names.add("output.LayerNorm.bias", &[hidden])
    })
}

impl<'a> LayerWeights<'a> {
    /// Cuts a layer's buffer; the order is that of [`layers`].
    fn cut(bert: &'a Bert, layer: usize, weights: &'a [u8]) -> Self {
        let (hidden, wide) = (bert.config.hidden_size, bert.config.intermediate_size);
        let mut cut = Cutter::new(&bert.layers.layers()[layer], weights);
        let [query, key, value] = match bert.spelling {
            Spelling::Fused => {
                let all = cut.linear(hidden, 3 * hidden, true);
                [0, 1, 2].map(|it| all.rows(it * hidden..(it + 1) * hidden))
            }
            Spelling::Plain => [(); 3].map(|()| cut.linear(hidden, hidden, true)),
        };
        LayerWeights {
            query,
            key,
            value,
            attention_output: cut.linear(hidden, hidden, true),
            attention_norm: (cut.vector(), cut.vector()),
            intermediate: cut.linear(hidden, wide, true),
            output: cut.linear(wide, hidden, true),
            output_norm: (cut.vector(), cut.vector()),
        }
    }
}

impl TextEncoder for Bert {
    fn sizes(&self) -> Sizes {
        let config = &self.config;
        Sizes {
            hidden_size: config.hidden_size,
            num_layers: config.num_hidden_layers,
            vocab_size: config.vocab_size,
            default_max_tokens: config.max_tokens(),
            max_tokens: config.max_tokens(),
            first_scored_layer: 1,
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
        Bert::scratch_shape(self)
    }

    fn resident_bytes(&self) -> u64 {
        Bert::resident_bytes(self)
    }

    fn fingerprint(&self) -> Vec<u8> {
        Bert::fingerprint(self)
    }

    fn gathered_token(&self) -> ScoredToken {
        ScoredToken::First
    }

    fn embed(&self, batch: &RaggedBatch, hidden: &mut [f32]) {
        Bert::embed(self, batch, hidden);
    }

    fn layer(
        &self,
        layer: usize,
        weights: &[u8],
        span: Span<'_>,
        hidden: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let weights = LayerWeights::cut(self, layer, weights);
        self.layer_of(&weights, self.attention_precision, &span, hidden, scratch);
    }
}
