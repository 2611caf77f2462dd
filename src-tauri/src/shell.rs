//! The state behind all commands: settings, the engine, the indexer, and the channel to the interface.
//!
//! Cheap to clone. A module beside for each group of commands; none of them knows Tauri's runtime.

mod answers;
mod library;
mod models;
mod performance;
mod pipeline;
mod search;
mod settings;

use std::{
    ops::Deref,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU32},
    },
};

use riddle_rag::{Config, Records};
use tauri::ipc::Channel;

use crate::{
    commands::Reply,
    convert::now,
    dto::Failure,
    dto::{About, AppEvent, SettingProblem, Settings, Start},
    engine::Engine,
    failure,
    indexer::{self, Indexer},
};

pub(crate) use performance::Figures;
pub(crate) use pipeline::LastRun;

/// Setting: the first run is over.
const FIRST_RUN_DONE: &str = "desktop.first_run_done";

/// The state behind all commands.
#[derive(Clone)]
pub(crate) struct Shell(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) records: Records,
    pub(crate) engine: Engine,
    pub(crate) indexer: Indexer,
    pub(crate) settings: RwLock<Settings>,
    pub(crate) problems: Mutex<Vec<SettingProblem>>,
    channel: Mutex<Option<Channel<AppEvent>>>,
    /// What the next page is told, because the one before broke down.
    for_the_next: Mutex<Option<AppEvent>>,
    /// Set when a newer search begins: that of the newest one so far.
    pub(crate) stop_search: Mutex<Arc<AtomicBool>>,
    /// Number of the question that is to stop.
    pub(crate) stopped_question: AtomicU32,
    pub(crate) last: Mutex<Option<LastRun>>,
    pub(crate) figures: Mutex<Figures>,
    /// Name of the model that is being fetched, and the flag that stops it.
    pub(crate) pulling: Mutex<Option<(String, Arc<AtomicBool>)>>,
    cold_start_ms: OnceLock<f64>,
}

impl Deref for Shell {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// A lock whose holder can not leave it half-done: a panic in between does not matter.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shell {
    /// Opens the home; the threads start to work at once.
    pub(crate) fn open(config: Config) -> riddle_rag::Result<Shell> {
        let records = Records::open(config.clone())?;
        let settings = settings::read(&records)?;
        let figures = Figures::read(&config.home);
        let shell = Shell(Arc::new(Inner {
            engine: Engine::new(&config),
            indexer: Indexer::new(indexer::is_paused(&records)?),
            config,
            records,
            settings: RwLock::new(settings),
            problems: Mutex::default(),
            channel: Mutex::default(),
            for_the_next: Mutex::default(),
            stop_search: Mutex::default(),
            stopped_question: AtomicU32::new(0),
            last: Mutex::default(),
            figures: Mutex::new(figures),
            pulling: Mutex::default(),
            cold_start_ms: OnceLock::new(),
        }));
        shell.engine.serve(&shell);
        shell.indexer.serve(&shell);
        Ok(shell)
    }

    /// Tells the interface, if it listens.
    pub(crate) fn tell(&self, event: AppEvent) {
        if let Some(channel) = &*lock(&self.channel) {
            // A window that is gone hears nothing, and the next one subscribes anew.
            let _ = channel.send(event);
        }
    }

    /// A part of the program broke down and was unloaded.
    pub(crate) fn tell_unloaded(&self, part: &str, panic: &(dyn std::any::Any + Send)) -> Failure {
        let message = failure::panic_message(panic);
        self.tell(AppEvent::PartUnloaded { part: part.to_owned(), message: message.clone() });
        failure::broke_down(&message)
    }

    /// The page itself broke down: the next one tells of it.
    pub(crate) fn tell_later(&self, part: &str, message: &str) {
        let (part, message) = (part.to_owned(), message.to_owned());
        *lock(&self.for_the_next) = Some(AppEvent::PartUnloaded { part, message });
    }

    pub(crate) fn subscribe(&self, channel: Channel<AppEvent>) {
        *lock(&self.channel) = Some(channel);
        if let Ok(state) = self.library() {
            self.tell(AppEvent::Library { state });
        }
        if let Some(event) = lock(&self.for_the_next).take() {
            tracing::warn!("the window is back");
            self.tell(event);
        }
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
        self.indexer.close();
        lock(&self.figures).write(&self.config.home);
    }
}
