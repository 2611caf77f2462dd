//! `answer`, and what `/api/ask` and chats make of it.

use std::path::Path;

use riddle_rag::{
    AskEvent, AskRequest, AskResponse, Assistant, Citation, Earlier, SearchRequest, Support,
    Verdict,
    reuse::Reuse,
    writer::{LLM_EXTRACTIVE, LLM_LOCAL},
};
use riddle_types::Location;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Folders, checked, passage, search, status::installed};
use crate::{
    cancel::Cancel,
    error::{Error, Result},
    frame,
    who::Scope,
    words,
};

/// Most questions of a thread that are looked at.
const MAX_EARLIER: usize = 20;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AnswerArgs {
    pub(crate) question: String,
    pub(crate) folders: Vec<String>,
    pub(crate) types: Vec<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) after: Option<String>,
    pub(crate) before: Option<String>,
    pub(crate) libraries: Vec<String>,
    /// Questions before this one, oldest first.
    pub(crate) earlier: Vec<String>,
    /// Who writes: `extractive`, or `local:NAME`.
    pub(crate) llm: Option<String>,
    /// Only `/api/ask`: events as they come.
    pub(crate) stream: Option<bool>,
}

/// An answer as other programs see it.
#[derive(Debug, Serialize)]
pub(crate) struct Answered {
    note: &'static str,
    question: String,
    searched_for: String,
    answer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    pub(crate) citations: Vec<Cited>,
    sentences: Vec<Sentence>,
    evidence: f32,
    llm: String,
    notices: Vec<String>,
}

/// A source.
#[derive(Debug, Serialize)]
pub(crate) struct Cited {
    pub(crate) n: u32,
    pub(crate) id: u64,
    pub(crate) uri: String,
    pub(crate) file: String,
    pub(crate) title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    library: Option<String>,
    place: String,
    location: Location,
    quote: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct Sentence {
    text: String,
    verdict: Verdict,
    /// Numbers of the citations.
    cites: Vec<u32>,
}

/// The request, and who writes the answer.
pub(crate) fn request_of(
    assistant: &Assistant,
    scope: &Scope,
    args: &AnswerArgs,
) -> Result<(AskRequest, String)> {
    let question = checked("question", &args.question)?;
    let llm = writer(args.llm.as_deref())?;
    if let Some(model) = llm.strip_prefix(LLM_LOCAL)
        && !installed(assistant, "llm")?.iter().any(|it| it == model)
    {
        return Err(Error::NotFound(format!(
            "there is no language model {model:?} on this machine"
        )));
    }
    let folders = Folders::of(assistant, scope)?;
    let from = args.earlier.len().saturating_sub(MAX_EARLIER);
    let request = AskRequest {
        search: SearchRequest {
            filter: search::filter(
                &folders,
                scope,
                (&args.folders, &args.types, &args.tags),
                (&args.after, &args.before),
            )?,
            libraries: scope.libraries(&args.libraries)?,
            outward: scope.outward,
            reader: scope.reader(),
            ..SearchRequest::new(question.as_str())
        },
        earlier: args.earlier[from..].iter().cloned().map(Earlier::from).collect(),
        // Whoever asks through a door never sends passages further.
        offline: true,
        // It only reads: what is there may be given, and nothing is kept.
        reuse: Reuse { keep: false, ..Reuse::default() },
        ..AskRequest::new(question)
    };
    Ok((request, llm))
}

/// Who may write through a door: quotations, or a model of this process by its name. Endpoints are the person's own
/// choice, in the app.
pub(crate) fn writer(name: Option<&str>) -> Result<String> {
    let Some(name) = name.filter(|it| !it.is_empty()) else { return Ok(LLM_EXTRACTIVE.to_owned()) };
    if name == LLM_EXTRACTIVE {
        return Ok(name.to_owned());
    }
    let plain = |it: &str| !it.is_empty() && !it.contains(['/', '\\']) && !it.starts_with('.');
    match name.strip_prefix(LLM_LOCAL) {
        Some(model) if plain(model) => Ok(name.to_owned()),
        _ => Err(Error::NotFound(format!(
            "{name:?} can not answer: `extractive` quotes the files, `local:NAME` is an installed model"
        ))),
    }
}

pub(super) fn answer(
    assistant: &Assistant,
    scope: &Scope,
    args: AnswerArgs,
    cancel: &Cancel,
) -> Result<Answered> {
    let (request, llm) = request_of(assistant, scope, &args)?;
    let mut watch = |_: AskEvent<'_>| cancel.flow();
    let response = assistant.ask_observed(&request, &llm, &mut watch)?;
    answered(assistant, scope, &response)
}

/// A response as other programs see it.
pub(crate) fn answered(
    assistant: &Assistant,
    scope: &Scope,
    response: &AskResponse,
) -> Result<Answered> {
    let folders = Folders::of(assistant, scope)?;
    let cited = |it: &Citation| Cited {
        n: it.n,
        id: it.chunk,
        uri: passage::uri(it.chunk),
        file: frame::shown(&folders.name(Path::new(&it.path), it.library.as_deref())),
        library: it.library.clone(),
        title: frame::shown(&it.title),
        place: it.location.to_string(),
        location: it.location.clone(),
        warnings: frame::flags(&it.quote),
        quote: frame::shown(&it.quote),
    };
    let sentence = |it: &Support| Sentence {
        text: frame::shown(&it.sentence),
        verdict: it.verdict,
        cites: it.citations.clone(),
    };
    Ok(Answered {
        note: frame::NOTE,
        question: response.question.clone(),
        searched_for: response.searched_for.clone(),
        answer: response.answer.as_deref().map(frame::shown),
        reason: response.reason.map(words::no_answer),
        citations: response.citations.iter().map(cited).collect(),
        sentences: response.supported.iter().map(sentence).collect(),
        evidence: response.evidence,
        llm: response.llm.clone(),
        notices: words::notices(&response.notices),
    })
}

pub(super) fn input() -> Value {
    let mut properties = search::conditions();
    properties["question"] = json!({"type": "string", "description": "The question, by itself."});
    properties["earlier"] =
        super::strings("Questions before this one, oldest first, where it leans on them.");
    properties["llm"] = json!({
        "type": "string", "default": LLM_EXTRACTIVE,
        "description": "`extractive` quotes the files; `local:NAME` has an installed model write."
    });
    json!({"type": "object", "properties": properties, "required": ["question"], "additionalProperties": false})
}

pub(super) fn output() -> Value {
    json!({
        "type": "object",
        "properties": {
            "note": {"type": "string"},
            "question": {"type": "string"},
            "searched_for": {"type": "string"},
            "answer": {"type": ["string", "null"]},
            "reason": {"type": "string"},
            "citations": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "n": {"type": "integer"},
                        "id": {"type": "integer"},
                        "uri": {"type": "string"},
                        "file": {"type": "string"},
                        "title": {"type": "string"},
                        "library": {"type": "string"},
                        "place": {"type": "string"},
                        "location": {"type": "object"},
                        "quote": {"type": "string"},
                        "warnings": {"type": "array", "items": {"type": "string"}},
                    },
                    "required": ["n", "id", "uri", "file", "title", "place", "location", "quote"],
                },
            },
            "sentences": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "text": {"type": "string"},
                        "verdict": {"type": "string", "enum": ["supported", "weak", "unsupported"]},
                        "cites": {"type": "array", "items": {"type": "integer"}},
                    },
                    "required": ["text", "verdict", "cites"],
                },
            },
            "evidence": {"type": "number"},
            "llm": {"type": "string"},
            "notices": {"type": "array", "items": {"type": "string"}},
        },
        "required": [
            "note", "question", "searched_for", "answer", "citations", "sentences", "evidence", "llm", "notices"
        ],
    })
}

#[test]
fn only_quotations_and_models_by_name_write() {
    assert_eq!(writer(None).expect("default"), "extractive");
    assert_eq!(writer(Some("local:smollm2-135m")).expect("a name"), "local:smollm2-135m");
    for name in ["remote", "local:", "local:/tmp/x.gguf", "local:../x", "gpt-5", "local:a\\b"] {
        assert!(writer(Some(name)).is_err(), "{name}");
    }
}
