//! A question to the library in the shape of OpenAI's responses: what chats are, under other names. Nothing is kept
//! from one response to the next: who goes on sends what came before.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use riddle_rag::{AskEvent, Assistant};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Door,
    call::{Call, json_of},
    chat::{self, Said, question_of},
    stream::{Events, events},
};
use crate::{
    cancel::Cancel,
    error::{Error, Result},
    frame,
    resident::Lane,
    tools::{AnswerArgs, Answered, answered, parse, request_of},
};

#[derive(Debug, Deserialize)]
struct Asked {
    input: Value,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    previous_response_id: Option<String>,
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "model": {"type": "string", "description": "`riddle` quotes the files, `local:NAME` has an installed model write"},
            "input": {
                "description": "The question, or messages of which the last is the question",
                "anyOf": [
                    {"type": "string"},
                    {"type": "array", "items": {"type": "object", "properties": {"role": {"type": "string"}, "content": {}}}},
                ],
            },
            "stream": {"type": "boolean"},
        },
        "required": ["input"],
    })
}

/// What is the same in every state of a response.
struct Head {
    number: String,
    created: u64,
    model: String,
}

impl Head {
    fn item(&self) -> String {
        format!("msg_{}", self.number)
    }

    /// The response; `output`: what it holds so far.
    fn state(&self, status: &str, output: &Value, usage: &Value) -> Value {
        json!({
            "id": format!("resp_{}", self.number),
            "object": "response",
            "created_at": self.created,
            "status": status,
            "model": self.model,
            "output": output,
            "usage": usage,
            "error": null,
            "incomplete_details": null,
            "instructions": null,
            "metadata": {},
            "parallel_tool_calls": false,
            "temperature": null,
            "top_p": null,
            "tool_choice": "none",
            "tools": [],
        })
    }

    fn message(&self, status: &str, content: &Value) -> Value {
        json!({
            "type": "message", "id": self.item(), "status": status, "role": "assistant", "content": content,
        })
    }
}

/// Text with its sources.
fn part(text: &str, annotations: &[Value]) -> Value {
    json!({"type": "output_text", "text": text, "annotations": annotations, "logprobs": []})
}

fn annotations(text: &str, answered: &Answered) -> Vec<Value> {
    let mut marks = chat::marks(text, answered);
    for mark in &mut marks {
        mark["type"] = json!("url_citation");
    }
    marks
}

fn usage(question: &str, text: &str) -> Value {
    let (asked, said) = (frame::tokens(question), frame::tokens(text));
    json!({
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": asked + said,
    })
}

fn question(asked: &Asked) -> Result<AnswerArgs> {
    if asked.previous_response_id.is_some() {
        return Err(Error::BadRequest(
            "`previous_response_id` names nothing: responses are not kept, send the messages before"
                .to_owned(),
        ));
    }
    let messages = match &asked.input {
        Value::String(_) => vec![Said { role: "user".to_owned(), content: asked.input.clone() }],
        Value::Array(all) => {
            let said = |it: &Value| parse::<Said>(it.clone());
            all.iter().map(said).collect::<Result<Vec<Said>>>()?
        }
        _ => {
            return Err(Error::BadRequest("`input` is a text, or a list of messages".to_owned()));
        }
    };
    question_of(&messages, asked.model.as_deref())
}

pub(super) async fn responses(State(door): State<Door>, call: Call) -> Response {
    let asked = call.json().and_then(parse::<Asked>);
    let args = asked.and_then(|asked| Ok((question(&asked)?, asked)));
    let (args, asked) = match args {
        Ok(it) => it,
        Err(error) => return call.style.error(&error),
    };
    let head = Head {
        number: chat::number("riddle"),
        created: chat::now(),
        model: asked.model.unwrap_or_else(|| "riddle".to_owned()),
    };
    let answer = if asked.stream {
        streamed(&door, &call, args, head).await
    } else {
        whole(&door, &call, args, head).await
    };
    answer.unwrap_or_else(|error| call.style.error(&error))
}

async fn whole(door: &Door, call: &Call, args: AnswerArgs, head: Head) -> Result<Response> {
    let question = args.question.clone();
    let note = door.enter(call, "answer", Some(question.clone()))?;
    let scope = call.who.scope.clone();
    let done = door.run(Lane::Models, &call.who.name, move |assistant, cancel| {
        let (request, llm) = request_of(assistant, &scope, &args)?;
        let mut watch = |_: AskEvent<'_>| cancel.flow();
        answered(assistant, &scope, &assistant.ask_observed(&request, &llm, &mut watch)?)
    });
    let done = done.await;
    note.ended(&done);
    let done = done?;
    note.given(done.citations.len());
    let text = chat::words(&json!(done));
    let content = json!([part(&text, &annotations(&text, &done))]);
    let output = json!([head.message("completed", &content)]);
    let mut response = head.state("completed", &output, &usage(&question, &text));
    response["riddle"] = json!(done);
    Ok(json_of(&response))
}

/// Events with their numbers.
struct Told<'a> {
    out: &'a Events,
    number: u64,
}

impl Told<'_> {
    fn say(&mut self, kind: &str, mut fields: Value) {
        fields["type"] = json!(kind);
        fields["sequence_number"] = json!(self.number);
        self.number += 1;
        self.out.named(kind, &fields);
    }

    fn begin(&mut self, head: &Head) {
        let state = head.state("in_progress", &json!([]), &Value::Null);
        self.say("response.created", json!({"response": state}));
        self.say("response.in_progress", json!({"response": state}));
        let item = head.message("in_progress", &json!([]));
        self.say("response.output_item.added", json!({"output_index": 0, "item": item}));
        let place = json!({
            "item_id": head.item(), "output_index": 0, "content_index": 0, "part": part("", &[]),
        });
        self.say("response.content_part.added", place);
    }

    fn piece(&mut self, head: &Head, text: &str) {
        let piece = json!({
            "item_id": head.item(), "output_index": 0, "content_index": 0, "delta": text, "logprobs": [],
        });
        self.say("response.output_text.delta", piece);
    }

    fn end(&mut self, head: &Head, question: &str, said: &str, answered: &Answered) {
        let text = if said.is_empty() { chat::words(&json!(answered)) } else { said.to_owned() };
        if said.is_empty() {
            self.piece(head, &text);
        }
        let marks = annotations(&text, answered);
        let place = |mut more: Value| {
            more["item_id"] = json!(head.item());
            more["output_index"] = json!(0);
            more["content_index"] = json!(0);
            more
        };
        for (mark, index) in marks.iter().zip(0..) {
            let added = place(json!({"annotation_index": index, "annotation": mark}));
            self.say("response.output_text.annotation.added", added);
        }
        self.say("response.output_text.done", place(json!({"text": text, "logprobs": []})));
        let part = part(&text, &marks);
        self.say("response.content_part.done", place(json!({"part": part})));
        let item = head.message("completed", &json!([part]));
        self.say("response.output_item.done", json!({"output_index": 0, "item": item}));
        let mut state = head.state("completed", &json!([item]), &usage(question, &text));
        state["riddle"] = json!(answered);
        self.say("response.completed", json!({"response": state}));
    }
}

async fn streamed(door: &Door, call: &Call, args: AnswerArgs, head: Head) -> Result<Response> {
    let question = args.question.clone();
    let note = door.enter(call, "answer", Some(question.clone()))?;
    let scope = call.who.scope.clone();
    let head = Arc::new(head);
    let pieces = Arc::clone(&head);
    let work = move |assistant: &Assistant, cancel: &Cancel, out: &Events| {
        let (request, llm) = request_of(assistant, &scope, &args)?;
        let mut said = String::new();
        let mut told = Told { out, number: 0 };
        let mut observer = |event: AskEvent<'_>| {
            if let AskEvent::Evidence { .. } = event {
                told.begin(&pieces);
            }
            if let AskEvent::Piece(text) = event
                && !text.is_empty()
            {
                let text = frame::shown(text);
                said.push_str(&text);
                told.piece(&pieces, &text);
            }
            cancel.flow()
        };
        let response = assistant.ask_observed(&request, &llm, &mut observer)?;
        note.given(response.citations.len());
        Ok((answered(assistant, &scope, &response)?, said, told.number))
    };
    let finish = move |done: std::result::Result<(Answered, String, u64), String>, out: &Events| {
        match done {
            Err(words) => {
                let mut told = Told { out, number: 0 };
                told.say("error", json!({"code": "server_error", "message": words, "param": null}));
            }
            Ok((answered, said, number)) => {
                let mut told = Told { out, number };
                if number == 0 {
                    told.begin(&head);
                }
                told.end(&head, &question, &said, &answered);
            }
        }
    };
    events(door, &call.who.name, work, finish).await
}

/// What is read of a body is a question, or refused in words.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn reads(body: Value) {
    if let Ok(args) = parse::<Asked>(body).and_then(|it| question(&it)) {
        assert!(!args.question.trim().is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_a_text_or_messages() {
        let of = |it: Value| question(&parse::<Asked>(it)?);
        assert_eq!(of(json!({"input": "Who?"})).expect("a question").question, "Who?");
        let args = of(json!({"input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Who painted it?"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Jo."}]},
            {"role": "user", "content": "When?"},
        ]}));
        let args = args.expect("a question");
        assert_eq!((args.question.as_str(), args.earlier.len()), ("When?", 1));
        for wrong in [
            json!({"input": 1}),
            json!({"input": []}),
            json!({"input": "x", "previous_response_id": "resp_1"}),
            json!({"input": [{"role": "assistant", "content": "x"}]}),
            json!({}),
        ] {
            assert!(of(wrong.clone()).is_err(), "{wrong}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_body_is_a_question_or_refused(body in crate::any_json::body(&["input", "role", "content", "type", "text", "model", "stream", "instructions"])) {
            reads(body);
        }
    }
}
