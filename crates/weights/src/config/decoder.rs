//! Decoders that score: Qwen3 rerankers and MiniCPM layerwise rerankers.

use std::path::Path;

use serde::Deserialize;

use super::{RopeParameters, check_epsilon, check_sizes, check_theta};
use crate::Result;

/// Decoders that compute alike and differ in scales, norms and heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum DecoderFamily {
    /// Qwen3 (Yang et al. 2025): queries and keys are normalized head by head.
    #[serde(rename = "qwen3")]
    Qwen3,
    /// MiniCPM (Hu et al. 2024) as in bge-reranker-v2-minicpm-layerwise: scaled embeddings and residuals, a
    /// head for every layer from `start_layer` on.
    #[serde(rename = "minicpm")]
    MiniCpm,
}

/// Configuration of a decoder; the fields are the keys of Hugging Face's `config.json`
/// (<https://github.com/huggingface/transformers/blob/main/src/transformers/models/qwen3/configuration_qwen3.py>).
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DecoderConfig {
    /// Which architecture.
    #[serde(rename = "model_type")]
    pub family: DecoderFamily,
    /// Class names; they tell a reranker from a chat model.
    #[serde(default)]
    pub architectures: Option<Vec<String>>,
    /// Rows of the token embedding table.
    pub vocab_size: usize,
    /// Width of the hidden states.
    pub hidden_size: usize,
    /// Width of the feed-forward layer.
    pub intermediate_size: usize,
    /// Transformer layers.
    pub num_hidden_layers: usize,
    /// Heads of the queries.
    pub num_attention_heads: usize,
    /// Heads of keys and values; as many as of the queries where nothing is said.
    #[serde(default)]
    num_key_value_heads: Option<usize>,
    /// Elements per head; see [`head_dim`](Self::head_dim).
    #[serde(default)]
    head_dim: Option<usize>,
    /// Activation of the feed-forward gate; `silu` is supported.
    #[serde(default = "silu")]
    pub hidden_act: String,
    /// Positions the model was made for.
    pub max_position_embeddings: usize,
    /// ε of the normalizations.
    #[serde(default = "rms_norm_eps")]
    pub rms_norm_eps: f32,
    /// The output matrix is the embedding table.
    #[serde(default)]
    pub tie_word_embeddings: bool,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    use_sliding_window: bool,
    #[serde(default)]
    layer_types: Option<Vec<String>>,
    #[serde(default)]
    rope_theta: Option<f32>,
    #[serde(default)]
    rope_scaling: Option<RopeParameters>,
    #[serde(default)]
    rope_parameters: Option<RopeParameters>,
    /// MiniCPM: factor of the token embeddings.
    #[serde(default = "one")]
    pub scale_emb: f32,
    /// MiniCPM: factor of what a layer adds, before it is divided by the root of the layers.
    #[serde(default = "one")]
    pub scale_depth: f32,
    /// MiniCPM layerwise: first layer with a head, from 1.
    #[serde(default = "start_layer")]
    pub start_layer: usize,
    #[serde(default)]
    head_type: Option<String>,
    #[serde(default)]
    head_multi: Option<bool>,
    /// The token that begins a sequence.
    #[serde(default)]
    pub bos_token_id: Option<u32>,
}

fn silu() -> String {
    "silu".to_owned()
}

fn rms_norm_eps() -> f32 {
    1e-6
}

fn one() -> f32 {
    1.0
}

fn start_layer() -> usize {
    8
}

impl DecoderConfig {
    /// Reads and checks `config.json` in `dir`.
    ///
    /// # Errors
    /// A missing or malformed file, an unsupported architecture or option, or sizes that contradict
    /// each other or are absurd.
    pub fn open(dir: &Path) -> Result<DecoderConfig> {
        super::open(dir, &["qwen3", "minicpm"], DecoderConfig::check)
    }

    /// Heads of keys and values.
    pub fn kv_heads(&self) -> usize {
        self.num_key_value_heads.unwrap_or(self.num_attention_heads)
    }

    /// Elements per head. Qwen3 chooses it freely (128 where nothing is said), MiniCPM divides the width.
    pub fn head_dim(&self) -> usize {
        match self.family {
            DecoderFamily::Qwen3 => self.head_dim.unwrap_or(128),
            DecoderFamily::MiniCpm => self.hidden_size / self.num_attention_heads,
        }
    }

    /// Base of the rotary frequencies.
    pub fn rope_theta(&self) -> f32 {
        let parameters = self.rope_parameters.as_ref().and_then(|it| it.rope_theta);
        parameters.or(self.rope_theta).unwrap_or(10_000.0)
    }

    /// Factor of what a layer adds to its input.
    pub fn residual_scale(&self) -> f32 {
        match self.family {
            DecoderFamily::Qwen3 => 1.0,
            // By the layers of the configuration, however many run.
            DecoderFamily::MiniCpm => self.scale_depth / (self.num_hidden_layers as f32).sqrt(),
        }
    }

    /// Factor of the token embeddings.
    pub fn embedding_scale(&self) -> f32 {
        match self.family {
            DecoderFamily::Qwen3 => 1.0,
            DecoderFamily::MiniCpm => self.scale_emb,
        }
    }

    fn check(&self) -> Result<(), String> {
        check_sizes(&[
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.kv_heads()),
            ("max_position_embeddings", self.max_position_embeddings),
        ])?;
        check_sizes(&[("head_dim", self.head_dim())])?;
        if !self.num_attention_heads.is_multiple_of(self.kv_heads()) {
            return Err(format!(
                "num_attention_heads {} is not a multiple of num_key_value_heads {}",
                self.num_attention_heads,
                self.kv_heads()
            ));
        }
        if !self.head_dim().is_multiple_of(2) {
            return Err(format!("head_dim {} can not be halved", self.head_dim()));
        }
        let local = |it: &String| it != "full_attention";
        let unsupported = [
            (self.hidden_act != "silu", format!("hidden_act {:?}", self.hidden_act)),
            (self.attention_bias, "attention_bias".to_owned()),
            (self.use_sliding_window, "use_sliding_window".to_owned()),
            (
                self.layer_types.as_ref().is_some_and(|it| it.iter().any(local)),
                "a layer_types entry other than \"full_attention\"".to_owned(),
            ),
        ];
        if let Some((_, what)) = unsupported.into_iter().find(|it| it.0) {
            return Err(format!("{what} is not supported"));
        }
        for rope in self.rope_scaling.iter().chain(&self.rope_parameters) {
            rope.check()?;
        }
        check_theta(self.rope_theta())?;
        check_epsilon("rms_norm_eps", self.rms_norm_eps)?;
        if self.family == DecoderFamily::MiniCpm { self.check_layerwise() } else { Ok(()) }
    }

    fn check_layerwise(&self) -> Result<(), String> {
        let layerwise = |it: &String| it.starts_with("LayerWise");
        if !self.architectures.as_ref().is_some_and(|it| it.iter().any(layerwise)) {
            return Err("a MiniCPM without heads for its layers is no reranker: \
                        LayerWiseMiniCPMForCausalLM is supported"
                .to_owned());
        }
        if self.head_type.as_deref().is_some_and(|it| it != "simple")
            || self.head_multi == Some(false)
        {
            return Err("only head_type \"simple\" with head_multi is supported".to_owned());
        }
        if !(1..=self.num_hidden_layers).contains(&self.start_layer) {
            return Err(format!(
                "start_layer {} is none of the {} layers",
                self.start_layer, self.num_hidden_layers
            ));
        }
        check_epsilon("scale_emb", self.scale_emb)?;
        check_epsilon("scale_depth", self.scale_depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QWEN: &str = r#"{"model_type":"qwen3","vocab_size":10,"hidden_size":8,"intermediate_size":16,
        "num_hidden_layers":2,"num_attention_heads":4,"max_position_embeddings":12}"#;
    const MINICPM: &str = r#"{"model_type":"minicpm","architectures":["LayerWiseMiniCPMForCausalLM"],"vocab_size":10,
        "hidden_size":8,"intermediate_size":16,"num_hidden_layers":16,"num_attention_heads":4,
        "max_position_embeddings":12,"scale_depth":1.4,"scale_emb":12}"#;

    fn open(json: &str) -> Result<DecoderConfig> {
        let dir = tempfile::tempdir().expect("temp dir");
        std::fs::write(dir.path().join("config.json"), json).expect("write");
        DecoderConfig::open(dir.path())
    }

    #[test]
    fn defaults_are_those_of_the_references() {
        let qwen = open(QWEN).expect("good");
        assert_eq!((qwen.kv_heads(), qwen.head_dim(), qwen.rope_theta()), (4, 128, 10_000.0));
        assert_eq!((qwen.residual_scale(), qwen.embedding_scale()), (1.0, 1.0));
        let minicpm = open(MINICPM).expect("good");
        assert_eq!((minicpm.head_dim(), minicpm.start_layer), (2, 8));
        assert_eq!((minicpm.residual_scale(), minicpm.embedding_scale()), (0.35, 12.0));
    }

    #[test]
    fn both_styles_of_rotary_positions_are_read() {
        let old = QWEN.replacen('}', r#","rope_theta":1e6,"rope_scaling":null}"#, 1);
        let new = r#","rope_parameters":{"rope_theta":1e6,"rope_type":"default"}}"#;
        assert_eq!(open(&old).expect("good").rope_theta(), 1e6);
        assert_eq!(open(&QWEN.replacen('}', new, 1)).expect("good").rope_theta(), 1e6);
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for (json, more, word) in [
            (QWEN, r#""hidden_act":"gelu""#, "gelu"),
            (QWEN, r#""attention_bias":true"#, "attention_bias"),
            (QWEN, r#""use_sliding_window":true"#, "use_sliding_window"),
            (QWEN, r#""layer_types":["full_attention","sliding_attention"]"#, "layer_types"),
            (QWEN, r#""rope_scaling":{"type":"yarn","factor":4.0}"#, "yarn"),
            (QWEN, r#""rope_parameters":{"rope_theta":-1.0}"#, "rope_theta"),
            (QWEN, r#""num_key_value_heads":3"#, "num_key_value_heads"),
            (QWEN, r#""num_key_value_heads":0"#, "num_key_value_heads"),
            (QWEN, r#""head_dim":7"#, "head_dim"),
            (QWEN, r#""head_dim":99999999999"#, "head_dim"),
            (MINICPM, r#""head_type":"raw""#, "head_type"),
            (MINICPM, r#""head_multi":false"#, "head_multi"),
            (MINICPM, r#""start_layer":17"#, "start_layer"),
            (MINICPM, r#""start_layer":0"#, "start_layer"),
        ] {
            let json = json.replacen('}', &format!(",{more}}}"), 1);
            let error = open(&json).expect_err(word).to_string();
            assert!(error.contains(word), "{error}");
        }
        let chat = MINICPM.replace("LayerWiseMiniCPMForCausalLM", "MiniCPMForCausalLM");
        assert!(open(&chat).expect_err("no reranker").to_string().contains("reranker"));
    }
}
