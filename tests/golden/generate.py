"""Writes the golden models and values that the Rust tests compare with.

    python3 -m venv venv && venv/bin/pip install -r requirements.txt
    venv/bin/python generate.py [DIRECTORY OF all-MiniLM-L6-v2] [DIRECTORY OF splade-tiny]

The tiny models have the true architecture with random weights from a fixed seed, so they prove the
computation and nothing about quality. The values of a real model are written only if it is given.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoConfig, AutoModelForMaskedLM, AutoTokenizer, BertConfig, BertForMaskedLM, BertForSequenceClassification,
    BertModel, ModernBertConfig, ModernBertForSequenceClassification, PreTrainedTokenizerFast, Qwen3Config,
    Qwen3ForCausalLM, XLMRobertaConfig, XLMRobertaForSequenceClassification,
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


SPARSE_TEXTS = TEXTS + ["boat boat dock gate " * 30]


def term_weights(model, tokenizer, text: str, max_tokens: int):
    """What sentence-transformers' SpladePooling makes of a text: the marks around it count, too."""
    inputs = tokenizer(text, truncation=True, max_length=max_tokens, return_tensors="pt")
    return inputs["input_ids"][0], model(**inputs).logits[0].relu().log1p().amax(dim=0)


@torch.no_grad()
def sparse_encoder() -> None:
    directory = HERE / "tiny-bert-sparse-encoder"
    shutil.rmtree(directory, ignore_errors=True)
    tokenizer = make_tokenizer(directory)
    torch.manual_seed(28)
    model = BertForMaskedLM(make_config(len(tokenizer))).eval()
    # Most weights of a trained model are nothing.
    model.cls.predictions.bias.data.normal_(-3.0, 1.0)
    model.save_pretrained(directory)
    cases = []
    for text in SPARSE_TEXTS:
        input_ids, weights = term_weights(model, tokenizer, text, MAX_TOKENS)
        assert 0 < int((weights > 0).sum()) < len(tokenizer)
        cases.append({"text": text, "input_ids": input_ids.tolist(), "weights": rounded(weights, 5)})
    (directory / "expected.json").write_text(json.dumps({"max_tokens": MAX_TOKENS, "cases": cases}, ensure_ascii=False))


@torch.no_grad()
def real_sparse_model(directory: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForMaskedLM.from_pretrained(directory, attn_implementation="eager").eval()
    cases = []
    for text in SPARSE_TEXTS + ["How often does a steel hull need a dry dock?"]:
        _, weights = term_weights(model, tokenizer, text, 512)
        terms = [[it, round(float(weights[it]), 4)] for it in weights.nonzero()[:, 0].tolist()]
        cases.append({"text": text, "terms": terms})
    (HERE / "splade-tiny.json").write_text(json.dumps({"cases": cases}, ensure_ascii=False))


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


def stir(model: torch.nn.Module) -> None:
    """Norms begin as ones and biases as zeros: moved, so that one left out is seen in the scores."""
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.add_(torch.randn_like(parameter) * 0.2)


def layer_outputs(model: torch.nn.Module, layers: torch.nn.ModuleList, inputs: dict) -> tuple[list, torch.Tensor]:
    """Each layer's output and the logits. `output_hidden_states` has the last one after the final norm."""
    outputs = []
    hooks = [layer.register_forward_hook(lambda _, __, output: outputs.append(output)) for layer in layers]
    logits = model(**inputs).logits
    for hook in hooks:
        hook.remove()
    return outputs, logits


def old_style(directory: Path, **keys) -> None:
    """Rewrites config.json with the keys of transformers 4, as in most published checkpoints."""
    path = directory / "config.json"
    config = json.loads(path.read_text())
    for key in ("rope_parameters", "layer_types"):
        config.pop(key, None)
    config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.51.3"
    config.update(keys)
    path.write_text(json.dumps(dict(sorted(config.items())), indent=2) + "\n")


def make_modernbert_tokenizer(directory: Path) -> PreTrainedTokenizerFast:
    """Byte-level pieces, special tokens and template as ModernBERT has them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=340, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[(it, tokenizer.token_to_id(it)) for it in ("[CLS]", "[SEP]")],
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=MAX_TOKENS, pad_token="[PAD]", unk_token="[UNK]",
        cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]", model_input_names=["input_ids", "attention_mask"],
    )
    fast.save_pretrained(directory)
    return fast


@torch.no_grad()
def modernbert_cross_encoder(name: str, seed: int, pooling: str, biases: bool, old: bool) -> None:
    directory = HERE / name
    shutil.rmtree(directory, ignore_errors=True)
    tokenizer = make_modernbert_tokenizer(directory)
    torch.manual_seed(seed)
    model = ModernBertForSequenceClassification(ModernBertConfig(
        # Five layers: global, local, local, global, local. The local window is narrower than the texts.
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=5, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=MAX_TOKENS, global_attn_every_n_layers=3, local_attention=8, initializer_range=0.3,
        classifier_pooling=pooling, norm_bias=biases, attention_bias=biases, mlp_bias=biases, classifier_bias=biases,
        pad_token_id=tokenizer.pad_token_id, bos_token_id=tokenizer.cls_token_id, cls_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id, sep_token_id=tokenizer.sep_token_id, num_labels=1,
        attn_implementation="eager",
    )).eval()
    stir(model)
    model.save_pretrained(directory)
    if old:
        parameters = model.config.rope_parameters
        old_style(
            directory, global_attn_every_n_layers=3, layer_norm_eps=1e-5, position_embedding_type="absolute",
            global_rope_theta=parameters["full_attention"]["rope_theta"],
            local_rope_theta=parameters["sliding_attention"]["rope_theta"],
        )
        again = AutoConfig.from_pretrained(directory)
        assert (again.rope_parameters, again.layer_types) == (parameters, model.config.layer_types)
    cases = []
    for query, text in PAIRS:
        inputs = tokenizer([query], [text], truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
        outputs, logits = layer_outputs(model, model.model.layers, inputs)
        scores = []
        for hidden in map(model.model.final_norm, outputs):
            pooled = hidden[:, 0] if pooling == "cls" else hidden.mean(dim=1)
            scores.append(model.classifier(model.head(pooled))[0, 0])
        assert torch.allclose(scores[-1], logits[0, 0], atol=1e-5)
        cases.append({
            "query": query, "text": text,
            "input_ids": inputs["input_ids"][0].tolist(),
            "scores": rounded(scores),
        })
    (directory / "expected.json").write_text(json.dumps({"max_tokens": MAX_TOKENS, "cases": cases}, ensure_ascii=False))


# Prompt of Qwen3-Reranker, as its model card gives it.
QWEN3_PREFIX = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
QWEN3_SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
QWEN3_BODY = (
    "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n"
    "<Query>: {}\n<Document>: {}"
)
# So long that the repeated query leaves room for a part of the text.
QWEN3_MAX_TOKENS = 260


def make_qwen3_tokenizer(directory: Path) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    split = Regex(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+"
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(split, "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=420, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    # The template often, so that its words, "yes" and "no" among them, become tokens of their own.
    tokenizer.train_from_iterator(TEXTS + [QWEN3_PREFIX, QWEN3_SUFFIX, QWEN3_BODY] * 20, trainer)
    # Numbered after the pieces, as in Qwen3, where the marks of thinking are not special.
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken(it, normalized=False, special=False) for it in ("<think>", "</think>")])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=QWEN3_MAX_TOKENS, pad_token="<|endoftext|>",
        eos_token="<|im_end|>", padding_side="left", model_input_names=["input_ids", "attention_mask"],
    )
    fast.save_pretrained(directory)
    return fast


@torch.no_grad()
def qwen3_reranker(name: str, seed: int, tied: bool, sharded_bf16: bool) -> None:
    directory = HERE / name
    shutil.rmtree(directory, ignore_errors=True)
    tokenizer = make_qwen3_tokenizer(directory)
    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(Qwen3Config(
        # As in the 0.6B, the heads together are wider than the hidden state.
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
        head_dim=16, intermediate_size=64, max_position_embeddings=QWEN3_MAX_TOKENS, tie_word_embeddings=tied,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6}, initializer_range=0.3,
        bos_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id, attn_implementation="eager",
    )).eval()
    stir(model)
    if sharded_bf16:
        model.to(torch.bfloat16).save_pretrained(directory, max_shard_size="40KB")
        old_style(
            directory, rope_theta=1000000, rope_scaling=None, max_window_layers=4, sliding_window=None,
            use_sliding_window=False,
        )
        # Scored in single precision, from the weights as they are stored.
        model = Qwen3ForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
        assert model.config.rope_parameters["rope_theta"] == 1e6
    else:
        model.save_pretrained(directory)
    (directory / "generation_config.json").unlink(missing_ok=True)
    prefix, suffix = (tokenizer.encode(it, add_special_tokens=False) for it in (QWEN3_PREFIX, QWEN3_SUFFIX))
    yes, no = (tokenizer.convert_tokens_to_ids(it) for it in ("yes", "no"))
    assert None not in (yes, no)
    bodies = tokenizer(
        [QWEN3_BODY.format(*pair) for pair in PAIRS], truncation="longest_first",
        max_length=QWEN3_MAX_TOKENS - len(prefix) - len(suffix),
    )["input_ids"]
    cases = []
    for (query, text), body in zip(PAIRS, bodies):
        ids = prefix + body + suffix
        outputs, logits = layer_outputs(model, model.model.layers, {"input_ids": torch.tensor([ids])})
        scores = []
        for hidden in outputs:
            both = model.lm_head(model.model.norm(hidden[0, -1]))[[yes, no]]
            scores.append(both[0] - both[1])
        assert torch.allclose(scores[-1], logits[0, -1, yes] - logits[0, -1, no], atol=1e-5)
        cases.append({"query": query, "text": text, "input_ids": ids, "scores": rounded(scores)})
    # The model card's own way: one batch, padded on the left, and the probability of "yes" against "no".
    batch = tokenizer.pad({"input_ids": [it["input_ids"] for it in cases]}, return_tensors="pt")
    both = model(**batch).logits[:, -1, [no, yes]]
    expected = torch.tensor([it["scores"][-1] for it in cases]).sigmoid()
    assert torch.allclose(both.log_softmax(dim=1)[:, 1].exp(), expected, atol=1e-5)
    (directory / "expected.json").write_text(
        json.dumps({"max_tokens": QWEN3_MAX_TOKENS, "cases": cases}, ensure_ascii=False)
    )


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
    sparse_encoder()
    cross_encoder()
    xlm_roberta_cross_encoder()
    # As gte-reranker-modernbert-base is; then the other pooling, every bias and the older configuration.
    modernbert_cross_encoder("tiny-modernbert-cross-encoder", 24, pooling="mean", biases=False, old=False)
    modernbert_cross_encoder("tiny-modernbert-cls-cross-encoder", 25, pooling="cls", biases=True, old=True)
    qwen3_reranker("tiny-qwen3-reranker", 26, tied=True, sharded_bf16=False)
    qwen3_reranker("tiny-qwen3-reranker-sharded-bf16", 27, tied=False, sharded_bf16=True)
    if len(sys.argv) > 1:
        real_model(sys.argv[1])
    if len(sys.argv) > 2:
        real_sparse_model(sys.argv[2])
