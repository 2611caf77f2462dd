//! A shape as a model directory on disk.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    NumberFormat, Random, Shape,
    architecture::{DEVIATION, Fill, Tensor, config, tensors, tokenizer, tokenizer_config},
};
use crate::{Error, Result};

/// Written last: a directory that has it is complete.
const MARK: &str = "shape.json";

/// Changes when the same name would mean other bytes.
const VERSION: u32 = 1;

/// All shapes are of this seed, so that figures of two machines are of the same weights.
const SEED: u64 = 1;

/// Bytes that are made before they are written: large enough for the disk, small enough for any memory.
const PART_BYTES: usize = 1 << 20;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Mark {
    shape: String,
    format: NumberFormat,
    weights: String,
    seed: u64,
    version: u32,
}

/// The directory of `shape` in `root`, which is written if it is not there yet: gigabytes, part by part.
///
/// # Errors
/// When it can not be written, or another directory has its name.
pub fn prepare(shape: Shape, format: NumberFormat, root: &Path) -> Result<PathBuf> {
    let mark = Mark {
        shape: shape.as_str().to_owned(),
        format,
        weights: "random".to_owned(),
        seed: SEED,
        version: VERSION,
    };
    let dir = root.join(format!("{}-{}", shape.as_str(), format.as_str()));
    if dir.exists() {
        let known = fs::read(dir.join(MARK)).ok().and_then(|it| serde_json::from_slice(&it).ok());
        return if known == Some(mark) { Ok(dir) } else { Err(Error::NotOurs { dir }) };
    }
    // What an earlier run left half done is this program's own, by its name.
    let partial = root.join(format!("{}-{}.partial", shape.as_str(), format.as_str()));
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |source| Error::Io { path, source }
    };
    if partial.exists() {
        fs::remove_dir_all(&partial).map_err(io(&partial))?;
    }
    fs::create_dir_all(&partial).map_err(io(&partial))?;
    write_json(&partial, "config.json", &config(shape, format))?;
    write_json(&partial, "tokenizer.json", &tokenizer(shape))?;
    write_json(&partial, "tokenizer_config.json", &tokenizer_config(shape))?;
    let weights = partial.join("model.safetensors");
    write_weights(&weights, &tensors(shape), format).map_err(io(&weights))?;
    write_json(&partial, MARK, &json!(mark))?;
    fs::rename(&partial, &dir).map_err(io(&dir))?;
    Ok(dir)
}

/// The shape that the model in `dir` was made of; `None`: a real model.
pub(crate) fn shape_of(dir: &Path) -> Option<Shape> {
    let mark: Mark = serde_json::from_slice(&fs::read(dir.join(MARK)).ok()?).ok()?;
    mark.shape.parse().ok()
}

fn write_json(dir: &Path, name: &str, value: &Value) -> Result<()> {
    let path = dir.join(name);
    let text = serde_json::to_vec(value)?;
    fs::write(&path, text).map_err(|source| Error::Io { path, source })
}

fn write_weights(path: &Path, tensors: &[Tensor], format: NumberFormat) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    let header = header(tensors, format);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    let mut part = Vec::with_capacity(PART_BYTES);
    for tensor in tensors {
        let mut random = Random::new(SEED, &tensor.name);
        let mut left = tensor.elements();
        while left > 0 {
            part.clear();
            let count = left.min(PART_BYTES / format.bytes());
            match tensor.fill {
                Fill::Ones => (0..count).for_each(|_| format.push(1.0, &mut part)),
                Fill::Random => {
                    for _ in 0..count.div_ceil(2) {
                        let pair = random.normal_pair();
                        pair.into_iter().for_each(|it| format.push(it * DEVIATION, &mut part));
                    }
                    part.truncate(count * format.bytes());
                }
            }
            file.write_all(&part)?;
            left -= count;
        }
    }
    Ok(())
}

/// The header, with spaces at its end so that the numbers begin at a multiple of eight, as `safetensors`
/// writes it.
fn header(tensors: &[Tensor], format: NumberFormat) -> String {
    let mut entries = Map::new();
    entries.insert("__metadata__".to_owned(), json!({"format": "pt"}));
    let mut at = 0;
    for tensor in tensors {
        let end = at + tensor.elements() * format.bytes();
        let entry = json!({
            "dtype": format.safetensors_name(), "shape": tensor.shape, "data_offsets": [at, end],
        });
        entries.insert(tensor.name.clone(), entry);
        at = end;
    }
    let mut header = Value::Object(entries).to_string();
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    header
}

#[cfg(test)]
mod tests {
    use riddle_weights::{BertConfig, Checkpoint};

    use super::*;

    #[test]
    fn a_shape_is_a_model_directory_and_is_written_once() {
        let root = tempfile::tempdir().expect("temp dir");
        let dir = prepare(Shape::MiniLmL6, NumberFormat::F16, root.path()).expect("written");
        assert_eq!(BertConfig::open(&dir).expect("a configuration").num_hidden_layers, 6);
        let checkpoint = Checkpoint::open(&dir).expect("a checkpoint");
        let read = |name: &str, shape: &[usize]| {
            let info = checkpoint.tensor(name, shape).expect("there");
            let mut values = vec![0.0; info.elements()];
            checkpoint.read_f32(info, &mut values).expect("numbers");
            values
        };
        assert_eq!((shape_of(&dir), shape_of(root.path())), (Some(Shape::MiniLmL6), None));
        let gain = read("bert.encoder.layer.5.output.LayerNorm.weight", &[384]);
        assert!(gain.iter().all(|it| *it == 1.0));
        let weights = read("bert.encoder.layer.0.attention.self.query.weight", &[384, 384]);
        let square = weights.iter().map(|it| it * it).sum::<f32>() / weights.len() as f32;
        assert!((square.sqrt() / DEVIATION - 1.0).abs() < 0.05, "{}", square.sqrt());
        let written = |dir: &Path| fs::metadata(dir.join(MARK)).and_then(|it| it.modified()).ok();
        let first = written(&dir);
        assert_eq!(prepare(Shape::MiniLmL6, NumberFormat::F16, root.path()).expect("kept"), dir);
        assert_eq!(written(&dir), first);
    }

    #[test]
    fn a_directory_of_somebody_else_is_left_alone() {
        let root = tempfile::tempdir().expect("temp dir");
        let dir = root.path().join("minilm-l6-f32");
        fs::create_dir(&dir).expect("a folder");
        let refused = prepare(Shape::MiniLmL6, NumberFormat::F32, root.path());
        assert!(matches!(refused, Err(Error::NotOurs { .. })));
        assert!(fs::read_dir(&dir).expect("still there").next().is_none());
    }
}
