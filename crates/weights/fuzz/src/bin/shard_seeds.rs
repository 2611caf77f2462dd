//! Makes the seeds in corpus/shards, small stores of each kind of number: `cargo run --bin shard_seeds`.

use std::{fs, path::Path};

use riddle_weights::{Centroids, ShardNumbers, ShardShape, ShardWriter};

fn main() {
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/shards");
    fs::create_dir_all(&out).expect("a folder for the seeds");
    for (numbers, name) in [(ShardNumbers::Int8, "int8"), (ShardNumbers::F32, "f32")] {
        for slices in [1, 2] {
            let shape =
                ShardShape { numbers, layers: 1, slices, hidden: 16 * slices, inner: 16 * slices };
            let path = out.join(format!("{name}-{slices}"));
            let mut writer =
                ShardWriter::create(&path, shape, "seed", Centroids::Lloyd).expect("a file");
            let heads = (0..slices as u16).collect();
            writer.small(&vec![0; shape.small_bytes()], heads).expect("written");
            for fidelity in shape.fidelities() {
                for slice in 0..slices {
                    let mut raw = vec![slice as u8; shape.weight_bytes(fidelity)];
                    if fidelity.is_dictionary() && slice == 0 {
                        raw.extend(vec![0; shape.numbers.outlier_bytes()]);
                    }
                    writer.shard(&raw).expect("written");
                }
            }
            writer.finish().expect("complete");
        }
    }
}
