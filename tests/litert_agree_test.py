#!/usr/bin/env python3
"""TensorFlow Lite models run by evoq and by the LiteRT interpreter.

    tests/litert_agree_test.py [--models FOLDER] [--samples N] [--bench RUNS]

The models are written here with LiteRT's own schema: int8 nets of convolutions, depthwise ones,
residual sums, pools, means, products and softmax with random weights, others of states, branches,
sparse weights and spectra, nets of int16 activations, or those of FOLDER. int8: every output
element within one step, at least 99% of all equal (LEAST and MOST_APART have the exceptions),
against the interpreter as it comes. Prints how often its built-in kernels differ too. float32:
within 1e-5 of the largest output. Nets with states run STEPS frames, with the states fed back.
--bench prints the milliseconds of both on one thread: medians of interleaved runs.

Skips (exit status 77) without the package ai-edge-litert.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from agree import EVOQ, evoq, need

need("numpy", "flatbuffers", "ai_edge_litert")

import numpy as np  # noqa: E402
from ai_edge_litert.interpreter import Interpreter, OpResolverType  # noqa: E402
from tflite_models import MODELS  # noqa: E402

# Least shares of equal elements where it is not 99%: averages that end in .5 are rounded away from
# zero by LiteRT and to even by evoq, which windows of an even number of elements meet. A step of 16
# bits is 1/256 of one of 8.
LEAST = {"average_pool": 0.95, "mobilenet_16x8": 0.9, "resnet_16x8": 0.5}
MOST_APART = {"resnet_16x8": 2}


STEPS = 24


def interpreter(path, kernels=OpResolverType.AUTO):
    made = Interpreter(str(path), num_threads=1, experimental_op_resolver_type=kernels)
    made.allocate_tensors()
    return made


def sample(details, random, steps=()):
    shape = (*steps, *details["shape"])
    if details["dtype"] == np.float32:
        return random.uniform(-1, 1, shape).astype(np.float32)
    kind = np.iinfo(details["dtype"])
    return random.integers(max(kind.min, -128), min(kind.max, 255) + 1, shape).astype(kind.dtype)


def states_of(path, folder):
    """Names of the inputs that are states."""
    evoq("inspect", path, "--json", folder / "inspect.json")
    told = json.loads((folder / "inspect.json").read_text())
    outputs = {o["name"] for o in told["outputs"]}
    return [i["name"] for i in told["inputs"] if i["name"] + ".next" in outputs]


def run_evoq(path, inputs, states, folder):
    """Outputs by name; with states those of each step, stacked."""
    command = ["run", path, "--output-dir", folder / f"{path.stem}_out", "--threads", "1"]
    for i, (name, x) in enumerate(inputs.items()):
        np.save(folder / f"x{i}.npy", x)
        command += ["--input", f"{name}={folder}/x{i}.npy"]
    for name in states:
        command += ["--state", f"{name}.next={name}"]
    evoq(*command, "--json", folder / "run.json")
    told = json.loads((folder / "run.json").read_text())
    return {o["name"]: np.load(o["file"]) for o in told["outputs"]}


def run_peer(path, kernels, inputs, states):
    """The same by a new interpreter, whose variables have their first values."""
    peer = interpreter(path, kernels)
    rows = {d["name"]: [] for d in peer.get_output_details()}
    for step in range(STEPS if states else 1):
        for d in peer.get_input_details():
            peer.set_tensor(d["index"], inputs[d["name"]][step] if states else inputs[d["name"]])
        peer.invoke()
        for d in peer.get_output_details():
            rows[d["name"]].append(peer.get_tensor(d["index"]))
    return {name: np.stack(row) if states else row[0] for name, row in rows.items()}


def compare(path, samples, folder):
    """Shares of equal elements, the largest difference (of float32 as a share of the output's
    largest element), the number of elements, by set of kernels."""
    kinds = {
        "as it comes": OpResolverType.AUTO,
        "built-in kernels": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    }
    random = np.random.default_rng(1)
    states = states_of(path, folder)
    steps = (STEPS,) if states else ()
    differences = {name: [] for name in kinds}
    for _ in range(samples):
        details = interpreter(path).get_input_details()
        inputs = {d["name"]: sample(d, random, steps) for d in details}
        ours = run_evoq(path, inputs, states, folder)
        for kind, kernels in kinds.items():
            for name, theirs in run_peer(path, kernels, inputs, states).items():
                d = np.abs(ours[name].astype(np.float64) - theirs).ravel()
                integers = np.issubdtype(theirs.dtype, np.integer)
                differences[kind].append(d if integers else d / np.abs(theirs).max())
    found = {}
    for kind, parts in differences.items():
        d = np.concatenate(parts)
        found[kind] = (float((d == 0).mean()), float(d.max()), d.size)
    return found


def bench(path, runs):
    """Median milliseconds: evoq's, LiteRT's. Rounds of both, one after the other."""
    peer = interpreter(path)
    for details in peer.get_input_details():
        peer.set_tensor(details["index"], sample(details, np.random.default_rng(2)))
    ours, theirs = [], []
    for _ in range(runs):
        done = subprocess.run(
            [EVOQ, "bench", path, "--threads", "1"], check=True, capture_output=True, text=True
        )
        ours.append(float(re.search(r"p50 ([0-9.]+) ms", done.stdout)[1]))
        times = []
        end = time.perf_counter() + 0.5
        while time.perf_counter() < end:
            start = time.perf_counter()
            peer.invoke()
            times.append((time.perf_counter() - start) * 1e3)
        theirs.append(statistics.median(times))
    return statistics.median(ours), statistics.median(theirs)


def models(args, folder):
    if args.models:
        return sorted(pathlib.Path(args.models).glob("*.tflite"))
    paths = []
    for name, make in MODELS.items():
        paths.append(folder / f"{name}.tflite")
        paths[-1].write_bytes(make())
    return paths


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", help="compare these instead (default: nets that are made here)")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--bench", type=int, default=0, metavar="RUNS")
    args = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for path in models(args, folder):
            found = compare(path, args.samples, folder)
            integers = interpreter(path).get_output_details()[0]["dtype"] != np.float32
            for kind, (equal, worst, count) in found.items():
                print(f"{path.stem}, {kind}: {equal:.2%} of {count} equal, at most {worst:g} apart")
            equal, worst, _ = found["as it comes"]
            least = LEAST.get(path.stem, 0.99)
            most = MOST_APART.get(path.stem, 1)
            good = worst <= most and equal >= least if integers else worst <= 1e-5
            failed |= not good
            if args.bench:
                ours, theirs = bench(path, args.bench)
                print(f"{path.stem}: evoq {ours:.3f} ms, LiteRT {theirs:.3f} ms", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.exit(main())
