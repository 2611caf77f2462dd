//! `cargo xtask tidy`: collects the workspace, asks every rule, prints what they found.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::{cargo, complain, finding::Severity, repository, rules, say};

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
