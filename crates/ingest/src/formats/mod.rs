//! Formats of our own: a file for each, and a line in [`READERS`].
//!
//! A format in which files lie (archives, mailboxes, attachments) gives each to [`Shares::part`], which reads it like a
//! file of its own and keeps count: of parts, of bytes, of depth, of time. Nothing is ever written to disk.

mod archive;
mod bookmarks;
mod calendar;
mod contacts;
mod fiction;
mod history;
mod lines;
mod mail;
mod mobi;
mod notebook;
mod one_note;
mod org;
mod packed;
mod photo;
mod pictures;
mod subtitles;
mod web_archive;
mod xps;

use std::time::{Duration, Instant};

use riddle_types::{Block, BlockKind, Document, FileKind, Location};

use self::pictures::Wanted;
pub(crate) use self::pictures::{MOST_PICTURES, Pictures, See, flatten, place_of};
use crate::{
    kind::{TNEF, begins_as_web_archive, is_outlook_store, kind_of},
    office,
    outcome::ParseOutcome,
    protocol::Reply,
    remark::Remark,
    sheet, shown,
    tools::Tools,
};

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
    (&["one"], one_note::parse),
    (&["fb2"], fiction::parse),
    (&["mobi", "azw", "azw3", "prc"], mobi::parse),
    (&["srt", "vtt", "ass", "ssa", "sbv"], subtitles::parse),
    (&["org"], org::parse),
    (&["webarchive"], web_archive::parse),
    (&["jsonlz4", "baklz4"], bookmarks::parse),
    (&["xps", "oxps"], xps::parse),
    (
        &["jpg", "jpeg", "tif", "tiff", "heic", "heif", "avif", "webp", "png", "gif", "bmp"],
        photo::parse,
    ),
];

/// The refusal of a mail for its parts, whatever else could be read of it.
pub(crate) fn too_many_parts(kind: FileKind, bytes: &[u8]) -> Option<ParseOutcome> {
    if kind == FileKind::Mail { mail::too_many_parts(bytes) } else { None }
}

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
        // So has a page that was saved and renamed.
        FileKind::Html if begins_as_web_archive(bytes) => Some(web_archive::parse as Reader),
        // A mailbox or a mail in a folder of mails has no ending.
        FileKind::Mail if is_outlook_store(name, bytes) => Some(mail::store as Reader),
        FileKind::Mail if bytes.starts_with(TNEF) => Some(mail::outlook_packed as Reader),
        FileKind::Mail if extension == "msg" => Some(mail::outlook as Reader),
        FileKind::Mail => Some(mail::parse as Reader),
        FileKind::History => Some(history::parse as Reader),
        _ => named,
    };
    reader.map(|it| it(name, bytes, shares))
}

/// Shows the pictures of a file that no other files lie in, in the order of reading; they are counted from 1.
pub(crate) fn pictures_of(name: &str, kind: FileKind, bytes: &[u8], see: shown::See<'_>) {
    let extension = name.rsplit_once('.').map_or("", |it| it.1).to_ascii_lowercase();
    match (kind, extension.as_str()) {
        (FileKind::Spreadsheet, it) if sheet::has_pictures(it) => sheet::pictures(it, bytes, see),
        (FileKind::Document, "one") => one_note::pictures(bytes, see),
        (FileKind::Book, "fb2") => fiction::pictures(bytes, see),
        (FileKind::Html, _) if extension == "webarchive" || begins_as_web_archive(bytes) => {
            web_archive::pictures(name, bytes, see);
        }
        _ => _ = office::parse_with(name, kind, bytes.to_vec(), see),
    }
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
    /// Number of the part that is read, from 1; 0 is the file itself.
    part: u32,
    /// What can be read later.
    pub(crate) pictures: Pictures,
    /// What is looked for: nothing else is read then.
    wanted: Option<Wanted>,
}

impl Shares {
    /// For a file that has `seconds`: the last ones are kept for what is done with its text.
    pub(crate) fn new(seconds: u64, tools: Tools, read: Read) -> Shares {
        Shares {
            read,
            depth: 0,
            parts: MOST_PARTS,
            bytes: MOST_BYTES,
            end: Instant::now() + Duration::from_secs(seconds) * 3 / 5,
            passed_over: 0,
            spent: None,
            tools,
            part: 0,
            pictures: Pictures::default(),
            wanted: None,
        }
    }

    /// To find the picture with that number again, which `see` reads then.
    pub(crate) fn seeking(
        seconds: u64,
        tools: Tools,
        read: Read,
        (number, see): (u32, See),
    ) -> Shares {
        Shares { wanted: Some(Wanted::new(number, see)), ..Shares::new(seconds, tools, read) }
    }

    /// Whether one picture is looked for, and nothing else.
    pub(crate) fn seeks(&self) -> bool {
        self.wanted.is_some()
    }

    /// What the picture says that was looked for, if it was found.
    pub(crate) fn found(self) -> Option<Reply> {
        self.wanted?.seen
    }

    /// When reading ends.
    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    /// Notes pages of a PDF that are pictures, or a file that is one.
    pub(crate) fn note_pages(&mut self, pages: impl Iterator<Item = u32>) {
        match self.depth {
            0 => self.pictures.numbers.extend(pages),
            _ => pages.for_each(|it| self.pictures.note(self.part, it)),
        }
    }

    /// Notes a picture in a file, if it may hold text and is not there already.
    pub(crate) fn note_picture(&mut self, number: u32, bytes: &[u8]) {
        if self.pictures.is_new(bytes) {
            self.pictures.note(self.part, number);
        }
    }

    /// For a test, with twenty seconds.
    #[cfg(test)]
    pub(crate) fn tried() -> Shares {
        Shares::new(20, Tools::default(), crate::worker::read)
    }

    /// Whether another file in it may be looked at.
    pub(crate) fn last(&mut self) -> bool {
        if self.wanted.as_ref().is_some_and(|it| it.seen.is_some()) {
            return false;
        }
        if self.depth >= DEEPEST {
            self.spent.get_or_insert(Remark::TooDeep);
            return false;
        }
        self.has_room()
    }

    /// Whether another part may be looked at, which is no file of its own.
    pub(crate) fn has_room(&mut self) -> bool {
        let spent = if self.parts == 0 {
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
        // Browsing history is read where a person knows that it lies, not in what was packed or sent.
        if matches!(kind, FileKind::Other | FileKind::History) || bytes.is_empty() {
            self.passed_over += 1;
            return;
        }
        let number = MOST_PARTS - self.parts;
        if self.seeks() {
            return self.seek(number, name, kind, bytes, into);
        }
        let noted = self.pictures.numbers.len();
        let outer = std::mem::replace(&mut self.part, number);
        let outcome = self.deeper(name, kind, bytes);
        self.part = outer;
        match outcome {
            ParseOutcome::Parsed(document) => join(name, document, into),
            // What may be read later is not passed over.
            ParseOutcome::NoText(_) if self.pictures.numbers.len() > noted => {}
            ParseOutcome::NoText(_) | ParseOutcome::Unsupported(_) => self.passed_over += 1,
            ParseOutcome::Failed(why) => {
                warn(into, Remark::Within { name: name.to_owned(), why }.into());
            }
        }
    }

    fn deeper(&mut self, name: &str, kind: FileKind, bytes: Vec<u8>) -> ParseOutcome {
        self.depth += 1;
        let outcome = (self.read)(file_name(name), kind, bytes, self);
        self.depth -= 1;
        outcome
    }

    /// Looks for the wanted picture in a part; what files lie in is opened, all else passed by.
    fn seek(
        &mut self,
        number: u32,
        name: &str,
        kind: FileKind,
        bytes: Vec<u8>,
        into: &mut Document,
    ) {
        let tools = &self.tools;
        let seen = self.wanted.as_mut().and_then(|it| {
            it.look(number, file_name(name), kind, &bytes, tools).map(|it| it.outcome.clone())
        });
        let outcome = match seen {
            Some(outcome) => outcome,
            None if matches!(kind, FileKind::Archive | FileKind::Mail)
                || name.to_ascii_lowercase().ends_with(".one") =>
            {
                self.deeper(name, kind, bytes)
            }
            None => return,
        };
        if let ParseOutcome::Parsed(document) = outcome
            && !document.blocks.is_empty()
        {
            join(name, document, into);
        }
    }

    /// Counts a part that is no file of its own.
    pub(crate) fn count(&mut self, bytes: u64) {
        self.parts = self.parts.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
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
