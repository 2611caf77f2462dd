//! Files whose bytes are in the cloud: opening one would download it, so they are told by metadata.

use std::{fs::Metadata, path::Path};

/// Whether the file is a placeholder of a cloud drive.
///
/// - Windows: the attributes RECALL_ON_DATA_ACCESS and RECALL_ON_OPEN, which OneDrive and others set.
/// - macOS: the flag SF_DATALESS of iCloud and File Provider.
/// - Linux has no common mark. Names that clients give their placeholders are known (`.cloud`, `.cloudf`
///   of Insync and ownCloud's virtual files); sparse files without blocks are *not* taken for placeholders,
///   because compressing and inline-storing file systems report small real files that way.
pub(crate) fn is_placeholder(path: &Path, metadata: &Metadata) -> bool {
    by_metadata(metadata) || by_name(path)
}

#[cfg(windows)]
fn by_metadata(metadata: &Metadata) -> bool {
    use std::os::windows::fs::MetadataExt as _;
    const RECALL_ON_OPEN: u32 = 0x0004_0000;
    const RECALL_ON_DATA_ACCESS: u32 = 0x0040_0000;
    metadata.file_attributes() & (RECALL_ON_OPEN | RECALL_ON_DATA_ACCESS) != 0
}

#[cfg(target_os = "macos")]
fn by_metadata(metadata: &Metadata) -> bool {
    use std::os::macos::fs::MetadataExt as _;
    const SF_DATALESS: u32 = 0x4000_0000;
    metadata.st_flags() & SF_DATALESS != 0
}

#[cfg(not(any(windows, target_os = "macos")))]
fn by_metadata(_metadata: &Metadata) -> bool {
    false
}

fn by_name(path: &Path) -> bool {
    let extension = path.extension().and_then(|it| it.to_str()).unwrap_or("");
    matches!(extension, "cloud" | "cloudf" | "owncloud" | "nextcloud")
        || stands_for_icloud_file(path)
}

/// iCloud's older form: `.report.pdf.icloud` stands for report.pdf.
pub(crate) fn stands_for_icloud_file(path: &Path) -> bool {
    let name = path.file_name().map(|it| it.to_string_lossy()).unwrap_or_default();
    name.starts_with('.') && name.len() > ".icloud".len() && name.ends_with(".icloud")
}
