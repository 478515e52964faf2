"""Matrix products and long chains of tiny operators, for the GEMM and dispatch parts of the
benchmark."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnx_graph import OPSET

SHAPES = [
    (1024, 1024, 1024),
    (3136, 576, 64),
    (49, 4608, 512),
    (4096, 4096, 4096),
    (128, 4096, 4096),
    (128, 768, 3072),
    (8, 4096, 4096),
    (1, 4096, 4096),
    (1, 4096, 11008),
]
KINDS = ("f32", "u8s8", "u8s8u8")


def _model(name, nodes, inputs, outputs, initializers):
    graph = helper.make_graph(nodes, name, inputs, outputs, initializers)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="evoq bench"
    )
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


def product(m, k, n, kind):
    """[m, k] times constant [k, n]. f32; u8s8: MatMulInteger, uint8 to int32; u8s8u8: uint8 to
    uint8 through Q/DQ, one weight scale per column."""
    rng = np.random.default_rng(1)
    info = helper.make_tensor_value_info
    if kind == "f32":
        w = numpy_helper.from_array(
            (rng.standard_normal((k, n)) / np.sqrt(k)).astype(np.float32), "w"
        )
        return _model(
            "product",
            [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
            [info("x", TensorProto.FLOAT, [m, k])],
            [info("y", TensorProto.FLOAT, [m, n])],
            [w],
        )
    w = numpy_helper.from_array(rng.integers(-127, 128, (k, n)).astype(np.int8), "w")
    x = info("x", TensorProto.UINT8, [m, k])
    if kind == "u8s8":
        zero = numpy_helper.from_array(np.uint8(128), "zero")
        return _model(
            "product",
            [helper.make_node("MatMulInteger", ["x", "w", "zero"], ["y"], name="product")],
            [x],
            [info("y", TensorProto.INT32, [m, n])],
            [w, zero],
        )
    constants = [w] + [
        numpy_helper.from_array(v, name)
        for name, v in (
            ("s", np.float32(1 / 64)),
            ("z", np.uint8(128)),
            ("ws", rng.uniform(0.8, 1.2, n).astype(np.float32) / 64 / np.float32(np.sqrt(k))),
            ("wz", np.zeros(n, np.int8)),
            ("ys", np.float32(1 / 32)),
        )
    ]
    node = helper.make_node
    nodes = [
        node("DequantizeLinear", ["x", "s", "z"], ["xf"], name="x_float"),
        node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], name="w_float", axis=1),
        node("MatMul", ["xf", "wf"], ["yf"], name="product"),
        node("QuantizeLinear", ["yf", "ys", "z"], ["y"], name="y_quantize"),
    ]
    return _model("product", nodes, [x], [info("y", TensorProto.UINT8, [m, n])], constants)


def chain(kinds, length=1000):
    """`length` operators in turn on [1, 16] tensors, with inputs as second operands: nothing can be
    folded."""
    nodes, value = [], "x"
    for i in range(length):
        kind, result = kinds[i % len(kinds)], "y" if i == length - 1 else f"v{i}"
        inputs = {"Add": [value, "a"], "Mul": [value, "b"], "Relu": [value]}[kind]
        nodes.append(helper.make_node(kind, inputs, [result], name=f"{kind}{i}"))
        value = result
    used = [n for n in ("x", "a", "b") if any(n in node.input for node in nodes)]
    info = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 16]) for n in used + ["y"]}
    return _model("chain", nodes, [info[n] for n in used], [info["y"]], [])


def gemm_files():
    for m, k, n in SHAPES:
        for kind in KINDS:
            yield f"{m}x{k}x{n}_{kind}", lambda m=m, k=k, n=n, kind=kind: product(m, k, n, kind)


def chain_files():
    for kinds in (("Add", "Mul"), ("Add", "Relu")):
        yield f"chain_{''.join(kinds).lower()}_1000", lambda kinds=kinds: chain(kinds)
