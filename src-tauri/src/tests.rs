//! The commands on Tauri's mock runtime, under the real permissions, over a real library.

// Long: one desk, and every command tried on it.
mod door;
mod gate;
mod server;
mod shared;
mod writer;

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use riddle_rag::Config;
use serde::Serialize;
use serde_json::{Value, json};
use tauri::{
    App, Manager as _, WebviewWindow, WebviewWindowBuilder,
    ipc::{CallbackFn, Channel, InvokeBody, InvokeResponseBody},
    test::{INVOKE_KEY, MockRuntime, get_ipc_response, mock_builder},
    webview::InvokeRequest,
};
use tempfile::TempDir;

use crate::{
    dto::{AppEvent, Phase, Question, SearchFilter, SearchQuery},
    equip,
    gate::{Gate, Purpose},
    instance::Ask,
    shell::Shell,
};

/// Longest that a test waits for threads: far more than any of them needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Hits that fit on the screen.
const FIRST: u32 = 4;

/// A home, a folder with files, the shell over both, and the app over the shell.
struct Desk {
    shell: Shell,
    files: PathBuf,
    app: App<MockRuntime>,
    window: WebviewWindow<MockRuntime>,
    folders: (TempDir, TempDir),
}

impl Desk {
    /// Without files yet.
    fn new() -> Desk {
        let home = tempfile::tempdir().expect("a folder");
        let files = tempfile::tempdir().expect("a folder");
        let mut config = Config::new(home.path());
        // Parsing happens in children of the built program, not of the test.
        let test = std::env::current_exe().expect("a test has a path");
        let built = test.ancestors().nth(2).expect("target/PROFILE/deps/test");
        config.parse_worker.program =
            built.join(format!("riddle-desktop{}", std::env::consts::EXE_SUFFIX));
        // No embedder: the same words are found on every machine.
        config.models = Some(home.path().join("no-models"));
        let gate = Gate::new(config.clone(), Purpose::Open, Ask::Show);
        let shell = Shell::open(config).expect("opens");
        let app = equip(mock_builder(), gate, Some(shell.clone()))
            .build(crate::context())
            .expect("the app is built");
        let window = window(&app, "main");
        let path = files.path().canonicalize().expect("a folder");
        Desk { shell, files: path, app, window, folders: (home, files) }
    }

    /// With these files, indexed.
    fn with(files: &[(&str, &str)]) -> Desk {
        let desk = Desk::new();
        for (name, text) in files {
            let path = desk.files.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        desk.index();
        desk
    }

    fn index(&self) {
        let added = self.call("library_add", json!({ "paths": [self.files] })).expect("added");
        assert_eq!(added[0]["problem"], Value::Null);
        self.wait_for(|state| state["phase"] == "watching" && state["asOf"].is_i64());
    }

    fn wait_for(&self, arrived: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let state = self.call("library", json!({})).expect("a state");
            if arrived(&state) {
                return state;
            }
            assert!(begun.elapsed() < PATIENCE, "still {state}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the program; its folders stay as long as what comes back.
    fn leave(mut self) -> (TempDir, TempDir) {
        let other = || tempfile::tempdir().expect("a folder");
        std::mem::replace(&mut self.folders, (other(), other()))
    }

    /// A command as the WebView sends it.
    fn call(&self, command: &str, arguments: Value) -> Result<Value, Value> {
        call(&self.window, command, arguments)
    }

    /// A search to its end: all events.
    fn search(&self, id: u32, text: &str) -> Vec<Value> {
        let (channel, events) = channel();
        let filter = SearchFilter::default();
        let query = SearchQuery { id, text: text.to_owned(), filter, first: FIRST };
        self.shell.search(query, channel);
        until(&events, &["settled", "cancelled", "failed"])
    }

    /// The hits of a search in their final order.
    fn hits(&self, id: u32, text: &str) -> Vec<Value> {
        let events = self.search(id, text);
        events.last().expect("an end")["hits"].as_array().cloned().expect("settled")
    }

    /// A question to its end: all events.
    fn ask(&self, id: u32, text: &str, thread: Option<i64>) -> Vec<Value> {
        let (channel, events) = channel();
        let filter = SearchFilter::default();
        self.shell
            .ask(Question { id, text: text.to_owned(), thread, filter, fresh: false }, channel);
        until(&events, &["done", "failed"])
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.shell.close();
    }
}

fn window(app: &App<MockRuntime>, label: &str) -> WebviewWindow<MockRuntime> {
    WebviewWindowBuilder::new(app, label, tauri::WebviewUrl::default()).build().expect("a window")
}

fn call(
    window: &WebviewWindow<MockRuntime>,
    command: &str,
    arguments: Value,
) -> Result<Value, Value> {
    let request = InvokeRequest {
        cmd: command.to_owned(),
        callback: CallbackFn(0),
        error: CallbackFn(1),
        url: "tauri://localhost".parse().expect("an address"),
        body: InvokeBody::Json(arguments),
        headers: Default::default(),
        invoke_key: INVOKE_KEY.to_owned(),
    };
    get_ipc_response(window, request).map(|it| it.deserialize().unwrap_or(Value::Null))
}

/// A channel whose messages arrive here.
fn channel<T: Serialize>() -> (Channel<T>, Receiver<Value>) {
    let (sender, receiver) = mpsc::channel();
    let channel = Channel::new(move |body| {
        if let InvokeResponseBody::Json(text) = body {
            // A test that has seen enough does not listen any more.
            let _ = sender.send(serde_json::from_str(&text).expect("JSON"));
        }
        Ok(())
    });
    (channel, receiver)
}

fn until(events: &Receiver<Value>, ends: &[&str]) -> Vec<Value> {
    let mut seen: Vec<Value> = Vec::new();
    loop {
        let event = events.recv_timeout(PATIENCE).expect("an event");
        let ended = ends.iter().any(|it| event["event"] == **it);
        seen.push(event);
        if ended {
            return seen;
        }
    }
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|it| it["event"].as_str()).collect()
}

#[test]
fn only_our_commands_in_only_our_window() {
    let desk = Desk::new();
    assert_eq!(desk.call("about", json!({})).expect("allowed")["license"], "Apache-2.0");
    let stranger = window(&desk.app, "stranger");
    assert!(call(&stranger, "about", json!({})).is_err(), "another window may nothing");
    for foreign in [
        "plugin:event|listen",
        "plugin:opener|open_path",
        "plugin:dialog|open",
        "plugin:window|set_title",
        "plugin:webview|create_webview_window",
        "no_such_command",
    ] {
        assert!(desk.call(foreign, json!({ "path": "/etc/passwd" })).is_err(), "{foreign}");
    }
}

#[test]
fn a_search_shows_first_hits_and_settles() {
    let desk = Desk::with(&[
        ("boat/mooring.md", "# Winter\n\nThe winter mooring starts on 1 November.\n"),
        ("bakery/bread.md", "# Bread\n\nRye bread needs a day.\n"),
    ]);
    let events = desk.search(1, "winter moorings");
    // The reranker that comes with the program has four layers.
    let layers = ["layer"; 4];
    assert_eq!(names(&events), [&["firstHits"][..], &layers, &["settled"]].concat());
    let hit = &events[0]["hits"][0];
    assert_eq!(hit["file"]["name"], "mooring.md");
    let marks = hit["snippet"].as_array().expect("spans").iter();
    let marks: Vec<&Value> = marks.filter(|it| it["mark"] == true).map(|it| &it["text"]).collect();
    assert!(marks.contains(&&json!("mooring")), "{marks:?}");
    assert_eq!(events[0]["order"]["kind"], "keyword");

    let chunk = hit["chunk"].clone();
    let shown = desk.call("preview", json!({ "chunk": chunk, "query": "winter" })).expect("shown");
    assert_eq!(shown["body"]["kind"], "markdown");
    assert!(shown["body"]["text"].as_str().expect("text").contains("1 November"));
    let why = desk.call("why", json!({ "chunk": chunk })).expect("known");
    assert_eq!((why["ranks"]["bm25"].clone(), why["rank"].clone()), (json!(1), json!(1)));
    assert_eq!(desk.search(2, "  ").last().expect("an end")["event"], "failed");
    assert!(desk.call("why", json!({ "chunk": 99_999 })).is_err());
    let figures = desk.call("performance", json!({})).expect("figures");
    let stages = figures["stages"].as_array().expect("stages").iter();
    assert!(stages.map(|it| &it["stage"]).any(|it| it == "first_hits"));
}

#[test]
fn what_does_not_fit_on_the_screen_comes_behind_the_first_hits() {
    let files: Vec<(String, String)> = (0..FIRST + 3)
        .map(|n| (format!("{n}.md"), format!("A winter mooring in harbour number {n}.\n")))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|it| (it.0.as_str(), it.1.as_str())).collect();
    let desk = Desk::with(&files);
    let events = desk.search(1, "winter mooring");
    assert_eq!(names(&events)[..2], ["firstHits", "moreHits"]);
    let ranks = |event: &Value| -> Vec<u64> {
        let hits = event["hits"].as_array().expect("hits").iter();
        hits.map(|it| it["rank"].as_u64().expect("a rank")).collect()
    };
    let first = u64::from(FIRST);
    assert_eq!(ranks(&events[0]), (1..=first).collect::<Vec<_>>());
    assert_eq!(ranks(&events[1]), (first + 1..=first + 3).collect::<Vec<_>>());
}

#[test]
fn a_newer_search_ends_an_older_one() {
    let desk = Desk::with(&[("a.md", "boat\n")]);
    // The older one waits behind this.
    desk.shell.engine.find(|_| std::thread::sleep(Duration::from_millis(200)));
    let (old, old_events) = channel();
    let filter = SearchFilter::default;
    let query = |id| SearchQuery { id, text: "boat".to_owned(), filter: filter(), first: FIRST };
    desk.shell.search(query(1), old);
    let newer = desk.search(2, "boat");
    assert_eq!(
        [names(&newer)[0], names(&newer)[names(&newer).len() - 1]],
        ["firstHits", "settled"]
    );
    assert_eq!(names(&until(&old_events, &["cancelled", "settled", "failed"])), ["cancelled"]);
}

#[test]
#[cfg(unix)]
fn hostile_names_and_texts_are_text() {
    let name = "in\u{202e}fdp.<img src=x onerror=alert(1)>.md";
    let desk = Desk::with(&[
        (name, "# <script>alert(1)</script>\n\nharbour <b>bold</b> [x](javascript:alert(1))\n"),
        ("page.html", "<h1>harbour</h1><script>alert(1)</script><p onclick=x>quay</p>"),
        ("picture.svg", "<svg onload='alert(1)'><text>harbour</text></svg>"),
    ]);
    let hits = desk.hits(1, "harbour");
    let shown: Vec<&str> = hits.iter().filter_map(|it| it["file"]["name"].as_str()).collect();
    assert!(shown.contains(&"in\u{fffd}fdp.<img src=x onerror=alert(1)>.md"), "{shown:?}");
    // A link that leads out of the folder after indexing.
    let chunk =
        hits.iter().find(|it| it["file"]["kind"] == "markdown").expect("found")["chunk"].clone();
    std::fs::remove_file(desk.files.join(name)).expect("removed");
    std::os::unix::fs::symlink("/etc/passwd", desk.files.join(name)).expect("linked");
    let arguments = json!({ "chunk": chunk, "query": "" });
    if let Ok(shown) = desk.call("preview", arguments) {
        assert_eq!(shown["body"]["kind"], "unavailable", "{shown}");
    }
    let target = json!({ "target": { "kind": "chunk", "chunk": chunk } });
    assert!(desk.call("open_file", target).is_err());
    assert!(desk.call("preview_bytes", json!({ "chunk": chunk })).is_err());
}

#[test]
fn answers_cite_follow_up_and_are_kept() {
    let desk = Desk::with(&[
        ("lease.md", "The winter mooring costs 240 euros a month.\n"),
        ("notes.md", "Rye bread needs a day.\n"),
    ]);
    let events = desk.ask(1, "What does the winter mooring cost?", None);
    assert_eq!(events[0]["event"], "evidence");
    let answer = &events.last().expect("an end")["answer"];
    assert_eq!(answer["sentences"][0]["text"], "The winter mooring costs 240 euros a month.");
    assert_eq!(answer["sentences"][0]["support"], 1.0);
    assert_eq!(answer["citations"][0]["file"]["name"], "lease.md");
    let thread = answer["thread"].as_i64().expect("a thread");

    let events = desk.ask(2, "And what does it cost?", Some(thread));
    let searched = events[0]["searchedFor"].as_str().expect("words");
    assert!(searched.contains("mooring"), "{searched}");
    let all = json!({ "query": { "text": "", "limit": 10 } });
    let threads = desk.call("history", all.clone()).expect("history");
    assert_eq!((threads[0]["questions"].clone(), threads[1].clone()), (json!(2), Value::Null));
    assert_eq!(threads[0]["question"], "What does the winter mooring cost?");
    let none = json!({ "query": { "text": "locksmith", "limit": 10 } });
    assert_eq!(desk.call("history", none).expect("history"), json!([]));
    desk.call("history_delete", json!({ "thread": thread })).expect("deleted");
    assert_eq!(desk.call("history", all).expect("history"), json!([]));
}

#[test]
fn a_stopped_answer_is_stopped() {
    let desk = Desk::with(&[("a.md", "The boat is blue.\n")]);
    desk.call("stop_answer", json!({ "question": 7 })).expect("stopped");
    let events = desk.ask(7, "Which color has the boat?", None);
    assert_eq!(events.last().expect("an end")["answer"]["stopped"], true);
}

#[test]
fn kinds_are_counted_and_what_is_new_is_listed() {
    let desk = Desk::with(&[
        ("a.md", "The boat is blue.\n"),
        ("b.txt", "The lock is closed.\n"),
        ("c.txt", "The mooring is paid.\n"),
    ]);
    let state = desk.call("library", json!({})).expect("a state");
    let kinds = json!([{ "kind": "text", "count": 2 }, { "kind": "markdown", "count": 1 }]);
    assert_eq!(state["kinds"], kinds);
    assert_eq!(state["lately"], json!({ "days": 7, "files": 3 }));
    let query = json!({ "query": { "states": [], "folder": null, "lately": true, "text": "lock",
        "sort": "changed", "descending": true, "offset": 0, "limit": 100 } });
    let text = desk.call("ledger", query.clone()).expect("a page");
    assert_eq!(text["total"], 0, "filters hold together");
    let mut all = query;
    all["query"]["text"] = json!("");
    let page = desk.call("ledger", all).expect("a page");
    let changed: Vec<i64> = page["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|it| it["changed"].as_i64().expect("a time"))
        .collect();
    assert_eq!((changed.len(), page["total"].clone()), (3, json!(3)));
    assert!(changed.is_sorted_by(|a, b| a >= b), "{changed:?}");
}

#[test]
fn how_much_the_search_by_meaning_may_take_is_chosen_and_told() {
    let desk = Desk::with(&[("a.md", "boat\n")]);
    let state = desk.call("library", json!({})).expect("a state");
    assert_eq!(state["meaningLimits"], json!({ "cpu": 100, "onBattery": false }));
    let limits = json!({ "cpu": 25, "onBattery": true });
    desk.call("library_meaning", json!({ "limits": limits })).expect("kept");
    desk.wait_for(|it| it["meaningLimits"] == limits);
    let none = json!({ "limits": { "cpu": 0, "onBattery": false } });
    desk.call("library_meaning", none).expect("kept");
    desk.wait_for(|it| it["meaningLimits"]["cpu"] == 1);
    let odd = json!({ "limits": { "cpu": "all", "onBattery": false } });
    assert!(desk.call("library_meaning", odd).is_err());
}

#[test]
fn the_ledger_explains_and_rules_are_tried_first() {
    let desk =
        Desk::with(&[("a.md", "boat\n"), ("b.log", "a log of the boat\n"), ("empty.txt", "")]);
    let query = |states: Value| {
        json!({ "query": { "states": states, "folder": null, "lately": false, "text": "",
            "sort": "path", "descending": false, "offset": 0, "limit": 100 } })
    };
    let page = desk.call("ledger", query(json!(["noText"]))).expect("a page");
    assert_eq!(
        (page["total"].clone(), page["rows"][0]["reason"].clone()),
        (json!(1), json!("empty file"))
    );
    let rule = json!({ "folder": null, "pattern": "*.log" });
    let effect = desk.call("rule_preview", json!({ "rule": rule })).expect("tried");
    assert_eq!(effect["files"], 1);
    let bad = json!({ "rule": { "folder": null, "pattern": "a[" } });
    assert!(desk.call("rule_preview", bad).expect("tried")["problem"].is_string());
    assert_eq!(desk.hits(1, "boat").len(), 2);
    desk.call("rules_set", json!({ "rules": [rule] })).expect("set");
    desk.wait_for(|state| {
        state["counts"].as_array().is_some_and(|it| it.iter().any(|it| it["state"] == "excluded"))
            && state["phase"] == "watching"
    });
    let begun = Instant::now();
    while desk.hits(2, "boat").len() != 1 {
        assert!(begun.elapsed() < PATIENCE, "the excluded file still answers");
    }
    let folder = desk.call("library", json!({})).expect("a state")["folders"][0]["id"].clone();
    desk.call("library_remove", json!({ "folder": folder })).expect("removed");
    let state = desk.wait_for(|it| it["phase"] == "empty");
    assert_eq!(state["passages"], 0);
    assert!(desk.files.join("a.md").is_file(), "the files stay");
}

/// An endpoint on this machine that answers every question alike; its address.
fn endpoint(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut seen = Vec::new();
            let mut part = [0; 4096];
            // The question is the last thing in the body.
            while !seen.ends_with(b"}") {
                match stream.read(&mut part) {
                    Ok(0) | Err(_) => break,
                    Ok(length) => seen.extend_from_slice(&part[..length]),
                }
            }
            let body = json!({ "choices": [{ "message": { "content": answer } }] }).to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
            let reply = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
            // Whoever asked may have gone.
            let _ = stream.write_all(reply.as_bytes());
        }
    });
    format!("http://{address}/v1")
}

#[test]
fn a_model_behind_an_endpoint_answers_and_elsewhere_must_be_allowed() {
    let desk = Desk::with(&[("boat.md", "# Marlin\n\nThe hull of the Marlin is painted blue.\n")]);
    let set = |url: &str, offline: bool| {
        let mut settings = desk.call("settings", json!({})).expect("settings")["settings"].clone();
        settings["llm"] = json!("remote");
        settings["offline"] = json!(offline);
        settings["remote"]["url"] = json!(url);
        settings["remote"]["model"] = json!("small");
        desk.call("settings_set", json!({ "settings": settings })).expect("kept")
    };
    let state = set(&endpoint("It is blue [1]. It flies."), true);
    assert_eq!(state["endpoint"]["local"], json!(true));
    let question = "How is the hull of the Marlin painted?";
    let events = desk.ask(1, question, None);
    let answer = events.last().expect("an end")["answer"].clone();
    assert_eq!(answer["llm"], "remote:small", "{events:?}");
    assert_eq!(answer["sentences"][1]["text"], "It flies.");
    assert_eq!(answer["sentences"][1]["support"], json!(0.0));
    assert_eq!(answer["sentences"][1]["verdict"], "unsupported");
    let checked: Vec<_> = events.iter().filter(|it| it["event"] == "checked").collect();
    assert_eq!(checked.len(), 2, "{events:?}");
    assert_eq!(checked[1]["sentence"], answer["sentences"][1]);
    assert!(answer["prompt"].as_str().is_some_and(|it| it.ends_with(question)), "{answer}");

    // What follows is put by the model so that it stands by itself; this one says what it always says.
    let events = desk.ask(3, "And its color?", answer["thread"].as_i64());
    assert_eq!(events[0]["event"], "rewritten", "{events:?}");
    assert_eq!(events[0]["text"], "It is blue [1]. It flies.");
    let followed = &events.last().expect("an end")["answer"];
    assert_eq!(followed["searchedFor"], "It is blue [1]. It flies.", "{followed}");

    let state = set("https://far.test/v1", false);
    assert_eq!(state["endpoint"]["origin"], "https://far.test:443");
    let events = desk.ask(2, question, None);
    let failure = &events.last().expect("an end")["failure"];
    assert!(
        failure["message"].as_str().is_some_and(|it| it.contains("would be sent")),
        "{failure}"
    );
    assert!(set("nonsense", false)["endpoint"]["problem"].is_string());
}

#[test]
fn what_would_be_sent_is_shown_and_marked_folders_are_not_in_it() {
    let desk = Desk::with(&[("boat.md", "# Marlin\n\nThe hull of the Marlin is painted blue.\n")]);
    let mut settings = desk.call("settings", json!({})).expect("settings")["settings"].clone();
    settings["llm"] = json!("remote");
    settings["remote"]["url"] = json!("https://far.test/v1");
    settings["remote"]["model"] = json!("small");
    desk.call("settings_set", json!({ "settings": settings })).expect("kept");
    let question = "How is the hull of the Marlin painted?";
    let preview = || {
        let filter = json!({ "folders": [], "kinds": [], "tags": [], "modifiedFrom": null, "modifiedUntil": null, "libraries": [] });
        let asked = json!({ "id": 1, "text": question, "thread": null, "filter": filter });
        desk.call("ask_preview", json!({ "question": asked })).expect("shown")
    };
    let shown = preview();
    assert_eq!(shown["origin"], "https://far.test:443");
    assert_eq!(shown["folders"].as_array().map(Vec::len), Some(1), "{shown}");
    assert!(shown["prompt"].as_str().is_some_and(|it| it.contains("painted blue")), "{shown}");

    let state = desk.call("library", json!({})).expect("a state");
    assert_eq!(state["folders"][0]["confined"], false);
    let mark = json!({ "folder": state["folders"][0]["id"], "confined": true });
    desk.call("library_confine", mark).expect("marked");
    let state = desk.call("library", json!({})).expect("a state");
    assert_eq!(state["folders"][0]["confined"], true);
    let shown = preview();
    assert_eq!((&shown["heldBack"], &shown["passages"]), (&json!(1), &json!([])));
    assert!(!shown.to_string().contains("painted blue"), "{shown}");
}

#[test]
fn keys_do_not_come_back() {
    let desk = Desk::new();
    let state = desk.call("endpoint_key", json!({})).expect("a state");
    assert!(state["place"].is_string(), "{state}");
    let refused = desk.call("endpoint_key_set", json!({ "key": "two words" }));
    let refused = refused.expect_err("no key").to_string();
    assert!(!refused.contains("two words"), "{refused}");
}

#[test]
fn what_is_told_has_kinds_and_the_systems_words_are_the_interfaces() {
    let desk = Desk::new();
    let handle = desk.app.handle().clone();
    assert_eq!(crate::desktop::words(&handle).quit, "Quit");
    let words = json!({
        "show": "Riddle anzeigen", "quit": "Beenden", "foldersToSearch": "Ordner",
        "folderOfModel": "Modell", "saveFigures": "Messwerte",
    });
    desk.call("system_words", json!({ "words": words })).expect("taken");
    assert_eq!(crate::desktop::words(&handle).quit, "Beenden");
    assert!(desk.call("system_words", json!({ "words": { "show": "x" } })).is_err());
    // Advice is a kind with its fields, and what is wrong names no command.
    let use_it = json!({ "kind": "embedder", "name": "no-such-model" });
    let failure = desk.call("model_use", use_it).expect_err("not installed");
    assert_eq!(failure["advice"], json!({ "kind": "findModel", "name": "no-such-model" }));
    assert_eq!(failure["message"], "no model named \"no-such-model\" is installed");
    let added = desk.call("library_add", json!({ "paths": ["/no/such/folder"] })).expect("told");
    assert_eq!(added[0]["problem"]["advice"], Value::Null);
    assert!(added[0]["problem"]["message"].as_str().is_some_and(|it| it.contains("no such")));
}

#[test]
fn pausing_is_kept_and_settings_are_checked() {
    let desk = Desk::with(&[("a.md", "boat\n")]);
    desk.call("library_pause", json!({ "paused": true })).expect("paused");
    desk.wait_for(|it| it["phase"] == "paused");
    let mut settings = desk.call("settings", json!({})).expect("settings")["settings"].clone();
    settings["theme"] = json!("dark");
    settings["offline"] = json!(true);
    let set = desk.call("settings_set", json!({ "settings": settings })).expect("kept");
    assert_eq!(
        (set["settings"]["theme"].clone(), set["problems"].clone()),
        (json!("dark"), json!([]))
    );
    settings["textSize"] = json!(7);
    assert!(desk.call("settings_set", json!({ "settings": settings })).is_err());
    let again = Shell::open(desk.shell.config.clone()).expect("opens");
    assert_eq!(again.settings().settings.theme, crate::dto::Theme::Dark);
    assert!(again.indexer.doing().phase(false) != Phase::Watching);
    again.close();
    // Without a network nothing is fetched.
    let (events, _) = channel();
    let refused = desk.shell.pull_model("ms-marco-MiniLM-L-6-v2".to_owned(), None, events);
    assert_eq!(refused.expect_err("refused").code, crate::dto::FailureCode::Offline);
}

/// Weighed terms from the settings to the panels: chosen, made, seen as a third rank, and given up again.
#[test]
fn weighed_terms_are_chosen_seen_and_given_up() {
    let desk = Desk::with(&[("a.md", "The boat is on the bank.\n"), ("b.md", "Rye bread.\n")]);
    let why = |id: u32| {
        let hits = desk.hits(id, "boat");
        desk.call("why", json!({ "chunk": hits[0]["chunk"] })).expect("known")
    };
    assert_eq!(why(1)["termsHits"], Value::Null);
    let model =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/tiny-bert-sparse-encoder");
    let name = desk.shell.import_model(&model).expect("imported");
    let models = desk.call("models", json!({})).expect("listed");
    let listed = models["installed"].as_array().expect("a list").iter();
    assert!(listed.clone().any(|it| it["name"] == *name && it["kind"] == "sparseEncoder"));
    let choose = |name: Option<&str>| {
        desk.call("model_use", json!({ "kind": "sparseEncoder", "name": name })).expect("chosen");
    };
    choose(Some(&name));
    desk.wait_for(|it| it["phase"] == "watching" && it["indexBytes"]["terms"].as_u64() > Some(0));
    assert!(desk.call("model_remove", json!({ "name": name })).is_err(), "it is in use");
    let begun = Instant::now();
    let mut found = why(2);
    // The search opens the new index when it hears of it, and may see it before all of it is written.
    while found["termsHits"].as_u64().unwrap_or(0) == 0 && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(50));
        found = why(3);
    }
    assert!(found["termsHits"].as_u64() > Some(0), "{found:#}");
    assert!(found["ranks"]["terms"].is_u64(), "{found:#}");
    let trace = desk.call("pipeline", json!({})).expect("traced");
    let stages: Vec<&str> = trace["stages"]
        .as_array()
        .expect("stages")
        .iter()
        .filter_map(|it| it["stage"].as_str())
        .collect();
    assert!(
        trace["terms"] == true && stages.contains(&"weigh") && stages.contains(&"terms"),
        "{stages:?}"
    );

    choose(None);
    let begun = Instant::now();
    while !why(4)["termsHits"].is_null() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(why(5)["termsHits"], Value::Null);
    desk.call("model_remove", json!({ "name": name })).expect("removed");
}

#[test]
fn a_panic_unloads_a_part_and_the_rest_goes_on() {
    let desk = Desk::with(&[("a.md", "boat\n")]);
    let (channel, told) = channel();
    desk.shell.subscribe(channel);
    desk.shell.engine.find(|_| panic!("on purpose"));
    desk.shell.engine.run(|_| panic!("on purpose"));
    assert_eq!(desk.hits(1, "boat").len(), 1);
    let event = until(&told, &["partUnloaded"]).pop().expect("a banner");
    assert_eq!(event["message"], "on purpose");
    let lost = desk.shell.engine.ask(|_| -> crate::failure::Reply<()> { panic!("again") });
    assert_eq!(lost.expect_err("lost").code, crate::dto::FailureCode::Unloaded);
    drop(AppEvent::Models);
}

#[test]
fn the_pipeline_is_replayed_and_compared() {
    let desk = Desk::with(&[
        ("a.md", "The winter mooring starts in November.\n"),
        ("b.md", "The summer mooring starts in April.\n"),
        ("c.md", "A mooring line is not a rope.\n"),
        ("d.md", "Winter wheat is sown in autumn.\n"),
    ]);
    let model = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/golden/tiny-bert-cross-encoder")
        .canonicalize()
        .expect("the model is in the repository");
    let choose = json!({ "kind": "reranker", "name": model });
    desk.call("model_use", choose).expect("chosen");
    let mut settings = desk.call("settings", json!({})).expect("settings")["settings"].clone();
    settings["results"] = json!(5);
    desk.call("settings_set", json!({ "settings": settings })).expect("kept");

    let events = desk.search(1, "winter mooring");
    assert_eq!(events.first().map(|it| it["reranking"].clone()), Some(json!(true)));
    let layers = names(&events).into_iter().filter(|it| *it == "layer").count();
    let trace = desk.call("pipeline", json!({})).expect("a trace");
    assert_eq!(trace["layers"].as_array().map(Vec::len), Some(layers));
    assert_eq!(trace["replayable"], true);
    assert!(
        trace["memory"].as_array().is_some_and(|it| !it.is_empty()) || !cfg!(target_os = "linux")
    );
    let replay = |threshold: Value| {
        let request = json!({ "request": { "threshold": threshold, "mode": "set" } });
        desk.call("pipeline_replay", request).expect("replayed")
    };
    let full = replay(Value::Null);
    assert_eq!((full["computedShare"].clone(), full["lost"].clone()), (json!(1.0), json!([])));
    assert_eq!(full["sameOrder"], true);
    assert!(replay(json!(0.0))["computedShare"].as_f64().expect("a share") <= 1.0);
    assert!(
        desk.call("pipeline_replay", json!({ "request": { "threshold": -1.0, "mode": "set" } }))
            .is_err()
    );
    let curve = desk.call("pipeline_curve", json!({ "mode": "set" })).expect("a curve");
    assert_eq!(curve.as_array().map(Vec::len), Some(41));

    let compared = desk.call("pipeline_compare", json!({})).expect("compared");
    assert_eq!(
        (compared["sameOrder"].clone(), compared["sameSet"].clone()),
        (json!(true), json!(true))
    );
    // Pruned, the trace is not of a full forward: it is run once, when somebody asks.
    settings["rerank"]["mode"] = json!("set");
    settings["rerank"]["pruning"] = json!({ "kind": "threshold", "threshold": 0.0 });
    desk.call("settings_set", json!({ "settings": settings })).expect("kept");
    desk.search(2, "winter mooring");
    let full = replay(Value::Null);
    assert_eq!(full["computedShare"], 1.0);
    let chunk = desk.hits(3, "winter mooring")[0]["chunk"].clone();
    let why = desk.call("why", json!({ "chunk": chunk })).expect("known");
    assert!(why["layers"].as_array().is_some_and(|it| !it.is_empty()), "{why}");
}
