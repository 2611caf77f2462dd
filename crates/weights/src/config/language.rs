//! The metadata of a GGUF language model, read strictly.

use super::{check_epsilon, check_sizes, check_theta};
use crate::{Error, Result, gguf::Gguf};

/// Decoders that compute alike and differ in norms, biases, positions and gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LanguageFamily {
    /// Llama (Touvron et al. 2023) and those that are stored as it: Mistral, Mixtral, SmolLM 1 and 2.
    Llama,
    /// SmolLM 3: Llama without positions in every fourth layer.
    SmolLm3,
    /// Qwen 2 and 2.5: biases of queries, keys and values.
    Qwen2,
    /// Qwen 3 (Yang et al. 2025): queries and keys are normalized head by head.
    Qwen3,
    /// Qwen 3 whose feed-forward layers are mixtures of experts.
    Qwen3Moe,
    /// Phi 2 (Javaheripi et al. 2023): attention and the feed-forward layer, which has no gate, read the same states;
    /// norms subtract the mean, products have biases, and the first part of each head is rotated.
    Phi2,
    /// Phi 3 and 3.5 mini: matrices of queries, keys and values, and of gate and up, stored as one.
    Phi3,
    /// Gemma 2 (Gemma Team 2024): norms after each part, capped scores, every other layer sees a window.
    Gemma2,
    /// Gemma 3 (Gemma Team 2025): norms of heads, five of six layers see a window.
    Gemma3,
    /// GLM 4 of April 2025 (GLM Team 2024): norms after each part, half of each head is rotated, matrices of gate and
    /// up stored as one.
    Glm4,
    /// LFM 2 (Liquid AI 2025): most layers mix tokens by a short convolution, the others by attention with normalized
    /// heads.
    Lfm2,
}

impl LanguageFamily {
    /// With the names that files give them.
    const NAMES: [(&'static str, LanguageFamily); 11] = [
        ("llama", LanguageFamily::Llama),
        ("smollm3", LanguageFamily::SmolLm3),
        ("qwen2", LanguageFamily::Qwen2),
        ("qwen3", LanguageFamily::Qwen3),
        ("qwen3moe", LanguageFamily::Qwen3Moe),
        ("phi2", LanguageFamily::Phi2),
        ("phi3", LanguageFamily::Phi3),
        ("gemma2", LanguageFamily::Gemma2),
        ("gemma3", LanguageFamily::Gemma3),
        ("glm4", LanguageFamily::Glm4),
        ("lfm2", LanguageFamily::Lfm2),
    ];

    /// Whether each head of queries and keys is normalized.
    pub fn normalizes_heads(self) -> bool {
        use LanguageFamily::{Gemma3, Lfm2, Qwen3, Qwen3Moe};
        matches!(self, Qwen3 | Qwen3Moe | Gemma3 | Lfm2)
    }

    /// Whether what attention and the feed-forward layer add is normalized.
    pub fn normalizes_parts(self) -> bool {
        self.is_gemma() || self == LanguageFamily::Glm4
    }

    /// Whether attention and the feed-forward layer read the same normalized states, side by side, and all norms and
    /// products have biases.
    pub fn is_parallel(self) -> bool {
        self == LanguageFamily::Phi2
    }

    /// Whether matrices of queries, keys and values are stored as one.
    pub fn fuses_queries(self) -> bool {
        matches!(self, LanguageFamily::Phi2 | LanguageFamily::Phi3)
    }

    /// Gemma's.
    pub fn is_gemma(self) -> bool {
        matches!(self, LanguageFamily::Gemma2 | LanguageFamily::Gemma3)
    }
}

/// How angles of rotary positions differ from those of the base alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    /// Not at all, or by factors that lie beside the weights.
    None,
    /// Positions are divided by this (Chen et al. 2023).
    Linear(f32),
}

/// The feed-forward layers of a mixture of experts (Shazeer et al. 2017): a router gives each token the experts that it
/// scores highest, and what they say is summed by the softmax of the scores over these alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Experts {
    /// Experts of a layer.
    pub count: usize,
    /// Experts that a token is given.
    pub used: usize,
}

/// Layers that mix tokens by a gated convolution instead of attention. With `(b, c, x)` of a token, three projections
/// of its normalized state, a channel of token `t` is `c_t · Σ_k w_k · (b · x)_{t−L+1+k}` over the last `L` tokens,
/// itself included, each channel with weights of its own (LFM2 Technical Report, Liquid AI 2025, §2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Convolution {
    /// Tokens that a token sees, itself included.
    pub tokens: usize,
    /// Of each layer, whether it is one.
    pub layers: Vec<bool>,
}

/// Tokens that a convolution sees at most: published ones see 3.
const MAX_CONVOLUTION: usize = 64;

/// Experts of a layer at most: the largest published models have 512.
const MAX_EXPERTS: usize = 4096;

/// Sizes and switches of a language model; the fields are the keys of its metadata
/// (<https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>) in this program's words.
#[derive(Debug, Clone, PartialEq)]
pub struct LanguageConfig {
    /// Which architecture.
    pub family: LanguageFamily,
    /// Rows of the token table.
    pub vocab_size: usize,
    /// Width of the hidden states.
    pub hidden_size: usize,
    /// Width of the feed-forward layer, or of an expert.
    pub intermediate_size: usize,
    /// Where feed-forward layers are mixtures of experts.
    pub experts: Option<Experts>,
    /// Where layers mix tokens by convolutions.
    pub convolution: Option<Convolution>,
    /// Transformer layers.
    pub num_hidden_layers: usize,
    /// Heads of the queries.
    pub num_attention_heads: usize,
    /// Heads of keys and values.
    pub num_key_value_heads: usize,
    /// Elements per head.
    pub head_dim: usize,
    /// Of these, those that are rotated by their position: the first ones.
    pub rotary_dim: usize,
    /// Whether queries, keys and values have a bias.
    pub has_biases: bool,
    /// Positions the model was made for.
    pub context_length: usize,
    /// ε of the normalizations.
    pub norm_eps: f32,
    /// Base of the rotary frequencies.
    pub rope_theta: f32,
    /// Base in layers that see a window only.
    pub local_rope_theta: f32,
    /// Scaling of positions in layers that see everything.
    pub rope_scaling: RopeScaling,
    /// Factor of rotated queries and keys (LongRoPE's), 1 elsewhere.
    pub rope_magnitude: f32,
    /// Positions up to which LongRoPE's short factors hold.
    pub original_context_length: usize,
    /// Keys that a query of a windowed layer sees, itself included.
    pub sliding_window: Option<usize>,
    /// Cap of attention scores.
    pub attention_softcap: Option<f32>,
    /// Cap of the logits.
    pub logit_softcap: Option<f32>,
}

impl LanguageConfig {
    /// What a file says of its model.
    ///
    /// # Errors
    /// An architecture that is not known, and metadata that is missing, out of range or of a variant that is not
    /// computed here.
    pub fn of(file: &Gguf) -> Result<LanguageConfig> {
        let bad = |why: String| Error::BadConfig { path: file.path().to_path_buf(), why };
        let name = file.architecture();
        let known = LanguageFamily::NAMES.iter().find(|it| it.0 == name).ok_or_else(|| {
            let names = LanguageFamily::NAMES.map(|it| it.0).join(", ");
            bad(format!("the architecture {name:?} is not supported: this program runs {names}"))
        })?;
        let keys = Keys { file, name };
        let config = keys.config(known.1).map_err(bad)?;
        config.check(&keys).map_err(bad)?;
        Ok(config)
    }

    /// Whether a layer's queries see only a window of keys.
    pub fn is_local(&self, layer: usize) -> bool {
        self.sliding_window.is_some()
            && match self.family {
                LanguageFamily::Gemma2 => layer.is_multiple_of(2),
                LanguageFamily::Gemma3 => layer % 6 != 5,
                _ => true,
            }
    }

    /// Whether a layer mixes tokens by a convolution, and has no attention.
    pub fn is_convolution(&self, layer: usize) -> bool {
        self.convolution.as_ref().is_some_and(|it| it.layers.get(layer).copied().unwrap_or(false))
    }

    /// Whether a layer turns its queries and keys by their position.
    pub fn is_rotary(&self, layer: usize) -> bool {
        self.family != LanguageFamily::SmolLm3 || layer % 4 != 3
    }

    /// Factor of the token embeddings.
    pub fn embedding_scale(&self) -> f32 {
        if self.family.is_gemma() { (self.hidden_size as f32).sqrt() } else { 1.0 }
    }

    /// Factor of the products of queries and keys. The largest Gemmas divide by the width of a head's share of the
    /// states, not by its own; they have more layers than their sisters, which is how they are told.
    pub fn attention_scale(&self) -> f32 {
        let large = match self.family {
            LanguageFamily::Gemma2 => self.num_hidden_layers == 46,
            LanguageFamily::Gemma3 => self.num_hidden_layers == 62,
            _ => false,
        };
        let dim = if large { self.hidden_size / self.num_attention_heads } else { self.head_dim };
        1.0 / (dim as f32).sqrt()
    }

    /// Whether pairs of neighbors are rotated, not of halves.
    pub fn rotates_neighbors(&self) -> bool {
        let Self { family, .. } = self;
        matches!(family, LanguageFamily::Llama | LanguageFamily::SmolLm3 | LanguageFamily::Glm4)
    }

    fn check(&self, keys: &Keys<'_>) -> Result<(), String> {
        check_sizes(&[
            ("vocabulary", self.vocab_size),
            ("embedding_length", self.hidden_size),
            ("feed_forward_length", self.intermediate_size),
            ("block_count", self.num_hidden_layers),
            ("attention.head_count", self.num_attention_heads),
            ("attention.head_count_kv", self.num_key_value_heads),
            ("attention.key_length", self.head_dim),
            ("context_length", self.context_length),
        ])?;
        check_epsilon(epsilon_key(self.family), self.norm_eps)?;
        check_theta(self.rope_theta)?;
        check_theta(self.local_rope_theta)?;
        if !self.num_attention_heads.is_multiple_of(self.num_key_value_heads) {
            return Err(format!(
                "{} heads do not share {} heads of keys evenly",
                self.num_attention_heads, self.num_key_value_heads
            ));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(format!("heads of {} elements have no pairs to rotate", self.head_dim));
        }
        let rotated = self.rotary_dim;
        if !(2..=self.head_dim).contains(&rotated) || !rotated.is_multiple_of(2) {
            return Err(format!(
                "rope.dimension_count is {rotated}: pairs are rotated, of heads of {} elements",
                self.head_dim
            ));
        }
        let values = keys.size("attention.value_length")?.unwrap_or(self.head_dim);
        if values != self.head_dim {
            return Err("keys and values of different lengths are not supported".to_owned());
        }
        if let Some(Convolution { tokens, layers }) = &self.convolution {
            check_sizes(&[("shortconv.l_cache", *tokens)])?;
            if *tokens > MAX_CONVOLUTION {
                return Err(format!("convolutions over {tokens} tokens are not supported"));
            }
            if layers.len() != self.num_hidden_layers {
                return Err(format!(
                    "attention.head_count_kv is of {} layers, the model has {}",
                    layers.len(),
                    self.num_hidden_layers
                ));
            }
        }
        match self.experts {
            Some(experts) => check_experts(experts, keys),
            None => Ok(()),
        }
    }
}

/// Refuses mixtures that are computed otherwise.
fn check_experts(Experts { count, used }: Experts, keys: &Keys<'_>) -> Result<(), String> {
    check_sizes(&[("expert_count", count), ("expert_used_count", used)])?;
    if count > MAX_EXPERTS || used > count {
        return Err(format!(
            "{used} of {count} experts for each token are not possible: at most all of at most {MAX_EXPERTS} are"
        ));
    }
    for (key, what) in [
        ("expert_shared_count", "experts that all tokens share"),
        ("leading_dense_block_count", "layers without experts"),
        ("expert_group_count", "groups of experts"),
    ] {
        if keys.size(key)?.is_some_and(|it| it > 0) {
            return Err(format!("{what} ({key}) are not supported"));
        }
    }
    // 1 is the softmax.
    if keys.size("expert_gating_func")?.is_some_and(|it| it > 1) {
        return Err("experts that are not chosen by a softmax are not supported".to_owned());
    }
    let is_scaled = keys.float("expert_weights_scale").is_some_and(|it| it != 0.0 && it != 1.0);
    if is_scaled || keys.flag("expert_weights_norm") == Some(false) {
        return Err("experts whose weights do not sum to one are not supported".to_owned());
    }
    Ok(())
}

/// The key of ε.
fn epsilon_key(family: LanguageFamily) -> &'static str {
    if family.is_parallel() {
        return "attention.layer_norm_epsilon";
    }
    "attention.layer_norm_rms_epsilon"
}

/// Metadata of one architecture.
struct Keys<'a> {
    file: &'a Gguf,
    name: &'a str,
}

impl Keys<'_> {
    fn size(&self, key: &str) -> Result<Option<usize>, String> {
        let key = format!("{}.{key}", self.name);
        let Some(value) = self.file.number(&key) else { return Ok(None) };
        usize::try_from(value)
            .map(Some)
            .map_err(|_| format!("{key} is {value}, which is too large"))
    }

    fn needed(&self, key: &str) -> Result<usize, String> {
        self.size(key)?.ok_or_else(|| format!("{}.{key} is missing", self.name))
    }

    fn float(&self, key: &str) -> Option<f32> {
        self.file.float(&format!("{}.{key}", self.name)).map(|it| it as f32)
    }

    fn flag(&self, key: &str) -> Option<bool> {
        self.file.flag(&format!("{}.{key}", self.name))
    }

    fn cap(&self, key: &str) -> Option<f32> {
        self.float(key).filter(|it| it.is_finite() && *it > 0.0)
    }

    /// The mixture, and the width of a feed-forward layer or of an expert.
    fn experts(&self, family: LanguageFamily) -> Result<(Option<Experts>, usize), String> {
        let count = self.size("expert_count")?.unwrap_or(0);
        if count == 0 && family != LanguageFamily::Qwen3Moe {
            return Ok((None, self.needed("feed_forward_length")?));
        }
        if !matches!(family, LanguageFamily::Qwen3Moe | LanguageFamily::Llama) {
            return Err(format!("mixtures of experts of {} are not supported", self.name));
        }
        let width = match self.size("expert_feed_forward_length")? {
            Some(width) => width,
            None => self.needed("feed_forward_length")?,
        };
        Ok((Some(Experts { count, used: self.needed("expert_used_count")? }), width))
    }

    /// Heads of keys and values, and which layers have none because they are convolutions.
    fn mixers(
        &self,
        family: LanguageFamily,
        heads: usize,
    ) -> Result<(usize, Option<Convolution>), String> {
        const KEY: &str = "attention.head_count_kv";
        if family != LanguageFamily::Lfm2 {
            return Ok((self.size(KEY)?.unwrap_or(heads), None));
        }
        let numbers = self.file.numbers(&format!("{}.{KEY}", self.name));
        let numbers = numbers.ok_or_else(|| format!("{}.{KEY} is no list", self.name))?;
        let mut attending = numbers.iter().copied().filter(|it| *it != 0);
        let heads = attending.next().ok_or("no layer has attention, which is not supported")?;
        if attending.any(|it| it != heads) {
            return Err("layers with different heads of keys are not supported".to_owned());
        }
        let heads = usize::try_from(heads).map_err(|_| format!("{KEY} holds {heads}"))?;
        let layers = numbers.iter().map(|it| *it == 0).collect();
        let tokens = self.needed("shortconv.l_cache")?;
        Ok((heads, Some(Convolution { tokens, layers })))
    }

    fn config(&self, family: LanguageFamily) -> Result<LanguageConfig, String> {
        let hidden_size = self.needed("embedding_length")?;
        let heads = self.needed("attention.head_count")?;
        let head_dim = match self.size("attention.key_length")? {
            Some(length) => length,
            None => hidden_size / heads.max(1),
        };
        // What is not said is half of a head in the models of this family.
        let rotary = if family == LanguageFamily::Glm4 { head_dim / 2 } else { head_dim };
        let rotary_dim = self.size("rope.dimension_count")?.unwrap_or(rotary);
        let has_biases = match family {
            LanguageFamily::Qwen2 => true,
            LanguageFamily::Phi2 => true,
            // The largest has none.
            LanguageFamily::Glm4 => self.file.tensor("blk.0.attn_q.bias").is_some(),
            _ => false,
        };
        let table = self.file.tensor("token_embd.weight");
        let vocab_size = table.and_then(|it| it.shape.get(1).copied()).unwrap_or(0);
        let rope_theta = self.float("rope.freq_base").unwrap_or(10_000.0);
        let context_length = self.needed("context_length")?;
        let (experts, intermediate_size) = self.experts(family)?;
        let (kv_heads, convolution) = self.mixers(family, heads)?;
        let sliding_window = match family {
            // What files of other families say of a window is not computed by anybody.
            LanguageFamily::Gemma2 => Some(self.size("attention.sliding_window")?.unwrap_or(4096)),
            LanguageFamily::Gemma3 | LanguageFamily::Phi3 => {
                self.size("attention.sliding_window")?
            }
            _ => None,
        };
        Ok(LanguageConfig {
            family,
            vocab_size,
            hidden_size,
            intermediate_size,
            experts,
            convolution,
            num_hidden_layers: self.needed("block_count")?,
            num_attention_heads: heads,
            num_key_value_heads: kv_heads,
            head_dim,
            rotary_dim,
            has_biases,
            context_length,
            norm_eps: self
                .float(epsilon_key(family))
                .ok_or_else(|| format!("{}.{} is missing", self.name, epsilon_key(family)))?,
            rope_theta,
            local_rope_theta: if family == LanguageFamily::Gemma3 { 10_000.0 } else { rope_theta },
            rope_scaling: self.scaling()?,
            rope_magnitude: self.cap("rope.scaling.attn_factor").unwrap_or(1.0),
            original_context_length: self
                .size("rope.scaling.original_context_length")?
                .unwrap_or(context_length),
            sliding_window: sliding_window.filter(|it| *it > 0),
            attention_softcap: self.cap("attn_logit_softcapping").filter(|_| family.is_gemma()),
            logit_softcap: self.cap("final_logit_softcapping").filter(|_| family.is_gemma()),
        })
    }

    fn scaling(&self) -> Result<RopeScaling, String> {
        let factor = self.float("rope.scaling.factor").or_else(|| self.float("rope.scale_linear"));
        let kind = self.file.text(&format!("{}.rope.scaling.type", self.name));
        match (kind, factor) {
            (Some("linear") | None, Some(factor)) if factor.is_finite() && factor > 0.0 => {
                Ok(if factor == 1.0 { RopeScaling::None } else { RopeScaling::Linear(factor) })
            }
            (Some("none" | "longrope") | None, _) => Ok(RopeScaling::None),
            (Some(kind), _) => Err(format!("positions scaled by {kind:?} are not supported")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::{GgmlFormat, GgufWriter};

    /// What is said of a header of four layers whose heads of keys and width of convolutions are these.
    fn read(heads: Option<&[i32]>, tokens: Option<u32>) -> Result<LanguageConfig, String> {
        read_rotated(heads, tokens, None)
    }

    /// The same, of each head so many elements rotated.
    fn read_rotated(
        heads: Option<&[i32]>,
        tokens: Option<u32>,
        rotated: Option<u32>,
    ) -> Result<LanguageConfig, String> {
        let mut writer = GgufWriter::new("lfm2");
        for (key, value) in [
            ("block_count", 4),
            ("context_length", 100),
            ("embedding_length", 64),
            ("feed_forward_length", 128),
            ("attention.head_count", 4),
        ] {
            writer.number(&format!("lfm2.{key}"), value);
        }
        writer.float("lfm2.attention.layer_norm_rms_epsilon", 1e-5);
        if let Some(heads) = heads {
            writer.numbers("lfm2.attention.head_count_kv", heads);
        }
        if let Some(tokens) = tokens {
            writer.number("lfm2.shortconv.l_cache", tokens);
        }
        if let Some(rotated) = rotated {
            writer.number("lfm2.rope.dimension_count", rotated);
        }
        writer.tensor("token_embd.weight", &[64, 2], GgmlFormat::F32);
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut data = writer.create(file.path()).expect("created");
        data.tensor([[0; 512]]).expect("written");
        data.finish().expect("flushed");
        let gguf = Gguf::open(file.path()).expect("opens");
        LanguageConfig::of(&gguf).map_err(|it| it.to_string())
    }

    #[test]
    fn layers_without_keys_are_convolutions() {
        let config = read(Some(&[0, 2, 0, 2]), Some(3)).expect("a model");
        let layers: Vec<bool> = (0..5).map(|it| config.is_convolution(it)).collect();
        assert_eq!(layers, [true, false, true, false, false]);
        assert_eq!((config.num_key_value_heads, config.head_dim), (2, 16));
        assert_eq!(config.convolution.map(|it| it.tokens), Some(3));
    }

    #[test]
    fn heads_are_rotated_in_pairs_whole_or_in_part() {
        let rotated = |of| read_rotated(Some(&[0, 2, 0, 2]), Some(3), of);
        for (of, expected) in [(None, 16), (Some(2), 2), (Some(6), 6), (Some(16), 16)] {
            assert_eq!(rotated(of).expect("a model").rotary_dim, expected);
        }
        for of in [0, 1, 7, 18, u32::MAX] {
            let why = rotated(Some(of)).expect_err("refused");
            assert!(why.contains(&format!("rope.dimension_count is {of}")), "{why}");
        }
    }

    #[test]
    fn what_no_convolution_can_be_is_told() {
        for (heads, tokens, part) in [
            (None, Some(3), "is no list"),
            (Some(&[0, 2, 0, 2][..]), None, "l_cache is missing"),
            (Some(&[0, 2, 0, 2]), Some(0), "l_cache"),
            (Some(&[0, 2, 0, 2]), Some(65), "over 65 tokens"),
            (Some(&[0, 2, 0]), Some(3), "is of 3 layers"),
            (Some(&[0, 2, 0, 4]), Some(3), "different heads"),
            (Some(&[0, 0, 0, 0]), Some(3), "no layer has attention"),
            (Some(&[0, -2, 0, -2]), Some(3), "holds -2"),
            (Some(&[0, 3, 0, 3]), Some(3), "evenly"),
        ] {
            let why = read(heads, tokens).expect_err("refused");
            assert!(why.contains(part), "{heads:?}, {tokens:?}: {why}");
        }
    }
}
