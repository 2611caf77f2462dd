//! The multilingual GTE encoders (mGTE: Zhang et al. 2024, section 2): BERT's order of norms, rotary positions
//! that may be stretched, queries, keys and values in one product, a gated feed-forward layer. Their published weights
//! name a program of their own, which is not run: what it computes is here.

use std::path::Path;

use riddle_kernels::{
    Attention, AttentionShape, Finish, Gate, Mask, Pairs, Precision, Queries, Rotation, attention,
    layer_norm, rotate,
};
use riddle_weights::{Checkpoint, GteConfig, LayeredCheckpoint, TensorInfo};

use crate::{
    ClassificationHead, CrossEncoder, Error, OpenOptions, RaggedBatch, Result, RotaryShape,
    ScoredToken, Scratch, ScratchShape, Sizes, Span, Template, TextEncoder, Wanted,
    last::gather,
    layer::{Cutter, Linear, Multiply, TensorNames, bytes_of, layered, read},
    operation::Operation,
    scratch::{attention_precision, panel_use},
    unseen::attention_but_for,
};

/// A GTE encoder without its layers and token rows, and with a head or without.
#[derive(Debug)]
pub struct Gte {
    config: GteConfig,
    checkpoint: Checkpoint,
    /// `new.` for models with a head, empty for bare encoders.
    prefix: &'static str,
    table: TensorInfo,
    layers: LayeredCheckpoint,
    multiply: Multiply,
    attention_precision: Precision,
    /// `[type_vocab_size, hidden_size]`.
    types: Vec<f32>,
    norm: (Vec<f32>, Vec<f32>),
    head: Option<ClassificationHead>,
}

/// One layer's weights; the fields are the published modules' names.
struct LayerWeights<'a> {
    qkv: Linear<'a>,
    attention_output: Linear<'a>,
    attention_norm: (&'a [f32], &'a [f32]),
    /// What passes and its gate, one after the other.
    up_gate: Linear<'a>,
    down: Linear<'a>,
    norm: (&'a [f32], &'a [f32]),
}

impl Gte {
    /// Opens a model directory: reads configuration, headers and the small tensors, no layer.
    ///
    /// # Errors
    /// What is missing, damaged, contradictory or not supported, by name.
    pub fn open(dir: &Path, options: OpenOptions) -> Result<Gte> {
        let config = GteConfig::open(dir)?;
        let checkpoint = options.checkpoint(dir)?;
        let hidden = config.hidden_size;
        let has_prefix = checkpoint.contains("new.embeddings.word_embeddings.weight");
        let prefix = if has_prefix { "new." } else { "" };
        let name = |name: &str| format!("{prefix}embeddings.{name}");
        let table_name = name("word_embeddings.weight");
        let table = checkpoint.tensor(&table_name, &[config.vocab_size, hidden])?.clone();
        let layers = layered(
            &checkpoint,
            config.num_hidden_layers,
            &format!("{prefix}encoder.layer."),
            |_, names| layer_tensors(&config, names),
        )?;
        let small = |it: &str, shape: &[usize]| read(&checkpoint, &name(it), shape);
        let types = match config.type_vocab_size {
            0 => Vec::new(),
            kinds => small("token_type_embeddings.weight", &[kinds, hidden])?,
        };
        Ok(Gte {
            types,
            norm: (small("LayerNorm.weight", &[hidden])?, small("LayerNorm.bias", &[hidden])?),
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

    /// The same with the head of its class for sequences: pooler and classifier over the first token.
    ///
    /// # Errors
    /// [`Error::NoHead`] when the checkpoint has none with a single label.
    pub fn with_head(self) -> Result<Gte> {
        let (checkpoint, config) = (&self.checkpoint, &self.config);
        if !checkpoint.contains("classifier.weight")
            || config.id2label.as_ref().is_some_and(|labels| labels.len() != 1)
        {
            let why = "it has no classification head with one label".to_owned();
            return Err(Error::NoHead { dir: checkpoint.dir().to_path_buf(), why });
        }
        let pooler = format!("{}pooler.dense", self.prefix);
        let head = ClassificationHead::read(checkpoint, &pooler, "classifier", config.hidden_size)?;
        Ok(Gte { head: Some(head), ..self })
    }

    fn attention_shape(&self) -> AttentionShape {
        let (heads, head_dim) = (self.config.num_attention_heads, self.config.head_dim());
        AttentionShape { heads, kv_heads: heads, head_dim }
    }

    fn cut<'a>(&'a self, layer: usize, weights: &'a [u8]) -> LayerWeights<'a> {
        let (hidden, wide) = (self.config.hidden_size, self.config.intermediate_size);
        let mut cut = Cutter::new(&self.layers.layers()[layer], weights);
        LayerWeights {
            qkv: cut.linear(hidden, 3 * hidden, true),
            attention_output: cut.linear(hidden, hidden, true),
            attention_norm: (cut.vector(), cut.vector()),
            up_gate: cut.linear(hidden, 2 * wide, false),
            down: cut.linear(wide, hidden, true),
            norm: (cut.vector(), cut.vector()),
        }
    }

    /// Queries, keys and values of every token, rotated, in `scratch.wide`.
    fn project(
        &self,
        weights: &LayerWeights<'_>,
        cu_seqlens: &[usize],
        hidden: &[f32],
        scratch: &mut Scratch,
    ) {
        let (width, stride) = (self.config.hidden_size, self.attention_shape().qkv_width());
        let qkv = &mut scratch.wide[..hidden.len() / width * stride];
        self.multiply.one(hidden, &weights.qkv, Finish::Store, qkv, &mut scratch.panels);
        let rotary = &scratch.rotary[0];
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
        let epsilon = self.config.layer_norm_eps;
        let norm = |(gain, bias)| Finish::AddLayerNorm { gain, bias, epsilon };
        let context = &narrow[..hidden.len()];
        let span = Operation::Output.enter();
        let finish = norm(weights.attention_norm);
        self.multiply.one(context, &weights.attention_output, finish, hidden, panels);
        drop(span);
        let _span = Operation::FeedForward.enter();
        let active = &mut wide[..hidden.len() / width * inner];
        // The gate is the second half of the rows, and is activated.
        for (half, finish) in [(1, Finish::Store), (0, Finish::Gate(Gate::Gelu))] {
            let product = weights.up_gate.rows(half * inner..(half + 1) * inner);
            self.multiply.one(hidden, &product, finish, active, panels);
        }
        self.multiply.one(active, &weights.down, norm(weights.norm), hidden, panels);
    }
}

fn layer_tensors(config: &GteConfig, names: &mut TensorNames<'_>) -> Result<()> {
    let (hidden, wide) = (config.hidden_size, config.intermediate_size);
    let norm = |names: &mut TensorNames<'_>, name: &str| {
        names.add(&format!("{name}.weight"), &[hidden])?;
        names.add(&format!("{name}.bias"), &[hidden])
    };
    names.linear("attention.qkv_proj", hidden, 3 * hidden, true)?;
    names.linear("attention.o_proj", hidden, hidden, true)?;
    norm(names, "attn_ln")?;
    names.fused("mlp.up_gate_proj", hidden, [wide; 2], false)?;
    names.linear("mlp.down_proj", wide, hidden, true)?;
    norm(names, "mlp_ln")
}

impl TextEncoder for Gte {
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
        let (theta, divisor) = self.config.rotary();
        ScratchShape {
            wide: (3 * hidden).max(wide),
            narrow: hidden,
            panel_inputs: hidden.max(wide),
            panel_use: panel_use(&self.layers),
            attention: self.attention_shape(),
            rotary: vec![RotaryShape { half: self.config.head_dim() / 2, theta, divisor }],
            relative: None,
        }
    }

    fn resident_bytes(&self) -> u64 {
        let head = self.head.as_ref().map_or(0, ClassificationHead::bytes);
        bytes_of(&[&self.types, &self.norm.0, &self.norm.1]) + head
    }

    fn fingerprint(&self) -> Vec<u8> {
        [&self.types, &self.norm.0, &self.norm.1]
            .into_iter()
            .flat_map(|it| bytemuck::cast_slice::<f32, u8>(it))
            .copied()
            .collect()
    }

    fn gathered_token(&self) -> ScoredToken {
        ScoredToken::First
    }

    fn embed(&self, batch: &RaggedBatch, hidden: &mut [f32]) {
        let _span = Operation::Embed.enter();
        let width = self.config.hidden_size;
        let tokens = &mut hidden[..batch.tokens() * width];
        let kinds = self.config.type_vocab_size;
        if kinds > 0 {
            for (token, row) in tokens.chunks_exact_mut(width).enumerate() {
                // Of one kind all are, whatever the tokenizer says.
                let kind = batch.token_type_ids.get(token).map_or(0, |it| usize::from(*it));
                let kind = &self.types[kind.min(kinds - 1) * width..][..width];
                row.iter_mut().zip(kind).for_each(|(value, kind)| *value += kind);
            }
        }
        layer_norm(tokens, &self.norm.0, &self.norm.1, self.config.layer_norm_eps);
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
        let (cu_seqlens, tokens) = (span.cu_seqlens, span.tokens());
        let hidden = &mut hidden[..tokens * width];
        let operation = Operation::Qkv.enter();
        self.project(&weights, cu_seqlens, hidden, scratch);
        drop(operation);
        let operation = Operation::Attention.enter();
        let qkv = &mut scratch.wide[..tokens * stride];
        let context = &mut scratch.narrow[..tokens * width];
        let rows = match span.wanted {
            Wanted::All => {
                let work = Attention {
                    precision: self.attention_precision,
                    ..Attention::fused(qkv, cu_seqlens, shape, Mask::Full)
                };
                attention_but_for(span.unseen, work, context, &mut scratch.scores);
                tokens
            }
            Wanted::Scored => {
                gather(ScoredToken::First, cu_seqlens, (width, stride), qkv);
                let rows = gather(ScoredToken::First, cu_seqlens, (width, width), hidden);
                let work = Attention {
                    wanted: Queries::First,
                    ..Attention::fused(qkv, cu_seqlens, shape, Mask::Full)
                };
                attention(work, context, &mut scratch.scores);
                rows
            }
        };
        drop(operation);
        self.after_attention(&weights, &mut hidden[..rows * width], scratch);
    }
}

impl CrossEncoder for Gte {
    fn template(&self) -> Template {
        Template::Pair
    }

    fn scored_token(&self) -> ScoredToken {
        ScoredToken::First
    }

    fn scores(&self, _layer: usize, cu_seqlens: &[usize], hidden: &[f32], out: &mut Vec<f32>) {
        let _span = Operation::Head.enter();
        let head = self.head.as_ref().expect("it was opened with its head: this is a bug");
        out.extend(head.of_sequences(cu_seqlens, hidden));
    }
}
