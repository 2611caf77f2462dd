//! What an evaluation adds up, query by query.

use std::collections::BTreeMap;

use crate::{Latency, Measures, Stage, StageReport};

/// Sums of one stage over the queries.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) measures: Vec<Measures>,
    pub(crate) latency_ms: Vec<f64>,
    pub(crate) rerank_ms: Vec<f64>,
    pub(crate) layers_run: Vec<f64>,
    pub(crate) shares: Vec<f64>,
}

impl Tally {
    pub(crate) fn report(&self) -> StageReport {
        let mean = |of: &[f64]| (!of.is_empty()).then(|| of.iter().sum::<f64>() / of.len() as f64);
        StageReport {
            measures: Measures::mean(&self.measures),
            latency_ms: Latency::of(&self.latency_ms),
            rerank_ms: Latency::of(&self.rerank_ms),
            layers_run_mean: mean(&self.layers_run),
            candidate_layers_share: mean(&self.shares),
        }
    }
}

/// Of every stage.
pub(crate) type Tallies = BTreeMap<Stage, Tally>;

/// As they are reported.
pub(crate) fn reports(tallies: &Tallies) -> BTreeMap<Stage, StageReport> {
    tallies.iter().map(|(&stage, tally)| (stage, tally.report())).collect()
}
