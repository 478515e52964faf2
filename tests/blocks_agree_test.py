#!/usr/bin/env python3
"""Blocks of scales along every axis, and constants that are transposed with them, beside ONNX
Runtime: as `evoq run` computes the ONNX file, its .etm, and the ONNX file that `evoq optimize`
writes, which ONNX Runtime reads again.

Each case is an output of one model. QuantizeLinear and DequantizeLinear agree exactly; products of
weights in blocks within what float32 sums in another order may differ by. Products of weights that
are stored as integers must be: their constants in the .etm have a packed layout.
Skips (exit status 77) where numpy, onnx or onnxruntime from PyPI is missing.
"""

import os
import subprocess
import sys
import tempfile

import agree

agree.need("numpy", "onnx", "onnxruntime")
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper, numpy_helper

TYPES = {T.INT8: (-128, 128), T.UINT8: (0, 256), T.INT4: (-8, 8), T.UINT4: (0, 16)}
# shape, axis, block: whole blocks, a last one that is cut, an axis counted from the end
SHAPES = [
    ((6, 4), 0, 2),
    ((6, 5), 1, 2),
    ((6, 5), -1, 3),
    ((7, 3, 4), 0, 4),
    ((2, 7, 4), 1, 3),
    ((2, 3, 8), 2, 4),
    ((2, 3, 8), -3, 1),
    ((4, 3, 2, 5), 1, 2),
]
ROWS, DEPTH, COLUMNS, BLOCK = 3, 65, 48, 32


class Model:
    """A model in the making; inputs have values from a seed."""

    def __init__(self):
        self.nodes, self.constants, self.feeds, self.outputs = [], [], {}, {}
        self.random = np.random.default_rng(1)

    def input(self, shape):
        name = f"x{len(self.feeds)}"
        self.feeds[name] = self.random.standard_normal(shape).astype(np.float32)
        return name

    def integers(self, dtype, shape):
        name = f"q{len(self.constants)}"
        values = self.random.integers(*TYPES[dtype], shape).flatten().tolist()
        self.constants.append(helper.make_tensor(name, dtype, shape, values))
        return name

    def scales(self, shape, dead=False):
        """`dead`: the first one is 0, as of weights that were pruned."""
        name = f"s{len(self.constants)}"
        values = (self.random.random(shape) * 0.1 + 0.01).astype(np.float32)
        if dead:
            values.flat[0] = 0
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def node(self, op, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def output(self, name, shape, exact):
        self.outputs[name] = (shape, exact)

    def save(self, path):
        def values(items):
            return [helper.make_tensor_value_info(n, T.FLOAT, shape) for n, shape in items]

        graph = helper.make_graph(
            self.nodes,
            "blocks",
            values((n, x.shape) for n, x in self.feeds.items()),
            values((n, shape) for n, (shape, _) in self.outputs.items()),
            self.constants,
        )
        opsets = [helper.make_opsetid("", 21)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)


def conversions(model):
    """Constants and values in blocks, with and without zero points."""
    for dtype in TYPES:
        for shape, axis, block in SHAPES:
            blocks = list(shape)
            blocks[axis] = -(-blocks[axis] // block)
            for zeros in (False, True):
                x, s = model.input(shape), model.scales(blocks)
                parameters = [s] + ([model.integers(dtype, blocks)] if zeros else [])
                how = {"axis": axis, "block_size": block}
                w = model.node(
                    "DequantizeLinear", [model.integers(dtype, shape), *parameters], **how
                )
                model.output(model.node("Add", [x, w]), shape, True)
                kind = {} if zeros else {"output_dtype": dtype}
                q = model.node("QuantizeLinear", [x, *parameters], **how, **kind)
                model.output(model.node("DequantizeLinear", [q, *parameters], **how), shape, True)


def products(model):
    """Weights as [K, N], and as [N, K] behind a Transpose and in a Gemm; how many there are."""
    count = 0
    for dtype in TYPES:
        for block in (0, BLOCK):
            for form in ("plain", "transpose", "gemm"):
                plain = form == "plain"
                shape = (DEPTH, COLUMNS) if plain else (COLUMNS, DEPTH)
                axis = int(plain) if block == 0 else int(not plain)
                blocks = (COLUMNS,)
                if block:
                    blocks = list(shape)
                    blocks[axis] = -(-DEPTH // block)
                how = {"axis": axis, "block_size": block} if block else {"axis": axis}
                w = [model.integers(dtype, shape), model.scales(blocks, dead=True)]
                if block == 0:
                    w.append(model.integers(dtype, blocks))
                w = model.node("DequantizeLinear", w, **how)
                x = model.input((ROWS, DEPTH))
                if form == "transpose":
                    w = model.node("Transpose", [w], perm=[1, 0])
                if form == "gemm":
                    y = model.node("Gemm", [x, w], transB=1)
                else:
                    y = model.node("MatMul", [x, w])
                model.output(y, (ROWS, COLUMNS), False)
                count += 1
    return count


def runtime(path, feeds):
    """Outputs of ONNX Runtime as the graph says: its optimizer would quantize activations too."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return dict(zip((o.name for o in session.get_outputs()), session.run(None, feeds), strict=True))


def evoq_run(path, feeds, names, folder):
    arguments = []
    for name, values in feeds.items():
        file = os.path.join(folder, f"{name}.npy")
        np.save(file, values)
        arguments += ["--input", f"{name}={file}"]
    agree.evoq("run", path, *arguments, "--output-dir", folder, "--threads", "1")
    return {name: np.load(os.path.join(folder, f"{name}.npy")) for name in names}


def main():
    model = Model()
    conversions(model)
    weights = products(model)
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        source, etm, again = (os.path.join(folder, n) for n in ("m.onnx", "m.etm", "again.onnx"))
        model.save(source)
        expected = runtime(source, model.feeds)
        agree.evoq("compile", source, "-o", etm)
        agree.evoq("optimize", source, "-o", again)
        made = {
            "run": evoq_run(source, model.feeds, model.outputs, folder),
            "etm": evoq_run(etm, model.feeds, model.outputs, folder),
            "optimized": runtime(again, model.feeds),
        }
        for way, outputs in made.items():
            for name, (_, exact) in model.outputs.items():
                far = np.abs(outputs[name] - expected[name]).max()
                if far > (0 if exact else 1e-5 * np.abs(expected[name]).max()):
                    errors.append(f"{way}: {name} differs by {far}")
        dump = subprocess.run(
            [agree.EVOQ, "inspect", "--dump", etm], capture_output=True, text=True
        )
        packed = dump.stdout.count(" in k1n16-matmul-w8") + dump.stdout.count(" in k2n16-matmul-w4")
        if packed != weights:
            errors.append(f"{packed} of {weights} weights are stored as packed integers")
    for error in errors:
        print(error)
    print(f"{len(model.outputs)} outputs, {packed} packed weights, {len(errors)} errors")
    return 1 if errors or len(model.outputs) < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
