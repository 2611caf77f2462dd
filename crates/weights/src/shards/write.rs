//! Making a store of shards.

use std::{
    fs::File,
    io::{BufWriter, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use super::{Entry, Header, MAGIC, PREAMBLE_BYTES, VERSION, small_offset};
use crate::{Centroids, Error, PAGE, Result, ShardShape, fidelity::SHARD_ALIGNMENT};

/// What a [`ShardWriter`] wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardSummary {
    /// Bytes of the file.
    pub bytes: u64,
    /// Shards in it.
    pub shards: usize,
}

/// Writes a store: the small part of every layer, then every shard by layer, fidelity (ascending) and slice. The file
/// appears under its name when it is complete, or not at all.
#[derive(Debug)]
pub struct ShardWriter {
    path: PathBuf,
    partial: PathBuf,
    out: BufWriter<File>,
    at: u64,
    header: Header,
    /// Whether the file has got its name.
    done: bool,
}

impl ShardWriter {
    /// Begins a store of weights that `source` names.
    ///
    /// # Errors
    /// When the file can not be made, or the shape is none.
    pub fn create(
        path: &Path,
        shape: ShardShape,
        source: &str,
        centroids: Centroids,
    ) -> Result<ShardWriter> {
        let io = |source| Error::Io { path: path.to_path_buf(), source };
        shape.check().map_err(|why| Error::BadShards { path: path.to_path_buf(), why })?;
        // Two processes that make the same store do not write into one file.
        let partial = path.with_extension(format!("shards.{}", std::process::id()));
        let file = File::create(&partial).map_err(io)?;
        let header = Header {
            source: source.to_owned(),
            shape,
            centroids,
            heads: Vec::new(),
            small: Vec::new(),
            shards: Vec::new(),
        };
        let out = BufWriter::with_capacity(1 << 20, file);
        Ok(ShardWriter { path: path.to_path_buf(), partial, out, at: 0, header, done: false })
    }

    /// The small part of the next layer, and the model's own numbers of its heads in the order of the slices.
    ///
    /// # Errors
    /// When it can not be written.
    ///
    /// # Panics
    /// When it has another length than the shape says: the caller's bug.
    pub fn small(&mut self, raw: &[u8], heads: Vec<u16>) -> Result<()> {
        let shape = self.header.shape;
        assert_eq!(raw.len(), shape.small_bytes(), "not the small part of a layer");
        self.pad_to(small_offset(&shape, self.header.small.len()))?;
        self.put(raw)?;
        self.header.small.push(blake3::hash(raw).to_hex().to_string());
        self.header.heads.push(heads);
        Ok(())
    }

    /// The next shard: its weights, then its outliers.
    ///
    /// # Errors
    /// When it can not be written.
    ///
    /// # Panics
    /// When it is none, or there are too many: the caller's bug.
    pub fn shard(&mut self, raw: &[u8]) -> Result<()> {
        let shape = self.header.shape;
        let number = self.header.shards.len();
        let (run, slice) = (number / shape.slices, number % shape.slices);
        let count = shape.fidelities().count();
        let fidelity = shape.fidelities().nth(run % count);
        let fidelity = fidelity.filter(|_| run / count < shape.layers);
        let fidelity = fidelity.expect("there are no more shards than the shape has");
        let outliers = raw.len().checked_sub(shape.weight_bytes(fidelity));
        let outliers = outliers.filter(|it| it.is_multiple_of(shape.numbers.outlier_bytes()));
        let outliers = outliers.expect("a shard is its weights and its outliers");
        if run == 0 && slice == 0 {
            self.pad_to(small_offset(&shape, shape.layers))?;
        }
        let alignment = if slice == 0 { PAGE } else { SHARD_ALIGNMENT };
        self.pad_to(self.at.next_multiple_of(alignment as u64))?;
        self.put(raw)?;
        self.header.shards.push(Entry {
            outliers: (outliers / shape.numbers.outlier_bytes()) as u32,
            blake3: blake3::hash(raw).to_hex().to_string(),
        });
        Ok(())
    }

    /// Header and preamble, and everything on disk before the file gets its name.
    ///
    /// # Errors
    /// When it can not be written.
    ///
    /// # Panics
    /// When shards are missing: the caller's bug.
    pub fn finish(mut self) -> Result<ShardSummary> {
        let ShardShape { layers, slices, .. } = self.header.shape;
        let shards = layers * slices * self.header.shape.fidelities().count();
        assert_eq!(self.header.shards.len(), shards, "not all shards were written");
        let path = self.path.clone();
        let io = |source| Error::Io { path: path.clone(), source };
        self.pad_to(self.at.next_multiple_of(PAGE as u64))?;
        let json = serde_json::to_vec(&self.header)
            .map_err(|error| Error::BadShards { path: path.clone(), why: error.to_string() })?;
        let start = self.at;
        self.put(&json)?;
        let mut preamble = Vec::with_capacity(PREAMBLE_BYTES);
        preamble.extend_from_slice(&MAGIC);
        preamble.extend_from_slice(&VERSION.to_le_bytes());
        preamble.extend_from_slice(&start.to_le_bytes());
        preamble.extend_from_slice(&(json.len() as u64).to_le_bytes());
        preamble.extend_from_slice(blake3::hash(&json).as_bytes());
        self.out.seek(SeekFrom::Start(0)).map_err(io)?;
        self.out.write_all(&preamble).map_err(io)?;
        self.out.flush().map_err(io)?;
        self.out.get_ref().sync_all().map_err(io)?;
        std::fs::rename(&self.partial, &self.path).map_err(io)?;
        self.done = true;
        Ok(ShardSummary { bytes: self.at, shards })
    }

    fn put(&mut self, raw: &[u8]) -> Result<()> {
        let io = |source| Error::Io { path: self.path.clone(), source };
        self.out.write_all(raw).map_err(io)?;
        self.at += raw.len() as u64;
        Ok(())
    }

    fn pad_to(&mut self, end: u64) -> Result<()> {
        let zeros = vec![0; (end - self.at) as usize];
        self.put(&zeros)
    }
}

impl Drop for ShardWriter {
    fn drop(&mut self) {
        if !self.done {
            // Nothing half stays behind; that it can not be removed matters less than why.
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}
