//! A server that does everything wrong, one thing at a time.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    ops::ControlFlow,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use riddle_llm::{Endpoint, Error, Remote, RemoteOptions};
use riddle_types::{
    Advice, Advised as _, Generation, GenerationRequest, Generator as _, Message, Notice, Passage,
    PassageOrder, Role,
};

/// What the server does with a connection, after it has read the request.
type Deed = Box<dyn Fn(TcpStream) + Send>;

/// Does one deed per connection, and keeps what it was asked.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn doing(deeds: Vec<Deed>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        thread::spawn(move || {
            for deed in deeds {
                let Ok((stream, _)) = listener.accept() else { return };
                let request = read_request(&stream);
                kept.lock().expect("not poisoned").push(request);
                deed(stream);
            }
        });
        Server { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("not poisoned").clone()
    }
}

/// Head and body.
fn read_request(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let (mut request, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a request");
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        request.push_str(&line);
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    request + &String::from_utf8(body).expect("UTF-8")
}

const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

fn chunk(text: &str) -> String {
    let text = serde_json::to_string(text).expect("a string");
    format!("data: {{\"choices\":[{{\"delta\":{{\"content\":{text}}}}}]}}\n\n")
}

fn says(text: impl Into<String>) -> Deed {
    let text = text.into();
    Box::new(move |mut stream| {
        // Whoever was asked may have gone.
        let _ = stream.write_all(text.as_bytes());
    })
}

fn answers() -> Deed {
    says(format!("{STREAM}{}{}data: [DONE]\n\n", chunk("It is "), chunk("blue [1].")))
}

fn refuses(status: &str, headers: &str, body: &str) -> Deed {
    says(format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()))
}

fn request() -> GenerationRequest {
    GenerationRequest {
        question: "Which color is the boat?".to_owned(),
        passages: vec![Passage { number: 1, text: "The boat is blue.".to_owned(), chunk: None }],
        max_tokens: 64,
        order: PassageOrder::default(),
    }
}

fn remote(address: &str) -> Remote {
    let options = RemoteOptions {
        key: Some("secret-key".to_owned()),
        first_timeout: Duration::from_millis(700),
        stall_timeout: Duration::from_millis(500),
        pause: Duration::from_millis(10),
        ..RemoteOptions::new("small")
    };
    Remote::new(Endpoint::parse(address).expect("an address"), options).expect("a remote")
}

fn ask(server: &Server) -> Result<Generation, Error> {
    remote(&server.address).answer(&request(), &mut |_| ControlFlow::Continue(()))
}

#[test]
fn an_answer_is_streamed_and_the_question_is_what_was_asked() {
    let server = Server::doing(vec![answers()]);
    let mut pieces = Vec::new();
    let generation = remote(&server.address)
        .answer(&request(), &mut |piece| {
            if !piece.is_empty() {
                pieces.push(piece.to_owned());
            }
            ControlFlow::Continue(())
        })
        .expect("an answer");
    assert_eq!(generation.text, "It is blue [1].");
    assert_eq!(pieces, ["It is ", "blue [1]."]);
    assert_eq!((generation.tokens, generation.notices.len()), (Some(2), 0));
    assert!(generation.prompt.expect("a prompt").contains("[1] The boat is blue."));
    let asked = server.asked();
    assert!(asked[0].starts_with("POST /v1/chat/completions HTTP/1.1"), "{}", asked[0]);
    assert!(asked[0].to_lowercase().contains("authorization: bearer secret-key"));
    let body = asked[0].split("\r\n\r\n").nth(1).expect("a body");
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    assert_eq!((&body["model"], &body["stream"]), (&"small".into(), &true.into()));
    assert_eq!(body["messages"][1]["role"], "user");
}

#[test]
fn what_does_not_stream_is_an_answer_too() {
    let body = r#"{"choices":[{"message":{"role":"assistant","content":"Blue [1]."}}]}"#;
    let headers = "content-type: application/json\r\n";
    let server = Server::doing(vec![refuses("200 OK", headers, body)]);
    let generation = ask(&server).expect("an answer");
    assert_eq!((generation.text.as_str(), generation.tokens), ("Blue [1].", None));
}

#[test]
fn what_is_asked_in_passing_is_sent_as_it_is() {
    let server = Server::doing(vec![answers()]);
    let messages = [Message { role: Role::User, content: "Put it otherwise: Who?".to_owned() }];
    let generation = remote(&server.address)
        .complete(&messages, 77, &mut |_| ControlFlow::Continue(()))
        .expect("words");
    assert_eq!(generation.text, "It is blue [1].");
    let asked = &server.asked()[0];
    let body = asked.split("\r\n\r\n").nth(1).expect("a body");
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(body["messages"], serde_json::to_value(messages).expect("JSON"));
    assert_eq!(body["max_tokens"], 77);
}

#[test]
fn what_may_pass_is_tried_again() {
    let busy = || refuses("429 Too Many Requests", "retry-after: 0\r\n", "");
    let server = Server::doing(vec![
        busy(),
        refuses("503 Service Unavailable", "", "{\"error\":{\"message\":\"loading\"}}"),
        answers(),
    ]);
    assert_eq!(ask(&server).expect("the third try").text, "It is blue [1].");
    // A connection that breaks before the first word, as well.
    let role = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n";
    let server = Server::doing(vec![says(format!("{STREAM}{role}")), answers()]);
    assert_eq!(ask(&server).expect("the second try").text, "It is blue [1].");
    let server = Server::doing(vec![busy(), busy(), busy(), answers()]);
    let error = ask(&server).expect_err("three tries");
    assert!(matches!(error, Error::Status { status: 429, .. }), "{error}");
    assert_eq!(server.asked().len(), 3);
}

/// llama-cpp-python does this when a prompt is longer than the model's context.
#[test]
fn a_stream_of_nothing_is_asked_for_its_reason() {
    let body = r#"{"error":{"message":"This model's maximum context length is 512 tokens."}}"#;
    let server = Server::doing(vec![says(STREAM), refuses("400 Bad Request", "", body)]);
    let error = ask(&server).expect_err("refused");
    assert_eq!(error.advice(), Some(Advice::GiveContext));
    let error = error.to_string();
    assert!(error.contains("maximum context length is 512"), "{error}");
    let asked = server.asked();
    assert!(asked[0].contains("\"stream\":true") && asked[1].contains("\"stream\":false"));
    // Where there is no reason either, it is not asked for ever.
    let server = Server::doing(vec![says(STREAM), says(STREAM), answers()]);
    let error = ask(&server).expect_err("nothing").to_string();
    assert!(error.contains("an answer of nothing"), "{error}");
    assert_eq!(server.asked().len(), 2);
}

#[test]
fn lasting_refusals_are_told_at_once_with_what_to_do() {
    let message = r#"{"error":{"message":"Incorrect API key"}}"#;
    for (status, body, words) in [
        ("401 Unauthorized", message, "Incorrect API key"),
        ("401 Unauthorized", "<html>", "answered 401"),
        ("404 Not Found", r#"{"error":"model 'small' not found"}"#, "model 'small' not found"),
        ("400 Bad Request", r#"{"detail":"too\nlong"}"#, "too long"),
        ("307 Temporary Redirect", "", "redirects"),
    ] {
        let server = Server::doing(vec![refuses(status, "location: http://evil.test/\r\n", body)]);
        let error = ask(&server).expect_err("refused").to_string();
        assert!(error.contains(words) && !error.contains("secret-key"), "{error}");
        assert_eq!(server.asked().len(), 1);
    }
}

#[test]
fn what_is_said_before_a_fault_is_kept() {
    let faults: Vec<(Deed, &str)> = vec![
        (says(format!("{STREAM}{}", chunk("It is"))), "mid-answer"),
        (says(format!("{STREAM}{}data: {{nonsense\n\n", chunk("It is"))), "can not be read"),
        (
            says(format!("{STREAM}{}data: {}", chunk("It is"), "x".repeat(10 << 20))),
            "a line of more",
        ),
        (
            says(format!("{STREAM}{}data: {{\"error\":\"out of memory\"}}\n\n", chunk("It is"))),
            "out of memory",
        ),
        (
            Box::new(|mut stream| {
                let _ = stream.write_all(format!("{STREAM}{}", chunk("It is")).as_bytes());
                thread::sleep(Duration::from_secs(3));
            }),
            "has said nothing",
        ),
    ];
    for (fault, words) in faults {
        let server = Server::doing(vec![fault]);
        let started = Instant::now();
        let generation = ask(&server).expect("a part of an answer");
        assert_eq!(generation.text, "It is", "{words}");
        let said = generation
            .notices
            .iter()
            .any(|it| matches!(it, Notice::AnswerBreaksOff { why } if why.what.contains(words)));
        assert!(said, "{words}: {:?}", generation.notices);
        assert!(started.elapsed() < Duration::from_millis(2500), "{words}");
    }
}

#[test]
fn an_answer_cut_off_by_its_length_is_said() {
    let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n";
    let server = Server::doing(vec![says(format!("{STREAM}{}{end}", chunk("It is")))]);
    let generation = ask(&server).expect("a part");
    assert_eq!(generation.notices, [Notice::AnswerCutOff]);
}

#[test]
fn silence_and_absence_end_in_time() {
    let server = Server::doing(vec![Box::new(|_stream| thread::sleep(Duration::from_secs(3)))]);
    let started = Instant::now();
    let error = ask(&server).expect_err("silence");
    assert!(matches!(error, Error::Silent { .. }), "{error}");
    assert!(started.elapsed() < Duration::from_millis(2500));

    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let nobody = remote(&format!("http://{port}"));
    let error = nobody.answer(&request(), &mut |_| ControlFlow::Continue(())).expect_err("nobody");
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("is the server running"), "{error}");

    let server = Server::doing(vec![says("SSH-2.0-OpenSSH_9.2\r\n\r\n")]);
    let error = ask(&server).expect_err("no HTTP");
    assert!(!error.to_string().is_empty());
}

/// The server sees the connection close although it has not said a word.
#[test]
fn stopping_closes_the_connection_while_nothing_comes() {
    let (tell, told) = std::sync::mpsc::channel();
    let waits = move |mut stream: TcpStream| {
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let closed = matches!(stream.read(&mut [0; 16]), Ok(0) | Err(_));
        let _ = tell.send(closed);
    };
    let server = Server::doing(vec![Box::new(waits)]);
    let options =
        RemoteOptions { first_timeout: Duration::from_secs(60), ..RemoteOptions::new("small") };
    let endpoint = Endpoint::parse(&server.address).expect("an address");
    let patient = Remote::new(endpoint, options).expect("a remote");
    let started = Instant::now();
    let mut beats = 0;
    let generation = patient
        .answer(&request(), &mut |piece| {
            assert!(piece.is_empty());
            beats += 1;
            if beats > 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .expect("stopping is no error");
    assert_eq!(generation.text, "");
    assert_eq!(told.recv_timeout(Duration::from_secs(10)), Ok(true), "the connection is closed");
    assert!(started.elapsed() < Duration::from_secs(10), "long before it would be given up");
}
