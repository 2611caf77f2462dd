//! Answers by language models.
//!
//! [`Remote`] is a [`Generator`](riddle_types::Generator) over any endpoint that speaks the OpenAI protocol (Ollama,
//! llama.cpp, LM Studio, vLLM, OpenAI): it streams, tries again what may pass, gives up what says nothing, and can be
//! stopped while it waits. [`Prompt`] is what a model is asked: passages under the numbers that the program gave them.
//!
//! Endpoints are not trusted: lines, answers and pauses have limits, and what is sent where is decided by the caller.
//!
//! [`keep_key`] and its neighbors keep the key of an endpoint in the system's secret store, under the endpoint's
//! origin.
//!
//! [`RemoteReranker`] has a server say how well passages fit a query, [`RemoteEmbedder`] has one make their vectors,
//! within a budget of time, whatever it answers.
//!
//! Not here: which passages there are, and whether the answer is true to them (`riddle-rag`).

mod agent;
mod call;
mod endpoint;
mod error;
mod keys;
mod local;
mod prompt;
mod remote;
mod stage;
mod stream;

pub use endpoint::{Endpoint, RemoteOptions};
pub use error::{Error, Lie, Result};
pub use keys::{
    forget_key, forget_key_of, given_key, has_key, has_key_of, keep_key, keep_key_of, key, key_of,
};
pub use local::{Drafting, Local, LocalOptions, Measured, Sampling};
pub use prompt::{NO_ANSWER, Prompt};
pub use remote::Remote;
pub use riddle_cache::Store;
pub use riddle_offload::{Locking, StreamOptions};
pub use stage::{Embeddings, RemoteEmbedder, RemoteReranker, Scored, StageCost, StageOptions};
