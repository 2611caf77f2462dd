//! A node's file: a header of whole pages, then the bytes.
//!
//! Header: magic, format, length of the header, keys of root, parent and node, length and hash of the bytes,
//! microseconds that making them took, numbers of tokens and of chunks, tokens, chunks, and a hash over all of this;
//! zeros up to the end of the page. Numbers are little-endian. In an encrypted home all of this is sealed, in blocks.

use std::{
    fs::{File, OpenOptions},
    io::{BufWriter, ErrorKind, Write},
    path::Path,
};

use riddle_offload::PageReader;
use riddle_seal::{BlockWriter, Blocks, Key as Seal, ReadAt as _};

use crate::{
    error::{Error, Result},
    key::{FORMAT, Key},
};

const MAGIC: [u8; 8] = *b"RIDDLEKV";

/// What headers are rounded up to, so that the bytes can be read past the page cache.
pub(crate) const PAGE: usize = 4096;

/// Longest header that is believed: a segment has some hundred tokens.
const LONGEST_HEADER: usize = 4 << 20;

/// Bytes before the tokens.
const FIXED: usize = 8 + 4 + 4 + 3 * 32 + 8 + 32 + 8 + 4 + 4;

/// What a file says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) root: Key,
    pub(crate) parent: Key,
    pub(crate) key: Key,
    pub(crate) payload: u64,
    pub(crate) checksum: [u8; 32],
    /// What reading the tokens took, in microseconds.
    pub(crate) cost_us: u64,
    pub(crate) tokens: Vec<u32>,
    pub(crate) chunks: Vec<u64>,
}

impl Header {
    /// Bytes of the header of so many tokens and chunks, whole pages.
    fn length(tokens: usize, chunks: usize) -> usize {
        (FIXED + tokens * 4 + chunks * 8 + 32).next_multiple_of(PAGE)
    }

    /// Bytes of the whole file.
    pub(crate) fn file_bytes(&self) -> u64 {
        Header::length(self.tokens.len(), self.chunks.len()) as u64 + self.payload
    }

    fn to_bytes(&self) -> Vec<u8> {
        let length = Header::length(self.tokens.len(), self.chunks.len());
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&count(length).to_le_bytes());
        for key in [self.root, self.parent, self.key] {
            bytes.extend_from_slice(&key.0);
        }
        bytes.extend_from_slice(&self.payload.to_le_bytes());
        bytes.extend_from_slice(&self.checksum);
        bytes.extend_from_slice(&self.cost_us.to_le_bytes());
        bytes.extend_from_slice(&count(self.tokens.len()).to_le_bytes());
        bytes.extend_from_slice(&count(self.chunks.len()).to_le_bytes());
        self.tokens.iter().for_each(|it| bytes.extend_from_slice(&it.to_le_bytes()));
        self.chunks.iter().for_each(|it| bytes.extend_from_slice(&it.to_le_bytes()));
        let hash = blake3::hash(&bytes);
        bytes.extend_from_slice(hash.as_bytes());
        bytes.resize(length, 0);
        bytes
    }

    /// Reads it from the beginning of a file, which must be as long as it says.
    pub(crate) fn read(path: &Path, seal: Option<&Seal>) -> Result<Header> {
        let file = File::open(path).map_err(Error::io(path))?;
        let broken = |why| Error::Broken { path: path.to_path_buf(), why };
        let source = Source::of(file, seal).map_err(|error| match error.kind() {
            ErrorKind::InvalidData => broken("it does not open"),
            _ => Error::io(path)(error),
        })?;
        let mut bytes = vec![0; PAGE];
        source.read(0, &mut bytes).map_err(|_| broken("it is cut off"))?;
        if bytes[..8] != MAGIC {
            return Err(broken("it is something else"));
        }
        if bytes[8..12] != FORMAT.to_le_bytes() {
            return Err(broken("another version wrote it"));
        }
        let head = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]) as usize;
        if !head.is_multiple_of(PAGE) || !(PAGE..=LONGEST_HEADER).contains(&head) {
            return Err(broken("its header has no possible length"));
        }
        bytes.resize(head, 0);
        source.read(PAGE as u64, &mut bytes[PAGE..]).map_err(|_| broken("it is cut off"))?;
        let header = Header::parse(&bytes).ok_or_else(|| broken("its header is damaged"))?;
        if header.file_bytes() != source.len().map_err(Error::io(path))? {
            return Err(broken("it is not as long as it says"));
        }
        Ok(header)
    }

    fn parse(bytes: &[u8]) -> Option<Header> {
        let mut rest = Fields(bytes.get(16..)?);
        let [root, parent, key] = [(); 3].map(|()| rest.take::<32>());
        let payload = u64::from_le_bytes(rest.take()?);
        let checksum = rest.take()?;
        let cost_us = u64::from_le_bytes(rest.take()?);
        let tokens = u32::from_le_bytes(rest.take()?) as usize;
        let chunks = u32::from_le_bytes(rest.take()?) as usize;
        // Checked before anything is allocated for them.
        if tokens > bytes.len() / 4 || chunks > bytes.len() / 8 {
            return None;
        }
        if Header::length(tokens, chunks) != bytes.len() {
            return None;
        }
        let tokens =
            (0..tokens).map(|_| rest.take().map(u32::from_le_bytes)).collect::<Option<_>>()?;
        let chunks =
            (0..chunks).map(|_| rest.take().map(u64::from_le_bytes)).collect::<Option<_>>()?;
        let end = bytes.len() - rest.0.len();
        let hash: [u8; 32] = rest.take()?;
        let header = Header {
            root: Key(root?),
            parent: Key(parent?),
            key: Key(key?),
            payload,
            checksum,
            cost_us,
            tokens,
            chunks,
        };
        (blake3::hash(&bytes[..end]).as_bytes() == &hash).then_some(header)
    }
}

/// What a node's sealed file is sealed as: it says itself which node it is.
const SEALED_AS: &str = "node";

/// A node's file.
enum Source {
    Plain(File),
    Sealed(Box<Blocks<File>>),
}

impl Source {
    fn of(file: File, seal: Option<&Seal>) -> std::io::Result<Source> {
        Ok(match seal {
            None => Source::Plain(file),
            Some(seal) => Source::Sealed(Box::new(Blocks::open(file, seal, SEALED_AS)?)),
        })
    }

    fn len(&self) -> std::io::Result<u64> {
        match self {
            Source::Plain(file) => file.bytes(),
            Source::Sealed(blocks) => Ok(blocks.len()),
        }
    }

    fn read(&self, at: u64, to: &mut [u8]) -> std::io::Result<()> {
        match self {
            Source::Plain(file) => file.read_at(at, to),
            Source::Sealed(blocks) => {
                to.copy_from_slice(&blocks.read(at..at + to.len() as u64)?);
                Ok(())
            }
        }
    }
}

/// The fields of a header, one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }
}

fn count(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}

/// The checksum of bytes that come in parts.
pub(crate) fn checksum(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = blake3::Hasher::new();
    for part in parts {
        hash.update(part);
    }
    *hash.finalize().as_bytes()
}

/// Writes a node into a new file, which only its owner may read.
pub(crate) fn write(
    path: &Path,
    seal: Option<&Seal>,
    header: &Header,
    parts: &[&[u8]],
) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let all = |to: &mut dyn Write| {
        to.write_all(&header.to_bytes())?;
        parts.iter().try_for_each(|part| to.write_all(part))
    };
    match seal {
        None => all(&mut file),
        Some(seal) => {
            let mut sealed = BlockWriter::new(BufWriter::new(file), seal, SEALED_AS)?;
            all(&mut sealed)?;
            sealed.write_last()
        }
    }
}

/// Reads a node's bytes into `parts`, past the page cache where the system can and they are not sealed. What is in
/// `parts` after an error means nothing.
pub(crate) fn load(
    path: &Path,
    seal: Option<&Seal>,
    tokens: &[u32],
    parts: &mut [&mut [u8]],
    reader: &mut PageReader,
) -> Result<Header> {
    let header = Header::read(path, seal)?;
    let broken = |why| Error::Broken { path: path.to_path_buf(), why };
    let wanted: usize = parts.iter().map(|it| it.len()).sum();
    if header.tokens != tokens {
        return Err(broken("it was made of other tokens"));
    }
    if header.payload != wanted as u64 {
        return Err(broken("its bytes are of another shape"));
    }
    let start = Header::length(header.tokens.len(), header.chunks.len()) as u64;
    let mut hash = blake3::Hasher::new();
    let mut parts = parts.iter_mut();
    let mut room: &mut [u8] = &mut [];
    let mut take = |mut bytes: &[u8]| {
        hash.update(bytes);
        while !bytes.is_empty() {
            if room.is_empty() {
                let Some(part) = parts.next() else { return };
                room = part;
            }
            let (now, later) = bytes.split_at(bytes.len().min(room.len()));
            let (to, rest) = std::mem::take(&mut room).split_at_mut(now.len());
            to.copy_from_slice(now);
            (room, bytes) = (rest, later);
        }
    };
    match seal {
        None => reader.read(path, start, wanted, &mut take),
        Some(seal) => File::open(path)
            .and_then(|file| Blocks::open(file, seal, SEALED_AS))
            .and_then(|blocks| blocks.each(start..start + wanted as u64, &mut take)),
    }
    .map_err(|error| match error.kind() {
        ErrorKind::InvalidData => broken("its bytes are damaged"),
        _ => Error::io(path)(error),
    })?;
    if hash.finalize().as_bytes() != &header.checksum {
        return Err(broken("its bytes are damaged"));
    }
    Ok(header)
}
