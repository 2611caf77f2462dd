//! Node numbers, in a file or in memory.

use std::{
    ops::{Deref, Range},
    sync::Arc,
};

use crate::mapped::Mapped;

/// Numbers that lie in a mapped file until they are changed.
#[derive(Debug)]
pub(crate) enum Words {
    /// In memory.
    Owned(Vec<u32>),
    /// In a file, from which byte to which.
    Mapped(Arc<Mapped>, Range<usize>),
}

impl Default for Words {
    fn default() -> Words {
        Words::Owned(Vec::new())
    }
}

impl Words {
    /// Those numbers of a file that begins with numbers; `None` where it does not have them.
    pub(super) fn of(file: &Arc<Mapped>, range: Range<usize>) -> Option<Words> {
        let bytes = range.start * 4..range.end * 4;
        let own = file.bytes().get(bytes.clone())?;
        // A file is little-endian, and its pages begin at addresses that numbers may have.
        if cfg!(target_endian = "little") && bytemuck::try_cast_slice::<u8, u32>(own).is_ok() {
            return Some(Words::Mapped(Arc::clone(file), bytes));
        }
        let number = |it: &[u8]| u32::from_le_bytes([it[0], it[1], it[2], it[3]]);
        Some(Words::Owned(own.chunks_exact(4).map(number).collect()))
    }

    /// The file that they lie in.
    pub(super) fn file(&self) -> Option<&Mapped> {
        match self {
            Words::Owned(_) => None,
            Words::Mapped(file, _) => Some(file),
        }
    }

    /// The numbers in memory, to be changed.
    pub(super) fn to_mut(&mut self) -> &mut Vec<u32> {
        if let Words::Mapped(..) = self {
            *self = Words::Owned(self.to_vec());
        }
        match self {
            Words::Owned(words) => words,
            Words::Mapped(..) => unreachable!("they are in memory now: this is a bug"),
        }
    }

    /// Appends `value` that often.
    pub(super) fn extend_with(&mut self, count: usize, value: u32) {
        let words = self.to_mut();
        words.resize(words.len() + count, value);
    }
}

impl Deref for Words {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        match self {
            Words::Owned(words) => words,
            Words::Mapped(file, bytes) => bytemuck::cast_slice(&file.bytes()[bytes.clone()]),
        }
    }
}
