//! Endpoints that speak the OpenAI protocol.

use std::{
    io::Read,
    ops::ControlFlow,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::{Duration, Instant},
};

use riddle_models::web;
use riddle_types::{Generation, GenerationRequest, Generator, StageError};
use serde_json::json;
use ureq::Agent;

use crate::{
    Error, Prompt, Result,
    stream::{Broken, Events, Said, Thoughts, message_of, whole},
};

/// How often the caller is asked whether it still waits.
const HEARTBEAT: Duration = Duration::from_millis(100);

/// Longest pause that a server can ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Most bytes of a refusal that are read.
const LONGEST_REFUSAL: u64 = 64 << 10;

/// Where a model answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Address of the chat completions.
    url: String,
    shown: String,
    origin: String,
    trusted: bool,
}

impl Endpoint {
    /// Of the address of a server, of its API (`…/v1`), or of its chat completions.
    ///
    /// # Errors
    /// [`Error::Address`] for what is not http or https.
    pub fn parse(address: &str) -> Result<Endpoint> {
        let address = address.trim();
        let bad = |why| Error::Address { address: web::shown(address), why };
        let origin = web::origin(address)
            .ok_or_else(|| bad("give http://HOST:PORT/v1 or https://HOST/v1"))?;
        if address.contains(['?', '#', ' ']) {
            return Err(bad("it has a query, a fragment or a space"));
        }
        if web::has_user(address) {
            return Err(bad("it has a user name or password in it: give the key apart from it"));
        }
        let base = address.trim_end_matches('/');
        let path = base.split_once("://").and_then(|it| it.1.split_once('/')).map_or("", |it| it.1);
        let url = match path {
            "" => format!("{base}/v1/chat/completions"),
            path if path.ends_with("chat/completions") => base.to_owned(),
            _ => format!("{base}/chat/completions"),
        };
        let trusted = web::may_carry_secrets(&url);
        Ok(Endpoint { shown: web::shown(&url), url, origin, trusted })
    }

    /// Scheme, host and port: whom the user trusts or not.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Whether it is on this very machine.
    pub fn is_local(&self) -> bool {
        web::is_local(&self.url)
    }
}

/// How an endpoint is used.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteOptions {
    /// Name of the model there.
    pub model: String,
    /// Key, sent to the endpoint and to no other host, and only encrypted or within this machine.
    pub key: Option<String>,
    /// Tokens that the model reads and writes together.
    pub context_tokens: usize,
    /// Longest time to find and connect to the server.
    pub connect_timeout: Duration,
    /// Longest silence before the first word: servers load the model then.
    pub first_timeout: Duration,
    /// Longest silence between words.
    pub stall_timeout: Duration,
    /// Tries, as long as nothing of an answer has come; at least 1.
    pub tries: u32,
    /// Pause before the second try, doubled for each further one, if the server asks for none.
    pub pause: Duration,
    /// Refuse all endpoints but those of this machine.
    pub offline: bool,
}

impl RemoteOptions {
    /// For a model of that name, with no key.
    pub fn new(model: impl Into<String>) -> RemoteOptions {
        RemoteOptions {
            model: model.into(),
            key: None,
            context_tokens: 8192,
            connect_timeout: Duration::from_secs(8),
            first_timeout: Duration::from_secs(180),
            stall_timeout: Duration::from_secs(45),
            tries: 3,
            pause: Duration::from_millis(500),
            offline: false,
        }
    }
}

impl std::fmt::Debug for RemoteOptions {
    /// Without the key: this ends up in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteOptions")
            .field("model", &self.model)
            .field("key", &self.key.is_some())
            .field("context_tokens", &self.context_tokens)
            .finish_non_exhaustive()
    }
}

/// A model behind an endpoint.
#[derive(Debug)]
pub struct Remote {
    name: String,
    endpoint: Endpoint,
    options: RemoteOptions,
}

impl Remote {
    /// Nothing is sent before the first question.
    ///
    /// # Errors
    /// [`Error::OpenKey`] and [`Error::Offline`].
    pub fn new(endpoint: Endpoint, options: RemoteOptions) -> Result<Remote> {
        if options.key.is_some() && !endpoint.trusted {
            return Err(Error::OpenKey { url: endpoint.shown });
        }
        if options.offline && !endpoint.is_local() {
            return Err(Error::Offline { url: endpoint.shown });
        }
        let name = format!("remote:{}", options.model);
        Ok(Remote { name, endpoint, options })
    }

    /// What a request would send.
    pub fn prompt(&self, request: &GenerationRequest) -> Prompt {
        Prompt::of(request, self.options.context_tokens)
    }

    /// [`Generator::generate`] with this crate's error. While nothing comes, `sink` gets empty pieces, so that it
    /// can stop the wait; stopping closes the connection. An answer that breaks off is kept, and the reason is one
    /// of its notices.
    ///
    /// # Errors
    /// When there is no word of an answer: the server can not be reached, refuses, says nothing, or does not
    /// speak the protocol.
    pub fn answer(
        &self,
        request: &GenerationRequest,
        sink: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation> {
        let started = Instant::now();
        let prompt = self.prompt(request);
        let agent = self.agent();
        let (tell, told) = channel();
        let body = json!({
            "model": self.options.model,
            "messages": prompt.messages,
            "max_tokens": request.max_tokens,
            "temperature": 0,
            "stream": true,
        });
        let call = Call {
            agent: agent.clone(),
            endpoint: self.endpoint.clone(),
            options: self.options.clone(),
            body: body.to_string(),
        };
        // Reading blocks; whoever waits for the answer must be able to stop it all the same.
        let reader = std::thread::Builder::new()
            .name("llm".to_owned())
            .spawn(move || call.run(&tell))
            .map_err(Error::Thread)?;
        let mut generation = Generation { prompt: Some(prompt.to_text()), ..Generation::default() };
        generation.notices.extend(notices(&prompt));
        let limits = (self.endpoint.shown.as_str(), self.options.stall_timeout);
        let heard = hear(&told, limits, started, &mut generation, sink);
        // Whatever is still under way ends here, and the connection with it.
        agent.shutdown();
        drop(told);
        // It has nothing left to say and may still be closing its connection.
        drop(reader);
        match heard {
            Err(error) if generation.text.trim().is_empty() => Err(error),
            Err(error) => {
                generation.notices.push(format!("the answer breaks off: {error}"));
                Ok(generation)
            }
            Ok(()) => Ok(generation),
        }
    }

    fn agent(&self) -> Agent {
        let RemoteOptions { connect_timeout, first_timeout, stall_timeout, .. } = self.options;
        Agent::config_builder()
            .http_status_as_error(false)
            // A redirect would carry the user's passages to somewhere nobody has agreed to.
            .max_redirects(0)
            .max_redirects_will_error(false)
            // What stays on this machine needs no proxy.
            .proxy(if self.endpoint.is_local() { None } else { ureq::Proxy::try_from_env() })
            .tls_config(web::tls())
            .user_agent(concat!("riddle/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .timeout_resolve(Some(connect_timeout))
            .timeout_connect(Some(connect_timeout))
            .timeout_send_request(Some(stall_timeout))
            .timeout_send_body(Some(stall_timeout))
            .timeout_recv_response(Some(first_timeout))
            .timeout_per_read(Some(first_timeout))
            .build()
            .new_agent()
    }
}

impl Generator for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn generate(
        &self,
        request: &GenerationRequest,
        sink: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, StageError> {
        Ok(self.answer(request, sink)?)
    }
}

fn notices(prompt: &Prompt) -> Vec<String> {
    let mut notices = Vec::new();
    if !prompt.left_out.is_empty() {
        let count = prompt.left_out.len();
        notices.push(format!("{count} of the passages did not fit into the model's context"));
    }
    if let Some(number) = prompt.cut {
        notices.push(format!("passage {number} was cut to fit into the model's context"));
    }
    notices
}

/// What the reading thread tells.
enum Told {
    Text(String),
    /// Complete; `true`: cut off by the limit of tokens.
    Done(bool),
    Failed(Error),
}

/// Hears the answer to its end, or until `sink` has enough.
fn hear(
    told: &Receiver<Told>,
    (url, stall): (&str, Duration),
    started: Instant,
    generation: &mut Generation,
    sink: &mut dyn FnMut(&str) -> ControlFlow<()>,
) -> Result<()> {
    let mut thoughts = Thoughts::default();
    let mut tokens = 0;
    let mut heard = Instant::now();
    loop {
        let piece = match told.recv_timeout(HEARTBEAT) {
            Ok(Told::Text(text)) => {
                tokens += 1;
                heard = Instant::now();
                thoughts.push(&text)
            }
            Ok(Told::Done(cut)) => {
                let rest = thoughts.end();
                generation.text.push_str(&rest);
                let _ = sink(&rest);
                if cut {
                    generation.notices.push("the answer was cut off at its longest".to_owned());
                }
                generation.tokens = Some(tokens);
                return Ok(());
            }
            Ok(Told::Failed(error)) => return Err(error),
            // Before the first word the connection itself is timed.
            Err(RecvTimeoutError::Timeout) if tokens > 0 && heard.elapsed() > stall => {
                return Err(Error::Silent { url: url.to_owned(), seconds: stall.as_secs() });
            }
            Err(RecvTimeoutError::Timeout) => String::new(),
            // The thread has ended without a word.
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        if generation.text.is_empty() && !piece.is_empty() {
            generation.first_token_ms = started.elapsed().as_secs_f64() * 1e3;
        }
        generation.text.push_str(&piece);
        generation.tokens = Some(tokens);
        if sink(&piece).is_break() {
            return Ok(());
        }
    }
}

/// One question to an endpoint, on a thread of its own.
struct Call {
    agent: Agent,
    endpoint: Endpoint,
    options: RemoteOptions,
    body: String,
}

/// Why a try failed.
enum Failure {
    /// The same question may be answered later, after that pause if the server asks for one.
    Passing(Error, Option<Duration>),
    /// It will not.
    Lasting(Error),
}

impl Call {
    fn run(self, tell: &Sender<Told>) {
        let mut tried = 1;
        loop {
            match self.once(tell) {
                Ok(()) => return,
                Err(Failure::Passing(error, pause)) if tried < self.options.tries => {
                    tracing::warn!(%error, tried, "the endpoint is asked again");
                    // The sixth doubling is past the longest pause for any sensible start.
                    let own = self.options.pause.saturating_mul(1 << (tried - 1).min(6));
                    std::thread::sleep(pause.unwrap_or(own).min(LONGEST_PAUSE));
                    tried += 1;
                }
                Err(Failure::Passing(error, _) | Failure::Lasting(error)) => {
                    // Whoever stopped listening does not want to know.
                    let _ = tell.send(Told::Failed(error));
                    return;
                }
            }
        }
    }

    fn once(&self, tell: &Sender<Told>) -> Result<(), Failure> {
        let mut request = self
            .agent
            .post(&self.endpoint.url)
            .header("content-type", "application/json")
            .header("accept", "text/event-stream, application/json");
        if let Some(key) = &self.options.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let response = request.send(self.body.as_bytes()).map_err(|it| self.failure(it))?;
        let status = response.status().as_u16();
        let header = |name| response.headers().get(name).and_then(|it| it.to_str().ok());
        let streams = header("content-type").is_some_and(|it| it.contains("event-stream"));
        let pause = header("retry-after").and_then(|it| it.trim().parse().ok());
        let body = response.into_body().into_reader();
        if status != 200 {
            return Err(self.refusal(status, pause.map(Duration::from_secs), body));
        }
        if !streams {
            let text = whole(body).map_err(|it| Failure::Lasting(self.broken(it)))?;
            let _ = tell.send(Told::Text(text)).and_then(|()| tell.send(Told::Done(false)));
            return Ok(());
        }
        let mut events = Events::new(body);
        let mut begun = false;
        loop {
            let event = match events.next() {
                Ok(Said::Text(text)) => Told::Text(text),
                Ok(Said::End(cut)) => Told::Done(cut),
                Err(broken @ Broken::Read(_)) if !begun => {
                    return Err(Failure::Passing(self.broken(broken), None));
                }
                Err(broken) => return Err(Failure::Lasting(self.broken(broken))),
            };
            begun = true;
            let done = matches!(event, Told::Done(_));
            if tell.send(event).is_err() || done {
                return Ok(());
            }
        }
    }

    fn broken(&self, broken: Broken) -> Error {
        let url = self.endpoint.shown.clone();
        match broken {
            Broken::Protocol(why) => Error::Protocol { url, why },
            Broken::Read(error) if is_timeout(&error) => {
                Error::Silent { url, seconds: self.options.first_timeout.as_secs() }
            }
            Broken::Read(error) => Error::Connection { url, why: error.to_string() },
        }
    }

    fn refusal(&self, status: u16, pause: Option<Duration>, body: impl Read) -> Failure {
        let mut text = Vec::new();
        // A refusal that can not be read is a refusal all the same.
        let _ = body.take(LONGEST_REFUSAL).read_to_end(&mut text);
        let message = serde_json::from_slice(&text).map_or(String::new(), |it| message_of(&it));
        let hint = match status {
            401 | 403 => "give the right key in RIDDLE_LLM_KEY",
            404 => {
                "check the name of the model and the address, which ends in /v1 for most servers"
            }
            402 => "the account has no credit left",
            413 => "the prompt is too long for this model: give a smaller context",
            429 => "too many questions at once or too little credit: ask again later",
            300..=399 => "it redirects, and passages are sent nowhere but to the address given",
            500..=599 => "the server has a problem of its own: its log may say more",
            _ => "this was not expected",
        };
        let url = self.endpoint.shown.clone();
        let error = Error::Status { url, status, message, hint };
        match status {
            408 | 425 | 429 | 500 | 502..=504 => Failure::Passing(error, pause),
            _ => Failure::Lasting(error),
        }
    }

    fn failure(&self, error: ureq::Error) -> Failure {
        use std::io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
        let (url, why) = (self.endpoint.shown.clone(), error.to_string());
        match error {
            ureq::Error::Timeout(ureq::Timeout::RecvResponse | ureq::Timeout::PerRead) => {
                let seconds = self.options.first_timeout.as_secs();
                Failure::Lasting(Error::Silent { url, seconds })
            }
            ureq::Error::HostNotFound
            | ureq::Error::ConnectionFailed
            | ureq::Error::ConnectProxyFailed(_)
            | ureq::Error::Timeout(_) => Failure::Lasting(Error::Unreachable { url, why }),
            ureq::Error::Io(io)
                if matches!(
                    io.kind(),
                    ConnectionRefused | HostUnreachable | NetworkUnreachable
                ) =>
            {
                Failure::Lasting(Error::Unreachable { url, why })
            }
            ureq::Error::Rustls(_) | ureq::Error::Tls(_) | ureq::Error::Pem(_) => {
                let why = format!(
                    "no trusted encryption ({why}); where a company inspects connections, set SSL_CERT_FILE to its certificates"
                );
                Failure::Lasting(Error::Connection { url, why })
            }
            ureq::Error::Http(_) | ureq::Error::LargeResponseHeader(..) => {
                Failure::Lasting(Error::Protocol { url, why })
            }
            _ => Failure::Passing(Error::Connection { url, why }, None),
        }
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    let inner = error.get_ref().and_then(|it| it.downcast_ref::<ureq::Error>());
    matches!(error.kind(), TimedOut | WouldBlock) || matches!(inner, Some(ureq::Error::Timeout(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_the_chat() {
        let url = |address: &str| Endpoint::parse(address).expect("an address").url;
        for address in
            ["http://localhost:11434", "http://localhost:11434/", "http://localhost:11434/v1"]
        {
            assert_eq!(url(address), "http://localhost:11434/v1/chat/completions");
        }
        assert_eq!(
            url(" https://api.test/openai/v1/ "),
            "https://api.test/openai/v1/chat/completions"
        );
        assert_eq!(url("https://api.test/chat/completions"), "https://api.test/chat/completions");
        for bad in
            ["", "localhost:11434", "ftp://x/v1", "http://", "https://a b/v1", "https://x/v1?key=1"]
        {
            assert!(matches!(Endpoint::parse(bad), Err(Error::Address { .. })), "{bad}");
        }
        let error = Endpoint::parse("https://me:secret@api.test/v1").expect_err("a password");
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[test]
    fn keys_and_passages_go_where_they_may() {
        let with = |address: &str, key: bool, offline: bool| {
            let options = RemoteOptions {
                key: key.then(|| "secret".to_owned()),
                offline,
                ..RemoteOptions::new("m")
            };
            assert!(!format!("{options:?}").contains("secret"));
            Remote::new(Endpoint::parse(address).expect("an address"), options)
        };
        assert!(matches!(with("http://far.test/v1", true, false), Err(Error::OpenKey { .. })));
        assert!(matches!(with("https://far.test/v1", true, true), Err(Error::Offline { .. })));
        assert!(with("http://127.0.0.1:1/v1", true, true).is_ok());
        let remote = with("https://far.test/v1", true, false).expect("encrypted");
        assert_eq!(remote.name(), "remote:m");
        assert!(!remote.endpoint.is_local() && remote.endpoint.origin() == "https://far.test:443");
    }
}
