//! `rerank`: texts that a client brings.

use std::time::Instant;

use riddle_rag::{
    Assistant,
    rerank::{
        RerankAs, RerankChoice, RerankDocument, RerankRequest, RerankResponse, RerankResult, Trace,
    },
};
use riddle_types::{DeadlineReport, LayerObserver};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Extras, checked};
use crate::{
    cancel::Cancel,
    error::{Error, Result},
    frame, words,
};

/// Most texts of a request: each is read by the model.
const MAX_DOCUMENTS: usize = 1_000;

/// Names that mean the reranker that searches use.
const OWN_NAMES: [&str; 3] = ["", "riddle", "default"];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RerankArgs {
    pub(crate) query: String,
    pub(crate) documents: Vec<Document>,
    /// 0: all, as vLLM has it.
    pub(crate) top_n: Option<usize>,
    pub(crate) model: Option<String>,
    pub(crate) raw_scores: bool,
    /// What only our own routes have.
    #[serde(skip)]
    pub(crate) extras: Extras,
    /// When it came, where that is known.
    #[serde(skip)]
    pub(crate) called: Option<Instant>,
}

/// Text, or an object with it.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Document {
    Text(String),
    Object { text: String },
}

impl Document {
    pub(crate) fn text(&self) -> &str {
        match self {
            Document::Text(text) | Document::Object { text } => text,
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Reranked {
    pub(crate) model: String,
    pub(crate) results: Vec<Place>,
    /// What the texts are taken for, query included.
    pub(crate) tokens: usize,
    /// What comes of extras.
    #[serde(skip)]
    pub(crate) told: Told,
}

/// What is told of a run to whoever asked for more than an order.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) notices: Vec<String>,
    pub(crate) deadline: Option<DeadlineReport>,
    pub(crate) trace: Option<Trace>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Place {
    pub(crate) index: usize,
    pub(crate) relevance_score: f32,
}

/// A request as the engine takes it.
pub(crate) struct Prepared {
    pub(crate) choice: RerankChoice,
    pub(crate) request: RerankRequest,
    how: RerankAs,
    /// What the texts are taken for.
    tokens: usize,
}

/// Looks at a request before anything is computed.
pub(crate) fn prepare(assistant: &Assistant, args: &RerankArgs) -> Result<Prepared> {
    let query = checked("query", &args.query)?;
    if args.documents.is_empty() {
        return Err(Error::BadRequest("`documents` is empty: give the texts to rank".to_owned()));
    }
    if args.documents.len() > MAX_DOCUMENTS {
        return Err(Error::TooLarge(format!(
            "{} texts: at most {MAX_DOCUMENTS} are ranked at a time",
            args.documents.len()
        )));
    }
    let settings = args.extras.settings()?;
    let choice = choice(assistant, args.model.as_deref().unwrap_or_default())?;
    let words = |it: &Document| frame::tokens(&query) + frame::tokens(it.text());
    let tokens = args.documents.iter().map(words).sum();
    let documents = args.documents.iter().map(|it| RerankDocument::Text(it.text().to_owned()));
    let request = RerankRequest {
        query,
        documents: documents.collect(),
        top_n: args.top_n.filter(|it| *it > 0).map(|it| it.min(args.documents.len())),
    };
    let how = RerankAs {
        settings,
        raw_scores: args.raw_scores,
        trace: args.extras.trace,
        called: args.called,
    };
    Ok(Prepared { choice, request, how, tokens })
}

/// Puts the texts of several requests in order, all by the reranker of the first; what is wrong with one is no other's.
pub(crate) fn rerank_all(
    assistant: &Assistant,
    all: &[Prepared],
    observer: &mut dyn LayerObserver,
) -> Vec<Result<Reranked>> {
    let [first, _, ..] = all else {
        return all.iter().map(|it| alone(assistant, it, observer)).collect();
    };
    let requests: Vec<(RerankRequest, bool)> =
        all.iter().map(|it| (it.request.clone(), it.how.raw_scores)).collect();
    match assistant.rerank_together(&requests, &first.choice, observer) {
        Ok(responses) => {
            let pairs = responses.into_iter().zip(all);
            pairs.map(|(response, prepared)| Ok(shown(response, prepared.tokens))).collect()
        }
        // Which one it was is found out one by one.
        Err(_) => all.iter().map(|it| alone(assistant, it, observer)).collect(),
    }
}

fn alone(
    assistant: &Assistant,
    prepared: &Prepared,
    observer: &mut dyn LayerObserver,
) -> Result<Reranked> {
    let Prepared { choice, request, how, tokens } = prepared;
    let (response, trace) = assistant.rerank_as(request, choice, how, observer)?;
    Ok(Reranked { told: told(&response, trace), ..shown(response, *tokens) })
}

fn told(response: &RerankResponse, trace: Option<Trace>) -> Told {
    Told { notices: words::notices(&response.notices), deadline: response.deadline.clone(), trace }
}

fn shown(response: RerankResponse, tokens: usize) -> Reranked {
    let place = |it: RerankResult| Place { index: it.index, relevance_score: it.relevance_score };
    Reranked {
        model: response.model,
        results: response.results.into_iter().map(place).collect(),
        tokens,
        told: Told::default(),
    }
}

/// Puts the texts in order.
pub(crate) fn rerank(
    assistant: &Assistant,
    args: &RerankArgs,
    cancel: &Cancel,
) -> Result<Reranked> {
    let prepared = prepare(assistant, args)?;
    let done = rerank_all(assistant, &[prepared], &mut cancel.clone());
    done.into_iter().next().unwrap_or(Err(Error::Stopped))
}

/// The reranker of that name, which must be an installed one: a name is never a path.
fn choice(assistant: &Assistant, name: &str) -> Result<RerankChoice> {
    if OWN_NAMES.contains(&name) {
        return Ok(RerankChoice::Configured);
    }
    let names = rerankers(assistant)?;
    if names.iter().any(|it| it == name) {
        return Ok(RerankChoice::Model(name.to_owned()));
    }
    Err(Error::NotFound(format!(
        "there is no reranker {name:?}: there are riddle (the one that searches use), {}",
        names.join(", ")
    )))
}

/// Rerankers that are installed.
pub(crate) fn rerankers(assistant: &Assistant) -> Result<Vec<String>> {
    super::status::installed(assistant, "reranker")
}

/// Texts as the HTTP shapes take them.
pub(crate) fn documents_schema() -> Value {
    json!({
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_DOCUMENTS,
        "items": {
            "anyOf": [
                {"type": "string"},
                {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
            ],
        },
    })
}

pub(super) fn input() -> Value {
    json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "The question."},
            "documents": documents_schema(),
            "top_n": {"type": "integer", "minimum": 0, "description": "Results; all without it."},
            "model": {"type": "string", "description": "An installed reranker; without it, the one that searches use."},
            "raw_scores": {"type": "boolean", "default": false, "description": "Logits instead of 0 to 1."},
        },
        "required": ["query", "documents"],
        "additionalProperties": false,
    })
}

pub(super) fn output() -> Value {
    json!({
        "type": "object",
        "properties": {
            "model": {"type": "string"},
            "results": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"index": {"type": "integer"}, "relevance_score": {"type": "number"}},
                    "required": ["index", "relevance_score"],
                },
            },
            "tokens": {"type": "integer"},
        },
        "required": ["model", "results", "tokens"],
    })
}
