//! Reads pictures and writes what they say as JSON, a line for each.
//!
//! `cargo run --example read_picture -- ONNX_RUNTIME MODELS PICTURE…`

#![expect(clippy::print_stdout, reason = "an example reports by printing")]

use std::{path::PathBuf, time::Instant};

use riddle_ocr::{Ocr, Picture};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1).map(PathBuf::from);
    let (Some(library), Some(models)) = (args.next(), args.next()) else {
        return Err("say where ONNX Runtime and the models are".into());
    };
    let mut ocr = Ocr::open(&library, &models, 2)?;
    for path in args {
        let started = Instant::now();
        let read = ocr.read(&Picture::decode(&std::fs::read(&path)?)?)?;
        let lines: Vec<&str> = read.lines.iter().map(|it| it.text.as_str()).collect();
        let line = serde_json::json!({
            "file": path.file_name().map(|it| it.to_string_lossy()), "lines": lines, "sure": read.sure(),
            "turned": read.turned, "unread": read.unread, "seconds": started.elapsed().as_secs_f64(),
            "places": read.lines.iter().map(|it| it.place).collect::<Vec<_>>(),
            "each": read.lines.iter().map(|it| it.sure).collect::<Vec<_>>(),
        });
        println!("{line}");
    }
    Ok(())
}
