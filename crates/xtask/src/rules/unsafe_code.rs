//! `unsafe` has rooms, and stays in them.

use super::rust_files;
use crate::{
    cargo::Member,
    finding::Finding,
    repository::File,
    rust_source::{RustSource, words},
};

/// Crates that may, and what for. clippy asks every block for its SAFETY note.
const MAY: &[(&str, &str)] = &[
    ("kernels", "SIMD and the calls into the matrix product"),
    ("weights", "views of bytes as numbers"),
    ("offload", "aligned buffers that threads fill, advice to the page cache"),
    ("metrics", "peak memory from the operating system, advice to the page cache"),
    ("ingest", "limits of the parsing child, and of what a foreign database may use"),
    ("retrieval", "files of its own that are mapped into memory"),
    ("foreign", "pointers of programs in C"),
];

pub(super) fn check(members: &[Member], files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in rust_files(files) {
        let owner = members.iter().find(|it| file.path.starts_with(it.folder()));
        if owner.is_some_and(|owner| MAY.iter().any(|(name, _)| *name == owner.name)) {
            continue;
        }
        let source = RustSource::new(text);
        for at in words(&source.code, "unsafe") {
            let rooms: Vec<String> =
                MAY.iter().map(|(name, what)| format!("{name} ({what})")).collect();
            let message =
                format!("`unsafe` outside its rooms: it may stand in {}", rooms.join(", "));
            findings.push(Finding::error(&file.path, source.line_of(at), message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        let member = |name: &str| Member {
            name: name.to_owned(),
            manifest: format!("crates/{name}/Cargo.toml"),
            ..Member::default()
        };
        let members = [member("rag"), member("kernels")];
        check(&members, &[File::of(path, text)]).into_iter().map(|it| it.line).collect()
    }

    #[test]
    fn unsafe_outside_its_rooms_is_found() {
        let text = "//! No unsafe here.\nfn f() {\n    unsafe { g() }\n}\n";
        assert_eq!(found("crates/rag/src/lib.rs", text), [3]);
        assert_eq!(found("crates/rag/tests/a.rs", "unsafe fn f() {}\n"), [1]);
        assert_eq!(found("crates/kernels/src/lib.rs", text), [0; 0]);
    }

    #[test]
    fn the_word_alone_is_harmless() {
        let text = "// unsafe\nlet unsafe_looking = \"unsafe { }\";\n#![forbid(unsafe_code)]\n";
        assert_eq!(found("crates/rag/src/lib.rs", text), [0; 0]);
    }
}
