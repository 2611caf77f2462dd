"""What a reranker's card says of answers, fitted to what the example `evidence` of `riddle-rag` has seen.

`python -m riddle_training.answers NEAR.jsonl FAR.jsonl [--domains FILE]`

A question is answered where `evidence + scale * (score - center)` reaches a limit. `NEAR` was asked of a library of the
same kind of texts, `FAR` (questions without an answer) of one of other kinds: both are refused for other reasons and
count the same. `scale` is what a logit weighs beside evidence in a logistic regression in which every domain counts the
same; `center` keeps the limit's meaning: with it both errors are equal there.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib

import numpy as np

# Evidence that a sentence needs to be quoted (`riddle_rag`, `answer::enough`).
QUOTED = 0.49

# Logits beyond these say no more.
REACH = 12.0


def read(path: pathlib.Path, domains: dict[str, str], far: bool) -> list[dict]:
    rows = [json.loads(it) for it in path.read_text().splitlines()]
    found = []
    for row in rows:
        if row["score"] is None or (far and row["in"]):
            continue
        source = row["ds"].split("+")[0]
        score = float(np.clip(row["score"], -REACH, REACH))
        found.append({"domain": domains.get(source, source), "in": row["in"], "far": far, "of": [row["evidence"], score]})
    return found


def weights_of(rows: list[dict]) -> np.ndarray:
    """Every domain counts the same, and in it those with an answer as much as those without, near and far."""
    kind = lambda it: (it["domain"], it["in"], it["far"])
    counts = collections.Counter(kind(it) for it in rows)
    return np.asarray([(1.0 if it["in"] else 0.5) / counts[kind(it)] for it in rows])


def regression(values: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Logistic, by Newton's method; the first coefficient is the constant."""
    columns = np.column_stack([np.ones(len(values)), values])
    found = np.zeros(columns.shape[1])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-np.clip(columns @ found, -30, 30)))
        gradient = columns.T @ (weights * (labels - chance)) - 1e-3 * found
        curvature = (columns * (weights * chance * (1 - chance))[:, None]).T @ columns + 1e-3 * np.eye(len(found))
        step = np.linalg.solve(curvature, gradient)
        found += step
        if np.abs(step).max() < 1e-7:
            break
    return found


def share(rows: list[dict], answered: np.ndarray, wanted: bool, far: bool) -> float:
    """How many of a kind are answered, the mean over domains."""
    groups: dict[str, list[bool]] = {}
    for row, it in zip(rows, answered, strict=True):
        if row["in"] == wanted and row["far"] == far:
            groups.setdefault(row["domain"], []).append(it)
    return float(np.mean([np.mean(it) for it in groups.values()])) if groups else float("nan")


def errors(rows: list[dict], answered: np.ndarray) -> tuple[float, float, float]:
    """Refused although there is an answer, and answered although there is none: near and far."""
    return 1 - share(rows, answered, True, False), share(rows, answered, False, False), share(rows, answered, False, True)


def equal(rows: list[dict], sums: np.ndarray) -> float:
    """The limit at which both errors are the same."""
    low, high = float(sums.min()), float(sums.max())
    for _ in range(40):
        middle = (low + high) / 2
        refused, near, far = errors(rows, sums >= middle)
        low, high = (low, middle) if refused > np.nanmean([near, far]) else (middle, high)
    return low


def sums_of(rows: list[dict], scale: float) -> np.ndarray:
    values = np.asarray([it["of"] for it in rows])
    return values[:, 0] + scale * values[:, 1]


def fit(rows: list[dict]) -> tuple[float, float]:
    """`scale`, and the limit of `evidence + scale * score`."""
    values = np.asarray([it["of"] for it in rows])
    found = regression(values, np.asarray([it["in"] for it in rows], float), weights_of(rows))
    scale = max(round(float(found[2] / found[1]), 3), 0.0) if found[1] > 0 else 0.0
    return scale, equal(rows, sums_of(rows, scale))


def left_out(rows: list[dict], scale: float | None) -> tuple[float, float, float]:
    """Errors on each domain with what was fitted to the others; with a scale of 0 evidence alone."""
    results = []
    for domain in sorted({it["domain"] for it in rows}):
        others = [it for it in rows if it["domain"] != domain]
        own = [it for it in rows if it["domain"] == domain]
        weight, limit = fit(others) if scale is None else (scale, equal(others, sums_of(others, scale)))
        results.append(errors(own, sums_of(own, weight) >= limit))
    return tuple(float(it) for it in np.nanmean(np.asarray(results), 0))


def main() -> None:
    parser = argparse.ArgumentParser(prog="riddle_training.answers", description=__doc__)
    parser.add_argument("near", type=pathlib.Path)
    parser.add_argument("far", type=pathlib.Path)
    parser.add_argument("--domains", type=pathlib.Path, default=pathlib.Path(__file__).parents[1] / "domains.json")
    args = parser.parse_args()
    domains = json.loads(args.domains.read_text())
    rows = read(args.near, domains, False) + read(args.far, domains, True)
    scale, limit = fit(rows)
    print("refused although answerable, answered although not: near, far; each domain left out")
    for name, it in (("evidence", 0.0), ("evidence and score", None)):
        print(f"{name:20}", *(f"{100 * value:5.1f} %" for value in left_out(rows, it)))
    center = round((limit - QUOTED) / scale, 1) if scale else 0.0
    for limit in (0.30, 0.36, 0.40, 0.44, QUOTED, 0.55):
        for name, sums in (("evidence", sums_of(rows, 0.0)), ("both", sums_of(rows, scale) - scale * center)):
            print(f"{limit:.2f} {name:15}", *(f"{100 * value:5.1f} %" for value in errors(rows, sums >= limit)))
    print(json.dumps({"answers": {"scale": scale, "center": center}}))


if __name__ == "__main__":
    main()
