//! Products with weights that lie row by row or must be widened: threads take blocks of columns, pack them
//! once and multiply them with all rows.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::{
    Part, Precision, Products, Rounding,
    block::{Block, Place},
    few, normalize,
    packing::{pack_panel, rows_to_lanes},
};
use crate::{
    Matrix, Panels, isa,
    micro::{Kind, Micro, PANEL, TILE_COLUMNS, micro},
    panels::BLOCK_ROWS,
    scalar,
};

/// Rows for which packing the weights would take longer than multiplying with them.
const FEW_ROWS: usize = 3;

// Long: one loop over turns of columns, whose steps share what was measured before it: how deep a panel is, how many of
// them a thread has room for, and where its rows lie.
/// Multiplies one part.
pub(super) fn run(
    work: &Products<'_>,
    part: &Part<'_>,
    rows: usize,
    place: Place,
    panels: &mut Panels,
) {
    let direct = !matches!(part.weight, Matrix::Int8(_) | Matrix::Blocks(_));
    if panels.share() == 0 || (direct && work.are_few(rows, FEW_ROWS)) {
        few::run(work, part, rows, place);
        normalize(work.finish, rows, place);
        return;
    }
    let (kind, kernel) = kernel(work.precision);
    let depth = work.inputs.div_ceil(kind.per_lane());
    let share = panels.share();
    let row_lanes = if kind == Kind::F32 { 0 } else { BLOCK_ROWS * depth };
    assert!(
        share >= row_lanes + depth * PANEL,
        "panels are smaller than products of {}",
        work.inputs
    );
    let most =
        ((share - row_lanes) / depth / PANEL * PANEL).min(part.outputs.next_multiple_of(PANEL));
    // As many turns as a multiple of the threads, all about as wide.
    let threads = panels.threads();
    let turns = part.outputs.div_ceil(most).next_multiple_of(threads);
    let width = part.outputs.div_ceil(turns).next_multiple_of(TILE_COLUMNS).min(most);
    let next = AtomicUsize::new(0);
    panels.shares().for_each(|share| {
        loop {
            let first = next.fetch_add(width, Ordering::Relaxed);
            if first >= part.outputs {
                break;
            }
            let columns = first..part.outputs.min(first + width);
            let (lanes, weights) = share.split_at_mut(row_lanes);
            for (number, panel) in weights.chunks_exact_mut(depth * PANEL).enumerate() {
                let column = first + number * PANEL;
                if column < columns.end {
                    pack_panel(part.weight, kind, work.inputs, column, panel);
                }
            }
            for from in (0..rows).step_by(BLOCK_ROWS) {
                let count = BLOCK_ROWS.min(rows - from);
                let x = &work.x[from * work.inputs..][..count * work.inputs];
                let (a, stride) = match kind {
                    Kind::F32 => (x.as_ptr().cast(), work.inputs),
                    _ => {
                        rows_to_lanes(x, work.inputs, kind, depth, lanes);
                        (lanes.as_ptr().cast(), depth)
                    }
                };
                let block = Block {
                    micro: kernel,
                    a,
                    stride,
                    first_row: from,
                    rows: count,
                    row_scales: &[],
                    // Rows that fill a tile up are earlier ones, and their sums are left where they are. Activations
                    // of f32 are not copied, so nothing is behind the last one.
                    whole: kind == Kind::Bf16 && work.rounding == Rounding::AsMany,
                    b: weights.as_ptr().cast(),
                    depth,
                    widened: None,
                };
                // SAFETY: `a` is rows of at least depth lanes, the panels were just packed; no two turns
                // write the same columns, and `Products::check` found them all in `place`.
                unsafe { block.run(part, columns.clone(), work.finish, place) };
            }
        }
    });
    normalize(work.finish, rows, place);
}

/// What is multiplied, and by which kernel.
fn kernel(precision: Precision) -> (Kind, Micro) {
    if precision == Precision::Bf16
        && let Some(kernel) = micro(Kind::Bf16, isa::current())
    {
        return (Kind::Bf16, kernel);
    }
    (Kind::F32, micro(Kind::F32, isa::current()).unwrap_or(scalar::F32))
}
