//! Making shards of a model.

use std::path::Path;

use riddle_kernels::{Int8Matrix, Q4Matrix, int8_bytes, pack_indexes, pack_int8};
use riddle_weights::{
    Centroids, Fidelity, Format, ShardMatrix, ShardShape, ShardSummary, ShardWriter, dictionary,
    outlier_bounds,
};

use super::{check_family, check_tensors, importance::SliceOrder, shard_shape};
use crate::{Bert, Error, OpenOptions, Result};

/// Most outliers, as a share of the weights: at four bytes each they are an eighth of a shard of two bits' weights if
/// one in 250 is one, and the paper's models had one in 650.
const MOST_OUTLIERS: f64 = 0.002;

/// Codes of the int8 layout: 255 of them.
const CODES: usize = 256;

/// A matrix of bytes, row after row, and a scale for each.
#[derive(Debug)]
struct Codes {
    codes: Vec<i8>,
    scales: Vec<f32>,
    inputs: usize,
}

/// A layer's weights, as bytes with scales, in the order of [`ShardMatrix::ALL`], and its vectors.
#[derive(Debug)]
pub struct LayerCodes {
    matrices: [Codes; 6],
    biases: [Vec<f32>; 6],
    /// Gain and bias of both norms.
    norms: [Vec<f32>; 4],
    heads: usize,
}

/// Where a layer's buffer has the weights of each matrix, the bias behind each, and the norms; see `bert.rs`.
const MATRIX_PLACES: [usize; 6] = [0, 2, 4, 6, 10, 12];
const NORM_PLACES: [usize; 4] = [8, 9, 14, 15];

impl Codes {
    fn outputs(&self) -> usize {
        self.scales.len()
    }

    /// Sums of the squares of each row's weights.
    fn row_squares(&self) -> Vec<f64> {
        let squares = |(row, scale): (&[i8], &f32)| {
            let sum: f64 = row.iter().map(|it| f64::from(*it).powi(2)).sum();
            sum * f64::from(*scale).powi(2)
        };
        self.codes.chunks_exact(self.inputs).zip(&self.scales).map(squares).collect()
    }

    /// Sums of the squares of each column's weights.
    fn column_squares(&self) -> Vec<f64> {
        let mut squares = vec![0.0; self.inputs];
        for (row, scale) in self.codes.chunks_exact(self.inputs).zip(&self.scales) {
            for (square, code) in squares.iter_mut().zip(row) {
                *square += (f64::from(*code) * f64::from(*scale)).powi(2);
            }
        }
        squares
    }

    /// The rows of this order.
    fn rows(&self, order: &[usize]) -> Codes {
        let row = |it: &usize| self.codes[it * self.inputs..][..self.inputs].iter().copied();
        Codes {
            codes: order.iter().flat_map(row).collect(),
            scales: order.iter().map(|it| self.scales[*it]).collect(),
            inputs: self.inputs,
        }
    }

    /// The columns of this order.
    fn columns(&self, order: &[usize]) -> Codes {
        let row = |row: &[i8]| order.iter().map(|it| row[*it]).collect::<Vec<_>>();
        Codes {
            codes: self.codes.chunks_exact(self.inputs).flat_map(row).collect(),
            scales: self.scales.clone(),
            inputs: self.inputs,
        }
    }

    /// Codes of some outputs and inputs in the order of the int8 layout, `[outputs / 16][inputs / 4][16][4]`, and the
    /// scale of each.
    fn blocks(
        &self,
        outputs: std::ops::Range<usize>,
        inputs: std::ops::Range<usize>,
    ) -> impl Iterator<Item = (i8, f32)> {
        let blocks = outputs.step_by(16);
        blocks.flat_map(move |block| {
            inputs.clone().step_by(4).flat_map(move |quad| {
                (block..block + 16).flat_map(move |output| {
                    (quad..quad + 4).map(move |input| {
                        (self.codes[output * self.inputs + input], self.scales[output])
                    })
                })
            })
        })
    }
}

impl LayerCodes {
    /// Heads.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// The order in which the model has them: of one that was trained to be read in part.
    pub fn own_order(&self) -> SliceOrder {
        SliceOrder::unchanged(self.heads, self.intermediate().outputs())
    }

    fn value(&self) -> &Codes {
        &self.matrices[ShardMatrix::Value as usize]
    }

    fn projection(&self) -> &Codes {
        &self.matrices[ShardMatrix::AttentionOutput as usize]
    }

    fn intermediate(&self) -> &Codes {
        &self.matrices[ShardMatrix::Intermediate as usize]
    }

    fn output(&self) -> &Codes {
        &self.matrices[ShardMatrix::Output as usize]
    }

    /// Reads a layer; what is not of bytes becomes so, as a conversion of the whole model would make it.
    fn read(bert: &Bert, layer: usize, shape: &ShardShape) -> Result<LayerCodes> {
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
            codes(format, raw, outputs, inputs)
        };
        Ok(LayerCodes {
            matrices: ShardMatrix::ALL.map(matrix),
            biases: MATRIX_PLACES.map(|it| vector(it + 1)),
            norms: NORM_PLACES.map(vector),
            heads: shape.slices,
        })
    }

    /// The same layer with heads and neurons in another order. What it computes is the same.
    fn ordered(&self, order: &SliceOrder) -> LayerCodes {
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
    fn slice(
        &self,
        shape: &ShardShape,
        matrix: ShardMatrix,
        slice: usize,
    ) -> impl Iterator<Item = (i8, f32)> {
        let codes = &self.matrices[matrix as usize];
        let (outputs, inputs) = shape.part(matrix);
        if matrix.is_cut_by_outputs() {
            codes.blocks(slice * outputs..(slice + 1) * outputs, 0..inputs)
        } else {
            codes.blocks(0..outputs, slice * inputs..(slice + 1) * inputs)
        }
    }

    /// All weights, as they are multiplied.
    fn weights(&self) -> impl Iterator<Item = f32> + Clone {
        self.matrices.iter().flat_map(|it| {
            it.codes
                .chunks_exact(it.inputs)
                .zip(&it.scales)
                .flat_map(|(row, scale)| row.iter().map(move |code| f32::from(*code) * scale))
        })
    }
}

/// The order by magnitude, which needs no data: a head counts as much as what it reads times what it adds, its values'
/// norm times that of their projection; a neuron the same.
pub fn magnitude_order(layer: &LayerCodes) -> SliceOrder {
    let heads = layer.heads();
    let dim = layer.value().outputs() / heads.max(1);
    let (value, projection) = (layer.value().row_squares(), layer.projection().column_squares());
    let of_head = |head: usize| {
        let own = head * dim..(head + 1) * dim;
        value[own.clone()].iter().sum::<f64>() * projection[own].iter().sum::<f64>()
    };
    let (up, down) = (layer.intermediate().row_squares(), layer.output().column_squares());
    let neurons: Vec<f64> = up.iter().zip(&down).map(|(a, b)| a * b).collect();
    let heads: Vec<f64> = (0..heads).map(of_head).collect();
    SliceOrder {
        heads: descending(&heads).into_iter().map(|it| it as u16).collect(),
        neurons: descending(&neurons).into_iter().map(|it| it as u32).collect(),
    }
}

/// Places of numbers, the largest first; equal ones in their order.
fn descending(numbers: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|a, b| numbers[*b].total_cmp(&numbers[*a]));
    order
}

/// A matrix of any format that models have, as bytes.
fn codes(format: Format, raw: &[u8], outputs: usize, inputs: usize) -> Codes {
    let packed = |values: &[f32]| {
        let bytes = int8_bytes(outputs, inputs).expect("shapes are checked: this is a bug");
        let mut memory = vec![0f32; bytes.div_ceil(size_of::<f32>())];
        let room = &mut bytemuck::cast_slice_mut(&mut memory)[..bytes];
        pack_int8(values, outputs, inputs, room).expect("as long as it says: this is a bug");
        let matrix = Int8Matrix::new(room, outputs, inputs).expect("just packed: this is a bug");
        unpacked(&matrix)
    };
    match format {
        Format::Int8 => {
            let matrix = Int8Matrix::new(raw, outputs, inputs);
            unpacked(&matrix.expect("lengths are checked when a model is opened: this is a bug"))
        }
        Format::Q4 => {
            let matrix = Q4Matrix::new(raw, outputs, inputs)
                .expect("lengths are checked when a model is opened: this is a bug");
            let all = 0..outputs * inputs;
            packed(&all.map(|it| matrix.get(it / inputs, it % inputs)).collect::<Vec<_>>())
        }
        Format::Plain(_) | Format::Rows => {
            let mut values = vec![0.0; outputs * inputs];
            let bytes = format.row_bytes(inputs).unwrap_or(raw.len() / outputs);
            for (raw, row) in raw.chunks_exact(bytes).zip(values.chunks_exact_mut(inputs)) {
                format.widen_row(raw, row);
            }
            packed(&values)
        }
    }
}

fn unpacked(matrix: &Int8Matrix<'_>) -> Codes {
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

/// Makes the shards of a model: `path` gets the file, `source` is what the model is called; `order` puts a layer's
/// heads and neurons in order, given its number and its weights. `progress` sees the layers that are done.
///
/// # Errors
/// A model that can not be cut, or files that can not be read or written.
pub fn write_shards(
    dir: &Path,
    path: &Path,
    source: &str,
    centroids: Centroids,
    order: &mut dyn FnMut(usize, &LayerCodes) -> SliceOrder,
    progress: &mut dyn FnMut(usize),
) -> Result<ShardSummary> {
    let not = |why: String| Error::NotElastic { dir: dir.to_path_buf(), why };
    check_family(dir)?;
    let bert = Bert::with_checkpoint(dir, OpenOptions::default().checkpoint(dir)?)?;
    check_tensors(dir, &bert)?;
    let shape = shard_shape(&bert);
    shape.check().map_err(not)?;
    let mut writer = ShardWriter::create(path, shape, source, centroids)?;
    let mut shards = Vec::with_capacity(shape.layers);
    for layer in 0..shape.layers {
        let codes = LayerCodes::read(&bert, layer, &shape)?;
        let order = order(layer, &codes);
        assert!(order.is_whole(shape.slices, shape.inner), "an order has everything once");
        let made = Made::of(&codes.ordered(&order), &shape, centroids);
        writer.small(&made.small, order.heads)?;
        shards.push(made.shards);
        progress(layer + 1);
    }
    for shard in shards.iter().flatten() {
        writer.shard(shard)?;
    }
    Ok(writer.finish()?)
}

/// A layer as it is written.
struct Made {
    small: Vec<u8>,
    /// By fidelity and slice.
    shards: Vec<Vec<u8>>,
}

impl Made {
    fn of(layer: &LayerCodes, shape: &ShardShape, centroids: Centroids) -> Made {
        let most = match centroids {
            Centroids::EqualPopulation => 1.0,
            Centroids::Lloyd => MOST_OUTLIERS,
        };
        let (mean, distance) = outlier_bounds(layer.weights(), most);
        let is_outlier =
            |code: i8, scale: f32| (f64::from(code) * f64::from(scale) - mean).abs() > distance;
        let mut small = Vec::with_capacity(shape.small_bytes());
        let scales = layer.matrices.iter().flat_map(|it| &it.scales);
        let vectors = layer.biases.iter().chain(&layer.norms).flatten();
        small.extend(scales.chain(vectors).flat_map(|it| it.to_le_bytes()));
        let tables: Vec<_> = Fidelity::DICTIONARIES
            .iter()
            .map(|it| tables(layer, it.bits(), centroids, &is_outlier))
            .collect();
        for tables in &tables {
            small.extend(
                tables.iter().flat_map(|it| it.entries.iter().map(|it| it.cast_unsigned())),
            );
        }
        let mut shards = Vec::new();
        for (number, fidelity) in shape.fidelities().enumerate() {
            for slice in 0..shape.slices {
                let tables = tables.get(number).map(Vec::as_slice);
                shards.push(shard(layer, shape, slice, fidelity, tables, &is_outlier));
            }
        }
        Made { small, shards }
    }
}

/// Entries of a dictionary, and the index of each code's, counted from −128.
struct Table {
    entries: Vec<i8>,
    index: Vec<u8>,
}

/// A dictionary for each matrix (refined), or the same for all (as the paper's).
fn tables(
    layer: &LayerCodes,
    bits: u32,
    centroids: Centroids,
    is_outlier: &impl Fn(i8, f32) -> bool,
) -> Vec<Table> {
    let values: Vec<f64> = (0..CODES).map(|it| it as f64 - 128.0).collect();
    let histogram = |matrices: &[Codes]| {
        let mut counts = vec![0.0; CODES];
        for matrix in matrices {
            for (row, scale) in matrix.codes.chunks_exact(matrix.inputs).zip(&matrix.scales) {
                // An error counts as it is multiplied: by the square of its output's scale.
                let weight = match centroids {
                    Centroids::EqualPopulation => 1.0,
                    Centroids::Lloyd => f64::from(*scale).powi(2),
                };
                for code in row.iter().filter(|it| !is_outlier(**it, *scale)) {
                    counts[(i32::from(*code) + 128) as usize] += weight;
                }
            }
        }
        counts
    };
    let table = |counts: Vec<f64>| {
        let made = dictionary(&values, &counts, bits, centroids);
        let round = |it: &f64| it.round().clamp(-127.0, 127.0) as i8;
        Table { entries: made.entries.iter().map(round).collect(), index: made.index }
    };
    match centroids {
        Centroids::Lloyd => {
            layer.matrices.iter().map(|it| table(histogram(std::slice::from_ref(it)))).collect()
        }
        Centroids::EqualPopulation => {
            let counts = histogram(&layer.matrices);
            layer.matrices.iter().map(|_| table(counts.clone())).collect()
        }
    }
}

fn shard(
    layer: &LayerCodes,
    shape: &ShardShape,
    slice: usize,
    fidelity: Fidelity,
    tables: Option<&[Table]>,
    is_outlier: &impl Fn(i8, f32) -> bool,
) -> Vec<u8> {
    let mut raw = Vec::with_capacity(shape.shard_bytes(fidelity, 0));
    let Some(tables) = tables else {
        for matrix in ShardMatrix::ALL {
            raw.extend(layer.slice(shape, matrix, slice).map(|it| it.0.cast_unsigned()));
        }
        return raw;
    };
    let mut outliers: Vec<u8> = Vec::new();
    let mut count = 0;
    for (matrix, table) in ShardMatrix::ALL.into_iter().zip(tables) {
        let start = shape.place(matrix).start;
        let mut indexes = Vec::with_capacity(shape.place(matrix).len());
        for (place, (code, scale)) in layer.slice(shape, matrix, slice).enumerate() {
            let index = table.index[(i32::from(code) + 128) as usize];
            let entry = table.entries[usize::from(index)];
            // One that the dictionary has exactly needs no place of its own.
            if is_outlier(code, scale) && entry != code && count < shape.most_outliers() {
                let word = ((start + place) as u32) << 8 | u32::from(code.cast_unsigned());
                outliers.extend_from_slice(&word.to_le_bytes());
                count += 1;
            }
            indexes.push(index);
        }
        pack_indexes(fidelity.bits(), &indexes, &mut raw);
    }
    raw.extend(outliers);
    raw
}
