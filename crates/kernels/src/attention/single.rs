//! One query of each sequence: all that the last layer needs of a model whose head reads one token. Keys and values are
//! read once, row by row as they lie, for all heads.

use super::{
    Attention, AttentionShape,
    head::Work as _,
    softmax::{State, softmax_tile},
};
use crate::dispatch::{mul_add, multiversion};

/// Keys whose scores are computed before their values are read: the rows stay in a core's caches.
const BLOCK: usize = 64;

/// Numbers that are summed side by side.
const LANES: usize = 16;

/// Elements of a thread's scratch: scores, the largest and the sum of each head.
pub(super) fn scratch_len(shape: AttentionShape) -> usize {
    shape.heads * (BLOCK + 2)
}

/// The one query of sequence `sequence`; `out` is its row.
pub(super) fn run(work: &Attention<'_>, sequence: usize, scratch: &mut [f32], out: &mut [f32]) {
    let shape = work.shape;
    let (heads, dim) = (shape.heads, shape.head_dim);
    let places = work.places(sequence, 0, 1);
    let Some(place) = places.places.clone().next() else { return };
    let query = work.queries.part(places.first_row, 0, shape.width());
    let (scores, rest) = scratch.split_at_mut(heads * BLOCK);
    let (tops, rest) = rest.split_at_mut(heads);
    let sums = &mut rest[..heads];
    tops.fill(f32::NEG_INFINITY);
    sums.fill(0.0);
    out.fill(0.0);
    let row = |key: usize| {
        let shared = work.shared();
        let columns = 2 * shape.kv_width();
        if key < shared {
            &work.prefix[key * shape.qkv_width() + shape.width()..][..columns]
        } else {
            work.keys_values.part(places.start + key - shared, 0, columns)
        }
    };
    let (from, to) = work.seen(place, places.length);
    for start in (from..to).step_by(BLOCK) {
        let count = BLOCK.min(to - start);
        for i in 0..count {
            let keys = &row(start + i)[..shape.kv_width()];
            score(query, keys, shape, work.scale(), &mut scores[i..]);
        }
        if let Some(bias) = work.bias {
            for (head, scores) in scores.chunks_exact_mut(BLOCK).enumerate() {
                bias.add(head, place, start, 1.0, &mut scores[..count]);
            }
        }
        let columns = count.next_multiple_of(LANES);
        for (head, scores) in scores.chunks_exact_mut(BLOCK).enumerate() {
            let mut state = State {
                tops: &mut tops[head..=head],
                sums: &mut sums[head..=head],
                values: &mut out[head * dim..][..dim],
                width: dim,
                scale: 1.0,
            };
            softmax_tile(scores, BLOCK, columns, &[(0, count)], &mut state, None);
        }
        for i in 0..count {
            let values = &row(start + i)[shape.kv_width()..];
            weigh(&scores[i..], values, shape, out);
        }
    }
    for (out, sum) in out.chunks_exact_mut(dim).zip(sums) {
        out.iter_mut().for_each(|it| *it /= *sum);
    }
}

multiversion! {
    /// Products of each head's query with its key, times `scale`, to scores [`BLOCK`] apart.
    fn score(query: &[f32], keys: &[f32], shape: AttentionShape, scale: f32, scores: &mut [f32]) {
        let (dim, group) = (shape.head_dim, shape.group());
        for (head, query) in query.chunks_exact(dim).enumerate() {
            let key = &keys[head / group * dim..][..dim];
            let ((query, query_rest), (key, key_rest)) =
                (query.as_chunks::<LANES>(), key.as_chunks::<LANES>());
            let mut sums = [0.0; LANES];
            for (query, key) in query.iter().zip(key) {
                for lane in 0..LANES {
                    sums[lane] = mul_add::<FUSED>(query[lane], key[lane], sums[lane]);
                }
            }
            let mut sum = sums.iter().sum::<f32>();
            for (query, key) in query_rest.iter().zip(key_rest) {
                sum += query * key;
            }
            scores[head * BLOCK] = sum * scale;
        }
    }
}

multiversion! {
    /// Adds each head's values, weighted with numbers [`BLOCK`] apart.
    fn weigh(weights: &[f32], values: &[f32], shape: AttentionShape, out: &mut [f32]) {
        let (dim, group) = (shape.head_dim, shape.group());
        for (head, out) in out.chunks_exact_mut(dim).enumerate() {
            let weight = weights[head * BLOCK];
            for (out, value) in out.iter_mut().zip(&values[head / group * dim..][..dim]) {
                *out = mul_add::<FUSED>(weight, *value, *out);
            }
        }
    }
}
