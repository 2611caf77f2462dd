//! A model as shards of several fidelities: for each layer and slice the same weights in two to six bits and as they
//! are, so that what is read can be fitted to the time there is (STI, §4.2).
//!
//! Layout: 64 bytes of preamble (magic, version, place, length and BLAKE3 of the header), zeros to the next page; a
//! small part of each layer (scales, biases, norms, dictionaries: the same for every fidelity); then for each layer and
//! fidelity one run from a page on, its shards side by side; the header. What a plan takes of a layer is mostly the
//! first slices in one fidelity: one read. Where anything lies follows from shape and numbers of outliers, so a header
//! can not lie about it. A shard is compared with its checksum when it is first read.
//!
//! The file is derived from a model and kept elsewhere: its folder stays as it was.

mod write;

use std::{
    fs::File,
    ops::Range,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use serde::{Deserialize, Serialize};

pub use write::{ShardSummary, ShardWriter};

use crate::{
    Centroids, Error, Fidelity, PAGE, Result, ShardNumbers, ShardShape, fidelity::SHARD_ALIGNMENT,
    open_file, store::open_direct, tensor::read_exact_at,
};

const MAGIC: [u8; 8] = *b"RDLSHARD";

const VERSION: u64 = 1;

const PREAMBLE_BYTES: usize = 64;

/// A checksum and a count for each shard: a hundred bytes for one of a hundred kilobytes.
const MAX_HEADER_BYTES: u64 = 16 << 20;

/// A shard: which slice of which layer, how exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId {
    /// From 0.
    pub layer: usize,
    /// From 0, the most important first.
    pub slice: usize,
    /// Its bits.
    pub fidelity: Fidelity,
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    /// What the weights were made from, as whoever made them names it.
    source: String,
    shape: ShardShape,
    centroids: Centroids,
    /// For each layer the model's own numbers of the heads, in the order of the slices.
    heads: Vec<Vec<u16>>,
    /// BLAKE3 of each layer's small part.
    small: Vec<String>,
    /// Of each shard, by layer, fidelity and slice.
    shards: Vec<Entry>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    outliers: u32,
    blake3: String,
}

/// An open store of shards.
#[derive(Debug)]
pub struct ShardStore {
    path: PathBuf,
    file: File,
    /// The same file, read past the page cache.
    direct: Option<File>,
    header: Header,
    fidelities: Vec<Fidelity>,
    /// First byte of each shard, by layer, fidelity and slice.
    offsets: Vec<u64>,
    /// Compared with its checksum once since the store was opened.
    verified: Vec<AtomicBool>,
}

impl ShardStore {
    /// Opens a store and checks everything that its header claims. `source` is what the model is called now; `direct`
    /// reads past the page cache where the system can.
    ///
    /// # Errors
    /// A file that can not be read, ends too early or too late, is no store of shards, does not match its header's
    /// checksum, or was made from other weights.
    pub fn open(path: &Path, source: &str, direct: bool) -> Result<ShardStore> {
        let io = |source| Error::Io { path: path.to_path_buf(), source };
        let bad = |why: String| Error::BadShards { path: path.to_path_buf(), why };
        let file = open_file(path).map_err(io)?;
        let (header, data_end) = read_header(&file, path)?;
        header.shape.check().map_err(bad)?;
        if header.source != source {
            return Err(Error::StaleShards { path: path.to_path_buf() });
        }
        let fidelities: Vec<Fidelity> = header.shape.fidelities().collect();
        let offsets = places(&header, &fidelities, data_end).map_err(bad)?;
        // A file system that can not is no reason to read nothing.
        let direct = direct.then(|| open_direct(path).ok()).flatten();
        let verified = offsets.iter().map(|_| AtomicBool::new(false)).collect();
        let path = path.to_path_buf();
        Ok(ShardStore { path, file, direct, header, fidelities, offsets, verified })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How the model is cut.
    pub fn shape(&self) -> &ShardShape {
        &self.header.shape
    }

    /// How its dictionaries were found.
    pub fn centroids(&self) -> Centroids {
        self.header.centroids
    }

    /// The model's own numbers of a layer's heads, in the order of the slices.
    pub fn heads(&self, layer: usize) -> &[u16] {
        &self.header.heads[layer]
    }

    /// Fidelities that there are, ascending.
    pub fn fidelities(&self) -> &[Fidelity] {
        &self.fidelities
    }

    /// Whether files are read past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Bytes of a shard.
    ///
    /// # Panics
    /// When there is no such shard: the caller's bug.
    pub fn bytes(&self, id: ShardId) -> usize {
        self.shape().shard_bytes(id.fidelity, self.outliers(id))
    }

    /// Outliers of a shard.
    ///
    /// # Panics
    /// As [`bytes`](Self::bytes).
    pub fn outliers(&self, id: ShardId) -> usize {
        self.header.shards[self.index(id)].outliers as usize
    }

    /// Where a shard lies in the file.
    ///
    /// # Panics
    /// As [`bytes`](Self::bytes).
    pub fn range(&self, id: ShardId) -> Range<u64> {
        let start = self.offsets[self.index(id)];
        start..start + self.bytes(id) as u64
    }

    fn index(&self, id: ShardId) -> usize {
        let ShardShape { layers, slices, .. } = *self.shape();
        let width = self.fidelities.iter().position(|it| *it == id.fidelity);
        let inside = id.layer < layers && id.slice < slices;
        let width = width.filter(|_| inside).expect("the store has no such shard: this is a bug");
        (id.layer * self.fidelities.len() + width) * slices + id.slice
    }

    /// Reads a layer's small part: f32 numbers, then dictionaries, as [`ShardShape`] places them.
    ///
    /// # Errors
    /// When it can not be read, does not match its checksum, or holds what is no number.
    ///
    /// # Panics
    /// When there is no such layer: the caller's bug.
    pub fn read_small(&self, layer: usize) -> Result<Vec<u8>> {
        let shape = self.shape();
        let mut raw = vec![0; shape.small_bytes()];
        let offset = small_offset(shape, layer);
        read_exact_at(&self.file, &mut raw, offset)
            .map_err(|source| Error::Io { path: self.path.clone(), source })?;
        if blake3::hash(&raw).to_hex().as_str() != self.header.small[layer] {
            return Err(self.checksum(offset));
        }
        let floats = shape.small_numbers() * size_of::<f32>();
        let end = if shape.numbers == ShardNumbers::F32 { raw.len() } else { floats };
        let finite =
            |raw: &[u8]| raw.as_chunks().0.iter().all(|it| f32::from_le_bytes(*it).is_finite());
        if !finite(&raw[..end]) {
            let why = format!("the small part of layer {} holds what is no number", layer + 1);
            return Err(Error::BadShards { path: self.path.clone(), why });
        }
        Ok(raw)
    }

    /// Reads bytes of the file as they are, for shards side by side in one go. Past the page cache where `out` begins
    /// at a page in memory and `offset` and its length are whole pages; the last page of the file may be cut.
    ///
    /// # Errors
    /// When they can not be read.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let io = |source| Error::Io { path: self.path.clone(), source };
        let whole = offset.is_multiple_of(PAGE as u64)
            && out.len().is_multiple_of(PAGE)
            && out.as_ptr().addr().is_multiple_of(PAGE);
        match &self.direct {
            Some(direct) if whole => read_exact_at(direct, out, offset).map_err(io),
            _ => read_exact_at(&self.file, out, offset).map_err(io),
        }
    }

    /// Compares a shard's bytes with its checksum, unless that has been done before, and sees that its outliers lie
    /// within it.
    ///
    /// # Errors
    /// [`Error::ShardChecksum`], or [`Error::BadShards`] for outliers that can not be.
    ///
    /// # Panics
    /// As [`bytes`](Self::bytes).
    pub fn check(&self, id: ShardId, raw: &[u8]) -> Result<()> {
        let index = self.index(id);
        if self.verified[index].load(Ordering::Relaxed) {
            return Ok(());
        }
        if blake3::hash(raw).to_hex().as_str() != self.header.shards[index].blake3 {
            return Err(self.checksum(self.offsets[index]));
        }
        let shape = self.shape();
        let outliers = raw.get(shape.weight_bytes(id.fidelity)..).unwrap_or(&[]);
        if !outliers_are_inside(shape, outliers) {
            let why = format!("an outlier of layer {} lies outside its shard", id.layer + 1);
            return Err(Error::BadShards { path: self.path.clone(), why });
        }
        self.verified[index].store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Reads a shard.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at) and [`check`](Self::check).
    ///
    /// # Panics
    /// As [`bytes`](Self::bytes).
    pub fn read(&self, id: ShardId) -> Result<Vec<u8>> {
        let range = self.range(id);
        let mut raw = vec![0; self.bytes(id)];
        self.read_at(range.start, &mut raw)?;
        self.check(id, &raw)?;
        Ok(raw)
    }

    /// Reads everything and compares it with its checksums.
    ///
    /// # Errors
    /// The first part that does not match, or can not be read.
    pub fn verify(&self) -> Result<()> {
        let ShardShape { layers, slices, .. } = *self.shape();
        for layer in 0..layers {
            self.read_small(layer)?;
            for &fidelity in &self.fidelities {
                for slice in 0..slices {
                    let id = ShardId { layer, slice, fidelity };
                    self.verified[self.index(id)].store(false, Ordering::Relaxed);
                    self.read(id)?;
                }
            }
        }
        Ok(())
    }

    fn checksum(&self, offset: u64) -> Error {
        Error::ShardChecksum { path: self.path.clone(), offset }
    }
}

/// Where a layer's small part begins.
fn small_offset(shape: &ShardShape, layer: usize) -> u64 {
    (PAGE + layer * shape.small_bytes().next_multiple_of(PAGE)) as u64
}

/// First byte of each shard; says so when they do not end where the header begins.
fn places(header: &Header, fidelities: &[Fidelity], data_end: u64) -> Result<Vec<u64>, String> {
    let shape = &header.shape;
    let ShardShape { layers, slices, .. } = *shape;
    let count = layers * fidelities.len() * slices;
    if header.shards.len() != count || header.small.len() != layers || header.heads.len() != layers
    {
        return Err("it does not list what its shape has".to_owned());
    }
    for heads in &header.heads {
        let mut sorted = heads.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq((0..slices).map(|it| it as u16)) {
            return Err("a layer's heads are not all there once".to_owned());
        }
    }
    let mut at = small_offset(shape, layers);
    let mut offsets = Vec::with_capacity(count);
    for (number, entry) in header.shards.iter().enumerate() {
        let (run, slice) = (number / slices, number % slices);
        let fidelity = fidelities[run % fidelities.len()];
        let outliers = entry.outliers as usize;
        let most = if fidelity.is_dictionary() { shape.most_outliers() } else { 0 };
        if outliers > most {
            return Err(format!("a shard of {fidelity} bits has {outliers} outliers"));
        }
        let alignment = if slice == 0 { PAGE } else { SHARD_ALIGNMENT };
        at = at.next_multiple_of(alignment as u64);
        offsets.push(at);
        // Shapes are checked and counts capped, so that no sum is near what 64 bits hold.
        at += shape.shard_bytes(fidelity, outliers) as u64;
    }
    let end = at.next_multiple_of(PAGE as u64);
    if end != data_end {
        return Err(format!("its shards end at byte {end}, the header begins at {data_end}"));
    }
    Ok(offsets)
}

/// Whether the places of outliers ascend and are all among the weights.
fn outliers_are_inside(shape: &ShardShape, raw: &[u8]) -> bool {
    let mut next = 0;
    raw.chunks_exact(shape.numbers.outlier_bytes()).all(|it| {
        let word = it.first_chunk().map_or(u32::MAX, |it| u32::from_le_bytes(*it));
        let place = match shape.numbers {
            ShardNumbers::Int8 => word >> 8,
            ShardNumbers::F32 => word,
        } as usize;
        let good = place >= next && place < shape.elements();
        next = place + 1;
        good
    })
}

/// Reads preamble and header; returns the header and where the data ends.
fn read_header(file: &File, path: &Path) -> Result<(Header, u64)> {
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    let bad = |why: String| Error::BadShards { path: path.to_path_buf(), why };
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
        return Err(bad("it does not begin as shards do".to_owned()));
    }
    if number(8) != VERSION {
        return Err(bad(format!("it has version {}, this program reads {VERSION}", number(8))));
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
        return Err(Error::ShardChecksum { path: path.to_path_buf(), offset: start });
    }
    let header = serde_json::from_slice(&json).map_err(|error| bad(error.to_string()))?;
    Ok((header, start))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHAPE: ShardShape =
        ShardShape { numbers: ShardNumbers::Int8, layers: 2, slices: 2, hidden: 32, inner: 64 };

    /// Byte i of a part is i times a number of the part's own.
    fn part(number: usize, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|it| (it * (2 * number + 1) + number) as u8).collect()
    }

    /// The small part of a layer whose numbers are all finite.
    fn small(layer: usize) -> Vec<u8> {
        let numbers = (0..SHAPE.small_numbers()).map(|it| (it + layer) as f32 / 8.0);
        let mut raw: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
        raw.resize(SHAPE.small_bytes(), layer as u8);
        raw
    }

    fn shard(number: usize, id: ShardId) -> Vec<u8> {
        let mut raw = part(number, SHAPE.weight_bytes(id.fidelity));
        if id.fidelity.is_dictionary() {
            for place in 0..number as u32 % 4 {
                raw.extend_from_slice(&(place << 8 | 7).to_le_bytes());
            }
        }
        raw
    }

    fn ids() -> impl Iterator<Item = ShardId> {
        let of_layer = |layer| {
            SHAPE.fidelities().flat_map(move |fidelity| {
                (0..SHAPE.slices).map(move |slice| ShardId { layer, slice, fidelity })
            })
        };
        (0..SHAPE.layers).flat_map(of_layer)
    }

    fn written() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("model.shards");
        let mut writer =
            ShardWriter::create(&path, SHAPE, "weights", Centroids::Lloyd).expect("a file");
        for layer in 0..SHAPE.layers {
            writer.small(&small(layer), vec![1, 0]).expect("written");
        }
        for (number, id) in ids().enumerate() {
            writer.shard(&shard(number, id)).expect("written");
        }
        writer.finish().expect("complete");
        (dir, path)
    }

    #[test]
    fn a_store_holds_what_it_was_made_from() {
        let (dir, path) = written();
        let left: Vec<_> = std::fs::read_dir(dir.path()).expect("a folder").collect();
        assert_eq!(left.len(), 1, "nothing half stays behind");
        let store = ShardStore::open(&path, "weights", false).expect("valid");
        store.verify().expect("as written");
        assert_eq!((store.shape(), store.heads(1)), (&SHAPE, &[1, 0][..]));
        for layer in 0..SHAPE.layers {
            assert_eq!(store.read_small(layer).expect("readable"), small(layer));
        }
        for (number, id) in ids().enumerate() {
            assert_eq!(store.read(id).expect("readable"), shard(number, id));
            let start = store.range(id).start;
            assert!(
                start.is_multiple_of(if id.slice == 0 { PAGE } else { SHARD_ALIGNMENT } as u64)
            );
        }
        // Neighbors are one read, past the page cache whole pages of it.
        let first = ShardId { layer: 1, slice: 0, fidelity: Fidelity::LEAST };
        let second = ShardId { slice: 1, ..first };
        let gap = store.range(second).start - store.range(first).end;
        assert!(gap < SHARD_ALIGNMENT as u64, "{gap} bytes between neighbors");
    }

    #[test]
    fn other_weights_and_other_files_are_told() {
        let (_dir, path) = written();
        let stale = ShardStore::open(&path, "other weights", false);
        assert!(matches!(stale, Err(Error::StaleShards { .. })));
        let bytes = std::fs::read(&path).expect("read");
        let open = |bytes: &[u8]| {
            let dir = tempfile::tempdir().expect("temp dir");
            let path = dir.path().join("model.shards");
            std::fs::write(&path, bytes).expect("write");
            let store = ShardStore::open(&path, "weights", false)?;
            store.verify()
        };
        assert!(matches!(open(&bytes[..40]), Err(Error::Truncated { .. })));
        assert!(matches!(open(&bytes[..bytes.len() - 1]), Err(Error::Truncated { .. })));
        assert!(matches!(open(&[&bytes[..], b"x"].concat()), Err(Error::TrailingBytes { .. })));
        let with = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] ^= byte;
            bytes
        };
        assert!(matches!(open(&with(0, 1)), Err(Error::BadShards { .. })));
        assert!(matches!(open(&with(8, 2)), Err(Error::BadShards { .. })));
        assert!(matches!(open(&with(30, 0x80)), Err(Error::HeaderTooLarge { .. })));
        assert!(matches!(open(&with(40, 1)), Err(Error::ShardChecksum { .. })));
        assert!(matches!(open(&with(PAGE + 5, 1)), Err(Error::ShardChecksum { .. })));
        let last = bytes.len() - 2;
        assert!(matches!(open(&with(last, 1)), Err(Error::ShardChecksum { .. })));
    }

    /// The file with another header, whose checksum is right.
    fn with_header(bytes: &[u8], change: impl Fn(&mut serde_json::Value)) -> Vec<u8> {
        let start = u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes")) as usize;
        let mut header = serde_json::from_slice(&bytes[start..]).expect("JSON");
        change(&mut header);
        let json = serde_json::to_vec(&header).expect("JSON");
        let mut changed = bytes[..start].to_vec();
        changed[24..32].copy_from_slice(&(json.len() as u64).to_le_bytes());
        changed[32..64].copy_from_slice(blake3::hash(&json).as_bytes());
        changed.extend(json);
        changed
    }

    #[test]
    fn each_lie_of_a_header_has_its_words() {
        let (_dir, path) = written();
        let bytes = std::fs::read(&path).expect("read");
        let told = |change: &dyn Fn(&mut serde_json::Value)| {
            let dir = tempfile::tempdir().expect("temp dir");
            let path = dir.path().join("model.shards");
            std::fs::write(&path, with_header(&bytes, change)).expect("write");
            match ShardStore::open(&path, "weights", false).map(|it| it.verify()) {
                Ok(Ok(())) => String::new(),
                Ok(Err(error)) | Err(error) => error.to_string(),
            }
        };
        assert_eq!(told(&|_| ()), "");
        type Lie = dyn Fn(&mut serde_json::Value);
        let lies: [(&str, &Lie); 10] = [
            ("no model", &|it| it["shape"]["layers"] = 0.into()),
            ("does not list", &|it| it["shape"]["layers"] = 3.into()),
            ("invalid type", &|it| it["shards"] = serde_json::json!(7)),
            ("too many", &|it| it["shape"]["hidden"] = (1u64 << 40).into()),
            ("the header begins at", &|it| it["shape"]["inner"] = 128.into()),
            ("outliers", &|it| it["shards"][0]["outliers"] = u32::MAX.into()),
            ("checksum", &|it| it["shards"][0]["outliers"] = 100.into()),
            ("all there once", &|it| it["heads"][1][0] = 0.into()),
            ("checksum", &|it| it["shards"][3]["blake3"] = "".into()),
            ("checksum", &|it| it["small"][1] = "".into()),
        ];
        for (word, change) in lies {
            let said = told(change);
            assert!(said.contains(word), "{word}: {said:?}");
        }
    }

    #[test]
    fn outliers_outside_their_shard_are_told_even_where_the_checksum_is_right() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("model.shards");
        let mut writer =
            ShardWriter::create(&path, SHAPE, "weights", Centroids::Lloyd).expect("a file");
        for layer in 0..SHAPE.layers {
            writer.small(&small(layer), vec![0, 1]).expect("written");
        }
        for id in ids() {
            let mut raw = part(1, SHAPE.weight_bytes(id.fidelity));
            if id.fidelity == Fidelity::LEAST {
                raw.extend_from_slice(&((SHAPE.elements() as u32) << 8).to_le_bytes());
            }
            writer.shard(&raw).expect("written");
        }
        writer.finish().expect("complete");
        let store = ShardStore::open(&path, "weights", false).expect("a sound header");
        assert!(store.verify().is_err_and(|it| it.to_string().contains("outside its shard")));
    }

    proptest! {
        /// Whatever is changed, opening and reading end in the same weights or an error.
        #[test]
        fn a_damaged_store_is_told_or_is_the_same(
            changes in prop::collection::vec((any::<prop::sample::Index>(), 1u8..=255), 1..4),
            cut in prop::option::of(any::<prop::sample::Index>()), repaired in any::<bool>(),
        ) {
            let (_dir, path) = written();
            let mut bytes = std::fs::read(&path).expect("read");
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] ^= byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            } else if repaired {
                let start = u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes"));
                if let Some(json) = usize::try_from(start).ok().and_then(|it| bytes.get(it..)) {
                    let hash = *blake3::hash(json).as_bytes();
                    bytes[32..64].copy_from_slice(&hash);
                }
            }
            std::fs::write(&path, &bytes).expect("write");
            if let Ok(store) = ShardStore::open(&path, "weights", false) {
                let same = store.shape() == &SHAPE;
                for (number, id) in ids().enumerate().filter(|_| same) {
                    if let Ok(raw) = store.read(id) {
                        prop_assert_eq!(raw, shard(number, id));
                    }
                }
                // Of any shape nothing panics.
                let _ = store.verify();
            }
        }
    }
}
