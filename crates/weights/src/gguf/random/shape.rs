//! Settings and tensors of the models, as llama.cpp's converters write them.

use super::{
    super::{GgmlFormat, GgufWriter},
    RandomFormat, RandomModel,
    vocabulary::{Special, Vocabulary, vocabulary},
};

/// Tokens that a convolution sees.
const CONVOLUTION: usize = 3;

/// Sizes from each model's `config.json` on the hub.
pub(super) struct Shape {
    name: &'static str,
    architecture: &'static str,
    pub(super) vocabulary: usize,
    /// Tokens that are bytes or merges.
    ordinary: usize,
    special: Special,
    hidden: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    /// Width of the feed-forward layer, or of an expert.
    wide: usize,
    /// Experts of a layer, and of these those that a token is given; 0 without.
    experts: (usize, usize),
    /// Layers with attention, where the others are convolutions over three tokens.
    attending: Option<&'static [usize]>,
    positions: u32,
    rope_base: f32,
    /// Llama 3's stretching of slow rotations: the context that they were trained on.
    rope_context: Option<f64>,
    epsilon: f32,
    tied: bool,
}

impl Shape {
    // Long: a table of the models.
    pub(super) fn of(model: RandomModel) -> Shape {
        let tiny = |name, architecture, special| Shape {
            name,
            architecture,
            vocabulary: 600,
            ordinary: if special == Special::Llama3 { 584 } else { 570 },
            special,
            hidden: 256,
            layers: 2,
            heads: 4,
            kv_heads: 2,
            head_dim: 64,
            wide: 512,
            experts: (0, 0),
            attending: None,
            positions: 2048,
            rope_base: 10_000.0,
            rope_context: None,
            epsilon: 1e-5,
            tied: true,
        };
        let llama = |name, hidden, layers, heads, head_dim| Shape {
            vocabulary: 128_256,
            ordinary: 128_000,
            hidden,
            layers,
            heads,
            kv_heads: 8,
            head_dim,
            wide: 8192,
            positions: 131_072,
            rope_base: 500_000.0,
            rope_context: Some(8192.0),
            ..tiny(name, "llama", Special::Llama3)
        };
        let qwen = |name, architecture, hidden, heads, kv_heads, wide| Shape {
            vocabulary: 151_936,
            ordinary: 151_643,
            hidden,
            layers: 28,
            heads,
            kv_heads,
            head_dim: 128,
            wide,
            positions: if architecture == "qwen2" { 32_768 } else { 40_960 },
            rope_base: 1_000_000.0,
            epsilon: 1e-6,
            ..tiny(name, architecture, Special::Qwen)
        };
        let mixture = |name, layers| Shape {
            layers,
            kv_heads: 4,
            experts: (128, 8),
            tied: false,
            ..qwen(name, "qwen3moe", 2048, 32, 4, 768)
        };
        match model {
            // The stretching begins where a test sees it.
            RandomModel::TinyLlama => Shape {
                rope_context: Some(256.0),
                tied: false,
                ..tiny("tiny-llama", "llama", Special::Llama3)
            },
            RandomModel::TinyQwen2 => tiny("tiny-qwen2", "qwen2", Special::Qwen),
            RandomModel::TinyQwen3 => tiny("tiny-qwen3", "qwen3", Special::Qwen),
            RandomModel::TinySmolLm => {
                Shape { ordinary: 600 - 17, ..tiny("tiny-smollm", "llama", Special::SmolLm) }
            }
            RandomModel::TinyGlm4 => tiny("tiny-glm4", "glm4", Special::Qwen),
            RandomModel::TinyPhi2 => {
                Shape { kv_heads: 4, tied: false, ..tiny("tiny-phi2", "phi2", Special::Qwen) }
            }
            RandomModel::TinyLfm2 => Shape {
                layers: 3,
                attending: Some(&[1]),
                ..tiny("tiny-lfm2", "lfm2", Special::Qwen)
            },
            RandomModel::TinyQwen3Moe => Shape {
                layers: 3,
                wide: 256,
                experts: (10, 3),
                ..tiny("tiny-qwen3-moe", "qwen3moe", Special::Qwen)
            },
            RandomModel::TinyMixtral => Shape {
                wide: 256,
                experts: (8, 2),
                tied: false,
                ..tiny("tiny-mixtral", "llama", Special::Llama3)
            },
            RandomModel::Llama32Of1B => llama("Llama-3.2-1B", 2048, 16, 32, 64),
            RandomModel::Llama32Of3B => llama("Llama-3.2-3B", 3072, 28, 24, 128),
            RandomModel::Qwen25Of15B => qwen("Qwen2.5-1.5B", "qwen2", 1536, 12, 2, 8960),
            RandomModel::Qwen3Of06B => qwen("Qwen3-0.6B", "qwen3", 1024, 16, 8, 3072),
            RandomModel::Qwen3Of17B => qwen("Qwen3-1.7B", "qwen3", 2048, 16, 8, 6144),
            RandomModel::Qwen3Of30B => mixture("Qwen3-30B-A3B", 48),
            RandomModel::ThirdOfQwen3Of30B => mixture("A third of Qwen3-30B-A3B", 16),
            RandomModel::Lfm2Of12B => Shape {
                vocabulary: 65_536,
                ordinary: 65_000,
                hidden: 2048,
                layers: 16,
                heads: 32,
                kv_heads: 8,
                head_dim: 64,
                wide: 8192,
                attending: Some(&[2, 5, 8, 10, 12, 14]),
                positions: 128_000,
                rope_base: 1_000_000.0,
                ..tiny("LFM2-1.2B", "lfm2", Special::Qwen)
            },
            RandomModel::SmolLm2Of360M => Shape {
                vocabulary: 49_152,
                ordinary: 49_152 - 17,
                hidden: 960,
                layers: 32,
                heads: 15,
                kv_heads: 5,
                head_dim: 64,
                wide: 2560,
                positions: 8192,
                rope_base: 100_000.0,
                ..tiny("SmolLM2-360M", "llama", Special::SmolLm)
            },
        }
    }

    fn is_phi(&self) -> bool {
        self.architecture == "phi2"
    }

    fn is_convolution(&self, layer: usize) -> bool {
        self.attending.is_some_and(|it| !it.contains(&layer))
    }

    /// The settings, without a tokenizer.
    pub(super) fn header(&self, format: RandomFormat) -> GgufWriter {
        let mut out = GgufWriter::new(self.architecture);
        out.text("general.type", "model");
        out.text("general.name", &format!("{} of random weights", self.name));
        out.number("general.quantization_version", 2);
        out.text(super::MARK, &super::random_mark(format));
        let key = |name: &str| format!("{}.{name}", self.architecture);
        for (name, value) in [
            ("block_count", self.layers),
            ("context_length", self.positions as usize),
            ("embedding_length", self.hidden),
            ("feed_forward_length", self.wide),
            ("attention.head_count", self.heads),
        ] {
            out.number(&key(name), value as u32);
        }
        let kv_heads = "attention.head_count_kv";
        if self.attending.is_some() {
            let of = |layer| if self.is_convolution(layer) { 0 } else { self.kv_heads as i32 };
            out.numbers(&key(kv_heads), &(0..self.layers).map(of).collect::<Vec<_>>());
            out.number(&key("shortconv.l_cache"), CONVOLUTION as u32);
            out.number(&key("vocab_size"), self.vocabulary as u32);
        } else {
            out.number(&key(kv_heads), self.kv_heads as u32);
        }
        let (experts, used) = self.experts;
        if experts > 0 {
            out.number(&key("expert_count"), experts as u32);
            out.number(&key("expert_used_count"), used as u32);
            out.number(&key("expert_feed_forward_length"), self.wide as u32);
        }
        out.float(&key("rope.freq_base"), self.rope_base);
        let norm = if self.is_phi() { "layer_norm_epsilon" } else { "layer_norm_rms_epsilon" };
        out.float(&key(&format!("attention.{norm}")), self.epsilon);
        if !matches!(self.architecture, "qwen2" | "lfm2" | "phi2") {
            out.number(&key("attention.key_length"), self.head_dim as u32);
            out.number(&key("attention.value_length"), self.head_dim as u32);
        }
        if self.architecture == "glm4" || self.is_phi() {
            out.number(&key("rope.dimension_count"), self.head_dim as u32 / 2);
        }
        if self.architecture == "llama" {
            out.number(&key("vocab_size"), self.vocabulary as u32);
            out.number(&key("rope.dimension_count"), self.head_dim as u32);
        }
        out
    }

    /// A tokenizer of the model's size over made-up words.
    pub(super) fn made_up_tokenizer(&self, out: &mut GgufWriter) {
        let all: Vocabulary = vocabulary(self.special, self.ordinary, self.vocabulary);
        let (pre, bos, eos, pad) = match self.special {
            Special::Llama3 => {
                ("llama-bpe", "<|begin_of_text|>", "<|eot_id|>", "<|finetune_right_pad_id|>")
            }
            Special::Qwen => ("qwen2", "<|endoftext|>", "<|im_end|>", "<|endoftext|>"),
            Special::SmolLm => ("smollm", "<|im_start|>", "<|im_end|>", "<|im_end|>"),
        };
        out.text("tokenizer.ggml.model", "gpt2");
        out.text("tokenizer.ggml.pre", if self.attending.is_some() { "lfm2" } else { pre });
        out.texts("tokenizer.ggml.tokens", &all.tokens);
        out.numbers("tokenizer.ggml.token_type", &all.types);
        out.texts("tokenizer.ggml.merges", &all.merges);
        out.number("tokenizer.ggml.bos_token_id", all.id(bos));
        out.number("tokenizer.ggml.eos_token_id", all.id(eos));
        out.number("tokenizer.ggml.padding_token_id", all.id(pad));
        out.flag("tokenizer.ggml.add_bos_token", self.special == Special::Llama3);
        let template = if self.special == Special::Llama3 { LLAMA3 } else { CHATML };
        out.text("tokenizer.chat_template", template);
    }

    /// All tensors, in the order of the file.
    pub(super) fn tensors(&self, format: RandomFormat) -> Vec<Tensor> {
        let hidden = self.hidden;
        let mut all = Vec::new();
        if self.tied {
            all.push(Tensor::matrix("token_embd", hidden, self.vocabulary, format.head()));
        } else {
            all.push(Tensor::matrix("token_embd", hidden, self.vocabulary, format.matrix()));
            all.push(Tensor::matrix("output", hidden, self.vocabulary, format.head()));
        }
        if self.experts.0 > 0 {
            all[0].fill = Fill::Embeddings;
        }
        if let Some(context) = self.rope_context {
            let factors = rope_factors(self.head_dim, f64::from(self.rope_base), context);
            all.push(Tensor::small("rope_freqs.weight", factors.len(), Fill::These(factors)));
        }
        let norm = if self.attending.is_some() { "token_embd_norm" } else { "output_norm" };
        all.push(Tensor::small(&format!("{norm}.weight"), hidden, Fill::NearOne));
        if self.is_phi() {
            all.push(Tensor::small("output_norm.bias", hidden, Fill::NearZero));
            all.push(Tensor::small("output.bias", self.vocabulary, Fill::NearZero));
        }
        for layer in 0..self.layers {
            if self.is_phi() {
                self.parallel_layer(layer, format, &mut all);
            } else {
                self.layer(layer, format, &mut all);
            }
        }
        all
    }

    /// A layer whose feed-forward part stands beside attention.
    fn parallel_layer(&self, layer: usize, format: RandomFormat, all: &mut Vec<Tensor>) {
        let (hidden, wide) = (self.hidden, self.wide);
        let queries = self.heads * self.head_dim;
        let important = format.important(layer, self.layers);
        let name = |part: &str| format!("blk.{layer}.{part}");
        all.push(Tensor::small(&name("attn_norm.weight"), hidden, Fill::NearOne));
        all.push(Tensor::small(&name("attn_norm.bias"), hidden, Fill::NearZero));
        for (part, inputs, outputs, format) in [
            ("attn_qkv", hidden, 3 * queries, format.matrix()),
            ("attn_output", queries, hidden, format.matrix()),
            ("ffn_up", hidden, wide, format.matrix()),
            ("ffn_down", wide, hidden, important),
        ] {
            all.push(Tensor::matrix(&name(part), inputs, outputs, format));
            all.push(Tensor::small(&name(&format!("{part}.bias")), outputs, Fill::NearZero));
        }
    }

    fn layer(&self, layer: usize, format: RandomFormat, all: &mut Vec<Tensor>) {
        let (hidden, wide) = (self.hidden, self.wide);
        let (queries, keys) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let name = |part: &str| format!("blk.{layer}.{part}");
        let important = format.important(layer, self.layers);
        let mut matrix = |part: &str, inputs, outputs, format| {
            all.push(Tensor::matrix(&name(part), inputs, outputs, format));
        };
        let is_convolution = self.is_convolution(layer);
        if is_convolution {
            matrix("shortconv.in_proj", hidden, 3 * hidden, format.matrix());
            matrix("shortconv.out_proj", hidden, hidden, format.matrix());
            // A matrix by its shape, which is never rounded.
            matrix("shortconv.conv", CONVOLUTION, hidden, GgmlFormat::F32);
        } else {
            matrix("attn_q", hidden, queries, format.matrix());
            matrix("attn_k", hidden, keys, format.matrix());
            matrix("attn_v", hidden, keys, important);
            matrix("attn_output", queries, hidden, format.matrix());
        }
        let (experts, _) = self.experts;
        let is_glm = self.architecture == "glm4";
        if is_glm {
            // Gate and up as one.
            matrix("ffn_up", hidden, 2 * wide, format.matrix());
            matrix("ffn_down", wide, hidden, important);
        } else if experts == 0 {
            matrix("ffn_gate", hidden, wide, format.matrix());
            matrix("ffn_up", hidden, wide, format.matrix());
            matrix("ffn_down", wide, hidden, important);
        } else {
            matrix("ffn_gate_inp", hidden, experts, GgmlFormat::F32);
            let mut of_each = |part: &str, inputs, outputs, format| {
                let mut tensor = Tensor::matrix(&name(part), inputs, outputs, format);
                tensor.shape.push(experts);
                all.push(tensor);
            };
            of_each("ffn_gate_exps", hidden, wide, format.matrix());
            of_each("ffn_up_exps", hidden, wide, format.matrix());
            of_each("ffn_down_exps", wide, hidden, important);
        }
        let mut small = |part: &str, len, fill| all.push(Tensor::small(&name(part), len, fill));
        small("attn_norm.weight", hidden, Fill::NearOne);
        small("ffn_norm.weight", hidden, Fill::NearOne);
        if is_glm {
            small("post_attention_norm.weight", hidden, Fill::NearOne);
            small("post_ffw_norm.weight", hidden, Fill::NearOne);
        }
        if is_glm || self.architecture == "qwen2" {
            small("attn_q.bias", queries, Fill::NearZero);
            small("attn_k.bias", keys, Fill::NearZero);
            small("attn_v.bias", keys, Fill::NearZero);
        }
        let has_head_norms = self.architecture == "lfm2" && !is_convolution;
        if has_head_norms || self.architecture.starts_with("qwen3") {
            small("attn_q_norm.weight", self.head_dim, Fill::NearOne);
            small("attn_k_norm.weight", self.head_dim, Fill::NearOne);
        }
    }
}

/// A tensor to be written.
pub(super) struct Tensor {
    pub(super) name: String,
    /// In GGUF's order.
    pub(super) shape: Vec<usize>,
    pub(super) format: GgmlFormat,
    pub(super) fill: Fill,
}

/// What a tensor holds.
pub(super) enum Fill {
    /// Weights of a matrix: of a deviation that leaves what is multiplied as large as it was.
    Weights,
    /// Numbers of deviation 1: larger than what attention adds, so that tokens differ in the experts that they are
    /// given. With those of [`Weights`](Self::Weights) the mean over the tokens before decides, which is the same for
    /// all.
    Embeddings,
    /// Gains of normalizations.
    NearOne,
    /// Biases.
    NearZero,
    These(Vec<f32>),
}

impl Tensor {
    /// As llama.cpp does where a row is no whole blocks of 256: the next larger format of 32.
    fn matrix(name: &str, inputs: usize, outputs: usize, format: GgmlFormat) -> Tensor {
        let format = match format {
            _ if inputs.is_multiple_of(format.block_len()) => format,
            GgmlFormat::Q2K | GgmlFormat::Q3K => GgmlFormat::Q4_0,
            GgmlFormat::Q4K => GgmlFormat::Q5_0,
            GgmlFormat::Q5K => GgmlFormat::Q5_1,
            _ => GgmlFormat::Q8_0,
        };
        let name = format!("{name}.weight");
        Tensor { name, shape: vec![inputs, outputs], format, fill: Fill::Weights }
    }

    fn small(name: &str, len: usize, fill: Fill) -> Tensor {
        Tensor { name: name.to_owned(), shape: vec![len], format: GgmlFormat::F32, fill }
    }
}

/// By how much Llama 3 slows each rotation: not the fast ones, the slow ones 32 times, those between in between
/// (`rope_scaling` of its `config.json`, type `llama3`).
fn rope_factors(head_dim: usize, base: f64, context: f64) -> Vec<f32> {
    const FACTOR: f64 = 32.0;
    const LOW: f64 = 1.0;
    const HIGH: f64 = 4.0;
    let factor = |pair: usize| {
        let length = std::f64::consts::TAU * base.powf(2.0 * pair as f64 / head_dim as f64);
        if length < context / HIGH {
            return 1.0;
        }
        if length > context / LOW {
            return FACTOR;
        }
        let smooth = (context / length - LOW) / (HIGH - LOW);
        1.0 / ((1.0 - smooth) / FACTOR + smooth)
    };
    // Powers differ in their last digits between systems; files do not.
    (0..head_dim / 2).map(|pair| ((factor(pair) * 1024.0).round() / 1024.0) as f32).collect()
}

/// The shorter forms of the published templates, with the same result for turns of text.
const CHATML: &str = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + \
    '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

const LLAMA3: &str = "{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + \
    '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt \
    %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}";
