//! Servers that rerank in the place of this machine.

use std::{io::Write as _, net::TcpStream};

use riddle_tests::{Outcome, Riddle, Running, notes, tiny_model, write};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    doors::Served,
    remote::{Endpoint, with_a_marked_folder},
};

const QUERY: &str = "Which color has the hull of the Marlin?";

/// A home with enough to rank, found by meaning too.
fn library() -> (Riddle, TempDir) {
    let (riddle, files) = (Riddle::new(), TempDir::new().expect("a temporary folder"));
    notes(files.path(), 8);
    for (name, text) in [
        ("boat.md", "# Marlin\n\nThe hull of the Marlin is painted blue.\n"),
        ("price.md", "# Paint\n\nA can of paint for a hull costs 31 euros.\n"),
        ("color.md", "# Colors\n\nThe color of the Marlin was chosen by Mira.\n"),
        ("bread.md", "# Rye\n\nRye bread needs a day. Its color is brown.\n"),
    ] {
        write(files.path(), name, text);
    }
    let encoder = tiny_model("tiny-bert-encoder");
    let named = ["--name", "all-MiniLM-L6-v2"];
    riddle.run(&[&["models", "import", &*encoder.to_string_lossy()][..], &named].concat()).ok();
    riddle.index(files.path());
    (riddle, files)
}

/// Paths of the hits, best first, and their scores.
fn order(response: &Value) -> Vec<(String, f64)> {
    let hits = response["hits"].as_array().expect("hits").iter();
    let of = |it: &Value| {
        let place = format!("{} {}", it["path"], it["location"]);
        (place, it["score"].as_f64().expect("a score"))
    };
    hits.map(of).collect()
}

fn places(response: &Value) -> Vec<String> {
    order(response).into_iter().map(|it| it.0).collect()
}

fn notices(response: &Value) -> String {
    response["notices"].to_string()
}

fn with_key(riddle: &Riddle, key: &str, args: &[&str]) -> Outcome {
    let mut command = riddle.command(args);
    command.env("RIDDLE_RERANK_KEY", key);
    Running::start(command).wait()
}

/// Ranks the longest passage first, as a server of this kind says it.
fn ranks(mut stream: TcpStream, body: &Value) {
    let result = |(at, it): (usize, &Value)| {
        let length = it.as_str().map_or(0, str::len);
        json!({"index": at, "relevance_score": length})
    };
    let documents = body["documents"].as_array().expect("documents").iter().enumerate();
    let results: Vec<Value> = documents.map(result).collect();
    let body = json!({"model": "longest", "results": results}).to_string();
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    // Whoever asked may have gone.
    let _ = stream.write_all((head + &body).as_bytes());
}

/// Address of one that ranks.
fn address(endpoint: &Endpoint) -> String {
    format!("{}/rerank", endpoint.url)
}

/// What answers under the name of the bundled reranker is added to what is known of the passages, as it is here.
#[test]
fn a_served_home_ranks_as_this_one_does_and_where_it_is_gone_this_one_does() {
    let (riddle, _files) = library();
    let here = riddle.json(&["search", QUERY, "--mode", "off"]);
    assert_eq!(here["order"], json!({"by": "reranked", "model": "riddle-reranker"}));
    let served = Served::start(&[]);
    for path in ["/v1/rerank", "/rerank", ""] {
        let url = format!("http://127.0.0.1:{}{path}", served.port);
        let args = ["search", QUERY, "--model", &url, "--json"];
        let there = with_key(&riddle, &served.token, &args).json();
        let (ours, theirs) = (order(&here), order(&there));
        assert_eq!(places(&here), places(&there), "{there:#}");
        for ((place, ours), (_, theirs)) in ours.iter().zip(&theirs) {
            assert!((ours - theirs).abs() < 1e-3, "{place}: {ours} {theirs}");
        }
        assert_eq!(
            there["order"]["model"],
            format!("riddle-reranker at http://127.0.0.1:{}", served.port)
        );
        let remote = &there["remote"];
        assert_eq!((&remote["calls"], &remote["tries"]), (&1.into(), &1.into()), "{there:#}");
        assert!(remote["ms"].as_f64() > Some(0.0) && remote["sent_bytes"].as_u64() > Some(100));
        assert!(there["timings_ms"]["rerank_remote"].as_f64() > Some(0.0), "{there:#}");
        assert_eq!(there["timings_ms"]["rerank"], 0.0, "{there:#}");
    }
    let url = format!("http://127.0.0.1:{}/v1/rerank", served.port);
    let page = with_key(&riddle, &served.token, &["search", QUERY, "--model", &url]).ok();
    assert!(page.contains("order: reranked by riddle-reranker at http://127.0.0.1:"), "{page}");
    assert!(page.contains("remote: ") && page.contains(" passages, "), "{page}");
    // Without the key it is not let in, and this machine ranks.
    let refused = riddle.json(&["search", QUERY, "--model", &url]);
    assert_eq!(places(&refused), places(&here));
    assert!(notices(&refused).contains("RIDDLE_RERANK_KEY"), "{refused:#}");

    // Chosen for all searches, then gone.
    let said = with_key(&riddle, &served.token, &["models", "use", &url]).ok();
    assert!(said.contains("and by riddle-reranker where it is not"), "{said}");
    assert!(said.contains("it answers: riddle-reranker at "), "{said}");
    assert_eq!(riddle.json(&["status"])["reranker"], url.as_str());
    served.stop();
    let gone = with_key(&riddle, "key", &["search", QUERY, "--json"]).json();
    assert_eq!(places(&gone), places(&here));
    assert_eq!(gone["order"]["model"], "riddle-reranker");
    assert!(
        notices(&gone).contains("has not ranked: ")
            && notices(&gone).contains("is the server running"),
        "{gone:#}"
    );
    assert_eq!(gone["remote"], Value::Null);
    let again = riddle.run(&["models", "use", &url]).ok();
    assert!(again.contains("it does not answer now: "), "{again}");
    riddle.run(&["models", "use", "riddle-reranker"]).ok();
    assert_eq!(notices(&riddle.json(&["search", QUERY])), "[]");
}

#[test]
fn another_machine_is_sent_nothing_before_it_is_allowed() {
    let (riddle, _files) = library();
    let far = "http://far.test:8080/rerank";
    for args in [vec!["search", QUERY, "--model", far], vec!["models", "use", far]] {
        let line = riddle.run(&args).failed(1);
        for words in ["http://far.test:8080", "would be sent", "--allow-endpoint"] {
            assert!(line.contains(words), "{words:?} is not in {line}");
        }
    }
    // Allowed, and still the network is switched off.
    let said = riddle.run(&["models", "use", far, "--allow-endpoint"]);
    assert!(said.stderr.contains("may be sent"), "{said:#?}");
    assert!(said.ok().contains("it does not answer now: "));
    let found = riddle.json(&["search", QUERY]);
    assert_eq!(found["order"]["model"], "riddle-reranker");
    assert!(notices(&found).contains("the network is switched off"), "{found:#}");
    let line = riddle.run(&["search", QUERY, "--model", far]).failed(1);
    assert!(line.contains("the network is switched off"), "{line}");
    // What no server can do is said.
    let line = riddle
        .run(&["rerank", "--model", "http://localhost:9/rerank", "--memory-budget", "1GiB"])
        .failed(1);
    assert!(line.contains("on this machine"), "{line}");
    let line = riddle.run(&["models", "shard", far]).failed(1);
    assert!(line.contains("is a server"), "{line}");
    let line =
        riddle.run(&["search", QUERY, "--model", "riddle-reranker", "--allow-endpoint"]).failed(2);
    assert!(line.contains("--allow-endpoint"), "{line}");
}

#[test]
fn passages_that_never_leave_this_machine_keep_all_of_them_here() {
    let (riddle, files) = with_a_marked_folder();
    let endpoint = Endpoint::doing(ranks);
    let far = "http://far.test:8080/v1/rerank#m";
    let search = ["search", "hull of the Marlin", "--json"];
    endpoint.run_through(&riddle, &["models", "use", far, "--allow-endpoint"], &[]).ok();
    assert_eq!(endpoint.through(), ["far.test:8080"], "it was tried, with nothing of the person's");
    assert!(!endpoint.received().contains("Marlin"));
    let before = endpoint.asked().len();
    let found = endpoint.run_through(&riddle, &search, &[]).json();
    assert_eq!(endpoint.asked().len(), before, "nothing was sent");
    assert!(!endpoint.received().contains("9310") && !endpoint.received().contains("Marlin"));
    assert_eq!(
        (&found["order"]["model"], &found["remote"]),
        (&"riddle-reranker".into(), &Value::Null)
    );
    assert!(
        notices(&found).contains("1 of the passages lie in folders that never leave"),
        "{found:#}"
    );
    // Where none of them is found it is asked, and its word holds.
    let marked = files.path().join("boat/accounts");
    riddle.run(&["folders", "release", marked.to_str().expect("UTF-8")]).ok();
    let found = endpoint.run_through(&riddle, &search, &[]).json();
    assert_eq!(found["order"]["model"], "m at http://far.test:8080", "{found:#}");
    assert_eq!(endpoint.asked().last().expect("asked")["model"], "m");
    assert!(
        found["hits"][0]["path"].as_str().is_some_and(|it| it.ends_with("price.md")),
        "{found:#}"
    );
    // A server on this machine is given everything.
    riddle.run(&["folders", "confine", marked.to_str().expect("UTF-8")]).ok();
    let near = Endpoint::doing(ranks);
    let found = riddle.json(&["search", "hull of the Marlin", "--model", &address(&near)]);
    assert!(near.received().contains("9310"), "{found:#}");
    assert_eq!(
        found["order"]["model"].as_str().map(|it| it.starts_with("longest at ")),
        Some(true)
    );
}

#[test]
fn what_a_server_can_not_follow_is_said_and_texts_alone_are_ranked() {
    let (riddle, _files) = library();
    let endpoint = Endpoint::doing(ranks);
    let url = address(&endpoint);
    let found =
        riddle.json(&["search", QUERY, "--model", &url, "--mode", "set", "--threshold", "0.2"]);
    assert!(notices(&found).contains("knows neither pruning nor limits"), "{found:#}");
    assert!(found["remote"]["ms"].is_number(), "{found:#}");
    // A deadline is the server's time; what follows has what is left of it.
    let slow = Endpoint::doing(|stream, _| {
        std::thread::sleep(std::time::Duration::from_secs(5));
        drop(stream);
    });
    let found = riddle.json(&["search", QUERY, "--model", &address(&slow), "--deadline", "100ms"]);
    assert!(notices(&found).contains("has not ranked: "), "{found:#}");
    assert_eq!(found["deadline"]["target_ms"], 100.0, "{found:#}");
    // The engine's own command says what the server says, and nobody ranks in its place.
    let request = riddle.home().join("request.json");
    write(
        riddle.home(),
        "request.json",
        r#"{"query": "q", "documents": ["a", {"id": 7, "text": "abc"}], "top_n": 1}"#,
    );
    let request = request.to_str().expect("UTF-8");
    let ranked = riddle.run(&["rerank", "--model", &url, request]).json();
    assert_eq!(
        (&ranked["results"][0]["index"], &ranked["results"][0]["id"]),
        (&1.into(), &7.into())
    );
    assert_eq!(ranked["remote"]["texts"], 2, "{ranked:#}");
    let line = riddle.run(&["rerank", "--model", "http://127.0.0.1:9/rerank", request]).failed(1);
    assert!(line.contains("is the server running"), "{line}");
    let line = riddle.run(&["rerank", "--model", &url, "--trace", "t.json", request]).failed(2);
    assert!(line.contains("--trace"), "{line}");
}

/// Two homes that name each other would ask each other for ever.
#[test]
fn what_others_have_ranked_is_ranked_here() {
    let served = Served::start(&[]);
    let endpoint = Endpoint::doing(ranks);
    served.riddle.run(&["models", "use", &address(&endpoint)]).ok();
    let before = endpoint.asked().len();
    let body = json!({"query": "Which color?", "documents": ["The hull is blue.", "Rye."]});
    let ranked = served.post("/v1/rerank", &body).json(200);
    assert_eq!((&ranked["model"], endpoint.asked().len()), (&"riddle-reranker".into(), before));
    let found = served.post("/api/search", &json!({"query": "hull", "rerank": true})).json(200);
    assert!(found["passages"].as_array().is_some_and(|it| !it.is_empty()), "{found:#}");
    assert_eq!(endpoint.asked().len(), before + 1, "a search of its own home asks the server");
    assert!(!endpoint.received().contains("wisdom tooth"));
}
