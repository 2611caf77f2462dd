//! Blocks into f32 with AVX-512, 64 codes at a time.

use std::arch::x86_64::*;

use super::codes::{Quarters, Small};
use crate::blocks::{
    BlockFormat,
    layouts::{Layout, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0},
};

/// Widens 64 codes to `out`, with a scale and a minimum for each 16.
///
/// # Safety
/// `out` has room for them; the processor has AVX-512.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn widen_codes<L: Layout>(
    codes: __m512i,
    scales: [__m512; 4],
    minimums: [__m512; 4],
    out: *mut f32,
) {
    let quarters = [
        _mm512_castsi512_si128(codes),
        _mm512_extracti32x4_epi32::<1>(codes),
        _mm512_extracti32x4_epi32::<2>(codes),
        _mm512_extracti32x4_epi32::<3>(codes),
    ];
    for (i, quarter) in quarters.into_iter().enumerate() {
        let codes = _mm512_cvtepu8_epi32(quarter);
        let codes = _mm512_cvtepi32_ps(_mm512_sub_epi32(codes, _mm512_set1_epi32(L::OFFSET)));
        let mut value = _mm512_mul_ps(codes, scales[i]);
        if L::MINIMUMS {
            value = _mm512_add_ps(value, minimums[i]);
        }
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_ps(out.add(16 * i), value) };
    }
}

/// Widens blocks of 32 to `out`, of as many numbers as they hold.
///
/// # Safety
/// The processor has AVX-512.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn widen_small<L: Small>(blocks: &[u8], out: &mut [f32]) {
    for (pair, out) in blocks.chunks(2 * L::BYTES).zip(out.chunks_mut(64)) {
        let first = pair.as_ptr();
        // An odd last block is widened twice, and once too many into a place of its own.
        let mut last = [0.0; 64];
        let place = if out.len() == 64 { out.as_mut_ptr() } else { last.as_mut_ptr() };
        // SAFETY: one or two blocks, and room for 64.
        unsafe {
            let second = first.add(pair.len() - L::BYTES);
            let half = |block: *const u8, at: usize| {
                _mm512_cvtph_ps(_mm256_set1_epi16(block.add(at).cast::<i16>().read_unaligned()))
            };
            let (a, b) = (half(first, 0), half(second, 0));
            let (c, d) = if L::MINIMUMS { (half(first, 2), half(second, 2)) } else { (a, b) };
            widen_codes::<L>(L::load(first, second), [a, a, b, b], [c, c, d, d], place);
        }
        if out.len() < 64 {
            out.copy_from_slice(&last[..out.len()]);
        }
    }
}

/// As [`widen_small`], for blocks of 256.
///
/// # Safety
/// As [`widen_small`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn widen_large<L: Quarters>(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.chunks_exact(L::BYTES).zip(out.as_chunks_mut::<256>().0) {
        let (block, out) = (block.as_ptr(), out.as_mut_ptr());
        // SAFETY: a block, and room for 256.
        unsafe {
            let (bytes, minimums) = L::scale_bytes(block);
            let half = |at: usize| {
                _mm512_cvtph_ps(_mm256_set1_epi16(block.add(at).cast::<i16>().read_unaligned()))
            };
            let wide = |bytes: __m128i| _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
            let scales = _mm512_mul_ps(wide(bytes), half(L::SCALE));
            let minimums = if L::MINIMUMS {
                let minimums = _mm512_mul_ps(wide(minimums), half(L::MINIMUM));
                // The sign alone: zeros become negative, as in the reference.
                _mm512_xor_ps(minimums, _mm512_set1_ps(-0.0))
            } else {
                scales
            };
            let lane = |all: __m512, i: i32| _mm512_permutexvar_ps(_mm512_set1_epi32(i), all);
            let four = |all: __m512, i: i32| {
                [lane(all, i), lane(all, i + 1), lane(all, i + 2), lane(all, i + 3)]
            };
            widen_codes::<L>(L::load::<0>(block), four(scales, 0), four(minimums, 0), out);
            widen_codes::<L>(L::load::<1>(block), four(scales, 4), four(minimums, 4), out.add(64));
            widen_codes::<L>(L::load::<2>(block), four(scales, 8), four(minimums, 8), out.add(128));
            widen_codes::<L>(
                L::load::<3>(block),
                four(scales, 12),
                four(minimums, 12),
                out.add(192),
            );
        }
    }
}

/// Widens blocks, bits as the portable routine has them.
///
/// # Safety
/// The processor has AVX-512 F, BW, VL and DQ; `out` has as many elements as the blocks.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(crate) unsafe fn widen_avx512(format: BlockFormat, blocks: &[u8], out: &mut [f32]) {
    assert_eq!(blocks.len() / format.block_bytes() * format.block_len(), out.len());
    let routine: unsafe fn(&[u8], &mut [f32]) = match format {
        BlockFormat::Q4_0 => widen_small::<Q4_0>,
        BlockFormat::Q4_1 => widen_small::<Q4_1>,
        BlockFormat::Q5_0 => widen_small::<Q5_0>,
        BlockFormat::Q5_1 => widen_small::<Q5_1>,
        BlockFormat::Q8_0 => widen_small::<Q8_0>,
        BlockFormat::Q2K => widen_large::<Q2K>,
        BlockFormat::Q3K => widen_large::<Q3K>,
        BlockFormat::Q4K => widen_large::<Q4K>,
        BlockFormat::Q5K => widen_large::<Q5K>,
        BlockFormat::Q6K => widen_large::<Q6K>,
    };
    // SAFETY: the caller's promise.
    unsafe { routine(blocks, out) };
}
