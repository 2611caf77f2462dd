"""The package, installed: `python -m unittest crates/python/tests/test_reranker.py`. Needs nothing but it and numpy;
the adapters of the guide are asked where LangChain and LlamaIndex are installed."""

import importlib.util
import os
import pathlib
import pickle
import re
import signal
import sys
import tempfile
import threading
import time
import unittest
import warnings

import numpy as np

import riddle_rerank
from riddle_rerank import Reranker

ROOT = pathlib.Path(__file__).resolve().parents[3]
TINY = ROOT / "tests/golden/tiny-bert-cross-encoder"
TEXTS = [
    "The rye loaf rests for twelve hours.",
    "The hull of the boat is painted blue.",
    "It rained in the afternoon.",
    "A mooring for the winter costs 640 euros.",
]


class Package(unittest.TestCase):
    def test_documents_are_ranked_as_a_cross_encoder_does(self):
        reranker = Reranker()
        ranked = reranker.rank("Which color has the boat?", TEXTS, top_k=2, return_documents=True)
        self.assertEqual([sorted(it) for it in ranked], [["corpus_id", "score", "text"]] * 2)
        self.assertEqual(ranked[0]["corpus_id"], 1)
        self.assertEqual(ranked[0]["text"], TEXTS[1])
        self.assertGreater(ranked[0]["score"], ranked[1]["score"])
        self.assertEqual(len(reranker.rank("q", TEXTS)), 4)
        self.assertEqual(len(reranker.rank("q", iter(TEXTS), top_k=99)), 4)
        self.assertEqual(reranker.rank("q", []), [])
        self.assertEqual((reranker.model, reranker.num_layers), ("riddle-reranker", 4))

    def test_pairs_have_scores_in_their_order(self):
        reranker = Reranker(TINY)
        pairs = [(query, text) for text in TEXTS for query in ("blue", "rye")]
        scores = reranker.predict(pairs, batch_size=32, show_progress_bar=False)
        self.assertEqual((scores.dtype, scores.shape), (np.dtype("float32"), (8,)))
        scores[0] += 0
        for at, query in enumerate(("blue", "rye")):
            for place in reranker.rank(query, TEXTS):
                self.assertAlmostEqual(scores[2 * place["corpus_id"] + at], place["score"], places=6)
        one = reranker.predict(("blue", TEXTS[0]))
        self.assertIsInstance(one, np.float32)
        self.assertAlmostEqual(one, scores[0], places=6)
        logits = reranker.predict([list(it) for it in pairs], raw_scores=True)
        np.testing.assert_allclose(1 / (1 + np.exp(-logits)), scores, atol=1e-6)
        self.assertEqual(reranker.predict([]).shape, (0,))

    def test_a_budget_holds_or_says_what_would(self):
        within = Reranker(memory_budget="1GiB", mode="off").rank("Which hull?", TEXTS)
        self.assertEqual(within, Reranker(mode="off").rank("Which hull?", TEXTS))
        with self.assertRaisesRegex(MemoryError, "at least"):
            Reranker(memory_budget=1 << 20).rank("Which hull?", TEXTS)

    def test_a_precision_is_kept_or_said_not_to_be(self):
        texts = [f"Page {it}: {TEXTS[it % 4]}" for it in range(24)]
        # Six of them answer; which of those comes first mode set does not promise.
        for reranker in (Reranker(mode="off"), Reranker(precision=0.95), Reranker()):
            ranked = reranker.rank("Which color has the boat?", texts, top_k=5)
            self.assertEqual({it["corpus_id"] % 4 for it in ranked}, {1}, reranker)
        with self.assertWarnsRegex(UserWarning, "nobody was left out"):
            Reranker(precision=0.95).rank("Which hull?", texts * 3, top_k=60)

    def test_errors_are_of_pythons_own_kinds_and_say_what_helps(self):
        for error, words, call in [
            (FileNotFoundError, "config.json", lambda: Reranker("/nowhere")),
            (FileNotFoundError, "rerank-v9", lambda: Reranker("rerank-v9", models_dir=TINY.parent)),
            (ValueError, "off, set or order", lambda: Reranker(mode="never")),
            (ValueError, "no calibration", lambda: Reranker(TINY, precision=0.9)),
            (ValueError, "above 0 and below 1", lambda: Reranker(precision=2)),
            (ValueError, "250MiB", lambda: Reranker(memory_budget="much")),
            (ValueError, "query is empty", lambda: Reranker(TINY).rank(" ", TEXTS)),
            (ValueError, "top_k is -1", lambda: Reranker(TINY).rank("q", TEXTS, top_k=-1)),
            (TypeError, "one text", lambda: Reranker(TINY).rank("q", "text")),
            (TypeError, r"documents\[1\]", lambda: Reranker(TINY).rank("q", ["a", None])),
            (ValueError, r"sentences\[0\]", lambda: Reranker(TINY).predict([("a",)])),
            (TypeError, "convert_to_tensor", lambda: Reranker(TINY).predict([], convert_to_tensor=True)),
            (UnicodeEncodeError, "surrogate", lambda: Reranker(TINY).rank("q", ["\ud800"])),
        ]:
            with self.subTest(words), self.assertRaisesRegex(error, words):
                call()

    def test_others_run_while_it_computes(self):
        reranker = Reranker(threads=1)
        texts = [" ".join(TEXTS) * 4] * 200
        turns, done = 0, threading.Event()

        def work():
            reranker.rank("Which color has the boat?", texts)
            done.set()

        threading.Thread(target=work).start()
        while not done.is_set():
            turns += 1
            time.sleep(0.001)
        self.assertGreater(turns, 20)

    @unittest.skipUnless(hasattr(signal, "setitimer"), "SKIPPED: no timers on this system")
    def test_ctrl_c_stops_it(self):
        reranker = Reranker(threads=1)
        texts = [" ".join(TEXTS) * 8] * 400
        started = time.monotonic()
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            with self.assertRaises(KeyboardInterrupt):
                while time.monotonic() < started + 60:
                    reranker.rank("Which color has the boat?", texts)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertEqual(reranker.rank("boat?", TEXTS[:1])[0]["corpus_id"], 0)

    def test_it_travels_by_pickle_and_not_by_fork(self):
        reranker = Reranker(TINY, mode="off")
        twin = pickle.loads(pickle.dumps(reranker))
        self.assertEqual(twin.rank("boat", TEXTS), reranker.rank("boat", TEXTS))
        self.assertIn("mode='off'", repr(twin))
        if not hasattr(os, "fork"):
            self.skipTest("SKIPPED: no fork on this system")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            child = os.fork()
        if child == 0:
            try:
                reranker.rank("boat", TEXTS)
            except RuntimeError as error:
                os._exit(0 if "fork" in str(error) else 2)
            os._exit(1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)


class Guide(unittest.TestCase):
    """Every example in Python of the guide's page, run."""

    def test_the_examples_of_the_guide_run(self):
        page = (ROOT / "docs/guide/python.md").read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)
        self.assertGreaterEqual(len(blocks), 4)
        ran = 0
        for block in blocks:
            needed = re.findall(r"^(?:from|import) (\w+)", block, re.M)
            missing = [it for it in needed if importlib.util.find_spec(it) is None]
            if missing:
                print(f"SKIPPED: {missing[0]} is not installed: its example of the guide was not run", file=sys.stderr)
                continue
            with tempfile.TemporaryDirectory() as folder:
                here = os.getcwd()
                os.chdir(folder)
                try:
                    exec(compile(block, "docs/guide/python.md", "exec"), {"__name__": "guide"})
                finally:
                    os.chdir(here)
            ran += 1
        print(f"ok: {ran} of {len(blocks)} examples of the guide, riddle-rerank {riddle_rerank.__version__}")
        self.assertGreaterEqual(ran, 2)


if __name__ == "__main__":
    unittest.main()
