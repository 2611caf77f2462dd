//! Attention over a ragged batch: sequences of different lengths, no padding, behind a shared prefix if there
//! is one.

use std::{
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
};

use gemm::Parallelism;
use rayon::prelude::*;

use crate::{dispatch::multiversion, elementwise::exp, norm::lane_fold};

/// Query rows computed at a time: their scores against 512 keys are 128 KiB, which stays in a core's L2
/// beside the keys and values. Half as many cost 10 % more time (the products get too flat), twice as
/// many gain 5 % and would double the scratch.
const BLOCK_ROWS: usize = 64;

/// Sizes of an attention layer. A row of queries, keys and values is
/// `heads · head_dim | kv_heads · head_dim | kv_heads · head_dim`.
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
}

/// Which keys a query sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mask {
    /// All of its sequence: encoders.
    Full,
    /// Itself and those before it: decoders.
    Causal,
    /// Those at most so many places away, on both sides: ModernBERT's local layers.
    Window(usize),
}

/// Elements of scratch that [`attention`] needs on `threads` threads for sequences of up to `longest`
/// tokens, a shared prefix included.
pub fn attention_scratch_len(longest: usize, threads: usize) -> usize {
    BLOCK_ROWS * longest * threads
}

/// What [`attention`] works on.
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a> {
    /// Queries, keys and values `[tokens, shape.qkv_width()]`.
    pub qkv: &'a [f32],
    /// Cumulative token counts `[sequences + 1]`, from 0.
    pub cu_seqlens: &'a [usize],
    /// Sizes.
    pub shape: AttentionShape,
    /// Who sees whom.
    pub mask: Mask,
    /// Queries, keys and values `[prefix tokens, shape.qkv_width()]` of tokens that stand before every
    /// sequence, or nothing. Every token sees them; they need the causal mask, which is what makes them
    /// equal for all sequences.
    pub prefix: &'a [f32],
}

/// softmax(q · kᵀ / √d) · v for every sequence and head.
///
/// Shapes: `out` `[tokens, shape.width()]`, `scratch` of [`attention_scratch_len`] elements; the number of
/// threads used is what the scratch has room for.
///
/// # Panics
/// When a slice does not have the shape: the caller's bug.
pub fn attention(work: Attention<'_>, out: &mut [f32], scratch: &mut [f32]) {
    let Attention { qkv, cu_seqlens, shape, mask, prefix } = work;
    let stride = shape.qkv_width();
    let tokens = cu_seqlens.last().copied().unwrap_or(0);
    let longest = cu_seqlens.windows(2).map(|it| it[1] - it[0]).max().unwrap_or(0);
    assert!(qkv.len() >= tokens * stride, "qkv is not {tokens} × {stride}");
    assert!(out.len() >= tokens * shape.width(), "out is not {tokens} × {}", shape.width());
    assert!(cu_seqlens.windows(2).all(|it| it[0] <= it[1]), "cu_seqlens does not grow");
    assert!(shape.heads.is_multiple_of(shape.kv_heads), "heads do not share keys evenly");
    assert!(prefix.len().is_multiple_of(stride), "the prefix holds no whole rows");
    assert!(prefix.is_empty() || mask == Mask::Causal, "only causal attention shares a prefix");
    if tokens == 0 {
        return;
    }
    let per_thread = attention_scratch_len(longest + prefix.len() / stride, 1);
    assert!(scratch.len() >= per_thread, "scratch is smaller than one thread's {per_thread}");
    let sequences = cu_seqlens.len() - 1;
    let tasks = sequences * shape.heads;
    let next = AtomicUsize::new(0);
    let out = SharedOut(out.as_mut_ptr());
    scratch.par_chunks_exact_mut(per_thread).for_each(|scores| {
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                break;
            }
            let (sequence, head) = (task / shape.heads, task % shape.heads);
            let rows = cu_seqlens[sequence]..cu_seqlens[sequence + 1];
            one_head(&work, rows, head, out, scores);
        }
    });
}

/// The output's pointer, shared by tasks that write disjoint parts of it.
#[derive(Clone, Copy)]
struct SharedOut(*mut f32);

// SAFETY: each task (sequence, head) is taken once and writes only the rows of its sequence and the
// columns of its head; no two tasks overlap, and nobody reads before all have ended.
unsafe impl Send for SharedOut {}
// SAFETY: as above.
unsafe impl Sync for SharedOut {}

// Long: the places of three matrices and what is safe about them belong together.
/// One head of one sequence, block of queries by block of queries.
fn one_head(
    work: &Attention<'_>,
    rows: Range<usize>,
    head: usize,
    out: SharedOut,
    scores: &mut [f32],
) {
    let Attention { qkv, shape, mask, prefix, .. } = *work;
    let (width, dim, stride) = (shape.width(), shape.head_dim, shape.qkv_width());
    let kv_head = head / (shape.heads / shape.kv_heads);
    let (query, key) = (head * dim, width + kv_head * dim);
    let value = key + shape.kv_width();
    let shared = prefix.len() / stride;
    let scale = 1.0 / (dim as f32).sqrt();
    let length = rows.len();
    for block in (0..length).step_by(BLOCK_ROWS) {
        let count = BLOCK_ROWS.min(length - block);
        // Keys that any query of the block sees.
        let seen = match mask {
            Mask::Full => 0..length,
            Mask::Causal => 0..block + count,
            Mask::Window(reach) => {
                block.saturating_sub(reach)..(block + count).saturating_add(reach).min(length)
            }
        };
        let keys = shared + seen.len();
        let scores = &mut scores[..count * keys];
        // SAFETY: query rows `rows.start + block ..+ count` and key rows `rows.start + seen` are rows of
        // `qkv` (checked against cu_seqlens' last entry by the caller), prefix rows 0..shared of `prefix`;
        // all columns lie inside a row of `stride`; `scores` holds count × keys; the output rows and
        // columns belong to this task alone (see SharedOut).
        unsafe {
            let own = qkv.as_ptr().add((rows.start + seen.start) * stride);
            let q = qkv.as_ptr().add((rows.start + block) * stride + query);
            let s = scores.as_mut_ptr();
            if shared > 0 {
                similarities(
                    s,
                    keys,
                    q,
                    prefix.as_ptr().add(key),
                    count,
                    shared,
                    dim,
                    stride,
                    scale,
                );
            }
            similarities(
                s.add(shared),
                keys,
                q,
                own.add(key),
                count,
                seen.len(),
                dim,
                stride,
                scale,
            );
            softmax_rows(scores, keys, Band::of(mask, block, &seen, shared));
            let o = out.0.add((rows.start + block) * width + query);
            let s = scores.as_ptr();
            if shared > 0 {
                weighted(
                    o,
                    width,
                    s,
                    keys,
                    prefix.as_ptr().add(value),
                    count,
                    shared,
                    dim,
                    stride,
                    false,
                );
            }
            let s = s.add(shared);
            weighted(o, width, s, keys, own.add(value), count, seen.len(), dim, stride, shared > 0);
        }
    }
}

/// `scores = scale · q · kᵀ`, rows of `scores` `keys` apart, rows of `q` and `k` `stride` apart.
///
/// # Safety
/// `q` points to `count` rows, `k` to `seen` rows, of `dim` elements each; `scores` to `count` rows of `seen`.
unsafe fn similarities(
    scores: *mut f32,
    keys: usize,
    q: *const f32,
    k: *const f32,
    count: usize,
    seen: usize,
    dim: usize,
    stride: usize,
    scale: f32,
) {
    let (keys, stride) = (keys as isize, stride as isize);
    // SAFETY: the caller's promise is what the strides reach.
    unsafe {
        gemm::gemm(
            count,
            seen,
            dim,
            scores,
            1,
            keys,
            false,
            q,
            1,
            stride,
            k,
            stride,
            1,
            0.0,
            scale,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

/// `out = scores · v`, or `out += …` with `add`.
///
/// # Safety
/// `scores` points to `count` rows of `seen`, `keys` apart; `v` to `seen` rows of `dim`, `stride` apart;
/// `out` to `count` rows of `dim`, `width` apart, that nobody else uses.
unsafe fn weighted(
    out: *mut f32,
    width: usize,
    scores: *const f32,
    keys: usize,
    v: *const f32,
    count: usize,
    seen: usize,
    dim: usize,
    stride: usize,
    add: bool,
) {
    let (width, keys, stride) = (width as isize, keys as isize, stride as isize);
    // SAFETY: the caller's promise is what the strides reach.
    unsafe {
        gemm::gemm(
            count,
            dim,
            seen,
            out,
            1,
            width,
            add,
            scores,
            1,
            keys,
            v,
            1,
            stride,
            1.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

/// Which columns of a block of scores its rows see: row r from `from + r · from_step` to `to + r · to_step`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Band {
    from: isize,
    to: isize,
    from_step: isize,
    to_step: isize,
}

impl Band {
    /// The band of the block of queries from `block` on, whose columns are the prefix and the keys `seen`.
    fn of(mask: Mask, block: usize, seen: &Range<usize>, shared: usize) -> Band {
        let all = (shared + seen.len()) as isize;
        // Places in a sequence are far below isize's limits: they are indexes of memory.
        let first = block as isize - seen.start as isize + shared as isize;
        match mask {
            Mask::Full => Band { from: 0, to: all, from_step: 0, to_step: 0 },
            Mask::Causal => Band { from: 0, to: first + 1, from_step: 0, to_step: 1 },
            Mask::Window(reach) => {
                let reach = isize::try_from(reach).unwrap_or(isize::MAX / 2);
                Band { from: first - reach, to: first + reach + 1, from_step: 1, to_step: 1 }
            }
        }
    }
}

multiversion! {
    /// Softmax of every row of `values` `[rows, width]` over the columns that it sees, in place; zero elsewhere.
    fn softmax_rows(values: &mut [f32], width: usize, band: Band) {
        for (number, row) in values.chunks_exact_mut(width).enumerate() {
            let number = number as isize;
            let from = (band.from + number * band.from_step).clamp(0, width as isize) as usize;
            let to = (band.to + number * band.to_step).clamp(from as isize, width as isize) as usize;
            row[..from].fill(0.0);
            row[to..].fill(0.0);
            let row = &mut row[from..to];
            let larger = |top: f32, it| if it > top { it } else { top };
            let top = lane_fold(row, f32::NEG_INFINITY, |it| it, larger);
            for value in row.iter_mut() {
                *value = exp(*value - top);
            }
            let scale = 1.0 / lane_fold(row, 0.0, |it| it, |sum, it| sum + it);
            for value in row.iter_mut() {
                *value *= scale;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn naive(work: &Attention<'_>) -> Vec<f32> {
        let Attention { qkv, cu_seqlens, shape, mask, prefix } = *work;
        let (dim, stride) = (shape.head_dim, shape.qkv_width());
        let shared = prefix.len() / stride;
        let mut out = Vec::new();
        for sequence in cu_seqlens.windows(2) {
            let rows: Vec<&[f32]> = prefix
                .chunks(stride)
                .chain(qkv[sequence[0] * stride..sequence[1] * stride].chunks(stride))
                .collect();
            for place in shared..rows.len() {
                for column in 0..shape.width() {
                    let head = column / dim;
                    let key = shape.width() + head / (shape.heads / shape.kv_heads) * dim;
                    let value = key + shape.kv_width() + column % dim;
                    let seen: Vec<&&[f32]> = rows
                        .iter()
                        .enumerate()
                        .filter(|&(other, _)| match mask {
                            Mask::Full => true,
                            Mask::Causal => other <= place,
                            Mask::Window(reach) => other.abs_diff(place) <= reach,
                        })
                        .map(|it| it.1)
                        .collect();
                    let weight = |row: &[f32]| -> f32 {
                        let product: f32 =
                            (0..dim).map(|i| rows[place][head * dim + i] * row[key + i]).sum();
                        (product / (dim as f32).sqrt()).exp()
                    };
                    let total: f32 = seen.iter().map(|it| weight(it)).sum();
                    out.push(seen.iter().map(|it| weight(it) * it[value]).sum::<f32>() / total);
                }
            }
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn equals_the_definition_on_ragged_batches(
            lengths in prop::collection::vec(0usize..90, 1..5),
            seed in prop::collection::vec(-1f32..1.0, 97),
            threads in 1usize..3,
            kv_heads in prop::sample::select(vec![1usize, 2, 4]),
            mask in prop::sample::select(vec![Mask::Full, Mask::Causal, Mask::Window(0), Mask::Window(9), Mask::Window(usize::MAX)]),
            shared in prop::sample::select(vec![0usize, 1, 7]),
        ) {
            let shape = AttentionShape { heads: 4, kv_heads, head_dim: 4 };
            let mut cu_seqlens = vec![0];
            for length in &lengths {
                cu_seqlens.push(cu_seqlens[cu_seqlens.len() - 1] + length);
            }
            let tokens = cu_seqlens[lengths.len()];
            let stride = shape.qkv_width();
            let fill = |n: usize, step: usize| -> Vec<f32> { (0..n).map(|i| seed[(i * step + i / 7) % 97] * 2.0).collect() };
            let qkv = fill(tokens * stride, 31);
            let prefix = if mask == Mask::Causal { fill(shared * stride, 17) } else { Vec::new() };
            let longest = lengths.iter().copied().max().unwrap_or(0) + prefix.len() / stride;
            let mut scratch = vec![f32::NAN; attention_scratch_len(longest, threads)];
            let mut out = vec![f32::NAN; tokens * shape.width()];
            let work = Attention { qkv: &qkv, cu_seqlens: &cu_seqlens, shape, mask, prefix: &prefix };
            attention(work, &mut out, &mut scratch);
            for (a, b) in out.iter().zip(naive(&work)) {
                prop_assert!((a - b).abs() < 1e-4, "{a} {b}");
            }
        }
    }

    const ALL: Band = Band { from: 0, to: isize::MAX / 2, from_step: 0, to_step: 0 };

    #[test]
    fn every_version_agrees_to_the_last_bit() {
        let width = 53;
        let scores: Vec<f32> = (0..4 * width).map(|i| ((i * 31) % 97) as f32 / 9.0).collect();
        for band in [ALL, Band { from: -2, to: 30, from_step: 1, to_step: 1 }] {
            let results: Vec<Vec<f32>> = softmax_rows::versions()
                .into_iter()
                .map(|version| {
                    let mut scores = scores.clone();
                    version(&mut scores, width, band);
                    scores
                })
                .collect();
            assert!(results.iter().all(|it| *it == results[0]));
        }
    }

    #[test]
    fn a_score_that_is_not_a_number_stays_one() {
        let mut row = [0.5, f32::NAN, 1.0];
        softmax_rows(&mut row, 3, ALL);
        assert!(row.iter().all(|it| it.is_nan()), "{row:?}");
    }

    #[test]
    fn large_scores_do_not_overflow() {
        let mut row = [1000.0, 999.0, -1000.0];
        softmax_rows(&mut row, 3, ALL);
        assert!(
            (row[0] - 0.731_058_6).abs() < 1e-5
                && row[2] < 1e-30
                && row.iter().all(|it| it.is_finite())
        );
    }
}
