#!/usr/bin/env python3
"""What scale sets that follow the input buy and cost (docs/adaptive.md).

    bench/adaptive.py --data DIR [--evoq build/release/bin/evoq] [--cases NAME,...] [--threads N]
                      [--json F]

Two planted cases. "dark": a video of CIFAR-10's test images, 100 by day, 100 by night (all pixels
a quarter), and so on, for ResNet-20. "drift": a time series whose amplitude drifts up and down by a
factor of 16, for a network of 1-D convolutions with random weights. Calibrated on as many samples
of each kind, evaluated in order against the float model: one scale set (int8), dynamic int8, and
two or more sets with --adaptive. `sample dB` is the mean over the frames of each one's signal to
noise, `all dB` that of all frames together; top-1 is by the labels. Overhead: `evoq bench
--adaptive`, which runs both in turn.
"""

import argparse
import json
import os
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from runners import run_evoq

RECORD = 1 + 3 * 32 * 32  # of a CIFAR-10 .bin
SEGMENT = 100  # frames by day, then by night


def darkened(records, dark):
    """CIFAR-10's records with a quarter of the light where `dark`."""
    records = records.copy()
    records[dark, 1:] //= 4
    return records


def alternating(count):
    return (np.arange(count) // SEGMENT) % 2 == 1


class Dark:
    """ResNet-20 on images by day and by night."""

    name, sets = "dark", 2

    def __init__(self, data, folder):
        self.model = os.path.join(data, "models", "resnet20_cifar10.onnx")
        self.calib = self.write(data, folder, "train_5000.bin", "calib", 400)
        frames = self.write(data, folder, "test_1000.bin", "frames", 1000)
        self.data = ["--data", frames]
        self.shapes = []

    @staticmethod
    def write(data, folder, source, name, count):
        records = np.fromfile(os.path.join(data, "cifar10", source), np.uint8)
        records = records.reshape(-1, RECORD)[:count]
        path = os.path.join(folder, name + ".bin")
        darkened(records, alternating(count)).tofile(path)
        return path


class Drift:
    """A time series whose amplitude drifts by a factor of 16, forth and back."""

    name, sets = "drift", 4
    FRAMES, LENGTH, CHANNELS = 600, 256, 4

    def __init__(self, data, folder):
        del data
        self.model = os.path.join(folder, "drift.onnx")
        onnx.save(self.network(), self.model)
        rng = np.random.default_rng(7)
        self.calib = os.path.join(folder, "calib.npy")
        np.save(self.calib, self.series(rng, 400))
        frames = os.path.join(folder, "frames.npy")
        np.save(frames, self.series(rng, self.FRAMES))
        self.data = ["--data", frames]
        self.shapes = []

    def series(self, rng, frames):
        """Filtered noise, [frames, channels, length]; its level is 1 to 1/16 and back in 300."""
        level = 2.0 ** (-2 + 2 * np.cos(2 * np.pi * np.arange(frames) / 300))
        noise = rng.normal(0, 1, (frames, self.CHANNELS, self.LENGTH + 4))
        smooth = sum(noise[..., k : k + self.LENGTH] for k in range(5)) / np.sqrt(5)
        return (level[:, None, None] * smooth).astype(np.float32)

    def network(self):
        """Convolutions without biases: what counts is the signal at every level."""
        rng = np.random.default_rng(3)
        nodes, constants, value, channels = [], [], "x", self.CHANNELS
        for k, (width, activation) in enumerate(
            ((32, "Relu"), (32, "Relu"), (32, "Relu"), (8, ""))
        ):
            weight = rng.normal(0, np.sqrt(2 / (5 * channels)), (width, channels, 5))
            constants.append(numpy_helper.from_array(weight.astype(np.float32), f"w{k}"))
            nodes.append(
                helper.make_node("Conv", [value, f"w{k}"], [f"c{k}"], pads=[2, 2], name=f"conv{k}")
            )
            value, channels = f"c{k}", width
            if activation:
                nodes.append(helper.make_node(activation, [value], [f"a{k}"], name=f"act{k}"))
                value = f"a{k}"
        nodes.append(helper.make_node("Identity", [value], ["y"], name="end"))
        shape = ["N", self.CHANNELS, self.LENGTH]
        graph = helper.make_graph(
            nodes,
            "drift",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", channels, self.LENGTH])],
            constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def forms(case):
    """Name, options of quantize, options of eval."""
    calib = ["--calib", case.calib, "--calib-limit", "0"]
    sets = [*calib, "--scale-sets", str(case.sets)]
    return (
        ("one set", calib, []),
        ("dynamic int8", ["--scheme", "int8-dynamic"], []),
        (f"{case.sets} sets, the first", sets, []),
        (f"{case.sets} sets, adaptive", sets, ["--adaptive"]),
    )


def measure(evoq, case, threads, folder):
    out, etm = os.path.join(folder, "out.json"), os.path.join(folder, "model.etm")
    preprocess = case.model.replace(".onnx", ".preprocess.json")
    images = ["--preprocess", preprocess] if os.path.exists(preprocess) else []
    rows = []
    for name, quantize, evaluate in forms(case):
        made = run_evoq([evoq, "quantize", case.model, "-o", etm, *quantize, *images], out)
        score = [evoq, "eval", etm, "--reference", case.model, *case.data, *images]
        scored = run_evoq([*score, "--threads", str(threads), *evaluate], out)
        row = {
            "case": case.name,
            "form": name,
            "bytes": made["output_bytes"],
            "samples": scored["samples"],
            "top1": scored["top1"],
            "agreement": scored["agreement"],
            "sqnr_db": scored["sqnr_db"],
            "sample_sqnr_db": scored["sample_sqnr_db"],
            "ms": scored["ms_per_sample"],
            "scale_sets": made.get("scale_sets"),
        }
        if evaluate:
            row["adaptive"] = scored["adaptive"]
            bench = [evoq, "bench", etm, "--adaptive", "--threads", str(threads)]
            row["cost"] = run_evoq(bench, out)["adaptive"]["cost"]
        rows.append(row)
    return rows


def lines(rows):
    yield "| case | form | bytes | sample dB | all dB | top-1 | same class | switches | overhead |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        top1 = "-" if row["top1"] is None else f"{row['top1']:.3f}"
        classes = "-" if row["top1"] is None else f"{row['agreement']:.3f}"
        switches = row["adaptive"]["switches"] if "adaptive" in row else "-"
        overhead = f"{100 * row['cost']['overhead']:+.2f}%" if "cost" in row else "-"
        yield (
            f"| {row['case']} | {row['form']} | {row['bytes']} | {row['sample_sqnr_db']:.1f} "
            f"| {row['sqnr_db']:.1f} | {top1} | {classes} | {switches} | {overhead} |"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--evoq", default="build/release/bin/evoq")
    parser.add_argument("--cases", default="dark,drift")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in (Dark, Drift):
            if case.name in options.cases.split(","):
                made = case(options.data, folder)
                rows += measure(options.evoq, made, options.threads, folder)
    print("\n".join(lines(rows)))
    for row in rows:
        for used in row.get("scale_sets") or []:
            print(
                f"{row['case']}, {row['form']}: {used['name']} has {used['bytes']} bytes of its own"
            )
        if "cost" in row:
            cost = row["cost"]
            print(
                f"{row['case']}: {cost['adaptive_ms']:.4f} ms adaptive, {cost['plain_ms']:.4f} "
                f"without, a look every {cost['look_every']} runs, {cost['runs']} runs each"
            )
    if options.json:
        with open(options.json, "w") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()
