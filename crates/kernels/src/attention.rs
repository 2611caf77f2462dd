//! Bidirectional attention over a ragged batch: sequences of different lengths, no padding.

use std::sync::atomic::{AtomicUsize, Ordering};

use gemm::Parallelism;
use rayon::prelude::*;

use crate::{dispatch::multiversion, elementwise::exp, norm::lane_fold};

/// Query rows computed at a time: their scores against 512 keys are 128 KiB, which stays in a core's L2
/// beside the keys and values. Half as many cost 10 % more time (the products get too flat), twice as
/// many gain 5 % and would double the scratch.
const BLOCK_ROWS: usize = 64;

/// Sizes of an attention layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttentionShape {
    /// Heads.
    pub heads: usize,
    /// Elements per head.
    pub head_dim: usize,
}

impl AttentionShape {
    /// Elements per token: `heads × head_dim`.
    pub fn width(self) -> usize {
        self.heads * self.head_dim
    }
}

/// Elements of scratch that [`attention`] needs on `threads` threads for sequences of up to `longest` tokens.
pub fn attention_scratch_len(longest: usize, threads: usize) -> usize {
    BLOCK_ROWS * longest * threads
}

/// softmax(q · kᵀ / √d) · v for every sequence and head.
///
/// Shapes: `qkv` `[tokens, 3 · width]` (query | key | value), `cu_seqlens` `[sequences + 1]` cumulative
/// token counts from 0, `out` `[tokens, width]`, `scratch` of [`attention_scratch_len`] elements; the
/// number of threads used is what the scratch has room for.
///
/// # Panics
/// When a slice does not have the shape: the caller's bug.
pub fn attention(
    qkv: &[f32],
    cu_seqlens: &[usize],
    shape: AttentionShape,
    out: &mut [f32],
    scratch: &mut [f32],
) {
    let width = shape.width();
    let tokens = cu_seqlens.last().copied().unwrap_or(0);
    let longest = cu_seqlens.windows(2).map(|it| it[1] - it[0]).max().unwrap_or(0);
    assert!(qkv.len() >= tokens * 3 * width, "qkv is not {tokens} × 3 · {width}");
    assert!(out.len() >= tokens * width, "out is not {tokens} × {width}");
    assert!(cu_seqlens.windows(2).all(|it| it[0] <= it[1]), "cu_seqlens does not grow");
    if tokens == 0 {
        return;
    }
    let per_thread = attention_scratch_len(longest, 1);
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
            one_head(qkv, rows, head, shape, out, scores);
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

// Long: two products with nineteen arguments each, one per line.
fn one_head(
    qkv: &[f32],
    rows: std::ops::Range<usize>,
    head: usize,
    shape: AttentionShape,
    out: SharedOut,
    scores: &mut [f32],
) {
    let (width, dim) = (shape.width(), shape.head_dim);
    let stride = 3 * width;
    let length = rows.len();
    let column = head * dim;
    let scale = 1.0 / (dim as f32).sqrt();
    let first = rows.start;
    for block in (0..length).step_by(BLOCK_ROWS) {
        let count = BLOCK_ROWS.min(length - block);
        let scores = &mut scores[..count * length];
        // SAFETY: query rows `first + block ..+ count` and key/value rows `first ..+ length` are inside
        // `qkv` (checked against cu_seqlens' last entry by the caller); `scores` holds count × length;
        // the output rows and columns belong to this task alone (see SharedOut).
        unsafe {
            gemm::gemm(
                count,
                length,
                dim,
                scores.as_mut_ptr(),
                1,
                length as isize,
                false,
                qkv.as_ptr().add((first + block) * stride + column),
                1,
                stride as isize,
                qkv.as_ptr().add(first * stride + width + column),
                stride as isize,
                1,
                0.0,
                scale,
                false,
                false,
                false,
                Parallelism::None,
            );
            softmax_rows(scores, length);
            gemm::gemm(
                count,
                dim,
                length,
                out.0.add((first + block) * width + column),
                1,
                width as isize,
                false,
                scores.as_ptr(),
                1,
                length as isize,
                qkv.as_ptr().add(first * stride + 2 * width + column),
                1,
                stride as isize,
                0.0,
                1.0,
                false,
                false,
                false,
                Parallelism::None,
            );
        }
    }
}

multiversion! {
    /// Softmax of every row of `values` `[rows, width]`, in place.
    fn softmax_rows(values: &mut [f32], width: usize) {
        for row in values.chunks_exact_mut(width) {
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

    fn naive(qkv: &[f32], cu_seqlens: &[usize], shape: AttentionShape) -> Vec<f32> {
        let (width, dim) = (shape.width(), shape.head_dim);
        let at =
            |row: usize, part: usize, column: usize| qkv[row * 3 * width + part * width + column];
        let mut out = Vec::new();
        for sequence in cu_seqlens.windows(2) {
            for row in sequence[0]..sequence[1] {
                for column in 0..width {
                    let head = column / dim * dim;
                    let score = |key: usize| -> f32 {
                        (0..dim).map(|i| at(row, 0, head + i) * at(key, 1, head + i)).sum::<f32>()
                            / (dim as f32).sqrt()
                    };
                    let weights: Vec<f32> =
                        (sequence[0]..sequence[1]).map(|key| score(key).exp()).collect();
                    let total: f32 = weights.iter().sum();
                    out.push(
                        weights
                            .iter()
                            .zip(sequence[0]..)
                            .map(|(w, key)| w * at(key, 2, column))
                            .sum::<f32>()
                            / total,
                    );
                }
            }
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn equals_the_definition_on_ragged_batches(
            lengths in prop::collection::vec(0usize..70, 1..5),
            seed in prop::collection::vec(-1f32..1.0, 97),
            threads in 1usize..3,
        ) {
            let shape = AttentionShape { heads: 2, head_dim: 4 };
            let mut cu_seqlens = vec![0];
            for length in &lengths {
                cu_seqlens.push(cu_seqlens[cu_seqlens.len() - 1] + length);
            }
            let tokens = cu_seqlens[lengths.len()];
            let qkv: Vec<f32> = (0..tokens * 24).map(|i| seed[(i * 31 + i / 7) % 97] * 2.0).collect();
            let longest = lengths.iter().copied().max().unwrap_or(0);
            let mut scratch = vec![0.0; attention_scratch_len(longest, threads)];
            let mut out = vec![f32::NAN; tokens * 8];
            attention(&qkv, &cu_seqlens, shape, &mut out, &mut scratch);
            for (a, b) in out.iter().zip(naive(&qkv, &cu_seqlens, shape)) {
                prop_assert!((a - b).abs() < 1e-4, "{a} {b}");
            }
        }
    }

    #[test]
    fn every_version_agrees_to_the_last_bit() {
        let width = 53;
        let scores: Vec<f32> = (0..4 * width).map(|i| ((i * 31) % 97) as f32 / 9.0).collect();
        let results: Vec<Vec<f32>> = softmax_rows::versions()
            .into_iter()
            .map(|version| {
                let mut scores = scores.clone();
                version(&mut scores, width);
                scores
            })
            .collect();
        assert!(results.iter().all(|it| *it == results[0]));
    }

    #[test]
    fn a_score_that_is_not_a_number_stays_one() {
        let mut row = [0.5, f32::NAN, 1.0];
        softmax_rows(&mut row, 3);
        assert!(row.iter().all(|it| it.is_nan()), "{row:?}");
    }

    #[test]
    fn large_scores_do_not_overflow() {
        let mut row = [1000.0, 999.0, -1000.0];
        softmax_rows(&mut row, 3);
        assert!(
            (row[0] - 0.731_058_6).abs() < 1e-5
                && row[2] < 1e-30
                && row.iter().all(|it| it.is_finite())
        );
    }
}
