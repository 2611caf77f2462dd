//! Servers that rank, in every shape, and one that does everything wrong, one thing at a time.

mod server;

use std::{
    io::Write as _,
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use proptest::prelude::*;
use riddle_llm::{Endpoint, Error, Lie, RemoteReranker, Scored, StageOptions};
use riddle_types::{Advice, Advised as _};
use serde_json::{Value, json};
use server::{Deed, Server, says};

fn ranker(server: &Server, path: &str, options: StageOptions) -> RemoteReranker {
    let endpoint = Endpoint::reranker(&format!("{}{path}", server.address)).expect("an address");
    RemoteReranker::new(endpoint, options).expect("a reranker")
}

/// A text's score is the number in it.
fn score(text: &Value) -> f64 {
    text.as_str().and_then(|it| it.parse().ok()).expect("a number")
}

/// As Cohere, Jina, vLLM and this program do: the best first, and only `documents`.
fn ranks() -> Deed {
    Box::new(|stream, body| {
        let Some(documents) = body["documents"].as_array() else {
            return says(stream, "422 Unprocessable", "", "{\"detail\":\"documents is missing\"}");
        };
        let mut results: Vec<Value> = documents
            .iter()
            .enumerate()
            .map(|(at, it)| json!({"index": at, "relevance_score": score(it)}))
            .collect();
        let of = |it: &Value| it["relevance_score"].as_f64().expect("a number");
        results.sort_by(|a, b| of(b).total_cmp(&of(a)));
        says(stream, "200 OK", "", &json!({"model": "fake", "results": results}).to_string());
    })
}

/// As text-embeddings-inference does: `texts` alone, and a bare list.
fn ranks_texts() -> Deed {
    Box::new(|stream, body| {
        let Some(texts) = body["texts"].as_array() else {
            let refusal = "{\"error\":\"missing field `texts`\",\"error_type\":\"Validation\"}";
            return says(stream, "422 Unprocessable", "", refusal);
        };
        let list: Vec<Value> = texts
            .iter()
            .enumerate()
            .map(|(at, it)| json!({"index": at, "score": score(it)}))
            .collect();
        says(stream, "200 OK", "", &json!(list).to_string());
    })
}

fn refuses(status: &'static str, head: &'static str, body: &'static str) -> Deed {
    Box::new(move |stream, _| says(stream, status, head, body))
}

fn answers(body: impl Into<String>) -> Deed {
    let body = body.into();
    Box::new(move |stream, _| says(stream, "200 OK", "", &body))
}

fn quick() -> StageOptions {
    StageOptions {
        budget: Duration::from_secs(5),
        pause: Duration::from_millis(1),
        ..StageOptions::default()
    }
}

fn texts(numbers: &[f64]) -> Vec<String> {
    numbers.iter().map(f64::to_string).collect()
}

fn asked(reranker: &RemoteReranker, numbers: &[f64]) -> Result<Scored, Error> {
    reranker.score("Which?", texts(numbers), None, None)
}

#[test]
fn every_shape_is_asked_as_it_wants_to_be() {
    let server = Server::doing(vec![ranks()]);
    let options = StageOptions { model: Some("bge".to_owned()), ..quick() };
    let scored = asked(&ranker(&server, "/v1", options), &[-3.0, 4.0, 0.5]).expect("ranked");
    assert_eq!((scored.logits, scored.model.as_deref()), (vec![-3.0, 4.0, 0.5], Some("fake")));
    let (head, body) = &server.asked()[0];
    assert!(head.starts_with("POST /v1/rerank HTTP/1.1"), "{head}");
    assert_eq!(
        *body,
        json!({"model": "bge", "query": "Which?", "documents": ["-3", "4", "0.5"], "top_n": 3})
    );

    // Without a version in its address it may be one that calls them texts: that is found out once.
    let server = Server::doing(vec![ranks_texts()]);
    let reranker = ranker(&server, "", quick());
    for _ in 0..2 {
        let scored = asked(&reranker, &[-3.0, 4.0]).expect("ranked");
        assert_eq!((scored.logits, scored.model), (vec![-3.0, 4.0], None));
    }
    let bodies: Vec<bool> = server.asked().iter().map(|it| it.1["texts"].is_array()).collect();
    assert_eq!(bodies, [false, true, true]);
    // With one it is not tried, and the refusal is the server's own.
    let error = asked(&ranker(&server, "/v1", quick()), &[1.0]).expect_err("it does not take it");
    assert!(matches!(&error, Error::Refused { status: 422, .. }), "{error}");
    assert!(error.to_string().contains("missing field"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// However many texts go at a time, each has the score that it would have alone.
    #[test]
    fn the_order_does_not_depend_on_the_batches(
        numbers in proptest::collection::vec(-8.0_f64..8.0, 1..30),
        squeeze in any::<bool>(),
        batch_texts in 1_usize..12,
        batch_bytes in 1_usize..200,
    ) {
        // All of them probabilities, or not.
        let numbers: Vec<f64> = if squeeze {
            numbers.iter().map(|it| 1.0 / (1.0 + (-it).exp())).collect()
        } else {
            numbers
        };
        let server = Server::doing(vec![ranks()]);
        let whole = asked(&ranker(&server, "", StageOptions { batch_texts: 99, batch_bytes: 9999, ..quick() }), &numbers);
        let parts = asked(&ranker(&server, "", StageOptions { batch_texts, batch_bytes, ..quick() }), &numbers);
        let (whole, parts) = (whole.expect("ranked"), parts.expect("ranked"));
        prop_assert_eq!(whole.cost.calls, 1);
        prop_assert!(parts.cost.calls as usize >= numbers.len().div_ceil(batch_texts));
        prop_assert_eq!(whole.logits, parts.logits);
    }
}

#[test]
fn a_batch_that_is_too_large_goes_in_halves() {
    let small = Box::new(|stream: TcpStream, body: &Value| {
        if body["documents"].as_array().is_some_and(|it| it.len() > 2) {
            return says(stream, "413 Too Large", "", "{\"error\":\"batch\"}");
        }
        ranks()(stream, body);
    });
    let server = Server::doing(vec![small]);
    let numbers: Vec<f64> = (0..7).map(f64::from).collect();
    let scored = asked(&ranker(&server, "/v1", quick()), &numbers).expect("ranked");
    assert_eq!(scored.logits, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn what_passes_is_tried_again_and_pauses_are_kept() {
    let hangs_up: Deed = Box::new(|stream, _| drop(stream));
    let busy = refuses("429 Too Many", "retry-after: 1\r\n", "{\"error\":\"busy\"}");
    let server = Server::doing(vec![hangs_up, busy, ranks()]);
    let started = Instant::now();
    let scored = asked(&ranker(&server, "/v1", quick()), &[2.0]).expect("at the third try");
    assert!(started.elapsed() >= Duration::from_secs(1), "it has asked for a second");
    assert_eq!((scored.cost.tries, scored.cost.calls, scored.logits), (3, 1, vec![2.0]));
    // A pause that is longer than there is time is not begun.
    let busy = refuses("503 Unavailable", "retry-after: 60\r\n", "{\"error\":\"loading\"}");
    let server = Server::doing(vec![busy]);
    let error = asked(&ranker(&server, "/v1", quick()), &[2.0]).expect_err("busy");
    assert!(error.to_string().contains("loading"), "{error}");
    assert_eq!(server.asked().len(), 1);
    // What is refused for good is not tried again.
    let server = Server::doing(vec![refuses("401 No", "", "{\"error\":\"no key\"}")]);
    let error = asked(&ranker(&server, "/v1", quick()), &[2.0]).expect_err("refused");
    assert_eq!((error.advice(), server.asked().len()), (Some(Advice::GiveServerKey), 1));
}

#[test]
fn an_answer_that_is_none_is_called_what_it_is() {
    let whole = "{\"results\":[{\"index\":0,\"relevance_score\":1}]}";
    let lie = |body: String| {
        let server = Server::doing(vec![answers(body)]);
        match asked(&ranker(&server, "/v1", quick()), &[2.0]) {
            Err(Error::Answer { lie, .. }) => lie,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(lie(whole[..30].to_owned()), Lie::CutOff);
    let page = "<!doctype html><title>Sign in</title>";
    assert!(matches!(lie(page.to_owned()), Lie::NotJson { begins } if begins == page));
    assert_eq!(lie("{\"results\":[]}".to_owned()), Lie::Count { given: 0, wanted: 1 });
    assert_eq!(lie(whole.replace(":0,", ":9,")), Lie::Index { index: 9, wanted: 1 });
    assert_eq!(lie(whole.replace(":1}", ":\"x\"}")), Lie::NotFinite { index: 0 });
    // A body without end is not read to its end.
    let endless: Deed = Box::new(|mut stream, _| {
        let block = vec![b' '; 1 << 16];
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n");
        while stream.write_all(&block).is_ok() {}
    });
    let server = Server::doing(vec![endless]);
    let error = asked(&ranker(&server, "/v1", quick()), &[2.0]).expect_err("endless");
    assert!(matches!(error, Error::Answer { lie: Lie::TooLarge { .. }, .. }), "{error}");
    // A connection that ends in the middle is one that may be tried again.
    let breaks: Deed = Box::new(|mut stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{\"res");
    });
    let server = Server::doing(vec![breaks, ranks()]);
    assert_eq!(asked(&ranker(&server, "/v1", quick()), &[2.0]).expect("again").logits, [2.0]);
    // Where it sends one to is not where anybody has agreed to.
    let away = refuses("302 Found", "location: http://far.test/rerank\r\n", "");
    let server = Server::doing(vec![away]);
    let error = asked(&ranker(&server, "/v1", quick()), &[2.0]).expect_err("redirected");
    assert!(error.to_string().contains("redirects"), "{error}");
}

#[test]
fn a_server_that_says_nothing_costs_its_budget_and_no_more() {
    let silent: Deed = Box::new(|stream, _| {
        thread::spawn(move || {
            thread::sleep(Duration::from_secs(60));
            drop(stream);
        });
    });
    let server = Server::doing(vec![silent]);
    let reranker = ranker(&server, "/v1", quick());
    let started = Instant::now();
    let within = Some(Duration::from_millis(150));
    let error = reranker.score("Which?", texts(&[1.0]), within, None).expect_err("late");
    assert!(matches!(error, Error::Late { .. } | Error::Silent { .. }), "{error}");
    assert!(started.elapsed() < Duration::from_secs(4), "less than the budget of the options");
    // Whoever asked may go at any moment.
    let stop = Arc::new(AtomicBool::new(false));
    let stopper = Arc::clone(&stop);
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        stopper.store(true, Ordering::Release);
    });
    let error = reranker.score("Which?", texts(&[1.0]), None, Some(&stop)).expect_err("stopped");
    assert!(matches!(error, Error::Stopped), "{error}");
}

#[test]
fn a_server_that_fails_again_and_again_is_left_alone_for_a_while() {
    let fails = || refuses("501 Not Implemented", "", "{\"error\":\"no\"}");
    let server = Server::doing(vec![fails(), fails(), ranks()]);
    let options = StageOptions { failures: 2, rest: Duration::from_millis(300), ..quick() };
    let reranker = ranker(&server, "/v1", options);
    for _ in 0..2 {
        assert!(matches!(asked(&reranker, &[1.0]), Err(Error::Refused { status: 501, .. })));
    }
    let error = asked(&reranker, &[1.0]).expect_err("it rests");
    assert!(matches!(error, Error::Resting { failures: 2, .. }), "{error}");
    assert_eq!(server.asked().len(), 2, "it was not asked");
    thread::sleep(Duration::from_millis(350));
    assert_eq!(asked(&reranker, &[2.0]).expect("well again").logits, [2.0]);
}

#[test]
fn keys_and_passages_go_where_they_may() {
    let server = Server::doing(vec![ranks()]);
    let options = StageOptions { key: Some("secret".to_owned()), ..quick() };
    assert!(!format!("{options:?}").contains("secret"));
    asked(&ranker(&server, "/v1", options.clone()), &[2.0]).expect("ranked");
    assert!(server.asked()[0].0.to_lowercase().contains("authorization: bearer secret"));
    let at = |address: &str| Endpoint::reranker(address).expect("an address");
    let open = RemoteReranker::new(at("http://far.test/rerank"), options);
    assert!(matches!(open, Err(Error::OpenKey { .. })));
    let offline = StageOptions { offline: true, ..quick() };
    let far = RemoteReranker::new(at("https://far.test/rerank"), offline.clone());
    assert!(matches!(far, Err(Error::Offline { .. })));
    assert!(RemoteReranker::new(at("http://localhost:1/rerank"), offline).is_ok());
    // Nobody is there.
    let nobody = RemoteReranker::new(at("http://127.0.0.1:9/rerank"), quick()).expect("local");
    assert!(matches!(asked(&nobody, &[2.0]), Err(Error::Unreachable { .. })));
}
