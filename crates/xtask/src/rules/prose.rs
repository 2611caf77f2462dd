//! Documents that can be read: lines of a width, cells of a length, maps of one sitting.
//!
//! A row of a table can not be broken, so its cells are measured instead, as they are read: without what links lead to.
//! Comments in Rust are prose, too; there a wide line is worth a look and no error.

use super::rust_files;
use crate::{
    finding::{Finding, Severity},
    repository::File,
    rust_source::RustSource,
};

/// Characters of a line, and of a cell: what stands beside another window on a laptop's screen.
const WIDTH: usize = 120;

/// Documents that are read in one go, and the lines they may have.
const LENGTHS: &[(&str, usize)] = &[("docs/ARCHITECTURE.md", 200), ("docs/BENCHMARKS.md", 100)];

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|it| it.extension() == "md" && !is_somebody_elses(&it.path)) {
        let Some(text) = &file.text else { continue };
        for (index, line) in text.lines().enumerate() {
            findings.extend(
                too_wide(line).map(|message| Finding::error(&file.path, index + 1, message)),
            );
        }
        findings.extend(too_long(&file.path, text.lines().count()));
    }
    for (file, text) in rust_files(files) {
        let source = RustSource::new(text);
        let lines = source.comments.lines().zip(source.code.lines());
        for (index, (comment, code)) in lines.enumerate() {
            let width = comment.trim_end().chars().count();
            // An address can not be broken. Behind code it is the code that is wide.
            let words = comment.trim().trim_start_matches(['/', '!']).trim();
            if width > WIDTH && words.contains(' ') && code.trim().is_empty() {
                let message = format!("the comment has {width} characters: break it at {WIDTH}");
                let finding = Finding::error(&file.path, index + 1, message);
                findings.push(Finding { severity: Severity::Warning, ..finding });
            }
        }
    }
    findings
}

/// What a person keeps on a disk, and what a model's tools wrote. Our own model's card is ours.
fn is_somebody_elses(path: &str) -> bool {
    super::is_material(path) && !path.starts_with("assets/models/")
}

fn too_wide(line: &str) -> Option<String> {
    if line.starts_with('|') {
        let widest = line.split('|').map(|it| without_targets(it.trim()).chars().count()).max()?;
        return (widest > WIDTH).then(|| {
            format!(
                "a cell of {widest} characters: a table is for what is short, the rest is prose"
            )
        });
    }
    let width = line.chars().count();
    // An address can not be broken.
    let breakable = line.trim().contains(' ');
    (width > WIDTH && breakable)
        .then(|| format!("the line has {width} characters: break it at {WIDTH}"))
}

/// `[text](target)` as it is read: `[text]`.
fn without_targets(cell: &str) -> String {
    let mut parts = cell.split("](");
    let first = parts.next().unwrap_or("").to_owned();
    parts.fold(first, |read, part| {
        let rest = part.split_once(')').map_or("", |(_, rest)| rest);
        format!("{read}]{rest}")
    })
}

fn too_long(path: &str, lines: usize) -> Option<Finding> {
    let (_, most) = LENGTHS.iter().find(|(it, _)| *it == path)?;
    (lines > *most).then(|| {
        let message = format!(
            "{lines} lines, more than {most}: what was tried belongs into a crate's NOTES.md, a reason \
             into docs/decisions, a run into docs/benchmarks"
        );
        Finding::error(path, *most + 1, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn lines(path: &str, text: &str) -> Vec<(usize, Severity)> {
        check(&[File::of(path, text)]).into_iter().map(|it| (it.line, it.severity)).collect()
    }

    fn words(width: usize) -> String {
        format!("{}x", "é ".repeat(width / 2))[..].chars().take(width).collect()
    }

    #[test]
    fn wide_lines_are_found_by_their_characters() {
        assert_eq!(lines("docs/a.md", &format!("{}\n", words(120))), []);
        let text = format!("fine\n{}\n", words(121));
        assert_eq!(lines("docs/a.md", &text), [(2, Severity::Error)]);
        // Code is read as well.
        assert_eq!(lines("README.md", &format!("```\n{text}```\n")), [(3, Severity::Error)]);
        assert_eq!(lines("a.md", &format!("https://example.org/{}\n", "x".repeat(120))), []);
    }

    #[test]
    fn cells_are_measured_as_they_are_read() {
        let row = format!("| {} | {} |\n", words(119), words(119));
        assert_eq!(lines("a.md", &row), []);
        assert_eq!(lines("a.md", &format!("| {} |\n", words(121))), [(1, Severity::Error)]);
        let link = format!("| [here](docs/{}.md) and [there](b.md) |\n", "x".repeat(120));
        assert_eq!(lines("a.md", &link), []);
        assert_eq!(without_targets("a [b](c) d [e](f)"), "a [b] d [e]");
    }

    #[test]
    fn the_map_is_read_in_one_go() {
        assert_eq!(lines("docs/ARCHITECTURE.md", &"a\n".repeat(200)), []);
        let found = lines("docs/ARCHITECTURE.md", &"a\n".repeat(201));
        assert_eq!(found, [(201, Severity::Error)]);
        assert_eq!(lines("docs/STYLE.md", &"a\n".repeat(201)), []);
    }

    #[test]
    fn what_others_wrote_is_left_alone() {
        let text = format!("{}\n", words(200));
        assert_eq!(lines("assets/sample-library/a.md", &text), []);
        assert_eq!(lines("tests/golden/a.md", &text), []);
        assert_eq!(lines("assets/models/riddle-reranker/README.md", &text).len(), 1);
    }

    #[test]
    fn wide_comments_are_worth_a_look() {
        let comment = format!("// {}\n", words(120));
        assert_eq!(lines("crates/a/src/b.rs", &comment), [(1, Severity::Warning)]);
        let address = format!("/// <https://example.org/{}>\n", "x".repeat(120));
        assert_eq!(lines("crates/a/src/b.rs", &address), []);
        let code = format!("let a = \"{}\"; // short\n", words(130));
        assert_eq!(lines("crates/a/src/b.rs", &code), []);
    }
}
