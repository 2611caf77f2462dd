"""Hard negatives of every question by matrix products: the nearest by the bi-encoder, and the best by keywords.

Keywords are the tokenizer's pieces, weighed as BM25 weighs words. That is not Riddle's own index, whose words are
stemmed, but takes two seconds where the index takes an hour.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from .corpus import Corpus
from .packed import Texts

# Candidates of each kind that are kept of a question: the nearest, those behind them, the best by keywords, and others
# of the same document.
NEAREST, NEAR, KEYWORD, ARTICLE = 10, 20, 20, 8

# A passage as near as this to the right one says the same.
SAME = 0.97


class Mined:
    """For every question its candidates `[questions, 58]` (−1: none), and the shares of the best keyword score."""

    def __init__(self, corpus: Corpus, texts: Texts, queries: torch.Tensor, passages: torch.Tensor, vocabulary: int):
        device, count = texts.device, len(corpus.positive)
        width = NEAREST + NEAR + KEYWORD + ARTICLE
        self.places = np.full((count, width), -1, np.int32)
        self.shares = np.zeros((count, width), np.float32)
        self.positive_share = np.zeros(count, np.float32)
        article = articles(corpus)
        for source in range(len(corpus.sources)):
            asked = np.flatnonzero(corpus.query_source == source)
            # A passage that two sources have is counted to the first of them.
            own = np.flatnonzero(corpus.passage_source == source)
            inside = np.union1d(own, corpus.positive[asked])
            there = torch.from_numpy(inside).to(device)
            weights = keyword_weights(corpus, inside, vocabulary, device)
            local = np.full(len(corpus.passage_source), -1, np.int64)
            local[inside] = np.arange(len(inside))
            for begin in range(0, len(asked), 2048):
                some = asked[begin : begin + 2048]
                rows = torch.from_numpy(some).to(device)
                right = torch.from_numpy(local[corpus.positive[some]]).to(device)
                cosines = queries[rows] @ passages[there].T
                words = torch.zeros(len(some), vocabulary, device=device, dtype=weights.dtype)
                ids, who = tokens_at(corpus.query_ids, corpus.query_starts, some)
                words.index_put_(
                    (torch.from_numpy(who).to(device), torch.from_numpy(ids.astype(np.int64)).to(device)),
                    torch.ones(len(ids), device=device, dtype=weights.dtype), accumulate=True,
                )
                scores = (words @ weights).float()
                best = scores.max(1).values.clamp_min(1e-6)
                self.positive_share[some] = (scores.gather(1, right[:, None])[:, 0] / best).cpu().numpy()
                # What says the same as the right passage is no wrong one.
                alike = passages[there][right] @ passages[there].T > SAME
                alike.scatter_(1, right[:, None], True)
                cosines.masked_fill_(alike, -2.0)
                scores.masked_fill_(alike, -1.0)
                near = top(cosines, NEAREST + NEAR, -1.5)
                found = top(scores, KEYWORD, 0.0)
                others = torch.from_numpy(local[article[some]] * (article[some] >= 0) - (article[some] < 0)).to(device)
                others[others.ge(0) & alike.gather(1, others.clamp_min(0))] = -1
                found[(found[:, :, None] == near[:, None, :]).any(2)] = -1
                rest = torch.cat([near, found], 1)
                others[(others[:, :, None] == rest[:, None, :]).any(2)] = -1
                every = torch.cat([rest, others], 1)
                share = scores.gather(1, every.clamp_min(0)).clamp_min(0) / best[:, None]
                self.shares[some] = torch.where(every >= 0, share, 0.0).cpu().numpy()
                every = every.cpu().numpy()
                self.places[some] = np.where(every >= 0, inside[np.maximum(every, 0)], -1)


def top(scores: torch.Tensor, count: int, least: float) -> torch.Tensor:
    values, places = scores.topk(min(count, scores.shape[1]), 1)
    places = torch.where(values > least, places, -1)
    return F.pad(places, (0, count - places.shape[1]), value=-1)


def tokens_at(ids: np.ndarray, starts: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The tokens of some texts one after the other, and whose each is."""
    sizes = starts[places + 1] - starts[places]
    begins = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    who = np.repeat(np.arange(len(places)), sizes)
    return ids[np.repeat(starts[places] - begins, sizes) + np.arange(sizes.sum())], who


def keyword_weights(corpus: Corpus, inside: np.ndarray, vocabulary: int, device) -> torch.Tensor:
    """BM25's weight of each token in each passage, `[vocabulary, passages]`; k1 = 1.2, b = 0.75, as tantivy has them."""
    ids, who = tokens_at(corpus.passage_ids, corpus.passage_starts, inside)
    kind = torch.float16 if device.type == "cuda" else torch.float32
    counts = torch.zeros(vocabulary, len(inside), device=device, dtype=kind)
    place = (torch.from_numpy(ids.astype(np.int64)).to(device), torch.from_numpy(who).to(device))
    counts.index_put_(place, torch.ones(len(ids), device=device, dtype=kind), accumulate=True)
    sizes = torch.from_numpy(corpus.passage_lengths[inside]).to(device).float()
    damp = (1.2 * (0.25 + 0.75 * sizes / sizes.mean().clamp_min(1))).to(kind)
    have = (counts > 0).sum(1).float()
    rare = torch.log(1 + (len(inside) - have + 0.5) / (have + 0.5)).to(kind)
    for begin in range(0, vocabulary, 4096):
        part = counts[begin : begin + 4096]
        part.copy_(rare[begin : begin + 4096, None] * part * 2.2 / (part + damp))
    return counts


def articles(corpus: Corpus) -> np.ndarray:
    """For each question up to 8 other passages of the document that its own is of; −1 where there are fewer."""
    order = np.argsort(corpus.document, kind="stable")
    ends = np.searchsorted(corpus.document[order], np.arange(corpus.document.max() + 2))
    generator = np.random.default_rng(7)
    found = np.full((len(corpus.positive), ARTICLE), -1, np.int64)
    for number, positive in enumerate(corpus.positive):
        document = corpus.document[positive]
        members = order[ends[document] : ends[document + 1]]
        members = members[members != positive]
        if len(members) > ARTICLE:
            members = generator.choice(members, ARTICLE, replace=False)
        found[number, : len(members)] = members
    return found
