//! Answers by a real llama.cpp server, over a tiny model made for that.
//!
//! `RIDDLE_LLAMA_SERVER` names a Python with `llama-cpp-python[server]`, `gguf` and `numpy`.

use std::{
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use riddle_tests::{Running, skipped, workspace};
use tempfile::TempDir;

use crate::remote::{QUESTION, asking, indexed};

/// The Python that can run the server, if there is any.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("RIDDLE_LLAMA_SERVER").map(PathBuf::from);
    let python = named.clone().unwrap_or_else(|| PathBuf::from("python3"));
    let has_all = Command::new(&python)
        .args(["-c", "import llama_cpp.server, gguf, numpy"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|it| it.success());
    if has_all {
        return Some(python);
    }
    // Who names one wants it to be used.
    assert!(named.is_none(), "RIDDLE_LLAMA_SERVER can not run llama_cpp.server and gguf");
    skipped(
        "no answer by a real llama.cpp server: set RIDDLE_LLAMA_SERVER to a Python with llama-cpp-python[server] and gguf",
    );
    None
}

/// A server that runs while this lives.
struct Server {
    _running: Running,
    _folder: TempDir,
    url: String,
}

impl Server {
    /// Over a model that says `says`, or noise.
    fn start(python: &Path, says: Option<&str>, context: u32) -> Server {
        let folder = TempDir::new().expect("a temporary folder");
        let model = folder.path().join("tiny.gguf");
        let mut make = Command::new(python);
        make.arg(workspace().join("tests/peers/tiny_gguf.py")).arg(&model);
        make.args(says.iter().flat_map(|it| ["--says", it]));
        assert!(make.status().is_ok_and(|it| it.success()), "the model is not made");
        // Free a moment ago; nobody else asks for ports of that range meanwhile.
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
        let mut command = Command::new(python);
        command
            .args(["-m", "llama_cpp.server", "--host", "127.0.0.1", "--n_threads", "1", "--model"])
            .arg(&model)
            .args(["--port", &port.to_string(), "--n_ctx", &context.to_string()])
            .stdin(Stdio::null());
        let mut running = Running::start(command);
        running.until("the server answers", || {
            TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), Duration::from_millis(200))
                .is_ok()
        });
        Server { _running: running, _folder: folder, url: format!("http://127.0.0.1:{port}/v1") }
    }
}

#[test]
fn a_llama_cpp_server_answers_and_ends_its_turn() {
    let Some(python) = python() else { return };
    let server = Server::start(&python, Some("The hull is blue [1]."), 4096);
    let riddle = indexed();
    let response = riddle.json(&asking(QUESTION, &server.url));
    assert_eq!(response["answer"], "The hull is blue [1].", "{response:#}");
    assert_eq!((&response["tokens"], &response["llm"]), (&5.into(), &"remote:small".into()));
    assert_eq!(response["citations"].as_array().map(Vec::len), Some(1), "{response:#}");
    assert!(response["timings_ms"]["first_token"].as_f64().is_some_and(|it| it > 0.0));
    assert!(!response["notices"].to_string().contains("cut off"), "{response:#}");
    // It says the same when it is to rewrite a question, and that is about the thread's subject.
    let args = [&asking("And its color?", &server.url)[..], &["--follows", QUESTION]].concat();
    let response = riddle.json(&args);
    assert_eq!(response["rewritten"], true, "{response:#}");
    assert_eq!(response["searched_for"], "The hull is blue [1].", "{response:#}");
}

#[test]
fn noise_without_an_end_is_cut_off_and_stays_text() {
    let Some(python) = python() else { return };
    let server = Server::start(&python, None, 4096);
    let riddle = indexed();
    let response = riddle.json(&asking(QUESTION, &server.url));
    assert!(response["tokens"].as_u64().is_some_and(|it| it > 0 && it <= 512), "{response:#}");
    assert!(response["notices"].to_string().contains("cut off at its longest"), "{response:#}");
    let page = riddle.run(&asking(QUESTION, &server.url)).ok();
    assert!(!page.contains(|it: char| it.is_control() && it != '\n'), "{page:?}");
}

#[test]
fn a_prompt_that_is_too_long_for_the_server_is_told_with_its_reason() {
    let Some(python) = python() else { return };
    let server = Server::start(&python, Some("Never said."), 512);
    let line = indexed().run(&asking(QUESTION, &server.url)).failed(1);
    assert!(line.contains("maximum context length is 512"), "{line}");
    assert!(line.contains("--llm-context"), "{line}");
}
