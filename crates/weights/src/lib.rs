//! Bytes on disk to tensors: safetensors checkpoints and Hugging Face configurations.
//!
//! [`Checkpoint`] opens a model directory as the hub publishes it (one `model.safetensors`, or several
//! files with an index), checks every claim of the headers against the files, and reads tensors by
//! positioned reads into memory that the caller owns: never by memory mapping, because pages that the
//! kernel lends can neither be bounded nor counted. [`BertConfig`] is the `config.json` of the BERT
//! family. [`LayeredCheckpoint`] groups a checkpoint's tensors by layer, in the order of computation.
//!
//! Files are untrusted: each way they can lie has an error of its own, and nothing is allocated on a
//! header's word before it was compared with the file's size. Nothing here computes, caches or spawns.

mod checkpoint;
mod config;
mod dtype;
mod error;
mod header;
mod layers;
mod store;

pub use checkpoint::{Checkpoint, TensorInfo};
pub use config::{
    BertConfig, BertFamily, DecoderConfig, DecoderFamily, ModernBertConfig, TokenPooling,
    model_type, read_json,
};
pub use dtype::Dtype;
pub use error::{Error, Result};
pub use layers::{LayerLayout, LayeredCheckpoint};
pub use store::{PAGE, STORE_FILE, StoreSummary, write_store};
