//! Rust source split into code and comments, for rules that must not be fooled by a word in a string.
//!
//! No parser: a scanner for comments, strings and character literals, and matching of braces. It is
//! enough for what the rules ask, and it never rejects a file that rustc accepts.

/// A scanned file. Every view has the same length and the same line breaks as the source.
pub(crate) struct RustSource {
    /// Code; comments and the content of literals are blanks.
    pub(crate) code: String,
    /// Comments; everything else is blanks.
    pub(crate) comments: String,
    /// Literals; everything else is blanks.
    literals: String,
    /// Byte ranges of literals.
    literal_ranges: Vec<std::ops::Range<usize>>,
    /// Byte ranges of `#[cfg(test)] mod … { … }`.
    test_modules: Vec<std::ops::Range<usize>>,
}

/// A function with a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Line of the `fn`, from 1.
    pub(crate) line: usize,
    /// Lines from the `fn` to the closing brace.
    pub(crate) lines: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Region {
    Code,
    Comment,
    Literal,
}

impl RustSource {
    /// Scans `source`.
    pub(crate) fn new(source: &str) -> RustSource {
        let (regions, literal_ranges) = regions(source.as_bytes());
        let view = |wanted: Region| {
            let bytes = source
                .bytes()
                .zip(&regions)
                .map(|(byte, &region)| if byte == b'\n' || region == wanted { byte } else { b' ' });
            // Regions begin and end at ASCII characters, so no character is cut.
            String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
        };
        let code = view(Region::Code);
        let test_modules = test_modules(&code);
        RustSource {
            code,
            comments: view(Region::Comment),
            literals: view(Region::Literal),
            literal_ranges,
            test_modules,
        }
    }

    /// Line of a byte offset, from 1.
    pub(crate) fn line_of(&self, offset: usize) -> usize {
        1 + self.code.as_bytes()[..offset].iter().filter(|&&byte| byte == b'\n').count()
    }

    /// Literals outside test modules with their byte offsets, quotes included.
    pub(crate) fn literals(&self) -> impl Iterator<Item = (usize, &str)> {
        let inside = |at: usize| self.test_modules.iter().any(|it| it.contains(&at));
        let ranges = self.literal_ranges.iter().filter(move |it| !inside(it.start));
        ranges.map(|it| (it.start, &self.literals[it.clone()]))
    }

    /// Lines that are not inside a test module.
    pub(crate) fn lines_without_tests(&self) -> usize {
        let lines = |text: &str| text.bytes().filter(|&byte| byte == b'\n').count();
        let tests: usize = self.test_modules.iter().map(|it| lines(&self.code[it.clone()])).sum();
        lines(&self.code) - tests
    }

    /// Functions with a body outside test modules, in order.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for at in words(&self.code, "fn") {
            if self.test_modules.iter().any(|it| it.contains(&at)) {
                continue;
            }
            let name = first_word(&self.code[at + 2..]);
            // `fn(u8) -> u8` is a type.
            if name.is_empty() {
                continue;
            }
            if let Some(end) = body_end(&self.code, at) {
                let line = self.line_of(at);
                functions.push(Function { name, line, lines: self.line_of(end) - line + 1 });
            }
        }
        functions
    }
}

/// Byte offsets of `word` in `code`, where it stands alone.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part_of_word = |byte: Option<&u8>| {
        byte.is_some_and(|it| it.is_ascii_alphanumeric() || *it == b'_' || *it >= 0x80)
    };
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let bytes = code.as_bytes();
        !part_of_word(bytes.get(at + word.len()))
            && !part_of_word(at.checked_sub(1).and_then(|it| bytes.get(it)))
    })
}

fn first_word(code: &str) -> String {
    let code = code.trim_start();
    code.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect()
}

/// What every byte belongs to, and where literals lie.
fn regions(source: &[u8]) -> (Vec<Region>, Vec<std::ops::Range<usize>>) {
    let mut regions = vec![Region::Code; source.len()];
    let mut literals = Vec::new();
    let mut at = 0;
    while at < source.len() {
        let rest = &source[at..];
        let (region, length) = if rest.starts_with(b"//") {
            (Region::Comment, rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len()))
        } else if rest.starts_with(b"/*") {
            (Region::Comment, block_comment(rest))
        } else if let Some(length) = literal(source, at) {
            (Region::Literal, length)
        } else {
            (Region::Code, 1)
        };
        regions[at..at + length].fill(region);
        if region == Region::Literal {
            literals.push(at..at + length);
        }
        at += length;
    }
    (regions, literals)
}

/// Length of a block comment, which may hold others.
fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Length of the string or character literal that begins at `at`, if one does.
fn literal(source: &[u8], at: usize) -> Option<usize> {
    let rest = &source[at..];
    match rest[0] {
        b'"' => Some(quoted(rest, b'"')),
        b'r' if !follows_word(source, at) => raw_string(rest),
        b'\'' => character(rest),
        _ => None,
    }
}

/// `r` ends a word in `bar"…"` only inside a macro; `br"…"` and `cr"…"` are raw strings.
fn follows_word(source: &[u8], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).map(|it| source[it]);
    let in_word =
        |byte: Option<u8>| byte.is_some_and(|it| it.is_ascii_alphanumeric() || it == b'_');
    match before(1) {
        Some(b'b' | b'c') => in_word(before(2)),
        other => in_word(other),
    }
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_string(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let end = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let from = hashes + 2;
    let found = rest[from..].windows(end.len()).position(|window| window == end);
    Some(found.map_or(rest.len(), |it| from + it + end.len()))
}

/// `'x'`, `'\n'`, `'é'` are characters; `'a` in `&'a str` is not.
fn character(rest: &[u8]) -> Option<usize> {
    match rest.get(1)? {
        b'\\' => Some(quoted(rest, b'\'')),
        _ => {
            let width = 1 + rest[2..].iter().take_while(|&&byte| byte & 0xC0 == 0x80).count();
            (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
        }
    }
}

fn test_modules(code: &str) -> Vec<std::ops::Range<usize>> {
    let mut modules: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, attribute) in code.match_indices("#[cfg(test)]") {
        if modules.last().is_some_and(|it| it.contains(&at)) {
            continue;
        }
        let after = at + attribute.len();
        let is_module = matches!(first_word(&code[after..]).as_str(), "mod" | "pub");
        if let Some(end) = body_end(code, after).filter(|_| is_module) {
            modules.push(at..end + 1);
        }
    }
    modules
}

/// Offset of the brace that closes the body of the item at `from`; nothing for an item without a body.
pub(crate) fn body_end(code: &str, from: usize) -> Option<usize> {
    // `;` inside brackets is an array's length, in `fn f(x: [u8; 4]) {`.
    let (mut brackets, mut braces) = (0_i32, 0_i32);
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets -= 1,
            b';' if brackets <= 0 && braces == 0 => return None,
            b'{' => braces += 1,
            b'}' => {
                braces -= 1;
                if braces <= 0 {
                    return (braces == 0).then_some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_comments_and_literals_are_not_code() {
        let source = RustSource::new(
            "let a = \"unsafe \\\" {\"; // unsafe\nlet b = r#\"unsafe \" }\"#; /* unsafe /* { */ */\nlet c = '{';\n",
        );
        assert!(
            !source.code.contains("unsafe") && !source.code.contains(['{', '}']),
            "{}",
            source.code
        );
        assert_eq!(source.comments.matches("unsafe").count(), 2);
        assert_eq!(source.code.lines().count(), 3);
    }

    #[test]
    fn lifetimes_are_not_characters() {
        let source = RustSource::new(
            "fn f<'a>(x: &'a str) -> &'a str { x } // 'b\nfn g() -> char { 'é' }\n",
        );
        assert_eq!(source.functions().len(), 2);
        assert!(source.code.contains("&'a str { x }"));
        assert!(!source.code.contains('é'));
    }

    #[test]
    fn byte_and_raw_strings_end_where_they_should() {
        let source =
            RustSource::new("f(b\"}\", br\"\\\", br#\"}\"#, c\"{\"); let bar = 1; g(bar);\n");
        assert!(!source.code.contains(['{', '}']), "{}", source.code);
        assert!(source.code.contains("let bar = 1; g(bar);"), "{}", source.code);
    }

    #[test]
    fn functions_have_the_length_of_their_bodies() {
        let source = RustSource::new(
            "trait T { fn none(&self); }\nfn one(x: [u8; 2], g: fn(u8) -> u8) { }\nfn three() {\n    if a { \"}\" }\n}\n",
        );
        let functions = source.functions();
        let found: Vec<_> =
            functions.iter().map(|it| (it.name.as_str(), it.line, it.lines)).collect();
        assert_eq!(found, [("one", 2, 1), ("three", 3, 3)]);
    }

    #[test]
    fn test_modules_do_not_count() {
        let source = RustSource::new(
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\nfn c() {}\n",
        );
        assert_eq!(source.lines_without_tests(), 3);
        let names: Vec<_> = source.functions().into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["a", "c"]);
    }

    #[test]
    fn a_module_in_a_file_of_its_own_has_no_body_here() {
        let source = RustSource::new("#[cfg(test)]\nmod tests;\nfn a() {}\n");
        assert_eq!((source.lines_without_tests(), source.functions().len()), (3, 1));
    }

    #[test]
    fn whatever_comes_the_views_keep_their_lines() {
        for text in [
            "\"open",
            "/* open",
            "r#\"open",
            "'",
            "'\\",
            "fn",
            "fn x(",
            "#[cfg(test)] mod x {",
            "é\"é",
            "r",
        ] {
            let source = RustSource::new(text);
            assert_eq!(source.code.lines().count(), text.lines().count(), "{text}");
            assert!(source.functions().is_empty());
        }
    }
}
