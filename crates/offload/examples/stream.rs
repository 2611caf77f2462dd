//! How fast tensors are streamed, and how near that comes to FlexInfer's bound (formula 4): a token takes as
//! long as its computing or its reading, whichever is longer.
//!
//! ```text
//! cargo run --release -p riddle-offload --example stream -- FOLDER [LAYERS [MS_PER_LAYER [ROUNDS]]]
//! ```
//!
//! A file with layers of Llama 3.2 1B in Q8_0 is made in FOLDER (32 layers: 2 GB) and removed afterwards. Computing
//! is a loop on one thread that touches a layer's tensors and then spins until its time is over. Every figure is
//! the median of the second tokens of all rounds; the rounds of all rows alternate.
#![expect(clippy::print_stdout, reason = "an example's output is its point")]

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use riddle_offload::{
    Layer, Locking, Preservation, StreamOptions, TensorRole, TensorSpec, TensorStream, preserve,
};

const MIB: usize = 1 << 20;

type Failure = Box<dyn std::error::Error>;

/// A row of a table.
struct Row {
    name: String,
    options: StreamOptions,
    preservation: Preservation,
    compute: Duration,
    seconds: Vec<f64>,
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("which folder?")?);
    let mut number = |default| arguments.next().map_or(Ok(default), |it| it.parse::<u64>());
    let (count, ms, rounds) = (number(32)?, number(40)?, number(3)?);
    let layers = layers(count as usize);
    let path = folder.join("stream-example.tmp");
    let result = write(&path, &layers).and_then(|()| {
        let bandwidth = reading(&path, &layers, rounds)?;
        overlap(&path, &layers, Duration::from_millis(ms), (bandwidth, rounds))?;
        locking(&path, &layers, Duration::from_millis(ms), (bandwidth, rounds))
    });
    std::fs::remove_file(&path)?;
    result
}

fn layers(count: usize) -> Vec<Layer> {
    use TensorRole::{Down, Gate, Key, Output, Query, Small, Up, Value};
    let row = 2048 / 32 * 34;
    let shapes = [
        (Small, 8192),
        (Query, 2048 * row),
        (Key, 512 * row),
        (Value, 512 * row),
        (Output, 2048 * row),
        (Small, 8192),
        (Gate, 8192 * row),
        (Up, 8192 * row),
        (Down, 8192 * row),
    ];
    // As behind a header: at no page.
    let mut offset = 7_840_032;
    let mut tensor = |(role, bytes): (TensorRole, usize)| {
        let spec = TensorSpec { role, offset, bytes };
        offset += bytes as u64;
        spec
    };
    (0..count).map(|_| shapes.into_iter().map(&mut tensor).collect()).collect()
}

fn write(path: &Path, layers: &[Layer]) -> Result<(), Failure> {
    let end = layers.iter().flatten().map(|it| it.offset + it.bytes as u64).max().unwrap_or(0);
    // Numbers, not holes: those would be read from nowhere.
    let block: Vec<u8> =
        (0..4 * MIB).map(|it| (it.wrapping_mul(2_654_435_761) >> 7) as u8).collect();
    let mut file = std::fs::File::create(path)?;
    let mut left = end as usize;
    while left > 0 {
        let part = left.min(block.len());
        file.write_all(&block[..part])?;
        left -= part;
    }
    Ok(file.sync_all()?)
}

/// Threads and sizes of reads, with nothing to compute; returns the bandwidth of the default options.
fn reading(path: &Path, layers: &[Layer], rounds: u64) -> Result<f64, Failure> {
    let mut rows = Vec::new();
    let mut row = |name: String, options| {
        let preservation = preserve(layers, u64::MAX, 3, Locking::Nothing)?;
        let (compute, seconds) = (Duration::ZERO, Vec::new());
        rows.push(Row { name, options, preservation, compute, seconds });
        Ok::<_, Failure>(())
    };
    let defaults = StreamOptions::default();
    row("the defaults".to_owned(), defaults)?;
    for (direct_io, sizes) in [(true, &[1, 2, 4, 8][..]), (false, &[2])] {
        for &size in sizes {
            for io_threads in 1..=4 {
                let read_bytes = size * MIB;
                let cache = if direct_io { "direct" } else { "through the page cache" };
                row(
                    format!("{io_threads} threads, reads of {size} MiB, {cache}"),
                    StreamOptions { io_threads, read_bytes, direct_io, ..defaults },
                )?;
            }
        }
    }
    measure(path, layers, &mut rows, rounds)?;
    let bandwidth = |row: &Row| row.preservation.streamed_total() as f64 / median(&row.seconds);
    for row in &rows {
        println!("{:48} {:5.2} GB/s", row.name, bandwidth(row) / 1e9);
    }
    Ok(rows.iter().map(bandwidth).next().unwrap_or(0.0))
}

/// Windows and threads, with something to compute.
fn overlap(
    path: &Path,
    layers: &[Layer],
    compute: Duration,
    (bandwidth, rounds): (f64, u64),
) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for io_threads in 1..=4 {
        for window in 1..=4 {
            rows.push(Row {
                name: format!("{io_threads} threads, window {window}"),
                options: StreamOptions { window, io_threads, ..StreamOptions::default() },
                preservation: preserve(layers, u64::MAX, window, Locking::Nothing)?,
                compute,
                seconds: Vec::new(),
            });
        }
    }
    measure(path, layers, &mut rows, rounds)?;
    print(&rows, bandwidth);
    Ok(())
}

/// What stays in memory, with something to compute.
fn locking(
    path: &Path,
    layers: &[Layer],
    compute: Duration,
    (bandwidth, rounds): (f64, u64),
) -> Result<(), Failure> {
    let all: u64 = layers.iter().flatten().map(|it| it.bytes as u64).sum();
    let options = StreamOptions::default();
    let mut rows = Vec::new();
    for percent in [25, 50, 75] {
        for (name, locking, prefetch) in [
            ("balanced", Locking::Balanced, true),
            ("by layer", Locking::ByLayer, true),
            ("balanced, no prefetch", Locking::Balanced, false),
        ] {
            let preservation = preserve(layers, all * percent / 100, options.window, locking)?;
            let name = format!("{percent} % of the model, {name}");
            let options = StreamOptions { prefetch, ..options };
            rows.push(Row { name, options, preservation, compute, seconds: Vec::new() });
        }
    }
    measure(path, layers, &mut rows, rounds)?;
    print(&rows, bandwidth);
    Ok(())
}

fn print(rows: &[Row], bandwidth: f64) {
    let layers = |row: &Row| row.preservation.num_layers() as f64;
    for row in rows {
        let compute = row.compute.as_secs_f64() * layers(row);
        let io = row.preservation.streamed_total() as f64 / bandwidth;
        let (tokens, bound) = (1.0 / median(&row.seconds), 1.0 / compute.max(io));
        println!(
            "{:48} {tokens:5.2} tokens/s of {bound:5.2} (computing {compute:.2} s, reading {io:.2} s)",
            row.name
        );
    }
}

fn measure(path: &Path, layers: &[Layer], rows: &mut [Row], rounds: u64) -> Result<(), Failure> {
    for _ in 0..rounds {
        for Row { options, preservation, compute, seconds, .. } in &mut *rows {
            let mut stream =
                TensorStream::open(path, layers.to_vec(), preservation.clone(), *options)?;
            token(&mut stream, *compute)?;
            let started = Instant::now();
            token(&mut stream, *compute)?;
            seconds.push(started.elapsed().as_secs_f64());
        }
    }
    Ok(())
}

fn token(stream: &mut TensorStream, compute: Duration) -> Result<(), Failure> {
    for layer in 0..stream.num_layers() {
        let tensors = stream.layer(layer)?;
        let started = Instant::now();
        if compute > Duration::ZERO {
            let touched: u64 = (0..tensors.num_tensors())
                .flat_map(|it| tensors.tensor(it).iter().step_by(4096))
                .map(|&it| u64::from(it))
                .sum();
            std::hint::black_box(touched);
            while started.elapsed() < compute {
                std::hint::spin_loop();
            }
        }
    }
    Ok(())
}

fn median(seconds: &[f64]) -> f64 {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
