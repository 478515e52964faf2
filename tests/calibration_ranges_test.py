#!/usr/bin/env python3
"""Ranges that `evoq quantize --save-ranges` writes are the same bytes whatever order the samples
come in, whether a run takes 1 or 32 of them, and on one thread or two, for every observer but the
moving average, which is about the order. `--samples auto` stops before the data ends and says why.
Skips (exit status 77) where numpy or onnx is missing."""

import json
import os
import sys
import tempfile

import agree

agree.need("numpy", "onnx")
import numpy as np
import tiny_models

SAMPLES = 64
failures = []


def check(what, holds, detail=""):
    print("ok:" if holds else "FAILED:", what, "" if holds else detail, flush=True)
    if not holds:
        failures.append(what)


def model(path, batch):
    """Convolutions with a depthwise one, a pool and a classifier."""
    net = tiny_models.Net(seed=3)
    x = net.add("Relu", [net.conv("c1", "x", 3, 16)], "r1")
    x = net.add("Relu", [net.conv("c2", x, 1, 16, group=16)], "r2")
    x = net.conv("c3", x, 16, 24, size=1)
    x = net.add("GlobalAveragePool", [x], "pool")
    x = net.add("Flatten", [x], "flat")
    net.add("Gemm", [x, net.weight("fc.w", 24, 10), net.weight("fc.b", 10)], "y")
    net.save(path, [tiny_models.value("x", batch, 3, 20, 20)], [tiny_models.value("y", batch, 10)])
    return path


def quantize(work, onnx, calib, observer, *options):
    """What ranges.json holds, and the report."""
    ranges, report = f"{work}/ranges.json", f"{work}/report.json"
    agree.evoq(
        *("quantize", onnx, "--calib", calib, "--observer", observer, "-o", f"{work}/out.etm"),
        *("--save-ranges", ranges, "--json", report, *options),
    )
    with open(ranges, "rb") as f, open(report, encoding="utf-8") as g:
        return f.read(), json.load(g)


def check_equal(work, observer, images):
    one, many = model(f"{work}/one.onnx", 1), model(f"{work}/many.onnx", 32)
    order = np.random.default_rng(1).permutation(SAMPLES)
    np.save(f"{work}/images.npy", images)
    np.save(f"{work}/shuffled.npy", images[order])
    np.save(f"{work}/batches.npy", images.reshape(-1, 32, *images.shape[1:]))
    np.save(f"{work}/shuffled_batches.npy", images[order].reshape(-1, 32, *images.shape[1:]))
    folder = f"{work}/folder"
    os.makedirs(folder, exist_ok=True)
    for name, image in zip(order, images):
        np.save(f"{folder}/{name:03}.npy", image[None])
    wanted, _ = quantize(work, one, f"{work}/images.npy", observer, "--threads", "1")
    variants = {
        "shuffled": (one, f"{work}/shuffled.npy", "1"),
        "files in another order": (one, folder, "1"),
        "2 threads": (one, f"{work}/images.npy", "2"),
        "batch 32": (many, f"x={work}/batches.npy", "1"),
        "batch 32, shuffled, 2 threads": (many, f"x={work}/shuffled_batches.npy", "2"),
    }
    for what, (onnx, calib, threads) in variants.items():
        got, _ = quantize(work, onnx, calib, observer, "--threads", threads)
        check(f"{observer}: {what}", got == wanted, first_difference(got, wanted))
    intervals = json.loads(wanted)["intervals"]
    check(
        f"{observer}: every range has an interval",
        set(intervals) == set(json.loads(wanted)["ranges"])
        and all(low >= 0 and high >= 0 for low, high in intervals.values()),
        str(intervals)[:200],
    )


def first_difference(got, wanted):
    for a, b in zip(got.decode().splitlines(), wanted.decode().splitlines()):
        if a != b:
            return f"\n  {a[:150]}\n  {b[:150]}"
    return "one is longer"


def check_auto(work):
    """Much alike images: few are enough."""
    random = np.random.default_rng(5)
    base = random.standard_normal((1, 3, 20, 20))
    images = base + 0.05 * random.standard_normal((150, 3, 20, 20))
    np.save(f"{work}/alike.npy", images.astype(np.float32))
    onnx = model(f"{work}/one.onnx", 1)
    for observer in ("minmax", "mse"):
        auto, report = quantize(work, onnx, f"{work}/alike.npy", observer, "--samples", "auto")
        used = report["samples_used"]
        check(f"{observer}: {used} of 150 samples are used", 16 <= used < 100)
        check(
            f"{observer}: it says so",
            report["samples_enough"].startswith(f"{used} samples were enough: the ranges of "),
            report["samples_enough"],
        )
        given, _ = quantize(work, onnx, f"{work}/alike.npy", observer, "--samples", "16")
        check(f"{observer}: 16 samples by number", json.loads(given)["samples"] == 16)
        check(f"{observer}: its file says as many", json.loads(auto)["samples"] == used)
    try:
        quantize(work, onnx, f"{work}/alike.npy", "minmax", "--samples", "few")
        check("--samples few is refused", False)
    except RuntimeError as error:
        check(
            "--samples few is refused",
            "--samples few: expected auto or a number from 1" in str(error),
            str(error),
        )


def main():
    names = [line.split()[0] for line in agree.evoq("list", "observers").splitlines()[1:]]
    images = np.random.default_rng(2).standard_normal((SAMPLES, 3, 20, 20)).astype(np.float32)
    with tempfile.TemporaryDirectory() as work:
        for observer in names:
            if observer != "moving-average":
                check_equal(work, observer, images)
        check_auto(work)
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
