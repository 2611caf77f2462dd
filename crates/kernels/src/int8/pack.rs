//! Quantizing and packing weights, when a model is converted.

use super::{BLOCK, LARGEST, MOST_INPUTS, QUAD};
use crate::{
    PackedError,
    steps::{MOST_WEIGHT, meeting},
};

/// Bytes of a packed matrix `[outputs, inputs]`.
///
/// # Errors
/// [`PackedError::Size`] when sums of its products would not fit 32 bits, or its bytes no memory.
pub fn int8_bytes(outputs: usize, inputs: usize) -> Result<usize, PackedError> {
    let size = || {
        let rows = outputs.checked_next_multiple_of(BLOCK)?;
        let row = size_of::<f32>() + size_of::<i32>() + inputs.checked_next_multiple_of(QUAD)?;
        rows.checked_mul(row)
    };
    match size() {
        Some(bytes) if inputs <= MOST_INPUTS => Ok(bytes),
        _ => Err(PackedError::Size { outputs, inputs }),
    }
}

/// Quantizes and packs `weights` `[outputs, inputs]` row by row into `out` of [`int8_bytes`] bytes, laid out as
/// [`Int8Matrix`](super::Int8Matrix) reads it.
///
/// An output's scale is the one of a few around its largest magnitude / 127 that loses least, by the sum of squared
/// errors: cutting an outlier a little makes all others finer. Weights that meet in 16 bits are left light enough for
/// them (see `steps.rs`): where rows have no outliers, that takes up to a bit. A weight that is not finite counts as 0.
///
/// # Errors
/// [`PackedError`] when `out` has another length or the matrix is too large.
///
/// # Panics
/// When `weights` are not `outputs × inputs`: the caller's bug.
pub fn pack_int8(
    weights: &[f32],
    outputs: usize,
    inputs: usize,
    out: &mut [u8],
) -> Result<(), PackedError> {
    pack(weights, (outputs, inputs), quantize_light, out)
}

/// As [`pack_int8`], but weights that meet may be too heavy for 16 bits, which AVX2 then adds in 32. For matrices whose
/// rows were bytes already and are packed whenever a model is opened: it takes one pass over them and loses nothing,
/// where leaving them light would take a dozen.
///
/// # Errors
/// As there.
///
/// # Panics
/// As there.
pub fn pack_int8_as_it_is(
    weights: &[f32],
    outputs: usize,
    inputs: usize,
    out: &mut [u8],
) -> Result<(), PackedError> {
    pack(weights, (outputs, inputs), quantize_all, out)
}

/// Quantizes a row by a scale, and returns the squared error.
type Quantize = fn(&[f32], f32, &mut [i8]) -> f64;

fn pack(
    weights: &[f32],
    (outputs, inputs): (usize, usize),
    by: Quantize,
    out: &mut [u8],
) -> Result<(), PackedError> {
    assert_eq!(weights.len(), outputs * inputs, "weights are not {outputs} × {inputs}");
    let expected = int8_bytes(outputs, inputs)?;
    if out.len() != expected {
        return Err(PackedError::Length { outputs, inputs, expected, actual: out.len() });
    }
    out.fill(0);
    let rows = outputs.next_multiple_of(BLOCK);
    let (scales, rest) = out.split_at_mut(rows * size_of::<f32>());
    let (sums, blocks) = rest.split_at_mut(rows * size_of::<i32>());
    let quads = inputs.div_ceil(QUAD);
    let mut bytes = vec![0; inputs];
    for output in 0..outputs {
        let row = &weights[output * inputs..][..inputs];
        let scale = quantize_row(row, by, &mut bytes);
        let mut sum = 0i32;
        for (input, &byte) in bytes.iter().enumerate() {
            sum += i32::from(byte);
            let quad = (output / BLOCK * quads + input / QUAD) * BLOCK + output % BLOCK;
            blocks[quad * QUAD + input % QUAD] = byte as u8;
        }
        scales[output * 4..][..4].copy_from_slice(&scale.to_le_bytes());
        sums[output * 4..][..4].copy_from_slice(&sum.to_le_bytes());
    }
    Ok(())
}

/// Quantizes a row by the scale, of a few, with the least squared error, which is returned.
fn quantize_row(row: &[f32], by: Quantize, bytes: &mut [i8]) -> f32 {
    let largest =
        row.iter().filter(|it| it.is_finite()).fold(0f32, |top, it| top.max(it.abs())) / LARGEST;
    if largest < f32::MIN_POSITIVE {
        // A row of zeros, or of numbers so small that dividing by their scale would be infinite.
        bytes.fill(0);
        return 0.0;
    }
    // Below 0.8 the cut ones cost more than the others gain, for all that is shaped like a bell. Above 1 less is taken
    // from weights that would be too heavy together; at 4 they never are.
    const SHARES: [f32; 12] = [0.95, 0.9, 0.85, 0.8, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.75, 4.0];
    let whole = by(row, largest, bytes);
    // Nothing is lost: the row was bytes before, as tables of a store are, and no other scale can do better.
    let rounding = f64::from(largest) * 1e-5;
    if whole <= row.len() as f64 * rounding * rounding {
        return largest;
    }
    let mut best = (whole, largest);
    for scale in SHARES.map(|share| largest * share) {
        let error = by(row, scale, bytes);
        if error < best.0 {
            best = (error, scale);
        }
    }
    by(row, best.1, bytes);
    best.1
}

/// Quantizes a row as near as its scale allows.
fn quantize_all(row: &[f32], scale: f32, bytes: &mut [i8]) -> f64 {
    for (byte, &weight) in bytes.iter_mut().zip(row) {
        *byte = quantize(weight, scale);
    }
    squared_error(row, scale, bytes)
}

/// Quantizes a row, and takes from what is too heavy together.
fn quantize_light(row: &[f32], scale: f32, bytes: &mut [i8]) -> f64 {
    for (byte, &weight) in bytes.iter_mut().zip(row) {
        *byte = quantize(weight, scale);
    }
    for (bytes, row) in bytes.chunks_mut(2 * QUAD).zip(row.chunks(2 * QUAD)) {
        for pair in 0..2 {
            lighten(bytes, row, scale, pair);
        }
    }
    squared_error(row, scale, bytes)
}

fn squared_error(row: &[f32], scale: f32, bytes: &[i8]) -> f64 {
    let squared = |(&byte, &weight): (&i8, &f32)| {
        let loss = f64::from(weight) - f64::from(byte) * f64::from(scale);
        loss * loss
    };
    bytes.iter().zip(row).filter(|it| it.1.is_finite()).map(squared).sum()
}

/// Takes from those of a step that meet in 16 bits and are too heavy together, one by one from the one that is nearest
/// to its weight, or above it: so the squared error stays least.
fn lighten(bytes: &mut [i8], row: &[f32], scale: f32, pair: usize) {
    for sign in [1i8, -1] {
        let of = |byte: i8| (i16::from(byte) * i16::from(sign)).max(0);
        let weight: i16 = meeting(bytes.len(), pair).map(|it| of(bytes[it])).sum();
        for _ in MOST_WEIGHT..weight {
            let above = |it: usize| f32::from(of(bytes[it])) - f32::from(sign) * row[it] / scale;
            let own = meeting(bytes.len(), pair).filter(|&it| of(bytes[it]) > 0);
            let nearest = own.max_by(|&a, &b| above(a).total_cmp(&above(b)));
            if let Some(nearest) = nearest {
                bytes[nearest] -= sign;
            }
        }
    }
}

fn quantize(weight: f32, scale: f32) -> i8 {
    if scale == 0.0 || !weight.is_finite() {
        return 0;
    }
    // Adding 1.5 · 2²³ rounds to the nearest integer, ties to even, without a call into the library.
    const ROUND: f32 = 12_582_912.0;
    let rounded = (weight / scale).clamp(-LARGEST, LARGEST) + ROUND - ROUND;
    rounded as i8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Int8Matrix, steps};

    /// Bytes at an address that is a multiple of four.
    fn aligned(bytes: usize) -> Vec<f32> {
        vec![0.0; bytes.div_ceil(4)]
    }

    fn bytes_of(memory: &mut [f32], bytes: usize) -> &mut [u8] {
        // SAFETY: any bytes are f32 and the other way round.
        let (_, all, _) = unsafe { memory.align_to_mut::<u8>() };
        &mut all[..bytes]
    }

    proptest! {
        #[test]
        fn packed_weights_are_near_and_light(
            outputs in 1usize..40, inputs in 1usize..50, seed in prop::collection::vec(-1f32..1.0, 71),
        ) {
            let weights: Vec<f32> = (0..outputs * inputs).map(|i| seed[(i * 5 + i / 9) % 71]).collect();
            let size = int8_bytes(outputs, inputs).expect("small");
            let mut memory = aligned(size);
            pack_int8(&weights, outputs, inputs, bytes_of(&mut memory, size)).expect("fits");
            let bytes = bytes_of(&mut memory, size);
            let matrix = Int8Matrix::new(bytes, outputs, inputs).expect("just packed");
            for output in 0..outputs {
                let row = &weights[output * inputs..][..inputs];
                let scale = matrix.scales()[output];
                let top = row.iter().fold(0f32, |top, it| top.max(it.abs()));
                let (mut sum, mut error) = (0, 0f64);
                for (input, &weight) in row.iter().enumerate() {
                    let kept = matrix.get(output, input);
                    sum += (kept / scale.max(f32::MIN_POSITIVE)).round() as i32;
                    error += f64::from(kept - weight).powi(2);
                }
                // With a step of four the heaviest are light enough.
                let most = 2.0 * f64::from(top / LARGEST);
                prop_assert!(error <= inputs as f64 * most * most * 1.001 + 1e-9, "{error} {most}");
                prop_assert!(scale <= top / LARGEST * 4.01 && scale >= top / LARGEST * 0.79);
                prop_assert_eq!(matrix.sums()[output], sum);
            }
            if inputs.div_ceil(QUAD) % 2 == 0 {
                prop_assert!(steps::are_light(matrix.blocks()));
            }
            // Columns that fill up the last block have no scale and no sum, so they count for nothing.
            prop_assert!(matrix.scales()[outputs..].iter().all(|&it| it == 0.0));
            prop_assert!(matrix.sums()[outputs..].iter().all(|&it| it == 0));
        }
    }

    #[test]
    fn what_was_bytes_is_packed_without_loss() {
        // Each row's largest is 127, as a row's own scale makes it, and what meets is light enough.
        let byte = |it: i32| match it % 40 {
            0 => 127,
            1..8 => 0,
            _ => (it * 37 + it / 7) % 63 - 31,
        };
        let bytes: Vec<i32> = (0..3 * 40).map(byte).collect();
        let weights: Vec<f32> = bytes.iter().map(|&it| it as f32 * 0.003_17).collect();
        let size = int8_bytes(3, 40).expect("small");
        let mut memory = aligned(size);
        pack_int8(&weights, 3, 40, bytes_of(&mut memory, size)).expect("fits");
        let matrix = Int8Matrix::new(bytes_of(&mut memory, size), 3, 40).expect("packed");
        for (at, weight) in weights.iter().enumerate() {
            assert!((matrix.get(at / 40, at % 40) - weight).abs() < 1e-6, "{at}");
        }
    }

    type Pack = fn(&[f32], usize, usize, &mut [u8]) -> Result<(), PackedError>;

    #[test]
    fn heavy_bytes_stay_what_they_are_where_nobody_makes_them_light() {
        let bytes: Vec<i32> = (0..2 * 16).map(|it| [127, 127, -127, 100][it % 4]).collect();
        let weights: Vec<f32> = bytes.iter().map(|&it| it as f32 * 0.01).collect();
        let size = int8_bytes(2, 16).expect("small");
        let mut memory = aligned(size);
        let mut off = |pack: Pack| {
            pack(&weights, 2, 16, bytes_of(&mut memory, size)).expect("fits");
            let matrix = Int8Matrix::new(bytes_of(&mut memory, size), 2, 16).expect("packed");
            let off = |at: usize| (matrix.get(at / 16, at % 16) - weights[at]).abs();
            ((0..32).map(off).fold(0.0, f32::max), steps::are_light(matrix.blocks()))
        };
        let (lost, light) = off(pack_int8_as_it_is);
        assert!(lost < 1e-6 && !light, "{lost}");
        let (lost, light) = off(pack_int8);
        assert!(lost > 0.005 && light, "{lost}");
    }

    #[test]
    fn zeros_infinities_and_tiny_numbers_pack_as_defined() {
        let weights = [0.0, 0.0, f32::NAN, 1.0, f32::INFINITY, -2.0, 1e-42, 0.0];
        let size = int8_bytes(4, 2).expect("small");
        let mut memory = aligned(size);
        pack_int8(&weights, 4, 2, bytes_of(&mut memory, size)).expect("fits");
        let matrix = Int8Matrix::new(bytes_of(&mut memory, size), 4, 2).expect("packed");
        let all: Vec<f32> = (0..8).map(|i| matrix.get(i / 2, i % 2)).collect();
        assert_eq!((all[0], all[1], all[2], all[4]), (0.0, 0.0, 0.0, 0.0));
        assert!((all[3] - 1.0).abs() < 1e-6 && (all[5] + 2.0).abs() < 1e-6);
        assert_eq!(all[6..], [0.0, 0.0]);
    }

    #[test]
    fn wrong_lengths_and_sizes_are_refused() {
        let size = int8_bytes(3, 5).expect("small");
        assert_eq!(size, 16 * (8 + 8));
        let mut memory = aligned(size + 4);
        let bytes = bytes_of(&mut memory, size + 4);
        assert!(matches!(pack_int8(&[0.0; 15], 3, 5, bytes), Err(PackedError::Length { .. })));
        let short = Int8Matrix::new(&bytes[..size - 1], 3, 5);
        assert!(matches!(short, Err(PackedError::Length { .. })));
        let shifted = Int8Matrix::new(&bytes[1..=size], 3, 5);
        assert!(matches!(shifted, Err(PackedError::Alignment { .. })));
        assert!(matches!(int8_bytes(1, 1 << 17), Err(PackedError::Size { .. })));
        assert!(matches!(int8_bytes(usize::MAX, 1), Err(PackedError::Size { .. })));
        assert!(matches!(int8_bytes(usize::MAX / 20, 64), Err(PackedError::Size { .. })));
    }
}
