//! A reranker behind an endpoint: text-embeddings-inference, vLLM, llama.cpp, Infinity, Cohere, Jina, or this program.
//!
//! There are two ways to ask. With `documents` asks everybody but text-embeddings-inference, which calls them `texts`
//! and has no version in its address. Where the address has none either, `documents` is tried first, and what the
//! server has taken is remembered. Every answer is understood, whatever was asked.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    StageOptions,
    batches::{BatchLimits, in_batches},
    breaker::Breaker,
    call::{Caller, Patience, StageCost, asked},
    scores::{logits, scores},
};
use crate::{Endpoint, Error, Result};

/// Bytes of an answer for each text, beside the text itself: an index, a score, and names.
const BYTES_A_RESULT: u64 = 1 << 10;

/// Bytes of an answer for everything else.
const BYTES_AROUND: u64 = 64 << 10;

/// A reranker behind an endpoint; any number of threads may ask it.
#[derive(Debug)]
pub struct RemoteReranker {
    endpoint: Endpoint,
    options: StageOptions,
    breaker: Breaker,
    /// It takes `texts`, and not `documents`.
    takes_texts: Arc<AtomicBool>,
}

/// What a server says of texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// A logit for each, in their order.
    pub logits: Vec<f32>,
    /// Who says so, where the server tells.
    pub model: Option<String>,
    /// What it took.
    pub cost: StageCost,
}

impl RemoteReranker {
    /// Nothing is sent before the first request.
    ///
    /// # Errors
    /// [`Error::OpenKey`] and [`Error::Offline`].
    pub fn new(endpoint: Endpoint, options: StageOptions) -> Result<RemoteReranker> {
        options.may_ask(&endpoint)?;
        let breaker = Breaker::new(options.failures, options.rest);
        Ok(RemoteReranker { endpoint, options, breaker, takes_texts: Arc::default() })
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// How well each text fits the query. It takes no longer than the budget, or than `within` if that is less; `stop`
    /// ends it at once.
    ///
    /// # Errors
    /// Whatever keeps the server from saying something of every text: then nothing is known of any.
    pub fn score(
        &self,
        query: &str,
        texts: Vec<String>,
        within: Option<Duration>,
        stop: Option<&AtomicBool>,
    ) -> Result<Scored> {
        let budget = within.map_or(self.options.budget, |it| it.min(self.options.budget));
        let limits =
            BatchLimits { texts: self.options.batch_texts, bytes: self.options.batch_bytes };
        let asking = Asking {
            query: query.to_owned(),
            model: self.options.model.clone(),
            may_be_texts: !self.endpoint.is_versioned(),
            takes_texts: Arc::clone(&self.takes_texts),
        };
        let work = move |caller: &mut Caller| {
            let mut model = None;
            let said = in_batches(&texts, limits, &[413], &mut |batch| {
                let (scores, who) = asking.ask(caller, batch)?;
                model = model.take().or(who);
                Ok(scores)
            })?;
            Ok((said, model))
        };
        let server = (&self.endpoint, &self.options, &self.breaker);
        let ((said, model), cost) = asked(server, Patience { budget, stop }, work)?;
        // Of all of them: a batch alone may have no score that tells which kind they are of.
        Ok(Scored { logits: logits(&said), model, cost })
    }
}

/// What is the same in every batch.
struct Asking {
    query: String,
    model: Option<String>,
    may_be_texts: bool,
    takes_texts: Arc<AtomicBool>,
}

impl Asking {
    /// The scores of a batch, and who gave them.
    fn ask(&self, caller: &mut Caller, batch: &[String]) -> Result<(Vec<f64>, Option<String>)> {
        let bytes: usize = batch.iter().map(String::len).sum();
        // A text may come back with its score, and every character of it as an escape of six.
        let limit = BYTES_AROUND + BYTES_A_RESULT * batch.len() as u64 + 6 * bytes as u64;
        let takes_texts = self.takes_texts.load(Ordering::Acquire);
        let answer = match caller.ask(&self.body(batch, takes_texts), limit) {
            Err(refusal @ Error::Refused { status: 400 | 422, .. })
                if self.may_be_texts && !takes_texts =>
            {
                // What it has against texts is about texts: the first refusal says more.
                let answer = caller.ask(&self.body(batch, true), limit).map_err(|_| refusal)?;
                self.takes_texts.store(true, Ordering::Release);
                answer
            }
            other => other?,
        };
        let said = scores(&answer, batch.len()).map_err(|lie| caller.lies(lie))?;
        Ok((said.scores, said.model))
    }

    fn body(&self, batch: &[String], texts: bool) -> Value {
        if texts {
            // Logits say more than probabilities, and what is too long is cut and not refused.
            return json!({"query": self.query, "texts": batch, "raw_scores": true, "truncate": true});
        }
        let mut body = json!({"query": self.query, "documents": batch, "top_n": batch.len()});
        if let Some(model) = &self.model {
            body["model"] = json!(model);
        }
        body
    }
}
