//! Attention of a few tokens over many keys, the step of a language model: keys and values are read once, where they
//! lie. Positions are cut into splits that threads take, each with a softmax of its own, and what they give is merged
//! (Flash-Decoding: Dao et al. 2023). Splits do not depend on the number of threads, so neither does the result.

use std::{
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
};

use rayon::prelude::*;

use super::{
    AttentionShape, CachedAttention, prefetch,
    softmax::{State, cap, softmax_tile},
};
use crate::{
    dispatch::{mul_add, multiversion},
    elementwise::exp,
    half_floats::widen_f16,
    micro::PANEL,
};

/// Tokens up to which the tiles would be mostly empty.
pub(super) const MOST_TOKENS: usize = 4;

/// Positions of a split: rows of a kilobyte, keys and values, are half of a core's L2.
const SPLIT: usize = 256;

/// Positions whose scores are computed before their values are read.
const BLOCK: usize = 64;

/// f32 elements of a cache line.
const LINE: usize = 16;

/// How the scratch is divided.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// Queries that share keys.
    rows: usize,
    /// All queries.
    all: usize,
    dim: usize,
    splits: usize,
}

impl Layout {
    /// For so many tokens and positions.
    pub(super) fn new(shape: AttentionShape, tokens: usize, positions: usize) -> Layout {
        let (rows, all) = (shape.group() * tokens, shape.heads * tokens);
        // One more than fit, for those that begin within one.
        let splits = positions.div_ceil(SPLIT) + 1;
        Layout { rows, all, dim: shape.head_dim, splits }
    }

    /// Elements of what a split remembers: largest scores, sums, values.
    fn state(self) -> usize {
        (2 * self.all).next_multiple_of(LINE) + (self.all * self.dim).next_multiple_of(LINE)
    }

    /// Elements of all queries.
    fn queries(self) -> usize {
        (self.all * self.dim).next_multiple_of(LINE)
    }

    /// Elements of a thread's own: scores, and rows that are widened.
    fn share(self) -> usize {
        ((self.rows + self.dim) * BLOCK).next_multiple_of(LINE)
    }

    /// Elements of all, and of what the first one's alignment may take.
    pub(super) fn len(self, threads: usize) -> usize {
        self.queries() + self.splits * self.state() + threads * self.share() + LINE
    }
}

/// Attention of `tokens` tokens.
pub(super) fn run(work: &CachedAttention<'_>, tokens: usize, out: &mut [f32], scratch: &mut [f32]) {
    let (from, to) = (work.seen_by(0).0, work.seen_by(tokens - 1).1);
    let (first, end) = (from / SPLIT, to.div_ceil(SPLIT));
    let splits = end - first;
    let layout = Layout { splits, ..Layout::new(work.shape, tokens, to) };
    let (state, share) = (layout.state(), layout.share());
    assert!(scratch.len() >= layout.len(1), "scratch is smaller than {}", layout.len(1));
    let start = scratch.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
    let (queries, rest) = scratch[start..].split_at_mut(layout.queries());
    let (states, rest) = rest.split_at_mut(splits * state);
    for (row, query) in queries.chunks_exact_mut(layout.dim).enumerate().take(layout.all) {
        let (head, token) = (row / tokens, row % tokens);
        let own = work.queries.part(token, head * layout.dim, layout.dim);
        query.iter_mut().zip(own).for_each(|(query, own)| *query = own * work.scale);
    }
    let queries = &*queries;
    let threads = rayon::current_num_threads().min(splits).min(rest.len() / share);
    let next = AtomicUsize::new(0);
    let shared = States(states.as_mut_ptr());
    let body = |share: &mut [f32]| {
        loop {
            let split = next.fetch_add(1, Ordering::Relaxed);
            if split >= splits {
                break;
            }
            // SAFETY: splits are below `splits`, and each is taken once.
            let memory = unsafe { shared.part(split * state, state) };
            Split { work, tokens, queries, layout }.run(first + split, memory, share);
        }
    };
    if threads == 1 {
        body(&mut rest[..share]);
    } else {
        rest.par_chunks_exact_mut(share).take(threads).with_max_len(1).for_each(body);
    }
    for (number, out) in out.chunks_exact_mut(layout.dim).enumerate() {
        let (token, head) = (number / work.shape.heads, number % work.shape.heads);
        merge(states, layout, head * tokens + token, out);
    }
}

/// The states' memory, shared by tasks that write disjoint parts of it.
#[derive(Clone, Copy)]
struct States(*mut f32);

// SAFETY: each task takes a part of its own, see `run`.
unsafe impl Send for States {}
// SAFETY: as above.
unsafe impl Sync for States {}

impl States {
    /// # Safety
    /// The part is inside, and nobody else's.
    #[allow(clippy::mut_from_ref, reason = "the caller's promise")]
    unsafe fn part(&self, from: usize, len: usize) -> &mut [f32] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(from), len) }
    }
}

/// Puts together what the splits have of a row.
fn merge(states: &[f32], layout: Layout, row: usize, out: &mut [f32]) {
    let Layout { all, dim, .. } = layout;
    let splits = || states.chunks_exact(layout.state());
    let top = splits().fold(f32::NEG_INFINITY, |top, it| top.max(it[row]));
    let mut total = 0.0;
    out.fill(0.0);
    for state in splits() {
        // A split that this row sees nothing of.
        if state[row] == f32::NEG_INFINITY && state[all + row] == 0.0 {
            continue;
        }
        let less = exp::<false>(state[row] - top);
        total += state[all + row] * less;
        let values = &state[(2 * all).next_multiple_of(LINE) + row * dim..][..dim];
        for (out, value) in out.iter_mut().zip(values) {
            *out += value * less;
        }
    }
    let scale = 1.0 / total;
    out.iter_mut().for_each(|it| *it *= scale);
}

/// A split of the positions, for all heads.
struct Split<'a> {
    work: &'a CachedAttention<'a>,
    tokens: usize,
    /// Scaled queries `[heads, tokens, dim]`.
    queries: &'a [f32],
    layout: Layout,
}

impl Split<'_> {
    /// Computes its state in `memory`.
    fn run(&self, split: usize, memory: &mut [f32], share: &mut [f32]) {
        let Layout { rows, all, dim, .. } = self.layout;
        let (tops, rest) = memory.split_at_mut(all);
        let (sums, values) = rest.split_at_mut((2 * all).next_multiple_of(LINE) - all);
        tops.fill(f32::NEG_INFINITY);
        sums.fill(0.0);
        values.fill(0.0);
        let from = self.work.seen_by(0).0.max(split * SPLIT);
        let to = self.work.seen_by(self.tokens - 1).1.min((split + 1) * SPLIT);
        // Blocks begin at multiples, so that what a token gets does not depend on its neighbors.
        for start in (from / BLOCK * BLOCK..to).step_by(BLOCK) {
            for kv_head in 0..self.work.shape.kv_heads {
                let own = kv_head * rows..(kv_head + 1) * rows;
                let mut state = State {
                    tops: &mut tops[own.clone()],
                    sums: &mut sums[own.clone()],
                    values: &mut values[own.start * dim..own.end * dim],
                    width: dim,
                    scale: 1.0,
                };
                self.block(kv_head, start..to.min(start + BLOCK), share, &mut state);
            }
        }
    }

    /// Some positions, of which each row sees a part.
    fn block(
        &self,
        kv_head: usize,
        positions: Range<usize>,
        share: &mut [f32],
        state: &mut State<'_>,
    ) {
        let Split { work, tokens, queries, layout: Layout { rows, dim, .. } } = *self;
        let (scores, wide) = share.split_at_mut(rows * BLOCK);
        let (stride, count) = (work.shape.kv_width(), positions.len());
        let first = positions.start * stride + kv_head * dim;
        let keys = HalfRows { bits: &work.keys[first..], stride, count, dim };
        let values = HalfRows { bits: &work.values[first..], ..keys };
        let queries = &queries[kv_head * rows * dim..][..rows * dim];
        // A share of the next block for each head, keys before keys and values before values.
        let ahead = positions.start * stride + BLOCK * stride + kv_head * BLOCK * dim;
        let share = |of: &[u16]| {
            let rest = of.get(ahead..).unwrap_or(&[]);
            prefetch(&rest[..rest.len().min(BLOCK * dim)]);
        };
        share(work.keys);
        multiply(queries, keys, scores, wide);
        let mut seen_by_all = true;
        for (row, scores) in scores.chunks_exact_mut(BLOCK).enumerate() {
            if let Some(most) = work.softcap {
                cap(&mut scores[..count], most);
            }
            let (from, to) = work.seen_by(row % tokens);
            let to = to.clamp(positions.start, positions.end) - positions.start;
            let bounds = (from.saturating_sub(positions.start).min(to), to);
            seen_by_all &= bounds.0 < to && to == count;
            let mut own = State {
                tops: &mut state.tops[row..=row],
                sums: &mut state.sums[row..=row],
                values: &mut state.values[row * dim..][..dim],
                width: dim,
                scale: 1.0,
            };
            let columns = count.next_multiple_of(PANEL);
            softmax_tile(scores, BLOCK, columns, &[bounds], &mut own, None);
        }
        share(work.values);
        if seen_by_all {
            return weigh(scores, values, state.values, wide);
        }
        // A row's own positions and no others: zero times a value beyond them is not zero if that is none.
        let rows = scores.chunks_exact(BLOCK).zip(state.values.chunks_exact_mut(dim));
        for (row, (scores, sums)) in rows.enumerate() {
            let (from, to) = work.seen_by(row % tokens);
            let (from, to) = (from.max(positions.start), to.min(positions.end));
            if from < to {
                let own = HalfRows { count: to - positions.start, ..values };
                weigh(scores, own, sums, wide);
            }
        }
    }
}

/// A head's rows of a KV cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HalfRows<'a> {
    /// From the first row's first element on.
    pub(crate) bits: &'a [u16],
    /// Elements from one row to the next.
    pub(crate) stride: usize,
    /// Rows.
    pub(crate) count: usize,
    /// Elements of a row.
    pub(crate) dim: usize,
}

impl HalfRows<'_> {
    /// Widens all rows into `wide` `[count, dim]`.
    fn widen(&self, wide: &mut [f32]) {
        let rows = wide.chunks_exact_mut(self.dim).zip(self.bits.chunks(self.stride));
        rows.take(self.count).for_each(|(wide, bits)| widen_f16(&bits[..self.dim], wide));
    }

    /// Whether the routines of AVX-512 take them: whole registers, and everything there.
    #[cfg(target_arch = "x86_64")]
    fn suit_avx512(&self, rows: usize, others: usize, columns: usize) -> bool {
        assert!((self.count - 1) * self.stride + self.dim <= self.bits.len());
        assert!(rows * self.dim <= others && rows * BLOCK <= columns && self.count <= BLOCK);
        crate::dispatch::has_avx512() && self.dim.is_multiple_of(16)
    }
}

/// Products of queries `[rows, dim]` with keys, to rows of [`BLOCK`] scores; `wide` has room for the keys.
fn multiply(queries: &[f32], keys: HalfRows<'_>, scores: &mut [f32], wide: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if keys.suit_avx512(queries.len() / keys.dim, queries.len(), scores.len()) {
        // SAFETY: the processor has AVX-512, and everything is there.
        return unsafe { crate::x86::multiply_rows(queries, keys, scores, BLOCK) };
    }
    keys.widen(wide);
    portable_multiply(queries, &wide[..keys.count * keys.dim], keys.dim, scores);
}

/// Adds values, weighted with rows of [`BLOCK`] weights, to sums `[rows, dim]`; `wide` has room for the values.
fn weigh(weights: &[f32], values: HalfRows<'_>, sums: &mut [f32], wide: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if values.suit_avx512(sums.len() / values.dim, sums.len(), weights.len()) {
        // SAFETY: the processor has AVX-512, and everything is there.
        return unsafe { crate::x86::weigh_rows(weights, BLOCK, values, sums) };
    }
    values.widen(wide);
    portable_weigh(weights, &wide[..values.count * values.dim], values.dim, sums);
}

multiversion! {
    fn portable_multiply(queries: &[f32], keys: &[f32], dim: usize, scores: &mut [f32]) {
        for (query, scores) in queries.chunks_exact(dim).zip(scores.chunks_exact_mut(BLOCK)) {
            let (query, query_rest) = query.as_chunks::<16>();
            for (key, score) in keys.chunks_exact(dim).zip(scores) {
                let (key, key_rest) = key.as_chunks::<16>();
                let mut lanes = [0f32; 16];
                for (a, b) in query.iter().zip(key) {
                    for i in 0..16 {
                        lanes[i] = mul_add::<FUSED>(a[i], b[i], lanes[i]);
                    }
                }
                let mut total = 0.0;
                for (a, b) in query_rest.iter().zip(key_rest) {
                    total += a * b;
                }
                for lane in lanes {
                    total += lane;
                }
                *score = total;
            }
        }
    }
}

multiversion! {
    fn portable_weigh(weights: &[f32], values: &[f32], dim: usize, sums: &mut [f32]) {
        for (weights, sums) in weights.chunks_exact(BLOCK).zip(sums.chunks_exact_mut(dim)) {
            for (value, &weight) in values.chunks_exact(dim).zip(weights) {
                for (sum, value) in sums.iter_mut().zip(value) {
                    *sum = mul_add::<FUSED>(*value, weight, *sum);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Every version, and the routines that are dispatched to.
        #[test]
        fn every_version_agrees(
            rows in 1usize..10, count in 1usize..=BLOCK, dim in prop::sample::select(vec![1usize, 5, 16, 40, 64, 80, 128, 256]),
            gap in 0usize..3, seed in prop::collection::vec(-1f32..1.0, 97),
        ) {
            let fill = |n: usize, step: usize| -> Vec<f32> { (0..n).map(|i| seed[(i * step + i / 13) % 97]).collect() };
            let stride = dim + gap;
            let mut bits = vec![0; (count - 1) * stride + dim];
            crate::narrow_f16(&fill(bits.len(), 7), &mut bits);
            let own = HalfRows { bits: &bits, stride, count, dim };
            let mut wide = vec![f32::NAN; BLOCK * dim];
            own.widen(&mut wide);
            let all = wide[..count * dim].to_vec();
            let queries = fill(rows * dim, 5);
            let mut expected = vec![9.0; rows * BLOCK];
            for (row, expected) in expected.chunks_mut(BLOCK).enumerate() {
                for (key, expected) in expected.iter_mut().enumerate().take(count) {
                    *expected = (0..dim).map(|i| queries[row * dim + i] * all[key * dim + i]).sum();
                }
            }
            let mut versions: Vec<Vec<f32>> = portable_multiply::versions().into_iter().map(|version| {
                let mut scores = vec![9.0; rows * BLOCK];
                version(&queries, &all, dim, &mut scores);
                scores
            }).collect();
            let mut scores = vec![9.0; rows * BLOCK];
            multiply(&queries, own, &mut scores, &mut wide);
            versions.push(scores);
            for version in versions {
                prop_assert!(version.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-4));
            }
            let (weights, sums) = (fill(rows * BLOCK, 11), fill(rows * dim, 3));
            let mut expected = sums.clone();
            for (i, sum) in expected.iter_mut().enumerate() {
                *sum += (0..count).map(|key| weights[i / dim * BLOCK + key] * all[key * dim + i % dim]).sum::<f32>();
            }
            let mut versions: Vec<Vec<f32>> = portable_weigh::versions().into_iter().map(|version| {
                let mut sums = sums.clone();
                version(&weights, &all, dim, &mut sums);
                sums
            }).collect();
            let mut again = sums.clone();
            weigh(&weights, own, &mut again, &mut wide);
            versions.push(again);
            for version in versions {
                prop_assert!(version.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-4));
            }
        }
    }
}
