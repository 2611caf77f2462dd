//! Latency against precision of cluster pruning (§4.1, the calibration that Figure 10 plots): records
//! the full forward of every request once, then replays each threshold on the traces.
//! `cargo run --release -p riddle-grating --example sweep -- MODEL_DIR REQUESTS.jsonl [TOP_K]`
//!
//! A line of `REQUESTS.jsonl` is `{"query": "…", "documents": ["…", …]}`.

#![expect(clippy::print_stdout, reason = "an example's output is its point")]

use std::{error::Error, path::Path};

use riddle_grating::{
    ClusterPruning, Engine, EngineOptions, Mode, NeverPrune, PruningPolicy, Replay, Trace,
    TraceRecorder, replay,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Request {
    query: String,
    documents: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, requests, rest @ ..] = args.as_slice() else {
        return Err("usage: sweep MODEL_DIR REQUESTS.jsonl [TOP_K]".into());
    };
    let top_k = rest.first().map_or(Ok(10), |it| it.parse())?;
    let engine = Engine::open(Path::new(model), EngineOptions::default())?;
    let mut traces = Vec::new();
    for line in std::fs::read_to_string(requests)?.lines() {
        let request: Request = serde_json::from_str(line)?;
        let documents: Vec<&str> = request.documents.iter().map(String::as_str).collect();
        let mut recorder = TraceRecorder::default();
        engine.run(&request.query, &documents, top_k, &mut recorder)?;
        traces.push(recorder.into_trace(engine.num_layers(), None));
    }
    let full = replay_all(&traces, &NeverPrune, Mode::Off, top_k)?;
    let everything = forwards(&full);
    println!("{} requests, top {top_k}; share of candidate × layer forwards, and", traces.len());
    println!("share of the full forward's winners that come back\n");
    println!("mode   threshold  computed  precision  same first");
    for mode in [Mode::Set, Mode::Order] {
        for threshold in [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0] {
            let pruned = replay_all(&traces, &ClusterPruning::new(threshold), mode, top_k)?;
            println!(
                "{:6} {threshold:9.1}  {:7.1}%  {:8.1}%  {:9.1}%",
                format!("{mode:?}"),
                100.0 * forwards(&pruned) / everything,
                100.0 * precision(&pruned, &full),
                100.0 * same_first(&pruned, &full),
            );
        }
    }
    Ok(())
}

fn replay_all(
    traces: &[Trace],
    policy: &dyn PruningPolicy,
    mode: Mode,
    top_k: usize,
) -> riddle_grating::Result<Vec<Replay>> {
    traces.iter().map(|it| replay(it, policy, mode, top_k)).collect()
}

fn forwards(replays: &[Replay]) -> f64 {
    replays.iter().map(|it| it.candidate_layers as f64).sum()
}

/// Share of the full forward's winners among the pruned run's.
fn precision(pruned: &[Replay], full: &[Replay]) -> f64 {
    let (mut same, mut all) = (0, 0);
    for (pruned, full) in pruned.iter().zip(full) {
        let winners: Vec<usize> = full.ranked.iter().map(|it| it.index).collect();
        same += pruned.ranked.iter().filter(|it| winners.contains(&it.index)).count();
        all += winners.len();
    }
    same as f64 / all as f64
}

/// Share of requests whose first result is the full forward's.
fn same_first(pruned: &[Replay], full: &[Replay]) -> f64 {
    let first = |it: &Replay| it.ranked.first().map(|it| it.index);
    let same = pruned.iter().zip(full).filter(|(a, b)| first(a) == first(b)).count();
    same as f64 / full.len() as f64
}
