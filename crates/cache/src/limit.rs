//! How much may be kept.

use std::path::Path;

/// Bytes that are kept unless somebody says otherwise: some 350 passages of a model with 1.5 billion weights.
pub const DEFAULT_LIMIT: u64 = 2 << 30;

/// Parts of the free disk of which no more than one is taken.
const SHARE: u64 = 10;

/// Bytes that a store may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// At most so many; 0: nothing is kept.
    pub bytes: u64,
    /// And never more than a tenth of what would be free without them.
    pub share_of_free: bool,
}

impl Default for Limit {
    fn default() -> Limit {
        Limit { bytes: DEFAULT_LIMIT, share_of_free: true }
    }
}

impl Limit {
    /// Exactly so many bytes, however full the disk is.
    pub fn exactly(bytes: u64) -> Limit {
        Limit { bytes, share_of_free: false }
    }

    /// Bytes that may be taken in a folder where `held` are.
    pub(crate) fn now(self, dir: &Path, held: u64) -> u64 {
        if !self.share_of_free || self.bytes == 0 {
            return self.bytes;
        }
        let there = dir.ancestors().find(|it| it.is_dir()).unwrap_or(dir);
        match fs4::available_space(there) {
            Ok(free) => self.bytes.min((free + held) / SHARE),
            // A system that does not tell has not said that it is full.
            Err(_) => self.bytes,
        }
    }
}
