//! Sparse encoders whose questions are looked up in a table, against sentence-transformers.

use std::{collections::HashMap, fs, path::Path};

use riddle_embedding::{EncoderOptions, Error, SpladeEncoder};
use riddle_types::{EmbedRole, SparseEncoder as _, TERM_STEP};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Golden {
    table: HashMap<String, f32>,
    files: HashMap<String, Value>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    query: Vec<f32>,
    passage: Vec<f32>,
}

fn model() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tiny-bert-sparse-encoder")
}

fn golden() -> Golden {
    let text = fs::read_to_string(model().join("looked-up.json")).expect("a golden file");
    serde_json::from_str(&text).expect("values")
}

/// The tiny model with these files beside it, as its publishers lay it out.
fn with(files: &[(&str, Value)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"] {
        fs::copy(model().join(name), dir.path().join(name)).expect("copied");
    }
    for (name, value) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, serde_json::to_vec(value).expect("JSON")).expect("written");
    }
    dir
}

fn open(dir: &tempfile::TempDir) -> Result<SpladeEncoder, Error> {
    SpladeEncoder::open(dir.path(), EncoderOptions::default())
}

#[test]
fn questions_and_passages_equal_sentence_transformers() {
    let golden = golden();
    let mut files: Vec<(&str, Value)> =
        golden.files.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    files.push(("idf.json", json!(golden.table)));
    let dir = with(&files);
    let encoder = open(&dir).expect("opens");
    let before = encoder.resident_weight_bytes();
    // One factor for all weights of questions, so that the largest is a byte's.
    let largest = golden.table.values().copied().fold(0.0, f32::max);
    let factor = 255.0 * TERM_STEP / largest;
    assert!(factor < 1.0, "the table's weights are larger than a byte's: {largest}");
    for case in &golden.cases {
        let found = encoder.terms(&[&case.text], EmbedRole::Query).expect("looked up");
        let mut dense = vec![0.0; case.query.len()];
        for &(term, weight) in found[0].terms() {
            dense[term as usize] = f32::from(weight) * TERM_STEP;
        }
        for (term, (found, exact)) in dense.iter().zip(&case.query).enumerate() {
            assert!(
                (found - exact * factor).abs() <= TERM_STEP / 2.0 + 1e-4,
                "{term} of {}",
                case.text
            );
        }
    }
    assert_eq!(encoder.resident_weight_bytes(), before, "no question reads the network");
    let texts: Vec<&str> = golden.cases.iter().map(|it| it.text.as_str()).collect();
    let weights = encoder.weights(&texts).expect("weighed");
    assert!(encoder.resident_weight_bytes() > before, "passages do");
    for (found, case) in weights.iter().zip(&golden.cases) {
        let differences = found.iter().zip(&case.passage).map(|(a, b)| (a - b).abs());
        let worst = differences.fold(0.0, f32::max);
        assert!(worst < 2e-4, "{worst}: {}", case.text);
    }
    // What no question asks for takes no place of what one does.
    let kept = encoder.terms(&texts, EmbedRole::Passage).expect("weighed");
    let asked = |term: u32| golden.cases.iter().any(|it| it.query[term as usize] > 0.0);
    let all = kept.iter().flat_map(|it| it.terms());
    assert!(all.clone().any(|it| asked(it.0)));
    let silent = golden.cases[0].query.len() - golden.table.len();
    assert!(silent > 0, "some terms are in no question");
    let names: Vec<u32> = all.map(|it| it.0).collect();
    let unlisted = |term: &&u32| {
        golden.cases.iter().any(|it| it.passage[**term as usize] > 0.0)
            && (**term).is_multiple_of(3)
    };
    assert!(names.iter().find(unlisted).is_none(), "every third token is not in the table");
}

#[test]
fn another_table_is_another_encoder() {
    let plain = open(&with(&[])).expect("opens").id().to_owned();
    let one = open(&with(&[("idf.json", json!({ "the": 1.0 }))])).expect("opens").id().to_owned();
    let two = open(&with(&[("idf.json", json!({ "the": 2.0 }))])).expect("opens").id().to_owned();
    assert!(plain != one && one != two);
    let parts = |id: &str| id.matches('/').count();
    assert_eq!(parts(&plain), parts(&one), "the name is found in it");
}

#[test]
fn tables_that_lie_are_refused_with_their_name() {
    let error = |files: &[(&str, Value)]| {
        let dir = with(files);
        open(&dir).expect_err("refused").to_string()
    };
    let other = error(&[("idf.json", json!({ "nowhere-in-the-vocabulary": 3.0 }))]);
    assert!(other.contains("idf.json") && other.contains("another model"), "{other}");
    let nothing = error(&[("idf.json", json!({ "the": -1.0 }))]);
    assert!(nothing.contains("another model"), "{nothing}");
    assert!(error(&[("idf.json", json!([1, 2]))]).contains("idf.json"));
    assert!(error(&[("idf.json", json!({ "the": "heavy" }))]).contains("idf.json"));
    let router = json!({ "structure": { "query": ["query_0_SparseStaticEmbedding"] } });
    let missing = error(&[("router_config.json", router)]);
    assert!(missing.contains("missing") && missing.contains("fetch"), "{missing}");
    let sums = json!({ "pooling_strategy": "sum" });
    assert!(error(&[("1_SpladePooling/config.json", sums)]).contains("pooling_strategy"));
    let other = json!({ "pooling_strategy": "max", "activation_function": "tanh" });
    assert!(error(&[("1_SpladePooling/config.json", other)]).contains("activation_function"));
}
