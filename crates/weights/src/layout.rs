//! How the tensors of a layer lie in memory.

use crate::{Dtype, Format, TensorInfo};

/// Bytes to which every tensor of a layer is aligned: a cache line, so that no vector load straddles two.
pub(crate) const TENSOR_ALIGNMENT: usize = 64;

/// A tensor and where it lies in its layer's buffer.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) info: TensorInfo,
    pub(crate) offset: usize,
    /// Format in the buffer, which is not always the file's.
    pub(crate) format: Format,
}

impl Placed {
    pub(crate) fn bytes(&self) -> usize {
        if self.format == self.info.format() {
            // Headers are checked against files, which memory addresses can count.
            return self.info.bytes() as usize;
        }
        self.info.elements() * Dtype::F32.bytes()
    }
}

/// The tensors of one layer and where each lies in the layer's buffer. Matrices keep the format of the
/// file; vectors (biases, gains) are widened to f32, which costs next to nothing and spares every routine
/// that adds them three versions.
#[derive(Debug, Clone)]
pub struct LayerLayout {
    tensors: Vec<Placed>,
    bytes: usize,
}

impl LayerLayout {
    /// A layer of these tensors, one after the other.
    pub fn new(tensors: Vec<TensorInfo>) -> Self {
        let mut bytes = 0;
        let placed = tensors.into_iter().map(|info| {
            let vector = info.shape.len() < 2;
            let format = if vector { Format::Plain(Dtype::F32) } else { info.format() };
            let placed = Placed { offset: bytes, format, info };
            bytes = (bytes + placed.bytes()).next_multiple_of(TENSOR_ALIGNMENT);
            placed
        });
        LayerLayout { tensors: placed.collect(), bytes }
    }

    /// Bytes of all tensors together, as they lie in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there is nothing to compute with.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Formats of the matrices in memory, in order.
    pub fn matrix_formats(&self) -> impl Iterator<Item = Format> {
        self.tensors.iter().filter(|it| it.info.shape.len() > 1).map(|it| it.format)
    }

    /// Format and bytes of tensor `index` in a buffer that [`LayeredCheckpoint::read_layer`] has filled.
    ///
    /// # Panics
    /// When there is no such tensor or the buffer is shorter than the layer: the caller's bug.
    pub fn tensor<'a>(&self, index: usize, buffer: &'a [u8]) -> (Format, &'a [u8]) {
        let placed = &self.tensors[index];
        (placed.format, &buffer[placed.offset..placed.offset + placed.bytes()])
    }

    pub(crate) fn placed(&self) -> &[Placed] {
        &self.tensors
    }
}
