//! Making shards of a model.

use std::path::Path;

use riddle_kernels::pack_indexes;
use riddle_weights::{
    Centroids, Fidelity, ShardMatrix, ShardNumbers, ShardShape, ShardSummary, ShardWriter,
    dictionary, outlier_bounds,
};

use super::{
    check_family, check_tensors,
    codes::{Codes, Cut, LayerCodes},
    importance::SliceOrder,
    number::Bins,
    shard_shape,
};
use crate::{Bert, Error, OpenOptions, Result};

/// Most outliers, as a share of the weights: at four bytes each they are an eighth of a shard of two bits' weights if
/// one in 250 is one, and the paper's models had one in 650.
const MOST_OUTLIERS: f64 = 0.002;

/// Which heads and neurons come first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SliceOrdering {
    /// As the model has them: of one that was trained to be read in part.
    Own,
    /// By magnitude, which needs no data: a head counts as much as what it reads times what it adds, its values' norm
    /// times that of their projection; a neuron the same.
    #[default]
    Magnitude,
}

fn magnitude_order<T: Cut>(layer: &LayerCodes<T>) -> SliceOrder {
    let heads = layer.heads;
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

/// Makes the shards of a model, of bytes or of numbers: `path` gets the file, `source` is what the model is called.
/// `progress` sees the layers that are done.
///
/// # Errors
/// A model that can not be cut, or files that can not be read or written.
pub fn write_shards(
    dir: &Path,
    (path, source): (&Path, &str),
    numbers: ShardNumbers,
    centroids: Centroids,
    order: SliceOrdering,
    progress: &mut dyn FnMut(usize),
) -> Result<ShardSummary> {
    let not = |why: String| Error::NotElastic { dir: dir.to_path_buf(), why };
    check_family(dir)?;
    let bert = Bert::with_checkpoint(dir, OpenOptions::default().checkpoint(dir)?)?;
    check_tensors(dir, &bert)?;
    let shape = shard_shape(&bert, numbers);
    shape.check().map_err(not)?;
    let mut writer = ShardWriter::create(path, shape, source, centroids)?;
    let mut shards = Vec::with_capacity(shape.layers);
    for layer in 0..shape.layers {
        let (made, heads) = match numbers {
            ShardNumbers::Int8 => cut::<i8>(&bert, layer, &shape, centroids, order)?,
            ShardNumbers::F32 => cut::<f32>(&bert, layer, &shape, centroids, order)?,
        };
        writer.small(&made.small, heads)?;
        shards.push(made.shards);
        progress(layer + 1);
    }
    for shard in shards.iter().flatten() {
        writer.shard(shard)?;
    }
    Ok(writer.finish()?)
}

/// A layer in shards, and the model's numbers of its heads in their order.
fn cut<T: Cut>(
    bert: &Bert,
    layer: usize,
    shape: &ShardShape,
    centroids: Centroids,
    order: SliceOrdering,
) -> Result<(Made, Vec<u16>)> {
    let codes = LayerCodes::<T>::read(bert, layer, shape)?;
    let order = match order {
        SliceOrdering::Own => SliceOrder::unchanged(shape.slices, shape.inner),
        SliceOrdering::Magnitude => magnitude_order(&codes),
    };
    assert!(order.is_whole(shape.slices, shape.inner), "an order has everything once");
    Ok((Made::of(&codes.ordered(&order), shape, centroids), order.heads))
}

/// A layer as it is written.
struct Made {
    small: Vec<u8>,
    /// By fidelity and slice.
    shards: Vec<Vec<u8>>,
}

impl Made {
    fn of<T: Cut>(layer: &LayerCodes<T>, shape: &ShardShape, centroids: Centroids) -> Made {
        let most = match centroids {
            Centroids::EqualPopulation => 1.0,
            Centroids::Lloyd => MOST_OUTLIERS,
        };
        let (mean, distance) = outlier_bounds(layer.weights(), most);
        let is_outlier =
            |code: T, scale: f32| (code.value() * f64::from(scale) - mean).abs() > distance;
        let mut small = Vec::with_capacity(shape.small_bytes());
        // Numbers are as they are.
        let scaled = &layer.matrices[..if T::NUMBERS == ShardNumbers::Int8 { 6 } else { 0 }];
        let scales = scaled.iter().flat_map(|it| &it.scales);
        let vectors = layer.biases.iter().chain(&layer.norms).flatten();
        small.extend(scales.chain(vectors).flat_map(|it| it.to_le_bytes()));
        let tables: Vec<_> = Fidelity::DICTIONARIES
            .iter()
            .map(|it| tables(layer, it.bits(), centroids, &is_outlier))
            .collect();
        for tables in &tables {
            for table in tables {
                small.extend_from_slice(bytemuck::cast_slice(&table.entries));
            }
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

/// Entries of a dictionary, and the index of each bin's.
#[derive(Clone)]
struct Table<T> {
    entries: Vec<T>,
    bins: Bins,
    index: Vec<u8>,
}

impl<T: Cut> Table<T> {
    /// Of some matrices together.
    fn of(
        matrices: &[Codes<T>],
        bits: u32,
        centroids: Centroids,
        is_outlier: &impl Fn(T, f32) -> bool,
    ) -> Table<T> {
        let ranges = matrices.iter().map(|it| it.range(is_outlier));
        let (least, most) = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or_default();
        let bins = T::bins(least, most);
        let mut counts = vec![0.0; bins.values.len()];
        for matrix in matrices {
            for (row, scale) in matrix.codes.chunks_exact(matrix.inputs).zip(&matrix.scales) {
                // An error counts as it is multiplied: by the square of its output's scale.
                let weight = match centroids {
                    Centroids::EqualPopulation => 1.0,
                    Centroids::Lloyd => f64::from(*scale).powi(2),
                };
                for code in row.iter().filter(|it| !is_outlier(**it, *scale)) {
                    counts[bins.place(code.value())] += weight;
                }
            }
        }
        let made = dictionary(&bins.values, &counts, bits, centroids);
        let entries = made.entries.iter().map(|it| T::nearest(*it)).collect();
        Table { entries, bins, index: made.index }
    }

    fn index(&self, code: T) -> u8 {
        self.index[self.bins.place(code.value())]
    }
}

/// A dictionary for each matrix (refined), or the same for all (as the paper's).
fn tables<T: Cut>(
    layer: &LayerCodes<T>,
    bits: u32,
    centroids: Centroids,
    is_outlier: &impl Fn(T, f32) -> bool,
) -> Vec<Table<T>> {
    let together = match centroids {
        Centroids::Lloyd => 1,
        Centroids::EqualPopulation => layer.matrices.len(),
    };
    let groups = layer.matrices.chunks(together);
    let made = groups.map(|it| Table::of(it, bits, centroids, is_outlier));
    made.flat_map(|it| std::iter::repeat_n(it, together)).collect()
}

fn shard<T: Cut>(
    layer: &LayerCodes<T>,
    shape: &ShardShape,
    slice: usize,
    fidelity: Fidelity,
    tables: Option<&[Table<T>]>,
    is_outlier: &impl Fn(T, f32) -> bool,
) -> Vec<u8> {
    let mut raw = Vec::with_capacity(shape.shard_bytes(fidelity, 0));
    let Some(tables) = tables else {
        for matrix in ShardMatrix::ALL {
            for (code, _) in layer.slice(shape, matrix, slice) {
                raw.extend_from_slice(bytemuck::bytes_of(&code));
            }
        }
        return raw;
    };
    let mut outliers: Vec<u8> = Vec::new();
    let mut count = 0;
    for (matrix, table) in ShardMatrix::ALL.into_iter().zip(tables) {
        let start = shape.place(matrix).start;
        let mut indexes = Vec::with_capacity(shape.place(matrix).len());
        for (place, (code, scale)) in layer.slice(shape, matrix, slice).enumerate() {
            let index = table.index(code);
            let entry = table.entries[usize::from(index)];
            // One that the dictionary has exactly needs no place of its own.
            if is_outlier(code, scale) && entry != code && count < shape.most_outliers() {
                code.write_outlier(start + place, &mut outliers);
                count += 1;
            }
            indexes.push(index);
        }
        pack_indexes(fidelity.bits(), &indexes, &mut raw);
    }
    raw.extend(outliers);
    raw
}
