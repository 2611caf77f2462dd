//! How a tensor's numbers lie in a file and in memory, and the precisions that a store can be made in.

use std::ops::Range;

use crate::Dtype;

/// What follows a quantized row's scale: one signed byte per number.
const SCALE_BYTES: usize = 4;

/// Largest code of a quantized row. The range is symmetric, so that zero is zero.
const LARGEST_CODE: f32 = 127.0;

/// How the numbers of a tensor lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// One number after the other, row after row.
    Plain(Dtype),
    /// Row after row, each an f32 scale and one signed byte per number: for tables whose rows are looked up.
    Rows,
    /// A matrix of one byte per number, packed for the products: opaque here, see [`Pack`].
    Int8,
    /// A matrix of half a byte per number, packed for the products: opaque here, see [`Pack`].
    Q4,
}

impl Format {
    /// Bytes of a row of `width` numbers; `None` where a tensor has no rows of its own.
    pub fn row_bytes(self, width: usize) -> Option<usize> {
        match self {
            Format::Plain(dtype) => width.checked_mul(dtype.bytes()),
            Format::Rows => width.checked_add(SCALE_BYTES),
            Format::Int8 | Format::Q4 => None,
        }
    }

    /// Whether a matrix is packed for the products and can not be read as numbers.
    pub fn is_packed(self) -> bool {
        matches!(self, Format::Int8 | Format::Q4)
    }

    /// Its name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Format::Plain(dtype) => dtype.name(),
            Format::Rows => "rows of I8",
            Format::Int8 => "packed I8",
            Format::Q4 => "packed Q4",
        }
    }

    /// Widens a row to f32.
    ///
    /// # Panics
    /// When `raw` is not a row of `out.len()` numbers in this format: the caller's bug.
    pub fn widen_row(self, raw: &[u8], out: &mut [f32]) {
        assert_eq!(Some(raw.len()), self.row_bytes(out.len()), "not a row of {}", out.len());
        match self {
            Format::Plain(dtype) => dtype.widen(raw, out),
            _ => {
                let (scale, codes) = raw.split_at(SCALE_BYTES);
                let scale = scale_of(scale);
                for (value, &code) in out.iter_mut().zip(codes) {
                    *value = f32::from(code as i8) * scale;
                }
            }
        }
    }

    /// Appends a row of numbers in this format: rounded to nearest even, or to the nearest of 255 codes
    /// that reach to the row's largest number.
    ///
    /// # Panics
    /// When the format has no rows: the caller's bug.
    pub fn narrow_row(self, values: &[f32], out: &mut Vec<u8>) {
        match self {
            Format::Plain(dtype) => dtype.narrow(values, out),
            Format::Rows => {
                let largest = values.iter().fold(0.0f32, |most, it| most.max(it.abs()));
                let scale = largest / LARGEST_CODE;
                out.extend_from_slice(&scale.to_le_bytes());
                let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
                // `as` saturates, and a row of the smallest numbers has an infinite inverse.
                let code = |it: &f32| (it * inverse).round_ties_even().clamp(-127.0, 127.0) as i8;
                out.extend(values.iter().map(|it| code(it) as u8));
            }
            Format::Int8 | Format::Q4 => {
                unreachable!("packed matrices have no rows: this is a bug")
            }
        }
    }

    /// Whether all numbers of rows of `width` are finite. Any byte is a code, so of quantized rows the
    /// scales are looked at, times the largest code; packed matrices are vouched for by their checksum alone.
    pub fn all_finite(self, raw: &[u8], width: usize) -> bool {
        match self {
            Format::Plain(dtype) => dtype.all_finite(raw),
            Format::Rows => raw
                .chunks_exact(width + SCALE_BYTES)
                .all(|row| (scale_of(&row[..SCALE_BYTES]) * 128.0).is_finite()),
            Format::Int8 | Format::Q4 => true,
        }
    }
}

fn scale_of(raw: &[u8]) -> f32 {
    raw.first_chunk().map_or(f32::NAN, |it| f32::from_le_bytes(*it))
}

/// What a store's matrices are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StorePrecision {
    /// Every matrix in this number format.
    Plain(Dtype),
    /// Products of bytes: a scale per output; tables with a scale per row; what else is small in f16.
    Int8,
    /// Products of half bytes: a scale for some inputs each; tables as for [`Int8`](Self::Int8).
    Q4,
}

impl StorePrecision {
    /// As it is written on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            StorePrecision::Plain(Dtype::F32) => "f32",
            StorePrecision::Plain(Dtype::F16) => "f16",
            StorePrecision::Plain(Dtype::Bf16) => "bf16",
            StorePrecision::Int8 => "int8",
            StorePrecision::Q4 => "q4",
        }
    }

    /// All of them.
    pub const ALL: [StorePrecision; 5] = [
        StorePrecision::Plain(Dtype::F32),
        StorePrecision::Plain(Dtype::F16),
        StorePrecision::Plain(Dtype::Bf16),
        StorePrecision::Int8,
        StorePrecision::Q4,
    ];

    /// How a layer's matrix is stored.
    pub(crate) fn of_layer(self) -> Format {
        match self {
            StorePrecision::Plain(dtype) => Format::Plain(dtype),
            StorePrecision::Int8 => Format::Int8,
            StorePrecision::Q4 => Format::Q4,
        }
    }

    /// How a matrix outside the layers is stored. Tables (taller than wide) are most of a small model;
    /// the others belong to heads: a thousandth of the file whose rounding would go straight into the score.
    pub(crate) fn of_other(self, shape: &[usize]) -> Format {
        match self {
            StorePrecision::Plain(dtype) => Format::Plain(dtype),
            StorePrecision::Int8 | StorePrecision::Q4 if shape[0] > shape[1..].iter().product() => {
                Format::Rows
            }
            StorePrecision::Int8 | StorePrecision::Q4 => Format::Plain(Dtype::F16),
        }
    }
}

impl std::str::FromStr for StorePrecision {
    type Err = String;

    fn from_str(name: &str) -> Result<StorePrecision, String> {
        let found = StorePrecision::ALL.into_iter().find(|it| it.as_str() == name);
        found.ok_or_else(|| {
            format!("{name:?} is not a number format: use f32, f16, bf16, int8 or q4")
        })
    }
}

/// Packs matrices for the products. The layout is the products' own affair; here it is a run of bytes.
pub trait Pack {
    /// Bytes of a packed matrix of this shape; `None` where the format can not hold it.
    fn packed_bytes(&self, format: Format, outputs: usize, inputs: usize) -> Option<usize>;

    /// Packs `values` `[outputs, inputs]` into `out`, which is as long as
    /// [`packed_bytes`](Self::packed_bytes) says.
    fn pack(&self, format: Format, values: &[f32], outputs: usize, inputs: usize, out: &mut [u8]);
}

/// Runs of whole rows of about `step` elements, as ranges of elements.
pub(crate) fn parts(
    elements: usize,
    width: usize,
    step: usize,
) -> impl Iterator<Item = Range<usize>> {
    let step = (step / width.max(1)).max(1) * width.max(1);
    (0..elements).step_by(step).map(move |start| start..(start + step).min(elements))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_quantized_row_is_off_by_half_a_code_at_most(
            values in prop::collection::vec(-1000f32..1000.0, 1..200), exponent in -38i32..30,
        ) {
            let values: Vec<f32> = values.iter().map(|it| it * 2f32.powi(exponent)).collect();
            let mut raw = Vec::new();
            Format::Rows.narrow_row(&values, &mut raw);
            prop_assert_eq!(Some(raw.len()), Format::Rows.row_bytes(values.len()));
            prop_assert!(Format::Rows.all_finite(&raw, values.len()));
            let mut wide = vec![f32::NAN; values.len()];
            Format::Rows.widen_row(&raw, &mut wide);
            let largest = values.iter().fold(0.0f32, |most, it| most.max(it.abs()));
            for (a, b) in values.iter().zip(&wide) {
                prop_assert!((a - b).abs() <= largest / 253.0 + f32::MIN_POSITIVE, "{a} {b}");
            }
            // What has been rounded once stays as it is.
            let mut again = Vec::new();
            Format::Rows.narrow_row(&wide, &mut again);
            prop_assert_eq!(&again[SCALE_BYTES..], &raw[SCALE_BYTES..]);
        }
    }

    #[test]
    fn rows_of_zeros_and_of_what_is_no_number_are_told() {
        let mut raw = Vec::new();
        Format::Rows.narrow_row(&[0.0; 3], &mut raw);
        let mut wide = [f32::NAN; 3];
        Format::Rows.widen_row(&raw, &mut wide);
        assert_eq!(wide, [0.0; 3]);
        let mut raw = Vec::new();
        Format::Rows.narrow_row(&[1.0, f32::INFINITY], &mut raw);
        assert!(!Format::Rows.all_finite(&raw, 2));
    }

    #[test]
    fn names_and_precisions_belong_together() {
        for precision in StorePrecision::ALL {
            assert_eq!(precision.as_str().parse(), Ok(precision));
        }
        assert!("int4".parse::<StorePrecision>().is_err());
        assert_eq!(StorePrecision::Int8.of_other(&[30522, 384]), Format::Rows);
        assert_eq!(StorePrecision::Int8.of_other(&[384, 384]), Format::Plain(Dtype::F16));
        assert_eq!(StorePrecision::Q4.of_layer(), Format::Q4);
    }
}
