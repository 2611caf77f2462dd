//! Every crate says at its root what it is for, who its neighbors are, and what it does not do.

use crate::{cargo::Member, finding::Finding, repository::File};

/// Lines of prose below which none of the three questions can have been answered.
const FEWEST_LINES: usize = 4;

pub(super) fn check(members: &[Member], files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for root in members.iter().flat_map(|it| &it.roots) {
        let text = files.iter().find(|it| &it.path == root).and_then(|it| it.text.as_deref());
        let Some(text) = text else { continue };
        let prose = text
            .lines()
            .map_while(|line| line.strip_prefix("//!"))
            .filter(|line| !line.trim().is_empty())
            .count();
        if prose < FEWEST_LINES {
            let message = format!(
                "the crate doc has {prose} lines: begin the file with at least {FEWEST_LINES} lines of \
                 `//!` that name the principal type, the neighbors, and what does not belong here"
            );
            findings.push(Finding::error(root, 1, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<Finding> {
        let member = Member { roots: vec!["crates/a/src/lib.rs".to_owned()], ..Member::default() };
        check(
            &[member],
            &[File::of("crates/a/src/lib.rs", text), File::of("crates/a/src/b.rs", "")],
        )
    }

    #[test]
    fn a_crate_without_a_word_is_found() {
        assert_eq!(found("mod a;\n").len(), 1);
        assert!(found("//! A crate.\n//!\n//!\n//!\n//!\nmod a;\n")[0].message.contains("1 lines"));
        // Docs of something else further down do not count.
        assert_eq!(found("//! A.\nmod a;\n//! B\n//! C\n//! D\n").len(), 1);
    }

    #[test]
    fn prose_passes() {
        assert_eq!(found("//! A.\n//!\n//! B.\n//! C.\n//!\n//! Not here: D.\nmod a;\n"), []);
    }
}
