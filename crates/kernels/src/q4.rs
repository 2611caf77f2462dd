//! Weights of four bits: one scale for every 32 inputs of an output.
//!
//! Only memory is saved: weights are widened, panel by panel, and the arithmetic is that of f32 or bf16.

use half::f16;

use crate::{
    PackedError,
    dispatch::{mul_add, multiversion},
    int8::BLOCK,
};

/// Inputs that share a scale.
pub(crate) const GROUP: usize = 32;

/// Bytes of the scales of a group of 16 outputs.
const SCALES: usize = BLOCK * size_of::<u16>();

/// Bytes of a group: 16 scales and 16 × 32 weights.
const GROUP_BYTES: usize = SCALES + BLOCK * GROUP / 2;

/// What stands for a weight of zero: weights are −8…7 times their scale, kept as 0…15.
const ZERO: i32 = 8;

/// A packed matrix `[outputs, inputs]` of four-bit weights, borrowed from memory that may come straight from disk.
///
/// Layout: groups `[N / 16][K / 32]`, where N is `outputs` rounded up to 16 and K `inputs` rounded up to 32. A
/// group is 16 scales (f16, little-endian), then 16 rows of 16 bytes: byte o of row r holds, of output o, input
/// r in its low and input r + 16 in its high half. So a row widens to two rows of 16 outputs.
#[derive(Debug, Clone, Copy)]
pub struct Q4Matrix<'a> {
    groups: &'a [u8],
    outputs: usize,
    inputs: usize,
}

impl<'a> Q4Matrix<'a> {
    /// Views `bytes` as [`pack_q4`] left them.
    ///
    /// # Errors
    /// [`PackedError`] when they are not as many as the shape takes.
    pub fn new(bytes: &'a [u8], outputs: usize, inputs: usize) -> Result<Self, PackedError> {
        let expected = q4_bytes(outputs, inputs)?;
        if bytes.len() != expected {
            return Err(PackedError::Length { outputs, inputs, expected, actual: bytes.len() });
        }
        Ok(Q4Matrix { groups: bytes, outputs, inputs })
    }

    /// The outputs of a range that begins at a whole block.
    ///
    /// # Panics
    /// When it begins elsewhere or is not all there: the caller's bug.
    pub fn rows(&self, outputs: std::ops::Range<usize>) -> Q4Matrix<'a> {
        let inside = outputs.start.is_multiple_of(BLOCK) && outputs.end <= self.outputs;
        assert!(inside, "{outputs:?} are not whole blocks of {} outputs", self.outputs);
        let bytes = self.inputs.div_ceil(GROUP) * GROUP_BYTES;
        let blocks = outputs.start / BLOCK..outputs.end.div_ceil(BLOCK);
        Q4Matrix {
            groups: &self.groups[blocks.start * bytes..blocks.end * bytes],
            outputs: outputs.len(),
            inputs: self.inputs,
        }
    }

    /// Rows.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Columns.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// The groups of 16 outputs.
    fn block(&self, block: usize) -> &'a [u8] {
        let bytes = self.inputs.div_ceil(GROUP) * GROUP_BYTES;
        &self.groups[block * bytes..][..bytes]
    }

    /// Widens 32 inputs of 16 outputs, both from whole multiples on, to f32 `[32][16]`.
    pub(crate) fn widen_group(&self, block: usize, group: usize, out: &mut [[f32; BLOCK]; GROUP]) {
        let group = &self.block(block)[group * GROUP_BYTES..][..GROUP_BYTES];
        widen_groups(group, out.as_flattened_mut());
    }

    /// The products of `x` `[inputs]` with up to 16 outputs from `16 · block` on, as bits.
    pub(crate) fn dots(&self, block: usize, x: &[f32], sums: &mut [u32]) {
        let mut all = [0f32; BLOCK];
        dots_of(self.block(block), x, &mut all);
        for (sum, all) in sums.iter_mut().zip(all) {
            *sum = all.to_bits();
        }
    }

    /// The weight at a place, for tests and for those who need only a few.
    pub fn get(&self, output: usize, input: usize) -> f32 {
        let group = &self.block(output / BLOCK)[input / GROUP * GROUP_BYTES..][..GROUP_BYTES];
        let (lane, place) = (output % BLOCK, input % GROUP);
        let byte = group[SCALES + place % 16 * BLOCK + lane];
        let code = if place < 16 { byte & 15 } else { byte >> 4 };
        let scale = f16::from_le_bytes([group[2 * lane], group[2 * lane + 1]]);
        (i32::from(code) - ZERO) as f32 * scale.to_f32()
    }
}

multiversion! {
    /// Adds the products of `x` with a block of groups to 16 sums.
    fn dots_of(groups: &[u8], x: &[f32], sums: &mut [f32; BLOCK]) {
        for (group, x) in groups.chunks_exact(GROUP_BYTES).zip(x.chunks(GROUP)) {
            let mut padded = [0f32; GROUP];
            padded[..x.len()].copy_from_slice(x);
            let (scales, codes) = group.split_at(SCALES);
            // Sums of codes times inputs; their scale is the same for the whole group.
            let (mut low, mut high) = ([0f32; BLOCK], [0f32; BLOCK]);
            for (row, codes) in codes.as_chunks::<BLOCK>().0.iter().enumerate() {
                for lane in 0..BLOCK {
                    let code = i32::from(codes[lane]);
                    low[lane] = mul_add::<FUSED>(((code & 15) - ZERO) as f32, padded[row], low[lane]);
                    let code = ((code >> 4) - ZERO) as f32;
                    high[lane] = mul_add::<FUSED>(code, padded[row + GROUP / 2], high[lane]);
                }
            }
            for lane in 0..BLOCK {
                let bits = u16::from_le_bytes([scales[2 * lane], scales[2 * lane + 1]]);
                sums[lane] = mul_add::<FUSED>(low[lane] + high[lane], widen_f16(bits), sums[lane]);
            }
        }
    }
}

multiversion! {
    fn widen_groups(groups: &[u8], out: &mut [f32]) {
        for (group, out) in groups.chunks_exact(GROUP_BYTES).zip(out.chunks_exact_mut(GROUP * BLOCK)) {
            let (scales, codes) = group.split_at(SCALES);
            let mut scale = [0f32; BLOCK];
            for (scale, bits) in scale.iter_mut().zip(scales.as_chunks::<2>().0) {
                *scale = widen_f16(u16::from_le_bytes(*bits));
            }
            let (low, high) = out.split_at_mut(GROUP / 2 * BLOCK);
            let rows = low.as_chunks_mut::<BLOCK>().0.iter_mut().zip(high.as_chunks_mut::<BLOCK>().0);
            for ((low, high), codes) in rows.zip(codes.as_chunks::<BLOCK>().0) {
                for lane in 0..BLOCK {
                    low[lane] = (i32::from(codes[lane] & 15) - ZERO) as f32 * scale[lane];
                    high[lane] = (i32::from(codes[lane] >> 4) - ZERO) as f32 * scale[lane];
                }
            }
        }
    }
}

/// A scale of half precision; `pack_q4` writes finite ones only. Moves exponent and mantissa into place and lets a
/// multiplication correct the exponent's bias, which is right for numbers too small to be normal as well.
#[inline(always)]
fn widen_f16(bits: u16) -> f32 {
    let magnitude = f32::from_bits(u32::from(bits & 0x7fff) << 13);
    // 2^(127 − 15).
    let value = magnitude * f32::from_bits((127 + 112) << 23);
    f32::from_bits(value.to_bits() | u32::from(bits & 0x8000) << 16)
}

/// Bytes of a packed matrix `[outputs, inputs]`.
///
/// # Errors
/// [`PackedError::Size`] when they do not fit memory.
pub fn q4_bytes(outputs: usize, inputs: usize) -> Result<usize, PackedError> {
    let blocks = outputs.div_ceil(BLOCK).checked_mul(inputs.div_ceil(GROUP));
    let bytes = blocks.and_then(|it| it.checked_mul(GROUP_BYTES));
    bytes.ok_or(PackedError::Size { outputs, inputs })
}

/// Quantizes and packs `weights` `[outputs, inputs]` row by row into `out` of [`q4_bytes`] bytes, laid out as
/// [`Q4Matrix`] reads it. A group's scale is the one of a few with the least squared error. A weight that is
/// not finite counts as 0.
///
/// # Errors
/// [`PackedError`] when `out` has another length.
///
/// # Panics
/// When `weights` are not `outputs × inputs`: the caller's bug.
pub fn pack_q4(
    weights: &[f32],
    outputs: usize,
    inputs: usize,
    out: &mut [u8],
) -> Result<(), PackedError> {
    assert_eq!(weights.len(), outputs * inputs, "weights are not {outputs} × {inputs}");
    let expected = q4_bytes(outputs, inputs)?;
    if out.len() != expected {
        return Err(PackedError::Length { outputs, inputs, expected, actual: out.len() });
    }
    out.fill(0);
    // Weights that only fill up are zeros.
    for group in out.chunks_exact_mut(GROUP_BYTES) {
        group[SCALES..].fill((ZERO | ZERO << 4) as u8);
    }
    let groups = inputs.div_ceil(GROUP);
    for output in 0..outputs {
        let (block, lane) = (output / BLOCK, output % BLOCK);
        let row = &weights[output * inputs..][..inputs];
        for (number, values) in row.chunks(GROUP).enumerate() {
            let group = &mut out[(block * groups + number) * GROUP_BYTES..][..GROUP_BYTES];
            let scale = best_scale(values);
            group[2 * lane..][..2].copy_from_slice(&scale.to_le_bytes());
            for (place, &value) in values.iter().enumerate() {
                let code = quantize(value, scale.to_f32()) as u8;
                let byte = &mut group[SCALES + place % 16 * BLOCK + lane];
                *byte = if place < 16 { *byte & 0xf0 | code } else { *byte & 15 | code << 4 };
            }
        }
    }
    Ok(())
}

/// The scale, of a few, with the least squared error. The outermost weight becomes −8, whatever its sign, or a
/// little less.
fn best_scale(values: &[f32]) -> f16 {
    let outermost = values
        .iter()
        .filter(|it| it.is_finite())
        .fold(0f32, |top, &it| if it.abs() > top.abs() { it } else { top });
    const SHARES: [f32; 6] = [-8.0, -8.5, -9.0, -7.5, -7.0, 8.5];
    let error = |scale: f16| -> f32 {
        let scale = scale.to_f32();
        let squared = |&value: &f32| {
            let loss = value - (quantize(value, scale) - ZERO) as f32 * scale;
            loss * loss
        };
        values.iter().filter(|it| it.is_finite()).map(squared).sum()
    };
    let candidates = SHARES.into_iter().map(|share| f16::from_f32(outermost / share));
    let finite = candidates.filter(|it| it.is_finite());
    let best = finite.map(|it| (error(it), it)).min_by(|a, b| a.0.total_cmp(&b.0));
    // Weights beyond what half precision holds: as large as it goes.
    best.map_or(f16::MAX, |it| it.1)
}

/// The code of a weight, 0…15.
fn quantize(value: f32, scale: f32) -> i32 {
    if scale == 0.0 || !value.is_finite() {
        return ZERO;
    }
    // The limits are those of four bits.
    ((value / scale).round_ties_even().clamp(-8.0, 7.0)) as i32 + ZERO
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packed_weights_are_near_and_widen_to_themselves(
            outputs in 1usize..40, inputs in 1usize..100, seed in prop::collection::vec(-1f32..1.0, 71),
        ) {
            let weights: Vec<f32> = (0..outputs * inputs).map(|i| seed[(i * 5 + i / 9) % 71]).collect();
            let mut bytes = vec![0xaa; q4_bytes(outputs, inputs).expect("small")];
            pack_q4(&weights, outputs, inputs, &mut bytes).expect("fits");
            let matrix = Q4Matrix::new(&bytes, outputs, inputs).expect("just packed");
            for (i, &weight) in weights.iter().enumerate() {
                // A step is at most a seventh of the largest, and those at the other end may be cut by more than one.
                prop_assert!((matrix.get(i / inputs, i % inputs) - weight).abs() < 0.2);
            }
            let depth = inputs.next_multiple_of(GROUP);
            for version in widen_groups::versions() {
                for block in 0..outputs.div_ceil(BLOCK) {
                    let mut wide = vec![f32::NAN; depth * BLOCK];
                    version(matrix.block(block), &mut wide);
                    for (i, &value) in wide.iter().enumerate() {
                        let (input, output) = (i / BLOCK, block * BLOCK + i % BLOCK);
                        let there = input < inputs && output < outputs;
                        let expected = if there { matrix.get(output, input) } else { 0.0 };
                        prop_assert_eq!(value, expected);
                    }
                }
            }
        }

        #[test]
        fn scales_widen_as_the_library_does(bits in any::<u16>()) {
            let expected = f16::from_bits(bits);
            prop_assume!(expected.is_finite());
            prop_assert_eq!(widen_f16(bits).to_bits(), expected.to_f32().to_bits());
        }
    }

    #[test]
    fn extremes_and_wrong_lengths() {
        let weights = [f32::NAN, f32::INFINITY, 1e30, -1e30, 0.0, 1e-42, 5.0];
        let mut bytes = vec![0; q4_bytes(1, 7).expect("small")];
        pack_q4(&weights, 1, 7, &mut bytes).expect("fits");
        let matrix = Q4Matrix::new(&bytes, 1, 7).expect("packed");
        assert!((0..7).all(|i| matrix.get(0, i).is_finite()));
        let mut bytes = vec![0; q4_bytes(1, 2).expect("small")];
        pack_q4(&[0.0; 2], 1, 2, &mut bytes).expect("fits");
        assert_eq!(Q4Matrix::new(&bytes, 1, 2).expect("packed").get(0, 1), 0.0);
        assert!(matches!(Q4Matrix::new(&bytes, 1, 40), Err(PackedError::Length { .. })));
        assert!(matches!(q4_bytes(usize::MAX, usize::MAX), Err(PackedError::Size { .. })));
    }
}
