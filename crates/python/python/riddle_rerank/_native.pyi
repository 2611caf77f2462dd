from typing import final

__version__: str

class Stopped(Exception): ...

def size(text: str) -> int: ...
@final
class Native:
    def __init__(
        self,
        *,
        model: str | None,
        models_dir: str | None,
        cache_dir: str | None,
        memory_budget: int | None,
        mode: str | None,
        precision: float | None,
        error_probability: float | None,
        calibration: str | None,
        threads: int | None,
        max_tokens: int | None,
        instruction: str | None,
    ) -> None: ...
    def rank(
        self, query: str, documents: list[str], top_k: int | None
    ) -> tuple[list[tuple[int, float, float]], str | None]: ...
    def scores(self, pairs: list[tuple[str, str]], raw: bool) -> bytes: ...
    @property
    def model(self) -> str: ...
    @property
    def num_layers(self) -> int: ...
    @property
    def resident_weight_bytes(self) -> int: ...
