// Long: one list of files of every format that holds pictures.
use std::io::{Cursor, Write as _};

use flate2::{Compression, Crc, write::ZlibEncoder};
use riddle_types::{Document, Location};

use super::*;
use crate::{
    look,
    protocol::{Request, VERSION},
    remark::Remark,
    worker,
};

/// A gray picture of noise; another for every seed.
fn png(width: u32, height: u32, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut points = ZlibEncoder::new(Vec::new(), Compression::fast());
    for _ in 0..height {
        let mut row = vec![0];
        row.extend((0..width).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        }));
        points.write_all(&row).expect("written");
    }
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut part = |kind: &[u8], bytes: &[u8]| {
        let all = [kind, bytes].concat();
        let mut sum = Crc::new();
        sum.update(&all);
        png.extend((bytes.len() as u32).to_be_bytes());
        png.extend(all);
        png.extend(sum.sum().to_be_bytes());
    };
    let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
    part(b"IHDR", &[size.as_slice(), &[8, 0, 0, 0, 0]].concat());
    part(b"IDAT", &points.finish().expect("written"));
    part(b"IEND", b"");
    png
}

fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        writer.start_file(*name, zip::write::SimpleFileOptions::default()).expect("an entry");
        writer.write_all(bytes).expect("written");
    }
    writer.finish().expect("written").into_inner()
}

/// A mail with a text, and files attached to it.
fn mail(subject: &str, files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut mail = format!(
        "From: Ann <ann@example.org>\nTo: ben@example.org\nSubject: {subject}\n\
         Date: Mon, 2 Mar 2026 10:00:00 +0000\nMIME-Version: 1.0\n\
         Content-Type: multipart/mixed; boundary=cut\n\n--cut\nContent-Type: text/plain\n\nHere it is.\n"
    );
    for (name, bytes) in files {
        let hex: String = bytes.iter().map(|it| format!("={it:02X}=\n")).collect();
        mail.push_str(&format!(
            "--cut\nContent-Type: application/octet-stream; name=\"{name}\"\n\
             Content-Disposition: attachment; filename=\"{name}\"\n\
             Content-Transfer-Encoding: quoted-printable\n\n{hex}\n"
        ));
    }
    mail.push_str("--cut--\n");
    mail.into_bytes()
}

fn request(name: &str, kind: FileKind, look: Option<u32>) -> Request {
    let (name, tools) = (name.to_owned(), Tools::default());
    Request { version: VERSION, name, kind, bytes: 0, second: false, seconds: 20, tools, look }
}

/// What a file says, and the numbers of its pictures.
fn read(name: &str, kind: FileKind, bytes: &[u8]) -> Reply {
    worker::parse(&request(name, kind, None), bytes.to_vec())
}

/// Says as the text of a picture which one it was given: so many bytes, of that page.
fn told(name: &str, _kind: FileKind, bytes: &[u8], page: u32, _tools: &Tools) -> Reply {
    let text = format!("{name}: {} bytes, {page}", bytes.len());
    let block = |kind| Block::new(kind, text.clone(), Location::Whole);
    let blocks = vec![block(BlockKind::Heading(1)), block(BlockKind::Paragraph)];
    Reply::of(ParseOutcome::Parsed(Document { blocks, ..Document::default() }))
}

/// The blocks that a picture adds, and where they are.
fn look(name: &str, kind: FileKind, bytes: &[u8], number: u32) -> Vec<(String, String)> {
    let request = request(name, kind, Some(number));
    let reply = look::numbered(&request, bytes.to_vec(), number, worker::read, told);
    let ParseOutcome::Parsed(document) = reply.outcome else { panic!("{reply:?}") };
    document.blocks.into_iter().map(|it| (it.text, it.location.to_string())).collect()
}

fn pair(text: &str, place: &str) -> (String, String) {
    (text.to_owned(), place.to_owned())
}

#[test]
fn pictures_in_archives_are_noted_once_and_found_again() {
    let (first, second, logo) = (png(200, 100, 1), png(160, 90, 2), png(90, 50, 3));
    let inner = zipped(&[("note.txt", b"a note"), ("b.png", &second)]);
    let archive = zipped(&[
        ("notes/boat.md", b"# Boat\n\nIt is blue."),
        ("x.bin", b"\0\0"),
        ("logo.png", &logo),
        ("scans/a.png", &first),
        ("copy/a.png", &first),
        ("more.zip", &inner),
    ]);
    let reply = read("a.zip", FileKind::Archive, &archive);
    let [one, two] = reply.pictures.as_slice() else { panic!("{:?}", reply.pictures) };
    let ParseOutcome::Parsed(document) = &reply.outcome else { panic!("{reply:?}") };
    // The picture that is too small, its copy, and what is no text at all.
    assert_eq!(document.warnings, ["3 files in it hold no text that is read"]);
    let text = format!("a.png: {} bytes, 1", first.len());
    assert_eq!(
        look("a.zip", FileKind::Archive, &archive, *one),
        [
            pair("scans/a.png", "scans/a.png"),
            pair(&text, "scans/a.png"),
            pair(&text, "scans/a.png")
        ]
    );
    let text = format!("b.png: {} bytes, 1", second.len());
    let place = "more.zip › b.png";
    assert_eq!(
        look("a.zip", FileKind::Archive, &archive, *two),
        [
            pair("more.zip", "more.zip"),
            pair("b.png", place),
            pair(&text, place),
            pair(&text, place)
        ]
    );
}

#[test]
fn archives_of_pictures_alone_say_what_they_are() {
    let archive = zipped(&[("a.png", &png(200, 100, 1))]);
    let reply = read("a.zip", FileKind::Archive, &archive);
    assert_eq!(reply.outcome, ParseOutcome::NoText(Remark::Pictures.into()));
    assert_eq!(reply.pictures.len(), 1);
    let archive = zipped(&[("a.png", &png(20, 10, 1))]);
    let reply = read("a.zip", FileKind::Archive, &archive);
    assert!(matches!(&reply.outcome, ParseOutcome::NoText(_)) && reply.pictures.is_empty());
}

#[test]
fn pictures_attached_to_mails_are_found_in_their_mail() {
    let (first, second) = (png(120, 70, 1), png(130, 70, 2));
    let zip = zipped(&[("b.png", &second)]);
    let one = mail("The lease", &[("a.png", &first), ("more.zip", &zip)]);
    let reply = read("x.eml", FileKind::Mail, &one);
    let ParseOutcome::Parsed(document) = &reply.outcome else { panic!("{reply:?}") };
    assert!(document.warnings.is_empty(), "{:?}", document.warnings);
    let [a, b] = reply.pictures.as_slice() else { panic!("{:?}", reply.pictures) };
    let places = |name: &str, bytes: &[u8], number: u32| -> Vec<String> {
        look(name, FileKind::Mail, bytes, number).into_iter().map(|it| it.1).collect()
    };
    assert_eq!(places("x.eml", &one, *a), ["a.png"; 3]);
    let within = "more.zip › b.png";
    assert_eq!(places("x.eml", &one, *b), ["more.zip", within, within, within]);

    let mut boxed = b"From ann Mon Mar  2 10:00:00 2026\n".to_vec();
    boxed.extend(mail("Nothing yet", &[]));
    boxed.extend(b"\nFrom ann Mon Mar  2 11:00:00 2026\n");
    boxed.extend(&one);
    let reply = read("x.mbox", FileKind::Mail, &boxed);
    let [a, _] = reply.pictures.as_slice() else { panic!("{:?}", reply.pictures) };
    let within = "message 2 › a.png";
    assert_eq!(places("x.mbox", &boxed, *a), ["message 2", within, within, within]);
}

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";
const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const DRAWING: &str = "http://schemas.openxmlformats.org/drawingml/2006";

/// Relations of a part: an id, the last word of the kind, and the target for each.
fn relations(all: &[(&str, &str, &str)]) -> String {
    let each = |(id, kind, target): &(&str, &str, &str)| {
        format!("<Relationship Id=\"{id}\" Type=\"{OFFICE}/{kind}\" Target=\"{target}\"/>")
    };
    let all: String = all.iter().map(each).collect();
    let package = "http://schemas.openxmlformats.org/package/2006/relationships";
    format!("{HEAD}<Relationships xmlns=\"{package}\">{all}</Relationships>")
}

/// A package of Office, of texts and of pictures.
fn package(
    parts: &[(&str, &str)],
    files: &[(&str, String)],
    pictures: &[(&str, &[u8])],
) -> Vec<u8> {
    let kinds: String = parts
        .iter()
        .map(|(name, kind)| {
            format!(
                "<Override PartName=\"/{name}\" \
                 ContentType=\"application/vnd.openxmlformats-officedocument.{kind}+xml\"/>"
            )
        })
        .collect();
    let types = format!(
        "{HEAD}<Types xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\">\
         <Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>\
         <Default Extension=\"xml\" ContentType=\"application/xml\"/>\
         <Default Extension=\"png\" ContentType=\"image/png\"/>{kinds}</Types>"
    );
    let mut all = vec![("[Content_Types].xml", types.as_bytes())];
    all.extend(files.iter().map(|it| (it.0, it.1.as_bytes())));
    all.extend(pictures);
    zipped(&all)
}

/// A drawing that shows the picture of a relation.
fn blip(id: &str) -> String {
    format!(
        "<pic:pic xmlns:pic=\"{DRAWING}/picture\"><pic:nvPicPr><pic:cNvPr id=\"1\" name=\"p\"/><pic:cNvPicPr/>\
         </pic:nvPicPr><pic:blipFill><a:blip r:embed=\"{id}\"/></pic:blipFill><pic:spPr/></pic:pic>"
    )
}

/// Two paragraphs, each with a picture behind it; the archive holds them in the other order.
fn docx(first: &[u8], second: &[u8]) -> Vec<u8> {
    let main = "http://schemas.openxmlformats.org/wordprocessingml/2006/main";
    let drawing = |id: &str| {
        format!(
            "<w:p><w:r><w:drawing><wp:inline><a:graphic><a:graphicData uri=\"{DRAWING}/picture\">{}</a:graphicData>\
             </a:graphic></wp:inline></w:drawing></w:r></w:p>",
            blip(id)
        )
    };
    let text = |text: &str| format!("<w:p><w:r><w:t>{text}</w:t></w:r></w:p>");
    let body = [text("The first."), drawing("i2"), text("The second."), drawing("i1")].concat();
    let files = [
        ("_rels/.rels", relations(&[("a", "officeDocument", "word/document.xml")])),
        (
            "word/_rels/document.xml.rels",
            relations(&[("i1", "image", "media/image1.png"), ("i2", "image", "media/image2.png")]),
        ),
        (
            "word/document.xml",
            format!(
                "{HEAD}<w:document xmlns:w=\"{main}\" xmlns:r=\"{OFFICE}\" xmlns:a=\"{DRAWING}/main\" \
                 xmlns:wp=\"{DRAWING}/wordprocessingDrawing\"><w:body>{body}</w:body></w:document>"
            ),
        ),
    ];
    package(
        &[("word/document.xml", "wordprocessingml.document.main")],
        &files,
        &[("word/media/image1.png", second), ("word/media/image2.png", first)],
    )
}

/// Two slides, each with a title and a picture.
fn pptx(first: &[u8], second: &[u8]) -> Vec<u8> {
    let main = "http://schemas.openxmlformats.org/presentationml/2006/main";
    let slide = |title: &str| {
        format!(
            "{HEAD}<p:sld xmlns:p=\"{main}\" xmlns:a=\"{DRAWING}/main\" xmlns:r=\"{OFFICE}\"><p:cSld><p:spTree>\
             <p:nvGrpSpPr><p:cNvPr id=\"1\" name=\"\"/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>\
             <p:sp><p:nvSpPr><p:cNvPr id=\"2\" name=\"t\"/><p:cNvSpPr/><p:nvPr><p:ph type=\"title\"/></p:nvPr>\
             </p:nvSpPr><p:spPr/><p:txBody><a:bodyPr/><a:p><a:r><a:t>{title}</a:t></a:r></a:p></p:txBody></p:sp>\
             <p:pic><p:nvPicPr><p:cNvPr id=\"3\" name=\"p\"/><p:cNvPicPr/><p:nvPr/></p:nvPicPr>\
             <p:blipFill><a:blip r:embed=\"i\"/></p:blipFill><p:spPr/></p:pic></p:spTree></p:cSld></p:sld>"
        )
    };
    let files = [
        ("_rels/.rels", relations(&[("a", "officeDocument", "ppt/presentation.xml")])),
        (
            "ppt/_rels/presentation.xml.rels",
            relations(&[
                ("r1", "slide", "slides/slide1.xml"),
                ("r2", "slide", "slides/slide2.xml"),
            ]),
        ),
        (
            "ppt/presentation.xml",
            format!(
                "{HEAD}<p:presentation xmlns:p=\"{main}\" xmlns:r=\"{OFFICE}\"><p:sldIdLst>\
                 <p:sldId id=\"256\" r:id=\"r1\"/><p:sldId id=\"257\" r:id=\"r2\"/></p:sldIdLst>\
                 <p:sldSz cx=\"9144000\" cy=\"6858000\"/></p:presentation>"
            ),
        ),
        ("ppt/slides/slide1.xml", slide("Hull")),
        ("ppt/slides/slide2.xml", slide("Keel")),
        ("ppt/slides/_rels/slide1.xml.rels", relations(&[("i", "image", "../media/image1.png")])),
        ("ppt/slides/_rels/slide2.xml.rels", relations(&[("i", "image", "../media/image2.png")])),
    ];
    package(
        &[
            ("ppt/presentation.xml", "presentationml.presentation.main"),
            ("ppt/slides/slide1.xml", "presentationml.slide"),
            ("ppt/slides/slide2.xml", "presentationml.slide"),
        ],
        &files,
        &[("ppt/media/image1.png", first), ("ppt/media/image2.png", second)],
    )
}

/// A text with two pictures.
fn odt(first: &[u8], second: &[u8]) -> Vec<u8> {
    let name = "urn:oasis:names:tc:opendocument:xmlns:";
    let spaces: String = [("office", "office"), ("text", "text"), ("draw", "drawing")]
        .iter()
        .map(|(short, urn)| format!(" xmlns:{short}=\"{name}{urn}:1.0\""))
        .collect();
    let frame = |number: u32| {
        format!(
            "<text:p><draw:frame><draw:image xlink:href=\"Pictures/{number}.png\"/></draw:frame></text:p>"
        )
    };
    let content = format!(
        "{HEAD}<office:document-content{spaces} xmlns:xlink=\"http://www.w3.org/1999/xlink\" \
         office:version=\"1.3\"><office:body><office:text><text:p>The first.</text:p>{}\
         <text:p>The second.</text:p>{}</office:text></office:body></office:document-content>",
        frame(1),
        frame(2)
    );
    zipped(&[
        ("mimetype", b"application/vnd.oasis.opendocument.text"),
        ("content.xml", content.as_bytes()),
        ("Pictures/2.png", second),
        ("Pictures/1.png", first),
    ])
}

#[test]
fn pictures_of_documents_are_counted_as_they_are_read() {
    let (first, second) = (png(200, 100, 1), png(160, 90, 2));
    for (name, kind, bytes, places) in [
        (
            "a.docx",
            FileKind::Document,
            docx(&first, &second),
            ["picture 1, paragraph 1", "picture 2, paragraph 2"],
        ),
        (
            "a.odt",
            FileKind::Document,
            odt(&first, &second),
            ["picture 1, paragraph 1", "picture 2, paragraph 2"],
        ),
        (
            "a.pptx",
            FileKind::Presentation,
            pptx(&first, &second),
            ["picture 1, slide 1", "picture 2, slide 2"],
        ),
    ] {
        assert_eq!(read(name, kind, &bytes).pictures, [1, 2], "{name}");
        for ((number, picture), place) in [(1, &first), (2, &second)].into_iter().zip(places) {
            let (found, location) =
                look::embedded(name, kind, &bytes, number).expect("it is there");
            assert!(found == *picture, "{name}: another picture");
            assert_eq!(location.to_string(), place, "{name}");
        }
        assert_eq!(
            look::embedded(name, kind, &bytes, 3),
            Err(Remark::PictureGone.to_string()),
            "{name}"
        );
        // The same in an archive.
        let archive = zipped(&[("note.txt", b"a note"), (name, &bytes)]);
        let numbers = read("a.zip", FileKind::Archive, &archive).pictures;
        assert_eq!(numbers.len(), 2, "{name}");
        let text = format!("{name}: {} bytes, 2", bytes.len());
        let seen = look("a.zip", FileKind::Archive, &archive, numbers[1]);
        assert!(seen.contains(&pair(&text, name)), "{seen:?}");
    }
}

#[test]
fn a_picture_that_a_document_shows_twice_is_read_once() {
    let picture = png(200, 100, 1);
    let bytes = docx(&picture, &picture);
    assert_eq!(read("a.docx", FileKind::Document, &bytes).pictures, [1]);
}

#[test]
fn only_so_many_pictures_are_noted() {
    let mut pictures = Pictures::default();
    for number in 0..MOST_PICTURES as u32 {
        pictures.note(3, number);
    }
    assert!(!pictures.beyond);
    pictures.note(4, 1);
    assert!(pictures.beyond && pictures.numbers.len() == MOST_PICTURES);
    assert_eq!(place_of(pictures.numbers[7]), (3, 7));
}

#[test]
fn what_is_no_longer_there_has_a_reason() {
    let archive = zipped(&[("a.png", &png(200, 100, 1))]);
    for number in [2 << 16 | 1, u32::MAX] {
        let request = request("a.zip", FileKind::Archive, Some(number));
        let reply = look::numbered(&request, archive.clone(), number, worker::read, told);
        assert_eq!(reply.outcome, ParseOutcome::Failed(Remark::PictureGone.into()));
    }
    let odd = look::numbered(
        &request("a.zip", FileKind::Archive, Some(1 << 16 | 1)),
        b"PK".to_vec(),
        1 << 16 | 1,
        worker::read,
        told,
    );
    assert!(matches!(odd.outcome, ParseOutcome::Failed(_)));
}

#[test]
fn a_bomb_before_a_picture_is_passed_over_as_before() {
    let zeros = vec![0_u8; 80 << 20];
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let deflated = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Deflated);
    let picture = png(200, 100, 1);
    for (name, bytes) in [("zeros.txt", zeros.as_slice()), ("a.png", &picture)] {
        writer.start_file(name, deflated).expect("an entry");
        writer.write_all(bytes).expect("written");
    }
    let archive = writer.finish().expect("written").into_inner();
    let numbers = read("a.zip", FileKind::Archive, &archive).pictures;
    assert_eq!(numbers.len(), 1);
    let seen = look("a.zip", FileKind::Archive, &archive, numbers[0]);
    assert_eq!(seen[0], pair("a.png", "a.png"));
}

/// Where the pictures of a file stand, by their numbers, and how many bytes each has.
fn shown(name: &str, kind: FileKind, bytes: &[u8]) -> Vec<(u32, String)> {
    let reply = read(name, kind, bytes);
    assert!(
        matches!(reply.outcome, ParseOutcome::Parsed(_) | ParseOutcome::NoText(_)),
        "{reply:?}"
    );
    let place = |number: &u32| {
        let (bytes, location) = look::embedded(name, kind, bytes, *number).expect("found again");
        let place = location.to_string();
        let place = place.strip_prefix(&format!("picture {number}, ")).expect("its number");
        (*number, format!("{place}, {} bytes", bytes.len()))
    };
    reply.pictures.iter().map(place).collect()
}

fn letters(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[test]
fn pictures_on_sheets_stand_in_their_cells_and_hidden_ones_are_left() {
    let (first, second) = (png(200, 100, 1), png(160, 90, 2));
    let sheet = "<worksheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\"><sheetData>\
        <row r=\"1\"><c r=\"A1\" t=\"inlineStr\"><is><t>Rent</t></is></c></row></sheetData></worksheet>";
    let book = format!(
        "<workbook xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\" xmlns:r=\"{OFFICE}\"><sheets>\
         <sheet name=\"Secret\" sheetId=\"1\" state=\"hidden\" r:id=\"rId1\"/>\
         <sheet name=\"Costs\" sheetId=\"2\" r:id=\"rId2\"/></sheets></workbook>"
    );
    let anchor = |id: &str, column: u32, row: u32| {
        format!(
            "<xdr:twoCellAnchor><xdr:from><xdr:col>{column}</xdr:col><xdr:row>{row}</xdr:row></xdr:from><xdr:to>\
             <xdr:col>9</xdr:col><xdr:row>9</xdr:row></xdr:to><xdr:pic><a:blip r:embed=\"{id}\"/></xdr:pic>\
             </xdr:twoCellAnchor>"
        )
    };
    let drawing = |anchors: &str| {
        format!("<xdr:wsDr xmlns:xdr=\"x\" xmlns:a=\"a\" xmlns:r=\"r\">{anchors}</xdr:wsDr>")
    };
    let open = drawing(&(anchor("rId1", 1, 4) + &anchor("rId2", 0, 0)));
    let secret = drawing(&anchor("rId1", 0, 0));
    let root = relations(&[("rId1", "officeDocument", "xl/workbook.xml")]);
    let of_book = relations(&[
        ("rId1", "worksheet", "worksheets/sheet1.xml"),
        ("rId2", "worksheet", "/xl/worksheets/sheet2.xml"),
    ]);
    let of_secret = relations(&[("rId1", "drawing", "../drawings/drawing1.xml")]);
    let of_costs = relations(&[("rId1", "drawing", "../drawings/drawing2.xml")]);
    let media =
        relations(&[("rId1", "image", "../media/a.png"), ("rId2", "image", "../media/b.png")]);
    let bytes = zipped(&[
        ("_rels/.rels", root.as_bytes()),
        ("xl/workbook.xml", book.as_bytes()),
        ("xl/_rels/workbook.xml.rels", of_book.as_bytes()),
        ("xl/worksheets/sheet1.xml", sheet.as_bytes()),
        ("xl/worksheets/sheet2.xml", sheet.as_bytes()),
        ("xl/worksheets/_rels/sheet1.xml.rels", of_secret.as_bytes()),
        ("xl/worksheets/_rels/sheet2.xml.rels", of_costs.as_bytes()),
        ("xl/drawings/drawing1.xml", secret.as_bytes()),
        ("xl/drawings/drawing2.xml", open.as_bytes()),
        ("xl/drawings/_rels/drawing1.xml.rels", media.as_bytes()),
        ("xl/drawings/_rels/drawing2.xml.rels", media.as_bytes()),
        ("xl/media/a.png", &first),
        ("xl/media/b.png", &second),
    ]);
    let places =
        [format!("Costs!B5, {} bytes", first.len()), format!("Costs!A1, {} bytes", second.len())];
    let [a, b] = places;
    assert_eq!(shown("x.xlsx", FileKind::Spreadsheet, &bytes), [(1, a), (2, b)]);
}

/// A record of a binary workbook.
fn record(kind: u16, data: &[u8]) -> Vec<u8> {
    let mut record = match kind {
        0..0x80 => vec![kind as u8],
        _ => vec![kind as u8 | 0x80, (kind >> 7) as u8],
    };
    record.extend([data.len() as u8 & 0x7F | 0x80, (data.len() >> 7) as u8]);
    record.extend(data);
    record
}

// Long: all parts of a workbook.
#[test]
fn pictures_of_binary_workbooks_stand_in_their_cells() {
    let wide = |text: &str| {
        let mut letters = (text.len() as u32).to_le_bytes().to_vec();
        letters.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
        letters
    };
    let sheet = |state: u8, id: &str, name: &str| {
        record(0x9C, &[&[state, 0, 0, 0, 1, 0, 0, 0], wide(id).as_slice(), &wide(name)].concat())
    };
    let book = [
        record(0x83, &[]),
        sheet(1, "rId1", "Secret"),
        sheet(0, "rId2", "Costs"),
        record(0x90, &[]),
        record(0x9D, &[0; 26]),
    ];
    let cells = [
        record(0x81, &[]),
        record(0x94, &[0; 16]),
        record(0x91, &[]),
        record(0, &[0; 25]),
        record(6, &[&[0; 8], wide("Rent").as_slice()].concat()),
        record(0x92, &[]),
    ];
    let (first, second) = (png(200, 100, 1), png(160, 90, 2));
    let drawing = |id: &str| {
        format!(
            "<xdr:wsDr xmlns:xdr=\"x\" xmlns:a=\"a\" xmlns:r=\"r\"><xdr:oneCellAnchor><xdr:from>\
             <xdr:col>1</xdr:col><xdr:row>4</xdr:row></xdr:from><xdr:pic>\
             <a:blip r:embed=\"{id}\"/></xdr:pic></xdr:oneCellAnchor></xdr:wsDr>"
        )
    };
    let root = relations(&[("rId1", "officeDocument", "xl/workbook.bin")]);
    let of_book = relations(&[
        ("rId1", "worksheet", "worksheets/sheet1.bin"),
        ("rId2", "worksheet", "worksheets/sheet2.bin"),
    ]);
    let of_secret = relations(&[("rId1", "drawing", "../drawings/drawing1.xml")]);
    let of_costs = relations(&[("rId1", "drawing", "../drawings/drawing2.xml")]);
    let media =
        relations(&[("rId1", "image", "../media/a.png"), ("rId2", "image", "../media/b.png")]);
    let bytes = zipped(&[
        ("_rels/.rels", root.as_bytes()),
        ("xl/workbook.bin", &book.concat()),
        ("xl/_rels/workbook.bin.rels", of_book.as_bytes()),
        ("xl/worksheets/sheet1.bin", &cells.concat()),
        ("xl/worksheets/sheet2.bin", &cells.concat()),
        ("xl/worksheets/_rels/sheet1.bin.rels", of_secret.as_bytes()),
        ("xl/worksheets/_rels/sheet2.bin.rels", of_costs.as_bytes()),
        ("xl/drawings/drawing1.xml", drawing("rId1").as_bytes()),
        ("xl/drawings/drawing2.xml", drawing("rId2").as_bytes()),
        ("xl/drawings/_rels/drawing1.xml.rels", media.as_bytes()),
        ("xl/drawings/_rels/drawing2.xml.rels", media.as_bytes()),
        ("xl/media/a.png", &first),
        ("xl/media/b.png", &second),
    ]);
    let place = format!("Costs!B5, {} bytes", second.len());
    assert_eq!(shown("x.xlsb", FileKind::Spreadsheet, &bytes), [(1, place)]);
    // Records that say more than there is end the list, and nothing else.
    let mut short = book.concat();
    short.truncate(20);
    let bytes = zipped(&[("_rels/.rels", root.as_bytes()), ("xl/workbook.bin", &short)]);
    assert!(read("x.xlsb", FileKind::Spreadsheet, &bytes).pictures.is_empty());
}

#[test]
fn pictures_that_stand_in_a_document_of_sheets_as_letters_are_found() {
    let (first, second) = (png(200, 100, 1), png(160, 90, 2));
    let frame = |bytes: &[u8]| {
        let letters = letters(bytes);
        let (start, rest) = letters.split_at(76);
        format!(
            "<draw:frame><draw:image draw:mime-type=\"image/png\"><office:binary-data>\n{start}\n{rest}\n\
             </office:binary-data><text:p/></draw:image></draw:frame>"
        )
    };
    let content = format!(
        "{HEAD}<office:document xmlns:office=\"urn:oasis:names:tc:opendocument:xmlns:office:1.0\" \
         office:mimetype=\"application/vnd.oasis.opendocument.spreadsheet\" \
         xmlns:table=\"urn:oasis:names:tc:opendocument:xmlns:table:1.0\" \
         xmlns:text=\"urn:oasis:names:tc:opendocument:xmlns:text:1.0\" \
         xmlns:draw=\"urn:oasis:names:tc:opendocument:xmlns:drawing:1.0\" \
         xmlns:style=\"urn:oasis:names:tc:opendocument:xmlns:style:1.0\"><office:automatic-styles>\
         <style:style style:name=\"ta2\" style:family=\"table\"><style:table-properties table:display=\"false\"/>\
         </style:style></office:automatic-styles><office:body><office:spreadsheet>\
         <table:table table:name=\"Secret\" table:style-name=\"ta2\"><table:table-row><table:table-cell>{}\
         </table:table-cell></table:table-row></table:table>\
         <table:table table:name=\"Costs\"><table:table-row table:number-rows-repeated=\"3\"><table:table-cell/>\
         </table:table-row><table:table-row><table:table-cell/>\
         <table:table-cell office:value-type=\"string\"><text:p>Rent</text:p>{}</table:table-cell></table:table-row>\
         </table:table></office:spreadsheet></office:body></office:document>",
        frame(&first),
        frame(&second),
    );
    let place = format!("Costs!B4, {} bytes", second.len());
    let seen = shown("x.fods", FileKind::Spreadsheet, content.as_bytes());
    assert_eq!(seen, [(1, place)]);
    let said = read("x.fods", FileKind::Spreadsheet, content.as_bytes()).outcome;
    let ParseOutcome::Parsed(document) = said else { panic!("{said:?}") };
    assert!(document.blocks.iter().any(|it| it.text.contains("Rent")), "{document:?}");
}

#[test]
fn pictures_of_open_document_sheets_stand_in_their_cells() {
    let (first, second) = (png(200, 100, 1), png(160, 90, 2));
    let frame =
        |part: &str| format!("<draw:frame><draw:image xlink:href=\"{part}\"/></draw:frame>");
    let content = format!(
        "{HEAD}<office:document-content xmlns:office=\"urn:oasis:names:tc:opendocument:xmlns:office:1.0\" \
         xmlns:table=\"urn:oasis:names:tc:opendocument:xmlns:table:1.0\" \
         xmlns:text=\"urn:oasis:names:tc:opendocument:xmlns:text:1.0\" xmlns:draw=\"d\" xmlns:xlink=\"l\" \
         xmlns:style=\"urn:oasis:names:tc:opendocument:xmlns:style:1.0\"><office:automatic-styles>\
         <style:style style:name=\"ta2\" style:family=\"table\"><style:table-properties table:display=\"false\"/>\
         </style:style></office:automatic-styles><office:body><office:spreadsheet>\
         <table:table table:name=\"Secret\" table:style-name=\"ta2\"><table:table-row><table:table-cell>{}\
         </table:table-cell></table:table-row></table:table>\
         <table:table table:name=\"Costs\"><table:shapes>{}</table:shapes>\
         <table:table-row table:number-rows-repeated=\"3\"><table:table-cell/></table:table-row>\
         <table:table-row><table:table-cell table:number-columns-repeated=\"2\"/>\
         <table:table-cell office:value-type=\"string\"><text:p>Rent</text:p>{}</table:table-cell></table:table-row>\
         </table:table></office:spreadsheet></office:body></office:document-content>",
        frame("Pictures/a.png"),
        frame("Pictures/b.png"),
        frame("./Pictures/a.png"),
    );
    let bytes = zipped(&[
        ("mimetype", b"application/vnd.oasis.opendocument.spreadsheet"),
        ("content.xml", content.as_bytes()),
        ("META-INF/manifest.xml", b"<manifest:manifest xmlns:manifest=\"m\"/>"),
        ("Pictures/a.png", &first),
        ("Pictures/b.png", &second),
    ]);
    let (a, b) =
        (format!("Costs!A1, {} bytes", second.len()), format!("Costs!C4, {} bytes", first.len()));
    assert_eq!(shown("x.ods", FileKind::Spreadsheet, &bytes), [(1, a), (2, b)]);
}

#[test]
fn pictures_that_a_page_brings_along_are_noted_and_no_others() {
    let (first, small) = (png(200, 100, 1), png(20, 10, 2));
    let page = |source: &str| {
        format!(
            "<html><body><h1>Hull</h1><p>It is blue.</p><img src=\"{source}\"><p>End.</p>\
             <img src=\"http://example.org/a.png\"><img src=\"/etc/b.png\">\
             <img src=\"data:image/png;base64,{}\"></body></html>",
            letters(&small)
        )
    };
    let html = page(&format!("data:image/png;base64,{}", letters(&first)));
    let seen = shown("x.html", FileKind::Html, html.as_bytes());
    assert_eq!(seen, [(1, format!("Hull, paragraph 2, {} bytes", first.len()))]);

    let mhtml = format!(
        "MIME-Version: 1.0\r\nContent-Type: multipart/related; type=\"text/html\"; boundary=cut\r\n\r\n--cut\r\n\
         Content-Type: text/html\r\nContent-Location: http://example.org/x/\r\n\r\n{}\r\n--cut\r\n\
         Content-Type: image/png\r\n\
         Content-Location: http://example.org/x/keel.png\r\nContent-Transfer-Encoding: base64\r\n\r\n{}\r\n--cut--\r\n",
        page("keel.png"),
        letters(&first)
    );
    let seen = shown("x.mhtml", FileKind::Html, mhtml.as_bytes());
    assert_eq!(seen, [(1, format!("Hull, paragraph 2, {} bytes", first.len()))]);

    let data = |bytes: &[u8]| format!("<key>WebResourceData</key><data>{}</data>", letters(bytes));
    let text =
        |name: &str, value: &str| format!("<key>WebResource{name}</key><string>{value}</string>");
    let archive = format!(
        "{HEAD}<plist version=\"1.0\"><dict><key>WebMainResource</key><dict>{}{}{}{}</dict>\
         <key>WebSubresources</key><array><dict>{}{}{}</dict></array></dict></plist>",
        data(page("keel.png").as_bytes()),
        text("MIMEType", "text/html"),
        text("TextEncodingName", "UTF-8"),
        text("URL", "http://example.org/x/"),
        data(&first),
        text("MIMEType", "image/png"),
        text("URL", "http://example.org/x/keel.png"),
    );
    let seen = shown("x.webarchive", FileKind::Html, archive.as_bytes());
    assert_eq!(seen, [(1, format!("Hull, paragraph 2, {} bytes", first.len()))]);
}

#[test]
fn pictures_in_books_stand_in_their_chapters() {
    let first = png(200, 100, 1);
    let book = format!(
        "{HEAD}<FictionBook xmlns:l=\"http://www.w3.org/1999/xlink\"><description><title-info><coverpage>\
         <image l:href=\"#a.png\"/></coverpage></title-info></description><body><section><title><p>Hull</p></title>\
         <p>It is blue.</p><image l:href=\"#a.png\"/><image l:href=\"#none\"/></section></body>\
         <binary id=\"a.png\" content-type=\"image/png\">{}</binary></FictionBook>",
        letters(&first)
    );
    let seen = shown("x.fb2", FileKind::Book, book.as_bytes());
    assert_eq!(seen, [(1, format!("Hull, paragraph 2, {} bytes", first.len()))]);

    let container =
        "<container><rootfiles><rootfile full-path=\"o/b.opf\"/></rootfiles></container>";
    let package = "<package><manifest><item id=\"a\" href=\"t/a.xhtml\" media-type=\"application/xhtml+xml\"/>\
        </manifest><spine><itemref idref=\"a\"/></spine></package>";
    let chapter = "<html><body><h1>Hull</h1><p>It is blue.</p><div><img src=\"../i/a.png\"/></div></body></html>";
    let bytes = zipped(&[
        ("META-INF/container.xml", container.as_bytes()),
        ("o/b.opf", package.as_bytes()),
        ("o/t/a.xhtml", chapter.as_bytes()),
        ("o/i/a.png", &first),
    ]);
    let seen = shown("x.epub", FileKind::Book, &bytes);
    assert_eq!(seen, [(1, format!("Hull, paragraph 2, {} bytes", first.len()))]);
}
