//! The thread that indexes: it owns the [`Library`], follows the folders, and does in between what is asked of it.
//!
//! Another process may hold the home (`riddle index --watch`): then it is tried again every few seconds, and
//! searching goes on meanwhile. A panic costs the run and not the program.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use riddle_rag::{Library, Records, indexing::IndexEvent};
use riddle_types::FileState;

use crate::{
    context::{Context, lock},
    convert::{clean, notices, shown},
    doing::Doing,
    dto::{AppEvent, Failure, FailureCode, Notice, Phase, Trouble},
    engine::Engine,
    failure::Reply,
};

/// Setting: indexing is paused.
const PAUSED: &str = "desktop.paused";
/// A home that another process holds, and a run that failed, are tried again after this long.
const RETRY: Duration = Duration::from_secs(5);
/// How long a thread sleeps that has nothing to do; it is woken by what is posted.
const IDLE: Duration = Duration::from_secs(3600);
/// The interface is told at most this often.
const TELL_EVERY: Duration = Duration::from_millis(250);
/// Throughput is noted for the figures this often.
const NOTE_EVERY: Duration = Duration::from_secs(5);

/// What is done with the library between two runs; `None` while another process holds it.
type Job = Box<dyn FnOnce(Option<&mut Library>) + Send>;

/// The thread's other end.
pub(crate) struct Indexer {
    jobs: Mutex<Sender<Job>>,
    /// Ends the run under way, so that jobs are looked at.
    interrupt: Arc<AtomicBool>,
    closing: Arc<AtomicBool>,
    paused: Arc<AtomicBool>,
    doing: Arc<Mutex<Doing>>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Indexer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub(crate) fn start(
        context: &Arc<Context>,
        engine: &Arc<Engine>,
    ) -> riddle_rag::Result<Indexer> {
        let (sender, jobs) = mpsc::channel();
        let indexer = Indexer {
            jobs: Mutex::new(sender),
            interrupt: Arc::default(),
            closing: Arc::default(),
            paused: Arc::new(AtomicBool::new(is_paused(&context.records)?)),
            doing: Arc::default(),
            thread: Mutex::default(),
        };
        let thread = Thread {
            context: Arc::clone(context),
            engine: Arc::clone(engine),
            jobs,
            interrupt: Arc::clone(&indexer.interrupt),
            closing: Arc::clone(&indexer.closing),
            paused: Arc::clone(&indexer.paused),
            doing: Arc::clone(&indexer.doing),
            told: None,
            noted: Instant::now(),
            synced: false,
        };
        let spawned =
            std::thread::Builder::new().name("indexer".to_owned()).spawn(move || thread.run());
        *lock(&indexer.thread) =
            Some(spawned.expect("the system has threads to give when the program starts"));
        Ok(indexer)
    }

    pub(crate) fn doing(&self) -> MutexGuard<'_, Doing> {
        lock(&self.doing)
    }

    /// Does something between two runs; the next one looks at everything.
    pub(crate) fn post(&self, job: impl FnOnce(Option<&mut Library>) + Send + 'static) {
        // Without a thread the program is ending.
        let _ = lock(&self.jobs).send(Box::new(job));
        self.interrupt.store(true, Ordering::Release);
    }

    /// [`post`](Self::post), and waits for what comes out.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Library) -> Reply<T> + Send + 'static,
    ) -> Reply<T> {
        let (sender, receiver) = mpsc::channel();
        self.post(move |library| {
            let reply = match library {
                Some(library) => job(library),
                None => Err(Failure::new(
                    FailureCode::Busy,
                    "another process is indexing into the same home: end it, or wait for it",
                )),
            };
            let _ = sender.send(reply);
        });
        receiver.recv().unwrap_or_else(|_| Err(crate::failure::broke_down(&"the indexer ended")))
    }

    /// Pauses or goes on; [`is_paused`] tells the next start.
    pub(crate) fn pause(&self, records: &Records, paused: bool) -> Reply<()> {
        records.set_setting(PAUSED, paused.then_some("1"))?;
        self.paused.store(paused, Ordering::Release);
        self.post(|_| {});
        Ok(())
    }

    /// Ends the thread and waits for it: the batch at hand is committed.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.post(|_| {});
        if let Some(thread) = lock(&self.thread).take() {
            // A panic in it was told when it happened.
            let _ = thread.join();
        }
    }
}

/// Whether indexing was paused when the program ended.
fn is_paused(records: &Records) -> riddle_rag::Result<bool> {
    Ok(records.setting(PAUSED)?.is_some())
}

/// The thread's own end.
struct Thread {
    context: Arc<Context>,
    engine: Arc<Engine>,
    jobs: Receiver<Job>,
    interrupt: Arc<AtomicBool>,
    closing: Arc<AtomicBool>,
    paused: Arc<AtomicBool>,
    doing: Arc<Mutex<Doing>>,
    told: Option<Instant>,
    noted: Instant,
    /// The search indexes are being written: what comes next finds them written.
    synced: bool,
}

impl Thread {
    fn run(mut self) {
        let mut library = None;
        while !self.closing.load(Ordering::Acquire) {
            self.interrupt.store(false, Ordering::Release);
            if library.is_none() {
                library = self.open();
            }
            while let Ok(job) = self.jobs.try_recv() {
                job(library.as_mut());
            }
            // The job that came with the wish to end may just have been done, and nothing else would wake this thread.
            if self.closing.load(Ordering::Acquire) {
                return;
            }
            let pause = match &mut library {
                None => RETRY,
                Some(library) => {
                    let run = catch_unwind(AssertUnwindSafe(|| self.follow(library)));
                    run.unwrap_or_else(|panic| {
                        self.context.tell_unloaded("indexer", &*panic);
                        let what = "indexing broke down and is tried again";
                        self.fail(Trouble { message: what.to_owned(), advice: None });
                        RETRY
                    })
                }
            };
            if !pause.is_zero() {
                match self.jobs.recv_timeout(pause) {
                    Ok(job) => job(library.as_mut()),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        }
    }

    fn open(&mut self) -> Option<Library> {
        match Library::open(self.context.config.clone()) {
            Ok(library) => {
                lock(&self.doing).error = None;
                Some(library)
            }
            Err(error) => {
                let mut doing = lock(&self.doing);
                doing.phase = Some(if error.is_locked() { Phase::Locked } else { Phase::Failed });
                doing.error = Some(Trouble::of(&error));
                drop(doing);
                self.tell(true);
                None
            }
        }
    }

    /// Brings everything up to date and follows the folders until something else is to be done; how long to
    /// sleep then.
    fn follow(&mut self, library: &mut Library) -> Duration {
        if self.paused.load(Ordering::Acquire) {
            lock(&self.doing).phase = Some(Phase::Paused);
            self.tell(true);
            return IDLE;
        }
        match self.context.records.folders() {
            Ok(folders) if folders.is_empty() => {
                *lock(&self.doing) = Doing { phase: Some(Phase::Watching), ..Doing::default() };
                self.tell(true);
                return IDLE;
            }
            Ok(_) => {}
            Err(error) => {
                self.fail(Trouble::of(&error));
                return RETRY;
            }
        }
        lock(&self.doing).error = None;
        let interrupt = Arc::clone(&self.interrupt);
        let outcome = library.watch(&mut |event| self.see(&event), &interrupt);
        self.freshen();
        match outcome {
            Ok(report) => {
                let unreachable = report.unreachable.iter();
                let unreachable = unreachable.map(|(path, why)| Notice::FolderUnreachable {
                    folder: shown(path),
                    why: clean(why),
                });
                lock(&self.doing).notices =
                    notices(report.notices).into_iter().chain(unreachable).collect();
                Duration::ZERO
            }
            Err(error) => {
                self.fail(Trouble::of(&error));
                RETRY
            }
        }
    }

    fn fail(&mut self, why: Trouble) {
        let mut doing = lock(&self.doing);
        doing.phase = Some(Phase::Failed);
        doing.error = Some(why);
        drop(doing);
        self.tell(true);
    }

    fn see(&mut self, event: &IndexEvent<'_>) {
        if !matches!(event, IndexEvent::Syncing) {
            self.freshen();
        }
        let mut doing = lock(&self.doing);
        let mut important = true;
        match event {
            IndexEvent::Scanning(path) => {
                doing.phase = Some(Phase::Scanning);
                doing.current = shown(path);
            }
            IndexEvent::Queued(files) => {
                (doing.done, doing.failed, doing.total) = (0, 0, *files);
                doing.recent.clear();
            }
            IndexEvent::File { path, state, .. } => {
                doing.one_done(path, *state == FileState::Failed);
                important = false;
            }
            IndexEvent::Embedding { done, total } => {
                doing.phase = Some(Phase::Embedding);
                (doing.done, doing.total) = (*done, *total);
                important = false;
            }
            IndexEvent::Weighing { done, total } => {
                doing.phase = Some(Phase::Weighing);
                (doing.done, doing.total) = (*done, *total);
                important = false;
            }
            IndexEvent::Pictures { done, total } => {
                doing.phase = Some(Phase::Looking);
                (doing.done, doing.total) = (*done, *total);
                important = false;
            }
            IndexEvent::Resting(_) => important = false,
            IndexEvent::Syncing => {
                doing.phase = Some(Phase::Syncing);
                self.synced = true;
            }
            IndexEvent::Watching => {
                doing.phase = Some(Phase::Watching);
                doing.current.clear();
            }
        }
        let rate = doing.per_second();
        drop(doing);
        if self.noted.elapsed() >= NOTE_EVERY && rate > 0.0 {
            self.noted = Instant::now();
            lock(&self.context.figures).indexing(rate);
        }
        self.tell(important);
    }

    /// Searches see what was written.
    fn freshen(&mut self) {
        if std::mem::take(&mut self.synced) {
            self.engine.refresh();
        }
    }

    fn tell(&mut self, important: bool) {
        if !important && self.told.is_some_and(|it| it.elapsed() < TELL_EVERY) {
            return;
        }
        self.told = Some(Instant::now());
        let state = lock(&self.doing).state(&self.context);
        match state {
            Ok(state) => self.context.tell(AppEvent::Library { state }),
            Err(failure) => {
                tracing::warn!("the library's state can not be read: {}", failure.message)
            }
        }
    }
}
