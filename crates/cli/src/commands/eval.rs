//! `riddle eval`.

use std::collections::BTreeMap;

use riddle_eval::{EvalEvent, EvalOptions, EvalReport, Instruments, evaluate};

use crate::{
    args::EvalArgs,
    context::{Context, lasting_name},
    failure::Failure,
    measures::{Times, with_measures},
    output::Style,
    progress::Progress,
    show,
};

/// The command line's instruments: its progress bar and its stage times.
struct Bench<'a> {
    progress: Progress,
    context: &'a Context,
}

impl Instruments for Bench<'_> {
    fn event(&mut self, event: EvalEvent<'_>) {
        self.progress.eval(&event);
    }

    fn take_stage_times(&mut self) -> BTreeMap<&'static str, f64> {
        self.context.take_times()
    }
}

/// Measures and shows a table.
pub(crate) fn run(args: &EvalArgs, context: &Context) -> Result<(), Failure> {
    let options = EvalOptions {
        dataset: args.dataset.clone(),
        config: context.config.clone(),
        embedder: args.embedder.as_deref().map(lasting_name).transpose()?,
        stages: args.stages.clone(),
        run: args.run.clone(),
        run_cosines: args.run_cosines,
        layers: args.layers,
        candidates: args.candidates,
        top_k: args.top_k,
        model: args.model.clone(),
        settings: args.pruning.settings(),
        files: args.files.clone(),
        ignore_titles: args.ignore_titles,
        limit_queries: args.limit_queries,
        save_runs: args.save_runs.clone(),
    };
    let mut bench = Bench { progress: Progress::new(), context };
    let report = evaluate(&options, &mut bench, context.stop_flag())?;
    bench.progress.clear();
    if context.json {
        return context.out.json(&with_measures(&report, &Times::new())?);
    }
    context.out.text(page(&report, context.style))
}

const COLUMNS: [&str; 10] =
    ["stage", "ndcg@10", "mrr@10", "recall@10", "recall@100", "p@1", "p@5", "p@10", "p50", "p95"];

fn page(report: &EvalReport, style: Style) -> String {
    let mut page = format!(
        "{}: {}\n",
        style.bold(show::clean(&report.dataset)),
        show::plural(report.queries as u64, "question")
    );
    let header: Vec<String> = COLUMNS.iter().map(|it| format!("{it:>12}")).collect();
    page.push_str(&format!("{}\n", style.dim(header.concat())));
    page.push_str(&rows(report));
    for (layer, it) in &report.layers {
        let name = format!("layer {layer}");
        page.push_str(&format!("{name:>10}{:>12.4}{:>12.4}\n", it.ndcg_10, it.mrr_10));
    }
    if let Some(corpus) = &report.corpus {
        let reused = if corpus.reused { "indexed earlier, in" } else { "indexed in" };
        page.push_str(&format!(
            "{}, {}, {reused} {:.1} s; embedder: {}\n",
            show::plural(corpus.documents, "document"),
            show::plural(corpus.chunks, "passage"),
            corpus.index_seconds,
            corpus.embedder.as_deref().map_or("none".to_owned(), show::clean)
        ));
    }
    if let Some(reranker) = &report.reranker {
        page.push_str(&format!("reranker: {}\n", show::clean(reranker)));
    }
    for notice in &report.notices {
        page.push_str(&format!("{} {}\n", style.yellow("note:"), show::clean(notice)));
    }
    let peak = show::bytes(riddle_metrics::memory().peak_rss_bytes);
    let weights = show::bytes(report.resident_weight_bytes);
    let memory = format!("peak memory {peak}, of which weights {weights}");
    page.push_str(&format!("{}\n", style.dim(memory)));
    page
}

/// The lines of the table, each under [`COLUMNS`].
fn rows(report: &EvalReport) -> String {
    let mut rows = String::new();
    for (stage, it) in &report.stages {
        let m = &it.measures;
        let figures = [
            m.ndcg_10,
            m.mrr_10,
            m.recall_10,
            m.recall_100,
            m.precision_1,
            m.precision_5,
            m.precision_10,
        ];
        let figures: String = figures.iter().map(|it| format!("{it:>12.4}")).collect();
        let latency = it.latency_ms.map_or(String::new(), |it| {
            format!("{:>12}{:>12}", show::ms(it.p50), show::ms(it.p95))
        });
        rows.push_str(&format!("{:>10}{figures}{latency}\n", stage.as_str()));
        if let (Some(layers), Some(share)) = (it.layers_run_mean, it.candidate_layers_share) {
            rows.push_str(&format!(
                "{:>10}layers run {layers:.2}, share of candidate × layer forwards computed {share:.3}\n",
                ""
            ));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use riddle_eval::{Latency, Measures, Stage, StageReport};

    use super::*;

    #[test]
    fn every_stage_is_a_row() {
        let stage = StageReport {
            measures: Measures { mrr_10: 0.75, ..Measures::default() },
            latency_ms: Some(Latency { p50: 1.5, p95: 20.0 }),
            layers_run_mean: Some(5.5),
            candidate_layers_share: Some(0.5),
            ..StageReport::default()
        };
        let report = EvalReport {
            dataset: "hotpot".to_owned(),
            queries: 1,
            stages: BTreeMap::from([(Stage::Bm25, StageReport::default()), (Stage::Rerank, stage)]),
            ..EvalReport::default()
        };
        let shown = page(&report, Style::with_colors(false));
        for part in [
            "hotpot: 1 question\n",
            "  bm25      0.0000",
            "0.7500",
            "1.5 ms       20 ms\n",
            "layers run 5.50",
        ] {
            assert!(shown.contains(part), "{part:?} is not in\n{shown}");
        }
    }
}
