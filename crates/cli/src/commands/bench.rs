//! `riddle bench`.

use std::path::{Path, PathBuf};

use riddle_bench::{
    BenchOptions, BenchReport, Figures, PeerOptions, StepReport, Worker, compare, measure,
    memory_chart, prepare, prepare_language, request,
};
use serde_json::json;

use crate::{
    args::{
        BENCH_WORKER, BenchArgs, BenchCommand, BenchModelArgs, BenchPrepareArgs,
        BenchPrepareLanguageArgs, BenchRerankArgs,
    },
    context::Context,
    failure::Failure,
    measures::say,
    output::Style,
    progress::Progress,
    show, words,
};

/// Measures, or prepares what others are measured on.
pub(crate) fn run(args: &BenchArgs, context: &Context) -> Result<(), Failure> {
    match &args.command {
        BenchCommand::Rerank(args) => rerank(args, context),
        BenchCommand::Prepare(args) => prepared(args, context),
        BenchCommand::Generate(args) => super::bench_generate::run(args, context),
        BenchCommand::Prefix(args) => super::bench_prefix::run(args, context),
        BenchCommand::PrepareLanguage(args) => language(args, context),
        BenchCommand::Trace(args) => super::kept::trace(args, context),
        BenchCommand::Preempt(args) => super::kept::preempt(args, context),
        BenchCommand::Replay(args) => super::replay::run(args, context),
        BenchCommand::Deadline(args) => super::bench_deadline::run(args, context),
    }
}

fn rerank(args: &BenchRerankArgs, context: &Context) -> Result<(), Failure> {
    if args.peers {
        return peers(args, context);
    }
    let mut progress = Progress::new();
    let what = &args.what;
    let options = BenchOptions {
        model: model(what, context, &mut progress)?,
        ragged: what.ragged,
        preset: what.preset,
        candidates: candidates(what),
        tokens: tokens(what),
        repeats: args.repeat,
        threshold: args.threshold,
        memory_budget: args.memory_budget,
        threads: args.threads,
    };
    let worker = Worker {
        program: std::env::current_exe()?,
        argument: BENCH_WORKER,
        instructions: args.isa.clone(),
    };
    let report = measure(&options, &worker, |done, all, step| {
        progress.bench(done, all, step);
    })?;
    progress.clear();
    if let Some(file) = &args.svg {
        write(file, &memory_chart(&report))?;
    }
    if context.json {
        let mut value = serde_json::to_value(&report)?;
        let notes = report.notes.iter().map(|&it| words::bench_note(it).to_owned());
        say(&mut value, "notes", notes);
        return context.out.json(&value);
    }
    context.out.text(page(&report, context.style))
}

/// The engine beside other programs.
fn peers(args: &BenchRerankArgs, context: &Context) -> Result<(), Failure> {
    let mut progress = Progress::new();
    let what = &args.what;
    let options = PeerOptions {
        model: model(what, context, &mut progress)?,
        riddle: std::env::current_exe()?,
        python: args.python.clone().unwrap_or_else(|| PathBuf::from("python3")),
        candidates: candidates(what),
        tokens: tokens(what),
        ragged: what.ragged,
        repeats: args.repeat,
        threads: args.threads,
        instructions: args.isa.clone(),
        skip: args.skip.clone(),
    };
    progress.clear();
    let report = compare(&options)?;
    if context.json { context.out.json(&report.figures) } else { context.out.text(report.table) }
}

fn prepared(args: &BenchPrepareArgs, context: &Context) -> Result<(), Failure> {
    let mut progress = Progress::new();
    let what = &args.what;
    let model = model(what, context, &mut progress)?;
    let (request, lengths) = request(&model, candidates(what), tokens(what), what.ragged)?;
    progress.clear();
    if let Some(file) = &args.request {
        write(file, &serde_json::to_string(&request)?)?;
    }
    if context.json {
        return context.out.json(&json!({
            "model": model, "request": args.request, "pair_tokens": lengths,
        }));
    }
    context.out.line(show::clean(&model.to_string_lossy()))
}

fn language(args: &BenchPrepareLanguageArgs, context: &Context) -> Result<(), Failure> {
    let root = args.dir.clone().unwrap_or_else(|| context.config.home.join("bench"));
    let mut progress = Progress::new();
    progress.preparing(args.model.as_str());
    let path = prepare_language(args.model, args.dtype, args.words_of.as_deref(), &root)?;
    progress.clear();
    if context.json {
        return context.out.json(&json!({ "model": path }));
    }
    context.out.line(show::clean(&path.to_string_lossy()))
}

/// The directory to measure on.
fn model(
    what: &BenchModelArgs,
    context: &Context,
    progress: &mut Progress,
) -> Result<PathBuf, Failure> {
    if let Some(shape) = what.shape {
        let root = what.dir.clone().unwrap_or_else(|| context.config.home.join("bench"));
        progress.preparing(shape.as_str());
        return Ok(prepare(shape, what.format.unwrap_or(shape.published_format()), &root)?);
    }
    // The command line asks for one of the two.
    let name = what.model.as_deref();
    let name = name.ok_or_else(|| Failure::usage("give --shape SHAPE or --model NAME"))?;
    Ok(context.config.model_dir(name)?)
}

fn candidates(what: &BenchModelArgs) -> usize {
    what.candidates.unwrap_or_else(|| what.preset.candidates())
}

fn tokens(what: &BenchModelArgs) -> usize {
    what.tokens.unwrap_or_else(|| what.preset.tokens())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::run(format!("{}: {}", path.display(), show::io_reason(&error))))
}

const COLUMNS: [&str; 8] =
    ["latency", "ratio", "peak", "ratio", "weights", "scratch", "waiting", "read"];

/// Width of the steps' names.
const NAME: usize = 26;

fn page(report: &BenchReport, style: Style) -> String {
    let machine = &report.machine;
    let name = report.shape.as_deref().unwrap_or(&report.model);
    let weights = if report.random_weights { " (random weights)" } else { "" };
    let mut page = format!(
        "{}{weights}: {} of {} to {} tokens, {} each\n",
        style.bold(show::clean(name)),
        show::plural(report.candidates as u64, "candidate"),
        report.pair_tokens.min,
        report.pair_tokens.max,
        show::plural(report.repeats as u64, "run"),
    );
    let memory = machine.memory_bytes.map_or(String::new(), |it| format!(", {}", show::bytes(it)));
    page.push_str(&format!(
        "{}, {}{memory}, {}\n",
        show::clean(&machine.processor),
        show::plural(machine.cores as u64, "core"),
        machine.system
    ));
    let header: Vec<String> = COLUMNS.iter().map(|it| format!("{it:>10}")).collect();
    page.push_str(&format!("{}\n", style.dim(format!("{:NAME$}{}", "", header.concat()))));
    report.steps.iter().for_each(|it| page.push_str(&row(it)));
    if let Some(step) = report.steps.first().filter(|it| !it.median.operations_ms.is_empty()) {
        page.push_str(&format!("{}\n", operations(&step.median)));
    }
    for note in &report.notes {
        let lines = show::wrapped(words::bench_note(*note), 0);
        page.push_str(&format!("{}\n", style.dim(lines.join("\n"))));
    }
    page
}

/// What the first step's time went into, the most first.
fn operations(figures: &Figures) -> String {
    let mut parts: Vec<(&String, &f64)> = figures.operations_ms.iter().collect();
    parts.sort_by(|a, b| b.1.total_cmp(a.1));
    let share = |ms: f64| 100.0 * ms / figures.latency_ms.max(f64::MIN_POSITIVE);
    let parts: Vec<String> = parts
        .iter()
        .map(|(name, ms)| format!("{} {:.0} %", name.replace('_', " "), share(**ms)))
        .collect();
    format!("the first: {}", parts.join(", "))
}

fn row(step: &StepReport) -> String {
    let it = &step.median;
    let figures = [
        show::ms(it.latency_ms),
        format!("{:.3}", step.latency_ratio),
        show::bytes(it.peak_rss_bytes),
        format!("{:.3}", step.peak_ratio),
        show::bytes(it.resident_weight_bytes),
        show::bytes(it.scratch_bytes),
        show::ms(it.io_wait_ms),
        show::bytes(it.bytes_read),
    ];
    let figures: String = figures.iter().map(|it| format!("{it:>10}")).collect();
    format!("{:NAME$}{figures}\n", step.name)
}

#[cfg(test)]
mod tests {
    use riddle_bench::{Lengths, Machine, Note, Setting};

    use super::*;

    #[test]
    fn the_page_says_what_was_measured_and_that_weights_are_random() {
        let step = StepReport {
            name: "+ window of 2 layers".to_owned(),
            setting: Setting::default(),
            median: Figures {
                latency_ms: 1500.0,
                peak_rss_bytes: 80_000_000,
                bytes_read: 5_000_000,
                operations_ms: [
                    ("attention".to_owned(), 300.0),
                    ("feed_forward".to_owned(), 900.0),
                ]
                .into(),
                ..Figures::default()
            },
            latencies_ms: vec![1500.0],
            latency_ratio: 1.25,
            peak_ratio: 0.5,
            score_difference: 0.0,
            memory_over_time: Vec::new(),
        };
        let report = BenchReport {
            model: "/x/minilm-l6-f32".to_owned(),
            shape: Some("minilm-l6".to_owned()),
            random_weights: true,
            machine: Machine { processor: "P".to_owned(), cores: 2, ..Machine::default() },
            candidates: 20,
            pair_tokens: Lengths { min: 498, max: 500 },
            repeats: 1,
            steps: vec![step],
            notes: vec![Note::NothingPruned],
        };
        let shown = page(&report, Style::with_colors(false));
        for part in [
            "minilm-l6 (random weights): 20 candidates of 498 to 500 tokens, 1 run each\n",
            "P, 2 cores",
            "+ window of 2 layers         1500 ms     1.250     80 MB     0.500",
            "5.0 MB\nthe first: feed forward 60 %, attention 20 %\nWithout --threshold there is no step with pruning.\n",
        ] {
            assert!(shown.contains(part), "{part:?} is not in\n{shown}");
        }
    }
}
