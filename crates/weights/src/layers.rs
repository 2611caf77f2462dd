//! A checkpoint's tensors grouped by layer, in the order of computation.

use crate::{Checkpoint, LayerLayout, Result};

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

    /// The weights on disk.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The layers, first to last.
    pub fn layers(&self) -> &[LayerLayout] {
        &self.layers
    }

    /// Reads layer `layer` (from 0) into `out`, laid out as [`LayerLayout`] says; returns the bytes read.
    ///
    /// # Errors
    /// When the file can not be read, does not match its checksum, or holds values that are not numbers.
    ///
    /// # Panics
    /// When there is no such layer or `out` is shorter than its bytes.
    pub fn read_layer(&self, layer: usize, out: &mut [u8]) -> Result<u64> {
        self.checkpoint.read_layout(&self.layers[layer], out)
    }
}
