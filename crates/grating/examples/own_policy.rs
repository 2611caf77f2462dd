//! A pruning policy of one's own, results as soon as they are certain, and what the same policy would have
//! done on a recorded run:
//! `cargo run --release -p riddle-grating --example own_policy -- MODEL_DIR "QUERY" FILE [MARGIN]`
//!
//! `FILE` holds one candidate per line; `MARGIN` is a distance of raw scores (logits).

#![expect(clippy::print_stdout, reason = "an example's output is its point")]

use std::{error::Error, ops::ControlFlow, path::Path};

use riddle_grating::{
    Engine, EngineOptions, LayerView, Mode, PruningPolicy, TraceRecorder, replay,
};
use riddle_types::{Decision, LayerEvent, LayerObserver};

/// Drops whoever is further than a margin below the last open place of the result, in the second half of
/// the model. That is all a policy is: a decision per candidate. The engine sees to it that the right number
/// comes back whatever is decided.
struct Margin(f32);

impl PruningPolicy for Margin {
    fn judge(&self, view: &LayerView<'_>) -> Vec<Decision> {
        let mut sorted = view.raw.to_vec();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let last = sorted.get(view.open_slots - 1).copied().unwrap_or(f32::NEG_INFINITY);
        let late = 2 * view.layer > view.num_layers;
        let hopeless = |score: f32| late && score < last - self.0;
        let decide = |&score| if hopeless(score) { Decision::Drop } else { Decision::Keep };
        view.raw.iter().map(decide).collect()
    }
}

/// Prints results at the layer where they are settled, while the others still compute.
struct Progress<'a>(&'a [&'a str]);

impl LayerObserver for Progress<'_> {
    fn on_layer(&mut self, event: &LayerEvent) -> ControlFlow<()> {
        for &index in &event.accepted {
            println!("layer {:2}: {}", event.layer, self.0[index]);
        }
        ControlFlow::Continue(())
    }
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, query, file, rest @ ..] = args.as_slice() else {
        return Err("usage: own_policy MODEL_DIR QUERY FILE [MARGIN]".into());
    };
    let margin = rest.first().map_or(Ok(3.0), |it| it.parse())?;
    let text = std::fs::read_to_string(file)?;
    let lines: Vec<&str> = text.lines().collect();
    let (model, top_k) = (Path::new(model), 10);

    // Within 200 MiB of memory for the whole process, or an error that says how much it takes.
    let options = EngineOptions { memory_budget: Some(200 << 20), ..EngineOptions::default() };
    let pruned = EngineOptions { mode: Mode::Order, ..options.clone() };
    let engine = Engine::with_policy(model, pruned, Box::new(Margin(margin)))?;
    let outcome = engine.run(query, &lines, top_k, &mut Progress(&lines))?;
    println!("{} layer forwards, plan {:?}\n", outcome.stats.candidate_layers, outcome.stats.plan);

    // One full run tells what any margin would do.
    let full = Engine::open(model, options)?;
    let mut recorder = TraceRecorder::default();
    full.run(query, &lines, top_k, &mut recorder)?;
    let trace = recorder.into_trace(full.num_layers(), None);
    for margin in [0.5, 1.0, 2.0, 4.0, 8.0] {
        let replayed = replay(&trace, &Margin(margin), Mode::Order, top_k)?;
        println!("margin {margin}: {} layer forwards", replayed.candidate_layers);
    }
    Ok(())
}
