//! Safetensors files of a model directory.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use half::{
    bf16, f16,
    slice::{HalfBitsSliceExt as _, HalfFloatSliceExt as _},
};
use safetensors::Dtype;
use serde::Deserialize;

use crate::{Error, Result, header, read_json};

/// A header lists names and shapes; the format's own limit is 100 MB (safetensors' `MAX_HEADER_SIZE`).
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Two-byte numbers widened at a time: 256 KiB are small enough to count as nothing in a memory budget
/// and large enough for full-speed reads.
const CONVERT_ELEMENTS: usize = 128 << 10;

/// Name, shape and place of a tensor.
#[derive(Debug, Clone)]
pub struct TensorInfo {
    /// Full name in the checkpoint.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    dtype: Dtype,
    file: Arc<ShardFile>,
    offset: u64,
}

impl TensorInfo {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        (self.elements() * self.element_bytes()) as u64
    }

    fn element_bytes(&self) -> usize {
        if self.dtype == Dtype::F32 { 4 } else { 2 }
    }
}

#[derive(Debug)]
struct ShardFile {
    path: PathBuf,
    file: File,
}

/// A model directory's weights: headers read and checked, data still on disk.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    dir: PathBuf,
    tensors: Arc<BTreeMap<String, TensorInfo>>,
}

#[derive(Deserialize)]
struct ShardIndex {
    weight_map: HashMap<String, String>,
}

impl Checkpoint {
    /// Opens `model.safetensors`, or the files that `model.safetensors.index.json` names.
    ///
    /// # Errors
    /// No weights, an unreadable or truncated file, a header that lies, or an index that leads out of
    /// the directory or to tensors that are not there.
    pub fn open(dir: &Path) -> Result<Checkpoint> {
        let single = dir.join("model.safetensors");
        let index = dir.join("model.safetensors.index.json");
        let mut tensors = BTreeMap::new();
        if single.is_file() {
            read_shard(&single, &mut tensors)?;
        } else if index.is_file() {
            let map = read_json::<ShardIndex>(&index)?.weight_map;
            let bad = |why| Error::BadIndex { path: index.clone(), why };
            let files: HashSet<&str> = map.values().map(String::as_str).collect();
            for file in files {
                // A shard is a plain name in the same directory: a path could lead anywhere.
                if Path::new(file).file_name() != Some(file.as_ref())
                    || !file.ends_with(".safetensors")
                {
                    return Err(bad(format!(
                        "{file:?} is not the name of a safetensors file in this directory"
                    )));
                }
                read_shard(&dir.join(file), &mut tensors)?;
            }
            if let Some(name) = map.keys().find(|name| !tensors.contains_key(*name)) {
                return Err(bad(format!("tensor {name:?} is in none of the files")));
            }
        } else {
            return Err(Error::NoWeights { dir: dir.to_path_buf() });
        }
        Ok(Checkpoint { dir: dir.to_path_buf(), tensors: Arc::new(tensors) })
    }

    /// The model directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether there is a tensor of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// All tensors by name.
    pub fn tensors(&self) -> impl Iterator<Item = &TensorInfo> {
        self.tensors.values()
    }

    /// The tensor of that name and shape.
    ///
    /// # Errors
    /// When it is missing, or has another shape or an unsupported number format.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<&TensorInfo> {
        let info = self.tensors.get(name).ok_or_else(|| Error::MissingTensor {
            dir: self.dir.clone(),
            tensor: name.to_owned(),
        })?;
        if info.shape != shape {
            return Err(Error::WrongShape {
                dir: self.dir.clone(),
                tensor: name.to_owned(),
                actual: info.shape.clone(),
                expected: shape.to_vec(),
            });
        }
        if !matches!(info.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
            return Err(Error::WrongDtype {
                dir: self.dir.clone(),
                tensor: name.to_owned(),
                dtype: format!("{:?}", info.dtype),
            });
        }
        Ok(info)
    }

    /// Reads a whole tensor into `out`, converted to f32; returns the bytes read from disk.
    ///
    /// # Errors
    /// When the file can not be read or the tensor holds a value that is not a finite number.
    ///
    /// # Panics
    /// When `out` is not as long as the tensor.
    pub fn read_f32(&self, info: &TensorInfo, out: &mut [f32]) -> Result<u64> {
        assert_eq!(out.len(), info.elements(), "buffer for {}", info.name);
        self.read_elements(info, 0, out)
    }

    /// Reads `rows.len()` neighboring rows of a matrix from `first` on into `out`; returns the bytes read.
    ///
    /// # Errors
    /// As [`read_f32`](Self::read_f32), and when the rows are not in the tensor.
    pub fn read_rows_f32(&self, info: &TensorInfo, first: usize, out: &mut [f32]) -> Result<u64> {
        let rows = info.shape.first().copied().unwrap_or(1);
        let width = info.elements() / rows.max(1);
        let last = first + out.len() / width.max(1);
        if last > rows {
            return Err(Error::RowOutOfRange { tensor: info.name.clone(), row: last - 1, rows });
        }
        self.read_elements(info, first * width, out)
    }

    fn read_elements(&self, info: &TensorInfo, first: usize, out: &mut [f32]) -> Result<u64> {
        let width = info.element_bytes();
        let start = info.offset + (first * width) as u64;
        let io = |source| Error::Io { path: info.file.path.clone(), source };
        let file = &info.file.file;
        if info.dtype == Dtype::F32 {
            read_exact_at(file, as_bytes_mut(out), start).map_err(io)?;
            if cfg!(target_endian = "big") {
                out.iter_mut().for_each(|it| *it = f32::from_bits(it.to_bits().swap_bytes()));
            }
        } else {
            read_half(file, info.dtype, start, out).map_err(io)?;
        }
        if !all_finite(out) {
            return Err(Error::NotFinite { dir: self.dir.clone(), tensor: info.name.clone() });
        }
        Ok((out.len() * width) as u64)
    }
}

fn read_shard(path: &Path, tensors: &mut BTreeMap<String, TensorInfo>) -> Result<()> {
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    let truncated =
        |actual, promised| Error::Truncated { path: path.to_path_buf(), actual, promised };
    let file = File::open(path).map_err(io)?;
    let actual = file.metadata().map_err(io)?.len();
    let mut length = [0u8; 8];
    if actual < 8 {
        return Err(truncated(actual, 8));
    }
    read_exact_at(&file, &mut length, 0).map_err(io)?;
    let header_bytes = u64::from_le_bytes(length);
    if header_bytes > MAX_HEADER_BYTES {
        return Err(Error::HeaderTooLarge {
            path: path.to_path_buf(),
            bytes: header_bytes,
            limit: MAX_HEADER_BYTES,
        });
    }
    let data_start = 8 + header_bytes;
    if actual < data_start {
        return Err(truncated(actual, data_start));
    }
    // The limit above is far below what usize holds.
    let mut header = vec![0u8; header_bytes as usize];
    read_exact_at(&file, &mut header, 8).map_err(io)?;
    let entries = header::parse(path, &header)?;
    let data_bytes = entries.last().map_or(0, |(_, info)| info.data_offsets.1 as u64);
    let promised = data_start.saturating_add(data_bytes);
    if actual < promised {
        return Err(truncated(actual, promised));
    }
    if actual > promised {
        return Err(Error::TrailingBytes { path: path.to_path_buf(), bytes: actual - promised });
    }
    let shard = Arc::new(ShardFile { path: path.to_path_buf(), file });
    for (name, info) in entries {
        if tensors.contains_key(&name) {
            return Err(Error::DuplicateTensor { path: path.to_path_buf(), tensor: name });
        }
        let tensor = TensorInfo {
            name: name.clone(),
            shape: info.shape,
            dtype: info.dtype,
            file: Arc::clone(&shard),
            offset: data_start + info.data_offsets.0 as u64,
        };
        tensors.insert(name, tensor);
    }
    Ok(())
}

/// Whether all values are finite. Zero times a finite number is zero, times any other it is NaN; the
/// sums run in lanes of their own so that the compiler vectorizes them.
fn all_finite(values: &[f32]) -> bool {
    const LANES: usize = 16;
    let mut lanes = [0f32; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value * 0.0;
        }
    }
    lanes.iter().chain(rest).all(|it| it.is_finite())
}

/// Reads `out.len()` two-byte numbers and widens them. Both formats are read as `u16`, which gives the
/// buffer the alignment that the vectorized conversions of `half` want.
fn read_half(file: &File, dtype: Dtype, offset: u64, out: &mut [f32]) -> std::io::Result<()> {
    let mut raw = vec![0u16; CONVERT_ELEMENTS.min(out.len())];
    let mut at = offset;
    for part in out.chunks_mut(CONVERT_ELEMENTS) {
        let raw = &mut raw[..part.len()];
        read_exact_at(file, as_bytes_mut(raw), at)?;
        at += size_of_val(raw) as u64;
        if cfg!(target_endian = "big") {
            raw.iter_mut().for_each(|it| *it = it.swap_bytes());
        }
        if dtype == Dtype::F16 {
            raw.reinterpret_cast::<f16>().convert_to_f32_slice(part);
        } else {
            raw.reinterpret_cast::<bf16>().convert_to_f32_slice(part);
        }
    }
    Ok(())
}

/// Numbers for which every bit pattern is a value, and which hold no padding.
trait Plain: Copy {}

impl Plain for u16 {}
impl Plain for f32 {}

fn as_bytes_mut<T: Plain>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: the byte view covers exactly the slice's memory for as long as it is borrowed; u8 needs no
    // alignment, `Plain` types have no padding, and every bit pattern is one of their values.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

#[cfg(unix)]
fn read_exact_at(file: &File, out: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut out: &mut [u8], mut offset: u64) -> std::io::Result<()> {
    while !out.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, out, offset)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            n => {
                out = &mut out[n..];
                offset += n as u64;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_of(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    fn good() -> Vec<u8> {
        let mut data = Vec::new();
        for value in [1.0f32, 2.0, 3.0, 4.0] {
            data.extend_from_slice(&value.to_le_bytes());
        }
        for value in [0.5f32, -2.0] {
            data.extend_from_slice(&f16::from_f32(value).to_le_bytes());
        }
        for value in [0.25f32, 8.0] {
            data.extend_from_slice(&bf16::from_f32(value).to_le_bytes());
        }
        file_of(
            r#"{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"h":{"dtype":"F16","shape":[2],"data_offsets":[16,20]},"b":{"dtype":"BF16","shape":[2],"data_offsets":[20,24]}}"#,
            &data,
        )
    }

    fn open(bytes: &[u8]) -> Result<Checkpoint> {
        let dir = tempfile::tempdir().expect("temp dir");
        std::fs::write(dir.path().join("model.safetensors"), bytes).expect("write");
        Checkpoint::open(dir.path())
    }

    #[test]
    fn reads_every_format_and_single_rows() {
        let checkpoint = open(&good()).expect("good");
        let mut two = [0.0; 2];
        for (name, expected) in [("h", [0.5, -2.0]), ("b", [0.25, 8.0])] {
            let info = checkpoint.tensor(name, &[2]).expect("there");
            assert_eq!(checkpoint.read_f32(info, &mut two).expect("read"), 4);
            assert_eq!(two, expected);
        }
        let info = checkpoint.tensor("a", &[2, 2]).expect("there");
        checkpoint.read_rows_f32(info, 1, &mut two).expect("read");
        assert_eq!(two, [3.0, 4.0]);
        assert!(matches!(
            checkpoint.read_rows_f32(info, 2, &mut two),
            Err(Error::RowOutOfRange { .. })
        ));
    }

    #[test]
    fn wrong_names_and_shapes_are_told_apart() {
        let checkpoint = open(&good()).expect("good");
        assert!(matches!(checkpoint.tensor("x", &[2]), Err(Error::MissingTensor { .. })));
        assert!(matches!(checkpoint.tensor("a", &[4]), Err(Error::WrongShape { .. })));
        let ints = file_of(r#"{"i":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}"#, &[0; 8]);
        assert!(matches!(
            open(&ints).expect("valid").tensor("i", &[1]),
            Err(Error::WrongDtype { .. })
        ));
    }

    #[test]
    fn every_truncation_is_noticed() {
        let bytes = good();
        for length in 0..bytes.len() {
            assert!(open(&bytes[..length]).is_err(), "a file cut to {length} bytes was accepted");
        }
    }

    #[test]
    fn each_lie_has_its_error() {
        let one = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
        assert!(matches!(open(&file_of(one, &[0; 3])), Err(Error::Truncated { .. })));
        assert!(matches!(open(&file_of(one, &[0; 5])), Err(Error::TrailingBytes { bytes: 1, .. })));
        let mut huge = u64::MAX.to_le_bytes().to_vec();
        huge.extend_from_slice(b"{}");
        assert!(matches!(open(&huge), Err(Error::HeaderTooLarge { .. })));
        let beyond = r#"{"a":{"dtype":"F32","shape":[1000],"data_offsets":[0,4000]}}"#;
        assert!(matches!(
            open(&file_of(beyond, &[0; 4])),
            Err(Error::Truncated { promised: 4068, .. })
        ));
        assert!(open(&file_of("{}", &[])).is_ok(), "a file without tensors is valid");
    }

    #[test]
    fn a_tensor_in_two_files_is_refused() {
        let dir = tempfile::tempdir().expect("temp dir");
        let write = |name: &str, bytes: &[u8]| {
            std::fs::write(dir.path().join(name), bytes).expect("write");
        };
        write("1.safetensors", &good());
        write("2.safetensors", &good());
        let map = r#"{"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}"#;
        write("model.safetensors.index.json", map.as_bytes());
        assert!(matches!(Checkpoint::open(dir.path()), Err(Error::DuplicateTensor { .. })));
    }

    #[test]
    fn long_tensors_are_converted_part_by_part() {
        let elements = CONVERT_ELEMENTS + 5;
        let value = |i: usize| f16::from_f32((i % 1000) as f32 - 500.0);
        let data: Vec<u8> = (0..elements).flat_map(|i| value(i).to_le_bytes()).collect();
        let header = format!(
            r#"{{"h":{{"dtype":"F16","shape":[{elements}],"data_offsets":[0,{}]}}}}"#,
            data.len()
        );
        let checkpoint = open(&file_of(&header, &data)).expect("valid");
        let info = checkpoint.tensor("h", &[elements]).expect("there");
        let mut out = vec![f32::NAN; elements];
        checkpoint.read_f32(info, &mut out).expect("read");
        assert!(out.iter().enumerate().all(|(i, it)| *it == value(i).to_f32()));
    }

    #[test]
    fn values_that_are_not_numbers_are_found_wherever_they_are() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for place in [0, 15, 16, 36] {
                let mut values = [f32::MAX; 37];
                assert!(all_finite(&values));
                values[place] = bad;
                assert!(!all_finite(&values), "{bad} at {place}");
            }
        }
    }

    #[test]
    fn nan_is_refused_when_read() {
        let bytes = file_of(
            r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#,
            &f32::NAN.to_le_bytes(),
        );
        let checkpoint = open(&bytes).expect("the header is fine");
        let info = checkpoint.tensor("a", &[1]).expect("there");
        assert!(matches!(checkpoint.read_f32(info, &mut [0.0]), Err(Error::NotFinite { .. })));
    }

    #[test]
    fn an_index_stays_in_its_directory() {
        let dir = tempfile::tempdir().expect("temp dir");
        let write =
            |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).expect("write");
        write("model-00001-of-00001.safetensors", &good());
        let index = |map: &str| {
            write("model.safetensors.index.json", format!(r#"{{"weight_map":{map}}}"#).as_bytes());
            Checkpoint::open(dir.path())
        };
        assert!(index(r#"{"a":"model-00001-of-00001.safetensors"}"#).is_ok());
        assert!(matches!(index(r#"{"a":"../x.safetensors"}"#), Err(Error::BadIndex { .. })));
        assert!(matches!(
            index(r#"{"zz":"model-00001-of-00001.safetensors"}"#),
            Err(Error::BadIndex { .. })
        ));
        assert!(matches!(index(r#"{"a":"absent.safetensors"}"#), Err(Error::Io { .. })));
        let empty = tempfile::tempdir().expect("temp dir");
        assert!(matches!(Checkpoint::open(empty.path()), Err(Error::NoWeights { .. })));
    }
}
