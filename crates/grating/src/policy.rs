//! Pruning policies: what to accept and drop after a layer (§4.1). A policy proposes, the engine enforces.

use riddle_types::Decision;

use crate::cluster;

/// What a policy may look at: the candidates still running after a layer.
#[derive(Debug, Clone, Copy)]
pub struct LayerView<'a> {
    /// The layer, from 1; 0 before the first one, when the scores are what was known before: there only drops count.
    pub layer: u32,
    /// Layers of the model.
    pub num_layers: u32,
    /// Slots of the top-k that nobody has been accepted for yet; at least 1 and fewer than the candidates.
    pub open_slots: usize,
    /// The candidates, as indexes into the request, ascending; the scores are in their order.
    pub active: &'a [usize],
    /// Provisional raw scores (logits).
    pub raw: &'a [f32],
    /// Provisional scores, mapped to 0…1 by the model's own activation.
    pub scores: &'a [f32],
}

/// Decides after each layer who runs on. One small trait: a policy of your own plugs in here.
pub trait PruningPolicy: Send + Sync {
    /// One decision per score, in order. Missing decisions count as [`Decision::Keep`].
    fn judge(&self, view: &LayerView<'_>) -> Vec<Decision>;

    /// Whether scores are wanted after this layer; computing them costs little, but not nothing. Layer 0 is what is
    /// known before: it costs nothing, and there is one only where a prior is given.
    fn wants(&self, layer: u32) -> bool {
        layer > 0
    }

    /// The dispersion threshold, for the trace; `None` for policies without one.
    fn threshold(&self) -> Option<f32> {
        None
    }
}

/// Keeps everybody to the end: the full forward, and the oracle that others are compared with.
#[derive(Debug, Clone, Copy, Default)]
pub struct NeverPrune;

impl PruningPolicy for NeverPrune {
    fn judge(&self, view: &LayerView<'_>) -> Vec<Decision> {
        vec![Decision::Keep; view.scores.len()]
    }

    fn wants(&self, _layer: u32) -> bool {
        false
    }
}

/// Progressive cluster pruning (§4.1): once the scores' dispersion exceeds the threshold, they are
/// clustered; the cluster that holds the candidate at rank `open_slots` runs on, those above it are
/// accepted, those below it dropped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusterPruning {
    /// Coefficient of variation (σ/μ) that the scores must exceed.
    pub threshold: f32,
    /// First layer that may prune, from 1.
    pub first_layer: u32,
    /// Most clusters.
    pub max_clusters: usize,
}

impl ClusterPruning {
    /// The policy at a threshold. Pruning may begin after the second layer: after the first, attention has
    /// looked across query and candidate only once and the head reads mostly noise.
    pub fn new(threshold: f32) -> Self {
        // Beyond six clusters the boundary cluster of 20 candidates holds one or two: the choice by
        // silhouette never takes more in practice.
        ClusterPruning { threshold, first_layer: 2, max_clusters: 6 }
    }
}

impl PruningPolicy for ClusterPruning {
    fn judge(&self, view: &LayerView<'_>) -> Vec<Decision> {
        let scores = view.scores;
        let keep = vec![Decision::Keep; scores.len()];
        let diverged = dispersion(scores) > self.threshold;
        if view.layer < self.first_layer || !diverged {
            return keep;
        }
        let clustering = cluster(scores, self.max_clusters);
        let mut descending: Vec<usize> = (0..scores.len()).collect();
        descending.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        let Some(&pivot) = view.open_slots.checked_sub(1).and_then(|it| descending.get(it)) else {
            return keep;
        };
        let boundary = clustering.assignment[pivot];
        clustering
            .assignment
            .iter()
            .map(|cluster| match cluster.cmp(&boundary) {
                std::cmp::Ordering::Greater => Decision::Accept,
                std::cmp::Ordering::Equal => Decision::Keep,
                std::cmp::Ordering::Less => Decision::Drop,
            })
            .collect()
    }

    fn wants(&self, layer: u32) -> bool {
        layer >= self.first_layer.max(1)
    }

    fn threshold(&self) -> Option<f32> {
        Some(self.threshold)
    }
}

/// Coefficient of variation σ/μ of scores in 0…1 (§4.1); 0 for no scores or a mean of 0.
pub fn dispersion(scores: &[f32]) -> f32 {
    if scores.is_empty() {
        return 0.0;
    }
    let n = scores.len() as f64;
    let mean = scores.iter().map(|&it| f64::from(it)).sum::<f64>() / n;
    let variance = scores.iter().map(|&it| (f64::from(it) - mean).powi(2)).sum::<f64>() / n;
    if mean > 0.0 { (variance.sqrt() / mean) as f32 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use Decision::{Accept, Drop, Keep};

    use super::*;

    fn view(scores: &[f32], open_slots: usize) -> LayerView<'_> {
        let active = &[0, 1, 2, 3, 4, 5];
        LayerView { layer: 3, num_layers: 6, open_slots, active, raw: scores, scores }
    }

    #[test]
    fn the_boundary_cluster_runs_on() {
        let scores = [0.9, 0.1, 0.92, 0.11, 0.5, 0.52];
        // Rank 3 is in the middle cluster.
        assert_eq!(
            ClusterPruning::new(0.1).judge(&view(&scores, 3)),
            [Accept, Drop, Accept, Drop, Keep, Keep]
        );
        // Rank 2 is in the top cluster: nobody is above it.
        assert_eq!(
            ClusterPruning::new(0.1).judge(&view(&scores, 2)),
            [Keep, Drop, Keep, Drop, Drop, Drop]
        );
    }

    #[test]
    fn below_the_threshold_or_the_first_layer_nothing_happens() {
        let scores = [0.9, 0.1, 0.92, 0.11, 0.5, 0.52];
        assert_eq!(ClusterPruning::new(10.0).judge(&view(&scores, 3)), [Keep; 6]);
        assert_eq!(ClusterPruning::new(f32::NAN).judge(&view(&scores, 3)), [Keep; 6]);
        let early = LayerView { layer: 1, ..view(&scores, 3) };
        assert_eq!(ClusterPruning::new(0.1).judge(&early), [Keep; 6]);
    }

    #[test]
    fn dispersion_is_the_coefficient_of_variation() {
        assert_eq!(dispersion(&[0.5; 4]), 0.0);
        assert!((dispersion(&[0.2, 0.6]) - 0.5).abs() < 1e-6);
        assert_eq!(dispersion(&[]), 0.0);
        assert_eq!(dispersion(&[0.0, 0.0]), 0.0);
    }
}
