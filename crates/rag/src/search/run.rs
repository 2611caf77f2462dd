//! What a reranker did, wherever it ran.

use riddle_grating::{Mode, Trace};
use riddle_types::{DeadlineReport, LayerEvent, RerankStats};

use super::card::Answers;
use crate::contract::{Promise, RemoteStage};

/// What the reranker did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RerankRun {
    /// Its name.
    pub model: String,
    /// What pruning could change.
    pub mode: Mode,
    /// What was promised of it, if anything was.
    pub promise: Option<Promise>,
    /// Dispersion threshold of the pruning, given or calibrated.
    pub threshold: Option<f32>,
    /// Cost of the run.
    pub stats: RerankStats,
    /// What was known of each candidate before; empty without a retrieval prior.
    pub prior: Vec<f32>,
    /// The same where earlier layers have others.
    pub earlier_priors: Vec<Vec<f32>>,
    /// Who was dropped by that alone, before the first layer.
    pub dropped_unread: Vec<usize>,
    /// Its layers; candidate indexes are places in the fused list.
    pub layers: Vec<LayerEvent>,
    /// Indexes of the result, best first.
    pub ranked: Vec<usize>,
    /// The model's own raw scores of these, without what was known before; `None` where a place was settled by a layer
    /// on the way, whose scores mean something else.
    pub own: Vec<Option<f32>>,
    /// What such a score says of whether there is an answer, where the model's card tells.
    pub(crate) answers: Option<Answers>,
    /// What became of the deadline, if there was one.
    pub deadline: Option<DeadlineReport>,
    /// What a server did, where one has ranked: it has no layers, and nothing was computed here.
    pub remote: Option<RemoteStage>,
}

impl RerankRun {
    /// The run as a trace, for [`replay_trace`](super::replay_trace).
    pub fn trace(&self) -> Trace {
        Trace {
            num_layers: self.stats.num_layers,
            threshold: self.threshold,
            prior: self.prior.clone(),
            earlier_priors: self.earlier_priors.clone(),
            dropped_unread: self.dropped_unread.clone(),
            layers: self.layers.clone(),
        }
    }
}
