//! The built-in encoder beside an implementation that knows nothing of it: candle-transformers, on models of random
//! shapes with random weights, texts of random lengths and every way of pooling. Golden values (`golden.rs`) hold few
//! shapes to the reference library; this holds any shape to another program.

use std::{collections::HashMap, fs, path::Path};

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::{VarBuilder, VarMap};
use candle_transformers::models::{
    bert::{self, BertModel},
    modernbert::{self, ModernBert},
    qwen2, qwen3,
    xlm_roberta::{self, XLMRobertaModel},
};
use proptest::prelude::*;
use riddle_embedding::{BuiltinEncoder, EncoderOptions};
use riddle_transformer::Tokenizer;
use riddle_types::EmbedRole;
use serde_json::{Value, json};

/// Largest difference of a number of a vector, whose length is one.
const TOLERANCE: f32 = 1e-3;

/// Positions of a model.
const POSITIONS: usize = 160;

/// Longest text.
const MAX_TOKENS: usize = POSITIONS - 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Bert,
    XlmRoberta,
    ModernBert,
    Qwen2,
    Qwen3,
}

impl Family {
    const ALL: [Family; 5] =
        [Family::Bert, Family::XlmRoberta, Family::ModernBert, Family::Qwen2, Family::Qwen3];

    /// A tiny model whose tokenizer is taken.
    fn golden(self) -> &'static str {
        match self {
            Family::Bert => "tiny-bert-encoder",
            Family::XlmRoberta => "tiny-xlm-roberta-embedder",
            Family::ModernBert => "tiny-modernbert-embedder",
            Family::Qwen2 | Family::Qwen3 => "tiny-qwen3-embedder",
        }
    }
}

/// Sizes of a model.
#[derive(Debug, Clone, Copy)]
struct Shape {
    layers: usize,
    heads: usize,
    /// Of these, those of keys and values, where a family has fewer.
    kv_heads: usize,
    head_dim: usize,
    wide: usize,
    /// ModernBERT: tokens that a local layer sees, both sides together.
    local: usize,
}

impl Shape {
    fn hidden(self) -> usize {
        self.heads * self.head_dim
    }

    fn drawn() -> impl Strategy<Value = Shape> {
        (1usize..5, 1usize..4, 1usize..4, 1usize..5, 1usize..80, 1usize..12).prop_map(
            |(layers, groups, kv_heads, quarters, wide, reach)| Shape {
                layers,
                heads: kv_heads * groups,
                kv_heads,
                head_dim: 4 * quarters,
                wide,
                local: 2 * reach,
            },
        )
    }
}

/// `config.json` as the family's models have it, for both programs.
fn config(family: Family, shape: Shape, vocabulary: usize) -> Value {
    let Shape { layers, heads, kv_heads, head_dim, wide, local } = shape;
    let mut config = json!({
        "hidden_size": shape.hidden(), "intermediate_size": wide, "num_hidden_layers": layers,
        "num_attention_heads": heads, "vocab_size": vocabulary, "max_position_embeddings": POSITIONS,
    });
    let more = match family {
        Family::Bert | Family::XlmRoberta => json!({
            "model_type": if family == Family::Bert { "bert" } else { "xlm-roberta" },
            "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
            "initializer_range": 0.02, "layer_norm_eps": 1e-5, "position_embedding_type": "absolute",
            "pad_token_id": usize::from(family == Family::XlmRoberta),
            "type_vocab_size": if family == Family::Bert { 2 } else { 1 },
        }),
        Family::ModernBert => json!({
            "model_type": "modernbert", "layer_norm_eps": 1e-5, "norm_eps": 1e-5, "pad_token_id": 3,
            "global_attn_every_n_layers": 3, "global_rope_theta": 160_000.0, "local_rope_theta": 10_000.0,
            "local_attention": local, "hidden_activation": "gelu", "attention_bias": false,
            "mlp_bias": false, "norm_bias": false,
        }),
        Family::Qwen2 | Family::Qwen3 => json!({
            "model_type": if family == Family::Qwen2 { "qwen2" } else { "qwen3" },
            "head_dim": head_dim, "num_key_value_heads": kv_heads, "attention_bias": false,
            "max_window_layers": layers, "sliding_window": 4096, "use_sliding_window": false,
            "tie_word_embeddings": true, "rope_theta": 1e6, "rms_norm_eps": 1e-6, "hidden_act": "silu",
        }),
    };
    let fields = config.as_object_mut().expect("an object");
    fields.extend(more.as_object().expect("an object").clone());
    config
}

/// The other program's model.
enum Twin {
    Bert(BertModel),
    XlmRoberta(XLMRobertaModel),
    ModernBert(ModernBert),
    Qwen2(qwen2::Model),
    Qwen3(qwen3::Model),
}

impl Twin {
    fn open(family: Family, config: &Value, weights: VarBuilder<'_>) -> Result<Twin> {
        fn of<T: serde::de::DeserializeOwned>(config: &Value) -> T {
            serde_json::from_value(config.clone()).expect("read")
        }
        Ok(match family {
            Family::Bert => Twin::Bert(BertModel::load(weights, &of::<bert::Config>(config))?),
            Family::XlmRoberta => {
                Twin::XlmRoberta(XLMRobertaModel::new(&of::<xlm_roberta::Config>(config), weights)?)
            }
            Family::ModernBert => {
                Twin::ModernBert(ModernBert::load(weights, &of::<modernbert::Config>(config))?)
            }
            Family::Qwen2 => Twin::Qwen2(qwen2::Model::new(&of::<qwen2::Config>(config), weights)?),
            Family::Qwen3 => Twin::Qwen3(qwen3::Model::new(&of::<qwen3::Config>(config), weights)?),
        })
    }

    /// States of all tokens after the last layer and its norm.
    fn states(&mut self, ids: &[u32]) -> Result<Vec<Vec<f32>>> {
        let device = &Device::Cpu;
        let input = Tensor::new(ids, device)?.unsqueeze(0)?;
        let seen = Tensor::ones((1, ids.len()), DType::U32, device)?;
        let states = match self {
            Twin::Bert(model) => model.forward(&input, &input.zeros_like()?, Some(&seen))?,
            Twin::XlmRoberta(model) => {
                model.forward(&input, &seen, &input.zeros_like()?, None, None, None)?
            }
            Twin::ModernBert(model) => model.forward(&input, &seen)?,
            Twin::Qwen2(model) => model.forward(&input, 0, None)?,
            Twin::Qwen3(model) => model.forward(&input, 0)?,
        };
        states.squeeze(0)?.to_vec2()
    }
}

/// Random weights for every tensor that the other program asks for, by its names: gains around one, the rest around
/// zero.
fn weights(family: Family, config: &Value, seed: u64) -> HashMap<String, Tensor> {
    let asked = VarMap::new();
    let builder = VarBuilder::from_varmap(&asked, DType::F32, &Device::Cpu);
    Twin::open(family, config, builder).expect("a model");
    let asked = asked.data().lock().expect("no panic");
    // The first layer of ModernBERT has no norm; candle would take one.
    let is_there = |it: &&String| *it != "model.layers.0.attn_norm.weight";
    let mut names: Vec<&String> = asked.keys().filter(is_there).collect();
    names.sort();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut drawn = |name: &String| {
        let shape = asked[name].shape();
        let is_gain = name.contains("orm") && name.ends_with("weight");
        let numbers: Vec<f32> = (0..shape.elem_count())
            .map(|_| if is_gain { 0.7 + 0.6 * random.f32() } else { random.f32() - 0.5 })
            .collect();
        Tensor::from_vec(numbers, shape, &Device::Cpu).expect("a tensor")
    };
    names.into_iter().map(|it| (it.clone(), drawn(it))).collect()
}

/// A model's folder, with the tokenizer of a tiny one. Embedders are published with `model.` before their tensors'
/// names, and without.
fn write(
    dir: &Path,
    family: Family,
    shape: Shape,
    bare: bool,
    pooling: &str,
    seed: u64,
) -> (Value, HashMap<String, Tensor>) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let golden = golden.join(family.golden());
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(golden.join(name), dir.join(name)).expect("copied");
    }
    let known = fs::read(golden.join("config.json")).expect("read");
    let known: Value = serde_json::from_slice(&known).expect("json");
    let vocabulary = known["vocab_size"].as_u64().expect("a size") as usize;
    let config = config(family, shape, vocabulary);
    let put = |name: &str, value: &Value| {
        fs::write(dir.join(name), value.to_string()).expect("written");
    };
    put("config.json", &config);
    put("sentence_bert_config.json", &json!({"max_seq_length": MAX_TOKENS}));
    fs::create_dir(dir.join("1_Pooling")).expect("a folder");
    put("1_Pooling/config.json", &json!({"pooling_mode": pooling}));
    let weights = weights(family, &config, seed);
    let published = |name: &String| {
        let plain = name.strip_prefix("model.").filter(|_| bare);
        plain.unwrap_or(name).to_owned()
    };
    let named: HashMap<String, Tensor> =
        weights.iter().map(|(name, it)| (published(name), it.clone())).collect();
    candle_core::safetensors::save(&named, dir.join("model.safetensors")).expect("written");
    (config, weights)
}

/// What sentence-transformers makes of the states of a text's tokens.
fn pooled(states: &[Vec<f32>], pooling: &str) -> Vec<f32> {
    let column = |at: usize| states.iter().map(move |it| it[at]);
    let count = states.len() as f32;
    let mean = |it: usize| column(it).sum::<f32>() / count;
    let mut vector: Vec<f32> = match pooling {
        "cls" => states[0].clone(),
        "lasttoken" => states[states.len() - 1].clone(),
        "max" => (0..states[0].len()).map(|it| column(it).fold(f32::MIN, f32::max)).collect(),
        "mean" => (0..states[0].len()).map(mean).collect(),
        other => panic!("{other}"),
    };
    let length = vector.iter().map(|it| it * it).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|it| *it /= length);
    vector
}

/// Texts of so many words.
fn texts(lengths: &[usize], seed: u64) -> Vec<String> {
    const WORDS: [&str; 8] = ["the", "blue", "boat", "locks", "Bread", "gate,", "hull?", "17"];
    let mut random = fastrand::Rng::with_seed(seed);
    let mut word = |_| WORDS[random.usize(..WORDS.len())];
    lengths.iter().map(|it| (0..*it).map(&mut word).collect::<Vec<_>>().join(" ")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn vectors_equal_those_of_candle(
        family in prop::sample::select(Family::ALL.to_vec()),
        shape in Shape::drawn(),
        pooling in prop::sample::select(vec!["mean", "cls", "lasttoken", "max"]),
        bare in any::<bool>(),
        lengths in prop::collection::vec(0usize..150, 1..6),
        micro_batch_tokens in 1usize..400,
        window in 1usize..4,
        seed in any::<u64>(),
    ) {
        let dir = tempfile::tempdir().expect("temp dir");
        let (config, weights) = write(dir.path(), family, shape, bare, pooling, seed);
        let texts = texts(&lengths, seed ^ 2);
        let vocabulary = config["vocab_size"].as_u64().expect("a size") as usize;
        let tokenizer = Tokenizer::open(dir.path(), MAX_TOKENS, vocabulary).expect("opens");
        let options = EncoderOptions {
            threads: 2,
            window: Some(window),
            micro_batch_tokens,
            ..EncoderOptions::default()
        };
        let encoder = BuiltinEncoder::open(dir.path(), options).expect("opens");
        let given: Vec<&str> = texts.iter().map(String::as_str).collect();
        let vectors = encoder.encode(&given, EmbedRole::Passage).expect("encodes");
        for (text, vector) in texts.iter().zip(vectors) {
            let ids = tokenizer.encode(text).expect("encodes").ids;
            if ids.is_empty() {
                continue;
            }
            // Decoders remember what they have read: each text gets one of its own.
            let weights = VarBuilder::from_tensors(weights.clone(), DType::F32, &Device::Cpu);
            let mut twin = Twin::open(family, &config, weights).expect("opens");
            let expected = pooled(&twin.states(&ids).expect("computes"), pooling);
            prop_assert_eq!(vector.len(), expected.len());
            for (a, b) in vector.iter().zip(&expected) {
                prop_assert!((a - b).abs() <= TOLERANCE, "{} tokens: {a} and {b}", ids.len());
            }
        }
    }
}
