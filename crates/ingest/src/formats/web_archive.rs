//! Pages that Safari has saved: a property list, binary or XML, with the page and what stands in its frames.
//!
//! After Apple's `CFBinaryPList.c` and the document type of property lists. A list may name one thing in many places,
//! and itself: so nothing is read but what is asked for, and things are counted as often as they are named.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use encoding_rs::Encoding;
use mail_parser::decoders::base64::base64_decode;
use quick_xml::{Reader, events::Event};
use riddle_types::{Document, FileKind};

use super::{Shares, join};
use crate::{
    office,
    outcome::ParseOutcome,
    remark::Remark,
    shown::{MOST_SHOWN, See},
    text::{decode, parse_plain},
};

/// Most frames of a page, those in frames included.
const MOST_FRAMES: usize = 200;

/// Most values that are read of a list: five for each frame and for what stands on a page, and what is around them.
const MOST_VALUES: usize = 50_000;

/// Values in values: a frame in a frame is three deeper.
const DEEPEST: u32 = 16;

/// Longest name or address.
const LONGEST: usize = 4096;

/// Names of the values that are read.
const PAGE: &str = "WebMainResource";
const FRAMES: &str = "WebSubframeArchives";
const DATA: &str = "WebResourceData";
const TYPE: &str = "WebResourceMIMEType";
const ENCODING: &str = "WebResourceTextEncodingName";
const ADDRESS: &str = "WebResourceURL";
const BESIDE: &str = "WebSubresources";
const READ: [&str; 7] = [PAGE, FRAMES, DATA, TYPE, ENCODING, ADDRESS, BESIDE];

pub(super) fn parse(name: &str, bytes: &[u8], shares: &mut Shares) -> ParseOutcome {
    let list = match listed(bytes) {
        Ok(list) => list,
        Err(why) => return ParseOutcome::Failed(why.into()),
    };
    let Some(page) = list.get(PAGE) else {
        return ParseOutcome::Failed(Remark::NotWebArchive.into());
    };
    let stem = name.rsplit_once('.').map_or(name, |it| it.0);
    let mut document = match resource(stem, page) {
        ParseOutcome::Parsed(document) => document,
        other => return other,
    };
    show(&list, &mut |number, bytes, _| shares.note_picture(number, bytes));
    frames(&list, shares, &mut document);
    shares.tell(&mut document);
    ParseOutcome::Parsed(document)
}

fn listed(bytes: &[u8]) -> Result<Value<'_>, Remark> {
    if bytes.starts_with(b"bplist") {
        Binary::open(bytes).and_then(|mut it| it.value(it.top, 0))
    } else {
        xml(&decode(bytes).0)
    }
}

/// Shows the pictures of the page, not those in its frames.
pub(super) fn pictures(_name: &str, bytes: &[u8], see: See<'_>) {
    if let Ok(list) = listed(bytes) {
        show(&list, see);
    }
}

/// The page is read once more, as other browsers save one: a mail of it and of what stands on it, by their addresses.
fn show(list: &Value<'_>, see: See<'_>) {
    /// Most pictures that are handed over.
    const MOST: usize = 2000;
    let Some(page) = list.get(PAGE) else { return };
    let address = |it: &Value<'_>| {
        let text = it.get(ADDRESS).map_or("", Value::text).trim();
        // A header ends with its line.
        text.chars().filter(|it| !it.is_control()).collect::<String>()
    };
    let beside = match list.get(BESIDE) {
        Some(Value::List(all)) => all.as_slice(),
        _ => &[],
    };
    let kind = |it: &Value<'_>| it.get(TYPE).map_or("", Value::text).trim().to_ascii_lowercase();
    let pictures = beside.iter().filter(|it| {
        kind(it).starts_with("image/") && kind(it).bytes().all(|it| it.is_ascii_graphic())
    });
    let data = page.get(DATA).map_or(&[][..], Value::bytes);
    let mut parts = vec![Part::new("text/html; charset=utf-8", &address(page), &page_of(page))];
    let mut bytes = 0;
    for picture in pictures.take(MOST) {
        let data = picture.get(DATA).map_or(&[][..], Value::bytes);
        bytes += data.len() as u64;
        if bytes > MOST_SHOWN {
            break;
        }
        parts.push(Part::new(&kind(picture), &address(picture), data));
    }
    let written = |it: &[u8]| data.windows(it.len()).any(|part| part == it);
    if parts.len() > 1 || written(b"data:image/") {
        office::parse_with("page.mhtml", FileKind::Html, mail_of(&parts), see);
    }
}

/// The page in UTF-8, with the mark that makes it that whatever it says of itself.
fn page_of(page: &Value<'_>) -> Vec<u8> {
    let data = page.get(DATA).map_or(&[][..], Value::bytes);
    let encoding = page.get(ENCODING).and_then(|it| Encoding::for_label(it.text().as_bytes()));
    encoding.map_or_else(|| decode(data).0, |it| it.decode(data).0.into_owned()).into_bytes()
}

/// A part of a mail.
struct Part(String);

impl Part {
    fn new(kind: &str, address: &str, bytes: &[u8]) -> Part {
        let letters = STANDARD.encode(bytes);
        Part(format!(
            "Content-Type: {kind}\r\nContent-Location: {address}\r\n\
             Content-Transfer-Encoding: base64\r\n\r\n{letters}\r\n"
        ))
    }
}

fn mail_of(parts: &[Part]) -> Vec<u8> {
    // No letter of base 64.
    const CUT: &str = "=_cut_=";
    let mut mail = format!(
        "MIME-Version: 1.0\r\nContent-Type: multipart/related; type=\"text/html\"; boundary=\"{CUT}\"\r\n\r\n"
    );
    for Part(part) in parts {
        mail.push_str(&format!("--{CUT}\r\n{part}"));
    }
    mail.push_str(&format!("--{CUT}--\r\n"));
    mail.into_bytes()
}

/// What is in the frames of a page, in its order; those without text are furniture.
fn frames(list: &Value<'_>, shares: &mut Shares, document: &mut Document) {
    let inner = |of: &Value<'_>| match of.get(FRAMES) {
        Some(Value::List(frames)) => frames.len(),
        _ => 0,
    };
    let mut open = vec![(list, 0, inner(list))];
    let mut number = 0;
    while let Some((archive, next, count)) = open.last_mut() {
        let Some(Value::List(all)) = archive.get(FRAMES).filter(|_| *next < *count) else {
            open.pop();
            continue;
        };
        let frame = &all[*next];
        *next += 1;
        number += 1;
        if number > MOST_FRAMES {
            shares.spent.get_or_insert(Remark::TooMany);
            return;
        }
        if let Some(page) = frame.get(PAGE) {
            let size = page.get(DATA).map_or(0, |it| it.bytes().len()) as u64;
            if !shares.last() {
                return;
            }
            if size > shares.largest() {
                shares.pass_over();
            } else {
                shares.count(size);
                let name = format!("frame {number}");
                if let ParseOutcome::Parsed(read) = resource(&name, page)
                    && !read.blocks.is_empty()
                {
                    join(&name, read, document);
                }
            }
        }
        open.push((frame, 0, inner(frame)));
    }
}

/// A page, or what else was saved: a text.
fn resource(stem: &str, resource: &Value<'_>) -> ParseOutcome {
    let Some(data) = resource.get(DATA).map(Value::bytes).filter(|it| !it.is_empty()) else {
        return ParseOutcome::NoText(Remark::NoText.into());
    };
    let encoding = resource.get(ENCODING).and_then(|it| Encoding::for_label(it.text().as_bytes()));
    let address = resource.get(ADDRESS).map(|it| it.text().trim().to_owned());
    let kind = resource.get(TYPE).map_or("", Value::text).trim().to_ascii_lowercase();
    let mut document = match kind.as_str() {
        "" | "text/html" | "application/xhtml+xml" => {
            let page = match encoding {
                // The mark makes it UTF-8, whatever the page says that it was.
                Some(encoding) => format!("\u{feff}{}", encoding.decode(data).0).into_bytes(),
                None => data.to_vec(),
            };
            match office::parse(&format!("{stem}.html"), FileKind::Html, page) {
                ParseOutcome::Parsed(document) => document,
                other => return other,
            }
        }
        it if it.starts_with("text/") => {
            let text = encoding.map_or_else(|| decode(data).0, |it| it.decode(data).0.into_owned());
            parse_plain(&text)
        }
        _ => return ParseOutcome::NoText(Remark::NoText.into()),
    };
    document.title = document.title.or(address).filter(|it| !it.is_empty());
    ParseOutcome::Parsed(document)
}

/// A value of a property list, as far as it is read.
#[derive(Debug, PartialEq)]
enum Value<'a> {
    Named(Vec<(&'static str, Value<'a>)>),
    List(Vec<Value<'a>>),
    Text(String),
    Data(Cow<'a, [u8]>),
    /// A number, a day, or a text that is too long.
    Other,
}

impl Value<'_> {
    fn get(&self, name: &str) -> Option<&Value<'_>> {
        match self {
            Value::Named(all) => all.iter().find(|it| it.0 == name).map(|it| &it.1),
            _ => None,
        }
    }

    fn text(&self) -> &str {
        if let Value::Text(text) = self { text } else { "" }
    }

    fn bytes(&self) -> &[u8] {
        if let Value::Data(bytes) = self { bytes } else { &[] }
    }
}

/// An open binary list: things, a table of where they begin, and at the end what is said of the table.
struct Binary<'a> {
    bytes: &'a [u8],
    table: &'a [u8],
    /// Bytes of a place in the table, and of a number of a thing.
    place: usize,
    number: usize,
    top: usize,
    left: usize,
}

/// A number of up to eight bytes, the highest first.
fn whole(bytes: &[u8]) -> Option<usize> {
    if bytes.is_empty() || bytes.len() > 8 {
        return None;
    }
    let value = bytes.iter().fold(0_u64, |all, it| all << 8 | u64::from(*it));
    usize::try_from(value).ok()
}

/// `count` bytes from `at` on.
fn some(bytes: &[u8], at: usize, count: usize) -> Option<&[u8]> {
    bytes.get(at..at.checked_add(count)?)
}

impl<'a> Binary<'a> {
    fn open(bytes: &'a [u8]) -> Result<Binary<'a>, Remark> {
        /// Bytes at the end: six of padding, two sizes, and three numbers of eight.
        const END: usize = 32;
        let end = bytes.len().checked_sub(END).map(|at| &bytes[at..]).ok_or(Remark::Damaged)?;
        let (place, number) = (usize::from(end[6]), usize::from(end[7]));
        let numbers = [&end[8..16], &end[16..24], &end[24..32]].map(whole);
        let [Some(count), Some(top), Some(at)] = numbers else { return Err(Remark::Damaged) };
        let size = count.checked_mul(place).ok_or(Remark::Damaged)?;
        let table = some(bytes, at, size).ok_or(Remark::Damaged)?;
        if !(1..=8).contains(&place) || !(1..=8).contains(&number) {
            return Err(Remark::Damaged);
        }
        Ok(Binary { bytes, table, place, number, top, left: MOST_VALUES })
    }

    /// Where a thing has its bytes, what it is, and how many it has.
    fn thing(&self, number: usize) -> Option<(usize, u8, usize)> {
        let at = whole(some(self.table, number.checked_mul(self.place)?, self.place)?)?;
        let mark = *self.bytes.get(at)?;
        let (kind, count) = (mark >> 4, usize::from(mark & 15));
        if count < 15 || matches!(kind, 0..=3) {
            return Some((at + 1, kind, count));
        }
        // The count stands behind the mark, as a number of its own.
        let mark = *self.bytes.get(at + 1)?;
        let size = (mark >> 4 == 1 && mark & 15 <= 3).then(|| 1 << (mark & 15))?;
        Some((at + 2 + size, kind, whole(some(self.bytes, at + 2, size)?)?))
    }

    fn value(&mut self, number: usize, depth: u32) -> Result<Value<'a>, Remark> {
        if depth > DEEPEST {
            return Err(Remark::TooDeep);
        }
        self.left = self.left.checked_sub(1).ok_or(Remark::TooMany)?;
        let (at, kind, count) = self.thing(number).ok_or(Remark::Damaged)?;
        let bytes = self.bytes;
        Ok(match kind {
            4 => Value::Data(Cow::Borrowed(some(bytes, at, count).ok_or(Remark::Damaged)?)),
            5 | 6 => self.text(at, kind, count)?.map_or(Value::Other, Value::Text),
            10 => {
                let numbers = self.numbers(at, count)?;
                let mut all = Vec::new();
                for number in numbers.chunks_exact(self.number) {
                    let number = whole(number).ok_or(Remark::Damaged)?;
                    all.push(self.value(number, depth + 1)?);
                }
                Value::List(all)
            }
            13 => {
                let names = self.numbers(at, count)?;
                let values = self.numbers(at + names.len(), count)?;
                let mut all = Vec::new();
                let pairs = names.chunks_exact(self.number).zip(values.chunks_exact(self.number));
                for (name, value) in pairs {
                    let name = whole(name).ok_or(Remark::Damaged)?;
                    if let Some(name) = self.name(name)? {
                        let value = whole(value).ok_or(Remark::Damaged)?;
                        all.push((name, self.value(value, depth + 1)?));
                    }
                }
                Value::Named(all)
            }
            _ => Value::Other,
        })
    }

    /// Which of the names that are read this is; a list may name its values by anything.
    fn name(&mut self, number: usize) -> Result<Option<&'static str>, Remark> {
        self.left = self.left.checked_sub(1).ok_or(Remark::TooMany)?;
        let (at, kind, count) = self.thing(number).ok_or(Remark::Damaged)?;
        let name = if matches!(kind, 5 | 6) { self.text(at, kind, count)? } else { None };
        Ok(name.and_then(|name| READ.into_iter().find(|it| *it == name)))
    }

    /// A text of so many letters, if it is not too long.
    fn text(&self, at: usize, kind: u8, count: usize) -> Result<Option<String>, Remark> {
        if count > LONGEST {
            return Ok(None);
        }
        let (size, encoding) = match kind {
            5 => (count, encoding_rs::UTF_8),
            _ => (count * 2, encoding_rs::UTF_16BE),
        };
        let text = some(self.bytes, at, size).ok_or(Remark::Damaged)?;
        Ok(Some(encoding.decode_without_bom_handling(text).0.into_owned()))
    }

    /// The bytes of as many numbers of things.
    fn numbers(&self, at: usize, count: usize) -> Result<&'a [u8], Remark> {
        let size = count.checked_mul(self.number).ok_or(Remark::Damaged)?;
        some(self.bytes, at, size).ok_or(Remark::Damaged)
    }
}

/// Reads a list that is written in XML. No entity of its own is ever expanded.
fn xml(text: &str) -> Result<Value<'static>, Remark> {
    let mut xml = Xml { reader: Reader::from_str(text), left: MOST_VALUES };
    while let Some(tag) = xml.opened()? {
        if tag.name != "plist" {
            return xml.value(&tag, 0);
        }
    }
    Err(Remark::NotWebArchive)
}

struct Xml<'a> {
    reader: Reader<&'a [u8]>,
    left: usize,
}

struct Tag {
    name: String,
    /// `<dict/>` has nothing in it and no end.
    empty: bool,
}

impl Xml<'_> {
    /// The next tag that opens; none where what is around it ends.
    fn opened(&mut self) -> Result<Option<Tag>, Remark> {
        let named = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
        loop {
            match self.reader.read_event() {
                Ok(Event::Start(tag)) => {
                    return Ok(Some(Tag { name: named(tag.name().as_ref()), empty: false }));
                }
                Ok(Event::Empty(tag)) => {
                    return Ok(Some(Tag { name: named(tag.name().as_ref()), empty: true }));
                }
                Ok(Event::End(_)) => return Ok(None),
                Ok(Event::Eof) | Err(_) => return Err(Remark::Damaged),
                Ok(_) => {}
            }
        }
    }

    /// The value whose tag has been opened.
    fn value(&mut self, tag: &Tag, depth: u32) -> Result<Value<'static>, Remark> {
        if depth > DEEPEST {
            return Err(Remark::TooDeep);
        }
        self.left = self.left.checked_sub(1).ok_or(Remark::TooMany)?;
        Ok(match tag.name.as_str() {
            "dict" => {
                let mut all = Vec::new();
                while let Some(key) = self.inside(tag)? {
                    let name = if key.name == "key" { self.text(&key)? } else { String::new() };
                    let Some(value) = self.opened()? else { break };
                    match READ.iter().find(|it| **it == name) {
                        Some(name) => all.push((*name, self.value(&value, depth + 1)?)),
                        None => self.pass(&value)?,
                    }
                }
                Value::Named(all)
            }
            "array" => {
                let mut all = Vec::new();
                while let Some(value) = self.inside(tag)? {
                    all.push(self.value(&value, depth + 1)?);
                }
                Value::List(all)
            }
            "string" => {
                let text = self.text(tag)?;
                if text.len() > LONGEST { Value::Other } else { Value::Text(text) }
            }
            "data" => {
                let text = self.text(tag)?;
                let data = base64_decode(text.as_bytes()).ok_or(Remark::Damaged)?;
                Value::Data(Cow::Owned(data))
            }
            _ => {
                self.pass(tag)?;
                Value::Other
            }
        })
    }

    fn inside(&mut self, tag: &Tag) -> Result<Option<Tag>, Remark> {
        if tag.empty { Ok(None) } else { self.opened() }
    }

    /// The text up to the tag's end.
    fn text(&mut self, tag: &Tag) -> Result<String, Remark> {
        let mut text = String::new();
        if tag.empty {
            return Ok(text);
        }
        loop {
            match self.reader.read_event() {
                Ok(Event::Text(more)) => text.push_str(&more.decode().unwrap_or_default()),
                Ok(Event::CData(more)) => text.push_str(&more.decode().unwrap_or_default()),
                Ok(Event::GeneralRef(entity)) => {
                    text.push_str(match entity.decode().unwrap_or_default().as_ref() {
                        "amp" => "&",
                        "lt" => "<",
                        "gt" => ">",
                        "quot" => "\"",
                        "apos" => "'",
                        _ => " ",
                    });
                }
                Ok(Event::End(_)) => break,
                // No tag stands in a text.
                Ok(Event::Start(_) | Event::Eof) | Err(_) => return Err(Remark::Damaged),
                Ok(_) => {}
            }
        }
        Ok(text)
    }

    /// Goes behind the end of a tag.
    fn pass(&mut self, tag: &Tag) -> Result<(), Remark> {
        let mut depth = u64::from(!tag.empty);
        while depth > 0 {
            match self.reader.read_event() {
                Ok(Event::Start(_)) => depth += 1,
                Ok(Event::End(_)) => depth -= 1,
                Ok(Event::Eof) | Err(_) => return Err(Remark::Damaged),
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
