//! What the threads and the commands share: the home, the settings in force, the figures, and the way to the interface.
//!
//! It knows neither the threads nor the commands, and so the threads need nothing of the [`shell`](crate::shell).

use std::{
    sync::{Mutex, MutexGuard, PoisonError, RwLock, atomic::Ordering},
    time::{Duration, Instant},
};

use riddle_rag::{Config, Records};
use tauri::ipc::Channel;

use crate::{
    dto::{AppEvent, Failure, IndexBytes, Settings},
    failure::{self, Reply},
    figures::Figures,
};

/// A lock whose holder can not leave it half-done: a panic in between does not matter.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the threads and the commands share.
pub(crate) struct Context {
    pub(crate) config: Config,
    pub(crate) records: Records,
    pub(crate) figures: Mutex<Figures>,
    settings: RwLock<Settings>,
    channel: Mutex<Option<Channel<AppEvent>>>,
    /// What the next page is told, because the one before broke down or there is none yet.
    for_the_next: Mutex<Option<AppEvent>>,
    /// How many passages of tables wait, and when that was counted.
    tables: Mutex<Option<(Instant, u64)>>,
}

/// Every table's passage is looked at to count those that wait: the state is told more often than they change.
const COUNT_TABLES_EVERY: Duration = Duration::from_secs(5);

impl Context {
    pub(crate) fn new(config: Config, records: Records, settings: Settings) -> Context {
        config.switched_off.store(settings.offline, Ordering::Release);
        Context {
            figures: Mutex::new(Figures::read(&config.home)),
            config,
            records,
            settings: RwLock::new(settings),
            channel: Mutex::default(),
            for_the_next: Mutex::default(),
            tables: Mutex::default(),
        }
    }

    /// The settings in force.
    pub(crate) fn settings_now(&self) -> Settings {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts settings in force.
    pub(crate) fn set_settings(&self, settings: Settings) {
        self.config.switched_off.store(settings.offline, Ordering::Release);
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = settings;
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
        let message = riddle_types::panic_message(panic).to_owned();
        self.tell(AppEvent::PartUnloaded { part: part.to_owned(), message: message.clone() });
        failure::broke_down(&message)
    }

    /// The page itself broke down: the next one tells of it.
    pub(crate) fn tell_later(&self, part: &str, message: &str) {
        let (part, message) = (part.to_owned(), message.to_owned());
        *lock(&self.for_the_next) = Some(AppEvent::PartUnloaded { part, message });
    }

    /// Tells the interface, or the next one, if none listens yet.
    pub(crate) fn tell_or_keep(&self, event: AppEvent) {
        let listens = lock(&self.channel).is_some();
        if listens {
            self.tell(event);
        } else {
            *lock(&self.for_the_next) = Some(event);
        }
    }

    /// The interface listens from now on.
    pub(crate) fn listen(&self, channel: Channel<AppEvent>) {
        *lock(&self.channel) = Some(channel);
    }

    /// What was kept for this page, told once.
    pub(crate) fn tell_kept(&self) {
        if let Some(event) = lock(&self.for_the_next).take() {
            if matches!(event, AppEvent::PartUnloaded { .. }) {
                tracing::warn!("the window is back");
            }
            self.tell(event);
        }
    }

    /// Reads the memory if it is time, and keeps the figures.
    pub(crate) fn note_memory(&self) {
        let due = lock(&self.figures).is_due();
        if due {
            let tree = riddle_metrics::process_tree();
            let mut figures = lock(&self.figures);
            figures.note_memory(&tree);
            figures.write(&self.config.home);
        }
    }

    /// Passages of tables that wait to be found by meaning, as of some seconds ago.
    pub(crate) fn waiting_tables(&self) -> Reply<u64> {
        let mut counted = lock(&self.tables);
        if let Some((at, count)) = *counted
            && at.elapsed() < COUNT_TABLES_EVERY
        {
            return Ok(count);
        }
        let count = self.records.waiting_tables()?;
        *counted = Some((Instant::now(), count));
        Ok(count)
    }

    pub(crate) fn index_bytes(&self) -> IndexBytes {
        let bytes = self.records.index_bytes();
        IndexBytes {
            catalog: bytes.catalog,
            keyword: bytes.keyword,
            vector: bytes.vector,
            terms: bytes.terms,
        }
    }
}
