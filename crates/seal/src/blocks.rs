//! Files that are written once and read anywhere: blocks of one size, each sealed by itself.
//!
//! Header, then blocks of [`BLOCK`] bytes and a tag; the last one is shorter, and may be empty. A block's nonce is its
//! number and whether it is the last: a file that was cut off between two blocks does not open at its end (the STREAM
//! construction of Hoang, Reyhanitabar, Rogaway and Vizár, CRYPTO 2015).

use std::{
    io::{Error, Result, Write},
    ops::Range,
};

use ring::aead::NONCE_LEN;

use crate::{
    Key,
    cipher::{Cipher, HEADER, TAG, damaged},
};

const KIND: [u8; 8] = *b"block-01";

/// Bytes of a block: what is opened to read a single byte.
pub const BLOCK: usize = 16 << 10;

/// Bytes of a block in the file.
const SEALED: usize = BLOCK + TAG;

fn nonce(block: u64, last: bool) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    nonce[..8].copy_from_slice(&block.to_le_bytes());
    nonce[8] = u8::from(last);
    nonce
}

/// Writes a file of blocks into `W`. What is not [finished](BlockWriter::finish) does not open.
#[derive(Debug)]
pub struct BlockWriter<W: Write> {
    to: W,
    cipher: Cipher,
    block: u64,
    pending: Vec<u8>,
}

impl<W: Write> BlockWriter<W> {
    /// Begins a file; `name` is what it may be opened as.
    ///
    /// # Errors
    /// When `to` can not be written, or the system gives no random numbers.
    pub fn new(mut to: W, key: &Key, name: &str) -> Result<BlockWriter<W>> {
        let (header, cipher) = Cipher::create(key, &KIND, name)?;
        to.write_all(&header)?;
        Ok(BlockWriter { to, cipher, block: 0, pending: Vec::with_capacity(SEALED) })
    }

    fn write_block(&mut self, last: bool) -> Result<()> {
        self.cipher.seal(nonce(self.block, last), &[], &mut self.pending)?;
        self.to.write_all(&self.pending)?;
        self.pending.clear();
        self.block += 1;
        Ok(())
    }

    /// Writes the last block, and gives back what was written into.
    ///
    /// # Errors
    /// When it can not be written.
    pub fn finish(mut self) -> Result<W> {
        self.write_last()?;
        Ok(self.to)
    }

    /// As [`finish`](BlockWriter::finish), for whoever can not give the writer away; nothing may be written after it.
    ///
    /// # Errors
    /// When it can not be written.
    pub fn write_last(&mut self) -> Result<()> {
        self.write_block(true)?;
        self.to.flush()
    }

    /// What is written into.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.to
    }
}

impl<W: Write> Write for BlockWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        // A full block is written once it is known not to be the last.
        if self.pending.len() == BLOCK {
            self.write_block(false)?;
        }
        let taken = bytes.len().min(BLOCK - self.pending.len());
        self.pending.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> Result<()> {
        self.to.flush()
    }
}

/// Where sealed bytes are read.
pub trait ReadAt {
    /// Number of bytes.
    ///
    /// # Errors
    /// When it can not be known.
    fn bytes(&self) -> Result<u64>;

    /// Reads all of `to` from there on.
    ///
    /// # Errors
    /// When there are not so many bytes, or they can not be read.
    fn read_at(&self, at: u64, to: &mut [u8]) -> Result<()>;
}

impl ReadAt for std::fs::File {
    fn bytes(&self) -> Result<u64> {
        Ok(self.metadata()?.len())
    }

    #[cfg(unix)]
    fn read_at(&self, at: u64, to: &mut [u8]) -> Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, to, at)
    }

    #[cfg(windows)]
    fn read_at(&self, mut at: u64, mut to: &mut [u8]) -> Result<()> {
        while !to.is_empty() {
            match std::os::windows::fs::FileExt::seek_read(self, to, at)? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                read => (at, to) = (at + read as u64, &mut to[read..]),
            }
        }
        Ok(())
    }
}

impl ReadAt for &[u8] {
    fn bytes(&self) -> Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, at: u64, to: &mut [u8]) -> Result<()> {
        let range = usize::try_from(at).ok().and_then(|at| self.get(at..)?.get(..to.len()));
        to.copy_from_slice(range.ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A file that [`BlockWriter`] has written.
#[derive(Debug)]
pub struct Blocks<R> {
    from: R,
    cipher: Cipher,
    len: u64,
    blocks: u64,
}

impl<R: ReadAt> Blocks<R> {
    /// Opens it. Only the last block is read: whether the file is whole is known, whether it is sound only of what is
    /// read.
    ///
    /// # Errors
    /// `InvalidData` for a file that was not written so, under another name, by another key, or not to its end.
    pub fn open(from: R, key: &Key, name: &str) -> Result<Blocks<R>> {
        let bytes = from.bytes()?;
        let Some(body) = bytes.checked_sub((HEADER + TAG) as u64) else { return Err(damaged()) };
        let mut header = [0; HEADER];
        from.read_at(0, &mut header)?;
        let cipher = Cipher::of_header(key, &KIND, name, &header)?;
        // `body` is the whole blocks before the last one, and the last one without its tag. A last block that is full
        // is the one thing that both sides of a border could mean.
        let before = if body == 0 { 0 } else { (body - 1) / SEALED as u64 };
        let rest = body - before * SEALED as u64;
        if rest > BLOCK as u64 {
            return Err(damaged());
        }
        let len = before * BLOCK as u64 + rest;
        let blocks = Blocks { from, cipher, len, blocks: before + 1 };
        blocks.block(before, &mut Vec::new())?;
        Ok(blocks)
    }

    /// Number of bytes that were sealed.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Opens a block into `into`, which is emptied before.
    fn block(&self, block: u64, into: &mut Vec<u8>) -> Result<()> {
        let last = block + 1 == self.blocks;
        let plain = if last { (self.len - block * BLOCK as u64) as usize } else { BLOCK };
        into.resize(plain + TAG, 0);
        self.from.read_at(HEADER as u64 + block * SEALED as u64, into)?;
        self.cipher.open(nonce(block, last), &[], into)?;
        into.truncate(plain);
        Ok(())
    }

    /// Reads a part.
    ///
    /// # Errors
    /// `UnexpectedEof` beyond the end; `InvalidData` for bytes that are not what was written.
    pub fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let wanted = range.end.checked_sub(range.start).filter(|_| range.end <= self.len);
        let wanted = wanted.ok_or_else(|| Error::from(std::io::ErrorKind::UnexpectedEof))?;
        let mut bytes = Vec::with_capacity(usize::try_from(wanted).map_err(Error::other)?);
        self.each(range, &mut |part| bytes.extend_from_slice(part))?;
        Ok(bytes)
    }

    /// As [`read`](Blocks::read), part by part.
    ///
    /// # Errors
    /// As [`read`](Blocks::read); what came before an error is sound.
    pub fn each(&self, range: Range<u64>, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
        if range.end > self.len {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let mut opened = Vec::with_capacity(SEALED);
        let mut at = range.start;
        while at < range.end {
            let block = at / BLOCK as u64;
            self.block(block, &mut opened)?;
            let from = (at % BLOCK as u64) as usize;
            let to = opened.len().min((range.end - block * BLOCK as u64) as usize);
            sink(&opened[from..to]);
            at = (block + 1) * BLOCK as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sealed(key: &Key, content: &[u8], step: usize) -> Vec<u8> {
        let mut writer = BlockWriter::new(Vec::new(), key, "a").expect("begins");
        content.chunks(step.max(1)).for_each(|it| writer.write_all(it).expect("writes"));
        writer.finish().expect("ends")
    }

    fn content(len: usize) -> Vec<u8> {
        (0..len).map(|it| (it * 31 % 251) as u8).collect()
    }

    #[test]
    fn what_was_cut_off_or_appended_to_does_not_open() {
        let key = Key::random().expect("random");
        for len in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 3 * BLOCK + 5] {
            let file = sealed(&key, &content(len), 1000);
            let whole = Blocks::open(&file[..], &key, "a").expect("opens");
            assert_eq!(whole.len(), len as u64);
            assert_eq!(whole.read(0..len as u64).expect("reads"), content(len), "{len}");
            for cut in [1, TAG, TAG + 1, SEALED, SEALED + 1] {
                let Some(left) = file.len().checked_sub(cut) else { continue };
                assert!(Blocks::open(&file[..left], &key, "a").is_err(), "{len} cut by {cut}");
            }
            let longer = [&file[..], &[0; 7]].concat();
            assert!(Blocks::open(&longer[..], &key, "a").is_err(), "{len}");
            assert!(Blocks::open(&file[..], &key, "b").is_err());
            assert!(Blocks::open(&file[..], &Key::random().expect("random"), "a").is_err());
        }
        assert!(Blocks::open(&b"plain"[..], &key, "a").is_err());
        assert!(Blocks::open(&[0_u8; 100][..], &key, "a").is_err());
    }

    #[test]
    fn blocks_that_changed_places_do_not_open() {
        let key = Key::random().expect("random");
        let mut file = sealed(&key, &content(3 * BLOCK + 5), 4096);
        let (first, second) = file[HEADER..].split_at_mut(SEALED);
        first.swap_with_slice(&mut second[..SEALED]);
        let swapped = Blocks::open(&file[..], &key, "a").expect("its end is sound");
        assert!(swapped.read(0..1).is_err());
        assert!(swapped.read(BLOCK as u64..BLOCK as u64 + 1).is_err());
        assert!(swapped.read(2 * BLOCK as u64..2 * BLOCK as u64 + 1).is_ok());
    }

    proptest! {
        #[test]
        fn any_part_is_what_was_written(
            len in 0_usize..3 * BLOCK + 40, step in 1_usize..40_000, from in 0_f64..1.0, part in 0_f64..1.0,
        ) {
            let key = Key::random().expect("random");
            let file = sealed(&key, &content(len), step);
            let blocks = Blocks::open(&file[..], &key, "a").expect("opens");
            let start = (from * len as f64) as usize;
            let end = start + (part * (len - start) as f64) as usize;
            let read = blocks.read(start as u64..end as u64).expect("reads");
            prop_assert_eq!(&read[..], &content(len)[start..end]);
            prop_assert!(blocks.read(0..len as u64 + 1).is_err());
        }

        #[test]
        fn no_bit_may_change(at in 0_f64..1.0, bit in 0_u8..8) {
            let key = Key::random().expect("random");
            let mut file = sealed(&key, &content(BLOCK + 100), 4096);
            let at = (at * file.len() as f64) as usize;
            file[at] ^= 1 << bit;
            let read = Blocks::open(&file[..], &key, "a").and_then(|it| it.read(0..it.len()));
            prop_assert!(read.is_err());
        }
    }
}
