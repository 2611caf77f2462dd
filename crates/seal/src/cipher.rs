//! AES-256-GCM, as ring has it.

use std::io::{Error, ErrorKind, Result};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::{Key, key::random};

/// Bytes that a sealed text is longer: the tag.
pub(crate) const TAG: usize = 16;

/// First bytes of every sealed file.
pub(crate) const MAGIC: [u8; 8] = *b"RIDDLE\x00S";

/// The beginning of a sealed file: magic, kind of file, random number.
pub(crate) const HEADER: usize = 8 + 8 + 16;

/// A file's own key.
#[derive(Debug)]
pub(crate) struct Cipher(LessSafeKey);

impl Cipher {
    /// For the file of that kind and name whose header has this salt.
    fn new(key: &Key, kind: &[u8; 8], name: &str, salt: &[u8]) -> Cipher {
        let own = key.derive("file", &[kind, salt, name.as_bytes()].concat());
        let unbound = UnboundKey::new(&AES_256_GCM, own.bytes())
            .expect("the key is as long as the cipher wants it: anything else is a bug");
        Cipher(LessSafeKey::new(unbound))
    }

    /// A new file's header and key.
    pub(crate) fn create(key: &Key, kind: &[u8; 8], name: &str) -> Result<([u8; HEADER], Cipher)> {
        let salt: [u8; 16] = random().map_err(Error::other)?;
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&MAGIC);
        header[8..16].copy_from_slice(kind);
        header[16..].copy_from_slice(&salt);
        Ok((header, Cipher::new(key, kind, name, &salt)))
    }

    /// The key of the file that begins with `header`.
    pub(crate) fn of_header(
        key: &Key,
        kind: &[u8; 8],
        name: &str,
        header: &[u8],
    ) -> Result<Cipher> {
        if header.len() < HEADER || header[..8] != MAGIC || header[8..16] != *kind {
            return Err(Error::new(ErrorKind::InvalidData, "it is not encrypted as this home is"));
        }
        Ok(Cipher::new(key, kind, name, &header[16..HEADER]))
    }

    /// Seals `bytes` in their place; the tag is appended.
    pub(crate) fn seal(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        self.0
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), bytes)
            .map_err(|_| Error::new(ErrorKind::InvalidInput, "too long to be encrypted at once"))
    }

    /// Opens `bytes`, tag and all, in their place.
    pub(crate) fn open<'a>(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        bytes: &'a mut [u8],
    ) -> Result<&'a mut [u8]> {
        self.0
            .open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(aad), bytes)
            .map_err(|_| damaged())
    }
}

/// What does not open: another key, or other bytes.
pub(crate) fn damaged() -> Error {
    Error::new(ErrorKind::InvalidData, "it is damaged, or encrypted by another key")
}

const WHOLE: [u8; 8] = *b"whole-01";

/// Seals a file's whole content; `name` is what it may be opened as.
///
/// # Errors
/// When the system gives no random numbers.
pub fn seal(key: &Key, name: &str, content: &[u8]) -> Result<Vec<u8>> {
    let (header, cipher) = Cipher::create(key, &WHOLE, name)?;
    let mut bytes = content.to_vec();
    // The key is this file's alone, and is used once.
    cipher.seal([0; NONCE_LEN], &[], &mut bytes)?;
    Ok([&header[..], &bytes].concat())
}

/// What [`seal`] was given.
///
/// # Errors
/// `InvalidData` for bytes that it did not make of this name with this key.
pub fn open(key: &Key, name: &str, sealed: &[u8]) -> Result<Vec<u8>> {
    let cipher = Cipher::of_header(key, &WHOLE, name, sealed)?;
    let mut bytes = sealed[HEADER..].to_vec();
    let length = cipher.open([0; NONCE_LEN], &[], &mut bytes)?.len();
    bytes.truncate(length);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_opens_under_its_name_and_with_no_bit_changed() {
        let key = Key::random().expect("random");
        let sealed = seal(&key, "meta.json", b"content").expect("seals");
        assert!(!sealed.windows(7).any(|it| it == b"content"));
        assert_eq!(open(&key, "meta.json", &sealed).expect("opens"), b"content");
        assert!(open(&key, "other.json", &sealed).is_err());
        assert!(open(&Key::random().expect("random"), "meta.json", &sealed).is_err());
        for at in 0..sealed.len() {
            let mut other = sealed.clone();
            other[at] ^= 1;
            assert!(open(&key, "meta.json", &other).is_err(), "bit {at}");
            assert!(open(&key, "meta.json", &sealed[..at]).is_err(), "cut at {at}");
        }
        assert_ne!(seal(&key, "meta.json", b"content").expect("seals"), sealed);
    }
}
