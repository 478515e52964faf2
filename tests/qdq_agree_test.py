#!/usr/bin/env python3
"""Models quantized to QDQ form by evoq: ONNX Runtime's top-1 class beside evoq's, on the same file.

usage: qdq_agree_test.py [--limit N]     N samples of each model (100; 0: all of them)
At least the share in CASES must be equal. evoq rounds the multiplier s_x * s_w / s_y of a layer once, from float64, ONNX Runtime computes it
in float32: now and then a value next to a tie goes the other way (4 of a million in a layer of mobilenetv2), and what that does adds up over
its 52 layers to about the noise of the quantization itself, so that classes that are nearly equal change places. Skips (exit status 77) where numpy, Pillow or onnxruntime from PyPI, or the data folder, is missing.
"""
import argparse
import json
import os
import sys
import tempfile

import agree

agree.need("numpy", "onnx", "onnxruntime", "PIL")
import numpy as np
import onnx
from agree import DATA, evoq
from PIL import Image

# model, samples, calibration data, least share of equal classes
CASES = [("mobilenetv2", "images/imagenet", "images/imagenet", 0.93), ("squeezenet1.1", "images/imagenet", "images/imagenet", 0.99),
         ("resnet20_cifar10", "cifar10/test_1000.bin", "cifar10/train_5000.bin", 0.99)]


def network_input(pixels, how):
    """pixels [h, w, 3] of an image as docs/preprocess.md says."""
    image = Image.fromarray(pixels)
    if "resize_short" in how:
        short = min(image.size)
        image = image.resize([how["resize_short"] * side // short for side in image.size], Image.BILINEAR)
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


def agreement(model, data, calibration, limit, folder):
    preprocess = os.path.join(DATA, "models", model + ".preprocess.json")
    with open(preprocess) as file:
        how = json.load(file)
    quantized, classes = os.path.join(folder, model + ".onnx"), os.path.join(folder, model + ".tsv")
    evoq("quantize", os.path.join(DATA, "models", model + ".onnx"), "--scheme", "int8", "--calib", os.path.join(DATA, calibration), "--calib-limit", "100",
         "--preprocess", preprocess, "-o", quantized)
    onnx.checker.check_model(quantized)
    evoq("eval", quantized, "--data", os.path.join(DATA, data), "--preprocess", preprocess, "--predictions", classes, *(["--limit", str(limit)] if limit else []))
    with open(classes) as file:
        ours = dict(line.rstrip("\n").split("\t") for line in list(file)[1:])
    session = agree.session(quantized)
    name = session.get_inputs()[0].name
    equal = total = 0
    for sample, pixels in samples(os.path.join(DATA, data)):
        if sample not in ours:
            continue
        scores = session.run(None, {name: network_input(pixels, how)})[0]
        equal += int(scores.argmax()) == int(ours[sample])
        total += 1
    return equal, total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=int, default=100)
    limit = parser.parse_args().limit
    failures = 0
    for model, data, calibration, least in CASES:
        with tempfile.TemporaryDirectory() as folder:
            equal, total = agreement(model, data, calibration, limit, folder)
        good = total > 0 and equal >= least * total
        print(f"{model:20} ONNX Runtime's class equals evoq's on {equal} of {total}{'' if good else f', expected {least:.0%}'}", flush=True)
        failures += not good
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
