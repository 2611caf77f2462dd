//! A ragged batch as the tiles of attention read it.

use super::{
    Attention, AttentionShape, DistanceBias, Mask, Queries,
    head::{Places, Work},
    prefetch,
};
use crate::Precision;

impl Work for Attention<'_> {
    fn shape(&self) -> AttentionShape {
        self.shape
    }

    fn precision(&self) -> Precision {
        self.precision
    }

    fn scale(&self) -> f32 {
        1.0 / (self.shape.head_dim as f32).sqrt()
    }

    fn softcap(&self) -> Option<f32> {
        None
    }

    fn bias(&self) -> Option<DistanceBias<'_>> {
        self.bias
    }

    fn places(&self, sequence: usize, chunk: usize, step: usize) -> Places {
        let (start, end) = (self.cu_seqlens[sequence], self.cu_seqlens[sequence + 1]);
        let length = end - start;
        let places = match self.wanted {
            Queries::All => return Places::all(start..end, chunk, step),
            Queries::First => 0..length.min(1),
            Queries::Last => length.saturating_sub(1)..length,
        };
        Places { places, first_row: sequence, start, length }
    }

    /// The prefix stands before the sequence's own keys.
    fn seen(&self, place: usize, length: usize) -> (usize, usize) {
        let shared = self.shared();
        let (all, place) = (shared + length, shared + place);
        match self.mask {
            Mask::Full => (0, all),
            Mask::Causal => (0, place + 1),
            Mask::Window(reach) => (
                place.saturating_sub(reach),
                place.saturating_add(reach).saturating_add(1).min(all),
            ),
        }
    }

    fn query(&self, row: usize, head: usize) -> &[f32] {
        let dim = self.shape.head_dim;
        self.queries.part(row, head * dim, dim)
    }

    fn ahead(&self, row: usize, kv_head: usize) {
        let AttentionShape { kv_heads, head_dim, .. } = self.shape;
        let own = self.shape.group() * head_dim;
        prefetch(self.queries.part(row, kv_head * own, own));
        for column in [kv_head, kv_heads + kv_head] {
            prefetch(self.keys_values.part(row, column * head_dim, head_dim));
        }
    }

    fn row<'a>(
        &'a self,
        start: usize,
        kv_head: usize,
        key: usize,
        values: bool,
        _wide: &'a mut [f32],
    ) -> &'a [f32] {
        let (shape, shared) = (self.shape, self.shared());
        let dim = shape.head_dim;
        let column = kv_head * dim + if values { shape.kv_width() } else { 0 };
        if key < shared {
            &self.prefix[key * shape.qkv_width() + shape.width() + column..][..dim]
        } else {
            self.keys_values.part(start + key - shared, column, dim)
        }
    }
}
