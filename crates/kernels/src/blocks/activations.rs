//! Rows of activations on their way into products with blocks: bytes, in blocks as long as those of the weights, with
//! a scale each. Both are those of GGML, and so are then the products, up to the order of sums: what a file answers
//! with llama.cpp it answers here.

use super::layouts::PART;
use crate::dispatch::multiversion;

/// Inputs that share a sum.
const GROUP: usize = 16;

/// f32 elements of a cache line, to which all parts of a row are rounded: the products read whole registers.
const LINE: usize = 16;

/// A quantized row: an activation is its byte times the scale of its block, which is kept for every 32.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Activations<'a> {
    /// Bytes, zeros up to a multiple of 64.
    pub(crate) bytes: &'a [i8],
    /// A scale for every 32.
    pub(crate) scales: &'a [f32],
    /// Sums of every 16, scaled.
    pub(crate) sums: &'a [f32],
    /// Sums of every 16 bytes.
    pub(crate) totals: &'a [i16],
}

/// f32 elements of the parts of a row: bytes, scales, sums, totals. Inputs are a multiple of 32.
fn parts(inputs: usize) -> [usize; 4] {
    let line = |elements: usize| elements.next_multiple_of(LINE);
    [line(inputs / 4), line(inputs / PART), line(inputs / GROUP), line(inputs / GROUP / 2)]
}

/// f32 elements that a quantized row takes.
pub(crate) fn row_len(inputs: usize) -> usize {
    parts(inputs).iter().sum()
}

impl<'a> Activations<'a> {
    /// A row that [`quantize`] has written.
    pub(crate) fn view(memory: &'a [f32], inputs: usize) -> Activations<'a> {
        let [bytes, scales, sums, totals] = parts(inputs);
        let (bytes, rest) = memory.split_at(bytes);
        let (scales, rest) = rest.split_at(scales);
        let (sums, rest) = rest.split_at(sums);
        // SAFETY: any f32 is four bytes, and two halves of them.
        let ((_, bytes, _), (_, totals, _)) =
            unsafe { (bytes.align_to(), rest[..totals].align_to()) };
        Activations { bytes, scales, sums, totals }
    }
}

/// Quantizes a row into `memory` of [`row_len`] elements, in blocks of `block`, 32 or 256, which its length is a
/// multiple of. A block that holds a number that is not finite gets NaN as its scale: what is made of it is NaN.
pub(crate) fn quantize(row: &[f32], block: usize, memory: &mut [f32]) {
    assert!(row.len().is_multiple_of(block), "{} are not whole blocks of {block}", row.len());
    let [bytes, scales, sums, totals] = parts(row.len());
    let (bytes, rest) = memory.split_at_mut(bytes);
    let (scales, rest) = rest.split_at_mut(scales);
    let (sums, rest) = rest.split_at_mut(sums);
    // SAFETY: any f32 is four bytes, and two halves of them.
    let ((_, bytes, _), (_, totals, _)) =
        unsafe { (bytes.align_to_mut::<i8>(), rest[..totals].align_to_mut::<i16>()) };
    bytes[row.len()..].fill(0);
    scales[row.len() / PART..].fill(0.0);
    sums[row.len() / GROUP..].fill(0.0);
    totals[row.len() / GROUP..].fill(0);
    quantize_blocks(row, block, bytes, scales, sums, totals);
}

multiversion! {
    fn quantize_blocks(
        row: &[f32], block: usize, bytes: &mut [i8], scales: &mut [f32], sums: &mut [f32], totals: &mut [i16],
    ) {
        let blocks = row.chunks_exact(block).zip(bytes.chunks_exact_mut(block));
        let sums = sums.chunks_mut(block / GROUP).zip(totals.chunks_mut(block / GROUP));
        let scales = scales.chunks_mut(block / PART).zip(sums);
        for ((values, bytes), (scales, (sums, totals))) in blocks.zip(scales) {
            let mut top = 0;
            for value in values {
                top = top.max(value.to_bits() & 0x7fff_ffff);
            }
            let (scale, inverse) = scale_of(top, block == PART);
            scales.fill(scale);
            // Adding 1.5 · 2²³ rounds to the nearest integer and leaves it in the lowest bits.
            const ROUND: f32 = 12_582_912.0;
            for (byte, value) in bytes.iter_mut().zip(values) {
                *byte = (value * inverse + ROUND).to_bits() as u8 as i8;
            }
            let sums = sums.iter_mut().zip(totals);
            for ((sum, place), bytes) in sums.zip(bytes.as_chunks::<GROUP>().0) {
                let mut total = 0i16;
                for &byte in bytes {
                    total += i16::from(byte);
                }
                *place = total;
                *sum = f32::from(total) * scale;
            }
        }
    }
}

/// Scale of a block and what its values are multiplied with, from the bits of its largest magnitude. Magnitudes of
/// numbers are ordered as their bits are, NaN above infinity. The small blocks of GGML keep their scale `in_half`
/// precision; one that would not be a normal number there stays as it is.
#[inline(always)]
fn scale_of(top: u32, in_half: bool) -> (f32, f32) {
    const LARGEST: f32 = 127.0;
    let top = if top < f32::INFINITY.to_bits() { f32::from_bits(top) } else { f32::NAN };
    let scale = top / LARGEST;
    // Blocks so small that the quotient would be infinite count as zeros, and so do those that are no numbers.
    let inverse = if scale >= f32::MIN_POSITIVE { LARGEST / top } else { 0.0 };
    // Powers of two: the smallest normal half, and one that all halves are below.
    if in_half && (6.103_515_6e-5..32_768.0).contains(&scale) {
        // To the nearest of 11 bits, ties to even.
        let bits = scale.to_bits();
        (f32::from_bits((bits + 0xfff + (bits >> 13 & 1)) & !0x1fff), inverse)
    } else {
        (scale, inverse)
    }
}

#[cfg(test)]
mod tests {
    use half::f16;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_version_quantizes_by_the_definition(
            large in any::<bool>(), count in 1usize..5, seed in prop::collection::vec(-4f32..4.0, 83),
            size in -40i32..40, wrong in 0usize..6,
        ) {
            let block = if large { 256 } else { PART };
            let inputs = count * block;
            let size = f32::powi(2.0, size);
            let mut row: Vec<f32> = (0..inputs).map(|i| seed[(i * 7 + i / 11) % 83] * size).collect();
            match wrong {
                0 => row[3] = f32::NAN,
                1 => row[4] = f32::NEG_INFINITY,
                2 => row[..block].fill(0.0),
                3 => row[..block].fill(1e-44),
                _ => {}
            }
            let mut memory = vec![f32::NAN; row_len(inputs)];
            quantize(&row, block, &mut memory);
            let it = Activations::view(&memory, inputs);
            prop_assert!(it.bytes.len().is_multiple_of(64) && it.bytes[inputs..].iter().all(|&it| it == 0));
            let (scales, sums) = (inputs / PART, inputs / GROUP);
            prop_assert!(it.scales[scales..].iter().chain(&it.sums[sums..]).all(|&it| it == 0.0));
            prop_assert!(it.totals[sums..].iter().all(|&it| it == 0));
            for (number, values) in row.chunks(block).enumerate() {
                let scales = &it.scales[number * block / PART..][..block / PART];
                let sums = &it.sums[number * block / GROUP..][..block / GROUP];
                let (bytes, scale) = (&it.bytes[number * block..][..block], scales[0]);
                if values.iter().any(|it| !it.is_finite()) {
                    prop_assert!(scales.iter().chain(sums).all(|it| it.is_nan()));
                    continue;
                }
                prop_assert!(scales.iter().all(|&it| it == scale));
                let top = values.iter().fold(0f32, |top, it| top.max(it.abs()));
                let exact = top / 127.0;
                let normal = (f16::MIN_POSITIVE.to_f32()..32_768.0).contains(&exact);
                let expected = if !large && normal { f16::from_f32(exact).to_f32() } else { exact };
                prop_assert_eq!(scale, expected);
                // Of the largest magnitude, what the scale lost counts 127 times.
                let step = if scale < f32::MIN_POSITIVE { 127.0 } else { 0.501 + 127.0 / 2048.0 };
                for (&byte, &value) in bytes.iter().zip(values) {
                    let near = f32::from(byte) * scale;
                    prop_assert!((near - value).abs() <= scale * step + 1e-44);
                }
                let totals = &it.totals[number * block / GROUP..];
                for ((bytes, &sum), &total) in bytes.chunks(GROUP).zip(sums).zip(totals) {
                    let expected: i16 = bytes.iter().map(|&it| i16::from(it)).sum();
                    prop_assert_eq!(total, expected);
                    prop_assert_eq!(sum, f32::from(expected) * scale);
                }
            }
            for version in quantize_blocks::versions() {
                let mut bytes = vec![0; inputs];
                let (mut scales, mut sums, mut totals) = (vec![0.0; scales], vec![0.0; sums], vec![0; sums]);
                version(&row, block, &mut bytes, &mut scales, &mut sums, &mut totals);
                prop_assert_eq!(&bytes, &it.bytes[..inputs]);
            }
        }
    }
}
