//! The state behind all commands: settings, the engine, the indexer, and the channel to the interface.
//!
//! Cheap to clone. A module beside for each group of commands; none of them knows Tauri's runtime.

mod answers;
mod door;
mod kept;
mod library;
mod models;
mod performance;
mod pipeline;
mod preview;
mod search;
mod settings;
mod shared;
mod trial;

use std::{
    ops::Deref,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU32},
    },
};

use riddle_metrics::StageTimings;
use riddle_rag::{Config, FoundCandidate, Records};
use tauri::ipc::Channel;

use crate::{
    context::{Context, lock},
    convert::now,
    door::Door,
    dto::{About, AppEvent, SettingProblem, Start},
    engine::Engine,
    failure::Reply,
    indexer::Indexer,
};

pub(crate) use pipeline::LastRun;

/// Setting: the first run is over.
const FIRST_RUN_DONE: &str = "desktop.first_run_done";

/// The state behind all commands.
#[derive(Clone)]
pub(crate) struct Shell(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) context: Arc<Context>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) indexer: Indexer,
    pub(crate) problems: Mutex<Vec<SettingProblem>>,
    /// Set when a newer search begins: that of the newest one so far.
    pub(crate) stop_search: Mutex<Arc<AtomicBool>>,
    /// Number of the question that is to stop.
    pub(crate) stopped_question: AtomicU32,
    pub(crate) last: Mutex<Option<LastRun>>,
    /// What the newest search has found in shared libraries: nothing else of it is here.
    pub(crate) from_elsewhere: Mutex<Vec<FoundCandidate>>,
    /// Name of the model that is being fetched, and the flag that stops it.
    pub(crate) pulling: Mutex<Option<(String, Arc<AtomicBool>)>>,
    /// The flag that stops the trial of models, while there is one.
    pub(crate) trying: Mutex<Option<Arc<AtomicBool>>>,
    /// The flag that stops writing to a shared library, while that is done.
    pub(crate) pushing: Mutex<Option<Arc<AtomicBool>>>,
    /// Where other programs come in.
    pub(crate) door: Door,
    cold_start_ms: OnceLock<f64>,
}

impl Deref for Shell {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// The commands use the context as their own.
impl Deref for Inner {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl Shell {
    /// Opens the home; the threads start to work at once.
    pub(crate) fn open(config: Config) -> riddle_rag::Result<Shell> {
        let records = Records::open(config.clone())?;
        let settings = settings::read(&records)?;
        let context = Arc::new(Context::new(config, records, settings));
        let engine = Arc::new(Engine::start(&context));
        Ok(Shell(Arc::new(Inner {
            indexer: Indexer::start(&context, &engine)?,
            context,
            engine,
            problems: Mutex::default(),
            stop_search: Mutex::default(),
            stopped_question: AtomicU32::new(0),
            last: Mutex::default(),
            from_elsewhere: Mutex::default(),
            pulling: Mutex::default(),
            trying: Mutex::default(),
            pushing: Mutex::default(),
            door: Door::default(),
            cold_start_ms: OnceLock::new(),
        })))
    }

    /// Does something with the shell on the thread of first hits.
    fn find(&self, job: impl FnOnce(&Shell, &StageTimings) + Send + 'static) {
        let shell = self.clone();
        self.engine.find(move |times| job(&shell, times));
    }

    /// Does something with the shell on the thread of models.
    fn run(&self, job: impl FnOnce(&Shell, &StageTimings) + Send + 'static) {
        let shell = self.clone();
        self.engine.run(move |times| job(&shell, times));
    }

    /// Does something with the shell on the thread of models, and waits for what comes out.
    fn wait_for<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Shell, &StageTimings) -> Reply<T> + Send + 'static,
    ) -> Reply<T> {
        let shell = self.clone();
        self.engine.ask(move |times| job(&shell, times))
    }

    pub(crate) fn subscribe(&self, channel: Channel<AppEvent>) {
        self.listen(channel);
        if let Ok(state) = self.library() {
            self.tell(AppEvent::Library { state });
        }
        self.tell_kept();
    }

    pub(crate) fn start(&self) -> Reply<Start> {
        let has_folder = !self.records.folders()?.is_empty();
        Ok(Start {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            first_run: !has_folder && self.records.setting(FIRST_RUN_DONE)?.is_none(),
            settings: self.settings(),
            library: self.library()?,
            has_embedder: self.has_embedder()?,
            reranker: self.reranker()?,
            platform: std::env::consts::OS.to_owned(),
        })
    }

    pub(crate) fn finish_first_run(&self) -> Reply<()> {
        Ok(self.records.set_setting(FIRST_RUN_DONE, Some(&now().to_string()))?)
    }

    /// The search box can be used. Only the first time counts: a reloaded page is not a start.
    pub(crate) fn ready(&self) {
        if let Some(ms) = riddle_metrics::since_start_ms()
            && self.cold_start_ms.set(ms).is_ok()
        {
            lock(&self.figures).record("cold_start", ms);
        }
    }

    pub(crate) fn cold_start_ms(&self) -> Option<f64> {
        self.cold_start_ms.get().copied()
    }

    pub(crate) fn about(&self) -> About {
        About {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            license: env!("CARGO_PKG_LICENSE").to_owned(),
            home: self.config.home.display().to_string(),
            models_folder: self.config.models_dir().display().to_string(),
            webview: tauri::webview_version().unwrap_or_default(),
            cpu_threads: u32::try_from(self.config.threads).unwrap_or(u32::MAX),
            cold_start_ms: self.cold_start_ms(),
        }
    }

    /// Ends the threads in good order: what was read is committed, the rest waits in the queue.
    pub(crate) fn close(&self) {
        self.cancel_pull();
        self.stop_search();
        self.door.close();
        self.indexer.close();
        lock(&self.figures).write(&self.config.home);
    }
}
