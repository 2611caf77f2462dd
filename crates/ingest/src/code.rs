//! Source code by definition: a function is a block, and one inside of a class or module knows in which.
//!
//! Languages are not told apart: what begins at the margin behind a blank line is a unit, and a unit that is long is
//! cut where the definitions inside of it begin, and so are they. Parsers of forty languages would know more, and take
//! megabytes and minutes of building each.

use riddle_types::{Block, BlockKind, Document, Location};

use crate::text::numbered;

/// Units of fewer lines stay whole: a small class is read as one.
const LONG: usize = 24;

/// Words that may stand before what says what is defined.
const MODIFIERS: [&str; 27] = [
    "pub",
    "export",
    "default",
    "declare",
    "async",
    "static",
    "public",
    "private",
    "protected",
    "internal",
    "final",
    "abstract",
    "override",
    "virtual",
    "unsafe",
    "const",
    "extern",
    "inline",
    "sealed",
    "partial",
    "open",
    "suspend",
    "data",
    "local",
    "constexpr",
    "synchronized",
    "readonly",
];

/// Words that say what is defined.
const DEFINERS: [&str; 22] = [
    "fn",
    "def",
    "class",
    "struct",
    "enum",
    "trait",
    "impl",
    "interface",
    "function",
    "func",
    "fun",
    "type",
    "mod",
    "module",
    "namespace",
    "sub",
    "procedure",
    "union",
    "record",
    "object",
    "protocol",
    "extension",
];

/// Words before brackets that are no names of functions.
const FLOW: [&str; 12] = [
    "if", "for", "while", "switch", "catch", "return", "else", "match", "with", "do", "try", "when",
];

/// Definitions inside of definitions are looked for this deep: a class in a class in a module, and one more.
const DEEPEST: usize = 4;

/// Most characters of a name: a signature that goes on and on says where something is in its first words.
const LONGEST_NAME: usize = 80;

/// Between the names of what is around a definition, as between headings.
pub(crate) const INSIDE: &str = " › ";

/// Source code in blocks. A block's header names what it stands in, outermost first.
pub(crate) fn parse(text: &str) -> Document {
    let blank = |it: &str| it.trim().is_empty();
    let lines: Vec<Line<'_>> =
        numbered(text).map(|(number, it)| (number, if blank(it) { "" } else { it })).collect();
    let mut blocks = Vec::new();
    for unit in units(&lines, 0) {
        cut(unit, &Place::default(), &mut blocks);
    }
    Document { blocks, ..Document::default() }
}

/// A line with its number, from 1; without text if it is blank.
type Line<'a> = (u32, &'a str);

/// Runs of lines, blank ones inside of them kept: one that begins at the margin begins a unit behind a blank line, or
/// with a definition where the unit has one; an indented one belongs to what came before.
fn units<'l, 'a>(lines: &'l [Line<'a>], margin: usize) -> Vec<&'l [Line<'a>]> {
    let mut starts: Vec<usize> = Vec::new();
    let (mut behind_blank, mut defined) = (true, false);
    for (at, (_, line)) in lines.iter().enumerate() {
        if line.is_empty() {
            behind_blank = true;
            continue;
        }
        let at_margin = indent(line) <= margin && !line.trim_start().starts_with(['}', ')', ']']);
        let defines = at_margin && defines(line);
        if starts.is_empty() || (at_margin && behind_blank) {
            starts.push(at);
            defined = false;
        } else if defines && defined {
            starts.push(with_remarks(lines, at, starts.last().map_or(0, |it| it + 1), margin));
        }
        defined |= defines;
        behind_blank = false;
    }
    let ends = starts.iter().copied().skip(1).chain([lines.len()]);
    starts.iter().zip(ends).map(|(&start, end)| trimmed(&lines[start..end])).collect()
}

/// Where a definition begins: what is said of it stands above it.
fn with_remarks(lines: &[Line<'_>], at: usize, first: usize, margin: usize) -> usize {
    let above = lines[first.min(at)..at].iter().rev();
    at - above.take_while(|it| is_remark(it.1, margin)).count()
}

/// Without blank lines at its end.
fn trimmed<'l, 'a>(lines: &'l [Line<'a>]) -> &'l [Line<'a>] {
    let blank = lines.iter().rev().take_while(|it| it.1.is_empty()).count();
    &lines[..lines.len() - blank]
}

/// What a unit stands in.
#[derive(Default)]
struct Place {
    within: String,
    margin: usize,
    depth: usize,
}

/// A unit as a block; one that is long in several, cut where the definitions inside of it begin.
fn cut(unit: &[Line<'_>], place: &Place, blocks: &mut Vec<Block>) {
    let Some(outer) = unit.iter().position(|it| indent(it.1) <= place.margin && defines(it.1))
    else {
        blocks.extend(block(BlockKind::Code, unit, &place.within));
        return;
    };
    let inner = |it: &Line<'_>| indent(it.1) > place.margin && defines(it.1);
    let level = unit[outer + 1..].iter().filter(|it| inner(it)).map(|it| indent(it.1)).min();
    let Some(level) = level.filter(|_| unit.len() > LONG && place.depth < DEEPEST) else {
        blocks.extend(block(BlockKind::Definition, unit, &place.within));
        return;
    };
    let first = unit.iter().position(|it| inner(it) && indent(it.1) == level);
    let start = with_remarks(unit, first.unwrap_or(unit.len()), outer + 1, level);
    let name = name_of(unit[outer].1);
    let within = match place.within.as_str() {
        "" => name,
        around => format!("{around}{INSIDE}{name}"),
    };
    // The lines that begin it are a part of it, too: they go with its first method where both are short.
    blocks.extend(block(BlockKind::Definition, trimmed(&unit[..start]), &within));
    let place = Place { within, margin: level, depth: place.depth + 1 };
    for part in units(&unit[start..], level) {
        cut(part, &place, blocks);
    }
}

fn block(kind: BlockKind, lines: &[Line<'_>], within: &str) -> Option<Block> {
    let location = Location::Line { start: lines.first()?.0, end: lines.last()?.0 };
    let text = lines.iter().map(|it| it.1).collect::<Vec<_>>().join("\n");
    Some(Block { header: within.to_owned(), ..Block::new(kind, text, location) })
}

/// The line that begins a definition, as a name: without the bracket that opens its body.
pub(crate) fn name_of(line: &str) -> String {
    let text: String = line.trim().chars().take(LONGEST_NAME).collect();
    text.trim_end_matches(['{', '(', ':', ',', ' ', '\t']).to_owned()
}

/// Columns before the first letter.
fn indent(line: &str) -> usize {
    const TAB: usize = 4;
    line.chars()
        .take_while(|it| it.is_whitespace())
        .map(|it| if it == '\t' { TAB } else { 1 })
        .sum()
}

/// A comment, a decorator or an attribute.
fn is_remark(line: &str, level: usize) -> bool {
    let text = line.trim_start();
    let marks = ["//", "/*", "*", "#", "@", "--", ";;", "[", "\"\"\""];
    indent(line) >= level && marks.iter().any(|it| text.starts_with(it))
}

/// Whether a line at the margin gives a function a name: `export const name = async (a) => {`.
fn names_function(text: &str) -> bool {
    let Some((name, value)) = text.split_once('=') else { return false };
    let bound = name.split_whitespace().any(|it| ["const", "let", "var"].contains(&it));
    let value = value.trim_start();
    let value = value.strip_prefix("async").unwrap_or(value).trim_start();
    let arrow = || {
        let parameters = value.starts_with(|it: char| it == '(' || it == '_' || it.is_alphabetic());
        let (before, body) = value.split_once("=>").unwrap_or_default();
        // Not a call that is given one: `items.map((it) => {`.
        parameters && !body.is_empty() && before.matches('(').count() == before.matches(')').count()
    };
    bound && (value.starts_with("function") || arrow())
}

/// Whether a line begins the definition of something that has a name.
fn defines(line: &str) -> bool {
    let text = line.trim();
    if indent(line) == 0 && names_function(text) {
        return true;
    }
    let mut rest = text;
    let mut modified = false;
    loop {
        // `pub(crate)`, `extern "C"`.
        let word = rest.split(|it: char| !it.is_alphanumeric() && it != '_').next().unwrap_or("");
        if DEFINERS.contains(&word) {
            return rest[word.len()..].starts_with([' ', '\t', '<', '!', '(']);
        }
        if word.is_empty() || !MODIFIERS.contains(&word) {
            break;
        }
        modified = true;
        let after = rest[word.len()..].trim_start();
        rest = match after.strip_prefix('(') {
            Some(inside) => inside.split_once(')').map_or("", |it| it.1).trim_start(),
            // A string says which calls they are.
            None => after.strip_prefix("\"C\"").unwrap_or(after).trim_start(),
        };
    }
    // `int main(void)`, `public BigDecimal gross() {`, `constructor(name) {`.
    let Some((before, after)) = rest.split_once('(') else { return false };
    let name = before.split_whitespace().next_back().unwrap_or("");
    let named = name.chars().all(|it| it.is_alphanumeric() || "_*&:~$<>".contains(it));
    let plain = !before.is_empty() && named && !before.contains(['=', '.', '"', '\'', '!', '?']);
    let typed = before.trim().contains(' ') && indent(line) == 0;
    let opens = text.ends_with('{') || (typed && after.ends_with(')'));
    let first = before.split_whitespace().next().unwrap_or("");
    plain && opens && (modified || !FLOW.contains(&first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Vec<(String, String, String)> {
        let blocks = parse(text).blocks.into_iter();
        blocks.map(|it| (it.header, it.text, it.location.to_string())).collect()
    }

    #[test]
    fn code_is_cut_at_definitions_and_not_inside_them() {
        let text = "fn a() {\n    one();\n\n    two();\n}\n\nfn b() {}\n";
        let part = |text: &str, place: &str| (String::new(), text.to_owned(), place.to_owned());
        assert_eq!(
            shape(text),
            [
                part("fn a() {\n    one();\n\n    two();\n}", "lines 1–5"),
                part("fn b() {}", "line 7"),
            ]
        );
    }

    #[test]
    fn methods_of_a_long_class_know_in_which_they_are() {
        let body = "        x = 1\n".repeat(10);
        let text = format!(
            "class HubGear:\n    \"\"\"A hub.\"\"\"\n\n    ratio = 3\n\n    def spread(self):\n{body}\n    @property\n    \
             # What it weighs.\n    def weight(self):\n{body}        def inner():\n            pass\n"
        );
        let seen = shape(&text);
        let places: Vec<(&str, &str)> = seen.iter().map(|it| (&*it.0, &*it.2)).collect();
        assert_eq!(
            places,
            [
                ("class HubGear", "lines 1–4"),
                ("class HubGear", "lines 6–16"),
                ("class HubGear", "lines 18–32")
            ]
        );
        assert!(seen[2].1.starts_with("    @property\n    # What it weighs.\n    def weight"));
    }

    #[test]
    fn definitions_are_told_from_what_is_done() {
        for line in [
            "pub(crate) async fn read(path: &Path) -> Result<()> {",
            "def spread(self):",
            "    public BigDecimal gross() {",
            "    constructor(private name: string) {",
            "int main(void)",
            "static void on_pulse(uint32_t now) {",
            "export default class Tracker {",
            "func (b *Box) Open() error {",
            "impl<T> Display for Wrapper<T> {",
            "extern \"C\" fn start() {",
            "export const ring = async (bell) => {",
            "let ring = function (bell) {",
        ] {
            assert!(defines(line), "{line}");
        }
        for line in [
            "    if (now - last < DEBOUNCE) {",
            "    for (const it of all) {",
            "    let x = compute(1);",
            "    self.read(path)",
            "return (a, b)",
            "# def of a word",
            "    items.forEach((it) => {",
            "typed(x)",
            "const rung = bells.map((it) => {",
            "if (a == b) => {",
            "    const near = (it) => {",
        ] {
            assert!(!defines(line), "{line}");
        }
    }

    #[test]
    fn nothing_of_a_file_is_lost() {
        let text = include_str!("code.rs");
        let blocks = parse(text).blocks;
        let kept: usize = blocks
            .iter()
            .map(|it| it.text.lines().filter(|it| !it.trim().is_empty()).count())
            .sum();
        assert_eq!(kept, text.lines().filter(|it| !it.trim().is_empty()).count());
        let line = |block: &Block| match block.location {
            Location::Line { start, end } => (start as usize, end as usize),
            _ => panic!("a line"),
        };
        let lines: Vec<&str> = text.lines().collect();
        for block in &blocks {
            let (start, end) = line(block);
            assert_eq!(block.text.lines().collect::<Vec<_>>(), lines[start - 1..end]);
        }
    }
}
