//! Decides which weights are in memory now.
//!
//! Two parts of a transformer are too large to keep when memory is promised to others: the layers and
//! the table of token embeddings. [`LayerWindow`] keeps a few layers and reads the next ones on a thread
//! of its own while the caller computes (GRATING §4.2, *dual-layer sliding window*); [`EmbeddingRows`]
//! keeps the rows of recent tokens and reads the others one by one (GRATING §4.4, *embedding table
//! caching*). [`SpillFile`] keeps hidden states of thousands of candidates on disk and three micro-batches
//! of them in memory (GRATING §4.3). All count every byte they hold.
//!
//! What a layer contains and how it is computed is the transformer's affair; what is on disk is the
//! weights'. Nothing here knows a model.

mod buffer;
mod rows;
mod spill;
mod window;

pub use rows::{EmbeddingRows, RowStats};
pub use spill::{Pass, SPILL_BUFFERS, SpillFile};
pub use window::{LayerSource, LayerView, LayerWindow};

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
