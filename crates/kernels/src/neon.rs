//! Micro-kernels with the instructions of Arm processors: tiles of one panel, four registers wide, of which six rows
//! fill 24 of the 32 registers.

use std::arch::{aarch64::*, asm};

use crate::{micro::Micro, tile::tile_kernel};

/// f32 (NEON).
pub(crate) const F32: Micro = Micro { rows: 6, panels: 1, offset: 0, run: f32_tile };

/// Bytes (NEON with dot products).
pub(crate) const INT8: Micro = Micro { rows: 6, panels: 1, offset: 0, run: int8_tile };

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
