//! Working off the queue: files are read on several threads, embedded and committed on one.

mod pictures;
mod vector_run;
mod vectors;

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

use riddle_catalog::{Catalog, FileId, FileOutcome, Job, NewChunk};
use riddle_ingest::{ChunkOptions, ParserPool};
use riddle_models::embedder_languages;
use riddle_types::{Chunk, FileKind, FileState};

pub(super) use self::vectors::{End, Sparse};
use super::{
    derived,
    foreground::Background,
    maker::Maker,
    read::{ReadFile, Vanished, read_file, text_hash},
    text::{self, ApproximateCounter, Counters},
};
use crate::{
    contract::{IndexEvent, IndexReport, Result},
    home::{Config, browsing::reads_browsing, embedder::encoder_name},
    stage,
};

/// Jobs taken from the queue at a time: their attempts are counted in one transaction.
const JOBS: usize = 64;

/// Chunks embedded and committed together: enough for full micro-batches, few enough that an interruption
/// costs seconds.
const BATCH_CHUNKS: usize = 64;

/// A batch is committed at least this often, so that progress is durable and visible.
const BATCH_TIME: Duration = Duration::from_secs(2);

/// The search indexes follow at least this often while files are read: what is read can soon be found, and a
/// commit of both costs a fraction of the time between two.
const SYNC_TIME: Duration = Duration::from_secs(4);

/// Tokens kept free in the embedder's input for title, headings and special tokens.
const CONTEXT_TOKENS: usize = 24;

/// Everything a run needs.
pub(crate) struct Pipeline<'a> {
    pub(crate) config: &'a Config,
    pub(crate) catalog: &'a Catalog,
    pub(crate) parsers: &'a ParserPool,
    pub(crate) embedder: Option<Maker>,
    pub(crate) sparse: Option<Sparse>,
    /// Lets questions go first.
    pub(crate) background: Background,
    pub(crate) stop: &'a AtomicBool,
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
        let room = match &self.embedder {
            Some(Maker::Here(embedder)) => embedder.max_tokens(),
            // A server does not tell, and cuts what is too long.
            Some(Maker::Server(_)) | None => defaults.max_tokens,
        };
        let max_tokens = defaults.max_tokens.min(room).saturating_sub(CONTEXT_TOKENS).max(16);
        ChunkOptions { max_tokens, ..defaults }
    }

    /// A text from memory in passages.
    pub(super) fn passages(&self, text: &str) -> Vec<Chunk> {
        text::passages(text, self.counters(), &self.chunk_options())
    }

    fn counters(&self) -> Counters<'_> {
        match &self.embedder {
            Some(Maker::Here(embedder)) => Counters {
                own: embedder.token_counter(),
                languages: embedder_languages(encoder_name(embedder.id())),
            },
            Some(Maker::Server(_)) | None => Counters { own: &ApproximateCounter, languages: &[] },
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
        let counters = self.counters();
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
            let browsing = reads_browsing(self.catalog).unwrap_or(false);
            let read =
                read_file(&job.path, max_bytes, self.parsers, counters, options, &said, browsing);
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
                Ok(mut read) => {
                    // Whoever agreed may have changed their mind while it was read.
                    if read.kind == FileKind::History && !reads_browsing(self.catalog)? {
                        read.leave_history_out();
                    }
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
        tags: read.tags,
        warnings: read.warnings,
        size: read.stamp.size,
        modified_ns: read.stamp.modified_ns,
        volume_id: read.stamp.volume_id,
        chunks,
        pictures: read.pictures,
    }
}
