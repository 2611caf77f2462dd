//! Opening the embedder a home uses, late and once.

use std::{path::Path, sync::Arc};

use riddle_catalog::Catalog;
use riddle_embedding::EncoderOptions;
use riddle_types::Embedder;

use crate::{Config, DEFAULT_EMBEDDER, Error, Result};

/// Setting: name or directory of the embedder that new vectors are made with.
pub(crate) const EMBEDDER_SETTING: &str = "embedder";

/// Name or directory of the embedder that the home wants.
pub(crate) fn wanted(catalog: &Catalog) -> Result<String> {
    Ok(catalog.setting(EMBEDDER_SETTING)?.unwrap_or_else(|| DEFAULT_EMBEDDER.to_owned()))
}

/// Opens it; `None` when it is not installed, which leaves search by keywords.
pub(crate) fn open(config: &Config, name: &str) -> Result<Option<Arc<dyn Embedder>>> {
    match config.model_dir(name) {
        Ok(dir) => open_dir(config, &dir).map(Some),
        Err(Error::NoModel { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn open_dir(config: &Config, dir: &Path) -> Result<Arc<dyn Embedder>> {
    let options = EncoderOptions { threads: config.threads, ..EncoderOptions::default() };
    let embedder = riddle_embedding::open(dir, options)
        .map_err(|error| Error::BadModel { dir: dir.to_path_buf(), source: Box::new(error) })?;
    Ok(Arc::from(embedder))
}

/// What to tell when vectors are missing.
pub(crate) fn missing_notice(name: &str) -> String {
    format!(
        "no embedding model: only keywords are searched; `riddle models pull {name}` and then `riddle index` add search by meaning"
    )
}
