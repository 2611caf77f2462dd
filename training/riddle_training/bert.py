"""BERT over ragged batches, in the parameter names of `BertForSequenceClassification`.

Sequences lie one after the other, so that the matrix products (four fifths of the work) see no padding; only
attention is computed on a padded rectangle. The last layer computes the first token alone, because the head reads
nothing else of it.
"""

from __future__ import annotations

import concurrent.futures
import json
import math
import pathlib

import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch.nn import functional as F

from .store import read_store


class Ragged:
    """Token ids, segment ids and positions of sequences one after the other, and how to pad them."""

    def __init__(self, sequences: list[np.ndarray], segments: list[np.ndarray]):
        lengths = np.asarray([len(it) for it in sequences])
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        # A softmax over rows that do not fill whole vector registers takes several times longer.
        longest = -(-int(lengths.max()) // 32) * 32
        grid = np.arange(longest)[None, :]
        inside = grid < lengths[:, None]
        self.shape = (len(sequences), longest)
        self.ids = torch.from_numpy(np.concatenate(sequences).astype(np.int64))
        self.segments = torch.from_numpy(np.concatenate(segments).astype(np.int64))
        self.positions = torch.from_numpy(np.concatenate([np.arange(it) for it in lengths]))
        # Padded place -> token (0 where there is none), and token -> padded place.
        self.pad = torch.from_numpy(np.where(inside, starts[:, None] + grid, 0).reshape(-1))
        self.unpad = torch.from_numpy(np.flatnonzero(inside.reshape(-1)))
        self.first = torch.from_numpy(starts)
        self.bias = torch.from_numpy(np.where(inside, 0.0, -30000.0).astype(np.float32))

    def to(self, device: torch.device) -> "Ragged":
        for name, value in vars(self).items():
            if torch.is_tensor(value):
                setattr(self, name, value.to(device))
        return self


class Bert(torch.nn.Module):
    """Encoder, pooler and classifier. `forward` gives the score after every layer of `layers`, by the first `slices` heads of
    each and their share of the neurons."""

    def __init__(self, config: dict):
        super().__init__()
        self.config = config
        width, inner = config["hidden_size"], config["intermediate_size"]
        self.heads = config["num_attention_heads"]
        self.depth = config["num_hidden_layers"]
        self.eps = config["layer_norm_eps"]
        shapes = {
            "embeddings.word_embeddings.weight": (config["vocab_size"], width),
            "embeddings.position_embeddings.weight": (config["max_position_embeddings"], width),
            "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], width),
            "embeddings.LayerNorm.weight": (width,),
            "embeddings.LayerNorm.bias": (width,),
            "pooler.dense.weight": (width, width),
            "pooler.dense.bias": (width,),
            "classifier.weight": (1, width),
            "classifier.bias": (1,),
        }
        matrices = {
            "attention.self.query": (width, width),
            "attention.self.key": (width, width),
            "attention.self.value": (width, width),
            "attention.output.dense": (width, width),
            "intermediate.dense": (inner, width),
            "output.dense": (width, inner),
        }
        for layer in range(self.depth):
            prefix = f"encoder.layer.{layer}."
            for name, shape in matrices.items():
                shapes[f"{prefix}{name}.weight"] = shape
                shapes[f"{prefix}{name}.bias"] = shape[:1]
            for name in ("attention.output.LayerNorm", "output.LayerNorm"):
                shapes[f"{prefix}{name}.weight"] = (width,)
                shapes[f"{prefix}{name}.bias"] = (width,)
        self.weights = torch.nn.ParameterDict(
            {name.replace(".", "/"): torch.nn.Parameter(torch.zeros(shape)) for name, shape in shapes.items()}
        )

    @staticmethod
    def from_directory(path: pathlib.Path, seed: int = 0, layers: int | None = None) -> "Bert":
        """Reads an encoder or a classifier, or its first layers; what an encoder lacks (pooler, classifier) is drawn at random."""
        config = json.loads((path / "config.json").read_text())
        config["num_hidden_layers"] = min(layers or config["num_hidden_layers"], config["num_hidden_layers"])
        model = Bert(config)
        file = path / "model.safetensors"
        tensors = load_file(file) if file.exists() else read_store(path / "model.riddle")
        generator = torch.Generator().manual_seed(seed)
        for key, parameter in model.weights.items():
            name = key.replace("/", ".")
            found = tensors.get(name, tensors.get(f"bert.{name}"))
            if found is None:
                if not name.startswith(("pooler", "classifier")):
                    raise SystemExit(f"{path} has no tensor {name}")
                found = torch.randn(parameter.shape, generator=generator) * 0.02
            parameter.data.copy_(found)
        return model

    def tensors(self) -> dict[str, torch.Tensor]:
        """The weights under the names that `transformers` gives them in a sequence classifier."""
        named = {}
        for key, parameter in self.weights.items():
            name = key.replace("/", ".")
            named[name if name.startswith("classifier") else f"bert.{name}"] = parameter.data
        return named

    def linear(self, x: torch.Tensor, name: str, outputs: int | None = None, inputs: int | None = None) -> torch.Tensor:
        name = name.replace(".", "/")
        return F.linear(x, self.weights[f"{name}/weight"][:outputs, :inputs], self.weights[f"{name}/bias"][:outputs])

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        name = name.replace(".", "/")
        weight, bias = self.weights[f"{name}/weight"], self.weights[f"{name}/bias"]
        return F.layer_norm(x, weight.shape, weight, bias, self.eps)

    def embed(self, batch: Ragged) -> torch.Tensor:
        of = lambda name, ids: F.embedding(ids, self.weights[f"embeddings/{name}/weight"])
        x = of("word_embeddings", batch.ids) + of("position_embeddings", batch.positions)
        return self.norm(x + of("token_type_embeddings", batch.segments), "embeddings.LayerNorm")

    def layer(
        self, x: torch.Tensor, batch: Ragged, layer: int, first_only: bool, slices: int | None = None, gates=None
    ) -> torch.Tensor:
        """`gates` are factors of the layer's heads and neurons, all one: what a gradient says of them is their importance."""
        name = f"encoder.layer.{layer}."
        rows, longest = batch.shape
        size = x.shape[1] // self.heads
        count = slices or self.heads
        inner_size = self.config["intermediate_size"] * count // self.heads
        outputs = count * size

        def heads(tensor: torch.Tensor) -> torch.Tensor:
            tensor = tensor[batch.pad].view(rows, longest, count, size).transpose(1, 2)
            return tensor.reshape(rows * count, longest, size)

        key = heads(self.linear(x, name + "attention.self.key", outputs))
        value = heads(self.linear(x, name + "attention.self.value", outputs))
        if first_only:
            x = x[batch.first]
            query = self.linear(x, name + "attention.self.query", outputs).view(rows * count, 1, size)
        else:
            query = heads(self.linear(x, name + "attention.self.query", outputs))
        scores = torch.bmm(query * (1 / math.sqrt(size)), key.transpose(1, 2))
        # In place: nothing before the softmax is needed on the way back.
        scores = scores.view(rows, count, -1, longest).add_(batch.bias[:, None, None, :].to(scores.dtype))
        mixed = torch.bmm(torch.softmax(scores, -1).view(rows * count, -1, longest), value)
        mixed = mixed.view(rows, count, -1, size)
        if gates is not None:
            mixed = mixed * gates[0].view(1, count, 1, 1)
        mixed = mixed.transpose(1, 2).reshape(-1, outputs)
        if not first_only:
            mixed = mixed[batch.unpad]
        projected = self.linear(mixed, name + "attention.output.dense", inputs=outputs)
        x = self.norm(x + projected, name + "attention.output.LayerNorm")
        inner = F.gelu(self.linear(x, name + "intermediate.dense", inner_size))
        if gates is not None:
            inner = inner * gates[1]
        return self.norm(x + self.linear(inner, name + "output.dense", inputs=inner_size), name + "output.LayerNorm")

    def head(self, first: torch.Tensor) -> torch.Tensor:
        return self.linear(torch.tanh(self.linear(first, "pooler.dense")), "classifier").squeeze(-1)

    def forward(self, batch: Ragged, layers: list[int], slices: int | None = None, gates=None) -> dict[int, torch.Tensor]:
        """Scores (one per sequence) after each layer of `layers`, counted from 1."""
        x, scores, last = self.embed(batch), {}, max(layers)
        for layer in range(last):
            own = None if gates is None else gates[layer]
            x = self.layer(x, batch, layer, layer + 1 == last, slices, own)
            if layer + 1 in layers:
                scores[layer + 1] = self.head(x if layer + 1 == last else x[batch.first])
        return scores

    def hidden(self, batch: Ragged) -> torch.Tensor:
        x = self.embed(batch)
        for layer in range(self.depth):
            x = self.layer(x, batch, layer, first_only=False)
        return x


def embed_texts(model: Bert, tokenizer: Tokenizer, texts: list[str], workers: int, limit: int = 256) -> np.ndarray:
    """Mean-pooled vectors of length one, as sentence-transformers makes them of the same model."""
    device = next(model.parameters()).device
    half = Bert(model.config).to(device, torch.bfloat16)
    half.load_state_dict(model.state_dict())
    tokenizer.no_padding()
    tokenizer.enable_truncation(min(limit, model.config["max_position_embeddings"]))
    ids = [np.asarray(it.ids, np.uint16) for it in tokenizer.encode_batch(texts)]
    vectors = np.empty((len(texts), model.config["hidden_size"]), np.float32)
    order = np.argsort([len(it) for it in ids], kind="stable")

    def embed(start: int) -> None:
        torch.set_num_threads(1)
        places = order[start : start + 16]
        lengths = [len(ids[it]) for it in places]
        batch = Ragged([ids[it] for it in places], [np.zeros(it) for it in lengths]).to(device)
        with torch.no_grad():
            x = half.hidden(batch).float()
        sums = torch.stack([it.sum(0) for it in x.split(lengths)])
        vectors[places] = F.normalize(sums, dim=1).cpu().numpy()

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        list(pool.map(embed, range(0, len(order), 16)))
    return vectors
