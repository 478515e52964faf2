#!/usr/bin/env python3
"""A calibration in parts (`evoq calibrate --part K/N`, `--merge`) gives the bytes of one over all
samples, for every observer and any number of parts, and what is made of its ranges is the
same .etm; files that do not go together, and broken ones, are refused in a sentence each. Skips
(exit status 77) where numpy or onnx is missing."""

import json
import os
import pathlib
import sys
import tempfile

import agree

agree.need("numpy", "onnx")
import numpy as np
import tiny_models

SAMPLES = 21
failures = []


def check(what, holds, detail=""):
    print("ok:" if holds else "FAILED:", what, "" if holds else detail, flush=True)
    if not holds:
        failures.append(what)


def model(path, seed=3, batch="n"):
    """Convolutions, one of them depthwise, a product of two activations and a classifier."""
    net = tiny_models.Net(seed=seed)
    x = net.add("Relu", [net.conv("c1", "x", 3, 16)], "r1")
    y = net.add("Sigmoid", [net.conv("c2", x, 1, 16, group=16)], "gate")
    x = net.add("Mul", [x, y], "gated")
    x = net.add("GlobalAveragePool", [net.conv("c3", x, 16, 24, size=1)], "pool")
    x = net.add("Flatten", [x], "flat")
    net.add("Gemm", [x, net.weight("fc.w", 24, 10), net.weight("fc.b", 10)], "y")
    net.save(path, [tiny_models.value("x", batch, 3, 20, 20)], [tiny_models.value("y", batch, 10)])
    return str(path)


def calibrate(*arguments):
    report = pathlib.Path(arguments[-1] + ".report")
    agree.evoq("calibrate", *arguments[:-1], "-o", arguments[-1], "--json", report)
    return json.loads(report.read_text())


def in_parts(work, onnx, given, count, output):
    """What merging gives; `given`: data and observer."""
    files, behind = [f"{work}/part{k}" for k in range(1, count + 1)], []
    for _ in range(2):
        for k, file in enumerate(files, 1):
            calibrate(onnx, *given, "--part", f"{k}/{count}", *behind, file)
        # Whatever order the files come in.
        merge = [argument for file in reversed(files) for argument in ("--merge", file)]
        report = calibrate(onnx, *merge, output)
        if not report["needs_second_pass"]:
            return report
        pathlib.Path(output).replace(f"{work}/first")
        behind = ["--after", f"{work}/first"]
    raise AssertionError("it asks for a third pass")


def check_observer(work, onnx, data, observer, counts=(3,)):
    given = ["--calib", data, "--observer", observer]
    quantize = ["quantize", onnx, "-o", f"{work}/q.etm"]
    agree.evoq(*quantize, *given, "--save-ranges", f"{work}/saved.json")
    wanted = pathlib.Path(f"{work}/saved.json").read_bytes()
    etm = pathlib.Path(f"{work}/q.etm").read_bytes()
    report = calibrate(onnx, *given, f"{work}/whole.json")
    check(
        f"{observer}: calibrate writes what quantize --save-ranges does",
        pathlib.Path(f"{work}/whole.json").read_bytes() == wanted,
    )
    for count in counts:
        merged = in_parts(work, onnx, given, count, f"{work}/merged.json")
        same = pathlib.Path(f"{work}/merged.json").read_bytes() == wanted
        check(f"{observer}: {count} parts give the same bytes", same)
        check(
            f"{observer}: {count} parts give the same notes",
            {k: merged[k] for k in ("complete", "samples_used", "ranges", "warnings")}
            == {k: report[k] for k in ("complete", "samples_used", "ranges", "warnings")},
            str(merged),
        )
    agree.evoq(*quantize, "--ranges", f"{work}/merged.json")
    check(f"{observer}: and the same .etm", pathlib.Path(f"{work}/q.etm").read_bytes() == etm)


def check_machines(work, onnx, data):
    """Parts of machines with different instruction sets."""
    given = ["--calib", data, "--observer", "minmax"]
    calibrate(onnx, *given, "--part", "1/2", f"{work}/p1")
    os.environ["EVOQ_TARGET"] = "SCALAR"
    try:
        calibrate(onnx, *given, "--part", "2/2", f"{work}/p2")
    finally:
        del os.environ["EVOQ_TARGET"]
    merged = calibrate(onnx, "--merge", f"{work}/p1", "--merge", f"{work}/p2", f"{work}/merged")
    told = [w for w in merged["warnings"] if "different instruction sets" in w and "SCALAR" in w]
    one = json.loads(pathlib.Path(f"{work}/p1").read_text())["isas"] == ["SCALAR"]
    check("different instruction sets are told", one or len(told) == 1, str(merged["warnings"]))


def refused(what, sentence, *arguments):
    try:
        calibrate(*arguments)
        check(f"{what} is refused", False, "it was not")
    except RuntimeError as error:
        check(f"{what} is refused", sentence in str(error), f"\n  {error}\n  {sentence}")


def check_refusals(work, onnx, data):
    given = ["--calib", data, "--observer", "percentile"]
    for k in (1, 2):
        calibrate(onnx, *given, "--part", f"{k}/2", f"{work}/p{k}")
    calibrate(onnx, "--calib", data, "--part", "2/2", f"{work}/other_observer")
    calibrate(onnx, *given, "--part", "2/3", f"{work}/of_three")
    other = model(f"{work}/other.onnx", seed=4)
    calibrate(other, *given, "--part", "2/2", f"{work}/other_model")

    def merge(*files):
        return [onnx, *[a for file in files for a in ("--merge", f"{work}/{file}")], f"{work}/out"]

    refused("a missing part", "part 2 of 2 is missing beside", *merge("p1"))
    refused("a part that stands twice", "are both part 1 of 2", *merge("p1", "p1"))
    refused(
        "another observer",
        "its observer is sqnr, expected percentile",
        *merge("p1", "other_observer"),
    )
    refused("a part of three", "the number of parts is 3, expected 2", *merge("p1", "of_three"))
    refused("another model's part", "it is of another model: ", *merge("p1", "other_model"))
    refused("--part 3/2", "--part 3/2: expected K/N", onnx, *given, "--part", "3/2", f"{work}/out")
    refused("--part of text", "--part x: expected K/N", onnx, *given, "--part", "x", f"{work}/out")
    refused(
        "--samples auto of a part",
        "--samples auto asks all samples so far",
        *(onnx, *given, "--samples", "auto", "--part", "1/2", f"{work}/out"),
    )
    refused(
        "--merge with --part", "it excludes --part", *merge("p1", "p2")[:-1], "--part", "1/2", "o"
    )
    refused(
        "a part as a first pass",
        "it is part 1 of 2 of pass 1, expected a first pass whose parts were merged",
        *(onnx, *given, "--part", "1/2", "--after", f"{work}/p1", f"{work}/out"),
    )
    calibrate(*merge("p1", "p2")[:-1], f"{work}/first")
    np.save(f"{work}/moved.npy", np.load(data)[::-1])
    refused(
        "other samples in the second pass",
        "not the sample of the first pass",
        *(onnx, "--calib", f"{work}/moved.npy", *given[2:], "--part", "1/2"),
        *("--after", f"{work}/first", f"{work}/out"),
    )
    refused(
        "another observer in the second pass",
        "its observer is percentile (percentile 99.99) on runs of 1 samples, expected sqnr",
        *(onnx, "--calib", data, "--part", "1/2", "--after", f"{work}/first", f"{work}/out"),
    )
    check("nothing was written", not pathlib.Path(f"{work}/out").exists())


def check_broken(work, onnx):
    """Each field of a part's file with what it cannot be."""
    part = json.loads(pathlib.Path(f"{work}/p1").read_text())
    name = "x"  # which has channels

    def broken(place, value):
        copy = json.loads(json.dumps(part))
        at = copy
        for key in place[:-1]:
            at = at[key]
        at[place[-1]] = value
        return copy

    value = ["values", name]
    for place, wrong, sentence in (
        (["format"], "x", 'no part of a calibration: expected a JSON object with "format"'),
        (["version"], 2, "a calibration of version 2, expected 1"),
        (["model"], 1, '"model" is 1, expected a text'),
        (["observer"], "best", '"observer" is "best", expected one of `evoq list observers`'),
        (["percentile"], 101, '"percentile" is 101, expected more than 0 and at most 100'),
        (["bins"], 1 << 40, f'"bins" is {1 << 40}, expected a whole number from 256 to 65536'),
        (["batch"], 0, '"batch" is 0, expected a whole number from 1'),
        (["part"], 3, '"part" is 3, expected a whole number from 1 to 2'),
        (["parts"], 1 << 62, '"parts" is 4611686018427387904, expected a whole number from 1'),
        (["pass"], 3, '"pass" is 3, expected a whole number from 1 to 2'),
        (["isas"], [1], '"isas" is [1], expected a list of texts'),
        (["samples"], [-1], '"samples" is [-1], expected a list of whole numbers'),
        (["inputs", 0, "flat"], 1, 'an input\'s "flat" is 1, expected true or false'),
        (["inputs", 0, "elements"], -1, 'an input\'s "elements" is -1, expected a whole number'),
        (["values"], [], '"values" is [], expected an object of values'),
        ([*value, "extremes"], [], '"extremes" is [], expected a pair of numbers or null for each'),
        ([*value, "extremes", 0], [2, 1], "expected a pair of numbers or null for each sample"),
        ([*value, "extremes", 0], [0, 1e300], "expected a pair of numbers or null for each sample"),
        ([*value, "counts"], [[1]], '"counts" is [[1]], expected no list in a first pass'),
        ([*value, "channels"], 1, '"channels": "sums" is missing, expected a list of lists'),
        ([*value, "channels", "max"], [], '"max" is [], expected as many numbers as there are'),
        ([*value, "channels", "elements"], 0, '"elements" is 0, expected a whole number from 1'),
        ([*value, "channels", "sums", 0], [1e290], "expected a list of lists of numbers"),
    ):
        path = pathlib.Path(f"{work}/broken")
        path.write_text(json.dumps(broken(place, wrong)))
        what = "/".join(map(str, place)) + f" = {json.dumps(wrong)}"
        refused(what, sentence, onnx, "--merge", str(path), "--merge", f"{work}/p2", f"{work}/out")
    pathlib.Path(f"{work}/broken").write_text("{")
    refused("no JSON", "broken: ", onnx, "--merge", f"{work}/broken", f"{work}/out")


def main():
    names = [line.split()[0] for line in agree.evoq("list", "observers").splitlines()[1:]]
    images = np.random.default_rng(2).standard_normal((SAMPLES, 3, 20, 20)).astype(np.float32)
    images[3] = images[4]  # two samples that are alike
    with tempfile.TemporaryDirectory() as work:
        np.save(f"{work}/images.npy", images)
        onnx = model(f"{work}/model.onnx")
        for observer in names:
            check_observer(work, onnx, f"{work}/images.npy", observer)
        many = model(f"{work}/many.onnx", batch=7)
        np.save(f"{work}/batches.npy", images.reshape(-1, 7, *images.shape[1:]))
        check_observer(work, onnx, f"{work}/images.npy", "sqnr", (1, 5, SAMPLES + 2))
        check_observer(work, many, f"x={work}/batches.npy", "sqnr", (2,))
        check_machines(work, onnx, f"{work}/images.npy")
        check_refusals(work, onnx, f"{work}/images.npy")
        check_broken(work, onnx)
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
