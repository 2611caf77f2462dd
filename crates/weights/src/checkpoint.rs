//! Safetensors files of a model directory.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use half::{bf16, f16};
use safetensors::{Dtype, tensor::Metadata};
use serde::Deserialize;

use crate::{Error, Result, read_json};

/// A header lists names and shapes; the format's own limit is 100 MB (safetensors' `MAX_HEADER_SIZE`).
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Bytes converted at a time: small enough to count as nothing in a memory budget, large enough for
/// full-speed reads.
const CONVERT_BYTES: usize = 256 << 10;

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
                return Err(bad(format!(
                    "tensor {name:?} is in none of the files: fetch or copy them again"
                )));
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
        match info.dtype {
            Dtype::F32 if cfg!(target_endian = "little") => {
                read_exact_at(&info.file.file, as_bytes_mut(out), start).map_err(io)?;
            }
            _ => {
                let mut raw = vec![0u8; CONVERT_BYTES.min(out.len() * width)];
                let mut at = start;
                for part in out.chunks_mut(CONVERT_BYTES / width) {
                    let raw = &mut raw[..part.len() * width];
                    read_exact_at(&info.file.file, raw, at).map_err(io)?;
                    convert(info.dtype, raw, part);
                    at += raw.len() as u64;
                }
            }
        }
        // A sum of products with zero is NaN exactly if one value is not finite, and vectorizes.
        if out.iter().map(|it| it * 0.0).sum::<f32>() != 0.0 {
            return Err(Error::NotFinite { dir: self.dir.clone(), tensor: info.name.clone() });
        }
        Ok((out.len() * width) as u64)
    }
}

fn read_shard(path: &Path, tensors: &mut BTreeMap<String, TensorInfo>) -> Result<()> {
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    let bad = |why: String| Error::BadHeader { path: path.to_path_buf(), why };
    let file = File::open(path).map_err(io)?;
    let actual = file.metadata().map_err(io)?.len();
    let mut length = [0u8; 8];
    if actual < 8 {
        return Err(Error::Truncated { path: path.to_path_buf(), actual, promised: 8 });
    }
    read_exact_at(&file, &mut length, 0).map_err(io)?;
    let header_bytes = u64::from_le_bytes(length);
    if header_bytes > MAX_HEADER_BYTES {
        return Err(bad(format!("its header claims {header_bytes} bytes")));
    }
    let data_start = 8 + header_bytes;
    if actual < data_start {
        return Err(Error::Truncated { path: path.to_path_buf(), actual, promised: data_start });
    }
    let mut header =
        vec![0u8; usize::try_from(data_start).map_err(|_| bad("header too large".to_owned()))?];
    read_exact_at(&file, &mut header, 0).map_err(io)?;
    let metadata = parse_header(&header[8..]).map_err(bad)?;
    let promised = data_start.saturating_add(metadata.data_len() as u64);
    if actual < promised {
        return Err(Error::Truncated { path: path.to_path_buf(), actual, promised });
    }
    if actual > promised {
        return Err(bad(format!("{} bytes follow the last tensor", actual - promised)));
    }
    let shard = Arc::new(ShardFile { path: path.to_path_buf(), file });
    for (name, info) in metadata.tensors() {
        let tensor = TensorInfo {
            name: name.clone(),
            shape: info.shape.clone(),
            dtype: info.dtype,
            file: Arc::clone(&shard),
            offset: data_start + info.data_offsets.0 as u64,
        };
        if tensors.insert(name.clone(), tensor).is_some() {
            return Err(bad(format!("tensor {name:?} is in two files")));
        }
    }
    Ok(())
}

/// Parses a header and checks that its tensors follow each other without holes or overlaps and agree
/// with their shapes and formats. (The library's own check wants the data in memory, too.)
fn parse_header(json: &[u8]) -> std::result::Result<Metadata, String> {
    let metadata: Metadata = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let mut end = 0;
    let mut infos: Vec<_> = metadata.tensors().into_iter().collect();
    infos.sort_by_key(|(_, info)| info.data_offsets);
    for (name, info) in infos {
        let (start, stop) = info.data_offsets;
        if start != end || stop < start {
            return Err(format!(
                "tensor {name:?} has offsets {start}…{stop} where {end} was expected"
            ));
        }
        let elements = info
            .shape
            .iter()
            .try_fold(1usize, |product, &size| product.checked_mul(size))
            .ok_or_else(|| format!("tensor {name:?} has the impossible shape {:?}", info.shape))?;
        let bits = elements
            .checked_mul(info.dtype.bitsize())
            .ok_or_else(|| format!("tensor {name:?} has the impossible shape {:?}", info.shape))?;
        if bits.div_ceil(8) != stop - start {
            return Err(format!(
                "tensor {name:?} has {} bytes for shape {:?}",
                stop - start,
                info.shape
            ));
        }
        end = stop;
    }
    Ok(metadata)
}

fn convert(dtype: Dtype, raw: &[u8], out: &mut [f32]) {
    match dtype {
        Dtype::F32 => {
            for (value, bytes) in out.iter_mut().zip(raw.chunks_exact(4)) {
                *value = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            }
        }
        Dtype::F16 => {
            for (value, bytes) in out.iter_mut().zip(raw.chunks_exact(2)) {
                *value = f16::from_le_bytes([bytes[0], bytes[1]]).to_f32();
            }
        }
        _ => {
            for (value, bytes) in out.iter_mut().zip(raw.chunks_exact(2)) {
                *value = bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32();
            }
        }
    }
}

fn as_bytes_mut(values: &mut [f32]) -> &mut [u8] {
    // SAFETY: the byte view covers exactly the slice's memory for as long as it is borrowed; u8 needs no
    // alignment, and every bit pattern is a valid f32.
    unsafe {
        std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), std::mem::size_of_val(values))
    }
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
    fn lies_are_refused() {
        for (header, data) in [
            (r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#, 4),
            (r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#, 8),
            (
                r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#,
                4,
            ),
            (r#"{"a":{"dtype":"F32","shape":[4611686018427387904,16],"data_offsets":[0,0]}}"#, 0),
            (r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}"#, 4),
            (r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, 5),
            ("[1,2,3]", 0),
        ] {
            assert!(open(&file_of(header, &vec![0; data])).is_err(), "{header} was accepted");
        }
        let mut huge = u64::MAX.to_le_bytes().to_vec();
        huge.extend_from_slice(b"{}");
        assert!(matches!(open(&huge), Err(Error::BadHeader { .. })));
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
