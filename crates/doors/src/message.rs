//! JSON-RPC 2.0, as far as the protocol uses it: what both ends of it know.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

/// What keys of `_meta` that the protocol owns begin with.
const OWN: &str = "io.modelcontextprotocol/";

/// A message from a client.
#[derive(Debug, Clone)]
pub(crate) enum Message {
    Request(Request),
    /// Nobody waits for an answer.
    Notification {
        method: String,
        params: Value,
    },
    /// An answer to something that was never asked.
    Response,
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) id: Value,
    pub(crate) method: String,
    pub(crate) params: Value,
}

/// Why a request can not be answered.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) code: i32,
    message: String,
    data: Option<Value>,
}

impl Failure {
    pub(crate) fn new(code: i32, message: &str) -> Failure {
        Failure { code, message: message.to_owned(), data: None }
    }

    pub(crate) fn with(self, data: Value) -> Failure {
        Failure { data: Some(data), ..self }
    }

    pub(crate) fn params(message: &str) -> Failure {
        Failure::new(-32602, message)
    }

    pub(crate) fn internal(message: &str) -> Failure {
        Failure::new(-32603, message)
    }

    /// Whoever asks is not let in.
    pub(crate) fn unwelcome() -> Failure {
        Failure::new(
            -32001,
            "this program is not let in, or not any more: the person decides that in Riddle",
        )
    }

    /// As the answer to a message whose number is not known.
    pub(crate) fn nameless(&self) -> Value {
        self.answer(None)
    }

    fn answer(&self, id: Option<&Value>) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        let mut answer = json!({"jsonrpc": "2.0", "error": error});
        // Before 2026 it is null, which modern clients take as well.
        answer["id"] = id.cloned().unwrap_or(Value::Null);
        answer
    }
}

impl Message {
    /// Reads a message; batches are no part of the protocol.
    pub(crate) fn of(value: Value) -> Result<Message, Failure> {
        let wrong = |why: &str| Failure::new(-32600, why);
        let Value::Object(mut fields) = value else {
            return Err(wrong("a message is one object of JSON-RPC 2.0"));
        };
        if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(wrong("a message says `\"jsonrpc\": \"2.0\"`"));
        }
        let id = fields.remove("id");
        let params = fields.remove("params").unwrap_or_else(|| json!({}));
        let method = match fields.remove("method") {
            Some(Value::String(method)) => method,
            None if fields.contains_key("result") || fields.contains_key("error") => {
                return Ok(Message::Response);
            }
            _ => return Err(wrong("a message names its method")),
        };
        if !params.is_object() {
            return Err(wrong("`params` is an object"));
        }
        match id {
            None => Ok(Message::Notification { method, params }),
            Some(id) if id.is_string() || id.is_i64() || id.is_u64() => {
                Ok(Message::Request(Request { id, method, params }))
            }
            Some(_) => Err(wrong("`id` is a text or a whole number")),
        }
    }
}

impl Request {
    /// What the protocol's own part of `_meta` says.
    pub(crate) fn meta(&self, key: &str) -> Option<&Value> {
        self.params.get("_meta")?.get(format!("{OWN}{key}"))
    }

    /// The version that the request says it is of; only modern ones do.
    pub(crate) fn version(&self) -> Option<&str> {
        self.meta("protocolVersion").map(|it| it.as_str().unwrap_or_default())
    }

    pub(crate) fn done(&self, mut result: Map<String, Value>) -> Value {
        if self.version().is_some() {
            result.insert("resultType".to_owned(), json!("complete"));
            result.insert("_meta".to_owned(), json!({format!("{OWN}serverInfo"): server_info()}));
        }
        json!({"jsonrpc": "2.0", "id": self.id, "result": result})
    }

    pub(crate) fn failed(&self, failure: &Failure) -> Value {
        failure.answer(Some(&self.id))
    }
}

/// Who answers.
pub(crate) fn server_info() -> Value {
    json!({"name": "riddle", "title": "Riddle", "version": env!("CARGO_PKG_VERSION")})
}

/// What stands for a value that a header can not hold.
const SENTINEL: (&str, &str) = ("=?base64?", "?=");

/// A value from a header, which may have been encoded.
pub(crate) fn decoded(value: &str) -> Option<String> {
    let inner = value.strip_prefix(SENTINEL.0).and_then(|it| it.strip_suffix(SENTINEL.1));
    match inner {
        None => Some(value.to_owned()),
        Some(inner) => String::from_utf8(STANDARD.decode(inner).ok()?).ok(),
    }
}

/// A value as a header holds it.
pub(crate) fn header_value(value: &str) -> String {
    let plain = value.bytes().all(|it| (0x20..0x7f).contains(&it))
        && value.trim() == value
        && !value.starts_with(SENTINEL.0);
    if plain {
        value.to_owned()
    } else {
        format!("{}{}{}", SENTINEL.0, STANDARD.encode(value), SENTINEL.1)
    }
}

/// What a client sends as a message, and what stands in its headers.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn reads(text: &str) {
    if let Some(plain) = decoded(text) {
        assert_eq!(decoded(&header_value(&plain)), Some(plain));
    }
    let Ok(value) = serde_json::from_str::<Value>(text) else { return };
    match Message::of(value) {
        Ok(Message::Request(request)) => {
            assert!(request.id.is_string() || request.id.is_number());
            let _ = (request.version(), request.meta("clientCapabilities"));
        }
        Ok(_) => {}
        Err(failure) => assert!(failure.code < 0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let of = |it: Value| Message::of(it);
        let request = json!({"jsonrpc": "2.0", "id": "a", "method": "ping"});
        assert!(matches!(of(request), Ok(Message::Request(_))));
        let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert!(matches!(of(note), Ok(Message::Notification { .. })));
        assert!(matches!(
            of(json!({"jsonrpc": "2.0", "id": 1, "result": {}})),
            Ok(Message::Response)
        ));
        for wrong in [
            json!([]),
            json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}]),
            json!({"id": 1, "method": "ping"}),
            json!({"jsonrpc": "2.0", "id": null, "method": "ping"}),
            json!({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}),
            json!({"jsonrpc": "2.0", "id": 1, "method": 2}),
            json!({"jsonrpc": "2.0", "id": 1}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}),
        ] {
            assert_eq!(of(wrong.clone()).expect_err("refused").code, -32600, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_json_is_a_message_or_refused(text in "[\\[\\]{}:,\"a-z0-9 .]{0,60}") {
            if let Ok(value) = serde_json::from_str::<Value>(&text) {
                let _ = Message::of(value);
            }
        }
    }
}
