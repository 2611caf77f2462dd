//! The latest runs of each stage, and their percentiles over time.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

/// Runs kept per stage: a day of heavy use.
const KEPT: usize = 4000;

/// One run: when it ended, in seconds since 1970, and its milliseconds.
type Run = (i64, f32);

/// The latest runs of each stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    runs: BTreeMap<String, VecDeque<Run>>,
}

/// Percentiles of some runs, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Summary {
    /// Number of runs.
    pub count: usize,
    /// Half of the runs took no longer.
    pub p50: f64,
    /// 95 % of the runs took no longer.
    pub p95: f64,
}

/// The runs of a slice of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slice {
    /// When the last of them ended, in seconds since 1970.
    pub at: i64,
    /// Their percentiles.
    pub summary: Summary,
}

impl History {
    /// Notes a run.
    pub fn record(&mut self, stage: &str, at: i64, ms: f64) {
        if !ms.is_finite() || ms < 0.0 {
            return;
        }
        let runs = self.runs.entry(stage.to_owned()).or_default();
        runs.push_back((at, ms as f32));
        while runs.len() > KEPT {
            runs.pop_front();
        }
    }

    /// The stages that have run, by name.
    pub fn stages(&self) -> impl Iterator<Item = &str> {
        self.runs.keys().map(String::as_str)
    }

    /// All runs of a stage.
    pub fn summary(&self, stage: &str) -> Summary {
        summary(self.runs.get(stage).into_iter().flatten().map(|it| it.1).collect())
    }

    /// The runs of a stage in at most `slices` slices of equally many runs, oldest first.
    pub fn over_time(&self, stage: &str, slices: usize) -> Vec<Slice> {
        let runs: Vec<Run> = self.runs.get(stage).into_iter().flatten().copied().collect();
        let each = runs.len().div_ceil(slices.max(1)).max(1);
        runs.chunks(each)
            .map(|it| Slice {
                at: it.last().map_or(0, |it| it.0),
                summary: summary(it.iter().map(|it| it.1).collect()),
            })
            .collect()
    }
}

fn summary(mut ms: Vec<f32>) -> Summary {
    ms.sort_by(f32::total_cmp);
    Summary { count: ms.len(), p50: percentile(&ms, 0.5), p95: percentile(&ms, 0.95) }
}

/// The value below which a share of the values lies (nearest rank); 0 of none. `sorted` ascends.
pub fn percentile(sorted: &[f32], share: f64) -> f64 {
    let rank = (share.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().map_or(0.0, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let mut history = History::default();
        for ms in 1..=100 {
            history.record("bm25", ms, ms as f64);
        }
        history.record("bm25", 0, f64::NAN);
        let all = history.summary("bm25");
        assert_eq!((all.count, all.p50, all.p95), (100, 50.0, 95.0));
        assert_eq!(history.summary("nothing"), Summary::default());
        assert_eq!(percentile(&[7.0], 0.95), 7.0);
    }

    #[test]
    fn time_is_cut_into_equal_shares_and_the_oldest_go() {
        let mut history = History::default();
        for at in 0..(KEPT as i64 + 10) {
            history.record("embed", at, at as f64);
        }
        let slices = history.over_time("embed", 4);
        assert_eq!(slices.len(), 4);
        assert_eq!(slices[3].at, KEPT as i64 + 9);
        assert_eq!(slices.iter().map(|it| it.summary.count).sum::<usize>(), KEPT);
        assert_eq!(history.over_time("embed", 0).len(), 1);
        assert!(history.over_time("nothing", 4).is_empty());
    }
}
