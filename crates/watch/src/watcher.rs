//! The watcher: says that something below a root changed, after things have calmed down.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::mpsc::Sender,
    time::Duration,
};

use notify::{Config, ErrorKind, EventKind, PollWatcher, RecommendedWatcher, RecursiveMode};
use notify_debouncer_full::{
    DebounceEventResult, Debouncer, FileIdCache, NoCache, RecommendedCache, new_debouncer_opt,
};

use crate::{Error, Result};

/// How often a root is looked through that the system can not watch. Each look reads the metadata of every
/// file: a minute keeps that below what a person notices.
const POLL_INTERVAL: Duration = Duration::from_secs(60);

/// A hint from the system.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WatchEvent {
    /// Something at or below this path changed, appeared or went.
    Changed(PathBuf),
    /// Events were lost: anything may have changed. The reason is for the log.
    Lost(String),
}

/// Watches folders until it is dropped.
///
/// Known problems: inotify's limit of watches (`fs.inotify.max_user_watches`) can be too small for large
/// trees: such roots are polled instead ([`polled`](Self::polled)). Network shares tell of what this
/// machine writes and of nothing else ([`is_on_share`](crate::is_on_share)): the caller rescans them more
/// often. Folders behind symbolic links are not watched. All of this is why the caller also rescans from
/// time to time.
#[derive(Debug)]
pub struct Watcher {
    system: Option<Debouncer<RecommendedWatcher, RecommendedCache>>,
    poll: Option<Debouncer<PollWatcher, NoCache>>,
    polled: Vec<(PathBuf, String)>,
    unwatched: Vec<(PathBuf, String)>,
}

impl Watcher {
    /// Watches `roots`, recursively; events come after `debounce` without further ones. Where the system's
    /// limits do not allow it, a root is polled every minute ([`polled`](Self::polled)). Roots that can not
    /// be watched at all are listed by [`unwatched`](Self::unwatched).
    ///
    /// # Errors
    /// When not even polling can be set up.
    pub fn start(
        roots: &[PathBuf],
        debounce: Duration,
        sender: Sender<WatchEvent>,
    ) -> Result<Watcher> {
        let mut watcher = Watcher::idle();
        // The index's own rule: links are not followed.
        let config = Config::default().with_follow_symlinks(false);
        let events = handler(sender.clone());
        let mut too_many = Vec::new();
        match new_debouncer_opt(debounce, None, events, RecommendedCache::new(), config) {
            Ok(mut system) => {
                for root in roots {
                    match system.watch(root, RecursiveMode::Recursive) {
                        Ok(()) => {}
                        Err(error) if is_limit(&error) => {
                            // The part that fitted is given back: other programs want watches, too.
                            let _ = system.unwatch(root);
                            too_many.push((root.clone(), error.to_string()));
                        }
                        Err(error) => watcher.unwatched.push((root.clone(), error.to_string())),
                    }
                }
                watcher.system = Some(system);
            }
            // No more inotify instances for this user.
            Err(error) => {
                too_many.extend(roots.iter().map(|it| (it.clone(), error.to_string())));
            }
        }
        if !too_many.is_empty() {
            watcher.poll_roots(too_many, debounce, POLL_INTERVAL, sender)?;
        }
        Ok(watcher)
    }

    /// Looks through `roots` every `interval` and compares dates: for drives that send no events.
    ///
    /// # Errors
    /// When polling can not be set up.
    pub fn start_polling(
        roots: &[PathBuf],
        debounce: Duration,
        interval: Duration,
        sender: Sender<WatchEvent>,
    ) -> Result<Watcher> {
        let mut watcher = Watcher::idle();
        let roots = roots.iter().map(|it| (it.clone(), "asked for".to_owned())).collect();
        watcher.poll_roots(roots, debounce, interval, sender)?;
        Ok(watcher)
    }

    fn idle() -> Watcher {
        Watcher { system: None, poll: None, polled: Vec::new(), unwatched: Vec::new() }
    }

    fn poll_roots(
        &mut self,
        roots: Vec<(PathBuf, String)>,
        debounce: Duration,
        interval: Duration,
        sender: Sender<WatchEvent>,
    ) -> Result<()> {
        let config = Config::default().with_poll_interval(interval).with_follow_symlinks(false);
        let mut poll = new_debouncer_opt::<_, PollWatcher, _>(
            debounce,
            None,
            handler(sender),
            NoCache,
            config,
        )
        .map_err(|source| Error::Watch {
            path: roots.first().map(|it| it.0.clone()).unwrap_or_default(),
            source,
        })?;
        for (root, reason) in roots {
            // The poller takes a missing folder for an empty one.
            let there = std::fs::read_dir(&root).map_err(notify::Error::io);
            match there.and_then(|_| poll.watch(&root, RecursiveMode::Recursive)) {
                Ok(()) => {
                    tracing::warn!("{}: polled, not watched: {reason}", root.display());
                    self.polled.push((root, reason));
                }
                Err(error) => self.unwatched.push((root, error.to_string())),
            }
        }
        self.poll = Some(poll);
        Ok(())
    }

    /// Roots that are looked through from time to time, with the reason why the system does not watch them.
    pub fn polled(&self) -> &[(PathBuf, String)] {
        &self.polled
    }

    /// Roots that are neither watched nor polled, with the reason: only the regular rescan follows them.
    pub fn unwatched(&self) -> &[(PathBuf, String)] {
        &self.unwatched
    }

    /// Stops watching a root.
    ///
    /// # Errors
    /// When it was not watched.
    pub fn unwatch(&mut self, root: &Path) -> Result<()> {
        let failed = |source| Error::Watch { path: root.to_path_buf(), source };
        if let Some(place) = self.polled.iter().position(|it| it.0 == root) {
            self.polled.remove(place);
            return self.poll.as_mut().map_or(Ok(()), |it| stop(it, root)).map_err(failed);
        }
        let none = || notify::Error::new(ErrorKind::WatchNotFound);
        self.system.as_mut().ok_or_else(none).and_then(|it| stop(it, root)).map_err(failed)
    }
}

fn stop<W: notify::Watcher, C: FileIdCache>(
    debouncer: &mut Debouncer<W, C>,
    root: &Path,
) -> notify::Result<()> {
    debouncer.unwatch(root)
}

/// Whether the system has no more watches or files to give.
fn is_limit(error: &notify::Error) -> bool {
    match &error.kind {
        ErrorKind::MaxFilesWatch => true,
        // kqueue opens every file it watches.
        ErrorKind::Io(error) => {
            error.kind() == std::io::ErrorKind::StorageFull
                || error.kind() == std::io::ErrorKind::QuotaExceeded
                || is_out_of_files(error)
        }
        _ => false,
    }
}

#[cfg(unix)]
fn is_out_of_files(error: &std::io::Error) -> bool {
    // EMFILE and ENFILE have these numbers on Linux, macOS and the BSDs.
    matches!(error.raw_os_error(), Some(24 | 23))
}

#[cfg(not(unix))]
fn is_out_of_files(_error: &std::io::Error) -> bool {
    false
}

fn handler(sender: Sender<WatchEvent>) -> impl FnMut(DebounceEventResult) + Send + 'static {
    move |result| {
        for event in hints(result) {
            // A closed channel means that the watcher is being dropped.
            let _ = sender.send(event);
        }
    }
}

fn hints(result: DebounceEventResult) -> Vec<WatchEvent> {
    let mut hints = Vec::new();
    match result {
        Ok(events) => {
            for event in events {
                if event.need_rescan() {
                    hints.push(WatchEvent::Lost("the system lost events".to_owned()));
                }
                // Reading a file is an event, too: ours would wake us for ever.
                if !matches!(event.kind, EventKind::Access(_)) {
                    hints.extend(event.paths.iter().cloned().map(WatchEvent::Changed));
                }
            }
        }
        Err(errors) => {
            hints.extend(errors.iter().map(|it| WatchEvent::Lost(it.to_string())));
        }
    }
    // Writing a file in many pieces is one change.
    let mut seen = HashSet::new();
    hints.retain(|it| seen.insert(it.clone()));
    hints
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use notify::{
        Event,
        event::{AccessKind, Flag, ModifyKind},
    };
    use notify_debouncer_full::DebouncedEvent;

    use super::*;

    fn event(kind: EventKind, path: &str) -> DebouncedEvent {
        DebouncedEvent::new(Event::new(kind).add_path(path.into()), Instant::now())
    }

    #[test]
    fn reading_is_no_change_and_repeated_writing_is_one() {
        let modified = EventKind::Modify(ModifyKind::Any);
        let events = vec![
            event(EventKind::Access(AccessKind::Any), "/r/read"),
            event(modified, "/r/written"),
            event(modified, "/r/written"),
        ];
        assert_eq!(hints(Ok(events)), [WatchEvent::Changed("/r/written".into())]);
    }

    #[test]
    fn an_overflow_and_an_error_ask_for_a_rescan() {
        let overflow = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        let lost = hints(Ok(vec![DebouncedEvent::new(overflow, Instant::now())]));
        assert!(matches!(lost.as_slice(), [WatchEvent::Lost(_)]), "{lost:?}");
        let failed = hints(Err(vec![notify::Error::new(ErrorKind::MaxFilesWatch)]));
        assert!(matches!(failed.as_slice(), [WatchEvent::Lost(_)]), "{failed:?}");
    }

    #[test]
    fn limits_are_told_from_other_trouble() {
        assert!(is_limit(&notify::Error::new(ErrorKind::MaxFilesWatch)));
        assert!(!is_limit(&notify::Error::new(ErrorKind::PathNotFound)));
        #[cfg(unix)]
        assert!(is_limit(&notify::Error::io(std::io::Error::from_raw_os_error(24))));
    }
}
