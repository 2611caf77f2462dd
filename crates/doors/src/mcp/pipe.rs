//! The protocol over stdin and stdout, a message per line. It ends when stdin does.

use std::{
    collections::HashMap,
    io::{BufRead, Read as _, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use riddle_rag::{Config, encryption::is_encrypted};
use serde_json::Value;

use super::Protocol;
use crate::{
    cancel::Cancel,
    clients::Clients,
    connect::Remote,
    error::{Error, Result},
    journal::Journal,
    message::{Failure, Message, Request},
    resident::Resident,
    who::{Scope, Who},
};

/// Longest message, in bytes.
const MAX_LINE: u64 = 16 << 20;

/// Requests that may wait.
const QUEUE: usize = 64;

/// How the protocol is spoken over a pipe.
#[derive(Debug, Clone, Default)]
pub struct McpOptions {
    /// Gives passages of folders that never leave this machine, too.
    pub with_confined: bool,
    /// Opens the library in this process even where a server has it open.
    pub alone: bool,
    /// Name under which the person has let the program in that has started this; `None`: it sees all that may be given.
    pub client: Option<String>,
    /// Writes down who asked and how much was given, and not what.
    pub forget_questions: bool,
}

/// Answers messages from `input` on `output` until `input` ends.
///
/// Where `riddle serve` has the library open, messages go there: models are in memory once.
///
/// # Errors
/// When the library can not be opened, or `output` not be written.
pub fn stdio(
    config: Config,
    options: &McpOptions,
    input: impl BufRead,
    output: impl Write + Send + 'static,
) -> Result<()> {
    let pipe = Arc::new(Pipe::new(output));
    // A server decides by itself what it gives: who wants more than it gives has a process of his own.
    let remote =
        if options.alone || options.with_confined { None } else { Remote::find(&config.home) };
    let door = PipeDoor {
        clients: Clients::of(&config.home),
        name: options.client.clone(),
        with_confined: options.with_confined,
    };
    let place = match remote {
        Some(remote) => Place::There(Arc::new(remote.with_client(options.client.clone()))),
        None => {
            // The journal is no part of what is encrypted.
            let keep = !options.forget_questions && !is_encrypted(&config);
            let journal = Arc::new(Journal::of(&config.home, keep));
            let resident = Resident::start(config, QUEUE, options.with_confined)?;
            Place::Here(Protocol::new(Arc::clone(&resident), journal), resident, door)
        }
    };
    let ended = read(input, &pipe, &place);
    pipe.finish();
    if let Place::Here(_, resident, _) = &place {
        resident.close();
    }
    ended
}

/// Who answers.
enum Place {
    Here(Protocol, Arc<Resident>, PipeDoor),
    There(Arc<Remote>),
}

fn read(mut input: impl BufRead, pipe: &Arc<Pipe>, place: &Place) -> Result<()> {
    loop {
        let mut line = Vec::new();
        let io = |source| Error::Io { path: "stdin".into(), source };
        let length = (&mut input).take(MAX_LINE + 1).read_until(b'\n', &mut line).map_err(io)?;
        if length == 0 || pipe.is_closed() {
            return Ok(());
        }
        if length as u64 > MAX_LINE {
            pipe.say(&Failure::new(-32600, "the message is longer than 16 MiB").nameless());
            return Ok(());
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let message = serde_json::from_slice::<Value>(&line)
            .map_err(|error| Failure::new(-32700, &format!("no JSON: {error}")))
            .and_then(Message::of);
        match message {
            Err(failure) => pipe.say(&failure.nameless()),
            Ok(Message::Request(request)) => answer(request, pipe, place),
            Ok(Message::Notification { method, params }) if method == "notifications/cancelled" => {
                pipe.cancel(params.get("requestId").unwrap_or(&Value::Null));
            }
            Ok(Message::Notification { .. } | Message::Response) => {}
        }
    }
}

fn answer(request: Request, pipe: &Arc<Pipe>, place: &Place) {
    let Some(cancel) = pipe.begin(&request.id) else {
        let failure = Failure::new(-32600, "a request with this id is being answered already");
        return pipe.say(&request.failed(&failure));
    };
    let (id, done) = (request.id.clone(), Arc::clone(pipe));
    let reply = move |answer: Value| done.end(&id, &answer);
    match place {
        Place::Here(protocol, _, door) => match door.who() {
            Some(who) => protocol.answer(&who, request, cancel, reply),
            None => reply(request.failed(&Failure::unwelcome())),
        },
        Place::There(remote) => remote.answer(request, cancel, reply),
    }
}

/// Who has started this, as the person sees it now.
struct PipeDoor {
    clients: Clients,
    name: Option<String>,
    with_confined: bool,
}

impl PipeDoor {
    /// `None`: that program is not let in, or not any more.
    fn who(&self) -> Option<Who> {
        let Some(name) = &self.name else {
            let scope = Scope::whole(!self.with_confined);
            return Some(Who { name: "stdio".to_owned(), known: false, scope });
        };
        let client = self.clients.named(name).ok().flatten().filter(|it| !it.revoked)?;
        let outward = !(self.with_confined || client.may.with_confined);
        let scope = Scope::of(client.may, client.reader, outward);
        Some(Who { name: client.name, known: true, scope })
    }
}

/// The output, and what is being answered.
struct Pipe {
    output: Mutex<(Box<dyn Write + Send>, bool)>,
    open: Mutex<HashMap<String, Cancel>>,
    none_left: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pipe {
    fn new(output: impl Write + Send + 'static) -> Pipe {
        Pipe {
            output: Mutex::new((Box::new(output), false)),
            open: Mutex::new(HashMap::new()),
            none_left: Condvar::new(),
        }
    }

    fn say(&self, message: &Value) {
        let mut output = lock(&self.output);
        let line = format!("{message}\n");
        if output.0.write_all(line.as_bytes()).and_then(|()| output.0.flush()).is_err() {
            // Whoever read it has gone.
            output.1 = true;
        }
    }

    fn is_closed(&self) -> bool {
        lock(&self.output).1
    }

    /// `None`: this id is taken.
    fn begin(&self, id: &Value) -> Option<Cancel> {
        let mut open = lock(&self.open);
        if open.contains_key(&id.to_string()) {
            return None;
        }
        let cancel = Cancel::default();
        open.insert(id.to_string(), cancel.clone());
        Some(cancel)
    }

    /// Says the answer, unless it was cancelled: then nobody expects one.
    fn end(&self, id: &Value, answer: &Value) {
        let cancelled = lock(&self.open).get(&id.to_string()).is_some_and(Cancel::is_cancelled);
        if !cancelled {
            self.say(answer);
        }
        lock(&self.open).remove(&id.to_string());
        self.none_left.notify_all();
    }

    fn cancel(&self, id: &Value) {
        if let Some(cancel) = lock(&self.open).get(&id.to_string()) {
            cancel.cancel();
        }
    }

    /// Waits for what was asked before the end: a script that pipes questions in gets its answers.
    fn finish(&self) {
        let mut open = lock(&self.open);
        while !open.is_empty() && !self.is_closed() {
            open = self.none_left.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Clone, Default)]
    struct Out(Arc<Mutex<Vec<u8>>>);

    impl Write for Out {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            lock(&self.0).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn said(lines: &str) -> Vec<Value> {
        let home = tempfile::tempdir().expect("a folder");
        let out = Out::default();
        stdio(Config::new(home.path()), &McpOptions::default(), lines.as_bytes(), out.clone())
            .expect("ends with its input");
        let bytes = lock(&out.0).clone();
        let text = String::from_utf8(bytes).expect("text");
        text.lines().map(|it| serde_json::from_str(it).expect("a line of JSON")).collect()
    }

    #[test]
    fn every_request_gets_one_line_and_the_end_of_input_is_the_end() {
        let request = |id: u32, method: &str, params: Value| {
            format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        };
        let lines = [
            request(1, "initialize", json!({"protocolVersion": "2025-11-25"})),
            "{\"jsonrpc\": \"2.0\", \"method\": \"notifications/initialized\"}\n".to_owned(),
            "\n".to_owned(),
            request(2, "tools/call", json!({"name": "status"})),
            "this is no JSON\n".to_owned(),
            request(3, "nothing", json!({})),
        ];
        let mut said = said(&lines.concat());
        said.sort_by_key(|it| it["id"].as_u64());
        assert_eq!(said.len(), 4, "{said:#?}");
        assert_eq!(said[0]["error"]["code"], -32700);
        assert_eq!(said[1]["result"]["protocolVersion"], "2025-11-25");
        assert_eq!(said[2]["result"]["isError"], false);
        assert_eq!(said[3]["error"]["code"], -32601);
    }

    #[test]
    fn nobody_hears_of_what_was_cancelled() {
        let pipe = Pipe::new(std::io::sink());
        let out = Out::default();
        *lock(&pipe.output) = (Box::new(out.clone()), false);
        let cancel = pipe.begin(&json!(1)).expect("free");
        assert!(pipe.begin(&json!(1)).is_none());
        assert!(pipe.begin(&json!("1")).is_some(), "a text is another id");
        pipe.cancel(&json!(1));
        assert!(cancel.is_cancelled());
        pipe.end(&json!(1), &json!({"late": true}));
        pipe.end(&json!("1"), &json!({"said": true}));
        assert_eq!(lock(&out.0).as_slice(), b"{\"said\":true}\n");
        pipe.finish();
    }
}
