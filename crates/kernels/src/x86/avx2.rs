//! Tiles of one panel, two registers wide: 12 of the 16 registers hold sums.

use std::arch::x86_64::*;

use crate::{micro::Micro, tile::tile_kernel};

/// f32 (AVX2 and FMA).
pub(crate) const F32: Micro = Micro { rows: 6, ..Micro::new(f32_tile) };

/// Bytes (AVX-VNNI); activations are unsigned.
pub(crate) const VNNI_INT8: Micro = Micro { rows: 6, offset: 128, ..Micro::new(vnni_tile) };

/// Bytes (AVX2).
pub(crate) const INT8: Micro = Micro { rows: 4, ..Micro::new(int8_tile) };

/// Pairs of bytes that are i16 already (AVX2): half the instructions of [`INT8`] on its way to the same sums.
pub(crate) const INT16: Micro = Micro { rows: 6, ..Micro::new(int16_tile) };

tile_kernel! {
    f32_tile, features "avx2,fma", rows [1 2 3 4 5 6], panels [1], registers 2 of 8,
    zero _mm256_setzero_ps(),
    load |p: *const u32| _mm256_loadu_ps(p.cast()),
    lane |p: *const u32| _mm256_set1_ps(*p.cast()),
    add |sum, a, b| _mm256_fmadd_ps(a, b, sum),
    store |p: *mut u32, sum| _mm256_storeu_ps(p.cast(), sum),
}

tile_kernel! {
    vnni_tile, features "avx2,avxvnni", rows [1 2 3 4 5 6], panels [1], registers 2 of 8,
    zero _mm256_setzero_si256(),
    load |p: *const u32| _mm256_loadu_si256(p.cast()),
    lane |p: *const u32| _mm256_set1_epi32(*p.cast()),
    add |sum, a, b| _mm256_dpbusd_avx_epi32(sum, a, b),
    store |p: *mut u32, sum| _mm256_storeu_si256(p.cast(), sum),
}

tile_kernel! {
    int8_tile, features "avx2", rows [1 2 3 4], panels [1], registers 2 of 8,
    zero _mm256_setzero_si256(),
    load |p: *const u32| _mm256_loadu_si256(p.cast()),
    lane |p: *const u32| _mm256_set1_epi32(*p.cast()),
    add |sum, a, b| dot_int8(sum, a, b),
    store |p: *mut u32, sum| _mm256_storeu_si256(p.cast(), sum),
}

tile_kernel! {
    int16_tile, features "avx2", rows [1 2 3 4 5 6], panels [1], registers 2 of 8,
    zero _mm256_setzero_si256(),
    load |p: *const u32| _mm256_loadu_si256(p.cast()),
    lane |p: *const u32| _mm256_set1_epi32(*p.cast()),
    add |sum, a, b| _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)),
    store |p: *mut u32, sum| _mm256_storeu_si256(p.cast(), sum),
}

/// `sum + a · b` for signed bytes: magnitudes of `a` times `b` with the signs of `a`. Two products of at most
/// 127 · 127 fit 16 bits, so nothing saturates.
#[inline]
#[target_feature(enable = "avx2")]
fn dot_int8(sum: __m256i, a: __m256i, b: __m256i) -> __m256i {
    let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a));
    _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
}
