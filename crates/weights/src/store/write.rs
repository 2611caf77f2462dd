//! Making a store.

use std::{
    collections::HashSet,
    fs::File,
    io::{BufWriter, Seek as _, SeekFrom, Write},
    path::{Path, PathBuf},
};

use super::{
    COPY_BYTES, MAGIC, PAGE, PLAIN_VERSION, PREAMBLE_BYTES, QUANTIZED_VERSION, STORE_FILE,
    entry::{Header, SegmentEntry, StoreFormat, TensorEntry},
    source_fingerprint,
};
use crate::{
    Checkpoint, Dtype, Error, Format, LayerLayout, Pack, Result, StorePrecision, TensorInfo,
    format::parts, layout::TENSOR_ALIGNMENT,
};

/// What [`write_store`] wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreSummary {
    /// Bytes of the file.
    pub bytes: u64,
    /// Tensors in it.
    pub tensors: usize,
}

/// Writes the store of `source` into `dir`: each of `layers` as one segment, then every other tensor.
/// Matrices are stored in `precision` (`None`: as they are), those of quantized layers packed by `pack`;
/// vectors as f32. `progress` sees the bytes written. The file appears under its name when it is complete,
/// or not at all.
///
/// # Errors
/// When a file can not be read or written, a value does not fit the format, or `source` is packed itself.
pub fn write_store(
    source: &Checkpoint,
    layers: &[LayerLayout],
    precision: Option<StorePrecision>,
    pack: &dyn Pack,
    dir: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<StoreSummary> {
    let path = dir.join(STORE_FILE);
    let partial = dir.join(format!("{STORE_FILE}.partial"));
    let io = |source| Error::Io { path: path.clone(), source };
    let file = File::create(&partial).map_err(io)?;
    let mut writer = StoreWriter {
        source,
        precision,
        pack,
        out: BufWriter::with_capacity(COPY_BYTES, file),
        at: 0,
        path: path.clone(),
        header: Header {
            source: source_fingerprint(source.dir())?.unwrap_or_default(),
            segments: Vec::new(),
            tensors: Vec::new(),
        },
    };
    let written = writer.write_all(layers, progress).and_then(|()| writer.finish());
    let summary = match written {
        Ok(summary) => summary,
        Err(error) => {
            // Nothing half stays behind; that it can not be removed matters less than why.
            let _ = std::fs::remove_file(&partial);
            return Err(error);
        }
    };
    std::fs::rename(&partial, &path).map_err(io)?;
    Ok(summary)
}

struct StoreWriter<'a> {
    source: &'a Checkpoint,
    precision: Option<StorePrecision>,
    pack: &'a dyn Pack,
    out: BufWriter<File>,
    at: u64,
    path: PathBuf,
    header: Header,
}

impl StoreWriter<'_> {
    fn write_all(&mut self, layers: &[LayerLayout], progress: &mut dyn FnMut(u64)) -> Result<()> {
        self.pad(PAGE)?;
        let mut done: HashSet<&str> = HashSet::new();
        for layer in layers {
            let tensors: Vec<&TensorInfo> = layer.placed().iter().map(|it| &it.info).collect();
            done.extend(tensors.iter().map(|it| it.name.as_str()));
            self.segment(&tensors, true)?;
            progress(self.at);
        }
        let source = self.source;
        for info in source.tensors().filter(|it| !done.contains(it.name.as_str())) {
            // What has no format that is computed from (numbered positions) is needed by nobody.
            if source.supported(info).is_ok() {
                self.segment(&[info], false)?;
                progress(self.at);
            }
        }
        Ok(())
    }

    fn segment(&mut self, tensors: &[&TensorInfo], layer: bool) -> Result<()> {
        let offset = self.at;
        let mut hasher = blake3::Hasher::new();
        let mut end = offset;
        for info in tensors {
            // Zeros between tensors belong to the segment, as they do in memory.
            let gap =
                vec![0; (self.at.next_multiple_of(TENSOR_ALIGNMENT as u64) - self.at) as usize];
            self.write(&gap, &mut hasher)?;
            let format = match self.precision {
                _ if info.shape.len() < 2 => Format::Plain(Dtype::F32),
                Some(precision) if layer => precision.of_layer(),
                Some(precision) => precision.of_other(&info.shape),
                None => info.format(),
            };
            let start = self.at;
            if format.is_packed() {
                self.packed(info, format, &mut hasher)?;
            } else {
                self.rows(info, format, &mut hasher)?;
            }
            self.header.tensors.push(TensorEntry {
                name: info.name.clone(),
                dtype: StoreFormat::of(format),
                shape: info.shape.clone(),
                offset: start,
                bytes: format.is_packed().then_some(self.at - start),
            });
            end = self.at;
        }
        self.header.segments.push(SegmentEntry {
            offset,
            bytes: end - offset,
            blake3: hasher.finalize().to_hex().to_string(),
        });
        self.pad(PAGE)
    }

    fn rows(
        &mut self,
        info: &TensorInfo,
        format: Format,
        hasher: &mut blake3::Hasher,
    ) -> Result<()> {
        let mut values = Vec::new();
        let mut raw = Vec::new();
        let width = if info.shape.len() > 1 { info.width() } else { 1 };
        for part in parts(info.elements(), width, COPY_BYTES / 4) {
            values.resize(part.len(), 0.0);
            self.source.read_elements_f32(info, part.start, &mut values)?;
            raw.clear();
            values.chunks(width).for_each(|row| format.narrow_row(row, &mut raw));
            if !format.all_finite(&raw, width) {
                return Err(does_not_fit(info, format));
            }
            self.write(&raw, hasher)?;
        }
        Ok(())
    }

    /// The whole matrix at once: a packed one has no rows.
    fn packed(
        &mut self,
        info: &TensorInfo,
        format: Format,
        hasher: &mut blake3::Hasher,
    ) -> Result<()> {
        let [outputs, inputs] = info.shape[..] else { return Err(does_not_fit(info, format)) };
        let bytes = self.pack.packed_bytes(format, outputs, inputs);
        let mut raw = vec![0; bytes.ok_or_else(|| does_not_fit(info, format))?];
        let mut values = vec![0.0; info.elements()];
        self.source.read_f32(info, &mut values)?;
        self.pack.pack(format, &values, outputs, inputs, &mut raw);
        self.write(&raw, hasher)
    }

    fn write(&mut self, bytes: &[u8], hasher: &mut blake3::Hasher) -> Result<()> {
        hasher.update(bytes);
        self.put(bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let io = |source| Error::Io { path: self.path.clone(), source };
        self.out.write_all(bytes).map_err(io)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn pad(&mut self, alignment: usize) -> Result<()> {
        let start = if self.at == 0 { PAGE as u64 } else { self.at };
        let end = start.next_multiple_of(alignment as u64);
        let zeros = vec![0; (end - self.at) as usize];
        self.put(&zeros)
    }

    /// Header and preamble, and everything on disk before the file gets its name.
    fn finish(&mut self) -> Result<StoreSummary> {
        let path = self.path.clone();
        let io = |source| Error::Io { path: path.clone(), source };
        let json = serde_json::to_vec(&self.header)
            .map_err(|error| Error::BadStore { path: path.clone(), why: error.to_string() })?;
        let start = self.at;
        self.put(&json)?;
        let mut preamble = Vec::with_capacity(PREAMBLE_BYTES);
        preamble.extend_from_slice(&MAGIC);
        let quantized = |it: &TensorEntry| !matches!(it.dtype.format(), Format::Plain(_));
        let version = match self.header.tensors.iter().any(quantized) {
            true => QUANTIZED_VERSION,
            false => PLAIN_VERSION,
        };
        preamble.extend_from_slice(&u64::from(version).to_le_bytes());
        preamble.extend_from_slice(&start.to_le_bytes());
        preamble.extend_from_slice(&(json.len() as u64).to_le_bytes());
        preamble.extend_from_slice(blake3::hash(&json).as_bytes());
        let out = &mut self.out;
        out.seek(SeekFrom::Start(0)).map_err(io)?;
        out.write_all(&preamble).map_err(io)?;
        out.flush().map_err(io)?;
        out.get_ref().sync_all().map_err(io)?;
        Ok(StoreSummary { bytes: self.at, tensors: self.header.tensors.len() })
    }
}

fn does_not_fit(info: &TensorInfo, format: Format) -> Error {
    Error::DoesNotFit { tensor: info.name.clone(), dtype: format.name().to_owned() }
}
