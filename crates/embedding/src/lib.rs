//! Text to vectors.
//!
//! [`open`] looks at a model directory and returns an [`Embedder`](riddle_types::Embedder): our own
//! encoder for BERT checkpoints in safetensors ([`BuiltinEncoder`], the default, no other runtime
//! needed), or ONNX Runtime by way of fastembed for ONNX models ([`FastEmbedder`]), whose library is
//! loaded when the first such model is opened and not before.
//!
//! Not here: fetching models, storing vectors, comparing them.

mod builtin;
mod error;
mod fast;

use std::path::Path;

use riddle_types::Embedder;

pub use builtin::{BuiltinEncoder, EncoderOptions};
pub use error::{Error, Result};
pub use fast::{FastEmbedder, SupportedModel, onnx_runtime_library, supported};

/// Opens the embedder in `dir`.
///
/// # Errors
/// When the directory holds no model, or one that is damaged or not supported.
pub fn open(dir: &Path, options: EncoderOptions) -> Result<Box<dyn Embedder>> {
    if fast::onnx_file(dir).is_some() {
        return Ok(Box::new(FastEmbedder::open(dir)?));
    }
    Ok(Box::new(BuiltinEncoder::open(dir, options)?))
}
