"""Measures the bundled reranker on candidate lists as a search makes them, with and without pruning, beside ONNX Runtime.

    venv/bin/python lists.py path/to/hotpot500 minilm-dense-top50 MODEL --riddle target/release/riddle --work FOLDER

The scores of the run must be cosines. MODEL holds published weights of the same shape (any BERT of as many layers and the width 384 with one label): how fast ONNX Runtime
computes it does not depend on their values. It runs all layers for all candidates, in one batch that is padded to its
longest. Ours runs in a process of its own each time, reading its weights. Forward passes alone are compared; the table has a
row per list, and the medians.
"""

import argparse
import gzip
import json
import os
import statistics
import subprocess
import time
from pathlib import Path

import rerank

SETTINGS = {
    "off": ["--mode", "off"],
    "set, error 0.01": ["--mode", "set", "--error-probability", "0.01"],
    "set, precision 0.99": ["--mode", "set", "--precision", "0.99"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dataset", type=Path)
    parser.add_argument("run", help="name of a run in the dataset's folder `runs`")
    parser.add_argument("model", type=Path)
    parser.add_argument("--riddle", type=Path, default=Path("target/release/riddle"))
    parser.add_argument("--reranker", default="riddle-reranker")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--lists", type=int, default=12)
    parser.add_argument("--inner", type=int, default=3)
    args = parser.parse_args()
    args.peer = "ort-int8"
    if not rerank.onnx_file(args, args.peer).exists():
        rerank.export(args, args.peer)
    score = rerank.open_ort(args)
    rows = []
    for number, request in enumerate(requests(args)):
        path = args.work / f"list-{number}.json"
        path.write_text(json.dumps(request))
        row = {"ONNX Runtime, int8": peer(args, score, request)}
        row |= {name: ours(args, path, options) for name, options in SETTINGS.items()}
        rows.append(row)
        print("  ".join(f"{name} {value:.0f}" for name, value in row.items()), flush=True)
    for name in rows[0]:
        latency = statistics.median(row[name] for row in rows)
        ratio = statistics.median(row["ONNX Runtime, int8"] / row[name] for row in rows)
        print(f"{name:>20}: {latency:7.0f} ms, {ratio:.2f} times as fast")


def requests(args):
    """Queries spread evenly over the run, each with its candidates."""
    documents = {}
    with gzip.open(args.dataset / "corpus.jsonl.gz", "rt") as lines:
        for line in map(json.loads, lines):
            documents[line["_id"]] = f"{line.get('title', '')}\n{line['text']}".strip()
    queries = {it["_id"]: it["text"] for it in map(json.loads, (args.dataset / "queries.jsonl").open())}
    candidates = {}
    for line in (args.dataset / "runs" / f"{args.run}.trec").open():
        query, _, document, _, score, *_ = line.split()
        # The run's scores are cosines of the embedder that the reranker's prior is for.
        candidates.setdefault(query, []).append({"text": documents[document], "cosine": float(score)})
    step = max(1, len(candidates) // args.lists)
    for query in list(candidates)[: step * args.lists : step]:
        yield {"query": queries[query], "documents": candidates[query], "top_n": 10}


def peer(args, score, request):
    texts = [it["text"] for it in request["documents"]]
    score(request["query"], texts)
    times = []
    for _ in range(args.inner):
        started = time.perf_counter()
        score(request["query"], texts)
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times)


def ours(args, path, options):
    command = [args.riddle, "rerank", "--model", args.reranker, "--threads", str(args.threads), "--json", *options, path]
    answers = [
        json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["timings_ms"]
        for _ in range(args.inner)
    ]
    # The peer's time has its tokenizer's in it.
    return statistics.median(it["forward"] + it["tokenize"] for it in answers)


if __name__ == "__main__":
    main()
