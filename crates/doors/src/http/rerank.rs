//! One handler for the shapes in which others rerank: Cohere, Jina, vLLM, llama.cpp with `documents`, and
//! text-embeddings-inference with `texts`, which gets a bare list. What a request may ask for beyond them is in
//! [`Extras`]; whoever asks for nothing gets no field that the shapes of others lack.

use std::time::Instant;

use axum::{extract::State, http::StatusCode, response::Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{
    Door,
    call::{Call, Style, json_of},
};
use crate::{
    cancel::Cancel,
    error::{Error, Result},
    tools::{
        Document, Extras, Place, RerankArgs, Reranked, Told, documents_schema, extras_schema, parse,
    },
    words,
};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    query: Option<String>,
    documents: Option<Vec<Document>>,
    /// The same by another name, with another answer.
    texts: Option<Vec<Document>>,
    model: Option<String>,
    top_n: Option<i64>,
    return_documents: bool,
    return_text: bool,
    raw_scores: bool,
    #[serde(flatten)]
    extras: Extras,
}

pub(super) fn schema() -> Value {
    let mut schema = json!({
        "type": "object",
        "properties": {
            "model": {"type": "string", "description": "`riddle`, or one of /v1/models"},
            "query": {"type": "string"},
            "documents": documents_schema(),
            "texts": documents_schema(),
            "top_n": {"type": "integer", "minimum": 0},
            "return_documents": {"type": "boolean"},
            "return_text": {"type": "boolean"},
            "raw_scores": {"type": "boolean"},
        },
        "required": ["query"],
    });
    if let (Some(all), Value::Object(extras)) =
        (schema["properties"].as_object_mut(), extras_schema())
    {
        all.extend(extras);
    }
    schema
}

pub(super) async fn rerank(State(door): State<Door>, call: Call) -> Response {
    let called = Instant::now();
    let value = match call.json() {
        Ok(value) => value,
        Err(error) => return call.style.error(&error),
    };
    let tei = value.get("texts").is_some();
    let style = if tei { Style::Tei } else { call.style };
    let asked = match parse::<Asked>(value).and_then(|it| it.checked()) {
        Ok(asked) => asked,
        // What is no request at all has a status of its own there.
        Err(error @ Error::BadRequest(_)) if tei => {
            return style.failed(StatusCode::UNPROCESSABLE_ENTITY, &words::error(&error));
        }
        Err(error) => return style.error(&error),
    };
    let Asked { return_documents, return_text, .. } = asked.0;
    let args = RerankArgs { called: Some(called), ..asked.1 };
    let texts = return_documents || return_text;
    let note = match door.enter(&call, "rerank", Some(args.query.clone())) {
        Ok(note) => note,
        Err(error) => return style.error(&error),
    };
    let done = ranked(&door, &call.who.name, args).await;
    note.ended(&done);
    match done {
        Err(error) => style.error(&error),
        Ok((reranked, documents)) if tei => json_of(&list(&reranked, &documents, texts)),
        Ok((reranked, documents)) => json_of(&object(&reranked, &documents, texts)),
    }
}

/// Has the texts ranked, together with what others wait for.
async fn ranked(door: &Door, client: &str, args: RerankArgs) -> Result<(Reranked, Vec<Document>)> {
    let cancel = Cancel::default();
    let gone = cancel.on_drop();
    let (sender, receiver) = oneshot::channel();
    // A receiver that is gone belongs to a client that is.
    door.batch.rank(&door.resident, client, args, cancel, move |done| drop(sender.send(done)));
    let done = door.wait(receiver).await;
    if !matches!(done, Err(Error::TooSlow { .. })) {
        gone.defuse();
    }
    done
}

impl Asked {
    /// The request as the engine takes it.
    fn checked(mut self) -> Result<(Asked, RerankArgs)> {
        let top_n = self.top_n.map(usize::try_from).transpose();
        let top_n = top_n.map_err(|_| {
            Error::BadRequest(
                "`top_n` is below 0: it is the number of results, 0 for all".to_owned(),
            )
        })?;
        let tei = self.texts.is_some();
        let documents = match (self.texts.take(), self.documents.take()) {
            (Some(texts), None) => texts,
            (None, Some(documents)) => documents,
            (Some(_), Some(_)) => {
                return Err(Error::BadRequest(
                    "`texts` and `documents` are the same: give one".to_owned(),
                ));
            }
            (None, None) => {
                return Err(Error::BadRequest(
                    "`documents` is missing: give the texts to rank".to_owned(),
                ));
            }
        };
        // Before it waits for its turn.
        self.extras.settings()?;
        if self.extras.trace && tei {
            return Err(Error::BadRequest(
                "a bare list has no place for `trace`: give `documents` instead of `texts`"
                    .to_owned(),
            ));
        }
        let args = RerankArgs {
            query: self.query.take().unwrap_or_default(),
            documents,
            top_n,
            model: self.model.take(),
            raw_scores: self.raw_scores,
            extras: std::mem::take(&mut self.extras),
            called: None,
        };
        Ok((self, args))
    }
}

/// As text-embeddings-inference answers.
fn list(reranked: &Reranked, documents: &[Document], texts: bool) -> Value {
    let one = |it: &Place| {
        let mut place = json!({"index": it.index, "score": it.relevance_score});
        if texts {
            place["text"] = json!(documents[it.index].text());
        }
        place
    };
    reranked.results.iter().map(one).collect()
}

/// As all others do: what one of them lacks, its clients pass over.
fn object(reranked: &Reranked, documents: &[Document], texts: bool) -> Value {
    let one = |it: &Place| {
        let mut place = json!({"index": it.index, "relevance_score": it.relevance_score});
        if texts {
            place["document"] = json!({"text": documents[it.index].text()});
        }
        place
    };
    let mut object = json!({
        "id": super::chat::number("rerank"),
        "object": "list",
        "model": reranked.model,
        "results": reranked.results.iter().map(one).collect::<Vec<_>>(),
        "usage": {"prompt_tokens": reranked.tokens, "total_tokens": reranked.tokens},
        "meta": {
            "api_version": {"version": "2"},
            "billed_units": {"search_units": 0},
        },
    });
    let Told { notices, deadline, trace } = &reranked.told;
    if !notices.is_empty() {
        object["notices"] = json!(notices);
    }
    if let Some(report) = deadline {
        object["deadline"] = json!(report);
    }
    if let Some(trace) = trace {
        object["trace"] = json!(trace);
    }
    object
}

/// What is read of a body is a request within limits, or refused in words.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn reads(body: Value) {
    match parse::<Asked>(body).and_then(Asked::checked) {
        Ok((asked, args)) => {
            assert!(asked.texts.is_none() && asked.documents.is_none(), "taken out");
            assert!(args.extras.settings().is_ok());
        }
        Err(error) => {
            assert!(matches!(error, Error::BadRequest(_) | Error::TooLarge(_)), "{error:?}");
            assert!(!error.to_string().is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAMES: &[&str] = &[
        "query",
        "documents",
        "texts",
        "text",
        "top_n",
        "model",
        "raw_scores",
        "return_documents",
        "memory_budget",
        "mode",
        "precision",
        "error_probability",
        "deadline",
        "trace",
    ];

    proptest! {
        #[test]
        fn any_body_is_a_request_or_refused_in_words(body in crate::any_json::body(NAMES)) {
            let named = |name: &str| body.get(name).is_some_and(|it| !it.is_null());
            let one = named("documents") != named("texts");
            let passes = parse::<Asked>(body.clone()).and_then(Asked::checked).is_ok();
            prop_assert!(one || !passes, "{body}");
            reads(body);
        }
    }

    #[test]
    fn what_nobody_asks_for_is_not_in_the_answer() {
        let results = vec![Place { index: 0, relevance_score: 0.5 }];
        let mut reranked =
            Reranked { model: "m".to_owned(), results, tokens: 3, told: Told::default() };
        let plain = object(&reranked, &[], false);
        let mut keys: Vec<&String> = plain.as_object().expect("an object").keys().collect();
        keys.sort_unstable();
        assert_eq!(keys, ["id", "meta", "model", "object", "results", "usage"]);
        reranked.told.notices.push("nobody was left out".to_owned());
        assert_eq!(object(&reranked, &[], false)["notices"], json!(["nobody was left out"]));
    }
}
