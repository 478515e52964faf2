#!/usr/bin/env python3
"""ResNet-20 on CIFAR-10 with weights and activations of few bits: in float32, quantized after
training, and trained on with these integers from the scores of the float32 model.

    bench/few_bits.py [--data ../shared/data] [--evoq build/release/bin/evoq] [--bits 4]
                      [--seeds 1 2 3] [--threads 2] [--json F] [-- options of evoq train]

The data folder has models/resnet20_cifar10.onnx with its .preprocess.json, and cifar10/ with
train_5000.bin and test_1000.bin: 5000 samples to train on, a tenth of CIFAR-10, and 1000 to test
on, of which one is 0.1 points. Prints the share that each model has right, in %, and on how many
samples the scores of the simulation are those of the compiled model.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BAR = 1  # the most points that a trained model may lose
RECIPE = ["--epochs", "3", "--lr", "0.0001", "--augment", "shift=4", "--augment", "flip"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    option = parser.add_argument
    option("--evoq", default=str(ROOT / "build/release/bin/evoq"))
    option("--data", type=pathlib.Path, default=ROOT / "../shared/data")
    option("--bits", type=int, default=4, choices=[2, 4])
    option("--seeds", type=int, nargs="+", default=[1, 2, 3])
    option("--threads", type=int, default=2)
    option("--json", help="also write the figures to this file")
    option("more", nargs="*", help="options of evoq train, behind --")
    args = parser.parse_args()
    model = args.data / "models/resnet20_cifar10.onnx"
    prepared = ["--preprocess", model.with_suffix(".preprocess.json")]
    prepared += ["--threads", args.threads]
    samples = {name: args.data / f"cifar10/{name}.bin" for name in ("train_5000", "test_1000")}
    few = ["--scheme", "int8", "--weight-bits", args.bits, "--activation-bits", args.bits]

    with tempfile.TemporaryDirectory(prefix="evoq_few_bits_") as name:
        folder = pathlib.Path(name)

        def run(*command):
            words = [args.evoq, *map(str, command), "--json", str(folder / "told.json")]
            done = subprocess.run(words, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{' '.join(words)}: {done.stderr.strip()}")
            return json.loads((folder / "told.json").read_text(encoding="utf-8"))

        def right(path):
            return 100 * run("eval", path, "--data", samples["test_1000"], *prepared)["top1"]

        etm = folder / "few.etm"
        real = right(model)
        calibrated = ["--calib", samples["train_5000"], "--calib-limit", 512]
        run("quantize", model, *few, *calibrated, *prepared, "-o", etm)
        after = right(etm)
        print(f"float32 {real:.2f}%; {args.bits} bits after training {after:.2f}%", flush=True)
        rows = []
        for seed in args.seeds:
            told = run(
                *("train", model, "--data", samples["train_5000"], *prepared, *few),
                *("--test", samples["test_1000"], "--teacher", model, "--distill-share", 1),
                *("--seed", seed, "-o", etm, *RECIPE, *args.more),
            )
            rows.append({"seed": seed, "trained": right(etm), "seconds": told["seconds"]})
            rows[-1]["equal_scores"] = told["agreement"]["scores"]
            row, agreement = rows[-1], told["agreement"]
            print(
                f"seed {seed}: trained {row['trained']:.2f}% in {row['seconds']:.0f} s; scores "
                f"equal on {agreement['scores']} of {agreement['samples']}",
                flush=True,
            )
        lost = real - statistics.median(row["trained"] for row in rows)
        print(
            f"median: {real - after:.2f} points lost after training, {lost:.2f} trained (bar {BAR})"
        )
        if args.json:
            told = {"bits": args.bits, "float": real, "quantized": after, "trained": rows}
            pathlib.Path(args.json).write_text(json.dumps(told, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
