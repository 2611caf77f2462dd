//! Elementwise routines by hand, with fused multiplications: what runs beside the products must not take longer than
//! they do. The portable ones are their twins. They are written once, for both sizes of registers.

use crate::{
    Finish, Gate,
    elementwise::{NORMAL, SHORT_NORMAL},
    micro::TILE_COLUMNS,
};

/// What turns a tile's sums into products, see `linear::block`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sums<'a> {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) bias: &'a [f32; TILE_COLUMNS],
    pub(crate) scales: &'a [f32; TILE_COLUMNS],
    pub(crate) excess: &'a [i32; TILE_COLUMNS],
    /// Empty when the sums are f32.
    pub(crate) row_scales: &'a [f32],
}

/// The routines with one size of registers.
macro_rules! routines {
    ($module:ident, $features:literal) => {
        pub(crate) mod $module {
            use super::*;
            use crate::x86::registers::$module::*;

            /// eˣ as the portable one computes it.
            #[inline]
            #[target_feature(enable = $features)]
            fn exp(x: Floats) -> Floats {
                // NaN as the second operand stays.
                let x = min(set(88.0), max(set(-87.0), x));
                // As the portable one: a rounding and a scaling instruction exist, but take several turns each.
                const ROUND: f32 = 12_582_912.0;
                let shifted = fma(x, set(std::f32::consts::LOG2_E), set(ROUND));
                let n = sub(shifted, set(ROUND));
                let r = fnma(n, set(0.693_359_4), x);
                let r = fnma(n, set(-2.121_944_4e-4), r);
                let p = fma(set(1.987_569_1e-4), r, set(1.398_199_9e-3));
                let p = fma(p, r, set(8.333_452e-3));
                let p = fma(p, r, set(4.166_579_6e-2));
                let p = fma(p, r, set(1.666_666_5e-1));
                let p = fma(p, r, set(0.5));
                let p = fma(mul(p, r), r, r);
                mul(add(p, set(1.0)), power(shifted))
            }

            /// 1 / x to the last bit or two: an estimate and a Newton step.
            #[inline]
            #[target_feature(enable = $features)]
            fn inverse(x: Floats) -> Floats {
                let y = estimated_inverse(x);
                fma(y, fnma(x, y, set(1.0)), y)
            }

            /// x · Φ(x), see the portable one.
            #[inline]
            #[target_feature(enable = $features)]
            fn gelu(x: Floats) -> Floats {
                // NaN as the second operand stays.
                let inside = min(set(NORMAL.end), max(set(-NORMAL.end), x));
                let square = mul(inside, inside);
                let [mut above, mut below] = [set(NORMAL.above[6]), set(NORMAL.below[4])];
                for i in (0..6).rev() {
                    above = fma(above, square, set(NORMAL.above[i]));
                }
                for i in (0..4).rev() {
                    below = fma(below, square, set(NORMAL.below[i]));
                }
                let ratio = mul(mul(inside, above), inverse(below));
                let ratio = min(set(1.0), max(set(-1.0), ratio));
                let half = mul(x, set(0.5));
                fma(half, ratio, half)
            }

            /// The short GELU in registers; the portable one says how.
            #[inline]
            #[target_feature(enable = $features)]
            fn short_gelu(x: Floats) -> Floats {
                // NaN as the second operand stays.
                let inside = min(set(SHORT_NORMAL.end), max(set(-SHORT_NORMAL.end), x));
                let square = mul(inside, inside);
                let mut factor = set(SHORT_NORMAL.factors[6]);
                for i in (0..6).rev() {
                    factor = fma(factor, square, set(SHORT_NORMAL.factors[i]));
                }
                mul(x, fma(inside, factor, set(0.5)))
            }

            /// x · σ(x), given −x times what scales it.
            #[inline]
            #[target_feature(enable = $features)]
            fn gated(x: Floats, negative: Floats) -> Floats {
                div(x, add(set(1.0), exp(negative)))
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn silu(x: Floats) -> Floats {
                gated(x, sub(set(0.0), x))
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn gelu_tanh(x: Floats) -> Floats {
                let cube = mul(mul(x, x), x);
                let y = fma(cube, set(0.044_715), x);
                gated(x, mul(y, set(-2.0 * 0.797_884_6)))
            }

            /// Turns sums into products and writes them.
            ///
            /// # Safety
            /// The processor has the features; `out` points to `sums.rows` rows, `stride` apart, of `sums.columns`,
            /// which nobody else uses.
            #[target_feature(enable = $features)]
            pub(crate) unsafe fn finish_tile(
                tile: &[[u32; TILE_COLUMNS]],
                sums: Sums<'_>,
                finish: Finish<'_>,
                out: *mut f32,
                stride: usize,
            ) {
                let bytes = !sums.row_scales.is_empty();
                for part in 0..sums.columns.div_ceil(LANES) {
                    let from = part * LANES;
                    let count = (sums.columns - from).min(LANES);
                    let mask = first(count);
                    // SAFETY: a tile's rows have 32 columns, and so have bias, scales and excess; the mask leaves out
                    // what is beyond the columns of `out`.
                    unsafe {
                        let bias = load(sums.bias.as_ptr().add(from));
                        let scales = load(sums.scales.as_ptr().add(from));
                        let excess = sums.excess.as_ptr().add(from);
                        for (row, tile) in tile.iter().enumerate().take(sums.rows) {
                            let bits = tile.as_ptr().add(from);
                            let value = match sums.row_scales.get(row) {
                                Some(&scale) => {
                                    fma(difference(bits, excess), mul(scales, set(scale)), bias)
                                }
                                None => add(load(bits.cast()), bias),
                            };
                            let place = out.add(row * stride + from);
                            // Whole registers are the rule, and masks are slow on some processors.
                            let whole = count == LANES;
                            let old = || if whole { load(place) } else { load_part(mask, place) };
                            let value = match finish {
                                Finish::Store | Finish::Heads { .. } => value,
                                Finish::Gelu if bytes => short_gelu(value),
                                Finish::Gelu => gelu(value),
                                Finish::GeluTanh => gelu_tanh(value),
                                Finish::Add(scale) => fma(value, set(scale), old()),
                                Finish::AddLayerNorm { .. } => add(value, old()),
                                Finish::Gate(Gate::Silu) => mul(silu(old()), value),
                                Finish::Gate(Gate::Gelu) => mul(gelu(old()), value),
                                Finish::Gate(Gate::GeluTanh) => mul(gelu_tanh(old()), value),
                            };
                            if whole { store(place, value) } else { store_part(mask, place, value) }
                        }
                    }
                }
            }

            /// GELU in place.
            ///
            /// # Safety
            /// The processor has the features.
            #[target_feature(enable = $features)]
            pub(crate) unsafe fn gelu_slice(values: &mut [f32]) {
                let (chunks, rest) = values.as_chunks_mut::<LANES>();
                for chunk in chunks {
                    // SAFETY: a chunk is a register.
                    unsafe { store(chunk.as_mut_ptr(), gelu(load(chunk.as_ptr()))) };
                }
                let mask = first(rest.len());
                // SAFETY: the mask leaves out what is beyond the rest.
                unsafe {
                    store_part(mask, rest.as_mut_ptr(), gelu(load_part(mask, rest.as_ptr())))
                };
            }

            /// Which numbers of the register that begins at `base` lie between `from` and `to`; nothing if all do.
            #[inline(always)]
            fn part(base: usize, from: usize, to: usize) -> Option<Mask> {
                let inside = from <= base && base + LANES <= to;
                let place = |it: usize| it.saturating_sub(base).min(LANES);
                (!inside).then(|| between(place(from), place(to).max(place(from))))
            }

            /// The largest of `top` and of `row` between `from` and `to`; NaN counts for nothing.
            ///
            /// # Safety
            /// The processor has the features; `row` is made of whole registers.
            #[target_feature(enable = $features)]
            pub(crate) unsafe fn largest(row: &[f32], from: usize, to: usize, top: f32) -> f32 {
                let mut tops = [set(top); 2];
                let start = from / LANES * LANES;
                for base in (start..to).step_by(2 * LANES) {
                    for (i, top) in tops.iter_mut().enumerate() {
                        let base = base + i * LANES;
                        if base < to {
                            // SAFETY: the caller's promise. With NaN as the first operand, the second is taken.
                            let values = unsafe { load(row.as_ptr().add(base)) };
                            *top = match part(base, from, to) {
                                None => max(values, *top),
                                Some(mask) => max(choose(mask, values, *top), *top),
                            };
                        }
                    }
                }
                largest_of(max(tops[0], tops[1]))
            }

            /// Turns scores between `from` and `to` into e^(score − top), others into zeros, and gives the sum.
            ///
            /// # Safety
            /// The processor has the features; `row` is made of whole registers.
            #[target_feature(enable = $features)]
            pub(crate) unsafe fn exponentials(
                row: &mut [f32],
                from: usize,
                to: usize,
                top: f32,
            ) -> f32 {
                let top = set(top);
                let mut sum = set(0.0);
                // Whole registers are stored: what is read next, of other sizes, would wait for parts of one.
                for base in (0..row.len()).step_by(LANES) {
                    // SAFETY: the caller's promise.
                    unsafe {
                        let place = row.as_mut_ptr().add(base);
                        let value = exp(sub(load(place), top));
                        let value = match part(base, from, to) {
                            None => value,
                            Some(mask) => choose(mask, value, set(0.0)),
                        };
                        store(place, value);
                        sum = add(sum, value);
                    }
                }
                total(sum)
            }
        }
    };
}

routines!(wide, "avx512f,avx512dq");
routines!(narrow, "avx2,fma");

mod rounded {
    use std::arch::x86_64::*;

    use super::Sums;
    use crate::{elementwise::SHORT_POWER, micro::TILE_COLUMNS};

    /// f32 in a register.
    const LANES: usize = 16;

    /// As [`wide::exponentials`](super::wide::exponentials), of scores that are powers of two when they are
    /// multiplied with `power`; rounded to bf16, two to a lane, into `lanes`: half as many as the row has numbers.
    /// The exponential is exact to what that rounding leaves.
    ///
    /// # Safety
    /// The processor has AVX-512 F, VL, BW, DQ and BF16; `row` is made of whole registers.
    #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx512bf16")]
    pub(crate) unsafe fn rounded_exponentials(
        row: &[f32],
        from: usize,
        to: usize,
        top: f32,
        power: f32,
        lanes: &mut [f32],
    ) -> f32 {
        let (pairs, last) = row.as_chunks::<{ 2 * LANES }>();
        let (out, rest) = lanes.as_chunks_mut::<LANES>();
        let line = (_mm512_set1_ps(power), _mm512_set1_ps(-top * power));
        let mut sums = [_mm512_setzero_ps(); 2];
        for (number, (pair, out)) in pairs.iter().zip(out).enumerate() {
            let base = number * 2 * LANES;
            // SAFETY: a pair is two registers, and so many lanes are one.
            unsafe {
                let low = weight(pair.as_ptr(), base, from, to, line);
                let high = weight(pair.as_ptr().add(LANES), base + LANES, from, to, line);
                sums = [_mm512_add_ps(sums[0], low), _mm512_add_ps(sums[1], high)];
                let both = std::mem::transmute::<__m512bh, __m512>(_mm512_cvtne2ps_pbh(high, low));
                _mm512_storeu_ps(out.as_mut_ptr(), both);
            }
        }
        if let (Some(last), Some(out)) = (last.first_chunk::<LANES>(), rest.first_chunk_mut::<8>())
        {
            // SAFETY: a register, and half of one.
            unsafe {
                let value = weight(last.as_ptr(), row.len() - LANES, from, to, line);
                sums[0] = _mm512_add_ps(sums[0], value);
                let half = std::mem::transmute::<__m256bh, __m256>(_mm512_cvtneps_pbh(value));
                _mm256_storeu_ps(out.as_mut_ptr(), half);
            }
        }
        _mm512_reduce_add_ps(_mm512_add_ps(sums[0], sums[1]))
    }

    /// 2^(score · `line.0` + `line.1`) of the register that begins at `base`, zeros beyond `from` and `to`.
    ///
    /// # Safety
    /// The processor has the features; a register of scores is there.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn weight(
        scores: *const f32,
        base: usize,
        from: usize,
        to: usize,
        line: (__m512, __m512),
    ) -> __m512 {
        const ROUND: f32 = 12_582_912.0;
        let set = |it: f32| _mm512_set1_ps(it);
        // SAFETY: the caller's promise.
        let scores = unsafe { _mm512_loadu_ps(scores) };
        // No power is above 0. NaN as the second operand stays.
        let x = _mm512_fmadd_ps(scores, line.0, line.1);
        let x = _mm512_max_ps(set(-126.0), x);
        let shifted = _mm512_add_ps(x, set(ROUND));
        let r = _mm512_sub_ps(x, _mm512_sub_ps(shifted, set(ROUND)));
        let [a, b, c, d] = SHORT_POWER;
        let p = _mm512_fmadd_ps(_mm512_fmadd_ps(set(d), r, set(c)), r, set(b));
        let p = _mm512_castps_si512(_mm512_fmadd_ps(p, r, set(a)));
        let n = _mm512_slli_epi32::<23>(_mm512_castps_si512(shifted));
        let value = _mm512_castsi512_ps(_mm512_add_epi32(p, n));
        if from <= base && base + LANES <= to {
            return value;
        }
        let first = |it: usize| (1u32 << it.saturating_sub(base).min(LANES)) - 1;
        _mm512_maskz_mov_ps((first(to) & !first(from)) as __mmask16, value)
    }

    /// Turns sums of a whole tile's columns into products and writes them rounded to bf16, two to a lane.
    ///
    /// # Safety
    /// The processor has AVX-512 F and BF16; `out` points to `sums.rows` rows of 16 lanes, `stride` apart, which nobody
    /// else uses.
    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(crate) unsafe fn finish_pairs(
        tile: &[[u32; TILE_COLUMNS]],
        sums: Sums<'_>,
        out: *mut f32,
        stride: usize,
    ) {
        // SAFETY: a tile's rows have 32 columns, and so have bias, scales and excess; the caller's promise.
        unsafe {
            let both = |values: &[f32; TILE_COLUMNS]| {
                [0, LANES].map(|from| _mm512_loadu_ps(values.as_ptr().add(from)))
            };
            let (bias, scales) = (both(sums.bias), both(sums.scales));
            let excess =
                [0, LANES].map(|from| _mm512_loadu_si512(sums.excess.as_ptr().add(from).cast()));
            for (row, tile) in tile.iter().enumerate().take(sums.rows) {
                let bits =
                    [0, LANES].map(|from| _mm512_loadu_si512(tile.as_ptr().add(from).cast()));
                let value = |i: usize| match sums.row_scales.get(row) {
                    Some(&scale) => {
                        let sum = _mm512_cvtepi32_ps(_mm512_sub_epi32(bits[i], excess[i]));
                        let scale = _mm512_mul_ps(scales[i], _mm512_set1_ps(scale));
                        _mm512_fmadd_ps(sum, scale, bias[i])
                    }
                    None => _mm512_add_ps(_mm512_castsi512_ps(bits[i]), bias[i]),
                };
                let pairs = _mm512_cvtne2ps_pbh(value(1), value(0));
                let pairs = std::mem::transmute::<__m512bh, __m512>(pairs);
                _mm512_storeu_ps(out.add(row * stride), pairs);
            }
        }
    }
}

pub(crate) use rounded::{finish_pairs, rounded_exponentials};
