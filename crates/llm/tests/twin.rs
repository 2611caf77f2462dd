//! Language models of this process beside an implementation that knows nothing of them: candle-transformers, on the
//! same files, whatever tokens are read and in passes of whatever length.

use std::{fs::File, path::Path};

use candle_core::{DType, Device, Result, Tensor, quantized::gguf_file::Content};
use candle_transformers::models::{
    quantized_glm4, quantized_lfm2, quantized_llama, quantized_phi, quantized_qwen2,
    quantized_qwen3,
};
use proptest::prelude::*;
use riddle_llm::{Local, LocalOptions};
use riddle_weights::gguf::{RandomFormat, RandomModel, write_random};

/// Largest difference of a logit, in shares of the largest logit: keys and values are in half precision here and in
/// single precision there. Where heads are normalized, keys are longer, and their rounding counts more.
fn tolerance(model: RandomModel, format: &str) -> f32 {
    match (format, model) {
        ("f32" | "f16", RandomModel::TinyQwen3) => 5e-3,
        ("f32" | "f16", _) => 1e-3,
        // Activations are rounded to bytes, and tiny differences before decide which way.
        _ => 0.1,
    }
}

const MODELS: [RandomModel; 6] = [
    RandomModel::TinySmolLm,
    RandomModel::TinyQwen2,
    RandomModel::TinyQwen3,
    RandomModel::TinyGlm4,
    RandomModel::TinyPhi2,
    RandomModel::TinyLfm2,
];

/// The other program's model.
enum Twin {
    Llama(quantized_llama::ModelWeights),
    Qwen2(quantized_qwen2::ModelWeights),
    Qwen3(quantized_qwen3::ModelWeights),
    Glm4(quantized_glm4::ModelWeights),
    Phi2(quantized_phi::ModelWeights),
    Lfm2(quantized_lfm2::ModelWeights),
}

impl Twin {
    fn open(model: RandomModel, path: &Path) -> Result<Twin> {
        let (mut file, device) = (File::open(path)?, &Device::Cpu);
        let content = Content::read(&mut file)?;
        let file = &mut file;
        Ok(match model {
            RandomModel::TinyQwen2 => {
                Twin::Qwen2(quantized_qwen2::ModelWeights::from_gguf(content, file, device)?)
            }
            RandomModel::TinyQwen3 => {
                Twin::Qwen3(quantized_qwen3::ModelWeights::from_gguf(content, file, device)?)
            }
            RandomModel::TinyGlm4 => {
                let weights =
                    quantized_glm4::ModelWeights::from_gguf(content, file, device, DType::F32);
                Twin::Glm4(weights?)
            }
            RandomModel::TinyPhi2 => {
                Twin::Phi2(quantized_phi::ModelWeights::from_gguf(content, file, device)?)
            }
            RandomModel::TinyLfm2 => {
                Twin::Lfm2(quantized_lfm2::ModelWeights::from_gguf(content, file, device)?)
            }
            _ => Twin::Llama(quantized_llama::ModelWeights::from_gguf(content, file, device)?),
        })
    }

    /// The logits after these tokens, of a conversation of its own.
    fn logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let input = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
        let logits = match self {
            Twin::Llama(model) => model.forward(&input, 0)?,
            Twin::Qwen2(model) => model.forward(&input, 0)?,
            Twin::Qwen3(model) => {
                model.clear_kv_cache();
                model.forward(&input, 0)?
            }
            Twin::Glm4(model) => model.forward(&input, 0)?,
            Twin::Phi2(model) => model.forward(&input, 0)?,
            Twin::Lfm2(model) => model.forward(&input, 0)?,
        };
        logits.flatten_all()?.to_vec1()
    }
}

const FORMATS: [&str; 4] = ["f32", "f16", "q8_0", "q4_k"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn logits_equal_those_of_candle(
        model in prop::sample::select(MODELS.to_vec()),
        format in prop::sample::select(FORMATS.to_vec()),
        tokens in prop::collection::vec(0u32..600, 1..70),
        chunk in 1usize..80,
    ) {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("model.gguf");
        let kind: RandomFormat = format.parse().expect("a format");
        write_random(model, kind, &path).expect("written");
        let options = LocalOptions { context_tokens: Some(128), threads: 2, ..LocalOptions::default() };
        let ours = Local::open(&path, "twin", options).expect("opens");
        let ours = ours.logits_of(&tokens, chunk).expect("computes");
        let mut twin = Twin::open(model, &path).expect("opens");
        prop_assert_eq!(ours.len(), tokens.len().div_ceil(chunk));
        for (pass, ours) in ours.iter().enumerate() {
            let read = tokens.len().min((pass + 1) * chunk);
            let theirs = twin.logits(&tokens[..read]).expect("computes");
            let worst = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            let largest = theirs.iter().fold(0.0f32, |a, b| a.max(b.abs()));
            let worst = worst / largest;
            let most = tolerance(model, format);
            prop_assert!(worst <= most, "{} {format}, after {read}: {worst}", model.as_str());
        }
    }
}
