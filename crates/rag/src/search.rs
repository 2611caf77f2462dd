//! A search in its steps: what the indexes find, and what the reranker makes of it.
//!
//! [`Assistant::find`] is quick and its hits can be shown at once; [`Assistant::settle`] puts them in their final
//! order and can be stopped after every layer. [`Assistant::search`] is both.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    sync::{Arc, atomic::AtomicBool},
};

use riddle_catalog::ChunkRecord;
use riddle_grating::{Engine, Trace};
use riddle_models::embedder_languages;
use riddle_retrieval::{Fused, RRF_K, RankedList, fuse};
use riddle_types::{
    ChunkId, EmbedRole, FileKind, Hit, LayerEvent, LayerObserver, Query, RankTrace, RerankStats,
    Reranker as _, Retriever as _, SilentObserver,
};

use crate::{
    Assistant, Error, IndexFreshness, Order, RerankChoice, Result, SearchHit, SearchRequest,
    SearchResponse, StageLists,
    card::{embedder_name, foreign_language},
    foreground::Foreground,
    rerank::RERANKER_SETTING,
    stage, status,
    text::passage_text,
};

/// Longest query that is embedded and reranked, in characters; what follows is a pasted document.
const MAX_QUERY_CHARS: usize = 20_000;

/// What is said with a search of an index in which there is nothing.
pub const NOTHING_YET: &str = "there is nothing in the index yet: `riddle index FOLDER` reads a folder, `riddle status` says what it found";

/// What retrieval and fusion found for a query.
#[derive(Debug, Clone)]
pub struct Found {
    /// The query, trimmed and within limits.
    query: String,
    keyword: Vec<Hit>,
    dense: Vec<Hit>,
    fused: Vec<(Fused, ChunkRecord)>,
    order: Order,
    notices: Vec<String>,
    index: IndexFreshness,
    resident_weight_bytes: u64,
    /// Identity of the embedder and the query's vector, where meaning was searched.
    vector: Option<QueryVector>,
}

/// Identity of an embedder, and its vector of a query.
type QueryVector = (String, Vec<f32>);

/// What the reranker did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RerankRun {
    /// Its name.
    pub model: String,
    /// Dispersion threshold of the pruning, given or calibrated.
    pub threshold: Option<f32>,
    /// Cost of the run.
    pub stats: RerankStats,
    /// What was known of each candidate before; empty without a retrieval prior.
    pub prior: Vec<f32>,
    /// Who was dropped by that alone, before the first layer.
    pub dropped_unread: Vec<usize>,
    /// Its layers; candidate indexes are places in the fused list.
    pub layers: Vec<LayerEvent>,
    /// Indexes of the result, best first.
    pub ranked: Vec<usize>,
}

impl RerankRun {
    /// The run as a trace, for [`replay_trace`](crate::replay_trace).
    pub fn trace(&self) -> Trace {
        Trace {
            num_layers: self.stats.num_layers,
            threshold: self.threshold,
            prior: self.prior.clone(),
            dropped_unread: self.dropped_unread.clone(),
            layers: self.layers.clone(),
        }
    }
}

/// A search that has come to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    /// What the user sees.
    pub response: SearchResponse,
    /// What the reranker did, if one was used.
    pub run: Option<RerankRun>,
}

/// A candidate of the fused list.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundCandidate {
    /// The hit as it would be shown in fused order.
    pub hit: SearchHit,
    /// Format family of its file.
    pub kind: FileKind,
}

impl Found {
    /// Every candidate in fused order.
    pub fn candidates(&self) -> Vec<FoundCandidate> {
        self.fused
            .iter()
            .zip(1..)
            .map(|((fused, record), rank)| FoundCandidate {
                hit: hit(record, rank, fused.score, trace(fused, rank)),
                kind: record.kind,
            })
            .collect()
    }

    /// Candidates from keywords, from vectors, and after fusion.
    pub fn lengths(&self) -> (usize, usize, usize) {
        (self.keyword.len(), self.dense.len(), self.fused.len())
    }

    /// The query as it was looked for.
    pub fn query(&self) -> &str {
        &self.query
    }

    /// The best `k` in fused order; `explain` adds the lists of every stage.
    pub fn response(&self, k: usize, explain: bool) -> SearchResponse {
        SearchResponse {
            query: self.query.clone(),
            hits: self.candidates().into_iter().take(k).map(|it| it.hit).collect(),
            order: self.order.clone(),
            notices: self.notices.clone(),
            index: self.index.clone(),
            resident_weight_bytes: self.resident_weight_bytes,
            candidate_layers_share: None,
            layers_run: None,
            stages: explain.then(|| StageLists {
                bm25: ids(&self.keyword),
                dense: ids(&self.dense),
                fused: self.fused.iter().map(|it| it.0.chunk.0).collect(),
                ..StageLists::default()
            }),
        }
    }
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

    /// What both indexes find, fused.
    ///
    /// # Errors
    /// An empty query, an unreadable index.
    pub fn find(&self, request: &SearchRequest) -> Result<Found> {
        let _first = Foreground::enter(&self.config.home);
        let text = request.query.trim();
        if text.is_empty() {
            return Err(Error::BadRequest(
                "the query is empty: type what you are looking for".to_owned(),
            ));
        }
        let end = text.char_indices().nth(MAX_QUERY_CHARS).map_or(text.len(), |(at, _)| at);
        let Lists { keyword, dense, fused, vector, foreign } =
            self.retrieve(&text[..end], request)?;
        let mut notices = self.notices.clone();
        if fused.is_empty() && self.catalog.chunk_count()? == 0 {
            notices.push(NOTHING_YET.to_owned());
        }
        if let (Some((embedder, _)), Some(language)) = (&vector, &foreign) {
            let name = embedder_name(embedder);
            notices.push(format!(
                "keywords decide: {name} reads {}, and this is in another language ({language})",
                embedder_languages(name).join(", ")
            ));
        }
        let by_meaning = !dense.is_empty() || (self.vector.is_some() && self.embedder.is_used());
        Ok(Found {
            query: text[..end].to_owned(),
            keyword,
            dense,
            fused,
            order: if by_meaning { Order::Fused } else { Order::Keyword },
            notices,
            index: status::freshness(&self.catalog)?,
            resident_weight_bytes: self.embedder.resident_weight_bytes(),
            vector,
        })
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
        let _first = Foreground::enter(&self.config.home);
        let mut response = found.response(request.k, request.explain);
        let opened = match self.reranker(request) {
            // Nobody has chosen it, so nobody shall find nothing because of it.
            Err(error) if self.is_default_reranker(request)? => {
                response.notices.push(format!("not reranked: {error}"));
                None
            }
            other => other?,
        };
        let Some(opened) = opened else {
            return Ok(Settled { response, run: None });
        };
        let passages = found.fused.iter().map(|it| it.1.text.as_str());
        if let Some(language) = opened.card.foreign_language(&found.query, passages) {
            response.notices.push(format!(
                "not reranked: {} was trained on {}, and this is in another language ({language})",
                opened.engine.model(),
                opened.card.languages.join(", ")
            ));
            return Ok(Settled { response, run: None });
        }
        let cosines = self.cosines(found)?;
        let embedder = found.vector.as_ref().map_or("", |it| it.0.as_str());
        let prior = opened.card.prior(embedder, request.rerank_settings.prior_scale, &cosines);
        let run = reranked(found, request.k, &opened.engine, &prior, observer, &mut response)?;
        Ok(Settled { response, run: Some(run) })
    }

    /// Layers of the reranker that [`settle`](Self::settle) would use, which is opened for that; 0 without one, and where the
    /// default one can not be used.
    ///
    /// # Errors
    /// When it can not be opened.
    pub fn reranker_layers(&self, request: &SearchRequest) -> Result<u32> {
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

    fn is_default_reranker(&self, request: &SearchRequest) -> Result<bool> {
        let chosen = request.rerank != RerankChoice::Configured;
        Ok(!chosen && self.catalog.setting(RERANKER_SETTING)?.is_none())
    }

    /// Similarity of every candidate's vector to the query's; none where meaning was not searched.
    fn cosines(&self, found: &Found) -> Result<Vec<Option<f32>>> {
        let Some((embedder, query)) = &found.vector else { return Ok(Vec::new()) };
        let chunks: Vec<ChunkId> = found.fused.iter().map(|it| it.0.chunk).collect();
        let vectors: HashMap<ChunkId, Vec<f32>> =
            self.catalog.vectors_of(embedder, &chunks)?.into_iter().collect();
        Ok(chunks.iter().map(|it| Some(cosine(query, vectors.get(it)?))).collect())
    }

    /// Keyword and vector retrieval side by side, fused.
    fn retrieve(&self, text: &str, request: &SearchRequest) -> Result<Lists> {
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
        let (keyword, (dense, vector)) = (keyword?, dense?);
        let _stage = stage::enter("fuse");
        let fused = |weight: f32| {
            let lists =
                [RankedList { hits: &keyword, weight: 1.0 }, RankedList { hits: &dense, weight }];
            fuse(&lists, RRF_K, keyword.len() + dense.len())
        };
        let mut order = fused(1.0);
        let wanted: Vec<ChunkId> = order.iter().map(|it| it.chunk).collect();
        // A chunk that is gone from the catalog no longer answers, whatever an index still holds.
        let mut records: HashMap<ChunkId, ChunkRecord> =
            self.catalog.chunk_records(&wanted)?.into_iter().map(|it| (it.id, it)).collect();
        let mut foreign = None;
        if let Some((embedder, _)) = &vector {
            let languages = embedder_languages(embedder_name(embedder));
            // Those of the keywords, of which a model that can not read the language knows nothing.
            let passages =
                keyword.iter().filter_map(|it| Some(records.get(&it.chunk)?.text.as_str()));
            foreign = foreign_language(languages, text, passages);
        }
        if foreign.is_some() {
            order = fused(FILLING_UP);
        }
        let fused = order
            .into_iter()
            .filter_map(|it| Some((records.remove(&it.chunk)?, it)))
            .map(|(a, b)| (b, a));
        let fused = fused.collect();
        Ok(Lists { keyword, dense, fused, vector, foreign })
    }

    fn by_vector(
        &self,
        query: &Query,
        request: &SearchRequest,
        limit: usize,
    ) -> Result<(Vec<Hit>, Option<QueryVector>)> {
        let Some(reader) = &self.vector else { return Ok((Vec::new(), None)) };
        let (id, vector) = {
            let _stage = stage::enter("embed");
            let Some(embedder) = self.embedder.get(&self.config)? else {
                return Ok((Vec::new(), None));
            };
            let vectors = embedder
                .embed(&[&query.text], EmbedRole::Query)
                .map_err(Error::stage("embedding"))?;
            (embedder.id().to_owned(), vectors.into_iter().next())
        };
        let _stage = stage::enter("vector");
        let query = Query { vector: vector.clone(), ..query.clone() };
        let hits = reader
            .retrieve(&query, &request.filter, limit)
            .map_err(Error::stage("vector search"))?;
        Ok((hits, vector.map(|it| (id, it))))
    }
}

/// What retrieval found.
struct Lists {
    keyword: Vec<Hit>,
    dense: Vec<Hit>,
    /// Both fused, with what the catalog knows.
    fused: Vec<(Fused, ChunkRecord)>,
    vector: Option<QueryVector>,
    /// The language of query or passages, if the embedder does not read it.
    foreign: Option<String>,
}

/// Weight of a list that moves nobody in the other: it breaks ties and stands below.
const FILLING_UP: f32 = 1e-3;

/// Cosine of two vectors; 0 where one has no length.
fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let norm = (dot(a, a) * dot(b, b)).sqrt();
    if norm > 0.0 { dot(a, b) / norm } else { 0.0 }
}

/// Runs the reranker over everything found and puts its order into the response.
fn reranked(
    found: &Found,
    k: usize,
    engine: &Arc<Engine>,
    prior: &[f32],
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
    let outcome = engine
        .rerank_with_prior(&found.query, &texts, prior, k, &mut keep)
        .map_err(Error::stage("reranking"))?;
    response.hits.clear();
    for (ranked, rank) in outcome.ranked.iter().zip(1..) {
        let (fused, record) = &found.fused[ranked.index];
        let trace = RankTrace {
            decided_at_layer: Some(ranked.decided_at_layer),
            ..trace(fused, ranked.index as u32 + 1)
        };
        response.hits.push(hit(record, rank, ranked.score, trace));
    }
    let stats = outcome.stats;
    let all = found.fused.len() as u64 * u64::from(stats.num_layers);
    response.order = Order::Reranked { model: engine.model().to_owned() };
    response.resident_weight_bytes += stats.resident_weight_bytes;
    response.layers_run = Some(stats.layers_run);
    response.candidate_layers_share = (all > 0).then(|| stats.candidate_layers as f64 / all as f64);
    if let Some(stages) = &mut response.stages {
        stages.reranked = response.hits.iter().map(|it| it.chunk).collect();
        stages.layers.clone_from(&keep.layers);
    }
    Ok(RerankRun {
        model: engine.model().to_owned(),
        threshold: engine.threshold(),
        stats,
        prior: prior.to_vec(),
        dropped_unread: keep.dropped_unread,
        layers: keep.layers,
        ranked: outcome.ranked.iter().map(|it| it.index).collect(),
    })
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

    fn on_prior(&mut self, prior: &[f32], dropped: &[usize]) {
        self.dropped_unread = dropped.to_vec();
        self.inner.on_prior(prior, dropped);
    }

    fn stop_flag(&self) -> Option<Arc<AtomicBool>> {
        self.inner.stop_flag()
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

fn hit(record: &ChunkRecord, rank: u32, score: f32, trace: RankTrace) -> SearchHit {
    let name = || record.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    SearchHit {
        rank,
        title: record.title.clone().filter(|it| !it.is_empty()).unwrap_or_else(name),
        path: record.path.to_string_lossy().into_owned(),
        heading: record.heading.clone(),
        text: record.text.clone(),
        location: record.location.clone(),
        score,
        trace,
        modified: record.modified,
        chunk: record.id.0,
    }
}
