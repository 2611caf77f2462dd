//! Submodels of a BERT: some slices of each layer, put together from shards of any fidelity (STI, §4.2 and §5.5).
//!
//! A slice is a head and its share of the neurons. A layer of m slices has the same inputs and outputs as the whole
//! one, so that layers of any width follow each other. Shards are widened straight into the int8 layout that products
//! read: of a matrix that is cut by outputs a slice is one run of it, of one that is cut by inputs a run of every block
//! of 16 outputs. All slices at eight bits are the weights that they were made from, in another order of heads and
//! neurons, and scores are the same bits: sums of products of bytes are exact.
//!
//! An output's scale is that of the whole model, whatever was read: rows of two matrices run through all slices, and
//! their numbers must be of one unit.
//!
//! Shards may be of f32 as well, as the paper has them: four times as much to read, and products of single precision.

mod assemble;
mod codes;
mod importance;
mod make;
mod number;

use std::path::Path;

use riddle_kernels::{PanelUse, Precision};
use riddle_weights::{BertFamily, Checkpoint, ShardNumbers, ShardShape};

pub use assemble::{AssembledLayer, ShardBytes};
pub use make::{SliceOrdering, write_shards};

use crate::{
    Bert, BertCrossEncoder, CrossEncoder, Error, LateInteraction, OpenOptions, Result, Scratch,
    ScratchShape, Span, TextEncoder as _,
};

/// A cross-encoder whose layers come as shards.
#[derive(Debug)]
pub struct ElasticEncoder {
    encoder: BertCrossEncoder,
    shape: ShardShape,
}

impl ElasticEncoder {
    /// Opens a model directory: reads configuration, headers and the small tensors, no layer. `numbers` is what its
    /// shards are made of.
    ///
    /// # Errors
    /// As [`open_cross_encoder`](crate::open_cross_encoder), and [`Error::NotElastic`] for models that can not be cut
    /// into slices.
    pub fn open(dir: &Path, numbers: ShardNumbers, options: OpenOptions) -> Result<ElasticEncoder> {
        check_family(dir)?;
        let bert = Bert::with_checkpoint(dir, options.checkpoint(dir)?)?;
        check_tensors(dir, &bert)?;
        let shape = shard_shape(&bert, numbers);
        shape.check().map_err(|why| not_elastic(dir, why))?;
        Ok(ElasticEncoder { encoder: BertCrossEncoder::new(bert)?, shape })
    }

    /// How its layers are cut.
    pub fn shape(&self) -> &ShardShape {
        &self.shape
    }

    /// The network: everything but its layers.
    pub fn network(&self) -> &dyn CrossEncoder {
        &self.encoder
    }

    /// The network, to be completed by a tokenizer.
    pub fn network_mut(&mut self) -> &mut dyn CrossEncoder {
        &mut self.encoder
    }

    /// The weights on disk.
    pub fn checkpoint(&self) -> &Checkpoint {
        self.encoder.checkpoint()
    }

    /// Memory that a layer of any width needs.
    pub fn scratch_shape(&self) -> ScratchShape {
        let panel_use = match self.shape.numbers {
            ShardNumbers::Int8 => PanelUse::Packed,
            ShardNumbers::F32 => PanelUse::Any,
        };
        ScratchShape { panel_use, ..self.encoder.scratch_shape() }
    }

    /// A layer that was [assembled](AssembledLayer::assemble), over a ragged micro-batch, in place; as
    /// [`CrossEncoder::layer`].
    pub fn layer(
        &self,
        weights: &AssembledLayer,
        span: Span<'_>,
        hidden: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let weights = weights.weights();
        let precision = match self.shape.numbers {
            // Products of bytes have fewer digits than bf16, as for a whole model of bytes.
            ShardNumbers::Int8 => Precision::Bf16,
            ShardNumbers::F32 => Precision::F32,
        };
        let bert = self.encoder.bert();
        bert.layer_of(&weights, precision, &span, hidden, scratch);
    }
}

fn not_elastic(dir: &Path, why: String) -> Error {
    Error::NotElastic { dir: dir.to_path_buf(), why }
}

/// Refuses models whose layers are none of BERT's, or that compute more than pairs.
pub(super) fn check_family(dir: &Path) -> Result<()> {
    let family = riddle_weights::model_type(dir)?;
    if !matches!(family.as_str(), "bert" | "xlm-roberta") {
        let why = format!("its family is {family:?}, and shards are made of BERT's layers");
        return Err(not_elastic(dir, why));
    }
    if LateInteraction::is_in(dir)? {
        let why = "it reads queries and texts apart, and a deadline is planned for pairs";
        return Err(not_elastic(dir, why.to_owned()));
    }
    Ok(())
}

/// Refuses models whose matrices are not where a shard's are looked for.
pub(super) fn check_tensors(dir: &Path, bert: &Bert) -> Result<()> {
    if bert.is_fused() {
        let why = "its queries, keys and values are one matrix";
        return Err(not_elastic(dir, why.to_owned()));
    }
    Ok(())
}

/// How a model would be cut, if it can be.
pub(super) fn shard_shape(bert: &Bert, numbers: ShardNumbers) -> ShardShape {
    let config = bert.config();
    debug_assert!(matches!(config.family, BertFamily::Bert | BertFamily::XlmRoberta));
    ShardShape {
        numbers,
        layers: config.num_hidden_layers,
        slices: config.num_attention_heads,
        hidden: config.hidden_size,
        inner: config.intermediate_size,
    }
}
