//! A client that sends what it is told to, also what no client would.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use serde_json::Value;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn is(&self, status: u16) -> bool {
        self.status == status
    }

    /// The body of an answer with this status.
    #[track_caller]
    pub(crate) fn json(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:#?}");
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Data of events, each with the name of its event.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let event = |text: &str| {
            let field = |name: &str| {
                let line = text.lines().find_map(|it| it.strip_prefix(name))?;
                Some(line.trim_start().to_owned())
            };
            Some((field("event:").unwrap_or_default(), field("data:")?))
        };
        self.body.split("\n\n").filter_map(event).collect()
    }
}

/// A connection that gives up when nothing comes.
pub(crate) fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    stream
}

/// Sends a request and reads the answer to its end.
pub(crate) fn request(
    port: u16,
    method: &str,
    path: &str,
    heads: &[(String, String)],
    body: &str,
) -> Answer {
    let mut text = format!("{method} {path} HTTP/1.1\r\n");
    for (name, value) in heads {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        text.push_str(&format!(
            "Content-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        ));
    }
    text.push_str("Connection: close\r\n\r\n");
    text.push_str(body);
    raw(port, text.as_bytes())
}

/// Sends bytes and reads what comes until the end; an answer without a status has 0.
pub(crate) fn raw(port: u16, bytes: &[u8]) -> Answer {
    let mut stream = connect(port);
    // A server that refuses does not read all of it.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        answer.extend_from_slice(&piece[..length]);
    }
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Answer {
        status: head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0),
        head: head.to_owned(),
        body: if chunked { unchunked(body) } else { body.to_owned() },
    }
}

fn unchunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || !after.is_char_boundary(size.min(after.len())) {
            break;
        }
        body.push_str(&after[..size.min(after.len())]);
        rest = after.get(size + 2..).unwrap_or_default();
    }
    body
}
