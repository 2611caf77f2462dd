//! The models that are open for searching, asked directly: other programs rerank and embed with them, and nothing is
//! loaded twice.

use std::{
    ops::ControlFlow,
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use riddle_grating::{Question, Trace, TraceRecorder};
use riddle_models::DEFAULT_RERANKER;
use riddle_types::{EmbedRole, LayerEvent, LayerObserver, Prior, RerankOutcome, StageError};

use super::{
    prune::{Opened, Pruner},
    reader::Assistant,
    rerank::response,
};
use crate::contract::{
    Error, RerankChoice, RerankRequest, RerankResponse, RerankSettings, Result, SearchRequest,
};

/// Vectors of texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedded {
    /// Identity of the embedder: vectors of different ones are never compared.
    pub embedder: String,
    /// A vector for each text, of length 1.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens of all texts.
    pub tokens: usize,
}

/// How texts of others are reranked.
#[derive(Debug, Clone, Default)]
pub struct RerankAs {
    /// Memory, pruning, deadline. Another budget than that of the request before opens the model anew.
    pub settings: RerankSettings,
    /// Logits instead of scores from 0 to 1.
    pub raw_scores: bool,
    /// Keep what happened in every layer.
    pub trace: bool,
    /// When the request was made, from which a deadline counts; `None`: now.
    pub called: Option<Instant>,
}

/// Keeps what it sees, and lets another one decide.
struct Recorded<'a> {
    recorder: TraceRecorder,
    observer: &'a mut dyn LayerObserver,
}

impl LayerObserver for Recorded<'_> {
    fn on_layer(&mut self, event: &LayerEvent) -> ControlFlow<()> {
        self.recorder.layers.push(event.clone());
        self.observer.on_layer(event)
    }

    fn on_prior(&mut self, prior: Prior<'_>, dropped: &[usize]) {
        self.recorder.on_prior(prior, dropped);
        self.observer.on_prior(prior, dropped);
    }

    fn stop_flag(&self) -> Option<Arc<AtomicBool>> {
        self.observer.stop_flag()
    }
}

/// What is wrong with the request itself is none of the engine's.
fn of_run(error: riddle_grating::Error) -> Error {
    use riddle_grating::Error as Run;
    match error {
        Run::BudgetTooSmall { .. } | Run::BadOption(_) | Run::EmptyQuery => Error::bad(error),
        other => Error::stage("reranking")(StageError::from(other)),
    }
}

impl Assistant {
    /// Reranks texts that need not be in the library, with the reranker that searches use, or with the one that comes
    /// with the program where searches use none.
    ///
    /// # Errors
    /// A model that can not be used, and [`Error::Stage`] for what the run itself reports.
    pub fn rerank(
        &self,
        request: &RerankRequest,
        choice: &RerankChoice,
        raw_scores: bool,
        observer: &mut dyn LayerObserver,
    ) -> Result<RerankResponse> {
        let how = RerankAs { raw_scores, ..RerankAs::default() };
        Ok(self.rerank_as(request, choice, &how, observer)?.0)
    }

    /// [`rerank`](Self::rerank) by settings of the caller's, and what happened in every layer where that is asked for.
    ///
    /// # Errors
    /// As there, and settings that the model can not be opened with or that can not hold the request.
    pub fn rerank_as(
        &self,
        request: &RerankRequest,
        choice: &RerankChoice,
        how: &RerankAs,
        observer: &mut dyn LayerObserver,
    ) -> Result<(RerankResponse, Option<Trace>)> {
        let started = how.called.unwrap_or_else(Instant::now);
        let settings = &how.settings;
        let top_n = request.top_n.unwrap_or(request.documents.len());
        let opened = self.chosen(choice, settings)?;
        let texts: Vec<&str> = request.documents.iter().map(|it| it.text()).collect();
        let prior = request.prior(&opened.card, settings);
        let mut pruner = opened.pruner(settings, top_n, texts.len(), prior.of)?;
        // What is made once for a model is no part of a deadline.
        pruner.within.called = opened.prepared.map_or(started, |it| it.max(started));
        let mut recorded = Recorded { recorder: TraceRecorder::default(), observer };
        let watch: &mut dyn LayerObserver =
            if how.trace { &mut recorded } else { &mut *recorded.observer };
        let outcome = opened
            .rerank((&pruner, how.trace), &request.query, &texts, prior.known(), top_n, watch)
            .map_err(of_run)?;
        let response = response(&opened, &pruner, request, &outcome, started, how.raw_scores);
        let trace = how
            .trace
            .then(|| recorded.recorder.into_trace(opened.engine.num_layers(), response.threshold));
        Ok((response, trace))
    }

    /// Reranks several requests in one forward; each has the scores that it would have alone. The flag asks for logits.
    ///
    /// # Errors
    /// As [`rerank`](Self::rerank), for all of them: whoever wants to know which one it was asks them one by one.
    pub fn rerank_together(
        &self,
        requests: &[(RerankRequest, bool)],
        choice: &RerankChoice,
        observer: &mut dyn LayerObserver,
    ) -> Result<Vec<RerankResponse>> {
        if let [(request, raw_scores)] = requests {
            return Ok(vec![self.rerank(request, choice, *raw_scores, observer)?]);
        }
        let started = Instant::now();
        let opened = self.chosen(choice, &RerankSettings::default())?;
        let question = |(request, _): &'_ (RerankRequest, bool)| Question {
            query: request.query.clone(),
            candidates: request.documents.iter().map(|it| it.text().to_owned()).collect(),
            top_k: request.top_n.unwrap_or(request.documents.len()),
        };
        let questions: Vec<Question> = requests.iter().map(question).collect();
        let outcomes = opened.engine.run_together(&questions, observer).map_err(of_run)?;
        let all = requests.iter().zip(&outcomes);
        let one = |((request, raw), outcome): (&(RerankRequest, bool), &RerankOutcome)| {
            // Several together are never pruned, which compares the candidates of one.
            let pruner = Pruner::never(outcome.ranked.len());
            response(&opened, &pruner, request, outcome, started, *raw)
        };
        Ok(all.map(one).collect())
    }

    /// The reranker for texts of others.
    fn chosen(&self, choice: &RerankChoice, settings: &RerankSettings) -> Result<Arc<Opened>> {
        let mut rerank = choice.clone();
        if *choice == RerankChoice::Configured && self.configured_reranker()?.is_none() {
            rerank = RerankChoice::Model(DEFAULT_RERANKER.to_owned());
        }
        let rerank_settings = settings.clone();
        let search = SearchRequest { rerank, rerank_settings, ..SearchRequest::new("") };
        let opened = self.reranker(&search)?;
        opened.ok_or_else(|| Error::BadRequest("no reranker is chosen".into()))
    }

    /// Where a server embeds: what others want embedded is not passed on to it.
    pub(super) fn only_here(&self) -> Result<()> {
        match &self.server {
            None => Ok(()),
            Some(server) => Err(Error::NotHere { server: server.origin() }),
        }
    }

    /// Embeds texts with the model whose vectors are searched; `None` where there is none.
    ///
    /// # Errors
    /// When the model can not be opened or run; [`Error::NotHere`] where a server embeds.
    pub fn embed(&self, texts: &[&str], role: EmbedRole) -> Result<Option<Embedded>> {
        self.only_here()?;
        let Some(embedder) = self.embedder.get(&self.config)? else { return Ok(None) };
        let vectors = embedder.embed(texts, role).map_err(Error::stage("embedding"))?;
        let counter = embedder.token_counter();
        let tokens = texts.iter().map(|it| counter.count(it)).sum();
        Ok(Some(Embedded { embedder: embedder.id().to_owned(), vectors, tokens }))
    }

    /// Name of the embedder that [`embed`](Self::embed) uses, and the length of its vectors; `None`: there is none.
    ///
    /// # Errors
    /// When the model can not be opened; [`Error::NotHere`] where a server embeds.
    pub fn embedder(&self) -> Result<Option<(String, usize)>> {
        self.only_here()?;
        let embedder = self.embedder.get(&self.config)?;
        Ok(embedder
            .map(|it| (crate::home::embedder::encoder_name(it.id()).to_owned(), it.dimensions())))
    }

    /// Changes whenever something was committed to the home: whoever keeps an assistant for long opens it
    /// [again](Self::reopen) then.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn stamp(&self) -> Result<(u64, Option<i64>)> {
        let as_of = crate::home::status::freshness(&self.catalog)?.as_of;
        Ok((self.catalog.last_seq()?, as_of))
    }
}
