//! A layer's weights as shards are made of them.

use riddle_kernels::{Int8Matrix, Q4Matrix, int8_bytes, pack_int8};
use riddle_weights::{Format, ShardMatrix, ShardShape};

use super::{importance::SliceOrder, number::ShardNumber};
use crate::{Bert, Result};

/// A matrix of bytes or numbers, row after row, and a scale for each; numbers have scales of 1.
#[derive(Debug)]
pub(super) struct Codes<T> {
    pub(super) codes: Vec<T>,
    pub(super) scales: Vec<f32>,
    pub(super) inputs: usize,
}

/// A layer's weights, in the order of [`ShardMatrix::ALL`], and its vectors.
#[derive(Debug)]
pub(super) struct LayerCodes<T> {
    pub(super) matrices: [Codes<T>; 6],
    pub(super) biases: [Vec<f32>; 6],
    /// Gain and bias of both norms.
    pub(super) norms: [Vec<f32>; 4],
    pub(super) heads: usize,
}

/// Where a layer's buffer has the weights of each matrix, the bias behind each, and the norms; see `bert.rs`.
const MATRIX_PLACES: [usize; 6] = [0, 2, 4, 6, 10, 12];
const NORM_PLACES: [usize; 4] = [8, 9, 14, 15];

impl<T: ShardNumber> Codes<T> {
    pub(super) fn outputs(&self) -> usize {
        self.scales.len()
    }

    /// Sums of the squares of each row's weights.
    pub(super) fn row_squares(&self) -> Vec<f64> {
        let squares = |(row, scale): (&[T], &f32)| {
            let sum: f64 = row.iter().map(|it| it.value().powi(2)).sum();
            sum * f64::from(*scale).powi(2)
        };
        self.codes.chunks_exact(self.inputs).zip(&self.scales).map(squares).collect()
    }

    /// Sums of the squares of each column's weights.
    pub(super) fn column_squares(&self) -> Vec<f64> {
        let mut squares = vec![0.0; self.inputs];
        for (row, scale) in self.codes.chunks_exact(self.inputs).zip(&self.scales) {
            for (square, code) in squares.iter_mut().zip(row) {
                *square += (code.value() * f64::from(*scale)).powi(2);
            }
        }
        squares
    }

    /// The rows of this order.
    fn rows(&self, order: &[usize]) -> Codes<T> {
        let row = |it: &usize| self.codes[it * self.inputs..][..self.inputs].iter().copied();
        Codes {
            codes: order.iter().flat_map(row).collect(),
            scales: order.iter().map(|it| self.scales[*it]).collect(),
            inputs: self.inputs,
        }
    }

    /// The columns of this order.
    fn columns(&self, order: &[usize]) -> Codes<T> {
        let row = |row: &[T]| order.iter().map(|it| row[*it]).collect::<Vec<_>>();
        Codes {
            codes: self.codes.chunks_exact(self.inputs).flat_map(row).collect(),
            scales: self.scales.clone(),
            inputs: self.inputs,
        }
    }

    /// Codes of some outputs and inputs in the order in which shards have them, and the scale of each.
    fn part(
        &self,
        outputs: std::ops::Range<usize>,
        inputs: std::ops::Range<usize>,
    ) -> impl Iterator<Item = (T, f32)> {
        T::places(outputs, inputs)
            .map(|(output, input)| (self.codes[output * self.inputs + input], self.scales[output]))
    }

    /// Least and largest of those that are inside.
    pub(super) fn range(&self, is_outlier: &impl Fn(T, f32) -> bool) -> (f64, f64) {
        let rows = self.codes.chunks_exact(self.inputs).zip(&self.scales);
        let inside = rows.flat_map(|(row, scale)| {
            row.iter().filter(|it| !is_outlier(**it, *scale)).map(|it| it.value())
        });
        inside.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), it| {
            (least.min(it), most.max(it))
        })
    }
}

impl<T: Cut> LayerCodes<T> {
    pub(super) fn value(&self) -> &Codes<T> {
        &self.matrices[ShardMatrix::Value as usize]
    }

    pub(super) fn projection(&self) -> &Codes<T> {
        &self.matrices[ShardMatrix::AttentionOutput as usize]
    }

    pub(super) fn intermediate(&self) -> &Codes<T> {
        &self.matrices[ShardMatrix::Intermediate as usize]
    }

    pub(super) fn output(&self) -> &Codes<T> {
        &self.matrices[ShardMatrix::Output as usize]
    }

    /// Reads a layer. For shards of bytes what is not of bytes becomes so, as a conversion of the whole model would
    /// make it; for shards of numbers everything is widened.
    pub(super) fn read(bert: &Bert, layer: usize, shape: &ShardShape) -> Result<LayerCodes<T>> {
        let layout = &bert.layers().layers()[layer];
        let mut memory = vec![0f32; layout.bytes().div_ceil(size_of::<f32>())];
        let buffer: &mut [u8] = bytemuck::cast_slice_mut(&mut memory);
        bert.layers().read_layer(layer, buffer)?;
        let vector = |place: usize| {
            let (_, raw) = layout.tensor(place, buffer);
            raw.as_chunks().0.iter().map(|it| f32::from_le_bytes(*it)).collect::<Vec<f32>>()
        };
        let matrix = |matrix: ShardMatrix| {
            let (part_outputs, part_inputs) = shape.part(matrix);
            let (outputs, inputs) = if matrix.is_cut_by_outputs() {
                (part_outputs * shape.slices, part_inputs)
            } else {
                (part_outputs, part_inputs * shape.slices)
            };
            let (format, raw) = layout.tensor(MATRIX_PLACES[matrix as usize], buffer);
            let read = Stored { format, raw, outputs, inputs };
            T::codes(&read)
        };
        Ok(LayerCodes {
            matrices: ShardMatrix::ALL.map(matrix),
            biases: MATRIX_PLACES.map(|it| vector(it + 1)),
            norms: NORM_PLACES.map(vector),
            heads: shape.slices,
        })
    }

    /// The same layer with heads and neurons in another order. What it computes is the same.
    pub(super) fn ordered(&self, order: &SliceOrder) -> LayerCodes<T> {
        let dim = self.value().outputs() / order.heads.len();
        let heads: Vec<usize> = order
            .heads
            .iter()
            .flat_map(|it| (0..dim).map(move |i| usize::from(*it) * dim + i))
            .collect();
        let neurons: Vec<usize> = order.neurons.iter().map(|it| *it as usize).collect();
        let of = |matrix: ShardMatrix| {
            let codes = &self.matrices[matrix as usize];
            match matrix {
                ShardMatrix::AttentionOutput => codes.columns(&heads),
                ShardMatrix::Output => codes.columns(&neurons),
                ShardMatrix::Intermediate => codes.rows(&neurons),
                _ => codes.rows(&heads),
            }
        };
        let bias = |matrix: ShardMatrix| {
            let bias = &self.biases[matrix as usize];
            let pick = |order: &[usize]| order.iter().map(|it| bias[*it]).collect();
            match matrix {
                ShardMatrix::AttentionOutput | ShardMatrix::Output => bias.clone(),
                ShardMatrix::Intermediate => pick(&neurons),
                _ => pick(&heads),
            }
        };
        LayerCodes {
            matrices: ShardMatrix::ALL.map(of),
            biases: ShardMatrix::ALL.map(bias),
            norms: self.norms.clone(),
            heads: self.heads,
        }
    }

    /// A slice's codes of a matrix, as a shard has them, with the scale of each.
    pub(super) fn slice(
        &self,
        shape: &ShardShape,
        matrix: ShardMatrix,
        slice: usize,
    ) -> impl Iterator<Item = (T, f32)> {
        let codes = &self.matrices[matrix as usize];
        let (outputs, inputs) = shape.part(matrix);
        if matrix.is_cut_by_outputs() {
            codes.part(slice * outputs..(slice + 1) * outputs, 0..inputs)
        } else {
            codes.part(0..outputs, slice * inputs..(slice + 1) * inputs)
        }
    }

    /// All weights, as they are multiplied.
    pub(super) fn weights(&self) -> impl Iterator<Item = f32> + Clone {
        self.matrices.iter().flat_map(|it| {
            it.codes
                .chunks_exact(it.inputs)
                .zip(&it.scales)
                .flat_map(|(row, scale)| row.iter().map(move |code| code.value() as f32 * scale))
        })
    }
}

/// A matrix as a model has it.
pub(super) struct Stored<'a> {
    format: Format,
    raw: &'a [u8],
    outputs: usize,
    pub(super) inputs: usize,
}

impl Stored<'_> {
    fn int8(&self) -> Int8Matrix<'_> {
        Int8Matrix::new(self.raw, self.outputs, self.inputs)
            .expect("lengths are checked when a model is opened: this is a bug")
    }

    /// All weights, row after row.
    fn widened(&self) -> Vec<f32> {
        let Stored { format, raw, outputs, inputs } = *self;
        match format {
            Format::Int8 => {
                let Codes { codes, scales, .. } = unpacked(&self.int8());
                let rows = codes.chunks_exact(inputs).zip(&scales);
                rows.flat_map(|(row, scale)| row.iter().map(|it| f32::from(*it) * *scale)).collect()
            }
            Format::Q4 => {
                let matrix = Q4Matrix::new(raw, outputs, inputs)
                    .expect("lengths are checked when a model is opened: this is a bug");
                (0..outputs * inputs).map(|it| matrix.get(it / inputs, it % inputs)).collect()
            }
            Format::Plain(_) | Format::Rows => {
                let mut values = vec![0.0; outputs * inputs];
                let bytes = format.row_bytes(inputs).unwrap_or(raw.len() / outputs);
                for (raw, row) in raw.chunks_exact(bytes).zip(values.chunks_exact_mut(inputs)) {
                    format.widen_row(raw, row);
                }
                values
            }
        }
    }
}

/// Weights of which shards can be made.
pub(super) trait Cut: ShardNumber {
    /// A matrix as these.
    fn codes(stored: &Stored<'_>) -> Codes<Self>;
}

impl Cut for i8 {
    fn codes(stored: &Stored<'_>) -> Codes<i8> {
        if stored.format == Format::Int8 {
            return unpacked(&stored.int8());
        }
        let Stored { outputs, inputs, .. } = *stored;
        let bytes = int8_bytes(outputs, inputs).expect("shapes are checked: this is a bug");
        let mut memory = vec![0f32; bytes.div_ceil(size_of::<f32>())];
        let room = &mut bytemuck::cast_slice_mut(&mut memory)[..bytes];
        pack_int8(&stored.widened(), outputs, inputs, room)
            .expect("as long as it says: this is a bug");
        let matrix = Int8Matrix::new(room, outputs, inputs).expect("just packed: this is a bug");
        unpacked(&matrix)
    }
}

impl Cut for f32 {
    fn codes(stored: &Stored<'_>) -> Codes<f32> {
        Codes { codes: stored.widened(), scales: vec![1.0; stored.outputs], inputs: stored.inputs }
    }
}

fn unpacked(matrix: &Int8Matrix<'_>) -> Codes<i8> {
    let (outputs, inputs) = (matrix.outputs(), matrix.inputs());
    let mut codes = vec![0; outputs * inputs];
    for (block, rows) in
        matrix.blocks().chunks_exact(16 * inputs).zip(codes.chunks_exact_mut(16 * inputs))
    {
        for (quad, bytes) in block.chunks_exact(64).enumerate() {
            for (output, bytes) in bytes.chunks_exact(4).enumerate() {
                rows[output * inputs + 4 * quad..][..4].copy_from_slice(bytes);
            }
        }
    }
    Codes { codes, scales: matrix.scales()[..outputs].to_vec(), inputs }
}
