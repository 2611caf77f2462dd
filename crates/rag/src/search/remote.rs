//! Ranking by a server in the place of a model on this machine.
//!
//! A server is asked when all that it would be sent may leave this machine, and its answer counts when it says
//! something of every passage. Whatever else happens, a model on this machine ranks, as it does where no server is
//! chosen, and a notice says why.

use std::{
    sync::{Arc, PoisonError},
    time::Instant,
};

use riddle_catalog::ChunkRecord;
use riddle_llm::{Endpoint, RemoteReranker, Scored};
use riddle_models::DEFAULT_RERANKER;
use riddle_types::{LayerObserver, NotElsewhere, Notice, Trouble};

use super::{
    card::RerankerCard,
    find::{Found, trace},
    ranker::{OpenRanker, best_first, of_this_machine, told},
    reader::Assistant,
    run::RerankRun,
};
use crate::{
    contract::{
        Error, Order, RemoteStage, RerankChoice, Result, SearchRequest, SearchResponse, StageServer,
    },
    home::{
        endpoints::{allowed_ranker, open_ranker},
        settings::reranker_here,
    },
    index::passage_text,
    stage,
};

/// What became of a search that a server may have ranked.
pub(super) enum Elsewhere {
    /// It has.
    Ranked(Box<RerankRun>),
    /// Nobody shall: the order is the one that was found.
    AsFound,
    /// A model on this machine has to.
    NotRanked,
}

impl Assistant {
    /// The server that is to rank for a request; `None`: a model on this machine is. What nobody has asked for is sent
    /// nowhere.
    fn ranking_server(&self, request: &SearchRequest) -> Result<Option<StageServer>> {
        if request.idle {
            return Ok(None);
        }
        Ok(self.reranker_name(request)?.and_then(|it| StageServer::of(&it)))
    }

    /// Whether a server is to rank for a request.
    ///
    /// # Errors
    /// When the settings can not be read.
    pub fn would_ask_server(&self, request: &SearchRequest) -> Result<bool> {
        Ok(self.ranking_server(request)?.is_some())
    }

    /// The model of this machine that ranks where a server does not.
    ///
    /// # Errors
    /// When the settings can not be read.
    pub fn reranker_here(&self) -> Result<String> {
        reranker_here(&self.catalog)
    }

    /// What asks it. Whether it may be asked is looked up every time.
    fn ranker(&self, server: &StageServer, offline: bool) -> Result<Arc<RemoteReranker>> {
        let mut open = self.ranker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = open.as_ref().filter(|it| it.server == *server && it.offline == offline)
        {
            allowed_ranker(Some(&self.catalog), server)?;
            return Ok(Arc::clone(&open.client));
        }
        let client = open_ranker(&self.config, Some(&self.catalog), server, offline)?;
        let client = Arc::new(client);
        *open = Some(OpenRanker { server: server.clone(), offline, client: Arc::clone(&client) });
        Ok(client)
    }

    /// The order that a server gives, where one is to. What should be known is among the notices either way.
    ///
    /// # Errors
    /// A server that the request names and that may not be asked; a search that was stopped meanwhile.
    pub(super) fn settle_elsewhere(
        &self,
        found: &Found,
        request: &SearchRequest,
        called: Instant,
        observer: &mut dyn LayerObserver,
        response: &mut SearchResponse,
    ) -> Result<Elsewhere> {
        let Some(server) = self.ranking_server(request)? else { return Ok(Elsewhere::NotRanked) };
        if found.fused.is_empty() {
            return Ok(Elsewhere::AsFound);
        }
        if let Some(notice) = self.foreign(found, server.model.as_deref()) {
            response.notices.push(notice);
            return Ok(Elsewhere::AsFound);
        }
        let origin = server.origin();
        let scored = match self.scored(found, request, &server, called, observer)? {
            Ok(scored) => scored,
            Err(why) => {
                response.notices.push(Notice::NotRankedElsewhere { server: origin, why });
                return Ok(Elsewhere::NotRanked);
            }
        };
        // Only now it is known who has ranked, where nobody has said so before.
        let model = server.model.or_else(|| scored.model.clone());
        if let Some(notice) = self.foreign(found, model.as_deref()) {
            response.notices.push(notice);
            return Ok(Elsewhere::AsFound);
        }
        if of_this_machine(&request.rerank_settings) {
            response.notices.push(Notice::SettingsNotElsewhere { server: origin.clone() });
        }
        let remote = told(&scored, origin, model, found.fused.len());
        let run = self.ordered(found, request, &scored, remote, response);
        Ok(Elsewhere::Ranked(Box::new(run)))
    }

    /// What the server says of every candidate, or why it says nothing.
    fn scored(
        &self,
        found: &Found,
        request: &SearchRequest,
        server: &StageServer,
        called: Instant,
        observer: &mut dyn LayerObserver,
    ) -> Result<Result<Scored, NotElsewhere>> {
        let client = match self.ranker(server, request.offline || self.config.is_offline()) {
            Err(error) if matches!(request.rerank, RerankChoice::Model(_)) => return Err(error),
            Err(error) => return Ok(Err(NotElsewhere::Failed { why: Trouble::of(&error) })),
            Ok(client) => client,
        };
        let count = self.held_back(found, client.endpoint())?;
        if count > 0 {
            return Ok(Err(NotElsewhere::HeldBack { count }));
        }
        let _stage = stage::enter("rerank_remote");
        let text = |it: &ChunkRecord| passage_text(it.title.as_deref(), &it.heading, &it.text);
        let texts = found.fused.iter().map(|it| text(&it.1)).collect();
        let within = request.rerank_settings.deadline;
        let within = within.map(|it| it.saturating_sub(called.elapsed()));
        let stop = observer.stop_flag();
        match client.score(&found.query, texts, within, stop.as_deref()) {
            Ok(scored) => Ok(Ok(scored)),
            Err(error @ riddle_llm::Error::Stopped) => Err(Error::stage("reranking")(error.into())),
            Err(error) => Ok(Err(NotElsewhere::Failed { why: Trouble::of(&error) })),
        }
    }

    /// Candidates whose text never leaves this machine; none where the server is on it.
    fn held_back(&self, found: &Found, endpoint: &Endpoint) -> Result<u64> {
        if endpoint.is_local() {
            return Ok(0);
        }
        let confined = self.catalog.confined()?;
        let stays = |path: &std::path::Path| confined.iter().any(|it| path.starts_with(it));
        // Marks are on folders of this home. What others share is theirs to share.
        let own = found.fused.iter().filter(|(_, it)| !found.libraries.contains_key(&it.id));
        let held = own.filter(|(_, it)| stays(&it.path) || it.also_in.iter().any(|it| stays(it)));
        Ok(held.count() as u64)
    }

    /// What the model of that name says of itself, if it is installed here, too. What answers elsewhere under the name
    /// of one that was trained with a prior is taken for it.
    fn card_of(&self, model: Option<&str>) -> RerankerCard {
        let store = self.config.model_store().ok();
        // A name, and never a path: it may be the server that says it.
        let known =
            |name: &str| name == DEFAULT_RERANKER || store.as_ref().is_some_and(|it| it.has(name));
        let dir = model.filter(|it| known(it)).and_then(|it| self.config.model_dir(it).ok());
        dir.map(|it| RerankerCard::read(&it)).unwrap_or_default()
    }

    /// What is to be known where that model does not read the language.
    fn foreign(&self, found: &Found, model: Option<&str>) -> Option<Notice> {
        let card = self.card_of(model);
        let language = found.foreign_to(&card)?;
        let model = model.unwrap_or_default().to_owned();
        Some(Notice::NotRerankedInLanguage { model, languages: card.languages, language })
    }

    /// Puts the server's order into the response.
    fn ordered(
        &self,
        found: &Found,
        request: &SearchRequest,
        scored: &Scored,
        remote: RemoteStage,
        response: &mut SearchResponse,
    ) -> RerankRun {
        let scale = request.rerank_settings.prior_scale;
        let card = self.card_of(remote.model.as_deref());
        let prior = card.prior(found.made_by(), scale, &found.evidence);
        let logits: Vec<f32> = scored
            .logits
            .iter()
            .enumerate()
            .map(|(at, it)| it + prior.logits.get(at).copied().unwrap_or(0.0))
            .collect();
        let best = best_first(&logits, request.k);
        response.hits = best
            .iter()
            .zip(1..)
            .map(|(&at, rank)| {
                let (fused, record) = &found.fused[at];
                let of = trace(fused, at as u32 + 1);
                found.hit(record, rank, riddle_grating::sigmoid(logits[at]), of)
            })
            .collect();
        response.order = Order::Reranked { model: remote.who() };
        response.remote = Some(remote.clone());
        if let Some(stages) = &mut response.stages {
            stages.reranked = response.hits.iter().map(|it| it.chunk).collect();
        }
        RerankRun {
            model: remote.who(),
            own: best.iter().map(|&at| scored.logits.get(at).copied()).collect(),
            answers: card.answers,
            prior: prior.logits,
            ranked: best,
            remote: Some(remote),
            ..RerankRun::default()
        }
    }
}
