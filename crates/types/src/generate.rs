//! The answering seam: who writes an answer from passages.

use std::ops::ControlFlow;

use crate::StageError;

/// A passage that an answer may cite.
#[derive(Debug, Clone, PartialEq)]
pub struct Passage {
    /// Number under which it is cited, from 1; assigned by the program, never by the model.
    pub number: u32,
    /// Its text.
    pub text: String,
}

/// What a generator is asked to do.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerationRequest {
    /// The question.
    pub question: String,
    /// Passages, best first.
    pub passages: Vec<Passage>,
    /// Most tokens to write.
    pub max_tokens: usize,
}

/// A finished answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Generation {
    /// The text, citations written as `[n]`.
    pub text: String,
    /// Milliseconds until the first piece was handed to the sink.
    pub first_token_ms: f64,
    /// Tokens written, where the generator counts them.
    pub tokens: Option<usize>,
    /// What a model was asked, word for word; `None` where no model was.
    pub prompt: Option<String>,
    /// What the reader of the answer should know: passages that did not fit, an answer that breaks off.
    pub notices: Vec<String>,
}

/// Writes an answer from passages.
pub trait Generator: Send + Sync {
    /// Name shown beside the answer, for example `local:qwen3-1.7b-q4_k`.
    fn name(&self) -> &str;

    /// Writes the answer, handing each piece of text to `sink` as it comes; `Break` stops it. A generator that waits
    /// hands on empty pieces, so that a wait can be stopped as well.
    ///
    /// # Errors
    /// When the model can not be run or the remote side fails. A stopped run is not an error.
    fn generate(
        &self,
        request: &GenerationRequest,
        sink: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, StageError>;
}
