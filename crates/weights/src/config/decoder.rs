//! Decoders that score or embed: Qwen2, Qwen3, MiniCPM layerwise and Gemma 3.

use std::path::Path;

use serde::Deserialize;

use super::{Rope, check_epsilon, check_sizes, check_theta};
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
    /// Qwen2 (Yang et al. 2024): queries, keys and values have a bias, and heads no norm.
    #[serde(rename = "qwen2")]
    Qwen2,
    /// Gemma 3 (Kamath et al. 2025): what a layer adds is normalized too, gains count from one, and most layers see
    /// their neighborhood alone. Embedders of it see both sides.
    #[serde(rename = "gemma3_text")]
    Gemma3,
}

const FULL: &str = "full_attention";
const LOCAL: &str = "sliding_attention";

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
    /// Activation of the feed-forward gate; each family has one.
    #[serde(default)]
    hidden_act: Option<String>,
    /// Gemma's name for it.
    #[serde(default)]
    hidden_activation: Option<String>,
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
    /// Gemma 3: base of the rotary frequencies of layers that see their neighborhood.
    #[serde(default)]
    rope_local_base_freq: Option<f32>,
    #[serde(default)]
    rope_scaling: Option<Rope>,
    #[serde(default)]
    rope_parameters: Option<Rope>,
    /// Gemma 3: tokens that a local layer sees, both sides together.
    #[serde(default)]
    sliding_window: Option<usize>,
    /// Gemma 3: each so many layers one sees everything.
    #[serde(default, alias = "_sliding_window_pattern")]
    sliding_window_pattern: Option<usize>,
    #[serde(default)]
    use_bidirectional_attention: Option<bool>,
    /// Gemma 3: the number whose root divides attention's products, in place of the width of a head.
    #[serde(default)]
    query_pre_attn_scalar: Option<f32>,
    #[serde(default)]
    attn_logit_softcapping: Option<f32>,
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
    /// What `model_type` says of such models.
    pub const TYPES: [&str; 4] = ["qwen3", "minicpm", "qwen2", "gemma3_text"];

    /// Reads and checks `config.json` in `dir`.
    ///
    /// # Errors
    /// A missing or malformed file, an unsupported architecture or option, or sizes that contradict
    /// each other or are absurd.
    pub fn open(dir: &Path) -> Result<DecoderConfig> {
        super::open(dir, &DecoderConfig::TYPES, DecoderConfig::check)
    }

    /// Heads of keys and values.
    pub fn kv_heads(&self) -> usize {
        self.num_key_value_heads.unwrap_or(self.num_attention_heads)
    }

    /// Elements per head. Qwen3 chooses it freely (128 where nothing is said), as Gemma 3 does (256); the others divide
    /// the width.
    pub fn head_dim(&self) -> usize {
        match self.family {
            DecoderFamily::Qwen3 => self.head_dim.unwrap_or(128),
            DecoderFamily::Gemma3 => self.head_dim.unwrap_or(256),
            DecoderFamily::MiniCpm | DecoderFamily::Qwen2 => {
                self.hidden_size / self.num_attention_heads
            }
        }
    }

    /// Base of the rotary frequencies of layers that see everything.
    pub fn rope_theta(&self) -> f32 {
        let base = if self.family == DecoderFamily::Gemma3 { 1_000_000.0 } else { 10_000.0 };
        self.theta_of(FULL).or(self.rope_theta).unwrap_or(base)
    }

    /// The same of layers that see their neighborhood.
    pub fn local_rope_theta(&self) -> f32 {
        self.theta_of(LOCAL).or(self.rope_local_base_freq).unwrap_or(10_000.0)
    }

    fn theta_of(&self, kind: &str) -> Option<f32> {
        self.rope_parameters.as_ref()?.theta(kind)
    }

    /// Places to each side that layer `layer` (from 0) sees; `None`: all.
    pub fn reach(&self, layer: usize) -> Option<usize> {
        let local = match &self.layer_types {
            Some(types) => types.get(layer).is_some_and(|it| it == LOCAL),
            None => {
                self.family == DecoderFamily::Gemma3
                    && !(layer + 1).is_multiple_of(self.sliding_window_pattern.unwrap_or(6).max(1))
            }
        };
        local.then(|| self.sliding_window.unwrap_or(4096) / 2)
    }

    /// Whether a token sees those after it.
    pub fn is_bidirectional(&self) -> bool {
        self.family == DecoderFamily::Gemma3
    }

    /// Whether queries and keys are normalized head by head.
    pub fn has_head_norms(&self) -> bool {
        matches!(self.family, DecoderFamily::Qwen3 | DecoderFamily::Gemma3)
    }

    /// Whether queries, keys and values have a bias.
    pub fn has_biases(&self) -> bool {
        self.family == DecoderFamily::Qwen2
    }

    /// Factor of the queries beside the one over the root of a head's width that attention always has.
    pub fn query_scale(&self) -> f32 {
        let width = self.head_dim() as f32;
        match self.family {
            DecoderFamily::Gemma3 => (width / self.query_pre_attn_scalar.unwrap_or(256.0)).sqrt(),
            _ => 1.0,
        }
    }

    /// Factor of what a layer adds to its input.
    pub fn residual_scale(&self) -> f32 {
        match self.family {
            // By the layers of the configuration, however many run.
            DecoderFamily::MiniCpm => self.scale_depth / (self.num_hidden_layers as f32).sqrt(),
            _ => 1.0,
        }
    }

    /// Factor of the token embeddings.
    pub fn embedding_scale(&self) -> f32 {
        match self.family {
            DecoderFamily::MiniCpm => self.scale_emb,
            DecoderFamily::Gemma3 => (self.hidden_size as f32).sqrt(),
            DecoderFamily::Qwen2 | DecoderFamily::Qwen3 => 1.0,
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
        let is_gemma = self.family == DecoderFamily::Gemma3;
        let unknown = |it: &String| it != FULL && !(is_gemma && it == LOCAL);
        let expected = if is_gemma { "gelu_pytorch_tanh" } else { "silu" };
        let activation = self.hidden_activation.as_deref().or(self.hidden_act.as_deref());
        let activation = activation.unwrap_or(expected);
        let unsupported = [
            (activation != expected, format!("hidden_act {activation:?}")),
            (self.attention_bias, "attention_bias".to_owned()),
            (self.use_sliding_window, "use_sliding_window".to_owned()),
            (
                self.layer_types.as_ref().is_some_and(|it| it.iter().any(unknown)),
                "a layer_types entry other than \"full_attention\"".to_owned(),
            ),
            (
                is_gemma && self.use_bidirectional_attention != Some(true),
                "a Gemma 3 that reads in one direction only (use_bidirectional_attention)"
                    .to_owned(),
            ),
            (self.attn_logit_softcapping.is_some(), "attn_logit_softcapping".to_owned()),
        ];
        if let Some((_, what)) = unsupported.into_iter().find(|it| it.0) {
            return Err(format!("{what} is not supported"));
        }
        for rope in self.rope_scaling.iter().chain(&self.rope_parameters) {
            rope.check()?;
        }
        check_theta(self.rope_theta())?;
        check_theta(self.local_rope_theta())?;
        let scale = self.query_scale();
        if !scale.is_finite() || scale <= 0.0 {
            return Err(format!("query_pre_attn_scalar gives queries the factor {scale}"));
        }
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
    fn layers_of_gemma_see_their_neighborhood_but_for_every_sixth() {
        let gemma = QWEN.replace("qwen3", "gemma3_text").replacen(
            '}',
            r#","use_bidirectional_attention":true,"sliding_window":8}"#,
            1,
        );
        let config = open(&gemma).expect("good");
        let reaches: Vec<Option<usize>> = (0..7).map(|it| config.reach(it)).collect();
        assert_eq!(reaches[..5], [Some(4); 5]);
        assert_eq!(reaches[5..], [None, Some(4)]);
        assert_eq!((config.rope_theta(), config.local_rope_theta()), (1e6, 1e4));
        assert_eq!((config.query_scale(), config.head_dim()), (1.0, 256));
        let named = r#","layer_types":["full_attention","sliding_attention"],"query_pre_attn_scalar":64,
            "rope_parameters":{"full_attention":{"rope_theta":5.0},"sliding_attention":{"rope_theta":3.0}}}"#;
        let config = open(&gemma.replacen('}', named, 1)).expect("good");
        assert_eq!((config.reach(0), config.reach(1), config.query_scale()), (None, Some(4), 2.0));
        assert_eq!((config.rope_theta(), config.local_rope_theta()), (5.0, 3.0));
        let causal = gemma.replace("\"use_bidirectional_attention\":true,", "");
        assert!(open(&causal).expect_err("causal").to_string().contains("direction"));
    }

    #[test]
    fn a_model_with_a_program_of_its_own_is_refused() {
        let code = QWEN.replacen('}', r#","auto_map":{"AutoModel":"modeling.Other"}}"#, 1);
        let error = open(&code).expect_err("code").to_string();
        assert!(error.contains("modeling.Other") && error.contains("program"), "{error}");
        let only_config = QWEN.replacen('}', r#","auto_map":{"AutoConfig":"configuration.C"}}"#, 1);
        open(&only_config).expect("nothing that computes");
        let known = MINICPM.replacen('}', r#","auto_map":{"AutoModel":"modeling.Other"}}"#, 1);
        open(&known).expect("its computation is known");
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
