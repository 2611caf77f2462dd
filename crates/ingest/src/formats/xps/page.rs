//! A page: runs of glyphs made into lines.
//!
//! Only the letters, the place and the size of a run are read. How wide it is follows from the advances that it names;
//! a font is never opened.

use quick_xml::events::{BytesStart, Event};

use super::{attribute, walk};
use crate::{pdfium::Line, remark::Remark};

/// Most runs of a page: one that has a run for each of its letters has some thousands.
const MOST_RUNS: usize = 50_000;

/// Most canvases in canvases.
const DEEPEST: usize = 200;

/// Most pieces that are put into columns; a page of more is read row by row.
const MOST_PIECES: usize = 4000;

/// A gap of less than this many times the size stands within a word: a space is a quarter.
const SPACE: f64 = 0.15;

/// A gap of more than this many times the size stands between cells or columns.
const APART: f64 = 2.0;

/// Width of a letter whose advance is not told, as a part of its size; those of Chinese and Japanese are as wide as
/// high.
const WIDTH: f64 = 0.5;

/// Above and below the baseline a line has these parts of its size.
const ABOVE: f64 = 0.8;
const BELOW: f64 = 0.2;

/// Two rows of a matrix, and where it moves to.
type Matrix = [f64; 6];

const UNMOVED: Matrix = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0];

/// Letters that are drawn in one go.
#[derive(Debug, Clone, PartialEq)]
struct Run {
    text: String,
    left: f64,
    right: f64,
    /// The baseline, from above.
    y: f64,
    size: f64,
    /// Its right end is known, and not only guessed.
    exact: bool,
    /// From right to left.
    backward: bool,
    /// It lies level: other lines go up or down the page.
    level: bool,
}

/// A run as its element says, before it is known where its canvas lies.
struct Glyphs {
    text: String,
    origin: [f64; 2],
    size: f64,
    advance: f64,
    exact: bool,
    backward: bool,
    sideways: bool,
    moved: Matrix,
}

/// The lines of a page in the order of reading, and why not all of it is read.
pub(super) fn read(text: &str) -> (Vec<Line>, Option<String>) {
    let mut reading =
        Reading { height: 0.0, canvases: vec![UNMOVED], open: None, runs: Vec::new() };
    let mut full = false;
    let mut of_canvas = false;
    let whole = walk(text, |event| {
        match event {
            Event::Start(tag) => match tag.local_name().as_ref() {
                b"Canvas" => reading.begin_canvas(&tag),
                b"Glyphs" => reading.open = Glyphs::of(&tag),
                b"Canvas.RenderTransform" => of_canvas = true,
                b"MatrixTransform" => reading.transform(&tag, of_canvas),
                b"FixedPage" => reading.height = number(&tag, "Height").unwrap_or(0.0),
                _ => {}
            },
            Event::Empty(tag) => match tag.local_name().as_ref() {
                b"Glyphs" => {
                    reading.open = Glyphs::of(&tag);
                    reading.end_glyphs();
                }
                b"MatrixTransform" => reading.transform(&tag, of_canvas),
                _ => {}
            },
            Event::End(tag) => match tag.local_name().as_ref() {
                b"Canvas" if reading.canvases.len() > 1 => {
                    reading.canvases.pop();
                }
                b"Canvas.RenderTransform" => of_canvas = false,
                b"Glyphs" => reading.end_glyphs(),
                _ => {}
            },
            _ => {}
        }
        full = reading.runs.len() > MOST_RUNS || reading.canvases.len() > DEEPEST;
        !full
    });
    let why = match (full, whole) {
        (true, _) => Some(Remark::NotAll(Remark::TooMuch.into()).into()),
        (false, false) => Some(Remark::RestDamaged.into()),
        (false, true) => None,
    };
    (lines(reading.runs, reading.height), why)
}

struct Reading {
    height: f64,
    /// Where the canvases lie that are open.
    canvases: Vec<Matrix>,
    open: Option<Glyphs>,
    runs: Vec<Run>,
}

impl Reading {
    fn canvas(&self) -> Matrix {
        self.canvases.last().copied().unwrap_or(UNMOVED)
    }

    fn begin_canvas(&mut self, tag: &BytesStart<'_>) {
        let moved = attribute(tag, "RenderTransform").and_then(|it| matrix(&it));
        self.canvases.push(combined(moved.unwrap_or(UNMOVED), self.canvas()));
    }

    /// A transformation that stands in an element of its own.
    fn transform(&mut self, tag: &BytesStart<'_>, of_canvas: bool) {
        let Some(moved) = attribute(tag, "Matrix").and_then(|it| matrix(&it)) else { return };
        if let Some(open) = &mut self.open {
            open.moved = moved;
        } else if of_canvas && self.canvases.pop().is_some() {
            self.canvases.push(combined(moved, self.canvas()));
        }
    }

    fn end_glyphs(&mut self) {
        let Some(glyphs) = self.open.take() else { return };
        let [a, b, c, d, x, y] = combined(glyphs.moved, self.canvas());
        let [from_x, from_y] = glyphs.origin;
        let size = glyphs.size * c.hypot(d);
        let width = glyphs.advance * glyphs.size * a.hypot(b);
        let left = from_x * a + from_y * c + x;
        let y = from_x * b + from_y * d + y;
        if ![left, y, size, width].iter().all(|it| it.is_finite()) || size <= 0.0 {
            return;
        }
        self.runs.push(Run {
            text: glyphs.text,
            left: if glyphs.backward { left - width } else { left },
            right: if glyphs.backward { left } else { left + width },
            y,
            size,
            exact: glyphs.exact,
            backward: glyphs.backward,
            level: !glyphs.sideways && a > 0.0 && b.abs() < a * 0.1,
        });
    }
}

impl Glyphs {
    fn of(tag: &BytesStart<'_>) -> Option<Glyphs> {
        let text = attribute(tag, "UnicodeString")?;
        // What begins with a brace would be something else without two before it.
        let text = text.strip_prefix("{}").unwrap_or(&text).to_owned();
        if text.trim().is_empty() {
            return None;
        }
        let size = number(tag, "FontRenderingEmSize").filter(|it| *it > 0.0)?;
        let indices = attribute(tag, "Indices").unwrap_or_default();
        let (advance, exact) = advance(&text, &indices);
        let truth = |name: &str| attribute(tag, name).is_some_and(|it| it == "true");
        let level: u32 = attribute(tag, "BidiLevel").and_then(|it| it.parse().ok()).unwrap_or(0);
        let moved = attribute(tag, "RenderTransform").and_then(|it| matrix(&it));
        Some(Glyphs {
            origin: [number(tag, "OriginX")?, number(tag, "OriginY")?],
            size,
            advance,
            exact,
            backward: level % 2 == 1,
            sideways: truth("IsSideways"),
            moved: moved.unwrap_or(UNMOVED),
            text,
        })
    }
}

fn number(tag: &BytesStart<'_>, name: &str) -> Option<f64> {
    attribute(tag, name)?.trim().parse().ok().filter(|it: &f64| it.is_finite())
}

fn matrix(text: &str) -> Option<Matrix> {
    let numbers: Vec<f64> = text
        .split([',', ' '])
        .filter(|it| !it.is_empty())
        .take(7)
        .map(|it| it.parse().ok().filter(|it: &f64| it.is_finite()))
        .collect::<Option<_>>()?;
    numbers.try_into().ok()
}

/// First by the one, then by the other.
fn combined(inner: Matrix, outer: Matrix) -> Matrix {
    let [a, b, c, d, x, y] = outer;
    let row = |from: f64, to: f64| [from * a + to * c, from * b + to * d];
    let ([e, f], [g, h]) = (row(inner[0], inner[1]), row(inner[2], inner[3]));
    let [to_x, to_y] = row(inner[4], inner[5]);
    [e, f, g, h, to_x + x, to_y + y]
}

/// How far a run goes, by its size, and whether all of that is told: `glyph,advance,...;` for each, in hundredths.
fn advance(text: &str, indices: &str) -> (f64, bool) {
    let (mut sum, mut exact) = (0.0, true);
    let mut entries = indices.split(';');
    let mut letters = text.chars().peekable();
    while letters.peek().is_some() {
        let letter = letters.next().unwrap_or(' ');
        let told = entries.next().and_then(|it| it.split(',').nth(1)?.trim().parse::<f64>().ok());
        // Where the last one ends hardly matters.
        exact &= told.is_some() || letters.peek().is_none();
        let guessed = if letter >= '\u{2E80}' { 1.0 } else { WIDTH };
        sum += told.filter(|it| it.is_finite()).map_or(guessed, |it| it / 100.0);
    }
    (sum, exact)
}

/// Runs on one baseline are a line, cut where a gap is wide, in the order of reading.
fn lines(mut runs: Vec<Run>, height: f64) -> Vec<Line> {
    runs.sort_by(|a, b| a.y.total_cmp(&b.y));
    let (runs, odd): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(|it| it.level);
    let mut pieces: Vec<Line> = Vec::new();
    let mut row: Vec<Run> = Vec::new();
    for run in runs {
        if row.first().is_some_and(|it| !on_one_line(it, &run)) {
            finish(&mut row, height, &mut pieces);
        }
        row.push(run);
    }
    finish(&mut row, height, &mut pieces);
    let mut lines = if pieces.len() > MOST_PIECES {
        pieces
    } else {
        let place = |it: &Line| [it.left, -it.top, it.right, -it.bottom].map(|it| it as f32);
        let places: Vec<[f32; 4]> = pieces.iter().map(place).collect();
        riddle_ocr::reading_order(&places).into_iter().map(|it| pieces[it].clone()).collect()
    };
    for run in odd {
        finish(&mut vec![run], height, &mut lines);
    }
    lines
}

/// Whether the middle of one stands beside the other: raised figures do.
fn on_one_line(one: &Run, other: &Run) -> bool {
    let beside = |one: &Run, other: &Run| {
        let middle = one.y - one.size * (ABOVE - BELOW) / 2.0;
        middle > other.y - other.size * ABOVE && middle < other.y + other.size * BELOW
    };
    beside(one, other) || beside(other, one)
}

/// Makes a row into lines: one, unless it has wide gaps.
fn finish(row: &mut Vec<Run>, height: f64, lines: &mut Vec<Line>) {
    let first = lines.len();
    row.sort_by(|a, b| a.left.total_cmp(&b.left));
    let letters = |backward: bool| -> usize {
        row.iter().filter(|it| it.backward == backward).map(|it| it.text.len()).sum()
    };
    let backward = letters(true) > letters(false);
    if backward {
        row.reverse();
    }
    let mut before: Option<Run> = None;
    for run in row.drain(..) {
        let gap = before.as_ref().map(|before| {
            let gap = if backward { before.left - run.right } else { run.left - before.right };
            (gap / before.size.max(run.size), before)
        });
        match (gap, lines.last_mut()) {
            // For its shadow, or a bold face.
            (Some((_, before)), _) if drawn_twice(before, &run) => continue,
            (Some((gap, before)), Some(line)) if gap < APART => {
                // Nobody knows the end of a run whose advances are not told: it is taken for a word.
                if gap > SPACE || !before.exact {
                    line.text.push(' ');
                }
                append(line, &run, height);
            }
            _ => lines.push(Line {
                text: run.text.clone(),
                size: run.size,
                left: run.left,
                right: run.right,
                bottom: height - run.y - run.size * BELOW,
                top: height - run.y + run.size * ABOVE,
            }),
        }
        before = Some(run);
    }
    for line in &mut lines[first..] {
        if line.text.contains("  ") || line.text.ends_with(' ') || line.text.starts_with(' ') {
            line.text = line.text.split_whitespace().collect::<Vec<_>>().join(" ");
        }
    }
}

fn append(line: &mut Line, run: &Run, height: f64) {
    line.text.push_str(&run.text);
    line.left = line.left.min(run.left);
    line.right = line.right.max(run.right);
    if run.size > line.size {
        line.size = run.size;
        line.bottom = height - run.y - run.size * BELOW;
        line.top = height - run.y + run.size * ABOVE;
    }
}

fn drawn_twice(one: &Run, other: &Run) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() < one.size * 0.1;
    one.text == other.text && near(one.left, other.left) && near(one.y, other.y)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(page: &str) -> Vec<String> {
        let (lines, why) = read(&format!("<FixedPage Height=\"1000\">{page}</FixedPage>"));
        assert_eq!(why, None);
        lines.into_iter().map(|it| it.text).collect()
    }

    fn run(text: &str, x: f64, y: f64, more: &str) -> String {
        format!(
            "<Glyphs UnicodeString=\"{text}\" OriginX=\"{x}\" OriginY=\"{y}\" FontRenderingEmSize=\"10\" {more}/>"
        )
    }

    /// Advances of half the size.
    fn halves(letters: usize) -> String {
        format!("Indices=\"{}\"", vec!["7,50"; letters].join(";"))
    }

    #[test]
    fn runs_on_one_baseline_are_a_line_and_gaps_are_spaces() {
        let page = [
            run("long.", 82.0, 220.0, ""),
            run("The hu", 50.0, 100.0, &halves(6)),
            run("ll", 80.0, 100.0, &halves(2)),
            run("is", 93.0, 100.2, ""),
            run("blue.", 105.0, 100.0, ""),
            run("740,00", 300.0, 100.0, ""),
            run("The keel is ", 20.0, 220.0, &halves(12)),
        ];
        assert_eq!(texts(&page.concat()), ["The hull is blue.", "740,00", "The keel is long."]);
    }

    #[test]
    fn raised_figures_and_what_is_drawn_twice_stand_in_their_line() {
        let raised = "<Glyphs UnicodeString=\"2\" OriginX=\"65\" OriginY=\"96.7\" FontRenderingEmSize=\"6\"/>";
        let page = [
            raised.to_owned(),
            run("sea", 50.0, 100.0, &halves(3)),
            run("sea", 50.3, 100.0, &halves(3)),
            run("{}{next}", 50.0, 112.0, ""),
        ];
        let seen = texts(&page.concat());
        assert_eq!(seen, ["sea2", "{}{next}".strip_prefix("{}").expect("braces")]);
    }

    #[test]
    fn columns_are_read_one_after_the_other() {
        let mut page = String::new();
        for row in 0..4 {
            let y = 100.0 + f64::from(row) * 12.0;
            page += &run(&format!("Of the left column, row {row}"), 50.0, y, "");
            page += &run(&format!("Of the right column, row {row}"), 300.0, y, "");
        }
        let seen = texts(&page);
        assert!(seen[..4].iter().all(|it| it.contains("left")), "{seen:?}");
        assert_eq!(seen.len(), 8);
    }

    #[test]
    fn canvases_and_runs_lie_where_they_are_moved_to() {
        let matrix = "<MatrixTransform Matrix=\"2,0,0,2,10,0\"/>";
        let page = format!(
            "<Canvas><Canvas.RenderTransform>{matrix}</Canvas.RenderTransform>{}<Canvas RenderTransform=\"1,0,0,1,0,-90\">\
             <Glyphs UnicodeString=\"first\" OriginX=\"5\" OriginY=\"110\" FontRenderingEmSize=\"10\">\
             <Glyphs.RenderTransform><MatrixTransform Matrix=\"1 0 0 1 0 5\"/></Glyphs.RenderTransform></Glyphs>\
             </Canvas></Canvas>{}",
            run("second", 5.0, 40.0, ""),
            run("third", 20.0, 120.0, ""),
        );
        let (lines, _) = read(&format!("<FixedPage Height=\"1000\">{page}</FixedPage>"));
        let seen: Vec<(&str, i64, i64, i64)> = lines
            .iter()
            .map(|it| (it.text.as_str(), it.left as i64, it.bottom as i64, it.size as i64))
            .collect();
        assert_eq!(seen, [("first", 20, 946, 20), ("second", 20, 916, 20), ("third", 20, 878, 10)]);
    }

    #[test]
    fn writing_from_the_right_is_read_from_there() {
        let page = [
            run("שלום", 200.0, 100.0, &format!("BidiLevel=\"1\" {}", halves(4))),
            run("עולם", 177.0, 100.0, "BidiLevel=\"1\""),
        ];
        assert_eq!(texts(&page.concat()), ["שלום עולם"]);
    }

    #[test]
    fn odd_numbers_and_depths_are_passed_over_and_told() {
        let page = [
            run("nowhere", f64::NAN, 1.0, ""),
            run("far", 1e308, 1e308, "RenderTransform=\"1e308,0,0,1e308,0,0\""),
            "<Glyphs UnicodeString=\"no place\" FontRenderingEmSize=\"10\"/>".to_owned(),
            run(
                "here",
                1.0,
                1.0,
                "RenderTransform=\"{StaticResource x}\" Indices=\"(1:2)3,NaN;;;;;\"",
            ),
        ];
        assert_eq!(texts(&page.concat()), ["here"]);
        let (lines, why) = read(&"<Canvas>".repeat(100_000));
        assert!(lines.is_empty() && why.is_some_and(|it| it.contains("too much")));
        let (lines, why) = read(&run("x", 1.0, 1.0, "").repeat(60_000));
        assert!(lines.len() < 60_000 && why.is_some());
        assert!(read("<FixedPage><Glyphs").1.is_some());
    }
}
