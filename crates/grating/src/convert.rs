//! Making our own store of a published checkpoint (§4.2: weights laid out as they are read).

use std::path::Path;

use riddle_transformer::{
    Checkpoint, KernelLayout, OpenOptions, STORE_FILE, StorePrecision, StoreSummary, open_layers,
    write_store,
};

use crate::{Error, Result};

/// Writes the store of the model in `dir` (a cross-encoder, or the encoder of an embedder) into the directory `out`,
/// which may be the same: layer after layer, aligned and checksummed, matrices in `precision` (`None`: as they are).
/// `progress` sees the bytes written. The engine reads the store from then on wherever it lies
/// beside `config.json` and `tokenizer.json`.
///
/// # Errors
/// What is wrong with the model, a file that can not be written, or values that the format can not hold.
pub fn convert(
    dir: &Path,
    precision: Option<StorePrecision>,
    out: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<StoreSummary> {
    let source = OpenOptions { published: true, ..OpenOptions::default() };
    let model = open_layers(dir, source)?;
    write_store(model.checkpoint(), model.layers(), precision, &KernelLayout, out, progress)
        .map_err(|error| Error::Model(error.into()))
}

/// Compares every part of the store in `dir` with its checksum; `false` when there is no store.
///
/// # Errors
/// The first part that does not match or can not be read, and a store that does not belong here.
pub fn verify(dir: &Path) -> Result<bool> {
    if !dir.join(STORE_FILE).is_file() {
        return Ok(false);
    }
    let checked = Checkpoint::open(dir).and_then(|it| it.verify());
    checked.map_err(|error| Error::Model(error.into()))?;
    Ok(true)
}

/// Files of the modules that a model has behind its layers, below its folder and with `/`; they stay as published.
///
/// # Errors
/// A list of modules that is malformed or leads out of the folder.
pub fn module_files(dir: &Path) -> Result<Vec<String>> {
    riddle_transformer::module_files(dir).map_err(Error::Model)
}

/// Weights of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightCount {
    /// All of them.
    pub weights: u64,
    /// Those that are not zero.
    pub nonzero: u64,
}

/// Counts the weights of the published model in `dir`.
///
/// # Errors
/// When there are no published weights, or they can not be read.
pub fn count_weights(dir: &Path) -> Result<WeightCount> {
    let checkpoint =
        Checkpoint::open_safetensors(dir).map_err(|error| Error::Model(error.into()))?;
    let mut count = WeightCount { weights: 0, nonzero: 0 };
    let mut values = Vec::new();
    for info in checkpoint.tensors() {
        values.clear();
        values.resize(info.elements(), 0.0);
        checkpoint.read_f32(info, &mut values).map_err(|error| Error::Model(error.into()))?;
        count.weights += values.len() as u64;
        count.nonzero += values.iter().filter(|it| **it != 0.0).count() as u64;
    }
    Ok(count)
}
