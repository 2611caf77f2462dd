//! What is made of the texts of passages when words find them already: vectors, and weights of terms.

use std::{collections::HashMap, sync::Arc, time::Instant};

use riddle_catalog::{ChunkRecord, Embeds};
use riddle_types::{ChunkId, EmbedRole, Embedder, Notice, SparseEncoder, TermWeights, Trouble};

use super::{BATCH_CHUNKS, Pipeline, SYNC_TIME, vector_run::VectorRun};
use crate::{
    contract::{Error, IndexEvent, IndexReport, RemoteStage, Rest, Result},
    home::{
        embedding_server::{EmbeddingServer, Unanswered},
        settings::{MEANING_RATE, WEIGHING_RATE},
        wanted,
    },
    index::{derived, maker::Maker, pace::Pace, text::passage_text},
    stage,
};

/// Chunks embedded before a question is looked out for: a few micro-batches, a tenth of a second.
const UNINTERRUPTED: usize = 16;

/// Passages taken from the queue of vectors at a time: to put them in order looks at all that wait.
const QUEUE_PAGE: usize = 2048;

/// Between two writings of the search indexes lies this many times what one takes: a large index is read whole to be
/// written.
const SYNC_SHARE: u32 = 10;

/// How work on the queue of vectors ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// All have theirs.
    All,
    /// In good order before that, because somebody wanted it.
    Early,
    /// The server that makes them does not: they wait for it.
    Waiting,
}

/// What became of a batch.
enum Worked {
    Done,
    /// Stopped in the middle of it.
    Stopped,
    /// It waits, and so do all behind it.
    Waits(Trouble),
}

/// A sparse encoder, and the languages that it reads; none: any.
#[derive(Clone)]
pub(crate) struct Sparse {
    pub(crate) encoder: Arc<dyn SparseEncoder>,
    pub(crate) languages: &'static [&'static str],
}

/// Passages that wait for something that is made of their text.
struct Queue<'a> {
    /// How many wait.
    waiting: u64,
    /// Whether what is made is searched while the others wait.
    searched: bool,
    /// Those that are next.
    page: &'a dyn Fn() -> Result<Vec<ChunkId>>,
    /// Those that go before them since the last time, because somebody looked for them.
    first: &'a dyn Fn() -> Result<Vec<ChunkId>>,
    /// What an observer is told of how far it is.
    told: fn(u64, u64) -> IndexEvent<'static>,
    /// The setting that keeps how many are done in a second.
    rate: &'static str,
}

impl Pipeline<'_> {
    /// Gives passages that wait their vectors, those first that are asked for first, and then makes the embedder the
    /// one that is searched. Until that moment searches use the former one, if there was another. It ends early, in
    /// good order, when told to stop or when `interrupted`, and where a server makes none.
    pub(crate) fn make_vectors(
        &self,
        pace: &mut Pace,
        interrupted: &mut dyn FnMut() -> bool,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        report: &mut IndexReport,
    ) -> Result<End> {
        let Some(embedder) = &self.embedder else { return Ok(End::All) };
        let (id, embeds) = (embedder.id(), embedder.embeds());
        let active = self.catalog.active_embedder()?.is_some_and(|it| it.id == id);
        let queue = Queue {
            waiting: self.catalog.count_without_vector(id, embeds)?,
            searched: active,
            page: &|| Ok(self.catalog.chunks_without_vector(id, embeds, QUEUE_PAGE)?),
            first: &|| {
                let wanted = wanted::take(&self.config.home);
                Ok(self.catalog.without_vector_among(id, embeds, &wanted)?)
            },
            told: |done, total| IndexEvent::Embedding { done, total },
            rate: MEANING_RATE,
        };
        let mut why = None;
        let work = &mut |batch: &[ChunkId]| {
            let worked = self.embed(embedder, batch, report)?;
            if let Worked::Waits(trouble) = &worked {
                why = Some(trouble.clone());
            }
            Ok(worked)
        };
        let end = self.work_off(&queue, work, pace, interrupted, observer)?;
        if let Some(why) = why {
            let waiting = self.catalog.count_without_vector(id, embeds)?;
            report.notices.push(Notice::VectorsWait { waiting, why });
        }
        if end == End::All && !active && self.catalog.active_embedder()?.is_some() {
            self.catalog.switch_embedder(id, embeds)?;
        }
        Ok(end)
    }

    /// Gives passages that wait their weights of terms, as [`make_vectors`](Self::make_vectors) does.
    pub(crate) fn make_terms(
        &self,
        pace: &mut Pace,
        interrupted: &mut dyn FnMut() -> bool,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        report: &mut IndexReport,
    ) -> Result<bool> {
        let Some(sparse) = &self.sparse else { return Ok(true) };
        let queue = Queue {
            waiting: self.catalog.count_without_terms()?,
            searched: true,
            page: &|| Ok(self.catalog.chunks_without_terms(QUEUE_PAGE)?),
            first: &|| Ok(Vec::new()),
            told: |done, total| IndexEvent::Weighing { done, total },
            rate: WEIGHING_RATE,
        };
        let work = &mut |batch: &[ChunkId]| {
            report.weighed += self.weigh(sparse, batch)?;
            Ok(Worked::Done)
        };
        Ok(self.work_off(&queue, work, pace, interrupted, observer)? == End::All)
    }

    /// Works off a queue batch by batch, at a pace.
    fn work_off(
        &self,
        queue: &Queue<'_>,
        work: &mut dyn FnMut(&[ChunkId]) -> Result<Worked>,
        pace: &mut Pace,
        interrupted: &mut dyn FnMut() -> bool,
        observer: &mut dyn FnMut(IndexEvent<'_>),
    ) -> Result<End> {
        let mut run = VectorRun::new(queue.waiting, self.catalog)?;
        loop {
            let mut page = (queue.page)()?;
            if page.is_empty() {
                break;
            }
            loop {
                let batch = next_batch(&mut page, (queue.first)()?);
                if batch.is_empty() {
                    break;
                }
                let end = &mut || self.stopped() || interrupted();
                if !self.may_go_on(pace, end, &mut run, observer)? {
                    run.note_rate(queue.rate, self.catalog)?;
                    return Ok(End::Early);
                }
                observer((queue.told)(run.done, run.total));
                let worked = Instant::now();
                match work(&batch)? {
                    Worked::Done => {}
                    Worked::Stopped => return Ok(End::Early),
                    Worked::Waits(_) => {
                        if run.set_rest(Some(Rest::Server), self.catalog)? {
                            observer(IndexEvent::Resting(Rest::Server));
                        }
                        return Ok(End::Waiting);
                    }
                }
                run.done += batch.len() as u64;
                std::thread::sleep(pace.pause_after(worked.elapsed(), run.rest));
                let often = SYNC_TIME.max(run.sync_cost * SYNC_SHARE);
                if queue.searched && run.synced.elapsed() >= often {
                    let started = Instant::now();
                    observer(IndexEvent::Syncing);
                    derived::sync(self.config, self.catalog)?;
                    (run.synced, run.sync_cost) = (Instant::now(), started.elapsed());
                    run.note_rate(queue.rate, self.catalog)?;
                }
            }
        }
        run.note_rate(queue.rate, self.catalog)?;
        Ok(End::All)
    }

    /// Makes and keeps the vectors of some passages; a text that has one somewhere gets that.
    fn embed(
        &self,
        embedder: &Maker,
        batch: &[ChunkId],
        report: &mut IndexReport,
    ) -> Result<Worked> {
        let mut records = self.catalog.chunk_records(batch)?;
        if embedder.embeds() == Embeds::Elsewhere {
            // A folder may have been marked since the queue was read.
            let withheld = self.catalog.withheld_among(batch)?;
            records.retain(|it| !withheld.contains(&it.id));
        }
        let mut unmade = None;
        let known =
            |hashes: &[[u8; 32]]| Ok(self.catalog.vectors_by_text(embedder.id(), hashes)?);
        let (made, vectors) = once_a_text(&records, known, |texts| match embedder {
            Maker::Here(embedder) => {
                let _stage = stage::enter("embed");
                self.vectors(&**embedder, texts)
            }
            Maker::Server(server) => {
                let _stage = stage::enter("embed_remote");
                Ok(self.asked(server, texts, &mut report.remote).unwrap_or_else(|it| {
                    unmade = Some(it);
                    Vec::new()
                }))
            }
        })?;
        self.catalog.put_vectors(embedder.id(), &vectors)?;
        match unmade {
            None => {
                report.embedded += made;
                Ok(Worked::Done)
            }
            Some(Unanswered::Stopped) => Ok(Worked::Stopped),
            Some(Unanswered::Failed(why)) => Ok(Worked::Waits(why)),
        }
    }

    /// Vectors of texts by a server; what that has cost is added.
    fn asked(
        &self,
        server: &EmbeddingServer,
        texts: &[&str],
        cost: &mut Option<RemoteStage>,
    ) -> Result<Vec<Vec<f32>>, Unanswered> {
        let (vectors, more) = server.passages(self.config, self.catalog, texts, self.stop)?;
        match cost {
            Some(all) => all.add(&more),
            None => *cost = Some(more),
        }
        Ok(vectors)
    }

    /// As [`embed`](Self::embed), with weights of terms. A passage in a language that the encoder does not read gets
    /// none, and does not wait any longer.
    fn weigh(&self, sparse: &Sparse, batch: &[ChunkId]) -> Result<u64> {
        let reads = |record: &ChunkRecord| {
            let language = record.language.as_deref();
            sparse.languages.is_empty() || language.is_none_or(|it| sparse.languages.contains(&it))
        };
        let (read, foreign): (Vec<ChunkRecord>, Vec<ChunkRecord>) =
            self.catalog.chunk_records(batch)?.into_iter().partition(reads);
        let (made, mut terms) = once_a_text(
            &read,
            |hashes| Ok(self.catalog.terms_by_text(hashes)?),
            |texts| {
                let _stage = stage::enter("weigh");
                self.terms(&*sparse.encoder, texts)
            },
        )?;
        terms.extend(foreign.into_iter().map(|it| (it.id, TermWeights::default())));
        self.catalog.put_terms(sparse.encoder.id(), &terms)?;
        Ok(made)
    }

    /// Vectors of texts, a few at a time, between which questions go first.
    fn vectors(&self, embedder: &dyn Embedder, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let mut vectors = Vec::with_capacity(texts.len());
        for texts in texts.chunks(UNINTERRUPTED) {
            self.background.give_way(|| self.stopped());
            let some = embedder.embed(texts, EmbedRole::Passage);
            vectors.extend(some.map_err(Error::stage("embedding"))?);
        }
        Ok(vectors)
    }

    /// Weights of terms of texts, with the same manners.
    fn terms(&self, encoder: &dyn SparseEncoder, texts: &[&str]) -> Result<Vec<TermWeights>> {
        let mut terms = Vec::with_capacity(texts.len());
        for texts in texts.chunks(UNINTERRUPTED) {
            self.background.give_way(|| self.stopped());
            let some = encoder.encode(texts, EmbedRole::Passage);
            terms.extend(some.map_err(Error::stage("weighing terms"))?);
        }
        Ok(terms)
    }
}

/// What is worked on next: those that go first, or else the beginning of the page. Either are no longer on it then.
fn next_batch(page: &mut Vec<ChunkId>, first: Vec<ChunkId>) -> Vec<ChunkId> {
    if first.is_empty() {
        return page.drain(..page.len().min(BATCH_CHUNKS)).collect();
    }
    page.retain(|it| !first.contains(it));
    first
}

/// What is made of the text of each record, each text once; what is known already by its hash is taken as it is. And
/// how many were made.
fn once_a_text<T: Clone>(
    records: &[ChunkRecord],
    known: impl FnOnce(&[[u8; 32]]) -> Result<HashMap<[u8; 32], T>>,
    make: impl FnOnce(&[&str]) -> Result<Vec<T>>,
) -> Result<(u64, Vec<(ChunkId, T)>)> {
    let texts: Vec<String> =
        records.iter().map(|it| passage_text(it.title.as_deref(), &it.heading, &it.text)).collect();
    let hashes: Vec<[u8; 32]> =
        texts.iter().map(|it| *blake3::hash(it.as_bytes()).as_bytes()).collect();
    let mut known = known(&hashes)?;
    let mut fresh: Vec<([u8; 32], &str)> = Vec::new();
    for (hash, text) in hashes.iter().zip(&texts) {
        if !known.contains_key(hash) && !fresh.iter().any(|it| it.0 == *hash) {
            fresh.push((*hash, text));
        }
    }
    if !fresh.is_empty() {
        let texts: Vec<&str> = fresh.iter().map(|it| it.1).collect();
        known.extend(fresh.iter().map(|it| it.0).zip(make(&texts)?));
    }
    let of =
        |(record, hash): (&ChunkRecord, &[u8; 32])| Some((record.id, known.get(hash)?.clone()));
    let all = records.iter().zip(&hashes).filter_map(of).collect();
    Ok((fresh.len() as u64, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_looked_for_goes_first_and_is_worked_on_once() {
        let ids = |ids: std::ops::Range<u64>| ids.map(ChunkId).collect::<Vec<_>>();
        let mut page = ids(0..100);
        assert_eq!(next_batch(&mut page, Vec::new()), ids(0..64));
        assert_eq!(next_batch(&mut page, vec![ChunkId(500), ChunkId(70)]), [500, 70].map(ChunkId));
        let rest = next_batch(&mut page, Vec::new());
        assert_eq!(rest.len(), 35);
        assert!(!rest.contains(&ChunkId(70)), "{rest:?}");
        assert!(next_batch(&mut page, Vec::new()).is_empty());
    }
}
