//! Softmax of a tile of scores that continues where the last block of keys ended.

use crate::{dispatch::multiversion, elementwise::exp, norm::lane_fold};

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

multiversion! {
    /// Turns rows of scores into exponentials relative to the largest so far, zeros where a row does not see,
    /// and corrects what was summed before. `scores` has `columns` columns in rows of `stride`; row r sees those
    /// from `bounds[r].0` to `bounds[r].1`.
    pub(super) fn softmax_tile(scores: &mut [f32], stride: usize, columns: usize, bounds: &[(usize, usize)], state: &mut State<'_>) {
        let width = state.width;
        for (number, (row, &(from, to))) in scores.chunks_exact_mut(stride).zip(bounds).enumerate() {
            row[..from].fill(0.0);
            row[to..columns].fill(0.0);
            if from == to {
                continue;
            }
            let row = &mut row[from..to];
            let larger = |top: f32, it| if it > top { it } else { top };
            let before = state.tops[number];
            let top = lane_fold(row, before, |it| it, larger);
            if top > before {
                state.tops[number] = top;
                // Nothing to correct before the first block.
                if before > f32::NEG_INFINITY {
                    let less = exp(before - top);
                    state.sums[number] *= less;
                    state.values[number * width..][..width].iter_mut().for_each(|it| *it *= less);
                }
            }
            for value in row.iter_mut() {
                *value = exp(*value - top);
            }
            state.sums[number] += lane_fold(row, 0.0, |it| it, |sum, it| sum + it);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Softmax of one row, by the tile's routine and the division that follows it.
    fn softmax(row: &mut [f32]) {
        let columns = row.len();
        let (mut tops, mut sums) = ([f32::NEG_INFINITY], [0.0]);
        let mut state = State { tops: &mut tops, sums: &mut sums, values: &mut [0.0], width: 1 };
        softmax_tile(row, columns, columns, &[(0, columns)], &mut state);
        row.iter_mut().for_each(|it| *it /= sums[0]);
    }

    #[test]
    fn every_version_agrees_to_the_last_bit() {
        let (columns, stride) = (53, 60);
        let scores: Vec<f32> = (0..4 * stride).map(|i| ((i * 31) % 97) as f32 / 9.0).collect();
        let bounds = [(0, 53), (7, 30), (0, 0), (52, 53)];
        let results: Vec<_> = softmax_tile::versions()
            .into_iter()
            .map(|version| {
                let mut scores = scores.clone();
                let (mut tops, mut sums, mut values) = ([2.0; 4], [1.0; 4], [0.5; 8]);
                let mut state =
                    State { tops: &mut tops, sums: &mut sums, values: &mut values, width: 2 };
                version(&mut scores, stride, columns, &bounds, &mut state);
                (scores, tops, sums, values)
            })
            .collect();
        assert!(results.iter().all(|it| *it == results[0]));
        // A row that sees nothing keeps what it had.
        assert_eq!((results[0].1[2], results[0].2[2]), (2.0, 1.0));
        assert!(results[0].0[2 * stride..][..columns].iter().all(|&it| it == 0.0));
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
