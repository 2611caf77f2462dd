//! Source code by definition: a function is a block, and one inside of a class or module knows in which.
//!
//! Languages are not told apart: what begins at the margin behind a blank line is a unit, and a unit that is long is
//! cut where the definitions inside of it begin. Parsers of forty languages would know more, and take megabytes and
//! minutes of building each.

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

/// Source code in blocks.
pub(crate) fn parse(text: &str) -> Document {
    let mut document = Document::default();
    for unit in units(text) {
        for part in parts(&unit) {
            let lines: Vec<&str> = part.lines.iter().map(|it| it.1).collect();
            let (start, end) = (part.lines[0].0, part.lines[part.lines.len() - 1].0);
            let location = Location::Line { start, end };
            let block = Block::new(BlockKind::Code, lines.join("\n"), location);
            document.blocks.push(Block { header: part.within.to_owned(), ..block });
        }
    }
    document
}

/// A line with its number, from 1.
type Line<'a> = (u32, &'a str);

/// Runs of lines, blank ones inside of them kept: one that begins at the margin behind a blank line begins a unit, an
/// indented one belongs to what came before.
fn units(text: &str) -> Vec<Vec<Line<'_>>> {
    let mut units: Vec<Vec<Line<'_>>> = Vec::new();
    let mut blank: Vec<Line<'_>> = Vec::new();
    for (number, line) in numbered(text) {
        if line.trim().is_empty() {
            blank.push((number, ""));
            continue;
        }
        let at_margin = !line.starts_with([' ', '\t', '}', ')', ']']);
        match units.last_mut() {
            Some(unit) if blank.is_empty() || !at_margin => {
                unit.append(&mut blank);
                unit.push((number, line));
            }
            _ => units.push(vec![(number, line)]),
        }
        blank.clear();
    }
    units
}

/// A part of a unit.
struct Part<'a> {
    lines: Vec<Line<'a>>,
    /// The line that begins the definition around it; empty where there is none.
    within: &'a str,
}

fn parts<'a>(unit: &[Line<'a>]) -> Vec<Part<'a>> {
    let whole = || vec![Part { lines: unit.to_vec(), within: "" }];
    let outer = unit.iter().find(|it| indent(it.1) == 0 && defines(it.1)).map(|it| it.1.trim_end());
    let Some(outer) = outer.filter(|_| unit.len() > LONG) else { return whole() };
    let inner = |it: &Line<'a>| indent(it.1) > 0 && defines(it.1);
    let Some(level) = unit.iter().filter(|it| inner(it)).map(|it| indent(it.1)).min() else {
        return whole();
    };
    let mut starts: Vec<usize> = Vec::new();
    for (at, line) in unit.iter().enumerate() {
        if indent(line.1) != level || !defines(line.1) {
            continue;
        }
        // What is said of it stands above it.
        let mut start = at;
        while start > 0 && is_remark(unit[start - 1].1, level) {
            start -= 1;
        }
        if start > starts.last().copied().unwrap_or(0) {
            starts.push(start);
        }
    }
    let ends = starts.iter().copied().skip(1).chain([unit.len()]);
    let head =
        Part { lines: unit[..starts.first().copied().unwrap_or(unit.len())].to_vec(), within: "" };
    let inner = starts
        .iter()
        .zip(ends)
        .map(|(&start, end)| Part { lines: unit[start..end].to_vec(), within: outer });
    std::iter::once(head)
        .chain(inner)
        .map(|part| Part { lines: trimmed(part.lines), ..part })
        .filter(|it| !it.lines.is_empty())
        .collect()
}

/// Without blank lines at both ends.
fn trimmed(lines: Vec<Line<'_>>) -> Vec<Line<'_>> {
    let blank = |it: &&Line<'_>| it.1.trim().is_empty();
    let after = lines.iter().rev().take_while(blank).count();
    let before = lines.iter().take_while(blank).count();
    let end = lines.len() - after;
    lines.get(before..end).map(<[_]>::to_vec).unwrap_or_default()
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

/// Whether a line begins the definition of something that has a name.
fn defines(line: &str) -> bool {
    let text = line.trim();
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
                ("", "lines 1–4"),
                ("class HubGear:", "lines 6–16"),
                ("class HubGear:", "lines 18–32")
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
