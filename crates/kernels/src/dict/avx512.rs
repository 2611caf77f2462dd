//! Dictionaries with AVX-512 VBMI: 64 look-ups in a table of 64 bytes are one instruction.

use std::arch::x86_64::*;

use super::{DICT_ENTRIES, DICT_GROUP, group_bytes};

/// Widens packed indexes to the bytes of their entries.
///
/// # Safety
/// The processor has AVX-512 F, BW and VBMI, and `packed` holds as many indexes of `bits` bits, two to six, as `out`
/// has room for.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) unsafe fn unpack(bits: u32, packed: &[u8], table: &[i8; DICT_ENTRIES], out: &mut [i8]) {
    // SAFETY: 64 entries.
    let table = unsafe { _mm512_loadu_si512(table.as_ptr().cast()) };
    let groups = packed.chunks_exact(group_bytes(bits)).zip(out.chunks_exact_mut(DICT_GROUP));
    for (group, out) in groups {
        let from = group.as_ptr();
        // SAFETY: a group of that many bits holds the planes that are read, and `out` 64 bytes.
        unsafe {
            let index = match bits {
                2 => pairs(from),
                3 => with_singles(pairs(from), from.add(16), 4),
                4 => nibbles(from),
                5 => with_singles(nibbles(from), from.add(32), 16),
                _ => {
                    let upper = _mm512_slli_epi16(pairs(from.add(32)), 4);
                    _mm512_or_si512(nibbles(from), upper)
                }
            };
            let values = _mm512_permutexvar_epi8(index, table);
            _mm512_storeu_si512(out.as_mut_ptr().cast(), values);
        }
    }
}

/// # Safety
/// The processor has AVX-512 F, and 32 bytes can be read.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn nibbles(from: *const u8) -> __m512i {
    // SAFETY: the caller's promise.
    let bytes = _mm512_broadcast_i64x4(unsafe { _mm256_loadu_si256(from.cast()) });
    let by = _mm512_setr_epi64(0, 0, 0, 0, 4, 4, 4, 4);
    _mm512_and_si512(_mm512_srlv_epi64(bytes, by), _mm512_set1_epi8(15))
}

/// # Safety
/// The processor has AVX-512 F, and 16 bytes can be read.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn pairs(from: *const u8) -> __m512i {
    // SAFETY: the caller's promise.
    let bytes = _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(from.cast()) });
    let by = _mm512_setr_epi64(0, 0, 2, 2, 4, 4, 6, 6);
    _mm512_and_si512(_mm512_srlv_epi64(bytes, by), _mm512_set1_epi8(3))
}

/// Adds `value` to the indexes whose bit is set.
///
/// # Safety
/// The processor has AVX-512 F and BW, and 8 bytes can be read.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn with_singles(index: __m512i, from: *const u8, value: i8) -> __m512i {
    // SAFETY: the caller's promise.
    let mask = unsafe { from.cast::<u64>().read_unaligned() };
    _mm512_mask_add_epi8(index, mask, index, _mm512_set1_epi8(value))
}
