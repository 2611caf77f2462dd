"""Measures every family of built-in embedders beside ONNX Runtime int8: published shapes, random weights, equal texts.

    venv/bin/python embedders.py --ours target/release/examples/throughput --riddle target/release/riddle --work FOLDER

Tokenizers and the files of sentence-transformers are those of the small models in `tests/golden`, so tables are small;
layers have the sizes that are published. Both get the same texts of 240 tokens, ONNX Runtime in batches of 16 with
nothing to fill up. Rounds go there and back; the table shows medians, and how near our vectors are to those of PyTorch.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"
TOKENS = 240
BATCH = 16
# By family: the small model that it is made of, the published one whose sizes it has, these, and how many texts.
FAMILIES = {
    "BERT": ("tiny-bert-encoder", "all-MiniLM-L6-v2", 96, dict(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
        max_position_embeddings=512)),
    "XLM-RoBERTa": ("tiny-xlm-roberta-embedder", "multilingual-e5-small", 64, dict(
        hidden_size=384, num_hidden_layers=12, num_attention_heads=12, intermediate_size=1536,
        max_position_embeddings=514)),
    "MPNet": ("tiny-mpnet-embedder", "all-mpnet-base-v2", 32, dict(
        hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
        max_position_embeddings=514)),
    "ModernBERT": ("tiny-modernbert-embedder", "modernbert-embed-base", 32, dict(
        hidden_size=768, num_hidden_layers=22, num_attention_heads=12, intermediate_size=1152,
        max_position_embeddings=8192, local_attention=128,
        layer_types=(["full_attention"] + ["sliding_attention"] * 2) * 7 + ["full_attention"])),
    "Gemma 3": ("tiny-gemma3-embedder", "embeddinggemma-300m", 16, dict(
        hidden_size=768, num_hidden_layers=24, num_attention_heads=3, num_key_value_heads=1, head_dim=256,
        intermediate_size=1152, max_position_embeddings=2048, sliding_window=512, query_pre_attn_scalar=256,
        layer_types=(["sliding_attention"] * 5 + ["full_attention"]) * 4)),
    "Qwen 3": ("tiny-qwen3-embedder", "Qwen3-Embedding-0.6B", 16, dict(
        hidden_size=1024, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8, head_dim=128,
        intermediate_size=3072, max_position_embeddings=32768, layer_types=["full_attention"] * 28)),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ours", type=Path, default=Path("target/release/examples/throughput"))
    parser.add_argument("--riddle", type=Path, default=Path("target/release/riddle"))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        print(run_onnx(args, args.work / args.peer))
        return
    print("| family | sizes of | ours | ONNX Runtime int8 | times | cosine |\n|---|---|--:|--:|--:|--:|")
    for family in args.families.split(","):
        directory = args.work / family.replace(" ", "-").lower()
        _, published, _, _ = FAMILIES[family]
        if not (directory / "int8.onnx").exists():
            make(args, family, directory)
        rates = {run_ours: [], run_peer: []}
        for round_ in range(args.rounds):
            for run in rates if round_ % 2 == 0 else reversed(rates):
                rates[run].append(run(args, directory))
        ours, theirs = (statistics.median(it) for it in rates.values())
        row = f"{ours:.1f} | {theirs:.1f} | {ours / theirs:.2f} | {cosine(directory):.4f}"
        print(f"| {family} | {published} | {row} |", flush=True)


def make(args, family, directory):
    import torch
    from transformers import AutoConfig, AutoModel

    small, _, count, sizes = FAMILIES[family]
    shutil.rmtree(directory, ignore_errors=True)
    model_dir = directory / "model"
    shutil.copytree(GOLDEN / small, model_dir)
    torch.manual_seed(7)
    config = AutoConfig.from_pretrained(model_dir, attn_implementation="eager")
    for name, value in sizes.items():
        setattr(config, name, value)
    config.initializer_range = 0.05
    model = AutoModel.from_config(config, attn_implementation="eager").eval()
    for pattern in ("*.safetensors", "*.bin", "expected.json"):
        for file in model_dir.glob(pattern):
            file.unlink()
    widen_modules(model_dir, config.hidden_size)
    model.save_pretrained(model_dir)
    texts = equal_texts(model_dir, count)
    (directory / "texts.txt").write_text("\n".join(texts) + "\n")
    int8 = directory / "int8"
    command = [args.riddle, "models", "convert", model_dir, "--dtype", "int8", "--out", int8]
    subprocess.run(command, check=True, capture_output=True)
    export(model, model_dir, texts[:2], directory)


def widen_modules(model_dir, hidden):
    """Pooling of the new width, and nothing behind it: what follows is of no weight."""
    for file in model_dir.glob("*_Pooling/config.json"):
        pooling = json.loads(file.read_text())
        for name in ("word_embedding_dimension", "embedding_dimension"):
            if name in pooling:
                pooling[name] = hidden
        file.write_text(json.dumps(pooling))
    modules = model_dir / "modules.json"
    if modules.exists():
        kept = [it for it in json.loads(modules.read_text()) if not it["type"].endswith((".Dense", ".LayerNorm"))]
        modules.write_text(json.dumps(kept))
    settings = model_dir / "sentence_bert_config.json"
    settings.write_text(json.dumps({"max_seq_length": TOKENS}))
    for file in ("tokenizer_config.json", "config_sentence_transformers.json"):
        path = model_dir / file
        if path.exists():
            value = json.loads(path.read_text())
            value.update({"model_max_length": TOKENS} if "tokenizer" in file else {"prompts": {}})
            value.pop("truncate_dim", None)
            path.write_text(json.dumps(value))


def equal_texts(model_dir, count):
    """Texts that are cut at the same length."""
    words = "the ferry to the island leaves the old pier at nine in the morning bread is baked from flour and salt".split()
    return [" ".join(words[(start * 7 + it * (start % 5 + 1)) % len(words)] for it in range(TOKENS)) for start in range(count)]


def encode(model_dir, texts):
    import numpy
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(TOKENS)
    ids = [it.ids for it in tokenizer.encode_batch(texts)]
    assert all(len(it) == TOKENS for it in ids), {len(it) for it in ids}
    return numpy.array(ids, dtype=numpy.int64)


def export(model, model_dir, texts, directory):
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    ids = torch.from_numpy(encode(model_dir, texts))
    plain, quantized = directory / "f32.onnx", directory / "int8.onnx"
    batch, tokens = torch.export.Dim("batch", min=1, max=512), torch.export.Dim("tokens", min=2, max=512)
    shape = {0: batch, 1: tokens}
    program = torch.onnx.export(
        Hidden(), (ids, torch.ones_like(ids)), dynamo=True, input_names=["input_ids", "attention_mask"],
        dynamic_shapes={"input_ids": shape, "attention_mask": shape}, optimize=True,
    )
    program.save(str(plain))
    quantize_dynamic(plain, quantized, weight_type=QuantType.QInt8, extra_options={"MatMulConstBOnly": True})
    plain.unlink()
    with torch.no_grad():
        hidden = model(input_ids=ids).last_hidden_state
    (directory / "hidden.json").write_text(json.dumps(hidden.tolist()))


def run_ours(args, directory):
    with (directory / "texts.txt").open() as texts:
        command = [args.ours, directory / "int8", str(args.threads), directory / "ours.json"]
        run = subprocess.run(command, stdin=texts, capture_output=True, text=True, check=True)
    return float(run.stdout.split(" texts/s")[0].rsplit(" ", 1)[1])


def run_peer(args, directory):
    command = [sys.executable, __file__, "--work", directory.parent, "--peer", directory.name]
    command += ["--threads", str(args.threads)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(args.threads)}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return float(run.stdout.splitlines()[-1])


def run_onnx(args, directory):
    import numpy
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(directory / "int8.onnx", options, providers=["CPUExecutionProvider"])
    texts = (directory / "texts.txt").read_text().splitlines()
    times = []
    for _ in range(4):
        started = time.perf_counter()
        ids = encode(directory / "model", texts)
        for first in range(0, len(ids), BATCH):
            part = ids[first : first + BATCH]
            inputs = {"input_ids": part, "attention_mask": numpy.ones_like(part)}
            session.run(None, {it.name: inputs[it.name] for it in session.get_inputs()})
        times.append(time.perf_counter() - started)
    return len(texts) / statistics.median(times[1:])


def cosine(directory):
    """The smallest of the first texts, of the pooling that comes nearest."""
    import numpy

    hidden = numpy.array(json.loads((directory / "hidden.json").read_text()))
    ours = numpy.array(json.loads((directory / "ours.json").read_text()))[: len(hidden)]
    weights = numpy.arange(1, hidden.shape[1] + 1)[None, :, None]
    pooled = [hidden.mean(1), hidden[:, 0], hidden[:, -1], (hidden * weights).sum(1)]
    unit = lambda it: it / numpy.linalg.norm(it, axis=1, keepdims=True)
    return max(float((unit(it) * unit(ours)).sum(1).min()) for it in pooled)


if __name__ == "__main__":
    main()
