//! Number formats of weights.

use half::{
    f16,
    slice::{HalfBitsSliceExt as _, HalfFloatSliceExt as _},
};

/// Every format that is read lies in files as little-endian, and layers are computed where they were read.
#[cfg(target_endian = "big")]
compile_error!(
    "weights are little-endian and computed in place: big-endian processors are not supported"
);

/// A number format that layers are computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of a single: eight bits of exponent, seven of mantissa.
    Bf16,
}

/// Two-byte numbers widened at a time where a format needs aligned memory: 512 bytes of stack.
const STEP: usize = 256;

impl Dtype {
    /// Bytes of one number.
    pub fn bytes(self) -> usize {
        match self {
            Dtype::F32 => 4,
            Dtype::F16 | Dtype::Bf16 => 2,
        }
    }

    /// Its name in safetensors.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::F32 => "F32",
            Dtype::F16 => "F16",
            Dtype::Bf16 => "BF16",
        }
    }

    pub(crate) fn of(dtype: safetensors::Dtype) -> Option<Dtype> {
        match dtype {
            safetensors::Dtype::F32 => Some(Dtype::F32),
            safetensors::Dtype::F16 => Some(Dtype::F16),
            safetensors::Dtype::BF16 => Some(Dtype::Bf16),
            _ => None,
        }
    }

    /// Widens the numbers in `raw` to f32; exact for every format.
    ///
    /// # Panics
    /// When `raw` does not hold exactly `out.len()` numbers: the caller's bug.
    pub fn widen(self, raw: &[u8], out: &mut [f32]) {
        assert_eq!(raw.len(), out.len() * self.bytes(), "raw is not {} numbers", out.len());
        match self {
            Dtype::F32 => {
                for (value, raw) in out.iter_mut().zip(raw.as_chunks::<4>().0) {
                    *value = f32::from_le_bytes(*raw);
                }
            }
            Dtype::Bf16 => {
                for (value, raw) in out.iter_mut().zip(raw.as_chunks::<2>().0) {
                    *value = f32::from_bits(u32::from(u16::from_le_bytes(*raw)) << 16);
                }
            }
            Dtype::F16 => {
                let mut bits = [0u16; STEP];
                for (out, raw) in out.chunks_mut(STEP).zip(raw.chunks(2 * STEP)) {
                    let bits = &mut bits[..out.len()];
                    for (bits, raw) in bits.iter_mut().zip(raw.as_chunks::<2>().0) {
                        *bits = u16::from_le_bytes(*raw);
                    }
                    bits.reinterpret_cast::<f16>().convert_to_f32_slice(out);
                }
            }
        }
    }

    /// Narrows `values` to this format, rounding to nearest even; the result is little-endian.
    pub fn narrow(self, values: &[f32], out: &mut Vec<u8>) {
        for &value in values {
            match self {
                Dtype::F32 => out.extend_from_slice(&value.to_le_bytes()),
                Dtype::F16 => out.extend_from_slice(&f16::from_f32(value).to_le_bytes()),
                Dtype::Bf16 => out.extend_from_slice(&half::bf16::from_f32(value).to_le_bytes()),
            }
        }
    }

    /// Whether all numbers in `raw` are finite: an exponent of all ones is infinity or no number. The largest
    /// exponent is what the compiler finds with vector instructions.
    pub fn all_finite(self, raw: &[u8]) -> bool {
        fn largest(raw: &[u8], mask: u16) -> u16 {
            let exponents = raw.as_chunks::<2>().0.iter().map(|it| u16::from_le_bytes(*it) & mask);
            exponents.fold(0, u16::max)
        }
        match self {
            Dtype::F32 => {
                const MASK: u32 = 0x7f80_0000;
                let exponents =
                    raw.as_chunks::<4>().0.iter().map(|it| u32::from_le_bytes(*it) & MASK);
                exponents.fold(0, u32::max) < MASK
            }
            Dtype::F16 => largest(raw, 0x7c00) < 0x7c00,
            Dtype::Bf16 => largest(raw, 0x7f80) < 0x7f80,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::Bf16];

    proptest! {
        #[test]
        fn narrowing_and_widening_keeps_what_the_format_holds(values in prop::collection::vec(-1000f32..1000.0, 0..600)) {
            for dtype in ALL {
                let mut raw = Vec::new();
                dtype.narrow(&values, &mut raw);
                prop_assert_eq!(raw.len(), values.len() * dtype.bytes());
                let mut wide = vec![f32::NAN; values.len()];
                dtype.widen(&raw, &mut wide);
                // Relative to the value: half a unit in the last place of 7, 10 and 23 bits.
                let tolerance = match dtype {
                    Dtype::F32 => 0.0,
                    Dtype::F16 => 2f32.powi(-11),
                    Dtype::Bf16 => 2f32.powi(-8),
                };
                for (a, b) in values.iter().zip(&wide) {
                    prop_assert!((a - b).abs() <= a.abs() * tolerance + 1e-7, "{dtype:?} {a} {b}");
                }
                let mut again = Vec::new();
                dtype.narrow(&wide, &mut again);
                prop_assert_eq!(&again, &raw);
                prop_assert!(dtype.all_finite(&raw));
            }
        }
    }

    #[test]
    fn values_that_are_not_numbers_are_found_wherever_they_are() {
        for dtype in ALL {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                for place in [0, 15, 16, 36] {
                    let mut values = [-2.5; 37];
                    values[place] = bad;
                    let mut raw = Vec::new();
                    dtype.narrow(&values, &mut raw);
                    assert!(!dtype.all_finite(&raw), "{dtype:?}: {bad} at {place}");
                }
            }
        }
        assert!(Dtype::F32.all_finite(&f32::MAX.to_le_bytes()));
        assert!(Dtype::F32.all_finite(&[]));
    }
}
