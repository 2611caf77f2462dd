//! `riddle models shard` and `riddle models profile`.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    ops::ControlFlow,
    path::Path,
};

use riddle_rag::rerank::{Cutting, LabelledRequest, ShardNumbers};
use serde::Deserialize;
use serde_json::json;

use crate::{
    commands::rerank::parse_request, context::Context, failure::Failure, progress::Progress, show,
};

/// Cuts a reranker into shards.
pub(super) fn shard(name: &str, cutting: Cutting, context: &Context) -> Result<(), Failure> {
    let made = riddle_rag::rerank::shard_model(&context.config, name, cutting, &mut |_| ())?;
    if context.json {
        return context
            .out
            .json(&json!({ "file": made.file, "bytes": made.bytes, "shards": made.shards }));
    }
    context.out.line(format_args!(
        "{}: {} in {}",
        show::path(&made.file.to_string_lossy()),
        show::plural(made.shards as u64, "shard"),
        show::bytes(made.bytes)
    ))
}

/// Measures, and learns where there are requests.
pub(super) fn profile(
    name: &str,
    numbers: ShardNumbers,
    requests: Option<&Path>,
    context: &Context,
) -> Result<(), Failure> {
    let questions = match requests {
        Some(path) => labelled(path)?,
        None => Vec::new(),
    };
    let mut progress = Progress::new();
    let made = riddle_rag::rerank::elastic_profile(
        &context.config,
        name,
        numbers,
        &questions,
        &mut |done| {
            progress.requests((done * 1000.0) as u64, 1000);
            if context.stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        },
    );
    progress.clear();
    let made = made?;
    if context.json {
        return context.out.json(&serde_json::to_value(&made)?);
    }
    let machine = &made.machine;
    context.out.line(format_args!(
        "reading: {:.2} ms a read, {:.0} MB/s · {} of {name}",
        machine.read.latency,
        1000.0 / machine.read.mebibyte.max(1e-6) * 1.048_576,
        show::plural(machine.threads as u64, "thread"),
    ))?;
    let quality = &made.learned.quality;
    let whole = quality.submodels.last().and_then(|it| it.last()).copied().unwrap_or_default();
    context.out.line(format_args!(
        "learned from {}: whole {whole:.3}, as found {:.3}",
        show::plural(made.learned.questions as u64, "request"),
        quality.input
    ))
}

/// What a request of [`profile`] says beyond one of `riddle rerank`.
#[derive(Deserialize)]
struct Labels {
    documents: Vec<serde_json::Value>,
}

/// Requests whose relevant documents say so.
pub(crate) fn labelled(path: &Path) -> Result<Vec<LabelledRequest>, Failure> {
    let failed = |why: String| Failure::run(format!("{}: {why}", path.display()));
    let file = File::open(path).map_err(|error| failed(show::io_reason(&error)))?;
    let mut questions = Vec::new();
    for line in BufReader::new(file).lines() {
        let line = line.map_err(|error| failed(show::io_reason(&error)))?;
        if line.trim().is_empty() {
            continue;
        }
        let request = parse_request(line.as_bytes()).map_err(failed)?;
        let labels: Labels =
            serde_json::from_str(&line).map_err(|error| failed(error.to_string()))?;
        let of = |it: &serde_json::Value| it["relevant"].as_f64().unwrap_or(0.0) as f32;
        let relevant = labels.documents.iter().map(of).collect();
        questions.push(LabelledRequest { request, relevant });
    }
    Ok(questions)
}
