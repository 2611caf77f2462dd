"""Measures `riddle` beside other programs: the same model directory, the same request, the same threads.

    python3 -m venv venv && venv/bin/pip install -r requirements.txt
    riddle bench prepare --shape minilm-l6 --candidates 20 --tokens 256 --dir /tmp/shapes --request /tmp/request.json
    venv/bin/python rerank.py /tmp/shapes/minilm-l6-f32 /tmp/request.json --riddle target/release/riddle

Every run is a fresh process, because peak memory belongs to a process: it opens the model, answers once to
warm up, then answers `--inner` times, of which the median counts. Rounds go there and back over all peers;
the table shows medians over the rounds. ONNX models are exported once, into `--work`, by a process that is
not measured.

Peers: hf-f32 and hf-bf16 (Hugging Face transformers), ort-f32 and ort-int8 (ONNX Runtime; int8 by dynamic
quantization), riddle-f32, riddle-bf16 (products of bf16), riddle-int8 and riddle-q4 (stores that `riddle models
convert` makes, once, into `--work`), and riddle-window (the published weights, two layers and a tenth of the
embedding rows in memory). Decoders are compared with transformers only. `riddle bench rerank --peers` runs
this script; RIDDLE_FORCE_ISA holds our side back to older instructions, older_cpu.py ONNX Runtime.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PEERS = [
    "hf-f32", "hf-bf16", "ort-f32", "ort-int8",
    "riddle-f32", "riddle-bf16", "riddle-int8", "riddle-q4", "riddle-window",
]
# What everything is compared with: speed with what Riddle ships, scores with the reference implementation.
BASELINE, REFERENCE = "riddle-int8", "hf-f32"

# Model card of Qwen3-Reranker: https://huggingface.co/Qwen/Qwen3-Reranker-0.6B#transformers-usage
QWEN_PREFIX = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
QWEN_SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
QWEN_TASK = "Given a web search query, retrieve relevant passages that answer the query"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("request", type=Path)
    parser.add_argument("--riddle", type=Path, default=Path("target/release/riddle"))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--inner", type=int, default=3, help="timed answers of a process")
    parser.add_argument("--batch", type=int, default=0, help="candidates at a time of the others; 0: all")
    parser.add_argument("--peers", default=",".join(PEERS), help="which, separated by commas")
    parser.add_argument("--skip", default="", help="which not, separated by commas")
    parser.add_argument("--work", type=Path, help="where exported models are kept [default: beside the model]")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        print(json.dumps(answer(args)))
        return
    args.work = args.work or args.model.parent / f"{args.model.name}-onnx"
    peers = chosen(args)
    runs = {peer: [] for peer in peers}
    failed = {}
    for round_ in range(args.rounds):
        for peer in peers if round_ % 2 == 0 else reversed(peers):
            if peer in failed:
                continue
            print(f"round {round_ + 1}/{args.rounds}: {peer}", file=sys.stderr)
            try:
                runs[peer].append(measure(args, peer))
            except subprocess.CalledProcessError as error:
                # One peer that can not run (memory, a missing package) must not cost the others' figures.
                failed[peer] = (error.stderr or "").strip().splitlines()[-1:] or [str(error)]
                print(f"{peer} failed: {failed[peer][0]}", file=sys.stderr)
    report = summary(args, {peer: its for peer, its in runs.items() if its}, failed)
    show(report)
    if args.json:
        args.json.write_text(json.dumps(report, indent=1))


def chosen(args):
    skip = set(args.skip.split(","))
    asked = args.peers.split(",")
    unknown = [it for it in asked + args.skip.split(",") if it and it not in PEERS]
    if unknown:
        sys.exit(f"no such peer: {', '.join(unknown)} (there are {', '.join(PEERS)})")
    peers = [it for it in asked if it not in skip]
    if family(args.model) not in ("bert", "xlm-roberta"):
        peers = [it for it in peers if not it.startswith("ort-")]
    return peers


def family(model):
    return json.loads((model / "config.json").read_text())["model_type"]


# --- The measuring side -------------------------------------------------------------------------------


def measure(args, peer):
    if peer.startswith("riddle"):
        return measure_riddle(args, peer)
    if peer.startswith("ort-") and not onnx_file(args, peer).exists():
        child(args, f"export-{peer}")
    return json.loads(child(args, peer).splitlines()[-1])


def child(args, peer):
    command = [sys.executable, __file__, args.model, args.request, "--peer", peer]
    for name in ("threads", "inner", "batch", "work"):
        command += [f"--{name}", str(getattr(args, name))]
    # Nothing may be fetched, and no thread pool but the one that is asked for.
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(args.threads)}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return run.stdout


def measure_riddle(args, peer):
    """The process that `riddle bench rerank` starts: it warms up as the others do. Its answer is one run."""
    setting = {"threads": args.threads, "embedding_rows": 1.0}
    model = args.model
    if peer == "riddle-window":
        setting |= {"window": 2, "embedding_rows": 0.1}
    else:
        dtype = peer.removeprefix("riddle-")
        setting["bf16"] = dtype == "bf16"
        model = args.work / peer
        if not (model / "model.riddle").exists():
            command = [args.riddle, "models", "convert", args.model, "--dtype", dtype, "--out", model]
            subprocess.run(command, capture_output=True, text=True, check=True)
    request = json.loads(args.request.read_text())
    # Scores of all are wanted, to compare them.
    request["top_n"] = len(request["documents"])
    job = {"model": str(model), "setting": setting, "request": request, "warm_up_fully": True}
    figures = []
    for _ in range(args.inner):
        run = subprocess.run(
            [args.riddle, "bench-worker"], input=json.dumps(job), capture_output=True, text=True, check=True
        )
        figures.append(json.loads(run.stdout.split("\n", 1)[1]))
    return {
        "latency_ms": statistics.median(it["latency_ms"] for it in figures),
        "peak_bytes": statistics.median(it["peak_rss_bytes"] for it in figures),
        "open_ms": statistics.median(it["open_ms"] for it in figures),
        "operations_ms": {
            name: statistics.median(it["operations_ms"][name] for it in figures)
            for name in figures[0].get("operations_ms", {})
        },
        "scores": [score for _, score in sorted(figures[0]["scores"])],
    }


# --- The measured side: imports are inside, so that nobody pays for another's library -----------------


def answer(args):
    if args.peer.startswith("export-"):
        export(args, args.peer.removeprefix("export-"))
        return {}
    request = json.loads(args.request.read_text())
    documents = [it if isinstance(it, str) else it["text"] for it in request["documents"]]
    started = time.perf_counter()
    score = open_ort(args) if args.peer.startswith("ort-") else open_hf(args)
    open_ms = (time.perf_counter() - started) * 1e3
    batch = args.batch or len(documents)

    def rerank():
        return [
            it for first in range(0, len(documents), batch)
            for it in score(request["query"], documents[first : first + batch])
        ]

    rerank()
    times = []
    for _ in range(args.inner):
        started = time.perf_counter()
        scores = rerank()
        times.append((time.perf_counter() - started) * 1e3)
    return {
        "latency_ms": statistics.median(times), "peak_bytes": peak_bytes(), "open_ms": open_ms, "scores": scores,
    }


def peak_bytes():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    sys.exit("this system does not tell the peak memory of a process")


def open_tokenizer(args):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(args.model)


def open_hf(args):
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

    torch.set_num_threads(args.threads)
    dtype = torch.bfloat16 if args.peer == "hf-bf16" else torch.float32
    tokenizer = open_tokenizer(args)
    if family(args.model) == "qwen3":
        return open_qwen(args, tokenizer, AutoModelForCausalLM, dtype)
    model = AutoModelForSequenceClassification.from_pretrained(args.model, dtype=dtype).eval()

    @torch.inference_mode()
    def score(query, documents):
        inputs = tokenizer(
            [query] * len(documents), documents, padding=True, truncation=True, return_tensors="pt"
        )
        return model(**inputs).logits[:, 0].float().tolist()

    return score


def open_qwen(args, tokenizer, model_class, dtype):
    import torch

    model = model_class.from_pretrained(args.model, dtype=dtype).eval()
    yes, no = (tokenizer.convert_tokens_to_ids(it) for it in ("yes", "no"))
    tokenizer.padding_side = "left"

    @torch.inference_mode()
    def score(query, documents):
        texts = [
            f"{QWEN_PREFIX}<Instruct>: {QWEN_TASK}\n<Query>: {query}\n<Document>: {it}{QWEN_SUFFIX}"
            for it in documents
        ]
        inputs = tokenizer(texts, padding=True, add_special_tokens=False, return_tensors="pt")
        # Only the last position is asked for: the whole output matrix of every token would be the
        # library's loss and not the model's.
        logits = model(**inputs, logits_to_keep=1).logits[:, -1, :]
        return (logits[:, yes] - logits[:, no]).float().tolist()

    return score


def onnx_file(args, peer):
    return args.work / f"{peer.removeprefix('ort-')}.onnx"


def export(args, peer):
    args.work.mkdir(parents=True, exist_ok=True)
    plain = onnx_file(args, "ort-f32")
    if not plain.exists():
        export_f32(args, plain)
    if peer == "ort-int8":
        from onnxruntime.quantization import QuantType, quantize_dynamic

        # Protocol buffers end at two gigabytes.
        large = sum(it.stat().st_size for it in args.model.glob("*.safetensors")) > 1 << 30
        quantize_dynamic(
            plain, onnx_file(args, peer), weight_type=QuantType.QInt8, use_external_data_format=large
        )


def export_f32(args, path):
    import torch
    from transformers import AutoModelForSequenceClassification

    # The plain attention: the fused one has no ONNX operator, and ONNX Runtime fuses for itself.
    model = AutoModelForSequenceClassification.from_pretrained(
        args.model, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    inputs = dict(open_tokenizer(args)(["a b"] * 2, ["c d e"] * 2, return_tensors="pt"))

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *tensors):
            return self.model(**dict(zip(inputs, tensors))).logits

    axes = {name: {0: "batch", 1: "tokens"} for name in inputs}
    with tempfile.TemporaryDirectory(dir=args.work) as unfinished:
        # Weights of large models lie beside the file, under names that it keeps: the folder moves as a whole.
        torch.onnx.export(
            Logits(), tuple(inputs.values()), f"{unfinished}/{path.name}", input_names=list(inputs),
            output_names=["logits"], dynamic_axes={**axes, "logits": {0: "batch"}}, opset_version=17,
            dynamo=False,
        )
        for file in sorted(Path(unfinished).iterdir(), key=lambda it: it.name == path.name):
            file.rename(args.work / file.name)


def open_ort(args):
    import numpy
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        onnx_file(args, args.peer), options, providers=["CPUExecutionProvider"]
    )
    names = [it.name for it in session.get_inputs()]
    # The tokenizer without transformers around it: this peer should not pay for importing torch.
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    settings = json.loads((args.model / "tokenizer_config.json").read_text())
    pad = settings.get("pad_token", "[PAD]")
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id(pad), pad_token=pad)
    tokenizer.enable_truncation(settings["model_max_length"], strategy="longest_first")

    def score(query, documents):
        encodings = tokenizer.encode_batch([(query, it) for it in documents])
        parts = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        inputs = {
            name: numpy.array([getattr(it, parts[name]) for it in encodings], dtype=numpy.int64)
            for name in names
        }
        return session.run(None, inputs)[0][:, 0].astype(float).tolist()

    return score


# --- What comes of it ---------------------------------------------------------------------------------


def summary(args, runs, failed):
    def middle(peer, key):
        return statistics.median(it[key] for it in runs[peer])

    def difference(peer):
        reference = runs.get(REFERENCE)
        if not reference:
            return None
        pairs = zip(runs[peer][0]["scores"], reference[0]["scores"], strict=True)
        return max(abs(a - b) for a, b in pairs)

    def ratio(peer, key):
        # Of the same round: what slows the machine slows both.
        if not runs.get(BASELINE):
            return None
        return statistics.median(a[key] / b[key] for a, b in zip(runs[peer], runs[BASELINE]))

    def operations(peer):
        # Only Riddle tells what its operations take.
        names = runs[peer][0].get("operations_ms", {})
        return {name: statistics.median(it["operations_ms"][name] for it in runs[peer]) for name in names}

    request = json.loads(args.request.read_text())
    mark = args.model / "shape.json"
    return {
        "model": str(args.model),
        "random_weights": mark.exists(),
        "candidates": len(request["documents"]),
        "threads": args.threads,
        "rounds": args.rounds,
        "machine": {"processor": processor(), "cores": os.cpu_count(), "system": platform.platform()},
        "versions": versions(),
        "peers": {
            peer: {
                "latency_ms": middle(peer, "latency_ms"),
                "latency_ratio": ratio(peer, "latency_ms"),
                "peak_bytes": middle(peer, "peak_bytes"),
                "peak_ratio": ratio(peer, "peak_bytes"),
                "open_ms": middle(peer, "open_ms"),
                "worst_score_difference": difference(peer),
                "operations_ms": operations(peer),
                "runs_ms": [it["latency_ms"] for it in runs[peer]],
            }
            for peer in runs
        },
        "failed": failed,
    }


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((it.split(":", 1)[1].strip() for it in lines if it.startswith("model name")), "unknown")


def versions():
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("torch", "transformers", "onnxruntime", "tokenizers"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def show(report):
    weights = ", random weights" if report["random_weights"] else ""
    machine = report["machine"]
    print(f"{report['model']}{weights}: {report['candidates']} candidates, {report['threads']} threads")
    print(f"{machine['processor']}, {machine['cores']} cores, {machine['system']}; {report['versions']}\n")
    print("| peer | latency, ms | × ours int8 | peak, MB | × ours int8 | opening, ms | worst difference from hf-f32 |")
    print("|---|--:|--:|--:|--:|--:|--:|")

    def number(value, form):
        return "–" if value is None else format(value, form)

    for peer, it in report["peers"].items():
        cells = [
            peer, number(it["latency_ms"], ".0f"), number(it["latency_ratio"], ".2f"),
            number(it["peak_bytes"] / 1e6, ".0f"), number(it["peak_ratio"], ".2f"), number(it["open_ms"], ".0f"),
            number(it["worst_score_difference"], ".1e"),
        ]
        print(f"| {' | '.join(cells)} |")
    for peer, it in report["peers"].items():
        if it["operations_ms"]:
            parts = sorted(it["operations_ms"].items(), key=lambda part: -part[1])
            shares = ", ".join(f"{name} {ms / it['latency_ms']:.0%}" for name, ms in parts)
            print(f"\n{peer}: {shares}", end="")
    print()
    for peer, why in report["failed"].items():
        print(f"\n{peer} failed: {why[0]}")


if __name__ == "__main__":
    main()
