//! How an engine runs, from when it is opened.

use std::path::PathBuf;

use riddle_transformer::Arithmetic;

use crate::Mode;

/// Which policy decides.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Pruning {
    /// Nobody is pruned.
    #[default]
    Never,
    /// The paper's cluster pruning at this dispersion threshold.
    Clusters {
        /// Coefficient of variation above which clusters are cut.
        threshold: f32,
    },
}

/// How the engine runs.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineOptions {
    /// What pruning may change.
    pub mode: Mode,
    /// Who decides; without effect in [`Mode::Off`].
    pub pruning: Pruning,
    /// Layers in memory at once; `None`: all, read once and kept. With `Some(1)` each is read when it is needed, and
    /// none ahead: what the others are compared with.
    pub window: Option<usize>,
    /// Tokens that a layer computes at a time, at least 1; `None`: 1 024, or what a budget leaves.
    pub micro_batch_tokens: Option<usize>,
    /// Share of the vocabulary whose embedding rows may be in memory, 0…1.
    pub embedding_rows: f32,
    /// Threads that compute.
    pub threads: usize,
    /// Longest pair in tokens; `None`: what the model's reference implementation reads.
    pub max_tokens: Option<usize>,
    /// Bytes of memory that the *process* is to stay within while a request runs. What it holds already is
    /// counted; from the rest are planned, anew for each request, window, micro-batch, embedding rows and
    /// where hidden states are, as far as they are not set here. On systems that do not tell how much
    /// memory a process has (all but Linux today), it bounds what the engine holds itself.
    pub memory_budget: Option<u64>,
    /// Keeps hidden states on disk, three micro-batches of them in memory (§4.3). A budget does so where
    /// it must.
    pub hidden_on_disk: bool,
    /// Never keeps hidden states on disk: whoever reads them knows much of the texts. A budget that would need it is
    /// refused.
    pub memory_only: bool,
    /// Folder for the temporary file of hidden states; `None`: the system's. It should not lie in memory.
    pub spill_dir: Option<PathBuf>,
    /// Reads layers past the page cache, from a store made by `riddle models convert`.
    pub direct_io: bool,
    /// Computes what all candidates begin with once (decoders only; exact up to rounding).
    pub share_prefix: bool,
    /// Numbers that products of f32, f16, bf16 and q4 weights multiply; int8 weights always multiply bytes.
    pub arithmetic: Arithmetic,
    /// What the model is told to judge by, where its template has a place for that (Qwen3).
    pub instruction: Option<String>,
    /// Runs the head after every layer even if no policy asks: the trace can then be replayed, and a
    /// score that is not a number is found in the layer that made it. For BERT the head reads one token
    /// per candidate, far below a hundredth of a layer's work; only a costlier head is worth sparing.
    pub scores_every_layer: bool,
}

impl Default for EngineOptions {
    /// The full forward of a resident model on all cores, with the paper's 10 % of embedding rows (§4.4).
    fn default() -> Self {
        EngineOptions {
            mode: Mode::Off,
            pruning: Pruning::Never,
            window: None,
            micro_batch_tokens: None,
            embedding_rows: 0.1,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            max_tokens: None,
            memory_budget: None,
            hidden_on_disk: false,
            memory_only: false,
            spill_dir: None,
            direct_io: false,
            share_prefix: true,
            arithmetic: Arithmetic::F32,
            instruction: None,
            scores_every_layer: true,
        }
    }
}

impl EngineOptions {
    /// Whether layers are read before they are needed.
    pub(super) fn reads_ahead(&self) -> bool {
        self.window != Some(1)
    }
}
