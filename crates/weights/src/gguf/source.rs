//! A header read from its beginning, every length compared with what the file can hold.

use std::{
    fs::File,
    io::{BufReader, Read},
    path::{Path, PathBuf},
};

use crate::{Error, Result};

/// A header is mostly its vocabulary; the largest published ones stay below 20 MB.
pub(super) const MAX_HEADER_BYTES: u64 = 128 << 20;

/// Read at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// What is read next.
pub(super) struct Source<'a> {
    path: &'a Path,
    file: BufReader<&'a File>,
    /// Bytes read.
    at: u64,
    /// Bytes there are.
    len: u64,
}

impl<'a> Source<'a> {
    /// `len`: bytes of the file, which was not read before.
    pub(super) fn new(path: &'a Path, file: &'a File, len: u64) -> Source<'a> {
        Source { path, file: BufReader::with_capacity(BUFFER_BYTES, file), at: 0, len }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.path.to_path_buf()
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> u64 {
        self.at
    }

    /// Refuses what the file has no room for.
    pub(super) fn expect(&self, bytes: u64) -> Result<()> {
        let promised = self.at.saturating_add(bytes);
        if promised > self.len {
            return Err(Error::Truncated { path: self.path(), actual: self.len, promised });
        }
        if promised > MAX_HEADER_BYTES {
            let path = self.path();
            return Err(Error::HeaderTooLarge { path, bytes: promised, limit: MAX_HEADER_BYTES });
        }
        Ok(())
    }

    fn io(&self, source: std::io::Error) -> Error {
        Error::Io { path: self.path(), source }
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.expect(N as u64)?;
        let mut out = [0; N];
        self.file.read_exact(&mut out).map_err(|it| self.io(it))?;
        self.at += N as u64;
        Ok(out)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    /// Appends a string, of whatever bytes.
    pub(super) fn append_text(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let bytes = self.u64()?;
        self.append(bytes, out)
    }

    fn append(&mut self, bytes: u64, out: &mut Vec<u8>) -> Result<()> {
        self.expect(bytes)?;
        // Grows as it reads: what is missing is not allocated either.
        let read = (&mut self.file).take(bytes).read_to_end(out).map_err(|it| self.io(it))?;
        self.at += bytes;
        if read as u64 == bytes {
            return Ok(());
        }
        Err(self.io(std::io::ErrorKind::UnexpectedEof.into()))
    }

    /// A string of at most so many bytes that must be UTF-8; `what` names it in messages.
    pub(super) fn text(&mut self, limit: u64, what: &str) -> Result<String> {
        let start = self.at;
        let bytes = self.u64()?;
        // A length that the file does not hold is told as such.
        self.expect(bytes)?;
        let bad = |why| Error::BadName { path: self.path(), at: start, why };
        if bytes > limit {
            return Err(bad(format!("{what} claims {bytes} bytes, {limit} are allowed")));
        }
        let mut out = Vec::new();
        self.append(bytes, &mut out)?;
        let bad = |why| Error::BadName { path: self.path(), at: start, why };
        String::from_utf8(out).map_err(|_| bad(format!("{what} is not UTF-8")))
    }

    /// A string; what is not UTF-8 is replaced: a description is no reason to refuse a model.
    pub(super) fn lossy_text(&mut self) -> Result<String> {
        let mut out = Vec::new();
        self.append_text(&mut out)?;
        Ok(String::from_utf8(out)
            .unwrap_or_else(|it| String::from_utf8_lossy(it.as_bytes()).into_owned()))
    }
}
