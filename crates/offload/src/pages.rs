//! Bytes of a file in pieces, past the page cache where the system can: for what is read once and goes elsewhere.

use std::{io::Result, path::Path};

use riddle_weights::PAGE;

use crate::{buffer::AlignedBuffer, file::PageFile};

/// Bytes of a piece: a huge page, into which a read is one request.
const PIECE: usize = 2 << 20;

/// A file that is read in pieces.
pub struct PageReader {
    file: PageFile,
    room: AlignedBuffer,
}

impl std::fmt::Debug for PageReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageReader").field("path", &self.file.path()).finish_non_exhaustive()
    }
}

impl PageReader {
    /// Opens the file in `path`.
    ///
    /// # Errors
    /// When it can not be opened.
    pub fn open(path: &Path) -> Result<PageReader> {
        Ok(PageReader { file: PageFile::open(path, true)?, room: AlignedBuffer::new(PIECE) })
    }

    /// Hands `take` the `bytes` bytes from `offset` on, which is a multiple of a page, piece by piece.
    ///
    /// # Errors
    /// When they can not be read, or the file ends before them.
    pub fn read(
        &mut self,
        offset: u64,
        bytes: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        let mut done = 0;
        while done < bytes {
            let wanted = (bytes - done).min(PIECE);
            let room = &mut self.room.as_mut_slice()[..wanted.next_multiple_of(PAGE)];
            self.file.read(room, offset + done as u64, wanted)?;
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
        let mut reader = PageReader::open(&path).expect("it is there");
        let mut read = Vec::new();
        let wanted = bytes.len() - PAGE;
        reader.read(PAGE as u64, wanted, &mut |it| read.extend_from_slice(it)).expect("it reads");
        assert!(read == bytes[PAGE..]);
        assert!(reader.read(PAGE as u64, wanted + 1, &mut |_| {}).is_err());
    }
}
