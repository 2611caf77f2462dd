//! Bytes of a file in pieces, past the page cache where the system can: for what is read once and goes elsewhere.

use std::{io::Result, path::Path};

use riddle_weights::PAGE;

use crate::{buffer::AlignedBuffer, file::PageFile};

/// Bytes of a piece: a huge page, into which a read is one request.
const PIECE: usize = 2 << 20;

/// Memory through which files are read in pieces.
pub struct PageReader(AlignedBuffer);

impl std::fmt::Debug for PageReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageReader").finish_non_exhaustive()
    }
}

impl Default for PageReader {
    fn default() -> PageReader {
        PageReader(AlignedBuffer::new(PIECE))
    }
}

impl PageReader {
    /// Hands `take` the `bytes` bytes of the file in `path` from `offset` on, which is a multiple of a page, piece by
    /// piece.
    ///
    /// # Errors
    /// When it can not be opened or read, or ends before them.
    pub fn read(
        &mut self,
        path: &Path,
        offset: u64,
        bytes: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        let file = PageFile::open(path, true)?;
        let mut done = 0;
        while done < bytes {
            let wanted = (bytes - done).min(PIECE);
            let room = &mut self.0.as_mut_slice()[..wanted.next_multiple_of(PAGE)];
            file.read(room, offset + done as u64, wanted)?;
            take(&room[..wanted]);
            done += wanted;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_in_pieces_and_a_short_one_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("pages");
        let bytes: Vec<u8> = (0..PAGE + 2 * PIECE + 77).map(|it| (it * 31 % 251) as u8).collect();
        std::fs::write(&path, &bytes).expect("room");
        let mut reader = PageReader::default();
        let mut read = Vec::new();
        let wanted = bytes.len() - PAGE;
        let mut take = |it: &[u8]| read.extend_from_slice(it);
        reader.read(&path, PAGE as u64, wanted, &mut take).expect("it reads");
        assert!(read == bytes[PAGE..]);
        assert!(reader.read(&path, PAGE as u64, wanted + 1, &mut |_| {}).is_err());
    }
}
