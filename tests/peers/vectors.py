"""A graph of vectors by usearch (int8), to be held against `riddle-retrieval`'s own.

    python tests/peers/vectors.py REAL.f32 384 1000000 FOLDER [--noise 0.6] [--queries 60] [--threads 2]

Needs `pip install usearch numpy`. Vectors are made as `crates/retrieval/examples/vectors.rs` makes them: real ones, then
the same with noise. Links, breadth of building and breadth of searching are those of the example, where a search for 50
hits walks with a breadth of 400. Prints a line of JSON for each thing measured.
"""

import argparse
import json
import os
import resource
import time

import numpy as np
from usearch.index import Index


def made(real, first, count, noise, seed):
    """Rows of length 1: the real vectors first, then the same with noise."""
    numbers = np.arange(first, first + count)
    rows = real[numbers % len(real)].copy()
    noisy = numbers >= len(real)
    random = np.random.default_rng(seed + first)
    step = noise / np.sqrt(real.shape[1])
    rows[noisy] += random.standard_normal((int(noisy.sum()), real.shape[1]), dtype=np.float32) * step
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def exact(real, count, queries, noise, keep):
    """The numbers of the ten nearest of each query among those that `keep` lets pass."""
    scores = np.full((len(queries), 10), -2.0, dtype=np.float32)
    numbers = np.zeros((len(queries), 10), dtype=np.int64)
    for first in range(0, count, 50_000):
        size = min(50_000, count - first)
        part = queries @ made(real, first, size, noise, 1).T
        own = np.arange(first, first + size)
        part[:, ~keep(own)] = -2
        scores = np.concatenate([scores, part], axis=1)
        numbers = np.concatenate([numbers, np.broadcast_to(own, part.shape)], axis=1)
        best = np.argsort(-scores, axis=1)[:, :10]
        scores = np.take_along_axis(scores, best, axis=1)
        numbers = np.take_along_axis(numbers, best, axis=1)
    return numbers


def ask(index, queries, expected):
    """Recall of the ten nearest, and times."""
    found, times = 0, []
    for query, right in zip(queries, expected):
        start = time.perf_counter()
        keys = index.search(query, 50).keys
        times.append((time.perf_counter() - start) * 1e3)
        found += len(set(keys[:10].tolist()) & set(right.tolist()))
    return {
        "recall_at_10": round(found / (10 * len(queries)), 4),
        "p50_ms": round(float(np.percentile(times, 50)), 2),
        "p95_ms": round(float(np.percentile(times, 95)), 2),
    }


def say(what, **figures):
    """A line of JSON."""
    print(json.dumps({"what": what, **figures}), flush=True)


def main():
    """Builds, opens and searches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("real")
    parser.add_argument("dimensions", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("folder")
    parser.add_argument("--noise", type=float, default=0.6)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    real = np.fromfile(given.real, dtype="<f4").reshape(-1, given.dimensions)
    os.makedirs(given.folder, exist_ok=True)
    file = os.path.join(given.folder, "usearch.index")
    shape = {"ndim": given.dimensions, "metric": "cos", "dtype": "i8", "connectivity": 16}
    index = Index(**shape, expansion_add=200, expansion_search=400)
    seconds = 0.0
    for first in range(0, given.count, 50_000):
        size = min(50_000, given.count - first)
        rows = made(real, first, size, given.noise, 1)
        start = time.perf_counter()
        index.add(np.arange(first, first + size), rows, threads=given.threads)
        seconds += time.perf_counter() - start
    start = time.perf_counter()
    index.save(file)
    seconds += time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000
    size = os.path.getsize(file) // 1_000_000
    say("build", vectors=given.count, all_s=round(seconds, 1), disk_mb=size, peak_mb=peak)
    queries = made(real, given.count, 331 * given.queries, given.noise, 2)[::331]
    expected = exact(real, given.count, queries, given.noise, lambda it: it >= 0)
    start = time.perf_counter()
    index = Index(**shape, expansion_search=400)
    index.view(file)
    say("open", ms=round((time.perf_counter() - start) * 1e3, 1))
    say("first", **ask(index, queries, expected))
    say("again", **ask(index, queries, expected))


if __name__ == "__main__":
    main()
