//! The vector index: int8 codes searched, exact vectors rescored.
//!
//! Up to [`GRAPH_FROM`] vectors are compared one by one: an exact scan of 10 000 × 384 codes takes a
//! millisecond or two, less than the question's own embedding, needs no building and loses nothing. Beyond,
//! an HNSW graph (Malkov & Yashunin 2016; hnsw_rs) finds the neighborhood. Either way the best candidates
//! are ordered by their exact f32 vectors, which the catalog holds.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};

use hnsw_rs::{api::AnnT as _, hnsw::Hnsw, hnswio::HnswIo, prelude::Distance};
use riddle_types::{ChunkId, Filter, Hit, Query, Retriever, StageError};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Vectors from which on a graph is built and searched.
pub const GRAPH_FROM: usize = 10_000;

/// Raised when the files change: an index of another version is built again.
const VERSION: u32 = 1;

/// Neighbors per node and breadth while building: the values of the HNSW paper's experiments at this
/// dimension (§5), M = 16, efConstruction = 200.
const NEIGHBORS: usize = 16;
const EF_CONSTRUCTION: usize = 200;

/// Candidates rescored per hit wanted: int8 rounding reorders close neighbors, seldom beyond this.
const OVERFETCH: usize = 4;

/// Share of removed slots above which the index is made anew: they cost time and memory in every search.
const DEAD_SHARE: f64 = 0.3;

/// Exact vectors for rescoring; the catalog, in practice.
pub trait VectorSource: Send + Sync {
    /// The vectors of those chunks; unknown ones are left out.
    ///
    /// # Errors
    /// When they can not be read.
    fn vectors(&self, chunks: &[ChunkId]) -> Result<Vec<(ChunkId, Vec<f32>)>, StageError>;
}

/// Squared Euclidean distance of int8 codes: for vectors of one length it orders as the cosine does, and
/// being a sum of squares it is never negative.
#[derive(Debug, Clone, Copy, Default)]
struct Int8Distance;

impl Distance<i8> for Int8Distance {
    fn eval(&self, a: &[i8], b: &[i8]) -> f32 {
        a.iter().zip(b).map(|(&a, &b)| (i32::from(a) - i32::from(b)).pow(2)).sum::<i32>() as f32
    }
}

type Graph = Hnsw<'static, i8, Int8Distance>;

/// What the snapshot's files must be; written last, read first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    version: u32,
    embedder: String,
    dimensions: usize,
    seq: u64,
    slots: usize,
    /// Folder of the snapshot.
    folder: String,
    /// BLAKE3 of each file.
    files: HashMap<String, String>,
}

const MANIFEST: &str = "current.json";
const CODES: &str = "codes.bin";
const GRAPH: &str = "graph";

/// Chunks and codes by slot; a removed chunk leaves an empty slot behind.
#[derive(Default)]
struct Content {
    dimensions: usize,
    /// Chunk of each slot; `None` when it was removed.
    slots: Vec<Option<ChunkId>>,
    /// `[slots, dimensions]`.
    codes: Vec<i8>,
    graph: Option<Graph>,
    /// Slots that are in the graph: the first ones.
    in_graph: usize,
}

impl Content {
    fn code(&self, slot: usize) -> &[i8] {
        &self.codes[slot * self.dimensions..][..self.dimensions]
    }

    fn alive(&self) -> usize {
        self.slots.iter().flatten().count()
    }
}

/// Unit vectors have components in −1…1: 127 steps to each side.
fn quantize(vector: &[f32]) -> Vec<i8> {
    vector.iter().map(|it| (it.clamp(-1.0, 1.0) * 127.0).round() as i8).collect()
}

fn rebuild(dir: &Path, why: impl ToString) -> Error {
    Error::Rebuild { dir: dir.to_path_buf(), why: why.to_string() }
}

fn read_manifest(dir: &Path) -> Result<Option<Manifest>> {
    let path = dir.join(MANIFEST);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Io { path, source }),
    };
    let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|error| rebuild(dir, error))?;
    if manifest.version != VERSION {
        return Err(rebuild(dir, "it is of another version"));
    }
    // The folder is a plain name: a manifest could otherwise lead anywhere.
    if Path::new(&manifest.folder).file_name() != Some(manifest.folder.as_ref()) {
        return Err(rebuild(dir, "its manifest is not ours"));
    }
    Ok(Some(manifest))
}

fn load(dir: &Path, manifest: &Manifest) -> Result<Content> {
    let folder = dir.join(&manifest.folder);
    for (name, expected) in &manifest.files {
        let bytes = std::fs::read(folder.join(name))
            .map_err(|error| rebuild(dir, format!("{name}: {error}")))?;
        if blake3::hash(&bytes).to_hex().as_str() != expected {
            return Err(rebuild(dir, format!("{name} is damaged")));
        }
    }
    let bytes = std::fs::read(folder.join(CODES)).map_err(|error| rebuild(dir, error))?;
    let ids = manifest.slots * 8;
    if bytes.len() != ids + manifest.slots * manifest.dimensions {
        return Err(rebuild(dir, "its length is wrong"));
    }
    let slots = bytes[..ids]
        .chunks_exact(8)
        .map(|it| u64::from_le_bytes([it[0], it[1], it[2], it[3], it[4], it[5], it[6], it[7]]))
        .map(|it| (it != u64::MAX).then_some(ChunkId(it)));
    let mut content = Content {
        dimensions: manifest.dimensions,
        slots: slots.collect(),
        codes: bytes[ids..].iter().map(|it| it.cast_signed()).collect(),
        graph: None,
        in_graph: 0,
    };
    if manifest.files.len() > 1 {
        let graph = load_graph(&folder).map_err(|why| rebuild(dir, why))?;
        content.in_graph = graph.get_nb_point();
        if content.in_graph > content.slots.len() {
            return Err(rebuild(dir, "its graph belongs to other vectors"));
        }
        content.graph = Some(graph);
    }
    Ok(content)
}

fn load_graph(folder: &Path) -> Result<Graph, String> {
    // The loader's lifetime is tied to the graph's although nothing is mapped: a few paths are leaked per
    // opening, once per process and index.
    let io = AssertUnwindSafe(Box::leak(Box::new(HnswIo::new(folder, GRAPH))));
    let load = move || {
        // The wrapper moves as a whole: its content alone would not be allowed across the unwinding.
        let io = io;
        read_graph(io.0)
    };
    catch_unwind(load).unwrap_or_else(|_| Err("its graph can not be read".to_owned()))
}

fn read_graph(io: &'static mut HnswIo) -> Result<Graph, String> {
    io.load_hnsw().map_err(|error| error.to_string())
}

/// Writes the vector index of one embedder.
pub struct VectorWriter {
    dir: PathBuf,
    embedder: String,
    content: Content,
    slot_of: HashMap<ChunkId, usize>,
    seq: u64,
    changed: bool,
}

impl std::fmt::Debug for VectorWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VectorWriter")
            .field("dir", &self.dir)
            .field("seq", &self.seq)
            .finish_non_exhaustive()
    }
}

impl VectorWriter {
    /// Opens the index in `dir`, or makes one, for vectors of `embedder`.
    ///
    /// # Errors
    /// [`Error::Rebuild`] when it is damaged, of another version or of another embedder.
    pub fn open(dir: &Path, embedder: &str, dimensions: usize) -> Result<VectorWriter> {
        std::fs::create_dir_all(dir)
            .map_err(|source| Error::Io { path: dir.to_path_buf(), source })?;
        let (content, seq) = match read_manifest(dir)? {
            Some(manifest)
                if manifest.embedder != embedder || manifest.dimensions != dimensions =>
            {
                return Err(rebuild(dir, "it is of another embedder"));
            }
            Some(manifest) => (load(dir, &manifest)?, manifest.seq),
            None => (Content { dimensions, ..Content::default() }, 0),
        };
        let slot_of = content
            .slots
            .iter()
            .enumerate()
            .filter_map(|(slot, chunk)| Some(((*chunk)?, slot)))
            .collect();
        Ok(VectorWriter {
            dir: dir.to_path_buf(),
            embedder: embedder.to_owned(),
            content,
            slot_of,
            seq,
            changed: false,
        })
    }

    /// Last change that is committed; 0 for a new index.
    pub fn applied_seq(&self) -> u64 {
        self.seq
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.slot_of.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slot_of.is_empty()
    }

    /// Adds a normalized vector, replacing what was there under its id.
    ///
    /// # Errors
    /// [`Error::Dimensions`] for a vector of another length.
    pub fn insert(&mut self, chunk: ChunkId, vector: &[f32]) -> Result<()> {
        if vector.len() != self.content.dimensions {
            return Err(Error::Dimensions {
                actual: vector.len(),
                expected: self.content.dimensions,
            });
        }
        let code = quantize(vector);
        if let Some(&slot) = self.slot_of.get(&chunk) {
            if self.content.code(slot) == code {
                return Ok(());
            }
            self.remove(chunk);
        }
        self.slot_of.insert(chunk, self.content.slots.len());
        self.content.slots.push(Some(chunk));
        self.content.codes.extend_from_slice(&code);
        self.changed = true;
        Ok(())
    }

    /// Removes a chunk; one that is not there is fine.
    pub fn remove(&mut self, chunk: ChunkId) {
        if let Some(slot) = self.slot_of.remove(&chunk) {
            self.content.slots[slot] = None;
            self.changed = true;
        }
    }

    /// Makes everything since the last commit visible, together with `seq`, at once: a new snapshot is
    /// written beside the old one, and readers that hold the old one keep it.
    ///
    /// # Errors
    /// When the files can not be written; the old snapshot stays.
    pub fn commit(&mut self, seq: u64) -> Result<()> {
        let exists = self.dir.join(MANIFEST).is_file();
        if exists && seq == self.seq && !self.changed {
            return Ok(());
        }
        let dead = self.content.slots.len() - self.slot_of.len();
        if dead as f64 > self.content.slots.len() as f64 * DEAD_SHARE {
            self.compact();
        }
        self.grow_graph()?;
        let folder = format!("snapshot-{seq}-{:016x}", fingerprint(&self.content));
        let target = self.dir.join(&folder);
        let io = |path: &Path| {
            let path = path.to_path_buf();
            move |source| Error::Io { path, source }
        };
        std::fs::create_dir_all(&target).map_err(io(&target))?;
        let mut bytes =
            Vec::with_capacity(self.content.slots.len() * (8 + self.content.dimensions));
        for slot in &self.content.slots {
            bytes.extend_from_slice(&slot.map_or(u64::MAX, |it| it.0).to_le_bytes());
        }
        bytes.extend(self.content.codes.iter().map(|it| it.cast_unsigned()));
        write_durably(&target.join(CODES), &bytes)?;
        let mut files =
            HashMap::from([(CODES.to_owned(), blake3::hash(&bytes).to_hex().to_string())]);
        if let Some(graph) = &self.content.graph {
            graph.file_dump(&target, GRAPH).map_err(|error| Error::Io {
                path: target.clone(),
                source: std::io::Error::other(error.to_string()),
            })?;
            for name in [format!("{GRAPH}.hnsw.graph"), format!("{GRAPH}.hnsw.data")] {
                let path = target.join(&name);
                let bytes = std::fs::read(&path).map_err(io(&path))?;
                File::open(&path).and_then(|it| it.sync_all()).map_err(io(&path))?;
                files.insert(name, blake3::hash(&bytes).to_hex().to_string());
            }
        }
        let manifest = Manifest {
            version: VERSION,
            embedder: self.embedder.clone(),
            dimensions: self.content.dimensions,
            seq,
            slots: self.content.slots.len(),
            folder: folder.clone(),
            files,
        };
        let json = serde_json::to_vec(&manifest).map_err(|error| rebuild(&self.dir, error))?;
        let temporary = self.dir.join("current.json.new");
        write_durably(&temporary, &json)?;
        std::fs::rename(&temporary, self.dir.join(MANIFEST)).map_err(io(&temporary))?;
        self.remove_other_snapshots(&folder);
        self.seq = seq;
        self.changed = false;
        Ok(())
    }

    /// Old snapshots; a reader that opens one at this moment tries again.
    fn remove_other_snapshots(&self, current: &str) {
        for entry in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name != current && name.to_string_lossy().starts_with("snapshot-") {
                // What can not be removed now costs space only, and is tried again at the next commit.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Leaves out the empty slots; the graph is made anew.
    fn compact(&mut self) {
        let dimensions = self.content.dimensions;
        let mut content = Content { dimensions, ..Content::default() };
        for (slot, chunk) in self.content.slots.iter().enumerate() {
            if chunk.is_some() {
                content.slots.push(*chunk);
                content.codes.extend_from_slice(self.content.code(slot));
            }
        }
        self.slot_of = content
            .slots
            .iter()
            .enumerate()
            .filter_map(|(slot, chunk)| Some(((*chunk)?, slot)))
            .collect();
        self.content = content;
    }

    fn grow_graph(&mut self) -> Result<()> {
        let content = &mut self.content;
        if content.slots.len() < GRAPH_FROM {
            return Ok(());
        }
        let graph = content.graph.take().unwrap_or_else(|| {
            // Sixteen layers are never reached; the number of elements is a hint.
            Hnsw::new(NEIGHBORS, content.slots.len(), 16, EF_CONSTRUCTION, Int8Distance)
        });
        let dimensions = content.dimensions;
        let fresh: Vec<(&[i8], usize)> = (content.in_graph..content.slots.len())
            .map(|slot| (&content.codes[slot * dimensions..][..dimensions], slot))
            .collect();
        catch_unwind(AssertUnwindSafe(|| graph.parallel_insert_slice(&fresh)))
            .map_err(|_| rebuild(&self.dir, "the graph could not be built"))?;
        content.in_graph = content.slots.len();
        content.graph = Some(graph);
        Ok(())
    }
}

fn fingerprint(content: &Content) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for slot in &content.slots {
        hasher.update(&slot.map_or(u64::MAX, |it| it.0).to_le_bytes());
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first)
}

fn write_durably(path: &Path, bytes: &[u8]) -> Result<()> {
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    let mut file = File::create(path).map_err(io)?;
    file.write_all(bytes).map_err(io)?;
    file.sync_all().map_err(io)
}

/// Reads the vector index as it was when it was opened.
pub struct VectorReader {
    content: Content,
    seq: u64,
    source: Arc<dyn VectorSource>,
}

impl std::fmt::Debug for VectorReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VectorReader").field("seq", &self.seq).finish_non_exhaustive()
    }
}

impl VectorReader {
    /// Opens the index in `dir`.
    ///
    /// # Errors
    /// [`Error::Rebuild`] when there is none, or it is damaged, of another version or another embedder.
    pub fn open(dir: &Path, embedder: &str, source: Arc<dyn VectorSource>) -> Result<VectorReader> {
        let attempt = || {
            let manifest = read_manifest(dir)?.ok_or_else(|| rebuild(dir, "it is not there"))?;
            if manifest.embedder != embedder {
                return Err(rebuild(dir, "it is of another embedder"));
            }
            Ok((load(dir, &manifest)?, manifest.seq))
        };
        // A writer may replace the snapshot between reading its name and its files: then the second time
        // finds the new one.
        let (content, seq) = attempt().or_else(|_| attempt())?;
        Ok(VectorReader { content, seq, source })
    }

    /// Last change that is in it.
    pub fn applied_seq(&self) -> u64 {
        self.seq
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.content.alive()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// [`Retriever::retrieve`] with this crate's error type; conditions come as `query.allowed`.
    ///
    /// # Errors
    /// [`Error::Dimensions`] for a query of another embedder; when exact vectors can not be read.
    pub fn search(&self, query: &Query, limit: usize) -> Result<Vec<Hit>> {
        let Some(vector) = query.vector.as_deref().filter(|_| limit > 0) else {
            return Ok(Vec::new());
        };
        if vector.len() != self.content.dimensions {
            return Err(Error::Dimensions {
                actual: vector.len(),
                expected: self.content.dimensions,
            });
        }
        let code = quantize(vector);
        let wanted = limit.saturating_mul(OVERFETCH);
        let near = match &self.content.graph {
            // Few allowed chunks are far apart in the graph: looking at each is faster, and exact.
            Some(graph) if query.allowed.as_ref().is_none_or(|it| it.len() > GRAPH_FROM) => {
                self.search_graph(graph, &code, query, wanted)
            }
            _ => self.scan(0, &code, query, wanted),
        };
        self.rescore(vector, near, limit)
    }

    fn passes(&self, slot: usize, query: &Query) -> bool {
        self.content.slots[slot]
            .is_some_and(|chunk| query.allowed.as_ref().is_none_or(|it| it.contains(chunk)))
    }

    /// The nearest slots from `first` on, by looking at each.
    fn scan(&self, first: usize, code: &[i8], query: &Query, wanted: usize) -> Vec<usize> {
        let mut near: Vec<(f32, usize)> = (first..self.content.slots.len())
            .filter(|&slot| self.passes(slot, query))
            .map(|slot| (Int8Distance.eval(code, self.content.code(slot)), slot))
            .collect();
        near.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        near.truncate(wanted);
        near.into_iter().map(|(_, slot)| slot).collect()
    }

    fn search_graph(&self, graph: &Graph, code: &[i8], query: &Query, wanted: usize) -> Vec<usize> {
        // Breadth of the search: wide enough for recall, wider when more is wanted.
        let breadth = (wanted * 2).max(128);
        let passes = |slot: &usize| self.passes(*slot, query);
        let found = catch_unwind(AssertUnwindSafe(move || {
            graph.search_filter(code, wanted, breadth, Some(&passes))
        }));
        let mut near: Vec<usize> = match found {
            Ok(neighbors) => neighbors
                .into_iter()
                .map(|it| it.d_id)
                .filter(|it| self.passes(*it, query))
                .collect(),
            Err(_) => return self.scan(0, code, query, wanted),
        };
        // A filter can starve the walk through the graph; then every slot is looked at.
        if near.len() < wanted && self.content.slots.len() > near.len() && query.allowed.is_some() {
            return self.scan(0, code, query, wanted);
        }
        near.extend(self.scan(self.content.in_graph, code, query, wanted));
        let mut seen = HashSet::new();
        near.retain(|it| seen.insert(*it));
        near
    }

    fn rescore(&self, vector: &[f32], near: Vec<usize>, limit: usize) -> Result<Vec<Hit>> {
        let chunks: Vec<ChunkId> =
            near.into_iter().filter_map(|slot| self.content.slots[slot]).collect();
        let exact = self.source.vectors(&chunks).map_err(Error::Source)?;
        let mut scored: Vec<(f32, ChunkId)> = exact
            .into_iter()
            .map(|(chunk, exact)| (vector.iter().zip(&exact).map(|(a, b)| a * b).sum(), chunk))
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.truncate(limit);
        Ok(scored
            .into_iter()
            .zip(1..)
            .map(|((score, chunk), rank)| Hit { chunk, score, rank })
            .collect())
    }
}

impl Retriever for VectorReader {
    fn retrieve(
        &self,
        query: &Query,
        _filter: &Filter,
        limit: usize,
    ) -> Result<Vec<Hit>, StageError> {
        Ok(self.search(query, limit)?)
    }
}
