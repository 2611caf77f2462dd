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
//!    With them up to which layer it is worth judging at all. What is known of the candidates before the first layer
//!    (a prior, [`Engine::run_with_prior`](crate::Engine::run_with_prior)) counts as a layer 0, after which
//!    candidates may be dropped and nobody is accepted: whom it drops costs nothing. The paper knows no
//!    such layer.
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
    sample::{Measured, Outcome, Sample},
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
    /// As a layer's margin, of the prior; `None` where nobody is dropped by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior_margin: Option<f32>,
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
        let teachers: Vec<&Sample<'_>> = part(true).collect();
        let mut policy = worthwhile(&teachers, margins(&teachers, top_k), mode, top_k)?;
        let controls: Vec<&Sample<'_>> = part(false).collect();
        // Per request, the largest loss from this factor on: the walk is downwards.
        let mut worst = vec![0.0_f64; controls.len()];
        let mut points = Vec::with_capacity(GRID_LEN);
        for factor in factors().rev() {
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
        Ok(Bounded { prior_margin: policy.prior_margin, margins: policy.margins, points })
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
        let Bounded { prior_margin, ref margins, .. } = *self;
        Some(BoundedError { prior_margin, margins: margins.clone(), factor })
    }
}

/// The grid, ascending.
fn factors() -> impl DoubleEndedIterator<Item = f32> {
    (0..GRID_LEN).map(|it| LEAST_FACTOR * GRID_RATIO.powi(it as i32))
}

/// Step 1: how far candidates around the boundary still move after the prior and after each layer.
fn margins(samples: &[&Sample<'_>], top_k: usize) -> BoundedError {
    // Of the prior and per layer: requests, and the sum of the variances.
    let mut sums: Vec<(f64, f64)> = Vec::new();
    for sample in samples.iter().filter(|it| it.candidates > top_k) {
        let layers = &sample.trace.layers;
        let last = &layers[layers.len() - 1].scores;
        let near = top_k.saturating_sub(NEIGHBORS)..(top_k + NEIGHBORS).min(sample.candidates);
        let near = &sample.order[near];
        sums.resize(1 + layers.len(), (0.0, 0.0));
        let known = sample.trace.known().after(0);
        let stages = std::iter::once(known).chain(layers.iter().map(|it| it.scores.as_slice()));
        for (sum, scores) in sums.iter_mut().zip(stages).filter(|it| !it.1.is_empty()) {
            let moves = || near.iter().map(|&it| f64::from(last[it]) - f64::from(scores[it]));
            let mean = moves().sum::<f64>() / near.len() as f64;
            let variance = moves().map(|it| (it - mean).powi(2)).sum::<f64>() / near.len() as f64;
            *sum = (sum.0 + 1.0, sum.1 + variance);
        }
    }
    // A layer after which nothing moved in the few requests of step 1 gets a small margin and not 0,
    // because a factor can not enlarge 0.
    let margin =
        |(n, sum): (f64, f64)| (n > 0.0).then(|| ((sum / n).sqrt() as f32).max(LEAST_MARGIN));
    let mut margins = sums.into_iter().map(margin);
    BoundedError { prior_margin: margins.next().flatten(), margins: margins.collect(), factor: 0.0 }
}

/// Step 1, too: up to which layer it is worth judging. One factor is for all layers, and what a late layer
/// spares, which is little, can cost a larger factor in all layers before it. Chosen by the work that is
/// left at an error of [`TRIED_RISK`] on these requests; that they are few costs work and no promise.
fn worthwhile(
    samples: &[&Sample<'_>],
    all: BoundedError,
    mode: Mode,
    top_k: usize,
) -> Result<BoundedError> {
    let mut best: Option<(f64, BoundedError)> = None;
    for until in 0..all.margins.len() {
        if until > 0 && all.margins[until - 1].is_none() || until == 0 && all.prior_margin.is_none()
        {
            continue;
        }
        let mut policy = all.clone();
        policy.margins[until..].fill(None);
        let mut cost = 1.0;
        for factor in factors().rev() {
            policy.factor = factor;
            let outcomes: Vec<Outcome> =
                samples.iter().map(|it| it.replay(&policy, mode, top_k)).collect::<Result<_>>()?;
            let measured = Measured::mean(outcomes.iter());
            if 1.0 - measured.precision > TRIED_RISK {
                break;
            }
            cost = measured.latency_share.unwrap_or(measured.candidate_layers_share);
        }
        // The later one only where it spares more: equal ones judge less.
        if best.as_ref().is_none_or(|it| cost < it.0) {
            best = Some((cost, policy));
        }
    }
    Ok(best.map_or(all, |it| it.1))
}

/// The share of missing results at which shapes of margins are compared: what people ask for.
const TRIED_RISK: f64 = 0.01;

/// Candidates on each side of the boundary that teach the margins: enough to measure a spread, near enough
/// to be in doubt.
const NEIGHBORS: usize = 5;

/// In raw scores; logits of rerankers differ by units.
const LEAST_MARGIN: f32 = 1e-2;

/// Drops and accepts by distance from the boundary, in margins of the layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoundedError {
    /// Of what is known before the first layer; `None`: nobody is dropped by it.
    pub prior_margin: Option<f32>,
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
        match (layer as usize).checked_sub(1) {
            None => self.prior_margin,
            Some(place) => *self.margins.get(place)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Trace, evaluate, sample::tests::Noise};

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
        for (mode, k, known) in [
            (Mode::Set, 3, false),
            (Mode::Order, 2, false),
            (Mode::Set, 2, true),
            (Mode::Order, 3, true),
        ] {
            let mut noise = Noise(17 + k as u64);
            let mut draw = |n: usize| -> Vec<Trace> {
                (0..n).map(|_| if known { noise.known() } else { noise.trace() }).collect()
            };
            for (guarantee, probability) in [(Guarantee::Result, 0.05), (Guarantee::Request, 0.1)] {
                let mut losses = Vec::new();
                let mut share = 0.0;
                for _ in 0..24 {
                    let traces = draw(80);
                    let samples = Sample::all(&traces).expect("samples");
                    let bounded = Bounded::learn(&samples, mode, k).expect("learns");
                    let policy =
                        bounded.policy_for(probability, guarantee).expect("60 requests do");
                    let new = draw(60);
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
        assert_eq!((bounded.prior_margin, bounded.margins[0]), (None, None));
        // From the first layer with a head to the last that it is worth to judge after.
        let judged = bounded.margins[1..].iter().take_while(|it| it.is_some()).count();
        assert!(judged > 0 && bounded.margins[1 + judged..].iter().all(Option::is_none));
        for pair in bounded.points.windows(2) {
            assert!(pair[0].factor < pair[1].factor);
            assert!(pair[0].result_risk >= pair[1].result_risk);
            assert!(pair[0].request_risk >= pair[1].request_risk);
        }
        for point in &bounded.points {
            assert!(point.result_risk >= 1.0 - point.measured.precision - 1e-12);
        }
    }

    #[test]
    fn what_is_known_before_spares_whole_candidates() {
        let mut noise = Noise(11);
        let known: Vec<Trace> = (0..160).map(|_| noise.known()).collect();
        let unknown: Vec<Trace> =
            known.iter().map(|it| Trace { prior: Vec::new(), ..it.clone() }).collect();
        let share = |traces: &[Trace]| {
            let samples = Sample::all(traces).expect("samples");
            let bounded = Bounded::learn(&samples, Mode::Order, 2).expect("learns");
            let point = bounded.point_for(0.05, Guarantee::Result).expect("120 requests do");
            (bounded.prior_margin, point.measured.candidate_layers_share)
        };
        let ((with, less), (without, more)) = (share(&known), share(&unknown));
        assert!(with.is_some() && without.is_none());
        assert!(less < more - 0.05, "{less} {more}");
        // An older calibration has no such margin, and a trace without a prior is not judged by one.
        let json = serde_json::json!({"margins": [1.0], "points": []});
        assert_eq!(serde_json::from_value::<Bounded>(json).expect("reads").prior_margin, None);
    }

    proptest! {
        /// The definition, candidate by candidate.
        #[test]
        fn decisions_are_distances_from_the_boundary(
            raw in prop::collection::vec(-9f32..9.0, 2..20), slot in 0usize..100, factor in 0f32..3.0,
        ) {
            let open_slots = 1 + slot % (raw.len() - 1);
            let policy = BoundedError { prior_margin: None, margins: vec![None, Some(2.0)], factor };
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
