"""Measures the built-in embedder beside ONNX Runtime: the same model, the same texts, the same threads.

    venv/bin/python embed.py MODEL TEXTS --ours target/release/examples/throughput --work FOLDER

MODEL is a BERT of sentence-transformers (all-MiniLM-L6-v2), TEXTS has a text per line. ONNX Runtime runs as
fastembed runs it: batches of 256 in the given order, padded to their longest; and once more in batches of 32,
which suit it better. fastembed itself runs the same exported model. Rounds go there and back; the table shows medians. Exported and converted models are kept in
`--work`. Cosines are those to ONNX Runtime in f32.
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

PEERS = [
    "fastembed-f32", "fastembed-int8", "ort-f32", "ort-f32-small", "ort-int8", "ort-int8-small", "ours-f32", "ours-int8",
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--ours", type=Path, default=Path("target/release/examples/throughput"))
    parser.add_argument("--riddle", type=Path, default=Path("target/release/riddle"))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    if args.peer:
        texts = args.texts.read_text().splitlines()
        embed = open_fastembed(args) if args.peer.startswith("fastembed") else open_ort(args)
        embed(texts[:256])
        times = []
        for _ in range(3):
            started = time.perf_counter()
            vectors = embed(texts)
            times.append(time.perf_counter() - started)
        vectors_file(args, args.peer).write_text(json.dumps(vectors.tolist()))
        print(len(texts) / statistics.median(times))
        return
    rates = {peer: [] for peer in args.peers.split(",")}
    for round_ in range(args.rounds):
        for peer in rates if round_ % 2 == 0 else reversed(rates):
            print(f"round {round_ + 1}/{args.rounds}: {peer}", file=sys.stderr)
            rates[peer].append(measure(args, peer))
    show(args, rates)


def vectors_file(args, peer):
    return args.work / f"{peer}.json"


def measure(args, peer):
    """Texts per second; the vectors are left in a file."""
    if peer.startswith("ours-"):
        model = args.model
        if peer == "ours-int8":
            model = args.work / "int8" / args.model.name
            if not (model / "model.riddle").exists():
                command = [args.riddle, "models", "convert", args.model, "--dtype", "int8", "--out", model]
                subprocess.run(command, check=True, capture_output=True)
        with args.texts.open() as texts:
            command = [args.ours, model, str(args.threads), vectors_file(args, peer)]
            run = subprocess.run(command, stdin=texts, capture_output=True, text=True, check=True)
        return float(run.stdout.split(" texts/s")[0].rsplit(" ", 1)[1])
    command = [sys.executable, __file__, args.model, args.texts, "--work", args.work, "--peer", peer]
    command += ["--threads", str(args.threads)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(args.threads)}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return float(run.stdout.splitlines()[-1])


def open_fastembed(args):
    import numpy
    from fastembed import TextEmbedding

    # It takes a folder as the hub has it.
    dtype = args.peer.removeprefix("fastembed-")
    folder = args.work / args.peer
    folder.mkdir(exist_ok=True)
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(args.model / name, folder)
    settings = json.loads((args.model / "tokenizer_config.json").read_text())
    marks = {key: it for key, it in settings.items() if key.endswith("_token")}
    (folder / "special_tokens_map.json").write_text(json.dumps(marks))
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "max_length": token_limit(args)}))
    shutil.copy(onnx_file(args, dtype), folder / "model.onnx")
    model = TextEmbedding(
        "sentence-transformers/all-MiniLM-L6-v2", threads=args.threads, specific_model_path=str(folder),
    )
    return lambda texts: numpy.array(list(model.embed(texts)))


def token_limit(args):
    return json.loads((args.model / "sentence_bert_config.json").read_text())["max_seq_length"]


def open_ort(args):
    import numpy
    import onnxruntime
    from tokenizers import Tokenizer

    file = onnx_file(args, "int8" if "int8" in args.peer else "f32")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [it.name for it in session.get_inputs()]
    tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    tokenizer.enable_truncation(token_limit(args))
    batch = 32 if args.peer.endswith("-small") else 256

    def embed(some):
        encodings = tokenizer.encode_batch(some)
        parts = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        inputs = {
            name: numpy.array([getattr(it, parts[name]) for it in encodings], dtype=numpy.int64)
            for name in names
        }
        hidden = session.run(None, inputs)[0]
        mask = inputs["attention_mask"][:, :, None].astype(numpy.float32)
        mean = (hidden * mask).sum(1) / mask.sum(1)
        return mean / numpy.linalg.norm(mean, axis=1, keepdims=True)

    return lambda texts: numpy.concatenate(
        [embed(texts[first : first + batch]) for first in range(0, len(texts), batch)]
    )


def onnx_file(args, dtype):
    plain = args.work / "f32.onnx"
    if not plain.exists():
        export(args, plain)
    if dtype == "f32":
        return plain
    quantized = args.work / "int8.onnx"
    if not quantized.exists():
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(plain, quantized, weight_type=QuantType.QInt8)
    return quantized


def export(args, path):
    import torch
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(args.model, dtype=torch.float32, attn_implementation="eager").eval()
    inputs = dict(AutoTokenizer.from_pretrained(args.model)(["a b", "c d"], return_tensors="pt"))

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *tensors):
            return self.model(**dict(zip(inputs, tensors))).last_hidden_state

    axes = {name: {0: "batch", 1: "tokens"} for name in inputs}
    torch.onnx.export(
        Hidden(), tuple(inputs.values()), path, input_names=list(inputs), output_names=["hidden"],
        dynamic_axes={**axes, "hidden": {0: "batch", 1: "tokens"}}, opset_version=17, dynamo=False,
    )


def show(args, rates):
    import numpy

    reference = None
    if vectors_file(args, "ort-f32").exists():
        reference = numpy.array(json.loads(vectors_file(args, "ort-f32").read_text()))
    base = rates.get("ort-f32")
    print("| embedder | texts/s | × ort-f32 | cosine to ort-f32: mean | smallest |")
    print("|---|--:|--:|--:|--:|")
    for peer, runs in rates.items():
        ratio = statistics.median(a / b for a, b in zip(runs, base)) if base else float("nan")
        cosines = [float("nan")]
        if reference is not None:
            vectors = numpy.array(json.loads(vectors_file(args, peer).read_text()))
            cosines = (vectors * reference).sum(1)
        print(
            f"| {peer} | {statistics.median(runs):.1f} | {ratio:.2f} |"
            f" {numpy.mean(cosines):.5f} | {numpy.min(cosines):.5f} |"
        )


if __name__ == "__main__":
    main()
