//! Who may write an answer: names, and what is said of each.

use std::{collections::BTreeMap, sync::Arc};

use riddle_llm::Sampling;
use riddle_types::{PassageOrder, Trouble};

/// Name of the generator that quotes.
pub const LLM_EXTRACTIVE: &str = "extractive";

/// Name of the generator that asks the configured endpoint.
pub const LLM_REMOTE: &str = "remote";

/// What the name of a model in this process begins with: `local:NAME`, or `local:FILE.gguf`.
pub const LLM_LOCAL: &str = "local:";

/// An endpoint and its model.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteLlm {
    /// Address of the server, of its API or of its chat completions.
    pub url: String,
    /// Name of the model there.
    pub model: String,
    /// Key, if it wants one.
    pub key: Option<String>,
    /// Tokens that the model reads and writes together; `None`: 8 192.
    pub context_tokens: Option<usize>,
}

impl std::fmt::Debug for RemoteLlm {
    /// Without the key: this ends up in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteLlm")
            .field("url", &riddle_models::web::shown(&self.url))
            .field("model", &self.model)
            .field("key", &self.key.is_some())
            .finish_non_exhaustive()
    }
}

/// Who guesses what a model in this process writes next. Guesses make an answer come sooner, and change it in one case
/// alone: where tokens are drawn, those of a model make a seed draw others, by the same probabilities.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LocalDraft {
    /// Nobody.
    Nothing,
    /// What stands in the passages and in the answer so far.
    #[default]
    Lookup,
    /// A small model of the same family: installed under this name, or a GGUF file.
    Model(String),
}

/// How a language model is run in this process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LocalLlm {
    /// Bytes that the process may take; `None`: the model is wholly in memory.
    pub memory_budget: Option<u64>,
    /// Tokens read and written together; `None`: as many as are useful and fit.
    pub context_tokens: Option<usize>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Who guesses them.
    pub draft: LocalDraft,
    /// In which order passages are read.
    pub order: PassageOrder,
    /// Everything is read anew: nothing that was read before is taken from disk, and nothing is kept there.
    pub reads_anew: bool,
    /// Nothing of a prompt is left in memory for the next one, either: for measurements.
    pub forgets: bool,
    /// What it writes to a question, token by token, whatever it would write: for measurements of what an answer takes
    /// with weights that have nothing to say.
    pub told: Arc<BTreeMap<String, String>>,
}

/// What is known of an endpoint without asking it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointInfo {
    /// Scheme, host and port.
    pub origin: String,
    /// It is on this very machine: nothing leaves it.
    pub is_local: bool,
    /// Questions and passages may be sent to it.
    pub is_allowed: bool,
}

/// What is known of an endpoint's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyState {
    /// There is none.
    None,
    /// The system's secret store keeps one.
    Kept,
    /// Nobody knows: the secret store can not be asked, for this reason.
    Unknown(Trouble),
}
