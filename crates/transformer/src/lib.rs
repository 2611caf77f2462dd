//! Layer graphs, heads, templates and tokenizers of the supported model families: BERT, XLM-RoBERTa,
//! MPNet, ModernBERT, GTE, DeBERTa, and the decoders Qwen2, Qwen3, MiniCPM layerwise and Gemma 3.
//!
//! A [`TextEncoder`] knows what a layer computes and which tensors it needs, and holds only the small ones
//! (norms, position tables, the head). The layers' weights and the token rows come from outside, one layer
//! at a time, so whoever drives the forward pass decides what is in memory. The input is a [`RaggedBatch`]:
//! sequences of different lengths, one after the other, without padding. All memory a layer needs beyond
//! its input is one [`Scratch`]. A [`CrossEncoder`] scores the sequences that [`PairEncoder`] makes of a query and a
//! text, and a [`LateInteraction`] compares the two, read apart; a text encoder with its [`Modules`] is an encoder of
//! embeddings, and a [`Bert`] with its [`MaskedLanguageHead`] one of term weights.
//!
//! Nothing here loops over layers, reads layers from disk, prunes or pools threads.

mod batch;
mod bert;
mod beside;
mod deberta;
mod decoder;
mod elastic;
mod error;
mod gte;
mod language;
mod last;
mod late;
mod layer;
mod masked;
mod model;
mod modernbert;
mod modular;
mod modules;
mod mpnet;
mod operation;
mod pack;
mod prompt;
mod scratch;
mod tokenizer;
mod unseen;

// What a converter of models needs beside a `CrossEncoder`.
pub use riddle_kernels::Precision as Arithmetic;
pub use riddle_weights::{
    Centroids, Checkpoint, Dtype, Fidelity, STORE_FILE, ShardNumbers, ShardShape, ShardSummary,
    StorePrecision, StoreSummary, write_store,
};

pub use batch::RaggedBatch;
pub use bert::{Bert, BertCrossEncoder, ClassificationHead, EarlyHead};
pub use beside::module_files;
pub use deberta::Deberta;
pub use decoder::Decoder;
pub use elastic::{AssembledLayer, ElasticEncoder, ShardBytes, SliceOrdering, write_shards};
pub use error::{Error, Result};
pub use gte::Gte;
pub use language::{
    ExpertTensors, GuessScratch, KvCache, LanguageModel, LanguageScratch, LanguageScratchSize,
    LayerTensor, TensorPart,
};
pub use late::LateInteraction;
pub use masked::{MaskedLanguageHead, MaskedScratch};
pub use model::{
    CrossEncoder, OpenOptions, Prefix, ScoredToken, Sizes, Span, TextEncoder, Wanted,
    open_cross_encoder, open_layers, open_text_encoder,
};
pub use modernbert::ModernBert;
pub use modular::ModularCrossEncoder;
pub use modules::{Modules, Pooling, stated_pooling, static_table, transformer_folder};
pub use mpnet::Mpnet;
pub use pack::KernelLayout;
pub use prompt::{
    DEFAULT_INSTRUCTION, LateTemplate, PairEncoder, QueryEncoder, QuerySequence, Template,
};
pub use scratch::{RelativeShape, RotaryShape, Scratch, ScratchShape, ScratchSize};
pub use tokenizer::{Encoded, LanguageTokenizer, Tokenizer};
