//! Bringing models in, and their weights into our own store.

use std::{
    fs,
    path::{Path, PathBuf},
};

use riddle_grating::{STORE_FILE, StorePrecision, WeightCount, convert, module_files, verify};
use riddle_models::{
    DEFAULT_SPARSE_ENCODER, Format, Imported, InstalledModel, OnProgress, PullOptions, companions,
    known, language_model_files,
};

use super::config::{Config, DEFAULT_EMBEDDER};
use crate::contract::{Error, Result};

/// Models whose matrices are packed into bytes once they are installed: what that costs in quality was measured for
/// these, and is next to nothing (docs/benchmarks/2026-11-23-int8-quality.md, 2026-11-28-many-languages.md).
const PACKED: [&str; 3] = [DEFAULT_EMBEDDER, DEFAULT_SPARSE_ENCODER, "multilingual-e5-small"];

/// Makes sure that a model is installed, fetching it where it is not, and packs its weights where that is known to cost
/// nothing, unless it is wanted `as_published`; then the packed ones go, if there were any. With the default embedder
/// comes the default sparse encoder, where it can be had.
///
/// # Errors
/// As [`ModelStore::pull`](riddle_models::ModelStore::pull), and when the packed weights can not be written.
pub fn pull_model(
    config: &Config,
    name: &str,
    options: &PullOptions,
    as_published: bool,
    on_progress: OnProgress<'_>,
) -> Result<InstalledModel> {
    let store = config.model_store()?;
    for other in companions(name).iter().filter(|it| known(it).is_some()) {
        let options = PullOptions { network: options.network.clone(), ..PullOptions::default() };
        store.pull(other, &options, on_progress)?;
    }
    let model = store.pull(name, options, on_progress)?;
    if as_published {
        unpack(&model)?
    } else {
        pack(&model)?
    }
    if model.name == DEFAULT_EMBEDDER {
        let options = PullOptions { network: options.network.clone(), ..PullOptions::default() };
        let beside = store.pull(DEFAULT_SPARSE_ENCODER, &options, on_progress);
        // The order is better with it, and nothing fails without.
        match beside.map_err(Error::from).and_then(|it| pack(&it)) {
            Ok(()) => {}
            Err(error) => tracing::warn!(%error, "{DEFAULT_SPARSE_ENCODER} is not installed"),
        }
    }
    Ok(model)
}

/// Copies a model from a folder into the store, and packs it as [`pull_model`] does.
///
/// # Errors
/// As [`ModelStore::import_watched`](riddle_models::ModelStore::import_watched), and when the packed weights can not be
/// written.
pub fn import_model(
    config: &Config,
    folder: &Path,
    name: Option<&str>,
    on_progress: OnProgress<'_>,
) -> Result<Imported> {
    let imported = config.model_store()?.import_watched(folder, name, on_progress)?;
    pack(&imported.model)?;
    Ok(imported)
}

fn pack(model: &InstalledModel) -> Result<()> {
    // An earlier version fetched some of them as ONNX graphs.
    if !PACKED.contains(&model.name.as_str()) || model.format == Format::Onnx {
        return Ok(());
    }
    // A damaged one is made again: to fetch the model once more is what its error advises.
    if matches!(verify(&model.dir), Ok(true)) {
        return Ok(());
    }
    convert(&model.dir, Some(StorePrecision::Int8), &model.dir, &mut |_| {})
        .map_err(|error| Error::BadModel { dir: model.dir.clone(), source: error.into() })?;
    Ok(())
}

fn unpack(model: &InstalledModel) -> Result<()> {
    let path = model.dir.join(STORE_FILE);
    // A model that consists of nothing else is as it was published.
    if !PACKED.contains(&model.name.as_str()) || !path.is_file() {
        return Ok(());
    }
    fs::remove_file(&path).map_err(|source| Error::Io { path, source })
}

/// Writes our own store of a reranker or embedder into its folder or into `out`, matrices in `dtype` (`None`: as they
/// are); `progress` hears the bytes written.
///
/// # Errors
/// When there is no such model, it is neither, or a file can not be written.
pub fn convert_model(
    config: &Config,
    name: &str,
    dtype: Option<StorePrecision>,
    out: Option<&Path>,
    progress: &mut dyn FnMut(u64),
) -> Result<Converted> {
    let dir = config.model_dir(name)?;
    if !dir.join("config.json").is_file() && !language_model_files(&dir)?.is_empty() {
        return Err(Error::BadRequest(
            format!("{name} is a language model in GGUF: it runs as it is and is not converted")
                .into(),
        ));
    }
    let target = out.unwrap_or(&dir);
    let fail = |source| Error::Io { path: target.to_path_buf(), source };
    if target != dir {
        fs::create_dir_all(target).map_err(fail)?;
    }
    let summary = convert(&dir, dtype, target, progress)
        .map_err(|error| Error::BadModel { dir: dir.clone(), source: error.into() })?;
    if target != dir {
        // A store is a model only beside its configuration and tokenizer.
        let modules = module_files(&dir)
            .map_err(|error| Error::BadModel { dir: dir.clone(), source: error.into() })?;
        for file in BESIDE_WEIGHTS.into_iter().chain(modules.iter().map(String::as_str)) {
            let (from, to) = (dir.join(file), target.join(file));
            if from.is_file() {
                to.parent().map_or(Ok(()), fs::create_dir_all).map_err(fail)?;
                fs::copy(from, to).map_err(fail)?;
            }
        }
    }
    Ok(Converted { file: target.join(STORE_FILE), bytes: summary.bytes, tensors: summary.tensors })
}

/// Files that a model needs beside its weights, or may have.
const BESIDE_WEIGHTS: [&str; 9] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
    "README.md",
];

/// A store that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// The file.
    pub file: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// Tensors in it.
    pub tensors: usize,
}

/// Counts the weights of a model, by name or directory, and those that are not zero: pruned models keep zeros.
///
/// # Errors
/// When there is no model with published weights; a store of bytes has rounded its own away.
pub fn count_weights(config: &Config, name: &str) -> Result<WeightCount> {
    let dir = config.model_dir(name)?;
    riddle_grating::count_weights(&dir)
        .map_err(|error| Error::BadModel { dir, source: error.into() })
}

/// Compares the store in a model's folder with its checksums; `false` when there is none.
///
/// # Errors
/// The first part that does not match.
pub fn verify_store(dir: &Path) -> Result<bool> {
    verify(dir).map_err(|error| Error::BadModel { dir: dir.to_path_buf(), source: error.into() })
}
