//! Writing the vector index.

use std::collections::HashMap;

use riddle_seal::Place;
use riddle_types::ChunkId;

use crate::{
    Result,
    graph::Graph,
    part::rebuild,
    store::{self, Content, Files, Manifest},
    vector::{GRAPH_FROM, check_dimensions, quantize},
};

/// The graph is extended when this share of the slots is not in it. Until then the newest are scanned, which
/// is cheaper than writing the graph at every commit.
const TAIL_SHARE: usize = 10;

/// Share of removed slots above which the index is made anew: they cost time and memory in every search.
const DEAD_PERCENT: usize = 30;

/// Codes that wait in memory to be written, in bytes.
const PENDING: usize = 16 << 20;

/// Writes the vector index of one embedder.
#[derive(Debug)]
pub struct VectorWriter {
    dir: Place,
    embedder: String,
    /// What is written, committed or not.
    content: Content,
    files: Files,
    committed: Option<Manifest>,
    /// Slots by their chunks, as they were when the index was opened.
    by_chunk: Vec<u32>,
    /// Slots of the chunks that came since.
    recent: HashMap<ChunkId, u32>,
    pending: Pending,
    /// Whether there is something to commit.
    changed: bool,
}

/// What is not written yet.
#[derive(Debug, Default)]
struct Pending {
    codes: Vec<i8>,
    chunks: Vec<ChunkId>,
    gone: Vec<u32>,
}

impl VectorWriter {
    /// Opens the index in `dir`, or makes one, for vectors of `embedder`.
    ///
    /// # Errors
    /// [`Error::Rebuild`](crate::Error::Rebuild) when it is damaged, of another version or of another embedder.
    pub fn open(dir: impl Into<Place>, embedder: &str, dimensions: usize) -> Result<VectorWriter> {
        let dir = dir.into();
        std::fs::create_dir_all(dir.path())
            .map_err(|source| crate::Error::Io { path: dir.path.clone(), source })?;
        let committed = store::read_manifest(&dir)?;
        let (content, files) = match &committed {
            Some(it) if it.embedder != embedder || it.dimensions != dimensions => {
                return Err(rebuild(dir.path(), "it is of another embedder"));
            }
            Some(it) => (store::load(&dir, it)?, Files::open(&dir, Ok(it))?),
            None => (Content::of(dimensions), Files::open(&dir, Err(0))?),
        };
        Ok(VectorWriter {
            dir,
            embedder: embedder.to_owned(),
            by_chunk: content.by_chunk(),
            content,
            files,
            committed,
            recent: HashMap::new(),
            pending: Pending::default(),
            changed: false,
        })
    }

    /// Last change that is committed; 0 for a new index.
    pub fn applied_seq(&self) -> u64 {
        self.committed.as_ref().map_or(0, |it| it.seq)
    }

    /// Slots, those of removed chunks counted.
    fn slots(&self) -> usize {
        self.content.slots() + self.pending.chunks.len()
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.slots() - self.content.gone.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the next commit will leave out the slots of removed vectors because they are too many.
    pub fn needs_rebuild(&self) -> bool {
        self.content.gone.len() * 100 > self.slots() * DEAD_PERCENT
    }

    fn slot_of(&self, chunk: ChunkId) -> Option<u32> {
        if let Some(slot) = self.recent.get(&chunk) {
            return Some(*slot);
        }
        let of = |slot: &u32| self.content.chunk_of(*slot);
        let at = self.by_chunk.partition_point(|it| of(it) < Some(chunk));
        let slot = *self.by_chunk.get(at).filter(|it| of(it) == Some(chunk))?;
        (!self.content.gone.contains(slot)).then_some(slot)
    }

    fn code(&self, slot: u32) -> &[i8] {
        let written = self.content.slots();
        match (slot as usize).checked_sub(written) {
            None => self.content.codes().get(slot),
            Some(at) => {
                let dimensions = self.content.dimensions;
                &self.pending.codes[at * dimensions..][..dimensions]
            }
        }
    }

    /// Adds a normalized vector, replacing what was there under its id.
    ///
    /// # Errors
    /// [`Error::Dimensions`](crate::Error::Dimensions) for a vector of another length; when there are too many to keep
    /// in memory, and they can not be written.
    pub fn insert(&mut self, chunk: ChunkId, vector: &[f32]) -> Result<()> {
        check_dimensions(vector, self.content.dimensions)?;
        let code = quantize(vector);
        match self.slot_of(chunk) {
            Some(slot) if self.code(slot) == code => return Ok(()),
            Some(slot) => self.empty(slot),
            None => {}
        }
        self.recent.insert(chunk, self.slots() as u32);
        self.pending.codes.extend(code);
        self.pending.chunks.push(chunk);
        self.changed = true;
        if self.pending.codes.len() >= PENDING { self.write() } else { Ok(()) }
    }

    /// Removes a chunk; one that is not there is fine.
    pub fn remove(&mut self, chunk: ChunkId) {
        if let Some(slot) = self.slot_of(chunk) {
            self.recent.remove(&chunk);
            self.empty(slot);
        }
    }

    fn empty(&mut self, slot: u32) {
        self.content.gone.insert(slot);
        self.pending.gone.push(slot);
        self.changed = true;
    }

    /// Writes what waits; nobody sees it before it is committed.
    fn write(&mut self) -> Result<()> {
        let Pending { codes, chunks, gone } = &self.pending;
        self.files.append(codes, chunks, gone)?;
        self.pending = Pending::default();
        self.files.remap(&mut self.content)
    }

    /// Makes everything since the last commit visible, together with `seq`, at once. Readers keep what they
    /// have. Writes nothing when nothing changed. Extends the graph when many vectors came, which takes
    /// some tenths of a millisecond for each, on all processors.
    ///
    /// # Errors
    /// When the files can not be written; the last commit stays, and this one can be tried again.
    pub fn commit(&mut self, seq: u64) -> Result<()> {
        self.commit_giving_way(seq, &|| {})
    }

    /// As [`commit`](VectorWriter::commit), and calls `give_way` some times a second while the graph is extended:
    /// whoever has more urgent work for the processors waits there until it is done.
    ///
    /// # Errors
    /// As [`commit`](VectorWriter::commit).
    pub fn commit_giving_way(&mut self, seq: u64, give_way: &dyn Fn()) -> Result<()> {
        if !self.changed && self.committed.as_ref().is_some_and(|it| it.seq == seq) {
            return Ok(());
        }
        self.write()?;
        if self.needs_rebuild() {
            self.verify()?;
            self.compact()?;
        }
        // A graph of another generation has other slots.
        let mut graph = self
            .committed
            .as_ref()
            .filter(|it| it.generation == self.files.generation())
            .and_then(|it| it.graph.clone());
        let (slots, nodes) = (self.content.slots(), self.content.graph.nodes());
        if slots >= GRAPH_FROM && (slots - nodes) * TAIL_SHARE > slots {
            self.verify()?;
            let mut grown = std::mem::take(&mut self.content.graph);
            grown.grow(self.content.codes(), slots, give_way);
            self.content.graph = grown;
        }
        let nodes = self.content.graph.nodes();
        if nodes > 0 && graph.as_ref().is_none_or(|it| it.1 != nodes) {
            let written = self.files.write_graph(&self.content.graph)?;
            self.content.graph = self.files.map_graph(&written)?;
            graph = Some(written);
        }
        let dimensions = self.content.dimensions;
        self.committed = Some(self.files.commit(&self.embedder, dimensions, seq, graph)?);
        self.changed = false;
        Ok(())
    }

    /// Refuses what was committed and is damaged: it would be written once more, with sums that fit. Both ways that do
    /// so take much longer than to read it.
    fn verify(&self) -> Result<()> {
        self.committed.as_ref().map_or(Ok(()), |it| store::verify(&self.dir, it))
    }

    /// Leaves out the empty slots, in files of a new generation.
    fn compact(&mut self) -> Result<()> {
        let old = &self.content;
        let mut files = Files::open(&self.dir, Err(self.files.generation() + 1))?;
        let (mut codes, mut chunks) = (Vec::new(), Vec::new());
        for slot in 0..old.slots() as u32 {
            let Some(chunk) = old.chunk(slot) else { continue };
            codes.extend_from_slice(old.codes().get(slot));
            chunks.push(chunk);
            if codes.len() >= PENDING {
                files.append(&codes, &chunks, &[])?;
                (codes, chunks) = (Vec::new(), Vec::new());
            }
        }
        files.append(&codes, &chunks, &[])?;
        let mut content = Content::of(old.dimensions);
        files.remap(&mut content)?;
        content.graph = if content.slots() < GRAPH_FROM {
            Graph::default()
        } else {
            let stay: Vec<bool> =
                (0..old.slots() as u32).map(|it| old.chunk(it).is_some()).collect();
            old.graph.kept(old.codes(), &stay, content.codes())
        };
        self.by_chunk = content.by_chunk();
        self.recent.clear();
        (self.files, self.content) = (files, content);
        Ok(())
    }
}
