//! DeBERTa, versions 2 and 3 (He et al. 2021): BERT's layers, whose scores also depend on how far apart two tokens are
//! instead of where they stand.

use std::path::Path;

use riddle_kernels::{
    AttentionShape, Disentangled, Distances, Finish, Queries, Rows, disentangled_attention,
    layer_norm,
};
use riddle_weights::{Checkpoint, DebertaConfig, LayeredCheckpoint, TensorInfo};

use crate::{
    ClassificationHead, CrossEncoder, Error, OpenOptions, RaggedBatch, RelativeShape, Result,
    ScoredToken, Scratch, ScratchShape, Sizes, Span, Template, TextEncoder, Wanted,
    last::gather,
    layer::{Cutter, Linear, Multiply, TensorNames, bytes_of, layered, read},
    operation::Operation,
    scratch::panel_use,
};

/// A DeBERTa without its layers and token rows, and with a head or without.
#[derive(Debug)]
pub struct Deberta {
    config: DebertaConfig,
    checkpoint: Checkpoint,
    /// `deberta.` for models with a head, empty for bare encoders.
    prefix: &'static str,
    table: TensorInfo,
    layers: LayeredCheckpoint,
    multiply: Multiply,
    /// `[type_vocab_size, hidden_size]`.
    types: Vec<f32>,
    norm: (Vec<f32>, Vec<f32>),
    /// States of distances `[2 · span, hidden_size]`, normalized: the same for every layer.
    distances: Vec<f32>,
    head: Option<ClassificationHead>,
}

/// One layer's weights; the fields are Hugging Face's module names.
struct LayerWeights<'a> {
    query: Linear<'a>,
    key: Linear<'a>,
    value: Linear<'a>,
    attention_output: Linear<'a>,
    attention_norm: (&'a [f32], &'a [f32]),
    intermediate: Linear<'a>,
    output: Linear<'a>,
    output_norm: (&'a [f32], &'a [f32]),
}

impl Deberta {
    /// Opens a model directory: reads configuration, headers and the small tensors, no layer.
    ///
    /// # Errors
    /// What is missing, damaged, contradictory or not supported, by name.
    pub fn open(dir: &Path, options: OpenOptions) -> Result<Deberta> {
        let config = DebertaConfig::open(dir)?;
        let checkpoint = options.checkpoint(dir)?;
        let hidden = config.hidden_size;
        let has_prefix = checkpoint.contains("deberta.embeddings.word_embeddings.weight");
        let prefix = if has_prefix { "deberta." } else { "" };
        let table_name = format!("{prefix}embeddings.word_embeddings.weight");
        let table = checkpoint.tensor(&table_name, &[config.vocab_size, hidden])?.clone();
        let layers = layered(
            &checkpoint,
            config.num_hidden_layers,
            &format!("{prefix}encoder.layer."),
            |_, names| layer_tensors(&config, names),
        )?;
        let small = |it: &str, shape: &[usize]| read(&checkpoint, &format!("{prefix}{it}"), shape);
        let norm = |name: &str| -> Result<(Vec<f32>, Vec<f32>)> {
            let part = |it: &str| small(&format!("{name}.{it}"), &[hidden]);
            Ok((part("weight")?, part("bias")?))
        };
        let mut distances = small("encoder.rel_embeddings.weight", &[2 * config.span(), hidden])?;
        if config.normalizes_distances() {
            let (gain, bias) = norm("encoder.LayerNorm")?;
            layer_norm(&mut distances, &gain, &bias, config.layer_norm_eps);
        }
        Ok(Deberta {
            types: match config.type_vocab_size {
                0 => Vec::new(),
                kinds => small("embeddings.token_type_embeddings.weight", &[kinds, hidden])?,
            },
            norm: norm("embeddings.LayerNorm")?,
            distances,
            head: None,
            multiply: Multiply::by_count(options.arithmetic),
            prefix,
            table,
            layers,
            config,
            checkpoint,
        })
    }

    /// The same with the head of `DebertaV2ForSequenceClassification`.
    ///
    /// # Errors
    /// [`Error::NoHead`] when the checkpoint has none with a single label.
    pub fn with_head(self) -> Result<Deberta> {
        let (checkpoint, config) = (&self.checkpoint, &self.config);
        if self.prefix.is_empty()
            || !checkpoint.contains("classifier.weight")
            || config.id2label.as_ref().is_some_and(|labels| labels.len() != 1)
        {
            let why = "it has no classification head with one label".to_owned();
            return Err(Error::NoHead { dir: checkpoint.dir().to_path_buf(), why });
        }
        let head =
            ClassificationHead::read(checkpoint, "pooler.dense", "classifier", config.hidden_size)?;
        Ok(Deberta { head: Some(head.with_gelu()), ..self })
    }

    fn attention_shape(&self) -> AttentionShape {
        let heads = self.config.num_attention_heads;
        AttentionShape { heads, kv_heads: heads, head_dim: self.config.hidden_size / heads }
    }

    fn cut<'a>(&'a self, layer: usize, weights: &'a [u8]) -> LayerWeights<'a> {
        let (hidden, wide) = (self.config.hidden_size, self.config.intermediate_size);
        let mut cut = Cutter::new(&self.layers.layers()[layer], weights);
        LayerWeights {
            query: cut.linear(hidden, hidden, true),
            key: cut.linear(hidden, hidden, true),
            value: cut.linear(hidden, hidden, true),
            attention_output: cut.linear(hidden, hidden, true),
            attention_norm: (cut.vector(), cut.vector()),
            intermediate: cut.linear(hidden, wide, true),
            output: cut.linear(wide, hidden, true),
            output_norm: (cut.vector(), cut.vector()),
        }
    }

    /// Queries, keys and values of the tokens in `scratch.wide`; of those that are wanted the states move to the
    /// beginning of `hidden`. Returns how many.
    fn project(
        &self,
        weights: &LayerWeights<'_>,
        span: &Span<'_>,
        hidden: &mut [f32],
        scratch: &mut Scratch,
    ) -> usize {
        let _operation = Operation::Qkv.enter();
        let (width, tokens) = (self.config.hidden_size, span.tokens());
        let (query, key, value) =
            (weights.query.at(0), weights.key.at(width), weights.value.at(2 * width));
        let Scratch { wide, panels, .. } = scratch;
        let qkv = &mut wide[..3 * tokens * width];
        match span.wanted {
            Wanted::All => {
                let parts = [query, key, value];
                self.multiply.parts(hidden, width, &parts, (qkv, 3 * width), panels);
                tokens
            }
            Wanted::Scored => {
                self.multiply.parts(hidden, width, &[key, value], (&mut *qkv, 3 * width), panels);
                let columns = (width, width);
                let rows = gather(ScoredToken::First, span.cu_seqlens, columns, hidden);
                // A query of each sequence, in the first rows.
                let (chosen, out) = (&hidden[..rows * width], (qkv, 3 * width));
                self.multiply.parts(chosen, width, &[query], out, panels);
                rows
            }
        }
    }

    /// Attention of what is in `scratch.wide`, into `scratch.narrow`.
    fn attend(&self, weights: &LayerWeights<'_>, span: &Span<'_>, scratch: &mut Scratch) {
        let _operation = Operation::Attention.enter();
        let (width, tokens) = (self.config.hidden_size, span.tokens());
        let longest = span.cu_seqlens.windows(2).map(|it| it[1] - it[0]).max().unwrap_or(0).max(1);
        let row =
            |distance: usize| self.config.row(distance.cast_signed() - (longest - 1).cast_signed());
        // Only those distances that are there: of short texts a few.
        let (lowest, highest) = (row(0), row(2 * (longest - 1)));
        let rows: Vec<usize> = (0..2 * longest - 1).map(|it| row(it) - lowest).collect();
        let states = &self.distances[lowest * width..(highest + 1) * width];
        let Scratch { wide, narrow, panels, scores, relative, .. } = scratch;
        let (keys, queries) = relative.split_at_mut(self.distances.len());
        let (has_keys, has_queries) = self.config.parts();
        let keys = &mut keys[..if has_keys { states.len() } else { 0 }];
        let queries = &mut queries[..if has_queries { states.len() } else { 0 }];
        for (out, product) in [(&mut *keys, &weights.key), (&mut *queries, &weights.query)] {
            if !out.is_empty() {
                self.multiply.one(states, product, Finish::Store, out, panels);
            }
        }
        let qkv = &wide[..3 * tokens * width];
        let work = Disentangled {
            queries: Rows { data: qkv, stride: 3 * width, offset: 0 },
            keys_values: Rows { data: qkv, stride: 3 * width, offset: width },
            cu_seqlens: span.cu_seqlens,
            shape: self.attention_shape(),
            wanted: match span.wanted {
                Wanted::All => Queries::All,
                Wanted::Scored => Queries::First,
            },
            distances: Distances { rows: &rows, keys, queries },
        };
        disentangled_attention(work, &mut narrow[..tokens * width], scores);
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
        let context = &narrow[..hidden.len()];
        let span = Operation::Output.enter();
        let finish = norm(weights.attention_norm);
        self.multiply.one(context, &weights.attention_output, finish, hidden, panels);
        drop(span);
        let _span = Operation::FeedForward.enter();
        let rows = hidden.len() / self.config.hidden_size;
        let active = &mut wide[..rows * self.config.intermediate_size];
        self.multiply.one(hidden, &weights.intermediate, Finish::Gelu, active, panels);
        self.multiply.one(active, &weights.output, norm(weights.output_norm), hidden, panels);
    }
}

fn layer_tensors(config: &DebertaConfig, names: &mut TensorNames<'_>) -> Result<()> {
    let (hidden, wide) = (config.hidden_size, config.intermediate_size);
    names.linear("attention.self.query_proj", hidden, hidden, true)?;
    names.linear("attention.self.key_proj", hidden, hidden, true)?;
    names.linear("attention.self.value_proj", hidden, hidden, true)?;
    names.linear("attention.output.dense", hidden, hidden, true)?;
    names.add("attention.output.LayerNorm.weight", &[hidden])?;
    names.add("attention.output.LayerNorm.bias", &[hidden])?;
    names.linear("intermediate.dense", hidden, wide, true)?;
    names.linear("output.dense", wide, hidden, true)?;
    names.add("output.LayerNorm.weight", &[hidden])?;
    names.add("output.LayerNorm.bias", &[hidden])
}

impl TextEncoder for Deberta {
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
        ScratchShape {
            wide: (3 * hidden).max(wide),
            narrow: hidden,
            panel_inputs: hidden.max(wide),
            panel_use: panel_use(&self.layers),
            attention: self.attention_shape(),
            rotary: Vec::new(),
            relative: Some(RelativeShape { rows: 2 * self.config.span() }),
        }
    }

    fn resident_bytes(&self) -> u64 {
        let head = self.head.as_ref().map_or(0, ClassificationHead::bytes);
        bytes_of(&[&self.types, &self.norm.0, &self.norm.1, &self.distances]) + head
    }

    fn fingerprint(&self) -> Vec<u8> {
        bytemuck::cast_slice(&self.distances).to_vec()
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
        assert_eq!(span.unseen, 0, "its late interactions are refused: this is a bug");
        let weights = self.cut(layer, weights);
        let width = self.config.hidden_size;
        let hidden = &mut hidden[..span.tokens() * width];
        let rows = self.project(&weights, &span, hidden, scratch);
        self.attend(&weights, &span, scratch);
        self.after_attention(&weights, &mut hidden[..rows * width], scratch);
    }
}

impl CrossEncoder for Deberta {
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
