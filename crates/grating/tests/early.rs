//! Heads of early layers: they are asked in the place of the model's own, and what it says in the end stays.

use std::path::{Path, PathBuf};

use riddle_grating::{Engine, EngineOptions, Trace, TraceRecorder};
use riddle_types::RerankOutcome;
use serde_json::{Value, json};

const WIDTH: usize = 32;

const QUERY: &str = "where is the boat?";

const TEXTS: [&str; 5] =
    ["the blue boat lies at the dock", "bread", "", "the lock gate is shut", "boat boat boat hull"];

fn tiny() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tiny-bert-cross-encoder")
}

/// A copy of the tiny model with these tensors beside its own.
fn with_tensors(tensors: &[(&str, Vec<usize>, Vec<f32>)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("tempdir");
    for file in std::fs::read_dir(tiny()).expect("the tiny model") {
        let file = file.expect("an entry").path();
        let name = file.file_name().expect("a name");
        std::fs::copy(&file, dir.path().join(name)).expect("copied");
    }
    let path = dir.path().join("model.safetensors");
    let raw = std::fs::read(&path).expect("weights");
    let length = u64::from_le_bytes(raw[..8].try_into().expect("8 bytes")) as usize;
    let mut header: Value = serde_json::from_slice(&raw[8..8 + length]).expect("a header");
    let mut data = raw[8 + length..].to_vec();
    for (name, shape, values) in tensors {
        let start = data.len();
        data.extend(values.iter().flat_map(|it| it.to_le_bytes()));
        header[*name] =
            json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
    }
    let mut text = header.to_string().into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut file = (text.len() as u64).to_le_bytes().to_vec();
    file.extend(text);
    file.extend(data);
    std::fs::write(&path, file).expect("written");
    dir
}

/// A head of two neurons for layer 2 (from 1) of the tiny model.
fn head(dense: f32, bias: f32, own: Option<f32>) -> tempfile::TempDir {
    let numbers = (0..2 * WIDTH).map(|it| dense * (it as f32 * 0.7).sin()).collect();
    let name = |part: &str| format!("early_heads.1.{part}");
    let [weight, dense_bias, out, out_bias, own_name] =
        ["dense.weight", "dense.bias", "out_proj.weight", "out_proj.bias", "own"].map(name);
    let mut tensors = vec![
        (&*weight, vec![2, WIDTH], numbers),
        (&*dense_bias, vec![2], vec![0.1, -0.2]),
        (&*out, vec![1, 2], vec![dense, -2.0 * dense]),
        (&*out_bias, vec![1], vec![bias]),
    ];
    if let Some(own) = own {
        tensors.push((&*own_name, vec![1], vec![own]));
    }
    with_tensors(&tensors)
}

fn run(dir: &Path, options: EngineOptions) -> (RerankOutcome, Trace) {
    let options = EngineOptions { threads: 2, scores_every_layer: true, ..options };
    let engine = Engine::open(dir, options).expect("the tiny model opens");
    let mut recorder = TraceRecorder::default();
    let outcome = engine.run(QUERY, &TEXTS, TEXTS.len(), &mut recorder).expect("runs");
    (outcome, recorder.into_trace(engine.num_layers(), None))
}

fn are_near(a: &[f32], b: &[f32], within: f32) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() < within, "{a} {b}");
    }
}

#[test]
fn an_early_head_is_asked_for_its_layer_alone() {
    let (plain, own) = run(&tiny(), EngineOptions::default());
    // Without weights it says its bias, and as much of the model's own head as it is told to.
    for (share, bias) in [(None, 0.5), (Some(1.0), 0.0), (Some(-0.5), 2.0)] {
        let (outcome, trace) = run(head(0.0, bias, share).path(), EngineOptions::default());
        assert_eq!(outcome.ranked, plain.ranked, "what the model says in the end stays");
        for (number, (layer, before)) in trace.layers.iter().zip(&own.layers).enumerate() {
            let expected: Vec<f32> = match number {
                1 => before.scores.iter().map(|it| bias + share.unwrap_or(0.0) * it).collect(),
                _ => before.scores.clone(),
            };
            are_near(&layer.scores, &expected, 1e-5);
        }
    }
}

/// Each query's tokens are counted, however candidates are cut into micro-batches and wherever their states lie.
#[test]
fn what_an_early_head_says_does_not_depend_on_how_it_is_run() {
    let dir = head(0.8, 0.1, Some(0.3));
    let (outcome, trace) = run(dir.path(), EngineOptions::default());
    let said = &trace.layers[1].scores;
    assert!(said.windows(2).any(|it| (it[0] - it[1]).abs() > 1e-3), "{said:?}");
    let small = EngineOptions { micro_batch_tokens: Some(16), ..EngineOptions::default() };
    let (again, cut) = run(dir.path(), small);
    are_near(&cut.layers[1].scores, said, 1e-5);
    let places = |it: &RerankOutcome| it.ranked.iter().map(|it| it.index).collect::<Vec<_>>();
    assert_eq!(places(&again), places(&outcome));
    // Alone a text has the score that it has beside others.
    let engine = Engine::open(
        dir.path(),
        EngineOptions { threads: 1, scores_every_layer: true, ..EngineOptions::default() },
    )
    .expect("opens");
    for (text, score) in TEXTS.iter().zip(said) {
        let mut recorder = TraceRecorder::default();
        engine.run(QUERY, &[text], 1, &mut recorder).expect("runs");
        are_near(&recorder.layers[1].scores, &[*score], 1e-5);
    }
}

#[test]
fn a_head_of_another_shape_is_refused_by_name() {
    let wrong = with_tensors(&[
        ("early_heads.0.dense.weight", vec![2, WIDTH + 1], vec![0.0; 2 * (WIDTH + 1)]),
        ("early_heads.0.dense.bias", vec![2], vec![0.0; 2]),
    ]);
    let missing = with_tensors(&[("early_heads.0.dense.weight", vec![2, WIDTH], vec![0.0; 64])]);
    for dir in [wrong, missing] {
        let error =
            Engine::open(dir.path(), EngineOptions::default()).map(|_| ()).expect_err("refused");
        assert!(error.to_string().contains("early_heads.0."), "{error}");
    }
}
