"""Growing libraries, at home and on milvus-lite: building, memory, disk, times, and whether both find the same.

    python tests/clients/scale.py RIDDLE MODELS PASSAGES.jsonl.gz QUESTIONS.jsonl.gz FOLDER COUNT...

PASSAGES have `doc` and `text`, QUESTIONS `q`; passages of one doc become a file. `milvus_lite` must be importable
(`bash .ci/milvus`, then PYTHONPATH=.cache/milvus). For every COUNT of passages a home is indexed and pushed to a
server of its own, one reader asks both for 30 seconds each, and the 20 best by meaning are compared over 50 questions.
Prints one JSON object for each COUNT.
"""

import argparse
import gzip
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

from load import Client

PORT, DOOR, HOST = 19577, 7577, "127.0.0.1"


class Riddle:
    """The program on one home."""

    def __init__(self, program, models, home):
        self.program, self.home = program, home
        self.env = {**os.environ, "RIDDLE_HOME": str(home), "RIDDLE_MODELS": models, "RIDDLE_OFFLINE": "1"}

    def run(self, *args):
        """What it prints, its seconds, and the most memory that it had, in MB."""
        started = time.perf_counter()
        process = subprocess.Popen([self.program, *args, "--json"], env=self.env, stdout=subprocess.PIPE)
        said = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"{args} ended with {status}")
        return said, round(time.perf_counter() - started, 1), round(used.ru_maxrss / 1024)

    def start(self, *args):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen([self.program, *args], env=self.env, **quiet)


def memory(pid):
    """Resident and most resident, in MB."""
    lines = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status") if ":" in line)
    return [round(int(lines[name].split()[0]) / 1024) for name in ("VmRSS", "VmHWM")]


def disk(folder):
    return round(sum(it.stat().st_size for it in folder.rglob("*") if it.is_file()) / 1e6, 1)


def answers(port):
    for _ in range(600):
        try:
            socket.create_connection((HOST, port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"nothing answers at {port}")


def write(passages, folder, count):
    """Files of the first docs, until there are so many passages."""
    written, doc, texts = 0, None, []
    folder.mkdir(parents=True)

    def flush(number):
        body = "\n\n".join(f"## Part {n + 1}\n\n{text}" for n, text in enumerate(texts))
        place = folder / f"{number // 500:03}"
        place.mkdir(exist_ok=True)
        (place / f"{number:06}.md").write_text(f"# {doc}\n\n{body}\n", encoding="utf-8")

    number = 0
    for line in gzip.open(passages, "rt", encoding="utf-8"):
        it = json.loads(line)
        if it["doc"] != doc and texts:
            flush(number)
            number, texts = number + 1, []
            if written >= count:
                return
        doc = it["doc"]
        texts.append(" ".join(it["text"].split()))
        written += 1
    if texts:
        flush(number)


def reads(token, place, questions, seconds):
    """One reader, without reranking: median and 95th percentile in milliseconds."""
    client, took, wrong = Client(f"http://{HOST}:{DOOR}", token, "reader"), [], 0
    end, at = time.perf_counter() + seconds, 0
    while time.perf_counter() < end or len(took) < 20:
        body = {"query": questions[at % len(questions)], "rerank": False, "libraries": [place]}
        status, spent = client.ask("/api/search", body)
        took.append(spent)
        wrong += status != 200
        at += 1
    took.sort()
    pick = lambda share: round(1e3 * took[min(len(took) - 1, int(share * len(took)))], 1)
    return {"searches": len(took), "p50_ms": pick(0.5), "p95_ms": pick(0.95), "errors": wrong}


def best(riddle, question, *where):
    said = riddle.run("search", question, "-k", "150", "--no-rerank", *where)[0]
    hits = [it for it in json.loads(said)["hits"] if it["trace"].get("vector_rank")]
    hits.sort(key=lambda it: it["trace"]["vector_rank"])
    return {(it["path"], it["text"]) for it in hits[:20]}


def measure(args, count):
    folder = pathlib.Path(args.folder) / str(count)
    write(args.passages, folder / "files", count)
    questions = [json.loads(line)["q"] for line in gzip.open(args.questions, "rt", encoding="utf-8")]
    questions = questions[:: max(1, len(questions) // 200)][:200]
    riddle = Riddle(args.riddle, args.models, folder / "home")
    said, seconds, most = riddle.run("index", str(folder / "files"))
    report = {"count": count, "home": {"build_s": seconds, "build_mb": most, "disk_mb": disk(folder / "home")}}

    data = folder / "server"
    data.mkdir()
    server = subprocess.Popen(
        [sys.executable, "-m", "milvus_lite.cmdline", "server", "--host", HOST, "--data-dir", str(data),
         "--port", str(PORT)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    door = None
    try:
        answers(PORT)
        empty = memory(server.pid)[0]
        riddle.run("library", "add", "team", f"milvus://{HOST}:{PORT}/team")
        said, seconds, most = riddle.run("library", "push", "team")
        report["passages"] = json.loads(said)["passages"]
        added = json.loads(riddle.run("clients", "add", "reader", "--user", "root")[0])
        door = riddle.start("serve", "--port", str(DOOR))
        answers(DOOR)
        asked = reads(added["token"], "home", questions, args.seconds)
        report["home"] |= asked | {"resident_mb": memory(door.pid)[0]}
        asked = reads(added["token"], "team", questions, args.seconds)
        now, peak = memory(server.pid)
        report["milvus-lite"] = asked | {
            "push_s": seconds, "push_mb": most, "disk_mb": disk(data), "empty_mb": empty, "resident_mb": now,
            "peak_mb": peak}
        pairs = [(best(riddle, it), best(riddle, it, "--library", "team")) for it in questions[::4]]
        report["same_by_meaning"] = round(sum(len(a & b) for a, b in pairs) / sum(len(a) for a, _ in pairs), 4)
    finally:
        for it in (door, server):
            if it is not None:
                it.terminate()
                it.wait()
    print(json.dumps(report), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("riddle", "models", "passages", "questions", "folder"):
        parser.add_argument(name)
    parser.add_argument("counts", type=int, nargs="+")
    parser.add_argument("--seconds", type=float, default=30)
    args = parser.parse_args()
    for count in args.counts:
        measure(args, count)


if __name__ == "__main__":
    main()
