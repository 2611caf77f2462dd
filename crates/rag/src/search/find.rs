//! What the indexes find: [`Assistant::find`] is quick, and its hits can be shown at once.

use std::collections::HashMap;

use riddle_catalog::ChunkRecord;
use riddle_models::embedder_languages;
use riddle_retrieval::{
    CosineScale, Evidence, Fused, RRF_K, RankedList, Scale, Trust, fuse, order_by_score, shares,
    sparse_score,
};
use riddle_types::{
    ChunkId, EmbedRole, FileKind, Filter, Hit, Notice, Query, RankTrace, Retriever as _,
    TermWeights,
};

use super::{card::foreign_language, reader::Assistant};
use crate::{
    contract::{
        Error, IndexFreshness, Order, Result, SearchHit, SearchRequest, SearchResponse, StageLists,
    },
    home::{DEFAULT_EMBEDDER, embedder::encoder_name, status},
    index::{Foreground, cosine, passage_text},
    stage,
};

/// Longest query that is embedded and reranked, in characters; what follows is a pasted document.
const MAX_QUERY_CHARS: usize = 20_000;

/// What retrieval and fusion found for a query.
#[derive(Debug, Clone)]
pub struct Found {
    /// The query, trimmed and within limits.
    pub(super) query: String,
    keyword: Vec<Hit>,
    dense: Vec<Hit>,
    sparse: Vec<Hit>,
    pub(super) fused: Vec<(Fused, ChunkRecord)>,
    /// What retrieval knows of each of `fused`.
    pub(super) evidence: Vec<Evidence>,
    order: Order,
    notices: Vec<Notice>,
    index: IndexFreshness,
    resident_weight_bytes: u64,
    /// Identity of the embedder and the query's vector, where meaning was searched.
    pub(crate) vector: Option<QueryVector>,
    /// Identity of the sparse encoder, where weighed terms were searched; empty otherwise.
    pub(super) encoder: String,
}

/// Identity of an embedder, and its vector of a query.
pub(crate) type QueryVector = (String, Vec<f32>);

/// Candidates from each retriever, and after fusion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// By keywords.
    pub keyword: usize,
    /// By vectors.
    pub vector: usize,
    /// By weighed terms; `None` where they were not searched.
    pub terms: Option<usize>,
    /// After fusion.
    pub fused: usize,
}

/// A candidate of the fused list.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundCandidate {
    /// The hit as it would be shown in fused order.
    pub hit: SearchHit,
    /// Format family of its file.
    pub kind: FileKind,
}

/// A candidate as the reranker gets it, and what the scores of the retrievers say of it.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownCandidate {
    /// Chunk number in the catalog.
    pub chunk: u64,
    /// What a reranker reads.
    pub text: String,
    /// What is known.
    pub evidence: Evidence,
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

    /// What retrieval knows of every candidate, in fused order.
    pub fn known(&self) -> Vec<KnownCandidate> {
        let of = |((_, record), evidence): (&(Fused, ChunkRecord), &Evidence)| KnownCandidate {
            chunk: record.id.0,
            text: passage_text(record.title.as_deref(), &record.heading, &record.text),
            evidence: *evidence,
        };
        self.fused.iter().zip(&self.evidence).map(of).collect()
    }

    /// How many candidates each list has.
    pub fn lengths(&self) -> Lengths {
        Lengths {
            keyword: self.keyword.len(),
            vector: self.dense.len(),
            terms: (!self.encoder.is_empty()).then_some(self.sparse.len()),
            fused: self.fused.len(),
        }
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
            promise: None,
            deadline: None,
            stages: explain.then(|| StageLists {
                bm25: ids(&self.keyword),
                dense: ids(&self.dense),
                sparse: ids(&self.sparse),
                fused: self.fused.iter().map(|it| it.0.chunk.0).collect(),
                ..StageLists::default()
            }),
        }
    }
}

impl Assistant {
    /// What both indexes find, fused.
    ///
    /// # Errors
    /// An empty query, an unreadable index.
    pub fn find(&self, request: &SearchRequest) -> Result<Found> {
        let _first = Foreground::enter(&self.config.home, request.idle);
        let text = request.query.trim();
        if text.is_empty() {
            return Err(Error::BadRequest(
                "the query is empty: type what you are looking for".into(),
            ));
        }
        let end = text.char_indices().nth(MAX_QUERY_CHARS).map_or(text.len(), |(at, _)| at);
        let Lists { keyword, dense, sparse, fused, evidence, vector, foreign } =
            self.retrieve(&text[..end], request)?;
        let mut notices = self.notices.clone();
        if fused.is_empty() && self.catalog.chunk_count()? == 0 {
            notices.push(Notice::NothingIndexedYet);
        }
        if let (Some((embedder, _)), Some(language)) = (&vector, &foreign) {
            let name = encoder_name(embedder);
            notices.push(Notice::KeywordsDecide {
                model: name.to_owned(),
                languages: embedder_languages(name).iter().map(|&it| it.to_owned()).collect(),
                language: language.clone(),
            });
        }
        let by_meaning = !dense.is_empty()
            || !sparse.is_empty()
            || (self.vector.is_some() && self.embedder.is_used());
        Ok(Found {
            query: text[..end].to_owned(),
            keyword,
            dense,
            sparse,
            fused,
            evidence,
            order: if by_meaning { Order::Fused } else { Order::Keyword },
            notices,
            index: status::freshness(&self.catalog)?,
            resident_weight_bytes: self.embedder.resident_weight_bytes()
                + self.weigher.resident_weight_bytes(),
            vector,
            encoder: self.weigher.identity().unwrap_or_default().to_owned(),
        })
    }

    /// What the scores of the retrievers say of every candidate.
    fn evidence(
        &self,
        fused: &[Fused],
        keyword: (&[Hit], usize),
        made: &Made,
    ) -> Result<Vec<Evidence>> {
        let (hits, limit) = keyword;
        let shares = shares(hits);
        // What lies behind the end of a full list may be as good as its last; behind a short one there is nothing.
        let full = hits.last().filter(|_| hits.len() >= limit);
        let behind = full.map_or(0.0, |it| shares[&it.chunk]);
        let chunks: Vec<ChunkId> = fused.iter().map(|it| it.chunk).collect();
        let vectors: HashMap<ChunkId, Vec<f32>> = match &made.vector {
            Some((embedder, _)) => {
                self.catalog.vectors_of(embedder, &chunks)?.into_iter().collect()
            }
            None => HashMap::new(),
        };
        let sparse: HashMap<ChunkId, f32> = match &made.terms {
            Some(query) => {
                let terms = self.catalog.terms_of(&chunks)?.into_iter();
                // No terms are none that were weighed: the passage is in a language that the encoder does not read.
                let weighed = terms.filter(|it| !it.1.is_empty());
                weighed.map(|(chunk, terms)| (chunk, sparse_score(query.dot(&terms)))).collect()
            }
            None => HashMap::new(),
        };
        let best = sparse.values().copied().fold(0.0, f32::max);
        let of = |it: &Fused| Evidence {
            keyword: Some(shares.get(&it.chunk).copied().unwrap_or(behind)),
            cosine: made
                .vector
                .as_ref()
                .and_then(|(_, query)| Some(cosine(query, vectors.get(&it.chunk)?))),
            sparse: sparse.get(&it.chunk).map(|it| if best > 0.0 { it / best } else { 0.0 }),
        };
        Ok(fused.iter().map(of).collect())
    }

    /// The retrievals side by side, fused.
    // Long: the retrievals and what is made of their lists share seven values.
    fn retrieve(&self, text: &str, request: &SearchRequest) -> Result<Lists> {
        let mut query = Query { text: text.to_owned(), ..Query::default() };
        let confined = if request.outward { self.catalog.confined()? } else { Vec::new() };
        let mut filter = request.filter.clone();
        filter.except.extend(confined.iter().map(|it| it.to_string_lossy().into_owned()));
        if !filter.is_empty() {
            query.allowed = Some(self.catalog.chunks_matching(&filter)?);
        }
        let (keyword_limit, vector_limit) =
            (request.keyword_candidates.max(request.k), request.vector_candidates.max(request.k));
        // Spans of the other thread belong to the same subscriber, which may be local to this thread.
        let subscriber = tracing::dispatcher::get_default(Clone::clone);
        let (lexical, dense) = std::thread::scope(|scope| {
            let lexical = scope.spawn(|| {
                tracing::dispatcher::with_default(&subscriber, || {
                    let keyword = self.by_keyword(&query, &filter, keyword_limit)?;
                    Ok((keyword, self.by_terms(&query, &filter, vector_limit)?))
                })
            });
            let dense = self.by_vector(&query, &filter, vector_limit);
            let lexical = lexical.join().unwrap_or_else(|_| {
                Err(Error::BadRequest("the keyword search failed: this is a bug".into()))
            });
            (lexical, dense)
        });
        let ((keyword, (mut sparse, terms)), (dense, vector)) = (lexical?, dense?);
        let mut made = Made { vector, terms };
        let _stage = stage::enter("fuse");
        let merged = |dense: (&[Hit], f32), sparse: &[Hit]| {
            let lists = [
                RankedList { hits: &keyword, weight: 1.0 },
                RankedList { hits: dense.0, weight: dense.1 },
                RankedList { hits: sparse, weight: 1.0 },
            ];
            fuse(&lists, RRF_K, keyword.len() + dense.0.len() + sparse.len())
        };
        let mut order = merged((&dense, 1.0), &sparse);
        let wanted: Vec<ChunkId> = order.iter().map(|it| it.chunk).collect();
        // A chunk that is gone from the catalog no longer answers, whatever an index still holds.
        let mut records: HashMap<ChunkId, ChunkRecord> =
            self.catalog.chunk_records(&wanted)?.into_iter().map(|it| (it.id, it)).collect();
        // An index speaks of folders as text; what decides is the path itself.
        records.retain(|_, it| !confined.iter().any(|folder| it.path.starts_with(folder)));
        // What a person excludes is not wanted, however it is found.
        if let Some(reader) = &self.keyword {
            let excluded = reader
                .excluded_of(text, &wanted)
                .map_err(|error| Error::stage("keyword search")(error.into()))?;
            records.retain(|chunk, _| !excluded.contains(chunk));
        }
        // Those of the keywords, of which a model that can not read the language knows nothing.
        let foreign_to = |languages: &[&str]| {
            let passages =
                keyword.iter().filter_map(|it| Some(records.get(&it.chunk)?.text.as_str()));
            foreign_language(languages, text, passages)
        };
        let foreign = made
            .vector
            .as_ref()
            .and_then(|(embedder, _)| foreign_to(embedder_languages(encoder_name(embedder))));
        if made.terms.is_some() && foreign_to(self.sparse_languages).is_some() {
            (sparse, made.terms) = (Vec::new(), None);
            order = merged((&dense, 1.0), &sparse);
        }
        if foreign.is_some() {
            order = merged((&dense, FILLING_UP), &sparse);
        }
        order.retain(|it| records.contains_key(&it.chunk));
        let mut evidence = self.evidence(&order, (&keyword, keyword_limit), &made)?;
        if foreign.is_none() && (made.vector.is_some() || made.terms.is_some()) {
            let embedder = made.vector.as_ref().map_or("", |it| it.0.as_str());
            order_by_score(&mut order, &mut evidence, scale(embedder));
        }
        fold_copies(&mut order, &mut evidence, &mut records);
        let limit = request.fused_candidates.max(request.k);
        evidence.truncate(limit);
        let fused = order
            .into_iter()
            .take(limit)
            .filter_map(|it| Some((records.remove(&it.chunk)?, it)))
            .map(|(a, b)| (b, a))
            .collect();
        Ok(Lists { keyword, dense, sparse, fused, evidence, vector: made.vector, foreign })
    }

    fn by_keyword(&self, query: &Query, filter: &Filter, limit: usize) -> Result<Vec<Hit>> {
        let Some(reader) = &self.keyword else { return Ok(Vec::new()) };
        let _stage = stage::enter("bm25");
        reader.retrieve(query, filter, limit).map_err(Error::stage("keyword search"))
    }

    /// By weights of terms, and the weights of the query's; `None` where nobody weighs them.
    fn by_terms(
        &self,
        query: &Query,
        filter: &Filter,
        limit: usize,
    ) -> Result<(Vec<Hit>, Option<TermWeights>)> {
        let Some(reader) = &self.sparse else { return Ok((Vec::new(), None)) };
        let terms = {
            let _stage = stage::enter("weigh");
            let Some(encoder) = self.weigher.get(&self.config)? else {
                return Ok((Vec::new(), None));
            };
            let terms = encoder
                .encode(&[&query.text], EmbedRole::Query)
                .map_err(Error::stage("weighing terms"))?;
            terms.into_iter().next()
        };
        let _stage = stage::enter("terms");
        let query = Query { terms: terms.clone(), ..query.clone() };
        let hits = reader.retrieve(&query, filter, limit).map_err(Error::stage("term search"))?;
        Ok((hits, terms))
    }

    fn by_vector(
        &self,
        query: &Query,
        filter: &Filter,
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
        let hits = reader.retrieve(&query, filter, limit).map_err(Error::stage("vector search"))?;
        Ok((hits, vector.map(|it| (id, it))))
    }
}

/// A passage that stands in several files is shown once, where it was found first, with the names of the others. Of
/// documents from memory each is its own.
fn fold_copies(
    order: &mut Vec<Fused>,
    evidence: &mut Vec<Evidence>,
    records: &mut HashMap<ChunkId, ChunkRecord>,
) {
    let mut first: HashMap<[u8; 32], ChunkId> = HashMap::new();
    let (kept, facts) = (std::mem::take(order), std::mem::take(evidence));
    for (fused, fact) in kept.into_iter().zip(facts) {
        let Some(record) = records.get(&fused.chunk) else { continue };
        let (path, text) = (record.path.clone(), *blake3::hash(record.text.as_bytes()).as_bytes());
        let shown = first.get(&text).copied().filter(|_| path.is_absolute());
        match shown.and_then(|it| records.get_mut(&it)).filter(|it| it.path != path) {
            Some(shown) => {
                if !shown.also_in.contains(&path) {
                    shown.also_in.push(path);
                }
            }
            None => {
                first.entry(text).or_insert(fused.chunk);
                order.push(fused);
                evidence.push(fact);
            }
        }
    }
}

/// What models made of a query.
struct Made {
    vector: Option<QueryVector>,
    terms: Option<TermWeights>,
}

/// What retrieval found.
struct Lists {
    keyword: Vec<Hit>,
    dense: Vec<Hit>,
    sparse: Vec<Hit>,
    /// All fused, with what the catalog knows.
    fused: Vec<(Fused, ChunkRecord)>,
    /// What retrieval knows of each of them.
    evidence: Vec<Evidence>,
    vector: Option<QueryVector>,
    /// The language of query or passages, if the embedder does not read it.
    foreign: Option<String>,
}

/// Weight of a list that moves nobody in the other: it breaks ties and stands below.
const FILLING_UP: f32 = 1e-3;

/// Weight of a cosine of the default embedder beside a share of the best BM25 score: fitted on the kinds of
/// development sets, each kind left out in turn (docs/BENCHMARKS.md).
const COSINE_WEIGHT: f32 = 2.25;

/// How far the default embedder's cosines are trusted, fitted in the same way.
const COSINE_TRUST: Trust = Trust { usual: 0.62, rate: 3.0 };

/// Weight of cosines of embedders that nothing is known of, spread over 0 to 1. Fitted on the same sets with the
/// default embedder's cosines treated so.
const SPREAD_WEIGHT: f32 = 0.5;

/// Weight of a share of the best score by learned sparse vectors beside them: on the development sets a half costs
/// nothing, and a whole one does (docs/benchmarks/2026-11-24-weighed-terms.md).
const SPARSE_WEIGHT: f32 = 0.5;

/// How the scores of an embedder are read.
fn scale(embedder: &str) -> Scale {
    let cosine = if encoder_name(embedder) == DEFAULT_EMBEDDER {
        CosineScale::Known(COSINE_WEIGHT, COSINE_TRUST)
    } else {
        CosineScale::Spread(SPREAD_WEIGHT)
    };
    Scale { cosine, sparse: SPARSE_WEIGHT }
}

fn ids(hits: &[Hit]) -> Vec<u64> {
    hits.iter().map(|it| it.chunk.0).collect()
}

pub(super) fn trace(fused: &Fused, rank: u32) -> RankTrace {
    let rank_in = |list: usize| fused.ranks.get(list).copied().flatten();
    RankTrace {
        bm25_rank: rank_in(0),
        vector_rank: rank_in(1),
        sparse_rank: rank_in(2),
        fused_rank: Some(rank),
        decided_at_layer: None,
    }
}

/// A passage that nobody has ranked.
pub(crate) fn hit_of(record: &ChunkRecord) -> SearchHit {
    hit(record, 1, 0.0, RankTrace::default())
}

pub(super) fn hit(record: &ChunkRecord, rank: u32, score: f32, trace: RankTrace) -> SearchHit {
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
        also_in: record.also_in.iter().map(|it| it.to_string_lossy().into_owned()).collect(),
    }
}
