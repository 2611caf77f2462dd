//! Copies of the committed tiny models, whole and damaged.

use std::path::{Path, PathBuf};

/// A committed model.
pub(crate) fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

/// Copies a folder with what is below it.
pub(crate) fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("folder");
    for entry in std::fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_all(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("copy");
        }
    }
}

/// A copy in which a text of a file is another one.
pub(crate) fn changed(name: &str, file: &str, from: &str, to: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("temp dir");
    copy_all(&golden(name), dir.path());
    let path = dir.path().join(file);
    let text = std::fs::read_to_string(&path).expect("read");
    assert!(text.contains(from), "{file} has no {from}");
    std::fs::write(path, text.replacen(from, to, 1)).expect("write");
    dir
}

/// A copy in which a file has lost its second half.
pub(crate) fn cut(name: &str, file: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("temp dir");
    copy_all(&golden(name), dir.path());
    let path = dir.path().join(file);
    let bytes = std::fs::read(&path).expect("read");
    std::fs::write(path, &bytes[..bytes.len() / 2]).expect("write");
    dir
}
