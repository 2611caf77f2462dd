//! What every cross-encoder offers to whoever drives its forward pass.

use std::{fmt::Debug, path::Path};

use riddle_kernels::{
    Finish, Int8Matrix, Matrix, Panels, Part, Precision, Products, Q4Matrix, Rounding, products,
};
use riddle_weights::{
    BertConfig, Checkpoint, DebertaConfig, DecoderConfig, Dtype, Format, GteConfig, LayerLayout,
    LayeredCheckpoint, Pack as _, TensorInfo, model_type,
};

use crate::{
    Bert, BertCrossEncoder, Deberta, Decoder, Gte, LateInteraction, ModernBert,
    ModularCrossEncoder, Modules, RaggedBatch, Result, Scratch, ScratchShape, Tokenizer,
    pack::KernelLayout, prompt::Template,
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
    ["model.safetensors", "model.safetensors.index.json"].iter().any(|it| dir.join(it).is_file())
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
/// As [`open_text_encoder`].
pub fn open_layers(dir: &Path, options: OpenOptions) -> Result<LayeredCheckpoint> {
    Ok(open_text_encoder(dir, options)?.layers().clone())
}

/// A linear layer's weights.
#[derive(Debug)]
pub(crate) struct Linear<'a> {
    pub(crate) weight: Matrix<'a>,
    pub(crate) bias: Option<&'a [f32]>,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

impl<'a> Linear<'a> {
    /// The product with its columns from `offset` on.
    pub(crate) fn at(&self, offset: usize) -> Part<'a> {
        Part { weight: self.weight, bias: self.bias, outputs: self.outputs, offset }
    }
}

/// Runs the products of a layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Multiply {
    pub(crate) precision: Precision,
    pub(crate) rounding: Rounding,
}

impl Multiply {
    /// In so many bits, by the routines that are fastest for so many rows.
    pub(crate) fn by_count(precision: Precision) -> Multiply {
        Multiply { precision, rounding: Rounding::ByCount }
    }

    /// Several products of one input, to their columns of rows of `stride`.
    pub(crate) fn parts(
        self,
        x: &[f32],
        inputs: usize,
        parts: &[Part<'_>],
        out: (&mut [f32], usize),
        panels: &mut Panels,
    ) {
        self.parts_to(x, inputs, parts, Finish::Store, out, panels);
    }

    /// As [`parts`](Self::parts), and what becomes of them.
    pub(crate) fn parts_to(
        self,
        x: &[f32],
        inputs: usize,
        parts: &[Part<'_>],
        finish: Finish<'_>,
        (out, stride): (&mut [f32], usize),
        panels: &mut Panels,
    ) {
        let Multiply { precision, rounding } = self;
        let work = Products { x, inputs, parts, precision, rounding, finish };
        products(work, out, stride, panels);
    }

    /// One product, and what becomes of it; `out` without gaps.
    pub(crate) fn one(
        self,
        x: &[f32],
        product: &Linear<'_>,
        finish: Finish<'_>,
        out: &mut [f32],
        panels: &mut Panels,
    ) {
        let parts = &[product.at(0)];
        let Multiply { precision, rounding } = self;
        let work = Products { x, inputs: product.inputs, parts, precision, rounding, finish };
        products(work, out, product.outputs, panels);
    }
}

/// Cuts a layer's buffer, tensor after tensor, in the order in which its layout was made.
pub(crate) struct Cutter<'a> {
    layout: &'a LayerLayout,
    buffer: &'a [u8],
    next: usize,
}

impl<'a> Cutter<'a> {
    pub(crate) fn new(layout: &'a LayerLayout, buffer: &'a [u8]) -> Self {
        Cutter { layout, buffer, next: 0 }
    }

    pub(crate) fn vector(&mut self) -> &'a [f32] {
        let (format, raw) = self.take();
        let plain = Format::Plain(Dtype::F32);
        assert_eq!(format, plain, "vectors are widened when they are read: this is a bug");
        bytemuck::cast_slice(raw)
    }

    /// A vector that the model may lack; empty then.
    pub(crate) fn optional(&mut self, there: bool) -> &'a [f32] {
        if there { self.vector() } else { &[] }
    }

    fn matrix(&mut self, outputs: usize, inputs: usize) -> Matrix<'a> {
        let (format, raw) = self.take();
        // `TensorNames::add` has compared lengths when the model was opened, and tensors begin cache lines.
        match format {
            Format::Plain(Dtype::F32) => Matrix::F32(bytemuck::cast_slice(raw)),
            Format::Plain(Dtype::F16) => Matrix::F16(bytemuck::cast_slice(raw)),
            Format::Plain(Dtype::Bf16) => Matrix::Bf16(bytemuck::cast_slice(raw)),
            Format::Int8 => Int8Matrix::new(raw, outputs, inputs)
                .map(Matrix::Int8)
                .expect("lengths are checked when a model is opened: this is a bug"),
            Format::Q4 => Q4Matrix::new(raw, outputs, inputs)
                .map(Matrix::Q4)
                .expect("lengths are checked when a model is opened: this is a bug"),
            Format::Rows => unreachable!("layers have no tables: this is a bug"),
        }
    }

    /// A product with its bias, if it has one.
    pub(crate) fn linear(&mut self, inputs: usize, outputs: usize, has_bias: bool) -> Linear<'a> {
        let weight = self.matrix(outputs, inputs);
        Linear { weight, bias: has_bias.then(|| self.vector()), inputs, outputs }
    }

    fn take(&mut self) -> (Format, &'a [u8]) {
        self.next += 1;
        self.layout.tensor(self.next - 1, self.buffer)
    }
}

/// Names and shapes of a layer's tensors, collected in the order in which they will be cut.
pub(crate) struct TensorNames<'a> {
    pub(crate) checkpoint: &'a Checkpoint,
    pub(crate) prefix: String,
    pub(crate) tensors: Vec<TensorInfo>,
}

impl TensorNames<'_> {
    pub(crate) fn add(&mut self, name: &str, shape: &[usize]) -> Result<()> {
        let name = format!("{}{name}", self.prefix);
        let info = self.checkpoint.tensor(&name, shape)?;
        check_layout(self.checkpoint, info)?;
        self.tensors.push(info.clone());
        Ok(())
    }

    /// A matrix `[outputs, inputs]` and its bias, if it has one.
    pub(crate) fn linear(
        &mut self,
        name: &str,
        inputs: usize,
        outputs: usize,
        bias: bool,
    ) -> Result<()> {
        self.add(&format!("{name}.weight"), &[outputs, inputs])?;
        if bias { self.add(&format!("{name}.bias"), &[outputs]) } else { Ok(()) }
    }
}

/// Refuses what no product can read: packed matrices of another length than their shape takes, and tables.
fn check_layout(checkpoint: &Checkpoint, info: &TensorInfo) -> Result<()> {
    let expected = match (info.format(), &info.shape[..]) {
        (Format::Plain(_), _) => return Ok(()),
        (format, &[outputs, inputs]) => KernelLayout.packed_bytes(format, outputs, inputs),
        _ => None,
    };
    if expected.map(|it| it as u64) == Some(info.bytes()) {
        return Ok(());
    }
    Err(crate::Error::BadLayout {
        dir: checkpoint.dir().to_path_buf(),
        tensor: info.name.clone(),
        format: info.format().name(),
        bytes: info.bytes(),
    })
}

/// Groups a checkpoint's tensors by layer; `names` lists those of one.
pub(crate) fn layered(
    checkpoint: &Checkpoint,
    num_layers: usize,
    prefix: &str,
    names: impl Fn(usize, &mut TensorNames<'_>) -> Result<()>,
) -> Result<LayeredCheckpoint> {
    let layers = (0..num_layers)
        .map(|layer| {
            let prefix = format!("{prefix}{layer}.");
            let mut list = TensorNames { checkpoint, prefix, tensors: Vec::new() };
            names(layer, &mut list)?;
            Ok(LayerLayout::new(list.tensors))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(LayeredCheckpoint::new(checkpoint.clone(), layers))
}

/// Reads a tensor that stays in memory.
pub(crate) fn read(checkpoint: &Checkpoint, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
    let info = checkpoint.tensor(name, shape)?;
    let mut values = vec![0.0; info.elements()];
    checkpoint.read_f32(info, &mut values)?;
    Ok(values)
}

/// Bytes of tensors that stay in memory.
pub(crate) fn bytes_of(tensors: &[&Vec<f32>]) -> u64 {
    let elements: usize = tensors.iter().map(|it| it.len()).sum();
    (elements * size_of::<f32>()) as u64
}
