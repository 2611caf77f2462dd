//! Any bytes as `model.safetensors`: opening and reading end in values or an error, never in a panic, a
//! read outside the file or memory that the file does not account for.

#![no_main]

use std::cell::OnceCell;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use riddle_weights::{Checkpoint, Error, Format, TensorInfo};
use riddle_weights_fuzz::Folder;

/// Bytes before the header: its length.
const LENGTH: usize = 8;

/// Elements read at a time. A tensor is never longer than the file, but its first dimension may be.
const PART: usize = 4096;

thread_local! {
    static FOLDER: OnceCell<Folder> = const { OnceCell::new() };
}

fuzz_target!(|bytes: &[u8]| {
    FOLDER.with(|folder| {
        let folder = folder.get_or_init(Folder::new);
        folder.write("model.safetensors", bytes);
        if let Ok(checkpoint) = Checkpoint::open(folder.path()) {
            for tensor in checkpoint.tensors() {
                read(&checkpoint, tensor, bytes.len());
            }
        }
    });
});

// Hardly any change keeps the header as long as its first eight bytes say, and everything behind them would
// go unseen. Every other time they are set right: a header ends where the last brace closes.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let size = fuzzer_mutate(data, size, max_size);
    if seed % 2 == 0
        && size > LENGTH
        && let Some(last) = data[LENGTH..size].iter().rposition(|it| *it == b'}')
    {
        data[..LENGTH].copy_from_slice(&(last as u64 + 1).to_le_bytes());
    }
    size
});

/// Reads a tensor whole and by rows: both give the same numbers.
fn read(checkpoint: &Checkpoint, listed: &TensorInfo, file_bytes: usize) {
    let info = match checkpoint.tensor(&listed.name, &listed.shape) {
        Ok(info) => info,
        Err(Error::WrongDtype { .. }) => return,
        Err(error) => panic!("a listed tensor is there in its own shape: {error}"),
    };
    assert!(info.bytes() <= file_bytes as u64, "a tensor is part of the file");
    let mut whole = vec![0.0; info.elements()];
    match checkpoint.read_f32(info, &mut whole) {
        Ok(bytes) => assert_eq!(bytes, info.bytes()),
        Err(Error::NotFinite { .. }) => return,
        Err(error) => panic!("the file holds what its header says: {error}"),
    }
    assert!(whole.iter().all(|it| it.is_finite()));
    let rows = info.shape.first().copied().unwrap_or(1);
    let width = info.elements() / rows.max(1);
    if width == 0 {
        return;
    }
    let step = (PART / width).max(1);
    let row_bytes = info.format().row_bytes(width).expect("safetensors have rows");
    let Format::Plain(dtype) = info.format() else { panic!("safetensors have plain numbers") };
    for first in (0..rows).step_by(step) {
        let mut raw = vec![0; step.min(rows - first) * row_bytes];
        checkpoint.read_rows(info, first, &mut raw).expect("rows of a readable tensor");
        let mut part = vec![0.0; raw.len() / dtype.bytes()];
        dtype.widen(&raw, &mut part);
        assert_eq!(part, whole[first * width..][..part.len()]);
    }
    let beyond = checkpoint.read_rows(info, rows, &mut vec![0; row_bytes]);
    assert!(matches!(beyond, Err(Error::RowOutOfRange { .. })));
}
