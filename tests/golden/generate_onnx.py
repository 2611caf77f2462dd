"""Writes a tiny ONNX embedding model and its golden vectors, computed by ONNX Runtime.

    venv/bin/pip install onnx numpy onnxruntime tokenizers
    venv/bin/python generate_onnx.py      (after generate.py: the tokenizer is that of the tiny encoder)
"""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer

HERE = Path(__file__).parent
SOURCE = HERE / "tiny-bert-encoder"
TARGET = HERE / "tiny-onnx"
EXTERNAL = HERE / "tiny-onnx-external"
WIDTH = 24


def main() -> None:
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(SOURCE / name, TARGET / name)
    (TARGET / "config.json").write_text(json.dumps({"model_type": "bert", "pad_token_id": 0, "hidden_size": WIDTH}))
    tokenizer = Tokenizer.from_file(str(TARGET / "tokenizer.json"))
    random = np.random.default_rng(22)
    table = random.normal(size=(tokenizer.get_vocab_size(), WIDTH)).astype(np.float32)
    mixing = random.normal(size=(WIDTH, WIDTH)).astype(np.float32)
    # Per token: tanh(embedding · mixing); pooling is the caller's, as in real models.
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("MatMul", ["rows", "mixing"], ["mixed"]),
        helper.make_node("Tanh", ["mixed"], ["activated"]),
        # The mask must be an input that is used: real models take it.
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["column"]),
        helper.make_node("Mul", ["activated", "column"], ["last_hidden_state"]),
    ]
    shape = ["batch", "tokens"]
    graph = helper.make_graph(
        nodes, "tiny",
        [helper.make_tensor_value_info(it, TensorProto.INT64, shape) for it in ("input_ids", "attention_mask")],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, shape + [WIDTH])],
        [
            numpy_helper.from_array(table, "table"), numpy_helper.from_array(mixing, "mixing"),
            numpy_helper.from_array(np.array([2], dtype=np.int64), "last"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, TARGET / "model.onnx")
    # The same graph as models above 2 GB are published: numbers in a file beside it.
    shutil.rmtree(EXTERNAL, ignore_errors=True)
    EXTERNAL.mkdir()
    outside = onnx.ModelProto()
    outside.CopyFrom(model)
    onnx.save(
        outside, EXTERNAL / "model.onnx", save_as_external_data=True, location="model.onnx_data", size_threshold=64,
    )
    session = onnxruntime.InferenceSession(str(TARGET / "model.onnx"))
    cases = []
    for text in ["The lock gate opens at eight.", "Bread", "Das Boot liegt im Trockendock.", "船は青い色です。"]:
        ids = np.array([tokenizer.encode(text).ids], dtype=np.int64)
        hidden = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0][0]
        vector = hidden.mean(axis=0)
        vector /= np.linalg.norm(vector)
        cases.append({"text": text, "vector": [round(float(it), 6) for it in vector]})
    (TARGET / "expected.json").write_text(json.dumps({"cases": cases}, ensure_ascii=False))


if __name__ == "__main__":
    main()
