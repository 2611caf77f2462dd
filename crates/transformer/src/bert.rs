//! BERT (Devlin et al. 2019) and XLM-RoBERTa (Conneau et al. 2020): encoder layers, embeddings, and the heads that
//! read the first token.

use std::path::Path;

use riddle_kernels::{
    AttentionShape, Output, add_layer_norm, attention, attention_scratch_len, gelu, layer_norm,
    linear, tanh,
};
use riddle_weights::{
    BertConfig, BertFamily, Checkpoint, LayerLayout, LayeredCheckpoint, TensorInfo,
};

use crate::{Error, RaggedBatch, Result};

/// A BERT model without its layers and token rows: those are brought by the caller.
#[derive(Debug)]
pub struct Bert {
    config: BertConfig,
    checkpoint: Checkpoint,
    /// `bert.` or `roberta.` for models with a head, empty for bare encoders.
    prefix: &'static str,
    positions: Vec<f32>,
    types: Vec<f32>,
    norm: Norm,
}

#[derive(Debug)]
struct Norm {
    gain: Vec<f32>,
    bias: Vec<f32>,
}

/// Memory of one layer for the largest micro-batch, allocated once; peak memory is a sum one can read.
#[derive(Debug)]
pub struct Scratch {
    /// Query, key and value of every token, `[tokens, 3 · hidden]`.
    qkv: Vec<f32>,
    /// Attention's output, `[tokens, hidden]`.
    context: Vec<f32>,
    /// Output of the two projections back to the hidden width, `[tokens, hidden]`.
    projected: Vec<f32>,
    /// Feed-forward activations, `[tokens, intermediate]`.
    intermediate: Vec<f32>,
    /// Attention scores of a block of queries, per thread.
    scores: Vec<f32>,
}

impl Scratch {
    /// Scratch for micro-batches of up to `tokens` tokens with sequences of up to `longest`, on `threads`
    /// threads.
    pub fn new(config: &BertConfig, tokens: usize, longest: usize, threads: usize) -> Scratch {
        let hidden = config.hidden_size;
        Scratch {
            qkv: vec![0.0; tokens * 3 * hidden],
            context: vec![0.0; tokens * hidden],
            projected: vec![0.0; tokens * hidden],
            intermediate: vec![0.0; tokens * config.intermediate_size],
            scores: vec![0.0; attention_scratch_len(longest, threads)],
        }
    }

    /// Bytes of all of it.
    pub fn bytes(&self) -> u64 {
        let elements = self.qkv.len()
            + self.context.len()
            + self.projected.len()
            + self.intermediate.len()
            + self.scores.len();
        (elements * size_of::<f32>()) as u64
    }
}

/// One layer's weights, cut out of its buffer; the fields are Hugging Face's module names.
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

struct Linear<'a> {
    weight: &'a [f32],
    bias: &'a [f32],
    inputs: usize,
    outputs: usize,
}

impl Linear<'_> {
    fn apply(&self, x: &[f32], out: Output<'_>) {
        linear(x, self.weight, Some(self.bias), self.inputs, self.outputs, out);
    }
}

impl Bert {
    /// Opens a model directory: reads configuration, headers and the small tensors, no layer.
    ///
    /// # Errors
    /// What is missing, damaged, contradictory or not supported, by name.
    pub fn open(dir: &Path) -> Result<Bert> {
        let config = BertConfig::open(dir)?;
        let checkpoint = Checkpoint::open(dir)?;
        let with_head = match config.family {
            BertFamily::Bert => "bert.",
            BertFamily::XlmRoberta => "roberta.",
        };
        let has_prefix =
            checkpoint.contains(&format!("{with_head}embeddings.word_embeddings.weight"));
        let prefix = if has_prefix { with_head } else { "" };
        let hidden = config.hidden_size;
        let read = |name: &str, shape: &[usize]| {
            read(&checkpoint, &format!("{prefix}embeddings.{name}"), shape)
        };
        let bert = Bert {
            positions: read(
                "position_embeddings.weight",
                &[config.max_position_embeddings, hidden],
            )?,
            types: read("token_type_embeddings.weight", &[config.type_vocab_size, hidden])?,
            norm: Norm {
                gain: read("LayerNorm.weight", &[hidden])?,
                bias: read("LayerNorm.bias", &[hidden])?,
            },
            config,
            checkpoint,
            prefix,
        };
        // A layer that is missing or misshapen is told now and not in the middle of a request.
        bert.layers()?;
        bert.token_table()?;
        Ok(bert)
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
        let elements =
            self.positions.len() + self.types.len() + self.norm.gain.len() + self.norm.bias.len();
        (elements * size_of::<f32>()) as u64
    }

    /// Bytes that differ between two trainings of the same architecture: the position embeddings, which
    /// every training changes and which are in memory anyway.
    pub fn fingerprint(&self) -> Vec<u8> {
        self.positions.iter().flat_map(|it| it.to_le_bytes()).collect()
    }

    /// The table of token embeddings `[vocab_size, hidden_size]`, on disk.
    ///
    /// # Errors
    /// When it is missing or has another shape.
    pub fn token_table(&self) -> Result<TensorInfo> {
        let shape = [self.config.vocab_size, self.config.hidden_size];
        let name = format!("{}embeddings.word_embeddings.weight", self.prefix);
        Ok(self.checkpoint.tensor(&name, &shape)?.clone())
    }

    /// The layers, to be read one by one in the order that [`layer`](Self::layer) expects.
    ///
    /// # Errors
    /// When a tensor is missing or has another shape.
    pub fn layers(&self) -> Result<LayeredCheckpoint> {
        let (hidden, wide) = (self.config.hidden_size, self.config.intermediate_size);
        let layers = (0..self.config.num_hidden_layers)
            .map(|layer| {
                let tensor = |name: &str, shape: &[usize]| {
                    let name = format!("{}encoder.layer.{layer}.{name}", self.prefix);
                    self.checkpoint.tensor(&name, shape).cloned().map_err(Error::from)
                };
                let tensors = [
                    ("attention.self.query.weight", vec![hidden, hidden]),
                    ("attention.self.query.bias", vec![hidden]),
                    ("attention.self.key.weight", vec![hidden, hidden]),
                    ("attention.self.key.bias", vec![hidden]),
                    ("attention.self.value.weight", vec![hidden, hidden]),
                    ("attention.self.value.bias", vec![hidden]),
                    ("attention.output.dense.weight", vec![hidden, hidden]),
                    ("attention.output.dense.bias", vec![hidden]),
                    ("attention.output.LayerNorm.weight", vec![hidden]),
                    ("attention.output.LayerNorm.bias", vec![hidden]),
                    ("intermediate.dense.weight", vec![wide, hidden]),
                    ("intermediate.dense.bias", vec![wide]),
                    ("output.dense.weight", vec![hidden, wide]),
                    ("output.dense.bias", vec![hidden]),
                    ("output.LayerNorm.weight", vec![hidden]),
                    ("output.LayerNorm.bias", vec![hidden]),
                ];
                let tensors = tensors
                    .iter()
                    .map(|(name, shape)| tensor(name, shape))
                    .collect::<Result<_>>()?;
                Ok(LayerLayout::new(tensors))
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(LayeredCheckpoint::new(self.checkpoint.clone(), layers))
    }

    /// Turns token rows into the input of the first layer, in place: adds position and segment
    /// embeddings and normalizes. `hidden` `[tokens, hidden_size]` holds the rows of `batch.input_ids`.
    ///
    /// # Panics
    /// When a sequence is longer than the model's positions or a segment id out of range: the tokenizer
    /// was opened with other limits.
    pub fn embed(&self, batch: &RaggedBatch, hidden: &mut [f32]) {
        let width = self.config.hidden_size;
        for sequence in batch.cu_seqlens.windows(2) {
            let mut next_position = self.config.first_position();
            for token in sequence[0]..sequence[1] {
                let (position, segment) = match self.config.family {
                    BertFamily::Bert => (next_position, batch.token_type_ids[token] as usize),
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
                let position = &self.positions[position * width..][..width];
                let segment = &self.types[segment * width..][..width];
                for ((value, position), segment) in row.iter_mut().zip(position).zip(segment) {
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

    /// One transformer layer over a ragged micro-batch, in place.
    ///
    /// Shapes: `weights` as [`layers`](Self::layers) lays them out, `cu_seqlens` `[sequences + 1]` from 0,
    /// `hidden` `[tokens, hidden_size]`. Runs on the current pool's threads.
    pub fn layer(
        &self,
        weights: &[f32],
        cu_seqlens: &[usize],
        hidden: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let config = &self.config;
        let weights = LayerWeights::cut(weights, config);
        let (width, wide) = (config.hidden_size, config.intermediate_size);
        let tokens = cu_seqlens.last().copied().unwrap_or(0);
        let hidden = &mut hidden[..tokens * width];
        let qkv = &mut scratch.qkv[..tokens * 3 * width];
        for (part, projection) in
            [&weights.query, &weights.key, &weights.value].into_iter().enumerate()
        {
            projection.apply(hidden, Output { data: qkv, stride: 3 * width, offset: part * width });
        }
        let shape = AttentionShape {
            heads: config.num_attention_heads,
            head_dim: width / config.num_attention_heads,
        };
        let context = &mut scratch.context[..tokens * width];
        attention(qkv, cu_seqlens, shape, context, &mut scratch.scores);
        let projected = &mut scratch.projected[..tokens * width];
        weights.attention_output.apply(context, Output::dense(projected, width));
        let (gain, bias) = weights.attention_norm;
        add_layer_norm(hidden, projected, gain, bias, config.layer_norm_eps);
        let intermediate = &mut scratch.intermediate[..tokens * wide];
        weights.intermediate.apply(hidden, Output::dense(intermediate, wide));
        gelu(intermediate);
        weights.output.apply(intermediate, Output::dense(projected, width));
        let (gain, bias) = weights.output_norm;
        add_layer_norm(hidden, projected, gain, bias, config.layer_norm_eps);
    }

    /// The head of `BertForSequenceClassification` or `XLMRobertaForSequenceClassification`: pooler and classifier over the first token.
    ///
    /// # Errors
    /// [`Error::NoHead`] when the checkpoint has none with a single label, or knows no second segment.
    pub fn classification_head(&self) -> Result<ClassificationHead> {
        let hidden = self.config.hidden_size;
        let read = |name: &str, shape: &[usize]| read(&self.checkpoint, name, shape);
        let labels = self.config.id2label.as_ref();
        // The same two products under two names.
        let (pooler, classifier, segments) = match self.config.family {
            BertFamily::Bert => (format!("{}pooler.dense", self.prefix), "classifier", 2),
            BertFamily::XlmRoberta => ("classifier.dense".to_owned(), "classifier.out_proj", 1),
        };
        if !self.checkpoint.contains(&format!("{classifier}.weight"))
            || labels.is_some_and(|labels| labels.len() != 1)
            || self.config.type_vocab_size < segments
        {
            return Err(Error::NoHead { dir: self.checkpoint.dir().to_path_buf() });
        }
        Ok(ClassificationHead {
            pooler: read(&format!("{pooler}.weight"), &[hidden, hidden])?,
            pooler_bias: read(&format!("{pooler}.bias"), &[hidden])?,
            classifier: read(&format!("{classifier}.weight"), &[1, hidden])?,
            classifier_bias: read(&format!("{classifier}.bias"), &[1])?,
        })
    }
}

fn read(checkpoint: &Checkpoint, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
    let info = checkpoint.tensor(name, shape)?;
    let mut values = vec![0.0; info.elements()];
    checkpoint.read_f32(info, &mut values)?;
    Ok(values)
}

impl<'a> LayerWeights<'a> {
    /// Cuts a layer's buffer; the order is that of [`Bert::layers`].
    fn cut(weights: &'a [f32], config: &BertConfig) -> Self {
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let mut rest = weights;
        let mut take = |elements: usize| {
            let (part, tail) = rest.split_at(elements);
            rest = tail;
            part
        };
        let mut linear = |inputs: usize, outputs: usize| {
            let (weight, bias) = (take(inputs * outputs), take(outputs));
            Linear { weight, bias, inputs, outputs }
        };
        let (query, key, value) =
            (linear(hidden, hidden), linear(hidden, hidden), linear(hidden, hidden));
        let attention_output = linear(hidden, hidden);
        // A normalization's gain and bias lie as a layer of one input would.
        let norm = |it: Linear<'a>| (it.weight, it.bias);
        let attention_norm = norm(linear(1, hidden));
        let (intermediate, output) = (linear(hidden, wide), linear(wide, hidden));
        let output_norm = norm(linear(1, hidden));
        LayerWeights {
            query,
            key,
            value,
            attention_output,
            attention_norm,
            intermediate,
            output,
            output_norm,
        }
    }
}

/// Pooler and classifier: a score from the first token of a pair.
#[derive(Debug)]
pub struct ClassificationHead {
    pooler: Vec<f32>,
    pooler_bias: Vec<f32>,
    classifier: Vec<f32>,
    classifier_bias: Vec<f32>,
}

impl ClassificationHead {
    /// Raw scores (logits) of `first_tokens` `[candidates, hidden_size]`, the hidden states of `[CLS]`
    /// after any layer: after the last it is the model's score, before it a provisional one (GRATING §4.1).
    pub fn scores(&self, first_tokens: &[f32]) -> Vec<f32> {
        let width = self.pooler_bias.len();
        let mut pooled = vec![0.0; first_tokens.len()];
        linear(
            first_tokens,
            &self.pooler,
            Some(&self.pooler_bias),
            width,
            width,
            Output::dense(&mut pooled, width),
        );
        tanh(&mut pooled);
        let mut scores = vec![0.0; first_tokens.len() / width];
        linear(
            &pooled,
            &self.classifier,
            Some(&self.classifier_bias),
            width,
            1,
            Output::dense(&mut scores, 1),
        );
        scores
    }

    /// Bytes of its weights.
    pub fn bytes(&self) -> u64 {
        let elements = self.pooler.len()
            + self.pooler_bias.len()
            + self.classifier.len()
            + self.classifier_bias.len();
        (elements * size_of::<f32>()) as u64
    }
}
