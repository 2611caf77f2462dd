"""Writes a tiny GGUF model of random weights in f32, of an architecture that `riddle bench prepare-language` has not.

    python tests/peers/tiny_family.py smollm3|phi3|gemma2|gemma3 FILE   # with the packages of tests/golden/requirements-language.txt
"""

import sys

import numpy as np
from gguf import GGUFWriter

HIDDEN, WIDE, LAYERS, HEADS, KV_HEADS, DIM, VOCABULARY = 128, 256, 8, 4, 2, 32, 400


def main() -> None:
    family, path = sys.argv[1:3]
    random = np.random.default_rng(3)
    writer = GGUFWriter(path, family)
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(WIDE)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(DIM)
    writer.add_value_length(DIM)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0 if family != "gemma3" else 1000000.0)
    writer.add_rope_dimension_count(DIM)
    gemma = family.startswith("gemma")
    # llama.cpp computes no window for Phi.
    if gemma:
        writer.add_sliding_window(8)
    if family == "gemma2":
        writer.add_attn_logit_softcapping(50.0)
        writer.add_final_logit_softcapping(30.0)

    # SentencePiece's kinds of tokens, and a byte-level vocabulary for SmolLM.
    tokens = [b"<unk>", b"<s>", b"</s>"] + [f"<0x{it:02X}>".encode() for it in range(256)]
    tokens += [f"w{it}".encode() for it in range(VOCABULARY - len(tokens))]
    if family == "smollm3":
        tokens = [b"a", b"b", b"ab"] + [f"t{it}".encode() for it in range(VOCABULARY - 3)]
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("llama-bpe")
        writer.add_token_list(tokens)
        writer.add_token_types([1] * VOCABULARY)
        writer.add_token_merges(["a b"])
    else:
        writer.add_tokenizer_model("llama")
        writer.add_token_list(tokens)
        writer.add_token_scores([0.0] * VOCABULARY)
        writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (VOCABULARY - 259))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)

    def matrix(name: str, inputs: int, outputs: int, scale: float = 1.0) -> None:
        values = random.normal(0, scale / np.sqrt(inputs), (outputs, inputs))
        writer.add_tensor(name, values.astype(np.float32))

    def norm(name: str, size: int) -> None:
        writer.add_tensor(name, random.normal(1, 0.1, size).astype(np.float32))

    matrix("token_embd.weight", HIDDEN, VOCABULARY)
    matrix("output.weight", HIDDEN, VOCABULARY) if not gemma else None
    norm("output_norm.weight", HIDDEN)
    queries, keys = HEADS * DIM, KV_HEADS * DIM
    for layer in range(LAYERS):
        name = f"blk.{layer}."
        norm(name + "attn_norm.weight", HIDDEN)
        if family == "phi3":
            matrix(name + "attn_qkv.weight", HIDDEN, queries + 2 * keys)
            matrix(name + "ffn_up.weight", HIDDEN, 2 * WIDE)
        else:
            matrix(name + "attn_q.weight", HIDDEN, queries)
            matrix(name + "attn_k.weight", HIDDEN, keys)
            matrix(name + "attn_v.weight", HIDDEN, keys)
            matrix(name + "ffn_gate.weight", HIDDEN, WIDE)
            matrix(name + "ffn_up.weight", HIDDEN, WIDE)
        if family == "gemma3":
            norm(name + "attn_q_norm.weight", DIM)
            norm(name + "attn_k_norm.weight", DIM)
        matrix(name + "attn_output.weight", queries, HIDDEN)
        if gemma:
            norm(name + "post_attention_norm.weight", HIDDEN)
            norm(name + "post_ffw_norm.weight", HIDDEN)
        norm(name + "ffn_norm.weight", HIDDEN)
        matrix(name + "ffn_down.weight", WIDE, HIDDEN)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main()
