//! A block of a product: tile by tile through a micro-kernel, and each tile's sums to their place.

use std::ops::Range;

use crate::{
    Finish, Gate, Part,
    dispatch::{BASELINE_FUSES, multiversion},
    elementwise::{gelu_of, gelu_tanh_of, short_gelu_of, silu_of},
    lanes::pair_of,
    micro::{Micro, Operands, PANEL, Sums, TILE_COLUMNS, Tile},
};
#[cfg(target_arch = "x86_64")]
use crate::{
    dispatch::{has_avx2, has_avx512, has_avx512_bf16},
    x86::{Sums as Finished, finish_pairs, narrow, wide},
};

/// Where products go, shared by threads that write disjoint parts of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) data: *mut f32,
    /// Elements from one row to the next.
    pub(super) stride: usize,
    /// Rows of each head, where products are kept by heads.
    head_rows: Option<usize>,
}

impl Place {
    /// Rows of f32.
    pub(super) fn rows(data: *mut f32, stride: usize) -> Place {
        Place { data, stride, head_rows: None }
    }

    /// Heads of `rows` rows of `dim` bf16, see [`Finish::Heads`].
    pub(super) fn heads(data: *mut f32, dim: usize, rows: usize) -> Place {
        Place { data, stride: dim / 2, head_rows: Some(rows) }
    }

    /// Where a row's products from `column` on go.
    #[inline(always)]
    fn at(self, row: usize, column: usize) -> *mut f32 {
        let place = match self.head_rows {
            None => row * self.stride + column,
            Some(rows) => {
                let (head, lane) = (column / 2 / self.stride, column / 2 % self.stride);
                (head * rows + row) * self.stride + lane
            }
        };
        self.data.wrapping_add(place)
    }
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
    /// By column, the offset of the activations times the sum of the weights. Sums over unsigned bytes are too large
    /// by it.
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
    /// Rows are filled up to whole tiles, for which there is room behind them: a kernel may round what does not fill
    /// one differently.
    pub(super) whole: bool,
    /// The panel of column `columns.start` and those after it.
    pub(super) b: *const u32,
    /// Columns of the part, from the first of a panel on.
    pub(super) depth: usize,
    /// Room for a tile's panels, where the weights are bytes and the kernel takes pairs of i16.
    pub(super) widened: Option<*mut u32>,
}

impl Block<'_> {
    /// Multiplies with `columns` of `part` and finishes them.
    ///
    /// # Safety
    /// `a` points to `rows` rows of `depth` lanes, up to the next whole tile if they are filled up, `b` to the panels
    /// of the columns, of half the depth if they are to be widened to where there is room for a tile's; `place` has
    /// these rows and columns, and nobody else uses them now.
    pub(super) unsafe fn run(
        &self,
        part: &Part<'_>,
        columns: Range<usize>,
        finish: Finish<'_>,
        place: Place,
    ) {
        let Block { micro, a, stride, rows, b, depth, .. } = *self;
        let mut tile: Tile = Tile::new();
        let width = micro.panels * PANEL;
        let panel = if self.widened.is_some() { depth / 2 * PANEL } else { depth * PANEL };
        let step = micro.step(rows);
        let _entered = micro.enter();
        for (number, start) in columns.clone().step_by(width).enumerate() {
            let columns = start..columns.end.min(start + width);
            let panels = columns.len().div_ceil(PANEL);
            let columns = Columns::new(part, columns, micro.offset);
            // SAFETY: number · micro.panels · 16 is below the block's columns; the room is a tile's, and nobody else's.
            let b = unsafe {
                let b = b.add(number * micro.panels * panel);
                match self.widened {
                    None => b,
                    Some(room) => {
                        let packed = std::slice::from_raw_parts(b, panels * panel);
                        widen(packed, std::slice::from_raw_parts_mut(room, packed.len() * 2));
                        room.cast_const()
                    }
                }
            };
            for from in (0..rows).step_by(step) {
                let to = rows.min(from + step);
                // SAFETY: the caller's promise; from is below rows.
                unsafe {
                    let operands = Operands {
                        a: a.add(from * stride),
                        stride,
                        rows: if self.whole {
                            (to - from).next_multiple_of(micro.grain)
                        } else {
                            to - from
                        },
                        b,
                        panels,
                        panel_stride: depth * PANEL,
                        depth,
                        out: tile.0.as_mut_ptr().cast(),
                        out_stride: TILE_COLUMNS,
                    };
                    prefetch(place, self.first_row + from..self.first_row + to, &columns);
                    (micro.run)(operands);
                    let scales = self.row_scales.get(from..to).unwrap_or(&[]);
                    let data = place.at(self.first_row + from, columns.first);
                    let out = Place { data, ..place };
                    finish_tile(&tile.0, to - from, &columns, scales, finish, out);
                }
            }
        }
    }
}

multiversion! {
    /// Widens panels of four bytes a lane to panels of two i16: of each row of 16 lanes first the lower pairs.
    fn widen(packed: &[u32], pairs: &mut [u32]) {
        let rows = packed.as_chunks::<PANEL>().0.iter().zip(pairs.as_chunks_mut::<{ 2 * PANEL }>().0);
        for (row, pairs) in rows {
            let (low, high) = pairs.split_at_mut(PANEL);
            for ((&lane, low), high) in row.iter().zip(low).zip(high) {
                let lane = lane as i32;
                let byte = |place: u32| (lane << (24 - place) >> 24) as u32;
                *low = byte(0) & 0xffff | byte(8) << 16;
                *high = byte(16) & 0xffff | byte(24) << 16;
            }
        }
    }
}

/// Asks for the places that a tile's products go to, which arrive while the tile is computed: rows lie far apart,
/// where no prefetcher of the processor looks, and waiting for them took longer than the products of 384 inputs.
#[inline(always)]
fn prefetch(place: Place, rows: Range<usize>, columns: &Columns) {
    #[cfg(target_arch = "x86_64")]
    for row in rows {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        let start = place.at(row, columns.first).cast::<i8>();
        // SAFETY: a prefetch reads nothing that the program sees, whatever the address.
        unsafe {
            _mm_prefetch::<_MM_HINT_ET0>(start);
            if place.head_rows.is_some() {
                continue;
            }
            _mm_prefetch::<_MM_HINT_ET0>(start.wrapping_add(64));
            _mm_prefetch::<_MM_HINT_ET0>(start.wrapping_add(127));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (place, rows, columns);
}

/// Finishes sums of f32 that are the products of some rows with `columns` of `part`, in the first rows of the tile.
///
/// # Safety
/// `place` has these rows and these columns, and nobody else uses them now.
pub(super) unsafe fn finish_sums(
    tile: &[Sums],
    rows: Range<usize>,
    part: &Part<'_>,
    columns: Range<usize>,
    finish: Finish<'_>,
    place: Place,
) {
    let columns = Columns::new(part, columns, 0);
    let data = place.at(rows.start, columns.first);
    finish_tile(tile, rows.len(), &columns, &[], finish, Place { data, ..place });
}

#[cfg(target_arch = "x86_64")]
fn finished<'a>(columns: &'a Columns, rows: usize, row_scales: &'a [f32]) -> Finished<'a> {
    let Columns { count, bias, scales, excess, .. } = columns;
    Finished { rows, columns: *count, bias, scales, excess, row_scales }
}

/// Turns the sums of a tile into products and writes `rows` rows of them to `out`, which has them.
fn finish_tile(
    tile: &[Sums],
    rows: usize,
    columns: &Columns,
    row_scales: &[f32],
    finish: Finish<'_>,
    out: Place,
) {
    if matches!(finish, Finish::Heads { .. }) {
        return finish_heads(tile, rows, columns, row_scales, out);
    }
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        let sums = finished(columns, rows, row_scales);
        // SAFETY: the processor has AVX-512, or AVX2 and FMA; `Block::run`'s caller promised the rows and columns.
        return unsafe {
            if has_avx512() {
                wide::finish_tile(tile, sums, finish, out.data, out.stride)
            } else {
                narrow::finish_tile(tile, sums, finish, out.data, out.stride)
            }
        };
    }
    portable_tile::<BASELINE_FUSES>(tile, rows, columns, row_scales, finish, out);
}

/// As [`finish_tile`], for products that are kept by heads.
fn finish_heads(tile: &[Sums], rows: usize, columns: &Columns, row_scales: &[f32], out: Place) {
    #[cfg(target_arch = "x86_64")]
    if has_avx512_bf16() && columns.count == TILE_COLUMNS {
        let sums = finished(columns, rows, row_scales);
        // SAFETY: the processor has the features; `Block::run`'s caller promised the rows and columns.
        return unsafe { finish_pairs(tile, sums, out.data, out.stride) };
    }
    for (row, tile) in tile.iter().enumerate().take(rows) {
        let mut values = [0.0; TILE_COLUMNS];
        let (tile, scales) = (std::slice::from_ref(tile), row_scales.get(row..=row).unwrap_or(&[]));
        let place = Place::rows(values.as_mut_ptr(), TILE_COLUMNS);
        portable_tile::<BASELINE_FUSES>(tile, 1, columns, scales, Finish::Store, place);
        // SAFETY: as above: two columns in an element.
        let out = unsafe {
            std::slice::from_raw_parts_mut(out.data.add(row * out.stride), columns.count / 2)
        };
        for (lane, pair) in out.iter_mut().zip(values.as_chunks().0) {
            let [low, high] = *pair;
            *lane = pair_of(low, high);
        }
    }
}

/// Without intrinsics.
fn portable_tile<const FUSED: bool>(
    tile: &[Sums],
    rows: usize,
    columns: &Columns,
    row_scales: &[f32],
    finish: Finish<'_>,
    out: Place,
) {
    let bytes = !row_scales.is_empty();
    for (row, sums) in tile.iter().enumerate().take(rows) {
        // SAFETY: `Block::run`'s caller promised the rows and columns.
        let out = unsafe {
            std::slice::from_raw_parts_mut(out.data.add(row * out.stride), columns.count)
        };
        // Panel by panel: the tiles of some processors are one wide.
        for (panel, out) in out.chunks_mut(PANEL).enumerate() {
            let (sums, bias) = (&sums.as_chunks().0[panel], &columns.bias.as_chunks().0[panel]);
            let (scales, excess) =
                (&columns.scales.as_chunks().0[panel], &columns.excess.as_chunks().0[panel]);
            let mut values = [0f32; PANEL];
            let (sums, bias): (&[u32; PANEL], &[f32; PANEL]) = (sums, bias);
            let (scales, excess): (&[f32; PANEL], &[i32; PANEL]) = (scales, excess);
            if let Some(&scale) = row_scales.get(row) {
                for i in 0..PANEL {
                    let sum = (sums[i] as i32).wrapping_sub(excess[i]);
                    values[i] = sum as f32 * (scale * scales[i]) + bias[i];
                }
            } else {
                for i in 0..PANEL {
                    values[i] = f32::from_bits(sums[i]) + bias[i];
                }
            }
            // A whole panel stays in registers: copies of any length are calls into the library.
            if let Some(out) = out.first_chunk_mut() {
                finish_row::<FUSED>(&mut values, out, finish, bytes);
                *out = values;
            } else {
                let mut old = [0f32; PANEL];
                old[..out.len()].copy_from_slice(out);
                finish_row::<FUSED>(&mut values, &old, finish, bytes);
                out.copy_from_slice(&values[..out.len()]);
            }
        }
    }
}

// Loops and no closures: those would be compiled without the instructions of the version that they are in.
#[inline(always)]
fn finish_row<const FUSED: bool>(
    values: &mut [f32; PANEL],
    old: &[f32; PANEL],
    finish: Finish<'_>,
    bytes: bool,
) {
    match finish {
        // Rounded elsewhere.
        Finish::Store | Finish::Heads { .. } => {}
        Finish::Gelu if bytes => {
            for value in values {
                *value = short_gelu_of::<FUSED>(*value);
            }
        }
        Finish::Gelu => {
            for value in values {
                *value = gelu_of::<FUSED>(*value);
            }
        }
        Finish::GeluTanh => {
            for value in values {
                *value = gelu_tanh_of::<FUSED>(*value);
            }
        }
        Finish::Add(scale) => {
            for (value, old) in values.iter_mut().zip(old) {
                *value = old + scale * *value;
            }
        }
        Finish::AddLayerNorm { .. } => {
            for (value, old) in values.iter_mut().zip(old) {
                *value += old;
            }
        }
        Finish::Gate(Gate::Silu) => {
            for (value, &old) in values.iter_mut().zip(old) {
                *value *= silu_of::<FUSED>(old);
            }
        }
        Finish::Gate(Gate::Gelu) => {
            for (value, &old) in values.iter_mut().zip(old) {
                *value *= gelu_of::<FUSED>(old);
            }
        }
        Finish::Gate(Gate::GeluTanh) => {
            for (value, &old) in values.iter_mut().zip(old) {
                *value *= gelu_tanh_of::<FUSED>(old);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Version = fn(&[Sums], usize, &Columns, &[f32], Finish<'_>, Place);

    /// The routine of every size of registers that this processor has, the portable one first.
    fn versions() -> Vec<Version> {
        #[allow(unused_mut, reason = "on other processors the portable one is all")]
        let mut versions: Vec<Version> = vec![portable_tile::<BASELINE_FUSES>];
        #[cfg(target_arch = "x86_64")]
        {
            use crate::Isa;
            if Isa::Avx2.runs_here() {
                // SAFETY: the processor has the features; the place has these rows and columns.
                versions.push(|tile, rows, columns, row_scales, finish, out| unsafe {
                    let sums = finished(columns, rows, row_scales);
                    narrow::finish_tile(tile, sums, finish, out.data, out.stride);
                });
            }
            if Isa::Avx512.runs_here() {
                // SAFETY: the processor has the features; the place has these rows and columns.
                versions.push(|tile, rows, columns, row_scales, finish, out| unsafe {
                    let sums = finished(columns, rows, row_scales);
                    wide::finish_tile(tile, sums, finish, out.data, out.stride);
                });
            }
        }
        versions
    }

    proptest! {
        /// Every size of registers, within what fused multiplications change.
        #[test]
        fn every_version_finishes_alike(
            seed in prop::collection::vec(-6f32..6.0, 64), rows in 1usize..=14, count in 1usize..=32, bytes in any::<bool>(),
        ) {
            let mut tile = Tile::<14>::new();
            for (i, lane) in tile.0.as_flattened_mut().iter_mut().enumerate() {
                let value = seed[i * 7 % 64];
                *lane = if bytes { (value * 1000.0) as i32 as u32 } else { value.to_bits() };
            }
            let columns = Columns {
                first: 0,
                count,
                bias: std::array::from_fn(|i| seed[i]),
                scales: [1e-3; TILE_COLUMNS],
                excess: std::array::from_fn(|i| i as i32 * 10),
            };
            let row_scales = if bytes { vec![0.7; rows] } else { Vec::new() };
            let (gain, stride) = (vec![1.0; count], count + 2);
            let old: Vec<f32> = (0..rows * stride).map(|i| seed[i * 5 % 64]).collect();
            for finish in [
                Finish::Store, Finish::Gelu, Finish::GeluTanh, Finish::Add(-0.5), Finish::Gate(Gate::Silu),
                Finish::Gate(Gate::Gelu), Finish::Gate(Gate::GeluTanh), Finish::AddLayerNorm { gain: &gain, bias: &gain, epsilon: 0.0 },
            ] {
                let results: Vec<Vec<f32>> = versions().into_iter().map(|version| {
                    let mut out = old.clone();
                    version(&tile.0, rows, &columns, &row_scales, finish, Place::rows(out.as_mut_ptr(), stride));
                    out
                }).collect();
                // A gate multiplies the activation's error by the other product.
                let most = if matches!(finish, Finish::Gate(_)) { 2e-5 } else { 4e-6 };
                for result in &results {
                    for (i, (a, b)) in result.iter().zip(&results[0]).enumerate() {
                        prop_assert!((a - b).abs() < most * (1.0 + b.abs()), "{finish:?} {a} {b}");
                        prop_assert!(i % stride < count || *a == old[i]);
                    }
                }
            }
        }
    }
}
