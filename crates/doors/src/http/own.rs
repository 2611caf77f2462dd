//! What the person's own programs ask, on a socket that nobody else can open ([`own`]).

use axum::{extract::State, http::StatusCode, response::Response};
use riddle_rag::AskEvent;
use serde::Serialize;

use super::{
    Door,
    call::{Call, json_of},
};
use crate::{
    cancel::Cancel,
    error::Result,
    own::{Answered, Question, Said, Search},
    resident::Lane,
    tools::parse,
};

/// In whose turn they wait.
const OWN: &str = "riddle";

pub(super) async fn search(State(door): State<Door>, call: Call) -> Response {
    let asked = match call.json().and_then(parse::<Search>) {
        Ok(asked) => asked,
        Err(error) => return call.style.error(&error),
    };
    if !asked.is_like(&door.like) {
        return unlike(&call);
    }
    // Whoever has just indexed something finds it.
    door.resident.look_again();
    let done = door.run(Lane::Models, OWN, move |assistant, cancel| {
        Ok(assistant.search_observed(&asked.request(), &mut cancel.clone())?)
    });
    told(&call, done.await)
}

pub(super) async fn ask(State(door): State<Door>, call: Call) -> Response {
    let asked = match call.json().and_then(parse::<Question>) {
        Ok(asked) => asked,
        Err(error) => return call.style.error(&error),
    };
    if !asked.is_like(&door.like) {
        return unlike(&call);
    }
    door.resident.look_again();
    let work = move |assistant: &riddle_rag::Assistant, cancel: &Cancel| {
        let mut said = Vec::new();
        let mut observer = |event: AskEvent<'_>| {
            match event {
                AskEvent::Rewritten(question) => said.push(Said::Rewritten(question.to_owned())),
                AskEvent::Piece(text) => said.push(Said::Piece(text.to_owned())),
                AskEvent::Checked(support) => said.push(Said::Checked(support.clone())),
                AskEvent::Layer(_) | AskEvent::Evidence { .. } => {}
            }
            cancel.flow()
        };
        let llm = riddle_rag::writer::LLM_EXTRACTIVE;
        let response = assistant.ask_observed(&asked.request(), llm, &mut observer)?;
        Ok(Answered { said, response })
    };
    told(&call, door.run(Lane::Models, OWN, work).await)
}

/// This engine would not answer as the program that asks does.
fn unlike(call: &Call) -> Response {
    call.style.failed(StatusCode::CONFLICT, "this is another version, or it has other models")
}

fn told<T: Serialize>(call: &Call, done: Result<T>) -> Response {
    match done {
        Ok(response) => json_of(&response),
        Err(error) => call.style.error(&error),
    }
}
