//! Tensors and configurations, as `transformers` saves them.

use serde_json::{Value, json};

use super::{NumberFormat, Shape, vocabulary};

/// A tensor to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) fill: Fill,
}

/// What a tensor holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fill {
    /// Ones: gains of normalizations.
    Ones,
    /// Random numbers of the deviation that `initializer_range` gives.
    Random,
}

impl Tensor {
    fn new(name: impl Into<String>, shape: &[usize]) -> Tensor {
        let name = name.into();
        let is_gain = name.ends_with("norm.weight") || name.ends_with("LayerNorm.weight");
        let fill = if is_gain { Fill::Ones } else { Fill::Random };
        Tensor { name, shape: shape.to_vec(), fill }
    }

    pub(super) fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Encoder with a classification head: BERT and XLM-RoBERTa.
struct Encoder {
    roberta: bool,
    vocabulary: usize,
    hidden: usize,
    layers: usize,
    heads: usize,
    wide: usize,
    positions: usize,
    eps: f64,
}

/// Decoder that is asked for "yes" or "no".
struct Decoder {
    vocabulary: usize,
    hidden: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    wide: usize,
}

enum Architecture {
    Encoder(Encoder),
    Decoder(Decoder),
}

/// Sizes from each model's `config.json` on the hub.
fn architecture(shape: Shape) -> Architecture {
    let mini_lm = |layers| {
        Architecture::Encoder(Encoder {
            roberta: false,
            vocabulary: 30_522,
            hidden: 384,
            layers,
            heads: 12,
            wide: 1536,
            positions: 512,
            eps: 1e-12,
        })
    };
    let qwen = |hidden, layers, heads, wide| {
        let vocabulary = 151_669;
        Architecture::Decoder(Decoder {
            vocabulary,
            hidden,
            layers,
            heads,
            kv_heads: 8,
            head_dim: 128,
            wide,
        })
    };
    match shape {
        Shape::MiniLmL6 => mini_lm(6),
        Shape::MiniLmL12 => mini_lm(12),
        Shape::BgeRerankerV2M3 => Architecture::Encoder(Encoder {
            roberta: true,
            vocabulary: 250_002,
            hidden: 1024,
            layers: 24,
            heads: 16,
            wide: 4096,
            positions: 8194,
            eps: 1e-5,
        }),
        Shape::Qwen3Reranker06B => qwen(1024, 28, 16, 3072),
        Shape::Qwen3Reranker4B => qwen(2560, 36, 32, 9728),
    }
}

/// All tensors, in the order of the file.
pub(super) fn tensors(shape: Shape) -> Vec<Tensor> {
    match architecture(shape) {
        Architecture::Encoder(it) => it.tensors(),
        Architecture::Decoder(it) => it.tensors(),
    }
}

/// `config.json`.
pub(super) fn config(shape: Shape, format: NumberFormat) -> Value {
    let mut config = match architecture(shape) {
        Architecture::Encoder(it) => it.config(),
        Architecture::Decoder(it) => it.config(),
    };
    config["dtype"] = json!(format.torch_name());
    config["initializer_range"] = json!(DEVIATION);
    config
}

/// Deviation of the weights: the `initializer_range` of all these models.
pub(super) const DEVIATION: f32 = 0.02;

/// `tokenizer.json`.
pub(super) fn tokenizer(shape: Shape) -> Value {
    match architecture(shape) {
        Architecture::Encoder(it) if it.roberta => vocabulary::unigram(it.vocabulary),
        Architecture::Encoder(it) => vocabulary::word_piece(it.vocabulary),
        Architecture::Decoder(it) => vocabulary::byte_level_bpe(it.vocabulary),
    }
}

/// `tokenizer_config.json`, for `transformers`.
pub(super) fn tokenizer_config(shape: Shape) -> Value {
    let mut config = match architecture(shape) {
        Architecture::Encoder(it) if it.roberta => json!({
            "bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>",
            "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>", "model_max_length": 8192,
            "model_input_names": ["input_ids", "attention_mask"],
        }),
        Architecture::Encoder(it) => json!({
            "cls_token": "[CLS]", "mask_token": "[MASK]", "pad_token": "[PAD]", "sep_token": "[SEP]",
            "unk_token": "[UNK]", "model_max_length": it.positions,
            "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        }),
        Architecture::Decoder(_) => json!({
            "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "model_max_length": 131_072,
            "model_input_names": ["input_ids", "attention_mask"],
        }),
    };
    config["tokenizer_class"] = json!("PreTrainedTokenizerFast");
    config
}

impl Encoder {
    fn tensors(&self) -> Vec<Tensor> {
        let hidden = self.hidden;
        let base = if self.roberta { "roberta" } else { "bert" };
        let embeddings = |name: &str| format!("{base}.embeddings.{name}");
        let mut all = vec![
            Tensor::new(embeddings("word_embeddings.weight"), &[self.vocabulary, hidden]),
            Tensor::new(embeddings("position_embeddings.weight"), &[self.positions, hidden]),
            Tensor::new(embeddings("token_type_embeddings.weight"), &[self.segments(), hidden]),
            Tensor::new(embeddings("LayerNorm.weight"), &[hidden]),
            Tensor::new(embeddings("LayerNorm.bias"), &[hidden]),
        ];
        for layer in 0..self.layers {
            let mut linear = |name: &str, rows: usize, columns: usize| {
                let name = format!("{base}.encoder.layer.{layer}.{name}");
                all.push(Tensor::new(format!("{name}.weight"), &[rows, columns]));
                all.push(Tensor::new(format!("{name}.bias"), &[rows]));
            };
            linear("attention.self.query", hidden, hidden);
            linear("attention.self.key", hidden, hidden);
            linear("attention.self.value", hidden, hidden);
            linear("attention.output.dense", hidden, hidden);
            linear("intermediate.dense", self.wide, hidden);
            linear("output.dense", hidden, self.wide);
            for norm in ["attention.output", "output"] {
                let name = format!("{base}.encoder.layer.{layer}.{norm}.LayerNorm");
                all.push(Tensor::new(format!("{name}.weight"), &[hidden]));
                all.push(Tensor::new(format!("{name}.bias"), &[hidden]));
            }
        }
        let (dense, out) = if self.roberta {
            ("classifier.dense", "classifier.out_proj")
        } else {
            ("bert.pooler.dense", "classifier")
        };
        for (name, rows) in [(dense, hidden), (out, 1)] {
            all.push(Tensor::new(format!("{name}.weight"), &[rows, hidden]));
            all.push(Tensor::new(format!("{name}.bias"), &[rows]));
        }
        all
    }

    fn segments(&self) -> usize {
        if self.roberta { 1 } else { 2 }
    }

    fn config(&self) -> Value {
        let mut config = json!({
            "attention_probs_dropout_prob": 0.1,
            "classifier_dropout": null,
            "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1,
            "hidden_size": self.hidden,
            "id2label": {"0": "LABEL_0"},
            "intermediate_size": self.wide,
            "label2id": {"LABEL_0": 0},
            "layer_norm_eps": self.eps,
            "max_position_embeddings": self.positions,
            "num_attention_heads": self.heads,
            "num_hidden_layers": self.layers,
            "position_embedding_type": "absolute",
            "type_vocab_size": self.segments(),
            "use_cache": true,
            "vocab_size": self.vocabulary,
        });
        let (class, family, pad) = if self.roberta {
            ("XLMRobertaForSequenceClassification", "xlm-roberta", 1)
        } else {
            ("BertForSequenceClassification", "bert", 0)
        };
        config["architectures"] = json!([class]);
        config["model_type"] = json!(family);
        config["pad_token_id"] = json!(pad);
        if self.roberta {
            config["bos_token_id"] = json!(0);
            config["eos_token_id"] = json!(2);
        }
        config
    }
}

impl Decoder {
    fn tensors(&self) -> Vec<Tensor> {
        let hidden = self.hidden;
        let (queries, keys) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let mut all = vec![Tensor::new("model.embed_tokens.weight", &[self.vocabulary, hidden])];
        for layer in 0..self.layers {
            let mut add = |name: &str, shape: &[usize]| {
                all.push(Tensor::new(format!("model.layers.{layer}.{name}.weight"), shape));
            };
            add("input_layernorm", &[hidden]);
            add("self_attn.q_proj", &[queries, hidden]);
            add("self_attn.k_proj", &[keys, hidden]);
            add("self_attn.v_proj", &[keys, hidden]);
            add("self_attn.o_proj", &[hidden, queries]);
            add("self_attn.q_norm", &[self.head_dim]);
            add("self_attn.k_norm", &[self.head_dim]);
            add("post_attention_layernorm", &[hidden]);
            add("mlp.gate_proj", &[self.wide, hidden]);
            add("mlp.up_proj", &[self.wide, hidden]);
            add("mlp.down_proj", &[hidden, self.wide]);
        }
        all.push(Tensor::new("model.norm.weight", &[hidden]));
        all
    }

    fn config(&self) -> Value {
        json!({
            "architectures": ["Qwen3ForCausalLM"],
            "attention_bias": false,
            "attention_dropout": 0.0,
            "bos_token_id": 151_643,
            "eos_token_id": 151_645,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "hidden_size": self.hidden,
            "intermediate_size": self.wide,
            "max_position_embeddings": 40_960,
            "max_window_layers": self.layers,
            "model_type": "qwen3",
            "num_attention_heads": self.heads,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": self.kv_heads,
            "rms_norm_eps": 1e-6,
            "rope_scaling": null,
            "rope_theta": 1_000_000,
            "sliding_window": null,
            "tie_word_embeddings": true,
            "use_cache": true,
            "use_sliding_window": false,
            "vocab_size": self.vocabulary,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Millions of parameters by the models' own cards; those of the embedding are counted once.
    #[test]
    fn parameters_are_as_many_as_the_originals_have() {
        let millions =
            |shape| tensors(shape).iter().map(Tensor::elements).sum::<usize>() as f64 / 1e6;
        for (shape, published) in [
            (Shape::Qwen3Reranker06B, 595.8),
            (Shape::Qwen3Reranker4B, 4021.8),
            (Shape::BgeRerankerV2M3, 567.8),
            (Shape::MiniLmL6, 22.7),
            (Shape::MiniLmL12, 33.4),
        ] {
            let ours = millions(shape);
            assert!((ours / published - 1.0).abs() < 0.002, "{shape:?}: {ours} million");
        }
    }

    #[test]
    fn gains_are_ones_and_nothing_else_is() {
        let all = tensors(Shape::Qwen3Reranker06B);
        let ones = all.iter().filter(|it| it.fill == Fill::Ones).count();
        assert_eq!((all.len(), ones), (28 * 11 + 2, 28 * 4 + 1));
        let all = tensors(Shape::MiniLmL6);
        let ones = all.iter().filter(|it| it.fill == Fill::Ones).count();
        assert_eq!((all.len(), ones), (5 + 6 * 16 + 4, 1 + 6 * 2));
    }
}
