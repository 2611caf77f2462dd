//! Attention of one query per sequence: all that the last layer needs of a model whose head reads one token.
//!
//! Plain loops: one query of some hundred is a thousandth of a layer's work.

use riddle_kernels::AttentionShape;

use crate::ScoredToken;

/// What [`attend`] works on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keys<'a> {
    /// Rows of `shape.qkv_width()`, of which keys and values are there.
    pub(crate) qkv: &'a [f32],
    /// Cumulative token counts `[sequences + 1]`, from 0.
    pub(crate) cu_seqlens: &'a [usize],
    pub(crate) shape: AttentionShape,
    /// Rows before every sequence, or nothing.
    pub(crate) prefix: &'a [f32],
    /// Keys that a query sees in its sequence: all, or those at most so many places from the first.
    pub(crate) reach: Option<usize>,
}

/// softmax(q · kᵀ / √d) · v for one query per sequence: `queries` `[sequences, shape.width()]`, replaced by the
/// result. `weights` has room for the longest sequence and its prefix.
pub(crate) fn attend(keys: Keys<'_>, queries: &mut [f32], weights: &mut [f32]) {
    let Keys { qkv, cu_seqlens, shape, prefix, reach } = keys;
    let (dim, stride) = (shape.head_dim, shape.qkv_width());
    let group = shape.heads / shape.kv_heads;
    let scale = 1.0 / (dim as f32).sqrt();
    for (ends, query) in cu_seqlens.windows(2).zip(queries.chunks_exact_mut(shape.width())) {
        let end = reach.map_or(ends[1], |it| ends[1].min(ends[0].saturating_add(it + 1)));
        let own = &qkv[ends[0] * stride..end * stride];
        for (head, query) in query.chunks_exact_mut(dim).enumerate() {
            let key = shape.width() + head / group * dim;
            let value = key + shape.kv_width();
            let rows = || prefix.chunks_exact(stride).chain(own.chunks_exact(stride));
            let mut count = 0;
            for (weight, row) in weights.iter_mut().zip(rows()) {
                *weight = scale * dot(query, &row[key..key + dim]);
                count += 1;
            }
            let weights = &mut weights[..count];
            let top = weights.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut sum = 0.0;
            for weight in &mut *weights {
                *weight = (*weight - top).exp();
                sum += *weight;
            }
            query.fill(0.0);
            for (weight, row) in weights.iter().zip(rows()) {
                let weight = weight / sum;
                for (out, value) in query.iter_mut().zip(&row[value..value + dim]) {
                    *out += weight * value;
                }
            }
        }
    }
}

/// In eight sums, as the compiler's vectors hold them.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a_lanes, a_rest) = a.as_chunks::<8>();
    let (b_lanes, b_rest) = b.as_chunks::<8>();
    let mut sums = [0.0f32; 8];
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
}

/// Moves the states of the scored tokens to the beginning, one row of `width` per sequence; returns how many.
pub(crate) fn gather(
    token: ScoredToken,
    cu_seqlens: &[usize],
    width: usize,
    hidden: &mut [f32],
) -> usize {
    let sequences = cu_seqlens.len().saturating_sub(1);
    for (sequence, ends) in cu_seqlens.windows(2).enumerate() {
        let place = if token == ScoredToken::Last { ends[1] - 1 } else { ends[0] };
        // Sequences are not empty, so no row is overwritten before it has moved.
        hidden.copy_within(place * width..(place + 1) * width, sequence * width);
    }
    sequences
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use riddle_kernels::{Attention, Mask, attention, attention_scratch_len};

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Equals the attention of all queries at the places that count.
        #[test]
        fn one_query_gets_what_it_gets_among_all(
            lengths in prop::collection::vec(1usize..20, 1..5), kv_heads in 1usize..3, group in 1usize..3,
            half_dim in 1usize..9, prefix in 0usize..5, reach in prop::option::of(0usize..12), seed in prop::collection::vec(-2f32..2.0, 97),
        ) {
            let shape = AttentionShape { heads: kv_heads * group, kv_heads, head_dim: 2 * half_dim };
            let cu_seqlens: Vec<usize> = std::iter::once(0).chain(lengths.iter().scan(0, |sum, it| { *sum += it; Some(*sum) })).collect();
            let fill = |n: usize, step: usize| -> Vec<f32> { (0..n).map(|i| seed[(i * step + i / 7) % 97]).collect() };
            let (tokens, stride, width) = (cu_seqlens[lengths.len()], shape.qkv_width(), shape.width());
            let qkv = fill(tokens * stride, 5);
            // Only causal attention shares a prefix, and only encoders have windows.
            let last = reach.is_none() && prefix % 2 == 0;
            let before = if last { fill(prefix * stride, 3) } else { Vec::new() };
            let mask = match reach { Some(reach) => Mask::Window(reach), None if last => Mask::Causal, None => Mask::Full };
            let longest = lengths.iter().max().expect("some") + prefix;
            let mut all = vec![0.0; tokens * width];
            let work = Attention { prefix: &before, ..Attention::fused(&qkv, &cu_seqlens, shape, mask) };
            attention(work, &mut all, &mut vec![0.0; attention_scratch_len(shape, longest, 1)]);
            let token = if last { ScoredToken::Last } else { ScoredToken::First };
            let sequences = gather(token, &cu_seqlens, width, &mut all);
            let mut rows = qkv.clone();
            gather(token, &cu_seqlens, stride, &mut rows);
            let mut queries: Vec<f32> = rows.chunks(stride).take(sequences).flat_map(|it| it[..width].to_vec()).collect();
            let keys = Keys { qkv: &qkv, cu_seqlens: &cu_seqlens, shape, prefix: &before, reach };
            attend(keys, &mut queries, &mut vec![0.0; longest]);
            for (a, b) in queries.iter().zip(&all) {
                prop_assert!((a - b).abs() < 1e-4, "{a} {b}");
            }
        }
    }
}
