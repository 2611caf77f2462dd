"""`python -m riddle_training.classify`: a classifier of pairs that loses little with fewer layers and slices.

STI was measured with classifiers, one text at a time (section 7.1: DynaBERT fine-tuned on tasks of GLUE). This makes
such a one of a small encoder, so that the paper's tables can be made again with `riddle bench deadline`: fine-tuning
with one logit, heads and neurons put in the order of what they are worth, then every step also teaches a submodel what
the whole one says (DynaBERT, sections 2.1 and 2.2). Layers are left out from the top, and every layer from the second on
has the same head.

Requests are those of `riddle bench deadline`: one per line, each with a query, one document, and whether it is
"relevant", which is the label.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import time

import numpy as np
import torch
from tokenizers import Tokenizer
from torch.nn import functional as F

from .bert import Bert, Ragged
from .elastic import put_in_order, worth
from .export import export

# What a layer's score counts; the first has none.
LAYER_WEIGHT, LAST_WEIGHT = 0.3, 1.0


def read(path: pathlib.Path, tokenizer: Tokenizer, limit: int) -> list[dict]:
    """Pairs of tokens and segments, with their labels."""
    rows = [json.loads(it) for it in open(path) if it.strip()]
    tokenizer.no_padding()
    tokenizer.enable_truncation(limit, strategy="only_second")
    encoded = tokenizer.encode_batch([(it["query"], it["documents"][0]["text"]) for it in rows])
    label = lambda row: float(row["documents"][0].get("relevant", 0) > 0)
    return [
        {"pair": (np.asarray(it.ids), np.asarray(it.type_ids)), "label": label(row)} for it, row in zip(encoded, rows)
    ]


def ragged(items: list[dict]) -> tuple[Ragged, torch.Tensor]:
    batch = Ragged([it["pair"][0] for it in items], [it["pair"][1] for it in items])
    return batch, torch.tensor([it["label"] for it in items])


def losses(scores: dict[int, torch.Tensor], label: torch.Tensor, whole: torch.Tensor | None = None) -> torch.Tensor:
    """Binary cross-entropy of every layer; of a submodel against what the whole one says."""
    last = max(scores)
    target = label if whole is None else torch.sigmoid(whole.detach().float())
    each = [
        (LAST_WEIGHT if layer == last else LAYER_WEIGHT) * F.binary_cross_entropy_with_logits(it.float(), target)
        for layer, it in scores.items()
    ]
    return sum(each)


@torch.no_grad()
def accuracy(model: Bert, items: list[dict], layers: list[int], slices: int | None = None) -> dict[int, float]:
    right = {it: 0 for it in layers}
    for start in range(0, len(items), 64):
        batch, label = ragged(items[start : start + 64])
        for layer, scores in model(batch, layers, slices).items():
            right[layer] += int(((scores >= 0) == (label > 0)).sum())
    return {layer: round(it / len(items), 4) for layer, it in right.items()}


def train(model: Bert, items: list[dict], args: argparse.Namespace) -> None:
    layers = list(range(2, model.depth + 1))
    rng = random.Random(args.seed)
    looked_at = [{"pairs": [item["pair"]], "label": item["label"]} for item in rng.sample(items, min(64, len(items)))]
    ordered = False
    half = Bert(model.config).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0.01, betas=(0.9, 0.98))
    batches = []
    for _ in range(args.epochs):
        order = list(range(len(items)))
        rng.shuffle(order)
        batches += [order[start : start + args.batch] for start in range(0, len(order), args.batch)]
    started = time.time()
    for step, places in enumerate(batches):
        if not ordered and step >= len(batches) // 4:
            # Of a model that knows the task by now: before, what its heads are worth for it says nothing.
            loss_of = lambda scores, item: losses(scores, torch.tensor([item["label"]]))
            put_in_order(model, worth(model, looked_at, layers, loss_of))
            optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0.01, betas=(0.9, 0.98))
            ordered = True
        warm, left = (step + 1) / (0.05 * len(batches)), (len(batches) - step) / len(batches)
        for group in optimizer.param_groups:
            group["lr"] = args.learning_rate * min(1.0, warm, left)
        half.load_state_dict(model.state_dict())
        batch, label = ragged([items[it] for it in places])
        scores = half(batch, layers)
        loss = losses(scores, label)
        if ordered:
            slices = rng.choice([it for it in args.slices if it < model.heads])
            loss = loss + 0.5 * losses(half(batch, layers, slices), label, scores[model.depth])
        loss.backward()
        for name, own in model.weights.items():
            gradient = half.weights[name].grad
            own.grad = None if gradient is None else gradient.float()
        half.zero_grad(set_to_none=True)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} of {len(batches)}, loss {loss.item():.3f}, {time.time() - started:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="riddle_training.classify", description=__doc__)
    parser.add_argument("--base", type=pathlib.Path, required=True, help="folder of an encoder, or of a model to begin with")
    parser.add_argument("--train", type=pathlib.Path, required=True)
    parser.add_argument("--dev", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--slices", type=int, nargs="+", default=[9, 6, 3])
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    tokenizer = Tokenizer.from_file(str(args.base / "tokenizer.json"))
    items, dev = (read(it, tokenizer, args.max_tokens) for it in (args.train, args.dev))
    model = Bert.from_directory(args.base, args.seed)
    train(model, items, args)
    layers = list(range(2, model.depth + 1))
    table = {slices: accuracy(model, dev, layers, slices) for slices in (model.heads, *args.slices)}
    args.out.mkdir(parents=True, exist_ok=True)
    torch.save({"model": model.state_dict(), "config": model.config}, args.out / "checkpoint.pt")
    export(args.out, args.base, args.out / "model", {"slices_in_order": True})
    (args.out / "accuracy.json").write_text(json.dumps(table, indent=2) + "\n")
    print(json.dumps(table))


if __name__ == "__main__":
    main()
