"""Writes the golden models and values that the Rust tests compare with.

    python3 -m venv venv && venv/bin/pip install -r requirements.txt
    venv/bin/python generate.py [DIRECTORY OF all-MiniLM-L6-v2]

The tiny models have the true architecture with random weights from a fixed seed, so they prove the
computation and nothing about quality. The values of the real model are written only if it is given.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig, BertForSequenceClassification, BertModel, PreTrainedTokenizerFast, XLMRobertaConfig,
    XLMRobertaForSequenceClassification,
)

HERE = Path(__file__).parent
MAX_TOKENS = 48

TEXTS = [
    "The lock gate opens at eight.",
    "A narrow boat needs a dry dock once every three years, or its hull will rust through.",
    "Bread",
    "",
    "Das Boot liegt im Trockendock und wird blau gestrichen.",
    "船は青い色です。パンを焼く。",
    "Лодка стоит в сухом доке.",
    "dock " * 100,
]
PAIRS = [("Where is the boat?", text) for text in TEXTS] + [
    ("boat " * 60, "A long query and a short text."),
    ("boat " * 60, "dock " * 60),
]


def make_tokenizer(directory: Path) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(it, tokenizer.token_to_id(it)) for it in ("[CLS]", "[SEP]")],
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=MAX_TOKENS, pad_token="[PAD]", unk_token="[UNK]",
        cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]", model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    fast.save_pretrained(directory)
    return fast


def make_config(vocab_size: int, **more) -> BertConfig:
    return BertConfig(
        vocab_size=vocab_size, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=MAX_TOKENS, initializer_range=0.3, attn_implementation="eager", **more,
    )


def rounded(values, digits=6):
    return [round(float(it), digits) for it in values]


@torch.no_grad()
def encoder() -> None:
    directory = HERE / "tiny-bert-encoder"
    shutil.rmtree(directory, ignore_errors=True)
    tokenizer = make_tokenizer(directory)
    torch.manual_seed(20)
    model = BertModel(make_config(len(tokenizer))).eval()
    model.save_pretrained(directory)
    cases = []
    for text in TEXTS:
        inputs = tokenizer(text, truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
        hidden = model(**inputs, output_hidden_states=True).hidden_states
        pooled = torch.nn.functional.normalize(hidden[-1][0].mean(dim=0), dim=0)
        cases.append({
            "text": text,
            "input_ids": inputs["input_ids"][0].tolist(),
            # Embeddings' output first, then each layer: the hidden state of the first and last token.
            "first_token": [rounded(it[0, 0]) for it in hidden],
            "last_token": [rounded(it[0, -1]) for it in hidden],
            "mean_pooled": rounded(pooled),
        })
    (directory / "expected.json").write_text(json.dumps({"max_tokens": MAX_TOKENS, "cases": cases}, ensure_ascii=False))


@torch.no_grad()
def cross_encoder() -> None:
    directory = HERE / "tiny-bert-cross-encoder"
    shutil.rmtree(directory, ignore_errors=True)
    tokenizer = make_tokenizer(directory)
    torch.manual_seed(21)
    model = BertForSequenceClassification(make_config(len(tokenizer), num_labels=1)).eval()
    model.save_pretrained(directory)
    cases = []
    for query, text in PAIRS:
        # As a batch: called with a single pair, the tokenizer takes an empty second text for none.
        inputs = tokenizer([query], [text], truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
        hidden = model.bert(**inputs, output_hidden_states=True).hidden_states
        # The provisional score: the model's own head on the hidden state after each layer.
        scores = [model.classifier(model.bert.pooler(it))[0, 0] for it in hidden[1:]]
        assert torch.allclose(scores[-1], model(**inputs).logits[0, 0])
        cases.append({
            "query": query, "text": text,
            "input_ids": inputs["input_ids"][0].tolist(),
            "token_type_ids": inputs["token_type_ids"][0].tolist(),
            "scores": rounded(scores),
        })
    (directory / "expected.json").write_text(json.dumps({"max_tokens": MAX_TOKENS, "cases": cases}, ensure_ascii=False))


def make_unigram_tokenizer(directory: Path) -> PreTrainedTokenizerFast:
    """Pieces, special tokens and template as XLM-RoBERTa has them."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=special, unk_token="<unk>", show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[(it, tokenizer.token_to_id(it)) for it in ("<s>", "</s>")],
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=MAX_TOKENS, pad_token="<pad>", unk_token="<unk>",
        bos_token="<s>", cls_token="<s>", sep_token="</s>", eos_token="</s>", mask_token="<mask>",
        model_input_names=["input_ids", "attention_mask"],
    )
    fast.save_pretrained(directory)
    return fast


@torch.no_grad()
def xlm_roberta_cross_encoder() -> None:
    directory = HERE / "tiny-xlm-roberta-cross-encoder"
    shutil.rmtree(directory, ignore_errors=True)
    tokenizer = make_unigram_tokenizer(directory)
    torch.manual_seed(23)
    model = XLMRobertaForSequenceClassification(XLMRobertaConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=64,
        # As in published checkpoints: positions begin after the padding token's number.
        max_position_embeddings=MAX_TOKENS + 2, pad_token_id=1, bos_token_id=0, eos_token_id=2, type_vocab_size=1,
        layer_norm_eps=1e-5, initializer_range=0.3, attn_implementation="eager", num_labels=1,
    )).eval()
    model.save_pretrained(directory)
    cases = []
    # A padding token spelled out in a text takes no position of its own.
    for query, text in PAIRS + [("Where is the boat?", "Bread <pad> and boats")]:
        inputs = tokenizer([query], [text], truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
        hidden = model.roberta(**inputs, output_hidden_states=True).hidden_states
        scores = [model.classifier(it)[0, 0] for it in hidden[1:]]
        assert torch.allclose(scores[-1], model(**inputs).logits[0, 0])
        cases.append({
            "query": query, "text": text,
            "input_ids": inputs["input_ids"][0].tolist(),
            "token_type_ids": [0] * inputs["input_ids"].shape[1],
            "scores": rounded(scores),
        })
    (directory / "expected.json").write_text(json.dumps({"max_tokens": MAX_TOKENS, "cases": cases}, ensure_ascii=False))


def real_model(directory: str) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(directory, device="cpu")
    model.max_seq_length = 256
    texts = TEXTS + ["How often does a steel hull need a dry dock?"]
    vectors = model.encode(texts, batch_size=1, normalize_embeddings=True)
    cases = [{"text": text, "vector": rounded(vector)} for text, vector in zip(texts, vectors)]
    (HERE / "all-minilm-l6-v2.json").write_text(json.dumps({"cases": cases}, ensure_ascii=False))


if __name__ == "__main__":
    encoder()
    cross_encoder()
    xlm_roberta_cross_encoder()
    if len(sys.argv) > 1:
        real_model(sys.argv[1])
