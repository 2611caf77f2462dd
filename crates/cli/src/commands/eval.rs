//! `riddle eval`.

mod layers;
mod suite;

use std::collections::BTreeMap;

use riddle_eval::{
    ClaimOptions, ClaimReport, ClaimSplit, EvalEvent, EvalOptions, EvalReport, Instruments, Told,
    evaluate, evaluate_claims,
};

use crate::{
    args::{ClaimsArgs, EvalArgs, EvalCommand},
    context::{Context, lasting_name},
    failure::Failure,
    measures::{Times, say, with_measures},
    output::Style,
    progress::Progress,
    show, words,
};

/// The command line's instruments: its progress bar and its stage times.
pub(crate) struct Bench<'a> {
    pub(crate) progress: Progress,
    pub(crate) context: &'a Context,
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
    match &args.what {
        Some(EvalCommand::Claims(args)) => return claims(args, context),
        Some(EvalCommand::Answers(args)) => return super::kept::pairs(args, context),
        None => {}
    }
    let options = EvalOptions {
        // Without it there is a subcommand.
        dataset: args.dataset.clone().unwrap_or_default(),
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
        spread_queries: false,
        save_runs: args.save_runs.clone(),
    };
    if let Some(folder) = &args.suite.suite {
        return suite::run(folder, &args.suite, options, context);
    }
    let mut bench = Bench { progress: Progress::new(), context };
    let report = evaluate(&options, &mut bench, context.stop_flag())?;
    bench.progress.clear();
    if context.json {
        let mut value = with_measures(&report, &Times::new())?;
        say(&mut value, "notices", report.notices.iter().map(words::eval_notice));
        return context.out.json(&value);
    }
    context.out.text(page(&report, context.style))
}

/// Judges labelled claims and shows how often that was right.
fn claims(args: &ClaimsArgs, context: &Context) -> Result<(), Failure> {
    let options = ClaimOptions {
        dataset: args.dataset.clone(),
        answers: args.answers.clone(),
        config: context.config.clone(),
        split: if args.fit { ClaimSplit::Calibration } else { ClaimSplit::HeldOut },
        uncited: args.uncited,
        fit: args.fit,
        limit: args.limit_queries,
        save_pairs: args.save_pairs.clone(),
    };
    let mut bench = Bench { progress: Progress::new(), context };
    let report = evaluate_claims(&options, &mut bench, context.stop_flag())?;
    bench.progress.clear();
    if context.json {
        let mut value = with_measures(&report, &Times::new())?;
        say(&mut value, "notices", report.notices.iter().map(words::eval_notice));
        return context.out.json(&value);
    }
    context.out.text(claims_page(&report, context.style))
}

fn claims_page(report: &ClaimReport, style: Style) -> String {
    let half = match report.split {
        ClaimSplit::Calibration => "calibration",
        ClaimSplit::HeldOut => "held-out",
    };
    let cites = if report.uncited { ", citing nothing" } else { "" };
    let mut page = format!(
        "{}: {} of {}, {half}{cites}\n",
        style.bold(show::clean(&report.dataset)),
        show::plural(report.questions as u64, "question"),
        show::plural(report.articles as u64, "article")
    );
    let columns = ["pairs", "supported", "weak", "unsupported", "precision", "recall", "F1"]
        .map(|it| format!("{it:>12}"));
    page.push_str(&format!("{}\n", style.dim(format!("{:>16}{}", "kind", columns.concat()))));
    let figures = |it: Told| format!("{:>12.3}{:>12.3}{:>12.3}", it.precision, it.recall, it.f1);
    for (kind, it) in &report.kinds {
        let told = it.told.map_or(String::new(), figures);
        page.push_str(&format!(
            "{:>16}{:>12}{:>12.3}{:>12.3}{:>12.3}{told}\n",
            kind.as_str(),
            it.pairs,
            it.supported,
            it.weak,
            it.unsupported
        ));
    }
    let empty = " ".repeat(48);
    for (name, told) in [("all", report.told), ("no reranker", report.told_by_evidence)] {
        page.push_str(&format!("{name:>16}{empty}{}\n", figures(told)));
    }
    if let Some(fitted) = &report.fitted {
        for (name, weight) in &fitted.weights {
            page.push_str(&format!("{name:>24} {weight:.3}\n"));
        }
        let (limits, evidence) = (fitted.limits, fitted.evidence_limits);
        page.push_str(&format!("{:>24} {} {}\n", "limits", limits.0, limits.1));
        page.push_str(&format!("{:>24} {} {}\n", "without a reranker", evidence.0, evidence.1));
    }
    if let Some(it) = report.latency_ms {
        page.push_str(&format!("per claim: p50 {}, p95 {}\n", show::ms(it.p50), show::ms(it.p95)));
    }
    for notice in &report.notices {
        page.push_str(&format!(
            "{} {}\n",
            style.yellow("note:"),
            show::clean(&words::eval_notice(notice))
        ));
    }
    page
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
        page.push_str(&format!(
            "{} {}\n",
            style.yellow("note:"),
            show::clean(&words::eval_notice(notice))
        ));
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
