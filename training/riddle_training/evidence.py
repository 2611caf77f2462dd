"""How much each kind of evidence counts, from runs of whole suites: the merged order, and the sum with the reranker.

`riddle eval --suite DIR --save-runs RUNS` writes `RUNS/SET/evidence.jsonl`: for every question all candidates with the
share of the best keyword score and how near the question's words stand together, in one, the cosine, the share of the
best score by weighed terms, and who is relevant. Here the reranker's logits are added (`score`), and weights are searched
on a grid (`fit`): first those of the merged order, then those of the sum for its best 24. What counts is nDCG@10 in the
mean over domains, and for every domain what the weights that are best on all others have there.
"""

from __future__ import annotations

import argparse
import itertools
import json
import pathlib
import subprocess

import numpy as np

# Candidates that the program reranks.
RERANKED = 24

# Best of the merged order under the weights of today that get a logit: more than are reranked, so that other weights can
# be tried.
SCORED = 36

# Best cosine of an ordinary question, and how far a question is followed from there: the program's `Trust`.
USUAL = 0.62
REACH = (-0.25, 0.2)

MERGED = {
    "cosine": [0, 0.5, 1, 1.5, 2, 2.25, 2.5, 3],
    "sparse": [0, 0.25, 0.5, 0.75, 1, 1.5, 2],
    "trust": [0, 1.5, 3, 4.5],
}
SHOWN = {
    "cosine": [0, 4, 8, 11, 13, 15, 17, 20],
    "keyword": [0, 2, 3, 4, 5, 6, 8],
    "sparse": [0, 1, 2, 3, 4, 6],
    "trust": [0, 1.5, 3, 4.5],
}


def runs_of(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """Folders of the sets, by their paths below `folder`."""
    return {str(it.parent.relative_to(folder)): it.parent for it in sorted(folder.rglob("evidence.jsonl"))}


def rough(document: dict) -> float:
    return (document["keyword"] or 0) + 2 * (document["cosine"] or 0) + (document["sparse"] or 0)


def score(folder: pathlib.Path, riddle: str, model: str) -> None:
    """Writes `logits.jsonl` beside each evidence: the logit of each of the best candidates, by its place."""
    for name, run in runs_of(folder).items():
        target = run / "logits.jsonl"
        if target.exists():
            continue
        places, requests = [], []
        for line in (run / "evidence.jsonl").open():
            request = json.loads(line)
            documents = request["documents"]
            best = sorted(range(len(documents)), key=lambda it: -rough(documents[it]))[:SCORED]
            places.append(best)
            texts = [{"id": place, "text": documents[place]["text"]} for place in best]
            requests.append(json.dumps({"query": request["query"], "documents": texts}))
        command = [riddle, "rerank", "--lines", "--raw-scores", "--mode", "off", "--model", model, "--json"]
        done = subprocess.run(command, input="\n".join(requests) + "\n", capture_output=True, text=True, check=True)
        with target.open("w") as file:
            for line in done.stdout.splitlines():
                results = json.loads(line)["results"]
                file.write(json.dumps({it["id"]: it["relevance_score"] for it in results}) + "\n")
        print(name, len(requests), flush=True)


class Question:
    """Candidates of a question as arrays."""

    def __init__(self, request: dict, logits: dict[str, float] | None):
        documents = request["documents"]

        def column(name: str) -> np.ndarray:
            values = np.array([np.nan if it[name] is None else it[name] for it in documents], dtype=np.float64)
            # What is not known counts with the mean of the others, as in the program.
            known = values[~np.isnan(values)]
            return np.where(np.isnan(values), known.mean() if len(known) else 0.0, values)

        self.evidence = {name: column(name) for name in ("keyword", "cosine", "sparse")}
        self.relevant = np.array([it["relevant"] for it in documents], dtype=np.float64)
        self.names = np.unique([str(it["id"]) for it in documents], return_inverse=True)[1]
        self.logits = np.full(len(documents), np.nan)
        for place, logit in (logits or {}).items():
            self.logits[int(place)] = logit
        self.distance = float(np.clip(self.evidence["cosine"].max(initial=-1.0) - USUAL, *REACH))
        judged = np.array(request["judged"][:10], dtype=np.float64)
        self.ideal = float((judged / np.log2(np.arange(2, len(judged) + 2))).sum())

    def ndcg(self, order: np.ndarray) -> float:
        """nDCG@10 over documents: of several passages of one the first counts."""
        seen, place, gain = set(), 0, 0.0
        for candidate in order:
            name = self.names[candidate]
            if name in seen:
                continue
            seen.add(name)
            gain += self.relevant[candidate] / np.log2(place + 2)
            place += 1
            if place == 10:
                break
        return gain / self.ideal if self.ideal else 0.0

    def sum_of(self, cosine: float, keyword: float, sparse: float, trust: float) -> np.ndarray:
        """Evidence of all candidates; the best cosine tells how far cosines are trusted, and how little words."""
        of = self.evidence
        meaning, words = np.exp(trust * self.distance), np.exp(-trust * self.distance / 2)
        return cosine * meaning * of["cosine"] + keyword * words * of["keyword"] + sparse * of["sparse"]

    def merged(self, cosine: float, sparse: float, trust: float = 0.0) -> np.ndarray:
        return np.argsort(-self.sum_of(cosine, 1.0, sparse, trust), kind="stable")

    def shown(self, merged: np.ndarray, cosine: float, keyword: float, sparse: float, trust: float = 0.0) -> np.ndarray:
        best = merged[:RERANKED]
        best = best[~np.isnan(self.logits[best])]
        total = self.logits[best] + self.sum_of(cosine, keyword, sparse, trust)[best]
        return best[np.argsort(-total, kind="stable")]


def questions_of(run: pathlib.Path) -> list[Question]:
    logits = run / "logits.jsonl"
    lines = logits.read_text().splitlines() if logits.exists() else []
    requests = [json.loads(it) for it in (run / "evidence.jsonl").read_text().splitlines()]
    scores = [json.loads(it) for it in lines] or [None] * len(requests)
    return [Question(request, score) for request, score in zip(requests, scores, strict=True)]


def means(table: np.ndarray, domains: list[str | None]) -> np.ndarray:
    """From `[sets, weights]` to `[domains, weights]`; sets without a domain are in no mean."""
    names = sorted({it for it in domains if it})
    return np.stack([table[[it == name for it in domains]].mean(0) for name in names])


def fit(folder: pathlib.Path, domains: dict[str, str], without_sparse: bool = False) -> dict:
    sets = {name: questions_of(run) for name, run in runs_of(folder).items()}
    of = [domains.get(name) for name in sets]
    merged_grid = [it for it in itertools.product(*MERGED.values()) if not without_sparse or it[1] == 0]
    shown_grid = [it for it in itertools.product(*SHOWN.values()) if not without_sparse or it[2] == 0]
    merged = np.array([[np.mean([q.ndcg(q.merged(*it)) for q in qs]) for it in merged_grid] for qs in sets.values()])
    by_domain = means(merged, of)
    best = int(by_domain.mean(0).argmax())
    chosen = merged_grid[best]
    orders = {name: [q.merged(*chosen) for q in qs] for name, qs in sets.items()}
    shown = np.array(
        [
            [np.mean([q.ndcg(q.shown(o, *it)) for q, o in zip(qs, orders[name], strict=True)]) for it in shown_grid]
            for name, qs in sets.items()
        ]
    )
    shown_by_domain = means(shown, of)
    top = int(shown_by_domain.mean(0).argmax())
    left_out = []
    for place in range(len(shown_by_domain)):
        others = np.delete(shown_by_domain, place, 0).mean(0)
        left_out.append(shown_by_domain[place][int(others.argmax())])
    legs = {
        leg: [np.mean([q.ndcg(np.argsort(-q.evidence[leg], kind="stable")) for q in qs]) for qs in sets.values()]
        for leg in ("keyword", "cosine", "sparse")
    }
    rows = [
        {
            "set": name,
            "domain": of[place],
            "questions": len(sets[name]),
            **{leg: round(float(values[place]), 4) for leg, values in legs.items()},
            "merged": round(float(merged[place][best]), 4),
            "shown": round(float(shown[place][top]), 4),
        }
        for place, name in enumerate(sets)
    ]
    return {
        "merged": dict(zip(MERGED, chosen, strict=True)),
        "shown": dict(zip(SHOWN, shown_grid[top], strict=True)),
        "mean over domains": {
            "merged": round(float(by_domain.mean(0)[best]), 4),
            "shown": round(float(shown_by_domain.mean(0)[top]), 4),
            "left out": round(float(np.mean(left_out)), 4),
        },
        "sets": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="riddle_training.evidence", description=__doc__)
    parser.add_argument("step", choices=["score", "fit"])
    parser.add_argument("runs", type=pathlib.Path, help="what --save-runs was given")
    parser.add_argument("--riddle", default="riddle", help="the riddle program (score)")
    parser.add_argument("--model", default="riddle-reranker", help="name or folder of the reranker (score)")
    parser.add_argument("--domains", type=pathlib.Path, default=pathlib.Path(__file__).parents[1] / "domains.json")
    parser.add_argument("--without-sparse", action="store_true", help="fit for homes without weighed terms")
    args = parser.parse_args()
    if args.step == "score":
        score(args.runs, args.riddle, args.model)
    else:
        print(json.dumps(fit(args.runs, json.loads(args.domains.read_text()), args.without_sparse), indent=2))


if __name__ == "__main__":
    main()
