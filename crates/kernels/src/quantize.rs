//! Rows of activations on their way into products: bytes with a scale each, or bf16.

use crate::{dispatch::multiversion, int8::LARGEST};

/// Quantizes rows of `inputs` elements to bytes, one scale for each row: `out` `[rows][stride]` bytes, those
/// from `inputs` on zeros; a value is its byte times the scale. `flip` is 0, or 0x80 for bytes plus 128.
///
/// A row that holds a number that is not finite gets NaN as its scale: what is made of it is NaN.
pub(crate) fn quantize_rows(
    x: &[f32],
    inputs: usize,
    flip: u8,
    stride: usize,
    out: &mut [u8],
    scales: &mut [f32],
) {
    #[cfg(target_arch = "x86_64")]
    if crate::dispatch::has_avx512() {
        let rows = x.chunks_exact(inputs).zip(out.chunks_exact_mut(stride));
        for ((row, out), scale) in rows.zip(scales) {
            // SAFETY: the processor has AVX-512 F, BW and VL; the row is inputs long and out no shorter.
            *scale = unsafe { crate::x86::quantize_row(row, flip, out) };
            out[inputs..].fill(flip);
        }
        return;
    }
    portable_rows(x, inputs, flip, stride, out, scales);
}

multiversion! {
    /// As [`quantize_rows`], each byte widened to an i16; `stride` is counted in those.
    pub(crate) fn quantize_pairs(x: &[f32], inputs: usize, stride: usize, out: &mut [i16], scales: &mut [f32]) {
        let rows = x.chunks_exact(inputs).zip(out.chunks_exact_mut(stride));
        for ((row, out), scale) in rows.zip(scales) {
            let (own, inverse) = scale_of(largest_bits(row));
            *scale = own;
            for (number, value) in out.iter_mut().zip(row) {
                *number = nearest(value * inverse) as u8 as i8 as i16;
            }
            out[inputs..].fill(0);
        }
    }
}

/// The nearest integer in the lowest bits: adding 1.5 · 2²³ rounds to it.
#[inline(always)]
fn nearest(value: f32) -> u32 {
    const ROUND: f32 = 12_582_912.0;
    (value + ROUND).to_bits()
}

/// Scale of a row and its inverse, from the bits of its largest magnitude. Magnitudes of numbers are ordered as
/// their bits are, NaN above infinity.
#[inline(always)]
pub(crate) fn scale_of(top: u32) -> (f32, f32) {
    let top = if top < f32::INFINITY.to_bits() { f32::from_bits(top) } else { f32::NAN };
    let scale = top / LARGEST;
    // Rows so small that the quotient would be infinite count as zeros, and so do those that are no numbers.
    let inverse = if scale >= f32::MIN_POSITIVE { 1.0 / scale } else { 0.0 };
    (scale, inverse)
}

multiversion! {
    fn portable_rows(x: &[f32], inputs: usize, flip: u8, stride: usize, out: &mut [u8], scales: &mut [f32]) {
        let rows = x.chunks_exact(inputs).zip(out.chunks_exact_mut(stride));
        for ((row, out), scale) in rows.zip(scales) {
            let (own, inverse) = scale_of(largest_bits(row));
            *scale = own;
            for (byte, value) in out.iter_mut().zip(row) {
                *byte = nearest(value * inverse) as u8 ^ flip;
            }
            out[inputs..].fill(flip);
        }
    }
}

/// The bits of the largest magnitude.
#[inline(always)]
fn largest_bits(row: &[f32]) -> u32 {
    const LANES: usize = 64;
    let bits = |it: &f32| it.to_bits() & 0x7fff_ffff;
    let mut lanes = [0u32; LANES];
    let (chunks, rest) = row.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = (*lane).max(bits(value));
        }
    }
    let rest = rest.iter().fold(0, |top, it| bits(it).max(top));
    lanes.into_iter().fold(rest, u32::max)
}

/// The nearest bf16, ties to even; NaN stays NaN.
#[inline(always)]
pub(crate) fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    let quiet = bits | 0x0040_0000;
    let chosen = if bits & 0x7fff_ffff > 0x7f80_0000 { quiet } else { rounded };
    (chosen >> 16) as u16
}

#[cfg(test)]
mod tests {
    use half::bf16;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_version_quantizes_by_the_definition(
            rows in 1usize..5, inputs in 1usize..200, seed in prop::collection::vec(-4f32..4.0, 83), wrong in 0usize..9,
        ) {
            let mut x: Vec<f32> = (0..rows * inputs).map(|i| seed[(i * 7 + i / 11) % 83]).collect();
            match wrong {
                0 => x[0] = f32::NAN,
                1 => x[0] = f32::NEG_INFINITY,
                2 => x[..inputs].fill(0.0),
                3 => x[..inputs].fill(1e-44),
                _ => {}
            }
            let stride = inputs.next_multiple_of(4);
            let mut versions = portable_rows::versions();
            versions.push(quantize_rows);
            for version in versions {
                for flip in [0, 0x80] {
                    let (mut out, mut scales) = (vec![1; rows * stride], vec![9.0; rows]);
                    version(&x, inputs, flip, stride, &mut out, &mut scales);
                    for (row, (out, &scale)) in x.chunks(inputs).zip(out.chunks(stride).zip(&scales)) {
                        prop_assert!(out[inputs..].iter().all(|&it| it == flip));
                        if row.iter().any(|it| !it.is_finite()) {
                            prop_assert!(scale.is_nan());
                            continue;
                        }
                        let top = row.iter().fold(0f32, |top, it| top.max(it.abs()));
                        prop_assert_eq!(scale, top / LARGEST);
                        for (&value, &byte) in row.iter().zip(out) {
                            let byte = (byte ^ flip) as i8;
                            prop_assert!(byte >= -127);
                            // Rows too small to be divided are zeros.
                            let step = if scale < f32::MIN_POSITIVE { 127.0 } else { 0.501 };
                            prop_assert!((f32::from(byte) * scale - value).abs() <= scale * step + 1e-44);
                        }
                    }
                }
            }
        }

        #[test]
        fn pairs_are_the_bytes_widened(
            inputs in 1usize..200, seed in prop::collection::vec(-4f32..4.0, 83), wrong in any::<bool>(),
        ) {
            let mut x: Vec<f32> = (0..2 * inputs).map(|i| seed[(i * 7 + i / 11) % 83]).collect();
            if wrong {
                x[0] = f32::INFINITY;
            }
            let stride = inputs.next_multiple_of(4);
            let (mut bytes, mut expected) = (vec![1; 2 * stride], [9.0; 2]);
            quantize_rows(&x, inputs, 0, stride, &mut bytes, &mut expected);
            for version in quantize_pairs::versions() {
                let (mut pairs, mut scales) = (vec![1; 2 * stride], [9.0; 2]);
                version(&x, inputs, stride, &mut pairs, &mut scales);
                prop_assert_eq!(scales.map(f32::to_bits), expected.map(f32::to_bits));
                let first = if wrong { stride } else { 0 };
                for (&pair, &byte) in pairs[first..].iter().zip(&bytes[first..]) {
                    prop_assert_eq!(pair, i16::from(byte as i8));
                }
            }
        }

        #[test]
        fn bf16_rounds_as_the_library_does(value in any::<f32>()) {
            prop_assert_eq!(to_bf16(value).to_le_bytes(), bf16::from_f32(value).to_bits().to_le_bytes());
        }
    }
}
