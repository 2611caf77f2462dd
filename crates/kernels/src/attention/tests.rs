use proptest::prelude::*;

use super::*;
use crate::{MOST_AS_ONE, Rounding, within};

/// The definition, score by score, for all queries.
fn naive<'a>(work: &Attention<'a>) -> Vec<f32> {
    let Attention { keys_values, cu_seqlens, shape, mask, prefix, bias, .. } = *work;
    let (qkv, dim, stride) = (keys_values.data, shape.head_dim, shape.qkv_width());
    let shared = prefix.len() / stride;
    let mut out = Vec::new();
    for sequence in cu_seqlens.windows(2) {
        let rows: Vec<&[f32]> = prefix
            .chunks(stride)
            .chain(qkv[sequence[0] * stride..sequence[1] * stride].chunks(stride))
            .collect();
        for place in shared..rows.len() {
            for head in 0..shape.heads {
                let key = shape.width() + head / (shape.heads / shape.kv_heads) * dim;
                let seen = rows.iter().enumerate().filter(|&(other, _)| match mask {
                    Mask::Full => true,
                    Mask::Causal => other <= place,
                    Mask::Window(reach) => other.abs_diff(place) <= reach,
                });
                let weigh = |(other, row): (usize, &&'a [f32])| {
                    let product: f32 =
                        (0..dim).map(|i| rows[place][head * dim + i] * row[key + i]).sum();
                    let far = bias.map_or(0.0, |it| {
                        it.values[head * (2 * it.reach + 1) + it.reach + other - place]
                    });
                    ((product / (dim as f32).sqrt() + far).exp(), *row)
                };
                let weighed: Vec<(f32, &[f32])> = seen.map(weigh).collect();
                let total: f32 = weighed.iter().map(|it| it.0).sum();
                for value in key + shape.kv_width()..key + shape.kv_width() + dim {
                    let sum: f32 = weighed.iter().map(|(weight, row)| weight * row[value]).sum();
                    out.push(sum / total);
                }
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
    #![proptest_config(ProptestConfig::with_cases(within(64, 1) as u32))]

    #[test]
    fn equals_the_definition_on_ragged_batches(
        lengths in prop::collection::vec(0..within(90, 7), 1..5),
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

/// Rows of f32 as lanes of bf16, head by head, and what is left of them.
fn by_head(qkv: &mut [f32], shape: AttentionShape) -> Vec<f32> {
    let (dim, stride) = (shape.head_dim, shape.qkv_width());
    let rows = qkv.len() / stride;
    let mut lanes = vec![0.0; qkv.len() / 2];
    for (row, values) in qkv.chunks_mut(stride).enumerate() {
        for (place, pair) in values.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let bits = pair.map(|it| half::bf16::from_f32(it).to_bits());
            *pair = bits.map(|it| half::bf16::from_bits(it).to_f32());
            let (head, lane) = (2 * place / dim, place % (dim / 2));
            lanes[(head * rows + row) * (dim / 2) + lane] = crate::lanes::pair_of(pair[0], pair[1]);
        }
    }
    lanes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(within(24, 1) as u32))]

    /// Whole panels and parts of them, one block of keys and several, empty sequences.
    #[test]
    fn heads_of_lanes_equal_the_definition(
        lengths in prop_oneof![
            prop::collection::vec(0..within(90, 7), 1..5), (within(250, 17)..within(300, 20)).prop_map(|it| vec![it]),
        ],
        (group, kv_heads) in (1usize..3, 1usize..3), head_dim in prop::sample::select(vec![32usize, 64, 96]),
        threads in 1usize..3, seed in prop::collection::vec(-1f32..1.0, 97),
    ) {
        let shape = AttentionShape { heads: group * kv_heads, kv_heads, head_dim };
        let cu_seqlens = cumulative(&lengths);
        let tokens = cu_seqlens[lengths.len()];
        let mut qkv = fill(&seed, tokens * shape.qkv_width(), 31);
        let data = by_head(&mut qkv, shape);
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut scratch = vec![f32::NAN; attention_scratch_len(shape, longest, threads)];
        let mut out = vec![f32::NAN; tokens * shape.width()];
        let work = HeadAttention { data: &data, cu_seqlens: &cu_seqlens, shape, bias: None };
        attention_by_head(work, &mut out, &mut scratch);
        let expected = naive(&Attention::fused(&qkv, &cu_seqlens, shape, Mask::Full));
        for (a, b) in out.iter().zip(&expected) {
            // What is left is the rounding of the weights.
            prop_assert!((a - b).abs() < 0.02, "{a} {b}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(within(48, 2) as u32))]

    /// One block of keys and several, rows that begin anywhere in a panel, as f32 and as lanes.
    #[test]
    fn distances_move_scores_as_defined(
        lengths in prop_oneof![
            prop::collection::vec(0..within(90, 7), 1..5), (within(250, 17)..within(540, 20)).prop_map(|it| vec![it]),
        ],
        (group, kv_heads) in (1usize..3, 1usize..3), head_dim in prop::sample::select(vec![4usize, 20, 32, 64]),
        more in 0usize..9, threads in 1usize..3, seed in prop::collection::vec(-1f32..1.0, 97),
    ) {
        let shape = AttentionShape { heads: group * kv_heads, kv_heads, head_dim };
        let (width, stride) = (shape.width(), shape.qkv_width());
        let cu_seqlens = cumulative(&lengths);
        let longest = longest(&cu_seqlens);
        let mut qkv = fill(&seed, cu_seqlens[lengths.len()] * stride, 31);
        // No two distances that are near have the same number; those that nobody asks for have one, too.
        let reach = longest.saturating_sub(1) + more;
        let values = fill(&seed, shape.heads * (2 * reach + 1), 13);
        let bias = Some(DistanceBias { values: &values, reach });
        let data = head_dim.is_multiple_of(32).then(|| by_head(&mut qkv, shape));
        let work = Attention { bias, ..Attention::fused(&qkv, &cu_seqlens, shape, Mask::Full) };
        let expected = naive(&work);
        let mut scratch = vec![f32::NAN; attention_scratch_len(shape, longest, threads)];
        let mut out = vec![f32::NAN; expected.len()];
        attention(work, &mut out, &mut scratch);
        for (a, b) in out.iter().zip(&expected) {
            prop_assert!((a - b).abs() < 2e-4, "{a} {b}");
        }
        attention(Attention { precision: Precision::Bf16, ..work }, &mut out, &mut scratch);
        for (a, b) in out.iter().zip(&expected) {
            prop_assert!((a - b).abs() < BF16_TOLERANCE, "{a} {b}");
        }
        if let Some(data) = data {
            let work = HeadAttention { data: &data, cu_seqlens: &cu_seqlens, shape, bias };
            attention_by_head(work, &mut out, &mut scratch);
            for (a, b) in out.iter().zip(&expected) {
                prop_assert!((a - b).abs() < 0.02, "{a} {b}");
            }
        }
        // The first token of each sequence alone.
        let first = |it: &&[usize]| it[1] > it[0];
        let places: Vec<usize> = cu_seqlens.windows(2).filter(first).map(|it| it[0]).collect();
        let queries: Vec<f32> =
            places.iter().flat_map(|it| qkv[it * stride..][..width].to_vec()).collect();
        let queries = Rows { data: &queries, stride: width, offset: 0 };
        let starts: Vec<usize> = places.iter().copied().chain([cu_seqlens[lengths.len()]]).collect();
        let mut some = vec![f32::NAN; places.len() * width];
        let work = Attention { queries, wanted: Queries::First, cu_seqlens: &starts, ..work };
        attention(work, &mut some, &mut scratch);
        for (some, place) in some.chunks(width).zip(places) {
            for (a, b) in some.iter().zip(&expected[place * width..]) {
                prop_assert!((a - b).abs() < 2e-4, "{a} {b}");
            }
        }
    }
}

/// The definition of attention over a KV cache, in f64.
fn naive_cached(work: &CachedAttention<'_>, tokens: usize) -> Vec<f32> {
    let CachedAttention { queries, keys, values, first, shape, window, scale, softcap, .. } = *work;
    let (dim, kv_width) = (shape.head_dim, shape.kv_width());
    let wide = |bits: u16| f64::from(half::f16::from_bits(bits).to_f32());
    let mut out = Vec::new();
    for token in 0..tokens {
        for head in 0..shape.heads {
            let column = head / (shape.heads / shape.kv_heads) * dim;
            let query = queries.part(token, head * dim, dim);
            let position = first + token;
            let from = window.map_or(0, |window| (position + 1).saturating_sub(window));
            let weights: Vec<f64> = (from..=position)
                .map(|key| {
                    let key = &keys[key * kv_width + column..][..dim];
                    let score: f64 =
                        query.iter().zip(key).map(|(&q, &k)| f64::from(q) * wide(k)).sum();
                    let score = score * f64::from(scale);
                    softcap
                        .map_or(score, |most| f64::from(most) * (score / f64::from(most)).tanh())
                        .exp()
                })
                .collect();
            let total: f64 = weights.iter().sum();
            for i in 0..dim {
                let sum: f64 = weights
                    .iter()
                    .zip(from..)
                    .map(|(weight, key)| weight * wide(values[key * kv_width + column + i]))
                    .sum();
                out.push((sum / total) as f32);
            }
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(within(64, 1) as u32))]

    /// Few tokens and many, from the first position on or far behind it, over several splits of positions.
    #[test]
    fn cached_attention_equals_the_definition(
        tokens in 1..within(60, 6), first in prop_oneof![Just(0usize), 1..within(70, 9), within(450, 17)..within(1300, 20)],
        (group, kv_heads) in (prop::sample::select(vec![1usize, 3, 4, 6]), 1usize..3),
        head_dim in prop::sample::select(vec![2usize, 16, 20, 64, 80, 128]),
        window in prop::sample::select(vec![None, Some(1usize), Some(40), Some(600)]), softcap in prop::sample::select(vec![None, Some(1.5f32)]),
        few in any::<bool>(), threads in 1usize..4, gap in 0usize..3, seed in prop::collection::vec(-1f32..1.0, 97),
    ) {
        let tokens = if few { tokens % few::MOST_TOKENS + 1 } else { tokens };
        let shape = AttentionShape { heads: group * kv_heads, kv_heads, head_dim };
        let narrow = |values: Vec<f32>| -> Vec<u16> { values.into_iter().map(|it| half::f16::from_f32(it).to_bits()).collect() };
        let positions = first + tokens;
        let keys = narrow(fill(&seed, (positions + gap) * shape.kv_width(), 31));
        let values = narrow(fill(&seed, (positions + gap) * shape.kv_width(), 17));
        let stride = shape.width() + gap;
        let data = fill(&seed, tokens * stride, 5);
        let queries = Rows { data: &data, stride, offset: gap };
        let work = CachedAttention {
            queries, keys: &keys, values: &values, first, shape, window, scale: 0.7 / (head_dim as f32).sqrt(), softcap,
            precision: Precision::F32, rounding: Rounding::ByCount,
        };
        let expected = naive_cached(&work, tokens);
        let run = |work: CachedAttention<'_>, tokens: usize, threads: usize| {
            let mut scratch = vec![f32::NAN; cached_attention_scratch_len(shape, tokens, work.first + tokens, threads)];
            let mut out = vec![f32::NAN; tokens * shape.width()];
            let pool = crate::Pool::new(threads).expect("threads");
            pool.run(|| cached_attention(work, &mut out, &mut scratch));
            out
        };
        let out = run(work, tokens, threads);
        for (a, b) in out.iter().zip(&expected) {
            prop_assert!((a - b).abs() < 1e-4, "{a} {b}");
        }
        for (a, b) in run(CachedAttention { precision: Precision::Bf16, ..work }, tokens, threads).iter().zip(&expected) {
            prop_assert!((a - b).abs() < BF16_TOLERANCE, "{a} {b}");
        }
        prop_assert_eq!(&run(work, tokens, threads % 3 + 1), &out);
        // Scratch that was made for more does as well.
        let mut scratch = vec![f32::NAN; cached_attention_scratch_len(shape, 100, 2000, threads)];
        let mut again = vec![f32::NAN; tokens * shape.width()];
        cached_attention(work, &mut again, &mut scratch);
        prop_assert_eq!(&again, &out);
        if tokens <= few::MOST_TOKENS {
            for token in 0..tokens {
                let queries = Rows { data: &data[token * stride..], ..queries };
                let alone = run(CachedAttention { queries, first: first + token, ..work }, 1, threads);
                prop_assert_eq!(&alone, &out[token * shape.width()..][..shape.width()]);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(within(8, 1) as u32))]

    /// However a prompt is cut, into parts of one token or of many, each token gets the same bits.
    #[test]
    fn as_many_tokens_do_not_depend_on_how_they_are_cut(
        tokens in 1..within(400, 12), first in 0..within(300, 20),
        (group, kv_heads) in (prop::sample::select(vec![1usize, 3]), 1usize..3),
        head_dim in prop::sample::select(vec![2usize, 16, 20, 64]),
        window in prop::sample::select(vec![None, Some(1usize), Some(40), Some(300)]), softcap in prop::sample::select(vec![None, Some(1.5f32)]),
        cuts in prop::collection::vec(1usize..200, 1..6), precision in prop::sample::select(vec![Precision::F32, Precision::Bf16]),
        seed in prop::collection::vec(-1f32..1.0, 97),
    ) {
        let shape = AttentionShape { heads: group * kv_heads, kv_heads, head_dim };
        let narrow = |values: Vec<f32>| -> Vec<u16> { values.into_iter().map(|it| half::f16::from_f32(it).to_bits()).collect() };
        let keys = narrow(fill(&seed, (first + tokens) * shape.kv_width(), 31));
        let values = narrow(fill(&seed, (first + tokens) * shape.kv_width(), 17));
        let (stride, width) = (shape.width(), shape.width());
        let data = fill(&seed, tokens * stride, 5);
        let run = |from: usize, to: usize, threads: usize| {
            let queries = Rows { data: &data[from * stride..to * stride], stride, offset: 0 };
            let work = CachedAttention {
                queries, keys: &keys, values: &values, first: first + from, shape, window, scale: 3.0 / (head_dim as f32).sqrt(),
                softcap, precision, rounding: Rounding::AsMany,
            };
            let mut scratch = vec![f32::NAN; cached_attention_scratch_len(shape, to - from, first + to, threads)];
            let mut out = vec![f32::NAN; (to - from) * width];
            crate::Pool::new(threads).expect("threads").run(|| cached_attention(work, &mut out, &mut scratch));
            out
        };
        let whole = run(0, tokens, 2);
        let (mut from, mut turn) = (0, 0);
        while from < tokens {
            let to = tokens.min(from + cuts[turn % cuts.len()]);
            let part = run(from, to, 1);
            let same = part.iter().map(|it| it.to_bits()).eq(whole[from * width..to * width].iter().map(|it| it.to_bits()));
            prop_assert!(same, "tokens {from} to {to} of {tokens} differ");
            (from, turn) = (to, turn + 1);
        }
    }

    /// Each token gets what it would get by itself, and nothing that stands behind it counts, whatever it is.
    #[test]
    fn tokens_as_one_get_the_bits_of_each_alone(
        tokens in 1..=MOST_AS_ONE, first in prop_oneof![Just(0usize), 1..within(70, 9), within(250, 17)..within(1300, 20)],
        (group, kv_heads) in (prop::sample::select(vec![1usize, 3, 4, 7]), 1usize..3),
        head_dim in prop::sample::select(vec![2usize, 16, 20, 64, 128]), wrong in any::<bool>(), threads in 1usize..4,
        window in prop::sample::select(vec![None, Some(1usize), Some(3), Some(40), Some(600)]), softcap in prop::sample::select(vec![None, Some(1.5f32)]),
        seed in prop::collection::vec(-1f32..1.0, 97),
    ) {
        let shape = AttentionShape { heads: group * kv_heads, kv_heads, head_dim };
        let narrow = |values: Vec<f32>| -> Vec<u16> { values.into_iter().map(|it| half::f16::from_f32(it).to_bits()).collect() };
        let keys = narrow(fill(&seed, (first + tokens) * shape.kv_width(), 31));
        let mut values = narrow(fill(&seed, (first + tokens) * shape.kv_width(), 17));
        if wrong {
            // The last token's, which those before it do not see.
            let last = (first + tokens - 1) * shape.kv_width();
            values[last..].fill(half::f16::INFINITY.to_bits());
        }
        let width = shape.width();
        let data = fill(&seed, tokens * width, 5);
        let run = |from: usize, to: usize, rounding, threads: usize| {
            let queries = Rows { data: &data[from * width..to * width], stride: width, offset: 0 };
            let work = CachedAttention {
                queries, keys: &keys, values: &values, first: first + from, shape, window, scale: 3.0 / (head_dim as f32).sqrt(),
                softcap, precision: Precision::Bf16, rounding,
            };
            let mut scratch = vec![f32::NAN; cached_attention_scratch_len(shape, to - from, first + to, threads)];
            let mut out = vec![f32::NAN; (to - from) * width];
            crate::Pool::new(threads).expect("threads").run(|| cached_attention(work, &mut out, &mut scratch));
            out
        };
        let all = run(0, tokens, Rounding::AsOne, threads);
        for token in 0..tokens {
            let alone = run(token, token + 1, Rounding::ByCount, 1);
            let same = alone.iter().map(|it| it.to_bits()).eq(all[token * width..][..width].iter().map(|it| it.to_bits()));
            prop_assert!(same, "token {token} of {tokens} differs");
        }
    }

    /// Sequences of several blocks of keys and several chunks of queries.
    #[test]
    fn equals_the_definition_on_long_sequences(
        length in within(250, 257)..within(600, 262), seed in prop::collection::vec(-1f32..1.0, 97), mask in masks(), shared in 0..within(300, 3),
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
