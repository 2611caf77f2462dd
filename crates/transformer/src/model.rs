//! What every cross-encoder offers to whoever drives its forward pass.

use std::{fmt::Debug, path::Path};

use riddle_kernels::Precision;
use riddle_weights::{
    BertConfig, Checkpoint, DebertaConfig, DecoderConfig, GteConfig, LayeredCheckpoint,
    MpnetConfig, TensorInfo, is_there, model_type,
};

use crate::{
    Bert, BertCrossEncoder, Deberta, Decoder, EarlyHead, Gte, LateInteraction, ModernBert,
    ModularCrossEncoder, Modules, Mpnet, RaggedBatch, Result, Scratch, ScratchShape, Tokenizer,
    modules::must_be_flat, prompt::Template,
};

/// Sizes that the driver of a forward pass must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Width of the hidden states.
    pub hidden_size: usize,
    /// Transformer layers.
    pub num_layers: usize,
    /// Rows of the token table.
    pub vocab_size: usize,
    /// Longest pair that the reference implementation reads unless told otherwise.
    pub default_max_tokens: usize,
    /// Longest pair that the model has positions for.
    pub max_tokens: usize,
    /// First layer whose output the model's own head can score, from 1.
    pub first_scored_layer: usize,
}

/// Sequences of a micro-batch and what stands before them.
#[derive(Debug)]
pub struct Span<'a> {
    /// Cumulative token counts `[sequences + 1]`, from 0.
    pub cu_seqlens: &'a [usize],
    /// Tokens before each sequence.
    pub prefix: Prefix<'a>,
    /// Which states of the output are needed.
    pub wanted: Wanted,
    /// Tokens at the end of the one sequence that see the others, and that none sees; 0 but for the queries of a
    /// [`LateInteraction`].
    pub unseen: usize,
}

/// Which states a layer has to give.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wanted {
    /// The states of every token.
    #[default]
    All,
    /// Only those that the head reads, where it reads one token of each sequence
    /// ([`TextEncoder::gathered_token`]): one row per sequence, from the beginning of the hidden states on;
    /// the rest is lost. Keys and values are still computed of all, everything else of those alone.
    Scored,
}

/// Which token of a sequence the head reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoredToken {
    /// The first: encoders with a classification head.
    First,
    /// The last: decoders.
    Last,
    /// Every one.
    All,
}

/// Tokens that stand before all sequences of a request. With causal attention their hidden states, keys
/// and values are equal for all, so they are computed once per layer and shared.
#[derive(Debug)]
pub enum Prefix<'a> {
    /// No prefix: each sequence is whole.
    None,
    /// These sequences (one) *are* the prefix: leave its queries, keys and values here.
    Build(&'a mut Vec<f32>),
    /// What [`Prefix::Build`] has left in the same layer.
    Shared(&'a [f32]),
}

impl Span<'_> {
    pub(crate) fn tokens(&self) -> usize {
        self.cu_seqlens.last().copied().unwrap_or(0)
    }

    /// Tokens before each sequence, whose queries, keys and values take `stride` elements.
    pub(crate) fn prefix_tokens(&self, stride: usize) -> usize {
        match self.prefix {
            Prefix::None | Prefix::Build(_) => 0,
            Prefix::Shared(prefix) => prefix.len() / stride,
        }
    }
}

/// Layers over the tokens of a text, without their weights and token rows: those are brought by the caller, so whoever
/// drives the forward pass decides what is in memory.
pub trait TextEncoder: Debug + Send + Sync {
    /// Sizes.
    fn sizes(&self) -> Sizes;

    /// The weights on disk.
    fn checkpoint(&self) -> &Checkpoint;

    /// The table of token embeddings `[vocab_size, hidden_size]`, on disk.
    fn token_table(&self) -> &TensorInfo;

    /// The layers, to be read one by one as [`layer`](Self::layer) expects them.
    fn layers(&self) -> &LayeredCheckpoint;

    /// Memory that a layer needs.
    fn scratch_shape(&self) -> ScratchShape;

    /// Bytes of weights that are always in memory, those of a head included.
    fn resident_bytes(&self) -> u64;

    /// Bytes that differ between two trainings of the same architecture, of weights that are in memory anyway.
    fn fingerprint(&self) -> Vec<u8>;

    /// The one token of each sequence whose state is left by [`Wanted::Scored`].
    fn gathered_token(&self) -> ScoredToken;

    /// Turns token rows into the input of the first layer, in place. `hidden` `[tokens, hidden_size]` holds
    /// the rows of `batch.input_ids`.
    ///
    /// # Panics
    /// When a sequence is longer than the model's positions: the tokenizer was opened with other limits.
    fn embed(&self, batch: &RaggedBatch, hidden: &mut [f32]);

    /// Layer `layer` (from 0) over a ragged micro-batch, in place: `hidden` `[tokens, hidden_size]`, of which
    /// [`Span::wanted`] is needed afterwards. Runs on the current pool's threads.
    fn layer(
        &self,
        layer: usize,
        weights: &[u8],
        span: Span<'_>,
        hidden: &mut [f32],
        scratch: &mut Scratch,
    );

    /// The norm between the last layer and what reads its states, of rows in place; nothing where there is none.
    fn finish(&self, hidden: &mut [f32]) {
        let _ = hidden;
    }
}

/// A text encoder that scores pairs. A family is added by implementing this and naming it in
/// [`open_cross_encoder`].
pub trait CrossEncoder: TextEncoder {
    /// How a query and a text become one sequence.
    fn template(&self) -> Template;

    /// Which token the head reads.
    fn scored_token(&self) -> ScoredToken;

    /// Whether a prefix that all sequences begin with can be computed once.
    fn shares_prefixes(&self) -> bool {
        false
    }

    /// Completes the head with what only the tokenizer knows (which tokens mean yes and no).
    ///
    /// # Errors
    /// When the tokenizer does not know them, or the weights can not be read.
    fn resolve_head(&mut self, tokenizer: &Tokenizer) -> Result<()> {
        let _ = tokenizer;
        Ok(())
    }

    /// The comparison by which a text is scored that was read without its query; `None` where the two are one sequence.
    /// Where there is one, [`scores`](Self::scores) is not called.
    fn late(&self) -> Option<&LateInteraction> {
        None
    }

    /// The model's own head on the output of layer `layer` (from 0): appends a raw score (logit) for every
    /// sequence. After the last layer it is the model's score, before it a provisional one (GRATING §4.1).
    /// Layers before [`Sizes::first_scored_layer`] are not asked.
    fn scores(&self, layer: usize, cu_seqlens: &[usize], hidden: &[f32], out: &mut Vec<f32>);

    /// A head that was learned for layer `layer` (from 0) alone, and knows more there than the model's own.
    fn early(&self, layer: usize) -> Option<&EarlyHead> {
        let _ = layer;
        None
    }
}

/// Where weights are read from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Reads layers of our own store past the page cache.
    pub direct_io: bool,
    /// Reads the published files even if there is a store.
    pub published: bool,
    /// Numbers that products of plain weights multiply; int8 weights always multiply bytes.
    pub arithmetic: Precision,
}

impl OpenOptions {
    pub(crate) fn checkpoint(self, dir: &Path) -> Result<Checkpoint> {
        Ok(match self {
            // A directory may hold nothing but a store: then it is what was published.
            OpenOptions { published: true, .. } if has_published(dir) => {
                Checkpoint::open_safetensors(dir)?
            }
            OpenOptions { direct_io: true, .. } => Checkpoint::open_direct(dir)?,
            OpenOptions { .. } => Checkpoint::open(dir)?,
        })
    }
}

fn has_published(dir: &Path) -> bool {
    ["model.safetensors", "model.safetensors.index.json"].iter().any(|it| is_there(&dir.join(it)))
}

/// Opens a cross-encoder of any supported family: reads configuration, headers and the small tensors, no
/// layer.
///
/// # Errors
/// What is missing, damaged, contradictory or not supported, by name.
pub fn open_cross_encoder(dir: &Path, options: OpenOptions) -> Result<Box<dyn CrossEncoder>> {
    if LateInteraction::is_in(dir)? {
        return Ok(Box::new(LateInteraction::open(dir, options)?));
    }
    if Modules::has_score(dir)? {
        return Ok(Box::new(ModularCrossEncoder::open(dir, options)?));
    }
    let family = model_type(dir)?;
    match family.as_str() {
        it if BertConfig::TYPES.contains(&it) => {
            let bert = Bert::with_checkpoint(dir, options.checkpoint(dir)?)?;
            Ok(Box::new(BertCrossEncoder::new(bert.with_precision(options.arithmetic))?))
        }
        "modernbert" => Ok(Box::new(ModernBert::open(dir, options)?.with_head()?)),
        MpnetConfig::TYPE => Ok(Box::new(Mpnet::open(dir, options)?.with_head()?)),
        GteConfig::TYPE => Ok(Box::new(Gte::open(dir, options)?.with_head()?)),
        DebertaConfig::TYPE => Ok(Box::new(Deberta::open(dir, options)?.with_head()?)),
        it if DecoderConfig::TYPES.contains(&it) => {
            Ok(Box::new(Decoder::open(dir, options)?.with_head()?))
        }
        other => {
            Err(crate::Error::UnknownFamily { dir: dir.to_path_buf(), family: other.to_owned() })
        }
    }
}

/// Opens a model of any supported family without a head: what embedders are made of.
///
/// # Errors
/// What is missing, damaged, contradictory or not supported, by name.
pub fn open_text_encoder(dir: &Path, options: OpenOptions) -> Result<Box<dyn TextEncoder>> {
    let family = model_type(dir)?;
    match family.as_str() {
        it if BertConfig::TYPES.contains(&it) => {
            let bert = Bert::with_checkpoint(dir, options.checkpoint(dir)?)?;
            Ok(Box::new(bert.with_precision(options.arithmetic)))
        }
        "modernbert" => Ok(Box::new(ModernBert::open(dir, options)?)),
        MpnetConfig::TYPE => Ok(Box::new(Mpnet::open(dir, options)?)),
        GteConfig::TYPE => Ok(Box::new(Gte::open(dir, options)?)),
        DebertaConfig::TYPE => Ok(Box::new(Deberta::open(dir, options)?)),
        it if DecoderConfig::TYPES.contains(&it) => Ok(Box::new(Decoder::open(dir, options)?)),
        other => {
            Err(crate::Error::UnknownFamily { dir: dir.to_path_buf(), family: other.to_owned() })
        }
    }
}

/// A model's layers, head or none: all that is needed to store it in another way.
///
/// # Errors
/// As [`open_text_encoder`], and a model whose list of modules names a folder for it: a store lies beside the list.
pub fn open_layers(dir: &Path, options: OpenOptions) -> Result<LayeredCheckpoint> {
    must_be_flat(dir)?;
    Ok(open_text_encoder(dir, options)?.layers().clone())
}
