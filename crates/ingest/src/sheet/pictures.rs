//! Pictures on sheets: where each stands, and its bytes.
//!
//! The library that reads cells tells neither. After ISO/IEC 29500 (a sheet names a drawing, that names pictures, each
//! in cells) and OpenDocument 1.3 (a picture stands in its cell, or beside all). Hidden sheets are not read, nor are
//! theirs. Nothing of a part is written anywhere, and no entity of a document's own is ever expanded.

use std::{
    collections::{HashMap, HashSet},
    io::{Cursor, Read as _},
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
    let Ok(archive) = ZipArchive::new(Cursor::new(bytes)) else { return };
    let mut book = Book { archive, see, number: 0, bytes: 0 };
    match extension {
        "xlsx" | "xlsm" | "xltx" | "xltm" => book.office(),
        "ods" | "ots" => book.open_document(),
        _ => {}
    }
}

struct Book<'a, 's> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    see: See<'s>,
    number: u32,
    bytes: u64,
}

/// A cell, from 1.
#[derive(Clone, Copy)]
struct Corner {
    column: u32,
    row: u32,
}

impl Book<'_, '_> {
    /// Shows the picture that lies in a part and stands in a cell; whether others may follow.
    fn show(&mut self, part: &str, sheet: &str, at: Corner) -> bool {
        self.number += 1;
        if self.number > MOST || self.bytes > MOST_SHOWN {
            return false;
        }
        let Some(bytes) = self.part(part) else { return true };
        self.bytes += bytes.len() as u64;
        let location = Location::Cells {
            sheet: sheet.to_owned(),
            left: at.column,
            top: at.row,
            right: at.column,
            bottom: at.row,
        };
        (self.see)(self.number, &bytes, &location);
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
        let sheets = self.text(&main).map(|it| sheets(&it)).unwrap_or_default();
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
        let mut walk = Walk::default();
        each(&text, |event| match event {
            Event::Start(tag) => walk.open(&tag, false),
            Event::Empty(tag) => walk.open(&tag, true),
            Event::End(tag) => walk.close(tag.local_name().as_ref()),
            _ => {}
        });
        for (part, sheet, at) in walk.found {
            if !self.show(&part, &sheet, at) {
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
    found: Vec<(String, String, Corner)>,
}

impl Walk {
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
                if let (Some(sheet), Some(part)) = (&self.sheet, value("href")) {
                    let at = Corner { column: self.column, row: self.row };
                    self.found.push((joined("", &part), sheet.clone(), at));
                }
            }
            _ => {}
        }
        if empty {
            self.close(tag.local_name().as_ref());
        }
    }

    fn close(&mut self, name: &[u8]) {
        match name {
            b"table" => self.sheet = None,
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
