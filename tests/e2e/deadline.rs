//! A reranker with a deadline, through the command line. The bundled one: tiny models can not be cut into slices.

use std::fs;

use riddle_tests::{Riddle, tiny_model};
use serde_json::{Value, json};

fn request(dir: &std::path::Path) -> String {
    let documents: Vec<Value> = (0..8)
        .map(|n| {
            let text =
                if n == 5 { "The ferry leaves at nine." } else { "Bread is baked of flour." };
            json!({"text": format!("{text} Number {n}."), "relevant": u8::from(n == 5)})
        })
        .collect();
    let path = dir.join("request.jsonl");
    let line = json!({"query": "When does the ferry leave?", "documents": documents}).to_string();
    fs::write(&path, line + "\n").expect("written");
    path.to_string_lossy().into_owned()
}

fn indexes(response: &Value) -> Vec<u64> {
    let results = response["results"].as_array().expect("results");
    results.iter().filter_map(|it| it["index"].as_u64()).collect()
}

#[test]
fn with_time_enough_the_order_is_that_without_a_deadline() {
    let riddle = Riddle::new();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let request = request(folder.path());
    let plain = riddle.json(&["rerank", &request]);
    assert!(plain.get("deadline").is_none(), "{plain:#}");
    let timed = riddle.json(&["rerank", "--deadline", "600s", "--preload", "2MiB", &request]);
    assert_eq!(timed["results"], plain["results"]);
    let deadline = &timed["deadline"];
    assert_eq!((&deadline["met"], &deadline["end"]), (&json!(true), &json!("ranked")));
    let plan = &deadline["plan"];
    assert_eq!((&plan["layers"], &plan["width"]), (&json!(4), &json!(12)));
    let bits = plan["bits"].as_array().expect("layers");
    assert!(bits.iter().all(|it| it.as_array().is_some_and(|it| it.len() == 12)), "{plan:#}");
    // What was made for it lies in the home, and nothing beside the model.
    let made = fs::read_dir(riddle.home().join("deadline")).expect("a folder").count();
    assert_eq!(made, 2);
    // A damaged store is made anew, and nobody hears of it.
    for entry in fs::read_dir(riddle.home().join("deadline")).expect("a folder").flatten() {
        if entry.path().extension().is_some_and(|it| it == "shards") {
            fs::write(entry.path(), b"RDLSHARD").expect("written");
        }
    }
    let again = riddle.json(&["rerank", "--deadline", "600s", &request]);
    assert_eq!(again["results"], plain["results"]);
    // So it is before anybody has measured the machine.
    for entry in fs::read_dir(riddle.home().join("deadline")).expect("a folder").flatten() {
        match entry.path().extension().is_some_and(|it| it == "shards") {
            true => fs::write(entry.path(), b"RDLSHARD").expect("written"),
            false => fs::remove_file(entry.path()).expect("removed"),
        }
    }
    let anew = riddle.json(&["rerank", "--deadline", "600s", &request]);
    assert_eq!(anew["results"], plain["results"]);
}

#[test]
fn what_is_made_once_is_told_and_no_part_of_the_deadline() {
    let riddle = Riddle::new();
    let folder = tempfile::tempdir().expect("a temporary folder");
    riddle_tests::write(folder.path(), "ferry.md", "The ferry leaves at nine.\n");
    riddle_tests::write(folder.path(), "bread.md", "Bread is baked of flour.\n");
    riddle.index(folder.path());
    let search = || riddle.json(&["search", "When does the ferry leave?", "--deadline", "600s"]);
    let first = search();
    assert_eq!(first["deadline"]["met"], true, "{first:#}");
    let prepared = first["timings_ms"]["prepare"].as_f64().expect("a time");
    let total = first["timings_ms"]["total"].as_f64().expect("a time");
    let took = first["deadline"]["took_ms"].as_f64().expect("a time");
    assert!(prepared > 0.0 && took <= total - prepared, "{first:#}");
    let again = search();
    assert!(again["timings_ms"].get("prepare").is_none(), "{again:#}");
    // Nothing is promised of an order that nobody read.
    let none = riddle.json(&["search", "When does the ferry leave?", "--deadline", "0.01ms"]);
    assert_eq!(none["promise"], Value::Null, "{none:#}");
}

#[test]
fn no_time_gives_the_order_that_was_given_and_says_so() {
    let riddle = Riddle::new();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let request = request(folder.path());
    let response = riddle.json(&["rerank", "--deadline", "0.01ms", &request]);
    assert_eq!(indexes(&response), (0..8).collect::<Vec<_>>());
    let deadline = &response["deadline"];
    assert!(deadline["plan"].is_null() && deadline["end"] != "ranked", "{deadline:#}");
}

#[test]
fn shards_are_made_and_profiles_are_measured_by_name() {
    let riddle = Riddle::new();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let request = request(folder.path());
    let made = riddle.json(&["models", "shard", "riddle-reranker"]);
    assert_eq!(made["shards"], 4 * 12 * 6);
    let profile = riddle.json(&["models", "profile", "riddle-reranker", "--requests", &request]);
    assert_eq!(profile["learned"]["questions"], 1);
    assert!(profile["machine"]["read"]["mebibyte"].is_number(), "{profile:#}");
    let tiny = tiny_model("tiny-bert-cross-encoder").to_string_lossy().into_owned();
    let told = riddle.run(&["models", "shard", &tiny]).failed(1);
    assert!(told.contains("whole blocks"), "{told}");
}

#[test]
fn another_machine_is_measured_anew_and_what_was_learned_stays() {
    let riddle = Riddle::new();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let request = request(folder.path());
    riddle.json(&["models", "profile", "riddle-reranker", "--requests", &request]);
    let files = fs::read_dir(riddle.home().join("deadline")).expect("a folder").flatten();
    let mut files = files.map(|it| it.path());
    let file = files.find(|it| it.extension().is_some_and(|it| it == "json")).expect("a profile");
    let kept =
        || -> Value { serde_json::from_slice(&fs::read(&file).expect("a profile")).expect("JSON") };
    let measured = kept();
    let mut elsewhere = measured.clone();
    elsewhere["machine"]["isa"] = json!("another");
    elsewhere["machine"]["compute"]["layer"] = json!(1e6);
    fs::write(&file, elsewhere.to_string()).expect("written");
    // Of a machine that takes seventeen minutes for a layer nothing would be computed.
    let timed = riddle.json(&["rerank", "--deadline", "600s", &request]);
    assert_eq!(timed["deadline"]["end"], "ranked", "{timed:#}");
    let anew = kept();
    assert_eq!(anew["machine"]["isa"], measured["machine"]["isa"]);
    assert_eq!(anew["learned"], measured["learned"]);
    assert_eq!(anew["learned"]["questions"], 1);
}

/// Requests with one text each are those of a classifier, and shards of single precision are the paper's.
#[test]
fn a_classifier_is_measured_as_the_paper_does() {
    let riddle = Riddle::new();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = fs::read(tiny_model("tiny-bert-sliced-cross-encoder").join("expected.json"));
    let expected: Value = serde_json::from_slice(&text.expect("golden")).expect("JSON");
    let (mut lines, mut relevant) = (String::new(), 0);
    for case in expected["cases"].as_array().expect("cases") {
        // What the whole model says of it is right.
        let label = u8::from(case["scores"][2].as_f64().expect("a score") >= 0.0);
        relevant += usize::from(label);
        let document = json!({"text": case["text"], "relevant": label});
        lines += &(json!({"query": case["query"], "documents": [document]}).to_string() + "\n");
    }
    let questions = lines.lines().count();
    let file = folder.path().join("requests.jsonl");
    fs::write(&file, lines).expect("written");
    let file = file.to_string_lossy();
    let model = tiny_model("tiny-bert-sliced-cross-encoder").to_string_lossy().into_owned();
    let shard = ["models", "shard", &model, "--numbers", "f32", "--dictionaries"];
    let made = riddle.json(&[&shard[..], &["equal-population"]].concat());
    assert_eq!(made["shards"], 3 * 2 * 6);
    let profile = ["models", "profile", &model, "--numbers", "f32", "--requests", &file];
    let learned = &riddle.json(&profile)["learned"];
    assert_eq!(learned["questions"], questions);
    let bench = ["bench", "deadline", "--model", &model, "--numbers", "f32", "--requests", &file];
    let long =
        ["--rates", "500", "--deadlines", "600000", "--buffers", "1MiB", "--candidates", "1"];
    let cells = riddle.json(&[&bench[..], &long].concat());
    let cells = cells.as_array().expect("cells");
    let names: Vec<&str> = cells.iter().filter_map(|it| it["system"].as_str()).collect();
    for name in ["STI", "load, then execute, 32 bits", "pipeline, 32 bits", "preloaded, 32 bits"] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    for cell in cells {
        assert_eq!(cell["measure"], "accuracy");
        let given = cell["given_quality"].as_f64().expect("a share");
        assert!((given - relevant as f64 / questions as f64).abs() < 1e-9, "{cell:#}");
        if cell["system"].as_str().is_some_and(|it| it.contains("32 bits")) {
            assert_eq!((&cell["quality"], &cell["met"]), (&json!(1.0), &json!(1.0)), "{cell:#}");
        }
    }
    // One name that is right does not hide one that is wrong.
    let nobody = riddle.run(&[&bench[..], &["--system", "STI", "--system", "Nobody"]].concat());
    assert_ne!(nobody.code, Some(0));
    for said in ["\"Nobody\" is no system: STI; ", "preloaded, 32 bits"] {
        assert!(nobody.stderr.contains(said), "{}", nobody.stderr);
    }
}
