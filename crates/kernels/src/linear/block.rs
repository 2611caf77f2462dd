//! A block of a product: tile by tile through a micro-kernel, and each tile's sums to their place.

use std::ops::Range;

use crate::{
    Finish, Gate, Part,
    dispatch::multiversion,
    elementwise::{gelu_of, gelu_tanh_of, silu_of},
    micro::{Micro, Operands, PANEL, TILE_COLUMNS, Tile},
};

/// Where products go, shared by threads that write disjoint parts of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) data: *mut f32,
    pub(super) stride: usize,
}

// SAFETY: every turn writes rows and columns of its own, and nobody reads before all have ended.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

/// Some columns of a part, as many as a tile has at most, and what turns sums into their products.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    /// First column of the output.
    first: usize,
    count: usize,
    bias: [f32; TILE_COLUMNS],
    /// Scales of weights of bytes.
    scales: [f32; TILE_COLUMNS],
    /// What sums of unsigned bytes have too much.
    excess: [i32; TILE_COLUMNS],
}

impl Columns {
    fn new(part: &Part<'_>, columns: Range<usize>, offset: i32) -> Columns {
        let mut this = Columns {
            first: part.offset + columns.start,
            count: columns.len(),
            bias: [0.0; TILE_COLUMNS],
            scales: [0.0; TILE_COLUMNS],
            excess: [0; TILE_COLUMNS],
        };
        if let Some(bias) = part.bias {
            this.bias[..columns.len()].copy_from_slice(&bias[columns.clone()]);
        }
        if let crate::Matrix::Int8(matrix) = part.weight {
            this.scales[..columns.len()].copy_from_slice(&matrix.scales()[columns.clone()]);
            for (excess, sum) in this.excess.iter_mut().zip(&matrix.sums()[columns]) {
                *excess = sum * offset;
            }
        }
        this
    }
}

/// Operands of a block: rows in lanes and panels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    pub(super) micro: Micro,
    /// The first row's lanes, rows `stride` lanes apart.
    pub(super) a: *const u32,
    pub(super) stride: usize,
    /// First row in the output and how many.
    pub(super) first_row: usize,
    pub(super) rows: usize,
    /// Scales of rows of bytes; empty for other kinds.
    pub(super) row_scales: &'a [f32],
    /// The panel of column `columns.start` and those after it.
    pub(super) b: *const u32,
    /// Columns of the part, from the first of a panel on.
    pub(super) depth: usize,
}

impl Block<'_> {
    /// Multiplies with `columns` of `part` and finishes them.
    ///
    /// # Safety
    /// `a` points to `rows` rows of `depth` lanes, `b` to the panels of the columns; `place` has these rows
    /// and columns, and nobody else uses them now.
    pub(super) unsafe fn run(
        &self,
        part: &Part<'_>,
        columns: Range<usize>,
        finish: Finish<'_>,
        place: Place,
    ) {
        let Block { micro, a, stride, rows, b, depth, .. } = *self;
        let mut tile = Tile::new();
        let width = micro.panels * PANEL;
        let turns = rows.div_ceil(micro.rows);
        for (number, start) in columns.clone().step_by(width).enumerate() {
            let columns = start..columns.end.min(start + width);
            let panels = columns.len().div_ceil(PANEL);
            let columns = Columns::new(part, columns, micro.offset);
            for turn in 0..turns {
                // Tiles of about as many rows each: a last one of one row would take as long as one of four.
                let (from, to) = (turn * rows / turns, (turn + 1) * rows / turns);
                // SAFETY: the caller's promise; from is below rows, and number · micro.panels · 16 below the
                // block's columns.
                unsafe {
                    let operands = Operands {
                        a: a.add(from * stride),
                        stride,
                        rows: to - from,
                        b: b.add(number * micro.panels * depth * PANEL),
                        panels,
                        panel_stride: depth * PANEL,
                        depth,
                        out: tile.0.as_mut_ptr().cast(),
                        out_stride: TILE_COLUMNS,
                    };
                    (micro.run)(operands);
                    let scales = self.row_scales.get(from..to).unwrap_or(&[]);
                    let out =
                        place.data.add((self.first_row + from) * place.stride + columns.first);
                    let out = Place { data: out, stride: place.stride };
                    finish_tile(&mut tile, to - from, &columns, scales, finish, out);
                }
            }
        }
    }
}

/// Finishes sums of f32 that are the product of row `row` with `columns` of `part`.
///
/// # Safety
/// `place` has this row and these columns, and nobody else uses them now.
pub(super) unsafe fn finish_sums(
    tile: &mut Tile,
    row: usize,
    part: &Part<'_>,
    columns: Range<usize>,
    finish: Finish<'_>,
    place: Place,
) {
    let columns = Columns::new(part, columns, 0);
    // SAFETY: the caller's promise.
    let data = unsafe { place.data.add(row * place.stride + columns.first) };
    finish_tile(tile, 1, &columns, &[], finish, Place { data, stride: place.stride });
}

multiversion! {
    /// Turns the sums of a tile into products and writes `rows` rows of them to `out`, which has them.
    fn finish_tile(tile: &mut Tile, rows: usize, columns: &Columns, row_scales: &[f32], finish: Finish<'_>, out: Place) {
        for (row, sums) in tile.0.iter().enumerate().take(rows) {
            // SAFETY: `Block::run`'s caller promised the rows and columns.
            let out = unsafe {
                std::slice::from_raw_parts_mut(out.data.add(row * out.stride), columns.count)
            };
            let mut values = [0f32; TILE_COLUMNS];
            if let Some(&scale) = row_scales.get(row) {
                for i in 0..TILE_COLUMNS {
                    let sum = (sums[i] as i32).wrapping_sub(columns.excess[i]);
                    values[i] = sum as f32 * (scale * columns.scales[i]) + columns.bias[i];
                }
            } else {
                for i in 0..TILE_COLUMNS {
                    values[i] = f32::from_bits(sums[i]) + columns.bias[i];
                }
            }
            if let Ok(out) = <&mut [f32; TILE_COLUMNS]>::try_from(&mut *out) {
                finish_row(&values, out, finish);
            } else {
                let mut wide = [0f32; TILE_COLUMNS];
                wide[..columns.count].copy_from_slice(out);
                finish_row(&values, &mut wide, finish);
                out.copy_from_slice(&wide[..columns.count]);
            }
        }
    }
}

#[inline(always)]
fn finish_row(values: &[f32; TILE_COLUMNS], out: &mut [f32; TILE_COLUMNS], finish: Finish<'_>) {
    match finish {
        Finish::Store => *out = *values,
        Finish::Gelu => (0..TILE_COLUMNS).for_each(|i| out[i] = gelu_of(values[i])),
        Finish::GeluTanh => (0..TILE_COLUMNS).for_each(|i| out[i] = gelu_tanh_of(values[i])),
        Finish::Add(scale) => (0..TILE_COLUMNS).for_each(|i| out[i] += scale * values[i]),
        Finish::AddLayerNorm { .. } => (0..TILE_COLUMNS).for_each(|i| out[i] += values[i]),
        Finish::Gate(Gate::Silu) => {
            (0..TILE_COLUMNS).for_each(|i| out[i] = silu_of(out[i]) * values[i]);
        }
        Finish::Gate(Gate::Gelu) => {
            (0..TILE_COLUMNS).for_each(|i| out[i] = gelu_of(out[i]) * values[i]);
        }
    }
}
