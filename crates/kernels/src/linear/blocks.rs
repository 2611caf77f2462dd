//! Products of a few rows with weights in blocks: the rows are quantized once for all parts, and every weight is
//! read once, where it lies. Threads take columns.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::{
    Part, Products,
    block::{Place, finish_sums},
    normalize,
};
use crate::{
    Matrix, Panels,
    blocks::{
        activations::{Activations, quantize, row_len},
        dots::{OUTPUTS, dots},
    },
    micro::{TILE_COLUMNS, TILE_ROWS, Tile},
};

/// Rows up to which products with the blocks themselves take about as long as widening them at most: 12 rows 80 to
/// 127 G/s, by format, against 64 to 93 widened to f32 and 73 to 134 to bf16, a thread of a Zen 5 with AVX-512. The
/// example `roofline` shows 12 rows and 13.
pub(super) const FEW_ROWS: usize = 12;

/// Turns that a thread takes at least, where there are tiles enough.
const TURNS_PER_THREAD: usize = 6;

/// Tiles of a turn at most.
const MOST_TILES: usize = 16;

/// Multiplies all `parts`, whose weights are blocks.
pub(super) fn run(
    work: &Products<'_>,
    parts: &[Part<'_>],
    rows: usize,
    place: Place,
    panels: &mut Panels,
) {
    // Rows are quantized in blocks of the weights' length; most parts agree on one.
    for length in [32, 256] {
        let alike = |it: &&Part<'_>| block_len(it) == Some(length);
        if parts.iter().all(|it| alike(&it)) {
            run_alike(work, parts, length, rows, place, panels);
        } else {
            let parts: Vec<_> = parts.iter().filter(alike).copied().collect();
            run_alike(work, &parts, length, rows, place, panels);
        }
    }
    normalize(work.finish, rows, place);
}

/// Inputs of a block of a part's weights.
fn block_len(part: &Part<'_>) -> Option<usize> {
    match part.weight {
        Matrix::Blocks(matrix) => Some(matrix.format().block_len()),
        _ => None,
    }
}

/// Multiplies `parts` whose blocks are of one length.
fn run_alike(
    work: &Products<'_>,
    parts: &[Part<'_>],
    length: usize,
    rows: usize,
    place: Place,
    panels: &mut Panels,
) {
    if parts.is_empty() {
        return;
    }
    let (inputs, threads) = (work.inputs, panels.threads());
    let len = row_len(inputs);
    let memory = panels.elements();
    assert!(memory.len() >= rows * len, "panels are smaller than {rows} rows of {inputs}");
    let memory = &mut memory[..rows * len];
    for (row, memory) in work.x.chunks_exact(inputs).zip(memory.chunks_exact_mut(len)) {
        quantize(row, length, memory);
    }
    let memory = &*memory;
    // Neighboring tiles, that a thread reads on where it is; not so many that threads wait for the last one.
    let tiles = |part: &Part<'_>| part.outputs.div_ceil(TILE_COLUMNS);
    let all: usize = parts.iter().map(tiles).sum();
    let grain = (all / (threads * TURNS_PER_THREAD)).clamp(1, MOST_TILES);
    let turns: usize = parts.iter().map(|it| tiles(it).div_ceil(grain)).sum();
    let next = AtomicUsize::new(0);
    let body = |_| {
        loop {
            let mut turn = next.fetch_add(1, Ordering::Relaxed);
            if turn >= turns {
                break;
            }
            for part in parts {
                let own = tiles(part).div_ceil(grain);
                if turn < own {
                    for tile in turn * grain..tiles(part).min((turn + 1) * grain) {
                        block(work, part, tile, rows, memory, place);
                    }
                    break;
                }
                turn -= own;
            }
        }
    };
    if threads.min(turns) == 1 {
        body(0);
    } else {
        (0..threads.min(turns)).into_par_iter().with_max_len(1).for_each(body);
    }
}

/// Multiplies all rows with the columns of a tile.
fn block(
    work: &Products<'_>,
    part: &Part<'_>,
    number: usize,
    rows: usize,
    memory: &[f32],
    place: Place,
) {
    let Matrix::Blocks(matrix) = part.weight else { return };
    let len = row_len(work.inputs);
    let first = number * TILE_COLUMNS;
    let columns = first..part.outputs.min(first + TILE_COLUMNS);
    let mut tile = Tile::<TILE_ROWS>::new();
    for from in (0..rows).step_by(TILE_ROWS) {
        let count = TILE_ROWS.min(rows - from);
        // Beyond the last row it stands again, and is not looked at.
        let x: [Activations<'_>; TILE_ROWS] = std::array::from_fn(|row| {
            Activations::view(&memory[(from + row.min(count - 1)) * len..][..len], work.inputs)
        });
        for column in columns.clone().step_by(OUTPUTS) {
            let outputs = column..columns.end.min(column + OUTPUTS);
            let mut sums = [0.0; TILE_ROWS * OUTPUTS];
            dots(&matrix, outputs.clone(), &x[..count], &mut sums);
            let sums = sums.chunks_exact(outputs.len()).take(count);
            for (bits, sums) in tile.0.iter_mut().zip(sums) {
                for (bits, sum) in bits[column - first..].iter_mut().zip(sums) {
                    *bits = sum.to_bits();
                }
            }
        }
        // SAFETY: nobody else writes these columns, and `Products::check` found them in `place`.
        unsafe {
            finish_sums(&tile.0, from..from + count, part, columns.clone(), work.finish, place);
        };
    }
}
