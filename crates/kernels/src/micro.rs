//! Micro-kernels: the product of a few rows with 16 or 32 columns, whole depth, in registers.
//!
//! All kinds of numbers share one shape: a *lane* of 32 bits holds one f32, two bf16, two i16 or four bytes of
//! neighboring inputs. Activations lie row by row in lanes, weights in panels `[lanes of inputs][16 outputs]`,
//! 64 bytes a row, which is one AVX-512 register or two of AVX2. A kernel multiplies a lane of activations
//! with a row of a panel and adds the products to a row of 16 sums.

#[cfg(target_arch = "aarch64")]
use crate::neon;
#[cfg(target_arch = "x86_64")]
use crate::x86;
use crate::{isa::Isa, scalar};

/// Columns of a panel.
pub(crate) const PANEL: usize = 16;

/// Panels a tile is wide.
pub(crate) const TILE_PANELS: usize = 2;

/// Columns of a tile.
pub(crate) const TILE_COLUMNS: usize = PANEL * TILE_PANELS;

/// Rows of a tile of AVX-512: 14 × 2 registers of sums leave 4 of its 32 for operands.
pub(crate) const TILE_ROWS: usize = 14;

/// Rows of the largest tile: AMX's.
pub(crate) const MOST_ROWS: usize = 32;

/// A row of a tile's sums: bits of i32 for products of bytes, of f32 for others.
pub(crate) type Sums = [u32; TILE_COLUMNS];

/// Room for the sums of a tile, row by row.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct Tile<const ROWS: usize = MOST_ROWS>(pub(crate) [Sums; ROWS]);

impl<const ROWS: usize> Tile<ROWS> {
    pub(crate) fn new() -> Self {
        Tile([[0; TILE_COLUMNS]; ROWS])
    }
}

/// What the lanes hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One f32.
    F32,
    /// Two bf16.
    Bf16,
    /// Four bytes.
    Int8,
    /// Two bytes, widened to i16.
    Int16,
    /// Four bytes, whose weights are light enough for sums of 16 bits: see [`steps`](crate::steps).
    Steps,
}

impl Kind {
    /// Numbers in a lane.
    pub(crate) fn per_lane(self) -> usize {
        match self {
            Kind::F32 => 1,
            Kind::Bf16 | Kind::Int16 => 2,
            Kind::Int8 | Kind::Steps => 4,
        }
    }
}

/// Operands of a micro-kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operands {
    /// The first row's first lane.
    pub(crate) a: *const u32,
    /// Lanes from one row to the next.
    pub(crate) stride: usize,
    /// Rows, 1 to the kernel's `rows`.
    pub(crate) rows: usize,
    /// The first panel.
    pub(crate) b: *const u32,
    /// Panels, 1 to the kernel's `panels`.
    pub(crate) panels: usize,
    /// Lanes from one panel to the next.
    pub(crate) panel_stride: usize,
    /// Lanes that are multiplied.
    pub(crate) depth: usize,
    /// Where the first row of sums is written.
    pub(crate) out: *mut u32,
    /// Lanes from one row of sums to the next.
    pub(crate) out_stride: usize,
}

/// A micro-kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Micro {
    /// Most rows it takes.
    pub(crate) rows: usize,
    /// Blocks of rows are cut to a multiple of this, so that no tile is left partly empty.
    pub(crate) grain: usize,
    /// Most panels it takes.
    pub(crate) panels: usize,
    /// Runs only between [`Micro::enter`] and the end of what that gives.
    pub(crate) tiles: bool,
    /// Added to every activation byte before: 128 for kernels that take unsigned bytes, else 0.
    pub(crate) offset: i32,
    /// Writes the sums, `rows` rows of `panels` · 16.
    ///
    /// # Safety
    /// The operands are readable: `rows` rows of `depth` lanes, `panels` panels of `depth` × 16 lanes; the sums'
    /// places are writable and nobody else's; the processor has what the kernel is compiled for; and what
    /// [`Micro::enter`] gave is still there.
    pub(crate) run: unsafe fn(Operands),
}

impl Micro {
    /// A kernel of tiles of one row and one panel, to be widened.
    pub(crate) const fn new(run: unsafe fn(Operands)) -> Micro {
        Micro { rows: 1, grain: 1, panels: 1, tiles: false, offset: 0, run }
    }

    /// Rows at a time, when there are `rows`: about as many each, for a last tile of one row would take as long as
    /// one of four.
    pub(crate) fn step(self, rows: usize) -> usize {
        let turns = rows.div_ceil(self.rows).max(1);
        rows.div_ceil(turns).next_multiple_of(self.grain).max(1)
    }

    /// Prepares this thread for a number of runs, not one within another.
    pub(crate) fn enter(self) -> Entered {
        #[cfg(target_arch = "x86_64")]
        if self.tiles {
            // SAFETY: only processors with AMX have kernels that need it, and no caller holds two of these.
            unsafe { x86::enter_tiles() };
        }
        Entered { tiles: self.tiles }
    }
}

/// A thread that is prepared for a micro-kernel.
#[derive(Debug)]
pub(crate) struct Entered {
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only x86 has such units"))]
    tiles: bool,
}

impl Drop for Entered {
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        if self.tiles {
            // SAFETY: as in `enter`.
            unsafe { x86::leave_tiles() };
        }
    }
}

/// The kernel for `kind` at the level `isa`, which this processor has. None when the level has no better one than
/// that of another kind: bf16 without dot products of bf16, i16 and steps where products of bytes are as fast.
pub(crate) fn micro(kind: Kind, isa: Isa) -> Option<Micro> {
    #[cfg(target_arch = "x86_64")]
    match (kind, isa) {
        (Kind::F32, Isa::Avx512 | Isa::Avx512Vnni | Isa::Amx) => return Some(x86::AVX512_F32),
        (Kind::F32, Isa::Avx2 | Isa::AvxVnni) => return Some(x86::AVX2_F32),
        (Kind::Bf16, Isa::Avx512Vnni) if is_x86_feature_detected!("avx512bf16") => {
            return Some(x86::AVX512_BF16);
        }
        (Kind::Bf16, Isa::Amx) => return Some(x86::AMX_BF16),
        (Kind::Int8, Isa::Amx) => return Some(x86::AMX_INT8),
        (Kind::Int8, Isa::Avx512Vnni) => return Some(x86::AVX512VNNI_INT8),
        (Kind::Int8, Isa::Avx512) => return Some(x86::AVX512_INT8),
        (Kind::Int8, Isa::AvxVnni) => return Some(x86::AVXVNNI_INT8),
        (Kind::Int8, Isa::Avx2) => return Some(x86::AVX2_INT8),
        (Kind::Int16, Isa::Avx2) => return Some(x86::AVX2_INT16),
        (Kind::Steps, Isa::Avx2) => return Some(x86::AVX2_STEPS),
        _ => {}
    }
    #[cfg(target_arch = "aarch64")]
    match (kind, isa) {
        (Kind::F32, Isa::NeonDot | Isa::NeonI8mm) => return Some(neon::F32),
        (Kind::Int8, Isa::NeonI8mm) => return Some(neon::I8MM_INT8),
        (Kind::Int8, Isa::NeonDot) => return Some(neon::INT8),
        _ => {}
    }
    let _ = isa;
    match kind {
        Kind::F32 => Some(scalar::F32),
        Kind::Bf16 | Kind::Int16 | Kind::Steps => None,
        Kind::Int8 => Some(scalar::INT8),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lanes of `kind` with numbers, some of them extreme.
    fn lanes(kind: Kind, count: usize, seed: &[u32], offset: i32) -> Vec<u32> {
        let number = |i: usize| seed[(i * 7 + i / 19) % seed.len()];
        let float = |i: usize| (number(i) % 2001) as f32 / 1000.0 - 1.0;
        let half = |i: usize| u32::from(half::bf16::from_f32(float(i)).to_bits());
        let byte = |i: usize| match number(i) % 11 {
            0 => 127i32,
            1 => -127,
            2 => 0,
            _ => (number(i) / 11 % 255) as i32 - 127,
        };
        let wide = |i: usize| u32::from(byte(i) as u16);
        let byte = |i: usize| u32::from((byte(i) + offset) as u8);
        (0..count)
            .map(|i| match kind {
                Kind::F32 => float(i).to_bits(),
                Kind::Bf16 => half(2 * i) | half(2 * i + 1) << 16,
                Kind::Int16 => wide(2 * i) | wide(2 * i + 1) << 16,
                Kind::Int8 | Kind::Steps => {
                    (0..4).fold(0, |lane, j| lane | byte(4 * i + j) << (8 * j))
                }
            })
            .collect()
    }

    fn run(
        micro: Micro,
        a: &[u32],
        stride: usize,
        b: &[u32],
        rows: usize,
        panels: usize,
        depth: usize,
    ) -> Vec<u32> {
        let mut out = vec![0; rows * panels * PANEL];
        for first in (0..rows).step_by(micro.rows) {
            for panel in (0..panels).step_by(micro.panels) {
                let (rows, count) =
                    (micro.rows.min(rows - first), micro.panels.min(panels - panel));
                let mut tile = Tile::<MOST_ROWS>::new();
                let operands = Operands {
                    a: a[first * stride..].as_ptr(),
                    stride,
                    rows,
                    b: b[panel * depth * PANEL..].as_ptr(),
                    panels: count,
                    panel_stride: depth * PANEL,
                    depth,
                    out: tile.0.as_mut_ptr().cast(),
                    out_stride: TILE_COLUMNS,
                };
                let _entered = micro.enter();
                // SAFETY: the slices are as long as the operands say, and only kernels of this processor are run.
                unsafe { (micro.run)(operands) };
                for row in 0..rows {
                    let to = ((first + row) * panels + panel) * PANEL;
                    out[to..to + count * PANEL].copy_from_slice(&tile.0[row][..count * PANEL]);
                }
            }
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        /// Every kernel of every level of this processor equals its scalar twin: bytes exactly, f32 and bf16
        /// within the rounding of another order.
        #[test]
        fn kernels_equal_their_scalar_twins(
            rows in 1usize..70, panels in 1usize..5, (depth, whole) in (1usize..70, any::<bool>()), gap in 0usize..3,
            seed in prop::collection::vec(any::<u32>(), 53),
        ) {
            let depth = if whole { depth.next_multiple_of(16) } else { depth };
            for kind in [Kind::F32, Kind::Bf16, Kind::Int8, Kind::Int16] {
                let twin = match kind {
                    Kind::F32 => scalar::F32,
                    Kind::Bf16 => scalar::BF16,
                    Kind::Int8 | Kind::Steps => scalar::INT8,
                    Kind::Int16 => scalar::INT16,
                };
                let stride = depth + gap;
                let b = lanes(kind, panels * depth * PANEL, &seed[3..], 0);
                let signed = lanes(kind, rows * stride, &seed, 0);
                let expected = run(twin, &signed, stride, &b, rows, panels, depth);
                for isa in Isa::available() {
                    let Some(micro) = micro(kind, isa) else { continue };
                    let a = lanes(kind, rows * stride, &seed, micro.offset);
                    let sums = run(micro, &a, stride, &b, rows, panels, depth);
                    for (i, (&sum, &expected)) in sums.iter().zip(&expected).enumerate() {
                        if kind == Kind::Int16 {
                            prop_assert_eq!(sum, expected);
                        } else if kind == Kind::Int8 {
                            let (panel, column) = (i / PANEL % panels, i % PANEL);
                            let weights = b[panel * depth * PANEL..].iter().skip(column).step_by(PANEL).take(depth);
                            let total: i32 = weights.flat_map(|it| it.to_le_bytes()).map(|it| i32::from(it as i8)).sum();
                            prop_assert_eq!(sum as i32 - micro.offset * total, expected as i32);
                        } else {
                            let (sum, expected) = (f32::from_bits(sum), f32::from_bits(expected));
                            prop_assert!((sum - expected).abs() < 2e-5, "{isa} {kind:?} {sum} {expected}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn levels_that_this_processor_lacks_are_named() {
        for isa in Isa::ALL {
            if !isa.runs_here() {
                println!("SKIPPED: {isa} is not on this processor");
            }
        }
        let isa = crate::isa::current();
        assert!(isa.runs_here() && micro(Kind::F32, isa).is_some());
        assert!(micro(Kind::Int8, isa).is_some());
    }
}
