//! Servers that embed in the place of a model on this machine.

use std::{
    collections::HashSet,
    io::Write as _,
    net::TcpStream,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use riddle_tests::{Outcome, Riddle, Running, tiny_model, write};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{doors::Served, remote::Endpoint};

/// Numbers of its vectors.
const LENGTH: usize = 24;

/// A vector in which every word has a place: texts with the same words are near to each other.
fn vector(text: &str) -> Vec<f32> {
    let mut vector = vec![0.01; LENGTH];
    for word in text.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|it| it.len() > 2)
    {
        let place = word.bytes().fold(7_usize, |all, it| all.wrapping_mul(31) + usize::from(it));
        vector[place % LENGTH] += 1.0;
    }
    vector
}

fn texts(body: &Value) -> Vec<String> {
    let input = body["input"].as_array().expect("a list of texts").iter();
    input.map(|it| it.as_str().expect("a text").to_owned()).collect()
}

fn says(mut stream: TcpStream, status: &str, body: &Value) {
    let body = body.to_string();
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    // Whoever asked may have gone.
    let _ = stream.write_all((head + &body).as_bytes());
}

/// Embeds as servers of this kind do, but not in the order of the texts.
pub(crate) fn embeds(stream: TcpStream, body: &Value) {
    if !body["input"].is_array() {
        return says(stream, "404 Not Found", &json!({"error": "it only embeds"}));
    }
    let of = |(index, text): (usize, String)| json!({"index": index, "embedding": vector(&text)});
    let data: Vec<Value> = texts(body).into_iter().enumerate().map(of).rev().collect();
    says(stream, "200 OK", &json!({"object": "list", "data": data, "model": body["model"]}));
}

/// All texts that it was sent, in their order.
fn sent(endpoint: &Endpoint) -> Vec<String> {
    endpoint.asked().iter().flat_map(texts).collect()
}

/// The server's address with a model.
fn named(endpoint: &Endpoint, model: &str) -> String {
    format!("{}#{model}", endpoint.url)
}

/// A home of so many notes, found by words.
fn library(count: usize) -> (Riddle, TempDir) {
    let (riddle, files) = (Riddle::new(), TempDir::new().expect("a temporary folder"));
    for at in 0..count {
        let text = format!("# Entry {at}\n\nThe berth number {at} is for the vessel {}.\n", at * 7);
        write(files.path(), &format!("harbor/{at}.md"), &text);
    }
    write(files.path(), "boat.md", "# Marlin\n\nThe hull of the Marlin is painted blue.\n");
    riddle.index(files.path());
    (riddle, files)
}

fn index(riddle: &Riddle, args: &[&str]) -> Value {
    riddle.json(&[&["index"][..], args].concat())
}

fn notices(response: &Value) -> String {
    response["notices"].to_string()
}

/// Passages that meaning found.
fn by_meaning(found: &Value) -> usize {
    found["stages"]["dense"].as_array().map_or(0, Vec::len)
}

fn search(riddle: &Riddle, query: &str) -> Value {
    riddle.json(&["search", query, "--no-rerank", "--explain"])
}

fn mark(riddle: &Riddle, what: &str, folder: &Path) {
    riddle.run(&["folders", what, folder.to_str().expect("UTF-8")]).ok();
}

/// Texts that a server is asked when it is chosen: one that it is known by, fifteen passages, and their questions.
const CHOSEN_BY: usize = 1 + 15 + 15;

#[test]
fn a_server_embeds_what_is_indexed_and_what_is_searched_for() {
    let (riddle, _files) = library(80);
    let endpoint = Endpoint::doing(embeds);
    let report = index(&riddle, &["--embedder", &named(&endpoint, "e5-harbor")]);
    assert_eq!(report["embedded"], 81, "{report:#}");
    let remote = &report["remote"];
    assert_eq!((&remote["texts"], &remote["calls"]), (&81.into(), &3.into()), "{report:#}");
    assert!(remote["ms"].as_f64() > Some(0.0) && remote["sent_bytes"].as_u64() > Some(2000));
    assert!(report["timings_ms"]["embed_remote"].as_f64() > Some(0.0), "{report:#}");
    assert_eq!(report["timings_ms"]["embed"], Value::Null, "{report:#}");
    // What is asked when it is chosen is nothing of the person's; a model of that name has its prompts.
    let sent_now = sent(&endpoint);
    assert!(sent_now[0].contains("harbor is blue") && !sent_now[0].contains("Marlin"));
    let (passages, questions) = sent_now[..CHOSEN_BY].split_at(CHOSEN_BY / 2 + 1);
    assert!(questions.iter().all(|it| it.starts_with("query: ")), "{questions:?}");
    let passages = || passages.iter().chain(&sent_now[CHOSEN_BY..]);
    assert!(passages().all(|it| it.starts_with("passage: ")), "{sent_now:?}");
    assert!(endpoint.asked().iter().all(|it| texts(it).len() <= 32 && it["model"] == "e5-harbor"));

    let status = riddle.json(&["status"]);
    let id = status["embedder"].as_str().expect("an embedder").to_owned();
    assert!(id.starts_with("e5-harbor/24/server/"), "{id}");
    assert_eq!(status["embedding_server"].as_str(), endpoint.url.strip_suffix("/v1"));
    assert_eq!(status["meaning"]["done"], 81, "{status:#}");
    assert!(riddle.problems().is_empty(), "{:?}", riddle.problems());
    let page = riddle.run(&["status"]).ok();
    assert!(page.contains(&format!("embedder  {id} at http://127.0.0.1:")), "{page}");

    let found = search(&riddle, "Which color has the hull?");
    assert!(by_meaning(&found) > 0 && notices(&found) == "[]", "{found:#}");
    assert_eq!(sent(&endpoint).last().expect("a query"), "query: Which color has the hull?");
    assert_eq!(found["embedding"]["texts"], 1, "{found:#}");
    assert!(found["timings_ms"]["embed_remote"].as_f64() > Some(0.0), "{found:#}");
    let page = riddle.run(&["search", "Which color has the hull?"]).ok();
    assert!(page.contains("embedded: ") && page.contains(" ms at http://127.0.0.1:"), "{page}");

    // Without changes nobody is asked.
    let before = endpoint.asked().len();
    assert_eq!(index(&riddle, &[])["embedded"], 0);
    assert_eq!(endpoint.asked().len(), before);

    // At another address it is the same model, and another model is another one.
    let elsewhere = Endpoint::doing(embeds);
    let moved = index(&riddle, &["--embedder", &named(&elsewhere, "e5-harbor")]);
    assert_eq!((&moved["embedded"], elsewhere.asked().len()), (&0.into(), 1), "{moved:#}");
    assert_eq!(riddle.json(&["status"])["embedder"].as_str(), Some(id.as_str()));
    assert!(by_meaning(&search(&riddle, "the hull")) > 0 && elsewhere.asked().len() == 2);
    let prompts = ["--query-prompt", "find: ", "--passage-prompt", "text: "];
    let other = named(&elsewhere, "other");
    let other = index(&riddle, &[&["--embedder", &other][..], &prompts].concat());
    assert_eq!(other["embedded"], 81, "{other:#}");
    assert!(sent(&elsewhere).last().expect("a passage").starts_with("text: "));
    search(&riddle, "the hull");
    assert_eq!(sent(&elsewhere).last().expect("a query"), "find: the hull");

    // And back to this machine.
    let encoder = tiny_model("tiny-bert-encoder");
    let here = index(&riddle, &["--embedder", &encoder.to_string_lossy()]);
    assert_eq!((&here["embedded"], &here["remote"]), (&81.into(), &Value::Null), "{here:#}");
    let before = elsewhere.asked().len();
    assert!(by_meaning(&search(&riddle, "the hull")) > 0 && elsewhere.asked().len() == before);
    assert_eq!(riddle.json(&["status"])["embedding_server"], Value::Null);
}

/// A home on this machine, and a server on another one, which is the proxy.
fn index_far(endpoint: &Endpoint, riddle: &Riddle, args: &[&str]) -> Value {
    endpoint.run_through(riddle, &[&["index", "--json"][..], args].concat(), &[]).json()
}

#[test]
fn passages_of_marked_folders_are_never_sent() {
    let (riddle, files) = library(3);
    let root = files.path();
    write(root, "secret/pin.md", "# Pin\n\nThe pin of the vault is 9310.\n");
    write(root, "secret/deep/er.md", "# Deeper\n\nThe second pin is 9311.\n");
    // The same text once more, in a folder that may leave.
    write(root, "copies/er.md", "# Deeper\n\nThe second pin is 9311.\n");
    mark(&riddle, "confine", &root.join("secret"));
    riddle.index(root);
    let endpoint = Endpoint::doing(embeds);
    let far = "http://far.test:8080/v1#m";

    // Nothing before it is allowed, and what is allowed for answers is not allowed for this.
    for args in
        [["index", "--embedder", far], ["models", "use", "http://far.test:8080/v1/embeddings#m"]]
    {
        let line = endpoint.run_through(&riddle, &args, &[]).failed(1);
        for words in ["http://far.test:8080", "every passage of your files", "--allow-endpoint"] {
            assert!(line.contains(words), "{words:?} is not in {line}");
        }
    }
    let ranks = ["models", "use", "http://far.test:8080/v1/rerank", "--allow-endpoint"];
    endpoint.run_through(&riddle, &ranks, &[]);
    riddle.run(&["models", "use", "none"]).ok();
    endpoint.run_through(&riddle, &["index", "--embedder", far], &[]).failed(1);
    let before = sent_far(&endpoint).len();

    let report = index_far(&endpoint, &riddle, &["--embedder", far, "--allow-endpoint"]);
    assert_eq!((&report["embedded"], notices(&report).as_str()), (&4.into(), "[]"), "{report:#}");
    assert_eq!(sent_far(&endpoint).len(), before + CHOSEN_BY + 4);
    let meaning = &riddle.json(&["status"])["meaning"];
    assert_eq!((&meaning["passages"], &meaning["done"]), (&4.into(), &4.into()), "{meaning:#}");
    assert_eq!((&meaning["kept_here"], &meaning["waiting"]), (&3.into(), &Value::Null));
    assert!(riddle.problems().is_empty(), "{:?}", riddle.problems());
    assert!(riddle.run(&["status"]).ok().contains("3 that never leave this machine"));
    // They are found by their words.
    let found = endpoint.run_through(&riddle, &["search", "9310", "--no-rerank", "--json"], &[]);
    let found = found.json();
    assert!(found["hits"][0]["path"].as_str().is_some_and(|it| it.ends_with("pin.md")));
    assert_eq!(sent_far(&endpoint).last().expect("a query"), "9310", "the question is sent");

    // A mark that is set later keeps what was made, and nothing new is sent.
    mark(&riddle, "confine", &root.join("harbor"));
    write(root, "harbor/new.md", "# New\n\nThe code of the gate is 9312.\n");
    write(root, "open/new.md", "# Open\n\nThe gate is green.\n");
    let report = index_far(&endpoint, &riddle, &[]);
    assert_eq!(report["embedded"], 1, "{report:#}");
    assert_eq!(riddle.json(&["status"])["meaning"]["done"], 5);

    // A file that is moved out may be sent, and one that is moved in may not.
    std::fs::rename(root.join("harbor/new.md"), root.join("open/moved.md")).expect("moved");
    let report = index_far(&endpoint, &riddle, &[]);
    assert_eq!(report["embedded"], 1, "{report:#}");
    let received = sent_far(&endpoint).join("\n");
    assert!(received.contains("9312") && !received.contains("9311"), "{received}");
    assert!(!received.contains("The pin of the vault"), "{received}");

    // The mark is taken away: they wait, and are sent.
    mark(&riddle, "release", &root.join("secret"));
    let meaning = &riddle.json(&["status"])["meaning"];
    assert_eq!((&meaning["passages"], &meaning["done"]), (&9.into(), &6.into()), "{meaning:#}");
    let report = index_far(&endpoint, &riddle, &[]);
    // Two of the three are the same text.
    assert_eq!(report["embedded"], 2, "{report:#}");
    assert!(sent_far(&endpoint).join("\n").contains("The pin of the vault"));

    // A server on this machine is given everything.
    mark(&riddle, "confine", root);
    let near = Endpoint::doing(embeds);
    let report = index(&riddle, &["--embedder", &named(&near, "near")]);
    assert_eq!(report["remote"]["texts"], 8, "{report:#}");
}

/// What went through the proxy to be embedded.
fn sent_far(endpoint: &Endpoint) -> Vec<String> {
    let bodies = endpoint.asked();
    bodies.iter().filter(|it| it["input"].is_array()).flat_map(texts).collect()
}

#[test]
fn a_server_that_dies_is_waited_for_and_nothing_is_lost() {
    let (riddle, _files) = library(200);
    let answers = Arc::new(AtomicUsize::new(0));
    let left = Arc::clone(&answers);
    // Chosen, then two batches of 64 passages, and the half of the third.
    let endpoint = Endpoint::doing(move |stream, body| {
        if left.fetch_add(1, Ordering::SeqCst) < 6 {
            embeds(stream, body);
        }
    });
    let report = index(&riddle, &["--embedder", &named(&endpoint, "m")]);
    assert_eq!(report["embedded"], 128, "{report:#}");
    assert!(notices(&report).contains("73 passages wait for their vectors"), "{report:#}");
    assert!(notices(&report).contains(&*endpoint.url), "{report:#}");
    let status = riddle.json(&["status"]);
    assert_eq!(
        (&status["meaning"]["done"], &status["meaning"]["waiting"]),
        (&128.into(), &"server".into())
    );

    // Words are searched, and it is said why meaning is not.
    let found = search(&riddle, "hull of the Marlin");
    assert!(found["hits"][0]["path"].as_str().is_some_and(|it| it.ends_with("boat.md")));
    assert_eq!((&found["order"]["by"], by_meaning(&found)), (&"keyword".into(), 0), "{found:#}");
    assert!(notices(&found).contains("meaning is not searched: "), "{found:#}");
    // Still away: the queue stays as it is, and no file has failed for it.
    let again = index(&riddle, &[]);
    assert_eq!((&again["embedded"], &again["states"]["indexed"]), (&0.into(), &201.into()));
    assert_eq!(again["states"]["failed"], Value::Null, "{again:#}");

    // It is back, at another address, and is sent what is missing and nothing else.
    let before: HashSet<String> = endpoint.asked()[..5].iter().flat_map(texts).collect();
    let back = Endpoint::doing(embeds);
    let report = index(&riddle, &["--embedder", &named(&back, "m")]);
    assert_eq!((&report["embedded"], notices(&report).as_str()), (&73.into(), "[]"), "{report:#}");
    let passages: Vec<String> = sent(&back)[CHOSEN_BY..].to_vec();
    assert!(passages.len() == 73 && passages.iter().all(|it| !before.contains(it)));
    let status = riddle.json(&["status"]);
    assert_eq!(
        (&status["meaning"]["done"], &status["meaning"]["waiting"]),
        (&201.into(), &Value::Null)
    );
    assert!(by_meaning(&search(&riddle, "hull of the Marlin")) > 0);
}

#[test]
fn while_changes_are_followed_a_server_that_comes_back_is_used_again() {
    let (riddle, files) = library(3);
    let up = Arc::new(AtomicBool::new(true));
    let is_up = Arc::clone(&up);
    let endpoint = Endpoint::doing(move |stream, body| {
        if is_up.load(Ordering::SeqCst) {
            embeds(stream, body);
        }
    });
    riddle.run(&["models", "use", &format!("{}/embeddings#m", endpoint.url)]).ok();
    up.store(false, Ordering::SeqCst);
    let mut watcher = riddle.start(&["index", "--watch"]);
    let meaning = || riddle.json(&["status"])["meaning"].clone();
    watcher.until("vectors wait", || meaning()["waiting"] == "server");
    // What is new is found by words meanwhile.
    write(files.path(), "new.md", "# New\n\nA zorbakox is on the pier.\n");
    watcher
        .until("the new file is found", || riddle.find("zorbakox").contains(&"new.md".to_owned()));
    up.store(true, Ordering::SeqCst);
    watcher.until("vectors are made", || meaning()["done"] == 5);
    watcher.signal("INT");
    watcher.wait().ok();
    assert_eq!(meaning()["waiting"], Value::Null);
}

#[test]
fn killed_with_a_server_at_work_an_index_goes_on() {
    let (riddle, _files) = library(300);
    let endpoint = Endpoint::doing(|stream, body| {
        std::thread::sleep(std::time::Duration::from_millis(150));
        embeds(stream, body);
    });
    riddle.run(&["models", "use", &format!("{}/embeddings#m", endpoint.url)]).ok();
    let mut run = riddle.start(&["index"]);
    run.until("some passages are sent", || endpoint.asked().len() > 5);
    run.signal("KILL");
    run.wait();
    let done = riddle.json(&["status"])["meaning"]["done"].as_u64().expect("a count");
    assert!((64..301).contains(&done), "{done}");
    let report = index(&riddle, &[]);
    assert_eq!(report["embedded"], 301 - done, "{report:#}");
    assert!(riddle.problems().is_empty(), "{:?}", riddle.problems());
}

/// What a lying server makes of a request.
type Lie = fn(&Value) -> Value;

#[test]
fn every_lie_is_told_and_changes_nothing() {
    let (riddle, _files) = library(2);
    let lies: [(&str, Lie); 9] = [
        ("has 3 numbers and not 24", |body| data(body, |_| json!([1, 2, 3]))),
        ("1 of 3 results", |_| json!({"data": [{"index": 0, "embedding": vector("a")}]})),
        ("two results for text 0", |body| {
            let one = |_| json!({"index": 0, "embedding": vector("a")});
            json!({"data": texts(body).iter().map(one).collect::<Vec<_>>()})
        }),
        ("a result for text 3 of 3", |body| {
            let one = |(at, _)| json!({"index": at + 1, "embedding": vector("a")});
            json!({"data": texts(body).iter().enumerate().map(one).collect::<Vec<_>>()})
        }),
        ("is no number", |body| data(body, |_| json!(vec![Value::Null; LENGTH]))),
        ("has no direction", |body| data(body, |_| json!(vec![0; LENGTH]))),
        ("packed as base64", |body| data(body, |_| json!("AACAPwAAAAA="))),
        ("has no list of data", |_| json!({"error": "no"})),
        ("has more than", |body| data(body, |_| json!("9".repeat(2 << 20)))),
    ];
    let current = Arc::new(AtomicUsize::new(usize::MAX));
    let lie = Arc::clone(&current);
    let endpoint =
        Endpoint::doing(move |stream, body| match lies.get(lie.load(Ordering::SeqCst)) {
            Some((_, lie)) => says(stream, "200 OK", &lie(body)),
            None => embeds(stream, body),
        });
    riddle.run(&["models", "use", &format!("{}/embeddings#m", endpoint.url)]).ok();
    for (at, (words, _)) in lies.iter().enumerate() {
        current.store(at, Ordering::SeqCst);
        let report = index(&riddle, &[]);
        assert!(notices(&report).contains(words), "{words:?} is not in {report:#}");
        assert_eq!(report["embedded"], 0, "{words}");
    }
    // A status that is no answer, and what can not be chosen.
    current.store(7, Ordering::SeqCst);
    let line = riddle.run(&["index", "--embedder", &named(&endpoint, "n")]).failed(1);
    assert!(line.contains("has no list of data"), "{line}");
    let line = riddle.run(&["index", "--embedder", &endpoint.url]).failed(1);
    assert!(line.contains("name of its model"), "{line}");
    let line = riddle.run(&["index", "--embedder", "http://127.0.0.1:9/v1#m"]).failed(1);
    assert!(line.contains("is the server running"), "{line}");
    current.store(usize::MAX, Ordering::SeqCst);
    assert_eq!(index(&riddle, &[])["embedded"], 3, "the one chosen before is still the one");

    // Another model under the same name is found out.
    let liar = Endpoint::doing(|stream, body| {
        says(
            stream,
            "200 OK",
            &data(body, |it| json!(vector(&it.chars().rev().collect::<String>()))),
        );
    });
    let line = riddle.run(&["index", "--embedder", &named(&liar, "m")]).failed(1);
    assert!(line.contains("another model"), "{line}");
}

/// An answer with this for the vector of every text.
fn data(body: &Value, of: impl Fn(&str) -> Value) -> Value {
    let one = |(index, text): (usize, &String)| json!({"index": index, "embedding": of(text)});
    json!({"data": texts(body).iter().enumerate().map(one).collect::<Vec<_>>()})
}

#[test]
fn a_text_that_is_too_long_is_cut_and_a_batch_that_is_too_large_is_halved() {
    let (riddle, files) = library(40);
    let long = format!("# Long\n\n{}\n", "The pier is long and made of oak. ".repeat(30));
    write(files.path(), "long.md", &long);
    // Takes ten texts at a time, of 500 bytes at most.
    let endpoint = Endpoint::doing(|stream, body| {
        let all = texts(body);
        let refusal = json!({"error": {"message": "maximum context length"}});
        if all.len() > 10 {
            return says(stream, "422 Unprocessable", &refusal);
        }
        if all.iter().any(|it| it.len() > 500) {
            return says(stream, "400 Bad Request", &refusal);
        }
        embeds(stream, body);
    });
    let report = index(&riddle, &["--embedder", &named(&endpoint, "m")]);
    assert_eq!(notices(&report), "[]", "{report:#}");
    let status = riddle.json(&["status"]);
    assert_eq!(status["meaning"]["done"], status["meaning"]["passages"], "{status:#}");
}

#[test]
fn without_a_network_a_server_elsewhere_is_asked_nothing() {
    let (riddle, _files) = library(3);
    let endpoint = Endpoint::doing(embeds);
    let far = "http://far.test:8080/v1/embeddings#m";
    let refused = riddle.run(&["models", "use", far, "--allow-endpoint"]);
    assert!(refused.stderr.contains("the network is switched off"), "{refused:#?}");
    assert_eq!(refused.code, Some(1));
    index_far(&endpoint, &riddle, &["--embedder", far, "--allow-endpoint"]);
    let before = endpoint.asked().len();
    let through = |args: &[&str]| -> Outcome {
        let mut command = riddle.command(args);
        command.env("HTTP_PROXY", endpoint.url.trim_end_matches("/v1"));
        Running::start(command).wait()
    };
    let found = through(&["search", "hull", "--json"]).json();
    assert!(notices(&found).contains("the network is switched off"), "{found:#}");
    assert!(found["hits"].as_array().is_some_and(|it| !it.is_empty()), "{found:#}");
    write(_files.path(), "new.md", "# New\n\nSomething new.\n");
    let report = through(&["index", "--json"]).json();
    assert!(notices(&report).contains("the network is switched off"), "{report:#}");
    assert_eq!(endpoint.asked().len(), before);
    // A key in clear goes nowhere.
    let with_key = [("RIDDLE_EMBED_KEY", "hunter2")];
    let report = endpoint.run_through(&riddle, &["index", "--json"], &with_key).json();
    assert!(notices(&report).contains("not encrypted"), "{report:#}");
    assert!(!endpoint.received().contains("hunter2") && endpoint.asked().len() == before);
}

/// What other programs want embedded, and what answers are judged by, stays here.
#[test]
fn a_served_home_passes_nothing_on() {
    let served = Served::start(&[]);
    let endpoint = Endpoint::doing(embeds);
    let riddle = &served.riddle;
    let key = [("RIDDLE_EMBED_KEY", "hunter2")];
    let url = format!("{}/embeddings#m", endpoint.url);
    let mut command = riddle.command(&["index", "--embedder", &url, "--json"]);
    command.envs(key);
    let report = Running::start(command).wait().json();
    assert!(report["embedded"].as_u64() > Some(0), "{report:#}");
    assert!(endpoint.heads().iter().all(|it| it.to_lowercase().contains("bearer hunter2")));
    // Whoever serves hears of it by the next change.
    let text = "# New\n\nThe winter mooring has a new rope.\n";
    write(&served.files.path().join("notes"), "new.md", text);
    let mut command = riddle.command(&["index"]);
    command.envs(key);
    Running::start(command).wait().ok();
    let is_seen = || served.found("new rope").iter().any(|it| it.ends_with("new.md"));
    for _ in 0..100 {
        if is_seen() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let before = endpoint.asked().len();
    let refused = served.post("/v1/embeddings", &json!({"model": "m", "input": ["a secret"]}));
    let refused = refused.json(404);
    assert!(refused.to_string().contains("is not passed on"), "{refused}");
    assert!(!endpoint.received().contains("a secret") && endpoint.asked().len() == before);
    // A search of its own home asks the server.
    let found = served.post("/api/search", &json!({"query": "winter mooring"})).json(200);
    assert!(found["passages"].as_array().is_some_and(|it| !it.is_empty()), "{found:#}");
    assert_eq!(sent(&endpoint).last().expect("a query"), "winter mooring");
    // An answer is judged without it: the question alone is sent.
    let before = sent(&endpoint).len();
    let answer = riddle.json(&["ask", "When does the winter mooring end?", "--alone"]);
    assert!(answer["answer"].is_string(), "{answer:#}");
    assert_eq!(sent(&endpoint)[before..], ["When does the winter mooring end?"]);
}
