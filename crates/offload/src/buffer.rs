//! Memory for one layer's weights, aligned for vector loads.

/// A cache line's worth of numbers; the alignment of every buffer.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// A zeroed buffer of f32, aligned to 64 bytes: no vector load of a weight row straddles two lines.
pub(crate) struct AlignedBuffer {
    lines: Vec<Line>,
    elements: usize,
}

impl AlignedBuffer {
    pub(crate) fn new(elements: usize) -> Self {
        AlignedBuffer { lines: vec![Line([0.0; 16]); elements.div_ceil(16)], elements }
    }

    pub(crate) fn as_slice(&self) -> &[f32] {
        // SAFETY: `Line` is repr(C) around [f32; 16] and exactly 64 bytes, so the lines are one run of
        // 16 × len floats, of which `elements` are no more.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.elements) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [f32] {
        // SAFETY: as in `as_slice`, and the buffer is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.elements) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_and_as_long_as_asked() {
        for elements in [0, 1, 15, 16, 17, 1000] {
            let mut buffer = AlignedBuffer::new(elements);
            assert_eq!(buffer.as_mut_slice().len(), elements);
            assert!(buffer.as_slice().as_ptr().addr().is_multiple_of(64));
            assert!(buffer.as_slice().iter().all(|&it| it == 0.0));
        }
    }
}
