//! Products of a quantized row with rows of blocks, where they lie.

use std::ops::Range;

use super::{
    BlockFormat, BlockMatrix,
    activations::Activations,
    layouts::{Layout, PART, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0},
    with_layout,
};
use crate::{
    dispatch::multiversion,
    isa::{self, Isa},
};

/// Outputs that are best multiplied at a time.
pub(crate) const OUTPUTS: usize = 4;

/// The products of the rows `x` with `outputs` of `matrix`, to `sums` `[x.len(), outputs.len()]`. Each is computed
/// alike, whichever its neighbors are; weights are decoded once for up to [`ROWS`] rows.
pub(crate) fn dots(
    matrix: &BlockMatrix<'_>,
    outputs: Range<usize>,
    x: &[Activations<'_>],
    sums: &mut [f32],
) {
    dots_at(isa::current(), matrix, outputs, x, sums);
}

/// Rows that are multiplied with weights that were decoded once: their sums are in registers.
pub(crate) const ROWS: usize = 4;

/// As [`dots`], with the instructions of a level that this processor has.
pub(crate) fn dots_at(
    isa: Isa,
    matrix: &BlockMatrix<'_>,
    outputs: Range<usize>,
    x: &[Activations<'_>],
    sums: &mut [f32],
) {
    assert!(sums.len() >= x.len() * outputs.len(), "too few sums");
    let weights = matrix.rows(outputs);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the processor has the level's instructions, and F16C as asked; `x` has the matrix's inputs.
    unsafe {
        let f16c = || is_x86_feature_detected!("f16c");
        match isa {
            Isa::Avx512Vnni | Isa::Amx => return crate::x86::dots_avx512(weights, x, sums),
            Isa::AvxVnni if f16c() => return crate::x86::dots_avxvnni(weights, x, sums),
            Isa::Avx2 | Isa::Avx512 if f16c() => return crate::x86::dots_avx2(weights, x, sums),
            _ => {}
        }
    }
    let _ = isa;
    portable_dots(weights, x, sums);
}

multiversion! {
    fn portable_dots(weights: BlockMatrix<'_>, x: &[Activations<'_>], sums: &mut [f32]) {
        with_layout!(weights.format, L => {
            let bytes = weights.row_bytes();
            for (&x, sums) in x.iter().zip(sums.chunks_exact_mut(weights.outputs.max(1))) {
                for (row, sum) in weights.bytes().chunks_exact(bytes.max(1)).zip(sums) {
                    *sum = dot::<L>(row, x);
                }
            }
        });
    }
}

/// The product with one row.
#[inline(always)]
fn dot<L: Layout>(row: &[u8], x: Activations<'_>) -> f32 {
    let mut sum = 0.0;
    let bytes = x.bytes.as_chunks::<PART>().0;
    for (number, block) in row.chunks_exact(L::BYTES).enumerate() {
        let (scales, minimums) = L::scales(block);
        let first = number * (L::LEN / PART);
        for part in 0..L::LEN / PART {
            let (codes, bytes) = (L::codes(block, part), &bytes[first + part]);
            let mut halves = [0i32; 2];
            for (half, total) in halves.iter_mut().enumerate() {
                for i in half * 16..half * 16 + 16 {
                    *total += (i32::from(codes[i]) - L::OFFSET) * i32::from(bytes[i]);
                }
            }
            let scale = x.scales[first + part];
            if L::GROUP == PART {
                sum += (halves[0] + halves[1]) as f32 * (scales[2 * part] * scale);
            } else {
                let wide =
                    halves[0] as f32 * scales[2 * part] + halves[1] as f32 * scales[2 * part + 1];
                sum += wide * scale;
            }
            if L::MINIMUMS {
                let at = 2 * (first + part);
                sum += x.sums[at] * minimums[2 * part] + x.sums[at + 1] * minimums[2 * part + 1];
            }
        }
    }
    sum
}
