//! The indexing side: folders in, an up-to-date catalog and search indexes out.

use std::{
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use riddle_catalog::{Catalog, FileId, FileOutcome, HomeLock, NewChunk, Root};
use riddle_ingest::{Limits, ParserPool};
use riddle_models::sparse_languages;
use riddle_types::{Advice, Chunk, Embedder, FileKind, FileState, Notice, SparseEncoder, Trouble};
use riddle_watch::{ScanOptions, WatchEvent, Watcher, scan};

use super::{
    derived,
    foreground::Background,
    pace::Pace,
    pipeline::{Pipeline, Sparse},
    read::text_hash,
    text::whole,
};
use crate::{
    contract::{Error, IndexEvent, IndexReport, ReadScans, Result},
    home::{
        Config,
        embedder::{self, encoder_name},
        pictures, rules,
        settings::{
            AS_OF_SETTING, EMBEDDED_WITH, EMBEDDED_WITH_ID, EMBEDDED_WITH_WEIGHTS,
            EMBEDDER_SETTING, MEANING_CPU, MEANING_ON_BATTERY, NO_RERANKER, NO_SPARSE_ENCODER,
            READ_WITH, RERANKER_SETTING, SPARSE_SETTING, WEIGHED_WITH, WEIGHED_WITH_WEIGHTS,
            scans_since, wanted_embedder, wanted_sparse,
        },
        status::states,
        tools::tools,
    },
    stage,
};

/// A file that is being written makes many events: they are gathered this long.
const DEBOUNCE: Duration = Duration::from_millis(400);

/// Events can be lost, so every root is looked at this often while watching.
const RESCAN: Duration = Duration::from_secs(600);

/// A document from memory, for corpora that are not files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputDocument {
    /// Its name in the collection.
    pub id: String,
    /// Its title; may be empty.
    pub title: String,
    /// Its text: one passage, or several where it is longer than one.
    pub text: String,
}

/// The writing side of a home; one at a time, guarded by the home's lock.
pub struct Library {
    config: Config,
    catalog: Catalog,
    parsers: ParserPool,
    embedder: Option<(String, Arc<dyn Embedder>)>,
    sparse: Option<(String, Sparse)>,
    _lock: HomeLock,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").field("home", &self.config.home).finish_non_exhaustive()
    }
}

impl Library {
    /// Opens a home for writing, making it if needed.
    ///
    /// # Errors
    /// When another process is writing, or the home can not be used.
    pub fn open(config: Config) -> Result<Library> {
        let lock = HomeLock::acquire(&config.home)?;
        let catalog = Catalog::open(&config.catalog())?;
        let mut parsers = ParserPool::new(config.parse_worker.clone(), Limits::default());
        parsers.equip(tools(&config));
        Ok(Library { config, catalog, parsers, embedder: None, sparse: None, _lock: lock })
    }

    /// Adds a folder to what is indexed; a known one is fine.
    ///
    /// # Errors
    /// A path that is missing, no folder, unreadable, or nested with another one.
    pub fn add_root(&mut self, path: &Path) -> Result<()> {
        let bad = |why: String| Error::BadRoot { path: path.to_path_buf(), why: why.into() };
        let absolute = path.canonicalize().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                bad("there is no such folder: check the spelling".to_owned())
            }
            _ => bad(format!("{error}: allow reading it, or choose another folder")),
        })?;
        if !absolute.is_dir() {
            return Err(bad("it is a file: give the folder it is in".to_owned()));
        }
        std::fs::read_dir(&absolute)
            .map_err(|error| bad(format!("{error}: allow reading it, or choose another folder")))?;
        // The home would index itself for ever.
        if let Ok(home) = self.config.home.canonicalize()
            && absolute.starts_with(&home)
        {
            return Err(bad("it lies inside riddle's own home".to_owned()));
        }
        self.catalog.add_root(&absolute)?;
        Ok(())
    }

    /// Forgets a folder and everything read from it; the files themselves are not touched.
    ///
    /// # Errors
    /// When it is not indexed.
    pub fn remove_root(&mut self, path: &Path) -> Result<()> {
        let absolute = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let root =
            self.catalog.roots()?.into_iter().find(|it| it.path == absolute || it.path == path);
        let Some(root) = root else {
            let why = Trouble::with("it is not indexed", Advice::ListFolders);
            return Err(Error::BadRoot { path: path.to_path_buf(), why });
        };
        self.catalog.remove_root(root.id)?;
        derived::sync(&self.config, &self.catalog)
    }

    /// The embedder for new vectors, by name or directory; the next update makes all vectors anew and then
    /// switches in one step.
    ///
    /// # Errors
    /// When there is no such model or it can not be used.
    pub fn choose_embedder(&mut self, name: &str) -> Result<()> {
        let dir = self.config.model_dir(name)?;
        embedder::open_dir::<dyn Embedder>(&self.config, &dir)?;
        Ok(self.catalog.set_setting(EMBEDDER_SETTING, Some(name))?)
    }

    /// The sparse encoder that weighs terms, by name or directory. The next update makes all weights anew; until it
    /// has, searches do without them.
    ///
    /// # Errors
    /// When there is no such model or it can not be used.
    pub fn choose_sparse_encoder(&mut self, name: &str) -> Result<()> {
        let dir = self.config.model_dir(name)?;
        embedder::open_dir::<dyn SparseEncoder>(&self.config, &dir)?;
        Ok(self.catalog.set_setting(SPARSE_SETTING, Some(name))?)
    }

    /// Whether terms are weighed, by the encoder that was chosen or the default one. Where they are not, the next
    /// update forgets their weights.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn weigh_terms(&mut self, may: bool) -> Result<()> {
        if may && wanted_sparse(&self.catalog)?.is_some() {
            return Ok(());
        }
        Ok(self.catalog.set_setting(SPARSE_SETTING, (!may).then_some(NO_SPARSE_ENCODER))?)
    }

    /// Percent of the processor that vectors may take beside a person's work, from now on.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn limit_meaning(&mut self, percent: u32) -> Result<()> {
        Ok(self.catalog.set_setting(MEANING_CPU, Some(&percent.clamp(1, 100).to_string()))?)
    }

    /// Whether vectors are made on battery beside a person's work, from now on.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn mean_on_battery(&mut self, may: bool) -> Result<()> {
        Ok(self.catalog.set_setting(MEANING_ON_BATTERY, may.then_some("1"))?)
    }

    /// Keeps which reranker searches use.
    pub(crate) fn keep_reranker(&mut self, name: Option<&str>) -> Result<()> {
        Ok(self.catalog.set_setting(RERANKER_SETTING, Some(name.unwrap_or(NO_RERANKER)))?)
    }

    /// Where everything is.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Puts files that failed back into the queue; returns how many.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn retry_failed(&mut self) -> Result<u64> {
        Ok(self.catalog.retry_failed()?)
    }

    /// Puts these files into the queue, whatever became of them; returns how many there were.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn retry(&mut self, files: &[FileId]) -> Result<u64> {
        Ok(self.catalog.retry_files(files)?)
    }

    /// Deletes the search indexes and makes them anew from the catalog.
    ///
    /// # Errors
    /// When they can not be written.
    pub fn rebuild_indexes(&mut self, observer: &mut dyn FnMut(IndexEvent<'_>)) -> Result<()> {
        observer(IndexEvent::Syncing);
        derived::delete(&self.config)?;
        derived::sync(&self.config, &self.catalog)
    }

    /// Scans every folder, reads what changed, and brings the search indexes up to date. A run without
    /// changes writes nothing. `stop` ends it early, in good order: the rest stays in the queue.
    ///
    /// # Errors
    /// When the catalog or an index can not be written, or the embedder fails. Trouble with files is in
    /// their states.
    pub fn update(
        &mut self,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        stop: &AtomicBool,
    ) -> Result<IndexReport> {
        let started = Instant::now();
        let mut report = IndexReport::default();
        for root in self.catalog.roots()?.iter().filter(|it| !it.is_virtual) {
            self.scan_root(root, observer, stop, &mut report)?;
        }
        self.words(observer, stop, &mut report)?;
        self.meaning(&mut Pace::hurried(), &mut || false, observer, stop, &mut report)?;
        self.pictures(&mut Pace::hurried(), &mut || false, observer, stop, &mut report)?;
        report.seconds = started.elapsed().as_secs_f64();
        Ok(report)
    }

    /// Reads pages that are pictures when all else is done, and then what they say is found by words and by meaning.
    /// Whether it came to the end.
    fn pictures(
        &mut self,
        pace: &mut Pace,
        interrupted: &mut dyn FnMut() -> bool,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        stop: &AtomicBool,
        report: &mut IndexReport,
    ) -> Result<bool> {
        let Some(since) = scans_since(&self.catalog)? else { return Ok(true) };
        if !tools(&self.config).reads_pictures() || self.catalog.count_pictures(since)?.0 == 0 {
            return Ok(true);
        }
        let (queued, done) =
            self.pipeline(stop).read_pictures(since, pace, interrupted, observer, report)?;
        if queued {
            // The same files a second time: what their pictures say is counted as pictures.
            let read = report.read;
            self.words(observer, stop, report)?;
            report.read = read;
            return Ok(self.meaning(pace, interrupted, observer, stop, report)? && done);
        }
        Ok(done)
    }

    /// Which scans and pictures are read from now on.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn read_scans(&mut self, which: ReadScans) -> Result<()> {
        pictures::read_scans(&self.catalog, which)
    }

    fn scan_root(
        &self,
        root: &Root,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        stop: &AtomicBool,
        report: &mut IndexReport,
    ) -> Result<()> {
        observer(IndexEvent::Scanning(&root.path));
        let _stage = stage::enter("scan");
        let options = ScanOptions {
            max_file_bytes: self.config.max_file_bytes,
            // The empty mount point of an unmounted disk is on another volume than its files were.
            known_volume: self.catalog.volume_of(root.id)?,
            excluded: rules(&self.catalog)?
                .into_iter()
                .filter(|it| it.root.is_none_or(|it| it == root.id.0))
                .map(|it| it.pattern)
                .collect(),
            ..ScanOptions::default()
        };
        let mut entries = Vec::new();
        let scanned = scan(&root.path, &options, &mut |entry| {
            entries.push(entry);
            if stop.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        let scanned = match scanned {
            Ok(scanned) => scanned,
            // Nothing is concluded from a root that is not there.
            Err(error) => {
                report.unreachable.push((root.path.clone(), error.to_string()));
                return Ok(());
            }
        };
        let unreadable: Vec<_> = scanned.unreadable.iter().map(|it| it.0.clone()).collect();
        let delta = self.catalog.apply_scan(root.id, &entries, scanned.complete, &unreadable)?;
        report.new += delta.new;
        report.changed += delta.changed;
        report.unchanged += delta.unchanged;
        report.moved += delta.moved;
        report.removed += delta.removed;
        report
            .unreachable
            .extend(scanned.unreadable.into_iter().map(|(path, why)| (root.path.join(path), why)));
        Ok(())
    }

    /// Reads what waits: then words find it.
    fn words(
        &mut self,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        stop: &AtomicBool,
        report: &mut IndexReport,
    ) -> Result<()> {
        let before = self.catalog.writes();
        self.equip()?;
        self.open_embedder(report)?;
        self.pipeline(stop).run(observer, report)?;
        observer(IndexEvent::Syncing);
        derived::sync(&self.config, &self.catalog)?;
        if self.catalog.writes() != before
            || report.new + report.changed + report.moved + report.removed > 0
        {
            self.catalog.set_setting(AS_OF_SETTING, Some(&now().to_string()))?;
        }
        self.note(stop, report)
    }

    /// Uses what has been installed to read files, and reads those again that nothing was found in without it.
    fn equip(&mut self) -> Result<()> {
        let tools = tools(&self.config);
        let with = tools.names().join(" ");
        let before = self.catalog.setting(READ_WITH)?.unwrap_or_default();
        let new = tools.names().iter().any(|it| !before.split(' ').any(|other| other == *it));
        self.parsers.equip(tools);
        if new {
            for state in [FileState::NoText, FileState::Failed] {
                let files = self.catalog.files(Some(state), usize::MAX, 0)?;
                let seen =
                    files.iter().filter(|it| matches!(it.kind, FileKind::Pdf | FileKind::Image));
                let seen: Vec<FileId> = seen.map(|it| it.id).collect();
                self.catalog.retry_files(&seen)?;
            }
        }
        if with != before {
            self.catalog.set_setting(READ_WITH, Some(&with))?;
        }
        Ok(())
    }

    /// Makes the vectors that are missing: then meaning finds it, too. Whether it came to the end.
    fn meaning(
        &mut self,
        pace: &mut Pace,
        interrupted: &mut dyn FnMut() -> bool,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        stop: &AtomicBool,
        report: &mut IndexReport,
    ) -> Result<bool> {
        let before = self.catalog.writes();
        self.open_sparse()?;
        let pipeline = self.pipeline(stop);
        let done = pipeline.make_vectors(pace, interrupted, observer, report)?
            && pipeline.make_terms(pace, interrupted, observer, report)?;
        if self.catalog.writes() != before {
            observer(IndexEvent::Syncing);
            derived::sync(&self.config, &self.catalog)?;
            self.catalog.set_setting(AS_OF_SETTING, Some(&now().to_string()))?;
        }
        self.note(stop, report)?;
        Ok(done)
    }

    /// What is there now.
    fn note(&self, stop: &AtomicBool, report: &mut IndexReport) -> Result<()> {
        report.interrupted |= stop.load(Ordering::Relaxed);
        report.states = states(&self.catalog)?;
        report.chunks = self.catalog.chunk_count()?;
        report.peak_parser_rss_bytes = self.parsers.peak_child_rss_bytes();
        report.resident_weight_bytes =
            self.embedder.as_ref().map_or(0, |it| it.1.resident_weight_bytes())
                + self.sparse.as_ref().map_or(0, |it| it.1.encoder.resident_weight_bytes());
        Ok(())
    }

    fn pipeline<'a>(&'a self, stop: &'a AtomicBool) -> Pipeline<'a> {
        Pipeline {
            config: &self.config,
            catalog: &self.catalog,
            parsers: &self.parsers,
            embedder: self.embedder.as_ref().map(|it| Arc::clone(&it.1)),
            sparse: self.sparse.as_ref().map(|it| it.1.clone()),
            background: Background::new(&self.config.home),
            stop,
        }
    }

    /// Opens the wanted embedder if there is work for it: a run without changes does not need the model.
    fn open_embedder(&mut self, report: &mut IndexReport) -> Result<()> {
        let wanted = wanted_embedder(&self.catalog)?;
        if self.embedder.as_ref().is_some_and(|it| it.0 == wanted) {
            return Ok(());
        }
        // Which model made the vectors is remembered by its name and the size of its weights, so that nothing is opened
        // just to compare.
        let weights = embedder::weights(&self.config, &wanted);
        let current = self.catalog.setting(EMBEDDED_WITH)?.as_deref() == Some(&wanted)
            && self.catalog.setting(EMBEDDED_WITH_WEIGHTS)?.as_deref() == Some(&weights);
        let introduced = self.catalog.setting(EMBEDDED_WITH_ID)?;
        let active = self.catalog.active_embedder()?;
        let complete = match active.filter(|it| introduced.as_deref() == Some(&it.id)) {
            Some(active) => current && self.catalog.count_without_vector(&active.id)? == 0,
            // None yet, or a run that was to make the vectors of another one has been interrupted.
            None => false,
        };
        if complete && self.catalog.pending_jobs()? == 0 {
            return Ok(());
        }
        if !self.introduce(&wanted)? {
            report.notices.push(Notice::NoEmbedder { name: wanted });
        }
        Ok(())
    }

    /// Opens the wanted sparse encoder if there is work for it. Where it is not installed the weights that are there
    /// stay: they are of use again when it is.
    fn open_sparse(&mut self) -> Result<()> {
        let Some(wanted) = wanted_sparse(&self.catalog)? else {
            self.sparse = None;
            return Ok(self.catalog.use_term_encoder(None)?);
        };
        if self.sparse.as_ref().is_some_and(|it| it.0 == wanted) {
            return Ok(());
        }
        let weights = embedder::weights(&self.config, &wanted);
        let current = self.catalog.setting(WEIGHED_WITH)?.as_deref() == Some(&wanted)
            && self.catalog.setting(WEIGHED_WITH_WEIGHTS)?.as_deref() == Some(&weights)
            && self.catalog.term_encoder()?.is_some();
        if weights.is_empty() || (current && self.catalog.count_without_terms()? == 0) {
            return Ok(());
        }
        let Some(encoder) = embedder::open::<dyn SparseEncoder>(&self.config, &wanted)? else {
            return Ok(());
        };
        self.catalog.use_term_encoder(Some(encoder.id()))?;
        self.catalog.set_setting(WEIGHED_WITH, Some(&wanted))?;
        self.catalog.set_setting(WEIGHED_WITH_WEIGHTS, Some(&weights))?;
        let languages = sparse_languages(encoder_name(encoder.id()));
        self.sparse = Some((wanted, Sparse { encoder, languages }));
        Ok(())
    }

    /// Opens an embedder and makes its vectors those that are wanted; whether it is installed.
    fn introduce(&mut self, name: &str) -> Result<bool> {
        let Some(opened) = embedder::open::<dyn Embedder>(&self.config, name)? else {
            return Ok(false);
        };
        self.catalog.register_embedder(opened.id(), opened.dimensions())?;
        self.catalog.set_setting(EMBEDDED_WITH, Some(name))?;
        self.catalog.set_setting(EMBEDDED_WITH_ID, Some(opened.id()))?;
        let weights = embedder::weights(&self.config, name);
        self.catalog.set_setting(EMBEDDED_WITH_WEIGHTS, Some(&weights))?;
        self.embedder = Some((name.to_owned(), opened));
        Ok(true)
    }

    /// Brings everything up to date and then follows the folders until `stop`. Events are hints that a
    /// root wants a scan; every root is scanned from time to time in any case.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn watch(
        &mut self,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        stop: &AtomicBool,
    ) -> Result<IndexReport> {
        let roots: Vec<Root> =
            self.catalog.roots()?.into_iter().filter(|it| !it.is_virtual).collect();
        let paths: Vec<_> = roots.iter().map(|it| it.path.clone()).collect();
        let (sender, events) = mpsc::channel();
        // Watching begins before the first scan: what changes in between is seen by one of the two.
        let watcher = Watcher::start(&paths, DEBOUNCE, sender)?;
        let mut report = IndexReport::default();
        for root in &roots {
            self.scan_root(root, observer, stop, &mut report)?;
        }
        self.words(observer, stop, &mut report)?;
        report.notices.extend(watcher.unwatched().iter().map(|(path, why)| {
            Notice::FolderNotWatched { folder: path.clone(), why: why.clone() }
        }));
        report.notices.extend(
            watcher
                .polled()
                .iter()
                .map(|(path, why)| Notice::FolderPolled { folder: path.clone(), why: why.clone() }),
        );
        let (mut last_scan, mut behind) = (Instant::now(), true);
        let mut waiting: Vec<WatchEvent> = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            if std::mem::take(&mut behind) {
                // What changes meanwhile is read first: words find it at once.
                let mut pace = Pace::beside_work(&self.catalog)?;
                let changed = &mut || {
                    waiting.extend(events.try_iter());
                    !waiting.is_empty() || last_scan.elapsed() >= RESCAN
                };
                let mut round = IndexReport::default();
                behind = !self.meaning(&mut pace, changed, observer, stop, &mut round)?
                    || !self.pictures(&mut pace, changed, observer, stop, &mut round)?;
                merge(&mut report, round);
            }
            if !behind && waiting.is_empty() {
                // While nothing happens no model is kept: it is opened again when there is work for it.
                (self.embedder, self.sparse) = (None, None);
                observer(IndexEvent::Watching);
                waiting.extend(Self::next_event(&events, last_scan, stop));
            }
            waiting.extend(events.try_iter());
            if stop.load(Ordering::Relaxed) {
                break;
            }
            if last_scan.elapsed() >= RESCAN {
                waiting.push(WatchEvent::Lost("time for a look at everything".to_owned()));
            }
            let touched = std::mem::take(&mut waiting);
            let lost = touched.iter().any(|it| matches!(it, WatchEvent::Lost(_)));
            let mut round = IndexReport::default();
            for root in &roots {
                let hit = |event: &WatchEvent| matches!(event, WatchEvent::Changed(path) if path.starts_with(&root.path));
                if lost || touched.iter().any(hit) {
                    self.scan_root(root, observer, stop, &mut round)?;
                }
            }
            if lost {
                last_scan = Instant::now();
            }
            self.words(observer, stop, &mut round)?;
            behind = true;
            merge(&mut report, round);
        }
        (self.embedder, self.sparse) = (None, None);
        report.interrupted = false;
        Ok(report)
    }

    /// Waits until something happens, or everything is to be looked at again, or until `stop`.
    fn next_event(
        events: &mpsc::Receiver<WatchEvent>,
        last_scan: Instant,
        stop: &AtomicBool,
    ) -> Option<WatchEvent> {
        while !stop.load(Ordering::Relaxed) && last_scan.elapsed() < RESCAN {
            // Short, so that a request to stop is heard.
            if let Ok(event) = events.recv_timeout(Duration::from_millis(200)) {
                return Some(event);
            }
        }
        None
    }

    /// Indexes documents from memory as a collection. What is longer than some 320 tokens is cut into passages, as a
    /// file is: a model would read its beginning alone. Documents of an earlier call with the same id are replaced.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn add_documents(
        &mut self,
        collection: &str,
        documents: &mut dyn Iterator<Item = InputDocument>,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        stop: &AtomicBool,
    ) -> Result<IndexReport> {
        /// Documents committed together.
        const BATCH: usize = 128;
        let started = Instant::now();
        let mut report = IndexReport::default();
        let root = self.catalog.add_virtual_root(collection)?;
        let wanted = wanted_embedder(&self.catalog)?;
        if self.embedder.is_none() {
            self.introduce(&wanted)?;
        }
        loop {
            let batch: Vec<InputDocument> = documents.take(BATCH).collect();
            if batch.is_empty() || stop.load(Ordering::Relaxed) {
                break;
            }
            let mut outcomes = batch
                .into_iter()
                .map(|document| {
                    let file = self.catalog.virtual_file(root.id, &document.id)?;
                    let chunks = self.pipeline(stop).passages(&document.text);
                    Ok(virtual_outcome(file, document, chunks))
                })
                .collect::<Result<Vec<_>>>()?;
            self.pipeline(stop).commit_outcomes(&mut outcomes, &mut report)?;
            observer(IndexEvent::Queued(report.read));
        }
        self.words(observer, stop, &mut report)?;
        self.meaning(&mut Pace::hurried(), &mut || false, observer, stop, &mut report)?;
        report.seconds = started.elapsed().as_secs_f64();
        Ok(report)
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}

fn virtual_outcome(file: FileId, document: InputDocument, mut chunks: Vec<Chunk>) -> FileOutcome {
    let title = Some(document.title).filter(|it| !it.is_empty());
    let size = document.text.len() as u64;
    if chunks.is_empty() && title.is_some() {
        chunks.push(whole(String::new()));
    }
    let new = |chunk: Chunk| NewChunk {
        text_hash: text_hash(title.as_deref(), &chunk),
        chunk,
        vector: None,
    };
    let chunks: Vec<NewChunk> = chunks.into_iter().map(new).collect();
    FileOutcome {
        file,
        content_hash: None,
        kind: FileKind::Text,
        state: if chunks.is_empty() { FileState::NoText } else { FileState::Indexed },
        reason: String::new(),
        title,
        language: None,
        warnings: Vec::new(),
        size,
        modified_ns: 0,
        volume_id: None,
        chunks,
        pictures: Vec::new(),
    }
}

fn merge(all: &mut IndexReport, round: IndexReport) {
    all.new += round.new;
    all.changed += round.changed;
    all.moved += round.moved;
    all.removed += round.removed;
    all.read += round.read;
    all.embedded += round.embedded;
    all.weighed += round.weighed;
    all.pictures += round.pictures;
    all.states = round.states;
    all.chunks = round.chunks;
    all.peak_parser_rss_bytes = all.peak_parser_rss_bytes.max(round.peak_parser_rss_bytes);
    all.resident_weight_bytes = all.resident_weight_bytes.max(round.resident_weight_bytes);
}
