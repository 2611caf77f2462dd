//! The vector index on disk: a log that only grows, a graph file, and a manifest that names both.
//!
//! A commit appends to the log, makes it durable, and replaces the manifest by a rename; what the manifest
//! does not name does not exist. So a small change costs a small write however large the index is, and a
//! crash at any moment leaves the last commit: longer logs are cut, other files deleted.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{ErrorKind, Seek as _, SeekFrom, Write as _},
    path::Path,
};

use riddle_types::ChunkId;
use serde::{Deserialize, Serialize};

use crate::{
    Error, Result,
    graph::{Codes, Graph},
};

/// Raised when the files change: an index of another version is built again.
const VERSION: u32 = 2;

const MANIFEST: &str = "current.json";

/// First byte of a log record: an id and a code follow.
const INSERT: u8 = 1;
/// First byte of a log record: an id follows.
const REMOVE: u8 = 2;

/// A file of the index: its beginning of that length has that BLAKE3 hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    name: String,
    bytes: u64,
    blake3: String,
}

/// What is committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    version: u32,
    pub(crate) embedder: String,
    pub(crate) dimensions: usize,
    pub(crate) seq: u64,
    /// Raised when the log starts anew.
    pub(crate) generation: u64,
    pub(crate) log: Part,
    /// The graph and its number of nodes.
    pub(crate) graph: Option<(Part, usize)>,
}

/// Chunks and codes by slot; a removed chunk leaves an empty slot behind.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) dimensions: usize,
    /// Chunk of each slot; `None` when it was removed.
    pub(crate) slots: Vec<Option<ChunkId>>,
    /// `[slots, dimensions]`.
    pub(crate) values: Vec<i8>,
    pub(crate) slot_of: HashMap<ChunkId, u32>,
    /// Links of the first slots; the newest may not be in it yet.
    pub(crate) graph: Graph,
}

impl Content {
    pub(crate) fn codes(&self) -> Codes<'_> {
        Codes { dimensions: self.dimensions, values: &self.values }
    }

    pub(crate) fn insert(&mut self, chunk: ChunkId, code: impl Iterator<Item = i8>) {
        let slot = self.slots.len() as u32;
        if let Some(former) = self.slot_of.insert(chunk, slot) {
            self.slots[former as usize] = None;
        }
        self.slots.push(Some(chunk));
        self.values.extend(code);
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, chunk: ChunkId) -> bool {
        let slot = self.slot_of.remove(&chunk);
        if let Some(slot) = slot {
            self.slots[slot as usize] = None;
        }
        slot.is_some()
    }

    /// The same without empty slots, and without a graph.
    pub(crate) fn compacted(&self) -> Content {
        let mut compact = Content { dimensions: self.dimensions, ..Content::default() };
        for (slot, chunk) in self.slots.iter().enumerate() {
            if let Some(chunk) = chunk {
                compact.insert(*chunk, self.codes().get(slot as u32).iter().copied());
            }
        }
        compact
    }

    fn replay(&mut self, mut log: &[u8]) -> Option<()> {
        let dimensions = self.dimensions;
        while let Some((&tag, rest)) = log.split_first() {
            let (id, rest) = rest.split_first_chunk::<8>()?;
            let chunk = ChunkId(u64::from_le_bytes(*id));
            log = match tag {
                INSERT => {
                    let (code, rest) = rest.split_at_checked(dimensions)?;
                    self.insert(chunk, code.iter().map(|it| it.cast_signed()));
                    rest
                }
                REMOVE => {
                    self.remove(chunk);
                    rest
                }
                _ => return None,
            };
        }
        Some(())
    }
}

/// Appends the record of an insertion to `log`.
pub(crate) fn record_insert(log: &mut Vec<u8>, chunk: ChunkId, code: &[i8]) {
    log.push(INSERT);
    log.extend_from_slice(&chunk.0.to_le_bytes());
    log.extend(code.iter().map(|it| it.cast_unsigned()));
}

/// Appends the record of a removal to `log`.
pub(crate) fn record_remove(log: &mut Vec<u8>, chunk: ChunkId) {
    log.push(REMOVE);
    log.extend_from_slice(&chunk.0.to_le_bytes());
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
    let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|error| rebuild(dir, error))?;
    if manifest.version != VERSION {
        return Err(rebuild(dir, "it is of another version"));
    }
    Ok(Some(manifest))
}

/// The part's bytes, checked.
fn read_part(dir: &Path, part: &Part) -> Result<Vec<u8>> {
    // A plain name: a manifest could otherwise lead anywhere.
    if Path::new(&part.name).file_name() != Some(part.name.as_ref()) {
        return Err(rebuild(dir, "its manifest is not ours"));
    }
    let mut bytes = std::fs::read(dir.join(&part.name))
        .map_err(|error| rebuild(dir, format!("{}: {error}", part.name)))?;
    if (bytes.len() as u64) < part.bytes {
        return Err(rebuild(dir, format!("{} is too short", part.name)));
    }
    bytes.truncate(part.bytes as usize);
    if blake3::hash(&bytes).to_hex().as_str() != part.blake3 {
        return Err(rebuild(dir, format!("{} is damaged", part.name)));
    }
    Ok(bytes)
}

/// Reads what the manifest names.
pub(crate) fn load(dir: &Path, manifest: &Manifest) -> Result<Content> {
    let mut content = Content { dimensions: manifest.dimensions, ..Content::default() };
    let log = read_part(dir, &manifest.log)?;
    content.replay(&log).ok_or_else(|| rebuild(dir, "its log is damaged"))?;
    if let Some((part, nodes)) = &manifest.graph {
        content.graph = Graph::read(&read_part(dir, part)?, *nodes)
            .filter(|_| *nodes <= content.slots.len())
            .ok_or_else(|| rebuild(dir, "its graph is damaged"))?;
    }
    Ok(content)
}

/// The writer's side of the folder.
#[derive(Debug)]
pub(crate) struct Log {
    generation: u64,
    file: File,
    bytes: u64,
    hasher: blake3::Hasher,
}

fn log_name(generation: u64) -> String {
    format!("vectors-{generation}.log")
}

impl Log {
    /// Opens the committed log, cutting off what a crash left behind it.
    pub(crate) fn open(dir: &Path, manifest: &Manifest) -> Result<Log> {
        let committed = read_part(dir, &manifest.log)?;
        let path = dir.join(&manifest.log.name);
        let mut file = OpenOptions::new().write(true).open(&path).map_err(io_error(&path))?;
        file.set_len(manifest.log.bytes).map_err(io_error(&path))?;
        file.seek(SeekFrom::End(0)).map_err(io_error(&path))?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&committed);
        Ok(Log { generation: manifest.generation, file, bytes: manifest.log.bytes, hasher })
    }

    /// An empty log; replaces what a crash may have left under its name.
    pub(crate) fn create(dir: &Path, generation: u64) -> Result<Log> {
        let path = dir.join(log_name(generation));
        let file = File::create(&path).map_err(io_error(&path))?;
        Ok(Log { generation, file, bytes: 0, hasher: blake3::Hasher::new() })
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Adds records durably; on an error the log is as before.
    pub(crate) fn append(&mut self, dir: &Path, records: &[u8]) -> Result<()> {
        let path = dir.join(log_name(self.generation));
        let written = self.file.write_all(records).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // A full disk leaves half a record: the next append has to start where this one did.
            self.file
                .set_len(self.bytes)
                .and_then(|()| self.file.seek(SeekFrom::Start(self.bytes)))
                .map_err(io_error(&path))?;
            return Err(io_error(&path)(error));
        }
        self.bytes += records.len() as u64;
        self.hasher.update(records);
        Ok(())
    }

    fn part(&self) -> Part {
        Part {
            name: log_name(self.generation),
            bytes: self.bytes,
            blake3: self.hasher.finalize().to_hex().to_string(),
        }
    }
}

/// Writes the graph to a file of its own.
pub(crate) fn write_graph(dir: &Path, generation: u64, graph: &Graph) -> Result<(Part, usize)> {
    let bytes = graph.to_bytes();
    let name = format!("links-{generation}-{}.bin", graph.nodes());
    write_durably(&dir.join(&name), &bytes)?;
    let blake3 = blake3::hash(&bytes).to_hex().to_string();
    Ok((Part { name, bytes: bytes.len() as u64, blake3 }, graph.nodes()))
}

/// Makes log and graph the committed state, and deletes what is not part of it.
pub(crate) fn write_manifest(
    dir: &Path,
    embedder: &str,
    dimensions: usize,
    seq: u64,
    log: &Log,
    graph: Option<(Part, usize)>,
) -> Result<Manifest> {
    let manifest = Manifest {
        version: VERSION,
        embedder: embedder.to_owned(),
        dimensions,
        seq,
        generation: log.generation,
        log: log.part(),
        graph,
    };
    let json = serde_json::to_vec(&manifest).expect("plain data serializes: this is a bug");
    let temporary = dir.join("current.json.new");
    write_durably(&temporary, &json)?;
    std::fs::rename(&temporary, dir.join(MANIFEST)).map_err(io_error(&temporary))?;
    // The rename itself is durable once the folder is; other systems than Unix can not open folders.
    #[cfg(unix)]
    File::open(dir).and_then(|it| it.sync_all()).map_err(io_error(dir))?;
    let graph_name = manifest.graph.as_ref().map(|it| it.0.name.as_str());
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let kept = name == MANIFEST
            || name == manifest.log.name.as_str()
            || graph_name.is_some_and(|it| name == it);
        let ours = name.to_str().is_some_and(|it| it.ends_with(".log") || it.ends_with(".bin"));
        if ours && !kept {
            // What can not be removed now costs space only, and is tried again at the next commit.
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Ok(manifest)
}

fn write_durably(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = |mut file: File| file.write_all(bytes).and_then(|()| file.sync_all());
    File::create(path).and_then(write).map_err(io_error(path))
}
