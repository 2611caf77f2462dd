//! Office documents, books and PDFs, made of plain sources: what a person would have to open a program for can be read
//! and changed as text.
//!
//! A source is `NAME.EXTENSION.txt`. Lines that begin with `#` are headings, `---` begins a slide, a page or a chapter,
//! `== Name` a sheet, and `a | b` is a row of a table.

use crate::corpus::{archive, workbook};

/// The document that a source stands for, by the extension before `.txt`.
///
/// # Panics
/// When there is no way to make such a file.
pub fn document(extension: &str, source: &str) -> Vec<u8> {
    match extension {
        "docx" => docx(source),
        "odt" => open_document("text", &flowing(source)),
        "odp" => open_document("presentation", &slides(source)),
        "ods" => open_document("spreadsheet", &sheets(source)),
        "pptx" => pptx(source),
        "xlsx" => xlsx(source),
        "epub" => epub(source),
        "pdf" => pdf(source),
        "latin1" => source.chars().map(|it| u8::try_from(it).expect("a Latin letter")).collect(),
        other => panic!("nobody makes .{other} files of a source"),
    }
}

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";

/// A line of a source.
enum Line<'a> {
    Heading(usize, &'a str),
    Row(Vec<&'a str>),
    Text,
}

fn line(text: &str) -> Line<'_> {
    let level = text.bytes().take_while(|it| *it == b'#').count();
    if level > 0 {
        Line::Heading(level, text[level..].trim())
    } else if text.contains(" | ") {
        Line::Row(text.trim_matches(['|', ' ']).split(" | ").collect())
    } else {
        Line::Text
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn parts(source: &str) -> Vec<&str> {
    source.split("\n---\n").collect()
}

/// An archive of texts.
fn packed(files: &[(String, String)]) -> Vec<u8> {
    let files: Vec<(&str, &[u8])> =
        files.iter().map(|(name, text)| (name.as_str(), text.as_bytes())).collect();
    archive(&files)
}

fn file(name: &str, text: String) -> (String, String) {
    (name.to_owned(), text)
}

const RELATIONS: &str = "http://schemas.openxmlformats.org/package/2006/relationships";
const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";

/// Relations of a part: an id, the last word of the kind, and the target for each.
fn relations(all: &[(String, &str, String)]) -> String {
    let each = |(id, kind, target): &(String, &str, String)| {
        format!("<Relationship Id=\"{id}\" Type=\"{OFFICE}/{kind}\" Target=\"{target}\"/>")
    };
    let all: String = all.iter().map(each).collect();
    format!("{HEAD}<Relationships xmlns=\"{RELATIONS}\">{all}</Relationships>")
}

/// Types of the parts of a package.
fn types(parts: &[(String, &str)]) -> String {
    let each = |(name, kind): &(String, &str)| {
        format!(
            "<Override PartName=\"/{name}\" ContentType=\"application/vnd.openxmlformats-officedocument.{kind}+xml\"/>"
        )
    };
    let all: String = parts.iter().map(each).collect();
    format!(
        "{HEAD}<Types xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\">\
         <Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>\
         <Default Extension=\"xml\" ContentType=\"application/xml\"/>{all}</Types>"
    )
}

fn docx(source: &str) -> Vec<u8> {
    const MAIN: &str = "http://schemas.openxmlformats.org/wordprocessingml/2006/main";
    let run = |text: &str| format!("<w:r><w:t>{}</w:t></w:r>", escaped(text));
    let mut body = String::new();
    let mut table = String::new();
    for text in source.lines() {
        if let Line::Row(cells) = line(text) {
            let cell = |it: &&str| format!("<w:tc><w:p>{}</w:p></w:tc>", run(it));
            let cells: String = cells.iter().map(cell).collect();
            table.push_str(&format!("<w:tr>{cells}</w:tr>"));
            continue;
        }
        if !table.is_empty() {
            body.push_str(&format!("<w:tbl>{}</w:tbl>", std::mem::take(&mut table)));
        }
        match line(text) {
            Line::Heading(level, text) => body.push_str(&format!(
                "<w:p><w:pPr><w:pStyle w:val=\"Heading{level}\"/></w:pPr>{}</w:p>",
                run(text)
            )),
            _ => body.push_str(&format!("<w:p>{}</w:p>", run(text))),
        }
    }
    if !table.is_empty() {
        body.push_str(&format!("<w:tbl>{table}</w:tbl>"));
    }
    let style = |level: usize| {
        format!(
            "<w:style w:type=\"paragraph\" w:styleId=\"Heading{level}\"><w:name w:val=\"heading {level}\"/>\
             <w:pPr><w:outlineLvl w:val=\"{}\"/></w:pPr></w:style>",
            level - 1
        )
    };
    let styles: String = (1..=3).map(style).collect();
    let part = |it: &str| format!("word/{it}.xml");
    packed(&[
        file(
            "[Content_Types].xml",
            types(&[
                (part("document"), "wordprocessingml.document.main"),
                (part("styles"), "wordprocessingml.styles"),
            ]),
        ),
        file(
            "_rels/.rels",
            relations(&[("a".to_owned(), "officeDocument", "word/document.xml".to_owned())]),
        ),
        file(
            "word/_rels/document.xml.rels",
            relations(&[("s".to_owned(), "styles", "styles.xml".to_owned())]),
        ),
        file("word/styles.xml", format!("{HEAD}<w:styles xmlns:w=\"{MAIN}\">{styles}</w:styles>")),
        file(
            "word/document.xml",
            format!("{HEAD}<w:document xmlns:w=\"{MAIN}\"><w:body>{body}</w:body></w:document>"),
        ),
    ])
}

fn pptx(source: &str) -> Vec<u8> {
    const MAIN: &str = "http://schemas.openxmlformats.org/presentationml/2006/main";
    const DRAWING: &str = "http://schemas.openxmlformats.org/drawingml/2006/main";
    let shape = |id: usize, kind: &str, lines: &[&str]| {
        let paragraph = |it: &&str| format!("<a:p><a:r><a:t>{}</a:t></a:r></a:p>", escaped(it));
        let text: String = lines.iter().map(paragraph).collect();
        format!(
            "<p:sp><p:nvSpPr><p:cNvPr id=\"{id}\" name=\"s{id}\"/><p:cNvSpPr/><p:nvPr><p:ph type=\"{kind}\"/></p:nvPr>\
             </p:nvSpPr><p:spPr/><p:txBody><a:bodyPr/>{text}</p:txBody></p:sp>"
        )
    };
    let mut files = Vec::new();
    let (mut ids, mut listed, mut kinds) = (String::new(), Vec::new(), Vec::new());
    for (number, slide) in (1..).zip(parts(source)) {
        let lines: Vec<&str> = slide.lines().collect();
        let title = lines[0].trim_start_matches(['#', ' ']);
        let shapes = shape(2, "title", &[title]) + &shape(3, "body", &lines[1..]);
        files.push(file(
            &format!("ppt/slides/slide{number}.xml"),
            format!(
                "{HEAD}<p:sld xmlns:p=\"{MAIN}\" xmlns:a=\"{DRAWING}\" xmlns:r=\"{OFFICE}\"><p:cSld><p:spTree>\
                 <p:nvGrpSpPr><p:cNvPr id=\"1\" name=\"\"/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>{shapes}\
                 </p:spTree></p:cSld></p:sld>"
            ),
        ));
        ids.push_str(&format!("<p:sldId id=\"{}\" r:id=\"r{number}\"/>", 255 + number));
        listed.push((format!("r{number}"), "slide", format!("slides/slide{number}.xml")));
        kinds.push((format!("ppt/slides/slide{number}.xml"), "presentationml.slide"));
    }
    kinds.push(("ppt/presentation.xml".to_owned(), "presentationml.presentation.main"));
    files.extend([
        file("[Content_Types].xml", types(&kinds)),
        file(
            "_rels/.rels",
            relations(&[("a".to_owned(), "officeDocument", "ppt/presentation.xml".to_owned())]),
        ),
        file("ppt/_rels/presentation.xml.rels", relations(&listed)),
        file(
            "ppt/presentation.xml",
            format!(
                "{HEAD}<p:presentation xmlns:p=\"{MAIN}\" xmlns:r=\"{OFFICE}\"><p:sldIdLst>{ids}</p:sldIdLst>\
                 <p:sldSz cx=\"9144000\" cy=\"6858000\"/></p:presentation>"
            ),
        ),
    ]);
    packed(&files)
}

/// Names of the sheets of a source, with their rows.
fn tables(source: &str) -> Vec<(&str, Vec<Vec<&str>>)> {
    let mut sheets: Vec<(&str, Vec<Vec<&str>>)> = Vec::new();
    for text in source.lines() {
        match (text.strip_prefix("== "), sheets.last_mut()) {
            (Some(name), _) => sheets.push((name, Vec::new())),
            (None, Some(sheet)) => sheet.1.push(text.split(" | ").collect()),
            (None, None) => panic!("a row before the name of its sheet"),
        }
    }
    sheets
}

fn xlsx(source: &str) -> Vec<u8> {
    let tables = tables(source);
    let rows: Vec<Vec<&[&str]>> =
        tables.iter().map(|it| it.1.iter().map(Vec::as_slice).collect()).collect();
    let sheets: Vec<(&str, &[&[&str]])> =
        tables.iter().zip(&rows).map(|(table, rows)| (table.0, rows.as_slice())).collect();
    workbook(&sheets)
}

/// The body of an open document: text, slides or sheets, in the elements that the three have in common.
fn open_document(kind: &str, body: &str) -> Vec<u8> {
    let mime = format!("application/vnd.oasis.opendocument.{kind}");
    let name = "urn:oasis:names:tc:opendocument:xmlns:";
    let spaces: String = ["office", "text", "table", "draw", "presentation"]
        .iter()
        .map(|it| {
            let urn = if *it == "draw" { "drawing" } else { it };
            format!(" xmlns:{it}=\"{name}{urn}:1.0\"")
        })
        .collect();
    packed(&[
        file("mimetype", mime.clone()),
        file(
            "META-INF/manifest.xml",
            format!(
                "{HEAD}<manifest:manifest xmlns:manifest=\"{name}manifest:1.0\"><manifest:file-entry \
                 manifest:full-path=\"/\" manifest:media-type=\"{mime}\"/><manifest:file-entry \
                 manifest:full-path=\"content.xml\" manifest:media-type=\"text/xml\"/></manifest:manifest>"
            ),
        ),
        file(
            "content.xml",
            format!(
                "{HEAD}<office:document-content{spaces} office:version=\"1.3\"><office:body><office:{kind}>{body}\
                 </office:{kind}></office:body></office:document-content>"
            ),
        ),
    ])
}

fn flowing(source: &str) -> String {
    let one = |text: &str| match line(text) {
        Line::Heading(level, text) => {
            format!("<text:h text:outline-level=\"{level}\">{}</text:h>", escaped(text))
        }
        _ => format!("<text:p>{}</text:p>", escaped(text)),
    };
    source.lines().map(one).collect()
}

fn slides(source: &str) -> String {
    let frame = |class: &str, text: &str| {
        format!(
            "<draw:frame presentation:class=\"{class}\"><draw:text-box>{}</draw:text-box></draw:frame>",
            text.lines().map(|it| format!("<text:p>{}</text:p>", escaped(it))).collect::<String>()
        )
    };
    let slide = |text: &str| {
        let (title, rest) = text.split_once('\n').unwrap_or((text, ""));
        let title = frame("title", title.trim_start_matches(['#', ' ']));
        format!("<draw:page>{title}{}</draw:page>", frame("outline", rest))
    };
    parts(source).into_iter().map(slide).collect()
}

fn sheets(source: &str) -> String {
    let cell = |it: &&str| {
        let value = if it.parse::<f64>().is_ok() {
            format!("office:value-type=\"float\" office:value=\"{it}\"")
        } else {
            "office:value-type=\"string\"".to_owned()
        };
        format!("<table:table-cell {value}><text:p>{}</text:p></table:table-cell>", escaped(it))
    };
    let row = |it: &Vec<&str>| {
        let cells: String = it.iter().map(cell).collect();
        format!("<table:table-row>{cells}</table:table-row>")
    };
    let sheet = |(name, rows): (&str, Vec<Vec<&str>>)| {
        let rows: String = rows.iter().map(row).collect();
        format!("<table:table table:name=\"{name}\">{rows}</table:table>")
    };
    tables(source).into_iter().map(sheet).collect()
}

fn epub(source: &str) -> Vec<u8> {
    let mut files = vec![
        file("mimetype", "application/epub+zip".to_owned()),
        file(
            "META-INF/container.xml",
            format!(
                "{HEAD}<container version=\"1.0\" xmlns=\"urn:oasis:names:tc:opendocument:xmlns:container\"><rootfiles>\
                 <rootfile full-path=\"book.opf\" media-type=\"application/oebps-package+xml\"/></rootfiles></container>"
            ),
        ),
    ];
    let (mut items, mut order) = (String::new(), String::new());
    let mut title = "";
    for (number, chapter) in (1..).zip(parts(source)) {
        let one = |text: &str| match line(text) {
            Line::Heading(level, text) => format!("<h{level}>{}</h{level}>", escaped(text)),
            _ => format!("<p>{}</p>", escaped(text)),
        };
        let heading = chapter.lines().next().unwrap_or("").trim_start_matches(['#', ' ']);
        title = if number == 1 { heading } else { title };
        let body: String = chapter.lines().map(one).collect();
        files.push(file(
            &format!("chapter{number}.xhtml"),
            format!(
                "{HEAD}<html xmlns=\"http://www.w3.org/1999/xhtml\"><head><title>{}</title></head><body>{body}</body></html>",
                escaped(heading)
            ),
        ));
        items.push_str(&format!(
            "<item id=\"c{number}\" href=\"chapter{number}.xhtml\" media-type=\"application/xhtml+xml\"/>"
        ));
        order.push_str(&format!("<itemref idref=\"c{number}\"/>"));
    }
    files.push(file(
        "book.opf",
        format!(
            "{HEAD}<package xmlns=\"http://www.idpf.org/2007/opf\" version=\"3.0\" unique-identifier=\"id\">\
             <metadata xmlns:dc=\"http://purl.org/dc/elements/1.1/\"><dc:identifier id=\"id\">made</dc:identifier>\
             <dc:title>{}</dc:title><dc:language>en</dc:language></metadata><manifest>{items}</manifest>\
             <spine>{order}</spine></package>",
            escaped(title)
        ),
    ));
    packed(&files)
}

/// Pages of a PDF in Helvetica, cut into lines as a printer would.
fn pdf(source: &str) -> Vec<u8> {
    const WIDEST: usize = 84;
    let pages = parts(source);
    let kids: Vec<String> = (0..pages.len()).map(|it| format!("{} 0 R", 4 + it * 2)).collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), pages.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
            .to_owned(),
    ];
    for (page, at) in pages.iter().zip(0..) {
        let mut text = String::from("BT 1 0 0 1 72 770 Tm\n");
        for paragraph in page.lines() {
            let heading = matches!(line(paragraph), Line::Heading(..));
            let (size, paragraph) = if heading {
                (18, paragraph.trim_start_matches(['#', ' ']))
            } else {
                (11, paragraph)
            };
            text.push_str(&format!("/F {size} Tf 0 -12 Td\n"));
            for piece in wrapped(paragraph, WIDEST) {
                let piece = piece.replace('\\', "\\\\").replace('(', "\\(").replace(')', "\\)");
                text.push_str(&format!("0 -{} Td ({piece}) Tj\n", size + 3));
            }
        }
        text.push_str("ET");
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {} 0 R /Resources << /Font << /F 3 0 R >> >> >>",
            5 + at * 2
        ));
        // A letter is one byte in this encoding.
        let length = text.chars().count();
        objects.push(format!("<< /Length {length} >>\nstream\n{text}\nendstream"));
    }
    let mut out = String::from("%PDF-1.4\n");
    let mut places = Vec::new();
    for (object, number) in objects.iter().zip(1..) {
        places.push(out.chars().count());
        out.push_str(&format!("{number} 0 obj\n{object}\nendobj\n"));
    }
    let start = out.chars().count();
    out.push_str(&format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1));
    for place in places {
        out.push_str(&format!("{place:010} 00000 n \n"));
    }
    let size = objects.len() + 1;
    out.push_str(&format!("trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n"));
    out.chars().map(|it| u8::try_from(it).expect("a Latin letter")).collect()
}

fn wrapped(text: &str, widest: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("at least one line");
        if !last.is_empty() && last.len() + word.len() >= widest {
            lines.push(word.to_owned());
        } else {
            let space = if last.is_empty() { "" } else { " " };
            last.push_str(&format!("{space}{word}"));
        }
    }
    lines
}

/// An archive of the older kind, for tapes.
pub fn tape(files: &[(&str, &[u8])]) -> Vec<u8> {
    const BLOCK: usize = 512;
    let mut tape = Vec::new();
    for (name, bytes) in files {
        let mut header = [0_u8; BLOCK];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
        header[156] = b'0';
        header[148..156].copy_from_slice(b"        ");
        let sum: u32 = header.iter().map(|it| u32::from(*it)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        tape.extend(header);
        tape.extend(*bytes);
        tape.resize(tape.len().next_multiple_of(BLOCK), 0);
    }
    tape.extend([0; 2 * BLOCK]);
    tape
}
