//! From recorded requests to a precision that can be asked for, through the command line.

use std::{fs, io::Write as _, path::Path, process::Stdio};

use riddle_tests::{Outcome, Riddle, Running, tiny_model};
use serde_json::json;
use tempfile::TempDir;

/// Requests that differ, in one file; with an empty line and a request without documents among them.
fn requests(dir: &Path, count: usize) -> String {
    let mut lines: Vec<String> = (0..count)
        .map(|n| {
            let document =
                |it: usize| format!("passage {it} of {n} about boats ").repeat(1 + (it * n) % 4);
            let documents: Vec<String> = (0..12).map(document).collect();
            json!({"query": format!("which boat is number {n}?"), "documents": documents})
                .to_string()
        })
        .collect();
    lines.insert(1, String::new());
    lines.push(r#"{"query": "nothing", "documents": []}"#.to_owned());
    let file = dir.join("requests.jsonl");
    fs::write(&file, lines.join("\n")).expect("written");
    file.to_string_lossy().into_owned()
}

fn rerank(riddle: &Riddle, model: &str, top_n: usize, extra: &[&str]) -> Outcome {
    let documents: Vec<String> = (0..12).map(|n| format!("boat {n} ").repeat(n + 1)).collect();
    let request = json!({"query": "a boat", "documents": documents, "top_n": top_n}).to_string();
    let mut args = vec!["rerank", "--model", model];
    args.extend(extra);
    let mut command = riddle.command(&args);
    command.stdin(Stdio::piped());
    let mut run = Running::start(command);
    run.feed(|stdin| stdin.write_all(request.as_bytes()));
    run.wait()
}

#[test]
fn a_calibrated_model_is_pruned_by_precision() {
    let riddle = Riddle::new();
    let dir = TempDir::new().expect("a temporary folder");
    let model = tiny_model("tiny-bert-cross-encoder").to_string_lossy().into_owned();
    let line = rerank(&riddle, &model, 3, &["--mode", "set", "--precision", "0.5"]).failed(1);
    assert!(line.contains("models calibrate"), "{line}");

    let file = requests(dir.path(), 30);
    let svg = dir.path().join("curve.svg").to_string_lossy().into_owned();
    let made = riddle.json(&[
        "models",
        "calibrate",
        &model,
        "--requests",
        &file,
        "--top-k",
        "1,3",
        "--precision",
        "0.5",
        "--svg",
        &svg,
        "--check",
        &file,
    ]);
    // The requests it was made from keep the promise by construction.
    let checked = made["checked"].as_array().expect("a promise for each table");
    assert_eq!(checked.len(), 4 * 3, "{made:#}");
    for promise in checked.iter().filter(|it| it["asked"] == "--precision 0.5") {
        assert!(promise["measured"]["precision"].as_f64() >= Some(0.5), "{promise:#}");
    }
    assert_eq!(made["calibration"]["queries"], 30, "{made:#}");
    let kept = made["file"].as_str().expect("a file");
    assert!(Path::new(kept).starts_with(riddle.home()) && Path::new(kept).is_file(), "{kept}");
    assert_eq!(made["chosen"].as_array().map(Vec::len), Some(4), "two modes, two sizes");
    let drawn = fs::read_to_string(&svg).expect("a chart");
    assert!(drawn.starts_with("<svg") && drawn.contains("bounded error, top 3"), "{drawn}");

    // The threshold that is used is the one that was shown.
    let chosen = made["chosen"].as_array().expect("a list");
    let shown = chosen.iter().find(|it| it["mode"] == "set" && it["top_k"] == 3).expect("a table");
    let response = rerank(&riddle, &model, 3, &["--mode", "set", "--precision", "0.5"]).json();
    assert_eq!(response["threshold"], shown["point"]["threshold"], "{response:#}");
    assert_eq!(response["results"].as_array().map(Vec::len), Some(3));
    let bounded =
        rerank(&riddle, &model, 3, &["--mode", "order", "--error-probability", "0.9"]).json();
    assert_eq!(bounded["results"].as_array().map(Vec::len), Some(3));
    assert_eq!(bounded.get("threshold"), None);

    let text =
        riddle.run(&["models", "calibrate", &model, "--requests", &file, "--mode", "set"]).ok();
    assert!(text.contains("mode set, top 20") && text.contains("use it: riddle rerank"), "{text}");
    // Of sets alone nothing is promised for a part of one: nobody is pruned, and that is told.
    let between = rerank(&riddle, &model, 3, &["--mode", "set", "--precision", "0.5"]).json();
    let told = between["notices"][0].as_str().expect("a notice").to_owned();
    assert!(
        told.contains("mode set top 1, mode set top 5, mode set top 10, mode set top 20"),
        "{told}"
    );
    assert_eq!((&between["layers_run"], between.get("threshold")), (&4.into(), None));
}

#[test]
fn what_the_calibration_does_not_hold_is_told() {
    let riddle = Riddle::new();
    let dir = TempDir::new().expect("a temporary folder");
    let copy = dir.path().join("model");
    fs::create_dir(&copy).expect("made");
    for entry in fs::read_dir(tiny_model("tiny-bert-cross-encoder")).expect("the model").flatten() {
        fs::copy(entry.path(), copy.join(entry.file_name())).expect("copied");
    }
    let model = copy.to_string_lossy().into_owned();
    let file = requests(dir.path(), 12);
    riddle.json(&["models", "calibrate", &model, "--requests", &file, "--top-k", "3"]);
    let told = |top_n, extra: &[&str]| rerank(&riddle, &model, top_n, extra).failed(1);
    assert!(told(3, &["--precision", "0.5"]).contains("--mode set"));
    // Beyond what was calibrated for, nobody is pruned; below, the larger result promises for a part of it.
    let beyond = rerank(&riddle, &model, 4, &["--mode", "set", "--precision", "0.5"]).json();
    assert!(beyond["notices"].to_string().contains("--top-k 4"), "{beyond:#}");
    let full = rerank(&riddle, &model, 4, &["--mode", "off"]).json();
    assert_eq!(beyond["results"], full["results"]);
    let part = rerank(&riddle, &model, 2, &["--mode", "set", "--precision", "0.5"]).json();
    assert!(part.get("notices").is_none() && part["threshold"].is_number(), "{part:#}");
    assert_eq!(part["results"].as_array().map(Vec::len), Some(2));
    let few = told(3, &["--mode", "set", "--error-probability", "0.01"]);
    assert!(few.contains("12 requests") && few.contains("0.01"), "{few}");
    let sure = told(3, &["--mode", "set", "--precision", "0.99", "--confident"]);
    assert!(sure.contains("0.99"), "{sure}");

    // Other weights are another model.
    let weights = copy.join("model.safetensors");
    let mut bytes = fs::read(&weights).expect("weights");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&weights, bytes).expect("written");
    assert!(told(3, &["--mode", "set", "--precision", "0.5"]).contains("no calibration"));
}

/// From the questions of datasets to a calibration, which their own evaluation then uses.
#[test]
fn a_folder_of_datasets_makes_a_calibration_that_evaluations_use() {
    let (riddle, dir) = (Riddle::new(), TempDir::new().expect("a temporary folder"));
    let model = tiny_model("tiny-bert-cross-encoder").to_string_lossy().into_owned();
    let (mut corpus, mut queries) = (String::new(), String::new());
    let mut qrels = "query-id\tcorpus-id\tscore\n".to_owned();
    for n in 0..30 {
        let text =
            format!("the boat number {n} lies at the lock gate {}", "of the dock ".repeat(n));
        corpus.push_str(&format!("{}\n", json!({"_id": format!("d{n}"), "text": text})));
        let query = format!("which boat is number {n} at the gate?");
        queries.push_str(&format!("{}\n", json!({"_id": format!("q{n}"), "text": query})));
        qrels.push_str(&format!("q{n}\td{n}\t1\n"));
    }
    riddle_tests::write(dir.path(), "boats/corpus.jsonl", corpus);
    riddle_tests::write(dir.path(), "boats/queries.jsonl", queries);
    riddle_tests::write(dir.path(), "boats/qrels/test.tsv", qrels);
    let suite = dir.path().to_string_lossy().into_owned();
    let eval = ["eval", "--suite", &suite, "--model", &model, "--limit-queries", "5"];
    let pruned = [&eval[..], &["--mode", "set", "--precision", "0.5"]].concat();
    let before = riddle.run(&pruned).failed(1);
    assert!(before.contains("models calibrate"), "{before}");
    let made = riddle.json(&["models", "calibrate", &model, "--suite", &suite, "--top-k", "10"]);
    // Every third of the thirty questions is kept for checking.
    assert_eq!(made["calibration"]["queries"], 20, "{made:#}");
    assert_eq!(made["calibration"]["candidates"], json!([24, 24]), "{made:#}");
    assert!(made["checked"][0]["measured"]["queries"] == 10, "{made:#}");
    let set = riddle.json(&pruned)["sets"][0].clone();
    assert!(set["candidate_layers_share"].as_f64() < Some(1.0), "{set:#}");
}

#[test]
fn bad_requests_are_told_with_their_line() {
    let riddle = Riddle::new();
    let dir = TempDir::new().expect("a temporary folder");
    let model = tiny_model("tiny-bert-cross-encoder").to_string_lossy().into_owned();
    let file = dir.path().join("requests.jsonl");
    let name = file.to_string_lossy().into_owned();
    let failed = |text: &str| {
        fs::write(&file, text).expect("written");
        riddle.run(&["models", "calibrate", &model, "--requests", &name]).failed(1)
    };
    let good = r#"{"query": "q", "documents": ["a", "b"]}"#;
    assert!(failed(&format!("{good}\nnot json\n")).contains("line 2"));
    assert!(failed("").contains("no request"));
    assert!(failed(r#"{"query": " ", "documents": ["a"]}"#).contains("query"));
    fs::remove_file(&file).expect("removed");
    let line = riddle.run(&["models", "calibrate", &model, "--requests", &name]).failed(1);
    assert!(line.contains("requests.jsonl"), "{line}");
}
