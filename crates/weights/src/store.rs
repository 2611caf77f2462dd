//! Our own store: a model's weights laid out as they are needed, aligned, and checksummed.
//!
//! A published file holds tensors in the order of their names' first use or of the alphabet; a layer is then
//! a dozen reads. In the store each layer is one *segment* that lies as [`LayerLayout`] lays it out in
//! memory, begins at a page and is read at once, past the page cache if wanted. The embedding table and the
//! small tensors are segments of their own.
//!
//! Layout: 64 bytes of preamble (magic, version, place, length and BLAKE3 of the header), zeros to the next
//! page, segments, header. The header is JSON and stands last, because checksums are known last.

mod entry;
mod write;

use std::{
    collections::{BTreeMap, HashSet},
    fs::File,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    Error, PAGE, Result, TensorInfo,
    layout::TENSOR_ALIGNMENT,
    open_file,
    tensor::{WeightFile, read_exact_at},
};
use entry::{Header, SegmentEntry, TensorEntry};

pub use write::{StoreSummary, write_store};

/// Name of the store in a model directory.
pub const STORE_FILE: &str = "model.riddle";

const MAGIC: [u8; 8] = *b"RDLSTORE";

/// Version of stores whose numbers are all plain; programs that know no other read them.
const PLAIN_VERSION: u32 = 1;

/// Version of stores with packed matrices or quantized rows; the layouts themselves belong to it.
const QUANTIZED_VERSION: u32 = 2;

const PREAMBLE_BYTES: usize = 64;

/// As for safetensors: a header lists names and shapes.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Bytes hashed or copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// The checksummed parts of a store, ascending.
#[derive(Debug, Default)]
pub(crate) struct Segments(Vec<Segment>);

#[derive(Debug)]
struct Segment {
    offset: u64,
    bytes: u64,
    blake3: String,
    /// Compared with its checksum once since the store was opened.
    verified: AtomicBool,
}

impl Segments {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The segment of exactly this place.
    pub(crate) fn at(&self, offset: u64, bytes: u64) -> Option<usize> {
        let found = self.0.binary_search_by_key(&offset, |it| it.offset).ok()?;
        (self.0[found].bytes == bytes).then_some(found)
    }

    /// Reads a segment into the beginning of `room`; returns whether it has been verified before. Past the
    /// page cache whole pages are read, so what follows the segment in `room` is overwritten with zeros.
    pub(crate) fn read(
        &self,
        file: &WeightFile,
        segment: usize,
        room: &mut [u8],
    ) -> std::io::Result<bool> {
        let Segment { offset, bytes, verified, .. } = &self.0[segment];
        // Opening has checked that the file holds it, and the caller has memory for it.
        let bytes = *bytes as usize;
        let pages = bytes.next_multiple_of(PAGE);
        match &file.direct {
            Some(direct) if room.len() >= pages && room.as_ptr().addr().is_multiple_of(PAGE) => {
                read_exact_at(direct, &mut room[..pages], *offset)?;
            }
            _ => read_exact_at(&file.file, &mut room[..bytes], *offset)?,
        }
        Ok(verified.load(Ordering::Relaxed))
    }

    pub(crate) fn verify(&self, path: &Path, segment: usize, data: &[u8]) -> Result<()> {
        self.compare(path, segment, blake3::hash(data))
    }

    fn compare(&self, path: &Path, segment: usize, hash: blake3::Hash) -> Result<()> {
        let Segment { offset, blake3, verified, .. } = &self.0[segment];
        if hash.to_hex().as_str() != blake3 {
            return Err(Error::Checksum { path: path.to_path_buf(), offset: *offset });
        }
        verified.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn verify_all(&self, file: &WeightFile) -> Result<()> {
        let io = |source| Error::Io { path: file.path.clone(), source };
        let mut buffer = vec![0; COPY_BYTES];
        for (number, segment) in self.0.iter().enumerate() {
            let mut hasher = blake3::Hasher::new();
            let mut done = 0;
            while done < segment.bytes {
                let part = (segment.bytes - done).min(COPY_BYTES as u64) as usize;
                read_exact_at(&file.file, &mut buffer[..part], segment.offset + done)
                    .map_err(io)?;
                hasher.update(&buffer[..part]);
                done += part as u64;
            }
            self.compare(&file.path, number, hasher.finalize())?;
        }
        Ok(())
    }
}

/// Opens the store of a model directory and checks everything that its header claims.
pub(crate) fn open(dir: &Path, direct: bool) -> Result<(BTreeMap<String, TensorInfo>, Segments)> {
    let path = dir.join(STORE_FILE);
    let io = |source| Error::Io { path: path.clone(), source };
    let bad = |why: String| Error::BadStore { path: path.clone(), why };
    let file = open_file(&path).map_err(io)?;
    let (header, data_end) = read_header(&file, &path)?;
    if let Some(source) = source_fingerprint(dir)?
        && source != header.source
    {
        return Err(Error::StaleStore { path });
    }
    let segments = check_segments(header.segments, data_end).map_err(bad)?;
    check_tensors(&header.tensors, &segments).map_err(bad)?;
    let direct = if direct { Some(open_direct(&path)?) } else { None };
    let file = Arc::new(WeightFile { path: path.clone(), file, direct });
    let tensor = |it: TensorEntry| TensorInfo {
        name: it.name.clone(),
        stored: it.stored(),
        shape: it.shape,
        file: Arc::clone(&file),
        offset: it.offset,
    };
    let tensors = header.tensors.into_iter().map(|it| (it.name.clone(), tensor(it))).collect();
    Ok((tensors, Segments(segments)))
}

/// Reads preamble and header; returns the header and where the data ends.
fn read_header(file: &File, path: &Path) -> Result<(Header, u64)> {
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    let bad = |why: String| Error::BadStore { path: path.to_path_buf(), why };
    let actual = file.metadata().map_err(io)?.len();
    let truncated = |promised| Error::Truncated { path: path.to_path_buf(), actual, promised };
    if actual < PREAMBLE_BYTES as u64 {
        return Err(truncated(PREAMBLE_BYTES as u64));
    }
    let mut preamble = [0; PREAMBLE_BYTES];
    read_exact_at(file, &mut preamble, 0).map_err(io)?;
    let number = |at: usize| {
        u64::from_le_bytes(preamble[at..at + 8].try_into().expect("eight bytes: this is a bug"))
    };
    if preamble[..8] != MAGIC {
        return Err(bad("it does not begin as a store does".to_owned()));
    }
    // The upper half is reserved and zero.
    if ![PLAIN_VERSION, QUANTIZED_VERSION].map(u64::from).contains(&number(8)) {
        let version = number(8);
        return Err(bad(format!(
            "it has version {version}, this program reads {PLAIN_VERSION} and {QUANTIZED_VERSION}"
        )));
    }
    let (start, bytes) = (number(16), number(24));
    if bytes > MAX_HEADER_BYTES {
        let path = path.to_path_buf();
        return Err(Error::HeaderTooLarge { path, bytes, limit: MAX_HEADER_BYTES });
    }
    let promised = start.saturating_add(bytes);
    if actual < promised {
        return Err(truncated(promised));
    }
    if actual > promised {
        return Err(Error::TrailingBytes { path: path.to_path_buf(), bytes: actual - promised });
    }
    let mut json = vec![0; bytes as usize];
    read_exact_at(file, &mut json, start).map_err(io)?;
    if blake3::hash(&json).as_bytes()[..] != preamble[32..] {
        return Err(Error::Checksum { path: path.to_path_buf(), offset: start });
    }
    let header = serde_json::from_slice(&json).map_err(|error| bad(error.to_string()))?;
    Ok((header, start))
}

fn check_segments(entries: Vec<SegmentEntry>, data_end: u64) -> Result<Vec<Segment>, String> {
    let mut expected = PAGE as u64;
    let mut segments = Vec::with_capacity(entries.len());
    for SegmentEntry { offset, bytes, blake3 } in entries {
        // One behind the other, each from a page on, so that none overlaps and nothing hides between.
        let end = offset.checked_add(bytes).and_then(|it| it.checked_next_multiple_of(PAGE as u64));
        match end {
            Some(end) if offset == expected && end <= data_end => expected = end,
            _ => return Err(format!("the part at byte {offset} does not lie where it belongs")),
        }
        segments.push(Segment { offset, bytes, blake3, verified: AtomicBool::new(false) });
    }
    if expected != data_end {
        return Err(format!("the parts end at byte {expected}, the header begins at {data_end}"));
    }
    Ok(segments)
}

fn check_tensors(tensors: &[TensorEntry], segments: &[Segment]) -> Result<(), String> {
    let mut names = HashSet::new();
    let mut expected = 0;
    for tensor in tensors {
        let TensorEntry { name, offset, .. } = tensor;
        if !names.insert(name.as_str()) {
            return Err(format!("tensor {name:?} is there twice"));
        }
        let end = tensor.length().and_then(|it| offset.checked_add(it));
        let last_before = segments.partition_point(|it| it.offset <= *offset).checked_sub(1);
        let inside = last_before.zip(end).is_some_and(|(segment, end)| {
            let Segment { offset, bytes, .. } = &segments[segment];
            end <= offset + bytes
        });
        if !inside || *offset < expected || !offset.is_multiple_of(TENSOR_ALIGNMENT as u64) {
            return Err(format!("tensor {name:?} does not lie where it could"));
        }
        expected = end.unwrap_or(expected);
    }
    Ok(())
}

#[cfg(target_os = "linux")]
pub(crate) fn open_direct(path: &Path) -> Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let direct = |source| Error::DirectIo { path: path.to_path_buf(), source };
    let mut options = File::options();
    let file = options.read(true).custom_flags(libc::O_DIRECT).open(path).map_err(direct)?;
    Ok(file)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn open_direct(path: &Path) -> Result<File> {
    let source = std::io::Error::from(std::io::ErrorKind::Unsupported);
    Err(Error::DirectIo { path: path.to_path_buf(), source })
}

/// Tells the published weights beside a store from others of the same shape: BLAKE3 over each file's name
/// and length, its first 64 KiB (the header, or its beginning) and sixteen samples of its data. `None`
/// when there are no published files.
fn source_fingerprint(dir: &Path) -> Result<Option<String>> {
    const HEAD: u64 = 64 << 10;
    const SAMPLES: u64 = 16;
    const SAMPLE_BYTES: u64 = 4096;
    let listing = |source| Error::Io { path: dir.to_path_buf(), source };
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(listing)? {
        let path = entry.map_err(listing)?.path();
        if path.extension().is_some_and(|it| it == "safetensors") {
            files.push(path);
        }
    }
    files.sort();
    let mut hasher = blake3::Hasher::new();
    for path in &files {
        let io = |source| Error::Io { path: path.clone(), source };
        let file = open_file(path).map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        hasher.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        hasher.update(&length.to_le_bytes());
        let samples = (1..=SAMPLES).map(|it| (length / (SAMPLES + 1) * it, SAMPLE_BYTES));
        for (start, bytes) in std::iter::once((0, HEAD)).chain(samples) {
            let mut sample = vec![0; bytes.min(length - start) as usize];
            read_exact_at(&file, &mut sample, start).map_err(io)?;
            hasher.update(&sample);
        }
    }
    Ok((!files.is_empty()).then(|| hasher.finalize().to_hex().to_string()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use proptest::prelude::*;
    use safetensors::Dtype as FileDtype;

    use super::*;
    use crate::{Checkpoint, Dtype, Format, LayerLayout, LayeredCheckpoint, Pack, StorePrecision};

    /// A layout that can be told apart from any other: the numbers' signs, then their count.
    struct Signs;

    impl Pack for Signs {
        fn packed_bytes(&self, _format: Format, outputs: usize, inputs: usize) -> Option<usize> {
            Some(outputs * inputs + 8)
        }

        fn pack(
            &self,
            _format: Format,
            values: &[f32],
            _outputs: usize,
            _inputs: usize,
            out: &mut [u8],
        ) {
            let (signs, count) = out.split_at_mut(values.len());
            for (sign, value) in signs.iter_mut().zip(values) {
                *sign = u8::from(*value < 0.0);
            }
            count.copy_from_slice(&(values.len() as u64).to_le_bytes());
        }
    }

    /// A model of two layers, a table and a vector in `dtype`: element i of every tensor is i + a number of
    /// the tensor's own.
    fn model(dtype: FileDtype) -> tempfile::TempDir {
        let shapes: [(&str, &[usize]); 6] = [
            ("a.0.w", &[3, 5]),
            ("a.0.b", &[3]),
            ("a.1.w", &[3, 5]),
            ("a.1.b", &[3]),
            ("table", &[7, 2]),
            ("norm", &[2]),
        ];
        let known = Dtype::of(dtype).expect("a format that is computed from");
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        for (number, (name, shape)) in shapes.iter().enumerate() {
            let start = data.len();
            known.narrow(&values(number, shape.iter().product()), &mut data);
            let entry = serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": [start, data.len()]});
            header.insert((*name).to_owned(), entry);
        }
        let dir = tempfile::tempdir().expect("temp dir");
        let json = serde_json::to_vec(&header).expect("json");
        let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
        bytes.extend(json);
        bytes.extend(data);
        std::fs::write(dir.path().join("model.safetensors"), bytes).expect("write");
        dir
    }

    fn values(number: usize, elements: usize) -> Vec<f32> {
        (0..elements).map(|it| (it + 10 * number) as f32 / 4.0 - 3.0).collect()
    }

    fn layered(checkpoint: Checkpoint) -> LayeredCheckpoint {
        let layers = (0..2)
            .map(|layer| {
                let tensor = |name: &str, shape: &[usize]| {
                    let name = format!("a.{layer}.{name}");
                    checkpoint.tensor(&name, shape).expect("there").clone()
                };
                LayerLayout::new(vec![tensor("w", &[3, 5]), tensor("b", &[3])])
            })
            .collect();
        LayeredCheckpoint::new(checkpoint, layers)
    }

    fn converted(format: FileDtype, dtype: Option<Dtype>) -> tempfile::TempDir {
        converted_to(format, dtype.map(StorePrecision::Plain))
    }

    fn converted_to(format: FileDtype, precision: Option<StorePrecision>) -> tempfile::TempDir {
        let dir = model(format);
        let source = layered(Checkpoint::open(dir.path()).expect("valid"));
        let checkpoint = Checkpoint::open_safetensors(dir.path()).expect("valid");
        let mut last = 0;
        write_store(&checkpoint, source.layers(), precision, &Signs, dir.path(), &mut |it| {
            assert!(it > last);
            last = it;
        })
        .expect("written");
        dir
    }

    fn layer_values(from: &LayeredCheckpoint, layer: usize) -> Vec<Vec<f32>> {
        let layout = &from.layers()[layer];
        let mut buffer = vec![0xff; layout.bytes()];
        from.read_layer(layer, &mut buffer).expect("readable");
        (0..layout.len())
            .map(|it| {
                let (format, raw) = layout.tensor(it, &buffer);
                let mut values = vec![0.0; layout.placed()[it].info.elements()];
                format.widen_row(raw, &mut values);
                values
            })
            .collect()
    }

    #[test]
    fn a_store_holds_what_it_was_made_from() {
        for format in [FileDtype::F32, FileDtype::F16, FileDtype::BF16] {
            for dtype in [None, Some(Dtype::F32), Some(Dtype::F16), Some(Dtype::Bf16)] {
                let dir = converted(format, dtype);
                let store = Checkpoint::open(dir.path()).expect("valid");
                assert!(store.is_store());
                store.verify().expect("as written");
                let source = layered(Checkpoint::open_safetensors(dir.path()).expect("valid"));
                let store = layered(store);
                for layer in 0..2 {
                    // The values fit every format exactly.
                    assert_eq!(layer_values(&store, layer), layer_values(&source, layer));
                    assert_eq!(layer_values(&store, layer)[0], values(2 * layer, 15));
                }
                let table = store_tensor(dir.path(), "table", &[7, 2]);
                assert_eq!(table, values(4, 14));
            }
        }
    }

    #[test]
    fn a_quantized_store_packs_layers_and_keeps_rows_of_tables() {
        for (precision, format) in
            [(StorePrecision::Int8, Format::Int8), (StorePrecision::Q4, Format::Q4)]
        {
            let dir = converted_to(FileDtype::F32, Some(precision));
            let bytes = std::fs::read(dir.path().join(STORE_FILE)).expect("read");
            assert_eq!(bytes[8..16], u64::from(QUANTIZED_VERSION).to_le_bytes());
            let store = Checkpoint::open(dir.path()).expect("valid");
            store.verify().expect("as written");
            let table = store.tensor("table", &[7, 2]).expect("there");
            assert_eq!((table.format(), table.bytes()), (Format::Rows, 7 * 6));
            let mut row = [0; 2 * 6];
            assert_eq!(store.read_rows(table, 5, &mut row).expect("readable"), 12);
            let mut pair = [0.0; 2];
            Format::Rows.widen_row(&row[6..], &mut pair);
            let expected = &values(4, 14)[12..];
            assert!(pair.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.05), "{pair:?}");
            let whole = store_tensor(dir.path(), "table", &[7, 2]);
            assert_eq!(whole[12..], pair);
            assert_eq!(store_tensor(dir.path(), "norm", &[2]), values(5, 2));
            let weight = store.tensor("a.1.w", &[3, 5]).expect("there");
            assert_eq!((weight.format(), weight.bytes()), (format, 15 + 8));
            let error = store.read_f32(weight, &mut [0.0; 15]);
            assert!(matches!(error, Err(Error::Packed { .. })));
            let layers = layered(store);
            let layout = &layers.layers()[1];
            assert_eq!(layout.matrix_formats().collect::<Vec<_>>(), [format]);
            let mut buffer = vec![0xff; layout.bytes()];
            assert_eq!(layers.read_layer(1, &mut buffer).expect("readable"), 64 + 12);
            let signs: Vec<u8> = values(2, 15).iter().map(|it| u8::from(*it < 0.0)).collect();
            assert_eq!(layout.tensor(0, &buffer).1[..15], signs);
            // Without the published files it is a model of its own, and none that could be converted again.
            std::fs::remove_file(dir.path().join("model.safetensors")).expect("removed");
            let alone = Checkpoint::open(dir.path()).expect("valid");
            let again = write_store(&alone, layers.layers(), None, &Signs, dir.path(), &mut |_| ());
            assert!(matches!(again, Err(Error::Packed { .. })));
        }
    }

    #[test]
    fn a_damaged_scale_is_told_even_where_the_checksum_is_right() {
        let mut page = vec![0u8; PAGE];
        page[..4].copy_from_slice(&f32::NAN.to_le_bytes());
        let header = serde_json::json!({
            "source": "",
            "segments": [{"offset": PAGE, "bytes": 12, "blake3": blake3::hash(&page[..12]).to_hex().as_str()}],
            "tensors": [{"name": "a", "dtype": "I8_ROWS", "shape": [2, 2], "offset": PAGE}],
        });
        let dir = tempfile::tempdir().expect("temp dir");
        std::fs::write(dir.path().join(STORE_FILE), store_of(&header, &page)).expect("write");
        let store = Checkpoint::open(dir.path()).expect("a sound header");
        store.verify().expect("as written");
        let info = store.tensor("a", &[2, 2]).expect("there");
        assert!(matches!(store.read_f32(info, &mut [0.0; 4]), Err(Error::NotFinite { .. })));
        assert!(matches!(store.read_rows(info, 0, &mut [0; 6]), Err(Error::NotFinite { .. })));
        assert!(store.read_rows(info, 1, &mut [0; 6]).is_ok());
    }

    fn store_tensor(dir: &Path, name: &str, shape: &[usize]) -> Vec<f32> {
        let store = Checkpoint::open(dir).expect("valid");
        let info = store.tensor(name, shape).expect("there");
        let mut values = vec![0.0; info.elements()];
        store.read_f32(info, &mut values).expect("readable");
        values
    }

    #[test]
    fn a_layer_is_one_read_and_may_pass_the_page_cache() {
        let dir = converted(FileDtype::BF16, None);
        let store = match Checkpoint::open_direct(dir.path()) {
            Ok(store) => store,
            Err(Error::DirectIo { source, .. }) => {
                eprintln!("SKIPPED: the temporary folder can not be read directly: {source}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let store = layered(store);
        // Pages of memory that begin at a page, as the layer window has them.
        let mut memory = vec![0u8; 3 * PAGE];
        let start = memory.as_ptr().align_offset(PAGE);
        for layer in 0..2 {
            let buffer = &mut memory[start..start + PAGE];
            // 15 two-byte weights, three f32 biases from the next cache line on.
            assert_eq!(store.read_layer(layer, buffer).expect("readable"), 64 + 12);
            let (format, raw) = store.layers()[layer].tensor(0, buffer);
            let mut weights = vec![0.0; 15];
            format.widen_row(raw, &mut weights);
            assert_eq!(weights, values(2 * layer, 15));
        }
    }

    #[test]
    fn a_flipped_bit_anywhere_is_noticed() {
        let dir = converted(FileDtype::F32, None);
        let path = dir.path().join(STORE_FILE);
        let bytes = std::fs::read(&path).expect("read");
        let header = u64::from_le_bytes(bytes[16..24].try_into().expect("eight")) as usize;
        let places =
            (0..PREAMBLE_BYTES).chain((PAGE..PAGE + 76).step_by(5)).chain(header..bytes.len());
        for place in places.step_by(3) {
            let mut damaged = bytes.clone();
            damaged[place] ^= 4;
            std::fs::write(&path, &damaged).expect("write");
            let noticed = Checkpoint::open(dir.path()).and_then(|it| {
                let layered = layered(it.clone());
                let mut buffer = vec![0; layered.layers()[0].bytes()];
                layered.read_layer(0, &mut buffer)?;
                it.verify()
            });
            assert!(noticed.is_err(), "byte {place}");
        }
    }

    #[test]
    fn every_truncation_is_noticed() {
        let dir = converted(FileDtype::F32, None);
        let path = dir.path().join(STORE_FILE);
        let length = std::fs::metadata(&path).expect("there").len();
        let file = File::options().write(true).open(&path).expect("open");
        for length in (0..length).rev().step_by(97) {
            file.set_len(length).expect("cut");
            assert!(Checkpoint::open(dir.path()).is_err(), "cut to {length} bytes");
        }
    }

    #[test]
    fn a_store_of_other_weights_is_refused() {
        let dir = converted(FileDtype::F32, None);
        let published = dir.path().join("model.safetensors");
        let file = File::options().write(true).open(&published).expect("open");
        let length = file.metadata().expect("there").len();
        file.write_all_at(&7.5f32.to_le_bytes(), length - 4).expect("another training");
        assert!(matches!(Checkpoint::open(dir.path()), Err(Error::StaleStore { .. })));
        // Without the published files there is nothing it could contradict.
        std::fs::remove_file(&published).expect("remove");
        assert!(Checkpoint::open(dir.path()).is_ok());
    }

    #[test]
    fn values_beyond_the_format_are_refused_and_leave_nothing() {
        let dir = model(FileDtype::F32);
        let file =
            File::options().write(true).open(dir.path().join("model.safetensors")).expect("open");
        let length = file.metadata().expect("there").len();
        file.write_all_at(&1e6f32.to_le_bytes(), length - 12).expect("the table's last value");
        let checkpoint = Checkpoint::open(dir.path()).expect("valid");
        let write = |dtype| {
            let precision = Some(StorePrecision::Plain(dtype));
            write_store(&checkpoint, &[], precision, &Signs, dir.path(), &mut |_| ())
        };
        assert!(matches!(write(Dtype::F16), Err(Error::DoesNotFit { .. })));
        let files = std::fs::read_dir(dir.path()).expect("there").count();
        assert_eq!(files, 1, "something half is left");
        write(Dtype::Bf16).expect("fits");
    }

    /// A store with this header and one page of data.
    fn store_of(header: &serde_json::Value, page: &[u8]) -> Vec<u8> {
        let json = serde_json::to_vec(header).expect("json");
        let start = 2 * PAGE as u64;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(u64::from(QUANTIZED_VERSION).to_le_bytes());
        bytes.extend(start.to_le_bytes());
        bytes.extend((json.len() as u64).to_le_bytes());
        bytes.extend(blake3::hash(&json).as_bytes());
        bytes.resize(PAGE, 0);
        bytes.extend(page);
        bytes.extend(json);
        bytes
    }

    fn forged(header: &serde_json::Value) -> Result<Checkpoint> {
        let dir = tempfile::tempdir().expect("temp dir");
        let bytes = store_of(header, &[0; PAGE]);
        std::fs::write(dir.path().join(STORE_FILE), bytes).expect("write");
        Checkpoint::open(dir.path())
    }

    #[test]
    fn headers_that_lie_are_refused_even_with_the_right_checksum() {
        let header = |segments: serde_json::Value, tensors: serde_json::Value| {
            forged(&serde_json::json!({"source": "", "segments": segments, "tensors": tensors}))
        };
        let segment = |offset: u64, bytes: u64| serde_json::json!({"offset": offset, "bytes": bytes, "blake3": ""});
        let tensor = |name: &str, dtype: &str, shape: &[u64], offset: u64| serde_json::json!({"name": name, "dtype": dtype, "shape": shape, "offset": offset});
        let packed = |dtype: &str, shape: &[u64], bytes: u64| serde_json::json!({"name": "a", "dtype": dtype, "shape": shape, "offset": 4096, "bytes": bytes});
        let good = serde_json::json!([segment(4096, 4096)]);
        for tensors in [
            serde_json::json!([packed("I8_PACKED", &[64, 60], 4096)]),
            serde_json::json!([packed("Q4_PACKED", &[64, 128], 4096)]),
            serde_json::json!([tensor("a", "I8_ROWS", &[512, 4], 4096)]),
        ] {
            assert!(header(good.clone(), tensors.clone()).is_ok(), "{tensors}");
        }
        let none = serde_json::json!([]);
        assert!(
            header(good.clone(), serde_json::json!([tensor("a", "F32", &[1024], 4096)])).is_ok()
        );
        for segments in [
            serde_json::json!([]),
            serde_json::json!([segment(0, 8192)]),
            serde_json::json!([segment(4096, 4097)]),
            serde_json::json!([segment(4096, u64::MAX)]),
            serde_json::json!([segment(4096, u64::MAX - 4096)]),
            serde_json::json!([segment(4096, 100), segment(4096, 100)]),
        ] {
            let error = header(segments.clone(), none.clone());
            assert!(matches!(error, Err(Error::BadStore { .. })), "{segments}: {error:?}");
        }
        for tensors in [
            serde_json::json!([tensor("a", "F32", &[1025], 4096)]),
            serde_json::json!([tensor("a", "F32", &[4], 0)]),
            serde_json::json!([tensor("a", "F32", &[4], 4100)]),
            serde_json::json!([tensor("a", "F32", &[4], u64::MAX - 63)]),
            serde_json::json!([tensor("a", "F32", &[1 << 62, 16], 4096)]),
            serde_json::json!([tensor("a", "F32", &[32], 4096), tensor("b", "F32", &[4], 4160)]),
            serde_json::json!([tensor("a", "F32", &[4], 4096), tensor("a", "F32", &[4], 4160)]),
            serde_json::json!([tensor("a", "I64", &[4], 4096)]),
            // Rows of four bytes and a scale each, of which 512 fit a page.
            serde_json::json!([tensor("a", "I8_ROWS", &[513, 4], 4096)]),
            serde_json::json!([tensor("a", "I8_ROWS", &[4], 4096)]),
            serde_json::json!([tensor("a", "I8_ROWS", &[2, u64::MAX - 1], 4096)]),
            // Packed matrices say how long they are, and no less than their codes.
            serde_json::json!([tensor("a", "I8_PACKED", &[8, 8], 4096)]),
            serde_json::json!([packed("I8_PACKED", &[8, 8], 63)]),
            serde_json::json!([packed("I8_PACKED", &[64, 64], 4097)]),
            serde_json::json!([packed("I8_PACKED", &[64], 4096)]),
            serde_json::json!([packed("I8_PACKED", &[1 << 40, 1 << 40], 4096)]),
            serde_json::json!([packed("Q4_PACKED", &[8, 8], 31)]),
            serde_json::json!([packed("Q4_PACKED", &[8, 8], u64::MAX)]),
            // What the shape says is not said twice.
            serde_json::json!([packed("F32", &[2, 2], 16)]),
        ] {
            let error = header(good.clone(), tensors.clone());
            assert!(matches!(error, Err(Error::BadStore { .. })), "{tensors}: {error:?}");
        }
    }

    proptest! {
        /// Any bytes are an answer, never a panic.
        #[test]
        fn garbage_is_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..200), magic in any::<bool>()) {
            if magic && bytes.len() >= 16 {
                bytes[..8].copy_from_slice(&MAGIC);
                bytes[8..16].copy_from_slice(&u64::from(PLAIN_VERSION).to_le_bytes());
            }
            let dir = tempfile::tempdir().expect("temp dir");
            std::fs::write(dir.path().join(STORE_FILE), bytes).expect("write");
            prop_assert!(Checkpoint::open(dir.path()).is_err());
        }
    }
}
