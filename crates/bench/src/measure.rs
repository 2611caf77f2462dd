//! The measurement: every step in every round, each in a fresh process.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
};

use crate::{
    BenchReport, Figures, Machine, Note, Preset, Result, Sample, Shape, Step, StepReport, Worker,
    report::median, shape::shape_of, steps, texts,
};

/// What to measure.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// The model's directory.
    pub model: PathBuf,
    /// Which steps.
    pub preset: Preset,
    /// Documents per request.
    pub candidates: usize,
    /// Tokens per pair.
    pub tokens: usize,
    /// Tokens of the shortest pair, where pairs differ in length; `None`: all are equally long.
    pub ragged: Option<usize>,
    /// Rounds.
    pub repeats: usize,
    /// Threshold of the pruning step; `None`: there is none.
    pub threshold: Option<f32>,
    /// Bytes of the last step, in which the engine plans by itself; `None`: there is no such step.
    pub memory_budget: Option<u64>,
    /// Threads of the engine; `None`: all cores.
    pub threads: Option<usize>,
}

/// A run of a step.
struct Run {
    figures: Figures,
    samples: Vec<Sample>,
}

/// Measures; `on_run` is told how many runs are done, how many there are and which step is next.
///
/// # Errors
/// When the model can not be read or a run fails.
pub fn measure(
    options: &BenchOptions,
    worker: &Worker,
    mut on_run: impl FnMut(usize, usize, &str),
) -> Result<BenchReport> {
    let (request, pair_tokens) =
        texts::request(&options.model, options.candidates, options.tokens, options.ragged)?;
    let all_tokens = options.candidates * pair_tokens.max;
    let BenchOptions { preset, threshold, threads, memory_budget, .. } = *options;
    let steps = steps(preset, all_tokens, threshold, threads, memory_budget);
    let mut runs: Vec<Vec<Run>> = steps.iter().map(|_| Vec::new()).collect();
    let all = options.repeats * steps.len();
    for round in 0..options.repeats {
        // There and back: what drifts during a round (heat, other programs) meets no step more than another.
        let order: Vec<usize> = if round % 2 == 0 {
            (0..steps.len()).collect()
        } else {
            (0..steps.len()).rev().collect()
        };
        for (place, index) in order.into_iter().enumerate() {
            let Step { name, setting } = &steps[index];
            on_run(round * steps.len() + place, all, name);
            let (figures, samples) = worker.measure(name, &options.model, setting, &request)?;
            runs[index].push(Run { figures, samples });
        }
    }
    let shape = shape_of(&options.model);
    let reports = steps.into_iter().zip(&runs).map(|(step, its)| report_of(step, its, &runs[0]));
    Ok(BenchReport {
        model: shown(&options.model),
        shape: shape.map(|it| it.as_str().to_owned()),
        random_weights: shape.is_some(),
        machine: Machine::this(),
        candidates: options.candidates,
        pair_tokens,
        repeats: options.repeats,
        steps: reports.collect(),
        notes: notes(options, shape),
    })
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn notes(options: &BenchOptions, shape: Option<Shape>) -> Vec<Note> {
    let mut notes = vec![Note::Baseline, Note::Latency];
    if shape.is_some() {
        notes.push(Note::RandomWeights);
    }
    if options.threshold.is_none() {
        notes.push(Note::NothingPruned);
    }
    notes
}

fn report_of(step: Step, runs: &[Run], baseline: &[Run]) -> StepReport {
    let latencies_ms: Vec<f64> = runs.iter().map(|it| it.figures.latency_ms).collect();
    let median_figures = median_figures(runs);
    let ratios = runs
        .iter()
        .zip(baseline)
        .map(|(it, base)| it.figures.latency_ms / base.figures.latency_ms.max(f64::MIN_POSITIVE));
    let baseline_peak = median(baseline.iter().map(|it| it.figures.peak_rss_bytes as f64));
    let middle = median(latencies_ms.iter().copied());
    let distance = |it: &&Run| (it.figures.latency_ms - middle).abs();
    let typical = runs.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let differences = runs
        .iter()
        .zip(baseline)
        .map(|(it, base)| score_difference(&it.figures.scores, &base.figures.scores));
    StepReport {
        name: step.name,
        setting: step.setting,
        latency_ratio: median(ratios),
        peak_ratio: median_figures.peak_rss_bytes as f64 / baseline_peak.max(1.0),
        score_difference: differences.fold(0.0, f32::max),
        memory_over_time: typical.map_or_else(Vec::new, |it| it.samples.clone()),
        median: median_figures,
        latencies_ms,
    }
}

fn median_figures(runs: &[Run]) -> Figures {
    let of = |figure: fn(&Figures) -> f64| median(runs.iter().map(|it| figure(&it.figures)));
    Figures {
        open_ms: of(|it| it.open_ms),
        latency_ms: of(|it| it.latency_ms),
        tokenize_ms: of(|it| it.tokenize_ms),
        io_wait_ms: of(|it| it.io_wait_ms),
        bytes_read: of(|it| it.bytes_read as f64) as u64,
        row_bytes_read: of(|it| it.row_bytes_read as f64) as u64,
        cached_bytes: runs.iter().map(|it| it.figures.cached_bytes).max().flatten(),
        layers_run: of(|it| f64::from(it.layers_run)) as u32,
        candidate_layers_share: of(|it| it.candidate_layers_share),
        resident_weight_bytes: of(|it| it.resident_weight_bytes as f64) as u64,
        scratch_bytes: of(|it| it.scratch_bytes as f64) as u64,
        peak_rss_bytes: of(|it| it.peak_rss_bytes as f64) as u64,
        operations_ms: median_operations(runs),
        scores: runs.first().map_or_else(Vec::new, |it| it.figures.scores.clone()),
    }
}

/// Operations that every run has.
fn median_operations(runs: &[Run]) -> BTreeMap<String, f64> {
    let Some(first) = runs.first() else { return BTreeMap::new() };
    let of = |name: &String| {
        median(runs.iter().filter_map(|it| it.figures.operations_ms.get(name).copied()))
    };
    first.figures.operations_ms.keys().map(|name| (name.clone(), of(name))).collect()
}

/// Largest difference of a document that both have.
fn score_difference(scores: &[(usize, f32)], others: &[(usize, f32)]) -> f32 {
    let others: HashMap<usize, f32> = others.iter().copied().collect();
    let both = scores.iter().filter_map(|(index, score)| Some((score - others.get(index)?).abs()));
    both.fold(0.0, f32::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(latency_ms: f64, peak_rss_bytes: u64, score: f32) -> Run {
        let figures =
            Figures { latency_ms, peak_rss_bytes, scores: vec![(3, score)], ..Figures::default() };
        Run { samples: vec![Sample { ms: latency_ms, rss_bytes: 1 }], figures }
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let step = Step { name: "x".to_owned(), setting: crate::Setting::default() };
        // The machine was twice as slow in the second round.
        let baseline = [run(100.0, 50, 1.0), run(200.0, 50, 1.0), run(110.0, 50, 1.0)];
        let runs = [run(50.0, 25, 1.0), run(100.0, 25, 1.25), run(55.0, 25, 1.0)];
        let report = report_of(step, &runs, &baseline);
        assert_eq!((report.latency_ratio, report.peak_ratio), (0.5, 0.5));
        assert_eq!((report.median.latency_ms, report.score_difference), (55.0, 0.25));
        assert_eq!(report.memory_over_time[0].ms, 55.0);
    }
}
