"""Reads the int8 weights of a model of Riddle's own store, `model.riddle`: training can go on from the one that ships.
Adds small tensors to one.

The layouts are those of `riddle_weights::store` and `riddle_kernels::Int8Matrix`. What int8 has rounded away stays away:
a thousandth of a weight, which training soon makes good.
"""

from __future__ import annotations

import json
import pathlib

import numpy as np
import torch

BLOCK, QUAD = 16, 4

# Segments begin at pages.
PAGE = 4096


def unpack_int8(raw: bytes, outputs: int, inputs: int) -> np.ndarray:
    """Scales f32 and sums i32 of the outputs rounded up to 16, then bytes `[N / 16][K / 4][16][4]`."""
    rows, columns = -(-outputs // BLOCK) * BLOCK, -(-inputs // QUAD) * QUAD
    if len(raw) != rows * (8 + columns):
        raise SystemExit(f"{len(raw)} bytes are no packed matrix of {outputs} x {inputs}")
    scales = np.frombuffer(raw, "<f4", rows)
    codes = np.frombuffer(raw, np.int8, rows * columns, 8 * rows)
    codes = codes.reshape(rows // BLOCK, columns // QUAD, BLOCK, QUAD).transpose(0, 2, 1, 3).reshape(rows, columns)
    return (codes[:outputs, :inputs] * scales[:outputs, None]).astype(np.float32)


def read_store(path: pathlib.Path) -> dict[str, torch.Tensor]:
    """All tensors, as f32."""
    raw = path.read_bytes()
    if raw[:8] != b"RDLSTORE":
        raise SystemExit(f"{path} is no store of Riddle")
    # Magic, version, reserved; then where the header is.
    offset, length = (int.from_bytes(raw[at : at + 8], "little") for at in (16, 24))
    tensors = {}
    for entry in json.loads(raw[offset : offset + length])["tensors"]:
        name, shape, at = entry["name"], entry["shape"], entry["offset"]
        if entry["dtype"] == "I8_PACKED":
            array = unpack_int8(raw[at : at + entry["bytes"]], *shape)
        elif entry["dtype"] in ("F32", "F16"):
            kind = "<f4" if entry["dtype"] == "F32" else "<f2"
            array = np.frombuffer(raw, kind, int(np.prod(shape)), at).reshape(shape).astype(np.float32)
        elif entry["dtype"] == "I8_ROWS":
            # Each row an f32 scale and a byte per number.
            rows = np.frombuffer(raw, np.int8, shape[0] * (shape[1] + 4), at).reshape(shape[0], -1)
            array = (rows[:, 4:] * rows[:, :4].copy().view("<f4")).astype(np.float32)
        else:
            raise SystemExit(f"{path}: {name} is {entry['dtype']}, which this does not read")
        tensors[name] = torch.from_numpy(array)
    return tensors


def add_to_store(path: pathlib.Path, tensors: dict[str, np.ndarray]) -> None:
    """Adds tensors as f32, each a segment of its own, in the place of such with the same names."""
    from blake3 import blake3

    raw = path.read_bytes()
    offset, length = (int.from_bytes(raw[at : at + 8], "little") for at in (16, 24))
    header = json.loads(raw[offset : offset + length])
    # What was added before lies at the end.
    known = [it for it in header["tensors"] if it["name"] in tensors]
    if known:
        offset = min(it["offset"] for it in known)
        later = {it["name"] for it in header["tensors"] if it["offset"] >= offset}
        if not later <= set(tensors):
            raise SystemExit(f"{path}: {sorted(later - set(tensors))} lie behind what is to be replaced")
        header["tensors"] = [it for it in header["tensors"] if it["offset"] < offset]
        header["segments"] = [it for it in header["segments"] if it["offset"] < offset]
    out = bytearray(raw[:offset])
    for name, array in tensors.items():
        out.extend(bytes(-len(out) % PAGE))
        data = np.ascontiguousarray(array, "<f4").tobytes()
        header["segments"].append({"offset": len(out), "bytes": len(data), "blake3": blake3(data).hexdigest()})
        header["tensors"].append({"name": name, "dtype": "F32", "shape": list(array.shape), "offset": len(out)})
        out.extend(data)
    out.extend(bytes(-len(out) % PAGE))
    text = json.dumps(header, separators=(",", ":")).encode()
    out[16:24], out[24:32] = len(out).to_bytes(8, "little"), len(text).to_bytes(8, "little")
    out[32:64] = blake3(text).digest()
    out.extend(text)
    partial = path.with_suffix(".partial")
    partial.write_bytes(out)
    partial.replace(path)
