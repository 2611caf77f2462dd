//! Sections of OneNote: their pages with what is written, pasted and attached there.
//!
//! A library of its own reads the format, both as OneNote keeps it and as OneDrive gives it out. What OneNote has read
//! of handwriting and of pictures is taken from it; other pictures are looked at like those of documents.

use std::{
    io::Read as _,
    panic::{AssertUnwindSafe, catch_unwind},
};

use onenote_parser::{
    Parser,
    contents::{Content, EmbeddedFile, Image, OutlineElement, OutlineItem, RichText, Table},
    page::{Page, PageContent},
    section::Section,
};
use riddle_types::{Block, BlockKind, Document, Location};
use typed_path::{PathType, TypedPath};

use super::Shares;
use crate::{
    outcome::ParseOutcome,
    remark::Remark,
    shown::{MOST_SHOWN, See},
    table::numeric,
};

/// Lists in lists in tables: the library itself goes no deeper by much.
const DEEPEST: u32 = 100;

/// Most pictures of one section that are looked at.
const MOST_PICTURES: u32 = 2000;

pub(super) fn parse(_name: &str, bytes: &[u8], shares: &mut Shares) -> ParseOutcome {
    let section = match opened(bytes) {
        Ok(section) => section,
        Err(why) => return ParseOutcome::Failed(why.into()),
    };
    let mut walk = Walk::default();
    let mut note = |number: u32, bytes: &[u8], _: &Location| shares.note_picture(number, bytes);
    walk.section(&section, &mut note);
    let Walk { mut document, files, drawn, .. } = walk;
    if shares.seeks() {
        document.blocks.clear();
    }
    for file in files {
        if !shares.last() {
            break;
        }
        match whole(file.read(), shares.largest()) {
            Some(bytes) => shares.part(file.filename(), bytes, &mut document),
            None => shares.pass_over(),
        }
    }
    if drawn > 0 {
        document.warnings.push(Remark::Handwriting { pages: drawn }.into());
    }
    shares.tell(&mut document);
    ParseOutcome::Parsed(document)
}

/// Shows the pictures of which OneNote has not read what they say.
pub(super) fn pictures(bytes: &[u8], see: See<'_>) {
    if let Ok(section) = opened(bytes) {
        Walk::default().section(&section, see);
    }
}

fn opened(bytes: &[u8]) -> Result<Section, Remark> {
    // The name leads nowhere: nothing but these bytes is opened.
    let name = TypedPath::new("section.one", PathType::Windows);
    let read = || Parser::new().parse_section_buffer(bytes, name);
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read.map_err(|error| Remark::Unparsed(error.to_string())),
        Err(_) => Err(Remark::Damaged),
    }
}

/// All bytes, if they are no more than that.
fn whole(from: impl std::io::Read, most: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most.saturating_add(1)).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= most).then_some(bytes)
}

#[derive(Default)]
struct Walk<'a> {
    document: Document,
    headings: Vec<String>,
    paragraph: u32,
    files: Vec<&'a EmbeddedFile>,
    /// Pictures so far, and their bytes.
    pictures: u32,
    shown: u64,
    /// Pages with handwriting that OneNote has not read.
    drawn: u32,
    ink: bool,
}

impl<'a> Walk<'a> {
    fn section(&mut self, section: &'a Section, see: See<'_>) {
        for page in section.page_series().iter().flat_map(|it| it.pages()) {
            self.page(page, see);
        }
    }

    fn page(&mut self, page: &'a Page, see: See<'_>) {
        /// Pages below pages.
        const LEVELS: i32 = 6;
        let level = page.level().clamp(1, LEVELS) as u8;
        self.headings.truncate(usize::from(level) - 1);
        if let Some(title) = page.title_text().map(tidy).filter(|it| !it.is_empty()) {
            self.headings.push(title.clone());
            self.push(BlockKind::Heading(level), title);
        }
        self.ink = false;
        for content in page.contents() {
            match content {
                PageContent::Outline(outline) => self.items(outline.items(), 0, see),
                PageContent::Image(image) => self.image(image, see),
                PageContent::EmbeddedFile(file) => self.files.push(file),
                PageContent::Ink(_) => self.ink = true,
                _ => {}
            }
        }
        let read = page.ink_recognition().map(|it| it.text()).unwrap_or_default();
        let read = read.trim();
        if !read.is_empty() {
            self.push(BlockKind::Paragraph, read.to_owned());
        } else if self.ink {
            self.drawn += 1;
        }
    }

    fn items(&mut self, items: &'a [OutlineItem], depth: u32, see: See<'_>) {
        if depth > DEEPEST {
            return;
        }
        for item in items {
            match item {
                OutlineItem::Group(group) => self.items(group.outlines(), depth + 1, see),
                OutlineItem::Element(element) => self.element(element, depth, see),
            }
        }
    }

    fn element(&mut self, element: &'a OutlineElement, depth: u32, see: See<'_>) {
        let kind = match element.list_contents() {
            [] => BlockKind::Paragraph,
            _ => BlockKind::ListItem,
        };
        for content in element.contents() {
            match content {
                Content::RichText(text) => self.push(kind.clone(), said(text)),
                Content::Table(table) => self.table(table, depth, see),
                Content::Image(image) => self.image(image, see),
                Content::EmbeddedFile(file) => self.files.push(file),
                Content::Ink(_) => self.ink = true,
                _ => {}
            }
        }
        self.items(element.children(), depth + 1, see);
    }

    /// A table, a row on each line. What else stands in its cells follows it.
    fn table(&mut self, table: &'a Table, depth: u32, see: See<'_>) {
        let mut lines = Vec::new();
        for row in table.contents() {
            let cells: Vec<String> =
                row.contents().iter().map(|it| cell(it.contents(), depth + 1)).collect();
            lines.push(cells.join(" | "));
        }
        lines.retain(|it| it.chars().any(char::is_alphanumeric));
        let header = match lines.first() {
            Some(first) if lines.len() > 1 && !numeric(first) => lines.remove(0),
            _ => String::new(),
        };
        if !lines.is_empty() {
            let text = lines.join("\n");
            let kind = if numeric(&text) { BlockKind::Numbers } else { BlockKind::Table };
            self.push(kind, text);
            if let Some(last) = self.document.blocks.last_mut() {
                last.header = header;
            }
        }
        let cells = table.contents().iter().flat_map(|it| it.contents());
        for element in cells.flat_map(|it| it.contents()) {
            self.beside(element, depth + 1, see);
        }
    }

    /// What stands in a cell and is no text.
    fn beside(&mut self, element: &'a OutlineElement, depth: u32, see: See<'_>) {
        if depth > DEEPEST {
            return;
        }
        for content in element.contents() {
            match content {
                Content::Table(table) => self.table(table, depth, see),
                Content::Image(image) => self.image(image, see),
                Content::EmbeddedFile(file) => self.files.push(file),
                Content::Ink(_) => self.ink = true,
                _ => {}
            }
        }
        for child in element.children().iter().filter_map(OutlineItem::element) {
            self.beside(child, depth + 1, see);
        }
    }

    /// What OneNote has read of a picture; one that it has not is shown.
    fn image(&mut self, image: &Image, see: See<'_>) {
        self.pictures += 1;
        let read = [image.text(), image.alt_text()].into_iter().flatten().map(str::trim);
        let mut read = read.filter(|it| it.chars().any(char::is_alphanumeric));
        if let Some(text) = read.next() {
            return self.push(BlockKind::Paragraph, text.to_owned());
        }
        if self.pictures > MOST_PICTURES || self.shown > MOST_SHOWN {
            return;
        }
        let bytes = image.read().and_then(|it| whole(it, MOST_SHOWN - self.shown));
        if let Some(bytes) = bytes {
            self.shown += bytes.len() as u64;
            see(self.pictures, &bytes, &self.location());
        }
    }

    fn location(&self) -> Location {
        Location::Section { path: self.headings.clone(), paragraph: self.paragraph.max(1) }
    }

    fn push(&mut self, kind: BlockKind, text: String) {
        if text.trim().is_empty() {
            return;
        }
        self.paragraph += 1;
        self.document.blocks.push(Block::new(kind, text, self.location()));
    }
}

/// The texts of a cell, one behind the other.
fn cell(elements: &[OutlineElement], depth: u32) -> String {
    let mut texts = Vec::new();
    let mut open: Vec<(&OutlineElement, u32)> =
        elements.iter().rev().map(|it| (it, depth)).collect();
    while let Some((element, depth)) = open.pop() {
        for content in element.contents() {
            if let Content::RichText(text) = content {
                texts.push(said(text).replace('\n', " "));
            }
        }
        if depth < DEEPEST {
            let inner = element.children().iter().rev().filter_map(OutlineItem::element);
            open.extend(inner.map(|it| (it, depth + 1)));
        }
    }
    texts.retain(|it| !it.is_empty());
    texts.join(" ")
}

/// What a paragraph says, without the commands that make links of words.
fn said(text: &RichText) -> String {
    tidy(text.text())
}

fn tidy(text: &str) -> String {
    /// Begins a command, whose words end with a quotation mark.
    const COMMAND: &str = "\u{fddf}HYPERLINK \"";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(COMMAND) {
        out.push_str(before);
        rest = after.split_once('"').map_or("", |it| it.1);
    }
    out.push_str(rest);
    let out: String = out
        .chars()
        .map(|it| match it {
            '\u{b}' => '\n',
            '\u{a0}' => ' ',
            other => other,
        })
        .filter(|it| *it == '\n' || !it.is_control())
        .collect();
    out.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_make_links_are_no_text() {
        let text = "see \u{fddf}HYPERLINK \"https://example.com\"the dock\u{b}and\u{a0}go";
        assert_eq!(tidy(text), "see the dock\nand go");
        assert_eq!(tidy("\u{fddf}HYPERLINK \"no end"), "");
        assert_eq!(tidy(" \u{a0} "), "");
    }

    #[test]
    fn what_is_no_section_fails_with_a_reason() {
        let mut head = vec![
            0xE4, 0x52, 0x5C, 0x7B, 0x8C, 0xD8, 0xA7, 0x4D, 0xAE, 0xB1, 0x53, 0x78, 0xD0, 0x29,
            0x96, 0xD3,
        ];
        head.resize(4096, 0xA5);
        for bytes in [&b""[..], b"words", &head[..16], &head[..100], &head] {
            let outcome = parse("x.one", bytes, &mut Shares::tried());
            assert!(
                matches!(&outcome, ParseOutcome::Failed(why) if !why.is_empty()),
                "{outcome:?}"
            );
        }
    }
}
