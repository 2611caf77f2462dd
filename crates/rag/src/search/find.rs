//! What the indexes find: [`Assistant::find`] is quick, and its hits can be shown at once.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use riddle_catalog::ChunkRecord;
use riddle_models::embedder_languages;
use riddle_retrieval::{Evidence, Fused, KeywordHits, is_in_another_language};
use riddle_types::{ChunkId, FileKind, Filter, Hit, Notice, Query, RankTrace};

pub(crate) use super::merge::QueryVector;
use super::{
    card::{MadeBy, RerankerCard},
    language::reads_all,
    library::Limits,
    merge::{Lists, Made, Source, merge},
    readable::known_only,
    reader::Assistant,
    understood,
};
use crate::{
    contract::{
        Error, IndexFreshness, MappedFolder, Order, RemoteStage, Result, SearchHit, SearchRequest,
        SearchResponse, StageLists,
    },
    home::{
        embedder::encoder_name, mapped, presence::Presence, status, sure::how_sure_each, wanted,
    },
    index::{Foreground, passage_text},
    stage,
};

/// Longest query that is embedded and reranked, in characters; what follows is a pasted document.
const MAX_QUERY_CHARS: usize = 20_000;

/// Passages without a vector, the best by words, that get theirs next because somebody looked for them.
const MOST_WANTED: usize = 20;

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
    /// Whether cosines are on the default embedder's scale: its own, or brought there.
    on_scale: bool,
    /// What the server that embeds did of the query, where one was asked.
    embedding: Option<RemoteStage>,
    /// Identity of the sparse encoder, where weighed terms were searched; empty otherwise.
    encoder: String,
    /// Names of the shared libraries that passages are from; those of the home are not there.
    pub(super) libraries: HashMap<ChunkId, String>,
    /// Folders of theirs that this computer can reach.
    folders: HashMap<String, Vec<MappedFolder>>,
    /// How sure reading passages was that are from pictures.
    sure: HashMap<ChunkId, f32>,
}

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

/// A search of the home: the query with the chunks that may be found, and why no others.
struct Conditions {
    query: Query,
    filter: Filter,
    /// Folders whose text stays here.
    confined: Vec<PathBuf>,
}

/// What is done to what the home's searches have found, and to what models made of the query.
pub(super) type Change<'a> = &'a mut dyn FnMut(&mut Source, &mut Made) -> Result<()>;

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

/// What is told of a language that nobody knows (ISO 639-2).
const UNDETERMINED: &str = "und";

impl Found {
    /// The language that speaks against a reranker. Where meaning is found in all languages the passages are in any, so
    /// the question alone has to tell.
    pub(super) fn foreign_to(&self, card: &RerankerCard) -> Option<String> {
        let passages = self.fused.iter().map(|it| it.1.text.as_str());
        card.foreign_language(&self.query, passages).or_else(|| {
            let (embedder, _) = self.vector.as_ref()?;
            let foreign = reads_all(embedder)
                && !card.languages.is_empty()
                && card.languages.iter().all(|it| is_in_another_language(&self.query, it));
            foreign.then(|| UNDETERMINED.to_owned())
        })
    }

    /// Every candidate in fused order.
    pub fn candidates(&self) -> Vec<FoundCandidate> {
        self.fused
            .iter()
            .zip(1..)
            .map(|((fused, record), rank)| FoundCandidate {
                hit: self.hit(record, rank, fused.score, trace(fused, rank)),
                kind: record.kind,
            })
            .collect()
    }

    /// A candidate as it is shown, with the library that it is from.
    pub(super) fn hit(
        &self,
        record: &ChunkRecord,
        rank: u32,
        score: f32,
        trace: RankTrace,
    ) -> SearchHit {
        let library = self.libraries.get(&record.id).cloned();
        let hit = hit(record, rank, score, trace);
        let folders = library.as_ref().and_then(|it| self.folders.get(it));
        let here = folders.and_then(|it| mapped::here(it, &hit.path));
        let here = here.map(|it| it.to_string_lossy().into_owned());
        SearchHit { library, here, ocr_confidence: self.sure.get(&record.id).copied(), ..hit }
    }

    /// Who made the evidence.
    pub(super) fn made_by(&self) -> MadeBy<'_> {
        MadeBy {
            embedder: self.vector.as_ref().map_or("", |it| it.0.as_str()),
            on_scale: self.on_scale,
            encoder: &self.encoder,
        }
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
            embedding: self.embedding.clone(),
            remote: None,
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
        self.find_changed(request, &mut |_, _| Ok(()))
    }

    /// As [`find`](Self::find), in a home that is a little different: `change` gets what the home's searches have found
    /// before it is merged.
    pub(super) fn find_changed(
        &self,
        request: &SearchRequest,
        change: Change<'_>,
    ) -> Result<Found> {
        let _first = Foreground::enter(&self.config.home, request.idle);
        let text = request.query.trim();
        if text.is_empty() {
            return Err(Error::BadRequest(
                "the query is empty: type what you are looking for".into(),
            ));
        }
        let end = text.char_indices().nth(MAX_QUERY_CHARS).map_or(text.len(), |(at, _)| at);
        let mut notices =
            if request.libraries.with_home() { self.notices.clone() } else { Vec::new() };
        let (lists, made) = self.retrieve(&text[..end], request, change, &mut notices)?;
        let on_scale = made.is_on_scale();
        if let Some(why) = made.unembedded {
            notices.push(Notice::MeaningNotSearched { why });
        }
        let Lists { keyword, dense, sparse, fused, evidence, libraries, foreign } = lists;
        let vector = made.vector;
        if request.libraries.with_home() && fused.is_empty() && self.catalog.chunk_count()? == 0 {
            notices.retain(|it| !understood::is_of_query(it));
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
            || (self.vector.is_some() && (self.embedder.is_used() || vector.is_some()));
        let own = fused.iter().map(|it| &it.1).filter(|it| !libraries.contains_key(&it.id));
        let sure = how_sure_each(&self.catalog, own)?.into_iter().collect();
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
            on_scale,
            vector,
            embedding: made.remote,
            encoder: made.encoder,
            libraries,
            folders: self.mapped(&request.libraries)?,
            sure,
        })
    }

    /// The home's retrievals side by side, then those of other libraries, all in one list.
    fn retrieve(
        &self,
        text: &str,
        request: &SearchRequest,
        change: Change<'_>,
        notices: &mut Vec<Notice>,
    ) -> Result<(Lists, Made)> {
        let limits = Limits {
            keyword: request.keyword_candidates.max(request.k),
            vector: request.vector_candidates.max(request.k),
        };
        let mut made = Made {
            vector: None,
            levels: None,
            remote: None,
            unembedded: None,
            terms: None,
            encoder: self.weigher.identity().unwrap_or_default().to_owned(),
            sparse_languages: self.sparse_languages,
        };
        let mut sources = Vec::new();
        if request.libraries.with_home() {
            let mut found = self.by_home(text, request, limits, &mut made)?;
            change(&mut found, &mut made)?;
            sources.push(found);
        } else {
            // Whatever is searched elsewhere, the query is read as it is read here.
            self.embedded(text, request)?.put_into(&mut made);
            made.terms = self.weighed(text)?;
        }
        let there = (&request.filter, limits);
        sources.extend(self.by_libraries(text, request, there, &mut made, notices)?);
        notices.splice(0..0, understood::notices(text, &mut sources));
        let _stage = stage::enter("fuse");
        let limit = request.fused_candidates.max(request.k);
        let mut presence = Presence::of(&self.catalog);
        let is_away = &mut |file: &Path| presence.is_away(file);
        let lists = merge(sources, text, &mut made, limit, is_away);
        Ok((lists, made))
    }

    /// What the home has, and what models make of the query.
    // Long: each search in turn, and what is known of all that they found.
    fn by_home(
        &self,
        text: &str,
        request: &SearchRequest,
        limits: Limits,
        made: &mut Made,
    ) -> Result<Source> {
        let Conditions { query, filter, confined } = self.conditions(text, request)?;
        // The keyword index knows folders, kinds and times by itself, and nothing of rights and tags.
        let listed = request.reader.is_some() || !filter.tags.is_empty();
        let within = query.allowed.as_ref().filter(|_| listed);
        // Spans of the other thread belong to the same subscriber, which may be local to this thread.
        let subscriber = tracing::dispatcher::get_default(Clone::clone);
        let (lexical, dense) = std::thread::scope(|scope| {
            let lexical = scope.spawn(|| {
                tracing::dispatcher::with_default(&subscriber, || {
                    let keyword = self.by_keyword(&query, (&filter, within), limits.keyword)?;
                    Ok((keyword, self.by_terms(&query, &filter, limits.vector)?))
                })
            });
            let dense = self.by_vector(&query, &filter, request, limits.vector);
            let lexical = lexical.join().unwrap_or_else(|_| {
                Err(Error::BadRequest("the keyword search failed: this is a bug".into()))
            });
            (lexical, dense)
        });
        let ((found, (mut sparse, terms)), (mut dense, embedded)) = (lexical?, dense?);
        let KeywordHits { hits: mut keyword, unquoted } = found;
        made.terms = terms;
        embedded.put_into(made);
        let _stage = stage::enter("fuse");
        let mut records = self.known(text, [&keyword, &dense, &sparse], &confined)?;
        if let Some(reader) = &request.reader {
            self.keep_readable(reader, &mut records)?;
            for list in [&mut keyword, &mut dense, &mut sparse] {
                known_only(list, &records);
            }
        }
        let all: Vec<ChunkId> = records.keys().copied().collect();
        let vectors: HashMap<_, _> = match &made.vector {
            Some((embedder, _)) => self.catalog.vectors_of(embedder, &all)?.into_iter().collect(),
            None => HashMap::new(),
        };
        let waits = |it: &ChunkId| records.contains_key(it) && !vectors.contains_key(it);
        if made.vector.is_some() && !request.idle {
            self.want(keyword.iter().map(|it| it.chunk).filter(waits));
        }
        let terms = match &made.terms {
            Some(_) => self.catalog.terms_of(&all)?,
            None => Vec::new(),
        };
        Ok(Source {
            keyword,
            unquoted,
            keyword_limit: limits.keyword,
            dense,
            sparse,
            records,
            vectors,
            terms: terms.into_iter().collect(),
            library: None,
        })
    }

    /// Has passages get their vectors next.
    fn want(&self, waiting: impl Iterator<Item = ChunkId>) {
        wanted::note(&self.config.home, waiting.take(MOST_WANTED));
    }

    /// What passages of the home have to be.
    fn conditions(&self, text: &str, request: &SearchRequest) -> Result<Conditions> {
        let mut query = Query { text: text.to_owned(), ..Query::default() };
        let confined = if request.outward { self.catalog.confined()? } else { Vec::new() };
        let mut filter = request.filter.clone();
        filter.except.extend(confined.iter().map(|it| it.to_string_lossy().into_owned()));
        let files = request.reader.as_ref().map(|it| self.readable(it)).transpose()?;
        if files.is_some() || !filter.is_empty() {
            query.allowed = Some(self.allowed.chunks(&self.catalog, &filter, files)?);
        }
        Ok(Conditions { query, filter, confined })
    }

    /// What the catalog knows of the passages of these lists that may be shown.
    fn known(
        &self,
        text: &str,
        lists: [&[Hit]; 3],
        confined: &[PathBuf],
    ) -> Result<HashMap<ChunkId, ChunkRecord>> {
        let mut wanted: Vec<ChunkId> = lists.into_iter().flatten().map(|it| it.chunk).collect();
        wanted.sort_unstable();
        wanted.dedup();
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
        Ok(records)
    }
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

fn names(paths: &[std::path::PathBuf]) -> Vec<String> {
    paths.iter().map(|it| it.to_string_lossy().into_owned()).collect()
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
        also_in: names(&record.also_in),
        versions: names(&record.versions),
        library: None,
        here: None,
        ocr_confidence: None,
    }
}
