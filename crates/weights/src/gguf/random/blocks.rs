//! Random numbers in every format, written as blocks: nothing is rounded, so nothing has to be quantized.
//!
//! The bits of a block are random, its scales are chosen so that the numbers have the wanted deviation and, over
//! many blocks, the mean zero. Where what lies in a block: `ggml-common.h` of ggml.

use half::{bf16, f16};

use super::super::GgmlFormat;

/// A small generator (xorshift64*, Vigna 2016), one for each tensor.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// A generator of its own for each name (FNV-1a): tensors do not depend on which were written before them.
    pub(super) fn new(seed: u64, name: &str) -> Random {
        let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in name.bytes() {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        // Zero is the one state that xorshift never leaves.
        Random(state.max(1))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number from 0 to 1, 1 excluded; exact in f32.
    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 24) as f32
    }

    /// One of `from`, the next, … `to`.
    fn between(&mut self, from: u8, to: u8) -> u8 {
        from + (self.next() >> 33) as u8 % (to - from + 1)
    }

    fn fill(&mut self, out: &mut [u8]) {
        for part in out.chunks_mut(8) {
            part.copy_from_slice(&self.next().to_le_bytes()[..part.len()]);
        }
    }

    /// A number of mean 0 and deviation 1, the sum of four bytes: near enough to a normal distribution for
    /// weights, and nothing but additions, which are the same on every machine.
    pub(super) fn normal(&mut self) -> f32 {
        // A byte's mean is 127.5 and its variance (256² − 1) / 12; four of them are added.
        const MEAN: f32 = 510.0;
        const DEVIATION: f32 = 147.8;
        let bytes = (self.next() >> 32) as u32;
        let sum: f32 = bytes.to_le_bytes().iter().map(|it| f32::from(*it)).sum();
        (sum - MEAN) / DEVIATION
    }

    /// The scale of a block: half to one and a half times `scale`.
    fn scale(&mut self, scale: f32) -> f32 {
        scale * (0.5 + self.unit())
    }

    fn signed_scale(&mut self, scale: f32) -> f32 {
        let scale = self.scale(scale);
        if self.next() >> 63 == 0 { scale } else { -scale }
    }
}

/// Deviation of integers that are equally often each of `count` neighbors.
fn spread(count: u16) -> f32 {
    ((f32::from(count) * f32::from(count) - 1.0) / 12.0).sqrt()
}

/// Fills whole blocks with numbers of mean 0 and the given deviation.
pub(super) fn fill(format: GgmlFormat, random: &mut Random, deviation: f32, out: &mut [u8]) {
    for block in out.chunks_exact_mut(format.block_bytes()) {
        fill_block(format, random, deviation, block);
    }
}

fn fill_block(format: GgmlFormat, random: &mut Random, deviation: f32, block: &mut [u8]) {
    match format {
        GgmlFormat::F32 => {
            block.copy_from_slice(&(random.normal() * deviation).to_le_bytes());
            return;
        }
        GgmlFormat::F16 => return put(block, random.normal() * deviation),
        GgmlFormat::Bf16 => {
            let value = bf16::from_f32(random.normal() * deviation);
            block.copy_from_slice(&value.to_le_bytes());
            return;
        }
        _ => random.fill(block),
    }
    match format {
        // Codes are one more below zero than above: scales of both signs balance it.
        GgmlFormat::Q4_0 => put(&mut block[..2], random.signed_scale(deviation / spread(16))),
        GgmlFormat::Q5_0 => put(&mut block[..2], random.signed_scale(deviation / spread(32))),
        GgmlFormat::Q8_0 => put(&mut block[..2], random.signed_scale(deviation / spread(256))),
        GgmlFormat::Q4_1 => {
            let scale = random.scale(deviation / spread(16));
            put(&mut block[..2], scale);
            put(&mut block[2..4], -7.5 * scale);
        }
        GgmlFormat::Q5_1 => {
            let scale = random.scale(deviation / spread(32));
            put(&mut block[..2], scale);
            put(&mut block[2..4], -15.5 * scale);
        }
        GgmlFormat::Q2K => {
            // Scales of 6 to 15, 10.5 on average, and the minimum that makes the mean zero, nearly.
            let scale = random.scale(deviation / (spread(4) * 10.5));
            for byte in &mut block[..16] {
                let part = random.between(6, 15);
                *byte = part | random.between(part - 1, (part + 1).min(15)) << 4;
            }
            put(&mut block[80..82], scale);
            put(&mut block[82..84], 1.5 * scale);
        }
        GgmlFormat::Q4K => sixes(random, deviation / spread(16), 7.5, block),
        GgmlFormat::Q5K => sixes(random, deviation / spread(32), 15.5, block),
        // The scales of the parts have both signs, by the random bits.
        GgmlFormat::Q3K => {
            put(&mut block[108..], random.scale(deviation / (spread(8) * spread(64))));
        }
        GgmlFormat::Q6K => {
            put(&mut block[208..], random.scale(deviation / (spread(64) * spread(256))));
        }
        GgmlFormat::F32 | GgmlFormat::F16 | GgmlFormat::Bf16 => {}
    }
}

/// Scales and minima of `Q4_K` and `Q5_K`: two of six bits for each of eight parts, packed into twelve bytes.
fn sixes(random: &mut Random, scale: f32, middle: f32, block: &mut [u8]) {
    // Parts' scales are 20 to 60, 40 on average.
    let scale = random.scale(scale / 40.0);
    put(&mut block[..2], scale);
    put(&mut block[2..4], middle * scale);
    let (mut scales, mut minima) = ([0u8; 8], [0u8; 8]);
    for (scale, minimum) in scales.iter_mut().zip(&mut minima) {
        *scale = random.between(20, 60);
        *minimum = random.between(*scale - 3, *scale + 3);
    }
    for part in 0..4 {
        block[4 + part] = scales[part] | (scales[part + 4] >> 4) << 6;
        block[8 + part] = minima[part] | (minima[part + 4] >> 4) << 6;
        block[12 + part] = scales[part + 4] & 15 | (minima[part + 4] & 15) << 4;
    }
}

fn put(out: &mut [u8], value: f32) {
    out.copy_from_slice(&f16::from_f32(value).to_le_bytes());
}
