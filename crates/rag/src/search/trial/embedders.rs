//! Embedders: what a library of some hundred passages finds with the vectors of each.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use riddle_catalog::ChunkRecord;
use riddle_models::InstalledModel;
use riddle_types::{ChunkId, EmbedRole, Embedder, Hit, TermWeights, Trouble};

use super::{
    OnTrial, Tried,
    held_out::{Asked, HeldOut, dot, request, text_of},
    question::Question,
    reading::read_by,
};
use crate::{
    contract::{Error, Result, SearchRequest},
    home::{
        cosines::CosineLevels,
        embedder::open_dir,
        settings::{EMBEDDER_NUMBERS, numbers, wanted_embedder},
    },
    search::{
        merge::{Made, Source},
        readable::known_only,
        reader::Assistant,
    },
};

/// Passages of that library, at most.
const PASSAGES: usize = 600;

/// Texts that are embedded together.
const BATCH: usize = 16;

/// The passages of the questions, without what is asked; then what the home finds for them, the best of each question
/// first; then passages drawn by lot.
pub(super) struct Pool {
    records: Vec<ChunkRecord>,
    /// Weights of their terms in the home, where somebody weighs them.
    terms: HashMap<ChunkId, TermWeights>,
}

impl Pool {
    pub(super) fn of(
        assistant: &Assistant,
        asked: &[Asked],
        drawn: &[ChunkRecord],
    ) -> Result<Pool> {
        let mut records: Vec<ChunkRecord> = Vec::new();
        let mut known = HashSet::new();
        let mut add = |record: &ChunkRecord| {
            if records.len() < PASSAGES && known.insert(record.id) {
                records.push(record.clone());
            }
        };
        asked.iter().for_each(|it| add(&it.question.record));
        let most = asked.iter().map(|it| it.found.fused.len()).max().unwrap_or(0);
        for rank in 0..most {
            asked.iter().filter_map(|it| it.found.fused.get(rank)).for_each(|it| add(&it.1));
        }
        drawn.iter().for_each(add);
        let ids: Vec<ChunkId> = records.iter().map(|it| it.id).collect();
        let terms = assistant.catalog.terms_of(&ids)?.into_iter().collect();
        Ok(Pool { records, terms })
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }
}

/// What an embedder made of the questions, and of the pool's first passages: as many as its time sufficed for.
pub(super) struct Embedded {
    /// Its row without the questions' ranks.
    row: Tried,
    id: String,
    levels: Option<CosineLevels>,
    queries: Vec<Vec<f32>>,
    vectors: Vec<Vec<f32>>,
    times: Vec<Duration>,
}

impl Embedded {
    /// `None` when `progress` stopped it; a row of its own where it can not be tried.
    pub(super) fn of(
        assistant: &Assistant,
        model: &InstalledModel,
        (asked, pool, time): (&[Asked], &Pool, Duration),
        progress: OnTrial<'_>,
    ) -> Result<Option<std::result::Result<Embedded, Tried>>> {
        let row = Tried {
            in_use: wanted_embedder(&assistant.catalog)? == model.name,
            languages: read_by(model).unwrap_or_default(),
            ..Tried::of(Some(model.name.clone()), Vec::new(), Vec::new())
        };
        // The one in use as it is used.
        let kept = if row.in_use { numbers(&assistant.catalog, EMBEDDER_NUMBERS)? } else { None };
        let opened = open_dir::<dyn Embedder>(&assistant.config, &model.dir, kept);
        let made = opened.and_then(|opened| {
            made(assistant, &*opened, row.clone(), (asked, pool, time), progress)
        });
        Ok(match made {
            Ok(made) => made.map(Ok),
            Err(error) => Some(Err(Tried { trouble: Some(Trouble::of(&error)), ..row })),
        })
    }

    /// How many passages it has vectors of.
    pub(super) fn len(&self) -> usize {
        self.vectors.len()
    }

    /// Searches the pool's first `passages` for all questions.
    pub(super) fn tried(
        self,
        assistant: &Assistant,
        asked: &[Asked],
        pool: &Pool,
        passages: usize,
    ) -> Result<Tried> {
        let mut ranks = Vec::with_capacity(asked.len());
        for (it, query) in asked.iter().zip(&self.queries) {
            let request = request(&it.question);
            let found = assistant.find_changed(&request, &mut |source, made| {
                let asked = (&it.question, &it.held_out, query.as_slice());
                self.put(asked, &request, (pool, passages), source, made);
                Ok(())
            })?;
            ranks.push(it.reciprocal(&found.response(request.k, false).hits));
        }
        let Tried { name, in_use, bytes, languages, passages_per_second, .. } = self.row;
        let row = Tried::of(name, ranks, self.times);
        Ok(Tried { in_use, bytes, languages, passages_per_second, ..row })
    }

    /// Searches the pool's first `passages` alone, with its own vectors in the place of the home's.
    fn put(
        &self,
        (question, held_out, query): (&Question, &HeldOut, &[f32]),
        request: &SearchRequest,
        (all, passages): (&Pool, usize),
        source: &mut Source,
        made: &mut Made,
    ) {
        let there = |it: &ChunkRecord| it.id == question.record.id || !question.is_in(&it.text);
        let pool: HashMap<ChunkId, (&ChunkRecord, &Vec<f32>)> = all.records[..passages]
            .iter()
            .zip(&self.vectors)
            .filter(|it| there(it.0))
            .map(|it| (it.0.id, it))
            .collect();
        made.vector = None;
        held_out.put(question, request, source, made);
        source.records.retain(|id, _| pool.contains_key(id));
        known_only(&mut source.keyword, &source.records);
        known_only(&mut source.sparse, &source.records);
        let mut nearest: Vec<Hit> = pool
            .iter()
            .map(|(&chunk, it)| Hit { chunk, score: dot(it.1, query), rank: 0 })
            .collect();
        nearest.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.chunk.cmp(&b.chunk)));
        nearest.truncate(request.vector_candidates.max(request.k));
        for (hit, rank) in nearest.iter_mut().zip(1..) {
            hit.rank = rank;
            source.records.insert(hit.chunk, pool[&hit.chunk].0.clone());
        }
        source.dense = nearest;
        source.vectors = source.records.keys().map(|it| (*it, pool[it].1.clone())).collect();
        // Whom only these vectors find has weights of terms as well.
        let weighed = source.records.keys().filter_map(|it| {
            let terms = match *it == question.record.id {
                true => held_out.terms.as_ref(),
                false => all.terms.get(it),
            };
            Some((*it, terms?.clone()))
        });
        source.terms = weighed.collect();
        made.vector = Some((self.id.clone(), query.to_vec()));
        made.levels = self.levels;
    }
}

/// `None` when `progress` stopped it.
fn made(
    assistant: &Assistant,
    embedder: &dyn Embedder,
    row: Tried,
    (asked, pool, time): (&[Asked], &Pool, Duration),
    progress: OnTrial<'_>,
) -> Result<Option<Embedded>> {
    let texts: Vec<String> = pool.records.iter().map(text_of).collect();
    let mut vectors = Vec::with_capacity(texts.len());
    let begun = Instant::now();
    for batch in texts.chunks(BATCH) {
        if progress(row.name.as_deref().unwrap_or_default(), vectors.len(), texts.len()).is_break()
        {
            return Ok(None);
        }
        let batch: Vec<&str> = batch.iter().map(String::as_str).collect();
        let more = embedder.embed(&batch, EmbedRole::Passage);
        vectors.extend(more.map_err(Error::stage("embedding"))?);
        if begun.elapsed() > time && vectors.len() >= asked.len() {
            break;
        }
    }
    let passages_per_second = vectors.len() as f64 / begun.elapsed().as_secs_f64().max(1e-9);
    let (mut queries, mut times) = (Vec::new(), Vec::new());
    for it in asked {
        let started = Instant::now();
        let query = embedder.embed(&[&it.question.text], EmbedRole::Query);
        queries.extend(query.map_err(Error::stage("embedding"))?);
        times.push(started.elapsed());
    }
    let row = Tried {
        bytes: embedder.resident_weight_bytes(),
        passages_per_second: Some(passages_per_second),
        ..row
    };
    let levels = assistant.levels_of(embedder)?;
    let id = embedder.id().to_owned();
    Ok(Some(Embedded { row, id, levels, queries, vectors, times }))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use riddle_catalog::FileId;
    use riddle_types::{FileKind, Location};

    use super::*;

    fn record(id: u64, text: &str) -> ChunkRecord {
        ChunkRecord {
            id: ChunkId(id),
            file: FileId(1),
            path: PathBuf::from("/a.md"),
            kind: FileKind::Markdown,
            modified: 0,
            title: None,
            language: None,
            ordinal: 0,
            heading: String::new(),
            text: text.to_owned(),
            location: Location::Whole,
            also_in: Vec::new(),
            versions: Vec::new(),
        }
    }

    /// 1 is right, 2 is found by these vectors alone, 3 by the home alone and not in the pool, 4 holds the question, 5
    /// is behind what is searched.
    #[test]
    fn the_pool_alone_is_searched_and_all_of_it_has_its_terms() {
        let weights = |weight: u8| TermWeights::of([(7, weight)]);
        let question = Question {
            text: "dry dock".to_owned(),
            said: "The dry dock is blue.".to_owned(),
            record: record(1, "The rest."),
            from_heading: false,
        };
        let held_out = HeldOut { vector: None, terms: Some(weights(9)), keyword: Some(1.0) };
        let texts = ["The rest.", "Another.", "So: The dry dock is blue.", "Behind."];
        let pool = Pool {
            records: [1, 2, 4, 5].into_iter().zip(texts).map(|it| record(it.0, it.1)).collect(),
            terms: [1, 2, 4, 5].map(|it| (ChunkId(it), weights(it as u8))).into(),
        };
        let embedded = Embedded {
            row: Tried::of(None, Vec::new(), Vec::new()),
            id: "x/1/2/3".to_owned(),
            levels: None,
            queries: Vec::new(),
            vectors: vec![vec![0.5, 0.0], vec![0.9, 0.0], vec![1.0, 0.0], vec![1.0, 0.0]],
            times: Vec::new(),
        };
        let hit = |(id, rank): (u64, u32)| Hit { chunk: ChunkId(id), score: 3.0, rank };
        let mut source = Source {
            keyword: [(3, 1), (4, 2), (1, 3)].map(hit).into(),
            keyword_limit: 50,
            records: [1, 3, 4].map(|it| (ChunkId(it), record(it, texts[it as usize % 3]))).into(),
            terms: [(ChunkId(3), weights(3))].into(),
            ..Source::default()
        };
        let mut made = Made {
            vector: None,
            levels: None,
            remote: None,
            unembedded: None,
            terms: Some(weights(1)),
            encoder: String::new(),
            sparse_languages: &[],
        };
        let request = SearchRequest::new("dry dock");
        let asked = (&question, &held_out, &[1.0, 0.0][..]);
        embedded.put(asked, &request, (&pool, 3), &mut source, &mut made);
        let ids = |list: &[Hit]| list.iter().map(|it| it.chunk.0).collect::<Vec<_>>();
        assert_eq!((ids(&source.dense), ids(&source.keyword)), (vec![2, 1], vec![1]));
        assert_eq!(source.terms.get(&ChunkId(1)), Some(&weights(9)), "what is left of it");
        assert_eq!(source.terms.get(&ChunkId(2)), Some(&weights(2)));
        assert_eq!((source.records.len(), source.vectors.len(), source.terms.len()), (2, 2, 2));
        assert_eq!(made.vector.map(|it| it.1), Some(vec![1.0, 0.0]));
    }
}
