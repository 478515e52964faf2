#!/usr/bin/env python3
"""What `evoq predict` forecasts beside what is measured, and the constants that it uses.

    bench/predict.py nets  -o DIR
        writes the networks that the constants are fitted on (predict_nets.py)
    bench/predict.py watch -o DIR [--threads 1,2]
        forecasts and measures each network of DIR: DIR/NAME.T.json
    bench/predict.py fit   -o DIR
        src/predict/efficiency.inc from those (predict_fit.py); --families REGEX: of some kernels
    bench/predict.py files -o DIR --data DATA
        quantizes the zoo's models and those of DATA/models, of which fit saw none
    bench/predict.py bench -o DIR --data DATA
        compares each with float32: DIR/NAME.SCHEME.T.compared
    bench/predict.py check -o DIR --data DATA
        forecasts them: this processor's rows of bench/results/predict.json, a table and the bars
        (tell: again, of all processors)

watch, files and bench leave alone what they have: --only REGEX for some, removing files for anew.
$EVOQ_BUILD: the build's folder. Nothing else should run beside watch and bench. Needs onnx and
numpy from PyPI.
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
ZOO = (
    "lenet",
    "mobilenetv2",
    "resnet18",
    "resnet50",
    "resnet50-bn",
    "squeezenet1.1",
    "vgg16",
    "bert-base",
)
SHAPES = {  # of inputs whose sizes the file leaves free
    "babyllama105": {"input_ids": "1x64"},
    "stories260K": {"input_ids": "1x64"},
    "basic_pitch_nmp": {"serving_default_input_2:0": "1x43844x1"},
    "brainchop_model11_gw_ae": {"input": "1x1x64x64x64"},
    "deeplabv3_mnv2_pascal": {"input": "1x3x513x513"},
    "magika_standard_v3_3": {"bytes": "1x2048"},
    "yunet_n_dynamic": {"input": "1x3x320x320"},
    "silero_vad_16k_op15": {"input": "1x512", "state": "2x1x128"},
    "silero_vad": {"input": "1x512", "state": "2x1x128"},
}
SAME = 0.05  # kSameShare of src/predict/predict.cc
NOISE = 0.03  # of a ratio of two measured times
# Models whose single steps were compared with the forecast while formulas were written: what they
# say of it is no surprise.
LOOKED_AT = (
    "basic_pitch_nmp",
    "brainchop_model11_gw_ae",
    "magika_standard_v3_3",
    "mnist_cntk",
    "stories260K",
    "yolox_nano_bigisland",
    "yunet_n_dynamic",
    "zoo-resnet18",
)


def evoq():
    return os.path.join(
        os.environ.get("EVOQ_BUILD", os.path.join(HERE, "..", "build", "release")), "bin", "evoq"
    )


def shape_options(name):
    return [o for i, s in SHAPES.get(name, {}).items() for o in ("--shape", f"{i}={s}")]


def nets(args):
    import onnx
    import predict_nets

    os.makedirs(args.out, exist_ok=True)
    for name, model in predict_nets.networks():
        onnx.save(model, os.path.join(args.out, name + ".onnx"))


def forecast_of(path, out, *options):
    """What `evoq predict` says of a network whose constants are fitted."""
    return run_evoq([evoq(), "predict", path, "--scheme", ",".join(SCHEMES[1:]), *options], out)


def watch(args):
    names = sorted(
        f[:-5] for f in os.listdir(args.out) if f.endswith(".onnx") and re.search(args.only, f[:-5])
    )
    random.Random(1).shuffle(names)  # some of each kind, however early it is interrupted
    for threads in args.threads:
        for name in names:
            path = os.path.join(args.out, f"{name}.{threads}{args.tag}.json")
            if os.path.exists(path):
                continue
            try:
                forecast = forecast_of(
                    os.path.join(args.out, name + ".onnx"),
                    path + ".new",
                    "--check",
                    "--threads",
                    str(threads),
                )
            except RuntimeError as e:
                print(f"{name}: {e}", file=sys.stderr)
                continue
            with open(path + ".new", "w") as f:
                json.dump(forecast, f)
            os.rename(path + ".new", path)


def counted_anew(args, name, path):
    """What `watch` measured, with the terms that the present build counts; kept beside it."""
    kept = path + ".counted"
    if os.path.exists(kept) and os.path.getmtime(kept) > max(
        os.path.getmtime(path), os.path.getmtime(evoq())
    ):
        with open(kept) as f:
            return json.load(f)
    with open(path) as f:
        measured = json.load(f)
    limits = os.path.join(args.out, "limits.now")
    with open(limits, "w") as f:
        json.dump(measured["limits"], f)
    now = forecast_of(
        os.path.join(args.out, name + ".onnx"),
        os.path.join(args.out, "forecast.now"),
        "--limits",
        limits,
    )
    for old, new in zip(measured["schemes"], now["schemes"]):
        if "unavailable" in old or "unavailable" in new:
            continue
        if [(s["name"], s["kernel"]) for s in old["steps"]] != [
            (s["name"], s["kernel"]) for s in new["steps"]
        ]:
            raise RuntimeError(
                f"{name} {old['scheme']}: other kernels than were measured; remove its file and "
                "watch again"
            )
        for before, step in zip(old["steps"], new["steps"]):
            before.update({key: step[key] for key in ("family", "terms_ns", "share", "loops")})
    with open(kept, "w") as f:
        json.dump(measured, f)
    return measured


def fit(args):
    steps = []
    for f in sorted(os.listdir(args.out)):
        if not f.endswith(".json"):
            continue
        name = f.split(".")[0]
        try:
            steps += predict_fit.steps_of(name, counted_anew(args, name, os.path.join(args.out, f)))
        except RuntimeError as e:
            print(str(e).strip(), file=sys.stderr)
    known = predict_fit.read(INC)
    constants = predict_fit.fit(steps, known)
    if args.families:
        constants = {k: row for k, row in constants.items() if re.fullmatch(args.families, k[1])}
        for (on, family), (times, shared, spread) in constants.items():
            shares = [s for s in steps if s.on == on and s.family == family and s.threads > 1]
            if not shares and (on, family) in known:  # nothing new is known of threads
                shared = known[on, family][1]
            constants[on, family] = (times, shared, max(spread, 0.15))
        kept = known
    else:
        fitted = {on for on, _ in constants}  # those of other cores stay as they are
        kept = {key: row for key, row in known.items() if key[0] not in fitted}
    predict_fit.write(kept | constants, INC)
    print(f"{len(steps)} steps of {len({s.net for s in steps})} networks")
    for (on, family), (times, (shared, fork, remote), spread) in sorted(constants.items()):
        terms = "  ".join(f"{t} {x:.2f}" for t, x in zip(predict_fit.TERMS, times) if x > 0)
        print(
            f"{' '.join(on)} {family:18} shared {shared:.2f} fork {fork:.1f} remote {remote:.1f} "
            f"spread {spread:.2f}  {terms}"
        )


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
            yield (
                name,
                onnx_of(args, name, path),
                lambda scheme, name=name: os.path.join(args.out, f"{name}.{scheme}.etm"),
            )


def ranges(args, name):
    return os.path.join(args.out, name + ".ranges")


def files(args):
    for name, path, etm in selected(args):
        for scheme in SCHEMES:
            if os.path.exists(etm(scheme)):
                continue
            calibration = (
                ["--calib-random", "4", "--save-ranges", ranges(args, name)]
                if scheme == "int8"
                else []
            )
            try:
                run_evoq(
                    [
                        evoq(),
                        "quantize",
                        path,
                        "--scheme",
                        scheme,
                        *calibration,
                        "-o",
                        etm(scheme),
                        *shape_options(name),
                    ],
                    etm(scheme) + ".json",
                )
            except RuntimeError as e:
                print(f"{name} {scheme}: {str(e).strip()}", file=sys.stderr)


def compared(args, name, scheme, threads):
    return os.path.join(args.out, f"{name}.{scheme}.{threads}.compared")


def unrest(comparison):
    """How much the machine did beside: the width of the speedup's interval, or how far the median
    run is from the shortest."""
    return (
        max(
            comparison["speedup_high"] / comparison["speedup_low"],
            *(comparison[m]["p50_ms"] / comparison[m]["min_ms"] for m in "ab"),
        )
        - 1
    )


def calm(comparison):
    return unrest(comparison) < 0.15


def bench(args):
    """`evoq compare` runs float32 and a scheme in turn."""
    for threads in args.threads:
        for name, _, etm in selected(args):
            for scheme in SCHEMES[1:]:
                path = compared(args, name, scheme, threads)
                if (
                    os.path.exists(path)
                    or not os.path.exists(etm(scheme))
                    or not os.path.exists(etm("float32"))
                ):
                    continue
                options = [
                    "--threads",
                    str(threads),
                    "--rounds",
                    "5",
                    "--warmup-ms",
                    "20",
                    "--duration-s",
                    str(args.seconds),
                ]
                found = []
                try:
                    while len(found) < args.tries and not any(map(calm, found)):
                        found.append(
                            run_evoq(
                                [evoq(), "compare", etm("float32"), etm(scheme), *options],
                                path + ".json",
                            )
                        )
                except RuntimeError as e:
                    print(f"{name}: {str(e).strip()}", file=sys.stderr)
                    break
                with open(path, "w") as f:
                    json.dump(min(found, key=unrest), f)


def times_of(args, name, threads):
    """{scheme: ms and the speedup with its interval}. The ratios are certain where times are not,
    because the machine's pace is that of the moment: float32's time is the shortest of all
    comparisons; a scheme's is that divided by its speedup."""
    found = {}
    for scheme in SCHEMES[1:]:
        if os.path.exists(compared(args, name, scheme, threads)):
            with open(compared(args, name, scheme, threads)) as f:
                comparison = json.load(f)
            if calm(comparison):  # else there is no undisturbed measurement
                found[scheme] = comparison
    if not found:
        return {}
    ms = min(c["a"]["p50_ms"] for c in found.values())
    times = {"float32": {"ms": ms, "speedup": 1, "low": 1, "high": 1}}
    for scheme, c in found.items():
        times[scheme] = {
            "ms": ms / c["speedup"],
            "speedup": c["speedup"],
            "low": c["speedup_low"],
            "high": c["speedup_high"],
        }
    return times


def with_ranges(args, name, path, scheme, etm):
    """Where the size is off: the one forecast with the ranges of the file."""
    if (
        scheme["scheme"] != "int8"
        or not os.path.exists(ranges(args, name))
        or scheme["file_bytes"] == os.path.getsize(etm("int8"))
    ):
        return {}
    out = os.path.join(args.out, "forecast.json")
    forecast = run_evoq(
        [
            evoq(),
            "predict",
            path,
            "--threads",
            "1",
            "--scheme",
            "int8",
            "--ranges",
            ranges(args, name),
            *shape_options(name),
        ],
        out,
    )
    return {"bytes_with_ranges": forecast["schemes"][1]["file_bytes"]}


def check(args):
    rows = []
    limits = run_evoq([evoq(), "limits", "--threads", "1"], os.path.join(args.out, "limits.json"))
    core = limits["core"]
    for name, path, etm in selected(args):
        for threads in args.threads:
            times = times_of(args, name, threads)
            if not os.path.exists(etm("float32")):
                continue
            try:
                out = os.path.join(args.out, "forecast.json")
                forecast = run_evoq(
                    [evoq(), "predict", path, "--threads", str(threads), *shape_options(name)], out
                )
            except RuntimeError as e:
                rows.append(
                    {
                        "core": core,
                        "model": name,
                        "threads": threads,
                        "refused": str(e).strip().rsplit("/", 1)[-1],
                    }
                )
                continue
            for s in forecast["schemes"]:
                if s.get("ms") is not None and s["scheme"] in times:
                    rows.append(
                        {
                            **with_ranges(args, name, path, s, etm),
                            "core": core,
                            "model": name,
                            "scheme": s["scheme"],
                            "threads": threads,
                            "predicted_bytes": s["file_bytes"],
                            "bytes": os.path.getsize(etm(s["scheme"])),
                            "predicted_ms": round(s["ms"], 5),
                            "low_ms": round(s["low_ms"], 5),
                            "high_ms": round(s["high_ms"], 5),
                            "payoff": s["payoff"],
                            "ms": round(times[s["scheme"]]["ms"], 5),
                            "speedup": [
                                round(times[s["scheme"]][k], 4) for k in ("speedup", "low", "high")
                            ],
                        }
                    )
    with open(RESULTS) as f:  # those of other processors stay as they are
        rows = [r for r in json.load(f) if r["core"] != core] + rows
    with open(RESULTS, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
    tell([r for r in rows if r["core"] == core])


def holds(verdict, speedup):
    """Whether what the forecast says of a scheme is so. What is measured is certain up to NOISE."""
    if verdict == "same":
        return 1 / (1 + SAME) <= speedup <= 1 + SAME
    return speedup > 1 + NOISE if verdict == "faster" else speedup < 1 / (1 + NOISE)


def tell(rows):
    """The table and the bars."""
    for r in rows:
        if "refused" in r:
            print(f"{r['model']} {r['threads']}: no forecast: {r['refused']}")
    refused = {r["model"] for r in rows if "refused" in r}
    rows = [r for r in rows if "refused" not in r]
    at = {(r["model"], r["scheme"], r["threads"]): r for r in rows}
    names = list(dict.fromkeys(r["model"] for r in rows))
    print(
        "model                    threads  " + "  ".join(f"{s + ': ms, off':>24}" for s in SCHEMES)
    )
    for name in names:
        for t in sorted({r["threads"] for r in rows}):
            cells = []
            for s in SCHEMES:
                r = at.get((name, s, t))
                cells.append(
                    f"{r['ms']:13.4f} {100 * (r['predicted_ms'] / r['ms'] - 1):+8.0f}%"
                    + (" " if r["low_ms"] <= r["ms"] <= r["high_ms"] else "!")
                    if r
                    else " " * 24
                )
            print(f"{name[:24]:24} {t:6}   " + "  ".join(f"{c:>24}" for c in cells))
    print("(!: outside the forecast's range)")
    size = [abs(r["predicted_bytes"] / r["bytes"] - 1) for r in rows]
    print(
        f"size: off by at most {100 * max(size):.2f}%, {sum(x <= 0.01 for x in size)} of "
        f"{len(size)} within 1%"
    )
    given = [abs(r.get("bytes_with_ranges", r["predicted_bytes"]) / r["bytes"] - 1) for r in rows]
    print(
        " with the ranges that the file was calibrated to (predict --ranges): off by at most "
        f"{100 * max(given):.2f}%, "
        f"{sum(x <= 0.01 for x in given)} of {len(given)} within 1%"
    )
    for t in sorted({r["threads"] for r in rows}):
        those = [r for r in rows if r["threads"] == t]
        print(f"{t} thread{'s' if t > 1 else ''}:")
        bars(those, at, "all models", refused)
        bars(
            [r for r in those if r["model"] not in LOOKED_AT],
            at,
            "models whose steps nobody looked at",
            refused - set(LOOKED_AT),
        )
        for s in SCHEMES:
            mine = [r for r in those if r["scheme"] == s]
            print(f"  {s}: {sum(map(within, mine))} of {len(mine)} runs within 20%")
        for r in those:
            if r["scheme"] != "float32" and not holds(r["payoff"], speedup(at, r, "ms")):
                print(
                    f"  {r['model']} {r['scheme']}: said {r['payoff']} "
                    f"({speedup(at, r, 'predicted_ms'):.2f}x), is {speedup(at, r, 'ms'):.2f}x"
                )


def speedup(at, r, key):
    return at[r["model"], "float32", r["threads"]][key] / r[key]


def within(r):
    return 1 / 1.2 <= r["predicted_ms"] / r["ms"] <= 1.2


def bars(rows, at, title, refused):
    """Of rows of one number of threads. A model without forecast counts as missed."""
    names = list(dict.fromkeys(r["model"] for r in rows))
    off = {
        n: [abs(math.log(r["predicted_ms"] / r["ms"])) for r in rows if r["model"] == n]
        for n in names
    }
    print(f" {title}:")
    print(
        f"  latency within 20%: {sum(map(within, rows))} of {len(rows)} runs; "
        f"{sum(float(np.median(off[n])) <= math.log(1.2) for n in names)} of "
        f"{len(names) + len(refused)} models in the median over schemes, "
        f"{sum(all(within(r) for r in rows if r['model'] == n) for n in names)} in all"
    )
    pairs = [r for r in rows if r["scheme"] != "float32"]
    right = sum(holds(r["payoff"], speedup(at, r, "ms")) for r in pairs)
    strict = sum((speedup(at, r, "ms") > 1) == (speedup(at, r, "predicted_ms") > 1) for r in pairs)
    print(
        f"  payoff: what is said is so in {right} of {len(pairs)} pairs "
        f"({100 * right / max(len(pairs), 1):.0f}%); "
        f"on the right side of 1 to the last digit: {strict}"
    )
    clear = [r for r in pairs if r["speedup"][1] > 1 + NOISE or r["speedup"][2] < 1 / (1 + NOISE)]
    sides = sum((r["speedup"][0] > 1) == (speedup(at, r, "predicted_ms") > 1) for r in clear)
    print(
        f"   of the {len(clear)} whose measured interval lies beyond {NOISE:.0%} from 1: on the "
        f"right side in {sides}"
    )
    print(
        f"  range: {sum(r['low_ms'] <= r['ms'] <= r['high_ms'] for r in rows)} of {len(rows)} runs "
        "within it"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("nets", "watch", "fit", "files", "bench", "check", "tell"))
    parser.add_argument("-o", "--out", default="predict_nets")
    parser.add_argument("--data", default=os.environ.get("EVOQ_DATA", "data"))
    parser.add_argument("--only", default="")
    parser.add_argument("--families", help="of fit: a regular expression; others keep theirs")
    parser.add_argument(
        "--tag",
        default="",
        help="of watch's files, where they are of another instruction set (EVOQ_TARGET)",
    )
    parser.add_argument("--threads", default="1,2", type=lambda s: [int(t) for t in s.split(",")])
    parser.add_argument("--seconds", default=0.9, type=float, help="of each comparison of bench")
    parser.add_argument(
        "--tries", default=3, type=int, help="of a comparison, until the machine is calm"
    )
    args = parser.parse_args()
    if args.verb == "tell":
        with open(RESULTS) as f:
            rows = json.load(f)
        for core in dict.fromkeys(r["core"] for r in rows):
            print(f"{core}:")
            tell([r for r in rows if r["core"] == core])
        return
    {"nets": nets, "watch": watch, "fit": fit, "files": files, "bench": bench, "check": check}[
        args.verb
    ](args)


if __name__ == "__main__":
    main()
