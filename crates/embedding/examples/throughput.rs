//! Times an embedder on texts, one per line of stdin, and writes its vectors for comparison:
//! `cargo run --release -p riddle-embedding --example throughput -- MODEL_DIR [THREADS [VECTORS_FILE]] < TEXTS`

#![expect(clippy::print_stdout, reason = "an example's output is its point")]

use std::{error::Error, io::Read as _, path::Path, time::Instant};

use riddle_embedding::{EncoderOptions, open};
use riddle_types::EmbedRole;

/// Runs; the median counts.
const RUNS: usize = 3;

/// Texts that are embedded at once, as the indexer does.
const BATCH: usize = 64;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut args = std::env::args().skip(1);
    let model =
        args.next().ok_or("usage: throughput MODEL_DIR [THREADS [VECTORS_FILE]] < TEXTS")?;
    let defaults = EncoderOptions::default();
    let threads = args.next().map_or(Ok(defaults.threads), |it| it.parse())?;
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input)?;
    let texts: Vec<&str> = input.lines().collect();
    let embedder = open(Path::new(&model), EncoderOptions { threads, ..defaults })?;
    let tokens: usize = texts.iter().map(|it| embedder.token_counter().count(it)).sum();
    // Weights are read and threads are started by the first text.
    embedder.embed(&texts[..texts.len().min(BATCH)], EmbedRole::Passage)?;
    let mut seconds = Vec::new();
    let mut vectors = Vec::new();
    for _ in 0..RUNS {
        vectors.clear();
        let started = Instant::now();
        for texts in texts.chunks(BATCH) {
            vectors.extend(embedder.embed(texts, EmbedRole::Passage)?);
        }
        seconds.push(started.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let median = seconds[RUNS / 2];
    println!(
        "{} texts, {tokens} tokens, {threads} threads: {median:.3} s, {:.1} texts/s, {:.0} tokens/s",
        texts.len(),
        texts.len() as f64 / median,
        tokens as f64 / median,
    );
    if let Some(file) = args.next() {
        std::fs::write(file, serde_json::to_vec(&vectors)?)?;
    }
    Ok(())
}
