//! What the reranker makes of what was found: [`Assistant::settle`] puts hits in their final order and can be stopped
//! after every layer. [`Assistant::search`] finds and settles.

use std::{
    ops::ControlFlow,
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use riddle_catalog::ChunkRecord;
use riddle_grating::Within;
use riddle_retrieval::{Evidence, Fused};
use riddle_types::{
    LayerEvent, LayerObserver, Notice, Prior, RankTrace, Ranked, SilentObserver, Trouble,
};

use super::{
    find::{Found, trace},
    prune::{Opened, Pruner},
    reader::Assistant,
    remote::Elsewhere,
    run::RerankRun,
};
use crate::{
    contract::{
        Error, Order, RerankChoice, RerankDocument, RerankRequest, Result, SearchRequest,
        SearchResponse,
    },
    home::settings::RERANKER_SETTING,
    index::{Foreground, passage_text},
    stage,
};

/// A search that has come to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    /// What the user sees.
    pub response: SearchResponse,
    /// What the reranker did, if one was used.
    pub run: Option<RerankRun>,
}

impl Assistant {
    /// Searches.
    ///
    /// # Errors
    /// An empty query, an unreadable index, a reranker that can not be used.
    pub fn search(&self, request: &SearchRequest) -> Result<SearchResponse> {
        self.search_observed(request, &mut SilentObserver)
    }

    /// Searches, with the reranker's layers shown to an observer, which may stop it.
    ///
    /// # Errors
    /// As [`search`](Self::search).
    pub fn search_observed(
        &self,
        request: &SearchRequest,
        observer: &mut dyn LayerObserver,
    ) -> Result<SearchResponse> {
        let _total = stage::enter("total");
        let found = self.find(request)?;
        let mut settled = self.settle(&found, request, observer)?;
        settled.response.query.clone_from(&request.query);
        Ok(settled.response)
    }

    /// The final order of what was found: the reranker's, or the fused one where none is used.
    ///
    /// # Errors
    /// A reranker that can not be used, or that the observer stopped.
    pub fn settle(
        &self,
        found: &Found,
        request: &SearchRequest,
        observer: &mut dyn LayerObserver,
    ) -> Result<Settled> {
        let called = Instant::now();
        let _first = Foreground::enter(&self.config.home, request.idle);
        let mut response = found.response(request.k, request.explain);
        let elsewhere = self.settle_elsewhere(found, request, called, observer, &mut response)?;
        match elsewhere {
            Elsewhere::Ranked(run) => Ok(Settled { response, run: Some(*run) }),
            Elsewhere::AsFound => Ok(Settled { response, run: None }),
            Elsewhere::NotRanked => self.settle_here(found, request, called, observer, response),
        }
    }

    /// By a model on this machine.
    fn settle_here(
        &self,
        found: &Found,
        request: &SearchRequest,
        called: Instant,
        observer: &mut dyn LayerObserver,
        mut response: SearchResponse,
    ) -> Result<Settled> {
        let opened = match self.reranker(request) {
            // Nobody has chosen it, so nobody shall find nothing because of it.
            Err(error) if self.is_default_reranker(request)? => {
                response.notices.push(Notice::NotReranked { why: Trouble::of(&error) });
                None
            }
            other => other?,
        };
        let Some(opened) = opened else {
            return Ok(Settled { response, run: None });
        };
        let model = opened.engine.model();
        if let Some(language) = found.foreign_to(&opened.card) {
            response.notices.push(Notice::NotRerankedInLanguage {
                model: model.to_owned(),
                languages: opened.card.languages.clone(),
                language,
            });
            return Ok(Settled { response, run: None });
        }
        let settings = &request.rerank_settings;
        let prior = opened.card.prior(found.made_by(), settings.prior_scale, &found.evidence);
        let mut pruner = match opened.pruner(settings, request.k, found.fused.len(), prior.of) {
            // A promise that can not be kept is no reason for another order than the model's.
            Err(error) if self.is_default_reranker(request)? => {
                Pruner::never_because(request.k, Trouble::of(&error))
            }
            other => other?,
        };
        // What is made once for a model is no part of a deadline.
        let called = opened.prepared.map_or(called, |it| it.max(called));
        pruner.within = Within { called, deadline: settings.deadline };
        response.notices.extend(pruner.notice.clone());
        let how = How { opened: &opened, pruner: &pruner, prior: prior.known() };
        let run = reranked(found, request, how, observer, &mut response)?;
        Ok(Settled { response, run: Some(run) })
    }

    /// What the reranker would be asked for a search, with what retrieval knows of every candidate: a request to
    /// calibrate with. `None` where it would not be used: nothing is found, or in another language.
    ///
    /// # Errors
    /// As [`search`](Self::search).
    pub fn rerank_request(&self, request: &SearchRequest) -> Result<Option<RerankRequest>> {
        let found = self.find(request)?;
        let Some(opened) = self.reranker(request)? else { return Ok(None) };
        if found.fused.is_empty() || found.foreign_to(&opened.card).is_some() {
            return Ok(None);
        }
        let document =
            |((_, it), evidence): (&(Fused, ChunkRecord), &Evidence)| RerankDocument::Named {
                id: None,
                text: passage_text(it.title.as_deref(), &it.heading, &it.text),
                cosine: evidence.cosine,
                keyword: evidence.keyword,
                sparse: evidence.sparse,
            };
        Ok(Some(RerankRequest {
            documents: found.fused.iter().zip(&found.evidence).map(document).collect(),
            query: found.query,
            top_n: None,
        }))
    }

    /// Layers of the reranker that [`settle`](Self::settle) would use, which is opened for that; 0 without one, where
    /// the default one can not be used, and for a server.
    ///
    /// # Errors
    /// When it can not be opened.
    pub fn reranker_layers(&self, request: &SearchRequest) -> Result<u32> {
        if self.would_ask_server(request)? {
            return Ok(0);
        }
        match self.reranker(request) {
            Err(_) if self.is_default_reranker(request)? => Ok(0),
            other => Ok(other?.map_or(0, |it| it.engine.num_layers())),
        }
    }

    /// Whether [`settle`](Self::settle) would rerank.
    ///
    /// # Errors
    /// When the settings can not be read.
    pub fn would_rerank(&self, request: &SearchRequest) -> Result<bool> {
        Ok(match request.rerank {
            RerankChoice::Off => false,
            RerankChoice::Model(_) => true,
            RerankChoice::Configured => self.configured_reranker()?.is_some(),
        })
    }

    /// Whether nobody has chosen what ranks on this machine, so that nobody shall find nothing because of it.
    fn is_default_reranker(&self, request: &SearchRequest) -> Result<bool> {
        if self.would_ask_server(request)? {
            return Ok(true);
        }
        let chosen = request.rerank != RerankChoice::Configured;
        Ok(!chosen && self.catalog.setting(RERANKER_SETTING)?.is_none())
    }
}

/// Who reranks, and how.
#[derive(Clone, Copy)]
struct How<'a> {
    opened: &'a Opened,
    pruner: &'a Pruner,
    prior: Prior<'a>,
}

/// Runs the reranker over everything found and puts its order into the response.
fn reranked(
    found: &Found,
    request: &SearchRequest,
    How { opened, pruner, prior }: How<'_>,
    observer: &mut dyn LayerObserver,
    response: &mut SearchResponse,
) -> Result<RerankRun> {
    let _stage = stage::enter("rerank");
    let texts: Vec<String> = found
        .fused
        .iter()
        .map(|(_, it)| passage_text(it.title.as_deref(), &it.heading, &it.text))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut keep = Keep { dropped_unread: Vec::new(), layers: Vec::new(), inner: observer };
    let engine = &opened.engine;
    let outcome = opened
        .rerank((pruner, request.explain), &found.query, &texts, prior, request.k, &mut keep)
        .map_err(|error| Error::stage("reranking")(error.into()))?;
    response.deadline.clone_from(&outcome.deadline);
    let nobody = outcome.deadline.as_ref().is_some_and(|it| it.plan.is_none());
    if !nobody {
        response.hits.clear();
    }
    // Where nobody was read the order is the one that was found.
    for (ranked, rank) in outcome.ranked.iter().zip(1..).filter(|_| !nobody) {
        let (fused, record) = &found.fused[ranked.index];
        let trace = RankTrace {
            decided_at_layer: Some(ranked.decided_at_layer),
            ..trace(fused, ranked.index as u32 + 1)
        };
        response.hits.push(found.hit(record, rank, ranked.score, trace));
    }
    let promise = pruner.promise_of(&outcome, texts.len());
    let stats = outcome.stats;
    let all = found.fused.len() as u64 * u64::from(stats.num_layers);
    if !nobody {
        response.order = Order::Reranked { model: engine.model().to_owned() };
    }
    response.resident_weight_bytes += stats.resident_weight_bytes;
    response.layers_run = Some(stats.layers_run);
    response.promise = promise;
    response.candidate_layers_share = (all > 0).then(|| stats.candidate_layers as f64 / all as f64);
    if let Some(stages) = &mut response.stages {
        stages.reranked = response.hits.iter().map(|it| it.chunk).collect();
        stages.layers.clone_from(&keep.layers);
    }
    Ok(RerankRun {
        model: engine.model().to_owned(),
        mode: pruner.mode,
        promise,
        threshold: pruner.policy.threshold(),
        stats,
        own: outcome.ranked.iter().map(|it| own_score(it, prior.last, stats.num_layers)).collect(),
        answers: opened.card.answers,
        prior: prior.last.to_vec(),
        earlier_priors: prior.earlier.to_vec(),
        dropped_unread: keep.dropped_unread,
        layers: keep.layers,
        ranked: outcome.ranked.iter().map(|it| it.index).collect(),
        deadline: outcome.deadline,
        remote: None,
    })
}

/// What the model itself says of a candidate, if it was read to the last layer.
fn own_score(ranked: &Ranked, prior: &[f32], num_layers: u32) -> Option<f32> {
    let known = prior.get(ranked.index).copied().unwrap_or(0.0);
    (ranked.decided_at_layer == num_layers).then_some(ranked.raw_score - known)
}

/// Keeps the layers and passes them on.
struct Keep<'a> {
    dropped_unread: Vec<usize>,
    layers: Vec<LayerEvent>,
    inner: &'a mut dyn LayerObserver,
}

impl LayerObserver for Keep<'_> {
    fn on_layer(&mut self, event: &LayerEvent) -> ControlFlow<()> {
        self.layers.push(event.clone());
        self.inner.on_layer(event)
    }

    fn on_prior(&mut self, prior: Prior<'_>, dropped: &[usize]) {
        self.dropped_unread = dropped.to_vec();
        self.inner.on_prior(prior, dropped);
    }

    fn stop_flag(&self) -> Option<Arc<AtomicBool>> {
        self.inner.stop_flag()
    }
}
