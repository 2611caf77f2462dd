//! Bytes on disk to tensors: safetensors checkpoints, our own store, and Hugging Face configurations.
//!
//! [`Checkpoint`] opens a model directory as the hub publishes it (one `model.safetensors`, or several
//! files with an index) or the store beside it, checks every claim of the headers against the files, and
//! reads tensors by positioned reads into memory that the caller owns: never by memory mapping, because
//! pages that the kernel lends can neither be bounded nor counted. [`BertConfig`], [`ModernBertConfig`] and
//! [`DecoderConfig`] are the `config.json` of the supported families. [`LayeredCheckpoint`] groups a
//! checkpoint's tensors by layer, in the order of computation; [`write_store`] writes them in that order, so
//! that a layer is one read. [`ShardStore`] has the same layers as shards of several fidelities, so that what is read
//! fits the time there is.
//!
//! Files are untrusted: each way they can lie has an error of its own, and nothing is allocated on a
//! header's word before it was compared with the file's size; the readers are fuzzed (`fuzz/`). Nothing
//! here computes, caches or spawns.

mod centroids;
mod checkpoint;
mod config;
mod dtype;
mod error;
mod fidelity;
mod files;
mod format;
pub mod gguf;
mod header;
mod joined;
mod layers;
mod layout;
mod shards;
mod store;
mod tensor;

pub use centroids::{Centroids, Dictionary, dictionary, outlier_bounds};
pub use checkpoint::Checkpoint;
pub use config::{
    BertConfig, BertFamily, Convolution, DebertaConfig, DecoderConfig, DecoderFamily, Experts,
    GteConfig, LanguageConfig, LanguageFamily, ModernBertConfig, MpnetConfig, RopeScaling,
    TokenPooling, model_type, read_json,
};
pub use dtype::Dtype;
pub use error::{Error, Result};
pub use fidelity::{Fidelity, ShardMatrix, ShardNumbers, ShardShape};
pub use files::{is_there, open_file};
pub use format::{Format, Pack, StorePrecision};
pub use joined::{JoinedFile, JoinedFiles, PAGE};
pub use layers::LayeredCheckpoint;
pub use layout::LayerLayout;
pub use shards::{ShardId, ShardStore, ShardSummary, ShardWriter};
pub use store::{STORE_FILE, StoreSummary, write_store};
pub use tensor::TensorInfo;
