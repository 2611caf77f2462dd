//! Measuring, through the command line.

use riddle_tests::{Riddle, tiny_model};
use serde_json::Value;

#[test]
fn every_step_is_measured_in_a_process_of_its_own() {
    let riddle = Riddle::new();
    let drawing = riddle.home().join("memory.svg");
    let model = tiny_model("tiny-bert-cross-encoder").to_string_lossy().into_owned();
    let args = [
        "bench",
        "rerank",
        "--model",
        &model,
        "--preset",
        "figure16",
        "--candidates",
        "3",
        "--tokens",
        "30",
        "--repeat",
        "2",
        "--threads",
        "1",
        "--threshold",
        "0.5",
        "--json",
        "--svg",
        &drawing.to_string_lossy(),
    ];
    let report = riddle.run(&args).json();
    assert_eq!(report["random_weights"], false);
    assert!(
        report["pair_tokens"]["max"].as_u64().is_some_and(|it| it.abs_diff(30) <= 3),
        "{report:#}"
    );
    let steps = report["steps"].as_array().expect("a list of steps");
    assert_eq!(steps.len(), 6);
    assert_eq!(steps[3]["name"], "+ layers read when needed");
    for step in steps {
        assert_eq!(step["latencies_ms"].as_array().map(Vec::len), Some(2));
        for operation in ["embed", "qkv", "attention", "output", "feed_forward", "head"] {
            let ms = step["median"]["operations_ms"][operation].as_f64();
            assert!(ms > Some(0.0), "{operation}: {step:#}");
        }
        for figure in ["latency_ms", "peak_rss_bytes", "resident_weight_bytes", "scratch_bytes"] {
            assert!(step["median"][figure].as_f64() > Some(0.0), "{figure}: {step:#}");
        }
        // Mode off promises the same scores; pruning does not.
        if step["setting"]["threshold"] == Value::Null {
            assert!(step["score_difference"].as_f64().is_some_and(|it| it < 1e-4), "{step:#}");
        }
    }
    let read = |step: usize, what: &str| steps[step]["median"][what].as_u64().expect("a number");
    let of_layers = |step: usize| read(step, "bytes_read") - read(step, "row_bytes_read");
    assert_eq!(of_layers(0), 0, "what is resident is read before the request");
    assert!(of_layers(3) > 0, "layers are read during it");
    assert!(of_layers(4) > 0, "a window reads layers during it");
    assert!(read(0, "row_bytes_read") > 0, "rows of new words are read during it");
    let drawing = std::fs::read_to_string(&drawing).expect("the drawing");
    assert!(drawing.starts_with("<svg"), "{drawing}");
    for step in steps {
        let name = step["name"].as_str().expect("a name");
        assert!(drawing.contains(name), "{name} is not in the legend");
    }
}

#[test]
fn what_can_not_be_measured_is_told() {
    let riddle = Riddle::new();
    let model = tiny_model("tiny-bert-cross-encoder").to_string_lossy().into_owned();
    for (model, tokens, reason) in [
        (model.as_str(), "5", "5 tokens are not enough"),
        (riddle.home().to_string_lossy().as_ref(), "30", "is no model's folder"),
    ] {
        let args = ["bench", "rerank", "--model", model, "--tokens", tokens];
        let said = riddle.run(&args).failed(1);
        assert!(said.to_lowercase().contains(reason), "{said}");
    }
}

#[test]
fn peers_need_a_python_and_instructions_a_processor_that_has_them() {
    let riddle = Riddle::new();
    let model = tiny_model("tiny-bert-cross-encoder").to_string_lossy().into_owned();
    let bench = ["bench", "rerank", "--model", &model, "--candidates", "2", "--tokens", "30"];
    let missing = riddle.home().join("no-python").to_string_lossy().into_owned();
    let said = riddle.run(&[&bench[..], &["--peers", "--python", &missing]].concat()).failed(1);
    assert!(said.contains("RIDDLE_PYTHON") && said.contains("onnxruntime"), "{said}");
    let said =
        riddle.run(&[&bench[..], &["--repeat", "1", "--isa", "none-such"]].concat()).failed(1);
    assert!(said.contains("none-such") && said.contains("scalar"), "{said}");
    let held_back = [&bench[..], &["--repeat", "1", "--isa", "scalar", "--ragged", "25", "--json"]];
    let report = riddle.run(&held_back.concat()).json();
    let (shortest, longest) = (&report["pair_tokens"]["min"], &report["pair_tokens"]["max"]);
    assert!(shortest.as_u64() < longest.as_u64(), "{report:#}");
}
