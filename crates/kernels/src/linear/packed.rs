//! Products with packed weights: threads take blocks of rows, quantize them once and multiply them with all
//! weights, which stream by from the outer caches.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::{
    Finish, Part, Products,
    block::{Block, Place},
    normalize,
};
use crate::{
    Matrix, Panels, isa,
    micro::{Kind, Micro, PANEL, TILE_COLUMNS, micro},
    norm::layer_norm,
    panels::BLOCK_ROWS,
    quantize::quantize_rows,
    scalar,
};

/// Fewest rows of a block, if there are more: for fewer the weights are read too often.
const FEWEST_ROWS: usize = 28;

/// How the work is cut: blocks of rows, and where those are too few, of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    rows: usize,
    column_turns: usize,
}

impl Cut {
    fn new(rows: usize, threads: usize, most: usize, micro: Micro) -> Cut {
        // Four blocks a thread even out what other work slows down; whole tiles.
        let wanted = rows.div_ceil(threads * 4).next_multiple_of(micro.rows);
        let block = wanted.clamp(FEWEST_ROWS, BLOCK_ROWS).min(most).min(rows);
        let turns = rows.div_ceil(block);
        // A last block of few rows takes about as long as a whole one.
        let even = rows.div_ceil(turns).next_multiple_of(micro.grain).min(block);
        Cut { rows: even, column_turns: threads.div_ceil(turns) }
    }
}

/// Multiplies all `parts`, whose weights are bytes.
pub(super) fn run(
    work: &Products<'_>,
    parts: &[Part<'_>],
    rows: usize,
    place: Place,
    panels: &mut Panels,
) {
    let micro = micro(Kind::Int8, isa::current()).unwrap_or(scalar::INT8);
    let depth = work.inputs.div_ceil(Kind::Int8.per_lane());
    let most = panels.share() / (depth + 1);
    assert!(most > 0, "panels are smaller than a row of {}", work.inputs);
    let threads = panels.threads();
    let cut = Cut::new(rows, threads, most, micro);
    let turns = rows.div_ceil(cut.rows) * cut.column_turns;
    let next = AtomicUsize::new(0);
    let body = |share: &mut [f32]| {
        loop {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            if turn >= turns {
                break;
            }
            block(work, parts, micro, cut, turn, rows, place, share);
        }
    };
    if threads == 1 || turns == 1 {
        panels.shares().take(1).for_each(body);
    } else {
        panels.shares().for_each(body);
    }
    if cut.column_turns > 1 {
        normalize(work.finish, rows, place);
    }
}

/// One turn: quantizes a block of rows and multiplies it with some columns of all parts.
fn block(
    work: &Products<'_>,
    parts: &[Part<'_>],
    micro: Micro,
    cut: Cut,
    turn: usize,
    rows: usize,
    place: Place,
    share: &mut [f32],
) {
    let (row_turn, column_turn) = (turn / cut.column_turns, turn % cut.column_turns);
    let first_row = row_turn * cut.rows;
    let count = cut.rows.min(rows - first_row);
    let depth = work.inputs.div_ceil(Kind::Int8.per_lane());
    let (lanes, rest) = share.split_at_mut(count * depth);
    let scales = &mut rest[..count];
    let x = &work.x[first_row * work.inputs..][..count * work.inputs];
    // SAFETY: any f32 is four bytes.
    let (_, bytes, _) = unsafe { lanes.align_to_mut::<u8>() };
    quantize_rows(x, work.inputs, micro.offset as u8, depth * 4, bytes, scales);
    for part in parts {
        let Matrix::Int8(matrix) = part.weight else { continue };
        // Columns in turns of whole tiles.
        let width = part.outputs.div_ceil(cut.column_turns).next_multiple_of(TILE_COLUMNS);
        let first = column_turn * width;
        if first >= part.outputs {
            continue;
        }
        let columns = first..part.outputs.min(first + width);
        // SAFETY: the blocks hold a panel of depth × 16 lanes for every 16 columns, and `first` is the first
        // of one; no two turns share rows and columns; `place` has them all (`Products::check`).
        unsafe {
            let b = matrix.blocks().as_ptr().cast::<u32>().add(first / PANEL * depth * PANEL);
            let a = lanes.as_ptr().cast();
            let block = Block {
                micro,
                a,
                stride: depth,
                first_row,
                rows: count,
                row_scales: scales,
                b,
                depth,
            };
            block.run(part, columns, work.finish, place);
        }
    }
    if let (Finish::AddLayerNorm { gain, bias, epsilon }, 1) = (work.finish, cut.column_turns) {
        // SAFETY: whole rows of this turn alone, checked to be there.
        let values = unsafe {
            std::slice::from_raw_parts_mut(
                place.data.add(first_row * place.stride),
                count * place.stride,
            )
        };
        layer_norm(values, gain, bias, epsilon);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_row_is_in_a_block_that_fits(
            rows in 1usize..3000, threads in 1usize..20, most in 1usize..200, grain in prop::sample::select(vec![1usize, 16]),
        ) {
            let micro = Micro { rows: 14.max(2 * grain), grain, ..scalar::INT8 };
            let cut = Cut::new(rows, threads, most, micro);
            prop_assert!((1..=most.min(BLOCK_ROWS)).contains(&cut.rows));
            let turns = rows.div_ceil(cut.rows);
            prop_assert!(turns * cut.rows >= rows && (turns - 1) * cut.rows < rows);
            prop_assert!(turns * cut.column_turns >= threads);
        }
    }
}
