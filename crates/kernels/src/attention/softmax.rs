//! Softmax of a tile of scores that continues where the last block of keys ended.

#[cfg(target_arch = "x86_64")]
use crate::dispatch::{has_avx2, has_avx512, has_avx512_bf16};
use crate::{
    dispatch::{BASELINE_FUSES, multiversion},
    elementwise::{exp, tanh_of},
    lanes::row_to_lanes,
    micro::{Kind, PANEL},
    norm::lane_fold,
};

/// What softmax remembers of each row between blocks of keys.
#[derive(Debug)]
pub(super) struct State<'a> {
    /// The largest score so far, −∞ at first.
    pub(super) tops: &'a mut [f32],
    /// The sum of exponentials relative to it.
    pub(super) sums: &'a mut [f32],
    /// Values weighted with these exponentials `[rows, width]`.
    pub(super) values: &'a mut [f32],
    /// Columns of `values`.
    pub(super) width: usize,
    /// Factor that the scores still need; 1 unless the exponentials are rounded.
    pub(super) scale: f32,
}

/// Turns rows of scores into exponentials relative to the largest so far, zeros where a row does not see,
/// and corrects what was summed before. `scores` has `columns` columns, a multiple of 16, in rows of `stride`; row r
/// sees those from `bounds[r].0` to `bounds[r].1`.
///
/// With `lanes`, the exponentials are rounded to bf16, two to a lane, and written there in rows of half a stride;
/// what becomes of the scores is then left open.
pub(super) fn softmax_tile(
    scores: &mut [f32],
    stride: usize,
    columns: usize,
    bounds: &[(usize, usize)],
    state: &mut State<'_>,
    mut lanes: Option<&mut [f32]>,
) {
    assert!(columns.is_multiple_of(PANEL) && columns <= stride, "{columns} columns of {stride}");
    let width = state.width;
    for (number, (row, &(from, to))) in scores.chunks_exact_mut(stride).zip(bounds).enumerate() {
        assert!(from <= to && to <= columns, "a row sees {from} to {to} of {columns}");
        let row = &mut row[..columns];
        let lanes = lanes.as_deref_mut().map(|it| &mut it[number * stride / 2..][..columns / 2]);
        if from == to {
            lanes.unwrap_or(row).fill(0.0);
            continue;
        }
        let before = state.tops[number];
        let top = largest(row, from, to, before);
        if top > before {
            state.tops[number] = top;
            // Nothing to correct before the first block.
            if before > f32::NEG_INFINITY {
                let less = exp::<false>((before - top) * state.scale);
                state.sums[number] *= less;
                state.values[number * width..][..width].iter_mut().for_each(|it| *it *= less);
            }
        }
        state.sums[number] += match lanes {
            None => exponentials(row, from, to, top),
            Some(lanes) => rounded_exponentials(row, from, to, top, state.scale, lanes),
        };
    }
}

/// The largest of `top` and of `row` between `from` and `to`; NaN counts for nothing.
fn largest(row: &[f32], from: usize, to: usize, top: f32) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if has_avx512() {
        // SAFETY: the processor has AVX-512; `softmax_tile` asserts whole registers.
        return unsafe { crate::x86::wide::largest(row, from, to, top) };
    }
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the processor has AVX2 and FMA; as above.
        return unsafe { crate::x86::narrow::largest(row, from, to, top) };
    }
    portable_largest(row, from, to, top)
}

fn portable_largest(row: &[f32], from: usize, to: usize, top: f32) -> f32 {
    lane_fold(&row[from..to], top, |it| it, |top: f32, it| if it > top { it } else { top })
}

/// Turns scores between `from` and `to` into e^(score − top), others into zeros, and gives the sum.
fn exponentials(row: &mut [f32], from: usize, to: usize, top: f32) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if has_avx512() {
        // SAFETY: the processor has AVX-512; `softmax_tile` asserts whole registers.
        return unsafe { crate::x86::wide::exponentials(row, from, to, top) };
    }
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the processor has AVX2 and FMA; as above.
        return unsafe { crate::x86::narrow::exponentials(row, from, to, top) };
    }
    portable_exponentials::<BASELINE_FUSES>(row, from, to, top)
}

fn portable_exponentials<const FUSED: bool>(
    row: &mut [f32],
    from: usize,
    to: usize,
    top: f32,
) -> f32 {
    row[..from].fill(0.0);
    row[to..].fill(0.0);
    for value in row[from..to].iter_mut() {
        *value = exp::<FUSED>(*value - top);
    }
    lane_fold(&row[from..to], 0.0, |it| it, |sum, it| sum + it)
}

/// As [`exponentials`], of scores times `scale`, into lanes of bf16.
fn rounded_exponentials(
    row: &mut [f32],
    from: usize,
    to: usize,
    top: f32,
    scale: f32,
    lanes: &mut [f32],
) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if has_avx512_bf16() {
        let power = scale * std::f32::consts::LOG2_E;
        // SAFETY: the processor has the features; `softmax_tile` asserts whole registers.
        return unsafe { crate::x86::rounded_exponentials(row, from, to, top, power, lanes) };
    }
    row[from..to].iter_mut().for_each(|it| *it *= scale);
    let sum = exponentials(row, from, to, top * scale);
    row_to_lanes(row, 1.0, Kind::Bf16, lanes);
    sum
}

multiversion! {
    /// Bends scores by tanh, so that none is larger than `most` (Gemma 2, Gemma Team 2024, §2).
    pub(super) fn cap(scores: &mut [f32], most: f32) {
        for score in scores {
            *score = most * tanh_of::<FUSED>(*score / most);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Softmax of one row, by the tile's routine and the division that follows it.
    fn softmax(row: &mut [f32]) {
        let (count, columns) = (row.len(), row.len().next_multiple_of(PANEL));
        let (mut tops, mut sums) = ([f32::NEG_INFINITY], [0.0]);
        let mut state =
            State { tops: &mut tops, sums: &mut sums, values: &mut [0.0], width: 1, scale: 1.0 };
        let mut whole = row.to_vec();
        whole.resize(columns, 100.0);
        softmax_tile(&mut whole, columns, columns, &[(0, count)], &mut state, None);
        assert!(whole[count..].iter().all(|&it| it == 0.0));
        row.iter_mut().zip(whole).for_each(|(value, it)| *value = it / sums[0]);
    }

    type Largest = fn(&[f32], usize, usize, f32) -> f32;
    type Exponentials = fn(&mut [f32], usize, usize, f32) -> f32;

    /// The routines of every size of registers that this processor has.
    fn versions() -> Vec<(Largest, Exponentials)> {
        #[allow(unused_mut, reason = "on other processors the portable ones are all")]
        let mut versions: Vec<(Largest, Exponentials)> =
            vec![(portable_largest, portable_exponentials::<BASELINE_FUSES>)];
        #[cfg(target_arch = "x86_64")]
        {
            use crate::{
                Isa,
                x86::{narrow, wide},
            };
            // SAFETY: the processor has the features; the tests' rows are whole registers.
            unsafe {
                if Isa::Avx2.runs_here() {
                    versions.push((
                        |row, from, to, top| narrow::largest(row, from, to, top),
                        |row, from, to, top| narrow::exponentials(row, from, to, top),
                    ));
                }
                if Isa::Avx512.runs_here() {
                    versions.push((
                        |row, from, to, top| wide::largest(row, from, to, top),
                        |row, from, to, top| wide::exponentials(row, from, to, top),
                    ));
                }
            }
        }
        versions
    }

    /// Whole panels of scores, and which of them are seen: one at least.
    fn rows() -> impl Strategy<Value = (Vec<f32>, usize, usize)> {
        let row = (1usize..6).prop_flat_map(|it| prop::collection::vec(-30f32..30.0, it * PANEL));
        row.prop_flat_map(|row| {
            let count = row.len();
            (Just(row), 0..count, 1..=count)
        })
        .prop_map(|(row, a, b)| (row, a.min(b - 1), b.max(a + 1)))
    }

    proptest! {
        #[test]
        fn every_version_agrees((row, from, to) in rows(), top in -40f32..40.0) {
            let most = row[from..to].iter().fold(top, |a, &b| a.max(b));
            let twin: Vec<f64> = row.iter().enumerate().map(|(place, &it)| {
                if (from..to).contains(&place) { f64::from(it - most).exp() } else { 0.0 }
            }).collect();
            let total = twin.iter().sum::<f64>();
            for (largest, exponentials) in versions() {
                prop_assert_eq!(largest(&row, from, to, top), most);
                let mut row = row.clone();
                let sum = exponentials(&mut row, from, to, most);
                for (a, b) in row.iter().zip(&twin) {
                    prop_assert!((f64::from(*a) - b).abs() <= 4e-7 * b, "{a} {b}");
                }
                prop_assert!((f64::from(sum) / total - 1.0).abs() < 1e-5);
            }
            // bf16 has 8 bits.
            for scale in [1.0, 0.25] {
                let mut row: Vec<f32> = row.iter().map(|it| it / scale).collect();
                let mut lanes = vec![-1.0f32; row.len() / 2];
                let sum = rounded_exponentials(&mut row, from, to, most / scale, scale, &mut lanes);
                for (place, b) in twin.iter().enumerate() {
                    let bits = lanes[place / 2].to_bits();
                    let a = f64::from(f32::from_bits(if place % 2 == 0 { bits << 16 } else { bits & 0xffff_0000 }));
                    prop_assert!((a - b).abs() <= (1.0 / 256.0 + 1e-4) * b + 1e-37, "{a} {b}");
                }
                prop_assert!((f64::from(sum) / total - 1.0).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn a_row_that_sees_nothing_keeps_what_it_had() {
        for rounded in [false, true] {
            let (stride, columns) = (48, 32);
            let mut scores = vec![3.0; 2 * stride];
            let mut lanes = vec![7.0; stride];
            let (mut tops, mut sums, mut values) = ([2.0; 2], [1.0; 2], [0.5; 2]);
            let mut state = State {
                tops: &mut tops,
                sums: &mut sums,
                values: &mut values,
                width: 1,
                scale: 1.0,
            };
            let bounds = [(1, 1), (1, 3)];
            let out = rounded.then_some(lanes.as_mut_slice());
            softmax_tile(&mut scores, stride, columns, &bounds, &mut state, out);
            let row = if rounded { &lanes[..16] } else { &scores[..32] };
            assert!(row.iter().all(|&it| it == 0.0));
            let beyond = if rounded { lanes[16] } else { scores[32] };
            assert!(beyond == if rounded { 7.0 } else { 3.0 });
            assert_eq!((tops[0], sums[0], values[0]), (2.0, 1.0, 0.5));
            assert_eq!(tops[1], 3.0);
            let less = (-1f32).exp();
            assert!((sums[1] - (less + 2.0)).abs() < 2e-4 && (values[1] - 0.5 * less).abs() < 1e-6);
        }
    }

    #[test]
    fn a_score_that_is_not_a_number_stays_one() {
        let mut row = [0.5, f32::NAN, 1.0];
        softmax(&mut row);
        assert!(row.iter().all(|it| it.is_nan()), "{row:?}");
    }

    #[test]
    fn large_scores_do_not_overflow() {
        let mut row = [1000.0, 999.0, -1000.0];
        softmax(&mut row);
        assert!((row[0] - 0.731_058_6).abs() < 1e-5 && row[2] < 1e-30);
        assert!(row.iter().all(|it| it.is_finite()));
    }
}
