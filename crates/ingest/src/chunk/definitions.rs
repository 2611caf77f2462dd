//! Which pieces of source code share a passage: a definition has one of its own, and what is tiny goes with what is
//! beside it.

use riddle_types::{Block, Location};

use super::{Piece, is_code, part_of};
use crate::code::{INSIDE, name_of};

/// A definition of fewer tokens is no passage of its own. Of 1512 files of Rust, Python and TypeScript 26 149 passages
/// were made without it, every sixth of fewer than 24 tokens, and with it 22 378, one in a hundred.
pub(super) const LEAST: usize = 24;

/// How many blocks at the beginning are source code of one part of a file.
pub(super) fn run(blocks: &[Block]) -> usize {
    let part = blocks.first().map(|it| part_of(&it.location));
    let together = |it: &&Block| is_code(&it.kind) && Some(part_of(&it.location)) == part;
    blocks.iter().take_while(together).count()
}

/// Pieces that share a passage.
struct Group {
    pieces: Vec<Piece>,
    tokens: usize,
    /// Whether a definition is among them that is not tiny.
    own: bool,
}

/// The pieces in passages, in their order. None of them may be longer than `max`.
pub(super) fn grouped(pieces: Vec<Piece>, least: usize, max: usize) -> Vec<Vec<Piece>> {
    let mut groups: Vec<Group> = Vec::new();
    for piece in pieces {
        let own = is_own(&piece, least);
        let open = groups.last_mut().filter(|it| {
            let tiny = it.tokens < least;
            let last = it.pieces.last().map_or("", |it| it.within.as_str());
            // What is tiny goes with what follows in the same place or deeper: the first line of a class with its
            // first method, a constant with the function below it.
            let follows = if tiny { leads_to(last, &piece.within) } else { last == piece.within };
            !it.own && it.tokens + piece.tokens <= max && follows && (tiny || !own)
        });
        match open {
            Some(group) => {
                group.tokens += piece.tokens;
                group.own |= own;
                group.pieces.push(piece);
            }
            None => groups.push(Group { tokens: piece.tokens, own, pieces: vec![piece] }),
        }
    }
    let mut joined: Vec<Group> = Vec::new();
    for group in groups {
        // What is still tiny is the end of a class or of the file.
        let before =
            joined.last_mut().filter(|it| group.tokens < least && it.tokens + group.tokens <= max);
        match before {
            Some(before) => {
                before.tokens += group.tokens;
                before.pieces.extend(group.pieces);
            }
            None => joined.push(group),
        }
    }
    joined.into_iter().map(|it| it.pieces).collect()
}

fn is_own(piece: &Piece, least: usize) -> bool {
    piece.definition && piece.tokens >= least
}

/// Whether the second place is the first one, or in it.
fn leads_to(outer: &str, inner: &str) -> bool {
    outer.is_empty()
        || inner.strip_prefix(outer).is_some_and(|it| it.is_empty() || it.starts_with(INSIDE))
}

/// The names of what a passage stands in, outermost first; without those that its own lines say.
pub(super) fn place(pieces: &[Piece], least: usize) -> Option<String> {
    let names = |it: &Piece| -> Vec<String> {
        it.within.split(INSIDE).filter(|it| !it.is_empty()).map(str::to_owned).collect()
    };
    let mut path = match pieces.iter().find(|it| is_own(it, least)) {
        Some(own) => names(own),
        // What all of them stand in.
        None => pieces.iter().map(names).reduce(|one, other| {
            let both = one.into_iter().zip(other);
            both.take_while(|(one, other)| one == other).map(|it| it.0).collect()
        })?,
    };
    if !path.is_empty() {
        let said: Vec<String> = pieces.iter().flat_map(|it| it.text.lines()).map(name_of).collect();
        path.retain(|it| !said.contains(it));
    }
    (!path.is_empty()).then(|| path.join(INSIDE))
}

/// Whether the second piece begins on the line below the first.
pub(super) fn adjoin(first: &Piece, second: &Piece) -> bool {
    let lines = |it: &Piece| match &it.location {
        Location::Line { start, end } => Some((*start, *end)),
        Location::Part { inside, .. } => match **inside {
            Location::Line { start, end } => Some((start, end)),
            _ => None,
        },
        _ => None,
    };
    let (Some((_, end)), Some((start, _))) = (lines(first), lines(second)) else { return false };
    first.code && second.code && end + 1 == start
}

#[cfg(test)]
mod tests {
    use riddle_types::{Chunk, TokenCounter};

    use super::*;
    use crate::{ChunkOptions, chunk, code};

    /// A token for four letters.
    struct Letters;

    impl TokenCounter for Letters {
        fn count(&self, text: &str) -> usize {
            text.chars().filter(|it| !it.is_whitespace()).count().div_ceil(4)
        }
    }

    fn cut(text: &str) -> Vec<Chunk> {
        let options = ChunkOptions { max_tokens: 256, overlap_tokens: 32 };
        let chunks = chunk(&code::parse(text), &Letters, &options);
        // What a passage says is what its lines say.
        let lines: Vec<&str> = text.lines().collect();
        for chunk in &chunks {
            let Location::Line { start, end } = chunk.location else { panic!("a line") };
            let kept = |it: &&&str| !it.trim().is_empty();
            let there: Vec<&&str> =
                lines[start as usize - 1..end as usize].iter().filter(kept).collect();
            let said: Vec<&str> = chunk.text.lines().collect();
            assert_eq!(said.iter().filter(kept).collect::<Vec<_>>(), there);
            assert!(Letters.count(&chunk.text) <= 256);
        }
        chunks
    }

    /// Headings and places.
    fn shape(text: &str) -> Vec<(String, String)> {
        cut(text).into_iter().map(|it| (it.heading, it.location.to_string())).collect()
    }

    fn expected(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect()
    }

    #[test]
    fn a_function_or_method_of_rust_is_a_passage_and_what_is_tiny_goes_with_it() {
        let body =
            "        self.pressure = self.pressure.max(self.valve.opened_at(turns));\n".repeat(4);
        let text = format!(
            "use std::fmt;

/// Bar.
const MOST: f64 = 9.0;

/// A boiler.
pub struct Boiler {{
    pressure: f64,
    valve: Valve,
    steam_that_was_let_off_since_the_last_service: f64,
    water_that_was_taken_in_since_then: f64,
}}

impl Boiler {{
    /// Lights the fire.
    pub fn light(&mut self, turns: u32) {{
{body}    }}

    pub fn valve(&self) -> &Valve {{
        &self.valve
    }}

    pub fn pressure(&self) -> f64 {{
        self.pressure
    }}

    pub fn steam(&self) -> f64 {{
        self.steam_that_was_let_off
    }}

    #[must_use]
    pub fn vent(&mut self, turns: u32) -> bool {{
{body}        true
    }}
}}
"
        );
        // The first line of the `impl` is in the passage of its first method, which says so itself.
        let places = [
            ("", "lines 1–12"),
            ("", "lines 14–21"),
            ("impl Boiler", "lines 23–33"),
            ("impl Boiler", "lines 35–43"),
        ];
        assert_eq!(shape(&text), expected(&places));
    }

    #[test]
    fn classes_in_classes_of_python_are_named_once_and_outermost_first() {
        let body = "            self.turns = self.turns + ratio * self.teeth_of_the_chainring\n"
            .repeat(12);
        let text = format!(
            "import math

class Gearbox:
    \"\"\"All that is between the pedals and the wheel, with everything that can be changed.\"\"\"

    class Sprocket:
        \"\"\"One of them: teeth, wear and when it was last looked at by somebody of the workshop.\"\"\"

        def turn(self, ratio):
{body}
        def worn(self, ratio):
{body}
    def shift(self, ratio):
{body}
    def name(self):
        return 1

NAME = 3
"
        );
        let places = [
            ("", "lines 1–4"),
            // It begins with the line of its own class.
            ("class Gearbox", "lines 6–21"),
            ("class Gearbox › class Sprocket", "lines 23–35"),
            // A getter of two lines and what follows the class are too short for passages.
            ("class Gearbox", "lines 37–54"),
        ];
        assert_eq!(shape(&text), expected(&places));
    }

    #[test]
    fn functions_of_javascript_are_passages_though_no_line_is_between_them() {
        let body = "  total += weigh(everything[index], 'in grams and not in ounces');\n".repeat(3);
        let text = format!(
            "import {{ weigh }} from './scales.js';
import {{ call }} from './bell.js';

export const total = async (everything) => {{
{body}}};
/** Rings until somebody comes. */
function ring(everything) {{
{body}}}
const grams = 3;
export class Bell {{
  constructor(everything) {{
{body}  }}

  get loud() {{ return true; }}

  ring(everything) {{
{body}{body}  }}

  silence(everything) {{
{body}{body}  }}
}}

export default Bell;
"
        );
        let places = [
            ("", "lines 1–8"),
            ("", "lines 9–15"),
            ("", "lines 16–21"),
            ("export class Bell", "lines 23–32"),
            ("export class Bell", "lines 34–44"),
        ];
        assert_eq!(shape(&text), expected(&places));
    }

    #[test]
    fn a_definition_that_is_too_long_is_cut_between_lines_and_a_script_is_read_as_before() {
        let line = "        counted = counted + self.rows_of_the_ledger_of_this_year\n";
        let text = format!("class Ledger:\n    def count(self):\n{}", line.repeat(60));
        let chunks = cut(&text);
        assert!(chunks.len() > 3, "{}", chunks.len());
        let named = chunks.iter().skip(1).all(|it| it.heading == "class Ledger");
        assert!(named, "{chunks:#?}");
        let script = "set -e\n\ncd /srv/boat\n\ntar cf hull.tar hull\n\necho done\n";
        assert_eq!(shape(script), expected(&[("", "lines 1–7")]));
    }

    #[test]
    fn definitions_in_each_other_without_end_are_read_in_bounds() {
        let deep: String =
            (0..3000).map(|it| format!("{}def a{it}():\n", " ".repeat(it))).collect();
        let kept: usize = cut(&deep).iter().map(|it| it.text.lines().count()).sum();
        assert_eq!(kept, 3000);
    }

    #[test]
    fn what_is_asked_about_code_stands_in_the_passage_of_its_definition() {
        let python = include_str!("../../../../tests/questions/plain/code/gears.py");
        let places = [
            ("", "lines 1–5"),
            ("", "lines 8–10"),
            ("", "lines 13–21"),
            // The constant below the short class is too short for a passage.
            ("", "lines 24–36"),
        ];
        assert_eq!(shape(python), expected(&places));
        let rust = include_str!("../../../../tests/questions/plain/code/tension.rs");
        let places =
            [("", "lines 1–4"), ("", "lines 6–10"), ("", "lines 12–21"), ("", "lines 23–32")];
        assert_eq!(shape(rust), expected(&places));
        // What is done at a pulse takes 22 tokens and goes with the constants above it.
        let c = include_str!("../../../../tests/questions/plain/code/odometer.c");
        assert_eq!(shape(c), expected(&[("", "lines 1–21"), ("", "lines 23–31")]));
    }
}
