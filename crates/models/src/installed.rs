//! A model in the store, or in a folder beside it.

use std::path::PathBuf;

use crate::{Format, Kind};

/// A model that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledModel {
    /// Name in the store, or the folder's path where it is not in the store.
    pub name: String,
    /// What it does.
    pub kind: Kind,
    /// How its weights are stored.
    pub format: Format,
    /// Size of its files in bytes.
    pub bytes: u64,
    /// License, as its source states it.
    pub license: Option<String>,
    /// Where it came from.
    pub source: String,
    /// Commit or version at the source.
    pub revision: Option<String>,
    /// When it was installed, in seconds since 1970; `None` when the store did not install it.
    pub pulled_at: Option<u64>,
    /// Its folder.
    pub dir: PathBuf,
}
