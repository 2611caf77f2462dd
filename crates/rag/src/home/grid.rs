//! Rows of a sheet around a passage, as a table again.
//!
//! A passage of a table is its rows on lines, the names of the columns above them, cells with ` | ` between them; its
//! place says which rows these are. What can not be told apart with certainty stays a line: a wrong column is worse
//! than none.

use std::{collections::HashSet, ops::Range};

use riddle_catalog::ChunkRecord;
use riddle_types::Location;

/// Rows that are shown before and after those of the passage.
const AROUND: usize = 40;

/// Most rows that are shown. A passage has a few dozen; what sums a table up may speak of thousands.
const MOST_ROWS: usize = 200;

/// Most columns that are shown.
const MOST_COLUMNS: usize = 100;

/// Between the cells of a row, as reading a table writes them.
const BETWEEN: &str = " | ";

/// A part of a sheet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grid {
    /// The sheet's name; empty where the format has none.
    pub sheet: String,
    /// The first column, from 1; `None` where columns have no letters, or which ones is not known.
    pub left: Option<u32>,
    /// Names of the columns; empty: they have none.
    pub names: Vec<String>,
    /// What the passage says besides its rows: a title, a sum of what the columns hold.
    pub notes: Vec<String>,
    /// The rows, ascending.
    pub rows: Vec<GridRow>,
    /// The sheet has rows before these.
    pub more_above: bool,
    /// The sheet has rows after these.
    pub more_below: bool,
    /// Columns that are left out on the right.
    pub columns_left_out: usize,
}

/// A row of a [`Grid`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GridRow {
    /// From 1, as the sheet counts.
    pub number: u32,
    /// Its cells, one for each column; a single one where they can not be told apart.
    pub cells: Vec<String>,
    /// The single cell is the whole row.
    pub whole: bool,
    /// It belongs to the passage.
    pub cited: bool,
}

/// Where on a sheet a passage is.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Place<'a> {
    /// The file in the file; empty for the file itself.
    part: &'a str,
    sheet: &'a str,
    top: u32,
    bottom: u32,
    columns: Option<(u32, u32)>,
}

impl Place<'_> {
    fn of(location: &Location) -> Option<Place<'_>> {
        match location {
            Location::Rows { sheet, start, end } => {
                Some(Place { part: "", sheet, top: *start, bottom: *end, columns: None })
            }
            Location::Cells { sheet, left, top, right, bottom } => {
                let columns = Some((*left, *right));
                Some(Place { part: "", sheet, top: *top, bottom: *bottom, columns })
            }
            Location::Part { name, inside } => {
                Place::of(inside).map(|it| Place { part: name, ..it })
            }
            _ => None,
        }
    }

    fn rows(&self) -> usize {
        (self.bottom.saturating_sub(self.top) as usize).saturating_add(1)
    }

    fn cites(&self, row: u32) -> bool {
        (self.top..=self.bottom).contains(&row)
    }
}

/// What a passage of a table says.
#[derive(Debug, Default)]
struct Read<'a> {
    notes: Vec<&'a str>,
    names: Option<&'a str>,
    rows: Vec<(u32, &'a str)>,
    /// The first column and how many there are, where the place tells those of the rows.
    columns: Option<(u32, usize)>,
}

/// The rows around a passage; `None` where it has none, or which ones they are is not certain. `passages` are those of
/// its file in their order.
pub(crate) fn grid(passages: &[ChunkRecord], current: u64) -> Option<Grid> {
    let at = passages.iter().position(|it| it.id.0 == current)?;
    let place = Place::of(&passages[at].location)?;
    let on_sheet = |it: &Place<'_>| it.part == place.part && it.sheet == place.sheet;
    let reads: Vec<Option<Read<'_>>> = passages
        .iter()
        .map(|it| Place::of(&it.location).filter(on_sheet).and_then(|place| read(&it.text, &place)))
        .collect();
    let own = reads[at].as_ref()?;
    // What sums a table up stands before its rows.
    let base = if own.rows.is_empty() { at + 1 } else { at };
    let first = reads.get(base)?.as_ref()?;
    first.rows.first().filter(|it| place.cites(it.0))?;
    let run = run(&reads, base);
    let columns = reads[run.clone()].iter().flatten().find_map(|it| it.columns);
    let lines = joined(&reads[run]);
    let kept = bounds(&lines, &place);
    let shape = Shape::of(&lines[kept.clone()], first.names, columns);
    let row = |(number, line): &(u32, String)| {
        let (cells, whole) = shape.cells(line);
        GridRow { number: *number, cells, whole, cited: place.cites(*number) }
    };
    Some(Grid {
        sheet: place.sheet.to_owned(),
        left: shape.left,
        names: shape.names.iter().take(MOST_COLUMNS).map(|it| (*it).to_owned()).collect(),
        notes: own.notes.iter().map(|it| (*it).to_owned()).collect(),
        rows: lines[kept.clone()].iter().map(row).collect(),
        more_above: kept.start > 0,
        more_below: kept.end < lines.len(),
        columns_left_out: shape.width.saturating_sub(MOST_COLUMNS),
    })
}

/// What of a passage's text is rows, and which.
fn read<'a>(text: &'a str, place: &Place<'_>) -> Option<Read<'a>> {
    let parts: Vec<&str> = text.split("\n\n").filter(|it| !it.trim().is_empty()).collect();
    let is_rows = |it: &str| {
        !sums_up(it, place) && (it.contains('\n') || it.contains(BETWEEN) || parts.len() == 1)
    };
    let (first, last) = (parts.first()?, parts.last()?);
    // Rows stand at the upper end of the place or at the lower; of others nobody knows.
    let (lines, from_below): (Vec<&str>, bool) = match (is_rows(last), is_rows(first)) {
        (true, _) => (last.lines().collect(), true),
        (false, true) => (first.lines().collect(), false),
        (false, false) => return Some(Read { notes: parts, ..Read::default() }),
    };
    let alone = parts.len() == 1;
    let named = match alone {
        true if lines.len() == place.rows() => false,
        true if lines.len() == place.rows().saturating_add(1) => true,
        true => return None,
        false => names_columns(&lines),
    };
    let (names, lines) = match named {
        true => (lines.first().copied(), &lines[1..]),
        false => (None, lines.as_slice()),
    };
    if lines.len() > place.rows() {
        return None;
    }
    let begin = match from_below {
        true => place.bottom.checked_sub(u32::try_from(lines.len()).ok()?)?.checked_add(1)?,
        false => place.top,
    };
    // The last row of all has none behind it to count on with.
    let rows = (begin..=u32::MAX).zip(lines.iter().copied()).collect();
    let part = if from_below { *last } else { *first };
    let notes = parts.iter().copied().filter(|it| !std::ptr::eq(*it, part)).collect();
    let columns = place.columns.and_then(|(left, right)| {
        let width = right.checked_sub(left)? as usize + 1;
        // A title beside the table may begin further left.
        let theirs = alone || names.is_some_and(|it| it.split(BETWEEN).count() == width);
        theirs.then_some((left, width))
    });
    Some(Read { notes, names, rows, columns })
}

/// Whether a text is what reading a table says of its columns.
fn sums_up(text: &str, place: &Place<'_>) -> bool {
    let of = if place.sheet.is_empty() { "Table" } else { place.sheet };
    let counted = text.strip_prefix(of).and_then(|it| it.strip_prefix(": "));
    counted
        .is_some_and(|it| it.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(" rows."))
}

/// Whether the first of these lines names the columns, by what reading a table takes for names: words and years, each
/// once, in nearly all columns.
fn names_columns(lines: &[&str]) -> bool {
    let filled = |it: &&str| it.split(BETWEEN).filter(|it| !it.trim().is_empty()).count();
    let Some((first, below)) = lines.split_first() else { return false };
    let cells: Vec<&str> =
        first.split(BETWEEN).map(str::trim).filter(|it| !it.is_empty()).collect();
    let year = |it: &str| it.parse().is_ok_and(|it: u32| (1900..2100).contains(&it));
    let word = |it: &&str| !is_number(it) && !is_day(it) && it.chars().count() <= 60;
    let once: HashSet<&str> = cells.iter().copied().collect();
    !below.is_empty()
        && cells.len() >= 2
        && cells.iter().all(|it| word(it) || year(it))
        && cells.iter().any(word)
        && once.len() == cells.len()
        && cells.len() * 3 >= below.iter().map(filled).max().unwrap_or(0) * 2
}

fn is_number(text: &str) -> bool {
    let bare = text.trim_matches(|it: char| "€$£¥% ".contains(it));
    bare.contains(|it: char| it.is_ascii_digit())
        && bare.chars().all(|it| it.is_ascii_digit() || "+-.,' eE".contains(it))
}

/// Days stand with the names of their months behind them.
fn is_day(text: &str) -> bool {
    text.starts_with(|it: char| it.is_ascii_digit()) && text.ends_with(')') && text.contains(" (")
}

/// Passages around that of number `base` which go on with its rows under the same names.
fn run(reads: &[Option<Read<'_>>], base: usize) -> Range<usize> {
    let goes_on = |first: usize, second: usize| {
        let (Some(Some(first)), Some(Some(second))) = (reads.get(first), reads.get(second)) else {
            return false;
        };
        let rows = first.rows.last().zip(second.rows.first());
        second.notes.is_empty()
            && first.names == second.names
            && rows.is_some_and(|(before, after)| before.0 <= after.0)
    };
    let (mut start, mut end) = (base, base + 1);
    while goes_on(end - 1, end) {
        end += 1;
    }
    while start > 0 && goes_on(start - 1, start) {
        start -= 1;
    }
    start..end
}

/// The rows of passages; one that was too long for a passage comes in pieces.
fn joined(reads: &[Option<Read<'_>>]) -> Vec<(u32, String)> {
    let mut lines: Vec<(u32, String)> = Vec::new();
    for (number, line) in reads.iter().flatten().flat_map(|it| &it.rows) {
        match lines.last_mut().filter(|it| it.0 == *number) {
            Some((_, open)) => {
                open.push(' ');
                open.push_str(line);
            }
            None => lines.push((*number, (*line).to_owned())),
        }
    }
    lines
}

/// Which of the lines are shown: those of the passage, with some before and after them.
fn bounds(lines: &[(u32, String)], place: &Place<'_>) -> Range<usize> {
    let start = lines.partition_point(|it| it.0 < place.top);
    let end = lines.partition_point(|it| it.0 <= place.bottom).min(start + MOST_ROWS - 2 * AROUND);
    start.saturating_sub(AROUND)..(end + AROUND).min(lines.len())
}

/// The columns of the rows that are shown.
#[derive(Debug)]
struct Shape<'a> {
    names: Vec<&'a str>,
    left: Option<u32>,
    width: usize,
}

impl<'a> Shape<'a> {
    fn of(
        lines: &[(u32, String)],
        names: Option<&'a str>,
        columns: Option<(u32, usize)>,
    ) -> Shape<'a> {
        let names: Vec<&str> = names.map_or_else(Vec::new, |it| it.split(BETWEEN).collect());
        let widest = || lines.iter().map(|it| it.1.split(BETWEEN).count()).max().unwrap_or(1);
        let width = match (names.len(), columns) {
            (0, Some((_, width))) => width,
            (0, None) => widest(),
            (names, _) => names,
        };
        let left = columns.filter(|it| it.1 == width).map(|it| it.0);
        Shape { names, left, width }
    }

    /// The cells of a line, or the whole line where which column they are in is not certain.
    fn cells(&self, line: &str) -> (Vec<String>, bool) {
        let pieces: Vec<&str> = line.split(BETWEEN).collect();
        if let Some(cells) = self.by_name(&pieces) {
            return (cells, false);
        }
        // Of rows with few cells the empty ones are not written.
        if pieces.len() > self.width || pieces.len() * 5 < self.width * 2 {
            return (vec![line.to_owned()], true);
        }
        let mut cells: Vec<String> = pieces.into_iter().map(|it| it.trim().to_owned()).collect();
        cells.resize(self.width, String::new());
        cells.truncate(MOST_COLUMNS);
        (cells, false)
    }

    /// Cells that each name their column.
    fn by_name(&self, pieces: &[&str]) -> Option<Vec<String>> {
        let mut cells = vec![String::new(); self.names.len()];
        let mut from = 0;
        for piece in pieces {
            let named = |it: &&str| piece.strip_prefix(*it).and_then(|it| it.strip_prefix(": "));
            let at = from + self.names[from..].iter().position(|it| named(it).is_some())?;
            cells[at] = named(&self.names[at])?.to_owned();
            from = at + 1;
        }
        cells.truncate(MOST_COLUMNS);
        (pieces.len() < self.names.len()).then_some(cells)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use riddle_catalog::FileId;
    use riddle_ingest::{ChunkOptions, chunk};
    use riddle_types::{Block, BlockKind, ChunkId, Document, FileKind, TokenCounter};

    use super::*;

    /// A token for every word.
    struct Words;

    impl TokenCounter for Words {
        fn count(&self, text: &str) -> usize {
            text.split_whitespace().count()
        }
    }

    fn cells(sheet: &str, left: u32, top: u32, right: u32, bottom: u32) -> Location {
        Location::Cells { sheet: sheet.to_owned(), left, top, right, bottom }
    }

    /// The passages of a file with these blocks, numbered from 1.
    fn passages(blocks: Vec<Block>, max_tokens: usize) -> Vec<ChunkRecord> {
        let document = Document { blocks, ..Document::default() };
        let options = ChunkOptions { max_tokens, overlap_tokens: 0 };
        let record = |it: riddle_types::Chunk| ChunkRecord {
            id: ChunkId(u64::from(it.ordinal) + 1),
            file: FileId(1),
            path: PathBuf::from("/flour.xlsx"),
            kind: FileKind::Spreadsheet,
            modified: 0,
            title: None,
            language: None,
            ordinal: it.ordinal,
            heading: it.heading,
            text: it.text,
            location: it.location,
            also_in: Vec::new(),
            versions: Vec::new(),
        };
        chunk(&document, &Words, &options).into_iter().map(record).collect()
    }

    fn table(header: &str, lines: &[String], location: Location) -> Block {
        let block = Block::new(BlockKind::Table, lines.join("\n"), location);
        Block { header: header.to_owned(), ..block }
    }

    fn numbers(grid: &Grid) -> Vec<u32> {
        grid.rows.iter().map(|it| it.number).collect()
    }

    fn cited(grid: &Grid) -> Vec<u32> {
        grid.rows.iter().filter(|it| it.cited).map(|it| it.number).collect()
    }

    /// A sheet of a title, names in row 2, and rows from 3 on.
    fn orders(rows: u32) -> Vec<Block> {
        let line = |it: u32| format!("2026-03-04 (March) | flour {it} | {it}.50");
        let lines: Vec<String> = (3..3 + rows).map(line).collect();
        let bottom = 2 + rows;
        let sum = format!("Flour: {rows} rows. Day: dates. Item: flour 3, flour 4.");
        let title = "Orders of the bakery".to_owned();
        vec![
            Block::new(BlockKind::Paragraph, title, cells("Flour", 2, 1, 2, 1)),
            Block::new(BlockKind::Paragraph, sum, cells("Flour", 2, 3, 4, bottom)),
            table("Day | Item | Price", &lines, cells("Flour", 2, 3, 4, bottom)),
        ]
    }

    #[test]
    fn a_small_sheet_is_one_table_with_its_title() {
        let passages = passages(orders(9), 200);
        assert_eq!(passages.len(), 1);
        let grid = grid(&passages, 1).expect("a table");
        assert_eq!((grid.sheet.as_str(), grid.left), ("Flour", Some(2)));
        assert_eq!(grid.names, ["Day", "Item", "Price"]);
        assert_eq!(grid.notes.len(), 2);
        assert_eq!(numbers(&grid), (3..=11).collect::<Vec<_>>());
        assert_eq!(cited(&grid).len(), 9);
        assert_eq!(grid.rows[0].cells, ["2026-03-04 (March)", "flour 3", "3.50"]);
        assert!(!grid.more_above && !grid.more_below);
    }

    #[test]
    fn a_part_of_a_long_sheet_is_shown_with_rows_around_it() {
        let passages = passages(orders(600), 60);
        let middle = &passages[passages.len() / 2];
        let place = Place::of(&middle.location).expect("rows");
        let grid = grid(&passages, middle.id.0).expect("a table");
        assert_eq!(cited(&grid), (place.top..=place.bottom).collect::<Vec<_>>());
        let around = AROUND as u32;
        let all: Vec<u32> = (place.top - around..=place.bottom + around).collect();
        assert_eq!(numbers(&grid), all);
        assert!(grid.more_above && grid.more_below && grid.notes.is_empty());
        for row in &grid.rows {
            assert_eq!(row.cells[2], format!("{}.50", row.number), "each in its own row");
        }
    }

    #[test]
    fn what_sums_a_table_up_shows_its_first_rows() {
        let passages = passages(orders(600), 60);
        let sum = passages.iter().find(|it| it.text.contains("600 rows")).expect("a sum");
        assert!(!sum.text.contains("3.50"), "its rows are passages of their own");
        let grid = grid(&passages, sum.id.0).expect("a table");
        assert_eq!(grid.rows[0].number, 3);
        assert!(grid.rows.len() <= MOST_ROWS && grid.more_below);
        assert!(grid.notes.iter().any(|it| it.contains("600 rows")));
    }

    #[test]
    fn cells_are_put_into_columns_only_where_that_is_certain() {
        let lines = ["1 | x | y | z | v", "Item: flour", "a | b | c | d | e | f"];
        let lines = lines.map(str::to_owned);
        let block = table("No | A | B | C | Item", &lines, cells("S", 1, 2, 5, 4));
        let grid_ = grid(&passages(vec![block], 99), 1).expect("a table");
        assert_eq!(grid_.rows[0].cells, ["1", "x", "y", "z", "v"]);
        assert_eq!(grid_.rows[1].cells, ["", "", "", "", "flour"]);
        let whole = GridRow {
            number: 4,
            cells: vec!["a | b | c | d | e | f".to_owned()],
            whole: true,
            cited: true,
        };
        assert_eq!(grid_.rows[2], whole, "a cell with a bar in it");
        // Without names nobody knows which columns a row of few cells fills.
        let lines = ["1 | x | y | z | v".to_owned(), "lone".to_owned()];
        let block = table("", &lines, cells("S", 1, 2, 5, 3));
        let grid_ = grid(&passages(vec![block], 99), 1).expect("a table");
        assert!(grid_.names.is_empty() && grid_.rows[1].whole && !grid_.rows[0].whole);
    }

    #[test]
    fn rows_that_can_not_be_counted_are_no_table() {
        let mut all = passages(orders(9), 200);
        all[0].text = "a | b\nc | d\ne | f".to_owned();
        for (top, bottom) in [(1, 1), (7, 3), (1, u32::MAX), (u32::MAX, u32::MAX), (0, 0)] {
            all[0].location = cells("S", 1, top, 2, bottom);
            assert_eq!(grid(&all, 1), None, "{top}–{bottom}");
        }
        all[0].text = "a | b".to_owned();
        all[0].location = cells("S", 1, u32::MAX, 2, u32::MAX);
        assert_eq!(numbers(&grid(&all, 1).expect("the last row that there can be")), [u32::MAX]);
        all[0].text = "a | b\nc | d\ne | f".to_owned();
        all[0].location = Location::Page { start: 1, end: 1 };
        assert_eq!(grid(&all, 1), None);
        assert_eq!(grid(&all, 77), None);
        assert_eq!(grid(&[], 1), None);
        all[0].location = cells("S", 3, 1, 2, 3);
        assert_eq!(grid(&all, 1).expect("columns that lie are passed over").left, None);
    }

    #[test]
    fn a_row_in_pieces_is_one_and_many_columns_are_cut() {
        let long = vec!["word".to_owned(); 300].join(" ");
        let lines = [format!("1 | {long}"), "2 | short".to_owned()];
        let block = table("No | Text", &lines, cells("S", 1, 2, 2, 3));
        let pieces = passages(vec![block], 50);
        assert!(pieces.len() > 3);
        let last = pieces.last().expect("some").id.0;
        let grid_ = grid(&pieces, last).expect("a table");
        assert_eq!(numbers(&grid_), [2, 3]);
        assert_eq!(grid_.rows[0].cells[1].split_whitespace().count(), 300);
        let wide: Vec<String> = (0..400).map(|it| it.to_string()).collect();
        let block = table(
            "",
            &[wide.join(" | ")],
            Location::Rows { sheet: String::new(), start: 1, end: 1 },
        );
        let grid_ = grid(&passages(vec![block], 9_000), 1).expect("a table");
        assert_eq!((grid_.rows[0].cells.len(), grid_.columns_left_out), (100, 300));
    }
}
