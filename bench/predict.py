#!/usr/bin/env python3
"""What `evoq predict` forecasts beside what is measured, and the constants that it uses.

    bench/predict.py nets  -o DIR                 writes the networks that the constants are fitted on (predict_nets.py)
    bench/predict.py watch -o DIR [--threads 1,2] forecasts and measures each network of DIR: DIR/NAME.T.json
    bench/predict.py fit   -o DIR                 src/predict/efficiency.inc from those (predict_fit.py)
    bench/predict.py files -o DIR --data DATA     quantizes the zoo's models and those of DATA/models, of which fit saw none
    bench/predict.py bench -o DIR --data DATA     measures each of those files: DIR/NAME.SCHEME.T.ms
    bench/predict.py check -o DIR --data DATA     forecasts them: bench/results/predict.json, a table and the bars (tell: again)

watch, files and bench leave alone what they have: --only REGEX for some, removing files for anew. $EVOQ_BUILD: the build's
folder. Nothing else should run beside watch and bench. Needs onnx and numpy from PyPI.
"""
import argparse
import json
import math
import os
import random
import re
import sys

import numpy as np

import predict_fit
from runners import run_evoq

HERE = os.path.dirname(os.path.abspath(__file__))
INC = os.path.join(HERE, "..", "src", "predict", "efficiency.inc")
RESULTS = os.path.join(HERE, "results", "predict.json")
SCHEMES = ("float32", "bf16", "int8", "int8-dynamic", "int8-weights")
ZOO = ("lenet", "mobilenetv2", "resnet18", "resnet50", "resnet50-bn", "squeezenet1.1", "vgg16", "bert-base")
SHAPES = {  # of inputs whose sizes the file leaves free
    "babyllama105": {"input_ids": "1x64"}, "stories260K": {"input_ids": "1x64"}, "basic_pitch_nmp": {"serving_default_input_2:0": "1x43844x1"},
    "brainchop_model11_gw_ae": {"input": "1x1x64x64x64"}, "deeplabv3_mnv2_pascal": {"input": "1x3x513x513"},
    "magika_standard_v3_3": {"bytes": "1x2048"}, "yunet_n_dynamic": {"input": "1x3x320x320"},
    "silero_vad_16k_op15": {"input": "1x512", "state": "2x1x128"}, "silero_vad": {"input": "1x512", "state": "2x1x128"},
}
AGREE = 1.04
SAME = 0.05  # kSameShare of src/predict/predict.cc


def evoq():
    return os.path.join(os.environ.get("EVOQ_BUILD", os.path.join(HERE, "..", "build", "release")), "bin", "evoq")


def steady_ms(command, out):
    """The median of `evoq bench`, run until the two shortest of its results agree: what else the machine does only makes them
    longer. At most six times."""
    times = []
    while len(times) < 6:
        times.append(run_evoq(command, out)["p50_ms"])
        times.sort()
        if len(times) > 1 and times[1] <= AGREE * times[0]:
            break
    return times[0]


def shape_options(name):
    return [o for i, s in SHAPES.get(name, {}).items() for o in ("--shape", f"{i}={s}")]


def nets(args):
    import onnx
    import predict_nets
    os.makedirs(args.out, exist_ok=True)
    for name, model in predict_nets.networks():
        onnx.save(model, os.path.join(args.out, name + ".onnx"))


def watch(args):
    names = sorted(f[:-5] for f in os.listdir(args.out) if f.endswith(".onnx") and re.search(args.only, f))
    random.Random(1).shuffle(names)  # some of each kind, however early it is interrupted
    for threads in args.threads:
        for name in names:
            path = os.path.join(args.out, f"{name}.{threads}{args.tag}.json")
            if os.path.exists(path):
                continue
            try:
                forecast = run_evoq([evoq(), "predict", os.path.join(args.out, name + ".onnx"), "--check", "--threads", str(threads)], path + ".new")
            except RuntimeError as e:
                print(f"{name}: {e}", file=sys.stderr)
                continue
            with open(path + ".new", "w") as f:
                json.dump(forecast, f)
            os.rename(path + ".new", path)


def fit(args):
    steps = []
    for f in sorted(os.listdir(args.out)):
        if f.endswith(".json"):
            with open(os.path.join(args.out, f)) as file:
                steps += predict_fit.steps_of(f.split(".")[0], json.load(file))
    constants = predict_fit.fit(steps)
    predict_fit.write(constants, INC)
    print(f"{len(steps)} steps of {len({s.net for s in steps})} networks")
    for (isa, family), (times, parallel, fork, spread) in sorted(constants.items()):
        terms = "  ".join(f"{t} {x:.2f}" for t, x in zip(predict_fit.TERMS, times) if x > 0)
        print(f"{isa:7} {family:18} parallel {parallel:.2f} fork {fork:.1f} spread {spread:.2f}  {terms}")


def models(data):
    for name in ZOO:
        yield "zoo-" + name, None
    folder = os.path.join(data, "models")
    for f in sorted(os.listdir(folder)):
        if f.endswith(".onnx"):
            yield f[:-5], os.path.join(folder, f)


def onnx_of(args, name, path):
    """The model's file; the zoo's are written where they are missing."""
    if path is None:
        path = os.path.join(args.out, name + ".onnx")
        if not os.path.exists(path):
            run_evoq([evoq(), "zoo", name.split("-", 1)[1], "-o", path], path + ".json")
    return path


def selected(args):
    """(name, ONNX file, function from a scheme to its .etm)"""
    os.makedirs(args.out, exist_ok=True)
    for name, path in models(args.data):
        if re.search(args.only, name):
            yield name, onnx_of(args, name, path), lambda scheme, name=name: os.path.join(args.out, f"{name}.{scheme}.etm")


def files(args):
    for name, path, etm in selected(args):
        for scheme in SCHEMES:
            if os.path.exists(etm(scheme)):
                continue
            calibration = ["--calib-random", "4"] if scheme == "int8" else []
            try:
                run_evoq([evoq(), "quantize", path, "--scheme", scheme, *calibration, "-o", etm(scheme), *shape_options(name)], etm(scheme) + ".json")
            except RuntimeError as e:
                print(f"{name} {scheme}: {str(e).strip()}", file=sys.stderr)


def bench(args):
    for threads in args.threads:
        for name, _, etm in selected(args):
            for scheme in SCHEMES:
                path = f"{etm(scheme)[:-4]}.{threads}.ms"
                if os.path.exists(path) or not os.path.exists(etm(scheme)):
                    continue
                options = ["--threads", str(threads), "--warmup-ms", "30", "--duration-s", str(args.seconds), "--iterations", "3"]
                ms = steady_ms([evoq(), "bench", etm(scheme), *options], path + ".json")
                with open(path, "w") as f:
                    f.write(f"{ms}\n")


def check(args):
    rows = []
    for name, path, etm in selected(args):
        for threads in args.threads:
            try:
                out = os.path.join(args.out, "forecast.json")
                forecast = run_evoq([evoq(), "predict", path, "--threads", str(threads), *shape_options(name)], out)
            except RuntimeError as e:
                print(f"{name}: left out: {str(e).strip()}", file=sys.stderr)
                continue
            for s in forecast["schemes"]:
                measured = f"{etm(s['scheme'])[:-4]}.{threads}.ms"
                if "unavailable" in s or not os.path.exists(measured):
                    continue
                with open(measured) as f:
                    ms = float(f.read())
                rows.append({"model": name, "scheme": s["scheme"], "threads": threads, "predicted_bytes": s["file_bytes"],
                             "bytes": os.path.getsize(etm(s["scheme"])), "predicted_ms": round(s["ms"], 5), "low_ms": round(s["low_ms"], 5),
                             "high_ms": round(s["high_ms"], 5), "ms": ms})
    with open(RESULTS, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
    tell(rows)


def sign(ratio):
    return "faster" if ratio > 1 + SAME else "slower" if ratio < 1 / (1 + SAME) else "same"


def tell(rows):
    """The table and the bars."""
    at = {(r["model"], r["scheme"], r["threads"]): r for r in rows}
    names = list(dict.fromkeys(r["model"] for r in rows))
    threads = sorted({r["threads"] for r in rows})
    print("model                    threads  " + "  ".join(f"{s + ': ms, off':>24}" for s in SCHEMES))
    for name in names:
        for t in threads:
            cells = []
            for s in SCHEMES:
                r = at.get((name, s, t))
                cells.append(f"{r['ms']:13.4f} {100 * (r['predicted_ms'] / r['ms'] - 1):+8.0f}%" + (" " if r["low_ms"] <= r["ms"] <= r["high_ms"] else "!")
                             if r else " " * 24)
            print(f"{name[:24]:24} {t:6}   " + "  ".join(f"{c:>24}" for c in cells))
    print("(!: outside the forecast's range)")
    size = [abs(r["predicted_bytes"] / r["bytes"] - 1) for r in rows]
    print(f"size: off by at most {100 * max(size):.2f}%, {sum(x <= 0.01 for x in size)} of {len(size)} within 1%")
    off = {n: [abs(math.log(r["predicted_ms"] / r["ms"])) for r in rows if r["model"] == n] for n in names}
    within = lambda r: 1 / 1.2 <= r["predicted_ms"] / r["ms"] <= 1.2
    print(f"latency: {sum(map(within, rows))} of {len(rows)} runs within 20%; "
          f"{sum(float(np.median(off[n])) <= math.log(1.2) for n in names)} of {len(names)} models in the median over schemes and threads, "
          f"{sum(all(within(r) for r in rows if r['model'] == n) for n in names)} in all")
    for s in SCHEMES:
        mine = [r for r in rows if r["scheme"] == s]
        print(f"  {s}: {sum(map(within, mine))} of {len(mine)} runs within 20%")
    pairs = [r for r in rows if r["scheme"] != "float32"]
    wrong, strict = [], 0
    for r in pairs:
        measured = at[r["model"], "float32", r["threads"]]["ms"] / r["ms"]
        predicted = at[r["model"], "float32", r["threads"]]["predicted_ms"] / r["predicted_ms"]
        strict += (measured > 1) == (predicted > 1)
        if sign(measured) != sign(predicted) and abs(math.log(measured / predicted)) > math.log(1 + SAME):
            wrong.append(f"{r['model']} {r['scheme']} {r['threads']}: {predicted:.2f}x predicted, {measured:.2f}x measured")
    print(f"payoff (faster, same within {100 * SAME:.0f}%, slower): right in {len(pairs) - len(wrong)} of {len(pairs)} pairs; "
          f"above or below 1 to the last digit: {strict}")
    print("".join(f"  {w}\n" for w in wrong), end="")
    print(f"range: {sum(r['low_ms'] <= r['ms'] <= r['high_ms'] for r in rows)} of {len(rows)} runs within it")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("nets", "watch", "fit", "files", "bench", "check", "tell"))
    parser.add_argument("-o", "--out", default="predict_nets")
    parser.add_argument("--data", default=os.environ.get("EVOQ_DATA", "data"))
    parser.add_argument("--only", default="")
    parser.add_argument("--tag", default="", help="of watch's files, where they are of another instruction set (EVOQ_TARGET)")
    parser.add_argument("--threads", default="1,2", type=lambda s: [int(t) for t in s.split(",")])
    parser.add_argument("--seconds", default=0.15, type=float, help="of each measurement of bench")
    args = parser.parse_args()
    if args.verb == "tell":
        with open(RESULTS) as f:
            return tell(json.load(f))
    {"nets": nets, "watch": watch, "fit": fit, "files": files, "bench": bench, "check": check}[args.verb](args)


if __name__ == "__main__":
    main()
