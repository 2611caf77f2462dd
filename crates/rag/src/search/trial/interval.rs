//! Means and their intervals, by drawing the questions anew.

/// Draws; the ends of an interval move by some thousandths from one set of draws to the next.
const DRAWS: usize = 2_000;

/// A mean and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Interval {
    /// The mean; 0 of nothing.
    pub mean: f32,
    /// Its lower end.
    pub low: f32,
    /// Its upper end.
    pub high: f32,
}

/// Of values, by the percentile bootstrap (Efron 1979): the same values give the same interval.
pub(super) fn interval(values: &[f32]) -> Interval {
    if values.is_empty() {
        return Interval::default();
    }
    let mut random = fastrand::Rng::with_seed(values.len() as u64);
    let mean = |sum: f64| (sum / values.len() as f64) as f32;
    let mut means: Vec<f32> = (0..DRAWS)
        .map(|_| {
            let drawn = (0..values.len()).map(|_| f64::from(values[random.usize(..values.len())]));
            mean(drawn.sum())
        })
        .collect();
    means.sort_unstable_by(f32::total_cmp);
    Interval {
        mean: mean(values.iter().copied().map(f64::from).sum()),
        low: means[DRAWS / 40],
        high: means[DRAWS - 1 - DRAWS / 40],
    }
}

/// Of what `a` has more than `b`, question by question; those that only one has are left out.
pub(super) fn difference(a: &[f32], b: &[f32]) -> Interval {
    let pairs: Vec<f32> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    interval(&pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_hold_the_mean_and_narrow() {
        let values = |count: usize| (0..count).map(|it| (it % 4) as f32 / 3.0).collect::<Vec<_>>();
        let (few, many) = (interval(&values(12)), interval(&values(400)));
        for it in [few, many] {
            assert!(
                (it.mean - 0.5).abs() < 1e-3 && it.low < it.mean && it.mean < it.high,
                "{it:?}"
            );
        }
        assert!(many.high - many.low < (few.high - few.low) / 3.0);
        // The mean's standard error is σ/√n: 1.96 of it on both sides.
        let expected = 1.96 * (5.0f32 / 36.0).sqrt() / 20.0;
        assert!((many.high - many.mean - expected).abs() < 0.15 * expected, "{many:?}");
        assert_eq!(interval(&[]), Interval::default());
        assert_eq!(interval(&[0.25]), Interval { mean: 0.25, low: 0.25, high: 0.25 });
        assert_eq!(difference(&[1.0, 0.5, 9.0], &[0.5, 0.0]).mean, 0.5);
    }
}
