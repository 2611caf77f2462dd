"""Makes the seeds in corpus/safetensors from the tiny golden models: each model's header with the tensors
that fit a few kilobytes, the whole header without data, and one file per oddity. Deterministic."""

import json
import struct
from pathlib import Path

HERE = Path(__file__).parent
GOLDEN = HERE.parents[2] / "tests" / "golden"
OUT = HERE / "corpus" / "safetensors"
# Small files make quick runs; libFuzzer's own default for the longest input is 4 096.
LIMIT = 3000


def file_of(header, data=b""):
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


def parse(path):
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def shortened(header, data):
    kept, body = {}, b""
    tensors = [(name, info) for name, info in header.items() if name != "__metadata__"]
    for name, info in sorted(tensors, key=lambda it: it[1]["data_offsets"]):
        start, end = info["data_offsets"]
        if len(body) + end - start > LIMIT:
            continue
        kept[name] = {**info, "data_offsets": [len(body), len(body) + end - start]}
        body += data[start:end]
    return {"__metadata__": {"format": "pt"}, **kept}, body


def tensor(dtype, shape, start, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    seeds = {}
    for model in sorted(GOLDEN.glob("*/model.safetensors")):
        header, data = parse(model)
        seeds[f"{model.parent.name}-short"] = file_of(*shortened(header, data))
        seeds[f"{model.parent.name}-header"] = file_of(header)
    half = struct.pack("<eeHH", 0.5, -2.0, 0x3E80, 0x4100)
    seeds["half-formats"] = file_of({"h": tensor("F16", [2], 0, 4), "b": tensor("BF16", [2, 1], 4, 8)}, half)
    seeds["scalar-and-empty"] = file_of(
        {"s": tensor("F32", [], 0, 4), "e": tensor("F32", [0, 7], 4, 4), "w": tensor("F16", [9, 0], 4, 4)},
        bytes(4),
    )
    seeds["integers"] = file_of({"i": tensor("I64", [1], 0, 8), "q": tensor("BOOL", [3], 8, 11)}, bytes(11))
    seeds["not-a-number"] = file_of({"n": tensor("F32", [1], 0, 4)}, b"\xff" * 4)
    seeds["huge-shape"] = file_of({"n": tensor("F32", [2**40, 2**40, 0], 0, 0)})
    seeds["no-tensors"] = file_of({})
    for name, content in seeds.items():
        (OUT / name).write_bytes(content)
    print(f"{len(seeds)} seeds, {sum(map(len, seeds.values()))} bytes")


if __name__ == "__main__":
    main()
