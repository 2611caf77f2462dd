"""Makes the seeds in corpus/folder from the tiny golden models. Deterministic."""

import json
from pathlib import Path

HERE = Path(__file__).parent
GOLDEN = HERE.parents[2] / "tests" / "golden"
OUT = HERE / "corpus" / "folder"
# As in fuzz_targets/folder.rs.
MODELS = [
    "tiny-bert-cross-encoder", "tiny-bert-colbert", "tiny-modernbert-late", "tiny-modular-reranker", "tiny-zerank-reranker",
    "tiny-gemma3-embedder", "tiny-gte-reranker", "tiny-deberta-cross-encoder", "tiny-minicpm-layerwise",
    "tiny-mpnet-cross-encoder",
]


def files(model):
    folder = GOLDEN / model
    modules = sorted(it for it in folder.iterdir() if it.is_dir())[:4]
    read = lambda path: path.read_text() if path.is_file() else ""
    names = {it.name: f"{place}_Module" for place, it in enumerate(modules, 1)}
    listed = read(folder / "modules.json")
    for old, new in names.items():
        listed = listed.replace(f'"{old}"', f'"{new}"')
    yield read(folder / "config.json")
    yield listed
    for place in range(4):
        yield read(modules[place] / "config.json") if place < len(modules) else ""
    for name in ["config_sentence_transformers.json", "sentence_bert_config.json", "artifact.metadata"]:
        yield read(folder / name)
    # The file of a tokenizer is long, and hardly anything of it is read.
    whole = json.loads(read(folder / "tokenizer_config.json") or "{}")
    yield json.dumps({key: value for key, value in whole.items() if key.endswith("_token")})


OUT.mkdir(parents=True, exist_ok=True)
for place, model in enumerate(MODELS):
    compact = lambda text: json.dumps(json.loads(text), separators=(",", ":")) if text else ""
    (OUT / model).write_bytes(bytes([place]) + "\n====\n".join(map(compact, files(model))).encode())
