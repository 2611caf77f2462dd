"""Writes the golden embedder whose published form is no class of `transformers`, and of every golden embedder the states
between its layers.

    python3 -m venv venv && venv/bin/pip install -r requirements.txt
    venv/bin/python generate_embedders.py

States go into `states.json` beside the model, which is read and not made anew: training a tokenizer gives other pieces
each time.
"""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer, GteConfig, GteModel

from generate import EMBEDDED, HERE, MAX_TOKENS, make_unigram_tokenizer, rounded, stir
from generate_rerankers import gte_names

# What each is a case of is said in `generate.py`.
EMBEDDERS = [
    "tiny-modernbert-embedder", "tiny-granite-embedder", "tiny-xlm-roberta-embedder", "tiny-mpnet-embedder",
    "tiny-qwen3-embedder", "tiny-gemma3-embedder",
]
# A few words, and more than a model reads: MPNet has distances that are one only in the second.
STATES_OF = ["The lock gate opens at eight.", "船は青い色です。パンを焼く。", "dock " * 400]


@torch.no_grad()
def write_states(directory: Path, model, tokenizer, max_tokens: int) -> None:
    """Of the first and the last token: what the first layer gets, and what each one gives."""
    layers = model.encoder.layer if hasattr(model, "encoder") else model.layers
    cases = []
    for text in STATES_OF:
        inputs = tokenizer(text, truncation=True, max_length=max_tokens, return_tensors="pt")
        states = []
        given = lambda _, args, kwargs: states.append(args[0] if args else kwargs["hidden_states"])
        done = lambda _, __, output: states.append(output[0] if isinstance(output, tuple) else output)
        hooks = [layers[0].register_forward_pre_hook(given, with_kwargs=True)]
        hooks += [layer.register_forward_hook(done) for layer in layers]
        model(**inputs)
        for it in hooks:
            it.remove()
        assert len(states) == len(layers) + 1 and states[0].shape == (1, inputs["input_ids"].shape[1], 32)
        cases.append({
            "text": text, "input_ids": inputs["input_ids"][0].tolist(),
            "first_token": [rounded(it[0, 0], 5) for it in states],
            "last_token": [rounded(it[0, -1], 5) for it in states],
        })
    content = {"max_tokens": max_tokens, "cases": cases}
    (directory / "states.json").write_text(json.dumps(content, ensure_ascii=False))


def states(name: str) -> None:
    directory = HERE / name
    model = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(directory)
    expected = json.loads((directory / "expected.json").read_text())
    write_states(directory, model, tokenizer, expected["max_tokens"])


# As gte-base-en-v1.5 is published: a bare encoder, stretched positions, no kinds of texts. The reranker's golden model
# has another stretch, and kinds (`generate_rerankers.py`, whose sources are this one's).
STRETCH = 2.0


@torch.no_grad()
def gte_embedder() -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    directory, base = HERE / "tiny-gte-embedder", HERE / "tiny-gte-embedder-base"
    shutil.rmtree(directory, ignore_errors=True)
    tokenizer = make_unigram_tokenizer(base)
    torch.manual_seed(72)
    model = GteModel(GteConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=MAX_TOKENS, type_vocab_size=0, layer_norm_eps=1e-12, pad_token_id=1,
        initializer_range=0.2, rope_parameters={"rope_type": "default", "rope_theta": 20000.0},
        attn_implementation="eager",
    ), add_pooling_layer=False).eval()
    stir(model)
    model.save_pretrained(base)
    transformer = Transformer(str(base), max_seq_length=MAX_TOKENS)
    whole = SentenceTransformer(modules=[transformer, Pooling(32, "cls"), Normalize()], device="cpu").eval()
    # Fixed NTK (https://kexue.fm/archives/9706, equation 6): base and frequencies are both scaled.
    dim = 8
    frequencies = 1.0 / (20000.0 * STRETCH) ** (torch.arange(0, dim, 2).float() / dim) / STRETCH ** (2 / dim)
    inner = transformer.model if hasattr(transformer, "model") else transformer.auto_model
    for it in (inner, model):
        assert not torch.allclose(frequencies, it.rotary_emb.inv_freq)
        it.rotary_emb.inv_freq.copy_(frequencies)
    whole.save(str(directory), create_model_card=False)
    shutil.rmtree(base)
    cases = [{"text": it, "vector": rounded(whole.encode(it, normalize_embeddings=True))} for it in EMBEDDED]
    tensors = {f"gte.{name}": tensor for name, tensor in model.state_dict().items()}
    named = [it for it in (gte_names(name, tensors) for name in tensors) if it]
    save_file(
        {name.removeprefix("new."): tensor.contiguous() for name, tensor in named}, directory / "model.safetensors",
        metadata={"format": "pt"},
    )
    code = "Alibaba-NLP/new-impl--"
    config = {
        "architectures": ["NewModel"],
        "auto_map": {"AutoConfig": f"{code}configuration.NewConfig", "AutoModel": f"{code}modeling.NewModel"},
        "model_type": "new", "vocab_size": len(tokenizer), "hidden_size": 32, "num_hidden_layers": 4,
        "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": MAX_TOKENS,
        "type_vocab_size": 0, "layer_norm_eps": 1e-12, "layer_norm_type": "layer_norm", "hidden_act": "gelu",
        "pad_token_id": 1, "position_embedding_type": "rope", "rope_theta": 20000,
        "rope_scaling": {"factor": STRETCH, "type": "ntk"}, "pack_qkv": True, "logn_attention_scale": False,
    }
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    content = {"max_tokens": MAX_TOKENS, "cases": cases}
    (directory / "expected.json").write_text(json.dumps(content, ensure_ascii=False))
    write_states(directory, model, tokenizer, MAX_TOKENS)


if __name__ == "__main__":
    gte_embedder()
    for name in EMBEDDERS:
        states(name)
