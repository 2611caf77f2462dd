//! An embedder behind an endpoint of the OpenAI protocol: vLLM, llama.cpp, Ollama, LM Studio,
//! text-embeddings-inference, or this program.

use std::{sync::atomic::AtomicBool, time::Duration};

use serde_json::json;

use super::{
    StageOptions,
    batches::{BatchLimits, in_batches},
    breaker::Breaker,
    call::{Caller, Patience, StageCost, asked},
    vectors::{LONGEST, Said, vectors},
};
use crate::{Endpoint, Error, Result};

/// Bytes of an answer for each number: sign, digits, an exponent, and the white space of a page for people.
const BYTES_A_NUMBER: u64 = 40;

/// Bytes of an answer for each text beside its vector: an index and names.
const BYTES_A_RESULT: u64 = 1 << 10;

/// Bytes of an answer for everything else.
const BYTES_AROUND: u64 = 64 << 10;

/// By these statuses servers say that a batch, or a text of it, is too long: 413 as HTTP has it, 422 as
/// text-embeddings-inference, 400 as vLLM and OpenAI.
const TOO_LONG: [u16; 3] = [400, 413, 422];

/// A text that is too long for the model is cut in half this often. A model on this machine reads its beginning, too.
const CUTS: usize = 3;

/// Shorter texts, in bytes, are too long for no model: the refusal is about something else.
const SHORT: usize = 400;

/// An embedder behind an endpoint; any number of threads may ask it.
#[derive(Debug)]
pub struct RemoteEmbedder {
    endpoint: Endpoint,
    options: StageOptions,
    breaker: Breaker,
}

/// What a server makes of texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    /// A vector of length 1 for each, in their order.
    pub vectors: Vec<Vec<f32>>,
    /// Who made them, where the server tells.
    pub model: Option<String>,
    /// What it took.
    pub cost: StageCost,
}

impl RemoteEmbedder {
    /// Nothing is sent before the first request.
    ///
    /// # Errors
    /// [`Error::OpenKey`] and [`Error::Offline`].
    pub fn new(endpoint: Endpoint, options: StageOptions) -> Result<RemoteEmbedder> {
        options.may_ask(&endpoint)?;
        let breaker = Breaker::new(options.failures, options.rest);
        Ok(RemoteEmbedder { endpoint, options, breaker })
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The vector of each text, `dimensions` numbers long; `None`: of one length, whatever that is. It takes no longer
    /// than the budget, or than `within` if that is less; `stop` ends it at once.
    ///
    /// # Errors
    /// Whatever keeps the server from making a vector of every text: then none is there.
    pub fn embed(
        &self,
        texts: Vec<String>,
        dimensions: Option<usize>,
        within: Option<Duration>,
        stop: Option<&AtomicBool>,
    ) -> Result<Embeddings> {
        let budget = within.map_or(self.options.budget, |it| it.min(self.options.budget));
        let limits =
            BatchLimits { texts: self.options.batch_texts, bytes: self.options.batch_bytes };
        let model = self.options.model.clone();
        let work = move |caller: &mut Caller| {
            let (mut length, mut who) = (dimensions, None);
            let made = in_batches(&texts, limits, &TOO_LONG, &mut |batch| {
                let said = ask_or_cut(caller, model.as_deref(), batch, length)?;
                length = length.or_else(|| Some(said.vectors.first()?.len()));
                who = who.take().or(said.model);
                Ok(said.vectors)
            })?;
            Ok((made, who))
        };
        let server = (&self.endpoint, &self.options, &self.breaker);
        let ((vectors, model), cost) = asked(server, Patience { budget, stop }, work)?;
        Ok(Embeddings { vectors, model, cost })
    }
}

/// The vectors of a batch. A text that is alone and too long is cut, and the first refusal says what was wrong if that
/// does not help.
fn ask_or_cut(
    caller: &mut Caller,
    model: Option<&str>,
    batch: &[String],
    dimensions: Option<usize>,
) -> Result<Said> {
    let refused =
        |error: &Error| matches!(error, Error::Refused { status, .. } if TOO_LONG.contains(status));
    let first = match ask(caller, model, batch, dimensions) {
        Err(error) if refused(&error) => error,
        other => return other,
    };
    let [text] = batch else { return Err(first) };
    let mut text = text.as_str();
    for _ in 0..CUTS {
        if text.len() < SHORT {
            break;
        }
        text = &text[..text.floor_char_boundary(text.len() / 2)];
        match ask(caller, model, &[text.to_owned()], dimensions) {
            Err(error) if refused(&error) => {}
            other => return other,
        }
    }
    Err(first)
}

/// The vectors of a batch, in one request.
fn ask(
    caller: &mut Caller,
    model: Option<&str>,
    batch: &[String],
    dimensions: Option<usize>,
) -> Result<Said> {
    let mut body = json!({"input": batch, "encoding_format": "float"});
    if let Some(model) = model {
        body["model"] = json!(model);
    }
    let numbers = dimensions.unwrap_or(LONGEST) as u64;
    let limit = BYTES_AROUND + batch.len() as u64 * (BYTES_A_RESULT + BYTES_A_NUMBER * numbers);
    let answer = caller.ask(&body, limit)?;
    vectors(&answer, batch.len(), dimensions).map_err(|lie| caller.lies(lie))
}
