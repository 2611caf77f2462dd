//! The weights of a model directory: safetensors files, or our own store beside them.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Deserialize;

use crate::{
    Error, Format, LayerLayout, Result, TensorInfo, header, is_there,
    layout::Placed,
    open_file, read_json,
    store::{self, Segments},
    tensor::{Stored, WeightFile, read_exact_at},
};

/// A header lists names and shapes; the format's own limit is 100 MB (safetensors' `MAX_HEADER_SIZE`).
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Bytes read and widened at a time: 256 KiB are small enough to count as nothing in a memory budget
/// and large enough for full-speed reads.
const CONVERT_BYTES: usize = 256 << 10;

/// A model directory's weights: headers read and checked, data still on disk.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    dir: PathBuf,
    tensors: Arc<BTreeMap<String, TensorInfo>>,
    /// Checksummed parts of our own store; none in safetensors.
    segments: Arc<Segments>,
}

#[derive(Deserialize)]
struct ShardIndex {
    weight_map: HashMap<String, String>,
}

impl Checkpoint {
    /// Opens the store [`STORE_FILE`](crate::STORE_FILE) if the directory has one, else `model.safetensors`,
    /// else the files that `model.safetensors.index.json` names.
    ///
    /// # Errors
    /// No weights, an unreadable or truncated file, a header that lies, a store made from other weights
    /// than those beside it, or an index that leads out of the directory or to tensors that are not there.
    pub fn open(dir: &Path) -> Result<Checkpoint> {
        if is_there(&dir.join(store::STORE_FILE)) {
            return Checkpoint::open_store(dir, false);
        }
        Checkpoint::open_safetensors(dir)
    }

    /// Opens the store and reads its layers past the page cache (`O_DIRECT`): what is read then stays
    /// nowhere but in the caller's buffers, and every pass costs a pass of the disk.
    ///
    /// # Errors
    /// As [`open`](Self::open); where there is no store, or system or file system can not read directly.
    pub fn open_direct(dir: &Path) -> Result<Checkpoint> {
        Checkpoint::open_store(dir, true)
    }

    fn open_store(dir: &Path, direct: bool) -> Result<Checkpoint> {
        let (tensors, segments) = store::open(dir, direct)?;
        Ok(Checkpoint {
            dir: dir.to_path_buf(),
            tensors: Arc::new(tensors),
            segments: Arc::new(segments),
        })
    }

    /// Opens the published files, whether or not there is a store.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_safetensors(dir: &Path) -> Result<Checkpoint> {
        let single = dir.join("model.safetensors");
        let index = dir.join("model.safetensors.index.json");
        let mut tensors = BTreeMap::new();
        if is_there(&single) {
            read_shard(&single, &mut tensors)?;
        } else if is_there(&index) {
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
            if let Some(name) =
                map.keys().find(|it| !tensors.contains_key(&current_name((*it).clone())))
            {
                return Err(bad(format!("tensor {name:?} is in none of the files")));
            }
        } else {
            return Err(Error::NoWeights { dir: dir.to_path_buf() });
        }
        Ok(Checkpoint {
            dir: dir.to_path_buf(),
            tensors: Arc::new(tensors),
            segments: Arc::default(),
        })
    }

    /// The model directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the weights come from our own store.
    pub fn is_store(&self) -> bool {
        !self.segments.is_empty()
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
        self.supported(info)?;
        Ok(info)
    }

    pub(crate) fn supported(&self, info: &TensorInfo) -> Result<()> {
        let Stored::Unsupported(dtype) = info.stored else { return Ok(()) };
        Err(Error::WrongDtype {
            dir: self.dir.clone(),
            tensor: info.name.clone(),
            dtype: format!("{dtype:?}"),
        })
    }

    /// Reads a whole tensor into `out`, converted to f32; returns the bytes read from disk.
    ///
    /// # Errors
    /// When the file can not be read, or the tensor holds a value that is not a finite number or is packed.
    ///
    /// # Panics
    /// When `out` is not as long as the tensor.
    pub fn read_f32(&self, info: &TensorInfo, out: &mut [f32]) -> Result<u64> {
        assert_eq!(out.len(), info.elements(), "buffer for {}", info.name);
        self.read_elements_f32(info, 0, out)
    }

    /// Reads numbers from element `first` on, where a row begins, whole rows of them.
    pub(crate) fn read_elements_f32(
        &self,
        info: &TensorInfo,
        first: usize,
        out: &mut [f32],
    ) -> Result<u64> {
        let (width, format) = (info.width().max(1), info.format());
        let Some(row_bytes) = format.row_bytes(width) else {
            return Err(Error::Packed { dir: self.dir.clone(), tensor: info.name.clone() });
        };
        // A vector is one row, which may be longer than what is read at a time.
        if let Format::Plain(dtype) = format {
            let start = info.offset + (first * dtype.bytes()) as u64;
            let mut at = start;
            let mut raw = vec![0; CONVERT_BYTES.min(out.len() * dtype.bytes())];
            for part in out.chunks_mut(CONVERT_BYTES / dtype.bytes()) {
                let raw = &mut raw[..part.len() * dtype.bytes()];
                self.read_checked(info, at, raw)?;
                at += raw.len() as u64;
                dtype.widen(raw, part);
            }
            return Ok(at - start);
        }
        let start = info.offset + (first / width * row_bytes) as u64;
        let mut at = start;
        let step = (CONVERT_BYTES / row_bytes).max(1);
        let mut raw = vec![0; (step * row_bytes).min(out.len() / width * row_bytes)];
        for part in out.chunks_mut(step * width) {
            let raw = &mut raw[..part.len() / width * row_bytes];
            self.read_checked(info, at, raw)?;
            at += raw.len() as u64;
            for (raw, row) in raw.chunks_exact(row_bytes).zip(part.chunks_exact_mut(width)) {
                format.widen_row(raw, row);
            }
        }
        Ok(at - start)
    }

    /// Reads a vector of `count` whole numbers, each the number of one of `rows` rows.
    ///
    /// # Errors
    /// When it is missing, has another shape or holds no whole numbers, when the file can not be read, and the first
    /// number that is no row's.
    pub fn read_indices(&self, name: &str, count: usize, rows: usize) -> Result<Vec<u32>> {
        use safetensors::Dtype as FileDtype;
        let info = self.tensors.get(name).ok_or_else(|| Error::MissingTensor {
            dir: self.dir.clone(),
            tensor: name.to_owned(),
        })?;
        if info.shape != [count] {
            return Err(Error::WrongShape {
                dir: self.dir.clone(),
                tensor: name.to_owned(),
                actual: info.shape.clone(),
                expected: vec![count],
            });
        }
        let bytes = match info.stored {
            Stored::Unsupported(FileDtype::I64 | FileDtype::U64) => 8,
            Stored::Unsupported(FileDtype::I32 | FileDtype::U32) => 4,
            Stored::Unsupported(dtype) => {
                let (dir, tensor) = (self.dir.clone(), name.to_owned());
                return Err(Error::WrongDtype { dir, tensor, dtype: format!("{dtype:?}") });
            }
            _ => {
                let (dir, tensor) = (self.dir.clone(), name.to_owned());
                let dtype = info.format().name().to_owned();
                return Err(Error::WrongDtype { dir, tensor, dtype });
            }
        };
        // The header was compared with the file: the tensor is no longer than that.
        let mut raw = vec![0; count * bytes];
        read_exact_at(&info.file.file, &mut raw, info.offset)
            .map_err(|source| Error::Io { path: info.file.path.clone(), source })?;
        let number = |raw: &[u8]| {
            // A negative one is larger than any row once its sign is read as a number.
            let mut wide = [0; 8];
            wide[..raw.len()].copy_from_slice(raw);
            u64::from_le_bytes(wide)
        };
        let index = |raw: &[u8]| {
            let value = usize::try_from(number(raw)).unwrap_or(usize::MAX);
            let small = u32::try_from(value).ok().filter(|_| value < rows);
            let out_of_range =
                || Error::RowOutOfRange { tensor: name.to_owned(), row: value, rows };
            small.ok_or_else(out_of_range)
        };
        raw.chunks_exact(bytes).map(index).collect()
    }

    /// Reads neighboring rows of a matrix from row `first` on into `out`, in the tensor's own format, as
    /// many as `out` has room for; returns the bytes read.
    ///
    /// # Errors
    /// When the file can not be read, a value is not a finite number, the rows are not in the tensor, or it
    /// is packed.
    pub fn read_rows(&self, info: &TensorInfo, first: usize, out: &mut [u8]) -> Result<u64> {
        let rows = info.shape.first().copied().unwrap_or(1);
        let width = info.elements() / rows.max(1);
        let Some(row_bytes) = info.format().row_bytes(width) else {
            return Err(Error::Packed { dir: self.dir.clone(), tensor: info.name.clone() });
        };
        let last = first + out.len() / row_bytes.max(1);
        if last > rows {
            return Err(Error::RowOutOfRange { tensor: info.name.clone(), row: last - 1, rows });
        }
        self.read_checked(info, info.offset + (first * row_bytes) as u64, out)?;
        Ok(out.len() as u64)
    }

    fn read_checked(&self, info: &TensorInfo, offset: u64, out: &mut [u8]) -> Result<()> {
        read_exact_at(&info.file.file, out, offset)
            .map_err(|source| Error::Io { path: info.file.path.clone(), source })?;
        self.check_finite(info, info.format(), out)
    }

    fn check_finite(&self, info: &TensorInfo, format: Format, raw: &[u8]) -> Result<()> {
        if format.all_finite(raw, info.width()) {
            return Ok(());
        }
        Err(Error::NotFinite { dir: self.dir.clone(), tensor: info.name.clone() })
    }

    /// Reads a layer: tensors that lie in the file as they do in memory are read at once, which for our own
    /// store is the whole layer.
    pub(crate) fn read_layout(&self, layout: &LayerLayout, out: &mut [u8]) -> Result<u64> {
        let mut bytes = 0;
        let mut rest = layout.placed();
        while let Some(first) = rest.first() {
            if first.format == first.info.format() {
                let run = 1 + rest.windows(2).take_while(|it| follows(&it[0], &it[1])).count();
                let (now, later) = rest.split_at(run);
                bytes += self.read_run(now, out)?;
                rest = later;
            } else {
                bytes += self.read_widened(first, out)?;
                rest = &rest[1..];
            }
        }
        Ok(bytes)
    }

    fn read_run(&self, run: &[Placed], out: &mut [u8]) -> Result<u64> {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(0) };
        let file = &first.info.file;
        let io = |source| Error::Io { path: file.path.clone(), source };
        let range = first.offset..last.offset + last.bytes();
        let bytes = range.len() as u64;
        if let Some(segment) = self.segments.at(first.info.offset, bytes) {
            let room = &mut out[first.offset..];
            if self.segments.read(file, segment, room).map_err(io)? {
                return Ok(bytes);
            }
            self.segments.verify(&file.path, segment, &out[range])?;
        } else {
            read_exact_at(&file.file, &mut out[range], first.info.offset).map_err(io)?;
        }
        for placed in run {
            let raw = &out[placed.offset..placed.offset + placed.bytes()];
            self.check_finite(&placed.info, placed.format, raw)?;
        }
        Ok(bytes)
    }

    fn read_widened(&self, placed: &Placed, out: &mut [u8]) -> Result<u64> {
        let mut values = vec![0.0; placed.info.elements()];
        let bytes = self.read_f32(&placed.info, &mut values)?;
        let out = &mut out[placed.offset..placed.offset + placed.bytes()];
        for (out, value) in out.as_chunks_mut::<4>().0.iter_mut().zip(&values) {
            *out = value.to_le_bytes();
        }
        Ok(bytes)
    }

    /// Reads every part of the store and compares it with its checksum; nothing to do for safetensors,
    /// which have none.
    ///
    /// # Errors
    /// The first part that does not match, or can not be read.
    pub fn verify(&self) -> Result<()> {
        let Some(info) = self.tensors.values().next() else { return Ok(()) };
        self.segments.verify_all(&info.file)
    }
}

/// Whether `next` follows `placed` in the file just as it does in memory, so that one read gets both.
fn follows(placed: &Placed, next: &Placed) -> bool {
    next.format == next.info.format()
        && Arc::ptr_eq(&placed.info.file, &next.info.file)
        && next.info.offset.checked_sub(placed.info.offset)
            == Some((next.offset - placed.offset) as u64)
}

/// The name that a tensor has today: models that come from the first releases of BERT call gain and bias of a
/// normalization as TensorFlow does, and `transformers` renames them when it reads them, too.
fn current_name(name: String) -> String {
    for (former, current) in
        [(".LayerNorm.gamma", ".LayerNorm.weight"), (".LayerNorm.beta", ".LayerNorm.bias")]
    {
        if let Some(module) = name.strip_suffix(former) {
            return format!("{module}{current}");
        }
    }
    name
}

fn read_shard(path: &Path, tensors: &mut BTreeMap<String, TensorInfo>) -> Result<()> {
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    let truncated =
        |actual, promised| Error::Truncated { path: path.to_path_buf(), actual, promised };
    let file = open_file(path).map_err(io)?;
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
    let shard = Arc::new(WeightFile { path: path.to_path_buf(), file, direct: None });
    for (name, info) in entries {
        let name = current_name(name);
        if tensors.contains_key(&name) {
            return Err(Error::DuplicateTensor { path: path.to_path_buf(), tensor: name });
        }
        let tensor = TensorInfo {
            name: name.clone(),
            shape: info.shape,
            stored: Stored::of(info.dtype),
            file: Arc::clone(&shard),
            offset: data_start + info.data_offsets.0 as u64,
        };
        tensors.insert(name, tensor);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::Dtype;

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
        let mut row = [0; 8];
        checkpoint.read_rows(info, 1, &mut row).expect("read");
        Dtype::F32.widen(&row, &mut two);
        assert_eq!(two, [3.0, 4.0]);
        assert!(matches!(
            checkpoint.read_rows(info, 2, &mut row),
            Err(Error::RowOutOfRange { .. })
        ));
    }

    #[test]
    fn whole_numbers_are_rows_that_there_are() {
        let of = |dtype: &str, data: &[u8]| {
            let header = format!(
                r#"{{"m":{{"dtype":"{dtype}","shape":[2],"data_offsets":[0,{}]}}}}"#,
                data.len()
            );
            open(&file_of(&header, data)).expect("valid")
        };
        let long = [7i64, 0].map(i64::to_le_bytes).concat();
        let short = [7i32, -1].map(i32::to_le_bytes).concat();
        assert_eq!(of("I64", &long).read_indices("m", 2, 8).expect("rows"), [7, 0]);
        assert!(matches!(
            of("I64", &long).read_indices("m", 2, 7),
            Err(Error::RowOutOfRange { row: 7, rows: 7, .. })
        ));
        assert!(matches!(
            of("I32", &short).read_indices("m", 2, 8),
            Err(Error::RowOutOfRange { .. })
        ));
        let other = of("F32", &short);
        assert!(matches!(other.read_indices("m", 2, 8), Err(Error::WrongDtype { .. })));
        assert!(matches!(other.read_indices("m", 3, 8), Err(Error::WrongShape { .. })));
        assert!(matches!(other.read_indices("x", 2, 8), Err(Error::MissingTensor { .. })));
    }

    #[test]
    fn gain_and_bias_of_old_models_have_the_names_of_today() {
        let header = r#"{"x.LayerNorm.gamma":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"x.LayerNorm.beta":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#;
        let checkpoint = open(&file_of(header, &[0; 8])).expect("good");
        for name in ["x.LayerNorm.weight", "x.LayerNorm.bias"] {
            assert!(checkpoint.contains(name), "{name}");
        }
        assert!(!checkpoint.contains("x.LayerNorm.gamma"));
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
        let elements = CONVERT_BYTES / 2 + 5;
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
