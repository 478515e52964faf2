#!/usr/bin/env python3
"""Schemes of 16 bits and of few bits as plain ONNX: what `evoq quantize -o NAME.onnx` writes runs
in ONNX Runtime and gives what the .etm gives; 16 bits are nearer to the float32 model than 8.
Skips (exit status 77) where numpy, onnx or onnxruntime from PyPI is missing."""

import json
import pathlib
import sys
import tempfile

import agree

agree.need("numpy", "onnx", "onnxruntime")
import numpy as np

import onnx
from onnx import TensorProto, helper, numpy_helper

STATIC = ("int16x8", "int16")  # calibrated
EQUAL = 300  # dB of equal bits, as sqnr has them
failures = []


def check(what, holds, detail=""):
    print(f"{'ok' if holds else 'FAILED'}: {what}{'' if holds else f': {detail}'}")
    if not holds:
        failures.append(what)


def net(random):
    """A convolution with a residual, one of steps, and two products; channels differ in size."""

    def constant(name, *sizes):
        scale = np.exp(random.normal(0, 0.5, (sizes[0], *[1] * (len(sizes) - 1))))
        values = (random.standard_normal(sizes) * scale * 0.2).astype(np.float32)
        return numpy_helper.from_array(values, name)

    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1] * 4),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1] * 4),
        helper.make_node("Add", ["c2", "r1"], ["s"]),
        helper.make_node("Conv", ["s", "w3", "b3"], ["c3"], strides=[2, 2]),
        helper.make_node("Flatten", ["c3"], ["f"]),
        helper.make_node("MatMul", ["f", "w4"], ["m"]),
        helper.make_node("LeakyRelu", ["m"], ["l"]),
        helper.make_node("MatMul", ["l", "w5"], ["y"]),
    ]
    constants = [
        *(constant("w1", 16, 3, 3, 3), constant("b1", 16), constant("w2", 16, 16, 3, 3)),
        *(constant("w3", 32, 16, 3, 3), constant("b3", 32), constant("w4", 32 * 49, 64)),
        constant("w5", 64, 48),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 48])
    graph = helper.make_graph(nodes, "net", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    return model


def sqnr(wanted, got):
    return 10 * np.log10(np.sum(wanted**2.0) / max(np.sum((wanted - got) ** 2.0), 1e-30))


def run_evoq(model, x, work):
    np.save(work / "x.npy", x)
    agree.evoq("run", model, "--input", f"x={work / 'x.npy'}", "--output-dir", work / "out")
    return np.load(work / "out" / "y.npy")


def run_onnxruntime(path, x):
    return agree.session(agree.own_weights(path)).run(None, {"x": x})[0]


def main():
    random = np.random.default_rng(7)
    # scheme: least dB between the .onnx in ONNX Runtime, which rounds the data of products by 4
    # bits, and the .etm; and to the float32 model
    schemes = {
        "int8-dynamic": (EQUAL, 25),
        "int16x8-dynamic": (EQUAL, 33),
        "int16-dynamic": (EQUAL, 70),
        "int16x8": (EQUAL, 33),
        "int16": (EQUAL, 60),
        "uint4-weights": (40, 14),
        "fp8-weights": (90, 26),
        "fp8-e5m2-weights": (90, 20),
    }
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        onnx.save(net(random), work / "net.onnx")
        x = random.standard_normal((1, 3, 16, 16)).astype(np.float32)
        np.save(work / "x.npy", x)
        wanted = run_onnxruntime(work / "net.onnx", x)
        reached = {}
        for scheme, (least_equal, least) in schemes.items():
            for out in ("etm", "onnx"):
                path, report = work / f"{scheme}.{out}", work / "report.json"
                agree.evoq(
                    *("quantize", work / "net.onnx", "--scheme", scheme, "-o", path),
                    *("--json", report),
                    *(("--calib", work / "x.npy") if scheme in STATIC else ()),
                )
            told = json.loads(report.read_text())
            check(f"{scheme}: all layers took it", not told["float_reasons"], told["float_reasons"])
            ours = run_evoq(work / f"{scheme}.etm", x, work)
            theirs = run_onnxruntime(work / f"{scheme}.onnx", x)
            reached[scheme] = sqnr(wanted, ours)
            equal = sqnr(theirs, ours)
            print(f"{scheme}: {reached[scheme]:.1f} dB; ONNX Runtime's run of it {equal:.1f} dB")
            check(f"{scheme}: ONNX Runtime computes the same", equal >= least_equal, equal)
            check(f"{scheme}: near the float32 model", reached[scheme] >= least, reached[scheme])
            again = run_evoq(work / f"{scheme}.onnx", x, work)
            check(f"{scheme}: the .onnx in evoq", sqnr(ours, again) >= least_equal)
        by_bits = [24.0]
        for bits in (4, 2):
            told = {}
            for out in ("etm", "onnx"):
                path, report = work / f"a{bits}.{out}", work / "report.json"
                agree.evoq(
                    *(
                        "quantize",
                        work / "net.onnx",
                        "--calib-random",
                        16,
                        "--activation-bits",
                        bits,
                    ),
                    *("-o", path, "--json", report),
                )
                told[out] = json.loads(report.read_text())["activation_bits"]
            check(f"activations of {bits} bits", set(told["etm"].values()) == {bits}, told)
            ours = run_evoq(work / f"a{bits}.etm", x, work)
            file = work / f"a{bits}.onnx"
            equal = sqnr(run_onnxruntime(file, x), run_evoq(file, x, work))
            print(f"activations of {bits} bits: {sqnr(wanted, ours):.1f} dB; .onnx {equal:.1f} dB")
            by_bits.append(sqnr(wanted, ours))
            check("ONNX Runtime computes the .onnx as evoq does", equal >= 60, equal)
        check("fewer bits lose more", by_bits == sorted(by_bits, reverse=True), by_bits)
        check(
            "16 bits of data are better than 8, of weights too than of data alone",
            reached["int8-dynamic"] + 3
            < reached["int16x8-dynamic"]
            < reached["int16-dynamic"] - 20,
            reached,
        )
        for scheme, quantizes in (
            ("int16-dynamic", "dynamic_quantize_bytes"),
            ("int16", "quantize_bytes"),
        ):
            profile = work / "profile.json"
            agree.evoq("profile", work / f"{scheme}.etm", "--json", profile)
            steps = json.loads(profile.read_text())["steps"]
            kinds = [step["kernel"] for step in steps]
            check(
                "each layer is four int8 products behind one quantization of two bytes",
                kinds.count(quantizes) == 5
                and kinds.count("dynamic_conv") == 4 * 3
                and kinds.count("dynamic_matmul") == 4 * 2
                and "quantize_runtime" not in kinds,
                (scheme, kinds),
            )
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
