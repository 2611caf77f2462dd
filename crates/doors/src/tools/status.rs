//! `status`.

use std::collections::BTreeMap;

use riddle_rag::{Assistant, status::StatusRequest};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Folders, days};
use crate::{error::Result, who::Scope, words};

#[derive(Serialize)]
pub(super) struct State {
    folders: Vec<String>,
    /// Folders that never leave this machine, which are not named.
    kept_here: usize,
    /// Files per state.
    files: BTreeMap<&'static str, u64>,
    passages: u64,
    /// Names of shared libraries that may be searched.
    libraries: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    as_of: Option<String>,
    files_behind: u64,
    embedder: Option<String>,
    reranker: Option<String>,
    problems: Vec<String>,
}

pub(super) fn status(assistant: &Assistant, scope: &Scope) -> Result<State> {
    let status = assistant.status(StatusRequest::default())?;
    let (folders, kept_here) = Folders::of(assistant, scope)?.names(scope);
    let reach = assistant.reach(&scope.audience(), &|path, kind| scope.sees(path, kind))?;
    // How many files wait, and how many folders are not named, tells of what may not be read.
    let is_all = reach.is_none();
    let (files, passages) = match reach {
        Some(reach) => (reach.states, reach.passages),
        None => (status.states, status.chunks),
    };
    let libraries = if scope.shared { status.libraries } else { Vec::new() };
    Ok(State {
        folders,
        kept_here: if is_all { kept_here } else { 0 },
        files,
        passages,
        libraries: libraries.into_iter().map(|it| it.name).collect(),
        as_of: status.index.as_of.map(days::show),
        files_behind: if is_all { status.index.files_behind } else { 0 },
        embedder: status.embedder,
        reranker: status.reranker,
        problems: words::problems(&status.problems),
    })
}

/// Names of installed models of a kind.
pub(crate) fn installed(assistant: &Assistant, kind: &str) -> Result<Vec<String>> {
    let models = assistant.status(StatusRequest::default())?.models;
    Ok(models.into_iter().filter(|it| it.kind == kind).map(|it| it.name).collect())
}

pub(super) fn output() -> Value {
    json!({
        "type": "object",
        "properties": {
            "folders": {"type": "array", "items": {"type": "string"}},
            "kept_here": {"type": "integer"},
            "files": {"type": "object", "additionalProperties": {"type": "integer"}},
            "passages": {"type": "integer"},
            "libraries": {"type": "array", "items": {"type": "string"}},
            "as_of": {"type": "string"},
            "files_behind": {"type": "integer"},
            "embedder": {"type": ["string", "null"]},
            "reranker": {"type": ["string", "null"]},
            "problems": {"type": "array", "items": {"type": "string"}},
        },
        "required": [
            "folders", "kept_here", "files", "passages", "libraries", "files_behind", "embedder", "reranker",
            "problems"
        ],
    })
}
