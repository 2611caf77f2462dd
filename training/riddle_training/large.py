"""The whole recipe in one run on a GPU: embed, search for hard negatives, train a teacher, and the reranker after it.

`python -m riddle_training.large --config configs/every.json --corpus every.corpus --base MINILM --seconds 480 --out DIR`

Phases share the time that is given (`share`), so the number of steps is what the machine makes of it. The teacher has all
layers of the bi-encoder; the student begins with the teacher's first ones, and follows label, cosines and teacher. What
is fitted is the score plus the evidence that the pipeline adds, as in `train`. `riddle_training export --work DIR --run
student` makes a model of the result.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time

import numpy as np
import torch
from tokenizers import Tokenizer
from torch.nn import functional as F

from .bert import Bert
from .corpus import Corpus
from .elastic import put_in_order
from .mine import ARTICLE, KEYWORD, NEAR, NEAREST, Mined
from .packed import Forward, Texts, embed_all, half

TABLE = "embeddings/word_embeddings/weight"


class Lists(torch.utils.data.IterableDataset):
    """Draws lists without end: of each as many candidates, one or two of them right."""

    def __init__(self, corpus: Corpus, texts: Texts, mined: Mined, config: dict, seed: int):
        self.corpus, self.texts, self.mined, self.config, self.seed = corpus, texts, mined, config, seed
        train = np.flatnonzero(corpus.dev == 0)
        self.members = [train[corpus.query_source[train] == it] for it in range(len(corpus.sources))]
        weights = np.asarray([len(it) ** config["source_power"] for it in self.members], np.float64)
        self.weights = weights / weights.sum()
        kinds = config["negatives"]
        parts = (("dense_top", NEAREST), ("dense", NEAR), ("bm25", KEYWORD), ("article", ARTICLE))
        self.odds = np.log(np.concatenate([np.full(size, kinds[name] / size) for name, size in parts]))

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        # The corpus' tensors stay where they are: a worker only deals with numbers of texts.
        generator = np.random.default_rng([self.seed, worker.id if worker else 0])
        while True:
            yield self.draw(generator)

    def negatives(self, asked: np.ndarray, count: int, generator) -> tuple[np.ndarray, np.ndarray]:
        places = self.mined.places[asked]
        keys = self.odds + generator.gumbel(size=places.shape)
        keys[places < 0] = -np.inf
        chosen = np.argsort(-keys, 1)[:, :count]
        found = np.take_along_axis(places, chosen, 1)
        shares = np.take_along_axis(self.mined.shares[asked], chosen, 1)
        missing = found < 0
        found[missing] = generator.integers(len(self.corpus.passage_source), size=int(missing.sum()))
        shares[missing] = 0
        return found, shares

    def draw(self, generator) -> dict[str, np.ndarray]:
        config, corpus = self.config, self.corpus
        lists, width = config["lists"], config["candidates"]
        sources = generator.choice(len(self.members), lists, p=self.weights)
        one = np.asarray([generator.choice(self.members[it]) for it in sources])
        other = np.asarray([generator.choice(self.members[it]) for it in sources])
        joined = generator.random(lists) < config["compound_share"]
        right, second = corpus.positive[one].astype(np.int64), corpus.positive[other].astype(np.int64)
        joined &= right != second
        few = (width - 2) // 2
        wrong, shares = self.negatives(one, width - 1, generator)
        others, other_shares = self.negatives(other, few, generator)
        candidates = np.concatenate([right[:, None], wrong], 1)
        keyword = np.concatenate([self.mined.positive_share[one][:, None], shares], 1)
        # Two questions in one: each right passage answers one half, and keywords find it by one half.
        candidates[joined, 1], keyword[joined, 1] = second[joined], self.mined.positive_share[other][joined]
        candidates[joined, 2 : 2 + few], keyword[joined, 2 : 2 + few] = others[joined], other_shares[joined]
        keyword[joined] /= 2
        label = candidates == right[:, None]
        label |= joined[:, None] & (candidates == second[:, None])
        stripped = (generator.random(lists) < config["stripped_share"]) & ~joined
        titled = generator.random(lists) < config["title_share"]
        query = one + stripped * self.texts.query_count
        seconds = np.where(joined, other, -1)
        pieces = self.texts.pairs(*(np.repeat(it, width) for it in (query, seconds)), candidates.reshape(-1), np.repeat(titled, width))
        return pieces | {
            "query": query, "second": seconds, "candidates": candidates,
            "keyword": keyword.astype(np.float32), "label": label.astype(np.float32),
        }


def rounded(weight: torch.Tensor) -> torch.Tensor:
    """What is left of a matrix in int8 whose four neighbours may add up to 128 (decision 102), one scale a row. The
    program searches for a scale and takes away what is too heavy; this is about as coarse, without the search."""
    quads = F.pad(weight, (0, -weight.shape[1] % 4)).view(weight.shape[0], -1, 4)
    heavy = torch.maximum(quads.clamp_min(0).sum(2).amax(1), (-quads).clamp_min(0).sum(2).amax(1)) / 128
    scale = (torch.maximum(weight.abs().amax(1) / 127, heavy) * 0.8).clamp_min(1e-9)[:, None]
    return (weight / scale).round() * scale


class Phase:
    """One model in training: master weights in f32, what computes in bf16."""

    def __init__(self, name: str, model: Bert, config: dict, data, device: torch.device, teacher=None):
        self.name, self.model, self.device, self.teacher = name, model.to(device), device, teacher
        self.config, self.own = config, config[name]
        self.forward = Forward(model.config)
        self.layers = sorted(int(it) for it in self.own["layer_weights"])
        self.data = data
        self.kind = torch.bfloat16 if device.type == "cuda" else torch.float32
        self.names = [it for it in model.weights if it != TABLE]
        self.masters = [model.weights[it] for it in self.names]
        self.work = {name: it.detach().to(self.kind).clone().requires_grad_(name != TABLE) for name, it in model.weights.items()}
        heads = [it for name, it in zip(self.names, self.masters) if name.startswith(("pooler", "classifier"))]
        known = {id(it) for it in heads}
        body = [it for it in self.masters if id(it) not in known]
        groups = [{"params": body, "scale": 1.0}, {"params": heads, "scale": config["head_rate"]}]
        self.optimizer = torch.optim.AdamW(
            groups, weight_decay=config["weight_decay"], betas=(0.9, 0.98), eps=1e-6, fused=device.type == "cuda"
        )
        self.step = 0

    @torch.no_grad()
    def spread(self) -> None:
        for name, master in zip(self.names, self.masters):
            matrix = self.own.get("int8_weights") and name.endswith("weight") and master.dim() == 2 and master.shape[0] > 1
            self.work[name].copy_(rounded(master) if matrix else master)

    def rate(self, done: float) -> float:
        """By the share of the time that is over: up, level, down as one minus a square root."""
        if done < self.config["warmup"]:
            return max(done, 1e-3) / self.config["warmup"]
        left = (1 - done) / self.config["decay"]
        return 1.0 if left >= 1 else max(1 - (1 - left) ** 0.5, 0.0)

    def known(self, drawn: dict) -> torch.Tensor:
        """Evidence on the scale of the scores, `[lists, candidates]`."""
        query, second, candidates = (torch.from_numpy(drawn[it]).to(self.device, non_blocking=True) for it in ("query", "second", "candidates"))
        queries, passages = self.data["query_vectors"], self.data["passage_vectors"]
        vectors = queries[query].float() + torch.where(second[:, None] >= 0, queries[second.clamp_min(0)].float(), 0.0)
        cosine = torch.einsum("lcw,lw->lc", passages[candidates].float(), F.normalize(vectors, dim=1))
        keyword = torch.from_numpy(drawn["keyword"]).to(self.device, non_blocking=True)
        prior = self.config["prior"]
        return prior["cosine"] * (cosine - cosine.mean(1, keepdim=True)) + prior["keyword"] * keyword

    def target(self, label, known, taught) -> torch.Tensor:
        config = self.config
        sharp = torch.softmax(known * (config["teacher_scale"] / config["prior"]["cosine"]), 1)
        target = label / label.sum(1, keepdim=True)
        target = target + config["teacher_share"] * (sharp - target)
        if taught is not None:
            target = target + self.own["model_share"] * (torch.softmax(taught + known, 1) - target)
        return target

    def loss(self, scores: dict[int, torch.Tensor], label, known, target, whole=None) -> torch.Tensor:
        config, last, total = self.config, max(scores), 0.0
        scores = {layer: it.view_as(label) for layer, it in scores.items()}
        own = torch.softmax((scores[last].detach() if whole is None else whole) + known, 1)
        for layer, logits in scores.items():
            mixed = target
            if layer != last or whole is not None:
                mixed = target + self.own["self_distillation"] * (own - target)
            entropy = -(mixed * torch.log_softmax(logits + known, 1)).sum(1)
            entropy = entropy - config["standalone_weight"] * (target * torch.log_softmax(logits, 1)).sum(1)
            binary = F.binary_cross_entropy_with_logits(logits, label, reduction="none").mean(1)
            total = total + self.own["layer_weights"][str(layer)] * (entropy + config["calibration_weight"] * binary).mean()
        return total

    def compute(self, drawn: dict) -> torch.Tensor:
        batch = self.data["texts"].batch(drawn)
        label, known = torch.from_numpy(drawn["label"]).to(self.device, non_blocking=True), self.known(drawn)
        taught = None
        if self.teacher is not None:
            forward, weights = self.teacher
            with torch.no_grad():
                taught = forward.scores(weights, batch, [forward.depth])[forward.depth].view_as(label)
        target = self.target(label, known, taught)
        scores = self.forward.scores(self.work, batch, self.layers)
        whole = scores[self.layers[-1]].detach().view_as(label)
        loss = self.loss(scores, label, known, target)
        loss.backward()
        widths = self.own.get("slices", [])
        if widths:
            narrow = self.forward.scores(self.work, batch, self.layers, widths[self.step % len(widths)])
            (self.own["slices_weight"] * self.loss(narrow, label, known, target, whole)).backward()
        return loss.detach()

    def run_step(self, drawn: dict, done: float) -> torch.Tensor:
        self.spread()
        loss = self.compute(drawn)
        for name, master in zip(self.names, self.masters):
            master.grad = self.work[name].grad.to(torch.float32)
            self.work[name].grad = None
        torch.nn.utils.clip_grad_norm_(self.masters, 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = self.own["learning_rate"] * group["scale"] * self.rate(done)
        self.optimizer.step()
        self.step += 1
        return loss

    def order(self, lists, steps: int) -> None:
        """Heads and neurons of every layer, the worthiest first: see `elastic`."""
        self.spread()
        forward = self.forward
        sums = [(torch.zeros(forward.heads), torch.zeros(forward.inner)) for _ in range(forward.depth)]
        for _ in range(steps):
            drawn = next(lists)
            gates = [
                tuple(torch.ones(it, device=self.device, dtype=self.kind, requires_grad=True) for it in (forward.heads, forward.inner))
                for _ in sums
            ]
            label, known = torch.from_numpy(drawn["label"]).to(self.device), self.known(drawn)
            scores = forward.scores(self.work, self.data["texts"].batch(drawn), self.layers, gates=gates)
            self.loss(scores, label, known, self.target(label, known, None)).backward()
            for own, pair in zip(gates, sums):
                for gate, to in zip(own, pair):
                    to += gate.grad.abs().float().cpu()
        for it in self.work.values():
            it.grad = None
        self.model.cpu()
        put_in_order(self.model, sums)
        self.model.to(self.device)
        self.masters = [self.model.weights[it] for it in self.names]

    @torch.no_grad()
    def development(self) -> dict:
        """MRR@10 of the right passage among 24 that search proposes, by each layer and width, alone and with evidence."""
        corpus, mined, texts = (self.data[it] for it in ("corpus", "mined", "texts"))
        asked = np.flatnonzero(corpus.dev == 1)[:1536]
        self.spread()
        totals: dict[str, list[float]] = {}
        for begin in range(0, len(asked), 64):
            some = asked[begin : begin + 64]
            turns = [it for pair in zip(range(30, 50), range(20)) for it in pair]
            places = mined.places[some][:, turns][:, :23]
            shares = mined.shares[some][:, turns][:, :23]
            there = np.concatenate([np.ones((len(some), 1), bool), places >= 0], 1)
            candidates = np.concatenate([corpus.positive[some].astype(np.int64)[:, None], np.maximum(places, 0)], 1)
            keyword = np.concatenate([mined.positive_share[some][:, None], shares], 1)
            width = candidates.shape[1]
            none = np.full(len(some), -1)
            drawn = texts.pairs(np.repeat(some, width), np.repeat(none, width), candidates.reshape(-1), np.repeat(some % 2 == 0, width))
            drawn |= {"query": some, "second": none, "candidates": candidates, "keyword": keyword.astype(np.float32)}
            known, batch = self.known(drawn), texts.batch(drawn)
            columns = {"evidence": known}
            for slices in (None, *self.own.get("slices", [])):
                for layer, it in self.forward.scores(self.work, batch, self.layers, slices).items():
                    name = f"{layer}" if slices is None else f"{layer} x {slices}"
                    columns |= {name: it.view_as(known), f"{name}+evidence": it.view_as(known) + known}
            inside = torch.from_numpy(there).to(self.device)
            for name, it in columns.items():
                it = it.masked_fill(~inside, -torch.inf)
                rank = 1 + (it[:, 1:] >= it[:, :1]).sum(1)
                totals.setdefault(name, []).extend(torch.where(rank <= 10, 1 / rank, 0.0).tolist())
        return {name: round(float(np.mean(it)), 4) for name, it in totals.items()}

    def run(self, lists, seconds: float, log) -> None:
        started, losses, shown = time.monotonic(), [], 0
        while True:
            done = (time.monotonic() - started) / seconds
            if done >= 1:
                break
            losses.append(self.run_step(next(lists), done))
            if self.step % 20 == 0:
                # Waits for the device, so that time is what has been computed.
                float(losses[-1])
            if done >= (shown + 1) / 4:
                shown += 1
                self.tell(losses, started, log)
                losses = losses[-1:]
        self.tell(losses, started, log)

    def tell(self, losses, started, log) -> None:
        line = {
            "phase": self.name, "step": self.step, "seconds": round(time.monotonic() - started, 1),
            "loss": round(float(torch.stack(losses).mean()), 4), "development": self.development(),
        }
        print(json.dumps(line), flush=True)
        log.write(json.dumps(line) + "\n")

    def save(self, out: pathlib.Path) -> None:
        """As `train` does, so that `export` makes a model of it."""
        folder = out / self.name
        folder.mkdir(exist_ok=True)
        weights = {name: it.cpu() for name, it in self.model.state_dict().items()}
        torch.save({"step": self.step, "config": self.model.config, "model": weights}, folder / "checkpoint.pt")


def first_layers(model: Bert, layers: int) -> Bert:
    config = dict(model.config, num_hidden_layers=layers)
    cut = Bert(config)
    for name, weight in cut.weights.items():
        weight.data.copy_(model.weights[name].data)
    return cut


def main() -> None:
    parser = argparse.ArgumentParser(prog="riddle_training.large", description=__doc__)
    parser.add_argument("--config", type=pathlib.Path, required=True)
    parser.add_argument("--corpus", type=pathlib.Path, required=True)
    parser.add_argument("--base", type=pathlib.Path, required=True, help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--start", type=pathlib.Path, help="folder of a finished model to begin with, instead of the bi-encoder")
    parser.add_argument("--seconds", type=float, required=True, help="of training, both phases together")
    parser.add_argument("--mined", type=pathlib.Path, help="keeps what was embedded and searched for the next run")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    config = json.loads(args.config.read_text())
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s {what}", flush=True)

    started = None if args.start is None else Bert.from_directory(args.start)
    deepest = config["teacher"]["layers"]
    if started is not None and started.depth < deepest:
        raise SystemExit(f"{args.start} has {started.depth} layers: give the teacher so many, and layer_weights for them, not {deepest}")
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(config["seed"])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    corpus = Corpus.read(args.corpus)
    tokenizer = Tokenizer.from_file(str(args.base / "tokenizer.json"))
    texts = Texts(corpus, tokenizer, device)
    base = Bert.from_directory(args.base, config["seed"])
    say("corpus read")
    kept = None if args.mined is None or not args.mined.exists() else torch.load(args.mined, weights_only=False)
    if kept is None:
        forward, weights = Forward(base.config), half(base, device)
        queries = embed_all(forward, weights, texts, texts.query_starts, texts.query_lengths)
        passages = embed_all(forward, weights, texts, texts.passage_starts, texts.passage_lengths)
        say("embedded")
        mined = Mined(corpus, texts, queries[: texts.query_count], passages, base.config["vocab_size"])
        say("searched")
        kept = {"queries": queries, "passages": passages, "mined": mined}
        if args.mined is not None:
            torch.save(kept, args.mined)
    mined = kept["mined"]
    kind = torch.float16 if device.type == "cuda" else torch.float32
    data = {
        "corpus": corpus, "texts": texts, "mined": mined,
        "query_vectors": kept["queries"].to(device, kind), "passage_vectors": kept["passages"].to(device, kind),
    }
    # Workers copy no tensor of the device.
    plain = Texts.__new__(Texts)
    plain.__dict__.update({name: it for name, it in texts.__dict__.items() if name not in ("ids", "device")})

    def lists(seed: int):
        drawn = Lists(corpus, plain, mined, config, seed)
        if args.workers == 0:
            return iter(drawn)
        loader = torch.utils.data.DataLoader(
            drawn, batch_size=None, num_workers=args.workers, prefetch_factor=8, collate_fn=lambda it: it, multiprocessing_context="fork"
        )
        return iter(loader)

    with open(args.out / "log.jsonl", "a") as log:
        teacher = Phase("teacher", first_layers(base if started is None else started, deepest), config, data, device)
        say("teacher begins")
        teacher.run(lists(config["seed"]), args.seconds * config["teacher"]["share"], log)
        teacher.save(args.out)
        teacher.spread()
        weights = {name: it.detach() for name, it in teacher.work.items()}
        student = Phase("student", first_layers(teacher.model.cpu(), config["student"]["layers"]), config, data, device, (teacher.forward, weights))
        drawn = lists(config["seed"] + 1)
        student.order(drawn, 8)
        say("student begins")
        student.run(drawn, args.seconds * config["student"]["share"], log)
        student.save(args.out)
        say("done")


if __name__ == "__main__":
    main()
