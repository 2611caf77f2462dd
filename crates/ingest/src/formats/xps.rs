//! XPS and OpenXPS: what was printed into a file, page by page.
//!
//! A package (a ZIP archive) names a sequence of documents, these name their pages, and a page is runs of glyphs with
//! the letters that they draw and the place where they begin. Nothing of a part is written anywhere, and no entity of a
//! document's own is ever expanded.

mod page;

use std::{
    collections::HashMap,
    io::{Cursor, Read as _},
};

use quick_xml::{
    Reader, XmlVersion,
    events::{BytesStart, Event},
};
use riddle_types::{BlockKind, Document};
use zip::ZipArchive;

use super::{MOST_PARTS, Shares, warn};
use crate::{
    layout::{self, Manner},
    outcome::ParseOutcome,
    pages::{drop_repeated, joined},
    remark::Remark,
    text::decode,
};

pub(super) fn parse(_name: &str, bytes: &[u8], shares: &mut Shares) -> ParseOutcome {
    let archive = match ZipArchive::new(Cursor::new(bytes)) {
        Ok(archive) => archive,
        Err(error) => return ParseOutcome::Failed(Remark::Unparsed(error.to_string()).into()),
    };
    let mut package = Package::new(archive);
    let mut document = Document::default();
    let relations = package.part("_rels/.rels", shares).unwrap_or_default();
    let sources = match package.pages(&relations, shares, &mut document) {
        Ok(sources) if !sources.is_empty() => sources,
        Ok(_) => return ParseOutcome::Failed(Remark::Damaged.into()),
        Err(why) => return ParseOutcome::Failed(why),
    };
    let mut pages = Vec::new();
    for source in &sources {
        if !shares.has_room() {
            break;
        }
        let page = package.part(source, shares).map(|text| page::read(&text));
        // A page that is missing is one all the same: those behind it keep their numbers.
        let (lines, why) = page.unwrap_or_else(|why| (Vec::new(), Some(why)));
        if let Some(why) = why {
            warn(&mut document, why);
        }
        pages.push(lines);
    }
    let body = layout::body_size(pages.iter().flatten());
    for (number, lines) in (1..).zip(&pages) {
        document.blocks.extend(layout::blocks(number, lines, body, Manner::TOLD));
    }
    drop_repeated(&mut document);
    for block in document.blocks.iter_mut().filter(|it| it.kind == BlockKind::Paragraph) {
        block.text = joined(&block.text);
    }
    document.title = package.title(&relations, shares);
    shares.tell(&mut document);
    if document.blocks.is_empty() {
        let why = document.warnings.into_iter().next();
        return ParseOutcome::NoText(why.unwrap_or_else(|| Remark::ProbablyScan.into()));
    }
    ParseOutcome::Parsed(document)
}

/// Parts by their names, which do not tell capitals from small letters.
struct Package<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    names: HashMap<String, usize>,
}

impl Package<'_> {
    fn new(archive: ZipArchive<Cursor<&[u8]>>) -> Package<'_> {
        let name = |it: &str| it.replace('\\', "/").trim_start_matches('/').to_ascii_lowercase();
        let named = |index| Some((name(&archive.name_for_index(index)?.ok()?), index));
        let names = (0..archive.len()).filter_map(named).collect();
        Package { archive, names }
    }

    /// The text of a part, or why it can not be read.
    fn part(&mut self, name: &str, shares: &mut Shares) -> Result<String, String> {
        let key = name.to_ascii_lowercase();
        let mut bytes = Vec::new();
        let whole = self.names.get(&key).copied();
        let result = match whole {
            Some(index) => self.unpack(index, &mut bytes, shares),
            None => self.pieces(&key, &mut bytes, shares),
        };
        match result {
            Ok(()) => Ok(decode(&bytes).0),
            Err(why) => Err(Remark::Within { name: name.to_owned(), why: why.into() }.into()),
        }
    }

    /// A part that was printed while others were: its pieces lie among theirs.
    fn pieces(&mut self, key: &str, to: &mut Vec<u8>, shares: &mut Shares) -> Result<(), Remark> {
        for number in 0.. {
            let last = self.names.get(&format!("{key}/[{number}].last.piece")).copied();
            let piece = self.names.get(&format!("{key}/[{number}].piece")).copied();
            let index = last.or(piece).ok_or(Remark::Damaged)?;
            self.unpack(index, to, shares)?;
            if last.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Unpacks within what is left, whatever the entry says of its size.
    fn unpack(
        &mut self,
        index: usize,
        to: &mut Vec<u8>,
        shares: &mut Shares,
    ) -> Result<(), Remark> {
        let entry = match self.archive.by_index(index) {
            Ok(entry) => entry,
            Err(zip::result::ZipError::UnsupportedArchive(why)) if why.contains("assword") => {
                return Err(Remark::Password);
            }
            Err(error) => return Err(Remark::Unparsed(error.to_string())),
        };
        let most = shares.largest();
        let before = to.len() as u64;
        let read = entry.take(most + 1).read_to_end(to);
        let length = to.len() as u64 - before;
        shares.count(length);
        if length > most {
            return Err(Remark::TooMuch);
        }
        read.map(|_| ()).map_err(|error| Remark::Unparsed(error.to_string()))
    }

    /// Names of the pages of all documents, in order.
    fn pages(
        &mut self,
        relations: &str,
        shares: &mut Shares,
        document: &mut Document,
    ) -> Result<Vec<String>, String> {
        let start = target(relations, "/fixedrepresentation").or_else(|| {
            let mut names = self.names.keys().filter(|it| it.ends_with(".fdseq"));
            names.next().cloned()
        });
        let start = start.ok_or(Remark::Damaged)?;
        let sequence = self.part(&start, shares)?;
        let mut pages = Vec::new();
        for source in sources(&sequence, "DocumentReference") {
            let most = (MOST_PARTS as usize).saturating_sub(pages.len());
            if most == 0 || !shares.has_room() {
                break;
            }
            let name = resolved(&start, &source);
            match self.part(&name, shares) {
                Ok(text) => {
                    let sources = sources(&text, "PageContent").into_iter().take(most);
                    pages.extend(sources.map(|it| resolved(&name, &it)));
                }
                Err(why) => warn(document, why),
            }
        }
        Ok(pages)
    }

    /// The title, where somebody has given it one.
    fn title(&mut self, relations: &str, shares: &mut Shares) -> Option<String> {
        let core = target(relations, "/core-properties");
        let core = core.unwrap_or_else(|| "docProps/core.xml".to_owned());
        let text = self.part(&core, shares).ok()?;
        let mut title = None::<String>;
        walk(&text, |event| {
            if let (Event::Start(tag), true) = (&event, title.is_none()) {
                title = (tag.local_name().as_ref() == b"title").then(String::new);
                return true;
            }
            let Some(title) = &mut title else { return true };
            match event {
                Event::Text(text) => title.push_str(&text.decode().unwrap_or_default()),
                Event::GeneralRef(it) => title.push(it.decode().map_or(' ', |it| predefined(&it))),
                Event::End(_) => return false,
                _ => {}
            }
            true
        });
        let title = title?.split_whitespace().collect::<Vec<_>>().join(" ");
        (!title.is_empty()).then_some(title)
    }
}

/// Goes through a part's markup for as long as `each` wants more; whether all of that makes sense.
fn walk(text: &str, mut each: impl FnMut(Event<'_>) -> bool) -> bool {
    let mut reader = Reader::from_str(text);
    let mut open = 0_usize;
    loop {
        let Ok(event) = reader.read_event() else { return false };
        match event {
            Event::Eof => return open == 0,
            Event::Start(_) => open += 1,
            Event::End(_) => open = open.saturating_sub(1),
            _ => {}
        }
        if !each(event) {
            return true;
        }
    }
}

/// What XML itself has a name for; no other entity says anything.
fn predefined(name: &str) -> char {
    match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => ' ',
    }
}

/// An attribute of an element.
fn attribute(tag: &BytesStart<'_>, name: &str) -> Option<String> {
    // Looking for names that stand there twice would take the square of their number.
    let mut all = tag.attributes();
    let mut all = all.with_checks(false).flatten();
    let value = all.find(|it| it.key.as_ref() == name.as_bytes())?;
    match value.normalized_value(XmlVersion::Implicit1_0) {
        Ok(text) => Some(text.into_owned()),
        Err(_) => Some(String::from_utf8_lossy(&value.value).into_owned()),
    }
}

/// What all elements of a name have as their source, in order.
fn sources(text: &str, element: &str) -> Vec<String> {
    let mut sources = Vec::new();
    walk(text, |event| {
        if let Event::Start(tag) | Event::Empty(tag) = event
            && tag.local_name().as_ref() == element.as_bytes()
        {
            sources.extend(attribute(&tag, "Source"));
        }
        sources.len() <= MOST_PARTS as usize
    });
    sources
}

/// The part that stands in such a relation to the package; the two standards differ in how the names of theirs begin.
fn target(relations: &str, kind: &str) -> Option<String> {
    let mut found = None;
    walk(relations, |event| {
        if let Event::Start(tag) | Event::Empty(tag) = event
            && tag.local_name().as_ref() == b"Relationship"
            && attribute(&tag, "Type").is_some_and(|it| it.ends_with(kind))
        {
            found = attribute(&tag, "Target").map(|it| resolved("", &it));
        }
        found.is_none()
    });
    found
}

/// The name of a part that another names, from where that one lies.
fn resolved(from: &str, target: &str) -> String {
    let mut steps: Vec<&str> = from.split('/').collect();
    steps.pop();
    if target.starts_with('/') {
        steps.clear();
    }
    for step in target.split('#').next().unwrap_or("").split('/') {
        match step {
            "" | "." => {}
            ".." => {
                steps.pop();
            }
            step => steps.push(step),
        }
    }
    steps.join("/")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use riddle_types::{Block, FileKind};
    use zip::write::SimpleFileOptions;

    use super::*;

    const RELATIONS: &str = "<Relationships><Relationship Target=\"/docProps/core.xml\" \
        Type=\"http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties\"/>\
        <Relationship Type=\"http://schemas.openxps.org/oxps/v1.0/fixedrepresentation\" Target=\"Seq.fdseq\"/>\
        </Relationships>";
    const CORE: &str = "<?xml version=\"1.0\"?><!DOCTYPE x [<!ENTITY b \"bomb\">]><cp:coreProperties \
        xmlns:cp=\"c\" xmlns:dc=\"d\"><dc:creator>Ann</dc:creator><dc:title>Boat &amp; &b;hull</dc:title>\
        </cp:coreProperties>";
    const SEQUENCE: &str = "<FixedDocumentSequence><DocumentReference Source=\"Documents/1/Doc.fdoc\"/>\
        </FixedDocumentSequence>";
    const PAGES: &str = "<FixedDocument><PageContent Source=\"Pages/1.fpage\"/>\
        <PageContent Source=\"/Documents/1/Pages/2.fpage\"><PageContent.LinkTargets/></PageContent></FixedDocument>";
    const ONE: &str = "<FixedPage Width=\"800\" Height=\"1000\"><Glyphs UnicodeString=\"The hull is blue.\" \
        OriginX=\"50\" OriginY=\"100\" FontRenderingEmSize=\"12\"/></FixedPage>";
    const TWO: &str = "<FixedPage Width=\"800\" Height=\"1000\"><Glyphs UnicodeString=\"The keel &x; is long.\" \
        OriginX=\"50\" OriginY=\"100\" FontRenderingEmSize=\"12\"/></FixedPage>";

    fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let deflated = SimpleFileOptions::default();
        for (name, bytes) in files {
            writer.start_file(*name, deflated).expect("an entry");
            writer.write_all(bytes).expect("written");
        }
        writer.finish().expect("written").into_inner()
    }

    fn package(one: &[u8], two: &[u8]) -> Vec<u8> {
        zipped(&[
            ("_rels/.rels", RELATIONS.as_bytes()),
            ("docProps/core.xml", CORE.as_bytes()),
            ("Seq.fdseq", SEQUENCE.as_bytes()),
            ("Documents/1/Doc.fdoc", PAGES.as_bytes()),
            ("Documents/1/Pages/1.FPAGE", one),
            ("Documents/1/Pages/2.fpage/[0].piece", &two[..40]),
            ("Documents/1/Pages/2.fpage/[1].last.piece", &two[40..]),
        ])
    }

    fn read(bytes: &[u8]) -> ParseOutcome {
        super::super::parse("x.oxps", FileKind::Document, bytes, &mut Shares::tried())
            .expect("a reader for it")
    }

    fn parsed(bytes: &[u8]) -> Document {
        let outcome = read(bytes);
        let ParseOutcome::Parsed(document) = outcome else { panic!("{outcome:?}") };
        document
    }

    fn places(document: &Document) -> Vec<(&str, String)> {
        let of = |it: &'_ Block| it.location.to_string();
        document.blocks.iter().map(|it| (it.text.as_str(), of(it))).collect()
    }

    #[test]
    fn pages_are_read_in_the_order_of_the_document_whatever_their_parts_are_called() {
        let wide: Vec<u8> =
            std::iter::once(0xFEFF).chain(ONE.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        for one in [ONE.as_bytes(), &wide] {
            let document = parsed(&package(one, TWO.as_bytes()));
            assert_eq!(document.title.as_deref(), Some("Boat & hull"));
            assert_eq!(
                places(&document),
                [
                    ("The hull is blue.", "page 1".to_owned()),
                    ("The keel &x; is long.", "page 2".to_owned()),
                ]
            );
            assert!(document.warnings.is_empty(), "{:?}", document.warnings);
        }
    }

    #[test]
    fn a_page_that_is_cut_or_missing_is_told_and_the_others_keep_their_numbers() {
        let cut = parsed(&package(&ONE.as_bytes()[..ONE.len() - 12], TWO.as_bytes()));
        assert_eq!(places(&cut).len(), 2);
        assert_eq!(cut.warnings.len(), 1, "{:?}", cut.warnings);
        let without = zipped(&[
            ("Seq.fdseq", SEQUENCE.as_bytes()),
            ("Documents/1/Doc.fdoc", PAGES.as_bytes()),
            ("Documents/1/Pages/2.fpage", TWO.as_bytes()),
        ]);
        let document = parsed(&without);
        assert_eq!(places(&document), [("The keel &x; is long.", "page 2".to_owned())]);
        assert!(document.warnings[0].contains("Pages/1.fpage"), "{:?}", document.warnings);
        assert_eq!(document.title, None);
    }

    #[test]
    fn hostile_packages_end_with_a_reason() {
        let whole = package(ONE.as_bytes(), TWO.as_bytes());
        for bytes in [&b""[..], b"PK\x03\x04", b"plain text", &whole[..whole.len() / 2]] {
            assert!(matches!(read(bytes), ParseOutcome::Failed(_)));
        }
        let empty = zipped(&[("Seq.fdseq", SEQUENCE.as_bytes()), ("x.txt", b"no pages")]);
        assert!(matches!(read(&empty), ParseOutcome::Failed(_)));
        // A page that is a bomb, and a document that names one page over and over.
        let zeros = vec![b' '; 65 << 20];
        let bomb = parsed(&package(&zeros, TWO.as_bytes()));
        assert_eq!(places(&bomb).len(), 1);
        assert!(bomb.warnings.iter().any(|it| it.contains("too much")), "{:?}", bomb.warnings);
        let again = "<PageContent Source=\"1.fpage\"/>".repeat(6000);
        let crowd = zipped(&[
            ("Seq.fdseq", b"<S><DocumentReference Source=\"d.fdoc\"/></S>"),
            ("d.fdoc", format!("<D>{again}</D>").as_bytes()),
            ("1.fpage", ONE.as_bytes()),
        ]);
        let document = parsed(&crowd);
        assert!(document.blocks.len() < 5001);
        assert!(
            document.warnings.iter().any(|it| it.contains("too many")),
            "{:?}",
            document.warnings
        );
        // Pages of nothing but pictures.
        let page = b"<FixedPage Width=\"8\" Height=\"9\"><Path Data=\"M 0,0\"/></FixedPage>      ";
        assert!(matches!(read(&package(page, page)), ParseOutcome::NoText(_)));
    }
}
