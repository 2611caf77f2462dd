//! Micro-kernels without intrinsics: right on every processor, and the twins that all others are tested against.

use crate::micro::{Micro, Operands, PANEL};

/// Rows × 16 sums stay in 16 registers of four lanes, which baseline x86 and Arm have or nearly have.
const ROWS: usize = 4;

/// f32.
pub(crate) const F32: Micro = Micro { rows: ROWS, ..Micro::new(f32_tile) };

/// Pairs of bf16, summed in f32; where the processor has no instructions for it, f32 is faster.
pub(crate) const BF16: Micro = Micro { rows: ROWS, ..Micro::new(bf16_tile) };

/// Bytes, summed in i32.
pub(crate) const INT8: Micro = Micro { rows: ROWS, ..Micro::new(int8_tile) };

/// Bytes widened to pairs of i16, summed in i32; bytes are as fast without instructions for it.
#[cfg(test)]
pub(crate) const INT16: Micro = Micro { rows: ROWS, ..Micro::new(int16_tile) };

/// # Safety
/// As [`Micro::run`].
unsafe fn f32_tile(operands: Operands) {
    let add = |sum: u32, a: u32, b: u32| {
        (f32::from_bits(sum) + f32::from_bits(a) * f32::from_bits(b)).to_bits()
    };
    // SAFETY: the caller's promise.
    unsafe { any_tile(operands, add) }
}

/// # Safety
/// As [`Micro::run`].
unsafe fn bf16_tile(operands: Operands) {
    let low = |it: u32| f32::from_bits(it << 16);
    let high = |it: u32| f32::from_bits(it & 0xffff_0000);
    let add = |sum: u32, a: u32, b: u32| {
        (f32::from_bits(sum) + high(a) * high(b) + low(a) * low(b)).to_bits()
    };
    // SAFETY: the caller's promise.
    unsafe { any_tile(operands, add) }
}

/// # Safety
/// As [`Micro::run`].
unsafe fn int8_tile(operands: Operands) {
    let add = |sum: u32, a: u32, b: u32| {
        let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
        let product = |i: usize| i32::from(a[i] as i8) * i32::from(b[i] as i8);
        // As bits: sums of i32 and of u32 are the same.
        sum.wrapping_add((product(0) + product(1) + product(2) + product(3)) as u32)
    };
    // SAFETY: the caller's promise.
    unsafe { any_tile(operands, add) }
}

/// # Safety
/// As [`Micro::run`].
#[cfg(test)]
unsafe fn int16_tile(operands: Operands) {
    let add = |sum: u32, a: u32, b: u32| {
        let product = |shift: u32| i32::from((a >> shift) as i16) * i32::from((b >> shift) as i16);
        sum.wrapping_add((product(0) + product(16)) as u32)
    };
    // SAFETY: the caller's promise.
    unsafe { any_tile(operands, add) }
}

/// # Safety
/// As [`Micro::run`].
#[inline(always)]
unsafe fn any_tile(operands: Operands, add: impl Fn(u32, u32, u32) -> u32) {
    let Operands { a, stride, rows, b, panels, panel_stride, depth, out, out_stride } = operands;
    for panel in 0..panels {
        // SAFETY: panel is below panels, each of depth × 16 lanes.
        let b = unsafe { std::slice::from_raw_parts(b.add(panel * panel_stride), depth * PANEL) };
        let mut sums = [[0u32; PANEL]; ROWS];
        for (step, b) in b.as_chunks::<PANEL>().0.iter().enumerate() {
            for (row, sums) in sums.iter_mut().enumerate().take(rows) {
                // SAFETY: row is below rows and step below depth.
                let a = unsafe { *a.add(row * stride + step) };
                for (sum, &b) in sums.iter_mut().zip(b) {
                    *sum = add(*sum, a, b);
                }
            }
        }
        for (row, sums) in sums.iter().enumerate().take(rows) {
            // SAFETY: row is below rows and panel below panels.
            unsafe {
                out.add(row * out_stride + panel * PANEL)
                    .cast::<[u32; PANEL]>()
                    .write_unaligned(*sums);
            }
        }
    }
}
