//! Dictionaries with AVX2: 32 look-ups in one to four shuffles.

use std::arch::x86_64::*;

use super::{DICT_ENTRIES, DICT_GROUP, group_bytes};

/// Widens packed indexes to the bytes of their entries.
///
/// # Safety
/// The processor has AVX2, and `packed` holds as many indexes of `bits` bits, two to six, as `out` has room for.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn unpack(bits: u32, packed: &[u8], table: &[i8; DICT_ENTRIES], out: &mut [i8]) {
    let quarter = |i: usize| -> __m256i {
        // SAFETY: 16 of 64 entries.
        let part = unsafe { _mm_loadu_si128(table.as_ptr().add(16 * i).cast()) };
        _mm256_broadcastsi128_si256(part)
    };
    let tables = [quarter(0), quarter(1), quarter(2), quarter(3)];
    let groups = packed.chunks_exact(group_bytes(bits)).zip(out.chunks_exact_mut(DICT_GROUP));
    for (group, out) in groups {
        let from = group.as_ptr();
        // SAFETY: a group of that many bits holds the planes that are read, and `out` 64 bytes.
        unsafe {
            let (low, high) = match bits {
                2 => {
                    let (low, high) = pairs(from);
                    (look_up(tables[0], low), look_up(tables[0], high))
                }
                3 => {
                    let ((low, high), (low_bit, high_bit)) = (pairs(from), singles(from.add(16)));
                    let four = _mm256_set1_epi8(4);
                    let low = _mm256_or_si256(low, _mm256_and_si256(low_bit, four));
                    let high = _mm256_or_si256(high, _mm256_and_si256(high_bit, four));
                    (look_up(tables[0], low), look_up(tables[0], high))
                }
                4 => {
                    let (low, high) = nibbles(from);
                    (look_up(tables[0], low), look_up(tables[0], high))
                }
                5 => {
                    let ((low, high), (low_bit, high_bit)) = (nibbles(from), singles(from.add(32)));
                    let of = |index, bit| {
                        let (first, second) =
                            (look_up(tables[0], index), look_up(tables[1], index));
                        _mm256_blendv_epi8(first, second, bit)
                    };
                    (of(low, low_bit), of(high, high_bit))
                }
                _ => {
                    let ((low, high), (low_pair, high_pair)) = (nibbles(from), pairs(from.add(32)));
                    let of = |index, pair| {
                        // A bit of the pair in each byte's highest place, which is all that blending looks at.
                        let (odd, upper) = (_mm256_slli_epi16(pair, 7), _mm256_slli_epi16(pair, 6));
                        let of = |i: usize| look_up(tables[i], index);
                        let first = _mm256_blendv_epi8(of(0), of(1), odd);
                        let second = _mm256_blendv_epi8(of(2), of(3), odd);
                        _mm256_blendv_epi8(first, second, upper)
                    };
                    (of(low, low_pair), of(high, high_pair))
                }
            };
            _mm256_storeu_si256(out.as_mut_ptr().cast(), low);
            _mm256_storeu_si256(out.as_mut_ptr().add(32).cast(), high);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn look_up(table: __m256i, index: __m256i) -> __m256i {
    _mm256_shuffle_epi8(table, index)
}

/// Elements 0…31 and 32…63 of a plane of four bits.
///
/// # Safety
/// The processor has AVX2, and 32 bytes can be read.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn nibbles(from: *const u8) -> (__m256i, __m256i) {
    let mask = _mm256_set1_epi8(15);
    // SAFETY: the caller's promise.
    let bytes = unsafe { _mm256_loadu_si256(from.cast()) };
    (_mm256_and_si256(bytes, mask), _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask))
}

/// Elements 0…31 and 32…63 of a plane of two bits.
///
/// # Safety
/// The processor has AVX2, and 16 bytes can be read.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pairs(from: *const u8) -> (__m256i, __m256i) {
    let mask = _mm256_set1_epi8(3);
    // SAFETY: the caller's promise.
    let bytes = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(from.cast()) });
    // What comes over from the next byte is masked away.
    let shifted = |low, high| {
        let by = _mm256_setr_epi32(low, low, low, low, high, high, high, high);
        _mm256_and_si256(_mm256_srlv_epi32(bytes, by), mask)
    };
    (shifted(0, 2), shifted(4, 6))
}

/// Elements 0…31 and 32…63 of a plane of single bits: all bits of the byte where there is one.
///
/// # Safety
/// The processor has AVX2, and 8 bytes can be read.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn singles(from: *const u8) -> (__m256i, __m256i) {
    let spread = _mm256_setr_epi8(
        0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3,
        3, 3,
    );
    let place = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
    let of = |word: i32| {
        let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(word), spread);
        _mm256_cmpeq_epi8(_mm256_and_si256(bytes, place), place)
    };
    // SAFETY: the caller's promise.
    unsafe {
        let low = from.cast::<i32>().read_unaligned();
        let high = from.add(4).cast::<i32>().read_unaligned();
        (of(low), of(high))
    }
}
