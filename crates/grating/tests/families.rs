//! Families whose configuration can lie in ways of its own: each lie is one clear error.

mod copies;

use riddle_grating::{Engine, EngineOptions};

use crate::copies::{changed, cut};

fn error_of(dir: &std::path::Path) -> String {
    let options = EngineOptions { threads: 1, ..EngineOptions::default() };
    Engine::open(dir, options).expect_err("damaged").to_string()
}

#[test]
fn lies_are_told_by_name() {
    let gte = "tiny-gte-reranker";
    let deberta = "tiny-deberta-cross-encoder";
    let mpnet = "tiny-mpnet-cross-encoder";
    let fused = "tiny-xlm-roberta-fused-cross-encoder";
    for (name, from, to, word) in [
        (gte, "modeling.NewModel", "modeling.Other", "a program of its own"),
        (gte, "\"intermediate_size\": 48", "\"intermediate_size\": 64", "up_gate_proj"),
        (gte, "\"hidden_size\": 32", "\"hidden_size\": 64", "word_embeddings"),
        (gte, "\"num_hidden_layers\": 4", "\"num_hidden_layers\": 5", "encoder.layer.4"),
        (gte, "\"type_vocab_size\": 1", "\"type_vocab_size\": 3", "token_type_embeddings"),
        (gte, "\"ntk\"", "\"yarn\"", "yarn"),
        (gte, "\"0\": \"LABEL_0\"", "\"0\": \"a\", \"1\": \"b\"", "one label"),
        (deberta, "\"position_buckets\": 8", "\"position_buckets\": 9", "rel_embeddings"),
        (deberta, "\"share_att_key\": true", "\"share_att_key\": false", "share_att_key"),
        (deberta, "\"num_attention_heads\": 4", "\"num_attention_heads\": 5", "shared evenly"),
        (deberta, "\"intermediate_size\": 48", "\"intermediate_size\": 64", "intermediate.dense"),
        (deberta, "\"layer_norm\"", "\"none\", \"conv_kernel_size\": 3", "conv_kernel_size"),
        (mpnet, "num_buckets\": 32", "num_buckets\": 64", "relative_attention_num_buckets 64"),
        (mpnet, "\"num_attention_heads\": 4", "\"num_attention_heads\": 8", "attention_bias"),
        (
            mpnet,
            "\"max_position_embeddings\": 50",
            "\"max_position_embeddings\": 51",
            "position_emb",
        ),
        (mpnet, "\"num_hidden_layers\": 4", "\"num_hidden_layers\": 5", "encoder.layer.4"),
        (mpnet, "\"intermediate_size\": 64", "\"intermediate_size\": 48", "intermediate.dense"),
        (mpnet, "\"0\": \"LABEL_0\"", "\"0\": \"a\", \"1\": \"b\"", "one label"),
        (
            fused,
            "modeling_xlm_roberta.XLMRobertaModel",
            "own.XLMRobertaLoRA",
            "a program of its own",
        ),
        (fused, "\"intermediate_size\": 64", "\"intermediate_size\": 48", "mlp.fc1"),
        (fused, "\"absolute\"", "\"rotary\"", "rotary"),
        (fused, "\"architectures\"", "\"classes\"", "no model_type"),
    ] {
        let dir = changed(name, "config.json", from, to);
        let error = error_of(dir.path());
        assert!(error.contains(word), "{to}: {error}");
    }
    for name in [gte, deberta, mpnet, fused] {
        for file in ["model.safetensors", "tokenizer.json", "config.json"] {
            let error = error_of(cut(name, file).path());
            assert!(error.contains(file), "{name}/{file}: {error}");
        }
    }
}
