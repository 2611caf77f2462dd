//! Memory over time as a drawing (the paper's Figure 9).

use riddle_rag::rerank::chart::{At, LineChart, Reference, Series};

use crate::{BenchReport, Sample};

/// Points of a line: more than the picture has columns.
const MOST_POINTS: usize = 800;

/// One line per step, from the moment when the request began; the budget as a line across.
pub fn memory_chart(report: &BenchReport) -> String {
    let weights = if report.random_weights { ", random weights" } else { "" };
    let series = report.steps.iter().enumerate().map(|(color, step)| {
        let during: Vec<&Sample> = step.memory_over_time.iter().filter(|it| it.ms >= 0.0).collect();
        // The largest of neighbors stands for them: peaks are what the figure is about.
        let largest = |it: &[&Sample]| {
            it.iter().max_by_key(|it| it.rss_bytes).map(|it| (it.ms / 1e3, mib(it.rss_bytes)))
        };
        let points = during.chunks(during.len().div_ceil(MOST_POINTS).max(1)).filter_map(largest);
        Series { name: step.name.clone(), points: points.collect(), color, dashed: false }
    });
    let budgets = report.steps.iter().filter_map(|it| it.setting.memory_budget);
    let chart = LineChart {
        title: format!(
            "{}{weights}: {} × {} tokens, {} cores of {}",
            report.shape.as_deref().unwrap_or(&report.model),
            report.candidates,
            report.pair_tokens.max,
            report.machine.cores,
            report.machine.processor,
        ),
        description: "Resident memory of the process over the time of a request, for each \
                      configuration; a line ends where the request does."
            .to_owned(),
        x_label: "seconds since the request".to_owned(),
        y_label: "resident memory of the process, MiB".to_owned(),
        series: series.collect(),
        references: budgets
            .map(|it| Reference { label: "budget".to_owned(), at: At::Y(mib(it)) })
            .collect(),
    };
    chart.to_svg()
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
