"""Writes a tiny layerwise MiniCPM reranker and its golden scores, computed by FlagEmbedding, its authors' code.

    python3 -m venv venv-minicpm && venv-minicpm/bin/pip install -r requirements-minicpm.txt
    venv-minicpm/bin/python generate_minicpm.py
"""

import json
import shutil

import torch
from FlagEmbedding.inference.reranker.decoder_only.layerwise import LayerWiseLLMReranker
from FlagEmbedding.inference.reranker.decoder_only.models.configuration_minicpm_reranker import LayerWiseMiniCPMConfig
from FlagEmbedding.inference.reranker.decoder_only.models.modeling_minicpm_reranker import LayerWiseMiniCPMForCausalLM
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import LlamaTokenizerFast

from generate import HERE, PAIRS, TEXTS, rounded, stir

DIRECTORY = HERE / "tiny-minicpm-layerwise"
# Of the passage, with the query: the prompt and the separators are on top of it.
MAX_TOKENS = 64
LAYERS = 6
START_LAYER = 2
PROMPT = (
    "Given a query A and a passage B, determine whether the passage contains an answer to the query "
    "by providing a prediction of either 'Yes' or 'No'."
)


def make_tokenizer() -> LlamaTokenizerFast:
    """Pieces of SentencePiece as a BPE with bytes for the rest: one space goes before every text, no splitting."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=220, show_progress=False)
    # Without the other scripts, which are then spelled in bytes.
    texts = [it for it in TEXTS if it.isascii()] + [f"A: {query} B: " for query, _ in PAIRS] + [PROMPT] * 20
    trained.train_from_iterator(texts, trainer)
    model = json.loads(trained.to_str())["model"]
    special = ["<unk>", "<s>", "</s>"]
    pieces = special + [f"<0x{byte:02X}>" for byte in range(256)] + sorted(model["vocab"], key=model["vocab"].get)
    tokenizer = Tokenizer(models.BPE(
        {piece: number for number, piece in enumerate(pieces)}, [tuple(it) for it in model["merges"]],
        unk_token="<unk>", fuse_unk=True, byte_fallback=True,
    ))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0),
    ])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", pieces.index("<s>"))],
    )
    tokenizer.add_special_tokens([AddedToken(it, normalized=False, special=True) for it in special])
    fast = LlamaTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="</s>",
    )
    fast.save_pretrained(DIRECTORY)
    return fast


def input_ids(tokenizer: LlamaTokenizerFast, query: str, text: str) -> list[int]:
    """One pair as the reference's batches have it, without the padding."""
    query, text, separator, prompt = (
        tokenizer(it, add_special_tokens=False)["input_ids"] for it in (f"A: {query}", f"B: {text}", "\n", PROMPT)
    )
    first = [tokenizer.bos_token_id] + query[: MAX_TOKENS * 3 // 4]
    second = separator + text[:MAX_TOKENS]
    # Only what exceeds the length and the prompt is taken away, from the passage's end.
    length = MAX_TOKENS + len(separator) + len(prompt)
    return first + second[: length - len(first)] + separator + prompt


@torch.no_grad()
def main() -> None:
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    tokenizer = make_tokenizer()
    torch.manual_seed(28)
    model = LayerWiseMiniCPMForCausalLM(LayerWiseMiniCPMConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=LAYERS, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=64, max_position_embeddings=256, rms_norm_eps=1e-5,
        initializer_range=0.3, scale_emb=12, scale_depth=1.4, dim_model_base=16, start_layer=START_LAYER,
        head_multi=True, head_type="simple", tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
    )).eval()
    stir(model)
    model.to(torch.bfloat16).save_pretrained(DIRECTORY)
    (DIRECTORY / "generation_config.json").unlink(missing_ok=True)
    # Without a graphics processor the reference computes in single precision.
    reranker = LayerWiseLLMReranker(
        str(DIRECTORY), use_fp16=True, devices="cpu", max_length=MAX_TOKENS, batch_size=len(PAIRS),
    )
    assert reranker.model.dtype == torch.float32
    layers = list(range(START_LAYER, LAYERS + 1))
    expected = reranker.compute_score(PAIRS, cutoff_layers=layers)
    cases = []
    for number, (query, text) in enumerate(PAIRS):
        ids = input_ids(tokenizer, query, text)
        logits = reranker.model(torch.tensor([ids]), cutoff_layers=layers, use_cache=False, return_dict=True).logits
        scores = [it[0, -1] for it in logits]
        assert torch.allclose(torch.stack(scores), torch.tensor([it[number] for it in expected]), atol=1e-4)
        cases.append({
            "query": query, "text": text, "input_ids": ids,
            # The layers before the first head have no score.
            "scores": [None] * (START_LAYER - 1) + rounded(scores),
        })
    (DIRECTORY / "expected.json").write_text(json.dumps({"max_tokens": MAX_TOKENS, "cases": cases}, ensure_ascii=False))


if __name__ == "__main__":
    main()
