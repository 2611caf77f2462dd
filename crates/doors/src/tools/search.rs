//! `search`.

use riddle_rag::{Assistant, SearchRequest, rerank::RerankChoice};
use riddle_types::{FileKind, Filter, tag_name};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Folders, budget, checked, days, max_tokens_schema,
    passage::{self, Passage, Shelf},
    strings, within,
};
use crate::{
    cancel::Cancel,
    error::{Error, Result},
    frame,
    who::Scope,
    words,
};

/// Hits, where a client does not say.
const DEFAULT_LIMIT: usize = 8;

/// Most hits of a result.
const MAX_LIMIT: usize = 100;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SearchArgs {
    #[serde(alias = "q")]
    query: String,
    pub(super) folders: Vec<String>,
    pub(super) types: Vec<String>,
    pub(super) tags: Vec<String>,
    pub(super) after: Option<String>,
    pub(super) before: Option<String>,
    libraries: Vec<String>,
    #[serde(alias = "k")]
    limit: Option<usize>,
    rerank: Option<bool>,
    max_tokens: Option<usize>,
}

#[derive(Serialize)]
pub(super) struct Found {
    note: &'static str,
    query: String,
    /// `reranked`, `fused` or `keyword`.
    order: Value,
    passages: Vec<Passage>,
    truncated: bool,
    notices: Vec<String>,
}

pub(super) fn search(
    assistant: &Assistant,
    scope: &Scope,
    args: SearchArgs,
    cancel: &Cancel,
) -> Result<Found> {
    let query = checked("query", &args.query)?;
    let folders = Folders::of(assistant, scope)?;
    let request = SearchRequest {
        k: within("limit", args.limit, DEFAULT_LIMIT, MAX_LIMIT)?,
        filter: filter(
            &folders,
            scope,
            (&args.folders, &args.types, &args.tags),
            (&args.after, &args.before),
        )?,
        libraries: scope.libraries(&args.libraries)?,
        outward: scope.outward,
        reader: scope.reader(),
        rerank: if args.rerank == Some(false) {
            RerankChoice::Off
        } else {
            RerankChoice::Configured
        },
        ..SearchRequest::new(query)
    };
    let found = assistant.search_observed(&request, &mut cancel.clone())?;
    let mut shelf = Shelf::new(&folders, budget(args.max_tokens));
    for hit in &found.hits {
        shelf.hit(hit);
    }
    Ok(Found {
        note: frame::NOTE,
        query: found.query,
        order: json!(found.order),
        passages: shelf.passages,
        truncated: shelf.truncated,
        notices: words::notices(&found.notices),
    })
}

/// Conditions as a client writes them.
pub(super) fn filter(
    folders: &Folders,
    scope: &Scope,
    (names, types, tags): (&[String], &[String], &[String]),
    (after, before): (&Option<String>, &Option<String>),
) -> Result<Filter> {
    let kind = |it: &String| {
        let known = || FileKind::ALL.into_iter().filter(|it| *it != FileKind::Other);
        let unknown = || {
            let names: Vec<&str> = known().map(FileKind::as_str).collect();
            Error::BadRequest(format!(
                "there are no files of type {it:?}: there are {}",
                names.join(", ")
            ))
        };
        known().find(|kind| kind.as_str() == it).ok_or_else(unknown)
    };
    let tag =
        |it: &String| tag_name(it).ok_or_else(|| Error::BadRequest(format!("{it:?} is not a tag")));
    let day =
        |name, text: &Option<String>| text.as_deref().map(|it| days::parse(name, it)).transpose();
    scope.narrow(Filter {
        folders: names.iter().map(|it| folders.find(it, scope)).collect::<Result<_>>()?,
        kinds: types.iter().map(kind).collect::<Result<_>>()?,
        tags: tags.iter().map(tag).collect::<Result<_>>()?,
        modified_from: day("after", after)?,
        modified_until: day("before", before)?,
        ..Filter::default()
    })
}

/// What `search` and `answer` share.
pub(super) fn conditions() -> Value {
    let kinds: Vec<&str> = FileKind::ALL
        .into_iter()
        .filter(|it| *it != FileKind::Other)
        .map(FileKind::as_str)
        .collect();
    json!({
        "folders": strings("Only files in these folders, as `status` names them, or below: `notes`, `notes/2025`."),
        "types": {
            "type": "array", "items": {"type": "string", "enum": kinds},
            "description": "Only files of these types."
        },
        "tags": strings("Only notes with one of these tags, or with one below it: `project` finds `project/boat`."),
        "after": {"type": "string", "description": "Only files changed on this day or later, YYYY-MM-DD."},
        "before": {"type": "string", "description": "Only files changed before this day, YYYY-MM-DD."},
        "libraries": strings("Which libraries: `home`, which it is without, names as `status` tells them, or `all`."),
    })
}

pub(super) fn input() -> Value {
    let mut properties = conditions();
    properties["query"] = json!({
        "type": "string",
        "description": "What to look for: a question or a few words; words in \"quotes\" are a phrase, a minus right before a word leaves out what has it."
    });
    properties["limit"] =
        json!({"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT});
    properties["rerank"] = json!({
        "type": "boolean", "default": true,
        "description": "Read the best candidates together with the query: better order, more time."
    });
    properties["max_tokens"] = max_tokens_schema();
    json!({"type": "object", "properties": properties, "required": ["query"], "additionalProperties": false})
}

pub(super) fn output() -> Value {
    json!({
        "type": "object",
        "properties": {
            "note": {"type": "string"},
            "query": {"type": "string"},
            "order": {"type": "object"},
            "passages": {"type": "array", "items": passage::schema()},
            "truncated": {"type": "boolean"},
            "notices": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["note", "query", "order", "passages", "truncated", "notices"],
    })
}
