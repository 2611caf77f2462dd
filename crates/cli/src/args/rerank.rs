//! Arguments of `riddle rerank`.

use std::path::PathBuf;

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use riddle_rag::{
    models::DEFAULT_RERANKER,
    rerank::{Arithmetic, Pruning, RerankSettings},
};

use super::{
    rank::PruningArgs,
    values::{positive, share, size},
};

#[derive(Debug, Clone, Args)]
pub(crate) struct RerankArgs {
    /// The request, {"query", "documents", "top_n"} [default: stdin]
    #[arg(value_name = "REQUEST.json")]
    pub(crate) request: Option<PathBuf>,
    /// Take a request per line and answer each with a line as soon as it comes, the model staying open
    #[arg(long, conflicts_with = "trace")]
    pub(crate) lines: bool,
    /// The reranker, by name or directory, or a server, by its address and behind a # the model there
    #[arg(long, value_name = "NAME|DIR|URL[#MODEL]", default_value = DEFAULT_RERANKER)]
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) pruning: PruningArgs,
    /// Longest pair in tokens; longer texts are cut [default: what the model was made for]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) max_tokens: Option<usize>,
    /// What a Qwen3 reranker is told to judge by [default: that of its model card]
    #[arg(long, value_name = "TEXT")]
    pub(crate) instruction: Option<String>,
    /// Compute what all pairs begin with for each of them, as the reference implementations do
    #[arg(long)]
    pub(crate) separate_prefixes: bool,
    /// Threads that compute [default: all cores]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) threads: Option<usize>,
    /// Numbers that are multiplied where weights are f32, f16, bf16 or q4; int8 models always multiply bytes
    #[arg(long, value_name = "NUMBERS", value_parser = arithmetics(), default_value = "f32")]
    pub(crate) compute: Arithmetic,
    /// Print logits instead of scores from 0 to 1
    #[arg(long)]
    pub(crate) raw_scores: bool,
    /// Write what happened in every layer to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    // Last, because its heading holds for whatever follows.
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

impl RerankArgs {
    pub(crate) fn settings(&self) -> RerankSettings {
        let pruning = self.pruning.settings();
        // A trace is replayed under other thresholds, for which it needs everybody in every layer.
        let pruning = match pruning.pruning {
            Pruning::Standard if self.trace.is_some() => {
                RerankSettings { pruning: Pruning::Never, ..pruning }
            }
            _ => pruning,
        };
        RerankSettings {
            threads: self.threads,
            max_tokens: self.max_tokens,
            instruction: self.instruction.clone(),
            separate_prefixes: self.separate_prefixes,
            arithmetic: self.compute,
            ..self.memory.onto(pruning)
        }
    }
}

fn arithmetics() -> impl TypedValueParser<Value = Arithmetic> {
    PossibleValuesParser::new(["f32", "bf16"])
        .map(|it| if it == "bf16" { Arithmetic::Bf16 } else { Arithmetic::F32 })
}

/// What a reranker may hold in memory.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Memory")]
pub(crate) struct MemoryArgs {
    /// Memory that the process is to stay within, as 250MiB; what is not set below is planned from it
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) memory_budget: Option<u64>,
    /// Layers in memory at once [default: all]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) window: Option<usize>,
    /// Tokens computed at a time
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) micro_batch_tokens: Option<usize>,
    /// Share of the embedding rows that may be in memory, 0 to 1
    #[arg(long, value_name = "SHARE", value_parser = share::<f32>)]
    pub(crate) embedding_rows: Option<f32>,
    /// Keep hidden states on disk, three micro-batches of them in memory
    #[arg(long)]
    pub(crate) hidden_on_disk: bool,
    /// Read layers past the page cache; needs a store made by `riddle models convert`
    #[arg(long)]
    pub(crate) direct_io: bool,
}

impl MemoryArgs {
    fn onto(&self, settings: RerankSettings) -> RerankSettings {
        RerankSettings {
            memory_budget: self.memory_budget,
            window: self.window,
            micro_batch_tokens: self.micro_batch_tokens,
            embedding_rows: self.embedding_rows,
            hidden_on_disk: self.hidden_on_disk,
            direct_io: self.direct_io,
            ..settings
        }
    }
}
