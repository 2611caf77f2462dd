//! Many strings in one buffer: vocabularies have hundreds of thousands.

/// An array of strings, which need not be UTF-8, one behind the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    bytes: Vec<u8>,
    /// Where each ends. Headers are far below 4 GiB.
    ends: Vec<u32>,
}

impl Texts {
    /// How many.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// One of them.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start as usize..self.ends[index] as usize]
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|it| self.get(it))
    }

    /// Appends what `fill` appends to the buffer as one string.
    pub(super) fn push_with<E>(
        &mut self,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        fill(&mut self.bytes)?;
        self.ends.push(self.bytes.len() as u32);
        Ok(())
    }

    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}
