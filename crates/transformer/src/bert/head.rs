//! The head that reads the first token, and the encoder with it: a model that scores pairs.

use riddle_kernels::{Matrix, Output, Panels, gelu, linear, tanh};
use riddle_weights::{BertFamily, Checkpoint, LayeredCheckpoint, TensorInfo};

use super::{Bert, EarlyHead};
use crate::{
    CrossEncoder, Error, RaggedBatch, Result, ScoredToken, Scratch, ScratchShape, Sizes, Span,
    Template, TextEncoder,
    layer::{bytes_of, read},
    operation::Operation,
};

/// Pooler and classifier: a score from the first token of a pair.
#[derive(Debug)]
pub struct ClassificationHead {
    pooler: Vec<f32>,
    pooler_bias: Vec<f32>,
    classifier: Vec<f32>,
    classifier_bias: Vec<f32>,
    /// GELU between the two, and not tanh.
    has_gelu: bool,
}

impl ClassificationHead {
    /// Reads both products; the families name them differently.
    pub(crate) fn read(
        checkpoint: &Checkpoint,
        pooler: &str,
        classifier: &str,
        hidden: usize,
    ) -> Result<ClassificationHead> {
        let read = |name: String, shape: &[usize]| read(checkpoint, &name, shape);
        Ok(ClassificationHead {
            pooler: read(format!("{pooler}.weight"), &[hidden, hidden])?,
            pooler_bias: read(format!("{pooler}.bias"), &[hidden])?,
            classifier: read(format!("{classifier}.weight"), &[1, hidden])?,
            classifier_bias: read(format!("{classifier}.bias"), &[1])?,
            has_gelu: false,
        })
    }

    /// The same with GELU between pooler and classifier, as DeBERTa has it.
    pub(crate) fn with_gelu(self) -> ClassificationHead {
        ClassificationHead { has_gelu: true, ..self }
    }

    /// Raw scores of sequences, by the states `[tokens, hidden_size]` of their first tokens.
    pub(crate) fn of_sequences(&self, cu_seqlens: &[usize], hidden: &[f32]) -> Vec<f32> {
        let width = self.pooler_bias.len();
        let mut first = Vec::with_capacity((cu_seqlens.len() - 1) * width);
        for sequence in cu_seqlens.windows(2) {
            first.extend_from_slice(&hidden[sequence[0] * width..][..width]);
        }
        self.scores(&first)
    }

    /// Raw scores (logits) of `first_tokens` `[candidates, hidden_size]`, the hidden states of `[CLS]`
    /// after any layer: after the last it is the model's score, before it a provisional one (GRATING §4.1).
    pub fn scores(&self, first_tokens: &[f32]) -> Vec<f32> {
        let width = self.pooler_bias.len();
        let none = &mut Panels::default();
        let mut pooled = vec![0.0; first_tokens.len()];
        let out = Output::dense(&mut pooled, width);
        let pooler = Matrix::F32(&self.pooler);
        linear(first_tokens, pooler, Some(&self.pooler_bias), width, width, out, none);
        if self.has_gelu {
            gelu(&mut pooled)
        } else {
            tanh(&mut pooled)
        }
        let mut scores = vec![0.0; first_tokens.len() / width];
        let out = Output::dense(&mut scores, 1);
        let classifier = Matrix::F32(&self.classifier);
        linear(&pooled, classifier, Some(&self.classifier_bias), width, 1, out, none);
        scores
    }

    /// Bytes of its weights.
    pub fn bytes(&self) -> u64 {
        bytes_of(&[&self.pooler, &self.pooler_bias, &self.classifier, &self.classifier_bias])
    }
}

/// A [`Bert`] with its classification head.
#[derive(Debug)]
pub struct BertCrossEncoder {
    bert: Bert,
    head: ClassificationHead,
    /// By layer, from the first.
    early: Vec<Option<EarlyHead>>,
}

impl BertCrossEncoder {
    /// The encoder.
    pub fn bert(&self) -> &Bert {
        &self.bert
    }

    /// Reads the head of `bert`, and those of its early layers where it has such.
    ///
    /// # Errors
    /// As [`Bert::classification_head`], and early heads of another shape.
    pub fn new(bert: Bert) -> Result<BertCrossEncoder> {
        let sizes = TextEncoder::sizes(&bert);
        let early = EarlyHead::read_all(&bert.checkpoint, sizes.num_layers, sizes.hidden_size)?;
        Ok(BertCrossEncoder { head: bert.classification_head()?, early, bert })
    }
}

impl Bert {
    /// The head of `BertForSequenceClassification` or `XLMRobertaForSequenceClassification`: pooler and classifier
    /// over the first token.
    ///
    /// # Errors
    /// [`Error::NoHead`] when the checkpoint has none with a single label, or knows no second segment.
    pub fn classification_head(&self) -> Result<ClassificationHead> {
        let hidden = self.config.hidden_size;
        let labels = self.config.id2label.as_ref();
        // Both families have the same two products; the checkpoints name them differently.
        let (pooler, classifier, segments) = match self.config.family {
            BertFamily::Bert => (format!("{}pooler.dense", self.prefix), "classifier", 2),
            BertFamily::XlmRoberta => ("classifier.dense".to_owned(), "classifier.out_proj", 1),
        };
        if !self.checkpoint.contains(&format!("{classifier}.weight"))
            || labels.is_some_and(|labels| labels.len() != 1)
            || self.config.type_vocab_size < segments
        {
            let why =
                "it has no classification head with one label (BertForSequenceClassification)";
            let dir = self.checkpoint.dir().to_path_buf();
            return Err(Error::NoHead { dir, why: why.to_owned() });
        }
        ClassificationHead::read(&self.checkpoint, &pooler, classifier, hidden)
    }
}

impl TextEncoder for BertCrossEncoder {
    fn sizes(&self) -> Sizes {
        self.bert.sizes()
    }

    fn checkpoint(&self) -> &Checkpoint {
        &self.bert.checkpoint
    }

    fn token_table(&self) -> &TensorInfo {
        &self.bert.table
    }

    fn layers(&self) -> &LayeredCheckpoint {
        &self.bert.layers
    }

    fn scratch_shape(&self) -> ScratchShape {
        self.bert.scratch_shape()
    }

    fn resident_bytes(&self) -> u64 {
        let early: u64 = self.early.iter().flatten().map(EarlyHead::bytes).sum();
        self.bert.resident_bytes() + self.head.bytes() + early
    }

    fn fingerprint(&self) -> Vec<u8> {
        self.bert.fingerprint()
    }

    fn gathered_token(&self) -> ScoredToken {
        ScoredToken::First
    }

    fn embed(&self, batch: &RaggedBatch, hidden: &mut [f32]) {
        self.bert.embed(batch, hidden);
    }

    fn layer(
        &self,
        layer: usize,
        weights: &[u8],
        span: Span<'_>,
        hidden: &mut [f32],
        scratch: &mut Scratch,
    ) {
        TextEncoder::layer(&self.bert, layer, weights, span, hidden, scratch);
    }
}

impl CrossEncoder for BertCrossEncoder {
    fn template(&self) -> Template {
        Template::Pair
    }

    fn scored_token(&self) -> ScoredToken {
        ScoredToken::First
    }

    fn scores(&self, _layer: usize, cu_seqlens: &[usize], hidden: &[f32], out: &mut Vec<f32>) {
        let _span = Operation::Head.enter();
        out.extend(self.head.of_sequences(cu_seqlens, hidden));
    }

    fn early(&self, layer: usize) -> Option<&EarlyHead> {
        self.early.get(layer)?.as_ref()
    }
}
