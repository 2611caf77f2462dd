//! Writes GGUF files: keys and tensors are named first, then the data follows in one stream.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use super::{DEFAULT_ALIGNMENT, GgmlFormat, Gguf, MAGIC, metadata, parts, source::Source};
use crate::{Error, Result, tensor::read_exact_at};

/// Version that is written.
const VERSION: u32 = 3;

/// A header in the making. What it is given is not checked: [`Gguf::open`](super::Gguf::open) does.
#[derive(Debug, Default)]
pub struct GgufWriter {
    keys: u64,
    metadata: Vec<u8>,
    tensors: Vec<u8>,
    /// Bytes of each.
    sizes: Vec<u64>,
    /// Bytes of the data so far, with what aligns them.
    data: u64,
}

impl GgufWriter {
    /// A header of a model of this architecture, as `llama`.
    pub fn new(architecture: &str) -> GgufWriter {
        let mut writer = GgufWriter::default();
        writer.text(super::ARCHITECTURE, architecture);
        writer
    }

    fn key(&mut self, key: &str, kind: u32) -> &mut Vec<u8> {
        self.keys += 1;
        append_text(&mut self.metadata, key.as_bytes());
        self.metadata.extend(kind.to_le_bytes());
        &mut self.metadata
    }

    fn array(&mut self, key: &str, kind: u32, count: usize) -> &mut Vec<u8> {
        let out = self.key(key, 9);
        out.extend(kind.to_le_bytes());
        out.extend((count as u64).to_le_bytes());
        out
    }

    /// A string.
    pub fn text(&mut self, key: &str, value: &str) {
        append_text(self.key(key, 8), value.as_bytes());
    }

    /// An integer, as `u32`: the type of nearly every number in these files.
    pub fn number(&mut self, key: &str, value: u32) {
        self.key(key, 4).extend(value.to_le_bytes());
    }

    /// A float, as `f32`.
    pub fn float(&mut self, key: &str, value: f32) {
        self.key(key, 6).extend(value.to_le_bytes());
    }

    /// A flag.
    pub fn flag(&mut self, key: &str, value: bool) {
        self.key(key, 7).push(value.into());
    }

    /// An array of strings.
    pub fn texts<T: AsRef<[u8]>>(&mut self, key: &str, values: &[T]) {
        let out = self.array(key, 8, values.len());
        values.iter().for_each(|it| append_text(out, it.as_ref()));
    }

    /// An array of integers, as `i32`.
    pub fn numbers(&mut self, key: &str, values: &[i32]) {
        self.array(key, 5, values.len()).extend(values.iter().flat_map(|it| it.to_le_bytes()));
    }

    /// An array of floats, as `f32`.
    pub fn floats(&mut self, key: &str, values: &[f32]) {
        self.array(key, 6, values.len()).extend(values.iter().flat_map(|it| it.to_le_bytes()));
    }

    /// A tensor, whose data follows in the order of these calls; `shape` in GGUF's order, the length of a row
    /// first.
    ///
    /// # Panics
    /// When rows are not whole blocks.
    pub fn tensor(&mut self, name: &str, shape: &[usize], format: GgmlFormat) {
        let out = &mut self.tensors;
        append_text(out, name.as_bytes());
        out.extend((shape.len() as u32).to_le_bytes());
        shape.iter().for_each(|it| out.extend((*it as u64).to_le_bytes()));
        out.extend(format.number().to_le_bytes());
        out.extend(self.data.to_le_bytes());
        let row = format.row_bytes(shape[0]);
        let row =
            row.unwrap_or_else(|| panic!("rows of {name} are whole blocks of {}", format.name()));
        let bytes = (row * shape[1..].iter().product::<usize>()) as u64;
        self.sizes.push(bytes);
        self.data += bytes.next_multiple_of(DEFAULT_ALIGNMENT);
    }

    /// Writes the header into a new file, and returns what takes the data.
    ///
    /// # Errors
    /// When the file can not be written.
    pub fn create(self, path: &Path) -> Result<GgufData> {
        let io = |source| Error::Io { path: path.to_path_buf(), source };
        let file = BufWriter::new(File::create(path).map_err(io)?);
        let mut header = MAGIC.to_vec();
        header.extend(VERSION.to_le_bytes());
        header.extend((self.sizes.len() as u64).to_le_bytes());
        header.extend(self.keys.to_le_bytes());
        header.extend(self.metadata);
        header.extend(self.tensors);
        header.resize(header.len().next_multiple_of(DEFAULT_ALIGNMENT as usize), 0);
        let mut data = GgufData { path: path.to_path_buf(), file, sizes: self.sizes };
        data.sizes.reverse();
        data.append(&header)?;
        Ok(data)
    }
}

/// Bytes before the keys: magic, version and two counts.
const KEYS_AT: u64 = 24;

/// Cuts a file into parts before the tensors of these numbers, ascending, as `gguf-split` of llama.cpp does: readers of
/// parts are tried with it. Part 1 of `DIR/NAME` is `DIR/NAME-00001-of-….gguf`; returns all of them.
///
/// # Errors
/// When the file can not be read, or a part can not be written.
///
/// # Panics
/// When there are no such tensors.
pub fn write_parts(path: &Path, into: &Path, cuts: &[usize]) -> Result<Vec<PathBuf>> {
    let whole = Gguf::open(path)?;
    let all = whole.tensors();
    let stem = into.file_name().unwrap_or_default().to_string_lossy();
    let count = cuts.len() + 1;
    let mut written = Vec::new();
    for number in 0..count {
        let mut header = if number == 0 { copy_keys(path)? } else { GgufWriter::default() };
        header.key(parts::NUMBER, 2).extend((number as u16).to_le_bytes());
        header.key(parts::COUNT, 2).extend((count as u16).to_le_bytes());
        header.key(parts::TENSORS, 5).extend((all.len() as i32).to_le_bytes());
        let first = number.checked_sub(1).map_or(0, |it| cuts[it]);
        let tensors = &all[first..cuts.get(number).copied().unwrap_or(all.len())];
        tensors.iter().for_each(|it| header.tensor(&it.name, &it.shape, it.format));
        let name = parts::name_of(&stem, number as u64, count as u64);
        let part = into.with_file_name(format!("{name}.gguf"));
        let mut data = header.create(&part)?;
        for tensor in tensors {
            let mut bytes = vec![0; tensor.bytes as usize];
            whole.read(tensor, &mut bytes)?;
            data.tensor([bytes])?;
        }
        data.finish()?;
        written.push(part);
    }
    Ok(written)
}

/// The keys and values of a file as they lie there.
fn copy_keys(path: &Path) -> Result<GgufWriter> {
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    let file = File::open(path).map_err(io)?;
    let mut source = Source::new(path, &file, file.metadata().map_err(io)?.len());
    let [_, _, keys] = [source.u64()?, source.u64()?, source.u64()?];
    metadata::read(&mut source, keys)?;
    let mut bytes = vec![0; (source.position() - KEYS_AT) as usize];
    read_exact_at(&file, &mut bytes, KEYS_AT).map_err(io)?;
    Ok(GgufWriter { keys, metadata: bytes, ..GgufWriter::default() })
}

fn append_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text);
}

/// A file whose header is written, waiting for the data of its tensors.
#[derive(Debug)]
pub struct GgufData {
    path: PathBuf,
    file: BufWriter<File>,
    /// Bytes of the tensors that were not begun, the next one last.
    sizes: Vec<u64>,
}

impl GgufData {
    /// Writes the next tensor, which `fill` produces in parts.
    ///
    /// # Errors
    /// When the file can not be written.
    ///
    /// # Panics
    /// When there is no further tensor, or the parts are not as long as it is.
    pub fn tensor<P: AsRef<[u8]>>(&mut self, parts: impl IntoIterator<Item = P>) -> Result<()> {
        let bytes = self.sizes.pop().expect("a tensor more than the header names");
        let mut written = 0;
        for part in parts {
            self.append(part.as_ref())?;
            written += part.as_ref().len() as u64;
        }
        assert_eq!(written, bytes, "bytes of a tensor");
        let padding = bytes.next_multiple_of(DEFAULT_ALIGNMENT) - bytes;
        self.append(&[0; DEFAULT_ALIGNMENT as usize][..padding as usize])
    }

    /// Ends the file.
    ///
    /// # Errors
    /// When the file can not be written.
    ///
    /// # Panics
    /// When a tensor is missing.
    pub fn finish(mut self) -> Result<()> {
        assert!(self.sizes.is_empty(), "{} tensors were not written", self.sizes.len());
        self.file.flush().map_err(|it| self.io(it))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|it| self.io(it))
    }

    fn io(&self, source: std::io::Error) -> Error {
        Error::Io { path: self.path.clone(), source }
    }
}
