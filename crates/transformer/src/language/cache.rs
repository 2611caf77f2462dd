//! Keys and values of the tokens that were read already.

use std::ops::Range;

use riddle_kernels::{AttentionShape, narrow_f16};

/// Keys and values of all layers in half precision, `[capacity, kv_width]` each, for one sequence.
#[derive(Debug)]
pub struct KvCache {
    keys: Vec<Vec<u16>>,
    values: Vec<Vec<u16>>,
    shape: AttentionShape,
    capacity: usize,
}

impl KvCache {
    /// A cache for `capacity` tokens of a model with `layers` layers.
    pub(crate) fn new(layers: usize, shape: AttentionShape, capacity: usize) -> KvCache {
        let empty = || vec![vec![0; capacity * shape.kv_width()]; layers];
        KvCache { keys: empty(), values: empty(), shape, capacity }
    }

    /// Tokens that fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes of a cache of `capacity` tokens.
    pub(crate) fn bytes(layers: usize, shape: AttentionShape, capacity: usize) -> u64 {
        (2 * layers * capacity * shape.kv_width() * size_of::<u16>()) as u64
    }

    /// Keys and values of a layer.
    pub(crate) fn layer(&self, layer: usize) -> (&[u16], &[u16]) {
        (&self.keys[layer], &self.values[layer])
    }

    /// Keys and values of some tokens as bits of half precision, `[tokens, kv_width]` each: keys of the first layer,
    /// its values, keys of the second one, and so on.
    ///
    /// # Panics
    /// When there are fewer places: the caller's bug.
    pub fn rows(&self, tokens: Range<usize>) -> Vec<&[u16]> {
        let width = self.shape.kv_width();
        let places = tokens.start * width..tokens.end * width;
        let layers = self.keys.iter().zip(&self.values);
        layers.flat_map(|(keys, values)| [&keys[places.clone()], &values[places.clone()]]).collect()
    }

    /// As [`rows`](Self::rows), to be filled with what that gave for the same tokens after the same tokens.
    ///
    /// # Panics
    /// As there.
    pub fn rows_mut(&mut self, tokens: Range<usize>) -> Vec<&mut [u16]> {
        let width = self.shape.kv_width();
        let places = tokens.start * width..tokens.end * width;
        let layers = self.keys.iter_mut().zip(&mut self.values);
        layers
            .flat_map(|(keys, values)| [&mut keys[places.clone()], &mut values[places.clone()]])
            .collect()
    }

    /// Takes keys and values of the tokens from `first` on out of rows `[tokens, qkv_width]`.
    pub(crate) fn store(&mut self, layer: usize, first: usize, qkv: &[f32]) {
        let (width, kv_width) = (self.shape.width(), self.shape.kv_width());
        let places = first * kv_width..;
        let keys = self.keys[layer][places.clone()].chunks_exact_mut(kv_width);
        let values = self.values[layer][places].chunks_exact_mut(kv_width);
        for ((row, keys), values) in qkv.chunks_exact(self.shape.qkv_width()).zip(keys).zip(values)
        {
            narrow_f16(&row[width..][..kv_width], keys);
            narrow_f16(&row[width + kv_width..][..kv_width], values);
        }
    }
}
