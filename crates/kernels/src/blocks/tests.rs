use half::f16;
use proptest::prelude::*;

use super::{
    activations::{Activations, quantize, row_len},
    dots::{dots, dots_at},
    *,
};
use crate::Isa;

/// Bytes that are the same everywhere (a linear congruential generator of Numerical Recipes).
fn noise(count: usize, mut state: u32) -> Vec<u8> {
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Where in a block halves lie.
fn halves(format: BlockFormat) -> &'static [usize] {
    match format {
        BlockFormat::Q4_0 | BlockFormat::Q5_0 | BlockFormat::Q8_0 => &[0],
        BlockFormat::Q4_1 | BlockFormat::Q5_1 | BlockFormat::Q4K | BlockFormat::Q5K => &[0, 2],
        BlockFormat::Q2K => &[80, 82],
        BlockFormat::Q3K => &[108],
        BlockFormat::Q6K => &[208],
    }
}

/// Rows of blocks with scales below two.
pub(crate) fn blocks(format: BlockFormat, outputs: usize, inputs: usize, seed: u32) -> Vec<u8> {
    let mut bytes = noise(outputs * inputs / format.block_len() * format.block_bytes(), seed);
    for block in bytes.chunks_mut(format.block_bytes()) {
        for at in halves(format) {
            block[at + 1] &= 0xbf;
        }
    }
    bytes
}

/// 512 weights of each format, widened by `gguf.quants.dequantize` of the `gguf` package 0.19: FNV-1a of their bits,
/// and the first.
#[test]
fn weights_are_those_of_the_reference() {
    let expected = [
        (BlockFormat::Q4_0, 0x97c0_82b7_de3b_9b25u64, -0.042_617_8f32),
        (BlockFormat::Q4_1, 0xeaf3_f15a_34f9_b529, -0.208_435_06),
        (BlockFormat::Q5_0, 0x1ab4_8b1a_4205_4525, 0.036_529_54),
        (BlockFormat::Q5_1, 0x6ad2_8ff3_27e5_f3b6, -0.257_141_1),
        (BlockFormat::Q8_0, 0x75d1_4317_21ac_7ce5, -0.773_208_6),
        (BlockFormat::Q2K, 0xd0b7_a757_6d7e_a2e5, -0.001_013_52),
        (BlockFormat::Q3K, 0xce7e_659e_48ac_30e5, -0.001_679_78),
        (BlockFormat::Q4K, 0x902e_7a93_2415_6865, 2.002_685_5),
        (BlockFormat::Q5K, 0xe56f_5e2a_4797_7275, 1.637_390_1),
        (BlockFormat::Q6K, 0xaa8f_0e91_feaf_ac15, -2_096.445_3),
    ];
    for (format, hash, first) in expected {
        let bytes = blocks(format, 1, 512, 1);
        let matrix = BlockMatrix::new(format, &bytes, 1, 512).expect("whole blocks");
        let mut row = vec![f32::NAN; 512];
        matrix.widen_row(0, &mut row);
        assert!((row[0] / first - 1.0).abs() < 1e-5, "{format:?} {}", row[0]);
        // Zeros count as positive ones.
        let fold = |hash: u64, it: &f32| {
            (hash ^ u64::from((it + 0.0).to_bits())).wrapping_mul(0x100_0000_01b3)
        };
        assert_eq!(row.iter().fold(0xcbf2_9ce4_8422_2325, fold), hash, "{format:?}");
    }
}

fn formats() -> impl Strategy<Value = BlockFormat> {
    prop::sample::select(BlockFormat::ALL.to_vec())
}

proptest! {
    /// Products with quantized rows are those of what was quantized, for every level of instructions.
    #[test]
    fn every_level_multiplies_by_the_definition(
        format in formats(), outputs in 1usize..11, count in 1usize..8, rows in 1usize..10, seed in any::<u32>(),
        values in prop::collection::vec(-3f32..3.0, 89),
    ) {
        let inputs = count * format.block_len();
        // At an odd address.
        let mut bytes = vec![0];
        bytes.extend(blocks(format, outputs, inputs, seed));
        let matrix = BlockMatrix::new(format, &bytes[1..], outputs, inputs).expect("whole blocks");
        let mut memory = vec![f32::NAN; rows * row_len(inputs)];
        for (row, memory) in memory.chunks_exact_mut(row_len(inputs)).enumerate() {
            let x: Vec<f32> = (0..inputs).map(|i| values[(i * 7 + i / 31 + row * 5) % 89]).collect();
            quantize(&x, format.block_len(), memory);
        }
        let x: Vec<_> = memory.chunks_exact(row_len(inputs)).map(|it| Activations::view(it, inputs)).collect();
        let mut row = vec![0.0; inputs];
        let (mut expected, mut sizes) = (Vec::new(), Vec::new());
        for x in &x {
            for output in 0..outputs {
                matrix.widen_row(output, &mut row);
                let terms = || row.iter().enumerate().map(|(i, &weight)| {
                    f64::from(weight) * f64::from(x.bytes[i]) * f64::from(x.scales[i / 32])
                });
                expected.push(terms().sum::<f64>());
                // Minimums cancel much of what they are added to.
                sizes.push(terms().map(f64::abs).sum::<f64>() + 256.0 * inputs as f64);
            }
        }
        for isa in Isa::available() {
            let mut all = vec![f32::NAN; rows * outputs];
            dots_at(isa, &matrix, 0..outputs, &x, &mut all);
            for ((&a, &b), &size) in all.iter().zip(&expected).zip(&sizes) {
                prop_assert!((f64::from(a) - b).abs() < 2e-6 * size, "{format:?} {isa} {a} {b}");
            }
            // Each as if it were alone.
            for (place, &value) in all.iter().enumerate() {
                let (row, output) = (place / outputs, place % outputs);
                let mut alone = [f32::NAN];
                dots_at(isa, &matrix, output..output + 1, &x[row..=row], &mut alone);
                prop_assert_eq!(alone[0].to_bits(), value.to_bits());
            }
        }
    }

    /// Any bytes are a matrix.
    #[test]
    fn any_bytes_give_numbers_or_nan(format in formats(), count in 1usize..4, seed in any::<u32>()) {
        let inputs = count * format.block_len();
        let bytes = noise(2 * count * format.block_bytes(), seed);
        let matrix = BlockMatrix::new(format, &bytes, 2, inputs).expect("whole blocks");
        let mut row = vec![0.0; inputs];
        matrix.widen_row(1, &mut row);
        let mut memory = vec![0.0; row_len(inputs)];
        quantize(&vec![0.5; inputs], format.block_len(), &mut memory);
        for isa in Isa::available() {
            let mut sums = [0.0; 2];
            dots_at(isa, &matrix, 0..2, &[Activations::view(&memory, inputs)], &mut sums);
        }
    }

    /// Whatever widens parts of rows, and rows of parts.
    #[test]
    fn parts_are_parts(format in formats(), from in 0usize..4, count in 1usize..4, seed in any::<u32>()) {
        let len = format.block_len();
        let bytes = blocks(format, 3, 8 * len, seed);
        let matrix = BlockMatrix::new(format, &bytes, 3, 8 * len).expect("whole blocks");
        let mut row = vec![0.0; 8 * len];
        matrix.rows(1..3).widen_row(1, &mut row);
        let mut versions = portable_widen::versions();
        versions.push(widen);
        for version in versions {
            let mut again = vec![0.0; 8 * len];
            version(format, matrix.row(2), &mut again);
            prop_assert_eq!(&again, &row);
        }
        let mut part = vec![0.0; count * len];
        matrix.widen_part(2, from * len, &mut part);
        prop_assert_eq!(&part, &row[from * len..(from + count) * len]);
    }

    #[test]
    fn halves_widen_as_the_library_does(bits in any::<u16>()) {
        let (expected, value) = (f16::from_bits(bits), layouts::widen_f16(bits));
        prop_assert_eq!(value.is_nan(), expected.is_nan());
        prop_assert!(expected.is_nan() || value.to_bits() == expected.to_f32().to_bits());
    }
}

#[test]
fn scales_that_are_not_finite_give_products_that_are_not() {
    for format in BlockFormat::ALL {
        for bits in [f16::NAN, f16::INFINITY] {
            let inputs = 256;
            let mut bytes = blocks(format, 1, inputs, 3);
            bytes[halves(format)[0]..][..2].copy_from_slice(&bits.to_le_bytes());
            let matrix = BlockMatrix::new(format, &bytes, 1, inputs).expect("whole blocks");
            let mut memory = vec![0.0; row_len(inputs)];
            quantize(&vec![0.5; inputs], format.block_len(), &mut memory);
            for isa in Isa::available() {
                let mut sums = [0.0];
                dots_at(isa, &matrix, 0..1, &[Activations::view(&memory, inputs)], &mut sums);
                assert!(!sums[0].is_finite(), "{format:?} {isa}");
            }
            let mut sums = [0.0];
            dots(&matrix, 0..1, &[Activations::view(&memory, inputs)], &mut sums);
            assert!(!sums[0].is_finite());
        }
    }
}

#[test]
fn wrong_lengths_and_sizes_are_refused() {
    for format in BlockFormat::ALL {
        let (len, bytes) = (format.block_len(), vec![0; 3 * format.block_bytes()]);
        assert!(BlockMatrix::new(format, &bytes, 3, len).is_ok());
        let error = |bytes: &[u8], outputs, inputs| {
            BlockMatrix::new(format, bytes, outputs, inputs).map(|_| ())
        };
        assert!(matches!(error(&bytes[1..], 3, len), Err(PackedError::Length { .. })));
        assert!(matches!(error(&bytes, 2, len), Err(PackedError::Length { .. })));
        assert!(matches!(error(&bytes, 3, len - 1), Err(PackedError::Partial { .. })));
        assert!(matches!(error(&bytes, usize::MAX / 4, len), Err(PackedError::Size { .. })));
        let most = usize::MAX / len * len;
        assert!(matches!(error(&bytes, usize::MAX, most), Err(PackedError::Size { .. })));
        assert!(error(&[], 0, len).is_ok() && error(&[], 5, 0).is_ok());
    }
}
