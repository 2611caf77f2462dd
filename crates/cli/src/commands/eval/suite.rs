//! `riddle eval --suite`.

use std::path::Path;

use riddle_eval::{
    EvalOptions, FailedSet, Figures, SetNotice, SetReport, Stage, SuiteOptions, SuiteReport,
    evaluate_suite,
};
use serde_json::json;

use super::{Bench, layers};
use crate::{
    args::SuiteArgs,
    context::Context,
    failure::Failure,
    measures::{Times, say, with_measures},
    output::Style,
    progress::Progress,
    show, words,
};

/// Width of the first column: the longest name, within reason.
const NAMES: std::ops::RangeInclusive<usize> = 10..=40;

/// Measures all sets and shows one table. What was measured before Ctrl-C is shown, too.
pub(super) fn run(
    folder: &Path,
    args: &SuiteArgs,
    each: EvalOptions,
    context: &Context,
) -> Result<(), Failure> {
    let options = SuiteOptions {
        folder: folder.to_path_buf(),
        domains: args.domains.clone(),
        homes: args.homes.as_deref().map(std::path::absolute).transpose()?,
        each,
    };
    let mut bench = Bench { progress: Progress::new(), context };
    let report = evaluate_suite(&options, &mut bench, context.stop_flag())?;
    bench.progress.clear();
    if context.json {
        let mut value = with_measures(&report, &Times::new())?;
        say(&mut value, "notices", report.notices.iter().map(notice));
        let failed = |it: &FailedSet| json!({ "name": it.name, "why": words::trouble(&it.why) });
        value["failed"] = report.failed.iter().map(failed).collect();
        context.out.json(&value)?;
    } else {
        context.out.text(page(&report, context.style))?;
    }
    if report.stopped {
        return Err(Failure::run(format!(
            "stopped after {}: the indexes of the sets are kept, so the next run is quicker",
            show::plural(report.sets.len() as u64, "set")
        )));
    }
    Ok(())
}

fn page(report: &SuiteReport, style: Style) -> String {
    let mut page = format!(
        "{}: {}, nDCG@10\n",
        style.bold(show::clean(&report.suite)),
        show::plural(report.sets.len() as u64, "set")
    );
    let longest = report.sets.iter().map(|it| it.name.chars().count()).max().unwrap_or(0);
    let width = longest.clamp(*NAMES.start(), *NAMES.end());
    let header = format!(
        "{:<width$}{:>11}{:>11}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}  {:<18}{:>8}{:>10}{:>8}{:>10}\n",
        "set",
        "documents",
        "questions",
        "bm25",
        "dense",
        "sparse",
        "merged",
        "shown",
        "gain",
        "regret",
        "95 %",
        "best",
        "lose > 1",
        "",
        "forwards"
    );
    page.push_str(&style.dim(header));
    for set in &report.sets {
        page.push_str(&row(set, width));
    }
    for it in report.domains.iter().filter(|it| it.of > 1).chain(&report.mean) {
        let name = it.name.as_deref().map_or("mean of all".to_owned(), show::clean);
        let unit = if it.name.is_some() { "set" } else { "domain" };
        let of = show::plural(it.of as u64, unit);
        let regret = it.regret.map_or(String::new(), |regret| {
            format!("{regret:>+9.4}{:28}{}", "", lose(it.lost, it.losing))
        });
        page.push_str(&format!("{name:<width$}{of:>22}{}{regret}\n", figures(&it.figures)));
    }
    if let Some(worst) = worst(report) {
        page.push_str(&worst);
    }
    page.push_str(&layers::page(report, width, style));
    for it in &report.failed {
        let name = style.yellow(format_args!("{}:", show::clean(&it.name)));
        page.push_str(&format!("{name} not measured: {}\n", show::clean(&words::trouble(&it.why))));
    }
    if let Some(reranker) = &report.reranker {
        page.push_str(&format!("reranker: {}\n", show::clean(reranker)));
    }
    for it in &report.notices {
        page.push_str(&format!("{} {}\n", style.yellow("note:"), show::clean(&notice(it))));
    }
    page
}

fn notice(it: &SetNotice) -> String {
    let words = words::eval_notice(&it.notice);
    it.set.as_ref().map_or_else(|| words.clone(), |set| format!("{set}: {words}"))
}

/// The sets whose regret is below zero whatever questions were drawn.
fn worst(report: &SuiteReport) -> Option<String> {
    let loses = |it: &&SetReport| it.regret.as_ref().is_some_and(|it| it.interval.1 < 0.0);
    let names: Vec<String> =
        report.sets.iter().filter(loses).map(|it| show::clean(&it.name)).collect();
    (!names.is_empty()).then(|| format!("loses to the best of its inputs: {}\n", names.join(", ")))
}

fn row(set: &SetReport, width: usize) -> String {
    let regret = set.regret.as_ref().map_or(String::new(), |it| {
        let interval = format!("{:+.4} … {:+.4}", it.interval.0, it.interval.1);
        let lose = lose(Some(it.lost), Some(it.losing));
        format!("{:>+9.4}  {interval:<18}{:>8}{lose}", it.value, leg(it.best))
    });
    let share = set.candidate_layers_share.map_or(String::new(), |it| format!("{it:>10.3}"));
    format!(
        "{:<width$}{:>11}{:>11}{}{regret}{share}\n",
        show::clean(&set.name),
        set.documents,
        set.queries,
        figures(&set.figures)
    )
}

/// How many questions lose more than a place, and what share of all that is.
fn lose(lost: Option<usize>, losing: Option<f64>) -> String {
    let share = losing.map_or(String::new(), |it| format!("{:.1} %", 100.0 * it));
    format!("{:>10}{share:>8}", lost.map_or(String::new(), |it| it.to_string()))
}

fn leg(stage: Stage) -> &'static str {
    match stage {
        Stage::Rrf => "merged",
        other => other.as_str(),
    }
}

fn figures(of: &Figures) -> String {
    let option =
        |it: Option<f64>| it.map_or_else(|| format!("{:>9}", "–"), |it| format!("{it:>9.4}"));
    let legs = [of.bm25, of.dense, of.sparse, of.merged].map(option).concat();
    format!("{legs}{:>9.4}{:>+9.4}", of.shown, of.gain)
}

#[cfg(test)]
mod tests {
    use riddle_eval::{DomainReport, Regret};

    use super::*;

    #[test]
    fn every_set_is_a_row_and_what_failed_is_told() {
        let figures = Figures {
            bm25: Some(0.5),
            merged: Some(0.6),
            shown: 0.55,
            gain: 0.05,
            ..Figures::default()
        };
        let set = SetReport {
            name: "group/mails".to_owned(),
            domain: Some("mails".to_owned()),
            documents: 12,
            queries: 3,
            reused: true,
            figures,
            regret: Some(Regret {
                best: Stage::Rrf,
                value: -0.05,
                interval: (-0.0812, -0.01),
                losing: 0.125,
                lost: 3,
            }),
            layers: None,
            candidate_layers_share: Some(0.75),
            rerank_ms: None,
        };
        let report = SuiteReport {
            suite: "dev".to_owned(),
            sets: vec![set],
            failed: vec![FailedSet { name: "broken".to_owned(), why: "no corpus".into() }],
            mean: Some(DomainReport {
                of: 1,
                figures,
                regret: Some(-0.05),
                losing: Some(0.125),
                lost: Some(3),
                ..DomainReport::default()
            }),
            ..SuiteReport::default()
        };
        let shown = page(&report, Style::with_colors(false));
        for part in [
            "dev: 1 set, nDCG@10\n",
            "group/mails         12          3   0.5000        –        –   0.6000   0.5500  +0.0500  -0.0500",
            "  -0.0812 … -0.0100   merged         3  12.5 %     0.750\n",
            "  -0.0500                                     3  12.5 %\n",
            "mean of all",
            "1 domain   0.5000",
            "loses to the best of its inputs: group/mails\n",
            "broken: not measured: no corpus\n",
        ] {
            assert!(shown.contains(part), "{part:?} is not in\n{shown}");
        }
    }
}
