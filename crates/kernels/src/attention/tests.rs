use proptest::prelude::*;

use super::*;

/// The definition, score by score, for all queries.
fn naive(work: &Attention<'_>) -> Vec<f32> {
    let Attention { keys_values, cu_seqlens, shape, mask, prefix, .. } = *work;
    let (qkv, dim, stride) = (keys_values.data, shape.head_dim, shape.qkv_width());
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
                let seen = rows.iter().enumerate().filter(|&(other, _)| match mask {
                    Mask::Full => true,
                    Mask::Causal => other <= place,
                    Mask::Window(reach) => other.abs_diff(place) <= reach,
                });
                let seen: Vec<&&[f32]> = seen.map(|it| it.1).collect();
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

fn cumulative(lengths: &[usize]) -> Vec<usize> {
    let mut cu_seqlens = vec![0];
    for length in lengths {
        cu_seqlens.push(cu_seqlens[cu_seqlens.len() - 1] + length);
    }
    cu_seqlens
}

fn fill(seed: &[f32], n: usize, step: usize) -> Vec<f32> {
    (0..n).map(|i| seed[(i * step + i / 7) % seed.len()] * 2.0).collect()
}

fn masks() -> impl Strategy<Value = Mask> {
    let reaches = [0, 9, 40, usize::MAX].map(Mask::Window);
    prop::sample::select([&[Mask::Full, Mask::Causal][..], &reaches].concat())
}

/// bf16 keeps eight significant bits: values up to 2 are wrong by 2⁻⁸, scores of a few products by as much again.
const BF16_TOLERANCE: f32 = 0.08;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn equals_the_definition_on_ragged_batches(
        lengths in prop::collection::vec(0usize..90, 1..5),
        seed in prop::collection::vec(-1f32..1.0, 97),
        threads in 1usize..3,
        kv_heads in prop::sample::select(vec![1usize, 2, 4]),
        head_dim in prop::sample::select(vec![1usize, 4, 16, 20, 40]),
        mask in masks(),
        shared in prop::sample::select(vec![0usize, 1, 7]),
    ) {
        let shape = AttentionShape { heads: 4, kv_heads, head_dim };
        let cu_seqlens = cumulative(&lengths);
        let tokens = cu_seqlens[lengths.len()];
        let stride = shape.qkv_width();
        let qkv = fill(&seed, tokens * stride, 31);
        let prefix = if mask == Mask::Causal { fill(&seed, shared * stride, 17) } else { Vec::new() };
        let longest = lengths.iter().copied().max().unwrap_or(0) + prefix.len() / stride;
        let mut scratch = vec![f32::NAN; attention_scratch_len(shape, longest, threads)];
        let mut out = vec![f32::NAN; tokens * shape.width()];
        let work = Attention { prefix: &prefix, ..Attention::fused(&qkv, &cu_seqlens, shape, mask) };
        attention(work, &mut out, &mut scratch);
        let expected = naive(&work);
        for (a, b) in out.iter().zip(&expected) {
            prop_assert!((a - b).abs() < 1e-4, "{a} {b}");
        }
        // The same tokens asking alone, in a buffer of their own.
        for wanted in [Queries::First, Queries::Last] {
            let places = cu_seqlens.windows(2).map(|it| if wanted == Queries::First { it[0] } else { it[1].saturating_sub(1).max(it[0]) });
            let places: Vec<usize> = places.collect();
            let width = shape.width();
            let mut queries = vec![9.0; lengths.len() * (width + 1)];
            for (row, &place) in queries.chunks_mut(width + 1).zip(&places) {
                if place < tokens {
                    row[1..].copy_from_slice(&qkv[place * stride..][..width]);
                }
            }
            let mut some = vec![f32::NAN; lengths.len() * width];
            let queries = Rows { data: &queries, stride: width + 1, offset: 1 };
            attention(Attention { queries, wanted, ..work }, &mut some, &mut scratch);
            for ((some, &place), &length) in some.chunks(width).zip(&places).zip(&lengths) {
                for (column, value) in some.iter().enumerate().filter(|_| length > 0) {
                    prop_assert!((value - expected[place * width + column]).abs() < 1e-4);
                }
            }
        }
        let mut rounded = vec![f32::NAN; tokens * shape.width()];
        attention(Attention { precision: Precision::Bf16, ..work }, &mut rounded, &mut scratch);
        for (a, b) in rounded.iter().zip(&expected) {
            prop_assert!((a - b).abs() < BF16_TOLERANCE, "{a} {b}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Sequences of several blocks of keys and several chunks of queries.
    #[test]
    fn equals_the_definition_on_long_sequences(
        length in 250usize..600, seed in prop::collection::vec(-1f32..1.0, 97), mask in masks(), shared in 0usize..300,
    ) {
        let shape = AttentionShape { heads: 2, kv_heads: 1, head_dim: 3 };
        let cu_seqlens = [0, length];
        let stride = shape.qkv_width();
        // Growing numbers, so that later blocks correct the earlier ones.
        let mut qkv = fill(&seed, length * stride, 31);
        qkv.iter_mut().enumerate().for_each(|(i, it)| *it *= 0.5 + i as f32 / (length * stride) as f32 * 2.0);
        let prefix = if mask == Mask::Causal { fill(&seed, shared * stride, 17) } else { Vec::new() };
        let mut scratch = vec![f32::NAN; attention_scratch_len(shape, length + prefix.len() / stride, 2)];
        let mut out = vec![f32::NAN; length * shape.width()];
        let work = Attention { prefix: &prefix, ..Attention::fused(&qkv, &cu_seqlens, shape, mask) };
        attention(work, &mut out, &mut scratch);
        for (a, b) in out.iter().zip(naive(&work)) {
            prop_assert!((a - b).abs() < 2e-4, "{a} {b}");
        }
    }
}
