//! Libraries name no command, flag or environment variable: what can be done is a kind of `Advice`, and the command
//! line and the app each say it in their own words.

use super::rust_files;
use crate::{finding::Finding, repository::File, rust_source::RustSource};

/// Crates whose words are the command line's: they may name what it has. The doors are started by it.
const TOPS: [&str; 3] = ["cli", "doors", "xtask"];

/// Commands of the command line.
const COMMANDS: [&str; 17] = [
    "index",
    "search",
    "find",
    "man",
    "ask",
    "status",
    "folders",
    "llm",
    "rerank",
    "models",
    "eval",
    "compress",
    "bench",
    "toggle",
    "completions",
    "serve",
    "mcp",
];

/// Files that may, with the reason. One that needs its place no longer is a finding, too.
const EXCEPTIONS: [(&str, &str); 3] = [
    (
        "crates/kernels/src/isa.rs",
        "reads the switch that holds tests and measurements back to an older processor, and says what is wrong with it",
    ),
    ("crates/bench/src/peers.rs", "passes flags to the Python program that it starts"),
    ("crates/ocr/src/tesseract.rs", "passes flags to the program that it starts"),
];

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in rust_files(files).filter(|(file, _)| is_library(&file.path)) {
        let source = RustSource::new(text);
        let named = source.literals().filter_map(|(at, literal)| Some((at, named(literal)?)));
        let named: Vec<(usize, String)> = named.collect();
        match EXCEPTIONS.iter().find(|it| it.0 == file.path) {
            Some((path, reason)) if named.is_empty() => findings.push(Finding::error(
                path,
                1,
                format!("it names nothing any more: take it out of EXCEPTIONS in rules/words.rs ({reason})"),
            )),
            Some(_) => {}
            None => findings.extend(named.into_iter().map(|(at, name)| {
                let message = format!(
                    "a literal of a library names `{name}`: return an Advice or a Notice (crates/types), and let \
                     crates/doors/src/sentences.rs and ui/src/lib/strings say it"
                );
                Finding::error(&file.path, source.line_of(at), message)
            })),
        }
    }
    findings
}

/// Sources of libraries, without their tests.
fn is_library(path: &str) -> bool {
    let mut parts = path.split('/');
    let (Some("crates"), Some(name), Some("src")) = (parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    !TOPS.contains(&name) && parts.all(|it| it != "tests" && it != "tests.rs")
}

/// What of the command line a literal names.
fn named(literal: &str) -> Option<String> {
    command(literal).or_else(|| flag(literal)).or_else(|| variable(literal))
}

fn command(literal: &str) -> Option<String> {
    literal.match_indices("riddle ").find_map(|(at, begin)| {
        let before = literal[..at].chars().next_back();
        let word = word_at(&literal[at + begin.len()..], |it| it.is_ascii_lowercase());
        let alone = before.is_none_or(|it| !it.is_alphanumeric() && !"-_/.".contains(it));
        (alone && COMMANDS.contains(&word)).then(|| format!("riddle {word}"))
    })
}

fn flag(literal: &str) -> Option<String> {
    literal.match_indices("--").find_map(|(at, dashes)| {
        let before = &literal[..at];
        let word = word_at(&literal[at + dashes.len()..], |it| {
            it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-'
        });
        // `var(--ink)` and `{--ink:…}` are a style's.
        let begins = match before.chars().next_back() {
            None | Some('"' | '\'' | '`' | ',' | '[') => true,
            Some('(') => !before.ends_with("var("),
            Some(it) => it.is_whitespace(),
        };
        let is_name = word.starts_with(|it: char| it.is_ascii_lowercase()) && word.len() > 1;
        (begins && is_name).then(|| format!("--{word}"))
    })
}

fn variable(literal: &str) -> Option<String> {
    let at = literal.find("RIDDLE_")?;
    let word = word_at(&literal[at..], |it| it.is_ascii_uppercase() || it == '_');
    (word.len() > "RIDDLE_".len()).then(|| word.to_owned())
}

fn word_at(text: &str, part: impl Fn(char) -> bool) -> &str {
    let end = text.find(|it| !part(it)).unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_flags_and_variables_are_found_and_other_words_are_not() {
        for (literal, name) in [
            ("run `riddle index FOLDER` first", "riddle index"),
            ("riddle models pull x", "riddle models"),
            ("leave out --run and more", "--run"),
            ("allow it once (--allow-endpoint, or in the app)", "--allow-endpoint"),
            ("--top-k", "--top-k"),
            ("or in RIDDLE_LLM_KEY", "RIDDLE_LLM_KEY"),
        ] {
            assert_eq!(named(literal).as_deref(), Some(name), "{literal}");
        }
        for literal in [
            "the model of riddle is here",
            "written by a newer version of riddle",
            "riddle-index asks",
            ".paper{fill:var(--paper)}svg{{--paper:#ffffff;--ink:#1f2328}}",
            "org--name",
            "a -- b",
            "RIDDLE_",
            "1--2",
        ] {
            assert_eq!(named(literal), None, "{literal}");
        }
    }

    #[test]
    fn libraries_are_read_without_comments_and_tests() {
        let source = "/// As `riddle index` does.\nfn f() -> &'static str { \"run `riddle index`\" }\n#[error(\"use --home\")]\nstruct E;\n#[cfg(test)]\nmod tests { fn g() { f(\"--home\") } }\n";
        let lines = |path: &str| -> Vec<usize> {
            check(&[File::of(path, source)]).iter().map(|it| it.line).collect()
        };
        assert_eq!(lines("crates/catalog/src/error.rs"), [2, 3]);
        assert_eq!(lines("crates/cli/src/words.rs"), [0; 0]);
        assert_eq!(lines("crates/catalog/tests/open.rs"), [0; 0]);
        assert_eq!(lines("crates/llm/src/local/tests.rs"), [0; 0]);
        assert_eq!(lines("src-tauri/src/main.rs"), [0; 0]);
    }

    #[test]
    fn an_exception_holds_as_long_as_it_is_needed() {
        let path = EXCEPTIONS[0].0;
        assert!(check(&[File::of(path, "const A: &str = \"RIDDLE_FORCE_ISA\";\n")]).is_empty());
        assert_eq!(check(&[File::of(path, "const A: &str = \"scalar\";\n")]).len(), 1);
    }
}
