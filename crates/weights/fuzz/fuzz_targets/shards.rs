//! Any bytes as a store of shards: opening, reading every part and verifying end in values or an error, never in a
//! panic, a read outside the file or memory that the file does not account for.

#![no_main]

use std::cell::OnceCell;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use riddle_weights::{ShardId, ShardStore};
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
        let path = folder.write("model.shards", bytes);
        let Ok(store) = ShardStore::open(&path, "seed", false) else { return };
        let shape = *store.shape();
        let verified = store.verify().is_ok();
        for layer in 0..shape.layers {
            let small = store.read_small(layer);
            assert!(small.is_err() || small.is_ok_and(|it| it.len() == shape.small_bytes()));
            for &fidelity in store.fidelities() {
                for slice in 0..shape.slices {
                    let id = ShardId { layer, slice, fidelity };
                    let range = store.range(id);
                    assert!(range.end <= bytes.len() as u64, "a shard is part of the file");
                    let read = store.read(id);
                    assert!(!verified || read.is_ok());
                    if let Ok(raw) = read {
                        assert_eq!(raw.len(), store.bytes(id));
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
