//! The vector index: int8 codes searched where they lie, exact vectors rescored.
//!
//! Below [`GRAPH_FROM`] vectors each is compared: it needs no building and loses nothing. Beyond, an HNSW
//! graph finds the neighborhood. Either way the best candidates are ordered by their exact f32 vectors,
//! which the catalog holds.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use riddle_seal::Place;
use riddle_types::{ChunkId, ChunkSet, Filter, Hit, Query, Retriever, StageError};

use crate::{
    Error, Result,
    graph::{Near, Visited},
    mapped::resident_file_bytes,
    part::rebuild,
    store::{self, Content},
};

/// Vectors from which on a graph is built and searched. A scan of as many codes of 384 numbers takes about
/// as long as a walk through their graph (half a millisecond optimized), and much less than embedding the
/// question; the graph would cost minutes of building for nothing.
pub const GRAPH_FROM: usize = 10_000;

/// Candidates rescored per hit wanted: int8 rounding reorders close neighbors, seldom beyond this.
const OVERFETCH: usize = 4;

/// Breadth of a search in the graph, ef of the paper, for few hits; for many, twice what is wanted.
const BREADTH: usize = 128;

/// Codes that a walk compares per unit of breadth: each step looks at a node's links, most of them seen
/// before.
const STEPS: usize = 8;

/// Bytes of files in this process's memory from which on a search gives back those that it has looked at. With what the
/// program holds itself, a library of a million passages stays below 700 MB.
const RESIDENT_FILE_BYTES: u64 = 448 << 20;

/// Bytes of an index whose pages stay.
const SMALL_BYTES: usize = 64 << 20;

/// Exact vectors for rescoring; the catalog, in practice.
pub trait VectorSource: Send + Sync {
    /// The vectors of those chunks; unknown ones are left out.
    ///
    /// # Errors
    /// When they can not be read.
    fn vectors(&self, chunks: &[ChunkId]) -> Result<Vec<(ChunkId, Vec<f32>)>, StageError>;
}

/// Unit vectors have components in −1…1: 127 steps to each side.
pub(crate) fn quantize(vector: &[f32]) -> Vec<i8> {
    vector.iter().map(|it| (it.clamp(-1.0, 1.0) * 127.0).round() as i8).collect()
}

pub(crate) fn check_dimensions(vector: &[f32], expected: usize) -> Result<()> {
    match vector.len() {
        actual if actual == expected => Ok(()),
        actual => Err(Error::Dimensions { actual, expected }),
    }
}

/// Reads the vector index as it was when it was opened.
pub struct VectorReader {
    content: Content,
    seq: u64,
    source: Arc<dyn VectorSource>,
    /// Slots by their chunks, once somebody asks for chunks.
    by_chunk: OnceLock<Vec<u32>>,
    /// What finished searches have left to the next ones.
    visited: Mutex<Vec<Visited>>,
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
    pub fn open(
        dir: impl Into<Place>,
        embedder: &str,
        source: Arc<dyn VectorSource>,
    ) -> Result<VectorReader> {
        let dir = dir.into();
        let attempt = || {
            let manifest = store::read_manifest(&dir)?
                .ok_or_else(|| rebuild(dir.path(), "it is not there"))?;
            if manifest.embedder != embedder {
                return Err(rebuild(dir.path(), "it is of another embedder"));
            }
            Ok((store::load(&dir, &manifest)?, manifest.seq))
        };
        // A writer may replace files between reading their names and reading them: then the second time
        // finds the new ones.
        let (content, seq) = attempt().or_else(|_| attempt())?;
        let (by_chunk, visited) = (OnceLock::new(), Mutex::default());
        Ok(VectorReader { content, seq, source, by_chunk, visited })
    }

    /// Reads all of the index in `dir`, and holds it against its sums. Opening does so for small ones alone.
    ///
    /// # Errors
    /// As [`open`](VectorReader::open), and [`Error::Damaged`] for bytes that are not what was written.
    pub fn verify(dir: impl Into<Place>) -> Result<()> {
        let dir = dir.into();
        let manifest =
            store::read_manifest(&dir)?.ok_or_else(|| rebuild(dir.path(), "it is not there"))?;
        store::verify(&dir, &manifest)
    }

    /// Last change that is in it.
    pub fn applied_seq(&self) -> u64 {
        self.seq
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.content.slots() - self.content.gone.len()
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
        let wanted = limit.saturating_mul(OVERFETCH).min(self.content.slots());
        let near = match query.allowed.as_deref() {
            Some(allowed) if !self.walk_pays(allowed.len(), wanted) => {
                self.scan_allowed(&code, allowed, wanted)
            }
            allowed => self.walk(&code, allowed, wanted),
        };
        self.give_back();
        self.rescore(vector, &near, limit)
    }

    /// Gives pages back when much of the index is in memory: a million passages would be there as a whole after some
    /// hundred searches. Small ones may stay.
    fn give_back(&self) {
        let is_large = self.content.mapped_bytes() > SMALL_BYTES;
        if is_large && resident_file_bytes().is_some_and(|it| it > RESIDENT_FILE_BYTES) {
            self.content.give_back();
        }
    }

    /// Whether a walk through the graph compares fewer codes than a scan of the `allowed` ones. The walk
    /// compares about `breadth · STEPS` codes to find `breadth` nodes, and 1 / share times as many when only
    /// a share of the nodes passes: it pays when allowed > breadth · STEPS · nodes / allowed. A walk jumps
    /// about in memory and a scan does not, so equality goes to the scan.
    fn walk_pays(&self, allowed: usize, wanted: usize) -> bool {
        let nodes = self.content.graph.nodes();
        nodes > 0 && allowed.saturating_mul(allowed) > breadth(wanted) * STEPS * nodes
    }

    /// The nearest of the allowed chunks, by looking at each.
    fn scan_allowed(&self, code: &[i8], allowed: &ChunkSet, wanted: usize) -> Vec<Near> {
        let by_chunk = self.by_chunk.get_or_init(|| self.content.by_chunk());
        let mut slots = Vec::with_capacity(allowed.len());
        let mut rest = by_chunk.as_slice();
        // Both are in order: each chunk is looked for behind the one before it.
        for chunk in allowed.iter() {
            rest = &rest[rest.partition_point(|it| self.content.chunk_of(*it) < Some(chunk))..];
            slots.extend(rest.first().filter(|it| self.content.chunk_of(**it) == Some(chunk)));
        }
        nearest(self.content.codes().near(code, &slots), wanted)
    }

    /// The nearest that pass: of the graph's slots by a walk, of the others by looking at each.
    fn walk(&self, code: &[i8], allowed: Option<&ChunkSet>, wanted: usize) -> Vec<Near> {
        let passes = |slot: u32| {
            self.content
                .chunk(slot)
                .is_some_and(|chunk| allowed.is_none_or(|it| it.contains(chunk)))
        };
        let codes = self.content.codes();
        let scan = |from: usize| {
            let slots: Vec<u32> =
                (from as u32..self.content.slots() as u32).filter(|&slot| passes(slot)).collect();
            codes.near(code, &slots)
        };
        let graph = &self.content.graph;
        let free = || self.visited.lock().unwrap_or_else(PoisonError::into_inner);
        let mut visited = free().pop().unwrap_or_default();
        let mut near = graph.search(codes, code, breadth(wanted), &mut visited, &passes);
        free().push(visited);
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
            near.iter().filter_map(|it| self.content.chunk(it.node)).collect();
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
