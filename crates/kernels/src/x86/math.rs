//! Elementwise routines by hand for AVX-512, with fused multiplications: what runs beside the products must not
//! take longer than they do. The portable ones are their twins.

use std::arch::x86_64::*;

use crate::{Finish, Gate, micro::TILE_COLUMNS};

/// f32 in a register.
const LANES: usize = 16;

/// eˣ as the portable one computes it.
#[inline]
#[target_feature(enable = "avx512f")]
fn exp(x: __m512) -> __m512 {
    let set = _mm512_set1_ps;
    // NaN as the second operand stays.
    let x = _mm512_min_ps(set(88.0), _mm512_max_ps(set(-87.0), x));
    // As the portable one: a rounding and a scaling instruction exist, but take several turns each.
    const ROUND: f32 = 12_582_912.0;
    let shifted = _mm512_fmadd_ps(x, set(std::f32::consts::LOG2_E), set(ROUND));
    let n = _mm512_sub_ps(shifted, set(ROUND));
    let r = _mm512_fnmadd_ps(n, set(0.693_359_4), x);
    let r = _mm512_fnmadd_ps(n, set(-2.121_944_4e-4), r);
    let p = _mm512_fmadd_ps(set(1.987_569_1e-4), r, set(1.398_199_9e-3));
    let p = _mm512_fmadd_ps(p, r, set(8.333_452e-3));
    let p = _mm512_fmadd_ps(p, r, set(4.166_579_6e-2));
    let p = _mm512_fmadd_ps(p, r, set(1.666_666_5e-1));
    let p = _mm512_fmadd_ps(p, r, set(0.5));
    let p = _mm512_fmadd_ps(_mm512_mul_ps(p, r), r, r);
    let exponent = _mm512_slli_epi32::<23>(_mm512_castps_si512(shifted));
    let power = _mm512_add_epi32(exponent, _mm512_castps_si512(set(1.0)));
    _mm512_mul_ps(_mm512_add_ps(p, set(1.0)), _mm512_castsi512_ps(power))
}

/// 1 / x to the last bit or two: an estimate of 14 bits and a Newton step.
#[inline]
#[target_feature(enable = "avx512f")]
fn inverse(x: __m512) -> __m512 {
    let y = _mm512_rcp14_ps(x);
    let error = _mm512_fnmadd_ps(x, y, _mm512_set1_ps(1.0));
    _mm512_fmadd_ps(y, error, y)
}

/// x · Φ(x), see the portable one.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn gelu(x: __m512) -> __m512 {
    let set = _mm512_set1_ps;
    let z = _mm512_mul_ps(x, set(std::f32::consts::FRAC_1_SQRT_2));
    let a = _mm512_abs_ps(z);
    let t = inverse(_mm512_fmadd_ps(a, set(0.327_591_1), set(1.0)));
    let p = _mm512_fmadd_ps(set(1.061_405_4), t, set(-1.453_152_1));
    let p = _mm512_fmadd_ps(p, t, set(1.421_413_8));
    let p = _mm512_fmadd_ps(p, t, set(-0.284_496_72));
    let p = _mm512_fmadd_ps(p, t, set(0.254_829_6));
    let e = exp(_mm512_fnmadd_ps(z, z, _mm512_setzero_ps()));
    // 1 − erf |z|, and with it erf |z|.
    let rest = _mm512_mul_ps(_mm512_mul_ps(p, t), e);
    let erf = _mm512_sub_ps(set(1.0), rest);
    let erf = _mm512_or_ps(erf, _mm512_and_ps(z, set(-0.0)));
    let half = _mm512_mul_ps(x, set(0.5));
    _mm512_fmadd_ps(half, erf, half)
}

/// x · σ(scale · x).
#[inline]
#[target_feature(enable = "avx512f")]
fn gated(x: __m512, negative: __m512) -> __m512 {
    let one = _mm512_set1_ps(1.0);
    _mm512_div_ps(x, _mm512_add_ps(one, exp(negative)))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn silu(x: __m512) -> __m512 {
    gated(x, _mm512_sub_ps(_mm512_setzero_ps(), x))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn gelu_tanh(x: __m512) -> __m512 {
    let cube = _mm512_mul_ps(_mm512_mul_ps(x, x), x);
    let y = _mm512_fmadd_ps(cube, _mm512_set1_ps(0.044_715), x);
    gated(x, _mm512_mul_ps(y, _mm512_set1_ps(-2.0 * 0.797_884_6)))
}

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

/// Turns sums into products and writes them.
///
/// # Safety
/// The processor has AVX-512 F and DQ; `out` points to `sums.rows` rows, `stride` apart, of `sums.columns`, which
/// nobody else uses.
#[target_feature(enable = "avx512f,avx512dq")]
pub(crate) unsafe fn finish_tile(
    tile: &[[u32; TILE_COLUMNS]],
    sums: Sums<'_>,
    finish: Finish<'_>,
    out: *mut f32,
    stride: usize,
) {
    for half in 0..sums.columns.div_ceil(LANES) {
        let from = half * LANES;
        let count = (sums.columns - from).min(LANES);
        let mask = ((1u32 << count) - 1) as __mmask16;
        // SAFETY: a tile's rows have 32 columns, and so have bias, scales and excess; the mask leaves out what is
        // beyond the columns of `out`.
        unsafe {
            let bias = _mm512_loadu_ps(sums.bias.as_ptr().add(from));
            let scales = _mm512_loadu_ps(sums.scales.as_ptr().add(from));
            let excess = _mm512_loadu_si512(sums.excess.as_ptr().add(from).cast());
            for (row, tile) in tile.iter().enumerate().take(sums.rows) {
                let bits = _mm512_loadu_si512(tile.as_ptr().add(from).cast());
                let value = match sums.row_scales.get(row) {
                    Some(&scale) => {
                        let sum = _mm512_cvtepi32_ps(_mm512_sub_epi32(bits, excess));
                        let scale = _mm512_mul_ps(scales, _mm512_set1_ps(scale));
                        _mm512_fmadd_ps(sum, scale, bias)
                    }
                    None => _mm512_add_ps(_mm512_castsi512_ps(bits), bias),
                };
                let place = out.add(row * stride + from);
                let old = || _mm512_maskz_loadu_ps(mask, place);
                let value = match finish {
                    Finish::Store => value,
                    Finish::Gelu => gelu(value),
                    Finish::GeluTanh => gelu_tanh(value),
                    Finish::Add(scale) => _mm512_fmadd_ps(value, _mm512_set1_ps(scale), old()),
                    Finish::AddLayerNorm { .. } => _mm512_add_ps(value, old()),
                    Finish::Gate(Gate::Silu) => _mm512_mul_ps(silu(old()), value),
                    Finish::Gate(Gate::Gelu) => _mm512_mul_ps(gelu(old()), value),
                    Finish::Gate(Gate::GeluTanh) => _mm512_mul_ps(gelu_tanh(old()), value),
                };
                _mm512_mask_storeu_ps(place, mask, value);
            }
        }
    }
}

/// GELU in place.
///
/// # Safety
/// The processor has AVX-512 F and DQ.
#[target_feature(enable = "avx512f,avx512dq")]
pub(crate) unsafe fn gelu_slice(values: &mut [f32]) {
    for chunk in values.chunks_mut(LANES) {
        let mask = ((1u32 << chunk.len()) - 1) as __mmask16;
        // SAFETY: the mask leaves out what is beyond the chunk.
        unsafe {
            let value = gelu(_mm512_maskz_loadu_ps(mask, chunk.as_ptr()));
            _mm512_mask_storeu_ps(chunk.as_mut_ptr(), mask, value);
        }
    }
}

/// The largest of `row` and `top`; NaN counts for nothing.
///
/// # Safety
/// The processor has AVX-512 F.
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn largest(row: &[f32], top: f32) -> f32 {
    let mut tops = [_mm512_set1_ps(top); 4];
    let (chunks, rest) = row.as_chunks::<{ 4 * LANES }>();
    for chunk in chunks {
        for (i, top) in tops.iter_mut().enumerate() {
            // SAFETY: a chunk has four registers. With NaN as the first operand, the second is taken.
            *top = unsafe { _mm512_max_ps(_mm512_loadu_ps(chunk.as_ptr().add(i * LANES)), *top) };
        }
    }
    let mut top = _mm512_max_ps(_mm512_max_ps(tops[0], tops[1]), _mm512_max_ps(tops[2], tops[3]));
    for chunk in rest.chunks(LANES) {
        let mask = ((1u32 << chunk.len()) - 1) as __mmask16;
        // SAFETY: the mask leaves out what is beyond the chunk.
        top = unsafe { _mm512_max_ps(_mm512_mask_loadu_ps(top, mask, chunk.as_ptr()), top) };
    }
    _mm512_reduce_max_ps(top)
}

/// Turns scores into e^(score − top) and gives their sum.
///
/// # Safety
/// The processor has AVX-512 F.
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn exponentials(row: &mut [f32], top: f32) -> f32 {
    let top = _mm512_set1_ps(top);
    let mut sums = [_mm512_setzero_ps(); 4];
    let (chunks, rest) = row.as_chunks_mut::<{ 4 * LANES }>();
    for chunk in chunks {
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: a chunk has four registers.
            unsafe {
                let place = chunk.as_mut_ptr().add(i * LANES);
                let value = exp(_mm512_sub_ps(_mm512_loadu_ps(place), top));
                _mm512_storeu_ps(place, value);
                *sum = _mm512_add_ps(*sum, value);
            }
        }
    }
    for chunk in rest.chunks_mut(LANES) {
        let mask = ((1u32 << chunk.len()) - 1) as __mmask16;
        // SAFETY: the mask leaves out what is beyond the chunk.
        unsafe {
            let value = exp(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, chunk.as_ptr()), top));
            _mm512_mask_storeu_ps(chunk.as_mut_ptr(), mask, value);
            sums[0] = _mm512_add_ps(sums[0], _mm512_maskz_mov_ps(mask, value));
        }
    }
    _mm512_reduce_add_ps(_mm512_add_ps(
        _mm512_add_ps(sums[0], sums[1]),
        _mm512_add_ps(sums[2], sums[3]),
    ))
}

/// Quantizes rows as `quantize_rows` does: the same bytes and scales.
///
/// # Safety
/// The processor has AVX-512 F, BW and VL. Rows, bytes and scales have the shapes of `quantize_rows`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn quantize_row(row: &[f32], flip: u8, out: &mut [u8]) -> f32 {
    let magnitude = _mm512_set1_epi32(0x7fff_ffff);
    let mut tops = [_mm512_setzero_si512(); 4];
    let (chunks, rest) = row.as_chunks::<{ 4 * LANES }>();
    for chunk in chunks {
        for (i, top) in tops.iter_mut().enumerate() {
            // SAFETY: a chunk has four registers.
            let bits = unsafe { _mm512_loadu_epi32(chunk.as_ptr().add(i * LANES).cast()) };
            *top = _mm512_max_epu32(*top, _mm512_and_si512(bits, magnitude));
        }
    }
    for chunk in rest.chunks(LANES) {
        let mask = ((1u32 << chunk.len()) - 1) as __mmask16;
        // SAFETY: the mask leaves out what is beyond the chunk.
        let bits = unsafe { _mm512_maskz_loadu_epi32(mask, chunk.as_ptr().cast()) };
        tops[0] = _mm512_max_epu32(tops[0], _mm512_and_si512(bits, magnitude));
    }
    let top =
        _mm512_max_epu32(_mm512_max_epu32(tops[0], tops[1]), _mm512_max_epu32(tops[2], tops[3]));
    let top = _mm512_reduce_max_epu32(top);
    let (scale, inverse) = crate::quantize::scale_of(top);
    let inverse = _mm512_set1_ps(inverse);
    let flips = _mm_set1_epi8(flip as i8);
    for (chunk, out) in row.chunks(LANES).zip(out.chunks_mut(LANES)) {
        let mask = ((1u32 << chunk.len()) - 1) as __mmask16;
        // SAFETY: the masks leave out what is beyond the chunks; out is at least as long as the row.
        unsafe {
            let value = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, chunk.as_ptr()), inverse);
            // To the nearest, ties to even, as the processor rounds by default; what is not a number becomes
            // the integer of least value, whose lowest byte is 0.
            let bytes = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(value));
            _mm_mask_storeu_epi8(out.as_mut_ptr().cast(), mask, _mm_xor_si128(bytes, flips));
        }
    }
    scale
}
