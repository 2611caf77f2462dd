//! The answering seam: who writes an answer from passages.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::{ChunkId, Notice, StageError};

/// The speaker of a message to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The program, which gives the rules.
    System,
    /// The person: passages and the question.
    User,
}

/// A part of what a model is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// The text.
    pub content: String,
}

/// A passage that an answer may cite.
#[derive(Debug, Clone, PartialEq)]
pub struct Passage {
    /// Number under which it is cited, from 1; assigned by the program, never by the model.
    pub number: u32,
    /// Its text.
    pub text: String,
    /// The chunk that it is: who keeps anything made of it keeps that with it, so that it goes when the chunk goes.
    pub chunk: Option<ChunkId>,
}

/// In which order a model in this process reads passages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PassageOrder {
    /// The best first and the second-best last: models read the middle worst (Liu et al. 2023, "Lost in the Middle").
    #[default]
    Ranked,
    /// As the files have them: questions that find the same passages ask for them in the same order.
    Document,
    /// Those first that were read before in this order, then by rank. What is asked then depends on what was asked
    /// before.
    Stored,
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
    /// In which order they are read, where the generator has a choice.
    pub order: PassageOrder,
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
    pub notices: Vec<Notice>,
    /// What it took, where a model in this process wrote it.
    pub stats: Option<GenerationStats>,
    /// What reading the prompt has left on disk, where that is kept.
    pub stored: Option<StoredPrompt>,
}

/// Keys and values of a prompt, in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredPrompt {
    /// Name of its last part; where that is, those before it are.
    pub leaf: [u8; 32],
    /// Bytes of all parts.
    pub bytes: u64,
}

/// What a model in this process took for an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct GenerationStats {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of these, tokens whose keys and values were in memory from the prompt before.
    pub reused_tokens: usize,
    /// Of these, tokens whose keys and values were loaded from disk.
    #[serde(default)]
    pub loaded_tokens: usize,
    /// Milliseconds of looking for them and loading them.
    #[serde(default)]
    pub load_ms: f64,
    /// Milliseconds that reading them took when they were stored, less those of loading them.
    #[serde(default)]
    pub saved_ms: f64,
    /// Tokens whose keys and values were written to disk after the answer.
    #[serde(default)]
    pub stored_tokens: usize,
    /// Milliseconds of writing them.
    #[serde(default)]
    pub store_ms: f64,
    /// Milliseconds of reading the rest of the prompt.
    pub prompt_ms: f64,
    /// Tokens written.
    pub tokens: usize,
    /// Milliseconds of writing them.
    pub decode_ms: f64,
    /// Tokens that were guessed and computed together with those before them.
    #[serde(default)]
    pub drafted_tokens: usize,
    /// Of these, tokens that the model wrote.
    #[serde(default)]
    pub accepted_tokens: usize,
    /// Tokens read and written together at most.
    pub context_tokens: usize,
    /// Layers that were read ahead.
    pub window_layers: usize,
    /// Bytes of weights in memory.
    pub resident_weight_bytes: u64,
    /// Bytes of keys and values, when the context is full.
    pub kv_cache_bytes: u64,
    /// Bytes of weights that each token reads from disk; 0: the model is in memory.
    pub streamed_bytes_per_token: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Milliseconds that the computation waited for them.
    pub io_wait_ms: f64,
    /// Of a mixture of experts, what became of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts: Option<ExpertStats>,
}

/// The experts of a mixture while an answer was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpertStats {
    /// Experts of all layers.
    pub all: usize,
    /// Of these, as many as have room in memory.
    pub held: usize,
    /// Experts that a token is given, in all layers together.
    pub per_token: usize,
    /// Experts that were wanted, each once for a layer of a pass.
    pub wanted: u64,
    /// Of these, experts that were in memory from before.
    pub found: u64,
    /// Experts that were read because they were guessed.
    pub guessed: u64,
    /// Of these, experts that were wanted.
    pub guessed_right: u64,
}

impl ExpertStats {
    /// The share of the wanted experts that nobody had to wait for a disk for; `None` where none was wanted.
    pub fn hit_rate(&self) -> Option<f64> {
        (self.wanted > 0).then(|| self.found as f64 / self.wanted as f64)
    }
}

impl GenerationStats {
    /// Tokens of the prompt whose keys and values were there.
    pub fn known_tokens(&self) -> usize {
        self.reused_tokens + self.loaded_tokens
    }

    /// Tokens that the model computed: read and not known, or written.
    pub fn computed_tokens(&self) -> usize {
        self.prompt_tokens.saturating_sub(self.known_tokens()) + self.tokens
    }

    /// The share of the guesses that the model wrote; `None` where nothing was guessed.
    pub fn acceptance(&self) -> Option<f64> {
        let drafted = self.drafted_tokens;
        (drafted > 0).then(|| self.accepted_tokens as f64 / drafted as f64)
    }

    /// Tokens written per second; the first one comes with the prompt.
    pub fn tokens_per_second(&self) -> f64 {
        if self.decode_ms > 0.0 { self.tokens as f64 * 1e3 / self.decode_ms } else { 0.0 }
    }
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

    /// Writes on from `messages` as they are, for small work beside answers. `sink` as with
    /// [`generate`](Self::generate).
    ///
    /// # Errors
    /// As there; when it writes nothing of its own.
    fn complete(
        &self,
        _messages: &[Message],
        _max_tokens: usize,
        _sink: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, StageError> {
        Err(format!("{} writes nothing of its own", self.name()).into())
    }
}
