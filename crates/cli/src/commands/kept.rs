//! `riddle eval answers`, `riddle bench trace` and `riddle bench preempt`: what kept answers are worth.

use std::path::Path;

use riddle_eval::{
    PreemptOptions, PreemptReport, QuestionPair, TRACE_SYSTEMS, ThresholdReport, TraceOptions,
    TraceQuestion, TraceReport, TraceSystem, evaluate_pairs, measure_preemption, run_trace,
};
use riddle_rag::Assistant;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::{
    args::{AnswersArgs, BenchPreemptArgs, BenchTraceArgs},
    context::Context,
    failure::Failure,
    show,
};

/// Columns of a system's name.
const WIDTH: usize = 29;

/// Lines of JSON.
fn lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Failure> {
    let told = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|it| Failure::usage(told(&it)))?;
    let mut read = Vec::new();
    for (line, number) in text.lines().zip(1..).filter(|it| !it.0.trim().is_empty()) {
        let one = serde_json::from_str(line)
            .map_err(|it| Failure::usage(told(&format!("line {number}: {it}"))))?;
        read.push(one);
    }
    Ok(read)
}

/// What similarities let through of labelled pairs.
pub(crate) fn pairs(args: &AnswersArgs, context: &Context) -> Result<(), Failure> {
    let mut pairs: Vec<QuestionPair> = lines(&args.pairs)?;
    pairs.truncate(args.limit.unwrap_or(pairs.len()));
    let assistant = Assistant::open(context.config.clone())?;
    let report = evaluate_pairs(&assistant, &pairs, &mut |done| {
        tracing::info!("{done} of {} pairs", pairs.len());
    })?;
    if context.json {
        return context.out.json(&json!({ "pairs": pairs.len(), "thresholds": report }));
    }
    let mut page =
        "threshold  found  by words  wrong  by words  wrong of hits  by words\n".to_owned();
    page.extend(report.iter().map(threshold_line));
    context.out.text(page)
}

fn threshold_line(it: &ThresholdReport) -> String {
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    format!(
        "{:>9.2} {:>8} {:>8} {:>8} {:>8} {:>10} {:>10}\n",
        it.threshold,
        percent(it.recall),
        percent(it.recall_by_words),
        percent(it.false_hits),
        percent(it.false_hits_by_words),
        percent(it.false_share),
        percent(it.false_share_by_words),
    )
}

/// The systems that are asked for; those of an oracle only where it foresees something.
fn systems(args: &BenchTraceArgs, trace: &[TraceQuestion]) -> Result<Vec<TraceSystem>, Failure> {
    let mut systems: Vec<TraceSystem> = TRACE_SYSTEMS.to_vec();
    let is_known = |name: &String| systems.iter().any(|it| it.name == *name);
    if let Some(wrong) = args.system.iter().find(|it| !is_known(it)) {
        let known = TRACE_SYSTEMS.map(|it| it.name).join("; ");
        return Err(Failure::usage(format!("{wrong:?} is no system: {known}")));
    }
    if !args.system.is_empty() {
        systems.retain(|it| args.system.iter().any(|name| name == it.name));
    } else if trace.iter().all(|it| it.foreseen.is_none()) {
        systems.retain(|it| !it.oracle);
    }
    Ok(systems)
}

/// Systems that keep different things, on one trace.
pub(crate) fn trace(args: &BenchTraceArgs, context: &Context) -> Result<(), Failure> {
    let trace: Vec<TraceQuestion> = lines(&args.trace)?;
    let systems = systems(args, &trace)?;
    if args.dictate && trace.iter().all(|it| it.answer.is_none()) {
        return Err(Failure::usage(
            "nothing can be dictated: no question has an answer".to_owned(),
        ));
    }
    let is_similarity = |it: f32| (0.0..=1.0).contains(&it);
    let set = trace.iter().filter_map(|it| it.set?.threshold).chain(args.threshold);
    if let Some(wrong) = set.into_iter().find(|it| !is_similarity(*it)) {
        return Err(Failure::usage(format!("{wrong} is no similarity: it is between 0 and 1")));
    }
    if args.copy_of.is_none() && trace.iter().any(|it| it.change.is_some()) {
        return Err(Failure::usage(
            "files change in this trace: give their folder, which is copied, with --copy-of"
                .to_owned(),
        ));
    }
    if let Some(folder) = args.copy_of.as_ref().filter(|it| !it.is_dir()) {
        return Err(Failure::usage(format!(
            "{}: there is no such folder: give the one that is asked about with --copy-of",
            folder.display()
        )));
    }
    let options = TraceOptions {
        llm: args.llm.clone(),
        idle: args.idle,
        threshold: args.threshold,
        dictate: args.dictate,
        order: args.passage_order.into(),
        library: args.copy_of.as_deref(),
        stop: context.stop_flag(),
    };
    let mut closed = None;
    if !context.json {
        context.out.text(
            format!(
                "{:<WIDTH$}  mean s   p50 s   p95 s  first s   hits  false  stale  ROUGE-L   BLEU  to first  tokens  idle s  idle tokens\n",
                "system",
            ),
        )?;
    }
    let reports = run_trace(&context.config, &trace, &systems, &options, &mut |it| {
        if !context.json {
            closed = closed.take().or(context.out.text(trace_line(it)).err());
        }
    })?;
    match closed {
        Some(failure) => Err(failure),
        None if context.json => context.out.json(&json!({
            "questions": trace.len(),
            "idle_seconds_before_each": args.idle.as_secs(),
            "dictated": args.dictate,
            "systems": reports,
        })),
        None => Ok(()),
    }
}

fn trace_line(it: &TraceReport) -> String {
    format!(
        "{:<WIDTH$} {:>7.2} {:>7.2} {:>7.2} {:>8.2} {:>5.0}% {:>5.0}% {:>6} {:>8.3} {:>6.3} {:>9.3} {:>7} {:>7.0} {:>12}\n",
        it.system,
        it.mean_ms / 1e3,
        it.p50_ms / 1e3,
        it.p95_ms / 1e3,
        it.first_words_ms / 1e3,
        100.0 * it.hits,
        100.0 * it.false_hits,
        it.stale.map_or("–".to_owned(), |it| format!("{:.0}%", 100.0 * it)),
        it.rouge_l,
        it.bleu,
        it.rouge_l_to_first,
        it.computed_tokens,
        it.idle_seconds,
        it.idle_tokens,
    )
}

/// What somebody waits who asks while answers are prepared.
pub(crate) fn preempt(args: &BenchPreemptArgs, context: &Context) -> Result<(), Failure> {
    let trace: Vec<TraceQuestion> = lines(&args.trace)?;
    let questions: Vec<String> = trace.into_iter().map(|it| it.question).collect();
    let options = PreemptOptions { llm: args.llm.clone(), rounds: args.rounds, after: args.after };
    let report = measure_preemption(&context.config, &questions, &options)?;
    if context.json {
        return context.out.json(&json!(report));
    }
    context.out.text(preempt_page(&report))
}

fn preempt_page(it: &PreemptReport) -> String {
    let idle = match it.idle {
        0 => String::new(),
        idle => format!(", {idle} more when nothing was left to be prepared"),
    };
    let mut page = format!(
        "{} while answers were prepared{idle}\ngiven way after {}, at most {}\n",
        show::plural(it.rounds.len() as u64, "question"),
        show::ms(it.gave_way_ms),
        show::ms(it.gave_way_longest_ms),
    );
    for ratios in &it.ratios {
        page.push_str(&format!(
            "{}: passages known after × {:.2} of the time alone, first words after × {:.2} (medians of pairs)\n",
            if ratios.read_before { "what was read before" } else { "what was never read" },
            ratios.evidence,
            ratios.first_words,
        ));
    }
    page
}
