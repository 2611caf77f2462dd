//! A tensor of a file: its name, its shape, and where it lies.

use std::{fs::File, path::PathBuf, sync::Arc};

use safetensors::Dtype as FileDtype;

use crate::{Dtype, Format};

/// Name, shape and place of a tensor.
#[derive(Debug, Clone)]
pub struct TensorInfo {
    /// Full name in the checkpoint.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    pub(crate) stored: Stored,
    pub(crate) file: Arc<WeightFile>,
    pub(crate) offset: u64,
}

/// How a file holds a tensor; only what is supported leaves [`Checkpoint::tensor`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    /// In rows whose length is known.
    Rows(Format),
    /// Packed, in so many bytes.
    Packed(Format, u64),
    /// In a number format that nothing is computed from.
    Unsupported(FileDtype),
}

impl Stored {
    pub(crate) fn of(dtype: FileDtype) -> Stored {
        Dtype::of(dtype).map_or(Stored::Unsupported(dtype), |it| Stored::Rows(Format::Plain(it)))
    }
}

impl TensorInfo {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Numbers in a row: of a matrix, its last dimension.
    pub fn width(&self) -> usize {
        self.elements() / self.rows().max(1)
    }

    pub(crate) fn rows(&self) -> usize {
        // A vector is one row: nobody looks up its elements.
        if self.shape.len() > 1 { self.shape[0] } else { 1 }
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        match self.stored {
            Stored::Packed(_, bytes) => bytes,
            _ => (self.rows() * self.row_bytes()) as u64,
        }
    }

    pub(crate) fn row_bytes(&self) -> usize {
        // Headers are checked to describe what their file holds.
        self.format().row_bytes(self.width()).unwrap_or(0)
    }

    /// How its numbers lie.
    pub fn format(&self) -> Format {
        match self.stored {
            Stored::Rows(format) | Stored::Packed(format, _) => format,
            // Refused when the tensor is asked for.
            Stored::Unsupported(_) => Format::Plain(Dtype::F32),
        }
    }
}

#[derive(Debug)]
pub(crate) struct WeightFile {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    /// The same file, read past the page cache.
    pub(crate) direct: Option<File>,
}

#[cfg(unix)]
pub(crate) fn read_exact_at(file: &File, out: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

#[cfg(windows)]
pub(crate) fn read_exact_at(
    file: &File,
    mut out: &mut [u8],
    mut offset: u64,
) -> std::io::Result<()> {
    while !out.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, out, offset)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            n => {
                out = &mut out[n..];
                offset += n as u64;
            }
        }
    }
    Ok(())
}
