//! Reading one file: bytes → hash → parse (in a child process) → chunks. No database here.

use std::{
    fs::File,
    io::{ErrorKind, Read as _, Seek as _},
    path::Path,
};

use riddle_catalog::SaidPictures;
use riddle_ingest::{
    ChunkOptions, MOST_LATE, MOST_OF_TABLES, ParseOutcome, ParserPool, Remark, chunk, kind_of,
    may_be_history,
};
use riddle_types::{Chunk, Document, FileKind, FileState, VectorTurn};
use riddle_watch::Stamp;

use super::{
    said::with_pictures,
    text::{Counters, passage_text},
};
use crate::{home::pictures::PictureSaid, stage};

/// What became of a file.
#[derive(Debug)]
pub(crate) struct ReadFile {
    /// BLAKE3 of the bytes; `None` when they could not be read.
    pub(crate) content_hash: Option<[u8; 32]>,
    pub(crate) kind: FileKind,
    pub(crate) state: FileState,
    /// Why, for states other than indexed.
    pub(crate) reason: String,
    pub(crate) title: Option<String>,
    pub(crate) language: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) warnings: Vec<String>,
    pub(crate) chunks: Vec<Chunk>,
    /// Pages that are pictures, from 1, and numbers of pictures in the file.
    pub(crate) pictures: Vec<u32>,
    /// As it was before the first byte was read: if the file changes meanwhile, the next scan sees a
    /// difference and reads it again.
    pub(crate) stamp: Stamp,
}

impl ReadFile {
    /// Before anything is known.
    fn nothing(kind: FileKind) -> ReadFile {
        ReadFile {
            content_hash: None,
            kind,
            state: FileState::Failed,
            reason: String::new(),
            title: None,
            language: None,
            tags: Vec::new(),
            warnings: Vec::new(),
            chunks: Vec::new(),
            pictures: Vec::new(),
            stamp: Stamp::default(),
        }
    }
}

/// A file that was there in the scan and is gone now.
#[derive(Debug)]
pub(crate) struct Vanished;

/// Reads, parses and chunks a file; `browsing`: the history of a browser, too. Never fails: every problem is a state
/// with a reason.
pub(crate) fn read_file(
    path: &Path,
    max_bytes: u64,
    pool: &ParserPool,
    counters: Counters<'_>,
    options: &ChunkOptions,
    said: &SaidPictures,
    browsing: bool,
) -> Result<ReadFile, Vanished> {
    let mut read = ReadFile::nothing(kind_of(path, &[]));
    let bytes = match read_bytes(path, max_bytes, browsing, &mut read) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(read),
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(Vanished),
        Err(error) => {
            read.reason = Remark::Unreadable(error.to_string()).into();
            return Ok(read);
        }
    };
    read.content_hash = Some(*blake3::hash(&bytes).as_bytes());
    // Formats are told from the first bytes where the name does not tell.
    const SNIFFED_BYTES: usize = 4096;
    read.kind = kind_of(path, &bytes[..bytes.len().min(SNIFFED_BYTES)]);
    if bytes.is_empty() {
        read.state = FileState::NoText;
        read.reason = Remark::Empty.into();
        return Ok(read);
    }
    if read.kind == FileKind::Other {
        read.state = FileState::Unsupported;
        read.reason = Remark::NoParser.into();
        return Ok(read);
    }
    let reading = {
        let _stage = stage::enter("parse");
        pool.read(path, read.kind, &bytes)
    };
    read.pictures = reading.pictures;
    let said = if said.content_hash == read.content_hash { said.pages.as_slice() } else { &[] };
    match with_pictures(read.kind, reading.outcome, said, &read.pictures) {
        ParseOutcome::Parsed(document) => read.take(document, counters, options),
        ParseOutcome::NoText(reason) => (read.state, read.reason) = (FileState::NoText, reason),
        ParseOutcome::Unsupported(reason) => {
            (read.state, read.reason) = (FileState::Unsupported, reason);
        }
        ParseOutcome::Failed(reason) => (read.state, read.reason) = (FileState::Failed, reason),
    }
    Ok(read)
}

/// Reads a page that is a picture, or a picture in the file, which has not changed since it was found.
pub(crate) fn read_picture(
    path: &Path,
    page: u32,
    max_bytes: u64,
    pool: &ParserPool,
) -> Option<(PictureSaid, f32)> {
    const SNIFFED_BYTES: usize = 4096;
    let metadata = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    if metadata.len() > max_bytes {
        return None;
    }
    let bytes = std::fs::read(path).ok()?;
    let kind = kind_of(path, &bytes[..bytes.len().min(SNIFFED_BYTES)]);
    let _stage = stage::enter("parse");
    let seen = pool.look(path, kind, &bytes, page);
    let said = match seen.outcome {
        ParseOutcome::Parsed(document) => {
            let why = document.warnings.into_iter().next();
            PictureSaid { blocks: document.blocks, why, lines: seen.lines }
        }
        ParseOutcome::NoText(why) | ParseOutcome::Unsupported(why) | ParseOutcome::Failed(why) => {
            PictureSaid { why: Some(why), ..PictureSaid::default() }
        }
    };
    Some((said, seen.sure))
}

impl ReadFile {
    /// A browser's history that nobody has agreed to: nothing of it is kept.
    pub(crate) fn leave_history_out(&mut self) {
        self.kind = FileKind::History;
        self.state = FileState::Excluded;
        self.reason = Remark::BrowsingHistory.into();
        (self.content_hash, self.title, self.language) = (None, None, None);
        self.warnings.clear();
        self.chunks.clear();
    }

    /// What a parsed file says, in chunks.
    fn take(&mut self, document: Document, counters: Counters<'_>, options: &ChunkOptions) {
        self.chunks = chunk(&document, counters.of(document.language.as_deref()), options);
        self.title = document.title;
        self.language = document.language;
        self.tags = document.tags;
        self.warnings = document.warnings;
        let rows = self.chunks.iter().filter(|it| it.turn != VectorTurn::Early).count();
        if rows >= MOST_OF_TABLES {
            self.warnings.push(Remark::EndlessTable { most: MOST_OF_TABLES }.into());
        }
        if self.chunks.iter().filter(|it| it.turn == VectorTurn::Late).count() >= MOST_LATE {
            self.warnings.push(Remark::LongTable { most: MOST_LATE }.into());
        }
        if self.chunks.is_empty() {
            self.state = FileState::NoText;
            self.reason = Remark::NoText.into();
        } else {
            self.state = FileState::Indexed;
        }
    }
}

/// The file's bytes, or `None` when its size or the person forbids reading it (recorded in `read`).
fn read_bytes(
    path: &Path,
    max_bytes: u64,
    browsing: bool,
    read: &mut ReadFile,
) -> std::io::Result<Option<Vec<u8>>> {
    let metadata = std::fs::symlink_metadata(path)?;
    if !metadata.is_file() {
        // It was a regular file in the scan; following what replaced it could leave the root.
        (read.state, read.reason) = (FileState::Unsupported, Remark::NotRegular.into());
        return Ok(None);
    }
    read.stamp = Stamp::of(&metadata);
    let too_large = |read: &mut ReadFile| {
        read.state = FileState::TooLarge;
        read.reason = Remark::TooLarge { mib: max_bytes >> 20 }.into();
    };
    if read.stamp.size > max_bytes {
        too_large(read);
        return Ok(None);
    }
    let mut file = File::open(path)?;
    // What was put there in between may be a link that leads out of the root, or another file's text. The
    // path is asked again, as a scan asks it: some file systems tell another number of an open file.
    let now = std::fs::symlink_metadata(path)?;
    if !now.is_file() || Stamp::of(&now).volume_id != read.stamp.volume_id {
        return Err(std::io::Error::other("it was replaced while it was opened"));
    }
    if !browsing && may_be_history(path) {
        // Nobody has agreed: no more of it is looked at than tells what it is.
        let mut head = Vec::new();
        file.by_ref().take(64).read_to_end(&mut head)?;
        if kind_of(path, &head) == FileKind::History {
            read.leave_history_out();
            return Ok(None);
        }
        file.rewind()?;
    }
    let mut bytes = Vec::with_capacity(usize::try_from(read.stamp.size).unwrap_or(0));
    // One byte over the limit tells a file that grew since from one that just fits.
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        too_large(read);
        return Ok(None);
    }
    Ok(Some(bytes))
}

/// Identity of what an embedder sees of a chunk: equal text keeps its vector through edits and copies.
pub(crate) fn text_hash(title: Option<&str>, chunk: &Chunk) -> [u8; 32] {
    *blake3::hash(passage_text(title, &chunk.heading, &chunk.text).as_bytes()).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome_of(browsing: bool, name: &str, bytes: &[u8]) -> (Option<Vec<u8>>, ReadFile) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        let mut read = ReadFile::nothing(FileKind::Other);
        let bytes = read_bytes(&path, 1 << 20, browsing, &mut read).expect("there");
        (bytes, read)
    }

    #[test]
    fn browsing_history_is_not_read_before_somebody_agrees() {
        let database = b"SQLite format 3\0 and pages".as_slice();
        let (bytes, read) = outcome_of(false, "places.sqlite", database);
        assert_eq!((bytes, read.kind, read.state), (None, FileKind::History, FileState::Excluded));
        assert!(read.reason.contains("when you allow it"), "{}", read.reason);
        assert_eq!(read.stamp.size, 26, "a scan sees that nothing has changed");
        assert_eq!(outcome_of(true, "places.sqlite", database).0.as_deref(), Some(database));
        // Only a browser's: another file of that name is read from its beginning.
        assert_eq!(
            outcome_of(false, "History", b"of the mill").0.as_deref(),
            Some(&b"of the mill"[..])
        );
        assert_eq!(outcome_of(false, "a.sqlite", database).0.as_deref(), Some(database));
    }
}
