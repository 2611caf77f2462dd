//! What Outlook sends to its own kind: a mail's text and files in one (`winmail.dat`, MS-OXTNEF).
//!
//! A list of attributes, each with its length. Those that are properties of a mail or of a file are read as far as they
//! are known: a kind of unknown length ends the list that it is in, and nothing else.

use riddle_types::{Block, FileKind};

use super::pst::unpacked;
use crate::{kind::TNEF, office, outcome::ParseOutcome};

/// Most files in one.
const MOST_FILES: usize = 1000;

/// Most properties of one thing.
const MOST_PROPERTIES: usize = 5_000;

/// Attributes by their numbers (2.1.3.2).
mod attribute {
    pub(super) const SUBJECT: u64 = 0x8004;
    pub(super) const PROPERTIES: u64 = 0x9003;
    /// Begins a file.
    pub(super) const FILE: u64 = 0x9002;
    pub(super) const FILE_NAME: u64 = 0x8010;
    pub(super) const FILE_DATA: u64 = 0x800F;
    pub(super) const FILE_PROPERTIES: u64 = 0x9005;
    /// The code page of its texts.
    pub(super) const PAGE: u64 = 0x9007;
}

/// Properties by their numbers (MS-OXPROPS).
const SUBJECT: u64 = 0x0037;
const TEXT: u64 = 0x1000;
const PAGE: u64 = 0x1013;
const RICH: u64 = 0x1009;
const DATA: u64 = 0x3701;
const NAMES: [u64; 2] = [0x3707, 0x3704];

/// A kind of text of two bytes a letter, and one that is another thing.
const WIDE: u64 = 0x1F;
const OBJECT: u64 = 0x0D;

/// A property: its number, its kind and its bytes.
type Property<'a> = (u64, u64, &'a [u8]);

/// What is in one.
#[derive(Debug, Default)]
pub(super) struct Tnef {
    pub(super) subject: Option<String>,
    /// What the mail says.
    pub(super) text: Vec<Block>,
    /// Names and bytes.
    pub(super) files: Vec<(String, Vec<u8>)>,
    /// Whether all of it could be read.
    pub(super) whole: bool,
}

/// Reads one; none if it does not begin as one.
pub(super) fn read(bytes: &[u8]) -> Option<Tnef> {
    // The mark, and a number that nobody asks for.
    let mut rest = Rest(bytes.strip_prefix(TNEF)?);
    rest.take(2);
    let mut encoding = encoding_rs::WINDOWS_1252;
    let mut read = Tnef::default();
    let mut text = Vec::new();
    while !rest.0.is_empty() {
        let Some((id, data)) = rest.attribute() else { return Some(said(read, &text, encoding)) };
        if id == attribute::FILE {
            if read.files.len() == MOST_FILES {
                return Some(said(read, &text, encoding));
            }
            read.files.push((String::new(), Vec::new()));
            continue;
        }
        let file = read.files.last_mut();
        match (id, file) {
            (attribute::PAGE, _) => encoding = page(data).unwrap_or(encoding),
            (attribute::SUBJECT, _) => read.subject = decoded(0, data, encoding),
            (attribute::PROPERTIES, _) => text = Rest(data).properties(),
            (attribute::FILE_NAME, Some(file)) if file.0.is_empty() => {
                file.0 = decoded(0, data, encoding).unwrap_or_default();
            }
            (attribute::FILE_DATA, Some(file)) => file.1 = data.to_vec(),
            (attribute::FILE_PROPERTIES, Some(file)) => {
                add(file, &Rest(data).properties(), encoding);
            }
            _ => {}
        }
    }
    read.whole = true;
    Some(said(read, &text, encoding))
}

/// What properties say of a file: its long name, and a mail that is one.
fn add(file: &mut (String, Vec<u8>), all: &[Property<'_>], encoding: &'static Encoding) {
    /// What stands before the bytes of a thing: of which kind it is.
    const OF: usize = 16;
    let find = |id: u64| all.iter().find(|it| it.0 == id);
    let name = NAMES.iter().find_map(|it| find(*it)).and_then(|it| decoded(it.1, it.2, encoding));
    if let Some(name) = name {
        file.0 = name;
    }
    if let Some((_, kind, bytes)) = find(DATA)
        && file.1.is_empty()
    {
        let before = if *kind == OBJECT { OF } else { 0 };
        file.1 = bytes.get(before..).unwrap_or_default().to_vec();
    }
}

type Encoding = encoding_rs::Encoding;

/// With the text that its properties are: a page, rich text, or neither.
fn said(mut read: Tnef, all: &[Property<'_>], encoding: &'static Encoding) -> Tnef {
    let find = |id: u64| all.iter().find(|it| it.0 == id);
    let text = |id: u64| find(id).and_then(|it| decoded(it.1, it.2, encoding));
    read.subject = text(SUBJECT).or(read.subject);
    let page = || match find(PAGE)? {
        (_, WIDE, bytes) => decoded(WIDE, bytes, encoding).map(String::into_bytes),
        (_, _, bytes) => Some(bytes.to_vec()),
    };
    let rich = || unpacked(find(RICH)?.2);
    let parsed = if let Some(text) = text(TEXT) {
        office::parse("body.eml", FileKind::Mail, plain(&text))
    } else if let Some(page) = page() {
        office::parse("body.html", FileKind::Html, page)
    } else if let Some(rich) = rich() {
        office::parse("body.rtf", FileKind::Document, rich)
    } else {
        return read;
    };
    if let ParseOutcome::Parsed(document) = parsed {
        read.text = document.blocks;
    }
    read
}

/// A text as a mail that says nothing else.
fn plain(text: &str) -> Vec<u8> {
    let head = "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n";
    format!("{head}{text}").into_bytes()
}

fn decoded(kind: u64, bytes: &[u8], encoding: &'static Encoding) -> Option<String> {
    let encoding = if kind == WIDE { encoding_rs::UTF_16LE } else { encoding };
    let text = encoding.decode_without_bom_handling(bytes).0;
    let text = text.trim_end_matches('\0').trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn page(data: &[u8]) -> Option<&'static Encoding> {
    let page = number(data.get(..4)?);
    let label = if page == 65001 { "utf-8".to_owned() } else { format!("windows-{page}") };
    Encoding::for_label(label.as_bytes())
}

/// A number, the lowest byte first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |all, it| all << 8 | u64::from(*it))
}

/// What is not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, size: usize) -> Option<u64> {
        self.take(size).map(number)
    }

    /// Bytes behind their length; what is added to make it a multiple of four is passed over.
    fn sized(&mut self) -> Option<&'a [u8]> {
        let size = usize::try_from(self.number(4)?).ok()?;
        let bytes = self.take(size)?;
        self.take((4 - size % 4) % 4);
        Some(bytes)
    }

    /// An attribute: of what, its number and kind, its length, its bytes, and their sum.
    fn attribute(&mut self) -> Option<(u64, &'a [u8])> {
        self.take(1)?;
        let id = self.number(4)? & 0xFFFF;
        let size = usize::try_from(self.number(4)?).ok()?;
        let data = self.take(size)?;
        self.take(2)?;
        Some((id, data))
    }

    /// Properties, as many as could be read.
    fn properties(mut self) -> Vec<Property<'a>> {
        let count = self.number(4).unwrap_or(0) as usize;
        let mut all = Vec::new();
        for _ in 0..count.min(MOST_PROPERTIES) {
            let Some(property) = self.property() else { break };
            all.push(property);
        }
        all
    }

    /// A property (2.1.3.4); of several values the first.
    fn property(&mut self) -> Option<Property<'a>> {
        const SEVERAL: u64 = 0x1000;
        /// From here on they have names: of a set, a number or a word.
        const NAMED: u64 = 0x8000;
        let (kind, id) = (self.number(2)?, self.number(2)?);
        if id >= NAMED {
            self.take(16)?;
            if self.number(4)? == 0 { self.take(4) } else { self.sized() }?;
        }
        let fixed = match kind & !SEVERAL {
            2 | 3 | 4 | 0xA | 0xB => Some(4),
            5 | 6 | 7 | 0x14 | 0x40 => Some(8),
            0x48 => Some(16),
            0x1E | WIDE | 0x102 | OBJECT => None,
            _ => return None,
        };
        let count = if kind & SEVERAL != 0 || fixed.is_none() { self.number(4)? } else { 1 };
        let mut first = None;
        for _ in 0..count {
            let value = match fixed {
                Some(size) => self.take(size)?,
                None => self.sized()?,
            };
            first.get_or_insert(value);
        }
        Some((id, kind, first.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests;
