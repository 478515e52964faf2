#!/usr/bin/env python3
"""QuantizeLinear and DequantizeLinear of every operator set from 10 to 25 come in: per tensor, per
channel, blocked, of every integer type and output_dtype, on values and on weights. evoq's values
are those of onnx's reference evaluator. Skips without onnx."""

import pathlib
import sys
import tempfile

from agree import evoq, need

need("numpy", "onnx")

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

# type -> the first operator set, lowest and highest integer
TYPES = {
    "uint8": (10, 0, 255),
    "int8": (10, -128, 127),
    "uint16": (21, 0, 65535),
    "int16": (21, -32768, 32767),
    "uint4": (21, 0, 15),
    "int4": (21, -8, 7),
    "uint2": (25, 0, 3),
    "int2": (25, -2, 1),
}
FORMS = {"tensor": 10, "channel": 13, "block": 21}
OPSETS = [10, 11, 13, 15, 17, 19, 21, 22, 23, 24, 25]
SHAPE = (4, 8)
BLOCK = 4


def parameters(form, dtype):
    """Scales, zero points and attributes of values of SHAPE, whose integers use the type."""
    _, low, high = TYPES[dtype]
    sizes = {"tensor": (), "channel": (SHAPE[1],), "block": (SHAPE[0], SHAPE[1] // BLOCK)}[form]
    random = np.random.default_rng(len(form))
    scale = (random.uniform(0.5, 1, sizes) * 8 / (high - low)).astype(np.float32)
    zero = np.full(sizes, (low + high + 1) // 2) - (0 if high < 15 else 1)
    attributes = {} if form == "tensor" else {"axis": 1}
    if form == "block":
        attributes["block_size"] = BLOCK
    return scale, zero, attributes


def tensor(name, dtype, values):
    return helper.make_tensor(
        name, getattr(TensorProto, dtype.upper()), np.shape(values), np.ravel(values).tolist()
    )


def model(opset, form, dtype, on):
    """Values, or weights, between the two operators."""
    _, low, high = TYPES[dtype]
    scale, zero, attributes = parameters(form, dtype)
    initializers = [tensor("s", "float", scale), tensor("z", dtype, zero)]
    inputs = ["s", "z"]
    if on == "output_dtype":  # and no zero point
        inputs = ["s"]
        initializers.pop()
    nodes = []
    if on == "weights":
        q = np.random.default_rng(7).integers(low, high + 1, SHAPE)
        initializers.append(tensor("q", dtype, q))
    else:
        told = dict(attributes)
        if on == "output_dtype":
            told["output_dtype"] = getattr(TensorProto, dtype.upper())
        nodes.append(helper.make_node("QuantizeLinear", ["x", *inputs], ["q"], **told))
    nodes.append(helper.make_node("DequantizeLinear", ["q", *inputs], ["d"], **attributes))
    second = ["x", "d"] if on == "weights" else ["d", "d"]
    nodes.append(helper.make_node("Mul", second, ["y"]))
    graph = helper.make_graph(
        nodes,
        "forms",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE)],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def main():
    x = np.linspace(-5, 5, SHAPE[0] * SHAPE[1], dtype=np.float32).reshape(SHAPE)
    count = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        np.save(folder / "x.npy", x)
        (folder / "out").mkdir()
        for opset in OPSETS:
            for form, since in FORMS.items():
                for dtype, (first, _, _) in TYPES.items():
                    for on in ("values", "weights", "output_dtype"):
                        if opset < max(since, first) or (on == "output_dtype" and opset < 21):
                            continue
                        written = model(opset, form, dtype, on)
                        onnx.save(written, folder / "m.onnx")
                        # The evaluator has the operators since 19, which mean the same.
                        known = model(max(opset, 19), form, dtype, on)
                        wanted = ReferenceEvaluator(known).run(None, {"x": x})[0]
                        evoq("run", folder / "m.onnx", "--input", folder / "x.npy",
                             "--output-dir", folder / "out")  # fmt: skip
                        got = np.load(folder / "out/y.npy")
                        what = f"operator set {opset}, {form}, {dtype}, {on}"
                        assert np.allclose(got, wanted, rtol=1e-6), f"{what}\n{got}\n{wanted}"
                        count += 1
    print(f"{count} forms of QuantizeLinear and DequantizeLinear agree")


if __name__ == "__main__":
    sys.exit(main())
