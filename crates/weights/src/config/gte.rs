//! The multilingual GTE encoders (mGTE: Zhang et al. 2024), published under the name `new`.

use std::path::Path;

use serde::Deserialize;

use super::{Labels, check_epsilon, check_sizes, check_theta};
use crate::Result;

/// Configuration of a GTE encoder; the fields are the keys of its `config.json`
/// (<https://huggingface.co/Alibaba-NLP/gte-multilingual-reranker-base>).
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct GteConfig {
    /// Rows of the token embedding table.
    pub vocab_size: usize,
    /// Width of the hidden states.
    pub hidden_size: usize,
    /// Transformer layers.
    pub num_hidden_layers: usize,
    /// Attention heads; gives each an even share of `hidden_size`.
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
    /// Base of the rotary frequencies.
    #[serde(default = "rope_theta")]
    pub rope_theta: f32,
    #[serde(default)]
    rope_scaling: Option<Scaling>,
    #[serde(default = "gelu")]
    hidden_act: String,
    #[serde(default)]
    position_embedding_type: Option<String>,
    #[serde(default)]
    layer_norm_type: Option<String>,
    #[serde(default)]
    logn_attention_scale: bool,
    #[serde(default = "yes")]
    pack_qkv: bool,
    /// Labels of the classification head, by index.
    #[serde(default)]
    pub id2label: Option<Labels>,
}

/// How rotary positions are stretched.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Scaling {
    #[serde(rename = "type", alias = "rope_type")]
    kind: String,
    factor: f32,
    #[serde(default)]
    mixed_b: Option<f32>,
}

fn layer_norm_eps() -> f32 {
    1e-12
}

fn rope_theta() -> f32 {
    10_000.0
}

fn gelu() -> String {
    "gelu".to_owned()
}

fn yes() -> bool {
    true
}

impl GteConfig {
    /// What `model_type` says of such models.
    pub const TYPE: &str = "new";

    /// Reads and checks `config.json` in `dir`.
    ///
    /// # Errors
    /// A missing or malformed file, an unsupported architecture or option, or sizes that contradict
    /// each other or are absurd.
    pub fn open(dir: &Path) -> Result<GteConfig> {
        super::open(dir, &[GteConfig::TYPE], GteConfig::check)
    }

    /// Elements of a head.
    pub fn head_dim(&self) -> usize {
        self.hidden_size / self.num_attention_heads
    }

    /// Base of the rotary frequencies, and what each of them is divided by: θ · s and s^(2/d) of heads of d elements
    /// where positions are stretched s times (fixed NTK, <https://kexue.fm/archives/9706>, equation 6).
    pub fn rotary(&self) -> (f32, f32) {
        let factor = self.rope_scaling.as_ref().map_or(1.0, |it| it.factor);
        (self.rope_theta * factor, factor.powf(2.0 / self.head_dim() as f32))
    }

    fn check(&self) -> Result<(), String> {
        check_sizes(&[
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("intermediate_size", self.intermediate_size),
            ("max_position_embeddings", self.max_position_embeddings),
            // None is one that is never added.
            ("type_vocab_size", self.type_vocab_size.max(1)),
        ])?;
        let named = |key: &str, said: Option<&str>, known: &str| match said {
            Some(said) if said != known => {
                Err(format!("{key} {said:?} is not supported: only {known:?} is"))
            }
            _ => Ok(()),
        };
        named("hidden_act", Some(&self.hidden_act), "gelu")?;
        named("position_embedding_type", self.position_embedding_type.as_deref(), "rope")?;
        named("layer_norm_type", self.layer_norm_type.as_deref(), "layer_norm")?;
        if self.logn_attention_scale {
            return Err("logn_attention_scale is not supported".to_owned());
        }
        if !self.pack_qkv {
            return Err("pack_qkv false is not supported".to_owned());
        }
        if !self.hidden_size.is_multiple_of(2 * self.num_attention_heads) {
            return Err(format!(
                "hidden_size {} does not give num_attention_heads {} an even width each",
                self.hidden_size, self.num_attention_heads
            ));
        }
        if let Some(Scaling { kind, factor, mixed_b }) = &self.rope_scaling {
            named("rope_scaling type", Some(kind), "ntk")?;
            if mixed_b.is_some() {
                return Err("rope_scaling with mixed_b is not supported".to_owned());
            }
            if !(factor.is_finite() && *factor >= 1.0) {
                return Err(format!("rope_scaling factor {factor} is not a number of 1 or more"));
            }
        }
        check_theta(self.rotary().0)?;
        check_epsilon("layer_norm_eps", self.layer_norm_eps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"model_type":"new","vocab_size":10,"hidden_size":8,"num_hidden_layers":2,
        "num_attention_heads":2,"intermediate_size":16,"max_position_embeddings":12,"rope_theta":20000}"#;

    fn open(more: &str) -> Result<GteConfig> {
        let dir = tempfile::tempdir().expect("temp dir");
        let json = GOOD.replacen('}', &format!("{more}}}"), 1);
        std::fs::write(dir.path().join("config.json"), json).expect("write");
        GteConfig::open(dir.path())
    }

    #[test]
    fn frequencies_are_stretched_as_the_configuration_says() {
        assert_eq!(open("").expect("good").rotary(), (20_000.0, 1.0));
        let stretched = open(r#","rope_scaling":{"type":"ntk","factor":4.0}"#).expect("good");
        assert_eq!(stretched.rotary(), (80_000.0, 2.0));
        assert_eq!(open(r#","rope_scaling":null"#).expect("good").rotary(), (20_000.0, 1.0));
    }

    /// A program that comes with the weights is never run: what it computes is known by its class, or refused.
    #[test]
    fn the_class_of_a_program_must_be_one_that_is_known() {
        let with = |class: &str| {
            open(&format!(r#","auto_map":{{"AutoConfig":"x.C","AutoModel":"{class}"}}"#))
        };
        for known in ["Alibaba-NLP/new-impl--modeling.NewModel", "modeling.NewModel"] {
            with(known).expect(known);
        }
        for other in
            ["modeling.NewModelTwo", "Alibaba-NLP/new-impl--modeling.", "NewModel.Other", ""]
        {
            let error = with(other).expect_err(other).to_string();
            assert!(error.contains("a program of its own"), "{error}");
        }
        let two = r#","auto_map":{"AutoModel":"modeling.NewModel","AutoModelForSequenceClassification":"own.Code"}"#;
        let error = open(two).expect_err("one of two is unknown").to_string();
        assert!(error.contains("own.Code"), "{error}");
        assert!(open(r#","auto_map":{"AutoModel":["modeling.NewModel"]}"#).is_err());
        assert!(open(r#","auto_map":["modeling.NewModel"]"#).is_err());
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for (more, word) in [
            (r#","hidden_act":"relu""#, "hidden_act"),
            (r#","position_embedding_type":"absolute""#, "position_embedding_type"),
            (r#","layer_norm_type":"rms_norm""#, "layer_norm_type"),
            (r#","logn_attention_scale":true"#, "logn_attention_scale"),
            (r#","pack_qkv":false"#, "pack_qkv"),
            (r#","rope_scaling":{"type":"dynamic","factor":2}"#, "dynamic"),
            (r#","rope_scaling":{"type":"ntk","factor":0.5}"#, "factor"),
            (r#","rope_scaling":{"type":"ntk","factor":2,"mixed_b":0.6}"#, "mixed_b"),
            (r#","rope_scaling":{"type":"ntk","factor":1e38}"#, "rope_theta"),
            (r#","layer_norm_eps":-1.0"#, "layer_norm_eps"),
        ] {
            let error = open(more).expect_err(word).to_string();
            assert!(error.contains(word), "{error}");
        }
        let narrow = r#"{"model_type":"new","vocab_size":10,"hidden_size":6,"num_hidden_layers":2,
            "num_attention_heads":2,"intermediate_size":16,"max_position_embeddings":12}"#;
        let dir = tempfile::tempdir().expect("temp dir");
        std::fs::write(dir.path().join("config.json"), narrow).expect("write");
        let error = GteConfig::open(dir.path()).expect_err("odd heads").to_string();
        assert!(error.contains("even width"), "{error}");
    }
}
