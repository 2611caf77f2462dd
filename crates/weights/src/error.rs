//! One variant for each way a model directory can be wrong.

use std::path::PathBuf;

use riddle_types::{Advice, Advised};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is wrong with a checkpoint or configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file can not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The directory holds no weights.
    #[error("{}: no model.safetensors, no model.safetensors.index.json and no model.riddle here: is this a model directory? (.bin and .pt checkpoints are not read, convert them to safetensors)", dir.display())]
    NoWeights {
        /// The directory.
        dir: PathBuf,
    },
    /// The header is not the JSON it should be.
    #[error("{}: not a safetensors file ({why}): fetch or copy it again", path.display())]
    BadHeader {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The header claims to be longer than any real one.
    #[error("{}: its header claims {bytes} bytes, {limit} are allowed: this is not a file of weights, or it is damaged", path.display())]
    HeaderTooLarge {
        /// The file.
        path: PathBuf,
        /// The claim.
        bytes: u64,
        /// Most that is read.
        limit: u64,
    },
    /// A tensor does not lie where the one before it ends: a hole, an overlap, or an end before its start.
    #[error("{}: tensor {tensor:?} lies at bytes {start} to {end}, the tensor before it ends at {expected}: the file is damaged, fetch or copy it again", path.display())]
    BadOffsets {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// First byte, by the header.
        start: usize,
        /// Byte after the last, by the header.
        end: usize,
        /// Where it must start.
        expected: usize,
    },
    /// A tensor's place is longer or shorter than its shape and number format need.
    #[error("{}: tensor {tensor:?} has {bytes} bytes, which is not what shape {shape:?} of {dtype} takes: the file is damaged, fetch or copy it again", path.display())]
    WrongSize {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Bytes between its offsets.
        bytes: usize,
        /// Its shape, by the header.
        shape: Vec<usize>,
        /// Its number format, by the header.
        dtype: String,
    },
    /// A tensor is there twice, in one file or in two.
    #[error("{}: tensor {tensor:?} is there twice: the model directory mixes two models or is damaged, fetch it again", path.display())]
    DuplicateTensor {
        /// The file where it is found again.
        path: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// Bytes that no tensor claims.
    #[error("{}: {bytes} bytes follow the last tensor: the file is damaged, fetch or copy it again", path.display())]
    TrailingBytes {
        /// The file.
        path: PathBuf,
        /// How many.
        bytes: u64,
    },
    /// The file ends before its header says.
    #[error("{}: the file holds {actual} bytes, its header promises {promised}: it is truncated, fetch or copy it again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes there are.
        actual: u64,
        /// Bytes there should be.
        promised: u64,
    },
    /// The index of a sharded checkpoint is wrong.
    #[error("{}: {why}: fetch the model again", path.display())]
    BadIndex {
        /// The index file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A tensor the architecture needs is not there.
    #[error("{}: no tensor {tensor:?}: the weights do not belong to this configuration", dir.display())]
    MissingTensor {
        /// The directory.
        dir: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// A tensor has another shape than the configuration says.
    #[error("{}: tensor {tensor:?} has shape {actual:?}, the configuration says {expected:?}", dir.display())]
    WrongShape {
        /// The directory.
        dir: PathBuf,
        /// The tensor.
        tensor: String,
        /// The file's shape.
        actual: Vec<usize>,
        /// The configuration's.
        expected: Vec<usize>,
    },
    /// A tensor is stored in a number format that is not supported.
    #[error("{}: tensor {tensor:?} is stored as {dtype}: only F32, F16 and BF16 are supported", dir.display())]
    WrongDtype {
        /// The directory.
        dir: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its format.
        dtype: String,
    },
    /// A tensor is packed for products and was asked for as numbers.
    #[error("{}: tensor {tensor:?} is packed for computing and can not be read as numbers: use the published files", dir.display())]
    Packed {
        /// The directory.
        dir: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// A tensor holds values that are not numbers.
    #[error("{}: tensor {tensor:?} holds NaN or infinite values: the file is damaged, fetch or copy it again", dir.display())]
    NotFinite {
        /// The directory.
        dir: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// A row was asked for that the tensor does not have.
    #[error(
        "tensor {tensor:?} has {rows} rows, row {row} was asked for: the tokenizer does not belong to these weights"
    )]
    RowOutOfRange {
        /// The tensor.
        tensor: String,
        /// The row.
        row: usize,
        /// Rows there are.
        rows: usize,
    },
    /// Our own store is not what it should be.
    #[error("{}: not a store this program can read ({why})", path.display())]
    BadStore {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The store was made from other weights than those beside it.
    #[error("{}: this store was made from other weights than those beside it", path.display())]
    StaleStore {
        /// The file.
        path: PathBuf,
    },
    /// A part of the store is not what was written.
    #[error("{}: what lies at byte {offset} does not match its checksum: the file is damaged", path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
        /// First byte of the part.
        offset: u64,
    },
    /// A store of shards is not what it should be.
    #[error("{}: no shards that this program can read ({why})", path.display())]
    BadShards {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Shards were made from other weights.
    #[error("{}: these shards were made from other weights", path.display())]
    StaleShards {
        /// The file.
        path: PathBuf,
    },
    /// A shard, or what describes them, is not what was written.
    #[error("{}: what lies at byte {offset} does not match its checksum: the shards are damaged", path.display())]
    ShardChecksum {
        /// The file.
        path: PathBuf,
        /// First byte of the part.
        offset: u64,
    },
    /// The file can not be read past the page cache.
    #[error("{}: can not be read past the page cache here ({source}): leave direct IO off", path.display())]
    DirectIo {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A value is too large for the number format that was asked for.
    #[error(
        "tensor {tensor:?} holds values that {dtype} can not: choose another format, BF16 holds all that F32 does"
    )]
    DoesNotFit {
        /// The tensor.
        tensor: String,
        /// The format.
        dtype: String,
    },
    /// Not a GGUF file, or one of another version or byte order.
    #[error("{}: not a GGUF file that is read ({why}): fetch the model again, or convert it again with llama.cpp", path.display())]
    NotGguf {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A part of a model that is not the one to be opened, or is not named as parts are.
    #[error(
        "{}: this is one of {parts} parts of a model: give the first one, whose name ends with {ending}",
        path.display()
    )]
    NotFirstPart {
        /// The file.
        path: PathBuf,
        /// How many parts there are.
        parts: u64,
        /// How the name of the first one ends.
        ending: String,
    },
    /// A part that is not there.
    #[error(
        "{}: this part of a model in {parts} files is missing: put it beside the others, or fetch the model \
         again",
        path.display()
    )]
    MissingPart {
        /// Where it should be.
        path: PathBuf,
        /// How many parts there are.
        parts: u64,
    },
    /// A part of something else, or one that lies.
    #[error("{}: this part of a model does not fit to the others ({why}): fetch the model again", path.display())]
    BadPart {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// More files than are opened at the same time.
    #[error("{}: the model is in {parts} parts, {limit} are read together", path.display())]
    TooManyParts {
        /// The first one.
        path: PathBuf,
        /// How many there are.
        parts: u64,
        /// How many are read.
        limit: u64,
    },
    /// More tokens than a model's table has rows.
    #[error("{}: it has {tokens} tokens, and the shape no more than {most}: take the words of a model with fewer", path.display())]
    TooManyTokens {
        /// The file whose tokens they are.
        path: PathBuf,
        /// How many.
        tokens: usize,
        /// Rows of the table.
        most: usize,
    },
    /// A key or a tensor's name is too long or no text.
    #[error("{}: {why}, at byte {at}: the file is damaged, fetch or copy it again", path.display())]
    BadName {
        /// The file.
        path: PathBuf,
        /// Where.
        at: u64,
        /// What is wrong.
        why: String,
    },
    /// A key of a GGUF header is missing, there twice, or not what it should be.
    #[error("{}: {key:?}: {why}: the file is damaged or made by a program with errors, fetch another", path.display())]
    BadMetadata {
        /// The file.
        path: PathBuf,
        /// The key; empty before the first.
        key: String,
        /// What is wrong.
        why: String,
    },
    /// More tensors than any model has.
    #[error("{}: its header counts {count} tensors, {limit} are allowed: the file is damaged, fetch or copy it again", path.display())]
    TooManyTensors {
        /// The file.
        path: PathBuf,
        /// The claim.
        count: u64,
        /// Most that are read.
        limit: u64,
    },
    /// A tensor's shape or place is impossible.
    #[error("{}: tensor {tensor:?} {why}: the file is damaged, fetch or copy it again", path.display())]
    BadTensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// What is wrong.
        why: String,
    },
    /// Two tensors claim the same bytes.
    #[error("{}: tensors {other:?} and {tensor:?} overlap: the file is damaged, fetch or copy it again", path.display())]
    Overlap {
        /// The file.
        path: PathBuf,
        /// The tensor that begins later.
        tensor: String,
        /// The one that begins earlier.
        other: String,
    },
    /// A GGUF tensor is stored in blocks that are not read.
    #[error("{}: tensor {tensor:?} is stored as {format}, which is not supported: choose a file in Q4_K_M, Q8_0 or F16 (F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and Q2_K to Q6_K are read)", path.display())]
    UnsupportedBlocks {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its format.
        format: String,
    },
    /// A JSON file is not what it should be.
    #[error("{}: {why}; choose another model, or fetch this one again", path.display())]
    BadConfig {
        /// The file.
        path: PathBuf,
        /// What is wrong or not supported.
        why: String,
    },
}

impl Advised for Error {
    fn advice(&self) -> Option<Advice> {
        match self {
            Error::BadStore { .. } | Error::StaleStore { .. } | Error::Checksum { .. } => {
                Some(Advice::ConvertModel)
            }
            Error::BadShards { .. } | Error::StaleShards { .. } | Error::ShardChecksum { .. } => {
                Some(Advice::ShardModel)
            }
            Error::TooManyParts { .. } => Some(Advice::JoinParts),
            _ => None,
        }
    }
}
