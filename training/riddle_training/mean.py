"""`python -m riddle_training.mean FIRST SECOND --share 0.7 --out DIR`: the mean of two models' weights.

Two models that were trained from the same one lie in one valley, and a point between them is often better than both
(Wortsman et al., "Model soups", 2022). The second may have its heads and neurons in another order (see `elastic`):
those of the first are put in it, each to the one that it is most alike. The result has the second's configuration.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shutil

import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from .store import read_store


def weights_of(model: pathlib.Path) -> dict[str, torch.Tensor]:
    """As f32, of a model as it ships or exported."""
    store = model / "model.riddle"
    tensors = read_store(store) if store.exists() else load_file(model / "model.safetensors")
    return {name: it.float() for name, it in tensors.items()}


def matched(own: torch.Tensor, other: torch.Tensor, what: str) -> torch.Tensor:
    """For each row of `other` the row of `own` that it is most alike."""
    order = (F.normalize(other, dim=1) @ F.normalize(own, dim=1).T).argmax(1)
    if len(order.unique()) != len(order):
        raise SystemExit(f"{what}: two of the one are most alike to the same of the other: they are no kin")
    return order


def put_as(own: dict[str, torch.Tensor], other: dict[str, torch.Tensor], config: dict) -> None:
    """Heads and neurons of `own` in the order of `other`; what it computes stays the same."""
    heads = config["num_attention_heads"]
    size = config["hidden_size"] // heads
    for layer in range(config["num_hidden_layers"]):
        prefix = f"bert.encoder.layer.{layer}."
        attention = [f"{prefix}attention.self.{it}" for it in ("query", "key", "value")]

        def head_rows(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
            return torch.cat([tensors[f"{it}.weight"].reshape(heads, -1) for it in attention], 1)

        order = matched(head_rows(own), head_rows(other), f"heads of layer {layer}")
        rows = (order[:, None] * size + torch.arange(size)).reshape(-1)
        inner, outer = f"{prefix}intermediate.dense", f"{prefix}output.dense.weight"
        neurons = matched(own[f"{inner}.weight"], other[f"{inner}.weight"], f"neurons of layer {layer}")
        for name, places in [(it, rows) for it in attention] + [(inner, neurons)]:
            for part in ("weight", "bias"):
                own[f"{name}.{part}"] = own[f"{name}.{part}"][places]
        for name, places in ((f"{prefix}attention.output.dense.weight", rows), (outer, neurons)):
            own[name] = own[name][:, places]


def mean(first: pathlib.Path, second: pathlib.Path, share: float, out: pathlib.Path) -> None:
    own, other = weights_of(first), weights_of(second)
    if own.keys() != other.keys():
        raise SystemExit(f"they have other tensors: {', '.join(sorted(own.keys() ^ other.keys()))}")
    put_as(own, other, json.loads((second / "config.json").read_text()))
    out.mkdir(parents=True, exist_ok=True)
    tensors = {name: torch.lerp(own[name], it, share).contiguous() for name, it in other.items()}
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(second / name, out / name)


def main() -> None:
    parser = argparse.ArgumentParser(prog="riddle_training.mean", description=__doc__)
    parser.add_argument("first", type=pathlib.Path)
    parser.add_argument("second", type=pathlib.Path)
    parser.add_argument("--share", type=float, default=0.5, help="how much of the second, 0 to 1")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    mean(args.first, args.second, args.share, args.out)


if __name__ == "__main__":
    main()
