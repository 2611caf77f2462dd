//! `riddle models advise`: the installed models on the person's own files.

use std::{ops::ControlFlow, time::Duration};

use riddle_rag::{
    Assistant,
    rerank::NO_RERANKER,
    trial::{NotRead, Ranking, TELLING_SHARE, Trial, TrialRequest, Tried, try_models},
};
use serde_json::{Value, json};

use crate::{context::Context, failure::Failure, progress::Progress, show};

/// Tries them, and says which to use.
pub(super) fn run(questions: usize, seconds: u64, context: &Context) -> Result<(), Failure> {
    let assistant = Assistant::open(context.config.clone())?;
    let request = TrialRequest {
        questions,
        time: Duration::from_secs(seconds),
        memory: riddle_metrics::machine_memory(),
        ..TrialRequest::default()
    };
    let mut progress = Progress::new();
    let trial = try_models(&assistant, &request, &mut |_, done, of| {
        progress.requests(done as u64, of as u64);
        if context.stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    progress.clear();
    let Some(trial) = trial? else {
        return Err(Failure::run("stopped before every model was tried"));
    };
    if context.json {
        return context.out.json(&described(&trial));
    }
    context.out.line(format_args!(
        "{} made from your files, {} of them from headings, and taken out of their passages; embedders find these among {}",
        show::plural(trial.questions as u64, "question"),
        trial.from_headings,
        trial.passages
    ))?;
    print("rerankers, each ordering what a search finds", &trial.rerankers, &trial, context)?;
    print("embedders", &trial.embedders, &trial, context)?;
    for it in &trial.not_read {
        context.out.line("")?;
        not_read(it, context)?;
    }
    if !trial.not_read.is_empty() {
        context.out.line("")?;
    }
    context.out.line(
        "quality: mean reciprocal rank of the right passage, 95 % interval; equally good where intervals of the difference hold 0",
    )
}

fn print(title: &str, ranking: &Ranking, trial: &Trial, context: &Context) -> Result<(), Failure> {
    context.out.line("")?;
    context.out.line(format_args!("{title}:"))?;
    for (at, row) in ranking.models.iter().enumerate() {
        let mark = if ranking.advised == Some(at) { "→" } else { " " };
        let used = if row.in_use { ", in use" } else { "" };
        let name = show::clean(row.name.as_deref().unwrap_or("none: as it was found"));
        if let Some(trouble) = &row.trouble {
            context.out.line(format_args!("{mark} {name:<28} {}", show::clean(&trouble.what)))?;
            continue;
        }
        let speed = match row.passages_per_second {
            Some(speed) => format!(" · {speed:.0} passages/s"),
            None => String::new(),
        };
        let size =
            if row.bytes > 0 { format!(" · {}", show::bytes(row.bytes)) } else { String::new() };
        let large = if row.too_large { ", too large for this machine's memory" } else { "" };
        context.out.line(format_args!(
            "{mark} {name:<28} {:.3} ({:.3} to {:.3}) · {} a question{speed}{size}{large}{}{used}",
            row.quality.mean,
            row.quality.low,
            row.quality.high,
            show::ms(row.ms),
            unread(row, trial),
        ))?;
    }
    let Some(advised) = ranking.advised.and_then(|at| ranking.models.get(at)) else {
        return context.out.line("  none could be tried");
    };
    if advised.in_use {
        return context.out.line("  the one in use is the best choice");
    }
    let of = |row: Option<&Tried>| row.and_then(|it| it.name.clone()).unwrap_or(NO_RERANKER.into());
    let back = of(ranking.models.iter().find(|it| it.in_use));
    context.out.line(format_args!(
        "  riddle models use {}    (and back: riddle models use {})",
        show::clean(&of(Some(advised))),
        show::clean(&back)
    ))
}

/// Which of the library's languages a model does not read.
fn unread(row: &Tried, trial: &Trial) -> String {
    let share = row.unread_share(trial);
    match share >= TELLING_SHARE {
        true => format!(", does not read {:.0} % of your files", 100.0 * share),
        false => String::new(),
    }
}

/// What the model in use is not made for, and who is.
fn not_read(it: &NotRead, context: &Context) -> Result<(), Failure> {
    let share = |share: f32| format!("{:.0} %", 100.0 * share);
    let name = show::clean(&it.model);
    if !it.languages.is_empty() {
        let languages: Vec<String> = it
            .languages
            .iter()
            .map(|it| format!("{} ({} of your files)", show::clean(&it.0), share(it.1)))
            .collect();
        context.out.line(format_args!(
            "the {} in use, {name}, does not read {}",
            it.kind,
            languages.join(" and ")
        ))?;
        for other in &it.installed {
            context.out.line(format_args!("  installed and reads them: {}", show::clean(other)))?;
        }
        for other in &it.available {
            context.out.line(format_args!(
                "  reads them: riddle models pull {}    ({} MB, {})",
                other.name, other.megabytes, other.license
            ))?;
        }
        if it.installed.is_empty() && it.available.is_empty() {
            context.out.line("  no model is known that reads all of them")?;
        }
    }
    for (kind, part) in &it.kinds {
        context.out.line(format_args!(
            "the {} in use, {name}, promises nothing for files of the kind {} ({} of your passages)",
            it.kind,
            kind.as_str(),
            share(*part)
        ))?;
    }
    Ok(())
}

fn described(trial: &Trial) -> Value {
    let ranking = |ranking: &Ranking| {
        let rows = ranking.models.iter().enumerate().map(|(at, it)| {
            json!({
                "name": it.name, "in_use": it.in_use, "advised": ranking.advised == Some(at),
                "quality": it.quality.mean, "low": it.quality.low, "high": it.quality.high,
                "questions": it.questions, "ms": it.ms, "passages_per_second": it.passages_per_second,
                "bytes": it.bytes, "too_large": it.too_large, "languages": it.languages,
                "problem": it.trouble.as_ref().map(|it| &it.what),
            })
        });
        rows.collect::<Vec<Value>>()
    };
    json!({
        "questions": trial.questions,
        "from_headings": trial.from_headings,
        "passages": trial.passages,
        "languages": trial.languages,
        "rerankers": ranking(&trial.rerankers),
        "embedders": ranking(&trial.embedders),
        "not_read": trial.not_read.iter().map(described_unread).collect::<Vec<_>>(),
    })
}

fn described_unread(it: &NotRead) -> Value {
    let available = it
        .available
        .iter()
        .map(|it| json!({ "name": it.name, "megabytes": it.megabytes, "license": it.license }));
    let kinds = it.kinds.iter().map(|it| json!([it.0.as_str(), it.1]));
    json!({
        "kind": it.kind, "model": it.model, "languages": it.languages, "installed": it.installed,
        "available": available.collect::<Vec<_>>(), "kinds": kinds.collect::<Vec<_>>(),
    })
}
