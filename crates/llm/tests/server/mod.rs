//! A server on this machine that does what it is told to, one deed per connection.

// Each test binary uses its part of these.
#![allow(dead_code, unreachable_pub)]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::Value;

/// A request: its head, and its body.
pub type Asked = (String, Value);

/// What the server does with a connection, after it has read the request.
pub type Deed = Box<dyn Fn(TcpStream, &Value) + Send>;

/// Does one deed per connection, the last one for all that follow, and keeps what it was asked.
pub struct Server {
    pub address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub fn doing(deeds: Vec<Deed>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        thread::spawn(move || {
            for (at, stream) in listener.incoming().enumerate() {
                let Ok(stream) = stream else { return };
                let Some(request) = read(&stream) else { continue };
                kept.lock().expect("not poisoned").push(request.clone());
                deeds[at.min(deeds.len() - 1)](stream, &request.1);
            }
        });
        Server { address, asked }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("not poisoned").clone()
    }
}

/// Head and body; `None` for a connection that says nothing.
fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, serde_json::from_slice(&body).ok()?))
}

pub fn says(mut stream: TcpStream, status: &str, head: &str, body: &str) {
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\n{head}content-length: {length}\r\n\r\n{body}");
    // Whoever asked may have gone.
    let _ = stream.write_all(answer.as_bytes());
}
