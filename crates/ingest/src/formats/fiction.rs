//! FictionBook (FB2): chapters with their headings. No entity of a document's own is ever expanded.

use quick_xml::{Reader, events::Event};
use riddle_types::{Block, BlockKind, Document, Location};

use super::Shares;
use crate::{office::book_title, outcome::ParseOutcome, remark::Remark, text::decode};

/// Most authors of one book that are looked at.
const MOST_AUTHORS: usize = 20;

pub(super) fn parse(_name: &str, bytes: &[u8], _shares: &mut Shares) -> ParseOutcome {
    // Older books are in encodings of their own, which the first line names.
    let (text, warning) = decode(bytes);
    let mut reader = Reader::from_str(&text);
    let mut book = Book::default();
    loop {
        match reader.read_event() {
            Ok(Event::Start(tag)) => book.open(&name_of(tag.local_name().as_ref())),
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
                return ParseOutcome::Failed(Remark::NotBook(error.to_string()).into());
            }
            Err(error) => {
                book.document.warnings.push(Remark::DamagedMarkup(error.to_string()).into());
                break;
            }
        }
    }
    book.document.title = book_title(book.document.title, &book.authors);
    book.document.warnings.extend(warning);
    ParseOutcome::Parsed(book.document)
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

    fn text(&mut self, text: &str) {
        // Pictures stand in it as letters.
        if !self.is_in("binary") {
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
