//! Decides which weights are in memory now.
//!
//! Two parts of a transformer are too large to keep when memory is promised to others: the layers and
//! the table of token embeddings. [`LayerWindow`] keeps a few layers and reads the next ones on a thread
//! of its own while the caller computes (GRATING §4.2, *dual-layer sliding window*); [`EmbeddingRows`]
//! keeps the rows of recent tokens and reads the others one by one (GRATING §4.4, *embedding table
//! caching*). [`SpillFile`] keeps hidden states of thousands of candidates on disk and three micro-batches
//! of them in memory (GRATING §4.3). All count every byte they hold.
//!
//! A language model that writes needs all its layers again for every token. For it there are [`preserve`],
//! which chooses the tensors that stay in memory (FlexInfer §3.3 and §3.4), and [`TensorStream`], which keeps
//! those and reads the others just in time on several threads (FlexInfer §3.2). A model may be in several files, which
//! are read as one ([`JoinedFiles`]).
//!
//! Of a mixture of experts a token needs a few of many, which are known late: [`ExpertCache`] keeps those that are used
//! often, and reads the others when they are wanted.
//!
//! A reranker with a deadline has its layers as shards: [`ShardReader`] reads those that a plan wants, and
//! [`PreloadBuffer`] keeps some of them between requests (STI §3.1).
//!
//! What a layer contains and how it is computed is the transformer's affair; what is on disk is the
//! weights'. Nothing here knows a model.

mod buffer;
mod experts;
mod file;
mod pages;
mod preserve;
mod rows;
mod shards;
mod spill;
mod tensors;
mod window;

pub use experts::{ExpertCache, ExpertLayer, ExpertTotals, expert_bytes};
pub use pages::PageReader;
pub use preserve::{Layer, Locking, Preservation, TensorRole, TensorSpec, preserve};
pub use riddle_weights::{JoinedFile, JoinedFiles, ShardId, ShardStore};
pub use rows::{EmbeddingRows, MissingRows, RowStats};
pub use shards::{LoadedLayer, PreloadBuffer, RatedDevice, Shard, ShardReader};
pub use spill::{Pass, SPILL_BUFFERS, SpillFile};
pub use tensors::{LayerTensors, StreamOptions, StreamTotals, TensorStream};
pub use window::{LayerSource, LayerView, LayerWindow};

use std::path::PathBuf;

use riddle_types::{Advice, Advised};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong while weights come and go.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The weights can not be read.
    #[error(transparent)]
    Weights(#[from] riddle_weights::Error),
    /// A layer can not be read.
    #[error("layer {}: {source}", layer + 1)]
    Layer {
        /// Which, from 0.
        layer: usize,
        /// Why.
        source: riddle_weights::Error,
    },
    /// A tensor can not be read.
    #[error("layer {}, tensor {} ({role}) of {}: {source}", layer + 1, tensor + 1, path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// Which layer, from 0.
        layer: usize,
        /// Which of its tensors, from 0.
        tensor: usize,
        /// What it is.
        role: TensorRole,
        /// Why.
        source: std::io::Error,
    },
    /// An expert can not be read.
    #[error("layer {}, expert {} ({role}) of {}: {source}", layer + 1, expert + 1, path.display())]
    Expert {
        /// The file.
        path: PathBuf,
        /// Which layer, from 0.
        layer: usize,
        /// Which of its experts, from 0.
        expert: usize,
        /// Which of its tensors.
        role: TensorRole,
        /// Why.
        source: std::io::Error,
    },
    /// A file of weights can not be opened.
    #[error("{} can not be opened: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The caller stopped while weights were read.
    #[error("stopped while weights were read")]
    Stopped,
    /// The memory that weights may take is not enough for what must be in it.
    #[error(
        "{} MiB are too little memory for this model's weights with a window of {window} layers: \
         allow {} MiB, or a smaller window",
        budget >> 20, smallest.div_ceil(1 << 20)
    )]
    Budget {
        /// Bytes allowed.
        budget: u64,
        /// The least that works with this window.
        smallest: u64,
        /// Layers in the window.
        window: usize,
    },
    /// The thread that reads layers is gone.
    #[error("the thread that reads the model's layers has stopped: open the model again")]
    ReaderGone,
    /// The temporary file of hidden states can not be used.
    #[error(
        "the temporary file for hidden states can not be used ({0}): free some disk space, choose another folder for it, or allow more memory"
    )]
    Spill(std::io::Error),
    /// The thread could not be started.
    #[error("can not start the thread that reads layers or hidden states: {0}")]
    Spawn(std::io::Error),
}

impl Advised for Error {
    fn advice(&self) -> Option<Advice> {
        match self {
            Error::Weights(error) | Error::Layer { source: error, .. } => error.advice(),
            _ => None,
        }
    }
}
