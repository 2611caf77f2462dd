//! Questions, the endpoints that may answer them, and what these may be sent.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use riddle_rag::{shared::Secret, writer::RemoteLlm};

use super::{FilterArgs, LocalArgs, RankArgs, ReuseArgs, values::positive};

#[derive(Debug, Clone, Args)]
pub(crate) struct AskArgs {
    /// The question
    pub(crate) question: String,
    /// Who writes the answer: extractive (the best sentences, verbatim), local:MODEL (a GGUF model, in this process) or
    /// remote (the endpoint given below)
    #[arg(long, default_value = "extractive", value_name = "LLM")]
    pub(crate) llm: String,
    /// A question that this one follows, oldest first (repeatable): a model puts this one so that it stands by itself
    #[arg(long, value_name = "QUESTION")]
    pub(crate) follows: Vec<String>,
    /// Show what the endpoint would be sent, and send nothing
    #[arg(long)]
    pub(crate) preview: bool,
    /// Open the library here even where `riddle serve` or the app has it open
    #[arg(long)]
    pub(crate) alone: bool,
    /// Answer from this shared library (repeatable); home is the one of this computer, all are this one and every
    /// shared one [default: home]
    #[arg(long, value_name = "NAME|home|all")]
    pub(crate) library: Vec<String>,
    #[command(flatten)]
    pub(crate) endpoint: EndpointArgs,
    #[command(flatten)]
    pub(crate) local: LocalArgs,
    #[command(flatten)]
    pub(crate) reuse: ReuseArgs,
    #[command(flatten)]
    pub(crate) rank: RankArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}

/// An endpoint that speaks the OpenAI protocol; its key comes from `riddle llm key set` or `RIDDLE_LLM_KEY`, because
/// arguments can be seen by others.
#[derive(Debug, Clone, Default, Args)]
#[command(
    next_help_heading = "Endpoint (Ollama, llama.cpp, LM Studio, vLLM, OpenAI; its key by `riddle llm key set` or in RIDDLE_LLM_KEY)"
)]
pub(crate) struct EndpointArgs {
    /// Its address, as http://localhost:11434/v1
    #[arg(long, value_name = "URL", env = "RIDDLE_LLM_URL")]
    pub(crate) llm_url: Option<String>,
    /// Name of the model there
    #[arg(long, value_name = "NAME", env = "RIDDLE_LLM_MODEL")]
    pub(crate) llm_model: Option<String>,
    /// Tokens that the model reads and writes together [default: 8192]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) llm_context: Option<usize>,
    /// Let the endpoint be sent questions and passages of your files, from now on; not needed on this machine
    #[arg(long, requires = "llm_url")]
    pub(crate) allow_endpoint: bool,
}

impl EndpointArgs {
    /// Where there is a model to ask.
    pub(crate) fn remote(&self) -> Option<RemoteLlm> {
        Some(RemoteLlm {
            url: self.llm_url.clone().filter(|it| !it.trim().is_empty())?,
            model: self.llm_model.clone().filter(|it| !it.trim().is_empty())?,
            key: key_of_environment(),
            context_tokens: self.llm_context,
        })
    }
}

/// The key that the environment gives; it goes before one that is kept.
pub(crate) fn key_of_environment() -> Option<String> {
    riddle_rag::llm::given_key(std::env::var("RIDDLE_LLM_KEY").ok())
}

/// What opens the server that reranks by the environment; it goes before a key that is kept.
pub(crate) fn ranker_key_of_environment() -> Option<Secret> {
    riddle_rag::llm::given_key(std::env::var("RIDDLE_RERANK_KEY").ok()).map(Secret::new)
}

/// The same of the server that embeds.
pub(crate) fn embedder_key_of_environment() -> Option<Secret> {
    riddle_rag::llm::given_key(std::env::var("RIDDLE_EMBED_KEY").ok()).map(Secret::new)
}

#[derive(Debug, Clone, Args)]
pub(crate) struct LlmArgs {
    #[command(subcommand)]
    pub(crate) command: LlmCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum LlmCommand {
    /// The key of an endpoint, in the system's secret store (GNOME's keyring, KDE's wallet)
    Key(KeyArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct KeyArgs {
    #[command(subcommand)]
    pub(crate) command: KeyCommand,
    /// The endpoint's address: a key is sent to this scheme, host and port alone
    #[arg(long, global = true, value_name = "URL", env = "RIDDLE_LLM_URL")]
    pub(crate) llm_url: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub(crate) enum KeyCommand {
    /// Ask for a key and keep it, instead of one that was kept; or read it from a pipe
    Set,
    /// Forget the key
    Forget,
    /// Say whether there is one
    Status,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct FoldersArgs {
    #[command(subcommand)]
    pub(crate) command: Option<FoldersCommand>,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum FoldersCommand {
    /// List the indexed folders and the marked ones
    List,
    /// Mark a folder, indexed or a part of one: its text is never sent to another machine
    Confine {
        /// The folder
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// Take the mark away
    Release {
        /// The folder
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// Forget an indexed folder and all that was read from it; the files stay
    Remove {
        /// The folder
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
}
