#!/usr/bin/env python3
"""evoq beside ONNX Runtime, OpenVINO and oneDNN: same files, threads and batch, rounds in turn,
medians.

    bench/peers.py [PART...] [--data DIR] [--only REGEX] [--threads 1,2] [--batch 1,8] [--rounds 5]
                   [--seconds 0.5]
    bench/peers.py bars      prints every bar beside its figure in bench/results, by processor
    bench/peers.py tables    writes the tables of docs/performance.md, by processor

Parts: models (whole models, float32 and int8), own_forms (the int8 forms of ResNet-50 and
MobileNetV2 in turn with each other), forms (each of them beside the peers), blocks (small blocks,
int8 against float32), gemm (matrix products), system (dispatch, load, memory, a busy machine,
AVX2). Default: all. A run replaces the rows that it measured in bench/results/PART.json and keeps
the others, and those of other processors; with EVOQ_TARGET a processor counts as another one.
--prepare only makes the files.
int8 is static for all: evoq's .etm, and for the peers the QDQ ONNX that evoq exports from the same
ranges. Peers are optional (pip: onnxruntime, openvino; apt: libdnnl-dev). Needs numpy and onnx from
PyPI.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time

import tables
from bars import bars
from models import Files
from parts import PARTS, Bench
from runners import versions

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def store(folder, part, key, row, machine):
    """Replaces the row of equal key that this processor measured before; the others stay."""
    of = lambda r: tuple(r.get(k) for k in (*key, "cpu"))
    path, stored = os.path.join(folder, part + ".json"), {"machines": {}, "rows": []}
    if os.path.exists(path):
        with open(path) as f:
            stored = json.load(f)
    places = {of(r): i for i, r in enumerate(stored["rows"])}
    place = places.get(of(row), len(places))
    stored["rows"][place : place + 1] = [row]
    stored["machines"][row["cpu"]] = {**machine, "versions": versions()}
    os.makedirs(folder, exist_ok=True)
    with open(path, "w") as f:
        json.dump(stored, f, indent=1)
        f.write("\n")


def source_commit():
    """The commit of the source folder; rows of one file may come from several."""
    done = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    )
    return done.stdout.strip() or None


def processor(limits):
    """The processor with what tells its kinds apart."""
    facts = {}
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as f:
            facts = dict((part.strip() for part in line.split(":", 1)) for line in f if ":" in line)
    kind = f" family {facts['cpu family']} model {facts['model']}" if "cpu family" in facts else ""
    return f"{limits['cpu']}{kind}, {limits['isa']}"


def numbers(text):
    return [int(t) for t in text.split(",")]


def tell(args):
    """What was measured: bars, or tables."""
    if args.parts == ["tables"]:
        tables.write(os.path.join(ROOT, "docs/performance.md"), args.out)
        return 0
    for cpu, results in tables.by_processor(tables.load(args.out)).items():
        found = bars(results)
        print(cpu)
        print("\n".join(b.text() for b in found if not (args.missed and b.met)))
        print(f"{sum(b.met for b in found)} of {len(found)} bars met")
    return 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help="models own_forms forms blocks gemm system, or bars, or tables",
    )
    parser.add_argument("--evoq", default=os.path.join(ROOT, "build/release/bin/evoq"))
    parser.add_argument(
        "--data", default=os.environ.get("EVOQ_DATA", os.path.join(ROOT, "../shared/data"))
    )
    parser.add_argument(
        "--work",
        default=os.path.join(ROOT, "build/peers"),
        help="where generated and converted models are kept",
    )
    parser.add_argument(
        "--only",
        default="",
        help="models, forms, blocks, shapes that match this regular expression",
    )
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--batch", type=numbers, default=[1, 8])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each runner in each round")
    parser.add_argument("--peers", default="ort,ov", help="those to run beside evoq, of ort and ov")
    parser.add_argument("--prepare", action="store_true", help="make the files and measure nothing")
    parser.add_argument("--out", default=os.path.join(ROOT, "bench/results"))
    parser.add_argument("--missed", action="store_true", help="bars: only those that are missed")
    args = parser.parse_args()
    if args.parts in (["bars"], ["tables"]):
        try:
            return tell(args)
        except ValueError as error:
            sys.exit(f"peers.py: {error}")
    unknown = [p for p in args.parts if p not in PARTS]
    if unknown:
        parser.error(f"unknown part {unknown[0]}: expected {', '.join(PARTS)}, bars or tables")
    bench = Bench(
        Files(args.evoq, args.data, args.work),
        args.evoq,
        args.only,
        args.threads,
        args.batch,
        args.rounds,
        args.seconds,
    )
    bench.peers = {n: p for n, p in bench.peers.items() if n in args.peers.split(",")}
    limits = bench.peak(1)
    machine = {
        "cpu": limits["cpu"],
        "isa": limits["isa"],
        "cores": os.cpu_count(),
        "system": platform.platform(),
    }
    commit, cpu = source_commit(), processor(limits)
    for part in args.parts or PARTS:
        run, key = PARTS[part]
        start, rows, bench.rooflines = time.time(), [], True
        for row in run(bench, args.prepare):
            row.update(commit=commit, cpu=cpu)
            rows.append(row)
            print(tables.line(part, row), flush=True)
            store(args.out, part, key, row, machine)
        if rows:
            print("\n".join(b.text() for b in bars({part: rows})))
        print(f"{part}: {len(rows)} rows in {time.time() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
