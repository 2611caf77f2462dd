//! Reads files as indexing does and writes what they say as JSON, a line for each: for comparing engines.
//!
//! `cargo run --example read -- LIBRARY_OF_PDFIUM FILE…`; `-` for no library.

#![expect(clippy::print_stdout, reason = "an example reports by printing")]

use std::{path::PathBuf, process::ExitCode, time::Instant};

use riddle_ingest::{Limits, ParseOutcome, ParserPool, Tools, WorkerCommand, kind_of, worker_main};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(library) = args.next() else { return ExitCode::FAILURE };
    if library == "parse-worker" {
        return worker_main();
    }
    let program = std::env::current_exe().unwrap_or_default();
    let command = WorkerCommand { program, args: vec!["parse-worker".into()], secrets: Vec::new() };
    let mut pool = ParserPool::new(command, Limits::default());
    pool.equip(Tools {
        pdfium: Some(library).filter(|it| it != "-").map(PathBuf::from),
        ..Tools::default()
    });
    for path in args.map(PathBuf::from) {
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let started = Instant::now();
        let reading = pool.read(&path, kind_of(&path, &bytes[..bytes.len().min(4096)]), &bytes);
        let seconds = started.elapsed().as_secs_f64();
        let (state, text, warnings) = match reading.outcome {
            ParseOutcome::Parsed(document) => {
                let texts = document.blocks.iter().flat_map(|it| [&*it.header, &*it.text]);
                let text: Vec<&str> = texts.filter(|it| !it.is_empty()).collect();
                ("parsed", text.join("\n"), document.warnings)
            }
            ParseOutcome::NoText(why) => ("no text", String::new(), vec![why]),
            ParseOutcome::Unsupported(why) => ("unsupported", String::new(), vec![why]),
            ParseOutcome::Failed(why) => ("failed", String::new(), vec![why]),
        };
        let line = serde_json::json!({
            "file": path.file_name().map(|it| it.to_string_lossy()), "state": state, "text": text,
            "warnings": warnings, "pictures": reading.pictures, "seconds": seconds,
            "peak": pool.peak_child_rss_bytes(),
        });
        println!("{line}");
    }
    ExitCode::SUCCESS
}
