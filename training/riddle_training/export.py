"""Writes a checkpoint as the files that Hugging Face and sentence-transformers load unchanged."""

from __future__ import annotations

import json
import pathlib
import shutil

import torch
from safetensors.torch import save_file

from .bert import Bert


def export(
    run: pathlib.Path,
    base: pathlib.Path,
    output: pathlib.Path,
    card: dict | None = None,
    dtype: torch.dtype = torch.float32,
) -> None:
    """`config.json`, `model.safetensors`, `tokenizer.json`, `tokenizer_config.json`.

    `card` is what Riddle is told beside the model: languages, and the retrieval prior that it was trained with. Other
    programs pass that part of `config.json` over.
    """
    state = torch.load(run / "checkpoint.pt", map_location="cpu", weights_only=True)
    # A pruned or cut model has a configuration of its own.
    config = state.get("config") or json.loads((base / "config.json").read_text())
    model = Bert(config)
    model.load_state_dict(state["model"])
    output.mkdir(parents=True, exist_ok=True)
    tensors = {name: it.to(dtype).contiguous() for name, it in model.tensors().items()}
    save_file(tensors, output / "model.safetensors", metadata={"format": "pt"})
    (output / "model.safetensors").chmod(0o644)
    config.update(
        architectures=["BertForSequenceClassification"],
        id2label={"0": "LABEL_0"},
        label2id={"LABEL_0": 0},
        num_labels=1,
        dtype=str(dtype).removeprefix("torch."),
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    if card:
        config["riddle"] = card
    for name in ("_name_or_path", "gradient_checkpointing", "transformers_version"):
        config.pop(name, None)
    (output / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    tokenizer = json.loads((base / "tokenizer.json").read_text())
    # The bi-encoder's file pads and cuts at 128 by itself; how long a pair may be is the caller's choice.
    tokenizer["truncation"], tokenizer["padding"] = None, None
    (output / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")))
    shutil.copy(base / "tokenizer_config.json", output / "tokenizer_config.json")
