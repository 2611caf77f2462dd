//! Sentences of an answer that is being written are held against what they cite.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    thread,
};

use riddle_tests::{Riddle, write};
use serde_json::{Value, json};
use tempfile::TempDir;

const QUESTION: &str = "When was the hull of the Marlin painted, and by whom?";

/// What the model says: true, true in other words, a wrong year, cited to the wrong passage, and uncited.
const ANSWER: [&str; 9] = [
    "The hull of the Marlin was painted blue in 1931 by Ada Th",
    "orne [1]. The hull was pai",
    "nted blue, e.g. by Ada Thorne, in the year 1931. [",
    "1] The hull of the Marlin was painted in 1987 [1]. ",
    "Rye bread was inv",
    "ented by Thomas Edison in Chicago [2]",
    ".",
    " It flies.",
    "\n",
];

/// Address of a model on this machine that always gives this answer, in these pieces.
fn model() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).is_ok_and(|it| it > 2) {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
                line.clear();
            }
            reader.read_exact(&mut vec![0; length]).expect("a body");
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let said = ANSWER.map(|piece| {
                let chunk = json!({ "choices": [{ "delta": { "content": piece } }] });
                format!("data: {chunk}\n\n")
            });
            // Whoever asked may have gone.
            let _ = stream.write_all(format!("{head}{}data: [DONE]\n\n", said.concat()).as_bytes());
        }
    });
    url
}

fn indexed() -> Riddle {
    let riddle = Riddle::new();
    let files = TempDir::new().expect("a temporary folder");
    let boat = "# Marlin\n\nThe hull of the Marlin was painted blue in the year 1931. Ada Thorne did the painting herself.\n";
    write(files.path(), "boat.md", boat);
    write(
        files.path(),
        "bread.md",
        "# Rye\n\nRye bread needs a day. The hull of the grain is ground.\n",
    );
    riddle.index(files.path());
    riddle
}

fn verdicts(response: &Value) -> Vec<&str> {
    let sentences = response["supported"].as_array().expect("a list");
    sentences.iter().map(|it| it["verdict"].as_str().expect("a verdict")).collect()
}

#[test]
fn every_sentence_of_a_model_has_a_verdict() {
    let (riddle, url) = (indexed(), model());
    let args = ["ask", QUESTION, "--llm", "remote", "--llm-url", &url, "--llm-model", "small"];
    let response = riddle.json(&args);
    let verdicts = verdicts(&response);
    assert_eq!(verdicts.len(), 5, "{response:#}");
    assert_eq!(verdicts[0], "supported", "{response:#}");
    assert_ne!(verdicts[1], "unsupported", "{response:#}");
    // A year that is nowhere in what is cited, a passage about something else, and nothing cited.
    assert_eq!(verdicts[2..], ["unsupported"; 3], "{response:#}");
    assert_eq!(response["supported"][1]["citations"], json!([1]), "{response:#}");
    let notices = response["notices"].to_string();
    assert!(!notices.contains("words and meaning alone"), "the reranker judges: {notices}");

    let page = riddle.run(&args).ok();
    let answer = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "by Ada Thorne [1]. The hull was",
        "painted in 1987 [1]. (not in the files) Rye",
        "It flies. (not in the files)",
    ] {
        assert!(answer.contains(said), "{said:?} is not in\n{page}");
    }
    let below = page.split("not in the files: “").count() - 1;
    assert_eq!(below, 3, "each is listed below the answer: {page}");
}

#[test]
fn without_the_reranker_words_and_meaning_judge_and_that_is_said() {
    let (riddle, url) = (indexed(), model());
    let args = ["ask", QUESTION, "--llm", "remote", "--llm-url", &url, "--llm-model", "small"];
    let response = riddle.json(&[&args[..], &["--no-rerank"]].concat());
    let verdicts = verdicts(&response);
    assert_eq!((verdicts.len(), verdicts[2]), (5, "unsupported"), "{response:#}");
    let notices = response["notices"].to_string();
    assert!(notices.contains("words and meaning alone: no reranker is chosen"), "{notices}");
    // Quotations need no judge, and nothing is said of one.
    let response = riddle.json(&["ask", QUESTION, "--no-rerank"]);
    assert!(!response["notices"].to_string().contains("words and meaning alone"), "{response:#}");
    assert!(self::verdicts(&response).iter().all(|it| *it == "supported"), "{response:#}");
}

#[test]
fn no_evidence_is_no_sentence_and_no_verdict() {
    let (riddle, url) = (indexed(), model());
    let args = ["--llm", "remote", "--llm-url", &url, "--llm-model", "small"];
    let question = ["ask", "Who won the chess olympiad in Reykjavik?"];
    let response = riddle.json(&[&question[..], &args].concat());
    assert!(response["answer"].is_null() && verdicts(&response).is_empty(), "{response:#}");
    let page = riddle.run(&[&question[..], &args].concat()).ok();
    assert!(page.starts_with("nothing in your files answers this"), "{page}");
}

/// Two articles of three paragraphs, with questions in the format of SQuAD.
fn labelled() -> TempDir {
    let dir = TempDir::new().expect("a temporary folder");
    let (mut corpus, mut articles) = (String::new(), Vec::new());
    // Titles of either half: the digest decides.
    for (n, title) in
        ["Anchor", "Bakery", "Candle", "Dragon", "Engine", "Falcon"].iter().enumerate()
    {
        let mut paragraphs = Vec::new();
        for (at, name) in ["Ada Thorne", "Ben Mill", "Cleo Park"].iter().enumerate() {
            let year = 1900 + 10 * n + at;
            let text = format!(
                "In {year}, the {title} of town number {at} was built (in stone) by {name}. It stood near the river."
            );
            corpus.push_str(&format!(
                "{}\n",
                json!({"_id": format!("p{n}_{at}"), "title": title, "text": text})
            ));
            let asked = |id: &str, question: String, answer: &str| {
                json!({
                    "id": format!("{n}{at}{id}"), "question": question,
                    "answers": [{ "text": answer, "answer_start": text.find(answer).expect("there") }],
                })
            };
            paragraphs.push(json!({ "context": text, "qas": [
                asked("a", format!("When was the {title} of town number {at} built?"), &year.to_string()),
                asked("b", format!("Who was the builder of the {title} of town number {at}?"), name),
                { "id": format!("{n}{at}c"), "question": format!("Who was the painter of the {title}?"),
                  "answers": [], "is_impossible": true, "plausible_answers": [{ "text": name, "answer_start": 0 }] },
            ]}));
        }
        articles.push(json!({ "title": title, "paragraphs": paragraphs }));
    }
    write(dir.path(), "corpus.jsonl", corpus);
    write(dir.path(), "queries.jsonl", "{\"_id\": \"q\", \"text\": \"anchor\"}\n");
    write(dir.path(), "qrels/test.tsv", "query-id\tcorpus-id\tscore\nq\tp0_0\t1\n");
    write(dir.path(), "squad.json", json!({ "data": articles }).to_string());
    dir
}

#[test]
fn labelled_claims_are_made_and_judged() {
    let (riddle, dir) = (Riddle::new(), labelled());
    let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    let (folder, answers, pairs) = (path(""), path("squad.json"), path("pairs.jsonl"));
    let args = ["eval", "claims", &folder, "--answers", &answers, "--save-pairs", &pairs];
    let report = riddle.json(&args);
    assert_eq!(report["split"], "held_out", "{report:#}");
    for kind in
        ["answer", "reworded", "other_paragraph", "retrieved", "wrong_elsewhere", "unanswerable"]
    {
        let of = &report["kinds"][kind];
        assert!(of["pairs"].as_u64() > Some(0), "{kind}: {report:#}");
        let share = |it: &str| of[it].as_f64().expect("a share");
        let all = share("supported") + share("weak") + share("unsupported");
        assert!((all - 1.0).abs() < 1e-6, "{kind}: {report:#}");
    }
    for measure in ["precision", "recall", "f1"] {
        assert!(report["told"][measure].as_f64().is_some(), "{measure}: {report:#}");
    }
    // A number that is nowhere in what is cited is never supported.
    let kept = std::fs::read_to_string(&pairs).expect("written");
    let rows: Vec<Value> = kept.lines().map(|it| serde_json::from_str(it).expect("JSON")).collect();
    let total: u64 = report["kinds"]
        .as_object()
        .expect("kinds")
        .values()
        .filter_map(|it| it["pairs"].as_u64())
        .sum();
    assert_eq!(rows.len() as u64, total);
    assert!(rows.iter().all(|it| it["features"].is_object() && it["verdict"].is_string()));
    let page = riddle.run(&args).ok();
    assert!(page.contains("wrong_elsewhere") && page.contains("F1"), "{page}");

    // The same ones without a number are asked of the passages that are found for their question.
    let uncited = riddle.json(&[&args[..], &["--uncited"]].concat());
    assert_eq!(uncited["uncited"], true, "{uncited:#}");
    assert!(uncited["kinds"]["other_paragraph"].is_null(), "{uncited:#}");
    assert!(uncited["kinds"]["retrieved"]["pairs"].as_u64() > Some(0), "{uncited:#}");
    let kept = std::fs::read_to_string(&pairs).expect("written");
    let rows = kept.lines().map(|it| serde_json::from_str::<Value>(it).expect("JSON"));
    let own: Vec<Value> = rows.filter(|it| it["kind"] == "reworded").collect();
    // A paragraph's sentence in other words is held against that paragraph, which nobody named.
    assert!(!own.is_empty() && own.iter().all(|it| it["verdict"] == "supported"), "{own:#?}");

    let fitted = riddle.json(&[&args[..5], &["--fit"]].concat());
    assert_eq!(fitted["split"], "calibration", "{fitted:#}");
    assert!(fitted["fitted"]["weights"].is_object(), "{fitted:#}");
    let line =
        riddle.run(&["eval", "claims", &folder, "--answers", &path("corpus.jsonl")]).failed(1);
    assert!(line.contains("SQuAD"), "{line}");
}
