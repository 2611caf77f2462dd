//! A model with a sliding window, which the random models have none of.

use std::path::{Path, PathBuf};

use half::f16;
use riddle_weights::gguf::{GgmlFormat, GgufWriter};

/// A Gemma 3 whose layers but the last see 40 tokens.
pub(crate) fn write(dir: &Path) -> PathBuf {
    const HIDDEN: usize = 64;
    let path = dir.join("windowed.gguf");
    let mut out = GgufWriter::new("gemma3");
    for (key, value) in [
        ("block_count", 6),
        ("context_length", 2048),
        ("embedding_length", HIDDEN as u32),
        ("feed_forward_length", 96),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 1),
        ("attention.key_length", 32),
        ("attention.value_length", 32),
        ("attention.sliding_window", 40),
    ] {
        out.number(&format!("gemma3.{key}"), value);
    }
    out.float("gemma3.rope.freq_base", 1e6);
    out.float("gemma3.attention.layer_norm_rms_epsilon", 1e-6);
    let names: Vec<String> = ["<unk>", "<s>", "</s>"]
        .map(str::to_owned)
        .into_iter()
        .chain((3..600).map(|it| format!("t{it}")))
        .collect();
    out.text("tokenizer.ggml.model", "llama");
    out.texts("tokenizer.ggml.tokens", &names);
    out.floats("tokenizer.ggml.scores", &vec![0.0; names.len()]);
    let kinds: Vec<i32> =
        (0..names.len()).map(|it| [2, 3, 3].get(it).copied().unwrap_or(1)).collect();
    out.numbers("tokenizer.ggml.token_type", &kinds);
    let mut tensors: Vec<(String, Vec<usize>)> = vec![
        ("token_embd.weight".to_owned(), vec![HIDDEN, names.len()]),
        ("output_norm.weight".to_owned(), vec![HIDDEN]),
    ];
    for layer in 0..6 {
        for (name, shape) in [
            ("attn_norm", vec![HIDDEN]),
            ("attn_q", vec![HIDDEN, 128]),
            ("attn_k", vec![HIDDEN, 32]),
            ("attn_v", vec![HIDDEN, 32]),
            ("attn_q_norm", vec![32]),
            ("attn_k_norm", vec![32]),
            ("attn_output", vec![128, HIDDEN]),
            ("post_attention_norm", vec![HIDDEN]),
            ("ffn_norm", vec![HIDDEN]),
            ("ffn_gate", vec![HIDDEN, 96]),
            ("ffn_up", vec![HIDDEN, 96]),
            ("ffn_down", vec![96, HIDDEN]),
            ("post_ffw_norm", vec![HIDDEN]),
        ] {
            tensors.push((format!("blk.{layer}.{name}.weight"), shape));
        }
    }
    let format = |shape: &[usize]| if shape.len() == 1 { GgmlFormat::F32 } else { GgmlFormat::F16 };
    for (name, shape) in &tensors {
        out.tensor(name, shape, format(shape));
    }
    let mut data = out.create(&path).expect("room");
    let mut seed = 7u32;
    let mut random = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as f32 / (1u32 << 24) as f32 - 0.5
    };
    for (_, shape) in &tensors {
        let count: usize = shape.iter().product();
        let bytes: Vec<u8> = match format(shape) {
            GgmlFormat::F32 => {
                (0..count).flat_map(|_| (1.0 + 0.2 * random()).to_le_bytes()).collect()
            }
            _ => (0..count).flat_map(|_| f16::from_f32(0.4 * random()).to_le_bytes()).collect(),
        };
        data.tensor([bytes]).expect("room");
    }
    data.finish().expect("room");
    path
}
