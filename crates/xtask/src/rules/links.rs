//! Links between the documents: every relative one leads to a file, every anchor to a heading. Comments in Rust name
//! documents by their paths; these are there, too.

use std::collections::HashSet;

use super::{is_material, rust_files};
use crate::{finding::Finding, repository::File, rust_source::RustSource};

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let paths: HashSet<&str> = files.iter().map(|it| it.path.as_str()).collect();
    let mut findings = Vec::new();
    for file in files.iter().filter(|it| it.extension() == "md" && !is_material(&it.path)) {
        let Some(text) = &file.text else { continue };
        for (line, target) in targets(text) {
            if let Some(problem) = problem(file, &target, &paths, files) {
                findings.push(Finding::error(&file.path, line, problem));
            }
        }
    }
    for (file, text) in rust_files(files) {
        let comments = RustSource::new(text).comments;
        for (index, line) in comments.lines().enumerate() {
            for path in documents(line).filter(|it| !paths.contains(it)) {
                let message =
                    format!("`{path}` does not exist: name the document that says it now");
                findings.push(Finding::error(&file.path, index + 1, message));
            }
        }
    }
    findings
}

/// Paths of documents in a comment, as `docs/STYLE.md`.
fn documents(line: &str) -> impl Iterator<Item = &str> {
    let part = |it: char| it.is_ascii_alphanumeric() || "/-_.".contains(it);
    line.split(move |it: char| !part(it)).map(|it| it.trim_end_matches('.')).filter(|it| {
        it.starts_with("docs/") && std::path::Path::new(it).extension().is_some_and(|it| it == "md")
    })
}

fn problem(from: &File, target: &str, paths: &HashSet<&str>, files: &[File]) -> Option<String> {
    // `https:`, `mailto:` and the like are somebody else's to keep alive.
    let scheme = target.split(['/', '#', '?']).next().unwrap_or("");
    if scheme.contains(':') || target.is_empty() {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = path.replace("%20", " ");
    let wanted = if path.is_empty() { from.path.clone() } else { resolve(&from.path, &path) };
    let folder = format!("{}/", wanted.trim_end_matches('/'));
    if !paths.contains(wanted.as_str()) {
        let is_folder = wanted.is_empty() || paths.iter().any(|it| it.starts_with(&folder));
        return (!is_folder).then(|| {
            format!(
                "dead link: `{target}` leads to `{wanted}`, which does not exist: mend or remove it"
            )
        });
    }
    let text = files.iter().find(|it| it.path == wanted).and_then(|it| it.text.as_deref())?;
    if anchor.is_empty() || !wanted.ends_with(".md") || anchors(text).contains(anchor) {
        return None;
    }
    Some(format!("dead link: `{wanted}` has no heading `#{anchor}`: name one that exists"))
}

/// Path of `target`, seen from the file `from`, relative to the root.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = if target.starts_with('/') {
        Vec::new()
    } else {
        from.rsplit_once('/').map_or(Vec::new(), |(folder, _)| folder.split('/').collect())
    };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|it| *it != "..") => drop(parts.pop()),
            // Out of the repository: kept, so that it is not found.
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Link targets with their lines: `[text](target)`, `![text](target)`, `[name]: target`, `src="target"`.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let mut rest = line.as_str();
        while let Some((_, after)) = rest.split_once("](") {
            let target = after.split([')', ' ']).next().unwrap_or("");
            found.push((number, target.trim_matches(['<', '>']).to_owned()));
            rest = after;
        }
        if let Some((name, target)) = line.strip_prefix('[').and_then(|it| it.split_once("]: "))
            && !name.contains(']')
        {
            let target = target.split_whitespace().next().unwrap_or("");
            found.push((number, target.to_owned()));
        }
        for attribute in ["src=\"", "href=\""] {
            for after in line.split(attribute).skip(1) {
                found.push((number, after.split('"').next().unwrap_or("").to_owned()));
            }
        }
    }
    found
}

/// Lines outside code blocks, with code spans taken out.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let start = line.trim_start();
        if start.starts_with("```") || start.starts_with("~~~") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then(|| (index + 1, line.split('`').step_by(2).collect::<Vec<_>>().join("")))
    })
}

/// Anchors of the headings, made the way code hosts do: lower case, spaces to `-`, punctuation dropped,
/// repeated ones numbered.
fn anchors(text: &str) -> HashSet<String> {
    let mut fenced = false;
    let mut anchors = HashSet::new();
    for line in text.lines() {
        if line.starts_with("```") || line.starts_with("~~~") {
            fenced = !fenced;
        }
        let title = line.trim_start_matches('#');
        if fenced || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let anchor: String = title
            .trim()
            .chars()
            .filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'))
            .map(|it| if it == ' ' { '-' } else { it })
            .flat_map(char::to_lowercase)
            .collect();
        let mut unique = anchor.clone();
        let mut count = 0;
        while !anchors.insert(unique.clone()) {
            count += 1;
            unique = format!("{anchor}-{count}");
        }
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn found(readme: &str) -> Vec<(usize, String)> {
        let files = [
            File::of("README.md", readme),
            File::of(
                "docs/ARCHITECTURE.md",
                "# Bird's eye\n## The `code` map\n## Same\n## Same\n[up](../README.md)\n",
            ),
            File::of("docs/shot.svg", "<svg/>"),
        ];
        check(&files).into_iter().map(|it| (it.line, it.message)).collect()
    }

    #[test]
    fn living_links_pass() {
        let text = "[a](docs/ARCHITECTURE.md) ![b](docs/shot.svg) [c](docs) [d](./docs/ \"title\")\n\
            [e](https://example.org/x) [f](mailto:a@b.c) <img src=\"docs/shot.svg\">\n\
            [g](docs/ARCHITECTURE.md#birds-eye) [h](docs/ARCHITECTURE.md#the-code-map)\n\
            [i](docs/ARCHITECTURE.md#same-1) [j](#here)\n# Here\n[ref]: docs/shot.svg\n";
        assert_eq!(found(text), []);
    }

    #[test]
    fn dead_links_are_found_with_their_lines() {
        let text =
            "fine\n[a](docs/GONE.md)\n![b](docs/none.png) [c](../outside.md)\n[ref]: nowhere.md\n";
        let lines: Vec<usize> = found(text).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [2, 3, 3, 4]);
    }

    #[test]
    fn dead_anchors_are_found() {
        assert!(found("[a](docs/ARCHITECTURE.md#gone)\n")[0].1.contains("no heading `#gone`"));
        assert_eq!(found("[a](#nowhere)\n").len(), 1);
    }

    #[test]
    fn code_is_not_a_link() {
        assert_eq!(found("`[a](gone.md)`\n```\n[b](gone.md)\n# Not a heading\n```\n"), []);
    }

    #[test]
    fn comments_name_documents_that_exist() {
        let found = |comment: &str| {
            let files = [File::of("docs/STYLE.md", ""), File::of("crates/a/src/b.rs", comment)];
            check(&files).into_iter().map(|it| it.line).collect::<Vec<_>>()
        };
        assert_eq!(found("/// As in docs/STYLE.md. (docs/STYLE.md, names)\n"), [0; 0]);
        assert_eq!(found("\n/// As in docs/GONE.md.\n"), [2]);
        assert_eq!(found("let path = \"docs/GONE.md\";\n"), [0; 0]);
    }

    #[test]
    fn a_persons_files_may_point_anywhere() {
        assert_eq!(check(&[File::of("assets/sample-library/a.md", "[x](gone.md)\n")]), []);
    }
}
