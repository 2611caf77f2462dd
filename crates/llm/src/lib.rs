//! Answers by language models.
//!
//! [`Remote`] is a [`Generator`](riddle_types::Generator) over any endpoint that speaks the OpenAI protocol (Ollama,
//! llama.cpp, LM Studio, vLLM, OpenAI): it streams, tries again what may pass, gives up what says nothing, and can be
//! stopped while it waits. [`Prompt`] is what a model is asked: passages under the numbers that the program gave them.
//!
//! Endpoints are not trusted: lines, answers and pauses have limits, and what is sent where is decided by the caller.
//!
//! Not here: which passages there are, and whether the answer is true to them (`riddle-rag`).

mod error;
mod prompt;
mod remote;
mod stream;

pub use error::{Error, Result};
pub use prompt::{Message, NO_ANSWER, Prompt, Role};
pub use remote::{Endpoint, Remote, RemoteOptions};
