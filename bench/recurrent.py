#!/usr/bin/env python3
"""Recurrent models beside ONNX Runtime, one thread: LSTM and GRU layers in float32 and with integer
products, and a speech model chunk by chunk.

    bench/recurrent.py [--evoq build/release/bin/evoq] [--vad silero_vad.onnx] [--seconds 1]
                       [--rounds 3]

Each file is run for a second at a time, all of a layer in turn, three rounds; figures are medians.
int8 is `--scheme int8-dynamic`, "weights" `--scheme int8-weights`; ONNX Runtime's int8 is its own
quantize_dynamic (DynamicQuantizeLSTM; of GRU it has none). "bytes" and "dB" are evoq's int8 file
over its float32 file, and its outputs' signal to noise against ONNX Runtime's float32 ("ORT dB":
those of ONNX Runtime's int8), with weights and data that are normally distributed. The floor is the
time of the float32 products at the machine's float32 peak (`evoq limits`); a step's weights that do
not fit the L1 cache come from further away, which no order of steps avoids at batch 1.
"""

import argparse
import logging
import os
import statistics
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from runners import run_evoq, timed

# Operator, steps, batch, input, hidden. The first ones are a voice detector's, those from 512 on a
# speech recognizer's.
LAYERS = [
    ("LSTM", 1, 1, 128, 128),
    ("LSTM", 32, 1, 64, 64),
    ("LSTM", 100, 1, 128, 128),
    ("LSTM", 100, 1, 256, 256),
    ("LSTM", 50, 8, 256, 256),
    ("LSTM", 50, 1, 512, 512),
    ("LSTM", 50, 1, 1024, 1024),
    ("GRU", 32, 1, 64, 64),
    ("GRU", 100, 1, 256, 256),
    ("GRU", 50, 1, 512, 512),
]
SCHEMES = {"int8": "int8-dynamic", "weights": "int8-weights"}


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


def session(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def ours(evoq, path, feeds, seconds, folder):
    words = [evoq, "bench", path, "--threads", "1"]
    words += ["--duration-s", str(seconds), "--warmup-ms", "100"]
    for name, value in feeds.items():
        np.save(f"{folder}/{name}.npy", value)
        words += ["--input", f"{name}={folder}/{name}.npy"]
    return run_evoq(words, folder + "/out.json")["p50_ms"]


def outputs_of(evoq, path, feeds, folder):
    """The first output of one run."""
    words = [evoq, "run", path, "--output-dir", folder + "/outputs"]
    for name, value in feeds.items():
        np.save(f"{folder}/{name}.npy", value)
        words += ["--input", f"{name}={folder}/{name}.npy"]
    run_evoq(words, folder + "/run.json")
    return np.load(f"{folder}/outputs/y.npy")


def sqnr(wanted, got):
    noise = float(np.sum((wanted - got).astype(np.float64) ** 2))
    return 10 * np.log10(float(np.sum(wanted.astype(np.float64) ** 2)) / max(noise, 1e-300))


class Job:
    """A model in all its forms, each with its times, round by round."""

    def __init__(self, name, path, feeds, macs, args, folder):
        self.name, self.feeds, self.macs = name, feeds, macs
        self.args, self.folder = args, folder
        self.files = {"float32": path[:-5] + ".etm"}
        run_evoq([args.evoq, "compile", path, "-o", self.files["float32"]], folder + "/made.json")
        for form, scheme in SCHEMES.items():
            self.files[form] = f"{path[:-5]}.{form}.etm"
            words = [args.evoq, "quantize", path, "--scheme", scheme, "-o", self.files[form]]
            run_evoq(words, folder + "/made.json")
        self.theirs = {"float32": session(path)}
        if macs and "LSTM" in name:
            narrow = path[:-5] + ".ort.onnx"
            quantize_dynamic(path, narrow, per_channel=True, weight_type=QuantType.QInt8)
            self.theirs["int8"] = session(narrow)
        self.times = {}

    def round(self):
        for form, path in self.files.items():
            ms = ours(self.args.evoq, path, self.feeds, self.args.seconds, self.folder)
            self.times.setdefault(form, []).append(ms)
        for form, runner in self.theirs.items():
            ms = timed(lambda r=runner: r.run(None, self.feeds), self.args.seconds)
            self.times.setdefault("ORT " + form, []).append(ms)

    def row(self, peak):
        ms = {form: statistics.median(times) for form, times in self.times.items()}
        floor = f"{2 * self.macs / peak / 1e6:.3f}" if self.macs else ""
        bytes_of = {form: os.path.getsize(path) for form, path in self.files.items()}
        share = bytes_of["int8"] / bytes_of["float32"]
        quality = ["", ""]
        if self.macs:
            wanted = self.theirs["float32"].run(None, self.feeds)[0]
            got = outputs_of(self.args.evoq, self.files["int8"], self.feeds, self.folder)
            quality[0] = f"{sqnr(wanted, got):.1f}"
            if "int8" in self.theirs:
                other = self.theirs["int8"].run(None, self.feeds)[0]
                quality[1] = f"{sqnr(wanted, other):.1f}"
        cells = [self.name, floor]
        for form in ("float32", "weights", "int8", "ORT float32", "ORT int8"):
            cells.append(f"{ms[form]:.3f}" if form in ms else "")
        cells += [f"{ms['float32'] / ms['int8']:.2f}x", f"{share:.3f}", *quality]
        return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--evoq", default="build/release/bin/evoq")
    parser.add_argument("--vad")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    logging.getLogger().setLevel(logging.ERROR)  # quantize_dynamic's advice
    with tempfile.TemporaryDirectory() as folder:
        limits = run_evoq([args.evoq, "limits", "--threads", "1"], folder + "/limits.json")
        models = [
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
            models.append(
                (f"{os.path.basename(args.vad)}, a chunk of 512 samples", args.vad, feeds, None)
            )
        print(
            "| model | floor ms | float32 | weights | int8 | ORT float32 | ORT int8 "
            "| float32 / int8 | bytes | dB | ORT dB |\n" + "|---" * 11 + "|"
        )
        for name, path, feeds, macs in models:
            job = Job(name, path, feeds, macs, args, folder)
            for _ in range(args.rounds):
                job.round()
            print(job.row(limits["fp32_gflops"]), flush=True)


if __name__ == "__main__":
    main()
