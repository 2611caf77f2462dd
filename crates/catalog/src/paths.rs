//! Paths in the database: the system's own bytes, so that names that are not UTF-8 survive.

use std::path::{Path, PathBuf};

#[cfg(unix)]
pub(crate) fn to_bytes(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt as _;
    path.as_os_str().as_bytes().to_vec()
}

#[cfg(unix)]
pub(crate) fn from_bytes(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// Windows paths are UTF-16 that may hold lone surrogates; two bytes a unit keep them.
#[cfg(windows)]
pub(crate) fn to_bytes(path: &Path) -> Vec<u8> {
    use std::os::windows::ffi::OsStrExt as _;
    path.as_os_str().encode_wide().flat_map(u16::to_le_bytes).collect()
}

#[cfg(windows)]
pub(crate) fn from_bytes(bytes: Vec<u8>) -> PathBuf {
    use std::os::windows::ffi::OsStringExt as _;
    let units: Vec<u16> =
        bytes.chunks_exact(2).map(|it| u16::from_le_bytes([it[0], it[1]])).collect();
    PathBuf::from(std::ffi::OsString::from_wide(&units))
}

/// The path as text; bytes that are not text are replaced.
pub(crate) fn display(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
