//! What scripts may rely on: exit codes, one JSON value, one line of failure.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use riddle_tests::{Riddle, Running, notes, tiny_model, write};
use serde_json::Value;
use tempfile::TempDir;

/// A home with a few files.
fn library() -> (Riddle, TempDir) {
    let (riddle, files) = (Riddle::new(), TempDir::new().expect("a temporary folder"));
    notes(files.path(), 8);
    write(files.path(), "boat.md", "# The boat\n\nThe hull of the Marlin is painted vermilion.\n");
    write(files.path(), "empty.md", "");
    riddle.index(files.path());
    (riddle, files)
}

fn has_number(value: &Value, path: &str) {
    assert!(value.pointer(path).is_some_and(Value::is_number), "{path} is no number in {value:#}");
}

#[test]
fn search_has_the_promised_fields() {
    let (riddle, _files) = library();
    let response = riddle.json(&["search", "vermilion hull", "-k", "3"]);
    assert_eq!(response["query"], "vermilion hull");
    let hit = &response["hits"][0];
    assert_eq!((&hit["rank"], &hit["location"]["kind"]), (&1.into(), &"line".into()), "{hit:#}");
    assert!(hit["path"].as_str().is_some_and(|it| it.ends_with("/boat.md")), "{hit:#}");
    assert!(hit["text"].as_str().is_some_and(|it| it.contains("vermilion")), "{hit:#}");
    assert!(hit["title"].is_string());
    has_number(hit, "/score");
    assert_eq!(hit["trace"]["bm25_rank"], 1);
    for key in ["vector_rank", "fused_rank", "decided_at_layer"] {
        assert!(hit["trace"].as_object().is_some_and(|it| it.contains_key(key)), "{key}: {hit:#}");
    }
    for stage in ["bm25", "embed", "vector", "fuse", "rerank", "total"] {
        has_number(&response, &format!("/timings_ms/{stage}"));
    }
    assert!(response["timings_ms"]["total"].as_f64() > Some(0.0), "{response:#}");
    assert!(response["memory"]["peak_rss_bytes"].as_u64() > Some(1 << 20), "{response:#}");
    has_number(&response, "/memory/resident_weight_bytes");
    has_number(&response, "/index/as_of");
    assert_eq!(response["index"]["files_behind"], 0);
}

#[test]
fn ask_has_the_promised_fields() {
    let (riddle, _files) = library();
    let response = riddle.json(&["ask", "How is the hull of the Marlin painted?"]);
    let answer = response["answer"].as_str().expect("an answer");
    assert!(answer.contains("vermilion") && answer.contains("[1]"), "{answer}");
    let citation = &response["citations"][0];
    assert_eq!(citation["n"], 1);
    assert!(citation["path"].as_str().is_some_and(|it| it.ends_with("/boat.md")), "{citation:#}");
    assert!(citation["quote"].as_str().is_some_and(|it| it.contains("vermilion")), "{citation:#}");
    assert_eq!(citation["location"]["kind"], "line");
    let support = &response["supported"][0];
    assert_eq!((&support["citation"], &support["score"]), (&1.into(), &1.0.into()), "{support:#}");
    assert_eq!(response["llm"], "extractive");
    for stage in ["bm25", "total", "first_token", "generate"] {
        has_number(&response, &format!("/timings_ms/{stage}"));
    }
    has_number(&response, "/memory/peak_rss_bytes");

    let unknown = riddle.json(&["ask", "Who won the chess olympiad in Reykjavik?"]);
    assert_eq!(unknown["answer"], Value::Null, "{unknown:#}");
    assert!(unknown["reason"].as_str().is_some_and(|it| !it.is_empty()), "{unknown:#}");
}

#[test]
fn status_tells_states_sizes_and_memory() {
    let (riddle, files) = library();
    let status = riddle.json(&["status", "--files"]);
    assert_eq!((&status["states"]["indexed"], &status["queue"]), (&9.into(), &0.into()));
    assert_eq!(status["files"].as_array().map(Vec::len), Some(10), "{status:#}");
    let root = files.path().canonicalize().expect("there");
    assert_eq!(status["roots"][0]["path"].as_str(), root.to_str());
    for size in ["catalog", "keyword"] {
        assert!(status["index_bytes"][size].as_u64() > Some(0), "{size}: {status:#}");
    }
    has_number(&status, "/memory/peak_rss_bytes");
    assert_eq!(riddle.state_of("empty.md").0, "no_text");
}

/// Every command with `--json` prints one value, whatever it has to say.
#[test]
fn json_is_one_value_on_every_command() {
    let (riddle, files) = library();
    let folder = files.path().to_string_lossy().into_owned();
    let model = tiny_model("tiny-bert-cross-encoder").to_string_lossy().into_owned();
    let request = files.path().join(".request.json");
    std::fs::write(&request, r#"{"query": "boat", "documents": ["a", "b"]}"#).expect("written");
    let request = request.to_string_lossy().into_owned();
    for args in [
        &["index", &folder][..],
        &["index"],
        &["index", "--retry-failed"],
        &["search", "boat"],
        &["search", "boat", "--explain", "-v"],
        &["search", "nothing-like-it-anywhere"],
        &["ask", "Which boat?"],
        &["status"],
        &["status", "--files"],
        &["status", "--check"],
        &["rerank", "--model", &model, &request],
        &["models", "list"],
        &["models", "list", "--available"],
        &["models", "verify"],
        &["models", "use", "none"],
    ] {
        assert!(riddle.json(args).is_object(), "{args:?}");
    }
}

#[test]
fn readable_output_has_no_colors_in_a_pipe() {
    let (riddle, _files) = library();
    let model = tiny_model("tiny-bert-cross-encoder").to_string_lossy().into_owned();
    for args in [
        &["search", "vermilion", "--explain"][..],
        &["search", "vermilion", "--model", &model],
        &["ask", "How is the hull of the Marlin painted?"],
        &["status", "--files"],
        &["index"],
    ] {
        let text = riddle.run(args).ok();
        assert!(!text.contains('\x1b'), "{args:?}: {text}");
        assert!(text.contains("peak memory"), "{args:?}: {text}");
    }
    let text = riddle.run(&["search", "vermilion", "--explain"]).ok();
    for part in [" 1. ", "/boat.md · line", "keywords #1", "order: ", "total "] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    let text = riddle.run(&["search", "vermilion", "--model", &model]).ok();
    assert!(text.contains("order: reranked by tiny-bert-cross-encoder"), "{text}");
    let text = riddle.run(&["ask", "How is the hull of the Marlin painted?"]).ok();
    assert!(text.contains("[1] ") && text.contains("files not searched: 1 no text"), "{text}");
}

#[test]
fn wrong_usage_is_2_and_a_failed_run_is_1() {
    let riddle = Riddle::new();
    for args in [
        &["search"][..],
        &["search", "x", "-k", "0"],
        &["search", "x", "--type", "song"],
        &["search", "x", "--after", "tomorrow"],
        &["serve", "--port", "many"],
        &["serve", "--beyond-this-machine"],
        &["mcp", "install", "emacs"],
        &["bench"],
        &["--no-such-option"],
        &["rerank", "--model", "m", "--mode", "fast"],
        &["ask", "x", "--llm", "oracle"],
    ] {
        let outcome = riddle.run(args);
        assert_eq!(
            (outcome.code, outcome.stdout.as_str()),
            (Some(2), ""),
            "{args:?}: {outcome:#?}"
        );
        assert!(!outcome.stderr.is_empty(), "{args:?}");
    }
    for (args, says) in [
        (&["search", "x"][..], "riddle index"),
        (&["ask", "x"], "riddle index"),
        (&["index", "/no/such/folder"], "/no/such/folder"),
        (&["ask", "x", "--llm", "local:qwen3"], "riddle index"),
        (&["models", "remove", "no-such-model"], "no-such-model"),
        (&["models", "pull", "all-MiniLM-L6-v2"], "import"),
        (&["eval", "/no/such/dataset"], "corpus.jsonl"),
    ] {
        let mut command = riddle.command(args);
        command.arg("--json");
        let line = Running::start(command).wait().failed(1);
        assert!(line.contains(says), "{args:?}: {line}");
    }
}

#[test]
fn help_and_completions_are_output() {
    let riddle = Riddle::new();
    assert!(riddle.run(&["--help"]).ok().contains("completions"));
    assert!(!riddle.run(&["--help"]).ok().contains("parse-worker"));
    assert!(riddle.run(&["--version"]).ok().starts_with("riddle "));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(riddle.run(&["completions", shell]).ok().contains("riddle"), "{shell}");
    }
}

#[test]
fn a_reader_that_has_gone_ends_the_command_quietly() {
    let (riddle, _files) = library();
    for args in
        [&["completions", "bash"][..], &["search", "boat"], &["status", "--files", "--json"]]
    {
        let mut command = riddle.command(args);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        // Closed before anything is written: the first write fails.
        drop(child.stdout.take());
        let outcome = child.wait_with_output().expect("it ends");
        assert_eq!(outcome.status.code(), Some(0), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&outcome.stderr), "", "{args:?}");
    }
    // As people do it.
    let mut command = riddle.command(&["status", "--files"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let stdout = child.stdout.take().expect("a pipe");
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    assert!(line.starts_with("home"), "{line}");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn the_home_may_come_from_the_option_or_the_environment() {
    let (riddle, _files) = library();
    let home = riddle.home().to_string_lossy().into_owned();
    let mut command = Command::new(riddle_tests::program());
    command.env_clear().args(["search", "vermilion", "--json", "--home", &home]);
    let found = Running::start(command).wait().json();
    assert_eq!(found["hits"].as_array().map(Vec::len), Some(1), "{found:#}");
    let mut command = Command::new(riddle_tests::program());
    command.env_clear().args(["search", "vermilion"]);
    let line = Running::start(command).wait().failed(1);
    assert!(line.contains("RIDDLE_HOME"), "{line}");
}

#[test]
fn empty_and_huge_queries_have_a_defined_end() {
    let (riddle, _files) = library();
    for command in ["search", "ask"] {
        for empty in ["", "   "] {
            let line = riddle.run(&[command, empty]).failed(1);
            assert!(line.contains("empty"), "{command}: {line}");
        }
        // One word, and many: the limit of a single argument is 128 KiB on Linux.
        for huge in
            ["x".repeat(100_000), "vermilion hull ".repeat(6_666), "\"'(+-*:".repeat(14_000)]
        {
            let response = riddle.json(&[command, &huge]);
            assert!(response.is_object(), "{command}");
        }
    }
    for odd in ["\"", "a AND", "title:", "((", "*", "\u{202e}x", "🚤", "-", "a:b:c^2~"] {
        let response = riddle.run(&["search", "--json", "--", odd]).json();
        assert!(response["hits"].is_array(), "{odd:?}");
    }
}
