//! Subjects of commits: `crate: imperative summary`, short enough for a list, with a body that says why.
//!
//! Only commits behind [`BASE`] are looked at: what came before was written by other rules and can not be changed.
//! Without git, or where the history ends before it (a shallow clone, an archive), nothing is said.

use std::collections::BTreeSet;

use crate::{
    finding::{Finding, Severity},
    repository::{Commit, File},
};

/// The last commit of before these rules. A commit that is in everybody's history with a wrong subject stays wrong:
/// then this moves behind it.
pub(crate) const BASE: &str = "7b9aeb63cb305a61ce1c76d9841f1a58cc44bbf4";

/// Characters of a subject: what `git log --oneline` shows in a terminal of 80 columns, with the number before it.
const LONGEST: usize = 72;

/// Places that are no crate and no folder at the top.
const PLACES: [&str; 6] = ["app", "build", "ci", "desktop", "workspace", "xtask"];

/// What a summary that is no request begins with.
const NO_VERBS: [&str; 20] = [
    "a", "all", "an", "any", "each", "every", "how", "it", "less", "more", "new", "no", "some",
    "that", "the", "these", "this", "what", "where", "who",
];

pub(super) fn check(commits: &[Commit], files: &[File]) -> Vec<Finding> {
    let places = places(files);
    let mut findings = Vec::new();
    for commit in commits {
        let mut add = |severity: Severity, message: String| {
            let message = format!("`{}`: {message}", commit.subject);
            let finding = Finding::error(&format!("commit {}", commit.name), 1, message);
            findings.push(Finding { severity, ..finding });
        };
        let length = commit.subject.chars().count();
        if length > LONGEST {
            add(Severity::Error, format!("{length} characters, more than {LONGEST}: amend it"));
        }
        if commit.body.trim().is_empty() {
            add(Severity::Error, "no body: amend it, and say why".to_owned());
        }
        match commit.subject.split_once(": ") {
            Some((crates, summary)) => {
                if let Some(unknown) = unknown(crates, &places) {
                    add(
                        Severity::Error,
                        format!("`{unknown}` is no crate and no folder: amend it"),
                    );
                }
                if summary.ends_with('.') {
                    add(Severity::Error, "a subject has no full stop: amend it".to_owned());
                }
                if !is_request(summary) {
                    add(Severity::Warning, "say it as a request: `add …`, `mend …`".to_owned());
                }
            }
            None => {
                add(Severity::Error, "write `crate: imperative summary`: amend it".to_owned());
            }
        }
    }
    findings
}

/// Crates and folders at the top.
fn places(files: &[File]) -> BTreeSet<&str> {
    let mut places: BTreeSet<&str> = PLACES.into_iter().collect();
    for path in files.iter().map(|it| it.path.as_str()) {
        let mut parts = path.split('/');
        let top = parts.next().unwrap_or("").trim_start_matches('.');
        places.insert(top);
        if top == "crates" {
            places.extend(parts.next());
        }
    }
    places
}

/// The first name in `a, b/c` that is of nothing.
fn unknown<'a>(crates: &'a str, places: &BTreeSet<&str>) -> Option<&'a str> {
    crates.split(", ").find(|it| !places.contains(it.split('/').next().unwrap_or(it)))
}

/// Whether the first word can be an imperative: a list of words that can not, and endings that others have.
fn is_request(summary: &str) -> bool {
    let word = summary.split(' ').next().unwrap_or("").to_lowercase();
    let participle = word.len() > 5 && (word.ends_with("ing") || word.ends_with("ed"));
    !word.is_empty() && !NO_VERBS.contains(&word.as_str()) && !participle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn found(subject: &str, body: &str) -> Vec<Severity> {
        let files = [File::of("crates/rag/src/lib.rs", ""), File::of("ui/a.ts", "")];
        let commit = Commit { name: "1234567".into(), subject: subject.into(), body: body.into() };
        check(&[commit], &files).into_iter().map(|it| it.severity).collect()
    }

    #[test]
    fn requests_with_a_reason_pass() {
        for subject in [
            "rag: look for the language in the question",
            "rag, ui: name the command that calibrates",
            "rag/index: read what was left",
            "desktop: feed the list",
            "ci: run properties on the same cases",
        ] {
            assert_eq!(found(subject, "Because.\n"), [], "{subject}");
        }
    }

    #[test]
    fn subjects_that_say_nothing_to_a_reader_are_found() {
        let long = format!("rag: {}", "x".repeat(68));
        for subject in [&*long, "look for it", "engine of old: look", "rag: look for it."] {
            assert_eq!(found(subject, "Because.\n"), [Severity::Error], "{subject}");
        }
        assert_eq!(found("rag: look for it", " \n"), [Severity::Error]);
    }

    #[test]
    fn what_is_no_request_is_worth_a_look() {
        for subject in ["rag: the language is looked for", "rag: looking", "rag: mended a bug"] {
            assert_eq!(found(subject, "Because.\n"), [Severity::Warning], "{subject}");
        }
    }
}
