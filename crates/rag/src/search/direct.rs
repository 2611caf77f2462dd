//! The models that are open for searching, asked directly: other programs rerank and embed with them, and nothing is
//! loaded twice.

use std::{sync::Arc, time::Instant};

use riddle_grating::Question;
use riddle_models::DEFAULT_RERANKER;
use riddle_types::{EmbedRole, LayerObserver, RerankOutcome};

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
        let started = Instant::now();
        let top_n = request.top_n.unwrap_or(request.documents.len());
        let opened = self.chosen(choice)?;
        let texts: Vec<&str> = request.documents.iter().map(|it| it.text()).collect();
        let settings = RerankSettings::default();
        let prior = request.prior(&opened.card, &settings);
        let pruner = opened.pruner(&settings, top_n, texts.len(), &prior)?;
        let outcome = opened
            .rerank((&pruner, false), &request.query, &texts, &prior, top_n, observer)
            .map_err(|it| Error::stage("reranking")(it.into()))?;
        Ok(response(&opened, &pruner, request, &outcome, started, raw_scores))
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
        let opened = self.chosen(choice)?;
        let question = |(request, _): &'_ (RerankRequest, bool)| Question {
            query: request.query.clone(),
            candidates: request.documents.iter().map(|it| it.text().to_owned()).collect(),
            top_k: request.top_n.unwrap_or(request.documents.len()),
        };
        let questions: Vec<Question> = requests.iter().map(question).collect();
        let outcomes = opened
            .engine
            .run_together(&questions, observer)
            .map_err(|it| Error::stage("reranking")(it.into()))?;
        let all = requests.iter().zip(&outcomes);
        let one = |((request, raw), outcome): (&(RerankRequest, bool), &RerankOutcome)| {
            // Several together are never pruned, which compares the candidates of one.
            let pruner = Pruner::never(outcome.ranked.len());
            response(&opened, &pruner, request, outcome, started, *raw)
        };
        Ok(all.map(one).collect())
    }

    /// The reranker for texts of others.
    fn chosen(&self, choice: &RerankChoice) -> Result<Arc<Opened>> {
        let mut rerank = choice.clone();
        if *choice == RerankChoice::Configured && self.configured_reranker()?.is_none() {
            rerank = RerankChoice::Model(DEFAULT_RERANKER.to_owned());
        }
        let search = SearchRequest { rerank, ..SearchRequest::new("") };
        let opened = self.reranker(&search)?;
        opened.ok_or_else(|| Error::BadRequest("no reranker is chosen".into()))
    }

    /// Embeds texts with the model whose vectors are searched; `None` where there is none.
    ///
    /// # Errors
    /// When the model can not be opened or run.
    pub fn embed(&self, texts: &[&str], role: EmbedRole) -> Result<Option<Embedded>> {
        let Some(embedder) = self.embedder.get(&self.config)? else { return Ok(None) };
        let vectors = embedder.embed(texts, role).map_err(Error::stage("embedding"))?;
        let counter = embedder.token_counter();
        let tokens = texts.iter().map(|it| counter.count(it)).sum();
        Ok(Some(Embedded { embedder: embedder.id().to_owned(), vectors, tokens }))
    }

    /// Name of the embedder that [`embed`](Self::embed) uses, and the length of its vectors; `None`: there is none.
    ///
    /// # Errors
    /// When the model can not be opened.
    pub fn embedder(&self) -> Result<Option<(String, usize)>> {
        let embedder = self.embedder.get(&self.config)?;
        Ok(embedder.map(|it| (super::card::embedder_name(it.id()).to_owned(), it.dimensions())))
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
