//! Rerankers by name, and the engine alone.

use std::{collections::BTreeMap, time::Instant};

use riddle_grating::{ClusterPruning, Mode, NeverPrune, PruningPolicy, Replay, Trace, replay};
use riddle_llm::RemoteReranker;
use riddle_retrieval::{Evidence, evidence_of_words};
use riddle_types::{LayerObserver, MemoryPlan, RerankOutcome, Reranker, StageError};

use super::{
    card::{MadePrior, PriorUse, RerankerCard},
    prune::{BySettings, Opened, Pruner},
    ranker::{best_first, of_this_machine, open_alone, told},
};
use crate::{
    contract::{
        Error, RerankDocument, RerankRequest, RerankResponse, RerankResult, RerankSettings, Result,
        StageServer,
    },
    home::Config,
};

/// Opens a reranker by name in the model store or by directory; `top_k` results will be asked for, which
/// matters to pruning that is calibrated and to nothing else.
///
/// # Errors
/// When there is no such model, it can not be used, a setting makes no sense, or the model is not calibrated
/// for what the settings ask.
pub fn open_reranker(
    config: &Config,
    name: &str,
    settings: &RerankSettings,
    top_k: usize,
) -> Result<Box<dyn Reranker>> {
    Ok(Box::new(by_settings(config, name, settings, top_k, false)?))
}

/// As [`open_reranker`]; `every_layer`: with scores after every layer.
fn by_settings(
    config: &Config,
    name: &str,
    settings: &RerankSettings,
    top_k: usize,
    every_layer: bool,
) -> Result<BySettings> {
    let opened = Opened::open(config, name, settings)?;
    // What can not be promised is told now and not with the first request.
    opened.pruner(settings, top_k, usize::MAX, PriorUse::None)?;
    Ok(BySettings { opened, settings: settings.clone(), every_layer })
}

/// What a recorded run (mode off, scores after every layer) would have returned under cluster pruning at
/// `threshold` (`None`: in full) and what it would have computed. Nothing is computed now.
///
/// # Errors
/// When the trace is not of such a run.
pub fn replay_trace(
    trace: &Trace,
    threshold: Option<f32>,
    mode: Mode,
    top_k: usize,
) -> Result<Replay> {
    let policy: Box<dyn PruningPolicy> = match threshold {
        Some(threshold) => Box::new(ClusterPruning::new(threshold)),
        None => Box::new(NeverPrune),
    };
    replay(trace, &*policy, mode, top_k).map_err(Error::bad)
}

/// The engine alone: requests in, the best documents of each out. Weights stay in memory from one request to the next.
#[derive(Debug)]
pub struct RequestReranker<'a> {
    config: &'a Config,
    model: &'a str,
    settings: &'a RerankSettings,
    raw_scores: bool,
    open: Option<Who>,
}

/// Who ranks.
#[derive(Debug)]
enum Who {
    Here(Box<Opened>),
    There(Box<RemoteReranker>, StageServer),
}

impl<'a> RequestReranker<'a> {
    /// Finds the model, whose weights are read when the first request comes, or the server.
    ///
    /// # Errors
    /// When there is no such model; a server that may not be asked, or settings that it can not follow.
    pub fn new(
        config: &'a Config,
        model: &'a str,
        settings: &'a RerankSettings,
        raw_scores: bool,
    ) -> Result<RequestReranker<'a>> {
        let mut open = None;
        if let Some(server) = StageServer::of(model) {
            if of_this_machine(settings) {
                let why = "pruning and memory are settings of models on this machine: a server knows neither";
                return Err(Error::BadRequest(why.into()));
            }
            open = Some(Who::There(Box::new(open_alone(config, &server)?), server));
        } else {
            config.model_dir(model)?;
        }
        Ok(RequestReranker { config, model, settings, raw_scores, open })
    }

    /// Reranks. The first request opens the model.
    ///
    /// # Errors
    /// As [`open_reranker`], and [`Error::Stage`] for what the run itself reports, after which other requests
    /// can be answered. Nobody ranks in the place of a server: whoever asks one alone wants to know what it says.
    pub fn rerank(
        &mut self,
        request: &RerankRequest,
        observer: &mut dyn LayerObserver,
    ) -> Result<RerankResponse> {
        let started = Instant::now();
        let texts: Vec<&str> = request.documents.iter().map(|it| it.text()).collect();
        let top_n = request.top_n.unwrap_or(texts.len());
        let who = match self.open.take() {
            Some(open) => self.open.insert(open),
            None => {
                let opened = Opened::open(self.config, self.model, self.settings)?;
                self.open.insert(Who::Here(Box::new(opened)))
            }
        };
        let opened = match who {
            Who::Here(opened) => &**opened,
            Who::There(client, server) => {
                let how = (self.settings, self.raw_scores, started);
                return by_server(client, server, request, how, observer);
            }
        };
        let prior = request.prior(&opened.card, self.settings);
        let mut pruner = opened.pruner(self.settings, top_n, texts.len(), prior.of)?;
        // What is made once for a model is no part of a deadline.
        pruner.within.called = opened.prepared.map_or(started, |it| it.max(started));
        let outcome = opened
            .rerank((&pruner, true), &request.query, &texts, prior.known(), top_n, observer)
            .map_err(|error| Error::stage("reranking")(error.into()))?;
        Ok(response(opened, &pruner, request, &outcome, started, self.raw_scores))
    }
}

/// A server's ranking, as the engine's API tells it.
fn by_server(
    client: &RemoteReranker,
    server: &StageServer,
    request: &RerankRequest,
    (settings, raw_scores, started): (&RerankSettings, bool, Instant),
    observer: &mut dyn LayerObserver,
) -> Result<RerankResponse> {
    let texts: Vec<String> = request.texts().into_iter().map(str::to_owned).collect();
    let stop = observer.stop_flag();
    let count = texts.len();
    let scored = client
        .score(&request.query, texts, settings.deadline, stop.as_deref())
        .map_err(|error| Error::stage("reranking")(error.into()))?;
    let model = server.model.clone().or_else(|| scored.model.clone());
    let remote = told(&scored, client.endpoint().origin().to_owned(), model, count);
    let top_n = request.top_n.unwrap_or(count);
    let result = |&index: &usize| RerankResult {
        index,
        id: request.documents[index].id().cloned(),
        relevance_score: if raw_scores {
            scored.logits[index]
        } else {
            riddle_grating::sigmoid(scored.logits[index])
        },
        decided_at_layer: 0,
    };
    Ok(RerankResponse {
        model: remote.who(),
        results: best_first(&scored.logits, top_n).iter().map(result).collect(),
        threshold: None,
        promise: None,
        deadline: None,
        notices: Vec::new(),
        layers_run: 0,
        timings_ms: BTreeMap::from([
            ("remote", remote.ms),
            ("total", started.elapsed().as_secs_f64() * 1e3),
        ]),
        remote: Some(remote),
        plan: MemoryPlan::default(),
        shared_prefix_tokens: 0,
        memory: BTreeMap::new(),
    })
}

/// A run as the engine's API tells it.
pub(super) fn response(
    opened: &Opened,
    pruner: &Pruner,
    request: &RerankRequest,
    outcome: &RerankOutcome,
    started: Instant,
    raw_scores: bool,
) -> RerankResponse {
    let stats = &outcome.stats;
    let results = outcome.ranked.iter().map(|ranked| RerankResult {
        index: ranked.index,
        id: request.documents[ranked.index].id().cloned(),
        relevance_score: if raw_scores { ranked.raw_score } else { ranked.score },
        decided_at_layer: ranked.decided_at_layer,
    });
    RerankResponse {
        model: opened.engine.model().to_owned(),
        results: results.collect(),
        threshold: pruner.policy.threshold(),
        promise: pruner.promise_of(outcome, request.documents.len()),
        deadline: outcome.deadline.clone(),
        remote: None,
        notices: pruner.notice.iter().cloned().collect(),
        layers_run: stats.layers_run,
        timings_ms: BTreeMap::from([
            ("tokenize", stats.tokenize_ms),
            ("forward", stats.forward_ms),
            ("io_wait", stats.io_wait_ms),
            ("total", started.elapsed().as_secs_f64() * 1e3),
        ]),
        plan: stats.plan,
        shared_prefix_tokens: stats.shared_prefix_tokens,
        memory: BTreeMap::from([
            ("resident_weight_bytes", stats.resident_weight_bytes),
            ("scratch_bytes", stats.scratch_bytes),
        ]),
    }
}

impl RerankRequest {
    /// Texts of the documents, in their order.
    pub fn texts(&self) -> Vec<&str> {
        self.documents.iter().map(RerankDocument::text).collect()
    }

    /// The retrieval prior that the request's own cosines and keyword shares make; without these, with what the texts
    /// themselves say of the query's words.
    pub(crate) fn prior(&self, card: &RerankerCard, settings: &RerankSettings) -> MadePrior {
        let mut evidence: Vec<Evidence> =
            self.documents.iter().map(RerankDocument::evidence).collect();
        fill_words(&self.query, &mut evidence, &self.texts());
        card.prior_of_any(settings.prior_scale, &evidence)
    }
}

/// What the texts say of the query's words, where their cosines are known and nobody has searched them for words: the
/// reranker's card weighs both.
fn fill_words(query: &str, evidence: &mut [Evidence], texts: &[&str]) {
    let is_known = evidence.iter().any(|it| it.cosine.is_some_and(f32::is_finite));
    if !is_known || evidence.iter().any(|it| it.keyword.is_some()) {
        return;
    }
    let words = evidence_of_words(query, texts.iter().copied()).into_iter().flatten();
    for (evidence, word) in evidence.iter_mut().zip(words) {
        evidence.keyword = Some(word);
    }
}

/// A reranker and what its card makes of cosines.
pub struct PriorReranker {
    /// The engine.
    pub reranker: Box<dyn Reranker>,
    card: RerankerCard,
    scale: Option<f32>,
}

impl PriorReranker {
    /// Opens it as [`open_reranker`] does; `every_layer`: with scores after every layer, for who observes them.
    ///
    /// # Errors
    /// As there.
    pub fn open(
        config: &Config,
        name: &str,
        settings: &RerankSettings,
        top_k: usize,
        every_layer: bool,
    ) -> Result<PriorReranker> {
        Ok(PriorReranker {
            reranker: Box::new(by_settings(config, name, settings, top_k, every_layer)?),
            card: RerankerCard::read(&config.model_dir(name)?),
            scale: settings.prior_scale,
        })
    }

    /// Reranks candidates with these cosines, by whichever embedder the caller answers for, and the retrieval prior
    /// that they and the words of the texts make; none for a model without one.
    ///
    /// # Errors
    /// As [`Reranker::rerank_with_prior`].
    pub fn rerank_with_cosines(
        &self,
        query: &str,
        candidates: &[&str],
        cosines: &[Option<f32>],
        top_k: usize,
        observer: &mut dyn LayerObserver,
    ) -> std::result::Result<RerankOutcome, StageError> {
        let of = |&cosine: &Option<f32>| Evidence { cosine, ..Evidence::default() };
        let mut evidence: Vec<Evidence> = cosines.iter().map(of).collect();
        fill_words(query, &mut evidence, candidates);
        let made = self.card.prior_of_any(self.scale, &evidence);
        self.reranker.rerank_with_prior(query, candidates, made.known(), top_k, observer)
    }
}

impl std::fmt::Debug for PriorReranker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PriorReranker").field("card", &self.card).finish_non_exhaustive()
    }
}

impl RerankDocument {
    pub(crate) fn text(&self) -> &str {
        match self {
            RerankDocument::Text(text) | RerankDocument::Named { text, .. } => text,
        }
    }

    /// What the caller knows of it.
    fn evidence(&self) -> Evidence {
        match self {
            RerankDocument::Text(_) => Evidence::default(),
            RerankDocument::Named { cosine, keyword, sparse, .. } => {
                Evidence { keyword: *keyword, cosine: *cosine, sparse: *sparse }
            }
        }
    }

    fn id(&self) -> Option<&serde_json::Value> {
        match self {
            RerankDocument::Text(_) => None,
            RerankDocument::Named { id, .. } => id.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str, cosine: Option<f32>, keyword: Option<f32>) -> RerankDocument {
        RerankDocument::Named { id: None, text: text.to_owned(), cosine, keyword, sparse: None }
    }

    fn prior(query: &str, documents: &[RerankDocument]) -> Vec<f32> {
        let card = r#"{"prior": {"embedder": "small", "scale": 10, "center": 0, "keyword": 4, "keyword_center": 0}}"#;
        let card: RerankerCard = serde_json::from_str(card).expect("a card");
        let request =
            RerankRequest { query: query.to_owned(), documents: documents.to_vec(), top_n: None };
        request.prior(&card, &RerankSettings::default()).logits
    }

    #[test]
    fn words_of_the_texts_count_where_cosines_do_and_nobody_has_searched() {
        let both = |cosine, keyword| {
            let texts = ["The keel is oak.", "A winter mooring."];
            texts.map(|it| document(it, cosine, keyword))
        };
        let query = "winter mooring";
        assert_eq!(prior(query, &both(Some(0.5), None)), [5.0, 5.0 + 4.0 * 2.0]);
        // Who has searched knows better, also if it was found nowhere.
        assert_eq!(prior(query, &both(Some(0.5), Some(0.0))), [5.0, 5.0]);
        let mut one = both(Some(0.5), None);
        one[0] = document("The keel is oak.", Some(0.5), Some(1.0));
        assert_eq!(prior(query, &one), [9.0, 5.0]);
        // Without a cosine there is no prior, and in other languages words were not measured.
        assert_eq!(prior(query, &both(None, None)), [0.0_f32; 0]);
        let german = "was kostet der Liegeplatz im Winter?";
        assert_eq!(prior(german, &both(Some(0.5), None)), [5.0, 5.0]);
    }
}
