//! Products of a few rows, the steps of a language model and the heads of rerankers: every weight is used once or
//! twice, so it is multiplied where it lies. Threads take columns.

use rayon::prelude::*;

use super::{
    MOST_AS_ONE, Part, Products,
    block::{Place, finish_sums},
};
use crate::{
    Matrix,
    blocks::layouts::widen_f16,
    dispatch::{mul_add, multiversion},
    micro::{PANEL, TILE_COLUMNS, Tile},
};

/// Columns that all rows take while their weights are in a core's first cache.
const COLUMNS: usize = 4;

/// Multiplies one part, whose weights are f32, f16, bf16 or of four bits.
///
/// # Panics
/// With weights of another format, which need memory to be widened or activations to be quantized in: the caller's
/// bug.
pub(super) fn run(work: &Products<'_>, part: &Part<'_>, rows: usize, place: Place) {
    let inputs = work.inputs;
    // All rows take some columns before the next ones are fetched.
    let step = if matches!(part.weight, Matrix::Q4(_)) { PANEL } else { COLUMNS };
    (0..part.outputs.div_ceil(TILE_COLUMNS)).into_par_iter().for_each(|turn| {
        let first = turn * TILE_COLUMNS;
        let columns = first..part.outputs.min(first + TILE_COLUMNS);
        let mut tile = Tile::<MOST_AS_ONE>::new();
        for from in (0..rows).step_by(MOST_AS_ONE) {
            let count = MOST_AS_ONE.min(rows - from);
            for column in columns.clone().step_by(step) {
                let places = column - first..columns.end.min(column + step) - first;
                for (row, sums) in tile.0[..count].iter_mut().enumerate() {
                    let x = &work.x[(from + row) * inputs..][..inputs];
                    let sums = &mut sums[places.clone()];
                    match part.weight {
                        Matrix::F32(values) => dots(x, &values[column * inputs..], sums),
                        Matrix::Bf16(bits) => dots_bf16(x, &bits[column * inputs..], sums),
                        Matrix::Q4(matrix) => matrix.dots(column / PANEL, x, sums),
                        Matrix::F16(bits) => dots_f16(x, &bits[column * inputs..], sums),
                        Matrix::Int8(_) | Matrix::Blocks(_) => panic!("the panels are empty"),
                    }
                }
            }
            // SAFETY: nobody else writes these columns, and `Products::check` found them in `place`.
            unsafe {
                finish_sums(&tile.0, from..from + count, part, columns.clone(), work.finish, place);
            }
        }
    });
}

/// Sums in flight: four registers of AVX-512, which hide the latency of a multiplication.
const LANES: usize = 64;

/// The sum of the lanes, half of them added to the other half until one is left: one after the other each addition
/// would wait for the one before, three times as long as a row of 384 takes to multiply.
#[inline(always)]
fn sum_of(mut lanes: [f32; LANES]) -> f32 {
    let mut left = LANES;
    while left > 1 {
        left /= 2;
        let (low, high) = lanes.split_at_mut(left);
        for (low, high) in low.iter_mut().zip(&high[..left]) {
            *low += high;
        }
    }
    lanes[0]
}

multiversion! {
    /// The products of a row with as many rows of weights as there are sums, as bits.
    fn dots(x: &[f32], weights: &[f32], sums: &mut [u32]) {
        for (sum, weights) in sums.iter_mut().zip(weights.chunks_exact(x.len().max(1))) {
            let mut lanes = [0f32; LANES];
            let (a, a_rest) = x.as_chunks::<LANES>();
            let (b, b_rest) = weights.as_chunks::<LANES>();
            for (a, b) in a.iter().zip(b) {
                for i in 0..LANES {
                    lanes[i] = mul_add::<FUSED>(a[i], b[i], lanes[i]);
                }
            }
            let mut total = 0.0;
            for (a, b) in a_rest.iter().zip(b_rest) {
                total += a * b;
            }
            *sum = (total + sum_of(lanes)).to_bits();
        }
    }
}

multiversion! {
    /// As [`dots`], of weights that are the upper halves of singles.
    fn dots_bf16(x: &[f32], weights: &[u16], sums: &mut [u32]) {
        for (sum, weights) in sums.iter_mut().zip(weights.chunks_exact(x.len().max(1))) {
            let mut lanes = [0f32; LANES];
            let (a, a_rest) = x.as_chunks::<LANES>();
            let (b, b_rest) = weights.as_chunks::<LANES>();
            for (a, b) in a.iter().zip(b) {
                for i in 0..LANES {
                    lanes[i] = mul_add::<FUSED>(a[i], f32::from_bits(u32::from(b[i]) << 16), lanes[i]);
                }
            }
            let mut total = 0.0;
            for (a, b) in a_rest.iter().zip(b_rest) {
                total += a * f32::from_bits(u32::from(*b) << 16);
            }
            *sum = (total + sum_of(lanes)).to_bits();
        }
    }
}

multiversion! {
    /// As [`dots`], of weights of half precision.
    fn dots_f16(x: &[f32], weights: &[u16], sums: &mut [u32]) {
        for (sum, weights) in sums.iter_mut().zip(weights.chunks_exact(x.len().max(1))) {
            let mut lanes = [0f32; LANES];
            let (a, a_rest) = x.as_chunks::<LANES>();
            let (b, b_rest) = weights.as_chunks::<LANES>();
            for (a, b) in a.iter().zip(b) {
                for i in 0..LANES {
                    lanes[i] = mul_add::<FUSED>(a[i], widen_f16(b[i]), lanes[i]);
                }
            }
            let mut total = 0.0;
            for (a, b) in a_rest.iter().zip(b_rest) {
                total += a * widen_f16(*b);
            }
            *sum = (total + sum_of(lanes)).to_bits();
        }
    }
}
