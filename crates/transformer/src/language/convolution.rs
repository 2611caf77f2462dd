//! Layers that mix tokens by a short gated convolution (LFM2 Technical Report, Liquid AI 2025, §2).
//!
//! A token's normalized state `[hidden_size]` is projected to `b`, `c` and `x` of the same width. What is mixed is
//! `m = b · x`, number by number; a token gets `W_o (c · Σ_k w_k · m_{t−L+1+k})` over the `L` tokens up to itself, with
//! weights `w_k` of each channel, and zeros before the first token.

use std::borrow::Cow;

use riddle_kernels::{Finish, narrow_f16};
use riddle_weights::Dtype;

use super::{KvCache, LanguageModel, LanguageScratch};
use crate::{
    layer::{Linear, Multiply},
    operation::Operation,
};

/// Projections of a token: `b`, `c` and `x`.
pub(super) const PARTS: usize = 3;

/// Weights of a layer's convolution.
pub(super) struct Convolution<'a> {
    /// `[3 · hidden_size, hidden_size]`.
    pub(super) input: Linear<'a>,
    /// Weights of each channel `[hidden_size, L]`, the one of the oldest token first.
    pub(super) kernel: Cow<'a, [f32]>,
    /// `[hidden_size, hidden_size]`.
    pub(super) output: Linear<'a>,
}

impl LanguageModel {
    /// The convolution of the normalized states in `scratch.narrow`, and its residual.
    ///
    /// What is mixed is rounded to half precision before it is used, and not when it is kept: so a token gets the same
    /// whether those before it were read in this pass or in one before.
    pub(super) fn convolve(
        &self,
        layer: usize,
        convolution: &Convolution<'_>,
        first: usize,
        hidden: &mut [f32],
        cache: &mut KvCache,
        scratch: &mut LanguageScratch,
        multiply: Multiply,
    ) {
        let LanguageScratch { wide, narrow, panels, .. } = scratch;
        let width = self.config.hidden_size;
        let tokens = hidden.len() / width;
        let span = Operation::Qkv.enter();
        let (normalized, parts) =
            (&mut narrow[..hidden.len()], &mut wide[..tokens * PARTS * width]);
        multiply.one(normalized, &convolution.input, Finish::Store, parts, panels);
        for (token, parts) in parts.chunks_exact_mut(PARTS * width).enumerate() {
            let (mixed, rest) = parts.split_at_mut(width);
            for (mixed, x) in mixed.iter_mut().zip(&rest[width..]) {
                *mixed *= x;
            }
            let row = cache.mixed_mut(layer, first + token);
            narrow_f16(mixed, row);
            Dtype::F16.widen(bytemuck::cast_slice(row), mixed);
        }
        drop(span);
        let span = Operation::Attention.enter();
        let kernel = by_token(&convolution.kernel, width);
        let mut earlier = vec![0.0; width];
        for (token, out) in normalized.chunks_exact_mut(width).enumerate() {
            let parts = |token: usize| &parts[token * PARTS * width..][..PARTS * width];
            out.fill(0.0);
            let at = first + token + 1;
            for (weights, back) in kernel.chunks_exact(width).zip((1..=kernel.len() / width).rev())
            {
                let Some(place) = at.checked_sub(back) else { continue };
                let mixed = match place.checked_sub(first) {
                    Some(here) => &parts(here)[..width],
                    None => {
                        let (rows, _) = cache.layer(layer);
                        let row = &rows[place * width..][..width];
                        Dtype::F16.widen(bytemuck::cast_slice(row), &mut earlier);
                        &earlier
                    }
                };
                for (out, (weight, mixed)) in out.iter_mut().zip(weights.iter().zip(mixed)) {
                    *out += weight * mixed;
                }
            }
            for (out, c) in out.iter_mut().zip(&parts(token)[width..][..width]) {
                *out *= c;
            }
        }
        drop(span);
        let _span = Operation::Output.enter();
        multiply.one(normalized, &convolution.output, Finish::Add(1.0), hidden, panels);
    }
}

/// Weights `[channels, L]` as `[L, channels]`, which is how they are used.
fn by_token(kernel: &[f32], channels: usize) -> Vec<f32> {
    let tokens = kernel.len() / channels.max(1);
    (0..tokens).flat_map(|token| kernel.iter().skip(token).step_by(tokens).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_channels_become_weights_of_tokens() {
        assert_eq!(by_token(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    }
}
