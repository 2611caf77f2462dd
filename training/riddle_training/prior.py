"""How much cosine and keywords count beside the trained score: fitted on the development questions, kept in `card.json`.

The sum's weights are those with the least listwise cross-entropy, each source counting the same; sources whose answers
neither leg finds have no say, as a search proposes nothing there that could be put in order. The center is the cosine
that makes the sum's sigmoid a probability (least binary cross-entropy), so that scores keep their meaning.
"""

from __future__ import annotations

import concurrent.futures
import json
import pathlib
import random

import numpy as np
import torch

from .bert import Bert, Ragged
from .train import Lists, found_first, keyword_shares

# A source with fewer development questions says too little.
FEWEST = 30

# MRR@10 of the better leg below which a source has no say.
FINDS = 0.2

# Share of the best keyword score that adds nothing: the middle of the range.
KEYWORD_CENTER = 0.5


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


def weights_of(sources: list[list[np.ndarray]]) -> np.ndarray:
    """Weights of the columns (score, cosine, keyword share), none below 0; the positive is the first row of a list."""
    free = torch.tensor([0.5, 1.5, 1.0], requires_grad=True)
    optimizer = torch.optim.LBFGS([free], max_iter=200, line_search_fn="strong_wolfe")
    lists = [[torch.from_numpy(it) for it in source] for source in sources]

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        weights = torch.nn.functional.softplus(free)
        total = sum(-sum(torch.log_softmax(it @ weights, 0)[0] for it in source) / len(source) for source in lists)
        total.backward()
        return total

    optimizer.step(loss)
    return torch.nn.functional.softplus(free).detach().numpy()


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

    def ask(number: int) -> np.ndarray:
        torch.set_num_threads(1)
        row = lists.rows[number]
        candidates = [row["positive"], *found_first(row, config["dev_candidates"] - 1)]
        pairs = [lists.pair(lists.query_tokens[number], it, number % 2 == 0) for it in candidates]
        with torch.no_grad():
            scores = model(Ragged([it[0] for it in pairs], [it[1] for it in pairs]), [model.depth])[model.depth]
        cosines = lists.passage_vectors[candidates] @ lists.query_vectors[number]
        return np.stack([scores.float().numpy(), cosines, keyword_shares(row, candidates)], 1)

    table, seen = {}, {}
    with concurrent.futures.ThreadPoolExecutor(config.get("workers", 2)) as pool:
        for source, members in sorted(groups.items()):
            if len(members) < min(FEWEST, config["dev_queries"]):
                continue
            members = random.Random(config["seed"]).sample(members, min(3 * config["dev_queries"], len(members)))
            seen[source] = list(pool.map(ask, members))
            columns = zip(("score", "cosine", "keyword"), range(3))
            table[source] = {name: round(float(np.mean([reciprocal_rank(it[:, at]) for it in seen[source]])), 4) for name, at in columns}
    found = [it for it, row in table.items() if max(row["cosine"], row["keyword"]) >= FINDS] or list(table)
    score, cosine, keyword = weights_of([seen[it] for it in found])
    scale, keyword = round(float(cosine / score), 1), round(float(keyword / score), 1)
    for source, asked in seen.items():
        mean = np.mean([reciprocal_rank(it @ np.asarray([1.0, scale, keyword])) for it in asked])
        table[source]["together"] = round(float(mean), 4)
    every = np.concatenate([it for asked in seen.values() for it in asked])
    labels = np.concatenate([np.eye(len(it))[0] for asked in seen.values() for it in asked])
    rest = every[:, 0] + keyword * (every[:, 2] - KEYWORD_CENTER)
    prior = {"scale": scale, "center": center_of(rest, every[:, 1], labels, scale) if scale else 0.0}
    prior |= {"keyword": keyword, "keyword_center": KEYWORD_CENTER}
    card = {**config["card"], "prior": {**config["card"]["prior"], **prior}}
    report = {"card": card, "mrr": table}
    (run / "card.json").write_text(json.dumps(report, indent=2) + "\n")
    return report
