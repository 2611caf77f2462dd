//! Programs by name: what each may see, what was asked, and how one is sent away. And the other ways in: a socket in
//! the file system, and a page to try it all.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Served, mcp::Pipe, request};

/// Lets a program in; its token.
fn add(served: &Served, args: &[&str]) -> String {
    let told = served.riddle.json(&[&["clients", "add"], args].concat());
    told["token"].as_str().expect("a token").to_owned()
}

fn post(served: &Served, token: &str, path: &str, body: &Value) -> super::Answer {
    let heads = served.heads(&[("Authorization", &format!("Bearer {token}"))]);
    request(served.port, "POST", path, &heads, &body.to_string())
}

fn files(of: &Value) -> Vec<&str> {
    let passages = of["passages"].as_array().expect("passages").iter();
    passages.filter_map(|it| it["file"].as_str()).collect()
}

#[test]
fn a_program_sees_its_folders_and_asks_its_tools() {
    let served = Served::start(&[]);
    let bakery = served.files.path().join("bakery");
    riddle_tests::write(&bakery, "oven.md", "The oven of the bakery was built in 1931.\n");
    served.riddle.index(&bakery);
    // A server looks now and then whether something was indexed.
    let begun = Instant::now();
    while !served.found("oven 1931").contains(&"bakery/oven.md".to_owned()) {
        assert!(begun.elapsed() < Duration::from_secs(60), "never found");
        thread::sleep(Duration::from_millis(50));
    }
    let folder = bakery.to_string_lossy().into_owned();
    let args = ["baker", "--tool", "search,read,status,check_claims", "--folder", &folder];
    let token = add(&served, &args);
    let asked = json!({"query": "oven 1931", "rerank": false});
    let all = served.post("/api/search", &asked).json(200);
    let all = files(&all).len();
    let found = post(&served, &token, "/api/search", &asked).json(200);
    assert!(all > 1 && files(&found) == ["bakery/oven.md"], "{found}");
    // What stands elsewhere is not there, by whatever way it is asked for.
    let elsewhere = served.post("/api/search", &json!({"query": "mooring", "rerank": false}));
    let id = elsewhere.json(200)["passages"][0]["id"].clone();
    assert!(served.post("/api/read", &json!({"id": id})).is(200));
    assert!(post(&served, &token, "/api/read", &json!({"id": id})).is(404));
    let claims = json!({"claims": ["The mooring costs 640 euros."], "ids": [id]});
    assert!(post(&served, &token, "/api/check-claims", &claims).is(404));
    let notes = json!({"query": "oven", "folders": ["notes"]});
    assert!(post(&served, &token, "/api/search", &notes).is(400));
    let named = post(
        &served,
        &token,
        "/mcp",
        &json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "status"},
        }),
    );
    assert_eq!(named.json(200)["result"]["structuredContent"]["folders"], json!(["bakery"]));
    // What it may not ask, it is told so; and it is not offered.
    for (path, body) in [
        ("/v1/rerank", json!({"query": "x", "documents": ["y"]})),
        ("/v1/embeddings", json!({"input": "x"})),
        ("/v1/chat/completions", json!({"messages": [{"role": "user", "content": "x"}]})),
        ("/v1/responses", json!({"input": "x"})),
        ("/api/ask", json!({"question": "x"})),
    ] {
        assert!(post(&served, &token, path, &body).is(403), "{path}");
    }
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let tools = post(&served, &token, "/mcp", &list).json(200);
    assert_eq!(tools["result"]["tools"].as_array().map(Vec::len), Some(4), "{tools}");
    // More, and less, from the next request on.
    served.riddle.run(&["clients", "set", "baker", "--type", "pdf"]).ok();
    let none = post(&served, &token, "/api/search", &asked).json(200);
    assert!(files(&none).is_empty(), "{none}");
    served.riddle.run(&["clients", "revoke", "baker"]).ok();
    assert!(post(&served, &token, "/api/search", &asked).is(403));
    served.riddle.run(&["clients", "remove", "baker"]).ok();
    assert!(post(&served, &token, "/api/search", &asked).is(401));
    assert!(served.post("/api/search", &asked).is(200), "the home's own token goes on");
}

#[test]
fn marked_folders_are_given_to_the_program_that_the_person_names_alone() {
    let served = Served::start(&[]);
    let open = add(&served, &["doctor", "--with-confined"]);
    let other = add(&served, &["other"]);
    let asked = json!({"query": "wisdom tooth dentist", "rerank": false});
    let sees = |token: &str| {
        let found = post(&served, token, "/api/search", &asked).json(200);
        files(&found).iter().any(|it| it.starts_with("medical/"))
    };
    assert!(sees(&open) && !sees(&other) && !sees(&served.token));
}

#[test]
fn what_was_asked_is_in_the_log_and_can_be_forgotten() {
    let served = Served::start(&[]);
    let token = add(&served, &["editor"]);
    post(&served, &token, "/api/search", &json!({"query": "winter mooring", "rerank": false}))
        .json(200);
    post(&served, "0123", "/api/search", &json!({"query": "secret"}));
    let log = || served.riddle.json(&["clients", "log"]);
    let entries = log()["entries"].as_array().expect("entries").clone();
    let refused = &entries[0];
    assert_eq!((&refused["outcome"], &refused["known"]), (&json!("refused"), &json!(false)));
    assert!(refused.get("asked").is_none(), "nobody reads what a stranger sends");
    let searched = &entries[1];
    assert_eq!(searched["client"], "editor");
    assert_eq!(searched["asked"], "winter mooring");
    assert!(searched["passages"].as_u64() > Some(0), "{searched}");
    let text = served.riddle.run(&["clients", "log", "editor"]).ok();
    assert!(text.contains("\"winter mooring\"") && text.lines().count() == 1, "{text}");
    served.riddle.run(&["clients", "log", "--forget"]).ok();
    assert_eq!(log()["entries"], json!([]));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let file = served.riddle.home().join("doors.clients.json");
        let mode = fs::metadata(file).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn an_assistant_is_installed_under_its_name_and_can_be_sent_away() {
    let served = Served::start(&[]);
    let riddle = &served.riddle;
    riddle.run(&["clients", "add", "cursor", "--tool", "search"]).ok();
    // Over a pipe, beside the server and through it.
    for alone in [&["--client", "cursor", "--alone"][..], &["--client", "cursor"]] {
        let mut pipe = Pipe::start(riddle, alone);
        let asked = json!({"query": "winter mooring", "rerank": false});
        assert_eq!(pipe.call("search", &asked)["isError"], false);
        assert_eq!(
            pipe.call("rerank", &json!({"query": "x", "documents": ["y"]}))["isError"],
            true
        );
        riddle.run(&["clients", "revoke", "cursor"]).ok();
        let refused = pipe.ask("tools/call", &json!({"name": "search", "arguments": asked}));
        assert_eq!(refused["error"]["code"], -32001, "{refused}");
        riddle.run(&["clients", "set", "cursor", "--tool", "search"]).ok();
        pipe.end();
    }
    let entries = riddle.json(&["clients", "log", "cursor"]);
    let entries = entries["entries"].as_array().expect("entries").clone();
    assert!(entries.iter().filter(|it| it["what"] == "search").count() >= 2, "{entries:?}");
    assert!(entries.iter().all(|it| it["known"] == true), "{entries:?}");
    let mut stranger = Pipe::start(riddle, &["--client", "nobody", "--alone"]);
    assert_eq!(stranger.ask("tools/list", &json!({}))["error"]["code"], -32001);
}

#[test]
fn names_and_tools_that_are_none_are_told() {
    let riddle = riddle_tests::Riddle::new();
    for (args, word) in [
        (&["clients", "add", "a/b"][..], "letters"),
        (&["clients", "add", "x", "--tool", "erase"], "check_claims"),
        (&["clients", "revoke", "x"], "no program"),
        (&["clients", "set", "x"], "clients add"),
    ] {
        let outcome = riddle.run(args);
        assert!(outcome.failed(1).contains(word), "{args:?}");
    }
    let text = riddle.run(&["clients"]).ok();
    assert!(text.contains("no program has a name"), "{text}");
}

#[cfg(unix)]
#[test]
fn a_socket_in_the_file_system_is_a_way_in_as_well() {
    use std::{
        io::{Read as _, Write as _},
        os::unix::{fs::PermissionsExt as _, net::UnixStream},
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("riddle.sock");
    let served = Served::start(&["--socket", &path.to_string_lossy()]);
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    let ask = |host: &str, token: &str| {
        let mut stream = UnixStream::connect(&path).expect("opens");
        let head = format!(
            "GET /api/search?q=mooring&rerank=false HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("answered");
        text.split(' ').nth(1).and_then(|it| it.parse::<u16>().ok()).expect("a status")
    };
    assert_eq!(ask("localhost", &served.token), 200);
    assert_eq!(ask("localhost", "wrong"), 401);
    assert_eq!(ask("evil.test", &served.token), 403);
    served.stop();
    assert!(!path.exists(), "it goes with the server");
    // What is no socket stays, and nobody is told of a server that does not begin.
    fs::write(&path, "notes").expect("written");
    let riddle = riddle_tests::Riddle::new();
    let refused = riddle.run(&["serve", "--port", "0", "--socket", &path.to_string_lossy()]);
    assert!(refused.failed(1).contains("riddle.sock"));
    assert_eq!(fs::read_to_string(&path).expect("there"), "notes");
}

#[test]
fn a_response_is_what_a_chat_is() {
    let served = Served::start(&[]);
    let asked = json!({"model": "riddle", "input": "What does the winter mooring cost?"});
    let whole = served.post("/v1/responses", &asked).json(200);
    assert_eq!((&whole["object"], &whole["status"]), (&json!("response"), &json!("completed")));
    let part = &whole["output"][0]["content"][0];
    assert_eq!(part["type"], "output_text");
    let text = part["text"].as_str().expect("text");
    assert!(!text.is_empty());
    let streamed = served.post(
        "/v1/responses",
        &json!({"input": "What does the winter mooring cost?", "stream": true}),
    );
    let events: Vec<Value> = streamed
        .body
        .lines()
        .filter_map(|it| it.strip_prefix("data: "))
        .filter_map(|it| serde_json::from_str(it).ok())
        .collect();
    let kinds: Vec<&str> = events.iter().filter_map(|it| it["type"].as_str()).collect();
    assert_eq!(kinds.first(), Some(&"response.created"), "{}", streamed.body);
    assert_eq!(kinds.last(), Some(&"response.completed"));
    let numbers: Vec<u64> = events.iter().filter_map(|it| it["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    let said: String = events
        .iter()
        .filter(|it| it["type"] == "response.output_text.delta")
        .filter_map(|it| it["delta"].as_str())
        .collect();
    let last = events.last().expect("events");
    assert_eq!(last["response"]["output"][0]["content"][0]["text"], said);
    assert_eq!(said, text);
}

#[test]
fn the_page_to_try_it_runs_its_own_script_alone() {
    let served = Served::start(&[]);
    let heads = vec![("Host".to_owned(), format!("127.0.0.1:{}", served.port))];
    let page = request(served.port, "GET", "/docs", &heads, "");
    assert!(page.is(200) && page.body.contains("<script>"), "{}", page.body);
    let head = page.head.to_ascii_lowercase();
    let policy = head.lines().find_map(|it| it.strip_prefix("content-security-policy: "));
    let policy = policy.expect("a policy");
    assert!(policy.starts_with("default-src 'none'") && policy.contains("'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(!page.body.contains(&served.token));
    // It tells nothing that is not told to everybody: the routes themselves need the token.
    assert!(request(served.port, "GET", "/openapi.json", &heads, "").is(401));
}
