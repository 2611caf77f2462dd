//! Products of quantized rows with blocks: whole registers of codes, whose products are summed as integers, turned
//! into f32 and multiplied with the scales of their groups.

mod avx2;
mod avx512;
mod codes;
mod widen;

use std::arch::x86_64::*;

use crate::blocks::{
    BlockMatrix,
    activations::Activations,
    dots::ROWS,
    layouts::{Layout, Q2K, Q3K, Q4K, Q5K, Q6K},
};

pub(crate) use avx2::{dots_avx2, dots_avxvnni};
pub(crate) use avx512::dots_avx512;
pub(crate) use widen::widen_avx512;

/// The products of some rows of activations with a row of weights.
type Routine<const ROWS: usize> =
    for<'a, 'b, 'c> unsafe fn(&'a [u8], &'b [Activations<'c>; ROWS]) -> [f32; ROWS];

/// The products of the rows `x` with those of `weights`, to rows of as many sums: four rows at a time, then two, then
/// one, by routines that give each row the same bits.
///
/// # Safety
/// The processor has what the routines need; `x` were quantized of as many inputs as the weights have.
unsafe fn multiply_rows(
    weights: BlockMatrix<'_>,
    x: &[Activations<'_>],
    sums: &mut [f32],
    (four, two, one): (Routine<ROWS>, Routine<2>, Routine<1>),
) {
    let outputs = weights.outputs();
    if weights.row_bytes() == 0 || outputs == 0 {
        sums.fill(0.0);
        return;
    }
    assert!(weights.bytes().len() >= outputs * weights.row_bytes());
    assert!(x.iter().all(|it| it.bytes.len() >= weights.inputs()));
    let (fours, rest) = x.as_chunks::<ROWS>();
    let (twos, ones) = rest.as_chunks::<2>();
    let (four_sums, rest) = sums.split_at_mut(fours.len() * ROWS * outputs);
    let (two_sums, one_sums) = rest.split_at_mut(twos.len() * 2 * outputs);
    // SAFETY: the caller's promise: scales, sums and totals are as many as the bytes of `x` take.
    unsafe {
        for (x, sums) in fours.iter().zip(four_sums.chunks_exact_mut(ROWS * outputs)) {
            multiply_some(weights, x, sums, four);
        }
        for (x, sums) in twos.iter().zip(two_sums.chunks_exact_mut(2 * outputs)) {
            multiply_some(weights, x, sums, two);
        }
        for (x, sums) in ones.iter().zip(one_sums.chunks_exact_mut(outputs)) {
            multiply_some(weights, std::array::from_ref(x), sums, one);
        }
    }
}

/// As [`multiply_rows`], by one routine.
///
/// # Safety
/// As there.
unsafe fn multiply_some<const ROWS: usize>(
    weights: BlockMatrix<'_>,
    x: &[Activations<'_>; ROWS],
    sums: &mut [f32],
    routine: Routine<ROWS>,
) {
    let outputs = weights.outputs();
    for (output, row) in weights.bytes().chunks_exact(weights.row_bytes()).enumerate() {
        // SAFETY: the caller's promise.
        let products = unsafe { routine(row, x) };
        for (sums, product) in sums.chunks_exact_mut(outputs).zip(products) {
            sums[output] = product;
        }
    }
}

/// A format of 256 inputs, whose scales are bytes with a scale of their own.
trait Large: Layout {
    /// Where in a block the scale of the scales lies.
    const SCALE: usize;
    /// Where the scale of the minimums lies.
    const MINIMUM: usize = 0;

    /// The 16 scales as signed bytes, and the 16 minimums.
    ///
    /// # Safety
    /// `block` is a block; the processor has AVX2.
    unsafe fn scale_bytes(block: *const u8) -> (__m128i, __m128i);
}

/// Four bytes of a block.
///
/// # Safety
/// Four bytes are readable from `at` on.
#[inline(always)]
unsafe fn word(block: *const u8, at: usize) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { block.add(at).cast::<u32>().read_unaligned() }
}

impl Large for Q2K {
    const SCALE: usize = 80;
    const MINIMUM: usize = 82;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn scale_bytes(block: *const u8) -> (__m128i, __m128i) {
        // SAFETY: a block begins with 16 bytes.
        let both = unsafe { _mm_loadu_si128(block.cast()) };
        let low = _mm_set1_epi8(15);
        (_mm_and_si128(both, low), _mm_and_si128(_mm_srli_epi16::<4>(both), low))
    }
}

impl Large for Q3K {
    const SCALE: usize = 108;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn scale_bytes(block: *const u8) -> (__m128i, __m128i) {
        // SAFETY: 12 bytes from 96 on.
        let (a, b, high) = unsafe { (word(block, 96), word(block, 100), word(block, 104)) };
        let low = |it: u32| it & 0x0f0f_0f0f;
        let high = |shift: u32| (high >> shift & 0x0303_0303) << 4;
        let scales = _mm_set_epi32(
            (low(b >> 4) | high(6)) as i32,
            (low(a >> 4) | high(4)) as i32,
            (low(b) | high(2)) as i32,
            (low(a) | high(0)) as i32,
        );
        (_mm_sub_epi8(scales, _mm_set1_epi8(32)), _mm_setzero_si128())
    }
}

/// The scales and minimums of [`Q4K`] and [`Q5K`], each twice.
///
/// # Safety
/// As [`Large::scale_bytes`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn paired(block: *const u8) -> (__m128i, __m128i) {
    // SAFETY: 12 bytes from 4 on.
    let (a, b, c) = unsafe { (word(block, 4), word(block, 8), word(block, 12)) };
    let high = |it: u32| it >> 2 & 0x3030_3030;
    let all = _mm_set_epi32(
        (c >> 4 & 0x0f0f_0f0f | high(b)) as i32,
        (b & 0x3f3f_3f3f) as i32,
        (c & 0x0f0f_0f0f | high(a)) as i32,
        (a & 0x3f3f_3f3f) as i32,
    );
    (_mm_unpacklo_epi8(all, all), _mm_unpackhi_epi8(all, all))
}

impl Large for Q4K {
    const SCALE: usize = 0;
    const MINIMUM: usize = 2;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn scale_bytes(block: *const u8) -> (__m128i, __m128i) {
        // SAFETY: the caller's promise.
        unsafe { paired(block) }
    }
}

impl Large for Q5K {
    const SCALE: usize = 0;
    const MINIMUM: usize = 2;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn scale_bytes(block: *const u8) -> (__m128i, __m128i) {
        // SAFETY: the caller's promise.
        unsafe { paired(block) }
    }
}

impl Large for Q6K {
    const SCALE: usize = 208;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn scale_bytes(block: *const u8) -> (__m128i, __m128i) {
        // SAFETY: 16 bytes from 192 on.
        (unsafe { _mm_loadu_si128(block.add(192).cast()) }, _mm_setzero_si128())
    }
}
