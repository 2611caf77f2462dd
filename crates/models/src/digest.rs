//! Checksums: SHA-256 everywhere, and git's blob hash because the hub states no other for small files.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// Bytes read at a time: large enough that reading costs nothing, small enough for the stack's neighbors.
const BLOCK: usize = 256 << 10;

/// A checksum that a source promised, lower-case hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Promise {
    /// SHA-256 of the bytes.
    Sha256(String),
    /// SHA-1 of `blob SIZE\0` and the bytes, which is git's name for them.
    GitBlob(String),
}

impl Promise {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Promise::Sha256(hex) | Promise::GitBlob(hex) => hex,
        }
    }
}

/// What a file's bytes hash to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Digests {
    pub(crate) size: u64,
    pub(crate) sha256: String,
    git_blob: String,
}

impl Digests {
    /// The checksum of the promised sort.
    pub(crate) fn like(&self, promise: &Promise) -> &str {
        match promise {
            Promise::Sha256(_) => &self.sha256,
            Promise::GitBlob(_) => &self.git_blob,
        }
    }

    pub(crate) fn keeps(&self, promise: &Promise) -> bool {
        self.like(promise) == promise.as_str()
    }
}

/// SHA-256 of bytes in memory, lower-case hexadecimal.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

/// Whether `text` is a checksum of `length` bytes in lower-case hexadecimal.
pub(crate) fn is_hex(text: &str, length: usize) -> bool {
    text.len() == 2 * length
        && text.bytes().all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(&it))
}

/// Hashes a file in one pass.
pub(crate) fn of_file(path: &Path) -> io::Result<Digests> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut sha256 = Sha256::new();
    let mut sha1 = Sha1::new();
    sha1.update(format!("blob {size}\0"));
    let mut block = vec![0; BLOCK];
    loop {
        match file.read(&mut block)? {
            0 => break,
            read => {
                sha256.update(&block[..read]);
                sha1.update(&block[..read]);
            }
        }
    }
    Ok(Digests { size, sha256: hex(&sha256.finalize()), git_blob: hex(&sha1.finalize()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of `sha256sum` and `git hash-object`.
    #[test]
    fn checksums_are_those_of_the_usual_tools() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("file");
        std::fs::write(&path, b"hello\n").expect("write");
        let digests = of_file(&path).expect("read");
        assert_eq!(
            digests.sha256,
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
        );
        assert!(
            digests.keeps(&Promise::GitBlob("ce013625030ba8dba906f756967f9e9ca394464a".into()))
        );
        assert!(!digests.keeps(&Promise::Sha256(digests.git_blob.clone())));
        assert_eq!(digests.size, 6);
    }

    #[test]
    fn only_lower_case_hexadecimal_of_the_right_length_is_a_checksum() {
        assert!(is_hex("00ff", 2));
        for text in ["", "00f", "00FF", "00fg", "0x00"] {
            assert!(!is_hex(text, 2), "{text:?}");
        }
    }
}
