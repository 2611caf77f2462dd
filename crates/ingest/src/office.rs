//! PDF, office, HTML, mail and book formats: docling's document tree made into blocks.

use docling::{DocumentConverter, ImageSources, InputFormat, Node, SourceDocument, Table};
use riddle_types::{Block, BlockKind, Document, FileKind, Location};

use crate::{
    outcome::ParseOutcome,
    remark::Remark,
    sheet,
    shown::{MOST_SHOWN, See},
    table::numeric,
};

/// Parses `bytes`; `name` gives the extension.
pub(crate) fn parse(name: &str, kind: FileKind, bytes: Vec<u8>) -> ParseOutcome {
    parse_with(name, kind, bytes, &mut |_, _, _| {})
}

/// [`parse`], and shows every picture, in the order of reading; they are counted from 1.
// Long: a list of formats, and what is asked of each.
pub(crate) fn parse_with(name: &str, kind: FileKind, bytes: Vec<u8>, see: See<'_>) -> ParseOutcome {
    let extension = name.rsplit('.').next().unwrap_or("").to_ascii_lowercase();
    let sheets =
        (kind == FileKind::Spreadsheet).then(|| sheet::parse(&extension, &bytes)).flatten();
    if let Some(outcome) = sheets {
        if matches!(outcome, ParseOutcome::Parsed(_)) {
            sheet::pictures(&extension, &bytes, see);
        }
        return outcome;
    }
    let by_kind = match kind {
        FileKind::Pdf => Some(InputFormat::Pdf),
        FileKind::Html => match extension.as_str() {
            "mhtml" | "mht" | "rss" | "atom" => InputFormat::from_extension(&extension),
            _ => Some(InputFormat::Html),
        },
        _ => InputFormat::from_extension(&extension),
    };
    let Some(format) = by_kind else {
        return ParseOutcome::Unsupported(Remark::NoParserFor { ending: extension }.into());
    };
    // Its sheets are read like a text here, and their pictures are not.
    let sheets = kind == FileKind::Spreadsheet && sheet::has_pictures(&extension);
    let workbook = sheets.then(|| bytes.clone());
    let source = SourceDocument::from_bytes(name, format, bytes);
    let converter = converter(kind);
    let metadata = converter.document_metadata(&source);
    let result = match converter.convert(source) {
        Ok(result) => result,
        Err(error) if error.encryption().is_some() => {
            return ParseOutcome::Failed(Remark::Password.into());
        }
        Err(error) => {
            let why = error.to_string();
            return if why.contains("no embedded text layer") {
                ParseOutcome::NoText(Remark::ProbablyScan.into())
            } else {
                let why = why.strip_prefix("parse error: ").unwrap_or(&why);
                ParseOutcome::Failed(Remark::Unparsed(why.to_owned()).into())
            };
        }
    };
    let slides = match extension.as_str() {
        "odp" | "fodp" => Slides::Titles,
        _ => Slides::Breaks,
    };
    let paged = matches!(format, InputFormat::Pdf | InputFormat::Djvu);
    let place = Place { slides, paged, ..Place::default() };
    let mut walk = Walk::new(kind, place);
    walk.document.warnings = result.errors.iter().map(|it| it.error_message.clone()).collect();
    walk.nodes(&result.document.nodes);
    match workbook {
        Some(bytes) => sheet::pictures(&extension, &bytes, see),
        None => {
            for ((bytes, location), number) in walk.pictures.iter().zip(1..) {
                see(number, bytes, location);
            }
        }
    }
    let mut document = walk.document;
    if format == InputFormat::Djvu && document.blocks.is_empty() {
        return ParseOutcome::NoText(Remark::ProbablyScan.into());
    }
    document.title = match kind {
        // A book's first heading is that of a chapter.
        FileKind::Book => book_title(metadata.title.or(document.title), &metadata.authors),
        _ => document.title.or(metadata.title),
    };
    document.title = document.title.map(|it| it.trim().to_owned()).filter(|it| !it.is_empty());
    ParseOutcome::Parsed(document)
}

fn converter(kind: FileKind) -> DocumentConverter {
    /// Most bytes of one picture.
    const LARGEST: u64 = 32 << 20;
    /// Fewer bytes are no picture of text.
    const FEWEST: u64 = 1 << 10;
    let converter = DocumentConverter::new().text_layer_only(true).list_attachments(true);
    // Of a mail they are attachments. Nothing is looked for elsewhere, on disk or in the net.
    if !matches!(kind, FileKind::Html | FileKind::Book) {
        return converter;
    }
    converter
        .image_sources(ImageSources::Embedded)
        .max_image_total_mb(MOST_SHOWN >> 20)
        .max_image_bytes(LARGEST)
        .min_image_bytes(FEWEST)
}

/// What a book is called: its title and who wrote it, so that every passage is found by both.
pub(crate) fn book_title(title: Option<String>, authors: &[String]) -> Option<String> {
    /// Most authors that are named.
    const MOST: usize = 3;
    /// Most letters of one.
    const LONGEST: usize = 100;
    let title = title.as_deref().map(one_line).filter(|it| !it.is_empty())?;
    let mut named: Vec<String> = Vec::new();
    for author in authors {
        let author: String = one_line(author).chars().take(LONGEST).collect();
        // Programs that make books write this where they know nobody.
        let nobody = author.is_empty() || author.eq_ignore_ascii_case("unknown");
        if !nobody && !named.contains(&author) && !title.contains(&author) {
            named.push(author);
        }
    }
    if named.len() > MOST {
        named.truncate(MOST);
        named.push("et al.".to_owned());
    }
    Some(if named.is_empty() { title } else { format!("{title} ({})", named.join(", ")) })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Where the walk stands.
#[derive(Default)]
struct Place {
    page: u32,
    /// Its pages are numbered.
    paged: bool,
    /// Slides behind the one that is read.
    slide: u32,
    /// How the beginning of a slide is told.
    slides: Slides,
    paragraph: u32,
}

/// What begins a slide in what docling gives.
#[derive(Default, PartialEq)]
enum Slides {
    /// A break between two of them.
    #[default]
    Breaks,
    /// A group that has its number; the break stands behind it.
    Groups,
    /// Its title: every slide has one, if need be its name.
    Titles,
}

struct Walk<'a> {
    kind: FileKind,
    place: Place,
    headings: Vec<(u8, String)>,
    document: Document,
    pictures: Vec<(&'a [u8], Location)>,
}

impl<'a> Walk<'a> {
    fn new(kind: FileKind, place: Place) -> Walk<'a> {
        let (headings, pictures) = (Vec::new(), Vec::new());
        Walk { kind, place, headings, document: Document::default(), pictures }
    }

    fn nodes(&mut self, nodes: &'a [Node]) {
        for node in nodes {
            self.node(node);
        }
    }

    // Long: one arm for each kind of node.
    fn node(&mut self, node: &'a Node) {
        match node {
            Node::Heading { level, text } => self.heading(*level, text),
            Node::Paragraph { text }
            | Node::LabeledText { text, .. }
            | Node::ListText { text, .. } => {
                self.push(BlockKind::Paragraph, &plain(text));
            }
            Node::InlineGroup { md_text, .. } => {
                self.push(BlockKind::Paragraph, &tightened(&plain(md_text)))
            }
            Node::CheckboxItem { text, .. } | Node::ListItem { text, .. } => {
                self.push(BlockKind::ListItem, &plain(text));
            }
            Node::Code { text, pretty, .. } => {
                self.push(BlockKind::Code, pretty.as_ref().unwrap_or(text))
            }
            Node::Caption { text, .. } => self.push(BlockKind::Paragraph, &plain(text)),
            Node::Formula { orig, latex, .. } => {
                self.push(BlockKind::Paragraph, if orig.is_empty() { latex } else { orig });
            }
            Node::Table(table) => self.table(table),
            Node::Chart { table, caption, .. } => {
                if let Some(caption) = caption {
                    self.push(BlockKind::Paragraph, &plain(caption));
                }
                self.table(table);
            }
            Node::Picture { caption, description, image, .. } => {
                if let Some(image) = image {
                    self.pictures.push((&image.data, self.location()));
                }
                if let Some(caption) = caption {
                    self.push(BlockKind::Paragraph, &plain(caption));
                }
                if let Some(description) = description {
                    self.push(BlockKind::Paragraph, &description.text);
                }
            }
            Node::Group { children, name, .. } => {
                let number = name.as_deref().and_then(|it| it.strip_prefix("slide-")?.parse().ok());
                if let Some(number) = number.filter(|_| self.kind == FileKind::Presentation) {
                    self.place.slide = number;
                    self.place.slides = Slides::Groups;
                }
                self.nodes(children);
            }
            Node::PictureChildren(children) => self.nodes(children),
            // The title of an HTML page is furniture; navigation and page headers are not text to find.
            Node::Furniture { inner, .. } => {
                if self.document.title.is_none()
                    && let Node::Heading { text, .. } | Node::Paragraph { text } = &**inner
                    && self.kind == FileKind::Html
                    && self.document.blocks.is_empty()
                {
                    self.document.title = Some(plain(text));
                }
            }
            Node::CommentSection { text, .. } => self.push(BlockKind::Paragraph, &plain(text)),
            Node::Commented { inner, .. }
            | Node::Located { inner, .. }
            | Node::Track { inner, .. } => self.node(inner),
            Node::Prov { page_no, inner, .. } => {
                self.place.page = *page_no as u32;
                self.node(inner);
            }
            Node::PageInfo { page_no, .. } => self.place.page = *page_no as u32,
            Node::PageBreak if self.place.slides == Slides::Breaks => self.place.slide += 1,
            Node::FieldRegion { items } => {
                for item in items {
                    let parts = [&item.marker, &item.key, &item.value];
                    let text: Vec<&str> = parts.iter().filter_map(|it| it.as_deref()).collect();
                    self.push(BlockKind::Paragraph, &plain(&text.join(" ")));
                }
            }
            // Page furniture repeats on every page; graphs and anchors are not text.
            _ => {}
        }
    }

    fn heading(&mut self, level: u8, text: &str) {
        let text = plain(text);
        if text.trim().is_empty() {
            return;
        }
        // A mail's subject is its only heading of the first level; others name what is attached.
        let titles = self.kind != FileKind::Pdf && (self.kind != FileKind::Mail || level == 1);
        if self.document.title.is_none() && titles {
            self.document.title = Some(text.clone());
        }
        if self.place.slides == Slides::Titles && level == 1 {
            // The first title is that of the first slide.
            self.place.slide += u32::from(!self.document.blocks.is_empty());
        }
        self.headings.retain(|(outer, _)| *outer < level);
        self.headings.push((level, text.clone()));
        self.push(BlockKind::Heading(level), &text);
    }

    /// A table, a row on each line; the first row stands above every part if the table has to be cut.
    fn table(&mut self, table: &Table) {
        if let Some(caption) = &table.caption {
            self.push(BlockKind::Paragraph, &plain(caption));
        }
        let line = |cells: &Vec<String>| {
            cells.iter().map(|it| plain(it).replace('\n', " ")).collect::<Vec<_>>().join(" | ")
        };
        let lines: Vec<String> = table.rows.iter().map(line).collect();
        let (header, lines) = match lines.split_first() {
            Some((first, rest)) if !rest.is_empty() && !numeric(first) => (first.clone(), rest),
            _ => (String::new(), lines.as_slice()),
        };
        let text = lines.join("\n");
        // A form that nobody has filled in is its names.
        let (text, header) = if text.chars().any(char::is_alphanumeric) {
            (text, header)
        } else {
            (header, String::new())
        };
        if !text.chars().any(char::is_alphanumeric) {
            return;
        }
        self.place.paragraph += 1;
        let kind = if numeric(&text) { BlockKind::Numbers } else { BlockKind::Table };
        self.document.blocks.push(Block { kind, text, location: self.location(), header });
    }

    fn push(&mut self, kind: BlockKind, text: &str) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        self.place.paragraph += 1;
        let location = self.location();
        self.document.blocks.push(Block::new(kind, text.to_owned(), location));
    }

    fn location(&self) -> Location {
        match self.kind {
            _ if self.place.paged => {
                let page = self.place.page.max(1);
                Location::Page { start: page, end: page }
            }
            FileKind::Presentation => Location::Slide { number: self.place.slide + 1 },
            FileKind::Mail => {
                Location::Message { part: "body".to_owned(), paragraph: self.place.paragraph }
            }
            _ => Location::Section {
                path: self.headings.iter().map(|(_, text)| text.clone()).collect(),
                // A picture may stand before the first one.
                paragraph: self.place.paragraph.max(1),
            },
        }
    }
}

/// Without the spaces that docling puts between runs of different style before a punctuation mark.
fn tightened(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '.' | ',' | ';' | ':' | '!' | '?' | ')') && out.ends_with(' ') {
            out.pop();
        }
        out.push(c);
    }
    out
}

/// Text without Markdown's marks: docling writes emphasis, links and escapes into its texts.
fn plain(markdown: &str) -> String {
    let mut out = String::with_capacity(markdown.len());
    let mut rest = markdown;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("**").or_else(|| rest.strip_prefix("~~")) {
            rest = after;
            continue;
        }
        if c == '\\'
            && let Some(escaped) = rest[1..].chars().next().filter(char::is_ascii_punctuation)
        {
            out.push(escaped);
            rest = &rest[1 + escaped.len_utf8()..];
            continue;
        }
        if c == '['
            && let Some((text, after)) = link(rest)
        {
            out.push_str(&plain(text));
            rest = after;
            continue;
        }
        if c == '&'
            && let Some((entity, value)) =
                [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>'), ("&quot;", '"')]
                    .into_iter()
                    .find(|(entity, _)| rest.starts_with(entity))
        {
            out.push(value);
            rest = &rest[entity.len()..];
            continue;
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// The text of a `[text](target)` at the start, and what follows it.
fn link(markdown: &str) -> Option<(&str, &str)> {
    let close = markdown.find("](")?;
    let text = &markdown[1..close];
    // Longer ones are not links but brackets that happen to meet.
    const LONGEST: usize = 2000;
    if text.len() > LONGEST || text.contains('\n') || text.contains('[') {
        return None;
    }
    let target = &markdown[close + 2..];
    let end = target.find(')')?;
    (!target[..end].contains(char::is_whitespace)).then(|| (text, &target[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_marks_are_taken_off() {
        assert_eq!(
            plain("**Bold** and [a link](http://x) &amp; 5 \\* 3 \\_ok"),
            "Bold and a link & 5 * 3 _ok"
        );
        assert_eq!(plain("a[0] (b) [x] C:\\new"), "a[0] (b) [x] C:\\new");
    }

    #[test]
    fn html_becomes_blocks_with_sections() {
        let html = b"<html><head><title>Boat</title></head><body><h1>Hull</h1><p>It is <b>blue</b>.</p><h2>Keel</h2><ul><li>long</li></ul><table><tr><th>a</th></tr><tr><td>7</td></tr></table></body></html>";
        let ParseOutcome::Parsed(document) = parse("x.html", FileKind::Html, html.to_vec()) else {
            panic!("parses")
        };
        let texts: Vec<(&str, String)> =
            document.blocks.iter().map(|it| (it.text.as_str(), it.location.to_string())).collect();
        assert!(texts.contains(&("It is blue.", "Hull, paragraph 2".to_owned())), "{texts:?}");
        assert!(
            texts.iter().any(|it| it.0 == "long" && it.1.starts_with("Hull › Keel")),
            "{texts:?}"
        );
        assert!(texts.iter().any(|it| it.0.contains('7')), "{texts:?}");
        assert_eq!(document.title.as_deref(), Some("Boat"));
    }

    #[test]
    fn mail_becomes_subject_and_body() {
        let mail = b"From: Ann <ann@example.org>\r\nTo: Ben <ben@example.org>\r\nSubject: Dry dock\r\nDate: Mon, 2 Mar 2026 10:00:00 +0000\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nThe dock is booked for March.\r\n";
        let ParseOutcome::Parsed(document) = parse("x.eml", FileKind::Mail, mail.to_vec()) else {
            panic!("parses")
        };
        let text: Vec<&str> = document.blocks.iter().map(|it| it.text.as_str()).collect();
        assert!(text.iter().any(|it| it.contains("booked for March")), "{text:?}");
        assert!(
            document.title.as_deref().is_some_and(|it| it.contains("Dry dock")),
            "{:?} {text:?}",
            document.title
        );
    }

    /// A book whose only chapter is named, with this in its metadata.
    fn epub(metadata: &str) -> Vec<u8> {
        let files = [
            (
                "META-INF/container.xml",
                "<container><rootfiles><rootfile full-path=\"b.opf\"/></rootfiles></container>"
                    .to_owned(),
            ),
            (
                "b.opf",
                format!(
                    "<package xmlns:dc=\"http://purl.org/dc/elements/1.1/\"><metadata>{metadata}</metadata>\
                     <manifest><item id=\"a\" href=\"a.xhtml\" media-type=\"application/xhtml+xml\"/></manifest>\
                     <spine><itemref idref=\"a\"/></spine></package>"
                ),
            ),
            (
                "a.xhtml",
                "<html><head><title>Chapter One</title></head><body><h1>Chapter One</h1>\
                 <p>Agnes kept the lamp.</p></body></html>"
                    .to_owned(),
            ),
        ];
        let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, text) in files {
            let options = zip::write::SimpleFileOptions::default();
            archive.start_file(name, options).expect("a file");
            std::io::Write::write_all(&mut archive, text.as_bytes()).expect("its text");
        }
        archive.finish().expect("an archive").into_inner()
    }

    #[test]
    fn a_book_is_called_by_its_title_and_author_and_not_by_its_first_chapter() {
        let title = |metadata: &str| {
            let outcome = parse("x.epub", FileKind::Book, epub(metadata));
            let ParseOutcome::Parsed(document) = outcome else { panic!("{outcome:?}") };
            let path = document.blocks.iter().map(|it| it.location.to_string()).next_back();
            assert_eq!(path.as_deref(), Some("Chapter One, paragraph 2"));
            document.title.unwrap_or_default()
        };
        let lamp = "<dc:title>The Lamp\n at Skerry</dc:title>";
        let rowe = "<dc:creator>Agnes Rowe</dc:creator>";
        assert_eq!(title(&format!("{lamp}{rowe}")), "The Lamp at Skerry (Agnes Rowe)");
        assert_eq!(title(lamp), "The Lamp at Skerry");
        assert_eq!(title(""), "Chapter One");
    }

    #[test]
    fn few_authors_of_a_book_are_named_and_each_once() {
        let title = |title: &str, authors: &[&str]| {
            let authors: Vec<String> = authors.iter().map(|it| (*it).to_owned()).collect();
            book_title(Some(title.to_owned()), &authors).unwrap_or_default()
        };
        assert_eq!(title("Knots", &["Ann", "Ben", "Ann"]), "Knots (Ann, Ben)");
        assert_eq!(title("Knots", &["A B", "C D", "E F", "G H"]), "Knots (A B, C D, E F, et al.)");
        assert_eq!(title("Knots by Ann", &["Ann", "Unknown", " "]), "Knots by Ann");
        assert_eq!(book_title(Some(" ".to_owned()), &["Ann".to_owned()]), None);
    }

    /// A chunk of a DjVu file.
    fn chunk(name: &[u8], body: &[u8]) -> Vec<u8> {
        let mut bytes = name.to_vec();
        bytes.extend((body.len() as u32).to_be_bytes());
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(2), 0);
        bytes
    }

    /// A page of a DjVu file: its size, and its text, not packed.
    fn djvu_page(text: &str) -> Vec<u8> {
        let mut page = b"DJVU".to_vec();
        page.extend(chunk(b"INFO", &[0, 100, 0, 100, 24, 0, 44, 1, 22, 1]));
        if !text.is_empty() {
            let mut layer = (text.len() as u32).to_be_bytes()[1..].to_vec();
            layer.extend(text.as_bytes());
            layer.push(1);
            page.extend(chunk(b"TXTa", &layer));
        }
        chunk(b"FORM", &page)
    }

    fn djvu(pages: &[&str]) -> Vec<u8> {
        let mut directory = vec![0x81];
        directory.extend((pages.len() as u16).to_be_bytes());
        // Behind the file's own head and that of the directory, which is as long as this.
        let start = 16 + 8 + (3 + 4 * pages.len()).next_multiple_of(2);
        let mut forms = Vec::new();
        for page in pages {
            directory.extend(((start + forms.len()) as u32).to_be_bytes());
            forms.extend(djvu_page(page));
        }
        let mut body = b"DJVM".to_vec();
        body.extend(chunk(b"DIRM", &directory));
        body.extend(forms);
        [b"AT&T".to_vec(), chunk(b"FORM", &body)].concat()
    }

    #[test]
    fn pages_of_djvu_files_are_pages() {
        for name in ["x.djvu", "x.djv"] {
            let bytes = djvu(&["The hull is blue.", "", "The keel is long.\n\nAnd old."]);
            let outcome = parse(name, FileKind::Document, bytes);
            let ParseOutcome::Parsed(document) = outcome else { panic!("{outcome:?}") };
            let seen: Vec<(&str, String)> = document
                .blocks
                .iter()
                .map(|it| (it.text.as_str(), it.location.to_string()))
                .collect();
            assert_eq!(
                seen,
                [
                    ("The hull is blue.", "page 1".to_owned()),
                    ("The keel is long.", "page 3".to_owned()),
                    ("And old.", "page 3".to_owned()),
                ]
            );
        }
        let scan = parse("x.djvu", FileKind::Document, djvu(&["", ""]));
        assert!(matches!(scan, ParseOutcome::NoText(why) if why.contains("scan")));
    }

    #[test]
    fn damaged_files_fail_with_a_reason() {
        for (name, kind) in [
            ("x.docx", FileKind::Document),
            ("x.pdf", FileKind::Pdf),
            ("x.xlsx", FileKind::Spreadsheet),
            ("x.djvu", FileKind::Document),
        ] {
            assert!(
                matches!(parse(name, kind, b"PK\x03\x04 no archive".to_vec()), ParseOutcome::Failed(why) if !why.is_empty())
            );
        }
    }
}
