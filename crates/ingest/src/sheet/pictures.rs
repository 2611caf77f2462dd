//! Pictures on sheets: where each stands, and its bytes.
//!
//! The library that reads cells tells neither. After ISO/IEC 29500 (a sheet names a drawing, that names pictures, each
//! in cells; where parts are binary, drawings are not) and OpenDocument 1.3 (a picture stands in its cell, or beside
//! all; in one file alone as letters). Hidden sheets are not read, nor are theirs. Nothing of a part is written
//! anywhere, and no entity of a document's own is ever expanded.

mod old;

use std::{
    collections::{HashMap, HashSet},
    io::{Cursor, Read as _},
};

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use quick_xml::{
    Reader, XmlVersion,
    events::{BytesStart, Event},
};
use riddle_types::Location;
use zip::ZipArchive;

use crate::{
    shown::{MOST_SHOWN, See},
    text::decode,
};

/// Most pictures that are looked at: one may stand in a thousand places.
const MOST: u32 = 2000;

/// Most bytes of one part.
const LARGEST: u64 = 32 << 20;

/// Shows the pictures of a workbook, in the order of its sheets; they are counted from 1.
pub(crate) fn pictures(extension: &str, bytes: &[u8], see: See<'_>) {
    let mut shown = Shown { see, number: 0, bytes: 0 };
    match extension {
        "xls" | "xlt" => _ = old::pictures(bytes, &mut shown),
        "fods" => flat(bytes, &mut shown),
        _ => {
            let Ok(archive) = ZipArchive::new(Cursor::new(bytes)) else { return };
            let mut book = Book { archive, shown };
            match extension {
                "xlsx" | "xlsm" | "xltx" | "xltm" | "xlsb" => book.office(),
                "ods" | "ots" => book.open_document(),
                _ => {}
            }
        }
    }
}

/// What is shown, and how much that was.
struct Shown<'s> {
    see: See<'s>,
    number: u32,
    bytes: u64,
}

struct Book<'a, 's> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    shown: Shown<'s>,
}

/// A cell, from 1.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Corner {
    column: u32,
    row: u32,
}

impl Shown<'_> {
    /// Counts a picture; whether it may be looked at.
    fn next(&mut self) -> bool {
        self.number += 1;
        self.number <= MOST && self.bytes <= MOST_SHOWN
    }

    /// Shows the picture that is counted, which stands in a cell.
    fn show_this(&mut self, bytes: &[u8], sheet: &str, at: Corner) {
        self.bytes += bytes.len() as u64;
        let location = Location::Cells {
            sheet: sheet.to_owned(),
            left: at.column,
            top: at.row,
            right: at.column,
            bottom: at.row,
        };
        (self.see)(self.number, bytes, &location);
    }

    /// Counts and shows a picture; whether others may follow.
    fn show(&mut self, bytes: &[u8], sheet: &str, at: Corner) -> bool {
        let goes_on = self.next();
        if goes_on && bytes.len() as u64 <= LARGEST {
            self.show_this(bytes, sheet, at);
        }
        goes_on
    }
}

/// Shows the pictures of an OpenDocument that is one file.
fn flat(bytes: &[u8], shown: &mut Shown<'_>) {
    for Found { from, sheet, at } in Walk::over(&decode(bytes).0) {
        let Source::Letters(mut letters) = from else { continue };
        letters.retain(|it| !it.is_ascii_whitespace());
        let config = GeneralPurposeConfig::new();
        let config = config.with_decode_padding_mode(DecodePaddingMode::Indifferent);
        let picture = GeneralPurpose::new(&STANDARD, config).decode(letters).unwrap_or_default();
        if !shown.show(&picture, &sheet, at) {
            return;
        }
    }
}

impl Book<'_, '_> {
    /// Shows the picture that lies in a part and stands in a cell; whether others may follow.
    fn show(&mut self, part: &str, sheet: &str, at: Corner) -> bool {
        if !self.shown.next() {
            return false;
        }
        if let Some(bytes) = self.part(part) {
            self.shown.show_this(&bytes, sheet, at);
        }
        true
    }

    fn part(&mut self, name: &str) -> Option<Vec<u8>> {
        let entry = self.archive.by_name(name).ok()?;
        let mut bytes = Vec::new();
        entry.take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= LARGEST).then_some(bytes)
    }

    fn text(&mut self, name: &str) -> Option<String> {
        self.part(name).map(|it| decode(&it).0)
    }

    fn office(&mut self) {
        let main = self.related("").into_iter().find(|it| it.kind == "officeDocument");
        let Some(main) = main.map(|it| it.target) else { return };
        let sheets = if main.ends_with(".bin") {
            self.part(&main).map(|it| binary_sheets(&it)).unwrap_or_default()
        } else {
            self.text(&main).map(|it| sheets(&it)).unwrap_or_default()
        };
        let parts: HashMap<String, String> =
            self.related(&main).into_iter().map(|it| (it.id, it.target)).collect();
        for (name, id) in sheets {
            let Some(sheet) = parts.get(&id) else { continue };
            let drawings: Vec<String> = self
                .related(sheet)
                .into_iter()
                .filter(|it| it.kind == "drawing")
                .map(|it| it.target)
                .collect();
            for drawing in drawings {
                let Some(text) = self.text(&drawing) else { continue };
                let targets: HashMap<String, String> =
                    self.related(&drawing).into_iter().map(|it| (it.id, it.target)).collect();
                for (id, at) in anchored(&text) {
                    let Some(target) = targets.get(&id) else { continue };
                    if !self.show(target, &name, at) {
                        return;
                    }
                }
            }
        }
    }

    /// What a part names; the package itself has no name.
    fn related(&mut self, part: &str) -> Vec<Relation> {
        let (folder, file) = part.rsplit_once('/').unwrap_or(("", part));
        let name = format!("{folder}/_rels/{file}.rels");
        let Some(text) = self.text(name.trim_start_matches('/')) else { return Vec::new() };
        let mut all = Vec::new();
        each(&text, |event| {
            let tag = match event {
                Event::Start(tag) | Event::Empty(tag) if is(&tag, "Relationship") => tag,
                _ => return,
            };
            let value = |name| attribute(&tag, name).unwrap_or_default();
            if value("TargetMode") != "External" {
                let kind = value("Type").rsplit('/').next().unwrap_or_default().to_owned();
                all.push(Relation {
                    id: value("Id"),
                    kind,
                    target: joined(folder, &value("Target")),
                });
            }
        });
        all
    }

    fn open_document(&mut self) {
        let Some(text) = self.text("content.xml") else { return };
        for Found { from, sheet, at } in Walk::over(&text) {
            if let Source::Part(part) = from
                && !self.show(&part, &sheet, at)
            {
                return;
            }
        }
    }
}

struct Relation {
    id: String,
    /// Last word of the kind.
    kind: String,
    target: String,
}

/// The part that a name leads to from a folder.
fn joined(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = match target.starts_with('/') {
        true => Vec::new(),
        false => folder.split('/').filter(|it| !it.is_empty()).collect(),
    };
    for part in target.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Reads what there is up to the first damage.
fn each(text: &str, mut on: impl FnMut(Event<'_>)) {
    let mut reader = Reader::from_str(text);
    loop {
        match reader.read_event() {
            Ok(Event::Eof) | Err(_) => return,
            Ok(event) => on(event),
        }
    }
}

fn is(tag: &BytesStart<'_>, name: &str) -> bool {
    tag.local_name().as_ref() == name.as_bytes()
}

/// The value of an attribute, whatever stands for its namespace.
fn attribute(tag: &BytesStart<'_>, name: &str) -> Option<String> {
    let named = |it: &quick_xml::events::attributes::Attribute<'_>| {
        it.key.local_name().as_ref() == name.as_bytes()
    };
    let found = tag.attributes().with_checks(false).filter_map(Result::ok).find(named)?;
    Some(found.normalized_value(XmlVersion::Implicit1_0).ok()?.into_owned())
}

/// Names of the sheets that are shown, and by what the workbook names them.
fn sheets(text: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    each(text, |event| {
        if let Event::Start(tag) | Event::Empty(tag) = event
            && is(&tag, "sheet")
            && attribute(&tag, "state").is_none_or(|it| it == "visible")
        {
            let value = |name| attribute(&tag, name).unwrap_or_default();
            all.push((value("name"), value("id")));
        }
    });
    all
}

/// The same of a workbook whose parts are binary (\[MS-XLSB\] 2.4.720): records of a kind and a length, seven bits in
/// each byte.
fn binary_sheets(bytes: &[u8]) -> Vec<(String, String)> {
    const SHEET: usize = 156;
    let mut all = Vec::new();
    let mut at = 0;
    let seven_bits = |at: &mut usize, most: usize| {
        let mut value = 0;
        for place in 0..most {
            let byte = usize::from(*bytes.get(*at)?);
            *at += 1;
            value |= (byte & 0x7F) << (7 * place);
            if byte & 0x80 == 0 {
                break;
            }
        }
        Some(value)
    };
    while let (Some(kind), Some(length)) = (seven_bits(&mut at, 2), seven_bits(&mut at, 4)) {
        let Some(data) = bytes.get(at..).and_then(|it| it.get(..length)) else { break };
        at += length;
        if kind != SHEET {
            continue;
        }
        // Whether it is hidden, its number, what names its part, and its name; both a count and letters of two bytes.
        let text = |at: usize| {
            let count = u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?) as usize;
            let end = (at + 4).checked_add(count.checked_mul(2)?)?;
            let text = encoding_rs::UTF_16LE.decode_without_bom_handling(data.get(at + 4..end)?).0;
            Some((text.into_owned(), end))
        };
        let sheet = text(8).and_then(|(id, end)| Some((text(end)?.0, id)));
        if data.get(..4) == Some(&[0; 4]) {
            all.extend(sheet);
        }
    }
    all
}

/// Pictures of a drawing by its names for them, each with its upper left cell.
fn anchored(text: &str) -> Vec<(String, Corner)> {
    let mut all = Vec::new();
    let (mut at, mut from, mut counts) = (Corner { column: 1, row: 1 }, false, None);
    each(text, |event| match event {
        Event::Start(tag) if is(&tag, "from") => from = true,
        Event::Start(tag) if from && (is(&tag, "col") || is(&tag, "row")) => {
            counts = Some(is(&tag, "col"));
        }
        Event::Text(text) => {
            if let Some(column) = counts.take() {
                let count = text.decode().unwrap_or_default().trim().parse::<u32>().unwrap_or(0);
                *(if column { &mut at.column } else { &mut at.row }) = count.saturating_add(1);
            }
        }
        Event::End(tag) => match tag.local_name().as_ref() {
            b"from" => from = false,
            b"twoCellAnchor" | b"oneCellAnchor" | b"absoluteAnchor" => {
                at = Corner { column: 1, row: 1 };
            }
            _ => {}
        },
        Event::Start(tag) | Event::Empty(tag) if is(&tag, "blip") => {
            all.extend(attribute(&tag, "embed").map(|id| (id, at)));
        }
        _ => {}
    });
    all
}

/// A walk through the sheets of an OpenDocument.
#[derive(Default)]
struct Walk {
    style: String,
    hidden: HashSet<String>,
    sheet: Option<String>,
    column: u32,
    row: u32,
    /// How often the row and the cell stand there that are open.
    repeated: [u32; 2],
    /// Letters of a picture that is open.
    letters: Option<String>,
    found: Vec<Found>,
}

/// A picture on a sheet.
struct Found {
    from: Source,
    sheet: String,
    at: Corner,
}

/// A part of the package, or what stands in the document itself.
enum Source {
    Part(String),
    Letters(String),
}

impl Walk {
    fn over(text: &str) -> Vec<Found> {
        let mut walk = Walk::default();
        each(text, |event| match event {
            Event::Start(tag) => walk.open(&tag, false),
            Event::Empty(tag) => walk.open(&tag, true),
            Event::End(tag) => walk.close(tag.local_name().as_ref()),
            Event::Text(text) => {
                if let Some(letters) = &mut walk.letters {
                    letters.push_str(&text.decode().unwrap_or_default());
                }
            }
            _ => {}
        });
        walk.found
    }

    fn find(&mut self, from: Source) {
        if let Some(sheet) = self.sheet.clone() {
            let at = Corner { column: self.column, row: self.row };
            self.found.push(Found { from, sheet, at });
        }
    }

    fn open(&mut self, tag: &BytesStart<'_>, empty: bool) {
        let value = |name| attribute(tag, name);
        let times = |name| value(name).and_then(|it| it.parse().ok()).unwrap_or(1);
        match tag.local_name().as_ref() {
            b"style" => self.style = value("name").unwrap_or_default(),
            b"table-properties" if value("display").is_some_and(|it| it == "false") => {
                self.hidden.insert(self.style.clone());
            }
            b"table" => {
                let hidden = value("style-name").is_some_and(|it| self.hidden.contains(&it));
                self.sheet = if hidden { None } else { value("name") };
                (self.column, self.row) = (1, 1);
            }
            b"table-row" => {
                self.column = 1;
                self.repeated[0] = times("number-rows-repeated");
            }
            b"table-cell" | b"covered-table-cell" => {
                self.repeated[1] = times("number-columns-repeated");
            }
            b"image" => {
                if let Some(part) = value("href") {
                    self.find(Source::Part(joined("", &part)));
                }
            }
            b"binary-data" => self.letters = Some(String::new()),
            _ => {}
        }
        if empty {
            self.close(tag.local_name().as_ref());
        }
    }

    fn close(&mut self, name: &[u8]) {
        match name {
            b"table" => self.sheet = None,
            b"binary-data" => {
                if let Some(letters) = self.letters.take() {
                    self.find(Source::Letters(letters));
                }
            }
            b"table-row" => {
                self.row = self.row.saturating_add(self.repeated[0]);
                self.column = 1;
            }
            b"table-cell" | b"covered-table-cell" => {
                self.column = self.column.saturating_add(self.repeated[1]);
            }
            _ => {}
        }
    }
}
