//! Writes a GGUF model of random weights: `cargo run -p riddle-weights --example random_gguf -- tiny-llama q8_0 FILE`.

use std::{error::Error, path::Path};

use riddle_weights::gguf::write_random;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, format, file] = &arguments[..] else {
        return Err("give a model, a format and a file".into());
    };
    Ok(write_random(model.parse()?, format.parse()?, Path::new(file))?)
}
