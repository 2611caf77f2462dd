//! Memory for activations.

/// `len` zeros, in huge pages where there are enough of them and the system has such pages to give.
///
/// Memory of a request is new to the process every time, and every page of it costs an interruption when it is first
/// written: seventeen megabytes of hidden states and scratch are over four thousand small pages, and nine huge ones.
pub fn zeros(len: usize) -> Vec<f32> {
    // Zeros that the allocator asks the system for are not written yet, so the advice comes in time.
    let mut memory = vec![0.0; len];
    system::advise(&mut memory);
    memory
}

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    /// A huge page of x86-64, and of 64-bit ARM with pages of 4 KiB.
    const HUGE_PAGE: usize = 2 << 20;

    /// A small page of these; on a system of larger ones the advice is not taken.
    const PAGE: usize = 4 << 10;

    /// Asks for huge pages where they fit into `memory`.
    pub(super) fn advise(memory: &mut [f32]) {
        let bytes = size_of_val(memory);
        if bytes < HUGE_PAGE {
            return;
        }
        let start = memory.as_mut_ptr().cast::<u8>();
        // A long piece of memory begins some bytes into its first page, behind the allocator's own. The advice begins
        // at that page: without it the first huge page would be lost.
        let before = start.addr() % PAGE;
        let inside = (before + bytes) / PAGE * PAGE;
        // SAFETY: the advice changes no byte, here or in front of the memory in its first page. That it is not taken
        // is no error.
        unsafe { libc::madvise(start.wrapping_sub(before).cast(), inside, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod system {
    /// Elsewhere the system chooses the pages by itself.
    pub(super) fn advise(_: &mut [f32]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_zero_and_can_be_written_and_shortened() {
        for len in [0, 1, 1_000, (2 << 20) / 4, (7 << 20) / 4 + 1] {
            let mut memory = zeros(len);
            assert_eq!(memory.len(), len);
            assert!(memory.iter().all(|&it| it == 0.0));
            memory.fill(1.0);
            memory.truncate(len / 3);
            memory.shrink_to_fit();
            assert!(memory.iter().all(|&it| it == 1.0));
        }
    }
}
