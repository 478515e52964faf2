#!/usr/bin/env python3
"""`evoq explain --target ort-cpu` beside what ONNX Runtime does: for each model, the nodes that
compute on integers and in float as forecast, against those that the session's profile shows, and
what --fix changes.

    bench/forecast.py [MODEL.onnx...] [--data DIR] [--rounds 7] [--seconds 0.15] [--no-times]

Without MODEL: every model of DIR/quantized, evoq's own exports of DIR/models in several forms, and
faults planted in them. For each class (float, integer): precision = right / forecast, recall =
right / executed. Nodes that the session has merged into others appear in no profile and are left
out. Times: one thread, the median over rounds of both files in turn. Needs numpy, onnx and
onnxruntime from PyPI.
"""

import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime as ort

import faults
from runners import random_input, sizes, timed

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EVOQ = os.path.join(os.environ.get("EVOQ_BUILD", os.path.join(ROOT, "build/release")), "bin/evoq")
TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}
INTEGER_TYPES = {"uint8", "int8", "uint16", "int16"}
INTEGER_OPS = {
    "ConvInteger",
    "MatMulInteger",
    "DynamicQuantizeMatMul",
    "MatMulIntegerToFloat",
    "DynamicQuantizeLinear",
    "QGemm",
    "MatMulNBits",
}
CONVERSIONS = {"QuantizeLinear", "DequantizeLinear"}


def evoq(*words):
    done = subprocess.run([EVOQ, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"evoq {' '.join(map(str, words))}: {done.stderr.strip()}")


def forecast(model, folder, fixed=None, target="ort-cpu"):
    path = os.path.join(folder, "forecast.json")
    evoq(
        "explain",
        model,
        "--target",
        target,
        "--json",
        path,
        *(["--fix", "--accept-changes", "-o", fixed] if fixed else []),
    )
    with open(path) as f:
        return json.load(f)


def session(path, profile=None):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def feeds_of(sess):
    return {
        i.name: random_input(TYPES[i.type], sizes(i.shape, 1, None), 3) for i in sess.get_inputs()
    }


def executed(path, folder):
    """Node name -> computes on integers, from the profile of one run."""
    sess = session(path, os.path.join(folder, "profile"))
    sess.run(None, feeds_of(sess))
    with open(sess.end_profiling()) as f:
        events = json.load(f)
    nodes = {}
    for e in events:
        if e.get("cat") != "Node" or not e["name"].endswith("_kernel_time"):
            continue
        op, shapes = e["args"]["op_name"], e["args"].get("input_type_shape") or [{}]
        if op not in CONVERSIONS:
            nodes[e["name"][: -len("_kernel_time")]] = (
                op.startswith("QLinear")
                or op in INTEGER_OPS
                or bool(INTEGER_TYPES & set(shapes[0]))
            )
    return nodes


def find(nodes, name):
    """What was executed under a node's name, or under a name that ONNX Runtime has made of it."""
    name = name[: -len("/float")] if name.endswith("/float") else name
    for known, integer in nodes.items():
        rest = known[len(name) :]
        if known.startswith(name) and (
            not rest or rest.startswith(("_token_", "/", "_nhwc", "_nchwc", "_quant"))
        ):
            return integer
    return None


def compare(told, nodes):
    """(right, forecast, executed) for integer and for float, and the nodes that are wrong."""
    count = {True: [0, 0, 0], False: [0, 0, 0]}
    wrong, merged = [], 0
    for node in told["nodes"]:
        was = find(nodes, node["name"])
        if was is None:
            merged += node["fate"] != "absorbed"
            continue
        will = None if node["fate"] == "absorbed" else node["fate"] != "float"
        if will is not None:
            count[will][1] += 1
        count[was][2] += 1
        if will == was:
            count[was][0] += 1
        else:
            wrong.append(
                f"{node['name']} ({node['op']}): {node['fate']}, executed on "
                f"{'integers' if was else 'floats'}"
            )
    return count, merged, wrong


def ratio(a, b):
    return f"{a / b:.3f}" if b else "  -  "


def difference(a, b):
    """The largest difference of the outputs, as a share of the largest output."""
    feeds, worst = feeds_of(a), 0.0
    for x, y in zip(a.run(None, feeds), b.run(None, feeds)):
        scale = max(float(np.abs(x.astype(np.float64)).max()), 1e-6)
        worst = max(worst, float(np.abs(x.astype(np.float64) - y.astype(np.float64)).max()) / scale)
    return worst


def times(a, b, rounds, seconds):
    feeds, took = feeds_of(a), ([], [])
    for _ in range(rounds):
        for sess, list_ in ((a, took[0]), (b, took[1])):
            list_.append(timed(lambda: sess.run(None, feeds), seconds))
    return float(np.median(took[0])), float(np.median(took[1]))


def exports(data, folder):
    """evoq's own files: forms that its quantizer writes, and the faults of faults.py planted in
    them."""
    for name in ("mobilenetv2", "squeezenet1.1", "resnet20_cifar10", "tiny_darknet", "mnist_cntk"):
        for form, words in (
            ("ort", ("--scheme", "int8", "--target", "ort")),
            ("openvino", ("--scheme", "int8", "--target", "openvino")),
            ("evoq", ("--scheme", "int8", "--target", "evoq")),
            ("tensorrt", ("--scheme", "int8", "--target", "tensorrt")),
            ("weights", ("--scheme", "int8-weights")),
            ("dynamic", ("--scheme", "int8-dynamic")),
        ):
            out = os.path.join(folder, f"{name}.{form}.onnx")
            calibration = ("--calib-random", 2) if form not in ("weights", "dynamic") else ()
            try:
                evoq(
                    "quantize",
                    os.path.join(data, "models", name + ".onnx"),
                    "-o",
                    out,
                    *words,
                    *calibration,
                )
            except RuntimeError as error:
                print(f"{name}.{form}: not written: {str(error)[-160:]}")
                continue
            yield out
            if form == "ort" and name in ("mobilenetv2", "resnet20_cifar10"):
                for fault in faults.FAULTS:
                    planted = os.path.join(folder, f"{name}.{fault.__name__}.onnx")
                    if faults.plant(fault, out, planted):
                        yield planted


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*")
    parser.add_argument(
        "--data", default=os.environ.get("EVOQ_DATA", os.path.join(ROOT, "../shared/data"))
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.15)
    parser.add_argument("--no-times", action="store_true")
    args = parser.parse_args()
    total = {True: [0, 0, 0], False: [0, 0, 0]}
    print(
        f"{'model':44} {'integer':>15} {'float':>15} {'merged':>6}   {'ms':>8} {'fixed':>8} "
        f"{'gain':>6} {'differs':>8}"
    )
    with tempfile.TemporaryDirectory() as folder:
        models = args.models or (
            glob.glob(os.path.join(args.data, "quantized/*.onnx"))
            + list(exports(args.data, folder))
        )
        for model in models:
            name = os.path.basename(model)[: -len(".onnx")]
            fixed = os.path.join(folder, "fixed.onnx")
            try:
                told = forecast(model, folder, fixed)
                count, merged, wrong = compare(told, executed(model, folder))
            except Exception as error:  # one model that cannot be run says nothing of the others
                print(f"{name:44} {' '.join(str(error).split())[-160:]}")
                continue
            for kind in (True, False):
                total[kind] = [a + b for a, b in zip(total[kind], count[kind])]
            cells = [
                f"{ratio(c[0], c[1])} {ratio(c[0], c[2])}" for c in (count[True], count[False])
            ]
            line = f"{name:44} {cells[0]:>15} {cells[1]:>15} {merged:6}"
            if told["repairs"]:
                before, after = session(model), session(fixed)
                t = (
                    (float("nan"),) * 2
                    if args.no_times
                    else times(before, after, args.rounds, args.seconds)
                )
                line += (
                    f"   {t[0]:8.3f} {t[1]:8.3f} {t[0] / t[1]:5.2f}x "
                    f"{difference(before, after):8.4f}  "
                )
                line += ", ".join(f"{r['code']} {r['places']}" for r in told["repairs"])
            print(line, flush=True)
            for w in wrong[:6]:
                print("    wrong: " + w)
    for kind, label in ((True, "integer"), (False, "float")):
        right, said, was = total[kind]
        print(
            f"{label:8} precision {ratio(right, said)} recall {ratio(right, was)} ({right} right, "
            f"{said} forecast, {was} executed)"
        )


if __name__ == "__main__":
    sys.exit(main())
