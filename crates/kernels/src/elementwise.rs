//! Activations, element by element, in place.

use rayon::prelude::*;

use crate::dispatch::{PART, multiversion};

/// eˣ by range reduction to ±ln 2 / 2 and a polynomial of degree 6 (Cephes' `expf`): relative error
/// below 2e-7, and nothing in it stops the compiler from vectorizing the loop around it. NaN stays NaN.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Below −87 the result is no longer a normal number, above 88 it is infinite.
    let x = x.clamp(-87.0, 88.0);
    // Adding 1.5 · 2²³ rounds to the nearest integer n and leaves n in the lowest bits of the sum:
    // neither a rounding instruction nor a conversion is needed, which check for overflow one by one.
    const ROUND: f32 = 12_582_912.0;
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    // ln 2 in two parts, so that n · ln 2 is exact enough.
    let r = x - n * 0.693_359_4 - n * -2.121_944_4e-4;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let value = p * r * r + r + 1.0;
    // 2ⁿ: n added to the exponent of 1; n is in −126…127 after the clamp.
    value * f32::from_bits((shifted.to_bits() << 23).wrapping_add(1f32.to_bits()))
}

/// The error function (Abramowitz & Stegun 7.1.26): absolute error below 2e-7 plus rounding.
#[inline(always)]
fn erf(x: f32) -> f32 {
    let a = x.abs();
    let t = 1.0 / (1.0 + 0.327_591_1 * a);
    let p = 1.061_405_4;
    let p = p * t - 1.453_152_1;
    let p = p * t + 1.421_413_8;
    let p = p * t - 0.284_496_72;
    let p = p * t + 0.254_829_6;
    let y = 1.0 - p * t * exp(-a * a);
    y.copysign(x)
}

/// GELU in its exact form, x · Φ(x), in place: Hugging Face's `hidden_act = "gelu"`. Absolute error
/// below 1e-6 for |x| ≤ 10. NaN stays NaN. Runs on the threads of the current pool.
pub fn gelu(values: &mut [f32]) {
    if values.len() <= PART {
        gelu_part(values);
    } else {
        values.par_chunks_mut(PART).for_each(gelu_part);
    }
}

multiversion! {
    fn gelu_part(values: &mut [f32]) {
        for value in values {
            let x = *value;
            *value = 0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2));
        }
    }
}

/// tanh, in place. Used on one token per sequence only: the library's own is fast enough.
pub fn tanh(values: &mut [f32]) {
    for value in values {
        *value = value.tanh();
    }
}

/// 1 / (1 + e⁻ˣ).
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// erf by its Taylor series in f64, for |x| ≤ 3; beyond, 1 to the accuracy tested.
    fn erf_naive(x: f64) -> f64 {
        if x.abs() > 5.0 {
            return x.signum();
        }
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    }

    proptest! {
        #[test]
        fn gelu_equals_its_definition(x in -4.5f32..4.5) {
            let mut value = [x];
            gelu(&mut value);
            let x = f64::from(x);
            let expected = 0.5 * x * (1.0 + erf_naive(x / 2f64.sqrt()));
            prop_assert!((f64::from(value[0]) - expected).abs() < 1e-6, "{} {expected}", value[0]);
        }

        #[test]
        fn exp_is_within_rounding(x in -80f32..80.0) {
            let expected = f64::from(x).exp();
            prop_assert!((f64::from(exp(x)) / expected - 1.0).abs() < 3e-7);
        }
    }

    #[test]
    fn every_version_agrees_to_the_last_bit() {
        let values: Vec<f32> = (0..1003).map(|i| (i as f32 - 500.0) / 61.0).collect();
        let results: Vec<Vec<f32>> = gelu_part::versions()
            .into_iter()
            .map(|version| {
                let mut values = values.clone();
                version(&mut values);
                values
            })
            .collect();
        assert!(results.iter().all(|it| *it == results[0]));
    }

    #[test]
    fn long_slices_are_cut_without_a_gap() {
        let values: Vec<f32> = (0..3 * PART + 7).map(|i| (i % 97) as f32 / 10.0 - 4.8).collect();
        let mut all = values.clone();
        gelu(&mut all);
        for (value, &x) in all.iter().zip(&values) {
            let mut alone = [x];
            gelu(&mut alone);
            assert_eq!(*value, alone[0]);
        }
    }

    #[test]
    fn tails_are_exact_and_nan_stays() {
        let mut values = [-40.0, 40.0, 0.0, f32::NAN];
        gelu(&mut values);
        assert_eq!(values[..3], [0.0, 40.0, 0.0]);
        assert!(values[3].is_nan());
    }
}
