//! Who goes first: a question, or the index that is being brought up to date.
//!
//! A question holds a shared lock on a file in the home while it is answered; indexing asks for the same lock for
//! itself alone between two micro-batches, and waits while it does not get it. So it gives way at once, in the
//! same process and in another, and a process that dies holds nothing up: the system takes its locks.

use std::{
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Name of the file in the home.
const FILE: &str = "foreground.lock";

/// How often indexing looks whether it may go on.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Longest time that indexing waits: questions without end must not keep files from being found.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

fn file(home: &Path) -> PathBuf {
    home.join(FILE)
}

/// A question at work: indexing waits until it is dropped.
#[derive(Debug)]
pub(crate) struct Foreground {
    _lock: Option<File>,
}

impl Foreground {
    /// Goes first from now on. Where nobody has ever indexed there is nothing to go before. Work that nobody waits for
    /// (`idle`) goes before nobody.
    pub(crate) fn enter(home: &Path, idle: bool) -> Foreground {
        if idle {
            return Foreground { _lock: None };
        }
        let lock = File::open(file(home)).ok().filter(|it| match it.lock_shared() {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(%error, "indexing can not be asked to wait");
                false
            }
        });
        Foreground { _lock: lock }
    }
}

/// Work that gives way.
#[derive(Debug)]
pub(crate) struct Background {
    file: Option<File>,
}

impl Background {
    /// Makes the file that questions lock. A home that can not be written leaves nobody to give way to.
    pub(crate) fn new(home: &Path) -> Background {
        let open = File::options().create(true).truncate(false).write(true).open(file(home));
        let file = open
            .inspect_err(|error| tracing::debug!(%error, "questions can not be given way to"))
            .ok();
        Background { file }
    }

    /// Whether a question is being answered now, by this process or another one.
    pub(crate) fn wanted(&self) -> bool {
        let Some(file) = &self.file else { return false };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(_)) => false,
            Ok(()) => {
                if let Err(error) = file.unlock() {
                    tracing::debug!(%error, "the lock that questions take can not be given back");
                }
                false
            }
        }
    }

    /// Waits while a question is being answered, or until `stopped`, or for ten seconds.
    pub(crate) fn give_way(&self, stopped: impl Fn() -> bool) {
        let Some(file) = &self.file else { return };
        let started = Instant::now();
        while matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            if stopped() || started.elapsed() >= LONGEST_WAIT {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        // Held for no longer than it takes to know: a question must not wait for indexing.
        if let Err(error) = file.unlock() {
            tracing::debug!(%error, "the lock that questions take can not be given back");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn indexing_waits_for_every_question_and_goes_on_after_the_last() {
        let home = tempfile::tempdir().expect("temp dir");
        let background = Background::new(home.path());
        // Nobody asks.
        background.give_way(|| false);
        let (first, second) =
            (Foreground::enter(home.path(), false), Foreground::enter(home.path(), false));
        let looks = AtomicUsize::new(0);
        let went_on = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                background.give_way(|| {
                    looks.fetch_add(1, Ordering::Relaxed);
                    false
                });
                went_on.store(true, Ordering::Relaxed);
            });
            let look_again = |more: usize| {
                let seen = looks.load(Ordering::Relaxed) + more;
                while looks.load(Ordering::Relaxed) < seen {
                    std::thread::yield_now();
                }
            };
            look_again(2);
            drop(first);
            look_again(2);
            assert!(!went_on.load(Ordering::Relaxed), "one question is still being answered");
            drop(second);
        });
        assert!(went_on.load(Ordering::Relaxed));
    }

    #[test]
    fn idle_work_sees_a_question_and_is_none_itself() {
        let home = tempfile::tempdir().expect("temp dir");
        let background = Background::new(home.path());
        let idle = Foreground::enter(home.path(), true);
        assert!(!background.wanted());
        let question = Foreground::enter(home.path(), false);
        assert!(background.wanted());
        drop((idle, question));
        assert!(!background.wanted());
    }

    #[test]
    fn who_is_told_to_stop_does_not_wait() {
        let home = tempfile::tempdir().expect("temp dir");
        let background = Background::new(home.path());
        let _question = Foreground::enter(home.path(), false);
        background.give_way(|| true);
    }

    #[test]
    fn a_question_never_waits_where_nobody_has_indexed() {
        let home = tempfile::tempdir().expect("temp dir");
        let _question = Foreground::enter(home.path(), false);
        assert!(!file(home.path()).exists(), "a question writes nothing");
    }
}
