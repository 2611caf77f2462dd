"""Models that lose little with fewer slices: heads and neurons in the order of what they are worth (DynaBERT, section 2.1).

A slice is a head with its share of the neurons, as `riddle models shard` cuts a layer. How much one is worth is how far
the loss would move without it: |d loss / d gate| for a gate of one on its output, summed over lists. In that order the
first slices of every layer are the narrower model, so that one set of weights is all of them; `train` teaches the
narrower ones what the whole one says. What a layer computes with all its slices is the same in any order.
"""

from __future__ import annotations

import torch

from .bert import Bert, Ragged


def worth(model: Bert, lists: list[dict], layers: list[int], loss_of) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """For each layer what its heads and its neurons are worth. `loss_of` makes a number of a list's scores."""
    heads, inner = model.heads, model.config["intermediate_size"]
    sums = [(torch.zeros(heads), torch.zeros(inner)) for _ in range(model.depth)]
    for item in lists:
        gates = [(torch.ones(heads, requires_grad=True), torch.ones(inner, requires_grad=True)) for _ in sums]
        batch = Ragged([it[0] for it in item["pairs"]], [it[1] for it in item["pairs"]])
        loss_of(model(batch, layers, gates=gates), item).backward()
        for own, (of_heads, of_neurons) in zip(gates, sums):
            of_heads += own[0].grad.abs()
            of_neurons += own[1].grad.abs()
    model.zero_grad(set_to_none=True)
    return sums


@torch.no_grad()
def put_in_order(model: Bert, worths: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Heads and neurons of every layer, the worthiest first."""
    size = model.config["hidden_size"] // model.heads
    for layer, (of_heads, of_neurons) in enumerate(worths):
        heads = torch.argsort(of_heads, descending=True, stable=True)
        rows = (heads[:, None] * size + torch.arange(size)).reshape(-1)
        neurons = torch.argsort(of_neurons, descending=True, stable=True)
        prefix = f"encoder/layer/{layer}/"
        for name in ("query", "key", "value"):
            for part in ("weight", "bias"):
                parameter = model.weights[f"{prefix}attention/self/{name}/{part}"]
                parameter.copy_(parameter[rows].clone())
        for part in ("weight", "bias"):
            parameter = model.weights[f"{prefix}intermediate/dense/{part}"]
            parameter.copy_(parameter[neurons].clone())
        for name, order in (("attention/output/dense", rows), ("output/dense", neurons)):
            parameter = model.weights[f"{prefix}{name}/weight"]
            parameter.copy_(parameter[:, order].clone())
