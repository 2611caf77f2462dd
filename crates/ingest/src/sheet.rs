//! Spreadsheets and files of separated values: their cells, read a row at a time.

mod pictures;
mod scattered;

use std::{
    collections::BTreeMap,
    io::{Cursor, Read, Seek},
};

use calamine::{Data, DataRef, Reader, Sheet, SheetType, SheetVisible, Xls, Xlsb, Xlsx};
use riddle_types::{Block, BlockKind, Document, Location};

pub(crate) use pictures::pictures;
use scattered::{FAR, Gathered};

use crate::{
    outcome::ParseOutcome,
    remark::Remark,
    table::{Cell, MOST_MIB, Places, Row, Tables, Value, cell},
    text::decode,
};

/// Most rows of one sheet: what is beyond is said to be.
const MOST_ROWS: usize = 100_000;

/// Most cells of a row.
const MOST_CELLS: usize = 4096;

/// Most names of ranges that are listed.
const MOST_NAMES: usize = 200;

/// Reads a workbook or separated values; `extension` tells which.
pub(crate) fn parse(extension: &str, bytes: &[u8]) -> Option<ParseOutcome> {
    Some(match extension {
        "csv" | "tsv" | "tab" | "psv" => ParseOutcome::Parsed(separated(extension, bytes)),
        "xlsx" | "xlsm" | "xltx" | "xltm" => workbook::<Xlsx<_>, _>(bytes, xlsx_rows),
        "xls" | "xlt" => old_workbook(bytes, FAR),
        "xlsb" => workbook::<Xlsb<_>, _>(bytes, xlsb_rows),
        "ods" | "ots" => workbook::<calamine::Ods<_>, _>(bytes, dense_rows),
        _ => return None,
    })
}

/// Whether [`pictures`] knows where pictures lie in such files.
pub(crate) fn has_pictures(extension: &str) -> bool {
    const KNOWN: [&str; 10] =
        ["xlsx", "xlsm", "xltx", "xltm", "xlsb", "xls", "xlt", "ods", "ots", "fods"];
    KNOWN.contains(&extension)
}

type Bytes<'a> = Cursor<&'a [u8]>;

/// A workbook of the old format; cells that are `far` apart are gathered first.
fn old_workbook(bytes: &[u8], far: u64) -> ParseOutcome {
    let Some(gathered) = Gathered::of(bytes, far) else {
        return workbook::<Xls<_>, _>(bytes, dense_rows);
    };
    workbook::<Xls<_>, _>(&gathered.bytes, |book, name| {
        let rows = dense_rows(book, name)?;
        // Of two sheets with one name the library keeps the later.
        let sheet = book.sheets_metadata().iter().rposition(|it| it.name == name);
        Ok(sheet.map_or(Rows { rows: Vec::new(), cut: false }, |it| gathered.scatter(it, rows)))
    })
}

fn workbook<'a, R, F>(bytes: &'a [u8], rows_of: F) -> ParseOutcome
where
    R: Reader<Bytes<'a>>,
    R::Error: std::fmt::Display,
    F: Fn(&mut R, &str) -> Result<Rows, String>,
{
    let mut book = match R::new(Cursor::new(bytes)) {
        Ok(book) => book,
        Err(error) => {
            let why = error.to_string();
            return ParseOutcome::Failed(if why.contains("password") {
                Remark::Password.into()
            } else {
                Remark::Unparsed(why).into()
            });
        }
    };
    let sheets: Vec<Sheet> = book.sheets_metadata().to_vec();
    let ranges: Vec<(String, String)> = book.defined_names().to_vec();
    let mut document = Document::default();
    let mut tables = Tables::new(&mut document, Places::Cells);
    let (mut hidden, mut read, mut broken) = (0, 0, Vec::<String>::new());
    for sheet in sheets.iter().filter(|it| it.typ == SheetType::WorkSheet) {
        if sheet.visible != SheetVisible::Visible {
            hidden += 1;
            continue;
        }
        if tables.is_full() {
            tables.stopped(Remark::CellsFromSheet { sheet: sheet.name.clone(), mib: MOST_MIB });
            break;
        }
        match rows_of(&mut book, &sheet.name) {
            Ok(rows) => {
                read += 1;
                one_sheet(&mut tables, &sheet.name, &rows, &ranges);
            }
            Err(why) => broken.push(Remark::Sheet { sheet: sheet.name.clone(), why }.into()),
        }
    }
    if read == 0 && !broken.is_empty() {
        return ParseOutcome::Failed(broken.swap_remove(0));
    }
    document.warnings.extend(broken);
    if hidden > 0 {
        document.warnings.push(Remark::HiddenSheets { count: hidden }.into());
    }
    ParseOutcome::Parsed(document)
}

/// What a sheet holds, and from which row on it was not read.
struct Rows {
    rows: Vec<Row>,
    cut: bool,
}

fn one_sheet(tables: &mut Tables<'_>, name: &str, sheet: &Rows, ranges: &[(String, String)]) {
    let (Some(first), Some(last)) = (sheet.rows.first(), sheet.rows.last()) else { return };
    let columns = || sheet.rows.iter().flat_map(|it| &it.cells).map(|it| it.column);
    let whole = Location::Cells {
        sheet: name.to_owned(),
        left: columns().min().unwrap_or(1),
        top: first.number,
        right: columns().max().unwrap_or(1),
        bottom: last.number,
    };
    tables.document().blocks.push(Block::new(
        BlockKind::Heading(1),
        name.to_owned(),
        whole.clone(),
    ));
    let named: Vec<String> = ranges
        .iter()
        .filter(|(it, target)| !it.starts_with('_') && belongs(target, name))
        .take(MOST_NAMES)
        .map(|(it, target)| format!("{it} is {}", target.replace('$', "")))
        .collect();
    if !named.is_empty() {
        let text = format!("Named ranges: {}.", named.join("; "));
        tables.document().blocks.push(Block::new(BlockKind::Paragraph, text, whole));
    }
    tables.sheet(name, &sheet.rows);
    if sheet.cut {
        let row = last.number + 1;
        let warning = Remark::RowsOfSheet { row, sheet: name.to_owned(), most: MOST_ROWS };
        tables.document().warnings.push(warning.into());
    }
}

/// Whether a range such as `'Flour 2026'!$B$2:$B$9` lies on the sheet.
fn belongs(target: &str, sheet: &str) -> bool {
    target.rsplit_once('!').is_some_and(|(of, _)| of.trim_matches('\'') == sheet)
}

fn xlsx_rows<RS: Read + Seek>(book: &mut Xlsx<RS>, name: &str) -> Result<Rows, String> {
    let mut reader = book.worksheet_cells_reader(name).map_err(|it| it.to_string())?;
    rows_of(|| reader.next_cell().map_err(|it| it.to_string()))
}

fn xlsb_rows<RS: Read + Seek>(book: &mut Xlsb<RS>, name: &str) -> Result<Rows, String> {
    let mut reader = book.worksheet_cells_reader(name).map_err(|it| it.to_string())?;
    rows_of(|| reader.next_cell().map_err(|it| it.to_string()))
}

/// Cells as they come: a sheet whose only two cells lie in opposite corners costs two cells.
fn rows_of<'a>(
    mut next: impl FnMut() -> Result<Option<calamine::Cell<DataRef<'a>>>, String>,
) -> Result<Rows, String> {
    let mut rows: Vec<Row> = Vec::new();
    loop {
        let next = match next() {
            Ok(Some(next)) => next,
            Ok(None) => break,
            // What was read before the damage is good.
            Err(error) if rows.is_empty() => return Err(error),
            Err(_) => break,
        };
        let (row, column) = next.get_position();
        let value = match next.get_value() {
            DataRef::Empty => continue,
            value => Data::from(value.clone()),
        };
        let Some(cell) = cell_of(column + 1, &value) else { continue };
        if rows.last().is_none_or(|it| it.number != row + 1) {
            if rows.len() >= MOST_ROWS {
                return Ok(Rows { rows, cut: true });
            }
            rows.push(Row { number: row + 1, cells: Vec::new() });
        }
        if let Some(last) = rows.last_mut().filter(|it| it.cells.len() < MOST_CELLS) {
            last.cells.push(cell);
        }
    }
    // A file may list them in any order.
    rows.sort_by_key(|it| it.number);
    rows.dedup_by(|late, early| {
        let same = late.number == early.number;
        if same {
            early.cells.append(&mut late.cells);
        }
        same
    });
    for row in &mut rows {
        row.cells.sort_by_key(|it| it.column);
    }
    Ok(Rows { rows, cut: false })
}

fn dense_rows<'a, R>(book: &mut R, name: &str) -> Result<Rows, String>
where
    R: Reader<Bytes<'a>>,
    R::Error: std::fmt::Display,
{
    let range = book.worksheet_range(name).map_err(|it| it.to_string())?;
    let (top, left) = range.start().unwrap_or((0, 0));
    let mut rows = Vec::new();
    for (values, number) in range.rows().zip(top + 1..) {
        let cells: Vec<Cell> = values
            .iter()
            .zip(left + 1..)
            .filter_map(|(value, column)| cell_of(column, value))
            .take(MOST_CELLS)
            .collect();
        if cells.is_empty() {
            continue;
        }
        if rows.len() >= MOST_ROWS {
            return Ok(Rows { rows, cut: true });
        }
        rows.push(Row { number, cells });
    }
    Ok(Rows { rows, cut: false })
}

fn cell_of(column: u32, value: &Data) -> Option<Cell> {
    match value {
        Data::Empty => None,
        Data::String(text) => cell(column, text),
        Data::Int(number) => number_cell(column, *number as f64),
        Data::Float(number) => number_cell(column, *number),
        Data::Bool(truth) => cell(column, if *truth { "yes" } else { "no" }),
        Data::DateTime(time) if time.is_duration() => number_cell(column, time.as_f64() * 24.0),
        Data::DateTime(time) => cell(column, &day(&time.as_datetime()?.to_string())),
        Data::DateTimeIso(text) => cell(column, &day(&text.replace('T', " "))),
        Data::DurationIso(text) => cell(column, text),
        Data::Error(_) => None,
    }
}

/// Without a time that is midnight, and without a day that is the beginning of the count.
fn day(time: &str) -> String {
    let time = time.strip_suffix(" 00:00:00").unwrap_or(time);
    let clock =
        ["1899-12-31 ", "1899-12-30 ", "1904-01-01 "].iter().find_map(|it| time.strip_prefix(it));
    clock.unwrap_or(time).to_owned()
}

fn number_cell(column: u32, number: f64) -> Option<Cell> {
    if !number.is_finite() {
        return None;
    }
    // Twelve digits: what lies beyond is what binary makes of decimal fractions.
    let rounded: f64 = format!("{number:.11e}").parse().unwrap_or(number);
    let plain = rounded == 0.0 || (1e-6..1e15).contains(&rounded.abs());
    let text = if plain { rounded.to_string() } else { format!("{rounded:e}") };
    Some(Cell { column, text, value: Value::Number(number) })
}

/// Values with a mark between them; rows count as a spreadsheet would count them.
fn separated(extension: &str, bytes: &[u8]) -> Document {
    let (text, warning) = decode(bytes);
    let guess = || if extension == "csv" { delimiter(&text) } else { delimiter_of(extension) };
    let (delimiter, values) = said_delimiter(&text).unwrap_or_else(|| (guess(), &text));
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .flexible(true)
        .has_headers(false)
        .from_reader(values.as_bytes());
    let mut rows = Vec::new();
    let mut cut = false;
    for (record, number) in reader.records().zip(1..) {
        let Ok(record) = record else { continue };
        if rows.len() >= MOST_ROWS {
            cut = true;
            break;
        }
        let cells: Vec<Cell> = record
            .iter()
            .take(MOST_CELLS)
            .zip(1..)
            .filter_map(|(text, column)| cell(column, text))
            .collect();
        if !cells.is_empty() {
            rows.push(Row { number, cells });
        }
    }
    let mut document = Document::default();
    Tables::new(&mut document, Places::Rows).sheet("", &rows);
    document.warnings.extend(warning);
    if cut {
        document.warnings.push(Remark::Rows { most: MOST_ROWS }.into());
    }
    document
}

fn delimiter_of(extension: &str) -> u8 {
    if extension == "psv" { b'|' } else { b'\t' }
}

/// The mark that a first line `sep=;` names, which spreadsheet programs write and take for no row, and what follows it.
fn said_delimiter(text: &str) -> Option<(u8, &str)> {
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    let named = line.trim_end_matches('\r').trim_matches('"');
    let (key, mark) = named.split_at_checked(4)?;
    let mark = match mark.as_bytes() {
        &[mark] if mark.is_ascii() && !mark.is_ascii_alphanumeric() => mark,
        _ => return None,
    };
    key.eq_ignore_ascii_case("sep=").then_some((mark, rest))
}

/// The mark that cuts most of the first lines into the same number of values, more than one; of several the one that
/// makes the most. Not all lines: banks write the account and the days above the names of the columns.
fn delimiter(text: &str) -> u8 {
    let start: Vec<&str> = text.lines().filter(|it| !it.trim().is_empty()).take(20).collect();
    let marks_in = |line: &str, mark: u8| {
        let mut quoted = false;
        let is_mark = |&it: &u8| {
            quoted ^= it == b'"';
            it == mark && !quoted
        };
        line.as_bytes().iter().copied().filter(is_mark).count()
    };
    let fields = |mark: u8| {
        let mut lines: BTreeMap<usize, usize> = BTreeMap::new();
        for line in &start {
            *lines.entry(marks_in(line, mark)).or_default() += 1;
        }
        lines.remove(&0);
        lines.into_iter().map(|(marks, lines)| (lines, marks)).max().unwrap_or_default()
    };
    [b',', b';', b'\t', b'|']
        .into_iter()
        .max_by_key(|it| (fields(*it), *it == b','))
        .unwrap_or(b',')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(text: &str) -> Document {
        separated("csv", text.as_bytes())
    }

    #[test]
    fn marks_are_told_apart_and_rows_counted() {
        for mark in [",", ";", "\t", "|"] {
            let text = "Date,Item,Paid\n2026-03-04,Flour,312\n\n2026-03-05,\"Salt\n(sea)\",8\n"
                .replace(',', mark);
            let document = csv(&text);
            assert_eq!(document.blocks.len(), 1, "{mark}: {document:?}");
            let block = &document.blocks[0];
            assert_eq!(block.header, "Date | Item | Paid", "{mark}");
            assert_eq!(
                block.text,
                "2026-03-04 (March) | Flour | 312\n2026-03-05 (March) | Salt (sea) | 8"
            );
            assert_eq!(block.location.to_string(), "rows 2–3");
        }
        assert_eq!(csv("just one line").blocks[0].text, "just one line");
        assert!(csv("").blocks.is_empty());
    }

    #[test]
    fn lines_above_the_names_of_columns_hide_no_mark() {
        let rows = "Date;Item;Paid\n2026-03-04;Flour, rye;3,50\n2026-03-05;Salt;1,20\n";
        for above in ["Account of the bakery\n\n", "Account, of the bakery\nMarch, 2026\n\n"] {
            let document = csv(&format!("{above}{rows}"));
            let text: Vec<String> =
                document.blocks.iter().map(|it| format!("{} / {}", it.header, it.text)).collect();
            assert!(text.concat().contains("Date | Item | Paid"), "{text:?}");
            assert!(text.concat().contains("Flour, rye | 3"), "{text:?}");
        }
        assert_eq!(delimiter(rows), b';');
        assert_eq!(delimiter("a,b\n\"x;y;z\",2\n"), b',');
        assert_eq!(delimiter(""), b',');
    }

    #[test]
    fn a_first_line_that_names_the_mark_is_no_row() {
        for first in ["sep=;\r\n", "SEP=;\n", "\"sep=;\"\n", "\u{feff}sep=;\n"] {
            let document = csv(&format!("{first}Item;Paid\nFlour, rye;312\nSalt, sea;8\n"));
            let block = &document.blocks[0];
            assert_eq!(block.header, "Item | Paid", "{first:?}");
            assert_eq!(block.text, "Flour, rye | 312\nSalt, sea | 8");
            assert_eq!(block.location.to_string(), "rows 2–3");
        }
        assert_eq!(said_delimiter("sep=\t\na\tb"), Some((b'\t', "a\tb")));
        for plain in
            ["", "sep=", "sep=ab\n", "sep=a\n", "sep=é\n", "sepa;b\n", "separator\n", "日本語"]
        {
            assert_eq!(said_delimiter(plain), None, "{plain:?}");
        }
    }

    #[test]
    fn numbers_and_days_are_written_as_people_read_them() {
        let text = |it: f64| number_cell(1, it).map(|it| it.text).unwrap_or_default();
        assert_eq!(
            (text(0.1 + 0.2), text(312.5), text(2026.0)),
            ("0.3".into(), "312.5".into(), "2026".into())
        );
        assert_eq!(text(1e300), "1e300");
        assert_eq!(text(f64::NAN), "");
        assert_eq!(day("2026-03-04 00:00:00"), "2026-03-04");
        assert_eq!(day("1899-12-31 13:30:00"), "13:30:00");
        assert!(belongs("'Flour 2026'!$B$2", "Flour 2026") && !belongs("B2", "Flour 2026"));
    }

    #[test]
    fn damaged_workbooks_have_a_reason() {
        for extension in ["xlsx", "xls", "xlsb", "ods"] {
            let outcome = parse(extension, b"PK\x03\x04 no archive");
            assert!(
                matches!(&outcome, Some(ParseOutcome::Failed(why)) if !why.is_empty()),
                "{extension}: {outcome:?}"
            );
        }
    }
}
