//! Layer graphs, heads and tokenizers of the supported model families: BERT and XLM-RoBERTa today.
//!
//! [`Bert`] knows what a layer computes and which tensors it needs, and holds only the small ones
//! (position and segment embeddings, the head). The layers' weights and the token rows come from
//! outside, one layer at a time, so whoever drives the forward pass decides what is in memory. The
//! input is a [`RaggedBatch`]: sequences of different lengths, one after the other, without padding.
//! All memory a layer needs beyond its input is one [`Scratch`].
//!
//! Nothing here loops over layers, reads layers from disk, prunes or pools threads.

mod batch;
mod bert;
mod error;
mod tokenizer;

pub use batch::RaggedBatch;
pub use bert::{Bert, ClassificationHead, Scratch};
pub use error::{Error, Result};
pub use tokenizer::{Encoded, Tokenizer};
