//! Making our own store of a published checkpoint (§4.2: weights laid out as they are read).

use std::path::Path;

use riddle_transformer::{Dtype, OpenOptions, StoreSummary, open_cross_encoder, write_store};

use crate::{Error, Result};

/// Writes the store of the cross-encoder in `dir` into the directory `out`, which may be the same: layer
/// after layer, aligned and checksummed, matrices in `dtype` (`None`: as they are). `progress` sees the
/// bytes written. The engine reads the store from then on wherever it lies beside `config.json` and
/// `tokenizer.json`.
///
/// # Errors
/// What is wrong with the model, a file that can not be written, or values that the format can not hold.
pub fn convert(
    dir: &Path,
    dtype: Option<Dtype>,
    out: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<StoreSummary> {
    let source = OpenOptions { published: true, ..OpenOptions::default() };
    let model = open_cross_encoder(dir, source)?;
    write_store(model.checkpoint(), model.layers().layers(), dtype, out, progress)
        .map_err(|error| Error::Model(error.into()))
}
