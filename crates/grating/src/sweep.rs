//! All thresholds at once: how one request behaves under each is a staircase with few steps.
//!
//! A threshold only decides whether the dispersion of a layer exceeds it. Between the dispersions that a
//! run meets nothing changes, so each step costs one replay, and the staircase is exact.

use std::sync::atomic::{AtomicU32, Ordering};

use riddle_types::Decision;

use crate::{
    ClusterPruning, LayerView, Mode, PruningPolicy, Result, dispersion,
    sample::{Outcome, Sample},
};

/// What one request does at every threshold.
#[derive(Debug)]
pub(crate) struct Steps {
    /// Lowest threshold of each step and what happens from there up to the step before; descending, the
    /// last begins at 0.
    steps: Vec<(f32, Outcome)>,
}

impl Steps {
    pub(crate) fn of(sample: &Sample<'_>, mode: Mode, top_k: usize) -> Result<Steps> {
        let mut steps = Vec::new();
        let mut threshold = f32::MAX;
        loop {
            let policy = Watched::new(threshold);
            let outcome = sample.replay(&policy, mode, top_k)?;
            let highest = policy.highest();
            steps.push((highest, outcome));
            if highest <= 0.0 {
                return Ok(Steps { steps });
            }
            threshold = highest.next_down();
        }
    }

    /// What happens at a threshold of 0 or more.
    pub(crate) fn at(&self, threshold: f32) -> &Outcome {
        let step = self.steps.partition_point(|it| it.0 > threshold);
        // The last step begins at 0: nothing is beyond it.
        &self.steps[step.min(self.steps.len() - 1)].1
    }
}

/// Thresholds worth a point: 0, and where staircases step, thinned to `most` by rank.
pub(crate) fn candidates(steps: &[Steps], most: usize) -> Vec<f32> {
    let mut edges: Vec<f32> = steps.iter().flat_map(|it| it.steps.iter().map(|it| it.0)).collect();
    edges.sort_by(f32::total_cmp);
    edges.dedup();
    if edges.len() > most {
        let last = edges.len() - 1;
        edges = (0..most).map(|it| edges[it * last / (most - 1).max(1)]).collect();
        edges.dedup();
    }
    if edges.first() != Some(&0.0) {
        edges.insert(0, 0.0);
    }
    edges
}

/// Cluster pruning that remembers the highest dispersion that did not exceed its threshold: down to there
/// every threshold decides the same.
struct Watched {
    policy: ClusterPruning,
    /// Bits of a number of 0 or more, which are in the order of the numbers.
    highest: AtomicU32,
}

impl Watched {
    fn new(threshold: f32) -> Watched {
        Watched { policy: ClusterPruning::new(threshold), highest: AtomicU32::new(0) }
    }

    fn highest(&self) -> f32 {
        f32::from_bits(self.highest.load(Ordering::Relaxed))
    }
}

impl PruningPolicy for Watched {
    fn judge(&self, view: &LayerView<'_>) -> Vec<Decision> {
        let found = dispersion(view.scores);
        if view.layer >= self.policy.first_layer && found <= self.policy.threshold {
            self.highest.fetch_max(found.to_bits(), Ordering::Relaxed);
        }
        self.policy.judge(view)
    }

    fn wants(&self, layer: u32) -> bool {
        self.policy.wants(layer)
    }
}
