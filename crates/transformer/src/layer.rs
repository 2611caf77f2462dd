//! What a layer is made of: products and vectors, cut out of its buffer in the order in which they were named.

use std::ops::Range;

use riddle_kernels::{
    Finish, Int8Matrix, Matrix, Panels, Part, Precision, Products, Q4Matrix, Rounding, products,
};
use riddle_weights::{
    Checkpoint, Dtype, Format, LayerLayout, LayeredCheckpoint, Pack as _, TensorInfo,
};

use crate::{KernelLayout, Result};

/// A linear layer's weights.
#[derive(Debug)]
pub(crate) struct Linear<'a> {
    pub(crate) weight: Matrix<'a>,
    pub(crate) bias: Option<&'a [f32]>,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

impl<'a> Linear<'a> {
    /// Some of the outputs.
    pub(crate) fn rows(&self, rows: Range<usize>) -> Linear<'a> {
        Linear {
            weight: self.weight.rows(rows.clone(), self.inputs),
            bias: self.bias.map(|it| &it[rows.clone()]),
            inputs: self.inputs,
            outputs: rows.len(),
        }
    }

    /// The product with its columns from `offset` on.
    pub(crate) fn at(&self, offset: usize) -> Part<'a> {
        Part { weight: self.weight, bias: self.bias, outputs: self.outputs, offset }
    }
}

/// Runs the products of a layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Multiply {
    pub(crate) precision: Precision,
    pub(crate) rounding: Rounding,
}

impl Multiply {
    /// In so many bits, by the routines that are fastest for so many rows.
    pub(crate) fn by_count(precision: Precision) -> Multiply {
        Multiply { precision, rounding: Rounding::ByCount }
    }

    /// Several products of one input, to their columns of rows of `stride`.
    pub(crate) fn parts(
        self,
        x: &[f32],
        inputs: usize,
        parts: &[Part<'_>],
        out: (&mut [f32], usize),
        panels: &mut Panels,
    ) {
        self.parts_to(x, inputs, parts, Finish::Store, out, panels);
    }

    /// As [`parts`](Self::parts), and what becomes of them.
    pub(crate) fn parts_to(
        self,
        x: &[f32],
        inputs: usize,
        parts: &[Part<'_>],
        finish: Finish<'_>,
        (out, stride): (&mut [f32], usize),
        panels: &mut Panels,
    ) {
        let Multiply { precision, rounding } = self;
        let work = Products { x, inputs, parts, precision, rounding, finish };
        products(work, out, stride, panels);
    }

    /// One product, and what becomes of it; `out` without gaps.
    pub(crate) fn one(
        self,
        x: &[f32],
        product: &Linear<'_>,
        finish: Finish<'_>,
        out: &mut [f32],
        panels: &mut Panels,
    ) {
        let parts = &[product.at(0)];
        let Multiply { precision, rounding } = self;
        let work = Products { x, inputs: product.inputs, parts, precision, rounding, finish };
        products(work, out, product.outputs, panels);
    }
}

/// Cuts a layer's buffer, tensor after tensor, in the order in which its layout was made.
pub(crate) struct Cutter<'a> {
    layout: &'a LayerLayout,
    buffer: &'a [u8],
    next: usize,
}

impl<'a> Cutter<'a> {
    pub(crate) fn new(layout: &'a LayerLayout, buffer: &'a [u8]) -> Self {
        Cutter { layout, buffer, next: 0 }
    }

    pub(crate) fn vector(&mut self) -> &'a [f32] {
        let (format, raw) = self.take();
        let plain = Format::Plain(Dtype::F32);
        assert_eq!(format, plain, "vectors are widened when they are read: this is a bug");
        bytemuck::cast_slice(raw)
    }

    /// A vector that the model may lack; empty then.
    pub(crate) fn optional(&mut self, there: bool) -> &'a [f32] {
        if there { self.vector() } else { &[] }
    }

    fn matrix(&mut self, outputs: usize, inputs: usize) -> Matrix<'a> {
        let (format, raw) = self.take();
        // `TensorNames::add` has compared lengths when the model was opened, and tensors begin cache lines.
        match format {
            Format::Plain(Dtype::F32) => Matrix::F32(bytemuck::cast_slice(raw)),
            Format::Plain(Dtype::F16) => Matrix::F16(bytemuck::cast_slice(raw)),
            Format::Plain(Dtype::Bf16) => Matrix::Bf16(bytemuck::cast_slice(raw)),
            Format::Int8 => Int8Matrix::new(raw, outputs, inputs)
                .map(Matrix::Int8)
                .expect("lengths are checked when a model is opened: this is a bug"),
            Format::Q4 => Q4Matrix::new(raw, outputs, inputs)
                .map(Matrix::Q4)
                .expect("lengths are checked when a model is opened: this is a bug"),
            Format::Rows => unreachable!("layers have no tables: this is a bug"),
        }
    }

    /// A product with its bias, if it has one.
    pub(crate) fn linear(&mut self, inputs: usize, outputs: usize, has_bias: bool) -> Linear<'a> {
        let weight = self.matrix(outputs, inputs);
        Linear { weight, bias: has_bias.then(|| self.vector()), inputs, outputs }
    }

    fn take(&mut self) -> (Format, &'a [u8]) {
        self.next += 1;
        self.layout.tensor(self.next - 1, self.buffer)
    }
}

/// Names and shapes of a layer's tensors, collected in the order in which they will be cut.
pub(crate) struct TensorNames<'a> {
    pub(crate) checkpoint: &'a Checkpoint,
    pub(crate) prefix: String,
    pub(crate) tensors: Vec<TensorInfo>,
}

impl TensorNames<'_> {
    pub(crate) fn add(&mut self, name: &str, shape: &[usize]) -> Result<()> {
        let name = format!("{}{name}", self.prefix);
        let info = self.checkpoint.tensor(&name, shape)?;
        check_layout(self.checkpoint, info)?;
        self.tensors.push(info.clone());
        Ok(())
    }

    /// A matrix `[outputs, inputs]` and its bias, if it has one.
    pub(crate) fn linear(
        &mut self,
        name: &str,
        inputs: usize,
        outputs: usize,
        bias: bool,
    ) -> Result<()> {
        self.add(&format!("{name}.weight"), &[outputs, inputs])?;
        if bias { self.add(&format!("{name}.bias"), &[outputs]) } else { Ok(()) }
    }

    /// Several products as one matrix, whose `parts` are cut at these outputs and its bias, if it has one.
    ///
    /// # Errors
    /// As [`add`](Self::add), and a packed matrix whose parts can not be cut apart.
    pub(crate) fn fused<const N: usize>(
        &mut self,
        name: &str,
        inputs: usize,
        parts: [usize; N],
        bias: bool,
    ) -> Result<()> {
        self.linear(name, inputs, parts.iter().sum(), bias)?;
        let matrix = &self.tensors[self.tensors.len() - 1 - usize::from(bias)];
        let plain = matches!(matrix.format(), Format::Plain(_));
        if plain || parts.iter().all(|it| it.is_multiple_of(PACKED_ROWS)) {
            return Ok(());
        }
        Err(bad_layout(self.checkpoint, matrix))
    }
}

/// Outputs of a packed matrix that lie together: parts of it begin at a multiple of them.
const PACKED_ROWS: usize = 16;

fn bad_layout(checkpoint: &Checkpoint, info: &TensorInfo) -> crate::Error {
    crate::Error::BadLayout {
        dir: checkpoint.dir().to_path_buf(),
        tensor: info.name.clone(),
        format: info.format().name(),
        bytes: info.bytes(),
    }
}

/// Refuses what no product can read: packed matrices of another length than their shape takes, and tables.
fn check_layout(checkpoint: &Checkpoint, info: &TensorInfo) -> Result<()> {
    let expected = match (info.format(), &info.shape[..]) {
        (Format::Plain(_), _) => return Ok(()),
        (format, &[outputs, inputs]) => KernelLayout.packed_bytes(format, outputs, inputs),
        _ => None,
    };
    if expected.map(|it| it as u64) == Some(info.bytes()) {
        return Ok(());
    }
    Err(bad_layout(checkpoint, info))
}

/// Groups a checkpoint's tensors by layer; `names` lists those of one.
pub(crate) fn layered(
    checkpoint: &Checkpoint,
    num_layers: usize,
    prefix: &str,
    names: impl Fn(usize, &mut TensorNames<'_>) -> Result<()>,
) -> Result<LayeredCheckpoint> {
    let layers = (0..num_layers)
        .map(|layer| {
            let prefix = format!("{prefix}{layer}.");
            let mut list = TensorNames { checkpoint, prefix, tensors: Vec::new() };
            names(layer, &mut list)?;
            Ok(LayerLayout::new(list.tensors))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(LayeredCheckpoint::new(checkpoint.clone(), layers))
}

/// Reads a tensor that stays in memory.
pub(crate) fn read(checkpoint: &Checkpoint, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
    let info = checkpoint.tensor(name, shape)?;
    let mut values = vec![0.0; info.elements()];
    checkpoint.read_f32(info, &mut values)?;
    Ok(values)
}

/// Bytes of tensors that stay in memory.
pub(crate) fn bytes_of(tensors: &[&Vec<f32>]) -> u64 {
    let elements: usize = tensors.iter().map(|it| it.len()).sum();
    (elements * size_of::<f32>()) as u64
}
