//! Random numbers that are the same on every machine, and the number formats of weights.

use serde::{Deserialize, Serialize};

/// A small generator (xorshift64*, Vigna 2016): two numbers of a weight file per step.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// A generator of its own for each name: tensors do not depend on which were written before them.
    pub(crate) fn new(seed: u64, name: &str) -> Random {
        // FNV-1a; the seed is spread first, so that neighboring ones do not give neighboring states.
        let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in name.bytes() {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        // Zero is the one state that xorshift never leaves.
        Random(state.max(1))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        // The high half of a product is uniform enough for words and texts.
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }

    /// A number from 0 to 1, 1 excluded.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Two numbers of mean 0 and deviation 1, each the sum of four bytes: near enough to a normal
    /// distribution for weights, and nothing but additions.
    pub(crate) fn normal_pair(&mut self) -> [f32; 2] {
        // A byte's mean is 127.5 and its variance (256² − 1) / 12; four of them are added.
        const MEAN: f32 = 510.0;
        const DEVIATION: f32 = 147.8;
        let bytes = self.next().to_le_bytes();
        let sum = |part: &[u8]| part.iter().map(|&it| f32::from(it)).sum::<f32>();
        [(sum(&bytes[..4]) - MEAN) / DEVIATION, (sum(&bytes[4..]) - MEAN) / DEVIATION]
    }
}

/// How weights are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NumberFormat {
    /// Four bytes.
    F32,
    /// Two bytes, five of the bits exponent.
    F16,
    /// Two bytes, the upper half of an f32.
    Bf16,
}

impl NumberFormat {
    /// All of them.
    pub const ALL: [NumberFormat; 3] = [NumberFormat::F32, NumberFormat::F16, NumberFormat::Bf16];

    /// As it is written on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            NumberFormat::F32 => "f32",
            NumberFormat::F16 => "f16",
            NumberFormat::Bf16 => "bf16",
        }
    }

    /// As `config.json` calls it.
    pub(crate) fn torch_name(self) -> &'static str {
        match self {
            NumberFormat::F32 => "float32",
            NumberFormat::F16 => "float16",
            NumberFormat::Bf16 => "bfloat16",
        }
    }

    /// As a safetensors header calls it.
    pub(crate) fn safetensors_name(self) -> &'static str {
        match self {
            NumberFormat::F32 => "F32",
            NumberFormat::F16 => "F16",
            NumberFormat::Bf16 => "BF16",
        }
    }

    /// Bytes of a number.
    pub(crate) fn bytes(self) -> usize {
        if self == NumberFormat::F32 { 4 } else { 2 }
    }

    /// Appends a number of moderate size.
    pub(crate) fn push(self, value: f32, out: &mut Vec<u8>) {
        match self {
            NumberFormat::F32 => out.extend(value.to_le_bytes()),
            NumberFormat::F16 => out.extend(f16_bits(value).to_le_bytes()),
            NumberFormat::Bf16 => out.extend(bf16_bits(value).to_le_bytes()),
        }
    }
}

/// The nearest bf16.
fn bf16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    // Halfway cases go to the even neighbor.
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

/// The nearest f16 of a number below 65 504; what is too small for a full mantissa is zero, which no weight
/// will miss.
fn f16_bits(value: f32) -> u16 {
    // f32 has 23 bits of mantissa and f16 has 10; their exponents are biased by 127 and 15.
    const SMALLEST: u32 = (127 - 14) << 23;
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let size = bits & 0x7fff_ffff;
    if size < SMALLEST {
        return sign;
    }
    let rounded = size + 0x0fff + ((size >> 13) & 1);
    sign | ((rounded - ((127 - 15) << 23)) >> 13) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_spread_as_weights_are() {
        let mut random = Random::new(1, "layer");
        let values: Vec<f32> = (0..50_000).flat_map(|_| random.normal_pair()).collect();
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let variance =
            values.iter().map(|it| (it - mean).powi(2)).sum::<f32>() / values.len() as f32;
        // A hundred thousand numbers: the mean is off by a hundredth once in a thousand times.
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }

    #[test]
    fn names_and_seeds_give_other_numbers_and_repeat() {
        let first = |seed, name| Random::new(seed, name).next();
        assert_eq!(first(1, "a"), first(1, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
        assert_ne!(first(1, "a"), first(2, "a"));
        assert!((0..1000).all(|seed| Random::new(seed, "x").below(7) < 7));
    }

    #[test]
    fn half_formats_round_to_the_nearest() {
        let cases = [
            (0.0, 0x0000, 0x0000),
            (1.0, 0x3c00, 0x3f80),
            (-2.0, 0xc000, 0xc000),
            (0.02, 0x251f, 0x3ca4),
            (1.000_488_3, 0x3c00, 0x3f80),
            (1.001_464_9, 0x3c02, 0x3f80),
            (1e-6, 0x0000, 0x3586),
        ];
        for (value, f16, bf16) in cases {
            assert_eq!((f16_bits(value), bf16_bits(value)), (f16, bf16), "{value}");
        }
    }
}
