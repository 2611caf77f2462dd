//! Steps and prompts of language models: products with the formats of GGML, and attention over a KV cache.

use riddle_kernels::{
    AttentionShape, BlockFormat, BlockMatrix, CachedAttention, Finish, Matrix, PanelUse, Panels,
    Part, Pool, Precision, Products, Rounding, Rows, cached_attention,
    cached_attention_scratch_len, narrow_f16, products,
};

use crate::{Failure, fastest, values};

/// A matrix that no cache holds, as wide as a model of a billion parameters is.
const INPUTS: usize = 2048;
const OUTPUTS: usize = 48 << 10;

/// Bytes of some format.
enum Weights {
    Blocks(BlockFormat, Vec<u8>),
    Half(Vec<u16>),
    Brain(Vec<u16>),
    Wide(Vec<f32>),
}

impl Weights {
    fn name(&self) -> String {
        match self {
            Weights::Blocks(format, _) => format!("{format:?}"),
            Weights::Half(_) => "F16".to_owned(),
            Weights::Brain(_) => "Bf16".to_owned(),
            Weights::Wide(_) => "F32".to_owned(),
        }
    }

    /// The first rows.
    fn matrix(&self, outputs: usize) -> Matrix<'_> {
        match self {
            Weights::Blocks(format, bytes) => {
                let row = INPUTS / format.block_len() * format.block_bytes();
                let matrix = BlockMatrix::new(*format, &bytes[..row * outputs], outputs, INPUTS);
                Matrix::Blocks(matrix.expect("whole blocks"))
            }
            Weights::Half(bits) => Matrix::F16(&bits[..outputs * INPUTS]),
            Weights::Brain(bits) => Matrix::Bf16(&bits[..outputs * INPUTS]),
            Weights::Wide(values) => Matrix::F32(&values[..outputs * INPUTS]),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Weights::Blocks(_, bytes) => bytes.len(),
            Weights::Half(bits) | Weights::Brain(bits) => 2 * bits.len(),
            Weights::Wide(values) => 4 * values.len(),
        }
    }
}

fn all() -> Vec<Weights> {
    // Every byte is 0x24: halves of 0.016, so that nothing overflows.
    let blocks = |format: BlockFormat| {
        let bytes = OUTPUTS * INPUTS / format.block_len() * format.block_bytes();
        Weights::Blocks(format, vec![0x24; bytes])
    };
    let mut all: Vec<Weights> = BlockFormat::ALL.into_iter().map(blocks).collect();
    all.push(Weights::Half(vec![0x2424; OUTPUTS * INPUTS]));
    all.push(Weights::Brain(vec![0x3c24; OUTPUTS * INPUTS]));
    all.push(Weights::Wide(vec![0.01; OUTPUTS * INPUTS]));
    all
}

/// Bytes per second that all threads read together.
fn bandwidth(pool: &Pool) -> f64 {
    use std::sync::atomic::{AtomicU64, Ordering};

    use rayon::prelude::*;

    // A part at a time, see `step`.
    const PART: usize = 1 << 19;
    let memory = vec![1u64; 128 * PART];
    let total = AtomicU64::new(0);
    let mut number = 0;
    let seconds = fastest(|| {
        number += 1;
        let part = &memory[number % 128 * PART..][..PART];
        pool.run(|| {
            part.par_chunks(PART / pool.threads()).with_max_len(1).for_each(|part| {
                let mut lanes = [0u64; 32];
                for chunk in part.as_chunks::<32>().0 {
                    for (lane, value) in lanes.iter_mut().zip(chunk) {
                        *lane ^= value;
                    }
                }
                total.fetch_add(lanes.iter().fold(0, |a, b| a ^ b), Ordering::Relaxed);
            });
        });
    });
    (PART * 8) as f64 / seconds
}

/// Seconds that a step takes with all of the weights, after the part that goes best: other work on the machine takes
/// turns that are longer than a part.
fn step(pool: &Pool, weights: &Weights) -> f64 {
    const PARTS: usize = 32;
    let outputs = OUTPUTS / PARTS;
    let x = values(INPUTS);
    let mut out = vec![0f32; outputs];
    let mut panels = Panels::new(INPUTS, pool.threads(), PanelUse::Any);
    let mut number = 0;
    let seconds = fastest(|| {
        number += 1;
        let first = number % PARTS * outputs;
        let weight = weights.matrix(OUTPUTS).rows(first..first + outputs, INPUTS);
        let parts = &[Part { weight, bias: None, outputs, offset: 0 }];
        let (precision, finish) = (Precision::F32, Finish::Store);
        let work = Products {
            x: &x,
            inputs: INPUTS,
            parts,
            precision,
            rounding: Rounding::ByCount,
            finish,
        };
        pool.run(|| products(work, &mut out, outputs, &mut panels));
    });
    seconds * PARTS as f64
}

/// Prints all of it.
pub(crate) fn print(pool: &Pool, only: Option<&str>) -> Result<(), Failure> {
    println!("memory reads {:.1} GB/s", bandwidth(pool) / 1e9);
    for weights in all() {
        if only.is_some_and(|only| !weights.name().eq_ignore_ascii_case(only)) {
            continue;
        }
        let mut panels = Panels::new(INPUTS, pool.threads(), PanelUse::Any);
        let mut seconds = |rows: usize, outputs: usize, precision: Precision| {
            let x = values(rows * INPUTS);
            let mut out = vec![0f32; rows * outputs];
            let weight = weights.matrix(outputs);
            let parts = &[Part { weight, bias: None, outputs, offset: 0 }];
            let work = Products {
                x: &x,
                inputs: INPUTS,
                parts,
                precision,
                rounding: Rounding::ByCount,
                finish: Finish::Store,
            };
            fastest(|| pool.run(|| products(work, &mut out, outputs, &mut panels)))
        };
        let step = step(pool, &weights);
        print!(
            "{:5} step {:5.1} GB/s, {:5.1} G weights/s; G/s",
            weights.name(),
            weights.bytes() as f64 / step / 1e9,
            (OUTPUTS * INPUTS) as f64 / step / 1e9
        );
        for rows in [2, 4, 8, 12, 13, 16, 32, 512] {
            for precision in [Precision::F32, Precision::Bf16] {
                let outputs = 1024;
                let flops = 2.0 * (rows * INPUTS * outputs) as f64;
                let rate = flops / seconds(rows, outputs, precision) / 1e9;
                if precision == Precision::F32 {
                    print!("  {rows}: {rate:.0}")
                } else {
                    print!("/{rate:.0}")
                }
            }
        }
        println!();
    }
    attention(pool);
    Ok(())
}

fn attention(pool: &Pool) {
    for (shape, tokens, first) in [
        (AttentionShape { heads: 32, kv_heads: 8, head_dim: 64 }, 1, 1023),
        (AttentionShape { heads: 32, kv_heads: 8, head_dim: 64 }, 1, 32767),
        (AttentionShape { heads: 16, kv_heads: 8, head_dim: 128 }, 1, 32767),
        (AttentionShape { heads: 14, kv_heads: 2, head_dim: 64 }, 1, 32767),
        (AttentionShape { heads: 32, kv_heads: 8, head_dim: 64 }, 512, 0),
        (AttentionShape { heads: 32, kv_heads: 8, head_dim: 64 }, 512, 7680),
        (AttentionShape { heads: 16, kv_heads: 8, head_dim: 128 }, 512, 7680),
    ] {
        let positions = first + tokens;
        let mut keys = vec![0u16; positions * shape.kv_width()];
        narrow_f16(&values(keys.len()), &mut keys);
        let cached = keys.clone();
        let data = values(tokens * shape.width());
        let mut out = vec![0f32; data.len()];
        let threads = pool.threads();
        let mut scratch =
            vec![0f32; cached_attention_scratch_len(shape, tokens, positions, threads)];
        let seen = tokens * first + tokens * (tokens + 1) / 2;
        let flops = 4.0 * (seen * shape.width()) as f64;
        print!("{shape:?} {tokens} × {positions}");
        for precision in [Precision::F32, Precision::Bf16] {
            let work = CachedAttention {
                queries: Rows { data: &data, stride: shape.width(), offset: 0 },
                keys: &keys,
                values: &cached,
                first,
                shape,
                window: None,
                scale: 0.1,
                softcap: None,
                precision,
                rounding: Rounding::ByCount,
            };
            let seconds = fastest(|| pool.run(|| cached_attention(work, &mut out, &mut scratch)));
            print!(
                "  {precision:?} {:.3} ms, {:.0} G/s, {:.1} GB/s",
                seconds * 1e3,
                flops / seconds / 1e9,
                2.0 * (keys.len() + cached.len()) as f64 / seconds / 1e9
            );
        }
        println!();
    }
}
