//! Files that belong to a model beside its weights.

use std::path::Path;

use crate::{Result, late, modules};

/// Files below the model's folder, with `/`, that say what is computed behind its layers: those of its modules, and of
/// a late interaction its settings of queries and texts.
///
/// # Errors
/// A malformed list of modules, or one that leads out of the folder.
pub fn module_files(dir: &Path) -> Result<Vec<String>> {
    let mut files = modules::listed_files(dir)?;
    files.extend(late::settings_file(dir)?.map(str::to_owned));
    Ok(files)
}
