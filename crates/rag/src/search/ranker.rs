//! A server that ranks, by itself: how it is opened for texts of anybody, and what is made of its scores.

use std::sync::Arc;

use riddle_catalog::Catalog;
use riddle_llm::{RemoteReranker, Scored};

use crate::{
    contract::{Pruning, RemoteStage, RerankSettings, Result, StageServer},
    home::{Config, endpoints::open_ranker},
};

/// A server that was asked, so that what is known of it outlives a search.
#[derive(Debug, Clone)]
pub(super) struct OpenRanker {
    pub(super) server: StageServer,
    pub(super) offline: bool,
    pub(super) client: Arc<RemoteReranker>,
}

/// Places of the best `k`, best first; of equals the one that stood first.
pub(super) fn best_first(logits: &[f32], k: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..logits.len()).collect();
    places.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    places.truncate(k);
    places
}

/// What a server did.
pub(super) fn told(
    scored: &Scored,
    server: String,
    model: Option<String>,
    texts: usize,
) -> RemoteStage {
    let cost = scored.cost;
    RemoteStage {
        server,
        model,
        ms: cost.ms,
        calls: cost.calls,
        tries: cost.tries,
        texts: texts as u64,
        sent_bytes: cost.sent_bytes,
    }
}

/// Whether these ask for what only a model on this machine can do. A deadline a server is held to, and the prior is
/// added here.
pub(super) fn of_this_machine(settings: &RerankSettings) -> bool {
    let pruning = match settings.pruning {
        Pruning::Never => Pruning::Standard,
        other => other,
    };
    let rest = RerankSettings { pruning, deadline: None, prior_scale: None, ..settings.clone() };
    rest != RerankSettings::default()
}

/// Opens a server for texts that are in no library, on the word of a home that may not be there yet.
pub(super) fn open_alone(config: &Config, server: &StageServer) -> Result<RemoteReranker> {
    let catalog = match Catalog::open_read_only(config.catalog()) {
        Ok(catalog) => Some(catalog),
        Err(riddle_catalog::Error::Missing { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    open_ranker(config, catalog.as_ref(), server, config.is_offline())
}
