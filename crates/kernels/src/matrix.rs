//! Weight matrices in the formats they are kept in, and where products are written.

use std::ops::Range;

use crate::{BlockMatrix, Int8Matrix, Q4Matrix};

/// Where a product is written: rows of `stride` elements, of which the product fills `columns` from
/// `offset` on. Three products can so share one buffer (query | key | value).
#[derive(Debug)]
pub struct Output<'a> {
    /// The buffer, `rows × stride` elements or more.
    pub data: &'a mut [f32],
    /// Elements from one row to the next.
    pub stride: usize,
    /// First column written.
    pub offset: usize,
}

impl<'a> Output<'a> {
    /// A buffer that the product fills wholly, row after row.
    pub fn dense(data: &'a mut [f32], columns: usize) -> Self {
        Output { data, stride: columns, offset: 0 }
    }
}

/// A weight matrix `[outputs, inputs]` in the format it is kept in. The first three lie row by row as Hugging
/// Face stores them, the last as GGML does, the others are packed once, when a model is converted.
#[derive(Debug, Clone, Copy)]
pub enum Matrix<'a> {
    /// Single precision.
    F32(&'a [f32]),
    /// Half precision, as bits.
    F16(&'a [u16]),
    /// The upper halves of singles, as bits.
    Bf16(&'a [u16]),
    /// Bytes with a scale for each output.
    Int8(Int8Matrix<'a>),
    /// Four bits with a scale for every 32 inputs of an output.
    Q4(Q4Matrix<'a>),
    /// Blocks of GGML, as they lie in a GGUF file.
    Blocks(BlockMatrix<'a>),
}

impl<'a> Matrix<'a> {
    /// Some of the outputs of `[outputs, inputs]`; of packed matrices they begin at a multiple of 16.
    ///
    /// # Panics
    /// When they are not all there, or begin elsewhere: the caller's bug.
    pub fn rows(self, outputs: Range<usize>, inputs: usize) -> Matrix<'a> {
        let elements = outputs.start * inputs..outputs.end * inputs;
        match self {
            Matrix::F32(values) => Matrix::F32(&values[elements]),
            Matrix::F16(bits) => Matrix::F16(&bits[elements]),
            Matrix::Bf16(bits) => Matrix::Bf16(&bits[elements]),
            Matrix::Int8(matrix) => Matrix::Int8(matrix.rows(outputs)),
            Matrix::Q4(matrix) => Matrix::Q4(matrix.rows(outputs)),
            Matrix::Blocks(matrix) => Matrix::Blocks(matrix.rows(outputs)),
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Matrix::F32(values) => values.len(),
            Matrix::F16(bits) | Matrix::Bf16(bits) => bits.len(),
            Matrix::Int8(matrix) => matrix.outputs() * matrix.inputs(),
            Matrix::Q4(matrix) => matrix.outputs() * matrix.inputs(),
            Matrix::Blocks(matrix) => matrix.outputs() * matrix.inputs(),
        }
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A packed matrix's bytes are not what its shape asks for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackedError {
    /// Too few or too many.
    #[error(
        "a packed matrix of {outputs} × {inputs} takes {expected} bytes, not {actual}: convert the model again"
    )]
    Length {
        /// Rows.
        outputs: usize,
        /// Columns.
        inputs: usize,
        /// Bytes that the shape takes.
        expected: usize,
        /// Bytes that there are.
        actual: usize,
    },
    /// Rows of blocks that end within a block.
    #[error(
        "rows of {inputs} inputs are no whole blocks of {block}: get the file again, or in another format"
    )]
    Partial {
        /// Columns.
        inputs: usize,
        /// Inputs of a block.
        block: usize,
    },
    /// The first byte lies where no f32 may.
    #[error(
        "the bytes of a packed matrix of {outputs} × {inputs} are not aligned to four: this is a bug"
    )]
    Alignment {
        /// Rows.
        outputs: usize,
        /// Columns.
        inputs: usize,
    },
    /// More inputs than sums of products of bytes have room for, or a size that does not fit memory.
    #[error("a matrix of {outputs} × {inputs} is too large to be packed")]
    Size {
        /// Rows.
        outputs: usize,
        /// Columns.
        inputs: usize,
    },
}
