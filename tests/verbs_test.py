#!/usr/bin/env python3
"""Every verb on every kind of model: it works, or it says what is missing and which option gives it
(exit status 2 or 3).

A row per kind, a column per verb; a cell names the message that is expected where the verb cannot
work. Skips (77) without numpy or onnx.
"""

import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

import agree

agree.need("numpy", "onnx")
import numpy as np
import tiny_models

QUICK = ["--duration-s", "0.02"]
# kind, what names its sizes or contents where a run needs that
KINDS = {
    "static": (lambda path: tiny_models.image_net(path, 1, 16, 16), []),
    "free batch": (lambda path: tiny_models.image_net(path, "N", 16, 16), []),
    "free sizes": (tiny_models.image_net, ["--shape", "x=1x3x16x16"]),
    "free length": (tiny_models.attention, ["--shape", "x=1x7x16"]),
    "NonZero": (tiny_models.nonzero, []),
    "NMS": (tiny_models.detector, []),
    "If": (tiny_models.branches, []),
    "Loop": (tiny_models.loop, []),
    "LSTM": (tiny_models.lstm, ["--shape", "x=3x1x8"]),
    "two and two": (tiny_models.two_by_two, []),
    "no inputs": (tiny_models.no_inputs, []),
    "passes through": (tiny_models.passes_through, []),
    "scalar": (tiny_models.scalar, []),
    "strings": (tiny_models.strings, []),
}
NO_NUMBERS = (
    r"input x is string\[.*\]: "
    r"(it has no content to measure with|random samples are tensors of numbers)"
)
# (kind, verb): the message; anything else works
REFUSED = {
    ("strings", verb): NO_NUMBERS
    for verb in (
        "bench",
        "profile",
        "explain",
        "compare",
        "diff",
        "sensitivity",
        "predict",
        "int8",
        "never slower",
        "auto",
    )
}
REFUSED["scalar", "sensitivity"] = "--scheme int8 quantizes no layer of this model"
failures = []


def evoq(*arguments):
    return subprocess.run([agree.EVOQ, *arguments], capture_output=True, text=True)


def check(cell, holds, detail):
    if not holds:
        failures.append(cell)
        print(f"FAILED {cell}: {detail}")
    return holds


def verbs(kind, folder):
    """Runs all of them on one kind; returns the row of the table."""
    make, sizes = KINDS[kind]
    stem = f"{folder}/{kind.replace(' ', '_')}"
    float_model = stem + ".onnx"
    make(float_model)
    calibrated = ["--calib-random", "3", *sizes]
    certified = [*calibrated, "--search-s", "0.1", "--measure-s", "0.05"]
    commands = {
        "inspect": ["inspect", float_model],
        "compile": ["compile", float_model, *sizes, "-o", stem + ".float.etm"],
        "int8": ["quantize", float_model, *calibrated, "-o", stem + ".int8.etm"],
        "dynamic": [
            "quantize",
            float_model,
            "--scheme",
            "int8-dynamic",
            *sizes,
            "-o",
            stem + ".dynamic.etm",
        ],
        "bf16": ["quantize", float_model, "--scheme", "bf16", "-o", stem + ".bf16.etm"],
        "Q/DQ": ["quantize", float_model, "--scheme", "int8-weights", "-o", stem + ".qdq.onnx"],
        "auto": [
            "quantize",
            float_model,
            "--scheme",
            "auto",
            *certified,
            "--min-sqnr",
            "10",
            "-o",
            stem + ".auto.etm",
        ],
        "never slower": [
            "quantize",
            float_model,
            "--scheme",
            "bf16",
            *certified,
            "--never-slower",
            "-o",
            stem + ".never.etm",
        ],
        "bench": [
            "bench",
            stem + ".dynamic.etm",
            *sizes,
            *QUICK,
            "--warmup-ms",
            "0",
            "--export-times",
            stem + ".times.json",
            "--export-profile",
            stem + ".profile.json",
            "--export-layer-info",
            stem + ".layers.json",
        ],
        "profile": ["profile", stem + ".dynamic.etm", *sizes, *QUICK, "--warmup-ms", "0"],
        "explain": ["explain", stem + ".dynamic.etm", "--baseline", float_model, *sizes, *QUICK],
        "compare": [
            "compare",
            float_model,
            stem + ".dynamic.etm",
            *sizes,
            "--duration-s",
            "0.1",
            "--rounds",
            "3",
            "--warmup-ms",
            "0",
        ],
        "diff": ["diff", float_model, stem + ".dynamic.etm", "--random", "2", *sizes],
        "sensitivity": ["sensitivity", float_model, "--random", "2", *sizes],
        "predict": ["predict", float_model, *sizes, "--limits", folder + "/limits.json"],
        "verify": ["verify", stem + ".auto.etm", "--baseline", float_model, "--measure-s", "0.05"],
    }
    row = []
    for verb, command in commands.items():
        cell, refusal = f"{kind} / {verb}", REFUSED.get((kind, verb))
        if verb == "verify" and (kind, "auto") in REFUSED:
            row.append("-")
            continue
        done = evoq(*command, "--threads", "1", "--json", stem + ".json")
        message = done.stderr.strip()
        if refusal:
            holds = check(
                cell,
                done.returncode in (2, 3) and re.search(refusal, message),
                f"{done.returncode} {message}",
            )
        elif verb in ("never slower", "verify"):
            # Whether a promise holds is a matter of time, which may differ.
            holds = check(cell, done.returncode in (0, 1), f"{done.returncode} {message}")
        else:
            holds = check(cell, done.returncode == 0, f"{done.returncode} {message}")
        row.append(("no" if refusal else "yes") if holds else "FAILED")
        if holds and not refusal and done.returncode == 0:
            with open(stem + ".json") as f:
                out = json.load(f)
            says(cell, kind, verb, stem, out)
            if verb == "bench":
                exports(cell, kind, stem, out)
    return list(commands), row


def exports(cell, kind, stem, out):
    """What bench wrote as trtexec does: a time for each run, the profile and the layers by step."""
    paths = [f"{stem}.{name}.json" for name in ("times", "profile", "layers")]
    missing = [path for path in paths if not os.path.exists(path)]
    if not check(cell, not missing, f"wrote no {missing}"):
        return
    read = []
    for path in paths:
        with open(path) as f:
            read.append(json.load(f))
    times, profile, layers = read
    steps = [step["name"] for step in profile if "name" in step]
    check(cell, len(times) == out["runs"], f"{len(times)} times of {out['runs']} runs")
    check(
        cell,
        len(steps) == len(layers["Layers"]) and (steps or kind in ("no inputs", "passes through")),
        (steps, layers),
    )


def says(cell, kind, verb, stem, out):
    """Figures that are known whatever the machine."""
    macs = {"Loop": 4 * 16 * 16 * (1 + 0) + 4 * 16 * 8}  # made-up inputs: no rounds
    if verb in ("int8", "dynamic") and kind in (
        "static",
        "NonZero",
        "NMS",
        "If",
        "Loop",
        "two and two",
    ):
        check(
            cell,
            out["steps_int8"] > 0 and out["steps_total"] >= out["steps_int8"],
            {k: out[k] for k in out if k.startswith("steps")},
        )
    if verb == "explain":
        time = out["time"]
        told = sum(cause["ms"] for cause in time["causes"]) + time["unexplained_ms"]
        check(cell, abs(told - (time["actual_ms"] - time["ideal_ms"])) < 1e-9, time)
        steps = sum(step["ms"] for step in out["profile"]["steps"])
        check(cell, steps > 0, out["profile"])
        if kind in macs:
            check(
                cell,
                sum(step["macs"] for step in out["profile"]["steps"]) == macs[kind],
                out["profile"]["steps"],
            )
        total = (
            sum(cause["bytes"] for cause in out["bytes"]["causes"])
            + out["bytes"]["unexplained_bytes"]
        )
        check(cell, total == out["bytes"]["actual_file"], out["bytes"])
    if verb == "predict":
        check(
            cell,
            bool(out.get("in_partitions")) == (kind in ("NonZero", "NMS", "If", "Loop")),
            out.get("in_partitions"),
        )
        # The forecast of a file is the size of the file.
        dynamic = next(s for s in out["schemes"] if s["scheme"] == "int8-dynamic")
        written = os.path.getsize(stem + ".dynamic.etm")
        check(cell, dynamic["file_bytes"] == written, f"{dynamic['file_bytes']} of {written} bytes")
        # Of what runs by its definition no time is known.
        check(cell, (dynamic["ms"] is None) == bool(dynamic["unknown_steps"]), dynamic["ms"])
        check(cell, dynamic["known_ms"] > 0, dynamic["known_ms"])


def rounds_are_counted(folder):
    """Five rounds of 4 x 16 times 16 x 16, before them the same product once, after them 4 x 16
    times 16 x 8."""
    np.save(f"{folder}/n.npy", np.array(5, np.int64))
    for verb in ["profile"], ["explain", "--baseline", f"{folder}/Loop.onnx"]:
        done = evoq(
            verb[0],
            f"{folder}/Loop.float.etm",
            *verb[1:],
            "--input",
            f"n={folder}/n.npy",
            *QUICK,
            "--json",
            f"{folder}/loop.json",
        )
        if not check(f"Loop / {verb[0]}", done.returncode == 0, done.stderr):
            continue
        with open(f"{folder}/loop.json") as f:
            out = json.load(f)
        steps = {step["name"]: step["macs"] for step in out.get("profile", out)["steps"]}
        check(
            f"Loop / {verb[0]}",
            sorted(m for m in steps.values() if m) == [4 * 16 * 8, 4 * 16 * 16, 5 * 4 * 16 * 16],
            steps,
        )


def main():
    with tempfile.TemporaryDirectory() as folder:
        evoq("limits", "--threads", "1", "--json", folder + "/limits.json")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            rows = list(pool.map(lambda kind: verbs(kind, folder), KINDS))
        columns = rows[0][0]
        print(f"{'':15}" + "".join(f"{c:>13}" for c in columns))
        for kind, (_, row) in zip(KINDS, rows):
            print(f"{kind:15}" + "".join(f"{cell:>13}" for cell in row))
        rounds_are_counted(folder)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
