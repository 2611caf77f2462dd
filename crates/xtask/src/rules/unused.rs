//! A library that no line of a crate names is built for nothing, by everyone.

use crate::{
    cargo::{Dependency, Member},
    finding::Finding,
    repository::File,
};

/// Package, and what it is called in code.
const CALLED: &[(&str, &str)] = &[("kamadak-exif", "exif")];

/// Crate, and a library that it names in `Cargo.toml` alone, with the reason.
const NAMED_ONLY: &[(&str, &str)] = &[
    // Its feature `vendored` builds libdbus in, for `dbus-secret-service`.
    ("llm", "dbus"),
];

/// Every dependency that its crate's code does not name.
pub(super) fn check(members: &[Member], files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in members {
        let folder = member.folder();
        let code: Vec<&str> = files
            .iter()
            .filter(|it| it.extension() == "rs" && it.path.starts_with(folder))
            .filter_map(|it| it.text.as_deref())
            .collect();
        for dependency in &member.dependencies {
            let listed = NAMED_ONLY.contains(&(&member.name, &dependency.name));
            if !listed && !code.iter().any(|text| names(text, &called(dependency))) {
                let message = format!(
                    "`{}` does not use `{}`: leave it out, or list it with the reason in xtask's unused.rs",
                    member.name, dependency.name
                );
                findings.push(Finding::error(&member.manifest, 1, message));
            }
        }
    }
    findings
}

/// What a dependency is called in code.
fn called(dependency: &Dependency) -> String {
    if let Some((_, name)) = CALLED.iter().find(|it| it.0 == dependency.name) {
        return (*name).to_owned();
    }
    let name = dependency.name.replace('-', "_");
    if dependency.ours { format!("riddle_{name}") } else { name }
}

/// Whether a line of code, and not of comments, has `name` as a word.
fn names(text: &str, name: &str) -> bool {
    let part = |it: Option<char>| it.is_some_and(|it| it.is_alphanumeric() || it == '_');
    text.lines().filter(|it| !it.trim_start().starts_with("//")).any(|line| {
        line.match_indices(name).any(|(at, _)| {
            !part(line[..at].chars().next_back()) && !part(line[at + name.len()..].chars().next())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(dependency: Dependency, text: &str) -> usize {
        let member = Member {
            name: "rag".to_owned(),
            manifest: "crates/rag/Cargo.toml".to_owned(),
            dependencies: vec![dependency],
            ..Member::default()
        };
        check(&[member], &[File::of("crates/rag/src/lib.rs", text)]).len()
    }

    fn of(name: &str, ours: bool) -> Dependency {
        Dependency { name: name.to_owned(), ours, dev: false }
    }

    #[test]
    fn what_code_names_is_used() {
        assert_eq!(said(of("fast-rand", false), "let it = fast_rand::u8(..);"), 0);
        assert_eq!(said(of("types", true), "use riddle_types::Hit;"), 0);
        assert_eq!(said(of("kamadak-exif", false), "use exif::Tag;"), 0);
    }

    #[test]
    fn what_comments_and_longer_words_name_is_not() {
        assert_eq!(said(of("hnsw_rs", false), "//! Not taken from `hnsw_rs`."), 1);
        assert_eq!(said(of("log", false), "let logs = catalog.dialog();"), 1);
        assert_eq!(said(of("types", true), "let types = 1;"), 1);
    }
}
