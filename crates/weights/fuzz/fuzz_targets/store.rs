//! Any bytes as our own store: opening, reading by layer and by tensor, and verifying end in values or an
//! error, never in a panic, a read outside the file or memory that the file does not account for.

#![no_main]

use std::cell::OnceCell;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use riddle_weights::{Checkpoint, Format, LayerLayout, LayeredCheckpoint, PAGE, STORE_FILE};
use riddle_weights_fuzz::Folder;

/// Where the preamble keeps the header's place, its length and its checksum, and where it ends.
const PLACE: usize = 16;
const LENGTH: usize = 24;
const CHECKSUM: usize = 32;
const PREAMBLE: usize = 64;

thread_local! {
    static FOLDER: OnceCell<Folder> = const { OnceCell::new() };
}

fuzz_target!(|bytes: &[u8]| {
    FOLDER.with(|folder| {
        let folder = folder.get_or_init(Folder::new);
        folder.write(STORE_FILE, bytes);
        let Ok(checkpoint) = Checkpoint::open(folder.path()) else { return };
        let verified = checkpoint.verify().is_ok();
        let mut tensors = Vec::new();
        for listed in checkpoint.tensors() {
            let info = checkpoint
                .tensor(&listed.name, &listed.shape)
                .expect("a listed tensor is there in its own shape");
            assert!(info.bytes() <= bytes.len() as u64, "a tensor is part of the file");
            let mut whole = vec![0.0; info.elements()];
            if checkpoint.read_f32(info, &mut whole).is_ok() {
                assert!(whole.iter().all(|it| it.is_finite()));
            } else if let Some(row) = info.format().row_bytes(info.width()) {
                // Rows that can be read are told apart from those that can not.
                let mut row = vec![0; row];
                let _ = checkpoint.read_rows(info, 0, &mut row);
            }
            tensors.push(info.clone());
        }
        // As one layer, and one by one, as the layer window reads them.
        let alone = tensors.iter().map(|it| LayerLayout::new(vec![it.clone()]));
        let layers: Vec<LayerLayout> =
            std::iter::once(LayerLayout::new(tensors.clone())).chain(alone).collect();
        let layered = LayeredCheckpoint::new(checkpoint, layers);
        for (number, layout) in layered.layers().iter().enumerate() {
            let mut buffer = vec![0; layout.bytes().next_multiple_of(PAGE)];
            let read = layered.read_layer(number, &mut buffer);
            if verified && read.is_ok() {
                for tensor in 0..layout.len() {
                    let (format, raw) = layout.tensor(tensor, &buffer);
                    if let Format::Plain(dtype) = format {
                        assert!(dtype.all_finite(raw));
                    }
                }
            }
        }
    });
});

// Hardly any change keeps the checksum of the header, and everything behind it would go unseen. Every other
// time the preamble is set right: the header begins where the last page of data ends.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let size = fuzzer_mutate(data, size, max_size);
    let header = data[..size].windows(9).rposition(|it| it == b"{\"source\"");
    if seed % 2 == 0
        && size > PREAMBLE
        && let Some(start) = header.filter(|it| *it >= PREAMBLE)
    {
        let checksum = *blake3::hash(&data[start..size]).as_bytes();
        data[PLACE..LENGTH].copy_from_slice(&(start as u64).to_le_bytes());
        data[LENGTH..CHECKSUM].copy_from_slice(&((size - start) as u64).to_le_bytes());
        data[CHECKSUM..PREAMBLE].copy_from_slice(&checksum);
    }
    size
});
