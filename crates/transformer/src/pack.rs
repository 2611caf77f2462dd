//! The layout of packed weights: what `weights` stores as bytes and `kernels` multiplies.

use riddle_kernels::{int8_bytes, pack_int8, pack_q4, q4_bytes};
use riddle_weights::{Format, Pack};

/// Packs as the products read.
#[derive(Debug, Clone, Copy)]
pub struct KernelLayout;

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
            _ => pack_int8(values, outputs, inputs, out),
        };
        packed.expect("the caller asked how long it is: this is a bug");
    }
}
