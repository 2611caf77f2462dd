//! What a measurement says, as plain data.

use serde::Serialize;

use crate::{Figures, Lengths, Sample, Setting};

/// The whole measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchReport {
    /// The model's directory.
    pub model: String,
    /// The shape, if the weights are random.
    pub shape: Option<String>,
    /// Whether the weights are random: scores then mean nothing.
    pub random_weights: bool,
    /// The machine.
    pub machine: Machine,
    /// Documents per request.
    pub candidates: usize,
    /// Tokens per pair.
    pub pair_tokens: Lengths,
    /// Runs per step, each in a fresh process.
    pub repeats: usize,
    /// The steps, baseline first.
    pub steps: Vec<StepReport>,
    /// What must be known to read the figures.
    pub notes: Vec<Note>,
}

/// What must be known to read the figures; sentences are made of it by the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// What the baseline is.
    Baseline,
    /// What latency is.
    Latency,
    /// The weights are random.
    RandomWeights,
    /// No threshold was given, so no step prunes.
    NothingPruned,
}

impl Note {
    /// All of them.
    pub const ALL: [Note; 4] =
        [Note::Baseline, Note::Latency, Note::RandomWeights, Note::NothingPruned];
}

/// One configuration: medians over its runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepReport {
    /// What it adds.
    pub name: String,
    /// How the engine ran.
    pub setting: Setting,
    /// Median of each figure.
    pub median: Figures,
    /// Every run's latency in milliseconds, in the order of the rounds.
    pub latencies_ms: Vec<f64>,
    /// Median of latency over the baseline's latency in the same round.
    pub latency_ratio: f64,
    /// Median peak memory over the baseline's.
    pub peak_ratio: f64,
    /// Largest difference of a raw score from the baseline's of the same document. Large where candidates
    /// were pruned: a score is then that of an earlier layer.
    pub score_difference: f32,
    /// Memory over time, of the run with the median latency.
    pub memory_over_time: Vec<Sample>,
}

/// Where it was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Machine {
    /// Processor, by its own name.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Bytes of memory, where the system tells.
    pub memory_bytes: Option<u64>,
    /// Operating system and architecture.
    pub system: String,
    /// Kernel, where the system tells.
    pub kernel: Option<String>,
}

impl Machine {
    /// This one.
    pub fn this() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let processor = read("/proc/cpuinfo").and_then(|it| {
            let line = it.lines().find(|it| it.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        Machine {
            processor: processor.unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: riddle_metrics::machine_memory(),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            kernel: read("/proc/sys/kernel/osrelease").map(|it| it.trim().to_owned()),
        }
    }
}

/// The middle of some numbers; of an even count the mean of the two in the middle, of none 0.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median([]), 0.0);
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
