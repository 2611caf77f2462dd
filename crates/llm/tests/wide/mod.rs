//! Language models that are larger than a budget: a tiny random one with every width times [`FACTOR`] and its layers
//! repeated to [`LAYERS`]. Its settings and tokens are the tiny one's.

use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
};

use half::f16;
use riddle_weights::gguf::{GgmlFormat, Gguf, GgufTensor, RandomFormat, RandomModel, write_random};

/// What widths are multiplied by: 256 columns become 768.
const FACTOR: usize = 3;

/// Layers, few of which a budget holds.
const LAYERS: usize = 12;

/// Where the data of a tensor begins is a multiple of this.
const ALIGNMENT: usize = 32;

/// Numbers that are drawn; tensors begin somewhere in them.
const DRAWN: usize = 1 << 18;

/// Writes the large form of `model`, with weights of two bytes; returns the file and the bytes of its layers.
pub(crate) fn write(model: RandomModel, dir: &Path) -> (PathBuf, u64) {
    let (small, large) = (dir.join("small.gguf"), dir.join("large.gguf"));
    let format: RandomFormat = "f16".parse().expect("a format");
    write_random(model, format, &small).expect("room");
    let known = Gguf::open(&small).expect("what was written");
    let tensors = widened(&known);
    let header = fs::read(&small).expect("read");
    let settings = settings(&known, &header);
    write_file(&large, &header, &settings, &tensors);
    Gguf::open(&large).expect("as it was written");
    let in_layers = tensors.iter().filter(|it| layer_of(&it.name).is_some());
    (large, in_layers.map(|it| it.bytes).sum())
}

/// The keys and their values, with the sizes of the large model.
fn settings(known: &Gguf, header: &[u8]) -> Vec<u8> {
    // Behind the keys stands the first tensor's name.
    let first = with_length(&known.tensors()[0].name);
    let end = place_of(&first, header).expect("the first tensor");
    let mut settings = header[24..end].to_vec();
    for key in [
        "embedding_length",
        "feed_forward_length",
        "expert_feed_forward_length",
        "attention.key_length",
        "attention.value_length",
        "rope.dimension_count",
        "block_count",
    ] {
        let name = with_length(&format!("{}.{key}", known.architecture()));
        let Some(at) = place_of(&name, &settings) else { continue };
        // Behind the key its type, of four bytes.
        let value = &mut settings[at + name.len() + 4..][..4];
        let old = u32::from_le_bytes(value.try_into().expect("four bytes")) as usize;
        let new = if key == "block_count" { LAYERS } else { old * FACTOR };
        value.copy_from_slice(&(new as u32).to_le_bytes());
    }
    settings
}

fn with_length(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

fn place_of(what: &[u8], bytes: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|it| it == what)
}

fn layer_of(name: &str) -> Option<usize> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}

fn widened(known: &Gguf) -> Vec<GgufTensor> {
    let vocabulary = known.texts("tokenizer.ggml.tokens").expect("tokens").len();
    let mut all = Vec::new();
    for tensor in known.tensors() {
        let wide = |at: usize, length: usize| {
            let is_of_experts = tensor.name.contains("exps") && at == 2;
            let is_router = tensor.name.contains("gate_inp") && at == 1;
            let stays = length == vocabulary || is_of_experts || is_router;
            if stays { length } else { length * FACTOR }
        };
        let shape: Vec<usize> =
            tensor.shape.iter().enumerate().map(|(at, it)| wide(at, *it)).collect();
        let row = tensor.format.row_bytes(shape[0]).expect("whole rows");
        let bytes = (row * shape[1..].iter().product::<usize>()) as u64;
        let named =
            |name: String| GgufTensor { name, shape: shape.clone(), bytes, ..tensor.clone() };
        match layer_of(&tensor.name) {
            // All layers are alike.
            Some(0) => {
                let rest = tensor.name.strip_prefix("blk.0.").expect("a layer's");
                all.extend((0..LAYERS).map(|it| named(format!("blk.{it}.{rest}"))));
            }
            Some(_) => {}
            None => all.push(named(tensor.name.clone())),
        }
    }
    all
}

fn write_file(path: &Path, header: &[u8], settings: &[u8], tensors: &[GgufTensor]) {
    let mut file = BufWriter::new(File::create(path).expect("created"));
    let mut put = |bytes: &[u8]| file.write_all(bytes).expect("written");
    let mut out = header[..8].to_vec();
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend(&header[16..24]);
    out.extend(settings);
    let mut at = 0u64;
    for it in tensors {
        out.extend(with_length(&it.name));
        out.extend((it.shape.len() as u32).to_le_bytes());
        it.shape.iter().for_each(|it| out.extend((*it as u64).to_le_bytes()));
        // ggml's numbers of the two formats that there are.
        out.extend(u32::from(it.format == GgmlFormat::F16).to_le_bytes());
        out.extend(at.to_le_bytes());
        at += it.bytes.next_multiple_of(ALIGNMENT as u64);
    }
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
    put(&out);
    let mut random = fastrand::Rng::with_seed(5);
    let drawn: Vec<f32> = (0..DRAWN).map(|_| random.f32() * 2.0 - 1.0).collect();
    // Sums of 768 products neither vanish nor grow.
    let halves: Vec<u8> =
        drawn.iter().flat_map(|it| f16::from_f32(it * 0.06).to_le_bytes()).collect();
    let of = |number: &dyn Fn(f32) -> f32| -> Vec<u8> {
        drawn.iter().flat_map(|it| number(*it).to_le_bytes()).collect()
    };
    let (gains, biases) = (of(&|it| 1.0 + 0.2 * it), of(&|it| 0.06 * it));
    for it in tensors {
        let (from, unit) = match it.format {
            GgmlFormat::F16 => (&halves, 2),
            GgmlFormat::F32 if it.name.contains("norm.weight") || it.name.contains("rope") => {
                (&gains, 4)
            }
            GgmlFormat::F32 => (&biases, 4),
            other => panic!("{} is {}", it.name, other.name()),
        };
        let (mut start, mut left) = (random.usize(..DRAWN) * unit, it.bytes as usize);
        while left > 0 {
            let part = &from[start..from.len().min(start + left)];
            put(part);
            (left, start) = (left - part.len(), 0);
        }
        put(&[0; ALIGNMENT][..(it.bytes as usize).next_multiple_of(ALIGNMENT) - it.bytes as usize]);
    }
    file.flush().expect("written");
}
