//! Embedders: what a library of some hundred passages finds with the vectors of each.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use riddle_catalog::ChunkRecord;
use riddle_models::{InstalledModel, embedder_languages};
use riddle_types::{ChunkId, EmbedRole, Embedder, Hit, Trouble};

use super::{
    OnTrial, Tried,
    held_out::{Asked, dot, request, text_of},
};
use crate::{
    contract::{Error, Result, SearchRequest},
    home::{cosines::CosineLevels, embedder::open_dir, settings::wanted_embedder},
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
}

impl Pool {
    pub(super) fn of(asked: &[Asked], drawn: &[ChunkRecord]) -> Pool {
        let mut pool = Pool { records: Vec::new() };
        let mut known = HashSet::new();
        let mut add = |record: &ChunkRecord| {
            if pool.records.len() < PASSAGES && known.insert(record.id) {
                pool.records.push(record.clone());
            }
        };
        asked.iter().for_each(|it| add(&it.question.record));
        let most = asked.iter().map(|it| it.found.fused.len()).max().unwrap_or(0);
        for rank in 0..most {
            asked.iter().filter_map(|it| it.found.fused.get(rank)).for_each(|it| add(&it.1));
        }
        drawn.iter().for_each(add);
        pool
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
            languages: embedder_languages(&model.name).iter().map(|&it| it.to_owned()).collect(),
            ..Tried::of(Some(model.name.clone()), Vec::new(), Vec::new())
        };
        let made = open_dir::<dyn Embedder>(&assistant.config, &model.dir).and_then(|opened| {
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
        let known = &pool.records[..passages];
        let mut ranks = Vec::with_capacity(asked.len());
        for (it, query) in asked.iter().zip(&self.queries) {
            let request = request(&it.question);
            let found = assistant.find_changed(&request, &mut |source, made| {
                self.put(it, &request, (known, query), source, made);
                Ok(())
            })?;
            ranks.push(it.reciprocal(&found.response(request.k, false).hits));
        }
        let Tried { name, .. } = &self.row;
        let Tried { quality, questions, ms, ranks, .. } =
            Tried::of(name.clone(), ranks, self.times);
        Ok(Tried { quality, questions, ms, ranks, ..self.row })
    }

    /// Searches `known` alone, with its own vectors in the place of the home's.
    fn put(
        &self,
        asked: &Asked,
        request: &SearchRequest,
        (known, query): (&[ChunkRecord], &[f32]),
        source: &mut Source,
        made: &mut Made,
    ) {
        let question = &asked.question;
        let there = |it: &ChunkRecord| it.id == question.record.id || !question.is_in(&it.text);
        let pool: HashMap<ChunkId, (&ChunkRecord, &Vec<f32>)> = known
            .iter()
            .zip(&self.vectors)
            .filter(|it| there(it.0))
            .map(|it| (it.0.id, it))
            .collect();
        made.vector = None;
        asked.held_out.put(question, request, source, made);
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
