//! Names of nodes, made of all that their bytes depend on.

use std::fmt;

/// Raised with every change of the files' layout.
pub(crate) const FORMAT: u32 = 1;

/// A node's name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub(crate) [u8; 32]);

impl Key {
    /// The key of a tree of prompts: over the model and everything else that decides what its tokens leave behind.
    pub fn root(parts: &[&[u8]]) -> Key {
        let mut hash = blake3::Hasher::new();
        hash.update(b"root");
        hash.update(&FORMAT.to_le_bytes());
        for part in parts {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Key(*hash.finalize().as_bytes())
    }

    /// The key of a segment of these tokens behind this one.
    #[must_use]
    pub fn child(&self, tokens: &[u32]) -> Key {
        let mut hash = blake3::Hasher::new();
        hash.update(b"node");
        hash.update(&self.0);
        for token in tokens {
            hash.update(&token.to_le_bytes());
        }
        Key(*hash.finalize().as_bytes())
    }

    /// Its bytes, by which it is known elsewhere.
    pub fn to_bytes(self) -> [u8; 32] {
        self.0
    }

    /// As part of a file's name.
    pub(crate) fn name(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// The key of that name.
    pub(crate) fn parse(name: &str) -> Option<Key> {
        Some(Key(*blake3::Hash::from_hex(name).ok()?.as_bytes()))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", &self.name()[..12])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_path_and_nothing_else() {
        let root = Key::root(&[b"model", b"avx512"]);
        assert_ne!(root, Key::root(&[b"modela", b"vx512"]));
        assert_eq!(root.child(&[1, 2]), Key::root(&[b"model", b"avx512"]).child(&[1, 2]));
        assert_ne!(root.child(&[1, 2]), root.child(&[1]).child(&[2]));
        assert_ne!(root.child(&[1]).child(&[2]), root.child(&[2]).child(&[1]));
        assert_eq!(Key::parse(&root.name()), Some(root));
        assert_eq!(Key::parse("no key"), None);
    }
}
