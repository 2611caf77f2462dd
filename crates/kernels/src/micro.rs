//! Micro-kernels: the product of a few rows with 16 or 32 columns, whole depth, in registers.
//!
//! All kinds of numbers share one shape: a *lane* of 32 bits holds one f32, two bf16 or four bytes of
//! neighboring inputs. Activations lie row by row in lanes, weights in panels `[lanes of inputs][16 outputs]`,
//! 64 bytes a row, which is one AVX-512 register or two of AVX2. A kernel multiplies a lane of activations
//! with a row of a panel and adds the products to a row of 16 sums.

use crate::isa::Isa;

/// Columns of a panel.
pub(crate) const PANEL: usize = 16;

/// Panels a tile is wide.
pub(crate) const TILE_PANELS: usize = 2;

/// Columns of a tile.
pub(crate) const TILE_COLUMNS: usize = PANEL * TILE_PANELS;

/// Rows of a tile: 14 × 2 registers of sums leave 4 of AVX-512's 32 for operands.
pub(crate) const TILE_ROWS: usize = 14;

/// The sums of a tile, row by row; bits of i32 for products of bytes, of f32 for others.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct Tile(pub(crate) [[u32; TILE_COLUMNS]; TILE_ROWS]);

impl Tile {
    pub(crate) fn new() -> Tile {
        Tile([[0; TILE_COLUMNS]; TILE_ROWS])
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
}

impl Kind {
    /// Numbers in a lane.
    pub(crate) fn per_lane(self) -> usize {
        match self {
            Kind::F32 => 1,
            Kind::Bf16 => 2,
            Kind::Int8 => 4,
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
    /// Panels, 1 to the kernel's `panels`, one after the other.
    pub(crate) panels: usize,
    /// Lanes that are multiplied.
    pub(crate) depth: usize,
}

/// A micro-kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Micro {
    /// Most rows it takes.
    pub(crate) rows: usize,
    /// Most panels it takes.
    pub(crate) panels: usize,
    /// What is added to every activation byte before: 128 for those that take unsigned bytes.
    pub(crate) offset: i32,
    /// Writes the sums of `rows` × `panels` · 16 into the tile.
    ///
    /// # Safety
    /// The operands are readable: `rows` rows of `depth` lanes, `panels` panels of `depth` × 16 lanes; and the
    /// processor has what the kernel is compiled for.
    pub(crate) run: unsafe fn(Operands, &mut Tile),
}

/// The kernel for `kind` at the level `isa`, which this processor has. None when the level has no better one than
/// that of another kind: bf16 without dot products of bf16.
pub(crate) fn micro(kind: Kind, isa: Isa) -> Option<Micro> {
    let _ = isa;
    match kind {
        Kind::F32 => Some(crate::scalar::F32),
        Kind::Bf16 => None,
        Kind::Int8 => Some(crate::scalar::INT8),
    }
}
