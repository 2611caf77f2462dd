//! DeBERTa, versions 2 and 3.

use std::path::Path;

use serde::Deserialize;

use super::{Labels, check_epsilon, check_sizes};
use crate::Result;

/// Configuration of a DeBERTa (He et al. 2021); the fields are the keys of Hugging Face's `config.json`
/// (<https://github.com/huggingface/transformers/blob/main/src/transformers/models/deberta_v2/configuration_deberta_v2.py>).
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DebertaConfig {
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
    /// Positions the model was made for.
    pub max_position_embeddings: usize,
    /// Kinds of segment; 0: texts have none.
    #[serde(default)]
    pub type_vocab_size: usize,
    /// ε of the layer normalizations.
    #[serde(default = "layer_norm_eps")]
    pub layer_norm_eps: f32,
    #[serde(default = "gelu")]
    hidden_act: String,
    #[serde(default = "gelu")]
    pooler_hidden_act: String,
    #[serde(default)]
    relative_attention: bool,
    #[serde(default = "minus_one")]
    max_relative_positions: i64,
    #[serde(default = "minus_one")]
    position_buckets: i64,
    #[serde(default)]
    share_att_key: bool,
    #[serde(default)]
    pos_att_type: Option<Parts>,
    #[serde(default)]
    norm_rel_ebd: Option<String>,
    #[serde(default = "yes")]
    position_biased_input: bool,
    #[serde(default)]
    conv_kernel_size: usize,
    #[serde(default)]
    embedding_size: Option<usize>,
    #[serde(default)]
    attention_head_size: Option<usize>,
    #[serde(default)]
    pooler_hidden_size: Option<usize>,
    /// Labels of the classification head, by index.
    #[serde(default)]
    pub id2label: Option<Labels>,
}

/// Parts of a score: a list, or one string with `|` between.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
enum Parts {
    One(String),
    Many(Vec<String>),
}

impl Parts {
    fn names(&self) -> Vec<String> {
        match self {
            Parts::One(all) => all.split('|').map(|it| it.trim().to_lowercase()).collect(),
            Parts::Many(all) => all.clone(),
        }
    }
}

fn layer_norm_eps() -> f32 {
    1e-7
}

fn gelu() -> String {
    "gelu".to_owned()
}

fn minus_one() -> i64 {
    -1
}

fn yes() -> bool {
    true
}

impl DebertaConfig {
    /// What `model_type` says of such models.
    pub const TYPE: &str = "deberta-v2";

    /// Reads and checks `config.json` in `dir`.
    ///
    /// # Errors
    /// A missing or malformed file, an unsupported architecture or option, or sizes that contradict
    /// each other or are absurd.
    pub fn open(dir: &Path) -> Result<DebertaConfig> {
        super::open(dir, &[DebertaConfig::TYPE], DebertaConfig::check)
    }

    /// Distances to each side that have rows of their own.
    pub fn span(&self) -> usize {
        usize::try_from(self.position_buckets)
            .ok()
            .filter(|it| *it > 0)
            .unwrap_or_else(|| self.farthest())
    }

    /// Distances beyond this one are one.
    fn farthest(&self) -> usize {
        usize::try_from(self.max_relative_positions)
            .ok()
            .filter(|it| *it > 0)
            .unwrap_or(self.max_position_embeddings)
    }

    /// Whether a query meets keys of distances, and whether a key meets queries of them.
    pub fn parts(&self) -> (bool, bool) {
        let names = self.pos_att_type.as_ref().map(Parts::names).unwrap_or_default();
        (names.iter().any(|it| it == "c2p"), names.iter().any(|it| it == "p2c"))
    }

    /// Whether rows of distances are normalized.
    pub fn normalizes_distances(&self) -> bool {
        let named = self.norm_rel_ebd.as_deref().unwrap_or_default().to_lowercase();
        named.split('|').any(|it| it.trim() == "layer_norm")
    }

    /// The row of the distance from key to query, of [`span`](Self::span) to each side: itself while it is near, and
    /// far away by its logarithm, as the published library counts them.
    pub fn row(&self, distance: isize) -> usize {
        let (span, middle) = (self.span(), self.span() / 2);
        let far = distance.unsigned_abs();
        let bucket = if self.position_buckets <= 0 || far <= middle || middle == 0 {
            far
        } else {
            // In single precision, as the reference: a distance on the edge between two rows must be in the same one.
            let ratio = far as f32 / middle as f32;
            let widest = ((self.farthest() as f64 - 1.0) / middle as f64) as f32;
            let steps = (ratio.ln() / widest.ln() * (middle as f32 - 1.0)).ceil();
            middle + steps.clamp(0.0, (2 * span) as f32) as usize
        };
        if distance < 0 { span.saturating_sub(bucket) } else { (span + bucket).min(2 * span - 1) }
    }

    fn check(&self) -> Result<(), String> {
        check_sizes(&[
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("intermediate_size", self.intermediate_size),
            ("max_position_embeddings", self.max_position_embeddings),
            ("position_buckets", self.span()),
            ("max_relative_positions", self.farthest()),
            // None is one that is never added.
            ("type_vocab_size", self.type_vocab_size.max(1)),
        ])?;
        for (key, activation) in
            [("hidden_act", &self.hidden_act), ("pooler_hidden_act", &self.pooler_hidden_act)]
        {
            if activation != "gelu" {
                return Err(format!("{key} {activation:?} is not supported: only \"gelu\" is"));
            }
        }
        // Versions 2 and 3 were published so; what else the class can do has no weights that anybody uses.
        for (key, is_usual) in [
            ("relative_attention false", self.relative_attention),
            ("share_att_key false", self.share_att_key),
            ("position_biased_input true", !self.position_biased_input),
            ("conv_kernel_size", self.conv_kernel_size == 0),
            ("embedding_size", self.embedding_size.is_none_or(|it| it == self.hidden_size)),
            ("pooler_hidden_size", self.pooler_hidden_size.is_none_or(|it| it == self.hidden_size)),
        ] {
            if !is_usual {
                return Err(format!("{key} is not supported"));
            }
        }
        let names = self.pos_att_type.as_ref().map(Parts::names).unwrap_or_default();
        if let Some(other) = names.iter().find(|it| !["c2p", "p2c", ""].contains(&it.as_str())) {
            return Err(format!(
                "pos_att_type {other:?} is not supported: \"c2p\" and \"p2c\" are"
            ));
        }
        let head = self.hidden_size / self.num_attention_heads;
        if !self.hidden_size.is_multiple_of(self.num_attention_heads)
            || self.attention_head_size.is_some_and(|it| it != head)
        {
            return Err(format!(
                "hidden_size {} is not shared evenly by num_attention_heads {}",
                self.hidden_size, self.num_attention_heads
            ));
        }
        if self.position_buckets > 0 && self.farthest() <= self.span() / 2 + 1 {
            return Err(format!(
                "max_relative_positions {} are fewer than position_buckets {} tell apart",
                self.farthest(),
                self.span()
            ));
        }
        check_epsilon("layer_norm_eps", self.layer_norm_eps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"model_type":"deberta-v2","vocab_size":10,"hidden_size":8,"num_hidden_layers":2,
        "num_attention_heads":2,"intermediate_size":16,"max_position_embeddings":512,"relative_attention":true,
        "share_att_key":true,"position_biased_input":false,"position_buckets":256,"norm_rel_ebd":"layer_norm",
        "pos_att_type":"p2c|c2p"}"#;

    fn open(json: &str) -> Result<DebertaConfig> {
        let dir = tempfile::tempdir().expect("temp dir");
        std::fs::write(dir.path().join("config.json"), json).expect("write");
        DebertaConfig::open(dir.path())
    }

    #[test]
    fn both_spellings_of_the_parts_are_read() {
        let config = open(GOOD).expect("good");
        assert_eq!((config.parts(), config.normalizes_distances()), ((true, true), true));
        assert_eq!((config.span(), config.farthest()), (256, 512));
        let list = open(&GOOD.replace("\"p2c|c2p\"", "[\"c2p\"]")).expect("good");
        assert_eq!(list.parts(), (true, false));
    }

    /// Values of the reference's `make_log_bucket_position` with 256 rows to each side and 512 positions.
    #[test]
    fn far_distances_share_rows() {
        let config = open(GOOD).expect("good");
        for (distance, row) in [
            (0, 256),
            (1, 257),
            (-1, 255),
            (127, 383),
            (128, 384),
            (129, 385),
            (-200, 87),
            (511, 511),
            (-511, 1),
            (5000, 511),
            (-5000, 0),
        ] {
            assert_eq!(config.row(distance), row, "{distance}");
        }
        let rows: Vec<usize> = (-600..600).map(|it| config.row(it)).collect();
        assert!(rows.is_sorted() && rows.iter().all(|it| *it < 512));
        let plain = open(&GOOD.replace("\"position_buckets\":256,", "")).expect("good");
        assert_eq!((plain.span(), plain.row(300), plain.row(-600)), (512, 812, 0));
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for (from, to, word) in [
            ("\"share_att_key\":true", "\"share_att_key\":false", "share_att_key"),
            ("\"relative_attention\":true", "\"relative_attention\":false", "relative_attention"),
            ("\"position_biased_input\":false,", "", "position_biased_input"),
            ("p2c|c2p", "p2c|p2p", "p2p"),
            ("\"vocab_size\":10", "\"vocab_size\":10,\"conv_kernel_size\":3", "conv_kernel_size"),
            ("\"vocab_size\":10", "\"vocab_size\":10,\"hidden_act\":\"relu\"", "hidden_act"),
            ("\"vocab_size\":10", "\"vocab_size\":10,\"embedding_size\":4", "embedding_size"),
            ("\"vocab_size\":10", "\"vocab_size\":10,\"attention_head_size\":3", "shared evenly"),
            ("\"position_buckets\":256", "\"position_buckets\":99999999999", "position_buckets"),
            ("\"vocab_size\":10", "\"vocab_size\":10,\"max_relative_positions\":9", "tell apart"),
            ("\"hidden_size\":8", "\"hidden_size\":9", "shared evenly"),
            ("\"vocab_size\":10", "\"vocab_size\":0", "vocab_size"),
        ] {
            let error = open(&GOOD.replacen(from, to, 1)).expect_err(word).to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
