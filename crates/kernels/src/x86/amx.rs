//! Tiles of AMX: a unit beside the core multiplies 16 rows of 16 lanes with 16 rows of a panel in one instruction.
//!
//! A row of a panel is 64 bytes and a panel's lanes lie one below the other, which is what the unit takes as its second
//! operand: panels need no layout of their own. Two times 16 rows and two panels keep four of the unit's eight tiles
//! as sums, and each operand that is loaded is used twice. What does not fill whole tiles (the last rows, a last
//! panel alone, depths that are no multiple of 16 lanes) goes to the kernels of AVX-512, which every processor with
//! AMX has and which take the same operands.

use std::arch::asm;

use super::avx512;
use crate::micro::{Micro, Operands, PANEL, TILE_PANELS};

/// Rows of a tile, and lanes of the depth that one instruction takes.
const ROWS: usize = 16;

/// Bytes from one row of a panel to the next.
const PANEL_BYTES: usize = PANEL * size_of::<u32>();

/// Bytes (AMX-INT8); activations are unsigned, as those of AVX512-VNNI are.
pub(crate) const INT8: Micro =
    Micro { rows: 2 * ROWS, grain: ROWS, tiles: true, run: int8_tile, ..avx512::VNNI_INT8 };

/// Pairs of bf16 (AMX-BF16).
pub(crate) const BF16: Micro =
    Micro { rows: 2 * ROWS, grain: ROWS, tiles: true, run: bf16_tile, ..avx512::BF16 };

/// What `ldtilecfg` reads: the sizes of the eight tiles.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    /// Bytes of a row of each tile.
    columns: [u16; 16],
    rows: [u8; 16],
}

const fn configuration() -> Configuration {
    let mut this = Configuration {
        palette: 1,
        start_row: 0,
        reserved: [0; 14],
        columns: [0; 16],
        rows: [0; 16],
    };
    let mut tile = 0;
    while tile < 8 {
        this.columns[tile] = PANEL_BYTES as u16;
        this.rows[tile] = ROWS as u8;
        tile += 1;
    }
    this
}

static CONFIGURATION: Configuration = configuration();

/// Gives this thread whole tiles, until [`leave`]. A thread that has none dies by the first instruction that uses one.
///
/// # Safety
/// The processor has AMX, the process may use it, and nothing else on this thread uses tiles now.
pub(crate) unsafe fn enter() {
    // SAFETY: the caller's promise; 64 bytes are read.
    unsafe {
        asm!("ldtilecfg [{}]", in(reg) &raw const CONFIGURATION, options(readonly, nostack, preserves_flags));
    }
}

/// Gives the tiles back: the system need not keep their eight kilobytes when it changes threads.
///
/// # Safety
/// As for [`enter`].
pub(crate) unsafe fn leave() {
    // SAFETY: the caller's promise.
    unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) }
}

/// Defines the product of 32 or 16 rows with two panels, whose sums stay in tiles.
macro_rules! amx_product {
    ($name:ident, $dot:literal) => {
        /// # Safety
        /// `steps` × 16 lanes of 16 × `TILES` rows and of two panels are readable, as many rows of 32 sums writable,
        /// the rows `stride` and `out_stride` bytes apart; between [`enter`] and [`leave`].
        unsafe fn $name<const TILES: usize>(
            a: *const u32,
            stride: usize,
            b: [*const u32; 2],
            steps: usize,
            out: *mut u32,
            out_stride: usize,
        ) {
            // SAFETY: the caller's promise. One block: tiles hold the sums from its first instruction to its last.
            unsafe {
                if TILES == 2 {
                    asm!(
                        "tilezero tmm0",
                        "tilezero tmm1",
                        "tilezero tmm2",
                        "tilezero tmm3",
                        "2:",
                        "tileloadd tmm4, [{a0} + {stride}]",
                        "tileloadd tmm6, [{b0} + {line}]",
                        concat!($dot, " tmm0, tmm4, tmm6"),
                        "tileloadd tmm7, [{b1} + {line}]",
                        concat!($dot, " tmm1, tmm4, tmm7"),
                        "tileloadd tmm5, [{a1} + {stride}]",
                        concat!($dot, " tmm2, tmm5, tmm6"),
                        concat!($dot, " tmm3, tmm5, tmm7"),
                        "add {a0}, 64",
                        "add {a1}, 64",
                        "add {b0}, 1024",
                        "add {b1}, 1024",
                        "dec {steps}",
                        "jnz 2b",
                        "tilestored [{c0} + {out_stride}], tmm0",
                        "tilestored [{c0} + {out_stride} + 64], tmm1",
                        "tilestored [{c1} + {out_stride}], tmm2",
                        "tilestored [{c1} + {out_stride} + 64], tmm3",
                        a0 = inout(reg) a => _,
                        a1 = inout(reg) a.byte_add(ROWS * stride) => _,
                        b0 = inout(reg) b[0] => _,
                        b1 = inout(reg) b[1] => _,
                        steps = inout(reg) steps => _,
                        stride = in(reg) stride,
                        line = in(reg) PANEL_BYTES,
                        c0 = in(reg) out,
                        c1 = in(reg) out.byte_add(ROWS * out_stride),
                        out_stride = in(reg) out_stride,
                        out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                        out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                        options(nostack),
                    );
                } else {
                    asm!(
                        "tilezero tmm0",
                        "tilezero tmm1",
                        "2:",
                        "tileloadd tmm4, [{a} + {stride}]",
                        "tileloadd tmm6, [{b0} + {line}]",
                        concat!($dot, " tmm0, tmm4, tmm6"),
                        "tileloadd tmm7, [{b1} + {line}]",
                        concat!($dot, " tmm1, tmm4, tmm7"),
                        "add {a}, 64",
                        "add {b0}, 1024",
                        "add {b1}, 1024",
                        "dec {steps}",
                        "jnz 2b",
                        "tilestored [{c} + {out_stride}], tmm0",
                        "tilestored [{c} + {out_stride} + 64], tmm1",
                        a = inout(reg) a => _,
                        b0 = inout(reg) b[0] => _,
                        b1 = inout(reg) b[1] => _,
                        steps = inout(reg) steps => _,
                        stride = in(reg) stride,
                        line = in(reg) PANEL_BYTES,
                        c = in(reg) out,
                        out_stride = in(reg) out_stride,
                        out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
                        options(nostack),
                    );
                }
            }
        }
    };
}

amx_product!(int8_product, "tdpbusd");
amx_product!(bf16_product, "tdpbf16ps");

/// Defines a micro-kernel of these products and of the kernel of AVX-512 for what is left.
macro_rules! amx_kernel {
    ($run:ident, $product:ident, $rest:expr) => {
        /// # Safety
        /// As [`Micro::run`](crate::micro::Micro::run), between [`enter`] and [`leave`].
        unsafe fn $run(operands: Operands) {
            let Operands {
                a, stride, rows, b, panels, panel_stride, depth, out, out_stride, ..
            } = operands;
            let whole = panels == TILE_PANELS && depth > 0 && depth.is_multiple_of(ROWS);
            let mut from = 0;
            while from < rows {
                let count = match rows - from {
                    left if whole && left >= 2 * ROWS => 2 * ROWS,
                    left if whole && left >= ROWS => ROWS,
                    left => left.min($rest.rows),
                };
                // SAFETY: the caller's promise: from + count is at most rows, and the strides are in lanes of four
                // bytes.
                unsafe {
                    let (a, out) = (a.add(from * stride), out.add(from * out_stride));
                    let b = [b, b.wrapping_add(panel_stride)];
                    match count {
                        32 => $product::<2>(a, stride * 4, b, depth / ROWS, out, out_stride * 4),
                        16 => $product::<1>(a, stride * 4, b, depth / ROWS, out, out_stride * 4),
                        rows => ($rest.run)(Operands { a, rows, out, ..operands }),
                    }
                }
                from += count;
            }
        }
    };
}

amx_kernel!(int8_tile, int8_product, avx512::VNNI_INT8);
amx_kernel!(bf16_tile, bf16_product, avx512::BF16);

/// Whether the processor has AMX for bytes and bf16, and the system lets this process use it.
pub(crate) fn is_usable() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // Bits of EDX of leaf 7: AMX-BF16, AMX-TILE, AMX-INT8.
    const FEATURES: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    // SAFETY: every 64-bit x86 has the instruction.
    #[allow(unused_unsafe, reason = "safe in later compilers")]
    let features = unsafe { if __cpuid(0).eax < 7 { 0 } else { __cpuid_count(7, 0).edx } };
    features & FEATURES == FEATURES && is_permitted()
}

/// Asks Linux for the tiles: their state is large, so a process has to say that it wants them (`arch_prctl(2)`). What
/// is granted holds for all threads.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const SYS_ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
    const XFEATURE_XTILEDATA: u64 = 18;
    let result: i64;
    // SAFETY: the call reads and writes no memory of ours.
    unsafe {
        asm!(
            "syscall",
            inout("rax") SYS_ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    result == 0
}

/// Nowhere else was it tried.
#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        Isa,
        micro::{TILE_COLUMNS, Tile},
        scalar,
    };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Shapes are whole tiles, so no other kernel takes part. Memory around the sums is not written.
        #[test]
        fn tiles_equal_their_scalar_twins(
            tiles in 1usize..=2, steps in 1usize..6, gap in 0usize..5, seed in prop::collection::vec(any::<u32>(), 61),
        ) {
            if !Isa::Amx.runs_here() {
                println!("SKIPPED: amx is not on this processor");
                return Ok(());
            }
            let (rows, depth) = (tiles * ROWS, steps * ROWS);
            let stride = depth + gap;
            let number = |i: usize| seed[(i * 7 + i / 23) % seed.len()].rotate_left(i as u32 % 31);
            // Signed bytes for the twin, the same plus 128 for the tiles; weights are signed for both.
            let signed: Vec<u32> = (0..rows * stride).map(number).collect();
            let unsigned: Vec<u32> = signed.iter().map(|it| it ^ 0x8080_8080).collect();
            let weights: Vec<u32> = (0..2 * depth * PANEL).map(|i| number(i + 5)).collect();
            let half = |bits: u32| {
                let value = (bits % 2001) as f32 / 1000.0 - 1.0;
                u32::from(half::bf16::from_f32(value).to_bits())
            };
            let pair = |it: &u32| half(*it) | half(it >> 11) << 16;
            let halves: Vec<u32> = signed.iter().map(pair).collect();
            let half_weights: Vec<u32> = weights.iter().map(pair).collect();
            let run = |micro: Micro, a: &[u32], b: &[u32]| {
                let mut tile: Tile = Tile::new();
                tile.0.as_flattened_mut().fill(7);
                let _entered = micro.enter();
                for from in (0..rows).step_by(micro.rows) {
                    for panel in (0..2).step_by(micro.panels) {
                        let operands = Operands {
                            a: a[from * stride..].as_ptr(),
                            stride,
                            rows: micro.rows.min(rows - from),
                            b: b[panel * depth * PANEL..].as_ptr(),
                            panels: micro.panels,
                            panel_stride: depth * PANEL,
                            depth,
                            out: tile.0[from][panel * PANEL..].as_mut_ptr(),
                            out_stride: TILE_COLUMNS,
                        };
                        // SAFETY: the slices are as long as the operands say, and the processor has AMX.
                        unsafe { (micro.run)(operands) };
                    }
                }
                tile
            };
            let (sums, expected) = (run(INT8, &unsigned, &weights), run(scalar::INT8, &signed, &weights));
            for (row, (sums, expected)) in sums.0.iter().zip(&expected.0).enumerate() {
                for column in 0..TILE_COLUMNS {
                    let of_panel = weights[column / PANEL * depth * PANEL..][..depth * PANEL].iter();
                    let lanes = of_panel.skip(column % PANEL).step_by(PANEL);
                    let total: i32 = lanes.flat_map(|it| it.to_le_bytes()).map(|it| i32::from(it as i8)).sum();
                    let excess = if row < rows { 128 * total } else { 0 };
                    prop_assert_eq!((sums[column] as i32).wrapping_sub(excess), expected[column] as i32);
                }
            }
            let (sums, expected) = (run(BF16, &halves, &half_weights), run(scalar::BF16, &halves, &half_weights));
            for (sums, expected) in sums.0.iter().zip(&expected.0).take(rows) {
                for (&sum, &expected) in sums.iter().zip(expected) {
                    let (sum, expected) = (f32::from_bits(sum), f32::from_bits(expected));
                    prop_assert!((sum - expected).abs() < 1e-4 * (1.0 + expected.abs()), "{sum} {expected}");
                }
            }
        }
    }
}
