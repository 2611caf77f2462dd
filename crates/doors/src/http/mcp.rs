//! The Model Context Protocol over HTTP: a message per POST, its answer as JSON. What a modern request says of itself
//! in its head must be what stands in its body.

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{
    Door,
    call::{Call, json_with},
};
use crate::{
    cancel::Cancel,
    message::{Failure, Message, Request, decoded},
};

pub(super) fn schema() -> Value {
    json!({"type": "object", "description": "A message of JSON-RPC 2.0"})
}

pub(super) async fn mcp(State(door): State<Door>, call: Call) -> Response {
    let message = serde_json::from_slice::<Value>(call.bytes())
        .map_err(|error| Failure::new(-32700, &format!("no JSON: {error}")))
        .and_then(Message::of);
    let request = match message {
        Err(failure) => return with(StatusCode::BAD_REQUEST, &failure.nameless()),
        Ok(Message::Request(request)) => request,
        Ok(Message::Notification { .. } | Message::Response) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::ACCEPTED;
            return response;
        }
    };
    if let Err(failure) = heads_match(&call.headers, &request) {
        return with(StatusCode::BAD_REQUEST, &request.failed(&failure));
    }
    let modern = request.version().is_some();
    let cancel = Cancel::default();
    let gone = cancel.on_drop();
    let (sender, receiver) = oneshot::channel();
    let reply = move |answer: Value| drop(sender.send(answer));
    let twin = request.clone();
    door.protocol.answer(&call.who, request, cancel, reply);
    let answer = receiver.await.unwrap_or_else(|_| twin.failed(&Failure::internal("stopped")));
    gone.defuse();
    let status = match answer["error"]["code"].as_i64() {
        None => StatusCode::OK,
        Some(_) if !modern => StatusCode::OK,
        Some(-32601) => StatusCode::NOT_FOUND,
        Some(-32603) => StatusCode::INTERNAL_SERVER_ERROR,
        Some(_) => StatusCode::BAD_REQUEST,
    };
    with(status, &answer)
}

fn with(status: StatusCode, answer: &Value) -> Response {
    json_with(status, answer.to_string())
}

/// Whether the head says what the body says; what a request before 2026 says in its head is not looked at.
fn heads_match(headers: &HeaderMap, request: &Request) -> Result<(), Failure> {
    let mismatch = |words: String| Failure::new(-32020, &format!("Header mismatch: {words}"));
    let head = |name: &str| headers.get(name).and_then(|it| it.to_str().ok());
    let Some(version) = request.version() else {
        return match head("mcp-protocol-version") {
            Some(it) if crate::mcp::is_modern(it) => Err(Failure::params(
                "`_meta` lacks io.modelcontextprotocol/protocolVersion, which every request has",
            )),
            _ => Ok(()),
        };
    };
    let name = match request.method.as_str() {
        "tools/call" | "prompts/get" => request.params.get("name"),
        "resources/read" => request.params.get("uri"),
        _ => None,
    };
    let name = name.and_then(Value::as_str);
    for (field, wanted) in [
        ("MCP-Protocol-Version", Some(version)),
        ("Mcp-Method", Some(request.method.as_str())),
        ("Mcp-Name", name),
    ] {
        let Some(wanted) = wanted else { continue };
        let given = head(field).ok_or_else(|| mismatch(format!("{field} is missing")))?;
        let decoded = if field == "Mcp-Name" { decoded(given) } else { Some(given.to_owned()) };
        if decoded.as_deref() != Some(wanted) {
            return Err(mismatch(format!("{field} is {given:?}, and the body says {wanted:?}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use proptest::prelude::*;

    use super::*;
    use crate::message::header_value;

    fn request(method: &str, params: Value) -> Request {
        Request { id: json!(1), method: method.to_owned(), params }
    }

    fn headers(of: &[(&'static str, &str)]) -> HeaderMap {
        of.iter()
            .map(|(name, value)| {
                (axum::http::HeaderName::from_static(name), value.parse().expect("a value"))
            })
            .collect()
    }

    #[test]
    fn a_head_that_says_otherwise_is_refused() {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        let call = request("tools/call", json!({"name": "search", "_meta": meta}));
        let all = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "search"),
        ];
        assert!(heads_match(&headers(&all), &call).is_ok());
        for missing in 0..all.len() {
            let mut some = all.to_vec();
            some.remove(missing);
            assert!(heads_match(&headers(&some), &call).is_err(), "{missing}");
            let mut other = all.to_vec();
            other[missing].1 = "other";
            assert!(heads_match(&headers(&other), &call).is_err(), "{missing}");
        }
        let encoded = format!("=?base64?{}?=", STANDARD.encode("search"));
        let mut sentinel = all.to_vec();
        sentinel[2].1 = &encoded;
        assert!(heads_match(&headers(&sentinel), &call).is_ok());
        let legacy = request("tools/call", json!({"name": "search"}));
        assert!(heads_match(&headers(&[]), &legacy).is_ok());
        let before = [("mcp-protocol-version", "2025-11-25")];
        assert!(heads_match(&headers(&before), &legacy).is_ok());
        // A modern request whose body does not say so lacks what every request has.
        let alone = heads_match(&headers(&all), &legacy).expect_err("a version in the head alone");
        assert_eq!(alone.code, -32602);
    }

    proptest! {
        #[test]
        fn any_name_survives_its_header(name in any::<String>()) {
            let value = header_value(&name);
            prop_assert!(value.parse::<axum::http::HeaderValue>().is_ok());
            prop_assert_eq!(decoded(&value), Some(name));
        }
    }
}
