//! Text to vectors, and to weights of terms.
//!
//! [`open`] looks at a model directory and returns an [`Embedder`](riddle_types::Embedder): our own
//! encoder for checkpoints in safetensors ([`BuiltinEncoder`], the default, no other runtime
//! needed: BERT, XLM-RoBERTa, MPNet, ModernBERT, Qwen3, Gemma 3), a table of one vector for each token
//! ([`StaticEncoder`]), or ONNX Runtime by way of fastembed for ONNX models ([`FastEmbedder`]), whose library is
//! loaded when the first such model is opened and not before. [`SpladeEncoder`] gives weights of terms, which find what
//! words find and words that mean the same.
//!
//! Not here: fetching models, storing vectors, comparing them.

mod builtin;
mod card;
mod error;
mod fast;
mod memory;
mod sparse;
mod table;

use std::path::{Path, PathBuf};

use riddle_transformer::{static_table, transformer_folder};
use riddle_types::Embedder;

pub use builtin::{BuiltinEncoder, EncoderOptions};
pub use card::{Shortening, known_prefixes, shortening};
pub use error::{Error, Result};
pub use fast::{FastEmbedder, SupportedModel, onnx_runtime_library, supported};
pub use sparse::{PASSAGE_TERMS, QUERY_TERMS, SpladeEncoder};
pub use table::StaticEncoder;

/// Opens the embedder in `dir`: a table where it is one, the built-in encoder where it can compute the model, else ONNX
/// Runtime where there is an ONNX file.
///
/// # Errors
/// When the directory holds no model, or one that is damaged or not supported. A damaged checkpoint is
/// never passed over in favor of an ONNX file beside it: the vectors would differ without a word.
pub fn open(dir: &Path, options: EncoderOptions) -> Result<Box<dyn Embedder>> {
    if let Some(encoder) = StaticEncoder::open(dir, options)? {
        return Ok(Box::new(encoder));
    }
    match BuiltinEncoder::open(dir, options) {
        Ok(encoder) => Ok(Box::new(encoder)),
        Err(error) if error.is_unsupported() && fast::onnx_file(dir).is_some() => {
            tracing::debug!(%error, "not for the built-in encoder, opening the ONNX file");
            Ok(Box::new(FastEmbedder::open(dir)?))
        }
        Err(error) => Err(error),
    }
}

/// The folder of the model's tokenizer and weights: `dir`, or the one below it that its list of modules names.
///
/// # Errors
/// A malformed list, or one that leads out of the folder.
pub fn model_folder(dir: &Path) -> Result<PathBuf> {
    Ok(match static_table(dir)? {
        Some(folder) => folder,
        None => transformer_folder(dir)?,
    })
}
