"""Pairs as one row of tokens on a GPU, and a BERT's forward over them. Nothing is padded.

Parameter names and results are those of `bert`, which is for processors; here attention takes rows of unequal length
as they are.
"""

from __future__ import annotations

import numpy as np
import torch
from tokenizers import Tokenizer
from torch.nn import functional as F

from .bert import Bert
from .corpus import Corpus

try:
    from torch.nn.attention.varlen import varlen_attn
except ImportError:
    varlen_attn = None

# Words without which a question is what people type into a search field.
STOP = """a about an and any are as at be been but by can could did do does for from give had has have how i if in into is
it its me my of on or our please should so tell than that the their them then there these they this those to up us was we
were what when where which who whom whose why will with would you your ? . , ! '""".split()


class Batch:
    """Pairs as one row of tokens, on the device. Nothing is padded."""

    def __init__(self, ids, segments, positions, starts, lengths):
        self.ids, self.segments, self.positions = ids, segments, positions
        self.first = starts
        self.longest = int(lengths.max())
        ends = np.concatenate([[0], np.cumsum(lengths)])
        self.bounds = torch.from_numpy(ends.astype(np.int32)).to(ids.device, non_blocking=True)
        self.each = torch.arange(len(lengths) + 1, dtype=torch.int32, device=ids.device)
        self.lengths = lengths


class Texts:
    """The corpus' tokens on the device, and how pairs are put together of them."""

    def __init__(self, corpus: Corpus, tokenizer: Tokenizer, device: torch.device):
        stop = {tokenizer.token_to_id(it) for it in STOP} - {None}
        self.cls, self.sep, self.joint = (tokenizer.token_to_id(it) for it in ("[CLS]", "[SEP]", "and"))
        queries = [corpus.query_ids[a:b] for a, b in zip(corpus.query_starts[:-1], corpus.query_starts[1:])]
        kept = ~np.isin(corpus.query_ids, list(stop))
        bare = [it[kept[a:b]] for it, a, b in zip(queries, corpus.query_starts[:-1], corpus.query_starts[1:])]
        bare = [short if len(short) >= 2 else whole for short, whole in zip(bare, queries)]
        # Of each question two forms: as it was asked, and without stop words.
        self.query_count = len(queries)
        parts = [np.concatenate(queries + bare), corpus.title_ids, corpus.passage_ids]
        lengths = [np.asarray([len(it) for it in queries + bare]), corpus.title_lengths, corpus.passage_lengths]
        offset, starts = 0, []
        for ids, sizes in zip(parts, lengths):
            starts.append(offset + np.concatenate([[0], np.cumsum(sizes)[:-1]]))
            offset += len(ids)
        self.query_starts, self.title_starts, self.passage_starts = starts
        self.query_lengths, self.title_lengths, self.passage_lengths = lengths
        # The last three are what stands between texts.
        if None in (self.cls, self.sep):
            raise SystemExit("the tokenizer has no [CLS] and [SEP]: this recipe is for BERT")
        marks = np.asarray([self.cls, self.sep, self.joint or 0], np.int32)
        self.marks = offset
        self.ids = torch.from_numpy(np.concatenate([*(it.astype(np.int32) for it in parts), marks])).to(device)
        self.device, self.limit = device, corpus.max_tokens

    def pairs(self, query, second, passage, titled) -> dict[str, np.ndarray]:
        """Where the pieces of `[CLS] query (and second) [SEP] title passage [SEP]` lie: starts and lengths `[pairs, 8]`.
        `second` is −1 where there is none."""
        count = len(query)
        starts, lengths = np.zeros((count, 8), np.int64), np.zeros((count, 8), np.int64)
        both = second >= 0
        for column, mark in ((0, 0), (2, 2), (4, 1), (7, 1)):
            starts[:, column], lengths[:, column] = self.marks + mark, 1
        lengths[:, 2] = both if self.joint is not None else 0
        starts[:, 1], lengths[:, 1] = self.query_starts[query], self.query_lengths[query]
        starts[:, 3] = self.query_starts[np.maximum(second, 0)]
        room = np.maximum(self.limit // 2 - lengths[:, 1], 0)
        lengths[:, 3] = np.where(both, np.minimum(self.query_lengths[np.maximum(second, 0)], room), 0)
        starts[:, 5], lengths[:, 5] = self.title_starts[passage], np.where(titled, self.title_lengths[passage], 0)
        starts[:, 6] = self.passage_starts[passage]
        lengths[:, 6] = np.minimum(self.passage_lengths[passage], self.limit - 1 - lengths[:, :6].sum(1))
        return {"starts": starts, "lengths": lengths}

    def batch(self, pieces: dict[str, np.ndarray]) -> Batch:
        starts, lengths = pieces["starts"], pieces["lengths"]
        sizes = lengths.sum(1)
        flat = lengths.reshape(-1)
        total = int(flat.sum())
        # A token is its piece's start and its place in the piece; its segment is 1 behind the middle mark.
        begins = np.concatenate([[0], np.cumsum(flat)[:-1]])
        table = np.stack([starts.reshape(-1) - begins, np.tile([0, 0, 0, 0, 0, 1, 1, 1], len(starts))])
        table = torch.from_numpy(table).to(self.device, non_blocking=True)
        counts = torch.from_numpy(flat).to(self.device, non_blocking=True)
        piece = torch.repeat_interleave(torch.arange(len(flat), device=self.device), counts, output_size=total)
        place = torch.arange(total, device=self.device)
        firsts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        first = torch.from_numpy(firsts).to(self.device, non_blocking=True)
        positions = place - first[piece // 8]
        ids = self.ids[table[0][piece] + place].long()
        return Batch(ids, table[1][piece], positions, first, sizes)

    def single(self, starts: np.ndarray, lengths: np.ndarray) -> Batch:
        """`[CLS] text [SEP]`, as the bi-encoder reads it."""
        many = np.zeros((len(starts), 8), np.int64)
        sizes = np.zeros((len(starts), 8), np.int64)
        many[:, 0], sizes[:, 0] = self.marks, 1
        many[:, 1], sizes[:, 1] = starts, np.minimum(lengths, 254)
        many[:, 2], sizes[:, 2] = self.marks + 1, 1
        return self.batch({"starts": many, "lengths": sizes})


def attention(query, key, value, batch: Batch, first_only: bool) -> torch.Tensor:
    """`[tokens, heads, size]`; with `first_only` the queries are the first token of each pair."""
    if query.is_cuda:
        own, longest = (batch.each, 1) if first_only else (batch.bounds, batch.longest)
        return varlen_attn(query, key, value, own, batch.bounds, longest, batch.longest)
    parts = []
    queries = query.split(1) if first_only else query.split(batch.lengths.tolist())
    for own, keys, values in zip(queries, key.split(batch.lengths.tolist()), value.split(batch.lengths.tolist())):
        mixed = F.scaled_dot_product_attention(own.transpose(0, 1), keys.transpose(0, 1), values.transpose(0, 1))
        parts.append(mixed.transpose(0, 1))
    return torch.cat(parts)


class Forward:
    """A BERT's forward over unpadded batches, of weights in any precision."""

    def __init__(self, config: dict):
        self.heads, self.depth = config["num_attention_heads"], config["num_hidden_layers"]
        self.width, self.inner, self.eps = config["hidden_size"], config["intermediate_size"], config["layer_norm_eps"]
        self.size = self.width // self.heads

    def norm(self, w, x, name):
        return F.layer_norm(x, (self.width,), w[f"{name}/weight"], w[f"{name}/bias"], self.eps)

    def layer(self, w, x, batch: Batch, layer: int, first_only: bool, slices=None, gates=None):
        heads = slices or self.heads
        outputs, inner = heads * self.size, self.inner * heads // self.heads
        name = f"encoder/layer/{layer}/"

        def linear(it, part, rows=None, columns=None):
            return F.linear(it, w[f"{name}{part}/weight"][:rows, :columns], w[f"{name}{part}/bias"][:rows])

        read = x[batch.first] if first_only else x
        query, key, value = (
            linear(it, f"attention/self/{part}", outputs).view(-1, heads, self.size)
            for it, part in ((read, "query"), (x, "key"), (x, "value"))
        )
        mixed = attention(query, key, value, batch, first_only)
        if gates is not None:
            mixed = mixed * gates[0].view(1, -1, 1)
        mixed = linear(mixed.reshape(-1, outputs), "attention/output/dense", None, outputs)
        read = self.norm(w, read + mixed, f"{name}attention/output/LayerNorm")
        hidden = F.gelu(linear(read, "intermediate/dense", inner))
        if gates is not None:
            hidden = hidden * gates[1]
        return self.norm(w, read + linear(hidden, "output/dense", None, inner), f"{name}output/LayerNorm")

    def embed(self, w, batch: Batch):
        of = lambda name, ids: F.embedding(ids, w[f"embeddings/{name}/weight"])
        x = of("word_embeddings", batch.ids) + of("position_embeddings", batch.positions)
        return self.norm(w, x + of("token_type_embeddings", batch.segments), "embeddings/LayerNorm")

    def scores(self, w, batch: Batch, layers: list[int], slices=None, gates=None) -> dict[int, torch.Tensor]:
        """One per pair after each layer of `layers`, counted from 1."""
        x, scores, last = self.embed(w, batch), {}, max(layers)
        for layer in range(last):
            x = self.layer(w, x, batch, layer, layer + 1 == last, slices, None if gates is None else gates[layer])
            if layer + 1 in layers:
                first = x if layer + 1 == last else x[batch.first]
                pooled = torch.tanh(F.linear(first, w["pooler/dense/weight"], w["pooler/dense/bias"]))
                scores[layer + 1] = F.linear(pooled, w["classifier/weight"], w["classifier/bias"]).squeeze(-1).float()
        return scores

    @torch.no_grad()
    def vectors(self, w, batch: Batch) -> torch.Tensor:
        """Mean-pooled, of length one."""
        x = self.embed(w, batch)
        for layer in range(self.depth):
            x = self.layer(w, x, batch, layer, False)
        each = torch.repeat_interleave(
            torch.arange(len(batch.lengths), device=x.device),
            torch.from_numpy(batch.lengths).to(x.device), output_size=len(x),
        )
        sums = torch.zeros(len(batch.lengths), x.shape[1], device=x.device).index_add_(0, each, x.float())
        return F.normalize(sums, dim=1)


def half(model: Bert, device: torch.device) -> dict[str, torch.Tensor]:
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    return {name: it.detach().to(device, kind) for name, it in model.weights.items()}


def embed_all(forward: Forward, w, texts: Texts, starts, lengths, at_once: int = 1024) -> torch.Tensor:
    order = np.argsort(lengths, kind="stable")
    vectors = torch.empty(len(starts), forward.width, device=texts.device)
    for begin in range(0, len(order), at_once):
        places = order[begin : begin + at_once]
        found = forward.vectors(w, texts.single(starts[places], lengths[places]))
        vectors[torch.from_numpy(places).to(texts.device)] = found
    return vectors
