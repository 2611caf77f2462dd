//! FictionBook (FB2): chapters with their headings. No entity of a document's own is ever expanded.

use std::collections::HashMap;

use mail_parser::decoders::base64::base64_decode;
use quick_xml::{
    Reader,
    events::{BytesStart, Event},
};
use riddle_types::{Block, BlockKind, Document, Location};

use super::Shares;
use crate::{
    office::book_title,
    outcome::ParseOutcome,
    remark::Remark,
    shown::{MOST_SHOWN, See},
    text::decode,
};

/// Most authors of one book that are looked at.
const MOST_AUTHORS: usize = 20;

/// Most pictures that are looked at: one may stand in a thousand places.
const MOST_PICTURES: usize = 2000;

pub(super) fn parse(_name: &str, bytes: &[u8], shares: &mut Shares) -> ParseOutcome {
    let (outcome, book) = read(bytes);
    book.show(&mut |number, bytes, _| shares.note_picture(number, bytes));
    outcome
}

/// Shows the pictures between the paragraphs. The cover shows what the title says.
pub(super) fn pictures(bytes: &[u8], see: See<'_>) {
    read(bytes).1.show(see);
}

/// What a book says, and what it shows.
fn read(bytes: &[u8]) -> (ParseOutcome, Shown) {
    // Older books are in encodings of their own, which the first line names.
    let (text, warning) = decode(bytes);
    let mut reader = Reader::from_str(&text);
    let mut book = Book::default();
    loop {
        match reader.read_event() {
            Ok(Event::Start(tag)) => {
                book.see(&tag);
                book.open(&name_of(tag.local_name().as_ref()));
            }
            Ok(Event::Empty(tag)) => book.see(&tag),
            Ok(Event::End(tag)) => book.close(&name_of(tag.local_name().as_ref())),
            Ok(Event::Text(text)) => {
                if let Ok(text) = text.decode() {
                    book.text(&text);
                }
            }
            Ok(Event::GeneralRef(entity)) => {
                if let Ok(name) = entity.decode() {
                    book.text(match name.as_ref() {
                        "amp" => "&",
                        "lt" => "<",
                        "gt" => ">",
                        "quot" => "\"",
                        "apos" => "'",
                        _ => " ",
                    });
                }
            }
            Ok(Event::Eof) => break,
            Ok(_) => {}
            Err(error) if book.document.blocks.is_empty() => {
                let why = Remark::NotBook(error.to_string());
                return (ParseOutcome::Failed(why.into()), Shown::default());
            }
            Err(error) => {
                book.document.warnings.push(Remark::DamagedMarkup(error.to_string()).into());
                break;
            }
        }
    }
    book.document.title = book_title(book.document.title, &book.authors);
    book.document.warnings.extend(warning);
    (ParseOutcome::Parsed(book.document), book.shown)
}

/// Pictures by their names: where each stands, and their bytes in letters.
#[derive(Default)]
struct Shown {
    places: Vec<(String, Location)>,
    binaries: HashMap<String, String>,
}

impl Shown {
    fn show(&self, see: See<'_>) {
        let mut shown = 0;
        for ((name, location), number) in self.places.iter().zip(1..) {
            let letters = self.binaries.get(name).map(String::as_bytes);
            let Some(bytes) = letters.and_then(base64_decode) else { continue };
            shown += bytes.len() as u64;
            if shown > MOST_SHOWN {
                return;
            }
            see(number, &bytes, location);
        }
    }
}

fn name_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[derive(Default)]
struct Book {
    document: Document,
    authors: Vec<String>,
    /// The parts of the name of the author who is read.
    author: Vec<String>,
    open: Vec<String>,
    depth: u8,
    headings: Vec<String>,
    line: String,
    paragraph: u32,
    shown: Shown,
    /// The picture whose bytes are read.
    binary: String,
}

impl Book {
    fn is_in(&self, name: &str) -> bool {
        self.open.iter().any(|it| it == name)
    }

    /// Whether what is read tells who wrote the book, and not who translated it or made the file.
    fn is_author(&self) -> bool {
        self.is_in("title-info") && self.is_in("author")
    }

    fn open(&mut self, name: &str) {
        /// Tags in tags that are told apart.
        const DEEPEST: usize = 200;
        if self.open.len() < DEEPEST {
            self.open.push(name.to_owned());
        }
        match name {
            "section" => self.depth = self.depth.saturating_add(1),
            "p" | "v" | "subtitle" | "text-author" | "book-title" => self.line.clear(),
            "first-name" | "middle-name" | "last-name" | "nickname" => self.line.clear(),
            _ => {}
        }
    }

    /// Notes where a picture stands, or which one's bytes follow.
    fn see(&mut self, tag: &BytesStart<'_>) {
        let value = |name: &[u8]| {
            let mut all = tag.attributes();
            let mut all = all.with_checks(false).filter_map(Result::ok);
            let found = all.find(|it| it.key.local_name().as_ref() == name)?;
            Some(String::from_utf8_lossy(&found.value).into_owned())
        };
        match tag.local_name().as_ref() {
            b"image" if self.is_in("body") && self.shown.places.len() < MOST_PICTURES => {
                let name = value(b"href").unwrap_or_default();
                let paragraph = self.paragraph.max(1);
                let location = Location::Section { path: self.headings.clone(), paragraph };
                self.shown.places.push((name.trim_start_matches('#').to_owned(), location));
            }
            b"binary" => self.binary = value(b"id").unwrap_or_default(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.is_in("binary") {
            self.shown.binaries.entry(self.binary.clone()).or_default().push_str(text);
        } else {
            self.line.push_str(text);
        }
    }

    fn close(&mut self, name: &str) {
        let text = self.line.split_whitespace().collect::<Vec<_>>().join(" ");
        match name {
            "book-title" if self.document.title.is_none() => {
                self.document.title = Some(text).filter(|it| !it.is_empty());
                self.line.clear();
            }
            "first-name" | "middle-name" | "last-name" if self.is_author() => {
                self.author.extend(Some(text).filter(|it| !it.is_empty()));
                self.line.clear();
            }
            // Who has a name is called by it.
            "nickname" if self.is_author() && self.author.is_empty() => self.author.push(text),
            "author" if self.is_author() && self.authors.len() < MOST_AUTHORS => {
                self.authors.push(std::mem::take(&mut self.author).join(" "));
            }
            "section" => {
                self.depth = self.depth.saturating_sub(1);
                self.headings.truncate(usize::from(self.depth));
            }
            "p" | "v" | "subtitle" | "text-author" if !text.is_empty() => {
                self.line.clear();
                let heading = self.is_in("title") || name == "subtitle";
                if heading && name != "subtitle" {
                    self.headings.truncate(usize::from(self.depth.max(1)) - 1);
                    self.headings.push(text.clone());
                }
                self.paragraph += 1;
                let location =
                    Location::Section { path: self.headings.clone(), paragraph: self.paragraph };
                let kind = if heading {
                    BlockKind::Heading(self.depth.max(1))
                } else {
                    BlockKind::Paragraph
                };
                self.document.blocks.push(Block::new(kind, text, location));
            }
            _ => {}
        }
        if self.open.last().is_some_and(|it| it == name) {
            self.open.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chapters_have_headings_and_entities_are_not_expanded() {
        let book = "<?xml version=\"1.0\"?><!DOCTYPE x [<!ENTITY a \"bomb\"><!ENTITY b \"&a;&a;\">]><FictionBook>\
            <description><title-info><author><first-name>Ann</first-name><last-name>Hale</last-name>\
            <nickname>ah</nickname></author><author><nickname>Skipper</nickname></author>\
            <book-title>The Boat</book-title><translator><first-name>Ben</first-name></translator></title-info>\
            <document-info><author><nickname>scanner</nickname></author></document-info></description><body>\
            <section><title><p>Hull</p></title><p>It is <emphasis>blue</emphasis> &amp; old &b;.</p>\
            <section><title><p>Keel</p></title><p>Long.</p></section></section></body>\
            <binary id=\"c\">AAAA</binary></FictionBook>";
        let ParseOutcome::Parsed(document) = parse("x.fb2", book.as_bytes(), &mut Shares::tried())
        else {
            panic!("parses")
        };
        assert_eq!(document.title.as_deref(), Some("The Boat (Ann Hale, Skipper)"));
        let seen: Vec<(&str, String)> =
            document.blocks.iter().map(|it| (it.text.as_str(), it.location.to_string())).collect();
        assert_eq!(
            seen,
            [
                ("Hull", "Hull, paragraph 1".to_owned()),
                ("It is blue & old .", "Hull, paragraph 2".to_owned()),
                ("Keel", "Hull › Keel, paragraph 3".to_owned()),
                ("Long.", "Hull › Keel, paragraph 4".to_owned()),
            ]
        );
    }
}
