//! `cargo xtask tidy`: collects the workspace, asks every rule, prints what they found.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::{cargo, complain, repository, rules, say};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// Worth a look; does not fail.
    Warning,
    /// Fails.
    Error,
}

/// Something a rule objects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// File, relative to the root; or a commit.
    pub(crate) path: String,
    /// Line, from 1; 1 where the file as a whole is meant.
    pub(crate) line: usize,
    /// What is wrong, and what to do.
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn error(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { severity: Severity::Error, path: path.to_owned(), line, message: message.into() }
    }
}

/// Checks the repository; false when something must be mended.
pub(crate) fn run() -> Result<bool> {
    let files = repository::files()?;
    let members = cargo::members()?;
    let commits = repository::commits_since(rules::commits::BASE);
    let mut findings = rules::check(&members, &files, &commits);
    // Errors last: they are what is still on the screen.
    findings.sort_by(|a, b| (a.severity, &a.path, a.line).cmp(&(b.severity, &b.path, b.line)));
    for finding in &findings {
        let word = match finding.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        complain(&format!("{word}: {}:{}: {}\n", finding.path, finding.line, finding.message));
    }
    let errors = findings.iter().filter(|it| it.severity == Severity::Error).count();
    let touched: BTreeSet<&str> = findings.iter().map(|it| it.path.as_str()).collect();
    say(&format!(
        "tidy: {} files, {} crates: {errors} errors, {} warnings in {} files\n",
        files.len(),
        members.len(),
        findings.len() - errors,
        touched.len(),
    ));
    Ok(errors == 0)
}
