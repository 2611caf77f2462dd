//! One question to an endpoint, asked on a thread of its own: sent, tried again, read, and its failures named.

use std::{io::Read, sync::mpsc::Sender, time::Duration};

use ureq::Agent;

use crate::{
    Endpoint, Error, RemoteOptions, Result,
    agent::{failure, is_timeout},
    stream::{Broken, Events, Said, message_of, whole},
};

/// Longest pause that a server can ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Most bytes of a refusal that are read.
const LONGEST_REFUSAL: u64 = 64 << 10;

/// What the reading thread tells.
pub(crate) enum Told {
    Text(String),
    /// Complete.
    Done {
        /// Cut off by the limit of tokens.
        cut: bool,
        /// Tokens written, where that is known.
        tokens: Option<usize>,
    },
    Failed(Error),
}

/// One question to an endpoint, on a thread of its own.
pub(crate) struct Call {
    pub(crate) agent: Agent,
    pub(crate) endpoint: Endpoint,
    pub(crate) options: RemoteOptions,
    pub(crate) body: serde_json::Value,
}

/// Why a try failed.
enum Failure {
    /// The same question may be answered later, after that pause if the server asks for one.
    Passing(Error, Option<Duration>),
    /// It will not.
    Lasting(Error),
    /// A stream without a single event: some servers say nothing else when they refuse a prompt.
    Mute,
}

impl Call {
    pub(crate) fn run(self, tell: &Sender<Told>) {
        let mut tried = 1;
        let mut stream = true;
        loop {
            match self.once(stream, tell) {
                Ok(()) => return,
                Err(Failure::Mute) if stream => stream = false,
                Err(Failure::Mute) => {
                    let url = self.endpoint.shown.clone();
                    let why = "an answer of nothing".to_owned();
                    let _ = tell.send(Told::Failed(Error::Protocol { url, why }));
                    return;
                }
                Err(Failure::Passing(error, pause)) if tried < self.options.tries => {
                    tracing::warn!(%error, tried, "the endpoint is asked again");
                    // The sixth doubling is past the longest pause for any sensible start.
                    let own = self.options.pause.saturating_mul(1 << (tried - 1).min(6));
                    std::thread::sleep(pause.unwrap_or(own).min(LONGEST_PAUSE));
                    tried += 1;
                }
                Err(Failure::Passing(error, _) | Failure::Lasting(error)) => {
                    // A receiver that is gone has stopped the call: it needs no error.
                    let _ = tell.send(Told::Failed(error));
                    return;
                }
            }
        }
    }

    /// One try. What does not stream is asked where a stream has said nothing: the refusal comes with its reason.
    fn once(&self, stream: bool, tell: &Sender<Told>) -> Result<(), Failure> {
        let mut body = self.body.clone();
        body["stream"] = stream.into();
        let mut request = self
            .agent
            .post(&self.endpoint.url)
            .header("content-type", "application/json")
            .header("accept", "text/event-stream, application/json");
        if let Some(key) = &self.options.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let response = request.send(body.to_string().as_bytes()).map_err(|it| self.failure(it))?;
        let status = response.status().as_u16();
        let header = |name| response.headers().get(name).and_then(|it| it.to_str().ok());
        let streams = header("content-type").is_some_and(|it| it.contains("event-stream"));
        let pause = header("retry-after").and_then(|it| it.trim().parse().ok());
        let body = response.into_body().into_reader();
        if status != 200 {
            return Err(self.refusal(status, pause.map(Duration::from_secs), body));
        }
        if !streams {
            let (text, tokens) = whole(body).map_err(|it| Failure::Lasting(self.broken(it)))?;
            let done = Told::Done { cut: false, tokens };
            let _ = tell.send(Told::Text(text)).and_then(|()| tell.send(done));
            return Ok(());
        }
        let mut events = Events::new(body);
        // A piece is a token for most servers that do not count.
        let mut pieces = 0;
        loop {
            let begun = pieces > 0;
            let event = match events.next() {
                Ok(Said::Text(text)) => Told::Text(text),
                Ok(Said::End(cut)) => {
                    Told::Done { cut, tokens: Some(events.tokens().unwrap_or(pieces)) }
                }
                Err(Broken::Read(error))
                    if events.is_silent() && error.kind() == std::io::ErrorKind::UnexpectedEof =>
                {
                    return Err(Failure::Mute);
                }
                Err(broken @ Broken::Read(_)) if !begun => {
                    return Err(Failure::Passing(self.broken(broken), None));
                }
                Err(broken) => return Err(Failure::Lasting(self.broken(broken))),
            };
            pieces += 1;
            let done = matches!(event, Told::Done { .. });
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
            // The advice says it.
            401 | 403 => None,
            404 => Some(
                "check the name of the model and the address, which ends in /v1 for most servers",
            ),
            402 => Some("the account has no credit left"),
            400 | 422 => Some("it does not take this request"),
            413 => Some("the prompt is too long for this model: give a smaller context"),
            429 => Some("too many questions at once or too little credit: ask again later"),
            300..=399 => {
                Some("it redirects, and passages are sent nowhere but to the address given")
            }
            500..=599 => Some("the server has a problem of its own: its log may say more"),
            _ => Some("this was not expected"),
        };
        let url = self.endpoint.shown.clone();
        let error = Error::Status { url, status, message, hint };
        match status {
            408 | 425 | 429 | 500 | 502..=504 => Failure::Passing(error, pause),
            _ => Failure::Lasting(error),
        }
    }

    fn failure(&self, error: ureq::Error) -> Failure {
        let (error, passes) = failure(error, &self.endpoint.shown, self.options.first_timeout);
        if passes { Failure::Passing(error, None) } else { Failure::Lasting(error) }
    }
}
