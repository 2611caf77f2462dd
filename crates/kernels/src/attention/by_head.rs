//! Attention of an encoder over queries, keys and values that lie head by head as pairs of bf16, as
//! [`Finish::Heads`](crate::Finish::Heads) leaves them: what a task reads is one stretch of memory, half as long as in
//! f32, and in the form that tiles multiply.

use super::{
    AttentionShape, DistanceBias, Precision,
    head::{Head, Places, Work},
    longest, prefetch, run_tiles,
};
use crate::{
    isa,
    micro::{Kind, TILE_COLUMNS, micro},
};

/// What [`attention_by_head`] works on.
#[derive(Debug, Clone, Copy)]
pub struct HeadAttention<'a> {
    /// Pairs of bf16 in the bits of f32 `[heads + 2 · kv_heads, tokens, head_dim / 2]`: queries' heads, then keys' and
    /// values'.
    pub data: &'a [f32],
    /// Cumulative token counts `[sequences + 1]`, from 0.
    pub cu_seqlens: &'a [usize],
    /// Sizes.
    pub shape: AttentionShape,
    /// What distances add to the scores, if they do.
    pub bias: Option<DistanceBias<'a>>,
}

/// Whether attention in this precision is faster by head: the heads are whole tiles and the processor multiplies bf16.
pub fn is_best_by_head(shape: AttentionShape, precision: Precision) -> bool {
    precision == Precision::Bf16
        && shape.head_dim > 0
        && shape.head_dim.is_multiple_of(TILE_COLUMNS)
        && micro(Kind::Bf16, isa::current()).is_some()
}

/// softmax(q · kᵀ / √d + bias) · v for every sequence and head, of all tokens, each of which sees all of its sequence.
///
/// Shapes: `out` `[tokens, shape.width()]`; `scratch` as for [`attention`](super::attention).
///
/// # Panics
/// When a slice does not have the shape: the caller's bug.
pub fn attention_by_head(work: HeadAttention<'_>, out: &mut [f32], scratch: &mut [f32]) {
    let HeadAttention { data, cu_seqlens, shape, bias } = work;
    let (tokens, dim) = (work.tokens(), shape.head_dim);
    assert!(dim.is_multiple_of(TILE_COLUMNS), "heads of {dim} are not whole tiles");
    assert!(shape.heads.is_multiple_of(shape.kv_heads), "heads do not share keys evenly");
    assert!(data.len() >= tokens * shape.qkv_width() / 2, "data holds fewer than {tokens} tokens");
    assert!(out.len() >= tokens * shape.width(), "out is not {tokens} × {}", shape.width());
    assert!(cu_seqlens.windows(2).all(|it| it[0] <= it[1]), "cu_seqlens does not grow");
    let longest = longest(cu_seqlens);
    let is_known = bias.is_none_or(|it| it.serves(shape.heads, longest));
    assert!(is_known, "a distance has no number");
    if longest > 0 {
        run_tiles(&work, cu_seqlens.len() - 1, longest, 0, out, scratch);
    }
}

impl HeadAttention<'_> {
    fn tokens(&self) -> usize {
        self.cu_seqlens.last().copied().unwrap_or(0)
    }
}

impl Work for HeadAttention<'_> {
    const LANES: bool = true;

    fn shape(&self) -> AttentionShape {
        self.shape
    }

    fn precision(&self) -> Precision {
        Precision::Bf16
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
        Places::all(self.cu_seqlens[sequence]..self.cu_seqlens[sequence + 1], chunk, step)
    }

    fn seen(&self, _place: usize, length: usize) -> (usize, usize) {
        (0, length)
    }

    fn lanes(&self, head: Head, token: usize) -> Option<&[f32]> {
        let AttentionShape { heads, kv_heads, head_dim } = self.shape;
        let number = match head {
            Head::Query(head) => head,
            Head::Key(head) => heads + head,
            Head::Value(head) => heads + kv_heads + head,
        };
        let (tokens, depth) = (self.tokens(), head_dim / 2);
        Some(&self.data[(number * tokens + token) * depth..(number + 1) * tokens * depth])
    }

    fn ahead(&self, row: usize, kv_head: usize) {
        let depth = self.shape.head_dim / 2;
        let group = self.shape.group();
        let queries = (0..group).map(|it| Head::Query(kv_head * group + it));
        for head in queries.chain([Head::Key(kv_head), Head::Value(kv_head)]) {
            if let Some(rows) = self.lanes(head, row) {
                prefetch(&rows[..depth]);
            }
        }
    }
}
