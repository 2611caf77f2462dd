//! MPNet (Song et al. 2020, MPNet: Masked and Permuted Pre-training for Language Understanding): BERT's layers over
//! RoBERTa's positions, and scores that are moved by how far apart two tokens are (Raffel et al. 2020, section 2.1), by
//! the same numbers in every layer.

use std::path::Path;

use riddle_kernels::{
    Attention, AttentionShape, DistanceBias, Finish, HeadAttention, Mask, Precision, Queries,
    attention, attention_by_head, is_best_by_head, layer_norm,
};
use riddle_weights::{Checkpoint, LayeredCheckpoint, MpnetConfig, TensorInfo};

use crate::{
    ClassificationHead, CrossEncoder, Error, OpenOptions, RaggedBatch, Result, ScoredToken,
    Scratch, ScratchShape, Sizes, Span, Template, TextEncoder, Wanted,
    last::gather,
    layer::{Cutter, Linear, Multiply, TensorNames, bytes_of, layered, read},
    operation::Operation,
    scratch::{attention_precision, panel_use},
};

/// An MPNet without its layers and token rows, and with a head or without.
#[derive(Debug)]
pub struct Mpnet {
    config: MpnetConfig,
    checkpoint: Checkpoint,
    table: TensorInfo,
    layers: LayeredCheckpoint,
    multiply: Multiply,
    attention_precision: Precision,
    /// Position embeddings `[max_position_embeddings, hidden_size]`.
    positions: Vec<f32>,
    norm: (Vec<f32>, Vec<f32>),
    /// What a distance adds to a score `[num_attention_heads, 2 · max_tokens − 1]`, from the farthest key before a
    /// query to the farthest behind it: 49 KB for 12 heads and 512 tokens, where a table of all pairs would be 13 MB.
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

impl Mpnet {
    /// Opens a model directory: reads configuration, headers and the small tensors, no layer.
    ///
    /// # Errors
    /// What is missing, damaged, contradictory or not supported, by name.
    pub fn open(dir: &Path, options: OpenOptions) -> Result<Mpnet> {
        let config = MpnetConfig::open(dir)?;
        let checkpoint = options.checkpoint(dir)?;
        let (hidden, heads) = (config.hidden_size, config.num_attention_heads);
        // Models with a head name their encoder.
        let has_prefix = checkpoint.contains("mpnet.embeddings.word_embeddings.weight");
        let prefix = if has_prefix { "mpnet." } else { "" };
        let table_name = format!("{prefix}embeddings.word_embeddings.weight");
        let table = checkpoint.tensor(&table_name, &[config.vocab_size, hidden])?.clone();
        let layers = layered(
            &checkpoint,
            config.num_hidden_layers,
            &format!("{prefix}encoder.layer."),
            |_, names| layer_tensors(&config, names),
        )?;
        let small = |it: &str, shape: &[usize]| read(&checkpoint, &format!("{prefix}{it}"), shape);
        let norm = |it: &str| small(&format!("embeddings.LayerNorm.{it}"), &[hidden]);
        let buckets =
            small("encoder.relative_attention_bias.weight", &[MpnetConfig::BUCKETS, heads])?;
        let position_shape = [config.max_position_embeddings, hidden];
        Ok(Mpnet {
            positions: small("embeddings.position_embeddings.weight", &position_shape)?,
            norm: (norm("weight")?, norm("bias")?),
            distances: by_distance(&buckets, heads, config.max_tokens()),
            head: None,
            multiply: Multiply::by_count(options.arithmetic),
            attention_precision: attention_precision(&layers, options.arithmetic),
            table,
            layers,
            config,
            checkpoint,
        })
    }

    /// The same with the head of `MPNetForSequenceClassification`.
    ///
    /// # Errors
    /// [`Error::NoHead`] when the checkpoint has none with a single label.
    pub fn with_head(self) -> Result<Mpnet> {
        let (checkpoint, config) = (&self.checkpoint, &self.config);
        let (dense, last) = ("classifier.dense", "classifier.out_proj");
        if !checkpoint.contains(&format!("{last}.weight"))
            || config.id2label.as_ref().is_some_and(|labels| labels.len() != 1)
        {
            let why = "it has no classification head with one label".to_owned();
            return Err(Error::NoHead { dir: checkpoint.dir().to_path_buf(), why });
        }
        let head = ClassificationHead::read(checkpoint, dense, last, config.hidden_size)?;
        Ok(Mpnet { head: Some(head), ..self })
    }

    fn attention_shape(&self) -> AttentionShape {
        let heads = self.config.num_attention_heads;
        AttentionShape { heads, kv_heads: heads, head_dim: self.config.hidden_size / heads }
    }

    fn bias(&self) -> DistanceBias<'_> {
        DistanceBias { values: &self.distances, reach: self.config.max_tokens() - 1 }
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

    /// Queries, keys and values of all tokens and their attention, which it leaves in `scratch.narrow`.
    fn attend(
        &self,
        weights: &LayerWeights<'_>,
        cu_seqlens: &[usize],
        hidden: &[f32],
        scratch: &mut Scratch,
    ) {
        let (width, shape) = (self.config.hidden_size, self.attention_shape());
        let Scratch { wide, narrow, panels, scores, .. } = scratch;
        let qkv = &mut wide[..3 * hidden.len()];
        let context = &mut narrow[..hidden.len()];
        let precision = self.attention_precision;
        let by_head = is_best_by_head(shape, precision);
        let finish = if by_head { Finish::Heads { dim: shape.head_dim } } else { Finish::Store };
        let operation = Operation::Qkv.enter();
        let parts = [weights.query.at(0), weights.key.at(width), weights.value.at(2 * width)];
        self.multiply.parts_to(hidden, width, &parts, finish, (&mut *qkv, 3 * width), panels);
        drop(operation);
        let _operation = Operation::Attention.enter();
        let bias = Some(self.bias());
        if by_head {
            let work = HeadAttention { data: qkv, cu_seqlens, shape, bias };
            attention_by_head(work, context, scores);
        } else {
            let all = Attention::fused(qkv, cu_seqlens, shape, Mask::Full);
            attention(Attention { precision, bias, ..all }, context, scores);
        }
    }

    /// As [`attend`](Self::attend), of the first token of each sequence alone, whose states it moves to the first rows;
    /// returns how many.
    fn attend_first(
        &self,
        weights: &LayerWeights<'_>,
        cu_seqlens: &[usize],
        hidden: &mut [f32],
        scratch: &mut Scratch,
    ) -> usize {
        let (width, shape) = (self.config.hidden_size, self.attention_shape());
        let Scratch { wide, narrow, panels, scores, .. } = scratch;
        let qkv = &mut wide[..3 * hidden.len()];
        let context = &mut narrow[..hidden.len()];
        let operation = Operation::Qkv.enter();
        let parts = [weights.key.at(width), weights.value.at(2 * width)];
        self.multiply.parts(hidden, width, &parts, (&mut *qkv, 3 * width), panels);
        let rows = gather(ScoredToken::First, cu_seqlens, (width, width), hidden);
        // A query of each sequence, in the first rows.
        let (chosen, out) = (&hidden[..rows * width], (&mut *qkv, 3 * width));
        self.multiply.parts(chosen, width, &[weights.query.at(0)], out, panels);
        drop(operation);
        let _operation = Operation::Attention.enter();
        let all = Attention::fused(qkv, cu_seqlens, shape, Mask::Full);
        let (wanted, bias) = (Queries::First, Some(self.bias()));
        attention(Attention { wanted, bias, ..all }, context, scores);
        rows
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

/// What each distance in up to `tokens` tokens adds to a score `[heads, 2 · tokens − 1]`, of rows `[buckets, heads]`.
fn by_distance(buckets: &[f32], heads: usize, tokens: usize) -> Vec<f32> {
    let farthest = tokens.cast_signed() - 1;
    let of = |head: usize| {
        (-farthest..=farthest).map(move |it| buckets[MpnetConfig::bucket(it) * heads + head])
    };
    (0..heads).flat_map(of).collect()
}

fn layer_tensors(config: &MpnetConfig, names: &mut TensorNames<'_>) -> Result<()> {
    let (hidden, wide) = (config.hidden_size, config.intermediate_size);
    for name in ["q", "k", "v", "o"] {
        names.linear(&format!("attention.attn.{name}"), hidden, hidden, true)?;
    }
    names.add("attention.LayerNorm.weight", &[hidden])?;
    names.add("attention.LayerNorm.bias", &[hidden])?;
    names.linear("intermediate.dense", hidden, wide, true)?;
    names.linear("output.dense", wide, hidden, true)?;
    names.add("output.LayerNorm.weight", &[hidden])?;
    names.add("output.LayerNorm.bias", &[hidden])
}

impl TextEncoder for Mpnet {
    fn sizes(&self) -> Sizes {
        Sizes {
            hidden_size: self.config.hidden_size,
            num_layers: self.config.num_hidden_layers,
            vocab_size: self.config.vocab_size,
            default_max_tokens: self.config.max_tokens(),
            max_tokens: self.config.max_tokens(),
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
            relative: None,
        }
    }

    fn resident_bytes(&self) -> u64 {
        let head = self.head.as_ref().map_or(0, ClassificationHead::bytes);
        bytes_of(&[&self.positions, &self.norm.0, &self.norm.1, &self.distances]) + head
    }

    fn fingerprint(&self) -> Vec<u8> {
        bytemuck::cast_slice(&self.positions).to_vec()
    }

    fn gathered_token(&self) -> ScoredToken {
        ScoredToken::First
    }

    fn embed(&self, batch: &RaggedBatch, hidden: &mut [f32]) {
        let _span = Operation::Embed.enter();
        let width = self.config.hidden_size;
        for sequence in batch.cu_seqlens.windows(2) {
            let mut next_position = self.config.first_position();
            for token in sequence[0]..sequence[1] {
                // A padding token that a text spells out stands at its own number and takes no other's place, as in
                // the reference.
                let position = if batch.input_ids[token] == MpnetConfig::PADDING {
                    MpnetConfig::PADDING as usize
                } else {
                    next_position += 1;
                    next_position - 1
                };
                let row = &mut hidden[token * width..][..width];
                let place = &self.positions[position * width..][..width];
                row.iter_mut().zip(place).for_each(|(value, place)| *value += place);
            }
        }
        let tokens = &mut hidden[..batch.tokens() * width];
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
        let rows = match span.wanted {
            Wanted::All => {
                self.attend(&weights, span.cu_seqlens, hidden, scratch);
                span.tokens()
            }
            Wanted::Scored => self.attend_first(&weights, span.cu_seqlens, hidden, scratch),
        };
        self.after_attention(&weights, &mut hidden[..rows * width], scratch);
    }
}

impl CrossEncoder for Mpnet {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_head_has_a_number_for_each_distance() {
        let heads = 3;
        let buckets: Vec<f32> = (0..MpnetConfig::BUCKETS * heads).map(|it| it as f32).collect();
        let tokens = 200;
        let values = by_distance(&buckets, heads, tokens);
        assert_eq!(values.len(), heads * (2 * tokens - 1));
        for head in 0..heads {
            for (query, key, bucket) in
                [(0, 0, 0), (5, 4, 1), (4, 5, 17), (199, 0, 15), (0, 199, 31), (100, 88, 9)]
            {
                let place = head * (2 * tokens - 1) + tokens - 1 + key - query;
                assert_eq!(values[place], (bucket * heads + head) as f32, "{query} and {key}");
            }
        }
    }
}
