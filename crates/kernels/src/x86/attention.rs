//! Keys and values of half precision against a few queries, with AVX-512: each is widened in a register and used for
//! four rows.

#![allow(
    clippy::needless_range_loop,
    reason = "by index: iterating over arrays of registers by value copies them through memory"
)]

use std::arch::x86_64::*;

use crate::attention::HalfRows;

/// f32 in a register.
const LANES: usize = 16;

/// Most rows at a time: four rows by four keys, or by four registers of values, are 16 sums.
const TILE: usize = 4;

/// 16 numbers of half precision.
///
/// # Safety
/// 16 numbers are readable; the processor has AVX-512 F.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn widen(bits: *const u16) -> __m512 {
    // SAFETY: the caller's promise.
    _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(bits.cast()) })
}

/// The sums of four registers.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn totals(a: __m512, b: __m512, c: __m512, d: __m512) -> __m128 {
    let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    // Of each quarter, a, b, c and d.
    let low = _mm512_shuffle_ps::<0x44>(ab, cd);
    let high = _mm512_shuffle_ps::<0xee>(ab, cd);
    let all = _mm512_add_ps(low, high);
    let half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps::<1>(all));
    _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps::<1>(half))
}

/// Products of queries `[rows, dim]` with keys, to rows of scores `columns` apart.
///
/// # Safety
/// The processor has AVX-512 F, VL and DQ; `dim` is a multiple of 16; keys, queries and scores are there.
#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
pub(crate) unsafe fn multiply_rows(
    queries: &[f32],
    keys: HalfRows<'_>,
    scores: &mut [f32],
    columns: usize,
) {
    for (queries, scores) in queries.chunks(TILE * keys.dim).zip(scores.chunks_mut(TILE * columns))
    {
        let (queries, rows) = (queries.as_ptr(), queries.len() / keys.dim);
        let scores = scores.as_mut_ptr();
        // SAFETY: the caller's promise.
        unsafe {
            match rows {
                1 => multiply_tile::<1>(queries, keys, scores, columns),
                2 => multiply_tile::<2>(queries, keys, scores, columns),
                3 => multiply_tile::<3>(queries, keys, scores, columns),
                _ => multiply_tile::<4>(queries, keys, scores, columns),
            }
        }
    }
}

/// # Safety
/// As [`multiply_rows`], for `ROWS` rows.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
unsafe fn multiply_tile<const ROWS: usize>(
    queries: *const f32,
    keys: HalfRows<'_>,
    scores: *mut f32,
    columns: usize,
) {
    let HalfRows { bits, stride, count, dim } = keys;
    for first in (0..count).step_by(TILE) {
        // Beyond the last key the last one stands once more.
        let rows: [*const u16; TILE] = std::array::from_fn(|i| {
            bits.as_ptr().wrapping_add((first + i).min(count - 1) * stride)
        });
        let mut sums = [[_mm512_setzero_ps(); TILE]; ROWS];
        for at in (0..dim).step_by(LANES) {
            // SAFETY: the caller's promise.
            unsafe {
                let mut keys = [_mm512_setzero_ps(); TILE];
                for i in 0..TILE {
                    keys[i] = widen(rows[i].add(at));
                }
                for row in 0..ROWS {
                    let query = _mm512_loadu_ps(queries.add(row * dim + at));
                    for i in 0..TILE {
                        sums[row][i] = _mm512_fmadd_ps(query, keys[i], sums[row][i]);
                    }
                }
            }
        }
        let mask = ((1u32 << (count - first).min(TILE)) - 1) as __mmask8;
        for row in 0..ROWS {
            let [a, b, c, d] = sums[row];
            // SAFETY: the mask leaves out what is beyond the keys.
            unsafe {
                _mm_mask_storeu_ps(scores.add(row * columns + first), mask, totals(a, b, c, d));
            }
        }
    }
}

/// Adds values, weighted with rows of weights `columns` apart, to sums `[rows, dim]`.
///
/// # Safety
/// The processor has AVX-512 F; `dim` is a multiple of 16; weights, values and sums are there.
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn weigh_rows(
    weights: &[f32],
    columns: usize,
    values: HalfRows<'_>,
    sums: &mut [f32],
) {
    for (weights, sums) in weights.chunks(TILE * columns).zip(sums.chunks_mut(TILE * values.dim)) {
        let (sums, rows) = (sums.as_mut_ptr(), sums.len() / values.dim);
        let weights = weights.as_ptr();
        for at in (0..values.dim).step_by(TILE * LANES) {
            // SAFETY: the caller's promise.
            unsafe {
                let (sums, bits) = (sums.add(at), values.bits.as_ptr().add(at));
                match (rows, (values.dim - at) / LANES) {
                    (1, 1) => weigh_tile::<1, 1>(weights, columns, bits, values, sums),
                    (1, 2) => weigh_tile::<1, 2>(weights, columns, bits, values, sums),
                    (1, 3) => weigh_tile::<1, 3>(weights, columns, bits, values, sums),
                    (1, _) => weigh_tile::<1, 4>(weights, columns, bits, values, sums),
                    (2, 1) => weigh_tile::<2, 1>(weights, columns, bits, values, sums),
                    (2, 2) => weigh_tile::<2, 2>(weights, columns, bits, values, sums),
                    (2, 3) => weigh_tile::<2, 3>(weights, columns, bits, values, sums),
                    (2, _) => weigh_tile::<2, 4>(weights, columns, bits, values, sums),
                    (3, 1) => weigh_tile::<3, 1>(weights, columns, bits, values, sums),
                    (3, 2) => weigh_tile::<3, 2>(weights, columns, bits, values, sums),
                    (3, 3) => weigh_tile::<3, 3>(weights, columns, bits, values, sums),
                    (3, _) => weigh_tile::<3, 4>(weights, columns, bits, values, sums),
                    (_, 1) => weigh_tile::<4, 1>(weights, columns, bits, values, sums),
                    (_, 2) => weigh_tile::<4, 2>(weights, columns, bits, values, sums),
                    (_, 3) => weigh_tile::<4, 3>(weights, columns, bits, values, sums),
                    (_, _) => weigh_tile::<4, 4>(weights, columns, bits, values, sums),
                }
            }
        }
    }
}

/// # Safety
/// As [`weigh_rows`], for `ROWS` rows and as many registers of values.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn weigh_tile<const ROWS: usize, const REGISTERS: usize>(
    weights: *const f32,
    columns: usize,
    bits: *const u16,
    values: HalfRows<'_>,
    out: *mut f32,
) {
    let HalfRows { stride, count, dim, .. } = values;
    let mut sums = [[_mm512_setzero_ps(); REGISTERS]; ROWS];
    // SAFETY: the caller's promise.
    unsafe {
        for row in 0..ROWS {
            for i in 0..REGISTERS {
                sums[row][i] = _mm512_loadu_ps(out.add(row * dim + i * LANES));
            }
        }
        for key in 0..count {
            let mut values = [_mm512_setzero_ps(); REGISTERS];
            for i in 0..REGISTERS {
                values[i] = widen(bits.add(key * stride + i * LANES));
            }
            for row in 0..ROWS {
                let weight = _mm512_set1_ps(*weights.add(row * columns + key));
                for i in 0..REGISTERS {
                    sums[row][i] = _mm512_fmadd_ps(weight, values[i], sums[row][i]);
                }
            }
        }
        for row in 0..ROWS {
            for i in 0..REGISTERS {
                _mm512_storeu_ps(out.add(row * dim + i * LANES), sums[row][i]);
            }
        }
    }
}
