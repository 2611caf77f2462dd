"""Writes the golden rerankers whose reference is no class of `transformers`: what is computed is written down here, in
PyTorch, after the descriptions that are named beside it.

    python3 -m venv venv && venv/bin/pip install -r requirements.txt
    venv/bin/python generate_rerankers.py [NAME …]

As in `generate.py` the models are tiny, of the true architecture and with random weights from a fixed seed.
"""

import json
import shutil
import string
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertModel, DebertaV2Config, DebertaV2ForSequenceClassification, GteConfig, GteForSequenceClassification, ModernBertModel, PreTrainedTokenizerFast,
    Qwen3Config, Qwen3ForCausalLM, RobertaConfig, RobertaForSequenceClassification, XLMRobertaConfig,
    XLMRobertaForSequenceClassification,
)

from generate import (
    HERE, MAX_TOKENS, PAIRS, QWEN3_MAX_TOKENS, TEXTS, layer_outputs, make_config, make_modernbert_tokenizer, make_qwen3_tokenizer,
    make_tokenizer, make_unigram_tokenizer, modernbert_config, rounded, stir,
)

# --- Late interaction: Khattab and Zaharia 2020 (https://arxiv.org/abs/2004.12832), section 3, with the files of
# ColBERT's own library and of PyLate.

QUERY_TOKENS = 20
TEXT_TOKENS = 40


def with_unused(directory: Path) -> PreTrainedTokenizerFast:
    """BERT's tokenizer with the pieces that nobody uses, which ColBERT marks queries and texts with."""
    tokenizer = make_tokenizer(directory)
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    vocabulary = content["model"]["vocab"]
    for piece in ("[unused0]", "[unused1]", "?"):
        vocabulary.setdefault(piece, len(vocabulary))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(content)), pad_token="[PAD]", unk_token="[UNK]",
        cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    fast.save_pretrained(directory)
    return fast


class Late:
    """What a late interaction makes of queries and texts."""

    def __init__(self, model, layers, norm, tokenizer, project, markers, expands, attends):
        self.model, self.layers, self.norm, self.tokenizer = model, layers, norm, tokenizer
        self.project, self.expands, self.attends = project, expands, attends
        self.markers = [tokenizer.convert_tokens_to_ids(it) for it in markers]
        assert None not in self.markers and tokenizer.unk_token_id not in self.markers
        # A word that is no token is looked up as the one for what is unknown.
        self.skipped = {tokenizer.convert_tokens_to_ids(it) for it in string.punctuation}

    def sequence(self, text: str, marker: int, most: int) -> list[int]:
        ids = self.tokenizer(text, truncation=True, max_length=most - 1)["input_ids"]
        return ids[:1] + [marker] + ids[1:]

    def vectors(self, ids: list[int], seen: int) -> list[torch.Tensor]:
        """Of each layer; tokens from `seen` on have queries and no keys."""
        mask = torch.tensor([[int(it < seen) for it in range(len(ids))]])
        outputs = []
        hook = lambda _, __, output: outputs.append(output[0] if isinstance(output, tuple) else output)
        hooks = [layer.register_forward_hook(hook) for layer in self.layers]
        last = self.model(input_ids=torch.tensor([ids]), attention_mask=mask).last_hidden_state
        for it in hooks:
            it.remove()
        assert torch.allclose(self.norm(outputs[-1]), last, atol=1e-5)
        project = lambda states: torch.nn.functional.normalize(self.project(self.norm(states)[0]), dim=-1)
        return [project(it) for it in outputs]

    def query(self, text: str) -> tuple[list[int], list[torch.Tensor]]:
        ids = self.sequence(text, self.markers[0], QUERY_TOKENS)
        own = len(ids)
        if self.expands:
            ids = ids + [self.tokenizer.mask_token_id] * (QUERY_TOKENS - own)
        return ids, self.vectors(ids, len(ids) if self.attends else own)

    def text(self, text: str) -> tuple[list[int], list[torch.Tensor]]:
        ids = self.sequence(text, self.markers[1], TEXT_TOKENS)
        kept = torch.tensor([it not in self.skipped for it in ids])
        return ids, [it[kept] for it in self.vectors(ids, len(ids))]

    def scores(self, query: list[torch.Tensor], text: list[torch.Tensor]) -> list[torch.Tensor]:
        """The mean of the best cosines, as odds: ln((1 + m) / (1 − m))."""
        means = [(q @ t.T).max(dim=1).values.mean() for q, t in zip(query, text)]
        return [torch.log((1 + it) / (1 - it)) for it in means]

    def write(self, directory: Path) -> None:
        cases = []
        for query, text in PAIRS:
            query_ids, of_query = self.query(query)
            ids, of_text = self.text(text)
            case = {"query": query, "text": text, "query_ids": query_ids, "input_ids": ids}
            case["scores"] = rounded(self.scores(of_query, of_text))
            if self.expands:
                # The same model, were its masks seen.
                self.attends = not self.attends
                case["attending"] = rounded(self.scores(self.query(query)[1], of_text))
                self.attends = not self.attends
            cases.append(case)
        (directory / "expected.json").write_text(
            json.dumps({"max_tokens": TEXT_TOKENS, "cases": cases}, ensure_ascii=False)
        )


@torch.no_grad()
def bert_colbert() -> None:
    """As colbertv2.0 and answerai-colbert-small-v1 are published."""
    directory = HERE / "tiny-bert-colbert"
    shutil.rmtree(directory, ignore_errors=True)
    tokenizer = with_unused(directory)
    torch.manual_seed(61)
    model = BertModel(make_config(len(tokenizer)), add_pooling_layer=False).eval()
    stir(model)
    projection = torch.nn.Linear(32, 12, bias=False)
    model.save_pretrained(directory)
    file = directory / "model.safetensors"
    tensors = {f"bert.{name}": tensor for name, tensor in load_file(file).items()}
    save_file({**tensors, "linear.weight": projection.weight.data}, file, metadata={"format": "pt"})
    path = directory / "config.json"
    config = json.loads(path.read_text())
    config["architectures"] = ["HF_ColBERT"]
    path.write_text(json.dumps(config, indent=2) + "\n")
    metadata = {
        "query_token_id": "[unused0]", "doc_token_id": "[unused1]", "query_token": "[Q]", "doc_token": "[D]",
        "query_maxlen": QUERY_TOKENS, "doc_maxlen": TEXT_TOKENS, "mask_punctuation": True,
        "attend_to_mask_tokens": False, "similarity": "cosine", "dim": 12,
    }
    (directory / "artifact.metadata").write_text(json.dumps(metadata, indent=2) + "\n")
    norm = torch.nn.Identity()
    markers = ("[unused0]", "[unused1]")
    Late(model, model.encoder.layer, norm, tokenizer, projection, markers, True, False).write(directory)


class Residual(torch.nn.Module):
    """PyLate's `Dense` with a residual."""

    def __init__(self, inputs: int, outputs: int, activation: torch.nn.Module):
        super().__init__()
        self.linear = torch.nn.Linear(inputs, outputs)
        self.residual = torch.nn.Linear(inputs, outputs, bias=False)
        self.activation = activation

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.activation(self.linear(states)) + self.residual(states)


@torch.no_grad()
def modernbert_colbert(name: str, seed: int, expands: bool) -> None:
    """As PyLate saves: of LateOn's shape without expansion, of GTE-ModernColBERT's with."""
    directory = HERE / name
    shutil.rmtree(directory, ignore_errors=True)
    tokenizer = make_modernbert_tokenizer(directory)
    tokenizer.add_tokens(["[Q] ", "[D] "])
    tokenizer.save_pretrained(directory)
    torch.manual_seed(seed)
    config = modernbert_config(tokenizer)
    # Masks that reach no key in a local layer would have no defined value.
    config.local_attention = 32 if expands else 8
    config.sliding_window = config.local_attention // 2
    model = ModernBertModel(config).eval()
    stir(model)
    model.save_pretrained(directory)
    path = directory / "config.json"
    config = json.loads(path.read_text())
    config["local_attention"] = 32 if expands else 8
    path.write_text(json.dumps(config, indent=2) + "\n")
    if expands:
        projections = [torch.nn.Linear(32, 12, bias=False)]
    else:
        projections = [Residual(32, 24, torch.nn.GELU()), torch.nn.Linear(24, 10, bias=False)]
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
    for number, projection in enumerate(projections, 1):
        folder = directory / f"{number}_Dense"
        folder.mkdir()
        modules.append({
            "idx": number, "name": str(number), "path": folder.name, "type": "pylate.models.Dense.Dense",
        })
        residual = isinstance(projection, Residual)
        linear = projection.linear if residual else projection
        dense = {
            "in_features": linear.in_features, "out_features": linear.out_features, "bias": linear.bias is not None,
            "activation_function": "torch.nn.modules." + ("activation.GELU" if residual else "linear.Identity"),
        }
        if residual:
            dense["use_residual"] = True
        tensors = {f"linear.{key}": value.data for key, value in linear.named_parameters()}
        if residual:
            tensors["residual.weight"] = projection.residual.weight.data
        (folder / "config.json").write_text(json.dumps(dense, indent=2) + "\n")
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (directory / "modules.json").write_text(json.dumps(modules, indent=2) + "\n")
    settings = {
        "model_type": "ColBERT", "similarity_fn_name": "MaxSim", "query_prefix": "[Q] ", "document_prefix": "[D] ",
        "query_length": QUERY_TOKENS, "document_length": TEXT_TOKENS, "attend_to_expansion_tokens": False,
        "skiplist_words": list(string.punctuation), "do_query_expansion": expands,
    }
    (directory / "config_sentence_transformers.json").write_text(json.dumps(settings, indent=2) + "\n")
    project = torch.nn.Sequential(*projections)
    markers = ("[Q] ", "[D] ")
    Late(model, model.layers, model.final_norm, tokenizer, project, markers, expands, False).write(directory)


# --- GTE: Zhang et al. 2024 (https://arxiv.org/abs/2407.19669), section 2. `transformers` has the layers, under other
# names and without the stretched positions of the published configuration.

STRETCH = 8.0


def gte_names(name: str, tensors: dict) -> tuple[str, torch.Tensor] | None:
    """The published name of a tensor, and what is fused under it."""
    tensor = tensors[name]
    if name.startswith("classifier."):
        return name, tensor
    name = name.removeprefix("gte.")
    for ours, theirs in [
        ("layers.", "encoder.layer."), ("self_attn.o_proj", "attention.o_proj"),
        ("post_attention_layernorm", "attn_ln"), ("post_mlp_layernorm", "mlp_ln"),
    ]:
        name = name.replace(ours, theirs)
    fuse = lambda *parts: torch.cat([tensors[f"gte.{it}"] for it in parts])
    original = lambda part: name.replace("encoder.layer.", "layers.").replace("q_proj", part)
    if "self_attn.q_proj" in name:
        return "new." + name.replace("self_attn.q_proj", "attention.qkv_proj"), fuse(
            *(original(it) for it in ("q_proj", "k_proj", "v_proj"))
        )
    if "mlp.up_proj" in name:
        gate = name.replace("encoder.layer.", "layers.").replace("up_proj", "gate_proj")
        up = gate.replace("gate_proj", "up_proj")
        return "new." + name.replace("up_proj", "up_gate_proj"), fuse(up, gate)
    if any(it in name for it in ("k_proj", "v_proj", "gate_proj")):
        return None
    return "new." + name, tensor


@torch.no_grad()
def gte_reranker() -> None:
    """As gte-multilingual-reranker-base is published."""
    directory = HERE / "tiny-gte-reranker"
    shutil.rmtree(directory, ignore_errors=True)
    tokenizer = make_unigram_tokenizer(directory)
    torch.manual_seed(64)
    model = GteForSequenceClassification(GteConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=MAX_TOKENS, type_vocab_size=1, layer_norm_eps=1e-12, pad_token_id=1, num_labels=1,
        initializer_range=0.2, rope_parameters={"rope_type": "default", "rope_theta": 20000.0},
        attn_implementation="eager",
    )).eval()
    stir(model)
    # Fixed NTK (https://kexue.fm/archives/9706, equation 6): base and frequencies are both scaled.
    dim = 8
    base = 20000.0 * STRETCH
    frequencies = 1.0 / base ** (torch.arange(0, dim, 2).float() / dim) / STRETCH ** (2 / dim)
    assert not torch.allclose(frequencies, model.gte.rotary_emb.inv_freq)
    model.gte.rotary_emb.inv_freq.copy_(frequencies)
    tensors = model.state_dict()
    named = [gte_names(it, tensors) for it in tensors]
    save_file(
        {it[0]: it[1].contiguous() for it in named if it}, directory / "model.safetensors", metadata={"format": "pt"}
    )
    code = "Alibaba-NLP/new-impl--"
    config = {
        "architectures": ["NewForSequenceClassification"],
        "auto_map": {
            "AutoConfig": f"{code}configuration.NewConfig", "AutoModel": f"{code}modeling.NewModel",
            "AutoModelForSequenceClassification": f"{code}modeling.NewForSequenceClassification",
        },
        "model_type": "new", "vocab_size": len(tokenizer), "hidden_size": 32, "num_hidden_layers": 4,
        "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": MAX_TOKENS,
        "type_vocab_size": 1, "layer_norm_eps": 1e-12, "layer_norm_type": "layer_norm", "hidden_act": "gelu",
        "pad_token_id": 1, "position_embedding_type": "rope", "rope_theta": 20000,
        "rope_scaling": {"factor": STRETCH, "type": "ntk"}, "pack_qkv": True, "logn_attention_scale": False,
        "id2label": {"0": "LABEL_0"},
    }
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    cases = []
    for query, text in PAIRS:
        inputs = tokenizer([query], [text], truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
        outputs, logits = layer_outputs(model, model.gte.layers, inputs)
        scores = [model.classifier(model.gte.pooler(it))[0, 0] for it in outputs]
        assert torch.allclose(scores[-1], logits[0, 0], atol=1e-5)
        cases.append({
            "query": query, "text": text, "input_ids": inputs["input_ids"][0].tolist(), "scores": rounded(scores),
        })
    (directory / "expected.json").write_text(json.dumps({"max_tokens": MAX_TOKENS, "cases": cases}, ensure_ascii=False))


# --- DeBERTa, whose class `transformers` has.


def deberta_tokenizer(directory: Path) -> PreTrainedTokenizerFast:
    """Pieces, special tokens, normalizers and template as DeBERTa 3 has them."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Replace(Regex(r"\s{2,}|[\n\r\t]"), " "), normalizers.NFC(),
        normalizers.Strip(left=False, right=True),
    ])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=special, unk_token="[UNK]", show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(it, tokenizer.token_to_id(it)) for it in ("[CLS]", "[SEP]")],
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=MAX_TOKENS, pad_token="[PAD]", unk_token="[UNK]",
        cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    fast.save_pretrained(directory)
    return fast


@torch.no_grad()
def deberta(name: str, seed: int, **more) -> None:
    directory = HERE / name
    shutil.rmtree(directory, ignore_errors=True)
    tokenizer = deberta_tokenizer(directory)
    torch.manual_seed(seed)
    model = DebertaV2ForSequenceClassification(DebertaV2Config(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=MAX_TOKENS, relative_attention=True, share_att_key=True, position_biased_input=False,
        norm_rel_ebd="layer_norm", initializer_range=0.3, pad_token_id=0, num_labels=1, pooler_hidden_act="gelu",
        **more,
    )).eval()
    stir(model)
    model.save_pretrained(directory)
    cases = []
    for query, text in PAIRS:
        inputs = tokenizer([query], [text], truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
        output = model(**inputs, output_hidden_states=True)
        hidden = model.deberta(**inputs, output_hidden_states=True).hidden_states
        scores = [model.classifier(model.pooler(it))[0, 0] for it in hidden[1:]]
        assert torch.allclose(scores[-1], output.logits[0, 0], atol=1e-5)
        cases.append({
            "query": query, "text": text, "input_ids": inputs["input_ids"][0].tolist(),
            "token_type_ids": inputs["token_type_ids"][0].tolist(), "scores": rounded(scores),
        })
    (directory / "expected.json").write_text(json.dumps({"max_tokens": MAX_TOKENS, "cases": cases}, ensure_ascii=False))


# --- RoBERTa, whose class `transformers` has: XLM-RoBERTa's layers, and GPT-2's pieces of bytes.


def roberta_tokenizer(directory: Path) -> PreTrainedTokenizerFast:
    """Byte-level pieces, special tokens and template as RoBERTa has them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=340, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False,
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=MAX_TOKENS, pad_token="<pad>", unk_token="<unk>",
        bos_token="<s>", cls_token="<s>", sep_token="</s>", eos_token="</s>", mask_token="<mask>",
        model_input_names=["input_ids", "attention_mask"],
    )
    fast.save_pretrained(directory)
    return fast


@torch.no_grad()
def roberta_cross_encoder() -> None:
    """As stsb-roberta-base and quora-roberta-base are published."""
    directory = HERE / "tiny-roberta-cross-encoder"
    shutil.rmtree(directory, ignore_errors=True)
    tokenizer = roberta_tokenizer(directory)
    torch.manual_seed(73)
    model = RobertaForSequenceClassification(RobertaConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=MAX_TOKENS + 2, pad_token_id=1, bos_token_id=0, eos_token_id=2, type_vocab_size=1,
        layer_norm_eps=1e-5, initializer_range=0.3, attn_implementation="eager", num_labels=1,
    )).eval()
    stir(model)
    model.save_pretrained(directory)
    cases = []
    for query, text in PAIRS + [("Where is the boat?", "Bread <pad> and boats")]:
        inputs = tokenizer([query], [text], truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
        hidden = model.roberta(**inputs, output_hidden_states=True).hidden_states
        scores = [model.classifier(it)[0, 0] for it in hidden[1:]]
        assert torch.allclose(scores[-1], model(**inputs).logits[0, 0])
        cases.append({
            "query": query, "text": text, "input_ids": inputs["input_ids"][0].tolist(),
            "token_type_ids": [0] * inputs["input_ids"].shape[1], "scores": rounded(scores),
        })
    (directory / "expected.json").write_text(json.dumps({"max_tokens": MAX_TOKENS, "cases": cases}, ensure_ascii=False))


# --- jina-reranker-v2: XLM-RoBERTa's layers, named as a program for flash attention names them.


@torch.no_grad()
def fused_xlm_roberta() -> None:
    """As jina-reranker-v2-base-multilingual is published."""
    directory = HERE / "tiny-xlm-roberta-fused-cross-encoder"
    shutil.rmtree(directory, ignore_errors=True)
    tokenizer = make_unigram_tokenizer(directory)
    torch.manual_seed(67)
    settings = dict(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=MAX_TOKENS + 2, pad_token_id=1, bos_token_id=0, eos_token_id=2, type_vocab_size=1,
        layer_norm_eps=1e-5,
    )
    model = XLMRobertaForSequenceClassification(XLMRobertaConfig(
        **settings, initializer_range=0.3, attn_implementation="eager", num_labels=1,
    )).eval()
    stir(model)
    tensors, fused = model.state_dict(), {}
    for name, tensor in tensors.items():
        if "attention.self.query" in name:
            parts = [tensors[name.replace("query", it)] for it in ("query", "key", "value")]
            name, tensor = name.replace("attention.self.query", "mixer.Wqkv"), torch.cat(parts)
        elif "attention.self." in name or "position_ids" in name:
            continue
        for theirs, ours in [
            ("embeddings.LayerNorm", "emb_ln"), ("attention.output.LayerNorm", "norm1"),
            ("attention.output.dense", "mixer.out_proj"), ("intermediate.dense", "mlp.fc1"),
            ("output.LayerNorm", "norm2"), ("output.dense", "mlp.fc2"), ("encoder.layer.", "encoder.layers."),
        ]:
            name = name.replace(theirs, ours)
        fused[name] = tensor.contiguous()
    save_file(fused, directory / "model.safetensors", metadata={"format": "pt"})
    code = "modeling_xlm_roberta."
    config = {
        "architectures": ["XLMRobertaForSequenceClassification"],
        "auto_map": {
            "AutoConfig": "configuration_xlm_roberta.XLMRobertaFlashConfig", "AutoModel": f"{code}XLMRobertaModel",
            "AutoModelForSequenceClassification": f"{code}XLMRobertaForSequenceClassification",
        },
        "hidden_act": "gelu", "position_embedding_type": "absolute", "use_flash_attn": True, "emb_pooler": None,
        "id2label": {"0": "LABEL_0"}, **settings,
    }
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    cases = []
    for query, text in PAIRS:
        inputs = tokenizer([query], [text], truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
        hidden = model.roberta(**inputs, output_hidden_states=True).hidden_states
        scores = [model.classifier(it)[0, 0] for it in hidden[1:]]
        assert torch.allclose(scores[-1], model(**inputs).logits[0, 0])
        cases.append({
            "query": query, "text": text, "input_ids": inputs["input_ids"][0].tolist(),
            "token_type_ids": [0] * inputs["input_ids"].shape[1], "scores": rounded(scores),
        })
    (directory / "expected.json").write_text(json.dumps({"max_tokens": MAX_TOKENS, "cases": cases}, ensure_ascii=False))


# --- zerank: Pipitone et al. 2025 (https://arxiv.org/abs/2509.12541). The query is the chat's system message, the text
# the user's; the score is the logit of "Yes" behind them, and a fifth of it is what its probability is made of. Modules as
# sentence-transformers saves them.

ZERANK_TEMPLATE = (
    "{%- for message in messages %}{{- '<|im_start|>' + {'query': 'system', 'document': 'user'}[message['role']] + '\n' "
    "+ message['content'] | trim + '<|im_end|>\n' }}{%- endfor %}{{- '<|im_start|>assistant\n' }}"
)
ZERANK_PARTS = ("<|im_start|>system\n", "<|im_end|>\n<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n")
ZERANK_TOKENS = 120


@torch.no_grad()
def zerank() -> None:
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.cross_encoder.modules import LogitScore

    directory = HERE / "tiny-zerank-reranker"
    shutil.rmtree(directory, ignore_errors=True)
    tokenizer = make_qwen3_tokenizer(directory)
    tokenizer.chat_template = ZERANK_TEMPLATE
    tokenizer.save_pretrained(directory)
    torch.manual_seed(71)
    model = Qwen3ForCausalLM(Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
        head_dim=16, intermediate_size=64, max_position_embeddings=QWEN3_MAX_TOKENS, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6}, initializer_range=0.3,
        bos_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id, attn_implementation="eager",
    )).eval()
    stir(model)
    model.save_pretrained(directory)
    (directory / "generation_config.json").unlink(missing_ok=True)
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False)
    yes = encode("Yes")[0]
    begin, middle, end = (encode(it) for it in ZERANK_PARTS)
    room = ZERANK_TOKENS - len(begin) - len(middle) - len(end)
    reference = CrossEncoder(modules=[
        Transformer(str(directory), transformer_task="text-generation", module_output_name="causal_logits"),
        LogitScore(yes),
    ], device="cpu")
    cases = []
    for query, text in PAIRS:
        # As its program cuts them: by letters, 2 000 and 10 000; what is longer than the model then, by tokens.
        query_ids = encode(query[:2000].strip())[:room * 3 // 4]
        text_ids = encode(text[:10000].strip())
        ids = begin + query_ids + middle + text_ids[:room - len(query_ids)] + end
        outputs, logits = layer_outputs(model, model.model.layers, {"input_ids": torch.tensor([ids])})
        scores = [model.lm_head(model.model.norm(it[0, -1]))[yes] / 5 for it in outputs]
        assert torch.allclose(scores[-1], logits[0, -1, yes] / 5, atol=1e-5)
        whole = len(encode(query)) == len(query_ids) and len(text_ids) + len(query_ids) <= room
        if whole and query and text:
            said = reference.predict([(query, text)], activation_fn=torch.nn.Identity())[0]
            assert abs(said / 5 - scores[-1]) < 1e-4, (said, scores[-1])
        cases.append({"query": query, "text": text, "input_ids": ids, "scores": rounded(scores)})
    reference.save_pretrained(str(directory))
    for name in ("README.md", "generation_config.json"):
        (directory / name).unlink(missing_ok=True)
    (directory / "expected.json").write_text(
        json.dumps({"max_tokens": ZERANK_TOKENS, "cases": cases}, ensure_ascii=False)
    )


MODELS = {
    "tiny-zerank-reranker": zerank,
    "tiny-xlm-roberta-fused-cross-encoder": fused_xlm_roberta,
    # As deberta-v3 is published: distances are told apart by their logarithm, all texts are of one kind. Then the
    # other settings: each distance a row, one part, kinds of texts.
    "tiny-deberta-cross-encoder": lambda: deberta(
        "tiny-deberta-cross-encoder", 65, position_buckets=8, pos_att_type=["p2c", "c2p"], type_vocab_size=0,
    ),
    "tiny-deberta-c2p-cross-encoder": lambda: deberta(
        "tiny-deberta-c2p-cross-encoder", 66, position_buckets=-1, max_relative_positions=12, pos_att_type=["c2p"],
        type_vocab_size=2,
    ),
    "tiny-roberta-cross-encoder": roberta_cross_encoder,
    "tiny-gte-reranker": gte_reranker,
    "tiny-bert-colbert": bert_colbert,
    "tiny-modernbert-colbert": lambda: modernbert_colbert("tiny-modernbert-colbert", 62, expands=True),
    "tiny-modernbert-late": lambda: modernbert_colbert("tiny-modernbert-late", 63, expands=False),
}


if __name__ == "__main__":
    assert TEXT_TOKENS < MAX_TOKENS
    for name in sys.argv[1:] or MODELS:
        MODELS[name]()
