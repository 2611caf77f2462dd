//! The engine alone, through the command line.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use riddle_tests::{Outcome, Riddle, Running, tiny_model};
use serde_json::{Value, json};
use tempfile::TempDir;

fn cross_encoder() -> String {
    tiny_model("tiny-bert-cross-encoder").to_string_lossy().into_owned()
}

/// Runs `riddle rerank` with a request on stdin.
fn rerank(request: &[u8], model: &str, extra: &[&str]) -> Outcome {
    run(request, &[&["--model", model], extra].concat())
}

fn run(request: &[u8], args: &[&str]) -> Outcome {
    let riddle = Riddle::new();
    let mut command = riddle.command(&[&["rerank"], args].concat());
    command.stdin(Stdio::piped());
    let mut run = Running::start(command);
    run.feed(|stdin| stdin.write_all(request));
    run.wait()
}

fn request() -> Vec<u8> {
    let documents: Vec<Value> = (0..12)
        .map(|n| match n % 2 {
            0 => json!(format!("document number {n} is about boats and the sea")),
            _ => json!({"id": format!("doc-{n}"), "text": format!("bread number {n} ").repeat(n)}),
        })
        .collect();
    json!({"query": "Who built the boat?", "documents": documents, "unknown": true})
        .to_string()
        .into_bytes()
}

fn scores(response: &Value) -> Vec<(u64, f64)> {
    let results = response["results"].as_array().expect("a list of results");
    let pair = |it: &Value| {
        (it["index"].as_u64().expect("an index"), it["relevance_score"].as_f64().expect("a score"))
    };
    results.iter().map(pair).collect()
}

#[test]
fn the_response_has_the_promised_fields() {
    let response = rerank(&request(), &cross_encoder(), &["--json"]).json();
    assert_eq!(response["model"], "tiny-bert-cross-encoder");
    let results = response["results"].as_array().expect("a list");
    assert_eq!(results.len(), 12);
    let ranked = scores(&response);
    assert!(ranked.windows(2).all(|it| it[0].1 >= it[1].1), "best first: {ranked:?}");
    assert!(ranked.iter().all(|it| (0.0..=1.0).contains(&it.1)), "{ranked:?}");
    for result in results {
        let index = result["index"].as_u64().expect("an index");
        let id = if index % 2 == 1 { json!(format!("doc-{index}")) } else { Value::Null };
        assert_eq!(result.get("id").cloned().unwrap_or_default(), id);
        assert_eq!(result["decided_at_layer"], response["layers_run"]);
    }
    for key in ["tokenize", "forward", "io_wait", "total"] {
        assert!(response["timings_ms"][key].is_number(), "{key}: {response:#}");
    }
    for key in ["peak_rss_bytes", "resident_weight_bytes", "scratch_bytes"] {
        assert!(response["memory"][key].as_u64() > Some(0), "{key}: {response:#}");
    }
}

/// The bundled model has a retrieval prior: the request's cosines count, as much as the caller says.
#[test]
fn cosines_of_a_request_count_for_a_model_with_a_prior() {
    let raw = |cosines: bool, extra: &[&str]| -> Vec<(u64, f64)> {
        let document = |n: usize| {
            let mut document = json!({ "text": format!("Berth {n} is free until {n} o'clock.") });
            if cosines {
                document["cosine"] = json!(0.1 * n as f64);
            }
            document
        };
        let documents: Vec<Value> = (0..6).map(document).collect();
        let request = json!({ "query": "Which berth is free?", "documents": documents });
        let args = [&["--raw-scores", "--json"], extra].concat();
        let response = rerank(request.to_string().as_bytes(), "riddle-reranker", &args).json();
        let mut scores = scores(&response);
        scores.sort_by_key(|it| it.0);
        scores
    };
    let alone = raw(false, &[]);
    assert_eq!(alone, raw(true, &["--prior-scale", "0"]));
    let with = raw(true, &["--prior-scale", "10"]);
    let added: Vec<f64> = alone.iter().zip(&with).map(|(a, b)| b.1 - a.1).collect();
    // One logit for each tenth of a cosine.
    // The best cosine is 0.5, below the usual one: distances count less.
    let trust = (3.0_f64 * (0.5 - 0.62)).exp();
    assert!(added.windows(2).all(|it| (it[1] - it[0] - trust).abs() < 1e-3), "{added:?}");
}

#[test]
fn the_model_that_comes_with_riddle_needs_no_name() {
    let response = run(&request(), &["--json"]).json();
    assert_eq!(response["model"], "riddle-reranker");
    assert_eq!(response["results"].as_array().map(Vec::len), Some(12));
    // A path is not a name that could be fetched.
    let empty = TempDir::new().expect("a temporary folder");
    for path in [empty.path().to_string_lossy().as_ref(), "/there/is/none", "./none"] {
        let chosen = Riddle::new().run(&["models", "use", path]).failed(1);
        for line in [rerank(&request(), path, &[]).failed(1), chosen] {
            assert!(line.contains("no model's folder") && !line.contains("pull"), "{line}");
        }
    }
}

/// Mode off: no setting that saves memory may change a score (invariant 1 of the engine).
#[test]
fn settings_do_not_change_the_scores() {
    let plain = scores(&rerank(&request(), &cross_encoder(), &["--raw-scores"]).json());
    for extra in [
        &["--window", "1"][..],
        &["--window", "2", "--micro-batch-tokens", "16"],
        &["--embedding-rows", "0.01", "--threads", "1"],
        &["--mode", "off", "--threshold", "0.5"],
        &["--hidden-on-disk", "--micro-batch-tokens", "64"],
        &["--memory-budget", "1GiB"],
    ] {
        let mut args = vec!["--raw-scores"];
        args.extend(extra);
        let other = scores(&rerank(&request(), &cross_encoder(), &args).json());
        for (a, b) in plain.iter().zip(&other) {
            assert!(a.0 == b.0 && (a.1 - b.1).abs() < 1e-4, "{extra:?}: {plain:?} {other:?}");
        }
    }
}

/// Every family, through the command line: settings and our own store change no score.
#[test]
fn every_family_runs_and_keeps_its_scores_in_a_store() {
    for family in [
        "tiny-xlm-roberta-cross-encoder",
        "tiny-mpnet-cross-encoder",
        "tiny-modernbert-cross-encoder",
        "tiny-qwen3-reranker-sharded-bf16",
        "tiny-minicpm-layerwise",
        "tiny-modular-reranker",
        "tiny-qwen2-reranker",
        "tiny-zerank-reranker",
        "tiny-gte-reranker",
        "tiny-xlm-roberta-fused-cross-encoder",
        "tiny-deberta-cross-encoder",
        "tiny-bert-colbert",
        "tiny-modernbert-late",
    ] {
        let (_dir, model) = copy_of(family);
        let model = model.to_string_lossy().into_owned();
        let plain = rerank(&request(), &model, &["--raw-scores"]).json();
        let converted = Riddle::new().json(&["models", "convert", &model]);
        assert!(converted["bytes"].as_u64() > Some(0), "{converted:#}");
        for extra in [
            &["--window", "1", "--micro-batch-tokens", "100"][..],
            &["--hidden-on-disk", "--separate-prefixes", "--embedding-rows", "0"],
        ] {
            let mut args = vec!["--raw-scores"];
            args.extend(extra);
            let other = rerank(&request(), &model, &args).json();
            for (a, b) in scores(&plain).iter().zip(&scores(&other)) {
                assert!(a.0 == b.0 && (a.1 - b.1).abs() < 1e-4, "{family}: {plain:#} {other:#}");
            }
        }
        let shares = plain["shared_prefix_tokens"].as_u64() > Some(0);
        let is_decoder = ["qwen", "zerank", "minicpm"].iter().any(|it| family.contains(it));
        assert_eq!(shares, is_decoder, "{plain:#}");
    }
}

#[test]
fn a_store_in_another_format_is_a_model_of_its_own_and_damage_is_noticed() {
    let dir = TempDir::new().expect("a temporary folder");
    let out = dir.path().join("half").to_string_lossy().into_owned();
    let riddle = Riddle::new();
    riddle.json(&["models", "convert", &cross_encoder(), "--dtype", "bf16", "--out", &out]);
    let plain = scores(&rerank(&request(), &cross_encoder(), &["--raw-scores"]).json());
    let half = scores(&rerank(&request(), &out, &["--raw-scores"]).json());
    let of = |list: &[(u64, f64)], index| list.iter().find(|it| it.0 == index).map(|it| it.1);
    for (index, score) in &plain {
        let other = of(&half, *index).expect("scored");
        // Weights of eight bits' precision, four layers deep.
        assert!((score - other).abs() < 0.1 && score != &other, "{plain:?} {half:?}");
    }
    let outcome = rerank(&request(), &out, &["--direct-io", "--window", "2", "--raw-scores"]);
    if outcome.code == Some(0) {
        assert_eq!(scores(&outcome.json()), half);
    } else {
        let line = outcome.failed(1);
        assert!(line.contains("page cache"), "{line}");
    }
    let line = rerank(&request(), &cross_encoder(), &["--direct-io"]).failed(1);
    assert!(line.contains("model.riddle"), "{line}");
    let store = dir.path().join("half/model.riddle");
    let mut bytes = fs::read(&store).expect("the store");
    bytes[5000] ^= 1;
    fs::write(&store, bytes).expect("written");
    let line = rerank(&request(), &out, &[]).failed(1);
    assert!(line.contains("checksum"), "{line}");
}

#[test]
fn a_budget_that_can_not_hold_is_refused_with_the_smallest_that_can() {
    let line = rerank(&request(), &cross_encoder(), &["--memory-budget", "5MiB"]).failed(1);
    let smallest = line.split("at least ").nth(1).and_then(|it| it.split(' ').next());
    let smallest: u64 = smallest.and_then(|it| it.parse().ok()).expect("a number of MiB");
    assert!(smallest > 5, "{line}");
    let budget = format!("{}MiB", smallest + 1);
    let response = rerank(&request(), &cross_encoder(), &["--memory-budget", &budget]).json();
    let peak = response["memory"]["peak_rss_bytes"].as_u64().expect("a peak");
    assert!(peak <= (smallest + 1) << 20, "{peak} of {budget}: {response:#}");
    assert!(response["plan"]["planned_bytes"].as_u64() > Some(0), "{response:#}");
}

#[test]
fn raw_scores_are_the_logits() {
    let shares = scores(&rerank(&request(), &cross_encoder(), &[]).json());
    let logits = scores(&rerank(&request(), &cross_encoder(), &["--raw-scores"]).json());
    for (share, logit) in shares.iter().zip(&logits) {
        assert_eq!(share.0, logit.0);
        assert!((1.0 / (1.0 + (-logit.1).exp()) - share.1).abs() < 1e-5, "{share:?} {logit:?}");
    }
}

#[test]
fn top_n_limits_the_results_and_pruning_keeps_the_count() {
    let mut value: Value = serde_json::from_slice(&request()).expect("JSON");
    for (top_n, mode, count) in
        [(3, "off", 3), (3, "order", 3), (3, "set", 3), (100, "set", 12), (0, "off", 0)]
    {
        value["top_n"] = top_n.into();
        let extra = ["--mode", mode, "--threshold", "0.0001"];
        let response = rerank(value.to_string().as_bytes(), &cross_encoder(), &extra).json();
        assert_eq!(scores(&response).len(), count, "{mode} {top_n}");
    }
}

#[test]
fn the_trace_tells_every_layer() {
    let dir = TempDir::new().expect("a temporary folder");
    let file = dir.path().join("trace.json");
    let name = file.to_string_lossy().into_owned();
    let response = rerank(&request(), &cross_encoder(), &["--trace", &name, "--raw-scores"]).json();
    let trace: Value =
        serde_json::from_slice(&fs::read(&file).expect("a trace")).expect("one JSON value");
    let layers = trace["layers"].as_array().expect("a list of layers");
    assert_eq!(trace["num_layers"].as_u64(), Some(layers.len() as u64));
    assert_eq!(response["layers_run"], trace["num_layers"]);
    for (number, layer) in (1..).zip(layers) {
        assert_eq!(layer["layer"], number);
        let active = layer["active"].as_array().expect("a list").len();
        assert_eq!((active, layer["scores"].as_array().map(Vec::len)), (12, Some(12)));
        for key in [
            "dispersion",
            "ms",
            "bytes_read",
            "row_bytes_read",
            "io_wait_ms",
            "resident_weight_bytes",
        ] {
            assert!(layer[key].is_number(), "{key}: {layer:#}");
        }
        assert!(layer["accepted"].is_array() && layer["dropped"].is_array());
    }
    // The last layer's provisional scores are the scores.
    let last = layers.last().expect("a layer")["scores"].as_array().expect("a list");
    for (index, score) in scores(&response) {
        let provisional = last[index as usize].as_f64().expect("a number");
        assert!((provisional - score).abs() < 1e-5, "{provisional} {score}");
    }

    let nowhere = dir.path().join("no/such/folder/trace.json");
    let line =
        rerank(&request(), &cross_encoder(), &["--trace", &nowhere.to_string_lossy()]).failed(1);
    assert!(line.contains("trace"), "{line}");
}

#[test]
fn a_bad_request_is_one_clear_line() {
    for request in [
        &b""[..],
        b"not json",
        b"{\"query\": \"q\", \"documents\": [",
        b"[]",
        b"{\"query\": 5, \"documents\": []}",
        b"{\"query\": \"q\"}",
        b"{\"query\": \"q\", \"documents\": [7]}",
        b"{\"query\": \"q\", \"documents\": [\"\xff\"]}",
        b"{\"query\": \"q\", \"documents\": [\"a\"], \"top_n\": -1}",
    ] {
        let line = rerank(request, &cross_encoder(), &[]).failed(1);
        assert!(line.contains("stdin") && line.contains("a request is"), "{line}");
    }
    let line =
        rerank(b"{\"query\": \" \", \"documents\": [\"a\"]}", &cross_encoder(), &[]).failed(1);
    assert!(line.contains("query"), "{line}");
}

/// Requests of one line each, and the answers to them.
fn lines(requests: &[&[u8]], extra: &[&str]) -> (Outcome, Vec<Value>) {
    let input = requests.iter().flat_map(|it| [it, &b"\n"[..]].concat()).collect::<Vec<u8>>();
    let outcome = rerank(&input, &cross_encoder(), &[&["--lines"], extra].concat());
    let answers = outcome.stdout.lines().map(|it| serde_json::from_str(it).expect("JSON"));
    let answers = answers.collect();
    (outcome, answers)
}

#[test]
fn each_line_is_answered_as_if_it_were_alone() {
    let few = br#"{"query": "bread", "documents": ["boat", "bread and butter", ""], "top_n": 2}"#;
    let many = request();
    let (outcome, answers) = lines(&[&many, b"", few, &many], &["--raw-scores"]);
    outcome.ok();
    assert_eq!(answers.len(), 3, "a blank line is no request");
    for (answer, request) in answers.iter().zip([&many[..], few, &many]) {
        let alone = rerank(request, &cross_encoder(), &["--raw-scores"]).json();
        assert_eq!(answer["results"], alone["results"]);
    }
}

#[test]
fn a_line_that_can_not_be_answered_costs_the_others_nothing() {
    let good = request();
    let bad: [&[u8]; 4] = [
        b"{\"query\":",
        b"[]",
        b"{\"query\": \"\xff\", \"documents\": []}",
        b"{\"query\": \" \", \"documents\": [\"a\"]}",
    ];
    let (outcome, answers) = lines(&[&good, bad[0], bad[1], bad[2], bad[3], &good], &[]);
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    assert!(outcome.stderr.contains("4 of 6 lines"), "{outcome:#?}");
    assert_eq!(answers.len(), 6);
    assert_eq!(answers[0]["results"], answers[5]["results"]);
    for (number, answer) in answers[1..5].iter().enumerate() {
        let error = answer["error"].as_str().expect("an error");
        assert!(error.starts_with(&format!("line {}: ", number + 2)), "{error}");
    }
    // Without a model nothing can be answered.
    let nowhere = run(&good, &["--lines", "--model", "no-such-model"]).failed(1);
    assert!(nowhere.contains("no-such-model"), "{nowhere}");
}

/// A process that stays open, and what it answers.
struct Open {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    // Its home.
    _riddle: Riddle,
}

impl Open {
    fn new() -> Open {
        let riddle = Riddle::new();
        let mut command = riddle.command(&["rerank", "--lines", "--model", &cross_encoder()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Open { child, stdin, stdout, _riddle: riddle }
    }

    fn ask(&mut self) -> Value {
        self.stdin.write_all(&[&request()[..], b"\n"].concat()).expect("written");
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).expect("read");
        serde_json::from_str(&answer).expect("JSON")
    }
}

/// Whoever keeps the process waits for an answer before the next request.
#[test]
fn a_line_is_answered_before_the_next_one_comes() {
    let mut open = Open::new();
    for _ in 0..3 {
        assert_eq!(scores(&open.ask()).len(), 12);
    }
    let Open { mut child, stdin, .. } = open;
    drop(stdin);
    assert!(child.wait().expect("ends").success());
}

/// It waits for the next line then, and there is nothing to lose.
#[cfg(unix)]
#[test]
fn one_ctrl_c_ends_what_waits_for_a_line() {
    let mut open = Open::new();
    open.ask();
    let pid = open.child.id().to_string();
    let sent = Command::new("kill").args(["-s", "INT", &pid]).status().expect("a kill command");
    assert!(sent.success());
    assert_eq!(open.child.wait().expect("ends").code(), Some(1));
}

#[test]
fn odd_requests_have_a_defined_result() {
    let none = rerank(b"{\"query\": \"q\", \"documents\": []}", &cross_encoder(), &[]).json();
    assert_eq!(none["results"], json!([]));
    let odd = json!({
        "query": "what\u{0}is \u{202e}this",
        "documents": ["", "\u{0}", "x".repeat(100_000), "boat ".repeat(20_000), "🚤🚤", {"text": "t"}],
    });
    let response = rerank(odd.to_string().as_bytes(), &cross_encoder(), &[]).json();
    assert_eq!(scores(&response).len(), 6, "{response:#}");
}

fn copy_of(model: &str) -> (TempDir, PathBuf) {
    let dir = TempDir::new().expect("a temporary folder");
    let copy = dir.path().join("broken-model");
    copy_all(&tiny_model(model), &copy);
    (dir, copy)
}

/// Copies a folder, modules in folders of their own included.
fn copy_all(from: &Path, to: &Path) {
    fs::create_dir(to).expect("made");
    for entry in fs::read_dir(from).expect("the model").flatten() {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_all(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("copied");
        }
    }
}

/// A copy of the model with one file changed.
fn broken(change: impl FnOnce(&mut Vec<u8>), file: &str) -> (TempDir, PathBuf) {
    let (dir, copy) = copy_of("tiny-bert-cross-encoder");
    let mut bytes = fs::read(copy.join(file)).expect("the file");
    change(&mut bytes);
    fs::write(copy.join(file), bytes).expect("written");
    (dir, copy)
}

#[test]
fn a_corrupt_model_is_refused_in_one_line() {
    type Damage = fn(&mut Vec<u8>);
    const WEIGHTS: &str = "model.safetensors";
    let cases: [(&str, Damage); 8] = [
        (WEIGHTS, |it| it.truncate(it.len() / 2)),
        (WEIGHTS, |it| it.truncate(4)),
        (WEIGHTS, Vec::clear),
        // The header's length: larger than the file, and absurd.
        (WEIGHTS, |it| it[..8].copy_from_slice(&(1u64 << 20).to_le_bytes())),
        (WEIGHTS, |it| it[..8].copy_from_slice(&u64::MAX.to_le_bytes())),
        // A header that is no JSON.
        (WEIGHTS, |it| it[8..40].fill(b'{')),
        ("config.json", |it| it.truncate(10)),
        ("tokenizer.json", |it| it.truncate(100)),
    ];
    for (number, (file, change)) in cases.into_iter().enumerate() {
        let (_dir, model) = broken(change, file);
        let line = rerank(&request(), &model.to_string_lossy(), &[]).failed(1);
        assert!(line.contains("broken-model"), "case {number}: {line}");
    }
    let empty = TempDir::new().expect("a temporary folder");
    let line = rerank(&request(), &empty.path().to_string_lossy(), &[]).failed(1);
    assert!(line.contains("model"), "{line}");
}

#[test]
fn a_recorded_run_is_replayed_at_other_thresholds() {
    let dir = TempDir::new().expect("a temporary folder");
    let file = dir.path().join("trace.json").to_string_lossy().into_owned();
    rerank(&request(), &cross_encoder(), &["--trace", &file]).json();
    let riddle = Riddle::new();
    let replayed = riddle.json(&["bench", "replay", &file, "--threshold", "0,0.01,9", "-k", "4"]);
    let rows = replayed["replays"].as_array().expect("a row for each threshold");
    assert_eq!(rows.len(), 3);
    for row in rows {
        assert_eq!(row["results"].as_array().map(Vec::len), Some(4), "{row:#}");
        // The engine itself, at the same threshold, accepts the same after the same layer.
        let threshold = row["threshold"].to_string();
        let mut request: Value = serde_json::from_slice(&request()).expect("JSON");
        request["top_n"] = 4.into();
        let extra = ["--mode", "set", "--threshold", &threshold];
        let run = rerank(request.to_string().as_bytes(), &cross_encoder(), &extra).json();
        assert_eq!(run["layers_run"], row["layers_run"], "{row:#}");
        for (a, b) in run["results"]
            .as_array()
            .into_iter()
            .flatten()
            .zip(row["results"].as_array().into_iter().flatten())
        {
            assert_eq!(
                (&a["index"], &a["decided_at_layer"]),
                (&b["index"], &b["decided_at_layer"])
            );
        }
    }
    assert_eq!(rows[2]["candidate_layers_share"], 1.0, "nothing is dropped at 9");
    fs::write(&file, "{\"num_layers\": 3, \"layers\": []}").expect("written");
    let line = riddle.run(&["bench", "replay", &file]).failed(1);
    assert!(line.contains("trace.json"), "{line}");
}
