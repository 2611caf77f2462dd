//! Makes the seeds in corpus/store: the stores of the seeds in corpus/safetensors, `cargo run --bin store_seeds`.

use std::{fs, path::Path};

use riddle_weights::{
    Checkpoint, Dtype, Format, LayerLayout, Pack, STORE_FILE, StorePrecision, write_store,
};

/// Bytes of the right number: what they mean is nobody's question here.
struct Zeros;

impl Pack for Zeros {
    fn packed_bytes(&self, _format: Format, outputs: usize, inputs: usize) -> Option<usize> {
        Some(outputs * inputs)
    }

    fn pack(&self, _format: Format, _values: &[f32], _outputs: usize, _inputs: usize, _out: &mut [u8]) {}
}

fn main() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let out = corpus.join("store");
    fs::create_dir_all(&out).expect("a folder for the seeds");
    for entry in fs::read_dir(corpus.join("safetensors")).expect("seeds of safetensors").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let dir = tempfile::tempdir().expect("a temporary folder");
        fs::copy(entry.path(), dir.path().join("model.safetensors")).expect("copied");
        let Ok(checkpoint) = Checkpoint::open_safetensors(dir.path()) else { continue };
        // Every tensor beside the layer begins a page: many of them make a large file and say nothing more.
        if checkpoint.tensors().count() > 8 {
            continue;
        }
        let listed = checkpoint.tensors().filter_map(|it| checkpoint.tensor(&it.name, &it.shape).ok());
        // A few tensors are a layer, the others stand alone.
        let layer = LayerLayout::new(listed.take(3).cloned().collect());
        for (precision, suffix) in [
            (None, "as-is"),
            (Some(StorePrecision::Plain(Dtype::Bf16)), "bf16"),
            (Some(StorePrecision::Int8), "int8"),
            (Some(StorePrecision::Q4), "q4"),
        ] {
            let layers = std::slice::from_ref(&layer);
            let wrote = write_store(&checkpoint, layers, precision, &Zeros, dir.path(), &mut |_| ());
            if wrote.is_ok() {
                let store = dir.path().join(STORE_FILE);
                fs::copy(store, out.join(format!("{name}-{suffix}"))).expect("copied");
            }
        }
    }
}
