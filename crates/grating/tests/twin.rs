//! The engine beside an implementation that knows nothing of it: candle-transformers, on models of random shapes with
//! random weights, and texts of random lengths. Golden values (`engine.rs`) hold few shapes to the reference library;
//! this holds any shape to another program.

use std::{collections::HashMap, fs, path::Path};

use candle_core::{DType, Device, IndexOp, Result, Tensor};
use candle_nn::{Module, VarBuilder, VarMap, layer_norm_no_bias, linear, linear_no_bias};
use candle_transformers::models::{
    bert::{self, BertModel},
    debertav2::{self, DebertaV2SeqClassificationModel},
    modernbert::{self, ModernBert},
    qwen2, qwen3,
    xlm_roberta::{self, XLMRobertaForSequenceClassification},
};
use proptest::prelude::*;
use riddle_grating::{Engine, EngineOptions};
use riddle_transformer::{OpenOptions, PairEncoder, open_cross_encoder};
use riddle_types::SilentObserver;
use serde_json::{Value, json};

/// Largest difference of a raw score.
const TOLERANCE: f32 = 1e-3;

/// Positions of a model.
const POSITIONS: usize = 160;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Bert,
    XlmRoberta,
    ModernBert,
    Deberta,
    Qwen2,
    Qwen3,
}

impl Family {
    /// A tiny model whose tokenizer is taken.
    fn golden(self) -> &'static str {
        match self {
            Family::Bert => "tiny-bert-cross-encoder",
            Family::XlmRoberta => "tiny-xlm-roberta-cross-encoder",
            Family::ModernBert => "tiny-modernbert-cross-encoder",
            Family::Deberta => "tiny-deberta-cross-encoder",
            Family::Qwen2 => "tiny-qwen2-reranker",
            Family::Qwen3 => "tiny-qwen3-reranker",
        }
    }

    /// What its model is told to answer with, yes first.
    fn words(self) -> [&'static str; 2] {
        match self {
            Family::Qwen2 => ["1", "0"],
            _ => ["yes", "no"],
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
        "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0},
    });
    let more = match family {
        Family::Bert | Family::XlmRoberta => json!({
            "model_type": if family == Family::Bert { "bert" } else { "xlm-roberta" },
            "architectures": ["ForSequenceClassification"],
            "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
            "initializer_range": 0.02, "layer_norm_eps": 1e-5, "position_embedding_type": "absolute",
            "pad_token_id": usize::from(family == Family::XlmRoberta),
            "type_vocab_size": if family == Family::Bert { 2 } else { 1 },
        }),
        Family::ModernBert => json!({
            "model_type": "modernbert", "architectures": ["ModernBertForSequenceClassification"],
            "layer_norm_eps": 1e-5, "norm_eps": 1e-5, "pad_token_id": 3, "global_attn_every_n_layers": 3,
            "global_rope_theta": 160_000.0, "local_rope_theta": 10_000.0, "local_attention": local,
            "classifier_pooling": "cls", "hidden_activation": "gelu", "classifier_activation": "gelu",
            "attention_bias": false, "mlp_bias": false, "norm_bias": false, "classifier_bias": false,
        }),
        Family::Deberta => json!({
            "model_type": "deberta-v2", "architectures": ["DebertaV2ForSequenceClassification"],
            "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
            "initializer_range": 0.02, "layer_norm_eps": 1e-7, "type_vocab_size": 0, "pad_token_id": 0,
            "relative_attention": true, "max_relative_positions": -1, "position_biased_input": false,
            "pos_att_type": ["p2c", "c2p"], "position_buckets": 4 * local, "share_att_key": true,
            "norm_rel_ebd": "layer_norm", "pooler_dropout": 0.0, "pooler_hidden_act": "gelu",
            "pooler_hidden_size": shape.hidden(),
        }),
        Family::Qwen2 => json!({
            "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"],
            "num_key_value_heads": kv_heads, "max_window_layers": layers, "sliding_window": 4096,
            "use_sliding_window": false, "tie_word_embeddings": true, "rope_theta": 1e6,
            "rms_norm_eps": 1e-6, "hidden_act": "silu",
            // The template stands beside what query and text share.
            "max_position_embeddings": 8 * POSITIONS,
        }),
        Family::Qwen3 => json!({
            "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": head_dim,
            "num_key_value_heads": kv_heads, "attention_bias": false, "max_window_layers": layers,
            "sliding_window": null, "use_sliding_window": false, "tie_word_embeddings": true,
            "rope_theta": 1e6, "rms_norm_eps": 1e-6, "hidden_act": "silu",
        }),
    };
    let fields = config.as_object_mut().expect("an object");
    fields.extend(more.as_object().expect("an object").clone());
    config
}

/// The other program's model.
enum Twin {
    Bert {
        model: BertModel,
        pooler: candle_nn::Linear,
        classifier: candle_nn::Linear,
    },
    XlmRoberta(XLMRobertaForSequenceClassification),
    ModernBert {
        model: ModernBert,
        head: ModernBertHead,
    },
    Deberta(Box<DebertaV2SeqClassificationModel>),
    /// With the tokens of yes and no.
    Qwen2(qwen2::ModelForCausalLM, [u32; 2]),
    Qwen3(qwen3::ModelForCausalLM, [u32; 2]),
}

struct ModernBertHead {
    dense: candle_nn::Linear,
    norm: candle_nn::LayerNorm,
    classifier: candle_nn::Linear,
}

impl Twin {
    fn open(
        family: Family,
        config: &Value,
        words: [u32; 2],
        weights: VarBuilder<'_>,
    ) -> Result<Twin> {
        let of = |config: &Value| config.clone();
        let hidden = config["hidden_size"].as_u64().expect("a size") as usize;
        Ok(match family {
            Family::Bert => {
                let config: bert::Config = serde_json::from_value(of(config)).expect("read");
                Twin::Bert {
                    model: BertModel::load(weights.pp("bert"), &config)?,
                    pooler: linear(hidden, hidden, weights.pp("bert.pooler.dense"))?,
                    classifier: linear(hidden, 1, weights.pp("classifier"))?,
                }
            }
            Family::XlmRoberta => {
                let config: xlm_roberta::Config = serde_json::from_value(of(config)).expect("read");
                Twin::XlmRoberta(XLMRobertaForSequenceClassification::new(1, &config, weights)?)
            }
            Family::ModernBert => {
                let config: modernbert::Config = serde_json::from_value(of(config)).expect("read");
                let head = ModernBertHead {
                    dense: linear_no_bias(hidden, hidden, weights.pp("head.dense"))?,
                    norm: layer_norm_no_bias(hidden, 1e-5, weights.pp("head.norm"))?,
                    classifier: linear(hidden, 1, weights.pp("classifier"))?,
                };
                Twin::ModernBert { model: ModernBert::load(weights, &config)?, head }
            }
            Family::Deberta => {
                let config: debertav2::Config = serde_json::from_value(of(config)).expect("read");
                let labels = HashMap::from([(0, "LABEL_0".to_owned())]);
                let weights = weights.pp("deberta");
                Twin::Deberta(Box::new(DebertaV2SeqClassificationModel::load(
                    weights,
                    &config,
                    Some(labels),
                )?))
            }
            Family::Qwen2 => {
                let config: qwen2::Config = serde_json::from_value(of(config)).expect("read");
                Twin::Qwen2(qwen2::ModelForCausalLM::new(&config, weights)?, words)
            }
            Family::Qwen3 => {
                let config: qwen3::Config = serde_json::from_value(of(config)).expect("read");
                Twin::Qwen3(qwen3::ModelForCausalLM::new(&config, weights)?, words)
            }
        })
    }

    fn score(&mut self, ids: &[u32], segments: &[u8]) -> Result<f32> {
        let device = &Device::Cpu;
        let input = Tensor::new(ids, device)?.unsqueeze(0)?;
        let seen = Tensor::ones((1, ids.len()), DType::U32, device)?;
        let logit = match self {
            Twin::Bert { model, pooler, classifier } => {
                let segments: Vec<u32> = segments.iter().map(|it| u32::from(*it)).collect();
                let segments = Tensor::new(segments, device)?.unsqueeze(0)?;
                let states = model.forward(&input, &segments, Some(&seen))?;
                let first = states.i((.., 0))?.contiguous()?;
                classifier.forward(&pooler.forward(&first)?.tanh()?)?
            }
            Twin::XlmRoberta(model) => model.forward(&input, &seen, &input.zeros_like()?)?,
            Twin::ModernBert { model, head } => {
                let states = model.forward(&input, &seen)?;
                let first = states.i((.., 0))?.contiguous()?;
                let state = head.norm.forward(&head.dense.forward(&first)?.gelu_erf()?)?;
                head.classifier.forward(&state)?
            }
            Twin::Deberta(model) => model.forward(&input, None, Some(seen))?,
            Twin::Qwen2(model, [yes, no]) => {
                model.clear_kv_cache();
                let logits = model.forward(&input, 0)?.flatten_all()?;
                (logits.get(*yes as usize)? - logits.get(*no as usize)?)?
            }
            Twin::Qwen3(model, [yes, no]) => {
                model.clear_kv_cache();
                let logits = model.forward(&input, 0)?.flatten_all()?;
                (logits.get(*yes as usize)? - logits.get(*no as usize)?)?
            }
        };
        logit.flatten_all()?.get(0)?.to_scalar()
    }
}

/// Random weights for every tensor that the other program asks for, by its names: gains around one, the rest around
/// zero.
fn weights(family: Family, config: &Value, seed: u64) -> HashMap<String, Tensor> {
    let asked = VarMap::new();
    let builder = VarBuilder::from_varmap(&asked, DType::F32, &Device::Cpu);
    Twin::open(family, config, [0, 0], builder).expect("a model");
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

/// A model's folder, with the tokenizer of a tiny one.
fn write(dir: &Path, family: Family, shape: Shape, seed: u64) -> (Value, HashMap<String, Tensor>) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let golden = golden.join(family.golden());
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(golden.join(name), dir.join(name)).expect("copied");
    }
    let known = fs::read(golden.join("config.json")).expect("read");
    let known: Value = serde_json::from_slice(&known).expect("json");
    let vocabulary = known["vocab_size"].as_u64().expect("a size") as usize;
    let config = config(family, shape, vocabulary);
    fs::write(dir.join("config.json"), config.to_string()).expect("written");
    let weights = weights(family, &config, seed);
    candle_core::safetensors::save(&weights, dir.join("model.safetensors")).expect("written");
    (config, weights)
}

/// Texts of so many words.
fn texts(lengths: &[usize], seed: u64) -> Vec<String> {
    const WORDS: [&str; 8] = ["the", "blue", "boat", "locks", "Bread", "gate,", "hull?", "17"];
    let mut random = fastrand::Rng::with_seed(seed);
    let mut word = |_| WORDS[random.usize(..WORDS.len())];
    lengths.iter().map(|it| (0..*it).map(&mut word).collect::<Vec<_>>().join(" ")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn scores_equal_those_of_candle(
        family in prop::sample::select(vec![
            Family::Bert, Family::XlmRoberta, Family::ModernBert, Family::Deberta, Family::Qwen2, Family::Qwen3,
        ]),
        shape in Shape::drawn(),
        query_words in 1usize..12,
        lengths in prop::collection::vec(0usize..150, 1..6),
        micro_batch_tokens in 1usize..400,
        window in 1usize..4,
        seed in any::<u64>(),
    ) {
        let dir = tempfile::tempdir().expect("temp dir");
        let (config, weights) = write(dir.path(), family, shape, seed);
        let query = texts(&[query_words], seed ^ 1).remove(0);
        let texts = texts(&lengths, seed ^ 2);
        let mut model = open_cross_encoder(dir.path(), OpenOptions::default()).expect("opens");
        let pairs = PairEncoder::open(dir.path(), &mut *model, POSITIONS - 2, None).expect("opens");
        let pairs = pairs.query(&query).expect("encodes");
        let tokenizer = fs::read(dir.path().join("tokenizer.json")).expect("read");
        let tokenizer: Value = serde_json::from_slice(&tokenizer).expect("json");
        let word = |it: &str| tokenizer["model"]["vocab"][it].as_u64().unwrap_or_default() as u32;
        let words = family.words().map(word);
        let weights = VarBuilder::from_tensors(weights, DType::F32, &Device::Cpu);
        let mut twin = Twin::open(family, &config, words, weights).expect("opens");
        let options = EngineOptions {
            threads: 2,
            window: Some(window),
            micro_batch_tokens: Some(micro_batch_tokens),
            max_tokens: Some(POSITIONS - 2),
            ..EngineOptions::default()
        };
        let engine = Engine::open(dir.path(), options).expect("opens");
        let given: Vec<&str> = texts.iter().map(String::as_str).collect();
        let ranked = engine.run(&query, &given, given.len(), &mut SilentObserver).expect("runs").ranked;
        prop_assert_eq!(ranked.len(), texts.len());
        for it in ranked {
            let pair = pairs.encode(&texts[it.index]).expect("encodes");
            let expected = twin.score(&pair.ids, &pair.type_ids).expect("computes");
            prop_assert!(
                (it.raw_score - expected).abs() <= TOLERANCE * expected.abs().max(1.0),
                "text {}: {} and {expected}", it.index, it.raw_score
            );
        }
    }
}
