#!/usr/bin/env python3
"""Transformers in ONNX as exporters write them (tests/exported_lms.py): what `evoq run` gives, as
prompt and behind a past, beside ONNX Runtime and a plain evaluation in float64; and that each
attention, rotary embedding and norm is one step. Skips (exit status 77) where numpy, onnx or
onnxruntime is missing."""

import json
import os
import subprocess
import sys
import tempfile

import agree

agree.need("numpy", "onnx", "onnxruntime")
import exported_lms as exported
import numpy as np
import onnx
import onnxruntime
import tiny_lms as lms

onnxruntime.set_default_logger_severity(4)
NEAR = 5e-6  # of the largest value: float32 sums in another order
RUNS = [(1, 7, 0), (1, 5, 4), (2, 1, 9), (2, 6, 3)]  # batch, tokens, tokens of the past
# What ONNX Runtime asks of GroupQueryAttention, and of MultiHeadAttention.
OF_STYLE = {
    "eager": ("qwen2", {}),
    "sdpa": ("llama", {}),
    "builder": ("llama", {"head_dim": 16}),
    "packed": ("llama", {"head_dim": 16}),
    "fused": ("llama", {"num_key_value_heads": 4}),
    "ai.onnx": ("llama", {}),
}
failures = []


def check(what, holds, detail=""):
    print("ok:" if holds else "FAILED:", what, "" if holds else detail, flush=True)
    if not holds:
        failures.append(what)


def write(work, style):
    """The model's path, its settings and tensors."""
    family, settings = OF_STYLE[style]
    config = lms.config_of(family) | settings
    tensors = lms.tensors_of(config)
    path = os.path.join(work, style + ".onnx")
    onnx.save(exported.decoder(config, tensors, style), path)
    return path, config, tensors


def inputs_of(work, feeds):
    words = []
    for name, value in feeds.items():
        np.save(f"{work}/{name}.npy", value)
        words += ["--input", f"{name}={work}/{name}.npy"]
    return words


def apart(got, wanted):
    if got.shape != wanted.shape:
        return float("inf")
    return float(np.abs(got - wanted).max() / max(np.abs(wanted).max(), 1e-9))


def check_values(work, style, path, config, tensors):
    session = agree.session(path)
    worst = 0
    for batch, length, past in RUNS:
        if style in ("builder", "packed") and batch > 1 and length > 1 and past > 0:
            continue  # more than ONNX Runtime computes
        ids = np.random.default_rng(past).integers(0, config["vocab_size"], (batch, length))
        feeds = exported.feeds(config, style, ids, past)
        wanted = session.run(None, feeds)
        agree.evoq(
            "run", path, *inputs_of(work, feeds), "--output-dir", work + "/out", "--threads", 1
        )
        for output, value in zip(session.get_outputs(), wanted):
            worst = max(worst, apart(np.load(f"{work}/out/{output.name}.npy"), value))
        if batch == 1 and past == 0:
            truth = lms.logits(config, tensors, list(ids[0]))
            far = apart(np.load(f"{work}/out/logits.npy")[0], truth)
            check(f"{style}: float64", far < NEAR, far)
    check(f"{style}: ONNX Runtime, {worst:.1e}", worst < NEAR)


def steps_of(work, path, feeds):
    """(operator, kernel) of each step."""
    told = os.path.join(work, "profile.json")
    shapes = [
        word
        for name, value in feeds.items()
        for word in ("--shape", f"{name}={'x'.join(map(str, value.shape))}")
    ]
    subprocess.run(
        [agree.EVOQ, "profile", path, *shapes, "--json", told], check=True, capture_output=True
    )
    with open(told, encoding="utf-8") as f:
        return [(s["op"], s["kernel"]) for s in json.load(f)["steps"]]


def check_steps(work, style, path, config):
    feeds = exported.feeds(config, style, np.zeros((1, 5), np.int64), 4)
    steps = steps_of(work, path, feeds)
    layers = config["num_hidden_layers"]
    for step, count in (
        (("Attention", "attention_f32"), layers),
        (("RotaryEmbedding", "rotary_embedding_f32"), 2 * layers),
        (("RMSNormalization", "rms_norm_f32"), 2 * layers + 1),
    ):
        check(f"{style}: {count} steps of {step[0]}", steps.count(step) == count, steps)
    ops = {op for op, _ in steps}
    gone = {"Softmax", "Slice", "Neg", "Pow", "Sqrt", "Concat", "IsNaN", "Expand", "Sigmoid"}
    if style == "packed":
        gone -= {"Slice"}
    check(f"{style}: nothing is left of what was fused", not ops & gone, ops & gone)
    # Lengths of a batch are a few integers.
    lengths = {"ReduceSum", "Sub", "Add", "Max"} if style in ("builder", "packed") else set()
    slow = {op for op, kernel in steps if kernel == "reference"} - lengths
    check(f"{style}: kernels only", not slow, slow)


def main():
    with tempfile.TemporaryDirectory() as work:
        for style in exported.STYLES:
            path, config, tensors = write(work, style)
            check_values(work, style, path, config, tensors)
            check_steps(work, style, path, config)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
