//! Vectors of texts, by the model whose vectors are searched.

use axum::{extract::State, http::StatusCode, response::Response};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use riddle_rag::Embedded;
use riddle_types::EmbedRole;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Door,
    call::{Call, json_of},
};
use crate::{
    error::{Error, Result},
    resident::Lane,
    tools::parse,
    words,
};

/// Most texts of a request.
const MAX_INPUTS: usize = 1_024;

/// What a text may be where a person has no embedder.
const NO_EMBEDDER: &str =
    "there is no embedding model: `riddle models pull all-MiniLM-L6-v2`, then `riddle index`";

#[derive(Debug, Deserialize)]
struct Asked {
    input: Value,
    #[serde(default)]
    encoding_format: Option<String>,
    #[serde(default)]
    dimensions: Option<usize>,
    /// `query` or `search_query` for what is looked for; everything else is what is found.
    #[serde(default)]
    input_type: Option<String>,
}

#[derive(Debug, Deserialize)]
struct TeiAsked {
    inputs: Value,
    #[serde(default)]
    prompt_name: Option<String>,
}

pub(super) fn openai_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "model": {"type": "string"},
            "input": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
            "encoding_format": {"type": "string", "enum": ["float", "base64"], "default": "float"},
            "dimensions": {"type": "integer", "description": "The model's own, if any"},
            "input_type": {"type": "string", "description": "`query` for what is looked for"},
        },
        "required": ["input"],
    })
}

pub(super) fn tei_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "inputs": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
            "prompt_name": {"type": "string", "description": "`query` for what is looked for"},
        },
        "required": ["inputs"],
    })
}

pub(super) async fn openai(State(door): State<Door>, call: Call) -> Response {
    let asked = call.json().and_then(parse::<Asked>).and_then(|asked| {
        let base64 = match asked.encoding_format.as_deref() {
            None | Some("float") => false,
            Some("base64") => true,
            Some(other) => {
                return Err(Error::BadRequest(format!(
                    "`encoding_format` is {other:?}: it can be float or base64"
                )));
            }
        };
        let role = role(asked.input_type.as_deref());
        Ok((texts("input", asked.input)?, role, asked.dimensions, base64))
    });
    let (texts, role, dimensions, base64) = match asked {
        Ok(asked) => asked,
        Err(error) => return call.style.error(&error),
    };
    match embed(&door, &call, texts, role, dimensions).await {
        Err(error) => call.style.error(&error),
        Ok(embedded) => json_of(&object(&embedded, base64)),
    }
}

pub(super) async fn tei(State(door): State<Door>, call: Call) -> Response {
    let asked = call
        .json()
        .and_then(parse::<TeiAsked>)
        .and_then(|asked| Ok((texts("inputs", asked.inputs)?, role(asked.prompt_name.as_deref()))));
    let (texts, role) = match asked {
        Ok(asked) => asked,
        Err(error @ Error::BadRequest(_)) => {
            return call.style.failed(StatusCode::UNPROCESSABLE_ENTITY, &words::error(&error));
        }
        Err(error) => return call.style.error(&error),
    };
    match embed(&door, &call, texts, role, None).await {
        Err(error) => call.style.error(&error),
        Ok(embedded) => json_of(&embedded.vectors),
    }
}

fn role(name: Option<&str>) -> EmbedRole {
    match name {
        Some("query" | "search_query") => EmbedRole::Query,
        _ => EmbedRole::Passage,
    }
}

/// A text, or several.
fn texts(name: &str, input: Value) -> Result<Vec<String>> {
    let wrong = |why: &str| Error::BadRequest(format!("`{name}` {why}"));
    let all = match input {
        Value::String(text) => vec![text],
        Value::Array(all) if all.iter().any(|it| it.is_number() || it.is_array()) => {
            return Err(wrong(
                "holds numbers of tokens, which mean another word to each model: send the text",
            ));
        }
        Value::Array(all) => all
            .into_iter()
            .map(|it| match it {
                Value::String(text) => Ok(text),
                _ => Err(wrong("is a text or a list of texts")),
            })
            .collect::<Result<_>>()?,
        _ => return Err(wrong("is a text or a list of texts")),
    };
    if all.is_empty() || all.iter().any(|it| it.trim().is_empty()) {
        return Err(wrong("is empty, or holds an empty text: there is nothing to embed"));
    }
    if all.len() > MAX_INPUTS {
        return Err(Error::TooLarge(format!(
            "`{name}` holds {} texts: at most {MAX_INPUTS} are embedded at a time",
            all.len()
        )));
    }
    Ok(all)
}

async fn embed(
    door: &Door,
    call: &Call,
    texts: Vec<String>,
    role: EmbedRole,
    dimensions: Option<usize>,
) -> Result<Embedded> {
    let work = move |assistant: &riddle_rag::Assistant, _: &crate::cancel::Cancel| {
        let Some((name, own)) = assistant.embedder()? else {
            return Err(Error::NotFound(NO_EMBEDDER.to_owned()));
        };
        if let Some(wanted) = dimensions.filter(|it| *it != own) {
            return Err(Error::BadRequest(format!(
                "`dimensions` is {wanted}: {name} makes vectors of {own} numbers, which can not be cut short"
            )));
        }
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let embedded = assistant.embed(&texts, role)?;
        let embedded = embedded.ok_or_else(|| Error::NotFound(NO_EMBEDDER.to_owned()))?;
        Ok(Embedded { embedder: name, ..embedded })
    };
    let note = door.enter(call, "embed", None)?;
    let done = door.run(Lane::Models, &call.who.name, work).await;
    note.ended(&done);
    done
}

fn object(embedded: &Embedded, base64: bool) -> Value {
    let one = |(vector, index): (&Vec<f32>, usize)| {
        let vector = if base64 { json!(encoded(vector)) } else { json!(vector) };
        json!({"object": "embedding", "index": index, "embedding": vector})
    };
    json!({
        "object": "list",
        "data": embedded.vectors.iter().zip(0..).map(one).collect::<Vec<_>>(),
        "model": embedded.embedder,
        "usage": {"prompt_tokens": embedded.tokens, "total_tokens": embedded.tokens},
    })
}

/// Little-endian f32, as OpenAI's clients decode it.
fn encoded(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|it| it.to_le_bytes()).collect();
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn inputs_are_texts() {
        assert_eq!(texts("input", json!("a")).expect("a text"), ["a"]);
        assert_eq!(texts("input", json!(["a", "b"])).expect("texts"), ["a", "b"]);
        for wrong in
            [json!(1), json!([]), json!([""]), json!([1, 2]), json!([[1]]), json!(["a", null])]
        {
            assert!(texts("input", wrong.clone()).is_err(), "{wrong}");
        }
        assert!(matches!(
            texts("input", json!(vec!["a"; MAX_INPUTS + 1])),
            Err(Error::TooLarge(_))
        ));
    }

    proptest! {
        #[test]
        fn base64_holds_every_bit(vector in proptest::collection::vec(any::<f32>(), 0..20)) {
            let bytes = STANDARD.decode(encoded(&vector)).expect("base64");
            let bits: Vec<u32> = bytes
                .chunks_exact(4)
                .map(|it| u32::from_le_bytes(it.try_into().expect("four")))
                .collect();
            prop_assert_eq!(bits, vector.iter().map(|it| it.to_bits()).collect::<Vec<_>>());
        }
    }
}
