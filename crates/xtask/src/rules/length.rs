//! Functions and files that a reader can hold.
//!
//! Some code is long for a reason (a table, a state machine that reads better in one piece). The reason
//! is a comment that begins with `Long:`, in the head of the file or in the comment above the function.

use super::rust_files;
use crate::{
    finding::{Finding, Severity},
    repository::File,
    rust_source::RustSource,
};

/// Lines of a function: more is a warning, then an error. One screen, and two.
const FUNCTION: (usize, usize) = (60, 120);

/// Lines of a file without its test module: more is a warning, then an error.
const FILE: (usize, usize) = (500, 900);

/// What a reason begins with.
const REASON: &str = "Long:";

/// Lines from the top in which a file's reason is looked for.
const HEAD_LINES: usize = 40;

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Tests are read one at a time; their files may be as long as there are cases.
    for (file, text) in rust_files(files).filter(|(file, _)| !is_test(&file.path)) {
        let source = RustSource::new(text);
        let comments: Vec<&str> = source.comments.lines().collect();
        let lines = source.lines_without_tests();
        if !comments.iter().take(HEAD_LINES).any(|it| it.contains(REASON)) {
            let what = format!("the file has {lines} lines without its tests");
            findings.extend(finding(&file.path, 1, lines, FILE, &what));
        }
        for function in source.functions() {
            let above =
                comments[..function.line - 1].iter().rev().take_while(|it| !it.trim().is_empty());
            if above.into_iter().any(|it| it.contains(REASON)) {
                continue;
            }
            let what = format!("`{}` has {} lines", function.name, function.lines);
            findings.extend(finding(&file.path, function.line, function.lines, FUNCTION, &what));
        }
    }
    findings
}

fn is_test(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.contains("/benches/")
}

fn finding(
    path: &str,
    line: usize,
    lines: usize,
    (soft, hard): (usize, usize),
    what: &str,
) -> Option<Finding> {
    let severity = match lines {
        lines if lines > hard => Severity::Error,
        lines if lines > soft => Severity::Warning,
        _ => return None,
    };
    let message = format!(
        "{what}, more than {}: divide it, or write above it why it is one piece (`// {REASON} …`)",
        if severity == Severity::Error { hard } else { soft }
    );
    Some(Finding { severity, ..Finding::error(path, line, message) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(head: &str, lines: usize) -> String {
        format!("{head}fn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2))
    }

    fn found(path: &str, text: &str) -> Vec<(usize, Severity)> {
        check(&[File::of(path, text)]).into_iter().map(|it| (it.line, it.severity)).collect()
    }

    #[test]
    fn long_functions_are_found() {
        let path = "crates/a/src/b.rs";
        assert_eq!(found(path, &function("", 60)), []);
        assert_eq!(found(path, &function("\n", 61)), [(2, Severity::Warning)]);
        assert_eq!(found(path, &function("\n\n", 121)), [(3, Severity::Error)]);
    }

    #[test]
    fn a_reason_is_accepted_only_where_it_belongs() {
        let path = "crates/a/src/b.rs";
        assert_eq!(found(path, &function("/// F.\n// Long: one arm per opcode.\n", 200)), []);
        let elsewhere = "// Long: one arm per opcode.\nfn g() {}\n\n";
        assert!(found(path, &function(&format!("{}{elsewhere}", "\n".repeat(50)), 200)).len() == 1);
        let string = "const A: &str = \"Long: not a comment\";\n";
        assert_eq!(found(path, &function(string, 200)).len(), 1);
    }

    #[test]
    fn long_files_are_found_and_tests_do_not_count() {
        let path = "crates/a/src/b.rs";
        let code = "const A: u8 = 0;\n".repeat(901);
        assert_eq!(found(path, &code), [(1, Severity::Error)]);
        assert_eq!(found(path, &"const A: u8 = 0;\n".repeat(501)), [(1, Severity::Warning)]);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{code}}}\n");
        assert_eq!(found(path, &tests), []);
        assert_eq!(found(path, &format!("// Long: a table.\n{code}")), []);
        assert_eq!(found("crates/a/tests/b.rs", &code), []);
    }
}
