//! The way from a pipe to a server that has the library open already.

use std::{
    fs,
    io::{Read, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    cancel::Cancel,
    guard,
    message::{self, Failure, Request},
    token::Token,
};

/// How long a server that is there takes to say so.
const KNOCK: Duration = Duration::from_secs(2);

/// How often it is looked whether a request was cancelled.
const LOOK: Duration = Duration::from_millis(100);

/// Most bytes of an answer.
const MAX_ANSWER: usize = 64 << 20;

/// What a server says of itself in the home while it runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Served {
    pub(crate) url: String,
    pub(crate) port: u16,
    pub(crate) pid: u32,
}

/// Where it says so.
pub(crate) fn path(home: &Path) -> PathBuf {
    home.join("doors.json")
}

/// A server of this home.
#[derive(Debug)]
pub(crate) struct Remote {
    port: u16,
    token: Token,
    /// As which program it is asked.
    client: Option<String>,
}

impl Remote {
    /// The server that serves this home, if one answers with its token.
    pub(crate) fn find(home: &Path) -> Option<Remote> {
        let served: Served = serde_json::from_slice(&fs::read(path(home)).ok()?).ok()?;
        let remote = Remote { port: served.port, token: Token::known(home)?, client: None };
        let mut stream = remote.connect().ok()?;
        stream.set_read_timeout(Some(KNOCK)).ok()?;
        // Whoever took the port since does not know the token, and is not told it either.
        let head = format!(
            "GET /health HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\r\n",
            remote.port
        );
        stream.write_all(head.as_bytes()).ok()?;
        let (status, body) = answer_of(&mut stream, None).ok()?;
        let health: Value = serde_json::from_slice(&body).ok()?;
        (status == 200 && health["pid"] == served.pid).then_some(remote)
    }

    /// Asked as this program from now on.
    pub(crate) fn with_client(self, client: Option<String>) -> Remote {
        Remote { client, ..self }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        TcpStream::connect_timeout(&address, KNOCK)
    }

    /// Has a request answered there, on a thread of its own.
    pub(crate) fn answer(
        self: &Arc<Self>,
        request: Request,
        cancel: Cancel,
        reply: impl FnOnce(Value) + Send + 'static,
    ) {
        let remote = Arc::clone(self);
        thread::spawn(move || {
            let answer = remote.post(&request, &cancel).unwrap_or_else(|error| {
                request
                    .failed(&Failure::internal(&format!("`riddle serve` does not answer: {error}")))
            });
            reply(answer);
        });
    }

    fn post(&self, request: &Request, cancel: &Cancel) -> std::io::Result<Value> {
        let mut stream = self.connect()?;
        stream.set_read_timeout(Some(LOOK))?;
        let message = serde_json::json!({
            "jsonrpc": "2.0", "id": request.id, "method": request.method, "params": request.params,
        });
        let body = message.to_string();
        let mut head = format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nUser-Agent: riddle-mcp-{}\r\nContent-Length: {}\r\nConnection: close\r\n",
            self.port,
            self.token.as_str(),
            std::process::id(),
            body.len()
        );
        if let Some(client) = &self.client {
            head.push_str(&format!("{}: {}\r\n", guard::CLIENT, message::header_value(client)));
        }
        if let Some(version) = request.version() {
            let name = request.params.get("name").or_else(|| request.params.get("uri"));
            let fields = [
                ("MCP-Protocol-Version", Some(version)),
                ("Mcp-Method", Some(request.method.as_str())),
                ("Mcp-Name", name.and_then(Value::as_str)),
            ];
            for (field, value) in fields {
                if let Some(value) = value {
                    head.push_str(&format!("{field}: {}\r\n", message::header_value(value)));
                }
            }
        }
        stream.write_all(head.as_bytes())?;
        stream.write_all(b"\r\n")?;
        stream.write_all(body.as_bytes())?;
        let (status, body) = answer_of(&mut stream, Some(cancel))?;
        if status == 403 {
            return Ok(request.failed(&Failure::unwelcome()));
        }
        serde_json::from_slice(&body).map_err(std::io::Error::other)
    }
}

/// Status and body of an answer that ends with its connection. With a flag, silence is waited for until that is set,
/// and dropping the connection stops the work there; without one, silence is an error.
pub(crate) fn answer_of(
    from: &mut impl Read,
    cancel: Option<&Cancel>,
) -> std::io::Result<(u16, Vec<u8>)> {
    let is_silence = |it: &std::io::Error| {
        matches!(it.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
    };
    let mut bytes = Vec::new();
    let mut piece = [0; 16 << 10];
    loop {
        match from.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => bytes.extend_from_slice(&piece[..length]),
            Err(error) if is_silence(&error) && cancel.is_some() => {}
            Err(error) => return Err(error),
        }
        if cancel.is_some_and(Cancel::is_cancelled) || bytes.len() > MAX_ANSWER {
            return Err(std::io::Error::other("stopped"));
        }
    }
    let end = bytes.windows(4).position(|it| it == b"\r\n\r\n");
    let end = end.ok_or_else(|| std::io::Error::other("no answer"))?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
    Ok((status, bytes.split_off(end + 4)))
}

#[test]
fn an_answer_is_taken_apart() {
    let text = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    let (status, body) = answer_of(&mut text.as_slice(), None).expect("an answer");
    assert_eq!((status, body.as_slice()), (200, b"{}".as_slice()));
    assert!(answer_of(&mut b"nonsense".as_slice(), None).is_err());
}
