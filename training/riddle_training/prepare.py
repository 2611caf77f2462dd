"""From question-passage pairs to candidate lists: sampling, splitting, mining hard negatives, tokens.

Negatives come from two places: Riddle's own keyword index (`riddle eval --stages bm25 --save-runs`) and the
exact nearest neighbours by the default embedder, whose similarities are also the floor that training distils from.
Everything is written to one folder and is a function of the data, the configuration and the seed. What takes long is
kept there and not made again: empty the folder to begin anew.
"""

from __future__ import annotations

import collections
import gzip
import hashlib
import json
import pathlib
import random
import subprocess
import tempfile
import urllib.parse

import numpy as np
from tokenizers import Tokenizer

from .bert import Bert, embed_texts

# Sources whose article key is a title that a reader would see above the passage.
TITLED = {"squad1_train", "boolq", "nq_qed_train", "nq_litm", "selqa"}


def sample(by_source: dict[str, list], config: dict, last: dict[str, set[int]]) -> dict[str, list[int]]:
    """Which pairs of each source a configuration takes; those of `last` only where there is nothing else left."""
    chosen = {}
    for source, count in sorted(config["sources"].items()):
        rng = random.Random(f"{config['seed']} {source}")
        rest = sorted(last.get(source, ()))
        first = [it for it in range(len(by_source[source])) if it not in last.get(source, ())]
        chosen[source] = rng.sample(first, min(count, len(first)))
        chosen[source] += rng.sample(rest, min(count - len(chosen[source]), len(rest)))
    return chosen


def load_rows(data: pathlib.Path, config: dict, before: list[dict] = ()) -> tuple[list[dict], str]:
    """The sampled pairs, and the hash of the file that they come from. What the configurations `before` sample comes last: it is
    taken only where a source has nothing else left.
    """
    digest = hashlib.sha256()
    by_source = collections.defaultdict(list)
    for name in config.get("files", ["train.en.jsonl.gz"]):
        raw = (data / name).read_bytes()
        digest.update(raw)
        for line in gzip.decompress(raw).decode().splitlines():
            row = json.loads(line)
            by_source[row["ds"]].append(row)
    for source in config["sources"]:
        if not by_source[source]:
            raise SystemExit(f"{data} has no pairs of {source}")

    last = collections.defaultdict(set)
    for one in before:
        for source, places in sample(by_source, one, {}).items():
            last[source].update(places)
    rows = [by_source[source][it] for source, places in sample(by_source, config, last).items() for it in places]
    return rows, digest.hexdigest()


def load_siblings(data: pathlib.Path, config: dict, rows: list[dict]) -> list[dict]:
    """Other passages of the documents that `rows` are about: nearly right, so good negatives. At most
    `siblings_per_document` of each, drawn at random."""
    wanted = {(row["ds"], row["doc"]) for row in rows}
    found = collections.defaultdict(list)
    for name in config.get("siblings", []):
        for line in gzip.open(data / name, "rt", encoding="utf-8"):
            row = json.loads(line)
            if (row["ds"], row["doc"]) in wanted:
                found[(row["ds"], row["doc"])].append(row)
    rng = random.Random(f"{config['seed']} siblings")
    most = config.get("siblings_per_document", 4)
    return [row for key in sorted(found) for row in rng.sample(found[key], min(most, len(found[key])))]


def title_of(row: dict) -> str:
    if row["ds"] not in TITLED:
        return ""
    return urllib.parse.unquote(row["doc"]).replace("_", " ").strip()


def is_dev(row: dict, share: float) -> bool:
    """Whole articles are set aside, so that no passage of the development set was trained on."""
    key = hashlib.sha256(f"{row['ds']} {row['doc']}".encode()).digest()
    return int.from_bytes(key[:4], "big") < share * 2**32


def bm25_runs(riddle: str, passages: list[dict], queries: list[str], depth: int) -> list[list[tuple[int, float]]]:
    """The best `depth` passages of each query by Riddle's keyword index, with their scores."""
    with tempfile.TemporaryDirectory() as folder:
        dataset = pathlib.Path(folder, "dataset")
        (dataset / "qrels").mkdir(parents=True)
        empty = pathlib.Path(folder, "models")
        empty.mkdir()
        with open(dataset / "corpus.jsonl", "w") as out:
            for number, passage in enumerate(passages):
                line = {"_id": str(number), "title": passage["title"], "text": passage["text"]}
                out.write(json.dumps(line) + "\n")
        with open(dataset / "queries.jsonl", "w") as out:
            for number, query in enumerate(queries):
                out.write(json.dumps({"_id": f"q{number}", "text": query}) + "\n")
        with open(dataset / "qrels" / "test.tsv", "w") as out:
            out.write("query-id\tcorpus-id\tscore\n")
            for number in range(len(queries)):
                out.write(f"q{number}\t0\t1\n")
        # Without an embedder nothing is embedded: keywords are all that is wanted here.
        command = [riddle, "--home", f"{folder}/home", "--models-dir", str(empty), "--offline"]
        command += ["eval", str(dataset), "--stages", "bm25", "--save-runs", f"{folder}/runs"]
        subprocess.run(command, check=True)
        found: list[list[tuple[int, float]]] = [[] for _ in queries]
        for line in open(pathlib.Path(folder, "runs", "bm25.trec")):
            query, _, document, rank, score, _ = line.split()
            if int(rank) <= depth:
                found[int(query[1:])].append((int(document), float(score)))
    return found


def nearest(queries: np.ndarray, passages: np.ndarray, depth: int) -> np.ndarray:
    """The `depth` passages with the largest cosine, exactly. Both inputs have rows of length one."""
    best = np.empty((len(queries), depth), np.int32)
    for start in range(0, len(queries), 512):
        scores = queries[start : start + 512] @ passages.T
        some = np.argpartition(-scores, depth, axis=1)[:, :depth]
        order = np.argsort(-np.take_along_axis(scores, some, 1), axis=1, kind="stable")
        best[start : start + 512] = np.take_along_axis(some, order, 1)
    return best


def write_tokens(path: pathlib.Path, tokenizer: Tokenizer, texts: list[str], limit: int) -> None:
    """Token ids without special tokens, cut at `limit`, one after the other, with their offsets."""
    tokenizer.no_padding()
    tokenizer.no_truncation()
    ids, offsets = [], [0]
    for start in range(0, len(texts), 4096):
        for encoding in tokenizer.encode_batch(texts[start : start + 4096], add_special_tokens=False):
            ids.append(np.asarray(encoding.ids[:limit], np.uint16))
            offsets.append(offsets[-1] + len(ids[-1]))
    np.savez(path, ids=np.concatenate(ids), offsets=np.asarray(offsets, np.int64))


def prepare(
    data: pathlib.Path, base: pathlib.Path, riddle: str, config: dict, out: pathlib.Path, before: list[dict] = ()
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    rows, digest = load_rows(data, config, before)
    passages, place = [], {}
    for row in rows:
        if row["pos"] not in place:
            place[row["pos"]] = len(passages)
            passages.append({"text": row["pos"], "title": title_of(row), "ds": row["ds"], "doc": row["doc"]})
    for row in load_siblings(data, config, rows):
        if row["text"] not in place:
            place[row["text"]] = len(passages)
            passages.append({"text": row["text"], "title": "", "ds": row["ds"], "doc": row["doc"]})
    queries = [row["q"].strip() for row in rows]
    print(f"{len(queries)} questions, {len(passages)} passages, data sha256 {digest}", flush=True)

    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    if not (out / "vectors.npz").exists():
        model = Bert.from_directory(base)
        texts = [f"{it['title']}\n{it['text']}".strip() for it in passages]
        workers = config["workers"]
        vectors = {
            "passages": embed_texts(model, tokenizer, texts, workers),
            "queries": embed_texts(model, tokenizer, queries, workers),
        }
        np.savez(out / "vectors.npz", **vectors)
    vectors = np.load(out / "vectors.npz")
    query_vectors, passage_vectors = vectors["queries"], vectors["passages"]
    if not (out / "bm25.json").exists():
        bm25 = bm25_runs(riddle, passages, queries, config["mining_depth"])
        (out / "bm25.json").write_text(json.dumps(bm25))
    bm25 = json.loads((out / "bm25.json").read_text())
    dense = nearest(query_vectors, passage_vectors, min(config["mining_depth"], len(passages) - 1))

    same = collections.defaultdict(list)
    for number, passage in enumerate(passages):
        same[(passage["ds"], passage["doc"])].append(number)
    rng = random.Random(config["seed"])
    with open(out / "queries.jsonl", "w") as file:
        for number, row in enumerate(rows):
            positive = place[row["pos"]]
            siblings = [it for it in same[(row["ds"], row["doc"])] if it != positive]
            line = {
                "ds": row["ds"],
                "dev": is_dev(row, config["dev_share"]),
                "positive": positive,
                "dense": [int(it) for it in dense[number] if it != positive],
                "bm25": [it for it, _ in bm25[number] if it != positive],
                "keyword": {str(it): round(score / bm25[number][0][1], 4) for it, score in bm25[number]},
                "full": len(bm25[number]) == config["mining_depth"],
                "article": rng.sample(siblings, min(8, len(siblings))),
            }
            file.write(json.dumps(line) + "\n")
    limit = config["max_tokens"]
    write_tokens(out / "query_tokens.npz", tokenizer, queries, limit // 2)
    write_tokens(out / "passage_tokens.npz", tokenizer, [it["text"] for it in passages], limit)
    write_tokens(out / "title_tokens.npz", tokenizer, [it["title"] for it in passages], 32)
    words = {name: tokenizer.token_to_id(word) for name, word in [("cls", "[CLS]"), ("sep", "[SEP]"), ("and", "and")]}
    if None in (words["cls"], words["sep"]):
        raise SystemExit(f"{base} has no [CLS] and [SEP]: this recipe is for BERT")
    facts = {"data_sha256": digest, "tokens": words, "config": config}
    (out / "prepared.json").write_text(json.dumps(facts, indent=1))
