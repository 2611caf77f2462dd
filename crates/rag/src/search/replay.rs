//! A recorded run under another threshold, candidate by candidate.

use std::sync::{Mutex, PoisonError};

use riddle_grating::{
    ClusterPruning, LayerView, Mode, NeverPrune, PruningPolicy, Replay, Trace, replay,
};
use riddle_types::Decision;

use crate::contract::{Error, Result};

/// What would have become of every candidate.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReplayDetail {
    /// Results and cost.
    pub replay: Replay,
    /// For each candidate: accepted or dropped, and the layer after which.
    pub settled: Vec<(Decision, u32)>,
}

/// What a policy was asked and said after a layer.
struct Judged {
    layer: u32,
    active: Vec<usize>,
    raw: Vec<f32>,
    decisions: Vec<Decision>,
}

/// A policy that remembers its verdicts.
struct Remembering {
    policy: Box<dyn PruningPolicy>,
    judged: Mutex<Vec<Judged>>,
}

impl PruningPolicy for Remembering {
    fn judge(&self, view: &LayerView<'_>) -> Vec<Decision> {
        let decisions = self.policy.judge(view);
        self.judged.lock().unwrap_or_else(PoisonError::into_inner).push(Judged {
            layer: view.layer,
            active: view.active.to_vec(),
            raw: view.raw.to_vec(),
            decisions: decisions.clone(),
        });
        decisions
    }

    fn wants(&self, layer: u32) -> bool {
        self.policy.wants(layer)
    }

    fn threshold(&self) -> Option<f32> {
        self.policy.threshold()
    }
}

/// [`replay_trace`](super::replay_trace), with what would have become of the losers.
///
/// # Errors
/// When the trace is not of a full forward.
pub fn replay_detail(
    trace: &Trace,
    threshold: Option<f32>,
    mode: Mode,
    top_k: usize,
) -> Result<ReplayDetail> {
    let policy: Box<dyn PruningPolicy> = match threshold {
        Some(threshold) => Box::new(ClusterPruning::new(threshold)),
        None => Box::new(NeverPrune),
    };
    let policy = Remembering { policy, judged: Mutex::default() };
    let candidates = trace.full_forward().map_err(Error::bad)?;
    let replay = replay(trace, &policy, mode, top_k).map_err(Error::bad)?;
    // Whoever neither won nor was dropped on the way lost at the end.
    let mut settled = vec![(Decision::Drop, replay.layers_run); candidates];
    for ranked in &replay.ranked {
        settled[ranked.index] = (Decision::Accept, ranked.decided_at_layer);
    }
    let judged = policy.judged.into_inner().unwrap_or_else(PoisonError::into_inner);
    for judged in judged {
        let accepted = |it: usize| settled[it] == (Decision::Accept, judged.layer);
        let won = judged.active.iter().filter(|&&it| accepted(it)).count();
        let next = replay.active.get(judged.layer as usize).copied().unwrap_or(0);
        let dropped = judged.active.len().saturating_sub(won + next);
        // The engine drops the worst of those whom the policy proposes, and no more than it may.
        let mut proposed: Vec<usize> = (0..judged.active.len())
            .filter(|&it| judged.decisions.get(it) == Some(&Decision::Drop))
            .collect();
        proposed.sort_by(|&a, &b| judged.raw[a].total_cmp(&judged.raw[b]));
        for place in proposed.into_iter().take(dropped) {
            settled[judged.active[place]] = (Decision::Drop, judged.layer);
        }
    }
    Ok(ReplayDetail { replay, settled })
}

#[cfg(test)]
mod tests {
    use riddle_types::LayerEvent;

    use super::*;

    fn trace(layers: &[&[f32]]) -> Trace {
        let layer = |(number, scores): (u32, &&[f32])| LayerEvent {
            layer: number,
            active: (0..scores.len()).collect(),
            scores: scores.to_vec(),
            ..LayerEvent::default()
        };
        Trace {
            num_layers: layers.len() as u32,
            layers: (1..).zip(layers).map(layer).collect(),
            ..Trace::default()
        }
    }

    #[test]
    fn losers_are_settled_where_they_were_dropped() {
        let trace = trace(&[&[0.0; 4], &[3.0, -3.0, 0.1, 0.2], &[3.0, -3.0, 0.4, 0.2]]);
        use Decision::{Accept, Drop};
        let set = replay_detail(&trace, Some(0.1), Mode::Set, 2).expect("replays");
        assert_eq!(set.settled, [(Accept, 2), (Drop, 2), (Accept, 3), (Drop, 3)]);
        let full = replay_detail(&trace, None, Mode::Off, 2).expect("replays");
        assert_eq!(full.settled, [(Accept, 3), (Drop, 3), (Accept, 3), (Drop, 3)]);
    }

    proptest::proptest! {
        /// Counted from the verdicts, the candidates of each layer are those that the engine ran.
        #[test]
        fn every_layer_adds_up(
            scores in proptest::collection::vec(proptest::collection::vec(-3.0f32..3.0, 9), 1..7),
            threshold in 0.0f32..1.0, top_k in 1usize..10, set in proptest::bool::ANY,
        ) {
            let layers: Vec<&[f32]> = scores.iter().map(Vec::as_slice).collect();
            let mode = if set { Mode::Set } else { Mode::Order };
            let detail = replay_detail(&trace(&layers), Some(threshold), mode, top_k).expect("replays");
            for (before, &active) in detail.replay.active.iter().enumerate() {
                let running = detail.settled.iter().filter(|it| it.1 as usize > before).count();
                proptest::prop_assert_eq!(running, active, "layer {}", before + 1);
            }
        }
    }
}
