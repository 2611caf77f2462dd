//! Elementwise routines by hand, with fused multiplications: what runs beside the products must not take longer than
//! they do. The portable ones are their twins. They are written once, for both sizes of registers.

use crate::{Finish, Gate, micro::TILE_COLUMNS};

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
                let z = mul(x, set(std::f32::consts::FRAC_1_SQRT_2));
                let t = inverse(fma(abs(z), set(0.327_591_1), set(1.0)));
                let p = fma(set(1.061_405_4), t, set(-1.453_152_1));
                let p = fma(p, t, set(1.421_413_8));
                let p = fma(p, t, set(-0.284_496_72));
                let p = fma(p, t, set(0.254_829_6));
                let e = exp(fnma(z, z, set(0.0)));
                // 1 − erf |z|, and with it erf |z|.
                let rest = mul(mul(p, t), e);
                let erf = signed(sub(set(1.0), rest), z);
                let half = mul(x, set(0.5));
                fma(half, erf, half)
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
                                Finish::Store => value,
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

            /// The largest of `row` and `top`; NaN counts for nothing.
            ///
            /// # Safety
            /// The processor has the features.
            #[target_feature(enable = $features)]
            pub(crate) unsafe fn largest(row: &[f32], top: f32) -> f32 {
                let mut tops = [set(top); 4];
                let (chunks, rest) = row.as_chunks::<{ 4 * LANES }>();
                for chunk in chunks {
                    for (i, top) in tops.iter_mut().enumerate() {
                        // SAFETY: a chunk has four registers. With NaN as the first operand, the second is taken.
                        *top = unsafe { max(load(chunk.as_ptr().add(i * LANES)), *top) };
                    }
                }
                let mut top = max(max(tops[0], tops[1]), max(tops[2], tops[3]));
                for chunk in rest.chunks(LANES) {
                    let mask = first(chunk.len());
                    // SAFETY: the mask leaves out what is beyond the chunk.
                    let values = unsafe { load_part(mask, chunk.as_ptr()) };
                    top = max(choose(mask, values, top), top);
                }
                largest_of(top)
            }

            /// Turns scores into e^(score − top) and gives their sum.
            ///
            /// # Safety
            /// The processor has the features.
            #[target_feature(enable = $features)]
            pub(crate) unsafe fn exponentials(row: &mut [f32], top: f32) -> f32 {
                let top = set(top);
                let mut sums = [set(0.0); 2];
                let (chunks, rest) = row.as_chunks_mut::<{ 2 * LANES }>();
                for chunk in chunks {
                    for (i, sum) in sums.iter_mut().enumerate() {
                        // SAFETY: a chunk has four registers.
                        unsafe {
                            let place = chunk.as_mut_ptr().add(i * LANES);
                            let value = exp(sub(load(place), top));
                            store(place, value);
                            *sum = add(*sum, value);
                        }
                    }
                }
                for chunk in rest.chunks_mut(LANES) {
                    let mask = first(chunk.len());
                    // SAFETY: the mask leaves out what is beyond the chunk.
                    unsafe {
                        let value = exp(sub(load_part(mask, chunk.as_ptr()), top));
                        store_part(mask, chunk.as_mut_ptr(), value);
                        sums[0] = add(sums[0], choose(mask, value, set(0.0)));
                    }
                }
                total(add(sums[0], sums[1]))
            }
        }
    };
}

routines!(wide, "avx512f,avx512dq");
routines!(narrow, "avx2,fma");
