"""Makes language-tokenizers: two small vocabularies as GGUF and the tokens that llama.cpp makes of texts with them.

Merges are learned across words, so that every way of cutting words gives tokens of its own. The byte-level
vocabulary is written once; the other ways of cutting are the same file with another `tokenizer.ggml.pre`.

    pip install -r requirements-language.txt && python generate_language.py
"""

import collections
import json
import random
import tempfile
from pathlib import Path

import gguf
import llama_cpp

HERE = Path(__file__).parent
OUT = HERE / "language-tokenizers"
SPECIAL = [
    ("<|endoftext|>", 3),
    ("<|im_start|>", 3),
    ("<|im_end|>", 3),
    ("<tool_call>", 4),
    ("<think>", 4),
    ("[PAD]", 5),
]
PRES = [
    "llama-bpe", "smaug-bpe", "qwen2", "qwen35", "smollm", "gpt-2", "default", "falcon", "deepseek-v3",
]
MERGES = 600

TEXTS = [
    "", " ", "\n", "a", "Which model is it?", "  two  spaces\tand\ttabs \n\n  lines \r\n\r\n end  ",
    "Don't! I'LL we'Ve they'RE it's 'S", "1 12 123 1234 12345 1,234,567.89 3/4 0x1F \u00bd \u0663\u0664 \u2167",
    "Gr\u00fc\u00dfe aus K\u00f6ln, na\u00efve caf\u00e9 e\u0301", "\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u3072\u3089\u304c\u306a\u30ab\u30bf", "\ud55c\uad6d\uc5b4 \u0e44\u0e17\u0e22 \u0639\u0631\u0628\u064a \u05d0\u05b8",
    "\u0939\u093f\u0928\u094d\u0926\u0940", "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f", "x = a_b + c[0] * (d - e); // ???!!! ...",
    "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n", " <|im_end|> <tool_call>{}<think> [PAD]<s></s> <unk><0x0A>",
    "`code` ~tilde~ $5 + 3 = 8 ^ | < >", "CamelCaseWords XML2JSON", "\u00a0\u3000\u2028\u0085 \u200b\ufeff", "-" * 40, "\u2581\u2581 \u0120 \u010a",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "         x", "the the the\nthe  the",
]


def letters():
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [it for it in range(256) if it not in seen]
    names = {it: chr(it) for it in seen} | {it: chr(256 + at) for at, it in enumerate(hidden)}
    return [names[it] for it in range(256)]


def learn(symbols, merges):
    """The most frequent pair of neighbors, again and again; the smaller of two that are as frequent."""
    found = []
    while len(found) < merges:
        counts = collections.Counter(zip(symbols, symbols[1:]))
        known = {left + right for left, right in found}
        pairs = [it for it in counts if it[0] + it[1] not in known]
        pair = min(pairs, key=lambda it: (-counts[it], it))
        found.append(pair)
        joined, at = [], 0
        while at < len(symbols):
            if tuple(symbols[at : at + 2]) == pair:
                joined.append(pair[0] + pair[1])
                at += 2
            else:
                joined.append(symbols[at])
                at += 1
        symbols = joined
    return found


def corpus():
    """English prose of this repository, and of everything else a bit."""
    prose = (HERE.parents[1] / "docs" / "STYLE.md").read_text()[:4000]
    chance = random.Random(1)
    odd = [it for it in TEXTS if it and "<|" not in it] * 3 + [str(chance.randrange(10**6)) + " " * (1 + at % 9) for at in range(60)]
    odd += ["don't we'll I'm it's THE'S\n\n", ")  {\r\n\t\t}", "!!!", "...\n", "\n\n\n", "== 00 11"] * 5
    chance.shuffle(odd)
    return prose + "".join(odd)


def write(path, model, tokens, types, **more):
    out = gguf.GGUFWriter(path, "llama")
    out.add_tokenizer_model(model)
    out.add_token_list(tokens)
    out.add_token_types(types)
    if "pre" in more:
        out.add_tokenizer_pre(more["pre"])
        out.add_token_merges(more["merges"])
    else:
        out.add_token_scores(more["scores"])
        out.add_add_space_prefix(more["space"])
    out.add_bos_token_id(tokens.index(more["bos"]))
    out.add_eos_token_id(tokens.index(more["eos"]))
    # What llama.cpp wants to see before it reads a vocabulary.
    out.add_block_count(1)
    out.add_context_length(512)
    out.add_embedding_length(32)
    out.add_feed_forward_length(32)
    out.add_head_count(1)
    out.add_layer_norm_rms_eps(1e-5)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.close()


def byte_level(path, pre):
    names = letters()
    learned = learn([names[it] for it in corpus().encode()], MERGES)
    tokens = names + [left + right for left, right in learned] + [it for it, _ in SPECIAL]
    types = [1] * (len(tokens) - len(SPECIAL)) + [it for _, it in SPECIAL]
    merges = [f"{left} {right}" for left, right in learned]
    write(path, "gpt2", tokens, types, pre=pre, merges=merges, bos="<|endoftext|>", eos="<|im_end|>")


def sentence(path, space):
    text = corpus().replace(" ", "\u2581").replace("\n", "")
    usual = [it for it, count in collections.Counter(text).most_common() if count > 2]
    learned = learn(list(text), MERGES)
    merged = ["".join(it) for it in learned]
    # In another order than they were learned, or scores would never decide.
    random.Random(2).shuffle(merged)
    chars = sorted(set(usual) | {it for word in merged for it in word})
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{it:02X}>" for it in range(256)]
    types = [2, 3, 3] + [6] * 256
    scores = [0.0] * len(tokens)
    for at, token in enumerate(merged + chars):
        tokens.append(token)
        types.append(1)
        scores.append(-float(at))
    for token, kind in SPECIAL + [("\n\n", 4), ("\u2581\u2581\u2581\u2581\u2581", 4)]:
        if token not in tokens:
            tokens.append(token)
            types.append(kind)
            scores.append(-1000.0)
    write(path, "llama", tokens, types, scores=scores, space=space, bos="<s>", eos="</s>")


def expected(path):
    model = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
    vocab = llama_cpp.llama_model_get_vocab(model.model)

    def encode(text, special):
        raw = text.encode()
        room = (llama_cpp.llama_token * 4096)()
        count = llama_cpp.llama_tokenize(vocab, raw, len(raw), room, len(room), False, special)
        return list(room[:count])

    ids = range(llama_cpp.llama_vocab_n_tokens(vocab))
    return {
        "ends": [it for it in ids if llama_cpp.llama_vocab_is_eog(vocab, it)],
        "adds_bos": llama_cpp.llama_vocab_get_add_bos(vocab),
        "plain": [encode(text, False) for text in TEXTS],
        "special": [encode(text, True) for text in TEXTS],
    }


def main():
    OUT.mkdir(exist_ok=True)
    byte_level(OUT / "byte-level.gguf", "llama-bpe")
    sentence(OUT / "sentence.gguf", True)
    found = {"texts": TEXTS, "byte-level": {}, "sentence": {}}
    with tempfile.TemporaryDirectory() as folder:
        for pre in PRES:
            path = Path(folder) / f"{pre}.gguf"
            byte_level(path, pre)
            found["byte-level"][pre] = expected(path)
        for space in (True, False):
            path = Path(folder) / f"sentence-{space}.gguf"
            sentence(path, space)
            found["sentence"]["space" if space else "plain"] = expected(path)
    text = json.dumps(found, separators=(",", ":"))
    (OUT / "expected.json").write_text(text.replace('"plain":[[', '\n"plain":[[') + "\n")


if __name__ == "__main__":
    main()
