//! MPNet.

use std::path::Path;

use serde::Deserialize;

use super::{Labels, check_epsilon, check_sizes};
use crate::Result;

/// Numbers of each head that distances are told apart by; the reference has them as a default that no configuration
/// changes.
const BUCKETS: usize = 32;

/// Buckets of distances to one side.
const SIDE: usize = BUCKETS / 2;

/// Distances to one side with a bucket of their own; the farther ones share theirs by the logarithm.
const EXACT: usize = SIDE / 2;

/// The token that takes no position. The reference fixes it, whatever `pad_token_id` is.
const PADDING: u32 = 1;

/// Configuration of an MPNet (Song et al. 2020, MPNet: Masked and Permuted Pre-training for Language Understanding);
/// the fields are the keys of Hugging Face's `config.json`
/// (<https://github.com/huggingface/transformers/blob/main/src/transformers/models/mpnet/configuration_mpnet.py>).
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct MpnetConfig {
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
    /// Rows of the position table; see [`max_tokens`](Self::max_tokens).
    pub max_position_embeddings: usize,
    /// ε of the layer normalizations.
    #[serde(default = "layer_norm_eps")]
    pub layer_norm_eps: f32,
    #[serde(default = "gelu")]
    hidden_act: String,
    #[serde(default = "buckets")]
    relative_attention_num_buckets: usize,
    /// Labels of the classification head, by index.
    #[serde(default)]
    pub id2label: Option<Labels>,
}

fn layer_norm_eps() -> f32 {
    1e-12
}

fn gelu() -> String {
    "gelu".to_owned()
}

fn buckets() -> usize {
    BUCKETS
}

impl MpnetConfig {
    /// What `model_type` says of such models.
    pub const TYPE: &str = "mpnet";

    /// Numbers of each head that distances are told apart by.
    pub const BUCKETS: usize = BUCKETS;

    /// The token that takes no position.
    pub const PADDING: u32 = PADDING;

    /// Reads and checks `config.json` in `dir`.
    ///
    /// # Errors
    /// A missing or malformed file, an unsupported architecture or option, or sizes that contradict
    /// each other or are absurd.
    pub fn open(dir: &Path) -> Result<MpnetConfig> {
        super::open(dir, &[MpnetConfig::TYPE], MpnetConfig::check)
    }

    /// The row of the position table that belongs to a sequence's first token.
    pub fn first_position(&self) -> usize {
        PADDING as usize + 1
    }

    /// Longest input in tokens, special tokens included.
    pub fn max_tokens(&self) -> usize {
        // The check on opening leaves at least one.
        self.max_position_embeddings - self.first_position()
    }

    /// The bucket of a distance in tokens, key − query (Raffel et al. 2020, section 2.1): keys behind the query have
    /// the second half. Of each half eight distances have buckets of their own; from there on buckets grow by √2 up to
    /// 128 tokens, and the last one has all beyond, too. Squares tell where one begins: 8 · √2ᵏ ≤ d where 2ᵏ ≤ d² / 64.
    pub fn bucket(distance: isize) -> usize {
        // Far beyond the last edge, and small enough to be squared.
        let far = distance.unsigned_abs().min(1 << 12);
        let side = if far < EXACT {
            far
        } else {
            let steps = (far * far).ilog2() - (EXACT * EXACT).ilog2();
            (EXACT + steps as usize).min(SIDE - 1)
        };
        if distance > 0 { SIDE + side } else { side }
    }

    fn check(&self) -> Result<(), String> {
        if self.hidden_act != "gelu" {
            return Err(format!(
                "hidden_act {:?} is not supported: only \"gelu\" is",
                self.hidden_act
            ));
        }
        if self.relative_attention_num_buckets != BUCKETS {
            return Err(format!(
                "relative_attention_num_buckets {} is not supported: only {BUCKETS} is",
                self.relative_attention_num_buckets
            ));
        }
        check_sizes(&[
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("intermediate_size", self.intermediate_size),
            ("max_position_embeddings", self.max_position_embeddings),
        ])?;
        if self.first_position() >= self.max_position_embeddings {
            return Err(format!(
                "max_position_embeddings {} leaves no position: the first {} are of no token",
                self.max_position_embeddings,
                self.first_position()
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

    const GOOD: &str = r#"{"model_type":"mpnet","vocab_size":10,"hidden_size":8,"num_hidden_layers":2,
        "num_attention_heads":2,"intermediate_size":16,"max_position_embeddings":514,"pad_token_id":1,
        "relative_attention_num_buckets":32}"#;

    fn open(json: &str) -> Result<MpnetConfig> {
        let dir = tempfile::tempdir().expect("temp dir");
        std::fs::write(dir.path().join("config.json"), json).expect("write");
        MpnetConfig::open(dir.path())
    }

    #[test]
    fn positions_begin_behind_the_padding_token() {
        let config = open(GOOD).expect("good");
        assert_eq!((config.first_position(), config.max_tokens()), (2, 512));
        assert_eq!(config.layer_norm_eps, 1e-12);
    }

    /// The first distance of each bucket by the reference's `relative_position_bucket`, to both sides.
    #[test]
    fn buckets_begin_where_those_of_the_reference_do() {
        let begins = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91];
        for (bucket, begin) in begins.into_iter().enumerate() {
            let end = begins.get(bucket + 1).copied().unwrap_or(1000);
            for distance in begin..end {
                assert_eq!(MpnetConfig::bucket(-distance), bucket, "-{distance}");
                if distance > 0 {
                    assert_eq!(MpnetConfig::bucket(distance), 16 + bucket, "{distance}");
                }
            }
        }
        assert_eq!((MpnetConfig::bucket(isize::MIN), MpnetConfig::bucket(isize::MAX)), (15, 31));
    }

    /// The formula of the paper's published program, in double precision, for every distance in the longest input.
    #[test]
    fn buckets_are_those_of_the_formula() {
        for distance in -511isize..=511 {
            let far = distance.unsigned_abs();
            let side = if far < 8 {
                far
            } else {
                let ratio = (far as f64 / 8.0).ln() / (128.0f64 / 8.0).ln();
                // Powers of √2 lie on edges, which rounding must not cross.
                (8 + (ratio * 8.0 + 1e-9) as usize).min(15)
            };
            let expected = if distance > 0 { 16 + side } else { side };
            assert_eq!(MpnetConfig::bucket(distance), expected, "{distance}");
        }
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for (from, to, word) in [
            ("\"mpnet\"", "\"bert\"", "mpnet"),
            (
                "\"relative_attention_num_buckets\":32",
                "\"relative_attention_num_buckets\":64",
                "64",
            ),
            ("\"vocab_size\":10", "\"vocab_size\":10,\"hidden_act\":\"relu\"", "hidden_act"),
            ("\"vocab_size\":10", "\"vocab_size\":0", "vocab_size"),
            (
                "\"max_position_embeddings\":514",
                "\"max_position_embeddings\":2",
                "leaves no position",
            ),
            ("\"hidden_size\":8", "\"hidden_size\":7", "num_attention_heads"),
            ("\"vocab_size\":10", "\"vocab_size\":10,\"layer_norm_eps\":-1", "layer_norm_eps"),
            ("\"hidden_size\":8,", "", "hidden_size"),
        ] {
            let error = open(&GOOD.replacen(from, to, 1)).expect_err(word).to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
