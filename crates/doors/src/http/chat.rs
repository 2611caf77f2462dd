//! A question to the library in the shape of a chat: the last message is the question, the ones before are what it
//! follows. The answer is grounded in the files whatever the other messages say, and its sources are annotations.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{extract::State, response::Response};
use riddle_rag::{AskEvent, Assistant, writer::LLM_EXTRACTIVE};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Door,
    call::{Call, json_of},
    stream::{Events, events},
};
use crate::{
    cancel::Cancel,
    error::{Error, Result},
    frame,
    resident::Lane,
    tools::{AnswerArgs, Answered, answered, checked, parse, request_of},
};

/// Most messages of a chat.
const MAX_MESSAGES: usize = 200;

/// The model that quotes.
const OWN_MODEL: &str = "riddle";

#[derive(Debug, Deserialize)]
struct Asked {
    messages: Vec<Said>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    n: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Said {
    #[serde(default)]
    pub(super) role: String,
    #[serde(default)]
    pub(super) content: Value,
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "model": {"type": "string", "description": "`riddle` quotes the files, `local:NAME` has an installed model write"},
            "messages": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_MESSAGES,
                "items": {
                    "type": "object",
                    "properties": {"role": {"type": "string"}, "content": {}},
                    "required": ["role"],
                },
            },
            "stream": {"type": "boolean"},
            "stream_options": {"type": "object"},
        },
        "required": ["messages"],
    })
}

/// A name for an answer that no other has.
pub(super) fn number(kind: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{kind}-{}-{}", now(), NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}

pub(super) async fn chat(State(door): State<Door>, call: Call) -> Response {
    let asked = call.json().and_then(parse::<Asked>).and_then(|it| Ok((question(&it)?, it)));
    let (args, asked) = match asked {
        Ok(asked) => asked,
        Err(error) => return call.style.error(&error),
    };
    let head = Head {
        id: number("chatcmpl"),
        created: now(),
        model: asked.model.clone().unwrap_or_else(|| OWN_MODEL.to_owned()),
    };
    let answer = if asked.stream {
        let usage = asked.stream_options.is_some_and(|it| it.include_usage);
        streamed(&door, &call, args, head, usage).await
    } else {
        whole(&door, &call, args, head).await
    };
    answer.unwrap_or_else(|error| call.style.error(&error))
}

/// What is the same in every piece of an answer.
struct Head {
    id: String,
    created: u64,
    model: String,
}

impl Head {
    fn piece(&self, delta: &Value, finish: Option<&str>) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        })
    }
}

/// The last message as a question, with what it follows.
fn question(asked: &Asked) -> Result<AnswerArgs> {
    if asked.n.is_some_and(|it| it != 1) {
        return Err(Error::BadRequest("`n` is not 1: there is one answer".to_owned()));
    }
    question_of(&asked.messages, asked.model.as_deref())
}

/// The last message as a question, with what it follows, and who writes the answer.
pub(super) fn question_of(messages: &[Said], model: Option<&str>) -> Result<AnswerArgs> {
    if messages.len() > MAX_MESSAGES {
        return Err(Error::TooLarge(format!("a chat has at most {MAX_MESSAGES} messages")));
    }
    let mut questions = Vec::new();
    for said in messages.iter().filter(|it| it.role == "user") {
        questions.push(text(&said.content)?);
    }
    let last = messages.last().filter(|it| it.role == "user");
    let (Some(_), Some(question)) = (last, questions.pop()) else {
        return Err(Error::BadRequest(
            "the last message is the user's: it is the question".to_owned(),
        ));
    };
    // Before a stream begins: a picture alone asks nothing.
    let question = checked("content", &question)?;
    let llm = match model {
        None | Some("" | OWN_MODEL) => LLM_EXTRACTIVE.to_owned(),
        Some(other) => other.to_owned(),
    };
    Ok(AnswerArgs { question, earlier: questions, llm: Some(llm), ..AnswerArgs::default() })
}

/// Text, or parts of which the ones with text count.
fn text(content: &Value) -> Result<String> {
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let is_text = |it: &&Value| {
                matches!(it["type"].as_str(), Some("text" | "input_text" | "output_text"))
            };
            let texts = parts.iter().filter(is_text);
            let texts: Vec<&str> = texts.filter_map(|it| it["text"].as_str()).collect();
            Ok(texts.join("\n"))
        }
        _ => Err(Error::BadRequest(
            "the content of a message is text, or parts with text".to_owned(),
        )),
    }
}

/// What is said where there is an answer, and where there is none.
pub(super) fn words(answered: &Value) -> String {
    let text = |key: &str| answered[key].as_str();
    text("answer").or_else(|| text("reason")).unwrap_or_default().to_owned()
}

/// The sources, where in the text they stand, and their addresses.
fn annotations(content: &str, answered: &Answered) -> Vec<Value> {
    let nested = |it: Value| json!({"type": "url_citation", "url_citation": it});
    marks(content, answered).into_iter().map(nested).collect()
}

/// Where in the text each source stands, and its address.
pub(super) fn marks(content: &str, answered: &Answered) -> Vec<Value> {
    let mut found = Vec::new();
    for cited in &answered.citations {
        let mark = format!("[{}]", cited.n);
        for (at, _) in content.match_indices(&mark) {
            let start = content[..at].chars().count();
            found.push(json!({
                "start_index": start,
                "end_index": start + mark.chars().count(),
                "title": format!("{} ({})", cited.title, cited.file),
                "url": cited.uri,
            }));
        }
    }
    found
}

fn usage(question: &str, content: &str) -> Value {
    let (asked, said) = (frame::tokens(question), frame::tokens(content));
    json!({"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said})
}

async fn whole(door: &Door, call: &Call, args: AnswerArgs, head: Head) -> Result<Response> {
    let question = args.question.clone();
    let note = door.enter(call, "answer", Some(question.clone()))?;
    let scope = call.who.scope.clone();
    let answered = door.run(Lane::Models, &call.who.name, move |assistant, cancel| {
        let (request, llm) = request_of(assistant, &scope, &args)?;
        let mut watch = |_: AskEvent<'_>| cancel.flow();
        answered(assistant, &scope, &assistant.ask_observed(&request, &llm, &mut watch)?)
    });
    let answered = answered.await;
    note.ended(&answered);
    let answered = answered?;
    note.given(answered.citations.len());
    let content = words(&json!(answered));
    let annotations = annotations(&content, &answered);
    Ok(json_of(&json!({
        "id": head.id,
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "choices": [{
            "index": 0,
            "message": {
                "role": "assistant", "content": content, "refusal": null, "annotations": annotations,
            },
            "logprobs": null,
            "finish_reason": "stop",
        }],
        "usage": usage(&question, &content),
        "riddle": answered,
    })))
}

/// The last piece, with the sources; returns all that was said.
fn end(head: &Head, answered: &Answered, said: &str, out: &Events) -> String {
    let mut delta = json!({});
    // Where nothing was written, the reason is the answer.
    let content = if said.is_empty() { words(&json!(answered)) } else { said.to_owned() };
    if said.is_empty() {
        delta["content"] = json!(content);
    }
    delta["annotations"] = json!(annotations(&content, answered));
    let mut last = head.piece(&delta, Some("stop"));
    last["riddle"] = json!(answered);
    out.data(&last.to_string());
    content
}

async fn streamed(
    door: &Door,
    call: &Call,
    args: AnswerArgs,
    head: Head,
    with_usage: bool,
) -> Result<Response> {
    let question = args.question.clone();
    let note = door.enter(call, "answer", Some(question.clone()))?;
    let scope = call.who.scope.clone();
    let head = std::sync::Arc::new(head);
    let pieces = std::sync::Arc::clone(&head);
    let work = move |assistant: &Assistant, cancel: &Cancel, out: &Events| {
        let (request, llm) = request_of(assistant, &scope, &args)?;
        let mut said = String::new();
        let mut observer = |event: AskEvent<'_>| {
            if let AskEvent::Evidence { .. } = event {
                let first = json!({"role": "assistant", "content": ""});
                out.data(&pieces.piece(&first, None).to_string());
            }
            if let AskEvent::Piece(text) = event
                && !text.is_empty()
            {
                let text = frame::shown(text);
                said.push_str(&text);
                out.data(&pieces.piece(&json!({"content": text}), None).to_string());
            }
            cancel.flow()
        };
        let response = assistant.ask_observed(&request, &llm, &mut observer)?;
        note.given(response.citations.len());
        Ok((answered(assistant, &scope, &response)?, said))
    };
    let finish = move |done: std::result::Result<(Answered, String), String>, out: &Events| {
        match done {
            Err(words) => {
                let error = json!({"error": {"message": words, "type": "server_error"}});
                out.data(&error.to_string());
            }
            Ok((answered, said)) => {
                let content = end(&head, &answered, &said, out);
                if with_usage {
                    let mut last = head.piece(&json!({}), None);
                    last["choices"] = json!([]);
                    last["usage"] = usage(&question, &content);
                    out.data(&last.to_string());
                }
            }
        }
        out.data("[DONE]");
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

    fn asked(value: Value) -> Result<AnswerArgs> {
        question(&parse::<Asked>(value)?)
    }

    #[test]
    fn the_last_message_is_the_question_and_the_others_are_what_it_follows() {
        let args = asked(json!({"messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Who painted the cabin?"},
            {"role": "assistant", "content": "Jonas [1]."},
            {"role": "user", "content": [{"type": "text", "text": "And"}, {"type": "image_url"}, {"type": "text", "text": "when?"}]},
        ]}))
        .expect("a question");
        assert_eq!(args.question, "And\nwhen?");
        assert_eq!(args.llm.as_deref(), Some(LLM_EXTRACTIVE));
        for wrong in [
            json!({"messages": []}),
            json!({"messages": [{"role": "assistant", "content": "x"}]}),
            json!({"messages": [{"role": "user", "content": 1}]}),
            json!({"messages": [{"role": "user", "content": " "}]}),
            json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            json!({"messages": [{"role": "user", "content": "x"}], "n": 2}),
            json!({"messages": "x"}),
        ] {
            assert!(asked(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_two_answers_have_one_name() {
        assert_ne!(number("x"), number("x"));
    }

    proptest::proptest! {
        #[test]
        fn any_body_is_a_question_or_refused(body in crate::any_json::body(&["messages", "role", "content", "type", "text", "model", "stream", "stream_options", "n"])) {
            reads(body);
        }
    }
}
