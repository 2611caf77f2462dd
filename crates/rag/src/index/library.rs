//! The indexing side: folders in, an up-to-date catalog and search indexes out.

mod documents;
mod encoders;
mod moved;
mod watch;

use std::{
    ops::ControlFlow,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use riddle_catalog::{Catalog, FileId, HomeLock, Root};
use riddle_ingest::{Limits, ParserPool};
use riddle_types::{Advice, Notice, Trouble};
use riddle_watch::{identify, scan, spelled};

pub use self::documents::InputDocument;
use super::{
    anew::{Anew, marks},
    derived,
    foreground::Background,
    maker::Maker,
    pace::Pace,
    pipeline::{End, Pipeline, Sparse},
};
use crate::{
    contract::{Error, IndexEvent, IndexReport, Problem, ReadScans, Result},
    home::{
        Config, browsing, encryption, pictures, resolved, scan_options,
        settings::{
            AS_OF_SETTING, LARGEST_FILE, MOST_LARGEST_FILE, READ_WITH, embedder_memory,
            keep_meaning_cpu, keep_meaning_on_battery, keep_reranker, largest_file, scans_since,
        },
        status::states,
        tools::tools,
    },
    stage,
};

/// The writing side of a home; one at a time, guarded by the home's lock.
pub struct Library {
    config: Config,
    catalog: Catalog,
    parsers: ParserPool,
    embedder: Option<(String, Maker)>,
    sparse: Option<(String, Sparse)>,
    /// What the next report says of folders that were added.
    told: Vec<Notice>,
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
    pub fn open(mut config: Config) -> Result<Library> {
        let lock = HomeLock::acquire(&config.home)?;
        encryption::sweep(&config)?;
        let catalog = Catalog::open(config.catalog())?;
        // Of a folder that was removed by somebody who was killed before the end.
        catalog.finish_removing()?;
        if let Some(bytes) = largest_file(&catalog)? {
            config.max_file_bytes = bytes;
        }
        config.embedder_memory = embedder_memory(&catalog)?;
        let mut parsers = ParserPool::new(config.parse_worker.clone(), Limits::default());
        parsers.equip(tools(&config));
        let (embedder, sparse, told) = (None, None, Vec::new());
        Ok(Library { config, catalog, parsers, embedder, sparse, told, _lock: lock })
    }

    /// Adds a folder to what is indexed; a known one is fine. One that is away, and is this one beyond doubt, lies here
    /// from now on instead: the next report says so.
    ///
    /// # Errors
    /// A path that is missing, no folder, unreadable, or nested with another one.
    pub fn add_root(&mut self, path: &Path) -> Result<()> {
        let bad = |why: String| Error::BadRoot { path: path.to_path_buf(), why: why.into() };
        let absolute = resolved(path).map_err(|error| match error.kind() {
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
        self.spell_roots()?;
        match self.recognize(&absolute)? {
            Some(from) => self.told.push(Notice::FolderMoved { from, to: absolute }),
            None => _ = self.catalog.add_root(&absolute)?,
        }
        Ok(())
    }

    /// Calls known folders what the folders around them do: one that is added in another spelling is known by that.
    fn spell_roots(&self) -> Result<()> {
        for root in self.folders()? {
            let path = spelled(&root.path);
            // One that is in the place of another stays as it is.
            if path != root.path
                && let Err(error) = self.catalog.follow_root(root.id, &path, &identify(&path))
            {
                tracing::warn!("{} stays spelled so: {error}", root.path.display());
            }
        }
        Ok(())
    }

    /// Forgets a folder and everything read from it; the files themselves are not touched.
    ///
    /// # Errors
    /// When it is not indexed.
    pub fn remove_root(&mut self, path: &Path) -> Result<()> {
        let absolute = resolved(path).unwrap_or_else(|_| path.to_path_buf());
        let root =
            self.catalog.roots()?.into_iter().find(|it| it.path == absolute || it.path == path);
        let Some(root) = root else {
            let what = format!("{} is not indexed", path.display());
            return Err(Error::BadRequest(Trouble::with(what, Advice::ListFolders)));
        };
        self.catalog.begin_removing(root.id)?;
        derived::sync_beside(&self.config, &self.catalog, || self.catalog.finish_removing())
    }

    /// Percent of the processor that vectors may take beside a person's work, from now on.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn limit_meaning(&mut self, percent: u32) -> Result<()> {
        keep_meaning_cpu(&self.catalog, percent)
    }

    /// MiB of the largest file that is read from now on, 1 to 512; larger ones are listed and not opened.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn limit_files(&mut self, mib: u32) -> Result<()> {
        let mib = mib.clamp(1, MOST_LARGEST_FILE);
        self.catalog.set_setting(LARGEST_FILE, Some(&mib.to_string()))?;
        self.config.max_file_bytes = u64::from(mib) << 20;
        Ok(())
    }

    /// Whether vectors are made on battery beside a person's work, from now on.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn mean_on_battery(&mut self, may: bool) -> Result<()> {
        keep_meaning_on_battery(&self.catalog, may)
    }

    /// The folders that are scanned.
    fn folders(&self) -> Result<Vec<Root>> {
        Ok(self.catalog.roots()?.into_iter().filter(|it| !it.is_virtual).collect())
    }

    /// The catalog, to look something up in.
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Keeps which reranker searches use.
    pub(crate) fn keep_reranker(&mut self, name: Option<&str>) -> Result<()> {
        keep_reranker(&self.catalog, name)
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

    /// Puts right what can be of what a check has found: what changed is read, and indexes follow the catalog; those
    /// that are damaged, or do not hold what they should, are made anew from it.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn repair(
        &mut self,
        problems: &[Problem],
        observer: &mut dyn FnMut(IndexEvent<'_>),
        stop: &AtomicBool,
    ) -> Result<IndexReport> {
        derived::delete_damaged(&self.config, problems)?;
        self.update(observer, stop)
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
        for root in &self.folders()? {
            self.scan_root(root, observer, stop, &mut report)?;
        }
        report.notices.append(&mut self.told);
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
            let end = self.meaning(pace, interrupted, observer, stop, report)?;
            return Ok(end == End::All && done);
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

    /// Whether browsing history is read from now on. Without it what was read of it is taken out.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn read_browsing(&mut self, may: bool) -> Result<()> {
        browsing::read_browsing(&self.catalog, may)
    }

    fn scan_root(
        &self,
        root: &Root,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        stop: &AtomicBool,
        report: &mut IndexReport,
    ) -> Result<()> {
        let root = &self.located(root, &mut report.notices)?;
        observer(IndexEvent::Scanning(&root.path));
        let _stage = stage::enter("scan");
        let options = scan_options(&self.config, &self.catalog, root)?;
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
        self.remember(root)?;
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

    /// Uses what has been installed to read files, and reads those again in which more may be found now.
    fn equip(&mut self) -> Result<()> {
        let tools = tools(&self.config);
        let names: Vec<&str> = tools.names().into_iter().chain(marks()).collect();
        let with = names.join(" ");
        let before = self.catalog.setting(READ_WITH)?.unwrap_or_default();
        let anew = Anew::of(&tools.names(), |it| !before.split(' ').any(|other| other == it));
        self.parsers.equip(tools);
        for state in anew.states() {
            let mut files = self.catalog.files(Some(*state), usize::MAX, 0)?;
            files.retain(|it| anew.finds_more(it));
            let files: Vec<FileId> = files.into_iter().map(|it| it.id).collect();
            self.catalog.retry_files(&files)?;
        }
        if with != before {
            self.catalog.set_setting(READ_WITH, Some(&with))?;
        }
        Ok(())
    }

    /// Makes the vectors that are missing: then meaning finds it, too. How it ended.
    fn meaning(
        &mut self,
        pace: &mut Pace,
        interrupted: &mut dyn FnMut() -> bool,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        stop: &AtomicBool,
        report: &mut IndexReport,
    ) -> Result<End> {
        let before = self.catalog.writes();
        self.open_sparse()?;
        let pipeline = self.pipeline(stop);
        let mut end = pipeline.make_vectors(pace, interrupted, observer, report)?;
        // Terms are weighed here, whoever makes vectors.
        if end != End::Early && !pipeline.make_terms(pace, interrupted, observer, report)? {
            end = End::Early;
        }
        if self.catalog.writes() != before {
            observer(IndexEvent::Syncing);
            derived::sync(&self.config, &self.catalog)?;
            self.catalog.set_setting(AS_OF_SETTING, Some(&now().to_string()))?;
        }
        self.note(stop, report)?;
        Ok(end)
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
            embedder: self.embedder.as_ref().map(|it| it.1.clone()),
            sparse: self.sparse.as_ref().map(|it| it.1.clone()),
            background: Background::new(&self.config.home),
            stop,
        }
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}
