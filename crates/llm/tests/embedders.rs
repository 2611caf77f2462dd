//! Servers that embed, and one that does everything wrong, one thing at a time.

mod server;

use std::time::{Duration, Instant};

use proptest::prelude::*;
use riddle_llm::{Embeddings, Endpoint, Error, Lie, RemoteEmbedder, StageOptions};
use riddle_types::{Advice, Advised as _};
use serde_json::{Value, json};
use server::{Deed, Server, says};

fn embedder(server: &Server, options: StageOptions) -> RemoteEmbedder {
    let endpoint = Endpoint::embedder(&server.address).expect("an address");
    RemoteEmbedder::new(endpoint, options).expect("an embedder")
}

fn quick() -> StageOptions {
    StageOptions {
        model: Some("m".to_owned()),
        budget: Duration::from_secs(5),
        pause: Duration::from_millis(5),
        ..StageOptions::default()
    }
}

fn asked(embedder: &RemoteEmbedder, texts: &[&str]) -> Result<Embeddings, Error> {
    embedder.embed(texts.iter().map(|it| (*it).to_owned()).collect(), None, None, None)
}

/// The vector of a text: how long it is, and how its first byte is called.
fn vector(text: &str) -> [f32; 2] {
    [text.len() as f32 + 1.0, text.bytes().next().map_or(0.0, f32::from)]
}

fn near(made: &[f32], given: [f32; 2]) -> bool {
    let length = given.iter().map(|it| it * it).sum::<f32>().sqrt();
    made.iter().zip(given).all(|(made, given)| (made * length - given).abs() < 1e-2)
}

fn texts(body: &Value) -> Vec<String> {
    let input = body["input"].as_array().expect("texts").iter();
    input.map(|it| it.as_str().expect("a text").to_owned()).collect()
}

fn embeds() -> Deed {
    Box::new(|stream, body| {
        let one = |(index, it): (usize, String)| json!({"index": index, "embedding": vector(&it)});
        let data: Vec<Value> = texts(body).into_iter().enumerate().map(one).rev().collect();
        says(stream, "200 OK", "", &json!({"model": "fake", "data": data}).to_string());
    })
}

fn answers(status: &'static str, body: &'static str) -> Deed {
    Box::new(move |stream, _| says(stream, status, "", body))
}

#[test]
fn it_is_asked_as_the_protocol_says() {
    let server = Server::doing(vec![embeds()]);
    let options = StageOptions { key: Some("hunter2".to_owned()), ..quick() };
    let made = asked(&embedder(&server, options), &["a", "bcd"]).expect("embedded");
    assert!(near(&made.vectors[0], vector("a")) && near(&made.vectors[1], vector("bcd")));
    assert_eq!((made.model.as_deref(), made.cost.calls), (Some("fake"), 1));
    assert!(made.cost.ms > 0.0 && made.cost.sent_bytes > 20);
    let (head, body) = server.asked().remove(0);
    assert!(head.starts_with("POST /v1/embeddings HTTP/1.1"), "{head}");
    assert!(head.to_lowercase().contains("authorization: bearer hunter2"), "{head}");
    assert_eq!(body, json!({"model": "m", "input": ["a", "bcd"], "encoding_format": "float"}));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Whatever the batches here, and whatever the server takes at once.
    #[test]
    fn every_text_gets_its_vector_whatever_the_batches(
        all in prop::collection::vec("[a-z]{1,12}", 0..40),
        batch_texts in 1_usize..20,
        batch_bytes in 1_usize..80,
        takes in 1_usize..12,
    ) {
        let inner = embeds();
        let server = Server::doing(vec![Box::new(move |stream, body| {
            if texts(body).len() > takes {
                return says(stream, "413 Too Large", "", "{}");
            }
            inner(stream, body);
        })]);
        let options = StageOptions { batch_texts, batch_bytes, ..quick() };
        let refs: Vec<&str> = all.iter().map(String::as_str).collect();
        let made = asked(&embedder(&server, options), &refs).expect("embedded");
        prop_assert_eq!(made.vectors.len(), all.len());
        for (made, text) in made.vectors.iter().zip(&all) {
            prop_assert!(near(made, vector(text)), "{} {:?}", text, made);
        }
        for (_, body) in server.asked() {
            let sent = texts(&body);
            let bytes: usize = sent.iter().map(String::len).sum();
            prop_assert!(sent.len() <= batch_texts && (bytes <= batch_bytes || sent.len() == 1));
        }
    }
}

#[test]
fn what_is_too_long_is_cut_and_what_is_refused_for_something_else_is_not() {
    let inner = embeds();
    let server = Server::doing(vec![Box::new(move |stream, body| {
        if texts(body).iter().any(|it| it.len() > 700) {
            let refusal = "{\"error\": {\"message\": \"maximum context length is 100\"}}";
            return says(stream, "400 Bad Request", "", refusal);
        }
        inner(stream, body);
    })]);
    // A letter of two bytes is not cut in its middle.
    let long = format!("x{}", "ö".repeat(1000));
    let made = asked(&embedder(&server, quick()), &["short", &long]).expect("embedded");
    assert!(near(&made.vectors[1], vector(&long[..499])), "{:?}", made.vectors);
    let none = Server::doing(vec![answers("400 Bad Request", "{\"error\": \"no such model\"}")]);
    let error = asked(&embedder(&none, quick()), &[&long]).expect_err("refused");
    assert!(error.to_string().contains("no such model"), "{error}");
    assert_eq!(none.asked().len(), 4, "itself, and three cuts");
    assert!(asked(&embedder(&none, quick()), &["short"]).is_err());
    assert_eq!(none.asked().len(), 5);
}

#[test]
fn every_lie_has_its_error() {
    let of = |body: &'static str| {
        let server = Server::doing(vec![answers("200 OK", body)]);
        match asked(&embedder(&server, quick()), &["a", "b"]) {
            Err(Error::Answer { lie, .. }) => lie,
            other => panic!("{body}: {other:?}"),
        }
    };
    assert!(matches!(of("<html>no</html>"), Lie::NotJson { .. }));
    assert_eq!(of("{\"data\": [{\"index\": 0,"), Lie::CutOff);
    assert_eq!(of("{\"data\": []}"), Lie::Count { given: 0, wanted: 2 });
    assert_eq!(
        of("{\"data\": [{\"index\":0,\"embedding\":[1]},{\"index\":1,\"embedding\":[1,2]}]}"),
        Lie::Dimensions { index: 1, given: 2, wanted: 1 }
    );
    assert_eq!(
        of(
            "{\"data\": [{\"index\":0,\"embedding\":\"AA==\"},{\"index\":1,\"embedding\":\"AA==\"}]}"
        ),
        Lie::Packed
    );
    // A length that is known holds for every batch of every request.
    let server = Server::doing(vec![embeds()]);
    let short = embedder(&server, quick()).embed(vec!["a".to_owned()], Some(3), None, None);
    let lie = Lie::Dimensions { index: 0, given: 2, wanted: 3 };
    assert!(matches!(short, Err(Error::Answer { lie: it, .. }) if it == lie));
    // An endless answer is not read to its end, and a text has no more than its vector.
    let endless = Server::doing(vec![Box::new(|stream, _| {
        says(stream, "200 OK", "", &format!("{{\"data\": [{}", " ".repeat(4 << 20)));
    })]);
    let error = embedder(&endless, quick()).embed(vec!["a".to_owned()], Some(8), None, None);
    assert!(matches!(error, Err(Error::Answer { lie: Lie::TooLarge { .. }, .. })), "{error:?}");
}

#[test]
fn what_passes_is_tried_again_and_a_server_that_fails_is_left_alone() {
    let busy = || answers("503 Busy", "{\"error\": \"loading the model\"}");
    let server = Server::doing(vec![busy(), busy(), embeds()]);
    let made = asked(&embedder(&server, quick()), &["a"]).expect("at the third try");
    assert_eq!((made.cost.tries, made.cost.calls), (3, 1));

    let server = Server::doing(vec![answers("401 No", "{}")]);
    let embedder = embedder(&server, quick());
    for _ in 0..3 {
        let error = asked(&embedder, &["a"]).expect_err("refused");
        assert_eq!(error.advice(), Some(Advice::GiveServerKey));
    }
    assert!(matches!(asked(&embedder, &["a"]), Err(Error::Resting { failures: 3, .. })));
    assert_eq!(server.asked().len(), 3);
}

#[test]
fn nobody_waits_longer_than_for_the_budget_and_keys_go_where_they_may() {
    let server = Server::doing(vec![Box::new(|stream, _| {
        std::thread::sleep(Duration::from_secs(3));
        drop(stream);
    })]);
    let began = Instant::now();
    let within = Some(Duration::from_millis(200));
    let late = embedder(&server, quick()).embed(vec!["a".to_owned()], None, within, None);
    assert!(late.is_err() && began.elapsed() < Duration::from_secs(2), "{late:?}");
    let with = |address: &str, key: bool, offline: bool| {
        let endpoint = Endpoint::embedder(address).expect("an address");
        let key = key.then(|| "hunter2".to_owned());
        RemoteEmbedder::new(endpoint, StageOptions { key, offline, ..quick() })
    };
    assert!(matches!(with("http://far.test/v1", true, false), Err(Error::OpenKey { .. })));
    assert!(matches!(with("https://far.test/v1", true, true), Err(Error::Offline { .. })));
    assert!(with("http://127.0.0.1:1/v1", true, true).is_ok());
}
