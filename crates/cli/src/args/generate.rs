//! The words of `riddle bench generate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use riddle_rag::llm::{Locking, StreamOptions};

use super::values::{positive, size};

#[derive(Debug, Clone, Args)]
pub(crate) struct BenchGenerateArgs {
    /// A GGUF file: a real one, or what `riddle bench prepare-language` has written
    #[arg(value_name = "FILE.gguf")]
    pub(crate) model: PathBuf,
    /// Tokens that are read first
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = positive)]
    pub(crate) prompt: usize,
    /// Tokens that are written then
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = positive)]
    pub(crate) tokens: usize,
    /// Memory that the process may take, as 2GiB [default: as much as the model needs]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) memory_budget: Option<u64>,
    /// Which tensors stay in memory: the same share of every layer, whole layers, one kind before the other, or none
    #[arg(long, value_name = "HOW", value_enum, default_value_t = LockingArg::Balanced)]
    pub(crate) locking: LockingArg,
    /// Layers that are in memory for a moment: the one that computes, and those that are read ahead
    #[arg(long, value_name = "N", default_value_t = StreamOptions::default().window, value_parser = positive)]
    pub(crate) window: usize,
    /// Threads that read
    #[arg(long, value_name = "N", default_value_t = StreamOptions::default().io_threads, value_parser = positive)]
    pub(crate) io_threads: usize,
    /// Read a layer when it is needed, not before
    #[arg(long)]
    pub(crate) no_prefetch: bool,
    /// Read through the page cache
    #[arg(long)]
    pub(crate) no_direct_io: bool,
    /// Threads that compute [default: all cores]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) threads: Option<usize>,
    /// Who guesses what is written next: nobody, the prompt and what was written, or a GGUF file of the same family
    #[arg(long, value_name = "none|lookup|FILE.gguf", default_value = "none")]
    pub(crate) draft: String,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct BenchPrefixArgs {
    /// A GGUF file: a real one, or what `riddle bench prepare-language` has written
    #[arg(value_name = "FILE.gguf")]
    pub(crate) model: PathBuf,
    /// Passages of each prompt
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = positive)]
    pub(crate) passages: usize,
    /// Tokens of each passage
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = positive)]
    pub(crate) passage_tokens: usize,
    /// Tokens of the question
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = positive)]
    pub(crate) question_tokens: usize,
    /// Prompts of each kind
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = positive)]
    pub(crate) runs: usize,
    /// Memory that the process may take, as 2GiB [default: as much as the model needs]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) memory_budget: Option<u64>,
    /// Where prefixes are kept meanwhile [default: bench in the home]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Threads that compute [default: all cores]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) threads: Option<usize>,
}

/// [`Locking`] by its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LockingArg {
    /// The same share of every layer
    Balanced,
    /// Layer after layer
    ByLayer,
    /// Attention of all layers, then their feed-forward parts
    AttentionFirst,
    /// Feed-forward parts of all layers, then their attention
    FfnFirst,
    /// Nothing but norms and biases
    Nothing,
}

impl From<LockingArg> for Locking {
    fn from(it: LockingArg) -> Locking {
        match it {
            LockingArg::Balanced => Locking::Balanced,
            LockingArg::ByLayer => Locking::ByLayer,
            LockingArg::AttentionFirst => Locking::AttentionFirst,
            LockingArg::FfnFirst => Locking::FfnFirst,
            LockingArg::Nothing => Locking::Nothing,
        }
    }
}
