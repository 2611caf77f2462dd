//! The query side: search and ask, on what was last committed, while indexing goes on elsewhere.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use riddle_catalog::{Catalog, ChunkRecord};
use riddle_grating::Mode;
use riddle_models::sparse_languages;
use riddle_retrieval::{KeywordReader, SparseReader, VectorReader};
use riddle_types::{ChunkId, Embedder, Notice, SparseEncoder, Trouble};

use super::{allowed::Allowed, library::OpenLibrary, prune::Opened, ranker::OpenRanker};
use crate::{
    contract::{
        Error, Pruning, RerankChoice, RerankSettings, Result, SearchRequest, StageServer, Status,
        StatusRequest,
    },
    home::{
        Config, DEFAULT_EMBEDDER,
        access::Readable,
        cosines::CosineLevels,
        embedder::{self, Slot, encoder_name},
        embedding_server::EmbeddingServer,
        indexes::{CatalogVectors, keyword_seq, vector_seq},
        local::LocalSlot,
        settings::{
            EMBEDDED_WITH, EMBEDDED_WITH_NUMBERS, WEIGHED_WITH, configured_reranker,
            embedder_memory, numbers, reranker_here, wanted_embedder,
        },
        status,
    },
};

/// The reading side of a home; any number at a time.
pub struct Assistant {
    pub(crate) config: Config,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) keyword: Option<KeywordReader>,
    pub(crate) vector: Option<VectorReader>,
    pub(crate) embedder: Slot<dyn Embedder>,
    /// What the cosines of the embedder that searched last say, by its identity.
    pub(super) levels: Mutex<Option<(String, Option<CosineLevels>)>>,
    /// What embeds in its place.
    pub(super) server: Option<Arc<EmbeddingServer>>,
    pub(crate) sparse: Option<SparseReader>,
    /// What weighs the terms of a query as those of the passages were weighed.
    pub(crate) weigher: Slot<dyn SparseEncoder>,
    /// Languages that it reads; none: any.
    pub(crate) sparse_languages: &'static [&'static str],
    /// The last reranker used stays open, with the settings it was opened with.
    engine: Mutex<Option<OpenEngine>>,
    /// The last server that was asked to rerank, and under which name and rule.
    pub(super) ranker: Mutex<Option<OpenRanker>>,
    /// Shared libraries that were searched, by name.
    pub(super) shared: Mutex<HashMap<String, Arc<OpenLibrary>>>,
    /// Files that others may read, by who asked lately.
    pub(super) readable: Readable,
    /// Passages that may be found, by what was asked for lately.
    pub(super) allowed: Allowed,
    pub(crate) local: LocalSlot,
    pub(crate) notices: Vec<Notice>,
    /// How far the indexes had followed the catalog when they were opened: they may know more.
    pub(crate) seq: u64,
    /// The catalog for writing down answers, opened with the first.
    bank: Mutex<Option<Arc<Catalog>>>,
}

#[derive(Clone)]
struct OpenEngine {
    /// What it was opened with.
    settings: RerankSettings,
    opened: Arc<Opened>,
}

/// The catalog of a home; where there is none nothing was indexed yet.
fn open_catalog(config: &Config) -> Result<Catalog> {
    match Catalog::open_read_only(config.catalog()) {
        Ok(catalog) => Ok(catalog),
        Err(riddle_catalog::Error::Missing { .. }) => {
            Err(Error::NothingIndexed { home: config.home.clone() })
        }
        Err(error) => Err(error.into()),
    }
}

/// How far both indexes have followed the catalog.
fn indexed_seq(config: &Config, embedder: Option<&str>) -> u64 {
    let keyword = keyword_seq(config).unwrap_or(0);
    embedder.map_or(keyword, |it| vector_seq(config, it).unwrap_or(0).min(keyword))
}

/// The part of the settings that an engine is opened with; the rest is said with each request.
fn opened_with(settings: &RerankSettings) -> RerankSettings {
    RerankSettings {
        mode: Mode::Off,
        pruning: Pruning::Never,
        // Only whether there is one.
        deadline: settings.deadline.map(|_| Duration::ZERO),
        preload_bytes: 0,
        prior_scale: None,
        ..settings.clone()
    }
}

impl std::fmt::Debug for Assistant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assistant").field("home", &self.config.home).finish_non_exhaustive()
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

    /// `known` is what the home had a moment ago: an encoder that is the same still is not opened just to see that.
    fn open_knowing(mut config: Config, known: Option<&Assistant>) -> Result<Assistant> {
        let catalog = Arc::new(open_catalog(&config)?);
        config.embedder_memory = embedder_memory(&catalog)?;
        let active = catalog.active_embedder()?;
        let seq = indexed_seq(&config, active.as_ref().map(|it| it.id.as_str()));
        let mut assistant = Assistant {
            config,
            catalog,
            keyword: None,
            vector: None,
            embedder: Slot::none(),
            levels: Mutex::default(),
            server: None,
            sparse: None,
            weigher: Slot::none(),
            sparse_languages: &[],
            engine: Mutex::new(None),
            ranker: Mutex::new(None),
            shared: Mutex::default(),
            readable: Readable::default(),
            allowed: Allowed::default(),
            local: LocalSlot::default(),
            notices: Vec::new(),
            seq,
            bank: Mutex::new(None),
        };
        assistant.open_keywords()?;
        assistant.open_meaning(active.map(|it| it.id), known)?;
        assistant.open_terms(known)?;
        Ok(assistant)
    }

    /// Without its index no word is found. That is said where there are passages to find.
    fn open_keywords(&mut self) -> Result<()> {
        match KeywordReader::open(self.config.keyword_index()) {
            Ok(reader) => self.keyword = Some(reader),
            Err(error) if self.catalog.chunk_count()? > 0 => {
                self.notices.push(Notice::KeywordsNotSearched { why: Trouble::of(&error) });
            }
            Err(_) => {}
        }
        Ok(())
    }

    /// Vectors are searched with the very embedder that made them, `active`; another one's questions lie elsewhere.
    fn open_meaning(&mut self, active: Option<String>, known: Option<&Assistant>) -> Result<()> {
        let Some(embedder) = active else {
            // With nothing to find nothing is missed, and whoever reads libraries elsewhere alone may well have it.
            if self.catalog.chunk_count()? > 0 {
                let name = wanted_embedder(&self.catalog)?;
                self.notices.push(Notice::NoEmbedder { name });
            }
            return Ok(());
        };
        if let Some(name) =
            self.catalog.setting(EMBEDDED_WITH)?.filter(|it| StageServer::of(it).is_some())
        {
            return self.open_server(&name, embedder);
        }
        match self.slot_of(&embedder, known)? {
            Some(slot) if slot.is_of(&embedder) => {
                self.open_vectors(&embedder)?;
                self.embedder = slot;
            }
            Some(_) => self.notices.push(Notice::EmbedderChanging { embedder }),
            None => self.notices.push(Notice::EmbedderMissing { embedder }),
        }
        Ok(())
    }

    /// Of the server of that name; it is not asked now.
    fn open_server(&mut self, name: &str, embedder: String) -> Result<()> {
        match EmbeddingServer::open(&self.config, &self.catalog, name)? {
            Some(server) if server.id() == embedder => {
                self.open_vectors(&embedder)?;
                self.server = Some(server);
            }
            Some(_) => self.notices.push(Notice::EmbedderChanging { embedder }),
            None => self.notices.push(Notice::EmbedderMissing { embedder }),
        }
        Ok(())
    }

    /// Scheme, host and port of the server that embeds what is searched for; `None`: this machine does.
    pub fn embeds_at(&self) -> Option<String> {
        self.server.as_ref().map(|it| it.origin())
    }

    /// Whether the server that embeds does it as that embedder.
    pub(super) fn embeds_as(&self, embedder: &str) -> bool {
        self.server.as_ref().is_some_and(|it| it.id() == embedder)
    }

    /// The embedder of this machine: the one whose vectors are searched, or where a server makes these, the default one
    /// if it is installed. It judges what is said; a server is sent nothing for that.
    ///
    /// # Errors
    /// When it can not be opened.
    pub(crate) fn embedder_here(&self) -> Result<Option<Arc<dyn Embedder>>> {
        match self.server {
            None => self.embedder.get(&self.config),
            Some(_) => embedder::open(&self.config, DEFAULT_EMBEDDER, None),
        }
    }

    /// The embedder that the home was embedded with, as it is installed now: that of `known` where it is the same
    /// still.
    fn slot_of(
        &self,
        embedder: &str,
        known: Option<&Assistant>,
    ) -> Result<Option<Slot<dyn Embedder>>> {
        let Some(name) = self.catalog.setting(EMBEDDED_WITH)? else { return Ok(None) };
        if let Some(slot) = known.and_then(|it| it.embedder.still(&name, embedder)) {
            return Ok(Some(slot));
        }
        let kept = numbers(&self.catalog, EMBEDDED_WITH_NUMBERS)?;
        let opened = embedder::open::<dyn Embedder>(&self.config, &name, kept)?;
        Ok(opened.map(|it| Slot::of(&name, kept, it)))
    }

    /// Where nobody weighs terms the search goes without them, as it does until the first are weighed.
    fn open_terms(&mut self, known: Option<&Assistant>) -> Result<()> {
        let (Some(id), Some(name)) =
            (self.catalog.term_encoder()?, self.catalog.setting(WEIGHED_WITH)?)
        else {
            return Ok(());
        };
        match SparseReader::open(self.config.sparse_index(&id), &id) {
            Ok(reader) => self.sparse = Some(reader),
            Err(error) => tracing::debug!(%error, "no weights of terms are searched"),
        }
        self.sparse_languages = sparse_languages(encoder_name(&id));
        self.weigher = known
            .and_then(|it| it.weigher.still(&name, &id))
            .unwrap_or_else(|| Slot::later(&name, &id));
        Ok(())
    }

    fn open_vectors(&mut self, embedder: &str) -> Result<()> {
        let source = CatalogVectors::of(&self.catalog, embedder);
        match VectorReader::open(self.config.vector_index(embedder), embedder, source) {
            Ok(reader) => self.vector = Some(reader),
            Err(error) if self.catalog.chunk_count()? > 0 => {
                self.notices.push(Notice::MeaningNotSearched { why: Trouble::of(&error) });
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
        let mut fresh = Assistant::open_knowing(self.config.clone(), Some(self))?;
        let open = self.engine.lock().unwrap_or_else(PoisonError::into_inner).clone();
        *fresh.engine.lock().unwrap_or_else(PoisonError::into_inner) = open;
        let ranker = self.ranker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        *fresh.ranker.lock().unwrap_or_else(PoisonError::into_inner) = ranker;
        fresh.local = self.local.clone();
        Ok(fresh)
    }

    /// The catalog, to write answers down beside a library that is at work.
    pub(crate) fn bank(&self) -> Result<Arc<Catalog>> {
        let mut bank = self.bank.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bank) = &*bank {
            return Ok(Arc::clone(bank));
        }
        let opened = Arc::new(Catalog::open(self.config.catalog())?);
        *bank = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// Opens the embedder and the reranker that a search with these settings would use, so that it does not
    /// wait for them.
    ///
    /// # Errors
    /// When one can not be opened.
    pub fn warm(&self, request: &SearchRequest) -> Result<()> {
        if let Some(embedder) = self.embedder.get(&self.config)? {
            self.levels_of(&*embedder)?;
        }
        self.weigher.get(&self.config)?;
        if self.would_ask_server(request)? {
            return Ok(());
        }
        if let Some(opened) = self.reranker(request)? {
            opened.warm(&request.rerank_settings);
        }
        Ok(())
    }

    /// Lets the models go: the next search opens them again. A reranker with a deadline keeps what its settings say.
    pub fn release_models(&self) {
        self.embedder.release();
        self.weigher.release();
        let keeps = {
            let open = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
            open.as_ref().is_some_and(|it| it.opened.engine.let_go())
        };
        if !keeps {
            self.release_reranker();
        }
        self.local.release();
    }

    /// Lets the reranker go, and what is known of a server.
    pub fn release_reranker(&self) {
        *self.ranker.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.engine.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Bytes of model weights in memory now.
    pub fn resident_weight_bytes(&self) -> u64 {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = engine.as_ref().map_or(0, |it| it.opened.engine.resident_weight_bytes());
        let encoders = self.embedder.resident_weight_bytes() + self.weigher.resident_weight_bytes();
        engine + encoders + self.local.resident_weight_bytes()
    }

    /// The reranker that the home is set to use: the one that comes with the program unless told otherwise.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn configured_reranker(&self) -> Result<Option<String>> {
        configured_reranker(&self.catalog)
    }

    /// Name of the reranker of a request; `None` where none is used.
    pub(super) fn reranker_name(&self, request: &SearchRequest) -> Result<Option<String>> {
        match &request.rerank {
            RerankChoice::Off => Ok(None),
            RerankChoice::Model(name) => Ok(Some(name.clone())),
            RerankChoice::Configured => self.configured_reranker(),
        }
    }

    /// The reranker of a request on this machine, opened: `None` where none is used. Where a server ranks it is the
    /// one that does if the server does not. How its requests are pruned is no part of what is opened.
    pub(crate) fn reranker(&self, request: &SearchRequest) -> Result<Option<Arc<Opened>>> {
        let Some(mut name) = self.reranker_name(request)? else { return Ok(None) };
        if StageServer::of(&name).is_some() {
            name = reranker_here(&self.catalog)?;
        }
        let settings = opened_with(&request.rerank_settings);
        let mut open = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |it: &&OpenEngine| it.opened.name == name && it.settings == settings;
        let keep = request.rerank_settings.preload_bytes;
        if let Some(open) = open.as_ref().filter(fits) {
            open.opened.engine.keep(keep);
            return Ok(Some(open.opened.clone()));
        }
        // The old one goes first: two are never in memory.
        *open = None;
        let opened = Arc::new(Opened::open(&self.config, &name, &settings)?);
        opened.engine.keep(keep);
        *open = Some(OpenEngine { settings, opened: opened.clone() });
        Ok(Some(opened))
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
