//! `riddle bench deadline`.

use std::ops::ControlFlow;

use riddle_bench::{DeadlineOptions, deadline_summary, deadline_table, measure_deadlines};

use crate::{
    args::BenchDeadlineArgs, commands::models::shards::labelled, context::Context,
    failure::Failure, progress::Progress,
};

/// Measures the grid, every cell of it.
pub(crate) fn run(args: &BenchDeadlineArgs, context: &Context) -> Result<(), Failure> {
    let mut requests = labelled(&args.requests)?;
    if let Some(limit) = args.limit_queries {
        let step = (requests.len() as f64 / limit as f64).max(1.0);
        let chosen = (0..limit).map(|it| (it as f64 * step) as usize);
        requests = chosen.filter_map(|it| requests.get(it).cloned()).collect();
    }
    if requests.is_empty() {
        return Err(Failure::run(format!("{}: no requests", args.requests.display())));
    }
    let options = DeadlineOptions {
        config: context.config.clone(),
        model: args.model.clone(),
        numbers: args.numbers,
        requests,
        rates: args.rates.iter().map(|it| (*it > 0.0).then_some(*it)).collect(),
        deadlines_ms: args.deadlines.clone(),
        buffers: args.buffers.clone(),
        candidates: args.candidates.clone(),
        threads: args.threads,
        random_orders: args.random_orders,
        systems: args.systems.clone(),
    };
    let mut progress = Progress::new();
    let mut done = 0;
    let cells = measure_deadlines(&options, &mut |_| {
        done += 1;
        progress.requests(done, 0);
        if context.stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    progress.clear();
    if context.json {
        return context.out.json(&serde_json::to_value(&cells)?);
    }
    context.out.text(format!("{}\n{}", deadline_table(&cells), deadline_summary(&cells)))
}
