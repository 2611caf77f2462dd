//! Normalization and pooling over rows.

use rayon::prelude::*;

use crate::dispatch::{PART, multiversion};

/// Mean and 1/σ of a row, in two passes: the mean of squares minus the squared mean would cancel where
/// the mean is large.
#[inline(always)]
fn moments(row: &[f32], epsilon: f32) -> (f32, f32) {
    let n = row.len() as f32;
    let add = |sum, it| sum + it;
    let mean = lane_fold(row, 0.0, |it| it, add) / n;
    let variance = lane_fold(row, 0.0, |it| (it - mean) * (it - mean), add) / n;
    (mean, 1.0 / (variance + epsilon).sqrt())
}

/// Folds `map` of every value in sixteen lanes of their own, which the compiler may not do by itself
/// because it changes the order of the operations. Sixteen fill one AVX-512 register or two of AVX2.
#[inline(always)]
pub(crate) fn lane_fold(
    row: &[f32],
    start: f32,
    map: impl Fn(f32) -> f32,
    fold: impl Fn(f32, f32) -> f32,
) -> f32 {
    const LANES: usize = 16;
    let mut lanes = [start; LANES];
    let (chunks, rest) = row.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = fold(*lane, map(value));
        }
    }
    let rest = rest.iter().fold(start, |folded, &it| fold(folded, map(it)));
    lanes.into_iter().fold(rest, fold)
}

multiversion! {
    /// Layer normalization of every row of `values` `[rows, gain.len()]`, in place: (x − μ)/σ · gain + bias.
    pub fn layer_norm(values: &mut [f32], gain: &[f32], bias: &[f32], epsilon: f32) {
        for row in values.chunks_exact_mut(gain.len()) {
            let (mean, scale) = moments(row, epsilon);
            for ((value, gain), bias) in row.iter_mut().zip(gain).zip(bias) {
                *value = (*value - mean) * scale * gain + bias;
            }
        }
    }
}

/// Root mean square normalization (Zhang & Sennrich 2019) of rows of `gain.len()` elements, from `values`
/// into `out`: x / √(mean x² + ε) · gain. Runs on the threads of the current pool.
///
/// # Panics
/// When the slices differ in length or hold no whole rows: the caller's bug.
pub fn rms_norm(values: &[f32], gain: &[f32], epsilon: f32, out: &mut [f32]) {
    rows_into(values, gain.len(), out, |values, out| rms_norm_part(values, gain, epsilon, out));
}

multiversion! {
    fn rms_norm_part(values: &[f32], gain: &[f32], epsilon: f32, out: &mut [f32]) {
        let width = gain.len();
        for (row, out) in values.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            let squares = lane_fold(row, 0.0, |it| it * it, |sum, it| sum + it);
            let scale = 1.0 / (squares / width as f32 + epsilon).sqrt();
            for ((out, value), gain) in out.iter_mut().zip(row).zip(gain) {
                *out = value * scale * gain;
            }
        }
    }
}

/// [`layer_norm`] from `values` into `out`, without a bias where `bias` is empty. Runs on the threads of
/// the current pool.
///
/// # Panics
/// When the slices differ in length or hold no whole rows: the caller's bug.
pub fn layer_norm_into(values: &[f32], gain: &[f32], bias: &[f32], epsilon: f32, out: &mut [f32]) {
    rows_into(values, gain.len(), out, |values, out| {
        out.copy_from_slice(values);
        if bias.is_empty() {
            scale_norm(out, gain, epsilon);
        } else {
            layer_norm(out, gain, bias, epsilon);
        }
    });
}

multiversion! {
    /// Layer normalization without a bias, in place.
    fn scale_norm(values: &mut [f32], gain: &[f32], epsilon: f32) {
        for row in values.chunks_exact_mut(gain.len()) {
            let (mean, scale) = moments(row, epsilon);
            for (value, gain) in row.iter_mut().zip(gain) {
                *value = (*value - mean) * scale * gain;
            }
        }
    }
}

/// Runs `part` over whole rows of both slices, on the threads of the current pool.
fn rows_into(
    values: &[f32],
    width: usize,
    out: &mut [f32],
    part: impl Fn(&[f32], &mut [f32]) + Sync,
) {
    assert_eq!(values.len(), out.len(), "values and out differ in length");
    assert!(values.len().is_multiple_of(width), "values hold no whole rows of {width}");
    let step = (PART / width).max(1) * width;
    if values.len() <= step {
        part(values, out);
    } else {
        let parts = values.par_chunks(step).zip(out.par_chunks_mut(step));
        parts.for_each(|(values, out)| part(values, out));
    }
}

multiversion! {
    /// Root mean square normalization of each head of some columns, in place: `values` `[rows, stride]`, of
    /// which `columns` from `first` on are heads of `gain.len()` elements (Qwen3's query and key norms).
    pub fn rms_norm_heads(values: &mut [f32], stride: usize, first: usize, columns: usize, gain: &[f32], epsilon: f32) {
        let dim = gain.len();
        for row in values.chunks_exact_mut(stride) {
            for head in row[first..first + columns].chunks_exact_mut(dim) {
                let squares = lane_fold(head, 0.0, |it| it * it, |sum, it| sum + it);
                let scale = 1.0 / (squares / dim as f32 + epsilon).sqrt();
                for (value, gain) in head.iter_mut().zip(gain) {
                    *value = *value * scale * gain;
                }
            }
        }
    }
}

/// Residual and layer normalization in one pass: `values = layer_norm(values + delta)`, both
/// `[rows, gain.len()]`. Runs on the threads of the current pool.
///
/// # Panics
/// When the slices differ in length or hold no whole rows: the caller's bug.
pub fn add_layer_norm(values: &mut [f32], delta: &[f32], gain: &[f32], bias: &[f32], epsilon: f32) {
    let width = gain.len();
    assert_eq!(values.len(), delta.len(), "values and delta differ in length");
    assert!(values.len().is_multiple_of(width), "values hold no whole rows of {width}");
    // Whole rows, at least one.
    let part = (PART / width).max(1) * width;
    if values.len() <= part {
        add_layer_norm_part(values, delta, gain, bias, epsilon);
    } else {
        let parts = values.par_chunks_mut(part).zip(delta.par_chunks(part));
        parts.for_each(|(values, delta)| add_layer_norm_part(values, delta, gain, bias, epsilon));
    }
}

multiversion! {
    fn add_layer_norm_part(values: &mut [f32], delta: &[f32], gain: &[f32], bias: &[f32], epsilon: f32) {
        let width = gain.len();
        for (row, delta) in values.chunks_exact_mut(width).zip(delta.chunks_exact(width)) {
            for (value, delta) in row.iter_mut().zip(delta) {
                *value += delta;
            }
            let (mean, scale) = moments(row, epsilon);
            for ((value, gain), bias) in row.iter_mut().zip(gain).zip(bias) {
                *value = (*value - mean) * scale * gain + bias;
            }
        }
    }
}

/// Mean over the rows of `values` `[rows, out.len()]`; zeros when there are no rows.
pub fn mean_pool(values: &[f32], out: &mut [f32]) {
    out.fill(0.0);
    let rows = values.chunks_exact(out.len());
    let count = rows.len();
    for row in rows {
        for (sum, value) in out.iter_mut().zip(row) {
            *sum += value;
        }
    }
    if count > 0 {
        let scale = 1.0 / count as f32;
        out.iter_mut().for_each(|it| *it *= scale);
    }
}

/// Scales a vector to length 1; a vector of zeros stays as it is.
pub fn l2_normalize(values: &mut [f32]) {
    // Guards the division as PyTorch's `normalize` does.
    const SMALLEST: f32 = 1e-12;
    let length = values.iter().map(|it| it * it).sum::<f32>().sqrt().max(SMALLEST);
    values.iter_mut().for_each(|it| *it /= length);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn naive(row: &[f32], gain: &[f32], bias: &[f32], epsilon: f64) -> Vec<f32> {
        let n = row.len() as f64;
        let mean = row.iter().map(|&it| f64::from(it)).sum::<f64>() / n;
        let variance = row.iter().map(|&it| (f64::from(it) - mean).powi(2)).sum::<f64>() / n;
        row.iter()
            .zip(gain.iter().zip(bias))
            .map(|(&x, (&g, &b))| {
                ((f64::from(x) - mean) / (variance + epsilon).sqrt()) as f32 * g + b
            })
            .collect()
    }

    proptest! {
        #[test]
        fn equals_the_definition(row in prop::collection::vec(-3f32..3.0, 1..70), delta in -1f32..1.0) {
            let gain: Vec<f32> = (0..row.len()).map(|i| 1.0 + i as f32 * 0.01).collect();
            let bias: Vec<f32> = (0..row.len()).map(|i| i as f32 * 0.1).collect();
            let mut values = row.clone();
            layer_norm(&mut values, &gain, &bias, 1e-12);
            let spread = row.iter().any(|it| (it - row[0]).abs() > 1e-2);
            prop_assume!(spread);
            for (a, b) in values.iter().zip(naive(&row, &gain, &bias, 1e-12)) {
                prop_assert!((a - b).abs() < 1e-3, "{a} {b}");
            }
            let deltas: Vec<f32> = (0..row.len()).map(|i| delta * (i % 3) as f32).collect();
            let sums: Vec<f32> = row.iter().zip(&deltas).map(|(a, b)| a + b).collect();
            let mut fused = row.clone();
            add_layer_norm(&mut fused, &deltas, &gain, &bias, 1e-5);
            for (a, b) in fused.iter().zip(naive(&sums, &gain, &bias, 1e-5)) {
                prop_assert!((a - b).abs() < 1e-2, "{a} {b}");
            }
        }
    }

    #[test]
    fn every_version_agrees_to_the_last_bit() {
        let width = 53;
        let values: Vec<f32> = (0..4 * width).map(|i| ((i * 31) % 97) as f32 / 9.0).collect();
        let (gain, bias) = (vec![1.5; width], vec![0.25; width]);
        let plain = layer_norm::versions().into_iter().map(|version| {
            let mut values = values.clone();
            version(&mut values, &gain, &bias, 1e-12);
            values
        });
        let zeros = vec![0.0; values.len()];
        let fused = add_layer_norm_part::versions().into_iter().map(|version| {
            let mut values = values.clone();
            version(&mut values, &zeros, &gain, &bias, 1e-12);
            values
        });
        // Adding zeros changes nothing, so the fused ones agree with the plain ones, too.
        let results: Vec<Vec<f32>> = plain.chain(fused).collect();
        assert!(results.iter().all(|it| *it == results[0]));
    }

    #[test]
    fn many_rows_on_many_threads_equal_row_by_row() {
        // Rows of 384 in more parts than threads, the last one short.
        let width = 384;
        let rows = 3 * PART / width + 5;
        let value = |i: usize| ((i * 31 + i / 7) % 101) as f32 / 50.0 - 1.0;
        let values: Vec<f32> = (0..rows * width).map(value).collect();
        let delta: Vec<f32> = (0..rows * width).map(|i| value(i + 13)).collect();
        let (gain, bias) = (vec![1.5; width], vec![0.25; width]);
        let mut expected = values.clone();
        for (row, delta) in expected.chunks_mut(width).zip(delta.chunks(width)) {
            add_layer_norm(row, delta, &gain, &bias, 1e-12);
        }
        let mut all = values;
        add_layer_norm(&mut all, &delta, &gain, &bias, 1e-12);
        assert_eq!(all, expected);
    }

    #[test]
    fn pooling_and_length() {
        let mut mean = [0.0; 2];
        mean_pool(&[1.0, 2.0, 3.0, 6.0], &mut mean);
        assert_eq!(mean, [2.0, 4.0]);
        mean_pool(&[], &mut mean);
        assert_eq!(mean, [0.0, 0.0]);
        let mut vector = [3.0, 4.0];
        l2_normalize(&mut vector);
        assert!((vector[0] - 0.6).abs() < 1e-6 && (vector[1] - 0.8).abs() < 1e-6);
        let mut zeros = [0.0; 3];
        l2_normalize(&mut zeros);
        assert_eq!(zeros, [0.0; 3]);
    }

    proptest! {
        #[test]
        fn root_mean_squares_equal_the_definition(
            values in prop::collection::vec(-3f32..3.0, 24), epsilon in prop::sample::select(vec![1e-6f32, 1e-5]),
        ) {
            let gain = [0.5, 1.0, 2.0, -1.0, 1.5, 0.1];
            let expected: Vec<f32> = values
                .chunks(6)
                .flat_map(|row| {
                    let mean = row.iter().map(|&it| f64::from(it).powi(2)).sum::<f64>() / 6.0;
                    let scale = 1.0 / (mean + f64::from(epsilon)).sqrt();
                    row.iter().zip(gain).map(move |(&it, g)| (f64::from(it) * scale) as f32 * g)
                })
                .collect();
            let mut out = vec![f32::NAN; 24];
            rms_norm(&values, &gain, epsilon, &mut out);
            // Two heads of six in the middle of rows of 24, of which there is one.
            let mut heads = values.clone();
            rms_norm_heads(&mut heads, 24, 6, 12, &gain, epsilon);
            for i in 0..24 {
                prop_assert!((out[i] - expected[i]).abs() < 1e-4, "{} {}", out[i], expected[i]);
                let middle = if (6..18).contains(&i) { expected[i] } else { values[i] };
                prop_assert!((heads[i] - middle).abs() < 1e-4);
            }
        }

        #[test]
        fn out_of_place_equals_in_place(values in prop::collection::vec(-3f32..3.0, 30)) {
            let gain = [1.0, 2.0, 3.0, 4.0, 5.0];
            for bias in [&[][..], &[0.5, -0.5, 1.0, 0.0, 0.25]] {
                let mut expected = values.clone();
                layer_norm(&mut expected, &gain, if bias.is_empty() { &[0.0; 5] } else { bias }, 1e-5);
                let mut out = vec![f32::NAN; 30];
                layer_norm_into(&values, &gain, bias, 1e-5, &mut out);
                prop_assert_eq!(out, expected);
            }
        }
    }

    #[test]
    fn every_version_of_the_root_mean_square_agrees() {
        let values: Vec<f32> = (0..212).map(|i| ((i * 31) % 97) as f32 / 9.0).collect();
        let gain = [1.25; 53];
        let results: Vec<Vec<f32>> = rms_norm_part::versions()
            .into_iter()
            .map(|version| {
                let mut out = vec![0.0; values.len()];
                version(&values, &gain, 1e-6, &mut out);
                out
            })
            .chain(rms_norm_heads::versions().into_iter().map(|version| {
                let mut out = values.clone();
                version(&mut out, 53, 0, 53, &gain, 1e-6);
                out
            }))
            .collect();
        assert!(results.iter().all(|it| *it == results[0]));
    }
}
