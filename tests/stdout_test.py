#!/usr/bin/env python3
"""A result whose file is stdout is all that stands there: JSON of every verb that has some, models,
reports. Skips (77) without numpy and onnx.

    EVOQ_BUILD=build/release tests/stdout_test.py
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import agree

agree.need("numpy", "onnx")
import numpy as np
import tiny_models

ROOT = pathlib.Path(__file__).resolve().parent.parent
EVOQ = ROOT / os.environ.get("EVOQ_BUILD", "build/release") / "bin" / "evoq"
# The verb and its arguments; M is a model, Q the same quantized, X and Y files of inputs.
VERBS = [
    "inspect M",
    "optimize M -o o.onnx",
    "compile M -o c.etm",
    "quantize M --calib-random 4 -o q2.etm",
    "run M --input x=Y",
    "eval M --data X --reference Q",
    "predict M",
    "explain Q",
    "profile Q --duration-s 0.05",
    "bench Q --duration-s 0.05",
    "compare M Q --rounds 3",
    "diff M Q --random 2",
    "sensitivity M --data X",
    "list passes",
]
failures = []


def run(folder, arguments):
    return subprocess.run([EVOQ, *arguments], check=False, capture_output=True, cwd=folder)


def check_json(folder, line):
    arguments = (
        line.replace("M", "m.onnx")
        .replace("Q", "q.etm")
        .replace("X", "x.npy")
        .replace("Y", "y.npy")
        .split()
    )
    for name in ("-", "/dev/stdout"):
        done = run(folder, [*arguments, "--json", name])
        said = done.stderr.decode()
        if done.returncode not in (0, 1):
            failures.append(f"{line}: exit code {done.returncode}: {said.strip()}")
            return
        try:
            json.loads(done.stdout)
        except ValueError as error:
            failures.append(f"{line} --json {name}: {error}: {done.stdout[:200]}")
        if not said.strip():
            failures.append(f"{line} --json {name}: its text is gone")


def check_file(folder, arguments, suffix):
    """The bytes of the file, and what is told of it."""
    whole = run(folder, [*arguments, "-o", "whole" + suffix])
    for name in ("-", "/dev/stdout"):
        done = run(folder, [*arguments, "-o", name])
        if done.returncode != 0 or done.stdout != (folder / ("whole" + suffix)).read_bytes():
            failures.append(f"{arguments} -o {name}: another file on stdout")
        told = done.stderr.decode().replace(f"> {name}:", f"> whole{suffix}:")
        told = told.replace(f"> {name} ", f"> whole{suffix} ")
        if whole.stdout.decode().split(",")[0] not in told:
            failures.append(f"{arguments} -o {name}: tells {told!r}, not {whole.stdout.decode()!r}")


def main():
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        tiny_models.image_net(folder / "m.onnx", 1, 16, 16)
        np.save(folder / "x.npy", np.random.default_rng(1).random((2, 3, 16, 16), np.float32))
        np.save(folder / "y.npy", np.zeros((1, 3, 16, 16), np.float32))
        run(folder, ["quantize", "m.onnx", "--calib-random", "4", "-o", "q.etm"])
        for line in VERBS:
            check_json(folder, line)
        check_file(folder, ["compile", "m.onnx"], ".etm")
        check_file(folder, ["quantize", "m.onnx", "--calib-random", "4"], ".etm")
        if (folder / "-").exists():
            failures.append("a file named -")
    for failure in failures:
        print(failure)
    print(f"{len(VERBS)} verbs, {len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
