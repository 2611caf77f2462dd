//! Pictures in files, as whoever opens a file shows them.

use riddle_types::Location;

/// A picture of a document: its number, its bytes, and where it stands.
pub(crate) type See<'a> = &'a mut dyn FnMut(u32, &[u8], &Location);

/// Most bytes of pictures in one file that are looked at: one that is shown a hundred times counts as a hundred.
pub(crate) const MOST_SHOWN: u64 = 128 << 20;
