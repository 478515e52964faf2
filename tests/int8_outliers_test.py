#!/usr/bin/env python3
"""A transformer whose normalizations have channels 50 times larger than the others, and weights
that are as much smaller there: static int8 loses its classes, and `--method smoothquant` keeps them
within 1% of float. The classes are those of noisy patterns, the classifier is fitted to the float
model's features. Skips (exit status 77) where numpy, onnx or onnxruntime is missing."""

import json
import os
import sys
import tempfile

import agree

agree.need("numpy", "onnx", "onnxruntime")
import numpy as np
import tiny_models

WIDTH, LENGTH, HEADS, LAYERS, CLASSES = 64, 12, 4, 4, 16
OUTLIERS, FACTOR = (3, 17, 40), 50
NOISE = 1.6
failures = []


def check(what, holds, detail=""):
    print("ok:" if holds else "FAILED:", what, "" if holds else detail, flush=True)
    if not holds:
        failures.append(what)


def product(net, name, x, inputs, outputs, factors=None):
    """x W + b; rows of W are divided by the factors of their channels."""
    w = net.random.standard_normal((inputs, outputs)) / np.sqrt(inputs)
    if factors is not None:
        w /= factors[:, None]
    net.const(name + ".w", w.astype(np.float32))
    y = net.add("MatMul", [x, name + ".w"], name + ".product")
    net.const(name + ".b", (0.1 * net.random.standard_normal(outputs)).astype(np.float32))
    return net.add("Add", [y, name + ".b"], name)


def normalized(net, name, x, factors):
    scale = (1 + 0.1 * net.random.standard_normal(WIDTH)) * factors
    shift = 0.1 * net.random.standard_normal(WIDTH) * factors
    return net.add(
        "LayerNormalization",
        [
            x,
            net.const(name + ".scale", scale.astype(np.float32)),
            net.const(name + ".shift", shift.astype(np.float32)),
        ],
        name,
        axis=-1,
    )


def heads(net, name, x, axes):
    shape = net.const(name + ".shape", np.array([0, LENGTH, HEADS, WIDTH // HEADS], np.int64))
    return net.add("Transpose", [net.add("Reshape", [x, shape], name + ".split")], name, perm=axes)


def layer(net, name, x, factors):
    n = normalized(net, name + ".norm1", x, factors)
    q, k, v = (product(net, f"{name}.{p}", n, WIDTH, WIDTH, factors) for p in "qkv")
    q = heads(net, name + ".q.heads", q, [0, 2, 1, 3])
    k = heads(net, name + ".k.heads", k, [0, 2, 3, 1])
    v = heads(net, name + ".v.heads", v, [0, 2, 1, 3])
    scores = net.add("MatMul", [q, k], name + ".scores")
    root = net.const(name + ".root", np.float32(np.sqrt(WIDTH // HEADS)))
    weights = net.add("Softmax", [net.add("Div", [scores, root], name + ".scaled")], name + ".p")
    mixed = net.add("MatMul", [weights, v], name + ".mixed")
    mixed = net.add("Transpose", [mixed], name + ".back", perm=[0, 2, 1, 3])
    shape = net.const(name + ".flat", np.array([0, LENGTH, WIDTH], np.int64))
    mixed = net.add("Reshape", [mixed, shape], name + ".merged")
    x = net.add("Add", [x, product(net, name + ".o", mixed, WIDTH, WIDTH)], name + ".sum1")
    n = normalized(net, name + ".norm2", x, factors)
    h = product(net, name + ".up", n, WIDTH, 2 * WIDTH, factors)
    h = net.add("Relu", [h], name + ".relu")
    return net.add("Add", [x, product(net, name + ".down", h, 2 * WIDTH, WIDTH)], name + ".sum2")


def transformer(path, classifier=None, planted=True):
    """With the classifier's weights; without them the features are the output."""
    net = tiny_models.Net(seed=8)
    factors = np.ones(WIDTH)
    if planted:
        factors[list(OUTLIERS)] = FACTOR
    x = "x"
    for i in range(LAYERS):
        x = layer(net, f"layer{i}", x, factors)
    n = normalized(net, "last", x, np.ones(WIDTH))
    mean = net.add(
        "ReduceMean", [n, net.const("axes", np.array([1], np.int64))], "features", keepdims=0
    )
    sizes = [WIDTH]
    if classifier is not None:
        net.const("head", classifier.astype(np.float32))
        net.add("MatMul", [mean, "head"], "classes")
        sizes = [CLASSES]
    net.save(
        path,
        [tiny_models.value("x", 1, LENGTH, WIDTH)],
        [tiny_models.value("features" if classifier is None else "classes", 1, *sizes)],
        opset=18,
    )
    return path


def samples(count, seed):
    patterns = np.random.default_rng(1).standard_normal((CLASSES, LENGTH, WIDTH))
    random = np.random.default_rng(seed)
    labels = random.integers(0, CLASSES, count)
    x = patterns[labels] + NOISE * random.standard_normal((count, LENGTH, WIDTH))
    return x.astype(np.float32), labels.astype(np.int64)


def fit(features, labels):
    """Least squares with a little weight decay."""
    wanted = np.eye(CLASSES)[labels] - 1 / CLASSES
    gram = features.T @ features
    decay = 1e-3 * np.diag(np.diag(gram))
    return np.linalg.solve(gram + decay, features.T @ wanted)


def build(work):
    """The model's path: its classifier is fitted to the float model's features."""
    session = agree.session(transformer(f"{work}/features.onnx"))
    x, labels = samples(1500, 2)
    features = np.concatenate([session.run(None, {"x": row[None]})[0] for row in x])
    return transformer(f"{work}/model.onnx", fit(features.astype(np.float64), labels))


def top1(work, model):
    out = f"{work}/eval.json"
    agree.evoq("eval", model, "--data", f"{work}/test.npz", "--json", out)
    with open(out, encoding="utf-8") as f:
        return json.load(f)["top1"]


def quantized(work, model, method):
    etm = f"{work}/{method}.etm"
    agree.evoq(*("quantize", model, "--calib", f"{work}/calib.npy", "--method", method, "-o", etm))
    return top1(work, etm)


def main():
    with tempfile.TemporaryDirectory() as work:
        model = build(work)
        np.save(f"{work}/calib.npy", samples(100, 3)[0])
        x, labels = samples(1000, 4)
        np.savez(f"{work}/test.npz", x=x, labels=labels)
        real, plain = top1(work, model), quantized(work, model, "none")
        smooth = quantized(work, model, "smoothquant")
        print(f"top-1 of float {real:.3f}, int8 {plain:.3f}, with smoothquant {smooth:.3f}")
        check("float knows the classes", real >= 0.9, str(real))
        check("plain int8 fails", plain <= real - 0.05, f"{plain} of {real}")
        check("smoothquant is within 1%", smooth >= real - 0.01, f"{smooth} of {real}")
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
