//! 64 codes at a time: two small blocks, or a quarter of a large one (AVX-512 with VNNI). A step of a language model
//! reads every weight once, at the speed of memory: what counts is how few instructions a byte takes.

#![allow(
    clippy::needless_range_loop,
    reason = "by index: iterating over arrays of registers by value copies them through memory"
)]

use std::arch::x86_64::*;

use super::{
    Routine,
    codes::{Quarters, Small},
    multiply_rows,
};
use crate::blocks::{
    BlockFormat, BlockMatrix,
    activations::Activations,
    layouts::{Layout, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0},
};

/// Bytes between what is computed and what is asked for. One row follows the other in memory, and one after the
/// other they are read at the speed of memory: 25 to 33 GB/s by format with two threads of a Zen 4, where four rows
/// side by side, sharing what is computed of the activations, got 17 to 23, and 6144 bytes 20 to 34.
const AHEAD: usize = 2048;

/// 64 activations, prepared for the products of codes.
#[derive(Clone, Copy)]
struct Chunk {
    bytes: __m512i,
    /// Where sums of products of codes begin: minus the codes' offset times the activations.
    start: __m512i,
}

impl Chunk {
    /// # Safety
    /// There are 64 bytes; the processor has AVX-512 VNNI.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    unsafe fn new<L: Layout>(bytes: *const i8) -> Chunk {
        // SAFETY: the caller's promise.
        let bytes = unsafe { _mm512_loadu_si512(bytes.cast()) };
        let zero = _mm512_setzero_si512();
        let start = match L::OFFSET {
            0 => zero,
            offset => {
                let excess = _mm512_dpbusd_epi32(zero, _mm512_set1_epi8(offset as i8), bytes);
                _mm512_sub_epi32(zero, excess)
            }
        };
        Chunk { bytes, start }
    }

    /// Sums of four products each, as f32.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    fn products(self, codes: __m512i) -> __m512 {
        _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(self.start, codes, self.bytes))
    }
}

/// The scales of two blocks, or the scale and the minimum of each.
///
/// # Safety
/// As [`Small::load`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn scales<L: Layout>(first: *const u8, second: *const u8) -> __m128 {
    // SAFETY: the caller's promise.
    unsafe {
        let bits = if L::MINIMUMS {
            u64::from(super::word(first, 0)) | u64::from(super::word(second, 0)) << 32
        } else {
            let half = |block: *const u8| u64::from(block.cast::<u16>().read_unaligned());
            half(first) | half(second) << 16
        };
        _mm_cvtph_ps(_mm_cvtsi64_si128(bits as i64))
    }
}

/// Factors of [`scales`]: scales of two parts of activations, or the scale and the sum of each.
///
/// # Safety
/// The activations are there; the processor has AVX-512.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn factors<L: Layout>(x: Activations<'_>, pair: usize) -> __m128 {
    // SAFETY: the caller's promise.
    unsafe {
        let scales = x.scales.as_ptr().add(2 * pair).cast();
        let scales = _mm_castpd_ps(_mm_load_sd(scales));
        if L::MINIMUMS {
            let sums = _mm_loadu_ps(x.sums.as_ptr().add(4 * pair));
            _mm_unpacklo_ps(scales, _mm_hadd_ps(sums, sums))
        } else {
            scales
        }
    }
}

/// The products of some rows of activations with a row of weights, of its blocks from `from` on, an even number. Each
/// is computed as if it were the only one; codes and scales are loaded once for all.
///
/// # Safety
/// The row has as many blocks as each of `x`; the processor has AVX-512 VNNI.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn small<L: Small, const ROWS: usize>(
    row: &[u8],
    from: usize,
    x: &[Activations<'_>; ROWS],
) -> [f32; ROWS] {
    let blocks = row.len() / L::BYTES;
    let mut sums = [_mm512_setzero_ps(); ROWS];
    // Products of minimums and sums of activations.
    let mut minimums = [_mm_setzero_ps(); ROWS];
    // Each block's scale for its eight lanes.
    let second = if L::MINIMUMS { 2 } else { 1 };
    let spread = _mm512_inserti64x4::<1>(_mm512_setzero_si512(), _mm256_set1_epi32(second));
    for pair in from / 2..blocks.div_ceil(2) {
        // SAFETY: activations are zeros up to a whole pair, scales up to a whole line; of an odd number of blocks the
        // last stands for its neighbor too, whose activations are zeros.
        unsafe {
            let second = if 2 * pair + 1 < blocks { L::BYTES } else { 0 };
            let first = row.as_ptr().add(2 * pair * L::BYTES);
            prefetch(first);
            let second = first.add(second);
            let codes = L::load(first, second);
            let own = scales::<L>(first, second);
            for i in 0..ROWS {
                let chunk = Chunk::new::<L>(x[i].bytes.as_ptr().add(64 * pair));
                let scales = _mm_mul_ps(own, factors::<L>(x[i], pair));
                if L::MINIMUMS {
                    minimums[i] = _mm_add_ps(minimums[i], scales);
                }
                let scale = _mm512_permutexvar_ps(spread, _mm512_castps128_ps512(scales));
                sums[i] = _mm512_fmadd_ps(chunk.products(codes), scale, sums[i]);
            }
        }
    }
    let mut totals = [0.0; ROWS];
    for i in 0..ROWS {
        totals[i] = _mm512_reduce_add_ps(sums[i]);
        if L::MINIMUMS {
            // Beside the two scales.
            let [_, first, _, second] = lanes(minimums[i]);
            totals[i] = totals[i] + first + second;
        }
    }
    totals
}

/// The lanes of a register.
#[inline]
#[target_feature(enable = "avx512f")]
fn lanes(register: __m128) -> [f32; 4] {
    let mut lanes = [0.0; 4];
    // SAFETY: four lanes.
    unsafe { _mm_storeu_ps(lanes.as_mut_ptr(), register) };
    lanes
}

/// Asks for the line [`AHEAD`]: rows are short, and the processor looks no further than a page.
#[inline(always)]
fn prefetch(address: *const u8) {
    // SAFETY: a prefetch reads nothing that the program sees, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(AHEAD).cast()) };
}

/// Where a pair of bytes of four blocks of [`Q4_0`] lies: 32 are the first register's, the others in one that begins 8
/// bytes later.
const fn place(pair: usize) -> i16 {
    (if pair < 32 { pair } else { 32 + pair - 4 }) as i16
}

/// The places of the codes of four blocks of [`Q4_0`].
const QUAD_CODES: [i16; 32] = {
    let mut places = [0; 32];
    let mut at = 0;
    while at < 32 {
        places[at] = place(at / 8 * 9 + 1 + at % 8);
        at += 1;
    }
    places
};

/// The places of their scales, each four times: four sums of products are of its block.
const QUAD_SCALES: [i16; 32] = {
    let mut places = [0; 32];
    let mut at = 0;
    while at < 16 {
        places[at] = place(at / 4 * 9);
        at += 1;
    }
    places
};

/// As [`small`], for [`Q4_0`], four blocks at a time: their codes and their scales are brought together in a register
/// each, which takes half the instructions for a byte.
///
/// # Safety
/// As [`small`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn quads<const ROWS: usize>(row: &[u8], x: &[Activations<'_>; ROWS]) -> [f32; ROWS] {
    let whole = row.len() / Q4_0::BYTES / 4;
    let mut sums = [_mm512_setzero_ps(); ROWS];
    // SAFETY: arrays of 64 bytes.
    let (codes, halves) = unsafe {
        (
            _mm512_loadu_si512(QUAD_CODES.as_ptr().cast()),
            _mm512_loadu_si512(QUAD_SCALES.as_ptr().cast()),
        )
    };
    let low_eights = _mm512_set_epi64(13, 12, 9, 8, 5, 4, 1, 0);
    let high_eights = _mm512_set_epi64(15, 14, 11, 10, 7, 6, 3, 2);
    let each = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    let mask = _mm512_set1_epi8(15);
    for quad in 0..whole {
        // SAFETY: the row has four blocks here, 72 bytes; activations have 128 bytes and four scales for them.
        unsafe {
            let block = row.as_ptr().add(quad * 4 * Q4_0::BYTES);
            prefetch(block);
            prefetch(block.wrapping_add(64));
            let first = _mm512_loadu_si512(block.cast());
            let second = _mm512_loadu_si512(block.add(8).cast());
            let both = _mm512_permutex2var_epi16(first, codes, second);
            let own = _mm512_permutex2var_epi16(first, halves, second);
            let own = _mm512_cvtph_ps(_mm512_castsi512_si256(own));
            let low_codes = _mm512_and_si512(both, mask);
            let high_codes = _mm512_and_si512(_mm512_srli_epi16::<4>(both), mask);
            for i in 0..ROWS {
                let bytes = x[i].bytes.as_ptr().add(128 * quad);
                let first = _mm512_loadu_si512(bytes.cast());
                let second = _mm512_loadu_si512(bytes.add(64).cast());
                let low = _mm512_permutex2var_epi64(first, low_eights, second);
                let high = _mm512_permutex2var_epi64(first, high_eights, second);
                let zero = _mm512_setzero_si512();
                let eight = _mm512_set1_epi8(Q4_0::OFFSET as i8);
                let excess =
                    _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(zero, eight, low), eight, high);
                let start = _mm512_sub_epi32(zero, excess);
                let scales = _mm_loadu_ps(x[i].scales.as_ptr().add(4 * quad));
                let scales = _mm512_permutexvar_ps(each, _mm512_castps128_ps512(scales));
                let products = _mm512_dpbusd_epi32(start, low_codes, low);
                let products = _mm512_dpbusd_epi32(products, high_codes, high);
                let scale = _mm512_mul_ps(own, scales);
                sums[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products), scale, sums[i]);
            }
        }
    }
    let mut totals = [0.0; ROWS];
    for i in 0..ROWS {
        totals[i] = _mm512_reduce_add_ps(sums[i]);
    }
    if row.len() > whole * 4 * Q4_0::BYTES {
        // SAFETY: the caller's promise.
        let rest = unsafe { small::<Q4_0, ROWS>(row, 4 * whole, x) };
        for i in 0..ROWS {
            totals[i] += rest[i];
        }
    }
    totals
}

/// For every register of [`Quarters::PARTS`] the group of 16 inputs that each pair of codes is of.
const fn groups(parts: [[usize; 2]; 4]) -> [[i16; 32]; 4] {
    let mut groups = [[0; 32]; 4];
    let mut at = 0;
    while at < 128 {
        let (register, pair) = (at / 32, at % 32);
        groups[register][pair] = (2 * parts[register][pair / 16] + pair % 16 / 8) as i16;
        at += 1;
    }
    groups
}

/// As [`small`], for blocks of 256: their scales and minimums are bytes, so that all of a block is summed exactly.
///
/// # Safety
/// As [`small`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
// Long: one loop whose parts share registers.
unsafe fn large<L: Quarters, const ROWS: usize>(
    row: &[u8],
    x: &[Activations<'_>; ROWS],
) -> [f32; ROWS] {
    let mut sums = [_mm512_setzero_ps(); ROWS];
    // Products of minimums, or of offsets, and sums of activations.
    let mut less = [_mm256_setzero_ps(); ROWS];
    let [first, second, third, fourth] = const { groups(L::PARTS) };
    // No `map`: it has not these instructions, and what it calls could not be inlined.
    // SAFETY: arrays of 64 bytes.
    let groups = unsafe {
        [
            _mm512_loadu_si512(first.as_ptr().cast()),
            _mm512_loadu_si512(second.as_ptr().cast()),
            _mm512_loadu_si512(third.as_ptr().cast()),
            _mm512_loadu_si512(fourth.as_ptr().cast()),
        ]
    };
    for (number, block) in row.chunks_exact(L::BYTES).enumerate() {
        let block = block.as_ptr();
        // SAFETY: the caller's promise: activations have 256 bytes, a scale and 16 totals for this block.
        unsafe {
            for line in (0..L::BYTES).step_by(64) {
                prefetch(block.wrapping_add(line));
            }
            let (scales, minimums) = L::scale_bytes(block);
            let scales = _mm256_cvtepi8_epi16(scales);
            let minimums = _mm256_cvtepi8_epi16(minimums);
            let wide = _mm512_castsi256_si512(scales);
            let half = |at: usize| {
                let bits = block.add(at).cast::<u16>().read_unaligned();
                _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits))))
            };
            let scale = half(L::SCALE);
            let minimum = if L::MINIMUMS { half(L::MINIMUM) } else { 0.0 };
            let mut totals = [_mm512_setzero_si512(); ROWS];
            // Pairs of products fit 16 bits: codes are below 64.
            macro_rules! add {
                ($register:literal) => {
                    let codes = L::load_parts::<$register>(block);
                    let own = _mm512_permutexvar_epi16(groups[$register], wide);
                    let [first, second] = L::PARTS[$register];
                    for i in 0..ROWS {
                        let bytes = x[i].bytes.as_ptr().add(256 * number);
                        let part = |at: usize| _mm256_loadu_si256(bytes.add(32 * at).cast());
                        let x = _mm512_castsi256_si512(part(first));
                        let x = _mm512_inserti64x4::<1>(x, part(second));
                        let pairs = _mm512_maddubs_epi16(codes, x);
                        totals[i] = _mm512_dpwssd_epi32(totals[i], pairs, own);
                    }
                };
            }
            add!(0);
            add!(1);
            add!(2);
            add!(3);
            for i in 0..ROWS {
                let of_x = *x[i].scales.get_unchecked(8 * number);
                let own = scale * of_x;
                let total = _mm512_cvtepi32_ps(totals[i]);
                sums[i] = _mm512_fmadd_ps(total, _mm512_set1_ps(own), sums[i]);
                if L::MINIMUMS || L::OFFSET != 0 {
                    let (bytes, factor) = if L::MINIMUMS {
                        (minimums, minimum * of_x)
                    } else {
                        (scales, own * L::OFFSET as f32)
                    };
                    let totals = x[i].totals.as_ptr().add(16 * number);
                    let totals = _mm256_loadu_si256(totals.cast());
                    let total = _mm256_cvtepi32_ps(_mm256_madd_epi16(bytes, totals));
                    less[i] = _mm256_fmadd_ps(total, _mm256_set1_ps(factor), less[i]);
                }
            }
        }
    }
    let mut all = [0.0; ROWS];
    for i in 0..ROWS {
        let less = _mm512_zextps256_ps512(less[i]);
        all[i] = _mm512_reduce_add_ps(sums[i]) - _mm512_reduce_add_ps(less);
    }
    all
}

/// The products with a row in small blocks.
///
/// # Safety
/// As [`small`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn pairs<L: Small, const ROWS: usize>(
    row: &[u8],
    x: &[Activations<'_>; ROWS],
) -> [f32; ROWS] {
    // SAFETY: the caller's promise.
    unsafe { small::<L, ROWS>(row, 0, x) }
}

/// What multiplies a row of weights.
fn of<const ROWS: usize>(format: BlockFormat) -> Routine<ROWS> {
    match format {
        BlockFormat::Q4_0 => quads::<ROWS>,
        BlockFormat::Q4_1 => pairs::<Q4_1, ROWS>,
        BlockFormat::Q5_0 => pairs::<Q5_0, ROWS>,
        BlockFormat::Q5_1 => pairs::<Q5_1, ROWS>,
        BlockFormat::Q8_0 => pairs::<Q8_0, ROWS>,
        BlockFormat::Q2K => large::<Q2K, ROWS>,
        BlockFormat::Q3K => large::<Q3K, ROWS>,
        BlockFormat::Q4K => large::<Q4K, ROWS>,
        BlockFormat::Q5K => large::<Q5K, ROWS>,
        BlockFormat::Q6K => large::<Q6K, ROWS>,
    }
}

/// The products of the rows `x` with the rows of `weights`, to rows of as many sums.
///
/// # Safety
/// The processor has AVX-512 F, BW, VL, DQ and VNNI; `x` were quantized of as many inputs as the weights have.
pub(crate) unsafe fn dots_avx512(
    weights: BlockMatrix<'_>,
    x: &[Activations<'_>],
    sums: &mut [f32],
) {
    let format = weights.format();
    // SAFETY: the caller's promise.
    unsafe { multiply_rows(weights, x, sums, (of(format), of(format), of(format))) };
}
