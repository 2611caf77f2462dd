//! The query side: search and ask, on what was last committed, while indexing goes on elsewhere.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    sync::{Arc, Mutex, PoisonError},
};

use riddle_catalog::{Catalog, ChunkRecord};
use riddle_grating::{Engine, Mode};
use riddle_models::DEFAULT_RERANKER;
use riddle_retrieval::{KeywordReader, VectorReader, VectorSource};
use riddle_types::{ChunkId, Reranker, StageError};

use crate::{
    AskEvent, AskRequest, AskResponse, ClaimJudge, Config, Error, Outgoing, Pruning, RerankChoice,
    RerankSettings, Result, SearchHit, SearchRequest, Status, StatusRequest, answer,
    card::RerankerCard,
    embedder::{self, Slot},
    local::LocalSlot,
    outgoing,
    rerank::{self, open_engine},
    status,
};

/// The reading side of a home; any number at a time.
pub struct Assistant {
    pub(crate) config: Config,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) keyword: Option<KeywordReader>,
    pub(crate) vector: Option<VectorReader>,
    pub(crate) embedder: Slot,
    /// The last reranker used stays open, with the settings it was opened with.
    engine: Mutex<Option<OpenEngine>>,
    pub(crate) local: LocalSlot,
    pub(crate) notices: Vec<String>,
}

#[derive(Clone)]
pub(crate) struct OpenEngine {
    name: String,
    settings: RerankSettings,
    /// Results it was opened for: a calibration is made for a certain number.
    top_k: usize,
    pub(crate) engine: Arc<Engine>,
    pub(crate) card: Arc<RerankerCard>,
}

impl std::fmt::Debug for Assistant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assistant").field("home", &self.config.home).finish_non_exhaustive()
    }
}

/// Exact vectors from the catalog.
pub(crate) struct CatalogVectors {
    catalog: Option<(Arc<Catalog>, String)>,
}

impl CatalogVectors {
    /// A source without vectors, for looking at an index without searching it.
    pub(crate) fn none() -> Arc<dyn VectorSource> {
        Arc::new(CatalogVectors { catalog: None })
    }
}

impl VectorSource for CatalogVectors {
    fn vectors(&self, chunks: &[ChunkId]) -> Result<Vec<(ChunkId, Vec<f32>)>, StageError> {
        match &self.catalog {
            Some((catalog, embedder)) => Ok(catalog.vectors_of(embedder, chunks)?),
            None => Ok(Vec::new()),
        }
    }
}

impl Assistant {
    /// Opens a home for searching. What is missing or damaged makes a part of it blind, and is said with
    /// every response.
    ///
    /// # Errors
    /// [`Error::NothingIndexed`] without a catalog; a catalog that can not be read; a damaged model.
    pub fn open(config: Config) -> Result<Assistant> {
        Assistant::open_knowing(config, None)
    }

    /// `known` is the embedder that the home had a moment ago: one that is the same still is not opened just to
    /// see that.
    fn open_knowing(config: Config, known: Option<&Slot>) -> Result<Assistant> {
        let catalog = match Catalog::open_read_only(&config.catalog()) {
            Ok(catalog) => Arc::new(catalog),
            Err(riddle_catalog::Error::Missing { .. }) => {
                return Err(Error::NothingIndexed { home: config.home.clone() });
            }
            Err(error) => return Err(error.into()),
        };
        let mut notices = Vec::new();
        let keyword = match KeywordReader::open(&config.keyword_index()) {
            Ok(reader) => Some(reader),
            Err(error) => {
                if catalog.chunk_count()? > 0 {
                    notices.push(format!("keywords are not searched: {error}"));
                }
                None
            }
        };
        let active = catalog.active_embedder()?;
        let embedded_with = catalog.setting(embedder::EMBEDDED_WITH)?;
        let slot = match (&active, &embedded_with) {
            (Some(active), Some(name)) => match known.and_then(|it| it.still(name, &active.id)) {
                Some(slot) => Some(slot),
                None => embedder::open(&config, name)?.map(|it| Slot::of(name, it)),
            },
            _ => None,
        };
        let mut assistant = Assistant {
            config,
            catalog,
            keyword,
            vector: None,
            embedder: Slot::none(),
            engine: Mutex::new(None),
            local: LocalSlot::default(),
            notices,
        };
        match (active, slot) {
            (Some(active), Some(slot)) if slot.is_of(&active.id) => {
                assistant.open_vectors(&active.id)?;
                assistant.embedder = slot;
            }
            (Some(active), Some(_)) => assistant.notices.push(format!(
                "only keywords are searched: the vectors were made by {}, and another embedder is being introduced: run `riddle index`",
                active.id
            )),
            (Some(active), None) => assistant.notices.push(format!(
                "only keywords are searched: the model that made the vectors ({}) is not installed: `riddle models pull` fetches it",
                active.id
            )),
            (None, _) => {
                let wanted = embedder::wanted(&assistant.catalog)?;
                assistant.notices.push(embedder::missing_notice(&wanted));
            }
        }
        Ok(assistant)
    }

    fn open_vectors(&mut self, embedder: &str) -> Result<()> {
        let source = Arc::new(CatalogVectors {
            catalog: Some((Arc::clone(&self.catalog), embedder.to_owned())),
        });
        match VectorReader::open(&self.config.vector_index(embedder), embedder, source) {
            Ok(reader) => self.vector = Some(reader),
            Err(error) if self.catalog.chunk_count()? > 0 => {
                self.notices.push(format!("meaning is not searched: {error}"));
            }
            Err(_) => {}
        }
        Ok(())
    }

    /// A fresh look at the home, at what was last committed; the reranker that is open stays open.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn reopen(&self) -> Result<Assistant> {
        let mut fresh = Assistant::open_knowing(self.config.clone(), Some(&self.embedder))?;
        let open = self.engine.lock().unwrap_or_else(PoisonError::into_inner).clone();
        *fresh.engine.lock().unwrap_or_else(PoisonError::into_inner) = open;
        fresh.local = self.local.clone();
        Ok(fresh)
    }

    /// Opens the embedder and the reranker that a search with these settings would use, so that it does not
    /// wait for them.
    ///
    /// # Errors
    /// When one can not be opened.
    pub fn warm(&self, request: &SearchRequest) -> Result<()> {
        self.embedder.get(&self.config)?;
        self.reranker(request).map(|_| ())
    }

    /// Lets the models go: the next search opens them again.
    pub fn release_models(&self) {
        self.embedder.release();
        self.release_reranker();
        self.local.release();
    }

    /// Lets the reranker go.
    pub fn release_reranker(&self) {
        *self.engine.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Bytes of model weights in memory now.
    pub fn resident_weight_bytes(&self) -> u64 {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = engine.as_ref().map_or(0, |it| it.engine.resident_weight_bytes());
        engine + self.embedder.resident_weight_bytes() + self.local.resident_weight_bytes()
    }

    /// The reranker that the home is set to use: the one that comes with the program unless told otherwise.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn configured_reranker(&self) -> Result<Option<String>> {
        rerank::configured(&self.catalog)
    }

    pub(crate) fn reranker(&self, request: &SearchRequest) -> Result<Option<OpenEngine>> {
        let name = match &request.rerank {
            RerankChoice::Off => return Ok(None),
            RerankChoice::Model(name) => name.clone(),
            RerankChoice::Configured => match self.configured_reranker()? {
                Some(name) => name,
                None => return Ok(None),
            },
        };
        let settings = &request.rerank_settings;
        let mut open = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |it: &&OpenEngine| {
            // What the prior counts is not the engine's.
            let settings =
                RerankSettings { prior_scale: it.settings.prior_scale, ..settings.clone() };
            let same = it.name == name && it.settings == settings;
            same && (it.top_k == request.k || !settings.pruning.is_calibrated())
        };
        if let Some(open) = open.as_ref().filter(fits) {
            return Ok(Some(open.clone()));
        }
        let (k, explain) = (request.k, request.explain);
        let engine = Arc::new(open_engine(&self.config, &name, settings, k, explain)?);
        let card = Arc::new(RerankerCard::read(&self.config.model_dir(&name)?));
        let settings = settings.clone();
        let opened = OpenEngine { name, settings, top_k: k, engine, card };
        *open = Some(opened.clone());
        Ok(Some(opened))
    }

    /// Answers a question from the best passages, or says that nothing in the files answers it. Pieces of
    /// the answer are handed to `sink` as they come; `Break` stops it.
    ///
    /// # Errors
    /// As [`search`](Self::search); an unknown `llm`.
    pub fn ask(
        &self,
        request: &AskRequest,
        llm: &str,
        sink: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<AskResponse> {
        self.ask_observed(request, llm, &mut |event| match event {
            AskEvent::Piece(text) => sink(text),
            _ => ControlFlow::Continue(()),
        })
    }

    /// [`ask`](Self::ask), with everything that happens on the way; `Break` stops it.
    ///
    /// # Errors
    /// As there.
    pub fn ask_observed(
        &self,
        request: &AskRequest,
        llm: &str,
        observer: &mut dyn FnMut(AskEvent<'_>) -> ControlFlow<()>,
    ) -> Result<AskResponse> {
        answer::ask(self, request, llm, observer)
    }

    /// What judges the sentences of an answer to `question` from these passages; without the reranker that the
    /// judgment was fitted for it says less, and the notice says why.
    ///
    /// # Errors
    /// When the catalog or the embedder can not be read.
    pub fn claim_judge(
        &self,
        request: &SearchRequest,
        question: &str,
        passages: &[SearchHit],
    ) -> Result<(ClaimJudge, Option<String>)> {
        let embedder = self.embedder.get(&self.config)?;
        match self.claim_reranker(request, question, passages) {
            Ok(reranker) => Ok((ClaimJudge::new(Some(reranker), embedder), None)),
            Err(why) => {
                let notice = format!(
                    "the answer's sentences are checked by their words and meaning alone: {why}"
                );
                Ok((ClaimJudge::new(None, embedder), Some(notice)))
            }
        }
    }

    /// The reranker for judging, or why there is none.
    fn claim_reranker(
        &self,
        request: &SearchRequest,
        question: &str,
        passages: &[SearchHit],
    ) -> Result<Arc<dyn Reranker>, String> {
        // Pruned scores are those of a layer on the way.
        let settings = RerankSettings {
            mode: Mode::Off,
            pruning: Pruning::Never,
            ..request.rerank_settings.clone()
        };
        let opened = self.reranker(request).map_err(|error| error.to_string())?;
        let Some(opened) = opened else { return Err("no reranker is chosen".to_owned()) };
        if opened.name != DEFAULT_RERANKER {
            return Err(format!(
                "what its scores mean is known of {DEFAULT_RERANKER}, and {} is chosen",
                opened.engine.model()
            ));
        }
        let texts = passages.iter().map(|it| it.text.as_str());
        if let Some(language) = opened.card.foreign_language(question, texts) {
            return Err(format!(
                "{} was trained on {}, and this is in another language ({language})",
                opened.engine.model(),
                opened.card.languages.join(", ")
            ));
        }
        if opened.settings.mode == Mode::Off {
            return Ok(opened.engine);
        }
        let engine = open_engine(&self.config, &opened.name, &settings, 1, false);
        Ok(Arc::new(engine.map_err(|error| error.to_string())?))
    }

    /// What the endpoint of a request would be sent, allowed or not; nothing is sent.
    ///
    /// # Errors
    /// As [`search`](Self::search); a request without an endpoint.
    pub fn outgoing(&self, request: &AskRequest, llm: &str) -> Result<Outgoing> {
        outgoing::outgoing(self, request, llm)
    }

    /// The state of the home.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn status(&self, request: StatusRequest) -> Result<Status> {
        status::status(&self.config, &self.catalog, request)
    }

    /// Where chunks come from, in order: the path below their root with `/` between folders, or the
    /// document's id in a collection; `None` for chunks that are gone.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn documents_of(&self, chunks: &[u64]) -> Result<Vec<Option<String>>> {
        let roots = self.catalog.roots()?;
        let ids: Vec<ChunkId> = chunks.iter().copied().map(ChunkId).collect();
        let records: HashMap<ChunkId, ChunkRecord> =
            self.catalog.chunk_records(&ids)?.into_iter().map(|it| (it.id, it)).collect();
        let name = |id: &ChunkId| {
            let path = &records.get(id)?.path;
            let root = roots.iter().find(|it| path.starts_with(&it.path))?;
            let below = path.strip_prefix(&root.path).ok()?;
            let parts: Vec<_> = below.iter().map(|it| it.to_string_lossy()).collect();
            Some(parts.join("/"))
        };
        Ok(ids.iter().map(name).collect())
    }
}
