"""Riddle's reranker: which of these texts answer the question?

    from riddle_rerank import Reranker

    reranker = Reranker()
    reranker.rank("Who bakes?", ["It rained.", "Mira bakes."], top_k=1)

The methods are those of sentence-transformers' `CrossEncoder`. Everything is computed on this machine's processor, and
nothing uses the network.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypedDict, overload

import numpy as np
import numpy.typing as npt

from ._native import Native, Stopped, __version__, size

__all__ = ["Ranked", "Reranker", "Stopped", "__version__"]

Mode = Literal["off", "set", "order"]
Path = str | os.PathLike[str]


class _Ranked(TypedDict):
    corpus_id: int
    score: float


class Ranked(_Ranked, total=False):
    """A document and how well it answers: its place among those that were given, its score, and its text."""

    text: str


class Reranker:
    """A cross-encoder: it reads each document together with the query.

    `model`: a folder as the hub publishes it (BERT, XLM-RoBERTa, MPNet, ModernBERT, Qwen3 reranker, MiniCPM
    layerwise), a name in Riddle's model store, or nothing: then the English reranker that is part of this package.

    `memory_budget`: what the whole process may take while it ranks, in bytes or as "250MiB". What does not fit is read
    when it is needed; MemoryError says what the smallest budget would be.

    `mode`: what leaving out hopeless documents before the last layer may change: nothing ("off"), the order inside the
    result ("set"), only who is not in it ("order"). `precision`: the share of the results that stays;
    `error_probability`: the share that may differ on average. Both need a calibration, which the package's own model
    has: where none of the three is given at most one result in a hundred differs on average.

    A reranker may be asked by several threads, and computes one request at a time on all cores, without the
    interpreter's lock. It can be pickled: what arrives is opened anew.
    """

    def __init__(
        self,
        model: Path | None = None,
        *,
        memory_budget: int | str | None = None,
        mode: Mode | None = None,
        precision: float | None = None,
        error_probability: float | None = None,
        calibration: Path | None = None,
        threads: int | None = None,
        max_tokens: int | None = None,
        instruction: str | None = None,
        models_dir: Path | None = None,
        cache_dir: Path | None = None,
    ) -> None:
        def path(given: Path | None) -> str | None:
            return None if given is None else os.fspath(given)

        self._options: dict[str, Any] = {
            "model": path(model),
            "memory_budget": size(memory_budget) if isinstance(memory_budget, str) else memory_budget,
            "mode": mode,
            "precision": precision,
            "error_probability": error_probability,
            "calibration": path(calibration),
            "threads": threads,
            "max_tokens": max_tokens,
            "instruction": instruction,
            "models_dir": path(models_dir),
            "cache_dir": path(cache_dir),
        }
        self._native = Native(**self._options)

    def rank(
        self,
        query: str,
        documents: Iterable[str],
        top_k: int | None = None,
        return_documents: bool = False,
        *,
        raw_scores: bool = False,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
    ) -> list[Ranked]:
        """The best `top_k` documents, best first: a list of {"corpus_id", "score"}, and "text" if asked for.

        `raw_scores`: logits instead of 0 to 1. `batch_size` and `show_progress_bar` are taken and change nothing.
        """
        del batch_size, show_progress_bar
        texts = _texts(documents)
        if top_k is not None and top_k < 0:
            raise ValueError(f"top_k is {top_k}: it is the number of results, or None for all")
        places, note = self._native.rank(query, texts, top_k)
        if note is not None:
            warnings.warn(note, stacklevel=2)
        ranked: list[Ranked] = []
        for index, score, raw in places:
            place: Ranked = {"corpus_id": index, "score": raw if raw_scores else score}
            if return_documents:
                place["text"] = texts[index]
            ranked.append(place)
        return ranked

    @overload
    def predict(self, sentences: tuple[str, str], *, raw_scores: bool = ..., **unused: Any) -> np.float32: ...
    @overload
    def predict(
        self, sentences: Sequence[Sequence[str]], *, raw_scores: bool = ..., **unused: Any
    ) -> npt.NDArray[np.float32]: ...

    def predict(self, sentences: Any, *, raw_scores: bool = False, **unused: Any) -> Any:
        """The score of each pair of a query and a document, in their order and always by all layers, as float32.

        One pair alone has one score. `batch_size`, `show_progress_bar`, `num_workers` and `convert_to_numpy` are taken
        and change nothing.
        """
        wrong = set(unused) - {"batch_size", "show_progress_bar", "num_workers", "convert_to_numpy"}
        if wrong:
            raise TypeError(f"predict() has no argument {sorted(wrong)[0]!r}")
        pairs = list(sentences)
        alone = len(pairs) == 2 and all(isinstance(it, str) for it in pairs)
        if alone:
            pairs = [pairs]
        for at, pair in enumerate(pairs):
            if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(it, str) for it in pair):
                raise ValueError(f"sentences[{at}] is no pair of two texts: a query and a document are needed")
        scores = np.frombuffer(self._native.scores([tuple(it) for it in pairs], raw_scores), dtype="<f4")
        return scores[0] if alone else scores.astype(np.float32)

    @property
    def model(self) -> str:
        """Name or folder of the model."""
        return self._native.model

    @property
    def num_layers(self) -> int:
        """Layers of the model."""
        return self._native.num_layers

    @property
    def resident_weight_bytes(self) -> int:
        """Bytes of weights in memory as of the last layer that ran."""
        return self._native.resident_weight_bytes

    def __repr__(self) -> str:
        given = [f"{name}={value!r}" for name, value in self._options.items() if value is not None]
        return f"Reranker({', '.join(given)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self._options,)


def _texts(documents: Iterable[str]) -> list[str]:
    if isinstance(documents, str):
        raise TypeError("documents is one text: give a list of them")
    texts = list(documents)
    for at, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"documents[{at}] is of {type(text).__name__}: texts are needed")
    return texts


def _opened(options: dict[str, Any]) -> Reranker:
    return Reranker(**options)
