//! What a vector index keeps on the disk, and how it is committed.
//!
//! Vectors have slots, in the order in which they came. Of slot *s* the files of a generation hold: `codes-G.bin` its
//! code (`[slots, dimensions]`, bytes), `chunks-G.bin` its chunk (`[slots]`, 8 bytes), and `gone-G.bin` lists the slots
//! that were removed (4 bytes each, in order of removal). They are appended to; `links-G-N.bin`, the graph of the first
//! N slots, is written whole. All numbers are little-endian. `current.json` says how much of each is committed, and is
//! replaced at once: what lies behind it, a crash has left.
//!
//! Nothing is read when an index is opened but the chunks, the removed slots and the levels of the graph: the rest is
//! mapped. Small indexes are checked against their sums then, large ones when somebody asks ([`verify`]).
//!
//! In a home that is encrypted the manifest is sealed whole, and the others are sealed logs: they are opened into
//! memory, and have no sums, because what is not what was written does not open.

use std::{
    fs::File,
    io::{ErrorKind, Write as _},
    path::Path,
};

use riddle_seal::{Log, Place};
use riddle_types::ChunkId;
use serde::{Deserialize, Serialize};

use crate::{
    Error, Result,
    graph::{Codes, Graph},
    growing::Growing,
    mapped::Mapped,
    part::{Part, damaged, io_error, rebuild, sums},
};

/// Raised when the files change: an index of another version is built again.
const VERSION: u32 = 3;

pub(crate) const MANIFEST: &str = "current.json";

/// Bytes of an index that is checked whenever it is opened: that takes some milliseconds.
const CHECKED_AT_OPENING: u64 = 32 << 20;

/// What is committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    version: u32,
    pub(crate) embedder: String,
    pub(crate) dimensions: usize,
    pub(crate) seq: u64,
    /// Raised when the slots are numbered anew.
    pub(crate) generation: u64,
    pub(crate) codes: Part,
    pub(crate) chunks: Part,
    pub(crate) gone: Part,
    /// The graph and its number of nodes.
    pub(crate) graph: Option<(Part, usize)>,
}

impl Manifest {
    fn bytes(&self) -> u64 {
        let graph = self.graph.as_ref().map_or(0, |it| it.0.bytes);
        self.codes.bytes + self.chunks.bytes + self.gone.bytes + graph
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        [&self.codes, &self.chunks, &self.gone].into_iter().chain(self.graph.iter().map(|it| &it.0))
    }
}

/// A set of slots.
#[derive(Debug, Default, Clone)]
pub(crate) struct Slots {
    words: Vec<u64>,
    count: usize,
}

impl Slots {
    pub(crate) fn contains(&self, slot: u32) -> bool {
        self.words.get(slot as usize / 64).is_some_and(|it| it >> (slot % 64) & 1 == 1)
    }

    /// Whether it is new.
    pub(crate) fn insert(&mut self, slot: u32) -> bool {
        let word = slot as usize / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = !self.contains(slot);
        self.words[word] |= 1 << (slot % 64);
        self.count += usize::from(new);
        new
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

/// The committed slots, as they lie in the files.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) dimensions: usize,
    codes: Mapped,
    chunks: Mapped,
    /// Slots that were removed.
    pub(crate) gone: Slots,
    /// Links of the first slots; the newest may not be in it yet.
    pub(crate) graph: Graph,
}

impl Content {
    /// Nothing yet.
    pub(crate) fn of(dimensions: usize) -> Content {
        Content { dimensions, ..Content::default() }
    }

    /// Number of slots, those of removed chunks counted.
    pub(crate) fn slots(&self) -> usize {
        self.chunks.bytes().len() / 8
    }

    /// Bytes of it that lie in files.
    pub(crate) fn mapped_bytes(&self) -> usize {
        self.codes.mapped_bytes() + self.graph.mapped_bytes()
    }

    /// [`Mapped::give_back`] of all that a search looks at.
    pub(crate) fn give_back(&self) {
        self.codes.give_back();
        self.graph.give_back();
    }

    pub(crate) fn codes(&self) -> Codes<'_> {
        Codes { dimensions: self.dimensions, values: bytemuck::cast_slice(self.codes.bytes()) }
    }

    /// The chunk that was put into a slot, removed or not.
    pub(crate) fn chunk_of(&self, slot: u32) -> Option<ChunkId> {
        let bytes = self.chunks.bytes().get(slot as usize * 8..)?.first_chunk::<8>()?;
        Some(ChunkId(u64::from_le_bytes(*bytes)))
    }

    /// The chunk in a slot; `None` when it was removed.
    pub(crate) fn chunk(&self, slot: u32) -> Option<ChunkId> {
        if self.gone.contains(slot) { None } else { self.chunk_of(slot) }
    }

    /// The slots that hold chunks, by their chunks.
    pub(crate) fn by_chunk(&self) -> Vec<u32> {
        let mut slots: Vec<u32> =
            (0..self.slots() as u32).filter(|it| !self.gone.contains(*it)).collect();
        // Mostly in order already: chunks come in the order of their numbers.
        slots.sort_by_key(|it| self.chunk_of(*it));
        slots
    }
}

/// The committed state's description; `None` where nothing was ever committed.
pub(crate) fn read_manifest(place: &Place) -> Result<Option<Manifest>> {
    let dir = place.path();
    let path = dir.join(MANIFEST);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Io { path, source }),
    };
    let bytes = match &place.key {
        Some(key) => {
            riddle_seal::open(key, MANIFEST, &bytes).map_err(|error| rebuild(dir, error))?
        }
        None => bytes,
    };
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let version: Version = serde_json::from_slice(&bytes).map_err(|error| rebuild(dir, error))?;
    if version.version != VERSION {
        return Err(rebuild(dir, "it is of another version"));
    }
    Ok(Some(serde_json::from_slice(&bytes).map_err(|error| rebuild(dir, error))?))
}

/// Maps what is committed of a file.
fn map(place: &Place, part: &Part) -> Result<Mapped> {
    let dir = place.path();
    part.path(dir)?;
    Mapped::open(place, &part.name, part.bytes)
        .map_err(|error| rebuild(dir, format!("{}: {error}", part.name)))?
        .ok_or_else(|| rebuild(dir, format!("{} is too short", part.name)))
}

/// Opens what the manifest names.
pub(crate) fn load(place: &Place, manifest: &Manifest) -> Result<Content> {
    let dir = place.path();
    // What is sealed is checked by being opened.
    if place.key.is_none() && manifest.bytes() <= CHECKED_AT_OPENING {
        verify(place, manifest)?;
    }
    let senseless = |name: &str| rebuild(dir, format!("its {name} are damaged"));
    let (codes, chunks) = (map(place, &manifest.codes)?, map(place, &manifest.chunks)?);
    let slots = chunks.bytes().len() / 8;
    let whole = chunks.bytes().len().is_multiple_of(8)
        && slots < u32::MAX as usize
        && slots.checked_mul(manifest.dimensions) == Some(codes.bytes().len());
    if !whole {
        return Err(senseless("slots"));
    }
    let mut gone = Slots::default();
    for slot in map(place, &manifest.gone)?.bytes().chunks(4) {
        let slot = slot.first_chunk::<4>().map(|it| u32::from_le_bytes(*it));
        let slot = slot.filter(|it| (*it as usize) < slots).ok_or_else(|| senseless("slots"))?;
        gone.insert(slot);
    }
    let graph = match &manifest.graph {
        None => Graph::default(),
        Some((part, nodes)) => Graph::read(map(place, part)?, *nodes)
            .filter(|it| it.nodes() <= slots)
            .ok_or_else(|| senseless("links"))?,
    };
    Ok(Content { dimensions: manifest.dimensions, codes, chunks, gone, graph })
}

/// Reads everything, and holds it against its sums.
///
/// # Errors
/// [`Error::Damaged`] for the first file that is not what was written.
pub(crate) fn verify(place: &Place, manifest: &Manifest) -> Result<()> {
    let dir = place.path();
    for part in manifest.parts() {
        if place.key.is_some() {
            map(place, part).map_err(|error| match error {
                Error::Rebuild { dir, why } => Error::Damaged { dir, why },
                error => error,
            })?;
            continue;
        }
        let path = part.path(dir)?;
        let found = sums(&path, 0, part.bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => damaged(dir, format!("{} is too short", part.name)),
            _ => damaged(dir, format!("{}: {error}", part.name)),
        })?;
        if found != part.blake3 {
            return Err(damaged(dir, format!("{}: it is not what was written", part.name)));
        }
    }
    Ok(())
}

/// The writer's side of the folder.
#[derive(Debug)]
pub(crate) struct Files {
    dir: Place,
    generation: u64,
    codes: Growing,
    chunks: Growing,
    gone: Growing,
}

impl Files {
    /// The committed files of the manifest's generation, or empty ones of that number.
    pub(crate) fn open(dir: &Place, manifest: Result<&Manifest, u64>) -> Result<Files> {
        let (manifest, generation) = match manifest {
            Ok(it) => (Some(it), it.generation),
            Err(generation) => (None, generation),
        };
        let open = |name: &str, part: fn(&Manifest) -> &Part| {
            Growing::open(dir, format!("{name}-{generation}.bin"), manifest.map(part))
        };
        Ok(Files {
            dir: dir.clone(),
            generation,
            codes: open("codes", |it| &it.codes)?,
            chunks: open("chunks", |it| &it.chunks)?,
            gone: open("gone", |it| &it.gone)?,
        })
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Appends slots (their codes and chunks) and removed slots.
    pub(crate) fn append(&mut self, codes: &[i8], chunks: &[ChunkId], gone: &[u32]) -> Result<()> {
        let (codes_before, chunks_before) = (self.codes.bytes, self.chunks.bytes);
        let chunks: Vec<u8> = chunks.iter().flat_map(|it| it.0.to_le_bytes()).collect();
        let gone: Vec<u8> = gone.iter().flat_map(|it| it.to_le_bytes()).collect();
        let appended = self
            .codes
            .append(bytemuck::cast_slice(codes))
            .and_then(|()| self.chunks.append(&chunks))
            .and_then(|()| self.gone.append(&gone));
        if appended.is_err() {
            // All three or none: slots are counted by both files.
            self.codes.back_to(codes_before)?;
            self.chunks.back_to(chunks_before)?;
        }
        appended
    }

    /// Maps everything that is written, committed or not. The graph stays what it is.
    pub(crate) fn remap(&self, content: &mut Content) -> Result<()> {
        let map = |it: &Growing| {
            let mapped =
                Mapped::open(&self.dir, &it.part.name, it.bytes).map_err(io_error(&it.path))?;
            mapped.ok_or_else(|| rebuild(self.dir.path(), "somebody else writes it"))
        };
        (content.codes, content.chunks) = (map(&self.codes)?, map(&self.chunks)?);
        Ok(())
    }

    /// Writes the graph to a file of its own.
    pub(crate) fn write_graph(&self, graph: &Graph) -> Result<(Part, usize)> {
        let name = format!("links-{}-{}.bin", self.generation, graph.nodes());
        let path = self.dir.path().join(&name);
        if let Some(key) = &self.dir.key {
            let write = |mut log: Log| {
                let bytes = graph.write(&mut log)?;
                log.sync().map(|()| bytes)
            };
            let bytes = Log::open(&path, key, &name, 0).and_then(write).map_err(io_error(&path))?;
            return Ok((Part { name, bytes, blake3: Vec::new() }, graph.nodes()));
        }
        let write = |mut file: File| {
            let bytes = graph.write(&mut file)?;
            file.sync_all().map(|()| bytes)
        };
        let bytes = File::create(&path).and_then(write).map_err(io_error(&path))?;
        let blake3 = sums(&path, 0, bytes).map_err(io_error(&path))?;
        Ok((Part { name, bytes, blake3 }, graph.nodes()))
    }

    /// Maps a graph that was written.
    pub(crate) fn map_graph(&self, graph: &(Part, usize)) -> Result<Graph> {
        Graph::read(map(&self.dir, &graph.0)?, graph.1)
            .ok_or_else(|| rebuild(self.dir.path(), "its links are damaged"))
    }

    /// Makes everything that is written the committed state, and deletes what is not part of it.
    pub(crate) fn commit(
        &mut self,
        embedder: &str,
        dimensions: usize,
        seq: u64,
        graph: Option<(Part, usize)>,
    ) -> Result<Manifest> {
        let manifest = Manifest {
            version: VERSION,
            embedder: embedder.to_owned(),
            dimensions,
            seq,
            generation: self.generation,
            codes: self.codes.committed()?,
            chunks: self.chunks.committed()?,
            gone: self.gone.committed()?,
            graph,
        };
        let dir = self.dir.path();
        let json = serde_json::to_vec(&manifest).expect("plain data serializes: this is a bug");
        let json = match &self.dir.key {
            Some(key) => riddle_seal::seal(key, MANIFEST, &json).map_err(io_error(dir))?,
            None => json,
        };
        let temporary = dir.join("current.json.new");
        write_durably(&temporary, &json)?;
        std::fs::rename(&temporary, dir.join(MANIFEST)).map_err(io_error(&temporary))?;
        // The rename itself is durable once the folder is; other systems than Unix can not open folders.
        #[cfg(unix)]
        File::open(dir).and_then(|it| it.sync_all()).map_err(io_error(dir))?;
        delete_others(dir, &manifest);
        Ok(manifest)
    }
}

/// Deletes what the manifest does not name.
fn delete_others(dir: &Path, manifest: &Manifest) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let kept = name == MANIFEST || manifest.parts().any(|it| name == it.name.as_str());
        let ours = name.to_str().is_some_and(|it| it.ends_with(".log") || it.ends_with(".bin"));
        if ours && !kept {
            // What can not be removed now costs space only, and is tried again at the next commit.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn write_durably(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = |mut file: File| file.write_all(bytes).and_then(|()| file.sync_all());
    File::create(path).and_then(write).map_err(io_error(path))
}
