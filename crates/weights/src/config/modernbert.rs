//! ModernBERT.

use std::{collections::HashMap, path::Path};

use serde::Deserialize;

use super::{Labels, RopeParameters, check_epsilon, check_sizes, check_theta};
use crate::Result;

/// Which token a classification head reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenPooling {
    /// The first.
    #[default]
    Cls,
    /// The mean of all.
    Mean,
}

/// Configuration of a ModernBERT (Warner et al. 2024); the fields are the keys of Hugging Face's
/// `config.json`
/// (<https://github.com/huggingface/transformers/blob/main/src/transformers/models/modernbert/configuration_modernbert.py>).
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ModernBertConfig {
    /// Rows of the token embedding table.
    pub vocab_size: usize,
    /// Width of the hidden states.
    pub hidden_size: usize,
    /// Width of the feed-forward layer.
    pub intermediate_size: usize,
    /// Transformer layers.
    pub num_hidden_layers: usize,
    /// Attention heads; divides `hidden_size`.
    pub num_attention_heads: usize,
    /// Positions the model was made for.
    pub max_position_embeddings: usize,
    #[serde(default = "gelu")]
    hidden_activation: String,
    #[serde(default = "gelu")]
    classifier_activation: String,
    /// ε of the normalizations.
    #[serde(default = "norm_eps")]
    pub norm_eps: f32,
    /// Normalizations have a bias.
    #[serde(default)]
    pub norm_bias: bool,
    /// Products of the attention have a bias.
    #[serde(default)]
    pub attention_bias: bool,
    /// Products of the feed-forward layer have a bias.
    #[serde(default)]
    pub mlp_bias: bool,
    /// The dense product of the classification head has a bias.
    #[serde(default)]
    pub classifier_bias: bool,
    /// What the classification head reads.
    #[serde(default)]
    pub classifier_pooling: TokenPooling,
    #[serde(default = "local_attention")]
    local_attention: usize,
    #[serde(default = "every_third")]
    global_attn_every_n_layers: usize,
    #[serde(default)]
    layer_types: Option<Vec<String>>,
    #[serde(default = "global_theta")]
    global_rope_theta: f32,
    #[serde(default)]
    local_rope_theta: Option<f32>,
    #[serde(default)]
    rope_parameters: Option<HashMap<String, RopeParameters>>,
    /// Labels of the classification head, by index.
    #[serde(default)]
    pub id2label: Option<Labels>,
}

fn gelu() -> String {
    "gelu".to_owned()
}

fn norm_eps() -> f32 {
    1e-5
}

fn local_attention() -> usize {
    128
}

fn every_third() -> usize {
    3
}

fn global_theta() -> f32 {
    160_000.0
}

const FULL: &str = "full_attention";
const LOCAL: &str = "sliding_attention";

impl ModernBertConfig {
    /// Reads and checks `config.json` in `dir`.
    ///
    /// # Errors
    /// A missing or malformed file, an unsupported architecture or option, or sizes that contradict
    /// each other or are absurd.
    pub fn open(dir: &Path) -> Result<ModernBertConfig> {
        super::open(dir, &["modernbert"], ModernBertConfig::check)
    }

    /// Whether layer `layer` (from 0) sees the whole sequence, and not only the neighborhood.
    pub fn is_global(&self, layer: usize) -> bool {
        match &self.layer_types {
            Some(types) => types.get(layer).is_none_or(|it| it == FULL),
            None => layer.is_multiple_of(self.global_attn_every_n_layers),
        }
    }

    /// Places to each side that a local layer sees.
    pub fn reach(&self) -> usize {
        self.local_attention / 2
    }

    /// Base of the rotary frequencies of global and of local layers.
    pub fn rope_thetas(&self) -> [f32; 2] {
        let of = |kind: &str, old: f32| {
            let new = self.rope_parameters.as_ref().and_then(|it| it.get(kind));
            new.and_then(|it| it.rope_theta).unwrap_or(old)
        };
        // Where nothing is said of the local ones, they are as the global ones.
        let local = self.local_rope_theta.unwrap_or(match &self.rope_parameters {
            Some(_) => self.global_rope_theta,
            None => 10_000.0,
        });
        [of(FULL, self.global_rope_theta), of(LOCAL, local)]
    }

    /// The gate of the feed-forward layer is SiLU instead of GELU, as in Granite's multilingual embedder of 97 M
    /// parameters.
    pub fn is_silu(&self) -> bool {
        self.hidden_activation == "silu"
    }

    /// Checks what only the classification head needs: embedders, and heads in folders of their own, state an
    /// activation that nobody computes.
    ///
    /// # Errors
    /// An activation that is not computed here.
    pub fn check_head(&self) -> Result<(), String> {
        if self.classifier_activation != "gelu" {
            return Err(format!(
                "classifier_activation {:?} is not supported: only \"gelu\" is",
                self.classifier_activation
            ));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        check_sizes(&[
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("max_position_embeddings", self.max_position_embeddings),
            ("global_attn_every_n_layers", self.global_attn_every_n_layers),
            ("local_attention", self.local_attention),
        ])?;
        if !matches!(self.hidden_activation.as_str(), "gelu" | "silu") {
            return Err(format!(
                "hidden_activation {:?} is not supported: \"gelu\" and \"silu\" are",
                self.hidden_activation
            ));
        }
        if !self.hidden_size.is_multiple_of(2 * self.num_attention_heads) {
            return Err(format!(
                "hidden_size {} does not give num_attention_heads {} an even width each",
                self.hidden_size, self.num_attention_heads
            ));
        }
        if let Some(types) = &self.layer_types {
            let unknown = types.iter().find(|it| *it != FULL && *it != LOCAL);
            if unknown.is_some() || types.len() != self.num_hidden_layers {
                return Err(format!(
                    "layer_types must name {FULL:?} or {LOCAL:?} for each of the {} layers",
                    self.num_hidden_layers
                ));
            }
        }
        for rope in self.rope_parameters.iter().flat_map(HashMap::values) {
            rope.check()?;
        }
        for theta in self.rope_thetas() {
            check_theta(theta)?;
        }
        check_epsilon("norm_eps", self.norm_eps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"model_type":"modernbert","vocab_size":10,"hidden_size":8,"intermediate_size":16,
        "num_hidden_layers":4,"num_attention_heads":2,"max_position_embeddings":12}"#;

    fn open(more: &str) -> Result<ModernBertConfig> {
        let dir = tempfile::tempdir().expect("temp dir");
        let json = GOOD.replacen('}', &format!("{more}}}"), 1);
        std::fs::write(dir.path().join("config.json"), json).expect("write");
        ModernBertConfig::open(dir.path())
    }

    #[test]
    fn old_and_new_style_say_the_same() {
        let old = open("").expect("good");
        let new = open(
            r#","layer_types":["full_attention","sliding_attention","sliding_attention","full_attention"],
            "rope_parameters":{"full_attention":{"rope_theta":160000.0,"rope_type":"default"},
            "sliding_attention":{"rope_theta":10000.0,"rope_type":"default"}}"#,
        )
        .expect("good");
        for config in [old, new] {
            let global: Vec<bool> = (0..4).map(|it| config.is_global(it)).collect();
            assert_eq!(global, [true, false, false, true]);
            assert_eq!((config.rope_thetas(), config.reach()), ([160_000.0, 10_000.0], 64));
            assert_eq!(config.classifier_pooling, TokenPooling::Cls);
        }
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for (more, word) in [
            (r#","hidden_activation":"relu""#, "hidden_activation"),
            (r#","classifier_pooling":"max""#, "max"),
            (r#","global_attn_every_n_layers":0"#, "global_attn_every_n_layers"),
            (r#","layer_types":["full_attention"]"#, "layer_types"),
            (r#","layer_types":["full_attention","odd","odd","odd"]"#, "layer_types"),
            (r#","rope_parameters":{"full_attention":{"rope_type":"yarn"}}"#, "yarn"),
            (r#","norm_eps":-1.0"#, "norm_eps"),
        ] {
            let error = open(more).expect_err(word).to_string();
            assert!(error.contains(word), "{error}");
        }
    }
    #[test]
    fn the_heads_activation_matters_to_a_head_alone() {
        for other in ["silu", "tanh", "relu", "of_the_future"] {
            let config = open(&format!(r#","classifier_activation":"{other}""#)).expect("no head");
            assert!(config.check_head().expect_err(other).contains(other));
        }
        open("").expect("good").check_head().expect("the usual one");
    }
}
