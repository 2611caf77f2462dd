//! A logistic model of a few weights, fitted by Newton's method; and the measures of a limit.

use super::ClaimKind;

/// Steps of Newton's method; it settles in eight.
const STEPS: usize = 25;

/// Weight of the squares of the weights: keeps them finite where a feature separates the labels.
const RIDGE: f64 = 1e-4;

/// Limits that are tried.
const GRID: usize = 200;

/// A judged pair as the fit sees it.
#[derive(Debug, Clone)]
pub(super) struct Example {
    pub(super) kind: ClaimKind,
    /// What the weights are for.
    pub(super) x: Vec<f64>,
}

/// Weights of examples so that both labels count the same, and within a label every kind does.
pub(super) fn balance(kinds: &[ClaimKind]) -> Vec<f64> {
    let count = |kind: ClaimKind| kinds.iter().filter(|it| **it == kind).count();
    let counts: Vec<(ClaimKind, usize)> =
        ClaimKind::ALL.into_iter().map(|it| (it, count(it))).filter(|it| it.1 > 0).collect();
    let of = |kind: ClaimKind| {
        let alike = counts.iter().filter(|it| it.0.is_supported() == kind.is_supported()).count();
        0.5 / (alike * count(kind)) as f64
    };
    let weights: Vec<(ClaimKind, f64)> = counts.iter().map(|it| (it.0, of(it.0))).collect();
    kinds
        .iter()
        .map(|kind| weights.iter().find(|it| it.0 == *kind).map_or(0.0, |it| it.1))
        .collect()
}

/// Bias and weights of the probability that a claim is supported.
pub(super) fn logistic(examples: &[Example]) -> Vec<f64> {
    let kinds: Vec<ClaimKind> = examples.iter().map(|it| it.kind).collect();
    let shares = balance(&kinds);
    let n = examples.first().map_or(0, |it| it.x.len()) + 1;
    let mut weights = vec![0.0; n];
    for _ in 0..STEPS {
        let mut gradient = vec![0.0; n];
        let mut curvature = vec![vec![0.0; n]; n];
        for (example, share) in examples.iter().zip(&shares) {
            let x = |at: usize| if at == 0 { 1.0 } else { example.x[at - 1] };
            let sum: f64 = weights.iter().enumerate().map(|(at, it)| it * x(at)).sum();
            let p = sigmoid(sum);
            let miss = f64::from(u8::from(example.kind.is_supported())) - p;
            for (i, row) in curvature.iter_mut().enumerate() {
                gradient[i] += share * miss * x(i);
                for (j, cell) in row.iter_mut().enumerate() {
                    *cell += share * p * (1.0 - p) * x(i) * x(j);
                }
            }
        }
        for i in 0..n {
            // The bias is free.
            let ridge = if i == 0 { 1e-9 } else { RIDGE };
            gradient[i] -= ridge * weights[i];
            curvature[i][i] += ridge;
        }
        for (weight, step) in weights.iter_mut().zip(solve(curvature, gradient)) {
            *weight += step;
        }
    }
    weights
}

/// Solves `a · x = b` by elimination with pivots; `a` is positive definite.
fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for i in 0..n {
        let pivot = (i..n).max_by(|&p, &q| a[p][i].abs().total_cmp(&a[q][i].abs())).unwrap_or(i);
        a.swap(i, pivot);
        b.swap(i, pivot);
        for row in 0..n {
            if row == i {
                continue;
            }
            let factor = a[row][i] / a[i][i];
            let above = a[i].clone();
            for (cell, above) in a[row].iter_mut().zip(above).skip(i) {
                *cell -= factor * above;
            }
            b[row] -= factor * b[i];
        }
    }
    (0..n).map(|i| b[i] / a[i][i]).collect()
}

/// How well "below the limit" tells what is unsupported, labels and kinds balanced.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Told {
    /// Of what was told, how much is unsupported.
    pub precision: f64,
    /// Of what is unsupported, how much was told.
    pub recall: f64,
    /// Harmonic mean of both.
    pub f1: f64,
}

/// Measures a telling of the unsupported.
pub(super) fn told(kinds: &[ClaimKind], told: &[bool]) -> Told {
    let (mut right, mut wrong) = (0.0, 0.0);
    for ((kind, told), share) in kinds.iter().zip(told).zip(balance(kinds)) {
        match (told, kind.is_supported()) {
            (true, false) => right += share,
            (true, true) => wrong += share,
            _ => {}
        }
    }
    // Each label has half of the weight.
    let recall = right / 0.5;
    let precision = if right > 0.0 { right / (right + wrong) } else { 0.0 };
    let f1 = if right > 0.0 { 2.0 * precision * recall / (precision + recall) } else { 0.0 };
    Told { precision, recall, f1 }
}

/// The limit below which "unsupported" has the best F1, and the lowest one from which on "supported" has at least
/// `precision`; scores are 0…1.
pub(super) fn limits(kinds: &[ClaimKind], scores: &[f32], precision: f64) -> (f32, f32) {
    let grid = (1..GRID).map(|it| it as f32 / GRID as f32);
    let below = |limit: f32| scores.iter().map(|it| *it < limit).collect::<Vec<_>>();
    let f1 = |limit: &f32| told(kinds, &below(*limit)).f1;
    let lower = grid.clone().max_by(|a, b| f1(a).total_cmp(&f1(b))).unwrap_or(0.5);
    let shares = balance(kinds);
    let sure = |limit: &f32| {
        let above = kinds.iter().zip(scores).zip(&shares).filter(|it| *it.0.1 >= *limit);
        let (mut all, mut right) = (0.0, 0.0);
        for ((kind, _), share) in above {
            all += share;
            right += if kind.is_supported() { *share } else { 0.0 };
        }
        all > 0.0 && right / all >= precision
    };
    let upper = grid.filter(|it| *it >= lower).find(|it| sure(it)).unwrap_or(1.0);
    (lower, upper)
}

/// From a sum of evidence to a probability.
pub(super) fn sigmoid(sum: f64) -> f64 {
    1.0 / (1.0 + (-sum).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<Example> {
        let of = |kind, x: f64| Example { kind, x: vec![x, 1.0 - 2.0 * (x - 0.3)] };
        let mut examples: Vec<Example> =
            (0..40).map(|it| of(ClaimKind::Answer, f64::from(it % 10) / 10.0 + 0.4)).collect();
        examples
            .extend((0..10).map(|it| of(ClaimKind::Retrieved, f64::from(it % 10) / 10.0 - 0.2)));
        examples
    }

    #[test]
    fn kinds_count_the_same_however_many_there_are() {
        let kinds: Vec<ClaimKind> = examples().iter().map(|it| it.kind).collect();
        let shares = balance(&kinds);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!((shares[..40].iter().sum::<f64>() - 0.5).abs() < 1e-9);
        // Saying it of everything is right half of the time.
        let all = told(&kinds, &[true; 50]);
        assert!((all.f1 - 2.0 / 3.0).abs() < 1e-9, "{all:?}");
        assert_eq!(told(&kinds, &[false; 50]), Told::default());
    }

    #[test]
    fn the_fit_finds_the_direction_and_the_limits_their_order() {
        let examples = examples();
        let weights = logistic(&examples);
        let score = |it: &Example| {
            let sum: f64 = weights[0] + weights[1] * it.x[0] + weights[2] * it.x[1];
            sigmoid(sum) as f32
        };
        let scores: Vec<f32> = examples.iter().map(score).collect();
        let kinds: Vec<ClaimKind> = examples.iter().map(|it| it.kind).collect();
        let (lower, upper) = limits(&kinds, &scores, 0.95);
        assert!(0.0 < lower && lower <= upper && upper <= 1.0, "{lower} {upper}");
        let below: Vec<bool> = scores.iter().map(|it| *it < lower).collect();
        assert!(told(&kinds, &below).f1 > 0.8, "{scores:?} {lower}");
    }

    #[test]
    fn elimination_solves() {
        let x = solve(vec![vec![0.0, 2.0], vec![4.0, 1.0]], vec![2.0, 9.0]);
        assert_eq!(x, [2.0, 1.0]);
    }
}
