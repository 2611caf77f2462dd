"""Listwise training with the head applied to every layer from the second on.

The target of a question's list is the label, smoothed by a share of softmax(teacher_scale * cosine), the bi-encoder's
opinion: among the negatives are passages that answer as well. What is fitted to it is the score plus prior_scale *
cosine, as the pipeline adds the two (a search has the cosine anyway): the model learns what the bi-encoder does not
know, instead of the bi-encoder, and begins with its order. A share of the loss, standalone_weight, asks the same of the
score alone, for those who have no cosine.
Lower layers aim at the same target mixed with the last layer's own distribution, so that provisional scores mean
something early and can be pruned on.
"""

from __future__ import annotations

import concurrent.futures
import json
import pathlib
import queue
import random
import time

import numpy as np
import torch
from torch.nn import functional as F

from .bert import Bert, Ragged
from .elastic import put_in_order, worth


TOKEN_TABLE = "embeddings/word_embeddings/weight"


class Tokens:
    def __init__(self, path: pathlib.Path):
        file = np.load(path)
        self.ids, self.offsets = file["ids"], file["offsets"]

    def __getitem__(self, place: int) -> np.ndarray:
        return self.ids[self.offsets[place] : self.offsets[place + 1]]


class Lists:
    """Draws candidate lists from what `prepare` wrote."""

    def __init__(self, prepared: pathlib.Path, config: dict):
        self.config = config
        facts = json.loads((prepared / "prepared.json").read_text())
        self.cls, self.sep, self.joint = (facts["tokens"][it] for it in ("cls", "sep", "and"))
        self.rows = [json.loads(it) for it in open(prepared / "queries.jsonl")]
        self.query_tokens = Tokens(prepared / "query_tokens.npz")
        self.passage_tokens = Tokens(prepared / "passage_tokens.npz")
        self.title_tokens = Tokens(prepared / "title_tokens.npz")
        vectors = np.load(prepared / "vectors.npz")
        self.query_vectors, self.passage_vectors = vectors["queries"], vectors["passages"]
        held_out = set(config["held_out"])
        self.train = [n for n, it in enumerate(self.rows) if not it["dev"]]
        self.early = [n for n in self.train if self.rows[n]["ds"] not in held_out]
        self.by_source: dict[str, list[int]] = {}
        for number in self.train:
            self.by_source.setdefault(self.rows[number]["ds"], []).append(number)

    def batch(self, step: int) -> list[dict]:
        """The lists of one step: a function of the seed and the step, so that a run can be resumed."""
        pool = self.early if step < self.config["held_out_until"] else self.train
        per_step, count = self.config["queries_per_step"], len(pool)
        lists = []
        for place in range(step * per_step, (step + 1) * per_step):
            epoch, inside = divmod(place, count)
            order = self._order(epoch, count)
            lists.append(self.draw(pool[order[inside]], random.Random(f"{self.config['seed']} {place}")))
        return lists

    def _order(self, epoch: int, count: int) -> np.ndarray:
        if getattr(self, "_key", None) != (epoch, count):
            self._key = (epoch, count)
            self._permutation = np.random.default_rng([self.config["seed"], epoch]).permutation(count)
        return self._permutation

    def negatives(self, row: dict, rng: random.Random, wanted: int) -> list[int]:
        kinds = self.config["negatives"]
        pools = [
            (row["dense"][:10], kinds["dense_top"]),
            (row["dense"][10:], kinds["dense"]),
            (row["bm25"][:20], kinds["bm25"]),
            (row["article"], kinds["article"]),
        ]
        chosen: list[int] = []
        for pool, count in pools:
            pool = [it for it in pool if it not in chosen]
            chosen += rng.sample(pool, min(count, len(pool)))
        while len(chosen) < wanted:
            other = rng.randrange(len(self.passage_vectors))
            if other != row["positive"] and other not in chosen:
                chosen.append(other)
        return rng.sample(chosen, wanted)

    def draw(self, number: int, rng: random.Random) -> dict:
        row = self.rows[number]
        query, vector, positives = self.query_tokens[number], self.query_vectors[number], [row["positive"]]
        wanted = self.config["candidates_per_query"]
        if rng.random() < self.config["compound_share"]:
            # Two questions in one, each passage answering one half: partial matches beat none.
            second = rng.choice(self.by_source[row["ds"]])
            other = self.rows[second]
            if other["positive"] != row["positive"]:
                joint = [] if self.joint is None else [self.joint]
                query = np.concatenate([query[:-1], joint, self.query_tokens[second]])[: self.limit() // 2]
                vector = vector + self.query_vectors[second]
                vector = vector / np.linalg.norm(vector)
                row = both(row, other)
                positives.append(other["positive"])
                half = (wanted - 2) // 2
                rest = self.negatives(self.rows[number], rng, wanted - 2 - half) + self.negatives(other, rng, half)
                rest = [it for it in dict.fromkeys(rest) if it not in positives]
                return self.pack(query, vector, row, positives, rest, rng)
        return self.pack(query, vector, row, positives, self.negatives(row, rng, wanted - 1), rng)

    def limit(self) -> int:
        return self.config["max_tokens"]

    def pack(self, query, vector, row, positives, negatives, rng) -> dict:
        candidates = positives + negatives
        titled = rng.random() < self.config["title_share"]
        pairs = [self.pair(query, it, titled) for it in candidates]
        return {
            "pairs": pairs,
            "cosine": self.passage_vectors[candidates] @ vector,
            "keyword": keyword_shares(row, candidates),
            "label": np.asarray([1.0] * len(positives) + [0.0] * len(negatives), np.float32),
        }

    def pair(self, query: np.ndarray, passage: int, titled: bool) -> tuple[np.ndarray, np.ndarray]:
        """`[CLS] query [SEP] passage [SEP]`, the passage cut so that all fits, and its segments."""
        text = self.passage_tokens[passage]
        if titled:
            text = np.concatenate([self.title_tokens[passage], text])
        text = text[: self.limit() - len(query) - 3]
        ids = np.concatenate([[self.cls], query, [self.sep], text, [self.sep]])
        segments = np.zeros(len(ids), np.int64)
        segments[len(query) + 2 :] = 1
        return ids, segments


def keyword_shares(row: dict, candidates: list[int]) -> np.ndarray:
    """BM25 scores as shares of the question's best. What lies behind the end of a full list counts as its last hit, as the
    pipeline counts it; nothing, where `prepare` kept no scores."""
    known = row.get("keyword", {})
    last = min(known.values(), default=0.0) if row.get("full") else 0.0
    return np.asarray([known.get(str(it), last) for it in candidates], np.float32)


def both(one: dict, other: dict) -> dict:
    """What keywords say of two questions asked in one: half of each."""
    shares = [row.get("keyword", {}) for row in (one, other)]
    known = {it: sum(share.get(it, 0.0) for share in shares) / 2 for share in shares for it in share}
    return {"keyword": known, "full": False}


def evidence(item: dict, config: dict) -> np.ndarray:
    """What is known before the passages are read, on the scale of the scores."""
    keyword = config.get("keyword_scale", 0.0) * np.asarray(item["keyword"], np.float32)
    return config["prior_scale"] * np.asarray(item["cosine"], np.float32) + keyword


def list_loss(
    scores: dict[int, torch.Tensor], item: dict, config: dict, whole: torch.Tensor | None = None, teacher=None
) -> tuple[torch.Tensor, dict]:
    """The loss of one question's list, and the cross-entropy of every layer for the log. `whole` are the last scores of
    the model with all its slices, if these are of fewer; `teacher` those of a model that is to be followed."""
    device = next(iter(scores.values())).device
    label = torch.from_numpy(item["label"]).to(device)
    known = torch.from_numpy(evidence(item, config)).to(device)
    cosines = torch.softmax(known * (config["teacher_scale"] / config["prior_scale"]), 0)
    target = label / label.sum() + config["teacher_share"] * (cosines - label / label.sum())
    last, prior = max(scores), known
    if teacher is not None:
        target = target + config["teacher_model_share"] * (torch.softmax(teacher.float() + prior, 0) - target)
    own = torch.softmax((scores[last] if whole is None else whole).detach().float() + prior, 0)
    loss, entropies = torch.zeros((), device=device), {}
    for layer, logits in scores.items():
        logits = logits.float()
        mixed = target
        if layer != last or whole is not None:
            mixed = target + config["self_distillation"] * (own - target)
        entropy = -(mixed * torch.log_softmax(logits + prior, 0)).sum()
        entropy = entropy - config["standalone_weight"] * (target * torch.log_softmax(logits, 0)).sum()
        binary = F.binary_cross_entropy_with_logits(logits, label)
        loss = loss + config["layer_weights"][str(layer)] * (entropy + config["calibration_weight"] * binary)
        entropies[layer] = -(target * torch.log_softmax(logits + prior, 0)).sum().item()
    return loss, entropies


def as_int8(weight: torch.Tensor) -> torch.Tensor:
    """What is left of a matrix when each row is kept in int8 with one scale."""
    scale = weight.abs().amax(1, keepdim=True).clamp_min(1e-12) / 127
    return (weight / scale).round() * scale


class Trainer:
    """Master weights in f32, replicas in bf16 (one per core, or one on the GPU), AdamW."""

    def __init__(self, model: Bert, lists: Lists, config: dict, device: torch.device, workers: int):
        self.model, self.lists, self.config, self.device = model.to(device), lists, config, device
        self.layers = sorted(int(it) for it in config["layer_weights"])
        if self.layers[-1] != model.depth:
            raise SystemExit(f"layer_weights must end with the last layer, {model.depth}")
        # The token table stays as the bi-encoder has it: most of its rows are never seen in training.
        self.trained = [k for k in model.weights if k != TOKEN_TABLE]
        head = [k for k in self.trained if k.startswith(("pooler", "classifier"))]
        body = [k for k in self.trained if k not in head]
        groups = [
            {"params": [model.weights[k] for k in body], "scale": 1.0},
            {"params": [model.weights[k] for k in head], "scale": config["head_learning_rate"] / config["learning_rate"]},
        ]
        self.optimizer = torch.optim.AdamW(groups, weight_decay=config["weight_decay"], betas=(0.9, 0.98), eps=1e-6)
        self.replicas: queue.Queue[Bert] = queue.Queue()
        self.all_replicas = []
        for _ in range(workers):
            replica = Bert(model.config).to(device, torch.bfloat16)
            replica.weights[TOKEN_TABLE].requires_grad_(False)
            self.all_replicas.append(replica)
            self.replicas.put(replica)
        self.pool = concurrent.futures.ThreadPoolExecutor(workers)
        # Only read, so one is enough for all workers.
        self.teacher = None
        if config.get("teacher_model_share"):
            self.teacher = Bert(model.config).to(device, torch.bfloat16)
            self.teacher.load_state_dict(model.state_dict())
        self.step = 0
        self.spread(table=True)

    @torch.no_grad()
    def spread(self, table: bool = False) -> None:
        """Gives the replicas the master weights, the token table only if asked, as it does not change. With `int8_weights` every
        matrix is given as int8 leaves it, also the few that ship as f16: the gradients of the rounded weights then move the
        master's (a straight-through estimator)."""
        for key, weight in self.model.weights.items():
            if key == TOKEN_TABLE and not table:
                continue
            if self.config.get("int8_weights", False) and key.endswith("weight") and weight.dim() == 2 and weight.shape[0] > 1:
                weight = as_int8(weight)
            for replica in self.all_replicas:
                replica.weights[key].copy_(weight)

    def learning_rate(self, step: int) -> float:
        """Warm-up, constant, then down to nothing as one minus the square root of the share of the decay."""
        config = self.config
        if step < config["warmup_steps"]:
            return (step + 1) / config["warmup_steps"]
        left = config["steps"] - step
        return 1.0 if left >= config["decay_steps"] else 1 - (1 - left / config["decay_steps"]) ** 0.5

    def work(self, items: list[dict]) -> tuple[dict, int]:
        """Gradients of some lists, added to those of the replica that computes them."""
        torch.set_num_threads(1)
        replica = self.replicas.get()
        try:
            pairs = [pair for item in items for pair in item["pairs"]]
            batch = Ragged([it[0] for it in pairs], [it[1] for it in pairs]).to(self.device)
            scores = replica(batch, self.layers)
            taught = None
            if self.teacher is not None:
                with torch.no_grad():
                    taught = self.teacher(batch, self.layers[-1:])[self.layers[-1]]
            whole = scores[self.layers[-1]].detach()
            total, sums = self.loss(scores, items, teacher=taught)
            total.backward()
            widths = self.config.get("slices", [])
            if widths:
                # What the whole model says of a list is the narrower one's target.
                slices = widths[self.step % len(widths)]
                loss, narrow = self.loss(replica(batch, self.layers, slices), items, whole, taught)
                (self.config["slices_weight"] * loss).backward()
                sums |= {f"{k} x {slices}": v for k, v in narrow.items()}
            return sums, len(batch.ids)
        finally:
            self.replicas.put(replica)

    def loss(self, scores: dict, items: list[dict], whole=None, teacher=None) -> tuple[torch.Tensor, dict]:
        """The sum over lists, and of each layer the cross-entropy."""
        total, sums, start = 0.0, dict.fromkeys(self.layers, 0.0), 0
        for item in items:
            own = slice(start, start + len(item["pairs"]))
            part = lambda it: None if it is None else it[own]
            of_layers = {k: v[own] for k, v in scores.items()}
            loss, entropies = list_loss(of_layers, item, self.config, part(whole), part(teacher))
            total = total + loss / self.config["queries_per_step"]
            sums = {k: sums[k] + v for k, v in entropies.items()}
            start = own.stop
        return total, sums

    def run_step(self) -> dict:
        started = time.monotonic()
        lists = self.lists.batch(self.step)
        # The longest first, so that the workers end together.
        lists.sort(key=lambda it: -sum(len(pair[0]) for pair in it["pairs"]))
        parts = [[it] for it in lists] if self.device.type == "cpu" else [lists]
        results = list(self.pool.map(self.work, parts))
        for key in self.trained:
            gradients = [it.weights[key].grad for it in self.all_replicas if it.weights[key].grad is not None]
            self.model.weights[key].grad = torch.stack([it.float() for it in gradients]).sum(0)
        for replica in self.all_replicas:
            replica.zero_grad(set_to_none=True)
        norm = torch.nn.utils.clip_grad_norm_([self.model.weights[k] for k in self.trained], 1.0)
        rate = self.config["learning_rate"] * self.learning_rate(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["scale"]
        self.optimizer.step()
        self.spread()
        self.step += 1
        tokens = sum(it[1] for it in results)
        layers = {k: round(sum(it[0][k] for it in results) / len(lists), 4) for k in results[0][0]}
        return {
            "step": self.step, "rate": rate, "norm": round(float(norm), 3), "cross_entropy": layers,
            "tokens_per_second": round(tokens / (time.monotonic() - started)),
        }

    def save(self, path: pathlib.Path) -> None:
        part = path.with_suffix(".part")
        state = {
            "step": self.step, "config": self.model.config,
            "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
        }
        torch.save(state, part)
        part.replace(path)

    def load(self, path: pathlib.Path) -> None:
        state = torch.load(path, map_location=self.device, weights_only=True)
        scales = [group["scale"] for group in self.optimizer.param_groups]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        for group, scale in zip(self.optimizer.param_groups, scales):
            group["scale"] = scale
        self.step = state["step"]
        self.spread(table=True)


def found_first(row: dict, count: int) -> list[int]:
    """Passages that a search proposes: the first of either leg in turn, if keywords have scores, else the nearest."""
    if "keyword" not in row:
        return row["dense"][:count]
    turns = [it for pair in zip(row["bm25"], row["dense"]) for it in pair] + row["dense"]
    return list(dict.fromkeys(turns))[:count]


@torch.no_grad()
def development(trainer: Trainer) -> dict:
    """MRR@10 over the positive and its nearest passages, by cosine and after every layer, without the cosine and with it.

    `trained` asks questions of articles that were set aside; the others are of sources that are not trained on at all
    before the step `held_out_until`, and of articles that were set aside after it.
    """
    lists, config = trainer.lists, trainer.config
    groups: dict[str, list[int]] = {}
    for number, row in enumerate(lists.rows):
        if row["ds"] in config["held_out"] and (row["dev"] or trainer.step <= config["held_out_until"]):
            groups.setdefault(row["ds"], []).append(number)
        elif row["dev"] and row["ds"] not in config["held_out"]:
            groups.setdefault("trained", []).append(number)
    report = {}
    for name, members in groups.items():
        members = random.Random(config["seed"]).sample(members, min(config["dev_queries"], len(members)))

        def ask(number: int) -> dict:
            torch.set_num_threads(1)
            row = lists.rows[number]
            candidates = [row["positive"], *found_first(row, config["dev_candidates"] - 1)]
            titled = number % 2 == 0
            pairs = [lists.pair(lists.query_tokens[number], it, titled) for it in candidates]
            batch = Ragged([it[0] for it in pairs], [it[1] for it in pairs]).to(trainer.device)
            replica = trainer.replicas.get()
            try:
                with torch.no_grad():
                    scores = {str(k): v for k, v in replica(batch, trainer.layers).items()}
                    for slices in config.get("slices", []):
                        scores |= {f"{k} x {slices}": v for k, v in replica(batch, trainer.layers, slices).items()}
            finally:
                trainer.replicas.put(replica)
            by = {k: v.float().cpu().numpy() for k, v in scores.items()}
            cosine = lists.passage_vectors[candidates] @ lists.query_vectors[number]
            known = evidence({"cosine": cosine, "keyword": keyword_shares(row, candidates)}, config)
            by |= {f"{k}+evidence": v + known for k, v in by.items()}
            by |= {"cosine": cosine, "evidence": known}
            ranks = {k: 1 + int((v[1:] >= v[0]).sum()) for k, v in by.items()}
            return {k: 1 / rank if rank <= 10 else 0.0 for k, rank in ranks.items()}

        results = list(trainer.pool.map(ask, members))
        report[name] = {k: round(sum(it[k] for it in results) / len(results), 4) for k in results[0]}
    return report


def beginning(base: pathlib.Path, start: pathlib.Path | None, config: dict) -> Bert:
    """The encoder `base` with a head drawn at random, or a finished model `start` with the token table of `base`; of either the first
    `layers` of the configuration."""
    layers = config.get("layers")
    model = Bert.from_directory(base, config["seed"], layers)
    if start is not None:
        table = model.weights[TOKEN_TABLE].data
        model = Bert.from_directory(start, layers=layers)
        model.weights[TOKEN_TABLE].data.copy_(table)
    return model


def train(
    prepared: pathlib.Path, base: pathlib.Path, config: dict, out: pathlib.Path, start: pathlib.Path | None = None
) -> Bert:
    """Trains, or goes on where `out/checkpoint.pt` is, and writes a line per step to `out/log.jsonl`."""
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(config["seed"])
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if on_gpu else "cpu")
    # One thread per replica: on a busy machine small parallel operations would wait for each other.
    workers = 1 if on_gpu else config.get("workers", 2)
    torch.set_num_threads(1)
    lists = Lists(prepared, config)
    checkpoint = out / "checkpoint.pt"
    model = beginning(base, start, config)
    if config.get("slices") and not checkpoint.exists():
        looked_at = [it for step in range(config["ordering_steps"]) for it in lists.batch(step)]
        layers = sorted(int(it) for it in config["layer_weights"])
        put_in_order(model, worth(model, looked_at, layers, lambda scores, item: list_loss(scores, item, config)[0]))
    trainer = Trainer(model, lists, config, device, workers)
    if checkpoint.exists():
        trainer.load(checkpoint)
    print(f"{len(lists.train)} questions to train on, from step {trainer.step} to {config['steps']}", flush=True)
    with open(out / "log.jsonl", "a") as log:
        while trainer.step < config["steps"]:
            line = trainer.run_step()
            if trainer.step % config["dev_every"] == 0 or trainer.step == config["steps"]:
                line["development"] = development(trainer)
            log.write(json.dumps(line) + "\n")
            log.flush()
            if trainer.step % config["save_every"] == 0 or trainer.step == config["steps"]:
                trainer.save(checkpoint)
    return trainer.model
