//! Tokens that see the others of their sequence and are seen by none: the masks that a late interaction fills its
//! queries with (Khattab and Zaharia 2020, section 3.2).

use riddle_kernels::{Attention, Mask, Queries, Rows, attention};

/// [`attention`] where the last `unseen` tokens of the batch's one sequence have queries, and keys for nobody, not even
/// for themselves. A local layer's token from which no key is in reach sees the nearest one.
pub(crate) fn attention_but_for(
    unseen: usize,
    work: Attention<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) {
    if unseen == 0 {
        return attention(work, out, scratch);
    }
    let tokens = work.cu_seqlens.last().copied().unwrap_or(0);
    let one = work.cu_seqlens.len() == 2 && unseen < tokens;
    assert!(
        one && work.prefix.is_empty() && work.bias.is_none(),
        "one sequence of which something is seen, wherever it stands: this is a bug"
    );
    let seen = tokens - unseen;
    attention(Attention { cu_seqlens: &[0, seen], ..work }, out, scratch);
    let width = work.shape.width();
    for token in seen..tokens {
        let from = match work.mask {
            Mask::Window(reach) => token.saturating_sub(reach).min(seen - 1),
            Mask::Full | Mask::Causal => 0,
        };
        let rows = |rows: Rows<'_>, first: usize| rows.data.len().min(first * rows.stride);
        let keys = work.keys_values;
        let single = Attention {
            queries: Rows { data: &work.queries.data[rows(work.queries, token)..], ..work.queries },
            keys_values: Rows { data: &keys.data[rows(keys, from)..], ..keys },
            cu_seqlens: &[0, seen - from],
            mask: Mask::Full,
            wanted: Queries::First,
            ..work
        };
        attention(single, &mut out[token * width..][..width], scratch);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use riddle_kernels::{AttentionShape, attention_scratch_len};

    use super::*;

    /// softmax(q · kᵀ / √d) · v of one token, in double precision, over the keys that it sees.
    fn naive(
        qkv: &[f32],
        shape: AttentionShape,
        token: usize,
        keys: std::ops::Range<usize>,
    ) -> Vec<f64> {
        let (width, stride, dim) = (shape.width(), shape.qkv_width(), shape.head_dim);
        let at = |row: usize, column: usize| f64::from(qkv[row * stride + column]);
        let mut out = vec![0.0; width];
        for head in 0..shape.heads {
            let columns = head * dim..(head + 1) * dim;
            let product = |key: usize| -> f64 {
                columns.clone().map(|it| at(token, it) * at(key, width + it)).sum()
            };
            let scores: Vec<f64> =
                keys.clone().map(|key| (product(key) / (dim as f64).sqrt()).exp()).collect();
            let sum: f64 = scores.iter().sum();
            for column in columns {
                let values = keys.clone().zip(&scores);
                out[column] = values.map(|(key, it)| it / sum * at(key, 2 * width + column)).sum();
            }
        }
        out
    }

    proptest! {
        #[test]
        fn what_is_unseen_sees_and_is_not_seen(
            seen in 1usize..20, unseen in 0usize..20, heads in 1usize..4, reach in 0usize..12,
            local in any::<bool>(), seed in any::<u32>(),
        ) {
            let shape = AttentionShape { heads, kv_heads: heads, head_dim: 8 };
            let (tokens, stride) = (seen + unseen, shape.qkv_width());
            let number = |it: usize| ((it as f32 + seed as f32 % 977.0) * 0.37).sin();
            let qkv: Vec<f32> = (0..tokens * stride).map(number).collect();
            let mask = if local { Mask::Window(reach) } else { Mask::Full };
            let cu_seqlens = [0, tokens];
            let mut out = vec![f32::NAN; tokens * shape.width()];
            let mut scratch = vec![0.0; attention_scratch_len(shape, tokens, 1)];
            attention_but_for(unseen, Attention::fused(&qkv, &cu_seqlens, shape, mask), &mut out, &mut scratch);
            for (token, out) in out.chunks_exact(shape.width()).enumerate() {
                let keys = match local {
                    false => 0..seen,
                    true if token < seen => token.saturating_sub(reach)..(token + reach + 1).min(seen),
                    true => token.saturating_sub(reach).min(seen - 1)..seen,
                };
                for (out, expected) in out.iter().zip(naive(&qkv, shape, token, keys)) {
                    prop_assert!((f64::from(*out) - expected).abs() < 1e-4, "token {token}: {out} and {expected}");
                }
            }
        }
    }
}
