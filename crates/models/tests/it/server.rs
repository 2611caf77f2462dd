//! A web server for tests: one thread per connection, one request per connection, and a handler that can
//! do to the connection whatever a bad network does.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
};

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    headers: Vec<(String, String)>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|it| it.0 == name).map(|it| it.1.as_str())
    }

    /// First byte of the wanted range.
    pub(crate) fn from(&self) -> Option<usize> {
        self.header("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    log: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Serves until the process ends. Each request's handler gets the number of requests before it to the
    /// same target.
    pub(crate) fn start(
        handle: impl Fn(&Request, usize, &mut TcpStream) + Send + Sync + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        let log = Arc::new(Mutex::new(Vec::<Request>::new()));
        let (shared, handle) = (Arc::clone(&log), Arc::new(handle));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let (log, handle) = (Arc::clone(&shared), Arc::clone(&handle));
                std::thread::spawn(move || {
                    let Some(request) = read_request(&stream) else { return };
                    let before = {
                        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                        log.push(request.clone());
                        log.iter().filter(|it| it.target == request.target).count() - 1
                    };
                    handle(&request, before, &mut stream);
                    // Whoever writes on must not hear a reset before the answer was read.
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                });
            }
        });
        Server { address, log }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Requests whose target ends so.
    pub(crate) fn requests_for(&self, ending: &str) -> Vec<Request> {
        self.requests().into_iter().filter(|it| it.target.ends_with(ending)).collect()
    }
}

fn read_request(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next()?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers = lines
        .take_while(|it| !it.is_empty())
        .filter_map(|it| {
            let (name, value) = it.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        })
        .collect();
    Some(Request { method, target, headers })
}

/// Writes what the client may have stopped reading.
pub(crate) fn send(stream: &mut TcpStream, bytes: &[u8]) {
    let _ = stream.write_all(bytes);
}

/// A whole answer.
pub(crate) fn answer(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) {
    send(
        stream,
        format!(
            "HTTP/1.1 {status}\r\n{headers}connection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .as_bytes(),
    );
    send(stream, body);
}

/// A file as a good server sends it: with a tag, and from the middle where that is asked for.
pub(crate) fn file(stream: &mut TcpStream, request: &Request, body: &[u8], tag: &str) {
    let fits = request.header("if-range").is_none_or(|it| it == tag);
    match request.from().filter(|from| fits && *from < body.len()) {
        Some(from) => {
            let headers = format!(
                "etag: {tag}\r\ncontent-range: bytes {from}-{}/{}\r\n",
                body.len() - 1,
                body.len()
            );
            answer(stream, "206 Partial Content", &headers, &body[from..]);
        }
        None => answer(stream, "200 OK", &format!("etag: {tag}\r\n"), body),
    }
}

/// The head of a full answer and only a part of its body.
pub(crate) fn broken_off(stream: &mut TcpStream, body: &[u8], tag: &str, sent: usize) {
    let head = format!("HTTP/1.1 200 OK\r\netag: {tag}\r\ncontent-length: {}\r\n\r\n", body.len());
    send(stream, head.as_bytes());
    send(stream, &body[..sent]);
}
