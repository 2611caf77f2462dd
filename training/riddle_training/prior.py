"""How much the cosine counts beside the trained score: chosen on the development questions, kept in `card.json`.

The scale is the one with the best MRR@10, averaged over the sources whose answers the cosine finds at all: where it does
not, a search proposes nothing that could be put in order. The center is the cosine that makes the sum's sigmoid
a probability (least binary cross-entropy), so that scores keep their meaning.
"""

from __future__ import annotations

import concurrent.futures
import json
import pathlib
import random

import numpy as np
import torch

from .bert import Bert, Ragged
from .train import Lists

SCALES = [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0]

# A source with fewer development questions says too little.
FEWEST = 30

# MRR@10 of the cosine below which a source has no say.
FINDS = 0.2


def reciprocal_rank(scores: np.ndarray) -> float:
    """Of the first candidate, the positive; ties count against it."""
    rank = 1 + int((scores[1:] >= scores[0]).sum())
    return 1 / rank if rank <= 10 else 0.0


def center_of(scores: np.ndarray, cosines: np.ndarray, labels: np.ndarray, scale: float) -> float:
    """By bisection on the derivative of the cross-entropy, which is monotone in the center."""
    low, high = -2.0, 2.0
    for _ in range(40):
        middle = (low + high) / 2
        expected = 1 / (1 + np.exp(-(scores + scale * (cosines - middle))))
        if expected.sum() > labels.sum():
            low = middle
        else:
            high = middle
    return round(middle, 3)


def fit(prepared: pathlib.Path, config: dict, run: pathlib.Path, base: pathlib.Path) -> dict:
    lists = Lists(prepared, config)
    state = torch.load(run / "checkpoint.pt", map_location="cpu", weights_only=True)
    model = Bert(state.get("config") or json.loads((base / "config.json").read_text()))
    model.load_state_dict(state["model"])
    model = model.to(torch.bfloat16)
    groups: dict[str, list[int]] = {}
    for number, row in enumerate(lists.rows):
        if row["dev"]:
            groups.setdefault(row["ds"], []).append(number)

    def ask(number: int) -> tuple[np.ndarray, np.ndarray]:
        torch.set_num_threads(1)
        row = lists.rows[number]
        candidates = [row["positive"], *row["dense"][: config["dev_candidates"] - 1]]
        pairs = [lists.pair(lists.query_tokens[number], it, number % 2 == 0) for it in candidates]
        with torch.no_grad():
            scores = model(Ragged([it[0] for it in pairs], [it[1] for it in pairs]), [model.depth])[model.depth]
        return scores.float().numpy(), lists.passage_vectors[candidates] @ lists.query_vectors[number]

    table, seen = {}, []
    with concurrent.futures.ThreadPoolExecutor(config.get("workers", 2)) as pool:
        for source, members in sorted(groups.items()):
            if len(members) < min(FEWEST, config["dev_queries"]):
                continue
            members = random.Random(config["seed"]).sample(members, min(3 * config["dev_queries"], len(members)))
            asked = list(pool.map(ask, members))
            seen += asked
            table[source] = {str(it): round(float(np.mean([reciprocal_rank(s + it * c) for s, c in asked])), 4) for it in SCALES}
            table[source]["cosine"] = round(float(np.mean([reciprocal_rank(c) for _, c in asked])), 4)
    found = [row for row in table.values() if row["cosine"] >= FINDS] or list(table.values())
    means = {it: float(np.mean([row[str(it)] for row in found])) for it in SCALES}
    scale = max(SCALES, key=lambda it: means[it])
    labels = np.concatenate([np.eye(len(s))[0] for s, _ in seen])
    center = center_of(np.concatenate([s for s, _ in seen]), np.concatenate([c for _, c in seen]), labels, scale) if scale else 0.0
    card = {**config["card"], "prior": {**config["card"]["prior"], "scale": scale, "center": center}}
    report = {"card": card, "mrr": table, "means": {str(it): round(value, 4) for it, value in means.items()}}
    (run / "card.json").write_text(json.dumps(report, indent=2) + "\n")
    return report
