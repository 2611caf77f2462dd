//! How much a mean over finitely many requests may be trusted.

/// Level of the bounds that calibrations report: wrong in one calibration of twenty.
pub const CONFIDENCE: f64 = 0.95;

/// Lower confidence bound of an expectation, from the mean of `n` independent values in 0…1.
///
/// The Chernoff–Hoeffding bound in its relative-entropy form: the least m with
/// `n · kl(mean ‖ m) ≤ ln(1 / (1 − confidence))`. It holds for every finite n and any distribution on
/// 0…1. That matters here, where most values are exactly 1: a bootstrap of a sample without an error says
/// "no errors", and a normal approximation says the same; Hoeffding's plain form is ten times wider.
pub fn lower_bound(mean: f64, n: usize, confidence: f64) -> f64 {
    if n == 0 || mean <= 0.0 {
        return 0.0;
    }
    let mean = mean.min(1.0);
    let allowed = -(1.0 - confidence).ln() / n as f64;
    // The divergence falls from ∞ at 0 to 0 at the mean: 60 halvings reach the resolution of f64.
    let (mut low, mut high) = (0.0, mean);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if divergence(mean, middle) > allowed { low = middle } else { high = middle }
    }
    low
}

/// Relative entropy of two coins, kl(p ‖ q).
fn divergence(p: f64, q: f64) -> f64 {
    let term = |p: f64, q: f64| if p > 0.0 { p * (p / q).ln() } else { 0.0 };
    term(p, q) + term(1.0 - p, 1.0 - q)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn without_an_error_it_is_the_exact_binomial_bound() {
        // Clopper–Pearson for n successes of n: (1 − confidence)^(1/n).
        for n in [1, 10, 300] {
            let exact = 0.05_f64.powf(1.0 / n as f64);
            assert!((lower_bound(1.0, n, 0.95) - exact).abs() < 1e-9);
        }
        assert_eq!(lower_bound(1.0, 0, 0.95), 0.0);
        assert_eq!(lower_bound(0.0, 10, 0.95), 0.0);
    }

    proptest! {
        #[test]
        fn more_requests_and_less_confidence_bring_it_closer(mean in 0.01f64..1.0, n in 1usize..1000) {
            let bound = lower_bound(mean, n, 0.95);
            prop_assert!((0.0..=mean).contains(&bound));
            prop_assert!(lower_bound(mean, n + 1, 0.95) >= bound);
            prop_assert!(lower_bound(mean, n, 0.9) >= bound);
        }

        /// Over many samples of a coin the bound is above the truth in at most one of twenty.
        #[test]
        fn it_covers(p in 0.5f64..1.0, seed in any::<u64>()) {
            let mut state = seed | 1;
            let mut coin = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) as f64 / (1u64 << 53) as f64
            };
            let above = (0..400).filter(|_| {
                let hits = (0..80).filter(|_| coin() < p).count();
                lower_bound(hits as f64 / 80.0, 80, 0.95) > p
            }).count();
            // 5 % of 400 is 20; four standard deviations of the count are allowed on top.
            prop_assert!(above <= 20 + 18, "{above}");
        }
    }
}
