//! ModernBERT (Warner et al. 2024): rotary positions, local and global layers, gated feed-forward, no biases
//! in published checkpoints.

use std::path::Path;

use riddle_kernels::{
    Attention, AttentionShape, Finish, Gate, Mask, Matrix, Output, Pairs, Panels, Precision,
    Queries, Rotation, attention, gelu, layer_norm_into, linear, mean_pool, rotate,
};
use riddle_weights::{Checkpoint, LayeredCheckpoint, ModernBertConfig, TensorInfo, TokenPooling};

use crate::{
    CrossEncoder, Error, OpenOptions, RaggedBatch, Result, RotaryShape, ScoredToken, Scratch,
    ScratchShape, Sizes, Span, Template, TextEncoder, Wanted,
    last::gather,
    layer::{Cutter, Linear, Multiply, TensorNames, bytes_of, layered, read},
    operation::Operation,
    scratch::{attention_precision, panel_use},
    unseen::attention_but_for,
};

/// A ModernBERT without its layers and token rows, and with a head or without.
#[derive(Debug)]
pub struct ModernBert {
    config: ModernBertConfig,
    checkpoint: Checkpoint,
    /// `model.` for models with a head, empty for bare encoders.
    prefix: &'static str,
    table: TensorInfo,
    layers: LayeredCheckpoint,
    multiply: Multiply,
    attention_precision: Precision,
    embedding_norm: Norm,
    final_norm: Norm,
    head: Option<Head>,
}

/// The head of `ModernBertForSequenceClassification`.
#[derive(Debug)]
struct Head {
    dense: Vec<f32>,
    dense_bias: Option<Vec<f32>>,
    norm: Norm,
    classifier: Vec<f32>,
    classifier_bias: Vec<f32>,
}

/// A layer normalization; `bias` is empty where the model has none.
#[derive(Debug)]
struct Norm {
    gain: Vec<f32>,
    bias: Vec<f32>,
}

impl Norm {
    fn read(checkpoint: &Checkpoint, config: &ModernBertConfig, name: &str) -> Result<Norm> {
        let shape = [config.hidden_size];
        let bias = || read(checkpoint, &format!("{name}.bias"), &shape);
        Ok(Norm {
            gain: read(checkpoint, &format!("{name}.weight"), &shape)?,
            bias: if config.norm_bias { bias()? } else { Vec::new() },
        })
    }
}

/// One layer's weights; the fields are Hugging Face's module names.
struct LayerWeights<'a> {
    /// Empty for the first layer, whose input is normalized already.
    attention_norm: (&'a [f32], &'a [f32]),
    qkv: Linear<'a>,
    attention_output: Linear<'a>,
    mlp_norm: (&'a [f32], &'a [f32]),
    /// Activated half and gate, one after the other.
    input: Linear<'a>,
    output: Linear<'a>,
}

impl ModernBert {
    /// Opens a model directory: reads configuration, headers and the small tensors, no layer.
    ///
    /// # Errors
    /// What is missing, damaged, contradictory or not supported, by name.
    pub fn open(dir: &Path, options: OpenOptions) -> Result<ModernBert> {
        let config = ModernBertConfig::open(dir)?;
        let checkpoint = options.checkpoint(dir)?;
        let hidden = config.hidden_size;
        let has_prefix = checkpoint.contains("model.embeddings.tok_embeddings.weight");
        let prefix = if has_prefix { "model." } else { "" };
        let table_name = format!("{prefix}embeddings.tok_embeddings.weight");
        let table = checkpoint.tensor(&table_name, &[config.vocab_size, hidden])?.clone();
        let layers = layered(
            &checkpoint,
            config.num_hidden_layers,
            &format!("{prefix}layers."),
            |layer, names| layer_tensors(&config, layer, names),
        )?;
        let norm = |name: &str| Norm::read(&checkpoint, &config, &format!("{prefix}{name}"));
        Ok(ModernBert {
            embedding_norm: norm("embeddings.norm")?,
            final_norm: norm("final_norm")?,
            head: None,
            multiply: Multiply::by_count(options.arithmetic),
            attention_precision: attention_precision(&layers, options.arithmetic),
            prefix,
            table,
            layers,
            config,
            checkpoint,
        })
    }

    /// The same with the head of `ModernBertForSequenceClassification`.
    ///
    /// # Errors
    /// [`Error::NoHead`] when the checkpoint has none with a single label.
    pub fn with_head(self) -> Result<ModernBert> {
        let (checkpoint, config) = (&self.checkpoint, &self.config);
        if self.prefix.is_empty()
            || !checkpoint.contains("classifier.weight")
            || config.id2label.as_ref().is_some_and(|labels| labels.len() != 1)
        {
            let why = "it has no classification head with one label".to_owned();
            return Err(Error::NoHead { dir: checkpoint.dir().to_path_buf(), why });
        }
        config
            .check_head()
            .map_err(|why| Error::NoHead { dir: checkpoint.dir().to_path_buf(), why })?;
        let hidden = config.hidden_size;
        let dense_bias = || read(checkpoint, "head.dense.bias", &[hidden]);
        let head = Head {
            dense: read(checkpoint, "head.dense.weight", &[hidden, hidden])?,
            dense_bias: if config.classifier_bias { Some(dense_bias()?) } else { None },
            norm: Norm::read(checkpoint, config, "head.norm")?,
            classifier: read(checkpoint, "classifier.weight", &[1, hidden])?,
            classifier_bias: read(checkpoint, "classifier.bias", &[1])?,
        };
        Ok(ModernBert { head: Some(head), ..self })
    }

    fn attention_shape(&self) -> AttentionShape {
        let heads = self.config.num_attention_heads;
        AttentionShape { heads, kv_heads: heads, head_dim: self.config.hidden_size / heads }
    }

    /// Queries, keys and values of every token, rotated, in `scratch.wide`.
    fn project(
        &self,
        global: bool,
        weights: &LayerWeights<'_>,
        cu_seqlens: &[usize],
        hidden: &[f32],
        scratch: &mut Scratch,
    ) {
        let (width, stride) = (self.config.hidden_size, self.attention_shape().qkv_width());
        let normalized = &mut scratch.narrow[..hidden.len()];
        match weights.attention_norm {
            ([], _) => normalized.copy_from_slice(hidden),
            (gain, bias) => layer_norm_into(hidden, gain, bias, self.config.norm_eps, normalized),
        }
        let qkv = &mut scratch.wide[..hidden.len() / width * stride];
        self.multiply.one(normalized, &weights.qkv, Finish::Store, qkv, &mut scratch.panels);
        let rotary = &scratch.rotary[usize::from(!global)];
        rotate(
            qkv,
            Rotation {
                stride,
                first: 0,
                // Queries and keys lie side by side and are rotated alike.
                columns: 2 * width,
                cu_seqlens,
                first_position: 0,
                head: 2 * rotary.half,
                half: rotary.half,
                cos: &rotary.cos,
                sin: &rotary.sin,
                pairs: Pairs::Halves,
            },
        );
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
        let (width, inner) = (self.config.hidden_size, self.config.intermediate_size);
        let add = Finish::Add(1.0);
        let narrow = &mut narrow[..hidden.len()];
        let span = Operation::Output.enter();
        self.multiply.one(narrow, &weights.attention_output, add, hidden, panels);
        drop(span);
        let _span = Operation::FeedForward.enter();
        let (gain, bias) = weights.mlp_norm;
        layer_norm_into(hidden, gain, bias, self.config.norm_eps, narrow);
        let active = &mut wide[..hidden.len() / width * inner];
        // The first half of the rows is activated, the second one is its gate.
        let gate = if self.config.is_silu() { Gate::Silu } else { Gate::Gelu };
        for (half, finish) in [Finish::Store, Finish::Gate(gate)].into_iter().enumerate() {
            let product = weights.input.rows(half * inner..(half + 1) * inner);
            self.multiply.one(narrow, &product, finish, active, panels);
        }
        self.multiply.one(active, &weights.output, add, hidden, panels);
    }

    fn cut<'a>(&'a self, layer: usize, weights: &'a [u8]) -> LayerWeights<'a> {
        let config = &self.config;
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let mut cut = Cutter::new(&self.layers.layers()[layer], weights);
        let first = layer == 0;
        LayerWeights {
            attention_norm: (cut.optional(!first), cut.optional(!first && config.norm_bias)),
            qkv: cut.linear(hidden, 3 * hidden, config.attention_bias),
            attention_output: cut.linear(hidden, hidden, config.attention_bias),
            mlp_norm: (cut.vector(), cut.optional(config.norm_bias)),
            input: cut.linear(hidden, 2 * wide, config.mlp_bias),
            output: cut.linear(wide, hidden, config.mlp_bias),
        }
    }
}

fn layer_tensors(
    config: &ModernBertConfig,
    layer: usize,
    names: &mut TensorNames<'_>,
) -> Result<()> {
    let (hidden, wide) = (config.hidden_size, config.intermediate_size);
    let norm = |names: &mut TensorNames<'_>, name: &str| {
        names.add(&format!("{name}.weight"), &[hidden])?;
        if config.norm_bias { names.add(&format!("{name}.bias"), &[hidden]) } else { Ok(()) }
    };
    if layer > 0 {
        norm(names, "attn_norm")?;
    }
    names.linear("attn.Wqkv", hidden, 3 * hidden, config.attention_bias)?;
    names.linear("attn.Wo", hidden, hidden, config.attention_bias)?;
    norm(names, "mlp_norm")?;
    names.fused("mlp.Wi", hidden, [wide; 2], config.mlp_bias)?;
    names.linear("mlp.Wo", wide, hidden, config.mlp_bias)
}

impl TextEncoder for ModernBert {
    fn sizes(&self) -> Sizes {
        Sizes {
            hidden_size: self.config.hidden_size,
            num_layers: self.config.num_hidden_layers,
            vocab_size: self.config.vocab_size,
            default_max_tokens: self.config.max_position_embeddings,
            max_tokens: self.config.max_position_embeddings,
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
        let (hidden, wide) = (self.config.hidden_size, self.config.intermediate_size);
        let half = self.attention_shape().head_dim / 2;
        ScratchShape {
            wide: (3 * hidden).max(wide),
            narrow: hidden,
            panel_inputs: hidden.max(wide),
            panel_use: panel_use(&self.layers),
            attention: self.attention_shape(),
            rotary: self.config.rope_thetas().map(|theta| RotaryShape::plain(half, theta)).to_vec(),
            relative: None,
        }
    }

    fn resident_bytes(&self) -> u64 {
        let of = |norm: &Norm| bytes_of(&[&norm.gain, &norm.bias]);
        let head = self
            .head
            .as_ref()
            .map_or(0, |head| of(&head.norm) + bytes_of(&[&head.dense, &head.classifier]));
        of(&self.embedding_norm) + of(&self.final_norm) + head
    }

    fn fingerprint(&self) -> Vec<u8> {
        let norms = [&self.embedding_norm.gain, &self.final_norm.gain];
        norms.iter().flat_map(|it| bytemuck::cast_slice::<f32, u8>(it)).copied().collect()
    }

    fn gathered_token(&self) -> ScoredToken {
        ScoredToken::First
    }

    fn finish(&self, hidden: &mut [f32]) {
        let Norm { gain, bias } = &self.final_norm;
        let states = hidden.to_vec();
        layer_norm_into(&states, gain, bias, self.config.norm_eps, hidden);
    }

    fn embed(&self, _batch: &RaggedBatch, hidden: &mut [f32]) {
        let _span = Operation::Embed.enter();
        let Norm { gain, bias } = &self.embedding_norm;
        let mut row = vec![0.0; gain.len()];
        for state in hidden.chunks_exact_mut(gain.len()) {
            row.copy_from_slice(state);
            layer_norm_into(&row, gain, bias, self.config.norm_eps, state);
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
        let (width, stride) = (self.config.hidden_size, shape.qkv_width());
        let tokens = span.tokens();
        let cu_seqlens = span.cu_seqlens;
        let hidden = &mut hidden[..tokens * width];
        let global = self.config.is_global(layer);
        let qkv_span = Operation::Qkv.enter();
        self.project(global, &weights, cu_seqlens, hidden, scratch);
        drop(qkv_span);
        let attention_span = Operation::Attention.enter();
        let qkv = &mut scratch.wide[..tokens * stride];
        let context = &mut scratch.narrow[..tokens * width];
        let mask = if global { Mask::Full } else { Mask::Window(self.config.reach()) };
        let rows = match span.wanted {
            Wanted::All => {
                let work = Attention {
                    precision: self.attention_precision,
                    ..Attention::fused(qkv, cu_seqlens, shape, mask)
                };
                attention_but_for(span.unseen, work, context, &mut scratch.scores);
                tokens
            }
            Wanted::Scored => {
                gather(ScoredToken::First, cu_seqlens, (width, stride), qkv);
                let rows = gather(ScoredToken::First, cu_seqlens, (width, width), hidden);
                let work = Attention {
                    wanted: Queries::First,
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

impl CrossEncoder for ModernBert {
    fn template(&self) -> Template {
        Template::Pair
    }

    fn scored_token(&self) -> ScoredToken {
        match self.config.classifier_pooling {
            TokenPooling::Cls => ScoredToken::First,
            TokenPooling::Mean => ScoredToken::All,
        }
    }

    fn scores(&self, _layer: usize, cu_seqlens: &[usize], hidden: &[f32], out: &mut Vec<f32>) {
        let _span = Operation::Head.enter();
        let (width, epsilon) = (self.config.hidden_size, self.config.norm_eps);
        let sequences = cu_seqlens.len() - 1;
        let mut pooled = vec![0.0; sequences * width];
        let mut states = Vec::new();
        for (sequence, pooled) in cu_seqlens.windows(2).zip(pooled.chunks_exact_mut(width)) {
            let tokens = match self.config.classifier_pooling {
                TokenPooling::Cls => sequence[0]..sequence[0] + 1,
                TokenPooling::Mean => sequence[0]..sequence[1],
            };
            states.resize(tokens.len() * width, 0.0);
            let Norm { gain, bias } = &self.final_norm;
            let hidden = &hidden[tokens.start * width..tokens.end * width];
            layer_norm_into(hidden, gain, bias, epsilon, &mut states);
            mean_pool(&states, pooled);
        }
        let head = self.head.as_ref().expect("it was opened with its head: this is a bug");
        let mut dense = vec![0.0; sequences * width];
        let none = &mut Panels::default();
        let bias = head.dense_bias.as_deref();
        let weight = Matrix::F32(&head.dense);
        linear(&pooled, weight, bias, width, width, Output::dense(&mut dense, width), none);
        gelu(&mut dense);
        let Norm { gain, bias } = &head.norm;
        layer_norm_into(&dense, gain, bias, epsilon, &mut pooled);
        for row in pooled.chunks_exact(width) {
            let product: f32 = row.iter().zip(&head.classifier).map(|(a, b)| a * b).sum();
            out.push(product + head.classifier_bias[0]);
        }
    }
}
