//! Formats of our own: a file for each, and a line in [`READERS`].
//!
//! A format in which files lie (archives, mailboxes, attachments) gives each to [`Shares::part`], which reads it like a
//! file of its own and keeps count: of parts, of bytes, of depth, of time. Nothing is ever written to disk.

mod archive;
mod bookmarks;
mod calendar;
mod contacts;
mod fiction;
mod lines;
mod mail;
mod mobi;
mod notebook;
mod org;
mod packed;
mod photo;
mod subtitles;

use std::time::{Duration, Instant};

use riddle_types::{Block, BlockKind, Document, FileKind, Location};

use crate::{kind::kind_of, outcome::ParseOutcome, remark::Remark, tools::Tools};

/// Reads a file with that name.
type Reader = fn(&str, &[u8], &mut Shares) -> ParseOutcome;

/// Endings of names, and who reads such files.
const READERS: &[(&[&str], Reader)] = &[
    (&["zip", "cbz"], archive::zip),
    (&["tar"], archive::tar),
    (&["tgz", "gz"], archive::gzip),
    (&["7z"], packed::seven_zip),
    (&["xz", "txz"], packed::xz),
    (&["eml", "mbox", "mbx"], mail::parse),
    (&["ics", "ical", "ifb", "vcs"], calendar::parse),
    (&["vcf", "vcard"], contacts::parse),
    (&["ipynb"], notebook::parse),
    (&["fb2"], fiction::parse),
    (&["mobi", "azw", "azw3", "prc"], mobi::parse),
    (&["srt", "vtt", "ass", "ssa", "sbv"], subtitles::parse),
    (&["org"], org::parse),
    (
        &["jpg", "jpeg", "tif", "tiff", "heic", "heif", "avif", "webp", "png", "gif", "bmp"],
        photo::parse,
    ),
];

/// Parses a file that one of our own readers knows, by its name or by how it begins.
pub(crate) fn parse(
    name: &str,
    kind: FileKind,
    bytes: &[u8],
    shares: &mut Shares,
) -> Option<ParseOutcome> {
    let extension = name.rsplit_once('.').map_or("", |it| it.1).to_ascii_lowercase();
    let named = READERS.iter().find(|it| it.0.contains(&extension.as_str())).map(|it| it.1);
    let reader = match kind {
        FileKind::Html | FileKind::Code | FileKind::Text if bookmarks::are(bytes) => {
            Some(bookmarks::parse as Reader)
        }
        // A mailbox or a mail in a folder of mails has no ending.
        FileKind::Mail if extension != "msg" => Some(mail::parse as Reader),
        _ => named,
    };
    reader.map(|it| it(name, bytes, shares))
}

/// Files inside of files inside of files: a copy of an archive in itself ends here.
const DEEPEST: u32 = 3;

/// Most files inside of one.
const MOST_PARTS: u32 = 5_000;

/// Most bytes that all files inside of one have together, unpacked.
const MOST_BYTES: u64 = 256 << 20;

/// Most bytes of one file inside of another.
const LARGEST_PART: u64 = 64 << 20;

/// Reads a file of any format: the same for one on disk and for one in another.
pub(crate) type Read = fn(&str, FileKind, Vec<u8>, &mut Shares) -> ParseOutcome;

/// What is left of what one file may use.
#[derive(Debug)]
pub(crate) struct Shares {
    read: Read,
    depth: u32,
    parts: u32,
    bytes: u64,
    end: Instant,
    passed_over: u32,
    spent: Option<Remark>,
    pub(crate) tools: Tools,
    /// Pages of the outermost file that are pictures, from 1.
    pub(crate) pictures: Vec<u32>,
}

impl Shares {
    /// For a file that has `seconds`: the last ones are kept for what is done with its text.
    pub(crate) fn new(seconds: u64, tools: Tools, read: Read) -> Shares {
        let end = Instant::now() + Duration::from_secs(seconds) * 3 / 5;
        let (parts, bytes) = (MOST_PARTS, MOST_BYTES);
        let pictures = Vec::new();
        Shares { read, depth: 0, parts, bytes, end, passed_over: 0, spent: None, tools, pictures }
    }

    /// When reading ends.
    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    /// Notes pages of the file that are pictures; those of files in it are not looked at.
    pub(crate) fn note_pictures(&mut self, pages: impl Iterator<Item = u32>) {
        if self.depth == 0 {
            self.pictures.extend(pages);
        }
    }

    /// For a test, with twenty seconds.
    #[cfg(test)]
    pub(crate) fn tried() -> Shares {
        Shares::new(20, Tools::default(), crate::worker::read)
    }

    /// Whether another part may be looked at.
    pub(crate) fn last(&mut self) -> bool {
        let spent = if self.depth >= DEEPEST {
            Some(Remark::TooDeep)
        } else if self.parts == 0 {
            Some(Remark::TooMany)
        } else if self.bytes == 0 {
            Some(Remark::TooMuch)
        } else if Instant::now() >= self.end {
            Some(Remark::TooSlow)
        } else {
            None
        };
        let goes_on = spent.is_none();
        self.spent = self.spent.take().or(spent);
        goes_on
    }

    /// Most bytes that the next part may have.
    pub(crate) fn largest(&self) -> u64 {
        LARGEST_PART.min(self.bytes)
    }

    /// Reads a file that lies in another; its blocks know under which name.
    pub(crate) fn part(&mut self, name: &str, bytes: Vec<u8>, into: &mut Document) {
        if !self.last() {
            return;
        }
        self.parts -= 1;
        self.bytes = self.bytes.saturating_sub(bytes.len() as u64);
        let kind = kind_of(name.as_ref(), &bytes[..bytes.len().min(4096)]);
        if kind == FileKind::Other || bytes.is_empty() {
            self.passed_over += 1;
            return;
        }
        self.depth += 1;
        let outcome = (self.read)(file_name(name), kind, bytes, self);
        self.depth -= 1;
        match outcome {
            ParseOutcome::Parsed(document) => join(name, document, into),
            ParseOutcome::NoText(_) | ParseOutcome::Unsupported(_) => self.passed_over += 1,
            ParseOutcome::Failed(why) => {
                warn(into, Remark::Within { name: name.to_owned(), why }.into());
            }
        }
    }

    /// Counts a part that is not looked at.
    pub(crate) fn pass_over(&mut self) {
        self.parts = self.parts.saturating_sub(1);
        self.passed_over += 1;
    }

    /// Says what was not read, once, in the outermost file.
    pub(crate) fn tell(&mut self, document: &mut Document) {
        if self.depth > 0 {
            return;
        }
        if let Some(why) = self.spent.clone() {
            warn(document, Remark::NotAll(why.into()).into());
        }
        match self.passed_over {
            0 => {}
            1 => warn(document, Remark::FileWithoutText.into()),
            count => warn(document, Remark::FilesWithoutText { count }.into()),
        }
    }
}

/// Notes what went wrong; a thousand notes say no more than some.
fn warn(document: &mut Document, why: String) {
    const MOST: usize = 20;
    if document.warnings.len() < MOST {
        document.warnings.push(why);
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Puts a document below the name it has inside of another.
fn join(name: &str, part: Document, into: &mut Document) {
    let place =
        |inside: Location| Location::Part { name: name.to_owned(), inside: Box::new(inside) };
    let title = part.title.unwrap_or_else(|| name.to_owned());
    into.blocks.push(Block::new(BlockKind::Heading(1), title.clone(), place(Location::Whole)));
    for mut block in part.blocks {
        if let BlockKind::Heading(level) = &mut block.kind {
            // Its own title stands above already.
            if *level == 1 && block.text == title {
                continue;
            }
            *level = level.saturating_add(1);
        }
        block.location = match block.location {
            Location::Part { name: inner, inside } => {
                Location::Part { name: format!("{name} › {inner}"), inside }
            }
            other => place(other),
        };
        into.blocks.push(block);
    }
    for why in part.warnings {
        warn(into, format!("{name}: {why}"));
    }
}
