//! The rules, one module each, in the order in which `docs/STYLE.md` names them.

mod circles;
pub(crate) mod commits;
mod contract;
mod crate_docs;
mod edges;
mod large;
mod length;
mod links;
mod prose;
mod rooms;
mod unfinished;
mod unsafe_code;
mod unused;
mod whitespace;
mod words;

use crate::{
    cargo::Member,
    finding::Finding,
    repository::{Commit, File},
};

/// Everything every rule has to say.
pub(crate) fn check(members: &[Member], files: &[File], commits: &[Commit]) -> Vec<Finding> {
    let mut findings = edges::check(members, files);
    findings.extend(rooms::check(members, files));
    findings.extend(circles::check(members, files));
    findings.extend(crate_docs::check(members, files));
    findings.extend(links::check(files));
    findings.extend(prose::check(files));
    findings.extend(unsafe_code::check(members, files));
    findings.extend(unused::check(members, files));
    findings.extend(words::check(files));
    findings.extend(length::check(files));
    findings.extend(whitespace::check(files));
    findings.extend(unfinished::check(files));
    findings.extend(large::check(files));
    findings.extend(contract::check(files));
    findings.extend(commits::check(commits, files));
    findings
}

/// Files that stand for somebody else's: what a person keeps on a disk, what a model's tools wrote. They
/// are test material, and changing them to please a rule would change the test.
fn is_material(path: &str) -> bool {
    path.starts_with("assets/")
        || path.starts_with("tests/golden/")
        || path.split('/').any(|it| it == "fixtures")
}

/// Rust files that we wrote.
fn rust_files(files: &[File]) -> impl Iterator<Item = (&File, &str)> {
    files
        .iter()
        .filter(|it| it.extension() == "rs" && !is_material(&it.path))
        .filter_map(|it| Some((it, it.text.as_deref()?)))
}

/// What a rule says of a crate `rag` that has these files, a line for each finding.
#[cfg(test)]
fn said_of_rag(
    files: &[(&str, &str)],
    rule: impl Fn(&[Member], &[File]) -> Vec<Finding>,
) -> Vec<String> {
    let member = Member {
        name: "rag".to_owned(),
        manifest: "Cargo.toml".to_owned(),
        roots: vec!["src/lib.rs".to_owned()],
        dependencies: Vec::new(),
    };
    let files: Vec<File> = files.iter().map(|(path, text)| File::of(path, text)).collect();
    let line = |it: Finding| format!("{}:{}: {}", it.path, it.line, it.message);
    rule(&[member], &files).into_iter().map(line).collect()
}
