//! Who may use whom, and which library belongs into which room.
//!
//! The tables are the diagram of `docs/ARCHITECTURE.md` in a form that cannot fade. A new edge is a
//! decision: it belongs into the document, with its reason, before it belongs here.

use std::collections::BTreeSet;

use crate::{
    cargo::{Dependency, Member},
    finding::Finding,
    repository::File,
};

/// Crate, and the crates of ours that it may use. `types` may be used by everyone.
const ALLOWED: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("kernels", &[]),
    ("weights", &[]),
    // Ciphers and keys; whoever writes a home's files is given one.
    ("seal", &[]),
    ("offload", &["weights"]),
    // What a layer computes, never which layers are in memory: that is offload's, one storey up.
    ("transformer", &["kernels", "weights"]),
    // The engines drive the layers themselves: the thread pool and the last activation are kernels'.
    ("grating", &["types", "kernels", "offload", "transformer"]),
    // The engine alone, for programs in other languages.
    ("foreign", &["types", "grating"]),
    ("embedding", &["types", "kernels", "weights", "offload", "transformer"]),
    ("models", &["types"]),
    // Files of keys and values are read past the page cache, as weights are.
    ("cache", &["offload", "seal"]),
    // Whom to trust on a network, and what of an address may be shown, is said once: where models are fetched.
    // A model in this process has its layers from offload and computes them with transformer, as the reranker does.
    // What it read of a prompt it keeps for the next one.
    ("llm", &["types", "models", "kernels", "offload", "transformer", "cache"]),
    ("watch", &["types"]),
    // Pictures of text become lines: what becomes of them is ingest's.
    ("ocr", &[]),
    ("ingest", &["types", "ocr"]),
    ("catalog", &["types", "seal"]),
    // Compares codes; the loops over them are kernels'.
    ("retrieval", &["types", "kernels", "seal"]),
    // Knows a library's server as retrieval knows its index: what is merged of both is rag's.
    ("milvus", &["types"]),
    // Whom to trust on a network is said where models are fetched.
    ("objects", &["types", "models"]),
    // Models that judge come in as traits.
    ("claims", &["types"]),
    (
        "rag",
        &[
            "types",
            // The key of a home, and where it comes from.
            "seal",
            "grating",
            "embedding",
            "models",
            "llm",
            // Says which chunks are gone, and how much may be kept.
            "cache",
            "watch",
            "ingest",
            "catalog",
            "retrieval",
            "milvus",
            "objects",
            "claims",
        ],
    ),
    ("metrics", &[]),
    ("eval", &["types", "rag"]),
    // Counts the tokens of the texts it makes with the tokenizer that the engine will use.
    // And writes language models of random weights.
    ("bench", &["types", "rag", "metrics", "transformer", "weights"]),
    // Other programs are let in through the façade, as a person is.
    ("doors", &["types", "rag", "metrics"]),
    ("cli", &["types", "rag", "eval", "bench", "metrics", "doors"]),
    // The app lends its models to the door: they are in memory once.
    ("desktop", &["types", "rag", "metrics", "doors"]),
    // The end-to-end tests look at the program from outside, as a user does.
    ("tests", &[]),
    ("desktop-tests", &[]),
    ("xtask", &[]),
];

/// What tests, examples and benchmarks may use beyond what their crate reaches already.
const ALLOWED_IN_TESTS: &[(&str, &[&str])] = &[
    // A forward pass needs somebody who holds the layers.
    ("transformer", &["offload"]),
    // Figures in examples.
    ("grating", &["metrics"]),
    ("embedding", &["metrics"]),
    ("rag", &["metrics", "weights"]),
    ("eval", &["metrics"]),
    // Models of random weights.
    ("llm", &["weights"]),
    // A run that writes a library is cut off in the middle of a batch, which no command does.
    ("tests", &["milvus"]),
    ("desktop-tests", &["tests", "weights"]),
];

/// Library, and the crates that may use it. Anything not named here may be used by all.
const ROOMS: &[(&str, &[&str])] = &[
    ("tantivy", &["retrieval"]),
    ("memmap2", &["retrieval"]),
    ("openssl-sys", &["catalog"]),
    // Browsing history is a foreign database: as other formats it is read in the parser's process, in memory.
    ("rusqlite", &["catalog", "ingest"]),
    ("rusqlite_migration", &["catalog"]),
    ("docling", &["ingest"]),
    ("calamine", &["ingest"]),
    ("cfb", &["ingest"]),
    ("csv", &["ingest"]),
    ("kamadak-exif", &["ingest"]),
    ("lopdf", &["ingest"]),
    ("lzma-rust2", &["ingest"]),
    ("mail-parser", &["ingest"]),
    ("quick-xml", &["ingest"]),
    ("sevenz-rust2", &["ingest"]),
    ("encoding_rs", &["ingest"]),
    ("chardetng", &["ingest"]),
    ("text-splitter", &["ingest"]),
    ("fastembed", &["embedding"]),
    ("ort", &["embedding", "ocr"]),
    ("image", &["ocr"]),
    // A library that is loaded by path is as little trusted as what it reads: in the parser's process alone.
    ("libloading", &["ingest"]),
    ("tokenizers", &["transformer", "embedding"]),
    ("rayon", &["kernels"]),
    ("safetensors", &["weights"]),
    ("half", &["kernels", "weights", "llm"]),
    ("ureq", &["models", "llm", "objects"]),
    // Keys, and the search of the desktop.
    ("dbus", &["llm", "cli", "desktop"]),
    ("dbus-secret-service", &["llm"]),
    ("zip", &["models", "ingest"]),
    ("sha1", &["models"]),
    ("sha2", &["models", "doors"]),
    ("ring", &["seal"]),
    ("argon2", &["seal"]),
    ("notify", &["watch"]),
    ("notify-debouncer-full", &["watch"]),
    ("ignore", &["watch"]),
    ("clap", &["cli"]),
    ("clap_complete", &["cli"]),
    ("indicatif", &["cli"]),
    ("console", &["cli"]),
    ("ctrlc", &["cli"]),
    ("tracing-subscriber", &["metrics", "cli", "desktop"]),
    ("anyhow", &["cli", "desktop", "xtask"]),
    ("libc", &["metrics", "ingest", "kernels", "weights", "offload"]),
    ("tauri", &["desktop"]),
    // Synchronous below the shell, which has Tauri's runtime; whoever waits for many clients or for a WebDriver has
    // one, too.
    // The protocol of a shared library's server is asynchronous; its client is not, from outside.
    ("tokio", &["doors", "desktop-tests", "milvus"]),
    ("tonic", &["milvus"]),
    ("prost", &["milvus"]),
    ("http", &["milvus"]),
    ("axum", &["doors"]),
    ("hyper", &["doors", "desktop-tests"]),
    ("hyper-util", &["doors", "desktop-tests"]),
    ("async-std", &[]),
    ("reqwest", &[]),
];

pub(super) fn check(members: &[Member], files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in members {
        let Some(allowed) = allowed(&member.name) else {
            let message = format!(
                "crate `{}` has no place in the architecture: add it to docs/ARCHITECTURE.md and to \
                 ALLOWED in crates/xtask/src/rules/edges.rs",
                member.name
            );
            findings.push(Finding::error(&member.manifest, 1, message));
            continue;
        };
        for dependency in &member.dependencies {
            let message = if dependency.ours {
                forbidden_edge(member, dependency, allowed)
            } else {
                forbidden_library(member, dependency)
            };
            if let Some(message) = message {
                let line = line_of(files, &member.manifest, &dependency.name);
                findings.push(Finding::error(&member.manifest, line, message));
            }
        }
    }
    findings
}

fn allowed(name: &str) -> Option<&'static [&'static str]> {
    ALLOWED.iter().find(|(it, _)| *it == name).map(|(_, allowed)| *allowed)
}

fn forbidden_edge(member: &Member, dependency: &Dependency, allowed: &[&str]) -> Option<String> {
    let (from, to) = (member.name.as_str(), dependency.name.as_str());
    if to == "types" || allowed.contains(&to) {
        return None;
    }
    if dependency.dev {
        let more =
            ALLOWED_IN_TESTS.iter().find(|(it, _)| *it == from).map_or(&[][..], |(_, it)| *it);
        // Below itself a test may look into every room: the edge exists already, only longer.
        if more.contains(&to) || reachable(from).contains(to) {
            return None;
        }
    }
    let advice = match (from, to) {
        ("rag", "kernels" | "weights" | "offload" | "transformer") => {
            "the façade talks to engines: let `grating` or `embedding` offer what is needed"
        }
        (_, "metrics") => "libraries open spans; only the tops measure",
        (_, "rag" | "cli" | "eval") => {
            "that would turn the layers upside down: move the shared part down"
        }
        _ => {
            "siblings never see each other: pass the value through `types`, or let `rag` connect them"
        }
    };
    Some(format!("`{from}` must not use `{to}`: {advice} (docs/ARCHITECTURE.md, who may use whom)"))
}

fn forbidden_library(member: &Member, dependency: &Dependency) -> Option<String> {
    let (_, rooms) = ROOMS.iter().find(|(name, _)| *name == dependency.name)?;
    // Tests may look at a file format from outside.
    if dependency.dev || rooms.contains(&member.name.as_str()) {
        return None;
    }
    let advice = match rooms {
        [] => {
            "nothing below the desktop shell is asynchronous: use threads and channels".to_owned()
        }
        rooms => format!("it belongs to `{}`: add what you need there", rooms.join("`, `")),
    };
    Some(format!("`{}` must not use `{}`: {advice}", member.name, dependency.name))
}

/// Every crate below `name`.
fn reachable(name: &str) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = vec![name];
    while let Some(next) = open.pop() {
        for &below in allowed(next).unwrap_or_default() {
            if found.insert(below) {
                open.push(below);
            }
        }
    }
    found
}

fn line_of(files: &[File], manifest: &str, dependency: &str) -> usize {
    let text = files.iter().find(|it| it.path == manifest).and_then(|it| it.text.as_deref());
    let names = [dependency.to_owned(), format!("riddle-{dependency}")];
    let is_entry = |line: &str| {
        let key: String =
            line.chars().take_while(|it| it.is_alphanumeric() || matches!(it, '-' | '_')).collect();
        names.contains(&key)
    };
    text.and_then(|it| it.lines().position(is_entry)).map_or(1, |it| it + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, dependencies: &[(&str, bool, bool)]) -> Member {
        Member {
            name: name.to_owned(),
            manifest: format!("crates/{name}/Cargo.toml"),
            roots: Vec::new(),
            dependencies: dependencies
                .iter()
                .map(|&(name, ours, dev)| Dependency { name: name.to_owned(), ours, dev })
                .collect(),
        }
    }

    fn ours(name: &str) -> (&str, bool, bool) {
        (name, true, false)
    }

    fn library(name: &str) -> (&str, bool, bool) {
        (name, false, false)
    }

    #[track_caller]
    fn messages(member: Member) -> Vec<String> {
        check(&[member], &[]).into_iter().map(|it| it.message).collect()
    }

    #[test]
    fn allowed_edges_pass() {
        let rag =
            member("rag", &[ours("types"), ours("grating"), ours("catalog"), library("serde")]);
        assert_eq!(messages(rag), [""; 0]);
        let catalog =
            member("catalog", &[ours("types"), library("rusqlite"), ("tempfile", false, true)]);
        assert_eq!(messages(catalog), [""; 0]);
    }

    #[test]
    fn siblings_never_see_each_other() {
        let found = messages(member("ingest", &[ours("catalog")]));
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("`ingest` must not use `catalog`"), "{found:?}");
    }

    #[test]
    fn the_facade_does_not_reach_around_the_engines() {
        let found = messages(member("rag", &[ours("kernels"), ours("weights")]));
        assert_eq!(found.len(), 2);
        assert!(found[0].contains("the façade talks to engines"), "{found:?}");
    }

    #[test]
    fn libraries_do_not_measure_themselves() {
        assert!(
            messages(member("retrieval", &[ours("metrics")]))[0].contains("only the tops measure")
        );
    }

    #[test]
    fn tests_may_look_below_but_not_above() {
        assert_eq!(messages(member("rag", &[("weights", true, true)])), [""; 0]);
        assert_eq!(messages(member("transformer", &[("offload", true, true)])), [""; 0]);
        assert_eq!(messages(member("catalog", &[("rag", true, true)])).len(), 1);
        assert_eq!(messages(member("catalog", &[("ingest", true, true)])).len(), 1);
    }

    #[test]
    fn libraries_stay_in_their_rooms() {
        let found =
            messages(member("rag", &[library("rusqlite"), library("tokio"), library("clap")]));
        assert_eq!(found.len(), 3);
        assert!(found[0].contains("belongs to `catalog`, `ingest`"), "{found:?}");
        assert!(found[1].contains("belongs to `doors`, `desktop-tests`"), "{found:?}");
        // Only tests: a test may look into the database.
        assert_eq!(messages(member("rag", &[("rusqlite", false, true)])), [""; 0]);
    }

    #[test]
    fn a_crate_that_nobody_drew_is_an_error() {
        assert!(messages(member("shiny", &[]))[0].contains("no place in the architecture"));
    }

    #[test]
    fn the_finding_points_at_the_line() {
        let manifest =
            "[dependencies]\nriddle-types.workspace = true\nriddle-catalog.workspace = true\n";
        let files = [File::of("crates/ingest/Cargo.toml", manifest)];
        let found = check(&[member("ingest", &[ours("catalog")])], &files);
        assert_eq!((found[0].path.as_str(), found[0].line), ("crates/ingest/Cargo.toml", 3));
    }

    #[test]
    fn the_table_has_no_cycle_and_no_unknown_name() {
        for (name, edges) in ALLOWED {
            assert!(!reachable(name).contains(name), "{name} reaches itself");
            for edge in *edges {
                assert!(allowed(edge).is_some(), "{edge} is nobody");
            }
        }
    }
}
