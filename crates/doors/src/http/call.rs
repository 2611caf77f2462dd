//! A request, read within limits, and its answer in the shape that its client knows.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody as _, to_bytes},
    extract::{FromRequest, Request},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use riddle_rag::Assistant;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::{sync::oneshot, time::timeout};

use super::Door;
use crate::{
    cancel::Cancel,
    error::{Error, Result},
    journal::{MAX_ASKED, Noting},
    resident::Lane,
    who::{Scope, Who},
    words,
};

/// Most bytes of a body: a thousand texts of 16 kB.
const MAX_BODY: usize = 16 << 20;

/// How long a client may take for its body.
const BODY: Duration = Duration::from_secs(30);

/// How long an answer may take: a language model within a budget is slow, and nobody waits longer.
const LONGEST: Duration = Duration::from_secs(600);

/// Longest name of a client that is kept.
const MAX_NAME: usize = 80;

/// Whose shape of errors a route has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `{"error": {"message", "type", "param", "code"}}`: OpenAI, vLLM, Infinity, and our own routes.
    OpenAi,
    /// `{"message"}`.
    Cohere,
    /// `{"error", "error_type"}`: text-embeddings-inference.
    Tei,
    /// `{"error": {"code": 400, "message", "type"}}`.
    LlamaCpp,
}

impl Style {
    pub(super) fn of(path: &str) -> Style {
        match path {
            "/v2/rerank" => Style::Cohere,
            "/rerank" | "/reranking" => Style::LlamaCpp,
            "/embed" => Style::Tei,
            _ => Style::OpenAi,
        }
    }

    /// An error.
    pub(super) fn failed(self, status: StatusCode, words: &str) -> Response {
        let kind = match status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            it if it.is_client_error() => "invalid_request_error",
            _ => "server_error",
        };
        let body = match self {
            Style::OpenAi => json!({
                "error": {"message": words, "type": kind, "param": null, "code": status.as_str()}
            }),
            Style::Cohere => json!({"message": words}),
            Style::LlamaCpp => {
                json!({"error": {"code": status.as_u16(), "message": words, "type": kind}})
            }
            Style::Tei => {
                let kind = match status {
                    StatusCode::TOO_MANY_REQUESTS => "Overloaded",
                    it if it.is_client_error() => "Validation",
                    _ => "Backend",
                };
                json!({"error": words, "error_type": kind})
            }
        };
        json_with(status, body.to_string())
    }

    pub(super) fn error(self, error: &Error) -> Response {
        let mut response = self.failed(status_of(error), &words::error(error));
        if let Error::Busy { seconds, .. } = error {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(*seconds));
        }
        response
    }
}

fn status_of(error: &Error) -> StatusCode {
    use riddle_rag::Error as Rag;
    match error {
        Error::BadRequest(_) | Error::Rag(Rag::BadRequest(_)) => StatusCode::BAD_REQUEST,
        Error::NotFound(_) | Error::Rag(Rag::NoModel { .. } | Rag::NoModelAt { .. }) => {
            StatusCode::NOT_FOUND
        }
        Error::NotAllowed(_) => StatusCode::FORBIDDEN,
        Error::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
        Error::Busy { .. } => StatusCode::TOO_MANY_REQUESTS,
        Error::Stopped => StatusCode::SERVICE_UNAVAILABLE,
        Error::TooSlow { .. } => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// JSON text as an answer.
pub(super) fn json_with(status: StatusCode, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// A value as an answer.
pub(super) fn json_of(value: &impl Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => json_with(StatusCode::OK, text),
        Err(error) => Style::OpenAi.error(&Error::Internal(error.to_string())),
    }
}

/// A request that was read.
pub(super) struct Call {
    pub(super) headers: HeaderMap,
    pub(super) style: Style,
    /// What stands behind the question mark.
    pub(super) query: String,
    /// Whose turn it is, and what of the library that may see.
    pub(super) who: Who,
    noted: Noted,
    body: Bytes,
}

/// Whether a request has a line in the log: what is refused before anybody looks at what it asks has one, too.
#[derive(Debug, Clone, Default)]
pub(super) struct Noted(Arc<AtomicBool>);

impl Noted {
    pub(super) fn is_noted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl FromRequest<Door> for Call {
    type Rejection = Response;

    async fn from_request(request: Request, _: &Door) -> std::result::Result<Call, Response> {
        let (head, body) = request.into_parts();
        let style = Style::of(head.uri.path());
        let too_large = || {
            let words = format!("the body is larger than {} MiB", MAX_BODY >> 20);
            style.failed(StatusCode::PAYLOAD_TOO_LARGE, &words)
        };
        if body.size_hint().lower() > MAX_BODY as u64 {
            return Err(too_large());
        }
        let body = match timeout(BODY, to_bytes(body, MAX_BODY)).await {
            Ok(Ok(body)) => body,
            // The limit, or a client that has gone and hears nothing.
            Ok(Err(_)) => return Err(too_large()),
            Err(_) => {
                return Err(style.failed(StatusCode::REQUEST_TIMEOUT, "the body came too slowly"));
            }
        };
        // Whoever comes in without a token is asked nothing, and sees nothing.
        let who = head.extensions.get::<Who>().cloned().unwrap_or_else(|| Who {
            name: name_of(&head.headers),
            known: false,
            scope: Scope::whole(true),
        });
        Ok(Call {
            style,
            noted: head.extensions.get::<Noted>().cloned().unwrap_or_default(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            who,
            headers: head.headers,
            body,
        })
    }
}

/// What a program calls itself.
pub(super) fn name_of(headers: &HeaderMap) -> String {
    let name = |it: &str| headers.get(it).and_then(|it| it.to_str().ok());
    let name = name("x-client-name").or_else(|| name("user-agent")).unwrap_or("nameless");
    name.chars().take(MAX_NAME).collect()
}

impl Call {
    /// The body as JSON.
    pub(super) fn json(&self) -> Result<Value> {
        let value: Value = serde_json::from_slice(&self.body)
            .map_err(|error| Error::BadRequest(format!("the body is no JSON: {error}")))?;
        if value.is_object() {
            return Ok(value);
        }
        Err(Error::BadRequest("the body is an object of JSON".to_owned()))
    }

    /// The body as text, whatever it holds.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.body
    }

    /// The part behind the question mark as an object: `true`, `false` and numbers as such, all else as text.
    pub(super) fn fields(&self, texts: &[&str]) -> Result<Value> {
        let mut fields = serde_json::Map::new();
        for part in self.query.split('&').filter(|it| !it.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (name, value) = (unescaped(name)?, unescaped(value)?);
            let plain = || serde_json::from_str::<Value>(&value).ok().filter(|it| !it.is_object());
            let is_text = texts.contains(&name.as_str());
            let value = if is_text { None } else { plain() }.unwrap_or(Value::String(value));
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

/// `%20` and `+` are spaces.
fn unescaped(text: &str) -> Result<String> {
    let wrong = || Error::BadRequest(format!("{text:?} is no part of an address"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |it: Option<u8>| char::from(it?).to_digit(16);
                let (high, low) = (digit(rest.next()), digit(rest.next()));
                let value = high.zip(low).map(|(high, low)| high * 16 + low).ok_or_else(wrong)?;
                u8::try_from(value).map_err(|_| wrong())?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// Parts of an address are texts, or refused in words.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn reads(text: &str) {
    if let Ok(plain) = unescaped(text) {
        assert!(plain.len() <= text.len());
    }
}

impl Door {
    /// Writes down that this is asked.
    pub(super) fn note(&self, call: &Call, what: &str, asked: Option<String>) -> Arc<Noting> {
        call.noted.note();
        Noting::begin(&self.journal, &call.who, what, asked)
    }

    /// Writes down that this is asked, and says whether it may be.
    pub(super) fn enter(
        &self,
        call: &Call,
        tool: &str,
        asked: Option<String>,
    ) -> Result<Arc<Noting>> {
        let asked = asked.map(|it| it.chars().take(MAX_ASKED).collect());
        let note = self.note(call, tool, asked);
        let allowed = call.who.scope.allows(tool);
        note.ended(&allowed);
        allowed.map(|()| note)
    }

    /// Has something computed; a client that goes away drops this, and with it the work.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        client: &str,
        work: impl FnOnce(&Assistant, &Cancel) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let cancel = Cancel::default();
        let gone = cancel.on_drop();
        let (sender, receiver) = oneshot::channel();
        // A receiver that is gone belongs to a client that is.
        self.resident.submit(lane, client, cancel, work, move |done| drop(sender.send(done)));
        let done = self.wait(receiver).await;
        // Nobody waits any more for what took too long.
        if !matches!(done, Err(Error::TooSlow { .. })) {
            gone.defuse();
        }
        done
    }

    /// What comes of work, for as long as anybody waits.
    pub(super) async fn wait<T>(&self, receiver: oneshot::Receiver<Result<T>>) -> Result<T> {
        match timeout(LONGEST, receiver).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(Error::Stopped),
            Err(_) => Err(Error::TooSlow { seconds: LONGEST.as_secs() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parts_of_addresses_are_read() {
        assert_eq!(unescaped("blue+boat%20%C3%A4").expect("text"), "blue boat ä");
        for wrong in ["%", "%2", "%zz", "%ff", "%+1"] {
            assert!(unescaped(wrong).is_err(), "{wrong}");
        }
        let call = |query: &str| Call {
            headers: HeaderMap::new(),
            style: Style::OpenAi,
            query: query.to_owned(),
            who: Who { name: String::new(), known: false, scope: Scope::whole(true) },
            noted: Noted::default(),
            body: Bytes::new(),
        };
        let fields = call("q=42&limit=3&rerank=false&after=2025-01-01").fields(&["q"]);
        let wanted = json!({"q": "42", "limit": 3, "rerank": false, "after": "2025-01-01"});
        assert_eq!(fields.expect("fields"), wanted);
    }

    proptest! {
        #[test]
        fn any_text_survives_its_escapes(text in any::<String>()) {
            let escaped: String = text.bytes().map(|it| format!("%{it:02X}")).collect();
            prop_assert_eq!(unescaped(&escaped).expect("escaped"), text);
        }

        #[test]
        fn no_address_is_a_panic(text in "[%+a-f0-9ä=&]{0,40}") {
            reads(&text);
        }
    }
}
