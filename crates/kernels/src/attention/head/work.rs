//! What the loop over queries and keys asks of its operands: one loop serves a ragged batch, heads that lie as bf16,
//! and a cache of keys and values.

use std::ops::Range;

use crate::{
    Precision,
    attention::{AttentionShape, DistanceBias},
};

/// The operands of attention: rows of f32, or lanes of two bf16.
pub(in crate::attention) trait Work: Sync {
    /// Whether [`lanes`](Self::lanes) gives everything.
    const LANES: bool = false;

    /// Whether what a query gets depends on nothing but its place: blocks of keys begin at multiples of
    /// [`KEYS`](super::KEYS), and tiles are whole.
    const ALIGNED: bool = false;

    /// Sizes.
    fn shape(&self) -> AttentionShape;

    /// Numbers that are multiplied.
    fn precision(&self) -> Precision;

    /// Factor of the products of queries and keys.
    fn scale(&self) -> f32;

    /// The largest magnitude of a score, which tanh bends them to.
    fn softcap(&self) -> Option<f32>;

    /// What distances add to the scores; then every query sees all keys of its sequence, and no others.
    fn bias(&self) -> Option<DistanceBias<'_>> {
        None
    }

    /// Chunk `chunk` of up to `step` queries of a sequence.
    fn places(&self, sequence: usize, chunk: usize, step: usize) -> Places;

    /// Keys that the query at a place of its sequence sees.
    fn seen(&self, place: usize, length: usize) -> (usize, usize);

    /// A row of queries' head, in f32; asked for only where there are no [`lanes`](Self::lanes).
    fn query(&self, _row: usize, _head: usize) -> &[f32] {
        unreachable!("lanes are read instead of rows")
    }

    /// The rows of a head from a token on, where they lie one after the other as lanes of bf16.
    fn lanes(&self, _head: Head, _token: usize) -> Option<&[f32]> {
        None
    }

    /// Asks for what a token's row holds of the heads that share `kv_head`, which will be read soon.
    fn ahead(&self, _row: usize, _kv_head: usize) {}

    /// Key `key` of the sequence that starts at `start`, or its values, in f32, asked for only where there are no
    /// lanes; `wide` has room for it.
    fn row<'a>(
        &'a self,
        _start: usize,
        _kv_head: usize,
        _key: usize,
        _values: bool,
        _wide: &'a mut [f32],
    ) -> &'a [f32] {
        unreachable!("lanes are read instead of rows")
    }
}

/// Heads of queries, of keys and of values.
#[derive(Debug, Clone, Copy)]
pub(in crate::attention) enum Head {
    Query(usize),
    Key(usize),
    Value(usize),
}

/// Neighboring queries of a sequence.
#[derive(Debug, Clone)]
pub(in crate::attention) struct Places {
    /// Their places in the sequence.
    pub(in crate::attention) places: Range<usize>,
    /// The row of the first in the queries and the output.
    pub(in crate::attention) first_row: usize,
    /// Where the sequence starts, and its length.
    pub(in crate::attention) start: usize,
    pub(in crate::attention) length: usize,
}

impl Places {
    /// Chunk number `chunk` of `step` tokens of a sequence whose every token asks.
    pub(in crate::attention) fn all(sequence: Range<usize>, chunk: usize, step: usize) -> Places {
        let length = sequence.len();
        let from = (chunk * step).min(length);
        Places {
            places: from..length.min(from + step),
            first_row: sequence.start + from,
            start: sequence.start,
            length,
        }
    }
}
