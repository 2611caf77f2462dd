//! Figures over time: kept in the home, so that a restart does not forget them.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use riddle_metrics::{History, Process};
use serde::{Deserialize, Serialize};

use crate::convert::now;

/// Readings of memory and throughput that are kept.
const READINGS: usize = 2000;
/// Memory is read this often: adding up the pages of a process takes the system some milliseconds.
const READ_EVERY: Duration = Duration::from_secs(30);

/// What is kept.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Figures {
    pub(crate) stages: History,
    /// Time, PSS, RSS, PSS of the WebView.
    pub(crate) memory: VecDeque<(i64, u64, u64, u64)>,
    /// Time, files per second.
    pub(crate) indexing: VecDeque<(i64, f64)>,
    #[serde(skip)]
    read_at: Option<Instant>,
    #[serde(skip)]
    changed: bool,
}

fn file(home: &Path) -> PathBuf {
    home.join("performance.json")
}

impl Figures {
    /// What was kept; nothing where that can not be read.
    pub(crate) fn read(home: &Path) -> Figures {
        let text = std::fs::read(file(home)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Keeps what has changed, beside and by renaming.
    pub(crate) fn write(&mut self, home: &Path) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        let beside = home.join("performance.json.part");
        let written = serde_json::to_vec(self)
            .map_err(std::io::Error::from)
            .and_then(|text| std::fs::write(&beside, text))
            .and_then(|()| std::fs::rename(&beside, file(home)));
        if let Err(error) = written {
            tracing::warn!("the figures are not kept: {error}");
        }
    }

    pub(crate) fn record(&mut self, stage: &str, ms: f64) {
        self.changed = true;
        self.stages.record(stage, now(), ms);
    }

    pub(crate) fn indexing(&mut self, files_per_second: f64) {
        self.changed = true;
        push(&mut self.indexing, (now(), files_per_second));
    }

    /// Whether it is time to read the memory.
    pub(crate) fn is_due(&self) -> bool {
        self.read_at.is_none_or(|it| it.elapsed() >= READ_EVERY)
    }

    pub(crate) fn note_memory(&mut self, tree: &[Process]) {
        self.changed = true;
        self.read_at = Some(Instant::now());
        let (own, others) = tree.split_first().map_or((None, &[][..]), |it| (Some(it.0), it.1));
        let own = own.map_or((0, 0), |it| (it.pss_bytes, it.rss_bytes));
        let webview = others.iter().filter(|it| it.name.starts_with("WebKit"));
        push(&mut self.memory, (now(), own.0, own.1, webview.map(|it| it.pss_bytes).sum()));
    }
}

fn push<T>(list: &mut VecDeque<T>, value: T) {
    list.push_back(value);
    while list.len() > READINGS {
        list.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use riddle_metrics::process_tree;

    use super::*;

    #[test]
    fn figures_survive_a_restart_and_a_damaged_file() {
        let home = tempfile::tempdir().expect("a folder");
        let mut figures = Figures::read(home.path());
        figures.record("bm25", 1.5);
        figures.indexing(12.0);
        figures.note_memory(&process_tree());
        figures.write(home.path());
        let again = Figures::read(home.path());
        assert_eq!(again.stages.summary("bm25").count, 1);
        assert_eq!((again.indexing.len(), again.memory.len()), (1, 1));
        std::fs::write(file(home.path()), "{").expect("written");
        assert_eq!(Figures::read(home.path()).indexing.len(), 0);
    }
}
