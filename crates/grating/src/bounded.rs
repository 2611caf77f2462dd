//! Pruning with a stated error probability: the second policy beside the paper's.
//!
//! A candidate is dropped once it is so far below the last open slot, and accepted once it is so far above
//! the first place outside, that too few of the recorded requests saw a gap like that turn around. How
//! far that is, is learned in two steps from different requests:
//!
//! 1. *Margins*, per layer: how far the candidates around the boundary still move relative to each other
//!    until the last layer (standard deviation, in raw scores). They say how reliable each layer is
//!    compared with the others, and promise nothing. Of the scales tried on 300 recorded requests (these;
//!    those over all candidates; how far the worst winner is below the boundary, as a mean or a quantile;
//!    each as it is or divided by the spread of the layer's scores) this one computed least at equal
//!    precision, in nearly every mode and size of the result.
//! 2. A *factor* that all margins are multiplied by. On the other requests the policy is replayed with every
//!    factor of a fixed grid, and the least factor is taken whose risk is low enough (conformal risk
//!    control, Angelopoulos et al. 2022, Theorem 1).
//!
//! **What is promised.** If a new request comes from the same source as the recorded ones (exchangeable:
//! same kind of queries, same retriever, similar number of candidates), then over the draw of recorded and
//! new requests together
//!
//! - [`Guarantee::Result`]: the expected share of the full forward's top-k that is missing is at most α:
//!   "at most 1 in 100 results differs";
//! - [`Guarantee::Request`]: the probability that anything is missing is at most α.
//!
//! Whole runs are replayed, so all layers and candidates are in the risk already and α is split over
//! nothing. The promise is for the mode and size of the result that were calibrated, on average over
//! requests, not for each query by itself; it says nothing about requests of another kind. It needs at
//! least 1/α − 1 requests in step 2.

use riddle_types::Decision;
use serde::{Deserialize, Serialize};

use crate::{
    LayerView, Mode, PruningPolicy, Result,
    calibrate::{Measured, Outcome, Sample},
};

/// One request of this many teaches the margins, the others the factor. The margins are a few means and
/// need little; each request that goes to the factor tightens the promise.
const MARGINS_EVERY: usize = 4;

/// Least factor of the grid, in margins.
const LEAST_FACTOR: f32 = 0.02;

/// Ratio of neighbors on the grid: finer steps than 8 % change the cost by less than a percent.
const GRID_RATIO: f32 = 1.08;

/// Factors on the grid: the largest is above 40 margins, where nothing is pruned any more.
const GRID_LEN: usize = 100;

/// What an error probability is the probability of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Guarantee {
    /// The expected share of results that differ.
    #[default]
    Result,
    /// The probability that a request has any result that differs.
    Request,
}

/// One factor of the grid and its risks on the requests of step 2.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BoundedPoint {
    /// The factor.
    pub factor: f32,
    /// Mean over requests of the largest share of missing results at this factor or any larger one.
    pub result_risk: f64,
    /// Share of the requests in which anything is missing at this factor or any larger one.
    pub request_risk: f64,
    /// What the policy does at this factor.
    #[serde(flatten)]
    pub measured: Measured,
}

/// What was learned for one mode and size of the result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Bounded {
    /// Per layer, from the first, in raw scores; `None` where nobody may be judged.
    pub margins: Vec<Option<f32>>,
    /// Ascending factors.
    pub points: Vec<BoundedPoint>,
}

impl Bounded {
    pub(crate) fn learn(samples: &[Sample<'_>], mode: Mode, top_k: usize) -> Result<Bounded> {
        let fits = |number: usize| number.is_multiple_of(MARGINS_EVERY);
        let part = |wanted: bool| {
            let numbered = samples.iter().enumerate();
            numbered.filter(move |it| fits(it.0) == wanted).map(|it| it.1)
        };
        let margins = margins(part(true), top_k);
        let factors = (0..GRID_LEN).map(|it| LEAST_FACTOR * GRID_RATIO.powi(it as i32));
        let mut policy = BoundedError { margins, factor: 0.0 };
        let controls: Vec<&Sample<'_>> = part(false).collect();
        // Per request, the largest loss from this factor on: the walk is downwards.
        let mut worst = vec![0.0_f64; controls.len()];
        let mut points = Vec::with_capacity(GRID_LEN);
        for factor in factors.rev() {
            policy.factor = factor;
            let outcomes: Vec<Outcome> =
                controls.iter().map(|it| it.replay(&policy, mode, top_k)).collect::<Result<_>>()?;
            for (worst, outcome) in worst.iter_mut().zip(&outcomes) {
                *worst = worst.max(1.0 - outcome.precision);
            }
            let n = controls.len().max(1) as f64;
            points.push(BoundedPoint {
                factor,
                result_risk: worst.iter().sum::<f64>() / n,
                request_risk: worst.iter().filter(|&&it| it > 0.0).count() as f64 / n,
                measured: Measured::mean(outcomes.iter()),
            });
        }
        points.reverse();
        Ok(Bounded { margins: policy.margins, points })
    }

    /// The point with the least factor whose risk, corrected for the finite number of requests, is at most
    /// `probability`: n/(n+1) · risk + 1/(n+1), the largest loss being 1.
    pub fn point_for(&self, probability: f64, guarantee: Guarantee) -> Option<&BoundedPoint> {
        self.points.iter().find(|it| {
            let n = it.measured.queries as f64;
            let risk = match guarantee {
                Guarantee::Result => it.result_risk,
                Guarantee::Request => it.request_risk,
            };
            n > 0.0 && (n * risk + 1.0) / (n + 1.0) <= probability
        })
    }

    /// The policy at [`point_for`](Self::point_for).
    pub fn policy_for(&self, probability: f64, guarantee: Guarantee) -> Option<BoundedError> {
        let factor = self.point_for(probability, guarantee)?.factor;
        Some(BoundedError { margins: self.margins.clone(), factor })
    }
}

/// Step 1: how far candidates around the boundary still move after each layer.
fn margins<'a>(samples: impl Iterator<Item = &'a Sample<'a>>, top_k: usize) -> Vec<Option<f32>> {
    // Per layer: requests, and the sum of the variances.
    let mut sums: Vec<(f64, f64)> = Vec::new();
    for sample in samples.filter(|it| it.candidates > top_k) {
        let layers = &sample.trace.layers;
        let last = &layers[layers.len() - 1].scores;
        let near = top_k.saturating_sub(NEIGHBORS)..(top_k + NEIGHBORS).min(sample.candidates);
        let near = &sample.order[near];
        sums.resize(layers.len(), (0.0, 0.0));
        for (sum, event) in sums.iter_mut().zip(layers).filter(|it| !it.1.scores.is_empty()) {
            let moves = || near.iter().map(|&it| f64::from(last[it]) - f64::from(event.scores[it]));
            let mean = moves().sum::<f64>() / near.len() as f64;
            let variance = moves().map(|it| (it - mean).powi(2)).sum::<f64>() / near.len() as f64;
            *sum = (sum.0 + 1.0, sum.1 + variance);
        }
    }
    // A layer after which nothing moved in the few requests of step 1 gets a small margin and not 0,
    // because a factor can not enlarge 0.
    let margin =
        |(n, sum): (f64, f64)| (n > 0.0).then(|| ((sum / n).sqrt() as f32).max(LEAST_MARGIN));
    sums.into_iter().map(margin).collect()
}

/// Candidates on each side of the boundary that teach the margins: enough to measure a spread, near enough
/// to be in doubt.
const NEIGHBORS: usize = 5;

/// In raw scores; logits of rerankers differ by units.
const LEAST_MARGIN: f32 = 1e-2;

/// Drops and accepts by distance from the boundary, in margins of the layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoundedError {
    /// Per layer, from the first, in raw scores; `None`, or no entry: nobody is judged.
    pub margins: Vec<Option<f32>>,
    /// What the margins are multiplied by.
    pub factor: f32,
}

impl PruningPolicy for BoundedError {
    fn judge(&self, view: &LayerView<'_>) -> Vec<Decision> {
        let mut descending = view.raw.to_vec();
        descending.sort_by(|a, b| b.total_cmp(a));
        let last_inside = view.open_slots.checked_sub(1).and_then(|it| descending.get(it));
        let (Some(margin), Some(&inside), Some(&outside)) =
            (self.margin(view.layer), last_inside, descending.get(view.open_slots))
        else {
            return vec![Decision::Keep; view.raw.len()];
        };
        let distance = self.factor * margin;
        let decide = |&raw: &f32| {
            if inside - raw > distance {
                Decision::Drop
            } else if raw - outside > distance {
                Decision::Accept
            } else {
                Decision::Keep
            }
        };
        view.raw.iter().map(decide).collect()
    }

    fn wants(&self, layer: u32) -> bool {
        self.margin(layer).is_some()
    }
}

impl BoundedError {
    fn margin(&self, layer: u32) -> Option<f32> {
        *self.margins.get((layer as usize).checked_sub(1)?)?
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{calibrate::tests::Noise, evaluate};

    fn learn(noise: &mut Noise, n: usize, mode: Mode, k: usize) -> Bounded {
        let traces = noise.traces(n);
        let samples = Sample::all(&traces).expect("samples");
        Bounded::learn(&samples, mode, k).expect("learns")
    }

    /// The promise, over many draws of recorded and new requests from one source.
    #[test]
    fn the_stated_probability_holds_for_new_requests() {
        // Standard errors of the mean that are allowed: one run in thirty thousand would fail by chance,
        // and this one is the same every time.
        const ERRORS: f64 = 4.0;
        for (mode, k) in [(Mode::Set, 3), (Mode::Order, 2)] {
            let mut noise = Noise(17 + k as u64);
            for (guarantee, probability) in [(Guarantee::Result, 0.05), (Guarantee::Request, 0.1)] {
                let mut losses = Vec::new();
                let mut share = 0.0;
                for _ in 0..24 {
                    let bounded = learn(&mut noise, 80, mode, k);
                    let policy =
                        bounded.policy_for(probability, guarantee).expect("60 requests do");
                    let new = noise.traces(60);
                    let measured = evaluate(&new, &policy, mode, k).expect("evaluates");
                    share += measured.candidate_layers_share / 24.0;
                    losses.push(match guarantee {
                        Guarantee::Result => 1.0 - measured.precision,
                        Guarantee::Request => measured.requests_changed,
                    });
                }
                let n = losses.len() as f64;
                let mean = losses.iter().sum::<f64>() / n;
                let error =
                    (losses.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / n / n).sqrt();
                assert!(
                    mean <= probability + ERRORS * error,
                    "{mode} {guarantee:?}: {mean} ± {error}"
                );
                // And it is worth something: a policy that never prunes keeps every promise.
                assert!(share < 0.95, "{mode} {guarantee:?}: {share}");
            }
        }
    }

    #[test]
    fn too_few_requests_promise_nothing() {
        let bounded = learn(&mut Noise(2), 40, Mode::Set, 3);
        // 30 requests teach the factor: 1 / 31 is the least that they can promise.
        assert!(bounded.point_for(0.03, Guarantee::Result).is_none());
        assert!(bounded.point_for(0.25, Guarantee::Result).is_some());
        assert!(Bounded::default().point_for(1.0, Guarantee::Result).is_none());
        let nothing = Bounded::learn(&[], Mode::Set, 3).expect("learns");
        assert!(nothing.point_for(1.0, Guarantee::Request).is_none());
    }

    #[test]
    fn risks_fall_with_the_factor_and_layers_without_a_head_have_no_margin() {
        let bounded = learn(&mut Noise(4), 40, Mode::Set, 3);
        assert_eq!(bounded.margins[0], None);
        assert!(bounded.margins[1..].iter().all(Option::is_some));
        for pair in bounded.points.windows(2) {
            assert!(pair[0].factor < pair[1].factor);
            assert!(pair[0].result_risk >= pair[1].result_risk);
            assert!(pair[0].request_risk >= pair[1].request_risk);
        }
        for point in &bounded.points {
            assert!(point.result_risk >= 1.0 - point.measured.precision - 1e-12);
        }
    }

    proptest! {
        /// The definition, candidate by candidate.
        #[test]
        fn decisions_are_distances_from_the_boundary(
            raw in prop::collection::vec(-9f32..9.0, 2..20), slot in 0usize..100, factor in 0f32..3.0,
        ) {
            let open_slots = 1 + slot % (raw.len() - 1);
            let policy = BoundedError { margins: vec![None, Some(2.0)], factor };
            let active: Vec<usize> = (0..raw.len()).collect();
            let view = LayerView {
                layer: 2, num_layers: 3, open_slots, active: &active, raw: &raw, scores: &raw,
            };
            for (raw_here, decision) in raw.iter().zip(policy.judge(&view)) {
                let further_up = raw.iter().filter(|it| **it - raw_here > 2.0 * factor).count();
                let further_down = raw.iter().filter(|it| raw_here - **it > 2.0 * factor).count();
                let expected = if further_up >= open_slots {
                    Decision::Drop
                } else if further_down >= raw.len() - open_slots {
                    Decision::Accept
                } else {
                    Decision::Keep
                };
                prop_assert_eq!(decision, expected);
            }
            let early = policy.judge(&LayerView { layer: 1, ..view });
            prop_assert!(early.iter().all(|it| *it == Decision::Keep));
            prop_assert!(!policy.wants(1) && policy.wants(2) && !policy.wants(3) && !policy.wants(0));
        }
    }
}
