//! The record of a run, layer by layer, and its replay under another policy.

use std::ops::ControlFlow;

use riddle_kernels::sigmoid;
use riddle_types::{LayerEvent, LayerObserver, Ranked};
use serde::{Deserialize, Serialize};

use crate::{Error, Mode, PruningPolicy, Result, enforce::Contest};

/// A whole run, in the shape that `riddle rerank --trace` writes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Layers of the model.
    pub num_layers: u32,
    /// Dispersion threshold of the policy; `None` without one.
    pub threshold: Option<f32>,
    /// What happened, layer by layer.
    pub layers: Vec<LayerEvent>,
}

/// An observer that keeps every layer, and passes it on.
#[derive(Debug, Default)]
pub struct TraceRecorder {
    /// The layers so far.
    pub layers: Vec<LayerEvent>,
}

impl LayerObserver for TraceRecorder {
    fn on_layer(&mut self, event: &LayerEvent) -> ControlFlow<()> {
        self.layers.push(event.clone());
        ControlFlow::Continue(())
    }
}

/// What would have come out of a full forward under another policy. Candidates do not influence each
/// other, so the recorded scores are exactly those that the policy would have seen (§4.1, calibration);
/// nothing is computed.
///
/// Returns the ranking and the candidate × layer forwards that would have been computed.
///
/// # Errors
/// [`Error::BadOption`] when the trace is not that of a full forward with scores after every layer.
pub fn replay(
    trace: &Trace,
    policy: &dyn PruningPolicy,
    mode: Mode,
    top_k: usize,
) -> Result<(Vec<Ranked>, u64)> {
    let candidates = trace.layers.first().map_or(0, |it| it.active.len());
    let full = trace.layers.len() == trace.num_layers as usize
        && trace
            .layers
            .iter()
            .all(|it| it.active.len() == candidates && it.scores.len() == candidates);
    if !full {
        return Err(Error::BadOption(
            "only the trace of a full forward with scores after every layer can be replayed: record one with mode off".to_owned(),
        ));
    }
    let mut contest = Contest::new(mode, candidates, top_k, trace.num_layers);
    let mut forwards = 0;
    for event in &trace.layers {
        if contest.is_over() {
            break;
        }
        forwards += contest.active().len() as u64;
        if !contest.wants_scores(policy, event.layer) {
            continue;
        }
        let raw: Vec<f32> = contest
            .active()
            .iter()
            .filter_map(|index| {
                event.active.iter().position(|it| it == index).map(|it| event.scores[it])
            })
            .collect();
        if raw.len() != contest.active().len() {
            return Err(Error::BadOption(
                "the trace's layers do not list the same candidates".to_owned(),
            ));
        }
        let scores: Vec<f32> = raw.iter().map(|&it| sigmoid(it)).collect();
        contest.judge(policy, event.layer, &raw, &scores);
    }
    Ok((contest.ranking(sigmoid), forwards))
}
