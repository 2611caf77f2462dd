//! Bringing models in, and their weights into our own store.

use std::{
    fs,
    path::{Path, PathBuf},
};

use riddle_grating::{STORE_FILE, StorePrecision, WeightCount, convert, verify};
use riddle_models::{
    DEFAULT_SPARSE_ENCODER, InstalledModel, LeftOut, OnProgress, PullOptions, PullPlan, companions,
    known, language_model_files,
};

use super::{
    config::{Config, DEFAULT_EMBEDDER},
    packing::{Packing, copy_beside, pack, unpack},
};
use crate::contract::{Error, Result};

/// A model that was brought into the store.
#[derive(Debug, Clone, PartialEq)]
pub struct Installed {
    /// The model.
    pub model: InstalledModel,
    /// Which of its weights are computed with.
    pub packing: Packing,
    /// Files of an imported folder that stayed behind.
    pub left_out: Vec<LeftOut>,
}

/// What [`pull_model`] would fetch under this name, of what size and under which license.
///
/// # Errors
/// As [`ModelStore::plan`](riddle_models::ModelStore::plan).
pub fn plan_model(
    config: &Config,
    name: &str,
    options: &PullOptions,
    on_progress: OnProgress<'_>,
) -> Result<PullPlan> {
    Ok(config.model_store()?.plan(name, options, on_progress)?)
}

/// Makes sure that a model is installed, fetching it where it is not, and packs an embedder's weights where that costs
/// next to nothing, unless it is wanted `as_published`; then the packed ones go, if there were any. With the default
/// embedder comes the default sparse encoder, where it can be had.
///
/// # Errors
/// As [`ModelStore::pull`](riddle_models::ModelStore::pull), and when packed weights can not be removed.
pub fn pull_model(
    config: &Config,
    name: &str,
    options: &PullOptions,
    as_published: bool,
    on_progress: OnProgress<'_>,
) -> Result<Installed> {
    let store = config.model_store()?;
    for other in companions(name).iter().filter(|it| known(it).is_some()) {
        let options = PullOptions { network: options.network.clone(), ..PullOptions::default() };
        store.pull(other, &options, on_progress)?;
    }
    let model = store.pull(name, options, on_progress)?;
    let packing = if as_published {
        let path = || model.dir.join(STORE_FILE);
        unpack(&model).map_err(|source| Error::Io { path: path(), source })?;
        Packing::Published
    } else {
        pack(&model, config.threads)
    };
    if model.name == DEFAULT_EMBEDDER {
        let options = PullOptions { network: options.network.clone(), ..PullOptions::default() };
        // The order is better with it, and nothing fails without.
        match store.pull(DEFAULT_SPARSE_ENCODER, &options, on_progress) {
            Ok(beside) => drop(pack(&beside, config.threads)),
            Err(error) => tracing::warn!(%error, "{DEFAULT_SPARSE_ENCODER} is not installed"),
        }
    }
    Ok(Installed { model, packing, left_out: Vec::new() })
}

/// Copies a model from a folder into the store, and packs it as [`pull_model`] does, unless it is wanted
/// `as_published`.
///
/// # Errors
/// As [`ModelStore::import_watched`](riddle_models::ModelStore::import_watched).
pub fn import_model(
    config: &Config,
    folder: &Path,
    name: Option<&str>,
    as_published: bool,
    on_progress: OnProgress<'_>,
) -> Result<Installed> {
    let imported = config.model_store()?.import_watched(folder, name, on_progress)?;
    let model = imported.model;
    let packing = if as_published { Packing::Published } else { pack(&model, config.threads) };
    Ok(Installed { model, packing, left_out: imported.left_out })
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
        copy_beside(&dir, target).map_err(fail)?;
    }
    Ok(Converted { file: target.join(STORE_FILE), bytes: summary.bytes, tensors: summary.tensors })
}

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
