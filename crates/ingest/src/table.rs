//! Rows of cells to blocks: names of columns above every part, a summary of what the columns hold, and numbers told
//! apart from words.
//!
//! A run of rows without a blank one between is a region, with names of its own if it begins with some. Its rows become
//! one block, a row on each line, so that a part of it knows its rows; whoever cuts it repeats the names.

use std::collections::{BTreeMap, HashSet};

use riddle_types::{Block, BlockKind, Document, Location};

use crate::remark::Remark;

/// Most text of tables that is read from one file, in MiB: some three thousand passages. A workbook of measurements is
/// found by its first rows and its summary.
pub(crate) const MOST_MIB: usize = 2;

const MOST_BYTES: usize = MOST_MIB << 20;

/// Rows from which on a region has a summary: fewer say themselves what they are.
const SUMMARY_FROM: usize = 8;

/// Most columns a summary speaks of.
const SUMMARY_COLUMNS: usize = 40;

/// Share of letters below which rows are numbers: of `2026-03-04 | flour | 312.50` a quarter is.
const LETTERS: f64 = 0.15;

/// Below this share of filled cells a row names the column of each cell instead of leaving places empty.
const SPARSE: f64 = 0.4;

/// Longest text that can be the name of a column, in characters.
const LONGEST_NAME: usize = 60;

/// A cell that is not empty.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    /// From 1.
    pub(crate) column: u32,
    pub(crate) text: String,
    pub(crate) value: Value,
}

/// What a cell's text stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    Text,
    Number(f64),
    /// A day, `YYYY-MM-DD` at the beginning of the text.
    Date,
}

/// Cells of one row, by column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// From 1.
    pub(crate) number: u32,
    pub(crate) cells: Vec<Cell>,
}

/// How places in a table are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Places {
    Cells,
    Rows,
}

/// Makes blocks of rows, for all tables of a file.
pub(crate) struct Tables<'a> {
    document: &'a mut Document,
    places: Places,
    bytes: usize,
}

impl<'a> Tables<'a> {
    pub(crate) fn new(document: &'a mut Document, places: Places) -> Tables<'a> {
        Tables { document, places, bytes: 0 }
    }

    /// Whether the file has had its share: its further rows are not read.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= MOST_BYTES
    }

    /// The document, for what stands beside the rows.
    pub(crate) fn document(&mut self) -> &mut Document {
        self.document
    }

    /// The rows of one sheet, ascending, those without cells left out.
    pub(crate) fn sheet(&mut self, sheet: &str, rows: &[Row]) {
        let mut names: Option<Names> = None;
        let mut start = 0;
        while start < rows.len() && !self.is_full() {
            let mut end = start + 1;
            while end < rows.len() && rows[end].number == rows[end - 1].number + 1 {
                end += 1;
            }
            names = self.region(sheet, &rows[start..end], names.take());
            start = end;
        }
        let rest = rows.get(start).filter(|_| self.is_full());
        if let Some(row) = rest {
            self.stopped(from_row(sheet, row.number));
        }
    }

    /// Notes that a part of the file is not read because it has had its share.
    pub(crate) fn stopped(&mut self, why: Remark) {
        let warning = why.to_string();
        if !self.document.warnings.contains(&warning) {
            self.document.warnings.push(warning);
        }
    }

    /// A run of rows; `former` are the names of the region above, which hold on if this one has none and lies below it.
    fn region(&mut self, sheet: &str, rows: &[Row], former: Option<Names>) -> Option<Names> {
        let columns: HashSet<u32> =
            rows.iter().flat_map(|it| &it.cells).map(|it| it.column).collect();
        let mut rows = rows;
        // A line across a table is its title, a remark below it, or a note.
        while columns.len() > 1
            && let Some((first, rest)) = rows.split_first()
            && let [only] = first.cells.as_slice()
            && only.value == Value::Text
        {
            let location = self.location(sheet, std::slice::from_ref(first));
            self.push(BlockKind::Paragraph, only.text.clone(), location, String::new());
            rows = rest;
        }
        let own = Names::of(rows);
        if own.is_some() {
            rows = &rows[1..];
        }
        let names = own.or_else(|| {
            former.filter(|names| columns.iter().all(|it| names.by_column.contains_key(it)))
        });
        if rows.is_empty() {
            // Names alone are all there is.
            if let Some(names) = &names {
                let location = names.location(self.places, sheet);
                self.push(BlockKind::Table, names.line(), location, String::new());
            }
            return names;
        }
        if rows.len() >= SUMMARY_FROM {
            let location = self.location(sheet, rows);
            self.push(
                BlockKind::Paragraph,
                summary(sheet, rows, names.as_ref()),
                location,
                String::new(),
            );
        }
        self.rows(sheet, rows, names.as_ref());
        names
    }

    fn rows(&mut self, sheet: &str, rows: &[Row], names: Option<&Names>) {
        /// Rows that become numbers or words together.
        const RUN: usize = 50;
        let left =
            rows.iter().filter_map(|it| it.cells.first()).map(|it| it.column).min().unwrap_or(1);
        let right =
            rows.iter().filter_map(|it| it.cells.last()).map(|it| it.column).max().unwrap_or(1);
        let header = names.map(|it| it.between(left, right)).unwrap_or_default();
        for run in rows.chunks(RUN) {
            if self.is_full() {
                self.stopped(from_row(sheet, run[0].number));
                return;
            }
            let lines: Vec<String> = run.iter().map(|it| line(it, left, right, names)).collect();
            let text = lines.join("\n");
            let kind = if numeric(&text) { BlockKind::Numbers } else { BlockKind::Table };
            let location = match self.places {
                Places::Rows => self.location(sheet, run),
                Places::Cells => Location::Cells {
                    sheet: sheet.to_owned(),
                    left,
                    top: run[0].number,
                    right,
                    bottom: run[run.len() - 1].number,
                },
            };
            self.push(kind, text, location, header.clone());
        }
    }

    fn push(&mut self, kind: BlockKind, text: String, location: Location, header: String) {
        if !text.chars().any(char::is_alphanumeric) {
            return;
        }
        self.bytes += text.len();
        self.document.blocks.push(Block { kind, text, location, header });
    }

    fn location(&self, sheet: &str, rows: &[Row]) -> Location {
        let (start, end) = match rows {
            [] => (1, 1),
            [first, ..] => (first.number, rows[rows.len() - 1].number),
        };
        match self.places {
            Places::Rows => Location::Rows { sheet: sheet.to_owned(), start, end },
            Places::Cells => {
                let columns = || rows.iter().flat_map(|it| &it.cells).map(|it| it.column);
                Location::Cells {
                    sheet: sheet.to_owned(),
                    left: columns().min().unwrap_or(1),
                    top: start,
                    right: columns().max().unwrap_or(1),
                    bottom: end,
                }
            }
        }
    }
}

fn from_row(sheet: &str, row: u32) -> Remark {
    if sheet.is_empty() {
        Remark::CellsFromRow { row, mib: MOST_MIB }
    } else {
        Remark::CellsFromRowOf { row, sheet: sheet.to_owned(), mib: MOST_MIB }
    }
}

/// The names of a region's columns.
#[derive(Debug, Clone)]
struct Names {
    row: u32,
    by_column: BTreeMap<u32, String>,
}

impl Names {
    /// The first row, if it names what the rows below it hold: words and years, each once, in nearly all columns.
    fn of(rows: &[Row]) -> Option<Names> {
        let (first, below) = rows.split_first()?;
        let year =
            |it: &Cell| matches!(it.value, Value::Number(n) if (1900.0..2100.0).contains(&n));
        let text = |it: &Cell| it.value == Value::Text && it.text.chars().count() <= LONGEST_NAME;
        let named = first.cells.iter().all(|it| text(it) || year(it))
            && first.cells.iter().any(text)
            && first.cells.len() >= 2;
        let once: HashSet<&str> = first.cells.iter().map(|it| it.text.as_str()).collect();
        let widest = below.iter().take(50).map(|it| it.cells.len()).max().unwrap_or(0);
        if !named || once.len() < first.cells.len() || first.cells.len() * 3 < widest * 2 {
            return None;
        }
        let by_column = first.cells.iter().map(|it| (it.column, it.text.clone())).collect();
        Some(Names { row: first.number, by_column })
    }

    /// The names of the columns from `left` to `right`, as a row of the table.
    fn between(&self, left: u32, right: u32) -> String {
        let name = |it| self.by_column.get(&it).map_or("", String::as_str);
        (left..=right.min(left.saturating_add(MOST_COLUMNS)))
            .map(name)
            .collect::<Vec<_>>()
            .join(" | ")
    }

    fn line(&self) -> String {
        self.by_column.values().map(String::as_str).collect::<Vec<_>>().join(" | ")
    }

    fn location(&self, places: Places, sheet: &str) -> Location {
        let (sheet, row) = (sheet.to_owned(), self.row);
        match places {
            Places::Rows => Location::Rows { sheet, start: row, end: row },
            Places::Cells => Location::Cells {
                sheet,
                left: self.by_column.keys().next().copied().unwrap_or(1),
                top: row,
                right: self.by_column.keys().next_back().copied().unwrap_or(1),
                bottom: row,
            },
        }
    }
}

/// Most columns of a row that keep their places; a cell beyond names its column.
const MOST_COLUMNS: u32 = 64;

/// A row on one line: by places where most are filled, else each cell with the name of its column.
fn line(row: &Row, left: u32, right: u32, names: Option<&Names>) -> String {
    let width = f64::from(right - left + 1);
    let sparse = row.cells.len() as f64 / width < SPARSE || right - left > MOST_COLUMNS;
    if sparse {
        let cell = |it: &Cell| match names.and_then(|names| names.by_column.get(&it.column)) {
            Some(name) => format!("{name}: {}", it.text),
            None => it.text.clone(),
        };
        return row.cells.iter().map(cell).collect::<Vec<_>>().join(" | ");
    }
    let mut cells = row.cells.iter().peekable();
    let mut texts = Vec::new();
    for column in left..=right {
        texts.push(cells.next_if(|it| it.column == column).map_or("", |it| it.text.as_str()));
    }
    // Places behind the last cell say nothing.
    texts.join(" | ").trim_end_matches([' ', '|']).to_owned()
}

/// Whether a text is nearly all numbers. Names of months, which dates are given, do not count.
pub(crate) fn numeric(text: &str) -> bool {
    let letters = text.chars().filter(|it| it.is_alphabetic()).count();
    let months: usize = text.split('(').skip(1).filter_map(month_length).sum();
    let all = text.chars().filter(|it| !it.is_whitespace() && *it != '|').count();
    all > 0 && (letters.saturating_sub(months) as f64) < LETTERS * all.saturating_sub(months) as f64
}

fn month_length(text: &str) -> Option<usize> {
    let word = text.split(')').next()?;
    MONTHS.contains(&word).then_some(word.len())
}

/// What the columns of a region hold, in a sentence for each.
fn summary(sheet: &str, rows: &[Row], names: Option<&Names>) -> String {
    let mut columns: BTreeMap<u32, Vec<&Cell>> = BTreeMap::new();
    for cell in rows.iter().flat_map(|it| &it.cells) {
        columns.entry(cell.column).or_default().push(cell);
    }
    let of = if sheet.is_empty() { "Table".to_owned() } else { sheet.to_owned() };
    let mut text = format!("{of}: {} rows.", rows.len());
    for (column, cells) in columns.iter().take(SUMMARY_COLUMNS) {
        let name = names
            .and_then(|it| it.by_column.get(column).cloned())
            .unwrap_or_else(|| format!("column {}", riddle_types::column_letters(*column)));
        text.push_str(&format!(" {name}: {}.", holds(cells)));
    }
    text
}

/// What the cells of a column are: numbers and days from where to where, or some of the words.
fn holds(cells: &[&Cell]) -> String {
    let numbers = || {
        cells.iter().filter_map(|it| match it.value {
            Value::Number(number) => Some((number, it.text.as_str())),
            _ => None,
        })
    };
    let least = numbers().min_by(|a, b| a.0.total_cmp(&b.0));
    let most = numbers().max_by(|a, b| a.0.total_cmp(&b.0));
    if let (Some(least), Some(most)) = (least, most)
        && numbers().count() * 2 > cells.len()
    {
        return format!("numbers from {} to {}", least.1, most.1);
    }
    let days = || cells.iter().filter(|it| it.value == Value::Date).map(|it| it.text.as_str());
    if let (Some(first), Some(last)) = (days().min(), days().max())
        && days().count() * 2 > cells.len()
    {
        return format!("dates from {first} to {last}");
    }
    let mut words: Vec<&str> = Vec::new();
    for cell in cells.iter().filter(|it| it.text.chars().count() <= 40) {
        if words.len() < 5 && !words.contains(&cell.text.as_str()) {
            words.push(&cell.text);
        }
    }
    if words.is_empty() { "text".to_owned() } else { words.join(", ") }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A cell of a text: what it stands for is told from its form. A day gets the name of its month, which is what people
/// ask for.
pub(crate) fn cell(column: u32, text: &str) -> Option<Cell> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        return None;
    }
    if let Some(month) = month_of(&text) {
        return Some(Cell { column, text: format!("{text} ({month})"), value: Value::Date });
    }
    let value = number_of(&text).map_or(Value::Text, Value::Number);
    Some(Cell { column, text, value })
}

/// A number as people write it: `1,234.50`, `1.234,50`, `€ 12`, `17 %`.
fn number_of(text: &str) -> Option<f64> {
    let bare = text.trim_matches(|it: char| "€$£¥% ".contains(it));
    if bare.is_empty() || !bare.chars().all(|it| it.is_ascii_digit() || "+-.,' eE".contains(it)) {
        return None;
    }
    let bare: String = bare.chars().filter(|it| !" '".contains(*it)).collect();
    let decimal = match (bare.rfind('.'), bare.rfind(',')) {
        (Some(dot), Some(comma)) if comma > dot => bare.replace('.', "").replace(',', "."),
        (None, Some(_)) if bare.matches(',').count() == 1 => bare.replace(',', "."),
        _ => bare.replace(',', ""),
    };
    decimal.parse().ok().filter(|it: &f64| it.is_finite())
}

/// The month of a day: `2026-03-04`, `2026/3/4`, `4.3.2026`, each maybe with a time behind it. Where month and day
/// could be either way round nobody guesses.
pub(crate) fn month_of(text: &str) -> Option<&'static str> {
    let day = text.split([' ', 'T']).next()?;
    let mark = ['-', '/', '.'].into_iter().find(|it| day.contains(*it))?;
    let parts: Vec<u32> = day.split(mark).map(|it| it.parse().ok()).collect::<Option<_>>()?;
    let [a, b, c] = parts.as_slice() else { return None };
    let years = 1000..3000;
    let (month, day) = match mark {
        '-' | '/' if years.contains(a) => (*b, *c),
        '.' if years.contains(c) => (*b, *a),
        _ => return None,
    };
    (1..=31).contains(&day).then_some(())?;
    MONTHS.get((month as usize).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(table: &[&[&str]]) -> Vec<Row> {
        let row = |(texts, number): (&&[&str], u32)| Row {
            number,
            cells: texts.iter().zip(1..).filter_map(|(text, column)| cell(column, text)).collect(),
        };
        table.iter().zip(1..).map(row).filter(|it| !it.cells.is_empty()).collect()
    }

    fn blocks(table: &[&[&str]]) -> Document {
        let mut document = Document::default();
        Tables::new(&mut document, Places::Cells).sheet("Flour", &rows(table));
        document
    }

    #[test]
    fn days_have_the_name_of_their_month() {
        let text = |it: &str| cell(1, it).map(|it| (it.text, it.value));
        assert_eq!(text("2026-03-04"), Some(("2026-03-04 (March)".to_owned(), Value::Date)));
        assert_eq!(
            text("4.3.2026 10:00"),
            Some(("4.3.2026 10:00 (March)".to_owned(), Value::Date))
        );
        assert_eq!(text("03/04/2026").map(|it| it.1), Some(Value::Text), "March or April");
        assert_eq!(text("1.234,50").map(|it| it.1), Some(Value::Number(1234.5)));
        assert_eq!(text("€ 1,234.50").map(|it| it.1), Some(Value::Number(1234.5)));
        assert_eq!(text("2026-13-04").map(|it| it.1), Some(Value::Text));
        assert_eq!(text(" \n"), None);
    }

    #[test]
    fn names_of_columns_stand_above_the_rows_and_a_title_before_them() {
        let document = blocks(&[
            &["Purchases of the bakery"],
            &["Date", "Item", "Paid"],
            &["2026-03-04", "Flour", "312.50"],
            &["2026-03-09", "Salt", "8"],
            &[],
            &["2026-04-02", "Rye", "40"],
        ]);
        let seen: Vec<_> = document
            .blocks
            .iter()
            .map(|it| (it.header.as_str(), it.text.as_str(), it.location.to_string()))
            .collect();
        assert_eq!(
            seen,
            [
                ("", "Purchases of the bakery", "Flour!A1".to_owned()),
                (
                    "Date | Item | Paid",
                    "2026-03-04 (March) | Flour | 312.50\n2026-03-09 (March) | Salt | 8",
                    "Flour!A3:C4".to_owned()
                ),
                ("Date | Item | Paid", "2026-04-02 (April) | Rye | 40", "Flour!A6:C6".to_owned()),
            ]
        );
    }

    #[test]
    fn numbers_are_told_apart_and_long_tables_are_summed_up() {
        let line: Vec<[String; 3]> =
            (0..20).map(|n| [n.to_string(), format!("{}.5", n * n), "0.25".to_owned()]).collect();
        let lines: Vec<Vec<&str>> =
            line.iter().map(|it| it.iter().map(String::as_str).collect()).collect();
        let mut table: Vec<&[&str]> = vec![&["run", "speed", "error"]];
        table.extend(lines.iter().map(Vec::as_slice));
        let document = blocks(&table);
        let kinds: Vec<_> = document.blocks.iter().map(|it| it.kind.clone()).collect();
        assert_eq!(kinds, [BlockKind::Paragraph, BlockKind::Numbers]);
        let summary = &document.blocks[0].text;
        assert!(summary.starts_with("Flour: 20 rows."), "{summary}");
        assert!(summary.contains("speed: numbers from 0.5 to 361.5."), "{summary}");
        assert!(!numeric("2026-03-04 (March) | Flour | 312.50"));
        assert!(numeric("2026-03-04 (March) | 312.50"));
    }

    #[test]
    fn sparse_rows_say_which_column_a_cell_is_of() {
        let document = blocks(&[
            &["Name", "Street", "Town", "Phone", "Mail", "Note"],
            &["Ann", "", "", "", "", "calls on Friday"],
            &["Ben", "Malthouse Row 3", "Wells", "0174", "ben@example.org", "x"],
        ]);
        let text = &document.blocks[0].text;
        assert!(text.starts_with("Name: Ann | Note: calls on Friday\nBen | Malthouse"), "{text}");
    }

    #[test]
    fn a_file_has_a_share_and_says_where_it_ended() {
        let words = "flour and salt ".repeat(200);
        let many: Vec<Row> = (1..2000)
            .map(|number| Row { number, cells: cell(1, &words).into_iter().collect() })
            .collect();
        let mut document = Document::default();
        Tables::new(&mut document, Places::Rows).sheet("", &many);
        let bytes: usize = document.blocks.iter().map(|it| it.text.len()).sum();
        assert!(bytes < MOST_BYTES + (1 << 18), "{bytes}");
        assert_eq!(document.warnings.len(), 1, "{:?}", document.warnings);
        assert!(document.warnings[0].contains("nothing is read"), "{:?}", document.warnings);
    }
}
