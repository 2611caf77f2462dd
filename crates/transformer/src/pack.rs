//! The layout of packed weights: what `weights` stores as bytes and `kernels` multiplies.

use riddle_kernels::{int8_bytes, pack_int8, pack_int8_as_it_is, pack_q4, q4_bytes};
use riddle_weights::{Format, Pack};

/// Packs as the products read.
#[derive(Debug, Clone, Copy, Default)]
pub enum KernelLayout {
    /// Bytes that AVX2 multiplies half as fast again, a little further from the numbers that they stand for.
    #[default]
    Light,
    /// Bytes as near to the numbers as can be: for embedders, to whose cosines much else is fitted.
    Near,
}

impl Pack for KernelLayout {
    fn packed_bytes(&self, format: Format, outputs: usize, inputs: usize) -> Option<usize> {
        match format {
            Format::Int8 => int8_bytes(outputs, inputs).ok(),
            Format::Q4 => q4_bytes(outputs, inputs).ok(),
            Format::Plain(_) | Format::Rows => None,
        }
    }

    fn pack(&self, format: Format, values: &[f32], outputs: usize, inputs: usize, out: &mut [u8]) {
        let packed = match format {
            Format::Q4 => pack_q4(values, outputs, inputs, out),
            _ if matches!(self, KernelLayout::Near) => {
                pack_int8_as_it_is(values, outputs, inputs, out)
            }
            _ => pack_int8(values, outputs, inputs, out),
        };
        packed.expect("the caller asked how long it is: this is a bug");
    }
}
