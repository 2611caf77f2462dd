//! What a scan of a folder looks at: the same for who reads what changed, and for who only asks whether something did.

use riddle_catalog::{Catalog, Root};
use riddle_watch::ScanOptions;

use super::{config::Config, records::rules};
use crate::contract::Result;

/// What is scanned of a root.
pub(crate) fn scan_options(config: &Config, catalog: &Catalog, root: &Root) -> Result<ScanOptions> {
    Ok(ScanOptions {
        max_file_bytes: config.max_file_bytes,
        // The empty mount point of an unmounted disk is on another volume than its files were.
        known_volume: catalog.volume_of(root.id)?,
        excluded: rules(catalog)?
            .into_iter()
            .filter(|it| it.root.is_none_or(|it| it == root.id.0))
            .map(|it| it.pattern)
            .collect(),
        ..ScanOptions::default()
    })
}
