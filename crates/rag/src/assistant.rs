//! The query side: search and ask, on what was last committed, while indexing goes on elsewhere.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    sync::{Arc, Mutex, PoisonError},
};

use riddle_catalog::{Catalog, ChunkRecord};
use riddle_grating::Engine;
use riddle_retrieval::{Fused, KeywordReader, RRF_K, RankedList, VectorReader, VectorSource, fuse};
use riddle_types::{
    ChunkId, EmbedRole, Embedder, Hit, LayerEvent, LayerObserver, Query, RankTrace, Reranker as _,
    Retriever as _, SilentObserver, StageError,
};

use crate::{
    AskRequest, AskResponse, Config, Error, Order, RerankChoice, RerankSettings, Result, SearchHit,
    SearchRequest, SearchResponse, StageLists, Status, answer, embedder,
    foreground::Foreground,
    rerank::{RERANKER_SETTING, open_engine},
    stage, status,
    text::passage_text,
};

/// Longest query that is embedded and reranked, in characters; what follows is a pasted document.
const MAX_QUERY_CHARS: usize = 20_000;

/// The reading side of a home; any number at a time.
pub struct Assistant {
    pub(crate) config: Config,
    pub(crate) catalog: Arc<Catalog>,
    keyword: Option<KeywordReader>,
    vector: Option<VectorReader>,
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    /// The last reranker used stays open, with the settings it was opened with.
    engine: Mutex<Option<OpenEngine>>,
    notices: Vec<String>,
}

struct OpenEngine {
    name: String,
    settings: RerankSettings,
    /// Results it was opened for: a calibration is made for a certain number.
    top_k: usize,
    engine: Arc<Engine>,
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

/// What retrieval and fusion found.
struct Found {
    keyword: Vec<Hit>,
    dense: Vec<Hit>,
    fused: Vec<(Fused, ChunkRecord)>,
}

impl Assistant {
    /// Opens a home for searching. What is missing or damaged makes a part of it blind, and is said with
    /// every response.
    ///
    /// # Errors
    /// [`Error::NothingIndexed`] without a catalog; a catalog that can not be read; a damaged model.
    pub fn open(config: Config) -> Result<Assistant> {
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
        let embedder = match catalog.setting("embedded_with")? {
            Some(name) if active.is_some() => embedder::open(&config, &name)?,
            _ => None,
        };
        let mut assistant = Assistant {
            config,
            catalog,
            keyword,
            vector: None,
            embedder: None,
            engine: Mutex::new(None),
            notices,
        };
        match (active, embedder) {
            (Some(active), Some(embedder)) if embedder.id() == active.id => {
                assistant.open_vectors(&active.id)?;
                assistant.embedder = Some(embedder);
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
        let _first = Foreground::enter(&self.config.home);
        let text = request.query.trim();
        if text.is_empty() {
            return Err(Error::BadRequest(
                "the query is empty: type what you are looking for".to_owned(),
            ));
        }
        let end = text.char_indices().nth(MAX_QUERY_CHARS).map_or(text.len(), |(at, _)| at);
        let text = &text[..end];
        let found = self.retrieve(text, request)?;
        let by_meaning =
            !found.dense.is_empty() || (self.vector.is_some() && self.embedder.is_some());
        let order = if by_meaning { Order::Fused } else { Order::Keyword };
        let mut response = SearchResponse {
            query: request.query.clone(),
            hits: Vec::new(),
            order,
            notices: self.notices.clone(),
            index: status::freshness(&self.catalog)?,
            resident_weight_bytes: self
                .embedder
                .as_ref()
                .map_or(0, |it| it.resident_weight_bytes()),
            candidate_layers_share: None,
            layers_run: None,
            stages: request.explain.then(|| StageLists {
                bm25: ids(&found.keyword),
                dense: ids(&found.dense),
                fused: found.fused.iter().map(|it| it.0.chunk.0).collect(),
                ..StageLists::default()
            }),
        };
        match self.reranker(request)? {
            Some(engine) => {
                self.reranked(text, request, found, &engine, observer, &mut response)?
            }
            None => {
                let hits = found.fused.into_iter().take(request.k).zip(1..);
                response.hits = hits
                    .map(|((fused, record), rank)| {
                        hit(record, rank, fused.score, trace(&fused, rank))
                    })
                    .collect();
            }
        }
        Ok(response)
    }

    /// Keyword and vector retrieval side by side, fused.
    fn retrieve(&self, text: &str, request: &SearchRequest) -> Result<Found> {
        let mut query = Query { text: text.to_owned(), ..Query::default() };
        if !request.filter.is_empty() {
            query.allowed = Some(self.catalog.chunks_matching(&request.filter)?);
        }
        let (keyword_limit, vector_limit) =
            (request.keyword_candidates.max(request.k), request.vector_candidates.max(request.k));
        // Spans of the other thread belong to the same subscriber, which may be local to this thread.
        let subscriber = tracing::dispatcher::get_default(Clone::clone);
        let (keyword, dense) = std::thread::scope(|scope| {
            let by_keyword = scope.spawn(|| {
                tracing::dispatcher::with_default(&subscriber, || {
                    let Some(reader) = &self.keyword else { return Ok(Vec::new()) };
                    let _stage = stage::enter("bm25");
                    reader
                        .retrieve(&query, &request.filter, keyword_limit)
                        .map_err(Error::stage("keyword search"))
                })
            });
            let dense = self.by_vector(&query, request, vector_limit);
            let keyword = by_keyword.join().unwrap_or_else(|_| {
                Err(Error::BadRequest("the keyword search failed: this is a bug".to_owned()))
            });
            (keyword, dense)
        });
        let (keyword, dense) = (keyword?, dense?);
        let _stage = stage::enter("fuse");
        let lists =
            [RankedList { hits: &keyword, weight: 1.0 }, RankedList { hits: &dense, weight: 1.0 }];
        let fused = fuse(&lists, RRF_K, keyword.len() + dense.len());
        let wanted: Vec<ChunkId> = fused.iter().map(|it| it.chunk).collect();
        // A chunk that is gone from the catalog no longer answers, whatever an index still holds.
        let mut records: HashMap<ChunkId, ChunkRecord> =
            self.catalog.chunk_records(&wanted)?.into_iter().map(|it| (it.id, it)).collect();
        let fused = fused
            .into_iter()
            .filter_map(|it| Some((records.remove(&it.chunk)?, it)))
            .map(|(a, b)| (b, a));
        Ok(Found { fused: fused.collect(), keyword, dense })
    }

    fn by_vector(&self, query: &Query, request: &SearchRequest, limit: usize) -> Result<Vec<Hit>> {
        let (Some(reader), Some(embedder)) = (&self.vector, &self.embedder) else {
            return Ok(Vec::new());
        };
        let vectors = {
            let _stage = stage::enter("embed");
            embedder.embed(&[&query.text], EmbedRole::Query).map_err(Error::stage("embedding"))?
        };
        let _stage = stage::enter("vector");
        let query = Query { vector: vectors.into_iter().next(), ..query.clone() };
        reader.retrieve(&query, &request.filter, limit).map_err(Error::stage("vector search"))
    }

    fn reranked(
        &self,
        text: &str,
        request: &SearchRequest,
        found: Found,
        engine: &Engine,
        observer: &mut dyn LayerObserver,
        response: &mut SearchResponse,
    ) -> Result<()> {
        let _stage = stage::enter("rerank");
        let texts: Vec<String> = found
            .fused
            .iter()
            .map(|(_, it)| passage_text(it.title.as_deref(), &it.heading, &it.text))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut keep = Keep { layers: Vec::new(), inner: observer };
        let outcome =
            engine.rerank(text, &texts, request.k, &mut keep).map_err(Error::stage("reranking"))?;
        let places: Vec<u64> =
            outcome.ranked.iter().map(|it| found.fused[it.index].0.chunk.0).collect();
        let mut found: Vec<Option<(Fused, ChunkRecord)>> =
            found.fused.into_iter().map(Some).collect();
        for (ranked, rank) in outcome.ranked.iter().zip(1..) {
            if let Some((fused, record)) = found[ranked.index].take() {
                let fused_rank = ranked.index as u32 + 1;
                let trace = RankTrace {
                    decided_at_layer: Some(ranked.decided_at_layer),
                    ..trace(&fused, fused_rank)
                };
                response.hits.push(hit(record, rank, ranked.score, trace));
            }
        }
        let stats = outcome.stats;
        let all = found.len() as u64 * u64::from(stats.num_layers);
        response.order = Order::Reranked { model: engine.model().to_owned() };
        response.resident_weight_bytes += stats.resident_weight_bytes;
        response.layers_run = Some(stats.layers_run);
        response.candidate_layers_share =
            (all > 0).then(|| stats.candidate_layers as f64 / all as f64);
        if let Some(stages) = &mut response.stages {
            stages.reranked = places;
            stages.layers = keep.layers;
        }
        Ok(())
    }

    fn reranker(&self, request: &SearchRequest) -> Result<Option<Arc<Engine>>> {
        let name = match &request.rerank {
            RerankChoice::Off => return Ok(None),
            RerankChoice::Model(name) => name.clone(),
            RerankChoice::Configured => match self.catalog.setting(RERANKER_SETTING)? {
                Some(name) => name,
                None => return Ok(None),
            },
        };
        let settings = &request.rerank_settings;
        let mut open = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |it: &&OpenEngine| {
            let same = it.name == name && it.settings == *settings;
            same && (it.top_k == request.k || !settings.pruning.is_calibrated())
        };
        if let Some(open) = open.as_ref().filter(fits) {
            return Ok(Some(Arc::clone(&open.engine)));
        }
        let (k, explain) = (request.k, request.explain);
        let engine = Arc::new(open_engine(&self.config, &name, settings, k, explain)?);
        let settings = settings.clone();
        *open = Some(OpenEngine { name, settings, top_k: k, engine: Arc::clone(&engine) });
        Ok(Some(engine))
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
        answer::ask(self, request, llm, sink)
    }

    /// The state of the home; `files` adds the ledger.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn status(&self, files: bool) -> Result<Status> {
        status::status(&self.config, &self.catalog, files)
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

/// Keeps the layers and passes them on.
struct Keep<'a> {
    layers: Vec<LayerEvent>,
    inner: &'a mut dyn LayerObserver,
}

impl LayerObserver for Keep<'_> {
    fn on_layer(&mut self, event: &LayerEvent) -> ControlFlow<()> {
        self.layers.push(event.clone());
        self.inner.on_layer(event)
    }
}

fn ids(hits: &[Hit]) -> Vec<u64> {
    hits.iter().map(|it| it.chunk.0).collect()
}

fn trace(fused: &Fused, rank: u32) -> RankTrace {
    let rank_in = |list: usize| fused.ranks.get(list).copied().flatten();
    RankTrace {
        bm25_rank: rank_in(0),
        vector_rank: rank_in(1),
        fused_rank: Some(rank),
        decided_at_layer: None,
    }
}

fn hit(record: ChunkRecord, rank: u32, score: f32, trace: RankTrace) -> SearchHit {
    let name = || record.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    SearchHit {
        rank,
        title: record.title.clone().filter(|it| !it.is_empty()).unwrap_or_else(name),
        path: record.path.to_string_lossy().into_owned(),
        heading: record.heading,
        text: record.text,
        location: record.location,
        score,
        trace,
        modified: record.modified,
        chunk: record.id.0,
    }
}
