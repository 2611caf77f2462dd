//! Decides which weights are in memory now.
//!
//! Two parts of a transformer are too large to keep when memory is promised to others: the layers and
//! the table of token embeddings. [`LayerWindow`] keeps a few layers and reads the next ones on a thread
//! of its own while the caller computes (GRATING §4.2, *dual-layer sliding window*); [`EmbeddingRows`]
//! keeps the rows of recent tokens and reads the others one by one (GRATING §4.4, *embedding table
//! caching*). Both count every byte they hold.
//!
//! What a layer contains and how it is computed is the transformer's affair; what is on disk is the
//! weights'. Nothing here knows a model.

mod buffer;
mod rows;
mod window;

pub use rows::{EmbeddingRows, RowStats};
pub use window::{LayerSource, LayerView, LayerWindow};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

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
    /// The thread could not be started.
    #[error("can not start the thread that reads layers: {0}")]
    Spawn(std::io::Error),
}
