//! What a reranker is asked on the questions of a suite: requests to calibrate with, as searches make them.

use std::sync::atomic::AtomicBool;

use riddle_rag::{
    SearchRequest,
    rerank::{RerankChoice, RerankRequest},
};

use super::{FailedSet, SuiteOptions, datasets, domains, each};
use crate::{
    Dataset, Error, EvalEvent, Instruments, Result, corpus_index::CorpusIndex, instruments::stopped,
};

/// One of so many questions of a set is kept for checking what the others teach.
const CHECKED_EVERY: usize = 3;

/// Requests of all sets.
#[derive(Debug, Clone, Default)]
pub struct SuiteRequests {
    /// Those to learn from.
    pub learn: Vec<RerankRequest>,
    /// Those to check with: every third of each set.
    pub check: Vec<RerankRequest>,
    /// Sets that could not be searched.
    pub failed: Vec<FailedSet>,
}

/// Searches every question of the suite's sets that are of a domain, and keeps what the reranker would have been asked:
/// its candidates with their cosines and keyword scores, as many as the options say, else as a search has.
///
/// # Errors
/// As [`evaluate_suite`](super::evaluate_suite), and [`Error::Stopped`].
pub fn suite_requests(
    options: &SuiteOptions,
    instruments: &mut dyn Instruments,
    stop: &AtomicBool,
) -> Result<SuiteRequests> {
    let sets = datasets(&options.folder)?;
    let domains = domains::read(&options.folder, options.domains.as_deref())?;
    let each = each(options);
    let model = each.model.clone().ok_or(Error::NoReranker)?;
    let mut requests = SuiteRequests::default();
    // A set that repeats others would count them twice.
    let sets: Vec<_> = sets.into_iter().filter(|it| domains.of(&it.0).is_some()).collect();
    for (number, (name, folder)) in sets.iter().enumerate() {
        instruments.event(EvalEvent::Set { name, number: number + 1, total: sets.len() });
        let mut dataset = match Dataset::open(folder) {
            Ok(dataset) => dataset,
            Err(error) => {
                requests.failed.push(FailedSet::of(name, &error));
                continue;
            }
        };
        dataset.limit_queries(each.limit_queries.unwrap_or(usize::MAX), true);
        let (config, embedder) = (&each.config, each.embedder.as_deref());
        let index = CorpusIndex::open(&dataset, config, embedder, instruments, stop)?;
        for (place, query) in dataset.queries.iter().enumerate() {
            stopped(stop)?;
            let request = SearchRequest {
                rerank: RerankChoice::Model(model.clone()),
                ..SearchRequest::new(query.text.clone())
            };
            let request = match each.candidates {
                Some(candidates) => ranking(candidates, request),
                None => request,
            };
            let made = index.assistant.rerank_request(&request)?;
            let of = if place % CHECKED_EVERY == CHECKED_EVERY - 1 {
                &mut requests.check
            } else {
                &mut requests.learn
            };
            of.extend(made);
            let (done, total) = (place + 1, dataset.queries.len());
            instruments.event(EvalEvent::Queries { done, total });
        }
    }
    Ok(requests)
}

/// The request with so many candidates ranked: each kind of search proposes as many, and never fewer than by itself.
fn ranking(candidates: usize, request: SearchRequest) -> SearchRequest {
    SearchRequest {
        keyword_candidates: request.keyword_candidates.max(candidates),
        vector_candidates: request.vector_candidates.max(candidates),
        fused_candidates: candidates,
        ..request
    }
}
