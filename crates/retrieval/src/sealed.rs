//! A folder of tantivy's whose files are sealed: tantivy reads and writes what they say.

use std::{
    fmt,
    io::{self, BufWriter, Write},
    ops::Range,
    path::Path,
    sync::Arc,
};

use riddle_seal::{BlockWriter, Blocks, Key, ReadAt};
use tantivy::{
    HasLen,
    directory::{
        AntiCallToken, Directory, DirectoryLock, FileHandle, Lock, MmapDirectory, OwnedBytes,
        TerminatingWrite, WatchCallback, WatchHandle, WritePtr,
        error::{DeleteError, LockError, OpenReadError, OpenWriteError},
    },
};

/// Sealed blocks in a folder that is mapped; small files are sealed whole.
#[derive(Clone)]
pub(crate) struct SealedDirectory {
    inner: MmapDirectory,
    key: Key,
}

impl SealedDirectory {
    /// The folder `dir`, which has to be there.
    pub(crate) fn open(dir: &Path, key: &Key) -> tantivy::Result<SealedDirectory> {
        Ok(SealedDirectory { inner: MmapDirectory::open(dir)?, key: key.clone() })
    }
}

impl fmt::Debug for SealedDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SealedDirectory").field(&self.inner).finish()
    }
}

/// What a file is sealed as: its name, so that none stands for another.
fn name(path: &Path) -> std::borrow::Cow<'_, str> {
    path.to_string_lossy()
}

impl Directory for SealedDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        let sealed = Sealed(self.inner.get_file_handle(path)?);
        let blocks = Blocks::open(sealed, &self.key, &name(path))
            .map_err(|error| OpenReadError::wrap_io_error(error, path.to_path_buf()))?;
        Ok(Arc::new(Opened(blocks)))
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.inner.delete(path)
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.inner.exists(path)
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        let writer = BlockWriter::new(self.inner.open_write(path)?, &self.key, &name(path))
            .map_err(|error| OpenWriteError::wrap_io_error(error, path.to_path_buf()))?;
        Ok(BufWriter::new(Box::new(Writer(writer))))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        riddle_seal::open(&self.key, &name(path), &self.inner.atomic_read(path)?)
            .map_err(|error| OpenReadError::wrap_io_error(error, path.to_path_buf()))
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        self.inner.atomic_write(path, &riddle_seal::seal(&self.key, &name(path), data)?)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.inner.sync_directory()
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        self.inner.acquire_lock(lock)
    }

    fn watch(&self, watch_callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        self.inner.watch(watch_callback)
    }
}

/// The bytes of a mapped file.
#[derive(Debug)]
struct Sealed(Arc<dyn FileHandle>);

impl ReadAt for Sealed {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, at: u64, to: &mut [u8]) -> io::Result<()> {
        let range = usize::try_from(at).ok().and_then(|at| Some(at..at.checked_add(to.len())?));
        // The handle panics for a range that it does not have.
        let range =
            range.filter(|it| it.end <= self.0.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        to.copy_from_slice(&self.0.read_bytes(range)?);
        Ok(())
    }
}

/// What a sealed file says.
#[derive(Debug)]
struct Opened(Blocks<Sealed>);

impl HasLen for Opened {
    fn len(&self) -> usize {
        usize::try_from(self.0.len()).unwrap_or(usize::MAX)
    }
}

impl FileHandle for Opened {
    fn read_bytes(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        Ok(OwnedBytes::new(self.0.read(range.start as u64..range.end as u64)?))
    }
}

/// Seals what is written.
struct Writer(BlockWriter<WritePtr>);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl TerminatingWrite for Writer {
    fn terminate_ref(&mut self, token: AntiCallToken) -> io::Result<()> {
        self.0.write_last()?;
        self.0.get_mut().terminate_ref(token)
    }
}
