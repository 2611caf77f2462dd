"""Pruning with retraining, after Zhang, Xu and Zhao, "Model compression for cross-encoder reranker in RAG", section 3.3.

Algorithm 1 masks random weights of the intermediate layers, Algorithm 2 masks whole rows by a schedule, Algorithms 3 and 4
take neurons of the feed-forward block away, at random and by their l1 norm. Training goes on between the rounds.

Two things differ from the paper. Algorithm 4 ranks neurons over the selected layers together and so gives layers of unequal
width; `BertForSequenceClassification` has one width for all, so structured pruning ranks within each layer here, and
both halves end with the same count. And what is pruned is a finished model, so the learning rate is a fraction of the
recipe's.
"""

from __future__ import annotations

import json
import pathlib

import torch

from .train import Lists, Trainer, development
from .bert import Bert

INTERMEDIATE = "encoder/layer/{}/intermediate/dense"
OUTPUT = "encoder/layer/{}/output/dense"
ATTENTION = "encoder/layer/{}/attention/output/dense"


def halves(depth: int, round_number: int) -> range:
    """The first half of the layers in even rounds, the second in odd ones."""
    return range(depth // 2) if round_number % 2 == 0 else range(depth // 2, depth)


class Masks:
    """Which weights are alive; applied after every step, so that what is pruned stays at zero."""

    def __init__(self, model: Bert):
        self.model = model
        self.alive: dict[str, torch.Tensor] = {}

    def of(self, name: str) -> torch.Tensor:
        key = f"{name}/weight"
        if key not in self.alive:
            self.alive[key] = torch.ones_like(self.model.weights[key], dtype=torch.bool)
        return self.alive[key]

    @torch.no_grad()
    def apply(self) -> None:
        for key, alive in self.alive.items():
            self.model.weights[key].mul_(alive)

    def random(self, name: str, ratio: float, generator: torch.Generator) -> None:
        alive = self.of(name)
        alive &= torch.rand(alive.shape, generator=generator).to(alive.device) >= ratio

    def rows(self, name: str, ratio: float) -> None:
        """Masks the rows of smallest l1 norm among those alive."""
        alive = self.of(name)
        norms = (self.model.weights[f"{name}/weight"].abs() * alive).sum(1)
        living = alive.any(1)
        count = int(ratio * int(living.sum()))
        norms[~living] = float("inf")
        alive[norms.argsort()[:count]] = False


@torch.no_grad()
def without_neurons(model: Bert, layers: range, ratio: float, by_norm: bool, generator: torch.Generator) -> None:
    """Masks neurons in place: their rows and biases in `intermediate.dense`, their columns in `output.dense`."""
    for layer in layers:
        up, bias = model.weights[f"{INTERMEDIATE.format(layer)}/weight"], model.weights[f"{INTERMEDIATE.format(layer)}/bias"]
        down = model.weights[f"{OUTPUT.format(layer)}/weight"]
        norms = up.abs().sum(1)
        living = torch.nonzero(norms > 0).squeeze(1)
        count = -(-int(ratio * 1000 * len(living)) // 1000)
        if by_norm:
            gone = living[norms[living].argsort()[:count]]
        else:
            gone = living[torch.randperm(len(living), generator=generator)[:count].to(living.device)]
        up[gone], bias[gone], down[:, gone] = 0, 0, 0


@torch.no_grad()
def rebuilt(model: Bert) -> Bert:
    """The model without neurons that are zero in every respect, at one width for all layers."""
    depth = model.depth
    kept = [torch.nonzero(model.weights[f"{INTERMEDIATE.format(i)}/weight"].abs().sum(1) > 0).squeeze(1) for i in range(depth)]
    width = max(len(it) for it in kept)
    small = Bert({**model.config, "intermediate_size": width}).to(next(model.parameters()).device)
    for key, parameter in small.weights.items():
        if parameter.shape == model.weights[key].shape:
            parameter.copy_(model.weights[key])
    for layer, keep in enumerate(kept):
        for key, columns in ((INTERMEDIATE, False), (OUTPUT, True)):
            source = model.weights[f"{key.format(layer)}/weight"]
            target = small.weights[f"{key.format(layer)}/weight"]
            target.zero_()
            if columns:
                target[:, : len(keep)] = source[:, keep]
            else:
                target[: len(keep)] = source[keep]
        bias = small.weights[f"{INTERMEDIATE.format(layer)}/bias"]
        bias.zero_()
        bias[: len(keep)] = model.weights[f"{INTERMEDIATE.format(layer)}/bias"][keep]
    return small


def share_pruned(model: Bert) -> float:
    """Zeros among all parameters."""
    total = sum(it.numel() for it in model.weights.values())
    return sum(int((it == 0).sum()) for it in model.weights.values()) / total


def prune(
    prepared: pathlib.Path, start: pathlib.Path, config: dict, method: dict, out: pathlib.Path
) -> None:
    """Prunes the model in `start` (a folder that `export` wrote) by `method` of configs/pruning.json."""
    out.mkdir(parents=True, exist_ok=True)
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if on_gpu else "cpu")
    config = {**config, **method["training"]}
    model = Bert.from_directory(start)
    trainer = Trainer(model, Lists(prepared, config), config, device, 1 if on_gpu else config["workers"])
    generator = torch.Generator().manual_seed(config["seed"])
    masks = Masks(trainer.model)
    neurons: dict[str, torch.Tensor] = {}
    done = 0
    with open(out / "log.jsonl", "w") as log:
        while trainer.step < config["steps"]:
            line = trainer.run_step()
            masks.apply()
            for key, alive in neurons.items():
                trainer.model.weights[key].data.mul_(alive)
            if method["algorithm"] == 2:
                due = [it for it in method["schedule"] if it["step"] == trainer.step]
                for entry in due:
                    layers = range(model.depth) if entry["layers"] == "all" else entry["layers"]
                    name = INTERMEDIATE if entry["part"] == "ffn" else ATTENTION
                    for layer in layers:
                        masks.rows(name.format(layer), entry["ratio"])
            elif done < method["rounds"] and trainer.step % method["interval"] == 0:
                layers = halves(model.depth, done)
                if method["algorithm"] == 1:
                    for layer in layers:
                        masks.random(INTERMEDIATE.format(layer), method["ratio"], generator)
                else:
                    without_neurons(trainer.model, layers, method["ratio"], method["algorithm"] == 4, generator)
                    for layer in range(model.depth):
                        for name in (INTERMEDIATE, OUTPUT):
                            for kind in ("weight", "bias"):
                                key = f"{name.format(layer)}/{kind}"
                                if name == INTERMEDIATE or kind == "weight":
                                    neurons[key] = trainer.model.weights[key].data != 0
                done += 1
            masks.apply()
            trainer.spread()
            line["pruned"] = round(share_pruned(trainer.model), 4)
            if trainer.step == config["steps"]:
                line["development"] = development(trainer)
            log.write(json.dumps(line) + "\n")
            log.flush()
    final = rebuilt(trainer.model) if method["algorithm"] in (3, 4) else trainer.model
    torch.save({"model": final.state_dict(), "config": final.config}, out / "checkpoint.pt")
