//! Memory for weights, aligned for vector loads and for reads past the page cache.

use std::{num::NonZero, ops::Range, ptr::NonNull};

use riddle_weights::PAGE;

/// Zeroed whole pages that begin at a page: straight from the system, and given back to it when dropped.
struct Pages {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it owns its memory, which is bytes and belongs to no thread.
unsafe impl Send for Pages {}
// SAFETY: as above; shared, it hands out nothing but its address.
unsafe impl Sync for Pages {}

impl Pages {
    fn new(bytes: usize) -> Self {
        let bytes = bytes.next_multiple_of(PAGE);
        let start = match NonZero::new(bytes) {
            Some(bytes) => system::allocate(bytes.get()),
            None => NonNull::without_provenance(NonZero::new(PAGE).expect("a page: this is a bug")),
        };
        Pages { start, bytes }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: `allocate` gave this memory for this length, and nobody has it any more.
            unsafe { system::free(self.start, self.bytes) };
        }
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::{alloc::Layout, ptr::NonNull};

    use riddle_weights::PAGE;

    /// A huge page of x86-64, and of 64-bit ARM with pages of 4 KiB.
    const HUGE_PAGE: usize = 2 << 20;

    /// Anonymous memory, in huge pages where it is long enough for them. A device takes a request in a limited
    /// number of contiguous pieces (254 of a virtual disk), so a read into small scattered pages is many
    /// requests: two threads that read 2 MiB each past the page cache get 1.2 GB/s into pages of 4 KiB, and
    /// 3.4 into huge ones (medians of seven; Linux 6.18, virtual disk). Products that walk over weights miss
    /// fewer translations of addresses, too.
    pub(super) fn allocate(bytes: usize) -> NonNull<u8> {
        let slack = if bytes < HUGE_PAGE { 0 } else { HUGE_PAGE };
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let mapped = bytes.checked_add(slack);
        // SAFETY: a new mapping of no file at no particular address touches no other memory.
        let start = mapped.map_or(libc::MAP_FAILED, |mapped| unsafe {
            libc::mmap(std::ptr::null_mut(), mapped, protection, flags, -1, 0)
        });
        let Some(start) = NonNull::new(start).filter(|_| start != libc::MAP_FAILED) else {
            let layout = Layout::from_size_align(bytes, PAGE);
            std::alloc::handle_alloc_error(layout.unwrap_or(Layout::new::<u8>()));
        };
        let start = start.cast::<u8>();
        if slack == 0 {
            return start;
        }
        let before = start.addr().get().wrapping_neg() % HUGE_PAGE;
        // SAFETY: both ends lie within the new mapping, begin at a page, and are used by nobody. Of what stays in
        // between the advice changes no byte.
        unsafe {
            let kept = start.add(before);
            if before > 0 {
                libc::munmap(start.as_ptr().cast(), before);
            }
            libc::munmap(kept.add(bytes).as_ptr().cast(), slack - before);
            // Where the system has no huge pages to give, small ones do.
            libc::madvise(kept.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE);
            kept
        }
    }

    /// # Safety
    /// `start` came from `allocate` for as many bytes, and nobody uses it any more.
    pub(super) unsafe fn free(start: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller promises that the mapping is there and unused.
        unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::{
        alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
        ptr::NonNull,
    };

    use riddle_weights::PAGE;

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, PAGE).expect("memory for what a file holds: this is a bug")
    }

    pub(super) fn allocate(bytes: usize) -> NonNull<u8> {
        // SAFETY: the length is not zero.
        let start = unsafe { alloc_zeroed(layout(bytes)) };
        NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout(bytes)))
    }

    /// # Safety
    /// `start` came from `allocate` for as many bytes, and nobody uses it any more.
    pub(super) unsafe fn free(start: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller promises that this memory was allocated with this layout and is unused.
        unsafe { dealloc(start.as_ptr(), layout(bytes)) };
    }
}

/// A zeroed buffer of whole pages that begins at a page.
pub(crate) struct AlignedBuffer(Pages);

impl AlignedBuffer {
    pub(crate) fn new(bytes: usize) -> Self {
        AlignedBuffer(Pages::new(bytes))
    }

    /// Whole pages, at least what was asked for.
    pub(crate) fn len(&self) -> usize {
        self.0.bytes
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: the pages are one run of so many initialized bytes, and live as long as `self`; they are
        // written through `&mut self` alone.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr(), self.0.bytes) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`, and the buffer is borrowed mutably; every byte is a valid u8.
        unsafe { std::slice::from_raw_parts_mut(self.0.start.as_ptr(), self.0.bytes) }
    }
}

/// A buffer like [`AlignedBuffer`] that several threads fill at the same time, each a part of its own. Who may
/// touch which part is for its owner to say.
pub(crate) struct SharedBuffer(Pages);

impl SharedBuffer {
    pub(crate) fn new(bytes: usize) -> Self {
        SharedBuffer(Pages::new(bytes))
    }

    /// Whole pages, at least what was asked for.
    pub(crate) fn len(&self) -> usize {
        self.0.bytes
    }

    /// A part to read.
    ///
    /// # Safety
    /// Nobody writes any of it while the slice lives.
    pub(crate) unsafe fn part(&self, part: Range<usize>) -> &[u8] {
        let start = self.checked(&part);
        // SAFETY: the part lies within the pages, which are initialized and live as long as `self`; the
        // caller promises that nobody writes it.
        unsafe { std::slice::from_raw_parts(start, part.len()) }
    }

    /// A part to fill.
    ///
    /// # Safety
    /// Nobody else reads or writes any of it while the slice lives.
    #[expect(clippy::mut_from_ref, reason = "parts of one buffer are filled by several threads")]
    pub(crate) unsafe fn part_mut(&self, part: Range<usize>) -> &mut [u8] {
        let start = self.checked(&part);
        // SAFETY: as in `part`, and the caller promises that this part is nobody else's.
        unsafe { std::slice::from_raw_parts_mut(start, part.len()) }
    }

    fn checked(&self, part: &Range<usize>) -> *mut u8 {
        let Range { start, end } = *part;
        assert!(start <= end && end <= self.len(), "no such part: this is a bug");
        self.0.start.as_ptr().wrapping_add(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_and_at_least_as_long_as_asked() {
        for bytes in [0, 1, 4095, 4096, 4097, 100_000, 2 << 20, (5 << 20) + 1] {
            let mut buffer = AlignedBuffer::new(bytes);
            assert_eq!(buffer.as_mut_slice().len(), bytes.next_multiple_of(PAGE));
            assert!(buffer.as_slice().as_ptr().addr().is_multiple_of(PAGE));
            assert!(buffer.as_slice().iter().all(|&it| it == 0));
        }
    }

    #[test]
    fn threads_fill_parts_of_one_buffer() {
        let buffer = SharedBuffer::new(3 * PAGE - 1);
        assert_eq!(buffer.len(), 3 * PAGE);
        std::thread::scope(|scope| {
            for part in 0..3 {
                let buffer = &buffer;
                scope.spawn(move || {
                    // SAFETY: each thread has a page of its own.
                    let bytes = unsafe { buffer.part_mut(part * PAGE..(part + 1) * PAGE) };
                    assert!(bytes.as_ptr().addr().is_multiple_of(PAGE));
                    bytes.fill(part as u8 + 1);
                });
            }
        });
        // SAFETY: the threads have ended.
        let bytes = unsafe { buffer.part(PAGE - 1..2 * PAGE + 1) };
        assert_eq!((bytes[0], bytes[1], bytes[PAGE], bytes[PAGE + 1]), (1, 2, 2, 3));
    }
}
