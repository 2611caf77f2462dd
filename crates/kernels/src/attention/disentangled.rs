//! Attention whose scores also depend on how far apart two tokens are (DeBERTa: He et al. 2021, section 3.1): a query
//! meets the key of a distance, and a key the query of one.
//!
//! A task is a head of a sequence. What it reads of keys and distances it first lays out with tokens side by side, so
//! that every product runs along memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::{AttentionShape, Queries, Rows, SharedOut};
use crate::dispatch::{mul_add, multiversion};

/// Sums that are kept in registers.
const LANES: usize = 64;

/// What [`disentangled_attention`] works on.
#[derive(Debug, Clone, Copy)]
pub struct Disentangled<'a> {
    /// Queries, `shape.width()` columns; a row for each token or sequence, see [`Queries`].
    pub queries: Rows<'a>,
    /// Keys, then values, `2 · shape.width()` columns; a row for each token.
    pub keys_values: Rows<'a>,
    /// Cumulative token counts `[sequences + 1]`, from 0.
    pub cu_seqlens: &'a [usize],
    /// Sizes; every head has keys of its own.
    pub shape: AttentionShape,
    /// Which tokens have a query: all, or the first of each sequence.
    pub wanted: Queries,
    /// Of each distance the key that a token's query meets, and the query that meets a token's key.
    pub distances: Distances<'a>,
}

/// Keys and queries of distances between tokens.
#[derive(Debug, Clone, Copy)]
pub struct Distances<'a> {
    /// The row of distance i − j, at place `i − j + longest − 1`: `2 · longest − 1` ascending numbers, for sequences of
    /// up to `longest` tokens.
    pub rows: &'a [usize],
    /// Keys `[rows, shape.width()]`; empty where a score has no such part.
    pub keys: &'a [f32],
    /// Queries `[rows, shape.width()]`; empty where a score has no such part.
    pub queries: &'a [f32],
}

impl Distances<'_> {
    /// Parts of a score, whose variance it is scaled by.
    fn parts(&self) -> usize {
        1 + usize::from(!self.keys.is_empty()) + usize::from(!self.queries.is_empty())
    }

    fn longest(&self) -> usize {
        self.rows.len().div_ceil(2)
    }

    /// The row of query `i` and key `j`.
    fn row(&self, i: usize, j: usize) -> usize {
        self.rows[i + self.longest() - 1 - j]
    }
}

/// Elements of scratch that [`disentangled_attention`] needs on `threads` threads for sequences of up to `longest`
/// tokens and so many rows of distances.
pub fn disentangled_scratch_len(
    shape: AttentionShape,
    longest: usize,
    rows: usize,
    threads: usize,
) -> usize {
    share_len(shape.head_dim, longest, rows) * threads
}

/// Elements of a thread's scratch: keys and distances with tokens side by side, values, keys by distances, scores.
fn share_len(dim: usize, longest: usize, rows: usize) -> usize {
    dim * 2 * (longest + rows) + longest * rows + rows + longest
}

/// softmax((q · k + q · key of the distance + k · query of the distance) / √(parts · d)) · v for every sequence and
/// head, in f32.
///
/// Shapes: `out` has `shape.width()` columns and as many rows as there are queries; `scratch` of
/// [`disentangled_scratch_len`] elements; the number of threads used is what the scratch has room for. Rows of a
/// sequence without tokens stay as they were.
///
/// # Panics
/// When a slice does not have the shape: the caller's bug.
pub fn disentangled_attention(work: Disentangled<'_>, out: &mut [f32], scratch: &mut [f32]) {
    work.check(out);
    let Disentangled { cu_seqlens, shape, distances, .. } = work;
    let longest = cu_seqlens.windows(2).map(|it| it[1] - it[0]).max().unwrap_or(0);
    if longest == 0 {
        return;
    }
    let rows = distances.keys.len().max(distances.queries.len()) / shape.width();
    let share = share_len(shape.head_dim, longest, rows);
    assert!(scratch.len() >= share, "scratch is smaller than one thread's {share}");
    let tasks = (cu_seqlens.len() - 1) * shape.heads;
    let next = AtomicUsize::new(0);
    let out = SharedOut(out.as_mut_ptr());
    scratch.par_chunks_exact_mut(share).for_each(|scratch| {
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                break;
            }
            if let Some(head) = Head::new(&work, task / shape.heads, task % shape.heads) {
                head.run(scratch, out);
            }
        }
    });
}

impl Disentangled<'_> {
    fn check(&self, out: &[f32]) {
        let Disentangled { queries, keys_values, cu_seqlens, shape, wanted, distances } = *self;
        let tokens = cu_seqlens.last().copied().unwrap_or(0);
        let rows = match wanted {
            Queries::All => tokens,
            Queries::First => cu_seqlens.len().saturating_sub(1),
            Queries::Last => panic!("the last query has no use here"),
        };
        let width = shape.width();
        assert!(queries.holds(rows, width), "queries are not {rows} × {width}");
        assert!(keys_values.holds(tokens, 2 * width), "keys are not {tokens} rows");
        assert!(out.len() >= rows * width, "out is not {rows} × {width}");
        assert!(cu_seqlens.windows(2).all(|it| it[0] <= it[1]), "cu_seqlens does not grow");
        assert_eq!(shape.heads, shape.kv_heads, "every head has keys of its own");
        let longest = cu_seqlens.windows(2).map(|it| it[1] - it[0]).max().unwrap_or(0);
        assert!(longest <= distances.longest(), "distances are of shorter sequences");
        assert!(distances.rows.is_sorted(), "rows of distances do not ascend");
        let known = distances.rows.last().map_or(0, |it| it + 1) * width;
        for part in [distances.keys, distances.queries] {
            let fits = part.is_empty() || part.len() >= known;
            assert!(fits && part.len().is_multiple_of(width), "a distance has no row");
        }
    }
}

/// One head of one sequence, and where its numbers lie.
struct Head<'a> {
    work: &'a Disentangled<'a>,
    start: usize,
    tokens: usize,
    /// First row of its queries, and how many.
    queries: (usize, usize),
    column: usize,
    /// The lowest row of its distances, and how many from there.
    rows: (usize, usize),
}

impl<'a> Head<'a> {
    fn new(work: &'a Disentangled<'a>, sequence: usize, head: usize) -> Option<Head<'a>> {
        let (start, end) = (work.cu_seqlens[sequence], work.cu_seqlens[sequence + 1]);
        let tokens = end - start;
        if tokens == 0 {
            return None;
        }
        let queries = match work.wanted {
            Queries::All => (start, tokens),
            Queries::First | Queries::Last => (sequence, 1),
        };
        let distances = &work.distances;
        let lowest = distances.row(0, tokens - 1);
        let rows = match distances.parts() {
            1 => 0,
            _ => distances.row(queries.1 - 1, 0) + 1 - lowest,
        };
        let column = head * work.shape.head_dim;
        Some(Head { work, start, tokens, queries, column, rows: (lowest, rows) })
    }

    fn key(&self, token: usize) -> &'a [f32] {
        self.work.keys_values.part(self.start + token, self.column, self.work.shape.head_dim)
    }

    fn value(&self, token: usize) -> &'a [f32] {
        let Disentangled { keys_values, shape, .. } = *self.work;
        keys_values.part(self.start + token, shape.width() + self.column, shape.head_dim)
    }

    /// The head's part of a distance's row.
    fn far(&self, part: &'a [f32], row: usize) -> &'a [f32] {
        let shape = self.work.shape;
        &part[row * shape.width() + self.column..][..shape.head_dim]
    }

    /// Whether keys meet queries of distances in a table: of one query every key meets one distance, and a table of
    /// all would be thrown away.
    fn meets_all(&self) -> bool {
        self.queries.1 > 1 && !self.work.distances.queries.is_empty()
    }

    /// Lays out what is read, and computes it query by query.
    fn run(&self, scratch: &mut [f32], out: SharedOut) {
        let Disentangled { shape, distances, .. } = *self.work;
        let (dim, tokens, (lowest, rows)) = (shape.head_dim, self.tokens, self.rows);
        let (keys, rest) = scratch.split_at_mut(dim * tokens);
        let (values, rest) = rest.split_at_mut(dim * tokens);
        let (far_keys, rest) = rest.split_at_mut(dim * rows);
        let (far_queries, rest) = rest.split_at_mut(dim * rows);
        let (met, rest) = rest.split_at_mut(tokens * rows);
        let (meets, rest) = rest.split_at_mut(rows);
        let scores = &mut rest[..tokens];
        side_by_side(keys, tokens, |it| self.key(it));
        for (token, values) in values.chunks_exact_mut(dim).enumerate() {
            values.copy_from_slice(self.value(token));
        }
        if !distances.keys.is_empty() {
            side_by_side(far_keys, rows, |it| self.far(distances.keys, lowest + it));
        }
        if self.meets_all() {
            side_by_side(far_queries, rows, |it| self.far(distances.queries, lowest + it));
            for (token, met) in met.chunks_exact_mut(rows).enumerate() {
                met.fill(0.0);
                add_products(self.key(token), far_queries, met);
            }
        }
        let (first, count) = self.queries;
        for place in 0..count {
            let query = self.work.queries.part(first + place, self.column, dim);
            scores.fill(0.0);
            add_products(query, keys, scores);
            if !distances.keys.is_empty() {
                meets.fill(0.0);
                add_products(query, far_keys, meets);
            }
            self.add_distances(place, meets, met, scores);
            softmax(scores);
            // SAFETY: `check` found a row for each query; a task has a sequence's head to itself, and no two of them
            // the same columns of a row.
            let out = unsafe { out.part((first + place) * shape.width() + self.column, dim) };
            out.fill(0.0);
            add_products(scores, values, out);
        }
    }

    /// Adds to the scores of query `place` what distances say, and scales them: `meets` `[rows]` of the query, `met`
    /// `[tokens, rows]` of the keys.
    fn add_distances(&self, place: usize, meets: &[f32], met: &[f32], scores: &mut [f32]) {
        let Disentangled { shape, distances, .. } = *self.work;
        let ((lowest, rows), meets_all) = (self.rows, self.meets_all());
        let scale = 1.0 / ((distances.parts() * shape.head_dim) as f32).sqrt();
        for (token, score) in scores.iter_mut().enumerate() {
            let row = distances.row(place, token);
            if !distances.keys.is_empty() {
                *score += meets[row - lowest];
            }
            if meets_all {
                *score += met[token * rows + row - lowest];
            } else if !distances.queries.is_empty() {
                let far = self.far(distances.queries, row);
                *score += self.key(token).iter().zip(far).map(|(a, b)| a * b).sum::<f32>();
            }
            *score *= scale;
        }
    }
}

/// Lays out rows `[count, dim]` as `[dim, count]`.
fn side_by_side<'a>(out: &mut [f32], count: usize, row: impl Fn(usize) -> &'a [f32]) {
    for it in 0..count {
        for (place, value) in row(it).iter().enumerate() {
            out[place * count + it] = *value;
        }
    }
}

/// softmax of scores of which none is infinite; NaN stays NaN.
fn softmax(scores: &mut [f32]) {
    let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    scores.iter_mut().for_each(|it| *it = (*it - top).exp());
    let sum: f32 = scores.iter().sum();
    scores.iter_mut().for_each(|it| *it /= sum);
}

multiversion! {
    /// `out[j] += Σ weights[c] · rows[c][j]`, of rows as long as `out`.
    fn add_products(weights: &[f32], rows: &[f32], out: &mut [f32]) {
        let stride = out.len();
        let (blocks, rest) = out.as_chunks_mut::<LANES>();
        let whole = blocks.len() * LANES;
        for (number, block) in blocks.iter_mut().enumerate() {
            let mut sums = *block;
            for (weight, row) in weights.iter().zip(rows.chunks_exact(stride)) {
                let row = &row[number * LANES..][..LANES];
                for lane in 0..LANES {
                    sums[lane] = mul_add::<FUSED>(*weight, row[lane], sums[lane]);
                }
            }
            *block = sums;
        }
        for (weight, row) in weights.iter().zip(rows.chunks_exact(stride)) {
            for (out, value) in rest.iter_mut().zip(&row[whole..]) {
                *out = mul_add::<FUSED>(*weight, *value, *out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, in double precision: every score from its three products.
    fn naive(work: &Disentangled<'_>, qkv: &[f32]) -> Vec<f64> {
        let (dim, width) = (work.shape.head_dim, work.shape.width());
        let mut out = Vec::new();
        let product = |a: &[f32], b: &[f32]| -> f64 {
            a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        for ends in work.cu_seqlens.windows(2) {
            let tokens = ends[1] - ends[0];
            let row = |token: usize| &qkv[(ends[0] + token) * 3 * width..][..3 * width];
            let queries = if work.wanted == Queries::All { tokens } else { tokens.min(1) };
            for i in 0..queries {
                for head in 0..work.shape.heads {
                    let columns = head * dim..(head + 1) * dim;
                    let query = &row(i)[columns.clone()];
                    let score = |j: usize| {
                        let key = &row(j)[width..][columns.clone()];
                        let distance = work.distances.row(i, j) * width;
                        let far = |part: &'_ [f32], other: &[f32]| match part.is_empty() {
                            true => 0.0,
                            false => product(&part[distance..][columns.clone()], other),
                        };
                        product(query, key)
                            + far(work.distances.keys, query)
                            + far(work.distances.queries, key)
                    };
                    let scale = ((work.distances.parts() * dim) as f64).sqrt();
                    let weights: Vec<f64> = (0..tokens).map(|j| (score(j) / scale).exp()).collect();
                    let sum: f64 = weights.iter().sum();
                    for column in columns {
                        let values = (0..tokens).map(|j| f64::from(row(j)[2 * width + column]));
                        out.push(values.zip(&weights).map(|(v, w)| v * w / sum).sum());
                    }
                }
            }
        }
        out
    }

    proptest! {
        #[test]
        fn it_is_its_definition(
            lengths in prop::collection::vec(0usize..90, 1..4), heads in 1usize..4, dim in 1usize..20,
            span in 1usize..12, parts in 0usize..4, first in any::<bool>(), threads in 1usize..3, seed in 0u32..1000,
        ) {
            let shape = AttentionShape { heads, kv_heads: heads, head_dim: dim };
            let width = shape.width();
            let mut cu_seqlens = vec![0];
            for length in &lengths {
                cu_seqlens.push(cu_seqlens[cu_seqlens.len() - 1] + length);
            }
            let tokens = cu_seqlens[lengths.len()];
            let longest = lengths.iter().copied().max().unwrap_or(0).max(1) + seed as usize % 3;
            let number = |it: usize| ((it as f32 * 0.618 + seed as f32) * 1.37).sin();
            let qkv: Vec<f32> = (0..tokens * 3 * width).map(number).collect();
            let far: Vec<f32> = (0..4 * span * width).map(|it| number(it + 77)).collect();
            let (far_keys, far_queries) = far.split_at(2 * span * width);
            let rows: Vec<usize> =
                (0..2 * longest - 1).map(|it| (it + span).saturating_sub(longest - 1).min(2 * span - 1)).collect();
            let distances = Distances {
                rows: &rows,
                keys: if parts & 1 == 0 { &[] } else { far_keys },
                queries: if parts & 2 == 0 { &[] } else { far_queries },
            };
            let firsts: Vec<f32> = cu_seqlens
                .windows(2)
                .flat_map(|it| qkv.get(it[0] * 3 * width..).and_then(|it| it.get(..width)).unwrap_or(&qkv[..0]).to_vec())
                .collect();
            // A sequence without tokens has no first one.
            let first = first && lengths.iter().all(|it| *it > 0);
            let queries = match first {
                true => Rows { data: &firsts, stride: width, offset: 0 },
                false => Rows { data: &qkv, stride: 3 * width, offset: 0 },
            };
            let wanted = if first { Queries::First } else { Queries::All };
            let keys_values = Rows { data: &qkv, stride: 3 * width, offset: width };
            let work = Disentangled { queries, keys_values, cu_seqlens: &cu_seqlens, shape, wanted, distances };
            let expected = naive(&work, &qkv);
            let mut out = vec![f32::NAN; expected.len()];
            let mut scratch = vec![f32::NAN; disentangled_scratch_len(shape, longest, 2 * span, threads)];
            disentangled_attention(work, &mut out, &mut scratch);
            for (out, expected) in out.iter().zip(expected) {
                prop_assert!((f64::from(*out) - expected).abs() < 1e-4, "{out} and {expected}");
            }
        }
    }
}
