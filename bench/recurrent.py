#!/usr/bin/env python3
"""Recurrent models beside ONNX Runtime, one thread: LSTM and GRU layers, and a speech model chunk
by chunk.

    bench/recurrent.py [--evoq build/release/bin/evoq] [--vad silero_vad.onnx] [--seconds 1]

Runs alternate, a second of each at a time, three times; figures are medians. The floor is the time
of the products at the machine's float32 peak (`evoq limits`); a step's weights that do not fit the
L1 cache come from further away, which no order of steps avoids at batch 1.
"""

import argparse
import os
import statistics
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

from runners import run_evoq

LAYERS = [
    ("LSTM", 100, 1, 128, 128),
    ("LSTM", 100, 1, 256, 256),
    ("LSTM", 50, 1, 512, 512),
    ("LSTM", 50, 8, 256, 256),
    ("GRU", 100, 1, 256, 256),
]


def layer(op, steps, batch, size, hidden, folder):
    rng = np.random.default_rng(1)
    gates = {"LSTM": 4, "GRU": 3}[op]
    weights = [
        ("w", (1, gates * hidden, size)),
        ("r", (1, gates * hidden, hidden)),
        ("b", (1, 2 * gates * hidden)),
    ]
    constants = [
        numpy_helper.from_array((rng.standard_normal(shape) / hidden**0.5).astype(np.float32), name)
        for name, shape in weights
    ]
    extra = {"linear_before_reset": 1} if op == "GRU" else {}
    node = helper.make_node(op, ["x", "w", "r", "b"], ["y", "h"], hidden_size=hidden, **extra)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", 1, [steps, batch, size])],
        [helper.make_tensor_value_info("y", 1, None), helper.make_tensor_value_info("h", 1, None)],
        constants,
    )
    path = os.path.join(folder, f"{op}_{steps}_{batch}_{size}_{hidden}.onnx")
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return (
        path,
        {"x": rng.standard_normal((steps, batch, size)).astype(np.float32)},
        steps * batch * gates * hidden * (size + hidden),
    )


def theirs(path, feeds, seconds):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    times, end = [], time.perf_counter() + seconds
    session.run(None, feeds)
    while time.perf_counter() < end:
        start = time.perf_counter()
        session.run(None, feeds)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def ours(evoq, path, feeds, seconds, folder):
    words = [
        evoq,
        "bench",
        path,
        "--threads",
        "1",
        "--duration-s",
        str(seconds),
        "--warmup-ms",
        "100",
    ]
    for name, value in feeds.items():
        np.save(f"{folder}/{name}.npy", value)
        words += ["--input", f"{name}={folder}/{name}.npy"]
    return run_evoq(words, folder + "/out.json")["p50_ms"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--evoq", default="build/release/bin/evoq")
    parser.add_argument("--vad")
    parser.add_argument("--seconds", type=float, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        peak = run_evoq([args.evoq, "limits", "--threads", "1"], folder + "/limits.json")[
            "fp32_gflops"
        ]
        jobs = [
            (
                f"{op}, {steps} steps, batch {batch}, {size} -> {hidden}",
                *layer(op, steps, batch, size, hidden, folder),
            )
            for op, steps, batch, size, hidden in LAYERS
        ]
        if args.vad:
            feeds = {
                "input": (0.1 * np.random.default_rng(1).standard_normal((1, 576))).astype(
                    np.float32
                ),
                "state": np.zeros((2, 1, 128), np.float32),
                "sr": np.array(16000, np.int64),
            }
            jobs.append(
                (f"{os.path.basename(args.vad)}, a chunk of 512 samples", args.vad, feeds, None)
            )
        print("| model | evoq ms | ONNX Runtime ms | ratio | floor ms |\n|---|---|---|---|---|")
        for name, path, feeds, macs in jobs:
            pairs = [
                (
                    ours(args.evoq, path, feeds, args.seconds, folder),
                    theirs(path, feeds, args.seconds),
                )
                for _ in range(3)
            ]
            a, b = (statistics.median(side) for side in zip(*pairs))
            floor = f"{2 * macs / peak / 1e6:.3f}" if macs else ""
            print(f"| {name} | {a:.3f} | {b:.3f} | {b / a:.2f}x | {floor} |", flush=True)


if __name__ == "__main__":
    main()
