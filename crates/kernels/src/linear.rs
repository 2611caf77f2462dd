//! The matrix product of a linear layer, and what is done to its result.

mod block;
mod blocks;
mod few;
mod packed;
mod packing;
#[cfg(test)]
mod tests;
mod unpacked;

use rayon::prelude::*;

use crate::{Gate, Matrix, Output, Panels, dispatch::PART, micro::TILE_COLUMNS, norm::layer_norm};

use block::Place;

/// The numbers that are multiplied, where the weights leave a choice: all but [`Matrix::Int8`] do, and of
/// [`Matrix::Blocks`] many rows at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Precision {
    /// f32.
    #[default]
    F32,
    /// bf16, summed in f32, where the processor has instructions for it; f32 elsewhere. Weights and activations
    /// are rounded to eight significant bits.
    Bf16,
}

/// Which routines take rows, where few rows have some of their own that round differently.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rounding {
    /// The fastest for so many rows: what a row gives may depend on how many there are.
    #[default]
    ByCount,
    /// Those for many rows, however few there are: what a row gives depends on the row alone.
    AsMany,
    /// Those for one row, for each of up to [`MOST_AS_ONE`] rows: each gives what it would give by itself, and weights
    /// come from memory once for all of them.
    AsOne,
}

/// Rows at most with [`Rounding::AsOne`]: sums of so many fit the registers, and beyond them products take longer than
/// fetching the weights.
pub const MOST_AS_ONE: usize = 8;

/// One of the products that share their input: `y = x · wᵀ + bias`, to columns of the output of its own.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// Weights `[outputs, inputs]`.
    pub weight: Matrix<'a>,
    /// Bias `[outputs]`.
    pub bias: Option<&'a [f32]>,
    /// Columns.
    pub outputs: usize,
    /// First column written.
    pub offset: usize,
}

/// The step that turns a product y into the output.
#[derive(Debug, Clone, Copy)]
pub enum Finish<'a> {
    /// `out = y`.
    Store,
    /// `out = gelu(y)`, exact.
    Gelu,
    /// `out = gelu(y)`, by tanh.
    GeluTanh,
    /// `out += scale · y`.
    Add(f32),
    /// `out = activation(out) · y`: the second half of a gated feed-forward layer.
    Gate(Gate),
    /// `out = layer_norm(out + y)`, over rows of the one part's outputs, without gaps.
    AddLayerNorm {
        /// Gain `[outputs]`.
        gain: &'a [f32],
        /// Bias `[outputs]`.
        bias: &'a [f32],
        /// Added to the variance.
        epsilon: f32,
    },
    /// `out` is y rounded to bf16, head by head `[stride / dim, rows, dim]`, two numbers in the bits of an f32: what
    /// [`attention_by_head`](crate::attention_by_head) reads. A head's rows lie one after the other, and a tile's
    /// sums with them.
    Heads {
        /// Columns of a head, a multiple of 32, as are the parts' first ones.
        dim: usize,
    },
}

/// Products of one input, which is quantized or rounded once for all of them.
#[derive(Debug, Clone, Copy)]
pub struct Products<'a> {
    /// Activations `[rows, inputs]`.
    pub x: &'a [f32],
    /// Columns of `x`.
    pub inputs: usize,
    /// The weights.
    pub parts: &'a [Part<'a>],
    /// Numbers that are multiplied.
    pub precision: Precision,
    /// Which routines take them.
    pub rounding: Rounding,
    /// The step after the products, the same for all parts.
    pub finish: Finish<'a>,
}

/// `out = x · wᵀ + bias`.
///
/// Shapes: `x` `[rows, inputs]`, `weight` `[outputs, inputs]`, `bias` `[outputs]`, `out` `[rows, outputs]`
/// at its stride. Arithmetic is f32, of bytes for [`Matrix::Int8`]. Runs on the threads of the current pool.
///
/// # Panics
/// When a slice is shorter than its shape says: the caller's bug.
pub fn linear(
    x: &[f32],
    weight: Matrix<'_>,
    bias: Option<&[f32]>,
    inputs: usize,
    outputs: usize,
    out: Output<'_>,
    panels: &mut Panels,
) {
    let parts = &[Part { weight, bias, outputs, offset: out.offset }];
    let (precision, rounding) = (Precision::F32, Rounding::ByCount);
    let work = Products { x, inputs, parts, precision, rounding, finish: Finish::Store };
    products(work, out.data, out.stride, panels);
}

/// `out += scale · x · wᵀ`: a residual connection without a buffer between.
///
/// Shapes as for [`linear`], `out` without gaps.
///
/// # Panics
/// When a slice is shorter than its shape says: the caller's bug.
pub fn linear_add(
    x: &[f32],
    weight: Matrix<'_>,
    scale: f32,
    inputs: usize,
    outputs: usize,
    out: &mut [f32],
    panels: &mut Panels,
) {
    let parts = &[Part { weight, bias: None, outputs, offset: 0 }];
    let finish = Finish::Add(scale);
    let (precision, rounding) = (Precision::F32, Rounding::ByCount);
    let work = Products { x, inputs, parts, precision, rounding, finish };
    products(work, out, outputs, panels);
}

/// Several products of one input, each to its columns of `out`, rows of `stride` elements. Runs on the threads of
/// the current pool.
///
/// `panels` must have been made for as many inputs, and for [`PanelUse::Any`](crate::PanelUse::Any) unless all
/// weights are [`Matrix::Int8`]. Empty ones do for a few products of [`Matrix::F32`], which are then slow.
///
/// A row of `x` with a number that is not finite gives a row of NaN where weights are bytes.
///
/// With [`Matrix::Blocks`], up to a dozen rows are quantized to bytes, each by itself: what a row gives depends on
/// neither the other rows nor the threads. More rows are multiplied in the `precision` asked for, and so round
/// differently; with [`Rounding::AsMany`] few rows are, too, and no row depends on the others. `panels` for as many
/// inputs have room for both. With [`Rounding::AsOne`] rows are taken as few, whatever the weights are: up to three of
/// them are so by count with weights of 16 and 32 bits, too.
///
/// # Panics
/// When a slice is shorter than its shape says, or `panels` are too small: the caller's bug.
pub fn products(work: Products<'_>, out: &mut [f32], stride: usize, panels: &mut Panels) {
    let rows = work.check(out, stride);
    if rows == 0 || work.parts.is_empty() {
        return;
    }
    let data = out.as_mut_ptr();
    let place = match work.finish {
        Finish::Heads { dim } => Place::heads(data, dim, rows),
        _ => Place::rows(data, stride),
    };
    if work.parts.iter().all(|it| matches!(it.weight, Matrix::Int8(_))) {
        packed::run(&work, work.parts, rows, place, panels);
    } else if work.are_few(rows, blocks::FEW_ROWS)
        && work.parts.iter().all(|it| matches!(it.weight, Matrix::Blocks(_)))
    {
        blocks::run(&work, work.parts, rows, place, panels);
    } else {
        for part in work.parts {
            match part.weight {
                Matrix::Int8(_) => {
                    packed::run(&work, std::slice::from_ref(part), rows, place, panels);
                }
                Matrix::Blocks(_) if work.are_few(rows, blocks::FEW_ROWS) => {
                    blocks::run(&work, std::slice::from_ref(part), rows, place, panels);
                }
                _ => unpacked::run(&work, part, rows, place, panels),
            }
        }
    }
}

impl Products<'_> {
    /// Whether these are the rows of a routine that takes up to `most`.
    fn are_few(&self, rows: usize, most: usize) -> bool {
        match self.rounding {
            Rounding::ByCount => rows <= most,
            Rounding::AsMany => false,
            Rounding::AsOne => true,
        }
    }

    /// The number of rows, when everything has its shape.
    fn check(&self, out: &[f32], stride: usize) -> usize {
        let Products { x, inputs, parts, finish, .. } = *self;
        let rows = x.len() / inputs.max(1);
        assert_eq!(x.len(), rows * inputs, "x is not rows × {inputs}");
        let most = if self.rounding == Rounding::AsOne { MOST_AS_ONE } else { usize::MAX };
        assert!(rows <= most, "{rows} rows are more than {most}");
        for part in parts {
            let Part { weight, bias, outputs, offset } = *part;
            assert_eq!(weight.len(), outputs * inputs, "weight is not {outputs} × {inputs}");
            if let Matrix::Int8(matrix) = weight {
                assert_eq!((matrix.outputs(), matrix.inputs()), (outputs, inputs));
            }
            if let Matrix::Q4(matrix) = weight {
                assert_eq!((matrix.outputs(), matrix.inputs()), (outputs, inputs));
            }
            if let Matrix::Blocks(matrix) = weight {
                assert_eq!((matrix.outputs(), matrix.inputs()), (outputs, inputs));
            }
            assert!(bias.is_none_or(|it| it.len() == outputs), "bias is not {outputs} long");
            assert!(
                offset + outputs <= stride,
                "{outputs} columns from {offset} do not fit rows of {stride}"
            );
            let needed = match finish {
                Finish::Heads { .. } => rows * stride / 2,
                _ => rows.saturating_sub(1) * stride + offset + outputs,
            };
            assert!(rows == 0 || out.len() >= needed, "out holds fewer than {rows} rows");
            if let Finish::Heads { dim } = finish {
                let whole = |columns: usize| columns.is_multiple_of(dim);
                assert!(
                    dim > 0 && whole(offset) && whole(outputs) && whole(stride),
                    "no whole heads"
                );
                assert!(dim.is_multiple_of(TILE_COLUMNS), "heads of {dim} are not whole tiles");
            }
        }
        if let Finish::AddLayerNorm { gain, bias, .. } = finish {
            let whole = parts.len() == 1 && parts[0].outputs == stride;
            assert!(whole, "only rows of one part are normalized");
            assert!(
                gain.len() == stride && bias.len() == stride,
                "gain or bias is not {stride} long"
            );
        }
        rows
    }
}

/// Layer normalization of rows that a product was added to, on the threads of the current pool.
fn normalize(finish: Finish<'_>, rows: usize, place: Place) {
    let Finish::AddLayerNorm { gain, bias, epsilon } = finish else { return };
    // SAFETY: the rows were checked to be there, are borrowed mutably by the caller of `products`, and no thread
    // writes them any more.
    let values = unsafe { std::slice::from_raw_parts_mut(place.data, rows * place.stride) };
    let part = (PART / place.stride).max(1) * place.stride;
    values.par_chunks_mut(part).for_each(|values| layer_norm(values, gain, bias, epsilon));
}
