//! The watcher: says that something below a root changed, after things have calmed down.

use std::{
    path::{Path, PathBuf},
    sync::mpsc::Sender,
    time::Duration,
};

use notify::{EventKind, RecommendedWatcher, RecursiveMode};
use notify_debouncer_full::{DebounceEventResult, Debouncer, RecommendedCache, new_debouncer};

use crate::{Error, Result};

/// A hint from the system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// Something at or below this path changed.
    Changed(PathBuf),
    /// Events were lost: anything may have changed.
    Lost(String),
}

/// Watches folders until it is dropped.
///
/// Known problems: inotify's limit of watches (`fs.inotify.max_user_watches`) can be too small for large
/// trees, and network drives send no events. Both are why the caller also rescans from time to time.
#[derive(Debug)]
pub struct Watcher {
    debouncer: Debouncer<RecommendedWatcher, RecommendedCache>,
    unwatched: Vec<(PathBuf, String)>,
}

impl Watcher {
    /// Watches `roots`, recursively; events come after `debounce` without further ones. Roots that can not
    /// be watched are listed by [`unwatched`](Self::unwatched).
    ///
    /// # Errors
    /// When the system offers no watching at all.
    pub fn start(
        roots: &[PathBuf],
        debounce: Duration,
        sender: Sender<WatchEvent>,
    ) -> Result<Watcher> {
        let first = roots.first().cloned().unwrap_or_default();
        let mut debouncer = new_debouncer(debounce, None, move |result: DebounceEventResult| {
            // A closed channel means the watcher is being dropped.
            match result {
                Ok(events) => {
                    for event in events {
                        if event.need_rescan() {
                            let _ =
                                sender.send(WatchEvent::Lost("the system lost events".to_owned()));
                        }
                        // Reading a file is an event, too: ours would wake us for ever.
                        if matches!(event.kind, EventKind::Access(_)) {
                            continue;
                        }
                        for path in &event.paths {
                            let _ = sender.send(WatchEvent::Changed(path.clone()));
                        }
                    }
                }
                Err(errors) => {
                    for error in errors {
                        let _ = sender.send(WatchEvent::Lost(error.to_string()));
                    }
                }
            }
        })
        .map_err(|source| Error::Watch { path: first, source })?;
        let mut unwatched = Vec::new();
        for root in roots {
            if let Err(error) = debouncer.watch(root, RecursiveMode::Recursive) {
                unwatched.push((root.clone(), error.to_string()));
            }
        }
        Ok(Watcher { debouncer, unwatched })
    }

    /// Roots that the system does not watch, with the reason: only the regular rescan follows them.
    pub fn unwatched(&self) -> &[(PathBuf, String)] {
        &self.unwatched
    }

    /// Stops watching a root.
    ///
    /// # Errors
    /// When it was not watched.
    pub fn unwatch(&mut self, root: &Path) -> Result<()> {
        self.debouncer
            .unwatch(root)
            .map_err(|source| Error::Watch { path: root.to_path_buf(), source })
    }
}
