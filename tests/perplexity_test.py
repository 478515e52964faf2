#!/usr/bin/env python3
"""The perplexity of small language models under every scheme that needs no data, of int4 under
the methods that round weights, as a Markdown table, and of int4 that is trained, and by how much it
may exceed the float32 model's. Skips (exit status 77) without the data folder.

    tests/perplexity_test.py [--limit WINDOWS] [--block 32|64|128|channel] [--epochs N]"""

import argparse
import json
import os
import sys
import tempfile

import agree

agree.need_data()

MODELS = {
    "stories260K": ("stories260K.bin", "tok512.bin"),
    "babyllama105": ("babyllama105_model5000.bin", "tok105.vocab"),
}
if agree.SANITIZED:  # ten times as slow: the smaller one
    MODELS = {"stories260K": MODELS["stories260K"]}
# The most of the float32 perplexity, of blocks of 32. A scheme without one fails.
MOST = {
    "bf16": 1.01,
    "int8-weights": 1.005,
    "int8-dynamic": 1.02,
    "int16x8-dynamic": 1.005,
    "int16-dynamic": 1.0001,
    "fp8-weights": 1.02,
    "fp8-e5m2-weights": 1.07,
    "int4-weights": 1.12,
    "int4-dynamic": 1.12,
    "uint4-weights": 1.11,
    "uint4-dynamic": 1.11,
    "nf4-weights": 1.12,
    "nvfp4-weights": 1.15,
    "nvfp4-dynamic": 1.15,
    "mxfp4-weights": 1.25,
    "mxfp4-dynamic": 1.25,
    "int2-weights": 35,
    "int2-dynamic": 35,
}
# Of int4-weights, by method: the text's second half calibrates, windows of the first are evaluated.
MOST_OF_METHODS = {
    "gptq": {"stories260K": 1.1, "babyllama105": 1.025},
    "quantease": {"stories260K": 1.1, "babyllama105": 1.025},
}
# Of int4-weights trained against the float model on the text's second half, two epochs.
MOST_OF_TRAINED = {"stories260K": 1.04}


def told(work, *arguments):
    path = os.path.join(work, "told.json")
    agree.evoq(*arguments, "--json", path)
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def schemes(work):
    """Those that need no data, float32 first."""
    rows = told(work, "list", "schemes")
    names = [row["name"] for row in rows if not row["needs_calibration"]]
    return sorted(names, key=lambda name: name != "float32")


def calibration(work):
    path = os.path.join(work, "calibration.text")
    with open(os.path.join(agree.DATA, "text/tinystories_sample.txt"), "rb") as f:
        text = f.read()
    with open(path, "wb") as f:
        f.write(text[len(text) // 2 :])
    return path


def perplexity(work, model, tokenizer, limit):
    text = os.path.join(agree.DATA, "text/tinystories_sample.txt")
    tokenizer = os.path.join(agree.DATA, "llm", tokenizer)
    common = ["--text", text, "--tokenizer", tokenizer, "--limit", limit]
    return told(work, "eval", model, *common)["perplexity"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=int, default=6, help="windows of each text")
    parser.add_argument("--block", default="32", help="bounds are those of 32")
    parser.add_argument("--epochs", type=int, default=2, help="of the model that is trained")
    options = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as work:
        etm = os.path.join(work, "q.etm")
        print("| scheme |", " | ".join(f"{name} | bytes" for name in MODELS), "|")
        print("|---|" + "---|---|" * len(MODELS))
        exact = {}
        rows = [(scheme, "") for scheme in schemes(work)]
        rows += [("int4-weights", method) for method in MOST_OF_METHODS]
        for scheme, method in rows:
            cells = []
            for name, (checkpoint, tokenizer) in MODELS.items():
                model = os.path.join(agree.DATA, "llm", checkpoint)
                words = ["--scheme", scheme, "--block", options.block]
                if method:
                    tokens = os.path.join(agree.DATA, "llm", tokenizer)
                    words += ["--method", method, "--text", calibration(work)]
                    words += ["--tokenizer", tokens, "--calib-limit", 64]
                agree.evoq("quantize", model, *words, "-o", etm)
                value = perplexity(work, etm, tokenizer, options.limit)
                exact.setdefault(name, value)
                cells += [f"{value:.3f}", str(os.path.getsize(etm))]
                most = MOST_OF_METHODS[method][name] if method else MOST.get(scheme, 1)
                if options.block == "32" and value > most * exact[name]:
                    print(
                        f"FAILED: {name} {scheme} {method}: {value} of {exact[name]}, most {most}"
                    )
                    failures += 1
            told_as = f"{scheme} --method {method}" if method else scheme
            print(f"| `{told_as}` |", " | ".join(cells), "|", flush=True)
        for name, most in {} if agree.SANITIZED else MOST_OF_TRAINED.items():
            model, tokens = (os.path.join(agree.DATA, "llm", file) for file in MODELS[name])
            words = ["--scheme", "int4-weights", "--teacher", model, "--data", calibration(work)]
            words += ["--tokenizer", tokens, "--batch", 16, "--epochs", options.epochs, "-o", etm]
            agree.evoq("train", model, *words)
            windows = max(options.limit, 60)  # fewer say little of what training changes
            value, real = (perplexity(work, m, MODELS[name][1], windows) for m in (etm, model))
            print(f"{name}: `int4-weights`, trained: {value:.3f} of {real:.3f}")
            if value > most * real:
                print(f"FAILED: {name} trained: {value} of {real}, most {most}")
                failures += 1
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
