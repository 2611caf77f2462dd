//! Memory for one layer's weights, aligned for vector loads and for reads past the page cache.

use riddle_weights::PAGE;

/// A page; the alignment of every buffer, and what its length is rounded up to.
#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; PAGE]);

/// A zeroed buffer of whole pages that begins at a page.
pub(crate) struct AlignedBuffer(Vec<Page>);

impl AlignedBuffer {
    pub(crate) fn new(bytes: usize) -> Self {
        AlignedBuffer(vec![Page([0; PAGE]); bytes.div_ceil(PAGE)])
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: `Page` is repr(C) around [u8; PAGE] and exactly that long, so the pages are one run of
        // PAGE × len bytes, all of them initialized.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * PAGE) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`, and the buffer is borrowed mutably; every byte is a valid u8.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * PAGE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_and_at_least_as_long_as_asked() {
        assert_eq!(size_of::<Page>(), PAGE);
        for bytes in [0, 1, 4095, 4096, 4097, 100_000] {
            let mut buffer = AlignedBuffer::new(bytes);
            assert_eq!(buffer.as_mut_slice().len(), bytes.next_multiple_of(PAGE));
            assert!(buffer.as_slice().as_ptr().addr().is_multiple_of(PAGE));
            assert!(buffer.as_slice().iter().all(|&it| it == 0));
        }
    }
}
