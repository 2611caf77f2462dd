//! Figures on a dataset small enough to know them.

use std::path::Path;

use riddle_tests::{Riddle, tiny_model, write};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Ten documents with a word each; every query asks for one of them by its word.
fn dataset() -> TempDir {
    let dir = TempDir::new().expect("a temporary folder");
    let words = ["anchor", "bakery", "candle", "dragon", "engine", "falcon", "guitar", "hammer"];
    let (mut corpus, mut queries, mut qrels) =
        (String::new(), String::new(), "query-id\tcorpus-id\tscore\n".to_owned());
    for (n, word) in words.iter().enumerate() {
        let text = format!("Page {n} tells everything about the {word}.");
        corpus
            .push_str(&format!("{}\n", json!({"_id": format!("d{n}"), "title": "", "text": text})));
        queries.push_str(&format!("{}\n", json!({"_id": format!("q{n}"), "text": word})));
        qrels.push_str(&format!("q{n}\td{n}\t1\n"));
    }
    // The last query's answer shares no word with it: keywords can not find it.
    queries.push_str("{\"_id\": \"q-hard\", \"text\": \"zeppelin\"}\n");
    qrels.push_str("q-hard\td0\t1\n");
    write(dir.path(), "corpus.jsonl", corpus);
    write(dir.path(), "queries.jsonl", queries);
    write(dir.path(), "qrels/test.tsv", qrels);
    let run: String = (0..8)
        .map(|n| format!("q{n} Q0 d{n} 1 9.0 x\nq{n} Q0 d{} 2 8.0 x\n", (n + 1) % 8))
        .collect();
    write(dir.path(), "runs/given.trec", run);
    dir
}

/// What is in another language is not reranked, and counts as it would be shown.
#[test]
fn what_is_not_reranked_counts_in_the_order_that_is_shown() {
    let (riddle, dataset) = (Riddle::new(), dataset());
    let query = "Wo liegt eigentlich das alte Boot, das wir im Hafen gesehen haben, zeppelin?";
    write(dataset.path(), "queries.jsonl", format!("{{\"_id\": \"q0\", \"text\": \"{query}\"}}\n"));
    let corpus = "{\"_id\": \"d0\", \"text\": \"Das alte Boot liegt im Hafen.\"}\n";
    write(dataset.path(), "corpus.jsonl", corpus);
    write(dataset.path(), "qrels/test.tsv", "query-id\tcorpus-id\tscore\nq0\td0\t1\n");
    let report = eval(&riddle, dataset.path(), &["--stages", "rerank"]);
    assert!(close(&report["stages"]["rerank"]["mrr@10"], 1.0), "{report:#}");
    let notices = report["notices"].as_array().expect("a list");
    let said = notices.iter().any(|it| it.as_str().is_some_and(|it| it.contains("not reranked")));
    assert!(said, "{report:#}");
}

/// One document has its word in the title alone.
#[test]
fn titles_can_be_ignored() {
    let (riddle, dir) = (Riddle::new(), TempDir::new().expect("a temporary folder"));
    let corpus = [
        json!({"_id": "a", "title": "Anchor", "text": "It holds the boat."}),
        json!({"_id": "b", "title": "", "text": "The anchor is made of iron."}),
    ];
    write(dir.path(), "corpus.jsonl", corpus.map(|it| format!("{it}\n")).concat());
    write(dir.path(), "queries.jsonl", "{\"_id\": \"q\", \"text\": \"anchor\"}\n");
    write(dir.path(), "qrels/test.tsv", "query-id\tcorpus-id\tscore\nq\ta\t1\nq\tb\t1\n");
    let recall = |extra: &[&str]| {
        let args = [&["--stages", "bm25"], extra].concat();
        eval(&riddle, dir.path(), &args)["stages"]["bm25"]["recall@10"].clone()
    };
    assert!(close(&recall(&[]), 1.0));
    assert!(close(&recall(&["--ignore-titles"]), 0.5));
    // Each corpus keeps its own index.
    assert!(close(&recall(&[]), 1.0));
}

#[test]
fn files_are_indexed_as_files() {
    let (riddle, dataset, files) =
        (Riddle::new(), dataset(), TempDir::new().expect("a temporary folder"));
    // The fifth document is no file; another is one that no question asks for.
    let mut corpus = String::new();
    for (n, word) in ["anchor", "bakery", "candle", "dragon"].iter().enumerate() {
        // Two passages per file.
        let text = format!("{}\n\nEverything about the {word}.", "Words before it. ".repeat(80));
        write(files.path(), &format!("week{n}/d{n}.txt"), text);
        corpus.push_str(&format!("{}\n", json!({"_id": format!("week{n}/d{n}.txt"), "text": ""})));
    }
    write(files.path(), "other.txt", "Nobody asks.");
    corpus.push_str("{\"_id\": \"gone.txt\", \"text\": \"\"}\n");
    write(dataset.path(), "corpus.jsonl", corpus);
    let qrels = (0..4).map(|n| format!("q{n}\tweek{n}/d{n}.txt\t1\n")).collect::<String>();
    write(dataset.path(), "qrels/test.tsv", format!("query-id\tcorpus-id\tscore\n{qrels}"));
    let files = files.path().to_string_lossy().into_owned();
    let args = ["--stages", "bm25", "--files", &files];
    let report = eval(&riddle, dataset.path(), &args);
    assert_eq!(report["queries"], 4, "{report:#}");
    assert!(close(&report["stages"]["bm25"]["mrr@10"], 1.0), "{report:#}");
    assert_eq!(report["corpus"]["documents"], 5, "{report:#}");
    assert_eq!(report["corpus"]["reused"], false);
    assert!(report["notices"].to_string().contains("1 of the dataset's 5"), "{report:#}");
    assert_eq!(eval(&riddle, dataset.path(), &args)["corpus"]["reused"], true);
    let dataset = dataset.path().to_string_lossy().into_owned();
    let line = riddle.run(&["eval", &dataset, "--files", &files, "--ignore-titles"]).failed(1);
    assert!(line.contains("--files"), "{line}");
    let line = riddle.run(&["eval", &dataset, "--files", "/no/such/folder"]).failed(1);
    assert!(line.contains("no such folder"), "{line}");
    let empty = TempDir::new().expect("a temporary folder");
    let line =
        riddle.run(&["eval", &dataset, "--files", &empty.path().to_string_lossy()]).failed(1);
    assert!(line.contains("no indexed file"), "{line}");
}

fn eval(riddle: &Riddle, dataset: &Path, extra: &[&str]) -> Value {
    let dataset = dataset.to_string_lossy().into_owned();
    let mut args = vec!["eval", &dataset];
    args.extend(extra);
    riddle.json(&args)
}

fn close(value: &Value, expected: f64) -> bool {
    value.as_f64().is_some_and(|it| (it - expected).abs() < 1e-9)
}

#[test]
fn keyword_figures_are_those_that_can_be_counted() {
    let (riddle, dataset) = (Riddle::new(), dataset());
    let report = eval(&riddle, dataset.path(), &["--stages", "bm25"]);
    assert_eq!(report["queries"], 9);
    let bm25 = &report["stages"]["bm25"];
    // Eight of nine are found, in first place.
    for (measure, expected) in [
        ("ndcg@10", 8.0 / 9.0),
        ("mrr@10", 8.0 / 9.0),
        ("recall@10", 8.0 / 9.0),
        ("recall@100", 8.0 / 9.0),
        ("p@1", 8.0 / 9.0),
        ("p@5", 8.0 / 45.0),
        ("p@10", 8.0 / 90.0),
    ] {
        assert!(close(&bm25[measure], expected), "{measure} in {bm25:#}");
    }
    assert!(bm25["latency_ms"]["p50"].as_f64() > Some(0.0), "{bm25:#}");
    assert!(bm25["latency_ms"]["p95"].as_f64() >= bm25["latency_ms"]["p50"].as_f64());
    assert!(report["memory"]["peak_rss_bytes"].is_number());

    let limited = eval(&riddle, dataset.path(), &["--stages", "bm25", "--limit-queries", "2"]);
    assert_eq!(limited["queries"], 2);
    assert!(close(&limited["stages"]["bm25"]["mrr@10"], 1.0));
}

#[test]
fn vectors_fusion_and_reranking_run_and_the_index_is_kept() {
    let (riddle, dataset) = (Riddle::new(), dataset());
    let embedder = tiny_model("tiny-bert-encoder").to_string_lossy().into_owned();
    let model = tiny_model("tiny-bert-cross-encoder").to_string_lossy().into_owned();
    let args = ["--embedder", &embedder, "--model", &model, "--candidates", "8", "--top-k", "8"];
    let first = eval(&riddle, dataset.path(), &args);
    assert_eq!(first["corpus"]["reused"], false, "{first:#}");
    for stage in ["bm25", "dense", "rrf", "rerank"] {
        let measured = &first["stages"][stage];
        assert!(measured["ndcg@10"].is_number(), "{stage}: {first:#}");
        assert!(measured["latency_ms"]["p50"].as_f64() > Some(0.0), "{stage}: {first:#}");
    }
    // Eight candidates of eight documents: whatever their order, all are found.
    for stage in ["dense", "rrf", "rerank"] {
        assert!(close(&first["stages"][stage]["recall@10"], 1.0), "{stage}: {first:#}");
    }
    assert!(close(&first["stages"]["rerank"]["candidate_layers_share"], 1.0), "{first:#}");
    assert!(first["stages"]["rerank"]["layers_run_mean"].as_f64() >= Some(1.0));

    let second = eval(&riddle, dataset.path(), &args);
    assert_eq!(second["corpus"]["reused"], true, "{second:#}");
    for stage in ["bm25", "dense", "rrf", "rerank"] {
        let measures = |of: &Value| of["stages"][stage]["ndcg@10"].clone();
        assert_eq!(measures(&first), measures(&second), "{stage}");
    }
    let listed = std::fs::read_dir(riddle.home().join("eval")).expect("kept").count();
    assert_eq!(listed, 1);
}

#[test]
fn given_candidates_are_reranked_without_an_index() {
    let (riddle, dataset) = (Riddle::new(), dataset());
    let model = tiny_model("tiny-bert-cross-encoder").to_string_lossy().into_owned();
    let report = eval(&riddle, dataset.path(), &["--run", "given", "--model", &model]);
    let (run, rerank) = (&report["stages"]["run"], &report["stages"]["rerank"]);
    assert!(report.get("layers").is_none(), "nobody asked: {report:#}");
    let layers = eval(&riddle, dataset.path(), &["--run", "given", "--model", &model, "--layers"])
        ["layers"]
        .as_object()
        .cloned()
        .expect("layers");
    let last = layers.iter().next_back().expect("a last layer");
    // Two candidates: what the last layer says is the result.
    assert!(close(&last.1["mrr@10"], rerank["mrr@10"].as_f64().expect("a figure")), "{layers:?}");
    assert!(close(&run["mrr@10"], 8.0 / 9.0), "{report:#}");
    assert!(close(&rerank["recall@10"], 8.0 / 9.0), "{report:#}");
    assert!(close(&rerank["candidate_layers_share"], 1.0), "{report:#}");
    assert!(!riddle.home().join("eval").exists(), "nothing is indexed");
}

#[test]
fn what_can_not_be_measured_is_told() {
    let (riddle, dataset) = (Riddle::new(), dataset());
    let path = dataset.path().to_string_lossy().into_owned();
    for (extra, says) in [
        (&["--stages", "dense"][..], "embedder"),
        (&["--run-cosines"], "--run"),
        (&["--run", "given", "--run-cosines"], "not cosines"),
        (&["--run", "given", "--layers", "--mode", "set", "--threshold", "1"], "--layers"),
        (&["--stages", "bm25", "--layers"], "no reranker"),
        (&["--run", "missing", "--model", "x"], "missing.trec"),
        (&["--run", "../qrels/test", "--model", "x"], "name of a run"),
        (&["--run", "given", "--stages", "bm25", "--model", "x"], "--run"),
        (&["--run", "given", "--model", "no-such-model"], "no-such-model"),
    ] {
        let mut args = vec!["eval", path.as_str()];
        args.extend(extra);
        let line = riddle.run(&args).failed(1);
        assert!(line.contains(says), "{extra:?}: {line}");
    }
    write(
        dataset.path(),
        "corpus.jsonl",
        "{\"_id\": \"a\", \"text\": \"x\"}\n{\"_id\": \"b\", \"te",
    );
    let line = riddle.run(&["eval", &path]).failed(1);
    assert!(line.contains("corpus.jsonl:2:"), "{line}");
}

#[test]
fn the_order_of_every_stage_can_be_kept() {
    let (riddle, dataset) = (Riddle::new(), dataset());
    let runs = TempDir::new().expect("a temporary folder");
    let folder = runs.path().join("runs").to_string_lossy().into_owned();
    eval(&riddle, dataset.path(), &["--stages", "bm25", "--save-runs", &folder]);
    let run = std::fs::read_to_string(runs.path().join("runs/bm25.trec")).expect("a run");
    assert!(run.lines().any(|it| it == "q3 Q0 d3 1 1.000000 bm25"), "{run}");
    let model = tiny_model("tiny-bert-cross-encoder").to_string_lossy().into_owned();
    eval(&riddle, dataset.path(), &["--run", "given", "--model", &model, "--save-runs", &folder]);
    let run = std::fs::read_to_string(runs.path().join("runs/rerank.trec")).expect("a run");
    assert_eq!(run.lines().filter(|it| it.starts_with("q0 Q0 ")).count(), 2, "{run}");
}

/// Number formats and a variant side by side; the variant is the model itself.
#[test]
fn a_model_is_measured_in_every_format() {
    let (riddle, dataset) = (Riddle::new(), dataset());
    let model = tiny_model("tiny-bert-cross-encoder").to_string_lossy().into_owned();
    let made = TempDir::new().expect("a temporary folder");
    let keep = made.path().join("kept").to_string_lossy().into_owned();
    let folder = dataset.path().to_string_lossy().into_owned();
    let variant = format!("same={model}");
    let args = ["compress", &model, "--dataset", &folder, "--run", "given", "--keep", &keep];
    let args = [&args[..], &["--variant", &variant, "--variant-formats", "int8"]].concat();
    let rows = riddle.json(&args)["rows"].clone();
    let names: Vec<&str> = rows
        .as_array()
        .expect("rows")
        .iter()
        .map(|it| it["method"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["f32", "f16", "bf16", "int8", "q4", "same, int8"]);
    let bytes = |row: usize| rows[row]["bytes"].as_u64().expect("a size");
    assert!(bytes(0) > bytes(1) && bytes(1) > bytes(3) && bytes(3) > bytes(4), "{rows}");
    assert_eq!(rows[3]["mrr_10"], rows[5]["mrr_10"]);
    assert!(rows[0]["latency_ms"].as_f64().is_some_and(|it| it > 0.0));
    // What was made is a model.
    let kept = format!("{keep}/int8");
    eval(&riddle, dataset.path(), &["--run", "given", "--model", &kept]);

    let outside =
        ["compress", &model, "--dataset", &folder, "--run", "given", "--variant", "../x=y"];
    let outcome = riddle.run(&outside);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("folder's name"), "{}", outcome.stderr);
    let alone = ["compress", &kept, "--dataset", &folder, "--run", "given"];
    let line = riddle.run(&alone).failed(1);
    assert!(line.contains("model.safetensors"), "{line}");
}

/// Two good sets in one folder, one of them in a group, and a broken one: one table, and what each lost.
#[test]
fn a_suite_is_one_table_and_a_broken_set_does_not_end_it() {
    let (riddle, suite, homes) = (Riddle::new(), suite(), TempDir::new().expect("a folder"));
    let embedder = tiny_model("tiny-bert-encoder").to_string_lossy().into_owned();
    let model = tiny_model("tiny-bert-cross-encoder").to_string_lossy().into_owned();
    let (folder, kept) = (text(suite.path()), text(homes.path()));
    let args = [
        "eval",
        "--suite",
        &folder,
        "--homes",
        &kept,
        "--embedder",
        &embedder,
        "--model",
        &model,
        "--limit-queries",
        "4",
    ];
    let report = riddle.json(&args);
    let sets = report["sets"].as_array().expect("sets");
    let names: Vec<&Value> = sets.iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["languages/de", "words"], "{report:#}");
    assert_eq!(report["failed"][0]["name"], "broken");
    assert!(report["failed"][0]["why"].to_string().contains("corpus.jsonl:1"), "{report:#}");
    assert_eq!((&report["mean"]["of"], &report["stopped"]), (&2.into(), &false.into()));
    for set in sets {
        assert_eq!((&set["queries"], &set["documents"]), (&4.into(), &8.into()), "{set:#}");
        assert_eq!(set["reused"], false);
        let figure = |name: &str| set["ndcg@10"][name].as_f64().expect("a figure");
        // Evenly spread, so that the question that keywords can not answer is not among them.
        assert!((figure("bm25") - 1.0).abs() < 1e-9, "{set:#}");
        let best = figure("bm25").max(figure("dense")).max(figure("merged"));
        let regret = &set["regret"];
        let value = regret["value"].as_f64().expect("a figure");
        assert!((value - (figure("shown") - best)).abs() < 1e-9 && value < 0.0, "{set:#}");
        assert_eq!(regret["best"], "bm25", "{set:#}");
        assert!(regret["interval"][0].as_f64() <= regret["interval"][1].as_f64(), "{set:#}");
        let (losing, lost) = (regret["losing"].as_f64(), regret["lost"].as_f64());
        assert!(losing > Some(0.0), "random weights lose: {set:#}");
        assert_eq!(lost, losing.map(|it| it * 4.0), "{set:#}");
        assert!(close(&set["candidate_layers_share"], 1.0), "{set:#}");
    }
    // Nothing is indexed twice, and nothing lies in the user's home.
    let again = riddle.json(&args);
    for (set, before) in again["sets"].as_array().expect("sets").iter().zip(sets) {
        assert_eq!(set["reused"], true);
        assert_eq!((&set["ndcg@10"], &set["regret"]), (&before["ndcg@10"], &before["regret"]));
    }
    assert!(!riddle.home().join("eval").exists());
    let page = riddle.run(&args).ok();
    for part in ["languages/de", "regret", "mean of all", "broken: not measured", "2 domains"] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
    // The order after every layer, from what the reranker was given to what is shown.
    assert!(sets[0].get("layers").is_none(), "nobody asked: {:#}", sets[0]);
    let layers = [&args[..], &["--layers"]].concat();
    let report = riddle.json(&layers);
    for set in report["sets"].as_array().expect("sets") {
        let (ndcg, layers) = (&set["ndcg@10"], &set["layers"]);
        let figure = |of: &Value| of.as_f64().expect("a figure");
        assert!(close(&layers["input"]["ndcg@10"], figure(&ndcg["merged"])), "{set:#}");
        let after = layers["after"].as_object().expect("layers");
        let last = after.values().next_back().expect("a last layer");
        assert!(close(&last["ndcg@10"], figure(&ndcg["shown"])), "{set:#}");
        assert_eq!(last, &layers["shown"]);
    }
    assert_eq!(report["mean"]["layers"]["of"], 2, "{report:#}");
    let page = riddle.run(&layers).ok();
    for part in ["after each layer, MRR@10", "layer 2", "behind its input on"] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
    let line = riddle.run(&[&layers[..], &["--deadline", "1s"]].concat()).failed(1);
    assert!(line.contains("--layers measures the full forward"), "{line}");
}

#[test]
fn domains_are_named_and_what_is_no_suite_is_told() {
    let (riddle, suite) = (Riddle::new(), suite());
    let folder = text(suite.path());
    write(suite.path(), "domains.json", r#"{"languages": "one", "words": "one", "gone": null}"#);
    // There is no embedder, and so no vectors.
    let report = riddle.json(&["eval", "--suite", &folder]);
    assert_eq!(report["domains"][0]["name"], "one", "{report:#}");
    assert_eq!(report["domains"][0]["of"], 2, "{report:#}");
    assert!(report["sets"][0]["ndcg@10"]["dense"].is_null(), "{report:#}");
    assert!(report["notices"].to_string().contains("gone"), "{report:#}");
    assert_eq!(report["sets"][1]["reused"], false);
    assert!(riddle.home().join("eval").exists());
    let nothing = TempDir::new().expect("a temporary folder");
    write(nothing.path(), "only/queries.jsonl", "");
    let line = riddle.run(&["eval", "--suite", &text(nothing.path())]).failed(1);
    assert!(line.contains("none of 1 sets") && line.contains("only"), "{line}");
    let words = text(&suite.path().join("words"));
    for (folder, says) in [
        (words.as_str(), "this is a dataset"),
        ("/no/such/folder", "no such folder"),
        (&text(&suite.path().join("empty")), "no dataset"),
    ] {
        let line = riddle.run(&["eval", "--suite", folder]).failed(1);
        assert!(line.contains(says), "{folder}: {line}");
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn suite() -> TempDir {
    let dir = TempDir::new().expect("a temporary folder");
    for name in ["words", "languages/de"] {
        for file in ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv"] {
            let from = dataset();
            let content = std::fs::read_to_string(from.path().join(file)).expect("a file");
            // Another corpus, with an index of its own.
            let content = content.replace("tells everything", &format!("of {name} tells all"));
            write(dir.path(), &format!("{name}/{file}"), content);
        }
    }
    write(dir.path(), "broken/corpus.jsonl", "{");
    std::fs::create_dir(dir.path().join("empty")).expect("made");
    // Nobody looks into a folder with a name like this.
    write(dir.path(), ".git/corpus.jsonl", "");
    dir
}
