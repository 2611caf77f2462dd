//! The header of a store: what lies where, and how.

use serde::{Deserialize, Serialize};

use crate::{Dtype, Format, tensor::Stored};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    /// What the store was made from; see `source_fingerprint`.
    pub(super) source: String,
    pub(super) segments: Vec<SegmentEntry>,
    pub(super) tensors: Vec<TensorEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SegmentEntry {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) blake3: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TensorEntry {
    pub(super) name: String,
    pub(super) dtype: StoreFormat,
    pub(super) shape: Vec<usize>,
    pub(super) offset: u64,
    /// Of packed matrices, whose length does not follow from their shape alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<u64>,
}

/// [`Format`] as the header spells it: plain formats as safetensors does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum StoreFormat {
    F32,
    F16,
    #[serde(rename = "BF16")]
    Bf16,
    #[serde(rename = "I8_ROWS")]
    Rows,
    #[serde(rename = "I8_PACKED")]
    Int8,
    #[serde(rename = "Q4_PACKED")]
    Q4,
}

impl StoreFormat {
    pub(super) fn of(format: Format) -> StoreFormat {
        match format {
            Format::Plain(Dtype::F32) => StoreFormat::F32,
            Format::Plain(Dtype::F16) => StoreFormat::F16,
            Format::Plain(Dtype::Bf16) => StoreFormat::Bf16,
            Format::Rows => StoreFormat::Rows,
            Format::Int8 => StoreFormat::Int8,
            Format::Q4 => StoreFormat::Q4,
        }
    }

    pub(super) fn format(self) -> Format {
        match self {
            StoreFormat::F32 => Format::Plain(Dtype::F32),
            StoreFormat::F16 => Format::Plain(Dtype::F16),
            StoreFormat::Bf16 => Format::Plain(Dtype::Bf16),
            StoreFormat::Rows => Format::Rows,
            StoreFormat::Int8 => Format::Int8,
            StoreFormat::Q4 => Format::Q4,
        }
    }
}

impl TensorEntry {
    /// Bytes that shape and format ask for; `None` when they make no sense.
    pub(super) fn length(&self) -> Option<u64> {
        let format = self.dtype.format();
        if let Some(least) = least_packed_bytes(format, &self.shape) {
            // So that nobody makes room for numbers that the file can not hold.
            return self.bytes.filter(|it| *it >= least);
        }
        // The length follows from the shape: another one would be a lie.
        if self.bytes.is_some() || (format == Format::Rows && self.shape.len() < 2) {
            return None;
        }
        let (rows, row) = match self.shape.split_first() {
            Some((rows, row)) if !row.is_empty() => (*rows, row),
            _ => (1, self.shape.as_slice()),
        };
        let width = row.iter().try_fold(1usize, |n, &size| n.checked_mul(size))?;
        Some(format.row_bytes(width)?.checked_mul(rows)? as u64)
    }

    pub(super) fn stored(&self) -> Stored {
        match (self.dtype.format(), self.bytes) {
            (format, Some(bytes)) => Stored::Packed(format, bytes),
            (format, None) => Stored::Rows(format),
        }
    }
}

/// Fewest bytes of a packed matrix of this shape: its codes alone. `None` for what is not packed.
fn least_packed_bytes(format: Format, shape: &[usize]) -> Option<u64> {
    if !format.is_packed() {
        return None;
    }
    let elements = match shape {
        [outputs, inputs] => (*outputs as u64).checked_mul(*inputs as u64),
        _ => None,
    };
    // What no machine holds is longer than any file.
    let elements = elements.unwrap_or(u64::MAX);
    Some(if format == Format::Q4 { elements.div_ceil(2) } else { elements })
}
