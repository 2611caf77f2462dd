"""A language model in little memory: this program beside llama.cpp, each in a control group of so much memory.

    python tests/peers/generate.py RIDDLE MODEL.gguf [--shares 20,40,60,80] [--tokens 8] [--prompt 32] [--repeat 3]

Needs root, cgroup v1 or v2 with the memory controller, and llama-cpp-python in this Python. llama.cpp maps the file, as it
does by default; the group counts the pages of the file for it, and direct reads are counted for nobody. Runs alternate;
figures are medians. Without --shares both run with all memory.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

GROUP = "riddle-generate"
LLAMA = """
import sys, time, resource, llama_cpp
path, prompt, tokens = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
default = llama_cpp.llama_cpp.llama_model_default_params
def mapped():
    # Copies in another order are no mapped file: a group of less memory than the model ends them.
    params = default()
    params.use_extra_bufts = len(sys.argv) > 4
    return params
llama_cpp.llama_cpp.llama_model_default_params = mapped
model = llama_cpp.Llama(path, n_ctx=prompt + tokens + 8, n_threads=2, n_threads_batch=2, n_batch=512, verbose=False)
vocabulary = model.n_vocab()
if len(sys.argv) > 4:
    # What is mapped is in memory once it was used; ours is once it is open.
    model.eval(list(range(8)))
    model.reset()
start = time.time()
model.eval([it * 7919 % vocabulary for it in range(prompt)])
read = time.time() - start
start = time.time()
for it in range(tokens):
    model.eval([(it * 31 + 5) % vocabulary])
written = time.time() - start
peak = [it for it in open('/proc/self/status') if it.startswith('VmHWM')][0].split()[1]
print(prompt / read, tokens / written, int(peak) * 1024)
"""


def group(limit: int) -> Path:
    """A control group with a limit of memory."""
    first = Path("/sys/fs/cgroup/memory")
    root = first if first.is_dir() else Path("/sys/fs/cgroup")
    folder = root / GROUP
    folder.mkdir(exist_ok=True)
    name = "memory.limit_in_bytes" if first.is_dir() else "memory.max"
    (folder / name).write_text(str(limit))
    return folder


def run(command: list[str], folder: Path | None) -> str:
    def enter() -> None:
        if folder:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    # Nothing of the file is in memory before.
    subprocess.run(["sync"], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("3") if folder else None
    done = subprocess.run(command, preexec_fn=enter, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command}: {done.returncode} {done.stderr[-500:]}")
    return done.stdout


def ours(args: argparse.Namespace, folder: Path | None, budget: int | None, more: list[str]) -> tuple[float, float, int, dict]:
    command = [args.riddle, "bench", "generate", args.model, "--prompt", str(args.prompt), "--tokens", str(args.tokens), "--json"]
    command += ["--memory-budget", str(budget)] if budget else []
    figures = json.loads(run(command + more, folder))
    return figures["prompt_tokens_per_second"], figures["decode_tokens_per_second"], figures["peak_rss_bytes"], figures


def theirs(args: argparse.Namespace, folder: Path | None) -> tuple[float, float, int]:
    command = [sys.executable, "-c", LLAMA, args.model, str(args.prompt), str(args.tokens)]
    said = run(command + ([] if folder else ["warm"]), folder).split()
    return float(said[0]), float(said[1]), int(said[2])


def median(values: list[float]) -> float:
    return statistics.median(values)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("riddle")
    parser.add_argument("model")
    parser.add_argument("--shares", default="")
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--ablation", action="store_true")
    args = parser.parse_args()
    size = os.path.getsize(args.model)
    shares = [int(it) for it in args.shares.split(",") if it] or [None]
    for share in shares:
        limit = size * share // 100 if share else None
        rows: dict[str, list] = {"ours": [], "llama.cpp": []}
        settings = {"ours": []}
        if share and args.ablation:
            settings |= {
                "no prefetch": ["--no-prefetch"],
                "whole layers": ["--locking", "by-layer"],
                "nothing locked": ["--locking", "nothing"],
            }
        # What the group counts beside the process (page tables, pages of programs) is not in the budget.
        folder = group(limit + (64 << 20)) if limit else None
        for _ in range(args.repeat):
            for name, more in settings.items():
                rows.setdefault(name, []).append(ours(args, folder, limit, more))
            rows["llama.cpp"].append(theirs(args, folder))
        for name, runs in rows.items():
            line = f"{share or 100} % {name}: prompt {median([it[0] for it in runs]):.2f}, decode {median([it[1] for it in runs]):.3f} tokens/s, peak {max(it[2] for it in runs) >> 20} MiB"
            if limit:
                line += f" of {limit >> 20}"
            figures = runs[0][3] if len(runs[0]) > 3 else None
            if figures and figures["stream_ms_per_token"]:
                bytes_read = figures["stats"]["streamed_bytes_per_token"]
                rate = median([it[3]["stream_bytes_per_second"] for it in runs])
                line += f"; reads {bytes_read >> 20} MiB a token at {rate / 1e9:.2f} GB/s: {bytes_read / rate * 1e3:.0f} ms, window {figures['stats']['window_layers']}"
            print(line, flush=True)
        ratio = median([a[1] / b[1] for a, b in zip(rows["ours"], rows["llama.cpp"])])
        print(f"{share or 100} % decode ratio {ratio:.2f}", flush=True)


main()
