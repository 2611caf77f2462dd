//! Pulls a model: `cargo run -p riddle-models --example pull -- NAME STORE`.
//!
//! Sources, token and proxy come from the environment, as `riddle models pull` takes them.

use std::{error::Error, io::Write as _, ops::ControlFlow, path::Path, time::Instant};

use riddle_models::{ModelStore, Progress, PullOptions, Stage};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(name), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: pull NAME STORE".into());
    };
    let store = ModelStore::open(Path::new(&folder))?;
    let start = Instant::now();
    let mut shown = None;
    let mut out = std::io::stderr();
    let model = store.pull(&name, &PullOptions::default(), &mut |it: Progress<'_>| {
        let percent = (it.done * 100).checked_div(it.total).unwrap_or(0);
        let line = (it.stage, it.source.to_owned(), percent / 10);
        if it.stage != Stage::Waiting && shown.as_ref() != Some(&line) {
            // Nobody can be told that telling did not work.
            let _ = writeln!(out, "{:?} {} {} {percent} %", it.stage, it.source, it.file);
            shown = Some(line);
        }
        ControlFlow::Continue(())
    })?;
    writeln!(
        std::io::stdout(),
        "{} ({}, {}, {} bytes, license {}) from {} in {:.1} s: {}",
        model.name,
        model.kind,
        model.format,
        model.bytes,
        model.license.as_deref().unwrap_or("not stated"),
        model.source,
        start.elapsed().as_secs_f64(),
        model.dir.display()
    )?;
    Ok(())
}
