"""Measures the bundled reranker on candidate lists as a search makes them, with and without pruning, beside ONNX Runtime.

    venv/bin/python lists.py path/to/hotpot500 minilm-dense-top50 MODEL --riddle target/release/riddle --work FOLDER

The scores of the run must be cosines. MODEL holds published weights of the same shape (any BERT of as many layers and the width 384 with one label): how fast ONNX Runtime
computes it does not depend on their values. It runs all layers for all candidates, in one batch that is padded to its
longest. Both are open all the time and have answered the list once before; then they take turns. Tokenizing counts,
opening a model does not. With --tokens every text is cut, or filled with the next ones, until its pair has so many. The table has a row per
list, and the medians.
"""

import argparse
import contextlib
import gzip
import json
import os
import statistics
import subprocess
import time
from pathlib import Path

import rerank

PAUSE = 0.2

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
    parser.add_argument("--inner", type=int, default=3, help="answers to each list, of which the median counts")
    parser.add_argument("--tokens", type=int, help="length of all pairs [default: as they are]")
    args = parser.parse_args()
    args.peer = "ort-int8"
    if not rerank.onnx_file(args, args.peer).exists():
        rerank.export(args, args.peer)
    score = rerank.open_ort(args)
    rows = []
    with contextlib.ExitStack() as stack:
        answers = {"ONNX Runtime, int8": lambda request: peer(score, request)}
        answers |= {name: stack.enter_context(ours(args, options)) for name, options in SETTINGS.items()}
        for request in requests(args):
            if args.tokens:
                fit(args, request)
            times = {name: [] for name in answers}
            for _ in range(args.inner + 1):
                for name, answer in answers.items():
                    times[name].append(answer(request))
                    # Threads that wait for more work by turning in circles would take the next one's time.
                    time.sleep(PAUSE)
            row = {name: statistics.median(its[1:]) for name, its in times.items()}
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


def fit(args, request):
    """Gives every pair the same number of tokens."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    texts = [it["text"] for it in request["documents"]]
    query = len(tokenizer.encode(request["query"], "").ids)
    for place, document in enumerate(request["documents"]):
        # Texts that follow in the list, so often that the shortest are enough.
        text = " ".join((texts[place:] + texts[:place]) * 2)
        encoded = tokenizer.encode(text, add_special_tokens=False)
        document["text"] = text[: encoded.offsets[args.tokens - query - 1][1]]


def peer(score, request):
    started = time.perf_counter()
    score(request["query"], [it["text"] for it in request["documents"]])
    return (time.perf_counter() - started) * 1e3


@contextlib.contextmanager
def ours(args, options):
    command = [args.riddle, "rerank", "--model", args.reranker, "--threads", str(args.threads), "--lines", *options]
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:

        def answer(request):
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            timings = json.loads(process.stdout.readline())["timings_ms"]
            # The peer's time has its tokenizer's in it.
            return timings["forward"] + timings["tokenize"]

        yield answer
        process.stdin.close()


if __name__ == "__main__":
    main()
