//! `riddle bench replay`: other thresholds on a recorded run.

use std::{fs::File, io::Read as _, path::Path};

use riddle_rag::rerank::{Mode, Replay, Trace, replay_trace};
use serde_json::{Value, json};

use crate::{args::BenchReplayArgs, context::Context, failure::Failure, show};

/// Largest trace that is read: a thousand candidates in a hundred layers take 3 MB.
const MAX_TRACE_BYTES: u64 = 64 << 20;

/// Thresholds from pruning at the slightest sign to hardly ever.
const THRESHOLDS: [f32; 9] = [0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0];

/// Replays every threshold and shows what it would have saved and lost.
pub(crate) fn run(args: &BenchReplayArgs, context: &Context) -> Result<(), Failure> {
    let trace = read(&args.trace)?;
    let bad =
        |error| Failure::run(format!("{}: {error}", show::path(&args.trace.to_string_lossy())));
    let full = replay_trace(&trace, None, Mode::Off, args.top_k).map_err(bad)?;
    let thresholds =
        if args.threshold.is_empty() { THRESHOLDS.to_vec() } else { args.threshold.clone() };
    let mut rows = Vec::new();
    for threshold in thresholds {
        let pruned = replay_trace(&trace, Some(threshold), args.mode, args.top_k).map_err(bad)?;
        rows.push((threshold, pruned));
    }
    if context.json {
        let rows: Vec<Value> = rows.iter().map(|it| row_json(it.0, &it.1, &full)).collect();
        return context.out.json(&json!({
            "mode": args.mode, "top_k": args.top_k, "num_layers": trace.num_layers, "replays": rows,
        }));
    }
    let mut page = "threshold  computed  layers  kept of the full run's results\n".to_owned();
    for (threshold, pruned) in &rows {
        page.push_str(&format!(
            "{threshold:9.2}  {:7.1}%  {:6}  {} of {}\n",
            100.0 * computed(pruned, &full),
            pruned.layers_run,
            kept(pruned, &full),
            full.ranked.len()
        ));
    }
    context.out.text(page)
}

fn row_json(threshold: f32, pruned: &Replay, full: &Replay) -> Value {
    let results: Vec<Value> = pruned
        .ranked
        .iter()
        .map(|it| json!({ "index": it.index, "decided_at_layer": it.decided_at_layer }))
        .collect();
    json!({
        "threshold": threshold,
        "candidate_layers_share": computed(pruned, full),
        "layers_run": pruned.layers_run,
        "kept": kept(pruned, full),
        "results": results,
    })
}

/// Share of the full run's candidate × layer forwards.
fn computed(pruned: &Replay, full: &Replay) -> f64 {
    if full.candidate_layers == 0 {
        return 0.0;
    }
    pruned.candidate_layers as f64 / full.candidate_layers as f64
}

/// Results of the full run that come back.
fn kept(pruned: &Replay, full: &Replay) -> usize {
    let back = |index| pruned.ranked.iter().any(|it| it.index == index);
    full.ranked.iter().filter(|it| back(it.index)).count()
}

fn read(path: &Path) -> Result<Trace, Failure> {
    let name = show::path(&path.to_string_lossy());
    let fail = |error: std::io::Error| {
        let why = show::io_reason(&error);
        Failure::run(format!("{name}: {why}: give a file that `riddle rerank --trace` has written"))
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(fail)?;
    file.take(MAX_TRACE_BYTES + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > MAX_TRACE_BYTES {
        return Err(Failure::run(format!("{name}: larger than {} MiB", MAX_TRACE_BYTES >> 20)));
    }
    serde_json::from_slice(&bytes).map_err(|error| {
        Failure::run(format!("{name}: not a trace that `riddle rerank --trace` writes: {error}"))
    })
}
