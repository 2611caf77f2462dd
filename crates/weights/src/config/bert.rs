//! BERT and XLM-RoBERTa.

use std::path::Path;

use serde::Deserialize;

use super::{Labels, check_epsilon, check_sizes};
use crate::Result;

/// Architectures that compute as BERT does and differ at the edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum BertFamily {
    /// BERT (Devlin et al. 2019).
    #[serde(rename = "bert")]
    Bert,
    /// XLM-RoBERTa (Conneau et al. 2020): positions are counted from behind the padding token's number, one
    /// segment, a head without the pooler's name. RoBERTa (Liu et al. 2019) and its like in one language are the same.
    #[serde(rename = "xlm-roberta", alias = "roberta", alias = "camembert")]
    XlmRoberta,
}

/// Configuration of a model of the BERT family; the fields are the keys of Hugging Face's `config.json`
/// (<https://github.com/huggingface/transformers/blob/main/src/transformers/models/bert/configuration_bert.py>).
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct BertConfig {
    /// Which architecture.
    #[serde(rename = "model_type")]
    pub family: BertFamily,
    /// Rows of the token embedding table.
    pub vocab_size: usize,
    /// Width of the hidden states.
    pub hidden_size: usize,
    /// Transformer layers.
    pub num_hidden_layers: usize,
    /// Attention heads; divides `hidden_size`.
    pub num_attention_heads: usize,
    /// Width of the feed-forward layer.
    pub intermediate_size: usize,
    /// Activation of the feed-forward layer; `gelu` is supported.
    #[serde(default = "gelu")]
    pub hidden_act: String,
    /// Rows of the position table; see [`max_tokens`](Self::max_tokens).
    pub max_position_embeddings: usize,
    /// The padding token. Only XLM-RoBERTa's positions depend on it: 1 where nothing is said.
    #[serde(default = "one")]
    pub pad_token_id: u32,
    /// Kinds of segment; a cross-encoder needs two.
    #[serde(default = "two")]
    pub type_vocab_size: usize,
    /// ε of the layer normalizations.
    #[serde(default = "layer_norm_eps")]
    pub layer_norm_eps: f32,
    /// `absolute` is supported.
    #[serde(default)]
    pub position_embedding_type: Option<String>,
    /// Labels of the classification head, by index.
    #[serde(default)]
    pub id2label: Option<Labels>,
}

fn gelu() -> String {
    "gelu".to_owned()
}

fn one() -> u32 {
    1
}

fn two() -> usize {
    2
}

fn layer_norm_eps() -> f32 {
    1e-12
}

impl BertConfig {
    /// What `model_type` says of such models.
    pub const TYPES: [&str; 4] = ["bert", "xlm-roberta", "roberta", "camembert"];

    /// Reads and checks `config.json` in `dir`.
    ///
    /// # Errors
    /// A missing or malformed file, an unsupported architecture or option, or sizes that contradict
    /// each other or are absurd.
    pub fn open(dir: &Path) -> Result<BertConfig> {
        super::open(dir, &BertConfig::TYPES, BertConfig::check)
    }

    /// The row of the position table that belongs to a sequence's first token.
    pub fn first_position(&self) -> usize {
        match self.family {
            BertFamily::Bert => 0,
            BertFamily::XlmRoberta => self.pad_token_id as usize + 1,
        }
    }

    /// Longest input in tokens, special tokens included.
    pub fn max_tokens(&self) -> usize {
        // The check on opening leaves at least one.
        self.max_position_embeddings - self.first_position()
    }

    fn check(&self) -> Result<(), String> {
        if self.hidden_act != "gelu" {
            return Err(format!(
                "hidden_act {:?} is not supported: only \"gelu\" is",
                self.hidden_act
            ));
        }
        if let Some(kind) = self.position_embedding_type.as_deref().filter(|it| *it != "absolute") {
            return Err(format!(
                "position_embedding_type {kind:?} is not supported: only \"absolute\" is"
            ));
        }
        check_sizes(&[
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("intermediate_size", self.intermediate_size),
            ("max_position_embeddings", self.max_position_embeddings),
            ("type_vocab_size", self.type_vocab_size),
        ])?;
        if self.first_position() >= self.max_position_embeddings {
            return Err(format!(
                "pad_token_id {} leaves no position of {}",
                self.pad_token_id, self.max_position_embeddings
            ));
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return Err(format!(
                "hidden_size {} is not a multiple of num_attention_heads {}",
                self.hidden_size, self.num_attention_heads
            ));
        }
        check_epsilon("layer_norm_eps", self.layer_norm_eps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"model_type":"bert","vocab_size":10,"hidden_size":8,"num_hidden_layers":2,
        "num_attention_heads":2,"intermediate_size":16,"max_position_embeddings":12}"#;

    fn open(json: &str) -> Result<BertConfig> {
        let dir = tempfile::tempdir().expect("temp dir");
        std::fs::write(dir.path().join("config.json"), json).expect("write");
        BertConfig::open(dir.path())
    }

    #[test]
    fn defaults_are_those_of_hugging_face() {
        let config = open(GOOD).expect("good");
        assert_eq!((config.type_vocab_size, config.layer_norm_eps), (2, 1e-12));
    }

    #[test]
    fn positions_of_xlm_roberta_begin_behind_the_padding_token() {
        let bert = open(GOOD).expect("good");
        assert_eq!((bert.first_position(), bert.max_tokens()), (0, 12));
        let roberta = open(&GOOD.replace("\"bert\"", "\"xlm-roberta\"")).expect("good");
        assert_eq!((roberta.first_position(), roberta.max_tokens()), (2, 10));
    }

    /// As jina-reranker-v2 is published: no family, and a program of classes that are known.
    #[test]
    fn a_family_may_be_named_by_its_class_alone() {
        let class = |it: &str| {
            let named = format!(
                r#""architectures":["XLMRobertaForSequenceClassification"],
                "auto_map":{{"AutoModel":"modeling_xlm_roberta.{it}"}}"#
            );
            open(&GOOD.replace(r#""model_type":"bert""#, &named))
        };
        assert_eq!(class("XLMRobertaModel").expect("known").family, BertFamily::XlmRoberta);
        let error = class("XLMRobertaLoRA").expect_err("another program").to_string();
        assert!(error.contains("a program of its own"), "{error}");
        let error = open(&GOOD.replace(r#""model_type":"bert","#, "")).expect_err("nothing");
        assert!(error.to_string().contains("no model_type"), "{error}");
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for (from, to, word) in [
            ("\"bert\"", "\"deberta\"", "deberta"),
            ("\"bert\"", "\"xlm-roberta\",\"pad_token_id\":11", "pad_token_id"),
            ("\"vocab_size\":10", "\"vocab_size\":10,\"pad_token_id\":-1", "u32"),
            ("\"vocab_size\":10", "\"vocab_size\":0", "vocab_size"),
            ("\"hidden_size\":8", "\"hidden_size\":7", "num_attention_heads"),
            ("\"hidden_size\":8", "\"hidden_size\":99999999999", "hidden_size"),
            ("\"vocab_size\":10", "\"vocab_size\":10,\"hidden_act\":\"relu\"", "relu"),
            (
                "\"vocab_size\":10",
                "\"vocab_size\":10,\"position_embedding_type\":\"relative_key\"",
                "relative_key",
            ),
            ("\"hidden_size\":8,", "", "hidden_size"),
            ("}", "", "JSON"),
        ] {
            let error = open(&GOOD.replacen(from, to, 1)).expect_err(word).to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
