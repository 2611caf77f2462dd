"""`python -m riddle_training prepare|train|prior|export|prune`: see ../README.md."""

from __future__ import annotations

import argparse
import json
import pathlib

from .export import export
from .prepare import prepare
from .prior import fit
from .prune import prune
from .train import train


def main() -> None:
    parser = argparse.ArgumentParser(prog="riddle_training", description=__doc__)
    parser.add_argument("step", choices=["prepare", "train", "prior", "export", "prune"])
    parser.add_argument("--config", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder for everything that is made")
    parser.add_argument("--base", type=pathlib.Path, required=True, help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--data", type=pathlib.Path, help="folder of train.en.jsonl.gz (prepare)")
    parser.add_argument("--riddle", default="riddle", help="the riddle program (prepare)")
    parser.add_argument("--run", default="run", help="name of the run below --work (train, export)")
    parser.add_argument("--start", type=pathlib.Path, help="folder of a model to begin with, such as the one in assets (train)")
    parser.add_argument("--steps", type=int, help="end at this step instead of the configuration's")
    parser.add_argument("--output", type=pathlib.Path, help="folder of the model (export)")
    parser.add_argument("--methods", type=pathlib.Path, help="file of pruning methods (prune)")
    parser.add_argument("--method", help="name of one of them (prune)")
    parser.add_argument("--model", type=pathlib.Path, help="folder of the model to prune (prune)")
    args = parser.parse_args()
    config = json.loads(args.config.read_text())
    if args.steps is not None:
        config["steps"] = args.steps
    prepared, run = args.work / "prepared", args.work / args.run
    if args.step == "prepare":
        if args.data is None:
            parser.error("prepare needs --data")
        before = [json.loads((args.config.parent / name).read_text()) for name in config.get("after", [])]
        prepare(args.data, args.base, args.riddle, config, prepared, before)
    elif args.step == "train":
        train(prepared, args.base, config, run, args.start)
    elif args.step == "prior":
        print(json.dumps(fit(prepared, config, run, args.base), indent=2))
    elif args.step == "prune":
        if not (args.methods and args.method and args.model):
            parser.error("prune needs --methods, --method and --model")
        methods = json.loads(args.methods.read_text())
        if args.method not in methods:
            parser.error(f"{args.methods} has {', '.join(methods)}, not {args.method}")
        prune(prepared, args.model, config, methods[args.method], run)
        # What the finished model's card says of its prior holds for what is left of it.
        card = json.loads((args.model / "config.json").read_text()).get("riddle", config.get("card"))
        export(run, args.base, args.output or run / "model", card)
    else:
        # Without the step `prior` the scale that was trained with.
        fitted = run / "card.json"
        card = json.loads(fitted.read_text())["card"] if fitted.exists() else config.get("card")
        export(run, args.base, args.output or run / "model", card)


if __name__ == "__main__":
    main()
