//! The reranking seam: who reranks, and who may watch and stop it.

use std::{
    ops::ControlFlow,
    sync::{Arc, atomic::AtomicBool},
};

use serde::{Deserialize, Serialize};

use crate::StageError;

/// A candidate that the reranker kept.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// Index into the candidates given.
    pub index: usize,
    /// Raw score (logit, and prior if one was given) at the layer where it was decided.
    pub raw_score: f32,
    /// The score mapped to 0…1 by the model's own activation.
    pub score: f32,
    /// Layer after which its place was settled, from 1.
    pub decided_at_layer: u32,
}

/// What was decided about a candidate after a layer (GRATING §4.1: selected, deferred, dropped).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Runs on to the next layer.
    Keep,
    /// In the top-k for certain.
    Accept,
    /// Out of the top-k for certain.
    Drop,
}

/// Everything that happened in one layer: one entry of the trace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerEvent {
    /// Layer number, from 1.
    pub layer: u32,
    /// Indexes of the candidates that ran through this layer.
    pub active: Vec<usize>,
    /// Provisional raw score of each active candidate after this layer; empty if the head was not run.
    pub scores: Vec<f32>,
    /// σ/μ of the activated provisional scores; `None` if the head was not run.
    pub dispersion: Option<f32>,
    /// Indexes accepted after this layer.
    pub accepted: Vec<usize>,
    /// Indexes dropped after this layer.
    pub dropped: Vec<usize>,
    /// Wall time of the layer in milliseconds, waiting included.
    pub ms: f64,
    /// Bytes of weights read from disk for this layer; of the first one also those of embedding rows.
    pub bytes_read: u64,
    /// Of which embedding rows.
    #[serde(default)]
    pub row_bytes_read: u64,
    /// Milliseconds the computation waited for weights.
    pub io_wait_ms: f64,
    /// Bytes of layer weights in memory while the layer ran.
    pub resident_weight_bytes: u64,
}

/// What is known of candidates before they are read, as retrieval knows it: a number for each, in the unit of raw
/// scores, that is added to its raw score after every layer.
///
/// What a layer's own score does not say yet retrieval may know, so the numbers of an early layer can be others than
/// those of the last one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Prior<'a> {
    /// Beside the last layer's scores; empty: nothing is known.
    pub last: &'a [f32],
    /// The same before the first layer, after it, and so on, up to the last layer but one; layers that are not among
    /// them have the numbers of the last.
    pub earlier: &'a [Vec<f32>],
}

impl<'a> Prior<'a> {
    /// Nothing is known.
    pub const NONE: Prior<'static> = Prior { last: &[], earlier: &[] };

    /// The same beside every layer.
    pub fn always(numbers: &'a [f32]) -> Prior<'a> {
        Prior { last: numbers, earlier: &[] }
    }

    /// The numbers after a layer, from 1; 0: before the first one.
    pub fn after(self, layer: u32) -> &'a [f32] {
        self.earlier.get(layer as usize).map_or(self.last, Vec::as_slice)
    }

    /// What is added to the score of a candidate after a layer.
    pub fn of(self, candidate: usize, layer: u32) -> f32 {
        self.after(layer).get(candidate).copied().unwrap_or(0.0)
    }

    /// Whether nothing is known.
    pub fn is_empty(self) -> bool {
        self.last.is_empty()
    }

    /// Whether there is a finite number for each of so many candidates, for all layers; or none at all.
    pub fn is_for(self, candidates: usize) -> bool {
        let fits = |it: &[f32]| it.len() == candidates && it.iter().all(|it| it.is_finite());
        let nothing = self.last.is_empty() && self.earlier.is_empty();
        nothing || (fits(self.last) && self.earlier.iter().all(|it| fits(it)))
    }
}

/// Watches a run layer by layer and may stop it.
pub trait LayerObserver {
    /// Called after each layer. `Break` cancels the run, which frees everything and returns an error.
    fn on_layer(&mut self, event: &LayerEvent) -> ControlFlow<()>;

    /// Called before the first layer of a run with a prior: what is known of each candidate before it is read, and the
    /// indexes of those that are not read at all because of it.
    fn on_prior(&mut self, prior: Prior<'_>, dropped: &[usize]) {
        let _ = (prior, dropped);
    }

    /// What somebody else sets to cancel the run within a layer; asked for once, at the beginning, and looked at
    /// before every micro-batch.
    fn stop_flag(&self) -> Option<Arc<AtomicBool>> {
        None
    }
}

/// The observer that only lets the run go on.
#[derive(Debug, Default, Clone, Copy)]
pub struct SilentObserver;

impl LayerObserver for SilentObserver {
    fn on_layer(&mut self, _event: &LayerEvent) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// What a run cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct RerankStats {
    /// Layers that computed at least one candidate.
    pub layers_run: u32,
    /// Layers of the model.
    pub num_layers: u32,
    /// Candidate × layer forwards that were computed.
    pub candidate_layers: u64,
    /// Milliseconds of tokenizing.
    pub tokenize_ms: f64,
    /// Milliseconds of the forward pass, waiting included.
    pub forward_ms: f64,
    /// Milliseconds the forward pass waited for weights.
    pub io_wait_ms: f64,
    /// Most bytes of weights in memory at once: layers, embedding rows and head.
    pub resident_weight_bytes: u64,
    /// Bytes of activations in memory: scratch and hidden states.
    pub scratch_bytes: u64,
    /// Tokens at the beginning of all pairs that were computed once.
    pub shared_prefix_tokens: u64,
    /// What was in memory.
    pub plan: MemoryPlan,
}

/// How a run was fitted into memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPlan {
    /// Layers in memory at most.
    pub window_layers: u32,
    /// Tokens that a layer computes at a time.
    pub micro_batch_tokens: u64,
    /// Rows of the token table in memory at most.
    pub embedding_rows: u64,
    /// Hidden states are on disk, three micro-batches of them in memory.
    pub hidden_on_disk: bool,
    /// Bytes of layers, rows, scratch and hidden states by plan.
    pub planned_bytes: u64,
}

/// What was read and computed before a deadline (STI, §5).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeadlinePlan {
    /// Layers that were planned last.
    pub layers: u32,
    /// Slices of each, of [`slices`](Self::slices).
    pub width: u32,
    /// Layers of the model.
    pub num_layers: u32,
    /// Slices of a layer of the model.
    pub slices: u32,
    /// Candidates that were read.
    pub candidates: u32,
    /// Bits per weight, by layer and slice.
    pub bits: Vec<Vec<u8>>,
    /// Milliseconds of reading left to each layer, as planned at the beginning.
    pub budgets_ms: Vec<f64>,
    /// Milliseconds from the call to the ranking, as planned at the beginning.
    pub predicted_ms: f64,
    /// Milliseconds of these in which nothing can be computed because something is read: embedding rows, the first
    /// layer, and whatever comes later than it is wanted. As planned at the beginning, and with what was given to more
    /// bits when the rest was planned anew.
    pub waiting_ms: f64,
    /// Bytes of shards that were in memory from the request before.
    pub preload_bytes: u64,
    /// Bytes of shards and embedding rows that were read.
    pub bytes_read: u64,
    /// Times that the rest was planned anew.
    pub replanned: u32,
}

/// How a run with a deadline ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadlineEnd {
    /// As planned.
    #[default]
    Ranked,
    /// The time was up: the order is that after the last layer that was done.
    Provisional,
    /// Before the first scores: the order is the one that was given.
    NotRanked,
    /// There was too little time for anything that is better than the order that was given.
    TooShort,
    /// No part of this model ranks better than the order that was given.
    NothingGained,
}

/// A deadline, and what became of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeadlineReport {
    /// Milliseconds from the call.
    pub target_ms: f64,
    /// Milliseconds that it took.
    pub took_ms: f64,
    /// Whether that was no more.
    pub met: bool,
    /// How it ended.
    pub end: DeadlineEnd,
    /// Milliseconds that would be enough for something, where these were not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_ms: Option<f64>,
    /// What was done, if anything was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<DeadlinePlan>,
}

/// Bits of weights that lose nothing.
const EXACT_BITS: u8 = 8;

impl DeadlineReport {
    /// Whether the whole model has read all of so many candidates, every weight as it is. What is promised of pruning
    /// is promised against such a full reading, and holds for nothing less.
    pub fn is_full(&self, candidates: usize) -> bool {
        self.end == DeadlineEnd::Ranked
            && self.plan.as_ref().is_some_and(|plan| {
                (plan.layers, plan.width) == (plan.num_layers, plan.slices)
                    && plan.candidates as usize == candidates
                    && plan.bits.iter().flatten().all(|it| *it >= EXACT_BITS)
            })
    }
}

/// The winners of a run, best first, and what it cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RerankOutcome {
    /// Exactly `min(top_k, candidates)` entries, best first.
    pub ranked: Vec<Ranked>,
    /// Cost of the run.
    pub stats: RerankStats,
    /// Of a run with a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<DeadlineReport>,
}

/// Puts candidates in order by reading each together with the query.
pub trait Reranker: Send + Sync {
    /// Name of the model, for reports.
    fn model(&self) -> &str;

    /// The best `top_k` of `candidates`, best first.
    ///
    /// # Errors
    /// Unreadable weights, an empty query, or a run that the observer stopped.
    fn rerank(
        &self,
        query: &str,
        candidates: &[&str],
        top_k: usize,
        observer: &mut dyn LayerObserver,
    ) -> Result<RerankOutcome, StageError> {
        self.rerank_with_prior(query, candidates, Prior::NONE, top_k, observer)
    }

    /// [`rerank`](Self::rerank) with what is known of the candidates before they are read.
    ///
    /// # Errors
    /// As [`rerank`](Self::rerank), and a prior that is not finite or not of the candidates' number.
    fn rerank_with_prior(
        &self,
        query: &str,
        candidates: &[&str],
        prior: Prior<'_>,
        top_k: usize,
        observer: &mut dyn LayerObserver,
    ) -> Result<RerankOutcome, StageError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prior_of_early_layers_is_their_own() {
        let earlier = [vec![1.0, 2.0], vec![3.0, 4.0]];
        let prior = Prior { last: &[5.0, 6.0], earlier: &earlier };
        assert_eq!([0, 1, 2, 3].map(|it| prior.of(1, it)), [2.0, 4.0, 6.0, 6.0]);
        assert_eq!((prior.of(2, 0), Prior::NONE.of(0, 0)), (0.0, 0.0));
        assert_eq!([0, 7].map(|it| Prior::always(&[5.0]).of(0, it)), [5.0; 2]);
        assert!(prior.is_for(2) && !prior.is_for(3) && Prior::NONE.is_for(3));
        assert!(!Prior { last: &[5.0, 6.0], earlier: &[vec![1.0]] }.is_for(2));
        assert!(!Prior { last: &[], earlier: &earlier }.is_for(2));
        assert!(!Prior::always(&[f32::NAN]).is_for(1));
    }

    #[test]
    fn only_all_of_the_model_over_all_candidates_is_a_full_reading() {
        let plan = DeadlinePlan {
            layers: 4,
            width: 12,
            num_layers: 4,
            slices: 12,
            candidates: 20,
            bits: vec![vec![8; 12]; 4],
            ..DeadlinePlan::default()
        };
        let report = |end: DeadlineEnd, plan: Option<DeadlinePlan>| DeadlineReport {
            end,
            plan,
            ..DeadlineReport::default()
        };
        let ranked = |plan: DeadlinePlan| report(DeadlineEnd::Ranked, Some(plan)).is_full(20);
        assert!(ranked(plan.clone()));
        assert!(!ranked(DeadlinePlan { layers: 3, ..plan.clone() }));
        assert!(!ranked(DeadlinePlan { width: 9, ..plan.clone() }));
        assert!(!ranked(DeadlinePlan { candidates: 15, ..plan.clone() }));
        let mut fewer = plan.clone();
        fewer.bits[2][7] = 6;
        assert!(!ranked(fewer));
        assert!(!report(DeadlineEnd::Provisional, Some(plan)).is_full(20));
        assert!(!report(DeadlineEnd::TooShort, None).is_full(20));
    }
}
