//! Causal attention of new tokens over a KV cache of half precision. Many tokens go through tiles as a batch does,
//! a few over the keys where they lie ([`few`](super::few)).

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::{
    AttentionShape, Rows, SharedOut, Task, few,
    head::{Layout, Places, Run, Work},
};
use crate::{MOST_AS_ONE, Precision, Rounding, half_floats::widen_f16};

/// What [`cached_attention`] works on.
#[derive(Debug, Clone, Copy)]
pub struct CachedAttention<'a> {
    /// Queries of neighboring positions, `shape.width()` columns; a row for each token.
    pub queries: Rows<'a>,
    /// Keys `[capacity, shape.kv_width()]` as bits of half precision, of the tokens' own positions too.
    pub keys: &'a [u16],
    /// Values, as the keys.
    pub values: &'a [u16],
    /// Position of the first query. A query sees the keys up to its own position.
    pub first: usize,
    /// Sizes.
    pub shape: AttentionShape,
    /// How many of the last positions a query sees, its own among them; all where there is none.
    pub window: Option<usize>,
    /// Factor of the products of queries and keys.
    pub scale: f32,
    /// c of c · tanh(score / c), where scores are bent so.
    pub softcap: Option<f32>,
    /// Numbers that are multiplied where there are many tokens; with few, and for softmax, it is f32.
    pub precision: Precision,
    /// Whether few tokens are taken as few, and each as if it were alone.
    pub rounding: Rounding,
}

impl CachedAttention<'_> {
    /// Number of tokens, when everything has its shape.
    fn check(&self, out: &[f32]) -> usize {
        let CachedAttention { queries, keys, values, first, shape, .. } = *self;
        let tokens = out.len() / shape.width().max(1);
        assert_eq!(out.len(), tokens * shape.width(), "out is not rows of {}", shape.width());
        assert!(queries.holds(tokens, shape.width()), "queries are not {tokens} rows");
        let needed = (first + tokens) * shape.kv_width();
        assert!(keys.len() >= needed, "keys are not {} rows", first + tokens);
        assert!(values.len() >= needed, "values are not {} rows", first + tokens);
        assert!(shape.heads.is_multiple_of(shape.kv_heads), "heads do not share keys evenly");
        tokens
    }

    /// Keys that the query of a token sees.
    pub(super) fn seen_by(&self, token: usize) -> (usize, usize) {
        let end = self.first + token + 1;
        (self.window.map_or(0, |window| end.saturating_sub(window.max(1))), end)
    }
}

impl Work for CachedAttention<'_> {
    const ALIGNED: bool = true;

    fn shape(&self) -> AttentionShape {
        self.shape
    }

    fn precision(&self) -> Precision {
        self.precision
    }

    fn scale(&self) -> f32 {
        self.scale
    }

    fn softcap(&self) -> Option<f32> {
        self.softcap
    }

    /// The one sequence's length is the number of tokens.
    fn places(&self, sequence: usize, chunk: usize, step: usize) -> Places {
        let from = (chunk * step).min(sequence);
        Places { places: from..sequence.min(from + step), first_row: from, start: 0, length: 0 }
    }

    fn seen(&self, place: usize, _length: usize) -> (usize, usize) {
        self.seen_by(place)
    }

    fn query(&self, row: usize, head: usize) -> &[f32] {
        let dim = self.shape.head_dim;
        self.queries.part(row, head * dim, dim)
    }

    fn row<'a>(
        &'a self,
        _start: usize,
        kv_head: usize,
        key: usize,
        values: bool,
        wide: &'a mut [f32],
    ) -> &'a [f32] {
        let (dim, kv_width) = (self.shape.head_dim, self.shape.kv_width());
        let bits = if values { self.values } else { self.keys };
        let wide = &mut wide[..dim];
        widen_f16(&bits[key * kv_width + kv_head * dim..][..dim], wide);
        wide
    }
}

/// Elements of scratch that [`cached_attention`] needs on `threads` threads for up to `tokens` tokens, the last of
/// them the last of up to `positions` positions.
pub fn cached_attention_scratch_len(
    shape: AttentionShape,
    tokens: usize,
    positions: usize,
    threads: usize,
) -> usize {
    let threads = threads.max(1);
    let few = few::Layout::new(shape, tokens.min(MOST_AS_ONE), positions).len(threads);
    few.max(Layout::aligned(shape, tokens, positions).len() * threads)
}

/// softmax(scale · q · kᵀ) · v for every token and head, over the positions that the token sees.
///
/// Shapes: `out` `[tokens, shape.width()]`, which says how many tokens there are; `scratch` of
/// [`cached_attention_scratch_len`] elements. Runs on the threads of the current pool. What a token gets depends
/// on neither the number of threads nor the other tokens, but for one thing: with [`Rounding::ByCount`] up to four
/// tokens go through another routine than more of them. With [`Rounding::AsOne`] up to [`MOST_AS_ONE`] do.
///
/// # Panics
/// When a slice does not have the shape, or tokens are too many to be taken as one: the caller's bug.
pub fn cached_attention(work: CachedAttention<'_>, out: &mut [f32], scratch: &mut [f32]) {
    let tokens = work.check(out);
    if tokens == 0 {
        return;
    }
    let is_one = work.rounding == Rounding::AsOne;
    assert!(!is_one || tokens <= MOST_AS_ONE, "{tokens} tokens are more than {MOST_AS_ONE}");
    if is_one || (work.rounding == Rounding::ByCount && tokens <= few::MOST_TOKENS) {
        few::run(&work, tokens, out, scratch);
        return;
    }
    let layout = Layout::aligned(work.shape, tokens, work.first + tokens);
    let share = layout.len();
    assert!(scratch.len() >= share, "scratch is smaller than one thread's {share}");
    let chunks = tokens.div_ceil(layout.chunk);
    let tasks = work.shape.kv_heads * chunks;
    let next = AtomicUsize::new(0);
    let out = SharedOut(out.as_mut_ptr());
    let threads = rayon::current_num_threads();
    scratch.par_chunks_exact_mut(share).take(threads).for_each(|scratch| {
        let mut run = Run::new(&work, layout, scratch);
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                break;
            }
            // The last chunks see the most keys: they begin.
            let (kv_head, chunk) = (task % work.shape.kv_heads, task / work.shape.kv_heads);
            let task = Task { sequence: tokens, kv_head, chunk: chunks - 1 - chunk };
            run.chunk(task, None, out);
        }
    });
}
