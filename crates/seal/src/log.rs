//! Files that grow at their end: every append is a record that is sealed by itself.
//!
//! Header, then records: number of bytes (4, little-endian), nonce (12, random: what a crash cut off may be written
//! anew at the same place), the sealed bytes and their tag. Sealed with a record is where it begins, so none can be
//! taken out or change its place but at the end.

use std::{
    fs::{File, OpenOptions},
    io::{Error, ErrorKind, Read as _, Result, Seek as _, SeekFrom, Write as _},
    path::Path,
};

use ring::aead::NONCE_LEN;

use crate::{
    Key,
    cipher::{Cipher, HEADER, TAG, damaged},
    key::random,
};

const KIND: [u8; 8] = *b"log---01";

/// Bytes before what is sealed of a record.
const BEFORE: usize = 4 + NONCE_LEN;

/// Longest record; longer appends become several.
const LONGEST: usize = 16 << 20;

/// A sealed file that is appended to.
#[derive(Debug)]
pub struct Log {
    file: File,
    cipher: Cipher,
    /// Bytes that were appended.
    bytes: u64,
    /// Bytes of the file that hold them.
    end: u64,
}

impl Log {
    /// Opens the file for appending behind its first `bytes`, which were appended by whole calls; what is behind them
    /// is cut off. Makes the file where there is none and `bytes` is 0.
    ///
    /// # Errors
    /// `InvalidData` for a file of another kind, name or key; `UnexpectedEof` for a shorter one.
    pub fn open(path: &Path, key: &Key, name: &str, bytes: u64) -> Result<Log> {
        let mut file =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
        if bytes == 0 {
            // A new random number: nothing of what was in it means anything to what comes.
            let (header, cipher) = Cipher::create(key, &KIND, name)?;
            file.set_len(0)?;
            file.write_all(&header)?;
            return Ok(Log { file, cipher, bytes: 0, end: HEADER as u64 });
        }
        let cipher = cipher_of(&mut file, key, name)?;
        let mut log = Log { file, cipher, bytes: 0, end: HEADER as u64 };
        let there = log.file.metadata()?.len();
        let (mut last, mut before) = (0, [0; BEFORE]);
        while log.bytes < bytes {
            last = log.bytes;
            log.file.seek(SeekFrom::Start(log.end))?;
            log.file.read_exact(&mut before)?;
            let length = u64::from(length_of(&before));
            log.bytes += length;
            log.end += BEFORE as u64 + length + TAG as u64;
        }
        if log.bytes != bytes || there < log.end {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        // With another key what is appended would belong to nothing.
        let mut record = vec![0; length_of(&before) as usize + TAG];
        log.file.read_exact(&mut record)?;
        log.cipher.open(nonce_of(&before), &last.to_le_bytes(), &mut record)?;
        // Not where nothing is behind it: some systems refuse to touch the length of a file that a reader has open.
        if there > log.end {
            log.file.set_len(log.end)?;
        }
        log.file.seek(SeekFrom::Start(log.end))?;
        Ok(log)
    }

    /// Appends.
    ///
    /// # Errors
    /// When it can not be written; the file is as before then.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let (before, end) = (self.bytes, self.end);
        for part in bytes.chunks(LONGEST) {
            if let Err(error) = self.append_record(part) {
                (self.bytes, self.end) = (before, end);
                // A full disk leaves half of it: the next one has to start where this one did.
                self.file.set_len(end)?;
                self.file.seek(SeekFrom::Start(end))?;
                return Err(error);
            }
        }
        Ok(())
    }

    fn append_record(&mut self, bytes: &[u8]) -> Result<()> {
        let length = u32::try_from(bytes.len()).map_err(Error::other)?;
        let nonce: [u8; NONCE_LEN] = random().map_err(Error::other)?;
        let mut sealed = Vec::with_capacity(bytes.len() + TAG);
        sealed.extend_from_slice(bytes);
        self.cipher.seal(nonce, &self.bytes.to_le_bytes(), &mut sealed)?;
        let record = [&length.to_le_bytes()[..], &nonce, &sealed].concat();
        self.file.write_all(&record)?;
        self.bytes += bytes.len() as u64;
        self.end += record.len() as u64;
        Ok(())
    }

    /// Bytes that were appended.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Waits until they are on the disk.
    ///
    /// # Errors
    /// When they can not be written.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data()
    }

    /// The first `bytes` of what was appended to the file at `path`, which end where a call to
    /// [`append`](Log::append) did; `None` when there are not so many.
    ///
    /// # Errors
    /// `InvalidData` for bytes that are not what was written, or a border that is none.
    pub fn read(path: &Path, key: &Key, name: &str, bytes: u64) -> Result<Option<Vec<u8>>> {
        let mut file = File::open(path)?;
        let there = file.metadata()?.len();
        if bytes == 0 {
            return Ok(Some(Vec::new()));
        }
        // Checked before anything is allocated.
        if there < bytes.saturating_add((HEADER + BEFORE + TAG) as u64) {
            return Ok(None);
        }
        let cipher = cipher_of(&mut file, key, name)?;
        let wanted = usize::try_from(bytes).map_err(Error::other)?;
        let mut opened = Vec::with_capacity(wanted);
        let mut record = Vec::new();
        while opened.len() < wanted {
            let mut before = [0; BEFORE];
            if !filled(&mut file, &mut before)? {
                return Ok(None);
            }
            let length = length_of(&before) as usize;
            if length > LONGEST || length > wanted - opened.len() {
                return Err(damaged());
            }
            record.resize(length + TAG, 0);
            if !filled(&mut file, &mut record)? {
                return Ok(None);
            }
            let place = (opened.len() as u64).to_le_bytes();
            opened.extend_from_slice(cipher.open(nonce_of(&before), &place, &mut record)?);
        }
        Ok(Some(opened))
    }
}

fn length_of(before: &[u8; BEFORE]) -> u32 {
    u32::from_le_bytes([before[0], before[1], before[2], before[3]])
}

fn nonce_of(before: &[u8; BEFORE]) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    nonce.copy_from_slice(&before[4..]);
    nonce
}

fn cipher_of(file: &mut File, key: &Key, name: &str) -> Result<Cipher> {
    let mut header = [0; HEADER];
    file.read_exact(&mut header)?;
    Cipher::of_header(key, &KIND, name, &header)
}

/// Whoever writes through a buffer makes longer records.
impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.append(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Whether there was as much to read.
fn filled(file: &mut File, to: &mut [u8]) -> Result<bool> {
    match file.read_exact(to) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_was_not_committed_is_cut_off_and_written_anew() {
        let dir = tempfile::tempdir().expect("folder");
        let (path, key) = (dir.path().join("codes"), Key::random().expect("random"));
        let mut log = Log::open(&path, &key, "codes", 0).expect("made");
        log.append(b"first").expect("appended");
        log.append(b"lost").expect("appended");
        drop(log);
        let mut log = Log::open(&path, &key, "codes", 5).expect("opens");
        log.append(b"second").expect("appended");
        let read = |bytes| Log::read(&path, &key, "codes", bytes).expect("sound");
        assert_eq!(read(11).as_deref(), Some(&b"firstsecond"[..]));
        assert_eq!(read(5).as_deref(), Some(&b"first"[..]));
        assert_eq!(read(12), None);
        assert_eq!(read(400), None);
        assert!(Log::read(&path, &key, "codes", 7).is_err(), "no record ends there");
        assert!(Log::read(&path, &key, "chunks", 5).is_err());
        assert!(Log::open(&path, &key, "codes", 12).is_err());
        assert!(Log::open(&path, &Key::random().expect("random"), "codes", 5).is_err());
        let plain = std::fs::read(&path).expect("there");
        assert!(!plain.windows(5).any(|it| it == b"first"));
    }

    #[test]
    fn lying_lengths_are_no_allocations() {
        let dir = tempfile::tempdir().expect("folder");
        let (path, key) = (dir.path().join("codes"), Key::random().expect("random"));
        Log::open(&path, &key, "codes", 0).expect("made").append(b"first").expect("appended");
        assert_eq!(Log::read(&path, &key, "codes", u64::MAX / 2).expect("sound"), None);
        let mut bytes = std::fs::read(&path).expect("there");
        bytes[HEADER..HEADER + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        std::fs::write(&path, &bytes).expect("written");
        assert!(Log::read(&path, &key, "codes", 5).is_err());
        assert!(Log::open(&path, &key, "codes", 5).is_err());
    }

    proptest! {
        #[test]
        fn what_was_appended_is_read(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..500), 0..8),
            flip in 0_f64..1.0,
        ) {
            let dir = tempfile::tempdir().expect("folder");
            let (path, key) = (dir.path().join("log"), Key::random().expect("random"));
            let mut log = Log::open(&path, &key, "log", 0).expect("made");
            for part in &parts {
                log.append(part).expect("appended");
            }
            let all = parts.concat();
            let length = all.len() as u64;
            prop_assert_eq!(log.bytes(), length);
            let read = Log::read(&path, &key, "log", length).expect("sound");
            prop_assert_eq!(read, Some(all.clone()));
            if !all.is_empty() {
                let mut bytes = std::fs::read(&path).expect("there");
                let at = (flip * bytes.len() as f64) as usize;
                bytes[at] ^= 4;
                std::fs::write(&path, &bytes).expect("written");
                let read = Log::read(&path, &key, "log", length);
                prop_assert!(!matches!(read, Ok(Some(_))), "{at}");
            }
        }
    }
}
