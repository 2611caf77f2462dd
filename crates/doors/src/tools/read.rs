//! `read`.

use riddle_rag::{Assistant, Libraries, is_elsewhere};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Folders, budget, max_tokens_schema,
    passage::{self, Passage, Shelf},
};
use crate::{
    error::{Error, Result},
    frame,
    who::Scope,
};

/// Passages on each side, at most.
const MAX_BESIDE: usize = 50;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadArgs {
    id: u64,
    #[serde(default)]
    before: usize,
    #[serde(default)]
    after: usize,
    #[serde(default)]
    max_tokens: Option<usize>,
}

#[derive(Serialize)]
pub(super) struct Text {
    note: &'static str,
    passages: Vec<Passage>,
    truncated: bool,
}

pub(super) fn read(assistant: &Assistant, scope: &Scope, args: ReadArgs) -> Result<Text> {
    let (before, after) = (args.before.min(MAX_BESIDE), args.after.min(MAX_BESIDE));
    let (library, read) = if is_elsewhere(args.id) {
        scope.libraries(&[Libraries::ALL.to_owned()])?;
        let reader = scope.reader();
        let read = assistant.read_elsewhere(args.id, before, after, reader.as_ref())?;
        read.map_or((None, None), |(library, records)| (Some(library), Some(records)))
    } else {
        (None, assistant.read(args.id, before, after, &scope.audience())?)
    };
    // What may not be seen is not there; neighbors are of the same file.
    let seen = read.filter(|it| it.iter().all(|record| scope.sees(&record.path, record.kind)));
    let Some(records) = seen else {
        return Err(Error::NotFound(format!(
            "there is no passage {}: `search` gives the ids that there are",
            args.id
        )));
    };
    let folders = Folders::of(assistant, scope)?;
    let mut shelf = Shelf::new(&folders, budget(args.max_tokens));
    for record in &records {
        shelf.record(record, library.as_deref());
    }
    Ok(Text { note: frame::NOTE, passages: shelf.passages, truncated: shelf.truncated })
}

pub(super) fn input() -> Value {
    let beside = |where_: &str| {
        json!({
            "type": "integer", "minimum": 0, "maximum": MAX_BESIDE, "default": 0,
            "description": format!("Passages {where_} it, too.")
        })
    };
    json!({
        "type": "object",
        "properties": {
            "id": {"type": "integer", "minimum": 0, "description": "Of the passage, from `search`."},
            "before": beside("before"),
            "after": beside("after"),
            "max_tokens": max_tokens_schema(),
        },
        "required": ["id"],
        "additionalProperties": false,
    })
}

pub(super) fn output() -> Value {
    json!({
        "type": "object",
        "properties": {
            "note": {"type": "string"},
            "passages": {"type": "array", "items": passage::schema()},
            "truncated": {"type": "boolean"},
        },
        "required": ["note", "passages", "truncated"],
    })
}
