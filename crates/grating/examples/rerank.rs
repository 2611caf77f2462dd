//! Reranks the lines of a file against a query and shows the run layer by layer:
//! `cargo run --release -p riddle-grating --example rerank -- MODEL_DIR "QUERY" FILE [THRESHOLD]`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example's output is its point")]

use std::{error::Error, ops::ControlFlow, path::Path};

use riddle_grating::{Engine, EngineOptions, Mode, Pruning};
use riddle_types::{LayerEvent, LayerObserver};

struct Print;

impl LayerObserver for Print {
    fn on_layer(&mut self, event: &LayerEvent) -> ControlFlow<()> {
        eprintln!(
            "layer {:2}: {:3} candidates, {:6.1} ms, dispersion {:?}, accepted {:?}, dropped {:?}",
            event.layer,
            event.active.len(),
            event.ms,
            event.dispersion,
            event.accepted,
            event.dropped
        );
        ControlFlow::Continue(())
    }
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, query, file, rest @ ..] = args.as_slice() else {
        return Err("usage: rerank MODEL_DIR QUERY FILE [THRESHOLD]".into());
    };
    let mut options = EngineOptions::default();
    if let Some(threshold) = rest.first() {
        options.mode = Mode::Set;
        options.pruning = Pruning::Clusters { threshold: threshold.parse()? };
    }
    let text = std::fs::read_to_string(file)?;
    let lines: Vec<&str> = text.lines().collect();
    let outcome = Engine::open(Path::new(model), options)?.run(query, &lines, 10, &mut Print)?;
    for ranked in &outcome.ranked {
        println!("{:.4}  {}", ranked.score, lines[ranked.index]);
    }
    eprintln!("{:#?}", outcome.stats);
    Ok(())
}
