//! Rows of numbers into lanes, and lanes into panels (see [`micro`](crate::micro)).

#[cfg(target_arch = "x86_64")]
use crate::{
    dispatch::has_avx512_bf16,
    isa::{self, Isa},
};
use crate::{
    dispatch::multiversion,
    micro::{Kind, PANEL},
    quantize::to_bf16,
};

/// Two numbers in a lane.
#[inline(always)]
pub(crate) fn pair_of(low: f32, high: f32) -> f32 {
    f32::from_bits(u32::from(to_bf16(low)) | u32::from(to_bf16(high)) << 16)
}

/// A row times `scale`, as lanes of f32 or bf16; `lanes` has as many as that takes.
pub(crate) fn row_to_lanes(row: &[f32], scale: f32, kind: Kind, lanes: &mut [f32]) {
    match kind {
        Kind::F32 => scaled(row, scale, lanes),
        _ => {
            #[cfg(target_arch = "x86_64")]
            if has_avx512_bf16() {
                // SAFETY: the processor has the features.
                return unsafe { crate::x86::round_row(row, scale, lanes) };
            }
            rounded(row, scale, lanes);
        }
    }
}

multiversion! {
    /// A row times `scale`.
    pub(crate) fn scaled(row: &[f32], scale: f32, lanes: &mut [f32]) {
        for (lane, value) in lanes.iter_mut().zip(row) {
            *lane = value * scale;
        }
    }
}

multiversion! {
    fn rounded(row: &[f32], scale: f32, lanes: &mut [f32]) {
        let (pairs, rest) = row.as_chunks::<2>();
        for (lane, pair) in lanes.iter_mut().zip(pairs) {
            *lane = pair_of(pair[0] * scale, pair[1] * scale);
        }
        if let (Some(lane), Some(&last)) = (lanes.get_mut(pairs.len()), rest.first()) {
            *lane = pair_of(last * scale, 0.0);
        }
    }
}

/// 16 rows of `depth` lanes, `stride` lanes apart, into a panel `[depth][16]`.
pub(crate) fn interleave(rows: &[f32], stride: usize, depth: usize, panel: &mut [f32]) {
    assert!(rows.len() >= (PANEL - 1) * stride + depth && panel.len() >= depth * PANEL);
    let done = transpose(rows, stride, depth, panel);
    interleave_rest(rows, stride, done, depth, panel);
}

/// Transposes as many lanes as whole registers hold, and says how many.
#[cfg(target_arch = "x86_64")]
fn transpose(rows: &[f32], stride: usize, depth: usize, panel: &mut [f32]) -> usize {
    if isa::current() < Isa::Avx512 {
        return 0;
    }
    let done = depth / PANEL * PANEL;
    for from in (0..done).step_by(PANEL) {
        // SAFETY: the processor has AVX-512; `interleave` asserts what is read and written.
        unsafe {
            let out = panel.as_mut_ptr().add(from * PANEL);
            crate::x86::transpose(rows.as_ptr().add(from), stride, out);
        }
    }
    done
}

#[cfg(not(target_arch = "x86_64"))]
fn transpose(_rows: &[f32], _stride: usize, _depth: usize, _panel: &mut [f32]) -> usize {
    0
}

multiversion! {
    fn interleave_rest(rows: &[f32], stride: usize, from: usize, depth: usize, panel: &mut [f32]) {
        let panel = panel.as_chunks_mut::<PANEL>().0;
        for lane in 0..PANEL {
            let row = &rows[lane * stride..][from..depth];
            for (out, &value) in panel[from..depth].iter_mut().zip(row) {
                out[lane] = value;
            }
        }
    }
}

/// Two rows side by side: each column's two numbers in a lane, for up to 16 columns.
pub(crate) fn join_rows(first: &[f32], second: &[f32], lanes: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if has_avx512_bf16()
        && let (Ok(first), Ok(second)) = (first.try_into(), second.try_into())
        && let Ok(lanes) = lanes.try_into()
    {
        // SAFETY: the processor has the features.
        return unsafe { crate::x86::join_rows(first, second, lanes) };
    }
    portable_join(first, second, lanes);
}

multiversion! {
    fn portable_join(first: &[f32], second: &[f32], lanes: &mut [f32]) {
        for ((lane, &first), &second) in lanes.iter_mut().zip(first).zip(second) {
            *lane = pair_of(first, second);
        }
    }
}

/// Two rows of pairs of bf16 side by side: of each 32 columns those two numbers in a lane, the first 16 lanes to
/// `low`, the others to `high`.
pub(crate) fn join_lanes(
    first: &[f32; PANEL],
    second: &[f32; PANEL],
    low: &mut [f32; PANEL],
    high: &mut [f32; PANEL],
) {
    #[cfg(target_arch = "x86_64")]
    if has_avx512_bf16() {
        // SAFETY: the processor has the features.
        return unsafe { crate::x86::join_lanes(first, second, low, high) };
    }
    for (place, (first, second)) in first.iter().zip(second).enumerate() {
        let out = if place < PANEL / 2 { &mut *low } else { &mut *high };
        let (first, second) = (first.to_bits(), second.to_bits());
        let at = 2 * place % PANEL;
        out[at] = f32::from_bits(first & 0xffff | second << 16);
        out[at + 1] = f32::from_bits(first >> 16 | second & 0xffff_0000);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lanes_hold_what_the_row_holds(row in prop::collection::vec(-2f32..2.0, 0..150), scale in -2f32..2.0) {
            let mut lanes = vec![9.0; row.len()];
            row_to_lanes(&row, scale, Kind::F32, &mut lanes);
            prop_assert!(lanes.iter().zip(&row).all(|(a, b)| *a == b * scale));
            let mut lanes = vec![9.0f32; row.len().div_ceil(2) + 1];
            let count = lanes.len() - 1;
            row_to_lanes(&row, scale, Kind::Bf16, &mut lanes[..count]);
            prop_assert_eq!(lanes[count], 9.0);
            for i in 0..2 * count {
                let expected = half::bf16::from_f32(row.get(i).map_or(0.0, |it| it * scale)).to_f32();
                let bits = lanes[i / 2].to_bits();
                let value = if i % 2 == 0 { bits << 16 } else { bits & 0xffff_0000 };
                prop_assert!((f32::from_bits(value) - expected).abs() <= f32::MIN_POSITIVE);
            }
        }

        #[test]
        fn joined_rows_are_pairs(rows in prop::collection::vec((-2f32..2.0, -2f32..2.0), 1..17)) {
            let (first, second): (Vec<f32>, Vec<f32>) = rows.iter().copied().unzip();
            let mut lanes = vec![9.0; rows.len()];
            join_rows(&first, &second, &mut lanes);
            for (lane, (a, b)) in lanes.iter().zip(rows) {
                prop_assert_eq!(lane.to_bits(), pair_of(a, b).to_bits());
            }
        }

        #[test]
        fn joined_lanes_are_pairs(rows in prop::collection::vec((any::<u16>(), any::<u16>()), 32)) {
            let lane = |low: u16, high: u16| f32::from_bits(u32::from(low) | u32::from(high) << 16);
            let row = |of: fn(&(u16, u16)) -> u16| -> [f32; PANEL] {
                std::array::from_fn(|i| lane(of(&rows[2 * i]), of(&rows[2 * i + 1])))
            };
            let (mut low, mut high) = ([0.0; PANEL], [0.0; PANEL]);
            join_lanes(&row(|it| it.0), &row(|it| it.1), &mut low, &mut high);
            for (out, pair) in low.iter().chain(&high).zip(&rows) {
                prop_assert_eq!(out.to_bits(), lane(pair.0, pair.1).to_bits());
            }
        }

        #[test]
        fn panels_are_rows_turned(depth in 1usize..60, gap in 0usize..4) {
            let stride = depth + gap;
            let rows: Vec<f32> = (0..PANEL * stride).map(|i| i as f32).collect();
            let mut panel = vec![-1.0; depth * PANEL];
            interleave(&rows, stride, depth, &mut panel);
            for (i, &value) in panel.iter().enumerate() {
                prop_assert_eq!(value, rows[i % PANEL * stride + i / PANEL]);
            }
        }
    }
}
