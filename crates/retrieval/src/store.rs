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

use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use riddle_types::ChunkId;
use serde::{Deserialize, Serialize};

use crate::{
    Error, Result,
    graph::{Codes, Graph},
    mapped::Mapped,
};

/// Raised when the files change: an index of another version is built again.
const VERSION: u32 = 3;

const MANIFEST: &str = "current.json";

/// Bytes that have a sum together.
const BLOCK: usize = 4 << 20;

/// Bytes of an index that is checked whenever it is opened: that takes some milliseconds.
const CHECKED_AT_OPENING: u64 = 32 << 20;

/// A file of the index: its beginning of that length, and the BLAKE3 hash of every [`BLOCK`] of it.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    name: String,
    bytes: u64,
    blake3: Vec<String>,
}

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

pub(crate) fn rebuild(dir: &Path, why: impl ToString) -> Error {
    Error::Rebuild { dir: dir.to_path_buf(), why: why.to_string() }
}

fn io_error(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Io { path, source }
}

/// The committed state's description; `None` where nothing was ever committed.
pub(crate) fn read_manifest(dir: &Path) -> Result<Option<Manifest>> {
    let path = dir.join(MANIFEST);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Io { path, source }),
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

impl Part {
    /// Where the file lies.
    fn path(&self, dir: &Path) -> Result<PathBuf> {
        // A plain name: a manifest could otherwise lead anywhere.
        if Path::new(&self.name).file_name() != Some(self.name.as_ref()) {
            return Err(rebuild(dir, "its manifest is not ours"));
        }
        Ok(dir.join(&self.name))
    }
}

/// Maps what is committed of a file.
fn map(dir: &Path, part: &Part) -> Result<Mapped> {
    Mapped::open(&part.path(dir)?, part.bytes)
        .map_err(|error| rebuild(dir, format!("{}: {error}", part.name)))?
        .ok_or_else(|| rebuild(dir, format!("{} is too short", part.name)))
}

/// Opens what the manifest names.
pub(crate) fn load(dir: &Path, manifest: &Manifest) -> Result<Content> {
    if manifest.bytes() <= CHECKED_AT_OPENING {
        verify(dir, manifest)?;
    }
    let damaged = |name: &str| rebuild(dir, format!("its {name} are damaged"));
    let (codes, chunks) = (map(dir, &manifest.codes)?, map(dir, &manifest.chunks)?);
    let slots = chunks.bytes().len() / 8;
    let whole = chunks.bytes().len().is_multiple_of(8)
        && slots < u32::MAX as usize
        && slots.checked_mul(manifest.dimensions) == Some(codes.bytes().len());
    if !whole {
        return Err(damaged("slots"));
    }
    let mut gone = Slots::default();
    for slot in map(dir, &manifest.gone)?.bytes().chunks(4) {
        let slot = slot.first_chunk::<4>().map(|it| u32::from_le_bytes(*it));
        let slot = slot.filter(|it| (*it as usize) < slots).ok_or_else(|| damaged("slots"))?;
        gone.insert(slot);
    }
    let graph = match &manifest.graph {
        None => Graph::default(),
        Some((part, nodes)) => Graph::read(map(dir, part)?, *nodes)
            .filter(|it| it.nodes() <= slots)
            .ok_or_else(|| damaged("links"))?,
    };
    Ok(Content { dimensions: manifest.dimensions, codes, chunks, gone, graph })
}

/// Reads everything, and holds it against its sums.
///
/// # Errors
/// [`Error::Rebuild`] for the first file that is not what was written.
pub(crate) fn verify(dir: &Path, manifest: &Manifest) -> Result<()> {
    for part in manifest.parts() {
        let path = part.path(dir)?;
        let found = sums(&path, 0, part.bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => rebuild(dir, format!("{} is too short", part.name)),
            _ => rebuild(dir, format!("{}: {error}", part.name)),
        })?;
        if found != part.blake3 {
            return Err(rebuild(dir, format!("{} is damaged", part.name)));
        }
    }
    Ok(())
}

/// The hashes of a file's blocks from `first` on, of its first `bytes`. Read and not mapped: whoever maps the file
/// already would have it in memory twice, as the system counts.
fn sums(path: &Path, first: usize, bytes: u64) -> std::io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let mut at = first as u64 * BLOCK as u64;
    file.seek(SeekFrom::Start(at))?;
    let mut sums = Vec::new();
    let mut block = Vec::new();
    while at < bytes {
        block.resize((bytes - at).min(BLOCK as u64) as usize, 0);
        file.read_exact(&mut block)?;
        sums.push(blake3::hash(&block).to_hex().to_string());
        at += block.len() as u64;
    }
    Ok(sums)
}

/// A file that grows.
#[derive(Debug)]
struct Growing {
    path: PathBuf,
    file: File,
    /// Written, of which the committed part is the beginning.
    bytes: u64,
    /// What is committed.
    part: Part,
}

impl Growing {
    /// Opens a committed file and cuts off what a crash left behind it, or makes an empty one.
    fn open(dir: &Path, name: String, part: Option<&Part>) -> Result<Growing> {
        let path = dir.join(&name);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(io_error(&path))?;
        let part = part.cloned().unwrap_or(Part { name, ..Part::default() });
        let mut growing = Growing { path, file, bytes: part.bytes, part };
        growing.back_to(growing.bytes)?;
        Ok(growing)
    }

    fn back_to(&mut self, bytes: u64) -> Result<()> {
        let file = &mut self.file;
        // Not where nothing is behind it: some systems refuse to touch the length of a file that a reader has mapped.
        let cut = file
            .metadata()
            .and_then(|it| if it.len() == bytes { Ok(()) } else { file.set_len(bytes) });
        let moved = cut.and_then(|()| file.seek(SeekFrom::Start(bytes)));
        moved.map(drop).map_err(io_error(&self.path))
    }

    /// Appends; on an error the file is as before.
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if let Err(source) = self.file.write_all(bytes) {
            // A full disk leaves half of it: the next one has to start where this one did.
            self.back_to(self.bytes)?;
            return Err(Error::Io { path: self.path.clone(), source });
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// What a commit of everything that is written says of the file, once it is on the disk.
    fn committed(&mut self) -> Result<Part> {
        if self.bytes != self.part.bytes {
            self.file.sync_data().map_err(io_error(&self.path))?;
            let whole = self.part.bytes as usize / BLOCK;
            let new = sums(&self.path, whole, self.bytes).map_err(io_error(&self.path))?;
            self.part.blake3.truncate(whole);
            self.part.blake3.extend(new);
            self.part.bytes = self.bytes;
        }
        Ok(self.part.clone())
    }
}

/// The writer's side of the folder.
#[derive(Debug)]
pub(crate) struct Files {
    dir: PathBuf,
    generation: u64,
    codes: Growing,
    chunks: Growing,
    gone: Growing,
}

impl Files {
    /// The committed files of the manifest's generation, or empty ones of that number.
    pub(crate) fn open(dir: &Path, manifest: Result<&Manifest, u64>) -> Result<Files> {
        let (manifest, generation) = match manifest {
            Ok(it) => (Some(it), it.generation),
            Err(generation) => (None, generation),
        };
        let open = |name: &str, part: fn(&Manifest) -> &Part| {
            Growing::open(dir, format!("{name}-{generation}.bin"), manifest.map(part))
        };
        Ok(Files {
            dir: dir.to_path_buf(),
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
            self.codes.bytes = codes_before;
            self.chunks.bytes = chunks_before;
            self.codes.back_to(codes_before)?;
            self.chunks.back_to(chunks_before)?;
        }
        appended
    }

    /// Maps everything that is written, committed or not. The graph stays what it is.
    pub(crate) fn remap(&self, content: &mut Content) -> Result<()> {
        let map = |it: &Growing| {
            let mapped = Mapped::open(&it.path, it.bytes).map_err(io_error(&it.path))?;
            mapped.ok_or_else(|| rebuild(&self.dir, "somebody else writes it"))
        };
        (content.codes, content.chunks) = (map(&self.codes)?, map(&self.chunks)?);
        Ok(())
    }

    /// Writes the graph to a file of its own.
    pub(crate) fn write_graph(&self, graph: &Graph) -> Result<(Part, usize)> {
        let name = format!("links-{}-{}.bin", self.generation, graph.nodes());
        let path = self.dir.join(&name);
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
            .ok_or_else(|| rebuild(&self.dir, "its links are damaged"))
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
        let dir = &self.dir;
        let json = serde_json::to_vec(&manifest).expect("plain data serializes: this is a bug");
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
