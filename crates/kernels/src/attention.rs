//! Attention over a ragged batch: sequences of different lengths, no padding, behind a shared prefix if there
//! is one. Scores live for a tile of queries and a block of keys only (online softmax: Milakov & Gimelshein 2018;
//! blocks as in FlashAttention, Dao et al. 2022, algorithm 1).

mod bias;
mod by_head;
mod cached;
mod disentangled;
mod few;
mod head;
mod ragged;
mod single;
mod softmax;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use crate::Precision;

#[cfg(target_arch = "x86_64")]
pub(crate) use few::HalfRows;

pub use bias::DistanceBias;
pub use by_head::{HeadAttention, attention_by_head, is_best_by_head};
pub use cached::{CachedAttention, cached_attention, cached_attention_scratch_len};
pub use disentangled::{Disentangled, Distances, disentangled_attention, disentangled_scratch_len};

/// Sizes of an attention layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttentionShape {
    /// Heads of the queries.
    pub heads: usize,
    /// Heads of keys and values; each serves `heads / kv_heads` neighboring heads (Ainslie et al. 2023).
    pub kv_heads: usize,
    /// Elements per head.
    pub head_dim: usize,
}

impl AttentionShape {
    /// Elements per token of queries and of the output: `heads × head_dim`.
    pub fn width(self) -> usize {
        self.heads * self.head_dim
    }

    /// Elements per token of keys, and of values: `kv_heads × head_dim`.
    pub fn kv_width(self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Elements per token of queries, keys and values together.
    pub fn qkv_width(self) -> usize {
        self.width() + 2 * self.kv_width()
    }

    /// Heads that share their keys.
    pub(crate) fn group(self) -> usize {
        self.heads / self.kv_heads.max(1)
    }
}

/// Which keys a query sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mask {
    /// All of its sequence: encoders.
    Full,
    /// Itself and those before it: decoders.
    Causal,
    /// Keys at most this many places away, on both sides: ModernBERT's local layers.
    Window(usize),
}

/// Tokens whose queries are computed. Of the last layer only those that the head reads are needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Queries {
    /// All of them: a row of queries and of the output for each token.
    #[default]
    All,
    /// The first of each sequence: a row for each sequence.
    First,
    /// The last of each sequence: a row for each sequence.
    Last,
}

/// Some columns of a buffer of rows.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// The buffer.
    pub data: &'a [f32],
    /// Elements from one row to the next.
    pub stride: usize,
    /// First column.
    pub offset: usize,
}

impl<'a> Rows<'a> {
    /// `count` elements of a row from its column `column` on.
    #[inline(always)]
    pub(crate) fn part(&self, row: usize, column: usize, count: usize) -> &'a [f32] {
        &self.data[row * self.stride + self.offset + column..][..count]
    }

    /// Whether there are `rows` rows of `columns` columns.
    fn holds(&self, rows: usize, columns: usize) -> bool {
        let fits = self.offset + columns <= self.stride;
        fits && (rows == 0 || self.data.len() >= (rows - 1) * self.stride + self.offset + columns)
    }
}

/// What [`attention`] works on.
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a> {
    /// Queries, `shape.width()` columns; a row for each token or sequence, see [`Queries`].
    pub queries: Rows<'a>,
    /// Keys, then values, `2 · shape.kv_width()` columns; a row for each token.
    pub keys_values: Rows<'a>,
    /// Cumulative token counts `[sequences + 1]`, from 0.
    pub cu_seqlens: &'a [usize],
    /// Sizes.
    pub shape: AttentionShape,
    /// Which keys each query sees.
    pub mask: Mask,
    /// Which tokens have a query.
    pub wanted: Queries,
    /// Queries, keys and values `[prefix tokens, shape.qkv_width()]` of tokens that stand before every
    /// sequence, or nothing. Every token sees them; they need the causal mask, which is what makes them
    /// equal for all sequences.
    pub prefix: &'a [f32],
    /// What distances add to the scores, if they do; with the full mask and without a prefix.
    pub bias: Option<DistanceBias<'a>>,
    /// Numbers that are multiplied; softmax is f32 in any case.
    pub precision: Precision,
}

impl<'a> Attention<'a> {
    /// All queries of a buffer `[tokens, shape.qkv_width()]` of queries, keys and values, in f32, whatever their
    /// distances are.
    pub fn fused(
        qkv: &'a [f32],
        cu_seqlens: &'a [usize],
        shape: AttentionShape,
        mask: Mask,
    ) -> Self {
        let stride = shape.qkv_width();
        Attention {
            queries: Rows { data: qkv, stride, offset: 0 },
            keys_values: Rows { data: qkv, stride, offset: shape.width() },
            cu_seqlens,
            shape,
            mask,
            wanted: Queries::All,
            prefix: &[],
            bias: None,
            precision: Precision::F32,
        }
    }

    fn shared(&self) -> usize {
        self.prefix.len() / self.shape.qkv_width()
    }

    fn check(&self, out: &[f32]) {
        let Attention { queries, keys_values, cu_seqlens, shape, mask, wanted, prefix, .. } = *self;
        let tokens = cu_seqlens.last().copied().unwrap_or(0);
        let rows = match wanted {
            Queries::All => tokens,
            Queries::First | Queries::Last => cu_seqlens.len().saturating_sub(1),
        };
        assert!(queries.holds(rows, shape.width()), "queries are not {rows} × {}", shape.width());
        assert!(keys_values.holds(tokens, 2 * shape.kv_width()), "keys are not {tokens} rows");
        assert!(out.len() >= rows * shape.width(), "out is not {rows} × {}", shape.width());
        assert!(cu_seqlens.windows(2).all(|it| it[0] <= it[1]), "cu_seqlens does not grow");
        assert!(shape.heads.is_multiple_of(shape.kv_heads), "heads do not share keys evenly");
        assert!(prefix.len().is_multiple_of(shape.qkv_width()), "the prefix holds no whole rows");
        let causal = mask == Mask::Causal;
        assert!(prefix.is_empty() || causal, "only causal attention shares a prefix");
        if let Some(bias) = self.bias {
            assert!(mask == Mask::Full, "distances count where all keys are seen");
            assert!(bias.serves(shape.heads, longest(cu_seqlens)), "a distance has no number");
        }
    }
}

/// Tokens of the longest sequence.
fn longest(cu_seqlens: &[usize]) -> usize {
    cu_seqlens.windows(2).map(|it| it[1] - it[0]).max().unwrap_or(0)
}

/// Elements of scratch that [`attention`] needs on `threads` threads for sequences of up to `longest`
/// tokens, a shared prefix included.
pub fn attention_scratch_len(shape: AttentionShape, longest: usize, threads: usize) -> usize {
    share_len(shape, longest) * threads
}

/// Elements of a thread's scratch.
fn share_len(shape: AttentionShape, longest: usize) -> usize {
    let tiles = head::Layout::new(shape, longest, longest, false);
    tiles.len().max(single::scratch_len(shape))
}

/// softmax(q · kᵀ / √d + bias) · v for every sequence and head. Of one query per sequence, arithmetic is f32 in any
/// case.
///
/// Shapes: `out` has `shape.width()` columns and as many rows as there are queries; `scratch` of
/// [`attention_scratch_len`] elements; the number of threads used is what the scratch has room for. Rows of a
/// sequence without tokens stay as they were.
///
/// # Panics
/// When a slice does not have the shape: the caller's bug.
pub fn attention(work: Attention<'_>, out: &mut [f32], scratch: &mut [f32]) {
    work.check(out);
    let longest = longest(work.cu_seqlens);
    if longest == 0 {
        return;
    }
    let sequences = work.cu_seqlens.len() - 1;
    if work.wanted != Queries::All {
        let share = share_len(work.shape, longest + work.shared());
        assert!(scratch.len() >= share, "scratch is smaller than one thread's {share}");
        let next = AtomicUsize::new(0);
        let width = work.shape.width();
        let out = SharedOut(out.as_mut_ptr());
        scratch.par_chunks_exact_mut(share).for_each(|scratch| {
            loop {
                let sequence = next.fetch_add(1, Ordering::Relaxed);
                if sequence >= sequences {
                    break;
                }
                // SAFETY: `check` found a row for each sequence, and each is taken once.
                let out = unsafe { out.row(sequence, width) };
                single::run(&work, sequence, scratch, out);
            }
        });
        return;
    }
    run_tiles(&work, sequences, longest, work.shared(), out, scratch);
}

/// Everything, in tiles of queries and blocks of keys; sequences have up to `longest` tokens behind `shared` ones.
fn run_tiles<W: head::Work>(
    work: &W,
    sequences: usize,
    longest: usize,
    shared: usize,
    out: &mut [f32],
    scratch: &mut [f32],
) {
    let all = longest + shared;
    let share = share_len(work.shape(), all);
    assert!(scratch.len() >= share, "scratch is smaller than one thread's {share}");
    let layout = head::Layout::new(work.shape(), all, all, false);
    let chunks = longest.div_ceil(layout.chunk);
    let kv_heads = work.shape().kv_heads;
    let tasks = sequences * kv_heads * chunks;
    let task = |number: usize| {
        let (sequence, rest) = (number / (kv_heads * chunks), number % (kv_heads * chunks));
        (number < tasks).then_some(Task { sequence, kv_head: rest / chunks, chunk: rest % chunks })
    };
    let threads = scratch.len() / share;
    let out = SharedOut(out.as_mut_ptr());
    let next = AtomicUsize::new(0);
    scratch.par_chunks_exact_mut(share).for_each(|scratch| {
        let mut run = head::Run::new(work, layout, scratch);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(this) = task(number) else { break };
            // Tasks take about as long, so that the threads take turns.
            run.chunk(this, task(number + threads), out);
        }
    });
}

/// The part of the work that is done at a time.
#[derive(Debug, Clone, Copy)]
struct Task {
    sequence: usize,
    kv_head: usize,
    /// Of the sequence's queries.
    chunk: usize,
}

/// Asks for what will be read: a head's rows lie far apart, where no prefetcher of the processor looks.
fn prefetch<T>(values: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for line in values.chunks((64 / size_of::<T>()).max(1)) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program sees, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = values;
}

/// The output's pointer, shared by tasks that write disjoint parts of it.
#[derive(Clone, Copy)]
struct SharedOut(*mut f32);

impl SharedOut {
    /// Row `row` of rows of `width`.
    ///
    /// # Safety
    /// It is there, and nobody else uses it.
    unsafe fn row<'a>(self, row: usize, width: usize) -> &'a mut [f32] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(row * width), width) }
    }

    /// `count` elements from `first` on.
    ///
    /// # Safety
    /// They are there, and nobody else uses them.
    unsafe fn part<'a>(self, first: usize, count: usize) -> &'a mut [f32] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(first), count) }
    }
}

// SAFETY: each task (sequence, heads that share keys, chunk of queries) is taken once and writes only the rows
// of its queries and the columns of its heads; no two tasks overlap, and nobody reads before all have ended.
unsafe impl Send for SharedOut {}
// SAFETY: as above.
unsafe impl Sync for SharedOut {}
