"""All questions and passages as tokens in one small file, for machines that have a GPU and nothing else.

`python -m riddle_training.corpus --config configs/every.json --data TRAIN --base MINILM --out every.corpus` writes it;
`Corpus.read` reads it. Nothing is embedded and no negatives are searched here: `mine` does that in seconds where the GPU
is. The file is an xz stream: the length of a JSON header (8 bytes, little-endian), the header, and the arrays one after
the other.
"""

from __future__ import annotations

import argparse
import json
import lzma
import pathlib
import re
import urllib.parse

import numpy as np
from tokenizers import Tokenizer

from .prepare import TITLED, is_dev, load_rows, load_siblings

# Names of files that say nothing of what is inside.
NAMELESS = {"index", "readme", "basic", "main", "core", "utils"}


def title_of(row: dict) -> str:
    """What a reader would see above the passage: the article's title, or the name of the file that it is in."""
    if row["ds"] in TITLED:
        return urllib.parse.unquote(row["doc"]).replace("_", " ").strip()
    file = re.search(r"([^/:]+)\.(?:md|rst|py|java)$", row["doc"])
    if file is None or file[1].lower() in NAMELESS:
        return ""
    return re.sub(r"[-_]+", " ", file[1]).strip()


def tokens_of(tokenizer: Tokenizer, texts: list[str], limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Token ids without special tokens, cut at `limit`, one text after the other, and the length of each."""
    ids, lengths = [], []
    for start in range(0, len(texts), 8192):
        for encoding in tokenizer.encode_batch(texts[start : start + 8192], add_special_tokens=False):
            ids.append(np.asarray(encoding.ids[:limit], np.uint16))
            lengths.append(len(ids[-1]))
    return np.concatenate(ids), np.asarray(lengths, np.uint16)


def pack(data: pathlib.Path, base: pathlib.Path, config: dict, out: pathlib.Path) -> None:
    rows, digest = load_rows(data, config)
    passages, place = [], {}
    for row in rows + load_siblings(data, config, rows):
        text = row.get("pos") or row["text"]
        if text not in place:
            place[text] = len(passages)
            passages.append((text, row["ds"], row["doc"]))
    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    sources = sorted({row["ds"] for row in rows})
    of_source = {name: number for number, name in enumerate(sources)}
    documents: dict[tuple[str, str], int] = {}
    titles = [title_of({"ds": source, "doc": document}) for _, source, document in passages]
    arrays = {}
    for name, texts, limit in (
        ("query", [row["q"].strip() for row in rows], config["max_tokens"] * 3 // 8),
        ("passage", [it[0] for it in passages], config["max_tokens"] - 16),
        ("title", titles, 24),
    ):
        arrays[f"{name}_ids"], arrays[f"{name}_lengths"] = tokens_of(tokenizer, texts, limit)
    arrays["positive"] = np.asarray([place[row["pos"]] for row in rows], np.uint32)
    arrays["query_source"] = np.asarray([of_source[row["ds"]] for row in rows], np.uint8)
    arrays["passage_source"] = np.asarray([of_source[it[1]] for it in passages], np.uint8)
    arrays["document"] = np.asarray([documents.setdefault(it[1:], len(documents)) for it in passages], np.uint32)
    arrays["dev"] = np.asarray([is_dev(row, config["dev_share"]) for row in rows], np.uint8)
    header, parts, offset = {}, [], 0
    for name, array in arrays.items():
        header[name] = (offset, array.dtype.str, len(array))
        parts.append(array.tobytes())
        offset += len(parts[-1])
    facts = {"arrays": header, "sources": sources, "data_sha256": digest, "max_tokens": config["max_tokens"]}
    head = json.dumps(facts).encode()
    # Ids are two bytes: the place within a pair says more than the byte before.
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 0, "lp": 1, "pb": 1, "dict_size": 1 << 26}]
    raw = len(head).to_bytes(8, "little") + head + b"".join(parts)
    out.write_bytes(lzma.compress(raw, format=lzma.FORMAT_XZ, filters=filters))
    print(f"{len(rows)} questions, {len(passages)} passages, {out.stat().st_size} bytes")


class Corpus:
    """What `pack` wrote: arrays by name, and offsets of the token lists."""

    def __init__(self, raw: bytes):
        length = int.from_bytes(raw[:8], "little")
        facts = json.loads(raw[8 : 8 + length])
        self.sources, self.max_tokens = facts["sources"], facts["max_tokens"]
        self.data_sha256 = facts["data_sha256"]
        for name, (offset, kind, count) in facts["arrays"].items():
            setattr(self, name, np.frombuffer(raw, kind, count, 8 + length + offset))
        for name in ("query", "passage", "title"):
            starts = np.concatenate([[0], np.cumsum(getattr(self, f"{name}_lengths"), dtype=np.int64)])
            setattr(self, f"{name}_starts", starts)
            setattr(self, f"{name}_lengths", np.diff(starts))

    @staticmethod
    def read(path: pathlib.Path) -> "Corpus":
        return Corpus(lzma.decompress(path.read_bytes()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="riddle_training.corpus", description=__doc__)
    parser.add_argument("--config", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--base", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    pack(args.data, args.base, json.loads(args.config.read_text()), args.out)


if __name__ == "__main__":
    main()
