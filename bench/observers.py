#!/usr/bin/env python3
"""How close static int8 stays to float32 under every observer, for the models of bench/vision.py.

    bench/observers.py --data DIR [--evoq build/release/bin/evoq] [--models NAME,...]
                       [--observers NAME,...] [--quantize-option=...] [--json F] [--table F]

For each model and observer: top-1 lost against float32 in points (100 x share of the samples), the
share of samples with the same class, the signal to noise of the worst output. Then each observer's
figures over all models: the mean of its ranks, of the points lost, and of what its noise is in dB
above that of the best observer for that model. --table only prints the tables of a --json written
before.
"""

import argparse
import json
import os
import tempfile

import vision
from runners import run_evoq
from tables import table


def observers(evoq, folder):
    rows = run_evoq([evoq, "list", "observers"], os.path.join(folder, "list.json"))
    return [row["name"] for row in rows]


def measure(evoq, case, observer, options, folder):
    """One row."""
    out, etm = os.path.join(folder, "out.json"), os.path.join(folder, "model.etm")
    made = run_evoq(
        [evoq, "quantize", case.path, "--observer", observer, "-o", etm]
        + [*case.calib, *case.preprocess, *options],
        out,
    )
    row = {"model": case.name, "kind": case.kind, "observer": observer}
    row["seconds"] = made["seconds"]
    scored = run_evoq(
        [evoq, "eval", etm, "--reference", case.path, *case.score, *case.preprocess], out
    )
    row["sqnr_db"] = scored.get("sqnr_db")
    if case.kind == "classes":
        row["agreement"], row["top1"] = scored["agreement"], scored["top1"]
        row["samples"] = scored["samples"]
    return row


def float_top1(evoq, case, folder):
    if case.kind != "classes":
        return None
    out = os.path.join(folder, "out.json")
    return run_evoq([evoq, "eval", case.path, *case.score, *case.preprocess], out)["top1"]


def quality(row):
    """What observers of one model are ranked by: the larger, the better."""
    return row["sqnr_db"] if row["sqnr_db"] is not None else float("-inf")


def summary(rows):
    """observer -> the figures over all models that every observer quantized."""
    by_model = {}
    for row in rows:
        by_model.setdefault(row["model"], []).append(row)
    names = list(dict.fromkeys(row["observer"] for row in rows))
    whole = [found for found in by_model.values() if len(found) == len(names)]
    result = {}
    for name in names:
        ranks, above, lost, agreed = [], [], [], []
        for found in whole:
            mine = next(r for r in found if r["observer"] == name)
            ranks.append(1 + sum(quality(r) > quality(mine) + 0.05 for r in found))
            above.append(max(map(quality, found)) - quality(mine))
            if "top1" in mine:
                lost.append(100 * (mine["float_top1"] - mine["top1"]))
                agreed.append(mine["agreement"])
        mean = lambda values: sum(values) / max(len(values), 1)
        result[name] = {
            "models": len(whole),
            "rank": mean(ranks),
            "noise_above_best_db": mean(above),
            "most_noise_above_best_db": max(above, default=0),
            "points_lost": mean(lost),
            "most_points_lost": max(lost, default=0),
            "agreement": mean(agreed),
        }
    return result


def show(rows):
    cells = []
    names = list(dict.fromkeys(row["observer"] for row in rows))
    for model in dict.fromkeys(row["model"] for row in rows):
        line = [model]
        for name in names:
            found = [r for r in rows if r["model"] == model and r["observer"] == name]
            if not found:
                line.append("-")
                continue
            row = found[0]
            noise = f"{row['sqnr_db']:.1f} dB" if row["sqnr_db"] is not None else "-"
            if row["kind"] == "classes":
                lost = 100 * (row["top1"] - row["float_top1"])
                noise = f"{lost:+.2f}, {row['agreement']:.3f}, {noise}"
            line.append(noise)
        cells.append(line)
    print(table(["model", *names], cells))
    print()
    print(
        table(
            ["observer", "rank", "points lost", "most", "agreement", "dB above the best", "most"],
            [
                [
                    name,
                    f"{r['rank']:.2f}",
                    f"{r['points_lost']:.2f}",
                    f"{r['most_points_lost']:.2f}",
                    f"{r['agreement']:.4f}",
                    f"{r['noise_above_best_db']:.2f}",
                    f"{r['most_noise_above_best_db']:.2f}",
                ]
                for name, r in summary(rows).items()
            ],
        )
    )
    print(f"\nOver {next(iter(summary(rows).values()))['models']} models.")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--evoq", default="build/release/bin/evoq")
    parser.add_argument("--data")
    parser.add_argument("--models", default="")
    parser.add_argument("--observers", default="")
    parser.add_argument("--quantize-option", action="append", default=[])
    parser.add_argument("--json", default="")
    parser.add_argument("--table", default="")
    args = parser.parse_args()
    if args.table:
        with open(args.table) as f:
            return show(json.load(f)["rows"])
    if not args.data:
        parser.error("--data or --table is needed")
    wanted = [n for n in args.models.split(",") if n]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        names = [n for n in args.observers.split(",") if n] or observers(args.evoq, folder)
        for case in vision.cases(os.path.abspath(args.data), folder):
            if wanted and case.name not in wanted:
                continue
            top1 = float_top1(args.evoq, case, folder)
            for name in names:
                try:
                    row = measure(args.evoq, case, name, args.quantize_option, folder)
                except RuntimeError as error:
                    print(f"{case.name} {name}: {error}", flush=True)
                    continue
                if top1 is not None:
                    row["float_top1"] = top1
                rows.append(row)
                print(
                    " ".join(
                        f"{k} {v:.4f}" if isinstance(v, float) else f"{k} {v}"
                        for k, v in row.items()
                    ),
                    flush=True,
                )
                if args.json:
                    with open(args.json, "w") as f:
                        json.dump({"rows": rows}, f, indent=1)
    if rows:
        show(rows)


if __name__ == "__main__":
    main()
