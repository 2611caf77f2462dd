"""Writes the golden models and values that the Rust tests compare with.

    python3 -m venv venv && venv/bin/pip install -r requirements.txt
    venv/bin/python generate.py [DIRECTORY OF all-MiniLM-L6-v2] [DIRECTORY OF splade-tiny]

The tiny models have the true architecture with random weights from a fixed seed, so they prove the
computation and nothing about quality. The values of a real model are written only if it is given.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoConfig, AutoModelForMaskedLM, AutoTokenizer, BertConfig, BertForMaskedLM, BertForSequenceClassification,
    BertModel, ModernBertConfig, ModernBertForSequenceClassification, PreTrainedTokenizerFast, Qwen3Config,
    Qwen3ForCausalLM, XLMRobertaConfig, XLMRobertaForSequenceClassification, ModernBertModel, XLMRobertaModel,
    Qwen3Model, Qwen2Config, Qwen2ForCausalLM, Gemma3TextConfig, Gemma3TextModel, MPNetConfig,
    MPNetForSequenceClassification, MPNetModel,
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
def looked_up_sparse_encoder() -> None:
    """The same model with a table of questions' weights, as sentence-transformers reads and saves such models."""
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder.models import MLMTransformer, SparseStaticEmbedding, SpladePooling
    from sentence_transformers.models import Router

    directory = HERE / "tiny-bert-sparse-encoder"
    transformer = MLMTransformer(str(directory), max_seq_length=MAX_TOKENS)
    tokenizer = transformer.tokenizer
    generator = torch.Generator().manual_seed(29)
    # Three decimals; a third of the vocabulary is not in the table.
    weights = (torch.rand(len(tokenizer), generator=generator) * 9).tolist()
    table = {token: round(weights[at], 3) for token, at in tokenizer.get_vocab().items() if at % 3}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "idf.json"
        path.write_text(json.dumps(table))
        router = Router.for_query_document(
            query_modules=[SparseStaticEmbedding.from_json(str(path), tokenizer=tokenizer, frozen=True)],
            document_modules=[transformer, SpladePooling("max", activation_function="log1p_relu")],
        )
        model = SparseEncoder(modules=[router], device="cpu").eval()
        saved = Path(folder) / "saved"
        model.save_pretrained(str(saved))
        files = {}
        for file in sorted(saved.rglob("*.json")):
            if file.name in ("router_config.json",) or file.parent.name.endswith("SpladePooling"):
                files[str(file.relative_to(saved))] = json.loads(file.read_text())
        cases = []
        for text in SPARSE_TEXTS:
            query = model.encode_query(text, convert_to_sparse_tensor=False)
            passage = model.encode_document(text, convert_to_sparse_tensor=False)
            cases.append({"text": text, "query": rounded(query, 4), "passage": rounded(passage, 5)})
    golden = {"table": table, "files": files, "cases": cases}
    (directory / "looked-up.json").write_text(json.dumps(golden, ensure_ascii=False))


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


@torch.no_grad()
def sliced_cross_encoder() -> None:
    """Two heads of 16: large enough to be cut into slices. Of the first slice alone what is expected is the same model with the
    other one's columns set to nothing: a head and its neurons then add nothing to any state."""
    directory = HERE / "tiny-bert-sliced-cross-encoder"
    shutil.rmtree(directory, ignore_errors=True)
    tokenizer = make_tokenizer(directory)
    torch.manual_seed(61)
    config = make_config(len(tokenizer), num_labels=1)
    config.num_hidden_layers, config.num_attention_heads = 3, 2
    model = BertForSequenceClassification(config).eval()
    # As a classifier it calls some of the texts relevant.
    model.classifier.bias.fill_(-2.0)
    model.save_pretrained(directory)
    narrow = BertForSequenceClassification(config).eval()
    narrow.load_state_dict(model.state_dict())
    for layer in narrow.bert.encoder.layer:
        layer.attention.output.dense.weight[:, 16:] = 0
        layer.output.dense.weight[:, 32:] = 0
    cases = []
    for query, text in PAIRS:
        inputs = tokenizer([query], [text], truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
        case = {"query": query, "text": text}
        for name, it in (("scores", model), ("scores_of_one_slice", narrow)):
            hidden = it.bert(**inputs, output_hidden_states=True).hidden_states
            case[name] = rounded(it.classifier(it.bert.pooler(state))[0, 0] for state in hidden[1:])
        cases.append(case)
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


def make_mpnet_tokenizer(directory: Path, max_tokens: int) -> PreTrainedTokenizerFast:
    """BERT's pieces between RoBERTa's special tokens, with two for what is unknown, as MPNet has them."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "[UNK]", AddedToken("<mask>", lstrip=True, special=True)]
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", tokenizer.token_to_id("</s>")), ("<s>", tokenizer.token_to_id("<s>")), add_prefix_space=False,
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=max_tokens, pad_token="<pad>", unk_token="[UNK]",
        bos_token="<s>", cls_token="<s>", sep_token="</s>", eos_token="</s>", mask_token=special[-1],
        model_input_names=["input_ids", "attention_mask"],
    )
    fast.save_pretrained(directory)
    return fast


def mpnet_config(tokenizer, max_tokens: int, **more) -> MPNetConfig:
    return MPNetConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=64,
        # As in published checkpoints: positions begin after the padding token's number.
        max_position_embeddings=max_tokens + 2, pad_token_id=1, bos_token_id=0, eos_token_id=2, layer_norm_eps=1e-5,
        initializer_range=0.3, **more,
    )


@torch.no_grad()
def mpnet_cross_encoder() -> None:
    directory = HERE / "tiny-mpnet-cross-encoder"
    shutil.rmtree(directory, ignore_errors=True)
    tokenizer = make_mpnet_tokenizer(directory, MAX_TOKENS)
    torch.manual_seed(50)
    model = MPNetForSequenceClassification(mpnet_config(tokenizer, MAX_TOKENS, num_labels=1)).eval()
    stir(model)
    model.save_pretrained(directory)
    cases = []
    # A padding token spelled out in a text takes no position of its own.
    for query, text in PAIRS + [("Where is the boat?", "Bread <pad> and boats")]:
        inputs = tokenizer([query], [text], truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
        hidden = model.mpnet(**inputs, output_hidden_states=True).hidden_states
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


# How GPT-4o's tokenizer cuts a text into words, with marks counted as letters, as Granite's multilingual embedders have it.
WORDS_OF_ALL_SCRIPTS = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+",
])


def make_granite_tokenizer(directory: Path) -> PreTrainedTokenizerFast:
    """Byte-level pieces of words that an expression with a look ahead cuts."""
    inner = make_modernbert_tokenizer(directory).backend_tokenizer
    inner.normalizer = None
    inner.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(WORDS_OF_ALL_SCRIPTS), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=inner, model_max_length=MAX_TOKENS, pad_token="[PAD]", unk_token="[UNK]",
        cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]", model_input_names=["input_ids", "attention_mask"],
    )
    fast.save_pretrained(directory)
    return fast


def modernbert_config(tokenizer, **more) -> ModernBertConfig:
    """Five layers: global, local, local, global, local. The local window is narrower than the texts."""
    return ModernBertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=5, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=MAX_TOKENS, global_attn_every_n_layers=3, local_attention=8, initializer_range=0.3,
        pad_token_id=tokenizer.pad_token_id, bos_token_id=tokenizer.cls_token_id, cls_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id, sep_token_id=tokenizer.sep_token_id, attn_implementation="eager", **more,
    )


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


def make_embedding_tokenizer(directory: Path, marks: str) -> PreTrainedTokenizerFast:
    """Of Qwen3-Embedding, which has a mark at the end, and of Gemma, which has one at both."""
    tokenizer = make_qwen3_tokenizer(directory)
    inner = tokenizer.backend_tokenizer
    inner.post_processor = processors.TemplateProcessing(
        single=marks, pair=f"{marks} $B", special_tokens=[("<|endoftext|>", tokenizer.pad_token_id)],
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=inner, model_max_length=MAX_TOKENS, pad_token="<|endoftext|>", padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
    )
    fast.save_pretrained(directory)
    return fast


EMBEDDED = [text for text in TEXTS if text] + ["Where is the boat?"]
# MPNet tells distances apart up to 91 tokens to each side: some texts are several times as long.
MPNET_TOKENS = 320
MPNET_TEXTS = EMBEDDED + ["Bread <pad> and boats behind <mask>", " ".join(EMBEDDED), " ".join(EMBEDDED[::-1] * 8)]
# Layers to a directory: what comes out of them is in `expected.json` by the library that the files are of.
PROMPTS = {"query": "Instruct: find it\nQuery:", "document": "title: none | text: "}


@torch.no_grad()
def sentence_encoder(
    name: str, model, tokenizer, modules, prompts=None, truncate=None, texts=EMBEDDED, max_tokens=MAX_TOKENS,
) -> None:
    """Saves the model as sentence-transformers does, and what that library makes of texts by it."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer

    directory = HERE / name
    shutil.rmtree(directory, ignore_errors=True)
    base = HERE / f"{name}-base"
    stir(model)
    model.eval().save_pretrained(base)
    tokenizer.save_pretrained(base)
    transformer = Transformer(str(base), max_seq_length=max_tokens)
    whole = SentenceTransformer(
        modules=[transformer, *modules], device="cpu", prompts=prompts, truncate_dim=truncate,
    ).eval()
    whole.save(str(directory), create_model_card=False)
    shutil.rmtree(base)
    assert (directory / "model.safetensors").is_file()
    cases = []
    for text in texts:
        case = {"text": text, "vector": rounded(whole.encode(text, normalize_embeddings=True, prompt_name="document" if prompts else None))}
        if prompts:
            case["query"] = rounded(whole.encode(text, normalize_embeddings=True, prompt_name="query"))
        cases.append(case)
    (directory / "expected.json").write_text(
        json.dumps({"max_tokens": max_tokens, "cases": cases}, ensure_ascii=False)
    )


def sentence_encoders() -> None:
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.sentence_transformer.modules import LayerNorm, Normalize, Pooling

    scratch = HERE / "scratch"
    modern = make_modernbert_tokenizer(scratch)
    torch.manual_seed(41)
    sentence_encoder(
        "tiny-modernbert-embedder", ModernBertModel(modernbert_config(modern)), modern,
        [Pooling(32, "cls"), Normalize()], {"query": "search_query: ", "document": "search_document: "},
    )
    granite = make_granite_tokenizer(scratch)
    torch.manual_seed(49)
    sentence_encoder(
        "tiny-granite-embedder", ModernBertModel(modernbert_config(granite, hidden_activation="silu")), granite,
        [Pooling(32, "cls"), Normalize()],
    )
    unigram = make_unigram_tokenizer(scratch)
    torch.manual_seed(42)
    sentence_encoder(
        "tiny-xlm-roberta-embedder", XLMRobertaModel(XLMRobertaConfig(
            vocab_size=len(unigram), hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64,
            max_position_embeddings=MAX_TOKENS + 2, pad_token_id=1, bos_token_id=0, eos_token_id=2, type_vocab_size=1,
            layer_norm_eps=1e-5, initializer_range=0.3,
        ), add_pooling_layer=False), unigram,
        [Pooling(32, "weightedmean"), Dense(32, 24, activation_function=torch.nn.Tanh()), LayerNorm(24)],
    )
    mpnet = make_mpnet_tokenizer(scratch, MPNET_TOKENS)
    torch.manual_seed(51)
    sentence_encoder(
        "tiny-mpnet-embedder", MPNetModel(mpnet_config(mpnet, MPNET_TOKENS), add_pooling_layer=False), mpnet,
        [Pooling(32, "mean"), Normalize()], texts=MPNET_TEXTS, max_tokens=MPNET_TOKENS,
    )
    qwen = make_embedding_tokenizer(scratch, "$A <|endoftext|>")
    torch.manual_seed(43)
    sentence_encoder(
        "tiny-qwen3-embedder", Qwen3Model(Qwen3Config(
            vocab_size=len(qwen), hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
            head_dim=16, intermediate_size=64, max_position_embeddings=MAX_TOKENS,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6}, initializer_range=0.3,
        )), qwen,
        [Pooling(32, "lasttoken"), Normalize()], {"query": PROMPTS["query"], "document": ""}, truncate=20,
    )
    gemma = make_embedding_tokenizer(scratch, "<|endoftext|> $A <|endoftext|>")
    torch.manual_seed(44)
    sentence_encoder(
        "tiny-gemma3-embedder", Gemma3TextModel(Gemma3TextConfig(
            # Every third layer sees everything, the others eight tokens; a head is scaled by a number of its own.
            vocab_size=len(gemma), hidden_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=1,
            head_dim=16, intermediate_size=48, max_position_embeddings=MAX_TOKENS, sliding_window=8,
            layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
            query_pre_attn_scalar=24, use_bidirectional_attention=True, initializer_range=0.3,
            rope_parameters={
                "full_attention": {"rope_type": "default", "rope_theta": 1e6},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            },
        )), gemma,
        [
            Pooling(32, "mean"), Dense(32, 48, bias=False, activation_function=torch.nn.Identity()),
            Dense(48, 32, bias=False, activation_function=torch.nn.Identity()), Normalize(),
        ], PROMPTS,
    )
    shutil.rmtree(scratch)


@torch.no_grad()
def modular_reranker(name: str, seed: int, pooling: str) -> None:
    """As the Ettin rerankers are: a plain ModernBERT, and a head of modules."""
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling

    directory = HERE / name
    shutil.rmtree(directory, ignore_errors=True)
    base = HERE / f"{name}-base"
    tokenizer = make_modernbert_tokenizer(base)
    torch.manual_seed(seed)
    model = ModernBertModel(modernbert_config(tokenizer)).eval()
    stir(model)
    model.save_pretrained(base)
    modules = [
        Transformer(str(base), max_seq_length=MAX_TOKENS),
        Pooling(32, pooling),
        Dense(32, 32, bias=False, activation_function=torch.nn.GELU()),
        LayerNorm(32),
        Dense(32, 1, activation_function=torch.nn.Identity(), module_output_name="scores"),
    ]
    for module in modules[3:]:
        stir(module)
    whole = CrossEncoder(modules=modules, device="cpu").eval()
    whole.save_pretrained(str(directory), create_model_card=False)
    shutil.rmtree(base)
    inner = modules[0].auto_model if hasattr(modules[0], "auto_model") else modules[0].model
    cases = []
    for query, text in PAIRS:
        inputs = tokenizer([query], [text], truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
        outputs = []
        hooks = [it.register_forward_hook(lambda _, __, output: outputs.append(output)) for it in inner.layers]
        inner(**inputs)
        for hook in hooks:
            hook.remove()
        scores = []
        for hidden in map(inner.final_norm, outputs):
            features = {"token_embeddings": hidden, "attention_mask": inputs["attention_mask"]}
            for module in modules[1:]:
                features = module(features)
            scores.append(features["scores"][0, 0])
        if text:
            whole_score = whole.predict([(query, text)], activation_fn=torch.nn.Identity())[0]
            assert abs(float(scores[-1]) - float(whole_score)) < 1e-5, (float(scores[-1]), float(whole_score))
        cases.append({
            "query": query, "text": text,
            "input_ids": inputs["input_ids"][0].tolist(),
            "scores": rounded(scores),
        })
    (directory / "expected.json").write_text(json.dumps({"max_tokens": MAX_TOKENS, "cases": cases}, ensure_ascii=False))


# Prompt of mxbai-rerank-v2, as its library gives it.
QWEN2_PREFIX = (
    "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
    "<|im_start|>user\n"
)
QWEN2_TASK = (
    "You are a search relevance expert who evaluates how well documents match search queries. For each query-document "
    "pair, carefully analyze the semantic relationship between them, then provide your binary relevance judgment (0 for "
    "not relevant, 1 for relevant).\nRelevance:"
)
QWEN2_SUFFIX = "<|im_end|>\n<|im_start|>assistant\n"


# Of query and text together; beside them the template has room of its own.
QWEN2_MAX_TOKENS = 120


@torch.no_grad()
def qwen2_reranker(name: str, seed: int) -> None:
    directory = HERE / name
    shutil.rmtree(directory, ignore_errors=True)
    tokenizer = make_qwen3_tokenizer(directory)
    torch.manual_seed(seed)
    model = Qwen2ForCausalLM(Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=64, max_position_embeddings=1024, tie_word_embeddings=True, use_sliding_window=False,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6}, initializer_range=0.3,
        bos_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id, attn_implementation="eager",
    )).eval()
    stir(model)
    model.save_pretrained(directory)
    (directory / "generation_config.json").unlink(missing_ok=True)
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False)
    prefix, separator, suffix = encode(QWEN2_PREFIX), encode("\n"), encode(QWEN2_TASK) + encode(QWEN2_SUFFIX)
    yes, no = (tokenizer.convert_tokens_to_ids(it) for it in ("1", "0"))
    assert None not in (yes, no)
    cases = []
    for query, text in PAIRS:
        # Query and text share the limit; of the query three quarters of it are kept at most.
        body = encode(f"query: {query}")[:QWEN2_MAX_TOKENS * 3 // 4]
        body = (body + separator + encode(f"document: {text}")[:QWEN2_MAX_TOKENS])[:QWEN2_MAX_TOKENS]
        ids = prefix + body + separator + suffix
        outputs, logits = layer_outputs(model, model.model.layers, {"input_ids": torch.tensor([ids])})
        scores = []
        for hidden in outputs:
            both = model.lm_head(model.model.norm(hidden[0, -1]))[[yes, no]]
            scores.append(both[0] - both[1])
        assert torch.allclose(scores[-1], logits[0, -1, yes] - logits[0, -1, no], atol=1e-5)
        cases.append({"query": query, "text": text, "input_ids": ids, "scores": rounded(scores)})
    (directory / "expected.json").write_text(
        json.dumps({"max_tokens": QWEN2_MAX_TOKENS, "cases": cases}, ensure_ascii=False)
    )


@torch.no_grad()
def static_embedders() -> None:
    """As model2vec lays them out: a row for each token; then rows that tokens share, with weights."""
    from safetensors.torch import save_file
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding

    for name, shared in (("tiny-static-embedder", False), ("tiny-static-shared-embedder", True)):
        directory = HERE / name
        shutil.rmtree(directory, ignore_errors=True)
        tokenizer = make_tokenizer(directory)
        for file in directory.iterdir():
            if file.name != "tokenizer.json":
                file.unlink()
        torch.manual_seed(46)
        size = len(tokenizer)
        rows = torch.randn(100 if shared else size, 24)
        tensors = {"embeddings": rows.to(torch.float16) if shared else rows}
        if shared:
            tensors["mapping"] = torch.randint(0, 100, (size,), dtype=torch.int64)
            tensors["weights"] = torch.rand(size)
        save_file(tensors, directory / "model.safetensors")
        config = {"model_type": "model2vec", "architectures": ["StaticModel"], "normalize": True, "hidden_dim": 24}
        (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        static = StaticEmbedding.load(str(directory))
        unknown = tokenizer.unk_token_id
        cases = []
        for text in EMBEDDED:
            ids = [it for it in static.tokenizer.encode(text, add_special_tokens=False).ids if it != unknown][:512]
            if not ids:
                continue
            mean = static.embedding.weight[ids].float().mean(dim=0)
            cases.append({"text": text, "vector": rounded(torch.nn.functional.normalize(mean, dim=0))})
            if unknown not in static.tokenizer.encode(text, add_special_tokens=False).ids:
                whole = SentenceTransformer(modules=[static, Normalize()], device="cpu")
                assert abs(float(whole.encode(text)[0]) - cases[-1]["vector"][0]) < 1e-4
        (directory / "expected.json").write_text(json.dumps({"cases": cases}, ensure_ascii=False))


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
    looked_up_sparse_encoder()
    cross_encoder()
    sliced_cross_encoder()
    xlm_roberta_cross_encoder()
    mpnet_cross_encoder()
    # As gte-reranker-modernbert-base is; then the other pooling, every bias and the older configuration.
    modernbert_cross_encoder("tiny-modernbert-cross-encoder", 24, pooling="mean", biases=False, old=False)
    modernbert_cross_encoder("tiny-modernbert-cls-cross-encoder", 25, pooling="cls", biases=True, old=True)
    qwen3_reranker("tiny-qwen3-reranker", 26, tied=True, sharded_bf16=False)
    qwen3_reranker("tiny-qwen3-reranker-sharded-bf16", 27, tied=False, sharded_bf16=True)
    sentence_encoders()
    modular_reranker("tiny-modular-reranker", 45, pooling="cls")
    modular_reranker("tiny-modular-mean-reranker", 47, pooling="mean")
    qwen2_reranker("tiny-qwen2-reranker", 48)
    static_embedders()
    if len(sys.argv) > 1:
        real_model(sys.argv[1])
    if len(sys.argv) > 2:
        real_sparse_model(sys.argv[2])
