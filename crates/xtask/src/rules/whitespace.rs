//! What makes a diff noisy: blanks at the end of a line, tabs, a missing or doubled end of the file.

use super::is_material;
use crate::{finding::Finding, repository::File};

/// Files written by people, by extension.
const CHECKED: [&str; 13] =
    ["rs", "md", "toml", "sh", "sql", "py", "yml", "yaml", "json", "ts", "svelte", "css", "html"];

/// Files written by people that have no extension.
const CHECKED_NAMES: [&str; 6] =
    ["Makefile", "LICENSE", ".gitignore", ".editorconfig", ".gitattributes", ".ci/run"];

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|it| is_checked(it) && !is_material(&it.path)) {
        let Some(text) = &file.text else { continue };
        for (index, line) in text.split('\n').enumerate() {
            let problem = if line.ends_with('\r') {
                "the line ends with CR LF: save the file with LF"
            } else if line.ends_with([' ', '\t']) {
                "white space at the end of the line: remove it"
            } else if file.extension() == "rs" && line.contains('\t') {
                "a tab: use spaces, or `\\t` inside a string"
            } else {
                continue;
            };
            findings.push(Finding::error(&file.path, index + 1, problem));
        }
        let lines = text.lines().count().max(1);
        if !text.is_empty() && !text.ends_with('\n') {
            findings.push(Finding::error(&file.path, lines, "no line break at the end: add one"));
        } else if text.ends_with("\n\n") {
            findings.push(Finding::error(&file.path, lines, "empty lines at the end: remove them"));
        }
    }
    findings
}

fn is_checked(file: &File) -> bool {
    CHECKED.contains(&file.extension()) || CHECKED_NAMES.contains(&file.path.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(&[File::of(path, text)]).into_iter().map(|it| it.line).collect()
    }

    #[test]
    fn each_kind_of_noise_is_found() {
        assert_eq!(found("a.rs", "fn a() {}  \n\tb();\nc();\r\nd();"), [1, 2, 3, 4]);
        assert_eq!(found("a.md", "text\n\n"), [2]);
    }

    #[test]
    fn clean_files_pass() {
        assert_eq!(found("a.rs", "fn a() {}\n"), [0; 0]);
        assert_eq!(found("a.rs", ""), [0; 0]);
        assert_eq!(found("Makefile", "a:\n\tb\n"), [0; 0]);
    }

    #[test]
    fn material_and_binary_files_are_left_alone() {
        assert_eq!(found("assets/sample-library/a.md", "x  \n"), [0; 0]);
        assert_eq!(found("a.eml", "x  \n"), [0; 0]);
        let binary = File { path: "a.rs".into(), bytes: 2, text: None };
        assert_eq!(check(&[binary]), []);
    }
}
