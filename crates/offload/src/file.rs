//! A file that is read past the page cache, or at least leaves nothing in it.

use std::{
    fs::File,
    io::{Error, ErrorKind, Result},
    path::{Path, PathBuf},
};

use riddle_weights::{JoinedFiles, PAGE};

use crate::buffer::AlignedBuffer;

/// Bytes before a read that the page cache is told to forget together with it. The system reads ahead in pieces of
/// many pages, and forgets only pieces that are named as a whole: without this, 170 to 210 of 256 MiB stayed in the
/// cache, with it none (Linux 6.18, ext4, two threads, reads of 2 MiB). Not reading ahead leaves none either, at half
/// the speed.
const FORGET_BEHIND: u64 = 4 << 20;

/// A file of weights. Weights that are read again for every token would push everything else out of the page
/// cache without ever being found there.
#[derive(Debug)]
pub(crate) struct PageFile {
    path: PathBuf,
    file: File,
    direct: Option<File>,
}

impl PageFile {
    /// Opens `path`; with `direct` for reads past the page cache, if its file system has them.
    pub(crate) fn open(path: &Path, direct: bool) -> Result<PageFile> {
        let file = File::open(path)?;
        let direct = if direct { open_direct(path) } else { None };
        Ok(PageFile { path: path.to_path_buf(), file, direct })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Length of the file now.
    pub(crate) fn len(&self) -> Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Whether reads go past the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Reads the file from `offset`, a whole page, into the beginning of `room`, whole pages: at least
    /// `wanted` bytes, and perhaps what follows them. Returns how many.
    pub(crate) fn read(&self, room: &mut [u8], offset: u64, wanted: usize) -> Result<usize> {
        if let Some(direct) = &self.direct {
            match read_pages(direct, room, offset, wanted) {
                // Alignment that this file system, or a part of it, does not take.
                Err(error) if error.kind() == ErrorKind::InvalidInput => {}
                read => return read,
            }
        }
        let read = read_pages(&self.file, &mut room[..wanted], offset, wanted);
        let behind = offset.saturating_sub(FORGET_BEHIND);
        forget(&self.file, behind, offset - behind + room.len() as u64);
        read
    }
}

/// The files of a model, read by places among all of them. Every file begins on a page there, so what is asked for by
/// whole pages is never in two.
#[derive(Debug)]
pub(crate) struct PageFiles(Vec<Placed>);

#[derive(Debug)]
struct Placed {
    start: u64,
    /// When it was opened.
    length: u64,
    file: PageFile,
}

impl PageFiles {
    /// Opens all of them.
    ///
    /// # Errors
    /// [`Open`](crate::Error::Open) for the first that can not be opened.
    pub(crate) fn open(files: &JoinedFiles, direct: bool) -> crate::Result<PageFiles> {
        let open = |it: &riddle_weights::JoinedFile| {
            let fail = |source| crate::Error::Open { path: it.path.clone(), source };
            let file = PageFile::open(&it.path, direct).map_err(fail)?;
            let length = file.len().map_err(fail)?;
            Ok(Placed { start: it.start, length, file })
        };
        files.files().iter().map(open).collect::<crate::Result<_>>().map(PageFiles)
    }

    /// The file that has this place.
    fn at(&self, place: u64) -> &Placed {
        &self.0[self.0.partition_point(|it| it.start <= place).saturating_sub(1)]
    }

    pub(crate) fn path_at(&self, place: u64) -> &Path {
        self.at(place).file.path()
    }

    /// Whether a file has all these bytes.
    pub(crate) fn holds(&self, place: u64, bytes: u64) -> bool {
        let it = self.at(place);
        place
            .checked_sub(it.start)
            .and_then(|from| from.checked_add(bytes))
            .is_some_and(|end| end <= it.length)
    }

    /// Whether all reads go past the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.0.iter().all(|it| it.file.is_direct())
    }

    /// [`PageFile::read`] from a place.
    pub(crate) fn read(&self, room: &mut [u8], place: u64, wanted: usize) -> Result<usize> {
        let it = self.at(place);
        it.file.read(room, place - it.start, wanted)
    }
}

fn read_pages(file: &File, room: &mut [u8], offset: u64, wanted: usize) -> Result<usize> {
    let mut done = 0;
    while done < wanted {
        match read_at(file, &mut room[done..], offset + done as u64) {
            Ok(0) => return Err(ends_early()),
            Ok(read) => done += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Past the page cache the rest of a read that the end of the file cut is asked for at an odd
            // place.
            Err(error) if error.kind() == ErrorKind::InvalidInput && !done.is_multiple_of(PAGE) => {
                return Err(ends_early());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// The file is shorter than what it should hold.
pub(crate) fn ends_early() -> Error {
    let what = "the file ends before it: it was cut off or replaced, get it again";
    Error::new(ErrorKind::UnexpectedEof, what)
}

#[cfg(unix)]
fn read_at(file: &File, out: &mut [u8], offset: u64) -> Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, out, offset)
}

#[cfg(windows)]
fn read_at(file: &File, out: &mut [u8], offset: u64) -> Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, out, offset)
}

/// The file for reads past the page cache, when a first one works: some file systems refuse only then.
#[cfg(target_os = "linux")]
fn open_direct(path: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(path);
    let file = file.and_then(|file| {
        read_at(&file, AlignedBuffer::new(PAGE).as_mut_slice(), 0)?;
        Ok(file)
    });
    file.inspect_err(|error| {
        tracing::info!(path = %path.display(), %error, "weights are read through the page cache");
    })
    .ok()
}

#[cfg(not(target_os = "linux"))]
fn open_direct(_path: &Path) -> Option<File> {
    None
}

/// Tells the system that what was read is not needed in its cache.
#[cfg(target_os = "linux")]
fn forget(file: &File, offset: u64, bytes: u64) {
    use std::os::fd::AsRawFd as _;
    let (Ok(offset), Ok(bytes)) = (offset.try_into(), bytes.try_into()) else { return };
    // SAFETY: the descriptor is open as long as `file` is borrowed, and the call takes numbers alone. It is
    // advice: whether it was taken does not matter.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, bytes, libc::POSIX_FADV_DONTNEED) };
}

#[cfg(not(target_os = "linux"))]
fn forget(_file: &File, _offset: u64, _bytes: u64) {}
