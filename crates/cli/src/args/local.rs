//! The words of models that run in this process.

use clap::Args;
use riddle_rag::{
    llm::Sampling,
    writer::{LocalDraft, LocalLlm},
};
use riddle_types::PassageOrder;

use super::values::size;

/// How a language model runs in this process.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "A model in this process (--llm local:MODEL)")]
pub(crate) struct LocalArgs {
    /// Memory that the process may take, as 2GiB; a model that is larger is read from disk while it runs
    #[arg(long, value_name = "SIZE", value_parser = size, env = "RIDDLE_LLM_MEMORY")]
    pub(crate) llm_memory: Option<u64>,
    /// Who guesses what it writes next: a small model of the same family, installed or a GGUF file; `lookup`: what
    /// stands in the passages; or `none` [default: lookup]
    #[arg(long, value_name = "MODEL|lookup|none")]
    pub(crate) llm_draft: Option<String>,
    /// How freely it chooses its words; 0: always the likeliest
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    pub(crate) temperature: f32,
    /// Choose among so many of the likeliest tokens; 0: all
    #[arg(long, value_name = "K", default_value_t = Sampling::default().top_k)]
    pub(crate) top_k: usize,
    /// Choose among the likeliest tokens that together have this probability
    #[arg(long, value_name = "P", default_value_t = Sampling::default().top_p)]
    pub(crate) top_p: f32,
    /// Choose among tokens with this share of the likeliest one's probability
    #[arg(long, value_name = "P", default_value_t = Sampling::default().min_p)]
    pub(crate) min_p: f32,
    /// Make tokens that were there already less likely; 1: no
    #[arg(long, value_name = "F", default_value_t = Sampling::default().repeat_penalty)]
    pub(crate) repeat_penalty: f32,
    /// In which order it reads the passages: the best ones outside, as the files have them, or those first that it has
    /// read before
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = OrderArg::Ranked)]
    pub(crate) passage_order: OrderArg,
    /// Read everything anew: take nothing that was read before from disk, keep nothing there
    #[arg(long)]
    pub(crate) read_anew: bool,
    /// The same seed chooses the same words
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}

impl LocalArgs {
    /// The settings; a context of its own where one is given.
    pub(crate) fn settings(&self, context_tokens: Option<usize>) -> LocalLlm {
        LocalLlm {
            memory_budget: self.llm_memory,
            context_tokens,
            sampling: Sampling {
                temperature: self.temperature,
                top_k: self.top_k,
                top_p: self.top_p,
                min_p: self.min_p,
                repeat_penalty: self.repeat_penalty,
                seed: self.seed,
                ..Sampling::default()
            },
            draft: draft(self.llm_draft.as_deref()),
            order: self.passage_order.into(),
            reads_anew: self.read_anew,
            ..LocalLlm::default()
        }
    }
}

/// Who guesses, by a name.
pub(crate) fn draft(name: Option<&str>) -> LocalDraft {
    match name {
        None | Some("lookup") => LocalDraft::Lookup,
        Some("none") => LocalDraft::Nothing,
        Some(name) => LocalDraft::Model(name.to_owned()),
    }
}

/// [`PassageOrder`] by its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OrderArg {
    /// The best first and the second-best last
    Ranked,
    /// As the files have them
    Document,
    /// Those first that were read before in this order
    Stored,
}

impl From<OrderArg> for PassageOrder {
    fn from(it: OrderArg) -> PassageOrder {
        match it {
            OrderArg::Ranked => PassageOrder::Ranked,
            OrderArg::Document => PassageOrder::Document,
            OrderArg::Stored => PassageOrder::Stored,
        }
    }
}
