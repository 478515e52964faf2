#!/usr/bin/env python3
"""What pruning buys: quantizes a model dense and pruned, and measures both in turn, by rounds:
pointwise convolutions, other products and the whole model, and the bytes of the .etm.

    bench/pruning.py [--models mobilenetv2 resnet20] [--patterns block-4x4 block-1x16]
                     [--sparsity 0.75 0.5] [--rounds 7] [--threads 1] [--json F]

A step's time is the median over the rounds of `evoq profile`, and beside it, for machines that
others use too, the least; the whole model's is that of the rounds' ratios of `evoq bench`. Pruned
models are not trained further: times do not depend on what the weights are. `--accuracy FOLDER`
trains resnet20_cifar10.onnx of the data folder further on FOLDER/train_5000.bin while it is pruned,
and measures it in int8, dense and pruned, on FOLDER/test_1000.bin; `--network resnet20` trains the
built-in network instead, from nothing."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import pairs

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = pathlib.Path(os.environ.get("EVOQ_DATA", ROOT / "../shared/data"))
FILES = {"mobilenetv2": "mobilenetv2.onnx", "resnet20": "resnet20_cifar10.onnx"}
SIDES = ("dense", "pruned")
BAR_LAYERS, BAR_MODEL, BAR_POINTS = 1.8, 1.4, 1.5


class Evoq:
    """The command, in a folder for its files."""

    def __init__(self, binary, folder, threads):
        self.binary, self.folder, self.threads = binary, pathlib.Path(folder), threads

    def run(self, *arguments):
        """A verb's JSON."""
        told = self.folder / "told.json"
        command = [self.binary, *map(str, arguments), "--json", told]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
        return json.loads(told.read_text(encoding="utf-8"))

    def quantize(self, model, name):
        out = self.folder / name
        self.run("quantize", model, "--calib-random", 4, "-o", out)
        return out

    def steps(self, model):
        return self.run("profile", model, "--threads", self.threads)["steps"]

    def ms(self, model):
        told = self.run("bench", model, "--threads", self.threads, "--duration-s", 0.5)
        return told["p50_ms"]


def kinds(onnx_path):
    """Of each convolution of the file, by name: pointwise, other, or grouped."""
    import onnx

    graph = onnx.load(onnx_path).graph
    shapes = {i.name: list(i.dims) for i in graph.initializer}
    found = {}
    for node in graph.node:
        if node.op_type != "Conv":
            continue
        groups = next((a.i for a in node.attribute if a.name == "group"), 1)
        size = shapes.get(node.input[1], [0, 0, 0, 0])
        kind = "grouped" if groups > 1 else "1x1" if size[2:] == [1, 1] else "3x3"
        found[node.name] = kind
    return found


def measure(evoq, dense, pruned, rounds):
    """By step name, and of the whole: the times of each round."""
    steps, whole, plans = {}, {"dense": [], "pruned": []}, {}
    for _ in range(rounds):
        for side, model in (("dense", dense), ("pruned", pruned)):
            for step in evoq.steps(model):
                steps.setdefault(step["name"], {"dense": [], "pruned": []})[side].append(step["ms"])
                plans.setdefault(step["name"], {})[side] = f"{step['kernel']} {step['variant']}"
            whole[side].append(evoq.ms(model))
    return steps, whole, plans


def layers(steps, plans, kind_of, rows):
    """The sums over the products that are pruned, by kind."""
    sums = {}
    for name, times in steps.items():
        kind = kind_of.get(name)
        if kind not in ("1x1", "3x3") or not times["dense"] or not times["pruned"]:
            continue
        dense, pruned = (statistics.median(times[side]) for side in SIDES)
        least = [min(times[side]) for side in SIDES]
        sparse = " blocks, " in plans[name]["pruned"]
        rows.append({"step": name, "kind": kind, "dense_ms": dense, "pruned_ms": pruned})
        rows[-1].update(sparse=sparse, dense_plan=plans[name]["dense"])
        for group in (kind, kind + " skipping blocks") if sparse else (kind,):
            total = sums.setdefault(group, [0] + 4 * [0.0])
            sums[group] = [a + b for a, b in zip(total, [1, dense, pruned, *least])]
    return sums


def speed(evoq, name, pattern, sparsity, rounds, details):
    model = DATA / "models" / FILES[name]
    pruned = evoq.folder / f"{name}.pruned.onnx"
    report = evoq.run("prune", model, "--pattern", pattern, "--sparsity", sparsity, "-o", pruned)
    dense_etm = evoq.quantize(model, f"{name}.etm")
    pruned_etm = evoq.quantize(pruned, f"{name}.pruned.etm")
    steps, whole, plans = measure(evoq, dense_etm, pruned_etm, rounds)
    row = {"model": name, "pattern": pattern, "sparsity": report["sparsity"], "steps": []}
    row["bytes"] = {"dense": dense_etm.stat().st_size, "pruned": pruned_etm.stat().st_size}
    row["layers"] = layers(steps, plans, kinds(model), row["steps"])
    row["speedup"] = pairs.paired(whole, "dense", "pruned")
    low, high = pairs.paired_interval(whole, "dense", "pruned")
    print(f"{name}, {pattern}, {100 * report['sparsity']:.1f}% zeros, {evoq.threads} threads:")
    for group, (count, dense, sparse, *least) in sorted(row["layers"].items()):
        print(
            f"  {group}: {count} layers, {dense:.3f} -> {sparse:.3f} ms, {dense / sparse:.2f}x; "
            f"least {least[0]:.3f} -> {least[1]:.3f} ms, {least[0] / least[1]:.2f}x"
        )
    least = [sum(min(times[side]) for times in steps.values() if times[side]) for side in SIDES]
    print(f"  all steps: least {least[0]:.3f} -> {least[1]:.3f} ms, {least[0] / least[1]:.2f}x")
    interval = f" ({low:.2f} to {high:.2f})" if low else ""
    took = [statistics.median(whole[side]) for side in SIDES]
    print(f"  whole: {took[0]:.3f} -> {took[1]:.3f} ms, {row['speedup']:.2f}x{interval}")
    size = row["bytes"]
    print(f"  .etm: {size['dense']} -> {size['pruned']} bytes", flush=True)
    if details:
        for step in row["steps"]:
            gain = step["dense_ms"] / step["pruned_ms"]
            print(
                f"    {step['step']:<12} {step['kind']} {step['dense_ms']:.4f} -> "
                f"{step['pruned_ms']:.4f} ms {gain:.2f}x {'' if step['sparse'] else 'dense'}"
            )
    return row


def accuracy(evoq, args, pattern, sparsity):
    """Top-1 in int8 of a file, or of a built-in network that is trained on the 5,000 images: dense,
    pruned without and with training further; and the time of the first and the last."""
    folder, network, scope, rounds = args.accuracy, args.network, args.scope, args.rounds
    epochs, rate = args.epochs, args.lr
    train, test = folder / "train_5000.bin", folder / "test_1000.bin"
    dense, pruned, tuned = (evoq.folder / f"{name}.onnx" for name in ("dense", "pruned", "tuned"))
    preprocess = evoq.folder / "dense.preprocess.json"
    if network.endswith(".onnx"):
        model = DATA / "models" / network
        dense.write_bytes(model.read_bytes())
        preprocess.write_bytes(model.with_suffix(".preprocess.json").read_bytes())
    else:
        evoq.run("train", network, "--data", train, "--seed", 1, "-o", dense)
    pruning = ["--pattern", pattern, "--sparsity", sparsity, "--scope", scope]
    evoq.run("prune", dense, *pruning, "-o", pruned)
    # from the dense model, the share rises while it learns, from the dense model's scores and what
    # its Relus give: a tenth of CIFAR-10 is known by heart too soon
    more = ["--prune", pattern, "--sparsity", sparsity, "--epochs", epochs, "--lr", rate]
    more += ["--prune-scope", scope, "--teacher", dense, "--distill-share", 1]
    more += ["--optimizer", "nesterov", "--weight-decay", 0.0005, "--augment", "shift=4"]
    more += ["--augment", "flip", "--distill-features", "relu_*"]
    more += ["--distill-features-weight", 10, "--seed", 1]
    evoq.run("train", dense, "--data", train, *more, "-o", tuned)
    found, etms = {}, {}
    for name, path in (("dense", dense), ("pruned", pruned), ("trained further", tuned)):
        etm = etms[name] = evoq.folder / f"{path.stem}.etm"
        calib = ["--calib", train, "--calib-limit", 64, "--preprocess", preprocess]
        evoq.run("quantize", path, *calib, "-o", etm)
        found[name] = evoq.run("eval", etm, "--data", test, "--preprocess", preprocess)["top1"]
        print(f"{network} int8, {pattern} {sparsity}, {name}: {100 * found[name]:.1f}%", flush=True)
    lost = 100 * (found["dense"] - found["trained further"])
    print(f"lost {lost:.1f} points (bar {BAR_POINTS})", flush=True)
    whole = {"dense": [], "pruned": []}
    for _ in range(rounds):
        for side, name in (("dense", "dense"), ("pruned", "trained further")):
            whole[side].append(evoq.ms(etms[name]))
    found["speedup"] = pairs.paired(whole, "dense", "pruned")
    took = [statistics.median(whole[side]) for side in SIDES]
    size = [etms[name].stat().st_size for name in ("dense", "trained further")]
    print(
        f"whole: {took[0]:.3f} -> {took[1]:.3f} ms, {found['speedup']:.2f}x; .etm: {size[0]} -> "
        f"{size[1]} bytes"
    )
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    option = parser.add_argument
    option("--evoq", default=str(ROOT / "build/release/bin/evoq"))
    option("--models", nargs="+", default=["mobilenetv2", "resnet20"], choices=sorted(FILES))
    option("--patterns", nargs="+", default=["block-4x4"])
    option("--sparsity", type=float, nargs="+", default=[0.75])
    option("--rounds", type=int, default=7)
    option("--threads", type=int, default=1)
    option("--steps", action="store_true", help="print each layer")
    option("--accuracy", type=pathlib.Path, help="a folder of CIFAR-10: measure accuracy instead")
    option(
        "--network", default=FILES["resnet20"], choices=[FILES["resnet20"], "resnet8", "resnet20"]
    )
    option("--epochs", type=int, default=40)
    option("--lr", type=float, default=0.02)
    option("--scope", default="layer", choices=["layer", "global"])
    option("--json", help="also write the rows to this file")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="evoq_pruning_") as folder:
        evoq = Evoq(args.evoq, folder, args.threads)
        for pattern in args.patterns:
            for sparsity in args.sparsity:
                if args.accuracy:
                    rows.append(accuracy(evoq, args, pattern, sparsity))
                    continue
                for name in args.models:
                    rows.append(speed(evoq, name, pattern, sparsity, args.rounds, args.steps))
    for row in rows:
        if args.accuracy or row["pattern"] != "block-4x4" or abs(row["sparsity"] - 0.75) > 0.02:
            continue
        for group, bar in (("1x1", BAR_LAYERS), ("whole", BAR_MODEL)):
            if group == "whole" and row["model"] != "mobilenetv2":
                continue
            counted = row["layers"].get(group)
            if group != "whole" and not counted:
                continue
            got = row["speedup"] if group == "whole" else counted[1] / counted[2]
            told = "met" if got >= bar else "missed"
            print(f"{row['model']} {group}: {got:.2f}x (bar {bar}): {told}")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
