//! What later tokens need of the tokens that were read already: keys and values of layers with attention, and what
//! layers with a convolution mix.

use std::ops::Range;

use riddle_kernels::{AttentionShape, narrow_f16};
use riddle_weights::LanguageConfig;

/// Rows of all layers in half precision, for one sequence: keys and values `[capacity, kv_width]` of a layer with
/// attention, products `b · x` `[capacity, hidden_size]` of one with a convolution.
///
/// A convolution looks at the last few rows alone. All are kept nevertheless, so that a prompt may go on after any
/// token that it shares with the one before, and a guess of several tokens may be taken back.
#[derive(Debug)]
pub struct KvCache {
    layers: Vec<[Rows; 2]>,
    capacity: usize,
}

/// Rows of one kind; of width 0 where a layer has none.
#[derive(Debug)]
struct Rows {
    data: Vec<u16>,
    width: usize,
}

/// Widths of a layer's rows.
fn widths(config: &LanguageConfig, layer: usize) -> [usize; 2] {
    let keys = config.num_key_value_heads * config.head_dim;
    if config.is_convolution(layer) { [config.hidden_size, 0] } else { [keys, keys] }
}

impl KvCache {
    /// A cache for `capacity` tokens.
    pub(crate) fn new(config: &LanguageConfig, capacity: usize) -> KvCache {
        let rows = |width| Rows { data: vec![0; capacity * width], width };
        let layers = 0..config.num_hidden_layers;
        KvCache { layers: layers.map(|it| widths(config, it).map(rows)).collect(), capacity }
    }

    /// Tokens that fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes of a cache of `capacity` tokens.
    pub(crate) fn bytes(config: &LanguageConfig, capacity: usize) -> u64 {
        let numbers: usize = (0..config.num_hidden_layers).flat_map(|it| widths(config, it)).sum();
        (capacity * numbers * size_of::<u16>()) as u64
    }

    /// Keys and values of a layer; what a convolution mixes, and nothing.
    pub(crate) fn layer(&self, layer: usize) -> (&[u16], &[u16]) {
        let [keys, values] = &self.layers[layer];
        (&keys.data, &values.data)
    }

    /// Rows of some tokens as bits of half precision, `[tokens, width]` each: keys of the first layer, its values, keys
    /// of the second one, and so on; of a layer with a convolution the one kind that it has.
    ///
    /// # Panics
    /// When there are fewer places: the caller's bug.
    pub fn rows(&self, tokens: Range<usize>) -> Vec<&[u16]> {
        let all = self.layers.iter().flatten().filter(|it| it.width > 0);
        all.map(|it| &it.data[tokens.start * it.width..tokens.end * it.width]).collect()
    }

    /// As [`rows`](Self::rows), to be filled with what that gave for the same tokens after the same tokens.
    ///
    /// # Panics
    /// As there.
    pub fn rows_mut(&mut self, tokens: Range<usize>) -> Vec<&mut [u16]> {
        let all = self.layers.iter_mut().flatten().filter(|it| it.width > 0);
        all.map(|it| &mut it.data[tokens.start * it.width..tokens.end * it.width]).collect()
    }

    /// Takes keys and values of the tokens from `first` on out of rows `[tokens, qkv_width]`.
    pub(crate) fn store(&mut self, layer: usize, first: usize, shape: AttentionShape, qkv: &[f32]) {
        let (width, kv_width) = (shape.width(), shape.kv_width());
        let [keys, values] =
            self.layers[layer].each_mut().map(|it| &mut it.data[first * kv_width..]);
        let places = keys.chunks_exact_mut(kv_width).zip(values.chunks_exact_mut(kv_width));
        for (row, (keys, values)) in qkv.chunks_exact(shape.qkv_width()).zip(places) {
            narrow_f16(&row[width..][..kv_width], keys);
            narrow_f16(&row[width + kv_width..][..kv_width], values);
        }
    }

    /// The row of what a convolution mixes of token `token`.
    pub(crate) fn mixed_mut(&mut self, layer: usize, token: usize) -> &mut [u16] {
        let Rows { data, width } = &mut self.layers[layer][0];
        &mut data[token * *width..][..*width]
    }
}
