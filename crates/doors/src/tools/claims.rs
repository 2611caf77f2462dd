//! `check_claims`.

use riddle_rag::{Assistant, Verdict};
use riddle_types::Filter;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{checked, passage};
use crate::{
    cancel::Cancel,
    error::{Error, Result},
    who::Scope,
    words,
};

/// Most claims at a time.
const MAX_CLAIMS: usize = 100;

/// Most passages that they are held against.
const MAX_PASSAGES: usize = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimsArgs {
    claims: Vec<String>,
    #[serde(default)]
    ids: Vec<u64>,
}

#[derive(Serialize)]
pub(super) struct Checked {
    claims: Vec<Claim>,
    notices: Vec<String>,
}

#[derive(Serialize)]
struct Claim {
    claim: String,
    verdict: Verdict,
    score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
}

pub(super) fn check(
    assistant: &Assistant,
    scope: &Scope,
    args: ClaimsArgs,
    cancel: &Cancel,
) -> Result<Checked> {
    if args.claims.is_empty() {
        return Err(Error::BadRequest("`claims` is empty: say what is to be checked".to_owned()));
    }
    if args.claims.len() > MAX_CLAIMS || args.ids.len() > MAX_PASSAGES {
        return Err(Error::TooLarge(format!(
            "at most {MAX_CLAIMS} claims are checked at a time, against at most {MAX_PASSAGES} passages"
        )));
    }
    let claims: Vec<String> =
        args.claims.iter().map(|it| checked("claims", it)).collect::<Result<_>>()?;
    let mut stop = || cancel.is_cancelled();
    let audience = scope.audience();
    for &id in &args.ids {
        // One that is gone and one that may not be seen are told alike.
        let read = assistant.read(id, 0, 0, &audience)?.unwrap_or_default();
        if read.is_empty() || read.iter().any(|it| !scope.sees(&it.path, it.kind)) {
            return Err(Error::NotFound(format!(
                "there is no passage {id}: `search` gives the ids that there are"
            )));
        }
    }
    let filter = scope.narrow(Filter::default())?;
    let (done, notices) =
        assistant.check_claims(&claims, &args.ids, &filter, &audience, &mut stop)?;
    let claim = |it: riddle_rag::CheckedClaim| Claim {
        claim: it.claim,
        verdict: it.verdict,
        score: it.score,
        id: it.chunk,
        uri: it.chunk.map(passage::uri),
    };
    Ok(Checked { claims: done.into_iter().map(claim).collect(), notices: words::notices(&notices) })
}

pub(super) fn input() -> Value {
    json!({
        "type": "object",
        "properties": {
            "claims": {
                "type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MAX_CLAIMS,
                "description": "Sentences, one statement each."
            },
            "ids": {
                "type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": MAX_PASSAGES,
                "description": "Passages to hold them against; none: those that are found for each."
            },
        },
        "required": ["claims"],
        "additionalProperties": false,
    })
}

pub(super) fn output() -> Value {
    json!({
        "type": "object",
        "properties": {
            "claims": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "claim": {"type": "string"},
                        "verdict": {"type": "string", "enum": ["supported", "weak", "unsupported"]},
                        "score": {"type": "number"},
                        "id": {"type": "integer"},
                        "uri": {"type": "string"},
                    },
                    "required": ["claim", "verdict", "score"],
                },
            },
            "notices": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["claims", "notices"],
    })
}
