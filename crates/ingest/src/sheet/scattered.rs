//! Workbooks of the old format (BIFF, \[MS-XLS\]) whose cells lie far apart.
//!
//! The library that reads them makes a table of everything between the first cell of a sheet and its last, and a copy
//! of it: two cells in opposite corners are sixteen million with all that lies between, and take a gigabyte. So cells
//! of such a sheet are gathered into neighbouring places before it is read, and scattered again afterwards. Nothing but
//! their places changes, so the file keeps its length and its structure.

use std::{
    collections::BTreeMap,
    io::{Cursor, Read, Write},
    ops::Range,
};

use super::{Row, Rows};

/// Places between a sheet's first cell and its last from which on cells are gathered: a table of so many takes 90 MB.
pub(super) const FAR: u64 = 1 << 20;

/// Columns of the table that cells are gathered into: as many as a sheet of the old format has.
const WIDE: usize = 256;

/// Where workbooks keep their cells; the second is Excel 95's.
const STREAMS: [&str; 2] = ["/Workbook", "/Book"];

/// A workbook whose cells lie close together.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) bytes: Vec<u8>,
    sheets: Vec<Option<Places>>,
}

/// Rows and columns from 0 that the cells of a sheet come from, in the order of the places they were gathered into.
type Places = Vec<(u16, u16)>;

impl Gathered {
    /// Gathers the cells of sheets that span more than `far` places; nothing where there is none.
    ///
    /// What can not be followed is left as it is: the library that reads it says what is wrong.
    pub(super) fn of(bytes: &[u8], far: u64) -> Option<Gathered> {
        let mut file = cfb::CompoundFile::open(Cursor::new(bytes.to_vec())).ok()?;
        let name = STREAMS.into_iter().find(|it| file.is_stream(it))?;
        let mut book = Vec::new();
        file.open_stream(name).ok()?.read_to_end(&mut book).ok()?;
        let sheets = gather(&mut book, far)?;
        let mut stream = file.open_stream(name).ok()?;
        stream.write_all(&book).and_then(|()| stream.flush()).ok()?;
        drop(stream);
        Some(Gathered { bytes: file.into_inner().into_inner(), sheets })
    }

    /// Puts what was read from a sheet, by its index in the workbook, where it came from.
    pub(super) fn scatter(&self, sheet: usize, read: Rows) -> Rows {
        let Some(Some(places)) = self.sheets.get(sheet) else { return read };
        let mut rows: BTreeMap<u32, BTreeMap<u32, _>> = BTreeMap::new();
        for row in read.rows {
            let start = (row.number as usize - 1) * WIDE;
            for mut cell in row.cells {
                let Some(&(top, left)) = places.get(start + cell.column as usize - 1) else {
                    continue;
                };
                cell.column = u32::from(left) + 1;
                // Of two values of one cell the later counts, as in the library.
                rows.entry(u32::from(top) + 1).or_default().insert(cell.column, cell);
            }
        }
        let rows = rows
            .into_iter()
            .map(|(number, cells)| Row { number, cells: cells.into_values().collect() })
            .collect();
        Rows { rows, cut: read.cut }
    }
}

/// Kinds of records, \[MS-XLS\] 2.3.1.
pub(super) mod kind {
    pub(in crate::sheet) const FORMULA: u16 = 0x0006;
    pub(in crate::sheet) const END: u16 = 0x000A;
    pub(in crate::sheet) const ENCRYPTED: u16 = 0x002F;
    pub(in crate::sheet) const SHEET: u16 = 0x0085;
    pub(in crate::sheet) const NUMBERS: u16 = 0x00BD;
    pub(in crate::sheet) const RICH: u16 = 0x00D6;
    pub(in crate::sheet) const SHARED_TEXT: u16 = 0x00FD;
    pub(in crate::sheet) const EXTENT: u16 = 0x0200;
    pub(in crate::sheet) const FLOAT: u16 = 0x0203;
    pub(in crate::sheet) const TEXT: u16 = 0x0204;
    pub(in crate::sheet) const TRUTH: u16 = 0x0205;
    pub(in crate::sheet) const NUMBER: u16 = 0x027E;
    pub(in crate::sheet) const BEGIN: u16 = 0x0809;
}

/// The record that begins at `at`: its kind, and where its data lie.
pub(super) fn record(book: &[u8], at: usize) -> Option<(u16, Range<usize>)> {
    let start = at.checked_add(4)?;
    let (kind, length) = (short(book, at)?, short(book, at + 2)?);
    let end = start + usize::from(length);
    (end <= book.len()).then_some((kind, start..end))
}

pub(super) fn short(book: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes([*book.get(at)?, *book.get(at + 1)?]))
}

fn put(book: &mut [u8], at: usize, value: u16) {
    if let Some(place) = book.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

/// Gathers the cells of a workbook's sheets; nothing where none spans more than `far` places.
fn gather(book: &mut [u8], far: u64) -> Option<Vec<Option<Places>>> {
    let mut starts = Vec::new();
    let mut at = 0;
    while let Some((kind, data)) = record(book, at) {
        match kind {
            kind::ENCRYPTED => return None,
            kind::SHEET => {
                let place = book.get(data.start..data.start + 4)?;
                starts.push(u32::from_le_bytes(place.try_into().ok()?) as usize);
            }
            kind::END => break,
            _ => {}
        }
        at = data.end;
    }
    // Sheets that lie in one place are one: its cells move once.
    let mut moved: BTreeMap<usize, Option<Places>> = BTreeMap::new();
    for &start in &starts {
        moved.entry(start).or_insert_with(|| {
            let cells = Cells::of(book, start).filter(|it| it.area() > far)?;
            cells.close_up(book)
        });
    }
    moved.values().any(Option::is_some).then(|| starts.iter().map(|it| moved[it].clone()).collect())
}

/// A record that holds cells of one row.
struct Held {
    /// Where its data begin: the row, then the first column.
    at: usize,
    count: usize,
    /// Where it says the last column, if it does.
    last: Option<usize>,
}

/// Records of a sheet that hold cells.
#[derive(Default)]
struct Cells {
    records: Vec<Held>,
    /// Where the sheet says how far it reaches.
    extents: Vec<Range<usize>>,
    rows: Option<(u16, u16)>,
    columns: Option<(u16, u16)>,
}

impl Cells {
    /// Cells of the sheet that begins at `start`; of what is embedded in it, such as a chart, none.
    fn of(book: &[u8], start: usize) -> Option<Cells> {
        let mut cells = Cells::default();
        let (mut at, mut depth) = (start, 0_usize);
        while let Some((kind, data)) = record(book, at) {
            at = data.end;
            match kind {
                kind::BEGIN => depth += 1,
                kind::END if depth <= 1 => break,
                kind::END => depth -= 1,
                _ if depth > 1 => {}
                kind::EXTENT => cells.extents.push(data),
                kind::FORMULA
                | kind::RICH
                | kind::SHARED_TEXT
                | kind::FLOAT
                | kind::TEXT
                | kind::TRUTH
                | kind::NUMBER => {
                    cells.push(book, Held { at: data.start, count: 1, last: None })?;
                }
                // Row, first column, numbers of six bytes each, last column.
                kind::NUMBERS => {
                    let numbers = data.len().checked_sub(6).filter(|it| it % 6 == 0)?;
                    let last = Some(data.end - 2);
                    cells.push(book, Held { at: data.start, count: numbers / 6, last })?;
                }
                _ => {}
            }
        }
        Some(cells)
    }

    fn push(&mut self, book: &[u8], held: Held) -> Option<()> {
        let (row, left) = (short(book, held.at)?, short(book, held.at + 2)?);
        let right = left.checked_add(held.more()?)?;
        let lies = held.last.is_some_and(|it| short(book, it) != Some(right));
        if lies || held.count > WIDE {
            return None;
        }
        self.rows = Some(widened(self.rows, row, row));
        self.columns = Some(widened(self.columns, left, right));
        self.records.push(held);
        Some(())
    }

    /// Places of a table from the first cell to the last.
    fn area(&self) -> u64 {
        let length = |span: Option<(u16, u16)>| {
            span.map_or(0, |(first, last)| u64::from(last) - u64::from(first) + 1)
        };
        length(self.rows) * length(self.columns)
    }

    /// Moves the cells into neighbouring places, and tells where they were; nothing where they are too many.
    fn close_up(&self, book: &mut [u8]) -> Option<Places> {
        let mut places = Places::new();
        let mut targets = Vec::with_capacity(self.records.len());
        for held in &self.records {
            let (row, left) = (short(book, held.at)?, short(book, held.at + 2)?);
            if places.len() % WIDE + held.count > WIDE {
                places.resize(places.len().next_multiple_of(WIDE), (0, 0));
            }
            targets.push(place(places.len())?);
            places.extend((left..=left + held.more()?).map(|column| (row, column)));
        }
        for (held, (row, left)) in self.records.iter().zip(targets) {
            put(book, held.at, row);
            put(book, held.at + 2, left);
            if let (Some(last), Some(more)) = (held.last, held.more()) {
                put(book, last, left + more);
            }
        }
        let rows = u16::try_from(places.len().div_ceil(WIDE)).unwrap_or(u16::MAX);
        for extent in &self.extents {
            // First row, the one after the last, and columns likewise. Rows take four bytes from Excel 97 on.
            let fields = if extent.len() >= 14 { [0, 4, 8, 10] } else { [0, 2, 4, 6] };
            for (field, value) in fields.into_iter().zip([0, rows, 0, WIDE as u16]) {
                put(book, extent.start + field, value);
            }
            if extent.len() >= 14 {
                put(book, extent.start + 2, 0);
                put(book, extent.start + 6, 0);
            }
        }
        Some(places)
    }
}

impl Held {
    /// Cells after the first.
    fn more(&self) -> Option<u16> {
        u16::try_from(self.count.checked_sub(1)?).ok()
    }
}

/// Row and column of a place in the table that cells are gathered into.
fn place(index: usize) -> Option<(u16, u16)> {
    Some((u16::try_from(index / WIDE).ok()?, u16::try_from(index % WIDE).ok()?))
}

fn widened(span: Option<(u16, u16)>, low: u16, high: u16) -> (u16, u16) {
    span.map_or((low, high), |(first, last)| (first.min(low), last.max(high)))
}

#[cfg(test)]
mod tests;
