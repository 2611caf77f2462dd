//! Heads of early layers: what the recipe learns the program asks.

use std::{fs, process::Command};

use riddle_tests::{Riddle, skipped, workspace};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Questions and what was found for them, as `riddle eval --save-runs` writes it.
fn evidence() -> String {
    let things = ["oak", "hull", "tar", "plank", "flour", "yeast", "oven", "lock"];
    let line = |n: usize| {
        let thing = |it: usize| things[(n + it) % things.len()];
        let document = |it: usize| {
            let share = 1.0 - it as f64 * 0.15;
            json!({
                "id": format!("d{it}"), "keyword": share, "cosine": 0.3 + 0.1 * share,
                "sparse": share * share, "relevant": u8::from(it == 0),
                "text": format!("The {} number {n} is beside the {}.", thing(it), thing(it + 3)),
            })
        };
        let query = format!("where is the {}?", thing(0));
        let documents: Vec<Value> = (0..6).map(document).collect();
        json!({ "query": query, "judged": [1], "documents": documents }).to_string() + "\n"
    };
    (0..24).map(line).collect()
}

#[test]
fn heads_of_early_layers_are_learned_and_asked() {
    let Some(python) = super::training::python() else {
        return skipped(
            "no Python with torch, numpy, tokenizers and safetensors (training/requirements.txt): name one in \
             RIDDLE_PYTHON",
        );
    };
    let riddle = Riddle::new();
    let dir = TempDir::new().expect("a temporary folder");
    let model = dir.path().join("model");
    fs::create_dir(&model).expect("made");
    for file in ["config.json", "model.riddle", "tokenizer.json", "tokenizer_config.json"] {
        let ships = workspace().join("assets/models/riddle-reranker").join(file);
        fs::copy(ships, model.join(file)).expect("copied");
    }
    let runs = dir.path().join("runs/boats");
    fs::create_dir_all(&runs).expect("made");
    fs::write(runs.join("evidence.jsonl"), evidence()).expect("written");
    let found = dir.path().join("found");
    let (model_word, found_word) = (model.to_string_lossy(), found.to_string_lossy());
    let early = |words: &[&str]| {
        let output = Command::new(&python)
            .args(["-m", "riddle_training.early"])
            .args(words)
            .env("PYTHONPATH", workspace().join("training"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .expect("started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let trace = |name: &str| -> Value {
        let request = dir.path().join("request.json");
        let text = json!({ "query": "where is the oak?", "documents": [
            { "text": "The oak is beside the hull.", "cosine": 0.5, "keyword": 1.0 },
            { "text": "Yeast makes bread rise.", "cosine": 0.1, "keyword": 0.2 },
            { "text": "A lock is a step for boats.", "cosine": 0.2, "keyword": 0.4 },
        ]});
        fs::write(&request, text.to_string()).expect("written");
        let file = dir.path().join(name);
        let (request, to) = (request.to_string_lossy(), file.to_string_lossy());
        riddle
            .run(&["rerank", "--model", &model_word, "--mode", "off", "--trace", &to, &request])
            .ok();
        serde_json::from_slice(&fs::read(&file).expect("a trace")).expect("JSON")
    };
    let before = trace("before.json");
    let runs = dir.path().join("runs");
    early(&[
        "fit",
        "--runs",
        &runs.to_string_lossy(),
        "--model",
        &model_word,
        "--out",
        &found_word,
    ]);
    // Twice: what is there is replaced.
    for _ in 0..2 {
        early(&["write", "--found", &found_word, "--model", &model_word]);
    }
    let card = fs::read_to_string(model.join("config.json")).expect("a card");
    let card: Value = serde_json::from_str(&card).expect("JSON");
    for prior in [&card["riddle"]["prior"], &card["riddle"]["prior"]["with_terms"]] {
        assert_eq!(prior["earlier"].as_array().map(Vec::len), Some(4), "{prior}");
    }
    let after = trace("after.json");
    let scores = |trace: &Value, layer: usize| -> Vec<f64> {
        let all = trace["layers"][layer]["scores"].as_array().expect("scores");
        all.iter().map(|it| it.as_f64().expect("a number")).collect()
    };
    assert_eq!(scores(&before, 3), scores(&after, 3), "the last layer says what it said");
    for layer in [1, 2] {
        assert_ne!(scores(&before, layer), scores(&after, layer), "layer {layer}");
    }
    assert_eq!(after["earlier_priors"].as_array().map(Vec::len), Some(4));
}
