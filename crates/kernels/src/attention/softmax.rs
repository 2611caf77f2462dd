//! Softmax of a tile of scores that continues where the last block of keys ended.

#[cfg(target_arch = "x86_64")]
use crate::dispatch::{has_avx2, has_avx512};
use crate::{
    dispatch::{BASELINE_FUSES, multiversion},
    elementwise::{exp, tanh_of},
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
}

/// Turns rows of scores into exponentials relative to the largest so far, zeros where a row does not see,
/// and corrects what was summed before. `scores` has `columns` columns in rows of `stride`; row r sees those
/// from `bounds[r].0` to `bounds[r].1`.
pub(super) fn softmax_tile(
    scores: &mut [f32],
    stride: usize,
    columns: usize,
    bounds: &[(usize, usize)],
    state: &mut State<'_>,
) {
    let width = state.width;
    for (number, (row, &(from, to))) in scores.chunks_exact_mut(stride).zip(bounds).enumerate() {
        row[..from].fill(0.0);
        row[to..columns].fill(0.0);
        if from == to {
            continue;
        }
        let row = &mut row[from..to];
        let before = state.tops[number];
        let top = largest(row, before);
        if top > before {
            state.tops[number] = top;
            // Nothing to correct before the first block.
            if before > f32::NEG_INFINITY {
                let less = exp::<false>(before - top);
                state.sums[number] *= less;
                state.values[number * width..][..width].iter_mut().for_each(|it| *it *= less);
            }
        }
        state.sums[number] += exponentials(row, top);
    }
}

/// The largest of `row` and `top`; NaN counts for nothing.
fn largest(row: &[f32], top: f32) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if has_avx512() {
        // SAFETY: the processor has AVX-512.
        return unsafe { crate::x86::wide::largest(row, top) };
    }
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the processor has AVX2 and FMA.
        return unsafe { crate::x86::narrow::largest(row, top) };
    }
    portable_largest(row, top)
}

fn portable_largest(row: &[f32], top: f32) -> f32 {
    lane_fold(row, top, |it| it, |top: f32, it| if it > top { it } else { top })
}

/// Turns scores into e^(score − top) and gives their sum.
fn exponentials(row: &mut [f32], top: f32) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if has_avx512() {
        // SAFETY: the processor has AVX-512.
        return unsafe { crate::x86::wide::exponentials(row, top) };
    }
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the processor has AVX2 and FMA.
        return unsafe { crate::x86::narrow::exponentials(row, top) };
    }
    portable_exponentials::<BASELINE_FUSES>(row, top)
}

fn portable_exponentials<const FUSED: bool>(row: &mut [f32], top: f32) -> f32 {
    for value in row.iter_mut() {
        *value = exp::<FUSED>(*value - top);
    }
    lane_fold(row, 0.0, |it| it, |sum, it| sum + it)
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
        let columns = row.len();
        let (mut tops, mut sums) = ([f32::NEG_INFINITY], [0.0]);
        let mut state = State { tops: &mut tops, sums: &mut sums, values: &mut [0.0], width: 1 };
        softmax_tile(row, columns, columns, &[(0, columns)], &mut state);
        row.iter_mut().for_each(|it| *it /= sums[0]);
    }

    type Version = (fn(&[f32], f32) -> f32, fn(&mut [f32], f32) -> f32);

    /// The routines of every size of registers that this processor has.
    fn versions() -> Vec<Version> {
        #[allow(unused_mut, reason = "on other processors the portable ones are all")]
        let mut versions: Vec<Version> =
            vec![(portable_largest, portable_exponentials::<BASELINE_FUSES>)];
        #[cfg(target_arch = "x86_64")]
        {
            use crate::{
                Isa,
                x86::{narrow, wide},
            };
            // SAFETY: the processor has the features.
            unsafe {
                if Isa::Avx2.runs_here() {
                    versions.push((
                        |row, top| narrow::largest(row, top),
                        |row, top| narrow::exponentials(row, top),
                    ));
                }
                if Isa::Avx512.runs_here() {
                    versions.push((
                        |row, top| wide::largest(row, top),
                        |row, top| wide::exponentials(row, top),
                    ));
                }
            }
        }
        versions
    }

    proptest! {
        #[test]
        fn every_version_agrees(row in prop::collection::vec(-30f32..30.0, 1..90), top in -40f32..40.0) {
            let most = row.iter().fold(top, |a, &b| a.max(b));
            let twin: Vec<f64> = row.iter().map(|&it| f64::from(it - most).exp()).collect();
            for (largest, exponentials) in versions() {
                prop_assert_eq!(largest(&row, top), most);
                let mut row = row.clone();
                let sum = exponentials(&mut row, most);
                for (a, b) in row.iter().zip(&twin) {
                    prop_assert!((f64::from(*a) / b - 1.0).abs() < 4e-7, "{a} {b}");
                }
                prop_assert!((f64::from(sum) / twin.iter().sum::<f64>() - 1.0).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn a_row_that_sees_nothing_keeps_what_it_had() {
        let mut scores = vec![3.0; 8];
        let (mut tops, mut sums, mut values) = ([2.0; 2], [1.0; 2], [0.5; 2]);
        let mut state = State { tops: &mut tops, sums: &mut sums, values: &mut values, width: 1 };
        softmax_tile(&mut scores, 4, 3, &[(1, 1), (1, 3)], &mut state);
        assert_eq!(scores[..4], [0.0, 0.0, 0.0, 3.0]);
        assert_eq!((tops[0], sums[0], values[0]), (2.0, 1.0, 0.5));
        assert_eq!((scores[4], tops[1]), (0.0, 3.0));
        let less = (-1f32).exp();
        assert!((sums[1] - (less + 2.0)).abs() < 1e-6 && (values[1] - 0.5 * less).abs() < 1e-6);
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
