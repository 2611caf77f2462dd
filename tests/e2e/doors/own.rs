//! The person's own programs: the command line on the engine that is open already.

use std::fs;

use riddle_tests::write;
use serde_json::Value;

use super::{Served, mcp::Pipe};

/// Numbers of the passages that were found.
fn chunks(found: &Value) -> Vec<u64> {
    let hits = found["hits"].as_array().expect("hits").iter();
    hits.filter_map(|it| it["chunk"].as_u64()).collect()
}

#[test]
fn the_command_line_asks_the_engine_that_is_open_and_finds_the_same() {
    let served = Served::start(&[]);
    let riddle = &served.riddle;
    let query = "wisdom tooth of the mooring master";
    let there = riddle.json(&["search", query]);
    let here = riddle.json(&["search", query, "--alone"]);
    assert_eq!((&there["resident"], here.get("resident")), (&Value::Bool(true), None), "{there:#}");
    assert_eq!(chunks(&there), chunks(&here));
    for name in ["hits", "order", "notices", "index", "promise"] {
        assert_eq!(there.get(name), here.get(name), "{name}");
    }
    // It is the person's own: nothing is held back, and it is in no log of other programs.
    assert!(
        there["hits"][0]["path"].as_str().is_some_and(|it| it.ends_with("teeth.md")),
        "{there}"
    );
    assert_eq!(riddle.json(&["clients", "log"])["entries"], serde_json::json!([]));
    let question = "How much does the winter mooring cost a year?";
    let asked = riddle.json(&["ask", question]);
    let alone = riddle.json(&["ask", question, "--alone"]);
    assert_eq!(
        (&asked["resident"], alone.get("resident")),
        (&Value::Bool(true), None),
        "{asked:#}"
    );
    for name in ["answer", "citations", "supported", "evidence", "not_searched", "llm"] {
        assert_eq!(asked.get(name), alone.get(name), "{name}");
    }
    let (said, alone) =
        (riddle.run(&["ask", question]).ok(), riddle.run(&["ask", question, "--alone"]).ok());
    assert_eq!(said.lines().next(), alone.lines().next());
    assert!(
        said.contains("in the process that is open") && alone.contains("of which weights"),
        "{said}"
    );
    // What is special is computed where it is asked for.
    let special = riddle.json(&["search", query, "--threshold", "0.5"]);
    assert_eq!(special.get("resident"), None, "{special:#}");
}

#[test]
fn everybody_at_once_has_one_copy_of_the_models() {
    let served = Served::start(&[]);
    let weights = || {
        let figures = served.get("/metrics").body;
        let line = figures.lines().find_map(|it| it.strip_prefix("riddle_model_weight_bytes "));
        line.and_then(|it| it.parse::<u64>().ok()).expect("a figure")
    };
    served.post("/api/search", &serde_json::json!({"query": "mooring"})).json(200);
    let once = weights();
    assert!(once > 0);
    let mut pipe = Pipe::start(&served.riddle, &[]);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| served.riddle.json(&["search", "winter mooring"])))
            .collect();
        let found = pipe.call("search", &serde_json::json!({"query": "winter mooring"}));
        assert_eq!(found["isError"], false);
        for it in all {
            let found = it.join().expect("found");
            assert_eq!(found["resident"], true, "{found}");
            assert_eq!(found["memory"]["resident_weight_bytes"], once, "{found}");
        }
    });
    assert_eq!(weights(), once);
    assert_eq!(pipe.end(), Some(0));
}

#[test]
fn what_was_just_indexed_is_found_and_without_a_server_the_library_is_opened() {
    let served = Served::start(&[]);
    let more = served.files.path().join("more");
    write(&more, "new.md", "A zorbakox sleeps in the shed.\n");
    served.riddle.json(&["search", "zorbakox"]);
    served.riddle.index(&more);
    let found = served.riddle.json(&["search", "zorbakox"]);
    assert_eq!(found["resident"], true);
    assert!(
        found["hits"][0]["path"].as_str().is_some_and(|it| it.ends_with("new.md")),
        "{found:#}"
    );
    let socket = served.riddle.home().join("doors.sock");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&socket).expect("there").permissions().mode() & 0o777, 0o600);
    }
    // A server that was killed leaves its socket behind.
    let Served { riddle, files, running, .. } = served;
    drop(running);
    assert!(socket.exists());
    let found = riddle.json(&["search", "zorbakox"]);
    assert_eq!((found.get("resident"), chunks(&found).is_empty()), (None, false), "{found}");
    // The next one takes its place, and takes it along when it ends.
    let served = Served::serving(riddle, files, &[]);
    assert_eq!(served.riddle.json(&["search", "zorbakox"])["resident"], true);
    served.stop();
    assert!(!socket.exists());
}

#[cfg(unix)]
#[test]
fn the_own_socket_answers_own_programs_alone() {
    use std::{
        io::{Read as _, Write as _},
        os::unix::net::UnixStream,
    };
    let served = Served::start(&[]);
    let ask = |path: &str, host: &str, body: &str| {
        let mut stream =
            UnixStream::connect(served.riddle.home().join("doors.sock")).expect("opens");
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("answered");
        text.split(' ').nth(1).and_then(|it| it.parse::<u16>().ok()).expect("a status")
    };
    assert_eq!(ask("/own/search", "localhost", "{}"), 400);
    assert_eq!(ask("/own/search", "localhost", "[1"), 400);
    assert_eq!(ask("/api/search", "localhost", "{\"query\": \"x\"}"), 404, "one way, one purpose");
    assert_eq!(ask("/own/search", "evil.test", "{}"), 403);
    let other = serde_json::json!({
        "like": {"version": "0.0.0", "models": "/elsewhere"}, "query": "x", "k": 1,
        "filter": {},
        "keyword_candidates": 1, "vector_candidates": 1, "fused_candidates": 1,
        "rerank": false, "explain": false,
    });
    assert_eq!(ask("/own/search", "localhost", &other.to_string()), 409, "another program's");
    // Over the port there is no such way, whatever one knows.
    let body = serde_json::json!({"query": "x"});
    assert!(served.post("/own/search", &body).is(404));
}
