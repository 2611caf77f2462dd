//! Which configurations are measured: the paper's figures 9 and 16 (§6.2, §6.4).

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// A measurement of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// Memory over time, 20 candidates × 500 tokens: everything resident against all techniques.
    Figure9,
    /// Ablation, 60 candidates × 500 tokens: one technique after the other.
    Figure16,
}

impl Preset {
    /// Both.
    pub const ALL: [Preset; 2] = [Preset::Figure9, Preset::Figure16];

    /// As it is written on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Preset::Figure9 => "figure9",
            Preset::Figure16 => "figure16",
        }
    }

    /// Candidates per request in the paper.
    pub fn candidates(self) -> usize {
        match self {
            Preset::Figure9 => 20,
            Preset::Figure16 => 60,
        }
    }

    /// Tokens per pair in the paper.
    pub fn tokens(self) -> usize {
        500
    }
}

impl FromStr for Preset {
    type Err = Error;

    fn from_str(name: &str) -> Result<Preset, Error> {
        let found = Preset::ALL.into_iter().find(|it| it.as_str() == name);
        found.ok_or_else(|| Error::Unknown { what: "preset", name: name.to_owned() })
    }
}

/// How the engine runs in a step; `None` is the engine's own default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Dispersion above which candidates are pruned, in mode *set*; `None`: nobody is.
    pub threshold: Option<f32>,
    /// Layers in memory at once; `None`: all.
    pub window: Option<usize>,
    /// Tokens computed at a time.
    pub micro_batch_tokens: Option<usize>,
    /// Share of the embedding rows that may be in memory.
    pub embedding_rows: Option<f32>,
    /// Threads.
    pub threads: Option<usize>,
    /// Bytes that the process is to stay within; the engine plans what is not set.
    #[serde(default)]
    pub memory_budget: Option<u64>,
    /// Products of plain weights multiply bf16 instead of f32.
    #[serde(default)]
    pub bf16: bool,
}

/// A configuration with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What it adds to the one before it.
    pub name: String,
    /// How the engine runs.
    pub setting: Setting,
}

/// Layers in memory: the paper's "dual-layer sliding window" (§4.2).
const WINDOW: usize = 2;

/// Share of the embedding rows in memory (§4.4).
const EMBEDDING_ROWS: f32 = 0.1;

/// The steps of `preset`, the baseline first. Each keeps what the ones before it brought. Pruning is a step
/// only where a threshold is given: with random weights it tells nothing about what it would save.
pub fn steps(
    preset: Preset,
    all_tokens: usize,
    threshold: Option<f32>,
    threads: Option<usize>,
    memory_budget: Option<u64>,
) -> Vec<Step> {
    let mut setting = Setting {
        micro_batch_tokens: Some(all_tokens.max(1)),
        embedding_rows: Some(1.0),
        threads,
        ..Setting::default()
    };
    let mut steps = Vec::new();
    let mut add = |name: String, setting: &Setting| {
        steps.push(Step { name, setting: setting.clone() });
    };
    add("all resident, one batch".to_owned(), &setting);
    if let Some(threshold) = threshold {
        setting.threshold = Some(threshold);
        add(format!("+ pruning at {threshold}"), &setting);
    }
    setting.micro_batch_tokens = None;
    add("+ micro-batches".to_owned(), &setting);
    // The baseline of the paper's −89 %: nothing is read while anything computes.
    setting.window = Some(1);
    add("+ layers read when needed".to_owned(), &setting);
    setting.window = Some(WINDOW);
    add(format!("+ window of {WINDOW} layers"), &setting);
    setting.embedding_rows = Some(EMBEDDING_ROWS);
    add(format!("+ {} % of embedding rows", EMBEDDING_ROWS * 100.0), &setting);
    if preset == Preset::Figure9 {
        let last = steps.len() - 1;
        steps.drain(1..last);
        steps[1].name = "all techniques".to_owned();
    }
    if memory_budget.is_some() {
        // The planner decides what the steps before have decided one by one.
        let setting = Setting { threshold, threads, memory_budget, ..Setting::default() };
        steps.push(Step { name: "planned from the budget".to_owned(), setting });
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_changes_one_thing() {
        let steps = steps(Preset::Figure16, 30_000, Some(0.5), Some(2), None);
        assert_eq!(steps.len(), 6);
        assert_eq!((steps[3].setting.window, steps[4].setting.window), (Some(1), Some(2)));
        let parts = |it: &Setting| {
            [
                format!("{:?}", it.threshold),
                format!("{:?}", it.micro_batch_tokens),
                format!("{:?}", it.window),
                format!("{:?}", it.embedding_rows),
                format!("{:?}", it.threads),
            ]
        };
        for pair in steps.windows(2) {
            let (before, after) = (parts(&pair[0].setting), parts(&pair[1].setting));
            let changed = before.iter().zip(&after).filter(|(a, b)| a != b).count();
            assert_eq!(changed, 1, "{}", pair[1].name);
        }
    }

    #[test]
    fn without_a_threshold_nothing_is_pruned() {
        for preset in Preset::ALL {
            let steps = steps(preset, 100, None, None, None);
            assert!(steps.iter().all(|it| it.setting.threshold.is_none()));
        }
        assert_eq!(steps(Preset::Figure9, 100, None, None, None).len(), 2);
        let planned = steps(Preset::Figure9, 100, None, None, Some(1 << 30));
        assert_eq!(planned[2].setting.memory_budget, Some(1 << 30));
        assert_eq!(
            (planned[2].setting.window, planned[2].setting.micro_batch_tokens),
            (None, None)
        );
    }
}
