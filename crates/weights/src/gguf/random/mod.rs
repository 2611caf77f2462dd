//! GGUF files of random weights: everything of a published model but its training, for measurements, and small
//! ones of the same kind for tests. The same file on every machine, byte for byte.

mod blocks;
mod shape;
mod vocabulary;

use std::{path::Path, str::FromStr};

use self::{
    blocks::Random,
    shape::{Fill, Shape, Tensor},
    vocabulary::copy_tokenizer,
};
use super::{GgmlFormat, Gguf, GgufWriter};
use crate::Result;

/// The key of a file of this kind: the version of what writes it, and the format.
pub const MARK: &str = "riddle.random";

/// Changes when the same name would mean other bytes.
const VERSION: u32 = 1;

/// All models are of this seed.
const SEED: u64 = 1;

/// Bytes that are made before they are written, nearly: large enough for the disk, small enough for any memory.
const PART_BYTES: usize = 1 << 20;

/// A model whose sizes, tensors, settings and special tokens can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RandomModel {
    /// Two layers of a Llama with an output matrix of its own and stretched rotations, 600 tokens.
    TinyLlama,
    /// Two layers of a Qwen2, 600 tokens.
    TinyQwen2,
    /// Two layers of a Qwen3, 600 tokens.
    TinyQwen3,
    /// Three layers of a Qwen3 with ten experts, three of which a token is given, 600 tokens.
    TinyQwen3Moe,
    /// Two layers of a Llama without stretched rotations, as SmolLM 2 is stored, 600 tokens.
    TinySmolLm,
    /// Two layers of a GLM 4, 600 tokens.
    TinyGlm4,
    /// Two layers of a Phi 2, half of each head rotated, 600 tokens.
    TinyPhi2,
    /// Three layers of an LFM 2, the middle one with attention, 600 tokens.
    TinyLfm2,
    /// Two layers of a Llama with eight experts, two of which a token is given, as Mixtral has them, 600 tokens.
    TinyMixtral,
    /// meta-llama/Llama-3.2-1B.
    Llama32Of1B,
    /// meta-llama/Llama-3.2-3B.
    Llama32Of3B,
    /// Qwen/Qwen2.5-1.5B.
    Qwen25Of15B,
    /// Qwen/Qwen3-0.6B.
    Qwen3Of06B,
    /// Qwen/Qwen3-1.7B.
    Qwen3Of17B,
    /// Qwen/Qwen3-30B-A3B: 128 experts of a layer, eight for a token.
    Qwen3Of30B,
    /// The same with 16 of its 48 layers.
    ThirdOfQwen3Of30B,
    /// LiquidAI/LFM2-1.2B.
    Lfm2Of12B,
    /// HuggingFaceTB/SmolLM2-360M.
    SmolLm2Of360M,
}

impl RandomModel {
    /// All of them.
    pub const ALL: [RandomModel; 18] = [
        RandomModel::TinyLlama,
        RandomModel::TinyQwen2,
        RandomModel::TinyQwen3,
        RandomModel::TinySmolLm,
        RandomModel::TinyGlm4,
        RandomModel::TinyPhi2,
        RandomModel::TinyLfm2,
        RandomModel::TinyQwen3Moe,
        RandomModel::TinyMixtral,
        RandomModel::Llama32Of1B,
        RandomModel::Llama32Of3B,
        RandomModel::Qwen25Of15B,
        RandomModel::Qwen3Of06B,
        RandomModel::Qwen3Of17B,
        RandomModel::Qwen3Of30B,
        RandomModel::ThirdOfQwen3Of30B,
        RandomModel::Lfm2Of12B,
        RandomModel::SmolLm2Of360M,
    ];

    /// As it is written on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            RandomModel::TinyLlama => "tiny-llama",
            RandomModel::TinyQwen2 => "tiny-qwen2",
            RandomModel::TinyQwen3 => "tiny-qwen3",
            RandomModel::TinySmolLm => "tiny-smollm",
            RandomModel::TinyGlm4 => "tiny-glm4",
            RandomModel::TinyPhi2 => "tiny-phi2",
            RandomModel::TinyLfm2 => "tiny-lfm2",
            RandomModel::TinyQwen3Moe => "tiny-qwen3-moe",
            RandomModel::TinyMixtral => "tiny-mixtral",
            RandomModel::Llama32Of1B => "llama-3.2-1b",
            RandomModel::Llama32Of3B => "llama-3.2-3b",
            RandomModel::Qwen25Of15B => "qwen2.5-1.5b",
            RandomModel::Qwen3Of06B => "qwen3-0.6b",
            RandomModel::Qwen3Of17B => "qwen3-1.7b",
            RandomModel::Qwen3Of30B => "qwen3-30b-a3b",
            RandomModel::ThirdOfQwen3Of30B => "qwen3-30b-a3b-third",
            RandomModel::Lfm2Of12B => "lfm2-1.2b",
            RandomModel::SmolLm2Of360M => "smollm2-360m",
        }
    }
}

impl FromStr for RandomModel {
    type Err = String;

    fn from_str(name: &str) -> Result<RandomModel, String> {
        let found = RandomModel::ALL.into_iter().find(|it| it.as_str() == name);
        found.ok_or_else(|| {
            format!(
                "{name:?} is not a model: use {}",
                RandomModel::ALL.map(Self::as_str).join(", ")
            )
        })
    }
}

/// How the matrices of a model are stored. As in llama.cpp's `quantize`, tables of which logits are computed
/// keep six bits or more, and vectors are f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RandomFormat {
    /// All matrices of the layers alike.
    Pure(GgmlFormat),
    /// The mixture called `Q4_K_M`: four bits, but six for half of the values' and the last matrices.
    Q4KM,
}

impl RandomFormat {
    /// As it is written on the command line.
    pub fn as_str(self) -> String {
        match self {
            RandomFormat::Pure(format) => format.name().to_lowercase(),
            RandomFormat::Q4KM => "q4_k_m".to_owned(),
        }
    }

    fn matrix(self) -> GgmlFormat {
        match self {
            RandomFormat::Pure(format) => format,
            RandomFormat::Q4KM => GgmlFormat::Q4K,
        }
    }

    fn head(self) -> GgmlFormat {
        match self.matrix() {
            plain @ (GgmlFormat::F32 | GgmlFormat::F16 | GgmlFormat::Bf16 | GgmlFormat::Q8_0) => {
                plain
            }
            _ => GgmlFormat::Q6K,
        }
    }

    /// What is rounded less in some layers: the first and the last eighth, and every third between.
    fn important(self, layer: usize, layers: usize) -> GgmlFormat {
        let eighth = layers / 8;
        let more = layer < eighth || layer >= 7 * layers / 8 || (layer - eighth).is_multiple_of(3);
        if self == RandomFormat::Q4KM && more { GgmlFormat::Q6K } else { self.matrix() }
    }
}

/// What a file of this format says under [`MARK`].
pub fn random_mark(format: RandomFormat) -> String {
    format!("{VERSION} {}", format.as_str())
}

impl FromStr for RandomFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<RandomFormat, String> {
        if name == "q4_k_m" {
            return Ok(RandomFormat::Q4KM);
        }
        name.parse().map(RandomFormat::Pure)
    }
}

/// Writes a model of random weights: gigabytes for the published shapes, part by part.
///
/// # Errors
/// When the file can not be written.
pub fn write_random(model: RandomModel, format: RandomFormat, path: &Path) -> Result<()> {
    let shape = Shape::of(model);
    let mut header = shape.header(format);
    shape.made_up_tokenizer(&mut header);
    write(&shape, format, header, path)
}

/// [`write_random`] with the tokens and the chat template of `words`, so that it reads a text as that model does: what
/// real questions take. Tokens that the shape has beyond those are unused.
///
/// # Errors
/// As there; when `words` has no tokens, or more than the shape.
pub fn write_random_with_words_of(
    words: &Gguf,
    model: RandomModel,
    format: RandomFormat,
    path: &Path,
) -> Result<()> {
    let shape = Shape::of(model);
    let mut header = shape.header(format);
    copy_tokenizer(words, shape.vocabulary, &mut header)?;
    write(&shape, format, header, path)
}

fn write(shape: &Shape, format: RandomFormat, mut header: GgufWriter, path: &Path) -> Result<()> {
    let tensors = shape.tensors(format);
    for tensor in &tensors {
        header.tensor(&tensor.name, &tensor.shape, tensor.format);
    }
    let mut data = header.create(path)?;
    for tensor in &tensors {
        let mut random = Random::new(SEED, &tensor.name);
        let blocks = tensor.shape.iter().product::<usize>() / tensor.format.block_len();
        let step = PART_BYTES / tensor.format.block_bytes();
        data.tensor((0..blocks).step_by(step).map(|first| {
            let blocks = first..(first + step).min(blocks);
            part(tensor, blocks, &mut random)
        }))?;
    }
    data.finish()
}

/// Some neighboring blocks of a tensor.
fn part(tensor: &Tensor, blocks: std::ops::Range<usize>, random: &mut Random) -> Vec<u8> {
    let around = |middle: f32, random: &mut Random| {
        blocks.clone().flat_map(|_| (middle + 0.1 * random.normal()).to_le_bytes()).collect()
    };
    match &tensor.fill {
        Fill::Weights | Fill::Embeddings => {
            let mut out = vec![0; blocks.len() * tensor.format.block_bytes()];
            let deviation = match tensor.fill {
                Fill::Embeddings => 1.0,
                _ => 1.0 / (tensor.shape[0] as f32).sqrt(),
            };
            blocks::fill(tensor.format, random, deviation, &mut out);
            out
        }
        Fill::NearOne => around(1.0, random),
        Fill::NearZero => around(0.0, random),
        Fill::These(values) => values[blocks].iter().flat_map(|it| it.to_le_bytes()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Gguf, *};

    #[test]
    fn every_tiny_model_in_every_format_is_a_file_that_opens_and_is_the_same_twice() {
        let dir = tempfile::tempdir().expect("a directory");
        let formats = GgmlFormat::ALL.map(RandomFormat::Pure);
        for model in [
            RandomModel::TinyLlama,
            RandomModel::TinyQwen2,
            RandomModel::TinyQwen3,
            RandomModel::TinySmolLm,
            RandomModel::TinyGlm4,
            RandomModel::TinyPhi2,
            RandomModel::TinyLfm2,
            RandomModel::TinyQwen3Moe,
            RandomModel::TinyMixtral,
        ] {
            for format in formats.into_iter().chain([RandomFormat::Q4KM]) {
                let path = dir.path().join("model.gguf");
                write_random(model, format, &path).expect("written");
                let gguf = Gguf::open(&path).expect("opens");
                let mut finite = true;
                for tensor in gguf.tensors().iter().filter(|it| it.format == GgmlFormat::F32) {
                    let mut raw = vec![0; tensor.bytes as usize];
                    gguf.read(tensor, &mut raw).expect("read");
                    finite &= crate::Dtype::F32.all_finite(&raw);
                }
                assert!(finite);
                assert_eq!(gguf.texts("tokenizer.ggml.tokens").map(|it| it.len()), Some(600));
                let first = std::fs::read(&path).expect("read");
                write_random(model, format, &path).expect("written");
                assert!(first == std::fs::read(&path).expect("read"));
            }
        }
    }

    /// Other tests compare with what another program computed of this very file.
    #[test]
    fn the_bytes_are_those_of_every_other_machine() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("model.gguf");
        let hash = |model: RandomModel, format: &str| {
            write_random(model, format.parse().expect("a format"), &path).expect("written");
            blake3::hash(&std::fs::read(&path).expect("read")).to_hex()[..16].to_owned()
        };
        let hashes = [
            hash(RandomModel::TinyLlama, "q4_k_m"),
            hash(RandomModel::TinyQwen2, "q8_0"),
            hash(RandomModel::TinyQwen3, "f16"),
        ];
        assert_eq!(hashes, ["f148ef61f658a979", "399834330878e5a0", "f389a320e2b30778"]);
    }

    /// The sizes that `llama-quantize` reports of the real models, nearly: names and rounding differ.
    #[test]
    fn published_shapes_have_as_many_weights_as_their_models() {
        for (model, millions) in [
            (RandomModel::Llama32Of1B, 1236.0),
            (RandomModel::Llama32Of3B, 3213.0),
            (RandomModel::Qwen25Of15B, 1544.0),
            (RandomModel::Qwen3Of06B, 596.0),
            (RandomModel::Qwen3Of17B, 1721.0),
            (RandomModel::Qwen3Of30B, 30_532.0),
            (RandomModel::Lfm2Of12B, 1170.3),
            (RandomModel::SmolLm2Of360M, 362.0),
        ] {
            let tensors = Shape::of(model).tensors(RandomFormat::Q4KM);
            let all: usize = tensors.iter().map(|it| it.shape.iter().product::<usize>()).sum();
            let off = all as f64 / 1e6 - millions;
            assert!(off.abs() < 1.0, "{}: {off} millions", model.as_str());
        }
    }

    #[test]
    fn names_are_read_again() {
        for model in RandomModel::ALL {
            assert_eq!(model.as_str().parse(), Ok(model));
        }
        for format in ["q4_k_m", "f16", "q6_k"] {
            assert_eq!(format.parse::<RandomFormat>().map(RandomFormat::as_str), Ok(format.into()));
        }
        assert!("gpt-5".parse::<RandomModel>().is_err());
        assert!("q9".parse::<RandomFormat>().is_err());
    }
}
