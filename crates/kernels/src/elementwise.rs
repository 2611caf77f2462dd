//! Activations and rotations, element by element, in place.

use rayon::prelude::*;

use crate::dispatch::{BASELINE_FUSES, PART, mul_add, multiversion};

/// eˣ by range reduction to ±ln 2 / 2 and a polynomial of degree 6 (Cephes' `expf`): relative error
/// below 2e-7, and nothing in it stops the compiler from vectorizing the loop around it. NaN stays NaN.
#[inline(always)]
pub(crate) fn exp<const FUSED: bool>(x: f32) -> f32 {
    // Below −87 the result is no longer a normal number, above 88 it is infinite.
    let x = x.clamp(-87.0, 88.0);
    // Adding 1.5 · 2²³ rounds to the nearest integer n and leaves n in the lowest bits of the sum:
    // neither a rounding instruction nor a conversion is needed, which check for overflow one by one.
    const ROUND: f32 = 12_582_912.0;
    let shifted = mul_add::<FUSED>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    // ln 2 in two parts, so that n · ln 2 is exact enough.
    let r = mul_add::<FUSED>(n, -0.693_359_4, x);
    let r = mul_add::<FUSED>(n, 2.121_944_4e-4, r);
    let p = 1.987_569_1e-4;
    let p = mul_add::<FUSED>(p, r, 1.398_199_9e-3);
    let p = mul_add::<FUSED>(p, r, 8.333_452e-3);
    let p = mul_add::<FUSED>(p, r, 4.166_579_6e-2);
    let p = mul_add::<FUSED>(p, r, 1.666_666_5e-1);
    let p = mul_add::<FUSED>(p, r, 0.5);
    let value = mul_add::<FUSED>(p * r, r, r) + 1.0;
    // 2ⁿ: n added to the exponent of 1; n is in −126…127 after the clamp.
    value * f32::from_bits((shifted.to_bits() << 23).wrapping_add(1f32.to_bits()))
}

/// 2ʳ on ±½, coefficients from the lowest: relative error 7.5e-5 (a minimax fit of our own), a fiftieth of what bf16
/// rounds away.
#[cfg(target_arch = "x86_64")]
pub(crate) const SHORT_POWER: [f32; 4] = [0.999_928, 0.693_261, 0.242_611_4, 5.517_177e-2];

/// 2 Φ(x) − 1 = erf(x / √2) as a ratio of polynomials of x²: coefficients from the lowest.
pub(crate) struct NormalRatio {
    /// Where |x| is cut: the ratio is larger than 1 there, and erf 1 to the last bit.
    pub(crate) end: f32,
    pub(crate) above: [f32; 7],
    pub(crate) below: [f32; 5],
}

/// Absolute error 6e-8 before rounding: a minimax fit of our own on ±5.1 (linear programs, each over the denominator
/// of the one before). Beyond, the ratio grows past 1, where it is cut.
pub(crate) const NORMAL: NormalRatio = NormalRatio {
    end: 5.5,
    above: [
        0.797_884_2,
        6.697_934e-2,
        8.710_078e-3,
        2.945_806e-4,
        6.169_117e-6,
        -4.662_311e-8,
        2.557_667e-10,
    ],
    below: [1.0, 0.250_610_4, 2.768_890_5e-2, 1.691_708_8e-3, 5.549_046e-5],
};

/// 2 Φ(x) − 1.
#[inline(always)]
fn normal<const FUSED: bool>(x: f32) -> f32 {
    let x = x.clamp(-NORMAL.end, NORMAL.end);
    let square = x * x;
    let [mut above, mut below] = [NORMAL.above[6], NORMAL.below[4]];
    for i in (0..6).rev() {
        above = mul_add::<FUSED>(above, square, NORMAL.above[i]);
    }
    for i in (0..4).rev() {
        below = mul_add::<FUSED>(below, square, NORMAL.below[i]);
    }
    (x * above / below).clamp(-1.0, 1.0)
}

/// GELU in its exact form, x · Φ(x), in place: Hugging Face's `hidden_act = "gelu"`. Absolute error
/// below 1.2e-6 for |x| ≤ 10 (half a last bit of 10 is 5e-7). NaN stays NaN. Runs on the threads of the current pool.
pub fn gelu(values: &mut [f32]) {
    if values.len() <= PART {
        gelu_chosen(values);
    } else {
        values.par_chunks_mut(PART).for_each(gelu_chosen);
    }
}

fn gelu_chosen(values: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if crate::dispatch::has_avx512() {
        // SAFETY: the processor has AVX-512.
        return unsafe { crate::x86::wide::gelu_slice(values) };
    }
    #[cfg(target_arch = "x86_64")]
    if crate::dispatch::has_avx2() {
        // SAFETY: the processor has AVX2 and FMA.
        return unsafe { crate::x86::narrow::gelu_slice(values) };
    }
    portable_gelu::<BASELINE_FUSES>(values);
}

fn portable_gelu<const FUSED: bool>(values: &mut [f32]) {
    for value in values {
        *value = gelu_of::<FUSED>(*value);
    }
}

/// x · Φ(x).
#[inline(always)]
pub(crate) fn gelu_of<const FUSED: bool>(x: f32) -> f32 {
    let half = 0.5 * x;
    mul_add::<FUSED>(half, normal::<FUSED>(x), half)
}

/// Φ(x) = ½ + x · P(x²), with x cut at ±`end`, where it is 1 or 0 up to rounding: coefficients from the lowest.
pub(crate) struct ShortNormal {
    pub(crate) end: f32,
    pub(crate) factors: [f32; 7],
}

/// x · Φ(x) by this is off by 1.7e-4 at most, the least that seven coefficients allow (a linear program over |x| ≤
/// `end`). That is for products of bytes, which are quantized again next: a step of theirs is a hundred times as
/// much.
pub(crate) const SHORT_NORMAL: ShortNormal = ShortNormal {
    end: 3.95,
    factors: [
        0.397_986_7,
        -6.472_272e-2,
        8.842_9e-3,
        -8.290_354e-4,
        4.955_154_5e-5,
        -1.681_133_4e-6,
        2.443_542_3e-8,
    ],
};

/// x · Φ(x) by [`SHORT_NORMAL`].
#[inline(always)]
pub(crate) fn short_gelu_of<const FUSED: bool>(x: f32) -> f32 {
    let inside = x.clamp(-SHORT_NORMAL.end, SHORT_NORMAL.end);
    let square = inside * inside;
    let mut factor = SHORT_NORMAL.factors[6];
    for i in (0..6).rev() {
        factor = mul_add::<FUSED>(factor, square, SHORT_NORMAL.factors[i]);
    }
    x * mul_add::<FUSED>(inside, factor, 0.5)
}

/// GELU by its approximation with tanh: `hidden_act = "gelu_pytorch_tanh"`. As tanh y = 2 σ(2 y) − 1, it is
/// x · σ(2 y).
#[inline(always)]
pub(crate) fn gelu_tanh_of<const FUSED: bool>(x: f32) -> f32 {
    let y = 0.797_884_6 * (x + 0.044_715 * x * x * x);
    x / (1.0 + exp::<FUSED>(-2.0 * y))
}

/// tanh x = 1 − 2 / (e²ˣ + 1): absolute error below 1e-6.
#[inline(always)]
pub(crate) fn tanh_of<const FUSED: bool>(x: f32) -> f32 {
    1.0 - 2.0 / (exp::<FUSED>(2.0 * x) + 1.0)
}

/// x · σ(x).
#[inline(always)]
pub(crate) fn silu_of<const FUSED: bool>(x: f32) -> f32 {
    x / (1.0 + exp::<FUSED>(-x))
}

/// The gate of a gated feed-forward layer (Shazeer 2020).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// x · σ(x), of SwiGLU.
    Silu,
    /// x · Φ(x), of GeGLU, in its exact form.
    Gelu,
    /// x · Φ(x) by tanh, of Gemma.
    GeluTanh,
}

/// `values = activation(values) · up`, element by element. NaN stays NaN. Runs on the threads of the current
/// pool.
///
/// # Panics
/// When the slices differ in length: the caller's bug.
pub fn gated(gate: Gate, values: &mut [f32], up: &[f32]) {
    assert_eq!(values.len(), up.len(), "gate and up differ in length");
    let part = match gate {
        Gate::Silu => silu_mul_part,
        Gate::Gelu => gelu_mul_part,
        Gate::GeluTanh => gelu_tanh_mul_part,
    };
    if values.len() <= PART {
        part(values, up);
    } else {
        values.par_chunks_mut(PART).zip(up.par_chunks(PART)).for_each(|(a, b)| part(a, b));
    }
}

multiversion! {
    fn silu_mul_part(values: &mut [f32], up: &[f32]) {
        for (value, up) in values.iter_mut().zip(up) {
            *value = silu_of::<FUSED>(*value) * up;
        }
    }
}

multiversion! {
    fn gelu_mul_part(values: &mut [f32], up: &[f32]) {
        for (value, up) in values.iter_mut().zip(up) {
            *value = gelu_of::<FUSED>(*value) * up;
        }
    }
}

multiversion! {
    fn gelu_tanh_mul_part(values: &mut [f32], up: &[f32]) {
        for (value, up) in values.iter_mut().zip(up) {
            *value = gelu_tanh_of::<FUSED>(*value) * up;
        }
    }
}

/// Rotates the heads of some columns by their token's position (RoPE, Su et al. 2021): `values` `[tokens, stride]`,
/// of which `columns` from `first` on are heads of `head` elements. The first `2 · half` of each are rotated; `cos`
/// and `sin` `[positions, half]`. Token t of a sequence stands at position `first_position + t`.
///
/// # Panics
/// When a position is beyond the tables, or a head is shorter than what is rotated of it: the caller's bug.
pub fn rotate(values: &mut [f32], work: Rotation<'_>) {
    let Rotation { stride, cu_seqlens, .. } = work;
    let tokens = cu_seqlens.last().copied().unwrap_or(0);
    let per_part = (PART / stride).max(1);
    values[..tokens * stride].par_chunks_mut(per_part * stride).enumerate().for_each(
        |(part, values)| {
            let mut sequence = 0;
            for (token, row) in (part * per_part..).zip(values.chunks_exact_mut(stride)) {
                while cu_seqlens[sequence + 1] <= token {
                    sequence += 1;
                }
                rotate_row(row, work, work.first_position + token - cu_seqlens[sequence]);
            }
        },
    );
}

/// Which elements of a head are rotated against each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairs {
    /// i and i + half, as Hugging Face's `rotate_half` does.
    Halves,
    /// 2 i and 2 i + 1, as the paper does, and GGUF files of the llama family.
    Neighbors,
}

/// What [`rotate`] works with.
#[derive(Debug, Clone, Copy)]
pub struct Rotation<'a> {
    /// Elements from one token to the next.
    pub stride: usize,
    /// First column of the heads.
    pub first: usize,
    /// Columns of all heads together.
    pub columns: usize,
    /// Cumulative token counts, from 0.
    pub cu_seqlens: &'a [usize],
    /// Position of each sequence's first token.
    pub first_position: usize,
    /// Elements of a head.
    pub head: usize,
    /// Half of those that are rotated.
    pub half: usize,
    /// Cosines `[positions, half]`.
    pub cos: &'a [f32],
    /// Sines `[positions, half]`.
    pub sin: &'a [f32],
    /// Which elements make a pair.
    pub pairs: Pairs,
}

multiversion! {
    fn rotate_row(row: &mut [f32], work: Rotation<'_>, position: usize) {
        let Rotation { first, columns, head, half, cos, sin, pairs, .. } = work;
        let cos = &cos[position * half..][..half];
        let sin = &sin[position * half..][..half];
        for head in row[first..first + columns].chunks_exact_mut(head) {
            let head = &mut head[..2 * half];
            if pairs == Pairs::Neighbors {
                for ((pair, cos), sin) in head.as_chunks_mut::<2>().0.iter_mut().zip(cos).zip(sin) {
                    let [x, y] = *pair;
                    *pair = [x * cos - y * sin, y * cos + x * sin];
                }
                continue;
            }
            let (low, high) = head.split_at_mut(half);
            for (((a, b), cos), sin) in low.iter_mut().zip(high).zip(cos).zip(sin) {
                let (x, y) = (*a, *b);
                *a = x * cos - y * sin;
                *b = y * cos + x * sin;
            }
        }
    }
}

/// tanh, in place. Used on one token per sequence only: the library's own is fast enough.
pub fn tanh(values: &mut [f32]) {
    for value in values {
        *value = value.tanh();
    }
}

/// 1 / (1 + e⁻ˣ).
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// erf by its Taylor series in f64, which loses a digit or two per unit; beyond 4, 1 to the accuracy tested.
    fn erf_naive(x: f64) -> f64 {
        if x.abs() > 4.0 {
            return x.signum();
        }
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    }

    proptest! {
        #[test]
        fn gelu_equals_its_definition(x in -4.5f32..4.5) {
            let mut value = [x];
            gelu(&mut value);
            let x = f64::from(x);
            let expected = 0.5 * x * (1.0 + erf_naive(x / 2f64.sqrt()));
            prop_assert!((f64::from(value[0]) - expected).abs() < 1e-6, "{} {expected}", value[0]);
        }

        #[test]
        fn short_gelu_is_near_its_definition(x in prop_oneof![-6f32..6.0, -100f32..100.0]) {
            let wide = f64::from(x);
            let expected = 0.5 * wide * (1.0 + erf_naive(wide / 2f64.sqrt()));
            for value in [short_gelu_of::<false>(x), short_gelu_of::<true>(x)] {
                prop_assert!((f64::from(value) - expected).abs() < 1.8e-4, "{value} {expected}");
            }
        }

        #[test]
        fn exp_is_within_rounding(x in -80f32..80.0) {
            let expected = f64::from(x).exp();
            for value in [exp::<false>(x), exp::<true>(x)] {
                prop_assert!((f64::from(value) / expected - 1.0).abs() < 3e-7);
            }
        }
    }

    #[test]
    fn every_version_of_gelu_equals_its_definition() {
        let values: Vec<f32> = (0..100_003).map(|i| (i as f32 - 50_000.0) / 5_000.0).collect();
        #[allow(unused_mut, reason = "on other processors the portable one is all")]
        let mut versions: Vec<fn(&mut [f32])> =
            vec![portable_gelu::<false>, portable_gelu::<true>, gelu_chosen];
        #[cfg(target_arch = "x86_64")]
        if crate::Isa::Avx2.runs_here() {
            // SAFETY: the processor has the features.
            versions.push(|values| unsafe { crate::x86::narrow::gelu_slice(values) });
        }
        for version in versions {
            let mut result = values.clone();
            version(&mut result);
            for (value, &x) in result.iter().zip(&values) {
                let x = f64::from(x);
                let expected = 0.5 * x * (1.0 + erf_naive(x / 2f64.sqrt()));
                // The rounding of a large value's last bit is more than the formula's error.
                let error = (f64::from(*value) - expected).abs();
                assert!(error < 8e-7 + 6e-8 * x.abs(), "{x}: {value} {expected}");
            }
        }
    }

    #[test]
    fn long_slices_are_cut_without_a_gap() {
        let values: Vec<f32> = (0..3 * PART + 7).map(|i| (i % 97) as f32 / 10.0 - 4.8).collect();
        let mut all = values.clone();
        gelu(&mut all);
        for (value, &x) in all.iter().zip(&values) {
            let mut alone = [x];
            gelu(&mut alone);
            assert_eq!(*value, alone[0]);
        }
    }

    #[test]
    fn tails_are_exact_and_nan_stays() {
        let mut values = [-40.0, 40.0, 0.0, f32::NAN];
        gelu(&mut values);
        assert_eq!(values[..3], [0.0, 40.0, 0.0]);
        assert!(values[3].is_nan());
    }

    proptest! {
        #[test]
        fn tanh_is_within_rounding(x in -20f32..20.0) {
            for value in [tanh_of::<false>(x), tanh_of::<true>(x)] {
                prop_assert!((f64::from(value) - f64::from(x).tanh()).abs() < 1e-6);
            }
        }

        #[test]
        fn gates_equal_their_definition(x in -4.5f32..4.5, up in -2f32..2.0) {
            let wide = f64::from(x);
            let silu = wide / (1.0 + (-wide).exp()) * f64::from(up);
            let gelu = 0.5 * wide * (1.0 + erf_naive(wide / 2f64.sqrt())) * f64::from(up);
            let tanh = ((2.0 / std::f64::consts::PI).sqrt() * (wide + 0.044715 * wide.powi(3))).tanh();
            let gelu_tanh = 0.5 * wide * (1.0 + tanh) * f64::from(up);
            for (gate, expected) in [(Gate::Silu, silu), (Gate::Gelu, gelu), (Gate::GeluTanh, gelu_tanh)] {
                let mut value = [x];
                gated(gate, &mut value, &[up]);
                prop_assert!((f64::from(value[0]) - expected).abs() < 2e-6, "{} {expected}", value[0]);
            }
        }

        #[test]
        fn rotations_keep_lengths_and_turn_by_the_position(
            lengths in prop::collection::vec(0usize..5, 1..4), first_position in 0usize..3, seed in -1f32..1.0, apart in any::<bool>(),
            half in 1usize..3,
        ) {
            // Rows of 9: one column that is left alone, two heads of four, all of which or the first two are rotated.
            let stride = 9;
            let pairs = if apart { Pairs::Halves } else { Pairs::Neighbors };
            let mut cu_seqlens = vec![0];
            for length in &lengths {
                cu_seqlens.push(cu_seqlens[cu_seqlens.len() - 1] + length);
            }
            let tokens = cu_seqlens[lengths.len()];
            let angle = |position: usize, i: usize| position as f32 * 0.7 + i as f32;
            let table = |f: fn(f32) -> f32| -> Vec<f32> { (0..8 * half).map(|it| f(angle(it / half, it % half))).collect() };
            let (cos, sin) = (table(f32::cos), table(f32::sin));
            let values: Vec<f32> = (0..tokens * stride).map(|it| seed + it as f32 * 0.01).collect();
            let mut rotated = values.clone();
            rotate(&mut rotated, Rotation { stride, first: 1, columns: 8, cu_seqlens: &cu_seqlens, first_position, head: 4, half, cos: &cos, sin: &sin, pairs });
            for sequence in cu_seqlens.windows(2) {
                for token in sequence[0]..sequence[1] {
                    let position = first_position + token - sequence[0];
                    let (old, new) = (&values[token * stride..][..stride], &rotated[token * stride..][..stride]);
                    prop_assert_eq!(old[0], new[0]);
                    for head in [1, 5] {
                        for i in 0..half {
                            let (a, b) = if apart { (i, half + i) } else { (2 * i, 2 * i + 1) };
                            let (x, y) = (old[head + a], old[head + b]);
                            let (c, s) = (angle(position, i).cos(), angle(position, i).sin());
                            prop_assert!((new[head + a] - (x * c - y * s)).abs() < 1e-6);
                            prop_assert!((new[head + b] - (y * c + x * s)).abs() < 1e-6);
                        }
                        let still = head + 2 * half..head + 4;
                        prop_assert_eq!(&old[still.clone()], &new[still]);
                    }
                }
            }
        }
    }
}
