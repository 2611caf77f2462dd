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

/// Most tokens of a text that comes as numbers, as OpenAI has it.
const MAX_INPUT_TOKENS: usize = 8_192;

/// What a text may be where a person has no embedder.
const NO_EMBEDDER: &str =
    "there is no embedding model: `riddle models pull all-MiniLM-L6-v2`, then `riddle index`";

#[derive(Debug, Deserialize)]
struct Asked {
    input: Value,
    #[serde(default)]
    model: Option<String>,
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
            "input": {"anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}},
                {"type": "array", "items": {"type": "integer"}, "description": "Tokens of `model`, by its own name"},
                {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
            ]},
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
        let inputs = match tokens(&asked.input)? {
            Some(tokens) => Inputs::Tokens(tokens, asked.model.unwrap_or_default()),
            None => Inputs::Texts(texts("input", asked.input)?),
        };
        Ok((inputs, role, asked.dimensions, base64))
    });
    let (inputs, role, dimensions, base64) = match asked {
        Ok(asked) => asked,
        Err(error) => return call.style.error(&error),
    };
    match embed(&door, &call, inputs, role, dimensions).await {
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
    match embed(&door, &call, Inputs::Texts(texts), role, None).await {
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

/// What is embedded.
enum Inputs {
    Texts(Vec<String>),
    /// Numbers of tokens, and whose they are said to be.
    Tokens(Vec<Vec<u32>>, String),
}

/// Numbers of tokens of a text, or of several; `None` for what is none.
fn tokens(input: &Value) -> Result<Option<Vec<Vec<u32>>>> {
    let wrong = |why: String| Error::BadRequest(format!("`input` {why}"));
    let Some(all) = input.as_array().filter(|it| !it.is_empty()) else { return Ok(None) };
    let lists: Vec<&[Value]> = if all.iter().all(Value::is_number) {
        vec![all]
    } else if all.iter().all(Value::is_array) {
        all.iter().filter_map(|it| it.as_array().map(Vec::as_slice)).collect()
    } else {
        return Ok(None);
    };
    if lists.len() > MAX_INPUTS || lists.iter().any(|it| it.len() > MAX_INPUT_TOKENS) {
        return Err(Error::TooLarge(format!(
            "at most {MAX_INPUTS} texts of at most {MAX_INPUT_TOKENS} tokens are embedded at a time"
        )));
    }
    let one = |list: &&[Value]| {
        let number = |it: &Value| it.as_u64().and_then(|it| u32::try_from(it).ok());
        let numbers: Option<Vec<u32>> = list.iter().map(number).collect();
        let numbers = numbers.filter(|it| !it.is_empty());
        numbers.ok_or_else(|| wrong("holds no whole numbers of tokens, or none at all".to_owned()))
    };
    lists.iter().map(one).collect::<Result<_>>().map(Some)
}

/// A text, or several.
fn texts(name: &str, input: Value) -> Result<Vec<String>> {
    let wrong = |why: &str| Error::BadRequest(format!("`{name}` {why}"));
    let all = match input {
        Value::String(text) => vec![text],
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
    inputs: Inputs,
    role: EmbedRole,
    dimensions: Option<usize>,
) -> Result<Embedded> {
    let work = move |assistant: &riddle_rag::Assistant, _: &crate::cancel::Cancel| {
        if let Some(server) = assistant.embeds_at() {
            return Err(Error::NotFound(format!(
                "{server} embeds for this library, and what others want embedded is not passed on to it"
            )));
        }
        let Some((name, own)) = assistant.embedder()? else {
            return Err(Error::NotFound(NO_EMBEDDER.to_owned()));
        };
        if let Some(wanted) = dimensions.filter(|it| *it != own) {
            return Err(Error::BadRequest(format!(
                "`dimensions` is {wanted}: {name} makes vectors of {own} numbers, which can not be cut short"
            )));
        }
        let texts = match inputs {
            Inputs::Texts(texts) => texts,
            Inputs::Tokens(tokens, model) if model == name => assistant.texts_of_tokens(&tokens)?,
            Inputs::Tokens(..) => {
                return Err(Error::BadRequest(format!(
                    "`input` holds numbers of tokens, which mean another word to each model: send the text, or tokens \
                     of {name} and its name as `model`"
                )));
            }
        };
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

/// What is read of a body is texts or tokens, each with something in it, or refused in words.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn reads(body: Value) {
    let Ok(asked) = parse::<Asked>(body) else { return };
    match tokens(&asked.input) {
        Ok(Some(all)) => assert!(all.iter().all(|it| !it.is_empty())),
        Ok(None) => {
            if let Ok(all) = texts("input", asked.input) {
                assert!(!all.is_empty() && all.iter().all(|it| !it.trim().is_empty()));
            }
        }
        Err(error) => {
            assert!(matches!(error, Error::BadRequest(_) | Error::TooLarge(_)), "{error:?}");
        }
    }
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

    #[test]
    fn numbers_are_tokens_of_one_text_or_of_several() {
        assert_eq!(tokens(&json!([1, 2])).expect("one"), Some(vec![vec![1, 2]]));
        assert_eq!(tokens(&json!([[1], [2, 3]])).expect("two"), Some(vec![vec![1], vec![2, 3]]));
        for other in
            [json!("a"), json!(["a"]), json!([]), json!(1), json!([1, "a"]), json!([[1], 2])]
        {
            assert_eq!(tokens(&other).expect("none"), None, "{other}");
        }
        for wrong in
            [json!([-1]), json!([1.5]), json!([[]]), json!([["a"]]), json!([4_294_967_296_u64])]
        {
            assert!(matches!(tokens(&wrong), Err(Error::BadRequest(_))), "{wrong}");
        }
        for large in [json!(vec![1; MAX_INPUT_TOKENS + 1]), json!(vec![[1]; MAX_INPUTS + 1])] {
            assert!(matches!(tokens(&large), Err(Error::TooLarge(_))));
        }
    }

    proptest! {
        #[test]
        fn any_input_is_texts_or_tokens_or_refused(
            body in crate::any_json::body(&["input", "model", "dimensions", "encoding_format", "input_type"]),
        ) {
            reads(body);
        }

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
