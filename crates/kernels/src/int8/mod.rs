//! Weights of eight bits: one symmetric scale for each output, packed once in a layout that every instruction
//! set reads as it is.
//!
//! Activations are quantized on the fly, one scale for each row (dynamic quantization per token); products of
//! bytes are summed exactly in 32 bits.

mod pack;

pub use pack::{int8_bytes, pack_int8, pack_int8_as_it_is};

use crate::PackedError;

/// Outputs in a block: the 32-bit lanes of an AVX-512 register, a row of an AMX tile.
pub(crate) const BLOCK: usize = 16;

/// Inputs that lie together: the bytes of a 32-bit lane.
pub(crate) const QUAD: usize = 4;

/// Largest magnitude of a weight and of an activation. −128 is left out, so that a byte's magnitude is a byte.
pub(crate) const LARGEST: f32 = 127.0;

/// Inputs whose products still fit a sum of 32 bits, activations taken as unsigned bytes: 255 · 127 · 65 536 <
/// 2³¹.
const MOST_INPUTS: usize = 1 << 16;

/// A packed matrix `[outputs, inputs]` of bytes, borrowed from memory that may come straight from disk.
///
/// Layout: scales f32 `[N]`, sums of each output's bytes i32 `[N]`, bytes `[N / 16][K / 4][16][4]`, where N is
/// `outputs` rounded up to 16 and K `inputs` rounded up to 4; all numbers little-endian, the rest zeros. A
/// weight is its byte times the scale of its output.
#[derive(Debug, Clone, Copy)]
pub struct Int8Matrix<'a> {
    scales: &'a [f32],
    sums: &'a [i32],
    blocks: &'a [i8],
    outputs: usize,
    inputs: usize,
}

impl<'a> Int8Matrix<'a> {
    /// Views `bytes` as [`pack_int8`] left them.
    ///
    /// # Errors
    /// [`PackedError`] when they are not as many as the shape takes, or not aligned to four bytes.
    pub fn new(bytes: &'a [u8], outputs: usize, inputs: usize) -> Result<Self, PackedError> {
        let expected = int8_bytes(outputs, inputs)?;
        if bytes.len() != expected {
            return Err(PackedError::Length { outputs, inputs, expected, actual: bytes.len() });
        }
        let rows = outputs.next_multiple_of(BLOCK);
        let (scales, rest) = bytes.split_at(rows * size_of::<f32>());
        let (sums, blocks) = rest.split_at(rows * size_of::<i32>());
        // SAFETY: every bit pattern is a valid f32, i32 and i8; `align_to` keeps lengths and alignments.
        let views = unsafe { (scales.align_to(), sums.align_to(), blocks.align_to()) };
        let ((before, scales, _), (_, sums, _), (_, blocks, _)) = views;
        if !before.is_empty() || scales.len() != rows || sums.len() != rows {
            return Err(PackedError::Alignment { outputs, inputs });
        }
        Ok(Int8Matrix { scales, sums, blocks, outputs, inputs })
    }

    /// The outputs of a range that begins at a whole block.
    ///
    /// # Panics
    /// When it begins elsewhere or is not all there: the caller's bug.
    pub fn rows(&self, outputs: std::ops::Range<usize>) -> Int8Matrix<'a> {
        let inside = outputs.start.is_multiple_of(BLOCK) && outputs.end <= self.outputs;
        assert!(inside, "{outputs:?} are not whole blocks of {} outputs", self.outputs);
        let rows = outputs.start..outputs.end.next_multiple_of(BLOCK);
        let bytes = self.inputs.next_multiple_of(QUAD);
        Int8Matrix {
            scales: &self.scales[rows.clone()],
            sums: &self.sums[rows.clone()],
            blocks: &self.blocks[rows.start * bytes..rows.end * bytes],
            outputs: outputs.len(),
            inputs: self.inputs,
        }
    }

    /// Rows.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Columns.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Scales of the outputs, and zeros up to a whole block.
    pub fn scales(&self) -> &'a [f32] {
        self.scales
    }

    /// Sums of the bytes of each output.
    pub(crate) fn sums(&self) -> &'a [i32] {
        self.sums
    }

    /// The bytes.
    pub fn blocks(&self) -> &'a [i8] {
        self.blocks
    }

    /// The weight at a place, for tests and for those who need only a few.
    pub fn get(&self, output: usize, input: usize) -> f32 {
        let quads = self.inputs.div_ceil(QUAD);
        let quad = (output / BLOCK * quads + input / QUAD) * BLOCK + output % BLOCK;
        f32::from(self.blocks[quad * QUAD + input % QUAD]) * self.scales[output]
    }
}
