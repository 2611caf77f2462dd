//! Micro-kernels with the instructions of Arm processors: tiles of one panel, four registers wide, of which six rows
//! fill 24 of the 32 registers.

use std::arch::{aarch64::*, asm};

use crate::{
    micro::{Micro, Operands, PANEL},
    tile::tile_kernel,
};

/// f32 (NEON).
pub(crate) const F32: Micro = Micro { rows: 6, ..Micro::new(f32_tile) };

/// Bytes (NEON with dot products).
pub(crate) const INT8: Micro = Micro { rows: 6, ..Micro::new(int8_tile) };

/// Bytes (NEON with products of matrices).
pub(crate) const I8MM_INT8: Micro = Micro { rows: 6, ..Micro::new(i8mm_tile) };

tile_kernel! {
    f32_tile, features "neon", rows [1 2 3 4 5 6], panels [1], registers 4 of 4,
    zero vdupq_n_f32(0.0),
    load |p: *const u32| vld1q_f32(p.cast()),
    lane |p: *const u32| vdupq_n_f32(*p.cast()),
    add |sum, a, b| vfmaq_f32(sum, a, b),
    store |p: *mut u32, sum| vst1q_f32(p.cast(), sum),
}

tile_kernel! {
    int8_tile, features "neon,dotprod", rows [1 2 3 4 5 6], panels [1], registers 4 of 4,
    zero vdupq_n_s32(0),
    load |p: *const u32| vld1q_s32(p.cast()),
    lane |p: *const u32| vdupq_n_s32(*p.cast()),
    add |sum, a, b| dot(sum, a, b),
    store |p: *mut u32, sum| vst1q_s32(p.cast(), sum),
}

/// `sum + a · b` for signed bytes given as lanes. The compiler's own name for it is not stable yet.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn dot(sum: int32x4_t, a: int32x4_t, b: int32x4_t) -> int32x4_t {
    let mut sum = sum;
    // SAFETY: the processor has dot products, and the instruction touches nothing but its registers.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {a:v}.16b, {b:v}.16b",
            sum = inout(vreg) sum,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// # Safety
/// As [`Micro::run`].
unsafe fn i8mm_tile(operands: Operands) {
    // SAFETY: the caller's promise.
    unsafe {
        match operands.rows {
            1 | 2 => i8mm_rows::<1>(operands),
            3 | 4 => i8mm_rows::<2>(operands),
            5 | 6 => i8mm_rows::<3>(operands),
            other => unreachable!("a tile of {other} rows: this is a bug"),
        }
    }
}

/// Pairs of rows with pairs of columns: an instruction multiplies 2 × 8 bytes with 8 × 2. Two lanes of a panel lie one
/// below the other and are brought side by side; of 24 registers of sums each holds two rows' two columns.
///
/// # Safety
/// As [`Micro::run`], for `2 · PAIRS` rows or one less.
#[target_feature(enable = "neon,dotprod,i8mm")]
unsafe fn i8mm_rows<const PAIRS: usize>(operands: Operands) {
    const HALVES: usize = PANEL / 2;
    const QUADS: usize = PANEL / 4;
    let Operands { a, stride, rows, b, depth, out, out_stride, .. } = operands;
    let none = vdupq_n_s32(0);
    let mut sums = [[none; HALVES]; PAIRS];
    // SAFETY: the caller's promise: rows of depth lanes, a panel of depth × 16 lanes, and room for the sums. The last
    // lane of an odd depth is read alone.
    unsafe {
        for step in (0..depth).step_by(2) {
            let both = step + 1 < depth;
            let lanes = |row: usize| {
                let from = a.add(row * stride + step);
                if row >= rows {
                    vdup_n_s32(0)
                } else if both {
                    vld1_s32(from.cast())
                } else {
                    vset_lane_s32::<0>(from.cast::<i32>().read(), vdup_n_s32(0))
                }
            };
            let mut pairs = [none; PAIRS];
            for (number, pair) in pairs.iter_mut().enumerate() {
                *pair = vcombine_s32(lanes(2 * number), lanes(2 * number + 1));
            }
            for quad in 0..QUADS {
                let from = b.add(step * PANEL + quad * 4).cast::<i32>();
                let upper = vld1q_s32(from);
                let lower = if both { vld1q_s32(from.add(PANEL)) } else { none };
                let (first, second) = (vzip1q_s32(upper, lower), vzip2q_s32(upper, lower));
                for (sums, &pair) in sums.iter_mut().zip(&pairs) {
                    sums[2 * quad] = multiply(sums[2 * quad], pair, first);
                    sums[2 * quad + 1] = multiply(sums[2 * quad + 1], pair, second);
                }
            }
        }
        for row in 0..rows {
            for quad in 0..QUADS {
                let (left, right) = (sums[row / 2][2 * quad], sums[row / 2][2 * quad + 1]);
                let sums = if row % 2 == 0 {
                    vcombine_s32(vget_low_s32(left), vget_low_s32(right))
                } else {
                    vcombine_s32(vget_high_s32(left), vget_high_s32(right))
                };
                vst1q_s32(out.add(row * out_stride + quad * 4).cast(), sums);
            }
        }
    }
}

/// `sum + a · bᵀ` for two rows of eight signed bytes each. The compiler's own name for it is not stable yet.
#[inline]
#[target_feature(enable = "neon,i8mm")]
fn multiply(sum: int32x4_t, a: int32x4_t, b: int32x4_t) -> int32x4_t {
    let mut sum = sum;
    // SAFETY: the processor has these products, and the instruction touches nothing but its registers.
    unsafe {
        asm!(
            "smmla {sum:v}.4s, {a:v}.16b, {b:v}.16b",
            sum = inout(vreg) sum,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}
