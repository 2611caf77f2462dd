//! Our own routes: the tools, `/api/ask` as events, models, health.

use axum::{extract::State, http::StatusCode, response::Response};
use riddle_rag::AskEvent;
use serde_json::{Value, json};

use super::{
    Door,
    call::{Call, Style, json_of, json_with},
    stream::{Events, events},
};
use crate::{
    cancel::Cancel,
    error::{Error, Result},
    journal,
    resident::Lane,
    tools::{AnswerArgs, Tool, answered, installed, parse, request_of},
};

/// Schema of what a tool is given.
pub(super) fn schema_of(tool: &str) -> Value {
    Tool::named(tool).map_or(Value::Null, |it| (it.input)())
}

pub(super) async fn health(State(door): State<Door>) -> Response {
    json_of(&json!({
        "status": "ok",
        "pid": std::process::id(),
        "uptime_seconds": door.started.elapsed().as_secs(),
    }))
}

pub(super) async fn no_route(call: Call) -> Response {
    call.style.failed(StatusCode::NOT_FOUND, "there is no such route: /openapi.json lists them")
}

pub(super) async fn no_method(call: Call) -> Response {
    let words = "this route is asked otherwise: /openapi.json says how";
    call.style.failed(StatusCode::METHOD_NOT_ALLOWED, words)
}

/// Has a tool answer.
async fn tool(door: &Door, call: &Call, name: &str, args: Result<Value>) -> Response {
    let Some(tool) = Tool::named(name) else {
        return call.style.error(&Error::Internal(format!("no tool {name}")));
    };
    let scope = call.who.scope.clone();
    let asked = args.as_ref().ok().and_then(journal::asked);
    let note = door.note(call, name, asked);
    let run = async {
        let args = args?;
        door.run(tool.lane_of(&args), &call.who.name, move |assistant, cancel| {
            tool.run(assistant, &scope, args, cancel)
        })
        .await
    };
    let done = run.await;
    note.ended(&done);
    match done {
        Ok(text) => {
            note.given(serde_json::from_str(&text).map_or(0, |it: Value| journal::given(&it)));
            json_with(StatusCode::OK, text)
        }
        Err(error) => call.style.error(&error),
    }
}

pub(super) async fn search(State(door): State<Door>, call: Call) -> Response {
    tool(&door, &call, "search", call.json()).await
}

pub(super) async fn search_by_query(State(door): State<Door>, call: Call) -> Response {
    tool(&door, &call, "search", call.fields(&["q", "query", "after", "before"])).await
}

pub(super) async fn read(State(door): State<Door>, call: Call) -> Response {
    tool(&door, &call, "read", call.json()).await
}

pub(super) async fn read_by_query(State(door): State<Door>, call: Call) -> Response {
    tool(&door, &call, "read", call.fields(&[])).await
}

pub(super) async fn check_claims(State(door): State<Door>, call: Call) -> Response {
    tool(&door, &call, "check_claims", call.json()).await
}

pub(super) async fn status(State(door): State<Door>, call: Call) -> Response {
    tool(&door, &call, "status", Ok(Value::Null)).await
}

/// Models by the names that requests may use.
pub(super) async fn models(State(door): State<Door>, call: Call) -> Response {
    let listed = door.run(Lane::Catalog, &call.who.name, |assistant, _| {
        let mut names = vec![("riddle".to_owned(), "library")];
        for (kind, prefix) in [("reranker", ""), ("embedder", ""), ("llm", "local:")] {
            let found = installed(assistant, kind)?;
            names.extend(found.into_iter().map(|it| (format!("{prefix}{it}"), kind)));
        }
        Ok(names)
    });
    match listed.await {
        Err(error) => call.style.error(&error),
        Ok(names) => {
            let model = |(id, kind): (String, &str)| json!({"id": id, "object": "model", "created": 0, "owned_by": "riddle", "kind": kind});
            let data: Vec<Value> = names.into_iter().map(model).collect();
            json_of(&json!({"object": "list", "data": data}))
        }
    }
}

/// Answers a question: as events while it happens, or at once at the end.
pub(super) async fn ask(State(door): State<Door>, call: Call) -> Response {
    let args = match call.json().and_then(parse::<AnswerArgs>) {
        Ok(args) => args,
        Err(error) => return call.style.error(&error),
    };
    if args.stream == Some(false) {
        return tool(&door, &call, "answer", call.json()).await;
    }
    let note = match door.enter(&call, "answer", Some(args.question.clone())) {
        Ok(note) => note,
        Err(error) => return call.style.error(&error),
    };
    let scope = call.who.scope.clone();
    let work = move |assistant: &riddle_rag::Assistant, cancel: &Cancel, out: &Events| {
        let (request, llm) = request_of(assistant, &scope, &args)?;
        let mut observer = |event: AskEvent<'_>| {
            match event {
                AskEvent::Rewritten(question) => {
                    out.named("rewritten", &json!({"question": question}))
                }
                AskEvent::Evidence { hits, .. } => {
                    let ids: Vec<u64> = hits.iter().map(|it| it.chunk).collect();
                    out.named("evidence", &json!({"passages": ids}));
                }
                AskEvent::Piece("") | AskEvent::Layer(_) => {}
                AskEvent::Piece(text) => out.named("piece", &json!({"text": text})),
                AskEvent::Checked(support) => out.named("checked", &json!(support)),
            }
            cancel.flow()
        };
        let response = assistant.ask_observed(&request, &llm, &mut observer)?;
        note.given(response.citations.len());
        Ok(json!(answered(assistant, &scope, &response)?))
    };
    let finish = |done: std::result::Result<Value, String>, out: &Events| match done {
        Ok(answer) => out.named("done", &answer),
        Err(words) => out.named("error", &json!({"message": words})),
    };
    match events(&door, &call.who.name, work, finish).await {
        Ok(response) => response,
        Err(error) => Style::OpenAi.error(&error),
    }
}
