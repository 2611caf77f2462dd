#!/usr/bin/env python3
"""Writes a tiny llama in GGUF for tests of servers: a byte-level BPE vocabulary, a chat template, weights from a seed.

With --says the output matrix is made so that the model answers every chat with these words, one token a word, and then
ends its turn; without, what it writes is noise, and goes on until it is stopped.

    python3 tiny_gguf.py OUT.gguf [--says "It is blue [1]."] [--context 4096]

Needs numpy and gguf.
"""

import argparse

import gguf
import numpy as np

SEED = 20261121
LAYERS, HEADS = 2, 4
TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def byte_letters():
    """The letters that stand for bytes in GPT-2's vocabulary."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, free = {}, 256
    for byte in range(256):
        if byte in kept:
            letters[byte] = chr(byte)
        else:
            letters[byte] = chr(free)
            free += 1
    return letters


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--says")
    parser.add_argument("--context", type=int, default=4096)
    args = parser.parse_args()

    letters = byte_letters()
    tokens = [letters[byte] for byte in range(256)]
    kinds = [gguf.TokenType.NORMAL] * 256
    merges = ["t h"]
    tokens.append("th")
    kinds.append(gguf.TokenType.NORMAL)
    special = {}
    for name in ["<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]:
        special[name] = len(tokens)
        tokens.append(name)
        kinds.append(gguf.TokenType.CONTROL)
    words = []
    for place, word in enumerate(args.says.split() if args.says else []):
        spelled = (" " if place else "") + word
        if spelled in tokens:
            raise SystemExit(f"{word!r} is said twice: the model knows only what it said last")
        words.append(len(tokens))
        tokens.append(spelled)
        kinds.append(gguf.TokenType.USER_DEFINED)

    # One dimension per token, so that the last token alone can decide what follows.
    width = -(-len(tokens) // (2 * HEADS)) * 2 * HEADS
    rng = np.random.default_rng(SEED)
    noise = lambda *shape: (rng.standard_normal(shape) * 0.02).astype(np.float32)
    embedding, output = noise(len(tokens), width), noise(len(tokens), width)
    if words:
        embedding = np.eye(len(tokens), width, dtype=np.float32)
        chain = [special["<|assistant|>"], *words, special["<|end|>"]]
        for now, then in zip(chain, chain[1:]):
            output[then, now] += 4.0
    else:
        # What is not text is never written.
        embedding[:, 0] = 1.0
        output[list(special.values()), 0] = -9.0

    writer = gguf.GGUFWriter(args.out, "llama")
    writer.add_name("tiny")
    writer.add_context_length(args.context)
    writer.add_embedding_length(width)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(2 * width)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(special["<|begin|>"])
    writer.add_eos_token_id(special["<|end|>"])
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    # What is said is decided by the embedding; noise of the layers must not drown it.
    share = 0.01 if words else 1.0
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output_norm.weight", np.ones(width, dtype=np.float32))
    writer.add_tensor("output.weight", output)
    for layer in range(LAYERS):
        name = f"blk.{layer}."
        writer.add_tensor(name + "attn_norm.weight", np.ones(width, dtype=np.float32))
        writer.add_tensor(name + "ffn_norm.weight", np.ones(width, dtype=np.float32))
        for matrix in ["attn_q", "attn_k", "attn_v", "attn_output"]:
            writer.add_tensor(name + matrix + ".weight", noise(width, width) * np.float32(share))
        for matrix in ["ffn_gate", "ffn_up"]:
            writer.add_tensor(name + matrix + ".weight", noise(2 * width, width) * np.float32(share))
        writer.add_tensor(name + "ffn_down.weight", noise(width, 2 * width) * np.float32(share))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
