//! GGUF: one file with a model's settings, its vocabulary and its tensors, in blocks of few bits.
//!
//! The format is described in `gguf.md` of ggml: magic and version, counts, keys with values, names with
//! shapes, number formats and places, and then the data, every tensor at a multiple of `general.alignment`.
//! Versions 2 and 3 are read, little-endian. Only the header is read when a file is opened; tensors are read by
//! place, so several threads can. A model may be in several files, of which the first is opened.

mod format;
mod metadata;
mod parts;
mod random;
mod source;
#[cfg(test)]
mod tests;
mod texts;
mod write;

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    path::{Path, PathBuf},
};

pub use format::GgmlFormat;
pub use random::{
    MARK as RANDOM_MARK, RandomFormat, RandomModel, random_mark, write_random,
    write_random_with_words_of,
};
pub use texts::Texts;
pub use write::{GgufData, GgufWriter, write_parts};

use self::{metadata::Value, source::Source};
use crate::{Error, JoinedFiles, Result, open_file, tensor::read_exact_at};

/// The first four bytes.
const MAGIC: [u8; 4] = *b"GGUF";

/// Tensors of a real file: about ten per layer, a few thousand for the largest.
const MAX_TENSORS: u64 = 1 << 16;

/// Longest name of a tensor, by the format's description.
const MAX_NAME_BYTES: u64 = 64;

/// Most dimensions of a tensor, by the format's description.
const MAX_DIMENSIONS: u32 = 4;

/// Where data lies if the file does not say: at multiples of this.
const DEFAULT_ALIGNMENT: u64 = 32;

/// Nobody aligns to more than a page of the largest kind.
const MAX_ALIGNMENT: u64 = 1 << 21;

/// A GGUF file, or the files of a model that is in several: headers parsed and checked, tensor data not read. What
/// they say is true of the files (every tensor lies inside, none overlaps another); whether it is the model that it
/// says it is, whoever uses it checks.
#[derive(Debug)]
pub struct Gguf {
    joined: JoinedFiles,
    /// In the same order.
    files: Vec<File>,
    bytes: u64,
    metadata: HashMap<String, Value>,
    tensors: Vec<GgufTensor>,
    by_name: HashMap<String, usize>,
}

/// Name, shape, format and place of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GgufTensor {
    /// As `blk.0.attn_q.weight`.
    pub name: String,
    /// In GGUF's order: first the length of a row (inputs of a matrix), then the number of rows (its outputs).
    pub shape: Vec<usize>,
    /// How its numbers lie.
    pub format: GgmlFormat,
    /// Its first byte in the file; of a model in several files its place among [`Gguf::files`].
    pub offset: u64,
    /// Its length in the file.
    pub bytes: u64,
}

impl GgufTensor {
    /// Numbers in a row.
    pub fn columns(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Rows of all dimensions but the first.
    pub fn rows(&self) -> usize {
        self.shape.iter().skip(1).product()
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        // Checked when the file was opened.
        self.format.row_bytes(self.columns()).unwrap_or(0)
    }
}

impl Gguf {
    /// Opens a file and reads its header; of a model in several files the first one, and those beside it.
    ///
    /// # Errors
    /// A file that can not be read, is no GGUF file or one of another version or byte order, ends too early, or lies
    /// about its keys or tensors; a number format that is not supported; a part that is missing or of another model,
    /// or is opened instead of the first one.
    pub fn open(path: &Path) -> Result<Gguf> {
        let first = Header::read(path)?;
        let others = parts::others(&first)?;
        if !matches!(first.metadata.get(ARCHITECTURE), Some(Value::Text(_))) {
            return Err(Error::BadMetadata {
                path: first.path,
                key: ARCHITECTURE.to_owned(),
                why: "it is missing, and nothing else says which model this is".to_owned(),
            });
        }
        let headers = || [&first].into_iter().chain(&others);
        let joined = JoinedFiles::of(headers().map(|it| (it.path.as_path(), it.bytes)));
        let Some(joined) = joined else {
            let why = "all parts together are longer than any disk".to_owned();
            return Err(Error::BadPart { path: first.path, why });
        };
        let bytes = headers().map(|it| it.bytes).sum();
        let (mut tensors, mut files, mut metadata) = (Vec::new(), Vec::new(), HashMap::new());
        for (header, file) in [first].into_iter().chain(others).zip(joined.files()) {
            // Their ends were compared with the files, whose ends were added.
            tensors.extend(header.tensors.into_iter().map(|mut it| {
                it.offset += file.start;
                it
            }));
            if files.is_empty() {
                metadata = header.metadata;
            }
            files.push(header.file);
        }
        let by_name = tensors.iter().enumerate().map(|(at, it)| (it.name.clone(), at)).collect();
        Ok(Gguf { joined, files, bytes, metadata, tensors, by_name })
    }

    /// The file; of several the first.
    pub fn path(&self) -> &Path {
        &self.joined.files()[0].path
    }

    /// The files, for readers of their own: a tensor's [`offset`](GgufTensor::offset) is its place among them.
    pub fn files(&self) -> &JoinedFiles {
        &self.joined
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// `general.architecture`, as `llama`.
    pub fn architecture(&self) -> &str {
        self.text(ARCHITECTURE).unwrap_or_default()
    }

    /// A string.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.metadata.get(key)? {
            Value::Text(it) => Some(it),
            _ => None,
        }
    }

    /// An integer of any type that is not negative.
    pub fn number(&self, key: &str) -> Option<u64> {
        match self.metadata.get(key)? {
            Value::Unsigned(it) => Some(*it),
            Value::Signed(it) => u64::try_from(*it).ok(),
            _ => None,
        }
    }

    /// A float of any type, or an integer.
    pub fn float(&self, key: &str) -> Option<f64> {
        match self.metadata.get(key)? {
            Value::Float(it) => Some(*it),
            Value::Unsigned(it) => Some(*it as f64),
            Value::Signed(it) => Some(*it as f64),
            _ => None,
        }
    }

    /// A flag.
    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.metadata.get(key)? {
            Value::Flag(it) => Some(*it),
            _ => None,
        }
    }

    /// An array of strings.
    pub fn texts(&self, key: &str) -> Option<&Texts> {
        match self.metadata.get(key)? {
            Value::Texts(it) => Some(it),
            _ => None,
        }
    }

    /// An array of floats.
    pub fn floats(&self, key: &str) -> Option<&[f32]> {
        match self.metadata.get(key)? {
            Value::Floats(it) => Some(it),
            _ => None,
        }
    }

    /// An array of integers of any type, or of flags (0 and 1).
    pub fn numbers(&self, key: &str) -> Option<&[i64]> {
        match self.metadata.get(key)? {
            Value::Numbers(it) => Some(it),
            _ => None,
        }
    }

    /// Whether there is such a key, of whatever type.
    pub fn contains(&self, key: &str) -> bool {
        self.metadata.contains_key(key)
    }

    /// All tensors in the file's order.
    pub fn tensors(&self) -> &[GgufTensor] {
        &self.tensors
    }

    /// The tensor of that name.
    pub fn tensor(&self, name: &str) -> Option<&GgufTensor> {
        self.tensors.get(*self.by_name.get(name)?)
    }

    /// Reads a whole tensor as it lies in the file. Its numbers are not looked at: a damaged file can hold NaN.
    ///
    /// # Errors
    /// When the file can not be read.
    ///
    /// # Panics
    /// When `out` is not as long as the tensor.
    pub fn read(&self, tensor: &GgufTensor, out: &mut [u8]) -> Result<()> {
        assert_eq!(out.len() as u64, tensor.bytes, "buffer for {}", tensor.name);
        self.read_at(tensor.offset, out)
    }

    /// Reads rows from row `first` on, as many as `out` has room for.
    ///
    /// # Errors
    /// When the file can not be read, or the tensor does not have so many rows.
    ///
    /// # Panics
    /// When `out` is not whole rows.
    pub fn read_rows(&self, tensor: &GgufTensor, first: usize, out: &mut [u8]) -> Result<()> {
        let (row_bytes, rows) = (tensor.row_bytes(), tensor.rows());
        assert!(out.len().is_multiple_of(row_bytes), "buffer for rows of {}", tensor.name);
        let last = first.saturating_add(out.len() / row_bytes);
        if last > rows {
            return Err(Error::RowOutOfRange { tensor: tensor.name.clone(), row: last - 1, rows });
        }
        self.read_at(tensor.offset + (first * row_bytes) as u64, out)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let all = self.joined.files();
        let at = all.partition_point(|it| it.start <= offset) - 1;
        read_exact_at(&self.files[at], out, offset - all[at].start)
            .map_err(|source| Error::Io { path: all[at].path.clone(), source })
    }
}

/// What a file says.
struct Header {
    path: PathBuf,
    file: File,
    bytes: u64,
    metadata: HashMap<String, Value>,
    tensors: Vec<GgufTensor>,
}

impl Header {
    fn read(path: &Path) -> Result<Header> {
        let io = |source| Error::Io { path: path.to_path_buf(), source };
        let file = open_file(path).map_err(io)?;
        let bytes = file.metadata().map_err(io)?.len();
        let mut source = Source::new(path, &file, bytes);
        check_version(&mut source)?;
        let (tensors, keys) = (source.u64()?, source.u64()?);
        let metadata = metadata::read(&mut source, keys)?;
        let alignment = alignment(&metadata, path)?;
        let tensors = read_tensors(&mut source, tensors, alignment, bytes)?;
        drop(source);
        Ok(Header { path: path.to_path_buf(), file, bytes, metadata, tensors })
    }
}

const ARCHITECTURE: &str = "general.architecture";

fn check_version(source: &mut Source) -> Result<()> {
    let not = |source: &Source, why: String| Err(Error::NotGguf { path: source.path(), why });
    if source.bytes()? != MAGIC {
        return not(source, "its first bytes are not \"GGUF\"".to_owned());
    }
    match source.u32()? {
        2 | 3 => Ok(()),
        1 => not(source, "it is of version 1, which nothing writes any more".to_owned()),
        // The bytes of a small number, read from the wrong end.
        other if (1..=3).contains(&other.swap_bytes()) => {
            not(source, "it is big-endian; a little-endian one is needed".to_owned())
        }
        other => not(source, format!("it is of version {other}, 2 and 3 are read")),
    }
}

fn alignment(metadata: &HashMap<String, Value>, path: &Path) -> Result<u64> {
    let key = "general.alignment";
    let bad = |why| Error::BadMetadata { path: path.to_path_buf(), key: key.to_owned(), why };
    let alignment = match metadata.get(key) {
        None => return Ok(DEFAULT_ALIGNMENT),
        Some(Value::Signed(it)) => u64::try_from(*it).unwrap_or(0),
        Some(Value::Unsigned(it)) => *it,
        Some(_) => return Err(bad("it is not a number".to_owned())),
    };
    if !alignment.is_power_of_two() || alignment > MAX_ALIGNMENT {
        return Err(bad(format!(
            "it is {alignment}, a power of two up to {MAX_ALIGNMENT} is needed"
        )));
    }
    Ok(alignment)
}

/// Reads names, shapes, formats and places, and compares them with each other and with the file.
fn read_tensors(
    source: &mut Source,
    count: u64,
    alignment: u64,
    file_bytes: u64,
) -> Result<Vec<GgufTensor>> {
    if count > MAX_TENSORS {
        return Err(Error::TooManyTensors { path: source.path(), count, limit: MAX_TENSORS });
    }
    let mut tensors = Vec::new();
    for _ in 0..count {
        tensors.push(read_tensor(source, alignment)?);
    }
    // Headers and alignments are far below what u64 holds.
    let start = source.position().next_multiple_of(alignment);
    let path = || source.path();
    let mut names = HashSet::new();
    if let Some(twice) = tensors.iter().find(|it| !names.insert(it.name.as_str())) {
        return Err(Error::DuplicateTensor { path: path(), tensor: twice.name.clone() });
    }
    let mut promised = start;
    for tensor in &mut tensors {
        let end = start.checked_add(tensor.offset).and_then(|it| it.checked_add(tensor.bytes));
        promised = promised.max(end.unwrap_or(u64::MAX));
        tensor.offset = tensor.offset.saturating_add(start);
    }
    if !tensors.is_empty() && promised > file_bytes {
        return Err(Error::Truncated { path: path(), actual: file_bytes, promised });
    }
    let mut by_place: Vec<&GgufTensor> = tensors.iter().collect();
    by_place.sort_by_key(|it| it.offset);
    for pair in by_place.windows(2) {
        if pair[0].offset + pair[0].bytes > pair[1].offset {
            return Err(Error::Overlap {
                path: path(),
                tensor: pair[1].name.clone(),
                other: pair[0].name.clone(),
            });
        }
    }
    Ok(tensors)
}

/// One tensor; its offset is still that from where the data starts.
fn read_tensor(source: &mut Source, alignment: u64) -> Result<GgufTensor> {
    let name = source.text(MAX_NAME_BYTES, "a tensor's name")?;
    let bad =
        |source: &Source, why| Error::BadTensor { path: source.path(), tensor: name.clone(), why };
    let dimensions = source.u32()?;
    if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
        let why = format!("has {dimensions} dimensions, 1 to {MAX_DIMENSIONS} are possible");
        return Err(bad(source, why));
    }
    let mut shape = Vec::new();
    for _ in 0..dimensions {
        let size = source.u64()?;
        match usize::try_from(size) {
            Ok(size @ 1..) => shape.push(size),
            _ => return Err(bad(source, format!("has a dimension of {size}"))),
        }
    }
    let number = source.u32()?;
    let format = GgmlFormat::of_number(number).map_err(|format| Error::UnsupportedBlocks {
        path: source.path(),
        tensor: name.clone(),
        format,
    })?;
    let offset = source.u64()?;
    let Some(row_bytes) = format.row_bytes(shape[0]) else {
        let why =
            format!("has rows of {}, which are no whole blocks of {}", shape[0], format.name());
        return Err(bad(source, why));
    };
    let rows = shape[1..].iter().try_fold(1usize, |all, it| all.checked_mul(*it));
    let bytes = rows.and_then(|it| it.checked_mul(row_bytes));
    let Some(bytes) = bytes.filter(|_| rows.and_then(|it| it.checked_mul(shape[0])).is_some())
    else {
        return Err(bad(source, format!("has shape {shape:?}, which no machine holds")));
    };
    if !offset.is_multiple_of(alignment) {
        let why = format!("lies at byte {offset} of the data, not at a multiple of {alignment}");
        return Err(bad(source, why));
    }
    Ok(GgufTensor { name, shape, format, offset, bytes: bytes as u64 })
}
