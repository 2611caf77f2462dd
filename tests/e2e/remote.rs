//! Answers by a model behind an endpoint.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use riddle_tests::{Outcome, Riddle, Running};
use serde_json::Value;

/// An endpoint on this machine that says what it is told to, and keeps what it was asked. It is a proxy as well: what
/// is sent through it to other hosts, it answers in their place.
pub(crate) struct Endpoint {
    pub(crate) url: String,
    proxy: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// A request.
#[derive(Clone)]
struct Asked {
    /// Whom it was for, where it came through the proxy.
    through: Option<String>,
    head: String,
    body: Value,
}

impl Endpoint {
    fn saying(pieces: &'static [&'static str]) -> Endpoint {
        Endpoint::answering(&[pieces])
    }

    /// One answer after the other; the last one for all that follow.
    pub(crate) fn answering(answers: &[&'static [&'static str]]) -> Endpoint {
        let answers = answers.to_vec();
        let mut at = 0;
        Endpoint::doing(move |stream, _| {
            let pieces = answers[at.min(answers.len() - 1)];
            at += 1;
            answer(stream, pieces);
        })
    }

    /// Whatever it is told to do with every request.
    pub(crate) fn doing(mut deed: impl FnMut(TcpStream, &Value) + Send + 'static) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let proxy = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let Some(request) = read(&stream) else { continue };
                let body = request.body.clone();
                kept.lock().expect("not poisoned").push(request);
                deed(stream, &body);
            }
        });
        Endpoint { url: format!("{proxy}/v1"), proxy, asked }
    }

    fn args<'a>(&'a self, question: &'a str) -> Vec<&'a str> {
        asking(question, &self.url)
    }

    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().expect("not poisoned").iter().map(|it| it.body.clone()).collect()
    }

    /// Heads of the requests.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.asked.lock().expect("not poisoned").iter().map(|it| it.head.clone()).collect()
    }

    /// All bytes that were received, as text.
    pub(crate) fn received(&self) -> String {
        let asked = self.asked.lock().expect("not poisoned");
        asked.iter().map(|it| format!("{}{}\n", it.head, it.body)).collect()
    }

    /// Hosts that were asked for through the proxy.
    pub(crate) fn through(&self) -> Vec<String> {
        let asked = self.asked.lock().expect("not poisoned");
        asked.iter().filter_map(|it| it.through.clone()).collect()
    }

    /// A run that reaches every other host through this proxy.
    pub(crate) fn run_through(
        &self,
        riddle: &Riddle,
        args: &[&str],
        more: &[(&str, &str)],
    ) -> Outcome {
        let mut command = riddle.command(args);
        command.env("RIDDLE_OFFLINE", "0").env("HTTPS_PROXY", &self.proxy);
        command.env("HTTP_PROXY", &self.proxy).envs(more.iter().copied());
        Running::start(command).wait()
    }
}

/// What a question to an endpoint is asked with.
pub(crate) fn asking<'a>(question: &'a str, url: &'a str) -> Vec<&'a str> {
    vec!["ask", question, "--llm", "remote", "--llm-url", url, "--llm-model", "small"]
}

/// A request, after the one for a tunnel if there is any; `None` where something else than HTTP comes.
fn read(mut stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut through = None;
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).is_ok_and(|it| it > 0) {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
                head.push_str(&line);
            } else {
                through.as_ref()?;
                return Some(Asked { through, head, body: Value::Null });
            }
            if line.trim().is_empty() {
                break;
            }
        }
        if let Some(rest) = head.strip_prefix("CONNECT ") {
            through = rest.split(' ').next().map(str::to_owned);
            if rest.contains(":443 ") {
                // Nobody here can speak for an encrypted host.
                let _ = stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n");
                return Some(Asked { through, head, body: Value::Null });
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
            continue;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body = serde_json::from_slice(&body).expect("JSON");
        return Some(Asked { through, head, body });
    }
}

fn answer(mut stream: TcpStream, pieces: &[&str]) {
    let mut answer =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
            .to_owned();
    for piece in pieces {
        let chunk = serde_json::json!({ "choices": [{ "delta": { "content": piece } }] });
        answer.push_str(&format!("data: {chunk}\n\n"));
    }
    answer.push_str("data: [DONE]\n\n");
    // Whoever was asked may have gone.
    let _ = stream.write_all(answer.as_bytes());
}

pub(crate) fn indexed() -> Riddle {
    let riddle = Riddle::new();
    let files = tempfile::TempDir::new().expect("a temporary folder");
    riddle_tests::write(
        files.path(),
        "boat.md",
        "# Marlin\n\nThe hull of the Marlin is painted blue.\n",
    );
    riddle_tests::write(files.path(), "bread.md", "# Rye\n\nRye bread needs a day.\n");
    riddle.index(files.path());
    riddle
}

pub(crate) const QUESTION: &str = "How is the hull of the Marlin painted?";

#[test]
fn an_endpoint_answers_from_numbered_passages_and_its_numbers_are_checked() {
    let riddle = indexed();
    let endpoint =
        Endpoint::saying(&["<think>hm", "m</think>The hull is ", "blue [1].", " It flies [99]."]);
    let response = riddle.json(&endpoint.args(QUESTION));
    assert_eq!(response["answer"], "The hull is blue [1]. It flies.", "{response:#}");
    assert_eq!(response["llm"], "remote:small");
    assert_eq!(response["citations"].as_array().map(Vec::len), Some(1), "{response:#}");
    // What nobody cites is not supported.
    let last = response["supported"].as_array().and_then(|it| it.last()).expect("sentences");
    assert_eq!((&last["citation"], &last["score"]), (&Value::Null, &0.0.into()), "{response:#}");
    let asked = &endpoint.asked()[0];
    let user = asked["messages"][1]["content"].as_str().expect("a text");
    assert!(user.contains("[1] ") && user.ends_with(&format!("Question: {QUESTION}")), "{user}");
    assert!(response["prompt"].as_str().is_some_and(|it| it.ends_with(user)), "{response:#}");

    let page = riddle.run(&endpoint.args(QUESTION)).ok();
    assert!(page.starts_with("The hull is blue [1]."), "{page}");
    for words in ["written by remote:small", "not in the files: “It flies.”"] {
        assert!(page.contains(words), "{words:?} is not in\n{page}");
    }
}

#[test]
fn no_evidence_sends_nothing_and_no_answer_is_said_honestly() {
    let riddle = indexed();
    let endpoint = Endpoint::saying(&["NO ", "ANSWER"]);
    let response = riddle.json(&endpoint.args("Who won the chess olympiad in Reykjavik?"));
    assert!(response["answer"].is_null() && endpoint.asked().is_empty(), "{response:#}");
    let response = riddle.json(&endpoint.args(QUESTION));
    assert!(response["answer"].is_null(), "{response:#}");
    assert!(response["reason"].as_str().is_some_and(|it| it.contains("the model found")));
    let page = riddle.run(&endpoint.args(QUESTION)).ok();
    assert!(!page.contains("NO ANSWER"), "{page}");
}

#[test]
fn endpoints_elsewhere_are_sent_nothing_before_they_are_allowed() {
    let riddle = indexed();
    let line = riddle.run(&["ask", QUESTION, "--llm", "remote"]).failed(1);
    assert!(line.contains("RIDDLE_LLM_URL"), "{line}");
    let far = "https://far.test/v1";
    let args = ["ask", QUESTION, "--llm", "remote", "--llm-url", far, "--llm-model", "small"];
    let line = riddle.run(&args).failed(1);
    assert!(line.contains("--allow-endpoint") && line.contains("https://far.test:443"), "{line}");
    // Allowed, and still the network is switched off.
    let allow = [&args[..], &["--allow-endpoint"]].concat();
    let outcome = riddle.run(&allow);
    assert!(outcome.stderr.contains("may be sent"), "{outcome:#?}");
    assert!(outcome.stderr.contains("the network is switched off"), "{outcome:#?}");
    let line = riddle.run(&args).failed(1);
    assert!(line.contains("the network is switched off"), "it is remembered: {line}");
    let nobody =
        ["ask", QUESTION, "--llm", "remote", "--llm-url", "http://127.0.0.1:9", "--llm-model", "m"];
    let line = riddle.run(&nobody).failed(1);
    assert!(line.contains("is the server running"), "{line}");
}

/// A home with two folders: one about the hull's color, one about its price; the one about the price is marked.
pub(crate) fn with_a_marked_folder() -> (Riddle, tempfile::TempDir) {
    let riddle = Riddle::new();
    let files = tempfile::TempDir::new().expect("a temporary folder");
    let color = "# Marlin\n\nThe hull of the Marlin is painted blue.\n";
    let price = "# Marlin\n\nThe hull of the Marlin is painted for 9310 euros.\n";
    riddle_tests::write(files.path(), "boat/color.md", color);
    riddle_tests::write(files.path(), "boat/accounts/price.md", price);
    riddle.index(files.path());
    let marked = files.path().join("boat/accounts");
    let said = riddle.run(&["folders", "confine", marked.to_str().expect("UTF-8")]).ok();
    assert!(said.contains("never leaves this machine"), "{said}");
    (riddle, files)
}

const FAR: &str = "http://far.test/v1";

#[test]
fn what_never_leaves_this_machine_is_in_no_request_to_another_one() {
    let (riddle, files) = with_a_marked_folder();
    let endpoint = Endpoint::saying(&["It is blue [1]. It flies [2]."]);
    // What would be sent is shown before anything is allowed, and nothing is sent for it.
    let preview = [&asking(QUESTION, FAR)[..], &["--preview"]].concat();
    let shown = endpoint.run_through(&riddle, &preview, &[]).ok();
    assert!(shown.contains("painted blue") && !shown.contains("9310"), "{shown}");
    assert!(shown.contains("held back: 1 passage") && shown.contains("once it is allowed"));
    let line = endpoint.run_through(&riddle, &asking(QUESTION, FAR), &[]).failed(1);
    assert!(line.contains("--preview") && endpoint.received().is_empty(), "{line}");

    let args = [&asking(QUESTION, FAR)[..], &["--allow-endpoint", "--json"]].concat();
    let response = endpoint.run_through(&riddle, &args, &[]).json();
    assert_eq!(response["held_back"], 1, "{response:#}");
    assert_eq!(response["answer"], "It is blue [1]. It flies.", "{response:#}");
    assert_eq!(response["passages"].as_array().map(Vec::len), Some(1), "{response:#}");
    assert_eq!(endpoint.through(), ["far.test:80"]);
    let received = endpoint.received();
    assert!(received.contains("painted blue") && !received.contains("9310"), "{received}");
    let page = endpoint.run_through(&riddle, &asking(QUESTION, FAR), &[]).ok();
    assert!(page.contains("not sent: 1 passage from folders that never leave"), "{page}");

    // A model on this machine is given everything.
    let near = Endpoint::saying(&["It is blue [1]."]);
    let response = riddle.json(&near.args(QUESTION));
    assert_eq!(response["held_back"], 0, "{response:#}");
    assert!(near.received().contains("9310"));

    // With all of it marked there is nothing to ask about, and nobody is asked.
    let all = files.path().to_str().expect("UTF-8");
    riddle.run(&["folders", "confine", all]).ok();
    let before = endpoint.asked().len();
    let args = [&asking(QUESTION, FAR)[..], &["--json"]].concat();
    let response = endpoint.run_through(&riddle, &args, &[]).json();
    assert_eq!(endpoint.asked().len(), before);
    let reason = response["reason"].as_str().expect("a reason");
    assert!(reason.contains("the model was not asked"), "{reason}");
    assert_eq!((&response["answer"], &response["held_back"]), (&Value::Null, &2.into()));
    let status = riddle.json(&["status"]);
    assert_eq!(status["roots"][0]["confined"], true, "{status:#}");
    // Released again, it may.
    let folders = riddle.json(&["folders"]);
    for folder in folders["confined"].as_array().expect("marks") {
        riddle.run(&["folders", "release", folder.as_str().expect("a path")]).ok();
    }
    let response = endpoint.run_through(&riddle, &args, &[]).json();
    assert_eq!(response["held_back"], 0, "{response:#}");
    assert!(endpoint.received().contains("9310"));
}

#[test]
fn a_question_that_follows_another_is_put_so_that_it_stands_by_itself() {
    let riddle = indexed();
    let follow = |endpoint: &Endpoint| {
        let args = endpoint.args("And what color is it?");
        riddle.json(&[&args[..], &["--follows", "Who built the Marlin?"]].concat())
    };
    let endpoint =
        Endpoint::answering(&[&["How is the hull of ", "the Marlin painted?"], &["Blue [1]."]]);
    let response = follow(&endpoint);
    assert_eq!(response["question"], "And what color is it?");
    assert_eq!(response["searched_for"], QUESTION, "{response:#}");
    assert_eq!((&response["rewritten"], &response["answer"]), (&true.into(), &"Blue [1].".into()));
    let asked = endpoint.asked();
    let first = asked[0]["messages"][1]["content"].as_str().expect("a text");
    assert!(first.contains("Who built the Marlin?") && !first.contains("painted"), "{first}");
    assert!(asked[0]["max_tokens"].as_u64().is_some_and(|it| it <= 256));
    let second = asked[1]["messages"][1]["content"].as_str().expect("a text");
    assert!(second.ends_with(&format!("Question: {QUESTION}")), "{second}");
    let prompt = response["prompt"].as_str().expect("a prompt");
    assert!(prompt.contains(first) && prompt.ends_with(second), "both are shown: {prompt}");

    let endpoint = Endpoint::answering(&[&[QUESTION], &["Blue [1]."]]);
    let args = endpoint.args("And what color is it?");
    let page = riddle.run(&[&args[..], &["--follows", "Who built the Marlin?"]].concat()).ok();
    assert!(page.starts_with(&format!("understood as: {QUESTION}\n\nBlue [1].")), "{page}");

    // A model that writes something else costs the rewriting and not the search.
    let endpoint = Endpoint::answering(&[&["Penguins breed on ice."], &["Blue [1]."]]);
    let response = follow(&endpoint);
    assert_eq!(response["rewritten"], false, "{response:#}");
    assert!(response["searched_for"].as_str().is_some_and(|it| it.contains("Marlin")));
    let notices = response["notices"].to_string();
    assert!(notices.contains("was not rewritten"), "{notices}");
}

#[test]
fn proxies_are_for_other_machines_alone() {
    let riddle = indexed();
    let proxy = Endpoint::saying(&["Blue [1]."]);
    let far = "https://far.test/v1";
    let args = [&asking(QUESTION, far)[..], &["--allow-endpoint"]].concat();
    let outcome = proxy.run_through(&riddle, &args, &[]);
    assert_eq!(outcome.code, Some(1), "nobody speaks for it: {outcome:#?}");
    assert!(!proxy.through().is_empty(), "{outcome:#?}");
    assert!(proxy.through().iter().all(|it| it == "far.test:443"), "{:?}", proxy.through());

    // Hosts that are to be reached without one.
    let before = proxy.through().len();
    let outcome = proxy.run_through(&riddle, &args, &[("NO_PROXY", "near.test,far.test")]);
    assert_eq!((outcome.code, proxy.through().len()), (Some(1), before), "{outcome:#?}");

    // This machine, whatever the variables say.
    let near = Endpoint::saying(&["Blue [1]."]);
    let page = proxy.run_through(&riddle, &near.args(QUESTION), &[("ALL_PROXY", &proxy.proxy)]);
    assert!(page.ok().starts_with("Blue [1]."));
    assert_eq!((near.asked().len(), proxy.through().len()), (1, before));
}
