//! The Model Context Protocol, over a pipe and over HTTP, in both versions.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use riddle_tests::{Riddle, Running};
use serde_json::{Value, json};

use super::{Served, request};

/// `riddle mcp`, asked line by line.
pub(crate) struct Pipe {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Pipe {
    pub(crate) fn start(riddle: &Riddle, args: &[&str]) -> Pipe {
        let mut command = riddle.command(&[&["mcp"], args].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Pipe { child, input, output, next: 0 }
    }

    fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("open");
        writeln!(input, "{message}").expect("sent");
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    pub(super) fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let answer = self.line();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        answer["result"].clone()
    }

    /// Closes its input and waits for its end.
    pub(crate) fn end(mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().expect("ends").code()
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

/// What an assistant does, whoever answers.
fn conversation(pipe: &mut Pipe) {
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let welcome = pipe.ask("initialize", &hello);
    assert_eq!(welcome["result"]["protocolVersion"], "2025-11-25");
    pipe.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let tools = pipe.ask("tools/list", &json!({}));
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .filter_map(|it| it["name"].as_str())
        .collect();
    assert_eq!(names, ["search", "read", "answer", "check_claims", "rerank", "status"]);
    let found = pipe.call("search", &json!({"query": "winter mooring", "limit": 2}));
    assert_eq!(found["isError"], false, "{found}");
    let first = found["structuredContent"]["passages"][0].clone();
    assert_eq!(first["file"], "notes/boat.md", "{found}");
    let again = pipe.call("search", &json!({"query": "winter mooring", "limit": 2}));
    assert_eq!(found["content"][0]["text"], again["content"][0]["text"], "the same bytes");
    let read = pipe.call("read", &json!({"id": first["id"]}));
    assert_eq!(read["structuredContent"]["passages"][0]["text"], first["text"]);
    let resource = pipe.ask("resources/read", &json!({"uri": first["uri"]}));
    let text = resource["result"]["contents"][0]["text"].as_str().expect("text");
    assert!(text.contains("640"), "{text}");
    let answer =
        pipe.call("answer", &json!({"question": "How much does the winter mooring cost a year?"}));
    assert!(
        answer["structuredContent"]["answer"].as_str().is_some_and(|it| it.contains("640")),
        "{answer}"
    );
    let checked = pipe.call("check_claims", &json!({"claims": ["The hull is painted blue."]}));
    assert_eq!(checked["structuredContent"]["claims"][0]["verdict"], "supported", "{checked}");
    let ranked = pipe.call("rerank", &json!({"query": "q", "documents": ["a", {"text": "b"}]}));
    assert_eq!(ranked["structuredContent"]["results"].as_array().map(Vec::len), Some(2));
    let status = pipe.call("status", &json!({}));
    assert_eq!(status["structuredContent"]["folders"], json!(["notes"]));
    let hidden = pipe.call("search", &json!({"query": "wisdom tooth dentist"}));
    assert!(!hidden.to_string().contains("The dentist"), "{hidden}");
    let wrong = pipe.call("search", &json!({"query": "x", "path": "/etc"}));
    assert_eq!(wrong["isError"], true);
    assert_eq!(pipe.ask("tools/call", &json!({"name": "rm"}))["error"]["code"], -32602);
    // The other version, on the same pipe.
    let discovered = pipe.ask("server/discover", &modern(json!({})));
    assert_eq!(discovered["result"]["supportedVersions"][0], "2026-07-28", "{discovered}");
    let listed = pipe.ask("tools/list", &modern(json!({})));
    assert_eq!(
        (&listed["result"]["resultType"], &listed["result"]["cacheScope"]),
        (&json!("complete"), &json!("private"))
    );
    let found = pipe
        .ask("tools/call", &modern(json!({"name": "search", "arguments": {"query": "mooring ä"}})));
    assert_eq!(found["result"]["resultType"], "complete", "{found}");
    assert_eq!(found["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "riddle");
}

#[test]
fn an_assistant_is_answered_by_a_process_of_its_own_or_by_the_server_that_is_there() {
    let served = Served::start(&[]);
    let requests = |served: &Served| {
        let figures = served.get("/metrics").body;
        let routes = figures.lines().filter(|it| it.contains("seconds_count{route=\"/mcp\""));
        routes.filter_map(|it| it.rsplit_once(' ')?.1.parse::<u64>().ok()).sum::<u64>()
    };
    let mut attached = Pipe::start(&served.riddle, &[]);
    conversation(&mut attached);
    assert_eq!(attached.end(), Some(0));
    let through = requests(&served);
    assert!(through > 15, "{through}");
    let mut alone = Pipe::start(&served.riddle, &["--alone"]);
    conversation(&mut alone);
    assert_eq!(alone.end(), Some(0));
    assert_eq!(requests(&served), through, "it asked nobody");
    // A server that was killed left its place behind: it is not asked.
    let Served { riddle, running, .. } = served;
    drop(running);
    assert!(riddle.home().join("doors.json").exists());
    let mut orphan = Pipe::start(&riddle, &[]);
    conversation(&mut orphan);
    assert_eq!(orphan.end(), Some(0));
}

#[test]
fn the_end_of_input_is_the_end_and_what_was_asked_is_answered() {
    let riddle = Riddle::new();
    let mut command = riddle.command(&["mcp"]);
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    running.feed(|it| {
        writeln!(
            it,
            "{}",
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "status"}})
        )
    });
    let outcome = running.wait();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:#?}");
    let answer: Value = serde_json::from_str(&outcome.stdout).expect("one line");
    assert_eq!(answer["result"]["isError"], false, "{answer}");
}

#[test]
fn what_is_cancelled_is_not_answered() {
    let served = Served::start(&[]);
    for args in [&[][..], &["--alone"]] {
        let mut pipe = Pipe::start(&served.riddle, args);
        let documents: Vec<String> =
            (0..1000).map(|n| format!("passage {n} ").repeat(120)).collect();
        let params = json!({"name": "rerank", "arguments": {"query": "q", "documents": documents}});
        pipe.send(
            &json!({"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": params}),
        );
        pipe.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}}));
        assert_eq!(pipe.ask("ping", &json!({}))["result"], json!({}));
        assert_eq!(pipe.end(), Some(0));
    }
}

#[test]
fn over_http_a_head_says_what_the_body_says() {
    let served = Served::start(&[]);
    let ask = |heads: &[(&str, &str)], method: &str, params: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        request(served.port, "POST", "/mcp", &served.heads(heads), &body.to_string())
    };
    let version = ("MCP-Protocol-Version", "2026-07-28");
    let found = ask(
        &[version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "search")],
        "tools/call",
        modern(json!({"name": "search", "arguments": {"query": "mooring"}})),
    )
    .json(200);
    assert_eq!(found["result"]["resultType"], "complete");
    for heads in [
        &[version, ("Mcp-Method", "tools/list")][..],
        &[("Mcp-Method", "server/discover")],
        &[("MCP-Protocol-Version", "2025-11-25"), ("Mcp-Method", "server/discover")],
    ] {
        let answer = ask(heads, "server/discover", modern(json!({}))).json(400);
        assert_eq!(answer["error"]["code"], -32020, "{answer}");
    }
    let none = ask(&[version, ("Mcp-Method", "nothing")], "nothing", modern(json!({}))).json(404);
    assert_eq!(none["error"]["code"], -32601);
    // A client of before 2026: no session, an answer each.
    let hello = ask(&[], "initialize", json!({"protocolVersion": "2025-11-25"})).json(200);
    assert_eq!(hello["result"]["serverInfo"]["name"], "riddle");
    let tools = ask(&[("MCP-Protocol-Version", "2025-11-25")], "tools/list", json!({})).json(200);
    assert!(tools["result"].get("resultType").is_none());
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    let answer = request(served.port, "POST", "/mcp", &served.heads(&[]), &note);
    assert_eq!((answer.status, answer.body.as_str()), (202, ""));
    for method in ["GET", "DELETE"] {
        assert!(request(served.port, method, "/mcp", &served.heads(&[]), "").is(405));
    }
    let batch = request(served.port, "POST", "/mcp", &served.heads(&[]), "[]").json(400);
    assert_eq!(batch["error"]["code"], -32600);
    let page = served.heads(&[("Origin", "http://evil.test")]);
    assert!(request(served.port, "POST", "/mcp", &page, &note).is(403));
}

#[test]
fn configurations_of_assistants_get_an_entry_and_lose_it_again() {
    let riddle = Riddle::new();
    let person = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| {
        let mut command = riddle.command(args);
        command.env("HOME", person.path()).env_remove("XDG_CONFIG_HOME");
        Running::start(command).wait()
    };
    let file = person.path().join(".cursor/mcp.json");
    let shown = run(&["mcp", "install", "cursor", "--dry-run"]).ok();
    assert!(shown.contains("mcp.json") && shown.contains("\"riddle\""), "{shown}");
    assert!(!file.exists());
    fs::create_dir_all(file.parent().expect("a folder")).expect("made");
    fs::write(&file, "{\"mcpServers\": {\"other\": {\"command\": \"x\"}}}\n").expect("written");
    let home = riddle.home().to_string_lossy().into_owned();
    run(&["--home", &home, "mcp", "install", "cursor"]).ok();
    let read = |path: &Path| -> Value {
        serde_json::from_slice(&fs::read(path).expect("there")).expect("json")
    };
    let config = read(&file);
    assert_eq!(config["mcpServers"]["other"]["command"], "x");
    let entry = &config["mcpServers"]["riddle"];
    assert!(entry["command"].as_str().is_some_and(|it| Path::new(it).is_file()), "{entry}");
    assert!(
        entry["args"].as_array().is_some_and(|it| it[..5]
            == [json!("mcp"), json!("--client"), json!("cursor"), json!("--home"), json!(home)]),
        "{entry}"
    );
    assert!(file.with_file_name("mcp.json.before-riddle").is_file());
    // The entry starts what it says.
    let args: Vec<String> = serde_json::from_value(entry["args"].clone()).expect("texts");
    let mut started = riddle.command(&args);
    started.stdin(Stdio::null());
    assert_eq!(Running::start(started).wait().code, Some(0));
    let value: Value =
        serde_json::from_str(&run(&["mcp", "uninstall", "cursor", "--json"]).ok()).expect("json");
    assert_eq!(value["written"], true);
    assert_eq!(read(&file), json!({"mcpServers": {"other": {"command": "x"}}}));
    let nothing = run(&["mcp", "uninstall", "cursor"]).ok();
    assert!(nothing.contains("nothing to change"), "{nothing}");
    fs::write(&file, "{ broken").expect("written");
    let line = run(&["mcp", "install", "cursor"]).failed(1);
    assert!(line.contains("nothing was changed"), "{line}");
}
