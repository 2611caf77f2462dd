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

/// Definers that may have no name: a function may be given to somebody.
const NAMELESS: [&str; 4] = ["function", "func", "fun", "fn"];

/// Words before brackets that are no names of functions.
const FLOW: [&str; 29] = [
    "if", "for", "while", "switch", "catch", "return", "else", "match", "with", "do", "try",
    "when", "let", "case", "elif", "elsif", "unless", "until", "foreach", "using", "assert",
    "throw", "await", "yield", "new", "lock", "fixed", "delegate", "where",
];

/// Definitions inside of definitions are looked for this deep: a class in a class in a module, and one more.
const DEEPEST: usize = 4;

/// Most characters of a name: a signature that goes on and on says where something is in its first words.
const LONGEST_NAME: usize = 80;

/// Between the names of what is around a definition, as between headings.
pub(crate) const INSIDE: &str = " › ";

/// Source code in blocks. A block's header names what it stands in, outermost first.
pub(crate) fn parse(text: &str) -> Document {
    let lines = lines(text);
    let mut blocks = Vec::new();
    for unit in units(&lines, 0) {
        cut(unit, &Place::default(), &mut blocks);
    }
    Document { blocks, ..Document::default() }
}

struct Line<'a> {
    /// From 1.
    number: u32,
    /// Empty if it is blank.
    text: &'a str,
    /// Columns before the first letter.
    indent: usize,
    /// Whether the definition of something that has a name begins here.
    defines: bool,
}

impl Line<'_> {
    fn is_blank(&self) -> bool {
        self.text.is_empty()
    }

    /// A label or what is only compiled if something is so: both stand at the margin inside of functions of C.
    fn is_aside(&self) -> bool {
        /// These begin a part of a class.
        const PARTS: [&str; 3] = ["public", "protected", "private"];
        let text = self.text.trim();
        let named = |it: char| it.is_alphanumeric() || it == '_';
        let is_label = |it: &str| !it.is_empty() && it.chars().all(named) && !PARTS.contains(&it);
        text.strip_suffix(':').is_some_and(is_label) || is_conditional(text)
    }
}

/// `#if defined(DEBUG)`, `#endif`.
fn is_conditional(text: &str) -> bool {
    let word = text.strip_prefix('#').map_or("", str::trim_start);
    ["if", "el", "endif", "pragma"].iter().any(|it| word.starts_with(it))
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let line = |(number, text): (u32, _)| {
        let text = if str::trim(text).is_empty() { "" } else { text };
        Line { number, text, indent: indent(text), defines: defines(text) }
    };
    let mut lines: Vec<Line<'_>> = numbered(text).map(line).collect();
    for at in 1..lines.len() {
        let (line, next) = (&lines[at - 1], &lines[at]);
        // C# and many of C++ open a body on the line below.
        let opens = next.text.trim() == "{" && next.indent == line.indent;
        if opens && !line.defines && !line.text.trim_end().ends_with('{') {
            lines[at - 1].defines = defines(&format!("{} {{", line.text));
        }
    }
    // Marks that end no prose from here on: it is not looked for them again and again.
    let mut missing: Vec<&str> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let begun = prose_until(lines[at].text).filter(|it| !missing.contains(it));
        at += 1;
        let Some(end) = begun else { continue };
        let Some(inside) = lines[at..].iter().position(|it| it.text.contains(end)) else {
            missing.push(end);
            continue;
        };
        lines[at..=at + inside].iter_mut().for_each(|it| it.defines = false);
        at += inside + 1;
    }
    lines
}

/// What ends the prose of several lines that begins in this one: a remark, or a text in three quotes.
fn prose_until(line: &str) -> Option<&'static str> {
    let text = line.trim_start();
    if text.starts_with("/*") && !text.contains("*/") {
        return Some("*/");
    }
    let (before, after) = line.split_once("\"\"\"")?;
    let opens = !before.contains(['"', '\'', '#']) && !after.contains("\"\"\"");
    opens.then_some("\"\"\"")
}

/// Runs of lines, blank ones inside of them kept: one that begins at the margin begins a unit behind a blank line, or
/// with a definition where the unit has one; an indented one belongs to what came before.
fn units<'l, 'a>(lines: &'l [Line<'a>], margin: usize) -> Vec<&'l [Line<'a>]> {
    let mut starts: Vec<usize> = Vec::new();
    let (mut behind_blank, mut defined, mut open) = (true, false, false);
    for (at, line) in lines.iter().enumerate() {
        if line.is_blank() {
            behind_blank = true;
            continue;
        }
        let text = line.text.trim();
        let at_margin = line.indent <= margin && !text.starts_with(['}', ')', ']']);
        let defines = at_margin && line.defines;
        let begins = at_margin && behind_blank && !(open && line.is_aside());
        if starts.is_empty() || begins {
            starts.push(at);
            defined = false;
        } else if defines && defined {
            starts.push(with_remarks(lines, at, starts.last().map_or(0, |it| it + 1), margin));
        }
        if line.indent <= margin {
            open = text == "{" || (defines && text.ends_with('{')) || (open && text != "}");
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
    at - above.take_while(|it| is_remark(it, margin)).count()
}

/// Without blank lines at its end.
fn trimmed<'l, 'a>(lines: &'l [Line<'a>]) -> &'l [Line<'a>] {
    let blank = lines.iter().rev().take_while(|it| it.is_blank()).count();
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
    let Some(outer) = unit.iter().position(|it| it.indent <= place.margin && it.defines) else {
        blocks.extend(block(BlockKind::Code, unit, &place.within));
        return;
    };
    let inner = |it: &Line<'_>| it.indent > place.margin && it.defines;
    let level = unit[outer + 1..].iter().filter(|it| inner(it)).map(|it| it.indent).min();
    let Some(level) = level.filter(|_| unit.len() > LONG && place.depth < DEEPEST) else {
        blocks.extend(block(BlockKind::Definition, unit, &place.within));
        return;
    };
    let first = unit.iter().position(|it| inner(it) && it.indent == level);
    let start = with_remarks(unit, first.unwrap_or(unit.len()), outer + 1, level);
    let name = name_of(unit[outer].text);
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
    let location = Location::Line { start: lines.first()?.number, end: lines.last()?.number };
    let text = lines.iter().map(|it| it.text).collect::<Vec<_>>().join("\n");
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
fn is_remark(line: &Line<'_>, level: usize) -> bool {
    let text = line.text.trim_start();
    let marks = ["//", "/*", "*", "#", "@", "--", ";;", "[", "\"\"\""];
    line.indent >= level && marks.iter().any(|it| text.starts_with(it))
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
    let at_margin = indent(line) == 0;
    if at_margin && names_function(text) {
        return true;
    }
    let mut rest = text;
    let mut modified = false;
    loop {
        // `pub(crate)`, `extern "C"`.
        let word = rest.split(|it: char| !it.is_alphanumeric() && it != '_').next().unwrap_or("");
        if DEFINERS.contains(&word) {
            return defines_with(word, &rest[word.len()..], text);
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
    is_function(rest, modified, at_margin)
}

/// Whether a word that defines does so: in `type(it)` and `module = None` it is the name of something else.
fn defines_with(word: &str, rest: &str, text: &str) -> bool {
    let named = |it: char| it.is_alphabetic() || "_*&<[({\"'`$@~!:".contains(it);
    match rest.chars().next() {
        Some(' ' | '\t') => rest.trim_start().starts_with(named),
        Some('<' | '!') => true,
        Some('(' | '*') => NAMELESS.contains(&word) && text.ends_with('{'),
        _ => false,
    }
}

/// Whether a line has the shape of a function: `int main(void)`, `public BigDecimal gross() {`, `constructor(name) {`.
fn is_function(line: &str, modified: bool, at_margin: bool) -> bool {
    let Some((before, after)) = line.split_once('(') else { return false };
    let name = before.split_whitespace().next_back().unwrap_or("");
    let named = name.chars().all(|it| it.is_alphanumeric() || "_*&:~$<>".contains(it))
        && name.contains(|it: char| it.is_alphanumeric() || it == '$');
    // What goes on from the line above: `: base(name)`.
    let begins = before.starts_with(|it: char| it.is_alphanumeric() || "_$~[<*".contains(it));
    let plain =
        named && begins && !before.contains(['=', '.', '"', '\'', '!', '?', '#', '@', '|', '}']);
    let first = before.split_whitespace().next().unwrap_or("");
    // `outer: for (let at = 0; …) {`
    let labeled = before.contains(": ") && FLOW.contains(&name);
    if !plain || labeled || (!modified && FLOW.contains(&first)) {
        return false;
    }
    let typed = before.trim().contains(' ') && !before.contains(" if ");
    match (after.strip_suffix('{'), closed(after)) {
        (Some(_), Some(behind)) => leads_to_body(behind.trim(), typed),
        // A call that is given a name and a function, or at the margin a function: all of a file may stand in one.
        (Some(_), None) => {
            let function = after.contains("=>") || after.contains("function");
            let given = function && (at_margin || after.starts_with(['"', '\'', '`']));
            // Parameters that are taken apart: `constructor(name, {`.
            given || (!typed && (modified || name == "constructor"))
        }
        (None, _) => typed && at_margin && after.ends_with(')'),
    }
}

/// What stands behind the bracket that closes the one that is open; none if none does.
fn closed(text: &str) -> Option<&str> {
    let mut open = 1;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => open += 1,
            ')' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(&text[at + 1..]);
        }
    }
    None
}

/// Whether what stands between the parameters and the end of the line may stand there, as `throws IOException {` or
/// `: string {`: what goes on with a value belongs to something that is done, as `let (a, b) = match it {` does.
fn leads_to_body(behind: &str, typed: bool) -> bool {
    const GOES_ON: &str = "=.?+*/|&<>,;%!)]}";
    let behind = behind.strip_suffix('{').unwrap_or(behind).trim_end();
    match behind {
        // A case of a `match`, and what it leads to; Dart writes functions so, behind their type.
        "=>" => typed,
        "->" => false,
        // Which values it is a method of.
        "&" | "&&" => true,
        _ => {
            let word = behind.split(|it: char| !it.is_alphanumeric()).next().unwrap_or("");
            let minus = behind.starts_with('-') && !behind.starts_with("->");
            let goes_on = minus || behind.starts_with(|it| GOES_ON.contains(it));
            !goes_on && !["if", "else", "as", "is", "in"].contains(&word)
        }
    }
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
            "const f = (a) => {",
            "export const near = async (a, b) => {",
            "it('rings twice', async () => {",
            "describe(`a bell`, function () {",
            "$(function () {",
            "  async read(path, { whole } = {",
            "  constructor (origin, {",
            "async function* turns() {",
            "  Map<String, dynamic> toJson() => {",
            "  Future<void> ring() async {",
            "    public int compareTo(Bell other) throws RingException {",
            "    protected override async Task<int> Ring(int turns) {",
            "    internal static Bell Of(string name) where T : Bell {",
            "    fun ring(turns: Int): String {",
            "  def ring(turns: Int): String = {",
            "auto ring(int turns) const -> Bell {",
            "Bell::Bell(int turns) : turns_(turns), loud_(f(1)) {",
            "  ring(bell: (turns: number) => void): Map<string, number> {",
            "func (bell Bell) Ring() (int, error) {",
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
            // Cases.
            "        Err(error) => {",
            "            Some(Turn { at, .. }) | None => {",
            "        Shape::Circle(radius) if radius > 3.0 => {",
            "    Kind::Html | Kind::Text(_) => {",
            "        turn @ Some(_) => {",
            "        it if is_loud(it) => {",
            "    case Some(turns) => {",
            "    case Circle(var radius) -> {",
            "        in listOf(1, 2) -> {",
            // What is done with a function or a value.
            "    std::thread::scope(|scope| {",
            "    useEffect(() => {",
            "        Ok(Self {",
            "        let (before, after) = match it.split(1) {",
            "        let Some(turn) = turns.next() else {",
            "        call(turns, (turn) => {",
            "    } catch (error) {",
            "    } else if (turns > 3) {",
            "    outer: for (let at = 0; at < turns; at++) {",
            "        isLoud(bell)) {",
            "    foreach (var turn in turns) {",
            // Names that are words of other languages.
            "    type(message))",
            "    module = sys.modules[name]",
            "    func()",
            "    object = Options()",
            "#if defined( LOUD )",
        ] {
            assert!(!defines(line), "{line}");
        }
    }

    /// The lines of each block.
    fn lines_of(text: &str) -> Vec<(u32, u32)> {
        let lines = |it: Block| match it.location {
            Location::Line { start, end } => (start, end),
            _ => panic!("a line"),
        };
        parse(text).blocks.into_iter().map(lines).collect()
    }

    #[test]
    fn a_long_function_is_not_cut_at_what_it_does() {
        let more = "        ring(bell);\n".repeat(24);
        let rust = format!(
            "fn ring(bell: Bell) -> u8 {{\n    match bell.turn() {{\n        Err(error) => {{\n{more}        }}\n        \
             Some(it) if it.loud() => {{\n        }}\n    }}\n    items.each(|it| {{\n    }});\n}}\n\nfn rung() {{}}\n"
        );
        assert_eq!(lines_of(&rust), [(1, 34), (36, 36)]);
        let script = format!(
            "export class Bell {{\n  ring(turns) {{\n    try {{\n{more}    }} catch (error) {{\n    }}\n    \
             useEffect(() => {{\n    }});\n  }}\n\n  rung() {{\n  }}\n}}\n"
        );
        assert_eq!(lines_of(&script), [(1, 1), (2, 32), (34, 36)]);
        let python = format!(
            "class Bell:\n    def ring(self):\n        \"\"\"Rings the\n        object that is given.\n\n        def of it.\n        \
             \"\"\"\n        type(self)\n        module = 3\n{more}\n    def rung(self):\n        pass\n"
        );
        assert_eq!(lines_of(&python), [(1, 1), (2, 33), (35, 36)]);
        let c = format!(
            "int ring(\n     int turns )\n{{\n{more}\n#if defined( LOUD )\n        shout();\n#endif\n\n        return 1;\n\n\
             on_error:\n        return -1;\n}}\n\nint rung(void)\n{{\n}}\n"
        );
        assert_eq!(lines_of(&c), [(1, 37), (39, 41)]);
    }

    #[test]
    fn a_body_may_open_on_the_line_below() {
        let more = "            bell.Ring();\n".repeat(24);
        let sharp = format!(
            "namespace Bells\n{{\n    public class Bell : Thing\n    {{\n        public Bell(string name)\n            : \
             base(name)\n        {{\n        }}\n        public void Ring<T>(int turns)\n        {{\n            lock \
             (turns)\n            {{\n            }}\n            if (turns > 3)\n            {{\n            }}\n{more}        \
             }}\n        private int Turns(Bell other)\n        {{\n        }}\n    }}\n}}\n"
        );
        // The constructor's line goes on before its body opens: it is not told from what is above it.
        assert_eq!(lines_of(&sharp), [(1, 2), (3, 8), (9, 41), (42, 46)]);
        let rust = format!(
            "fn fold<G>(g: G)\nwhere\n    G: Fn(u8) -> u8,\n{{\n{more}}}\nfn b()\n{{\n}}\n"
        );
        assert_eq!(lines_of(&rust), [(1, 29), (30, 32)]);
    }

    #[test]
    fn labels_begin_what_they_begin_where_no_function_is_open() {
        assert_eq!(lines_of("one:\n  a\n\ntwo:\n  b\n"), [(1, 2), (4, 5)]);
        let class = "class Bell\n{\nint a;\n\nprivate:\nint b;\n};\n";
        assert_eq!(lines_of(class), [(1, 3), (5, 7)]);
    }

    #[test]
    fn prose_that_is_never_closed_is_looked_for_once_and_hides_nothing() {
        let text = format!("{}fn a() {{\n}}\n\nfn b() {{\n}}\n", "/* never\n".repeat(20_000));
        let seen = lines_of(&text);
        assert_eq!(seen[seen.len() - 1], (20_004, 20_005));
        let text = "x = \"\"\"never\ndef a():\n    pass\ndef b():\n    pass\n";
        assert_eq!(lines_of(text), [(1, 3), (4, 5)]);
        // Where quotes are doubled, three end a text; a remark may speak of them.
        let text =
            "x = \"of \"\"three\"\"\"\ndef a():\n    pass\n# \"\"\"\ndef b():\n    pass\n\"\"\"\n";
        assert_eq!(lines_of(text), [(1, 3), (4, 7)]);
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
