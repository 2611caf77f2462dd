//! Books for Kindle and Mobipocket: a database of records, the first of which says how the others are packed. Their
//! text is a web page.
//!
//! After the description of the MobileRead wiki (*MOBI*, *PalmDOC*): compression by copies of what came before, and
//! records that end in notes for the reader's program, which are taken off.

use riddle_types::{Document, FileKind};

use super::{Shares, warn};
use crate::{office, outcome::ParseOutcome, remark::Remark, text::decode};

/// Most text that is read of one book: more than the longest have.
const MOST_BYTES: usize = 64 << 20;

/// Numbers of the ways of packing.
const PLAIN: u16 = 1;
const PALM_DOC: u16 = 2;

/// The number for UTF-8 among encodings.
const UTF_8: u32 = 65_001;

pub(super) fn parse(name: &str, bytes: &[u8], _shares: &mut Shares) -> ParseOutcome {
    let book = match Book::open(bytes) {
        Ok(book) => book,
        Err(why) => return ParseOutcome::Failed(why.into()),
    };
    let (text, whole) = match book.text() {
        Ok(text) => text,
        Err(why) => return ParseOutcome::Unsupported(why.into()),
    };
    let page = match book.encoding {
        // The standard says so, and most tell the truth.
        UTF_8 => String::from_utf8_lossy(&text).into_owned(),
        _ => decode(&text).0,
    };
    let stem = name.rsplit_once('.').map_or(name, |it| it.0);
    let outcome = office::parse(&format!("{stem}.html"), FileKind::Html, page.into_bytes());
    let ParseOutcome::Parsed(read) = outcome else { return outcome };
    let mut document = Document {
        title: office::book_title(book.title.clone().or(read.title), &book.authors),
        ..read
    };
    if !whole {
        warn(&mut document, Remark::RestDamaged.into());
    }
    ParseOutcome::Parsed(document)
}

/// An open book.
struct Book<'a> {
    bytes: &'a [u8],
    /// Where each record begins.
    starts: Vec<usize>,
    packed: u16,
    text_records: usize,
    encoding: u32,
    title: Option<String>,
    authors: Vec<String>,
    /// Which notes stand behind the text of a record.
    notes: u16,
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

impl<'a> Book<'a> {
    fn open(bytes: &'a [u8]) -> Result<Book<'a>, Remark> {
        const NOT: Remark = Remark::NotMobi;
        let kind = bytes.get(60..68).ok_or(NOT)?;
        if kind != b"BOOKMOBI" && kind != b"TEXtREAd" {
            return Err(NOT);
        }
        let count = usize::from(short(bytes, 76).ok_or(NOT)?);
        let starts: Vec<usize> = (0..count)
            .map(|it| long(bytes, 78 + it * 8).map(|at| at as usize))
            .collect::<Option<_>>()
            .ok_or(NOT)?;
        let mut book = Book {
            bytes,
            starts,
            packed: 0,
            text_records: 0,
            encoding: 0,
            title: None,
            authors: Vec::new(),
            notes: 0,
        };
        let first = book.record(0).ok_or(NOT)?;
        book.packed = short(first, 0).ok_or(NOT)?;
        book.text_records = usize::from(short(first, 8).ok_or(NOT)?);
        if short(first, 12).is_some_and(|it| it != 0) {
            return Err(Remark::CopyProtected);
        }
        if first.get(16..20) == Some(b"MOBI") {
            let length = long(first, 20).unwrap_or(0) as usize;
            book.encoding = long(first, 28).unwrap_or(0);
            let (at, letters) = (long(first, 84), long(first, 88));
            let title = at.zip(letters).and_then(|(at, letters)| {
                let at = at as usize;
                first.get(at..at.checked_add(letters as usize)?)
            });
            let title = title.map(|it| decode(it).0.trim().to_owned());
            book.title = title.filter(|it| !it.is_empty());
            book.authors = authors(first, length);
            // Headers of the first versions end before it.
            book.notes = if length >= 228 { short(first, 242).unwrap_or(0) } else { 0 };
        }
        Ok(book)
    }

    fn record(&self, number: usize) -> Option<&'a [u8]> {
        let start = *self.starts.get(number)?;
        let end = self.starts.get(number + 1).copied().unwrap_or(self.bytes.len());
        self.bytes.get(start..end)
    }

    /// The page that all records make together, and whether it came to its end.
    fn text(&self) -> Result<(Vec<u8>, bool), Remark> {
        if ![PLAIN, PALM_DOC].contains(&self.packed) {
            return Err(Remark::Huffman);
        }
        let mut text = Vec::new();
        for number in 1..=self.text_records {
            let Some(record) = self.record(number) else { return Ok((text, false)) };
            let record = without_notes(record, self.notes);
            if self.packed == PLAIN {
                text.extend_from_slice(record);
            } else if !unpack(record, &mut text) {
                return Ok((text, false));
            }
            if text.len() > MOST_BYTES {
                return Ok((text, false));
            }
        }
        Ok((text, true))
    }
}

/// Who wrote it: in records of a further header, which stands behind the first one of that length. Each has a number
/// for what it tells and its own length.
fn authors(first: &[u8], length: usize) -> Vec<String> {
    /// The number for an author.
    const AUTHOR: u32 = 100;
    /// Most records that are looked at.
    const MOST: u32 = 1000;
    let mut found = Vec::new();
    let Some(more) = first.get(16..).and_then(|it| it.get(length..)) else { return found };
    if !more.starts_with(b"EXTH") {
        return found;
    }
    let mut at = 12_usize;
    for _ in 0..long(more, 8).unwrap_or(0).min(MOST) {
        let (Some(what), Some(size)) = (long(more, at), long(more, at + 4)) else { break };
        let end = at.saturating_add(size as usize);
        let Some(value) = more.get(at + 8..end) else { break };
        if what == AUTHOR {
            found.push(decode(value).0);
        }
        at = end;
    }
    found
}

/// The text of a record: notes behind it have their length at their end, except the first kind, which says in two bits
/// how many bytes of a letter overlap.
fn without_notes(record: &[u8], notes: u16) -> &[u8] {
    let mut rest = record;
    for _ in 0..(notes >> 1).count_ones() {
        let mut length = 0_usize;
        for (place, byte) in rest.iter().rev().take(4).enumerate() {
            length |= usize::from(byte & 0x7F) << (7 * place);
            if byte & 0x80 != 0 {
                break;
            }
        }
        rest = &rest[..rest.len().saturating_sub(length.max(1))];
    }
    if notes & 1 != 0
        && let Some(last) = rest.last()
    {
        rest = &rest[..rest.len().saturating_sub(usize::from(last & 3) + 1)];
    }
    rest
}

/// Puts what a record says behind `text`; whether it was whole. A copy reaches back to what this record has said.
fn unpack(record: &[u8], text: &mut Vec<u8>) -> bool {
    let begin = text.len();
    let mut at = 0;
    while let Some(&byte) = record.get(at) {
        at += 1;
        match byte {
            // As many letters as they are.
            1..=8 => {
                let Some(letters) = record.get(at..at + usize::from(byte)) else { return false };
                text.extend_from_slice(letters);
                at += usize::from(byte);
            }
            0 | 9..=0x7F => text.push(byte),
            // A space and a letter.
            0xC0.. => text.extend_from_slice(&[b' ', byte ^ 0x80]),
            // Eleven bits of distance, three of length.
            0x80..=0xBF => {
                let Some(&next) = record.get(at) else { return false };
                at += 1;
                let pair = usize::from(byte & 0x3F) << 8 | usize::from(next);
                let (distance, length) = (pair >> 3, (pair & 7) + 3);
                if distance == 0 || distance > text.len() - begin {
                    return false;
                }
                for _ in 0..length {
                    text.push(text[text.len() - distance]);
                }
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<html><body><h1>The keeper</h1><p>Agnes kept the lamp, the lamp of Skerry, for thirty-one \
        years.</p><h2>The wreck</h2><p>The brig carried oranges.</p></body></html>";

    /// Bytes packed by copies where there are some, as the format allows.
    fn packed(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let longest = (3..=10).rev().find_map(|length| {
                let wanted = text.get(at..at + length)?;
                let from = at.saturating_sub(2047);
                let found =
                    (from..at).find(|it| text[*it..at.max(*it + length)].starts_with(wanted));
                found.map(|it| (at - it, length))
            });
            if let Some((distance, length)) = longest {
                let pair = distance << 3 | (length - 3);
                out.extend([0x80 | (pair >> 8) as u8, pair as u8]);
                at += length;
            } else {
                // Bytes beyond ASCII come as they are.
                if text[at] >= 0x80 {
                    out.push(1);
                }
                out.push(text[at]);
                at += 1;
            }
        }
        out
    }

    /// A book of these records of text, each with three bytes of notes behind it.
    fn book(way: u16, records: &[Vec<u8>], locked: bool) -> Vec<u8> {
        let title = "The Lamp at Skerry".as_bytes();
        let mut first = Vec::new();
        for number in [way, 0, 0, 0, records.len() as u16, 4096, u16::from(locked), 0] {
            first.extend(number.to_be_bytes());
        }
        first.extend(b"MOBI");
        first.resize(16 + 232, 0);
        first[20..24].copy_from_slice(&232_u32.to_be_bytes());
        first[28..32].copy_from_slice(&UTF_8.to_be_bytes());
        let author = b"Agnes Rowe";
        first.extend(b"EXTH");
        for number in [0, 2, 503, 9] {
            first.extend((number as u32).to_be_bytes());
        }
        first.push(b'x');
        for number in [100, 8 + author.len() as u32] {
            first.extend(number.to_be_bytes());
        }
        first.extend(author);
        let behind = first.len() as u32;
        first[84..88].copy_from_slice(&behind.to_be_bytes());
        first[88..92].copy_from_slice(&(title.len() as u32).to_be_bytes());
        first[242..244].copy_from_slice(&2_u16.to_be_bytes());
        first.extend(title);
        let mut all = vec![first];
        all.extend(records.iter().map(|it| [it.as_slice(), &[9, 9, 0x83]].concat()));
        let mut bytes = vec![0; 60];
        bytes.extend(b"BOOKMOBI");
        bytes.extend([0; 8]);
        bytes.extend((all.len() as u16).to_be_bytes());
        let mut start = 78 + all.len() * 8;
        for record in &all {
            bytes.extend((start as u32).to_be_bytes());
            bytes.extend([0; 4]);
            start += record.len();
        }
        bytes.extend(all.concat());
        bytes
    }

    fn read(bytes: &[u8]) -> ParseOutcome {
        parse("book.mobi", bytes, &mut Shares::tried())
    }

    #[test]
    fn books_are_read_by_their_headings() {
        let (one, two) = PAGE.as_bytes().split_at(70);
        for bytes in [
            book(PALM_DOC, &[packed(one), packed(two)], false),
            book(PLAIN, &[one.to_vec(), two.to_vec()], false),
        ] {
            let ParseOutcome::Parsed(document) = read(&bytes) else { panic!("parses") };
            assert_eq!(document.title.as_deref(), Some("The Lamp at Skerry (Agnes Rowe)"));
            let place = |text: &str| {
                let block = document.blocks.iter().find(|it| it.text.contains(text));
                block.map(|it| it.location.to_string()).unwrap_or_default()
            };
            assert!(place("the lamp of Skerry, for thirty-one").starts_with("The keeper"));
            assert!(place("The brig carried oranges.").contains("The wreck"));
        }
    }

    #[test]
    fn copies_are_found_again() {
        let text = "Zürich, Zürich, and the lamp, the lamp of the lamps".as_bytes();
        let small = packed(text);
        assert!(small.len() < text.len());
        let mut out = b"before".to_vec();
        assert!(unpack(&small, &mut out));
        assert_eq!(out, [b"before", text].concat());
        // A copy of what this record has not said.
        assert!(!unpack(&[b'a', 0x80, 0x20], &mut Vec::new()));
    }

    #[test]
    fn locked_and_damaged_books_have_a_reason() {
        let whole = book(PALM_DOC, &[packed(PAGE.as_bytes())], false);
        for at in [0, 40, 68, 80, 120, 300] {
            let outcome = read(&whole[..at.min(whole.len())]);
            assert!(matches!(outcome, ParseOutcome::Failed(_)), "{at}: {outcome:?}");
        }
        let locked = read(&book(PALM_DOC, &[packed(PAGE.as_bytes())], true));
        assert!(matches!(locked, ParseOutcome::Failed(why) if why.contains("copying")));
        let other = read(&book(17_480, &[packed(PAGE.as_bytes())], false));
        assert!(matches!(other, ParseOutcome::Unsupported(why) if why.contains("Huffman")));
        // Whatever bytes are changed, it ends.
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 0xFF;
            let _ = Book::open(&other).map(|it| it.text().is_ok());
        }
    }
}
