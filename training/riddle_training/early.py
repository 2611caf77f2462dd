"""Heads of early layers: what the last layer will say, learned from what it says.

`python -m riddle_training.early sets --data TRAIN --out SETS`
`riddle eval --suite SETS --domains SETS/domains.json --mode off --save-runs RUNS`
`python -m riddle_training.early fit --runs RUNS --model MODEL --out FOUND`
`python -m riddle_training.early write --found FOUND --model MODEL`

The first token, which the model's own head reads, knows nothing before the last layers. The tokens of the query do:
each has attended to the passage. After layer l a candidate's score is

    mean over the query's tokens t of out_proj(gelu(dense(h_t)))  +  own * head([CLS])  +  evidence

with `[neurons, width]` numbers in `dense`, the model's own head where it is worth something, and what retrieval knows
with weights of that layer: of what the model has not read yet, retrieval knows a part. The target is the last layer's
logit, within each question's candidates: no label is used, and what the model says in the end does not change.

`sets` makes datasets of the training data, one for each source, so that candidates are what a search finds.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import random

import numpy as np
import torch
from tokenizers import Tokenizer
from torch.nn import functional as F

from .bert import Bert, Ragged
from .evidence import Question, runs_of
from .prepare import load_rows, load_siblings, title_of
from .refit import taken
from .store import add_to_store

SEED = 4711

# Which sources there are.
CONFIG = pathlib.Path(__file__).parents[1] / "configs/elastic.json"

# Questions of a source that become passages, other passages of theirs, and questions that are asked.
PASSAGES, SIBLINGS, ASKED = 400, 300, 70

# Candidates of a question, and tokens of a pair.
CANDIDATES, TOKENS = 24, 256

# Which layers get a head, counted from 1 (a first layer's tokens have seen the passage once and know nothing yet), and
# whether the model's own head counts beside it.
LAYERS = {2: False, 3: True}
NEURONS = 64

EPOCHS, RATE, DECAY, QUESTIONS_PER_STEP = 20, 1e-3, 0.1, 8

# How much the mean over a question's candidates counts beside the distances between them: enough to keep a meaning.
MEAN_WEIGHT = 0.05


def sets(data: pathlib.Path, config: dict, out: pathlib.Path) -> None:
    """One dataset for each source of the training data."""
    few = {**config, "seed": SEED, "held_out": [], "sources": {it: PASSAGES for it in config["sources"]}}
    rows, _ = load_rows(data, few, [])
    by_source, siblings = collections.defaultdict(list), collections.defaultdict(list)
    for row in rows:
        by_source[row["ds"]].append(row)
    for row in load_siblings(data, few, rows):
        siblings[row["ds"]].append(row)
    rng = random.Random(SEED)
    for source, own in sorted(by_source.items()):
        folder = out / source
        (folder / "qrels").mkdir(parents=True, exist_ok=True)
        titles: dict[str, str] = {}
        for row in own:
            titles.setdefault(row["pos"], title_of(row))
        for row in rng.sample(siblings[source], min(SIBLINGS, len(siblings[source]))):
            titles.setdefault(row["text"], "")
        place = {text: f"d{number}" for number, text in enumerate(titles)}
        with (folder / "corpus.jsonl").open("w") as file:
            for text, name in place.items():
                file.write(json.dumps({"_id": name, "title": titles[text], "text": text}) + "\n")
        asked = rng.sample(own, min(ASKED, len(own)))
        with (folder / "queries.jsonl").open("w") as file:
            for number, row in enumerate(asked):
                file.write(json.dumps({"_id": f"q{number}", "text": row["q"].strip()}) + "\n")
        with (folder / "qrels" / "test.tsv").open("w") as file:
            file.write("query-id\tcorpus-id\tscore\n")
            for number, row in enumerate(asked):
                file.write(f"q{number}\t{place[row['pos']]}\t1\n")
    (out / "domains.json").write_text(json.dumps({it: it for it in sorted(by_source)}))
    print(f"{len(by_source)} sources")


class States:
    """Of every candidate the states of the query's tokens after each layer, the last logit, and what retrieval knows."""

    def __init__(self, runs: pathlib.Path, model: Bert, tokenizer: Tokenizer, layers: list[int], card: dict):
        trust = card["prior"]["trust"]["rate"]
        merged = (2.25, 0.5, trust)
        states = {layer: [] for layer in layers}
        self.logits, self.evidence, self.tokens, self.own = [], [], [], {layer: [] for layer in layers}
        sizes = []
        half = Bert(model.config).to(torch.bfloat16)
        half.load_state_dict(model.state_dict())
        for name, run in runs_of(runs).items():
            for line in (run / "evidence.jsonl").open():
                request = json.loads(line)
                question = Question(request, None)
                best = question.merged(*merged)[:CANDIDATES]
                # Of two or three there is no order worth learning.
                if len(best) < 4:
                    continue
                pairs = [(request["query"], request["documents"][it]["text"]) for it in best]
                self.read(half, tokenizer, pairs, states)
                of = question.evidence
                meaning, words = np.exp(trust * question.distance), np.exp(-trust * question.distance / 2)
                # As the program counts them: what the best has stays as it is.
                top = of["cosine"].max()
                known = [top + meaning * (of["cosine"] - top), 1 + words * (of["keyword"] - 1), of["sparse"]]
                self.evidence.append(np.stack(known, 1)[best].astype(np.float32))
                sizes.append(len(best))
            print(name, sum(sizes), flush=True)
        self.states = {layer: torch.from_numpy(np.concatenate(it)) for layer, it in states.items()}
        self.logits = torch.cat(self.logits)
        self.own = {layer: torch.cat(it) for layer, it in self.own.items()}
        self.evidence = torch.from_numpy(np.concatenate(self.evidence))
        self.tokens = torch.cat(self.tokens)
        self.sizes = torch.tensor(sizes)
        self.first_token = F.pad(self.tokens.cumsum(0), (1, 0))
        self.first_pair = F.pad(self.sizes.cumsum(0), (1, 0))

    @torch.no_grad()
    def read(self, half: Bert, tokenizer: Tokenizer, pairs: list, states: dict[int, list]) -> None:
        encoded = tokenizer.encode_batch(pairs)
        batch = Ragged([np.asarray(it.ids) for it in encoded], [np.asarray(it.type_ids) for it in encoded])
        of_query = batch.segments == 0
        x = half.embed(batch)
        for layer in range(half.depth):
            last = layer + 1 == half.depth
            x = half.layer(x, batch, layer, last)
            if layer + 1 in states:
                states[layer + 1].append(x[of_query].half().numpy())
                self.own[layer + 1].append(half.head(x[batch.first]).float())
        self.logits.append(half.head(x).float())
        self.tokens.append(torch.tensor([it.type_ids.count(0) for it in encoded]))

    def centered(self, x: torch.Tensor) -> torch.Tensor:
        """Less the mean over each question's candidates."""
        group = torch.repeat_interleave(torch.arange(len(self.sizes)), self.sizes)
        sums = torch.zeros((len(self.sizes),) + x.shape[1:]).index_add_(0, group, x)
        return x - (sums / self.sizes.view(-1, *([1] * (x.dim() - 1))))[group]

    def batch(self, questions: torch.Tensor, layer: int):
        """Pairs of these questions, their tokens' states, and the pair of each token."""
        ranges = lambda starts, of: torch.cat([torch.arange(starts[it], starts[it + 1]) for it in of.tolist()])
        pairs = ranges(self.first_pair, questions)
        states = self.states[layer][ranges(self.first_token, pairs)].float()
        row = torch.repeat_interleave(torch.arange(len(pairs)), self.tokens[pairs])
        return pairs, states, row


def least_squares(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.linalg.solve(x.T @ x + 1e-6 * len(x) * torch.eye(x.shape[1]), x.T @ y)


class EarlyHead(torch.nn.Module):
    def __init__(self, width: int, evidence: torch.Tensor, own: bool):
        super().__init__()
        self.dense = torch.nn.Linear(width, NEURONS)
        self.out_proj = torch.nn.Linear(NEURONS, 1)
        torch.nn.init.zeros_(self.out_proj.weight)
        # Begins where retrieval alone is.
        self.evidence = torch.nn.Parameter(evidence.clone())
        self.own = torch.nn.Parameter(torch.tensor(0.8)) if own else None

    def forward(self, states, row, count, evidence, own):
        each = self.out_proj(F.gelu(self.dense(states))).squeeze(-1)
        score = torch.zeros(len(count)).index_add_(0, row, each) / count + evidence @ self.evidence
        return score if self.own is None else score + self.own * own


def learn(data: States, layer: int, use_own: bool) -> tuple[EarlyHead, torch.Tensor, torch.Tensor]:
    """A head, and mean and deviation of the states that it is given less and by."""
    torch.manual_seed(SEED)
    some = data.states[layer][:200_000].float()
    mean, deviation = some.mean(0), some.std(0) + 1e-3
    known = least_squares(data.centered(data.evidence), data.centered(data.logits))
    head = EarlyHead(len(mean), known, use_own)
    matrices = [head.dense.weight, head.out_proj.weight]
    others = [it for it in head.parameters() if not any(it is matrix for matrix in matrices)]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE)
    questions = len(data.sizes)
    steps, step = EPOCHS * (questions // QUESTIONS_PER_STEP), 0
    for _ in range(EPOCHS):
        order = torch.randperm(questions)[: questions // QUESTIONS_PER_STEP * QUESTIONS_PER_STEP]
        for asked in order.view(-1, QUESTIONS_PER_STEP):
            for group in optimizer.param_groups:
                group["lr"] = RATE * min(1.0, (step + 1) / 50) * (1 - step / steps)
            step += 1
            pairs, states, row = data.batch(asked, layer)
            found = head((states - mean) / deviation, row, data.tokens[pairs], data.evidence[pairs], data.own[layer][pairs])
            off = found - data.logits[pairs]
            group = torch.repeat_interleave(torch.arange(len(asked)), data.sizes[asked])
            means = torch.zeros(len(asked)).index_add_(0, group, off) / data.sizes[asked]
            loss = ((off - means[group]) ** 2).mean() + MEAN_WEIGHT * (means**2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return head.eval(), mean, deviation


@torch.no_grad()
def said(data: States, layer: int, head: EarlyHead, mean, deviation) -> torch.Tensor:
    """What a head says of all pairs, evidence left out."""
    found = []
    for first in range(0, len(data.sizes), 64):
        questions = torch.arange(first, min(first + 64, len(data.sizes)))
        pairs, states, row = data.batch(questions, layer)
        none = torch.zeros(len(pairs), 3)
        found.append(head((states - mean) / deviation, row, data.tokens[pairs], none, data.own[layer][pairs]))
    return torch.cat(found)


def weights_of(data: States, said_so_far: torch.Tensor, shown: dict, known: list[int]) -> dict:
    """Weights of evidence beside what a layer says: those of the last layer, and what is missing until then."""
    missing = data.logits - said_so_far
    extra = torch.zeros(3)
    extra[known] = least_squares(data.centered(data.evidence[:, known]), data.centered(missing))
    last = torch.tensor([shown["scale"], shown["keyword"], shown.get("sparse", 0.0)])
    # The last layer's centers, and a level at which the mean score is the last layer's.
    level = float((missing - data.evidence @ extra).mean())
    names = ["scale", "keyword", "sparse"][: 2 + (2 in known)]
    weights = {name: round(float(it), 3) for name, it in zip(names, last + extra, strict=False)}
    return {**weights, "center": round(taken(shown) - level, 3)}


def fit(runs: pathlib.Path, folder: pathlib.Path, out: pathlib.Path) -> None:
    torch.set_num_threads(2)
    model = Bert.from_directory(folder).eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(TOKENS)
    card = json.loads((folder / "config.json").read_text())["riddle"]
    data = States(runs, model, tokenizer, list(LAYERS), card)
    prior, terms = card["prior"], card["prior"]["with_terms"]
    tensors, earlier, earlier_with_terms = {}, [], []
    spread = lambda x: float(data.centered(x).std())
    for layer in range(model.depth):
        so_far = torch.zeros(len(data.logits))
        if layer in LAYERS:
            head, mean, deviation = learn(data, layer, LAYERS[layer])
            so_far = said(data, layer, head, mean, deviation)
            # Mean and deviation of the states go into the weights.
            dense = head.dense.weight.data / deviation
            name = f"early_heads.{layer - 1}."
            tensors[name + "dense.weight"] = dense.numpy()
            tensors[name + "dense.bias"] = (head.dense.bias.data - dense @ mean).numpy()
            tensors[name + "out_proj.weight"] = head.out_proj.weight.data.numpy()
            tensors[name + "out_proj.bias"] = head.out_proj.bias.data.numpy()
            if head.own is not None:
                tensors[name + "own"] = head.own.data.reshape(1).numpy()
        earlier.append(weights_of(data, so_far, prior, [0, 1]))
        earlier_with_terms.append(weights_of(data, so_far, terms, [0, 1, 2]))
        known = data.evidence @ torch.tensor([earlier_with_terms[-1][it] for it in ("scale", "keyword", "sparse")])
        last = data.evidence @ torch.tensor([terms[it] for it in ("scale", "keyword", "sparse")]) + data.logits
        print(f"layer {layer}: {spread(last - so_far - known):.3f} of {spread(data.logits):.3f} is not known", flush=True)
        print("  ", earlier_with_terms[-1])
    # A layer without a head of its own says nothing: its own head would be noise, and is told to say 0.
    for layer in range(1, model.depth):
        if layer not in LAYERS:
            name, width = f"early_heads.{layer - 1}.", model.config["hidden_size"]
            tensors[name + "dense.weight"] = np.zeros((1, width), np.float32)
            tensors[name + "dense.bias"] = np.zeros(1, np.float32)
            tensors[name + "out_proj.weight"] = np.zeros((1, 1), np.float32)
            tensors[name + "out_proj.bias"] = np.zeros(1, np.float32)
    out.mkdir(parents=True, exist_ok=True)
    np.savez(out / "early_heads.npz", **tensors)
    found = {"earlier": earlier, "with_terms": {"earlier": earlier_with_terms}}
    (out / "early_heads.json").write_text(json.dumps(found, indent=2) + "\n")


def write(found: pathlib.Path, folder: pathlib.Path) -> None:
    """Puts heads into the model's store and their evidence into its card."""
    tensors = dict(np.load(found / "early_heads.npz"))
    add_to_store(folder / "model.riddle", tensors)
    weights = json.loads((found / "early_heads.json").read_text())
    path = folder / "config.json"
    config = json.loads(path.read_text())
    prior = config["riddle"]["prior"]
    prior["earlier"] = weights["earlier"]
    prior["with_terms"]["earlier"] = weights["with_terms"]["earlier"]
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="riddle_training.early", description=__doc__)
    steps = parser.add_subparsers(dest="step", required=True)
    step = steps.add_parser("sets")
    step.add_argument("--config", type=pathlib.Path, default=CONFIG)
    step.add_argument("--data", type=pathlib.Path, required=True)
    step.add_argument("--out", type=pathlib.Path, required=True)
    step = steps.add_parser("fit")
    step.add_argument("--runs", type=pathlib.Path, required=True)
    step.add_argument("--model", type=pathlib.Path, required=True)
    step.add_argument("--out", type=pathlib.Path, required=True)
    step = steps.add_parser("write")
    step.add_argument("--found", type=pathlib.Path, required=True)
    step.add_argument("--model", type=pathlib.Path, required=True)
    args = parser.parse_args()
    if args.step == "sets":
        sets(args.data, json.loads(args.config.read_text()), args.out)
    elif args.step == "fit":
        fit(args.runs, args.model, args.out)
    else:
        write(args.found, args.model)


if __name__ == "__main__":
    main()
