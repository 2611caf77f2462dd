//! What says "later" in code that ships now: skipped tests, macros that panic when reached, marks in
//! comments. An open question is an issue, not a comment.

use super::rust_files;
use crate::{
    finding::Finding,
    repository::File,
    rust_source::{RustSource, words},
};

/// Marks in comments.
const MARKS: [&str; 3] = ["FIXME", "XXX", "TODO"];

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in rust_files(files) {
        let source = RustSource::new(text);
        let mut add = |at: usize, message: String| {
            findings.push(Finding::error(&file.path, source.line_of(at), message));
        };
        for at in words(&source.code, "ignore") {
            if source.code[..at].trim_end().ends_with("#[") {
                add(
                    at,
                    "a test that does not run: mend it, delete it, or let it skip with a reason"
                        .into(),
                );
            }
        }
        for name in ["todo", "unimplemented"] {
            for at in words(&source.code, name) {
                if source.code[at + name.len()..].starts_with('!') {
                    add(
                        at,
                        format!(
                            "`{name}!` panics when it is reached: finish it, or return an error"
                        ),
                    );
                }
            }
        }
        for mark in MARKS {
            for at in words(&source.comments, mark) {
                add(
                    at,
                    format!(
                        "`{mark}` in a comment: do it now, or open an issue and remove the comment"
                    ),
                );
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<usize> {
        check(&[File::of("crates/a/src/b.rs", text)]).into_iter().map(|it| it.line).collect()
    }

    #[test]
    fn unfinished_work_is_found() {
        assert_eq!(found("#[test]\n#[ignore]\nfn a() {}\n"), [2]);
        assert_eq!(found("#[ignore = \"slow\"]\nfn a() {}\n"), [1]);
        assert_eq!(found("fn a() { todo!() }\nfn b() { unimplemented!(\"b\") }\n"), [1, 2]);
        assert_eq!(found("// FIXME later\n/// XXX\n"), [1, 2]);
    }

    #[test]
    fn words_that_only_look_like_it_pass() {
        assert_eq!(
            found("let ignore = todo; // ignored todos\nlet a = \"FIXME todo!()\";\n"),
            [0; 0]
        );
        assert_eq!(found("use ignore::WalkBuilder;\nlet todo = 1;\n"), [0; 0]);
    }
}
