//! Models that are larger than a budget: a committed tiny one with every width times [`FACTOR`] and its layers repeated
//! to [`LAYERS`], with random weights. The same bytes whoever writes them.

use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

/// What widths are multiplied by: 32 columns become 512, at which a layer has 8 to 13 MB.
const FACTOR: u64 = 16;

/// Layers, of which a window of two is a sixth.
pub(crate) const LAYERS: usize = 12;

/// Numbers that are drawn; tensors begin somewhere in them.
const DRAWN: usize = 1 << 18;

/// Where weights lie around zero: sums of 512 products with them neither vanish nor grow.
const REACH: f32 = 0.08;

/// A committed model.
fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

/// Writes the large form of the committed model `name` to the empty folder `to`; returns the bytes of its layers.
pub(crate) fn write(name: &str, to: &Path) -> u64 {
    let numbers = Numbers::drawn();
    widen_folder(&golden(name), to, &numbers);
    let tensors = widened_tensors(&golden(name).join("model.safetensors"), true);
    tensors.iter().filter(|it| place_of(&it.name).is_some()).map(Tensor::bytes).sum()
}

fn widen_folder(from: &Path, to: &Path, numbers: &Numbers) {
    for entry in fs::read_dir(from).expect("a folder") {
        let from = entry.expect("an entry").path();
        let name = from.file_name().expect("a name").to_string_lossy().into_owned();
        let to = to.join(&name);
        match name.as_str() {
            _ if from.is_dir() => {
                fs::create_dir(&to).expect("a folder");
                widen_module(&from, &to, numbers);
            }
            "config.json" => fs::write(&to, widened_config(&from)).expect("written"),
            "model.safetensors" => write_tensors(&to, &widened_tensors(&from, true), numbers),
            _ => drop(fs::copy(&from, &to).expect("copied")),
        }
    }
}

/// A module's folder: its widths are in its own configuration.
fn widen_module(from: &Path, to: &Path, numbers: &Numbers) {
    for entry in fs::read_dir(from).expect("a folder") {
        let from = entry.expect("an entry").path();
        let to = to.join(from.file_name().expect("a name"));
        match from.extension().and_then(|it| it.to_str()) {
            Some("safetensors") => write_tensors(&to, &widened_tensors(&from, false), numbers),
            Some("json") => {
                let mut config = read(&from);
                for key in ["in_features", "out_features", "dimension", "embedding_dimension"] {
                    widen(&mut config, key);
                }
                fs::write(&to, config.to_string()).expect("written");
            }
            _ => drop(fs::copy(&from, &to).expect("copied")),
        }
    }
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("read")).expect("json")
}

/// A score stays one number.
fn widen(config: &mut Value, key: &str) {
    if let Some(width) = config[key].as_u64().filter(|it| *it > 1) {
        config[key] = json!(width * FACTOR);
    }
}

fn widened_config(path: &Path) -> String {
    let mut config = read(path);
    for key in ["hidden_size", "intermediate_size", "head_dim", "pooler_hidden_size"] {
        widen(&mut config, key);
    }
    config["num_hidden_layers"] = json!(LAYERS);
    if let Some(types) = config["layer_types"].as_array() {
        // Which layers see everything is said in turns of three, where it is said.
        config["layer_types"] = (0..LAYERS).map(|it| types[it % 3].clone()).collect();
    }
    config.to_string()
}

struct Tensor {
    name: String,
    shape: Vec<u64>,
}

impl Tensor {
    fn bytes(&self) -> u64 {
        self.shape.iter().product::<u64>() * 4
    }

    /// Only norms have gains, and all vectors of weights are gains.
    fn is_gain(&self) -> bool {
        self.shape.len() == 1 && self.name.ends_with("weight")
    }
}

/// A tensor's name before and after the number of its layer.
fn place_of(name: &str) -> Option<(String, usize, String)> {
    let parts: Vec<&str> = name.split('.').collect();
    let at = parts.iter().position(|it| it.parse::<usize>().is_ok())?;
    let number = parts[at].parse().ok()?;
    Some((parts[..at].join("."), number, parts[at + 1..].join(".")))
}

fn widened_tensors(path: &Path, is_model: bool) -> Vec<Tensor> {
    let bytes = fs::read(path).expect("read");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    let header: Map<String, Value> = serde_json::from_slice(&bytes[8..8 + length]).expect("json");
    let of = |(name, entry): (&String, &Value)| {
        let shape: Vec<u64> = serde_json::from_value(entry["shape"].clone()).expect("a shape");
        Tensor { name: name.clone(), shape: widened_shape(name, &shape, is_model) }
    };
    let known: Vec<Tensor> = header.iter().filter(|it| it.0 != "__metadata__").map(of).collect();
    let last_of = |stem: &str| {
        let places = known.iter().filter_map(|it| place_of(&it.name)).filter(|it| it.0 == stem);
        places.map(|it| it.1).max().expect("a layer")
    };
    let layers = 1 + known.iter().filter_map(|it| layer_of(&it.name)).max().unwrap_or(0);
    let mut all = Vec::new();
    for Tensor { name, shape } in &known {
        if let Some((stem, number, rest)) = place_of(name)
            && number == last_of(&stem)
        {
            // A head for each layer is repeated as often as the layers are.
            for it in number + 1..=number + LAYERS - layers {
                all.push(Tensor { name: format!("{stem}.{it}.{rest}"), shape: shape.clone() });
            }
        }
    }
    all.extend(known);
    all
}

/// The number of a layer; heads have numbers of their own.
fn layer_of(name: &str) -> Option<usize> {
    place_of(name).filter(|it| it.0.contains("layer")).map(|it| it.1)
}

/// Tables keep their rows, which are tokens, positions and distances, and a score stays one number.
fn widened_shape(name: &str, shape: &[u64], is_model: bool) -> Vec<u64> {
    let is_fixed = |axis: usize| {
        let is_table = shape.len() == 2 && name.contains("embed") && axis == 0;
        let is_projection = is_model && name == "linear.weight" && axis == 0;
        let is_of_terms = ["relative_attention_bias", "predictions.bias"];
        is_table || is_projection || is_of_terms.iter().any(|it| name.contains(it))
    };
    let axes = shape.iter().enumerate();
    axes.map(|(axis, &it)| if it == 1 || is_fixed(axis) { it } else { it * FACTOR }).collect()
}

/// Numbers around zero and around one, as bytes.
struct Numbers {
    weights: Vec<u8>,
    gains: Vec<u8>,
}

impl Numbers {
    fn drawn() -> Numbers {
        let mut random = fastrand::Rng::with_seed(7);
        let unit: Vec<f32> = (0..DRAWN).map(|_| random.f32() * 2.0 - 1.0).collect();
        let bytes = |of: &dyn Fn(f32) -> f32| {
            unit.iter().flat_map(|it| of(*it).to_le_bytes()).collect::<Vec<u8>>()
        };
        Numbers { weights: bytes(&|it| it * REACH), gains: bytes(&|it| 1.0 + it * 0.3) }
    }
}

fn write_tensors(path: &Path, tensors: &[Tensor], numbers: &Numbers) {
    let mut entries = Map::new();
    let mut at = 0;
    for it in tensors {
        let offsets = [at, at + it.bytes()];
        let entry = json!({"dtype": "F32", "shape": it.shape, "data_offsets": offsets});
        entries.insert(it.name.clone(), entry);
        at += it.bytes();
    }
    let mut header = Value::Object(entries).to_string();
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    let mut file = BufWriter::new(File::create(path).expect("created"));
    file.write_all(&(header.len() as u64).to_le_bytes()).expect("written");
    file.write_all(header.as_bytes()).expect("written");
    let mut random = fastrand::Rng::with_seed(11);
    for it in tensors {
        let from = if it.is_gain() { &numbers.gains } else { &numbers.weights };
        let mut start = random.usize(..DRAWN) * 4;
        let mut left = it.bytes() as usize;
        while left > 0 {
            let part = &from[start..from.len().min(start + left)];
            file.write_all(part).expect("written");
            (left, start) = (left - part.len(), 0);
        }
    }
    file.flush().expect("written");
}
