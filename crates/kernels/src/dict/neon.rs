//! Dictionaries with NEON: 16 look-ups in a table of up to 64 bytes are one instruction.

use std::arch::aarch64::*;

use super::{DICT_ENTRIES, DICT_GROUP, Planes, group_bytes};

/// Widens packed indexes to the bytes of their entries.
///
/// # Safety
/// `packed` holds as many indexes of `bits` bits, two to six, as `out` has room for.
#[target_feature(enable = "neon")]
pub(super) unsafe fn unpack(bits: u32, packed: &[u8], table: &[i8; DICT_ENTRIES], out: &mut [i8]) {
    const PLACES: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
    let planes = Planes::of(bits);
    // SAFETY: 64 entries and 16 places.
    let (table, places) = unsafe {
        let part = |i: usize| vld1q_s8(table.as_ptr().add(16 * i));
        (int8x16x4_t(part(0), part(1), part(2), part(3)), vld1q_u8(PLACES.as_ptr()))
    };
    let groups = packed.chunks_exact(group_bytes(bits)).zip(out.chunks_exact_mut(DICT_GROUP));
    for (group, out) in groups {
        for quarter in 0..4usize {
            let mut index = vdupq_n_u8(0);
            if planes.nibbles {
                // SAFETY: a plane of four bits has 32 bytes.
                let bytes = unsafe { vld1q_u8(group.as_ptr().add(16 * (quarter % 2))) };
                let high = vshrq_n_u8::<4>(bytes);
                let low = vandq_u8(bytes, vdupq_n_u8(15));
                index = if quarter < 2 { low } else { high };
            }
            if let Some((start, shift)) = planes.pairs {
                // SAFETY: a plane of two bits has 16 bytes.
                let bytes = unsafe { vld1q_u8(group.as_ptr().add(start)) };
                let right = vdupq_n_s8(-2 * quarter as i8);
                let pair = vandq_u8(vshlq_u8(bytes, right), vdupq_n_u8(3));
                index = vorrq_u8(index, vshlq_u8(pair, vdupq_n_s8(shift as i8)));
            }
            if let Some((start, shift)) = planes.singles {
                let bytes = &group[start + 2 * quarter..][..2];
                let bits = vcombine_u8(vdup_n_u8(bytes[0]), vdup_n_u8(bytes[1]));
                let bit = vandq_u8(vtstq_u8(bits, places), vdupq_n_u8(1 << shift));
                index = vorrq_u8(index, bit);
            }
            let values = vqtbl4q_s8(table, index);
            // SAFETY: `out` has 64 bytes.
            unsafe { vst1q_s8(out.as_mut_ptr().add(16 * quarter), values) };
        }
    }
}
