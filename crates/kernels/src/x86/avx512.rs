//! Tiles of 14 rows × 2 panels: 28 of the 32 registers hold sums, which hides the latency of the
//! multiplications, and each row of two panels is loaded once for 14 rows of activations.

use std::arch::x86_64::*;

use crate::{
    micro::{Micro, TILE_PANELS, TILE_ROWS},
    tile::tile_kernel,
};

const MICRO: Micro = Micro { rows: TILE_ROWS, panels: TILE_PANELS, ..Micro::new(f32_tile) };

/// f32.
pub(crate) const F32: Micro = MICRO;

/// Pairs of bf16 (AVX512-BF16).
pub(crate) const BF16: Micro = Micro { run: bf16_tile, ..MICRO };

/// Bytes (AVX512-VNNI); activations are unsigned.
pub(crate) const VNNI_INT8: Micro = Micro { offset: 128, run: vnni_tile, ..MICRO };

/// Bytes without AVX512-VNNI.
pub(crate) const INT8: Micro = Micro { rows: 8, run: int8_tile, ..MICRO };

tile_kernel! {
    f32_tile, features "avx512f", rows [1 2 3 4 5 6 7 8 9 10 11 12 13 14], panels [1 2], registers 1 of 16,
    zero _mm512_setzero_ps(),
    load |p: *const u32| _mm512_loadu_ps(p.cast()),
    lane |p: *const u32| _mm512_set1_ps(*p.cast()),
    add |sum, a, b| _mm512_fmadd_ps(a, b, sum),
    store |p: *mut u32, sum| _mm512_storeu_ps(p.cast(), sum),
}

tile_kernel! {
    bf16_tile, features "avx512f,avx512bw,avx512bf16", rows [1 2 3 4 5 6 7 8 9 10 11 12 13 14], panels [1 2],
    registers 1 of 16,
    zero _mm512_setzero_ps(),
    load |p: *const u32| _mm512_loadu_ps(p.cast()),
    lane |p: *const u32| _mm512_set1_epi32(*p.cast()),
    add |sum, a, b| dot_bf16(sum, a, b),
    store |p: *mut u32, sum| _mm512_storeu_ps(p.cast(), sum),
}

tile_kernel! {
    vnni_tile, features "avx512f,avx512bw,avx512vnni", rows [1 2 3 4 5 6 7 8 9 10 11 12 13 14], panels [1 2],
    registers 1 of 16,
    zero _mm512_setzero_si512(),
    load |p: *const u32| _mm512_loadu_si512(p.cast()),
    lane |p: *const u32| _mm512_set1_epi32(*p.cast()),
    add |sum, a, b| _mm512_dpbusd_epi32(sum, a, b),
    store |p: *mut u32, sum| _mm512_storeu_si512(p.cast(), sum),
}

tile_kernel! {
    int8_tile, features "avx512f,avx512bw", rows [1 2 3 4 5 6 7 8], panels [1 2], registers 1 of 16,
    zero _mm512_setzero_si512(),
    load |p: *const u32| _mm512_loadu_si512(p.cast()),
    lane |p: *const u32| _mm512_set1_epi32(*p.cast()),
    add |sum, a, b| dot_int8(sum, a, b),
    store |p: *mut u32, sum| _mm512_storeu_si512(p.cast(), sum),
}

/// `sum + a · b` for pairs of bf16 given as lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn dot_bf16(sum: __m512, a: __m512i, b: __m512) -> __m512 {
    // SAFETY: all are 64 bytes of plain numbers.
    unsafe {
        let a = std::mem::transmute::<__m512i, __m512bh>(a);
        let b = std::mem::transmute::<__m512, __m512bh>(b);
        _mm512_dpbf16_ps(sum, a, b)
    }
}

/// `sum + a · b` for signed bytes: magnitudes of `a` times `b` with the signs of `a`. Two products of at most
/// 127 · 127 fit 16 bits, so nothing saturates.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn dot_int8(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
    let signed = _mm512_mask_sub_epi8(b, _mm512_movepi8_mask(a), _mm512_setzero_si512(), b);
    let pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(a), signed);
    _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))
}
