//! Submodels of a BERT: some slices of each layer, put together from shards of any fidelity (STI, §4.2 and §5.5).
//!
//! A slice is a head and its share of the neurons. A layer of m slices has the same inputs and outputs as the whole
//! one, so that layers of any width follow each other. Shards are widened straight into the int8 layout that products
//! read: of a matrix that is cut by outputs a slice is one run of it, of one that is cut by inputs a run of every block
//! of 16 outputs. All slices at eight bits are the weights that they were made from, in another order of heads and
//! neurons, and scores are the same bits: sums of products of bytes are exact.
//!
//! An output's scale is that of the whole model, whatever was read: rows of two matrices run through all slices, and
//! their numbers must be of one unit.

mod importance;
mod make;

use std::path::Path;

use riddle_kernels::{
    DICT_ENTRIES, Int8Matrix, Matrix, PanelUse, Precision, int8_bytes, int8_sums, join,
    unpack_bytes,
};
use riddle_weights::{BertFamily, Checkpoint, Fidelity, ShardMatrix, ShardNumbers, ShardShape};

pub use importance::SliceOrder;
pub use make::{LayerCodes, magnitude_order, write_shards};

use crate::{
    Bert, BertCrossEncoder, CrossEncoder, Error, LateInteraction, OpenOptions, Result, Scratch,
    ScratchShape, Span, TextEncoder as _, bert::LayerWeights, layer::Linear,
};

/// Bytes to which matrices and vectors of an assembled layer are aligned: a cache line.
const ALIGNMENT: usize = 64;

/// A cross-encoder whose layers come as shards.
#[derive(Debug)]
pub struct ElasticEncoder {
    encoder: BertCrossEncoder,
    shape: ShardShape,
}

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

impl ElasticEncoder {
    /// Opens a model directory: reads configuration, headers and the small tensors, no layer.
    ///
    /// # Errors
    /// As [`open_cross_encoder`](crate::open_cross_encoder), and [`Error::NotElastic`] for models that can not be cut
    /// into slices.
    pub fn open(dir: &Path, options: OpenOptions) -> Result<ElasticEncoder> {
        check_family(dir)?;
        let bert = Bert::with_checkpoint(dir, options.checkpoint(dir)?)?;
        check_tensors(dir, &bert)?;
        let shape = shard_shape(&bert);
        shape.check().map_err(|why| not_elastic(dir, why))?;
        Ok(ElasticEncoder { encoder: BertCrossEncoder::new(bert)?, shape })
    }

    /// How its layers are cut.
    pub fn shape(&self) -> &ShardShape {
        &self.shape
    }

    /// The network: everything but its layers.
    pub fn network(&self) -> &dyn CrossEncoder {
        &self.encoder
    }

    /// The network, to be completed by a tokenizer.
    pub fn network_mut(&mut self) -> &mut dyn CrossEncoder {
        &mut self.encoder
    }

    /// The weights on disk.
    pub fn checkpoint(&self) -> &Checkpoint {
        self.encoder.checkpoint()
    }

    /// Memory that a layer of any width needs.
    pub fn scratch_shape(&self) -> ScratchShape {
        ScratchShape { panel_use: PanelUse::Packed, ..self.encoder.scratch_shape() }
    }

    /// A layer that was [assembled](AssembledLayer::assemble), over a ragged micro-batch, in place; as
    /// [`CrossEncoder::layer`].
    pub fn layer(
        &self,
        weights: &AssembledLayer,
        span: Span<'_>,
        hidden: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let weights = weights.weights();
        // Products of bytes have fewer digits than bf16, as for a whole model of bytes.
        let precision = Precision::Bf16;
        let bert = self.encoder.bert();
        bert.layer_of(&weights, precision, &span, hidden, scratch);
    }
}

fn not_elastic(dir: &Path, why: String) -> Error {
    Error::NotElastic { dir: dir.to_path_buf(), why }
}

/// Refuses models whose layers are none of BERT's, or that compute more than pairs.
pub(super) fn check_family(dir: &Path) -> Result<()> {
    let family = riddle_weights::model_type(dir)?;
    if !matches!(family.as_str(), "bert" | "xlm-roberta") {
        let why = format!("its family is {family:?}, and shards are made of BERT's layers");
        return Err(not_elastic(dir, why));
    }
    if LateInteraction::is_in(dir)? {
        let why = "it reads queries and texts apart, and a deadline is planned for pairs";
        return Err(not_elastic(dir, why.to_owned()));
    }
    Ok(())
}

/// Refuses models whose matrices are not where a shard's are looked for.
pub(super) fn check_tensors(dir: &Path, bert: &Bert) -> Result<()> {
    if bert.is_fused() {
        let why = "its queries, keys and values are one matrix";
        return Err(not_elastic(dir, why.to_owned()));
    }
    Ok(())
}

/// How a model would be cut, if it can be.
pub(super) fn shard_shape(bert: &Bert) -> ShardShape {
    let config = bert.config();
    debug_assert!(matches!(config.family, BertFamily::Bert | BertFamily::XlmRoberta));
    ShardShape {
        numbers: ShardNumbers::Int8,
        layers: config.num_hidden_layers,
        slices: config.num_attention_heads,
        hidden: config.hidden_size,
        inner: config.intermediate_size,
    }
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
        int8_bytes(outputs, inputs)
            .expect("shapes are checked when a model is opened: this is a bug")
            .next_multiple_of(ALIGNMENT)
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

    /// Bytes of some vector: scales come first, then biases, then norms.
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

    fn bias(&self, matrix: ShardMatrix) -> &'a [u8] {
        let scales = self.before(None);
        self.vector(scales + self.before(Some(matrix)), self.outputs(matrix))
    }

    /// Gain and bias of the first and the second norm, in this order.
    fn norm(&self, number: usize) -> &'a [u8] {
        let hidden = self.shape.hidden;
        self.vector(2 * self.before(None) + number * hidden, hidden)
    }

    fn dictionary(&self, fidelity: Fidelity, matrix: ShardMatrix) -> [i8; DICT_ENTRIES] {
        let mut table = [0; DICT_ENTRIES];
        let bytes = &self.all[self.shape.dictionary(fidelity, matrix)];
        for (entry, byte) in table.iter_mut().zip(bytes) {
            *entry = byte.cast_signed();
        }
        table
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

    fn weights(&self) -> LayerWeights<'_> {
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
            let bytes = int8_bytes(outputs, inputs).unwrap_or(0);
            let raw = &matrices[matrix as usize][..bytes];
            let weight = Int8Matrix::new(raw, outputs, inputs)
                .map(Matrix::Int8)
                .expect("assembled to this length from a cache line on: this is a bug");
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

    /// Scales, sums and bytes of a matrix.
    fn fill(
        &self,
        matrix: ShardMatrix,
        small: &Small<'_>,
        shards: &[ShardBytes<'_>],
        out: &mut [u8],
    ) {
        let (outputs, inputs) = self.size(matrix);
        let vector = outputs * size_of::<f32>();
        let (scales, rest) = out.split_at_mut(vector);
        let (sums, rest) = rest.split_at_mut(vector);
        let blocks: &mut [i8] = bytemuck::cast_slice_mut(&mut rest[..outputs * inputs]);
        self.gather(matrix, small.scales(matrix), shards, scales);
        for (position, shard) in shards.iter().enumerate() {
            let table = small.dictionary_of(shard.fidelity, matrix);
            self.widen(matrix, position, shard, table.as_ref(), blocks);
        }
        int8_sums(blocks, inputs, bytemuck::cast_slice_mut(sums));
    }

    /// Widens a shard's part of a matrix to its place among the bytes.
    fn widen(
        &self,
        matrix: ShardMatrix,
        position: usize,
        shard: &ShardBytes<'_>,
        table: Option<&[i8; DICT_ENTRIES]>,
        blocks: &mut [i8],
    ) {
        let shape = &self.shape;
        let place = shape.place(matrix);
        let (outputs, inputs) = shape.part(matrix);
        // Numbers that lie together in both, and how far it is from one such run to the next.
        let (run, stride) = if matrix.is_cut_by_outputs() {
            (outputs * inputs, outputs * inputs)
        } else {
            (16 * inputs, 16 * inputs * self.width)
        };
        let first = position * run;
        let (weights, outliers) = shard.bytes.split_at(shape.weight_bytes(shard.fidelity));
        let bits = shard.fidelity.bits() as usize;
        for number in 0..place.len() / run {
            let from = place.start + number * run;
            let to = &mut blocks[first + number * stride..][..run];
            match table {
                Some(table) => {
                    let packed = &weights[from * bits / 8..(from + run) * bits / 8];
                    unpack_bytes(shard.fidelity.bits(), packed, table, to);
                }
                None => to.copy_from_slice(bytemuck::cast_slice(&weights[from..from + run])),
            }
        }
        let outliers = outliers.as_chunks::<4>().0;
        let word = |it: &[u8; 4]| u32::from_le_bytes(*it);
        let at = |it: &[u8; 4]| (word(it) >> 8) as usize;
        let begin = outliers.partition_point(|it| at(it) < place.start);
        let own = outliers[begin..].iter().take_while(|it| at(it) < place.end);
        for outlier in own {
            let inside = at(outlier) - place.start;
            let code = (word(outlier) & 0xff) as u8;
            blocks[first + inside / run * stride + inside % run] = code.cast_signed();
        }
    }
}

impl Small<'_> {
    fn dictionary_of(&self, fidelity: Fidelity, matrix: ShardMatrix) -> Option<[i8; DICT_ENTRIES]> {
        fidelity.is_dictionary().then(|| self.dictionary(fidelity, matrix))
    }
}
