//! Working off the queue: files are read on several threads, embedded and committed on one.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

use riddle_catalog::{Catalog, ChunkRecord, FileId, FileOutcome, Job, NewChunk};
use riddle_ingest::{ChunkOptions, ParserPool};
use riddle_types::{
    Chunk, ChunkId, EmbedRole, Embedder, FileState, SparseEncoder, TermWeights, TokenCounter,
};

use super::{
    derived,
    foreground::Background,
    pace::Pace,
    read::{ReadFile, Vanished, read_file, read_picture, text_hash},
    text::{self, ApproximateCounter, passage_text},
};
use crate::{
    contract::{Error, IndexEvent, IndexReport, Rest, Result},
    home::{
        Config,
        settings::{MEANING_RATE, MEANING_REST, WEIGHING_RATE},
    },
    stage,
};

/// Jobs taken from the queue at a time: their attempts are counted in one transaction.
const JOBS: usize = 64;

/// Chunks embedded and committed together: enough for full micro-batches, few enough that an interruption
/// costs seconds.
const BATCH_CHUNKS: usize = 64;

/// Chunks embedded before a question is looked out for: a few micro-batches, a tenth of a second.
const UNINTERRUPTED: usize = 16;

/// A batch is committed at least this often, so that progress is durable and visible.
const BATCH_TIME: Duration = Duration::from_secs(2);

/// The search indexes follow at least this often while files are read: what is read can soon be found, and a
/// commit of both costs a fraction of the time between two.
const SYNC_TIME: Duration = Duration::from_secs(4);

/// Passages taken from the queue of vectors at a time: to put them in order looks at all that wait.
const QUEUE_PAGE: usize = 2048;

/// Between two writings of the search indexes lies this many times what one takes: a large index is read whole to be
/// written.
const SYNC_SHARE: u32 = 10;

/// While vectors wait it is looked this often whether they may be made.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Tokens kept free in the embedder's input for title, headings and special tokens.
const CONTEXT_TOKENS: usize = 24;

/// Everything a run needs.
pub(crate) struct Pipeline<'a> {
    pub(crate) config: &'a Config,
    pub(crate) catalog: &'a Catalog,
    pub(crate) parsers: &'a ParserPool,
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    pub(crate) sparse: Option<Sparse>,
    /// Lets questions go first.
    pub(crate) background: Background,
    pub(crate) stop: &'a AtomicBool,
}

/// A sparse encoder, and the languages that it reads; none: any.
#[derive(Clone)]
pub(crate) struct Sparse {
    pub(crate) encoder: Arc<dyn SparseEncoder>,
    pub(crate) languages: &'static [&'static str],
}

type Done = (Job, Result<ReadFile, Vanished>);

impl Pipeline<'_> {
    /// Reads every queued file. Ends early, in good order, when told to stop.
    pub(crate) fn run(
        &self,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        report: &mut IndexReport,
    ) -> Result<()> {
        observer(IndexEvent::Queued(self.catalog.pending_jobs()?));
        let mut synced = Instant::now();
        while !self.stopped() {
            let jobs = self.catalog.next_jobs(JOBS)?;
            if jobs.is_empty() {
                break;
            }
            let jobs = self.catalog.begin_jobs(jobs)?;
            self.work(jobs, observer, report)?;
            if synced.elapsed() >= SYNC_TIME {
                observer(IndexEvent::Syncing);
                derived::sync(self.config, self.catalog)?;
                synced = Instant::now();
            }
        }
        report.interrupted |= self.stopped();
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn chunk_options(&self) -> ChunkOptions {
        let defaults = ChunkOptions::default();
        let room = self.embedder.as_ref().map_or(defaults.max_tokens, |it| it.max_tokens());
        let max_tokens = defaults.max_tokens.min(room).saturating_sub(CONTEXT_TOKENS).max(16);
        ChunkOptions { max_tokens, ..defaults }
    }

    /// A text from memory in passages.
    pub(super) fn passages(&self, text: &str) -> Vec<Chunk> {
        text::passages(text, self.counter(), &self.chunk_options())
    }

    fn counter(&self) -> &dyn TokenCounter {
        match &self.embedder {
            Some(embedder) => embedder.token_counter(),
            None => &ApproximateCounter,
        }
    }

    /// Reads `jobs` on as many threads as there are cores and commits what comes back, batch by batch.
    fn work(
        &self,
        jobs: Vec<Job>,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        report: &mut IndexReport,
    ) -> Result<()> {
        let options = self.chunk_options();
        let threads = self.config.threads.clamp(1, 8).min(jobs.len().max(1));
        let queue = Mutex::new(jobs.into_iter());
        std::thread::scope(|scope| {
            let (sender, results) = sync_channel::<Done>(threads * 2);
            for _ in 0..threads {
                let sender = sender.clone();
                let (queue, options) = (&queue, &options);
                scope.spawn(move || self.read(queue, options, &sender));
            }
            drop(sender);
            let mut batch: Vec<Done> = Vec::new();
            let mut started = Instant::now();
            loop {
                let result = results.recv_timeout(BATCH_TIME);
                let ended = matches!(result, Err(RecvTimeoutError::Disconnected));
                batch.extend(result);
                let chunks: usize = batch
                    .iter()
                    .filter_map(|it| it.1.as_ref().ok())
                    .map(|it| it.chunks.len())
                    .sum();
                if chunks >= BATCH_CHUNKS || ended || started.elapsed() >= BATCH_TIME {
                    self.commit(std::mem::take(&mut batch), observer, report)?;
                    started = Instant::now();
                }
                if ended {
                    return Ok(());
                }
            }
        })
    }

    /// Reads one job after the other until there are none, or nobody wants the results.
    fn read(
        &self,
        queue: &Mutex<std::vec::IntoIter<Job>>,
        options: &ChunkOptions,
        results: &SyncSender<Done>,
    ) {
        let counter = self.counter();
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(job) = next else { break };
            if self.stopped() {
                // Not looked at: the attempt does not count.
                let _ = self.catalog.return_jobs(&[job.file]);
                continue;
            }
            let max_bytes = self.config.max_file_bytes;
            let said = self.catalog.said_pictures(job.file).unwrap_or_default();
            let read = read_file(&job.path, max_bytes, self.parsers, counter, options, &said);
            if results.send((job, read)).is_err() {
                break;
            }
        }
    }

    fn commit(
        &self,
        batch: Vec<Done>,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        report: &mut IndexReport,
    ) -> Result<()> {
        let mut outcomes = Vec::new();
        let mut vanished = Vec::new();
        let mut paths = Vec::new();
        for (job, read) in batch {
            match read {
                Ok(read) => {
                    outcomes.push(outcome(job.file, read));
                    paths.push(job.path);
                }
                Err(Vanished) => vanished.push(job.file),
            }
        }
        if !vanished.is_empty() {
            report.removed += vanished.len() as u64;
            self.catalog.remove_files(&vanished)?;
        }
        self.commit_outcomes(&mut outcomes, report)?;
        for (path, outcome) in paths.iter().zip(&outcomes) {
            observer(IndexEvent::File { path, state: outcome.state, reason: &outcome.reason });
        }
        Ok(())
    }

    /// Writes the batch in one transaction, with the vectors that its texts had before.
    pub(crate) fn commit_outcomes(
        &self,
        outcomes: &mut [FileOutcome],
        report: &mut IndexReport,
    ) -> Result<()> {
        if outcomes.is_empty() {
            return Ok(());
        }
        let embedder_id = self.embedder.as_ref().map(|it| it.id().to_owned());
        if let Some(embedder) = &embedder_id {
            let hashes: Vec<[u8; 32]> =
                outcomes.iter().flat_map(|it| &it.chunks).map(|it| it.text_hash).collect();
            let known = self.catalog.vectors_by_text(embedder, &hashes)?;
            for new in outcomes.iter_mut().flat_map(|it| &mut it.chunks) {
                new.vector = known.get(&new.text_hash).cloned();
            }
        }
        let _stage = stage::enter("write");
        self.catalog.commit_files(outcomes, embedder_id.as_deref())?;
        report.read += outcomes.len() as u64;
        Ok(())
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

    /// Gives passages that wait their vectors, those first that are asked for first, and then makes the embedder the
    /// one that is searched. Until that moment searches use the former one, if there was another. Returns whether all
    /// have theirs: it ends early, in good order, when told to stop or when `interrupted`.
    pub(crate) fn make_vectors(
        &self,
        pace: &mut Pace,
        interrupted: &mut dyn FnMut() -> bool,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        report: &mut IndexReport,
    ) -> Result<bool> {
        let Some(embedder) = &self.embedder else { return Ok(true) };
        let active = self.catalog.active_embedder()?.is_some_and(|it| it.id == embedder.id());
        let queue = Queue {
            waiting: self.catalog.count_without_vector(embedder.id())?,
            searched: active,
            page: &|| Ok(self.catalog.chunks_without_vector(embedder.id(), QUEUE_PAGE)?),
            told: |done, total| IndexEvent::Embedding { done, total },
            rate: MEANING_RATE,
        };
        let work = &mut |batch: &[ChunkId]| {
            report.embedded += self.embed(&**embedder, batch)?;
            Ok(())
        };
        let done = self.work_off(&queue, work, pace, interrupted, observer)?;
        if done && !active && self.catalog.active_embedder()?.is_some() {
            self.catalog.switch_embedder(embedder.id())?;
        }
        Ok(done)
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
            told: |done, total| IndexEvent::Weighing { done, total },
            rate: WEIGHING_RATE,
        };
        let work = &mut |batch: &[ChunkId]| {
            report.weighed += self.weigh(sparse, batch)?;
            Ok(())
        };
        self.work_off(&queue, work, pace, interrupted, observer)
    }

    /// Works off a queue batch by batch, at a pace; whether it came to the end.
    fn work_off(
        &self,
        queue: &Queue<'_>,
        work: &mut dyn FnMut(&[ChunkId]) -> Result<()>,
        pace: &mut Pace,
        interrupted: &mut dyn FnMut() -> bool,
        observer: &mut dyn FnMut(IndexEvent<'_>),
    ) -> Result<bool> {
        let mut run = VectorRun::new(queue.waiting, self.catalog)?;
        loop {
            let page = (queue.page)()?;
            if page.is_empty() {
                break;
            }
            for batch in page.chunks(BATCH_CHUNKS) {
                let end = &mut || self.stopped() || interrupted();
                if !self.may_go_on(pace, end, &mut run, observer)? {
                    run.note_rate(queue.rate, self.catalog)?;
                    return Ok(false);
                }
                observer((queue.told)(run.done, run.total));
                let worked = Instant::now();
                work(batch)?;
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
        Ok(true)
    }

    /// Reads pages that wait and are pictures, those of files that were changed lately first; files all of whose pages
    /// are read are queued, to be read once more with them. Ends early, in good order, when told to stop or when
    /// `interrupted`; whether a file was queued, and whether it came to the end.
    pub(crate) fn read_pictures(
        &self,
        since: i64,
        pace: &mut Pace,
        interrupted: &mut dyn FnMut() -> bool,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        report: &mut IndexReport,
    ) -> Result<(bool, bool)> {
        let waiting = self.catalog.waiting_pictures(since, usize::MAX)?;
        let total = waiting.len() as u64;
        let mut run = VectorRun::new(total, self.catalog)?;
        let mut queued = false;
        for (done, picture) in waiting.iter().enumerate() {
            let end = &mut || self.stopped() || interrupted();
            if !self.may_go_on(pace, end, &mut run, observer)? {
                return Ok((queued, false));
            }
            observer(IndexEvent::Pictures { done: done as u64, total });
            self.background.give_way(|| self.stopped());
            let worked = Instant::now();
            let max_bytes = self.config.max_file_bytes;
            // A file that is gone or has changed is the next scan's.
            if let Some((said, sure)) =
                read_picture(&picture.path, picture.page, max_bytes, self.parsers)
            {
                let said = serde_json::to_string(&said).unwrap_or_default();
                self.catalog.put_picture(picture.file, picture.page, &said, f64::from(sure))?;
                report.pictures += 1;
            }
            // Pages of one file come together.
            if waiting.get(done + 1).is_none_or(|it| it.file != picture.file) {
                self.catalog.retry_files(&[picture.file])?;
                queued = true;
            }
            std::thread::sleep(pace.pause_after(worked.elapsed(), run.rest));
        }
        Ok((queued, true))
    }

    /// Waits while the machine is to be left alone; whether vectors are made then.
    fn may_go_on(
        &self,
        pace: &mut Pace,
        end: &mut dyn FnMut() -> bool,
        run: &mut VectorRun,
        observer: &mut dyn FnMut(IndexEvent<'_>),
    ) -> Result<bool> {
        loop {
            if end() {
                run.set_rest(None, self.catalog)?;
                return Ok(false);
            }
            let rest = pace.rest();
            if run.set_rest(rest, self.catalog)?
                && let Some(rest) = rest
            {
                observer(IndexEvent::Resting(rest));
            }
            if rest != Some(Rest::Battery) {
                return Ok(true);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Makes and keeps the vectors of some passages; a text that has one somewhere gets that. Returns how many were
    /// made.
    fn embed(&self, embedder: &dyn Embedder, batch: &[ChunkId]) -> Result<u64> {
        let records = self.catalog.chunk_records(batch)?;
        let (made, vectors) = once_a_text(
            &records,
            |hashes| Ok(self.catalog.vectors_by_text(embedder.id(), hashes)?),
            |texts| {
                let _stage = stage::enter("embed");
                self.vectors(embedder, texts)
            },
        )?;
        self.catalog.put_vectors(embedder.id(), &vectors)?;
        Ok(made)
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

/// Passages that wait for something that is made of their text.
struct Queue<'a> {
    /// How many wait.
    waiting: u64,
    /// Whether what is made is searched while the others wait.
    searched: bool,
    /// Those that are next.
    page: &'a dyn Fn() -> Result<Vec<ChunkId>>,
    /// What an observer is told of how far it is.
    told: fn(u64, u64) -> IndexEvent<'static>,
    /// The setting that keeps how many are done in a second.
    rate: &'static str,
}

/// How far a run through a queue is.
struct VectorRun {
    done: u64,
    total: u64,
    started: Instant,
    synced: Instant,
    sync_cost: Duration,
    rest: Option<Rest>,
}

impl VectorRun {
    fn new(total: u64, catalog: &Catalog) -> Result<VectorRun> {
        let now = Instant::now();
        // What a run that was killed has left there is no longer so.
        let rest = catalog.setting(MEANING_REST)?.and_then(|it| Rest::parse(&it));
        let sync_cost = Duration::ZERO;
        Ok(VectorRun { done: 0, total, started: now, synced: now, sync_cost, rest })
    }

    /// Notes why vectors wait now, where others can read it; whether that is news.
    fn set_rest(&mut self, rest: Option<Rest>, catalog: &Catalog) -> Result<bool> {
        let news = rest != self.rest;
        if news {
            self.rest = rest;
            catalog.set_setting(MEANING_REST, rest.map(Rest::as_str))?;
        }
        Ok(news)
    }

    /// Notes how fast it goes, rests included: what is left takes that long. A handful tells nothing.
    fn note_rate(&self, setting: &str, catalog: &Catalog) -> Result<()> {
        let seconds = self.started.elapsed().as_secs_f64();
        if self.done >= BATCH_CHUNKS as u64 && seconds > 0.0 {
            let rate = format!("{:.2}", self.done as f64 / seconds);
            catalog.set_setting(setting, Some(&rate))?;
        }
        Ok(())
    }
}

fn outcome(file: FileId, read: ReadFile) -> FileOutcome {
    let chunks = read
        .chunks
        .into_iter()
        .map(|chunk| NewChunk {
            text_hash: text_hash(read.title.as_deref(), &chunk),
            chunk,
            vector: None,
        })
        .collect();
    FileOutcome {
        file,
        content_hash: read.content_hash,
        kind: read.kind,
        state: read.state,
        reason: if read.state == FileState::Indexed { String::new() } else { read.reason },
        title: read.title,
        language: read.language,
        warnings: read.warnings,
        size: read.stamp.size,
        modified_ns: read.stamp.modified_ns,
        volume_id: read.stamp.volume_id,
        chunks,
        pictures: read.pictures,
    }
}
