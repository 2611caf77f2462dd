//! Following folders: what changes is read soon after.

use std::{
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    time::{Duration, Instant},
};

use riddle_catalog::Root;
use riddle_types::Notice;
use riddle_watch::{WatchEvent, Watcher, is_on_share};

use super::Library;
use crate::{
    contract::{IndexEvent, IndexReport, Rest, Result},
    home::presence::SHARE_RESCAN,
    index::{pace::Pace, pipeline::End},
};

/// A file that is being written makes many events: they are gathered this long.
const DEBOUNCE: Duration = Duration::from_millis(400);

/// Events can be lost, so every root is looked at this often while watching.
const RESCAN: Duration = Duration::from_secs(600);

/// Pauses before a server that made no vectors is asked again: a restart takes some seconds, and a machine that is off
/// is asked once a minute.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How often a request to stop is looked for while nothing happens.
const HEARD: Duration = Duration::from_millis(200);

impl Library {
    /// Brings everything up to date and then follows the folders until `stop`. Events are hints that a
    /// root wants a scan; every root is scanned from time to time in any case, and one on a network share more often.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn watch(
        &mut self,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        stop: &AtomicBool,
    ) -> Result<IndexReport> {
        let (sender, events) = channel();
        // Watching begins before the first scan: what changes in between is seen by one of the two.
        let mut followed = self.begin_following(&sender)?;
        let mut report = IndexReport::default();
        for root in &followed.roots {
            self.scan_root(root, observer, stop, &mut report)?;
        }
        if has_moved(&report) {
            // What it watches is given back before it is asked for again: the system has not much of it.
            drop(followed);
            followed = self.begin_following(&sender)?;
        }
        report.notices.append(&mut self.told);
        self.words(observer, stop, &mut report)?;
        report.notices.extend(half_watched(&followed.watcher));
        let mut hints = Hints::new(events, &followed.roots);
        let mut behind = true;
        let mut away = Away::default();
        while !stop.load(Ordering::Relaxed) {
            if behind {
                let (round, end) = self.catch_up(&mut hints, observer, stop)?;
                merge(&mut report, round);
                behind = end != End::All;
                away.note(end);
            }
            if away.is_so() && hints.waiting.is_empty() {
                // What changes is read and found by words: that much is up to date.
                observer(IndexEvent::Watching);
                observer(IndexEvent::Resting(Rest::Server));
                hints.wait(stop, Some(away.pause));
            }
            if !behind && hints.waiting.is_empty() {
                self.release_encoders();
                observer(IndexEvent::Watching);
                hints.wait(stop, None);
            }
            hints.gather();
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let round = self.follow(&followed.roots, &mut hints, observer, stop)?;
            if has_moved(&round) {
                drop(followed);
                followed = self.begin_following(&sender)?;
            }
            merge(&mut report, round);
            behind = true;
        }
        self.release_encoders();
        report.interrupted = false;
        Ok(report)
    }

    /// Watches the folders where they are now.
    fn begin_following(&self, sender: &Sender<WatchEvent>) -> Result<Followed> {
        let roots = self.folders()?;
        let paths: Vec<_> = roots.iter().map(|it| it.path.clone()).collect();
        let watcher = Watcher::start(&paths, DEBOUNCE, sender.clone())?;
        Ok(Followed { roots, watcher })
    }

    /// Makes vectors and reads pictures beside a person's work until something changes: that is read first, and words
    /// find it at once. How it ended.
    fn catch_up(
        &mut self,
        hints: &mut Hints,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        stop: &AtomicBool,
    ) -> Result<(IndexReport, End)> {
        let mut pace = Pace::beside_work(&self.catalog)?;
        let changed = &mut || hints.has_work();
        let mut round = IndexReport::default();
        let mut end = self.meaning(&mut pace, changed, observer, stop, &mut round)?;
        if end != End::Early && !self.pictures(&mut pace, changed, observer, stop, &mut round)? {
            end = if end == End::Waiting { end } else { End::Early };
        }
        Ok((round, end))
    }

    /// Scans the folders that the hints are about and reads what they have that is new.
    fn follow(
        &mut self,
        roots: &[Root],
        hints: &mut Hints,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        stop: &AtomicBool,
    ) -> Result<IndexReport> {
        let mut round = IndexReport::default();
        let touched = hints.take();
        for root in roots.iter().filter(|it| touched.is_in(&it.path)) {
            self.scan_root(root, observer, stop, &mut round)?;
        }
        hints.looked(&touched, roots);
        self.words(observer, stop, &mut round)?;
        Ok(round)
    }

    /// While nothing happens no model is kept: it is opened again when there is work for it.
    fn release_encoders(&mut self) {
        (self.embedder, self.sparse) = (None, None);
    }
}

/// A server that makes no vectors is asked again after a pause, which grows.
#[derive(Debug, Default)]
struct Away {
    pause: Duration,
}

impl Away {
    fn note(&mut self, end: End) {
        self.pause = match end {
            End::Waiting => (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE),
            End::All | End::Early => Duration::ZERO,
        };
    }

    fn is_so(&self) -> bool {
        !self.pause.is_zero()
    }
}

/// Folders that are followed, and what watches them.
struct Followed {
    roots: Vec<Root>,
    watcher: Watcher,
}

/// Whether a folder was found elsewhere, and is to be watched there.
fn has_moved(report: &IndexReport) -> bool {
    report.notices.iter().any(|it| matches!(it, Notice::FolderMoved { .. }))
}

/// Hints that something has changed, and when everything was last looked at.
struct Hints {
    events: Receiver<WatchEvent>,
    waiting: Vec<WatchEvent>,
    last_scan: Instant,
    /// Folders on network shares, and when they were last looked at.
    shares: Vec<PathBuf>,
    last_shares: Instant,
}

impl Hints {
    fn new(events: Receiver<WatchEvent>, roots: &[Root]) -> Hints {
        let (now, shares) = (Instant::now(), shares_of(roots));
        Hints { events, waiting: Vec::new(), last_scan: now, shares, last_shares: now }
    }

    /// Remembers that what was touched has been looked at. A share can have come or gone meanwhile.
    fn looked(&mut self, touched: &Touched, roots: &[Root]) {
        let now = Instant::now();
        if touched.everywhere {
            self.last_scan = now;
        }
        if touched.everywhere || !touched.shares.is_empty() {
            self.last_shares = now;
        }
        self.shares = shares_of(roots);
    }

    /// No event tells of what others write on a share.
    fn is_time_for_shares(&self) -> bool {
        !self.shares.is_empty() && self.last_shares.elapsed() >= SHARE_RESCAN
    }

    /// Takes in what has come meanwhile.
    fn gather(&mut self) {
        self.waiting.extend(self.events.try_iter());
    }

    /// Events can be lost: from time to time everything is looked at.
    fn is_time_for_all(&self) -> bool {
        self.last_scan.elapsed() >= RESCAN
    }

    /// Whether something is to be looked at that nothing was heard of.
    fn is_time(&self) -> bool {
        self.is_time_for_all() || self.is_time_for_shares()
    }

    /// Whether there is something to scan.
    fn has_work(&mut self) -> bool {
        self.gather();
        !self.waiting.is_empty() || self.is_time()
    }

    /// Waits until something happens, or everything is to be looked at again, for so long at most, or until `stop`.
    fn wait(&mut self, stop: &AtomicBool, at_most: Option<Duration>) {
        let began = Instant::now();
        let is_over = || at_most.is_some_and(|it| began.elapsed() >= it);
        while !stop.load(Ordering::Relaxed) && !self.is_time() && !is_over() {
            if let Ok(event) = self.events.recv_timeout(HEARD) {
                self.waiting.push(event);
                return;
            }
        }
    }

    /// What they say, of which nothing waits then.
    fn take(&mut self) -> Touched {
        let events = std::mem::take(&mut self.waiting);
        let lost = events.iter().any(|it| matches!(it, WatchEvent::Lost(_)));
        let shares = if self.is_time_for_shares() { self.shares.clone() } else { Vec::new() };
        Touched { events, everywhere: lost || self.is_time_for_all(), shares }
    }
}

/// Where something may have changed.
struct Touched {
    events: Vec<WatchEvent>,
    everywhere: bool,
    /// Folders whose turn it is.
    shares: Vec<PathBuf>,
}

impl Touched {
    fn is_in(&self, root: &Path) -> bool {
        let hit =
            |it: &WatchEvent| matches!(it, WatchEvent::Changed(path) if path.starts_with(root));
        self.everywhere || self.shares.iter().any(|it| it == root) || self.events.iter().any(hit)
    }
}

fn shares_of(roots: &[Root]) -> Vec<PathBuf> {
    roots.iter().map(|it| &it.path).filter(|it| is_on_share(it)).cloned().collect()
}

/// What is to be known of folders whose changes are not seen, or seen late.
fn half_watched(watcher: &Watcher) -> Vec<Notice> {
    let unwatched = watcher
        .unwatched()
        .iter()
        .map(|(path, why)| Notice::FolderNotWatched { folder: path.clone(), why: why.clone() });
    let polled = watcher
        .polled()
        .iter()
        .map(|(path, why)| Notice::FolderPolled { folder: path.clone(), why: why.clone() });
    unwatched.chain(polled).collect()
}

/// Adds what a round has done to what was done before it.
fn merge(all: &mut IndexReport, round: IndexReport) {
    all.new += round.new;
    all.changed += round.changed;
    all.moved += round.moved;
    all.removed += round.removed;
    all.read += round.read;
    all.embedded += round.embedded;
    all.weighed += round.weighed;
    match (&mut all.remote, round.remote) {
        (Some(all), Some(more)) => all.add(&more),
        (all, more) => *all = all.take().or(more),
    }
    all.pictures += round.pictures;
    // All others are of one moment: a server that is away is said when it is asked.
    let lasting = round.notices.into_iter().filter(|it| matches!(it, Notice::FolderMoved { .. }));
    all.notices.extend(lasting);
    all.states = round.states;
    all.chunks = round.chunks;
    all.peak_parser_rss_bytes = all.peak_parser_rss_bytes.max(round.peak_parser_rss_bytes);
    all.resident_weight_bytes = all.resident_weight_bytes.max(round.resident_weight_bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_their_turn_between_the_turns_of_all() {
        let (sender, events) = channel();
        let mut hints = Hints::new(events, &[]);
        let (share, disk) = (PathBuf::from("/nas"), PathBuf::from("/disk"));
        hints.shares = vec![share.clone()];
        assert!(!hints.has_work());
        let long_ago = |ago: Duration| Instant::now().checked_sub(ago);
        let Some(then) = long_ago(SHARE_RESCAN) else { return };
        hints.last_shares = then;
        assert!(hints.has_work());
        let touched = hints.take();
        assert!(touched.is_in(&share) && !touched.is_in(&disk));
        hints.looked(&touched, &[]);
        assert_eq!(hints.shares, Vec::<PathBuf>::new(), "as they are now");
        hints.shares = vec![share.clone()];
        assert!(!hints.has_work(), "it had its turn");
        // Without a share nobody waits for it.
        hints.last_shares = then;
        hints.shares.clear();
        assert!(!hints.has_work());
        sender.send(WatchEvent::Changed(disk.join("file"))).expect("sent");
        assert!(hints.has_work());
        let touched = hints.take();
        assert!(touched.is_in(&disk) && !touched.is_in(&share));
    }

    #[test]
    fn what_was_found_elsewhere_is_watched_there_and_told_at_the_end() {
        let moved = Notice::FolderMoved { from: "/old".into(), to: "/new".into() };
        let away = Notice::NoEmbedder { name: "small".to_owned() };
        let round =
            || IndexReport { notices: vec![moved.clone(), away.clone()], ..IndexReport::default() };
        assert!(has_moved(&round()) && !has_moved(&IndexReport::default()));
        let mut all = IndexReport { notices: vec![away.clone()], ..IndexReport::default() };
        merge(&mut all, round());
        assert_eq!(all.notices, [away, moved]);
    }
}
