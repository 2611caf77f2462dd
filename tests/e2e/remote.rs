//! Answers by a model behind an endpoint.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};

use riddle_tests::Riddle;
use serde_json::Value;

/// An endpoint on this machine that always says the same, and keeps the bodies of its requests.
struct Endpoint {
    url: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Endpoint {
    fn saying(pieces: &'static [&'static str]) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
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
                let mut body = vec![0; length];
                reader.read_exact(&mut body).expect("a body");
                let body = serde_json::from_slice(&body).expect("JSON");
                kept.lock().expect("not poisoned").push(body);
                let mut answer =
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
                        .to_owned();
                for piece in pieces {
                    let chunk =
                        serde_json::json!({ "choices": [{ "delta": { "content": piece } }] });
                    answer.push_str(&format!("data: {chunk}\n\n"));
                }
                answer.push_str("data: [DONE]\n\n");
                // Whoever was asked may have gone.
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Endpoint { url, asked }
    }

    fn args<'a>(&'a self, question: &'a str) -> Vec<&'a str> {
        vec!["ask", question, "--llm", "remote", "--llm-url", &self.url, "--llm-model", "small"]
    }

    fn asked(&self) -> Vec<Value> {
        self.asked.lock().expect("not poisoned").clone()
    }
}

fn indexed() -> Riddle {
    let riddle = Riddle::new();
    let files = tempfile::TempDir::new().expect("a temporary folder");
    riddle_tests::write(
        files.path(),
        "boat.md",
        "# Marlin\n\nThe hull of the Marlin is painted blue.\n",
    );
    riddle_tests::write(files.path(), "bread.md", "# Rye\n\nRye bread needs a day.\n");
    riddle.index(files.path());
    riddle
}

const QUESTION: &str = "How is the hull of the Marlin painted?";

#[test]
fn an_endpoint_answers_from_numbered_passages_and_its_numbers_are_checked() {
    let riddle = indexed();
    let endpoint =
        Endpoint::saying(&["<think>hm", "m</think>The hull is ", "blue [1].", " It flies [99]."]);
    let response = riddle.json(&endpoint.args(QUESTION));
    assert_eq!(response["answer"], "The hull is blue [1]. It flies.", "{response:#}");
    assert_eq!(response["llm"], "remote:small");
    assert_eq!(response["citations"].as_array().map(Vec::len), Some(1), "{response:#}");
    // What nobody cites is not supported.
    let last = response["supported"].as_array().and_then(|it| it.last()).expect("sentences");
    assert_eq!((&last["citation"], &last["score"]), (&Value::Null, &0.0.into()), "{response:#}");
    let asked = &endpoint.asked()[0];
    let user = asked["messages"][1]["content"].as_str().expect("a text");
    assert!(user.contains("[1] ") && user.ends_with(&format!("Question: {QUESTION}")), "{user}");
    assert!(response["prompt"].as_str().is_some_and(|it| it.ends_with(user)), "{response:#}");

    let page = riddle.run(&endpoint.args(QUESTION)).ok();
    assert!(page.starts_with("The hull is blue [1]."), "{page}");
    for words in ["written by remote:small", "not in the files: “It flies.”"] {
        assert!(page.contains(words), "{words:?} is not in\n{page}");
    }
}

#[test]
fn no_evidence_sends_nothing_and_no_answer_is_said_honestly() {
    let riddle = indexed();
    let endpoint = Endpoint::saying(&["NO ", "ANSWER"]);
    let response = riddle.json(&endpoint.args("Who won the chess olympiad in Reykjavik?"));
    assert!(response["answer"].is_null() && endpoint.asked().is_empty(), "{response:#}");
    let response = riddle.json(&endpoint.args(QUESTION));
    assert!(response["answer"].is_null(), "{response:#}");
    assert!(response["reason"].as_str().is_some_and(|it| it.contains("the model found")));
    let page = riddle.run(&endpoint.args(QUESTION)).ok();
    assert!(!page.contains("NO ANSWER"), "{page}");
}

#[test]
fn endpoints_elsewhere_are_sent_nothing_before_they_are_allowed() {
    let riddle = indexed();
    let line = riddle.run(&["ask", QUESTION, "--llm", "remote"]).failed(1);
    assert!(line.contains("RIDDLE_LLM_URL"), "{line}");
    let far = "https://far.test/v1";
    let args = ["ask", QUESTION, "--llm", "remote", "--llm-url", far, "--llm-model", "small"];
    let line = riddle.run(&args).failed(1);
    assert!(line.contains("--allow-endpoint") && line.contains("https://far.test:443"), "{line}");
    // Allowed, and still the network is switched off.
    let allow = [&args[..], &["--allow-endpoint"]].concat();
    let outcome = riddle.run(&allow);
    assert!(outcome.stderr.contains("may be sent"), "{outcome:#?}");
    assert!(outcome.stderr.contains("the network is switched off"), "{outcome:#?}");
    let line = riddle.run(&args).failed(1);
    assert!(line.contains("the network is switched off"), "it is remembered: {line}");
    let nobody =
        ["ask", QUESTION, "--llm", "remote", "--llm-url", "http://127.0.0.1:9", "--llm-model", "m"];
    let line = riddle.run(&nobody).failed(1);
    assert!(line.contains("is the server running"), "{line}");
}
