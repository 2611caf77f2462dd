//! Registers of 64 codes in their order: two small blocks, or a quarter of a large one (AVX-512).

use std::arch::x86_64::*;

use super::Large;
use crate::blocks::layouts::{Layout, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};

/// A format of 32 inputs.
pub(super) trait Small: Layout {
    /// The codes of two blocks.
    ///
    /// # Safety
    /// `first` and `second` each point to a readable block; the processor has AVX-512 BW.
    unsafe fn load(first: *const u8, second: *const u8) -> __m512i;
}

/// 16 bytes each of two blocks from `AT` on: low halves, then high halves.
///
/// # Safety
/// As [`Small::codes`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn nibbles<const AT: usize>(first: *const u8, second: *const u8) -> __m512i {
    // SAFETY: the caller's promise.
    let (first, second) =
        unsafe { (_mm_loadu_si128(first.add(AT).cast()), _mm_loadu_si128(second.add(AT).cast())) };
    let both = _mm512_mask_broadcast_i32x4(_mm512_broadcast_i32x4(first), 0xff00, second);
    let shifts = _mm512_set_epi64(
        0x0004_0004_0004_0004,
        0x0004_0004_0004_0004,
        0,
        0,
        0x0004_0004_0004_0004,
        0x0004_0004_0004_0004,
        0,
        0,
    );
    _mm512_and_si512(_mm512_srlv_epi16(both, shifts), _mm512_set1_epi8(15))
}

/// Adds 16 to the codes whose bit from `AT` on is set.
///
/// # Safety
/// As [`Small::codes`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn fifth_bits<const AT: usize>(
    codes: __m512i,
    first: *const u8,
    second: *const u8,
) -> __m512i {
    // SAFETY: the caller's promise.
    let bits =
        unsafe { u64::from(super::word(first, AT)) | u64::from(super::word(second, AT)) << 32 };
    _mm512_mask_add_epi8(codes, bits, codes, _mm512_set1_epi8(16))
}

impl Small for Q4_0 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    unsafe fn load(first: *const u8, second: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { nibbles::<2>(first, second) }
    }
}

impl Small for Q4_1 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    unsafe fn load(first: *const u8, second: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { nibbles::<4>(first, second) }
    }
}

impl Small for Q5_0 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    unsafe fn load(first: *const u8, second: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { fifth_bits::<2>(nibbles::<6>(first, second), first, second) }
    }
}

impl Small for Q5_1 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    unsafe fn load(first: *const u8, second: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { fifth_bits::<4>(nibbles::<8>(first, second), first, second) }
    }
}

impl Small for Q8_0 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    unsafe fn load(first: *const u8, second: *const u8) -> __m512i {
        // SAFETY: the caller's promise: 32 bytes from 2 on.
        let both = unsafe {
            let first = _mm256_loadu_si256(first.add(2).cast());
            let second = _mm256_loadu_si256(second.add(2).cast());
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(first), second)
        };
        _mm512_xor_si512(both, _mm512_set1_epi8(-128))
    }
}

/// The codes of a large format.
pub(super) trait Quarters: Large {
    /// Codes `64 · QUARTER` and those after them of a block.
    ///
    /// # Safety
    /// It is a block; the processor has AVX-512 BW.
    unsafe fn load<const QUARTER: usize>(block: *const u8) -> __m512i;

    /// The two parts of 32 inputs in each register of [`load_parts`](Self::load_parts).
    const PARTS: [[usize; 2]; 4] = [[0, 1], [2, 3], [4, 5], [6, 7]];

    /// Codes in the order that takes the fewest instructions.
    ///
    /// # Safety
    /// As [`load`](Self::load).
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    unsafe fn load_parts<const REGISTER: usize>(block: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { Self::load::<REGISTER>(block) }
    }
}

/// 32 bytes twice.
///
/// # Safety
/// 32 bytes are readable; the processor has AVX-512 F.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn twice(bytes: *const u8) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { _mm512_broadcast_i64x4(_mm256_loadu_si256(bytes.cast())) }
}

/// Shifts of the first and of the second 32 bytes, in every 16 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn shifts(first: i16, second: i16) -> __m512i {
    _mm512_inserti64x4::<1>(
        _mm512_castsi256_si512(_mm256_set1_epi16(first)),
        _mm256_set1_epi16(second),
    )
}

impl Quarters for Q2K {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    unsafe fn load<const QUARTER: usize>(block: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        let bytes = unsafe { twice(block.add(16 + QUARTER / 2 * 32)) };
        let from = (QUARTER % 2 * 4) as i16;
        _mm512_and_si512(_mm512_srlv_epi16(bytes, shifts(from, from + 2)), _mm512_set1_epi8(3))
    }
}

impl Quarters for Q3K {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    unsafe fn load<const QUARTER: usize>(block: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        let (low, high) = unsafe { (twice(block.add(32 + QUARTER / 2 * 32)), twice(block)) };
        let from = (QUARTER % 2 * 4) as i16;
        let low =
            _mm512_and_si512(_mm512_srlv_epi16(low, shifts(from, from + 2)), _mm512_set1_epi8(3));
        let bit = |number: usize| _mm256_set1_epi8((1u32 << number) as u8 as i8);
        let bits =
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(bit(2 * QUARTER)), bit(2 * QUARTER + 1));
        let set = _mm512_test_epi8_mask(high, bits);
        _mm512_mask_add_epi8(low, set, low, _mm512_set1_epi8(4))
    }
}

/// The parts whose codes lie in low halves of the same 64 bytes, then those in their high halves.
const HALVES: [[usize; 2]; 4] = [[0, 2], [1, 3], [4, 6], [5, 7]];

/// The codes of [`HALVES`].
///
/// # Safety
/// There are 128 bytes; the processor has AVX-512 BW.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn halves<const REGISTER: usize>(bytes: *const u8) -> __m512i {
    // SAFETY: the caller's promise.
    let bytes = unsafe { _mm512_loadu_si512(bytes.add(REGISTER / 2 * 64).cast()) };
    let bytes = if REGISTER.is_multiple_of(2) { bytes } else { _mm512_srli_epi16::<4>(bytes) };
    _mm512_and_si512(bytes, _mm512_set1_epi8(15))
}

/// Adds 16 to the codes of two parts whose bit in the 32 bytes `high` is set.
///
/// # Safety
/// 32 bytes are readable at `high`; the processor has AVX-512 BW.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn fifth_bits_of(low: __m512i, high: *const u8, [first, second]: [usize; 2]) -> __m512i {
    let bit = |part: usize| _mm256_set1_epi8((1u32 << part) as u8 as i8);
    let bits = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(bit(first)), bit(second));
    // SAFETY: the caller's promise.
    let set = _mm512_test_epi8_mask(unsafe { twice(high) }, bits);
    _mm512_mask_add_epi8(low, set, low, _mm512_set1_epi8(16))
}

impl Quarters for Q4K {
    const PARTS: [[usize; 2]; 4] = HALVES;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    unsafe fn load<const QUARTER: usize>(block: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        let bytes = unsafe { twice(block.add(16 + QUARTER * 32)) };
        _mm512_and_si512(_mm512_srlv_epi16(bytes, shifts(0, 4)), _mm512_set1_epi8(15))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    unsafe fn load_parts<const REGISTER: usize>(block: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { halves::<REGISTER>(block.add(16)) }
    }
}

impl Quarters for Q5K {
    const PARTS: [[usize; 2]; 4] = HALVES;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    unsafe fn load<const QUARTER: usize>(block: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let low = _mm512_srlv_epi16(twice(block.add(48 + QUARTER * 32)), shifts(0, 4));
            let low = _mm512_and_si512(low, _mm512_set1_epi8(15));
            fifth_bits_of(low, block.add(16), [2 * QUARTER, 2 * QUARTER + 1])
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    unsafe fn load_parts<const REGISTER: usize>(block: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { fifth_bits_of(halves::<REGISTER>(block.add(48)), block.add(16), HALVES[REGISTER]) }
    }
}

impl Quarters for Q6K {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    unsafe fn load<const QUARTER: usize>(block: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        let (low, high) = unsafe {
            let low = _mm512_loadu_si512(block.add(QUARTER / 2 * 64).cast());
            (low, twice(block.add(128 + QUARTER / 2 * 32)))
        };
        let (low, high) = if QUARTER.is_multiple_of(2) {
            (low, _mm512_sllv_epi16(high, shifts(4, 2)))
        } else {
            (_mm512_srli_epi16::<4>(low), _mm512_srlv_epi16(high, shifts(0, 2)))
        };
        let low = _mm512_and_si512(low, _mm512_set1_epi8(15));
        // low | high & 0x30.
        _mm512_ternarylogic_epi32::<0xf8>(low, high, _mm512_set1_epi8(0x30))
    }
}
