//! What other programs can ask, each as one function from JSON to JSON: the tools of the Model Context Protocol and
//! the routes below `/api` are the same. Every one only reads.

mod answer;
mod claims;
mod days;
mod extras;
mod passage;
mod read;
mod rerank;
mod search;
mod status;

use riddle_rag::{Assistant, is_elsewhere};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

pub(crate) use self::{
    answer::{AnswerArgs, Answered, answered, request_of},
    extras::{Extras, extras_schema},
    passage::{Folders, uri},
    rerank::{
        Document, Place, Prepared, RerankArgs, Reranked, Told, documents_schema, prepare,
        rerank_all,
    },
    status::installed,
};
use crate::{
    cancel::Cancel,
    error::{Error, Result},
    resident::Lane,
    who::Scope,
};

/// Tokens of passages in a result, where a client does not say.
pub(crate) const DEFAULT_TOKENS: usize = 2_000;

/// Most tokens of passages in a result, whatever a client says.
pub(crate) const MAX_TOKENS: usize = 20_000;

/// Longest text of a question or claim, in characters.
pub(crate) const MAX_TEXT: usize = 20_000;

/// Something that can be asked.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) description: &'static str,
    /// What it waits for, but for [`Tool::lane_of`].
    lane: Lane,
    pub(crate) input: fn() -> Value,
    pub(crate) output: fn() -> Value,
    run: fn(&Assistant, &Scope, Value, &Cancel) -> Result<String>,
}

/// All of them, in the order in which they are listed.
pub(crate) const TOOLS: &[Tool] = &[
    Tool {
        name: "search",
        title: "Search the person's files",
        description: "Finds passages in the person's own files by words and by meaning, best first. Use it before answering anything that may be in their documents, notes, mails or code. Each passage has an id for `read`, `check_claims` and citations, its file, its place (page, line, cell) and its text.",
        lane: Lane::Models,
        input: search::input,
        output: search::output,
        run: |assistant, scope, args, cancel| {
            text(&search::search(assistant, scope, parse(args)?, cancel)?)
        },
    },
    Tool {
        name: "read",
        title: "Read a passage and what stands around it",
        description: "Reads a passage by the id that `search` gave, with passages before and after it in the same file.",
        lane: Lane::Catalog,
        input: read::input,
        output: read::output,
        run: |assistant, scope, args, _| text(&read::read(assistant, scope, parse(args)?)?),
    },
    Tool {
        name: "answer",
        title: "Answer a question with quotations",
        description: "Answers a question with the best sentences of the person's files, verbatim, each with the id of its passage; says so when the files hold no answer.",
        lane: Lane::Models,
        input: answer::input,
        output: answer::output,
        run: |assistant, scope, args, cancel| {
            text(&answer::answer(assistant, scope, parse(args)?, cancel)?)
        },
    },
    Tool {
        name: "check_claims",
        title: "Check claims against the files",
        description: "Holds sentences against passages of the person's files and says of each whether they support it. Use it on a draft before it is shown. Names passages by id, or lets them be found.",
        lane: Lane::Models,
        input: claims::input,
        output: claims::output,
        run: |assistant, scope, args, cancel| {
            text(&claims::check(assistant, scope, parse(args)?, cancel)?)
        },
    },
    Tool {
        name: "rerank",
        title: "Put texts in order by how well they answer",
        description: "Reads each of the given texts together with the query and puts them in order by how well they answer it. The texts need not be in the library.",
        lane: Lane::Models,
        input: rerank::input,
        output: rerank::output,
        run: |assistant, _, args, cancel| text(&rerank::rerank(assistant, &parse(args)?, cancel)?),
    },
    Tool {
        name: "status",
        title: "What is in the library",
        description: "Tells which folders are indexed, how many files can be searched, how fresh the index is and which models are used.",
        lane: Lane::Catalog,
        input: || json!({"type": "object", "additionalProperties": false}),
        output: status::output,
        run: |assistant, scope, _, _| text(&status::status(assistant, scope)?),
    },
];

impl Tool {
    pub(crate) fn named(name: &str) -> Option<&'static Tool> {
        TOOLS.iter().find(|it| it.name == name)
    }

    /// Where a call waits: what is searched or read elsewhere waits for servers. An answer is written for much longer
    /// than it is searched for, and waits for what writes.
    pub(crate) fn lane_of(&self, args: &Value) -> Lane {
        let elsewhere = match self.name {
            "search" => {
                args["libraries"].as_array().is_some_and(|it| it.iter().any(|it| *it != "home"))
            }
            "read" => args["id"].as_u64().is_some_and(is_elsewhere),
            _ => false,
        };
        if elsewhere { Lane::Elsewhere } else { self.lane }
    }

    /// The result as JSON text, its fields in the order in which they are declared: the same question has the same
    /// bytes, so that prompts with it can be cached.
    pub(crate) fn run(
        &self,
        assistant: &Assistant,
        scope: &Scope,
        args: Value,
        cancel: &Cancel,
    ) -> Result<String> {
        scope.allows(self.name)?;
        (self.run)(assistant, scope, args, cancel)
    }
}

fn text(result: &impl Serialize) -> Result<String> {
    serde_json::to_string(result).map_err(|it| Error::Internal(it.to_string()))
}

/// Arguments, or what is wrong with them.
pub(crate) fn parse<T: DeserializeOwned>(args: Value) -> Result<T> {
    let args = if args.is_null() { json!({}) } else { args };
    T::deserialize(&args).map_err(|error| {
        let why = error.to_string();
        Error::BadRequest(match culprit::<T>(&args, &why) {
            Some(name) => format!("`{name}`: {why}"),
            None => why,
        })
    })
}

/// The argument that is wrong by itself in the same way, unless the words name it already: what reads them says which
/// type it wanted, and not of what.
fn culprit<'a, T: DeserializeOwned>(args: &'a Value, why: &str) -> Option<&'a str> {
    // No tool has as many; somebody who sends thousands waits for nothing.
    const MOST: usize = 32;
    let fails_alike = |(name, value): &(&String, &Value)| {
        let alone = serde_json::Map::from_iter([((*name).clone(), (*value).clone())]);
        T::deserialize(&Value::Object(alone)).is_err_and(|it| it.to_string() == why)
    };
    let (name, _) = args.as_object()?.iter().take(MOST).find(fails_alike)?;
    (!why.contains(&format!("`{name}`"))).then_some(name)
}

/// A text that a person or a model has typed.
pub(crate) fn checked(name: &str, text: &str) -> Result<String> {
    if text.trim().is_empty() {
        return Err(Error::BadRequest(format!("`{name}` is empty: say what is asked")));
    }
    if text.chars().count() > MAX_TEXT {
        return Err(Error::TooLarge(format!("`{name}` has more than {MAX_TEXT} characters")));
    }
    Ok(text.trim().to_owned())
}

/// A budget within limits.
pub(crate) fn budget(tokens: Option<usize>) -> usize {
    tokens.unwrap_or(DEFAULT_TOKENS).clamp(1, MAX_TOKENS)
}

/// A number within limits, where a client says one.
fn within(name: &str, value: Option<usize>, default: usize, most: usize) -> Result<usize> {
    match value {
        None => Ok(default),
        Some(it) if (1..=most).contains(&it) => Ok(it),
        Some(it) => Err(Error::BadRequest(format!("`{name}` is {it}: it can be 1 to {most}"))),
    }
}

fn max_tokens_schema() -> Value {
    json!({
        "type": "integer", "minimum": 1, "maximum": MAX_TOKENS, "default": DEFAULT_TOKENS,
        "description": "Most tokens of text in the result; more is cut, and said to be."
    })
}

fn strings(description: &str) -> Value {
    json!({"type": "array", "items": {"type": "string"}, "description": description})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_elsewhere_waits_for_nobody_here_and_the_other_way_round() {
        let lane = |name: &str, libraries: Value| {
            Tool::named(name).expect("a tool").lane_of(&json!({ "libraries": libraries }))
        };
        for here in [json!(null), json!([]), json!(["home"]), json!("team")] {
            assert_eq!(lane("search", here), Lane::Models);
        }
        for elsewhere in [json!(["team"]), json!(["home", "team"]), json!(["all"])] {
            assert_eq!(lane("search", elsewhere), Lane::Elsewhere);
        }
        assert_eq!(lane("answer", json!(["team"])), Lane::Models);
        let read = |id: u64| Tool::named("read").expect("a tool").lane_of(&json!({ "id": id }));
        assert_eq!((read(7), read(1 << 52)), (Lane::Catalog, Lane::Elsewhere));
    }

    #[test]
    fn names_are_unique_and_schemas_are_objects() {
        for (place, tool) in TOOLS.iter().enumerate() {
            assert!(TOOLS[..place].iter().all(|it| it.name != tool.name));
            assert!(tool.name.bytes().all(|it| it.is_ascii_lowercase() || it == b'_'));
            assert_eq!((tool.input)()["type"], "object", "{}", tool.name);
            assert_eq!((tool.output)()["type"], "object", "{}", tool.name);
            assert_eq!((tool.input)()["additionalProperties"], false, "{}", tool.name);
        }
    }

    #[test]
    fn what_is_no_argument_is_told() {
        let wrong = parse::<RerankArgs>(json!({"query": 1})).expect_err("no text");
        assert!(wrong.to_string().contains("`query`: invalid type"), "{wrong}");
        let told = |args: Value| parse::<RerankArgs>(args).expect_err("wrong").to_string();
        let many = told(json!({"query": "q", "documents": ["a", 1]}));
        assert!(many.contains("`documents`: "), "{many}");
        // Words that name it are not said twice.
        let unknown = parse::<search::SearchArgs>(json!({"query": "q", "path": "/"}));
        let unknown = unknown.expect_err("no such argument").to_string();
        assert!(unknown.starts_with("unknown field `path`"), "{unknown}");
        assert!(checked("query", " \n").is_err());
        assert!(matches!(checked("query", &"x".repeat(MAX_TEXT + 1)), Err(Error::TooLarge(_))));
        assert!(within("limit", Some(0), 1, 5).is_err());
        assert_eq!(budget(Some(usize::MAX)), MAX_TOKENS);
    }
}
