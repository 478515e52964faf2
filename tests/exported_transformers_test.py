#!/usr/bin/env python3
"""Transformers in ONNX as exporters write them (tests/exported_lms.py): what `evoq run` gives, as
prompt and behind a past, beside ONNX Runtime and a plain evaluation in float64; that each
attention, rotary embedding and norm is one step; and that `evoq generate` writes what it writes
with the same weights from a folder. Skips (exit status 77) where numpy, onnx or
onnxruntime is missing."""

import json
import os
import shutil
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
MODELS = [
    ("eager", "qwen2", {}),
    ("eager", "mistral", {}),
    ("sdpa", "mistral", {"sliding_window": 30}),  # more than the sizes that are tried
    ("sdpa", "llama", {}),
    ("counted", "llama", {}),
    ("pairs", "llama", {}),
    ("builder", "llama", {"head_dim": 16}),
    ("packed", "llama", {"head_dim": 16}),
    ("fused", "llama", {"num_key_value_heads": 4}),
    ("ai.onnx", "llama", {}),
]
failures = []


def check(what, holds, detail=""):
    print("ok:" if holds else "FAILED:", what, "" if holds else detail, flush=True)
    if not holds:
        failures.append(what)


def write(work, style, family, settings):
    """The model's path, its settings and tensors. Beside it lie the files of its tokenizer, and the
    folder of the same weights."""
    folder = os.path.join(work, f"{style}-{family}-{settings.get('sliding_window', 0)}")
    config, _ = lms.write_with_tokenizer(folder + "-folder", family, **settings)
    tensors = lms.tensors_of(config, 1)
    os.makedirs(folder)
    onnx.save(exported.decoder(config, tensors, style), folder + "/model.onnx")
    for name in ("config.json", *lms.tokenizer_files()):
        shutil.copy(f"{folder}-folder/{name}", folder)
    return folder + "/model.onnx", config, tensors


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
            truth = lms.logits(config, tensors, list(ids[0]), interleaved=style == "pairs")
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


def generated(work, model, *words):
    """The tokens that a model writes, or its message."""
    told = os.path.join(work, "text.json")
    done = subprocess.run(
        [agree.EVOQ, "generate", model, "--prompt", "the hen", "--max-tokens", "40"]
        + ["--ignore-end", "--threads", "1", "--json", told, *words],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return done.stderr
    with open(told, encoding="utf-8") as f:
        return [text["tokens"] for text in json.load(f)["texts"]]


def check_text(work, style, path):
    folder = os.path.dirname(path) + "-folder"
    wanted = generated(work, folder)
    check(f"{style}: a text", isinstance(wanted, list) and len(wanted[0]) == 40, wanted)
    got = generated(work, path)
    check(f"{style}: the text of the folder", got == wanted, got)
    two = generated(work, path, "--prompt", "he that", "--parallel", "2")
    of_folder = generated(work, folder, "--prompt", "he that", "--parallel", "2")
    check(f"{style}: two texts at a time", two == of_folder and len(two) == 2, two)
    etms = []
    for model in (path, folder):
        etms.append(os.path.join(work, f"{len(etms)}.etm"))
        agree.evoq("quantize", model, "--scheme", "int4-weights", "-o", etms[-1])
    got, wanted = (generated(work, etm) for etm in etms)
    check(f"{style}: from an .etm", got == wanted and isinstance(got, list), got)


def check_perplexity(work, path):
    text = os.path.join(work, "text.txt")
    with open(text, "w", encoding="utf-8") as f:
        f.write("the hen that had a hat. " * 12)
    numbers = []
    for model in (path, os.path.dirname(path) + "-folder"):
        told = os.path.join(work, "perplexity.json")
        agree.evoq("eval", model, "--text", text, "--window", 32, "--json", told)
        with open(told, encoding="utf-8") as f:
            numbers.append(json.load(f)["perplexity"])
    check("the perplexity of the folder", abs(numbers[0] / numbers[1] - 1) < 1e-5, numbers)


def check_refusals(work, config, tensors):
    """Models that are nearly language models with caches."""

    def refused(what, style, change, sentence):
        model = exported.decoder(config, tensors, style)
        change(model.graph)
        path = os.path.join(work, "other.onnx")
        onnx.save(model, path)
        message = generated_tokens(path)
        check(f"refused: {what}", sentence in message, message)
        etm = os.path.join(work, "other.etm")
        for verb in (["compile"], ["quantize", "--scheme", "int8-weights"]):
            done = subprocess.run(
                [agree.EVOQ, *verb, path, "-o", etm], capture_output=True, text=True
            )
            warned = (
                "generate cannot write text with it: " in done.stderr and sentence in done.stderr
            )
            check(f"{verb[0]} warns: {what}", done.returncode == 0 and warned, done.stderr)

    def unhide(graph):
        for constant in graph.initializer:
            value = onnx.numpy_helper.to_array(constant)
            if value.dtype == np.float32 and value.size == 1 and value.min() < -1e30:
                constant.CopyFrom(onnx.numpy_helper.from_array(value * 0 - 1, constant.name))

    def see_all(graph):
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.name == "is_causal":
                    attribute.i = 0

    def add_input(graph):
        graph.input.append(onnx.helper.make_tensor_value_info("beam", onnx.TensorProto.INT64, [1]))

    def swap(graph):
        """Keys of one layer come out as those of another."""
        names = {"present.0.key": "present.1.key", "present.1.key": "present.0.key"}
        for node in graph.node:
            node.output[:] = [names.get(o, o) for o in node.output]

    refused("a bias that hides nothing", "eager", unhide, "its mask is not the causal one")
    refused("later keys", "ai.onnx", see_all, "it sees later keys")
    refused("another input", "sdpa", add_input, "input 'beam' is none of a language model's")
    refused("layers that change places", "ai.onnx", swap, "are not those of one layer")


def generated_tokens(path):
    """The message of a model that is refused."""
    done = subprocess.run(
        [agree.EVOQ, "generate", path, "--prompt-tokens", "1,2", "--max-tokens", "2"],
        capture_output=True,
        text=True,
    )
    return done.stderr if done.returncode == 3 else f"exit {done.returncode}: {done.stderr}"


def main():
    with tempfile.TemporaryDirectory() as work:
        for style, family, settings in MODELS:
            path, config, tensors = write(work, style, family, settings)
            check_values(work, style, path, config, tensors)
            if style == "pairs":  # the folder's weights are of another order
                text = generated(work, path)
                check(f"{style}: a text", isinstance(text, list) and len(text[0]) == 40, text)
                continue
            check_steps(work, style, path, config)
            check_text(work, style, path)
        check_perplexity(work, path)
        check_refusals(work, config, tensors)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
