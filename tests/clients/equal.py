"""The same questions asked of homes and of shared libraries made from them: what differs, and what it costs in nDCG.

    python tests/clients/equal.py RIDDLE MODELS HOMES DATASET... [--questions 100]

DATASETs are folders in the layout of BEIR. Each gets a home below HOMES, with the default embedder, where there is none
yet. `milvus_lite` must be importable (`bash .ci/milvus`, then PYTHONPATH=.cache/milvus). Questions are spread evenly
over a set. Those that the server does not answer in time are counted as `late` and left out on both sides. Prints one
JSON object for each set.
"""

import argparse
import gzip
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time

from scale import HOST, PORT, Riddle, answers

EMBEDDER = "all-MiniLM-L6-v2"


def judged(folder):
    """Relevance of documents, by question."""
    found = {}
    for line in next((folder / "qrels").glob("*.tsv")).read_text(encoding="utf-8").splitlines()[1:]:
        question, document, grade = line.split("\t")
        found.setdefault(question, {})[document] = float(grade)
    return found


def ndcg(order, relevant):
    gain = lambda grades: sum(it / math.log2(rank + 2) for rank, it in enumerate(grades[:10]))
    best = gain(sorted((it for it in relevant.values() if it > 0), reverse=True))
    return gain([max(0, relevant.get(it, 0)) for it in order]) / best if best else 0


def names(dataset):
    """Names of the documents, in their order: a home of a set calls them by their number."""
    plain = dataset / "corpus.jsonl"
    lines = plain.open(encoding="utf-8") if plain.is_file() else gzip.open(f"{plain}.gz", "rt", encoding="utf-8")
    with lines:
        return [json.loads(it)["_id"] for it in lines if it.strip()]


def documents(hits, known):
    """Names of the documents, each once, the best first."""
    return [known[it] for it in dict.fromkeys(int(it["path"].rsplit("/", 1)[-1]) for it in hits)]


def first(hits, leg):
    """The 20 best of a leg, as far as they are among the hits: where keywords decide, few of the others' are."""
    return [(it["path"], it["text"]) for it in hits if (it["trace"].get(leg) or 21) <= 20]


def shared(a, b):
    return len(set(a) & set(b)) / max(len(a), len(b)) if a or b else 1.0


def compare(riddle, question, relevant, known):
    """Shares and nDCGs of one question, or why there are none."""
    row = {}
    places = ((), ("--library", "team"))
    for name, args in (("merged", ("-k", "150", "--no-rerank")), ("reranked", ("-k", "20"))):
        try:
            said = [json.loads(riddle.run("search", question, *args, *place)[0]) for place in places]
        except SystemExit:  # The program has said why: a server that does not answer in time.
            return None
        here, there = ([repr(it) for it in it.get("notices", [])] for it in said)
        if not all(it["hits"] for it in said) or set(there) - set(here):
            return None
        here, there = (it["hits"] for it in said)
        row[name] = [ndcg(documents(it, known), relevant) for it in (here, there)]
        if name == "merged":
            row["meaning"], row["words"] = (
                shared(first(here, leg), first(there, leg)) for leg in ("vector_rank", "bm25_rank"))
        else:
            texts = [[(it["path"], it["text"]) for it in hits] for hits in (here, there)]
            row["first"], row["best10"] = texts[0][0] == texts[1][0], shared(texts[0][:10], texts[1][:10])
    return row


def indexed(args, dataset):
    """The home of a set, made where there is none."""
    homes = pathlib.Path(args.homes) / dataset.name
    if not list(homes.glob("eval/*/catalog.sqlite")):
        riddle = Riddle(args.riddle, args.models, homes)
        riddle.run("eval", str(dataset), "--embedder", EMBEDDER, "--limit-queries", "1")
    return next(homes.glob("eval/*/catalog.sqlite")).parent


def measure(args, dataset):
    relevant, known = judged(dataset), names(dataset)
    lines = (dataset / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    questions = [it for it in map(json.loads, lines) if it["_id"] in relevant]
    step = max(1, len(questions) // args.questions)
    questions = questions[::step][: args.questions]
    riddle = Riddle(args.riddle, args.models, indexed(args, dataset))
    began, rows, late = time.perf_counter(), [], 0
    with tempfile.TemporaryDirectory() as data:
        server = subprocess.Popen(
            [sys.executable, "-m", "milvus_lite.cmdline", "server", "--host", HOST, "--data-dir", data,
             "--port", str(PORT)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        door = None
        try:
            answers(PORT)
            subprocess.run([riddle.program, "library", "remove", "team"], env=riddle.env,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            riddle.run("library", "add", "team", f"milvus://{HOST}:{PORT}/team")
            pushed = json.loads(riddle.run("library", "push", "team")[0])
            door = riddle.start("serve", "--port", "7578")
            answers(7578)
            for it in questions:
                row = compare(riddle, it["text"], relevant[it["_id"]], known)
                rows += [row] if row else []
                late += row is None
        finally:
            for it in (door, server):
                if it is not None:
                    it.terminate()
                    it.wait()
    mean = lambda values: round(sum(values) / max(1, len(rows)), 4)
    report = {"set": dataset.name, "passages": pushed["passages"], "questions": len(rows), "late": late}
    report["meaning_same"] = sum(it["meaning"] == 1 for it in rows)
    report |= {it: mean(row[it] for row in rows) for it in ("meaning", "words", "best10")}
    report["first_same"] = sum(it["first"] for it in rows)
    report |= {it: [mean(row[it][side] for row in rows) for side in (0, 1)] for it in ("merged", "reranked")}
    print(json.dumps(report | {"seconds": round(time.perf_counter() - began)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("riddle", "models", "homes"):
        parser.add_argument(name)
    parser.add_argument("datasets", type=pathlib.Path, nargs="+")
    parser.add_argument("--questions", type=int, default=100)
    args = parser.parse_args()
    for dataset in args.datasets:
        measure(args, dataset)


if __name__ == "__main__":
    main()
