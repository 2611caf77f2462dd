//! Reading one file: bytes → hash → parse (in a child process) → chunks. No database here.

use std::{
    fs::File,
    io::{ErrorKind, Read as _},
    path::Path,
};

use riddle_catalog::SaidPictures;
use riddle_ingest::{
    ChunkOptions, MOST_LATE, MOST_OF_TABLES, ParseOutcome, ParserPool, Remark, chunk, kind_of,
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

/// A file that was there in the scan and is gone now.
#[derive(Debug)]
pub(crate) struct Vanished;

/// Reads, parses and chunks a file. Never fails: every problem is a state with a reason.
pub(crate) fn read_file(
    path: &Path,
    max_bytes: u64,
    pool: &ParserPool,
    counters: Counters<'_>,
    options: &ChunkOptions,
    said: &SaidPictures,
) -> Result<ReadFile, Vanished> {
    let mut read = ReadFile {
        content_hash: None,
        kind: kind_of(path, &[]),
        state: FileState::Failed,
        reason: String::new(),
        title: None,
        language: None,
        tags: Vec::new(),
        warnings: Vec::new(),
        chunks: Vec::new(),
        pictures: Vec::new(),
        stamp: Stamp::default(),
    };
    let bytes = match read_bytes(path, max_bytes, &mut read) {
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

/// The file's bytes, or `None` when its size forbids reading it (recorded in `read`).
fn read_bytes(
    path: &Path,
    max_bytes: u64,
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
    let file = File::open(path)?;
    // What was put there in between may be a link that leads out of the root, or another file's text. The
    // path is asked again, as a scan asks it: some file systems tell another number of an open file.
    let now = std::fs::symlink_metadata(path)?;
    if !now.is_file() || Stamp::of(&now).volume_id != read.stamp.volume_id {
        return Err(std::io::Error::other("it was replaced while it was opened"));
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
    use riddle_types::BlockKind;

    use super::*;

    fn said(page: u32, text: &str, why: Option<Remark>) -> (u32, String, f64) {
        let location = Location::Page { start: page, end: page };
        let block = Block::new(BlockKind::Paragraph, text.to_owned(), location);
        let blocks = if text.is_empty() { Vec::new() } else { vec![block] };
        let said = PictureSaid { blocks, why: why.map(String::from), lines: Vec::new() };
        (page, serde_json::to_string(&said).expect("JSON"), 0.9)
    }

    #[test]
    fn pages_of_a_picture_are_read_in_order_and_those_that_are_not_are_told() {
        let picture = || ParseOutcome::NoText(Remark::Picture.into());
        let pages = [
            said(1, "one", None),
            said(2, "", Some(Remark::PictureWithoutText)),
            said(3, "three", Some(Remark::MostIllegible)),
            said(4, "", Some(Remark::PictureIllegible)),
            said(5, "", Some(Remark::PictureIllegible)),
        ];
        let outcome = with_pictures(picture(), &pages, &[1, 2, 3, 4, 5, 6]);
        let ParseOutcome::Parsed(document) = outcome else { panic!("{outcome:?}") };
        let texts: Vec<&str> = document.blocks.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(texts, ["one", "three"]);
        let most = Remark::MostIllegible.to_string();
        let none = Remark::PictureIllegible.to_string();
        for told in [
            Remark::OfPage { page: 3, why: most.clone() },
            Remark::OfPages { pages: 2, why: none.clone() },
            Remark::PageUnseen,
        ] {
            assert!(document.warnings.contains(&told.to_string()), "{:?}", document.warnings);
        }
        assert_eq!(document.warnings.len(), 4, "{:?}", document.warnings);
        // A file that is a picture has no pages.
        let single = with_pictures(picture(), &[said(1, "Tel", Some(Remark::MostIllegible))], &[1]);
        let ParseOutcome::Parsed(document) = single else { panic!("{single:?}") };
        assert!(document.warnings.contains(&most), "{:?}", document.warnings);
        let silent = [said(1, "", Some(Remark::PictureIllegible))];
        assert_eq!(with_pictures(picture(), &silent, &[1]), ParseOutcome::NoText(none));
    }
}
