#!/usr/bin/env python3
"""Models quantized to QDQ form by evoq: ONNX Runtime's top-1 class beside evoq's, on the same file.

usage: qdq_agree_test.py [--limit N] [--default-sessions]
  --limit N: samples of each model (100; 0: all of them)
At least LEAST of the classes must be equal. On processors with AVX2, where ONNX Runtime's kernels
round as kernels/requant.h and kernels/add_terms.h say, all integers between the layers are
equal too: on one sample of each model every quantized value is compared.
Skips (exit status 77) where numpy, Pillow or onnxruntime from PyPI, or the data folder, is missing.
"""

import argparse
import json
import os
import sys
import tempfile

import agree

agree.need("numpy", "onnx", "onnxruntime", "PIL")
agree.need_data()
import numpy as np
import onnx
from agree import DATA, evoq, session
from PIL import Image

LEAST = 0.99
# model, samples, calibration data
CASES = [
    ("mobilenetv2", "images/imagenet", "images/imagenet"),
    ("squeezenet1.1", "images/imagenet", "images/imagenet"),
    ("resnet20_cifar10", "cifar10/test_1000.bin", "cifar10/train_5000.bin"),
]


def network_input(pixels, how):
    """pixels [h, w, 3] of an image as docs/preprocess.md says."""
    image = Image.fromarray(pixels)
    if "resize_short" in how:
        short = min(image.size)
        image = image.resize(
            [how["resize_short"] * side // short for side in image.size], Image.BILINEAR
        )
    if "crop" in how:
        height, width = how["crop"]
        left, top = (image.width - width) // 2, (image.height - height) // 2
        image = image.crop((left, top, left + width, top + height))
    if "resize" in how:
        image = image.resize(how["resize"][::-1], Image.BILINEAR)
    x = np.asarray(image, np.float32)
    if how["color"] == "BGR":
        x = x[:, :, ::-1]
    x = (x * np.float32(how["scale"]) - np.float32(how["mean"])) / np.float32(how["std"])
    return np.ascontiguousarray(x.transpose(2, 0, 1)[None].astype(np.float32))


def samples(path):
    """name, pixels of each sample, named as evoq names them."""
    if os.path.isdir(path):
        for name in sorted(os.listdir(path)):
            yield name, np.asarray(Image.open(os.path.join(path, name)).convert("RGB"))
        return
    records = np.fromfile(path, np.uint8).reshape(-1, 3073)
    for i, record in enumerate(records):
        yield f"{os.path.basename(path)}[{i}]", record[1:].reshape(3, 32, 32).transpose(1, 2, 0)


def unequal_integers(quantized, x, folder, exact):
    """Names of the quantized values on input x that are not equal in ONNX Runtime and evoq, and how
    many values there are."""
    model = onnx.load(quantized)
    types = {v.name: v for v in onnx.shape_inference.infer_shapes(model).graph.value_info}
    names = [
        n.output[0]
        for n in model.graph.node
        if n.op_type == "QuantizeLinear" and n.output[0] in types
    ]
    model.graph.output.extend(types[name] for name in names)
    watched, inputs, outputs = (
        os.path.join(folder, name) for name in ("watched.onnx", "x.npy", "outputs")
    )
    onnx.save(model, watched)
    np.save(inputs, x)
    evoq("run", watched, "--input", inputs, "--output-dir", outputs)
    runtime = session(watched, exact)
    wanted = runtime.run(names, {runtime.get_inputs()[0].name: x})
    got = [np.load(os.path.join(outputs, name.replace("/", "_") + ".npy")) for name in names]
    return [name for name, a, b in zip(names, got, wanted) if not np.array_equal(a, b)], len(names)


def check(model, data, calibration, options, folder):
    """Prints what agrees; whether enough does."""
    preprocess = os.path.join(DATA, "models", model + ".preprocess.json")
    with open(preprocess) as file:
        how = json.load(file)
    quantized, classes = os.path.join(folder, model + ".onnx"), os.path.join(folder, model + ".tsv")
    evoq(
        "quantize",
        os.path.join(DATA, "models", model + ".onnx"),
        "--scheme",
        "int8",
        "--calib",
        os.path.join(DATA, calibration),
        "--calib-limit",
        "100",
        "--preprocess",
        preprocess,
        "-o",
        quantized,
    )
    onnx.checker.check_model(quantized, full_check=True)
    evoq(
        "eval",
        quantized,
        "--data",
        os.path.join(DATA, data),
        "--preprocess",
        preprocess,
        "--predictions",
        classes,
        *(["--limit", str(options.limit)] if options.limit else []),
    )
    with open(classes) as file:
        ours = dict(line.rstrip("\n").split("\t") for line in list(file)[1:])
    runtime = session(quantized, not options.default_sessions)
    equal = total = 0
    for sample, pixels in samples(os.path.join(DATA, data)):
        if sample not in ours:
            continue
        x = network_input(pixels, how)
        scores = runtime.run(None, {runtime.get_inputs()[0].name: x})[0]
        equal += int(scores.argmax()) == int(ours[sample])
        total += 1
    good = total > 0 and equal >= LEAST * total
    print(
        f"{model:20} ONNX Runtime's class equals evoq's on {equal} of "
        f"{total}{'' if good else f', expected {LEAST:.0%}'}",
        flush=True,
    )
    if "avx2" not in agree.cpu_flags():
        return good
    unequal, values = unequal_integers(quantized, x, folder, not options.default_sessions)
    print(
        f"{model:20} equal integers in {values - len(unequal)} of {values} quantized "
        f"values{''.join(': ' + name for name in unequal[:1])}",
        flush=True,
    )
    return good and not unequal


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=int, default=10 if agree.SANITIZED else 100)
    parser.add_argument(
        "--default-sessions",
        action="store_true",
        help="ONNX Runtime as it is without session options: saturates where VNNI is missing",
    )
    options = parser.parse_args()
    failures = 0
    for model, data, calibration in CASES:
        with tempfile.TemporaryDirectory() as folder:
            failures += not check(model, data, calibration, options, folder)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
