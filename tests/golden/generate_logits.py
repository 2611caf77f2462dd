"""Logits of tiny language models of random weights, by llama.cpp: the golden values of crates/llm/tests/golden.rs.

The models are those of `riddle bench prepare-language`, the same bytes on every machine. llama.cpp computes each twice: as it is,
and with its weights widened to f32. Where weights are quantized it rounds activations to bytes, and so do we; which way a
number near the middle is rounded depends on the order of sums before, so that no two programs, and no two settings of one,
agree to the last digit. Kept beside: llama.cpp's own cosine to the second, and how it agrees with itself when it computes
attention in its other way (`flash_attn`).

    python tests/golden/generate_logits.py RIDDLE   # with the packages of requirements-language.txt
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import llama_cpp
import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import dequantize

MODELS = ["tiny-llama", "tiny-qwen2", "tiny-qwen3", "tiny-qwen3-moe", "tiny-mixtral", "tiny-glm4", "tiny-lfm2"]
FORMATS = ["f16", "q8_0", "q4_0", "q4_k", "q6_k"]
TOKENS = 16
OUT = Path(__file__).parent / "language-logits"


def widen(source: Path, target: Path) -> None:
    """Writes the model with all weights as f32."""
    reader = GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = GGUFWriter(target, architecture)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        if field.types[0] == GGUFValueType.ARRAY:
            writer.add_array(key, field.contents())
        else:
            writer.add_key_value(key, field.contents(), field.types[0])
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def logits(path: Path, tokens: list[int], **options) -> np.ndarray:
    model = llama_cpp.Llama(str(path), n_ctx=64, logits_all=True, verbose=False, n_threads=2, **options)
    for token in tokens:
        model.eval([token])
    return np.array(model.scores[: len(tokens)], dtype=np.float32)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    products = (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))
    return float(products.min())


def main() -> None:
    riddle = sys.argv[1]
    OUT.mkdir(exist_ok=True)
    tokens = [int(it) for it in np.random.default_rng(7).integers(0, 256, TOKENS)]
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            for form in FORMATS:
                command = [riddle, "bench", "prepare-language", model, "--dtype", form, "--dir", folder, "--json"]
                answer = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
                source, wide = Path(answer["model"]), Path(folder) / "wide.gguf"
                widen(source, wide)
                exact, theirs = logits(wide, tokens), logits(source, tokens)
                name = f"{model}-{form}"
                exact.astype(np.float16).tofile(OUT / f"{name}.f16")
                theirs.astype(np.float16).tofile(OUT / f"{name}-llama-cpp.f16")
                other = logits(source, tokens, flash_attn=True)
                itself = {"cosine": round(cosine(theirs, other), 6), "top_1": int((theirs.argmax(1) == other.argmax(1)).sum())}
                cases.append({"model": model, "format": form, "llama_cpp_cosine": round(cosine(theirs, exact), 6), "llama_cpp_itself": itself})
                print(cases[-1])
    expected = {"tokens": tokens, "llama_cpp_python": llama_cpp.__version__, "cases": cases}
    (OUT / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


main()
