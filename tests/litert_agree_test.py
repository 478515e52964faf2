#!/usr/bin/env python3
"""TensorFlow Lite models run by evoq and by the LiteRT interpreter.

    tests/litert_agree_test.py [--models FOLDER] [--samples N] [--bench RUNS]

The models are written here with LiteRT's own schema: int8 nets of convolutions, depthwise ones,
residual sums, pools, means, products and softmax with random weights, or those of FOLDER. int8:
every output element within one step, at least 99% of all equal (LEAST has the exception), against
the interpreter as it comes. Prints how often its built-in kernels differ too. float32: within 1e-5
of the largest output. --bench prints the milliseconds of both on one thread: medians of
interleaved runs.

Skips (exit status 77) without the package ai-edge-litert.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from agree import EVOQ, need

need("numpy", "flatbuffers", "ai_edge_litert")

import numpy as np  # noqa: E402
from ai_edge_litert.interpreter import Interpreter, OpResolverType  # noqa: E402
from tflite_models import MODELS  # noqa: E402

# Least shares of equal elements where it is not 99%: averages that end in .5 are rounded away from
# zero by LiteRT and to even by evoq, which windows of an even number of elements meet.
LEAST = {"average_pool": 0.95}


def interpreter(path, kernels=OpResolverType.AUTO):
    made = Interpreter(str(path), num_threads=1, experimental_op_resolver_type=kernels)
    made.allocate_tensors()
    return made


def sample(details, random):
    if details["dtype"] == np.float32:
        return random.uniform(-1, 1, details["shape"]).astype(np.float32)
    return random.integers(-128, 128, details["shape"]).astype(details["dtype"])


def run_evoq(path, x, folder):
    np.save(folder / "x.npy", x)
    out = folder / f"{path.stem}_out"
    command = [EVOQ, "run", path, "--input", folder / "x.npy", "--output-dir", out]
    subprocess.run([*command, "--threads", "1"], check=True, capture_output=True, text=True)
    (written,) = out.glob("*.npy")
    return np.load(written)


def compare(path, samples, folder):
    """Shares of equal elements, the largest difference, by set of kernels; the largest output."""
    kinds = {
        "as it comes": OpResolverType.AUTO,
        "built-in kernels": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    }
    peers = {name: interpreter(path, kernels) for name, kernels in kinds.items()}
    random = np.random.default_rng(1)
    differences, largest = {name: [] for name in kinds}, 0.0
    for _ in range(samples):
        x = sample(next(iter(peers.values())).get_input_details()[0], random)
        ours = run_evoq(path, x, folder).astype(np.float64)
        for name, peer in peers.items():
            peer.set_tensor(peer.get_input_details()[0]["index"], x)
            peer.invoke()
            theirs = peer.get_tensor(peer.get_output_details()[0]["index"]).astype(np.float64)
            differences[name].append(np.abs(ours - theirs).ravel())
            largest = max(largest, np.abs(theirs).max())
    found = {}
    for name, parts in differences.items():
        d = np.concatenate(parts)
        found[name] = (float((d == 0).mean()), float(d.max()), d.size)
    return found, largest


def bench(path, runs):
    """Median milliseconds: evoq's, LiteRT's. Rounds of both, one after the other."""
    peer = interpreter(path)
    x = sample(peer.get_input_details()[0], np.random.default_rng(2))
    peer.set_tensor(peer.get_input_details()[0]["index"], x)
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
            found, largest = compare(path, args.samples, folder)
            integers = interpreter(path).get_output_details()[0]["dtype"] != np.float32
            for kind, (equal, worst, count) in found.items():
                print(f"{path.stem}, {kind}: {equal:.2%} of {count} equal, at most {worst:g} apart")
            equal, worst, _ = found["as it comes"]
            least = LEAST.get(path.stem, 0.99)
            good = worst <= 1 and equal >= least if integers else worst <= 1e-5 * largest
            failed |= not good
            if args.bench:
                ours, theirs = bench(path, args.bench)
                print(f"{path.stem}: evoq {ours:.3f} ms, LiteRT {theirs:.3f} ms", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.exit(main())
