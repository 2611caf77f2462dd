//! Layers put together of shards, as products read them.

use riddle_kernels::{DICT_ENTRIES, Int8Matrix, Matrix, int8_bytes, int8_sums, join};
use riddle_weights::{Fidelity, ShardMatrix, ShardNumbers, ShardShape};

use super::number::{Runs, ShardNumber};
use crate::{bert::LayerWeights, layer::Linear};

/// Bytes to which matrices and vectors of an assembled layer are aligned: a cache line.
const ALIGNMENT: usize = 64;

/// A shard of a layer.
#[derive(Debug, Clone, Copy)]
pub struct ShardBytes<'a> {
    /// Which slice of the layer.
    pub slice: usize,
    /// How exactly.
    pub fidelity: Fidelity,
    /// As the store has it.
    pub bytes: &'a [u8],
}

/// A layer put together of shards, and the memory for it: as large as the widest so far.
#[derive(Debug, Default)]
pub struct AssembledLayer {
    memory: Vec<u64>,
    start: usize,
    layout: Option<Layout>,
}

/// Where everything lies in an assembled layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    shape: ShardShape,
    /// Slices.
    width: usize,
}

impl Layout {
    /// Outputs and inputs of a matrix of so many slices.
    fn size(&self, matrix: ShardMatrix) -> (usize, usize) {
        let (outputs, inputs) = self.shape.part(matrix);
        if matrix.is_cut_by_outputs() {
            (outputs * self.width, inputs)
        } else {
            (outputs, inputs * self.width)
        }
    }

    fn matrix_bytes(&self, matrix: ShardMatrix) -> usize {
        let (outputs, inputs) = self.size(matrix);
        let bytes = match self.shape.numbers {
            ShardNumbers::Int8 => int8_bytes(outputs, inputs)
                .expect("shapes are checked when a model is opened: this is a bug"),
            ShardNumbers::F32 => outputs * inputs * size_of::<f32>(),
        };
        bytes.next_multiple_of(ALIGNMENT)
    }

    /// f32 of the biases of all matrices, and of gain and bias of both norms, each from a cache line on.
    fn vectors(&self) -> [usize; 10] {
        let outputs = ShardMatrix::ALL.map(|it| self.size(it).0);
        let hidden = self.shape.hidden;
        let [q, k, v, o, f, d] = outputs;
        [q, k, v, o, f, d, hidden, hidden, hidden, hidden]
    }

    fn bytes(&self) -> usize {
        let matrices: usize = ShardMatrix::ALL.iter().map(|it| self.matrix_bytes(*it)).sum();
        let vectors: usize = self.vectors().iter().map(|it| line(*it)).sum();
        matrices + vectors
    }
}

/// Bytes of so many f32 in whole cache lines.
fn line(numbers: usize) -> usize {
    (numbers * size_of::<f32>()).next_multiple_of(ALIGNMENT)
}

/// The small part of a layer, cut.
struct Small<'a> {
    shape: &'a ShardShape,
    numbers: &'a [u8],
    all: &'a [u8],
}

impl<'a> Small<'a> {
    fn new(shape: &'a ShardShape, all: &'a [u8]) -> Small<'a> {
        assert_eq!(all.len(), shape.small_bytes(), "not the small part of a layer");
        Small { shape, numbers: &all[..shape.small_numbers() * size_of::<f32>()], all }
    }

    fn outputs(&self, matrix: ShardMatrix) -> usize {
        let (outputs, _) = self.shape.part(matrix);
        if matrix.is_cut_by_outputs() { outputs * self.shape.slices } else { outputs }
    }

    /// Bytes of some vector: scales come first where there are any, then biases, then norms.
    fn vector(&self, before: usize, numbers: usize) -> &'a [u8] {
        &self.numbers[before * size_of::<f32>()..][..numbers * size_of::<f32>()]
    }

    /// Outputs of all matrices, or of those before one.
    fn before(&self, until: Option<ShardMatrix>) -> usize {
        let of = ShardMatrix::ALL.into_iter().take_while(|it| Some(*it) != until);
        of.map(|it| self.outputs(it)).sum()
    }

    fn scales(&self, matrix: ShardMatrix) -> &'a [u8] {
        self.vector(self.before(Some(matrix)), self.outputs(matrix))
    }

    /// Numbers of all scales.
    fn all_scales(&self) -> usize {
        if self.shape.numbers == ShardNumbers::Int8 { self.before(None) } else { 0 }
    }

    fn bias(&self, matrix: ShardMatrix) -> &'a [u8] {
        self.vector(self.all_scales() + self.before(Some(matrix)), self.outputs(matrix))
    }

    /// Gain and bias of the first and the second norm, in this order.
    fn norm(&self, number: usize) -> &'a [u8] {
        let hidden = self.shape.hidden;
        self.vector(self.all_scales() + self.before(None) + number * hidden, hidden)
    }

    /// A matrix's dictionary, if indexes of this fidelity have one.
    fn dictionary<T: ShardNumber>(
        &self,
        fidelity: Fidelity,
        matrix: ShardMatrix,
    ) -> Option<[T; DICT_ENTRIES]> {
        if !fidelity.is_dictionary() {
            return None;
        }
        let mut table = [T::zeroed(); DICT_ENTRIES];
        let raw = &self.all[self.shape.dictionary(fidelity, matrix)];
        bytemuck::cast_slice_mut(&mut table)[..raw.len()].copy_from_slice(raw);
        Some(table)
    }
}

impl AssembledLayer {
    /// Bytes of memory that it has taken.
    pub fn bytes(&self) -> u64 {
        size_of_val(self.memory.as_slice()) as u64
    }

    /// Bytes that a layer of `width` slices takes.
    pub fn bytes_of(shape: &ShardShape, width: usize) -> u64 {
        (Layout { shape: *shape, width }.bytes() + ALIGNMENT) as u64
    }

    /// Puts a layer together of its small part and shards of some slices, in any order and each once. Runs on the
    /// current pool's threads.
    ///
    /// # Panics
    /// When a shard is not as long as its fidelity says or its outliers lie outside it: the store checks both.
    pub fn assemble(&mut self, shape: &ShardShape, small: &[u8], shards: &[ShardBytes<'_>]) {
        let layout = Layout { shape: *shape, width: shards.len() };
        let bytes = layout.bytes();
        let words = (bytes + ALIGNMENT) / size_of::<u64>();
        if self.memory.len() < words {
            self.memory = vec![0; words];
        }
        let address = self.memory.as_ptr().addr();
        self.start = address.next_multiple_of(ALIGNMENT) - address;
        self.layout = Some(layout);
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut self.memory);
        let mut rest = &mut all[self.start..][..bytes];
        let mut take = |bytes: usize| {
            let (now, later) = std::mem::take(&mut rest).split_at_mut(bytes);
            rest = later;
            now
        };
        let matrices = ShardMatrix::ALL.map(|it| take(layout.matrix_bytes(it)));
        let vectors = layout.vectors().map(|it| take(line(it)));
        let small = Small::new(shape, small);
        let fill = |matrix, out: &mut [u8]| layout.fill(matrix, &small, shards, out);
        let [query, key, value, projection, intermediate, output] = matrices;
        // Two halves of the same size, and both of them two again.
        join(
            || {
                join(
                    || fill(ShardMatrix::Intermediate, intermediate),
                    || {
                        fill(ShardMatrix::Query, query);
                        fill(ShardMatrix::Key, key);
                    },
                )
            },
            || {
                join(
                    || fill(ShardMatrix::Output, output),
                    || {
                        fill(ShardMatrix::Value, value);
                        fill(ShardMatrix::AttentionOutput, projection);
                    },
                )
            },
        );
        let mut vectors = vectors.into_iter();
        for (matrix, out) in ShardMatrix::ALL.into_iter().zip(vectors.by_ref()) {
            layout.gather(matrix, small.bias(matrix), shards, out);
        }
        for (number, out) in vectors.enumerate() {
            let norm = small.norm(number);
            out[..norm.len()].copy_from_slice(norm);
        }
    }

    pub(super) fn weights(&self) -> LayerWeights<'_> {
        let layout = self.layout.expect("a layer is assembled before it is computed");
        let all: &[u8] = bytemuck::cast_slice(&self.memory);
        let mut rest = &all[self.start..][..layout.bytes()];
        let mut take = |bytes: usize| {
            let (now, later) = rest.split_at(bytes);
            rest = later;
            now
        };
        let matrices = ShardMatrix::ALL.map(|it| take(layout.matrix_bytes(it)));
        let vectors = layout.vectors().map(|numbers| {
            let raw = &take(line(numbers))[..numbers * size_of::<f32>()];
            bytemuck::cast_slice::<u8, f32>(raw)
        });
        let linear = |matrix: ShardMatrix| {
            let (outputs, inputs) = layout.size(matrix);
            let raw = matrices[matrix as usize];
            let weight = match layout.shape.numbers {
                ShardNumbers::Int8 => {
                    let bytes = int8_bytes(outputs, inputs).unwrap_or(0);
                    Int8Matrix::new(&raw[..bytes], outputs, inputs)
                        .map(Matrix::Int8)
                        .expect("assembled to this length from a cache line on: this is a bug")
                }
                ShardNumbers::F32 => {
                    let bytes = outputs * inputs * size_of::<f32>();
                    Matrix::F32(bytemuck::cast_slice(&raw[..bytes]))
                }
            };
            Linear { weight, bias: Some(vectors[matrix as usize]), inputs, outputs }
        };
        LayerWeights {
            query: linear(ShardMatrix::Query),
            key: linear(ShardMatrix::Key),
            value: linear(ShardMatrix::Value),
            attention_output: linear(ShardMatrix::AttentionOutput),
            attention_norm: (vectors[6], vectors[7]),
            intermediate: linear(ShardMatrix::Intermediate),
            output: linear(ShardMatrix::Output),
            output_norm: (vectors[8], vectors[9]),
        }
    }
}

impl Layout {
    /// A vector with a number for each output: of matrices that are cut by outputs those of the slices.
    fn gather(&self, matrix: ShardMatrix, from: &[u8], shards: &[ShardBytes<'_>], out: &mut [u8]) {
        if !matrix.is_cut_by_outputs() {
            out[..from.len()].copy_from_slice(from);
            return;
        }
        let bytes = self.shape.part(matrix).0 * size_of::<f32>();
        for (part, shard) in out.chunks_exact_mut(bytes).zip(shards) {
            part.copy_from_slice(&from[shard.slice * bytes..][..bytes]);
        }
    }

    /// A matrix as products read it.
    fn fill(
        &self,
        matrix: ShardMatrix,
        small: &Small<'_>,
        shards: &[ShardBytes<'_>],
        out: &mut [u8],
    ) {
        let (outputs, inputs) = self.size(matrix);
        if self.shape.numbers == ShardNumbers::F32 {
            let bytes = outputs * inputs * size_of::<f32>();
            let values: &mut [f32] = bytemuck::cast_slice_mut(&mut out[..bytes]);
            return self.widen_all(matrix, small, shards, values);
        }
        // Scales, sums and bytes.
        let vector = outputs * size_of::<f32>();
        let (scales, rest) = out.split_at_mut(vector);
        let (sums, rest) = rest.split_at_mut(vector);
        let blocks: &mut [i8] = bytemuck::cast_slice_mut(&mut rest[..outputs * inputs]);
        self.gather(matrix, small.scales(matrix), shards, scales);
        self.widen_all(matrix, small, shards, blocks);
        int8_sums(blocks, inputs, bytemuck::cast_slice_mut(sums));
    }

    fn widen_all<T: ShardNumber>(
        &self,
        matrix: ShardMatrix,
        small: &Small<'_>,
        shards: &[ShardBytes<'_>],
        out: &mut [T],
    ) {
        for (position, shard) in shards.iter().enumerate() {
            let table = small.dictionary(shard.fidelity, matrix);
            self.widen(matrix, position, shard, table.as_ref(), out);
        }
    }

    /// Widens a shard's part of a matrix to its place.
    fn widen<T: ShardNumber>(
        &self,
        matrix: ShardMatrix,
        position: usize,
        shard: &ShardBytes<'_>,
        table: Option<&[T; DICT_ENTRIES]>,
        out: &mut [T],
    ) {
        let shape = &self.shape;
        let place = shape.place(matrix);
        let (outputs, inputs) = shape.part(matrix);
        let all = outputs * inputs;
        let runs = if matrix.is_cut_by_outputs() {
            Runs { group: all, piece: all, stride: all }
        } else {
            T::runs(inputs, self.width)
        };
        let Runs { group, piece, stride } = runs;
        let first = position * piece;
        let (weights, outliers) = shard.bytes.split_at(shape.weight_bytes(shard.fidelity));
        let bits = table.map_or(8 * size_of::<T>(), |_| shard.fidelity.bits() as usize);
        let mut together = Vec::new();
        for number in 0..place.len() / group {
            let from = (place.start + number * group) * bits / 8;
            let raw = &weights[from..from + group * bits / 8];
            let start = first + number * (group / piece) * stride;
            if group == piece {
                widen_run(shard.fidelity, raw, table, &mut out[start..][..piece]);
                continue;
            }
            together.resize(group, T::zeroed());
            widen_run(shard.fidelity, raw, table, &mut together);
            for (number, part) in together.chunks_exact(piece).enumerate() {
                out[start + number * stride..][..piece].copy_from_slice(part);
            }
        }
        let outliers = outliers.chunks_exact(shape.numbers.outlier_bytes());
        // Ascending by their places.
        let own = outliers
            .map(T::read_outlier)
            .skip_while(|it| it.0 < place.start)
            .take_while(|it| it.0 < place.end);
        for (at, value) in own {
            let inside = at - place.start;
            out[first + inside / piece * stride + inside % piece] = value;
        }
    }
}

/// Weights that lie together, from their indexes or as they are.
fn widen_run<T: ShardNumber>(
    fidelity: Fidelity,
    raw: &[u8],
    table: Option<&[T; DICT_ENTRIES]>,
    out: &mut [T],
) {
    match table {
        Some(table) => T::unpack(fidelity.bits(), raw, table, out),
        None => bytemuck::cast_slice_mut::<T, u8>(out).copy_from_slice(raw),
    }
}
