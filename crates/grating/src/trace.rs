//! The record of a run, layer by layer, and its replay under another policy.

use std::ops::ControlFlow;

use riddle_kernels::sigmoid;
use riddle_types::{LayerEvent, LayerObserver, Prior, Ranked};
use serde::{Deserialize, Serialize};

use crate::{Error, Mode, PruningPolicy, Result, enforce::Contest};

/// A whole run, in the shape that `riddle rerank --trace` writes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Layers of the model.
    pub num_layers: u32,
    /// Dispersion threshold of the policy; `None` without one.
    pub threshold: Option<f32>,
    /// Each candidate's retrieval prior, in raw scores; every score below includes it. Empty without a prior.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prior: Vec<f32>,
    /// Other priors that earlier layers' scores include, from the one before the first layer on ([`Prior::earlier`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_priors: Vec<Vec<f32>>,
    /// Candidates that were dropped by the prior alone, before the first layer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped_unread: Vec<usize>,
    /// What happened, layer by layer.
    pub layers: Vec<LayerEvent>,
}

impl Trace {
    /// The same run as if nothing had been known of the candidates: the prior is taken from the scores. Only of a
    /// full forward: who was dropped by the prior has no scores.
    #[must_use]
    pub fn without_prior(&self) -> Trace {
        let mut trace = Trace {
            prior: Vec::new(),
            earlier_priors: Vec::new(),
            dropped_unread: Vec::new(),
            ..self.clone()
        };
        for event in &mut trace.layers {
            for (score, prior) in event.scores.iter_mut().zip(self.known().after(event.layer)) {
                *score -= prior;
            }
        }
        trace
    }

    /// What was known of the candidates before they were read.
    pub fn known(&self) -> Prior<'_> {
        Prior { last: &self.prior, earlier: &self.earlier_priors }
    }

    /// Candidates that ran through the first layer: of a full forward all of them.
    pub fn candidates(&self) -> usize {
        self.layers.first().map_or(0, |it| it.active.len())
    }

    /// Number of candidates, if this is the trace of a full forward with scores after every layer that has
    /// a head. Layerwise models have heads from some layer on: the layers before it have no scores, and
    /// nobody is judged there.
    ///
    /// Traces come from files: nothing about one is taken for granted.
    ///
    /// # Errors
    /// [`Error::NotReplayable`], with what is wrong.
    pub fn full_forward(&self) -> Result<usize> {
        let layers = self.layers.len();
        if layers == 0 || layers != self.num_layers as usize {
            return Err(Error::NotReplayable(format!(
                "it has {layers} of {} layers",
                self.num_layers
            )));
        }
        let candidates = self.layers[0].active.len();
        if !self.known().is_for(candidates) {
            let known = self.prior.len();
            let why = format!("it has a prior of {known} numbers for {candidates} candidates");
            return Err(Error::NotReplayable(why));
        }
        let mut judged = false;
        for (number, event) in (1..).zip(&self.layers) {
            let bad = |why: &str| Err(Error::NotReplayable(format!("layer {number} {why}")));
            if event.layer != number {
                return bad("is not where it belongs");
            }
            if !event.active.iter().copied().eq(0..candidates) {
                return bad("does not list every candidate in order");
            }
            if event.scores.is_empty() && !judged && number < self.num_layers {
                continue;
            }
            judged = true;
            if event.scores.len() != candidates || event.scores.iter().any(|it| !it.is_finite()) {
                return bad("does not have a score for every candidate");
            }
        }
        Ok(candidates)
    }
}

/// An observer that keeps every layer.
#[derive(Debug, Clone, Default)]
pub struct TraceRecorder {
    /// Each candidate's retrieval prior.
    pub prior: Vec<f32>,
    /// Those of earlier layers.
    pub earlier_priors: Vec<Vec<f32>>,
    /// Candidates that the prior alone has dropped.
    pub dropped_unread: Vec<usize>,
    /// The layers so far.
    pub layers: Vec<LayerEvent>,
}

impl TraceRecorder {
    /// The trace of the run that was observed, with what [`Engine::num_layers`](crate::Engine::num_layers)
    /// and [`Engine::threshold`](crate::Engine::threshold) say about it.
    pub fn into_trace(self, num_layers: u32, threshold: Option<f32>) -> Trace {
        let TraceRecorder { prior, earlier_priors, dropped_unread, layers } = self;
        Trace { num_layers, threshold, prior, earlier_priors, dropped_unread, layers }
    }
}

impl LayerObserver for TraceRecorder {
    fn on_layer(&mut self, event: &LayerEvent) -> ControlFlow<()> {
        self.layers.push(event.clone());
        ControlFlow::Continue(())
    }

    fn on_prior(&mut self, prior: Prior<'_>, dropped: &[usize]) {
        self.prior = prior.last.to_vec();
        self.earlier_priors = prior.earlier.to_vec();
        self.dropped_unread = dropped.to_vec();
    }
}

/// What a run under another policy would have returned, and how much it would have computed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replay {
    /// The winners, best first.
    pub ranked: Vec<Ranked>,
    /// Layers that would have computed at least one candidate.
    pub layers_run: u32,
    /// Candidate × layer forwards that would have been computed.
    pub candidate_layers: u64,
    /// Candidates that each layer would have computed, from the first layer to the last that ran.
    pub active: Vec<usize>,
}

/// What would have come out of a full forward under another policy. Candidates do not influence each
/// other, so the recorded scores are exactly those that the policy would have seen (§4.1, calibration);
/// nothing is computed. Raw scores are mapped to 0…1 by a sigmoid, as the engine does.
///
/// # Errors
/// [`Error::NotReplayable`] as [`Trace::full_forward`].
pub fn replay(
    trace: &Trace,
    policy: &dyn PruningPolicy,
    mode: Mode,
    top_k: usize,
) -> Result<Replay> {
    let candidates = trace.full_forward()?;
    let mut contest = Contest::new(mode, candidates, top_k, trace.num_layers);
    let mut active = Vec::new();
    contest.judge_prior(policy, trace.known().after(0), sigmoid);
    for event in &trace.layers {
        if contest.is_over() {
            break;
        }
        active.push(contest.active().len());
        if !event.scores.is_empty() && contest.wants_scores(policy, event.layer) {
            let raw: Vec<f32> = contest.active().iter().map(|&it| event.scores[it]).collect();
            let scores: Vec<f32> = raw.iter().map(|&it| sigmoid(it)).collect();
            contest.judge(policy, event.layer, &raw, &scores);
        }
    }
    let candidate_layers = active.iter().sum::<usize>() as u64;
    let layers_run = active.len() as u32;
    Ok(Replay { ranked: contest.ranking(sigmoid), layers_run, candidate_layers, active })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClusterPruning, NeverPrune};

    fn trace() -> Trace {
        let layer = |layer, scores: &[f32]| LayerEvent {
            layer,
            active: (0..scores.len()).collect(),
            scores: scores.to_vec(),
            ..LayerEvent::default()
        };
        Trace {
            num_layers: 3,
            threshold: None,
            prior: Vec::new(),
            earlier_priors: Vec::new(),
            dropped_unread: Vec::new(),
            layers: vec![
                layer(1, &[0.0, 0.1, 0.0, 0.1]),
                layer(2, &[3.0, -3.0, 0.1, 0.2]),
                layer(3, &[3.0, -3.0, 0.4, 0.2]),
            ],
        }
    }

    #[test]
    fn a_replay_decides_as_the_paper_describes() {
        let full = replay(&trace(), &NeverPrune, Mode::Off, 2).expect("full");
        assert_eq!(full.ranked.iter().map(|it| it.index).collect::<Vec<_>>(), [0, 2]);
        assert_eq!((full.layers_run, full.candidate_layers), (3, 12));
        // Layer 2 accepts 0 and drops 1; 2 and 3 run for the last slot.
        let set = replay(&trace(), &ClusterPruning::new(0.1), Mode::Set, 2).expect("full");
        let decided: Vec<_> = set.ranked.iter().map(|it| (it.index, it.decided_at_layer)).collect();
        assert_eq!(decided, [(0, 2), (2, 3)]);
        assert_eq!((set.layers_run, set.candidate_layers), (3, 10));
        // As an ordered list the winner runs on, and only 1 is spared.
        let order = replay(&trace(), &ClusterPruning::new(0.1), Mode::Order, 2).expect("full");
        assert_eq!(order.ranked, full.ranked);
        assert_eq!(order.candidate_layers, 11);
        // As many slots as candidates: their order is all that is asked for, and the last layer knows it.
        let all = replay(&trace(), &ClusterPruning::new(0.1), Mode::Set, 9).expect("full");
        let off = replay(&trace(), &NeverPrune, Mode::Off, 9).expect("full");
        assert_eq!((&all, all.layers_run), (&off, 3));
        assert_eq!(replay(&trace(), &NeverPrune, Mode::Set, 0).expect("full"), Replay::default());
    }

    /// Models with a head per layer have none in the first layers: as if no policy had asked there.
    #[test]
    fn early_layers_may_have_no_scores() {
        let mut headless = trace();
        headless.layers[0].scores.clear();
        assert_eq!(
            replay(&headless, &ClusterPruning::new(0.1), Mode::Set, 2).expect("replays"),
            replay(&trace(), &ClusterPruning::new(0.1), Mode::Set, 2).expect("replays")
        );
        headless.layers[1].scores.clear();
        let late = replay(&headless, &ClusterPruning::new(0.0), Mode::Set, 2).expect("replays");
        assert_eq!(late.active, [4, 4, 4]);
    }

    #[test]
    fn traces_that_lie_are_refused() {
        type Lie = fn(&mut Trace);
        let lies: [(&str, Lie); 9] = [
            ("0 of 3", |it| it.layers.clear()),
            ("2 of 3", |it| it.layers.truncate(2)),
            ("3 of 2", |it| it.num_layers = 2),
            ("layer 2", |it| it.layers[1].layer = 7),
            ("layer 2", |it| it.layers[1].active = vec![0, 1, 2, 9]),
            ("layer 3", |it| it.layers[2].active.truncate(3)),
            ("layer 2", |it| it.layers[1].scores.clear()),
            ("layer 3", |it| it.layers.iter_mut().for_each(|it| it.scores.clear())),
            ("layer 1", |it| it.layers[0].scores[2] = f32::NAN),
        ];
        for (word, lie) in lies {
            let mut lying = trace();
            lie(&mut lying);
            let error = replay(&lying, &NeverPrune, Mode::Off, 2).expect_err(word);
            assert!(matches!(&error, Error::NotReplayable(why) if why.contains(word)), "{error}");
        }
    }

    /// The field names are a promise to scripts: they may be added to, never renamed.
    #[test]
    fn the_json_is_what_the_command_line_promises() {
        let json = serde_json::to_value(trace()).expect("serializes");
        let keys = |it: &serde_json::Value| -> Vec<String> {
            let mut keys: Vec<String> =
                it.as_object().into_iter().flat_map(|it| it.keys().cloned()).collect();
            keys.sort_unstable();
            keys
        };
        assert_eq!(keys(&json), ["layers", "num_layers", "threshold"]);
        let mut expected = [
            "layer",
            "active",
            "scores",
            "dispersion",
            "accepted",
            "dropped",
            "ms",
            "bytes_read",
            "row_bytes_read",
            "io_wait_ms",
            "resident_weight_bytes",
        ];
        expected.sort_unstable();
        assert_eq!(keys(&json["layers"][0]), expected);
        assert_eq!(json["layers"][0]["layer"], 1);
        assert_eq!(serde_json::from_value::<Trace>(json).expect("reads back"), trace());
    }
}
