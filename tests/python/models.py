"""Small models for the tests, and where things are."""

import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from agree import BUILD, EVOQ, ROOT, cpu_flags  # noqa: E402, F401

DIGITS = str(ROOT / "examples/digits/digits.onnx")


def model(nodes, inputs, outputs, constants=None, opset=21, ir_version=10):
    initializers = [
        numpy_helper.from_array(array, name) for name, array in (constants or {}).items()
    ]
    graph = helper.make_graph(nodes, "test", inputs, outputs, initializers)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version
    )


def tensor(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def float32(name, shape):
    return tensor(name, TensorProto.FLOAT, shape)


def unary(op, shape=("N", 4), dtype=TensorProto.FLOAT, **attributes):
    """x -> op -> y."""
    node = helper.make_node(op, ["x"], ["y"], "the_node", **attributes)
    return model([node], [tensor("x", dtype, shape)], [tensor("y", dtype, shape)])


def convolutions(channels=32, layers=6, size=32, seed=0):
    """A chain of 3 x 3 convolutions with Relu, [N, channels, size, size] -> same, and its
    weights."""
    rng = np.random.default_rng(seed)
    nodes, constants, previous = [], {}, "x"
    for i in range(layers):
        constants[f"w{i}"] = (rng.standard_normal((channels, channels, 3, 3)) * 0.08).astype(
            np.float32
        )
        nodes.append(
            helper.make_node("Conv", [previous, f"w{i}"], [f"c{i}"], f"conv_{i}", pads=[1, 1, 1, 1])
        )
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"], f"relu_{i}"))
        previous = f"r{i}"
    shape = ["N", channels, size, size]
    return model(nodes, [float32("x", shape)], [float32(previous, shape)], constants)


def digits(count, seed=0):
    """Images that are not digits, but lie in the range of the digits model's input."""
    return np.random.default_rng(seed).random((count, 1, 28, 28), dtype=np.float32)
