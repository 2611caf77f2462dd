//! Peaks of this processor's units and how near the routines come, one operation and a whole encoder at a time:
//! `cargo run --release -p riddle-kernels --example roofline -- [THREADS [f32|bf16|int8|blocks [FORMAT]]]`, for older
//! processors with `RIDDLE_FORCE_ISA=`.

#![expect(clippy::print_stdout, reason = "an example's output is its point")]

mod blocks;
mod peaks;

use std::time::Instant;

use riddle_kernels::{
    Attention, AttentionShape, Finish, HeadAttention, Int8Matrix, Mask, Matrix, PanelUse, Panels,
    Part, Pool, Precision, Products, Rounding, attention, attention_by_head, attention_scratch_len,
    int8_bytes, is_best_by_head, isa, pack_int8, products,
};

type Failure = Box<dyn std::error::Error>;

/// The least of many measurements, for so many seconds: everything else is the machine's other work.
const SECONDS: f64 = 0.25;

fn fastest(mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    let begun = Instant::now();
    while begun.elapsed().as_secs_f64() < SECONDS {
        let started = Instant::now();
        work();
        best = best.min(started.elapsed().as_secs_f64());
    }
    best
}

fn value(i: usize) -> f32 {
    (i * 31 % 997) as f32 / 997.0 - 0.5
}

fn values(n: usize) -> Vec<f32> {
    (0..n).map(value).collect()
}

/// A matrix in each format.
struct Weights {
    outputs: usize,
    inputs: usize,
    wide: Vec<f32>,
    brain: Vec<u16>,
    packed: Vec<f32>,
    bias: Vec<f32>,
}

impl Weights {
    fn new(outputs: usize, inputs: usize) -> Result<Weights, Failure> {
        let wide: Vec<f32> = (0..outputs * inputs).map(|i| value(i + i / 1000)).collect();
        let brain = wide.iter().map(|it| (it.to_bits() >> 16) as u16).collect();
        let mut packed = vec![0f32; int8_bytes(outputs, inputs)? / 4 + 16];
        let bytes = cut(&mut packed, int8_bytes(outputs, inputs)?);
        pack_int8(&wide, outputs, inputs, bytes)?;
        Ok(Weights { outputs, inputs, wide, brain, packed, bias: values(outputs) })
    }

    fn matrix(&self, format: Format) -> Matrix<'_> {
        match format {
            Format::F32 => Matrix::F32(&self.wide),
            Format::Bf16 => Matrix::Bf16(&self.brain),
            Format::Int8 => {
                let bytes = int8_bytes(self.outputs, self.inputs).unwrap_or(0);
                // SAFETY: f32 are bytes.
                let (_, all, _) = unsafe { self.packed.align_to::<u8>() };
                let start = all.as_ptr().align_offset(64);
                let matrix = Int8Matrix::new(&all[start..][..bytes], self.outputs, self.inputs);
                Matrix::Int8(matrix.expect("just packed"))
            }
        }
    }

    fn part(&self, format: Format, offset: usize) -> Part<'_> {
        Part { weight: self.matrix(format), bias: Some(&self.bias), outputs: self.outputs, offset }
    }
}

/// `bytes` bytes from a cache line on.
fn cut(memory: &mut [f32], bytes: usize) -> &mut [u8] {
    // SAFETY: f32 are bytes.
    let (_, all, _) = unsafe { memory.align_to_mut::<u8>() };
    let start = all.as_ptr().align_offset(64);
    &mut all[start..][..bytes]
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Format {
    F32,
    Bf16,
    Int8,
}

impl Format {
    fn precision(self) -> Precision {
        if self == Format::F32 { Precision::F32 } else { Precision::Bf16 }
    }
}

const FORMATS: [Format; 3] = [Format::F32, Format::Bf16, Format::Int8];

fn main() -> Result<(), Failure> {
    let threads = std::env::args().nth(1).map_or(Ok(2), |it| it.parse())?;
    let only = std::env::args().nth(2);
    let pool = Pool::new(threads)?;
    println!("{threads} threads, {}", isa()?);
    if only.as_deref() == Some("blocks") {
        return blocks::print(&pool, std::env::args().nth(3).as_deref());
    }
    for unit in peaks::units() {
        if unit.isa.runs_here() {
            println!("{:34} {:5.0} G/s a thread", unit.name, unit.peak() / 1e9);
        } else {
            println!("SKIPPED: {} is not on this processor", unit.name);
        }
    }
    let formats: Vec<Format> = FORMATS
        .into_iter()
        .filter(|it| only.as_ref().is_none_or(|only| format!("{it:?}").eq_ignore_ascii_case(only)))
        .collect();
    shapes(&pool, &formats)?;
    ragged(&pool);
    layers(&pool, &formats, (384, 12, 1536), 6)?;
    layers(&pool, &formats, (1024, 16, 4096), 1)?;
    if only.is_none() {
        blocks::print(&pool, None)?;
    }
    Ok(())
}

/// Products alone.
fn shapes(pool: &Pool, formats: &[Format]) -> Result<(), Failure> {
    for (rows, inputs, outputs) in [
        (1024, 384, 1152),
        (1024, 384, 384),
        (1024, 384, 1536),
        (1024, 1536, 384),
        (1024, 1024, 4096),
        (1024, 4096, 1024),
        (20, 384, 1536),
        (1, 1024, 4096),
    ] {
        let x = values(rows * inputs);
        let weights = Weights::new(outputs, inputs)?;
        let mut out = vec![0f32; rows * outputs];
        let mut panels = Panels::new(inputs, pool.threads(), PanelUse::Any);
        let flops = 2.0 * (rows * inputs * outputs) as f64;
        print!("{rows:5} × {inputs:5} × {outputs:5}");
        for &format in formats {
            for finish in [Finish::Store, Finish::Gelu] {
                let parts = &[weights.part(format, 0)];
                let precision = format.precision();
                let work = Products {
                    x: &x,
                    inputs,
                    parts,
                    precision,
                    rounding: Rounding::ByCount,
                    finish,
                };
                let seconds =
                    fastest(|| pool.run(|| products(work, &mut out, outputs, &mut panels)));
                let name = if matches!(finish, Finish::Gelu) { "+ gelu" } else { "" };
                print!("  {format:?} {name} {:5.0}", flops / seconds / 1e9);
            }
        }
        println!(" G/s");
    }
    Ok(())
}

/// Attention alone over texts of one length, as an encoder's.
fn ragged(pool: &Pool) {
    for (texts, length, heads, head_dim) in
        [(10, 120, 12, 32), (4, 256, 12, 32), (2, 512, 12, 32), (4, 256, 16, 64)]
    {
        let shape = AttentionShape { heads, kv_heads: heads, head_dim };
        let qkv = values(texts * length * shape.qkv_width());
        let mut out = vec![0.0; texts * length * shape.width()];
        let mut scratch = vec![0.0; attention_scratch_len(shape, length, pool.threads())];
        let cu_seqlens: Vec<usize> = (0..=texts).map(|it| it * length).collect();
        let flops = 4.0 * (texts * length * length * shape.width()) as f64;
        print!("attention of {texts} × {length}, {heads} heads of {head_dim}");
        for precision in [Precision::F32, Precision::Bf16] {
            let work =
                Attention { precision, ..Attention::fused(&qkv, &cu_seqlens, shape, Mask::Full) };
            let seconds = fastest(|| pool.run(|| attention(work, &mut out, &mut scratch)));
            print!("  {precision:?} {:.2} ms, {:.0} G/s", seconds * 1e3, flops / seconds / 1e9);
        }
        if is_best_by_head(shape, Precision::Bf16) {
            let mut data = vec![0.0; qkv.len() / 2];
            // Small numbers of any bits.
            data.iter_mut()
                .zip(&qkv)
                .for_each(|(lane, it)| *lane = f32::from_bits(it.to_bits() & 0xffff_0000 | 0x3d00));
            let work = HeadAttention { data: &data, cu_seqlens: &cu_seqlens, shape, bias: None };
            let seconds = fastest(|| pool.run(|| attention_by_head(work, &mut out, &mut scratch)));
            print!("  by head {:.2} ms, {:.0} G/s", seconds * 1e3, flops / seconds / 1e9);
        }
        println!();
    }
}

/// Texts and tokens of a micro-batch; the encoder's figures are for five of them, 20 texts.
const TEXTS: usize = 4;
const LENGTH: usize = 256;
const MICRO_BATCHES: usize = 5;

/// Operations of a layer.
const OPERATIONS: [&str; 5] =
    ["query, key, value", "attention", "attention output, norm", "up, gelu", "down, norm"];

/// The layers of an encoder over 20 texts, each operation's least time.
fn layers(
    pool: &Pool,
    formats: &[Format],
    (width, heads, wide): (usize, usize, usize),
    depth: usize,
) -> Result<(), Failure> {
    let tokens = TEXTS * LENGTH;
    let shape = AttentionShape { heads, kv_heads: heads, head_dim: width / heads };
    let mut layer = Layer {
        shape,
        square: Weights::new(width, width)?,
        up: Weights::new(wide, width)?,
        down: Weights::new(width, wide)?,
        gain: vec![1.0; width],
        hidden: values(tokens * width),
        qkv: vec![0.0; tokens * 3 * width],
        context: vec![0.0; tokens * width],
        broad: vec![0.0; tokens * wide],
        scratch: vec![0.0; attention_scratch_len(shape, LENGTH, pool.threads())],
        panels: Panels::new(wide, pool.threads(), PanelUse::Any),
    };
    for &format in formats {
        let mut least = [f64::INFINITY; OPERATIONS.len()];
        for _ in 0..40 {
            let mut last = Instant::now();
            pool.run(|| {
                layer.run(format, |operation| {
                    least[operation] = least[operation].min(last.elapsed().as_secs_f64());
                    last = Instant::now();
                });
            });
        }
        let milliseconds = |seconds: f64| seconds * (MICRO_BATCHES * depth) as f64 * 1e3;
        println!(
            "{depth} layers of {width}, {} × {LENGTH}, {format:?}: {:.1} ms",
            TEXTS * MICRO_BATCHES,
            milliseconds(least.iter().sum())
        );
        for (name, seconds) in OPERATIONS.iter().zip(least) {
            println!("    {name:24} {:6.1} ms", milliseconds(seconds));
        }
    }
    Ok(())
}

/// A BERT layer over a micro-batch. Its four square matrices are one, which is as much work.
struct Layer {
    shape: AttentionShape,
    square: Weights,
    up: Weights,
    down: Weights,
    gain: Vec<f32>,
    hidden: Vec<f32>,
    qkv: Vec<f32>,
    context: Vec<f32>,
    broad: Vec<f32>,
    scratch: Vec<f32>,
    panels: Panels,
}

impl Layer {
    /// Runs it; `lap` hears of the end of each operation.
    fn run(&mut self, format: Format, mut lap: impl FnMut(usize)) {
        let Layer { shape, square, up, down, gain, hidden, qkv, context, broad, scratch, panels } =
            self;
        let (width, wide) = (shape.width(), up.outputs);
        let cu_seqlens: [usize; TEXTS + 1] = std::array::from_fn(|it| it * LENGTH);
        let precision = format.precision();
        let norm = Finish::AddLayerNorm { gain, bias: gain, epsilon: 1e-12 };

        let parts = &[0, 1, 2].map(|i| square.part(format, i * width));
        let by_head = is_best_by_head(*shape, precision);
        let finish = if by_head { Finish::Heads { dim: shape.head_dim } } else { Finish::Store };
        let work = product((hidden, width), parts, precision, finish);
        products(work, qkv, 3 * width, panels);
        lap(0);
        if by_head {
            let work =
                HeadAttention { data: qkv, cu_seqlens: &cu_seqlens, shape: *shape, bias: None };
            attention_by_head(work, context, scratch);
        } else {
            let work =
                Attention { precision, ..Attention::fused(qkv, &cu_seqlens, *shape, Mask::Full) };
            attention(work, context, scratch);
        }
        lap(1);
        let parts = &[square.part(format, 0)];
        let work = product((context, width), parts, precision, norm);
        products(work, hidden, width, panels);
        lap(2);
        let parts = &[up.part(format, 0)];
        let work = product((hidden, width), parts, precision, Finish::Gelu);
        products(work, broad, wide, panels);
        lap(3);
        let parts = &[down.part(format, 0)];
        let work = product((broad, wide), parts, precision, norm);
        products(work, hidden, width, panels);
        lap(4);
    }
}

/// What a layer multiplies: rows `x` of so many inputs with `parts`.
fn product<'a>(
    (x, inputs): (&'a [f32], usize),
    parts: &'a [Part<'a>],
    precision: Precision,
    finish: Finish<'a>,
) -> Products<'a> {
    Products { x, inputs, parts, precision, rounding: Rounding::ByCount, finish }
}
