//! The vector index: int8 codes searched, exact vectors rescored.
//!
//! Below [`GRAPH_FROM`] vectors each is compared: it needs no building and loses nothing. Beyond, an HNSW
//! graph finds the neighborhood. Either way the best candidates are ordered by their exact f32 vectors,
//! which the catalog holds.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use riddle_types::{ChunkId, ChunkSet, Filter, Hit, Query, Retriever, StageError};

use crate::{
    Error, Result,
    graph::{Near, distance},
    store::{self, Content, Log, Manifest, rebuild},
};

/// Vectors from which on a graph is built and searched. A scan of as many codes of 384 numbers takes about
/// as long as a walk through their graph (half a millisecond optimized), and much less than embedding the
/// question; the graph would cost minutes of building for nothing.
pub const GRAPH_FROM: usize = 10_000;

/// The graph is extended when this share of the slots is not in it. Until then the newest are scanned, which
/// is cheaper than writing the graph at every commit.
const TAIL_SHARE: usize = 10;

/// Candidates rescored per hit wanted: int8 rounding reorders close neighbors, seldom beyond this.
const OVERFETCH: usize = 4;

/// Breadth of a search in the graph, ef of the paper, for few hits; for many, twice what is wanted.
const BREADTH: usize = 128;

/// Codes that a walk compares per unit of breadth: each step looks at a node's links, most of them seen
/// before.
const STEPS: usize = 8;

/// Share of removed slots above which the index is made anew: they cost time and memory in every search.
const DEAD_PERCENT: usize = 30;

/// Exact vectors for rescoring; the catalog, in practice.
pub trait VectorSource: Send + Sync {
    /// The vectors of those chunks; unknown ones are left out.
    ///
    /// # Errors
    /// When they can not be read.
    fn vectors(&self, chunks: &[ChunkId]) -> Result<Vec<(ChunkId, Vec<f32>)>, StageError>;
}

/// Unit vectors have components in −1…1: 127 steps to each side.
fn quantize(vector: &[f32]) -> Vec<i8> {
    vector.iter().map(|it| (it.clamp(-1.0, 1.0) * 127.0).round() as i8).collect()
}

fn check_dimensions(vector: &[f32], expected: usize) -> Result<()> {
    match vector.len() {
        actual if actual == expected => Ok(()),
        actual => Err(Error::Dimensions { actual, expected }),
    }
}

/// Writes the vector index of one embedder.
#[derive(Debug)]
pub struct VectorWriter {
    dir: PathBuf,
    embedder: String,
    content: Content,
    committed: Option<Manifest>,
    log: Log,
    /// Records since the last commit.
    pending: Vec<u8>,
}

impl VectorWriter {
    /// Opens the index in `dir`, or makes one, for vectors of `embedder`.
    ///
    /// # Errors
    /// [`Error::Rebuild`] when it is damaged, of another version or of another embedder.
    pub fn open(dir: &Path, embedder: &str, dimensions: usize) -> Result<VectorWriter> {
        std::fs::create_dir_all(dir)
            .map_err(|source| Error::Io { path: dir.to_path_buf(), source })?;
        let committed = store::read_manifest(dir)?;
        let (content, log) = match &committed {
            Some(it) if it.embedder != embedder || it.dimensions != dimensions => {
                return Err(rebuild(dir, "it is of another embedder"));
            }
            Some(it) => (store::load(dir, it)?, Log::open(dir, it)?),
            None => (Content { dimensions, ..Content::default() }, Log::create(dir, 0)?),
        };
        let (dir, embedder) = (dir.to_path_buf(), embedder.to_owned());
        Ok(VectorWriter { dir, embedder, content, committed, log, pending: Vec::new() })
    }

    /// Last change that is committed; 0 for a new index.
    pub fn applied_seq(&self) -> u64 {
        self.committed.as_ref().map_or(0, |it| it.seq)
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.content.slot_of.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the next commit will make the index anew because too many of its vectors were removed.
    pub fn needs_rebuild(&self) -> bool {
        let slots = self.content.slots.len();
        (slots - self.len()) * 100 > slots * DEAD_PERCENT
    }

    /// Adds a normalized vector, replacing what was there under its id.
    ///
    /// # Errors
    /// [`Error::Dimensions`] for a vector of another length.
    pub fn insert(&mut self, chunk: ChunkId, vector: &[f32]) -> Result<()> {
        check_dimensions(vector, self.content.dimensions)?;
        let code = quantize(vector);
        let present = self.content.slot_of.get(&chunk);
        if present.is_some_and(|&slot| self.content.codes().get(slot) == code) {
            return Ok(());
        }
        self.content.insert(chunk, code.iter().copied());
        store::record_insert(&mut self.pending, chunk, &code);
        Ok(())
    }

    /// Removes a chunk; one that is not there is fine.
    pub fn remove(&mut self, chunk: ChunkId) {
        if self.content.remove(chunk) {
            store::record_remove(&mut self.pending, chunk);
        }
    }

    /// Makes everything since the last commit visible, together with `seq`, at once. Readers keep what they
    /// have. Writes nothing when nothing changed. Extends the graph when many vectors came, which takes
    /// about a millisecond for each.
    ///
    /// # Errors
    /// When the files can not be written; the last commit stays, and this one can be tried again.
    pub fn commit(&mut self, seq: u64) -> Result<()> {
        let unchanged = self.pending.is_empty();
        if unchanged && self.committed.as_ref().is_some_and(|it| it.seq == seq) {
            return Ok(());
        }
        if self.needs_rebuild() {
            self.start_anew()?;
        }
        // A graph of an older log has other slots.
        let mut graph = self
            .committed
            .as_ref()
            .filter(|it| it.generation == self.log.generation())
            .and_then(|it| it.graph.clone());
        self.log.append(&self.dir, &self.pending)?;
        self.pending.clear();
        let (slots, nodes) = (self.content.slots.len(), self.content.graph.nodes());
        if slots >= GRAPH_FROM && (slots - nodes) * TAIL_SHARE > slots {
            let mut grown = std::mem::take(&mut self.content.graph);
            grown.grow(self.content.codes(), slots);
            self.content.graph = grown;
        }
        let nodes = self.content.graph.nodes();
        if nodes > 0 && graph.as_ref().is_none_or(|it| it.1 != nodes) {
            graph =
                Some(store::write_graph(&self.dir, self.log.generation(), &self.content.graph)?);
        }
        self.committed = Some(store::write_manifest(
            &self.dir,
            &self.embedder,
            self.content.dimensions,
            seq,
            &self.log,
            graph,
        )?);
        Ok(())
    }

    /// Leaves out the empty slots, in a new log.
    fn start_anew(&mut self) -> Result<()> {
        let log = Log::create(&self.dir, self.log.generation() + 1)?;
        let content = self.content.compacted();
        self.pending.clear();
        for (slot, chunk) in content.slots.iter().enumerate() {
            if let Some(chunk) = chunk {
                let code = content.codes().get(slot as u32);
                store::record_insert(&mut self.pending, *chunk, code);
            }
        }
        (self.log, self.content) = (log, content);
        Ok(())
    }
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
            let manifest =
                store::read_manifest(dir)?.ok_or_else(|| rebuild(dir, "it is not there"))?;
            if manifest.embedder != embedder {
                return Err(rebuild(dir, "it is of another embedder"));
            }
            Ok((store::load(dir, &manifest)?, manifest.seq))
        };
        // A writer may replace files between reading their names and reading them: then the second time
        // finds the new ones.
        let (content, seq) = attempt().or_else(|_| attempt())?;
        Ok(VectorReader { content, seq, source })
    }

    /// Last change that is in it.
    pub fn applied_seq(&self) -> u64 {
        self.seq
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.content.slot_of.len()
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
        check_dimensions(vector, self.content.dimensions)?;
        let code = quantize(vector);
        let wanted = limit.saturating_mul(OVERFETCH).min(self.content.slots.len());
        let near = match query.allowed.as_ref() {
            Some(allowed) if !self.walk_pays(allowed.len(), wanted) => {
                self.scan_allowed(&code, allowed, wanted)
            }
            allowed => self.walk(&code, allowed, wanted),
        };
        self.rescore(vector, &near, limit)
    }

    /// Whether a walk through the graph compares fewer codes than a scan of the `allowed` ones. The walk
    /// compares about `breadth · STEPS` codes to find `breadth` nodes, and 1 / share times as many when only
    /// a share of the nodes passes: it pays when allowed > breadth · STEPS · nodes / allowed. A walk jumps
    /// about in memory and a scan does not, so equality goes to the scan.
    fn walk_pays(&self, allowed: usize, wanted: usize) -> bool {
        let nodes = self.content.graph.nodes();
        nodes > 0 && allowed.saturating_mul(allowed) > breadth(wanted) * STEPS * nodes
    }

    fn near(&self, code: &[i8], node: u32) -> Near {
        Near { distance: distance(code, self.content.codes().get(node)), node }
    }

    /// The nearest of the allowed chunks, by looking at each.
    fn scan_allowed(&self, code: &[i8], allowed: &ChunkSet, wanted: usize) -> Vec<Near> {
        let slots = allowed.as_slice().iter().filter_map(|it| self.content.slot_of.get(it));
        nearest(slots.map(|&slot| self.near(code, slot)).collect(), wanted)
    }

    /// The nearest that pass: of the graph's slots by a walk, of the others by looking at each.
    fn walk(&self, code: &[i8], allowed: Option<&ChunkSet>, wanted: usize) -> Vec<Near> {
        let passes = |slot: u32| {
            self.content.slots[slot as usize]
                .is_some_and(|chunk| allowed.is_none_or(|it| it.contains(chunk)))
        };
        let scan = |from: usize| {
            (from as u32..self.content.slots.len() as u32)
                .filter(|&slot| passes(slot))
                .map(|slot| self.near(code, slot))
                .collect::<Vec<Near>>()
        };
        let graph = &self.content.graph;
        let mut near = graph.search(self.content.codes(), code, breadth(wanted), &passes);
        near.extend(scan(graph.nodes()));
        // A graph does not promise that a walk gets everywhere; a scan does.
        let expected = wanted.min(allowed.map_or(self.len(), ChunkSet::len));
        if near.len() < expected {
            near = scan(0);
        }
        nearest(near, wanted)
    }

    /// Orders by the exact vectors. Chunks that the catalog no longer has are left out.
    fn rescore(&self, vector: &[f32], near: &[Near], limit: usize) -> Result<Vec<Hit>> {
        let chunks: Vec<ChunkId> =
            near.iter().filter_map(|it| self.content.slots[it.node as usize]).collect();
        let mut scored = Vec::with_capacity(chunks.len());
        for (chunk, exact) in self.source.vectors(&chunks).map_err(Error::Source)? {
            check_dimensions(&exact, vector.len())?;
            let score: f32 = vector.iter().zip(&exact).map(|(a, b)| a * b).sum();
            // What is not a number has no place in an order.
            if score.is_finite() {
                scored.push((score, chunk));
            }
        }
        scored.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.truncate(limit);
        Ok(scored
            .into_iter()
            .zip(1..)
            .map(|((score, chunk), rank)| Hit { chunk, score, rank })
            .collect())
    }
}

fn breadth(wanted: usize) -> usize {
    (2 * wanted).max(BREADTH)
}

/// The `wanted` nearest, in order.
fn nearest(mut near: Vec<Near>, wanted: usize) -> Vec<Near> {
    if wanted < near.len() {
        near.select_nth_unstable(wanted);
        near.truncate(wanted);
    }
    near.sort_unstable();
    near
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
