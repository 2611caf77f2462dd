//! What the indexer is doing, and the state of the library as the interface is told of it.

use std::{
    collections::VecDeque,
    path::Path,
    time::{Duration, Instant},
};

use riddle_rag::status::LATELY_DAYS;
use riddle_types::FileState;

use crate::{
    context::Context,
    convert::{clean, kind_counts, shown, state_counts},
    dto::{Folder, Lately, LibraryState, Meaning, Notice, Phase, Progress, Queue, Trouble},
    failure::Reply,
};

/// Files per second are counted over this long.
const RATE_OVER: Duration = Duration::from_secs(10);
/// What the thread is doing.
#[derive(Debug, Default)]
pub(crate) struct Doing {
    pub(crate) phase: Option<Phase>,
    pub(crate) done: u64,
    pub(crate) total: u64,
    pub(crate) failed: u64,
    pub(crate) current: String,
    /// When files were done.
    pub(crate) recent: VecDeque<Instant>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) error: Option<Trouble>,
}

/// What waits, by what it is.
fn queue(
    context: &Context,
    counts: &[(FileState, u64)],
    meaning: Option<&Meaning>,
) -> Reply<Queue> {
    let passages = meaning.map_or(0, |it| it.passages.saturating_sub(it.done));
    let tables = if passages > 0 { context.waiting_tables()?.min(passages) } else { 0 };
    let too_large = counts.iter().find(|it| it.0 == FileState::TooLarge).map_or(0, |it| it.1);
    Ok(Queue {
        files: kind_counts(&context.records.waiting_kinds()?),
        prose: passages - tables,
        tables,
        too_large,
    })
}

impl Doing {
    /// The library as the interface is told of it.
    pub(crate) fn state(&self, context: &Context) -> Reply<LibraryState> {
        let records = &context.records;
        let freshness = records.freshness()?;
        let folders = records.folders()?;
        let shared = records.libraries()?.into_iter().map(|it| it.name).collect();
        let meaning = records.meaning()?.map(Meaning::from);
        let counts = records.counts()?;
        Ok(LibraryState {
            phase: self.phase(folders.is_empty()),
            shared,
            folders: folders
                .into_iter()
                .map(|it| Folder {
                    id: it.id.0,
                    name: clean(
                        &it.path.file_name().unwrap_or(it.path.as_os_str()).to_string_lossy(),
                    ),
                    path: shown(&it.path),
                    present: it.present,
                    confined: it.confined,
                    looked_at_every: it.looked_at_every,
                    removable: it.removable,
                    counts: state_counts(&it.counts),
                })
                .collect(),
            queue: queue(context, &counts, meaning.as_ref())?,
            counts: state_counts(&counts),
            kinds: kind_counts(&records.kinds()?),
            lately: Lately { days: LATELY_DAYS, files: records.changed_lately()? },
            passages: records.chunks()?,
            meaning,
            meaning_limits: records.meaning_limits()?.into(),
            scans: records.scans()?.into(),
            reads_browsing: records.reads_browsing()?,
            progress: self.progress(),
            index_bytes: context.index_bytes(),
            as_of: freshness.as_of,
            notices: self.notices.clone(),
            error: self.error.clone(),
        })
    }

    pub(crate) fn phase(&self, no_folders: bool) -> Phase {
        match self.phase {
            Some(Phase::Watching | Phase::Scanning) | None if no_folders => Phase::Empty,
            Some(phase) => phase,
            None => Phase::Starting,
        }
    }

    fn progress(&self) -> Option<Progress> {
        let busy = matches!(
            self.phase,
            Some(
                Phase::Reading
                    | Phase::Embedding
                    | Phase::Weighing
                    | Phase::Looking
                    | Phase::Syncing
                    | Phase::Paused
            )
        );
        if !busy || self.total == 0 {
            return None;
        }
        let per_second = self.per_second();
        let left = self.total.saturating_sub(self.done) as f64;
        Some(Progress {
            done: self.done,
            total: self.total,
            per_second,
            seconds_left: (per_second > 0.0).then(|| left / per_second),
            failed: self.failed,
            current: self.current.clone(),
        })
    }

    pub(crate) fn per_second(&self) -> f64 {
        let recent = self.recent.iter().filter(|it| it.elapsed() <= RATE_OVER);
        let (count, oldest) =
            recent.fold((0u32, None), |(count, oldest), it| (count + 1, oldest.or(Some(*it))));
        // Two files are no rate yet, and a first burst is none either.
        let seconds = oldest.map_or(0.0, |it: Instant| it.elapsed().as_secs_f64());
        if count < 2 || seconds < 0.2 { 0.0 } else { f64::from(count) / seconds }
    }

    pub(crate) fn one_done(&mut self, path: &Path, failed: bool) {
        self.phase = Some(Phase::Reading);
        self.done += 1;
        self.total = self.total.max(self.done);
        self.failed += u64::from(failed);
        self.current = shown(path);
        self.recent.push_back(Instant::now());
        while self.recent.front().is_some_and(|it| it.elapsed() > RATE_OVER) {
            self.recent.pop_front();
        }
    }
}
