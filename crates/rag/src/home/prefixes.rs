//! What models in this process have read of prompts, kept between questions.

use std::{collections::HashSet, path::PathBuf, sync::Arc};

use riddle_cache::{DEFAULT_LIMIT, Freed, Limit, Store};
use riddle_catalog::Catalog;
use riddle_models::Program;
use riddle_seal::Place;
use riddle_types::ChunkId;

use super::{config::Config, records::Records};
use crate::contract::{Error, Result};

/// Setting: bytes that stored prefixes may take; 0: none are kept. Without it, [`DEFAULT_LIMIT`].
pub const PREFIX_BYTES_SETTING: &str = "prefix_bytes";

/// The stored prefixes of a home.
///
/// # Errors
/// When the catalog is there and can not be read.
pub fn prefixes(config: &Config) -> Result<Store> {
    let path = config.catalog();
    if !path.path().is_file() {
        return Ok(Store::open(dir(config), Limit::default()));
    }
    store(config, &Catalog::open_read_only(&path)?)
}

/// Deletes all that is stored.
///
/// # Errors
/// When the catalog can not be read, or files can not be deleted.
pub fn clear(config: &Config) -> Result<Freed> {
    prefixes(config)?.clear().map_err(error)
}

/// Sets how many bytes stored prefixes may take, [`DEFAULT_LIMIT`] without a number, and frees what is over it.
///
/// # Errors
/// When the catalog can not be written, or files can not be deleted.
pub fn set_limit(config: &Config, bytes: Option<u64>) -> Result<Freed> {
    let text = bytes.map(|it| it.to_string());
    Records::open(config.clone())?.set_setting(PREFIX_BYTES_SETTING, text.as_deref())?;
    let limit = Limit { bytes: bytes.unwrap_or(DEFAULT_LIMIT), ..Limit::default() };
    prefixes(config)?.set_limit(limit).map_err(error)
}

/// Removes a model, and what it has read.
///
/// # Errors
/// When there is no such model, or its files can not be deleted.
pub fn remove_model(config: &Config, name: &str) -> Result<()> {
    if let Some((program, _)) = Program::of(name) {
        let why = format!("{name} belongs to {program}: remove it there");
        return Err(Error::BadRequest(why.into()));
    }
    config.model_store()?.remove(name)?;
    prefixes(config)?.remove_model(name).map_err(error)?;
    Ok(())
}

/// The store, within the limit that the catalog says.
pub(crate) fn store(config: &Config, catalog: &Catalog) -> Result<Store> {
    Ok(Store::open(dir(config), limit(catalog)?))
}

/// The store for a model that is about to answer; `None` where nothing may be kept.
pub(crate) fn for_model(config: &Config, catalog: &Catalog) -> Result<Option<Arc<Store>>> {
    match limit(catalog)? {
        Limit { bytes: 0, .. } => Ok(None),
        limit => Ok(Some(Arc::new(Store::open(dir(config), limit)))),
    }
}

fn limit(catalog: &Catalog) -> Result<Limit> {
    let bytes = catalog.setting(PREFIX_BYTES_SETTING)?.and_then(|it| it.parse().ok());
    Ok(Limit { bytes: bytes.unwrap_or(DEFAULT_LIMIT), ..Limit::default() })
}

fn dir(config: &Config) -> Place {
    config.place("kv")
}

/// Deletes what was made of chunks that the catalog no longer has.
pub(crate) fn follow(config: &Config, catalog: &Catalog) -> Result<Freed> {
    let store = store(config, catalog)?;
    let held: Vec<ChunkId> = store.chunks().map_err(error)?.into_iter().map(ChunkId).collect();
    let here: HashSet<ChunkId> =
        catalog.chunk_records(&held)?.into_iter().map(|it| it.id).collect();
    let gone: Vec<u64> = held.iter().filter(|it| !here.contains(it)).map(|it| it.0).collect();
    // Even of nothing: what is being answered now may be made of what has just gone.
    store.purge(&gone).map_err(error)
}

/// Deletes everything: chunks of another catalog are counted in other numbers.
pub(crate) fn forget(config: &Config) -> Result<Freed> {
    Store::open(dir(config), Limit::default()).clear().map_err(error)
}

/// An error of the store as one of the home's files.
pub(crate) fn error(error: riddle_cache::Error) -> Error {
    match error {
        riddle_cache::Error::Io { path, source } => Error::Io { path, source },
        other => Error::Io { path: PathBuf::from("kv"), source: std::io::Error::other(other) },
    }
}
