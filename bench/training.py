#!/usr/bin/env python3
"""Trains LeNet on MNIST from nothing, once for each seed, and prints accuracy on the test set, time
and processor time, and the median of the seeds beside the bar.

    bench/training.py --data ../shared/data/mnist [--evoq build/release/bin/evoq] [--seeds 1 2 3]
                      [--json F] [-- options of evoq train]

Wall seconds are those of the whole command: reading the data, training, measuring after each epoch
and writing the model. On a machine that others use too, processor seconds say what it took.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

BAR_ACCURACY, BAR_SECONDS = 0.993, 60
ROOT = pathlib.Path(__file__).resolve().parent.parent


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime, used.ru_stime


def train(evoq, data, seed, threads, more):
    """One run: its row."""
    with tempfile.TemporaryDirectory(prefix="evoq_training_") as folder:
        result = os.path.join(folder, "result.json")
        command = [evoq, "train", "lenet", "--data", data, "--seed", str(seed), "--threads"]
        command += [str(threads), "-o", os.path.join(folder, "lenet.onnx"), "--json", result, *more]
        user, system = cpu_seconds()
        start = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.monotonic() - start
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
        told = json.loads(pathlib.Path(result).read_text(encoding="utf-8"))
    return {
        "seed": seed,
        "test_accuracy": told["test_accuracy"],
        "epochs": len(told["epochs"]),
        "seconds": seconds,
        "user_s": cpu_seconds()[0] - user,
        "system_s": cpu_seconds()[1] - system,
        "images_per_s": statistics.median(e["images_per_s"] for e in told["epochs"]),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    option = parser.add_argument
    option("--evoq", default=str(ROOT / "build/release/bin/evoq"))
    option("--data", default=str(ROOT / "../shared/data/mnist"))
    option("--seeds", type=int, nargs="+", default=[1, 2, 3])
    option("--threads", type=int, default=2)
    option("--json", help="also write the rows to this file")
    option("more", nargs="*", help="options of evoq train, behind --")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{args.threads} threads, load {load:.1f} when it began")
    rows = []
    for seed in args.seeds:
        row = train(args.evoq, args.data, seed, args.threads, args.more)
        rows.append(row)
        print(
            f"seed {seed}: {100 * row['test_accuracy']:.2f}% after {row['epochs']} epochs, "
            f"{row['seconds']:.1f} s, {row['user_s']:.1f} user + {row['system_s']:.1f} system "
            f"processor seconds, {row['images_per_s']:.0f} images/s",
            flush=True,
        )
    accuracy = statistics.median(r["test_accuracy"] for r in rows)
    seconds = statistics.median(r["seconds"] for r in rows)
    busy = statistics.median(r["user_s"] + r["system_s"] for r in rows)
    print(
        f"median: {100 * accuracy:.2f}% (bar {100 * BAR_ACCURACY:.1f}%), {seconds:.1f} s (bar "
        f"{BAR_SECONDS} s), {busy:.1f} processor seconds, {busy / args.threads:.1f} s a thread"
    )
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"load": load, "threads": args.threads, "runs": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
