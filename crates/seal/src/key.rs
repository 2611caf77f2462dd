//! Keys, and keys of keys.

use std::{fmt, sync::Arc};

use ring::rand::{SecureRandom as _, SystemRandom};
use zeroize::Zeroizing;

use crate::{Error, Result};

/// 256 random bits. Clones share them; they are overwritten when the last one goes.
#[derive(Clone)]
pub struct Key(Arc<Zeroizing<[u8; 32]>>);

impl Key {
    /// A new one.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn random() -> Result<Key> {
        Ok(Key::new(random()?))
    }

    pub(crate) fn new(bytes: [u8; 32]) -> Key {
        Key(Arc::new(Zeroizing::new(bytes)))
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The key for a purpose: whoever has it knows nothing of this one, nor of those for other purposes (BLAKE3's key
    /// derivation).
    #[must_use]
    pub fn derive(&self, purpose: &str, salt: &[u8]) -> Key {
        let mut hasher = blake3::Hasher::new_derive_key(&format!("riddle 2026-11 {purpose}"));
        hasher.update(self.bytes());
        hasher.update(salt);
        Key::new(*hasher.finalize().as_bytes())
    }

    /// As 64 hexadecimal digits, for a keyring or a database that takes them so.
    pub fn to_hex(&self) -> Zeroizing<String> {
        Zeroizing::new(blake3::Hash::from_bytes(**self.0).to_hex().to_string())
    }

    /// The key of these digits; `None` for anything else.
    pub fn from_hex(text: &str) -> Option<Key> {
        Some(Key::new(*blake3::Hash::from_hex(text.trim()).ok()?.as_bytes()))
    }
}

/// Never the bytes: what is debugged is logged.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Error::System("the system gives no random numbers"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_for_two_purposes_differ_and_show_nothing() {
        let key = Key::random().expect("random");
        assert_ne!(key.derive("a", b"").bytes(), key.derive("b", b"").bytes());
        assert_ne!(key.derive("a", b"1").bytes(), key.derive("a", b"2").bytes());
        assert_eq!(key.derive("a", b"1").bytes(), key.clone().derive("a", b"1").bytes());
        assert_eq!(format!("{key:?}"), "Key");
        let again = Key::from_hex(&key.to_hex()).expect("hexadecimal");
        assert_eq!(again.bytes(), key.bytes());
        assert!(Key::from_hex("00").is_none());
    }
}
