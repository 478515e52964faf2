#!/usr/bin/env python3
"""com.microsoft::UnfoldTensor from a model file, beside ONNX Runtime: in float32, and on integers
between two quantized layers, where both read the file that evoq quantized. Skips (exit status 77)
without numpy, onnx or onnxruntime."""

import json
import os
import sys
import tempfile

import agree

agree.need("numpy", "onnx", "onnxruntime")
import numpy as np
from onnx import helper, load, save
from tiny_models import Net, value

# attributes, shape of windows of [N, 4, 40] after which a product takes the last axis
CASES = [
    ({"dim": 2, "size": 8, "step": 4}, ["N", 4, 9, 8]),
    ({"size": 5}, ["N", 4, 36, 5]),
    ({"dim": -2, "size": 3, "step": 1}, ["N", 2, 40, 3]),
]


def model(path, attributes, windows):
    net = Net(3)
    net.add("Conv", ["x", net.weight("w", 4, 4, 3)], "c", pads=[1, 1])
    net.add("Relu", ["c"], "r")
    net.add("UnfoldTensor", ["r"], "u", domain="com.microsoft", **attributes)
    net.add("MatMul", ["u", net.weight("m", windows[-1], 6)], "y")
    net.save(path, [value("x", "N", 4, 40)], [value("y", *windows[:-1], 6)])
    made = load(path)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    save(made, path)


def outputs(path, x, folder):
    """y by evoq and by ONNX Runtime."""
    inputs = os.path.join(folder, "x.npy")
    np.save(inputs, x)
    agree.evoq("run", path, "--input", inputs, "--output-dir", folder)
    return np.load(os.path.join(folder, "y.npy")), agree.session(path).run(None, {"x": x})[0]


def bytes_of_unfold(path, folder):
    """What the operator's kernel reads and writes of one sample."""
    written = os.path.join(folder, "profile.json")
    agree.evoq("profile", path, "--duration-s", "0.1", "--json", written)
    with open(written) as file:
        steps = json.load(file)["steps"]
    return [step["bytes"] for step in steps if step["kernel"] == "unfold_tensor"]


def check(attributes, windows, folder):
    real, quantized = (os.path.join(folder, name) for name in ("real.onnx", "quantized.onnx"))
    model(real, attributes, windows)
    random = np.random.default_rng(1)
    x = random.standard_normal((3, 4, 40)).astype(np.float32)
    got, wanted = outputs(real, x, folder)
    exact = np.abs(got - wanted).max() / np.abs(wanted).max()

    samples = os.path.join(folder, "samples.npy")
    np.save(samples, random.standard_normal((20, 4, 40)).astype(np.float32))
    agree.evoq("quantize", real, "--scheme", "int8", "--calib", samples, "-o", quantized)
    got, wanted = outputs(quantized, x, folder)
    rounded = np.abs(got - wanted).max() / np.abs(wanted).max()
    elements = 4 * 40 + int(np.prod(windows[1:]))  # a byte each
    moved = bytes_of_unfold(quantized, folder)
    print(f"{attributes}: {exact:.1e} in float32, {rounded:.1e} on integers, {moved} bytes moved")
    return exact < 1e-5 and rounded < 1e-5 and moved == [elements]


def main():
    good = 0
    for attributes, windows in CASES:
        with tempfile.TemporaryDirectory() as folder:
            good += check(attributes, windows, folder)
    return 0 if good == len(CASES) else 1


if __name__ == "__main__":
    sys.exit(main())
