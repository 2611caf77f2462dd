//! A checkpoint's tensors grouped by layer, in the order of computation.

use crate::{Checkpoint, Result, TensorInfo};

/// The tensors of one layer and where each lies in the layer's buffer.
#[derive(Debug, Clone)]
pub struct LayerLayout {
    tensors: Vec<TensorInfo>,
}

impl LayerLayout {
    /// A layer of these tensors, one after the other.
    pub fn new(tensors: Vec<TensorInfo>) -> Self {
        LayerLayout { tensors }
    }

    /// f32 elements of all tensors together.
    pub fn elements(&self) -> usize {
        self.tensors.iter().map(TensorInfo::elements).sum()
    }
}

/// A checkpoint that can be read layer by layer.
#[derive(Debug, Clone)]
pub struct LayeredCheckpoint {
    checkpoint: Checkpoint,
    layers: Vec<LayerLayout>,
}

impl LayeredCheckpoint {
    /// Groups `checkpoint` into `layers`.
    pub fn new(checkpoint: Checkpoint, layers: Vec<LayerLayout>) -> Self {
        LayeredCheckpoint { checkpoint, layers }
    }

    /// The layers, first to last.
    pub fn layers(&self) -> &[LayerLayout] {
        &self.layers
    }

    /// Reads layer `layer` (from 0) into `out`, tensor after tensor, as f32; returns the bytes read.
    ///
    /// # Errors
    /// When the file can not be read or holds values that are not numbers.
    ///
    /// # Panics
    /// When there is no such layer or `out` is shorter than its elements.
    pub fn read_layer(&self, layer: usize, out: &mut [f32]) -> Result<u64> {
        let mut rest = out;
        let mut bytes = 0;
        for tensor in &self.layers[layer].tensors {
            let (part, tail) = rest.split_at_mut(tensor.elements());
            bytes += self.checkpoint.read_f32(tensor, part)?;
            rest = tail;
        }
        Ok(bytes)
    }
}
