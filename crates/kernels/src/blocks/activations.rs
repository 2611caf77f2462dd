//! Rows of activations on their way into products with blocks: bytes with a scale for every 32.

use super::layouts::PART;
use crate::{dispatch::multiversion, quantize::scale_of};

/// Inputs that share a sum.
const GROUP: usize = 16;

/// f32 elements of a cache line, to which all parts of a row are rounded: the products read whole registers.
const LINE: usize = 16;

/// A quantized row: an activation is its byte times the scale of its 32.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Activations<'a> {
    /// Bytes, zeros up to a multiple of 64.
    pub(crate) bytes: &'a [i8],
    /// A scale for every 32.
    pub(crate) scales: &'a [f32],
    /// Sums of every 16, scaled.
    pub(crate) sums: &'a [f32],
}

/// f32 elements of the parts of a row: bytes, scales, sums. Inputs are a multiple of 32.
fn parts(inputs: usize) -> [usize; 3] {
    let line = |elements: usize| elements.next_multiple_of(LINE);
    [line(inputs / 4), line(inputs / PART), line(inputs / GROUP)]
}

/// f32 elements that a quantized row takes.
pub(crate) fn row_len(inputs: usize) -> usize {
    parts(inputs).iter().sum()
}

impl<'a> Activations<'a> {
    /// A row that [`quantize`] has written.
    pub(crate) fn view(memory: &'a [f32], inputs: usize) -> Activations<'a> {
        let [bytes, scales, sums] = parts(inputs);
        let (bytes, rest) = memory.split_at(bytes);
        // SAFETY: any f32 is four bytes.
        let (_, bytes, _) = unsafe { bytes.align_to() };
        Activations { bytes, scales: &rest[..scales], sums: &rest[scales..][..sums] }
    }
}

/// Quantizes a row into `memory` of [`row_len`] elements. A block of 32 that holds a number that is not finite gets
/// NaN as its scale: what is made of it is NaN.
pub(crate) fn quantize(row: &[f32], memory: &mut [f32]) {
    let [bytes, scales, _] = parts(row.len());
    let (bytes, rest) = memory.split_at_mut(bytes);
    let (scales, sums) = rest.split_at_mut(scales);
    // SAFETY: any f32 is four bytes.
    let (_, bytes, _) = unsafe { bytes.align_to_mut::<i8>() };
    bytes[row.len()..].fill(0);
    scales[row.len() / PART..].fill(0.0);
    sums[row.len() / GROUP..].fill(0.0);
    quantize_parts(row, bytes, scales, sums);
}

multiversion! {
    fn quantize_parts(row: &[f32], bytes: &mut [i8], scales: &mut [f32], sums: &mut [f32]) {
        let parts = row.as_chunks::<PART>().0.iter().zip(bytes.as_chunks_mut::<PART>().0);
        let scales = scales.iter_mut().zip(sums.as_chunks_mut::<2>().0);
        for ((values, bytes), (scale, sums)) in parts.zip(scales) {
            let mut top = 0;
            for value in values {
                top = top.max(value.to_bits() & 0x7fff_ffff);
            }
            let (own, inverse) = scale_of(top);
            *scale = own;
            // Adding 1.5 · 2²³ rounds to the nearest integer and leaves it in the lowest bits.
            const ROUND: f32 = 12_582_912.0;
            for (byte, value) in bytes.iter_mut().zip(values) {
                *byte = (value * inverse + ROUND).to_bits() as u8 as i8;
            }
            for (sum, bytes) in sums.iter_mut().zip(bytes.as_chunks::<GROUP>().0) {
                let mut total = 0;
                for &byte in bytes {
                    total += i32::from(byte);
                }
                *sum = total as f32 * own;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_version_quantizes_by_the_definition(
            count in 1usize..12, seed in prop::collection::vec(-4f32..4.0, 83), wrong in 0usize..6,
        ) {
            let inputs = count * PART;
            let mut row: Vec<f32> = (0..inputs).map(|i| seed[(i * 7 + i / 11) % 83]).collect();
            match wrong {
                0 => row[3] = f32::NAN,
                1 => row[4] = f32::NEG_INFINITY,
                2 => row[..PART].fill(0.0),
                3 => row[..PART].fill(1e-44),
                _ => {}
            }
            let mut memory = vec![f32::NAN; row_len(inputs)];
            quantize(&row, &mut memory);
            let it = Activations::view(&memory, inputs);
            prop_assert!(it.bytes.len().is_multiple_of(64) && it.bytes[inputs..].iter().all(|&it| it == 0));
            prop_assert!(it.scales[count..].iter().chain(&it.sums[2 * count..]).all(|&it| it == 0.0));
            for (part, values) in row.chunks(PART).enumerate() {
                let scale = it.scales[part];
                if values.iter().any(|it| !it.is_finite()) {
                    prop_assert!(scale.is_nan() && it.sums[2 * part].is_nan() && it.sums[2 * part + 1].is_nan());
                    continue;
                }
                let step = if scale < f32::MIN_POSITIVE { 127.0 } else { 0.501 };
                for (i, &value) in values.iter().enumerate() {
                    let near = f32::from(it.bytes[part * PART + i]) * scale;
                    prop_assert!((near - value).abs() <= scale * step + 1e-44);
                }
                for half in 0..2 {
                    let bytes = &it.bytes[part * PART + half * GROUP..][..GROUP];
                    let sum: i32 = bytes.iter().map(|&it| i32::from(it)).sum();
                    prop_assert_eq!(it.sums[2 * part + half], sum as f32 * scale);
                }
            }
            for version in quantize_parts::versions() {
                let mut bytes = vec![0; inputs];
                let (mut scales, mut sums) = (vec![0.0; count], vec![0.0; 2 * count]);
                version(&row, &mut bytes, &mut scales, &mut sums);
                prop_assert_eq!(&bytes, &it.bytes[..inputs]);
            }
        }
    }
}
