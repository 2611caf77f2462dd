//! Files that nobody reads without the key.
//!
//! A home that is encrypted has one random [`Key`]. It lies in a [`KeyFile`], sealed by a passphrase (Argon2id), or in
//! the system's keyring, or both. Everything else is encrypted by keys that are derived from it: the database by its
//! own library, and by this crate
//!
//! - *blocks* ([`BlockWriter`], [`Blocks`]): files that are written once and read anywhere,
//! - *logs* ([`Log`]): files that grow at their end,
//! - *wholes* ([`seal`], [`open`]): small files that are replaced at once.
//!
//! Cipher: AES-256-GCM (ring). Every file has a key of its own, so blocks may be numbered; what was cut off, moved to
//! another place or file, or changed in any bit does not open. Not hidden: how many files there are, their sizes and
//! times. An old state of a whole file opens as it did then.
//!
//! Not here: which files there are, where a passphrase comes from.

mod blocks;
mod cipher;
mod error;
mod key;
mod key_file;
mod log;
mod place;

pub use blocks::{BLOCK, BlockWriter, Blocks, ReadAt};
pub use cipher::{open, seal};
pub use error::{Error, Result};
pub use key::Key;
pub use key_file::{Cost, KEY_FILE, KeyFile};
pub use log::Log;
pub use place::Place;
