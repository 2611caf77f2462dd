//! A vector index of many vectors: building, opening, searching, removing, memory and disk.
//!
//! `vectors FILE.f32 DIMENSIONS COUNT FOLDER [--noise SHARE] [--queries N]`: `FILE.f32` holds real vectors as
//! little-endian numbers, one after the other. `COUNT` vectors are made of them by adding noise of `SHARE` (0.6) of
//! their length. Questions are made in the same way with other noise. Prints a line of JSON for each thing measured.

#![expect(clippy::print_stdout, reason = "an example's output is its point")]

use std::{path::Path, sync::Arc, time::Instant};

use riddle_retrieval::{VectorReader, VectorSource, VectorWriter};
use riddle_types::{ChunkId, Query, StageError};

/// Vectors that are made anew whenever they are asked for: a million of them take 1.5 GB.
struct Made {
    real: Vec<f32>,
    dimensions: usize,
    noise: f32,
}

impl Made {
    fn open(file: &str, dimensions: usize, noise: f32) -> std::io::Result<Made> {
        let bytes = std::fs::read(file)?;
        let number = |it: &[u8]| f32::from_le_bytes([it[0], it[1], it[2], it[3]]);
        let real = bytes.chunks_exact(4).map(number).collect();
        Ok(Made { real, dimensions, noise })
    }

    /// The vector of that number, of length 1.
    fn vector(&self, number: u64) -> Vec<f32> {
        let rows = self.real.len() / self.dimensions;
        let row = &self.real[number as usize % rows * self.dimensions..][..self.dimensions];
        let mut state = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Evenly spread with a variance of 1.
            ((state >> 40) as f32 / (1 << 24) as f32 - 0.5) * 12f32.sqrt()
        };
        let step = self.noise / (self.dimensions as f32).sqrt();
        // The first rows are the real vectors themselves.
        let step = if (number as usize) < rows { 0.0 } else { step };
        let mut vector: Vec<f32> = row.iter().map(|it| it + step * random()).collect();
        let length = vector.iter().map(|it| it * it).sum::<f32>().sqrt().max(1e-9);
        vector.iter_mut().for_each(|it| *it /= length);
        vector
    }
}

impl VectorSource for Made {
    fn vectors(&self, chunks: &[ChunkId]) -> Result<Vec<(ChunkId, Vec<f32>)>, StageError> {
        Ok(chunks.iter().map(|it| (*it, self.vector(it.0 - 1))).collect())
    }
}

/// The 10 nearest of each question among the vectors whose number passes, by looking at all.
fn exact(
    made: &Made,
    count: u64,
    queries: &[Vec<f32>],
    passes: impl Fn(u64) -> bool,
) -> Vec<Vec<u64>> {
    let mut best: Vec<Vec<(f32, u64)>> = vec![Vec::new(); queries.len()];
    for number in (0..count).filter(|it| passes(*it)) {
        let vector = made.vector(number);
        for (query, best) in queries.iter().zip(&mut best) {
            let score: f32 = query.iter().zip(&vector).map(|(a, b)| a * b).sum();
            if best.len() == 10 && score <= best[9].0 {
                continue;
            }
            best.push((score, number + 1));
            best.sort_by(|a, b| b.0.total_cmp(&a.0));
            best.truncate(10);
        }
    }
    best.into_iter().map(|it| it.into_iter().map(|it| it.1).collect()).collect()
}

/// Resident set of this process and its peak, in MB.
fn memory() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |name: &str| {
        let line = status.lines().find(|it| it.starts_with(name));
        line.and_then(|it| it.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) / 1000
    };
    (of("VmRSS"), of("VmHWM"))
}

/// Recall of the 10 nearest, and times in milliseconds.
fn ask(reader: &VectorReader, queries: &[Vec<f32>], expected: &[Vec<u64>]) -> String {
    let (mut found, mut times) = (0, Vec::new());
    for (vector, expected) in queries.iter().zip(expected) {
        let query = Query { vector: Some(vector.clone()), ..Query::default() };
        let start = Instant::now();
        let hits = reader.search(&query, 50).expect("search");
        times.push(start.elapsed().as_secs_f64() * 1e3);
        found += hits.iter().take(10).filter(|it| expected.contains(&it.chunk.0)).count();
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let recall = found as f64 / (10 * queries.len()) as f64;
    let (resident, peak) = memory();
    format!(
        r#""recall_at_10": {recall:.4}, "p50_ms": {:.2}, "p95_ms": {:.2}, "resident_mb": {resident}, "peak_mb": {peak}"#,
        at(0.5),
        at(0.95)
    )
}

fn disk(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|it| Some(it.metadata().ok()?.len())).sum::<u64>() / 1_000_000
}

/// Writes the vectors.
fn build(folder: &Path, made: &Made, count: u64) {
    let start = Instant::now();
    let mut writer = VectorWriter::open(folder, "e", made.dimensions).expect("open");
    for number in 0..count {
        writer.insert(ChunkId(number + 1), &made.vector(number)).expect("insert");
    }
    let inserted = start.elapsed().as_secs_f64();
    writer.commit(1).expect("commit");
    drop(writer);
    println!(
        r#"{{"what": "build", "vectors": {count}, "insert_s": {inserted:.1}, "all_s": {:.1}, "disk_mb": {}, "peak_mb": {}}}"#,
        start.elapsed().as_secs_f64(),
        disk(folder),
        memory().1
    );
}

/// Removes every second vector.
fn remove_half(folder: &Path, dimensions: usize, count: u64) {
    let start = Instant::now();
    let mut writer = VectorWriter::open(folder, "e", dimensions).expect("open");
    let opened = start.elapsed().as_secs_f64();
    for number in (1..count).step_by(2) {
        writer.remove(ChunkId(number + 1));
    }
    writer.commit(2).expect("commit");
    drop(writer);
    println!(
        r#"{{"what": "remove half", "open_s": {opened:.2}, "all_s": {:.1}, "disk_mb": {}, "peak_mb": {}}}"#,
        start.elapsed().as_secs_f64(),
        disk(folder),
        memory().1
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|it| it == name)?;
        arguments.get(at + 1)?.parse::<f32>().ok()
    };
    let [file, dimensions, count, folder, ..] = arguments.as_slice() else {
        println!("vectors FILE.f32 DIMENSIONS COUNT FOLDER [--noise SHARE] [--queries N]");
        return;
    };
    let dimensions = dimensions.parse().expect("a number of dimensions");
    let count: u64 = count.parse().expect("a number of vectors");
    let made = Made::open(file, dimensions, option("--noise").unwrap_or(0.6)).expect("readable");
    let folder = Path::new(folder);
    let open = |made: Made| {
        let start = Instant::now();
        let reader = VectorReader::open(folder, "e", Arc::new(made)).expect("open");
        (reader, start.elapsed().as_secs_f64() * 1e3)
    };

    build(folder, &made, count);
    let asked = option("--queries").unwrap_or(200.0) as u64;
    let queries: Vec<Vec<f32>> = (0..asked).map(|it| made.vector(count + it * 331)).collect();
    let all = exact(&made, count, &queries, |_| true);
    let half = exact(&made, count, &queries, |it| it % 2 == 0);

    let (reader, ms) = open(made);
    println!(r#"{{"what": "open", "ms": {ms:.1}, "resident_mb": {}}}"#, memory().0);
    println!(r#"{{"what": "first", {}}}"#, ask(&reader, &queries, &all));
    println!(r#"{{"what": "again", {}}}"#, ask(&reader, &queries, &all));
    drop(reader);

    remove_half(folder, dimensions, count);
    let made = Made::open(file, dimensions, option("--noise").unwrap_or(0.6)).expect("readable");
    let (reader, ms) = open(made);
    println!(r#"{{"what": "open", "ms": {ms:.1}}}"#);
    println!(r#"{{"what": "half", {}}}"#, ask(&reader, &queries, &half));
}
