//! Embedders against their references: the tiny encoder against `transformers`, the real one against
//! sentence-transformers, ONNX models against ONNX Runtime in Python.

use std::path::{Path, PathBuf};

use riddle_embedding::{BuiltinEncoder, EncoderOptions, FastEmbedder};
use riddle_types::{EmbedRole, Embedder as _};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    #[serde(alias = "mean_pooled")]
    vector: Vec<f32>,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn expected(path: &Path) -> Vec<Case> {
    serde_json::from_slice::<Expected>(&std::fs::read(path).expect("read")).expect("json").cases
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn check(encoder: &BuiltinEncoder, cases: &[Case]) {
    let texts: Vec<&str> = cases.iter().map(|it| it.text.as_str()).collect();
    let vectors = encoder.encode(&texts).expect("encodes");
    for (vector, case) in vectors.iter().zip(cases) {
        assert!(cosine(vector, &case.vector) >= 1.0 - 1e-4, "{:?}", case.text);
        let length: f32 = vector.iter().map(|it| it * it).sum();
        assert!((length - 1.0).abs() < 1e-4);
    }
    // Alone or in company, a text has the same vector.
    for (text, vector) in texts.iter().zip(&vectors) {
        let alone = encoder.encode(&[text]).expect("encodes");
        assert!(cosine(&alone[0], vector) > 1.0 - 1e-6, "{text:?}");
    }
}

/// The tiny model's directory says nothing about its longest input; the reference cut at 48.
#[test]
fn the_tiny_encoder_equals_transformers() {
    let dir = root().join("tests/golden/tiny-bert-encoder");
    for options in [
        EncoderOptions::default(),
        EncoderOptions { threads: 1, micro_batch_tokens: 1, window: Some(2) },
    ] {
        let encoder = BuiltinEncoder::open(&dir, options).expect("opens");
        assert_eq!((encoder.dimensions(), encoder.max_tokens()), (32, 48));
        check(&encoder, &expected(&dir.join("expected.json")));
    }
}

#[test]
fn the_real_encoder_equals_sentence_transformers() {
    let models = std::env::var_os("RIDDLE_TEST_MODELS")
        .map_or_else(|| root().join(".cache/models"), PathBuf::from);
    let dir = models.join("all-MiniLM-L6-v2");
    if !dir.join("model.safetensors").is_file() {
        eprintln!(
            "SKIPPED: all-MiniLM-L6-v2 is not in {} (`make test` fetches it)",
            models.display()
        );
        return;
    }
    let encoder = BuiltinEncoder::open(&dir, EncoderOptions::default()).expect("opens");
    assert_eq!((encoder.dimensions(), encoder.max_tokens()), (384, 256));
    check(&encoder, &expected(&root().join("tests/golden/all-minilm-l6-v2.json")));
    assert!(encoder.resident_weight_bytes() < 60 << 20, "the token table stays on disk");
}

#[test]
fn an_onnx_model_equals_onnx_runtime_in_python() {
    let dir = root().join("tests/golden/tiny-onnx");
    if riddle_embedding::onnx_runtime_library().is_none() {
        let error = FastEmbedder::open(&dir).expect_err("no library").to_string();
        assert!(error.contains("ORT_DYLIB_PATH") && error.contains("all-MiniLM-L6-v2"), "{error}");
        eprintln!(
            "SKIPPED: no ONNX Runtime library (`make test` fetches one and sets ORT_DYLIB_PATH)"
        );
        return;
    }
    let embedder = FastEmbedder::open(&dir).expect("opens");
    let cases = expected(&dir.join("expected.json"));
    let texts: Vec<&str> = cases.iter().map(|it| it.text.as_str()).collect();
    let vectors = embedder.embed(&texts, EmbedRole::Passage).expect("embeds");
    assert_eq!(embedder.dimensions(), cases[0].vector.len());
    for (vector, case) in vectors.iter().zip(&cases) {
        assert!(cosine(vector, &case.vector) >= 1.0 - 1e-4, "{:?}", case.text);
    }
    let broken = tempfile::tempdir().expect("temp dir");
    for name in ["config.json", "tokenizer.json"] {
        std::fs::copy(dir.join(name), broken.path().join(name)).expect("copy");
    }
    std::fs::write(broken.path().join("model.onnx"), b"not a graph").expect("write");
    assert!(FastEmbedder::open(broken.path()).is_err());
}

#[test]
fn a_damaged_model_is_an_error_and_not_a_vector() {
    let dir = tempfile::tempdir().expect("temp dir");
    let source = root().join("tests/golden/tiny-bert-encoder");
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        std::fs::copy(source.join(name), dir.path().join(name)).expect("copy");
    }
    let weights = dir.path().join("model.safetensors");
    let mut bytes = std::fs::read(&weights).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 400].fill(0xff);
    std::fs::write(&weights, bytes).expect("write");
    let error = BuiltinEncoder::open(dir.path(), EncoderOptions::default())
        .and_then(|encoder| encoder.encode(&["boat"]))
        .expect_err("NaN")
        .to_string();
    assert!(error.contains("NaN"), "{error}");
}
