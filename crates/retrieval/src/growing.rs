//! A file of the vector index that is appended to: as it is, or sealed.

use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use riddle_seal::{Log, Place};

use crate::{
    Error, Result,
    part::{BLOCK, Part, damaged, io_error, rebuild, sums},
};

/// What is appended to.
#[derive(Debug)]
enum Storage {
    Plain(File),
    Sealed(Box<Log>),
}

/// A file that grows.
#[derive(Debug)]
pub(crate) struct Growing {
    dir: Place,
    pub(crate) path: PathBuf,
    storage: Storage,
    /// Written, of which the committed part is the beginning.
    pub(crate) bytes: u64,
    /// What is committed.
    pub(crate) part: Part,
}

impl Growing {
    /// Opens a committed file and cuts off what a crash left behind it, or makes an empty one.
    pub(crate) fn open(dir: &Place, name: String, part: Option<&Part>) -> Result<Growing> {
        let path = dir.path().join(&name);
        let part = part.cloned().unwrap_or(Part { name, ..Part::default() });
        let storage = Growing::storage(dir, &path, &part.name, part.bytes);
        let storage = storage.map_err(|error| match error.kind() {
            ErrorKind::InvalidData | ErrorKind::UnexpectedEof if dir.key.is_some() => {
                rebuild(dir.path(), format!("{}: {error}", part.name))
            }
            _ => io_error(&path)(error),
        })?;
        Ok(Growing { dir: dir.clone(), path, storage, bytes: part.bytes, part })
    }

    /// The file, with nothing behind its first `bytes`.
    fn storage(dir: &Place, path: &Path, name: &str, bytes: u64) -> std::io::Result<Storage> {
        if let Some(key) = &dir.key {
            return Ok(Storage::Sealed(Box::new(Log::open(path, key, name, bytes)?)));
        }
        let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        // Not where nothing is behind it: some systems refuse to touch the length of a file that a reader has mapped.
        if file.metadata()?.len() != bytes {
            file.set_len(bytes)?;
        }
        file.seek(SeekFrom::Start(bytes))?;
        Ok(Storage::Plain(file))
    }

    /// Cuts off what is behind the first `bytes`.
    pub(crate) fn back_to(&mut self, bytes: u64) -> Result<()> {
        self.storage = Growing::storage(&self.dir, &self.path, &self.part.name, bytes)
            .map_err(io_error(&self.path))?;
        self.bytes = bytes;
        Ok(())
    }

    /// Appends; on an error the file is as before.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let appended = match &mut self.storage {
            Storage::Plain(file) => file.write_all(bytes),
            Storage::Sealed(log) => log.append(bytes),
        };
        if let Err(source) = appended {
            // A full disk leaves half of it: the next one has to start where this one did.
            self.back_to(self.bytes)?;
            return Err(Error::Io { path: self.path.clone(), source });
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// What a commit of everything that is written says of the file, once it is on the disk.
    pub(crate) fn committed(&mut self) -> Result<Part> {
        if self.bytes != self.part.bytes {
            match &self.storage {
                Storage::Plain(file) => {
                    file.sync_data().map_err(io_error(&self.path))?;
                    let whole = self.part.bytes as usize / BLOCK;
                    // The block that is half full gets a new sum, which must not cover up damage.
                    let before = sums(&self.path, whole, self.part.bytes);
                    let before = before.map_err(io_error(&self.path))?;
                    if self.part.blake3.get(whole..) != Some(before.as_slice()) {
                        let why = format!("{}: it is not what was written", self.part.name);
                        return Err(damaged(self.dir.path(), why));
                    }
                    let new = sums(&self.path, whole, self.bytes).map_err(io_error(&self.path))?;
                    self.part.blake3.truncate(whole);
                    self.part.blake3.extend(new);
                }
                Storage::Sealed(log) => log.sync().map_err(io_error(&self.path))?,
            }
            self.part.bytes = self.bytes;
        }
        Ok(self.part.clone())
    }
}
