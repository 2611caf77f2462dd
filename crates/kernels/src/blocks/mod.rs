//! Weights in the block formats of GGML, multiplied from the bytes of a GGUF file as they are.
//!
//! Rows lie one after the other, each in blocks of 32 or of 256 inputs with scales of their own. With many rows of
//! activations they are widened panel by panel, and the arithmetic is that of f32 or bf16. With few, activations are
//! quantized to bytes as GGML does ([`activations`]), and products of bytes are summed exactly within a
//! block ([`dots`]): the two ways round differently.

pub(crate) mod activations;
pub(crate) mod dots;
pub(crate) mod layouts;
#[cfg(test)]
pub(crate) mod tests;

use std::ops::Range;

use crate::{PackedError, dispatch::multiversion};

use layouts::{Layout, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0, widen_blocks};

/// A format of GGML, as its
/// [`ggml-common.h`](https://github.com/ggml-org/llama.cpp/blob/master/ggml/src/ggml-common.h) lays it out.
#[allow(non_camel_case_types, reason = "the formats' own names")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockFormat {
    /// Four bits and a scale for 32.
    Q4_0,
    /// Four bits, a scale and a minimum for 32.
    Q4_1,
    /// Five bits and a scale for 32.
    Q5_0,
    /// Five bits, a scale and a minimum for 32.
    Q5_1,
    /// Eight bits and a scale for 32.
    Q8_0,
    /// Two bits, scales and minimums of four bits for 16.
    Q2K,
    /// Three bits and scales of six bits for 16.
    Q3K,
    /// Four bits, scales and minimums of six bits for 32.
    Q4K,
    /// Five bits, scales and minimums of six bits for 32.
    Q5K,
    /// Six bits and scales of eight bits for 16.
    Q6K,
}

/// Calls a generic function with the layout of a format.
macro_rules! with_layout {
    ($format:expr, $layout:ident => $body:expr) => {
        match $format {
            BlockFormat::Q4_0 => {
                type $layout = Q4_0;
                $body
            }
            BlockFormat::Q4_1 => {
                type $layout = Q4_1;
                $body
            }
            BlockFormat::Q5_0 => {
                type $layout = Q5_0;
                $body
            }
            BlockFormat::Q5_1 => {
                type $layout = Q5_1;
                $body
            }
            BlockFormat::Q8_0 => {
                type $layout = Q8_0;
                $body
            }
            BlockFormat::Q2K => {
                type $layout = Q2K;
                $body
            }
            BlockFormat::Q3K => {
                type $layout = Q3K;
                $body
            }
            BlockFormat::Q4K => {
                type $layout = Q4K;
                $body
            }
            BlockFormat::Q5K => {
                type $layout = Q5K;
                $body
            }
            BlockFormat::Q6K => {
                type $layout = Q6K;
                $body
            }
        }
    };
}
pub(crate) use with_layout;

impl BlockFormat {
    /// All of them.
    pub const ALL: [BlockFormat; 10] = [
        BlockFormat::Q4_0,
        BlockFormat::Q4_1,
        BlockFormat::Q5_0,
        BlockFormat::Q5_1,
        BlockFormat::Q8_0,
        BlockFormat::Q2K,
        BlockFormat::Q3K,
        BlockFormat::Q4K,
        BlockFormat::Q5K,
        BlockFormat::Q6K,
    ];

    /// Inputs of a block.
    pub fn block_len(self) -> usize {
        with_layout!(self, L => L::LEN)
    }

    /// Bytes of a block.
    pub fn block_bytes(self) -> usize {
        with_layout!(self, L => L::BYTES)
    }
}

/// A matrix `[outputs, inputs]` of blocks, borrowed from memory that may come straight from a file, at any address.
/// Every bit pattern is a matrix: scales that are not finite give products that are not.
#[derive(Debug, Clone, Copy)]
pub struct BlockMatrix<'a> {
    format: BlockFormat,
    bytes: &'a [u8],
    outputs: usize,
    inputs: usize,
}

impl<'a> BlockMatrix<'a> {
    /// Views `bytes` as `outputs` rows of blocks.
    ///
    /// # Errors
    /// [`PackedError`] when a row holds no whole blocks, or the bytes are not as many as the shape takes.
    pub fn new(
        format: BlockFormat,
        bytes: &'a [u8],
        outputs: usize,
        inputs: usize,
    ) -> Result<Self, PackedError> {
        if !inputs.is_multiple_of(format.block_len()) {
            return Err(PackedError::Partial { inputs, block: format.block_len() });
        }
        let row = (inputs / format.block_len()).checked_mul(format.block_bytes());
        let expected = row
            .and_then(|it| it.checked_mul(outputs))
            .filter(|_| outputs.checked_mul(inputs).is_some())
            .ok_or(PackedError::Size { outputs, inputs })?;
        if bytes.len() != expected {
            return Err(PackedError::Length { outputs, inputs, expected, actual: bytes.len() });
        }
        Ok(BlockMatrix { format, bytes, outputs, inputs })
    }

    /// Some of the outputs.
    ///
    /// # Panics
    /// When they are not all there: the caller's bug.
    pub fn rows(self, outputs: Range<usize>) -> Self {
        assert!(outputs.end <= self.outputs, "{outputs:?} are not rows of {}", self.outputs);
        let bytes = self.row_bytes();
        BlockMatrix {
            bytes: &self.bytes[outputs.start * bytes..outputs.end * bytes],
            outputs: outputs.len(),
            ..self
        }
    }

    /// Writes a row's weights to `out` `[inputs]`, bits as GGML's own reference has them.
    ///
    /// # Panics
    /// When there is no such row, or `out` has another length: the caller's bug.
    pub fn widen_row(&self, output: usize, out: &mut [f32]) {
        assert_eq!(out.len(), self.inputs, "out is not {} long", self.inputs);
        widen(self.format, self.row(output), out);
    }

    /// Its format.
    pub fn format(&self) -> BlockFormat {
        self.format
    }

    /// Rows.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Columns.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Bytes of a row.
    pub(crate) fn row_bytes(&self) -> usize {
        self.inputs / self.format.block_len() * self.format.block_bytes()
    }

    /// All rows.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// A row's blocks.
    pub(crate) fn row(&self, output: usize) -> &'a [u8] {
        assert!(output < self.outputs, "row {output} is beyond {}", self.outputs);
        let bytes = self.row_bytes();
        &self.bytes[output * bytes..][..bytes]
    }

    /// Writes `out.len()` weights of a row from `from` on, both whole blocks.
    pub(crate) fn widen_part(&self, output: usize, from: usize, out: &mut [f32]) {
        let (len, bytes) = (self.format.block_len(), self.format.block_bytes());
        let blocks = &self.row(output)[from / len * bytes..][..out.len() / len * bytes];
        widen(self.format, blocks, out);
    }
}

/// Widens blocks, with the best instructions there are.
fn widen(format: BlockFormat, blocks: &[u8], out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if crate::dispatch::has_avx512() {
        // SAFETY: the processor has AVX-512; the callers pass whole blocks and room for them.
        return unsafe { crate::x86::widen_avx512(format, blocks, out) };
    }
    portable_widen(format, blocks, out);
}

multiversion! {
    /// Widens blocks.
    fn portable_widen(format: BlockFormat, blocks: &[u8], out: &mut [f32]) {
        with_layout!(format, L => widen_blocks::<L>(blocks, out));
    }
}
