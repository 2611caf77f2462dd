//! 32 codes at a time (AVX2, with the dot products of AVX-VNNI where there are).

#![allow(
    clippy::needless_range_loop,
    reason = "by index: iterating over arrays of registers by value copies them through memory"
)]

use std::arch::x86_64::*;

use super::{Large, Routine, multiply_rows};
use crate::blocks::{
    BlockFormat, BlockMatrix,
    activations::Activations,
    layouts::{Layout, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0},
};

/// How products of bytes are summed.
trait Dot {
    /// Sums of four products each: those of `codes − OFFSET` with `bytes`.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn products<L: Layout>(codes: __m256i, bytes: __m256i) -> __m256i;
}

struct Plain;
struct Vnni;

impl Dot for Plain {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn products<L: Layout>(codes: __m256i, bytes: __m256i) -> __m256i {
        let ones = _mm256_set1_epi16(1);
        let weights = _mm256_sub_epi8(codes, _mm256_set1_epi8(L::OFFSET as i8));
        // Magnitudes up to 128 times bytes up to 127: two products fit 16 bits.
        let pairs = match L::OFFSET {
            0 => _mm256_maddubs_epi16(codes, bytes),
            _ => {
                let signed = _mm256_sign_epi8(bytes, weights);
                _mm256_maddubs_epi16(_mm256_abs_epi8(weights), signed)
            }
        };
        _mm256_madd_epi16(pairs, ones)
    }
}

impl Dot for Vnni {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
    unsafe fn products<L: Layout>(codes: __m256i, bytes: __m256i) -> __m256i {
        let zero = _mm256_setzero_si256();
        let start = match L::OFFSET {
            0 => zero,
            // The same for all rows: the compiler computes it once.
            offset => {
                let excess = _mm256_dpbusd_avx_epi32(zero, _mm256_set1_epi8(offset as i8), bytes);
                _mm256_sub_epi32(zero, excess)
            }
        };
        _mm256_dpbusd_avx_epi32(start, codes, bytes)
    }
}

/// The codes of a part of a block.
trait Codes: Layout {
    /// Codes `32 · PART` and those after them.
    ///
    /// # Safety
    /// It is a block; the processor has AVX2.
    unsafe fn load<const PART: usize>(block: *const u8) -> __m256i;
}

/// Low halves of 16 bytes, then high halves.
///
/// # Safety
/// 16 bytes are readable; the processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn nibbles(bytes: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    let bytes = unsafe { _mm_loadu_si128(bytes.cast()) };
    let both = _mm256_set_m128i(_mm_srli_epi16::<4>(bytes), bytes);
    _mm256_and_si256(both, _mm256_set1_epi8(15))
}

/// Adds 16 to the codes whose bit is set.
#[inline]
#[target_feature(enable = "avx2")]
fn fifth_bits(codes: __m256i, bits: u32) -> __m256i {
    // Each byte eight times, and of each a bit of its own.
    let spread =
        _mm256_set_epi64x(0x0303_0303_0303_0303, 0x0202_0202_0202_0202, 0x0101_0101_0101_0101, 0);
    let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits as i32), spread);
    let own = _mm256_set1_epi64x(0x8040_2010_0804_0201u64 as i64);
    let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, own), own);
    _mm256_or_si256(codes, _mm256_and_si256(set, _mm256_set1_epi8(16)))
}

macro_rules! codes {
    ($name:ident, |$block:ident, $part:ident| $body:expr) => {
        impl Codes for $name {
            #[inline]
            #[target_feature(enable = "avx2")]
            unsafe fn load<const PART: usize>($block: *const u8) -> __m256i {
                let $part = PART;
                // SAFETY: the caller's promise: all that is read is within the block.
                unsafe { $body }
            }
        }
    };
}

/// 32 bytes of a block, shifted right, the bits of `mask`.
///
/// # Safety
/// 32 bytes are readable; the processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn bits(bytes: *const u8, shift: usize, mask: i8) -> __m256i {
    // SAFETY: the caller's promise.
    let bytes = unsafe { _mm256_loadu_si256(bytes.cast()) };
    let bytes = _mm256_srl_epi16(bytes, _mm_cvtsi32_si128(shift as i32));
    _mm256_and_si256(bytes, _mm256_set1_epi8(mask))
}

/// `value` in each of 32 bytes whose bit `bit` is set, else 0.
///
/// # Safety
/// 32 bytes are readable; the processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn flag(bytes: *const u8, bit: usize, value: i8) -> __m256i {
    // SAFETY: the caller's promise.
    let bytes = unsafe { _mm256_loadu_si256(bytes.cast()) };
    let own = _mm256_set1_epi8((1u32 << bit) as u8 as i8);
    let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, own), own);
    _mm256_and_si256(set, _mm256_set1_epi8(value))
}

codes!(Q4_0, |block, _part| nibbles(block.add(2)));
codes!(Q4_1, |block, _part| nibbles(block.add(4)));
codes!(Q5_0, |block, _part| fifth_bits(nibbles(block.add(6)), super::word(block, 2)));
codes!(Q5_1, |block, _part| fifth_bits(nibbles(block.add(8)), super::word(block, 4)));
codes!(Q8_0, |block, _part| {
    _mm256_xor_si256(_mm256_loadu_si256(block.add(2).cast()), _mm256_set1_epi8(-128))
});
codes!(Q2K, |block, part| bits(block.add(16 + part / 4 * 32), 2 * (part % 4), 3));
codes!(Q3K, |block, part| {
    let low = bits(block.add(32 + part / 4 * 32), 2 * (part % 4), 3);
    _mm256_or_si256(low, flag(block, part, 4))
});
codes!(Q4K, |block, part| bits(block.add(16 + part / 2 * 32), 4 * (part % 2), 15));
codes!(Q5K, |block, part| {
    let low = bits(block.add(48 + part / 2 * 32), 4 * (part % 2), 15);
    _mm256_or_si256(low, flag(block.add(16), part, 16))
});
codes!(Q6K, |block, part| {
    let (half, quarter) = (part / 4, part % 4);
    let low = bits(block.add(half * 64 + quarter % 2 * 32), 4 * (quarter / 2), 15);
    let high = bits(block.add(128 + half * 32), 2 * quarter, 3);
    _mm256_or_si256(low, _mm256_slli_epi16::<4>(high))
});

/// The half at a place of a block.
///
/// # Safety
/// It is there; the processor has F16C.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn half(block: *const u8, at: usize) -> f32 {
    // SAFETY: the caller's promise.
    let bits = unsafe { block.add(at).cast::<u16>().read_unaligned() };
    _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits))))
}

/// The sum of eight lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn total(sums: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps::<1>(sums));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}

/// 32 activations.
///
/// # Safety
/// `x` has 32 bytes in part `part`; the processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn bytes_at(x: Activations<'_>, part: usize) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_loadu_si256(x.bytes.as_ptr().add(32 * part).cast()) }
}

/// The products of some rows of activations with a row of small blocks. Each is computed as if it were the only one;
/// codes and scales are loaded once for all.
///
/// # Safety
/// The row has as many blocks as each of `x`; the processor has AVX2, F16C and what `D` needs.
#[inline(always)]
unsafe fn small<L: Codes, D: Dot, const ROWS: usize>(
    row: *const u8,
    blocks: usize,
    x: &[Activations<'_>; ROWS],
) -> [f32; ROWS] {
    // SAFETY: the caller's promise.
    unsafe {
        let (mut sums, mut minimums) = ([_mm256_setzero_ps(); ROWS], [0.0; ROWS]);
        for number in 0..blocks {
            let block = row.add(number * L::BYTES);
            let (codes, own) = (L::load::<0>(block), half(block, 0));
            let minimum = if L::MINIMUMS { half(block, 2) } else { 0.0 };
            for i in 0..ROWS {
                let products = D::products::<L>(codes, bytes_at(x[i], number));
                let scale = _mm256_set1_ps(own * *x[i].scales.get_unchecked(number));
                sums[i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(products), scale, sums[i]);
                if L::MINIMUMS {
                    let totals = x[i].sums;
                    let both =
                        *totals.get_unchecked(2 * number) + *totals.get_unchecked(2 * number + 1);
                    minimums[i] += minimum * both;
                }
            }
        }
        let mut totals = [0.0; ROWS];
        for i in 0..ROWS {
            totals[i] = total(sums[i]) + minimums[i];
        }
        totals
    }
}

/// The products of some rows of activations with a row of large blocks, as [`small`].
///
/// # Safety
/// As [`small`].
#[inline(always)]
// Long: one loop whose parts share registers.
unsafe fn large<L: Codes + Large, D: Dot, const ROWS: usize>(
    row: *const u8,
    blocks: usize,
    x: &[Activations<'_>; ROWS],
) -> [f32; ROWS] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [_mm256_setzero_ps(); ROWS];
        let mut minimums = [_mm256_setzero_ps(); ROWS];
        for number in 0..blocks {
            let block = row.add(number * L::BYTES);
            let (bytes, lows) = L::scale_bytes(block);
            let wide = |bytes: __m128i| {
                let high = _mm_unpackhi_epi64(bytes, bytes);
                (
                    _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
                    _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(high)),
                )
            };
            let own = _mm256_set1_ps(half(block, L::SCALE));
            let (first, second) = wide(bytes);
            let mut scales = [0f32; 16];
            _mm256_storeu_ps(scales.as_mut_ptr(), _mm256_mul_ps(first, own));
            _mm256_storeu_ps(scales.as_mut_ptr().add(8), _mm256_mul_ps(second, own));
            macro_rules! part {
                ($part:literal) => {
                    let at = 8 * number + $part;
                    let codes = L::load::<$part>(block);
                    let own = if L::GROUP == 32 {
                        _mm256_set1_ps(scales[2 * $part])
                    } else {
                        _mm256_set_m128(
                            _mm_set1_ps(scales[2 * $part + 1]),
                            _mm_set1_ps(scales[2 * $part]),
                        )
                    };
                    for i in 0..ROWS {
                        let products = D::products::<L>(codes, bytes_at(x[i], at));
                        let scale = _mm256_set1_ps(*x[i].scales.get_unchecked(at));
                        let scale = _mm256_mul_ps(own, scale);
                        sums[i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(products), scale, sums[i]);
                    }
                };
            }
            part!(0);
            part!(1);
            part!(2);
            part!(3);
            part!(4);
            part!(5);
            part!(6);
            part!(7);
            if L::MINIMUMS {
                let own = _mm256_set1_ps(half(block, L::MINIMUM));
                let (first, second) = wide(lows);
                let first = _mm256_mul_ps(first, own);
                let second = _mm256_mul_ps(second, own);
                for i in 0..ROWS {
                    let totals = x[i].sums.as_ptr().add(16 * number);
                    let (low, high) = (_mm256_loadu_ps(totals), _mm256_loadu_ps(totals.add(8)));
                    minimums[i] = _mm256_fmadd_ps(first, low, minimums[i]);
                    minimums[i] = _mm256_fmadd_ps(second, high, minimums[i]);
                }
            }
        }
        let mut totals = [0.0; ROWS];
        for i in 0..ROWS {
            totals[i] = total(_mm256_sub_ps(sums[i], minimums[i]));
        }
        totals
    }
}

macro_rules! routine {
    ($(#[$meta:meta])* $name:ident, $dot:ident, $features:literal) => {
        $(#[$meta])*
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $name(weights: BlockMatrix<'_>, x: &[Activations<'_>], sums: &mut [f32]) {
            mod rows {
                use super::*;

                #[target_feature(enable = $features)]
                unsafe fn small_row<L: Codes, const ROWS: usize>(
                    row: &[u8], x: &[Activations<'_>; ROWS],
                ) -> [f32; ROWS] {
                    // SAFETY: the caller's promise.
                    unsafe { small::<L, $dot, ROWS>(row.as_ptr(), row.len() / L::BYTES, x) }
                }

                #[target_feature(enable = $features)]
                unsafe fn large_row<L: Codes + Large, const ROWS: usize>(
                    row: &[u8], x: &[Activations<'_>; ROWS],
                ) -> [f32; ROWS] {
                    // SAFETY: the caller's promise.
                    unsafe { large::<L, $dot, ROWS>(row.as_ptr(), row.len() / L::BYTES, x) }
                }

                pub(super) fn of<const ROWS: usize>(format: BlockFormat) -> Routine<ROWS> {
                    match format {
                        BlockFormat::Q4_0 => small_row::<Q4_0, ROWS>,
                        BlockFormat::Q4_1 => small_row::<Q4_1, ROWS>,
                        BlockFormat::Q5_0 => small_row::<Q5_0, ROWS>,
                        BlockFormat::Q5_1 => small_row::<Q5_1, ROWS>,
                        BlockFormat::Q8_0 => small_row::<Q8_0, ROWS>,
                        BlockFormat::Q2K => large_row::<Q2K, ROWS>,
                        BlockFormat::Q3K => large_row::<Q3K, ROWS>,
                        BlockFormat::Q4K => large_row::<Q4K, ROWS>,
                        BlockFormat::Q5K => large_row::<Q5K, ROWS>,
                        BlockFormat::Q6K => large_row::<Q6K, ROWS>,
                    }
                }
            }
            let format = weights.format();
            // SAFETY: the caller's promise.
            unsafe {
                multiply_rows(weights, x, sums, (rows::of(format), rows::of(format), rows::of(format)));
            }
        }
    };
}

routine! {
    /// The products of the rows `x` with the rows of `weights`, to rows of as many sums.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C; `x` were quantized of as many inputs as the weights have.
    dots_avx2, Plain, "avx2,fma,f16c"
}

routine! {
    /// As [`dots_avx2`].
    ///
    /// # Safety
    /// As [`dots_avx2`], with AVX-VNNI.
    dots_avxvnni, Vnni, "avx2,fma,f16c,avxvnni"
}
