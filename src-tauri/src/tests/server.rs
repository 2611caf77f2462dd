//! Servers: one that reranks, chosen, seen and held against the model of this computer, and one that embeds.

use std::io::{BufRead as _, BufReader};

use super::*;

/// Ranks the longest text first, and embeds every text as its length; how often it was asked is in what it received.
fn server() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1/rerank", listener.local_addr().expect("an address"));
    let (sender, asked) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a head");
                if let Some(it) = line.to_lowercase().strip_prefix("content-length:") {
                    length = it.trim().parse().expect("a length");
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let body: Value = serde_json::from_slice(&body).expect("JSON");
            let answer = said(&body).to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
            // Before it is answered: whoever has the answer may look at once. They may have gone, too.
            let _ = sender.send(body);
            let _ = stream.write_all((head + &answer).as_bytes());
        }
    });
    (url, asked)
}

fn said(body: &Value) -> Value {
    let length = |it: &Value| it.as_str().map_or(0, str::len);
    if let Some(texts) = body["input"].as_array() {
        let result =
            |(at, it): (usize, &Value)| json!({ "index": at, "embedding": [length(it), 30] });
        return json!({ "data": texts.iter().enumerate().map(result).collect::<Vec<_>>() });
    }
    let result = |(at, it): (usize, &Value)| json!({ "index": at, "relevance_score": length(it) });
    let texts = body["documents"].as_array().expect("documents").iter().enumerate();
    json!({ "results": texts.map(result).collect::<Vec<_>>() })
}

#[test]
fn a_server_embeds_once_it_may_and_its_time_is_shown_apart() {
    let desk = Desk::with(&[
        ("a.md", "The winter mooring starts in November.\n"),
        ("secret/b.md", "The pin of the vault is 9310.\n"),
    ]);
    let use_it = |name: &str, allow: bool| {
        let asked = json!({ "kind": "embedder", "name": name, "key": "", "allow": allow });
        desk.call("model_use_server", asked)
    };
    let refused = use_it("http://far.test:8080/v1#m", false).expect_err("not allowed");
    assert_eq!(refused["advice"]["kind"], "allowServer", "{refused}");
    assert!(refused["message"].as_str().is_some_and(|it| it.contains("every passage")));
    let (url, asked) = server();
    let origin = url.strip_suffix("/v1/rerank").expect("its origin").to_owned();
    assert!(use_it(&origin, false).is_err(), "whose vectors?");
    use_it(&format!("{origin}#m"), false).expect("a server of this computer");
    let models = desk.call("models", json!({})).expect("models");
    let rows = models["installed"].as_array().expect("a list");
    let row = rows.iter().find(|it| it["server"] == true).expect("a row");
    assert_eq!((&row["kind"], &row["active"]), (&json!("embedder"), &json!(true)), "{row}");
    desk.wait_for(|it| it["meaning"]["done"] == 2 && it["phase"] == "watching");
    assert!(asked.try_iter().any(|it| it["input"].to_string().contains("9310")), "it is here");

    let events = desk.search(1, "mooring");
    let settled = events.last().expect("an end");
    assert!(settled["hits"].as_array().is_some_and(|it| !it.is_empty()), "{settled}");
    let sent: Vec<Value> = asked.try_iter().collect();
    assert!(sent.iter().any(|it| it["input"] == json!(["mooring"])), "{sent:?}");
    let trace = desk.call("pipeline", json!({})).expect("a trace");
    assert_eq!(trace["embedding"]["server"], origin.as_str(), "{trace}");
    assert!(trace["embedding"]["ms"].as_f64() > Some(0.0), "{trace}");
    let stages: Vec<&str> = trace["stages"]
        .as_array()
        .expect("stages")
        .iter()
        .filter_map(|it| it["stage"].as_str())
        .collect();
    assert!(stages.contains(&"embed_remote") && !stages.contains(&"embed"), "{stages:?}");
}

#[test]
fn a_server_ranks_and_is_held_against_the_model_of_this_computer() {
    let desk = Desk::with(&[
        ("a.md", "The winter mooring starts in November.\n"),
        ("b.md", "The summer mooring starts in April, and ends in October or later.\n"),
        ("c.md", "A mooring line is not a rope.\n"),
    ]);
    let use_it = |name: &str, allow: bool| {
        desk.call(
            "model_use_server",
            json!({ "kind": "reranker", "name": name, "key": "", "allow": allow }),
        )
    };
    let refused = use_it("http://far.test:8080/rerank#m", false).expect_err("not allowed");
    assert_eq!(refused["advice"]["kind"], "allowServer", "{refused}");
    assert!(use_it("far.test", true).is_err(), "no address");
    let (url, asked) = server();
    use_it(&url, false).expect("a server of this computer");
    let models = desk.call("models", json!({})).expect("models");
    let row =
        models["installed"].as_array().expect("a list").iter().find(|it| it["server"] == true);
    assert_eq!(row.expect("a row")["name"], url.as_str());
    assert_eq!(models["rerankerHere"], "riddle-reranker");

    let events = desk.search(1, "mooring");
    let settled = events.last().expect("an end");
    assert_eq!(settled["order"]["model"], url.strip_suffix("/v1/rerank").expect("its origin"));
    assert!(asked.try_recv().is_ok_and(|it| it["query"] == "mooring"));
    let trace = desk.call("pipeline", json!({})).expect("a trace");
    assert!(trace["remote"]["ms"].as_f64() > Some(0.0), "{trace}");
    assert_eq!((&trace["numLayers"], &trace["replayable"]), (&json!(0), &json!(false)));
    let stages: Vec<&str> = trace["stages"]
        .as_array()
        .expect("stages")
        .iter()
        .filter_map(|it| it["stage"].as_str())
        .collect();
    assert!(stages.contains(&"rerank_remote") && !stages.contains(&"rerank"), "{stages:?}");
    let replay = json!({ "request": { "threshold": null, "mode": "set" } });
    assert!(desk.call("pipeline_replay", replay).is_err(), "there are no layers");

    let compared = desk.call("pipeline_compare", json!({})).expect("compared");
    assert_eq!(compared["model"], "riddle-reranker", "{compared}");
    assert_eq!(compared["server"], url.strip_suffix("/v1/rerank").expect("its origin"));
    assert!(compared["withSettings"]["remoteMs"].as_f64() > Some(0.0), "{compared}");
    assert_eq!(compared["full"]["remoteMs"], 0.0, "{compared}");
    assert!(compared["full"]["layersRun"].as_u64() > Some(0), "{compared}");
    assert!(asked.try_recv().is_ok(), "it was asked once more");

    // What is switched off is asked nothing, wherever the question comes from; what is here may be.
    let far = use_it("http://far.test:8080/rerank#m", true);
    far.expect("allowed");
    let mut settings = desk.call("settings", json!({})).expect("settings")["settings"].clone();
    settings["offline"] = json!(true);
    desk.call("settings_set", json!({ "settings": settings })).expect("kept");
    let events = desk.search(2, "mooring");
    let settled = events.last().expect("an end");
    assert_eq!(settled["order"]["model"], "riddle-reranker", "{settled}");
    let notices = settled["notices"].as_array().expect("notices");
    let notice = notices.iter().find(|it| it["kind"] == "notRankedElsewhere").expect("a reason");
    assert!(notice["why"]["why"]["message"].as_str().is_some_and(|it| it.contains("switched off")));
}
