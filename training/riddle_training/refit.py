"""Fits again what was fitted to the reranker's weights, in order, and writes it where it is read.

`python -m riddle_training.refit --work DIR --suite DIR --claims DIR --answers FILE --riddle PROGRAM [--write]`
`python -m riddle_training.refit --work DIR --check`

Weights that are new have a prior, a limit of evidence, a calibration and a check of sentences that fit others. Each is
a step, which is done again only when what it was made from has changed: the model's weights, the questions, the
program's version, the steps before. What is fitted goes into a copy of the model in `--work`; `--write` takes it from
there.

| step | with | becomes |
|---|---|---|
| runs | `riddle eval --suite --save-runs` | evidence of every candidate, below `--work` |
| logits | `riddle_training.evidence score` | what the model says of them |
| prior | `riddle_training.evidence fit`, twice | `riddle.prior` in config.json |
| early | `riddle_training.early`, with `--train` | heads of early layers in model.riddle, `riddle.prior.earlier` |
| near, far | the example `evidence` of riddle-rag | evidence and scores of questions with answers and without |
| answers | `riddle_training.answers` | `riddle.answers` in config.json |
| calibration | `riddle models calibrate --suite` | calibration.json |
| sentences | `riddle eval claims --fit` | constants of crates/claims/src/verdict.rs |

The calibration comes after all that changes config.json, which is a part of what it belongs to. `--check` compares what
the steps have found with the files, and runs nothing.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
MODEL = ROOT / "assets/models/riddle-reranker"
VERDICT = ROOT / "crates/claims/src/verdict.rs"

# What the runs say that the present weights were fitted with.
QUESTIONS = 130
CALIBRATED = 50
CLAIMS = 140

# Questions of a set that are asked whether there is an answer, and documents of it that have nothing to do with them.
ASKED = 80
OTHERS = 600

# Documents and questions of a set.
FILES = ("corpus.jsonl", "corpus.jsonl.gz", "queries.jsonl", "qrels/test.tsv")

# The features of a claim in the order of the constants.
FEATURES = ("reranker", "sentence", "added_near", "names_missing")


class Refused(Exception):
    """What can not be done, and what to do."""


def digest(*parts: str | bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode() if isinstance(part, str) else part)
        found.update(b"\0")
    return found.hexdigest()


def digest_of(path: pathlib.Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sets_of(suite: pathlib.Path) -> dict[str, pathlib.Path]:
    """The datasets below a folder, by their paths in it."""
    found = {it.parent for it in suite.rglob("queries.jsonl") if not any(part.startswith(".") for part in it.parts)}
    return {str(it.relative_to(suite)): it for it in sorted(found)}


class Refit:
    """The steps and what they have found."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.work: pathlib.Path = args.work
        self.model = self.work / "model"
        self.home = self.work / "home"

    # What is done once.

    def step(self, name: str, inputs: list[str], run) -> dict:
        """What the step has found, from its file if that is of these inputs."""
        path = self.work / f"{name}.json"
        key = digest(name, *inputs)
        if path.exists():
            kept = json.loads(path.read_text())
            if kept["key"] == key and name not in self.args.again:
                print(f"{name}: done before", flush=True)
                return kept["found"]
        print(f"{name} …", flush=True)
        found = run()
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps({"key": key, "found": found}, indent=2) + "\n")
        beside.rename(path)
        return found

    def kept(self, name: str) -> dict | None:
        path = self.work / f"{name}.json"
        return json.loads(path.read_text())["found"] if path.exists() else None

    def riddle(self, *words: str | pathlib.Path) -> dict:
        command = [self.args.riddle, "--home", str(self.home), "--json"]
        command += ["--models-dir", str(self.args.models)] if self.args.models else []
        return json.loads(self.called([*command, *map(str, words)]))

    def called(self, command: list[str], cwd: pathlib.Path | None = None) -> str:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=cwd)
        if done.returncode:
            raise Refused(f"{' '.join(command)}: it said {done.returncode}; what is done is kept, so start again")
        return done.stdout

    def suite_words(self) -> list[str]:
        words = ["--suite", self.args.suite, "--domains", self.args.domains, "--homes", self.work / "homes"]
        return [str(it) for it in words]

    # The steps.

    def all(self) -> None:
        self.work.mkdir(parents=True, exist_ok=True)
        files = sorted(self.args.model.iterdir())
        weights = [digest_of(it) for it in files if it.suffix in (".riddle", ".safetensors")]
        version = self.called([self.args.riddle, "--version"])
        suite = [
            digest(name, *(digest_of(folder / it) for it in FILES if (folder / it).exists()))
            for name, folder in sets_of(self.args.suite).items()
        ]
        given = [*weights, version, *suite, self.args.domains.read_text()]
        self.copy_model(weights)
        runs = self.step("runs", [*given, str(QUESTIONS)], self.runs)
        self.step("logits", [*given, json.dumps(runs)], self.logits)
        prior = self.step("prior", [*given, json.dumps(runs)], self.prior)
        self.set_card("prior", prior["prior"])
        if self.args.train:
            data = [digest_of(it) for it in sorted(self.args.train.glob("*.jsonl.gz"))]
            early = self.step("early", [*given, json.dumps(prior["prior"]), *data], self.early)
            self.set_card("prior", early["prior"])
        asked = [*given, json.dumps(prior["prior"])]
        near = self.step("near", asked, lambda: self.asked("near"))
        far = self.step("far", asked, lambda: self.asked("far"))
        answers = self.step("answers", [json.dumps(near), json.dumps(far)], self.answers)
        self.set_card("answers", answers)
        card = digest_of(self.model / "config.json")
        sizes = [str(CALIBRATED), self.args.candidates]
        self.step("calibration", [*given, card, *sizes], self.calibration)
        claims = [digest_of(it) for it in self.args.answers] + [digest_of(self.args.claims / "queries.jsonl")]
        self.step("sentences", [*weights, version, *claims, str(CLAIMS)], self.sentences)

    def copy_model(self, weights: list[str]) -> None:
        """A copy of the model, new when its weights are."""
        noted = self.work / "weights.json"
        if noted.exists() and json.loads(noted.read_text()) == weights:
            return
        shutil.rmtree(self.model, ignore_errors=True)
        shutil.copytree(self.args.model, self.model)
        noted.write_text(json.dumps(weights))

    def set_card(self, name: str, value: dict) -> None:
        """Writes a part of the card if it says something else: the file's bytes are a part of what it is."""
        path = self.model / "config.json"
        config = json.loads(path.read_text())
        if config.setdefault("riddle", {}).get(name) != value:
            config["riddle"][name] = value
            path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")

    def runs(self) -> dict:
        to = self.work / "runs"
        shutil.rmtree(to, ignore_errors=True)
        words = ["--limit-queries", QUESTIONS, "--model", self.model, "--save-runs", to]
        report = self.riddle("eval", *self.suite_words(), *words)
        if report["failed"]:
            print("left out:", ", ".join(it["name"] for it in report["failed"]), flush=True)
        return {it["name"]: it["queries"] for it in report["sets"]}

    def logits(self) -> dict:
        from . import evidence

        evidence.score(self.work / "runs", self.args.riddle, str(self.model))
        return {name: digest_of(it / "logits.jsonl") for name, it in evidence.runs_of(self.work / "runs").items()}

    def prior(self) -> dict:
        from . import evidence

        runs, domains = self.work / "runs", json.loads(self.args.domains.read_text())
        fits = {"with_terms": evidence.fit(runs, domains), "alone": evidence.fit(runs, domains, True)}
        questions = [
            it for name, run in evidence.runs_of(runs).items() if domains.get(name) for it in evidence.questions_of(run)
        ]
        before = json.loads((self.model / "config.json").read_text())["riddle"]["prior"]
        after = json.loads(json.dumps(before))
        # Both kinds of search trust a cosine alike: as it is best where terms are weighed.
        after["trust"] = {**before["trust"], "rate": float(fits["with_terms"]["shown"]["trust"])}
        for name, now, then in (("alone", after, before), ("with_terms", after["with_terms"], before["with_terms"])):
            shown = fits[name]["shown"]
            now["scale"], now["keyword"] = float(shown["cosine"]), float(shown["keyword"])
            if name == "with_terms":
                now["sparse"] = float(shown["sparse"])
            if (now, after["trust"]) != (then, before["trust"]):
                now["center"] = center_of(questions, (now, after["trust"]), (then, before["trust"]))
            for early in now.get("earlier", []):
                # What an early layer lacks of the last one is the same, until its heads are learned anew.
                early["center"] = round(early["center"] + taken(now) - taken(then), 3)
                for weight in early.keys() - {"center"}:
                    early[weight] = round(early[weight] + now[weight] - then[weight], 3)
        return {"prior": after, "fits": fits}

    def early(self) -> dict:
        """Heads of early layers, from questions of the training data as searches would ask them."""
        from . import early

        folder = self.work / "early"
        sets, runs = folder / "sets", folder / "runs"
        early.sets(self.args.train, json.loads(early.CONFIG.read_text()), sets)
        shutil.rmtree(runs, ignore_errors=True)
        words = ["--suite", sets, "--domains", sets / "domains.json", "--homes", folder / "homes"]
        self.riddle("eval", *words, "--mode", "off", "--model", self.model, "--save-runs", runs)
        early.fit(runs, self.model, folder)
        early.write(folder, self.model)
        card = json.loads((self.model / "config.json").read_text())["riddle"]
        return {"prior": card["prior"], "weights": digest_of(self.model / "model.riddle")}

    def asked(self, kind: str) -> dict:
        """Questions with their answer in the library and without, as the example `evidence` asks them."""
        pairs, others, seen = (self.work / f"{kind}.{name}.jsonl" for name in ("pairs", "others", "seen"))
        domains = json.loads(self.args.domains.read_text())
        chosen = {name: it for name, it in sets_of(self.args.suite).items() if domains.get(name)}
        halves = sorted(set(domains[name] for name in chosen))
        asked_of = set(halves if kind == "near" else halves[::2])
        held = set(halves if kind == "near" else halves[1::2])
        lines, texts = [], []
        for name, folder in chosen.items():
            documents, questions = read_set(folder)
            missing = set()
            if domains[name] in asked_of:
                for place, (query, relevant) in enumerate(spread(questions, ASKED)):
                    present = kind == "near" and place % 2 == 0
                    lines.append({"ds": name, "q": query, "pos": documents[relevant], "in": present})
                    missing |= set() if present else {relevant}
            if domains[name] in held:
                texts += [documents[it] for it in spread(sorted(set(documents) - missing), OTHERS)]
        pairs.write_text("".join(json.dumps(it) + "\n" for it in lines))
        others.write_text("".join(json.dumps({"text": it}) + "\n" for it in texts))
        command = ["cargo", "run", "--release", "--locked", "-p", "riddle-rag", "--example", "evidence", "--"]
        files = [pairs, self.args.models, others, seen, self.model]
        self.called([*command, *(str(it.resolve()) for it in files)], ROOT)
        return {"asked": len(lines), "library": len(texts), "seen": digest_of(seen)}

    def answers(self) -> dict:
        from . import answers

        domains = json.loads(self.args.domains.read_text())
        rows = answers.read(self.work / "near.seen.jsonl", domains, False)
        rows += answers.read(self.work / "far.seen.jsonl", domains, True)
        scale, limit = answers.fit(rows)
        return {"scale": scale, "center": round((limit - answers.QUOTED) / scale, 1) if scale else 0.0}

    def calibration(self) -> dict:
        words = ["--limit-queries", CALIBRATED]
        words += ["--candidates", self.args.candidates] if self.args.candidates else []
        made = self.riddle("models", "calibrate", self.model, *self.suite_words(), *words)
        target = self.model / "calibration.json"
        shutil.copyfile(made["file"], target)
        return {"calibration": digest_of(target), "checked": made["checked"]}

    def sentences(self) -> dict:
        self.riddle("models", "use", self.model)
        files = [word for it in self.args.answers for word in ("--answers", it)]
        return self.riddle("eval", "claims", self.args.claims, *files, "--limit-queries", CLAIMS, "--fit")["fitted"]

    # Where it goes.

    def written(self) -> dict[str, tuple[pathlib.Path, bytes | None]]:
        """The files and what they should be; nothing where the steps before are not done."""
        steps = ("prior", "early", "answers", "calibration", "sentences")
        done = {name: self.kept(name) for name in steps}
        card = self.model / "config.json"
        calibration = self.model / "calibration.json"
        has_card = done["prior"] and done["answers"]
        made = calibration.read_bytes() if done["calibration"] else None
        verdict = with_constants(VERDICT.read_text(), done["sentences"]) if done["sentences"] else None
        heads = (self.model / "model.riddle").read_bytes() if done["early"] else None
        return {
            "heads of early layers": (self.args.model / "model.riddle", heads),
            "prior and answers": (self.args.model / "config.json", card.read_bytes() if has_card else None),
            "calibration": (self.args.model / "calibration.json", made),
            "sentences": (VERDICT, verdict.encode() if verdict else None),
        }

    def check(self) -> bool:
        """Whether the files are what the steps have found; what no step has found is told and no difference."""
        same = True
        for name, (path, wanted) in self.written().items():
            if wanted is None:
                print(f"{name}: not fitted in {self.work}, so {path.name} is not compared")
                continue
            is_same = path.exists() and path.read_bytes() == wanted
            same &= is_same
            print(f"{name}: {path} {'is' if is_same else 'IS NOT'} what was fitted")
        return same

    def write(self) -> None:
        for name, (path, wanted) in self.written().items():
            if wanted is not None and path.read_bytes() != wanted:
                path.write_bytes(wanted)
                print(f"{name}: {path} is new")
                if name == "prior and answers":
                    print("what a deadline plans with belongs to the file before: riddle models shard and profile")


def taken(weights: dict) -> float:
    """What the centers of a prior take away."""
    sparse = weights.get("sparse", 0.0) * weights.get("sparse_center", 0.0)
    return weights["scale"] * weights["center"] + weights["keyword"] * weights.get("keyword_center", 0.0) + sparse


def center_of(questions: list, now: tuple[dict, dict], then: tuple[dict, dict]) -> float:
    """The center that leaves the mean score of the best passage where it was."""

    def best(question, weights: dict, trust: dict, center: float) -> float | None:
        import numpy as np

        known = ~np.isnan(question.logits)
        if not known.any():
            return None
        of = {name: it[known] for name, it in question.evidence.items()}
        meaning = math.exp(trust["rate"] * question.distance)
        words = math.exp(-trust["rate"] * question.distance / 2)
        top = question.evidence["cosine"].max()
        total = question.logits[known] + weights["scale"] * (top + meaning * (of["cosine"] - top) - center)
        total = total + weights["keyword"] * (1 + words * (of["keyword"] - 1) - weights["keyword_center"])
        if "sparse" in weights:
            total = total + weights["sparse"] * (of["sparse"] - weights["sparse_center"])
        return float(total.max())

    def mean(weights: dict, trust: dict, center: float) -> float:
        all_of = [best(it, weights, trust, center) for it in questions]
        return sum(it for it in all_of if it is not None) / sum(it is not None for it in all_of)

    if not now[0]["scale"]:
        return now[0]["center"]
    return round((mean(*now, 0.0) - mean(*then, then[0]["center"])) / now[0]["scale"], 3)


def with_constants(source: str, fitted: dict) -> str:
    """`verdict.rs` with these weights and limits."""
    number = lambda it: repr(round(it, 3))
    pair = lambda it: f"({number(it[0])}, {number(it[1])})"
    weights = ", ".join(f"{fitted['weights'][it]:.3f}" for it in FEATURES)
    values = {
        "BIAS: f32": f"{fitted['weights']['bias']:.3f}",
        "WEIGHTS: [f32; 4]": f"[{weights}]",
        "LIMITS: (f32, f32)": pair(fitted["limits"]),
        "EVIDENCE_LIMITS: (f32, f32)": pair(fitted["evidence_limits"]),
    }
    for name, value in values.items():
        line = re.compile(rf"^const {re.escape(name)} = .*;$", re.MULTILINE)
        if len(line.findall(source)) != 1:
            raise Refused(f"{VERDICT} has no constant {name.split(':')[0]}: it was renamed, so say so here, too")
        source = line.sub(lambda _: f"const {name} = {value};", source)
    return source


def read_set(folder: pathlib.Path) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Documents by their ids, and the questions that have a single relevant one."""
    packed = folder / "corpus.jsonl.gz"
    with gzip.open(packed, "rt") if packed.exists() else (folder / "corpus.jsonl").open() as file:
        rows = [json.loads(it) for it in file]
    documents = {it["_id"]: "\n".join(filter(None, (it.get("title"), it["text"]))) for it in rows}
    relevant: dict[str, list[str]] = {}
    for line in (folder / "qrels/test.tsv").read_text().splitlines()[1:]:
        query, document, grade = line.split("\t")
        if int(grade) > 0:
            relevant.setdefault(query, []).append(document)
    questions = [json.loads(it) for it in (folder / "queries.jsonl").read_text().splitlines()]
    single = [(it["text"], relevant[it["_id"]][0]) for it in questions if len(relevant.get(it["_id"], [])) == 1]
    return documents, [it for it in single if it[1] in documents]


def spread(of: list, most: int) -> list:
    """At most so many, evenly spread."""
    step = max(len(of) / most, 1.0)
    return [of[int(place * step)] for place in range(min(most, len(of)))]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="riddle_training.refit", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder for everything that is made")
    parser.add_argument("--suite", type=pathlib.Path, help="folder of the development sets")
    parser.add_argument("--train", type=pathlib.Path, help="folder of the training data, to learn early layers' heads")
    parser.add_argument("--claims", type=pathlib.Path, help="folder of squad-dev")
    parser.add_argument("--answers", type=pathlib.Path, action="append", default=[], help="its answers, as SQuAD's")
    parser.add_argument("--riddle", default=str(ROOT / "target/release/riddle"), help="the riddle program")
    parser.add_argument("--models", type=pathlib.Path, help="folder of the embedder and the sparse encoder")
    parser.add_argument("--model", type=pathlib.Path, default=MODEL, help="folder of the reranker")
    parser.add_argument("--domains", type=pathlib.Path, default=ROOT / "training/domains.json")
    parser.add_argument("--candidates", default="", help="numbers of candidates to calibrate for, as 24,50")
    parser.add_argument("--again", action="append", default=[], help="do this step again, whatever is kept")
    parser.add_argument("--write", action="store_true", help="put what was fitted where it is read")
    parser.add_argument("--check", action="store_true", help="compare what was fitted with the files, and run nothing")
    args = parser.parse_args()
    needs = [name for name in ("suite", "claims", "models", "answers") if not getattr(args, name)]
    if needs and not args.check:
        parser.error("needs " + ", ".join(f"--{it}" for it in needs))
    return args


def main() -> None:
    args = arguments()
    refit = Refit(args)
    try:
        if args.check:
            sys.exit(0 if refit.check() else 1)
        refit.all()
        if args.write:
            refit.write()
        refit.check()
    except Refused as why:
        sys.exit(f"error: {why}")


if __name__ == "__main__":
    main()
