//! 64 codes at a time: two small blocks, or a quarter of a large one (AVX-512 with VNNI).

use std::arch::x86_64::*;

use super::codes::{Quarters, Small};
use crate::blocks::{
    BlockFormat, BlockMatrix,
    activations::Activations,
    layouts::{Layout, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0},
};

/// Rows of weights that share what is computed of the activations.
const ROWS: usize = 4;

/// What is computed of 64 activations for all rows.
#[derive(Clone, Copy)]
struct Chunk {
    bytes: __m512i,
    /// What sums of products of codes begin with: minus the offset times the activations.
    start: __m512i,
}

impl Chunk {
    /// # Safety
    /// There are 64 bytes; the processor has AVX-512 VNNI.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
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
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
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

/// What [`scales`] are multiplied with: scales of two parts of activations, or the scale and the sum of each.
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

/// The products with `N` rows `stride` bytes apart.
///
/// # Safety
/// Each row has as many blocks as `x`; the processor has AVX-512 VNNI.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn small<L: Small, const N: usize>(
    rows: *const u8,
    stride: usize,
    x: Activations<'_>,
    out: &mut [f32],
) {
    let blocks = stride / L::BYTES;
    let mut sums = [_mm512_setzero_ps(); N];
    // Products of minimums and sums of activations.
    let mut minimums = [_mm_setzero_ps(); N];
    // Each block's scale for its eight lanes.
    let second = if L::MINIMUMS { 2 } else { 1 };
    let spread = _mm512_inserti64x4::<1>(_mm512_setzero_si512(), _mm256_set1_epi32(second));
    for pair in 0..blocks.div_ceil(2) {
        // SAFETY: activations are zeros up to a whole pair, scales up to a whole line; of an odd number of blocks the
        // last stands for its neighbor too, whose activations are zeros.
        unsafe {
            let chunk = Chunk::new::<L>(x.bytes.as_ptr().add(64 * pair));
            let factors = factors::<L>(x, pair);
            let second = if 2 * pair + 1 < blocks { L::BYTES } else { 0 };
            for (row, sum) in sums.iter_mut().enumerate() {
                let first = rows.add(row * stride + 2 * pair * L::BYTES);
                prefetch(first, N * stride);
                let second = first.add(second);
                let products = chunk.products(L::load(first, second));
                let scales = _mm_mul_ps(scales::<L>(first, second), factors);
                if L::MINIMUMS {
                    minimums[row] = _mm_add_ps(minimums[row], scales);
                }
                let scale = _mm512_permutexvar_ps(spread, _mm512_castps128_ps512(scales));
                *sum = _mm512_fmadd_ps(products, scale, *sum);
            }
        }
    }
    for ((out, sum), minimums) in out.iter_mut().zip(sums).zip(minimums) {
        *out = _mm512_reduce_add_ps(sum);
        if L::MINIMUMS {
            // Beside the two scales.
            let [_, first, _, second] = lanes(minimums);
            *out += first + second;
        }
    }
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

/// Asks for the line `ahead` bytes on: rows are short, and the processor looks no further than they go.
#[inline(always)]
fn prefetch(address: *const u8, ahead: usize) {
    // SAFETY: a prefetch reads nothing that the program sees, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(ahead).cast()) };
}

/// As [`small`], for blocks of 256.
///
/// # Safety
/// As [`small`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn large<L: Quarters, const N: usize>(
    rows: *const u8,
    stride: usize,
    x: Activations<'_>,
    out: &mut [f32],
) {
    let mut sums = [_mm512_setzero_ps(); N];
    for number in 0..stride / L::BYTES {
        // SAFETY: the caller's promise: each row has this block, activations 256 bytes, 8 scales and 16 sums for it.
        unsafe {
            let bytes = x.bytes.as_ptr().add(256 * number);
            let chunks = [
                Chunk::new::<L>(bytes),
                Chunk::new::<L>(bytes.add(64)),
                Chunk::new::<L>(bytes.add(128)),
                Chunk::new::<L>(bytes.add(192)),
            ];
            // Each scale of activations serves two groups of 16.
            let scales = _mm256_loadu_ps(x.scales.as_ptr().add(8 * number));
            let pairs = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
            let scales = _mm512_permutexvar_ps(pairs, _mm512_castps256_ps512(scales));
            let totals = _mm512_loadu_ps(x.sums.as_ptr().add(16 * number));
            for (row, sum) in sums.iter_mut().enumerate() {
                let block = rows.add(row * stride + number * L::BYTES);
                for line in (0..L::BYTES).step_by(64) {
                    prefetch(block, N * stride + line);
                }
                let (bytes, minimums) = L::scale_bytes(block);
                let half = |at: usize| {
                    let bits = block.add(at).cast::<i16>().read_unaligned();
                    _mm512_cvtph_ps(_mm256_set1_epi16(bits))
                };
                let own = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
                let own = _mm512_mul_ps(_mm512_mul_ps(own, half(L::SCALE)), scales);
                // Group g in lanes 4 g … 4 g + 3.
                let first = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
                let spread = |quarter: i32| {
                    let lanes = _mm512_add_epi32(first, _mm512_set1_epi32(4 * quarter));
                    _mm512_permutexvar_ps(lanes, own)
                };
                let mut total = *sum;
                total = _mm512_fmadd_ps(chunks[0].products(L::load::<0>(block)), spread(0), total);
                total = _mm512_fmadd_ps(chunks[1].products(L::load::<1>(block)), spread(1), total);
                total = _mm512_fmadd_ps(chunks[2].products(L::load::<2>(block)), spread(2), total);
                total = _mm512_fmadd_ps(chunks[3].products(L::load::<3>(block)), spread(3), total);
                if L::MINIMUMS {
                    let minimums = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(minimums));
                    let minimums = _mm512_mul_ps(minimums, half(L::MINIMUM));
                    total = _mm512_fnmadd_ps(minimums, totals, total);
                }
                *sum = total;
            }
        }
    }
    for (out, sum) in out.iter_mut().zip(sums) {
        *out = _mm512_reduce_add_ps(sum);
    }
}

/// The products of `x` with the rows of `weights`, as many as there are sums.
///
/// # Safety
/// The processor has AVX-512 F, BW, VL, DQ and VNNI; `x` was quantized of as many inputs as the weights have.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(crate) unsafe fn dots_avx512(weights: BlockMatrix<'_>, x: Activations<'_>, sums: &mut [f32]) {
    type Routine = unsafe fn(*const u8, usize, Activations<'_>, &mut [f32]);
    let (four, one): (Routine, Routine) = match weights.format() {
        BlockFormat::Q4_0 => (small::<Q4_0, ROWS>, small::<Q4_0, 1>),
        BlockFormat::Q4_1 => (small::<Q4_1, ROWS>, small::<Q4_1, 1>),
        BlockFormat::Q5_0 => (small::<Q5_0, ROWS>, small::<Q5_0, 1>),
        BlockFormat::Q5_1 => (small::<Q5_1, ROWS>, small::<Q5_1, 1>),
        BlockFormat::Q8_0 => (small::<Q8_0, ROWS>, small::<Q8_0, 1>),
        BlockFormat::Q2K => (large::<Q2K, ROWS>, large::<Q2K, 1>),
        BlockFormat::Q3K => (large::<Q3K, ROWS>, large::<Q3K, 1>),
        BlockFormat::Q4K => (large::<Q4K, ROWS>, large::<Q4K, 1>),
        BlockFormat::Q5K => (large::<Q5K, ROWS>, large::<Q5K, 1>),
        BlockFormat::Q6K => (large::<Q6K, ROWS>, large::<Q6K, 1>),
    };
    let stride = weights.row_bytes();
    let rows = weights.bytes();
    assert!(rows.len() >= sums.len() * stride && x.bytes.len() >= weights.inputs());
    let (whole, rest) = sums.as_chunks_mut::<ROWS>();
    let done = whole.len() * ROWS;
    // SAFETY: all rows are there, as just asserted; scales and sums are as many as the bytes of `x` take.
    unsafe {
        for (number, sums) in whole.iter_mut().enumerate() {
            four(rows.as_ptr().add(number * ROWS * stride), stride, x, sums);
        }
        for (number, sum) in rest.iter_mut().enumerate() {
            let row = rows.as_ptr().add((done + number) * stride);
            one(row, stride, x, std::slice::from_mut(sum));
        }
    }
}
